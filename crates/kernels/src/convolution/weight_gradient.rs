//! The gradients of weight and bias: products over the outputs of all images.
//!
//! A register tile holds the sums of some places of the kernel and some vectors of output channels over all outputs of an
//! image. A piece of the batch adds up the sums of its images; the sums of the pieces are added in order.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::channels_last::ChannelsLast;
use super::forward::{input_planes, input_taps};
use super::planes::Planes;
use super::{ConvolutionShape, is_parallel, winograd};
use crate::error::{KernelError, check_product};
use crate::isa::dispatch;
use crate::matmul::{Matrix, transpose};
use crate::parallel::for_each_rows;
use crate::scratch::Scratch;
use crate::tile::{TILE_ROWS, panel_width, round_to_lanes};
use crate::vector::{MAX_LANES, add_in_place};

/// Largest number of pieces of a batch. It does not depend on the number of threads, which therefore does not change the sums.
const PIECES: usize = 16;

/// Number of outputs whose products are added before the sums go back to memory: 24 KiB of gradients with AVX-512, which
/// stay in the first cache.
const BLOCK: usize = 96;

/// Number of elements of the sums of all pieces above which there are fewer pieces: clearing, transforming and adding them up
/// would take too long. On two cores of a Xeon, 64→128 channels at 14×14 with stride 2 take 4.6 ms with 2²⁰ and 3.0 ms with this.
const SUMS: usize = 300 * 1024;

/// Computes the gradients of weight and bias, of which either may be left out; the sizes have been checked.
pub(super) fn weight_gradient(
    shape: ConvolutionShape,
    output: [usize; 2],
    input: &[f32],
    grad: &[f32],
    weight: Option<&mut [f32]>,
    bias: Option<&mut [f32]>,
) -> Result<(), KernelError> {
    if grad.is_empty() {
        weight.into_iter().chain(bias).for_each(|gradient| gradient.fill(0.0));
        return Ok(());
    }
    let (planes, step) = input_planes(shape, output);
    planes.len()?;
    let places = check_product("convolution weight", PIECES, shape.taps() + 1)?;
    check_product("convolution weight", places, shape.out_channels.saturating_add(MAX_LANES))?;
    dispatch(WeightGradient { shape, output, planes, step, input, grad, weight, bias });
    Ok(())
}

struct WeightGradient<'a> {
    shape: ConvolutionShape,
    output: [usize; 2],
    planes: Planes,
    /// Distance in the planes from a row and from a column of outputs to the next.
    step: [usize; 2],
    input: &'a [f32],
    grad: &'a [f32],
    weight: Option<&'a mut [f32]>,
    bias: Option<&'a mut [f32]>,
}

impl WithSimd for WeightGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, output, planes, step, input, grad, weight, bias } = self;
        let taps = if weight.is_some() { input_taps(shape, &planes) } else { Vec::new() };
        let channels = round_to_lanes::<S>(shape.out_channels);
        // Sums for each place of the kernel and then those of the bias, by output channel.
        let len = (taps.len() + 1) * channels;
        let images = shape.batch.div_ceil((SUMS / len).clamp(4, PIECES));
        let mut sums = vec![0.0; shape.batch.div_ceil(images) * len];
        let (input_len, grad_len) = (shape.input_len(), shape.out_channels * output[0] * output[1]);
        let piece = |(piece, sums): (usize, &mut [f32])| {
            let (first, end) = (piece * images, shape.batch.min((piece + 1) * images));
            let (input, grad) = (&input[first * input_len..end * input_len], &grad[first * grad_len..end * grad_len]);
            if !taps.is_empty() && winograd::applies(shape, output) {
                simd.vectorize(winograd::Piece { shape, output, input, grad, sums });
            } else {
                simd.vectorize(Piece { shape, output, planes, step, taps: &taps, channels, input, grad, sums });
            }
        };
        if is_parallel(grad.len() * (taps.len() + 1)) {
            sums.par_chunks_mut(len).enumerate().with_max_len(1).for_each(piece);
        } else {
            sums.chunks_mut(len).enumerate().for_each(piece);
        }
        let (total, pieces) = sums.split_at_mut(len);
        for_each_rows(total, channels, |row, total| {
            for piece in pieces.chunks_exact(len) {
                for (total, sum) in total.iter_mut().zip(&piece[row * channels..]) {
                    *total += *sum;
                }
            }
        });
        let (weights, biases) = total.split_at(taps.len() * channels);
        if let Some(bias) = bias {
            bias.copy_from_slice(&biases[..shape.out_channels]);
        }
        if let Some(weight) = weight {
            let weights = Matrix::strided(weights, taps.len(), shape.out_channels, channels, 1);
            transpose(weights.expect("as many sums as places and channels"), weight);
        }
    }
}

/// The sums over some images.
struct Piece<'a> {
    shape: ConvolutionShape,
    output: [usize; 2],
    planes: Planes,
    /// Distance in the planes from a row and from a column of outputs to the next.
    step: [usize; 2],
    taps: &'a [usize],
    /// Number of output channels, rounded up to whole vectors.
    channels: usize,
    input: &'a [f32],
    grad: &'a [f32],
    sums: &'a mut [f32],
}

impl WithSimd for Piece<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, output: [height, width], planes, step, taps, channels, input, grad, sums } = self;
        let grad_layout = ChannelsLast {
            channels: shape.out_channels,
            width: channels,
            // One row, since no zeros are between them.
            image: [1, height * width],
            padding: [0, 0],
            size: [1, height * width],
        };
        let is_copied = !taps.is_empty() && !planes.is_image();
        let source_len = if is_copied { planes.phase(planes.channels, [0, 0]) } else { 0 };
        let mut scratch = Scratch::new(source_len + grad_layout.len());
        // Zeros around the images and after their channels stay for all of them.
        scratch.fill(0.0);
        let (source, columns) = scratch.split_at_mut(source_len);
        let (weights, bias) = sums.split_at_mut(taps.len() * channels);
        for (n, grad) in grad.chunks_exact(shape.out_channels * height * width).enumerate() {
            grad_layout.copy(simd, grad, columns);
            for column in columns.chunks_exact(channels) {
                add_in_place(simd, bias, column);
            }
            if taps.is_empty() {
                continue;
            }
            let image = &input[n * shape.input_len()..][..shape.input_len()];
            let source = if is_copied {
                planes.copy(image, source);
                &*source
            } else {
                image
            };
            for first in (0..height).step_by((BLOCK / width).max(1)) {
                let rows = (BLOCK / width).max(1).min(height - first);
                let image = ImageSums {
                    output: [rows, width],
                    step,
                    source: &source[first * step[0]..],
                    grad: &columns[first * width * channels..],
                    channels,
                };
                let tiles = taps.len().div_ceil(TILE_ROWS);
                for tile in 0..tiles {
                    let (first, end) = (taps.len() * tile / tiles, taps.len() * (tile + 1) / tiles);
                    image.add(simd, &taps[first..end], &mut weights[first * channels..end * channels]);
                }
            }
        }
    }
}

/// Some rows of an image: `Σ_p source[tap + p] · grad[p, o]` for outputs `p` and channels `o`.
#[derive(Clone, Copy)]
struct ImageSums<'a> {
    output: [usize; 2],
    /// Distance in `source` from a row and from a column of outputs to the next.
    step: [usize; 2],
    source: &'a [f32],
    grad: &'a [f32],
    channels: usize,
}

impl ImageSums<'_> {
    /// Adds the sums of at most [`TILE_ROWS`] places of the kernel to `sums`.
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, taps: &[usize], sums: &mut [f32]) {
        // A function of its own for each instruction set, so that its 24 tile shapes are compiled once.
        struct Call<'a>(ImageSums<'a>, &'a [usize], &'a mut [f32]);
        impl WithSimd for Call<'_> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                let Self(image, taps, sums) = self;
                match taps.len() {
                    0 => {}
                    1 => image.columns::<S, 1>(simd, taps, sums),
                    2 => image.columns::<S, 2>(simd, taps, sums),
                    3 => image.columns::<S, 3>(simd, taps, sums),
                    4 => image.columns::<S, 4>(simd, taps, sums),
                    5 => image.columns::<S, 5>(simd, taps, sums),
                    _ => image.columns::<S, TILE_ROWS>(simd, taps, sums),
                }
            }
        }
        Simd::vectorize(simd, Call(self, taps, sums));
    }

    #[inline(always)]
    fn columns<S: Simd, const R: usize>(self, simd: S, taps: &[usize], sums: &mut [f32]) {
        let taps = *taps.first_chunk::<R>().expect("the caller has counted the places");
        let mut first = 0;
        while first < self.channels {
            let width = (self.channels - first).min(panel_width::<S>());
            match width / S::F32_LANES {
                1 => self.tile::<S, R, 1>(simd, taps, first, sums),
                2 => self.tile::<S, R, 2>(simd, taps, first, sums),
                3 => self.tile::<S, R, 3>(simd, taps, first, sums),
                _ => self.tile::<S, R, 4>(simd, taps, first, sums),
            }
            first += width;
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(self, simd: S, taps: [usize; R], first: usize, sums: &mut [f32]) {
        if V * S::F32_LANES > panel_width::<S>() {
            return;
        }
        let [height, width] = self.output;
        let last = (height - 1) * self.step[0] + (width - 1) * self.step[1];
        assert!(taps.iter().all(|tap| tap + last < self.source.len()));
        let end = first + V * S::F32_LANES;
        assert!(end <= self.channels && self.grad.len() >= height * width * self.channels);
        assert!(sums.len() >= R * self.channels);
        let zero = simd.splat_f32s(0.0);
        let mut tile = [[zero; V]; R];
        let mut grad = self.grad.as_ptr().wrapping_add(first);
        for y in 0..height {
            let source = taps.map(|tap| self.source.as_ptr().wrapping_add(tap + y * self.step[0]));
            for x in 0..width {
                // SAFETY: `y < height` and `x < width`, so both are inside by the assertions. Vectors need no alignment.
                unsafe {
                    let mut columns = [zero; V];
                    for (v, column) in columns.iter_mut().enumerate() {
                        *column = grad.add(v * S::F32_LANES).cast::<S::f32s>().read_unaligned();
                    }
                    for (tile, source) in tile.iter_mut().zip(source) {
                        let factor = simd.splat_f32s(*source.add(x * self.step[1]));
                        for (sum, column) in tile.iter_mut().zip(columns) {
                            *sum = simd.mul_add_e_f32s(factor, column, *sum);
                        }
                    }
                }
                grad = grad.wrapping_add(self.channels);
            }
        }
        for (r, tile) in tile.iter().enumerate() {
            for (v, sum) in tile.iter().enumerate() {
                // SAFETY: inside by the last two assertions.
                unsafe {
                    let place = sums.as_mut_ptr().add(r * self.channels + first + v * S::F32_LANES).cast::<S::f32s>();
                    place.write_unaligned(simd.add_f32s(place.read_unaligned(), *sum));
                }
            }
        }
    }
}
