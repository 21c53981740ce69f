//! Writing files whole or not at all.

use std::io::Write;
use std::path::Path;

use crate::error::InspectError;

/// Writes a file so that nobody ever sees a part of it: to a temporary file in the same folder, synced, then renamed.
pub fn save_atomically(path: &Path, content: &[u8]) -> Result<(), InspectError> {
    write(path, content).map_err(|cause| InspectError::Write { path: path.to_path_buf(), cause })
}

/// Where the file stands.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut builder = tempfile::Builder::new();
    // The usual permissions of a new file, less the user's mask, instead of those of a secret one.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.prefix(".regard-").suffix(".tmp").tempfile_in(folder_of(path))?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
