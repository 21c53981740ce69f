//! Convolution with kernels of 3×3 and stride 1, or stride 2 and padding 1, by the minimal algorithms of Winograd (Lavin and
//! Gray, <https://arxiv.org/abs/1509.09308>).
//!
//! The outputs are split into tiles of 2×2. With `d` the inputs that a tile sees and `g` the kernel, the tile is
//! `Aᵀ [Σ_c (G g Gᵀ) ⊙ (Bᵀ d B)] A`. The sums over channels are matrix products, one for each place of the transformed tile:
//! 16 multiply-adds for a tile, an input and an output channel with stride 1, 25 with stride 2, instead of 36. All transforms
//! are sums and halves, and errors are those of plain sums; a NaN or infinity reaches every output that sees it and may reach others
//! of the same tile.
//!
//! The gradient of the input is a convolution of the same kind; with stride 2 its tiles are 4×4. That of the weight is the
//! transpose of the formula: `Gᵀ [Σ_tiles (Bᵀ d B) ⊙ (A ∂out Aᵀ)] G`.

mod images;
mod scheme;
mod tiles;
mod weight_gradient;
mod weights;

pub(super) use weight_gradient::Piece;

use pulp::Simd;

use self::images::{Images, images};
use self::scheme::{Stride1, Stride2, Stride2Gradient};
use super::ConvolutionShape;
use super::kernels::Kernels;

/// Least number of channels on both sides. Below, the transforms take as long as the products.
const LEAST_CHANNELS: usize = 16;

/// Returns whether a convolution and its gradients are computed in tiles.
pub(super) fn applies(shape: ConvolutionShape, output: [usize; 2]) -> bool {
    let ConvolutionShape { input, in_channels, out_channels, kernel, stride, padding, .. } = shape;
    let is_known = match stride {
        [1, 1] => padding[0] <= 2 && padding[1] <= 2,
        [2, 2] => padding == [1, 1],
        _ => false,
    };
    // Products along an axis, those of whole and half tiles of 2 (or of 4 inputs, for the gradient).
    let products = |side: usize| match stride[0] {
        1 => side / 2 * 4 + side % 2 * 3,
        _ => side / 2 * 5 + side % 2 * 3,
    };
    // At least a fifth fewer: the transforms take time, too.
    let is_fewer = |sides: [usize; 2]| 5 * products(sides[0]) * products(sides[1]) < 4 * 9 * sides[0] * sides[1];
    kernel == [3, 3]
        && is_known
        && in_channels.min(out_channels) >= LEAST_CHANNELS
        && is_fewer(output)
        && is_fewer([0, 1].map(|axis| input[axis].div_ceil(stride[axis])))
}

/// Computes a convolution to which tiles apply.
#[inline(always)]
pub(super) fn forward<S: Simd>(
    simd: S,
    shape: ConvolutionShape,
    output: [usize; 2],
    x: &[f32],
    weight: &[f32],
    start: Option<&[f32]>,
    out: &mut [f32],
) {
    let ConvolutionShape { batch, input, padding, stride, .. } = shape;
    let kernels = Kernels::new(shape, weight);
    let all = Images { batch, input, padding, output, x, kernels, turned: false, start };
    match stride {
        [1, 1] => images(simd, Stride1, all, out),
        _ => images(simd, Stride2, all, out),
    }
}

/// Computes the gradient of the input of a convolution to which tiles apply, given that of the output.
#[inline(always)]
pub(super) fn input_gradient<S: Simd>(
    simd: S,
    shape: ConvolutionShape,
    output: [usize; 2],
    grad: &[f32],
    weight: &[f32],
    out: &mut [f32],
) {
    let ConvolutionShape { batch, input, padding, stride, .. } = shape;
    let kernels = Kernels::new(shape, weight).swapped();
    let all =
        Images { batch, input: output, padding: [0, 0], output: input, x: grad, kernels, turned: false, start: None };
    match stride {
        [1, 1] => {
            let all = Images { padding: padding.map(|padding| 2 - padding), turned: true, ..all };
            images(simd, Stride1, all, out);
        }
        _ => images(simd, Stride2Gradient, all, out),
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
