//! Small models reach a score that an untrained or broken model would miss.

use std::path::{Path, PathBuf};

use regard_tasks::Request;
use regard_tasks::train::{Origin, Stop};

/// Trains a model and returns one of its scores on the test split.
fn score(task: &str, name: &str, data: Option<PathBuf>, sets: &[&str]) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let sets = sets.iter().map(|set| set.to_string()).collect();
    let request = Request { data, sets, out: Some(folder.path().join("run")), ..Request::default() };
    let kind = regard_tasks::kind(task).unwrap();
    let finished = kind.train(&request, Origin::Scratch, &mut (), &Stop::default()).unwrap();
    finished.scores[name]
}

/// Where each number goes depends on both permutations; a guess is right once in five times.
#[test]
fn a_transformer_composes_permutations() {
    let found = score(
        "compose",
        "accuracy",
        None,
        &[
            "data.size=5",
            "data.test=60",
            "data.dev=40",
            "model.d_model=64",
            "model.d_ff=128",
            "train.learning_rate=3e-3",
            "train.batch_examples=32",
            "train.steps=400",
        ],
    );
    assert!(found > 0.9, "accuracy {found}");
}

/// A guess is right for a quarter of the cells, the most frequent colour of the picture for 47 %.
#[test]
fn a_transformer_rearranges_a_picture() {
    let found = score(
        "compose",
        "accuracy",
        None,
        &[
            "data.form=grid",
            "data.size=6",
            "data.width=3",
            "data.colours=4",
            "data.test=60",
            "data.dev=40",
            "model.d_model=64",
            "model.d_ff=128",
            "train.learning_rate=3e-3",
            "train.batch_examples=32",
            "train.steps=400",
        ],
    );
    assert!(found > 0.9, "accuracy {found}");
}

/// Sentences of eight words from a vocabulary of eight, translated word by word: more than the last state of so small an encoder
/// can hold, so the decoder has to attend to the right word.
#[test]
fn hard_attention_learns_where_to_look() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("words.tsv");
    let words = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
    let others = ["un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit"];
    // All sentences differ, because multiplication by an odd number permutes the numbers below 8⁸.
    let number = |n: usize, at: u32| (n * 7_654_321 % 8usize.pow(8)) / 8usize.pow(at) % 8;
    let sentence = |n: usize, words: [&str; 8]| (0..8).map(|at| words[number(n, at)]).collect::<Vec<_>>().join(" ");
    let lines = (1..=800).map(|n| format!("{}\t{}\n", sentence(n, words), sentence(n, others)));
    std::fs::write(&data, lines.collect::<String>()).unwrap();
    let exact = |choice: &str| {
        let sets = [
            choice,
            // Whole words as tokens, no dropout: this is about attention, not about settings for unknown data.
            "auto=off",
            "model.kind=gru",
            "model.d_model=32",
            "model.n_layers=1",
            "train.learning_rate=1e-2",
            "train.warmup=20",
            "train.batch_tokens=512",
            "train.evaluate_every=1000",
            "train.steps=400",
        ];
        score("translate", "exact", Some(data.clone()), &sets)
    };
    for estimator in ["\"score_function\"", "{ kind = \"gumbel\", temperature = 1.0 }"] {
        let found = exact(&format!("model.selection={{ kind = \"hard\", estimator = {estimator} }}"));
        assert!(found > 0.7, "{estimator}: {found} of the sentences are right");
    }
    // Without attention the problem cannot be solved.
    let found = exact("model.score=none");
    assert!(found < 0.4, "without attention {found} of the sentences are right");
}

/// Writes 24 pictures of random pixels with random labels as train, dev and test: only a network that learns them by heart finds
/// the labels.
fn noise(place: &Path) -> PathBuf {
    let mut state = 7u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let (pixels, labels): (Vec<u8>, Vec<u8>) =
        ((0..24 * 64).map(|_| random()).collect(), (0..24).map(|_| random() % 3).collect());
    let header = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    for split in ["train", "dev", "test"] {
        let images = [header(&[0x803, 24, 8, 8]), pixels.clone()].concat();
        std::fs::write(place.join(format!("{split}-images-idx3-ubyte")), images).unwrap();
        let labels = [header(&[0x801, 24]), labels.clone()].concat();
        std::fs::write(place.join(format!("{split}-labels-idx1-ubyte")), labels).unwrap();
    }
    place.to_path_buf()
}

#[test]
fn every_network_of_pictures_learns_a_few_by_heart() {
    let place = tempfile::tempdir().unwrap();
    let data = noise(place.path());
    for network in [
        &["model.kind=vit", "model.d_model=32", "model.n_layers=2"][..],
        &["model.kind=vit", "model.d_model=32", "model.n_layers=2", "model.pooling=mean", "model.position=rope"],
        &["model.kind=cnn", "model.channels=[8,16]"],
        &["model.kind=attention_cnn", "model.channels=[8,16]"],
        &["model.kind=dnn", "model.hidden=[64]"],
    ] {
        let always = [
            "data.shift=0",
            "model.dropout=0",
            "train.label_smoothing=0",
            "train.batch_examples=24",
            "train.steps=80",
            "train.warmup=10",
            "train.learning_rate=5e-3",
            "train.evaluate_every=80",
        ];
        let found = score("image", "accuracy", Some(data.clone()), &[network, &always].concat());
        assert!(found == 1.0, "{network:?}: accuracy {found}");
    }
}

/// The order of the points alone tells the direction of a motion: a set of points tells the shape at best.
#[test]
fn a_transformer_tells_directions_and_a_set_does_not() {
    let found = |more: &[&str]| {
        let sets = ["data.normalise=size", "train.steps=700", "train.learning_rate=4e-3", "model.dropout=0"];
        score("vectors", "accuracy", None, &[&sets, more].concat())
    };
    let (ordered, set) = (found(&["model.d_model=32"]), found(&["model.d_model=32", "model.position=none"]));
    let mean = found(&["model.kind=dnn"]);
    assert!(ordered > 0.8 && (0.3..0.6).contains(&set) && mean < 0.35, "{ordered} {set} {mean}");
}

/// A wave is easy to forecast, and far from staying the same.
#[test]
fn forecasts_beat_the_last_vector() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("wave.csv");
    let rows: String = (0..600).map(|n| format!("{:.5}\n", (f64::from(n) / 4.0).sin() * 20.0 + 7.0)).collect();
    std::fs::write(&path, format!("height\n{rows}")).unwrap();
    for kind in ["transformer", "gru"] {
        let kind = format!("model.kind={kind}");
        let sets = ["data.target=next", "data.window=12", "data.horizon=4", "train.steps=300", &kind];
        let sets = [&sets[..], &["train.batch_examples=32", "model.d_model=32", "model.dropout=0"]].concat();
        let folder = tempfile::tempdir().unwrap();
        let request = Request {
            data: Some(path.clone()),
            sets: sets.iter().map(|set| set.to_string()).collect(),
            out: Some(folder.path().join("run")),
            ..Request::default()
        };
        let task = regard_tasks::kind("vectors").unwrap();
        let scores = task.train(&request, Origin::Scratch, &mut (), &Stop::default()).unwrap().scores;
        assert!(scores["mae"] < 0.25 * scores["mae_last"], "{kind}: {scores:?}");
    }
}

/// Eight pictures, which the splits share: the model must learn them by heart, and can do so only by looking at them.
fn pictures() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let sizes = regard_data::builtin::Sizes { train: 8, dev: 0, test: 0 };
    let mut lines = String::new();
    for (at, scene) in regard_data::builtin::scenes(sizes, 1).train.iter().enumerate() {
        std::fs::write(place.path().join(format!("{at}.png")), scene.image.to_png()).unwrap();
        lines.extend(["train", "dev", "test"].map(|split| format!("{at}.png\t{}\t{split}\n", scene.sentence)));
    }
    std::fs::write(place.path().join("captions.tsv"), lines).unwrap();
    place
}

/// Trains a captioner on [`pictures`] and returns the share of sentences that are right word for word.
fn learnt_by_heart(sets: &[&str]) -> f64 {
    let place = pictures();
    let small = [
        "model.d_model=32",
        "model.channels=[8, 16]",
        "train.batch_examples=8",
        "train.learning_rate=5e-3",
        "train.warmup=10",
        "train.evaluate_every=100",
        "train.steps=300",
    ];
    score("caption", "exact", Some(place.path().to_path_buf()), &[&small, sets].concat())
}

#[test]
fn captioners_learn_a_few_pictures_by_heart() {
    let score_function = "model.selection={ kind = \"hard\", estimator = \"score_function\" }";
    let gumbel = "model.selection={ kind = \"hard\", estimator = { kind = \"gumbel\", temperature = 1.0 } }";
    for sets in [
        &["model.kind=lstm"][..],
        &["model.kind=transformer", "model.n_heads=2", "model.d_ff=64"],
        &["model.kind=lstm", score_function, "model.soft_steps=150"],
        &["model.kind=lstm", gumbel, "model.soft_steps=150"],
    ] {
        let found = learnt_by_heart(sets);
        assert!(found > 0.9, "{sets:?}: exact {found}");
    }
}
