//! Matrix products of any strides, through the `gemm` crate.

use gemm::Parallelism;

use crate::error::KernelError;

/// A read-only matrix inside a slice: element `(i, j)` is `data[i·row_stride + j·col_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix stored row after row.
    pub fn new(data: &'a [f32], rows: usize, cols: usize) -> Result<Self, KernelError> {
        Self::strided(data, rows, cols, cols, 1)
    }

    /// A matrix with a stride for each index.
    pub fn strided(
        data: &'a [f32],
        rows: usize,
        cols: usize,
        row_stride: usize,
        col_stride: usize,
    ) -> Result<Self, KernelError> {
        let reach = reach(rows, cols, row_stride, col_stride);
        if reach > data.len() {
            return Err(KernelError::OutOfBounds { what: "matrix", reach, len: data.len() });
        }
        Ok(Self { data, rows, cols, row_stride, col_stride })
    }

    /// The transposed matrix; nothing moves.
    pub fn transposed(self) -> Self {
        Self { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }
}

/// One past the furthest element that the strides address.
fn reach(rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> usize {
    if rows == 0 || cols == 0 { 0 } else { (rows - 1) * row_stride + (cols - 1) * col_stride + 1 }
}

/// What becomes of the old content of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// It is replaced (and may be uninitialised garbage, NaN included).
    Replace,
    /// The product is added to it.
    Accumulate,
}

/// Who computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The calling thread.
    One,
    /// All threads of the current rayon pool where the product is large enough.
    Pool,
}

/// Multiply-adds below which one thread is faster than the hand-over to a pool.
const SERIAL_MULTIPLY_ADDS: usize = 192 * 1024;

/// `out = a b` or `out += a b`, where `out` is stored row after row with `row_stride` elements between rows.
///
/// # Shapes
/// `a` `[m, k]`, `b` `[k, n]`, `out` `[m, n]`.
pub fn matmul(
    a: Matrix<'_>,
    b: Matrix<'_>,
    out: &mut [f32],
    row_stride: usize,
    output: Output,
    threads: Threads,
) -> Result<(), KernelError> {
    let (m, k, n) = (a.rows, a.cols, b.cols);
    if k != b.rows {
        let why = format!("a has {k} columns, b has {} rows", b.rows);
        return Err(KernelError::Invalid { what: "matmul", why });
    }
    let reach = reach(m, n, row_stride, 1);
    if reach > out.len() || (row_stride < n && m > 1) {
        return Err(KernelError::OutOfBounds { what: "matmul output", reach, len: out.len() });
    }
    let parallelism = match threads {
        Threads::Pool if m * n * k > SERIAL_MULTIPLY_ADDS => Parallelism::Rayon(0),
        _ => Parallelism::None,
    };
    // SAFETY: the strides of `a` and `b` stay inside their slices (`Matrix::strided`), those of `out` by the check
    // above; `out` is exclusive and its rows do not overlap.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            row_stride as isize,
            output == Output::Accumulate,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(n: usize, step: f32) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919) % 23) as f32 * step - 1.0).collect()
    }

    #[test]
    fn agrees_with_three_loops_for_all_transpositions() {
        for (m, k, n) in [(1, 1, 1), (3, 0, 2), (5, 7, 3), (17, 33, 9), (64, 128, 65)] {
            for (transpose_a, transpose_b) in [(false, false), (true, false), (false, true), (true, true)] {
                let (a, b) = (ramp(m * k, 0.1), ramp(k * n, 0.2));
                let a = if transpose_a {
                    Matrix::new(&a, k, m).unwrap().transposed()
                } else {
                    Matrix::new(&a, m, k).unwrap()
                };
                let b = if transpose_b {
                    Matrix::new(&b, n, k).unwrap().transposed()
                } else {
                    Matrix::new(&b, k, n).unwrap()
                };
                let mut out = vec![1.0; m * (n + 2)];
                matmul(a, b, &mut out, n + 2, Output::Accumulate, Threads::Pool).unwrap();
                for i in 0..m {
                    for j in 0..n {
                        let at =
                            |x: &Matrix<'_>, i: usize, j: usize| f64::from(x.data[i * x.row_stride + j * x.col_stride]);
                        let want = 1.0 + (0..k).map(|t| at(&a, i, t) * at(&b, t, j)).sum::<f64>();
                        assert!((f64::from(out[i * (n + 2) + j]) - want).abs() < 1e-4 * (k as f64).max(1.0));
                    }
                }
            }
        }
    }

    #[test]
    fn views_past_the_end_are_refused() {
        assert!(Matrix::new(&[0.0; 5], 2, 3).is_err());
        let a = Matrix::new(&[0.0; 6], 2, 3).unwrap();
        assert!(matmul(a, a, &mut [0.0; 9], 3, Output::Replace, Threads::One).is_err());
        assert!(matmul(a, a.transposed(), &mut [0.0; 3], 2, Output::Replace, Threads::One).is_err());
    }
}
