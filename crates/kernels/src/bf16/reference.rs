//! The product in plain Rust with the same bits as the instruction. Tests compare with it, and run it on processors without the
//! instruction.

use half::bf16;

use crate::matmul::{Matrix, Output};

/// Computes `out = a b` or `out += a b` by the formula of the [module](super).
pub(super) fn product(a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], row_stride: usize, output: Output) {
    let ((m, k), (_, n)) = (a.size(), b.size());
    let values = |x: Matrix<'_>| {
        let (rows, cols) = x.size();
        let places = (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j)));
        places.map(|(i, j)| rounded(x.at(i, j))).collect::<Vec<f32>>()
    };
    // The columns of `b` as rows.
    let (rows, columns) = (values(a), values(b.transposed()));
    for i in 0..m {
        for j in 0..n {
            let out = &mut out[i * row_stride + j];
            let start = if output == Output::Replace { 0.0 } else { *out };
            *out = inner(&rows[i * k..(i + 1) * k], &columns[j * k..(j + 1) * k], start);
        }
    }
}

/// Adds the products of two rows to `sum`, the second of each pair first.
fn inner(a: &[f32], b: &[f32], sum: f32) -> f32 {
    a.chunks(2).zip(b.chunks(2)).fold(flushed(sum), |sum, (a, b)| {
        let (a1, b1) = (a.get(1).copied().unwrap_or(0.0), b.get(1).copied().unwrap_or(0.0));
        let sum = flushed(a1.mul_add(b1, sum));
        flushed(a[0].mul_add(b[0], sum))
    })
}

/// Rounds to the nearest bf16, ties to even; subnormal numbers become zero.
pub(super) fn rounded(x: f32) -> f32 {
    flushed(bf16::from_f32(flushed(x)).to_f32())
}

fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}
