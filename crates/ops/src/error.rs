//! What an operation refuses, before Burn or a kernel is entered: Burn itself panics.

use burn::tensor::DType;
use regard_kernels::KernelError;

/// A call that cannot be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OpError {
    /// A tensor has another shape than the others demand.
    #[error("{what}: expected a shape {expected}, got {got:?}")]
    Shape {
        /// The argument.
        what: &'static str,
        /// What would fit, with names for free sizes.
        expected: String,
        /// What came.
        got: Vec<usize>,
    },
    /// A tensor has an element type the operation does not take.
    #[error("{what}: expected elements of type {expected}, got {got:?}; cast the tensor first")]
    DType {
        /// The argument.
        what: &'static str,
        /// What is taken.
        expected: &'static str,
        /// What came.
        got: DType,
    },
    /// An option makes no sense, alone or here.
    #[error("{what}: {why}")]
    Option {
        /// The option.
        what: &'static str,
        /// What was expected and what came.
        why: String,
    },
    /// An edge of a graph leads from or to a node that is not there.
    #[error("edge {index}, {} → {}: the nodes are numbered below {nodes}", edge.0, edge.1)]
    Edge {
        /// The place of the edge in the list.
        index: usize,
        /// The source and the target of the edge.
        edge: (usize, usize),
        /// Nodes of the graph.
        nodes: usize,
    },
    /// A kernel refused its arguments.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl OpError {
    /// Tensors of one operation are on different backends.
    pub(crate) fn other_device() -> Self {
        let why = "all tensors of an operation must be on the same device; move them with `to_device`".to_string();
        Self::Option { what: "device", why }
    }
}

/// Refuses a tensor of another shape.
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

/// The last size of a shape; refuses a scalar and a size of zero.
pub(crate) fn check_width(what: &'static str, got: &[usize]) -> Result<usize, OpError> {
    match got.last() {
        Some(&width) if width > 0 => Ok(width),
        _ => Err(OpError::Shape { what, expected: "[…, at least 1]".to_string(), got: got.to_vec() }),
    }
}
