//! Training examples from a passage: pairs of near words, and wrong words drawn for each (Mikolov 2013).
//!
//! Before windows are formed, an occurrence of a frequent word is dropped with probability `1 − √(t/f) − t/f`, as in the authors'
//! program; the paper has no last term. A window
//! reaches 1 to `window` words to each side, drawn anew for each centre, so that nearer words count more.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use regard_nn::NnError;
use regard_nn::models::word_vectors::NegativeSampler;

use super::config::Kind;
use super::lexicon::Part;

/// Draws training examples from passages.
#[derive(Debug)]
pub(super) struct Draws {
    /// Probability that an occurrence of each word is kept.
    keep: Vec<f32>,
    negatives: NegativeSampler,
    /// Number of wrong words drawn for each target.
    count: usize,
    window: usize,
}

/// Centres, the words around them and the wrong words of many examples.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Examples {
    pub centres: Vec<i32>,
    /// Words around each centre: one with [`Kind::SkipGram`]; else `2 window`, of which the first `counts` are used.
    pub around: Vec<i32>,
    pub counts: Vec<usize>,
    /// Wrong words, `negatives` for each target.
    pub wrong: Vec<i32>,
}

impl Draws {
    /// Creates a sampler for words with these counts. `subsample` is `t`; 0 keeps all occurrences.
    pub fn new(counts: &[u64], subsample: f64, window: usize, negatives: usize) -> Result<Self, NnError> {
        let all: u64 = counts.iter().sum();
        let keep = |&count: &u64| {
            let ratio = subsample * all as f64 / count.max(1) as f64;
            if subsample > 0.0 { (ratio.sqrt() + ratio).min(1.0) as f32 } else { 1.0 }
        };
        let keep = counts.iter().map(keep).collect();
        Ok(Self { keep, negatives: NegativeSampler::new(counts)?, count: negatives, window })
    }

    /// Draws the examples of some passages, each given with the number of its random stream: one target for each pair of words
    /// with [`Kind::SkipGram`], one for each centre with [`Kind::Cbow`].
    pub fn examples(&self, part: &Part, passages: &[(usize, u64)], kind: Kind, random: &ChaCha8Rng) -> Examples {
        let drawn: Vec<Examples> = passages
            .par_iter()
            .map(|&(passage, stream)| {
                let mut random = random.clone();
                random.set_stream(stream);
                self.passage(part.passage(passage), kind, &mut random)
            })
            .collect();
        let mut all = Examples::default();
        for drawn in drawn {
            all.centres.extend(drawn.centres);
            all.around.extend(drawn.around);
            all.counts.extend(drawn.counts);
            all.wrong.extend(drawn.wrong);
        }
        all
    }

    fn passage(&self, words: &[u32], kind: Kind, random: &mut ChaCha8Rng) -> Examples {
        let kept: Vec<i32> = words
            .iter()
            .filter(|&&word| random.random::<f32>() < self.keep[word as usize])
            .map(|&word| word as i32)
            .collect();
        let mut found = Examples::default();
        for (place, &centre) in kept.iter().enumerate() {
            let reach = random.random_range(1..=self.window);
            let near = &kept[place.saturating_sub(reach)..(place + reach + 1).min(kept.len())];
            let before = place.min(reach);
            let around = near.iter().enumerate().filter(|(at, _)| *at != before).map(|(_, &word)| word);
            match kind {
                Kind::SkipGram => {
                    for word in around {
                        found.centres.push(centre);
                        found.around.push(word);
                        self.wrong(word, &mut found.wrong, random);
                    }
                }
                Kind::Cbow => {
                    let count = near.len() - 1;
                    if count == 0 {
                        continue;
                    }
                    found.centres.push(centre);
                    found.counts.push(count);
                    found.around.extend(around);
                    found.around.extend(std::iter::repeat_n(0, 2 * self.window - count));
                    self.wrong(centre, &mut found.wrong, random);
                }
            }
        }
        found
    }

    fn wrong(&self, right: i32, wrong: &mut Vec<i32>, random: &mut ChaCha8Rng) {
        wrong.extend((0..self.count).map(|_| self.negatives.draw(right as usize, random) as i32));
    }
}

/// The random number generator whose streams belong to passages.
pub(super) fn generator(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed ^ 0x57_0D5)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::lexicon::Lexicon;
    use super::*;

    fn draws(subsample: f64, window: usize) -> (Draws, Part) {
        let text = "the cat saw the dog and the bird near the tree\n\nthe end of the day";
        let lexicon = Lexicon::of(text, 1, 100).unwrap();
        (Draws::new(&lexicon.counts, subsample, window, 3).unwrap(), lexicon.part(text))
    }

    #[test]
    fn frequent_words_are_dropped_as_in_the_authors_program() {
        let counts = [900, 90, 10];
        let draws = Draws::new(&counts, 0.01, 2, 1).unwrap();
        for (keep, f) in draws.keep.iter().zip([0.9f64, 0.09, 0.01]) {
            let wanted = ((0.01 / f).sqrt() + 0.01 / f).min(1.0);
            assert!((f64::from(*keep) - wanted).abs() < 1e-6, "{keep} {wanted}");
        }
        assert!(Draws::new(&counts, 0.0, 2, 1).unwrap().keep.iter().all(|&keep| keep == 1.0));
        let words: Vec<u32> = vec![0; 20_000];
        let share = draws.passage(&words, Kind::Cbow, &mut generator(1)).centres.len() as f64 / 20_000.0;
        assert!((share - f64::from(draws.keep[0])).abs() < 0.01, "{share}");
    }

    proptest! {
        #[test]
        fn pairs_are_near_and_wrong_words_are_wrong(seed in 0u64..500, window in 1usize..4) {
            let (draws, part) = draws(0.0, window);
            let words = part.passage(0);
            let found = draws.examples(&part, &[(0, seed)], Kind::SkipGram, &generator(seed));
            prop_assert_eq!(found.wrong.len(), 3 * found.centres.len());
            for ((centre, near), wrong) in found.centres.iter().zip(&found.around).zip(found.wrong.chunks_exact(3)) {
                let places = |word: i32| words.iter().enumerate().filter(move |(_, w)| **w == word as u32).map(|(at, _)| at);
                let close = places(*centre).any(|a| places(*near).any(|b| a != b && a.abs_diff(b) <= window));
                prop_assert!(close, "{} is not near {}", near, centre);
                prop_assert!(!wrong.contains(near));
            }
            // CBOW gathers the words around each centre.
            let gathered = draws.examples(&part, &[(0, seed)], Kind::Cbow, &generator(seed));
            prop_assert!(gathered.counts.iter().all(|&count| (1..=2 * window).contains(&count)));
            prop_assert_eq!(gathered.around.len(), gathered.centres.len() * 2 * window);
            prop_assert!(gathered.centres.iter().zip(gathered.wrong.chunks_exact(3)).all(|(c, w)| !w.contains(c)));
        }

        #[test]
        fn draws_depend_only_on_the_stream(seed in 0u64..100) {
            let (draws, part) = draws(0.05, 3);
            let all = draws.examples(&part, &[(0, 5), (1, 6)], Kind::SkipGram, &generator(seed));
            let (first, second) = (
                draws.examples(&part, &[(0, 5)], Kind::SkipGram, &generator(seed)),
                draws.examples(&part, &[(1, 6)], Kind::SkipGram, &generator(seed)),
            );
            prop_assert_eq!(&all.wrong, &[first.wrong, second.wrong].concat());
            let again = draws.examples(&part, &[(0, 5), (1, 6)], Kind::SkipGram, &generator(seed));
            prop_assert_eq!(all, again);
        }
    }

    #[test]
    fn other_epochs_draw_other_examples() {
        let (draws, part) = draws(0.0, 3);
        let epoch = |stream| draws.examples(&part, &[(0, stream)], Kind::SkipGram, &generator(1));
        assert_ne!(epoch(0), epoch(2));
    }
}
