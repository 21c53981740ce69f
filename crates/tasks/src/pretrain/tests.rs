use super::*;
use crate::task::Validate;
use crate::task::testing::{answers, configured, maps};
use crate::weights;

const TEXT: &str = "the cat sat on the mat\na dog ate the hat of the cat\n\n   \nthe dog and the cat sat on the hat\n";

fn resolved(sets: &[&str]) -> Result<Config, TaskError> {
    let small =
        ["model.d_model=16", "model.n_layers=1", "model.n_heads=2", "model.d_ff=16", "data.tokenizer.vocab=300"];
    configured::<Pretrain>(&[&small, sets].concat())
}

fn config(sets: &[&str]) -> Config {
    resolved(sets).unwrap()
}

fn task(sets: &[&str]) -> Pretrain {
    let config = config(sets);
    let tokenizer = Tokenizer::train(&config.data.tokenizer, TEXT.lines()).unwrap();
    Pretrain { config, tokenizer }
}

fn network(task: &Pretrain) -> MaskedLanguageModel {
    task.model(&Init::new(3, &Device::flex())).unwrap()
}

#[test]
fn nonsense_is_refused_by_name() {
    config(&[]).validate().unwrap();
    for (set, field) in [
        ("data.max_length=0", "data.max_length"),
        ("data.longest=128", "data.longest"),
        ("data.masked=1.5", "data.masked"),
        ("data.masked=0", "data.masked"),
        ("model.kind=lstm", "model.kind"),
    ] {
        let told = resolved(&[set]).and_then(|config| config.validate()).unwrap_err().to_string();
        assert!(told.contains(field), "{set}: {told}");
    }
}

#[test]
fn lines_become_rows_and_long_ones_several() {
    let whole = task(&["data.tokenizer.kind=word"]);
    let rows = whole.encoded(TEXT).rows;
    assert_eq!(rows.iter().map(|row| tokens(row)).collect::<Vec<_>>(), [6, 8, 9]);
    assert!(rows.iter().all(|row| row.first() == Some(&START) && row.last() == Some(&END)));
    let short = task(&["data.tokenizer.kind=word", "data.max_length=5"]);
    let rows = short.encoded(TEXT).rows;
    assert_eq!(rows.iter().map(|row| tokens(row)).collect::<Vec<_>>(), [5, 1, 5, 3, 5, 4]);
    // Lines without known tokens are left out.
    assert!(whole.encoded("κατ κατ\n").rows.is_empty());
}

#[test]
fn masks_depend_only_on_seed_epoch_and_example() {
    let (one, two) = (task(&[]), task(&["seed=2"]));
    let rows = one.encoded(&TEXT.repeat(20)).rows;
    let device = Device::flex();
    let hidden = |task: &Pretrain, at: &[usize]| {
        let rows: Vec<(&[u32], u64)> = at.iter().map(|&at| (rows[at % rows.len()].as_slice(), at as u64)).collect();
        let found = task.guesses(&rows, task.config.seed, &device).unwrap();
        let seq = found.ids.dims()[1];
        let places = found.positions.iter().map(|place| (at[place / seq], place % seq)).collect::<Vec<_>>();
        (places, found.targets)
    };
    let few: Vec<usize> = (0..20).collect();
    let (places, targets) = hidden(&one, &few);
    // The masks are the same in another batch and another order.
    let mut turned: Vec<usize> = (0..60).rev().collect();
    turned.retain(|at| *at < 60);
    let (more, _) = hidden(&one, &turned);
    let mut same: Vec<(usize, usize)> = more.into_iter().filter(|(at, _)| *at < 20).collect();
    same.sort();
    assert_eq!(same, places);
    // The targets are the original tokens.
    assert!(places.iter().zip(&targets).all(|(&(at, place), &target)| rows[at][place] as i32 == target));
    // Another epoch or another seed masks other tokens.
    let next: Vec<usize> = few.iter().map(|at| at + rows.len()).collect();
    let next: Vec<_> = hidden(&one, &next).0.into_iter().map(|(at, place)| (at - rows.len(), place)).collect();
    assert_ne!(next, places);
    assert_ne!(hidden(&two, &few).0, places);
    // The plan numbers examples onwards from epoch to epoch.
    let part = Part { rows: rows.clone() };
    let second: Vec<usize> = one.plan(&part, 1).concat();
    assert!(second.len() == rows.len() && second.iter().all(|at| (rows.len()..2 * rows.len()).contains(at)));
}

#[test]
fn a_score_does_not_depend_on_the_seed_of_the_run() {
    let (one, two) = (task(&[]), task(&["seed=2"]));
    let model = network(&one);
    let part = one.encoded(TEXT);
    let scores = |task: &Pretrain| task.evaluate(&part, &model, None, &Pass::inference()).unwrap().scores;
    assert_eq!(scores(&one), scores(&two));
    assert!((scores(&one)["perplexity"].ln() - scores(&one)["loss"]).abs() < 1e-9);
    // Each row by itself gives the same mean: padding changes nothing.
    let (mut nats, mut count) = (0.0, 0);
    for row in part.rows.iter().enumerate() {
        let (loss, _, guesses) = one.score(&[row], &model, &Pass::inference()).unwrap();
        nats += loss * guesses as f64;
        count += guesses;
    }
    assert!((nats / count as f64 - scores(&one)["loss"]).abs() < 1e-5);
    let longer = task(&["data.longest=7", "data.tokenizer.kind=word"]);
    let part = longer.encoded(TEXT);
    let found = longer.evaluate(&part, &network(&longer), None, &Pass::inference()).unwrap();
    assert!(found.scores.contains_key("accuracy_longer") && found.scores["loss_longer"] != found.scores["loss"]);
}

#[test]
fn masks_are_filled() {
    for kind in ["bpe", "word", "char"] {
        let task = task(&[&format!("data.tokenizer.kind={kind}")]);
        let model = network(&task);
        let found = &answers(&task, &model, &["the <mask> sat on <mask>"]).unwrap()[0];
        assert!(!found.output.contains("<mask>"), "{found:?}");
        let candidates = found.more["candidates"].as_array().unwrap();
        assert_eq!(candidates.len(), 2);
        for mask in candidates {
            let probabilities: Vec<f64> =
                mask.as_array().unwrap().iter().map(|one| one["probability"].as_f64().unwrap()).collect();
            assert_eq!(probabilities.len(), 5);
            assert!(probabilities.is_sorted_by(|a, b| a >= b) && probabilities.iter().sum::<f64>() <= 1.0);
        }
        // The prompt of a sample has the same tokens as its row except for the mask.
        let part = task.encoded(TEXT);
        for (sample, row) in task.samples(&part, 3).iter().zip(&part.rows) {
            let typed = task.input(&sample.given).unwrap().row;
            let differ: Vec<usize> = (0..row.len()).filter(|&place| typed.get(place) != Some(&row[place])).collect();
            assert_eq!((typed.len(), differ.len()), (row.len(), 1), "{kind}: {sample:?}");
            assert_eq!(typed[differ[0]], MASK);
        }
        assert_eq!(task.samples(&part, 3).len(), 3, "{kind}");
    }
}

#[test]
fn wrong_inputs_are_refused() {
    let task = task(&["data.max_length=6"]);
    let model = network(&task);
    let told = |text: &str| answers(&task, &model, &[text]).unwrap_err().to_string();
    assert!(told("the cat").contains("<mask>"));
    assert!(told("").contains("1 to 6"));
    let long = told("<mask> zzzzzzzzzzzzzz");
    assert!(long.contains("data.max_length") && long.contains("1 to 6"), "{long}");
    assert_eq!(maps(&task, &model, Some("the <mask>")).unwrap().groups[0].keys[2], "<mask>");
}

#[test]
fn the_encoder_can_be_taken_over() {
    let task = task(&[]);
    let names = weights::parameters(&network(&task));
    let encoder = weights::parameters(&network(&task).encoder);
    assert!(encoder.keys().all(|name| names.contains_key(&format!("encoder.{name}"))));
    assert!(encoder.len() > 5);
}
