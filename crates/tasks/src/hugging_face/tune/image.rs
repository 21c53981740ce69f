//! Classification of pictures by a checkpoint: a Vision Transformer with a new head.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor, TensorData};
use regard_data::{
    Fold, Held, Image, ImageSize, LabelledImage, Source, Split, Splits, batches, excerpt, fingerprint_images,
    is_picture, load_images, read_images,
};
use regard_inspect::count::{Description, Sizes};
use regard_nn::{ConfigError, Pass};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::base_model::{Base, Goal};
use super::choice::{Load, Way, choose};
use super::config::{PublishedModel, TuneSections, check_network, make_absolute};
use super::export::export;
use crate::answers::{Answer, Answers, TargetKind};
use crate::auto::{Asked, Choice, Facts};
use crate::error::TaskError;
use crate::folder::Files;
use crate::hugging_face::network::{Network, NetworkConfig};
use crate::hugging_face::scaling::{PREPROCESSOR, Scaling};
use crate::image::raw_pictures;
use crate::input::{Given, InputKind};
use crate::notes;
use crate::pictures::{GivenPicture, given_picture, read_picture};
use crate::rows::{device_of, spread};
use crate::run_config::{DataSection, RunConfig};
use crate::survey::RawExample;
use crate::task::{Evaluation, Legend, Loss, Parts, Prediction, Questions, Sample, Task, Validate};

/// Number of pictures that are scored together.
const TOGETHER: usize = 16;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DataConfig {
    /// Folder of pictures or IDX file.
    path: Option<PathBuf>,
    /// Fold `k/n` that is the test split of pictures without splits.
    fold: Option<Fold>,
    /// Number of training images at the end of an IDX file that are used as dev.
    dev: Option<usize>,
    /// Number of training images to use, chosen by a hash of their content.
    limit: Option<usize>,
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn fingerprint(&self) -> Result<String, TaskError> {
        Ok(fingerprint_images(self.path.as_deref().unwrap_or(Path::new("")))?)
    }
}

pub(crate) type Config = RunConfig<DataConfig, PublishedModel, TuneSections>;

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        if self.data.path.is_none() {
            let expected = "a folder of pictures (--data): the built-in digits are for networks of their size";
            return Err(ConfigError::new("data.path", "nothing", expected).into());
        }
        for (field, count) in [("data.dev", self.data.dev), ("data.limit", self.data.limit)] {
            count.map_or(Ok(()), |count| regard_nn::config::check_positive(field, count))?;
        }
        check_network(self.model.keys(), &self.more.lora)
    }
}

struct Example {
    image: Image,
    answer: Answer,
    /// The name by which `predict` finds the picture.
    name: String,
}

/// The pictures of a split.
pub(crate) struct Part {
    examples: Vec<Example>,
    /// Labels that the training split does not have.
    unseen: Vec<String>,
}

/// A picture to classify.
pub(crate) struct Shown {
    image: Image,
    name: String,
}

/// The task of pictures for checkpoints; see the [module](self).
pub(crate) struct TunedImages {
    config: Config,
    base: Base,
    answers: Answers,
    size: ImageSize,
    scaling: Scaling,
}

/// Reads the pictures of a run in the size of the network.
fn pictures(data: &DataConfig, size: ImageSize) -> Result<Splits<LabelledImage>, TaskError> {
    let source = Source { path: data.path.clone().unwrap_or_default(), fold: data.fold };
    Ok(load_images(&source, &size.into(), Held { dev: data.dev, limit: data.limit })?)
}

/// Returns the size of the pictures of a network.
fn size_of(base: &Base) -> Result<ImageSize, TaskError> {
    match base.config {
        NetworkConfig::Image { channels, size, .. } => Ok(ImageSize { channels, height: size, width: size }),
        _ => Err(TaskError::folder(base.from().unwrap_or(Path::new("")), "expected an encoder of pictures")),
    }
}

impl TunedImages {
    fn new(config: Config, base: Base, answers: Answers) -> Result<Self, TaskError> {
        let size = size_of(&base)?;
        let path = base.from().unwrap_or(Path::new("")).join(PREPROCESSOR);
        let settings = base.copied_json(PREPROCESSOR)?.unwrap_or_default();
        let scaling = Scaling::of(&settings, &path, size.channels, size.height)?;
        Ok(Self { config, base, answers, size, scaling })
    }

    fn part_of(&self, pictures: Vec<LabelledImage>) -> Result<Part, TaskError> {
        let unseen = self.answers.unseen(pictures.iter().filter_map(|picture| picture.label.as_deref()));
        let example = |LabelledImage { image, label, name, .. }: LabelledImage| {
            let label = label.ok_or_else(|| TaskError::input(name.as_str(), "a picture with a label", "none"))?;
            Ok(Example { image, answer: Answer::One(self.answers.index(&label, &unseen)), name })
        };
        let examples = pictures.into_iter().map(example).collect::<Result<_, TaskError>>()?;
        Ok(Part { examples, unseen })
    }

    fn encoded_parts(&self, pictures: Splits<LabelledImage>, mut told: Vec<String>) -> Result<Parts<Part>, TaskError> {
        let Splits { train, dev, test, notes } = pictures;
        told.extend(notes);
        told.push(notes::sizes("pictures", train.len(), dev.len(), Some(test.len())));
        told.extend(self.answers.note(train.iter().filter_map(|picture| picture.label.as_deref())));
        let (train, dev, test) = (self.part_of(train)?, self.part_of(dev)?, self.part_of(test)?);
        for (split, part) in [(Split::Dev, &dev), (Split::Test, &test)] {
            told.extend(notes::unseen(split, "labels", &part.unseen));
        }
        Ok(Parts { train, dev, test: Some(test), notes: told })
    }

    /// Computes the logits of a batch, `[batch, outputs]`.
    fn logits(&self, model: &Network, images: &[&Image], device: &Device, pass: &Pass) -> Result<Tensor<2>, TaskError> {
        let Network::Image(network) = model else { unreachable!("the goal is an encoder of pictures") };
        let ImageSize { channels, height, width } = self.size;
        let scaled = images.iter().flat_map(|image| self.scaling.apply(&image.pixels, height * width));
        let values: Vec<f32> = scaled.collect();
        let x = Tensor::<4>::from_data(TensorData::new(values, [images.len(), channels, height, width]), device);
        let logits = network.forward(x, pass)?;
        let [batch, _, outputs] = logits.dims();
        Ok(logits.reshape([batch, outputs]))
    }

    fn outputs(&self, model: &Network, images: &[&Image], pass: &Pass) -> Result<Vec<Vec<f32>>, TaskError> {
        let device = device_of(model);
        let mut outputs = Vec::with_capacity(images.len());
        for (done, batch) in images.chunks(TOGETHER).enumerate() {
            pass.report(done * TOGETHER, images.len())?;
            let found = self.answers.target().predict(self.logits(model, batch, &device, pass)?)?;
            let found: Vec<f32> = found.into_data().iter().collect();
            outputs.extend(found.chunks_exact(self.answers.outputs()).map(<[f32]>::to_vec));
        }
        Ok(outputs)
    }

    fn answer(&self, output: &[f32]) -> Prediction {
        Prediction::new(self.answers.text(&self.answers.decide(output), &[]), self.answers.document(output))
    }
}

impl Task for TunedImages {
    const NAME: &'static str = "image";
    const CONFIG: &'static str = include_str!("../../../../../configs/finetune-image.toml");
    type Config = Config;
    type Model = Network;
    type Part = Part;
    type Input = Shown;
    const INPUT: InputKind = InputKind::Picture;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        let load = Load { from: asked.config.model.keys().from.as_deref(), tokens: None };
        Some(choose(Way::of_rank(asked.config.more.lora.rank), load, facts, ("pictures", 16), asked))
    }

    fn start(mut config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        make_absolute(&mut config.model.keys_mut().from)?;
        // The labels decide the head, and the network the size of pictures: its size is read first, with any head.
        let any = Goal::Whole(vec!["0".to_string(), "1".to_string()], None);
        let size = size_of(&Base::start(config.model.keys(), &config.more.lora, &any)?.0)?;
        let pictures = pictures(&config.data, size)?;
        let answers = Answers::of_labels(pictures.train.iter().filter_map(|picture| picture.label.as_deref()))?;
        let names = answers.labels().map_or_else(Vec::new, |labels| labels.names().to_vec());
        let goal = Goal::Whole(names, Some("single_label_classification"));
        let (base, told) = Base::start(config.model.keys(), &config.more.lora, &goal)?;
        let task = Self::new(config, base, answers)?;
        let parts = task.encoded_parts(pictures, told)?;
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = self.base.files();
        files.extend([self.answers.file()]);
        files
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        let base = Base::open(files, config.model.keys(), &config.more.lora)?;
        Self::new(config, base, Answers::open(TargetKind::Label, files)?)
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        self.encoded_parts(pictures(&self.config.data, self.size)?, Vec::new())
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        // The size is not known before the folder is read, and does not matter here.
        let small = ImageSize { channels: 3, height: 32, width: 32 };
        Ok(Some(raw_pictures(pictures(&config.data, small)?)))
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        self.part_of(read_images(path, &self.size.into())?.examples)
    }

    fn described(&self) -> Option<Description> {
        let described = self.base.described()?;
        let sizes = Sizes { batch: self.config.train.batch_examples.max(1), ..described.sizes };
        Some(Description { sizes, ..described })
    }

    of_base!();

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        batches(&vec![1; train.examples.len()], self.config.train.budget(), self.config.seed, epoch)
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &Network,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let device = device_of(model);
        let images: Vec<&Image> = batch.iter().map(|&at| &train.examples[at].image).collect();
        let answers: Vec<&Answer> = batch.iter().map(|&at| &train.examples[at].answer).collect();
        let logits = self.logits(model, &images, &device, pass)?;
        let answers = self.answers.tensor(&answers, &device);
        let mean = self.answers.target().loss(logits, answers, self.config.train.label_smoothing)?;
        Ok(Loss { mean, targets: batch.len(), tokens: batch.len() })
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &Network,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let examples: Vec<&Example> = spread(part.examples.len(), limit).map(|at| &part.examples[at]).collect();
        let images: Vec<&Image> = examples.iter().map(|example| &example.image).collect();
        let outputs = self.outputs(model, &images, pass)?;
        let truth: Vec<&Answer> = examples.iter().map(|example| &example.answer).collect();
        self.answers.evaluation(&truth, &outputs, &part.unseen)
    }

    fn questions(&self, path: &Path) -> Result<Option<Questions>, TaskError> {
        Ok(is_picture(path).then(|| Questions::lines(vec![path.display().to_string()])))
    }

    fn input(&self, given: &Given) -> Result<Shown, TaskError> {
        let name = match given {
            Given::Text(text) | Given::Json(Value::String(text)) => text.clone(),
            Given::Json(_) => "the picture".to_string(),
        };
        match read_picture(given, self.size)? {
            GivenPicture::Image(image) => Ok(Shown { image, name }),
            GivenPicture::BuiltIn(..) => Err(TaskError::input("input", "a picture file", excerpt(&name))),
        }
    }

    fn given(&self, input: &Shown) -> Given {
        given_picture(&input.image)
    }

    fn predict(&self, model: &Network, inputs: &[Shown], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let images: Vec<&Image> = inputs.iter().map(|input| &input.image).collect();
        Ok(self.outputs(model, &images, pass)?.iter().map(|output| self.answer(output)).collect())
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        // Spread over the split, since folders are sorted by label.
        let sample = |at: usize| {
            let example = &part.examples[at];
            let expected = self.answers.text(&example.answer, &part.unseen);
            Sample { given: example.name.as_str().into(), expected }
        };
        spread(part.examples.len(), Some(count)).map(sample).collect()
    }

    fn telling(&self, _: &Network) -> Result<Shown, TaskError> {
        let what = "choose a picture unless the data are built in; give it one".to_string();
        Err(TaskError::Unsupported { task: Self::NAME, what })
    }

    fn look(&self, model: &Network, Shown { image, name }: &Shown, pass: &Pass) -> Result<Legend, TaskError> {
        let outputs = self.outputs(model, &[image], pass)?;
        let answer = self.answer(&outputs[0]);
        let NetworkConfig::Image { size, patch, .. } = self.base.config else { unreachable!("checked at the start") };
        let side = size / patch.max(1);
        let places = (0..side * side).map(|at| format!("{},{}", at / side, at % side));
        let tokens = std::iter::once("class".to_string()).chain(places).collect();
        Ok(Legend::of_tokens(format!("{name} → {}{}", answer.output, answer.certainty()), tokens))
    }

    fn extras(&self, model: &Network) -> Result<BTreeMap<String, Vec<u8>>, TaskError> {
        Ok(self.base.adapter_files(model, None, None))
    }

    fn export(&self, model: &Network, to: &Path) -> Result<(), TaskError> {
        export(&self.base, model, None, to)
    }
}
