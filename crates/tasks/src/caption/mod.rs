//! Captions: a convolutional network turns a picture into the features of a grid of cells, and an LSTM with soft or hard attention
//! over them, or the decoder of a Transformer, writes a sentence.
//!
//! On the built-in scenes the task also measures whether the model looks at what it names: the share of attention on the cells
//! that a shape covers, at the word for it.

mod config;
mod examples;
mod gaze;
mod network;
mod scoring;
mod size;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;
use regard_data::{
    END, Image, PAD, START, Source, Split, Splits, Tokenizer, TokenizerKind, UNK, batches, is_picture, lacks_spaces,
    load_captions, read_captioned_names, read_captions,
};
use regard_inspect::count::Description;
use regard_inspect::show::position::Trained;
use regard_nn::models::captioner::{RecurrentCaptioner, TransformerCaptioner};
use regard_nn::models::recurrent_writer::RecurrentLoss;
use regard_nn::{Init, Pass, Side};
use regard_ops::CrossEntropyOptions;
use serde_json::Value;

pub use self::config::Config;
use self::config::{DataConfig, NetworkConfig, hard};
pub use self::examples::Described;
pub(crate) use self::examples::built_in_picture;
use self::examples::{Raw, built_in, built_in_scene, described, raw};
use self::gaze::{Focus, Written, is_over_picture};
pub use self::network::Captioner;
use self::network::Seen;
use crate::decode::Hypothesis;
use crate::error::TaskError;
use crate::folder::{Files, tokenizer_file};
use crate::input::{Given, InputKind};
use crate::notes;
use crate::pictures::{GivenPicture, built_in_name, given_picture, pictures_tensor, read_picture};
use crate::rewards;
use crate::rows::{SCORING, device_of, padded, spread};
use crate::survey::{RawExample, RawInput};
use crate::task::{Evaluation, Legend, Loss, Parts, Prediction, Questions, Sample, Task};

/// Number of training pictures that are kept with their sentences, to show some of them.
const SHOWN_OF_TRAINING: usize = 1_000;
/// Largest number of pixels of all pictures of a batch without gradients.
const SCORED_PIXELS: usize = 1 << 19;
/// The built-in scene that is drawn when the user gives no picture: three shapes, two of them alike.
const TELLING: usize = 5;

/// A picture and the tokens of a sentence about it, without `<s>` and `</s>`.
#[derive(Debug, Clone)]
struct Example {
    image: Arc<Image>,
    sentence: Vec<u32>,
}

/// The examples of a split.
#[derive(Debug, Default)]
pub struct Part {
    /// Examples to learn from; none in other splits than train.
    examples: Vec<Example>,
    /// Pictures to describe, with their sentences; in the training split only those that may be shown.
    pictures: Vec<Described>,
}

/// The caption task; see the [module](self).
#[derive(Debug)]
pub struct Captions {
    config: Config,
    tokenizer: Tokenizer,
}

impl Captions {
    /// Reads the pictures and sentences of the run, not yet tokenised.
    fn read(data: &DataConfig) -> Result<Splits<Raw>, TaskError> {
        match &data.path {
            Some(path) => {
                let source = Source { path: path.clone(), fold: data.fold };
                Ok(load_captions(&source, &data.fit())?.map(Raw::from))
            }
            None => Ok(built_in(data.image_size())?),
        }
    }

    fn encoded(&self, splits: Splits<Raw>) -> Result<Parts<Part>, TaskError> {
        let Splits { train, dev, test, mut notes } = splits;
        notes.push(notes::sizes("pictures with sentences", train.len(), dev.len(), Some(test.len())));
        if lacks_spaces(train.iter().map(|raw| raw.sentence.as_str())) {
            notes.extend(notes::unspaced(self.tokenizer.kind()));
        }
        let all = train.len();
        let ids = |raw: &Raw| self.tokenizer.ids(&raw.sentence);
        let parts = [(Split::Train, &train), (Split::Dev, &dev), (Split::Test, &test)];
        let parts = parts.map(|(split, part)| (split, part.iter().flat_map(ids).collect::<Vec<u32>>()));
        let what = if self.tokenizer.kind() == TokenizerKind::Word { "words" } else { "characters" };
        notes.extend(notes::unknown(what, UNK, parts.iter().map(|(split, ids)| (*split, ids.iter()))));
        let shown: Vec<Raw> = spread(all, Some(SHOWN_OF_TRAINING)).map(|at| train[at].clone()).collect();
        let examples = train.iter().map(|raw| Example { image: raw.image.clone(), sentence: ids(raw) });
        let examples: Vec<Example> = examples.filter(|example| self.fits(&example.sentence)).collect();
        if examples.len() < all {
            let (left_out, most) = (all - examples.len(), self.config.data.max_length);
            notes.push(format!(
                "{left_out} sentences are empty or longer than {most} tokens (data.max_length): left out of training"
            ));
        }
        if examples.is_empty() {
            let got = format!("none among {all}");
            return Err(TaskError::input("training sentences", "at least one that is neither empty nor too long", got));
        }
        let train = Part { examples, pictures: described(shown, &self.tokenizer) };
        Ok(Parts { train, dev: self.scored(dev), test: Some(self.scored(test)), notes })
    }

    fn scored(&self, examples: Vec<Raw>) -> Part {
        Part { examples: Vec::new(), pictures: described(examples, &self.tokenizer) }
    }

    fn fits(&self, sentence: &[u32]) -> bool {
        (1..=self.config.data.max_length).contains(&sentence.len())
    }

    /// Returns how attention is to be shown.
    fn focus(&self) -> Focus {
        if hard(&self.config.model).is_some() { Focus::Hard } else { Focus::Soft }
    }

    /// Returns the largest number of pictures of a batch without gradients.
    fn together(&self) -> usize {
        let size = self.config.data.image_size();
        let pictures = (SCORED_PIXELS / (size.height * size.width)).min(SCORING.examples);
        (pictures / self.config.more.decode.size.max(1)).max(1)
    }

    /// Searches for the best sentences about pictures.
    fn search(&self, model: &Captioner, images: &[&Image], pass: &Pass) -> Result<Vec<Vec<Hypothesis>>, TaskError> {
        let (device, together) = (device_of(model), self.together());
        let mut found = Vec::with_capacity(images.len());
        let chunks = images.chunks(together);
        let count = chunks.len();
        for (done, images) in chunks.enumerate() {
            pass.report(done, count)?;
            let seen = model.see(pictures_tensor(images.iter().copied(), &device), pass)?;
            found.extend(seen.search(self.config.data.max_length, &self.config.more.decode, pass)?);
        }
        Ok(found)
    }

    fn text(&self, hypotheses: &[Hypothesis]) -> String {
        hypotheses.first().map_or_else(String::new, |best| self.tokenizer.decode(&best.tokens))
    }

    /// The prediction for the best hypothesis of a search.
    fn predicted(&self, found: &[Hypothesis]) -> Prediction {
        let output = self.text(found);
        let score = found.first().map_or(f64::NAN, |best| best.log_probability);
        let more = BTreeMap::from([
            ("caption".to_string(), Value::from(output.clone())),
            ("log_probability".to_string(), Value::from(score)),
        ]);
        Prediction::new(output, more)
    }

    fn scene(&self, split: Split, index: usize) -> Result<Described, TaskError> {
        match built_in_scene(split, index, self.config.data.image_size())? {
            Some(scene) => Ok(Described::new(scene, &self.tokenizer)),
            None => {
                let expected = format!("the number of a built-in scene of {split}");
                Err(TaskError::input("input", expected, built_in_name(split, index)))
            }
        }
    }
}

/// Computes the loss of sentences about the pictures that were seen; also returns the number of tokens to predict.
fn sentence_loss(
    seen: &Seen,
    sentences: &[&[u32]],
    smoothing: f32,
    device: &Device,
    pass: &Pass,
) -> Result<(RecurrentLoss, usize), TaskError> {
    let read: Vec<Vec<u32>> = sentences.iter().map(|tokens| [&[START], *tokens].concat()).collect();
    let wanted: Vec<Vec<u32>> = sentences.iter().map(|tokens| [*tokens, &[END]].concat()).collect();
    let (read, lengths) = padded(&read, device);
    let (wanted, _) = padded(&wanted, device);
    let options = CrossEntropyOptions { ignore_index: Some(i64::from(PAD)), label_smoothing: smoothing };
    Ok((seen.loss(read, wanted, options, pass)?, lengths.iter().sum()))
}

impl Task for Captions {
    const NAME: &'static str = "caption";
    const CONFIG: &'static str = include_str!("../../../../configs/caption.toml");
    type Config = Config;
    type Model = Captioner;
    type Part = Part;
    type Input = Described;
    const INPUT: InputKind = InputKind::Picture;

    fn start(mut config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        let splits = Self::read(&config.data)?;
        if let Some(first) = splits.train.first() {
            config.settle(first.image.size)?;
        }
        let sentences = splits.train.iter().map(|raw| raw.sentence.as_str());
        let tokenizer = config.data.tokenizer.train(sentences)?;
        let task = Self { config, tokenizer };
        let parts = task.encoded(splits)?;
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        BTreeMap::from([tokenizer_file(&self.tokenizer)])
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        Ok(Self { config, tokenizer: files.tokenizer()? })
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        self.encoded(Self::read(&self.config.data)?)
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        let raw = |Raw { name, hash, sentence, image, .. }: Raw| RawExample {
            input: RawInput::Picture { name, hash, pixels: image.pixels.len() },
            answer: sentence,
            labels: Vec::new(),
        };
        Ok(Some(Self::read(&config.data)?.map(raw)))
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        Ok(self.scored(raw(read_captions(path, &self.config.data.fit())?)))
    }

    fn described(&self) -> Option<Description> {
        let train = &self.config.train;
        let tokens = self.config.data.max_length.min(train.batch_tokens).max(1);
        let batch = train.batch_examples.min(train.batch_tokens / tokens).max(1);
        let network = NetworkConfig::of(&self.config.model, self.tokenizer.vocab(), self.config.data.image_size());
        Some(size::described(&network, batch, tokens))
    }

    fn model(&self, init: &Init) -> Result<Captioner, TaskError> {
        let size = self.config.data.image_size();
        Ok(match NetworkConfig::of(&self.config.model, self.tokenizer.vocab(), size) {
            NetworkConfig::Transformer(config) => Captioner::Transformer(TransformerCaptioner::new(&config, init)?),
            NetworkConfig::Recurrent(config) => Captioner::Recurrent(RecurrentCaptioner::new(&config, init)?),
        })
    }

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = train.examples.iter().map(|example| example.sentence.len() + 1).collect();
        batches(&lengths, self.config.train.budget(), self.config.seed, epoch)
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &Captioner,
        memory: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let examples: Vec<&Example> = batch.iter().map(|&index| &train.examples[index]).collect();
        let device = device_of(model);
        let mut seen = model.see(pictures_tensor(examples.iter().map(|example| &*example.image), &device), pass)?;
        if let Some(soft_steps) = hard(&self.config.model) {
            let batches = memory.get("batches").and_then(Value::as_u64).unwrap_or(0);
            memory["batches"] = (batches + 1).into();
            if batches / (self.config.train.accumulate as u64) < soft_steps {
                seen = seen.softly();
            }
        }
        let sentences: Vec<&[u32]> = examples.iter().map(|example| example.sentence.as_slice()).collect();
        let (found, targets) = sentence_loss(&seen, &sentences, self.config.train.label_smoothing, &device, pass)?;
        Ok(Loss { mean: rewards::total(found, memory)?, targets, tokens: targets })
    }

    /// False for hard attention, whose reward baseline and number of soft steps are those of the whole batch.
    fn is_divisible(&self) -> bool {
        hard(&self.config.model).is_none()
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &Captioner,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let pictures: Vec<&Described> = spread(part.pictures.len(), limit).map(|at| &part.pictures[at]).collect();
        self.scores(&pictures, model, pass)
    }

    fn questions(&self, path: &Path) -> Result<Option<Questions>, TaskError> {
        let names = match is_picture(path) {
            true => Some(vec![path.to_path_buf()]),
            false => read_captioned_names(path)?,
        };
        Ok(names.map(|names| Questions::lines(names.iter().map(|name| name.to_string_lossy().into_owned()).collect())))
    }

    fn input(&self, given: &Given) -> Result<Described, TaskError> {
        match read_picture(given, self.config.data.image_size())? {
            GivenPicture::Image(image) => {
                let name = match given {
                    Given::Text(name) | Given::Json(Value::String(name)) => name.clone(),
                    Given::Json(_) => "picture".to_string(),
                };
                Ok(Described::unknown(name, image))
            }
            GivenPicture::BuiltIn(split, index) => self.scene(split, index),
        }
    }

    fn given(&self, input: &Described) -> Given {
        given_picture(&input.image)
    }

    fn predict(&self, model: &Captioner, inputs: &[Described], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let images: Vec<&Image> = inputs.iter().map(|input| &*input.image).collect();
        let found = self.search(model, &images, pass)?;
        Ok(found.iter().map(|found| self.predicted(found)).collect())
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        let sample = |picture: &Described| Sample {
            given: picture.name.as_str().into(),
            expected: picture.references.first().cloned().unwrap_or_default(),
        };
        spread(part.pictures.len(), Some(count)).map(|at| sample(&part.pictures[at])).collect()
    }

    fn telling(&self, _: &Captioner) -> Result<Described, TaskError> {
        self.scene(Split::Test, TELLING)
    }

    fn positions<'a>(&self, model: &'a Captioner) -> Vec<Trained<'a>> {
        let picture = model.picture();
        let [rows, columns] = picture.grid();
        let parts =
            [("rows of the picture", &picture.rows, rows), ("columns of the picture", &picture.columns, columns)];
        // A single row or column has nothing to compare.
        let several = parts.into_iter().filter(|(_, _, count)| *count > 1);
        let mut all: Vec<_> = several.map(|(part, layer, longest)| Trained { part, layer, longest }).collect();
        if let Captioner::Transformer(model) = model {
            let longest = self.config.data.max_length;
            all.push(Trained { part: "decoder", layer: &model.embedding.position, longest });
        }
        all
    }

    fn look(&self, model: &Captioner, picture: &Described, pass: &Pass) -> Result<Legend, TaskError> {
        let device = device_of(model);
        let seen = model.see(pictures_tensor([&*picture.image], &device), pass)?;
        let unseen = pass.without_capture();
        let found = seen.clone().search(self.config.data.max_length, &self.config.more.decode, &unseen)?;
        let best = found[0].first().map_or(Vec::new(), |best| best.tokens.clone());
        let (read, _) = padded(&[[&[START], best.as_slice()].concat()], &device);
        seen.read_again(read, pass)?;
        let tokens: Vec<String> = best.iter().map(|&id| self.tokenizer.token(id).unwrap_or_default()).collect();
        // A row over the picture is labelled with the token that it predicts, one over the sentence with the token it reads.
        let words: Vec<String> = tokens.iter().cloned().chain(["</s>".to_string()]).collect();
        let read: Vec<String> = ["<s>".to_string()].into_iter().chain(tokens).collect();
        let grid @ [rows, columns] = model.picture().grid();
        let cells: Vec<String> =
            (0..rows * columns).map(|cell| format!("{},{}", cell / columns, cell % columns)).collect();
        let prediction = self.predicted(&found[0]);
        let title = format!("{} → {}{}", picture.name, prediction.output, prediction.certainty());
        let caption = prediction.output;
        let written = Written { picture: picture.clone(), words: words.clone(), caption, grid, focus: self.focus() };
        let legend = Legend::new(title, move |map| {
            let (queries, keys) = match (map.site.kind, map.site.side) {
                (kind, _) if is_over_picture(kind) => (&words, &cells),
                (_, Some(Side::Decoder)) => (&read, &read),
                _ => (&cells, &cells),
            };
            (queries.clone(), keys.clone(), map.site.words())
        });
        Ok(legend.drawn(move |view| written.picture(view)))
    }
}
