//! What a network has done, by time: pictures of its links.

use serde::{Deserialize, Serialize};

/// From when to when: seconds, and picoseconds of virtual time if there is one.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Span {
    /// Begin.
    pub from: f64,
    /// End.
    pub to: f64,
    /// Both in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ps: Option<(u64, u64)>,
}

/// What all links have carried in a while.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// When.
    #[serde(flatten)]
    pub span: Span,
    /// Bytes of payload.
    pub bytes: u64,
    /// Flits.
    pub flits: u64,
    /// The links that carried most, with their flits; a report does without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub top: Vec<(u32, u32)>,
}

/// What each link has carried in a while.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Frame {
    /// Larger than those of earlier ones.
    pub id: u64,
    /// When.
    #[serde(flatten)]
    pub span: Span,
    /// By the number of the link, each with its flits.
    pub links: Vec<(u32, u32)>,
}

/// From then on these faults were in force, and these links down.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// Seconds.
    pub t: f64,
    /// Faults, as they are written.
    pub faults: Vec<String>,
    /// Numbers of links.
    pub down: Vec<u32>,
}

/// Answer to [`crate::msg::Request::JobHistory`]: a piece of what has been since a job began. Seconds are the daemon's.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct HistoryPiece {
    /// Picoseconds of a flit on a link.
    pub flit_ps: f64,
    /// Second at which the job began.
    pub began: f64,
    /// As many frames as an answer has room for.
    pub frames: Vec<Frame>,
    /// Steps; with the first piece alone.
    pub steps: Vec<Step>,
    /// Changes of faults; with the first piece alone.
    pub changes: Vec<Change>,
    /// Frame after which to go on, unless that was all.
    pub next: Option<u64>,
}

impl Span {
    /// Lasts until the end of one that follows.
    pub fn join(&mut self, later: Span) {
        self.to = later.to;
        self.ps = match (self.ps, later.ps) {
            (Some((from, _)), Some((_, to))) => Some((from, to)),
            (one, other) => one.or(other),
        };
    }
}
