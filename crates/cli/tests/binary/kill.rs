//! Killing runs at random moments, and comparing what they leave with an undisturbed run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::{documents, read_document, text};

/// Random moments, different each time a test runs. `REGARD_KILL_SEED` repeats those of a failed test, as far as timing
/// allows.
pub struct Moments(u64);

impl Moments {
    /// Seeds the generator and prints the seed, which cargo shows if the test fails.
    pub fn new() -> Self {
        let seed = match std::env::var("REGARD_KILL_SEED") {
            Ok(seed) => seed.parse().expect("REGARD_KILL_SEED is a whole number"),
            Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64,
        };
        println!("REGARD_KILL_SEED={seed}");
        // Spreads the seed over all bits; otherwise neighbouring seeds would start with similar numbers.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a random fraction of `time`.
    pub fn part_of(&mut self, time: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        time.mul_f64((self.0 >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// Kills a child process. Returns false if it had already ended.
pub fn has_killed(mut child: Child) -> bool {
    use std::os::unix::process::ExitStatusExt;
    const SIGKILL: i32 = 9;
    child.kill().unwrap();
    child.wait().unwrap().signal() == Some(SIGKILL)
}

/// Returns the step of the newest checkpoint in a model folder.
pub fn newest_checkpoint(folder: &Path) -> Option<u64> {
    let entries = fs::read_dir(folder.join("checkpoints")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok()).max()
}

/// The results of a run: model, newest checkpoint, scores, and metrics without times.
pub struct Left {
    files: BTreeMap<String, Vec<u8>>,
    scores: Value,
    pub metrics: Vec<Value>,
}

impl Left {
    pub fn new(folder: &Path) -> Self {
        let newest = format!("checkpoints/step-{}", newest_checkpoint(folder).expect("a checkpoint"));
        let mut names = vec!["model.safetensors".to_string()];
        names.extend(["model", "optimizer", "best"].map(|name| format!("{newest}/{name}.safetensors")));
        let read = |name: String| Some((name.clone(), fs::read(folder.join(name)).ok()?));
        let mut metrics = documents(&text(&fs::read(folder.join("metrics.jsonl")).unwrap()));
        for line in &mut metrics {
            line.as_object_mut().unwrap().remove("seconds");
        }
        let scores = read_document(&folder.join("config.json"))["scores"].clone();
        assert!(scores.is_object(), "a run that has ended has scores");
        Self { files: names.into_iter().filter_map(read).collect(), scores, metrics }
    }

    /// Returns whether the newest checkpoint also holds the best weights.
    pub fn has_best(&self) -> bool {
        self.files.keys().any(|name| name.ends_with("best.safetensors"))
    }

    /// Fails the test if anything differs from `expected`.
    #[track_caller]
    pub fn expect(&self, expected: &Self, context: &str) {
        let names = |left: &Self| left.files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(self), names(expected), "{context}: other files");
        for (name, content) in &expected.files {
            assert!(&self.files[name] == content, "{context}: {name} differs");
        }
        assert_eq!(self.metrics, expected.metrics, "{context}: the metrics differ");
        assert_eq!(self.scores, expected.scores, "{context}: the scores differ");
    }
}
