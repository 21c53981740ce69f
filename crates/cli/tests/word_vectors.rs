//! Tests of `words.vectors`: word vectors from a file in `tag` and `classify`.

mod binary;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use binary::{SMALL, done, fails_with, last_document, path, read_document, regard, sets, text, write};

const WORDS: [&str; 6] = ["the", "cat", "dog", "sees", "hears", "unseen"];

/// Returns 200 tagged sentences in the format token<TAB>tag.
fn sentences() -> String {
    let mut content = String::new();
    for n in 0..200 {
        let (noun, verb) = (["cat", "dog"][n % 2], ["sees", "hears"][n / 2 % 2]);
        write!(content, "The\tDET\n{noun}\tNOUN\n{verb}\tVERB\nitem{n}\tNOUN\n\n").unwrap();
    }
    content
}

/// Returns 200 texts, where one word decides the label.
fn texts() -> String {
    let mut content = "text\tlabel\n".to_string();
    for n in 0..200 {
        let (noun, label) = [("cat", "feline"), ("dog", "canine")][n % 2];
        writeln!(content, "the {noun} sees number {n}\t{label}").unwrap();
    }
    content
}

fn row(word: usize) -> [f32; 8] {
    std::array::from_fn(|at| ((word * 8 + at) as f32 * 0.7).sin())
}

fn plain() -> String {
    let line = |(at, word): (usize, &&str)| format!("{word} {}\n", row(at).map(|value| value.to_string()).join(" "));
    WORDS.iter().enumerate().map(line).collect()
}

fn binary_file() -> Vec<u8> {
    let mut bytes = format!("{} 8\n", WORDS.len()).into_bytes();
    for (at, word) in WORDS.iter().enumerate() {
        bytes.extend(format!("{word} ").bytes());
        row(at).iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        bytes.push(b'\n');
    }
    bytes
}

/// Settings of a small network, without those of its width.
fn small() -> Vec<&'static str> {
    sets(&SMALL.into_iter().filter(|set| !set.starts_with("model.d_model")).collect::<Vec<_>>())
}

fn train(task: &str, data: &str, vectors: &str, out: &Path, more: &[&str]) -> std::process::Output {
    let set = format!("words.vectors={vectors}");
    let train = ["train", task, "--data", data, "--out", path(out), "--steps", "12", "--threads", "1", "--json"];
    regard(&[&train[..], &small(), &["--set", "model.d_model=16", "--set", &set], more].concat())
}

#[test]
fn all_formats_give_the_same_tagger() {
    let place = tempfile::tempdir().unwrap();
    let data = write(&place, "tagged.tsv", sentences());
    let files = [
        write(&place, "plain.vec", plain()),
        write(&place, "header.vec", format!("{} 8\n{}", WORDS.len(), plain())),
        write(&place, "vectors.bin", binary_file()),
    ];
    let weights = files.iter().enumerate().map(|(at, file)| {
        let out = place.path().join(format!("run-{at}"));
        let output = train("tag", &data, file, &out, &[]);
        done(&output);
        assert!(text(&output.stderr).contains("words of the training data start from vectors of 8 features"));
        let saved = read_document(&out.join("config.json"));
        assert_eq!(saved["config"]["words"]["d_word"], 8, "the width of the file");
        fs::read(out.join("model.safetensors")).unwrap()
    });
    let weights: Vec<Vec<u8>> = weights.collect();
    assert!(weights[0] == weights[1] && weights[1] == weights[2]);
    // A word of the file that training has not seen is known.
    let words: Vec<String> = serde_json::from_value(read_document(&place.path().join("run-0/words.json"))).unwrap();
    assert!(words.contains(&"unseen".to_string()));
}

#[test]
fn a_run_and_its_model_need_the_file_no_more() {
    let place = tempfile::tempdir().unwrap();
    for (task, name, content, input) in [
        ("tag", "tagged.tsv", sentences(), "The unseen cat sees"),
        ("classify", "texts.tsv", texts(), "the unseen dog sees"),
    ] {
        let data = write(&place, name, content);
        let file = write(&place, "once.vec", plain());
        let out = place.path().join(task);
        done(&train(task, &data, &file, &out, &["--set", "words.freeze=true"]));
        fs::remove_file(&file).unwrap();
        let on = ["train", task, "--resume", "--out", path(&out), "--steps", "16", "--threads", "1", "--json"];
        let last = last_document(&done(&regard(&on)));
        assert_eq!(last["finished"], true);
        done(&regard(&["predict", path(&out), input]));
    }
}

#[test]
fn a_model_of_words_gives_its_vectors() {
    let place = tempfile::tempdir().unwrap();
    let text_file = write(&place, "text.txt", "the cat sees the dog and the dog hears the cat\n".repeat(60));
    let model = place.path().join("words");
    let sizes = sets(&["model.d_model=8", "data.min_count=1", "auto=off"]);
    let train_words = ["train", "words", "--data", &text_file, "--out", path(&model), "--steps", "5"];
    done(&regard(&[&train_words[..], &sizes].concat()));
    let data = write(&place, "texts.tsv", texts());
    let out = place.path().join("run");
    let output = train("classify", &data, path(&model), &out, &["--set", "model.kind=transformer"]);
    done(&output);
    assert_eq!(read_document(&out.join("config.json"))["config"]["model"]["d_model"], 8);
    let other = train("tag", &data, path(&out), &place.path().join("other"), &[]);
    assert!(!other.status.success());
}

#[test]
fn bad_files_are_named() {
    let place = tempfile::tempdir().unwrap();
    let data = write(&place, "tagged.tsv", sentences());
    let fails = |name: &str, content: &[u8], words: &[&str]| {
        let file = write(&place, name, content);
        let out = place.path().join("run");
        fails_with(&train("tag", &data, &file, &out, &[]), 1, &[&[name], words].concat());
        assert!(!out.exists(), "nothing is written");
    };
    fails("width.vec", b"the 1 2\ncat 1\n", &["line 2", "a word and 2 numbers", "1 numbers"]);
    fails("nan.vec", b"the 1 2\ncat 1 nan\n", &["line 2", "finite numbers", "NaN"]);
    let whole = binary_file();
    fails("cut.bin", &whole[..whole.len() - 9], &["6 vectors, as its first line says", "5: it ends too early"]);
    fails("german.vec", b"der 1 2\nkatze 1 2\n", &["words of the training data", "none of them"]);
    fails("empty.vec", b"", &["empty"]);
    let missing = train("tag", &data, "no-such-file.vec", &place.path().join("run"), &[]);
    fails_with(&missing, 1, &["no-such-file.vec"]);
    let freeze = regard(&["train", "tag", "--data", &data, "--set", "words.freeze=true"]);
    fails_with(&freeze, 2, &["words.freeze", "words.vectors"]);
    let texts = write(&place, "texts.tsv", texts());
    let file = write(&place, "plain.vec", plain());
    let pieces = train("classify", &texts, &file, &place.path().join("run"), &["--set", "data.tokenizer.kind=bpe"]);
    fails_with(&pieces, 2, &["words.vectors", "data.tokenizer.kind is word"]);
}
