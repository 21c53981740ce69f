//! Convolution of stride 1 with kernels of 3×3 by the algorithm F(2×2, 3×3) of Winograd (Lavin and Gray,
//! <https://arxiv.org/abs/1509.09308>).
//!
//! The outputs are split into tiles of 2×2. With `d` the 4×4 inputs that a tile sees and `g` the kernel, the tile is
//! `Aᵀ [Σ_c (G g Gᵀ) ⊙ (Bᵀ d B)] A`. The sums over channels are 16 matrix products, one for each place of the 4×4, with 16
//! multiply-adds for a tile, an input and an output channel instead of 36. All transforms are sums and halves, and errors
//! are those of plain sums; a NaN or infinity reaches all four outputs of a tile that sees it.
//!
//! The gradient of the input is a convolution of the same kind. That of the weight is the transpose of the formula:
//! `Gᵀ [Σ_tiles (Bᵀ d B) ⊙ (A ∂out Aᵀ)] G`.

mod images;
mod weight_gradient;
mod weights;

pub(super) use images::{Images, images};
pub(super) use weight_gradient::Piece;

use pulp::Simd;

use super::ConvolutionShape;
use super::channels_last::ChannelsLast;

/// Least number of channels on both sides. Below, the transforms take as long as the products.
const LEAST_CHANNELS: usize = 16;

/// Number of tiles that are multiplied together. 48 tiles of 64 channels take 192 KiB on each side, which leaves room in a
/// cache of 1 MiB for the weights.
const BLOCK_TILES: usize = 48;

/// Number of places of a transformed tile.
const PLACES: usize = 16;

/// Returns whether a convolution and its gradients are computed in tiles.
pub(super) fn applies(shape: ConvolutionShape, output: [usize; 2]) -> bool {
    let ConvolutionShape { in_channels, out_channels, kernel, stride, padding, .. } = shape;
    let products = |[height, width]: [usize; 2]| PLACES * height.div_ceil(2) * width.div_ceil(2) * 5;
    kernel == [3, 3]
        && stride == [1, 1]
        && padding[0] <= 2
        && padding[1] <= 2
        && in_channels.min(out_channels) >= LEAST_CHANNELS
        // The partial tiles at the edges are computed whole.
        && products(output) < 9 * output[0] * output[1] * 4
        && products(shape.input) < 9 * shape.input[0] * shape.input[1] * 4
}

/// The tiles of some images, numbered row after row and image after image.
#[derive(Debug, Clone, Copy)]
struct Tiles {
    /// Height and width of an image's output.
    output: [usize; 2],
    /// Rows and columns of tiles of an image.
    count: [usize; 2],
}

impl Tiles {
    fn new(output: [usize; 2]) -> Self {
        Self { output, count: output.map(|side| side.div_ceil(2)) }
    }

    /// Returns the layout of the inputs that the tiles of an image see.
    fn inputs<S: Simd>(&self, channels: usize, image: [usize; 2], padding: [usize; 2]) -> ChannelsLast {
        let (width, size) = (channels.next_multiple_of(S::F32_LANES), self.count.map(|count| 2 * count + 2));
        ChannelsLast { channels, width, image, padding, size }
    }

    /// Returns the layout of an image's outputs, with zeros that fill the last tiles.
    fn outputs<S: Simd>(&self, channels: usize) -> ChannelsLast {
        let (width, size) = (channels.next_multiple_of(S::F32_LANES), self.count.map(|count| 2 * count));
        ChannelsLast { channels, width, image: self.output, padding: [0, 0], size }
    }

    /// Returns the number of rows of tiles in a block.
    fn block_rows(&self) -> usize {
        ((BLOCK_TILES + self.count[1] / 2) / self.count[1]).max(1)
    }

    /// Returns the number of images whose rows of tiles fill a block.
    fn block_images(&self) -> usize {
        self.block_rows().div_ceil(self.count[0])
    }

    /// Returns the image of a row of tiles, and its number within the image.
    fn place(&self, row: usize) -> (usize, usize) {
        (row / self.count[0], row % self.count[0])
    }

    /// Splits `rows` rows of tiles into blocks of nearly equal size.
    fn blocks(&self, rows: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
        let blocks = rows.div_ceil(self.block_rows());
        (0..blocks).map(move |block| rows * block / blocks..rows * (block + 1) / blocks)
    }
}

/// Returns the distance between the 16 matrices of transformed tiles. They would fall on the same lines of a cache if it
/// were a power of 2.
const fn matrix_len(tiles: usize, width: usize) -> usize {
    tiles * width + 16
}

/// Transforms the inputs of tiles: `out[ξ, tile, channel]` is place `ξ` of `Bᵀ d B`, with [`matrix_len`] between matrices.
///
/// `source` has the images of the tiles in the layout of [`Tiles::inputs`]; `rows` are the rows of tiles.
#[inline(always)]
fn transform_inputs<S: Simd>(
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
                // SAFETY: the tile's 4×4 inputs are inside its image, which is inside `source` by the first assertion; its
                // place in each of the 16 matrices is inside `out` by the second.
                unsafe {
                    let d = read_square::<S, 4>(simd, source.as_ptr().add(from + channel), row_len, width);
                    let d = transposed(input_columns(simd, transposed(input_columns(simd, d))));
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

/// Reads vectors at `N` rows and columns that are `row` and `column` elements apart.
///
/// # Safety
/// All of them can be read.
#[inline(always)]
unsafe fn read_square<S: Simd, const N: usize>(
    simd: S,
    from: *const f32,
    row: usize,
    column: usize,
) -> [[S::f32s; N]; N] {
    let mut square = [[simd.splat_f32s(0.0); N]; N];
    for (i, values) in square.iter_mut().enumerate() {
        for (j, value) in values.iter_mut().enumerate() {
            // SAFETY: the caller's promise; vectors need no alignment.
            *value = unsafe { from.add(i * row + j * column).cast::<S::f32s>().read_unaligned() };
        }
    }
    square
}

/// Returns `out[j][i] = x[i][j]`.
#[inline(always)]
fn transposed<T: Copy, const N: usize, const M: usize>(x: [[T; M]; N]) -> [[T; N]; M] {
    let mut out = [[x[0][0]; N]; M];
    for (i, row) in x.iter().enumerate() {
        for (j, value) in row.iter().enumerate() {
            out[j][i] = *value;
        }
    }
    out
}

/// `Bᵀ x`.
#[inline(always)]
fn input_columns<S: Simd>(simd: S, [a, b, c, d]: [[S::f32s; 4]; 4]) -> [[S::f32s; 4]; 4] {
    let mut out = [a; 4];
    for j in 0..4 {
        out[0][j] = simd.sub_f32s(a[j], c[j]);
        out[1][j] = simd.add_f32s(b[j], c[j]);
        out[2][j] = simd.sub_f32s(c[j], b[j]);
        out[3][j] = simd.sub_f32s(b[j], d[j]);
    }
    out
}

/// `Aᵀ x`.
#[inline(always)]
fn output_columns<S: Simd, const N: usize>(simd: S, [a, b, c, d]: [[S::f32s; N]; 4]) -> [[S::f32s; N]; 2] {
    let mut out = [a; 2];
    for j in 0..N {
        out[0][j] = simd.add_f32s(simd.add_f32s(a[j], b[j]), c[j]);
        out[1][j] = simd.sub_f32s(simd.sub_f32s(b[j], c[j]), d[j]);
    }
    out
}

/// `A x`, the transpose of [`output_columns`].
#[inline(always)]
fn output_rows<S: Simd, const N: usize>(simd: S, [a, b]: [[S::f32s; N]; 2]) -> [[S::f32s; N]; 4] {
    let mut out = [a; 4];
    for j in 0..N {
        out[1][j] = simd.add_f32s(a[j], b[j]);
        out[2][j] = simd.sub_f32s(a[j], b[j]);
        out[3][j] = simd.neg_f32s(b[j]);
    }
    out
}

/// `G x`.
#[inline(always)]
fn kernel_rows<S: Simd, const N: usize>(simd: S, [a, b, c]: [[S::f32s; N]; 3]) -> [[S::f32s; N]; 4] {
    let half = simd.splat_f32s(0.5);
    let mut out = [a, a, a, c];
    for j in 0..N {
        let (outer, inner) = (simd.mul_f32s(half, simd.add_f32s(a[j], c[j])), simd.mul_f32s(half, b[j]));
        out[1][j] = simd.add_f32s(outer, inner);
        out[2][j] = simd.sub_f32s(outer, inner);
    }
    out
}

/// `Gᵀ x`, the transpose of [`kernel_rows`].
#[inline(always)]
fn kernel_columns<S: Simd, const N: usize>(simd: S, [a, b, c, d]: [[S::f32s; N]; 4]) -> [[S::f32s; N]; 3] {
    let half = simd.splat_f32s(0.5);
    let mut out = [a; 3];
    for j in 0..N {
        let (sum, difference) = (simd.add_f32s(b[j], c[j]), simd.sub_f32s(b[j], c[j]));
        let sum = simd.mul_f32s(half, sum);
        out[0][j] = simd.add_f32s(a[j], sum);
        out[1][j] = simd.mul_f32s(half, difference);
        out[2][j] = simd.add_f32s(sum, d[j]);
    }
    out
}
