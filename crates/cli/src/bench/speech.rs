//! CTC and the transcriber of the speed table, the same as in `bench/peer_torch.py`.

use std::ops::Range;

use anyhow::Result;
use burn::tensor::{Device, Tensor, TensorData};
use regard_kernels::ctc::{CtcTexts, ctc_backward, ctc_forward};
use regard_nn::layers::position::Position;
use regard_nn::models::body::{BodyConfig, TransformerBodyConfig};
use regard_nn::models::transformer::Sight;
use regard_nn::models::vectors::{AnswerPer, VectorModel, VectorModelConfig};
use regard_nn::{ConfigError, Init, Pass};
use regard_ops::{Activation, CtcTargets, ctc_loss};

use super::kernels::values;
use super::train::{Training, examples_of_parts};

/// The sizes of a transcriber and its batch: a Transformer with truncated attention, without positions, trained by CTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpeechShape {
    /// Number of recordings.
    pub batch: usize,
    /// Vectors of a recording.
    pub seq: usize,
    /// Features of a vector.
    pub width: usize,
    /// Features of a state.
    pub d_model: usize,
    /// Number of heads.
    pub n_heads: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Hidden features of the feed-forward parts.
    pub d_ff: usize,
    /// Number of characters and the blank.
    pub vocab: usize,
    /// Characters of a text.
    pub labels: usize,
    /// Vectors that attention sees on each side.
    pub window: usize,
}

impl SpeechShape {
    /// The transcriber that the speed table measures: recordings of 2.4 s with five digits each.
    pub const REFERENCE: Self = Self {
        batch: 32,
        seq: 120,
        width: 160,
        d_model: 96,
        n_heads: 4,
        n_layers: 3,
        d_ff: 256,
        vocab: 11,
        labels: 5,
        window: 12,
    };

    /// Returns the shape if its sizes fit together.
    pub fn new(sizes: [usize; 10]) -> Result<Self, String> {
        let [batch, seq, width, d_model, n_heads, n_layers, d_ff, vocab, labels, window] = sizes;
        let shape = Self { batch, seq, width, d_model, n_heads, n_layers, d_ff, vocab, labels, window };
        shape.config().validate().map_err(|error: ConfigError| error.to_string())?;
        check_texts(seq, vocab, labels)?;
        Ok(shape)
    }

    /// Returns the sizes in the order of a benchmark's name.
    pub fn sizes(&self) -> [usize; 10] {
        let &Self { batch, seq, width, d_model, n_heads, n_layers, d_ff, vocab, labels, window } = self;
        [batch, seq, width, d_model, n_heads, n_layers, d_ff, vocab, labels, window]
    }

    fn config(&self) -> VectorModelConfig {
        let body = TransformerBodyConfig {
            n_heads: self.n_heads,
            d_ff: Some(self.d_ff),
            activation: Activation::Gelu,
            position: Position::None,
            sight: Sight::Window { left: self.window, right: self.window },
            ..Default::default()
        };
        VectorModelConfig {
            width: self.width,
            outputs: self.vocab,
            answers: AnswerPer::Vector,
            body: BodyConfig::Transformer(body),
            d_model: self.d_model,
            n_layers: self.n_layers,
            dropout: 0.0,
            ..Default::default()
        }
    }

    /// Estimates the numbers that a training step holds. A float, because huge sizes would overflow an integer.
    pub fn numbers(&self) -> f64 {
        let float = |n: usize| n as f64;
        let (d, rows) = (float(self.d_model), float(self.batch) * float(self.seq));
        let weights = float(self.n_layers) * d * (4.0 * d + 2.0 * float(self.d_ff)) + float(self.width) * d;
        let states = rows * float(self.n_layers) * (9.0 * d + 2.0 * float(self.d_ff));
        4.0 * weights + states + rows * (2.0 * float(self.width) + 4.0 * float(self.vocab) + 8.0 * float(self.labels))
    }
}

/// Refuses texts that do not fit into so many frames.
pub fn check_texts(frames: usize, vocab: usize, labels: usize) -> Result<(), String> {
    match vocab >= 3 && frames >= labels {
        true => Ok(()),
        false => Err("expected a vocabulary of 3 or more, and no more labels than frames".to_string()),
    }
}

/// Texts without equal neighbours.
fn texts(batch: usize, vocab: usize, labels: usize) -> Vec<Vec<u32>> {
    (0..batch).map(|row| (0..labels).map(|at| ((row + at) % (vocab - 1) + 1) as u32).collect()).collect()
}

/// Returns a call of CTC with its softmax, forward and backward, for sizes `[batch, frames, vocab, labels]`.
pub fn ctc([batch, frames, vocab, labels]: [usize; 4]) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let (logits, texts, frames) = (values(batch * frames * vocab, 1), texts(batch, vocab, labels), vec![frames; batch]);
    let (mut losses, mut grad, upstream) = (vec![0.0; batch], vec![0.0; logits.len()], vec![1.0; batch]);
    Ok(Box::new(move || {
        let texts = CtcTexts { frames: &frames, texts: &texts, blank: 0 };
        ctc_forward(&logits, vocab, texts, &mut losses, Some(&mut grad))?;
        ctc_backward(&upstream, vocab, &frames, &mut grad)?;
        Ok(())
    }))
}

/// Returns a call of one training step of a transcriber.
pub fn step(shape: SpeechShape) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let device = Device::flex().autodiff();
    let SpeechShape { batch, seq, width, vocab, labels, .. } = shape;
    let texts = texts(batch, vocab, labels);
    let part = |examples: Range<usize>| {
        let size = [examples.len(), seq, width];
        let x = values(size.iter().product(), 1 + examples.start as u64);
        let texts = texts[examples].to_vec();
        (
            Tensor::<3>::from_data(TensorData::new(x, size), &device),
            CtcTargets { frames: vec![seq; size[0]], texts, blank: 0 },
        )
    };
    let parts = examples_of_parts(batch, seq).into_iter().map(part).collect();
    let model = shape.config().init(&Init::new(0, &device))?;
    let mut training = Training::new(model, parts, move |model: &VectorModel, (x, targets): &(_, CtcTargets)| {
        let logits = model.logits(x.clone(), &targets.frames, &Pass::inference())?;
        Ok(ctc_loss(logits, targets.clone())?.sum() / (targets.texts.len() * labels) as f32)
    });
    Ok(Box::new(move || training.step().map(|_| ())))
}
