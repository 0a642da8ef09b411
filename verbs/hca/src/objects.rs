//! Protection domains, completion queues and shared receive queues.

use crate::completion::Completion;
use crate::handles::{Pd, Qp};
use crate::request::ReceiveRequest;
use std::collections::VecDeque;

/// Most there can be of each, of one adapter. All are ours.
pub mod limits {
    /// Protection domains.
    pub const PDS: usize = 1 << 16;
    /// Regions.
    pub const REGIONS: usize = 1 << 17;
    /// Completion queues.
    pub const CQS: usize = 1 << 16;
    /// Entries of a completion queue.
    pub const CQ_ENTRIES: u32 = (1 << 22) - 1;
    /// Shared receive queues.
    pub const SRQS: usize = 1 << 14;
    /// Queue pairs.
    pub const PAIRS: usize = 1 << 16;
    /// Requests of a queue.
    pub const REQUESTS: u32 = 1 << 15;
    /// Pieces of memory of a request.
    pub const ELEMENTS: u32 = 32;
    /// Bytes in a request.
    pub const INLINE: u32 = 1024;
    /// Bytes of a request itself that every queue pair takes.
    pub const INLINE_LEAST: u32 = 64;
    /// Reads and atomics of a queue pair on their way.
    pub const READS: u8 = 16;
    /// Bytes of a message.
    pub const MESSAGE: u32 = 1 << 31;
    /// Bytes of a datagram.
    pub const DATAGRAM: u32 = 4096;
}

/// An entry with what polling it frees.
pub(crate) struct Entry {
    pub(crate) completion: Completion,
    /// Places of the send queue.
    pub(crate) frees: u32,
}

/// When a completion queue tells its channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Armed {
    No,
    /// At a solicited completion, or one that failed.
    Solicited,
    Any,
}

pub(crate) struct CompletionQueue {
    pub(crate) entries: VecDeque<Entry>,
    pub(crate) capacity: u32,
    pub(crate) channel: Option<u64>,
    pub(crate) armed: Armed,
    pub(crate) overrun: bool,
    /// Queue pairs that use it, as one or the other.
    pub(crate) users: u32,
}

/// Sizes and limit of a shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SrqAttributes {
    /// Requests it holds at most.
    pub wr: u32,
    /// Pieces of a request.
    pub sge: u32,
    /// Below so many requests, an event comes once.
    pub limit: u32,
}

pub(crate) struct SharedReceiveQueue {
    pub(crate) pd: Pd,
    pub(crate) attributes: SrqAttributes,
    pub(crate) requests: VecDeque<ReceiveRequest>,
    /// Queue pairs that use it.
    pub(crate) users: u32,
    /// Queue pairs whose peers wait for a receive.
    pub(crate) starved: Vec<Qp>,
}
