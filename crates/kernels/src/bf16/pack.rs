//! Lines of an operand as pairs of bf16 numbers, rounded on the way from f32.

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, __mmask16, _mm512_cvtne2ps_pbh, _mm512_loadu_ps, _mm512_loadu_si512,
    _mm512_mask_storeu_epi32, _mm512_maskz_loadu_ps, _mm512_permutexvar_epi16, _mm512_setzero_ps, _mm512_setzero_si512,
    _mm512_shuffle_i32x4, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};
use std::ops::Range;

use crate::matmul::Matrix;

/// Largest number of lines that are packed at once.
const LANES: usize = 16;
/// Number of terms whose pairs fill a vector.
const TERMS: usize = 2 * LANES;

/// Writes `to[p·stride + i] = (x[lines.start + i, terms.start + 2p], x[…, terms.start + 2p + 1])` as a word of 32 bits, the first
/// number in its lower half; zeros stand for lines and terms past the end.
///
/// # Safety
/// The processor has AVX-512 F, BW and BF16. `lines`, at most 16, and `terms` are inside `x`, and at least `lines.len()` and at
/// most 16 words are `stored` for each pair; all of them can be written.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn pack(
    x: Matrix<'_>,
    lines: Range<usize>,
    terms: Range<usize>,
    to: *mut u32,
    stride: usize,
    stored: usize,
) {
    let (data, line_stride, term_stride) = x.raw();
    let at = data.wrapping_add(lines.start * line_stride + terms.start * term_stride);
    let lanes = Lanes { used: lines.len(), stored: first(stored) };
    // SAFETY: the caller's promise.
    unsafe {
        match term_stride {
            1 => along_lines(at, line_stride, terms.len(), lanes, to, stride),
            _ => across_lines(at, [line_stride, term_stride], terms.len(), lanes, to, stride),
        }
    }
}

/// The lanes of a vector, one for each line.
#[derive(Clone, Copy)]
struct Lanes {
    /// Number of lines.
    used: usize,
    /// Lanes that are written.
    stored: __mmask16,
}

/// Packs lines whose terms lie side by side: squares of 16 pairs of 16 lines are transposed.
///
/// # Safety
/// That of [`pack`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn along_lines(x: *const f32, line_stride: usize, terms: usize, lanes: Lanes, to: *mut u32, stride: usize) {
    for begin in (0..terms).step_by(TERMS) {
        let count = TERMS.min(terms - begin);
        let masks = [first(count.min(LANES)), first(count.saturating_sub(LANES))];
        let mut words = [_mm512_setzero_si512(); LANES];
        for (line, words) in words.iter_mut().enumerate().take(lanes.used) {
            let x = x.wrapping_add(line * line_stride + begin);
            // SAFETY: masked to the terms of a line; other lanes are not read.
            let halves =
                unsafe { [_mm512_maskz_loadu_ps(masks[0], x), _mm512_maskz_loadu_ps(masks[1], x.wrapping_add(LANES))] };
            *words = rounded(halves);
        }
        for (pair, words) in transposed(words).into_iter().enumerate().take(count.div_ceil(2)) {
            // SAFETY: the caller's promise for this pair.
            unsafe { _mm512_mask_storeu_epi32(to.add((begin / 2 + pair) * stride).cast(), lanes.stored, words) };
        }
    }
}

/// Packs lines whose terms are `strides[1]` apart. Lines that lie side by side are read as vectors.
///
/// # Safety
/// That of [`pack`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn across_lines(x: *const f32, strides: [usize; 2], terms: usize, lanes: Lanes, to: *mut u32, stride: usize) {
    // Words of 16 bits: the lanes of the first vector alternate with those of the second.
    let order: [u16; TERMS] = std::array::from_fn(|word| (word / 2 + word % 2 * LANES) as u16);
    // SAFETY: the array is as long as a vector.
    let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
    for pair in 0..terms.div_ceil(2) {
        let term = |at: usize| match at < terms {
            // SAFETY: a term of the caller's lines.
            true => unsafe { one_term(x.wrapping_add(at * strides[1]), strides[0], lanes.used) },
            false => _mm512_setzero_ps(),
        };
        let words = rounded([term(2 * pair), term(2 * pair + 1)]);
        let words = _mm512_permutexvar_epi16(order, words);
        // SAFETY: the caller's promise for this pair.
        unsafe { _mm512_mask_storeu_epi32(to.add(pair * stride).cast(), lanes.stored, words) };
    }
}

/// Reads one term of each of the first `used` lines.
///
/// # Safety
/// The processor has AVX-512 F; these elements can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn one_term(x: *const f32, line_stride: usize, used: usize) -> __m512 {
    // SAFETY: the caller's promise; the array is as long as a vector.
    unsafe {
        if line_stride == 1 {
            return _mm512_maskz_loadu_ps(first(used), x);
        }
        let mut values = [0.0; LANES];
        for (line, value) in values.iter_mut().enumerate().take(used) {
            *value = x.add(line * line_stride).read();
        }
        _mm512_loadu_ps(values.as_ptr())
    }
}

/// Returns a mask of the first `count` lanes, at most 16.
fn first(count: usize) -> __mmask16 {
    ((1_u32 << count) - 1) as __mmask16
}

/// Rounds two vectors to bf16; those of the first one come first.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn rounded([low, high]: [__m512; 2]) -> __m512i {
    // SAFETY: both are 512 bits without invalid values.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)) }
}

/// Transposes a square of 16×16 words of 32 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(rows: [__m512i; LANES]) -> [__m512i; LANES] {
    let mut twos = rows;
    for i in (0..LANES).step_by(2) {
        twos[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
        twos[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    // `fours[i + c]` has the rows `i..i + 4` of column `4·part + c` in each part of 128 bits.
    let mut fours = twos;
    for i in (0..LANES).step_by(4) {
        fours[i] = _mm512_unpacklo_epi64(twos[i], twos[i + 2]);
        fours[i + 1] = _mm512_unpackhi_epi64(twos[i], twos[i + 2]);
        fours[i + 2] = _mm512_unpacklo_epi64(twos[i + 1], twos[i + 3]);
        fours[i + 3] = _mm512_unpackhi_epi64(twos[i + 1], twos[i + 3]);
    }
    let mut columns = fours;
    for c in 0..4 {
        // Parts 0 and 2 of two vectors, or parts 1 and 3.
        let even = [
            _mm512_shuffle_i32x4::<0x88>(fours[c], fours[4 + c]),
            _mm512_shuffle_i32x4::<0x88>(fours[8 + c], fours[12 + c]),
        ];
        let odd = [
            _mm512_shuffle_i32x4::<0xDD>(fours[c], fours[4 + c]),
            _mm512_shuffle_i32x4::<0xDD>(fours[8 + c], fours[12 + c]),
        ];
        columns[c] = _mm512_shuffle_i32x4::<0x88>(even[0], even[1]);
        columns[4 + c] = _mm512_shuffle_i32x4::<0x88>(odd[0], odd[1]);
        columns[8 + c] = _mm512_shuffle_i32x4::<0xDD>(even[0], even[1]);
        columns[12 + c] = _mm512_shuffle_i32x4::<0xDD>(odd[0], odd[1]);
    }
    columns
}
