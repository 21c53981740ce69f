//! Measures the time of one call.

use std::time::{Duration, Instant};

use burn::tensor::{Device, Tensor, TensorData};
use regard_nn::layers::block::conv::{ConvBlock, ConvConfig};
use regard_nn::{Init, Spread};
use regard_ops::{
    AttentionOptions, Direction, FeatureMap, LinearAttentionOptions, Mask, Normalization, RnnWeights, attention,
    linear_attention, rnn,
};

use super::{Complexity, Layer};
use crate::show::{ShowError, normals, random};

/// The passes that are timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Timed {
    /// The forward pass alone.
    #[default]
    Forward,
    /// Forward and backward pass, with gradients of inputs and weights.
    Both,
}

impl Timed {
    /// Returns the readable name.
    pub fn name(self) -> &'static str {
        match self {
            Timed::Forward => "forward",
            Timed::Both => "forward and backward",
        }
    }

    /// Returns the approximate cost relative to a forward pass.
    pub(super) fn factor(self) -> f64 {
        match self {
            Timed::Forward => 1.0,
            Timed::Both => 3.5,
        }
    }
}

/// Time for which short calls are repeated, so that the fastest is not a matter of luck.
const ENOUGH: Duration = Duration::from_millis(20);
const MOST_CALLS: usize = 2_000;

/// Returns the time of the fastest of several calls, in seconds.
pub(super) fn seconds(layer: Layer, options: &Complexity, length: usize) -> Result<f64, ShowError> {
    let work = Work::new(layer, options, length)?;
    // The first call allocates buffers that later calls reuse.
    work.call()?;
    let (mut best, mut calls, start) = (f64::INFINITY, 0, Instant::now());
    while calls < options.repeats || (start.elapsed() < ENOUGH && calls < MOST_CALLS) {
        let call = Instant::now();
        work.call()?;
        best = best.min(call.elapsed().as_secs_f64());
        calls += 1;
    }
    // A coarse clock may measure zero, which has no logarithm.
    Ok(best.max(1e-9))
}

/// A call to be timed, with its data.
struct Work {
    mixing: Mixing,
    timed: Timed,
}

/// The operation that mixes tokens, for one head and one sequence.
#[allow(clippy::large_enum_variant, reason = "only one exists at a time")]
enum Mixing {
    Attention { qkv: [Tensor<4>; 3], mask: Mask },
    Linear { qkv: [Tensor<4>; 3] },
    Convolution { x: Tensor<3>, block: Box<ConvBlock> },
    Recurrent { x: Tensor<3>, weights: Box<RnnWeights> },
}

impl Work {
    fn new(layer: Layer, options: &Complexity, length: usize) -> Result<Self, ShowError> {
        let Complexity { d_model, kernel, window, timed, seed, .. } = *options;
        let device = match timed {
            Timed::Forward => Device::flex(),
            Timed::Both => Device::flex().autodiff(),
        };
        let mut random = random(seed);
        let mut numbers = || normals(&mut random, length * d_model);
        let qkv = [(); 3].map(|()| input(numbers(), [1, 1, length, d_model], &device, timed));
        let x = input(numbers(), [1, length, d_model], &device, timed);
        let init = Init::new(seed, &device).with_spread(Spread::FanIn);
        let mixing = match layer {
            Layer::SelfAttention => Mixing::Attention { qkv, mask: Mask::Full },
            Layer::TruncatedAttention => {
                let mask = Mask::Window { left: window / 2, right: window - 1 - window / 2 };
                Mixing::Attention { qkv, mask }
            }
            Layer::LinearAttention => Mixing::Linear { qkv },
            Layer::Convolution => {
                let block = Box::new(ConvConfig::new(d_model, kernel).init(&init)?);
                Mixing::Convolution { x, block }
            }
            Layer::Recurrent => {
                let weights = Box::new(RnnWeights {
                    w_ih: init.weight("w_ih", [d_model, d_model], [d_model; 2]).val(),
                    w_hh: init.weight("w_hh", [d_model, d_model], [d_model; 2]).val(),
                    bias: init.constant([d_model], 0.0).val(),
                });
                Mixing::Recurrent { x, weights }
            }
        };
        Ok(Self { mixing, timed })
    }

    fn call(&self) -> Result<(), ShowError> {
        match &self.mixing {
            Mixing::Attention { qkv: [q, k, v], mask } => {
                let options = AttentionOptions { mask: *mask, ..AttentionOptions::default() };
                self.finish(attention(q.clone(), k.clone(), v.clone(), &options)?);
            }
            Mixing::Linear { qkv: [q, k, v] } => {
                let options = LinearAttentionOptions {
                    feature_map: FeatureMap::EluPlusOne,
                    normalization: Normalization::Sum,
                    direction: Direction::Bidirectional,
                };
                self.finish(linear_attention(q.clone(), k.clone(), v.clone(), None, options)?);
            }
            Mixing::Convolution { x, block } => self.finish(block.convolve(x.clone())?),
            Mixing::Recurrent { x, weights } => self.finish(rnn(x.clone(), (**weights).clone(), None)?),
        }
        Ok(())
    }

    fn finish<const D: usize>(&self, y: Tensor<D>) {
        match self.timed {
            Timed::Forward => drop(std::hint::black_box(y)),
            Timed::Both => drop(std::hint::black_box(y.sum().backward())),
        }
    }
}

/// Creates an input tensor, with gradients if the backward pass is timed.
fn input<const D: usize>(numbers: Vec<f32>, shape: [usize; D], device: &Device, timed: Timed) -> Tensor<D> {
    let x = Tensor::from_data(TensorData::new(numbers, shape), device);
    match timed {
        Timed::Forward => x,
        Timed::Both => x.require_grad(),
    }
}
