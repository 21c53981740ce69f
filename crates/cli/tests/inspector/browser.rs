//! A headless Chromium, driven through chromedriver by the plain JSON of WebDriver: a library for it would add a runtime and a
//! client of HTTP to the build of the tests.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::{Answer, request};

/// Time after which the page counts as not doing what it should.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for chromedriver to start.
const START: Duration = Duration::from_secs(20);

/// Key under which WebDriver gives elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one window. It ends with its driver when it is dropped.
pub struct Browser {
    driver: Child,
    addr: SocketAddr,
    session: String,
    /// Profile, new for each browser.
    _profile: tempfile::TempDir,
}

/// Scheme of colours that the browser says it prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

impl Browser {
    /// Starts a browser, or says why the test is skipped.
    pub fn start() -> Option<Self> {
        let binary = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| is_there(name));
        let (Some(binary), true) = (binary, is_there("chromedriver")) else {
            eprintln!("skipped: needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)");
            return None;
        };
        let mut driver = Command::new("chromedriver")
            .args(["--port=0", "--log-level=SEVERE"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, port) = mpsc::channel();
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let found = line
                    .split_once("successfully on port ")
                    .and_then(|(_, rest)| rest.trim_end_matches('.').parse().ok());
                if let Some(port) = found {
                    let _: Result<(), mpsc::SendError<u16>> = sender.send(port);
                }
            }
        });
        let addr = SocketAddr::from(([127, 0, 0, 1], port.recv_timeout(START).expect("chromedriver says its port")));
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self { driver, addr, session: String::new(), _profile: profile };
        let directory = format!("--user-data-dir={}", browser._profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            &directory,
        ];
        let options = json!({ "binary": path_of(binary), "args": arguments });
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let begun = browser.call("POST", "/session", Some(&wanted));
        browser.session = begun["sessionId"].as_str().unwrap().to_string();
        browser.size(1280, 900);
        Some(browser)
    }

    #[track_caller]
    fn call(&self, method: &str, path: &str, document: Option<&Value>) -> Value {
        self.try_call(method, path, document).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    fn try_call(&self, method: &str, path: &str, document: Option<&Value>) -> Result<Value, String> {
        let said = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(self.addr).map_err(said)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(said)?;
        let body = document.map(Value::to_string).unwrap_or_default();
        let host = self.addr.to_string();
        let headers = [("host", host.as_str()), ("content-type", "application/json; charset=utf-8")];
        stream.write_all(&request(method, path, &headers, body.as_bytes())).map_err(said)?;
        let mut answer = Answer::read(stream).map_err(said)?.json();
        match answer["value"]["error"].as_str() {
            Some(error) => Err(format!("{error}: {}", answer["value"]["message"])),
            None => Ok(answer["value"].take()),
        }
    }

    fn own(&self, path: &str) -> String {
        format!("/session/{}{path}", self.session)
    }

    /// Sends a command of Chromium's own protocol.
    fn chromium(&self, command: &str, parameters: Value) -> Value {
        self.call("POST", &self.own("/goog/cdp/execute"), Some(&json!({ "cmd": command, "params": parameters })))
    }

    /// Sets the size of the page in pixels.
    pub fn size(&self, width: usize, height: usize) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.chromium("Emulation.setDeviceMetricsOverride", size);
    }

    /// Sets the scheme of colours that the page is to follow.
    pub fn prefer(&self, scheme: Scheme) {
        let value = if scheme == Scheme::Dark { "dark" } else { "light" };
        let features = json!([
            { "name": "prefers-color-scheme", "value": value },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.chromium("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Lets the page save files into a folder.
    pub fn save_into(&self, folder: &Path) {
        let behaviour = json!({ "behavior": "allow", "downloadPath": folder });
        self.chromium("Browser.setDownloadBehavior", behaviour);
    }

    /// Opens an address.
    pub fn open(&self, address: &str) {
        // A page of its own before it, so that an address that differs in its hash alone is loaded, too.
        self.call("POST", &self.own("/url"), Some(&json!({ "url": "about:blank" })));
        self.call("POST", &self.own("/url"), Some(&json!({ "url": address })));
    }

    /// Runs the body of a function in the page and returns its result.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        self.call("POST", &self.own("/execute/sync"), Some(&json!({ "script": script, "args": [] })))
    }

    /// Waits until an expression is true in the page.
    #[track_caller]
    pub fn wait(&self, expression: &str) {
        let start = Instant::now();
        let script = format!("try {{ return Boolean({expression}); }} catch (error) {{ return String(error); }}");
        loop {
            let found = self.run(&script);
            if found == json!(true) {
                return;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "the page never has {expression}, but {found}; it says {:?}, console {:?}",
                self.text("#status"),
                self.console()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the text of an element.
    #[track_caller]
    pub fn text(&self, selector: &str) -> String {
        let found =
            self.run(&format!("const found = document.querySelector({selector:?}); return found && found.innerText;"));
        found.as_str().unwrap_or_default().to_string()
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        self.wait(&format!("document.querySelector({selector:?})"));
        let wanted = json!({ "using": "css selector", "value": selector });
        let found = self.call("POST", &self.own("/element"), Some(&wanted));
        found[ELEMENT].as_str().unwrap().to_string()
    }

    /// Clicks on an element.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.call("POST", &self.own(&format!("/element/{element}/click")), Some(&json!({})));
    }

    /// Replaces the text of a field by typing.
    #[track_caller]
    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.call("POST", &self.own(&format!("/element/{element}/clear")), Some(&json!({})));
        self.keys(selector, text);
    }

    /// Types into an element. Special keys are the characters that WebDriver has for them.
    #[track_caller]
    pub fn keys(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.call("POST", &self.own(&format!("/element/{element}/value")), Some(&json!({ "text": text })));
    }

    /// Moves the mouse to a point of an element, from its top left corner.
    #[track_caller]
    pub fn hover(&self, selector: &str, x: f64, y: f64) {
        self.run(&format!("document.querySelector({selector:?}).scrollIntoView({{ block: 'center' }});"));
        let place = self.run(&format!(
            "const box = document.querySelector({selector:?}).getBoundingClientRect(); return [box.left, box.top];"
        ));
        let at = |index: usize, offset: f64| (place[index].as_f64().unwrap() + offset).round() as i64;
        let moving = |x: i64, y: i64| json!({ "type": "pointerMove", "duration": 0, "x": x, "y": y });
        let (x, y) = (at(0, x), at(1, y));
        let actions = json!({ "actions": [{
            "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" },
            "actions": [moving(x + 2, y + 1), moving(x, y)],
        }] });
        self.call("POST", &self.own("/actions"), Some(&actions));
    }

    /// Drops a file on an element, as a person does with the mouse.
    #[track_caller]
    pub fn drop_file(&self, selector: &str, name: &str, kind: &str, content: &[u8]) {
        self.wait(&format!("document.querySelector({selector:?})"));
        let script = format!(
            "const bytes = Uint8Array.from(atob({:?}), (letter) => letter.charCodeAt(0));
             const dataTransfer = new DataTransfer();
             dataTransfer.items.add(new File([bytes], {name:?}, {{ type: {kind:?} }}));
             const on = document.querySelector({selector:?});
             for (const type of ['dragover', 'drop']) {{
               on.dispatchEvent(new DragEvent(type, {{ dataTransfer, bubbles: true, cancelable: true }}));
             }}",
            STANDARD.encode(content)
        );
        self.run(&script);
    }

    /// Moves a slider to a value.
    #[track_caller]
    pub fn slide(&self, selector: &str, value: f64) {
        self.wait(&format!("document.querySelector({selector:?})"));
        self.run(&format!(
            "const slider = document.querySelector({selector:?});
             slider.value = {value};
             for (const type of ['input', 'change']) slider.dispatchEvent(new Event(type, {{ bubbles: true }}));"
        ));
    }

    /// Returns what the console says since it was last asked, without what is only for information.
    pub fn console(&self) -> Vec<String> {
        let found = self.try_call("POST", &self.own("/se/log"), Some(&json!({ "type": "browser" })));
        let list = found.unwrap_or_default();
        let lines = list.as_array().map(Vec::as_slice).unwrap_or_default().iter();
        lines
            .filter(|line| line["level"] == "SEVERE" || line["level"] == "WARNING")
            .map(|line| line["message"].to_string())
            .collect()
    }

    /// Fails if the console has an error or a warning.
    #[track_caller]
    pub fn is_calm(&self) {
        let said = self.console();
        assert!(said.is_empty(), "{said:#?}");
        assert_eq!(self.run("return document.querySelector('#status')?.classList.contains('problem');"), json!(false));
    }

    /// Returns the page as a picture.
    pub fn screenshot(&self) -> Vec<u8> {
        let found = self.call("GET", &self.own("/screenshot"), None);
        STANDARD.decode(found.as_str().unwrap()).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.try_call("DELETE", &self.own(""), None);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn path_of(name: &str) -> Option<String> {
    let folders = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())?;
    Some(found.display().to_string())
}

fn is_there(name: &str) -> bool {
    path_of(name).is_some()
}
