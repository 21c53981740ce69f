//! The kernels of a convolution, and their layout for register tiles.

use pulp::{Simd, WithSimd};

use super::ConvolutionShape;
use super::channels_last::transpose;
use crate::parallel::for_each_index;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;

/// A kernel for each pair of an input and an output channel.
#[derive(Clone, Copy)]
pub(super) struct Kernels<'a> {
    weight: &'a [f32],
    /// Numbers of input and output channels.
    pub(super) channels: [usize; 2],
    /// Number of weights from one input channel to the next, and from one output channel to the next.
    strides: [usize; 2],
    /// Number of places of a kernel.
    pub(super) places: usize,
}

impl<'a> Kernels<'a> {
    /// Returns the kernels from input to output.
    pub(super) fn new(shape: ConvolutionShape, weight: &'a [f32]) -> Self {
        let ConvolutionShape { in_channels, out_channels, kernel: [height, width], .. } = shape;
        let places = height * width;
        Self { weight, channels: [in_channels, out_channels], strides: [places, in_channels * places], places }
    }

    /// Returns the kernels from the gradient of the output to that of the input.
    pub(super) fn swapped(self) -> Self {
        let ([a, b], [c, d]) = (self.channels, self.strides);
        Self { channels: [b, a], strides: [d, c], ..self }
    }

    /// Writes the kernels of an input channel, `out[place, output]`, with `width` outputs of which the last are zero.
    #[inline(always)]
    pub(super) fn of_input<S: Simd>(&self, simd: S, input: usize, width: usize, out: &mut [f32]) {
        let outputs = self.channels[1];
        if outputs < width {
            out.fill(0.0);
        }
        transpose(simd, &self.weight[input * self.strides[0]..], self.strides[1], [outputs, self.places], out, width);
    }
}

/// Weights in panels of output channels: `[panel, input, place, output]`.
pub(super) struct Packed {
    /// The first output channel of each panel, and the end.
    bounds: Vec<usize>,
    /// Number of weights for an output channel.
    terms: usize,
    data: Scratch,
}

impl Packed {
    /// Lays out some places of the kernels, for each list of `places`. `bounds` are the first output channel of each panel
    /// and the end, which may be past the last channel: the weights are zero there.
    pub(super) fn new<S: Simd>(simd: S, kernels: Kernels<'_>, places: &[&[usize]], bounds: &[usize]) -> Vec<Self> {
        let (inputs, width) = (kernels.channels[0], bounds[bounds.len() - 1]);
        let empty = |places: &&[usize]| {
            let terms = inputs * places.len();
            Self { bounds: bounds.to_vec(), terms, data: Scratch::new(terms * width) }
        };
        let mut all: Vec<Self> = places.iter().map(empty).collect();
        let out: Vec<SharedSlice<'_>> = all.iter_mut().map(|packed| SharedSlice::new(&mut packed.data)).collect();
        for_each_index(inputs, kernels.places * width, |input| {
            simd.vectorize(Pack { kernels, places, bounds, input, out: &out });
        });
        all
    }

    /// Returns the first output channel of a panel and the number of its channels.
    pub(super) fn channels(&self, panel: usize) -> (usize, usize) {
        (self.bounds[panel], self.bounds[panel + 1] - self.bounds[panel])
    }

    /// Returns the weights of a panel, `[input, place, output]`.
    pub(super) fn panel(&self, panel: usize) -> &[f32] {
        &self.data[self.terms * self.bounds[panel]..self.terms * self.bounds[panel + 1]]
    }
}

/// The weights of one input channel.
struct Pack<'a> {
    kernels: Kernels<'a>,
    places: &'a [&'a [usize]],
    bounds: &'a [usize],
    input: usize,
    out: &'a [SharedSlice<'a>],
}

impl WithSimd for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { kernels, places, bounds, input, out } = self;
        let width = bounds[bounds.len() - 1];
        let mut all = Scratch::new(kernels.places * width);
        kernels.of_input(simd, input, width, &mut all);
        for (places, out) in places.iter().zip(out) {
            let terms = kernels.channels[0] * places.len();
            for panel in bounds.windows(2) {
                let (first, count) = (panel[0], panel[1] - panel[0]);
                // SAFETY: only this call writes the weights of this input channel.
                let out = unsafe { out.slice(terms * first + input * places.len() * count, places.len() * count) };
                for (out, place) in out.chunks_exact_mut(count).zip(*places) {
                    out.copy_from_slice(&all[place * width + first..][..count]);
                }
            }
        }
    }
}
