//! What a launcher and the process that all PEs of its job are in say to each other: a line of JSON each, over a socket that the
//! process inherits.

use angara_abi::JobId;
use serde::{Deserialize, Serialize};

/// Variable with the numbers of two descriptors, with a comma: the socket, and where the daemon's log goes.
pub const ENV_DESCRIPTORS: &str = "ANGARA_PES";
/// Name of the process's program.
pub const PROGRAM: &str = "angara-pes";

/// The launcher's words.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum ToPes {
    /// Start the PEs of a job.
    Start(Box<StartPes>),
    /// Treat them as this signal treats processes.
    Signal(i32),
}

/// PEs to start.
#[derive(Serialize, Deserialize, Debug)]
pub struct StartPes {
    /// The job.
    pub job: JobId,
    /// Its key.
    pub key: String,
    /// PEs of the job.
    pub pes: u32,
    /// File of the program.
    pub file: Vec<u8>,
    /// Its words, the name first.
    pub argv: Vec<Vec<u8>>,
    /// The number of the PE stands before each line of output.
    pub label: bool,
    /// Bytes of a stack.
    pub stack: u64,
}

/// The words of the process.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum FromPes {
    /// Its daemon listens.
    Ready,
    /// The PEs cannot be started: why, and what helps.
    Refused(String, String),
    /// A PE has ended, with the status that a process would have.
    Ended(u32, i32),
}
