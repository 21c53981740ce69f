//! The text of a sequence of frames, each with log-probabilities of the labels and of the blank (CTC).

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Largest number of prefixes that a search keeps.
pub const MOST_PREFIXES: usize = 256;

/// A text found in frames.
#[derive(Debug, Clone, PartialEq)]
pub struct Spelt {
    /// Labels of the text.
    pub labels: Vec<u32>,
    /// Log-probability: of the best path for [`spell`], of all paths that the search has kept for [`spell_with_beam`].
    pub log_probability: f64,
}

/// Takes the most probable label of each frame, merges equal neighbours and removes blanks.
///
/// # Shapes
/// `frames` `[frames, vocab]`, log-probabilities.
pub fn spell(frames: &[f32], vocab: usize, blank: u32) -> Spelt {
    let best = best_labels(frames, vocab);
    let log_probability =
        frames.chunks_exact(vocab.max(1)).zip(&best).map(|(row, &at)| f64::from(row[at as usize])).sum();
    let mut labels = best;
    labels.dedup();
    labels.retain(|&label| label != blank);
    Spelt { labels, log_probability }
}

/// Returns the most probable label of each frame, the lowest of several.
pub fn best_labels(frames: &[f32], vocab: usize) -> Vec<u32> {
    let best = |row: &[f32]| (0..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best }) as u32;
    frames.chunks_exact(vocab.max(1)).map(best).collect()
}

/// Searches the most probable text. It keeps the `size` most probable prefixes of a text at each frame, each with the
/// probabilities of its paths that end with a blank and with its last label (Hannun 2014).
///
/// # Shapes
/// `frames` `[frames, vocab]`, log-probabilities.
pub fn spell_with_beam(frames: &[f32], vocab: usize, blank: u32, size: usize) -> Spelt {
    let mut kept = vec![(Vec::new(), Ends { blank: 0.0, label: f64::NEG_INFINITY })];
    for row in frames.chunks_exact(vocab.max(1)) {
        // Sorted by prefix, so that equal probabilities are always ordered in the same way.
        let mut next = BTreeMap::<Vec<u32>, Ends>::new();
        for (prefix, ends) in &kept {
            let stays = next.entry(prefix.clone()).or_default();
            stays.blank = add(stays.blank, ends.total() + f64::from(row[blank as usize]));
            let last = prefix.last().copied();
            if let Some(last) = last {
                stays.label = add(stays.label, ends.label + f64::from(row[last as usize]));
            }
            for (label, &probability) in (0..vocab as u32).zip(row).filter(|(label, _)| *label != blank) {
                // The same label twice needs a blank between.
                let before = if last == Some(label) { ends.blank } else { ends.total() };
                if before == f64::NEG_INFINITY {
                    continue;
                }
                let longer: Vec<u32> = prefix.iter().copied().chain([label]).collect();
                let grows = next.entry(longer).or_default();
                grows.label = add(grows.label, before + f64::from(probability));
            }
        }
        kept = next.into_iter().collect();
        kept.sort_by(|a, b| b.1.total().partial_cmp(&a.1.total()).unwrap_or(Ordering::Equal));
        kept.truncate(size.max(1));
    }
    let (labels, ends) = kept.swap_remove(0);
    Spelt { labels, log_probability: ends.total() }
}

/// Log-probabilities of the paths that spell a prefix, by their last step.
#[derive(Debug, Clone, Copy)]
struct Ends {
    blank: f64,
    label: f64,
}

impl Default for Ends {
    fn default() -> Self {
        Self { blank: f64::NEG_INFINITY, label: f64::NEG_INFINITY }
    }
}

impl Ends {
    fn total(self) -> f64 {
        add(self.blank, self.label)
    }
}

/// `ln (exp a + exp b)`.
fn add(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if high == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(rows: &[&[f64]]) -> Vec<f32> {
        rows.iter().flat_map(|row| row.iter().map(|p| p.ln() as f32)).collect()
    }

    #[test]
    fn equal_neighbours_are_one_label() {
        let frames = logs(&[&[0.1, 0.8, 0.1], &[0.1, 0.8, 0.1], &[0.8, 0.1, 0.1], &[0.1, 0.8, 0.1], &[0.1, 0.1, 0.8]]);
        assert_eq!(spell(&frames, 3, 0).labels, [1, 1, 2]);
        assert!((spell(&frames, 3, 0).log_probability - 5.0 * 0.8f64.ln()).abs() < 1e-5);
        assert_eq!(spell(&[], 3, 0).labels, [0u32; 0]);
        assert_eq!(spell_with_beam(&[], 3, 0, 4).labels, [0u32; 0]);
    }

    #[test]
    fn a_beam_adds_up_paths() {
        // The best path is all blank, but the paths that spell 1 are together more probable: 0.36 and 0.64.
        let frames = logs(&[&[0.6, 0.4], &[0.6, 0.4]]);
        assert_eq!(spell(&frames, 2, 0).labels, [0u32; 0]);
        let found = spell_with_beam(&frames, 2, 0, 4);
        assert_eq!(found.labels, [1]);
        assert!((found.log_probability - 0.64f64.ln()).abs() < 1e-6);
    }

    /// The most probable text by adding up all paths, and its log-probability.
    fn by_paths(frames: &[f32], vocab: usize) -> (Vec<u32>, f64) {
        let rows: Vec<&[f32]> = frames.chunks(vocab).collect();
        let mut texts = BTreeMap::<Vec<u32>, f64>::new();
        for path in 0..vocab.pow(rows.len() as u32) {
            let mut labels: Vec<u32> = (0..rows.len()).map(|t| (path / vocab.pow(t as u32) % vocab) as u32).collect();
            let probability: f64 =
                labels.iter().zip(&rows).map(|(&l, row)| f64::from(row[l as usize])).sum::<f64>().exp();
            labels.dedup();
            labels.retain(|&label| label != 0);
            *texts.entry(labels).or_default() += probability;
        }
        let (text, probability) = texts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        (text, probability.ln())
    }

    #[test]
    fn a_wide_beam_finds_the_best_of_all_texts() {
        let mut state = 5u64;
        for _ in 0..40 {
            let mut row = || {
                let mut number = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    ((state >> 40) as f64 / (1u64 << 24) as f64 * 3.0).exp()
                };
                let row = [number(), number(), number()];
                let sum: f64 = row.iter().sum();
                row.map(|x| (x / sum).ln() as f32)
            };
            let frames: Vec<f32> = (0..6).flat_map(|_| row()).collect();
            let (text, log_probability) = by_paths(&frames, 3);
            let found = spell_with_beam(&frames, 3, 0, MOST_PREFIXES);
            assert_eq!(found.labels, text);
            assert!((found.log_probability - log_probability).abs() < 1e-5);
        }
    }
}
