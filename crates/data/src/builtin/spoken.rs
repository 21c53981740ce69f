//! Spoken digits, synthesised: each word is a few sounds, voiced by harmonics under three moving resonances or hissed as
//! noise. Pitch, vocal tract, speed, loudness and background noise are drawn for each voice, so that no two are the same.

use super::Sizes;
use crate::hash::Fnv;
use crate::{Recording, Sound, Split, Splits};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::f32::consts::TAU;

/// Number of recordings in each part of the built-in digits.
pub const SPOKEN: Sizes = Sizes { train: 1_000, dev: 150, test: 300 };

const RATE: u32 = 8_000;
/// Number of samples in which the sound of the mouth stays the same: 5 ms.
const BLOCK: usize = 40;
/// Highest harmonic in hertz.
const HIGHEST: f32 = 3_800.0;
/// Number of digits of a string.
const DIGITS: std::ops::RangeInclusive<usize> = 2..=5;

/// A sound of a word: three resonances in hertz, how loud voice and noise are, and its length in milliseconds.
struct Phone {
    resonances: [f32; 3],
    voice: f32,
    noise: f32,
    length: f32,
}

const fn phone(resonances: [f32; 3], voice: f32, noise: f32, length: f32) -> Phone {
    Phone { resonances, voice, noise, length }
}

const EE: Phone = phone([300.0, 2_300.0, 3_000.0], 1.0, 0.0, 110.0);
const I: Phone = phone([400.0, 1_950.0, 2_550.0], 1.0, 0.0, 80.0);
const E: Phone = phone([550.0, 1_800.0, 2_500.0], 1.0, 0.0, 100.0);
const A: Phone = phone([750.0, 1_200.0, 2_500.0], 1.0, 0.0, 120.0);
const O: Phone = phone([500.0, 850.0, 2_400.0], 1.0, 0.0, 130.0);
const U: Phone = phone([320.0, 800.0, 2_300.0], 1.0, 0.0, 120.0);
const W: Phone = phone([320.0, 700.0, 2_200.0], 0.7, 0.0, 60.0);
const R: Phone = phone([450.0, 1_200.0, 1_600.0], 0.8, 0.0, 70.0);
const N: Phone = phone([280.0, 1_400.0, 2_400.0], 0.45, 0.0, 80.0);
const V: Phone = phone([300.0, 1_100.0, 2_300.0], 0.35, 0.12, 60.0);
const Z: Phone = phone([300.0, 1_600.0, 3_300.0], 0.3, 0.4, 80.0);
const S: Phone = phone([3_000.0, 3_300.0, 3_700.0], 0.0, 0.7, 100.0);
const F: Phone = phone([1_200.0, 2_200.0, 3_200.0], 0.0, 0.25, 90.0);
const TH: Phone = phone([1_500.0, 2_000.0, 3_000.0], 0.0, 0.15, 80.0);
const T: Phone = phone([2_200.0, 3_000.0, 3_500.0], 0.0, 0.8, 25.0);
const K: Phone = phone([1_500.0, 2_000.0, 2_500.0], 0.0, 0.7, 25.0);
/// The closed mouth before `t` and `k`.
const GAP: Phone = phone([300.0, 1_000.0, 2_300.0], 0.0, 0.0, 45.0);

/// The sounds of each digit.
const WORDS: [&[Phone]; 10] = [
    &[Z, EE, R, O],
    &[W, A, N],
    &[T, U, U],
    &[TH, R, EE],
    &[F, O, R],
    &[F, A, I, V],
    &[S, I, GAP, K, S],
    &[S, E, V, E, N],
    &[E, I, GAP, T],
    &[N, A, I, N],
];

/// Says single digits, with the digit as answer.
///
/// ```
/// use regard_data::builtin::{Sizes, spoken};
/// let parts = spoken(Sizes { train: 10, dev: 2, test: 2 }, 1);
/// assert_eq!(parts.train[0].answer.len(), 1);
/// ```
pub fn spoken(sizes: Sizes, seed: u64) -> Splits<Recording> {
    parts(sizes, |split, index| spoken_digit(split, index, seed))
}

/// Says strings of 2 to 5 digits, with the digits as answer.
pub fn spoken_strings(sizes: Sizes, seed: u64) -> Splits<Recording> {
    parts(sizes, |split, index| spoken_string(split, index, seed))
}

/// Says number `index` of a part of [`spoken`], which does not depend on their number.
pub fn spoken_digit(split: Split, index: usize, seed: u64) -> Recording {
    recording(split, index, seed, 0)
}

/// Says number `index` of a part of [`spoken_strings`], which does not depend on their number.
pub fn spoken_string(split: Split, index: usize, seed: u64) -> Recording {
    recording(split, index, seed, 1)
}

/// A hash of the spoken digits. It changes if a version of this crate says others.
pub fn spoken_fingerprint() -> String {
    let mut state = Fnv::default();
    for index in 0..40 {
        for one in [spoken_digit(Split::Train, index, 1), spoken_string(Split::Train, index, 1)] {
            one.sound.samples.iter().for_each(|sample| state.write(&sample.to_le_bytes()));
        }
    }
    format!("{:016x}", state.0)
}

fn parts(sizes: Sizes, one: impl Fn(Split, usize) -> Recording) -> Splits<Recording> {
    let part = |split: Split, count: usize| (0..count).map(|index| one(split, index)).collect();
    Splits::new(part(Split::Train, sizes.train), part(Split::Dev, sizes.dev), part(Split::Test, sizes.test))
}

fn recording(split: Split, index: usize, seed: u64, strings: u64) -> Recording {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream((strings << 40) + ((split as u64) << 32) + index as u64);
    let voice = Voice::draw(&mut random);
    let count = if strings == 1 { random.random_range(DIGITS) } else { 1 };
    let mut samples = Vec::new();
    let mut answer = String::new();
    silence(&mut samples, random.random_range(0.0..0.1));
    for place in 0..count {
        if place > 0 {
            silence(&mut samples, random.random_range(0.0..0.2));
        }
        let digit = random.random_range(0..WORDS.len());
        answer += &digit.to_string();
        voice.say(WORDS[digit], &mut samples, &mut random);
    }
    silence(&mut samples, random.random_range(0.0..0.1));
    let (loudness, hiss) = (random.random_range(0.1..0.3), 10f32.powf(random.random_range(-3.0..-1.5)));
    // Whole numbers of 16 bits are the same on every machine, up to the rounding of sines.
    let sample = |x: &f32| ((loudness * x + hiss * normal(&mut random)) * 32_768.0).round().clamp(-32_768.0, 32_767.0);
    let samples = samples.iter().map(sample).map(|x| x / 32_768.0).collect();
    let sound = Sound { rate: RATE, samples };
    let (hash, name) = (sound.hash(), format!("built-in {split} {index}"));
    Recording { sound, answer, speaker: None, index: None, name, hash }
}

fn silence(samples: &mut Vec<f32>, seconds: f32) {
    samples.resize(samples.len() + (seconds * RATE as f32) as usize, 0.0);
}

/// A random number that is nearly normal, with deviation 1.
fn normal(random: &mut ChaCha8Rng) -> f32 {
    (0..3).map(|_| random.random_range(-1.0..1.0f32)).sum()
}

/// A voice.
struct Voice {
    /// Pitch in hertz.
    pitch: f32,
    /// Factor of the resonances.
    tract: f32,
    /// Factor of the lengths.
    slowness: f32,
}

impl Voice {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        Self {
            pitch: random.random_range(85.0..230.0),
            tract: random.random_range(0.88..1.15),
            slowness: random.random_range(0.7..1.35),
        }
    }

    /// Appends a word.
    fn say(&self, word: &[Phone], samples: &mut Vec<f32>, random: &mut ChaCha8Rng) {
        let lengths: Vec<f32> =
            word.iter().map(|phone| phone.length * self.slowness * random.random_range(0.75..1.3) / 5.0).collect();
        let blocks = lengths.iter().sum::<f32>().round().max(1.0) as usize;
        let harmonics = (HIGHEST / self.pitch) as usize;
        let (mut phases, mut before) = (vec![0.0f32; harmonics], vec![0.0f32; harmonics]);
        let mut hiss = [Resonator::default(); 2];
        // The pitch falls towards the end of a word.
        let fall = random.random_range(0.05..0.3);
        for block in 0..blocks {
            let mouth = Mouth::at(word, &lengths, block as f32 + 0.5, self.tract);
            let along = block as f32 / blocks as f32;
            let pitch = self.pitch * (1.0 - fall * along);
            let mut heard = [0.0f32; BLOCK];
            for (number, (phase, before)) in phases.iter_mut().zip(&mut before).enumerate() {
                let hertz = pitch * (number + 1) as f32;
                let strength = mouth.voice * mouth.resonance(hertz) * 0.25;
                // Turning a point by the same angle again and again is faster than a sine for each sample.
                let turn = TAU * hertz / RATE as f32;
                let ([mut sine, mut cosine], (step, side)) = ([phase.sin(), phase.cos()], turn.sin_cos());
                for (at, out) in heard.iter_mut().enumerate() {
                    *out += (*before + (strength - *before) * at as f32 / BLOCK as f32) * sine;
                    [sine, cosine] = [sine * side + cosine * step, cosine * side - sine * step];
                }
                *phase = (*phase + turn * BLOCK as f32) % TAU;
                *before = strength;
            }
            for out in &mut heard {
                let breath = normal(random);
                let noise: f32 = hiss
                    .iter_mut()
                    .zip(&mouth.resonances[1..])
                    .map(|(filter, &hertz)| filter.next(breath, hertz))
                    .sum();
                *out += mouth.noise * 0.12 * noise;
            }
            samples.extend(heard);
        }
    }
}

/// The mouth at one moment.
struct Mouth {
    resonances: [f32; 3],
    voice: f32,
    noise: f32,
}

impl Mouth {
    /// The mouth at a place in a word, in blocks, on its way from one sound to the next.
    fn at(word: &[Phone], lengths: &[f32], place: f32, tract: f32) -> Self {
        let (mut now, mut start) = (0, 0.0);
        while now + 1 < word.len() && place >= start + lengths[now] {
            start += lengths[now];
            now += 1;
        }
        let (phone, next) = (&word[now], &word[(now + 1).min(word.len() - 1)]);
        // It moves in the second half of a sound; noise begins and ends at once.
        let share = (2.0 * (place - start) / lengths[now] - 1.0).clamp(0.0, 1.0);
        let between = |a: f32, b: f32| a + share * (b - a);
        let resonance = |at: usize| tract * between(phone.resonances[at], next.resonances[at]);
        Self {
            resonances: std::array::from_fn(|at| resonance(at).min(0.49 * RATE as f32)),
            voice: between(phone.voice, next.voice),
            noise: phone.noise,
        }
    }

    /// How strong a frequency is.
    fn resonance(&self, hertz: f32) -> f32 {
        let peak = |(&centre, gain): (&f32, f32)| gain / (1.0 + ((hertz - centre) / (60.0 + 0.04 * centre)).powi(2));
        self.resonances.iter().zip([1.0, 0.6, 0.3]).map(peak).sum()
    }
}

/// A filter that lets one frequency through.
#[derive(Clone, Copy, Default)]
struct Resonator {
    last: [f32; 2],
}

impl Resonator {
    fn next(&mut self, input: f32, hertz: f32) -> f32 {
        const DAMPING: f32 = 0.85;
        let turn = TAU * hertz / RATE as f32;
        let output = input + 2.0 * DAMPING * turn.cos() * self.last[0] - DAMPING * DAMPING * self.last[1];
        self.last = [output, self.last[0]];
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sounds_depend_on_the_seed_alone() {
        let few = spoken(Sizes { train: 3, dev: 2, test: 1 }, 7);
        let more = spoken(Sizes { train: 9, dev: 2, test: 5 }, 7);
        assert_eq!((&few.train[..], &few.dev, &few.test[0]), (&more.train[..3], &more.dev, &more.test[0]));
        assert_ne!(few.train, spoken(Sizes { train: 3, dev: 2, test: 1 }, 8).train);
    }

    #[test]
    fn all_digits_are_said_loud_enough() {
        let all = spoken(Sizes { train: 200, dev: 0, test: 0 }, 1).train;
        for digit in 0..10 {
            assert!(all.iter().any(|one| one.answer == digit.to_string()), "{digit}");
        }
        for one in &all {
            let loudest = one.sound.samples.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            assert!((0.05..1.0).contains(&loudest), "{}: {loudest}", one.name);
            assert!((0.1..1.5).contains(&one.sound.seconds()), "{}", one.sound.seconds());
        }
        let strings = spoken_strings(Sizes { train: 50, dev: 0, test: 0 }, 1).train;
        assert!(strings.iter().all(|one| (2..=5).contains(&one.answer.len())));
    }

    #[test]
    fn published_sounds_do_not_change() {
        assert_eq!(spoken_fingerprint(), "56ee20f9b6fe0139");
    }
}
