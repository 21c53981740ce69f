//! What cannot be solved, and why.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use regard_inspect::InspectError;
use regard_inspect::count::available_memory;

/// A setting that makes no sense, or a problem that a solver cannot solve.
#[derive(Debug, thiserror::Error)]
pub enum TheoryError {
    /// A setting out of range.
    #[error("{what}: expected {expected}, got {got}")]
    Setting {
        /// The name of the option on the command line.
        what: &'static str,
        /// What would fit.
        expected: String,
        /// What came.
        got: String,
    },
    /// A message says less than nothing: the couplings are too strong for this solver.
    #[error(
        "the precision of spin {spin} turned negative ({precision:.2e}) in iteration {iteration}: the couplings are too \
         strong for this solver here; use --solver exact, or more prompts or a larger λ"
    )]
    NegativePrecision {
        /// `m · D + n` of `W_mn`.
        spin: usize,
        /// The first in which it happened.
        iteration: usize,
        /// In units of β.
        precision: f64,
    },
    /// There is no ground state.
    #[error("the Hessian is not positive definite with λ = {lambda}: there is no ground state; take a larger λ")]
    Indefinite {
        /// The regularisation.
        lambda: f64,
    },
    /// A decomposition did not converge.
    #[error("the eigenvalues could not be found: {why}")]
    Eigenvalues {
        /// What the library says.
        why: String,
    },
    /// It would not fit.
    #[error("{what} needs about {needed:.1} GiB of memory and {available:.1} GiB are free; take smaller numbers")]
    Memory {
        /// What does not fit.
        what: String,
        /// In GiB.
        needed: f64,
        /// In GiB.
        available: f64,
    },
    /// A picture could not be made.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// A file of results cannot be read or written.
    #[error("{path}: {problem}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
}

impl TheoryError {
    /// A setting out of range.
    pub fn setting(what: &'static str, expected: impl Into<String>, got: impl ToString) -> Self {
        Self::Setting { what, expected: expected.into(), got: got.to_string() }
    }

    /// For `map_err` on a decomposition.
    pub(crate) fn eigenvalues(error: impl Debug) -> Self {
        Self::Eigenvalues { why: format!("{error:?}") }
    }

    /// The value of that name.
    pub(crate) fn one_of<T: Copy>(what: &'static str, names: &[(&str, T)], name: &str) -> Result<T, Self> {
        let known = || names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let found = names.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value).ok_or_else(|| Self::setting(what, format!("one of {}", known()), name))
    }

    /// Refuses a number out of range.
    pub(crate) fn check_range(what: &'static str, range: RangeInclusive<usize>, got: usize) -> Result<(), Self> {
        match range.contains(&got) {
            true => Ok(()),
            false => Err(Self::setting(what, format!("{} to {}", range.start(), range.end()), got)),
        }
    }

    /// Refuses numbers that do not fit in memory, where the system tells how much there is.
    pub(crate) fn check_memory(what: impl Into<String>, numbers: f64) -> Result<(), Self> {
        const GIB: f64 = (1u64 << 30) as f64;
        let (needed, available) =
            (8.0 * numbers / GIB, available_memory().map_or(f64::INFINITY, |bytes| bytes as f64 / GIB));
        match needed <= available {
            true => Ok(()),
            false => Err(Self::Memory { what: what.into(), needed, available }),
        }
    }

    /// Whether the command was wrongly used, rather than having failed.
    pub fn is_wrong_use(&self) -> bool {
        matches!(self, Self::Setting { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused() {
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
