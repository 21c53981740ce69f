//! IDX files: a magic number, the sizes in big-endian order, and bytes.

use super::decode::{Decoded, Header};
use super::{ImageSize, LabelledImage};
use crate::error::{counted, listed};
use crate::file::{open_unpacked, read_file, read_unpacked, unpack_error};
use crate::{DataError, Loaded};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The magic number of bytes in three dimensions: images, rows, columns.
const IMAGES: u32 = 0x0803;
/// The magic number of bytes in one dimension.
const LABELS: u32 = 0x0801;
/// The optional file with one class name per line, beside the labels.
pub(super) const NAMES: &str = "labels.txt";

/// Sign between the name of a file and the number of an image.
const NUMBER: char = '#';

/// Images and their labels, checked but not copied out of their files.
pub(super) struct Pair {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Number of images, height, width.
    sizes: [usize; 3],
    /// The class of each image.
    labels: Option<Vec<String>>,
}

/// The name of a file of images, taken apart.
pub(super) struct Name<'a> {
    /// The beginning, such as `train`, without a trailing separator.
    pub(super) prefix: &'a str,
    /// `-` or `.` before `idx3`.
    separator: &'a str,
}

impl<'a> Name<'a> {
    /// Takes apart `train-images-idx3-ubyte`, with or without `.gz`; `.` may stand before `idx3`.
    pub(super) fn of(name: &'a str) -> Option<Self> {
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let stem = name.strip_suffix("idx3-ubyte")?;
        let separator = ["-", "."].into_iter().find(|separator| stem.ends_with(separator))?;
        let prefix = stem.strip_suffix(separator)?.strip_suffix("images")?;
        Some(Self { prefix: prefix.strip_suffix(['-', '_', '.']).unwrap_or(prefix), separator })
    }
}

/// The file of labels that belongs to a file of images, whether it exists or not, without `.gz`.
fn labels_name(path: &Path) -> Option<PathBuf> {
    let file = path.file_name()?.to_str()?;
    let name = Name::of(file)?;
    let images = format!("images{}idx3-ubyte", name.separator);
    let labels = format!("labels{}idx1-ubyte", name.separator);
    Some(path.with_file_name(file.strip_suffix(".gz").unwrap_or(file).replace(&images, &labels)))
}

/// The file of labels beside a file of images, packed or not.
pub(super) fn labels_of(path: &Path) -> Option<PathBuf> {
    let plain = labels_name(path)?;
    let mut packed = plain.clone().into_os_string();
    packed.push(".gz");
    [plain, packed.into()].into_iter().find(|path| path.is_file())
}

/// All files that belong to a file of images.
pub(super) fn files(path: &Path) -> Vec<PathBuf> {
    let names = Some(path.with_file_name(NAMES)).filter(|path| path.is_file());
    [Some(path.to_path_buf()), labels_of(path), names].into_iter().flatten().collect()
}

/// Reads a pair and checks its headers, lengths and counts.
pub(super) fn open(path: &Path) -> Result<Pair, DataError> {
    let bytes = read_unpacked(path)?;
    let sizes = header::<3>(path, &bytes, IMAGES, "images")?;
    let [count, height, width] = sizes;
    if count == 0 || height == 0 || width == 0 {
        return Err(DataError::format(
            path,
            "at least one image with pixels",
            format!("{count} of {height} × {width}"),
        ));
    }
    let labels = match labels_of(path) {
        None => None,
        Some(file) => {
            let bytes = read_unpacked(&file)?;
            let [found] = header::<1>(&file, &bytes, LABELS, "labels")?;
            if found != count {
                let expected = format!("{} as there are images in {}", counted(count, "label"), path.display());
                return Err(DataError::format(&file, expected, found.to_string()));
            }
            Some(named(&file, &bytes[bytes.len() - count..])?)
        }
    };
    Ok(Pair { path: path.to_path_buf(), bytes, sizes, labels })
}

/// Takes apart the name of an image in an IDX file, `t10k-images-idx3-ubyte.gz#12`.
pub(super) fn numbered(path: &Path) -> Option<(PathBuf, usize)> {
    let (file, number) = path.file_name()?.to_str()?.rsplit_once(NUMBER)?;
    Name::of(file)?;
    Some((path.with_file_name(file), number.parse().ok()?))
}

/// Reads one image without keeping the rest of the file in memory.
pub(super) fn read_one(path: &Path, index: usize) -> Result<Decoded, DataError> {
    let mut file = open_unpacked(path)?;
    let mut read = |most: usize| {
        let mut bytes = Vec::new();
        let read = file.by_ref().take(most as u64).read_to_end(&mut bytes);
        read.map(|_| bytes).map_err(|cause| unpack_error(path, &cause))
    };
    let [count, height, width] = sizes::<3>(path, &read(16)?, IMAGES, "images")?;
    if index >= count {
        let expected = format!("a number below {count}, the number of images");
        return Err(DataError::format(path, expected, index.to_string()));
    }
    // In pieces, since a header may claim any size.
    let mut left = (height * width).saturating_mul(index);
    while left > 0 {
        match read(left.min(1 << 20))?.len() {
            0 => break,
            skipped => left -= skipped,
        }
    }
    let pixels = read(height * width)?;
    match left == 0 && pixels.len() == height * width && !pixels.is_empty() {
        true => Ok(Decoded { channels: 1, height, width, pixels }),
        false => {
            let expected = format!("image {index} of {height} × {width}");
            Err(DataError::format(path, expected, "the end of the file"))
        }
    }
}

/// Reads a header and compares its sizes with the length of the file. Nothing is allocated for sizes that a header claims.
fn header<const N: usize>(path: &Path, bytes: &[u8], magic: u32, what: &str) -> Result<[usize; N], DataError> {
    let sizes = sizes::<N>(path, bytes, magic, what)?;
    let start = 4 + 4 * N;
    let expected = sizes.iter().try_fold(1usize, |all, &n| all.checked_mul(n)).and_then(|all| all.checked_add(start));
    if expected != Some(bytes.len()) {
        let said = sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" × ");
        let expected = expected.map_or("more bytes than any file has".into(), |bytes| counted(bytes, "byte"));
        let expected = format!("{expected} for {said} {what} as the header says");
        return Err(DataError::format(path, expected, bytes.len().to_string()));
    }
    Ok(sizes)
}

/// Reads the sizes in a header.
fn sizes<const N: usize>(path: &Path, bytes: &[u8], magic: u32, what: &str) -> Result<[usize; N], DataError> {
    let mut words = bytes.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    let found = words.next();
    if found != Some(magic) {
        let found = match found {
            Some(IMAGES) => "that of images".into(),
            Some(LABELS) => "that of labels".into(),
            Some(found) => format!("{found:#010x}"),
            None => counted(bytes.len(), "byte"),
        };
        return Err(DataError::format(path, format!("the magic number {magic:#010x} of IDX {what}"), found));
    }
    let start = 4 + 4 * N;
    if bytes.len() < start {
        let expected = format!("a header of {start} bytes");
        return Err(DataError::format(path, expected, counted(bytes.len(), "byte")));
    }
    Ok(std::array::from_fn(|_| words.next().unwrap_or_default() as usize))
}

/// The names of classes: those in `labels.txt`, or else the numbers.
fn named(path: &Path, labels: &[u8]) -> Result<Vec<String>, DataError> {
    let file = path.with_file_name(NAMES);
    if !file.is_file() {
        return Ok(labels.iter().map(ToString::to_string).collect());
    }
    let text = read_file(&file)?;
    let names: Vec<&str> = text.text().trim_end().lines().map(str::trim).collect();
    let twice = |at: usize| names[..at].contains(&names[at]);
    if let Some(at) = (0..names.len()).find(|&at| names[at].is_empty() || twice(at)) {
        let found = if names[at].is_empty() { "an empty line".into() } else { format!("{:?} again", names[at]) };
        return Err(DataError::format(&file, format!("another name of a class in line {}", at + 1), found));
    }
    let name = |&label: &u8| {
        names.get(usize::from(label)).map(ToString::to_string).ok_or_else(|| {
            let expected = format!("a name for label {label} of {}", path.display());
            DataError::format(&file, expected, format!("{}: {}", counted(names.len(), "name"), listed(&names)))
        })
    };
    labels.iter().map(name).collect()
}

impl Pair {
    pub(super) fn header(&self) -> Header {
        Header { height: self.sizes[1], width: self.sizes[2], is_grey: true }
    }

    /// The name of each image.
    pub(super) fn names(&self) -> Vec<String> {
        (0..self.sizes[0]).map(|at| format!("{}{NUMBER}{at}", self.path.display())).collect()
    }

    /// Refuses images without labels.
    pub(super) fn check_labelled(&self) -> Result<(), DataError> {
        if self.labels.is_some() {
            return Ok(());
        }
        let name = labels_name(&self.path);
        let name = name.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let expected = format!("labels in {}(.gz) beside it", name.unwrap_or_else(|| "labels-idx1-ubyte".into()));
        Err(DataError::format(&self.path, expected, "no such file"))
    }

    pub(super) fn read(self, size: ImageSize) -> Loaded<LabelledImage> {
        let [_, height, width] = self.sizes;
        let mut labels = self.labels.map(Vec::into_iter);
        let images = self.bytes[16..].chunks_exact(height * width).enumerate().map(|(at, pixels)| {
            let stored = Decoded { channels: 1, height, width, pixels: pixels.to_vec() };
            let hash = stored.hash();
            LabelledImage {
                image: stored.fitted(size),
                label: labels.as_mut().and_then(Iterator::next),
                name: format!("{}{NUMBER}{at}", self.path.display()),
                hash,
            }
        });
        Loaded { examples: images.collect(), notes: Vec::new() }
    }
}
