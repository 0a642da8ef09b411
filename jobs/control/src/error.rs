//! How a command fails: what went wrong, what to do about it, and the exit code.
//!
//! Exit codes: 2 for wrong usage, 1 for a failure at run time, 130 for work ended with Ctrl-C, 126 and 127 for a program that
//! cannot be executed or does not exist (as in a shell), 124 for a timeout (as `timeout(1)`),
//! otherwise the program's own.

use angara_protocol::msg::Failure;
use angara_protocol::print::plain_json;
use angara_protocol::trust::Distrust;
use serde::Serialize;
use std::fmt::Display;

/// A failure of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The failure, naming the value.
    pub message: String,
    /// The remedy; empty where nothing can be done.
    pub remedy: String,
    /// Exit code.
    pub code: u8,
}

impl Failed {
    /// Wrong usage: exit code 2.
    pub fn usage(message: impl Into<String>, remedy: impl Into<String>) -> Failed {
        Failed { message: message.into(), remedy: remedy.into(), code: 2 }
    }
    /// A failure at run time: exit code 1.
    pub fn runtime(message: impl Into<String>, remedy: impl Into<String>) -> Failed {
        Failed { message: message.into(), remedy: remedy.into(), code: 1 }
    }
    /// Another exit code.
    pub fn with_code(mut self, code: u8) -> Failed {
        self.code = code;
        self
    }
    /// Writes both lines to standard error.
    pub fn print(&self, name: &str) {
        angara_protocol::complain!("{name}: error: {}", self.message);
        if !self.remedy.is_empty() {
            angara_protocol::complain!("{name}: try: {}", self.remedy);
        }
    }
    /// A file that was asked for could not be written when there was something to write: one exit code for all of them.
    pub fn unwritten(what: impl Display, error: &std::io::Error) -> Failed {
        Failed::runtime(
            format!("cannot write {what}: {error}"),
            "make room where it goes (`df`, `ulimit -f`), or name another place",
        )
    }
    /// Standard output took less than all.
    pub fn output(error: &std::io::Error) -> Failed {
        Failed::runtime(
            format!("cannot write to standard output: {error}"),
            "make room where it goes (`df`, `ulimit -f`), or send it elsewhere",
        )
    }
}

/// The system starts no more threads.
pub fn no_thread(error: std::io::Error) -> Failed {
    Failed::runtime(format!("cannot start a thread: {error}"), "end other processes, or raise the limit (ulimit -u)")
}

/// [`print`](error::print) with a line, as `println!` has it.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::error::print(format_args!("{}\n", format_args!($($text)*)))
    };
}
pub use crate::say;

/// Prints a result, all of it before this returns: the one way to standard output for every command.
pub fn print(text: impl Display) -> Result<(), Failed> {
    angara_protocol::print::out(&text.to_string()).map_err(|e| Failed::output(&e))
}

/// Prints a result as JSON. It has names that others chose, and may be read in a terminal.
pub fn print_json(result: &impl Serialize) -> Result<(), Failed> {
    let text = serde_json::to_string_pretty(result).expect("results are plain data");
    print(format_args!("{}\n", plain_json(&text)))
}

impl From<Failure> for Failed {
    fn from(f: Failure) -> Failed {
        Failed::runtime(f.message, f.remedy)
    }
}

impl From<Distrust> for Failed {
    fn from(d: Distrust) -> Failed {
        Failed::runtime(d.to_string(), d.remedy())
    }
}
