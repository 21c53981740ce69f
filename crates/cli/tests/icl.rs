//! Tests of `regard icl`: the published error, every picture, and errors.

mod binary;

use std::fs;

use binary::{Ended, command, document, done, fails_with, regard, regard_in, text};

/// The published test error for D = 20, N = 100, P = 10,000, λ = 0.01, β = 100 is 0.192 ± 0.009.
#[test]
fn the_node_solver_has_the_published_error() {
    let published = ["--d", "20", "--n", "100", "--p", "10000", "--lambda", "0.01", "--beta", "100"];
    let solve = |more: &[&str]| document(&done(&regard(&[&["icl", "solve", "--json"], &published[..], more].concat())));
    let node = solve(&["--solver", "node", "--trained"]);
    let error = node["test_error"].as_f64().unwrap();
    assert!((error - 0.19).abs() < 0.03, "{error}");
    assert_eq!(node["converged"], true);
    assert!(node["iterations"].as_u64().unwrap() > 1 && node["residual"].as_f64().unwrap() < 1e-9);
    assert!(node["contrast"].as_f64().unwrap() > 0.9);
    let rows = node["ground_state"].as_array().unwrap();
    assert!(rows.len() == 21 && rows.iter().all(|row| row.as_array().unwrap().len() == 21));
    let spread = node["test_error_standard_error"].as_f64().unwrap();
    let trained = node["trained"]["test_error"].as_f64().unwrap();
    assert!((trained - error).abs() < 0.009 + spread, "{trained} and {error}");
    // Adam reaches the error of the exact solver.
    let exact = solve(&[]);
    assert!((exact["test_error"].as_f64().unwrap() - trained).abs() < 1e-3);
    // Means and variances of the blocks alone are enough to find the identity.
    let fitted = solve(&["--fields", "fitted"]);
    assert!((fitted["contrast"].as_f64().unwrap() - exact["contrast"].as_f64().unwrap()).abs() < 0.08);
}

/// Published test errors at N = 200, P = 10,000, D = 20 for correlated inputs, with weight decay 0.01, hence λ = 0.005.
#[test]
fn correlated_inputs_have_the_published_errors() {
    let place = tempfile::tempdir().unwrap();
    let words = "icl sweep --json --n 200 --lambda 0.005 --c 0.05,0.2,0.4,0.8 --correlation published --repeats 2";
    let found = document(&done(&regard_in(&place, &words.split(' ').collect::<Vec<_>>())));
    for (point, published) in found["points"].as_array().unwrap().iter().zip([0.146, 0.43, 0.50, 0.19]) {
        let error = point["test_error_mean"].as_f64().unwrap();
        assert!((error / published - 1.0).abs() < 0.08, "{error} instead of {published}");
    }
}

/// The published test error of multi-head linear attention at N = 100, P = 10,000, D = 20 is 0.18. 500 of the 5,000 steps suffice.
#[test]
fn multi_head_linear_attention_has_the_published_error() {
    let place = tempfile::tempdir().unwrap();
    let words = "icl train --json --published --model multi_head --n 100 --steps 500";
    let found = document(&done(&regard_in(&place, &words.split(' ').collect::<Vec<_>>())));
    let error = found["runs"][0]["test_error"].as_f64().unwrap();
    assert!((error - 0.18).abs() < 0.02, "{error}");
}

#[test]
fn everything_is_shown_as_text_json_csv_and_picture() {
    let place = tempfile::tempdir().unwrap();
    for (name, arguments, field) in [
        ("solve", "--d 4 --n 20 --p 4000 --solver edges --trained --steps 50", "ground_state"),
        ("fields", "--d 4 --n 6 --p 50 --more 0,5 --repeats 2", "divergences"),
        ("fields", "--published --d 4 --p 50 --more 0,5 --repeats 2", "divergences"),
        ("train", "--published --d 3 --n 5,10 --p 20 --steps 20 --head-width split --width 2", "runs"),
        ("train", "--d 3 --n 5 --p 10,20 --model merged,separate,full,multi_head,softmax,block --steps 20", "runs"),
        ("sweep", "--d 3 --n 5,10 --p 10,20 --repeats 2 --tests 50", "points"),
        ("landscape", "--d 3 --n 10 --p 5,50 --points 9", "landscapes"),
        ("spectrum", "--d 3 --n 10 --p 5,50", "hessian"),
    ] {
        let words: Vec<&str> = ["icl", name].into_iter().chain(arguments.split(' ')).collect();
        let shown = done(&regard_in(&place, &words));
        assert!(shown.lines().count() > 2, "{name}: {shown}");
        let more = ["--json", "--out", "picture.svg", "--csv", "table.csv"];
        let output = regard_in(&place, &[&words[..], &more[..]].concat());
        let told = document(&done(&output));
        assert!(!told[field].is_null(), "{name} has no {field}");
        let picture = fs::read_to_string(place.path().join("picture.svg")).unwrap();
        assert!(picture.starts_with("<svg") && !picture.contains("NaN"), "{name}");
        let table = fs::read_to_string(place.path().join("table.csv")).unwrap();
        let columns = table.lines().next().unwrap().split(',').count();
        assert!(table.lines().count() > 2 && table.lines().all(|line| line.split(',').count() == columns), "{name}");
        // The same seed gives the same numbers.
        assert_eq!(done(&regard_in(&place, &words)), shown, "{name}");
    }
}

#[test]
fn a_sweep_computes_only_what_is_new() {
    let place = tempfile::tempdir().unwrap();
    let sweep = |n: &str| {
        let words = ["icl", "sweep", "--d", "3", "--n", n, "--p", "20", "--repeats", "2", "--tests", "50", "--json"];
        regard_in(&place, &words)
    };
    let first = document(&done(&sweep("5,10")));
    assert!(place.path().join("runs/icl-sweep.jsonl").exists());
    let again = sweep("5,10,20");
    assert!(text(&again.stderr).contains("4 of 6 runs are in"), "{}", text(&again.stderr));
    let again = document(&done(&again));
    assert_eq!(again["points"].as_array().unwrap()[..2], first["points"].as_array().unwrap()[..]);
    let point = &first["points"][0];
    for (field, value) in [("d", 3), ("n", 5), ("p", 20), ("repeats", 2)] {
        assert_eq!(point[field], value);
    }
    for field in
        ["lambda", "c", "test_error_mean", "test_error_std", "contrast_mean", "converged_fraction", "zero_fraction"]
    {
        assert!(point[field].is_number(), "{field}: {point}");
    }
}

#[test]
fn invalid_settings_are_named() {
    for (arguments, code, words) in [
        ("solve --d 0", 2, ["d: ", "1 to"]),
        ("solve --tests 1000000000000", 2, ["tests: ", "at most"]),
        ("solve --p 18446744073709551615", 2, ["p: ", "at most"]),
        ("solve --steps 5", 2, ["--trained", "required"]),
        ("solve --trained --rate 0", 2, ["rate: ", "above 0"]),
        ("solve --trained --fields closed", 2, ["trained: ", "--fields prompts"]),
        ("solve --sweeps 50", 2, ["sweeps: ", "--solver gibbs or hmc"]),
        ("solve --damping 0.1 --solver hmc", 2, ["damping: ", "edges, node or amp"]),
        ("train --heads 2", 2, ["heads: ", "multi_head"]),
        ("solve --divisor x", 2, ["divisor", "columns, examples"]),
        ("solve --fields x", 2, ["fields", "prompts, closed, fitted"]),
        ("solve --solver gibbs --d 3 --n 5 --p 50 --lambda -5", 1, ["no ground state", "larger λ"]),
        ("fields --bins 1000000000000", 2, ["bins: ", "2 to 10000"]),
        ("fields --more 2000000", 2, ["n: ", "1 to 1048576"]),
        ("fields --d 2 --repeats 1000000000000", 2, ["repeats: ", "1 to 100000"]),
        ("landscape --points 1000000", 2, ["points: ", "2 to 1001"]),
        ("landscape --p 100,0", 2, ["p: ", "1 prompt"]),
        ("train --heads 1000000000000 --model multi_head", 2, ["heads: ", "1 to 1000"]),
        ("train --heads 30 --head-width split --model multi_head", 2, ["heads: ", "1 to 21"]),
        ("train --head-width split", 2, ["head-width: ", "multi_head"]),
        ("train --head-width half --model multi_head", 2, ["head-width", "full, split"]),
        ("train --width 5", 2, ["width: ", "queries and keys"]),
        ("train --width 5000 --model full", 2, ["width: ", "1 to 1000"]),
        ("train --start x", 2, ["start", "dense, published"]),
        ("train --n 5,0", 2, ["n: ", "1 to"]),
        ("fields --published --bins 20", 2, ["--published", "--bins"]),
        ("solve --correlation published --c 1", 2, ["c: ", "below 1"]),
        ("solve --correlation x", 2, ["correlation", "equal, published"]),
        ("train --p 10,0", 2, ["p: ", "1 prompt"]),
        ("sweep --repeats 1000000000000", 2, ["repeats: ", "1 to 1000000"]),
        ("solve --n 0", 2, ["n: ", "1 to"]),
        ("solve --p 0", 2, ["p: ", "1 prompt or more"]),
        ("solve --beta 0", 2, ["beta: ", "above 0"]),
        ("solve --beta -1", 2, ["beta: ", "above 0"]),
        ("solve --c 2", 2, ["c: ", "0 to 1"]),
        ("solve --c 0.5 --fields closed", 2, ["c: ", "closed expressions"]),
        ("solve --noise -1", 2, ["noise: ", "0 or more"]),
        ("solve --damping 1 --solver node", 2, ["damping: ", "below 1"]),
        ("solve --lambda x", 2, ["--lambda", "a number"]),
        ("solve --solver simplex", 2, ["solver", "edges, node, amp, exact"]),
        ("solve --d 3 --n 5 --p 4 --lambda -0.1", 1, ["λ = -0.1", "no ground state"]),
        ("solve --d 10 --n 10 --p 20 --lambda 1e-4 --solver node", 1, ["precision of spin", "--solver exact"]),
        ("solve --out x.bmp", 2, [".svg", "x.bmp"]),
        ("train --lambda -1", 2, ["lambda: ", "0 or more"]),
        ("train --model bert", 2, ["model", "merged, separate"]),
        ("train --p 0 --model softmax", 2, ["p: ", "1 prompt"]),
        ("sweep --n 5,0", 2, ["n: ", "1 to"]),
        ("landscape --points 1", 2, ["points: ", "2 to 1001"]),
        ("spectrum --bins 1", 2, ["bins: ", "2 to 10000"]),
        ("fields --bins 1", 2, ["bins: ", "2 to 10000"]),
    ] {
        let place = tempfile::tempdir().unwrap();
        let arguments: Vec<&str> = ["icl"].into_iter().chain(arguments.split(' ')).collect();
        fails_with(&command(&arguments).current_dir(&place).ended(), code, &words);
    }
}
