//! The gradients of weight and bias: products over the outputs of all images.
//!
//! A register tile holds the sums of some places of the kernel and some vectors of output channels over all outputs of an
//! image. A piece of the batch adds up the sums of its images; the sums of the pieces are added in order.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::forward::{input_planes, input_taps};
use super::planes::Planes;
use super::{ConvolutionShape, is_parallel};
use crate::error::{KernelError, check_product};
use crate::isa::dispatch;
use crate::matmul::{Matrix, transpose};
use crate::parallel::for_each_rows;
use crate::scratch::Scratch;
use crate::tile::{TILE_ROWS, panel_width, round_to_lanes};
use crate::vector::{MAX_LANES, add_in_place};

/// Largest number of pieces of a batch. It is fixed, so that the number of threads does not change the sums.
const PIECES: usize = 16;

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
    let planes = input_planes(shape, output);
    planes.len()?;
    let places = check_product("convolution weight", PIECES, shape.taps() + 1)?;
    check_product("convolution weight", places, shape.out_channels.saturating_add(MAX_LANES))?;
    dispatch(WeightGradient { shape, output, planes, input, grad, weight, bias });
    Ok(())
}

struct WeightGradient<'a> {
    shape: ConvolutionShape,
    output: [usize; 2],
    planes: Planes,
    input: &'a [f32],
    grad: &'a [f32],
    weight: Option<&'a mut [f32]>,
    bias: Option<&'a mut [f32]>,
}

impl WithSimd for WeightGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, output, planes, input, grad, weight, bias } = self;
        let taps = if weight.is_some() { input_taps(shape, &planes) } else { Vec::new() };
        let channels = round_to_lanes::<S>(shape.out_channels);
        let images = shape.batch.div_ceil(PIECES);
        // Sums for each place of the kernel and then those of the bias, by output channel.
        let len = (taps.len() + 1) * channels;
        let mut sums = vec![0.0; shape.batch.div_ceil(images) * len];
        let (input_len, grad_len) = (shape.input_len(), shape.out_channels * output[0] * output[1]);
        let piece = |(piece, sums): (usize, &mut [f32])| {
            let (first, end) = (piece * images, shape.batch.min((piece + 1) * images));
            let (input, grad) = (&input[first * input_len..end * input_len], &grad[first * grad_len..end * grad_len]);
            simd.vectorize(Piece { shape, output, planes, taps: &taps, channels, input, grad, sums });
        };
        if is_parallel(shape.batch, grad.len() * (taps.len() + 1)) {
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
        let Self { shape, output, planes, taps, channels, input, grad, sums } = self;
        let positions = output[0] * output[1];
        let source_len = if taps.is_empty() { 0 } else { planes.phase(planes.channels, [0, 0]) };
        let mut scratch = Scratch::new(source_len + positions * channels);
        let (source, columns) = scratch.split_at_mut(source_len);
        // Zeros around the images, and in the lanes past the last channel, stay for all images.
        source.fill(0.0);
        columns.fill(0.0);
        let (weights, bias) = sums.split_at_mut(taps.len() * channels);
        for n in 0..grad.len() / (shape.out_channels * positions) {
            let grad = &grad[n * shape.out_channels * positions..][..shape.out_channels * positions];
            transpose_into(grad, positions, columns, channels);
            for column in columns.chunks_exact(channels) {
                add_in_place(simd, bias, column);
            }
            if taps.is_empty() {
                continue;
            }
            planes.copy(&input[n * shape.input_len()..][..shape.input_len()], source);
            let image = ImageSums { output, row_len: planes.size[1], source, grad: columns, channels };
            let tiles = taps.len().div_ceil(TILE_ROWS);
            for tile in 0..tiles {
                let (first, end) = (taps.len() * tile / tiles, taps.len() * (tile + 1) / tiles);
                image.add(simd, &taps[first..end], &mut weights[first * channels..end * channels]);
            }
        }
    }
}

/// Writes `out[p, o] = x[o, p]` with rows of `out` `row_len` elements apart.
#[inline(always)]
fn transpose_into(x: &[f32], positions: usize, out: &mut [f32], row_len: usize) {
    // Squares of 16: a cache line of each side.
    for (block, x) in x.chunks(16 * positions).enumerate() {
        for first in (0..positions).step_by(16) {
            for p in first..positions.min(first + 16) {
                let out = &mut out[p * row_len + 16 * block..][..x.len() / positions];
                for (o, out) in out.iter_mut().enumerate() {
                    *out = x[o * positions + p];
                }
            }
        }
    }
}

/// One image: `Σ_p source[tap + p] · grad[p, o]` for outputs `p` and channels `o`.
#[derive(Clone, Copy)]
struct ImageSums<'a> {
    output: [usize; 2],
    /// Distance in `source` between rows of outputs.
    row_len: usize,
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
        let last = (height - 1) * self.row_len + width - 1;
        assert!(taps.iter().all(|tap| tap + last < self.source.len()));
        let end = first + V * S::F32_LANES;
        assert!(end <= self.channels && self.grad.len() >= height * width * self.channels);
        assert!(sums.len() >= R * self.channels);
        let zero = simd.splat_f32s(0.0);
        let mut tile = [[zero; V]; R];
        let mut grad = self.grad.as_ptr().wrapping_add(first);
        for y in 0..height {
            let source = taps.map(|tap| self.source.as_ptr().wrapping_add(tap + y * self.row_len));
            for x in 0..width {
                // SAFETY: `y < height` and `x < width`, so both are inside by the assertions. Vectors need no alignment.
                unsafe {
                    let mut columns = [zero; V];
                    for (v, column) in columns.iter_mut().enumerate() {
                        *column = grad.add(v * S::F32_LANES).cast::<S::f32s>().read_unaligned();
                    }
                    for (tile, source) in tile.iter_mut().zip(source) {
                        let factor = simd.splat_f32s(*source.add(x));
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
