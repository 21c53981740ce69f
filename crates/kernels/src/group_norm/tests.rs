//! Tests of group normalisation against its formula in double precision, and of its errors.

use super::*;
use crate::isa::{Isa, on_every_isa, pool};
use crate::test_support::{assert_close, assert_relative, central_differences, inner, numbers, wide};
use proptest::prelude::*;

const EPSILON: f32 = 1e-5;
const RECTIFIERS: [Rectifier; 2] = [Rectifier::None, Rectifier::Relu];

/// Inputs of one call, in double precision for the formula.
struct Case {
    shape: GroupNormShape,
    x: Vec<f32>,
    gamma: Vec<f32>,
    beta: Vec<f32>,
    onto: Option<Vec<f32>>,
    rectifier: Rectifier,
}

impl Case {
    fn new([batch, channels, groups, positions]: [usize; 4], with_onto: bool, rectifier: Rectifier) -> Self {
        let len = batch * channels * positions;
        Self {
            shape: GroupNormShape { batch, channels, groups, positions },
            x: numbers(len, 1, 2.0),
            gamma: numbers(channels, 2, 1.5),
            beta: numbers(channels, 3, 1.0),
            onto: with_onto.then(|| numbers(len, 4, 1.0)),
            rectifier,
        }
    }

    /// Computes the output by the formula.
    fn exact(&self, x: &[f64], gamma: &[f64], beta: &[f64], onto: &[f64]) -> Vec<f64> {
        let GroupNormShape { channels, groups, positions, .. } = self.shape;
        let group = channels / groups * positions;
        let mut out = vec![];
        for (n, x) in x.chunks(group).enumerate() {
            let mean = x.iter().sum::<f64>() / group as f64;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / group as f64;
            for (j, x) in x.iter().enumerate() {
                let c = (n * group + j) / positions % channels;
                let normal = (x - mean) / (variance + f64::from(EPSILON)).sqrt();
                let y = gamma[c] * normal + beta[c] + onto.get(n * group + j).unwrap_or(&0.0);
                out.push(if self.rectifier == Rectifier::Relu { y.max(0.0) } else { y });
            }
        }
        out
    }

    fn wide_onto(&self) -> Vec<f64> {
        self.onto.as_deref().map(wide).unwrap_or_default()
    }

    /// Runs the kernel; returns `[out, mean, inverse]`.
    fn forward(&self) -> [Vec<f32>; 3] {
        let groups = self.shape.batch * self.shape.groups;
        let mut all = [self.x.len(), groups, groups].map(|len| vec![f32::NAN; len]);
        let [out, mean, inverse_deviation] = &mut all;
        let output = GroupNormOutput { out, mean, inverse_deviation };
        let onto = self.onto.as_deref();
        group_norm_forward(self.shape, &self.x, &self.gamma, &self.beta, onto, EPSILON, self.rectifier, output)
            .unwrap();
        all
    }

    /// Runs both passes; returns the gradients `[x, gamma, beta, onto]`, the last as zeros if there is none.
    fn backward(&self, grad: &[f32]) -> [Vec<f32>; 4] {
        let [out, mean, inverse] = self.forward();
        let channels = self.shape.channels;
        let mut all = [self.x.len(), channels, channels, self.x.len()].map(|len| vec![f32::NAN; len]);
        let [x, gamma, beta, onto] = &mut all;
        let saved = GroupNormSaved {
            x: &self.x,
            gamma: &self.gamma,
            mean: &mean,
            inverse_deviation: &inverse,
            rectified: (self.rectifier == Rectifier::Relu).then_some(&out[..]),
        };
        let onto = self.onto.is_some().then_some(&mut onto[..]);
        group_norm_backward(self.shape, saved, grad, GroupNormGradients { x, gamma, beta, onto }).unwrap();
        all
    }
}

fn check(sizes: [usize; 4], with_onto: bool, rectifier: Rectifier) {
    let case = Case::new(sizes, with_onto, rectifier);
    let grad = numbers(case.x.len(), 5, 1.0);
    let (x, gamma, beta, onto) = (wide(&case.x), wide(&case.gamma), wide(&case.beta), case.wide_onto());
    let want = case.exact(&x, &gamma, &beta, &onto);
    let wide_grad = wide(&grad);
    let loss =
        |x: &[f64], gamma: &[f64], beta: &[f64], onto: &[f64]| inner(&case.exact(x, gamma, beta, onto), &wide_grad);
    let want_grads = [
        central_differences(&x, |x| loss(x, &gamma, &beta, &onto)),
        central_differences(&gamma, |gamma| loss(&x, gamma, &beta, &onto)),
        central_differences(&beta, |beta| loss(&x, &gamma, beta, &onto)),
        central_differences(&onto, |onto| loss(&x, &gamma, &beta, onto)),
    ];
    on_every_isa(|isa| {
        let [out, mean, inverse] = case.forward();
        assert!(mean.iter().chain(&inverse).all(|x| x.is_finite()));
        assert_close("group norm", isa, &out, &want, 2e-6, 3e-6);
        let grads = case.backward(&grad);
        // A group of one element has deviation 0, so 1/√ε magnifies rounding.
        let largest = f64::from(inverse.iter().copied().fold(1.0, f32::max));
        for (what, (got, want)) in ["x", "gamma", "beta", "onto"].iter().zip(grads.iter().zip(&want_grads)) {
            if *what != "onto" || with_onto {
                assert_relative(&format!("{what} on {isa:?}"), got, want, largest, 4e-6);
            }
        }
    });
}

#[test]
fn agrees_with_the_formula() {
    for sizes in [[1, 1, 1, 1], [2, 4, 2, 9], [1, 6, 1, 17], [3, 3, 3, 32], [2, 4, 4, 33], [1, 8, 2, 49]] {
        for with_onto in [false, true] {
            RECTIFIERS.into_iter().for_each(|rectifier| check(sizes, with_onto, rectifier));
        }
    }
}

#[test]
fn a_large_mean_does_not_spoil_the_variance() {
    let mut case = Case::new([2, 4, 2, 30], false, Rectifier::None);
    case.x.iter_mut().for_each(|x| *x += 1000.0);
    let want = case.exact(&wide(&case.x), &wide(&case.gamma), &wide(&case.beta), &[]);
    on_every_isa(|isa| assert_close("group norm", isa, &case.forward()[0], &want, 5e-4, 3e-6));
}

#[test]
fn several_threads_give_the_bits_of_one() {
    for (with_onto, rectifier) in [(true, Rectifier::Relu), (false, Rectifier::Relu), (true, Rectifier::None)] {
        let case = Case::new([9, 16, 4, 300], with_onto, rectifier);
        let grad = numbers(case.x.len(), 5, 1.0);
        let run = |threads| pool(threads).install(|| (case.forward(), case.backward(&grad)));
        let (one, several) = (run(1), run(3));
        let bits = |all: &[Vec<f32>]| all.concat().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&one.0), bits(&several.0));
        assert_eq!(bits(&one.1), bits(&several.1));
    }
}

#[test]
fn sizes_are_checked_and_an_empty_batch_gives_zero_gradients() {
    let shape = GroupNormShape { batch: 1, channels: 4, groups: 2, positions: 3 };
    let forward = |shape: GroupNormShape, x: usize, gamma: usize, onto: usize, out: usize, groups: usize| {
        let [x, gamma, onto] = [x, gamma, onto].map(|len| vec![0.0; len]);
        let [mut out, mut mean, mut inverse_deviation] = [out, groups, groups].map(|len| vec![0.0; len]);
        let output = GroupNormOutput { out: &mut out, mean: &mut mean, inverse_deviation: &mut inverse_deviation };
        group_norm_forward(shape, &x, &gamma, &gamma, Some(&onto), EPSILON, Rectifier::None, output)
    };
    forward(shape, 12, 4, 12, 12, 2).unwrap();
    assert!(forward(shape, 11, 4, 12, 12, 2).is_err());
    assert!(forward(shape, 12, 3, 12, 12, 2).is_err());
    assert!(forward(shape, 12, 4, 11, 12, 2).is_err());
    assert!(forward(shape, 12, 4, 12, 13, 2).is_err());
    assert!(forward(shape, 12, 4, 12, 12, 1).is_err());
    for groups in [0, 3, 8] {
        let error = forward(GroupNormShape { groups, ..shape }, 12, 4, 12, 12, groups).unwrap_err();
        assert!(error.to_string().contains("expected a divisor of the 4 channels"), "{error}");
    }
    assert!(forward(GroupNormShape { positions: 0, ..shape }, 0, 4, 0, 0, 2).is_err());

    let empty = Case::new([0, 4, 2, 3], true, Rectifier::Relu);
    assert_eq!(empty.backward(&[])[1..3], [vec![0.0; 4], vec![0.0; 4]]);
}

#[test]
fn nan_comes_through() {
    on_every_isa(|isa: Isa| {
        let mut case = Case::new([1, 2, 2, 5], false, Rectifier::Relu);
        case.x[1] = f32::NAN;
        let [out, ..] = case.forward();
        assert!(out[..5].iter().all(|x| x.is_nan()) && out[5..].iter().all(|x| x.is_finite()), "{isa:?} {out:?}");
        let [grad_x, ..] = case.backward(&[1.0; 10]);
        assert!(grad_x[..5].iter().all(|x| x.is_nan()) && grad_x[5..].iter().all(|x| x.is_finite()), "{isa:?}");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn any_size(batch in 1_usize..3, groups in 1_usize..4, per_group in 1_usize..4, positions in 2_usize..36,
                with_onto: bool, with_relu: bool) {
        let rectifier = RECTIFIERS[usize::from(with_relu)];
        check([batch, groups * per_group, groups, positions], with_onto, rectifier);
    }
}
