//! Linear-chain conditional random field (Lafferty 2001): scores whole sequences of tags instead of each tag by itself.
//!
//! ```text
//! score(y) = start[y_1] + Σ_t emissions[t, y_t] + Σ_t transitions[y_{t−1}, y_t] + end[y_n]
//! p(y)     = exp(score(y)) / Σ_{y'} exp(score(y'))
//! ```
//! The forward algorithm computes the sum over all sequences step by step, in logarithms and for the whole batch at once.

use burn::module::{Module, Param};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::config::{check_positive, check_product};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::density::log_sum_exp;
use crate::lengths::Lengths;

/// Configuration of a [`Crf`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrfConfig {
    /// Number of distinct tags.
    pub tags: usize,
}

impl CrfConfig {
    /// Returns a configuration with this number of tags.
    pub fn new(tags: usize) -> Self {
        Self { tags }
    }

    /// Returns an error if there are no tags or too many.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("tags", self.tags)?;
        check_product("tags", &[self.tags, self.tags])
    }

    /// Creates the layer. All scores start at zero, so that tags are independent, as with a softmax.
    pub fn init(&self, init: &Init) -> Result<Crf, ConfigError> {
        self.validate()?;
        let tags = self.tags;
        Ok(Crf {
            transitions: init.constant([tags, tags], 0.0),
            start: init.constant([tags], 0.0),
            end: init.constant([tags], 0.0),
        })
    }
}

/// Linear-chain conditional random field; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct Crf {
    /// Scores of transitions from the row's tag to the column's tag, `[tags, tags]`.
    pub transitions: Param<Tensor<2>>,
    /// Scores of the first tag, `[tags]`.
    pub start: Param<Tensor<1>>,
    /// Scores of the last tag, `[tags]`.
    pub end: Param<Tensor<1>>,
}

impl Crf {
    /// Computes `−ln p(tags)`, summed over the sequences and divided by the number of tags, so that it is comparable with
    /// the cross-entropy of a softmax. Padding and empty sequences have no effect.
    ///
    /// # Shapes
    /// `emissions` `[batch, seq, tags]`, `tags` `[batch, seq]`, `lengths` `[batch]` → `[1]`.
    pub fn loss(
        &self,
        emissions: Tensor<3>,
        tags: Tensor<2, Int>,
        lengths: Option<&[usize]>,
    ) -> Result<Tensor<1>, NnError> {
        let [batch, seq, n_tags] = self.check(&emissions)?;
        let padding = Lengths::new(lengths, [batch, seq], &emissions.device())?;
        let lengths = lengths.map_or_else(|| vec![seq; batch], <[usize]>::to_vec);
        let paths = paths(tags, &lengths, [batch, seq, n_tags])?;
        let emissions = padding.blank(emissions);
        let difference = self.log_partition(&emissions, &lengths) - self.score(emissions, &paths);
        Ok(difference / lengths.iter().sum::<usize>().max(1) as f32)
    }

    /// Returns the most probable tags of each sequence (Viterbi). Ties go to the lower tag.
    ///
    /// # Shapes
    /// `emissions` `[batch, seq, tags]`, `lengths` `[batch]` → the tags of each sequence, without padding.
    pub fn decode(&self, emissions: Tensor<3>, lengths: Option<&[usize]>) -> Result<Vec<Vec<usize>>, NnError> {
        let [batch, seq, n_tags] = self.check(&emissions)?;
        Lengths::new(lengths, [batch, seq], &emissions.device())?;
        let weights = Weights {
            transitions: numbers(self.transitions.val()),
            start: numbers(self.start.val()),
            end: numbers(self.end.val()),
        };
        let emissions = numbers(emissions);
        let sequences = emissions.chunks_exact(seq * n_tags).enumerate().map(|(sequence, emissions)| {
            let length = lengths.map_or(seq, |lengths| lengths[sequence]);
            weights.best(&emissions[..length * n_tags])
        });
        Ok(sequences.collect())
    }

    fn check(&self, emissions: &Tensor<3>) -> Result<[usize; 3], NnError> {
        let shape @ [batch, seq, tags] = emissions.dims();
        let [expected] = self.start.dims();
        if batch == 0 || seq == 0 || tags != expected {
            let expected = format!("[batch, seq, {expected}], each 1 or more");
            return Err(NnError::input("emissions", expected, format!("{shape:?}")));
        }
        Ok(shape)
    }

    /// Computes `Σ ln Σ exp(score)` over the sequences that are not empty, `[1]`.
    fn log_partition(&self, emissions: &Tensor<3>, lengths: &[usize]) -> Tensor<1> {
        let ([batch, seq, n_tags], device) = (emissions.dims(), emissions.device());
        let at = |step: usize| emissions.clone().narrow(1, step, 1).squeeze_dim::<2>(1);
        // [1, to, from]: the sums go over the last dimension, which is contiguous in memory.
        let transitions = self.transitions.val().transpose().unsqueeze_dim::<3>(0);
        let mut forward = at(0) + self.start.val().unsqueeze();
        for step in 1..seq {
            let scores = forward.clone().unsqueeze_dim::<3>(1) + transitions.clone();
            let next = log_sum_exp(scores).squeeze_dim::<2>(2) + at(step);
            forward = match longer(lengths, step, &device) {
                Some(mask) => forward.mask_where(mask.expand([batch, n_tags]), next),
                None => next,
            };
        }
        let totals = log_sum_exp(forward + self.end.val().unsqueeze());
        match longer(lengths, 0, &device) {
            Some(mask) => totals.mask_fill(mask.bool_not(), 0.0).sum(),
            None => totals.sum(),
        }
    }

    /// Computes the sum of the scores of the given sequences, `[1]`.
    fn score(&self, emissions: Tensor<3>, paths: &Paths) -> Tensor<1> {
        let device = emissions.device();
        let n_tags = emissions.dims()[2];
        let counts = |counts: &[f32]| Tensor::<1>::from_data(TensorData::new(counts.to_vec(), [counts.len()]), &device);
        let chosen = Tensor::<3>::from_data(TensorData::new(paths.places.clone(), emissions.dims()), &device);
        let transitions = self.transitions.val() * counts(&paths.transitions).reshape([n_tags, n_tags]);
        let ends = self.start.val() * counts(&paths.start) + self.end.val() * counts(&paths.end);
        (emissions * chosen).sum() + transitions.sum() + ends.sum()
    }
}

/// How often each score occurs in the given sequences.
struct Paths {
    /// Counts of the emissions, `[batch, seq, tags]`.
    places: Vec<f32>,
    /// Counts of the transitions, `[tags, tags]`.
    transitions: Vec<f32>,
    /// Counts of the first tags, `[tags]`.
    start: Vec<f32>,
    /// Counts of the last tags, `[tags]`.
    end: Vec<f32>,
}

fn paths(tags: Tensor<2, Int>, lengths: &[usize], [batch, seq, n_tags]: [usize; 3]) -> Result<Paths, NnError> {
    if tags.dims() != [batch, seq] {
        return Err(NnError::input("tags", format!("[{batch}, {seq}]"), format!("{:?}", tags.dims())));
    }
    let tags: Vec<i64> = tags.into_data().iter().collect();
    let mut paths = Paths {
        places: vec![0.0; batch * seq * n_tags],
        transitions: vec![0.0; n_tags * n_tags],
        start: vec![0.0; n_tags],
        end: vec![0.0; n_tags],
    };
    for (sequence, (row, &length)) in tags.chunks_exact(seq).zip(lengths).enumerate() {
        let mut last = None;
        for (step, &tag) in row[..length].iter().enumerate() {
            let tag = usize::try_from(tag).ok().filter(|&tag| tag < n_tags).ok_or_else(|| {
                NnError::input(
                    "tags",
                    format!("each from 0 to below {n_tags}"),
                    format!("{tag} at [{sequence}, {step}]"),
                )
            })?;
            paths.places[(sequence * seq + step) * n_tags + tag] = 1.0;
            match last {
                Some(last) => paths.transitions[last * n_tags + tag] += 1.0,
                None => paths.start[tag] += 1.0,
            }
            last = Some(tag);
        }
        if let Some(last) = last {
            paths.end[last] += 1.0;
        }
    }
    Ok(paths)
}

/// Returns a mask `[batch, 1]` that is true for sequences longer than `step`, or `None` if all are longer.
fn longer(lengths: &[usize], step: usize, device: &Device) -> Option<Tensor<2, Bool>> {
    if lengths.iter().all(|&length| length > step) {
        return None;
    }
    let longer: Vec<bool> = lengths.iter().map(|&length| length > step).collect();
    Some(Tensor::from_data(TensorData::new(longer, [lengths.len(), 1]), device))
}

fn numbers<const D: usize>(x: Tensor<D>) -> Vec<f32> {
    x.into_data().iter().collect()
}

/// The scores as plain numbers, for [`Crf::decode`].
struct Weights {
    transitions: Vec<f32>,
    start: Vec<f32>,
    end: Vec<f32>,
}

impl Weights {
    /// Returns the tags with the highest score for emissions `[length, tags]`.
    fn best(&self, emissions: &[f32]) -> Vec<usize> {
        let n_tags = self.start.len();
        let mut steps = emissions.chunks_exact(n_tags);
        let Some(first) = steps.next() else { return vec![] };
        let mut scores: Vec<f32> = first.iter().zip(&self.start).map(|(emission, start)| emission + start).collect();
        let mut origins = Vec::with_capacity(steps.len());
        for emissions in steps {
            let from =
                |tag: usize| largest((0..n_tags).map(|from| scores[from] + self.transitions[from * n_tags + tag]));
            let best: Vec<(usize, f32)> = (0..n_tags).map(from).collect();
            scores = best.iter().zip(emissions).map(|((_, score), emission)| score + emission).collect();
            origins.push(best.into_iter().map(|(from, _)| from).collect::<Vec<_>>());
        }
        let (mut tag, _) = largest(scores.iter().zip(&self.end).map(|(score, end)| score + end));
        let mut tags = vec![tag];
        for origin in origins.iter().rev() {
            tag = origin[tag];
            tags.push(tag);
        }
        tags.reverse();
        tags
    }
}

/// Returns the index and value of the largest number, the first one if several are equal.
fn largest(values: impl Iterator<Item = f32>) -> (usize, f32) {
    let mut best = (0, f32::NEG_INFINITY);
    for (place, value) in values.enumerate() {
        if value > best.1 {
            best = (place, value);
        }
    }
    best
}
