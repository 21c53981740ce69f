//! The weight of a linear layer, in f32 or bf16, and its product with the input.

use half::bf16;

use crate::error::{KernelError, check_len, check_product};
use crate::few_rows::{FEW_ROWS, Sizes, by_columns, by_rows};
use crate::linear::LinearShape;
use crate::matmul::{Matrix, Output, Threads, matmul};
use crate::parallel::for_each_rows;
use crate::precision::Precision;
use crate::scratch::Scratch;

/// Number of elements of a bf16 matrix that are converted to f32 at once: 2 MiB, which stay in the second cache.
const WIDENED: usize = 512 * 1024;

/// Number of elements below which a matrix of f32 stays in the caches, 256 KiB: `gemm` multiplies it faster, also with a few rows.
const CACHED: usize = 64 * 1024;

/// The weight of a linear layer, `[d_in, d_out]`.
#[derive(Debug, Clone, Copy)]
pub enum LinearWeight<'a> {
    /// Stored as f32.
    Single(TrainedWeight<'a>),
    /// Stored as bf16, for inference with half the memory; products and sums are f32.
    Half(HalfMatrix<'a>),
}

/// The f32 weight of a linear layer, `[d_in, d_out]`, which can be trained, and the precision of its products.
#[derive(Debug, Clone, Copy)]
pub struct TrainedWeight<'a> {
    /// Elements of the weight.
    pub matrix: Matrix<'a>,
    /// Precision in which the weight is multiplied by inputs and gradients.
    pub precision: Precision,
}

/// A matrix of bf16 numbers, stored row after row or column after column.
#[derive(Debug, Clone, Copy)]
pub struct HalfMatrix<'a> {
    /// Elements row after row, those of the transposed matrix if `is_transposed`.
    data: &'a [bf16],
    rows: usize,
    cols: usize,
    is_transposed: bool,
}

impl<'a> HalfMatrix<'a> {
    /// Creates a matrix that is stored row after row.
    pub fn new(data: &'a [bf16], rows: usize, cols: usize) -> Result<Self, KernelError> {
        check_len("bf16 matrix", data.len(), check_product("bf16 matrix", rows, cols)?)?;
        Ok(Self { data, rows, cols, is_transposed: false })
    }

    /// Returns the transposed matrix, a view of the same slice.
    pub fn transposed(self) -> Self {
        Self { rows: self.cols, cols: self.rows, is_transposed: !self.is_transposed, ..self }
    }
}

impl<'a> From<Matrix<'a>> for TrainedWeight<'a> {
    fn from(matrix: Matrix<'a>) -> Self {
        Self { matrix, precision: Precision::F32 }
    }
}

impl<'a> From<TrainedWeight<'a>> for LinearWeight<'a> {
    fn from(weight: TrainedWeight<'a>) -> Self {
        Self::Single(weight)
    }
}

impl<'a> From<Matrix<'a>> for LinearWeight<'a> {
    fn from(matrix: Matrix<'a>) -> Self {
        Self::Single(matrix.into())
    }
}

impl<'a> From<HalfMatrix<'a>> for LinearWeight<'a> {
    fn from(matrix: HalfMatrix<'a>) -> Self {
        Self::Half(matrix)
    }
}

impl LinearWeight<'_> {
    pub(crate) fn size(self) -> (usize, usize) {
        match self {
            Self::Single(weight) => weight.matrix.size(),
            Self::Half(matrix) => (matrix.rows, matrix.cols),
        }
    }

    /// Computes `out = x W` for checked sizes, none of them 0.
    pub(crate) fn product(self, shape: LinearShape, x: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
        let LinearShape { rows, d_in, d_out } = shape;
        let sizes = Sizes { rows, depth: d_in, width: d_out };
        let is_few = rows <= FEW_ROWS && d_in > 0;
        let is_read_from_memory = is_few && d_in * d_out >= CACHED;
        match self {
            Self::Single(TrainedWeight { matrix, precision: Precision::Bf16 }) => {
                Precision::Bf16.matmul(Matrix::new(x, rows, d_in)?, matrix, out, d_out, Output::Replace)?;
            }
            Self::Single(TrainedWeight { matrix, .. }) => match (matrix.as_rows(), matrix.transposed().as_rows()) {
                (Some(weight), _) if is_read_from_memory => by_rows(sizes, x, weight, out),
                (None, Some(weight)) if is_read_from_memory => by_columns(sizes, x, weight, out),
                _ => matmul(Matrix::new(x, rows, d_in)?, matrix, out, d_out, Output::Replace, Threads::Pool)?,
            },
            Self::Half(matrix) if is_few => match matrix.is_transposed {
                false => by_rows(sizes, x, matrix.data, out),
                true => by_columns(sizes, x, matrix.data, out),
            },
            Self::Half(matrix) => matrix.widened_product(shape, x, out)?,
        }
        Ok(())
    }
}

impl HalfMatrix<'_> {
    /// Computes `out = x W` with parts of `W` converted to f32 that stay in cache.
    fn widened_product(self, shape: LinearShape, x: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
        let LinearShape { rows, d_in, d_out } = shape;
        let x = Matrix::new(x, rows, d_in)?;
        if self.data.is_empty() {
            out.fill(0.0);
            return Ok(());
        }
        // Rows of the stored matrix: a part of the depth of the product, or a part of its columns.
        let (stored, width) = if self.is_transposed { (d_out, d_in) } else { (d_in, d_out) };
        let part = (WIDENED / width).max(1).min(stored);
        let mut widened = Scratch::new(part * width);
        for first in (0..stored).step_by(part) {
            let count = part.min(stored - first);
            let values = &self.data[first * width..(first + count) * width];
            for_each_rows(&mut widened[..count * width], 1, |at, out| {
                out.iter_mut().zip(&values[at..]).for_each(|(out, value)| *out = value.to_f32());
            });
            let matrix = Matrix::new(&widened[..count * width], count, width)?;
            match self.is_transposed {
                true => {
                    matmul(x, matrix.transposed(), &mut out[first..], d_out, Output::Replace, Threads::Pool)?;
                }
                false => {
                    let output = if first == 0 { Output::Replace } else { Output::Accumulate };
                    matmul(x.columns(first, count), matrix, out, d_out, output, Threads::Pool)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::on_every_isa;
    use crate::linear::linear_forward;
    use crate::test_support::{assert_close, numbers};

    #[test]
    fn half_weights_give_what_their_values_in_f32_give() {
        // More rows than the product of a few, and more elements than are converted at once.
        for (rows, d_in, d_out) in [(3, 20, 33), (FEW_ROWS + 1, 20, 33), (20, 700, 800), (20, 1, 1)] {
            let shape = LinearShape { rows, d_in, d_out };
            let (x, bias) = (numbers(rows * d_in, 1, 1.0), numbers(d_out, 3, 1.0));
            let half: Vec<bf16> = numbers(d_in * d_out, 2, 0.1).into_iter().map(bf16::from_f32).collect();
            let wide: Vec<f32> = half.iter().map(|x| x.to_f32()).collect();
            on_every_isa(|isa| {
                for is_transposed in [false, true] {
                    let (first, second) = if is_transposed { (d_out, d_in) } else { (d_in, d_out) };
                    let stored = HalfMatrix::new(&half, first, second).unwrap();
                    let weight = if is_transposed { stored.transposed() } else { stored };
                    let mut out = vec![f32::NAN; rows * d_out];
                    linear_forward(shape, &x, weight, Some(&bias), None, &mut out).unwrap();
                    let at = |t: usize, j: usize| if is_transposed { wide[j * d_in + t] } else { wide[t * d_out + j] };
                    let want = |i: usize| {
                        let (r, j) = (i / d_out, i % d_out);
                        let term = |t: usize| f64::from(x[r * d_in + t]) * f64::from(at(t, j));
                        f64::from(bias[j]) + (0..d_in).map(term).sum::<f64>()
                    };
                    let want: Vec<f64> = (0..rows * d_out).map(want).collect();
                    assert_close("half", isa, &out, &want, 4e-6, 1e-6);
                }
            });
        }
    }

    #[test]
    fn sizes_are_checked() {
        assert!(HalfMatrix::new(&[bf16::ONE; 5], 2, 3).is_err());
        let weight = HalfMatrix::new(&[bf16::ONE; 6], 2, 3).unwrap();
        let shape = LinearShape { rows: 1, d_in: 3, d_out: 2 };
        assert!(linear_forward(shape, &[0.0; 3], weight, None, None, &mut [0.0; 2]).is_err());
        assert!(linear_forward(shape, &[0.0; 3], weight.transposed(), None, None, &mut [0.0; 2]).is_ok());
    }
}
