//! Finds the parts of a data set of pictures.

use super::classes::{self, Entries, entries, is_picture};
use super::decode::Header;
use super::{ImageSize, LabelledImage, idx};
use crate::error::listed;
use crate::file::check_rereadable;
use crate::folder::names_of;
use crate::{DataError, Loaded, Split};
use std::path::{Path, PathBuf};

/// The parts of a data set.
pub(super) enum Layout {
    /// Pictures that are to be split.
    One(Part),
    /// Parts in a folder.
    Parts { train: Part, dev: Option<Part>, test: Option<Part> },
}

/// Where the pictures of a part are.
#[derive(Clone)]
pub(super) enum Part {
    /// An IDX file of images, with its labels beside it.
    Idx(PathBuf),
    /// A folder per class.
    Classes(PathBuf),
}

/// A part whose files are listed and whose IDX headers are checked.
pub(super) enum Opened {
    Idx(idx::Pair),
    Classes(classes::Pictures),
}

/// Finds the parts of a data set, given a folder or a file of images.
pub(super) fn find(path: &Path) -> Result<Layout, DataError> {
    if !path.exists() {
        return Err(DataError::Missing { path: path.to_path_buf() });
    }
    if !path.is_dir() {
        check_rereadable(path)?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        return match idx::Name::of(&name) {
            Some(_) => Ok(Layout::One(Part::Idx(path.to_path_buf()))),
            None => {
                let expected = "a folder of pictures, or a file such as train-images-idx3-ubyte";
                Err(DataError::format(path, expected, "a file of another name"))
            }
        };
    }
    let Entries { files, folders } = entries(path)?;
    let images: Vec<&String> = files.iter().filter(|name| idx::Name::of(name).is_some()).collect();
    if !images.is_empty() {
        return pairs(path, &images);
    }
    let part = |split| names_of(split).iter().find(|name| folders.iter().any(|folder| folder == *name));
    match part(Split::Train) {
        // A class may be called train as well: its folder holds pictures, that of a part holds folders.
        Some(train) if !entries(&path.join(train))?.folders.is_empty() => {
            let classes = |name: &&str| Part::Classes(path.join(name));
            let [dev, test] = [Split::Dev, Split::Test].map(|split| part(split).map(classes));
            Ok(Layout::Parts { train: classes(train), dev, test })
        }
        _ if folders.is_empty() => {
            let expected =
                "IDX files such as train-images-idx3-ubyte.gz, or a folder for each class, or train/ with them";
            let loose = if files.iter().any(is_picture) { "pictures outside of folders: " } else { "" };
            let found = format!("{loose}{}", listed(&files));
            Err(DataError::Folder { path: path.to_path_buf(), expected: expected.into(), found })
        }
        _ => Ok(Layout::One(Part::Classes(path.to_path_buf()))),
    }
}

/// The parts of a folder with IDX files.
fn pairs(folder: &Path, images: &[&String]) -> Result<Layout, DataError> {
    let part = |split| -> Result<Option<Part>, DataError> {
        let is_of = |name: &&&String| {
            let prefix = idx::Name::of(name).map_or("", |name| name.prefix);
            // MNIST calls its test images t10k.
            let called = names_of(split).iter().chain((split == Split::Test).then_some(&"t10k"));
            let ends = |called: &str| {
                prefix.strip_suffix(called).is_some_and(|rest| rest.is_empty() || rest.ends_with(['-', '_']))
            };
            called.into_iter().any(|called| ends(called))
        };
        match images.iter().filter(is_of).collect::<Vec<_>>()[..] {
            [] => Ok(None),
            [one] => Ok(Some(Part::Idx(folder.join(one)))),
            ref several => {
                let expected = format!("one file of images for {split}");
                Err(DataError::Folder { path: folder.to_path_buf(), expected, found: listed(several) })
            }
        }
    };
    let [train, dev, test] = [part(Split::Train)?, part(Split::Dev)?, part(Split::Test)?];
    match (train, images) {
        (Some(train), _) => Ok(Layout::Parts { train, dev, test }),
        (None, [one]) => Ok(Layout::One(Part::Idx(folder.join(one)))),
        (None, several) => {
            let expected = "train-images-idx3-ubyte among the IDX files".to_string();
            Err(DataError::Folder { path: folder.to_path_buf(), expected, found: listed(several) })
        }
    }
}

impl Part {
    pub(super) fn open(&self) -> Result<Opened, DataError> {
        match self {
            Self::Idx(path) => idx::open(path).map(Opened::Idx),
            Self::Classes(path) => classes::open(path).map(Opened::Classes),
        }
    }

    /// All files of the part.
    pub(super) fn files(&self) -> Result<Vec<PathBuf>, DataError> {
        match self {
            Self::Idx(path) => Ok(idx::files(path)),
            Self::Classes(path) => Ok(classes::open(path)?.paths().cloned().collect()),
        }
    }
}

impl Opened {
    /// The headers of the pictures; one stands for all of an IDX file.
    pub(super) fn headers(&self) -> Result<Vec<Header>, DataError> {
        match self {
            Self::Idx(pair) => Ok(vec![pair.header()]),
            Self::Classes(pictures) => pictures.headers(),
        }
    }

    /// Refuses pictures without labels.
    pub(super) fn check_labelled(&self) -> Result<(), DataError> {
        match self {
            Self::Idx(pair) => pair.check_labelled(),
            Self::Classes(_) => Ok(()),
        }
    }

    pub(super) fn read(self, size: ImageSize) -> Result<Loaded<LabelledImage>, DataError> {
        match self {
            Self::Idx(pair) => Ok(pair.read(size)),
            Self::Classes(pictures) => pictures.read(size),
        }
    }
}
