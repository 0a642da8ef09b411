//! A real browser, driven by WebDriver over plain HTTP, where Chromium and its driver are present.

use super::http;
use crate::process::{Running, Test, poll_until};
use crate::tools;
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

/// A window of a browser without a screen.
pub struct Browser {
    driver: Running,
    at: SocketAddr,
    session: String,
    downloads: PathBuf,
}

impl Browser {
    /// Starts one; `None` where there is none.
    pub fn start(test: &Test, size: (u32, u32)) -> Option<Browser> {
        if !tools::have("chromedriver") || !tools::have("chromium") {
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let mut command = test.command("chromedriver");
        command
            .arg(format!("--port={port}"))
            .env("HOME", test.file("browser"))
            .env("XDG_RUNTIME_DIR", test.file("browser"));
        let driver = test.spawn(command);
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        assert!(poll_until(|| TcpStream::connect(at).is_ok()), "chromedriver does not listen: {}", driver.so_far());
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            &format!("--window-size={},{}", size.0, size.1),
            &format!("--user-data-dir={}", test.file("profile").display()),
        ];
        let downloads = test.file("downloads");
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": args, "prefs": { "download.default_directory": downloads } },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let mut browser = Browser { driver, at, session: String::new(), downloads };
        let made = browser.ask("POST", "/session", &wanted);
        browser.session = format!("/session/{}", made["sessionId"].as_str().unwrap_or_else(|| panic!("{made}")));
        Some(browser)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let headers = ["Host: localhost", "Content-Type: application/json"];
        let answer = http::ask(self.at, method, &format!("{}{path}", self.session), &headers, &body);
        let value: Value = serde_json::from_str(&answer.body).unwrap_or_else(|e| panic!("{path}: {e}: {answer:?}"));
        assert_eq!(answer.status, 200, "{path}: {value}");
        value["value"].clone()
    }

    pub fn open(&self, url: &str) {
        self.ask("POST", "/url", &json!({ "url": url }));
    }

    /// Returns what a JavaScript expression is in the page; null if it cannot be had yet.
    pub fn eval(&self, expression: &str) -> Value {
        let script = format!("try {{ return {expression}; }} catch (e) {{ return null; }}");
        self.ask("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true; `what` is said if it does not become so.
    pub fn wait(&self, what: &str, expression: &str) {
        let done = poll_until(|| self.eval(expression) == Value::Bool(true));
        assert!(
            done,
            "{what}: {expression} does not become true; the page says {}; {}",
            self.text(),
            self.complaints()
        );
    }

    /// Presses the mouse at a place of the page.
    pub fn click(&self, x: f64, y: f64) {
        let steps = json!([
            { "type": "pointerMove", "duration": 0, "x": x.round() as i64, "y": y.round() as i64 },
            { "type": "pointerDown", "button": 0 },
            { "type": "pointerUp", "button": 0 },
        ]);
        let mouse = json!({ "type": "pointer", "id": "m", "parameters": { "pointerType": "mouse" }, "actions": steps });
        self.ask("POST", "/actions", &json!({ "actions": [mouse] }));
    }

    /// Where the middle of an element is.
    pub fn middle(&self, selector: &str) -> (f64, f64) {
        let script = format!(
            "(() => {{ const e = document.querySelector({}); e.scrollIntoView({{block: 'center'}}); \
             const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()",
            Value::from(selector)
        );
        let at = self.eval(&script);
        let number = |i: usize| at[i].as_f64().unwrap_or_else(|| panic!("{selector} is nowhere: {}", self.text()));
        (number(0), number(1))
    }

    /// Chooses a file for an input of the page.
    pub fn choose_file(&self, selector: &str, file: &Path) {
        let found = self.ask("POST", "/element", &json!({ "using": "css selector", "value": selector }));
        let id = found.as_object().and_then(|all| all.values().next()).and_then(Value::as_str).expect("an element");
        self.ask("POST", &format!("/element/{id}/value"), &json!({ "text": file }));
    }

    /// The file with this ending that the page has had saved: its name, and what is in it.
    pub fn saved(&self, ending: &str) -> (String, Vec<u8>) {
        let find = || {
            let files = std::fs::read_dir(&self.downloads).ok()?;
            files.flatten().map(|file| file.path()).find(|path| path.extension().is_some_and(|end| end == ending))
        };
        assert!(poll_until(|| find().is_some()), "no {ending} is saved; {}", self.complaints());
        let path = find().expect("it was there");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read(path).expect("a file"))
    }

    /// All text of the page.
    pub fn text(&self) -> String {
        self.eval("document.body.innerText").as_str().unwrap_or_default().to_string()
    }

    /// Errors and warnings that the browser noted since the last call.
    pub fn complaints(&self) -> Value {
        let log = self.ask("POST", "/se/log", &json!({ "type": "browser" }));
        let bad = |entry: &&Value| matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING"));
        log.as_array().map(|all| all.iter().filter(bad).cloned().collect()).unwrap_or_default()
    }

    /// Closes it.
    pub fn end(self) {
        self.ask("DELETE", "", &Value::Null);
        self.driver.signal(rustix::process::Signal::TERM);
        self.driver.wait(crate::process::PATIENCE);
    }
}
