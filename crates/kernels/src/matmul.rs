//! Matrix products with any strides, through the `gemm` crate.

use gemm::Parallelism;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::convolution::transpose as turn;
use crate::error::{KernelError, check_reach};
use crate::isa::{Isa, dispatch};
use crate::parallel::{SERIAL_ELEMENTS, is_crowded};
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;
use crate::tile::{TileProduct, panel_width};

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
    /// Creates a matrix that is stored row after row.
    pub fn new(data: &'a [f32], rows: usize, cols: usize) -> Result<Self, KernelError> {
        Self::strided(data, rows, cols, cols, 1)
    }

    /// Creates a matrix with a stride for each index; refuses strides that leave the slice.
    pub fn strided(
        data: &'a [f32],
        rows: usize,
        cols: usize,
        row_stride: usize,
        col_stride: usize,
    ) -> Result<Self, KernelError> {
        check_reach("matrix", &[(rows, row_stride), (cols, col_stride)], data.len())?;
        Ok(Self { data, rows, cols, row_stride, col_stride })
    }

    /// Returns the transposed matrix, a view of the same slice.
    pub fn transposed(self) -> Self {
        Self { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }

    /// Returns the numbers of rows and columns.
    pub(crate) fn size(self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Returns whether the matrix is stored column after column.
    pub(crate) fn is_transposed(self) -> bool {
        self.col_stride > self.row_stride
    }

    /// Returns the elements if they fill a slice row after row.
    pub(crate) fn as_rows(self) -> Option<&'a [f32]> {
        let is_plain = self.col_stride == 1 && self.row_stride == self.cols;
        is_plain.then(|| &self.data[..self.rows * self.cols])
    }

    /// Returns the address of the first element, the stride of rows and that of columns.
    pub(crate) fn raw(self) -> (*const f32, usize, usize) {
        (self.data.as_ptr(), self.row_stride, self.col_stride)
    }

    /// Returns element `(i, j)`.
    #[cfg(test)]
    pub(crate) fn at(self, i: usize, j: usize) -> f32 {
        self.data[i * self.row_stride + j * self.col_stride]
    }

    /// Returns the rows `first..first + rows`, which must exist.
    pub(crate) fn rows(self, first: usize, rows: usize) -> Self {
        self.transposed().columns(first, rows).transposed()
    }

    /// Returns the columns `first..first + cols`, which must exist.
    pub(crate) fn columns(self, first: usize, cols: usize) -> Self {
        let data = if self.rows == 0 || cols == 0 { &[] } else { &self.data[first * self.col_stride..] };
        Self { data, cols, ..self }
    }
}

/// What happens to the old content of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The product replaces it; it may be anything, NaN included.
    Replace,
    /// The product is added to it.
    Accumulate,
}

impl Output {
    /// Returns how a piece of a sum is written: the first one replaces what is there.
    pub(crate) fn of_piece(piece: usize) -> Self {
        if piece == 0 { Self::Replace } else { Self::Accumulate }
    }
}

/// The threads that compute a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The calling thread.
    One,
    /// All threads of the current rayon pool if the product is large enough, else the calling thread.
    Pool,
}

/// Number of multiply-adds up to which one thread is faster than handing work to a pool.
const SERIAL_MULTIPLY_ADDS: usize = 1024 * 1024;

/// Computes `out = a b` or `out += a b`; the rows of `out` start `row_stride` elements apart.
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
    check_matmul(a, b, out, row_stride)?;
    let (m, n) = (a.rows, b.cols);
    let parallel = threads == Threads::Pool && is_worth_threads(m, a.cols, n);
    let strips = if parallel { strips(a, n) } else { 1 };
    let out = SharedSlice::new(out);
    let is_small = !parallel && m * a.cols * n <= SERIAL_MULTIPLY_ADDS && a.cols <= SMALL_DEPTH;
    if is_small && dispatch(SmallProduct { a, b, out: out.pointer(0), row_stride, output }) {
        return Ok(());
    }
    if strips == 1 {
        let parallelism = if parallel { Parallelism::Rayon(0) } else { Parallelism::None };
        // SAFETY: the strides of `a` and `b` stay inside their slices (`Matrix::strided`), those of `out` by the
        // check above; `out` is exclusive and its rows do not overlap.
        unsafe { product(a, b, out.pointer(0), row_stride, output, parallelism) };
        return Ok(());
    }
    // Whole vectors in every strip but the last, which is hardly narrower: `gemm` sums a narrow product in another order.
    let long = m.max(n);
    let start = |strip: usize| (long.div_ceil(LANES) * strip / strips * LANES).min(long);
    (0..strips).into_par_iter().for_each(|strip| {
        let (first, width) = (start(strip), start(strip + 1) - start(strip));
        let (a, b, offset) =
            if m > n { (a.rows(first, width), b, first * row_stride) } else { (a, b.columns(first, width), first) };
        // SAFETY: as above, and the strips are disjoint rows or columns of the output.
        unsafe { product(a, b, out.pointer(offset), row_stride, output, Parallelism::None) };
    });
    Ok(())
}

/// Largest depth of a [`SmallProduct`], up to which `gemm` adds in the same order.
const SMALL_DEPTH: usize = 512;

/// A product by register tiles without packing, for whole vectors of columns, with the bits of `gemm`. A training step of a tiny GPT takes
/// 0.74 ms with it and 0.80 ms with `gemm` (AVX-512), 0.80 and 0.83 ms (AVX2).
struct SmallProduct<'a> {
    a: Matrix<'a>,
    b: Matrix<'a>,
    out: *mut f32,
    row_stride: usize,
    output: Output,
}

impl WithSimd for SmallProduct<'_> {
    /// Whether the product was computed.
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        let Self { a, b, out, row_stride, output } = self;
        let (rows, depth, width) = (a.rows, a.cols, b.cols);
        if rows == 0 || depth == 0 || !width.is_multiple_of(S::F32_LANES) || (b.row_stride != 1 && b.col_stride != 1) {
            return false;
        }
        let mut turned = Scratch::new(if b.col_stride == 1 { 0 } else { depth * width });
        let (b, b_row) = match b.col_stride {
            1 => (b.data, b.row_stride),
            stride => {
                turn(simd, b.data, stride, [width, depth], &mut turned, width);
                (&turned[..], width)
            }
        };
        let product = TileProduct {
            rows,
            columns: (0, width),
            depth,
            a: a.data.as_ptr(),
            a_row: a.row_stride,
            a_column: a.col_stride,
            b: b.as_ptr(),
            b_row,
            b_panel: panel_width::<S>(),
            out,
            out_row: row_stride,
            accumulate: output == Output::Accumulate,
            terms: TileProduct::ONE,
        };
        // SAFETY: the strides of `a` and `b` stay inside their slices (`Matrix::strided`), as do those of the copy; the caller has
        // checked `out`, which it alone uses.
        unsafe { product.run(simd) };
        true
    }
}

/// Refuses operands whose sizes do not fit together, and an output that the product does not fit in.
pub(crate) fn check_matmul(a: Matrix<'_>, b: Matrix<'_>, out: &[f32], row_stride: usize) -> Result<(), KernelError> {
    let (m, k, n) = (a.rows, a.cols, b.cols);
    if k != b.rows {
        let why = format!("a has {k} columns, b has {} rows", b.rows);
        return Err(KernelError::Invalid { what: "matmul", why });
    }
    let reach = check_reach("matmul output", &[(m, row_stride), (n, 1)], out.len())?;
    if row_stride < n && m > 1 {
        return Err(KernelError::OutOfBounds { what: "matmul output", reach, len: out.len() });
    }
    Ok(())
}

/// Returns whether a product of these sizes is worth handing to other threads, and there are any to help.
pub(crate) fn is_worth_threads(m: usize, k: usize, n: usize) -> bool {
    m * n * k > SERIAL_MULTIPLY_ADDS && !is_crowded()
}

/// Returns the number of strips of its longer side that the output is split into, one thread each; 1 leaves the threads
/// to `gemm`.
///
/// For a transposed `a` (a weight gradient `xᵀ ∂y`) every thread of `gemm` packs all of `b`, so the output is split
/// first. Measured on two AVX-512 cores with `k` = 4,096, in GFLOP/s, `gemm` → strips: `m`·`n` = 256·768
/// 238 → 274, 256·256 205 → 283, 256·1024 241 → 271, 1024·256 215 → 261 (columns instead of rows: 167). The plain
/// product of these sizes has 306 to 317, that with a transposed `b` 300 to 311. A kernel of our own with packed tiles
/// of 6·64 lost even to `gemm`'s threads on all but one of them.
///
/// The width of a strip does not change the sums, only the depth of `gemm`'s blocks would; a test checks that.
fn strips(a: Matrix<'_>, n: usize) -> usize {
    if a.is_transposed() { rayon::current_num_threads().min(a.rows.max(n) / STRIP_WIDTH).max(1) } else { 1 }
}

/// The smallest width of a strip that pays, up to rounding to [`LANES`].
const STRIP_WIDTH: usize = 128;
/// Number of lanes of the widest vector.
const LANES: usize = 16;

/// Computes `out = a b` or `out += a b` with `gemm`.
///
/// # Safety
/// `out` can be written as `[a.rows, b.cols]` with `row_stride` elements between rows, `a.cols` is `b.rows`.
unsafe fn product(
    a: Matrix<'_>,
    b: Matrix<'_>,
    out: *mut f32,
    row_stride: usize,
    output: Output,
    parallelism: Parallelism,
) {
    // SAFETY: `a` and `b` were checked when they were created; the rest is the caller's promise.
    unsafe {
        match Isa::current() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => return forced::avx2(a, b, out, row_stride, output, parallelism),
            Isa::Scalar => return forced::scalar(a, b, out, row_stride, output, parallelism),
            // What `gemm` chooses for itself.
            _ => {}
        }
        gemm::gemm(
            a.rows,
            b.cols,
            a.cols,
            out,
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
}

/// Products by `gemm`'s kernels for one instruction set. The crate itself always chooses the fastest one of the machine.
mod forced {
    use gemm::Parallelism;
    use gemm_common::gemm::gemm_basic_generic;
    use gemm_common::simd::MixedSimd;

    use super::{Matrix, Output};

    macro_rules! forced {
        ($name:ident, $module:ident, $simd:ident, $lanes:literal) => {
            /// Computes `out = a b` or `out += a b`.
            ///
            /// # Safety
            /// That of [`super::product`], and the processor has the instructions.
            #[inline(never)]
            pub(super) unsafe fn $name(
                a: Matrix<'_>,
                b: Matrix<'_>,
                out: *mut f32,
                row_stride: usize,
                output: Output,
                parallelism: Parallelism,
            ) {
                use gemm_f32::microkernel::$module::f32::{H_M, H_N, H_UKR, MR_DIV_N, NR, UKR};
                let simd = <gemm_common::simd::$simd as MixedSimd<f32, f32, f32, f32>>::try_new();
                let simd = simd.expect("the instruction set in use is one that the machine has");
                // Its kernels write columns: the transposed product `bᵀ aᵀ` has rows of `out` as columns.
                // SAFETY: the caller's promise.
                unsafe {
                    gemm_basic_generic::<_, f32, $lanes, { MR_DIV_N * $lanes }, NR, MR_DIV_N, H_M, H_N>(
                        simd,
                        b.cols,
                        a.rows,
                        a.cols,
                        out,
                        row_stride as isize,
                        1,
                        output == Output::Accumulate,
                        b.data.as_ptr(),
                        b.row_stride as isize,
                        b.col_stride as isize,
                        a.data.as_ptr(),
                        a.row_stride as isize,
                        a.col_stride as isize,
                        1.0,
                        1.0,
                        false,
                        false,
                        false,
                        |a, b, c| a * b + c,
                        &UKR,
                        &H_UKR,
                        false,
                        parallelism,
                    );
                }
            }
        };
    }

    #[cfg(target_arch = "x86_64")]
    forced!(avx2, fma, V3, 8);
    forced!(scalar, scalar, Scalar, 1);
}

/// Writes `out[j, i] = x[i, j]`.
///
/// # Shapes
/// `x` `[rows, cols]`, `out` `[cols, rows]`, whose length the caller has checked.
pub(crate) fn transpose(x: Matrix<'_>, out: &mut [f32]) {
    let Matrix { data, rows, cols, row_stride, col_stride } = x;
    assert_eq!(out.len(), rows * cols);
    if out.is_empty() {
        return;
    }
    // Squares of 16: a cache line of each side.
    let transpose_block = |(block, out): (usize, &mut [f32])| {
        for first in (0..rows).step_by(16) {
            for (j, out) in out.chunks_exact_mut(rows).enumerate() {
                for i in first..rows.min(first + 16) {
                    out[i] = data[i * row_stride + (16 * block + j) * col_stride];
                }
            }
        }
    };
    if rows * cols <= 4 * SERIAL_ELEMENTS {
        out.chunks_mut(16 * rows).enumerate().for_each(transpose_block);
    } else {
        out.par_chunks_mut(16 * rows).enumerate().for_each(transpose_block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::on_every_isa;

    fn ramp(n: usize, step: f32) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919) % 23) as f32 * step - 1.0).collect()
    }

    #[test]
    fn agrees_with_three_loops_for_all_transpositions() {
        on_every_isa(|_| {
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
                            let term = |t: usize| f64::from(a.at(i, t)) * f64::from(b.at(t, j));
                            let want = 1.0 + (0..k).map(term).sum::<f64>();
                            assert!((f64::from(out[i * (n + 2) + j]) - want).abs() < 1e-4 * (k as f64).max(1.0));
                        }
                    }
                }
            }
        });
    }

    #[test]
    fn the_number_of_threads_does_not_change_the_result() {
        for (k, m, n) in [(700, 40, 531), (700, 531, 40), (700, 40, 1024), (700, 1041, 40)] {
            let (a, b) = (ramp(k * m, 0.13), ramp(k * n, 0.17));
            let run = |threads: usize| {
                let pool = crate::isa::pool(threads);
                let mut out = vec![f32::NAN; m * n];
                let a = Matrix::new(&a, k, m).unwrap().transposed();
                let b = Matrix::new(&b, k, n).unwrap();
                pool.install(|| matmul(a, b, &mut out, n, Output::Replace, Threads::Pool)).unwrap();
                out
            };
            let four = run(4);
            for (at, got) in four.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let want = (0..k).map(|t| f64::from(a[t * m + i]) * f64::from(b[t * n + j])).sum::<f64>();
                assert!((f64::from(*got) - want).abs() < 1e-3, "{i} {j}: {got} {want}");
            }
            for threads in [1, 2, 3, 5, 6, 7, 8] {
                assert!(four == run(threads), "{threads} threads differ from 4");
            }
        }
    }

    #[test]
    fn transposing_moves_each_element() {
        for (rows, cols) in [(0, 3), (1, 1), (5, 40), (40, 5), (33, 17)] {
            let x = ramp(rows * cols, 0.1);
            let mut out = vec![f32::NAN; x.len()];
            let matrix = Matrix::new(&x, rows, cols).unwrap();
            transpose(matrix, &mut out);
            for (at, x) in x.iter().enumerate() {
                assert_eq!(out[at % cols * rows + at / cols], *x);
            }
            transpose(matrix.transposed(), &mut out);
            assert_eq!(out, x);
        }
    }

    #[test]
    fn views_past_the_end_are_refused() {
        assert!(Matrix::new(&[0.0; 5], 2, 3).is_err());
        assert!(Matrix::strided(&[0.0], 3, 1, 1 << 63, 1).is_err());
        let a = Matrix::new(&[0.0; 6], 2, 3).unwrap();
        assert!(matmul(a, a, &mut [0.0; 9], 3, Output::Replace, Threads::One).is_err());
        assert!(matmul(a, a.transposed(), &mut [0.0; 3], 2, Output::Replace, Threads::One).is_err());
    }
}
