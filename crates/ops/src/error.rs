//! The errors of the operations. Arguments are checked before Burn is called, because Burn panics on invalid ones.

use burn::tensor::DType;
use regard_kernels::KernelError;

/// An error returned by an operation whose arguments are invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OpError {
    /// A tensor has the wrong shape.
    #[error("{what}: expected a shape {expected}, got {got:?}")]
    Shape {
        /// Name of the argument.
        what: &'static str,
        /// Expected shape; sizes that may vary are given by name.
        expected: String,
        /// Actual shape.
        got: Vec<usize>,
    },
    /// A tensor has an element type that the operation does not support.
    #[error("{what}: expected elements of type {expected}, got {got:?}; cast the tensor first")]
    DType {
        /// Name of the argument.
        what: &'static str,
        /// Supported element type.
        expected: &'static str,
        /// Actual element type.
        got: DType,
    },
    /// An option or an index has an invalid value.
    #[error("{what}: {why}")]
    Option {
        /// Name of the option.
        what: &'static str,
        /// The expected and the actual value.
        why: String,
    },
    /// An edge of a graph refers to a node that does not exist.
    #[error("edge {index}, {} → {}: expected node numbers below {nodes}", edge.0, edge.1)]
    Edge {
        /// Index of the edge in the list.
        index: usize,
        /// Source and target of the edge.
        edge: (usize, usize),
        /// Number of nodes of the graph.
        nodes: usize,
    },
    /// A kernel rejected its arguments.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl OpError {
    /// The error for tensors of one operation that are on different backends.
    pub(crate) fn other_device() -> Self {
        let why = "all tensors of an operation must be on the same device; move them with `to_device`".to_string();
        Self::Option { what: "device", why }
    }
}

/// Returns an error unless `got` equals `expected`.
pub(crate) fn check_shape<const D: usize>(
    what: &'static str,
    got: [usize; D],
    expected: [usize; D],
) -> Result<(), OpError> {
    if got == expected {
        return Ok(());
    }
    Err(OpError::Shape { what, expected: format!("{expected:?}"), got: got.to_vec() })
}

/// Returns the last size of a shape, or an error for a scalar or a last size of zero.
pub(crate) fn check_width(what: &'static str, got: &[usize]) -> Result<usize, OpError> {
    match got.last() {
        Some(&width) if width > 0 => Ok(width),
        _ => Err(OpError::Shape { what, expected: "[…, at least 1]".to_string(), got: got.to_vec() }),
    }
}

/// Returns an error unless the dropout probability is in `[0, 1)`.
pub(crate) fn check_probability(probability: f32) -> Result<(), OpError> {
    let why = || format!("expected at least 0 and less than 1, got {probability}");
    let fits = (0.0..1.0).contains(&probability);
    if fits { Ok(()) } else { Err(OpError::Option { what: "dropout probability", why: why() }) }
}

/// Returns an error unless the epsilon of a norm is finite and at least 0.
pub(crate) fn check_epsilon(epsilon: f32) -> Result<(), OpError> {
    let why = || format!("expected a finite number of at least 0, got {epsilon}");
    let fits = epsilon.is_finite() && epsilon >= 0.0;
    if fits { Ok(()) } else { Err(OpError::Option { what: "epsilon", why: why() }) }
}
