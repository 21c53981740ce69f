//! Tests of densities against PyTorch's distributions, of their integrals, of draws, and of extreme raw outputs.

use burn::tensor::{DType, Tensor, TensorData};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use regard_nn::layers::density::{
    DensityConfig, Diagonal, Gaussian, Mixture, Reduction, StrokeMixture, negative_log_likelihood,
};
use regard_nn::{Init, NnError};
use regard_ops::OpError;

use crate::case::parse;
use crate::golden::Golden;
use crate::support::{close, gradient, leaf, loss, training, values};

const STROKE: DensityConfig = DensityConfig::Stroke(StrokeMixture { components: 2 });

fn gaussian(dimensions: usize, diagonal: Diagonal) -> DensityConfig {
    DensityConfig::Gaussian(Gaussian { dimensions, diagonal })
}

fn mixture(components: usize, dimensions: usize, diagonal: Diagonal) -> DensityConfig {
    DensityConfig::Mixture(Mixture { components, dimensions, diagonal })
}

fn matrix(data: Vec<f32>, width: usize) -> Tensor<2> {
    let rows = data.len() / width;
    Tensor::from_data(TensorData::new(data, [rows, width]), &training())
}

fn agrees<const D: usize>(golden: &Golden, case: &str, density: DensityConfig) {
    let name = |name: &str| format!("{case}/{name}");
    let [raw, x] = ["raw", "x"].map(|part| golden.tensor::<D>(&name(part), &training()).require_grad());
    assert_eq!(raw.dims()[D - 1], density.outputs());
    let out = density.log_likelihood(raw.clone(), x.clone()).unwrap();
    let gradients = loss(&out, &golden.tensor(&name("grad_out"), &training()));
    assert_eq!(out.dims().to_vec(), golden.shape(&name("out")));
    // Small deviations magnify the rounding of x − μ in f32.
    let tolerance = if case.ends_with("wide") { 2e-5 } else { 5e-6 };
    for (what, got) in
        [("out", values(out)), ("grad_raw", gradient(&raw, &gradients)), ("grad_x", gradient(&x, &gradients))]
    {
        close(&name(what), &got, &golden.floats(&name(what)), tolerance);
    }
}

#[test]
fn likelihoods_and_gradients_match_pytorch() {
    let golden = Golden::open("density");
    for (case, options) in golden.cases() {
        let density: DensityConfig = serde_json::from_value(options).unwrap();
        match golden.shape(&format!("{case}/x")).len() {
            2 => agrees::<2>(&golden, &case, density),
            _ => agrees::<3>(&golden, &case, density),
        }
    }
}

/// Computes `Σ p(x) Δ` over a grid with `per_side` points in `±reach` along each of the first `dimensions`; the rest of `x`
/// is `tail`.
fn integral(density: DensityConfig, raw: &[f32], dimensions: usize, tail: &[f32], reach: f64, per_side: usize) -> f64 {
    let step = 2.0 * reach / per_side as f64;
    let points = per_side.pow(dimensions as u32);
    let x: Vec<f32> = (0..points)
        .flat_map(|point| {
            let at = move |n: u32| ((point / per_side.pow(n) % per_side) as f64 + 0.5) * step - reach;
            (0..dimensions as u32).map(move |n| at(n) as f32).chain(tail.iter().copied())
        })
        .collect();
    let raw = matrix(raw.to_vec(), raw.len()).repeat_dim(0, points);
    let out = density.log_likelihood(raw, matrix(x, dimensions + tail.len())).unwrap();
    values(out).into_iter().map(|log| f64::from(log).exp()).sum::<f64>() * step.powi(dimensions as i32)
}

#[test]
fn densities_integrate_to_one() {
    let raw = |density: DensityConfig, seed| values(leaf([1, density.outputs()], seed));
    for diagonal in [Diagonal::Exp, Diagonal::Softplus] {
        for (density, per_side) in [
            (gaussian(1, diagonal), 3000),
            (gaussian(2, diagonal), 400),
            (mixture(3, 1, diagonal), 3000),
            (mixture(3, 2, diagonal), 400),
        ] {
            let sum = integral(density, &raw(density, 4), density.dimensions(), &[], 15.0, per_side);
            assert!((sum - 1.0).abs() < 1e-5, "{density:?}: {sum}");
        }
    }
    // The sum includes both values of the end of stroke.
    let raw = raw(STROKE, 3);
    let sum: f64 = [0.0, 1.0].iter().map(|&end| integral(STROKE, &raw, 2, &[end], 15.0, 400)).sum();
    assert!((sum - 1.0).abs() < 1e-5, "{sum}");
}

#[test]
fn one_component_is_a_gaussian() {
    let (one, mixed) = (gaussian(3, Diagonal::Softplus), mixture(1, 3, Diagonal::Softplus));
    let (raw, x) = (leaf([4, 5, one.outputs()], 1), leaf([4, 5, 3], 2));
    let weight = leaf([4, 5, 1], 3);
    let mixed = mixed.log_likelihood(Tensor::cat(vec![weight, raw.clone()], 2), x.clone()).unwrap();
    close("mixture", &values(mixed), &values(one.log_likelihood(raw, x).unwrap()), 1e-6);
}

const DRAWS: usize = 40_000;

/// Computes the mean and covariance of the first two numbers of the draws.
fn moments(drawn: &[Vec<f64>]) -> ([f64; 2], [f64; 3]) {
    let count = drawn.len() as f64;
    let mean = [0, 1].map(|n| drawn.iter().map(|x| x[n]).sum::<f64>() / count);
    let covariance = [(0, 0), (0, 1), (1, 1)]
        .map(|(a, b)| drawn.iter().map(|x| (x[a] - mean[a]) * (x[b] - mean[b])).sum::<f64>() / count);
    (mean, covariance)
}

/// Draws samples from the density with the given raw outputs.
fn draws(density: DensityConfig, raw: &[f32], bias: f32, seed: u64) -> Vec<Vec<f64>> {
    let raw = matrix(raw.to_vec(), raw.len()).repeat_dim(0, DRAWS).reshape([2, DRAWS / 2, raw.len()]);
    let drawn = density.sample(raw, bias, &mut ChaCha8Rng::seed_from_u64(seed)).unwrap();
    assert_eq!(drawn.dims(), [2, DRAWS / 2, density.dimensions()]);
    values(drawn).chunks(density.dimensions()).map(|x| x.iter().map(|&x| f64::from(x)).collect()).collect()
}

/// Asserts that the draws have the given mean and covariance within five standard errors.
#[track_caller]
fn has_moments(drawn: &[Vec<f64>], mean: [f64; 2], covariance: [f64; 3]) {
    let (got_mean, got) = moments(drawn);
    let root = (drawn.len() as f64).sqrt();
    let variances = [covariance[0], covariance[2]];
    for n in 0..2 {
        let error = (got_mean[n] - mean[n]).abs() / (variances[n].sqrt() / root);
        assert!(error < 5.0, "mean {n}: {} against {}, {error} standard errors", got_mean[n], mean[n]);
    }
    for (n, (a, b)) in [(0, 0), (0, 1), (1, 1)].into_iter().enumerate() {
        let spread = (variances[a] * variances[b] + covariance[n].powi(2)).sqrt() / root;
        let error = (got[n] - covariance[n]).abs() / spread;
        assert!(error < 5.0, "covariance {n}: {} against {}, {error} standard errors", got[n], covariance[n]);
    }
}

#[test]
fn gaussian_draws_have_its_moments_and_bias_shrinks_them() {
    // A = [[2, 0], [−1.5, 0.5]]
    let softplus = |x: f64| (x.exp() - 1.0).ln() as f32;
    for (diagonal, first, second) in
        [(Diagonal::Exp, 2f32.ln(), 0.5f32.ln()), (Diagonal::Softplus, softplus(2.0), softplus(0.5))]
    {
        for bias in [0.0f32, 1.0] {
            let drawn = draws(gaussian(2, diagonal), &[1.0, -3.0, first, second, -1.5], bias, 5);
            let shrink = (-2.0 * f64::from(bias)).exp();
            has_moments(&drawn, [1.0, -3.0], [4.0, -3.0, 2.5].map(|x| x * shrink));
        }
    }
}

#[test]
fn mixtures_choose_by_their_weights() {
    // Two components far apart, with log-weights 0 and log 3 and deviations 1.
    let raw = [0.0, 3f32.ln(), -100.0, 0.0, 0.0, 0.0, 0.5, 100.0, 0.0, 0.0, 0.0, -0.5];
    for (bias, second) in [(0.0, 0.75), (1.0, 0.9)] {
        let drawn = draws(mixture(2, 2, Diagonal::Exp), &raw, bias, 6);
        let (low, high): (Vec<_>, Vec<_>) = drawn.into_iter().partition(|x| x[0] < 0.0);
        let error = (high.len() as f64 / DRAWS as f64 - second).abs() / (second * (1.0 - second) / DRAWS as f64).sqrt();
        assert!(error < 5.0, "{}: {error} standard errors", high.len());
        let shrink = (-2.0 * f64::from(bias)).exp();
        has_moments(&low, [-100.0, 0.0], [1.0, 0.5, 1.25].map(|x| x * shrink));
        has_moments(&high, [100.0, 0.0], [1.0, -0.5, 1.25].map(|x| x * shrink));
    }
}

#[test]
fn strokes_have_their_moments_and_ends() {
    // ê, then pairs: ŵ, μ₁, μ₂, σ̂₁, σ̂₂, ρ̂
    let rho = 0.8f32;
    let raw = [-1.0, 0.0, 3f32.ln(), -50.0, 50.0, 1.0, 2.0, 0.0, 2f32.ln(), 0.0, 0.0, rho.atanh(), (-rho).atanh()];
    for (bias, second) in [(0.0, 0.75), (1.0, 0.9)] {
        let drawn = draws(STROKE, &raw, bias, 7);
        let within = |share: f64, want: f64| {
            let error = (share - want).abs() / (want * (1.0 - want) / DRAWS as f64).sqrt();
            assert!(error < 5.0, "{share} against {want}, {error} standard errors");
        };
        assert!(drawn.iter().all(|x| x[2] == 0.0 || x[2] == 1.0));
        within(drawn.iter().map(|x| x[2]).sum::<f64>() / DRAWS as f64, 1.0 / (1.0 + 1f64.exp()));
        let (low, high): (Vec<_>, Vec<_>) = drawn.into_iter().partition(|x| x[0] < 0.0);
        within(high.len() as f64 / DRAWS as f64, second);
        let shrink = (-2.0 * f64::from(bias)).exp();
        has_moments(&low, [-50.0, 1.0], [1.0, 0.8, 1.0].map(|x| x * shrink));
        has_moments(&high, [50.0, 2.0], [4.0, -1.6, 1.0].map(|x| x * shrink));
    }
}

#[test]
fn a_seed_repeats_its_draws() {
    let raw = values(leaf([1, STROKE.outputs()], 1));
    assert_eq!(draws(STROKE, &raw, 0.5, 1), draws(STROKE, &raw, 0.5, 1));
    assert_ne!(draws(STROKE, &raw, 0.5, 1), draws(STROKE, &raw, 0.5, 2));
}

/// Returns the log-likelihood at `x`, and whether it and all gradients are finite.
fn at_extreme(density: DensityConfig, raw: Vec<f32>, x: Vec<f32>) -> (f32, bool) {
    let raw = matrix(raw, density.outputs()).require_grad();
    let x = matrix(x, density.dimensions()).require_grad();
    let out = density.log_likelihood(raw.clone(), x.clone()).unwrap();
    let gradients = out.clone().sum().backward();
    let numbers = [values(out.clone()), gradient(&raw, &gradients), gradient(&x, &gradients)].concat();
    (values(out)[0], numbers.iter().all(|x| x.is_finite()))
}

proptest! {
    /// Combinations of extreme raw outputs stay finite, as far as f32 can hold the exact values.
    #[test]
    fn extreme_outputs_stay_finite(
        raw in prop::collection::vec(prop::sample::select(vec![-1e4f32, -50.0, -1.0, 0.0, 0.5, 50.0, 1e4]), 13),
        x in prop::collection::vec(-1.0f32..1.0, 3),
    ) {
        for diagonal in [Diagonal::Exp, Diagonal::Softplus] {
            let one = gaussian(1, diagonal);
            prop_assert!(at_extreme(one, raw[..2].to_vec(), x[..1].to_vec()).1, "{one:?}");
            // Large means with tiny deviations and an entry below the diagonal would exceed the range of f32.
            let close: Vec<f32> = [raw[0] / 1e4, raw[1] / 1e4].into_iter().chain(raw[2..5].iter().copied()).collect();
            let two = gaussian(2, diagonal);
            prop_assert!(at_extreme(two, close.clone(), x[..2].to_vec()).1, "{two:?}");
            let mixed = mixture(2, 2, diagonal);
            let close = [&raw[11..], close.as_slice(), close.as_slice()].concat();
            prop_assert!(at_extreme(mixed, close, x[..2].to_vec()).1, "{mixed:?}");
        }
        prop_assert!(at_extreme(STROKE, raw, vec![x[0], x[1], 1.0]).1);
    }
}

#[test]
fn extreme_values_are_right() {
    let half_log = 0.5 * std::f32::consts::TAU.ln();
    let (exp, softplus) = (gaussian(1, Diagonal::Exp), gaussian(1, Diagonal::Softplus));
    close("huge", &[at_extreme(exp, vec![0.0, 50.0], vec![1.0]).0], &[-50.0 - half_log], 1e-6);
    close("softplus", &[at_extreme(softplus, vec![0.0, 1e4], vec![1.0]).0], &[-1e4f32.ln() - half_log], 1e-6);
    close("small", &[at_extreme(softplus, vec![0.0, -15.5], vec![0.0]).0], &[15.5 - half_log], 1e-6);
    for below in [-50.0, -1e10, -3e38] {
        close("end of the range", &[at_extreme(exp, vec![0.0, below], vec![0.0]).0], &[16.0 - half_log], 1e-6);
    }
    close("other end", &[at_extreme(exp, vec![0.0, 1e9], vec![0.0]).0], &[-80.0 - half_log], 1e-6);
    // On a line of slope 1 the density is high, off it low: log(1 − ρ²) = −2 log cosh 12.
    let on = |v: f32| {
        let raw = vec![0.0, 0.0, -1e4, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 12.0, 0.0];
        at_extreme(STROKE, raw, vec![1.0, v, 0.0]).0
    };
    let want = 12.0 - std::f32::consts::LN_2 - 0.5 - std::f32::consts::TAU.ln() - std::f32::consts::LN_2;
    close("correlation", &[on(1.0)], &[want], 1e-5);
    assert!(on(1.001) < -1e3, "{}", on(1.001));
}

#[test]
fn slopes_at_zero_are_right() {
    // Formulas with absolute values would have no slope at zero: ∂/∂ρ̂ = uv, ∂/∂ê = end − ½, softplus′ = ½.
    let density = DensityConfig::Stroke(StrokeMixture { components: 1 });
    let raw = matrix(vec![0.0; 7], 7).require_grad();
    let out = density.log_likelihood(raw.clone(), matrix(vec![0.5, -2.0, 1.0], 3)).unwrap();
    let slopes = gradient(&raw, &out.sum().backward());
    close("stroke", &slopes, &[0.5, 0.0, 0.5, -2.0, 0.25 - 1.0, 4.0 - 1.0, -1.0], 1e-6);
    let density = gaussian(1, Diagonal::Softplus);
    let raw = matrix(vec![0.0; 2], 2).require_grad();
    let out = density.log_likelihood(raw.clone(), matrix(vec![0.0], 1)).unwrap();
    let slopes = gradient(&raw, &out.sum().backward());
    close("softplus", &slopes, &[0.0, -0.5 / std::f32::consts::LN_2], 1e-6);
}

#[test]
fn correlations_near_one_keep_their_slopes() {
    // At u = v the slope of μ₁ is (u − ρv)/(1 − ρ²) = v/(1 + ρ); with ρ rounded to f32 it would be 6 % off.
    let density = DensityConfig::Stroke(StrokeMixture { components: 1 });
    for sign in [1.0f32, -1.0] {
        let raw = matrix(vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 8.0 * sign], 7).require_grad();
        let out = density.log_likelihood(raw.clone(), matrix(vec![100.0, 100.0 * sign, 0.0], 3)).unwrap();
        let slope = gradient(&raw, &out.sum().backward())[2];
        close("slope of the mean", &[slope], &[100.0 / (1.0 + 8f32.tanh())], 1e-5);
    }
}

#[test]
fn gradients_lead_back_from_outside_the_range() {
    // If the deviation is far too small, the gradient must still point to a larger raw output.
    let density = gaussian(1, Diagonal::Exp);
    let raw = matrix(vec![0.0, -1e4], 2).require_grad();
    let out = density.log_likelihood(raw.clone(), matrix(vec![0.5], 1)).unwrap();
    let slope = gradient(&raw, &out.sum().backward())[1];
    assert!(slope > 1.0, "{slope}");
}

#[test]
fn losses_ignore_padding() {
    let log = leaf([2, 3, 1], 1);
    let values_of = values(log.clone());
    let run = |lengths: Option<&[usize]>, reduction| {
        values(negative_log_likelihood(log.clone(), lengths, reduction).unwrap())[0]
    };
    let all: f32 = -values_of.iter().sum::<f32>();
    close("sum", &[run(None, Reduction::Sum)], &[all], 1e-6);
    close("steps", &[run(None, Reduction::MeanStep)], &[all / 6.0], 1e-6);
    let some = -(values_of[0] + values_of[3] + values_of[4]);
    close("sum", &[run(Some(&[1, 2]), Reduction::Sum)], &[some], 1e-6);
    close("steps", &[run(Some(&[1, 2]), Reduction::MeanStep)], &[some / 3.0], 1e-6);
    close("sequences", &[run(Some(&[1, 2]), Reduction::MeanSequence)], &[some / 2.0], 1e-6);
    close("nothing", &[run(Some(&[0, 0]), Reduction::MeanStep)], &[0.0], 0.0);
    let gradients = negative_log_likelihood(log.clone(), Some(&[1, 2]), Reduction::Sum).unwrap().backward();
    close("gradient", &gradient(&log, &gradients), &[-1.0, 0.0, 0.0, -1.0, -1.0, 0.0], 0.0);
    for lengths in [&[1][..], &[1, 4], &[1, 2, 3]] {
        let error = negative_log_likelihood(log.clone(), Some(lengths), Reduction::Sum).unwrap_err();
        assert!(matches!(error, NnError::Input { what: "lengths", .. }), "{error}");
    }
    let error = negative_log_likelihood(leaf([2, 3, 2], 1), None, Reduction::Sum).unwrap_err();
    assert!(matches!(error, NnError::Input { what: "log_likelihood", .. }), "{error}");
}

#[test]
fn a_head_projects_to_the_raw_outputs_of_its_density() {
    let density = mixture(20, 2, Diagonal::Exp);
    let head = density.init(8, &Init::new(1, &training())).unwrap();
    assert_eq!(head.linear.weight.dims(), [8, 20 * 6]);
    let (features, x) = (leaf([2, 3, 8], 1), leaf([2, 3, 2], 2));
    let raw = features.clone().matmul(head.linear.weight.val().unsqueeze());
    let want = density.log_likelihood(raw, x.clone()).unwrap();
    let got = head.log_likelihood(features.clone(), x).unwrap();
    let gradients = [&got, &want].map(|out| gradient(&head.linear.weight.val(), &out.clone().sum().backward()));
    close("likelihood", &values(got), &values(want), 1e-5);
    close("gradient of the weight", &gradients[0], &gradients[1], 1e-5);
    let drawn = head.sample(features, 0.0, &mut ChaCha8Rng::seed_from_u64(1)).unwrap();
    assert_eq!(drawn.dims(), [2, 3, 2]);
    let error = density.init(0, &Init::new(1, &training())).unwrap_err();
    assert_eq!(error.to_string(), "d_model = 0: expected a whole number, 1 or more");
}

#[test]
fn configurations_are_read_and_refused() {
    let parse = parse::<DensityConfig>;
    let full = parse(r#"{"kind": "mixture", "components": 20, "dimensions": 2, "diagonal": "exp"}"#);
    assert_eq!(full, Ok(mixture(20, 2, Diagonal::Exp)));
    assert_eq!(parse(r#""stroke""#), Ok(DensityConfig::Stroke(StrokeMixture { components: 20 })));
    assert_eq!(parse(r#"{"kind": "gaussian", "dimensions": 3}"#), Ok(gaussian(3, Diagonal::Exp)));
    assert!(parse(r#""gaussian""#).unwrap_err().contains("missing field `dimensions`"));
    assert!(parse(r#""gauss""#).unwrap_err().contains("expected one of `gaussian`, `mixture`, `stroke`"));
    let unknown = parse(r#"{"kind": "stroke", "dimensions": 3}"#).unwrap_err();
    assert!(unknown.contains("unknown field `dimensions`"), "{unknown}");
    let text = serde_json::to_string(full.as_ref().unwrap()).unwrap();
    assert_eq!(parse(&text), full);
    for (density, message) in [
        (gaussian(0, Diagonal::Exp), "dimensions = 0: expected a whole number from 1 to 1024"),
        (mixture(0, 2, Diagonal::Exp), "components = 0: expected a whole number from 1 to 65536"),
        (mixture(2, 5000, Diagonal::Exp), "dimensions = 5000: expected a whole number from 1 to 1024"),
        (
            DensityConfig::Stroke(StrokeMixture { components: 0 }),
            "components = 0: expected a whole number from 1 to 65536",
        ),
    ] {
        assert_eq!(density.validate().unwrap_err().to_string(), message);
        assert!(density.log_likelihood(leaf([1, 1], 1), leaf([1, 1], 1)).is_err());
        assert!(density.sample(leaf([1, 1], 1), 0.0, &mut ChaCha8Rng::seed_from_u64(1)).is_err());
        assert!(density.init(4, &Init::new(1, &training())).is_err());
    }
}

#[test]
fn bad_inputs_are_refused() {
    let shape = |error: NnError, what: &str| {
        assert!(matches!(&error, NnError::Op(OpError::Shape { what: got, .. }) if *got == what), "{error}");
    };
    for density in [gaussian(2, Diagonal::Exp), mixture(3, 2, Diagonal::Softplus), STROKE] {
        let (n, outputs) = (density.dimensions(), density.outputs());
        let call = |raw: [usize; 3], x: [usize; 3]| density.log_likelihood(leaf(raw, 1), leaf(x, 2)).unwrap_err();
        shape(call([2, 3, outputs + 1], [2, 3, n]), "raw");
        shape(call([2, 3, outputs], [2, 3, n + 1]), "x");
        shape(call([2, 3, outputs], [3, 2, n]), "x");
        shape(call([2, 0, outputs], [2, 0, n]), "raw");
        let random = &mut ChaCha8Rng::seed_from_u64(1);
        shape(density.sample(leaf([2, outputs - 1], 1), 0.0, random).unwrap_err(), "raw");
        for bias in [-1.0, f32::NAN, f32::INFINITY] {
            let error = density.sample(leaf([2, outputs], 1), bias, random).unwrap_err();
            assert!(matches!(error, NnError::Input { what: "bias", .. }), "{error}");
        }
        let error = density.log_likelihood(leaf([2, outputs], 1).cast(DType::F64), leaf([2, n], 1)).unwrap_err();
        assert!(matches!(error, NnError::Op(OpError::DType { what: "raw", .. })), "{error}");
        // NaN in gives NaN out, without a panic.
        let drawn = density.sample(matrix(vec![f32::NAN; outputs], outputs), 0.0, random).unwrap();
        assert!(values(drawn)[0].is_nan());
    }
}
