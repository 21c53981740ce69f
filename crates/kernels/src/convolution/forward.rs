//! The forward pass of a convolution.

use pulp::{Simd, WithSimd};

use super::kernels::Kernels;
use super::pass::{Part, Pass, Vectors};
use super::planes::Planes;
use super::{ConvolutionShape, winograd};
use crate::error::{KernelError, check_len};
use crate::isa::dispatch;

/// Computes `out`, the convolution of `input` with `weight` plus `bias`. The sums of an image do not depend on the others.
///
/// # Shapes
/// `input` `[batch, in_channels, height, width]`, `weight` `[out_channels, in_channels, kernel_h, kernel_w]`, `bias`
/// `[out_channels]`, `out` `[batch, out_channels, out_h, out_w]` with the sizes of [`ConvolutionShape::output`].
pub fn convolution_forward(
    shape: ConvolutionShape,
    input: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let output = shape.check(input.len(), weight.len(), ("convolution out", out.len()))?;
    check_len("convolution bias", bias.map_or(shape.out_channels, <[f32]>::len), shape.out_channels)?;
    if out.is_empty() {
        return Ok(());
    }
    phase_planes(shape, output).len()?;
    input_planes(shape, output).0.len()?;
    dispatch(Forward { shape, output, input, weight, bias, out });
    Ok(())
}

/// Returns a layout of the input with its zeros, and the distance in it from a row and from a column of outputs to the next.
pub(super) fn input_planes(shape: ConvolutionShape, output: [usize; 2]) -> (Planes, [usize; 2]) {
    let ConvolutionShape { input, kernel, stride, padding, .. } = shape;
    if padding != [0, 0] && (stride[0] > kernel[0] || stride[1] > kernel[1]) {
        // Some inputs are never seen and need not be copied.
        let planes = phase_planes(shape, output);
        return (planes, [planes.size[1], 1]);
    }
    let size = [0, 1].map(|axis| input[axis] + 2 * padding[axis]);
    let planes = Planes { stride: [1, 1], phases: [1, 1], size, ..phase_planes(shape, output) };
    (planes, [stride[0] * size[1], stride[1]])
}

/// Returns the layout in which each place of the kernel reads consecutive elements for consecutive outputs.
fn phase_planes(shape: ConvolutionShape, output: [usize; 2]) -> Planes {
    let ConvolutionShape { kernel, stride, .. } = shape;
    Planes {
        channels: shape.in_channels,
        image: shape.input,
        origin: shape.padding.map(|padding| -(padding as isize)),
        stride,
        phases: [0, 1].map(|axis| stride[axis].min(kernel[axis])),
        size: [0, 1].map(|axis| output[axis] + (kernel[axis] - 1) / stride[axis]),
    }
}

/// Returns the offset in the planes of each place of the kernel, in the order of the weights.
pub(super) fn input_taps(shape: ConvolutionShape, planes: &Planes) -> Vec<usize> {
    let ([height, width], stride) = (shape.kernel, planes.stride);
    let mut taps = Vec::with_capacity(shape.taps());
    for channel in 0..shape.in_channels {
        for i in 0..height {
            for j in 0..width {
                let phase = planes.phase(channel, [i % stride[0], j % stride[1]]);
                taps.push(phase + i / stride[0] * planes.size[1] + j / stride[1]);
            }
        }
    }
    taps
}

struct Forward<'a> {
    shape: ConvolutionShape,
    output: [usize; 2],
    input: &'a [f32],
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    out: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, output, input: images, weight, bias: start, out } = self;
        if winograd::applies(shape, output) {
            return winograd::forward(simd, shape, output, images, weight, start, out);
        }
        let (batch, kernels) = (shape.batch, Kernels::new(shape, weight));
        let planes = phase_planes(shape, output);
        let vectors = Vectors::faster::<S>(shape.out_channels, shape.taps(), output, planes.size[1]);
        let (planes, source) = match vectors {
            Vectors::Positions => (planes, [planes.size[1], 1]),
            Vectors::Channels => input_planes(shape, output),
        };
        let part = Part {
            size: output,
            source,
            out: (0, [output[1], 1]),
            taps: input_taps(shape, &planes),
            places: (0..kernels.places).collect(),
        };
        Pass { batch, images, planes, kernels, vectors, parts: vec![part], start }.run(simd, out);
    }
}
