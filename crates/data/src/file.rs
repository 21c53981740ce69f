//! Reads whole files as checked UTF-8 text.

use crate::DataError;
use crate::error::excerpt;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The byte-order mark of UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// The text of a file and its path.
#[derive(Clone, Debug, PartialEq)]
pub struct TextFile {
    path: PathBuf,
    text: String,
}

impl TextFile {
    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text without a byte-order mark. Lines end with `\n`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text without copying it.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }
}

/// Reads a file as text and unpacks it if its first bytes say gzip.
///
/// # Errors
/// A missing or empty file, a folder, a pipe, damaged gzip data, or bytes that are not UTF-8 text.
pub fn read_file(path: &Path) -> Result<TextFile, DataError> {
    let text = into_text(path, read_unpacked(path)?)?;
    if text.trim().is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), expected: "lines of text" });
    }
    Ok(TextFile { path: path.to_path_buf(), text })
}

/// Opens a text for reading line by line: a file, gzipped or not, or a pipe. A byte-order mark is skipped.
///
/// # Errors
/// A missing file, a folder, a `.gz` file that is not gzip data, or UTF-16.
pub fn open_text(path: &Path) -> Result<Box<dyn BufRead>, DataError> {
    let mut reader = open_unpacked(path)?;
    let first = reader.fill_buf().map_err(|cause| unpack_error(path, &cause))?;
    if let Some(found) = wide_encoding(first) {
        return Err(DataError::NotText { path: path.to_path_buf(), line: 1, found });
    }
    if first.starts_with(MARK) {
        reader.consume(MARK.len());
    }
    Ok(reader)
}

/// Opens a file for reading, unpacked if its first bytes say gzip.
pub(crate) fn open_unpacked(path: &Path) -> Result<Box<dyn BufRead>, DataError> {
    if path.is_dir() {
        return Err(DataError::IsFolder { path: path.to_path_buf() });
    }
    let fail = |cause| read_error(path, cause);
    let mut packed = BufReader::new(File::open(path).map_err(fail)?);
    let first = packed.fill_buf().map_err(fail)?;
    match first.starts_with(&GZIP_MAGIC) {
        true => Ok(Box::new(BufReader::new(MultiGzDecoder::new(packed)))),
        false if has_extension(path, "gz") && !first.is_empty() => Err(not_gzip(path)),
        false => Ok(Box::new(packed)),
    }
}

/// The first line of a file that is not blank, which shows the format. Bytes that are not UTF-8 are replaced, not refused.
pub(crate) fn first_line(path: &Path) -> Result<String, DataError> {
    /// Largest number of bytes to read: a longer line is not a header.
    const MOST: u64 = 1 << 20;
    let mut reader = open_text(path)?.take(MOST);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).map_err(|cause| unpack_error(path, &cause))? > 0 {
        if !line.trim_ascii().is_empty() {
            break;
        }
        line.clear();
    }
    Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
}

/// Refuses what cannot be read more than once. Data are read for their hash, for the tokeniser and for training.
///
/// # Errors
/// A pipe or a device.
pub fn check_rereadable(path: &Path) -> Result<(), DataError> {
    match path.metadata() {
        Ok(data) if !data.is_file() && !data.is_dir() => Err(DataError::NotFile { path: path.to_path_buf() }),
        _ => Ok(()),
    }
}

/// The bytes of a file, unpacked if its first bytes say gzip.
pub(crate) fn read_unpacked(path: &Path) -> Result<Vec<u8>, DataError> {
    unpack(path, read_bytes(path)?)
}

/// The bytes of a file as stored on disk.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    if path.is_dir() {
        return Err(DataError::IsFolder { path: path.to_path_buf() });
    }
    check_rereadable(path)?;
    std::fs::read(path).map_err(|cause| read_error(path, cause))
}

pub(crate) fn read_error(path: &Path, cause: std::io::Error) -> DataError {
    match cause.kind() {
        std::io::ErrorKind::NotFound => DataError::Missing { path: path.to_path_buf() },
        _ => DataError::Read { path: path.to_path_buf(), cause },
    }
}

/// The extension that names the format, in lower case: `tsv` for `train.tsv.gz`.
pub(crate) fn format_of(path: &Path) -> String {
    let path = if has_extension(path, "gz") { path.with_extension("") } else { path.to_path_buf() };
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Whether the extension says that the file holds JSON Lines.
pub fn is_jsonl(path: &Path) -> bool {
    matches!(format_of(path).as_str(), "jsonl" | "ndjson" | "json")
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case(extension))
}

fn unpack(path: &Path, bytes: Vec<u8>) -> Result<Vec<u8>, DataError> {
    if !bytes.starts_with(&GZIP_MAGIC) {
        return if has_extension(path, "gz") && !bytes.is_empty() { Err(not_gzip(path)) } else { Ok(bytes) };
    }
    let mut unpacked = Vec::new();
    let read = MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked);
    read.map(|_| unpacked).map_err(|cause| unpack_error(path, &cause))
}

fn not_gzip(path: &Path) -> DataError {
    DataError::Gzip { path: path.to_path_buf(), found: "a file named .gz that is not gzip data".into() }
}

pub(crate) fn unpack_error(path: &Path, cause: &std::io::Error) -> DataError {
    use std::io::ErrorKind::{OutOfMemory, UnexpectedEof};
    let path = path.to_path_buf();
    match cause.kind() {
        OutOfMemory => DataError::TooLarge { path },
        UnexpectedEof => DataError::Gzip { path, found: "a truncated file".into() },
        _ => DataError::Gzip { path, found: format!("damage: {cause}") },
    }
}

fn into_text(path: &Path, mut bytes: Vec<u8>) -> Result<String, DataError> {
    if let Some(found) = wide_encoding(&bytes) {
        return Err(DataError::NotText { path: path.to_path_buf(), line: 1, found });
    }
    if bytes.starts_with(MARK) {
        bytes.drain(..MARK.len());
    }
    end_lines_with_lf(&mut bytes);
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
    if !text.contains('\n') && text.trim_end().contains('\r') {
        let found = "lines that end with CR alone, as on old Macintoshes; convert them: tr '\\r' '\\n'";
        return Err(DataError::line(path, 1, "lines that end with LF or CR LF", found));
    }
    Ok(text)
}

/// The name of an encoding with two or four bytes per character, if the bytes look like one, and how to convert it.
fn wide_encoding(bytes: &[u8]) -> Option<String> {
    // Without a byte-order mark: every other byte of mostly ASCII text is zero.
    let start = &bytes[..bytes.len().min(512)];
    let zeros = |from: usize| start.iter().skip(from).step_by(2).filter(|&&b| b == 0).count();
    let most = start.len() * 2 / 5;
    let name = match bytes {
        [0xff, 0xfe, 0, 0, ..] => "UTF-32LE",
        [0, 0, 0xfe, 0xff, ..] => "UTF-32BE",
        [0xff, 0xfe, ..] => "UTF-16LE",
        [0xfe, 0xff, ..] => "UTF-16BE",
        _ if start.len() >= 8 && zeros(1) > most && zeros(0) == 0 => "UTF-16LE",
        _ if start.len() >= 8 && zeros(0) > most && zeros(1) == 0 => "UTF-16BE",
        _ => return None,
    };
    Some(format!("{name}; convert it: iconv -f {name} -t UTF-8"))
}

/// Removes the CR of each CR LF in place, so that a large file is not in memory twice.
fn end_lines_with_lf(bytes: &mut Vec<u8>) {
    let Some(first) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return };
    let mut to = first;
    for from in first..bytes.len() {
        if bytes[from] != b'\r' || bytes.get(from + 1) != Some(&b'\n') {
            bytes[to] = bytes[from];
            to += 1;
        }
    }
    bytes.truncate(to);
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
        // Concatenated members are one file, as `cat a.gz b.gz` writes them.
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
        assert!(error.to_string().contains("a file named .gz that is not gzip data"), "{error}");
    }

    #[test]
    fn bytes_that_are_not_text_are_named_with_their_line() {
        let dir = tempdir().unwrap();
        let error = read_file(&write(&dir, "a.txt", b"one\ntwo\nth\xffree\n")).unwrap_err();
        assert!(error.to_string().contains("line 3 is not UTF-8 text: found byte 0xFF after \"th\""), "{error}");
        let error = read_file(&write(&dir, "a.txt", b"one\n\0\x01")).unwrap_err();
        assert!(error.to_string().contains("line 2 is not UTF-8 text: found a NUL byte"), "{error}");
        let error = read_file(&write(&dir, "a.txt.gz", &gzip(b"\xff\xf8"))).unwrap_err();
        assert!(matches!(error, DataError::NotText { line: 1, .. }), "{error}");
    }

    #[test]
    fn other_encodings_and_line_ends_are_named() {
        let dir = tempdir().unwrap();
        let text = "text,label\ngood,pos\nété,neg\n";
        let wide = |order: fn(u16) -> [u8; 2], mark: &[u16]| -> Vec<u8> {
            mark.iter().copied().chain(text.encode_utf16()).flat_map(order).collect()
        };
        for (bytes, name) in [
            (wide(u16::to_le_bytes, &[0xfeff]), "UTF-16LE"),
            (wide(u16::to_be_bytes, &[0xfeff]), "UTF-16BE"),
            (wide(u16::to_le_bytes, &[]), "UTF-16LE"),
            (wide(u16::to_be_bytes, &[]), "UTF-16BE"),
        ] {
            let path = write(&dir, "a.csv", &bytes);
            let error = read_file(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("found {name}; convert it: iconv -f {name} -t UTF-8")), "{error}");
            assert!(open_text(&path).err().unwrap().to_string().contains(name));
        }
        let error = read_file(&write(&dir, "a.csv", b"text,label\rgood,pos\rbad,neg\r")).unwrap_err().to_string();
        assert!(error.contains("CR alone") && error.contains("tr '\\r' '\\n'"), "{error}");
        assert_eq!(read_file(&write(&dir, "a.txt", b"one\rtwo\r\nthree\r\n")).unwrap().text(), "one\rtwo\nthree\n");
    }

    #[test]
    fn running_out_of_memory_is_not_reported_as_damage() {
        let cause = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let error = unpack_error(Path::new("a.gz"), &cause).to_string();
        assert!(error.contains("does not fit in memory") && !error.contains("damage"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_refused_at_once() {
        let error = read_file(Path::new("/dev/null")).unwrap_err();
        assert!(matches!(error, DataError::NotFile { .. }), "{error}");
    }

    #[test]
    fn lines_are_read_from_packed_and_marked_files() {
        let dir = tempdir().unwrap();
        let text = b"\xef\xbb\xbfone\ntwo\n";
        for (name, content) in [("a.txt", text.to_vec()), ("a.txt.gz", gzip(text))] {
            let lines: Vec<String> =
                open_text(&write(&dir, name, &content)).unwrap().lines().map(Result::unwrap).collect();
            assert_eq!(lines, ["one", "two"]);
        }
        assert!(matches!(open_text(&write(&dir, "b.gz", b"text")).err(), Some(DataError::Gzip { .. })));
        assert!(matches!(open_text(dir.path()).err(), Some(DataError::IsFolder { .. })));
    }

    #[test]
    fn empty_and_missing_files_are_refused() {
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
