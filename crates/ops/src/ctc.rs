//! Connectionist temporal classification: the loss of texts whose alignment to the frames is not known. See
//! [`regard_kernels::ctc`].

use std::sync::Arc;

use burn::tensor::{Int, Tensor, TensorData, activation as burn_activation};
use burn_flex::FlexTensor;
use regard_kernels::ctc::{CtcTexts, ctc_backward, ctc_forward};
use regard_kernels::unwritten;

use crate::error::{OpError, check_shape, check_width};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, tensor};

/// Logarithm that stands for an impossible state in the fallback: the gradient of a true −∞ would be NaN.
const IMPOSSIBLE: f32 = -1e30;

/// The frames of each sequence, its text, and the label that means nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CtcTargets {
    /// Number of frames of each sequence.
    pub frames: Vec<usize>,
    /// Labels of each text.
    pub texts: Vec<Vec<u32>>,
    /// Index of the blank, which no text contains.
    pub blank: u32,
}

impl CtcTargets {
    /// Returns the smallest number of frames that can spell a text: one for each label, and one for the blank between two
    /// equal ones.
    pub fn frames_needed(text: &[u32]) -> usize {
        CtcTexts::frames_needed(text)
    }

    fn borrowed(&self) -> CtcTexts<'_> {
        CtcTexts { frames: &self.frames, texts: &self.texts, blank: self.blank }
    }

    fn check(&self, vocab: usize) -> Result<usize, OpError> {
        let wrong = |what, why| Err(OpError::Option { what, why });
        if self.frames.len() != self.texts.len() {
            let why = format!("expected {}, one for each sequence, got {}", self.frames.len(), self.texts.len());
            return wrong("texts", why);
        }
        if self.blank as usize >= vocab {
            return wrong("blank", format!("{} is outside a vocabulary of {vocab}", self.blank));
        }
        for (at, (text, &frames)) in self.texts.iter().zip(&self.frames).enumerate() {
            if let Some(label) = text.iter().find(|&&label| label as usize >= vocab || label == self.blank) {
                let why =
                    format!("label {label} of text {at}: expected one below {vocab}, not the blank {}", self.blank);
                return wrong("texts", why);
            }
            let needed = Self::frames_needed(text);
            if frames < needed {
                return wrong("frames", format!("text {at} needs {needed} frames or more, its sequence has {frames}"));
            }
        }
        let all = self.frames.iter().try_fold(0_usize, |sum, &frames| sum.checked_add(frames));
        all.map_or_else(|| wrong("frames", "their sum does not fit in memory".to_string()), Ok)
    }
}

/// Computes `−ln P(text)` of each sequence, summed over all alignments. The sequences are stored one after the other, without
/// padding.
///
/// # Shapes
/// `logits` `[Σ frames, vocab]` → `[sequences]`.
pub fn ctc_loss(logits: Tensor<2>, targets: CtcTargets) -> Result<Tensor<1>, OpError> {
    check_f32("logits", &logits)?;
    let vocab = check_width("logits", &logits.dims())?;
    check_shape("logits", logits.dims(), [targets.check(vocab)?, vocab])?;
    if !is_fused(&logits) {
        return Ok(ctc_loss_fallback(logits, &targets));
    }
    apply(Ctc { vocab, targets: Arc::new(targets) }, [logits.into_dispatch()])
}

/// [`ctc_loss`] in plain Burn operations, without its argument checks.
pub fn ctc_loss_fallback(logits: Tensor<2>, targets: &CtcTargets) -> Tensor<1> {
    let log_probabilities = burn_activation::log_softmax(logits, 1);
    let mut start = 0;
    let losses = targets.frames.iter().zip(&targets.texts).map(|(&frames, text)| {
        let own = log_probabilities.clone().narrow(0, start, frames);
        start += frames;
        sequence(own, text, targets.blank)
    });
    match losses.collect::<Vec<_>>() {
        none if none.is_empty() => log_probabilities.sum_dim(1).squeeze_dim(1),
        losses => Tensor::cat(losses, 0),
    }
}

/// The loss of one sequence from its log-probabilities `[frames, vocab]`.
fn sequence(log_probabilities: Tensor<2>, text: &[u32], blank: u32) -> Tensor<1> {
    let (device, frames) = (log_probabilities.device(), log_probabilities.dims()[0]);
    if frames == 0 {
        return Tensor::zeros([1], &device);
    }
    let mut states = vec![blank as i64];
    text.iter().for_each(|&label| states.extend([i64::from(label), i64::from(blank)]));
    let count = states.len();
    let row = |values: Vec<f32>| Tensor::<2>::from_data(TensorData::new(values, [1, count]), &device);
    let closed =
        |open: &dyn Fn(usize) -> bool| row((0..count).map(|s| if open(s) { 0.0 } else { IMPOSSIBLE }).collect());
    let starts = closed(&|s| s < 2);
    let skips = closed(&|s| s % 2 == 1 && s > 1 && states[s] != states[s - 2]);
    let ends = closed(&|s| s + 2 >= count);
    let index = Tensor::<1, Int>::from_data(TensorData::new(states.clone(), [count]), &device);
    let emissions = log_probabilities.select(1, index);
    let at = |t: usize| emissions.clone().narrow(0, t, 1);
    let shifted = |alpha: &Tensor<2>, by: usize| match by < count {
        true => {
            let before = Tensor::full([1, by], IMPOSSIBLE, &device);
            Tensor::cat(vec![before, alpha.clone().slice([0..1, 0..count - by])], 1)
        }
        false => Tensor::full([1, count], IMPOSSIBLE, &device),
    };
    let mut alpha = at(0) + starts;
    for t in 1..frames {
        let ways = Tensor::cat(vec![alpha.clone(), shifted(&alpha, 1), shifted(&alpha, 2) + skips.clone()], 0);
        alpha = log_sum_exp(ways, 0) + at(t);
    }
    log_sum_exp(alpha + ends, 1).neg().reshape([1])
}

fn log_sum_exp(x: Tensor<2>, dim: usize) -> Tensor<2> {
    let max = x.clone().detach().max_dim(dim);
    (x - max.clone()).exp().sum_dim(dim).log() + max
}

/// The fused operation. Its input is the logits.
#[derive(Debug, Clone)]
struct Ctc {
    vocab: usize,
    targets: Arc<CtcTargets>,
}

impl FusedOp<1> for Ctc {
    /// Gradient of each loss with respect to the logits.
    type Saved = Vec<f32>;

    fn forward(&self, [logits]: [FlexTensor; 1], purpose: Purpose) -> Result<(FlexTensor, Vec<f32>), OpError> {
        let logits = contiguous(logits);
        let logits = elements(&logits);
        let mut losses = unwritten(self.targets.frames.len());
        let mut grad = match purpose {
            Purpose::Training => unwritten(logits.len()),
            Purpose::Inference => Vec::new(),
        };
        let wanted = (purpose == Purpose::Training).then_some(grad.as_mut_slice());
        ctc_forward(logits, self.vocab, self.targets.borrowed(), &mut losses, wanted)?;
        let count = losses.len();
        Ok((tensor(losses, [count]), grad))
    }

    fn backward(
        &self,
        mut saved: Vec<f32>,
        grad: FlexTensor,
        _: [bool; 1],
    ) -> Result<[Option<FlexTensor>; 1], OpError> {
        let grad = contiguous(grad);
        ctc_backward(elements(&grad), self.vocab, &self.targets.frames, &mut saved)?;
        let frames = saved.len() / self.vocab;
        Ok([Some(tensor(saved, [frames, self.vocab]))])
    }
}
