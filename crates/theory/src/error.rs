//! The error type of this crate.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use regard_figures::FigureError;
use regard_system::{RankFailed, available_memory};

/// An invalid setting, a problem that a solver cannot solve, or a failure to draw or to write.
#[derive(Debug, thiserror::Error)]
pub enum TheoryError {
    /// A setting is out of range.
    #[error("{what}: expected {expected}, got {got}")]
    Setting {
        /// Name of the option on the command line.
        what: &'static str,
        /// Allowed values.
        expected: String,
        /// The rejected value.
        got: String,
    },
    /// A message has negative precision: the couplings are too strong for this solver.
    #[error(
        "the precision of spin {spin} turned negative ({precision:.2e}) in iteration {iteration}: the couplings are too \
         strong for this solver; use --solver exact, more prompts or a larger λ"
    )]
    NegativePrecision {
        /// Index `m · D + n` of the spin `W_mn`.
        spin: usize,
        /// First iteration with a negative precision.
        iteration: usize,
        /// The precision, in units of β.
        precision: f64,
    },
    /// The Hessian has a negative or a vanishing eigenvalue, so the solver finds no ground state.
    #[error("the Hessian is not positive definite with λ = {lambda}, so there is no ground state; use a larger λ")]
    Indefinite {
        /// The regularisation `λ`.
        lambda: f64,
    },
    /// An eigenvalue decomposition did not converge.
    #[error("computing eigenvalues failed: {why}")]
    Eigenvalues {
        /// Error of the linear algebra library.
        why: String,
    },
    /// Training diverged: the error is no longer a number.
    #[error("the training of {model} diverged; use a smaller --rate")]
    Diverged {
        /// Name of the model.
        model: &'static str,
    },
    /// Another process that shares the work failed.
    #[error(transparent)]
    Rank(#[from] RankFailed),
    /// There is not enough memory.
    #[error("{what} needs about {needed:.1} GiB of memory, but only {available:.1} GiB are free; use smaller settings")]
    Memory {
        /// The object that does not fit.
        what: String,
        /// Needed memory in GiB.
        needed: f64,
        /// Available memory in GiB.
        available: f64,
    },
    /// A figure could not be drawn or written.
    #[error(transparent)]
    Figure(#[from] FigureError),
    /// A file of results could not be read or written.
    #[error("{path}: {problem}", path = path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The problem and what to do about it.
        problem: String,
    },
}

impl TheoryError {
    /// Creates a [`TheoryError::Setting`].
    pub fn setting(what: &'static str, expected: impl Into<String>, got: impl ToString) -> Self {
        Self::Setting { what, expected: expected.into(), got: got.to_string() }
    }

    /// Creates a [`TheoryError::Eigenvalues`], for `map_err`.
    pub(crate) fn eigenvalues(error: impl Debug) -> Self {
        Self::Eigenvalues { why: format!("{error:?}") }
    }

    /// Returns the value called `name`, or an error that lists the names.
    pub(crate) fn one_of<T: Copy>(what: &'static str, names: &[(&str, T)], name: &str) -> Result<T, Self> {
        let known = || names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let found = names.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value).ok_or_else(|| Self::setting(what, format!("one of {}", known()), name))
    }

    /// Returns an error if `got` is out of `range`.
    pub(crate) fn check_range(what: &'static str, range: RangeInclusive<usize>, got: usize) -> Result<(), Self> {
        match range.contains(&got) {
            true => Ok(()),
            false => Err(Self::setting(what, format!("{} to {}", range.start(), range.end()), got)),
        }
    }

    /// Returns an error if this many `f64` do not fit in memory. Passes if the system does not report its available memory.
    pub(crate) fn check_memory(what: impl Into<String>, numbers: f64) -> Result<(), Self> {
        const GIB: f64 = (1u64 << 30) as f64;
        let (needed, available) =
            (8.0 * numbers / GIB, available_memory().map_or(f64::INFINITY, |bytes| bytes as f64 / GIB));
        match needed <= available {
            true => Ok(()),
            false => Err(Self::Memory { what: what.into(), needed, available }),
        }
    }

    /// Returns true for invalid settings, false for work that failed.
    pub fn is_wrong_use(&self) -> bool {
        matches!(self, Self::Setting { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_larger_than_memory_are_refused() {
        TheoryError::check_memory("a number", 1.0).unwrap();
        if available_memory().is_some() {
            let error = TheoryError::check_memory("a spin glass", 1e15).unwrap_err();
            assert!(
                !error.is_wrong_use() && error.to_string().starts_with("a spin glass needs about 7450580.6 GiB"),
                "{error}"
            );
        }
    }
}
