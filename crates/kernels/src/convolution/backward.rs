//! The backward pass of a convolution: its gradients, and that of the input.

use pulp::{Simd, WithSimd};

use super::kernels::Kernels;
use super::pass::{Part, Pass, Vectors};
use super::planes::Planes;
use super::weight_gradient::weight_gradient;
use super::{ConvolutionShape, winograd};
use crate::error::{KernelError, check_len};
use crate::isa::dispatch;

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
        let Self { shape, output, planes, weight, grad: images, out } = self;
        if winograd::applies(shape, output) {
            return winograd::input_gradient(simd, shape, output, images, weight, out);
        }
        let (batch, kernels) = (shape.batch, Kernels::new(shape, weight).swapped());
        let mut parts = Vec::new();
        for row in Phase::along(shape, 0).filter(|phase| phase.count > 0) {
            for column in Phase::along(shape, 1).filter(|phase| phase.count > 0) {
                parts.push(phase_part(shape, &planes, [row, column]));
            }
        }
        if parts.is_empty() {
            // No window reaches any input.
            return out.fill(0.0);
        }
        let terms = parts.iter().map(|part| part.taps.len()).sum::<usize>().div_ceil(parts.len());
        let size = [0, 1].map(|axis| parts.iter().map(|part| part.size[axis]).max().unwrap_or(1));
        let vectors = Vectors::faster::<S>(shape.in_channels, terms, size, planes.size[1]);
        Pass { batch, images, planes, kernels, vectors, parts, start: None }.run(simd, out);
    }
}

/// Returns the convolution of stride 1 that gives the gradient at one phase of the input.
fn phase_part(shape: ConvolutionShape, planes: &Planes, [row, column]: [Phase; 2]) -> Part {
    let ConvolutionShape { input, kernel, stride, .. } = shape;
    let mut offsets = Vec::new();
    let mut places = Vec::new();
    for i in 0..row.taps {
        for j in 0..column.taps {
            let y = (row.first as isize - i as isize - planes.origin[0]) as usize;
            let x = (column.first as isize - j as isize - planes.origin[1]) as usize;
            offsets.push(y * planes.size[1] + x);
            places.push((row.phase + stride[0] * i) * kernel[1] + column.phase + stride[1] * j);
        }
    }
    let channel = |o: usize| offsets.iter().map(move |offset| planes.phase(o, [0, 0]) + offset);
    Part {
        size: [row.count, column.count],
        source: [planes.size[1], 1],
        out: (row.input(shape, 0, 0) * input[1] + column.input(shape, 1, 0), [stride[0] * input[1], stride[1]]),
        taps: (0..shape.out_channels).flat_map(channel).collect(),
        places,
    }
}
