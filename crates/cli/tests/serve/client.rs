//! A server of the binary for a test, and a client that speaks just enough HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::binary::{command, wait_until, with_words, write};

/// Time after which an answer counts as missing.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. It is killed when it is dropped.
pub struct Served {
    child: Child,
    pub addr: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
}

/// Starts a server at a free port.
pub fn serve(arguments: &[&str]) -> Served {
    let mut whole = vec!["serve", "--addr", "127.0.0.1:0"];
    whole.extend(arguments);
    let mut child = command(&whole).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let (lines, to) = (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&log));
    thread::spawn(move || lines.map_while(Result::ok).for_each(|line| to.lock().unwrap().push(line)));
    let address = || {
        let log = log.lock().unwrap();
        let rest = log.iter().find_map(|line| line.split_once("http://").map(|(_, rest)| rest.to_string()))?;
        rest.split([',', '"', ' ']).next()?.parse().ok()
    };
    let start = Instant::now();
    let addr = loop {
        if let Some(addr) = address() {
            break addr;
        }
        if let Some(status) = child.try_wait().unwrap() {
            panic!("the server ended with {status}: {:?}", log.lock().unwrap());
        }
        assert!(start.elapsed() < PATIENCE, "the server does not listen: {:?}", log.lock().unwrap());
        thread::sleep(Duration::from_millis(5));
    };
    Served { child, addr, log }
}

impl Served {
    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let done = std::process::Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(done.unwrap().success());
    }

    /// Waits for the server to end.
    pub fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the server does not end: {:?}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the memory of the server in bytes.
    #[cfg(target_os = "linux")]
    pub fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, document: &Value) -> Answer {
        self.ask("POST", path, &[("content-type", "application/json")], document.to_string().as_bytes())
    }

    /// Posts a document, whose answer must be a success.
    #[track_caller]
    pub fn done(&self, path: &str, document: &Value) -> Value {
        let answer = self.post(path, document);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.try_ask(method, path, headers, body).unwrap()
    }

    pub fn try_ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> std::io::Result<Answer> {
        let mut stream = self.connect()?;
        stream.write_all(&request(method, path, headers, body))?;
        Answer::read(stream)
    }

    pub fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(self.addr)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Returns the sum of a metric over its labels.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").text();
        let lines =
            text.lines().filter(|line| line.starts_with(&format!("{name}{{")) || line.starts_with(&format!("{name} ")));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// Waits until a metric has a value.
    #[track_caller]
    pub fn wait_for_metric(&self, name: &str, is_so: impl Fn(f64) -> bool) {
        wait_until(name, || {
            thread::sleep(Duration::from_millis(10));
            is_so(self.metric(name))
        });
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the bytes of a request; the connection is closed after the answer.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    let has = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    if !has("host") {
        head += "host: localhost\r\n";
    }
    if !has("content-length") && !has("transfer-encoding") && method != "GET" {
        head += &format!("content-length: {}\r\n", body.len());
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn read(stream: impl Read) -> std::io::Result<Self> {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Err(std::io::Error::other(format!("the answer ends in its head: {head:?}")));
            }
        }
        let head = head.to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        let mut body = Vec::new();
        let length = field(&head, "content-length").and_then(|length| length.parse().ok());
        match length {
            Some(length) => {
                body.resize(length, 0);
                reader.read_exact(&mut body)?;
            }
            None if head.contains("transfer-encoding: chunked") => {
                while let Some(chunk) = read_chunk(&mut reader)? {
                    body.extend(chunk);
                }
            }
            None => drop(reader.read_to_end(&mut body)?),
        }
        Ok(Self { status, head, body })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Returns the documents of a stream of events, without the last, `[DONE]`.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        let text = self.text();
        let mut events: Vec<&str> = text.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
        assert_eq!(events.pop(), Some("[DONE]"), "{text}");
        events.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    /// Fails unless the answer is an error of this status in the one shape that errors have.
    #[track_caller]
    pub fn is_error(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        let error = self.json()["error"].clone();
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
        assert!(error["type"].is_string() && error["code"].is_string(), "{error}");
        assert!(error.as_object().unwrap().contains_key("param"), "{error}");
        assert!(self.header("x-request-id").is_some(), "{}", self.head);
        error
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    // Chromedriver writes no space after the colon.
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

/// Reads a chunk of a chunked body; `None` at its end.
pub fn read_chunk(reader: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let length =
        usize::from_str_radix(line.trim(), 16).map_err(|_| std::io::Error::other(format!("no chunk: {line:?}")))?;
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk)?;
    chunk.truncate(length);
    Ok((length > 0).then_some(chunk))
}

/// Returns the path of a small checkpoint.
pub fn golden(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/hugging_face").join(name).display().to_string()
}

/// A folder of a small language model with a word for each token, `w0 w1 …`, and a chat template. Nothing ends its texts.
pub struct Llama(tempfile::TempDir);

impl Llama {
    pub fn new() -> Self {
        let place = with_words(&golden("llama"), 48);
        let template = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}{% endif %}\
                        w1 {{ m.content }} w2 {% endfor %}w3";
        write(&place, "chat_template.jinja", template);
        Self(place)
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().to_path_buf()
    }

    /// Returns the argument that serves the model under a name.
    pub fn named(&self, name: &str) -> String {
        format!("{name}={}", self.0.path().display())
    }
}
