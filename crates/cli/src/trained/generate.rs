//! `regard generate`: writes text with a language model, or by hand with a model of handwriting.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use regard_data::{Handwritten, read_strokes};
use regard_nn::Pass;
use regard_system::{check_folder, save_atomically};
use regard_tasks::Opened;
use regard_tasks::decode::{Chat, Wish};
use regard_tasks::ink::{self, Ink, PenOptions, PenRequest};
use regard_tasks::input::Given;
use regard_tasks::task::Prompt;
use serde_json::{Value, json};

use super::{Weights, opened_as};
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
    /// A model folder written by `regard train generate` or `regard train write`, or a published language model or translator
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Texts to continue or to translate, all at once, an empty one by default; or the text to write by hand, in one or more lines
    #[arg(value_name = "PROMPT")]
    prompts: Vec<String>,
    #[command(flatten)]
    text: TextFlags,
    #[command(flatten)]
    pen: PenFlags,
    /// Seed of the sampling
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = from_zero::<u64>)]
    seed: u64,
    #[command(flatten)]
    weights: Weights,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Flags of language models and translators. A published checkpoint has defaults of its own, in generation_config.json.
#[derive(Args)]
struct TextFlags {
    /// Number of tokens to write; 300 by default
    #[arg(long, value_name = "N", value_parser = from_one::<usize>)]
    tokens: Option<usize>,
    /// Sampling temperature: below 1 favours likely tokens, above 1 unlikely ones; 0 always takes the likeliest. 0.8 by default; a
    /// checkpoint takes the likeliest unless its folder says otherwise
    #[arg(long, value_name = "T", value_parser = number)]
    temperature: Option<f64>,
    /// Sample only among the K likeliest tokens; among all by default
    #[arg(long, value_name = "K", value_parser = from_one::<usize>)]
    top_k: Option<usize>,
    /// Sample only among the likeliest tokens that together have probability P; among all by default
    #[arg(long, value_name = "P", value_parser = number)]
    top_p: Option<f64>,
    /// Search for the likeliest text with a beam of N hypotheses instead of sampling
    #[arg(long, value_name = "N", value_parser = from_one::<usize>)]
    beams: Option<usize>,
    /// Beam search: divide log-probabilities by length^A; above 0 favours long texts; 1 by default
    #[arg(long, value_name = "A", value_parser = number)]
    length_penalty: Option<f64>,
    /// Make tokens that have occurred less likely: divide positive scores by this, multiply negative ones; 1 by default
    #[arg(long, value_name = "R", value_parser = number)]
    repetition_penalty: Option<f64>,
    /// Never write the same N tokens in a row twice
    #[arg(long, value_name = "N", value_parser = from_one::<usize>)]
    no_repeat: Option<usize>,
    /// End the text before this string; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Answer each prompt as the message of a user, by the checkpoint's chat template; a prompt may also be a JSON list of messages
    /// with "role" and "content"
    #[arg(long)]
    chat: bool,
    /// With --chat: the message of the system, before all others
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
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
        let Self { tokens, temperature, top_k, top_p, beams, length_penalty, repetition_penalty, no_repeat, .. } = self;
        let flags = [
            ("--tokens", tokens.is_some()),
            ("--temperature", temperature.is_some()),
            ("--top-k", top_k.is_some()),
            ("--top-p", top_p.is_some()),
            ("--beams", beams.is_some()),
            ("--length-penalty", length_penalty.is_some()),
            ("--repetition-penalty", repetition_penalty.is_some()),
            ("--no-repeat", no_repeat.is_some()),
            ("--stop", !self.stop.is_empty()),
            ("--chat", self.chat),
        ];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }

    fn wish(&self) -> Wish {
        let single = |number: Option<f64>| number.map(|number| number as f32);
        Wish {
            max_len: self.tokens,
            temperature: single(self.temperature),
            top_k: self.top_k,
            top_p: single(self.top_p),
            beams: self.beams,
            length_penalty: self.length_penalty,
            repetition_penalty: single(self.repetition_penalty),
            no_repeat: self.no_repeat,
            stop: self.stop.clone(),
            chat: self.chat.then(|| Chat { system: self.system.clone() }),
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
        let model = opened_as(&self.model, self.weights.weights)?;
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
        let wish = self.text.wish();
        let none = [String::new()];
        let prompts = if self.prompts.is_empty() { &none[..] } else { &self.prompts };
        let mut texts = vec![String::new(); prompts.len()];
        let live = !self.json && prompts.len() == 1;
        // The prompt is printed with the first piece, once the model has accepted it. A translator's text does not go on from it.
        let is_continued = model.continues_prompts() && !self.text.chat;
        let mut before = is_continued.then_some(prompts[0].as_str());
        let mut hear = |at: usize, piece: &str| {
            if live {
                let piece = format!("{}{piece}", before.take().unwrap_or_default());
                let mut out = std::io::stdout().lock();
                // The last `print` below notices a closed pipe.
                let _ = out.write_all(piece.as_bytes()).and_then(|()| out.flush());
            } else {
                texts[at].push_str(piece);
            }
        };
        let begin = |(at, prompt): (usize, &String)| {
            let given = (!prompt.is_empty()).then(|| Given::argument(prompt, model.input_kind()));
            Ok(Prompt { input: given.transpose().map_err(failure)?, seed: self.seed.wrapping_add(at as u64) })
        };
        let starts = prompts.iter().enumerate().map(begin).collect::<Result<Vec<_>>>()?;
        model.generate(&starts, &wish, &Pass::inference(), &mut hear).map_err(failure)?;
        if live {
            return print("\n");
        }
        let document = |(prompt, text): (&String, &String)| json!({ "input": prompt, "output": text });
        let mut documents: Vec<Value> = prompts.iter().zip(&texts).map(document).collect();
        match (self.json, documents.len()) {
            (true, 1) => print(&format!("{}\n", documents.remove(0))),
            (true, _) => print(&format!("{}\n", Value::Array(documents))),
            (false, _) => {
                let whole = |(prompt, text): (&String, &String)| match is_continued {
                    true => format!("{prompt}{text}\n"),
                    false => format!("{text}\n"),
                };
                print(&prompts.iter().zip(&texts).map(whole).collect::<Vec<_>>().join("\n"))
            }
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
        let mut texts: Vec<&str> =
            self.prompts.iter().flat_map(|prompt| prompt.lines()).filter(|line| !line.trim().is_empty()).collect();
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
