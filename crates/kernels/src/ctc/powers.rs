//! Numbers `m · 2^e` that are 0 or more, with exponents in floats of their own: products of thousands of probabilities neither
//! underflow nor need a logarithm.
//!
//! An exponent is a whole number. The functions are plain arithmetic without branches, so that loops over slices become vectors.

/// A number `m · 2^e`: the mantissa, from 1 to 2 if it is not 0, and the exponent.
pub(super) type Power = (f64, f64);

/// The number 0.
pub(super) const ZERO: Power = (0.0, -1e300);

/// A slice of numbers.
#[derive(Clone, Copy)]
pub(super) struct Powers<'a> {
    pub(super) mantissas: &'a [f64],
    pub(super) exponents: &'a [f64],
}

impl<'a> Powers<'a> {
    /// Returns `count` numbers from `first` on.
    #[inline(always)]
    pub(super) fn part(self, first: usize, count: usize) -> Self {
        Self { mantissas: &self.mantissas[first..][..count], exponents: &self.exponents[first..][..count] }
    }

    #[inline(always)]
    pub(super) fn get(self, at: usize) -> Power {
        (self.mantissas[at], self.exponents[at])
    }
}

/// A slice of numbers to be written.
pub(super) struct PowersMut<'a> {
    pub(super) mantissas: &'a mut [f64],
    pub(super) exponents: &'a mut [f64],
}

impl PowersMut<'_> {
    /// Returns `count` numbers from `first` on.
    #[inline(always)]
    pub(super) fn part(&mut self, first: usize, count: usize) -> PowersMut<'_> {
        PowersMut { mantissas: &mut self.mantissas[first..][..count], exponents: &mut self.exponents[first..][..count] }
    }

    /// Writes `number(i)` to each place `i`.
    #[inline(always)]
    pub(super) fn write(self, number: impl Fn(usize) -> Power) {
        for (i, (mantissa, exponent)) in self.mantissas.iter_mut().zip(self.exponents).enumerate() {
            (*mantissa, *exponent) = number(i);
        }
    }

    #[inline(always)]
    pub(super) fn set(&mut self, at: usize, (mantissa, exponent): Power) {
        (self.mantissas[at], self.exponents[at]) = (mantissa, exponent);
    }
}

/// A float whose last bits are the biased exponent of 2^`x`, if `x` is added to it.
const BIAS: f64 = (1u64 << 52) as f64 + 1023.0;

/// Returns `2^x` for a whole number of at most 1023, 0 below −1022.
#[inline(always)]
pub(super) fn power_of_two(x: f64) -> f64 {
    let x = if x > -1023.0 { x } else { -1023.0 };
    f64::from_bits((x + BIAS).to_bits() << 52)
}

/// Returns the sum of numbers; its mantissa may be too large.
#[inline(always)]
pub(super) fn sum<const N: usize>(terms: [Power; N]) -> Power {
    let mut top = terms[0].1;
    for term in &terms[1..] {
        top = if term.1 > top { term.1 } else { top };
    }
    let mut mantissa = 0.0;
    for (m, e) in terms {
        mantissa += m * power_of_two(e - top);
    }
    (mantissa, top)
}

/// Returns the product of two numbers, with a mantissa from 1 to 2. Those of the factors may be from 2^−1000 to 2^1000.
#[inline(always)]
pub(super) fn product(a: Power, b: Power) -> Power {
    let (mantissa, exponent) = (a.0 * b.0, a.1 + b.1);
    let bits = mantissa.to_bits();
    // The biased exponent as the last bits of a float.
    let shift = f64::from_bits((bits >> 52) | ((1u64 << 52) as f64).to_bits()) - BIAS;
    let normal = f64::from_bits((bits & ((1 << 52) - 1)) | 1f64.to_bits());
    if mantissa == 0.0 { ZERO } else { (normal, exponent + shift) }
}

/// Returns the number if `keep` is 1, and 0 if it is 0.
#[inline(always)]
pub(super) fn kept(keep: f64, (mantissa, exponent): Power) -> Power {
    (keep * mantissa, if keep == 0.0 { ZERO.1 } else { exponent })
}

/// Returns `exp x` for an `x` of at most 700 that is not NaN.
#[inline(always)]
pub(super) fn exp(x: f64) -> Power {
    use std::f64::consts::{LN_2, LOG2_E};
    let scaled = x * LOG2_E;
    let exponent = scaled.round_ties_even();
    let y = (scaled - exponent) * LN_2;
    // The Taylor series to y¹², whose error for |y| < 0.35 is below that of an f64.
    let mut mantissa = 1.0 / 479_001_600.0;
    for factor in [39_916_800.0, 3_628_800.0, 362_880.0, 40_320.0, 5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0f64] {
        mantissa = mantissa * y + 1.0 / factor;
    }
    if x < -1e290 { ZERO } else { (mantissa, exponent) }
}

/// Returns the natural logarithm of a number.
pub(super) fn ln((mantissa, exponent): Power) -> f64 {
    mantissa.ln() + exponent * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value((mantissa, exponent): Power) -> f64 {
        mantissa * exponent.exp2()
    }

    #[test]
    fn sums_products_and_powers_are_those_of_floats() {
        let numbers = [0.0, 1e-40, 0.3, 1.0, 2.5, 7e5, 1e30];
        for a in numbers {
            for b in numbers {
                let [x, y] = [a, b].map(|x| product((x, 0.0), (1.0, 0.0)));
                assert!(a == 0.0 || (1.0..2.0).contains(&x.0));
                assert!((value(sum([x, y])) - (a + b)).abs() <= 1e-15 * (a + b), "{a} + {b}");
                assert!((value(sum([x, y, x])) - (a + b + a)).abs() <= 1e-15 * (a + b + a), "{a} + {b} + {a}");
                assert!((value(product(x, y)) - a * b).abs() <= 1e-15 * a * b, "{a} · {b}");
                assert_eq!([value(kept(1.0, x)), value(kept(0.0, x))], [value(x), 0.0]);
            }
        }
        for x in [0.0, -1e-9, -0.34, -0.35, -1.0, -77.7, -700.0, 3.0] {
            assert!((value(exp(x)) / x.exp() - 1.0).abs() < 1e-15 * (1.0 + x.abs()), "exp {x}");
        }
    }

    #[test]
    fn very_small_numbers_are_kept_apart_from_zero() {
        let small = exp(-1e6);
        let mut all = product(small, small);
        assert!((ln(all) + 2e6).abs() < 1e-8);
        all = product(sum([all, ZERO, all]), (1.0, 0.0));
        assert!((ln(all) + 2e6 - 2f64.ln()).abs() < 1e-8);
        assert_eq!(ln(product(all, ZERO)), f64::NEG_INFINITY);
        assert_eq!(exp(f64::NEG_INFINITY), ZERO);
        assert_eq!(sum([(1.0, 3.0), all]), (1.0, 3.0));
    }
}
