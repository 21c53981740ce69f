//! Images with their channels last: vectors of channels, one vector after the other for each pixel.

use pulp::Simd;

/// Number of rows and columns that are transposed together: a cache line of each side.
const BLOCK: usize = 16;

/// The copy of an image with its channels last and zeros around it: `[rows, columns, channels]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChannelsLast {
    /// Number of channels of the image.
    pub(super) channels: usize,
    /// Number of channels of the copy, at least that of the image; zeros fill the rest.
    pub(super) width: usize,
    /// Height and width of the image.
    pub(super) image: [usize; 2],
    /// Rows and columns of the copy before the image.
    pub(super) padding: [usize; 2],
    /// Rows and columns of the copy, at least those of the image and before it.
    pub(super) size: [usize; 2],
}

impl ChannelsLast {
    /// Returns the number of elements of the copy.
    pub(super) fn len(&self) -> usize {
        self.size[0] * self.size[1] * self.width
    }

    /// Returns the number of elements of a row of the copy.
    pub(super) fn row_len(&self) -> usize {
        self.size[1] * self.width
    }

    /// Copies an image `[channels, height, width]`. `out` has zeros where the copy has them.
    #[inline(always)]
    pub(super) fn copy<S: Simd>(&self, simd: S, image: &[f32], out: &mut [f32]) {
        for (y, row) in out.chunks_exact_mut(self.row_len()).enumerate() {
            self.copy_row(simd, image, y, row);
        }
    }

    /// Copies a row. `out` has zeros where all rows of the copy have them: before and after the image, and after its channels.
    #[inline(always)]
    pub(super) fn copy_row<S: Simd>(&self, simd: S, image: &[f32], row: usize, out: &mut [f32]) {
        let Self { channels, width, image: [height, columns], padding: [top, left], .. } = *self;
        let Some(y) = row.checked_sub(top).filter(|y| *y < height) else {
            return out.fill(0.0);
        };
        for first in (0..channels).step_by(BLOCK) {
            let count = BLOCK.min(channels - first);
            let from = &image[(first * height + y) * columns..];
            transpose(simd, from, height * columns, [count, columns], &mut out[left * width + first..], width);
        }
    }
}

/// Transposes a matrix of at least `$n` rows and columns square by square; the last squares overlap those before.
macro_rules! squares {
    ($n:literal, $x:expr, $x_row:expr, [$rows:expr, $columns:expr], $out:expr, $out_row:expr, $transpose:ident) => {
        for first in (0..$columns).step_by(BLOCK) {
            for i in (0..$rows).step_by($n) {
                for j in (first..$columns.min(first + BLOCK)).step_by($n) {
                    let (i, j) = (i.min($rows - $n), j.min($columns - $n));
                    // SAFETY: a whole square from there is inside both matrices, as the caller has checked.
                    unsafe { $transpose($x.add(i * $x_row + j), $x_row, $out.add(j * $out_row + i), $out_row) };
                }
            }
        }
    };
}

/// Writes `out[j · out_row + i] = x[i · x_row + j]` for the rows `i` and columns `j` of `x`.
#[inline(always)]
pub(crate) fn transpose<S: Simd>(
    _: S,
    x: &[f32],
    x_row: usize,
    [rows, columns]: [usize; 2],
    out: &mut [f32],
    out_row: usize,
) {
    if rows == 0 || columns == 0 {
        return;
    }
    assert!((rows - 1) * x_row + columns <= x.len());
    assert!((columns - 1) * out_row + rows <= out.len());
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES >= 8 && rows >= 8 && columns >= 8 {
        // Vectors of 8 or 16 lanes are those of AVX2 or AVX-512.
        return squares!(8, x.as_ptr(), x_row, [rows, columns], out.as_mut_ptr(), out_row, transpose_eight);
    }
    if rows >= 4 && columns >= 4 {
        return squares!(4, x.as_ptr(), x_row, [rows, columns], out.as_mut_ptr(), out_row, transpose_four);
    }
    for i in 0..rows {
        for j in 0..columns {
            out[j * out_row + i] = x[i * x_row + j];
        }
    }
}

/// Transposes four rows and columns.
///
/// # Safety
/// The rows of `x` can be read, those of `out` written.
#[inline(always)]
unsafe fn transpose_four(x: *const f32, x_row: usize, out: *mut f32, out_row: usize) {
    let mut rows = [[0.0; 4]; 4];
    for (i, row) in rows.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *row = unsafe { x.add(i * x_row).cast::<[f32; 4]>().read_unaligned() };
    }
    for j in 0..4 {
        let [a, b, c, d] = rows;
        // SAFETY: the caller's promise.
        unsafe { out.add(j * out_row).cast::<[f32; 4]>().write_unaligned([a[j], b[j], c[j], d[j]]) };
    }
}

/// Transposes eight rows and columns. The compiler would move their elements one by one.
///
/// # Safety
/// The processor has AVX; the rows of `x` can be read, those of `out` written.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_eight(x: *const f32, x_row: usize, out: *mut f32, out_row: usize) {
    use std::arch::x86_64::{
        _mm_loadu_ps, _mm256_castps128_ps256, _mm256_insertf128_ps, _mm256_shuffle_ps, _mm256_storeu_ps,
        _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };
    for half in [0, 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let (x, out) = (x.add(half), out.add(half * out_row));
            // Four columns of row `i` in the lower half of a vector, and those of row `i + 4` in the upper one.
            macro_rules! rows {
                ($i:literal) => {{
                    let lower = _mm256_castps128_ps256(_mm_loadu_ps(x.add($i * x_row)));
                    _mm256_insertf128_ps::<1>(lower, _mm_loadu_ps(x.add(($i + 4) * x_row)))
                }};
            }
            let (a, b, c, d) = (rows!(0), rows!(1), rows!(2), rows!(3));
            let (ab, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            _mm256_storeu_ps(out, _mm256_shuffle_ps::<0x44>(ab, cd));
            _mm256_storeu_ps(out.add(out_row), _mm256_shuffle_ps::<0xee>(ab, cd));
            _mm256_storeu_ps(out.add(2 * out_row), _mm256_shuffle_ps::<0x44>(ab_high, cd_high));
            _mm256_storeu_ps(out.add(3 * out_row), _mm256_shuffle_ps::<0xee>(ab_high, cd_high));
        }
    }
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::isa::{dispatch, on_every_isa};

    struct Transpose<'a>(&'a [f32], usize, [usize; 2], &'a mut [f32], usize);

    impl WithSimd for Transpose<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            transpose(simd, self.0, self.1, self.2, self.3, self.4);
        }
    }

    #[test]
    fn every_element_is_moved_and_no_other() {
        on_every_isa(|_| {
            for (rows, columns) in [(0, 3), (1, 9), (3, 5), (4, 4), (5, 7), (8, 8), (8, 4), (17, 9), (33, 49)] {
                let (x_row, out_row) = (columns + 2, rows + 1);
                let x: Vec<f32> = (0..rows * x_row).map(|x| x as f32).collect();
                let mut out = vec![-1.0; columns * out_row];
                dispatch(Transpose(&x, x_row, [rows, columns], &mut out, out_row));
                for (at, &out) in out.iter().enumerate() {
                    let (j, i) = (at / out_row, at % out_row);
                    assert_eq!(out, if i < rows { x[i * x_row + j] } else { -1.0 }, "({i}, {j})");
                }
            }
        });
    }
}
