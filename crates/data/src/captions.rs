//! Pictures with sentences: a `captions.tsv` of lines `file<TAB>sentence` beside the pictures that it names.
//!
//! Layouts:
//! - a folder with `captions.tsv`, or that file itself; a third column may name the split of each line;
//! - `DIR/train`, `DIR/dev` (or `val`) and `DIR/test`, each with its own `captions.tsv`.
//!
//! A first line `file<TAB>sentence` (or `caption`) is a header. A picture may have several lines: its sentences are all right.

use crate::error::{counted, excerpt};
use crate::file::{TextFile, first_line, read_file};
use crate::folder::names_of;
use crate::images::read_image_files;
use crate::split::{complete, fingerprint_of, finish, split_given, split_one};
use crate::{DataError, Fit, Image, Loaded, Source, Split, Splits};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

const NAME: &str = "captions.tsv";

/// A picture and a sentence about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Caption {
    /// Path of the picture.
    pub file: PathBuf,
    /// The picture, shared by all its sentences.
    pub image: Arc<Image>,
    /// The sentence.
    pub sentence: String,
    /// Hash of the pixels as the file has them. It chooses the split, which therefore does not depend on [`Fit`].
    pub hash: u64,
    /// The part that the third column names.
    split: Option<Split>,
}

/// Reads one part: all lines of a `captions.tsv`, given by its own path or by that of its folder.
///
/// # Errors
/// A line without a tab, with an empty sentence or with another number of columns; a picture that is missing or outside
/// of the folder; a third column that is not a split; a picture that cannot be read.
pub fn read_captions(path: &Path, fit: &Fit) -> Result<Loaded<Caption>, DataError> {
    let file = match Layout::find(path)? {
        Layout::One(file) => file,
        Layout::Parts(_) => {
            let expected = format!("one part of a data set: a {NAME}, or a folder that has one");
            return Err(DataError::Folder { path: path.to_path_buf(), expected, found: "several parts".into() });
        }
    };
    let lines = lines(&file)?;
    let (mut parts, notes) = with_images(vec![lines], fit)?;
    Ok(Loaded { examples: parts.remove(0), notes })
}

/// Reads only the paths of the pictures that a file of columns names, one per line. Returns `None` for a file without tabs.
///
/// # Errors
/// A picture that is missing or outside of the folder.
pub fn read_captioned_names(path: &Path) -> Result<Option<Vec<PathBuf>>, DataError> {
    if !first_line(path)?.contains('\t') {
        return Ok(None);
    }
    let file = read_file(path)?;
    let name = |(line, text): (usize, &str)| located(path, line, text.split('\t').next().unwrap_or_default());
    without_header(&file).map(name).collect::<Result<_, _>>().map(Some)
}

/// Reads a data set of pictures with sentences. A single file is split by its third column, or else by the hash of the pictures.
///
/// # Errors
/// The errors of [`read_captions`]; a data set that cannot be split.
pub fn load_captions(source: &Source, fit: &Fit) -> Result<Splits<Caption>, DataError> {
    let Source { path, fold } = source;
    let key = |caption: &Caption| caption.hash;
    match Layout::find(path)? {
        Layout::One(file) => {
            let (mut parts, notes) = with_images(vec![lines(&file)?], fit)?;
            let loaded = Loaded { examples: parts.remove(0), notes };
            if loaded.examples.iter().any(|caption| caption.split.is_some()) {
                return match fold {
                    Some(fold) => Err(fold.of_parts(path)),
                    None => split_given(path, loaded, |caption| caption.split.unwrap_or(Split::Train), key),
                };
            }
            finish(path, split_one(loaded, *fold, key))
        }
        Layout::Parts(files) => {
            if let Some(fold) = fold {
                return Err(fold.of_parts(path));
            }
            let present: Vec<&PathBuf> = files.iter().flatten().collect();
            let read = present.iter().map(|file| lines(file)).collect::<Result<Vec<_>, _>>()?;
            let (parts, notes) = with_images(read, fit)?;
            let mut parts = parts.into_iter().map(|examples| Loaded { examples, notes: Vec::new() });
            let [train, dev, test] = files.map(|file| file.and_then(|_| parts.next()));
            let mut train = train.ok_or_else(|| missing(path))?;
            train.notes = notes;
            finish(path, complete(train, [dev, test], key, "folder"))
        }
    }
}

/// Computes a hash of the sentences and pictures of a data set, so that a resumed run can refuse changed data.
///
/// # Errors
/// The errors of [`load_captions`], except those about the content of pictures.
pub fn fingerprint_captions(path: &Path) -> Result<String, DataError> {
    let files = match Layout::find(path)? {
        Layout::One(file) => vec![file],
        Layout::Parts(files) => files.into_iter().flatten().collect(),
    };
    let mut all = Vec::new();
    for file in files {
        let pictures: BTreeSet<PathBuf> = lines(&file)?.into_iter().map(|line| line.file).collect();
        all.push(file);
        all.extend(pictures);
    }
    let name = |file: &PathBuf| file.strip_prefix(path).unwrap_or(file).to_string_lossy().into_owned();
    fingerprint_of(all.into_iter().map(|file| (name(&file), file)))
}

/// The files of a data set.
enum Layout {
    /// A file that is to be split.
    One(PathBuf),
    /// The files of train, dev and test; the first is there.
    Parts([Option<PathBuf>; 3]),
}

impl Layout {
    fn find(path: &Path) -> Result<Self, DataError> {
        if !path.exists() {
            return Err(missing(path));
        }
        if !path.is_dir() {
            return Ok(Self::One(path.to_path_buf()));
        }
        let inside = |folder: PathBuf| {
            [NAME.to_string(), format!("{NAME}.gz")]
                .map(|name| folder.join(name))
                .into_iter()
                .find(|file| file.is_file())
        };
        let part = |split| names_of(split).iter().find_map(|name| inside(path.join(name)));
        match (inside(path.to_path_buf()), Split::ALL.map(part)) {
            (Some(file), _) => Ok(Self::One(file)),
            (None, parts @ [Some(_), ..]) => Ok(Self::Parts(parts)),
            (None, _) => {
                let expected = format!("{NAME}, or train/{NAME}");
                Err(DataError::Folder { path: path.to_path_buf(), expected, found: "neither".into() })
            }
        }
    }
}

fn missing(path: &Path) -> DataError {
    DataError::Missing { path: path.to_path_buf() }
}

/// A line of the file, with the picture not yet read.
struct Line {
    file: PathBuf,
    sentence: String,
    split: Option<Split>,
}

/// The lines that are neither blank nor a header, with their numbers.
fn without_header(file: &TextFile) -> impl Iterator<Item = (usize, &str)> {
    let mut lines = file.lines().filter(|(_, text)| !text.trim().is_empty()).peekable();
    let is_header = |text: &str| {
        let names: Vec<String> = text.split('\t').map(|name| name.trim().to_lowercase()).collect();
        matches!(names[..], [ref file, ref words, ..] if ["file", "image", "picture"].contains(&file.as_str())
            && ["sentence", "caption"].contains(&words.as_str()))
    };
    lines.next_if(|(_, text)| is_header(text));
    lines
}

/// Reads the lines of a `captions.tsv`.
fn lines(path: &Path) -> Result<Vec<Line>, DataError> {
    let file = read_file(path)?;
    let mut width = None;
    let mut lines = Vec::new();
    for (number, text) in without_header(&file) {
        let fields: Vec<&str> = text.split('\t').map(str::trim).collect();
        let wrong = |expected: &str, found: String| Err(DataError::line(path, number, expected, found));
        let width = *width.get_or_insert(fields.len());
        let (name, sentence, split) = match fields[..] {
            [_] => return wrong("file<TAB>sentence", format!("no tab in {}", excerpt(text))),
            _ if fields.len() != width => {
                let expected = format!("{} as in the first line", counted(width, "column"));
                return wrong(&expected, format!("{} in {}", fields.len(), excerpt(text)));
            }
            [name, sentence] => (name, sentence, None),
            [name, sentence, split] => match split_named(split) {
                Some(split) => (name, sentence, Some(split)),
                None => return wrong("train, dev or test in the third column", excerpt(split)),
            },
            _ => return wrong("file<TAB>sentence, and perhaps a split", format!("{width} columns")),
        };
        if sentence.is_empty() {
            return wrong("file<TAB>sentence", format!("no sentence for {}", excerpt(name)));
        }
        lines.push(Line { file: located(path, number, name)?, sentence: sentence.to_string(), split });
    }
    match lines.is_empty() {
        true => Err(DataError::Empty { path: path.to_path_buf(), expected: "lines file<TAB>sentence" }),
        false => Ok(lines),
    }
}

fn split_named(name: &str) -> Option<Split> {
    Split::ALL.into_iter().find(|&split| names_of(split).contains(&name))
}

/// The path of a picture that a line names; refuses one that is missing or outside of the folder of `captions.tsv`.
fn located(path: &Path, line: usize, name: &str) -> Result<PathBuf, DataError> {
    let name = name.trim();
    let wrong = |found: String| {
        let expected = format!("the name of a picture in the folder of {NAME}");
        Err(DataError::line(path, line, expected, found))
    };
    let stays = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
    if name.is_empty() {
        return wrong("an empty column".into());
    }
    if !Path::new(name).components().all(stays) {
        return wrong(format!("{}, a path that leaves it", excerpt(name)));
    }
    let file = path.parent().unwrap_or(Path::new("")).join(name);
    match file.is_file() {
        true => Ok(file),
        false => wrong(format!("{}, which is not there", excerpt(name))),
    }
}

/// Reads the pictures of all parts, each once and all in one size.
fn with_images(parts: Vec<Vec<Line>>, fit: &Fit) -> Result<(Vec<Vec<Caption>>, Vec<String>), DataError> {
    let mut places: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut files = Vec::new();
    for line in parts.iter().flatten() {
        places.entry(line.file.clone()).or_insert_with(|| {
            files.push(line.file.clone());
            files.len() - 1
        });
    }
    let Loaded { examples: images, notes } = read_image_files(&files, fit)?;
    let images: Vec<(Arc<Image>, u64)> = images.into_iter().map(|(image, hash)| (Arc::new(image), hash)).collect();
    let caption = |Line { file, sentence, split }: Line| {
        let (image, hash) = images[places[&file]].clone();
        Caption { file, image, sentence, hash, split }
    };
    Ok((parts.into_iter().map(|lines| lines.into_iter().map(caption).collect()).collect(), notes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{png, write};
    use crate::{Colours, Side};
    use std::fs;
    use tempfile::{TempDir, tempdir};

    /// A folder with pictures `0.png` … of different brightness.
    fn pictures(count: u8) -> TempDir {
        let dir = tempdir().unwrap();
        for at in 0..count {
            write(&dir, &format!("{at}.png"), &png(2, 3, at));
        }
        dir
    }

    fn load(path: &Path) -> Result<Splits<Caption>, DataError> {
        load_captions(&Source { path: path.to_path_buf(), fold: None }, &Fit::default())
    }

    #[test]
    fn a_folder_is_read_and_split_by_its_pictures() {
        let dir = pictures(200);
        let lines: String = (0..400).map(|at| format!("{}.png\tnumber {at}\n", at % 200)).collect();
        write(&dir, NAME, format!("file\tcaption\n{lines}").as_bytes());
        let splits = load(dir.path()).unwrap();
        assert_eq!(Split::ALL.map(|split| splits.get(split).len()).iter().sum::<usize>(), 400);
        let files = |split| splits.get(split).iter().map(|caption| &caption.file).collect::<Vec<_>>();
        assert!(files(Split::Test).iter().all(|file| !files(Split::Train).contains(file)));
        let whole = read_captions(&dir.path().join(NAME), &Fit::default()).unwrap().examples;
        assert_eq!((whole.len(), whole[1].sentence.as_str()), (400, "number 1"));
        assert_eq!((whole[1].image.size.height, whole[1].image.size.width), (2, 3));
        assert!(Arc::ptr_eq(&whole[0].image, &whole[200].image), "a picture is read once");
        let names = read_captioned_names(&dir.path().join(NAME)).unwrap().unwrap();
        assert_eq!((names.len(), &names[3]), (400, &dir.path().join("3.png")));
        assert_eq!(read_captioned_names(&write(&dir, "list.txt", b"a.png\n")).unwrap(), None);
    }

    #[test]
    fn a_split_does_not_depend_on_the_size_or_the_colours() {
        let dir = pictures(250);
        let lines: String = (0..250).map(|at| format!("{at}.png\tnumber {at}\n")).collect();
        write(&dir, NAME, lines.as_bytes());
        let held_out = |fit: &Fit| {
            let splits = load_captions(&Source { path: dir.path().to_path_buf(), fold: None }, fit).unwrap();
            [splits.dev, splits.test].map(|part| part.into_iter().map(|caption| caption.sentence).collect::<Vec<_>>())
        };
        let own = held_out(&Fit::default());
        for colours in [Colours::Grey, Colours::Rgb] {
            assert_eq!(held_out(&Fit { size: Some(Side::Square(5)), colours }), own);
        }
    }

    #[test]
    fn a_third_column_or_folders_name_the_splits() {
        let dir = pictures(3);
        write(&dir, NAME, b"0.png\ta\ttrain\n1.png\tb\tval\n2.png\tc\ttest\n");
        let splits = load(dir.path()).unwrap();
        assert_eq!([&splits.train, &splits.dev, &splits.test].map(|part| part[0].sentence.clone()), ["a", "b", "c"]);
        let other = tempdir().unwrap();
        for (name, sentence) in [("train", "x"), ("validation", "y"), ("test", "z")] {
            fs::create_dir(other.path().join(name)).unwrap();
            fs::write(other.path().join(name).join("p.png"), png(4, 4, 9)).unwrap();
            fs::write(other.path().join(name).join(NAME), format!("p.png\t{sentence}\n")).unwrap();
        }
        let splits = load(other.path()).unwrap();
        assert_eq!([&splits.train, &splits.dev, &splits.test].map(|part| part[0].sentence.clone()), ["x", "y", "z"]);
        assert!(read_captions(other.path(), &Fit::default()).unwrap_err().to_string().contains("several parts"));
        let first = fingerprint_captions(other.path()).unwrap();
        fs::write(other.path().join("test/p.png"), png(4, 4, 8)).unwrap();
        assert_ne!(fingerprint_captions(other.path()).unwrap(), first, "pictures belong to the data");
    }

    #[test]
    fn a_bad_line_is_named() {
        let dir = pictures(2);
        for (text, message) in [
            ("0.png\ta\nno tab\n", "line 2: expected file<TAB>sentence, found no tab in \"no tab\""),
            ("0.png\ta\n1.png\t \n", "line 2: expected file<TAB>sentence, found no sentence for \"1.png\""),
            ("file\tsentence\n\n9.png\tb\n", "line 3: expected the name of a picture in the folder of captions.tsv"),
            (
                "0.png\ta\n../0.png\tb\n",
                "line 2: expected the name of a picture in the folder of captions.tsv, found \"../0.png\", a path that leaves it",
            ),
            ("/etc/passwd\ta\n", "a path that leaves it"),
            ("\ta\n", "line 1: expected the name of a picture in the folder of captions.tsv, found an empty column"),
            ("0.png\ta\tb\n", "line 1: expected train, dev or test in the third column, found \"b\""),
            ("0.png\ta\n1.png\tb\ttest\n", "line 2: expected 2 columns as in the first line, found 3"),
            ("file\tsentence\n", "expected lines file<TAB>sentence, found nothing"),
        ] {
            let path = write(&dir, NAME, text.as_bytes());
            let error = read_captions(&path, &Fit::default()).unwrap_err().to_string();
            assert!(error.contains(message), "{text:?}: {error}");
        }
        write(&dir, "1.png", &png(2, 3, 1)[..40]);
        write(&dir, NAME, b"0.png\ta\n1.png\tb\n");
        let error = load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("1.png") && error.contains("PNG"), "{error}");
        assert!(load(&dir.path().join("none")).unwrap_err().to_string().contains("no such file"));
        fs::remove_file(dir.path().join(NAME)).unwrap();
        assert!(load(dir.path()).unwrap_err().to_string().contains("expected captions.tsv, or train/captions.tsv"));
    }
}
