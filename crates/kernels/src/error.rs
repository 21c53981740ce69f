//! The error that a kernel returns before it touches any memory, and the checks of sizes.

/// A call that a kernel refuses; nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// A slice is shorter or longer than the shape needs.
    #[error("{what}: expected {expected} elements, got {got}")]
    Length {
        /// Name of the argument.
        what: &'static str,
        /// Number of elements that the shape needs.
        expected: usize,
        /// Number of elements in the slice.
        got: usize,
    },
    /// A strided view reaches past the end of its slice.
    #[error("{what}: the view reaches element {reach} of a slice of {len}")]
    OutOfBounds {
        /// Name of the argument.
        what: &'static str,
        /// One past the furthest element the strides address.
        reach: usize,
        /// Length of the slice.
        len: usize,
    },
    /// An argument is out of range, or two sizes do not fit together.
    #[error("{what}: {why}")]
    Invalid {
        /// Name of the argument.
        what: &'static str,
        /// What was expected and what was found.
        why: String,
    },
}

/// Refuses a slice whose length is not `expected`.
pub(crate) fn check_len(what: &'static str, got: usize, expected: usize) -> Result<(), KernelError> {
    if got == expected { Ok(()) } else { Err(KernelError::Length { what, expected, got }) }
}

/// Returns the number of rows of `width` elements in a slice of `len`; refuses a width of zero and a remainder.
pub(crate) fn check_rows(what: &'static str, len: usize, width: usize) -> Result<usize, KernelError> {
    if width == 0 || !len.is_multiple_of(width) {
        let why = format!("expected a whole number of rows of {width} elements, got {len} elements");
        return Err(KernelError::Invalid { what, why });
    }
    Ok(len / width)
}

/// Returns `a · b`; refuses a product that does not fit in a `usize`.
pub(crate) fn check_product(what: &'static str, a: usize, b: usize) -> Result<usize, KernelError> {
    a.checked_mul(b)
        .ok_or_else(|| KernelError::Invalid { what, why: format!("{a} × {b} elements do not fit in memory") })
}

/// Refuses a slice that does not have the product of `sizes` elements.
pub(crate) fn check_sizes(what: &'static str, got: usize, sizes: &[usize]) -> Result<(), KernelError> {
    let expected = sizes.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
    match expected {
        Some(expected) => check_len(what, got, expected),
        // The product is 0, although the factors before the zero overflow.
        None if sizes.contains(&0) => check_len(what, got, 0),
        None => Err(KernelError::Invalid {
            what,
            why: format!("the sizes {sizes:?} do not fit in memory, got {got} elements"),
        }),
    }
}

/// Refuses strides that address an element past the end of a slice of `len`; returns one past the furthest index.
///
/// Each pair is an extent and its stride. Sizes that overflow are refused too, so that no later product can wrap.
pub(crate) fn check_reach(what: &'static str, extents: &[(usize, usize)], len: usize) -> Result<usize, KernelError> {
    if extents.iter().any(|(extent, _)| *extent == 0) {
        return Ok(0);
    }
    let reach = extents
        .iter()
        .try_fold(1_usize, |reach, (extent, stride)| reach.checked_add((extent - 1).checked_mul(*stride)?));
    match reach {
        Some(reach) if reach <= len => Ok(reach),
        reach => Err(KernelError::OutOfBounds { what, reach: reach.unwrap_or(usize::MAX), len }),
    }
}
