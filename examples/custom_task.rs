//! A task of your own: sort eight digits with a Transformer encoder.
//!
//! One implementation of [`Task`] gives training with checkpoints and exact resume, a report, scores, predictions and attention
//! maps. The examples are made as needed here; a task that reads files does so in `start`, `parts` and `part`. A training calls
//! `start`, `parts` and `model`, then for every epoch `plan`, for every batch `loss`, now and then `evaluate`; `predict` and
//! `look` use the trained model.
//!
//! ```sh
//! cargo run --release --example custom_task -- look.html
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use regard_nn::layers::linear::{Linear, LinearConfig};
use regard_nn::models::encoder::Encoder;
use regard_nn::{Init, Pass, Wanted};
use regard_ops::{CrossEntropyOptions, cross_entropy};
use regard_tasks::folder::{Files, Folder};
use regard_tasks::input::{Given, InputKind};
use regard_tasks::model::TransformerKeys;
use regard_tasks::rows::device_of;
use regard_tasks::run::kind_of;
use regard_tasks::task::{Better, Evaluation, Legend, Loss, Parts, Prediction, Sample, Settings, Task, Validate};
use regard_tasks::train::{Event, Observer, Origin, Stop, TrainConfig};
use regard_tasks::weights::Storage;
use regard_tasks::{Request, TaskError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Number of digits of an example.
const LENGTH: usize = 8;
/// Number of distinct digits.
const DIGITS: usize = 10;

/// The configuration. `--set` reaches every key of it, and unknown keys are refused with the nearest known one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seed: u64,
    model: TransformerKeys,
    train: TrainConfig,
}

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        Ok(self.model.transformer(DIGITS).validate().map_err(|error| error.within("model"))?)
    }
}

impl Settings for Config {
    fn train(&self) -> &TrainConfig {
        &self.train
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn data_path(&self) -> Option<&Path> {
        None
    }

    fn fingerprint(&self) -> Result<String, TaskError> {
        // Changes when the data change, so that a run is not resumed with other data.
        Ok("digits, version 1".to_string())
    }
}

/// An encoder, and one score per digit for every place of the sorted list.
#[derive(Module, Debug)]
struct Sorter {
    encoder: Encoder,
    output: Linear,
}

#[derive(Debug)]
struct Sort {
    config: Config,
}

type Digits = Vec<usize>;

fn sorted(digits: &Digits) -> Digits {
    let mut sorted = digits.clone();
    sorted.sort_unstable();
    sorted
}

fn written(digits: &Digits) -> String {
    digits.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

impl Sort {
    /// Returns example `index`, a function of the seed and the index alone.
    fn example(&self, index: u64) -> Digits {
        let mut random = ChaCha8Rng::seed_from_u64(self.config.seed);
        random.set_stream(index);
        (0..LENGTH).map(|_| random.random_range(0..DIGITS)).collect()
    }

    /// Computes the scores of all digits for every place.
    ///
    /// # Shapes
    /// → `[examples · LENGTH, DIGITS]`.
    fn logits(&self, model: &Sorter, examples: &[Digits], pass: &Pass) -> Result<Tensor<2>, TaskError> {
        let ids: Vec<i32> = examples.iter().flatten().map(|&digit| digit as i32).collect();
        let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [examples.len(), LENGTH]), &device_of(model));
        let states = model.encoder.forward(ids, None, pass)?;
        Ok(model.output.forward(states)?.reshape([examples.len() * LENGTH, DIGITS]))
    }

    fn answers(&self, model: &Sorter, examples: &[Digits], pass: &Pass) -> Result<Vec<Digits>, TaskError> {
        let best = self.logits(model, examples, pass)?.argmax(1).into_data();
        let best: Vec<usize> = best.iter::<i64>().map(|digit| digit as usize).collect();
        Ok(best.chunks_exact(LENGTH).map(<[usize]>::to_vec).collect())
    }
}

impl Task for Sort {
    const NAME: &'static str = "sort";
    /// The defaults. In a task of the program this is a commented file of its own.
    const CONFIG: &'static str = "\
        seed = 1\n\
        [model]\nd_model = 64\nn_layers = 2\nn_heads = 4\nd_ff = 128\n\
        [train]\nsteps = 400\nbatch_examples = 64\nlearning_rate = 2e-3\nevaluate_every = 100\n";
    const INPUT: InputKind = InputKind::Text;
    type Config = Config;
    type Model = Sorter;
    type Input = Digits;
    /// Numbers of the held-out examples of a split; empty for training, which never runs out of new examples.
    type Part = Vec<u64>;

    fn start(config: Config) -> Result<(Self, Parts<Vec<u64>>), TaskError> {
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

    fn parts(&self) -> Result<Parts<Vec<u64>>, TaskError> {
        // Held-out examples come from the end of the numbers, training examples from the beginning.
        let [dev, test] = [1, 2].map(|part| (0..500).map(|index| u64::MAX - 500 * part + index).collect());
        Ok(Parts { train: Vec::new(), dev, test: Some(test), notes: vec!["digits are drawn as needed".to_string()] })
    }

    fn part(&self, path: &Path) -> Result<Vec<u64>, TaskError> {
        let what = format!("read {}: its examples are made as needed", path.display());
        Err(TaskError::Unsupported { task: Self::NAME, what })
    }

    fn model(&self, init: &Init) -> Result<Sorter, TaskError> {
        let transformer = self.config.model.transformer(DIGITS);
        let encoder = Encoder::new(&transformer, &init.enter("encoder"))?;
        let output = LinearConfig::new(transformer.d_model, DIGITS).init(&init.enter("output"))?;
        Ok(Sorter { encoder, output })
    }

    /// Plans an epoch of 100 batches; each index is the number of an example.
    fn plan(&self, _: &Vec<u64>, epoch: u64) -> Vec<Vec<usize>> {
        let size = self.config.train.batch_examples;
        let first = epoch as usize * 100 * size;
        (0..100).map(|batch| (first + batch * size..first + (batch + 1) * size).collect()).collect()
    }

    fn loss(
        &self,
        _: &Vec<u64>,
        batch: &[usize],
        model: &Sorter,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let examples: Vec<Digits> = batch.iter().map(|&index| self.example(index as u64)).collect();
        let logits = self.logits(model, &examples, pass)?;
        let targets: Vec<i32> = examples.iter().flat_map(sorted).map(|digit| digit as i32).collect();
        let count = targets.len();
        let targets = Tensor::<1, Int>::from_data(TensorData::new(targets, [count]), &logits.device());
        let mean = cross_entropy(logits, targets, CrossEntropyOptions::default())?;
        Ok(Loss { mean, targets: count, tokens: count })
    }

    fn evaluate(
        &self,
        part: &Vec<u64>,
        model: &Sorter,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let part = &part[..limit.unwrap_or(part.len()).min(part.len())];
        let examples: Vec<Digits> = part.iter().map(|&index| self.example(index)).collect();
        let answers = self.answers(model, &examples, pass)?;
        let right = answers.iter().zip(&examples).filter(|(answer, example)| **answer == sorted(example)).count();
        let scores = [("exact", right as f64 / examples.len().max(1) as f64)];
        Ok(Evaluation { examples: examples.len(), ..Evaluation::new(scores, "exact", Better::Higher) })
    }

    fn input(&self, given: &Given) -> Result<Digits, TaskError> {
        let text = given.text()?;
        let digits: Option<Digits> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        let digits = digits.filter(|digits| digits.len() == LENGTH && digits.iter().all(|&digit| digit < DIGITS));
        digits.ok_or_else(|| TaskError::input("input", format!("{LENGTH} digits with spaces between them"), text))
    }

    fn given(&self, input: &Digits) -> Given {
        written(input).into()
    }

    fn predict(&self, model: &Sorter, inputs: &[Digits], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let answers = self.answers(model, inputs, pass)?;
        Ok(answers.iter().map(|answer| Prediction::new(written(answer), BTreeMap::new())).collect())
    }

    fn samples(&self, part: &Vec<u64>, count: usize) -> Vec<Sample> {
        let examples = part.iter().take(count).map(|&index| self.example(index));
        examples.map(|digits| Sample { given: written(&digits).into(), expected: written(&sorted(&digits)) }).collect()
    }

    /// Returns an input for `look` when the user gives none.
    fn telling(&self, _: &Sorter) -> Result<Digits, TaskError> {
        Ok(vec![3, 1, 4, 1, 5, 9, 2, 6])
    }

    fn look(&self, model: &Sorter, input: &Digits, pass: &Pass) -> Result<Legend, TaskError> {
        let answer = self.answers(model, std::slice::from_ref(input), pass)?.concat();
        let title = format!("{} → {}", written(input), written(&answer));
        Ok(Legend::of_tokens(title, input.iter().map(usize::to_string).collect()))
    }
}

/// Prints the scores while the model trains.
struct Printer;

impl Observer for Printer {
    fn hear(&mut self, event: &Event) {
        if let Event::Evaluated { step, loss, scores, .. } = event {
            println!("step {step}: loss {loss:.3}, {scores:.3?}");
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let request = Request { out: Some(place.path().join("sorter")), ..Request::default() };
    // What `regard train` does, for a task that the program does not know.
    let finished = kind_of::<Sort>().train(&request, Origin::Scratch, &mut Printer, &Stop::default())?;
    println!("test split: {:.3?}", finished.scores);
    assert!(finished.scores["exact"] > 0.8, "sorting was not learned");

    // Open the folder as `regard predict` and `regard look` do.
    let (folder, description) = Folder::open(&finished.folder)?;
    let model = kind_of::<Sort>().open(folder, description, Storage::F32)?;
    // The second input is too short: it is refused, and the first is answered all the same.
    let inputs = ["3 1 4 1 5 9 2 6", "3 1 4"];
    for (input, answer) in inputs.iter().zip(model.predict(&inputs.map(Into::into), &Pass::inference())?) {
        match answer {
            Ok(prediction) => println!("{input} sorted: {}", prediction.output),
            Err(error) => println!("{input} is refused: {error}"),
        }
    }
    if let Some(path) = std::env::args().nth(1) {
        // The result tells which characters no font has.
        let _ = model.look(None, Wanted::default(), &Pass::inference())?.save(&path)?;
        println!("wrote {path}");
    }
    Ok(())
}
