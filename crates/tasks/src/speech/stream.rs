//! Transcription of a recording while it goes on, piece by piece.
//!
//! With `n` layers whose attention sees `left` vectors back and `right` ahead, an output depends on `n · left` vectors before
//! it and `n · right` after it. The listener keeps that many, so that its outputs are those of the whole recording, and its
//! memory and its work for each second do not grow.
//!
//! ```no_run
//! # fn main() -> Result<(), regard_tasks::TaskError> {
//! # let microphone: Vec<Vec<f32>> = Vec::new();
//! let transcriber = regard_tasks::speech::Transcriber::open("runs/strings".as_ref())?;
//! let mut listener = transcriber.listen()?;
//! let pass = regard_nn::Pass::inference();
//! for samples in microphone {
//!     listener.hear(&samples, &pass)?;
//!     println!("{}", listener.text());
//! }
//! listener.finish(&pass)?;
//! # Ok(())
//! # }
//! ```

use std::path::Path;

use regard_nn::Pass;
use regard_nn::layers::position::Position;
use regard_nn::models::transformer::Sight;
use regard_nn::models::vectors::VectorModel;
use regard_ops::log_softmax;

use super::config::{Aim, ModelConfig};
use super::{BLANK, Speech, padded};
use crate::decode::ctc::best_labels;
use crate::error::TaskError;
use crate::folder::Folder;
use crate::opened::Model;
use crate::rows::device_of;
use crate::task::Task;
use crate::weights::Storage;

/// A trained model that transcribes recordings while they go on.
#[derive(Debug)]
pub struct Transcriber {
    task: Speech,
    model: VectorModel,
}

impl Transcriber {
    /// Opens a model folder.
    ///
    /// # Errors
    /// A folder that cannot be read, or a model of another task.
    pub fn open(path: &Path) -> Result<Self, TaskError> {
        let (folder, description) = Folder::open(path)?;
        if description.task != Speech::NAME {
            return Err(TaskError::folder(path, format!("a model of {}, not of {}", description.task, Speech::NAME)));
        }
        let (task, model) = Model::<Speech>::open(folder, description, Storage::F32)?.into_parts();
        Ok(Self { task, model })
    }

    /// Returns the number of samples per second that a recording must have.
    pub fn rate(&self) -> u32 {
        self.task.config.data.rate
    }

    /// Begins to hear a recording.
    ///
    /// # Errors
    /// A model that predicts labels, that sees the whole recording, or whose positions count from its start.
    pub fn listen(&self) -> Result<Listener<'_>, TaskError> {
        self.task.listen(&self.model)
    }
}

/// A recording that is being heard. Samples are at the rate of the model, `data.rate`.
pub struct Listener<'a> {
    task: &'a Speech,
    model: &'a VectorModel,
    /// Vectors before and after an output that it depends on.
    context: [usize; 2],
    /// Samples from the start of the first frame that is not yet complete.
    samples: Vec<f32>,
    /// Scaled features, from the first frame of vector `first`.
    features: Vec<f32>,
    /// Number of the first vector that is kept.
    first: usize,
    /// Number of vectors whose outputs are known.
    told: usize,
    /// The label of the last output, with which an equal one would merge.
    last: u32,
    text: String,
}

impl Speech {
    /// Begins to hear a recording with a network; see [`Transcriber::listen`].
    pub(super) fn listen<'a>(&'a self, model: &'a VectorModel) -> Result<Listener<'a>, TaskError> {
        let unsupported = |why: &str| {
            Err(TaskError::Unsupported { task: Self::NAME, what: format!("listen to pieces of a recording: {why}") })
        };
        if self.config.data.target != Aim::Text {
            return unsupported("only a model with data.target = \"text\" answers before the end");
        }
        let ModelConfig::Transformer(keys) = &self.config.model else {
            return unsupported("only a Transformer sees a limited part of it; train one with model.kind=transformer");
        };
        let Sight::Window { left, right } = keys.base.sight else {
            return unsupported("attention must end somewhere; train with model.sight = { kind = \"window\", … }");
        };
        if !matches!(keys.base.position, Position::None | Position::Rope(_) | Position::Alibi | Position::Relative(_)) {
            return unsupported("positions must be relative; train with model.position none, rope, alibi or relative");
        }
        let layers = keys.base.n_layers;
        Ok(Listener {
            task: self,
            model,
            context: [layers * left, layers * right],
            samples: Vec::new(),
            features: Vec::new(),
            first: 0,
            told: 0,
            last: BLANK,
            text: String::new(),
        })
    }
}

impl Listener<'_> {
    /// Hears more samples. Returns the log-probabilities of blank and characters at the vectors that are now certain,
    /// `[vectors, outputs]`.
    pub fn hear(&mut self, samples: &[f32], pass: &Pass) -> Result<Vec<f32>, TaskError> {
        self.samples.extend_from_slice(samples);
        let ear = &self.task.ear;
        let frames = ear.frames(self.samples.len());
        self.features.extend(ear.features(&self.samples));
        self.samples.drain(..frames * ear.hop());
        let known = self.first + ear.whole_vectors(self.features.len() / ear.bands());
        self.tell(known.saturating_sub(self.context[1]), pass)
    }

    /// Ends the recording and returns the outputs of the vectors that are left.
    pub fn finish(&mut self, pass: &Pass) -> Result<Vec<f32>, TaskError> {
        let ear = &self.task.ear;
        let all = self.first + ear.vectors(self.features.len() / ear.bands());
        self.tell(all, pass)
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Computes the outputs of the vectors from `told` to `until`.
    fn tell(&mut self, until: usize, pass: &Pass) -> Result<Vec<f32>, TaskError> {
        if until <= self.told {
            return Ok(Vec::new());
        }
        let ear = &self.task.ear;
        let vectors = ear.stacked(&self.features);
        let (x, lengths) = padded(&[vectors], ear.width(), &device_of(self.model));
        let found: Vec<f32> = log_softmax(self.model.logits(x, &lengths, pass)?)?.into_data().iter().collect();
        let outputs = self.task.goal.outputs();
        let new = &found[(self.told - self.first) * outputs..(until - self.first) * outputs];
        for label in best_labels(new, outputs) {
            if label != self.last && label != BLANK {
                self.text += &self.task.text(&[label]);
            }
            self.last = label;
        }
        self.told = until;
        let first = until.saturating_sub(self.context[0]).max(self.first);
        let gone = (first - self.first) * ear.stride() * ear.bands();
        self.features.drain(..gone.min(self.features.len()));
        self.first = first;
        Ok(new.to_vec())
    }
}
