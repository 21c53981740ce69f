//! `regard generate`: writes text with a language model, or by hand with a model of handwriting.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use regard_data::{Handwritten, read_strokes};
use regard_nn::Pass;
use regard_system::{check_folder, save_atomically};
use regard_tasks::Opened;
use regard_tasks::decode::SampleOptions;
use regard_tasks::ink::{self, Ink, PenOptions, PenRequest};
use regard_tasks::input::Given;
use regard_tasks::task::Prompt;
use serde_json::{Value, json};

use super::opened;
use crate::failure::{failure, wrong_use};
use crate::print::{print, tell};
use crate::value::{from_one, from_zero, number, take_negatives};

/// Task whose models write by hand.
const BY_HAND: &str = "write";
/// Largest number of lines that one call writes by hand.
const MOST_LINES: u64 = 10_000;

/// The arguments of `regard generate`.
#[derive(Args)]
#[command(mut_args(take_negatives))]
pub struct Generate {
    /// A model folder written by `regard train generate` or `regard train write`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// The text to continue, empty by default; or the text to write by hand, in one or more lines
    #[arg(value_name = "PROMPT", default_value = "")]
    prompt: String,
    #[command(flatten)]
    text: TextFlags,
    #[command(flatten)]
    pen: PenFlags,
    /// Seed of the sampling
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = from_zero::<u64>)]
    seed: u64,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Flags of language models.
#[derive(Args)]
struct TextFlags {
    /// Number of tokens to write; 300 by default
    #[arg(long, value_name = "N", value_parser = from_one::<usize>)]
    tokens: Option<usize>,
    /// Sampling temperature: below 1 favours likely tokens, above 1 unlikely ones; 0 always takes the likeliest; 0.8 by default
    #[arg(long, value_name = "T", value_parser = number)]
    temperature: Option<f64>,
    /// Sample only among the K likeliest tokens; among all by default
    #[arg(long, value_name = "K", value_parser = from_one::<usize>)]
    top_k: Option<usize>,
    /// Sample only among the likeliest tokens that together have probability P; among all by default
    #[arg(long, value_name = "P", value_parser = number)]
    top_p: Option<f64>,
}

/// Flags of models of handwriting.
#[derive(Args)]
struct PenFlags {
    /// Handwriting: 0 writes as varied as the data, more writes more neatly; pen.bias of the model by default
    #[arg(long, value_name = "B", value_parser = number)]
    bias: Option<f64>,
    /// Handwriting: go on in the hand of this line, a JSONL file with one text and its strokes
    #[arg(long, value_name = "FILE")]
    prime: Option<PathBuf>,
    /// Handwriting: write each line this many times, with the seeds N, N + 1, …
    #[arg(long, value_name = "N", value_parser = from_one::<u64>)]
    times: Option<u64>,
    /// Handwriting: number of points of a line, for a model that writes without a text
    #[arg(long, value_name = "N", value_parser = from_one::<usize>)]
    points: Option<usize>,
    /// Handwriting: file to draw in, .svg, or .html for a page that writes stroke by stroke
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl TextFlags {
    /// Returns the first flag that was given.
    fn given(&self) -> Option<&'static str> {
        let Self { tokens, temperature, top_k, top_p } = self;
        let flags = [
            ("--tokens", tokens.is_some()),
            ("--temperature", temperature.is_some()),
            ("--top-k", top_k.is_some()),
            ("--top-p", top_p.is_some()),
        ];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }

    fn options(&self) -> SampleOptions {
        SampleOptions {
            temperature: self.temperature.unwrap_or(0.8) as f32,
            top_k: self.top_k,
            top_p: self.top_p.map(|p| p as f32),
            max_len: self.tokens.unwrap_or(300),
            stop: Vec::new(),
        }
    }
}

impl PenFlags {
    /// Returns the first flag that was given.
    fn given(&self) -> Option<&'static str> {
        let Self { bias, prime, times, points, out } = self;
        let flags = [
            ("--bias", bias.is_some()),
            ("--prime", prime.is_some()),
            ("--times", times.is_some()),
            ("--points", points.is_some()),
            ("--out", out.is_some()),
        ];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }
}

impl Generate {
    pub fn run(self) -> Result<()> {
        let model = opened(&self.model)?;
        let by_hand = model.description().task == BY_HAND;
        let (other, kind) = match by_hand {
            true => (self.text.given(), "models of text; this one writes by hand"),
            false => (self.pen.given(), "models of handwriting; regard train write trains one"),
        };
        if let Some(flag) = other {
            return Err(wrong_use(anyhow!("{flag} is for {kind}")));
        }
        if by_hand { self.write_by_hand(model.as_ref()) } else { self.write_text(model.as_ref()) }
    }

    fn write_text(&self, model: &dyn Opened) -> Result<()> {
        let options = self.text.options();
        options.validate().map_err(failure)?;
        let mut text = String::new();
        let live = !self.json;
        // The prompt is printed with the first piece, once the model has accepted it.
        let mut prompt = Some(self.prompt.as_str());
        let mut hear = |_: usize, piece: &str| {
            if live {
                let piece = format!("{}{piece}", prompt.take().unwrap_or_default());
                let mut out = std::io::stdout().lock();
                // The last `print` below notices a closed pipe.
                let _ = out.write_all(piece.as_bytes()).and_then(|()| out.flush());
            } else {
                text.push_str(piece);
            }
        };
        let given = (!self.prompt.is_empty()).then(|| Given::argument(&self.prompt, model.input_kind()));
        let input = given.transpose().map_err(failure)?;
        let prompts = [Prompt { input, seed: self.seed }];
        model.generate(&prompts, &options, &Pass::inference(), &mut hear).map_err(failure)?;
        match self.json {
            true => print(&format!("{}\n", json!({ "input": self.prompt, "output": text }))),
            false => print("\n"),
        }
    }

    fn write_by_hand(&self, model: &dyn Opened) -> Result<()> {
        if let Some(out) = &self.pen.out {
            drawing(out)?;
            check_folder(out)?;
        }
        let bias = self.pen.bias.map(|bias| bias as f32);
        if let Some(bias) = bias.filter(|bias| !(bias.is_finite() && *bias >= 0.0)) {
            return Err(wrong_use(anyhow!("--bias {bias}: expected a number, 0 or more")));
        }
        let prime = self.pen.prime.as_deref().map(primed).transpose()?;
        let options = PenOptions { bias, prime, points: self.pen.points };
        let mut texts: Vec<&str> = self.prompt.lines().filter(|line| !line.trim().is_empty()).collect();
        if texts.is_empty() {
            texts.push("");
        }
        let times = self.pen.times.unwrap_or(1);
        if times.saturating_mul(texts.len() as u64) > MOST_LINES {
            return Err(wrong_use(anyhow!("--times {times}: expected at most {MOST_LINES} lines in all")));
        }
        let last = self.seed.checked_add(times).context("--seed and --times together are too large")?;
        let lines: Vec<PenRequest> = texts
            .iter()
            .flat_map(|text| (self.seed..last).map(|seed| PenRequest { text: text.to_string(), seed }))
            .collect();
        let found = model.write_by_hand(&lines, &options, &Pass::inference()).map_err(failure)?;
        let (mut written, mut refused, mut documents) = (Vec::new(), Vec::new(), Vec::new());
        for (line, found) in lines.iter().zip(found) {
            match found {
                Ok(ink) => {
                    documents.push(document(line, &ink)?);
                    written.push(ink);
                }
                Err(error) => {
                    documents.push(json!({ "input": line.text, "seed": line.seed, "error": error.to_string() }));
                    refused.push(error);
                }
            }
        }
        if self.json {
            let document = if documents.len() == 1 { documents.remove(0) } else { Value::Array(documents) };
            print(&format!("{document}\n"))?;
        }
        if let Some(out) = self.pen.out.as_deref().filter(|_| !written.is_empty()) {
            let content = match drawing(out)? {
                Drawing::Svg => ink::to_svg(&written),
                Drawing::Html => ink::to_html(&written),
            };
            save_atomically(out, content.as_bytes())?;
            tell!("wrote {}", out.display());
        } else if !self.json {
            let drawn: Vec<String> = written.iter().map(ink::to_text).collect();
            print(&drawn.join("\n"))?;
        }
        for line in written.iter().filter(|line| !line.is_finished) {
            tell!("note: {:?} was not finished; another seed or a higher --bias may help", line.text);
        }
        let count = refused.len();
        for error in refused.iter().skip(1).take(9) {
            tell!("error: {error}");
        }
        match refused.into_iter().next() {
            Some(error) if count == 1 || !written.is_empty() => Err(failure(error)),
            Some(error) => bail!("{count} of {} lines could not be written: {error}", lines.len()),
            None => Ok(()),
        }
    }
}

/// Formats of `--out`.
enum Drawing {
    Svg,
    Html,
}

fn drawing(out: &Path) -> Result<Drawing> {
    match out.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => Ok(Drawing::Svg),
        Some("html") => Ok(Drawing::Html),
        _ => Err(wrong_use(anyhow!("--out {}: expected a name that ends in .svg or .html", out.display()))),
    }
}

/// Reads the one line of a file to go on from.
fn primed(path: &Path) -> Result<Handwritten> {
    let mut examples = read_strokes(path)?.examples;
    match examples.len() {
        1 => Ok(examples.remove(0)),
        count => bail!("{}: expected one line to go on from, found {count}", path.display()),
    }
}

fn document(line: &PenRequest, ink: &Ink) -> Result<Value> {
    let mut document = json!({ "input": line.text, "output": ink.summary(), "seed": line.seed });
    if let (Value::Object(all), Value::Object(more)) = (&mut document, serde_json::to_value(ink)?) {
        all.extend(more);
    }
    Ok(document)
}
