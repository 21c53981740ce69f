//! Log-mel features: how loud a sound is in each band of frequencies, as the ear divides them, 100 times a second.
//!
//! A window of 25 ms, weighted by Hann's function, moves in steps of 10 ms. The power of its Fourier transform is summed under
//! triangles whose corners are equally far apart on Slaney's mel scale (linear below 1 kHz, logarithmic above), each divided by
//! its area; the features are natural logarithms of the sums. `librosa` calls this `melspectrogram` with `center=False`.

use super::fft::RealFft;
use std::f64::consts::TAU;

/// How features are computed from samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MelConfig {
    /// Samples per second.
    pub rate: u32,
    /// Length of a window in milliseconds.
    pub window: f64,
    /// Time from a window to the next in milliseconds.
    pub hop: f64,
    /// Number of bands.
    pub bands: usize,
    /// Lowest frequency in hertz.
    pub low: f64,
    /// Highest frequency in hertz, at most half of the rate.
    pub high: f64,
    /// Smallest power that a logarithm is taken of.
    pub floor: f32,
}

impl MelConfig {
    /// Number of samples of a window.
    pub fn window_samples(&self) -> usize {
        (self.window * f64::from(self.rate) / 1_000.0).round() as usize
    }

    /// Number of samples from a window to the next.
    pub fn hop_samples(&self) -> usize {
        (self.hop * f64::from(self.rate) / 1_000.0).round() as usize
    }
}

/// Random change of the voice: how fast it speaks and how long its vocal tract is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Voice {
    /// Factor of the speed.
    pub speed: f64,
    /// Factor of the frequencies of the lower four fifths of the scale; the rest is stretched to keep its end.
    pub pitch: f64,
}

impl Default for Voice {
    fn default() -> Self {
        Self { speed: 1.0, pitch: 1.0 }
    }
}

/// The sum of powers under one triangle.
#[derive(Clone, Debug)]
struct Band {
    /// First frequency of the triangle, as an index of the transform.
    first: usize,
    weights: Vec<f32>,
}

/// Computes log-mel features.
#[derive(Clone, Debug)]
pub struct LogMel {
    config: MelConfig,
    hann: Vec<f32>,
    fft: RealFft,
    bands: Vec<Band>,
    length: usize,
}

impl LogMel {
    /// Prepares windows and triangles.
    ///
    /// # Panics
    /// Unless a window and a step have at least one sample and there is at least one band.
    pub fn new(config: MelConfig) -> Self {
        let window = config.window_samples();
        assert!(window > 0 && config.hop_samples() > 0 && config.bands > 0, "{config:?}");
        let length = window.next_power_of_two().max(4);
        let hann = |n: usize| (0.5 - 0.5 * (TAU * n as f64 / window as f64).cos()) as f32;
        Self {
            hann: (0..window).map(hann).collect(),
            fft: RealFft::new(length),
            bands: bands(&config, length, 1.0),
            config,
            length,
        }
    }

    /// The settings.
    pub fn config(&self) -> &MelConfig {
        &self.config
    }

    /// Number of frames of a sound: those whose window lies in it.
    pub fn frames(&self, samples: usize) -> usize {
        match samples.checked_sub(self.hann.len()) {
            Some(rest) => 1 + rest / self.config.hop_samples(),
            None => 0,
        }
    }

    /// Computes the features of a sound, `[frames, bands]`.
    pub fn apply(&self, samples: &[f32]) -> Vec<f32> {
        self.apply_as(samples, Voice::default())
    }

    /// Computes the features of a sound as if another voice had spoken: faster, and with higher or lower resonances.
    pub fn apply_as(&self, samples: &[f32], Voice { speed, pitch }: Voice) -> Vec<f32> {
        let hop = self.config.hop_samples() as f64 * speed;
        let moved;
        let bands = match pitch == 1.0 {
            true => &self.bands,
            false => {
                moved = bands(&self.config, self.length, pitch);
                &moved
            }
        };
        let frames = match samples.len().checked_sub(self.hann.len()) {
            Some(rest) => 1 + (rest as f64 / hop) as usize,
            None => 0,
        };
        let mut features = Vec::with_capacity(frames * bands.len());
        let mut windowed = vec![0.0; self.length];
        let (mut work, mut powers) = (vec![[0.0; 2]; self.length / 2], vec![0.0; self.length / 2 + 1]);
        for frame in 0..frames {
            let start = (frame as f64 * hop) as usize;
            let heard = &samples[start..];
            for ((out, &sample), &weight) in windowed.iter_mut().zip(heard).zip(&self.hann) {
                *out = sample * weight;
            }
            self.fft.powers(&windowed, &mut work, &mut powers);
            features.extend(bands.iter().map(|Band { first, weights }| {
                let power: f32 = weights.iter().zip(&powers[*first..]).map(|(weight, power)| weight * power).sum();
                power.max(self.config.floor).ln()
            }));
        }
        features
    }
}

/// The triangles for a transform of this length, with their corners moved by a factor of frequency.
fn bands(config: &MelConfig, length: usize, pitch: f64) -> Vec<Band> {
    let (low, high) = (to_mel(config.low), to_mel(config.high));
    let corner =
        |at: usize| moved(from_mel(low + (high - low) * at as f64 / (config.bands + 1) as f64), config.high, pitch);
    let corners: Vec<f64> = (0..config.bands + 2).map(corner).collect();
    let frequency = |bin: usize| bin as f64 * f64::from(config.rate) / length as f64;
    let band = |corners: &[f64]| {
        let [left, centre, right] = [corners[0], corners[1], corners[2]];
        let weight = |bin: usize| {
            let hertz = frequency(bin);
            let side = ((hertz - left) / (centre - left)).min((right - hertz) / (right - centre));
            (side.max(0.0) * 2.0 / (right - left)) as f32
        };
        let all: Vec<f32> = (0..=length / 2).map(weight).collect();
        let first = all.iter().position(|&weight| weight > 0.0).unwrap_or(0);
        let last = all.iter().rposition(|&weight| weight > 0.0).map_or(first, |last| last + 1);
        Band { first, weights: all[first..last].to_vec() }
    };
    corners.windows(3).map(band).collect()
}

/// Multiplies a frequency; from four fifths of the scale on, the factor changes so that the end of the scale stays.
fn moved(hertz: f64, high: f64, pitch: f64) -> f64 {
    let bend = 0.8 * high * pitch.min(1.0) / pitch;
    match hertz <= bend {
        true => hertz * pitch,
        false => high - (high - bend * pitch) / (high - bend) * (high - hertz),
    }
}

/// End of the linear part of Slaney's mel scale in hertz, and its mel.
const LINEAR: (f64, f64) = (1_000.0, 15.0);
/// Hertz of a mel in the linear part.
const MEL: f64 = 200.0 / 3.0;

/// Logarithm of the ratio of two frequencies that are one mel apart, above the linear part: 27 mels are a factor of 6.4.
fn ratio() -> f64 {
    6.4f64.ln() / 27.0
}

fn to_mel(hertz: f64) -> f64 {
    if hertz < LINEAR.0 { hertz / MEL } else { LINEAR.1 + (hertz / LINEAR.0).ln() / ratio() }
}

fn from_mel(mel: f64) -> f64 {
    if mel < LINEAR.1 { mel * MEL } else { LINEAR.0 * ((mel - LINEAR.1) * ratio()).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::path::Path;

    #[test]
    fn features_are_those_of_librosa() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/mel.json");
        let golden: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let numbers = |value: &Value| -> Vec<f32> {
            value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
        };
        let samples = numbers(&golden["samples"]);
        for case in golden["cases"].as_array().unwrap() {
            let number = |key: &str| case[key].as_f64().unwrap();
            let config = MelConfig {
                rate: number("rate") as u32,
                window: number("window"),
                hop: number("hop"),
                bands: number("bands") as usize,
                low: number("low"),
                high: number("high"),
                floor: number("floor") as f32,
            };
            let mel = LogMel::new(config);
            let (got, want) = (mel.apply(&samples), numbers(&case["features"]));
            assert_eq!(got.len(), want.len(), "{config:?}");
            assert_eq!(got.len(), mel.frames(samples.len()) * config.bands);
            for (at, (got, want)) in got.iter().zip(&want).enumerate() {
                // A logarithm of 1e-4 is a ratio of powers, as accurate as a transform in single precision.
                assert!((got - want).abs() < 2e-4, "{config:?}, {at}: {got}, {want}");
            }
        }
    }

    const PLAIN: MelConfig =
        MelConfig { rate: 8_000, window: 25.0, hop: 10.0, bands: 40, low: 0.0, high: 4_000.0, floor: 1e-10 };

    #[test]
    fn silence_is_the_floor_and_short_sounds_have_no_frames() {
        let mel = LogMel::new(PLAIN);
        assert_eq!(mel.apply(&[0.0; 200]), vec![1e-10f32.ln(); 40]);
        assert!(mel.apply(&[0.5; 199]).is_empty());
        assert_eq!([199, 200, 279, 280].map(|samples| mel.frames(samples)), [0, 1, 1, 2]);
    }

    #[test]
    fn a_tone_is_in_its_band_and_moves_with_the_voice() {
        let mel = LogMel::new(PLAIN);
        let tone: Vec<f32> = (0..4_000).map(|n| (TAU * 1_000.0 * n as f64 / 8_000.0).sin() as f32).collect();
        let loudest = |voice: Voice| {
            let features = mel.apply_as(&tone, voice);
            let row = &features[40 * 3..40 * 4];
            (features.len() / 40, (0..40).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap())
        };
        let (frames, band) = loudest(Voice::default());
        assert_eq!(frames, 48);
        // Corners of the triangles are 0.86 mel apart, and 1 kHz is mel 15.
        assert!((15.0 / 35.2 * 41.0 - 1.0 - band as f64).abs() <= 1.0, "{band}");
        // With bands at higher frequencies, the same tone is in a lower band.
        assert!(loudest(Voice { pitch: 1.2, ..Voice::default() }).1 < band);
        assert_eq!(loudest(Voice { speed: 2.0, ..Voice::default() }).0, 24);
        for pitch in [0.8, 1.0, 1.25] {
            assert!((moved(4_000.0, 4_000.0, pitch) - 4_000.0).abs() < 1e-9 && moved(0.0, 4_000.0, pitch) == 0.0);
            assert!((moved(1_000.0, 4_000.0, pitch) - 1_000.0 * pitch).abs() < 1e-9);
        }
    }
}
