//! A folder per class with PNG and JPEG files in it.

use super::decode::Header;
use super::{ImageSize, LabelledImage, fit, read_hashed};
use crate::error::listed;
use crate::{DataError, Loaded};
use std::path::{Path, PathBuf};

/// The pictures of all classes.
pub(super) struct Pictures {
    /// File and class, sorted by class and then by name.
    files: Vec<(PathBuf, String)>,
    notes: Vec<String>,
}

/// Files and folders in a folder, sorted, without hidden ones.
pub(super) struct Entries {
    pub(super) files: Vec<String>,
    pub(super) folders: Vec<String>,
}

/// Lists a folder.
pub(super) fn entries(folder: &Path) -> Result<Entries, DataError> {
    let fail = |cause| crate::file::read_error(folder, cause);
    let mut entries = Entries { files: Vec::new(), folders: Vec::new() };
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            let of = if entry.path().is_dir() { &mut entries.folders } else { &mut entries.files };
            of.push(name);
        }
    }
    entries.files.sort();
    entries.folders.sort();
    Ok(entries)
}

/// Whether the name says PNG or JPEG.
pub fn is_picture(name: impl AsRef<Path>) -> bool {
    let extension = name.as_ref().extension().map(|extension| extension.to_string_lossy().to_lowercase());
    matches!(extension.as_deref(), Some("png" | "jpg" | "jpeg"))
}

/// Lists the pictures of a folder per class.
pub(super) fn open(folder: &Path) -> Result<Pictures, DataError> {
    let Entries { files: mut others, folders } = entries(folder)?;
    let mut files = Vec::new();
    for class in &folders {
        let within = entries(&folder.join(class))?;
        let (pictures, rest): (Vec<_>, Vec<_>) = within.files.into_iter().partition(|name| is_picture(name));
        if pictures.is_empty() {
            others.push(format!("{class}/"));
            continue;
        }
        files.extend(pictures.iter().map(|name| (folder.join(class).join(name), class.clone())));
        others.extend(rest.iter().map(|name| format!("{class}/{name}")));
        others.extend(within.folders.iter().map(|name| format!("{class}/{name}/")));
    }
    if files.is_empty() {
        let found = listed(&others);
        let expected = "a folder for each class with PNG or JPEG pictures".to_string();
        return Err(DataError::Folder { path: folder.to_path_buf(), expected, found });
    }
    let note = || format!("{}: left out, not PNG or JPEG: {}", folder.display(), listed(&others));
    let notes = if others.is_empty() { Vec::new() } else { vec![note()] };
    Ok(Pictures { files, notes })
}

impl Pictures {
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().map(|(path, _)| path)
    }

    pub(super) fn headers(&self) -> Result<Vec<Header>, DataError> {
        self.paths().map(|path| fit::header(path)).collect()
    }

    pub(super) fn read(self, size: ImageSize) -> Result<Loaded<LabelledImage>, DataError> {
        let read = |(path, label): (PathBuf, String)| {
            let name = path.display().to_string();
            let (image, hash) = read_hashed(&path, size)?;
            Ok(LabelledImage { image, label: Some(label), name, hash })
        };
        Ok(Loaded { examples: self.files.into_iter().map(read).collect::<Result<_, _>>()?, notes: self.notes })
    }
}
