//! What a layer refuses: a configuration that makes no sense, or inputs that do not fit.

use regard_ops::OpError;

/// A layer that cannot be built or a call that cannot be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NnError {
    /// The configuration makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An operation refused its arguments.
    #[error(transparent)]
    Op(#[from] OpError),
    /// The caller cancelled the pass.
    #[error("cancelled")]
    Cancelled,
    /// An input does not fit the layer.
    #[error("{what}: expected {expected}, got {got}")]
    Input {
        /// The argument.
        what: &'static str,
        /// What would fit.
        expected: String,
        /// What came.
        got: String,
    },
}

impl NnError {
    /// An input that does not fit.
    pub fn input(what: &'static str, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self::Input { what, expected: expected.into(), got: got.into() }
    }
}

/// A field of a configuration with a value that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} = {got}: expected {allowed}")]
pub struct ConfigError {
    /// The path of the field, such as `model.position.base`.
    pub field: String,
    /// What was given.
    pub got: String,
    /// What would be allowed.
    pub allowed: String,
}

impl ConfigError {
    /// `field` has the value `got` where `allowed` is expected.
    pub fn new(field: impl Into<String>, got: impl ToString, allowed: impl Into<String>) -> Self {
        Self { field: field.into(), got: got.to_string(), allowed: allowed.into() }
    }

    /// The same error seen from the configuration that holds this one as `part`.
    pub fn within(mut self, part: &str) -> Self {
        self.field = format!("{part}.{}", self.field);
        self
    }
}
