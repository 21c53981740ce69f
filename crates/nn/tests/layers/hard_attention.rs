//! Tests of the estimators of hard attention: unbiased, or equal to the gradient of the formula.

use burn::tensor::{Tensor, TensorData};
use rand_distr::{Distribution, StandardUniform};
use regard_nn::layers::attention::context::{ContextAttention, ContextConfig, Estimator, Selection};
use regard_nn::layers::attention::score::{ScoreConfig, ScoreKind};
use regard_nn::layers::attention::score_function::{Baseline, score_function_loss};
use regard_nn::{Init, NnError, Pass};

use crate::support::{close, gradient, leaf, training, values};

const SCORES: [f32; 5] = [0.3, -0.9, 1.2, 0.0, -0.2];
const REWARDS: [f32; 5] = [2.0, 3.5, 1.0, 4.0, 2.5];

/// Attention for unit vectors as keys, so that the scores of a query are the query itself.
fn layer(estimator: Estimator) -> ContextAttention {
    let score = ScoreConfig { kind: ScoreKind::Dot, d_query: 5, d_key: 5 };
    ContextConfig { score, selection: Selection::Hard { estimator } }
        .init(&Init::new(1, &training()).enter("attention"))
        .unwrap()
}

fn repeated<const D: usize>(row: &[f32], shape: [usize; D]) -> Tensor<D> {
    let data: Vec<f32> = row.iter().copied().cycle().take(shape.iter().product()).collect();
    Tensor::from_data(TensorData::new(data, shape), &training())
}

fn units(batch: usize) -> Tensor<3> {
    let one_hot: Vec<f32> = (0..25).map(|i| if i / 5 == i % 5 { 1.0 } else { 0.0 }).collect();
    repeated(&one_hot, [batch, 5, 5])
}

/// Computes the softmax of the first `n` of `SCORES`.
fn weights(n: usize) -> Vec<f64> {
    let exp: Vec<f64> = SCORES.iter().enumerate().map(|(i, &s)| if i < n { f64::from(s).exp() } else { 0.0 }).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|x| x / sum).collect()
}

/// Computes mean and variance of each column of `[samples, 5]`.
fn moments(estimates: &[f32]) -> [(f64, f64); 5] {
    let n = (estimates.len() / 5) as f64;
    std::array::from_fn(|j| {
        let column = || estimates.iter().skip(j).step_by(5).map(|&x| f64::from(x));
        let mean = column().sum::<f64>() / n;
        (mean, column().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0))
    })
}

/// The mean of 20,000 estimates equals `∂E[R]/∂s_j = α_j (R_j − E[R])` within four standard errors; an entropy bonus adds
/// `∂H/∂s_j = −α_j (log α_j + H)`.
#[test]
fn the_score_function_is_unbiased_and_a_baseline_lowers_its_variance() {
    let samples = 20_000;
    let alpha = weights(5);
    let expected: f64 = alpha.iter().zip(REWARDS).map(|(a, r)| a * f64::from(r)).sum();
    let entropy: f64 = -alpha.iter().map(|a| a * a.ln()).sum::<f64>();
    let layer = layer(Estimator::ScoreFunction { samples: 1 });
    let run = |baseline: f32, bonus: f32| {
        let queries = repeated(&SCORES, [samples, 1, 5]).require_grad();
        // The values are the rewards, so that the context is the reward of the choice.
        let sources = layer.prepare(units(samples), repeated(&REWARDS, [samples, 5, 1]), None).unwrap();
        let found = layer.forward(queries.clone(), &sources, 0, &Pass::training(11)).unwrap();
        let reward = found.context.squeeze_dim::<2>(2);
        let loss = score_function_loss(&found.choice.unwrap(), reward, baseline, bonus).unwrap();
        let estimates: Vec<f32> = gradient(&queries, &loss.sum().backward()).iter().map(|x| -x).collect();
        let moments = moments(&estimates);
        for (j, (mean, variance)) in moments.into_iter().enumerate() {
            let want =
                alpha[j] * (f64::from(REWARDS[j]) - expected) - f64::from(bonus) * alpha[j] * (alpha[j].ln() + entropy);
            let error = (variance / samples as f64).sqrt();
            assert!((mean - want).abs() < 4.0 * error, "{j}: {mean}, expected {want} ± {error}; baseline {baseline}");
        }
        moments.map(|(_, variance)| variance)
    };
    let (without, with) = (run(0.0, 0.0), run(expected as f32, 0.0));
    for (without, with) in without.iter().zip(with) {
        assert!(with < 0.5 * without, "{with} against {without}");
    }
    run(expected as f32, 0.3);
}

/// Both estimators draw from `α`. Pearson's statistic of the choices has at most four degrees of freedom, one less than there
/// are keys; with four it exceeds 23.5 in 1 of 10,000 cases.
#[test]
fn choices_follow_their_weights() {
    let samples = 20_000;
    for estimator in [Estimator::ScoreFunction { samples: 1 }, Estimator::Gumbel { temperature: 0.5 }] {
        for length in [5, 3] {
            let layer = layer(estimator);
            let sources = layer.prepare(units(1), units(1), Some(vec![length])).unwrap();
            let queries = repeated(&SCORES, [1, samples, 5]);
            let choice = layer.forward(queries, &sources, 0, &Pass::training(3)).unwrap().choice.unwrap();
            let mut counts = [0.0f64; 5];
            for key in choice.keys.into_data().iter::<i64>() {
                counts[key as usize] += 1.0;
            }
            let alpha = weights(length);
            let statistic: f64 = (counts.iter().zip(&alpha).take(length))
                .map(|(count, a)| (count - a * samples as f64).powi(2) / (a * samples as f64))
                .sum();
            assert!(statistic < 23.5, "{estimator:?}: {statistic}");
            assert_eq!(counts[length..].iter().sum::<f64>(), 0.0, "padding was chosen");
        }
    }
}

/// With unit vectors as values the context is the choice itself, with the gradient of `y = softmax((log α + g)/τ)`:
/// `∂L/∂s = y ∘ (c − y·c) / τ` for `L = c·context`. The normaliser of `α` shifts all logits equally and cancels.
#[test]
fn straight_through_is_a_choice_forward_and_a_softmax_backward() {
    let temperature = 0.6f64;
    let layer = layer(Estimator::Gumbel { temperature: temperature as f32 });
    let queries = leaf([2, 3, 5], 8);
    let items = units(2).require_grad();
    let sources = layer.prepare(units(2), items.clone(), None).unwrap();
    let pass = Pass::training(21);
    let found = layer.forward(queries.clone(), &sources, 0, &pass).unwrap();
    let c = leaf([2, 3, 5], 9);
    let gradients = (found.context.clone() * c.clone().detach()).sum().backward();

    let mut random = pass.random(&Init::new(0, &training()).enter("attention").path()).unwrap();
    let (scores, c) = (values(queries.clone()), values(c));
    let (mut want, mut one_hot) = (Vec::new(), Vec::new());
    for (scores, c) in scores.chunks_exact(5).zip(c.chunks_exact(5)) {
        let uniform = (0..5).map(|_| StandardUniform.sample(&mut random));
        let noise: Vec<f64> = uniform.map(|u: f64| -(-u.ln()).ln()).collect();
        let exp: Vec<f64> = scores.iter().zip(&noise).map(|(&s, g)| ((f64::from(s) + g) / temperature).exp()).collect();
        let sum: f64 = exp.iter().sum();
        let y: Vec<f64> = exp.iter().map(|x| x / sum).collect();
        let mean: f64 = y.iter().zip(c).map(|(y, &c)| y * f64::from(c)).sum();
        want.extend(y.iter().zip(c).map(|(y, &c)| (y * (f64::from(c) - mean) / temperature) as f32));
        let best = (0..5).max_by(|&a, &b| y[a].total_cmp(&y[b])).unwrap();
        one_hot.extend((0..5).map(|key| if key == best { 1.0 } else { 0.0 }));
    }
    assert_eq!(values(found.context), one_hot);
    close("gradient of the scores", &gradient(&queries, &gradients), &want, 3e-6);
    // The gradient of value k is Σ c over the queries that chose it.
    let mut want = vec![0.0f32; 50];
    for (row, (choice, c)) in one_hot.chunks_exact(5).zip(c.chunks_exact(5)).enumerate() {
        let key = choice.iter().position(|&x| x == 1.0).unwrap();
        (0..5).for_each(|j| want[row / 3 * 25 + key * 5 + j] += c[j]);
    }
    close("gradient of the values", &gradient(&items, &gradients), &want, 3e-6);
}

#[test]
fn the_seed_repeats_choices_and_inference_takes_the_most_probable() {
    for estimator in [Estimator::ScoreFunction { samples: 1 }, Estimator::Gumbel { temperature: 1.0 }] {
        let layer = layer(estimator);
        let sources = layer.prepare(units(1), units(1), None).unwrap();
        let run = |pass: Pass| {
            let choice = layer.forward(repeated(&SCORES, [1, 40, 5]), &sources, 0, &pass).unwrap().choice;
            choice.unwrap().keys.into_data().iter::<i64>().collect::<Vec<_>>()
        };
        assert_eq!(run(Pass::training(1)), run(Pass::training(1)));
        assert_ne!(run(Pass::training(1)), run(Pass::training(2)));
        assert_ne!(run(Pass::training(1)), run(Pass::training(1).at("word", 0)));
        assert_eq!(run(Pass::inference()), vec![2; 40]);
    }
}

#[test]
fn a_baseline_is_a_moving_average_that_resumes_exactly() {
    let mut baseline = Baseline::new("baseline.decay", 0.9).unwrap();
    assert_eq!(baseline.value(), 0.0);
    baseline.update(2.0);
    assert_eq!(baseline.value(), 2.0);
    baseline.update(1.0);
    close("value", &[baseline.value()], &[1.9], 1e-6);
    for reward in [0.1, 0.7, -0.3] {
        baseline.update(reward);
    }
    let saved = serde_json::to_string(&baseline).unwrap();
    let mut resumed: Baseline = serde_json::from_str(&saved).unwrap();
    baseline.update(0.33);
    resumed.update(0.33);
    assert_eq!(baseline.value().to_bits(), resumed.value().to_bits());
    let error = Baseline::new("baseline.decay", 1.0).unwrap_err();
    assert_eq!(error.to_string(), "baseline.decay = 1: expected a number from 0 to below 1");
}

#[test]
fn rewards_are_per_choice_or_per_sequence() {
    let layer = layer(Estimator::ScoreFunction { samples: 1 });
    let sources = layer.prepare(units(2), units(2), None).unwrap();
    let queries = repeated(&SCORES, [2, 3, 5]).require_grad();
    let choice = layer.forward(queries, &sources, 0, &Pass::training(1)).unwrap().choice.unwrap();
    let sequence = score_function_loss(&choice, repeated(&[2.0, -1.0], [2, 1]), 0.5, 0.0).unwrap();
    let rewards = [2.0, 2.0, 2.0, -1.0, -1.0, -1.0];
    let each = score_function_loss(&choice, repeated(&rewards, [2, 3]), 0.5, 0.0).unwrap();
    assert_eq!(values(sequence), values(each.clone()));
    let want: Vec<f32> =
        values(choice.log_probability.clone()).iter().zip(rewards).map(|(log, r)| -(r - 0.5) * log).collect();
    close("loss", &values(each), &want, 1e-6);
    // If the reward depends on parameters, as a likelihood does, the loss has no gradient through it.
    let parameter = leaf([2, 3], 4);
    let loss = score_function_loss(&choice, parameter.clone() * 2.0, 0.5, 0.1).unwrap();
    assert!(parameter.grad(&loss.sum().backward()).is_none());
    let error = score_function_loss(&choice, repeated(&[1.0], [2, 2]), 0.0, 0.0).unwrap_err();
    assert!(matches!(error, NnError::Op(regard_ops::OpError::Shape { what: "reward", .. })), "{error}");
}
