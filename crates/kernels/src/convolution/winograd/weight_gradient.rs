//! The gradient of the weight in tiles.

use pulp::{Simd, WithSimd};

use super::{PLACES, Tiles, kernel_columns, matrix_len, output_rows, read_square, transform_inputs, transposed};
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
        let Self { shape, output, input, grad, sums } = self;
        let tiles = Tiles::new(output);
        let inputs = tiles.inputs::<S>(shape.in_channels, shape.input, shape.padding);
        let grads = tiles.outputs::<S>(shape.out_channels);
        let (input_len, grad_len) = (shape.input_len(), shape.out_channels * output[0] * output[1]);
        let images = grad.len() / grad_len;
        let group = tiles.block_images().min(images);
        let most_tiles = tiles.block_rows().min(group * tiles.count[0]) * tiles.count[1];
        let sums_len = matrix_len(shape.in_channels, grads.width);
        let lens = [
            group * inputs.len(),
            group * grads.len(),
            PLACES * matrix_len(most_tiles, inputs.width),
            PLACES * matrix_len(most_tiles, grads.width),
            PLACES * sums_len,
        ];
        let mut scratch = Scratch::new(lens.iter().sum());
        let (source, rest) = scratch.split_at_mut(lens[0]);
        let (columns, rest) = rest.split_at_mut(lens[1]);
        let (a, rest) = rest.split_at_mut(lens[2]);
        let (b, places) = rest.split_at_mut(lens[3]);
        places.fill(0.0);
        let (weight, bias) = sums.split_at_mut(shape.taps() * grads.width);
        for first in (0..images).step_by(group) {
            let count = group.min(images - first);
            for image in 0..count {
                let n = first + image;
                inputs.copy(&input[n * input_len..][..input_len], &mut source[image * inputs.len()..][..inputs.len()]);
                let columns = &mut columns[image * grads.len()..][..grads.len()];
                grads.copy(&grad[n * grad_len..][..grad_len], columns);
                for column in columns.chunks_exact(grads.width) {
                    add_in_place(simd, bias, column);
                }
            }
            for rows in tiles.blocks(count * tiles.count[0]) {
                let depth = rows.len() * tiles.count[1];
                transform_inputs(simd, &tiles, inputs, rows.clone(), source, a);
                transform_grads(simd, &tiles, grads, rows, columns, b);
                for place in 0..PLACES {
                    let a = &a[place * matrix_len(depth, inputs.width)..][..depth * inputs.width];
                    let b = &b[place * matrix_len(depth, grads.width)..][..depth * grads.width];
                    let out = &mut places[place * sums_len..][..shape.in_channels * grads.width];
                    let product = TileProduct {
                        rows: shape.in_channels,
                        columns: (0, grads.width),
                        depth,
                        a: a.as_ptr(),
                        a_row: 1,
                        a_column: inputs.width,
                        b: b.as_ptr(),
                        b_row: grads.width,
                        b_panel: panel_width::<S>(),
                        out: out.as_mut_ptr(),
                        out_row: grads.width,
                        accumulate: true,
                    };
                    // SAFETY: the slices have the sizes of the product.
                    unsafe { product.run(simd) };
                }
            }
        }
        transform_sums(simd, grads.width, places, sums_len, weight);
    }
}

/// Transforms the output gradients of tiles: `out[ξ, tile, channel]` is place `ξ` of `A ∂out Aᵀ`, as in
/// [`transform_inputs`]; `source` has the images in the layout of [`Tiles::outputs`].
#[inline(always)]
fn transform_grads<S: Simd>(
    simd: S,
    tiles: &Tiles,
    layout: ChannelsLast,
    rows: std::ops::Range<usize>,
    source: &[f32],
    out: &mut [f32],
) {
    let (width, row_len) = (layout.width, layout.size[1] * layout.width);
    let between = matrix_len(rows.len() * tiles.count[1], width);
    assert!(rows.is_empty() || tiles.place(rows.end - 1).0 < source.len() / layout.len());
    assert!(out.len() >= PLACES * between && width.is_multiple_of(S::F32_LANES));
    let mut to = 0;
    for row in rows {
        let (image, y) = tiles.place(row);
        for x in 0..tiles.count[1] {
            let from = image * layout.len() + 2 * y * row_len + 2 * x * width;
            for channel in (0..width).step_by(S::F32_LANES) {
                // SAFETY: the tile's 2×2 gradients are inside its image, which is inside `source` by the first assertion;
                // its place in each of the 16 matrices is inside `out` by the second.
                unsafe {
                    let d = read_square::<S, 2>(simd, source.as_ptr().add(from + channel), row_len, width);
                    let d = transposed(output_rows(simd, transposed(output_rows(simd, d))));
                    let out = out.as_mut_ptr().add(to + channel);
                    for (place, value) in d.as_flattened().iter().enumerate() {
                        out.add(place * between).cast::<S::f32s>().write_unaligned(*value);
                    }
                }
            }
            to += width;
        }
    }
}

/// Transforms the sums at the 16 places: `out[9 · channel + place of the kernel, output channel] = Gᵀ sums G`.
#[inline(always)]
fn transform_sums<S: Simd>(simd: S, width: usize, sums: &[f32], between: usize, out: &mut [f32]) {
    assert!(width.is_multiple_of(S::F32_LANES));
    for (channel, out) in out.chunks_exact_mut(9 * width).enumerate() {
        let first = channel * width;
        assert!((PLACES - 1) * between + first + width <= sums.len());
        for output in (0..width).step_by(S::F32_LANES) {
            // SAFETY: 16 vectors that are `between` apart, inside by the assertion, and 9 of the kernel's places.
            unsafe {
                let sums = sums.as_ptr().add(first + output);
                let u = read_square::<S, 4>(simd, sums, 4 * between, between);
                let g = transposed(kernel_columns(simd, transposed(kernel_columns(simd, u))));
                let out = out.as_mut_ptr().add(output);
                for (place, value) in g.as_flattened().iter().enumerate() {
                    out.add(place * width).cast::<S::f32s>().write_unaligned(*value);
                }
            }
        }
    }
}
