//! Tests of checkpoints that are trained further: from a folder of transformers to predictions, and to such a folder again.

mod binary;

use std::fs;
use std::path::Path;

use binary::{document, documents, done, fails_with, path, regard, sets, text, with_words, write};
use regard_data::{Image, ImageSize};
use serde_json::{Value, json};

fn golden(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/hugging_face").join(name);
    path(&folder).to_string()
}

/// Settings of a short training.
const SHORT: [&str; 7] = [
    "train.steps=150",
    "train.learning_rate=5e-3",
    "train.warmup=5",
    "train.evaluate_every=20",
    "train.checkpoint_every=20",
    "train.batch_examples=8",
    "train.keep=last",
];

/// Writes texts whose label is whether they have a cat.
fn texts(place: &Path) -> String {
    let words = ["the", "a", "big", "small", "red", "old"];
    let mut lines = "text\tlabel\n".to_string();
    for first in words {
        for second in words {
            lines += &format!("{first} {second} cat ran\tyes\n{second} {first} dog ran\tno\n");
        }
    }
    write(place, "texts.tsv", &lines)
}

/// Trains a golden checkpoint and returns the last document that the command prints.
fn trained(task: &str, name: &str, data: &str, out: &Path, more: &[&str]) -> Value {
    trained_from(task, &golden(name), data, out, more)
}

/// Trains a checkpoint and returns the last document that the command prints.
fn trained_from(task: &str, folder: &str, data: &str, out: &Path, more: &[&str]) -> Value {
    let from = format!("model.from={folder}");
    let settings = sets(&[&[from.as_str()], &SHORT[..], more].concat());
    let arguments = [&["train", task, "--data", data, "--out", path(out), "--json", "--threads", "1"], &settings[..]];
    documents(&done(&regard(&arguments.concat()))).pop().unwrap()
}

#[test]
fn a_classifier_learns_predicts_and_goes_back() {
    let place = tempfile::tempdir().unwrap();
    let data = texts(place.path());
    for (name, more, least) in [
        ("bert-masked", &[][..], 0.9),
        ("bert-masked", &["lora.rank=4", "lora.targets=all-linear", "train.learning_rate=2e-2"][..], 0.9),
        ("sentences", &["model.kind=embedding", "train.learning_rate=0.1"][..], 0.9),
    ] {
        let out = place.path().join(format!("{name}-{}", more.len()));
        let last = trained("classify", name, &data, &out, more);
        assert_eq!(last["finished"], true);
        let answer = document(&done(&regard(&["predict", path(&out), "the old cat ran", "--json"])));
        assert_eq!(answer["label"], "yes", "{answer}");
        let scores = document(&done(&regard(&["eval", path(&out), "--data", &data, "--json"])));
        assert_eq!((&scores["task"], &scores["examples"]), (&"classify".into(), &72.into()));
        assert!(scores["metrics"]["accuracy"].as_f64().unwrap() >= least, "{more:?}: {scores}");
        let shown = place.path().join("look.svg");
        done(&regard(&["look", path(&out), "the old cat ran", "--out", path(&shown)]));
        assert!(fs::read_to_string(&shown).unwrap().contains("[CLS]"));
        let back = place.path().join(format!("back-{}", more.len()));
        let export = regard(&["export", path(&out), "--to", "hugging-face", path(&back)]);
        if name == "sentences" {
            fails_with(&export, 2, &["no class there"]);
            continue;
        }
        done(&export);
        let again = document(&done(&regard(&["predict", path(&back), "the old cat ran", "--json"])));
        let (ours, theirs) = (&answer["probabilities"]["yes"], &again["probabilities"]["yes"]);
        assert!((ours.as_f64().unwrap() - theirs.as_f64().unwrap()).abs() < 1e-5, "{ours} {theirs}");
        assert_eq!(out.join("adapter_config.json").is_file(), more.len() == 3);
    }
}

#[test]
fn a_run_resumes_to_the_same_bits() {
    let place = tempfile::tempdir().unwrap();
    let data = texts(place.path());
    let (whole, cut) = (place.path().join("whole"), place.path().join("cut"));
    let lora = ["lora.rank=2", "lora.dropout=0.1"];
    trained("classify", "bert-classifier", &data, &whole, &lora);
    trained("classify", "bert-classifier", &data, &cut, &[&lora[..], &["train.steps=100"]].concat());
    // The schedule depends on the number of steps, so the same run is stopped by its time limit.
    let stopped = place.path().join("stopped");
    let from = format!("model.from={}", golden("bert-classifier"));
    let settings = sets(&[&[from.as_str()], &SHORT[..], &lora[..]].concat());
    let limits =
        ["train", "classify", "--data", &data, "--out", path(&stopped), "--threads", "1", "--minutes", "0.0001"];
    done(&regard(&[&limits[..], &settings].concat()));
    done(&regard(&["train", "classify", "--resume", "--out", path(&stopped), "--threads", "1"]));
    let weights = |folder: &Path| fs::read(folder.join("model.safetensors")).unwrap();
    assert!(weights(&stopped) == weights(&whole), "the weights differ");
    assert!(weights(&cut) != weights(&whole));
    // A translator, with the dropout of its folder.
    let (data, folder) = (pairs(place.path()), with_words(&golden("marian"), 40));
    let (whole, stopped) = (place.path().join("translator"), place.path().join("stopped-translator"));
    trained_from("translate", path(folder.path()), &data, &whole, &[]);
    let from = format!("model.from={}", path(folder.path()));
    let settings = sets(&[&[from.as_str()], &SHORT[..]].concat());
    let limits =
        ["train", "translate", "--data", &data, "--out", path(&stopped), "--threads", "1", "--minutes", "0.0001"];
    done(&regard(&[&limits[..], &settings].concat()));
    assert!(weights(&stopped) != weights(&whole));
    done(&regard(&["train", "translate", "--resume", "--out", path(&stopped), "--threads", "1"]));
    assert!(weights(&stopped) == weights(&whole), "the weights of the translators differ");
}

/// Writes the same pairs of texts for every split: words of the tokenisers of [`with_words`], and the same words backwards.
fn pairs(place: &Path) -> String {
    let mut lines = String::new();
    for first in 4..16 {
        let words = [first, 31 - first - 2, (first * 5) % 13 + 4, (first * 3) % 11 + 6];
        let written = |words: &[usize]| words.iter().map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ");
        let reversed: Vec<usize> = words.iter().rev().copied().collect();
        lines += &format!("{}\t{}\n", written(&words[..2 + first % 3]), written(&reversed[..1 + first % 4]));
    }
    let folder = place.join("pairs");
    fs::create_dir_all(&folder).unwrap();
    for split in ["train", "dev", "test"] {
        write(&folder, &format!("{split}.tsv"), &lines);
    }
    path(&folder).to_string()
}

#[test]
fn translators_learn_predict_and_go_back() {
    let place = tempfile::tempdir().unwrap();
    let data = pairs(place.path());
    let first = fs::read_to_string(Path::new(&data).join("train.tsv")).unwrap();
    let (source, target) = first.lines().next().unwrap().split_once('\t').unwrap();
    let steps = ["train.steps=800", "train.learning_rate=1e-2", "train.evaluate_every=400", "model.dropout=0"];
    let lora = ["lora.rank=8", "lora.targets=all-linear", "train.checkpoint_every=400"];
    let folder = with_words(&golden("marian"), 40);
    let (quick, from) = (place.path().join("quick"), format!("model.from={}", path(folder.path())));
    let quick = ["train", "translate", "--data", &data, "--out", path(&quick), "--steps", "2", "--set", &from];
    let output = regard(&quick);
    let told = done(&output) + &text(&output.stderr);
    assert!(told.contains("12 pairs to train the whole network, ") && told.contains("on two cores"), "{told}");
    let upper = ["model.freeze=1", "model.layer_decay=0.9", "train.label_smoothing=0.1"];
    for (name, vocab, more) in [("marian", 40, &[][..]), ("marian", 40, &lora), ("t5", 30, &upper)] {
        let folder = with_words(&golden(name), vocab);
        let out = place.path().join(format!("{name}-{}", more.len()));
        let last = trained_from("translate", path(folder.path()), &data, &out, &[&steps[..], more].concat());
        assert!(last["metrics"]["exact"].as_f64().unwrap() > 0.9, "{name} {more:?}: {last}");
        let answer = document(&done(&regard(&["predict", path(&out), source, "--json"])));
        assert_eq!(answer["translation"], target, "{answer}");
        let scores = document(&done(&regard(&["eval", path(&out), "--data", &format!("{data}/dev.tsv"), "--json"])));
        assert!(scores["metrics"]["bleu"].as_f64().is_some() && scores["metrics"]["chrf"].as_f64().unwrap() > 0.8);
        let shown = place.path().join("look.svg");
        done(&regard(&["look", path(&out), source, "--out", path(&shown)]));
        assert!(fs::read_to_string(&shown).unwrap().contains("w4"));
        let back = place.path().join(format!("{name}-{}-back", more.len()));
        done(&regard(&["export", path(&out), "--to", "hugging-face", path(&back)]));
        let again = document(&done(&regard(&["predict", path(&back), source, "--json"])));
        assert_eq!(again["translation"], answer["translation"]);
        let adapters = fs::read_to_string(out.join("adapter_config.json")).unwrap_or_default();
        assert_eq!(adapters.contains("SEQ_2_SEQ_LM"), more == lora, "{adapters}");
    }
}

/// Writes pictures of three labels: red, green and blue with noise.
fn pictures(place: &Path) -> String {
    let size = ImageSize { channels: 3, height: 9, width: 7 };
    for (split, count) in [("train", 6), ("dev", 3), ("test", 3)] {
        for (label, name) in ["red", "green", "blue"].into_iter().enumerate() {
            let folder = place.join("pictures").join(split).join(name);
            fs::create_dir_all(&folder).unwrap();
            for number in 0..count {
                let pixel = |at: usize| {
                    let noise = (at * 37 + number * 61 + split.len() * 17) % 90;
                    noise as u8 + if at / 63 == label { 150 } else { 0 }
                };
                let image = Image { size, pixels: (0..3 * 63).map(pixel).collect() };
                write(&folder, &format!("{number}.png"), image.to_png());
            }
        }
    }
    path(&place.join("pictures")).to_string()
}

#[test]
fn a_vision_transformer_learns_predicts_and_goes_back() {
    let place = tempfile::tempdir().unwrap();
    let data = pictures(place.path());
    let lora = ["lora.rank=4", "lora.targets=all-linear", "train.learning_rate=2e-2"];
    for more in [&[][..], &lora] {
        let out = place.path().join(format!("vit-{}", more.len()));
        let last = trained("image", "vit", &data, &out, more);
        assert!(last["metrics"]["accuracy"].as_f64().unwrap() > 0.9, "{last}");
        let picture = format!("{data}/test/green/0.png");
        let answer = document(&done(&regard(&["predict", path(&out), &picture, "--json"])));
        assert_eq!(answer["label"], "green", "{answer}");
        let shown = place.path().join("look.svg");
        done(&regard(&["look", path(&out), &picture, "--out", path(&shown)]));
        assert!(fs::read_to_string(&shown).unwrap().contains("class"));
        let back = place.path().join(format!("back-{}", more.len()));
        done(&regard(&["export", path(&out), "--to", "hugging-face", path(&back)]));
        let again = document(&done(&regard(&["predict", path(&back), &picture, "--json"])));
        for label in ["red", "green", "blue"] {
            let probability = |answer: &Value| answer["probabilities"][label].as_f64().unwrap();
            let apart = (probability(&answer) - probability(&again)).abs();
            assert!(apart < 1e-5, "{label}: {answer} {again}");
        }
        assert!(back.join("preprocessor_config.json").is_file());
    }
}

#[test]
fn pictures_that_a_folder_wants_in_another_way_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let data = pictures(place.path());
    for (key, value) in
        [("size", json!({"shortest_edge": 6})), ("image_std", json!([0.5, 0.0, 0.5])), ("resample", json!(3))]
    {
        let folder = place.path().join(key);
        fs::create_dir(&folder).unwrap();
        for file in ["config.json", "model.safetensors"] {
            fs::copy(Path::new(&golden("vit")).join(file), folder.join(file)).unwrap();
        }
        write(&folder, "preprocessor_config.json", json!({ key: value }).to_string());
        let from = format!("model.from={}", path(&folder));
        let output = regard(&[&["train", "image", "--data", &data], &sets(&[&from])[..]].concat());
        fails_with(&output, 1, &["preprocessor_config.json", key]);
    }
}

#[test]
fn a_tagger_and_a_language_model_learn() {
    let place = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for first in ["the", "a"] {
        for adjective in ["big", "small", "red", "old"] {
            for noun in ["cat", "dog", "mat", "park"] {
                for verb in ["ran", "sat", "saw"] {
                    lines += &format!("{first}\tD\n{adjective}\tA\n{noun}s\tN\n{verb}\tV\n\n");
                }
            }
        }
    }
    let data = write(place.path(), "tags.tsv", &lines);
    let out = place.path().join("tags");
    let last = trained("tag", "bert-tagger", &data, &out, &[]);
    assert!(last["metrics"]["accuracy"].as_f64().unwrap() > 0.9, "{last}");
    let told = done(&regard(&["predict", path(&out), "the old cats sat"]));
    assert!(told.contains("the/D old/A cats/N sat/V"), "{told}");
    done(&regard(&["export", path(&out), "--to", "hugging-face", path(&place.path().join("tags-back"))]));

    let data = write(place.path(), "text.txt", "the cat sat on the mat. the cat ran.\n".repeat(60));
    let out = place.path().join("text");
    let last = trained("generate", "gpt2", &data, &out, &["data.block=16"]);
    assert!(last["metrics"]["loss"].as_f64().unwrap() < 2.0, "{last}");
    let told = done(&regard(&["generate", path(&out), "the cat", "--temperature", "0", "--tokens", "8"]));
    assert!(told.contains("the cat"), "{told}");
    let back = place.path().join("text-back");
    done(&regard(&["export", path(&out), "--to", "hugging-face", path(&back)]));
    let again = done(&regard(&["generate", path(&back), "the cat", "--temperature", "0", "--tokens", "8"]));
    assert_eq!(told, again);
}

#[test]
fn vectors_are_computed_before_the_first_step_and_the_run_says_so() {
    let place = tempfile::tempdir().unwrap();
    let data = texts(place.path());
    let from = format!("model.from={}", golden("sentences"));
    let out = place.path().join("linear");
    let settings = sets(&[from.as_str(), "model.kind=embedding", "train.steps=3"]);
    let output = regard(&[&["train", "classify", "--data", &data, "--out", path(&out)], &settings[..]].concat());
    done(&output);
    let told = text(&output.stderr);
    let (vectors, step) = (told.find("computing vectors").unwrap(), told.find("step 3/3").unwrap());
    assert!(vectors < step && told.contains("on two cores"), "{told}");
}

#[test]
fn wrong_use_is_explained() {
    let place = tempfile::tempdir().unwrap();
    let data = texts(place.path());
    let fails = |task: &str, settings: &[&str], said: &[&str]| {
        let output = regard(&[&["train", task, "--data", &data], &sets(settings)[..]].concat());
        assert!(!output.status.success() && !place.path().join("runs").exists());
        let told = text(&output.stderr);
        assert!(said.iter().all(|said| told.contains(said)), "{told}");
    };
    let (bert, gpt2) = (format!("model.from={}", golden("bert")), format!("model.from={}", golden("gpt2")));
    fails("classify", &[&gpt2], &["a language model; regard train generate"]);
    fails("classify", &[&bert], &["tokenizer.json"]);
    fails("classify", &[&bert, "model.d_model=8"], &["d_model", "unknown field"]);
    fails("classify", &[&bert, "model.freeze=9"], &["model.freeze", "0 to 2"]);
    fails("classify", &[&bert, "lora.rank=2", "lora.targets=queries"], &["lora.targets", "query"]);
    fails("classify", &[&bert, "model.layer_decay=1.5"], &["model.layer_decay"]);
    fails("classify", &[&bert, "lora.targets=query"], &["lora.rank", "at least 1"]);
    fails("classify", &["model.kind=embedding"], &["model.from", "a folder of transformers"]);
    fails("classify", &["model.from=/nowhere"], &["/nowhere"]);
    fails("generate", &[&bert], &["an encoder of texts"]);
    fails("words", &[&bert], &["from"]);
}
