//! What a rank is given to reach its server, and what it may leave.

use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;

/// A rank's end of its stream, inherited by the next program that is started, and the variables that name it.
pub struct RankEnd {
    /// To be closed here once the program has been started, so that its end is noticed.
    pub stream: OwnedFd,
    /// For the program.
    pub variables: Vec<(String, String)>,
}

impl RankEnd {
    /// Of this stream, for a program with these variables.
    pub fn new(stream: StdStream, mut variables: Vec<(String, String)>) -> io::Result<RankEnd> {
        fcntl_setfd(&stream, FdFlags::empty())?;
        variables.push(("PMI_FD".into(), stream.as_raw_fd().to_string()));
        Ok(RankEnd { stream: stream.into(), variables })
    }
}

/// Removes what ranks of MPICH leave that are killed: each node's shared memory, named after the job.
pub fn remove_shared_memory(name: &str, nodes: usize) {
    for number in 0..nodes {
        // Most often there is none.
        let _ = std::fs::remove_file(format!("/dev/shm/mpich_shm_{:x}_{number}", hash(name)));
    }
}

/// The hash by which MPICH makes a short name of a long one (FNV-1a).
pub(super) fn hash(name: &str) -> u32 {
    name.bytes().fold(2166136261, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16777619))
}
