//! Input checks of the attention layers, made before Burn is called because Burn panics on invalid inputs.

use burn::tensor::{DType, Tensor};
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
