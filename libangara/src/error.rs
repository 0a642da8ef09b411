//! Errors between a program and its adapter, each with the value and the remedy.

use angara_abi::channel::Fault;
use angara_protocol::launch::LaunchError;
use angara_protocol::msg::Failure;
use angara_protocol::trust::Distrust;
use std::path::PathBuf;
use std::{fmt, io};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(thiserror::Error)]
pub enum Error {
    /// The process was not started as part of a job.
    #[error(transparent)]
    NotLaunched(#[from] LaunchError),
    /// The launcher that started this process does not keep to its protocol, or the job could not be made.
    #[error("{0}")]
    Launcher(String),
    /// The daemon's socket cannot be reached.
    #[error("cannot reach fabricd at {}: {source}; start the job with `angara run`, or see `angara status`", path.display())]
    Connect {
        /// The adapter socket.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Nobody knows who would answer there.
    #[error("{0}; {remedy}", remedy = .0.remedy())]
    Distrust(Distrust),
    /// The daemon went away, or answered something this version does not understand.
    #[error("fabricd: {0}")]
    Daemon(String),
    /// The daemon refused, and says what to do.
    #[error("{}; {}", .0.message, .0.remedy)]
    Refused(Failure),
    /// A page the daemon handed over is not what it should be.
    #[error("the {what} from fabricd cannot be used: {why}; rebuild so that daemon and library have one version")]
    Layout {
        /// Which page.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// The kernel refused something.
    #[error("{what}: {source}")]
    System {
        /// The attempt.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No route to the target, or the target is gone.
    #[error(
        "PE {pe} at node {node} ({coords}) is unreachable: every route is dead or the PE is gone; \
         see `angara status`, clear the fault or place the job elsewhere with --map or --alloc auto"
    )]
    Unreachable {
        /// Target PE.
        pe: usize,
        /// Its node.
        node: u32,
        /// Coordinates of that node.
        coords: String,
    },
    /// The adapter stopped serving this process's injection channel (its sticky error state).
    #[error("the adapter stopped this PE's injection channel: {} ({post})", fault.describe())]
    Channel {
        /// Why.
        fault: Fault,
        /// Which post.
        post: String,
    },
    /// The job is being ended: another PE failed, or the launcher went away.
    #[error("the job is being ended by its launcher or by another PE")]
    JobEnded,
    /// Another PE exited instead of starting again.
    #[error("PE {pe} has exited; all PEs of a job start again together, or none does")]
    Alone {
        /// The PE that left.
        pe: usize,
    },
    /// Nothing happened for longer than `ANGARA_TIMEOUT`.
    #[error("timeout: no progress for {seconds} s while waiting for {what} (limit set by ANGARA_TIMEOUT)")]
    Timeout {
        /// Subject of the wait.
        what: String,
        /// The limit in seconds.
        seconds: f64,
    },
    /// In virtual time: every PE waits and nothing is on its way.
    #[error("deadlock at {ns} ns: every PE waits and nothing is on its way; this PE waits for {what}")]
    Deadlock {
        /// Subject of the wait.
        what: String,
        /// Since when, in nanoseconds of virtual time.
        ns: u64,
    },
    /// The caller asked for something that cannot be.
    #[error("{0}")]
    Invalid(String),
    /// A forked child used its parent's job.
    #[error("a forked child process cannot communicate through its parent's adapter; start it with `angara run`")]
    Forked,
}

/// As its text: it is what a program says whose `main` returns an error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    pub(crate) fn system(what: &'static str, source: impl Into<io::Error>) -> Error {
        Error::System { what, source: source.into() }
    }
    pub(crate) fn layout(what: &'static str, why: impl ToString) -> Error {
        Error::Layout { what, why: why.to_string() }
    }
    pub(crate) fn invalid(text: impl Into<String>) -> Error {
        Error::Invalid(text.into())
    }
}
