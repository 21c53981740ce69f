//! Tests of the solvers against each other, against sums over prompts, and against published numbers.

use regard_theory::TheoryError;
use regard_theory::fields::{Fields, Origin, test_error};
use regard_theory::prompt::{Correlation, Divisor, Split, Task};
use regard_theory::solver::{Method, Options, Solution};
use regard_theory::train::{Model, TrainOptions, train};
use regard_theory::weights::contrast;

fn fields(task: &Task, prompts: u64, lambda: f64) -> Fields {
    Fields::draw(task, prompts, lambda, 1, &mut |_| {}).unwrap()
}

fn solve(method: Method, fields: &Fields) -> Result<Solution, TheoryError> {
    method.solver(Options::default()).solve(fields, &mut |_, _| {})
}

fn farthest(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn fields_are_sums_over_prompts() {
    let task = Task { c: 0.3, noise: 0.2, ..Task::new(3, 4) };
    let prompts = 37;
    let found = fields(&task, prompts, 0.5);
    let (d, side) = (3, 4);
    let n = d * side;
    let (mut moments, mut h, mut square) = (vec![0.0; n * n], vec![0.0; n], 0.0);
    for index in 0..prompts {
        let prompt = task.prompt(Split::Train, 1, index);
        // Elements of the prompt's matrix X, whose last row holds the labels, with 0 for the query.
        let labels: Vec<f64> = prompt.labels.iter().copied().chain([0.0]).collect();
        let element =
            |row: usize, column: usize| if row < d { prompt.inputs[column * d + row] } else { labels[column] };
        let s: Vec<f64> = (0..n)
            .map(|i| {
                let (m, n) = (i / d, i % d);
                (0..5).map(|column| element(d, column) * element(m, column)).sum::<f64>() * element(n, 4) / 5.0
            })
            .collect();
        for i in 0..n {
            h[i] += prompt.answer * s[i] / prompts as f64;
            for j in 0..n {
                moments[i * n + j] += s[i] * s[j] / prompts as f64;
            }
        }
        square += prompt.answer * prompt.answer / prompts as f64;
    }
    assert!(farthest(&found.h, &h) < 1e-13);
    assert!((found.answer_square - square).abs() < 1e-12);
    for i in 0..n {
        for j in 0..n {
            assert!((found.moments[(i, j)] - moments[i * n + j]).abs() < 1e-13);
        }
        assert!((found.stiffness(i) - 0.5 - moments[i * n + i]).abs() < 1e-13);
    }
    // The energy is the loss up to a constant.
    let weights: Vec<f64> = (0..n).map(|i| (i as f64).sin()).collect();
    let squared: f64 = weights.iter().map(|w| w * w).sum();
    let loss = 0.5 * found.train_error(&weights) + 0.25 * squared;
    assert!((found.energy(&weights) - loss + 0.5 * square).abs() < 1e-12);
}

#[test]
fn fields_do_not_depend_on_threads() {
    let task = Task::new(5, 7);
    let draw = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fields(&task, 2500, 0.1))
    };
    let (one, three) = (draw(1), draw(3));
    assert!(one.moments == three.moments && one.h == three.h && one.answer_square == three.answer_square);
}

/// The published script multiplies by the Cholesky factor `L` from the right: the covariance is `LᵀL`, not `L Lᵀ`.
#[test]
fn published_inputs_have_the_covariance_of_the_published_script() {
    let (n, c) = (3, 0.4);
    let task = Task { c, correlation: Correlation::Published, ..Task::new(2, n) };
    // The textbook factorisation of the matrix with 1 on the diagonal and c elsewhere.
    let mut l = vec![vec![0.0f64; n + 1]; n + 1];
    for i in 0..=n {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| l[i][k] * l[j][k]).sum();
            l[i][j] = if i == j { (1.0 - sum).sqrt() } else { (c - sum) / l[j][j] };
        }
    }
    let prompts: Vec<Vec<f64>> = (0..20_000).map(|index| task.prompt(Split::Train, 1, index).inputs).collect();
    for a in 0..=n {
        for b in 0..=n {
            let expected: f64 = (0..=n).map(|k| l[k][a] * l[k][b]).sum();
            let sum: f64 = prompts.iter().map(|x| x[2 * a] * x[2 * b] + x[2 * a + 1] * x[2 * b + 1]).sum();
            let found = sum / (2.0 * prompts.len() as f64);
            assert!((found - expected).abs() < 0.05, "{a}, {b}: {found} and {expected}");
        }
    }
    assert!(Task { c: 1.0, ..task }.validate().unwrap_err().to_string().contains("below 1"));
}

#[test]
fn inputs_have_the_correlation_asked_for() {
    let task = Task { c: 0.6, ..Task::new(2, 3) };
    let count = 40_000;
    let (mut own, mut cross) = (0.0, 0.0);
    for index in 0..count {
        let x = task.prompt(Split::Train, 3, index).inputs;
        own += x[0] * x[0];
        // The first feature of the first input and of the query.
        cross += x[0] * x[6];
    }
    let count = count as f64;
    assert!((own / count - 1.0).abs() < 0.03 && (cross / count - 0.6).abs() < 0.03);
}

/// Uses the published point: D = 20, N = 100, P = 10,000, λ = 0.01.
#[test]
fn edges_and_amp_reach_the_ground_state_and_node_another_fixed_point() {
    let task = Task::new(20, 100);
    let fields = fields(&task, 10_000, 0.01);
    let exact = solve(Method::Exact, &fields).unwrap();
    assert!(exact.residual < 1e-12);
    for method in [Method::Edges, Method::Amp] {
        let found = solve(method, &fields).unwrap();
        assert!(found.converged, "{method}");
        assert!(farthest(&found.means, &exact.means) < 1e-6, "{method}");
        // The variances are estimates, close to the exact ones.
        let off = found.variances.iter().zip(&exact.variances).map(|(a, b)| (a / b - 1.0).abs()).fold(0.0, f64::max);
        assert!(off < 0.1, "{method}: {off}");
    }
    // Sampling checks means and variances independently.
    for method in [Method::Gibbs, Method::Hmc] {
        let sampled = solve(method, &fields).unwrap();
        assert!(sampled.converged, "{method}");
        assert!(farthest(&sampled.means, &exact.means) < 5.0 * sampled.residual, "{method}");
        let amp = solve(Method::Amp, &fields).unwrap();
        for (sampled, amp) in sampled.variances.iter().zip(&amp.variances) {
            assert!((sampled / amp - 1.0).abs() < 0.2, "{method}: {sampled} and {amp}");
        }
    }
    let node = solve(Method::Node, &fields).unwrap();
    assert!(node.converged);
    // (λ_i − V_i) m_i = h_i + Σ J m with V_i = Σ J² v.
    let couplings = fields.couplings();
    for i in 0..fields.len() {
        let beta = Options::default().beta;
        let shift: f64 =
            (0..fields.len()).map(|k| couplings[i * fields.len() + k].powi(2) * beta * node.variances[k]).sum();
        let pull: f64 = (0..fields.len()).map(|k| couplings[i * fields.len() + k] * node.means[k]).sum();
        assert!(((fields.stiffness(i) - shift) * node.means[i] - fields.h[i] - pull).abs() < 1e-8);
    }
    let error = test_error(&task, &node.means, 4000, 1).0;
    assert!((error - 0.19).abs() < 0.03, "{error}");
    assert!(contrast(&exact.means, 20) > 0.9);
}

#[test]
fn sampling_agrees_within_its_error() {
    let fields = fields(&Task::new(6, 30), 1000, 0.05);
    let exact = solve(Method::Exact, &fields).unwrap();
    for method in [Method::Gibbs, Method::Hmc] {
        let found = solve(method, &fields).unwrap();
        assert!(found.converged, "{method}");
        // Five times the largest of 42 standard errors: one false alarm in a hundred thousand runs.
        assert!(farthest(&found.means, &exact.means) < 5.0 * found.residual, "{method}");
        for (found, exact) in found.variances.iter().zip(&exact.variances) {
            assert!((found / exact - 1.0).abs() < 0.15, "{method}: {found} and {exact}");
        }
    }
}

#[test]
fn chains_that_have_not_mixed_do_not_count_as_converged() {
    let fields = fields(&Task::new(5, 20), 35, 1e-5);
    for beta in [1e6, 1e10] {
        let found =
            Method::Gibbs.solver(Options { beta, ..Options::default() }).solve(&fields, &mut |_, _| {}).unwrap();
        assert!(!found.converged, "β = {beta}");
    }
    // A large β alone does not prevent convergence.
    let easy = Fields::draw(&Task::new(4, 30), 500, 0.05, 1, &mut |_| {}).unwrap();
    let exact = solve(Method::Exact, &easy).unwrap();
    let found =
        Method::Gibbs.solver(Options { beta: 1e14, ..Options::default() }).solve(&easy, &mut |_, _| {}).unwrap();
    assert!(found.converged);
    for (found, exact) in found.variances.iter().zip(&exact.variances) {
        // The exact variances are those at β = 100.
        assert!((found / exact * 1e12 - 1.0).abs() < 0.2, "{found} and {exact}");
    }
    let singular = Fields::draw(&Task::new(4, 10), 19, 0.0, 1, &mut |_| {}).unwrap();
    assert!(matches!(solve(Method::Hmc, &singular), Err(TheoryError::Indefinite { .. })));
}

#[test]
fn convergence_is_relative_to_the_means() {
    let fields = fields(&Task::new(4, 20), 500, 1e10);
    let exact = solve(Method::Exact, &fields).unwrap();
    for method in [Method::Amp, Method::Edges] {
        let found = solve(method, &fields).unwrap();
        let off = found.means.iter().zip(&exact.means).map(|(a, b)| (a / b - 1.0).abs()).fold(0.0, f64::max);
        assert!(found.converged && off < 1e-6, "{method}: {off}");
    }
}

#[test]
fn a_little_regularisation_is_as_good_as_none() {
    let task = Task::new(4, 10);
    let none = solve(Method::Exact, &fields(&task, 8, 0.0)).unwrap();
    assert!(none.converged);
    for lambda in [1e-17, 1e-15, 1e-13] {
        let little = solve(Method::Exact, &fields(&task, 8, lambda)).unwrap();
        assert!(little.converged && farthest(&little.means, &none.means) < 1e-6, "{lambda}");
    }
}

#[test]
fn the_error_peaks_at_as_many_prompts_as_spins() {
    let task = Task::new(4, 20);
    let options = TrainOptions { steps: 20_000, weight_decay: 2e-6, ..TrainOptions::default() };
    for model in [Model::Merged, Model::Separate] {
        let [few, peak, many] = [8, 20, 100].map(|prompts| {
            let errors = (1..6).map(|seed| {
                train(model, &task, (prompts, 2000), seed, &options, &|| false, &mut |_, _| {})
                    .unwrap()
                    .unwrap()
                    .test_error
                    .0
            });
            errors.sum::<f64>() / 5.0
        });
        assert!(peak > 1.5 * few && few > many, "{model:?}: {few}, {peak}, {many}");
    }
}

#[test]
fn strong_couplings_are_reported_as_a_negative_precision() {
    let fields = fields(&Task::new(10, 10), 20, 1e-4);
    for method in [Method::Node, Method::Amp, Method::Edges] {
        let error = solve(method, &fields).unwrap_err();
        assert!(matches!(error, TheoryError::NegativePrecision { .. }), "{method}: {error}");
        assert!(error.to_string().contains("--solver exact"));
    }
    solve(Method::Exact, &fields).unwrap();
}

#[test]
fn many_prompts_make_a_multiple_of_the_identity() {
    let (d, n, lambda) = (4, 12, 0.02);
    let task = Task { divisor: Divisor::Examples, ..Task::new(d, n) };
    let fields = Fields::new(&task, Origin::Closed, 2_000_000, lambda, 5, &mut |_| {}).unwrap();
    let found = solve(Method::Exact, &fields).unwrap().means;
    let want = 1.0 / (1.0 + (d + 1) as f64 / n as f64 + lambda * d as f64);
    for (i, weight) in found.iter().enumerate() {
        let want = if i / d == i % d { want } else { 0.0 };
        assert!((weight - want).abs() < 0.01, "W_{}{} = {weight}, not {want}", i / d + 1, i % d + 1);
    }
}

#[test]
fn adam_finds_the_ground_state() {
    let task = Task::new(8, 40);
    let (prompts, lambda) = (2000, 0.01);
    let exact = solve(Method::Exact, &fields(&task, prompts, lambda)).unwrap();
    let options = TrainOptions { steps: 3000, weight_decay: 2.0 * lambda, ..TrainOptions::default() };
    let trained =
        train(Model::Merged, &task, (prompts, 2000), 1, &options, &|| false, &mut |_, _| {}).unwrap().unwrap();
    let weights = trained.weights.unwrap();
    assert!(farthest(&weights, &exact.means) < 1e-3, "{}", farthest(&weights, &exact.means));
    assert!(trained.curve.first().unwrap().1 > trained.curve.last().unwrap().1);
}

#[test]
fn without_regularisation_few_prompts_are_memorised() {
    let task = Task::new(6, 20);
    let fields = fields(&task, 20, 0.0);
    let found = solve(Method::Exact, &fields).unwrap();
    assert!(fields.train_error(&found.means) < 1e-14);
    assert!(test_error(&task, &found.means, 2000, 1).0 > 0.3);
    let singular = Fields { lambda: -0.1, ..fields };
    assert!(matches!(solve(Method::Exact, &singular), Err(TheoryError::Indefinite { .. })));
}

#[test]
fn invalid_settings_are_named_in_the_error() {
    let refused = |task: Task, prompts: u64, what: &str| {
        let error = Fields::draw(&task, prompts, 0.1, 1, &mut |_| {}).unwrap_err();
        assert!(error.is_wrong_use() && error.to_string().starts_with(what), "{error}");
    };
    refused(Task::new(0, 5), 10, "d: ");
    refused(Task::new(5, 0), 10, "n: ");
    refused(Task::new(5, 5), 0, "p: ");
    refused(Task { c: 1.5, ..Task::new(5, 5) }, 10, "c: ");
    refused(Task { noise: -1.0, ..Task::new(5, 5) }, 10, "noise: ");
    let error = Options { beta: 0.0, ..Options::default() }.validate().unwrap_err();
    assert!(error.to_string().starts_with("beta: "));
}
