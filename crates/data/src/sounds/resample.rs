//! Changes the number of samples per second with a windowed sinc, which cuts the frequencies that the new rate cannot hold.
//!
//! ```text
//! y[n] = Σ_k x[k] h(n · from/to − k),   h(t) = c sinc(c t) cos²(π t / 2w)  for |t| < w
//! ```
//!
//! with the cutoff `c = 0.95 min(1, to/from)` of the old rate's highest frequency and `w = 16 / c` samples on each side.

use std::f64::consts::PI;

/// Share of the highest frequency that is kept; the filter needs the rest to fall.
const KEPT: f64 = 0.95;
/// Number of zero crossings of the sinc on each side.
const CROSSINGS: f64 = 16.0;

/// Returns samples at another rate, `⌈length · to / from⌉` of them. What lies outside of the sound is silence.
pub(super) fn resample(samples: &[f32], from: u32, to: u32) -> Vec<f32> {
    if from == to {
        return samples.to_vec();
    }
    let shared = greatest_divisor(from, to);
    let (step, phases) = (u64::from(from / shared), u64::from(to / shared));
    let length = (samples.len() as u64 * phases).div_ceil(step) as usize;
    let cutoff = KEPT * (f64::from(to) / f64::from(from)).min(1.0);
    let reach = (CROSSINGS / cutoff).ceil() as i64;
    // The weights of output n depend on the fraction of its place alone, which repeats after `phases` outputs.
    let weights = |n: u64| -> Vec<f32> {
        let fraction = (n * step % phases) as f64 / phases as f64;
        (-reach + 1..=reach).map(|k| kernel(fraction - k as f64, cutoff) as f32).collect()
    };
    let table: Vec<Vec<f32>> = (0..phases.min(length as u64)).map(weights).collect();
    let output = |n: usize| {
        let first = (n as u64 * step / phases) as i64 - reach + 1;
        let skipped = (-first).max(0) as usize;
        let start = first.max(0) as usize;
        let taps = &table[n % table.len()];
        let taps = taps.get(skipped..).unwrap_or(&[]);
        let heard = samples.get(start..).unwrap_or(&[]);
        taps.iter().zip(heard).map(|(weight, sample)| weight * sample).sum()
    };
    (0..length).map(output).collect()
}

fn kernel(t: f64, cutoff: f64) -> f64 {
    let width = CROSSINGS / cutoff;
    if t.abs() >= width {
        return 0.0;
    }
    let angle = PI * cutoff * t;
    let sinc = if angle == 0.0 { 1.0 } else { angle.sin() / angle };
    cutoff * sinc * (PI * t / (2.0 * width)).cos().powi(2)
}

fn greatest_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    fn tone(rate: u32, hertz: f64, seconds: f64) -> Vec<f32> {
        let count = (f64::from(rate) * seconds) as usize;
        (0..count).map(|n| (TAU * hertz * n as f64 / f64::from(rate)).sin() as f32).collect()
    }

    /// Largest difference away from the edges, where the silence outside is heard.
    fn difference(a: &[f32], b: &[f32]) -> f32 {
        assert!(a.len().abs_diff(b.len()) <= 1);
        let edge = a.len() / 5;
        a.iter().zip(b).skip(edge).take(a.len() - 2 * edge).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn a_tone_stays_the_same_tone() {
        for (from, to) in [(16_000, 8_000), (8_000, 16_000), (44_100, 8_000), (11_025, 8_000), (8_000, 44_101)] {
            let there = resample(&tone(from, 440.0, 0.2), from, to);
            assert!(difference(&there, &tone(to, 440.0, 0.2)) < 2e-3, "{from} → {to}");
        }
        assert_eq!(resample(&[1.0, 2.0], 8_000, 8_000), [1.0, 2.0]);
    }

    #[test]
    fn what_the_new_rate_cannot_hold_is_cut() {
        // 5 kHz would come back as 3 kHz.
        let there = resample(&tone(16_000, 5_000.0, 0.2), 16_000, 8_000);
        assert!(difference(&there, &vec![0.0; there.len()]) < 2e-3);
    }

    #[test]
    fn lengths_are_rounded_up() {
        assert_eq!(resample(&[], 16_000, 8_000), [0.0; 0]);
        assert_eq!(resample(&[1.0], 768_000, 1_000).len(), 1);
        assert_eq!(resample(&[0.5; 5], 2, 1).len(), 3);
        assert_eq!(resample(&[0.5; 3], 1_000, 768_000).len(), 2_304);
    }
}
