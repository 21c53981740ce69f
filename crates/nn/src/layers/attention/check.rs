//! What the layers of this folder refuse before Burn is entered, which would panic.

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use regard_ops::OpError;

use crate::error::NnError;

/// A size of an input.
#[derive(Debug, Clone, Copy)]
pub(super) enum Size {
    /// This one.
    Is(usize),
    /// Any from 1, with its name.
    Any(&'static str),
}

/// Refuses elements that are not `f32`, and sizes that do not fit.
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

/// Refuses lengths that are not one a sequence and at most `keys`.
pub(super) fn check_lengths(lengths: Option<&[usize]>, batch: usize, keys: usize) -> Result<(), NnError> {
    match lengths {
        Some(lengths) if lengths.len() != batch || lengths.iter().any(|&length| length > keys) => {
            Err(NnError::input("lengths", format!("{batch}, each from 0 to {keys}"), format!("{lengths:?}")))
        }
        _ => Ok(()),
    }
}

/// `x` `[batch, keys, width]` with zeros at padding: whatever stands there, a NaN too, reaches nothing.
pub(super) fn blank(x: Tensor<3>, padding: &Tensor<3, Bool>) -> Tensor<3> {
    let dims = x.dims();
    x.mask_fill(padding.clone().swap_dims(1, 2).expand(dims), 0.0)
}

/// True where there is padding, `[batch, 1, keys]`.
pub(super) fn padding(lengths: &[usize], keys: usize, device: &Device) -> Tensor<3, Bool> {
    let hidden: Vec<bool> = lengths.iter().flat_map(|&length| (0..keys).map(move |key| key >= length)).collect();
    Tensor::from_data(TensorData::new(hidden, [lengths.len(), 1, keys]), device)
}
