//! `regard count`: parameters, operations and memory of a described model, without building it.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use regard_figures::thousands;
use regard_inspect::count::{self, CountError, Description, HEADER_LIMIT, Part, Stored, preset, shards};
use regard_tasks::hugging_face;
use serde::Serialize;
use serde_json::Value;

use crate::failure::wrong_use;
use crate::print::print;
use crate::value::from_one;

/// The arguments of `regard count`.
#[derive(Args)]
pub struct Count {
    /// A folder with config.json and optional safetensors files, from Regard or Hugging Face
    #[arg(value_name = "MODEL", conflicts_with_all = ["config", "preset"])]
    folder: Option<PathBuf>,
    /// A TOML file that describes a model, such as configs/count.toml
    #[arg(long, value_name = "F.toml", conflicts_with = "preset")]
    config: Option<PathBuf>,
    /// A published model, such as gpt2 or llama-3-8b; an unknown name lists them all; transformer-base by default
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Number of sequences computed together; as in the description by default
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = from_one::<usize>)]
    batch: Option<usize>,
    /// Number of tokens of a sequence, or of the source of a translator; as in the description by default
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = from_one::<usize>)]
    seq: Option<usize>,
    /// Number of tokens of a translator's target; as in the description by default
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = from_one::<usize>)]
    target_seq: Option<usize>,
    /// Change one entry of the description, such as model.position=rope; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// The reason why a model could not be counted.
#[derive(Debug, thiserror::Error)]
enum CountFailure {
    /// The description is invalid.
    #[error("{origin}: {error}")]
    Description { origin: String, error: CountError },
    /// A file is not valid TOML, JSON or safetensors.
    #[error("{}: {why}", path.display())]
    Syntax { path: PathBuf, why: String },
    /// A `--set` is invalid.
    #[error("--set {given}: {why}")]
    Set { given: String, why: String },
    /// A file cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Read { path: PathBuf, why: String },
}

/// A description as it was given, before `--set` changes it.
struct Given {
    origin: String,
    value: Value,
    stored: Option<Stored>,
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    count: &'a count::Count,
    description: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<StoredReport<'a>>,
}

#[derive(Serialize)]
struct StoredReport<'a> {
    parameters: u128,
    dtypes: &'a std::collections::BTreeMap<String, u128>,
    buffers: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<String>,
}

impl Count {
    pub fn run(self) -> Result<()> {
        print(&self.text().map_err(|failure| match failure {
            CountFailure::Read { .. } => failure.into(),
            failure => wrong_use(failure),
        })?)
    }

    fn text(&self) -> Result<String, CountFailure> {
        let Given { origin, mut value, stored } = self.given()?;
        for change in &self.set {
            set(&mut value, change)?;
        }
        let refuse = |error| CountFailure::Description { origin: origin.clone(), error };
        let mut description = Description::from_value(&value).map_err(refuse)?;
        let sizes = &mut description.sizes;
        sizes.batch = self.batch.unwrap_or(sizes.batch);
        sizes.seq = self.seq.unwrap_or(sizes.seq);
        sizes.target_seq = self.target_seq.or(sizes.target_seq);
        let count = count::count(&description).map_err(refuse)?;
        Ok(if self.json {
            let stored = stored.as_ref().map(|stored| StoredReport {
                parameters: stored.parameters,
                dtypes: &stored.dtypes,
                buffers: stored.buffers,
                difference: stored.difference(count.parameters()),
            });
            let report = Report { count: &count, description: description.to_value(), stored };
            serde_json::to_string_pretty(&report).expect("a count is valid JSON") + "\n"
        } else {
            table(&origin, &description, &count, stored.as_ref())
        })
    }

    fn given(&self) -> Result<Given, CountFailure> {
        if let Some(path) = &self.config {
            let table: toml::Table = toml::from_str(&text(path)?)
                .map_err(|error| CountFailure::Syntax { path: path.clone(), why: error.to_string() })?;
            let value = serde_json::to_value(table)
                .map_err(|error| CountFailure::Syntax { path: path.clone(), why: error.to_string() })?;
            return Ok(Given { origin: path.display().to_string(), value, stored: None });
        }
        if let Some(folder) = &self.folder {
            return from_folder(folder);
        }
        let name = self.preset.as_deref().unwrap_or("transformer-base");
        let description =
            preset(name).map_err(|error| CountFailure::Description { origin: "--preset".into(), error })?;
        Ok(Given { origin: name.into(), value: description.to_value(), stored: None })
    }
}

fn from_folder(folder: &Path) -> Result<Given, CountFailure> {
    let path = folder.join("config.json");
    let origin = path.display().to_string();
    let config = json(&path)?;
    let description = if config.get("model_type").is_some() {
        hugging_face::describe(&config)
    } else if config.get("architecture").is_some() {
        Description::from_model_folder(&config)
    } else {
        Err(CountError::field("architecture", "missing, as is model_type, which a Hugging Face folder has"))
    };
    let value = description.map_err(|error| CountFailure::Description { origin: origin.clone(), error })?.to_value();
    Ok(Given { origin, value, stored: stored(folder)? })
}

/// Reads what the folder's safetensors files hold from their headers; `None` if there are no such files.
fn stored(folder: &Path) -> Result<Option<Stored>, CountFailure> {
    let (single, index) = (folder.join("model.safetensors"), folder.join("model.safetensors.index.json"));
    let wrong = |path: &Path| {
        let origin = path.display().to_string();
        move |error| CountFailure::Description { origin, error }
    };
    let files = if single.exists() {
        vec![single]
    } else if index.exists() {
        let names = shards(&json(&index)?).map_err(wrong(&index))?;
        names.into_iter().map(|name| folder.join(name)).collect()
    } else {
        return Ok(None);
    };
    let mut stored = Stored::default();
    for file in files {
        stored.add(&header(&file)?).map_err(wrong(&file))?;
    }
    Ok(Some(stored))
}

/// Reads the header of a safetensors file: its length in 8 bytes, then JSON.
fn header(path: &Path) -> Result<Vec<u8>, CountFailure> {
    let failed = |error: std::io::Error| CountFailure::Read { path: path.into(), why: error.to_string() };
    let mut file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(failed)?;
    let length = u64::from_le_bytes(length);
    let room = size.saturating_sub(8).min(HEADER_LIMIT);
    if length > room {
        let why = format!("the header claims {length} bytes, but at most {room} are possible; the file is damaged");
        return Err(CountFailure::Syntax { path: path.into(), why });
    }
    let mut header = Vec::new();
    file.take(length).read_to_end(&mut header).map_err(failed)?;
    Ok(header)
}

fn text(path: &Path) -> Result<String, CountFailure> {
    fs::read_to_string(path).map_err(|error| CountFailure::Read { path: path.into(), why: error.to_string() })
}

fn json(path: &Path) -> Result<Value, CountFailure> {
    serde_json::from_str(&text(path)?)
        .map_err(|error| CountFailure::Syntax { path: path.into(), why: error.to_string() })
}

/// Applies `key=value` to a description. The value is TOML or, failing that, plain text.
fn set(root: &mut Value, given: &str) -> Result<(), CountFailure> {
    let wrong = |why: &str| CountFailure::Set { given: given.into(), why: why.into() };
    let (key, text) = given.split_once('=').ok_or_else(|| wrong("expected KEY=VALUE, such as model.position=rope"))?;
    let parsed = toml::from_str::<toml::Table>(&format!("value = {text}")).ok();
    // A line break in the text would begin another entry, so exactly one is allowed.
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    let value = parsed.and_then(|value| serde_json::to_value(value).ok()).unwrap_or_else(|| text.trim().into());
    let mut place = root;
    for step in key.trim().split('.') {
        if step.is_empty() {
            return Err(wrong("expected names separated by single dots before the ="));
        }
        // `position = "rope"` is short for `position = { kind = "rope" }`.
        if let Value::String(kind) = place {
            *place = serde_json::json!({ "kind": kind });
        } else if place.is_null() {
            *place = Value::Object(Default::default());
        }
        place = match place {
            Value::Object(table) => table.entry(step).or_insert(Value::Null),
            Value::Array(list) => {
                let at = step.parse().ok().and_then(|i: usize| list.get_mut(i));
                at.ok_or_else(|| wrong(&format!("the list has no entry {step}")))?
            }
            other => return Err(wrong(&format!("{other} has no entry {step}"))),
        };
    }
    *place = value;
    Ok(())
}

/// Formats the count as a table.
fn table(origin: &str, description: &Description, count: &count::Count, stored: Option<&Stored>) -> String {
    let value = description.to_value();
    let kind = value["architecture"].as_str().unwrap_or_default().replace('_', "-");
    let sizes = description.sizes;
    let (batch, seq) = (thousands(sizes.batch as u128), thousands(sizes.seq as u128));
    let lengths = match description.architecture {
        count::Architecture::EncoderDecoder(_) => {
            format!(", seq {seq}, target {}", thousands(sizes.target_seq() as u128))
        }
        count::Architecture::Image(_) => String::new(),
        count::Architecture::Graph(model) => format!(", {seq} nodes, {} edges", thousands(model.edges as u128)),
        _ => format!(", seq {seq}"),
    };
    let mut text = format!("{origin}: {kind}, batch {batch}{lengths}\n\n");
    let mut rows = vec![["part", "each", "parameters", "FLOPs forward"].map(String::from)];
    for part in &count.model.parts {
        add_rows(&mut rows, part, 0, 1);
    }
    let total = count.model.total;
    rows.push(["total".into(), String::new(), thousands(total.parameters), thousands(total.flops)]);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3)];
    for [part, each, parameters, flops] in &rows {
        let [a, b, c, d] = widths;
        text += &format!("{part:<a$}  {each:>b$}  {parameters:>c$}  {flops:>d$}\n");
    }
    let memory = &count.memory;
    let lines = [
        ("FLOPs of a training step", thousands(count.flops.training_step)),
        ("weights", bytes(memory.weights)),
        ("gradients", bytes(memory.gradients)),
        ("AdamW's moments", bytes(memory.optimiser)),
        ("activations, fused attention", bytes(memory.activations)),
        ("activations, dense attention", bytes(memory.activations_dense)),
        ("training, fused attention", bytes(memory.training)),
        ("all logits (training never holds them)", bytes(memory.logits)),
        ("keys and values, or states, for decoding", bytes(memory.kv_cache)),
    ];
    text.push('\n');
    let width = lines.iter().map(|(_, number)| number.chars().count()).max().unwrap_or(0);
    for (what, number) in lines {
        text += &format!("{what:<40}{number:>width$}\n");
    }
    if let Some(stored) = stored {
        let types: Vec<String> = stored.dtypes.keys().cloned().collect();
        let verdict = stored.difference(count.parameters()).unwrap_or_else(|| "as counted".into());
        let (parameters, types) = (thousands(stored.parameters), types.join(" and "));
        text += &format!("\nstored: {parameters} parameters, {types}: {verdict}\n");
    }
    text
}

/// Adds a row for a part that occurs `times` times, and rows for the parts inside it.
fn add_rows(rows: &mut Vec<[String; 4]>, part: &Part, depth: usize, times: u128) {
    if part.total.parameters == 0 && part.total.flops == 0 {
        return;
    }
    let all = |one: u128| thousands(one.saturating_mul(times));
    let count = if part.count > 1 { format!(" × {}", thousands(part.count)) } else { String::new() };
    let each = if part.count.max(times) > 1 { thousands(part.each.parameters) } else { String::new() };
    let name = format!("{:1$}{2}{count}", "", 2 * depth, part.name);
    rows.push([name, each, all(part.total.parameters), all(part.total.flops)]);
    for below in &part.parts {
        add_rows(rows, below, depth + 1, times.saturating_mul(part.count));
    }
}

/// Formats a number of bytes in the largest unit in which it is at least 1.
fn bytes(number: u128) -> String {
    let (mut size, mut unit) = (number as f64, 0);
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    while size >= 1024.0 && unit + 1 < units.len() {
        (size, unit) = (size / 1024.0, unit + 1);
    }
    if unit == 0 { format!("{number} B") } else { format!("{size:.1} {}", units[unit]) }
}
