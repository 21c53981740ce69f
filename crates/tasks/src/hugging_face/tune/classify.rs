//! Classification of texts by a checkpoint: its encoder with a new head, or a linear classifier of its vectors.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use burn::tensor::{Tensor, TensorData};
use regard_data::{
    Around, Column, Fold, Labelled, LabelledColumns, PublishedText, Split, Splits, batches, in_order, read_labelled,
    read_texts,
};
use regard_inspect::count;
use regard_nn::models::headed::{HeadConfig, HeadInput};
use regard_nn::models::target::Target;
use regard_nn::{ConfigError, Pass};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::base_model::{Base, Goal};
use super::choice::{Load, Way, choose};
use super::config::{EmbeddingKeys, Freeze, NetworkKeys, TuneSections, check_from, make_absolute};
use super::export::export;
use crate::answers::{Answer, Answers, TargetKind};
use crate::auto::{Asked, Choice, Facts};
use crate::classify::{labelled_texts, raw_texts};
use crate::error::TaskError;
use crate::folder::Files;
use crate::hugging_face::answer::joined;
use crate::hugging_face::network::{Network, NetworkConfig};
use crate::hugging_face::sentence::Sentences;
use crate::input::{Given, InputKind, check_length};
use crate::model::sizes;
use crate::notes;
use crate::rows::{SCORING, device_of, spread};
use crate::run_config::{DataSection, RunConfig, check_built_in};
use crate::survey::RawExample;
use crate::task::{Evaluation, Legend, Loss, Parts, Prediction, Questions, Sample, Task, Validate};

/// File of a model folder that says how texts become vectors.
const POOLING: &str = "pooling.json";

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DataConfig {
    /// File or folder of labelled texts; built-in sentences if absent.
    path: Option<PathBuf>,
    /// Fold `k/n` that is the test split of a single file.
    fold: Option<Fold>,
    /// Column of the text, by name or number; `text` by default.
    text: Option<Column>,
    /// Column of the label, by name or number; `label`, `labels` or `value` by default.
    label: Option<Column>,
    /// What is predicted: one label, several, or a number.
    target: TargetKind,
    /// Maximum tokens of a text, those around it included: longer ones are cut, and refused in prediction.
    max_length: usize,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self { path: None, fold: None, text: None, label: None, target: TargetKind::Label, max_length: 256 }
    }
}

impl DataConfig {
    fn columns(&self) -> LabelledColumns {
        LabelledColumns { text: self.text.clone(), label: self.label.clone() }
    }

    fn texts(&self) -> Result<Splits<Labelled>, TaskError> {
        labelled_texts(self.path.as_deref(), self.fold, self.target, &self.columns())
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// The `[model]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum ModelConfig {
    /// The encoder of a folder with a head for the labels.
    Published(NetworkKeys),
    /// A linear classifier of the vectors that the folder gives texts.
    Embedding(EmbeddingKeys),
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self::Published(NetworkKeys::default())
    }
}

impl ModelConfig {
    /// Returns the keys of the network; that of a linear classifier is not trained.
    fn keys(&self) -> NetworkKeys {
        match self {
            Self::Published(keys) => keys.clone(),
            Self::Embedding(keys) => {
                NetworkKeys { from: keys.from.clone(), freeze: Freeze::All(true), ..NetworkKeys::default() }
            }
        }
    }
}

pub(crate) type Config = RunConfig<DataConfig, ModelConfig, TuneSections>;

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        let DataConfig { path, fold, text, label, target, max_length } = &self.data;
        // Room for the tokens around a text and one of its own.
        if *max_length < 3 {
            return Err(ConfigError::new("data.max_length", max_length, "3 or more").into());
        }
        if path.is_none() {
            check_built_in(*fold, &[("data.text", text), ("data.label", label)])?;
            if *target == TargetKind::Labels {
                return Err(ConfigError::new("data.target", "labels", "label or value with the built-in data").into());
            }
        }
        let smoothing = self.train.label_smoothing;
        if *target == TargetKind::Value && smoothing != 0.0 {
            return Err(ConfigError::new("train.label_smoothing", smoothing, "0 when data.target is value").into());
        }
        let model = match &self.model {
            ModelConfig::Published(keys) => keys.validate(),
            ModelConfig::Embedding(_) if self.more.lora.rank > 0 => {
                return Err(ConfigError::new("lora.rank", self.more.lora.rank, "0 with model.kind=embedding").into());
            }
            ModelConfig::Embedding(keys) => check_from(keys.from.as_deref()),
        };
        model.map_err(|error| error.within("model"))?;
        Ok(self.more.lora.validate().map_err(|error| error.within("lora"))?)
    }
}

#[derive(Debug, Clone)]
struct Example {
    text: String,
    encoded: PublishedText,
    answer: Answer,
}

/// The encoded examples of a split.
#[derive(Debug)]
pub(crate) struct Part {
    examples: Vec<Example>,
    /// Labels that the training split does not have.
    unseen: Vec<String>,
    /// Number of texts cut to `data.max_length` tokens.
    cut: usize,
    /// Vectors of all texts, computed once: the network below a linear classifier does not change.
    vectors: OnceLock<Vec<Vec<f32>>>,
}

/// A text to classify, with its tokens.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    text: String,
    encoded: PublishedText,
}

/// The classification task of checkpoints; see the [module](self).
pub(crate) struct TunedClassify {
    config: Config,
    base: Base,
    answers: Answers,
    /// How texts become vectors, for a linear classifier of them.
    sentences: Option<Sentences>,
}

impl TunedClassify {
    fn new(config: Config, mut base: Base, answers: Answers, sentences: Option<Sentences>) -> Self {
        if sentences.is_some()
            && let Some(head) = base.config.head_mut()
        {
            *head = HeadConfig { outputs: Some(answers.outputs()), ..HeadConfig::new(HeadInput::First) };
        }
        Self { config, base, answers, sentences }
    }

    /// Returns a text as the tokeniser gets it.
    fn prepared<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.sentences {
            Some(sentences) => sentences.prepared(text),
            None => Cow::Borrowed(text),
        }
    }

    /// Encodes texts; those that are too long are cut.
    fn encode(&self, texts: &[Labelled]) -> Result<Part, TaskError> {
        let unseen = self.answers.unseen(texts.iter().map(|example| example.label.as_str()));
        let tokenizer = self.base.tokenizer()?;
        let most = self.base.longest(self.config.data.max_length);
        let mut cut = 0;
        let mut examples = Vec::with_capacity(texts.len());
        for labelled in texts {
            let answer = self.answers.read(labelled, &unseen)?;
            let text = self.prepared(&labelled.text);
            let mut encoded = tokenizer.encode(&text, Around::Special)?;
            if encoded.ids.len() > most {
                cut += 1;
                encoded = tokenizer.encode_within(&text, most)?;
            }
            self.base.check_tokens(&encoded)?;
            examples.push(Example { text: labelled.text.clone(), encoded, answer });
        }
        Ok(Part { examples, unseen, cut, vectors: OnceLock::new() })
    }

    fn encoded_parts(&self, texts: Splits<Labelled>) -> Result<Parts<Part>, TaskError> {
        let (train, dev, test) = (self.encode(&texts.train)?, self.encode(&texts.dev)?, self.encode(&texts.test)?);
        let mut told = texts.notes;
        told.push(notes::sizes("texts", texts.train.len(), texts.dev.len(), Some(texts.test.len())));
        told.extend(self.answers.note(texts.train.iter().map(|example| example.label.as_str())));
        for (split, part) in [(Split::Train, &train), (Split::Dev, &dev), (Split::Test, &test)] {
            if part.cut > 0 {
                let (cut, all, most) = (part.cut, part.examples.len(), self.base.longest(self.config.data.max_length));
                told.push(format!("{cut} of {all} {split} texts are cut after {most} tokens (data.max_length)"));
            }
            told.extend(notes::unseen(split, "labels", &part.unseen));
        }
        Ok(Parts { train, dev, test: Some(test), notes: told })
    }

    /// Computes the logits of a batch, `[batch, outputs]`.
    fn logits(&self, model: &Network, texts: &[&PublishedText], pass: &Pass) -> Result<Tensor<2>, TaskError> {
        let logits = model.head_outputs(&joined(texts), &device_of(model), pass)?;
        let [batch, _, outputs] = logits.dims();
        Ok(logits.reshape([batch, outputs]))
    }

    /// Returns what the logits of a batch mean, one row per example.
    fn answered(&self, logits: Tensor<2>) -> Result<Vec<Vec<f32>>, TaskError> {
        let found: Vec<f32> = self.answers.target().predict(logits)?.into_data().iter().collect();
        Ok(found.chunks_exact(self.answers.outputs()).map(<[f32]>::to_vec).collect())
    }

    /// Computes the outputs for texts, one row per text.
    fn outputs(&self, model: &Network, texts: &[&PublishedText], pass: &Pass) -> Result<Vec<Vec<f32>>, TaskError> {
        if let Some(sentences) = &self.sentences {
            let vectors = sentences.vectors(model, texts, pass)?;
            return self.answered(classified(model, &vectors.iter().collect::<Vec<_>>())?);
        }
        let lengths: Vec<usize> = texts.iter().map(|text| text.ids.len()).collect();
        let mut outputs = vec![Vec::new(); texts.len()];
        let batches = in_order(&lengths, SCORING);
        for (done, batch) in batches.iter().enumerate() {
            pass.report(done, batches.len())?;
            let some: Vec<&PublishedText> = batch.iter().map(|&at| texts[at]).collect();
            let found = self.answered(self.logits(model, &some, pass)?)?;
            batch.iter().zip(found).for_each(|(&at, row)| outputs[at] = row);
        }
        Ok(outputs)
    }

    /// Computes the outputs for chosen examples of a split. Vectors are computed once, unless a head is switched off.
    fn outputs_of(
        &self,
        part: &Part,
        chosen: &[usize],
        model: &Network,
        pass: &Pass,
    ) -> Result<Vec<Vec<f32>>, TaskError> {
        let Some(sentences) = self.sentences.as_ref().filter(|_| pass.ablation().is_none()) else {
            let texts: Vec<&PublishedText> = chosen.iter().map(|&at| &part.examples[at].encoded).collect();
            return self.outputs(model, &texts, pass);
        };
        let vectors = part.vectors(sentences, model, pass)?;
        let rows: Vec<&Vec<f32>> = chosen.iter().map(|&at| &vectors[at]).collect();
        self.answered(classified(model, &rows)?)
    }
}

impl Part {
    /// Returns the vectors of all texts, which are computed the first time.
    fn vectors(&self, sentences: &Sentences, model: &Network, pass: &Pass) -> Result<&Vec<Vec<f32>>, TaskError> {
        if let Some(vectors) = self.vectors.get() {
            return Ok(vectors);
        }
        let texts: Vec<&PublishedText> = self.examples.iter().map(|example| &example.encoded).collect();
        let vectors = sentences.vectors(model, &texts, pass)?;
        Ok(self.vectors.get_or_init(|| vectors))
    }
}

/// Applies the output layer to vectors.
fn classified(model: &Network, vectors: &[&Vec<f32>]) -> Result<Tensor<2>, TaskError> {
    let Network::Encoder(encoder) = model else { unreachable!("the goal is an encoder") };
    let width = vectors.first().map_or(0, |vector| vector.len());
    let values: Vec<f32> = vectors.iter().flat_map(|vector| vector.iter().copied()).collect();
    let x = Tensor::<3>::from_data(TensorData::new(values, [vectors.len(), 1, width]), &device_of(model));
    let logits = encoder.head.forward(x, &Pass::inference())?;
    let [batch, _, outputs] = logits.dims();
    Ok(logits.reshape([batch, outputs]))
}

/// Returns the goal of a classifier with these answers.
pub(in crate::hugging_face) fn goal_of(answers: &Answers) -> Goal {
    let names = answers.labels().map_or_else(|| vec!["value".to_string()], |labels| labels.names().to_vec());
    let problem = match answers.target() {
        Target::One => "single_label_classification",
        Target::Several => "multi_label_classification",
        Target::Value => "regression",
    };
    Goal::Whole(names, Some(problem))
}

impl Task for TunedClassify {
    const NAME: &'static str = "classify";
    const CONFIG: &'static str = include_str!("../../../../../configs/finetune-classify.toml");
    type Config = Config;
    type Model = Network;
    type Part = Part;
    type Input = Typed;
    const INPUT: InputKind = InputKind::Text;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        let way = match asked.config.model {
            ModelConfig::Published(_) => Way::of_rank(asked.config.more.lora.rank),
            ModelConfig::Embedding(_) => Way::Linear,
        };
        let keys = asked.config.model.keys();
        let facts = &Facts { answer_characters: 0, ..facts.clone() };
        Some(choose(way, Load::of_texts(keys.from.as_deref(), facts), facts, ("texts", 32), asked))
    }

    fn start(mut config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        match &mut config.model {
            ModelConfig::Published(keys) => make_absolute(&mut keys.from)?,
            ModelConfig::Embedding(keys) => make_absolute(&mut keys.from)?,
        }
        let texts = config.data.texts()?;
        let answers = Answers::learn(config.data.target, &texts.train)?;
        let keys = config.model.keys();
        let (base, mut told) = Base::start(&keys, &config.more.lora, &goal_of(&answers))?;
        let sentences = match (&config.model, &base.config) {
            (ModelConfig::Published(_), NetworkConfig::Encoder(..)) => None,
            (ModelConfig::Embedding(_), NetworkConfig::Encoder(..)) => {
                told.clear();
                let folder = keys.from.as_deref().unwrap_or(Path::new(""));
                Some(Sentences::of_folder(folder, &base.config)?)
            }
            _ => {
                let folder = keys.from.as_deref().unwrap_or(Path::new(""));
                return Err(TaskError::folder(folder, "this is no encoder of texts, which classify needs"));
            }
        };
        let task = Self::new(config, base, answers, sentences);
        let mut parts = task.encoded_parts(texts)?;
        told.append(&mut parts.notes);
        parts.notes = told;
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = self.base.files();
        files.extend([self.answers.file()]);
        if let Some(sentences) = &self.sentences {
            files.insert(POOLING.to_string(), serde_json::to_vec_pretty(sentences).expect("plain values"));
        }
        files
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        let answers = Answers::open(config.data.target, files)?;
        let base = Base::open(files, &config.model.keys(), &config.more.lora)?;
        let sentences = match config.model {
            ModelConfig::Published(_) => None,
            ModelConfig::Embedding(_) => Some(files.json(POOLING)?),
        };
        if !matches!(base.config, NetworkConfig::Encoder(..)) {
            return Err(files.damaged("hugging_face.json", "expected an encoder of texts"));
        }
        Ok(Self::new(config, base, answers, sentences))
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        self.encoded_parts(self.config.data.texts()?)
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        Ok(Some(raw_texts(config.data.texts()?, config.data.target)))
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        self.encode(&read_labelled(path, &self.config.data.columns())?.examples)
    }

    fn described(&self) -> Option<count::Description> {
        let longest = self.base.longest(self.config.data.max_length);
        Some(count::Description { sizes: sizes(self.config.train.batch_tokens, longest), ..self.base.described()? })
    }

    of_base!();

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = train.examples.iter().map(|example| example.encoded.ids.len()).collect();
        batches(&lengths, self.config.train.budget(), self.config.seed, epoch)
    }

    fn preparation(&self) -> Option<&'static str> {
        self.sentences.as_ref().map(|_| "computing vectors")
    }

    fn prepare(&self, train: &Part, model: &Network, pass: &Pass) -> Result<(), TaskError> {
        match &self.sentences {
            Some(sentences) => train.vectors(sentences, model, pass).map(drop),
            None => Ok(()),
        }
    }

    fn is_divisible(&self) -> bool {
        // All parts of a batch would wait for the vectors, and a linear layer is not worth sharing.
        self.sentences.is_none()
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &Network,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let examples: Vec<&Example> = batch.iter().map(|&index| &train.examples[index]).collect();
        let logits = match &self.sentences {
            Some(sentences) => {
                let vectors = train.vectors(sentences, model, &Pass::inference())?;
                classified(model, &batch.iter().map(|&at| &vectors[at]).collect::<Vec<_>>())?
            }
            None => {
                let texts: Vec<&PublishedText> = examples.iter().map(|example| &example.encoded).collect();
                self.logits(model, &texts, pass)?
            }
        };
        let answers: Vec<&Answer> = examples.iter().map(|example| &example.answer).collect();
        let answers = self.answers.tensor(&answers, &device_of(model));
        let mean = self.answers.target().loss(logits, answers, self.config.train.label_smoothing)?;
        let tokens = examples.iter().map(|example| example.encoded.ids.len()).sum();
        Ok(Loss { mean, targets: batch.len(), tokens })
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &Network,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let chosen: Vec<usize> = spread(part.examples.len(), limit).collect();
        let outputs = self.outputs_of(part, &chosen, model, pass)?;
        let truth: Vec<&Answer> = chosen.iter().map(|&at| &part.examples[at].answer).collect();
        self.answers.evaluation(&truth, &outputs, &part.unseen)
    }

    fn questions(&self, path: &Path) -> Result<Option<Questions>, TaskError> {
        Ok(read_texts(path, &self.config.data.columns())?.map(Questions::lines))
    }

    fn input(&self, given: &Given) -> Result<Typed, TaskError> {
        let own = self.config.data.text.as_ref().and_then(Column::name);
        let text = given.text_under(own.as_slice())?;
        let encoded = self.base.tokenizer()?.encode(&self.prepared(text), Around::Special)?;
        check_length(&text, encoded.ids.len(), self.base.longest(self.config.data.max_length), "tokens")?;
        self.base.check_tokens(&encoded)?;
        Ok(Typed { text: text.to_string(), encoded })
    }

    fn given(&self, input: &Typed) -> Given {
        Given::from(input.text.as_str())
    }

    fn predict(&self, model: &Network, inputs: &[Typed], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let texts: Vec<&PublishedText> = inputs.iter().map(|input| &input.encoded).collect();
        let predict = |output: &Vec<f32>| {
            let answer = self.answers.text(&self.answers.decide(output), &[]);
            Prediction::new(answer, self.answers.document(output))
        };
        Ok(self.outputs(model, &texts, pass)?.iter().map(predict).collect())
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        // Spread over the split, since files are often sorted by label. `predict` refuses texts that were cut.
        let fits = |example: &&Example| self.input(&example.text.as_str().into()).is_ok();
        let step = (part.examples.len() / count.max(1)).max(1);
        let sample = |example: &Example| Sample {
            given: example.text.as_str().into(),
            expected: self.answers.text(&example.answer, &part.unseen),
        };
        part.examples.iter().step_by(step).filter(fits).take(count).map(sample).collect()
    }

    fn telling(&self, _: &Network) -> Result<Typed, TaskError> {
        if self.config.data.path.is_some() {
            let what = "choose an input unless the data are built in; give it a text".to_string();
            return Err(TaskError::Unsupported { task: Self::NAME, what });
        }
        self.input(&Given::from("The plot was not great, it was dull."))
    }

    fn look(&self, model: &Network, Typed { text, encoded }: &Typed, pass: &Pass) -> Result<Legend, TaskError> {
        let outputs = self.outputs(model, &[encoded], pass)?;
        let answer = self.answers.text(&self.answers.decide(&outputs[0]), &[]);
        let sure = Prediction::new(answer.clone(), self.answers.document(&outputs[0])).certainty();
        Ok(Legend::of_tokens(format!("{text} → {answer}{sure}"), encoded.tokens.clone()))
    }

    fn extras(&self, model: &Network) -> Result<BTreeMap<String, Vec<u8>>, TaskError> {
        Ok(self.base.adapter_files(model, Some("SEQ_CLS"), self.answers.scale()))
    }

    fn export(&self, model: &Network, to: &Path) -> Result<(), TaskError> {
        if self.sentences.is_some() {
            let what = "be written for transformers: no class there has a linear layer on pooled vectors; \
                        train without model.kind=embedding"
                .to_string();
            return Err(TaskError::Unsupported { task: Self::NAME, what });
        }
        export(&self.base, model, self.answers.scale(), to)
    }
}
