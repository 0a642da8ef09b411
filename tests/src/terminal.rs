//! A terminal of a test, with an interactive shell on it: what a user types and sees.

use crate::process::{PATIENCE, Test, wait_readable};
use crate::tools;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};

/// A `bash` with job control on a terminal of its own. Killed when dropped.
pub struct Terminal {
    master: File,
    shell: Child,
    /// What came since the last match.
    unread: String,
    /// All that came.
    all: String,
}

impl Terminal {
    /// Starts it in the test's environment, with the commands under test in `PATH`, and waits for its prompt.
    pub fn new(test: &Test) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a machine has pseudoterminals");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it is ours");
        let end = ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("it is unlocked");
        // Wide, so that the shell's line editing cuts nothing off.
        let size = Winsize { ws_row: 50, ws_col: 400, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("it is a terminal");
        let copy = || Stdio::from(end.try_clone().expect("descriptors are left"));
        let path = format!("{}:{}", tools::profile_dir().display(), std::env::var("PATH").unwrap_or_default());
        let mut command = test.command("setsid");
        command.args(["--ctty", "bash", "--norc", "--noprofile", "-i"]);
        command.env("PATH", path).env("PS1", "ready> ").env("TERM", "dumb").env("HOME", test.file(""));
        command.env_remove("DEBUGINFOD_URLS");
        let shell = command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().expect("setsid and bash are there");
        let mut terminal = Terminal { master: master.into(), shell, unread: String::new(), all: String::new() };
        terminal.expect("ready> ");
        terminal
    }

    /// Types `text`; `\x03` is Ctrl-C, `\x1a` Ctrl-Z.
    pub fn keys(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("the terminal is open");
    }

    /// Types a line and waits for `answer` behind its echo.
    pub fn line(&mut self, text: &str, answer: &str) -> String {
        self.keys(&format!("{text}\n"));
        self.expect(text);
        self.expect(answer)
    }

    /// Waits until `text` appears, and returns what came before it.
    pub fn expect(&mut self, text: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            if let Some((before, after)) = self.unread.split_once(text) {
                let (before, after) = (before.to_string(), after.to_string());
                self.unread = after;
                return before;
            }
            let came = wait_readable(&self.master, PATIENCE).then(|| self.master.read(&mut buffer).unwrap_or(0));
            let Some(n @ 1..) = came else {
                panic!("`{text}` did not appear on the terminal within {PATIENCE:?}:\n{}", self.all)
            };
            let part = String::from_utf8_lossy(&buffer[..n]);
            self.unread.push_str(&part);
            self.all.push_str(&part);
        }
    }

    /// Ends the shell.
    pub fn leave(mut self) {
        self.keys("exit\n");
        self.expect("exit");
        assert!(self.shell.wait().is_ok());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
