//! Tests of spectra, block distributions and sweeps.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use regard_system::{Ranks, simulated};
use regard_theory::asymptotic::asymptotic_error;
use regard_theory::blocks::{
    Block, divergence, divergences, elements, pooled, published_divergences, published_products,
};
use regard_theory::fields::{Fields, Origin};
use regard_theory::prompt::{Correlation, Divisor, Task};
use regard_theory::show::train::{ShowTrain, Training};
use regard_theory::solver::{Method, Options};
use regard_theory::spectrum::{
    expected_zero_fraction, hessian_spectrum, input_spectrum, marchenko_pastur_edges, zero_fraction,
};
use regard_theory::statistics::mean_and_deviation;
use regard_theory::sweep::{Settings, Summary, Sweep};
use regard_theory::train::{Model, TrainOptions, train};

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
    let (floor, [c, d, e, f, g]) = (rows[0].divergence, rows[1].divergence);
    for (moved, floor) in [(c, floor[0]), (e, floor[2]), (f, floor[3]), (g, floor[4])] {
        assert!(moved > 2.0 * floor, "{rows:?}");
    }
    // The spread of F follows one factor u_m, the spread of E two.
    assert!(d < 1.5 * floor[1] && f < 0.5 * e, "{rows:?}");
    assert_eq!(divergence(&[1.0, 2.0], &[1.0, 2.0], 10).unwrap(), 0.0);
    assert!(divergence(&[1.0], &[2.0], 1).is_err());
}

/// The published names: E has both indices in the first D rows, F one of them, and G none.
#[test]
fn blocks_of_couplings_have_the_published_sizes() {
    let (d, fields) = (6, fields(&Task::new(6, 10), 30));
    let pairs = |n: usize| n * (n - 1) / 2;
    for (block, size) in
        [(Block::C, d * d), (Block::D, d), (Block::E, pairs(d * d)), (Block::F, d * d * d), (Block::G, pairs(d))]
    {
        assert_eq!(elements(&fields, block).len(), size, "{block:?}");
    }
    // Spin i = m·D + n: the last row has the indices from D² on.
    assert_eq!(elements(&fields, Block::G)[0], -fields.moments[(d * d + 1, d * d)]);
    assert_eq!(elements(&fields, Block::F)[0], -fields.moments[(d * d, 0)]);
}

#[test]
fn the_published_divergence_moves_the_published_blocks() {
    let task = Task { divisor: Divisor::Examples, ..Task::new(20, 20) };
    let rows = published_divergences(&task, (1000, 8), &[0, 180], 1, &mut |_| {}).unwrap();
    let (floor, [c, d, e, f, g]) = (rows[0].divergence, rows[1].divergence);
    // C, E and F move; D and G stay at their floors, of which that of G is the highest.
    assert!(c > 2.0 * floor[0] && e > 50.0 * floor[2] && f > 10.0 * floor[3], "{rows:?}");
    assert!((d / floor[1] - 1.0).abs() < 0.3 && (g / floor[4] - 1.0).abs() < 0.4, "{rows:?}");
    assert!(floor[..4].iter().all(|floor| *floor < rows[0].divergence[4]), "{rows:?}");
    assert!(rows.iter().flat_map(|row| row.deviation.unwrap()).all(|deviation| deviation > 0.0));
}

/// Products of fields have the deviation of a product of independent numbers, and not that of the couplings.
#[test]
fn couplings_are_no_products_of_fields() {
    let drawn = pooled(&Task::new(20, 20), Origin::Prompts, (1000, 4), 1).unwrap();
    let square = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
    let [c, d] = [&drawn[0], &drawn[1]].map(|values| square(values));
    for (block, at, expected) in [(Block::E, 2, c * c), (Block::F, 3, c * d), (Block::G, 4, d * d)] {
        let products = published_products(block, &drawn, 100_000, 1).unwrap();
        assert!((square(&products) / expected - 1.0).abs() < 0.1, "{block:?}");
        assert!(square(&products) < 0.01 * square(&drawn[at]), "{block:?}");
    }
    assert_eq!(published_products(Block::C, &drawn, 10, 1), None);
}

fn sweep(method: Method) -> Sweep {
    let settings = Settings {
        method,
        options: Options::default(),
        tests: 500,
        noise: 0.0,
        divisor: Divisor::Columns,
        correlation: Correlation::Equal,
        seed: 1,
    };
    Sweep { d: vec![5], n: vec![10, 40], p: vec![15, 400], lambda: vec![0.01], c: vec![0.0], repeats: 3, settings }
}

fn go(sweep: &Sweep, journal: Option<&std::path::Path>) -> Vec<Summary> {
    sweep.go(journal, &Ranks::default(), &|| false, &|_| {}).unwrap().unwrap()
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
    assert_eq!(sweep.go(Some(&path), &Ranks::default(), &|| false, &hear).unwrap().unwrap(), whole);
    assert_eq!(kept.load(Ordering::Relaxed), 5);

    // Other settings have their own runs in the same file; a finer sweep reuses those of the coarser one.
    let mut other = sweep.clone();
    other.settings.tests = 600;
    sweep_keeps(&other, &path, 0);
    let finer = Sweep { p: vec![15, 100, 400], ..sweep.clone() };
    sweep_keeps(&finer, &path, 12);

    let stopped = sweep.go(None, &Ranks::default(), &|| true, &|_| {}).unwrap();
    assert!(stopped.is_none());
    for letter in ["a\nletter\n", "a line\n", "half"] {
        fs::write(&path, letter).unwrap();
        let error = sweep.go(Some(&path), &Ranks::default(), &|| false, &|_| {}).unwrap_err().to_string();
        assert!(error.contains("sweep.jsonl") && error.contains("no journal"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), letter);
    }
    fs::write(&path, r#"{"vers"#).unwrap();
    sweep_keeps(&sweep, &path, 0);
}

/// Rank 0 alone has the journal, and continues what one process began.
#[test]
fn ranks_share_out_the_runs_of_a_sweep() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sweep.jsonl");
    let sweep = sweep(Method::Exact);
    let whole = go(&sweep, Some(&path));
    let lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_string).collect();
    fs::write(&path, lines[..4].join("\n") + "\n").unwrap();
    let shared = simulated::ranks(3, |ranks| {
        let done = AtomicUsize::new(0);
        let hear = |now: regard_theory::sweep::Done| {
            done.fetch_max(now.runs, Ordering::Relaxed);
        };
        let found = sweep.go(Some(&path), &ranks, &|| false, &hear).unwrap();
        assert_eq!(done.into_inner(), 12);
        found
    });
    assert_eq!(shared, [Some(whole.clone()), None, None]);
    let mut again: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_string).collect();
    let mut before = lines;
    again.sort();
    before.sort();
    assert_eq!(again, before);
    let without = simulated::ranks(2, |ranks| sweep.go(None, &ranks, &|| false, &|_| {}).unwrap());
    assert_eq!(without, [Some(whole.clone()), Some(whole)]);
    // One rank is asked to stop, and all stop.
    let stopped = simulated::ranks(2, |ranks| sweep.go(None, &ranks, &|| ranks.rank() == 1, &|_| {}).unwrap());
    assert_eq!(stopped, [None, None]);
}

fn sweep_keeps(sweep: &Sweep, path: &std::path::Path, expected: usize) {
    let kept = AtomicUsize::new(usize::MAX);
    sweep.go(Some(path), &Ranks::default(), &|| false, &|done| kept.store(done.kept, Ordering::Relaxed)).unwrap();
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

/// A stopped training of several models continues with the runs that the journal lacks, and ends with the same numbers.
#[test]
fn trainings_resume_from_their_journal() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("train.jsonl");
    let trainings = ShowTrain {
        task: Task::new(3, 1),
        n: vec![4, 8],
        p: vec![10],
        models: vec![Model::Merged, Model::Softmax],
        options: TrainOptions { steps: 10, ..TrainOptions::published() },
        tests: 20,
        repeats: 2,
        seed: 1,
    };
    let mut kept = 0;
    let mut show = |journal: Option<&std::path::Path>, stop: &dyn Fn() -> bool| {
        let mut hear = |training: Training<'_>| {
            if let Training::Kept(runs, 8) = training {
                kept = runs;
            }
        };
        let shown = trainings.show(journal, stop, &mut hear).unwrap();
        (shown.map(|shown| shown.json), kept)
    };
    let (whole, _) = show(None, &|| false);
    // Every step asks: the four runs of merged attention and one of softmax attention have 50 steps.
    let asked = AtomicUsize::new(0);
    let (stopped, _) = show(Some(&path), &|| asked.fetch_add(1, Ordering::Relaxed) == 55);
    assert_eq!(stopped, None);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 5);
    let (again, kept) = show(Some(&path), &|| false);
    assert_eq!((again, kept), (whole.clone(), 5));
    assert_eq!(show(Some(&path), &|| false), (whole, 8));
}

#[test]
fn a_training_that_diverges_says_so() {
    let options = TrainOptions { rate: 1e200, steps: 20, ..TrainOptions::default() };
    for model in Model::ALL {
        let error = train(model, &Task::new(3, 5), (10, 10), 1, &options, &|| false, &mut |_, _| {}).unwrap_err();
        assert!(error.to_string().contains("diverged; use a smaller --rate"), "{error}");
    }
}
