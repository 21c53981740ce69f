//! A counter-based random number generator: the bits are a function of a key and an index, so nothing is stored and a
//! backward pass draws the same numbers again.

use pulp::Simd;

/// The generator's key for one row of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowKey {
    low: u32,
    high: u32,
}

impl RowKey {
    /// Returns the key of row `row` in the stream of `seed`.
    #[inline(always)]
    pub(crate) fn new(seed: u64, row: u64) -> Self {
        let mixed = mix(seed, row);
        Self { low: mixed as u32, high: (mixed >> 32) as u32 }
    }

    /// Returns 32 uniform bits for each index.
    #[inline(always)]
    pub(crate) fn bits<S: Simd>(self, simd: S, index: S::u32s) -> S::u32s {
        let shift = |x, by| simd.xor_u32s(x, simd.wrapping_dyn_shr_u32s(x, simd.splat_u32s(by)));
        let x = simd.add_u32s(simd.mul_u32s(index, simd.splat_u32s(0x9E37_79B9)), simd.splat_u32s(self.low));
        let x = simd.mul_u32s(shift(x, 16), simd.splat_u32s(0x7FEB_352D));
        let x = simd.xor_u32s(shift(x, 15), simd.splat_u32s(self.high));
        shift(simd.mul_u32s(x, simd.splat_u32s(0x846C_A68B)), 16)
    }
}

/// Returns the threshold for which [`RowKey::bits`] are below it with probability `p`.
pub(crate) fn threshold(p: f32) -> u32 {
    (f64::from(p) * 4_294_967_296.0).min(4_294_967_295.0) as u32
}

/// Returns a vector with its lanes' numbers, `0, 1, 2, …`.
#[inline(always)]
pub(crate) fn lanes<S: Simd>(simd: S) -> S::u32s {
    const COUNT: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    simd.partial_load_u32s(&COUNT[..S::U32_LANES])
}

/// Returns one number from two, with every bit depending on all bits of both (after Steele's 64-bit finaliser).
#[inline(always)]
pub fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b.rotate_left(32);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9).wrapping_add(b);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulp::Scalar;

    fn draw(seed: u64, rows: u64, cols: u32) -> Vec<u32> {
        let key = |row| RowKey::new(seed, row);
        (0..rows).flat_map(|r| (0..cols).map(move |c| key(r).bits(Scalar::new(), c))).collect()
    }

    #[test]
    fn bits_are_uniform_and_uncorrelated() {
        let (rows, cols) = (512, 512);
        let n = f64::from(rows as u32) * f64::from(cols);
        let x: Vec<f64> = draw(7, rows, cols).iter().map(|&b| f64::from(b) / 4_294_967_296.0 - 0.5).collect();
        // Standard errors: √(1/12n) for the mean, 1/(12√n) for a product of neighbours.
        let mean = x.iter().sum::<f64>() / n;
        assert!(mean.abs() < 4.0 * (1.0 / (12.0 * n)).sqrt(), "mean {mean}");
        for lag in [1, 2, 16, cols as usize, cols as usize + 1] {
            let product = x.iter().zip(&x[lag..]).map(|(a, b)| a * b).sum::<f64>() / n;
            assert!(product.abs() < 4.0 / (12.0 * n.sqrt()), "lag {lag}: {product}");
        }
        for bit in 0..32 {
            let ones = draw(7, rows, cols).iter().filter(|&&b| b >> bit & 1 == 1).count() as f64;
            assert!((ones / n - 0.5).abs() < 4.0 * 0.5 / n.sqrt(), "bit {bit}: {ones} of {n}");
        }
    }

    #[test]
    fn seeds_and_rows_differ() {
        assert_ne!(draw(1, 1, 64), draw(2, 1, 64));
        let two = draw(1, 2, 64);
        assert_ne!(two[..64], two[64..]);
    }
}
