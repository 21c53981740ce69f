//! The precision of large matrix products.

use crate::bf16;
use crate::error::KernelError;
use crate::matmul::{Matrix, Output, Threads, matmul};

/// The precision in which the operands of large matrix products are multiplied. Sums are f32 in both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Precision {
    /// Operands are f32.
    #[default]
    F32,
    /// Operands are rounded to bf16, which has the range of f32 and 8 significant bits; AVX-512 BF16 multiplies twice as many at a
    /// time.
    Bf16,
}

impl Precision {
    /// Returns an error that names the missing instructions unless this processor can multiply in this precision.
    pub fn check_available(self) -> Result<(), KernelError> {
        match self {
            Precision::F32 => Ok(()),
            Precision::Bf16 => bf16::check_available(),
        }
    }

    /// Computes `out = a b` or `out += a b` on all threads of the current pool; the rows of `out` start `row_stride` elements
    /// apart. Returns an error if this processor cannot multiply in this precision.
    ///
    /// # Shapes
    /// `a` `[m, k]`, `b` `[k, n]`, `out` `[m, n]`.
    pub fn matmul(
        self,
        a: Matrix<'_>,
        b: Matrix<'_>,
        out: &mut [f32],
        row_stride: usize,
        output: Output,
    ) -> Result<(), KernelError> {
        match self {
            Precision::F32 => matmul(a, b, out, row_stride, output, Threads::Pool),
            Precision::Bf16 => bf16::matmul(a, b, out, row_stride, output),
        }
    }
}
