//! Errors of layers and models: an invalid configuration, or inputs that do not fit.

use regard_ops::OpError;

/// Error from building or calling a layer or model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NnError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An operation rejected its arguments.
    #[error(transparent)]
    Op(#[from] OpError),
    /// The caller cancelled the pass.
    #[error("cancelled")]
    Cancelled,
    /// An input does not fit the layer.
    #[error("{what}: expected {expected}, got {got}")]
    Input {
        /// Name of the argument.
        what: &'static str,
        /// Shape or value that was expected.
        expected: String,
        /// Shape or value that was given.
        got: String,
    },
}

impl NnError {
    /// Creates an [`NnError::Input`].
    pub fn input(what: &'static str, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self::Input { what, expected: expected.into(), got: got.into() }
    }
}

/// Error for a configuration field whose value is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} = {got}: expected {allowed}")]
pub struct ConfigError {
    /// Path of the field, such as `model.position.base`.
    pub field: String,
    /// Value that was given.
    pub got: String,
    /// Description of the values that are allowed.
    pub allowed: String,
}

impl ConfigError {
    /// Creates an error: `field` has the value `got`, but `allowed` is expected.
    pub fn new(field: impl Into<String>, got: impl ToString, allowed: impl Into<String>) -> Self {
        Self { field: field.into(), got: got.to_string(), allowed: allowed.into() }
    }

    /// Prefixes the field's path with `part`, the name under which an outer configuration holds this one.
    pub fn within(mut self, part: &str) -> Self {
        self.field = format!("{part}.{}", self.field);
        self
    }
}
