//! What the daemons of a cluster ask, answer and tell each other.

use super::ballot::{Ballot, Commit, Prepared};
use crate::faults::trunk::TrunkRequest;
use crate::jobs::descriptor::{NewJob, OpenJob};
use angara_abi::{Architecture, JobId};
use angara_net::fault::{Clear, Command};
use angara_protocol::msg::{CaptureSpec, CoreAdvice, Event, Failure, Pairs, Report, Wait};
use serde::{Deserialize, Serialize};

/// What daemons say to each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Message {
    /// A question, answered by [`Message::Answer`] with the same number.
    Ask(u64, Ask),
    Answer(u64, Result<Answer, Failure>),
    /// No answer is expected.
    Tell(Tell),
}

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// First phase of a new job: take what its PEs on your nodes need.
    Reserve(NewJob),
    /// Second phase: every host could, so open it.
    Open(OpenJob),
    /// Traffic of a job, as you have counted it.
    Report(JobId),
    /// Traffic of a job between pairs of PEs, from this source and target on: (job, source, target).
    Pairs(JobId, u32, u32),
    /// What your PEs of a job wait for.
    Waits(JobId),
    /// Load a tree of a job: (job, tree, root, PEs).
    TreeLoad(JobId, u8, u32, Vec<u32>),
    /// You lead: have this fault command done everywhere. It is void after a later change than the given one.
    Lead(Command, Option<u64>),
    /// First phase of a change: let the network stand still, and answer with what you know.
    Prepare(Ballot),
    /// Second phase of a change: go on like this.
    Commit(Box<Commit>),
    /// Do this to your trunks.
    Impair(TrunkRequest),
    /// Forget faults whose time has not come.
    Forget(Vec<Clear>),
    /// Start the launcher's other half for your PEs of a job; its input and output are this stream.
    Agent(JobId, u64),
    /// Capture packets for a user, of this number and name, who gets them by this stream; its end ends the capture.
    Capture(u32, Option<String>, Box<CaptureSpec>, u64),
    /// What your clock shows.
    Clock,
    /// What your links have carried and suffered since the answer of this number, for somebody who looks.
    Links(u64),
    /// What is open of a link of yours, for somebody who looks, by its number ([`angara_net::Link::index`]).
    Link(u32),
    /// The seats of a domain, as you know them.
    Seats(JobId),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    Done,
    Reserved {
        /// Endpoint of each PE that lives there, in order of PE.
        endpoints: Vec<u16>,
        crowded: bool,
        cores: CoreAdvice,
    },
    Report(Box<Report>),
    Pairs(Pairs),
    Waits(Vec<Wait>),
    /// Whether there was anything.
    Forgot(bool),
    /// Nanoseconds since 1970.
    Clock(u64),
    /// Number of the answer, and of each link that has changed: its number, packets, flits, bytes, CRC errors, replays,
    /// duplicates, overtaken packets.
    Links(u64, Vec<u64>),
    /// As the page has it.
    Link(serde_json::Value),
    /// The word of each seat.
    Seats(Vec<u32>),
    /// Not now: a change is under way.
    Later,
    Prepared(Box<Prepared>),
    /// This ballot is lower than one that was promised.
    Refused(Ballot),
    /// Cannot follow.
    Unable,
}

/// A statement.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Tell {
    /// A job of mine is over, or will not be. I have promised this ballot, and shall not name the job for a later one.
    Close(JobId, Ballot),
    /// Something happened to a PE of mine that ends the job or concerns its owner.
    Event(Event),
    /// The seat of a PE of mine has changed: (job, PE, [`angara_abi::job::Seat::to_word`]).
    Seat(JobId, u32, u32),
    /// Program of the first PE of mine: what it was compiled for, and its static segments.
    Statics(JobId, Architecture, Vec<u64>),
    /// A tree of a job is given back.
    TreeClose(JobId, u8),
    /// N bytes of a stream were taken.
    StreamTaken(u64, u32),
    /// No more bytes will come on this stream.
    StreamEnd(u64),
    /// I have been on hold since this ballot.
    Stuck(u64),
    /// The others go on without you: you did not answer.
    Expelled,
}
