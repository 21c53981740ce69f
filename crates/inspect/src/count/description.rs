//! Descriptions of models in files: an architecture, its `model` table, additional parts and the sizes of an input.

use regard_nn::ConfigError;
use regard_nn::config::{check_positive, name_the_nearest};
use regard_nn::models::image::ImageClassifierConfig;
use regard_nn::models::transformer::{OutputWeights, TransformerConfig};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::CountError;
use super::extra::Extra;
use super::graph::GraphModel;
use super::part::{Draft, FLOAT};
use super::quantity::Quantity;
use super::recurrent::RecurrentModel;
use super::transformer::Form;

/// A model with its configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum Architecture {
    /// [`regard_nn::models::encoder::Encoder`].
    Encoder(TransformerConfig),
    /// [`regard_nn::models::language_model::LanguageModel`].
    Decoder(TransformerConfig),
    /// [`regard_nn::models::encoder_decoder::EncoderDecoder`].
    EncoderDecoder(TransformerConfig),
    /// [`regard_nn::layers::recurrent::Recurrent`], with an optional embedding and an optional output layer.
    Recurrent(RecurrentModel),
    /// [`regard_nn::models::image::ImageClassifier`]. Of the sizes, only the batch matters.
    Image(ImageClassifierConfig),
    /// [`regard_nn::models::graph::GraphClassifier`], with nodes as tokens.
    Graph(GraphModel),
}

/// The kind of input of the lowest layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Tokens, through the embedding of `vocab` rows.
    #[default]
    Tokens,
    /// Vectors instead of tokens, so there is no embedding. In an encoder-decoder this is the source only: the target has tokens,
    /// with its own embedding and positions.
    Features,
}

/// The sizes of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sizes {
    /// Number of sequences.
    pub batch: usize,
    /// Number of tokens of each sequence; of each source sequence in an encoder-decoder.
    pub seq: usize,
    /// Number of tokens of each target sequence of an encoder-decoder; `seq` if `None`.
    pub target_seq: Option<usize>,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { batch: 1, seq: 512, target_seq: None }
    }
}

impl Sizes {
    /// Sizes of one sequence of `seq` tokens.
    pub fn of(seq: usize) -> Self {
        Self { seq, ..Self::default() }
    }

    /// Returns the number of tokens of each target sequence.
    pub fn target_seq(&self) -> usize {
        self.target_seq.unwrap_or(self.seq)
    }

    pub(super) fn tokens(&self) -> Quantity {
        Quantity::from(self.batch) * self.seq
    }
}

/// A model to count.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// The model and its configuration.
    pub architecture: Architecture,
    /// Input of the lowest layer of a Transformer.
    pub input: Input,
    /// Additional parts.
    pub extra: Vec<Extra>,
    /// Sizes of the input, which operations and memory depend on.
    pub sizes: Sizes,
}

/// The names of architectures in files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Encoder,
    Decoder,
    #[default]
    EncoderDecoder,
    Recurrent,
    Image,
    Graph,
}

/// The top level of a file. `model` is parsed once the architecture is known.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    architecture: Kind,
    #[serde(default)]
    model: Value,
    #[serde(default)]
    input: Input,
    #[serde(default)]
    extra: Vec<Extra>,
    #[serde(default)]
    sizes: Sizes,
}

impl Description {
    /// A description without additional parts, for one sequence of 512 tokens.
    pub fn new(architecture: Architecture) -> Self {
        Self { architecture, input: Input::Tokens, extra: Vec::new(), sizes: Sizes::default() }
    }

    /// Reads `{architecture, model, input, extra, sizes}`. All are optional; other fields are an error. The result is not yet
    /// [validated](Self::validate).
    pub fn from_value(value: &Value) -> Result<Self, CountError> {
        let document: Document = read(value, "")?;
        let model = if document.model.is_null() { Value::Object(Default::default()) } else { document.model };
        let architecture = match document.architecture {
            Kind::Encoder => Architecture::Encoder(read(&model, "model")?),
            Kind::Decoder => Architecture::Decoder(read(&model, "model")?),
            Kind::EncoderDecoder => Architecture::EncoderDecoder(read(&model, "model")?),
            Kind::Recurrent => Architecture::Recurrent(read(&model, "model")?),
            Kind::Image => Architecture::Image(read(&model, "model")?),
            Kind::Graph => Architecture::Graph(read(&model, "model")?),
        };
        Ok(Self { architecture, input: document.input, extra: document.extra, sizes: document.sizes })
    }

    /// Reads a description from the `config.json` of a model folder, whose other entries are ignored.
    pub fn from_model_folder(config: &Value) -> Result<Self, CountError> {
        let ours = ["architecture", "model", "input", "extra", "sizes"];
        let entries = config.as_object().into_iter().flatten().filter(|(key, _)| ours.contains(&key.as_str()));
        Self::from_value(&Value::Object(entries.map(|(key, value)| (key.clone(), value.clone())).collect()))
    }

    /// Returns the description in the form that [`from_value`](Self::from_value) reads, with every field.
    pub fn to_value(&self) -> Value {
        let (architecture, model) = match &self.architecture {
            Architecture::Encoder(config) => (Kind::Encoder, serde_json::to_value(config)),
            Architecture::Decoder(config) => (Kind::Decoder, serde_json::to_value(config)),
            Architecture::EncoderDecoder(config) => (Kind::EncoderDecoder, serde_json::to_value(config)),
            Architecture::Recurrent(config) => (Kind::Recurrent, serde_json::to_value(config)),
            Architecture::Image(config) => (Kind::Image, serde_json::to_value(config)),
            Architecture::Graph(config) => (Kind::Graph, serde_json::to_value(config)),
        };
        let model = model.expect("configurations serialise to JSON");
        let document =
            Document { architecture, model, input: self.input, extra: self.extra.clone(), sizes: self.sizes };
        serde_json::to_value(document).expect("descriptions serialise to JSON")
    }

    /// Returns an error that names the field if the description is invalid.
    pub fn validate(&self) -> Result<(), CountError> {
        match &self.architecture {
            Architecture::Encoder(config) => config.validate(),
            Architecture::EncoderDecoder(config) => config.validate_encoder_decoder(),
            Architecture::Decoder(config) => config.validate().and(config.sight.causal_mask().map(|_| ())),
            Architecture::Recurrent(config) => config.validate(),
            Architecture::Image(config) => config.validate(),
            Architecture::Graph(config) => config.validate(),
        }
        .map_err(|error| error.within("model"))?;
        self.validate_input()?;
        for (i, extra) in self.extra.iter().enumerate() {
            extra.validate().map_err(|error| error.within(&format!("extra[{i}]")))?;
        }
        check_positive("sizes.batch", self.sizes.batch)?;
        check_positive("sizes.seq", self.sizes.seq)?;
        check_positive("sizes.target_seq", self.sizes.target_seq())?;
        Ok(())
    }

    /// Returns an error for settings that need an embedding if the input is features.
    fn validate_input(&self) -> Result<(), CountError> {
        if self.input == Input::Tokens {
            return Ok(());
        }
        match &self.architecture {
            Architecture::Decoder(config) if config.output_weights == OutputWeights::Embedding => {
                let allowed = "own with input = \"features\", as there is no embedding to share";
                Err(ConfigError::new("model.output_weights", "embedding", allowed).into())
            }
            Architecture::Recurrent(RecurrentModel { vocab: Some(vocab), .. }) => {
                let allowed = "no vocab with input = \"features\", which has no embedding";
                Err(ConfigError::new("model.vocab", vocab, allowed).into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn draft(&self) -> Draft {
        let model = match &self.architecture {
            Architecture::Encoder(config) => self.form(config).encoder(),
            Architecture::Decoder(config) => self.form(config).decoder(),
            Architecture::EncoderDecoder(config) => self.form(config).encoder_decoder(),
            Architecture::Recurrent(config) => config.draft(&self.sizes),
            Architecture::Image(config) => super::image::draft(config, self.sizes.batch),
            Architecture::Graph(config) => config.draft(&self.sizes),
        };
        model.with_all(self.extra.iter().map(|extra| extra.draft(&self.sizes)))
    }

    /// Returns the size of all logits in bytes.
    pub(super) fn logits(&self) -> Quantity {
        let numbers = match &self.architecture {
            Architecture::Encoder(_) => Quantity::ZERO,
            Architecture::Image(config) => Quantity::from(self.sizes.batch) * config.outputs,
            Architecture::Graph(config) => self.sizes.tokens() * config.classifier.outputs,
            Architecture::Decoder(config) => self.form(config).logits(false),
            Architecture::EncoderDecoder(config) => self.form(config).logits(true),
            Architecture::Recurrent(config) => config.logits(&self.sizes),
        };
        numbers * FLOAT
    }

    fn form<'a>(&'a self, config: &'a TransformerConfig) -> Form<'a> {
        Form { config, input: self.input, sizes: &self.sizes }
    }
}

/// Parses a value. An error names the path of the field, starting at `root`.
fn read<T: Serialize + DeserializeOwned>(value: &Value, root: &str) -> Result<T, CountError> {
    let parsed: T = serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let why = error.inner().to_string();
        let within = blamed(value, &path, |value| {
            serde_path_to_error::deserialize::<_, T>(value).err().map(|error| error.inner().to_string())
        });
        let path = if path == "." { String::new() } else { path };
        CountError::field(
            join(root, &join(&path, &within.unwrap_or_default())),
            plain_words(&name_the_nearest(&why, |_| None)),
        )
    })?;
    // Kinds without settings accept and drop settings of other kinds; those are errors, too.
    let written = serde_json::to_value(&parsed).expect("parsed configurations serialise to JSON");
    match swallowed(value, &written) {
        Some(path) => Err(CountError::field(join(root, &path), "unknown field; this kind has no such setting")),
        None => Ok(parsed),
    }
}

/// Returns the key that an error at `path` is about: the only one whose removal changes the error. Tagged enums do not name it.
fn blamed(value: &Value, path: &str, error: impl Fn(&Value) -> Option<String>) -> Option<String> {
    let pointer: String = path.split('.').filter(|step| !step.is_empty()).map(|step| format!("/{step}")).collect();
    let table = value.pointer(&pointer)?.as_object()?;
    if !table.contains_key("kind") {
        return None;
    }
    let first = error(value);
    let matters = |key: &&String| {
        let mut without = value.clone();
        if let Some(Value::Object(table)) = without.pointer_mut(&pointer) {
            table.remove(*key);
        }
        error(&without) != first
    };
    let mut keys = table.keys().filter(|key| *key != "kind").filter(matters);
    let key = keys.next()?.clone();
    keys.next().is_none().then_some(key)
}

/// Returns the path of the first key of `given` that is missing in `written`.
fn swallowed(given: &Value, written: &Value) -> Option<String> {
    let (given, written) = (given.as_object()?, written.as_object()?);
    given.iter().find_map(|(key, value)| match written.get(key) {
        None => Some(key.clone()),
        Some(written) => swallowed(value, written).map(|rest| join(key, &rest)),
    })
}

/// Replaces the names of Rust types by plain words.
fn plain_words(why: &str) -> String {
    why.replace("expected usize", "expected a whole number, 0 or more")
        .replace("expected f32", "expected a number")
        .replace("struct TransformerConfig", "a table")
        .replace("struct RecurrentModel", "a table")
        .replace("struct ImageClassifierConfig", "a table")
        .replace("struct GraphModel", "a table")
        .replace("struct Sizes", "a table")
}

fn join(root: &str, path: &str) -> String {
    match (root, path) {
        ("", path) => path.to_string(),
        (root, "") => root.to_string(),
        (root, path) => format!("{root}.{path}"),
    }
}
