//! `regard data`: what data sets have, what is wrong with a file, and the built-in data as files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use regard_data::builtin::{self, Opinion, Scene, Sizes};
use regard_data::{Handwritten, JOINED, Recording, Split, Splits, encode_wav, joined, listed, read_recordings};
use regard_figures::{Table, number};
use regard_system::save_atomically;
use regard_tasks::survey::{self, Survey};
use regard_tasks::{Kind, Request, TaskError};
use serde_json::json;

use crate::failure::{failure, wrong_use};
use crate::print::{print, tell};
use crate::value::{from_zero, task};

/// Number of papers of the built-in graph, as in its configuration.
const PAPERS: usize = 1_200;

/// The arguments of `regard data`.
#[derive(Args)]
pub struct Data {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the built-in data of every task, split by split
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Describe a data set, split by split, and name its mistakes
    ///
    /// Names the lines that cannot be read, at most 20. Warns of inputs that are in the training split and in a held-out one, and of
    /// inputs with different labels. Exits with 1 if a line cannot be read. The data are only read.
    #[command(
        after_help = "Example: regard data check classify reviews.csv --set data.text=review --set data.label=stars"
    )]
    Check {
        /// Task that the data are for
        #[arg(value_name = "TASK", value_parser = task())]
        task: &'static dyn Kind,
        /// File, or folder with train.*, dev.* and test.*; without it the built-in data
        #[arg(value_name = "PATH")]
        data: Option<PathBuf>,
        /// Change a key of the configuration, such as data.text=review
        #[arg(long = "set", value_name = "KEY=VALUE")]
        sets: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the built-in data of a task as files, to read, change or use elsewhere, or convert recordings to training files
    Make {
        /// Task whose data to write
        #[arg(value_name = "TASK", value_parser = ["translate", "tag", "classify", "generate", "pretrain", "words", "image", "caption", "graph", "speech", "write"])]
        task: String,
        /// Recordings to convert instead of the built-in data: a file, a folder or an archive
        #[arg(long, value_name = "PATH")]
        from: Option<PathBuf>,
        /// Folder to write to
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Seed of the random choices
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_zero::<u64>)]
        seed: u64,
    },
}

impl Data {
    /// Runs the command.
    pub fn run(self) -> Result<()> {
        match self.action {
            Action::List { json } => list(json),
            Action::Check { task, data, sets, json } => {
                check(task, &Request { data, sets, ..Request::default() }, json)
            }
            Action::Make { task, from: Some(from), out, seed } => convert(&task, &from, &out, seed),
            Action::Make { task, from: None, out, seed } => make(&task, out, seed),
        }
    }
}

/// Lists the built-in data of every task.
fn list(json: bool) -> Result<()> {
    let mut table = Table::new(["task", "split", "examples", "mean length", "labels"]);
    let mut documents = Vec::new();
    for kind in regard_tasks::kinds() {
        let survey = kind.survey(&Request::default()).map_err(failure)?;
        if survey.splits.is_empty() {
            table.push([kind.name(), "made as needed"]);
        }
        for split in &survey.splits {
            let labels = if split.labels.is_empty() { String::new() } else { split.labels.len().to_string() };
            let length =
                split.length.map_or(String::new(), |length| format!("{} {}", number(length.mean, 3), length.unit));
            table.push([kind.name(), &split.split, &split.examples.to_string(), &length, &labels]);
        }
        documents.push(json!({ "task": kind.name(), "splits": survey.splits }));
    }
    print(&if json { format!("{}\n", json!(documents)) } else { table.to_text() })?;
    if !json {
        tell!(
            "mean length: mean number of words or vectors of an input. regard data make TASK --out DIR writes the data as files."
        );
    }
    Ok(())
}

/// Checks a data set.
fn check(kind: &dyn Kind, request: &Request, json: bool) -> Result<()> {
    let survey = survey::check(kind, request).map_err(|error| match error {
        // The task has no key `data.path`.
        TaskError::Settings { place, .. } if place == "--data" => {
            let what = "read files: it makes its examples as needed".to_string();
            failure(TaskError::Unsupported { task: kind.name(), what })
        }
        error => failure(error),
    })?;
    if json {
        print(&format!("{}\n", serde_json::to_string(&survey)?))?;
    } else {
        print(&text(&survey))?;
    }
    match survey.problems.len() {
        0 => Ok(()),
        1 => bail!("1 problem"),
        count => bail!("{count} problems"),
    }
}

fn text(survey: &Survey) -> String {
    let mut text: String = survey.problems.iter().map(|problem| format!("{problem}\n")).collect();
    let unit = survey.splits.first().and_then(|split| split.length).map(|length| length.unit.to_string());
    let lengths = unit.into_iter().flat_map(|unit| [unit, "longest".to_string()]);
    let columns = ["split", "examples", "distinct inputs"].map(str::to_string).into_iter();
    let mut table = Table::new(columns.chain(lengths).chain(["labels".to_string()]));
    for split in &survey.splits {
        let mut labels: Vec<(&String, &usize)> = split.labels.iter().collect();
        labels.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let labels: Vec<String> = labels.into_iter().map(|(label, count)| format!("{label} {count}")).collect();
        let labels = if labels.is_empty() { String::new() } else { listed(&labels) };
        let counts = [split.split.clone(), split.examples.to_string(), split.distinct.to_string()];
        let lengths = split.length.into_iter().flat_map(|length| [number(length.mean, 3), length.longest.to_string()]);
        table.push(counts.into_iter().chain(lengths).chain([labels]));
    }
    if !survey.splits.is_empty() {
        text += &table.to_text();
    }
    text.extend(survey.notes.iter().map(|note| format!("{note}\n")));
    text.extend(survey.warnings.iter().map(|warning| format!("warning: {warning}\n")));
    text
}

/// Writes the built-in data of a task as files.
fn make(task: &str, out: PathBuf, seed: u64) -> Result<()> {
    let files = match task {
        "translate" => {
            let pairs = builtin::english_french(Sizes::default(), seed);
            parts("tsv", "", pairs.map(|sentence| format!("{}\t{}\n", sentence.text(), sentence.french)))
        }
        "tag" => parts(
            "tsv",
            "",
            builtin::tagged(Sizes::default(), seed).map(|sentence| {
                let words = sentence.iter().map(|token| format!("{}\t{}\n", token.text, token.tag));
                words.collect::<String>() + "\n"
            }),
        ),
        "classify" => {
            let opinions = builtin::sentiment(Opinion::sizes(), seed);
            let line = |opinion: Opinion| format!("{}\t{}\n", opinion.text, opinion.label.name());
            parts("tsv", "text\tlabel\n", opinions.map(line))
        }
        "write" => handwriting(builtin::handwriting(builtin::LINES, seed)),
        "image" => return make_digits(&out, seed),
        "caption" => return make_scenes(&out, seed),
        "graph" => {
            let files = builtin::citations(PAPERS, seed).to_files();
            files.into_iter().map(|(name, content)| (name.to_string(), content)).collect()
        }
        "speech" => return write_recordings(&out, builtin::spoken(builtin::SPOKEN, seed)),
        _ => vec![("text.txt".to_string(), builtin::text(seed))],
    };
    write_all(&out, files)
}

/// Converts recordings of a task to its training files.
fn convert(task: &str, from: &Path, out: &Path, seed: u64) -> Result<()> {
    match task {
        "speech" => join_recordings(from, out, seed),
        "write" => write_all(out, handwriting(regard_data::convert_strokes(from, seed)?)),
        _ => Err(wrong_use(anyhow!("--from {}: the task {task} has no recordings to convert", from.display()))),
    }
}

/// Returns handwritten lines as files.
fn handwriting(lines: Splits<Handwritten>) -> Vec<(String, String)> {
    parts("jsonl", "", lines.map(|line| line.line()))
}

/// Writes files to a folder, which is created if needed.
fn write_all(out: &Path, files: Vec<(String, String)>) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    for (name, content) in files {
        let path = out.join(name);
        save_atomically(&path, content.as_bytes())?;
        print(&format!("wrote {}\n", path.display()))?;
    }
    Ok(())
}

/// Writes the built-in digits as folders of pictures, one for each label.
fn make_digits(out: &Path, seed: u64) -> Result<()> {
    let digits = builtin::digits(builtin::DIGITS, seed);
    for split in Split::ALL {
        let folder = out.join(split.to_string());
        for (at, digit) in digits.get(split).iter().enumerate() {
            let class = folder.join(digit.label.as_deref().unwrap_or_default());
            std::fs::create_dir_all(&class).with_context(|| class.display().to_string())?;
            let path = class.join(format!("{at}.png"));
            std::fs::write(&path, digit.image.to_png()).with_context(|| path.display().to_string())?;
        }
        print(&format!("wrote {} with {} pictures\n", folder.display(), digits.get(split).len()))?;
    }
    Ok(())
}

/// Writes the built-in scenes as folders of pictures, each with its `captions.tsv`.
fn make_scenes(out: &Path, seed: u64) -> Result<()> {
    let scenes = builtin::scenes(Scene::sizes(), seed);
    for split in Split::ALL {
        let folder = out.join(split.to_string());
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let mut lines = "file\tsentence\n".to_string();
        for (at, scene) in scenes.get(split).iter().enumerate() {
            let name = format!("{at}.png");
            let path = folder.join(&name);
            std::fs::write(&path, scene.image.to_png()).with_context(|| path.display().to_string())?;
            lines += &format!("{name}\t{}\n", scene.sentence);
        }
        // Last, so that it names only pictures that are there.
        let path = folder.join("captions.tsv");
        save_atomically(&path, lines.as_bytes())?;
        print(&format!("wrote {} with {} pictures\n", path.display(), scenes.get(split).len()))?;
    }
    Ok(())
}

/// Joins recordings of single labels to strings, and writes them.
fn join_recordings(from: &Path, out: &Path, seed: u64) -> Result<()> {
    let recordings = read_recordings(from, None)?.examples;
    let strings = joined(&recordings, JOINED, seed).with_context(|| from.display().to_string())?;
    write_recordings(out, strings)
}

/// Writes recordings as WAV files, with a manifest for each part.
fn write_recordings(out: &Path, recordings: Splits<Recording>) -> Result<()> {
    for split in Split::ALL {
        let folder = out.join(split.to_string());
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let mut lines = "path\ttext\n".to_string();
        for (at, recording) in recordings.get(split).iter().enumerate() {
            let name = format!("{split}/{at}.wav");
            let path = out.join(&name);
            std::fs::write(&path, encode_wav(&recording.sound)).with_context(|| path.display().to_string())?;
            lines += &format!("{name}\t{}\n", recording.answer);
        }
        // Last, so that it names only recordings that are there.
        let path = out.join(format!("{split}.tsv"));
        save_atomically(&path, lines.as_bytes())?;
        print(&format!("wrote {} with {} recordings\n", path.display(), recordings.get(split).len()))?;
    }
    Ok(())
}

/// Returns `train`, `dev` and `test` as files with a first line each.
fn parts(extension: &str, header: &str, parts: Splits<String>) -> Vec<(String, String)> {
    let file =
        |name: &str, examples: Vec<String>| (format!("{name}.{extension}"), header.to_string() + &examples.concat());
    vec![file("train", parts.train), file("dev", parts.dev), file("test", parts.test)]
}
