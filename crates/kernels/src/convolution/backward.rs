//! The backward pass of a convolution: its gradients, and that of the input.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::planes::{Planes, copy_row};
use super::product::Product;
use super::weight_gradient::weight_gradient;
use super::{ConvolutionShape, is_parallel};
use crate::error::{KernelError, check_len};
use crate::isa::dispatch;
use crate::scratch::Scratch;

/// Where the gradients of a convolution are written; `None` for those that are not wanted.
#[derive(Debug, Default)]
pub struct ConvolutionGradients<'a> {
    /// Gradient of the input, `[batch, in_channels, height, width]`.
    pub input: Option<&'a mut [f32]>,
    /// Gradient of the weight, `[out_channels, in_channels, kernel_h, kernel_w]`.
    pub weight: Option<&'a mut [f32]>,
    /// Gradient of the bias, `[out_channels]`.
    pub bias: Option<&'a mut [f32]>,
}

/// Computes the gradients of a convolution, given the gradient `grad` of its output.
///
/// # Shapes
/// All arguments have the shapes of [`super::convolution_forward`]; `grad` has that of the output.
pub fn convolution_backward(
    shape: ConvolutionShape,
    input: &[f32],
    weight: &[f32],
    grad: &[f32],
    gradients: ConvolutionGradients<'_>,
) -> Result<(), KernelError> {
    let output = shape.check(input.len(), weight.len(), ("convolution grad", grad.len()))?;
    let ConvolutionGradients { input: grad_input, weight: grad_weight, bias: grad_bias } = gradients;
    check_len("convolution input gradient", grad_input.as_ref().map_or(input.len(), |x| x.len()), input.len())?;
    check_len("convolution weight gradient", grad_weight.as_ref().map_or(weight.len(), |x| x.len()), weight.len())?;
    let channels = shape.out_channels;
    check_len("convolution bias gradient", grad_bias.as_ref().map_or(channels, |x| x.len()), channels)?;
    if grad_weight.is_some() || grad_bias.is_some() {
        weight_gradient(shape, output, input, grad, grad_weight, grad_bias)?;
    }
    match grad_input {
        None | Some([]) => {}
        Some(out) if grad.is_empty() => out.fill(0.0),
        Some(out) => {
            let planes = grad_planes(shape, output);
            planes.len()?;
            dispatch(InputGradient { shape, output, planes, weight, grad, out });
        }
    }
    Ok(())
}

/// The positions of the input along one axis whose distance from the first padding zero is `phase` modulo the stride.
///
/// Position `first + k` of the phase, `k < count`, is that of input `stride · (first + k) + phase − padding`.
#[derive(Debug, Clone, Copy)]
struct Phase {
    phase: usize,
    first: usize,
    count: usize,
    /// Number of places of the kernel that reach these positions: `phase`, `phase + stride`, ….
    taps: usize,
}

impl Phase {
    /// Returns the phases along an axis that the kernel reaches.
    fn along(shape: ConvolutionShape, axis: usize) -> impl Iterator<Item = Self> {
        let [input, kernel, stride, padding] =
            [shape.input, shape.kernel, shape.stride, shape.padding].map(|x| x[axis]);
        (0..stride.min(kernel)).map(move |phase| {
            // The number of positions of the phase before a distance from the first zero.
            let before = |distance: usize| distance.saturating_sub(phase).div_ceil(stride);
            let first = before(padding);
            let count = before(padding + input).saturating_sub(first);
            Self { phase, first, count, taps: (kernel - phase).div_ceil(stride) }
        })
    }

    /// Returns the index in the input of a position.
    fn input(self, shape: ConvolutionShape, axis: usize, k: usize) -> usize {
        shape.stride[axis] * (self.first + k) + self.phase - shape.padding[axis]
    }
}

/// Returns the layout of the gradient of the output in which every phase of the input finds its neighbours.
fn grad_planes(shape: ConvolutionShape, output: [usize; 2]) -> Planes {
    let side = |axis: usize| {
        let low = Phase::along(shape, axis).map(|p| p.first as isize - (p.taps as isize - 1)).min().unwrap_or(0);
        let high = Phase::along(shape, axis).map(|p| (p.first + p.count) as isize).max().unwrap_or(0);
        (low, (high - low).max(0) as usize)
    };
    let (rows, columns) = (side(0), side(1));
    Planes {
        channels: shape.out_channels,
        image: output,
        origin: [rows.0, columns.0],
        stride: [1, 1],
        phases: [1, 1],
        size: [rows.1, columns.1],
    }
}

struct InputGradient<'a> {
    shape: ConvolutionShape,
    output: [usize; 2],
    planes: Planes,
    weight: &'a [f32],
    grad: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for InputGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, output, planes, weight, grad, out } = self;
        let mut phases = Vec::new();
        for row in Phase::along(shape, 0).filter(|phase| phase.count > 0) {
            for column in Phase::along(shape, 1).filter(|phase| phase.count > 0) {
                phases.push(([row, column], phase_product::<S>(shape, &planes, weight, [row, column])));
            }
        }
        let grad_len = shape.out_channels * output[0] * output[1];
        let (image_len, phases) = (shape.input_len(), &phases[..]);
        let image = |(n, out): (usize, &mut [f32])| {
            simd.vectorize(Image { shape, planes, phases, grad: &grad[n * grad_len..][..grad_len], out });
        };
        if is_parallel(shape.batch, grad.len() * shape.taps()) {
            out.par_chunks_mut(image_len).enumerate().with_max_len(1).for_each(image);
        } else {
            out.chunks_mut(image_len).enumerate().for_each(image);
        }
    }
}

/// Returns the convolution of stride 1 that gives the gradient at one phase of the input.
fn phase_product<S: Simd>(
    shape: ConvolutionShape,
    planes: &Planes,
    weight: &[f32],
    [row, column]: [Phase; 2],
) -> Product {
    let ConvolutionShape { in_channels, out_channels, kernel: [height, width], stride, .. } = shape;
    let mut taps = Vec::new();
    let mut places = Vec::new();
    for o in 0..out_channels {
        for i in 0..row.taps {
            for j in 0..column.taps {
                let y = (row.first as isize - i as isize - planes.origin[0]) as usize;
                let x = (column.first as isize - j as isize - planes.origin[1]) as usize;
                taps.push(planes.phase(o, [0, 0]) + y * planes.size[1] + x);
                let place = (row.phase + stride[0] * i) * width + column.phase + stride[1] * j;
                places.push(o * in_channels * height * width + place);
            }
        }
    }
    let positions = (row.count - 1) * planes.size[1] + column.count;
    Product::new::<S>(in_channels, positions, taps, |channel, t| weight[places[t] + channel * height * width])
}

/// The gradient of one image.
struct Image<'a> {
    shape: ConvolutionShape,
    planes: Planes,
    phases: &'a [([Phase; 2], Product)],
    grad: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Image<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, planes, phases, grad, out } = self;
        let [height, width] = shape.input;
        let [source_len, tile_len] = [Product::source_len, Product::tile_len]
            .map(|len| phases.iter().map(|(_, product)| len(product)).max().unwrap_or(0));
        let source_len = source_len.max(planes.phase(planes.channels, [0, 0]));
        let mut scratch = Scratch::new(source_len + tile_len);
        let (source, sums) = scratch.split_at_mut(source_len);
        source.fill(0.0);
        planes.copy(grad, source);
        if shape.stride[0] > shape.kernel[0] || shape.stride[1] > shape.kernel[1] {
            // No window reaches some of the inputs.
            out.fill(0.0);
        }
        for ([row, column], product) in phases {
            for tile in 0..product.tiles() {
                product.run(simd, tile, source, None, sums);
                let (first, count) = product.rows_of(tile);
                let out = out[first * height * width..][..count * height * width].chunks_exact_mut(height * width);
                for (sums, out) in sums.chunks(product.row_stride()).zip(out) {
                    for y in 0..row.count {
                        let sums = &sums[y * planes.size[1]..][..column.count];
                        let out = &mut out[row.input(shape, 0, y) * width..][..width];
                        let out = &mut out[column.input(shape, 1, 0)..];
                        match shape.stride[1] {
                            1 => copy_row(sums, &mut out[..column.count]),
                            stride => {
                                for (out, sum) in out.iter_mut().step_by(stride).zip(sums) {
                                    *out = *sum;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
