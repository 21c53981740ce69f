//! Results on standard output.

use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// Prints `text` as it is. A reader who has seen enough and closed the pipe, as `head` does, is no error.
pub fn print(text: &str) -> Result<()> {
    let written = write(&mut io::stdout().lock(), text);
    written.context("standard output could not be written")
}

fn write(out: &mut impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
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
    fn only_a_closed_pipe_is_quiet() {
        assert!(write(&mut Broken(ErrorKind::BrokenPipe), "text").is_ok());
        assert!(write(&mut Broken(ErrorKind::StorageFull), "text").is_err());
        let mut out = Vec::new();
        write(&mut out, "text\n").unwrap();
        assert_eq!(out, b"text\n");
    }
}
