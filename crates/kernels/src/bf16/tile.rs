//! A tile of the product in registers.

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, __mmask16, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_set1_epi32, _mm512_setzero_ps,
};

use crate::matmul::Output;

/// Largest number of rows of a tile: with 2 vectors of columns, 28 of 32 registers hold sums.
pub(super) const HEIGHT: usize = 14;
/// Number of columns of a tile, 2 vectors.
pub(super) const WIDTH: usize = 2 * LANES;
const LANES: usize = 16;

/// A tile of the output, and the panels of the operands that it is the product of.
pub(super) struct Tile {
    /// Number of pairs of terms.
    pub(super) pairs: usize,
    /// Pairs of `a`, `[pairs, rows]`.
    pub(super) a: *const u32,
    /// Pairs of `b`, `[pairs, WIDTH]`.
    pub(super) b: *const u32,
    pub(super) out: *mut f32,
    pub(super) row_stride: usize,
    /// Number of columns of the output, at most [`WIDTH`].
    pub(super) columns: usize,
    pub(super) output: Output,
}

impl Tile {
    /// Computes the tile of `rows` rows, from 1 to [`HEIGHT`].
    ///
    /// # Safety
    /// The processor has AVX-512 F and BF16, the panels can be read and the output written, and nothing else uses it.
    pub(super) unsafe fn run(self, rows: usize) {
        macro_rules! of_rows {
            ($($count:literal)*) => {
                match rows {
                    // SAFETY: the caller's promise.
                    $($count => unsafe { self.product::<$count>() },)*
                    _ => unreachable!("a tile has 1 to {HEIGHT} rows, not {rows}"),
                }
            };
        }
        of_rows!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
    }

    /// # Safety
    /// That of [`run`](Self::run) for `R` rows.
    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn product<const R: usize>(self) {
        let lanes = |vector: usize| {
            let count = self.columns.saturating_sub(vector * LANES).min(LANES);
            ((1_u32 << count) - 1) as __mmask16
        };
        let lanes = [lanes(0), lanes(1)];
        let mut sums: [[__m512; 2]; R] = [[_mm512_setzero_ps(); 2]; R];
        // SAFETY: only the columns of the output are touched, and as many pairs as the panels hold.
        unsafe {
            if self.output == Output::Accumulate {
                for (row, sums) in sums.iter_mut().enumerate() {
                    let at = self.out.add(row * self.row_stride);
                    *sums =
                        [_mm512_maskz_loadu_ps(lanes[0], at), _mm512_maskz_loadu_ps(lanes[1], at.wrapping_add(LANES))];
                }
            }
            let (mut a, mut b) = (self.a, self.b);
            for _ in 0..self.pairs {
                let columns = [pairs(_mm512_loadu_si512(b.cast())), pairs(_mm512_loadu_si512(b.add(LANES).cast()))];
                for (row, sums) in sums.iter_mut().enumerate() {
                    let x = pairs(_mm512_set1_epi32(a.add(row).read() as i32));
                    sums[0] = _mm512_dpbf16_ps(sums[0], x, columns[0]);
                    sums[1] = _mm512_dpbf16_ps(sums[1], x, columns[1]);
                }
                a = a.add(R);
                b = b.add(WIDTH);
            }
            for (row, sums) in sums.iter().enumerate() {
                let at = self.out.add(row * self.row_stride);
                _mm512_mask_storeu_ps(at, lanes[0], sums[0]);
                _mm512_mask_storeu_ps(at.wrapping_add(LANES), lanes[1], sums[1]);
            }
        }
    }
}

/// Returns words of 32 bits as pairs of bf16 numbers.
#[inline]
#[target_feature(enable = "avx512f")]
fn pairs(words: __m512i) -> __m512bh {
    // SAFETY: both are 512 bits without invalid values.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(words) }
}
