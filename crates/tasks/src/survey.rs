//! The content of a data set, split by split, and its mistakes, for `regard data`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regard_data::{DataError, Split, Splits, excerpt, read_file};
use serde::Serialize;

use crate::error::TaskError;
use crate::run::{Kind, Request};

/// Maximum number of unreadable lines that are named.
const MOST_PROBLEMS: usize = 20;

/// An example before it is encoded.
#[derive(Debug, Clone, PartialEq)]
pub struct RawExample {
    /// The input, such as a sentence.
    pub input: String,
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
            lines.map(|line| Self { input: line.to_string(), answer: String::new(), labels: Vec::new() }).collect()
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
    /// Mean number of words of an input.
    pub words: f64,
    /// Number of words of the longest input.
    pub longest: usize,
    /// Number of examples of each label, or of words of each tag.
    pub labels: BTreeMap<String, usize>,
}

impl Survey {
    /// Counts what the splits have and compares them.
    pub(crate) fn new(splits: &Splits<RawExample>) -> Self {
        let present = Split::ALL.into_iter().filter(|split| !splits.get(*split).is_empty());
        let mut survey =
            Self { splits: present.map(|split| counted(split, splits.get(split))).collect(), ..Self::default() };
        let inputs = |split| splits.get(split).iter().map(|example| example.input.as_str()).collect::<BTreeSet<_>>();
        let trained = inputs(Split::Train);
        for split in [Split::Dev, Split::Test] {
            let both: Vec<&str> = inputs(split).intersection(&trained).copied().collect();
            if let Some(first) = both.first() {
                let (count, such) = (counted_inputs(both.len(), split), excerpt(first));
                survey.warnings.push(format!("{count} also in train, such as {such}"));
            }
        }
        for split in Split::ALL {
            let mut answers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for example in splits.get(split).iter().filter(|example| !example.labels.is_empty()) {
                answers.entry(&example.input).or_default().insert(&example.answer);
            }
            let contradictory: Vec<&str> =
                answers.into_iter().filter(|(_, answers)| answers.len() > 1).map(|(input, _)| input).collect();
            if let Some(first) = contradictory.first() {
                let (count, such) = (counted_inputs(contradictory.len(), split), excerpt(first));
                survey.warnings.push(format!("{count} there with different labels, such as {such}"));
            }
        }
        survey
    }
}

/// Returns "1 input of dev is" or "3 inputs of dev are".
fn counted_inputs(count: usize, split: Split) -> String {
    if count == 1 { format!("1 input of {split} is") } else { format!("{count} inputs of {split} are") }
}

fn counted(split: Split, examples: &[RawExample]) -> SplitSurvey {
    let lengths: Vec<usize> = examples.iter().map(|example| example.input.split_whitespace().count()).collect();
    let mut labels = BTreeMap::new();
    for label in examples.iter().flat_map(|example| &example.labels) {
        *labels.entry(label.clone()).or_default() += 1;
    }
    SplitSurvey {
        split: split.to_string(),
        examples: examples.len(),
        distinct: examples.iter().map(|example| example.input.as_str()).collect::<BTreeSet<_>>().len(),
        words: lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64,
        longest: lengths.into_iter().max().unwrap_or(0),
        labels,
    }
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
        RawExample { input: input.to_string(), answer: label.to_string(), labels: vec![label.to_string()] }
    }

    #[test]
    fn splits_are_counted_and_compared() {
        let train = vec![example("a b", "x"), example("a b", "y"), example("c", "x")];
        let survey = Survey::new(&Splits::new(train, vec![example("c", "x")], Vec::new()));
        assert_eq!(survey.splits.len(), 2, "a split without examples is left out");
        let SplitSurvey { examples, distinct, longest, labels, .. } = &survey.splits[0];
        assert_eq!((*examples, *distinct, *longest, labels["x"], labels["y"]), (3, 2, 2, 2, 1));
        let expected = [
            "1 input of dev is also in train, such as \"c\"",
            "1 input of train is there with different labels, such as \"a b\"",
        ];
        assert_eq!(survey.warnings, expected);
    }

    #[test]
    fn several_translations_are_no_contradiction() {
        let pair = |answer: &str| RawExample { labels: Vec::new(), ..example("hi", answer) };
        assert!(
            Survey::new(&Splits::new(vec![pair("salut"), pair("bonjour")], Vec::new(), Vec::new())).warnings.is_empty()
        );
    }
}
