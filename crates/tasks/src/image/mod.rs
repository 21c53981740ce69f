//! Classification of pictures: one label for a picture.
//!
//! A Vision Transformer cuts the picture into patches that attend to each other; a residual network of convolutions, with or
//! without attention blocks, and a dense network on all pixels stand beside it. All read pictures of one size, scaled by mean and
//! deviation of the training pixels.

mod augment;
mod choice;
mod config;
mod gaze;
mod pixels;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::Device;
use regard_data::builtin::{self, DIGITS};
use regard_data::{
    Image, ImageSize, LabelledImage, Source, Split, Splits, batches, excerpt, idx_names, is_picture, limit_images,
    load_images, read_images,
};
use regard_figures::{Content, Figure, Pictures, number};
use regard_inspect::count::{Architecture, Description, Sizes};
use regard_inspect::show::position::Trained;
use regard_nn::models::image::{ImageClassifier, ImageClassifierConfig, ImageShape, NetworkConfig};
use regard_nn::{Init, LayerPath, Pass};
use serde_json::Value;

pub use self::config::Config;
use self::gaze::Gaze;
use self::pixels::Pixels;
use crate::answers::{Answer, Answers, TargetKind};
use crate::auto::{Asked, Choice, Facts};
use crate::error::TaskError;
use crate::folder::Files;
use crate::input::{Given, InputKind};
use crate::notes;
use crate::pictures::{GivenPicture, built_in_name, given_picture, read_picture, tile};
use crate::rows::{device_of, spread};
use crate::survey::{RawExample, RawInput};
use crate::task::{Evaluation, Legend, Loss, Parts, Prediction, Questions, Sample, Task};

/// Seed of the built-in digits, which are the same in every run.
const BUILT_IN_SEED: u64 = 1;
/// Number of pixels of the largest batch that is scored at once.
const SCORED_PIXELS: usize = 1 << 18;
/// Number of wrong answers that the report shows.
const WRONG_SHOWN: usize = 24;

/// A picture with its answer.
#[derive(Debug, Clone)]
struct Example {
    image: Image,
    answer: Answer,
    /// The name by which `predict` finds the picture.
    name: String,
}

/// A picture to classify.
#[derive(Debug, Clone)]
pub struct Shown {
    image: Image,
    name: String,
}

/// The pictures of a split.
#[derive(Debug)]
pub struct Part {
    examples: Vec<Example>,
    /// Labels that the training split does not have.
    unseen: Vec<String>,
}

/// The task of pictures; see the [module](self).
#[derive(Debug)]
pub struct Images {
    config: Config,
    answers: Answers,
    pixels: Pixels,
    /// Stream of the random numbers of augmentation.
    augmentation: LayerPath,
}

impl Images {
    fn new(config: Config, answers: Answers, pixels: Pixels) -> Self {
        let augmentation = Init::for_weights(&Device::flex()).enter("augmentation").path();
        Self { config, answers, pixels, augmentation }
    }

    /// Reads the pictures of the run.
    fn pictures(config: &Config) -> Result<Splits<LabelledImage>, TaskError> {
        let data = &config.data;
        if let Some(path) = &data.path {
            let source = Source { path: path.clone(), fold: data.fold };
            return Ok(load_images(&source, &data.fit(), data.held())?);
        }
        let mut splits = builtin::digits(DIGITS, BUILT_IN_SEED);
        for (split, part) in
            [(Split::Train, &mut splits.train), (Split::Dev, &mut splits.dev), (Split::Test, &mut splits.test)]
        {
            part.iter_mut().enumerate().for_each(|(index, picture)| picture.name = built_in_name(split, index));
        }
        if let Some(limit) = data.limit {
            limit_images(&mut splits, limit)?;
        }
        Ok(splits)
    }

    /// Reads the answers of pictures.
    fn part_of(&self, pictures: Vec<LabelledImage>) -> Result<Part, TaskError> {
        let unseen = self.answers.unseen(pictures.iter().filter_map(|picture| picture.label.as_deref()));
        let example = |LabelledImage { image, label, name, .. }: LabelledImage| {
            let label = label.ok_or_else(|| TaskError::input(name.as_str(), "a picture with a label", "none"))?;
            Ok(Example { image, answer: Answer::One(self.answers.index(&label, &unseen)), name })
        };
        let examples = pictures.into_iter().map(example).collect::<Result<_, TaskError>>()?;
        Ok(Part { examples, unseen })
    }

    fn encoded_parts(&self, pictures: Splits<LabelledImage>) -> Result<Parts<Part>, TaskError> {
        let Splits { train, dev, test, notes: mut told } = pictures;
        told.push(notes::sizes("pictures", train.len(), dev.len(), Some(test.len())));
        told.push(format!("size: {}", self.pixels.size));
        told.extend(self.answers.note(train.iter().filter_map(|picture| picture.label.as_deref())));
        let (train, dev, test) = (self.part_of(train)?, self.part_of(dev)?, self.part_of(test)?);
        for (split, part) in [(Split::Dev, &dev), (Split::Test, &test)] {
            told.extend(notes::unseen(split, "labels", &part.unseen));
        }
        Ok(Parts { train, dev, test: Some(test), notes: told })
    }

    fn shape(&self) -> ImageShape {
        let ImageSize { channels, height, width } = self.pixels.size;
        ImageShape { channels, height, width }
    }

    fn network(&self) -> ImageClassifierConfig {
        ImageClassifierConfig {
            image: self.shape(),
            outputs: self.answers.outputs(),
            target: self.answers.target(),
            network: self.config.model.network(),
            dropout: self.config.model.dropout(),
        }
    }

    /// Computes the probabilities of the labels, one row per picture.
    fn outputs(&self, model: &ImageClassifier, images: &[&Image], pass: &Pass) -> Result<Vec<Vec<f32>>, TaskError> {
        let device = device_of(model);
        let most = (SCORED_PIXELS / (self.pixels.size.height * self.pixels.size.width)).clamp(1, 256);
        let mut outputs = Vec::with_capacity(images.len());
        let batches = images.chunks(most);
        let count = batches.len();
        for (done, batch) in batches.enumerate() {
            pass.report(done, count)?;
            let found: Vec<f32> = model.predict(self.pixels.tensor(batch, &device), pass)?.into_data().iter().collect();
            outputs.extend(found.chunks_exact(self.answers.outputs()).map(<[f32]>::to_vec));
        }
        Ok(outputs)
    }

    fn answer(&self, output: &[f32]) -> String {
        self.answers.text(&self.answers.decide(output), &[])
    }

    /// Draws pictures with wrong answers, those first of which the model is most certain.
    fn wrong(&self, part: &Part, examples: &[&Example], outputs: &[&[f32]]) -> Result<Option<Content>, TaskError> {
        let mut wrong: Vec<(f32, &Example, usize)> = examples
            .iter()
            .zip(outputs)
            .filter_map(|(example, output)| {
                let found = self.answers.decide(output).one();
                (found != example.answer.one()).then(|| (output[found], *example, found))
            })
            .collect();
        if wrong.is_empty() {
            return Ok(None);
        }
        wrong.sort_by(|a, b| b.0.total_cmp(&a.0));
        let named = |label: usize| self.answers.text(&Answer::One(label), &part.unseen);
        let tiles = wrong.iter().take(WRONG_SHOWN).map(|(certainty, example, found)| {
            let (truth, found) = (named(example.answer.one()), named(*found));
            Ok(tile(&example.image)?.caption(format!("{found} ({})\nis {truth}", number(f64::from(*certainty), 2))))
        });
        let tiles = tiles.collect::<Result<Vec<_>, TaskError>>()?;
        let title = format!("Wrong answers: {} of {}", wrong.len(), examples.len());
        let note =
            "The predicted label with its probability, and below it the true one. The most certain ones come first.";
        Ok(Some(Content::Figure(Figure::new(title).panel("", Pictures::new(tiles)?.side(84)).note(note))))
    }
}

/// Returns pictures as `regard data` shows them.
pub(crate) fn raw_pictures(pictures: Splits<LabelledImage>) -> Splits<RawExample> {
    pictures.map(|LabelledImage { label, name, hash, image }| {
        let label = label.unwrap_or_default();
        let input = RawInput::Picture { name, hash, pixels: image.pixels.len() };
        RawExample { input, answer: label.clone(), labels: vec![label] }
    })
}

impl Task for Images {
    const NAME: &'static str = "image";
    const CONFIG: &'static str = include_str!("../../../../configs/image.toml");
    type Config = Config;
    type Model = ImageClassifier;
    type Part = Part;
    type Input = Shown;
    const INPUT: InputKind = InputKind::Picture;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        Some(choice::choose(facts, asked))
    }

    fn start(config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        let pictures = Self::pictures(&config)?;
        let labels = pictures.train.iter().filter_map(|picture| picture.label.as_deref());
        let answers = Answers::of_labels(labels)?;
        let size = pictures.train.first().map(|picture| picture.image.size);
        let size = size.ok_or_else(|| TaskError::input("training pictures", "at least one", "none"))?;
        let pixels = Pixels::learn(size, pictures.train.iter().map(|picture| &picture.image));
        let task = Self::new(config, answers, pixels);
        task.config.model.validate(Some(task.shape()))?;
        let parts = task.encoded_parts(pictures)?;
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let pixels = serde_json::to_vec_pretty(&self.pixels).expect("plain values can be written as JSON");
        BTreeMap::from([self.answers.file(), (pixels::FILE.to_string(), pixels)])
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        let pixels: Pixels = files.json(pixels::FILE)?;
        if let Some(problem) = pixels.problem() {
            return Err(files.damaged(pixels::FILE, problem));
        }
        Ok(Self::new(config, Answers::open(TargetKind::Label, files)?, pixels))
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        self.encoded_parts(Self::pictures(&self.config)?)
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        Ok(Some(raw_pictures(Self::pictures(config)?)))
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        self.part_of(read_images(path, &self.pixels.size.into())?.examples)
    }

    fn described(&self) -> Option<Description> {
        let train = &self.config.train;
        let batch = train.batch_examples.min(train.batch_tokens).max(1);
        let sizes = Sizes { batch, seq: 1, target_seq: None };
        Some(Description { sizes, ..Description::new(Architecture::Image(self.network())) })
    }

    fn model(&self, init: &Init) -> Result<ImageClassifier, TaskError> {
        Ok(self.network().init(init)?)
    }

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        batches(&vec![1; train.examples.len()], self.config.train.budget(), self.config.seed, epoch)
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &ImageClassifier,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let device = device_of(model);
        let augmentation = self.config.data.augmentation();
        let picture = |&index: &usize| {
            let image = &train.examples[index].image;
            match pass.at("picture", index).random(&self.augmentation).filter(|_| !augmentation.is_off()) {
                Some(mut random) => Cow::Owned(augmentation.apply(image, &mut random)),
                None => Cow::Borrowed(image),
            }
        };
        let images: Vec<Cow<Image>> = batch.iter().map(picture).collect();
        let answers: Vec<&Answer> = batch.iter().map(|&index| &train.examples[index].answer).collect();
        let (x, answers) = (self.pixels.tensor(&images, &device), self.answers.tensor(&answers, &device));
        let mean = model.loss(x, answers, self.config.train.label_smoothing, pass)?;
        Ok(Loss { mean, targets: batch.len(), tokens: batch.len() })
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &ImageClassifier,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let examples: Vec<&Example> = spread(part.examples.len(), limit).map(|at| &part.examples[at]).collect();
        let images: Vec<&Image> = examples.iter().map(|example| &example.image).collect();
        let outputs = self.outputs(model, &images, pass)?;
        let truth: Vec<&Answer> = examples.iter().map(|example| &example.answer).collect();
        let mut evaluation = self.answers.evaluation(&truth, &outputs, &part.unseen)?;
        let outputs: Vec<&[f32]> = outputs.iter().map(Vec::as_slice).collect();
        evaluation.contents.extend(self.wrong(part, &examples, &outputs)?);
        evaluation.contents.extend(gaze::filters(model, &self.config.model.network())?);
        Ok(evaluation)
    }

    /// Reads the inputs of an IDX file, or a picture itself.
    fn questions(&self, path: &Path) -> Result<Option<Questions>, TaskError> {
        if let Some(names) = idx_names(path)? {
            return Ok(Some(Questions::lines(names)));
        }
        Ok(is_picture(path).then(|| Questions::lines(vec![path.display().to_string()])))
    }

    fn input(&self, given: &Given) -> Result<Shown, TaskError> {
        let name = match given {
            Given::Text(text) | Given::Json(Value::String(text)) => text.clone(),
            Given::Json(_) => "the picture".to_string(),
        };
        let (split, index) = match read_picture(given, self.pixels.size)? {
            GivenPicture::Image(image) => return Ok(Shown { image, name }),
            GivenPicture::BuiltIn(split, index) => (split, index),
        };
        let count = match (split, &self.config.data.path) {
            (_, Some(_)) => 0,
            (Split::Train, None) => DIGITS.train,
            (Split::Dev, None) => DIGITS.dev,
            (Split::Test, None) => DIGITS.test,
        };
        if index < count {
            return Ok(Shown { image: builtin::digit(split, index, BUILT_IN_SEED).image, name });
        }
        let expected = match count {
            0 => "a picture file: this model was not trained on built-in pictures".to_string(),
            _ => format!("a number below {count}, the number of {split} digits"),
        };
        Err(TaskError::input("input", expected, excerpt(&name)))
    }

    fn given(&self, input: &Shown) -> Given {
        given_picture(&input.image)
    }

    fn predict(&self, model: &ImageClassifier, inputs: &[Shown], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let images: Vec<&Image> = inputs.iter().map(|input| &input.image).collect();
        let outputs = self.outputs(model, &images, pass)?;
        Ok(outputs.iter().map(|output| Prediction::new(self.answer(output), self.answers.document(output))).collect())
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

    fn telling(&self, _: &ImageClassifier) -> Result<Shown, TaskError> {
        if self.config.data.path.is_some() {
            let what = "choose a picture unless the data are built in; give it one".to_string();
            return Err(TaskError::Unsupported { task: Self::NAME, what });
        }
        self.input(&built_in_name(Split::Test, 4).into())
    }

    fn positions<'a>(&self, model: &'a ImageClassifier) -> Vec<Trained<'a>> {
        match (self.config.model.network(), model.position()) {
            (NetworkConfig::Vit(config), Some(layer)) => {
                vec![Trained { part: "patches", layer, longest: config.tokens(self.shape()) }]
            }
            _ => Vec::new(),
        }
    }

    fn look(&self, model: &ImageClassifier, Shown { image, name }: &Shown, pass: &Pass) -> Result<Legend, TaskError> {
        let output = self.outputs(model, &[image], pass)?.concat();
        let answer = self.answer(&output);
        let sure = Prediction::new(answer.clone(), self.answers.document(&output)).certainty();
        let names = self.answers.labels().map_or(&[][..], regard_data::Vocabulary::names);
        let probabilities = names.iter().cloned().zip(output).collect();
        let gaze = Gaze::new(image.clone(), probabilities, &self.config.model.network());
        let tokens = gaze.tokens();
        let legend = Legend::new(format!("{name} → {answer}{sure}"), move |map| tokens.of(map, &answer));
        Ok(legend.drawn(move |view| gaze.picture(view)))
    }
}
