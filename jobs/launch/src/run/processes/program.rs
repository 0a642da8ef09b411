//! The program of a job, and how its processes are started.

use super::wrap::Wrap;
use angara_recordings::notes::Notes;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// The program every PE runs.
pub struct Program {
    pub file: PathBuf,
    /// Its `argv`, from `argv[0]` on.
    pub argv: Vec<OsString>,
    /// Environment: on top of this process's own, or the whole of it where `directory` is given.
    pub env: Vec<(OsString, OsString)>,
    /// Where to run it, if not here.
    pub directory: Option<PathBuf>,
    /// Put the PE's number before each line of output.
    pub label: bool,
    /// Commands that start it on some PEs.
    pub wraps: Vec<Wrap>,
    /// Where what PEs of other hosts note of their calls is to come, if they note them.
    pub notes: Option<Arc<Notes>>,
}
