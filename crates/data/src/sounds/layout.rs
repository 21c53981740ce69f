//! Finds the recordings of a data set, their answers and their parts.

use super::{Recording, decode_wav, is_wav};
use crate::archive::{Member, is_archive, member_name, read_archive};
use crate::error::{counted, excerpt, listed};
use crate::file::{check_rereadable, first_line, format_of, read_bytes, read_error, read_file};
use crate::folder::names_of;
use crate::split::fingerprint_of;
use crate::{DataError, Loaded, Split};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

/// Depth to which folders are searched.
const DEEPEST: usize = 6;

/// The parts of a data set.
pub(super) enum Layout {
    /// Recordings that are to be split.
    One(Part),
    /// Parts in a folder or an archive.
    Parts { train: Part, dev: Option<Part>, test: Option<Part> },
}

/// The recordings of a part.
pub(super) struct Part {
    files: Rc<Files>,
    recordings: Vec<Named>,
    notes: Vec<String>,
}

/// A recording that is not yet read.
struct Named {
    /// Name in [`Files`].
    file: String,
    answer: String,
}

/// The files of a folder or an archive, by their paths inside it.
struct Files {
    root: PathBuf,
    names: Vec<String>,
    /// The content of the files of an archive; none for a folder.
    packed: Option<BTreeMap<String, Vec<u8>>>,
}

impl Files {
    fn open(root: &Path) -> Result<Self, DataError> {
        if !root.exists() {
            return Err(DataError::Missing { path: root.to_path_buf() });
        }
        let wanted = |name: &str| is_wav(name) || format_of(Path::new(name)) == "tsv";
        if root.is_dir() {
            let mut names = Vec::new();
            walk(root, "", DEEPEST, &mut names)?;
            names.retain(|name| wanted(name));
            names.sort();
            return Ok(Self { root: root.to_path_buf(), names, packed: None });
        }
        let members = read_archive(root, wanted)?;
        let names = members.iter().map(|member| member.name.clone()).collect();
        let packed = members.into_iter().map(|Member { name, bytes }| (name, bytes)).collect();
        Ok(Self { root: root.to_path_buf(), names, packed: Some(packed) })
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, DataError> {
        match &self.packed {
            Some(files) => Ok(files.get(name).cloned().unwrap_or_default()),
            None => read_bytes(&self.root.join(name)),
        }
    }

    /// The name by which a user finds the file.
    fn shown(&self, name: &str) -> String {
        match self.packed {
            Some(_) => member_name(&self.root, name),
            None => self.root.join(name).display().to_string(),
        }
    }
}

/// Lists all files below a folder that are not hidden.
fn walk(root: &Path, below: &str, depth: usize, names: &mut Vec<String>) -> Result<(), DataError> {
    let folder = root.join(below);
    let fail = |cause| read_error(&folder, cause);
    for entry in std::fs::read_dir(&folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let name = if below.is_empty() { name } else { format!("{below}/{name}") };
        match entry.path().is_dir() {
            true if depth > 0 => walk(root, &name, depth - 1, names)?,
            true => {}
            false => names.push(name),
        }
    }
    Ok(())
}

/// Finds the parts of a data set, given a folder, an archive or a manifest.
pub(super) fn find(path: &Path) -> Result<Layout, DataError> {
    if path.exists() && !path.is_dir() {
        check_rereadable(path)?;
        if format_of(path) == "tsv" {
            let root = path.parent().unwrap_or(Path::new("")).to_path_buf();
            let files = Rc::new(Files { root, names: Vec::new(), packed: None });
            return Ok(Layout::One(manifest(files, path)?));
        }
        if !is_archive(path) {
            let expected = "a folder or an archive of WAV files, or a manifest .tsv with lines path<TAB>label";
            return Err(DataError::format(path, expected, "a file of another name"));
        }
    }
    let files = Rc::new(Files::open(path)?);
    let is_manifest = |name: &&String| format_of(Path::new(name)) == "tsv";
    match files.packed.as_ref().and_then(|_| files.names.iter().find(is_manifest)) {
        Some(name) => {
            let expected = "an archive without manifests; unpack it to use them";
            return Err(DataError::format(path, expected, excerpt(name)));
        }
        None => {
            if let Some(layout) = manifests(&files)? {
                return Ok(layout);
            }
        }
    }
    let sounds: Vec<&str> = files.names.iter().map(String::as_str).filter(|name| is_wav(name)).collect();
    if sounds.is_empty() {
        let expected = "WAV files".to_string();
        return Err(DataError::Folder { path: path.to_path_buf(), expected, found: "none".into() });
    }
    // An archive often has one folder around all files.
    let shared = common_folder(&sounds);
    let parts = |split| -> Option<Vec<&str>> {
        let within = |name: &&str| {
            let first = name[shared.len()..].split_once('/').map(|(first, _)| first);
            first.is_some_and(|first| names_of(split).contains(&first))
        };
        let own: Vec<&str> = sounds.iter().copied().filter(within).collect();
        (!own.is_empty()).then_some(own)
    };
    // The length of the folders around all files of a part.
    let within = |names: &[&str]| {
        let first = names.first().and_then(|name| name[shared.len()..].find('/'));
        shared.len() + first.map_or(0, |end| end + 1)
    };
    match Split::ALL.map(parts) {
        [Some(train), dev, test] if dev.is_some() || test.is_some() => Ok(Layout::Parts {
            train: by_name(&files, &train, within(&train))?,
            dev: dev.map(|names| by_name(&files, &names, within(&names))).transpose()?,
            test: test.map(|names| by_name(&files, &names, within(&names))).transpose()?,
        }),
        _ => Ok(Layout::One(by_name(&files, &sounds, shared.len())?)),
    }
}

/// The parts that the manifests at the top of a folder name; none if there are no manifests.
fn manifests(files: &Rc<Files>) -> Result<Option<Layout>, DataError> {
    let top: Vec<&String> =
        files.names.iter().filter(|name| !name.contains('/') && format_of(Path::new(name)) == "tsv").collect();
    let part = |split| -> Result<Option<Part>, DataError> {
        let is_of = |name: &&&String| {
            let stem = name.split('.').next().unwrap_or_default();
            names_of(split).contains(&stem)
        };
        let found = top.iter().find(is_of);
        found.map(|name| manifest(files.clone(), &files.root.join(name))).transpose()
    };
    match (part(Split::Train)?, top.as_slice()) {
        (Some(train), _) => Ok(Some(Layout::Parts { train, dev: part(Split::Dev)?, test: part(Split::Test)? })),
        (None, [one]) => Ok(Some(Layout::One(manifest(files.clone(), &files.root.join(one))?))),
        (None, []) => Ok(None),
        (None, several) => {
            let expected = "train.tsv among the manifests, or one manifest".to_string();
            Err(DataError::Folder { path: files.root.clone(), expected, found: listed(several) })
        }
    }
}

/// The folders that all names begin with, with a `/` at the end.
fn common_folder<'a>(names: &[&'a str]) -> &'a str {
    let Some(&first) = names.first() else { return "" };
    let mut end = 0;
    while let Some(length) = first[end..].find('/') {
        let (folder, next) = (&first[end..end + length], end + length + 1);
        let is_part = Split::ALL.iter().any(|&split| names_of(split).contains(&folder));
        if is_part || !names.iter().all(|name| name.starts_with(&first[..next])) {
            break;
        }
        end = next;
    }
    &first[..end]
}

/// Recordings whose folders or names tell the answers. `outer` is the length of the folders around all of them.
fn by_name(files: &Rc<Files>, names: &[&str], outer: usize) -> Result<Part, DataError> {
    let by_folder = names.iter().any(|name| name[outer..].contains('/'));
    let named = |&name: &&str| {
        let folder = name.rsplit_once('/').map(|(folder, _)| folder.rsplit('/').next().unwrap_or(folder));
        let label = fields(name).map(|fields| fields.0).filter(|_| !by_folder);
        match label.or(folder) {
            Some(answer) => Ok(Named { file: name.to_string(), answer: answer.to_string() }),
            None => {
                let what = PathBuf::from(files.shown(name));
                let expected = "a name {label}_{speaker}_{index}.wav, a folder for each label, or a manifest .tsv";
                Err(DataError::format(&what, expected, excerpt(name)))
            }
        }
    };
    let recordings = names.iter().map(named).collect::<Result<_, _>>()?;
    Ok(Part { files: files.clone(), recordings, notes: Vec::new() })
}

/// Label, speaker and index in a name `{label}_{speaker}_{index}.wav`.
fn fields(name: &str) -> Option<(&str, &str, u32)> {
    let stem = Path::new(name).file_stem()?.to_str()?;
    let (rest, index) = stem.rsplit_once('_')?;
    let (label, speaker) = rest.rsplit_once('_')?;
    Some((label, speaker, index.parse().ok()?)).filter(|(label, speaker, _)| !label.is_empty() && !speaker.is_empty())
}

/// Recordings that a manifest lists, with lines `path<TAB>label`.
fn manifest(files: Rc<Files>, path: &Path) -> Result<Part, DataError> {
    let mut recordings = Vec::new();
    for (line, file, answer) in lines(path)? {
        let wrong = |expected: &str, found: String| Err(DataError::line(path, line, expected, found));
        if answer.is_empty() {
            return wrong("path<TAB>label", format!("no label for {}", excerpt(&file)));
        }
        let stays = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
        if file.is_empty() || !Path::new(&file).components().all(stays) {
            return wrong("the path of a WAV file below the folder of the manifest", excerpt(&file));
        }
        if !files.root.join(&file).is_file() {
            return wrong(
                "the path of a WAV file below the folder of the manifest",
                format!("{}, which is not there", excerpt(&file)),
            );
        }
        recordings.push(Named { file, answer });
    }
    match recordings.is_empty() {
        true => Err(DataError::Empty { path: path.to_path_buf(), expected: "lines path<TAB>label" }),
        false => Ok(Part { files, recordings, notes: Vec::new() }),
    }
}

/// The lines of a manifest without a header: their numbers, paths and answers.
fn lines(path: &Path) -> Result<Vec<(usize, String, String)>, DataError> {
    let mut lines = Vec::new();
    for (number, text) in read_file(path)?.lines() {
        if text.trim().is_empty() {
            continue;
        }
        let columns: Vec<&str> = text.split('\t').map(str::trim).collect();
        let [file, answer] = columns[..] else {
            let found = format!("{} in {}", counted(columns.len(), "column"), excerpt(text));
            return Err(DataError::line(path, number, "path<TAB>label", found));
        };
        let is_header = lines.is_empty()
            && !is_wav(file)
            && ["path", "file", "wav", "audio", "sound"].contains(&file.to_lowercase().as_str());
        if !is_header {
            lines.push((number, file.to_string(), answer.to_string()));
        }
    }
    Ok(lines)
}

impl Part {
    /// Reads all sounds, at a rate or each at its own.
    pub(super) fn read(self, rate: Option<u32>) -> Result<Loaded<Recording>, DataError> {
        let Self { files, recordings, notes } = self;
        let read = |Named { file, answer }: Named| {
            let name = files.shown(&file);
            let sound = decode_wav(&files.read(&file)?, Path::new(&name))?;
            let (speaker, index) =
                fields(&file).map_or((None, None), |(_, speaker, index)| (Some(speaker.to_string()), Some(index)));
            let hash = sound.hash();
            let sound = match rate {
                Some(rate) => sound.at_rate(rate),
                None => sound,
            };
            Ok(Recording { sound, answer, speaker, index, name, hash })
        };
        Ok(Loaded { examples: recordings.into_iter().map(read).collect::<Result<_, _>>()?, notes })
    }
}

/// The names of the sounds in a manifest, as [`read_sound`](super::read_sound) takes them, or that of a WAV file itself; none
/// for another file.
///
/// # Errors
/// A manifest that cannot be read.
pub fn recording_names(path: &Path) -> Result<Option<Vec<String>>, DataError> {
    if is_wav(path) {
        return Ok(Some(vec![path.display().to_string()]));
    }
    if format_of(path) != "tsv" || !first_line(path)?.contains('\t') {
        return Ok(None);
    }
    let root = path.parent().unwrap_or(Path::new(""));
    Ok(Some(lines(path)?.into_iter().map(|(_, file, _)| root.join(file).display().to_string()).collect()))
}

/// Computes a hash of the files of a data set of recordings, so that a resumed run can refuse changed data.
///
/// # Errors
/// Files of another layout, or that cannot be read.
pub fn fingerprint_recordings(path: &Path) -> Result<String, DataError> {
    if path.is_file() && is_archive(path) {
        return fingerprint_of([("archive", path.to_path_buf())]);
    }
    let parts = match find(path)? {
        Layout::One(part) => vec![part],
        Layout::Parts { train, dev, test } => [Some(train), dev, test].into_iter().flatten().collect(),
    };
    let mut all = BTreeMap::new();
    for part in &parts {
        let manifests = part.files.names.iter().filter(|name| !is_wav(name));
        for name in part.recordings.iter().map(|named| &named.file).chain(manifests) {
            all.insert(name.clone(), part.files.root.join(name));
        }
    }
    if path.is_file() {
        all.insert("manifest".to_string(), path.to_path_buf());
    }
    fingerprint_of(all)
}
