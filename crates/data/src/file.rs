//! A whole file as checked text.

use crate::DataError;
use crate::error::excerpt;
use flate2::read::MultiGzDecoder;
use std::io::Read;
use std::path::{Path, PathBuf};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A file's text, with where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct TextFile {
    path: PathBuf,
    text: String,
}

impl TextFile {
    /// Where it was read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text: no byte-order mark, lines ended by `\n` alone.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text itself.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }
}

/// Reads a file as text, unpacked when its name or its first bytes say gzip.
///
/// # Errors
/// A missing or empty file, a folder, damaged compression, or bytes that are not text.
pub fn read_file(path: &Path) -> Result<TextFile, DataError> {
    let bytes = unpack(path, read_bytes(path)?)?;
    let text = into_text(path, bytes)?;
    if text.trim().is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), expected: "lines of text" });
    }
    Ok(TextFile { path: path.to_path_buf(), text })
}

/// The bytes of a file as they lie on disk.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    if path.is_dir() {
        return Err(DataError::IsFolder { path: path.to_path_buf() });
    }
    std::fs::read(path).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => DataError::Missing { path: path.to_path_buf() },
        _ => DataError::Read { path: path.to_path_buf(), cause },
    })
}

/// The extension that names the format: that of `train.tsv.gz` is `tsv`.
pub(crate) fn format_of(path: &Path) -> String {
    let path = if has_extension(path, "gz") { path.with_extension("") } else { path.to_path_buf() };
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Whether the file holds one JSON object a line.
pub(crate) fn is_jsonl(path: &Path) -> bool {
    matches!(format_of(path).as_str(), "jsonl" | "ndjson" | "json")
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case(extension))
}

fn unpack(path: &Path, bytes: Vec<u8>) -> Result<Vec<u8>, DataError> {
    let fail = |found: String| DataError::Gzip { path: path.to_path_buf(), found };
    if !bytes.starts_with(&GZIP_MAGIC) {
        if has_extension(path, "gz") && !bytes.is_empty() {
            return Err(fail("other data under the name of .gz".into()));
        }
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    match MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked) {
        Ok(_) => Ok(unpacked),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Err(fail("a truncated file".into())),
        Err(e) => Err(fail(format!("damage: {e}"))),
    }
}

fn into_text(path: &Path, mut bytes: Vec<u8>) -> Result<String, DataError> {
    if bytes.starts_with("\u{feff}".as_bytes()) {
        bytes.drain(..3);
    }
    let not_text = |bytes: &[u8], at: usize, found: String| DataError::NotText {
        path: path.to_path_buf(),
        line: bytes[..at].iter().filter(|&&b| b == b'\n').count() + 1,
        found,
    };
    if let Some(at) = bytes.iter().position(|&b| b == 0) {
        return Err(not_text(&bytes, at, "a NUL byte; is this a binary file?".into()));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let bytes = e.as_bytes();
        let start = bytes[..at].iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
        let before = String::from_utf8_lossy(&bytes[start..at]);
        not_text(bytes, at, format!("byte 0x{:02X} after {}", bytes[at], excerpt(&before)))
    })?;
    Ok(if text.contains('\r') { text.replace("\r\n", "\n") } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gzip, write};
    use tempfile::tempdir;

    #[test]
    fn plain_text_loses_its_mark_and_carriage_returns() {
        let dir = tempdir().unwrap();
        let file = read_file(&write(&dir, "a.txt", b"\xef\xbb\xbfone\r\ntwo\n")).unwrap();
        assert_eq!(file.text(), "one\ntwo\n");
        assert_eq!(file.lines().collect::<Vec<_>>(), [(1, "one"), (2, "two")]);
    }

    #[test]
    fn gzip_is_known_by_name_and_by_magic() {
        let dir = tempdir().unwrap();
        let packed = gzip(b"one\ntwo\n");
        for name in ["a.txt.gz", "a.txt"] {
            assert_eq!(read_file(&write(&dir, name, &packed)).unwrap().text(), "one\ntwo\n");
        }
        // Members one after another are one file, as `cat a.gz b.gz` makes them.
        let two = [packed.clone(), gzip(b"three\n")].concat();
        assert_eq!(read_file(&write(&dir, "b.gz", &two)).unwrap().text(), "one\ntwo\nthree\n");
        assert_eq!(format_of(Path::new("x/train.TSV.gz")), "tsv");
        assert_eq!(format_of(Path::new("x/train.tsv")), "tsv");
        assert_eq!(format_of(Path::new("x/train")), "");
    }

    #[test]
    fn damaged_gzip_is_refused() {
        let dir = tempdir().unwrap();
        let packed = gzip("words ".repeat(500).as_bytes());
        for cut in 3..packed.len() {
            let error = read_file(&write(&dir, "a.gz", &packed[..cut])).unwrap_err();
            assert!(matches!(error, DataError::Gzip { .. }), "cut at {cut}: {error}");
        }
        let mut flipped = packed.clone();
        let crc = flipped.len() - 6;
        flipped[crc] ^= 1;
        assert!(matches!(read_file(&write(&dir, "a.gz", &flipped)).unwrap_err(), DataError::Gzip { .. }));
        let error = read_file(&write(&dir, "a.gz", b"no gzip")).unwrap_err();
        assert!(error.to_string().contains("other data under the name of .gz"), "{error}");
    }

    #[test]
    fn what_is_no_text_is_named_with_its_line() {
        let dir = tempdir().unwrap();
        let error = read_file(&write(&dir, "a.txt", b"one\ntwo\nth\xffree\n")).unwrap_err();
        assert!(error.to_string().contains("line 3 is not UTF-8 text: found byte 0xFF after \"th\""), "{error}");
        let error = read_file(&write(&dir, "a.txt", b"one\n\0\x01")).unwrap_err();
        assert!(error.to_string().contains("line 2 is not UTF-8 text: found a NUL byte"), "{error}");
        let error = read_file(&write(&dir, "a.txt.gz", &gzip(b"\xff\xfe"))).unwrap_err();
        assert!(matches!(error, DataError::NotText { line: 1, .. }), "{error}");
    }

    #[test]
    fn nothing_to_read_is_named() {
        let dir = tempdir().unwrap();
        for content in [b"".as_slice(), b"\n \n", b"\xef\xbb\xbf", &gzip(b"")] {
            let error = read_file(&write(&dir, "a.txt", content)).unwrap_err();
            assert!(matches!(error, DataError::Empty { .. }), "{error}");
        }
        assert!(matches!(read_file(dir.path()).unwrap_err(), DataError::IsFolder { .. }));
        let error = read_file(&dir.path().join("none.txt")).unwrap_err();
        assert!(error.to_string().ends_with("none.txt: there is no such file or folder"), "{error}");
    }
}
