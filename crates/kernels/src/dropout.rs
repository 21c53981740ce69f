//! Elementwise dropout. The random numbers come from a counter-based generator, so no mask is stored.
//!
//! ```text
//! out[i] = x[i] · keep[i] / (1 − p),   keep[i] = bits(seed, i) ≥ p·2³²
//! ```

use pulp::{Simd, WithSimd};

use crate::error::{KernelError, check_len};
use crate::isa::dispatch;
use crate::parallel::for_each_rows;
use crate::random::{RowKey, lanes, threshold};
use crate::vector::map_in_place;

/// Number of elements that share a key of the generator. Changing it changes the meaning of every seed.
const ROW: usize = 4096;

/// Zeroes each element with probability `p` and scales the others by `1/(1 − p)`.
///
/// The choice depends on `seed` and the element's position alone, not on the threads or the instruction set. **The
/// backward pass is this function** on the gradient, with the same `p` and `seed`. A NaN stays a NaN.
///
/// # Shapes
/// `x` and `out` have any shape, the same for both.
pub fn dropout_forward(x: &[f32], p: f32, seed: u64, out: &mut [f32]) -> Result<(), KernelError> {
    check_len("dropout out", out.len(), x.len())?;
    if !(0.0..1.0).contains(&p) {
        let why = format!("expected at least 0 and less than 1, got {p}");
        return Err(KernelError::Invalid { what: "dropout probability", why });
    }
    if p == 0.0 {
        out.copy_from_slice(x);
        return Ok(());
    }
    // Pieces hold whole rows: 16 Ki elements are four of them.
    for_each_rows(out, 1, |start, out| {
        let x = &x[start..start + out.len()];
        dispatch(Forward {
            x,
            first: (start / ROW) as u64,
            seed,
            threshold: threshold(p),
            scale: 1.0 / (1.0 - p),
            out,
        });
    });
    Ok(())
}

/// Drops elements of `x` in place, as [`dropout_forward`] does in a larger slice in which `x` begins at element `start`.
#[inline(always)]
pub(crate) fn drop_in_place<S: Simd>(simd: S, x: &mut [f32], start: usize, p: f32, seed: u64) {
    let (threshold, scale) = (simd.splat_u32s(threshold(p)), simd.splat_f32s(1.0 / (1.0 - p)));
    let (zero, step) = (simd.splat_f32s(0.0), simd.splat_u32s(S::U32_LANES as u32));
    let (mut rest, mut at) = (x, start);
    while !rest.is_empty() {
        let count = (ROW - at % ROW).min(rest.len());
        let (row, after) = rest.split_at_mut(count);
        let key = RowKey::new(seed, (at / ROW) as u64);
        let mut index = simd.add_u32s(lanes(simd), simd.splat_u32s((at % ROW) as u32));
        map_in_place!(simd, row, |x| {
            let dropped = simd.less_than_u32s(key.bits(simd, index), threshold);
            index = simd.add_u32s(index, step);
            simd.mul_f32s(x, simd.select_f32s(dropped, zero, scale))
        });
        (rest, at) = (after, at + count);
    }
}

struct Forward<'a> {
    x: &'a [f32],
    first: u64,
    seed: u64,
    threshold: u32,
    scale: f32,
    out: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let threshold = simd.splat_u32s(self.threshold);
        let (scale, zero) = (simd.splat_f32s(self.scale), simd.splat_f32s(0.0));
        let step = simd.splat_u32s(S::U32_LANES as u32);
        for (row, (x, out)) in (self.first..).zip(self.x.chunks(ROW).zip(self.out.chunks_mut(ROW))) {
            let key = RowKey::new(self.seed, row);
            let mut index = lanes(simd);
            let (x, x_tail) = S::as_simd_f32s(x);
            let (out, out_tail) = S::as_mut_simd_f32s(out);
            for (x, out) in x.iter().zip(out) {
                let dropped = simd.less_than_u32s(key.bits(simd, index), threshold);
                *out = simd.mul_f32s(*x, simd.select_f32s(dropped, zero, scale));
                index = simd.add_u32s(index, step);
            }
            if !x_tail.is_empty() {
                let dropped = simd.less_than_u32s(key.bits(simd, index), threshold);
                let x = simd.partial_load_f32s(x_tail);
                simd.partial_store_f32s(out_tail, simd.mul_f32s(x, simd.select_f32s(dropped, zero, scale)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::on_every_isa;
    use crate::parallel::SERIAL_ELEMENTS;
    use crate::test_support::numbers;
    use proptest::prelude::*;
    use pulp::Scalar;

    /// Computes dropout by the formula, one element at a time.
    fn exact(x: &[f32], p: f32, seed: u64) -> Vec<f32> {
        let element = |i: usize| {
            let bits = RowKey::new(seed, (i / ROW) as u64).bits(Scalar::new(), (i % ROW) as u32);
            if f64::from(bits) < f64::from(p) * 4_294_967_296.0 { x[i] * 0.0 } else { x[i] * (1.0 / (1.0 - p)) }
        };
        (0..x.len()).map(element).collect()
    }

    #[test]
    fn agrees_with_the_formula_whatever_the_instruction_set() {
        for n in [0, 1, 7, 16, 4095, 4097, 3 * SERIAL_ELEMENTS + 5] {
            let x = numbers(n, 1, 2.0);
            on_every_isa(|isa| {
                for p in [0.0, 0.1, 0.5, 0.999] {
                    let mut out = vec![f32::NAN; n];
                    dropout_forward(&x, p, 42, &mut out).unwrap();
                    assert_eq!(out, exact(&x, p, 42), "{isa:?}, {n} elements, p = {p}");
                }
            });
        }
    }

    #[test]
    fn a_part_in_place_is_dropped_like_the_whole() {
        struct Part<'a>(&'a mut [f32], usize);
        impl WithSimd for Part<'_> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                drop_in_place(simd, self.0, self.1, 0.3, 42);
            }
        }
        let x = numbers(3 * ROW, 1, 2.0);
        let whole = exact(&x, 0.3, 42);
        on_every_isa(|isa| {
            for (start, end) in [(0, 3 * ROW), (5, 5), (7, 40), (ROW - 3, ROW + 30), (100, 3 * ROW - 1)] {
                let mut part = x[start..end].to_vec();
                dispatch(Part(&mut part, start));
                assert_eq!(part, whole[start..end], "{isa:?}, {start}..{end}");
            }
        });
    }

    #[test]
    fn drops_the_share_it_should_and_seeds_differ() {
        let n = 200_000;
        let mut out = vec![0.0; n];
        dropout_forward(&vec![1.0; n], 0.3, 7, &mut out).unwrap();
        let dropped = out.iter().filter(|&&x| x == 0.0).count() as f64 / n as f64;
        // Four standard errors.
        assert!((dropped - 0.3).abs() < 4.0 * (0.3 * 0.7 / n as f64).sqrt(), "{dropped}");
        let mut other = vec![0.0; n];
        dropout_forward(&vec![1.0; n], 0.3, 8, &mut other).unwrap();
        let same = out.iter().zip(&other).filter(|(a, b)| a == b).count() as f64 / n as f64;
        assert!((same - 0.58).abs() < 4.0 * (0.58 * 0.42 / n as f64).sqrt(), "{same}");
    }

    #[test]
    fn nan_comes_through() {
        let mut out = [0.0; 64];
        dropout_forward(&[f32::NAN; 64], 0.5, 1, &mut out).unwrap();
        assert!(out.iter().all(|x| x.is_nan()));
    }

    #[test]
    fn bad_probabilities_and_lengths_are_refused() {
        for p in [1.0, -0.1, f32::NAN, f32::INFINITY] {
            assert!(dropout_forward(&[1.0], p, 0, &mut [0.0]).is_err(), "{p}");
        }
        assert!(dropout_forward(&[1.0], 0.5, 0, &mut []).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_size(n in 0_usize..9000, p in 0.0_f32..0.99, seed: u64) {
            let x = numbers(n, seed, 1.0);
            let mut out = vec![f32::NAN; n];
            dropout_forward(&x, p, seed, &mut out).unwrap();
            prop_assert_eq!(out, exact(&x, p, seed));
        }
    }
}
