//! Printing: results go to standard output, everything else to standard error.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};
use regard_figures::Saved;

/// Prints `text` on standard output, unchanged.
///
/// Returns [`ReaderGone`], which ends the command as a success, if the reader has closed the pipe, as `head` does.
pub fn print(text: &str) -> Result<()> {
    write(&mut io::stdout().lock(), text)
}

/// The reader of standard output has closed the pipe.
#[derive(Debug, thiserror::Error)]
#[error("the reader of standard output is gone")]
pub struct ReaderGone;

fn write(out: &mut impl Write, text: &str) -> Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        written => written.context("cannot write to standard output"),
    }
}

/// Prints a line on standard error. A line that cannot be written, as on a full disk, is dropped, where `eprintln!` would
/// panic.
macro_rules! tell {
    ($($said:tt)*) => { $crate::print::say(format_args!($($said)*)) };
}
pub(crate) use tell;

/// Prints a line on standard error; used by [`tell!`].
pub fn say(line: Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Prints the note of a saved picture, if it has one: which characters no font has.
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
    fn a_closed_pipe_differs_from_a_full_disk() {
        assert!(write(&mut Broken(ErrorKind::BrokenPipe), "text").unwrap_err().is::<ReaderGone>());
        assert!(!write(&mut Broken(ErrorKind::StorageFull), "text").unwrap_err().is::<ReaderGone>());
        let mut out = Vec::new();
        write(&mut out, "text\n").unwrap();
        assert_eq!(out, b"text\n");
    }
}
