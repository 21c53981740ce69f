//! The tiles of images, and their order in the matrices of a product.

use std::ops::Range;

use pulp::Simd;

use super::scheme::{Scheme, along_both, transposed};
use crate::convolution::channels_last::ChannelsLast;

/// Number of transformed places of all tiles that are multiplied together. With 64 channels they take 192 KiB on each side,
/// which leaves room in a cache of 1 MiB for the weights: 48 tiles with stride 1, as measured, and 30 with stride 2.
const BLOCK_PLACES: usize = 768;

/// The tiles of `R × R` outputs of some images. The rows of tiles are numbered image after image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tiles<const R: usize> {
    /// Height and width of an image's output.
    pub(super) output: [usize; 2],
    /// Rows and columns of tiles of an image.
    pub(super) count: [usize; 2],
    /// Number of rows of tiles in a block.
    block_rows: usize,
}

impl<const R: usize> Tiles<R> {
    /// Splits outputs into tiles that have `places` when they are transformed.
    pub(super) fn new(output: [usize; 2], places: usize) -> Self {
        let count = output.map(|side| side.div_ceil(R));
        Self { output, count, block_rows: ((BLOCK_PLACES / places + count[1] / 2) / count[1]).max(1) }
    }

    /// Returns the layout of the inputs that the tiles of an image see: `seen` along each axis, `step` from tile to tile.
    pub(super) fn inputs<S: Simd>(
        &self,
        [seen, step]: [usize; 2],
        channels: usize,
        image: [usize; 2],
        padding: [usize; 2],
    ) -> ChannelsLast {
        let width = channels.next_multiple_of(S::F32_LANES);
        ChannelsLast { channels, width, image, padding, size: self.count.map(|count| step * (count - 1) + seen) }
    }

    /// Returns the layout of an image's outputs, with zeros that fill the last tiles.
    pub(super) fn outputs<S: Simd>(&self, channels: usize) -> ChannelsLast {
        let (width, size) = (channels.next_multiple_of(S::F32_LANES), self.count.map(|count| R * count));
        ChannelsLast { channels, width, image: self.output, padding: [0, 0], size }
    }

    /// Returns the number of images whose rows of tiles fill a block.
    pub(super) fn block_images(&self) -> usize {
        self.block_rows.div_ceil(self.count[0])
    }

    /// Returns the largest number of tiles in a block of at most `images`.
    pub(super) fn most(&self, images: usize) -> usize {
        self.block_rows.min(images * self.count[0]) * self.count[1]
    }

    /// Returns the image of a row of tiles, and its number within the image.
    pub(super) fn place(&self, row: usize) -> (usize, usize) {
        (row / self.count[0], row % self.count[0])
    }

    /// Returns whether the last tile along an axis has outputs in its first half only.
    fn ends_in_half(&self, axis: usize) -> bool {
        (1..=R / 2).contains(&(self.output[axis] % R))
    }

    /// Splits the tiles of `images` into blocks of nearly equal size.
    pub(super) fn blocks(&self, images: usize) -> impl Iterator<Item = Block> {
        let rows = images * self.count[0];
        let blocks = rows.div_ceil(self.block_rows);
        (0..blocks).map(move |block| self.block(rows * block / blocks..rows * (block + 1) / blocks))
    }

    fn block(&self, rows: Range<usize>) -> Block {
        let is_half = |row: &usize| self.ends_in_half(0) && self.place(*row).1 + 1 == self.count[0];
        let whole_columns = self.count[1] - usize::from(self.ends_in_half(1));
        let mut tiles = Vec::with_capacity(rows.len() * self.count[1]);
        let mut places = vec![0; rows.len() * self.count[1]];
        let mut add = |half: bool, columns: Range<usize>| {
            for row in rows.clone().filter(|row| is_half(row) == half) {
                let (image, y) = self.place(row);
                for x in columns.clone() {
                    places[(row - rows.start) * self.count[1] + x] = tiles.len();
                    tiles.push(Tile { image, y, x });
                }
            }
            tiles.len()
        };
        let half_columns = add(false, whole_columns..self.count[1]);
        let whole = add(false, 0..whole_columns);
        let half_rows = add(true, 0..whole_columns);
        add(true, whole_columns..self.count[1]);
        Block { rows, tiles, places, ends: [half_columns, whole, half_rows] }
    }
}

/// A tile: its image, counted from the first that is copied with it, its row and column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tile {
    pub(super) image: usize,
    pub(super) y: usize,
    pub(super) x: usize,
}

/// Some rows of tiles, in the order of the matrices: first those that are half tiles across, then whole tiles, then half tiles
/// down, then those that are half in both directions. Any kind of place is then needed for consecutive tiles.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) rows: Range<usize>,
    pub(super) tiles: Vec<Tile>,
    /// The number of each tile among `tiles`, row after row.
    places: Vec<usize>,
    /// The ends of the first three kinds.
    ends: [usize; 3],
}

impl Block {
    /// Returns the tiles whose outputs depend on a sum that is needed for the first half of the outputs, down and across, or not.
    pub(super) fn needing(&self, [down, across]: [bool; 2]) -> Range<usize> {
        let [half_columns, whole, half_rows] = self.ends;
        let start = if across { 0 } else { half_columns };
        match (down, across) {
            (false, _) => start..whole,
            (true, false) => start..half_rows,
            (true, true) => start..self.tiles.len(),
        }
    }

    /// Returns the distance between the matrices of transformed tiles with `width` channels. They would fall on the same
    /// lines of a cache if it were a power of 2.
    pub(super) fn matrix_len(&self, width: usize) -> usize {
        matrix_len(self.tiles.len(), width)
    }
}

/// Returns the distance between matrices of `rows` rows; see [`Block::matrix_len`].
pub(super) const fn matrix_len(rows: usize, width: usize) -> usize {
    rows * width + 16
}

/// The rows of an image that a row of tiles sees, with their channels last. They stay in the first cache while they are
/// transformed, and those that the next row of tiles sees as well stay where they are.
pub(super) struct Band<'a> {
    layout: ChannelsLast,
    /// The image that is read, and the rows of its copy that are there.
    image: usize,
    rows: Range<usize>,
    data: &'a mut [f32],
}

impl<'a> Band<'a> {
    /// Makes an empty band in `data`, which has room for the rows that a tile sees.
    pub(super) fn new(layout: ChannelsLast, data: &'a mut [f32]) -> Self {
        data.fill(0.0);
        Self { layout, image: 0, rows: 0..0, data }
    }

    /// Copies the rows `from..from + D` of an image that are not there yet. Row `y` is the `y % D`th of the band.
    #[inline(always)]
    fn read<S: Simd, const D: usize>(&mut self, simd: S, images: &[f32], image: usize, from: usize) {
        let len = self.layout.channels * self.layout.image[0] * self.layout.image[1];
        let pixels = &images[image * len..][..len];
        let is_next = self.image == image && (self.rows.start..=self.rows.end).contains(&from);
        let missing = if is_next { self.rows.end.max(from) } else { from };
        for y in missing..from + D {
            let row = &mut self.data[y % D * self.layout.row_len()..][..self.layout.row_len()];
            self.layout.copy_row(simd, pixels, y, row);
        }
        (self.image, self.rows) = (image, from..from + D);
    }
}

/// Transforms the inputs of tiles: `out[ξ, tile, channel]` is place `ξ` of `Bᵀ d B`. The band has the layout of [`Tiles::inputs`] and
/// room for `D` rows; the images of the block are in `images`.
#[inline(always)]
pub(super) fn transform_inputs<S, T, const D: usize, const M: usize, const Q: usize, const R: usize>(
    simd: S,
    _: T,
    tiles: &Tiles<R>,
    block: &Block,
    images: &[f32],
    band: &mut Band<'_>,
    out: &mut [f32],
) where
    S: Simd,
    T: Scheme<D, M, Q, R>,
{
    let (width, row_len, columns) = (band.layout.width, band.layout.row_len(), tiles.count[1]);
    let between = block.matrix_len(width);
    assert!((T::STEP * (columns - 1) + D) * width <= row_len && band.data.len() >= D * row_len);
    assert!(out.len() >= M * M * between && width.is_multiple_of(S::F32_LANES));
    for (row, places) in block.rows.clone().zip(block.places.chunks_exact(columns)) {
        let (image, y) = tiles.place(row);
        band.read::<S, D>(simd, images, image, T::STEP * y);
        let mut offsets = [0; D];
        for (i, offset) in offsets.iter_mut().enumerate() {
            *offset = (T::STEP * y + i) % D * row_len;
        }
        for (x, place) in places.iter().enumerate() {
            for channel in (0..width).step_by(S::F32_LANES) {
                // SAFETY: the tile's inputs are inside the rows of the band by the first assertion; its place in each of the
                // matrices is inside `out` by the second.
                unsafe {
                    let from = band.data.as_ptr().add(T::STEP * x * width + channel);
                    let mut d = [[simd.splat_f32s(0.0); D]; D];
                    for (values, offset) in d.iter_mut().zip(offsets) {
                        for (j, value) in values.iter_mut().enumerate() {
                            *value = from.add(offset + j * width).cast::<S::f32s>().read_unaligned();
                        }
                    }
                    let d = along_both!(T::inputs, simd, d);
                    let out = out.as_mut_ptr().add(place * width + channel);
                    for (place, value) in d.as_flattened().iter().enumerate() {
                        out.add(place * between).cast::<S::f32s>().write_unaligned(*value);
                    }
                }
            }
        }
    }
}

/// Returns the number of the sum, of `Q × Q`, to which place `ξ` of a transformed tile belongs.
#[inline(always)]
pub(super) fn sum_of<T, const D: usize, const M: usize, const Q: usize, const R: usize>(_: T, place: usize) -> usize
where
    T: Scheme<D, M, Q, R>,
{
    T::SUM[place / M] * Q + T::SUM[place % M]
}

/// Returns whether a sum is needed for the first half of the outputs, down and across.
#[inline(always)]
pub(super) fn first_half<T, const D: usize, const M: usize, const Q: usize, const R: usize>(
    _: T,
    sum: usize,
) -> [bool; 2]
where
    T: Scheme<D, M, Q, R>,
{
    [T::FIRST[sum / Q], T::FIRST[sum % Q]]
}
