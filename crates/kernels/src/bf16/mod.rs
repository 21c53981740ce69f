//! Matrix products whose operands are rounded to bf16, with sums in f32, by the instruction `vdpbf16ps` of AVX-512 BF16.
//!
//! ```text
//! s ← 0 or out[i, j];   for t = 0, 2, 4, …:  s ← s + a[i, t+1] b[t+1, j],  s ← s + a[i, t] b[t, j];   out[i, j] ← s
//! ```
//!
//! Operands are rounded to the nearest bf16, ties to even. Each line `s ← …` rounds once, to f32. Numbers that are
//! subnormal, of the operands as well as sums, become zero. This order is that of the instruction, and it does not depend
//! on the number of rows or columns, on blocks or on threads: sums that go on in the next block are kept in `out`.
//!
//! Blocks of both operands are rounded and [packed](pack) into panels, which [tiles](tile) of registers multiply.

#[cfg(target_arch = "x86_64")]
mod pack;
#[cfg(target_arch = "x86_64")]
mod product;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod tile;

use crate::error::KernelError;
use crate::isa::Isa;
use crate::matmul::{Matrix, Output, check_matmul};

/// Name of the instruction set that the product needs, as error messages say it.
const NEEDED: &str = "AVX-512 BF16 (the instruction vdpbf16ps)";

/// Returns an error that names the missing instructions unless the product can run here.
pub(crate) fn check_available() -> Result<(), KernelError> {
    let why = match (is_in_processor(), Isa::current()) {
        (true, Isa::Avx512) => return Ok(()),
        (true, forced) => format!("needs {NEEDED}, but REGARD_ISA={} forces other instructions", forced.name()),
        (false, _) => format!("needs {NEEDED}, which this processor does not have"),
    };
    Err(KernelError::Invalid { what: "bf16 precision", why })
}

#[cfg(target_arch = "x86_64")]
fn is_in_processor() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx512f") && has!("avx512bw") && has!("avx512bf16")
}

#[cfg(not(target_arch = "x86_64"))]
fn is_in_processor() -> bool {
    false
}

/// Computes `out = a b` or `out += a b` in bf16, on all threads of the current pool if the product is large enough.
///
/// # Shapes
/// `a` `[m, k]`, `b` `[k, n]`, `out` `[m, n]`, whose rows start `row_stride` elements apart.
pub(crate) fn matmul(
    a: Matrix<'_>,
    b: Matrix<'_>,
    out: &mut [f32],
    row_stride: usize,
    output: Output,
) -> Result<(), KernelError> {
    check_matmul(a, b, out, row_stride)?;
    match check_available() {
        #[cfg(target_arch = "x86_64")]
        Ok(()) => product::in_strips(a, b, out, row_stride, output),
        #[cfg(not(target_arch = "x86_64"))]
        Ok(()) => unreachable!("no other processor has the instruction"),
        // Tests of the layers above run on every processor.
        #[cfg(test)]
        Err(_) => reference::product(a, b, out, row_stride, output),
        #[cfg(not(test))]
        Err(error) => return Err(error),
    }
    Ok(())
}
