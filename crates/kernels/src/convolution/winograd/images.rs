//! The convolution of images in tiles.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::read_square;
use super::scheme::{Scheme, along_both, transposed};
use super::tiles::{Band, Block, Tiles, first_half, matrix_len, sum_of, transform_inputs};
use super::weights::{Panel, Weights};
use crate::convolution::Split;
use crate::convolution::channels_last::{ChannelsLast, transpose};
use crate::convolution::kernels::Kernels;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;
use crate::tile::{TileProduct, panel_width};

/// Number of weights that stay in the first cache while they are multiplied with all tiles of a block.
const CACHED_WEIGHTS: usize = 8 * 1024;

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
pub(super) fn images<S, T, const D: usize, const M: usize, const Q: usize, const R: usize>(
    simd: S,
    scheme: T,
    images: Images<'_>,
    out: &mut [f32],
) where
    S: Simd,
    T: Scheme<D, M, Q, R>,
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
struct Unit<'a, T, const D: usize, const M: usize, const Q: usize, const R: usize> {
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

impl<T: Scheme<D, M, Q, R>, const D: usize, const M: usize, const Q: usize, const R: usize> WithSimd
    for Unit<'_, T, D, M, Q, R>
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { scheme, tiles, layout, images, panels, x, weights, start, out } = self;
        let most_tiles = tiles.most(images.len());
        let lens = [
            D * layout.row_len(),
            M * M * matrix_len(most_tiles, layout.width),
            Q * Q * matrix_len(most_tiles, panel_width::<S>()),
            most_tiles * R * R * panel_width::<S>(),
        ];
        let mut scratch = Scratch::new(lens.iter().sum());
        let (band, rest) = scratch.split_at_mut(lens[0]);
        let (transformed, rest) = rest.split_at_mut(lens[1]);
        let (sums, outputs) = rest.split_at_mut(lens[2]);
        let image_len = layout.channels * layout.image[0] * layout.image[1];
        let x = &x[images.start * image_len..images.end * image_len];
        let mut band = Band::new(layout, band);
        for block in tiles.blocks(images.len()) {
            transform_inputs(simd, scheme, &tiles, &block, x, &mut band, transformed);
            for panel in panels.clone() {
                let panel = weights.panel::<S>(panel);
                multiply(simd, scheme, &block, layout, panel, transformed, sums);
                transform_outputs(simd, scheme, &tiles, &block, panel, start, sums, outputs);
                write(simd, &tiles, &block, images.start, panel, weights.outputs(), outputs, out);
            }
        }
    }
}

/// Multiplies the transformed inputs with the weights and adds the products of each sum: `sums[q, tile, channel]`, where the tile
/// needs the sum `q`.
#[inline(always)]
fn multiply<S, T, const D: usize, const M: usize, const Q: usize, const R: usize>(
    simd: S,
    scheme: T,
    block: &Block,
    layout: ChannelsLast,
    panel: Panel<'_>,
    transformed: &[f32],
    sums: &mut [f32],
) where
    S: Simd,
    T: Scheme<D, M, Q, R>,
{
    let (between, weights_len) = (block.matrix_len(layout.width), layout.channels * panel.width);
    assert!(transformed.len() >= M * M * between && panel.weights.len() >= M * M * weights_len);
    for sum in 0..Q * Q {
        let tiles = block.needing(first_half(scheme, sum));
        let out = &mut sums[sum * block.matrix_len(panel.width) + tiles.start * panel.width..];
        let out = &mut out[..tiles.len() * panel.width];
        let mut terms = [[[0; 2]; M]; M];
        let terms = terms.as_flattened_mut();
        let mut count = 0;
        for place in (0..M * M).filter(|place| sum_of(scheme, *place) == sum) {
            terms[count] = [place * between, place * weights_len];
            count += 1;
        }
        let together = (CACHED_WEIGHTS / weights_len).max(1);
        for (run, terms) in terms[..count].chunks(together).enumerate() {
            let product = TileProduct {
                rows: tiles.len(),
                columns: (0, panel.width),
                depth: layout.channels,
                a: transformed[tiles.start * layout.width..].as_ptr(),
                a_row: layout.width,
                a_column: 1,
                b: panel.weights.as_ptr(),
                b_row: panel.width,
                b_panel: 0,
                out: out.as_mut_ptr(),
                out_row: panel.width,
                accumulate: run > 0,
                terms,
            };
            // SAFETY: the tiles of each place are inside `transformed` and its weights inside `panel.weights` by the assertion,
            // `out` has the size of the product, and a panel has at most the columns of a register tile.
            unsafe { product.run(simd) };
        }
    }
}

/// Transforms sums of products into outputs with their channels last, and adds `start`. The outputs of each image are one after the
/// other, row after row.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "the parts of one block")]
fn transform_outputs<S, T, const D: usize, const M: usize, const Q: usize, const R: usize>(
    simd: S,
    _: T,
    tiles: &Tiles<R>,
    block: &Block,
    panel: Panel<'_>,
    start: &[f32],
    sums: &[f32],
    outputs: &mut [f32],
) where
    S: Simd,
    T: Scheme<D, M, Q, R>,
{
    let [height, width] = tiles.output;
    let between = block.matrix_len(panel.width);
    let start = &start[panel.channels.0..][..panel.width];
    let output_row = |image: usize, y: usize| image * height + R * y;
    let first_row = tiles.place(block.rows.start);
    let first_row = output_row(first_row.0, first_row.1);
    let (image, y) = tiles.place(block.rows.end - 1);
    let rows = image * height + height.min(R * (y + 1)) - first_row;
    assert!(sums.len() >= Q * Q * between && outputs.len() >= rows * width * panel.width);
    assert!(panel.width.is_multiple_of(S::F32_LANES));
    for (row, tile) in block.tiles.iter().enumerate() {
        let [down, across] = [height - R * tile.y, width - R * tile.x].map(|left| left.min(R));
        let to = ((output_row(tile.image, tile.y) - first_row) * width + R * tile.x) * panel.width;
        for channel in (0..panel.width).step_by(S::F32_LANES) {
            // SAFETY: the tile's place in each of the matrices is inside `sums`, and its outputs, which are those inside
            // the image, are inside `outputs` by the first assertion; `start` has whole vectors by the second.
            unsafe {
                let from = sums.as_ptr().add(row * panel.width + channel);
                let m = read_square::<S, Q>(simd, from, Q * between, between);
                let tile = along_both!(T::outputs, simd, m);
                let start = start.as_ptr().add(channel).cast::<S::f32s>().read_unaligned();
                let out = outputs.as_mut_ptr().add(to + channel);
                for (y, row) in tile.into_iter().enumerate() {
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
    outputs: &[f32],
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
        transpose(simd, &outputs[from..], panel.width, size, &mut out[begin..], height * width);
        from += (end - begin) * panel.width;
        row += rows;
    }
}
