//! Small models that the tests of the page serve, each trained once.

use std::path::Path;
use std::sync::OnceLock;

use crate::binary::{SMALL, done, pairs, path, regard, sets_beside};
use crate::browser::Browser;
use crate::client::{Served, serve};

/// A server of models, and a browser.
pub struct Stage {
    pub served: Served,
    pub browser: Browser,
}

impl Stage {
    /// Serves models and starts a browser; `None` if there is none.
    pub fn set(arguments: &[&str]) -> Option<Self> {
        let browser = Browser::start()?;
        Some(Self { served: serve(arguments), browser })
    }

    /// Returns an address of the page, such as that of `#look?model=tagger`.
    pub fn address(&self, hash: &str) -> String {
        format!("http://{}/{hash}", self.served.addr)
    }

    /// Opens a view and waits until it has its first answer.
    #[track_caller]
    pub fn open(&self, hash: &str) {
        self.browser.open(&self.address(hash));
        self.settled();
    }

    /// Waits until the page waits for nothing.
    #[track_caller]
    pub fn settled(&self) {
        self.browser.wait(
            "document.querySelector('main').children.length > 0 && !document.querySelector('[aria-busy=true]') \
             && !document.querySelector('main > noscript')",
        );
    }
}

/// Trains a model of a task in a few steps, once for all tests, and returns its folder.
pub fn trained(task: &'static str, steps: &str, more: &[&str]) -> String {
    static FOLDERS: OnceLock<tempfile::TempDir> = OnceLock::new();
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let place = FOLDERS.get_or_init(|| tempfile::tempdir().unwrap()).path();
    let folder = place.join(task);
    if !folder.exists() {
        let out = path(&folder).to_string();
        let data = data(task, place);
        let arguments = [
            &["train", task, "--steps", steps, "--out", &out][..],
            &data.iter().map(String::as_str).collect::<Vec<_>>(),
            &sets_beside(more, more),
        ];
        done(&regard(&arguments.concat()));
    }
    path(&folder).to_string()
}

/// Data of a task, where the built-in are too large for a test.
fn data(task: &str, place: &Path) -> Vec<String> {
    match task {
        "translate" => vec!["--data".to_string(), pairs(place)],
        _ => Vec::new(),
    }
}

/// A tagger of the built-in sentences, good enough to have opinions.
pub fn tagger() -> String {
    trained("tag", "60", &SMALL)
}
