//! Benchmarks, named by operation and sizes. Regard and PyTorch both build a benchmark from its name.

use std::str::FromStr;

use anyhow::{Result, bail};
use regard_ops::{Direction, Precision};
use regard_system::available_memory;

use super::gpt::GptShape;
use super::graph::GraphModel;
use super::handwriting::WritingShape;
use super::image::ImageModel;
use super::inference::{CELLS, Inference};
use super::speech::{self, SpeechShape};
use super::{Subject, graph, handwriting, icl, kernels, train};

/// A benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// `attention/KIND/BATCHxHEADSxSEQxD_HEAD/PHASE`
    Attention { kind: AttentionKind, sizes: [usize; 4], phase: Phase },
    /// `linear_attention/DIRECTION/BATCHxHEADSxSEQxD_HEAD`: forward and backward pass, full or causal.
    LinearAttention { direction: Direction, sizes: [usize; 4] },
    /// `lstm/BATCHxSEQxD_INxD_HIDDEN`: forward and backward pass of an LSTM.
    Lstm { sizes: [usize; 4] },
    /// `gru/BATCHxSEQxD_INxD_HIDDEN`: forward and backward pass of a GRU.
    Gru { sizes: [usize; 4] },
    /// `embedding/VOCABxWIDTHxTOKENS`: lookup, and gradient of the table.
    Embedding { sizes: [usize; 3] },
    /// `convolution/BATCHxIN_CHANNELSxOUT_CHANNELSxSIDExKERNELxSTRIDE/PHASE`: square images and kernels, padded by half a
    /// kernel.
    Convolution { sizes: [usize; 6], phase: Phase },
    /// `group_norm/BATCHxCHANNELSxSIDExGROUPS/PHASE`: square images, with ReLU.
    GroupNorm { sizes: [usize; 4], phase: Phase },
    /// `ctc/BATCHxFRAMESxVOCABxLABELS`: softmax, loss and gradient of texts without equal neighbours.
    Ctc { sizes: [usize; 4] },
    /// `train/BATCHxSEQxD_MODELxN_HEADSxN_LAYERSxD_FFxVOCAB`, or `train/bf16/…`: one step of a GPT.
    Train(GptShape, Precision),
    /// `train/vit/BATCHxSIDExPATCHxD_MODELxN_HEADSxN_LAYERSxD_FF` or `train/cnn/BATCHxSIDExGROUPSxCHANNELSxCHANNELSxCHANNELS`:
    /// one step of a classifier of images.
    TrainImage(ImageModel),
    /// `train/gat/NODESxLINKSxFEATURESxOWNxD_MODELxN_HEADSxLABELS`: one step of a graph attention network.
    TrainGraph(GraphModel),
    /// `train/speech/BATCHxSEQxWIDTHxD_MODELxN_HEADSxN_LAYERSxD_FFxVOCABxLABELSxWINDOW`: one step of a transcriber.
    TrainSpeech(SpeechShape),
    /// `train/write/BATCHxSEQxCHARACTERSxTEXTxD_HIDDENxN_LAYERSxWINDOWxMIXTURE`: one step of a handwriting network.
    TrainWriting(WritingShape),
    /// `decode/…`, `evaluate/…` or `step/…`: see [`Inference`].
    Infer(Inference),
    /// `icl/STEP/DxNxP`: the fields of in-context learning, or iterations on them.
    Icl { step: IclStep, sizes: [usize; 3] },
}

/// A step of solving in-context learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IclStep {
    /// Draws prompts and sums them into fields and couplings.
    Fields,
    /// Runs twenty node iterations.
    Node,
}

/// Mask or extra input of an attention benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionKind {
    Full,
    Causal,
    /// A window of 64 keys to each side.
    Window,
    /// Dropout with probability 0.1.
    Dropout,
    /// A learned bias, `[1, heads, seq, seq]`.
    Bias,
    /// A boolean mask, `[batch, 1, seq, seq]`, with four fifths visible.
    Boolean,
}

/// The pass that is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Forward,
    Backward,
    Both,
}

/// A name that is not a benchmark.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "`{name}` is not a benchmark here: {why}\n  \
     examples: attention/causal/16x4x256x64/forward (full, causal, window, dropout, bias, boolean; forward, \
     backward, both), linear_attention/causal/4x8x1024x64 (full, causal), lstm/32x64x64x128, gru/32x64x64x128, \
     embedding/8000x256x4096, convolution/64x32x64x28x3x1/forward, group_norm/64x32x28x8/forward, \
     train/2x16x64x4x4x128x256, train/vit/64x28x4x96x4x6x384, train/cnn/64x28x8x32x64x128, \
     train/gat/2708x2x1433x18x64x8x7, train/speech/32x120x160x96x4x3x256x11x5x12, train/write/32x150x27x8x128x2x5x10, \
     ctc/32x120x11x5, decode/1x256x256x4x4x1024x8000, evaluate/16x256x256x4x4x1024x8000, \
     evaluate/gat/2708x2x1433x18x64x8x7, step/lstm/1x256x256, step/gru/1x256x256, icl/node/20x100x10000"
)]
pub struct UnknownWork {
    name: String,
    why: String,
}

impl UnknownWork {
    pub fn new(name: &str, why: &str) -> Self {
        Self { name: name.to_string(), why: why.to_string() }
    }
}

const KINDS: [(&str, AttentionKind); 6] = [
    ("full", AttentionKind::Full),
    ("causal", AttentionKind::Causal),
    ("window", AttentionKind::Window),
    ("dropout", AttentionKind::Dropout),
    ("bias", AttentionKind::Bias),
    ("boolean", AttentionKind::Boolean),
];

const DIRECTIONS: [(&str, Direction); 2] = [("full", Direction::Bidirectional), ("causal", Direction::Causal)];

const STEPS: [(&str, IclStep); 2] = [("fields", IclStep::Fields), ("node", IclStep::Node)];

const PHASES: [(&str, Phase); 3] = [("forward", Phase::Forward), ("backward", Phase::Backward), ("both", Phase::Both)];

impl Work {
    /// Returns the kernel benchmarks of the speed table.
    pub fn kernels() -> Vec<Self> {
        let mut works = Vec::new();
        for (kind, sizes) in [
            (AttentionKind::Causal, [16, 4, 256, 64]),
            (AttentionKind::Causal, [1, 8, 1024, 64]),
            (AttentionKind::Causal, [1, 8, 4096, 64]),
            (AttentionKind::Full, [1, 8, 1024, 64]),
        ] {
            works.extend([Phase::Forward, Phase::Backward].map(|phase| Work::Attention { kind, sizes, phase }));
        }
        for (kind, sizes) in [
            (AttentionKind::Dropout, [4, 8, 512, 64]),
            (AttentionKind::Bias, [4, 8, 512, 64]),
            (AttentionKind::Boolean, [4, 8, 512, 64]),
            (AttentionKind::Window, [1, 8, 4096, 64]),
        ] {
            works.push(Work::Attention { kind, sizes, phase: Phase::Both });
        }
        let sizes = [4, 8, 1024, 64];
        works.extend(DIRECTIONS.map(|(_, direction)| Work::LinearAttention { direction, sizes }));
        let recurrent = [[32, 64, 64, 128], [1, 256, 256, 256], [32, 64, 256, 256]];
        works.extend(recurrent.map(|sizes| Work::Lstm { sizes }));
        works.extend(recurrent.map(|sizes| Work::Gru { sizes }));
        works.push(Work::Embedding { sizes: [8000, 256, 4096] });
        for sizes in [
            [64, 1, 32, 28, 3, 1],
            [64, 32, 64, 28, 3, 1],
            [64, 64, 64, 28, 3, 1],
            [64, 32, 64, 28, 3, 2],
            [64, 64, 128, 14, 3, 2],
        ] {
            works.extend([Phase::Forward, Phase::Backward].map(|phase| Work::Convolution { sizes, phase }));
        }
        for sizes in [
            [64, 32, 32, 28, 3, 1],
            [64, 64, 64, 14, 3, 1],
            [64, 128, 128, 7, 3, 1],
            [64, 32, 64, 28, 1, 2],
            [64, 64, 128, 14, 1, 2],
        ] {
            works.push(Work::Convolution { sizes, phase: Phase::Both });
        }
        for sizes in [[64, 32, 28, 8], [64, 128, 7, 8]] {
            works.extend([Phase::Forward, Phase::Backward].map(|phase| Work::GroupNorm { sizes, phase }));
        }
        works.extend([[32, 120, 11, 5], [16, 400, 30, 60]].map(|sizes| Work::Ctc { sizes }));
        works
    }

    /// Returns the training benchmarks of the speed table.
    pub fn training() -> Vec<Self> {
        let gpt = [GptShape::REFERENCE, GptShape::TINY].map(|shape| Work::Train(shape, Precision::F32));
        let has_bf16 = Precision::Bf16.check_available().is_ok();
        let half = has_bf16.then_some(Work::Train(GptShape::REFERENCE, Precision::Bf16));
        let images = [ImageModel::VIT, ImageModel::CNN].map(Work::TrainImage);
        let others = [
            Work::TrainGraph(GraphModel::CORA),
            Work::TrainSpeech(SpeechShape::REFERENCE),
            Work::TrainWriting(WritingShape::REFERENCE),
        ];
        gpt.into_iter().chain(half).chain(images).chain(others).collect()
    }

    /// Returns the benchmarks without gradients of the speed table.
    pub fn inference() -> Vec<Self> {
        Inference::all().into_iter().map(Work::Infer).collect()
    }

    /// Returns the in-context-learning benchmarks of the speed table.
    pub fn icl() -> Vec<Self> {
        STEPS.map(|(_, step)| Work::Icl { step, sizes: [20, 100, 10_000] }).into()
    }

    /// Returns the subject of `regard bench` that the benchmark belongs to.
    pub fn subject(&self) -> Subject {
        match self {
            Work::Attention { .. }
            | Work::LinearAttention { .. }
            | Work::Lstm { .. }
            | Work::Gru { .. }
            | Work::Embedding { .. }
            | Work::Convolution { .. }
            | Work::GroupNorm { .. }
            | Work::Ctc { .. } => Subject::Kernels,
            Work::Train(..)
            | Work::TrainImage(_)
            | Work::TrainGraph(_)
            | Work::TrainSpeech(_)
            | Work::TrainWriting(_) => Subject::Train,
            Work::Infer(_) => Subject::Infer,
            Work::Icl { .. } => Subject::Icl,
        }
    }

    pub fn name(&self) -> String {
        let joined = |sizes: &[usize]| sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
        let phase_name = |phase: &Phase| PHASES.iter().find(|p| p.1 == *phase).map_or("", |p| p.0);
        match self {
            Work::Attention { kind, sizes, phase } => {
                let kind = KINDS.iter().find(|k| k.1 == *kind).map_or("", |k| k.0);
                format!("attention/{kind}/{}/{}", joined(sizes), phase_name(phase))
            }
            Work::Convolution { sizes, phase } => format!("convolution/{}/{}", joined(sizes), phase_name(phase)),
            Work::GroupNorm { sizes, phase } => format!("group_norm/{}/{}", joined(sizes), phase_name(phase)),
            Work::LinearAttention { direction, sizes } => {
                let direction = DIRECTIONS.iter().find(|d| d.1 == *direction).map_or("", |d| d.0);
                format!("linear_attention/{direction}/{}", joined(sizes))
            }
            Work::Lstm { sizes } => format!("lstm/{}", joined(sizes)),
            Work::Gru { sizes } => format!("gru/{}", joined(sizes)),
            Work::Embedding { sizes } => format!("embedding/{}", joined(sizes)),
            Work::Infer(inference) => {
                let (name, sizes) = inference.name_and_sizes();
                format!("{name}/{}", joined(&sizes))
            }
            Work::Ctc { sizes } => format!("ctc/{}", joined(sizes)),
            Work::TrainSpeech(shape) => format!("train/speech/{}", joined(&shape.sizes())),
            Work::Train(shape, Precision::F32) => format!("train/{}", joined(&shape.sizes())),
            Work::Train(shape, Precision::Bf16) => format!("train/bf16/{}", joined(&shape.sizes())),
            Work::TrainImage(model) => {
                let (name, sizes) = model.name_and_sizes();
                format!("train/{name}/{}", joined(sizes))
            }
            Work::TrainGraph(GraphModel(sizes)) => format!("train/gat/{}", joined(sizes)),
            Work::TrainWriting(shape) => format!("train/write/{}", joined(&shape.sizes())),
            Work::Icl { step, sizes } => {
                let step = STEPS.iter().find(|s| s.1 == *step).map_or("", |s| s.0);
                format!("icl/{step}/{}", joined(sizes))
            }
        }
    }

    /// Estimates the memory that the benchmark needs, in bytes. A float, because huge sizes would overflow an integer.
    fn bytes(&self) -> f64 {
        let float = |n: usize| n as f64;
        let elements = match *self {
            Work::Attention { kind, sizes: [batch, heads, seq, d_head], .. } => {
                let (rows, square) = (float(batch) * float(heads) * float(seq), float(seq) * float(seq));
                let dense = match kind {
                    AttentionKind::Bias => 2.0 * float(heads) * square,
                    AttentionKind::Boolean => 1.25 * float(batch) * square,
                    _ => 0.0,
                };
                // Inputs, results and gradients, and about as much again while each thread lays out a head.
                rows * (9.0 * float(d_head) + 1.0) + dense
            }
            Work::LinearAttention { sizes: [batch, heads, seq, d_head], .. } => {
                // Inputs, results and gradients, and as much again while each thread lays out a head.
                16.0 * float(batch) * float(heads) * float(seq) * float(d_head)
            }
            Work::Embedding { sizes: [vocab, width, tokens] } => {
                2.0 * float(width) * (float(vocab) + float(tokens)) + 2.0 * float(tokens)
            }
            Work::Lstm { sizes: [batch, seq, d_in, d_hidden] } | Work::Gru { sizes: [batch, seq, d_in, d_hidden] } => {
                let weights = 4.0 * float(d_hidden) * (float(d_in) + float(d_hidden));
                3.0 * weights + float(batch) * float(seq) * (2.0 * float(d_in) + 12.0 * float(d_hidden))
            }
            Work::Convolution { sizes: [batch, d_in, d_out, side, kernel, stride], .. } => {
                let pixels = float(batch) * float(side) * float(side);
                // The padded output has at most one row and column more.
                let out = float(batch) * (float(side) / float(stride) + 1.0).powi(2);
                // A few partial sums of the weights, and each thread's copy of an image.
                let weights = 20.0 * float(d_in) * float(d_out) * float(kernel) * float(kernel);
                let image = 8.0 * (float(d_in) + float(d_out)) * (float(side) + float(kernel)).powi(2);
                2.0 * pixels * float(d_in) + 2.0 * out * float(d_out) + weights + image
            }
            Work::GroupNorm { sizes: [batch, channels, side, groups], .. } => {
                float(batch) * (4.0 * float(channels) * float(side) * float(side) + 2.0 * float(groups))
            }
            Work::Ctc { sizes: [batch, frames, vocab, labels] } => {
                // The lattice of each sequence has two f64 for each state.
                float(batch) * float(frames) * (2.0 * float(vocab) + 4.0 * (2.0 * float(labels) + 1.0))
            }
            Work::TrainImage(model) => model.numbers(),
            Work::TrainGraph(model) => model.numbers(),
            Work::TrainSpeech(shape) => shape.numbers(),
            Work::TrainWriting(shape) => shape.numbers(),
            Work::Train(shape, _) => shape.training_numbers(),
            Work::Infer(inference) => inference.numbers(),
            Work::Icl { sizes: [d, n, _], .. } => {
                // Three matrices over all spins and a block of prompts, in f64.
                let spins = float(d) * (float(d) + 1.0);
                2.0 * (3.0 * spins * spins + 1024.0 * spins + 4.0 * float(d) * float(n))
            }
        };
        4.0 * elements
    }

    /// Creates the data and returns the call to time, or an error if the benchmark does not fit in memory.
    pub fn prepare(&self) -> Result<Box<dyn FnMut() -> Result<()>>> {
        const GIB: f64 = (1u64 << 30) as f64;
        // If the system does not report its memory, assume a terabyte.
        let available = available_memory().unwrap_or(1 << 40) as f64;
        if self.bytes() > available {
            bail!(
                "{} needs about {:.1} GiB of memory, but {:.1} GiB are available; choose smaller sizes",
                self.name(),
                self.bytes() / GIB,
                available / GIB
            );
        }
        match self {
            Work::Attention { kind, sizes, phase } => kernels::attention(*kind, *sizes, *phase),
            Work::LinearAttention { direction, sizes } => kernels::linear_attention(*direction, *sizes),
            Work::Lstm { sizes } => kernels::lstm(*sizes),
            Work::Gru { sizes } => kernels::gru(*sizes),
            Work::Embedding { sizes } => kernels::embedding(*sizes),
            Work::Infer(inference) => inference.prepare(),
            Work::Convolution { sizes, phase } => kernels::convolution(*sizes, *phase),
            Work::GroupNorm { sizes, phase } => kernels::group_norm(*sizes, *phase),
            Work::Train(shape, precision) => train::step(*shape, *precision),
            Work::TrainImage(model) => train::image_step(*model),
            Work::TrainGraph(model) => graph::step(*model),
            Work::Ctc { sizes } => speech::ctc(*sizes),
            Work::TrainSpeech(shape) => speech::step(*shape),
            Work::TrainWriting(shape) => handwriting::step(*shape),
            Work::Icl { step: IclStep::Fields, sizes } => icl::fields(*sizes),
            Work::Icl { step: IclStep::Node, sizes } => icl::node(*sizes),
        }
    }
}

impl FromStr for Work {
    type Err = UnknownWork;

    fn from_str(name: &str) -> Result<Self, UnknownWork> {
        let unknown = |why: &str| UnknownWork::new(name, why);
        let phase_named =
            |phase: &str| Ok(PHASES.iter().find(|p| p.0 == phase).ok_or_else(|| unknown("unknown phase"))?.1);
        let parts: Vec<&str> = name.split('/').collect();
        match parts.as_slice() {
            ["attention", kind, shape, phase] => {
                let kind = KINDS.iter().find(|k| k.0 == *kind).ok_or_else(|| unknown("unknown kind"))?.1;
                let phase = phase_named(phase)?;
                Ok(Work::Attention { kind, sizes: sizes(shape).map_err(|why| unknown(&why))?, phase })
            }
            ["convolution", shape, phase] => {
                let phase = phase_named(phase)?;
                Ok(Work::Convolution { sizes: sizes(shape).map_err(|why| unknown(&why))?, phase })
            }
            ["group_norm", shape, phase] => {
                let phase = phase_named(phase)?;
                Ok(Work::GroupNorm { sizes: sizes(shape).map_err(|why| unknown(&why))?, phase })
            }
            ["train", kind @ ("vit" | "cnn"), shape] => {
                let model = match *kind {
                    "vit" => sizes(shape).map(ImageModel::Vit),
                    _ => sizes(shape).map(ImageModel::Cnn),
                };
                Ok(Work::TrainImage(model.and_then(ImageModel::checked).map_err(|why| unknown(&why))?))
            }
            ["train", "gat", shape] => {
                let model = sizes(shape).map(GraphModel).and_then(GraphModel::checked);
                Ok(Work::TrainGraph(model.map_err(|why| unknown(&why))?))
            }
            ["train", "speech", shape] => {
                let shape = sizes(shape).and_then(SpeechShape::new).map_err(|why| unknown(&why))?;
                Ok(Work::TrainSpeech(shape))
            }
            ["ctc", shape] => {
                let sizes @ [_, frames, vocab, labels] = sizes(shape).map_err(|why| unknown(&why))?;
                speech::check_texts(frames, vocab, labels).map_err(|why| unknown(&why))?;
                Ok(Work::Ctc { sizes })
            }
            ["train", "write", shape] => {
                let shape = sizes(shape).and_then(WritingShape::new).map_err(|why| unknown(&why))?;
                Ok(Work::TrainWriting(shape))
            }
            ["linear_attention", direction, shape] => {
                let found = DIRECTIONS.iter().find(|d| d.0 == *direction);
                let direction = found.ok_or_else(|| unknown("expected full or causal"))?.1;
                Ok(Work::LinearAttention { direction, sizes: sizes(shape).map_err(|why| unknown(&why))? })
            }
            ["gru", shape] => Ok(Work::Gru { sizes: sizes(shape).map_err(|why| unknown(&why))? }),
            ["embedding", shape] => Ok(Work::Embedding { sizes: sizes(shape).map_err(|why| unknown(&why))? }),
            [kind @ ("decode" | "evaluate"), shape] => {
                let shape = sizes(shape).and_then(GptShape::new).map_err(|why| unknown(&why))?;
                Ok(Work::Infer(if *kind == "decode" { Inference::Decode(shape) } else { Inference::Evaluate(shape) }))
            }
            ["evaluate", "gat", shape] => {
                let model = sizes(shape).map(GraphModel).and_then(GraphModel::checked);
                Ok(Work::Infer(Inference::EvaluateGraph(model.map_err(|why| unknown(&why))?)))
            }
            ["step", cell, shape] => {
                let cell = CELLS.iter().find(|c| c.0 == *cell).ok_or_else(|| unknown("expected lstm or gru"))?.1;
                Ok(Work::Infer(Inference::Step(cell, sizes(shape).map_err(|why| unknown(&why))?)))
            }
            ["lstm", shape] => Ok(Work::Lstm { sizes: sizes(shape).map_err(|why| unknown(&why))? }),
            ["train", shape] | ["train", "bf16", shape] => {
                let precision = if parts.len() == 2 { Precision::F32 } else { Precision::Bf16 };
                let shape = GptShape::new(sizes(shape).map_err(|why| unknown(&why))?).map_err(|why| unknown(&why))?;
                Ok(Work::Train(shape, precision))
            }
            ["icl", step, shape] => {
                let step = STEPS.iter().find(|s| s.0 == *step).ok_or_else(|| unknown("expected fields or node"))?.1;
                Ok(Work::Icl { step, sizes: sizes(shape).map_err(|why| unknown(&why))? })
            }
            _ => Err(unknown(
                "expected attention/…, linear_attention/…, lstm/…, gru/…, embedding/…, convolution/…, group_norm/…, ctc/…, train/…, \
                 decode/…, evaluate/…, step/… or icl/…",
            )),
        }
    }
}

/// Parses `N` sizes joined by `x`.
fn sizes<const N: usize>(text: &str) -> Result<[usize; N], String> {
    let sizes: Vec<usize> = text
        .split('x')
        .map(|n| n.parse().ok().filter(|n| (1..=1 << 24).contains(n)))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("`{text}` is not sizes from 1 to 2²⁴ joined by x"))?;
    let count = sizes.len();
    sizes.try_into().map_err(|_| format!("expected {N} sizes, got {count}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for work in [Work::kernels(), Work::training(), Work::inference(), Work::icl()].concat() {
            assert_eq!(work.name().parse::<Work>().unwrap(), work);
        }
    }

    #[test]
    fn a_wrong_name_says_what_is_wrong() {
        for (name, why) in [
            ("attention/causal/1x2x3/forward", "expected 4 sizes"),
            ("attention/causual/1x2x3x4/forward", "unknown kind"),
            ("lstm/1x2x3x0", "sizes from 1"),
            ("convolution/1x2x3x4x5x6/sideways", "unknown phase"),
            ("train/1x8x10x3x1x4x5", "n_heads"),
            ("train/bf16/1x8", "expected 7 sizes"),
            ("train/vit/1x8x3x8x2x1x16", "patch = 3"),
            ("train/cnn/1x8x3x6x6x7", "channels[2] = 7"),
            ("train/gat/50x2x9x3x10x3x2", "n_heads = 3"),
            ("ctc/1x4x3x5", "no more labels than frames"),
            ("train/speech/1x8x4x9x2x1x4x3x2x1", "d_model"),
            ("linear_attention/window/1x2x3x4", "full or causal"),
            ("decode/1x8x10x3x1x4x5", "n_heads"),
            ("evaluate/1x8", "expected 7 sizes"),
            ("step/rnn/1x2x3", "lstm or gru"),
            ("nothing", "expected attention"),
        ] {
            let error = name.parse::<Work>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(name), "{error}");
        }
    }
}
