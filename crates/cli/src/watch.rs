//! `regard train --watch`: the inspector beside a training run, on this machine only.

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use regard_serve::{Control, Limits, LogFormat, Options, Runs, ServeError, Server};
use regard_tasks::train::{Event, Observer};
use regard_tasks::weights::Storage;

/// An observer that shows the run it hears of in the inspector, and passes all events on.
pub struct Watched {
    inner: Box<dyn Observer>,
    control: Control,
    server: Option<JoinHandle<()>>,
}

impl Watched {
    /// Creates an observer around another one.
    pub fn new(inner: Box<dyn Observer>) -> Self {
        Self { inner, control: Control::default(), server: None }
    }

    /// Starts the server and returns the address of the page.
    fn start(&mut self, folder: &Path) -> Result<String, ServeError> {
        let options = Options {
            models: Vec::new(),
            runs: Some(Runs::One(folder.to_path_buf())),
            addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            token: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            limits: Limits { drain: Duration::from_millis(500), ..Limits::default() },
            threads: 1,
            storage: Storage::F32,
            log: LogFormat::Off,
            reload: false,
        };
        let server = Server::bind(options)?;
        let addr = server.addr()?;
        let control = self.control.clone();
        // If the server fails, the training goes on.
        self.server = Some(thread::spawn(move || drop(server.run(&control))));
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
        let name = folder.file_name().or_else(|| whole.file_name()).unwrap_or_default();
        Ok(format!("http://{addr}/?run={}", encoded(&name.to_string_lossy())))
    }
}

impl Observer for Watched {
    fn hear(&mut self, event: &Event) {
        self.inner.hear(event);
        let Event::Started { folder, .. } = event else { return };
        let said = match self.start(folder) {
            Ok(page) => Event::Note(format!("watch it at {page}")),
            Err(error) => Event::Warning(format!("--watch: {error}")),
        };
        self.inner.hear(&said);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.control.stop.store(true, Ordering::Relaxed);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// Encodes a name for the query of an address.
fn encoded(name: &str) -> String {
    let mut found = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => found.push(char::from(byte)),
            byte => {
                let _ = write!(found, "%{byte:02X}");
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        assert_eq!(encoded("tag-2"), "tag-2");
        assert_eq!(encoded("a b&é"), "a%20b%26%C3%A9");
    }
}
