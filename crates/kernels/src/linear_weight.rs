//! The weight of a linear layer, in f32 or bf16, and its product with the input.
//!
//! A row of the product has the same bits whatever other rows are computed with it, so that an answer does not depend on the batch it is
//! in: every path adds up the same [pieces](DepthPieces) of the depth in the same order. Large transposed matrices are the exception;
//! up to [`FEW_ROWS`] rows have one order and more rows another.

use half::bf16;

use crate::error::{KernelError, check_len, check_product};
use crate::few_rows::{DepthPieces, FEW_ROWS, Sizes, by_columns, by_rows};
use crate::linear::LinearShape;
use crate::matmul::{Matrix, Output, Threads, matmul, transpose};
use crate::parallel::for_each_rows;
use crate::precision::Precision;
use crate::scratch::Scratch;
use crate::tiled_product::{TILED_ROWS, by_tiles};

/// Number of elements of a bf16 matrix that are converted to f32 at once: 2 MiB, which stay in the second cache.
const WIDENED: usize = 512 * 1024;

/// Number of elements below which a matrix of f32 stays in the caches, 256 KiB: `gemm` multiplies it faster, also with a few rows.
const CACHED: usize = 64 * 1024;

/// Number of elements up to which a matrix is multiplied [`by_tiles`], 1.2 MB: a step of an LSTM 256→256 with 32 rows on one thread takes
/// 0.33 ms with it and 0.36 without (AVX-512), 0.42 and 0.52 (AVX2). For the larger matrices of a decoder it gains nothing.
const TILED: usize = 300 * 1000;

/// Number of elements of the output up to which `gemm` sums a product with a transposed matrix in another order.
const TINY: usize = 256;

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

    /// Computes `out = x W` for checked sizes; only the depth may be 0.
    pub(crate) fn product(self, shape: LinearShape, x: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
        let LinearShape { rows, d_in, d_out } = shape;
        let sizes = Sizes { rows, depth: d_in, width: d_out };
        if d_in == 0 {
            out.fill(0.0);
            return Ok(());
        }
        let is_few = rows <= FEW_ROWS;
        let is_read_from_memory = is_few && d_in * d_out >= CACHED;
        let is_tiled = (TILED_ROWS..=FEW_ROWS).contains(&rows) && d_in * d_out <= TILED;
        // `gemm` sums these in another order, and so does it with a single column.
        let is_special = rows == 1 || d_in <= 2;
        match self {
            Self::Single(TrainedWeight { matrix, precision: Precision::Bf16 }) => {
                Precision::Bf16.matmul(Matrix::new(x, rows, d_in)?, matrix, out, d_out, Output::Replace)?;
            }
            Self::Single(TrainedWeight { matrix, .. }) => match (matrix.as_rows(), matrix.transposed().as_rows()) {
                (Some(weight), _) | (None, Some(weight)) if d_out == 1 => by_columns(sizes, x, weight, out),
                (Some(weight), _) if is_tiled && by_tiles(sizes, x, weight, out) => {}
                (Some(weight), _) if is_special || is_read_from_memory => by_rows(sizes, x, weight, out),
                (None, Some(weight)) if is_read_from_memory => by_columns(sizes, x, weight, out),
                (None, Some(_)) if is_special || rows * d_out <= TINY => {
                    let mut weight = Scratch::new(d_in * d_out);
                    transpose(matrix.transposed(), &mut weight);
                    by_rows(sizes, x, &weight, out);
                }
                _ => by_pieces(Matrix::new(x, rows, d_in)?, matrix, out)?,
            },
            Self::Half(matrix) if is_few || d_in <= 2 || d_out == 1 => match matrix.is_transposed || d_out == 1 {
                false => by_rows(sizes, x, matrix.data, out),
                true => by_columns(sizes, x, matrix.data, out),
            },
            Self::Half(matrix) => matrix.widened_product(shape, x, out)?,
        }
        Ok(())
    }
}

/// Computes `out = x W` by `gemm`, one piece of the depth after the other.
fn by_pieces(x: Matrix<'_>, weight: Matrix<'_>, out: &mut [f32]) -> Result<(), KernelError> {
    let (d_in, d_out) = weight.size();
    let pieces = DepthPieces::new(d_in);
    for piece in 0..pieces.count() {
        let (from, to) = pieces.range(piece);
        let (x, weight) = (x.columns(from, to - from), weight.rows(from, to - from));
        matmul(x, weight, out, d_out, Output::of_piece(piece), Threads::Pool)?;
    }
    Ok(())
}

impl HalfMatrix<'_> {
    /// Computes `out = x W` with parts of `W` converted to f32 that stay in cache.
    fn widened_product(self, shape: LinearShape, x: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
        let LinearShape { rows, d_in, d_out } = shape;
        let x = Matrix::new(x, rows, d_in)?;
        let pieces = DepthPieces::new(d_in);
        let widest = (0..pieces.count()).map(|piece| pieces.range(piece)).map(|(from, to)| to - from).max();
        let part = (WIDENED / widest.unwrap_or(1)).max(1).min(d_out);
        let mut widened = Scratch::new(part * widest.unwrap_or(0));
        for first in (0..d_out).step_by(part) {
            let count = part.min(d_out - first);
            for piece in 0..pieces.count() {
                let (from, to) = pieces.range(piece);
                let widened = &mut widened[..count * (to - from)];
                let weight = self.widened((from, to), (first, first + count), widened)?;
                let output = Output::of_piece(piece);
                matmul(x.columns(from, to - from), weight, &mut out[first..], d_out, output, Threads::Pool)?;
            }
        }
        Ok(())
    }

    /// Converts some rows and columns of the matrix to f32, in the order in which they are stored.
    fn widened<'w>(
        self,
        (from, to): (usize, usize),
        (first, end): (usize, usize),
        out: &'w mut [f32],
    ) -> Result<Matrix<'w>, KernelError> {
        let ((top, bottom), (left, right), stride) = match self.is_transposed {
            true => ((first, end), (from, to), self.rows),
            false => ((from, to), (first, end), self.cols),
        };
        let width = right - left;
        for_each_rows(out, width, |first, out| {
            for (row, out) in out.chunks_exact_mut(width).enumerate() {
                let values = &self.data[(top + first + row) * stride + left..][..width];
                out.iter_mut().zip(values).for_each(|(out, value)| *out = value.to_f32());
            }
        });
        let matrix = Matrix::new(out, bottom - top, width)?;
        Ok(if self.is_transposed { matrix.transposed() } else { matrix })
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

    /// Computes the product of the first `rows` rows.
    fn first_rows(rows: usize, x: &[f32], weight: LinearWeight<'_>) -> Vec<f32> {
        let (d_in, d_out) = weight.size();
        let mut out = vec![f32::NAN; rows * d_out];
        weight.product(LinearShape { rows, d_in, d_out }, &x[..rows * d_in], &mut out).unwrap();
        out
    }

    #[test]
    fn a_row_has_the_same_bits_whatever_is_computed_with_it() {
        let sizes = [
            (1, 1),
            (2, 9),
            (3, 1),
            (700, 1),
            (64, 64),
            (64, 700),
            (600, 20),
            (768, 48),
            (513, 130),
            (520, 96),
            (1030, 257),
            (384, 1536),
        ];
        for (d_in, d_out) in sizes {
            let all = 300;
            let (x, weight) = (numbers(all * d_in, 1, 1.0), numbers(d_in * d_out, 2, 1.0));
            let half: Vec<bf16> = weight.iter().map(|&x| bf16::from_f32(x)).collect();
            let rows = Matrix::new(&weight, d_in, d_out).unwrap();
            let columns = Matrix::new(&weight, d_out, d_in).unwrap().transposed();
            let half = HalfMatrix::new(&half, d_in, d_out).unwrap();
            on_every_isa(|isa| {
                for (kind, weight) in [("rows", rows.into()), ("columns", columns.into()), ("half", half.into())] {
                    // Large transposed matrices have an order of their own for a few rows.
                    let all = if kind == "columns" && d_in * d_out >= CACHED { FEW_ROWS } else { all };
                    for threads in [1, 2, 3] {
                        crate::isa::pool(threads).install(|| {
                            let whole = first_rows(all, &x, weight);
                            for count in [1, 2, 3, 4, 5, 8, 16, 17, 31, 32, 33, 64, 65, 100, 257] {
                                if count <= all {
                                    let what = format!("{kind} {d_in}x{d_out} {isa:?} {threads} threads {count} rows");
                                    assert!(first_rows(count, &x, weight) == whole[..count * d_out], "{what}");
                                }
                            }
                        });
                    }
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
