//! What cannot be solved, and why.

use std::path::PathBuf;

use regard_inspect::InspectError;

/// A setting that makes no sense, or a problem that a solver cannot solve.
#[derive(Debug, thiserror::Error)]
pub enum TheoryError {
    /// A setting out of range.
    #[error("{what}: expected {expected}, got {got}")]
    Setting {
        /// Its name on the command line.
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

    /// Whether the command was wrongly used, rather than having failed.
    pub fn is_wrong_use(&self) -> bool {
        matches!(self, Self::Setting { .. })
    }
}
