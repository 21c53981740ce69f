//! Sound recordings: a label for each, or the text that is spoken.
//!
//! The network sees log-mel features, several frames at a time. Self-attention within a window of time makes its cost linear
//! in the length of a recording. A transcript comes from outputs for each moment, trained by connectionist temporal
//! classification (CTC), so that no one has to say when which letter is spoken; it can be heard while the recording goes on,
//! see [`Listener`].

mod augment;
mod choice;
mod config;
mod ear;
mod examples;
mod gaze;
mod given;
mod scoring;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use burn::tensor::Device;
use regard_data::builtin::{self, SPOKEN};
use regard_data::{
    Member, Recording, Scaler, Sound, Source, Split, Splits, batches, encode_wav, excerpt, in_order, load_recordings,
    read_recordings, recording_names,
};
use regard_inspect::count::Description;
use regard_inspect::show::position::Trained;
use regard_nn::models::vectors::{AnswerPer, VectorModel, VectorModelConfig};
use regard_nn::{AttentionKind, Init, LayerPath, Pass};
use regard_ops::{CtcTargets, ctc_loss, log_softmax};
use serde_json::{Value, json};

pub use self::config::Config;
use self::config::{Aim, DataConfig};
use self::ear::Ear;
pub use self::examples::Part;
use self::examples::{BLANK, Example, Goal, Said, check_heard};
use self::gaze::Heard;
use self::given::GivenSound;
pub use self::stream::{Listener, Transcriber};
use crate::answers::Answer;
use crate::auto::{Asked, Choice, Facts};
use crate::decode::ctc::{Spelt, spell, spell_with_beam};
use crate::error::TaskError;
use crate::folder::Files;
use crate::input::{Given, InputKind};
use crate::model::{positions, sizes};
use crate::notes;
use crate::pictures::built_in_name;
use crate::rows::{SCORING, device_of, spread};
use crate::survey::{RawExample, RawInput};
use crate::task::{Evaluation, Legend, Loss, Parts, Prediction, Questions, Sample, Task};
use crate::vectors::examples::padded;
use crate::vectors::size::described;

/// File with the scale of the features.
const FILE: &str = "sounds.json";
/// Seed of the built-in recordings, which are the same in every run.
const BUILT_IN_SEED: u64 = 1;

/// A recording to predict from, at the rate of the model.
#[derive(Debug, Clone)]
pub struct Sounding {
    samples: Vec<f32>,
    name: String,
}

/// The task of recordings; see the [module](self).
#[derive(Debug)]
pub struct Speech {
    config: Config,
    goal: Goal,
    ear: Ear,
    /// Stream of the random numbers of augmentation.
    augmentation: LayerPath,
    /// Recordings of the data set if it is an archive, which is unpacked when the first of them is an input.
    archive: OnceLock<Vec<Member>>,
}

impl Speech {
    fn new(config: Config, goal: Goal, ear: Ear) -> Self {
        let augmentation = Init::for_weights(&Device::flex()).enter("augmentation").path();
        Self { config, goal, ear, augmentation, archive: OnceLock::new() }
    }

    /// Reads the recordings of the run.
    fn recordings(data: &DataConfig) -> Result<Splits<Recording>, TaskError> {
        if let Some(path) = &data.path {
            let source = Source { path: path.clone(), fold: data.fold };
            return Ok(load_recordings(&source, data.rate, &data.held())?);
        }
        let mut splits = match data.target {
            Aim::Label => builtin::spoken(SPOKEN, BUILT_IN_SEED),
            Aim::Text => builtin::spoken_strings(SPOKEN, BUILT_IN_SEED),
        };
        for (split, part) in
            [(Split::Train, &mut splits.train), (Split::Dev, &mut splits.dev), (Split::Test, &mut splits.test)]
        {
            part.iter_mut().enumerate().for_each(|(index, one)| one.name = built_in_name(split, index));
        }
        Ok(splits.map(|recording| Recording { sound: recording.sound.at_rate(data.rate), ..recording }))
    }

    /// Reads the recordings of the run, without those that are too long to train on.
    fn trained_on(data: &DataConfig) -> Result<Splits<Recording>, TaskError> {
        let mut all = Self::recordings(data)?;
        let (count, most) = (all.train.len(), data.max_seconds);
        all.train.retain(|recording| recording.sound.seconds() <= most);
        let left_out = count - all.train.len();
        if left_out > 0 {
            let note = format!(
                "{left_out} of {count} recordings are longer than {most} s (data.max_seconds): left out of training"
            );
            all.notes.push(note);
        }
        if all.train.is_empty() {
            let expected = format!("at least one of at most {most} s (data.max_seconds)");
            return Err(TaskError::input("training recordings", expected, "none"));
        }
        Ok(all)
    }

    fn encoded(&self, all: Splits<Recording>) -> Result<Parts<Part>, TaskError> {
        let Splits { train, dev, test, notes: mut told } = all;
        told.push(notes::sizes("recordings", train.len(), dev.len(), Some(test.len())));
        match &self.goal {
            Goal::Label(answers) => told.extend(answers.note(train.iter().map(|one| one.answer.as_str()))),
            Goal::Text(characters) => {
                let names: Vec<String> = characters.names().iter().map(|name| format!("{name:?}")).collect();
                told.push(format!("{} characters: {}", names.len(), regard_data::listed(&names)));
            }
        }
        let train = self.goal.part(train, &self.ear, true)?;
        let (dev, test) = (self.goal.part(dev, &self.ear, false)?, self.goal.part(test, &self.ear, false)?);
        for (split, part) in [(Split::Dev, &dev), (Split::Test, &test)] {
            told.extend(notes::unseen(split, "labels", &part.unseen));
        }
        Ok(Parts { train, dev, test: Some(test), notes: told })
    }

    fn network(&self) -> VectorModelConfig {
        let network = self.config.model.network();
        VectorModelConfig { width: self.ear.width(), outputs: self.goal.outputs(), answers: self.goal.per(), ..network }
    }

    /// Computes the outputs of the network for each recording, row by row: probabilities of labels, or log-probabilities of
    /// characters for each vector.
    fn outputs(&self, model: &VectorModel, recordings: &[&[f32]], pass: &Pass) -> Result<Vec<Vec<f32>>, TaskError> {
        let device = device_of(model);
        let lengths: Vec<usize> =
            recordings.iter().map(|samples| self.ear.vectors(self.ear.frames(samples.len()))).collect();
        let mut outputs = vec![Vec::new(); recordings.len()];
        let batches = in_order(&lengths, SCORING);
        for (done, batch) in batches.iter().enumerate() {
            pass.report(done, batches.len())?;
            let heard: Vec<Vec<f32>> = batch.iter().map(|&row| self.ear.hear(recordings[row])).collect();
            let (x, lengths) = padded(&heard, self.ear.width(), &device);
            let found = match self.goal.per() {
                AnswerPer::Example => model.predict(x, &lengths, pass)?,
                AnswerPer::Vector => log_softmax(model.logits(x, &lengths, pass)?)?,
            };
            let found: Vec<f32> = found.into_data().iter().collect();
            let mut rest = found.as_slice();
            for (&row, &length) in batch.iter().zip(&lengths) {
                let rows = if self.goal.per() == AnswerPer::Vector { length } else { 1 };
                let (own, after) = rest.split_at(rows * self.goal.outputs());
                outputs[row] = own.to_vec();
                rest = after;
            }
        }
        Ok(outputs)
    }

    /// Finds the text in log-probabilities of characters.
    fn spelt(&self, output: &[f32]) -> Spelt {
        match self.config.more.decode.size {
            1 => spell(output, self.goal.outputs(), BLANK),
            size => spell_with_beam(output, self.goal.outputs(), BLANK, size),
        }
    }

    /// Returns the characters of labels of a network that transcribes.
    fn text(&self, labels: &[u32]) -> String {
        match &self.goal {
            Goal::Label(_) => String::new(),
            Goal::Text(characters) => labels.iter().map(|&label| characters.name(label as usize - 1)).collect(),
        }
    }

    /// Puts an output into words and into the fields of a prediction.
    fn prediction(&self, output: &[f32]) -> Prediction {
        match &self.goal {
            Goal::Label(answers) => {
                Prediction::new(answers.text(&answers.decide(output), &[]), answers.document(output))
            }
            Goal::Text(_) => {
                let text = self.text(&self.spelt(output).labels);
                let more = BTreeMap::from([("transcript".to_string(), Value::from(text.clone()))]);
                Prediction::new(text, more)
            }
        }
    }

    /// Returns the vectors of a training recording, changed at random.
    fn changed(&self, example: &Example, index: usize, pass: &Pass) -> Vec<f32> {
        let augment = &self.config.data.augment;
        let Some(mut random) = pass.at("recording", index).random(&self.augmentation) else {
            return self.ear.hear(&example.samples);
        };
        let vectors = self.ear.hear_changed(&example.samples, augment, &mut random);
        let needed = match &example.said {
            Said::Label(_) => 1,
            Said::Text { ids, .. } => CtcTargets::frames_needed(ids).max(1),
        };
        // Faster speech may be too short for its text.
        match vectors.len() / self.ear.width() < needed {
            true => self.ear.hear(&example.samples),
            false => vectors,
        }
    }
}

impl Task for Speech {
    const NAME: &'static str = "speech";
    const CONFIG: &'static str = include_str!("../../../../configs/speech.toml");
    type Config = Config;
    type Model = VectorModel;
    type Part = Part;
    type Input = Sounding;
    const INPUT: InputKind = InputKind::Sound;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        Some(choice::choose(facts, asked))
    }

    fn start(config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        let all = Self::trained_on(&config.data)?;
        let goal = Goal::learn(config.data.target, &all.train)?;
        let ear = Ear::learn(&config.data, all.train.iter().map(|one| one.sound.samples.as_slice()));
        let task = Self::new(config, goal, ear);
        let parts = task.encoded(all)?;
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let scaler = serde_json::to_vec_pretty(&self.ear.scaler).expect("plain values can be written as JSON");
        BTreeMap::from([self.goal.file(), (FILE.to_string(), scaler)])
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        let scaler: Scaler = files.json(FILE)?;
        if scaler.width() != config.data.bands {
            return Err(files.damaged(FILE, "not a scale for each band"));
        }
        let goal = Goal::open(config.data.target, files)?;
        let ear = Ear::new(&config.data, scaler);
        Ok(Self::new(config, goal, ear))
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        self.encoded(Self::trained_on(&self.config.data)?)
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        self.goal.part(read_recordings(path, Some(self.config.data.rate))?.examples, &self.ear, false)
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        let aim = config.data.target;
        let raw = |Recording { answer, name, hash, sound, .. }: Recording| {
            let labels = if aim == Aim::Label { vec![answer.clone()] } else { Vec::new() };
            RawExample { input: RawInput::Sound { name, hash, seconds: sound.seconds() }, answer, labels }
        };
        Ok(Some(Self::recordings(&config.data)?.map(raw)))
    }

    fn described(&self) -> Option<Description> {
        let sizes = sizes(self.config.train.batch_tokens, self.config.data.longest());
        Some(described(&self.config.model, &self.network(), sizes))
    }

    fn model(&self, init: &Init) -> Result<VectorModel, TaskError> {
        Ok(self.network().init(init)?)
    }

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = train.examples.iter().map(|example| example.vectors).collect();
        batches(&lengths, self.config.train.budget(), self.config.seed, epoch)
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &VectorModel,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let device = device_of(model);
        let heard: Vec<Vec<f32>> =
            batch.iter().map(|&index| self.changed(&train.examples[index], index, pass)).collect();
        let (x, lengths) = padded(&heard, self.ear.width(), &device);
        let tokens = lengths.iter().sum();
        let said = || batch.iter().map(|&index| &train.examples[index].said);
        match &self.goal {
            Goal::Label(answers) => {
                let labels: Vec<&Answer> = said().filter_map(Said::label).collect();
                let labels = answers.tensor(&labels, &device);
                let mean = model.loss(x, &lengths, labels, self.config.train.label_smoothing, pass)?;
                Ok(Loss { mean, targets: batch.len(), tokens })
            }
            Goal::Text(_) => {
                let texts: Vec<Vec<u32>> = said().map(|said| said.ids().to_vec()).collect();
                let targets = texts.iter().map(Vec::len).sum::<usize>().max(1);
                let logits = model.logits(x, &lengths, pass)?;
                let losses = ctc_loss(logits, CtcTargets { frames: lengths, texts, blank: BLANK })?;
                Ok(Loss { mean: losses.sum() / targets as f32, targets, tokens })
            }
        }
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &VectorModel,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let examples: Vec<&Example> = spread(part.examples.len(), limit).map(|at| &part.examples[at]).collect();
        let recordings: Vec<&[f32]> = examples.iter().map(|example| example.samples.as_slice()).collect();
        let outputs = self.outputs(model, &recordings, pass)?;
        self.scores(part, &examples, &outputs)
    }

    /// Reads the names in a manifest, or a recording itself.
    fn questions(&self, path: &Path) -> Result<Option<Questions>, TaskError> {
        Ok(recording_names(path)?.map(Questions::lines))
    }

    fn input(&self, given: &Given) -> Result<Sounding, TaskError> {
        let data = &self.config.data;
        let (sound, name) = match self.read_given(given)? {
            GivenSound::Sound(sound, name) => (sound, name),
            GivenSound::BuiltIn(split, index) => {
                let count = match (split, &data.path) {
                    (_, Some(_)) => 0,
                    (Split::Train, None) => SPOKEN.train,
                    (Split::Dev, None) => SPOKEN.dev,
                    (Split::Test, None) => SPOKEN.test,
                };
                if index >= count {
                    let expected = match count {
                        0 => "a WAV file: this model was not trained on built-in recordings".to_string(),
                        _ => format!("a number below {count}, the number of {split} recordings"),
                    };
                    return Err(TaskError::input("input", expected, excerpt(&given.to_string())));
                }
                let recording = match data.target {
                    Aim::Label => builtin::spoken_digit(split, index, BUILT_IN_SEED),
                    Aim::Text => builtin::spoken_string(split, index, BUILT_IN_SEED),
                };
                (recording.sound, built_in_name(split, index))
            }
        };
        if sound.seconds() > data.max_seconds {
            let expected = format!("at most {} s (data.max_seconds of this model)", data.max_seconds);
            return Err(TaskError::input(name, expected, format!("{:.1} s", sound.seconds())));
        }
        let samples = sound.at_rate(data.rate).samples;
        check_heard(&name, samples.len(), &self.ear)?;
        Ok(Sounding { samples, name })
    }

    fn given(&self, input: &Sounding) -> Given {
        let sound = Sound { rate: self.config.data.rate, samples: input.samples.clone() };
        Given::Json(json!({ InputKind::Sound.key(): STANDARD.encode(encode_wav(&sound)) }))
    }

    fn predict(&self, model: &VectorModel, inputs: &[Sounding], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let recordings: Vec<&[f32]> = inputs.iter().map(|input| input.samples.as_slice()).collect();
        let outputs = self.outputs(model, &recordings, pass)?;
        Ok(outputs.iter().map(|output| self.prediction(output)).collect())
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        let sample = |at: usize| {
            let example = &part.examples[at];
            Sample { given: example.name.as_str().into(), expected: self.expected(&example.said, &part.unseen) }
        };
        spread(part.examples.len(), Some(count)).map(sample).collect()
    }

    fn telling(&self, _: &VectorModel) -> Result<Sounding, TaskError> {
        if self.config.data.path.is_some() {
            let what = "choose a recording unless the data are built in; give it one".to_string();
            return Err(TaskError::Unsupported { task: Self::NAME, what });
        }
        self.input(&built_in_name(Split::Test, 4).into())
    }

    fn positions<'a>(&self, model: &'a VectorModel) -> Vec<Trained<'a>> {
        positions(None, &model.body, self.config.data.longest().min(200))
    }

    fn look(&self, model: &VectorModel, input: &Sounding, pass: &Pass) -> Result<Legend, TaskError> {
        let output = self.outputs(model, &[&input.samples], pass)?.remove(0);
        let prediction = self.prediction(&output);
        let answer = prediction.output.clone();
        let title = format!("{} → {}{}", input.name, excerpt(&answer), prediction.certainty());
        let heard = Heard::new(self, input, &output);
        let times = heard.times();
        let legend = Legend::new(title, move |map| {
            let pools = map.site.kind == AttentionKind::Pooling;
            let queries = if pools { vec![answer.clone()] } else { times.clone() };
            (queries, times.clone(), map.site.words())
        });
        Ok(legend.drawn(move |view| heard.picture(view)))
    }
}
