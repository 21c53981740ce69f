//! Pictures with a class: IDX files and folders of PNG and JPEG.
//!
//! Layouts:
//! - IDX pairs, plain or gzipped, as MNIST has them: `train-images-idx3-ubyte` with `train-labels-idx1-ubyte` beside it, and
//!   `t10k-…` or `test-…`, `dev-…` or `val-…`; or a single pair, given by its images. `labels.txt` names the classes;
//! - a folder per class, `DIR/cat/1.png`, or such folders in `DIR/train`, `DIR/dev` (or `val`) and `DIR/test`.
//!
//! All pictures are brought to one size and to grey or colour, see [`Fit`].

mod classes;
mod decode;
mod encode;
mod fit;
mod idx;
mod layout;
mod resize;
#[cfg(test)]
mod tests;

use crate::file::read_bytes;
use crate::hash::Fnv;
use crate::split::{complete, fingerprint_of, finish, split_one};
use crate::{DataError, Fold, Loaded, Source, Splits};
pub use classes::is_picture;
use decode::Decoded;
pub use fit::{Colours, Fit, Side};
use layout::{Layout, Part};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// Size of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageSize {
    /// 1 for grey, 3 for red, green and blue.
    pub channels: usize,
    /// Number of rows of pixels.
    pub height: usize,
    /// Number of pixels of a row.
    pub width: usize,
}

impl ImageSize {
    /// Number of values of a picture of this size.
    pub fn values(self) -> usize {
        self.channels * self.height * self.width
    }
}

impl fmt::Display for ImageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colours = if self.channels == 1 { "grey" } else { "colour" };
        write!(f, "{} × {} in {colours}", self.height, self.width)
    }
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Size of the picture.
    pub size: ImageSize,
    /// Brightness `[channels, height, width]`, 0 is black.
    pub pixels: Vec<u8>,
}

impl Image {
    /// Hash of the size and the pixels.
    pub fn hash(&self) -> u64 {
        hash_of(self.size, self.pixels.iter().copied())
    }
}

/// Hash of a size and of values `[channels, height, width]`.
fn hash_of(ImageSize { channels, height, width }: ImageSize, values: impl Iterator<Item = u8>) -> u64 {
    let mut state = Fnv::default();
    [channels, height, width].into_iter().for_each(|n| state.write(&(n as u64).to_le_bytes()));
    values.for_each(|value| state.write(&[value]));
    state.finish()
}

/// A picture and its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledImage {
    /// The picture, in the size of its data set.
    pub image: Image,
    /// The class; none in data that are only to be predicted.
    pub label: Option<String>,
    /// Where the picture comes from, as [`read_image`] takes it: its file, or the IDX file and the number, `FILE#12`.
    pub name: String,
    /// Hash of the pixels as the file has them. It chooses the split, which therefore does not depend on [`Fit`].
    pub hash: u64,
}

/// The number of training examples and of those held out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The number of training images at the end of an IDX file that are used as dev.
    pub dev: Option<usize>,
    /// The number of training images to keep. They are chosen by a hash of their content, so that a smaller number keeps a
    /// subset of what a larger one keeps.
    pub limit: Option<usize>,
}

/// Decodes a PNG or JPEG picture and brings it to a size. `what` names the picture in errors.
///
/// A picture of another size is resized with a triangle filter that covers all source pixels (bilinear with antialiasing);
/// its proportions may change. Transparent parts are white, colours become grey by ITU-R 601 luma weights.
///
/// # Errors
/// Bytes that are neither PNG nor JPEG, truncated or damaged ones, and a header that says too many pixels.
pub fn decode_image(bytes: &[u8], what: &Path, size: ImageSize) -> Result<Image, DataError> {
    Ok(decode_as_stored(bytes, what)?.fitted(size))
}

fn decode_as_stored(bytes: &[u8], what: &Path) -> Result<Decoded, DataError> {
    decode::decode(bytes).map_err(|(expected, found)| DataError::format(what, expected, found))
}

/// Reads a PNG or JPEG file as [`decode_image`] does, or one image of an IDX file: `t10k-images-idx3-ubyte.gz#12`, from 0.
///
/// # Errors
/// The errors of [`decode_image`]; a file that cannot be read; an IDX file with fewer images.
pub fn read_image(path: &Path, size: ImageSize) -> Result<Image, DataError> {
    Ok(read_as_stored(path)?.fitted(size))
}

fn read_as_stored(path: &Path) -> Result<Decoded, DataError> {
    match idx::numbered(path) {
        Some((path, index)) => idx::read_one(&path, index),
        None => decode_as_stored(&read_bytes(path)?, path),
    }
}

/// Reads a picture with the hash of its pixels as the file has them.
fn read_hashed(path: &Path, size: ImageSize) -> Result<(Image, u64), DataError> {
    let stored = read_as_stored(path)?;
    let hash = stored.hash();
    Ok((stored.fitted(size), hash))
}

/// Reads PNG and JPEG files, all in the size that [`Fit`] finds for them, each with the hash of its pixels as the file has them.
///
/// # Errors
/// The errors of [`read_image`].
pub fn read_image_files(files: &[PathBuf], fit: &Fit) -> Result<Loaded<(Image, u64)>, DataError> {
    let headers = files.iter().map(|file| fit::header(file)).collect::<Result<Vec<_>, _>>()?;
    let (size, note) = fit.resolve(&headers);
    let examples = files.iter().map(|file| read_hashed(file, size)).collect::<Result<_, _>>()?;
    Ok(Loaded { examples, notes: note.into_iter().collect() })
}

/// Reads one part: the pair of an IDX file of images, or a folder per class. A pair without labels gives pictures without
/// labels.
///
/// # Errors
/// The errors of [`load_images`].
pub fn read_images(path: &Path, fit: &Fit) -> Result<Loaded<LabelledImage>, DataError> {
    let part = match layout::find(path)? {
        Layout::One(part) => part,
        Layout::Parts { .. } => {
            let expected = "one part of a data set: a file of images or a folder per class".to_string();
            return Err(DataError::Folder { path: path.to_path_buf(), expected, found: "several parts".into() });
        }
    };
    let opened = part.open()?;
    let (size, note) = fit.resolve(&opened.headers()?);
    let mut loaded = opened.read(size)?;
    loaded.notes.extend(note);
    Ok(loaded)
}

/// Reads a data set of pictures. One part alone is split by the hash of the pixels as the files have them.
///
/// # Errors
/// Files and folders of another layout; IDX files with another magic number, or of another length than their header says;
/// pictures that are truncated, damaged or too large; pictures without labels; a part without examples; numbers in [`Held`]
/// that do not fit the data.
pub fn load_images(source: &Source, fit: &Fit, held: Held) -> Result<Splits<LabelledImage>, DataError> {
    let Source { path, fold } = source;
    let layout = layout::find(path)?;
    if let (Layout::Parts { .. }, Some(fold)) = (&layout, fold) {
        return Err(fold.of_parts(path));
    }
    check_dev(held.dev, &layout, *fold)?;
    let is_one = matches!(layout, Layout::One(_));
    let [train, dev, test] = match layout {
        Layout::One(part) => [Some(part), None, None],
        Layout::Parts { train, dev, test } => [Some(train), dev, test],
    };
    let open = |part: Option<Part>| part.map(|part| part.open()).transpose();
    let opened = [open(train)?, open(dev)?, open(test)?];
    let mut headers = Vec::new();
    for part in opened.iter().flatten() {
        part.check_labelled()?;
        headers.extend(part.headers()?);
    }
    let (size, note) = fit.resolve(&headers);
    let [train, dev, test] = opened.map(|part| part.map(|part| part.read(size)).transpose());
    let (mut train, mut dev, test) = (train?.unwrap_or_default(), dev?, test?);
    train.notes.extend(note);
    if let Some(count) = held.dev {
        let all = train.examples.len();
        if !(1..all).contains(&count) {
            let expected = format!("from 1 to {}, below the number of training images", all - 1);
            return Err(DataError::Setting { field: "data.dev", expected, found: count.to_string() });
        }
        let notes = vec![format!("dev is the last {count} training images")];
        dev = Some(Loaded { examples: train.examples.split_off(all - count), notes });
    }
    let key = |example: &LabelledImage| example.hash;
    let splits = match is_one && held.dev.is_none() {
        true => split_one(train, *fold, key),
        false => complete(train, [dev, test], key, "part"),
    };
    let mut splits = finish(path, splits)?;
    if let Some(limit) = held.limit {
        limit_images(&mut splits, limit)?;
    }
    Ok(splits)
}

/// The names of all images of an IDX file, as [`read_image`] takes them; none for a file of another name.
///
/// # Errors
/// The errors of [`load_images`] for this file.
pub fn idx_names(path: &Path) -> Result<Option<Vec<String>>, DataError> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    idx::Name::of(&name).map(|_| Ok(idx::open(path)?.names())).transpose()
}

/// Computes a hash of the files of a data set of pictures, so that a resumed run can refuse changed data.
///
/// # Errors
/// Files of another layout, or that cannot be read.
pub fn fingerprint_images(path: &Path) -> Result<String, DataError> {
    let parts = match layout::find(path)? {
        Layout::One(part) => vec![part],
        Layout::Parts { train, dev, test } => [Some(train), dev, test].into_iter().flatten().collect(),
    };
    let mut files = Vec::new();
    for part in parts {
        files.extend(part.files()?);
    }
    let named = files.into_iter().map(|file| {
        // The folder of a picture is its class, so the name belongs to the data.
        let name = file.strip_prefix(path).unwrap_or(&file).to_string_lossy().into_owned();
        (name, file)
    });
    fingerprint_of(named)
}

/// Refuses a number of dev images where it would be ambiguous.
fn check_dev(dev: Option<usize>, layout: &Layout, fold: Option<Fold>) -> Result<(), DataError> {
    let Some(count) = dev else { return Ok(()) };
    let expected = match layout {
        Layout::One(Part::Classes(_)) | Layout::Parts { train: Part::Classes(_), .. } => {
            "no number: the last pictures of a folder per class are all of the last class"
        }
        Layout::Parts { dev: Some(_), .. } => "no number, since the folder has a dev part",
        Layout::One(_) if fold.is_some() => "no number together with a fold",
        _ => return Ok(()),
    };
    Err(DataError::Setting { field: "data.dev", expected: expected.into(), found: count.to_string() })
}

/// Keeps `limit` training images, chosen by a hash of their content, in their order; see [`Held::limit`].
///
/// # Errors
/// Unless there are as many images, and at least one.
pub fn limit_images(splits: &mut Splits<LabelledImage>, limit: usize) -> Result<(), DataError> {
    let all = splits.train.len();
    if limit == 0 || limit > all {
        let expected = format!("from 1 to {all}, the number of training images");
        return Err(DataError::Setting { field: "data.limit", expected, found: limit.to_string() });
    }
    let mut order: Vec<(u64, usize)> =
        splits.train.iter().enumerate().map(|(at, example)| (example.hash, at)).collect();
    order.sort_unstable();
    let mut kept = vec![false; all];
    order[..limit].iter().for_each(|&(_, at)| kept[at] = true);
    let mut at = 0;
    splits.train.retain(|_| (kept[at], at += 1).0);
    if limit < all {
        splits.notes.push(format!("{limit} of {all} training images, chosen by a hash of their content"));
    }
    Ok(())
}
