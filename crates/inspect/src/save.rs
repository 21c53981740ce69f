//! Writing files whole or not at all.

use std::io::Write;
use std::path::Path;

use crate::error::InspectError;

/// A figure that has been written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "it may have a note for the reader"]
pub struct Saved {
    /// Characters that are boxes in the picture.
    pub(crate) lacking: Vec<char>,
}

impl Saved {
    /// What the reader should know of the file, in one line.
    pub fn note(&self) -> Option<String> {
        const SHOWN: usize = 8;
        let some: Vec<String> = self.lacking.iter().take(SHOWN).map(char::to_string).collect();
        let more = if self.lacking.len() > SHOWN { " …" } else { "" };
        let some = some.join(" ") + more;
        let note = format!("no font here has {some}, drawn as boxes in the PNG; write .svg or .html to see them");
        (!self.lacking.is_empty()).then_some(note)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_some_of_the_boxes() {
        assert_eq!(Saved::default().note(), None);
        let note = |text: &str| Saved { lacking: text.chars().collect() }.note().unwrap();
        let end = ", drawn as boxes in the PNG; write .svg or .html to see them";
        assert_eq!(note("日本"), format!("no font here has 日 本{end}"));
        assert_eq!(note("一二三四五六七八九十"), format!("no font here has 一 二 三 四 五 六 七 八 …{end}"));
    }
}
