//! The error type of counting.

use regard_nn::ConfigError;
use regard_nn::config::nearest;

/// An invalid description, an unknown preset or an unreadable safetensors file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CountError {
    /// A field could not be read.
    #[error("{field}: {why}")]
    Field {
        /// Path of the field, such as `model.sight.left`.
        field: String,
        /// The found value and the allowed ones.
        why: String,
    },
    /// A field has an invalid value.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A sum is larger than 2¹²⁸ − 1.
    #[error("the model is too large to count: a sum exceeds 2^128 - 1; choose smaller sizes")]
    TooLarge,
    /// There is no preset of this name.
    #[error("unknown preset {name:?}{}; all presets: {}", did_you_mean(name, known), known.join(", "))]
    UnknownPreset {
        /// The unknown name.
        name: String,
        /// Names of all presets.
        known: Vec<&'static str>,
    },
    /// The header of a safetensors file, or the index of several files, is invalid.
    #[error("{0}")]
    Stored(String),
}

impl CountError {
    /// Creates a [`CountError::Field`].
    pub fn field(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Field { field: field.into(), why: why.into() }
    }
}

fn did_you_mean(name: &str, known: &[&'static str]) -> String {
    nearest(name, known.iter().copied()).map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}
