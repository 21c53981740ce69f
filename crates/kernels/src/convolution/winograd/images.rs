//! The convolution of images in tiles.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::read_square;
use super::scheme::{Scheme, along_both, transposed};
use super::tiles::{Block, Tiles, first_half, matrix_len, transform_inputs};
use super::weights::{Panel, Weights};
use crate::convolution::Split;
use crate::convolution::channels_last::{ChannelsLast, transpose};
use crate::convolution::kernels::Kernels;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;
use crate::tile::{TileProduct, panel_width};

/// A convolution of images: `out[n] = start + kernels ∗ x[n]`.
#[derive(Clone, Copy)]
pub(super) struct Images<'a> {
    pub(super) batch: usize,
    /// Height and width of an image of `x`.
    pub(super) input: [usize; 2],
    /// Number of zeros before the first row and column of `x` that the first tile sees.
    pub(super) padding: [usize; 2],
    /// Height and width of an image of `out`.
    pub(super) output: [usize; 2],
    pub(super) x: &'a [f32],
    pub(super) kernels: Kernels<'a>,
    /// Whether the kernels are turned by 180°.
    pub(super) turned: bool,
    pub(super) start: Option<&'a [f32]>,
}

/// Computes the convolution of all images.
#[inline(always)]
pub(super) fn images<S, T, const D: usize, const M: usize, const R: usize>(
    simd: S,
    scheme: T,
    images: Images<'_>,
    out: &mut [f32],
) where
    S: Simd,
    T: Scheme<D, M, R>,
{
    let Images { batch, input, padding, output, x, kernels, turned, start } = images;
    let [inputs, outputs] = kernels.channels;
    let tiles = Tiles::<R>::new(output, M * M);
    let layout = tiles.inputs::<S>([D, T::STEP], inputs, input, padding);
    let split = Split::new(batch, out.len() * inputs * 4);
    let panel = split.panel(outputs, S::F32_LANES, panel_width::<S>());
    let weights = Weights::new(simd, scheme, kernels, turned, panel);
    let mut padded = Scratch::new(outputs.next_multiple_of(S::F32_LANES));
    padded.fill(0.0);
    if let Some(start) = start {
        padded[..outputs].copy_from_slice(start);
    }
    let (weights, start, out) = (&weights, &padded[..], SharedSlice::new(out));
    split.for_each(weights.panels(), |images, panels| {
        simd.vectorize(Unit { scheme, tiles, layout, images, panels, x, weights, start, out });
    });
}

/// Some images and panels of output channels.
struct Unit<'a, T, const D: usize, const M: usize, const R: usize> {
    scheme: T,
    tiles: Tiles<R>,
    layout: ChannelsLast,
    images: Range<usize>,
    panels: Range<usize>,
    x: &'a [f32],
    weights: &'a Weights<M>,
    /// The first sum of each output channel, rounded up to whole vectors.
    start: &'a [f32],
    out: SharedSlice<'a>,
}

impl<T: Scheme<D, M, R>, const D: usize, const M: usize, const R: usize> WithSimd for Unit<'_, T, D, M, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { scheme, tiles, layout, images, panels, x, weights, start, out } = self;
        let group = tiles.block_images().min(images.len());
        let most_tiles = tiles.most(group);
        let lens = [
            group * layout.len(),
            M * M * matrix_len(most_tiles, layout.width),
            M * M * matrix_len(most_tiles, panel_width::<S>()),
            most_tiles * R * R * panel_width::<S>(),
        ];
        let mut scratch = Scratch::new(lens.iter().sum());
        let (source, rest) = scratch.split_at_mut(lens[0]);
        let (transformed, rest) = rest.split_at_mut(lens[1]);
        let (products, sums) = rest.split_at_mut(lens[2]);
        let image_len = layout.channels * layout.image[0] * layout.image[1];
        for first in images.clone().step_by(group) {
            let count = group.min(images.end - first);
            for (image, source) in source.chunks_exact_mut(layout.len()).take(count).enumerate() {
                layout.copy(simd, &x[(first + image) * image_len..][..image_len], source);
            }
            for block in tiles.blocks(count) {
                transform_inputs(simd, scheme, layout, &block, source, transformed);
                for panel in panels.clone() {
                    let panel = weights.panel::<S>(panel);
                    multiply(simd, scheme, &block, layout, panel, transformed, products);
                    transform_outputs(simd, scheme, &tiles, &block, panel, start, products, sums);
                    write(simd, &tiles, &block, first, panel, weights.outputs(), sums, out);
                }
            }
        }
    }
}

/// Multiplies the transformed inputs with the weights: `products[ξ, tile, channel]`, where the tile needs the place `ξ`.
#[inline(always)]
fn multiply<S, T, const D: usize, const M: usize, const R: usize>(
    simd: S,
    scheme: T,
    block: &Block,
    layout: ChannelsLast,
    panel: Panel<'_>,
    transformed: &[f32],
    products: &mut [f32],
) where
    S: Simd,
    T: Scheme<D, M, R>,
{
    let inputs = layout.channels;
    for place in 0..M * M {
        let tiles = block.needing(first_half(scheme, place));
        let a = &transformed[place * block.matrix_len(layout.width) + tiles.start * layout.width..];
        let a = &a[..tiles.len() * layout.width];
        let b = &panel.weights[place * inputs * panel.width..][..inputs * panel.width];
        let out = &mut products[place * block.matrix_len(panel.width) + tiles.start * panel.width..];
        let out = &mut out[..tiles.len() * panel.width];
        let product = TileProduct {
            rows: tiles.len(),
            columns: (0, panel.width),
            depth: inputs,
            a: a.as_ptr(),
            a_row: layout.width,
            a_column: 1,
            b: b.as_ptr(),
            b_row: panel.width,
            b_panel: 0,
            out: out.as_mut_ptr(),
            out_row: panel.width,
            accumulate: false,
        };
        // SAFETY: the slices have the sizes of the product, and a panel has at most the columns of a register tile.
        unsafe { product.run(simd) };
    }
}

/// Transforms products into outputs with their channels last, and adds `start`. The outputs of each image are one after the
/// other, row after row.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "the parts of one block")]
fn transform_outputs<S, T, const D: usize, const M: usize, const R: usize>(
    simd: S,
    _: T,
    tiles: &Tiles<R>,
    block: &Block,
    panel: Panel<'_>,
    start: &[f32],
    products: &[f32],
    sums: &mut [f32],
) where
    S: Simd,
    T: Scheme<D, M, R>,
{
    let [height, width] = tiles.output;
    let between = block.matrix_len(panel.width);
    let start = &start[panel.channels.0..][..panel.width];
    let output_row = |image: usize, y: usize| image * height + R * y;
    let first_row = tiles.place(block.rows.start);
    let first_row = output_row(first_row.0, first_row.1);
    let (image, y) = tiles.place(block.rows.end - 1);
    let rows = image * height + height.min(R * (y + 1)) - first_row;
    assert!(products.len() >= M * M * between && sums.len() >= rows * width * panel.width);
    assert!(panel.width.is_multiple_of(S::F32_LANES));
    for (row, tile) in block.tiles.iter().enumerate() {
        let [down, across] = [height - R * tile.y, width - R * tile.x].map(|left| left.min(R));
        let to = ((output_row(tile.image, tile.y) - first_row) * width + R * tile.x) * panel.width;
        for channel in (0..panel.width).step_by(S::F32_LANES) {
            // SAFETY: the tile's place in each of the matrices is inside `products`, and its outputs, which are those inside
            // the image, are inside `sums` by the first assertion; `start` has whole vectors by the second.
            unsafe {
                let from = products.as_ptr().add(row * panel.width + channel);
                let m = read_square::<S, M>(simd, from, M * between, between);
                let outputs = along_both!(T::outputs, simd, m);
                let start = start.as_ptr().add(channel).cast::<S::f32s>().read_unaligned();
                let out = sums.as_mut_ptr().add(to + channel);
                for (y, row) in outputs.into_iter().enumerate() {
                    for (x, value) in row.into_iter().enumerate() {
                        if y < down && x < across {
                            let out = out.add((y * width + x) * panel.width);
                            out.cast::<S::f32s>().write_unaligned(simd.add_f32s(value, start));
                        }
                    }
                }
            }
        }
    }
}

/// Writes the outputs of a panel to their images, with their channels first. `first` is the image from which those of the block
/// are counted, and an image has `channels`.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "the parts of one block")]
fn write<S: Simd, const R: usize>(
    simd: S,
    tiles: &Tiles<R>,
    block: &Block,
    first: usize,
    panel: Panel<'_>,
    channels: usize,
    sums: &[f32],
    out: SharedSlice<'_>,
) {
    let [height, width] = tiles.output;
    let (mut row, mut from) = (block.rows.start, 0);
    while row < block.rows.end {
        let (image, y) = tiles.place(row);
        let rows = (tiles.count[0] - y).min(block.rows.end - row);
        let (begin, end) = (R * y * width, height.min(R * (y + rows)) * width);
        let first = ((first + image) * channels + panel.channels.0) * height * width;
        // SAFETY: the outputs of these channels of the image, which only this unit writes.
        let out = unsafe { out.slice(first, panel.channels.1 * height * width) };
        let size = [end - begin, panel.channels.1];
        transpose(simd, &sums[from..], panel.width, size, &mut out[begin..], height * width);
        from += (end - begin) * panel.width;
        row += rows;
    }
}
