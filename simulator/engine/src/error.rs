//! Errors, each with the value at fault and what to do about it.

use angara_protocol::recording::RecordingError;
use std::path::PathBuf;

/// Why a command of this crate failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A parameter is outside what the model is defined for.
    #[error("{what} is {value}: {remedy}")]
    Invalid {
        /// Name of the parameter as the user types it.
        what: String,
        /// The value given.
        value: String,
        /// Values that would be accepted.
        remedy: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A line of a file is wrong.
    #[error("{path}:{line}: {message}")]
    Setting {
        /// The file.
        path: PathBuf,
        /// Its line, counted from 1.
        line: usize,
        /// The mistake, and what would be right.
        message: String,
    },
    /// A binary file is wrong.
    #[error("{path}: offset {offset}: {message}")]
    Offset {
        /// The file.
        path: PathBuf,
        /// Bytes from its begin.
        offset: u64,
        /// The mistake, and what would be right.
        message: String,
    },
    /// A recording is wrong, or cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The network cannot be built like this.
    #[error("{0}")]
    Network(String),
    /// The user ended a run; holds what became of the results.
    #[error("interrupted: {0}")]
    Interrupted(&'static str),
    /// A chart could not be drawn.
    #[error("cannot draw the chart: {0}")]
    Plot(String),
}

/// Files of traffic are read by another crate; what is wrong with them is said here as of any file.
impl From<angara_traffic::Error> for Error {
    fn from(e: angara_traffic::Error) -> Error {
        use angara_traffic::Error as Of;
        match e {
            Of::Invalid { what, value, remedy } => Error::Invalid { what, value, remedy },
            Of::File { path, source } => Error::File { path, source },
            Of::Line { path, line, message } => Error::Setting { path, line, message },
            Of::Recording(e) => Error::Recording(e),
        }
    }
}

impl Error {
    /// An [`Error::Invalid`].
    pub fn invalid(what: &str, value: impl ToString, remedy: impl Into<String>) -> Error {
        Error::Invalid { what: what.into(), value: value.to_string(), remedy: remedy.into() }
    }

    /// Returns what went wrong, what to do about it (may be empty), and whether the user's input is to
    /// blame rather than the machine.
    pub fn parts(&self) -> (String, String, bool) {
        match self {
            Error::Invalid { what, value, remedy } => (format!("{what} is {value}"), remedy.clone(), true),
            Error::Setting { .. } | Error::Offset { .. } | Error::Network(_) => (self.to_string(), String::new(), true),
            Error::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                (self.to_string(), "give the path of a file that exists".into(), true)
            }
            Error::Recording(RecordingError::Wrong { .. }) => (self.to_string(), String::new(), true),
            Error::Recording(RecordingError::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                (self.to_string(), "give the path of a file that exists".into(), true)
            }
            Error::File { .. } | Error::Recording(_) | Error::Plot(_) | Error::Interrupted(_) => {
                (self.to_string(), String::new(), false)
            }
        }
    }
}
