//! Results on standard output, and everything else that is said on standard error.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};
use regard_inspect::Saved;

/// Prints `text` as it is.
///
/// A reader who has seen enough and closed the pipe, as `head` does, ends the command: [`ReaderGone`], which is a success.
pub fn print(text: &str) -> Result<()> {
    write(&mut io::stdout().lock(), text)
}

/// Nobody reads what is printed any more.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads standard output any more")]
pub struct ReaderGone;

fn write(out: &mut impl Write, text: &str) -> Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        written => written.context("standard output could not be written"),
    }
}

/// Says a line on standard error. A line that cannot be written, as on a full disk, costs nothing else: `eprintln!` would
/// panic.
macro_rules! tell {
    ($($said:tt)*) => { $crate::print::say(format_args!($($said)*)) };
}
pub(crate) use tell;

/// See the macro [`tell!`].
pub fn say(line: Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// What is done, and how far: `scoring, 40 %`.
pub fn percent(what: &str, done: usize, all: usize) -> String {
    format!("{what}, {} %", 100 * done / all.max(1))
}

/// Says what the reader of a saved picture should know.
pub fn tell_note(saved: &Saved) {
    if let Some(note) = saved.note() {
        tell!("note: {note}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_told_from_a_full_disk() {
        assert!(write(&mut Broken(ErrorKind::BrokenPipe), "text").unwrap_err().is::<ReaderGone>());
        assert!(!write(&mut Broken(ErrorKind::StorageFull), "text").unwrap_err().is::<ReaderGone>());
        let mut out = Vec::new();
        write(&mut out, "text\n").unwrap();
        assert_eq!(out, b"text\n");
    }
}
