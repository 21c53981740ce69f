//! Writing files whole or not at all, so that they last: the one way in which any command writes one.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use crate::error::InspectError;

/// What the name of a temporary file begins and ends with.
const TEMPORARY: (&str, &str) = (".regard-", ".tmp");
/// A temporary file that nobody has written to for so long was left by a process that was killed.
const LEFT: Duration = Duration::from_secs(3600);

/// Writes a file so that nobody ever sees a part of it: to a temporary file in the same folder, which is synced and renamed.
/// Then the folder is synced, without which the new name could be lost with the power.
pub fn save_atomically(path: &Path, content: &[u8]) -> Result<(), InspectError> {
    save_streamed(path, |file| file.write_all(content))
}

/// The same for a content that is made while it is written.
pub fn save_streamed(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), InspectError> {
    let save = || -> io::Result<()> {
        let folder = folder_of(path);
        remove_temporary_files(folder, LEFT);
        let mut builder = tempfile::Builder::new();
        // The usual permissions of a new file, less the user's mask, instead of those of a secret one.
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
    save().map_err(|cause| InspectError::Write { path: path.to_path_buf(), cause })
}

/// Makes a folder and all above it that are not there, so that they last.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
    fs::create_dir_all(path)?;
    missing.into_iter().try_for_each(|folder| sync_folder(folder_of(folder)))
}

/// Makes the names in a folder last.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Ok(folder) => folder.sync_all(),
        // Some systems have no way to open a folder.
        Err(_) => Ok(()),
    }
}

/// Removes the temporary files in a folder that nobody has written to for `age`: of processes that were killed while they
/// wrote.
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
            // If it cannot be removed, it does no harm either.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The folder of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
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
    fn what_a_killed_process_left_is_removed_when_it_is_old() {
        let place = tempfile::tempdir().unwrap();
        let [old, new, other] = [".regard-old.tmp", ".regard-new.tmp", "old.tmp"].map(|name| place.path().join(name));
        for path in [&old, &new, &other] {
            fs::write(path, "half").unwrap();
        }
        let an_hour_ago = std::time::SystemTime::now() - LEFT - Duration::from_secs(1);
        for path in [&old, &other] {
            File::options().write(true).open(path).unwrap().set_modified(an_hour_ago).unwrap();
        }
        save_atomically(&place.path().join("a"), b"whole").unwrap();
        assert!(!old.exists() && new.exists() && other.exists());
        remove_temporary_files(place.path(), Duration::ZERO);
        assert!(!new.exists() && other.exists());
    }
}
