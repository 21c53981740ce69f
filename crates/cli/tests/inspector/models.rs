//! Small models that the tests of the page serve, each trained once.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::binary::{SMALL, done, path, regard, sets};
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

/// Trains a model of a task in a few steps, once for all tests that give it this name, and returns its folder.
pub fn trained(name: &str, task: &str, steps: &str, settings: &[&str]) -> String {
    static FOLDERS: OnceLock<tempfile::TempDir> = OnceLock::new();
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = FOLDERS.get_or_init(|| tempfile::tempdir().unwrap()).path();
    let folder = place.join(name);
    if !folder.exists() {
        let arguments = ["train", task, "--steps", steps, "--out", path(&folder)];
        done(&regard(&[&arguments[..], &sets(settings)].concat()));
    }
    path(&folder).to_string()
}

/// A tagger of the built-in sentences, good enough to have opinions.
pub fn tagger() -> String {
    trained("tagger", "tag", "60", &SMALL)
}
