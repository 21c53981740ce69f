//! Tests of users' data files: columns, languages, scripts, pipes, and the notes printed about them.

mod binary;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use binary::{
    Ended, SMALL, command, documents, done, fails_with, last_document, path, regard, regard_in, sets, text, write,
};
use flate2::{Compression, write::GzEncoder};
use serde_json::json;

fn train(task: &str, data: &str, out: &Path, steps: &str, settings: &[&str]) -> Output {
    let train = ["train", task, "--data", data, "--out", path(out), "--steps", steps, "--json"];
    regard(&[&train[..], &sets(&SMALL), &sets(settings)].concat())
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// Returns `count` rows `text,label`, where one word decides the label.
fn rows(count: usize) -> String {
    (0..count).fold(String::new(), |mut rows, n| {
        let (word, label) = [("good", "pos"), ("bad", "neg")][n % 2];
        writeln!(rows, "number {n} is {word},{label}").unwrap();
        rows
    })
}

#[test]
fn damaged_rows_and_columns_are_named() {
    let place = tempfile::tempdir().unwrap();
    let refused = |name: &str, content: String, words: &[&str]| {
        let file = write(&place, name, content);
        let out = place.path().join("refused");
        fails_with(&train("classify", &file, &out, "1", &[]), 1, &[&[name], words].concat());
        assert!(!out.exists());
    };
    let all = rows(200);
    let (before, after) = all.split_at(all.find("number 20").unwrap());
    refused("one.csv", format!("text,label\n{before}\"{after}"), &["line 22", "a closing quote"]);
    let swallowed = after.replace("number 154 is good", "number 154 is good\"");
    refused("two.csv", format!("text,label\n{before}\"{swallowed}"), &["line 22", "rows by themselves"]);
    refused("more.csv", format!("text,label\na,b,c\n{all}"), &["line 2", "2 columns", "found 3 columns"]);
    refused("twice.csv", format!("text,label,text\n{all}"), &["line 1", "one column text"]);
    let long = "x".repeat(100_000);
    let output = train("classify", &write(&place, "long.csv", format!("text,label\n{long}\n")), place.path(), "1", &[]);
    fails_with(&output, 1, &["line 2"]);
    assert!(output.stderr.len() < 2_000, "a long line is not shown whole");
    let twice = "{\"text\": \"a\", \"label\": \"x\", \"label\": \"y\"}\n".repeat(9);
    refused("twice.jsonl", twice, &["line 1", "\"label\" comes twice"]);
    let utf16: Vec<u8> = all.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let wide = write(&place, "wide.csv", [&b"\xff\xfe"[..], &utf16].concat());
    fails_with(&train("classify", &wide, &place.path().join("w"), "1", &[]), 1, &["wide.csv", "UTF-16LE", "iconv"]);
    refused("mac.csv", format!("text,label\n{all}").replace('\n', "\r"), &["CR alone"]);
}

#[test]
fn a_folder_with_val_and_other_columns_is_described() {
    let place = tempfile::tempdir().unwrap();
    let stars = |rows: String, header: &str| {
        rows.lines().fold(header.to_string(), |mut all, row| {
            let (review, stars) = row.split_once(',').unwrap();
            writeln!(all, "7,{stars},{review}").unwrap();
            all
        })
    };
    write(&place, "train.csv", stars(rows(200), "id,stars,review\n"));
    write(&place, "val.csv", stars(rows(20), "id,stars,review\n"));
    write(&place, "test.csv", stars(rows(10), "id,stars,review\n") + "7,odd,a strange one\n");
    let columns = ["data.text=review", "data.label=stars"];
    let out = place.path().join("named");
    let output = train("classify", path(place.path()), &out, "80", &columns);
    assert!(last_document(&done(&output))["metrics"]["accuracy"].as_f64().unwrap() > 0.9);
    let told = text(&output.stderr);
    for words in [
        "texts: 200 train, 20 dev, 11 test",
        "2 labels: neg 100, pos 100",
        "train.csv: unused columns: id",
        "test has labels that train does not",
        "odd",
        "unknown words:",
    ] {
        assert!(told.contains(words), "{words:?} is not in {told}");
    }
    // The same without a header.
    let bare = write(&place, "bare.tsv", rows(400).replace(',', "\t"));
    fails_with(
        &train("classify", &bare, &place.path().join("x"), "1", &[]),
        1,
        &["line 1", "data.text", "by number if the file has no header"],
    );
    let numbered = train("classify", &bare, &place.path().join("bare"), "60", &["data.text=1", "data.label=2"]);
    assert!(last_document(&done(&numbered))["metrics"]["accuracy"].as_f64().unwrap() > 0.9);
    assert!(text(&numbered.stderr).contains("dev and test are 5 % of the file each, at most 10000"));

    // Input files of every format give the same answers.
    let questions = "id,review\n1,\"number 3, very bad\"\n2,number 4 is good\n";
    let with_mark = [b"\xef\xbb\xbf", questions.as_bytes()].concat();
    for (name, content) in [
        ("q.csv", questions.as_bytes().to_vec()),
        ("q.csv.gz", gzip(&with_mark)),
        ("q.tsv", b"review\tid\nnumber 3, very bad\t1\nnumber 4 is good\t2\n".to_vec()),
        ("q.jsonl", b"{\"review\": \"number 3, very bad\"}\n{\"text\": \"number 4 is good\"}\n".to_vec()),
        ("q.txt", b"number 3, very bad\r\nnumber 4 is good\r\n".to_vec()),
        ("q.txt.gz", gzip(b"number 3, very bad\nnumber 4 is good\n")),
    ] {
        let file = write(&place, name, content);
        assert_eq!(done(&regard(&["predict", path(&out), "--input", &file])), "neg\npos\n", "{name}");
    }
    let none = write(&place, "none.csv", "id,opinion\n1,bad\n");
    fails_with(&regard(&["predict", path(&out), "--input", &none]), 1, &["none.csv", "line 1", "review"]);
}

#[test]
fn two_files_of_two_languages_train_a_translator() {
    let place = tempfile::tempdir().unwrap();
    let words = [("one", "eins"), ("two", "zwei"), ("three", "drei"), ("four", "vier")];
    let (mut english, mut german) = (String::new(), String::new());
    for n in 0..256 {
        let chosen = [n % 4, n / 4 % 4, n / 16 % 4, n / 64].map(|n| words[n]);
        writeln!(english, "{}", chosen.map(|word| word.0).join(" ")).unwrap();
        writeln!(german, "{}", chosen.map(|word| word.1).join(" ")).unwrap();
    }
    for (part, language, text) in [("train", "en", &english), ("train", "de", &german)] {
        write(&place, &format!("{part}.{language}"), text);
    }
    write(&place, "valid.en", "one two three\n");
    write(&place, "valid.de", "eins zwei drei\n");
    let out = place.path().join("run");
    let output = train("translate", path(place.path()), &out, "200", &["data.source=en"]);
    assert_eq!(last_document(&done(&output))["split"], "test");
    let pairs = write(&place, "pairs.tsv", "one two three four\tx\nfour three\tx\n");
    let found = done(&regard(&["predict", path(&out), "--input", &pairs]));
    assert!(found.starts_with("eins zwei drei vier\n"), "{found}");
    let lines = write(&place, "lines.jsonl", "{\"source\": \"one two three four\"}\n");
    assert!(done(&regard(&["predict", path(&out), "--input", &lines])).starts_with("eins zwei drei vier\n"));
    let turned = train("translate", path(place.path()), &place.path().join("turned"), "1", &[]);
    done(&turned);
    assert!(text(&turned.stderr).contains("translates de to en; --set data.source=en reverses it"));
    write(&place, "train.de", german + "mehr\n");
    let output = train("translate", path(place.path()), &place.path().join("x"), "1", &["data.source=en"]);
    fails_with(&output, 1, &["train.de", "expected 256 lines", "found 257"]);
}

/// Trains a tagger on sentences of three words and a full stop, and returns its folder.
fn tagger(place: &Path) -> PathBuf {
    let sentence = |n: usize| {
        let noun = ["dog", "cat", "cow"][n % 3];
        format!("the\tDET\n{noun}{n}\tNOUN\nsleeps\tVERB\n.\tPUNCT\n\n")
    };
    let data = write(place, "tags.tsv", (0..300).map(sentence).collect::<String>());
    let out = place.join("tagger");
    done(&train("tag", &data, &out, "60", &[]));
    out
}

#[test]
fn a_tagger_answers_in_the_format_of_the_file() {
    let place = tempfile::tempdir().unwrap();
    let model = tagger(place.path());
    let word = |n: usize, word: &str| format!("{n}\t{word}\t_\t_\t_\t_\t_\t_\t_\t_\n");
    // "dog's." stays one word, as in the file.
    let conllu = format!(
        "# one\n1-2\tthedog\t_\t_\t_\t_\t_\t_\t_\t_\n{}{}\n# two\n{}\n",
        word(1, "the"),
        word(2, "dog's."),
        word(1, ".")
    );
    let file = write(&place, "q.conllu.gz", gzip(conllu.as_bytes()));
    let found = done(&regard(&["predict", path(&model), "--input", &file]));
    let tagged = |n: usize, word: &str, tag: &str| format!("{n}\t{word}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n");
    assert!(
        found.starts_with(&format!("# one\n1-2\tthedog\t_\t_\t_\t_\t_\t_\t_\t_\n{}", tagged(1, "the", "DET"))),
        "{found}"
    );
    assert!(found.contains("\n2\tdog's.\t_\t") && found.ends_with(&format!("# two\n{}\n", tagged(1, ".", "PUNCT"))));
    let long = "the\n".repeat(300);
    let tokens = write(&place, "q.tsv", format!("the\n.\n\n{long}\nthe\t_\n"));
    let output = regard(&["predict", path(&model), "--input", &tokens]);
    fails_with(&output, 1, &["input 2", "1 to 200 words"]);
    let found = text(&output.stdout);
    assert!(found.starts_with("the\tDET\n.\tPUNCT\n\nthe\t_\n") && found.ends_with("\n\nthe\tDET\n\n"), "{found}");
    let lines = documents(&done(&regard(&["predict", path(&model), "--json", "--input", &file])));
    assert_eq!(lines[0]["tokens"], json!(["the", "dog's."]));
    let json = write(&place, "q.jsonl", "{\"tokens\": [\"the\", \"dog's.\"]}\n{\"tokens\": \"the\"}\n");
    let output = regard(&["predict", path(&model), "--input", &json]);
    assert!(text(&output.stdout).starts_with("the/DET dog's./"), "{}", text(&output.stdout));
    fails_with(&output, 1, &["input 2", "a list of words"]);

    // The report shows the user's own sentences first.
    let report = fs::read_to_string(model.join("report.html")).unwrap();
    let (own, ours) = (report.find("sleeps/VERB"), report.find("saw/"));
    assert!(own.is_some() && ours.is_none_or(|ours| own.unwrap() < ours), "{own:?} {ours:?}");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_once_or_refused_at_once() {
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let within = |arguments: &[&str], words: &[&str]| {
        let mut child = command(arguments).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < Duration::from_secs(20), "still running: {arguments:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        fails_with(&child.wait_with_output().unwrap(), 1, words);
    };
    let out = place.path().join("x");
    for data in [path(&pipe), "/dev/stdin"] {
        within(&["train", "classify", "--data", data, "--out", path(&out)], &[data, "a pipe", "save it to a file"]);
    }
    let model = tagger(place.path());
    within(&["eval", path(&model), "--data", path(&pipe)], &["a pipe"]);
    let asked = command(&["predict", path(&model), "--input", path(&pipe)]).stdout(Stdio::piped()).spawn().unwrap();
    fs::write(&pipe, "the cat sleeps.\n").unwrap();
    assert_eq!(done(&asked.wait_with_output().unwrap()), "the/DET cat/NOUN sleeps/VERB ./PUNCT\n");
    // The format of a pipe is recognised like that of a file.
    for (given, expected) in [
        ("the\tX\ncat\tX\n\n", "the\tDET\ncat\tNOUN\n\n"),
        ("{\"tokens\": [\"the\", \"cat\"]}\n", "the/DET cat/NOUN\n"),
        ("# a comment\n1\tthe\t_\t_\t_\t_\t_\t_\t_\t_\n\n", "# a comment\n1\tthe\t_\tDET\t_\t_\t_\t_\t_\t_\n\n"),
    ] {
        let asked = command(&["predict", path(&model), "--input", path(&pipe)]).stdout(Stdio::piped()).spawn().unwrap();
        fs::write(&pipe, given).unwrap();
        assert_eq!(done(&asked.wait_with_output().unwrap()), expected);
    }
    let lines = write(&place, "twice.jsonl", "{\"text\": \"the cat\", \"text\": \"the dog\"}\n");
    fails_with(&regard(&["predict", path(&model), "--input", &lines]), 1, &["comes twice"]);
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join(std::ffi::OsStr::from_bytes(b"nu\xff.csv"));
    fs::write(&file, "text,label\na,b\nc,d\n").unwrap();
    for more in [&["--out", path(&place.path().join("x"))][..], &["--resume"]] {
        let mut asked = command(&[&["train", "classify"], more].concat());
        let output = asked.arg("--data").arg(&file).current_dir(&place).ended();
        fails_with(&output, 1, &[]);
    }
}

#[test]
fn texts_without_spaces_are_learnt_by_characters() {
    let place = tempfile::tempdir().unwrap();
    let subjects = ["这部电影", "那本小说", "今天的晚饭", "昨天的音乐会", "他的新歌", "我们的旅行"];
    let ends = ["非常精彩", "特别好看", "令人愉快", "十分糟糕", "特别无聊", "令人失望"];
    let mut content = "text\tlabel\n".to_string();
    for n in 0..432 {
        let (subject, end, middle) = (subjects[n % 6], n / 6 % 6, n / 36);
        let between = ["真的", "我觉得", "大家都说", "实在"][middle % 4].repeat(1 + middle / 4);
        writeln!(content, "{subject}{between}{}\t{}", ends[end], if end < 3 { "好" } else { "坏" }).unwrap();
    }
    let data = write(&place, "reviews.tsv", content);
    let chosen = train("classify", &data, &place.path().join("chosen"), "120", &[]);
    assert!(last_document(&done(&chosen))["metrics"]["accuracy"].as_f64().unwrap() > 0.95);
    assert!(text(&chosen.stderr).contains("no spaces between words: their tokens are characters"));
    let words = train("classify", &data, &place.path().join("words"), "1", &["data.tokenizer.kind=word"]);
    done(&words);
    assert!(text(&words.stderr).contains("data.tokenizer.kind=char or bpe suits them better"));
}

#[test]
fn the_held_out_part_of_a_plain_text_is_dev() {
    let place = tempfile::tempdir().unwrap();
    let data = write(&place, "text.txt", "the cat sat on the mat.\n".repeat(200));
    let out = place.path().join("run");
    let output = train("generate", &data, &out, "3", &["data.block=16"]);
    assert_eq!(last_document(&done(&output))["split"], "dev");
    assert!(text(&output.stderr).contains("there is no test"));
    let report = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(report.contains("loss (dev)") && !report.contains("(test)"));
    let own = last_document(&done(&regard(&["eval", path(&out), "--json"])));
    assert_eq!(own["split"], "dev", "{own}");
    fails_with(&regard(&["eval", path(&out), "--split", "test"]), 1, &["no test split"]);
    // A note says why a text has unknown tokens.
    let cut = train("generate", &data, &place.path().join("cut"), "1", &["data.block=16", "data.tokenizer.vocab=8"]);
    done(&cut);
    assert!(text(&cut.stderr).contains("beyond data.tokenizer.vocab"), "{}", text(&cut.stderr));
    let known = write(&place, "new.txt", "the cat sat on the mat.\n".repeat(200) + &"dog ".repeat(30));
    let new = train("generate", &known, &place.path().join("new"), "1", &["data.block=16"]);
    assert!(text(&new.stderr).contains("the training text does not have them"), "{}", text(&new.stderr));
}

#[test]
fn very_many_labels_are_refused_or_cheap() {
    let place = tempfile::tempdir().unwrap();
    let identifiers = (0..5_000).fold("text,label\n".to_string(), |mut all, n| {
        writeln!(all, "text {n},{n}").unwrap();
        all
    });
    let file = write(&place, "ids.csv", identifiers);
    let output = train("classify", &file, &place.path().join("x"), "1", &[]);
    fails_with(&output, 1, &["different labels in", "data.target=value"]);
    let tags = (0..5_000).map(|n| format!("word{n}\tT{n}\n\n")).collect::<String>();
    let output = train("tag", &write(&place, "tags.tsv", tags), &place.path().join("x"), "1", &[]);
    fails_with(&output, 1, &["different tags in", "several words share"]);
}

#[test]
fn check_names_every_bad_line_and_doubtful_examples() {
    let place = tempfile::tempdir().unwrap();
    let rows = rows(200);
    let mut lines: Vec<&str> = rows.lines().collect();
    lines.insert(20, "too,many,columns");
    lines.insert(90, "\"never closed");
    lines.insert(150, "an empty label,");
    let bad = write(&place, "bad.csv.gz", gzip(format!("text,label\n{}\n", lines.join("\n")).as_bytes()));
    let output = regard(&["data", "check", "classify", &bad]);
    fails_with(&output, 1, &["3 problems"]);
    let printed = text(&output.stdout);
    let named = [
        "bad.csv.gz, line 22: expected 2 columns",
        "bad.csv.gz, line 92: expected",
        "bad.csv.gz, line 152: expected a label",
    ];
    assert!(named.iter().all(|named| printed.contains(named)), "{printed}");
    assert!(printed.contains("texts: ") && printed.contains("neg "), "the rest is counted: {printed}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "the data set is only read");

    let folder = place.path().join("set");
    fs::create_dir(&folder).unwrap();
    write(&folder, "train.tsv", "text\tlabel\nsame words\tx\nsame words\ty\nothers\tx\n");
    write(&folder, "dev.tsv", "text\tlabel\nothers\tx\n");
    write(&folder, "test.tsv", "text\tlabel\nnew ones\ty\n");
    let found = last_document(&done(&regard(&["data", "check", "classify", path(&folder), "--json"])));
    assert_eq!(found["problems"], json!([]));
    let train = &found["splits"][0];
    assert_eq!((&train["split"], &train["examples"], &train["distinct"]), (&json!("train"), &json!(3), &json!(2)));
    assert_eq!(train["labels"], json!({ "x": 2, "y": 1 }));
    let warnings = found["warnings"].to_string();
    assert!(
        warnings.contains("1 input of dev is also in train") && warnings.contains("different labels"),
        "{warnings}"
    );

    // Without its header a file means nothing, so only the header is named.
    let headless = write(&place, "headless.csv", "a,b\nc,d\n");
    let output = regard(&["data", "check", "classify", &headless]);
    fails_with(&output, 1, &["1 problem"]);
    assert!(text(&output.stdout).contains("headless.csv, line 1"), "{}", text(&output.stdout));
    fails_with(&regard(&["data", "check", "classify", "nowhere.csv"]), 1, &["nowhere.csv", "No such file"]);
    fails_with(&regard(&["data", "check", "clasify", &headless]), 2, &["clasify", "classify"]);
    fails_with(&regard(&["data", "check", "compose", &headless]), 2, &["compose cannot read files"]);
}

/// However the path is given, the file stays as it is and is named as it was given.
#[test]
fn check_never_writes_to_the_data() {
    let place = tempfile::tempdir().unwrap();
    let content = format!("text,label\n{}a,b,c\n{}d,e,f\n", rows(100), rows(40));
    fs::create_dir(place.path().join("set")).unwrap();
    for name in ["a.csv", "set/train.csv", "set/dev.csv"] {
        write(&place, name, &content);
    }
    write(&place, "packed.csv.gz", gzip(content.as_bytes()));
    #[cfg(unix)]
    std::os::unix::fs::symlink("a.csv", place.path().join("linked.csv")).unwrap();
    let files = ["a.csv", "set/train.csv", "set/dev.csv", "packed.csv.gz"];
    let bytes = || files.map(|name| fs::read(place.path().join(name)).unwrap());
    let before = bytes();
    let absolute = place.path().join("a.csv");
    for data in ["a.csv", "./a.csv", "linked.csv", "packed.csv.gz", "set", path(&absolute)] {
        if data == "linked.csv" && !cfg!(unix) {
            continue;
        }
        let output = regard_in(&place, &["data", "check", "classify", data]);
        let printed = text(&output.stdout);
        fails_with(&output, 1, &[if data == "set" { "4 problems" } else { "2 problems" }]);
        let named = printed.lines().filter(|line| line.contains(", line 102: ") || line.contains(", line 143: "));
        assert_eq!(named.count(), if data == "set" { 4 } else { 2 }, "{data}: {printed}");
        assert!(bytes() == before, "{data} was changed");
    }
}

#[test]
fn built_in_data_are_listed_split_by_split() {
    let found = last_document(&done(&regard(&["data", "list", "--json"])));
    let tasks: Vec<&str> = found.as_array().unwrap().iter().map(|set| set["task"].as_str().unwrap()).collect();
    let expected = "translate tag classify generate pretrain words compose vectors image caption graph speech write";
    assert_eq!(tasks.join(" "), expected);
    assert_eq!(found[1]["splits"].as_array().unwrap().len(), 3);
    assert!(found[2]["splits"][0]["labels"]["positive"].as_u64() > Some(1000), "{found}");
    assert_eq!(found[6]["splits"], json!([]), "the pointer task makes its examples as needed");
    let table = done(&regard(&["data", "list"]));
    assert!(table.contains("compose") && table.contains("made as needed"), "{table}");
}
