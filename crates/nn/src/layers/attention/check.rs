//! Input checks of the attention layers, made before Burn is called because Burn panics on invalid inputs.

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use regard_ops::OpError;

use crate::error::NnError;

/// The expected size of one dimension of an input.
#[derive(Debug, Clone, Copy)]
pub(super) enum Size {
    /// Exactly this size.
    Is(usize),
    /// Any size of at least 1, with its name for error messages.
    Any(&'static str),
}

/// Returns an error unless the elements are `f32` and the shape matches `expected`.
pub(super) fn check_input<const D: usize>(
    what: &'static str,
    input: &Tensor<D>,
    expected: [Size; D],
) -> Result<(), NnError> {
    if input.dtype() != DType::F32 {
        return Err(OpError::DType { what, expected: "f32", got: input.dtype() }.into());
    }
    let fits = |(&got, expected): (&usize, &Size)| match expected {
        Size::Is(size) => got == *size,
        Size::Any(_) => got > 0,
    };
    if input.dims().iter().zip(&expected).all(fits) {
        return Ok(());
    }
    let names = expected.map(|size| match size {
        Size::Is(size) => size.to_string(),
        Size::Any(name) => format!("{name} of 1 or more"),
    });
    Err(OpError::Shape { what, expected: format!("[{}]", names.join(", ")), got: input.dims().to_vec() }.into())
}

/// Returns an error unless there is one length per sequence, each at most `keys`.
pub(super) fn check_lengths(lengths: Option<&[usize]>, batch: usize, keys: usize) -> Result<(), NnError> {
    match lengths {
        Some(lengths) if lengths.len() != batch || lengths.iter().any(|&length| length > keys) => {
            Err(NnError::input("lengths", format!("{batch} numbers, each from 0 to {keys}"), format!("{lengths:?}")))
        }
        _ => Ok(()),
    }
}

/// Replaces the padding of `x` `[batch, keys, width]` with zeros, so that its content, even NaN, has no effect.
pub(super) fn blank(x: Tensor<3>, padding: &Tensor<3, Bool>) -> Tensor<3> {
    let dims = x.dims();
    x.mask_fill(padding.clone().swap_dims(1, 2).expand(dims), 0.0)
}

/// Returns a mask that is true at padding, `[batch, 1, keys]`.
pub(super) fn padding(lengths: &[usize], keys: usize, device: &Device) -> Tensor<3, Bool> {
    let hidden: Vec<bool> = lengths.iter().flat_map(|&length| (0..keys).map(move |key| key >= length)).collect();
    Tensor::from_data(TensorData::new(hidden, [lengths.len(), 1, keys]), device)
}
