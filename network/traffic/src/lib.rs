//! Who sends how much to whom, read from a file.
//!
//! Placements and simulations begin with the traffic of a program that has run, or of one that is planned. [`Volumes`] are
//! bytes between processes: of a report of `angara run`, of a recording, or of a matrix. [`rows`] are the rates of a matrix,
//! in any of the forms that are read. A [`TextFile`] names the line of a mistake.
#![warn(missing_docs)] // others read them
#![forbid(unsafe_code)]

mod file;
mod matrix;
mod volumes;

pub use file::TextFile;
pub use matrix::{Rows, rows};
pub use volumes::{Count, LARGEST, Volumes};

use angara_protocol::recording::RecordingError;
use std::path::PathBuf;

/// Version of the reports that are read.
pub const REPORT_FORMAT: u32 = 2;

/// Why a file is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The setting that names the file is wrong.
    #[error("{what} is {value}: {remedy}")]
    Invalid {
        /// Name of the setting as the user types it.
        what: String,
        /// The value given.
        value: String,
        /// What would be accepted.
        remedy: String,
    },
    /// The file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A line of the file is wrong.
    #[error("{path}:{line}: {message}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Its line, counted from 1.
        line: usize,
        /// The mistake, and what would be right.
        message: String,
    },
    /// The file is a recording that is wrong, or cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

impl Error {
    fn invalid(what: &str, value: impl ToString, remedy: impl Into<String>) -> Error {
        Error::Invalid { what: what.into(), value: value.to_string(), remedy: remedy.into() }
    }

    /// Returns what went wrong, and what to do about it where the message does not say so already.
    pub fn parts(&self) -> (String, Option<String>) {
        let missing = match self {
            Error::Invalid { what, value, remedy } => return (format!("{what} is {value}"), Some(remedy.clone())),
            Error::File { source, .. } | Error::Recording(RecordingError::File { source, .. }) => {
                source.kind() == std::io::ErrorKind::NotFound
            }
            Error::Line { .. } | Error::Recording(_) => false,
        };
        (self.to_string(), missing.then(|| "give the path of a file that exists".into()))
    }
}

/// What crates.io shows is compiled and run with the examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
