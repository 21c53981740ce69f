//! The content of a data set, split by split, and its mistakes, for `regard data`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use regard_data::{DataError, Split, Splits, excerpt, read_file};
use serde::Serialize;

use crate::error::TaskError;
use crate::run::{Kind, Request};

/// Maximum number of unreadable lines that are named.
const MOST_PROBLEMS: usize = 20;

/// An input before it is encoded.
#[derive(Debug, Clone, PartialEq)]
pub enum RawInput {
    /// A text, such as a sentence.
    Text(String),
    /// Vectors.
    Vectors {
        /// The numbers, rounded to be read.
        shown: String,
        /// Hash of the exact numbers.
        hash: u64,
        /// Number of vectors.
        length: usize,
        /// Mean of each feature.
        mean: Vec<f32>,
        /// Largest deviation of a number from the mean of its feature.
        size: f32,
    },
    /// A picture.
    Picture {
        /// Name by which the user finds the picture.
        name: String,
        /// Hash of the pixels.
        hash: u64,
        /// Number of pixels, all channels together.
        pixels: usize,
    },
    /// A node of a graph.
    Node {
        /// Name of the node.
        name: String,
        /// Number of nodes and of edges of the graph.
        graph: (usize, usize),
    },
    /// A sound.
    Sound {
        /// Name by which the user finds the sound.
        name: String,
        /// Hash of the samples.
        hash: u64,
        /// Length in seconds.
        seconds: f64,
    },
}

/// Key by which inputs are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Identity<'a> {
    Text(&'a str),
    Hash(u64),
}

impl RawInput {
    fn identity(&self) -> Identity<'_> {
        match self {
            Self::Text(text) | Self::Node { name: text, .. } => Identity::Text(text),
            Self::Vectors { hash, .. } | Self::Picture { hash, .. } | Self::Sound { hash, .. } => Identity::Hash(*hash),
        }
    }

    /// Returns the text that a message shows.
    fn shown(&self) -> &str {
        match self {
            Self::Text(shown) | Self::Vectors { shown, .. } => shown,
            Self::Picture { name, .. } | Self::Node { name, .. } | Self::Sound { name, .. } => name,
        }
    }

    fn length(&self) -> Option<(usize, Unit)> {
        match self {
            Self::Text(text) => Some((text.split_whitespace().count(), Unit::Words)),
            Self::Vectors { length, .. } => Some((*length, Unit::Vectors)),
            Self::Picture { .. } | Self::Node { .. } | Self::Sound { .. } => None,
        }
    }
}

/// An example before it is encoded.
#[derive(Debug, Clone, PartialEq)]
pub struct RawExample {
    /// The input.
    pub input: RawInput,
    /// The answer, such as its translation; empty for plain text.
    pub answer: String,
    /// The labels in the answer, if answers consist of labels. An input then has one right answer.
    pub labels: Vec<String>,
}

impl RawExample {
    /// Returns the lines of plain texts as examples without answers.
    pub fn lines(texts: Splits<String>) -> Splits<Self> {
        let lines = |texts: Vec<String>| -> Vec<Self> {
            let lines = texts.iter().flat_map(|text| text.lines()).filter(|line| !line.trim().is_empty());
            let example = |line: &str| Self {
                input: RawInput::Text(line.to_string()),
                answer: String::new(),
                labels: Vec::new(),
            };
            lines.map(example).collect()
        };
        Splits { train: lines(texts.train), dev: lines(texts.dev), test: lines(texts.test), notes: texts.notes }
    }
}

/// The content of a data set.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Survey {
    /// What keeps the data from being read, such as lines, at most 20. The rest of the survey leaves these lines out.
    pub problems: Vec<String>,
    /// The splits that have examples; empty if examples are made as needed.
    pub splits: Vec<SplitSurvey>,
    /// Findings that do not stop a training but make its scores doubtful.
    pub warnings: Vec<String>,
    /// What a training says about the data before it starts.
    pub notes: Vec<String>,
}

/// The content of a split.
#[derive(Debug, Clone, Serialize)]
pub struct SplitSurvey {
    /// Name of the split.
    pub split: String,
    /// Number of examples, or of lines of plain text.
    pub examples: usize,
    /// Number of distinct inputs.
    pub distinct: usize,
    /// Lengths of the inputs; `None` for pictures and sounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<Lengths>,
    /// Number of examples of each label, or of words of each tag.
    pub labels: BTreeMap<String, usize>,
}

/// Lengths of the inputs of a split.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Lengths {
    /// What is counted.
    pub unit: Unit,
    /// Mean length of an input.
    pub mean: f64,
    /// Length of the longest input.
    pub longest: usize,
}

/// What the length of an input counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Words of a text.
    Words,
    /// Vectors of a set or sequence.
    Vectors,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Words => "words",
            Self::Vectors => "vectors",
        })
    }
}

impl Survey {
    /// Counts what the splits have and compares them.
    pub(crate) fn new(splits: &Splits<RawExample>) -> Self {
        let present = Split::ALL.into_iter().filter(|split| !splits.get(*split).is_empty());
        let mut survey =
            Self { splits: present.map(|split| counted(split, splits.get(split))).collect(), ..Self::default() };
        let trained = shown(splits.get(Split::Train));
        for split in [Split::Dev, Split::Test] {
            let held_out = shown(splits.get(split));
            let both: Vec<(&str, &str)> =
                held_out.iter().filter_map(|(input, shown)| Some((*shown, *trained.get(input)?))).collect();
            if let Some((first, there)) = both.first() {
                let (count, such) = (counted_inputs(both.len(), split), excerpt(first));
                let there = if first == there { String::new() } else { format!(", where it is {}", excerpt(there)) };
                survey.warnings.push(format!("{count} also in train, such as {such}{there}"));
            }
        }
        for split in Split::ALL {
            let shown = shown(splits.get(split));
            let mut answers: BTreeMap<Identity, BTreeSet<&str>> = BTreeMap::new();
            for example in splits.get(split).iter().filter(|example| !example.labels.is_empty()) {
                answers.entry(example.input.identity()).or_default().insert(&example.answer);
            }
            let contradictory: Vec<Identity> =
                answers.into_iter().filter(|(_, answers)| answers.len() > 1).map(|(input, _)| input).collect();
            if let Some(first) = contradictory.first() {
                let (count, such) = (counted_inputs(contradictory.len(), split), excerpt(shown[first]));
                survey.warnings.push(format!("{count} there with different labels, such as {such}"));
            }
        }
        survey
    }
}

/// Returns the different inputs, each as its first example shows it.
fn shown(examples: &[RawExample]) -> BTreeMap<Identity<'_>, &str> {
    let mut shown = BTreeMap::new();
    for RawExample { input, .. } in examples {
        shown.entry(input.identity()).or_insert(input.shown());
    }
    shown
}

/// Returns "1 input of dev is" or "3 inputs of dev are".
fn counted_inputs(count: usize, split: Split) -> String {
    if count == 1 { format!("1 input of {split} is") } else { format!("{count} inputs of {split} are") }
}

fn counted(split: Split, examples: &[RawExample]) -> SplitSurvey {
    let lengths: Vec<(usize, Unit)> = examples.iter().filter_map(|example| example.input.length()).collect();
    let length = lengths.first().map(|&(_, unit)| Lengths {
        unit,
        mean: lengths.iter().map(|(length, _)| length).sum::<usize>() as f64 / lengths.len() as f64,
        longest: lengths.iter().map(|(length, _)| *length).max().unwrap_or(0),
    });
    let mut labels = BTreeMap::new();
    for label in examples.iter().flat_map(|example| &example.labels) {
        *labels.entry(label.clone()).or_default() += 1;
    }
    SplitSurvey { split: split.to_string(), examples: examples.len(), distinct: shown(examples).len(), length, labels }
}

/// Surveys the data of a request and names every line that cannot be read.
///
/// Readers stop at the first bad line. That line is therefore emptied in a copy of the data, which is read again. The data
/// themselves are never written to.
pub fn check(kind: &dyn Kind, request: &Request) -> Result<Survey, TaskError> {
    let mut request = request.clone();
    let mut copy: Option<Copy> = None;
    let mut problems = Vec::new();
    loop {
        let surveyed = kind.survey(&request).and_then(|survey| Ok(Survey { notes: kind.notes(&request)?, ..survey }));
        let error = match surveyed {
            Ok(survey) => return Ok(Survey { problems, ..survey }),
            Err(error) => error,
        };
        let TaskError::Data(DataError::Line { path, line, .. }) = &error else {
            if problems.is_empty() {
                return Err(error);
            }
            problems.push(named(&error, copy.as_ref()));
            return Ok(Survey { problems, ..Survey::default() });
        };
        if copy.is_none()
            && let Some(data) = &request.data
        {
            copy = Some(Copy::new(data)?);
        }
        problems.push(named(&error, copy.as_ref()));
        let emptied = copy.as_ref().is_some_and(|copy| copy.empty_line(path, *line).unwrap_or(false));
        if problems.len() == MOST_PROBLEMS || !emptied {
            return Ok(Survey { problems, ..Survey::default() });
        }
        request.data = copy.as_ref().map(|copy| copy.data.clone());
    }
}

/// Returns the message of an error, with the paths of the copied files replaced by those of the originals.
fn named(error: &TaskError, copy: Option<&Copy>) -> String {
    let files = copy.map_or(&[][..], |copy| &copy.files);
    files.iter().fold(error.to_string(), |message, file| {
        message.replace(&*file.copied.to_string_lossy(), &file.original.to_string_lossy())
    })
}

/// A copy of the files of a data set, unpacked, in which bad lines are emptied.
struct Copy {
    /// The data set in the copy: a file or the folder.
    data: PathBuf,
    files: Vec<CopiedFile>,
    _folder: tempfile::TempDir,
}

struct CopiedFile {
    copied: PathBuf,
    /// Path of the original as the user gave it.
    original: PathBuf,
}

impl Copy {
    fn new(data: &Path) -> Result<Self, TaskError> {
        let folder = tempfile::tempdir().map_err(TaskError::io(data))?;
        // Error messages name files by their canonical path.
        let place = folder.path().canonicalize().map_err(TaskError::io(folder.path()))?;
        let is_folder = data.is_dir();
        let parent = data.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder_of_data = if is_folder { data } else { parent };
        let mut files = Vec::new();
        for entry in fs::read_dir(folder_of_data).map_err(TaskError::io(folder_of_data))?.flatten() {
            let path = if is_folder { entry.path() } else { data.with_file_name(entry.file_name()) };
            let read = (is_folder || path == data).then(|| read_file(&path));
            let Some(Ok(file)) = read else {
                link(&path, &place);
                continue;
            };
            let name = file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            let copied = place.join(name.strip_suffix(".gz").unwrap_or(&name));
            fs::write(&copied, file.text()).map_err(TaskError::io(&copied))?;
            files.push(CopiedFile { copied, original: file.path().to_path_buf() });
        }
        let data = match &files[..] {
            [file] if !is_folder => file.copied.clone(),
            _ => place,
        };
        Ok(Self { data, files, _folder: folder })
    }

    /// Empties a line of the copy of a file, which is given by the path of the copy or of the original. Returns false if the file is
    /// not in the copy, and for the first line with content, without which the others mean nothing.
    fn empty_line(&self, path: &Path, line: usize) -> Result<bool, TaskError> {
        let same = |original: &Path| original.canonicalize().ok() == path.canonicalize().ok();
        let Some(file) = self.files.iter().find(|file| file.copied == path || same(&file.original)) else {
            return Ok(false);
        };
        let text = read_file(&file.copied)?;
        if text.lines().find(|(_, text)| !text.trim().is_empty()).is_none_or(|(first, _)| first == line) {
            return Ok(false);
        }
        let lines: Vec<&str> = text.lines().map(|(at, text)| if at == line { "" } else { text }).collect();
        fs::write(&file.copied, lines.join("\n") + "\n").map_err(TaskError::io(&file.copied))?;
        Ok(true)
    }
}

/// Makes a file that is not text, such as a picture that a line names, or a folder appear in the copy. If it cannot, that line is
/// one of the problems.
fn link(original: &Path, place: &Path) {
    let (Ok(original), Some(name)) = (original.canonicalize(), original.file_name()) else { return };
    #[cfg(unix)]
    let _ = std::os::unix::fs::symlink(original, place.join(name));
    #[cfg(not(unix))]
    let _ = fs::copy(original, place.join(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(input: &str, label: &str) -> RawExample {
        let input = RawInput::Text(input.to_string());
        RawExample { input, answer: label.to_string(), labels: vec![label.to_string()] }
    }

    #[test]
    fn splits_are_counted_and_compared() {
        let train = vec![example("a b", "x"), example("a b", "y"), example("c", "x")];
        let survey = Survey::new(&Splits::new(train, vec![example("c", "x")], Vec::new()));
        assert_eq!(survey.splits.len(), 2, "a split without examples is left out");
        let SplitSurvey { examples, distinct, length, labels, .. } = &survey.splits[0];
        assert_eq!((*examples, *distinct, labels["x"], labels["y"]), (3, 2, 2, 1));
        assert_eq!(*length, Some(Lengths { unit: Unit::Words, mean: 5.0 / 3.0, longest: 2 }));
        let expected = [
            "1 input of dev is also in train, such as \"c\"",
            "1 input of train is there with different labels, such as \"a b\"",
        ];
        assert_eq!(survey.warnings, expected);
    }

    #[test]
    fn inputs_are_compared_by_their_hash() {
        let vectors = |hash, label| {
            let input = RawInput::Vectors { shown: "1.235 2".to_string(), hash, length: 4, mean: vec![1.0], size: 1.0 };
            RawExample { input, ..example("", label) }
        };
        let (train, test) = (vec![vectors(1, "x"), vectors(2, "y")], vec![vectors(3, "x")]);
        let survey = Survey::new(&Splits::new(train.clone(), Vec::new(), test));
        assert!(survey.warnings.is_empty(), "what looks the same may differ: {:?}", survey.warnings);
        assert_eq!(survey.splits[0].distinct, 2);
        assert_eq!(survey.splits[0].length, Some(Lengths { unit: Unit::Vectors, mean: 4.0, longest: 4 }));
        let survey = Survey::new(&Splits::new(train, Vec::new(), vec![vectors(2, "x"), vectors(2, "y")]));
        let expected = [
            "1 input of test is also in train, such as \"1.235 2\"",
            "1 input of test is there with different labels, such as \"1.235 2\"",
        ];
        assert_eq!(survey.warnings, expected);
        let picture = |name: &str| {
            let input = RawInput::Picture { name: name.to_string(), hash: 7, pixels: 1 };
            RawExample { input, ..example("", "x") }
        };
        let survey = Survey::new(&Splits::new(vec![picture("a.png")], Vec::new(), vec![picture("b.png")]));
        assert_eq!(survey.warnings, ["1 input of test is also in train, such as \"b.png\", where it is \"a.png\""]);
        assert_eq!(survey.splits[0].length, None);
    }

    #[test]
    fn several_translations_are_no_contradiction() {
        let pair = |answer: &str| RawExample { labels: Vec::new(), ..example("hi", answer) };
        assert!(
            Survey::new(&Splits::new(vec![pair("salut"), pair("bonjour")], Vec::new(), Vec::new())).warnings.is_empty()
        );
    }
}
