//! `regard predict`: prints what a trained model predicts.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use regard_data::{is_jsonl, open_text};
use regard_nn::{Ablation, Pass};
use regard_tasks::input::Given;
use regard_tasks::task::{Prediction, Questions, Written};
use regard_tasks::{Opened, TaskError};
use serde_json::{Value, json};

use super::{Weights, Without, dev_or, opened_as};
use crate::failure::failure;
use crate::print::{print, tell};

/// Number of inputs that go through the model together.
const TOGETHER: usize = 64;

/// An input, or the given text with the error that it caused.
type Read = Result<Given, (String, TaskError)>;

/// The arguments of `regard predict`.
#[derive(Args)]
pub struct Predict {
    /// A model folder written by `regard train`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Inputs; without any and without --input, one per line from standard input
    #[arg(value_name = "INPUT")]
    inputs: Vec<String>,
    /// A file in any format that `train --data` reads, with or without answers, or with one input per line; - is standard
    /// input
    #[arg(long, value_name = "F", conflicts_with = "inputs")]
    input: Option<PathBuf>,
    #[command(flatten)]
    without: Without,
    /// Compute the means for --without NAME=mean from this file; from the model's dev split by default
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    #[command(flatten)]
    weights: Weights,
    /// Print one JSON document per input instead of text
    #[arg(long)]
    json: bool,
}

impl Predict {
    pub fn run(self) -> Result<()> {
        let model = opened_as(&self.model, self.weights.weights)?;
        let ablation = self.without.ablation(model.as_ref(), dev_or(self.data.as_deref()))?;
        let mut answers =
            Answers { predict: &self, model: model.as_ref(), ablation, written: None, line: 0, refused: 0 };
        if !self.inputs.is_empty() {
            let argument =
                |input: &String| Given::argument(input, model.input_kind()).map_err(|error| (input.clone(), error));
            let read = self.inputs.iter().map(argument).collect();
            answers.show(read)?;
            return answers.all_given();
        }
        let file = self.input.as_deref().filter(|path| path.as_os_str() != "-");
        if let Some(path) = file.filter(|path| path.is_file())
            && let Some(questions) = model.questions(path).map_err(failure)?
        {
            return answers.to(questions);
        }
        let mut reader: Box<dyn BufRead> = match file {
            Some(path) => open_text(path).map_err(failure)?,
            None => {
                if std::io::stdin().is_terminal() {
                    tell!("type one input per line; Ctrl-D ends");
                }
                Box::new(std::io::stdin().lock())
            }
        };
        let mut is_json = file.is_some_and(is_jsonl);
        if self.input.is_some() && !file.is_some_and(Path::is_file) {
            // The format of a pipe is found by its content, because it has no file name.
            is_json |= reader.fill_buf().is_ok_and(|seen| seen.trim_ascii_start().starts_with(b"{"));
            if !is_json && let Some(questions) = piped(reader.as_mut(), model.as_ref())? {
                return answers.to(questions);
            }
        }
        // A person at a terminal gets each answer at once; files are answered in groups.
        let together = if self.input.is_none() && std::io::stdin().is_terminal() { 1 } else { TOGETHER };
        loop {
            let mut inputs = Vec::with_capacity(together);
            while inputs.len() < together {
                let mut line = Vec::new();
                if reader.read_until(b'\n', &mut line).context("cannot read the input")? == 0 {
                    break;
                }
                inputs.push(read(line, is_json, file, model.as_ref()));
            }
            if inputs.is_empty() {
                return answers.all_given();
            }
            answers.show(inputs)?;
        }
    }
}

/// Reads an input from a line.
fn read(line: Vec<u8>, is_json: bool, file: Option<&Path>, model: &dyn Opened) -> Read {
    let line = String::from_utf8(line).map_err(|error| {
        let got = match file {
            Some(path) => format!("other bytes; is {} a text file?", path.display()),
            None => "other bytes".to_string(),
        };
        let line = String::from_utf8_lossy(error.as_bytes()).trim_end().to_string();
        (line, TaskError::input("line", "text in UTF-8", got))
    })?;
    let line = line.trim_end_matches(['\n', '\r']);
    let given = if is_json { Given::json(line) } else { Given::line(line, model.input_kind()) };
    given.map_err(|error| (line.to_string(), error))
}

/// Reads the inputs of a pipe if its beginning shows a format with several lines or columns per input. Returns `None`, with the
/// pipe unread, if it has one input per line.
fn piped(reader: &mut dyn BufRead, model: &dyn Opened) -> Result<Option<Questions>> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder for the input")?;
    let path = folder.path().join("input");
    let seen = reader.fill_buf().context("cannot read the input")?;
    let whole_lines = seen.iter().rposition(|&byte| byte == b'\n').map_or(seen, |end| &seen[..=end]);
    std::fs::write(&path, whole_lines).with_context(|| path.display().to_string())?;
    if let Ok(None) = model.questions(&path) {
        return Ok(None);
    }
    let mut file = std::fs::File::create(&path).with_context(|| path.display().to_string())?;
    std::io::copy(reader, &mut file).context("cannot read the input")?;
    model.questions(&path).map_err(failure)
}

/// The state while inputs are being answered.
struct Answers<'a> {
    predict: &'a Predict,
    model: &'a dyn Opened,
    ablation: Option<Ablation>,
    /// Formats an answer like the input file, such as CoNLL-U; `None` prints one line per answer.
    written: Option<Written>,
    /// Number of inputs so far.
    line: usize,
    /// Number of inputs without an answer.
    refused: usize,
}

impl Answers<'_> {
    /// Answers the inputs of a file, in the file's format unless `--json` or `--without` is given.
    fn to(mut self, Questions { inputs, written }: Questions) -> Result<()> {
        self.written = written.filter(|_| !self.predict.json && self.ablation.is_none());
        for some in inputs.chunks(TOGETHER) {
            self.show(some.iter().cloned().map(Ok).collect())?;
        }
        self.all_given()
    }

    /// Answers each input. One that cannot be answered is reported on standard error and does not stop the others.
    fn show(&mut self, inputs: Vec<Read>) -> Result<()> {
        let given: Vec<Given> = inputs.iter().flatten().cloned().collect();
        let whole = self.model.predict(&given, &Pass::inference()).map_err(failure)?;
        let less = match &self.ablation {
            Some(ablation) => {
                let pass = Pass::inference().with_ablation(ablation);
                self.model.predict(&given, &pass).map_err(failure)?.into_iter().map(Some).collect()
            }
            None => given.iter().map(|_| None).collect::<Vec<_>>(),
        };
        let mut answered = given.iter().zip(whole.into_iter().zip(less));
        for input in inputs {
            self.line += 1;
            let at = self.line - 1;
            let line = match input {
                Err((line, error)) => self.refusal(&error, Value::from(line)),
                Ok(_) => match answered.next() {
                    Some((_, (Ok(whole), None))) => match &self.written {
                        Some(written) => {
                            print(&written(at, Some(&whole)))?;
                            continue;
                        }
                        None => self.line(whole, None)?,
                    },
                    Some((_, (Ok(whole), Some(Ok(less))))) => self.line(whole, Some(less))?,
                    Some((given, (Err(error), _) | (_, Some(Err(error))))) => {
                        if !matches!(error, TaskError::Input { .. } | TaskError::Data(_)) {
                            return Err(failure(error));
                        }
                        let line = self.refusal(&error, given.to_json());
                        if let Some(written) = &self.written {
                            print(&written(at, None))?;
                            continue;
                        }
                        line
                    }
                    None => continue,
                },
            };
            print(&format!("{line}\n"))?;
        }
        Ok(())
    }

    fn line(&self, whole: Prediction, less: Option<Prediction>) -> Result<String> {
        if self.predict.json {
            let mut document = serde_json::to_value(&whole)?;
            if let Some(less) = less {
                document["without"] = serde_json::to_value(&less)?;
            }
            return Ok(document.to_string());
        }
        Ok(match less {
            None => whole.output,
            Some(less) => {
                let before = format!("{}{}", whole.output, whole.certainty());
                format!("{before}\n  without {}: {}{}", self.predict.without.names(), less.output, less.certainty())
            }
        })
    }

    /// Reports an input without an answer. Returns the line to print for it, so that answers and inputs stay aligned.
    fn refusal(&mut self, error: &TaskError, input: Value) -> String {
        self.refused += 1;
        tell!("input {}: {error}", self.line);
        if self.predict.json {
            json!({ "input": input, "error": error.to_string() }).to_string()
        } else {
            String::new()
        }
    }

    /// Fails if an input was refused.
    fn all_given(&self) -> Result<()> {
        match self.refused {
            0 => Ok(()),
            refused => {
                let error = TaskError::input("inputs", "only valid ones", format!("{refused} invalid, named above"));
                Err(failure(error))
            }
        }
    }
}
