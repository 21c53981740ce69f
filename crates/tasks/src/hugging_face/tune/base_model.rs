//! The network of a checkpoint that a task trains further: which head it gets, what is taken over, what is trained and how fast.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regard_data::{PublishedText, PublishedTokenizer};
use regard_inspect::count::{CountError, Description};
use regard_nn::layers::adapter::AdapterPlan;
use regard_nn::{Init, Spread};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::adapters::plan_adapters;
use super::config::{Freeze, LoraKeys, NetworkKeys};
use crate::error::TaskError;
use crate::folder::{CONFIG, Files, TOKENIZER};
use crate::hugging_face::config::{ConfigFile, HeadKind};
use crate::hugging_face::export::COPIED;
use crate::hugging_face::families::{Tuning, family};
use crate::hugging_face::load::{Planned, planned, settings};
use crate::hugging_face::network::{Network, NetworkConfig};
use crate::hugging_face::sentence::longest;
use crate::hugging_face::table::{Builder, Table};
use crate::weights;

/// File of a model folder with the `config.json` of `transformers` and what was taken over.
const RECORD: &str = "hugging_face.json";

/// What a network is trained for.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::hugging_face) enum Goal {
    /// A label, labels or a number for a whole text or picture: the names of the outputs, and the kind of problem.
    Whole(Vec<String>, Option<&'static str>),
    /// A tag for each token, of these names.
    Tokens(Vec<String>),
    /// The next token.
    Next,
    /// A text from a text.
    Translation,
}

/// Everything about the network that a model folder needs to have, beside its weights.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// The `config.json` of the trained network.
    config: Value,
    /// Names of the tensors of the checkpoint that training began with.
    origin: BTreeSet<String>,
    /// Parameters that the checkpoint did not have.
    new: BTreeSet<String>,
}

/// A network that is trained further; see the [module](self).
pub(super) struct Base {
    record: Record,
    pub config: NetworkConfig,
    pub table: Table,
    pub tokenizer: Option<PublishedTokenizer>,
    /// Files that belong to the checkpoint beside its weights, by name.
    copied: BTreeMap<String, Vec<u8>>,
    keys: NetworkKeys,
    pub lora: LoraKeys,
    tuning: Tuning,
    pub adapters: Option<AdapterPlan>,
}

impl Base {
    /// Reads the folder that training begins with. Also returns notes for the user.
    pub fn start(keys: &NetworkKeys, lora: &LoraKeys, goal: &Goal) -> Result<(Self, Vec<String>), TaskError> {
        let folder = keys.from.as_deref().unwrap_or(Path::new(""));
        let Some(theirs) = settings(folder)? else {
            let problem = "expected a folder of transformers, whose config.json has a model_type";
            return Err(TaskError::folder(folder, problem));
        };
        let source = planned(folder, &theirs)?;
        goal.check(&source.config, folder)?;
        let origin: BTreeSet<String> = source.store.tensors().keys().cloned().collect();
        let config =
            goal.settings(&theirs).map_err(|error| TaskError::folder(folder.join(CONFIG), error.to_string()))?;
        let mut record = Record { config, origin, new: BTreeSet::new() };
        let (_, table) =
            record.plan(keys).map_err(|error| TaskError::folder(folder.join(CONFIG), error.to_string()))?;
        let shapes = |table: &Table| -> BTreeMap<String, Vec<Vec<usize>>> {
            let shape = |entry: &super::super::table::Entry| {
                (entry.ours.clone(), entry.pieces.iter().map(|piece| piece.shape.clone()).collect())
            };
            table.entries.iter().map(shape).collect()
        };
        let (old, wanted) = (shapes(&source.table), shapes(&table));
        record.new =
            wanted.iter().filter(|(ours, shape)| old.get(*ours) != Some(shape)).map(|(ours, _)| ours.clone()).collect();
        let dropped = old.iter().filter(|(ours, shape)| wanted.get(*ours) != Some(shape)).count();
        let names = |ours: &String| {
            let entry = table.entries.iter().find(|entry| entry.ours == *ours);
            entry.map_or_else(String::new, |entry| entry.pieces[0].name.clone())
        };
        let fresh: Vec<String> = record.new.iter().map(names).collect();
        let mut notes = vec![format!("{} from {}", class(&record.config), folder.display())];
        if !fresh.is_empty() {
            notes.push(format!("new, with random weights: {}", fresh.join(", ")));
        }
        if dropped > 0 {
            notes.push(format!("{dropped} tensors of another head are left out"));
        }
        let mut copied = BTreeMap::new();
        for name in COPIED {
            let path = folder.join(name);
            if path.is_file() {
                copied.insert(name.to_string(), std::fs::read(&path).map_err(TaskError::io(&path))?);
            }
        }
        let base = Self::new(record, copied, keys, lora, folder)?;
        notes.extend(base.adapters.as_ref().map(|plan| {
            let count: usize = plan.layers.values().map(Vec::len).sum();
            format!("LoRA: adapters of rank {} for {count} matrices; the other weights stay as they are", plan.rank)
        }));
        Ok((base, notes))
    }

    /// Reads the network of a model folder.
    pub fn open(files: &Files, keys: &NetworkKeys, lora: &LoraKeys) -> Result<Self, TaskError> {
        let record: Record = files.json(RECORD)?;
        let listed = COPIED.iter().filter(|name| files.description.files.contains_key(**name));
        let copied = listed.map(|name| Ok((name.to_string(), files.folder.read(files.description, name)?)));
        let copied = copied.collect::<Result<_, TaskError>>()?;
        Self::new(record, copied, keys, lora, files.folder.path())
    }

    fn new(
        record: Record,
        copied: BTreeMap<String, Vec<u8>>,
        keys: &NetworkKeys,
        lora: &LoraKeys,
        folder: &Path,
    ) -> Result<Self, TaskError> {
        let refuse = |error: CountError| TaskError::folder(folder, error.to_string());
        let (config, table) = record.plan(keys).map_err(refuse)?;
        let tokenizer = copied.get(TOKENIZER).map(|json| PublishedTokenizer::from_json(json, &folder.join(TOKENIZER)));
        let file = ConfigFile(&record.config);
        let tuning = family(file).and_then(|family| family.tuning(file)).map_err(refuse)?;
        let adapters = plan_adapters(&table, lora, tuning.adapted)?;
        let tokenizer = tokenizer.transpose()?;
        let (keys, lora) = (keys.clone(), lora.clone());
        let base = Self { record, config, table, tokenizer, copied, keys, lora, tuning, adapters };
        let layers = base.depth_of_head() - 1;
        if let Freeze::Layers(count) = base.keys.freeze
            && count > layers
        {
            let expected = format!("0 to {layers}, the number of layers");
            return Err(regard_nn::ConfigError::new("model.freeze", count, expected).into());
        }
        if !base.table.entries.iter().any(|entry| base.is_trained(&entry.ours)) && base.adapters.is_none() {
            let expected = "a number of layers that leaves something to train";
            return Err(regard_nn::ConfigError::new("model.freeze", "true", expected).into());
        }
        Ok(base)
    }

    /// Returns the files that [`open`](Self::open) reads.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = self.copied.clone();
        files.insert(RECORD.to_string(), serde_json::to_vec_pretty(&self.record).expect("plain values"));
        files
    }

    /// Returns the `config.json` of the trained network.
    pub fn settings(&self) -> &Value {
        &self.record.config
    }

    /// Returns the files that belong to the checkpoint beside its weights, by name.
    pub fn copied(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.copied
    }

    /// Returns one of these files, read as JSON, if the checkpoint has it.
    pub fn copied_json(&self, name: &str) -> Result<Option<Value>, TaskError> {
        let Some(content) = self.copied.get(name) else { return Ok(None) };
        let refuse = |error: serde_json::Error| {
            TaskError::folder(self.from().unwrap_or(Path::new("")).join(name), format!("not JSON: {error}"))
        };
        serde_json::from_slice(content).map(Some).map_err(refuse)
    }

    /// Returns the folder that training began with.
    pub fn from(&self) -> Option<&Path> {
        self.keys.from.as_deref()
    }

    /// Returns the tokeniser.
    pub fn tokenizer(&self) -> Result<&PublishedTokenizer, TaskError> {
        self.tokenizer.as_ref().ok_or_else(|| {
            let folder = self.keys.from.as_deref().unwrap_or(Path::new(""));
            TaskError::folder(folder, "it has no tokenizer.json, which texts need")
        })
    }

    /// Returns an error if the network has not all of the tokens of a text.
    pub fn check_tokens(&self, text: &PublishedText) -> Result<(), TaskError> {
        check_below(&text.ids, self.config.transformer().vocab)
    }

    /// Returns the largest number of tokens that the network reads, at most `most`.
    pub fn longest(&self, most: usize) -> usize {
        longest(&self.config).unwrap_or(usize::MAX).min(most)
    }

    /// Describes the network for counting.
    pub fn described(&self) -> Option<Description> {
        let file = ConfigFile(&self.record.config);
        family(file).and_then(|family| family.describe(file)).ok()
    }

    /// Creates the network; only its new parts have useful weights until it is [warm](Self::warm).
    pub fn model(&self, init: &Init) -> Result<Network, TaskError> {
        let deviation = self.record.config["initializer_range"].as_f64().unwrap_or(0.02) as f32;
        let init = init.clone().with_spread(Spread::Normal(deviation)).with_adapters(self.adapters.clone());
        let network = self.config.init(&init)?;
        Ok(weights::track(network, |path| self.is_trained(ours(path))))
    }

    /// Loads the weights of the folder that training begins with.
    pub fn warm(&self, network: Network) -> Result<Network, TaskError> {
        let folder = self.keys.from.as_deref().unwrap_or(Path::new(""));
        let theirs = settings(folder)?.unwrap_or_default();
        let Planned { store, table, .. } = planned(folder, &theirs)?;
        let by_name: BTreeMap<&str, _> = table.entries.iter().map(|entry| (entry.ours.as_str(), entry)).collect();
        weights::replace_some(network, |path, shape| {
            let name = ours(path);
            if self.record.new.contains(name) || is_adapter(name) {
                return Ok(None);
            }
            let values = match (by_name.get(name), table.computed.iter().find(|one| one.ours == name)) {
                (Some(entry), _) => entry.read(&store)?,
                (None, Some(computed)) => (computed.values)(),
                (None, None) => return Err(TaskError::folder(store.path(), format!("no tensor for {name}"))),
            };
            if values.len() != shape.iter().product::<usize>() || values.iter().any(|value| !value.is_finite()) {
                let problem = format!("the values of {name} are not finite, or not {shape:?}");
                return Err(TaskError::folder(store.path(), problem));
            }
            Ok(Some(values))
        })
    }

    /// Returns the factor on the learning rate of a parameter.
    pub fn rate(&self, path: &str) -> f32 {
        let below = self.depth_of_head() - self.depth(ours(path));
        self.keys.layer_decay.powi(below as i32)
    }

    /// Returns whether a parameter is trained: it is not frozen, and with adapters it is one of theirs or of a new layer.
    pub fn is_trained(&self, name: &str) -> bool {
        if self.table.computed.iter().any(|one| one.ours == name) || self.tuning.fixed.contains(&name) {
            return false;
        }
        let is_head = self.record.new.contains(name) || name.starts_with("head.output.");
        let is_open = match self.keys.freeze {
            Freeze::All(true) => is_head,
            Freeze::All(false) | Freeze::Layers(0) => true,
            Freeze::Layers(count) => self.depth(name) > count,
        };
        is_open && (self.adapters.is_none() || is_adapter(name) || is_head)
    }

    /// Returns the depth of a parameter: 0 in the embedding, the number of its layer from 1, and above all layers one more. The
    /// layers of a decoder count on after those of its encoder.
    fn depth(&self, name: &str) -> usize {
        let encoder = self.config.transformer().n_layers;
        match block(name) {
            Some(Block::Encoder(layer)) => layer + 1,
            Some(Block::Decoder(layer)) => encoder + layer + 1,
            None if name.starts_with("decoder_position.") => encoder + 1,
            None if BELOW.iter().any(|part| name.contains(part)) => 0,
            None if name.starts_with("encoder.norm.") => encoder,
            None => self.depth_of_head(),
        }
    }

    fn depth_of_head(&self) -> usize {
        let decoder = match self.config {
            NetworkConfig::Translation(config) => config.n_decoder_layers.unwrap_or(config.n_layers),
            _ => 0,
        };
        self.config.transformer().n_layers + decoder + 1
    }

    /// Returns the parameters that are trained beside the adapters, as names of `transformers`.
    pub fn saved_beside_adapters(&self) -> Vec<(&str, usize, &super::super::table::Entry)> {
        let trained = self.table.entries.iter().filter(|entry| self.is_trained(&entry.ours));
        trained
            .flat_map(|entry| entry.pieces.iter().enumerate().map(move |(at, piece)| (piece.name.as_str(), at, entry)))
            .collect()
    }
}

impl Record {
    /// Returns the configuration of the network, with the dropout of the settings or of `keys`, and the names of its tensors.
    fn plan(&self, keys: &NetworkKeys) -> Result<(NetworkConfig, Table), CountError> {
        let file = ConfigFile(&self.config);
        let family = family(file)?;
        let mut table = Builder::to_write(&self.origin);
        let mut config = family.plan(file, &mut table)?;
        let tuning = family.tuning(file)?;
        let features = keys.dropout.unwrap_or(tuning.dropout);
        let transformer = config.transformer_mut();
        transformer.dropout = features;
        // `model.dropout` is that of embeddings and heads, too.
        transformer.embedding_dropout = tuning.embedding_dropout.filter(|_| keys.dropout.is_none());
        transformer.attention_dropout = keys.attention_dropout.unwrap_or(tuning.attention_dropout);
        transformer.feed_forward_dropout = tuning.inner_dropout.unwrap_or(features);
        if let Some(head) = config.head_mut() {
            head.dropout = tuning.head_dropout.filter(|_| keys.dropout.is_none()).unwrap_or(features);
        }
        config.transformer().validate()?;
        let table = table.finish().map_err(|error| CountError::field("tensors", error.to_string()))?;
        Ok((config, table))
    }
}

impl Goal {
    /// Returns an error if a checkpoint of this kind cannot be trained for the goal.
    fn check(&self, config: &NetworkConfig, folder: &Path) -> Result<(), TaskError> {
        let (is_suited, kind) = match config {
            NetworkConfig::Encoder(..) | NetworkConfig::Words(_) => (
                matches!(self, Self::Whole(..) | Self::Tokens(_)),
                "an encoder of texts; regard train classify or tag trains",
            ),
            NetworkConfig::Image { .. } => {
                (matches!(self, Self::Whole(..)), "an encoder of pictures; regard train image trains")
            }
            NetworkConfig::Next(_) => (matches!(self, Self::Next), "a language model; regard train generate trains"),
            NetworkConfig::Translation(_) => {
                (matches!(self, Self::Translation), "a translator; regard train translate trains")
            }
        };
        match is_suited {
            true => Ok(()),
            false => Err(TaskError::folder(folder, format!("this is {kind} it further"))),
        }
    }

    /// Returns the `config.json` of the trained network.
    pub fn settings(&self, theirs: &Value) -> Result<Value, CountError> {
        let mut ours = theirs.clone();
        let Some(fields) = ours.as_object_mut() else { return Ok(ours) };
        // Weights are written as f32.
        fields.remove("torch_dtype");
        fields.insert("dtype".to_string(), json!("float32"));
        let (head, names, problem) = match self {
            Self::Whole(names, problem) => (HeadKind::Whole, names, *problem),
            Self::Tokens(names) => (HeadKind::Tokens, names, None),
            Self::Next | Self::Translation => return Ok(ours),
        };
        let file = ConfigFile(theirs);
        let kind = file.text("model_type", "")?;
        let begin = family(file)?.types().iter().find(|(name, _)| *name == kind).map_or("", |(_, begin)| begin);
        let end = match (head, kind) {
            (HeadKind::Tokens, _) => "ForTokenClassification",
            (_, "vit") => "ForImageClassification",
            _ => "ForSequenceClassification",
        };
        fields.insert("architectures".to_string(), json!([format!("{begin}{end}")]));
        let numbered = names.iter().enumerate();
        let by_number: Map<String, Value> = numbered.clone().map(|(at, name)| (at.to_string(), json!(name))).collect();
        let by_name: Map<String, Value> = numbered.map(|(at, name)| (name.clone(), json!(at))).collect();
        fields.insert("id2label".to_string(), Value::Object(by_number));
        fields.insert("label2id".to_string(), Value::Object(by_name));
        fields.remove("num_labels");
        fields.remove("problem_type");
        if let Some(problem) = problem {
            fields.insert("problem_type".to_string(), json!(problem));
        }
        Ok(ours)
    }
}

/// Parts of the names of parameters below all layers.
const BELOW: [&str; 3] = ["embedding.", "vision.class_token", "vision.position"];

/// The place of a block in a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    /// The block with this number in the only stack, or in the encoder of a translator.
    Encoder(usize),
    /// The block with this number in the decoder of a translator.
    Decoder(usize),
}

/// Returns the block that a parameter belongs to, if it belongs to one.
pub(super) fn block(name: &str) -> Option<Block> {
    let number = |rest: &str| rest.split('.').next().and_then(|first| first.parse::<usize>().ok());
    match (name.strip_prefix("decoder."), name.split_once("layers.")) {
        (Some(rest), _) => number(rest).map(Block::Decoder),
        (None, Some((_, rest))) => number(rest).map(Block::Encoder),
        (None, None) => None,
    }
}

/// Returns the path of a parameter without its first part, the kind of network: the name that tables have.
pub(super) fn ours(path: &str) -> &str {
    path.split_once('.').map_or(path, |(_, rest)| rest)
}

pub(super) fn is_adapter(name: &str) -> bool {
    name.contains(".adapter.")
}

/// Returns an error if a token is none of a vocabulary of this size.
pub(super) fn check_below(ids: &[u32], vocab: usize) -> Result<(), TaskError> {
    match ids.iter().find(|&&id| id as usize >= vocab) {
        Some(id) => Err(TaskError::input("token", format!("a number below {vocab}"), id.to_string())),
        None => Ok(()),
    }
}

/// Returns the class of a `config.json`.
fn class(config: &Value) -> &str {
    config["architectures"][0].as_str().unwrap_or("a network")
}
