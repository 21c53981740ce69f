//! Progress on standard error: a live bar with the time left on a terminal, a plain line every ten seconds in a log.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::print::tell;

/// Least time between two lines in a log.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Time between two pictures of the bar on a terminal.
const BETWEEN_TICKS: Duration = Duration::from_millis(100);

/// The progress of a command. The bar disappears when this is dropped.
pub struct Progress {
    /// Hidden if standard error is not a terminal; it still estimates the time left.
    bar: ProgressBar,
    /// Time of the last line in a log.
    last: Mutex<Instant>,
}

impl Progress {
    /// Starts without a count; `counted` stands before each count, such as `step `.
    pub fn new(counted: &str) -> Self {
        let bar = ProgressBar::no_length().with_style(style("{spinner} {msg}")).with_prefix(counted.to_string());
        if !bar.is_hidden() {
            bar.enable_steady_tick(BETWEEN_TICKS);
        }
        Self { bar, last: Mutex::new(Instant::now()) }
    }

    /// Begins another count, with `counted` before it.
    pub fn restart(&self, counted: String) {
        self.bar.set_prefix(counted);
        self.bar.unset_length();
    }

    /// Prints a line that progress does not overwrite.
    pub fn say(&self, line: impl Display) {
        match self.bar.is_hidden() {
            true => tell!("{line}"),
            false => self.bar.println(line.to_string()),
        }
    }

    /// Shows that `done` of `all` items are done. The time left is counted from the first call with this `all`.
    pub fn set(&self, done: u64, all: u64, message: impl Display) {
        self.bar.set_position(done);
        if self.bar.length() != Some(all) {
            self.bar.set_style(style("{bar:32} {prefix}{pos}/{len}  {msg}  {eta} left"));
            self.bar.set_length(all);
            self.bar.reset_eta();
            *self.last() = Instant::now();
        }
        let left = || self.bar.eta().as_secs();
        self.line(&message, || format!("{}{done}/{all}  {message}  {} s left", self.bar.prefix(), left()));
    }

    /// Shows a message beside the count, if there is one.
    pub fn message(&self, message: impl Display) {
        self.line(&message, || message.to_string());
    }

    /// Shows the share of some work that is done.
    pub fn part(&self, what: &str, done: usize, all: usize) {
        self.message(format_args!("{what}, {} %", 100 * done / all.max(1)));
    }

    /// Shows work that has no count; a log gets its line at once.
    pub fn stage(&self, what: &str) {
        if self.bar.is_hidden() {
            tell!("{what} …");
        }
        self.bar.set_style(style("{spinner} {msg}"));
        self.bar.unset_length();
        self.bar.set_message(what.to_string());
    }

    /// Shows `message` on a terminal, or prints `line` in a log if the last line is old enough.
    fn line(&self, message: &dyn Display, line: impl FnOnce() -> String) {
        if !self.bar.is_hidden() {
            return self.bar.set_message(message.to_string());
        }
        let mut last = self.last();
        if last.elapsed() >= BETWEEN_LINES {
            *last = Instant::now();
            tell!("{}", line());
        }
    }

    fn last(&self) -> MutexGuard<'_, Instant> {
        self.last.lock().expect("no thread panics while it holds the lock")
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is valid")
}
