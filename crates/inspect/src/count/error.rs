//! What counting refuses.

use regard_nn::ConfigError;
use regard_nn::config::nearest;

/// A description that cannot be counted, or a file that is not what it should be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CountError {
    /// A field that cannot be read.
    #[error("{field}: {why}")]
    Field {
        /// The path of the field, such as `model.sight.left`.
        field: String,
        /// What came, and what is allowed.
        why: String,
    },
    /// A field with a value that makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A sum above 2¹²⁸ − 1.
    #[error("the model is too large to count: a sum exceeds 2^128 - 1; choose smaller sizes")]
    TooLarge,
    /// No such preset.
    #[error("unknown preset {name:?}{}; all presets: {}", did_you_mean(name, known), known.join(", "))]
    UnknownPreset {
        /// What was asked for.
        name: String,
        /// The presets that exist.
        known: Vec<&'static str>,
    },
    /// The header of a safetensors file, or the index of several.
    #[error("{0}")]
    Stored(String),
}

impl CountError {
    /// `field` cannot be read.
    pub fn field(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Field { field: field.into(), why: why.into() }
    }
}

fn did_you_mean(name: &str, known: &[&'static str]) -> String {
    nearest(name, known.iter().copied()).map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}
