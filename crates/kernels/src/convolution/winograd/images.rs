//! The convolution of images in tiles.

use pulp::{Simd, WithSimd};

use super::weights::{Panel, Weights};
use super::{PLACES, Tiles, matrix_len, output_columns, read_square, transform_inputs, transposed};
use crate::convolution::Split;
use crate::convolution::channels_last::{ChannelsLast, transpose};
use crate::convolution::kernels::Kernels;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;
use crate::tile::{TileProduct, panel_width};

/// A convolution of images: `out[n] = start + kernels ∗ x[n]`.
#[derive(Clone, Copy)]
pub(in crate::convolution) struct Images<'a> {
    pub(in crate::convolution) batch: usize,
    /// Height and width of an image of `x`.
    pub(in crate::convolution) input: [usize; 2],
    pub(in crate::convolution) padding: [usize; 2],
    /// Height and width of an image of `out`.
    pub(in crate::convolution) output: [usize; 2],
    pub(in crate::convolution) x: &'a [f32],
    pub(in crate::convolution) kernels: Kernels<'a>,
    /// Whether the kernels are turned by 180°.
    pub(in crate::convolution) turned: bool,
    pub(in crate::convolution) start: Option<&'a [f32]>,
}

/// Computes the convolution of all images.
#[inline(always)]
pub(in crate::convolution) fn images<S: Simd>(simd: S, images: Images<'_>, out: &mut [f32]) {
    let Images { batch, input, padding, output, x, kernels, turned, start } = images;
    let [inputs, outputs] = kernels.channels;
    let tiles = Tiles::new(output);
    let layout = tiles.inputs::<S>(inputs, input, padding);
    let split = Split::new(batch, out.len() * inputs * 4);
    let weights = Weights::new(simd, kernels, turned, split.panel(outputs, S::F32_LANES, panel_width::<S>()));
    let mut padded = Scratch::new(outputs.next_multiple_of(S::F32_LANES));
    padded.fill(0.0);
    if let Some(start) = start {
        padded[..outputs].copy_from_slice(start);
    }
    let (weights, start, out) = (&weights, &padded[..], SharedSlice::new(out));
    split.for_each(weights.panels(), |images, panels| {
        simd.vectorize(Unit { tiles, layout, images, panels, x, weights, start, out });
    });
}

/// Some images and panels of output channels.
struct Unit<'a> {
    tiles: Tiles,
    layout: ChannelsLast,
    images: std::ops::Range<usize>,
    panels: std::ops::Range<usize>,
    x: &'a [f32],
    weights: &'a Weights,
    /// The first sum of each output channel, rounded up to whole vectors.
    start: &'a [f32],
    out: SharedSlice<'a>,
}

impl WithSimd for Unit<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { tiles, layout, images, panels, x, weights, start, out } = self;
        let inputs = layout.channels;
        let group = tiles.block_images().min(images.len());
        let most_tiles = tiles.block_rows().min(group * tiles.count[0]) * tiles.count[1];
        let lens = [
            group * layout.len(),
            PLACES * matrix_len(most_tiles, layout.width),
            PLACES * matrix_len(most_tiles, panel_width::<S>()),
            most_tiles * 4 * panel_width::<S>(),
        ];
        let mut scratch = Scratch::new(lens.iter().sum());
        let (source, rest) = scratch.split_at_mut(lens[0]);
        let (transformed, rest) = rest.split_at_mut(lens[1]);
        let (products, sums) = rest.split_at_mut(lens[2]);
        let image_len = inputs * layout.image[0] * layout.image[1];
        for first in images.clone().step_by(group) {
            let count = group.min(images.end - first);
            for (image, source) in source.chunks_exact_mut(layout.len()).take(count).enumerate() {
                layout.copy(&x[(first + image) * image_len..][..image_len], source);
            }
            for rows in tiles.blocks(count * tiles.count[0]) {
                let block = Block { tiles, first, rows: rows.clone() };
                transform_inputs(simd, &tiles, layout, rows, source, transformed);
                for panel in panels.clone() {
                    let panel = weights.panel::<S>(panel);
                    block.multiply(simd, layout, panel, transformed, products);
                    block.transform_outputs(simd, panel, start, products, sums);
                    block.write(panel, weights.outputs(), sums, out);
                }
            }
        }
    }
}

/// Some rows of tiles.
#[derive(Clone)]
struct Block {
    tiles: Tiles,
    /// The image of the first row of tiles of all.
    first: usize,
    rows: std::ops::Range<usize>,
}

impl Block {
    fn tile_count(&self) -> usize {
        self.rows.len() * self.tiles.count[1]
    }

    /// Multiplies the transformed inputs with the weights: `products[ξ, tile, channel]`.
    #[inline(always)]
    fn multiply<S: Simd>(
        &self,
        simd: S,
        layout: ChannelsLast,
        panel: Panel<'_>,
        transformed: &[f32],
        products: &mut [f32],
    ) {
        let (tiles, inputs) = (self.tile_count(), layout.channels);
        let (between, out_between) = (matrix_len(tiles, layout.width), matrix_len(tiles, panel.width));
        for place in 0..PLACES {
            let a = &transformed[place * between..][..tiles * layout.width];
            let b = &panel.weights[place * inputs * panel.width..][..inputs * panel.width];
            let out = &mut products[place * out_between..][..tiles * panel.width];
            let product = TileProduct {
                rows: tiles,
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

    /// Transforms products into outputs with their channels last, and adds `start`. The outputs of each image are one after
    /// the other, row after row.
    #[inline(always)]
    fn transform_outputs<S: Simd>(&self, simd: S, panel: Panel<'_>, start: &[f32], products: &[f32], sums: &mut [f32]) {
        let ([height, width], [_, columns]) = (self.tiles.output, self.tiles.count);
        let between = matrix_len(self.tile_count(), panel.width);
        let start = &start[panel.channels.0..][..panel.width];
        assert!(products.len() >= PLACES * between && sums.len() >= 4 * self.tile_count() * panel.width);
        assert!(panel.width.is_multiple_of(S::F32_LANES));
        let (mut from, mut to) = (0, 0);
        for row in self.rows.clone() {
            let y = self.tiles.place(row).1;
            let is_whole = 2 * y + 1 < height;
            for x in 0..columns {
                for channel in (0..panel.width).step_by(S::F32_LANES) {
                    // SAFETY: the tile's place in each of the 16 matrices is inside `products`, its outputs inside `sums`,
                    // which has room for four outputs of each tile, by the first assertion.
                    unsafe {
                        let m = read_square::<S, 4>(simd, products.as_ptr().add(from + channel), 4 * between, between);
                        let [a, b] = transposed(output_columns(simd, transposed(output_columns(simd, m))));
                        let start = start.as_ptr().add(channel).cast::<S::f32s>().read_unaligned();
                        let out = sums.as_mut_ptr().add(to + 2 * x * panel.width + channel);
                        for (y, row) in [a, b].into_iter().enumerate().take(1 + usize::from(is_whole)) {
                            for (column, value) in row.into_iter().enumerate() {
                                if 2 * x + column < width {
                                    let out = out.add((y * width + column) * panel.width);
                                    out.cast::<S::f32s>().write_unaligned(simd.add_f32s(value, start));
                                }
                            }
                        }
                    }
                }
                from += panel.width;
            }
            to += (1 + usize::from(is_whole)) * width * panel.width;
        }
    }

    /// Writes the outputs of a panel to their images, with their channels first; an image has `channels` of them.
    #[inline(always)]
    fn write(&self, panel: Panel<'_>, channels: usize, sums: &[f32], out: SharedSlice<'_>) {
        let [height, width] = self.tiles.output;
        let (mut row, mut from) = (self.rows.start, 0);
        while row < self.rows.end {
            let (image, y) = self.tiles.place(row);
            let rows = (self.tiles.count[0] - y).min(self.rows.end - row);
            let (begin, end) = (2 * y * width, height.min(2 * (y + rows)) * width);
            let first = ((self.first + image) * channels + panel.channels.0) * height * width;
            // SAFETY: the outputs of these channels of the image, which only this unit writes.
            let out = unsafe { out.slice(first, panel.channels.1 * height * width) };
            let size = [end - begin, panel.channels.1];
            transpose(&sums[from..], panel.width, size, &mut out[begin..], height * width);
            from += (end - begin) * panel.width;
            row += rows;
        }
    }
}
