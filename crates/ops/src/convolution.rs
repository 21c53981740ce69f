//! Fused two-dimensional convolution of images.

use burn::tensor::Tensor;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn_flex::FlexTensor;
use regard_kernels::convolution::{ConvolutionGradients, ConvolutionShape, convolution_backward, convolution_forward};
use regard_kernels::unwritten;

use crate::error::{OpError, check_shape};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, tensor};

/// Where the windows of a convolution lie. A pair is for height and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvolutionOptions {
    /// Distance between the windows of neighbouring outputs, at least 1.
    pub stride: [usize; 2],
    /// Number of zeros on each side of the input.
    pub padding: [usize; 2],
}

impl Default for ConvolutionOptions {
    /// Windows at every position, without padding.
    fn default() -> Self {
        Self::square(1, 0)
    }
}

impl ConvolutionOptions {
    /// Returns the options with the same stride and padding for height and width.
    pub fn square(stride: usize, padding: usize) -> Self {
        Self { stride: [stride; 2], padding: [padding; 2] }
    }
}

/// Computes the cross-correlation of images with a kernel, plus a bias for each output channel.
///
/// # Shapes
/// `x` `[batch, in_channels, height, width]`, `weight` `[out_channels, in_channels, kernel_h, kernel_w]`, `bias`
/// `[out_channels]` → `[batch, out_channels, out_h, out_w]`, where `out_h` is
/// `⌊(height + 2 padding − kernel_h) / stride⌋ + 1` and `out_w` likewise.
pub fn convolution(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    options: &ConvolutionOptions,
) -> Result<Tensor<4>, OpError> {
    let shape = check(&x, &weight, &bias, options)?;
    if !is_fused(&x) {
        return Ok(convolution_fallback(x, weight, bias, options));
    }
    let operation = Convolution { shape, output: shape.output()? };
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    match bias {
        Some(bias) => apply(operation, [x, weight, bias.into_dispatch()]),
        None => apply(operation, [x, weight]),
    }
}

/// [`convolution`] in plain Burn operations, without its argument checks.
pub fn convolution_fallback(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    options: &ConvolutionOptions,
) -> Tensor<4> {
    conv2d(x, weight, bias, ConvOptions::new(options.stride, options.padding, [1, 1], 1))
}

/// Checks the arguments and returns their sizes.
fn check(
    x: &Tensor<4>,
    weight: &Tensor<4>,
    bias: &Option<Tensor<1>>,
    options: &ConvolutionOptions,
) -> Result<ConvolutionShape, OpError> {
    check_f32("input", x)?;
    check_f32("weight", weight)?;
    let [batch, in_channels, height, width] = x.dims();
    let [out_channels, channels, kernel_h, kernel_w] = weight.dims();
    if in_channels != channels {
        let expected = format!("[batch, {channels}, height, width]");
        return Err(OpError::Shape { what: "input", expected, got: x.dims().to_vec() });
    }
    if let Some(bias) = bias {
        check_f32("bias", bias)?;
        check_shape("bias", bias.dims(), [out_channels])?;
    }
    let ConvolutionOptions { stride, padding } = *options;
    let (input, kernel) = ([height, width], [kernel_h, kernel_w]);
    let shape = ConvolutionShape { batch, in_channels, out_channels, input, kernel, stride, padding };
    shape.output_len()?;
    Ok(shape)
}

/// The fused operation. Its inputs are `x`, the weight, and optionally the bias.
#[derive(Debug, Clone)]
struct Convolution {
    shape: ConvolutionShape,
    /// Height and width of the output.
    output: [usize; 2],
}

/// Values kept for the backward pass.
#[derive(Debug, Clone)]
struct Saved {
    x: FlexTensor,
    weight: FlexTensor,
}

impl<const N: usize> FusedOp<N> for Convolution {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; N], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let mut inputs = inputs.into_iter().map(contiguous);
        let (x, weight) = (inputs.next().expect("x"), inputs.next().expect("weight"));
        let bias = inputs.next();
        let mut out = unwritten(self.shape.output_len()?);
        convolution_forward(self.shape, elements(&x), elements(&weight), bias.as_ref().map(elements), &mut out)?;
        let [height, width] = self.output;
        Ok((tensor(out, [self.shape.batch, self.shape.out_channels, height, width]), Saved { x, weight }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, wanted: [bool; N]) -> Result<[Option<FlexTensor>; N], OpError> {
        let grad = contiguous(grad);
        let (x, weight) = (elements(&saved.x), elements(&saved.weight));
        let lens = [x.len(), weight.len(), self.shape.out_channels];
        let mut grads: [Option<Vec<f32>>; 3] =
            std::array::from_fn(|at| wanted.get(at).is_some_and(|&wanted| wanted).then(|| unwritten(lens[at])));
        let [grad_x, grad_weight, grad_bias] = &mut grads;
        let gradients = ConvolutionGradients {
            input: grad_x.as_deref_mut(),
            weight: grad_weight.as_deref_mut(),
            bias: grad_bias.as_deref_mut(),
        };
        convolution_backward(self.shape, x, weight, elements(&grad), gradients)?;
        let [grad_x, grad_weight, grad_bias] = grads;
        let mut all = [
            grad_x.map(|grad| tensor(grad, saved.x.layout().shape().clone())),
            grad_weight.map(|grad| tensor(grad, saved.weight.layout().shape().clone())),
            grad_bias.map(|grad| tensor(grad, [self.shape.out_channels])),
        ]
        .into_iter();
        Ok(std::array::from_fn(|_| all.next().flatten()))
    }
}
