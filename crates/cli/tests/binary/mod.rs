//! Helpers for tests of the binary: running it, reading its output, and checking errors.

#![allow(dead_code, reason = "each test program uses only some of the helpers")]

pub mod kill;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Returns a command that runs the binary with these arguments, not yet started.
pub fn command(arguments: &[&str]) -> Command {
    // cargo shows this line if the test fails.
    println!("regard {arguments:?}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
    command.args(arguments);
    command
}

/// Time after which a process counts as hanging; no test needs a tenth of it.
const DEADLINE: Duration = Duration::from_secs(300);

/// Runs a command to its end, with a deadline that `Command::output` lacks.
pub trait Ended {
    /// Returns the output and exit status; fails the test after the deadline.
    fn ended(&mut self) -> Output;
}

impl Ended for Command {
    #[track_caller]
    fn ended(&mut self) -> Output {
        let child = self.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        end_of(child.unwrap())
    }
}

/// Returns the output and exit status of a child process; fails the test after the deadline.
#[track_caller]
pub fn end_of(mut child: Child) -> Output {
    fn all_of(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            bytes
        })
    }
    let (stdout, stderr) = (all_of(child.stdout.take()), all_of(child.stderr.take()));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > DEADLINE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("still running after {DEADLINE:?}, having said: {}", text(&stderr.join().unwrap()));
        }
        thread::sleep(Duration::from_millis(2));
    };
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// Waits until `is_so` returns true; fails the test after the deadline.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < DEADLINE, "after {DEADLINE:?} there is no {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs the binary to its end.
pub fn regard(arguments: &[&str]) -> Output {
    command(arguments).ended()
}

/// Runs the binary in a folder.
pub fn regard_in(place: impl AsRef<Path>, arguments: &[&str]) -> Output {
    command(arguments).current_dir(place).ended()
}

/// Settings of a network small enough to learn in a second; other keys keep their plain defaults.
pub const SMALL: [&str; 8] = [
    "auto=off",
    "model.d_model=16",
    "model.n_heads=2",
    "model.d_ff=32",
    "model.n_layers=1",
    "train.evaluate_every=20",
    "train.warmup=5",
    "train.learning_rate=1e-2",
];

/// Returns the settings as arguments, with `--set` before each `key=value`.
pub fn sets<'a>(settings: &[&'a str]) -> Vec<&'a str> {
    settings.iter().flat_map(|&setting| ["--set", setting]).collect()
}

/// Returns the settings like [`sets`], without the keys of a Transformer if `more` chooses another kind of network.
pub fn sets_beside<'a>(more: &[&str], settings: &[&'a str]) -> Vec<&'a str> {
    let is_transformer = !more.iter().any(|one| one.starts_with("model.kind="));
    let is_used = |setting: &&str| {
        is_transformer || !["model.n_heads=", "model.d_ff="].iter().any(|key| setting.starts_with(key))
    };
    sets(&settings.iter().copied().filter(is_used).collect::<Vec<_>>())
}

/// Writes a file of translated number words, which a tiny model can learn, and returns its path.
pub fn pairs(place: &Path) -> String {
    let words = [("one", "un"), ("two", "deux"), ("three", "trois"), ("four", "quatre"), ("five", "cinq")];
    let mut text = String::new();
    for a in words {
        for b in words {
            for c in words {
                text += &format!("{} {} {}\t{} {} {}\n", a.0, b.0, c.0, a.1, b.1, c.1);
            }
        }
    }
    write(place, "pairs.tsv", text)
}

/// Returns bytes of standard output or error as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the standard output of a run that must succeed.
#[track_caller]
pub fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Fails the test unless the run ended with `code` and a message that contains all `words`, without a panic.
#[track_caller]
pub fn fails_with(output: &Output, code: i32, words: &[&str]) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    for word in words {
        assert!(message.contains(word), "{word:?} is not in {message}");
    }
    assert!(!message.contains("panicked"), "{message}");
}

/// Parses a text that is exactly one JSON document.
#[track_caller]
pub fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Parses one JSON document per line.
pub fn documents(text: &str) -> Vec<Value> {
    text.lines().map(document).collect()
}

/// Parses the JSON document in the last line.
#[track_caller]
pub fn last_document(text: &str) -> Value {
    document(text.lines().last().unwrap())
}

/// Reads a JSON file.
#[track_caller]
pub fn read_document(path: &Path) -> Value {
    document(&fs::read_to_string(path).unwrap())
}

/// Returns a path as an argument.
pub fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Writes a file into a folder and returns its path.
pub fn write(place: impl AsRef<Path>, name: &str, content: impl AsRef<[u8]>) -> String {
    let file = place.as_ref().join(name);
    fs::write(&file, content).unwrap();
    path(&file).to_string()
}

/// Copies a folder of transformers, so that files can be put beside it, and gives it a tokeniser with a word for each token:
/// `w0 w1 …`.
pub fn with_words(folder: &str, vocab: usize) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(Path::new(folder).join(file), place.path().join(file)).unwrap();
    }
    let words: serde_json::Map<String, Value> = (0..vocab).map(|id| (format!("w{id}"), id.into())).collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "added_tokens": [], "pre_tokenizer": { "type": "WhitespaceSplit" },
        "model": { "type": "WordLevel", "vocab": words, "unk_token": "w0" },
    });
    write(&place, "tokenizer.json", tokenizer.to_string());
    place
}

/// Returns the JSON of `regard show`.
#[track_caller]
pub fn shown(arguments: &[&str]) -> Value {
    document(&done(&regard(&[&["show"], arguments, &["--json"]].concat())))
}

/// Checks that `regard show` draws a picture in every format and prints text that contains all `words`.
#[track_caller]
pub fn drawn(arguments: &[&str], words: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    for (extension, start) in [("svg", &b"<svg"[..]), ("png", b"\x89png"), ("html", b"<!doctype html>")] {
        let picture = place.path().join(format!("drawing.{extension}"));
        let printed = done(&regard(&[&["show"], arguments, &["--out", path(&picture)]].concat()));
        assert!(words.iter().all(|word| printed.contains(word)), "{arguments:?}: {printed}");
        assert!(fs::read(&picture).unwrap().to_ascii_lowercase().starts_with(start), "{arguments:?}: {extension}");
    }
}

/// Checks that `regard show` refuses the arguments as wrong use before it prints anything.
#[track_caller]
pub fn show_refuses(arguments: &[&str], words: &[&str]) {
    let output = regard(&[&["show"], arguments].concat());
    fails_with(&output, 2, words);
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
}

/// A process that goes on until it is stopped; it is killed when it is dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command that prints an address on standard error, and returns it with what follows `http://`. What it says after that is
/// read and dropped: otherwise it would wait.
pub fn with_address(arguments: &[&str]) -> (Running, String) {
    let mut command = command(arguments);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut running = Running(child.unwrap());
    let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let address = lines.find_map(|line| Some(line.split_once("http://")?.1.split_whitespace().next()?.to_string()));
    thread::spawn(move || lines.for_each(drop));
    (running, address.expect("the command prints an address"))
}
