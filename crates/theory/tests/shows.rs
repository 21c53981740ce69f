//! Tests of spectra, block distributions and sweeps.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use regard_theory::asymptotic::asymptotic_error;
use regard_theory::blocks::{Block, divergence, divergences, pooled};
use regard_theory::fields::{Fields, Origin};
use regard_theory::prompt::{Divisor, Task};
use regard_theory::solver::{Method, Options};
use regard_theory::spectrum::{
    expected_zero_fraction, hessian_spectrum, input_spectrum, marchenko_pastur_edges, zero_fraction,
};
use regard_theory::statistics::mean_and_deviation;
use regard_theory::sweep::{Settings, Summary, Sweep};

fn fields(task: &Task, prompts: u64) -> Fields {
    Fields::draw(task, prompts, 0.0, 1, &mut |_| {}).unwrap()
}

#[test]
fn each_prompt_removes_a_zero_eigenvalue() {
    let task = Task::new(6, 50);
    for prompts in [1, 20, 41, 42, 43, 500] {
        let found = zero_fraction(&hessian_spectrum(&fields(&task, prompts)).unwrap());
        assert!((found - expected_zero_fraction(6, prompts)).abs() < 1e-12, "{prompts}: {found}");
    }
}

#[test]
fn inputs_follow_marchenko_and_pastur() {
    let task = Task::new(50, 200);
    let values = input_spectrum(&task, 40, 1).unwrap();
    let (low, high) = marchenko_pastur_edges(0.25);
    let outside = values.iter().filter(|value| !(low..=high).contains(value)).count();
    assert!(outside * 30 < values.len(), "{outside} of {}", values.len());
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
    assert!((mean - 1.0).abs() < 0.02 && (square - 1.25).abs() < 0.04, "{mean}, {square}");
}

#[test]
fn the_closed_expressions_have_the_distribution_of_prompts() {
    let task = Task::new(8, 12);
    let [drawn, closed] = [(Origin::Prompts, 1), (Origin::Closed, 100)]
        .map(|(origin, seed)| pooled(&task, origin, (1000, 40), seed).unwrap());
    for (block, (drawn, closed)) in Block::AVERAGED.into_iter().zip(drawn.iter().zip(&closed)) {
        let ((mean, spread), (other_mean, other)) = (mean_and_deviation(drawn), mean_and_deviation(closed));
        assert!((mean - other_mean).abs() < 0.3 * spread, "{block:?}: {mean} and {other_mean}");
        assert!((0.75..1.33).contains(&(spread / other).powi(2)), "{block:?}: {spread} and {other}");
    }
}

#[test]
fn all_blocks_change_with_n_except_the_fields_of_the_last_row() {
    let task = Task::new(20, 20);
    let first = pooled(&task, Origin::Prompts, (1000, 40), 1).unwrap();
    let rows = divergences(&task, &first, (1000, 40), &[0, 200], 50, 1, &mut |_| {}).unwrap();
    let (floor, [c, d, e, f, g]) = (rows[0].1, rows[1].1);
    for (moved, floor) in [(c, floor[0]), (e, floor[2]), (f, floor[3])] {
        assert!(moved > 2.0 * floor, "{rows:?}");
    }
    // The spread of G follows one factor u_m, the spread of E two.
    assert!(d < 1.5 * floor[1] && g < 0.5 * e, "{rows:?}");
    assert_eq!(divergence(&[1.0, 2.0], &[1.0, 2.0], 10).unwrap(), 0.0);
    assert!(divergence(&[1.0], &[2.0], 1).is_err());
}

fn sweep(method: Method) -> Sweep {
    let settings =
        Settings { method, options: Options::default(), tests: 500, noise: 0.0, divisor: Divisor::Columns, seed: 1 };
    Sweep { d: vec![5], n: vec![10, 40], p: vec![15, 400], lambda: vec![0.01], c: vec![0.0], repeats: 3, settings }
}

fn go(sweep: &Sweep, journal: Option<&std::path::Path>) -> Vec<Summary> {
    sweep.go(journal, &|| false, &|_| {}).unwrap().unwrap()
}

#[test]
fn a_sweep_resumes_from_its_journal() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sweep.jsonl");
    let sweep = sweep(Method::Exact);
    let whole = go(&sweep, Some(&path));
    assert_eq!(whole.len(), 4);
    assert_eq!(whole, go(&sweep, None));
    // Longer and more prompts lower the error and bring W closer to the identity.
    assert!(whole[3].test_error_mean < whole[0].test_error_mean);
    assert!(whole[3].contrast_mean > whole[0].contrast_mean);
    assert!((whole[0].zero_fraction - expected_zero_fraction(5, 15)).abs() < 1e-12);

    // Stopped in the middle of a line: complete lines are reused, the other runs are repeated.
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 12);
    fs::write(&path, lines[..5].join("\n") + "\n" + &lines[5][..10]).unwrap();
    let kept = AtomicUsize::new(0);
    let hear = |done: regard_theory::sweep::Done| kept.store(done.kept, Ordering::Relaxed);
    assert_eq!(sweep.go(Some(&path), &|| false, &hear).unwrap().unwrap(), whole);
    assert_eq!(kept.load(Ordering::Relaxed), 5);

    // Other settings have their own runs in the same file; a finer sweep reuses those of the coarser one.
    let mut other = sweep.clone();
    other.settings.tests = 600;
    sweep_keeps(&other, &path, 0);
    let finer = Sweep { p: vec![15, 100, 400], ..sweep.clone() };
    sweep_keeps(&finer, &path, 12);

    let stopped = sweep.go(None, &|| true, &|_| {}).unwrap();
    assert!(stopped.is_none());
    for letter in ["a\nletter\n", "a line\n", "half"] {
        fs::write(&path, letter).unwrap();
        let error = sweep.go(Some(&path), &|| false, &|_| {}).unwrap_err().to_string();
        assert!(error.contains("sweep.jsonl") && error.contains("no journal"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), letter);
    }
    fs::write(&path, r#"{"vers"#).unwrap();
    sweep_keeps(&sweep, &path, 0);
}

fn sweep_keeps(sweep: &Sweep, path: &std::path::Path, expected: usize) {
    let kept = AtomicUsize::new(usize::MAX);
    sweep.go(Some(path), &|| false, &|done| kept.store(done.kept, Ordering::Relaxed)).unwrap();
    assert_eq!(kept.load(Ordering::Relaxed), expected);
}

#[test]
fn runs_whose_solver_fails_are_counted() {
    let all = go(&Sweep { p: vec![15, 10_000], ..sweep(Method::Node) }, None);
    // 15 prompts for 30 spins: the couplings are too strong.
    assert!(all[0].converged_fraction < 1.0, "{all:?}");
    assert_eq!(all[3].converged_fraction, 1.0);
}

#[test]
fn a_sweep_continues_after_a_point_without_a_ground_state() {
    let all = go(&Sweep { lambda: vec![-0.5, 0.01], p: vec![15], n: vec![10], ..sweep(Method::Exact) }, None);
    assert_eq!((all[0].converged_fraction, all[0].test_error_mean), (0.0, None));
    assert_eq!(all[1].converged_fraction, 1.0);
}

#[test]
fn the_theory_of_large_d_is_accurate_at_twenty_features() {
    let task = Task::new(20, 60);
    for prompts in [200, 600, 4000] {
        let mean = (1..4)
            .map(|seed| {
                let fields = Fields::draw(&task, prompts, 0.01, seed, &mut |_| {}).unwrap();
                let found = Method::Exact.solver(Options::default()).solve(&fields, &mut |_, _| {}).unwrap();
                regard_theory::fields::test_error(&task, &found.means, 2000, seed).0 / 3.0
            })
            .sum::<f64>();
        let expected = asymptotic_error(&task, prompts as f64, 0.01).unwrap();
        assert!((mean / expected - 1.0).abs() < 0.15, "{prompts}: {mean} and {expected}");
    }
}
