//! The pointer task: `p₃[i] = p₁[p₂[i]]` for two permutations, which attention solves and a recurrent network of
//! the same size does not.
//!
//! The input is `p₁` followed by `p₂`, one token per number, with separate tokens for `p₂`; the output at the token of
//! `p₂[i]` is `p₁[p₂[i]]`. The grid form has a picture in place of `p₁` and a map of places in place of `p₂`, both of
//! `height × width` cells: the result is the rearranged picture. Training examples are drawn from the seed without end and never include dev or test examples.

mod config;
mod grid;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use regard_data::excerpt;
use regard_inspect::count::{Architecture, Description, Extra, RecurrentModel, Rows, Sizes};
use regard_inspect::show::position::Trained;
use regard_nn::layers::embedding::{Embedding, EmbeddingConfig};
use regard_nn::layers::linear::{Linear, LinearConfig};
use regard_nn::layers::recurrent::{Direction, Recurrent, RecurrentConfig};
use regard_nn::models::encoder::Encoder;
use regard_nn::{Init, NnError, Pass};
use regard_ops::cross_entropy;
use serde_json::{Value, json};

use self::config::encoder;
pub use self::config::{Config, DataConfig, Form};
use self::grid::{Grid, flat, rows};
use crate::error::TaskError;
use crate::folder::Files;
use crate::input::{Given, InputKind};
use crate::model::Chosen;
use crate::rows::{device_of, spread};
use crate::task::{Better, Evaluation, Legend, Loss, Parts, Prediction, Sample, Task};
use crate::train::TrainConfig;

/// Maximum number of examples of an epoch.
const LISTED: usize = 1_000_000;

/// One example: values, and the places at which they are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The values: `p₁`, or the picture.
    values: Vec<usize>,
    /// The places: `p₂`, or the map.
    places: Vec<usize>,
}

impl Example {
    fn answer(&self) -> Vec<usize> {
        self.places.iter().map(|&place| self.values[place]).collect()
    }

    /// The example as JSON, `{"numbers": [[…], […]]}`.
    fn given(&self) -> Given {
        Given::Json(json!({ InputKind::Numbers.key(): [self.values, self.places] }))
    }

    fn text(&self) -> String {
        format!("{} | {}", written(&self.values), written(&self.places))
    }
}

/// The network: a body over the tokens, and an output layer at each token.
#[derive(Module, Debug)]
pub struct Composer {
    body: Body,
    output: Linear,
}

/// The body of the network.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a model has only one")]
pub enum Body {
    /// Transformer encoder.
    Attention(Encoder),
    /// Recurrent network in both directions.
    Recurrent(RecurrentBody),
}

/// An embedding and a recurrent network over it.
#[derive(Module, Debug)]
pub struct RecurrentBody {
    embedding: Embedding,
    layers: Recurrent,
}

impl Composer {
    /// Computes the logits at the second half of the tokens.
    ///
    /// # Shapes
    /// `ids` `[batch, 2 size]` → `[batch · size, values]`.
    fn logits(&self, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<2>, NnError> {
        let states = match &self.body {
            Body::Attention(encoder) => encoder.forward(ids, None, pass)?,
            Body::Recurrent(body) => body.layers.forward(body.embedding.forward(ids)?, None, None, pass)?.hidden,
        };
        let [batch, seq, width] = states.dims();
        let second = states.narrow(1, seq / 2, seq / 2).reshape([batch * seq / 2, width]);
        Ok(self.output.forward(second)?)
    }
}

/// The pointer task; see the [module](self).
#[derive(Debug)]
pub struct Compose {
    config: Config,
}

impl Compose {
    fn size(&self) -> usize {
        self.config.data.size
    }

    /// Number of examples of a batch.
    fn batch_examples(&self) -> usize {
        let TrainConfig { batch_examples, batch_tokens, .. } = self.config.train;
        batch_examples.min(batch_tokens / (2 * self.size())).max(1)
    }

    /// Number of distinct values.
    fn n_values(&self) -> usize {
        match self.config.data.form {
            Form::Permutations => self.size(),
            Form::Grid => self.config.data.colours,
        }
    }

    /// Example `index` of a split, drawn from a stream of its own until the hash of an example falls into that split.
    fn example(&self, split: Side, index: u64) -> Example {
        let mut random = ChaCha8Rng::seed_from_u64(self.config.seed ^ 0xC0_4405E);
        random.set_stream(index.wrapping_mul(4).wrapping_add(split as u64));
        loop {
            let (size, colours) = (self.size(), self.config.data.colours);
            let (mut values, mut places): (Vec<usize>, Vec<usize>) = ((0..size).collect(), (0..size).collect());
            match self.config.data.form {
                Form::Permutations => {
                    values.shuffle(&mut random);
                    places.shuffle(&mut random);
                }
                Form::Grid => {
                    values.iter_mut().for_each(|value| *value = random.random_range(0..colours));
                    places.iter_mut().for_each(|place| *place = random.random_range(0..size));
                }
            }
            let example = Example { values, places };
            if side(&example) == split {
                return example;
            }
        }
    }

    fn ids(&self, examples: &[Example], model: &Composer) -> Tensor<2, Int> {
        let first_place = self.n_values();
        let ids: Vec<i32> = examples
            .iter()
            .flat_map(|example| {
                let places = example.places.iter().map(move |&place| (first_place + place) as i32);
                example.values.iter().map(|&value| value as i32).chain(places)
            })
            .collect();
        let device = device_of(model);
        Tensor::from_data(TensorData::new(ids, [examples.len(), 2 * self.size()]), &device)
    }

    /// Computes the model's answers.
    fn answers(&self, model: &Composer, examples: &[Example], pass: &Pass) -> Result<Vec<Vec<usize>>, TaskError> {
        let logits = model.logits(self.ids(examples, model), pass)?;
        let best: Vec<usize> = logits.argmax(1).into_data().iter::<i64>().map(|best| best as usize).collect();
        Ok(best.chunks_exact(self.size()).map(<[usize]>::to_vec).collect())
    }

    /// Parses an input written as `p₁ | p₂`. `what` names it in the error message.
    fn parse(&self, text: &str, what: &str) -> Result<Example, TaskError> {
        let wrong = || TaskError::input(what, self.expected(), excerpt(text));
        let numbers =
            |part: &str| part.split_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<usize>>>();
        let (values, places) = text.split_once('|').ok_or_else(wrong)?;
        let (values, places) = (numbers(values).ok_or_else(wrong)?, numbers(places).ok_or_else(wrong)?);
        let example = Example { values, places };
        if self.fits(&example) { Ok(example) } else { Err(wrong()) }
    }

    /// Describes a valid input, for error messages.
    fn expected(&self) -> String {
        match self.config.data.form {
            Form::Permutations => format!("two permutations of 0 to {}, like \"1 0 2 … | 2 1 0 …\"", self.size() - 1),
            Form::Grid => format!(
                "{} colours below {} and as many places below {}, like \"3 1 … | 0 2 …\" or as rows of {}",
                self.size(),
                self.n_values(),
                self.size(),
                self.config.data.width
            ),
        }
    }

    /// Whether an example has the size and the range of numbers of this model.
    fn fits(&self, example: &Example) -> bool {
        let fits = |numbers: &[usize], below: usize| {
            let permutation = || numbers.iter().collect::<std::collections::BTreeSet<_>>().len() == numbers.len();
            numbers.len() == self.size()
                && numbers.iter().all(|&number| number < below)
                && (self.config.data.form == Form::Grid || permutation())
        };
        fits(&example.values, self.n_values()) && fits(&example.places, self.size())
    }
}

/// Joins numbers with spaces.
fn written(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

/// The split of an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Train = 0,
    Dev = 1,
    Test = 2,
}

/// The split of an example by its hash: one example in ten belongs to dev, one in ten to test.
fn side(example: &Example) -> Side {
    let numbers = example.values.iter().chain(&example.places);
    let hash =
        numbers.fold(0xCBF2_9CE4_8422_2325u64, |hash, &n| (hash ^ (n as u64 + 1)).wrapping_mul(0x0100_0000_01B3));
    match (hash ^ (hash >> 29)) % 10 {
        0 => Side::Dev,
        1 => Side::Test,
        _ => Side::Train,
    }
}

/// The examples of a split.
#[derive(Debug)]
pub enum Part {
    /// Training examples, drawn as they are needed.
    Endless,
    /// A fixed list of examples.
    Fixed(Vec<Example>),
}

impl Task for Compose {
    const NAME: &'static str = "compose";
    const CONFIG: &'static str = include_str!("../../../../configs/compose.toml");
    type Config = Config;
    type Model = Composer;
    type Part = Part;
    type Input = Example;
    const INPUT: InputKind = InputKind::Numbers;

    fn start(config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        let task = Self { config };
        let parts = task.parts()?;
        Ok((task, parts))
    }

    fn open(config: Config, _: &Files) -> Result<Self, TaskError> {
        Ok(Self { config })
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        let fixed = |side, count: usize| Part::Fixed((0..count as u64).map(|at| self.example(side, at)).collect());
        let DataConfig { dev, test, .. } = self.config.data;
        Ok(Parts {
            train: Part::Endless,
            dev: fixed(Side::Dev, dev),
            test: Some(fixed(Side::Test, test)),
            notes: Vec::new(),
        })
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        let text = std::fs::read_to_string(path).map_err(TaskError::io(path))?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let examples = lines.map(|(at, line)| {
            let example = Given::line(line, Self::INPUT).and_then(|given| self.input(&given));
            example.map_err(|error| error.at_line(at + 1))
        });
        let examples = examples.collect::<Result<Vec<_>, _>>()?;
        if examples.is_empty() {
            return Err(TaskError::input("examples", "one per line", "none"));
        }
        Ok(Part::Fixed(examples))
    }

    fn described(&self) -> Option<Description> {
        let vocab = self.n_values() + self.size();
        let (architecture, width) = match self.config.model.chosen() {
            Chosen::Transformer(keys) => (Architecture::Encoder(encoder(keys, vocab)), keys.base.d_model),
            Chosen::Recurrent(cell, keys) => {
                let layers = RecurrentModel { direction: Direction::Both, vocab: Some(vocab), ..keys.counted(cell) };
                (Architecture::Recurrent(layers), keys.d_hidden().saturating_mul(2))
            }
        };
        let extra = vec![Extra::linear("answer", width, self.n_values(), Rows::Tokens)];
        let sizes = Sizes { batch: self.batch_examples(), ..Sizes::of(2 * self.size()) };
        Some(Description { sizes, extra, ..Description::new(architecture) })
    }

    fn model(&self, init: &Init) -> Result<Composer, TaskError> {
        let vocab = self.n_values() + self.size();
        let (body, width) = match self.config.model.chosen() {
            Chosen::Transformer(keys) => {
                (Body::Attention(Encoder::new(&encoder(keys, vocab), &init.enter("body"))?), keys.base.d_model)
            }
            Chosen::Recurrent(cell, keys) => {
                let d_model = keys.d_model;
                let layers = RecurrentConfig {
                    n_layers: keys.n_layers,
                    direction: Direction::Both,
                    dropout: keys.dropout,
                    ..RecurrentConfig::new(cell, d_model, keys.d_hidden())
                };
                let embedding = EmbeddingConfig { vocab, d_model }.init(&init.enter("body").enter("embedding"))?;
                let body = RecurrentBody { embedding, layers: layers.init(&init.enter("body").enter("layers"))? };
                (Body::Recurrent(body), layers.d_out())
            }
        };
        Ok(Composer { body, output: LinearConfig::new(width, self.n_values()).init(&init.enter("output"))? })
    }

    fn plan(&self, _: &Part, epoch: u64) -> Vec<Vec<usize>> {
        let size = self.batch_examples();
        // An epoch has 1,000 batches of new examples, fewer if the list of examples would become too long.
        let batches = (LISTED / size).clamp(1, 1_000);
        let first = (epoch as usize).wrapping_mul(batches * size);
        let batch = |batch: usize| (0..size).map(|at| first.wrapping_add(batch * size + at)).collect();
        (0..batches).map(batch).collect()
    }

    fn loss(&self, _: &Part, batch: &[usize], model: &Composer, _: &mut Value, pass: &Pass) -> Result<Loss, TaskError> {
        let examples: Vec<Example> = batch.iter().map(|&index| self.example(Side::Train, index as u64)).collect();
        let logits = model.logits(self.ids(&examples, model), pass)?;
        let targets: Vec<i32> = examples.iter().flat_map(Example::answer).map(|value| value as i32).collect();
        let count = targets.len();
        let targets = Tensor::<1, Int>::from_data(TensorData::new(targets, [count]), &logits.device());
        let mean = cross_entropy(logits, targets, self.config.train.loss_options())?;
        Ok(Loss { mean, targets: count, tokens: 2 * count })
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &Composer,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let Part::Fixed(examples) = part else {
            return Err(TaskError::Unsupported {
                task: Self::NAME,
                what: "score its training split, which is endless".to_string(),
            });
        };
        let examples: Vec<Example> = spread(examples.len(), limit).map(|at| examples[at].clone()).collect();
        let (mut right, mut whole) = (0, 0);
        for (done, batch) in examples.chunks(256).enumerate() {
            pass.report(done, examples.len().div_ceil(256))?;
            for (answer, example) in self.answers(model, batch, pass)?.iter().zip(batch) {
                let hits = answer.iter().zip(example.answer()).filter(|(a, b)| **a == *b).count();
                right += hits;
                whole += usize::from(hits == self.size());
            }
        }
        let count = examples.len() as f64;
        let scores = [("accuracy", right as f64 / (count * self.size() as f64)), ("exact", whole as f64 / count)];
        let scores = scores.into_iter().filter(|_| !examples.is_empty());
        Ok(Evaluation { examples: examples.len(), ..Evaluation::new(scores, "accuracy", Better::Higher) })
    }

    /// Reads two lists of numbers, as `{"numbers": [[…], […]]}` or `p₁ | p₂`. The lists of a grid may also be rows.
    fn input(&self, given: &Given) -> Result<Example, TaskError> {
        let Some(numbers) = given.value(InputKind::Numbers)? else { return self.parse(&given.to_string(), "input") };
        let list = |value: &Value| match self.config.data.form {
            Form::Permutations => serde_json::from_value(value.clone()).ok(),
            Form::Grid => flat(value, self.config.data.width),
        };
        let read = match numbers.as_array().map(Vec::as_slice) {
            Some([values, places]) => list(values).zip(list(places)),
            _ => None,
        };
        let example = read.map(|(values, places)| Example { values, places }).filter(|example| self.fits(example));
        example.ok_or_else(|| TaskError::input("input", self.expected(), excerpt(&numbers.to_string())))
    }

    fn given(&self, input: &Example) -> Given {
        match self.config.data.form {
            Form::Permutations => input.text().into(),
            Form::Grid => input.given(),
        }
    }

    fn predict(&self, model: &Composer, inputs: &[Example], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let mut predictions = Vec::with_capacity(inputs.len());
        for examples in inputs.chunks(256) {
            pass.check_cancelled()?;
            predictions.extend(self.answers(model, examples, pass)?.into_iter().map(|answer| {
                let mut more = BTreeMap::from([("values".to_string(), Value::from(answer.clone()))]);
                if self.config.data.form == Form::Grid {
                    more.insert("rows".to_string(), json!(rows(&answer, self.config.data.width)));
                }
                Prediction::new(written(&answer), more)
            }));
        }
        Ok(predictions)
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        let Part::Fixed(examples) = part else { return Vec::new() };
        let sample = |example: &Example| {
            let given = match self.config.data.form {
                Form::Permutations => example.text().into(),
                Form::Grid => example.given(),
            };
            Sample { given, expected: written(&example.answer()) }
        };
        examples.iter().take(count).map(sample).collect()
    }

    fn telling(&self, _: &Composer) -> Result<Example, TaskError> {
        Ok(self.example(Side::Test, 0))
    }

    fn positions<'a>(&self, model: &'a Composer) -> Vec<Trained<'a>> {
        match &model.body {
            Body::Attention(encoder) => {
                vec![Trained { part: "encoder", layer: &encoder.embedding.position, longest: 2 * self.size() }]
            }
            Body::Recurrent(_) => Vec::new(),
        }
    }

    fn look(&self, model: &Composer, example: &Example, pass: &Pass) -> Result<Legend, TaskError> {
        let answer = self.answers(model, std::slice::from_ref(example), pass)?.concat();
        let values = example.values.iter().map(usize::to_string);
        let tokens = values.chain(example.places.iter().map(|place| format!("[{place}]"))).collect();
        let legend = Legend::of_tokens(format!("{} → {}", example.text(), written(&answer)), tokens);
        let DataConfig { form, width, colours, .. } = self.config.data;
        let grid = Grid { example: example.clone(), answer, width, colours };
        Ok(match form {
            Form::Permutations => legend,
            Form::Grid => legend.drawn(move |view| grid.picture(view)),
        })
    }
}
