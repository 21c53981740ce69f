//! The commands that use a trained model: `predict`, `eval`, `look`, `generate`.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use regard_data::Split;
use regard_inspect::AttentionView;
use regard_tasks::decode::SampleOptions;
use regard_tasks::task::Looked;
use regard_tasks::task::Prediction;
use regard_tasks::{Opened, TaskError, open};
use serde_json::json;

use crate::failure::Failure;
use crate::print::print;
use crate::value::{from_one, from_zero, number, take_negatives};

/// Inputs that go through the model together.
const TOGETHER: usize = 64;

fn opened(folder: &Path) -> Result<Box<dyn Opened>> {
    Ok(open(folder).map_err(Failure)?)
}

/// The arguments of `regard predict`.
#[derive(Args)]
pub struct Predict {
    /// A model folder
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Inputs; with none and no --input, lines from standard input
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    /// A file with an input a line, or - for standard input
    #[arg(long, value_name = "F", conflicts_with = "texts")]
    input: Option<PathBuf>,
    /// Print one JSON document a line
    #[arg(long)]
    json: bool,
}

impl Predict {
    /// Predicts.
    pub fn run(self) -> Result<()> {
        let model = opened(&self.model)?;
        if !self.texts.is_empty() {
            let mut refused = 0;
            self.show(model.as_ref(), &self.texts, 1, &mut refused)?;
            return all_answered(refused);
        }
        let mut reader: Box<dyn BufRead> = match &self.input {
            Some(path) if path.as_os_str() != "-" => {
                let file = std::fs::File::open(path);
                Box::new(std::io::BufReader::new(file.with_context(|| path.display().to_string())?))
            }
            _ => {
                if std::io::stdin().is_terminal() {
                    eprintln!("type an input a line; Ctrl-D ends");
                }
                Box::new(std::io::stdin().lock())
            }
        };
        // A person gets an answer to each line, a file goes through in groups.
        let together = if self.input.is_none() && std::io::stdin().is_terminal() { 1 } else { TOGETHER };
        let (mut line_number, mut refused) = (1, 0);
        loop {
            let mut lines = Vec::with_capacity(together);
            while lines.len() < together {
                let mut line = String::new();
                if reader.read_line(&mut line).context("the input could not be read")? == 0 {
                    break;
                }
                lines.push(line.trim_end_matches(['\n', '\r']).to_string());
            }
            if lines.is_empty() {
                return all_answered(refused);
            }
            self.show(model.as_ref(), &lines, line_number, &mut refused)?;
            line_number += lines.len();
        }
    }

    /// Answers each input; those that the model refuses are told on standard error, and the rest goes on.
    fn show(&self, model: &dyn Opened, inputs: &[String], first_line: usize, refused: &mut usize) -> Result<()> {
        let answered = match model.predict(inputs) {
            Ok(predictions) => predictions.into_iter().map(Ok).collect(),
            Err(TaskError::Input { .. }) => inputs.iter().map(|input| one(model, input)).collect::<Vec<_>>(),
            Err(error) => return Err(Failure(error).into()),
        };
        for (place, (answer, input)) in answered.into_iter().zip(inputs).enumerate() {
            let line = match (answer, self.json) {
                (Ok(prediction), true) => serde_json::to_string(&prediction)?,
                (Ok(prediction), false) => prediction.output,
                (Err(error @ TaskError::Input { .. }), json) => {
                    *refused += 1;
                    eprintln!("input {}: {error}", first_line + place);
                    // A line for a line, so that the answers can be laid beside the inputs.
                    if json { json!({ "input": input, "error": error.to_string() }).to_string() } else { String::new() }
                }
                (Err(error), _) => return Err(Failure(error).into()),
            };
            print(&format!("{line}\n"))?;
        }
        Ok(())
    }
}

/// What the model makes of one input.
fn one(model: &dyn Opened, input: &String) -> Result<Prediction, TaskError> {
    let mut answers = model.predict(std::slice::from_ref(input))?;
    answers.pop().ok_or_else(|| TaskError::input("prediction", "one", "none"))
}

/// Fails if some inputs were refused.
fn all_answered(refused: usize) -> Result<()> {
    match refused {
        0 => Ok(()),
        _ => {
            Err(Failure(TaskError::input("inputs", "those that the model takes", format!("{refused} it does not")))
                .into())
        }
    }
}

/// The arguments of `regard eval`.
#[derive(Args)]
pub struct Eval {
    /// A model folder
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Score all of this file instead of the model's own data
    #[arg(long, value_name = "PATH", conflicts_with = "split")]
    data: Option<PathBuf>,
    /// Which split of the model's own data
    #[arg(long, value_name = "SPLIT", default_value = "test", value_parser = ["dev", "test"])]
    split: String,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

impl Eval {
    /// Scores.
    pub fn run(self) -> Result<()> {
        let model = opened(&self.model)?;
        let split: Split = self.split.parse()?;
        let evaluation = model.evaluate(self.data.as_deref(), split).map_err(Failure)?;
        let name = match &self.data {
            Some(path) => path.display().to_string(),
            None => self.split,
        };
        if self.json {
            let document = json!({
                "task": model.description().task,
                "split": name,
                "examples": evaluation.examples,
                "metrics": evaluation.scores,
            });
            return print(&format!("{document}\n"));
        }
        let mut text = format!("{}: {} examples\n", name, evaluation.examples);
        for (metric, value) in &evaluation.scores {
            text += &format!("  {metric:<20} {}\n", regard_inspect::number(*value, 4));
        }
        print(&text)
    }
}

/// The arguments of `regard look`.
#[derive(Args)]
pub struct Look {
    /// A model folder
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Inputs; with none, one that the task finds telling
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    /// Where to write: .html, .svg, .png or .json
    #[arg(long, value_name = "FILE", default_value = "look.html")]
    out: PathBuf,
    /// Only layers whose name contains this, such as cross or "decoder layer 2"
    #[arg(long, value_name = "TEXT")]
    layer: Option<String>,
    /// Only this head of each layer, from 1
    #[arg(long, value_name = "N", value_parser = from_one::<usize>)]
    head: Option<usize>,
}

impl Look {
    /// Writes the maps.
    pub fn run(self) -> Result<()> {
        AttentionView::check_path(&self.out).map_err(|error| Failure(error.into()))?;
        let model = opened(&self.model)?;
        let mut view = match self.texts.first() {
            Some(text) => model.look(Some(text)).map_err(Failure)?,
            None => model.look(None).map_err(Failure)?,
        };
        for text in self.texts.iter().skip(1) {
            view = view.join(model.look(Some(text)).map_err(Failure)?);
        }
        let Looked::Attention(mut maps) = view else {
            view.save(&self.out).map_err(|error| Failure(error.into()))?;
            return print(&format!("wrote {}\n", self.out.display()));
        };
        if maps.groups.is_empty() {
            let what = "show attention: this model has none; train one with model.kind=transformer".to_string();
            let task = regard_tasks::kind(&model.description().task).map_or("the model", |kind| kind.name());
            return Err(Failure(TaskError::Unsupported { task, what }).into());
        }
        self.choose(&mut maps)?;
        maps.save(&self.out).map_err(|error| Failure(error.into()))?;
        let layers = maps.groups.len();
        let heads: usize = maps.groups.iter().map(|group| group.heads.len()).sum();
        print(&format!("wrote {}: {heads} maps in {layers} layers\n", self.out.display()))
    }

    /// Leaves out what was not asked for.
    fn choose(&self, view: &mut AttentionView) -> Result<()> {
        let names: Vec<String> = view.groups.iter().map(|group| group.name.clone()).collect();
        if let Some(layer) = &self.layer {
            view.groups.retain(|group| group.name.contains(layer.as_str()));
        }
        if let Some(head) = self.head {
            view.groups.iter_mut().for_each(|group| group.heads.retain(|map| map.head + 1 == head));
            view.groups.retain(|group| !group.heads.is_empty());
        }
        if !view.groups.is_empty() {
            return Ok(());
        }
        let problem = format!("nothing of that name; there are {}", names.join("; "));
        Err(Failure(TaskError::Settings { place: "--layer, --head".to_string(), problem }).into())
    }
}

/// The arguments of `regard generate`.
#[derive(Args)]
#[command(mut_args(take_negatives))]
pub struct Generate {
    /// A model folder of the task generate
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// What the text begins with
    #[arg(value_name = "PROMPT", default_value = "")]
    prompt: String,
    /// Tokens to write
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = from_one::<usize>)]
    tokens: usize,
    /// Below 1 more likely tokens, above 1 more daring ones, 0 always the likeliest
    #[arg(long, value_name = "T", default_value_t = 0.8, value_parser = number)]
    temperature: f64,
    /// Draw among the K likeliest only
    #[arg(long, value_name = "K", value_parser = from_one::<usize>)]
    top_k: Option<usize>,
    /// Draw among the likeliest that together have this probability
    #[arg(long, value_name = "P", value_parser = number)]
    top_p: Option<f64>,
    /// Selects the draws
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = from_zero::<u64>)]
    seed: u64,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

impl Generate {
    /// Writes.
    pub fn run(self) -> Result<()> {
        let model = opened(&self.model)?;
        let options = SampleOptions {
            temperature: self.temperature as f32,
            top_k: self.top_k,
            top_p: self.top_p.map(|p| p as f32),
            max_len: self.tokens,
            stop: Vec::new(),
        };
        options.validate().map_err(|error| Failure(error.into()))?;
        let mut text = String::new();
        let live = !self.json;
        // Not before the model has taken it.
        let mut prompt = Some(self.prompt.as_str());
        let mut hear = |piece: &str| {
            if live {
                let piece = format!("{}{piece}", prompt.take().unwrap_or_default());
                let mut out = std::io::stdout().lock();
                // A closed pipe shows itself when the text ends.
                let _ = out.write_all(piece.as_bytes()).and_then(|()| out.flush());
            } else {
                text.push_str(piece);
            }
        };
        model.generate(&self.prompt, &options, self.seed, &mut hear).map_err(Failure)?;
        match self.json {
            true => print(&format!("{}\n", json!({ "input": self.prompt, "output": text }))),
            false => print("\n"),
        }
    }
}
