//! Tests with hostile inputs. Each must be answered or refused with a short message; none may make the binary panic, hang or
//! report success for a failure.

mod binary;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use binary::{Ended, command, done, path, sets, text};
use toml::{Table, Value};

/// Settings small enough to train any task in a moment.
const SMALL: [&str; 8] = [
    "model.d_model=8",
    "train.batch_examples=2",
    "train.batch_tokens=64",
    "train.evaluate_every=1",
    "train.evaluate_examples=2",
    "train.checkpoint_every=1",
    "train.warmup=0",
    "train.schedule=constant",
];

/// Fails the test unless the command ended with an answer or with a readable error.
#[track_caller]
fn survives(output: &Output, what: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    let shown: String = told.chars().take(2_000).collect();
    assert!(matches!(output.status.code(), Some(0..=2)), "{what}: {:?}, {shown}", output.status);
    assert!(!told.contains("panicked"), "{what}: {shown}");
    assert!(told.len() < 20_000, "{what}: the message has {} bytes: {shown}", told.len());
    assert!(output.status.success() || !told.trim().is_empty(), "{what}: it failed without a message");
}

/// Fails the test unless the command ended with a readable error.
#[track_caller]
fn refuses(output: &Output, what: &str) {
    survives(output, what);
    assert!(!output.status.success(), "{what}: it succeeded");
}

/// Trains a task for one step and returns the model folder.
fn model(task: &str, place: &Path) -> PathBuf {
    let out = place.join(format!("model-{task}"));
    let more = match task {
        "compose" => sets(&["data.size=4", "data.test=4", "data.dev=4"]),
        _ => Vec::new(),
    };
    done(&command(&[&["train", task, "--steps", "1", "--out", path(&out)], &sets(&SMALL)[..], &more].concat()).ended());
    out
}

/// Returns names and contents of files with strange data or none.
fn contents() -> Vec<(&'static str, Vec<u8>)> {
    let utf16 = |order: fn(u16) -> [u8; 2]| "\u{feff}a\tb\nc\td\n".encode_utf16().flat_map(order).collect::<Vec<u8>>();
    let gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xcb, 0x48];
    let long = |text: &str| [text.repeat(300_000 / text.len()), "\n".to_string()].concat().into_bytes();
    vec![
        ("empty", Vec::new()),
        ("line-end", b"\n".to_vec()),
        ("blank-lines", b"\n \n\t\n\r\n".to_vec()),
        ("zero-bytes", vec![0; 4_096]),
        ("random", (0..4_096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()),
        ("not-utf8", b"a caf\xe9\tb\n".to_vec()),
        ("utf16-little", utf16(u16::to_le_bytes)),
        ("utf16-big", utf16(u16::to_be_bytes)),
        ("carriage-returns", b"a\tb\rc\td\r".to_vec()),
        ("half-gzip", gzip),
        ("png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec()),
        ("one-long-line", long("word ")),
        ("one-long-word", long("x")),
        ("tabs", long("\t")),
        ("quotes", b"text,label\n\"never closed,a\nb,c\n".to_vec()),
        ("nested-json", [b"{\"text\":".repeat(100_000), b"1".to_vec()].concat()),
        ("json-array", b"[1, 2, 3]\n".to_vec()),
        ("json-twice", b"{\"text\": \"a\", \"text\": \"b\", \"label\": \"c\"}\n".to_vec()),
        ("json-numbers", b"{\"numbers\": [[1e400, -1], [\"a\"]]}\n".to_vec()),
        ("controls", "a\u{7}\u{1b}[31m\tb\u{202e}\u{200d}\n".repeat(3).into_bytes()),
    ]
}

/// Returns strange inputs for `predict`.
fn questions() -> Vec<String> {
    let mut all: Vec<String> = contents()
        .into_iter()
        .filter_map(|(_, content)| String::from_utf8(content).ok())
        // Arguments of a program cannot contain NUL or be very long.
        .filter(|text| !text.contains('\0') && text.len() < 100_000)
        .collect();
    let more = [
        "-",
        "--",
        "<mask>",
        "<unk> <s> </s>",
        "0 | 0",
        "| | |",
        "999999999999999999999999 | 0",
        "\u{301}\u{301}",
        "👩‍👩‍👧",
    ];
    all.extend(more.map(str::to_string));
    all.push("word ".repeat(10_000));
    all
}

#[test]
fn any_question_is_answered_or_refused() {
    let place = tempfile::tempdir().unwrap();
    for kind in regard_tasks::kinds() {
        let folder = model(kind.name(), place.path());
        for question in questions() {
            let what = format!("{}, {:?}", kind.name(), question.chars().take(60).collect::<String>());
            survives(&command(&["predict", path(&folder), "--json", "--", &question]).ended(), &what);
        }
        for (name, content) in contents() {
            for extension in ["txt", "jsonl"] {
                let file = place.path().join(format!("{name}.{extension}"));
                fs::write(&file, &content).unwrap();
                let what = format!("{}, {name}.{extension}", kind.name());
                survives(&command(&["predict", path(&folder), "--input", path(&file)]).ended(), &what);
                survives(&command(&["eval", path(&folder), "--data", path(&file)]).ended(), &what);
            }
        }
    }
}

#[test]
fn any_file_is_read_or_refused() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    for kind in regard_tasks::kinds() {
        let mut number = 0;
        let mut train = |data: &Path, what: &str| {
            number += 1;
            let out = place.path().join(format!("{}-{number}", kind.name()));
            let fixed = ["train", kind.name(), "--steps", "1", "--data", path(data), "--out", path(&out)];
            let output = command(&[&fixed[..], &sets(&SMALL)].concat()).ended();
            survives(&output, &format!("{}, {what}", kind.name()));
            if !output.status.success() {
                assert!(!out.exists(), "{}, {what}: a refused run left a folder", kind.name());
            }
        };
        for (name, content) in contents() {
            for extension in ["txt", "tsv", "csv", "jsonl", "conllu", "txt.gz"] {
                let file = data.join(format!("{name}.{extension}"));
                fs::write(&file, &content).unwrap();
                train(&file, &format!("{name}.{extension}"));
            }
        }
        let folder = place.path().join("empty-folder");
        fs::create_dir_all(&folder).unwrap();
        train(&folder, "an empty folder");
        train(Path::new("/no/such/file"), "no file");
        train(Path::new("/dev/null"), "no data");
    }
}

/// Sets every key of a configuration to every kind of invalid value.
#[test]
fn any_setting_is_used_or_refused() {
    let place = tempfile::tempdir().unwrap();
    let nonsense =
        ["-1", "0", "1e300", "nan", "9223372036854775807", "\"\"", "[]", "{}", "true", "none", "=", "\u{1b}"];
    let config: Table = regard_tasks::kind("compose").unwrap().config().parse().unwrap();
    let mut keys = vec!["".to_string(), ".".to_string(), "model".to_string(), "no.such.key".to_string()];
    for (section, value) in &config {
        match value {
            Value::Table(table) => keys.extend(table.keys().map(|key| format!("{section}.{key}"))),
            _ => keys.push(section.clone()),
        }
    }
    let small = sets(&["data.size=4", "data.test=4", "data.dev=4", "model.d_ff=8", "model.n_heads=2"]);
    for (number, setting) in keys.iter().flat_map(|key| nonsense.map(|value| format!("{key}={value}"))).enumerate() {
        let out = place.path().join(number.to_string());
        let fixed = ["train", "compose", "--minutes", "0.001", "--out", path(&out)];
        let output = command(&[&fixed[..], &sets(&SMALL), &small, &["--set", &setting]].concat()).ended();
        survives(&output, &setting);
    }
}

/// Damages every file of a model folder in every way.
#[test]
fn any_damage_to_a_folder_is_named() {
    let place = tempfile::tempdir().unwrap();
    let folder = model("translate", place.path());
    let spoiled = place.path().join("spoiled");
    let half = |content: &[u8]| content[..content.len() / 2].to_vec();
    let flipped = |content: &[u8]| {
        let mut content = content.to_vec();
        let middle = content.len() / 2;
        content[middle] ^= 4;
        content
    };
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        let content = fs::read(folder.join(name)).unwrap();
        let damages = [("gone", None), ("half", Some(half(&content))), ("flipped", Some(flipped(&content)))];
        let more = [("empty", Some(Vec::new())), ("nonsense", Some(b"[[[[".to_vec())), ("a folder", Some(Vec::new()))];
        for (damage, content) in damages.into_iter().chain(more) {
            let what = format!("{name} is {damage}");
            copy(&folder, &spoiled);
            fs::remove_file(spoiled.join(name)).unwrap();
            match content {
                _ if damage == "a folder" => fs::create_dir(spoiled.join(name)).unwrap(),
                Some(content) => fs::write(spoiled.join(name), content).unwrap(),
                None => {}
            }
            let spoiled = path(&spoiled);
            for arguments in [&["predict", spoiled, "a"][..], &["look", spoiled, "a"], &["heads", spoiled]] {
                let output = command(arguments).ended();
                refuses(&output, &what);
                assert!(text(&output.stderr).contains(name), "{what}: {}", text(&output.stderr));
            }
            survives(&command(&["train", "translate", "--resume", "--out", spoiled]).ended(), &what);
        }
    }
}

/// Replaces folder `to` with a copy of `from`.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let place = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &place),
            false => fs::copy(entry.path(), place).map(drop).unwrap(),
        }
    }
}
