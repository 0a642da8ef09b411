//! How a command fails: what went wrong, what to do about it, and the exit code.
//!
//! Exit codes: 2 for wrong usage, 1 for a failure at run time, 130 for work ended with Ctrl-C, 126 and 127 for a program that
//! cannot be executed or does not exist (as in a shell), 124 for a timeout (as `timeout(1)`),
//! otherwise the program's own.

use abi::msg::Failure;

/// A failure of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    /// What went wrong, naming the value.
    pub(crate) message: String,
    /// What to do; may be empty where nothing can be done.
    pub(crate) remedy: String,
    /// Exit code.
    pub(crate) code: u8,
}

impl Failed {
    /// Wrong usage: exit code 2.
    pub(crate) fn usage(message: impl Into<String>, remedy: impl Into<String>) -> Failed {
        Failed { message: message.into(), remedy: remedy.into(), code: 2 }
    }
    /// A failure at run time: exit code 1.
    pub(crate) fn runtime(message: impl Into<String>, remedy: impl Into<String>) -> Failed {
        Failed { message: message.into(), remedy: remedy.into(), code: 1 }
    }
    /// Another exit code.
    pub(crate) fn with_code(mut self, code: u8) -> Failed {
        self.code = code;
        self
    }
    /// Writes both lines to standard error.
    pub(crate) fn print(&self, name: &str) {
        eprintln!("{name}: error: {}", self.message);
        if !self.remedy.is_empty() {
            eprintln!("{name}: try: {}", self.remedy);
        }
    }
}

impl From<Failure> for Failed {
    fn from(f: Failure) -> Failed {
        Failed::runtime(f.message, f.remedy)
    }
}

impl From<sim::Error> for Failed {
    fn from(e: sim::Error) -> Failed {
        let (message, remedy, usage) = e.parts();
        if matches!(e, sim::Error::Interrupted(_)) {
            // As a shell shows what SIGINT has ended.
            return Failed::runtime(message, remedy).with_code(130);
        }
        if usage { Failed::usage(message, remedy) } else { Failed::runtime(message, remedy) }
    }
}
