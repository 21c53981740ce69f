//! Durable, atomic file writes. Every command writes its files through this module.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Error from writing a file.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The folder of the file does not exist.
    #[error("{path}: the folder of this file does not exist; create it first")]
    Folder {
        /// The file to be written.
        path: PathBuf,
    },
    /// The operating system could not write the file.
    #[error("{path}: could not be written: {cause}")]
    Write {
        /// The file to be written.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
}

/// Prefix and suffix of the names of temporary files.
const TEMPORARY: (&str, &str) = (".regard-", ".tmp");
/// Age at which a temporary file counts as abandoned by a process that was killed.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// Writes a file so that a reader sees either the old content or all of the new one. The content goes to a temporary file in
/// the same folder, which is synced and renamed. Then the folder is synced: otherwise a power cut could lose the new name.
pub fn save_atomically(path: &Path, content: &[u8]) -> Result<(), SaveError> {
    save_streamed(path, |file| file.write_all(content))
}

/// Like [`save_atomically`], for content that `write` produces piece by piece.
pub fn save_streamed(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), SaveError> {
    let save = || -> io::Result<()> {
        let folder = folder_of(path);
        remove_temporary_files(folder, ABANDONED_AFTER);
        let mut builder = tempfile::Builder::new();
        // Give the file ordinary permissions (the umask applies): by default only its owner could read it.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.prefix(TEMPORARY.0).suffix(TEMPORARY.1).tempfile_in(folder)?;
        let mut buffered = BufWriter::new(file);
        write(&mut buffered)?;
        let file = buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        sync_folder(folder)
    };
    save().map_err(|cause| SaveError::Write { path: path.to_path_buf(), cause })
}

/// Creates a folder and its missing parents, and syncs the folders that contain them.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
    fs::create_dir_all(path)?;
    missing.into_iter().try_for_each(|folder| sync_folder(folder_of(folder)))
}

/// Syncs a folder, so that the names in it survive a power cut.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Ok(folder) => folder.sync_all(),
        // Some operating systems cannot open a folder.
        Err(_) => Ok(()),
    }
}

/// Removes the temporary files in a folder that are at least `age` old: a process was killed while it wrote them.
pub fn remove_temporary_files(folder: &Path, age: Duration) {
    let is_temporary = |name: &OsStr| {
        let name = name.to_string_lossy();
        name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1)
    };
    let is_old = |entry: &fs::DirEntry| {
        let written = entry.metadata().and_then(|data| data.modified()).ok();
        written.and_then(|written| written.elapsed().ok()).is_some_and(|elapsed| elapsed >= age)
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_temporary(&entry.file_name()) && is_old(&entry) {
            // A file that cannot be removed does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Checks that the folder of a file exists, for commands that compute for a long time before they write.
pub fn check_folder(path: &Path) -> Result<(), SaveError> {
    if folder_of(path).is_dir() { Ok(()) } else { Err(SaveError::Folder { path: path.to_path_buf() }) }
}

/// Returns the folder that holds a file.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_the_old_file_and_nothing_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.json");
        save_atomically(&path, b"old").unwrap();
        save_atomically(&path, b"new").unwrap();
        let failing = |file: &mut dyn Write| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        let error = save_streamed(&path, failing).unwrap_err().to_string();
        assert!(error.contains("a.json"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        assert!(save_atomically(&place.path().join("no/such/a.json"), b"new").is_err());
    }

    #[test]
    fn old_temporary_files_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let [old, new, other] = [".regard-old.tmp", ".regard-new.tmp", "old.tmp"].map(|name| place.path().join(name));
        for path in [&old, &new, &other] {
            fs::write(path, "half").unwrap();
        }
        let an_hour_ago = std::time::SystemTime::now() - ABANDONED_AFTER - Duration::from_secs(1);
        for path in [&old, &other] {
            File::options().write(true).open(path).unwrap().set_modified(an_hour_ago).unwrap();
        }
        save_atomically(&place.path().join("a"), b"whole").unwrap();
        assert!(!old.exists() && new.exists() && other.exists());
        remove_temporary_files(place.path(), Duration::ZERO);
        assert!(!new.exists() && other.exists());
    }
}
