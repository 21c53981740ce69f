//! The forward pass of a convolution.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::planes::{Planes, copy_row};
use super::product::Product;
use super::{ConvolutionShape, is_parallel};
use crate::error::{KernelError, check_len};
use crate::isa::dispatch;
use crate::scratch::Scratch;

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
    let planes = input_planes(shape, output);
    planes.len()?;
    dispatch(Forward { shape, output, planes, input, weight, bias, out });
    Ok(())
}

/// Returns the layout in which each place of the kernel reads consecutive elements for consecutive outputs.
pub(super) fn input_planes(shape: ConvolutionShape, output: [usize; 2]) -> Planes {
    let ConvolutionShape { kernel, stride, padding, .. } = shape;
    Planes {
        channels: shape.in_channels,
        image: shape.input,
        origin: padding.map(|padding| -(padding as isize)),
        stride,
        phases: [0, 1].map(|axis| stride[axis].min(kernel[axis])),
        size: [0, 1].map(|axis| output[axis] + (kernel[axis] - 1) / stride[axis]),
    }
}

/// Returns the offset in the planes of each place of the kernel, in the order of the weights.
pub(super) fn input_taps(shape: ConvolutionShape, planes: &Planes) -> Vec<usize> {
    let ConvolutionShape { kernel: [height, width], stride, .. } = shape;
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
    planes: Planes,
    input: &'a [f32],
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    out: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, output, planes, input, weight, bias, out } = self;
        let terms = shape.taps();
        let positions = (output[0] - 1) * planes.size[1] + output[1];
        let product = Product::new::<S>(shape.out_channels, positions, input_taps(shape, &planes), |row, t| {
            weight[row * terms + t]
        });
        let image_len = out.len() / shape.batch;
        let multiply_adds = out.len() * terms;
        let (product, input_len) = (&product, shape.input_len());
        let image = |(n, out): (usize, &mut [f32])| {
            simd.vectorize(Image { planes, product, image: &input[n * input_len..][..input_len], bias, output, out });
        };
        if is_parallel(shape.batch, multiply_adds) {
            out.par_chunks_mut(image_len).enumerate().with_max_len(1).for_each(image);
        } else {
            out.chunks_mut(image_len).enumerate().for_each(image);
        }
    }
}

/// The convolution of one image.
struct Image<'a> {
    planes: Planes,
    product: &'a Product,
    image: &'a [f32],
    bias: Option<&'a [f32]>,
    output: [usize; 2],
    out: &'a mut [f32],
}

impl WithSimd for Image<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { planes, product, image, bias, output: [height, width], out } = self;
        let source_len = product.source_len().max(planes.phase(planes.channels, [0, 0]));
        let mut scratch = Scratch::new(source_len + product.tile_len());
        let (source, sums) = scratch.split_at_mut(source_len);
        source.fill(0.0);
        planes.copy(image, source);
        for tile in 0..product.tiles() {
            product.run(simd, tile, source, bias, sums);
            let (first, count) = product.rows_of(tile);
            let out = out[first * height * width..][..count * height * width].chunks_exact_mut(height * width);
            for (sums, out) in sums.chunks(product.row_stride()).zip(out) {
                for (y, out) in out.chunks_exact_mut(width).enumerate() {
                    copy_row(&sums[y * planes.size[1]..][..width], out);
                }
            }
        }
    }
}
