//! The gradient of the weight in tiles.

use pulp::{Simd, WithSimd};

use super::read_square;
use super::scheme::{Stride1, Stride2, Transposed, along_both, transposed};
use super::tiles::{Band, Block, Tiles, first_half, matrix_len, sum_of, transform_inputs};
use crate::convolution::ConvolutionShape;
use crate::convolution::channels_last::ChannelsLast;
use crate::scratch::Scratch;
use crate::tile::{TileProduct, panel_width};
use crate::vector::add_in_place;

/// The sums over some images for the gradients of weight and bias.
pub(in crate::convolution) struct Piece<'a> {
    pub(in crate::convolution) shape: ConvolutionShape,
    /// Height and width of the output.
    pub(in crate::convolution) output: [usize; 2],
    pub(in crate::convolution) input: &'a [f32],
    pub(in crate::convolution) grad: &'a [f32],
    /// `[in_channels · 9 + 1, out_channels]`, the output channels rounded up to whole vectors: the sums for each weight, then
    /// those of the bias.
    pub(in crate::convolution) sums: &'a mut [f32],
}

impl WithSimd for Piece<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.shape.stride {
            [1, 1] => self.add(simd, Stride1),
            _ => self.add(simd, Stride2),
        }
    }
}

impl Piece<'_> {
    #[inline(always)]
    fn add<S, T, const D: usize, const M: usize, const Q: usize, const R: usize>(self, simd: S, scheme: T)
    where
        S: Simd,
        T: Transposed<D, M, Q, R>,
    {
        let Self { shape, output, input, grad, sums } = self;
        let tiles = Tiles::<R>::new(output, M * M);
        let inputs = tiles.inputs::<S>([D, T::STEP], shape.in_channels, shape.input, shape.padding);
        let grads = tiles.outputs::<S>(shape.out_channels);
        let (input_len, grad_len) = (shape.input_len(), shape.out_channels * output[0] * output[1]);
        let images = grad.len() / grad_len;
        let group = tiles.block_images().min(images);
        let most_tiles = tiles.most(group);
        let sums_len = matrix_len(shape.in_channels, grads.width);
        let lens = [
            D * inputs.row_len(),
            group * grads.len(),
            M * M * matrix_len(most_tiles, inputs.width),
            Q * Q * matrix_len(most_tiles, grads.width),
            M * M * sums_len,
        ];
        let mut scratch = Scratch::new(lens.iter().sum());
        let (band, rest) = scratch.split_at_mut(lens[0]);
        let (columns, rest) = rest.split_at_mut(lens[1]);
        let (a, rest) = rest.split_at_mut(lens[2]);
        let (b, places) = rest.split_at_mut(lens[3]);
        places.fill(0.0);
        columns.fill(0.0);
        let (weight, bias) = sums.split_at_mut(shape.taps() * grads.width);
        for first in (0..images).step_by(group) {
            let count = group.min(images - first);
            for image in 0..count {
                let n = first + image;
                let columns = &mut columns[image * grads.len()..][..grads.len()];
                grads.copy(simd, &grad[n * grad_len..][..grad_len], columns);
                for column in columns.chunks_exact(grads.width) {
                    add_in_place(simd, bias, column);
                }
            }
            let input = &input[first * input_len..][..count * input_len];
            let mut band = Band::new(inputs, band);
            for block in tiles.blocks(count) {
                transform_inputs(simd, scheme, &tiles, &block, input, &mut band, a);
                transform_grads(simd, scheme, grads, &block, columns, b);
                for place in 0..M * M {
                    // The gradients of the outputs that half tiles lack are zero, and with them those of some sums.
                    let sum = sum_of(scheme, place);
                    let depth = block.needing(first_half(scheme, sum));
                    let a = &a[place * block.matrix_len(inputs.width) + depth.start * inputs.width..];
                    let b = &b[sum * block.matrix_len(grads.width) + depth.start * grads.width..];
                    let (a, b) = (&a[..depth.len() * inputs.width], &b[..depth.len() * grads.width]);
                    let out = &mut places[place * sums_len..][..shape.in_channels * grads.width];
                    let product = TileProduct {
                        rows: shape.in_channels,
                        columns: (0, grads.width),
                        depth: depth.len(),
                        a: a.as_ptr(),
                        a_row: 1,
                        a_column: inputs.width,
                        b: b.as_ptr(),
                        b_row: grads.width,
                        b_panel: panel_width::<S>(),
                        out: out.as_mut_ptr(),
                        out_row: grads.width,
                        accumulate: true,
                        terms: TileProduct::ONE,
                    };
                    // SAFETY: the slices have the sizes of the product.
                    unsafe { product.run(simd) };
                }
            }
        }
        transform_sums(simd, scheme, grads.width, places, sums_len, weight);
    }
}

/// Transforms the output gradients of tiles: `out[q, tile, channel]` is place `q` of `A ∂out Aᵀ`, the gradient of that sum; `source` has the images in the layout of [`Tiles::outputs`].
#[inline(always)]
fn transform_grads<S, T, const D: usize, const M: usize, const Q: usize, const R: usize>(
    simd: S,
    _: T,
    layout: ChannelsLast,
    block: &Block,
    source: &[f32],
    out: &mut [f32],
) where
    S: Simd,
    T: Transposed<D, M, Q, R>,
{
    let (width, row_len) = (layout.width, layout.size[1] * layout.width);
    let between = block.matrix_len(width);
    assert!(block.tiles.iter().all(|tile| {
        let inside = |at: usize, size: usize| R * (at + 1) <= size;
        tile.image < source.len() / layout.len() && inside(tile.y, layout.size[0]) && inside(tile.x, layout.size[1])
    }));
    assert!(out.len() >= Q * Q * between && width.is_multiple_of(S::F32_LANES));
    for (row, tile) in block.tiles.iter().enumerate() {
        let from = tile.image * layout.len() + R * (tile.y * row_len + tile.x * width);
        for channel in (0..width).step_by(S::F32_LANES) {
            // SAFETY: the tile's gradients are inside its image, which is inside `source` by the first assertion; its place in
            // each of the matrices is inside `out` by the second.
            unsafe {
                let d = read_square::<S, R>(simd, source.as_ptr().add(from + channel), row_len, width);
                let d = along_both!(T::grads, simd, d);
                let out = out.as_mut_ptr().add(row * width + channel);
                for (place, value) in d.as_flattened().iter().enumerate() {
                    out.add(place * between).cast::<S::f32s>().write_unaligned(*value);
                }
            }
        }
    }
}

/// Transforms the sums of all places: `out[9 · channel + place of the kernel, output channel] = Gᵀ sums G`.
#[inline(always)]
fn transform_sums<S, T, const D: usize, const M: usize, const Q: usize, const R: usize>(
    simd: S,
    _: T,
    width: usize,
    sums: &[f32],
    between: usize,
    out: &mut [f32],
) where
    S: Simd,
    T: Transposed<D, M, Q, R>,
{
    assert!(width.is_multiple_of(S::F32_LANES));
    for (channel, out) in out.chunks_exact_mut(9 * width).enumerate() {
        let first = channel * width;
        assert!((M * M - 1) * between + first + width <= sums.len());
        for output in (0..width).step_by(S::F32_LANES) {
            // SAFETY: vectors that are `between` apart, inside by the assertion, and 9 of the kernel's places.
            unsafe {
                let sums = sums.as_ptr().add(first + output);
                let u = read_square::<S, M>(simd, sums, M * between, between);
                let g = along_both!(T::weights, simd, u);
                let out = out.as_mut_ptr().add(output);
                for (place, value) in g.as_flattened().iter().enumerate() {
                    out.add(place * width).cast::<S::f32s>().write_unaligned(*value);
                }
            }
        }
    }
}
