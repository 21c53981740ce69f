//! Discrete Fourier transform of real numbers, for lengths that are powers of two (Cooley and Tukey, Math. Comp. 19, 1965).

use std::f64::consts::TAU;

/// A transform of `length` real numbers, with its sines and cosines.
#[derive(Clone, Debug)]
pub(super) struct RealFft {
    length: usize,
    /// `exp(−2πi k / length)` for `k` below half of the length.
    turns: Vec<[f32; 2]>,
}

impl RealFft {
    /// Prepares a transform.
    ///
    /// # Panics
    /// Unless `length` is a power of two and at least 4.
    pub fn new(length: usize) -> Self {
        assert!(length.is_power_of_two() && length >= 4, "a length of {length}");
        let turn = |k: usize| {
            let (sine, cosine) = (TAU * k as f64 / length as f64).sin_cos();
            [cosine as f32, -sine as f32]
        };
        Self { length, turns: (0..length / 2).map(turn).collect() }
    }

    /// Computes `|X_k|²` for `k` from 0 to half of the length. The numbers are packed as complex ones in `work`.
    ///
    /// # Panics
    /// Unless there are as many numbers as the length, and half as many pairs and one more powers.
    pub fn powers(&self, numbers: &[f32], work: &mut [[f32; 2]], powers: &mut [f32]) {
        let half = self.length / 2;
        assert!(numbers.len() == self.length && work.len() == half && powers.len() == half + 1);
        let bits = half.trailing_zeros();
        for (at, pair) in numbers.chunks_exact(2).enumerate() {
            work[at.reverse_bits() >> (usize::BITS - bits)] = [pair[0], pair[1]];
        }
        self.transform(work);
        for (k, power) in powers.iter_mut().enumerate() {
            // The transforms of the even and of the odd numbers, from those of their complex pairs.
            let ([a, b], [c, d]) = (work[k % half], work[(half - k) % half]);
            let (even, odd) = ([(a + c) / 2.0, (b - d) / 2.0], [(b + d) / 2.0, (c - a) / 2.0]);
            let turned = if k == half { [-odd[0], -odd[1]] } else { product(odd, self.turns[k]) };
            let (real, imaginary) = (even[0] + turned[0], even[1] + turned[1]);
            *power = real * real + imaginary * imaginary;
        }
    }

    /// Transforms complex numbers in bit-reversed order in place.
    fn transform(&self, work: &mut [[f32; 2]]) {
        let mut size = 2;
        while size <= work.len() {
            let stride = self.length / size;
            for block in work.chunks_exact_mut(size) {
                let (low, high) = block.split_at_mut(size / 2);
                for ((a, b), turn) in low.iter_mut().zip(high).zip(self.turns.iter().step_by(stride)) {
                    let turned = product(*b, *turn);
                    *b = [a[0] - turned[0], a[1] - turned[1]];
                    *a = [a[0] + turned[0], a[1] + turned[1]];
                }
            }
            size *= 2;
        }
    }
}

fn product([a, b]: [f32; 2], [c, d]: [f32; 2]) -> [f32; 2] {
    [a * c - b * d, a * d + b * c]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_those_of_the_definition() {
        for length in [4, 8, 64, 512] {
            let numbers: Vec<f32> = (0..length).map(|n| ((n * n * 7 + 3 * n) % 31) as f32 / 15.0 - 1.0).collect();
            let (mut work, mut powers) = (vec![[0.0; 2]; length / 2], vec![0.0; length / 2 + 1]);
            RealFft::new(length).powers(&numbers, &mut work, &mut powers);
            for (k, &power) in powers.iter().enumerate() {
                let (mut real, mut imaginary) = (0.0, 0.0);
                for (n, &x) in numbers.iter().enumerate() {
                    let angle = TAU * (k * n % length) as f64 / length as f64;
                    real += f64::from(x) * angle.cos();
                    imaginary -= f64::from(x) * angle.sin();
                }
                let want = real * real + imaginary * imaginary;
                let error = (f64::from(power) - want).abs();
                assert!(error <= 1e-5 * (want + length as f64), "{length}, {k}: {power}, {want}");
            }
        }
    }
}
