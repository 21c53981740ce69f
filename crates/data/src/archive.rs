//! Files inside a tar archive, plain or packed with gzip or xz, read as they are without unpacking them to disk.

use crate::DataError;
use crate::file::{check_rereadable, read_error};
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Separates the path of an archive from the name of a file in it.
const MARK: char = '#';
/// Largest number of bytes that an archive may unpack to: a small file can hold far more zeros than a machine has memory.
const MOST_UNPACKED: u64 = 4 << 30;

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Path of the file inside the archive, with `/` between folders and without a leading `./`.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// Whether a path is named like an archive: `.tar`, `.tar.gz`, `.tgz`, `.tar.xz` or `.txz`.
pub fn is_archive(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    [".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz"].iter().any(|end| name.ends_with(end))
}

/// Reads the files of an archive whose names are wanted, sorted by name. Folders, links, devices and hidden files are left out.
///
/// # Errors
/// A missing file, truncated or damaged data, more than 4 GiB of unpacked content, and two files of one name.
pub fn read_archive(path: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<Member>, DataError> {
    let mut members = Vec::new();
    for_each(path, |name, content| {
        if wanted(&name) {
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes)?;
            members.push(Member { name, bytes });
        }
        Ok(Next::Go)
    })?;
    members.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = members.windows(2).find(|pair| pair[0].name == pair[1].name) {
        let found = format!("{} twice", pair[0].name);
        return Err(DataError::format(path, "an archive with distinct names", found));
    }
    Ok(members)
}

/// The path of an archive and the name of a file in it, for `sounds.tar.xz#one/1.wav`; none for other paths.
pub fn member_of(path: &Path) -> Option<(PathBuf, String)> {
    let text = path.to_str()?;
    let (archive, name) =
        text.match_indices(MARK).map(|(at, _)| (&text[..at], &text[at + 1..])).find(|(a, _)| is_archive(a.as_ref()))?;
    Some((PathBuf::from(archive), name.to_string()))
}

/// The name by which [`member_of`] finds a file of an archive.
pub fn member_name(archive: &Path, member: &str) -> String {
    format!("{}{MARK}{member}", archive.display())
}

/// Reads one file of an archive.
///
/// # Errors
/// The errors of [`read_archive`]; an archive without a file of this name.
pub fn read_member(archive: &Path, member: &str) -> Result<Vec<u8>, DataError> {
    let mut bytes = None;
    for_each(archive, |name, content| {
        if name != member {
            return Ok(Next::Go);
        }
        content.read_to_end(bytes.insert(Vec::new()))?;
        Ok(Next::Stop)
    })?;
    bytes.ok_or_else(|| DataError::format(archive, format!("a file {member} in the archive"), "none of this name"))
}

/// Whether to read on after a file.
enum Next {
    Go,
    Stop,
}

/// Calls `with` with the name and the content of each regular file.
fn for_each(
    path: &Path,
    mut with: impl FnMut(String, &mut dyn Read) -> std::io::Result<Next>,
) -> Result<(), DataError> {
    let fail = |cause: std::io::Error| damaged(path, cause);
    let mut archive = tar::Archive::new(open(path)?);
    for entry in archive.entries().map_err(fail)? {
        let mut entry = entry.map_err(fail)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = name.strip_prefix("./").unwrap_or(&name);
        let is_hidden = name.split('/').any(|part| part.starts_with('.'));
        if !entry.header().entry_type().is_file() || is_hidden {
            continue;
        }
        let size = entry.size();
        let mut counted = Counted { inner: &mut entry, read: 0 };
        let next = with(name.to_string(), &mut counted).map_err(fail)?;
        // The tar reader ends a truncated last file without an error.
        if counted.read != 0 && counted.read != size {
            return Err(DataError::format(path, format!("{size} bytes of {name}"), format!("{} bytes", counted.read)));
        }
        if matches!(next, Next::Stop) {
            return Ok(());
        }
    }
    // The checksum of packed data comes after the end of the archive.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink()).map_err(fail)?;
    Ok(())
}

/// A reader that counts.
struct Counted<R> {
    inner: R,
    read: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read += read as u64;
        Ok(read)
    }
}

/// A reader that refuses to go beyond a number of bytes.
struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or(std::io::Error::from(std::io::ErrorKind::FileTooLarge))?;
        Ok(read)
    }
}

/// Opens an archive, unpacked as its first bytes say.
fn open(path: &Path) -> Result<Limited<Box<dyn Read>>, DataError> {
    if path.is_dir() {
        return Err(DataError::IsFolder { path: path.to_path_buf() });
    }
    check_rereadable(path)?;
    let fail = |cause| read_error(path, cause);
    let mut packed = BufReader::new(File::open(path).map_err(fail)?);
    let inner: Box<dyn Read> = match packed.fill_buf().map_err(fail)? {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(packed)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Box::new(XzDecoder::new_multi_decoder(packed)),
        [] => return Err(DataError::Empty { path: path.to_path_buf(), expected: "an archive" }),
        _ => Box::new(packed),
    };
    Ok(Limited { inner, left: MOST_UNPACKED })
}

fn damaged(path: &Path, cause: std::io::Error) -> DataError {
    use std::io::ErrorKind::{FileTooLarge, OutOfMemory};
    match cause.kind() {
        FileTooLarge | OutOfMemory => DataError::TooLarge { path: path.to_path_buf() },
        _ => DataError::format(path, "a complete tar archive, plain or packed with gzip or xz", format!("{cause}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gzip, write};
    use std::io::Write;
    use tempfile::tempdir;

    /// A tar archive of files.
    fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn xz(content: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 6);
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn sample() -> Vec<u8> {
        let long = format!("b/{}.txt", "x".repeat(150));
        tar(&[("b/2.txt", &[7; 1_000]), ("a/1.txt", b"one"), ("a/.hidden", b"no"), ("a/0.bin", b""), (&long, b"long")])
    }

    #[test]
    fn archives_are_known_by_their_names() {
        for name in ["a.tar", "a.TAR.gz", "b/a.tgz", "a.tar.xz", "a.txz"] {
            assert!(is_archive(Path::new(name)), "{name}");
        }
        for name in ["a.gz", "tar", "a.tar.bz2", "a.xz"] {
            assert!(!is_archive(Path::new(name)), "{name}");
        }
        let (archive, name) = member_of(Path::new("x/y.tar.xz#a/1.txt")).unwrap();
        assert_eq!((archive.to_str().unwrap(), name.as_str()), ("x/y.tar.xz", "a/1.txt"));
        assert_eq!(member_name(&archive, &name), "x/y.tar.xz#a/1.txt");
        assert_eq!(member_of(Path::new("x#y.tar#b#c")).unwrap().1, "b#c");
        assert!(member_of(Path::new("x.wav#3")).is_none() && member_of(Path::new("a.tar")).is_none());
    }

    #[test]
    fn files_are_sorted_and_chosen_by_name() {
        let dir = tempdir().unwrap();
        let plain = sample();
        for (name, content) in [("a.tar", plain.clone()), ("a.tgz", gzip(&plain)), ("a.tar.xz", xz(&plain))] {
            let path = write(&dir, name, &content);
            let all = read_archive(&path, |_| true).unwrap();
            let names: Vec<&str> = all.iter().map(|member| member.name.as_str()).collect();
            assert_eq!(names[..3], ["a/0.bin", "a/1.txt", "b/2.txt"]);
            assert_eq!((names.len(), names[3].len()), (4, 156));
            assert_eq!((all[1].bytes.as_slice(), all[2].bytes.len()), (&b"one"[..], 1_000));
            assert_eq!(read_archive(&path, |name| name.ends_with(".bin")).unwrap().len(), 1);
            assert_eq!(read_member(&path, "a/1.txt").unwrap(), b"one");
            let error = read_member(&path, "a/2.txt").unwrap_err().to_string();
            assert!(error.contains("expected a file a/2.txt in the archive, found none of this name"), "{error}");
        }
    }

    #[test]
    fn damaged_archives_are_refused() {
        let dir = tempdir().unwrap();
        let plain = sample();
        for (name, content) in [("a.tar.gz", gzip(&plain)), ("a.tar.xz", xz(&plain))] {
            for cut in [7, content.len() / 2, content.len() - 9] {
                let path = write(&dir, name, &content[..cut]);
                let error = read_archive(&path, |_| true).unwrap_err().to_string();
                assert!(error.contains("expected a complete tar archive"), "{name} cut at {cut}: {error}");
            }
        }
        let error = read_archive(&write(&dir, "a.tar", &plain[..700]), |_| true).unwrap_err().to_string();
        assert!(error.contains("1000 bytes of b/2.txt") || error.contains("complete tar archive"), "{error}");
        let error = read_archive(&write(&dir, "a.tar", b"no archive at all"), |_| true).unwrap_err().to_string();
        assert!(error.contains("expected a complete tar archive"), "{error}");
        assert!(matches!(read_archive(&write(&dir, "a.tar", b""), |_| true), Err(DataError::Empty { .. })));
        assert!(matches!(read_archive(dir.path(), |_| true), Err(DataError::IsFolder { .. })));
        assert!(matches!(read_archive(&dir.path().join("no.tar"), |_| true), Err(DataError::Missing { .. })));
        let twice = write(&dir, "a.tar", &tar(&[("a", b"1"), ("a", b"2")]));
        assert!(read_archive(&twice, |_| true).unwrap_err().to_string().ends_with("found a twice"));
    }

    #[test]
    fn an_archive_that_unpacks_to_too_much_is_refused() {
        let mut limited = Limited { inner: std::io::repeat(0), left: 10_000 };
        let cause = limited.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(damaged(Path::new("a.tar"), cause).to_string().contains("does not fit in memory"));
    }
}
