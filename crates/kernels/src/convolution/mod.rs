//! Two-dimensional convolution of images, forward and backward.
//!
//! `out[n, o, y, x] = bias[o] + Σ_{c, i, j} weight[o, c, i, j] · input[n, c, s y + i − p, s x + j − p]` with stride `s` and zeros
//! outside the input: the cross-correlation that PyTorch calls `conv2d`. The gradients are
//!
//! - `∂bias[o] = Σ_{n, y, x} ∂out[n, o, y, x]`,
//! - `∂weight[o, c, i, j] = Σ_{n, y, x} ∂out[n, o, y, x] · input[n, c, s y + i − p, s x + j − p]`,
//! - `∂input[n, c, s m + a − p, s l + b − p] = Σ_{o, i, j} weight[o, c, a + s i, b + s j] · ∂out[n, o, m − i, l − j]` for each
//!   `a, b < s`, a convolution of stride 1 for each pair.
//!
//! The matrix of all windows is never formed, and there are three ways to the sums:
//!
//! - Kernels of 3×3 with stride 1, or stride 2 and padding 1, between many channels are convolved in tiles of 2×2 outputs
//!   with fewer multiplications (`winograd`).
//! - All others read a copy of the image with its zeros (`planes.rs`, `pass.rs`) at one offset for each place of the kernel.
//!   The vectors of a register tile run over output channels (`by_channel.rs`),
//! - or over neighbouring outputs where that wastes fewer lanes, as with few channels (`by_position.rs`).

mod backward;
mod by_channel;
mod by_position;
mod channels_last;
mod forward;
mod kernels;
mod pass;
mod planes;
#[cfg(test)]
mod tests;
mod weight_gradient;
mod winograd;

pub use backward::{ConvolutionGradients, convolution_backward};
pub(crate) use channels_last::transpose;
pub use forward::convolution_forward;

use std::ops::Range;

use rayon::prelude::*;

use crate::error::{KernelError, check_product, check_sizes};
use crate::parallel::is_crowded;

/// The sizes of a convolution. A pair is for height and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvolutionShape {
    /// Number of images.
    pub batch: usize,
    /// Number of channels of the input.
    pub in_channels: usize,
    /// Number of channels of the output.
    pub out_channels: usize,
    /// Height and width of the input.
    pub input: [usize; 2],
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Distance between the windows of neighbouring outputs.
    pub stride: [usize; 2],
    /// Number of zeros on each side of the input.
    pub padding: [usize; 2],
}

impl ConvolutionShape {
    /// Returns height and width of the output; refuses a kernel, stride or number of channels of 0, and a kernel that is
    /// larger than the padded input.
    pub fn output(&self) -> Result<[usize; 2], KernelError> {
        if self.in_channels == 0 {
            let why = "expected at least 1 channel, got 0".to_string();
            return Err(KernelError::Invalid { what: "convolution input", why });
        }
        let [height, width] = [0, 1].map(|axis| self.output_side(axis));
        Ok([height?, width?])
    }

    fn output_side(&self, axis: usize) -> Result<usize, KernelError> {
        let side = ["height", "width"][axis];
        let [input, kernel, stride, padding] = [self.input, self.kernel, self.stride, self.padding].map(|x| x[axis]);
        if kernel == 0 {
            let why = format!("expected a {side} of at least 1, got 0");
            return Err(KernelError::Invalid { what: "convolution kernel", why });
        }
        if stride == 0 {
            let why = format!("expected at least 1 along the {side}, got 0");
            return Err(KernelError::Invalid { what: "convolution stride", why });
        }
        // A quarter of the range leaves room for all sums of positions.
        let padded = padding.checked_mul(2).and_then(|zeros| zeros.checked_add(input));
        let Some(padded) = padded.filter(|&padded| padded <= isize::MAX as usize / 4) else {
            let why = format!("expected a smaller padding, {padding} on each side of a {side} of {input} is too large");
            return Err(KernelError::Invalid { what: "convolution padding", why });
        };
        if kernel > padded {
            let why = format!("expected a {side} of at most {padded}, that of the padded input, got {kernel}");
            return Err(KernelError::Invalid { what: "convolution kernel", why });
        }
        Ok((padded - kernel) / stride + 1)
    }

    /// Returns the number of elements of the output; refuses what [`ConvolutionShape::output`] does, and one that does not
    /// fit in memory.
    pub fn output_len(&self) -> Result<usize, KernelError> {
        let [height, width] = self.output()?;
        [self.out_channels, height, width]
            .into_iter()
            .try_fold(self.batch, |len, size| check_product("convolution out", len, size))
            .and_then(|len| check_product("convolution out", len, size_of::<f32>()).map(|_| len))
    }

    /// Returns the number of places of the kernel in all input channels.
    fn taps(&self) -> usize {
        self.in_channels * self.kernel[0] * self.kernel[1]
    }

    /// Returns the number of elements of an input image.
    fn input_len(&self) -> usize {
        self.in_channels * self.input[0] * self.input[1]
    }

    /// Refuses slices that do not have the sizes of the shape; returns height and width of the output.
    fn check(&self, input: usize, weight: usize, out: (&'static str, usize)) -> Result<[usize; 2], KernelError> {
        let [height, width] = self.output()?;
        let Self { batch, in_channels, out_channels, input: [h, w], kernel: [i, j], .. } = *self;
        check_sizes("convolution input", input, &[batch, in_channels, h, w])?;
        check_sizes("convolution weight", weight, &[out_channels, in_channels, i, j])?;
        check_sizes(out.0, out.1, &[batch, out_channels, height, width])?;
        Ok([height, width])
    }
}

/// Number of multiply-adds up to which one thread is faster than several.
const SERIAL_MULTIPLY_ADDS: usize = 192 * 1024;

/// Returns whether work of so many multiply-adds is split over the threads.
fn is_parallel(multiply_adds: usize) -> bool {
    multiply_adds > SERIAL_MULTIPLY_ADDS && !is_crowded()
}

/// How the images of a batch and their output channels are split over the threads. No sum depends on it.
#[derive(Debug, Clone, Copy)]
struct Split {
    batch: usize,
    /// Number of images in a unit of work.
    images: usize,
    /// Number of units for the output channels of an image.
    parts: usize,
}

impl Split {
    /// Splits a batch of at least 1 image.
    fn new(batch: usize, multiply_adds: usize) -> Self {
        if !is_parallel(multiply_adds) {
            return Self { batch, images: batch, parts: 1 };
        }
        let threads = rayon::current_num_threads();
        // A few units for each thread, since some cores are slower than others at times.
        Self { batch, images: batch.div_ceil(4 * threads), parts: threads.div_ceil(batch) }
    }

    /// Returns the number of output channels in a panel: whole vectors, at most `most`, and a panel for each part.
    fn panel(&self, channels: usize, lanes: usize, most: usize) -> usize {
        channels.div_ceil(self.parts).next_multiple_of(lanes).min(most)
    }

    /// Calls `f(images, panels)` for all images and panels of output channels, each of them once.
    fn for_each(&self, panels: usize, f: impl Fn(Range<usize>, Range<usize>) + Sync) {
        let parts = self.parts.min(panels);
        let unit = |unit: usize| {
            let (images, part) = (unit / parts * self.images, unit % parts);
            f(images..self.batch.min(images + self.images), panels * part / parts..panels * (part + 1) / parts);
        };
        match self.batch.div_ceil(self.images) * parts {
            0 => {}
            1 => unit(0),
            units => (0..units).into_par_iter().with_max_len(1).for_each(unit),
        }
    }
}
