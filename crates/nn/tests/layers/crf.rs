//! Tests of the conditional random field against a sum over all sequences in f64, with gradients by finite differences.

use burn::module::Param;
use burn::tensor::{Tensor, TensorData};
use proptest::prelude::*;
use regard_nn::Init;
use regard_nn::layers::crf::{Crf, CrfConfig};

use crate::case::integers;
use crate::support::{close, gradient, leaf, training, values};

/// Emissions, transitions, start and end: the numbers that the loss depends on.
type Numbers = [Vec<f64>; 4];

#[derive(Clone, Copy)]
struct Shape<'a> {
    seq: usize,
    n_tags: usize,
    lengths: &'a [usize],
}

impl Shape<'_> {
    /// Returns all sequences of `length` tags.
    fn every(self, length: usize) -> Vec<Vec<usize>> {
        let count = self.n_tags.pow(length as u32);
        let path = |n: usize| (0..length as u32).map(|step| n / self.n_tags.pow(step) % self.n_tags).collect();
        (0..count).map(path).collect()
    }

    fn score(self, [emissions, transitions, start, end]: &Numbers, sequence: usize, path: &[usize]) -> f64 {
        let emission = |(step, tag)| emissions[(sequence * self.seq + step) * self.n_tags + tag];
        let steps: f64 = path.iter().copied().enumerate().map(emission).sum();
        let moves: f64 = path.windows(2).map(|pair| transitions[pair[0] * self.n_tags + pair[1]]).sum();
        steps + moves + start[path[0]] + end[path[path.len() - 1]]
    }

    fn loss(self, numbers: &Numbers, tags: &[usize]) -> f64 {
        let mut sum = 0.0;
        for (sequence, &length) in self.lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
            let scores: Vec<f64> = self.every(length).iter().map(|path| self.score(numbers, sequence, path)).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total = most + scores.iter().map(|score| (score - most).exp()).sum::<f64>().ln();
            sum += total - self.score(numbers, sequence, &tags[sequence * self.seq..][..length]);
        }
        sum / self.lengths.iter().sum::<usize>().max(1) as f64
    }
}

/// Creates a leaf with random numbers multiplied by `scale`.
fn scaled<const D: usize>(shape: [usize; D], seed: u64, scale: f32) -> Tensor<D> {
    (leaf(shape, seed) * scale).detach().require_grad()
}

fn crf(n_tags: usize, scale: f32) -> Crf {
    let mut crf = CrfConfig::new(n_tags).init(&Init::new(1, &training())).unwrap();
    crf.transitions = Param::from_tensor(scaled([n_tags, n_tags], 2, scale));
    crf.start = Param::from_tensor(scaled([n_tags], 3, scale));
    crf.end = Param::from_tensor(scaled([n_tags], 4, scale));
    crf
}

fn numbers(crf: &Crf, emissions: &Tensor<3>) -> Numbers {
    let double = |values: Vec<f32>| values.into_iter().map(f64::from).collect();
    [
        double(values(emissions.clone())),
        double(values(crf.transitions.val())),
        double(values(crf.start.val())),
        double(values(crf.end.val())),
    ]
}

/// Up to 4 steps of up to 4 tags, with lengths; a large scale makes some sequences almost certain.
fn sizes() -> impl Strategy<Value = (usize, usize, Vec<usize>, f32)> {
    (1usize..5, 1usize..5).prop_flat_map(|(seq, n_tags)| {
        let scale = prop::sample::select(vec![1.0f32, 10.0, 1000.0]);
        (Just(seq), Just(n_tags), prop::collection::vec(0..=seq, 1..4), scale)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn loss_and_gradients_match_the_sum_over_all_sequences((seq, n_tags, lengths, scale) in sizes(), seed in 0u64..99) {
        let (crf, batch) = (crf(n_tags, scale), lengths.len());
        let emissions = scaled([batch, seq, n_tags], seed + 10, scale);
        let tags: Vec<usize> = (0..batch * seq).map(|place| (place * 7 + seed as usize) % n_tags).collect();
        let loss = crf.loss(emissions.clone(), integers(&tags, [batch, seq]), Some(&lengths)).unwrap();
        let shape = Shape { seq, n_tags, lengths: &lengths };
        let at = numbers(&crf, &emissions);
        // The loss is the difference of two sums of up to eight numbers as large as the scale.
        close("loss", &values(loss.clone()), &[shape.loss(&at, &tags) as f32], 3e-6 * scale);
        let gradients = loss.backward();
        let got = [
            gradient(&emissions, &gradients),
            gradient(&crf.transitions.val(), &gradients),
            gradient(&crf.start.val(), &gradients),
            gradient(&crf.end.val(), &gradients),
        ];
        // A probability changes by at most a quarter of its score's change: half a unit in the last place of the largest sum.
        let tolerance = 3e-6 * scale;
        for (part, got) in got.iter().enumerate() {
            let difference = |place: usize| {
                let moved = |by: f64| {
                    let mut numbers = at.clone();
                    numbers[part][place] += by;
                    shape.loss(&numbers, &tags)
                };
                ((moved(1e-5) - moved(-1e-5)) / 2e-5) as f32
            };
            let want: Vec<f32> = (0..got.len()).map(difference).collect();
            close(&format!("gradient {part}"), got, &want, tolerance);
        }
    }

    #[test]
    fn no_sequence_is_better_than_the_decoded_one((seq, n_tags, lengths, scale) in sizes(), seed in 0u64..99) {
        let (crf, batch) = (crf(n_tags, scale), lengths.len());
        let emissions = scaled([batch, seq, n_tags], seed + 10, scale);
        let found = crf.decode(emissions.clone(), Some(&lengths)).unwrap();
        let (shape, at) = (Shape { seq, n_tags, lengths: &lengths }, numbers(&crf, &emissions));
        prop_assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), lengths.clone());
        for (sequence, path) in found.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let scores = shape.every(path.len()).into_iter().map(|path| shape.score(&at, sequence, &path));
            let best = scores.fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(shape.score(&at, sequence, path) >= best - 2e-6 * f64::from(scale));
        }
    }

    #[test]
    fn padding_has_no_effect((seq, n_tags, lengths, scale) in sizes()) {
        let (crf, batch) = (crf(n_tags, scale), lengths.len());
        let data = values(leaf([batch, seq, n_tags], 5));
        let real = |place: usize| place % seq < lengths[place / seq];
        let found = [(0.0, 0), (f32::NAN, 99)].map(|(value, tag)| {
            let put = |(place, &x): (usize, &f32)| if real(place / n_tags) { x } else { value };
            let emissions: Vec<f32> = data.iter().enumerate().map(put).collect();
            let emissions = TensorData::new(emissions, [batch, seq, n_tags]);
            let emissions = Tensor::<3>::from_data(emissions, &training()).require_grad();
            let tags: Vec<usize> =
                (0..batch * seq).map(|place| if real(place) { place % n_tags } else { tag }).collect();
            let paths = crf.decode(emissions.clone(), Some(&lengths)).unwrap();
            let loss = crf.loss(emissions.clone(), integers(&tags, [batch, seq]), Some(&lengths)).unwrap();
            let gradients = loss.backward();
            let weights = gradient(&crf.transitions.val(), &gradients);
            (paths, [values(loss), gradient(&emissions, &gradients), weights])
        });
        prop_assert!(found[0].1.iter().flatten().all(|value| value.is_finite()));
        prop_assert_eq!(&found[0], &found[1]);
    }
}

#[test]
fn bad_inputs_are_named() {
    assert_eq!(CrfConfig::new(0).validate().unwrap_err().to_string(), "tags = 0: expected a whole number, 1 or more");
    let crf = crf(3, 1.0);
    let refused = |emissions: [usize; 3], tags: &[usize], lengths: &[usize]| {
        let tags = integers(tags, [emissions[0], tags.len() / emissions[0].max(1)]);
        crf.loss(leaf(emissions, 1), tags, Some(lengths)).unwrap_err().to_string()
    };
    let shape = "emissions: expected [batch, seq, 3], each 1 or more, got";
    assert_eq!(refused([1, 2, 4], &[0, 0], &[2]), format!("{shape} [1, 2, 4]"));
    assert_eq!(refused([1, 2, 3], &[0, 3], &[2]), "tags: expected each from 0 to below 3, got 3 at [0, 1]");
    assert_eq!(refused([1, 2, 3], &[0, 0, 0], &[2]), "tags: expected [1, 2], got [1, 3]");
    assert_eq!(refused([1, 2, 3], &[0, 0], &[3]), "lengths: expected each at most 2, got 3");
    assert_eq!(
        crf.decode(leaf([1, 2, 3], 1), Some(&[3])).unwrap_err().to_string(),
        "lengths: expected each at most 2, got 3"
    );
}
