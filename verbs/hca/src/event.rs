//! What the program is to be told.

use crate::handles::{Cq, Qp, Srq};
use crate::network::Peer;

/// Something that the program is to be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A completion queue that was armed has something for its channel.
    Completion {
        /// The channel, by the number that [`Hca::create_cq`] was given.
        channel: u64,
        /// The queue.
        cq: Cq,
    },
    /// Something about a queue pair.
    Pair(Qp, PairEvent),
    /// A completion queue had no room.
    CqError(Cq),
    /// A shared receive queue has fewer requests than its limit.
    SrqLimit(Srq),
    /// The node of this adapter works (again), or not.
    Port {
        /// It works.
        is_up: bool,
    },
    /// A message of a connection manager.
    Cm {
        /// Who sent it.
        from: Peer,
        /// Its bytes.
        bytes: Vec<u8>,
    },
}

/// Asynchronous events of a queue pair, as `enum ibv_event_type` numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum PairEvent {
    /// It has failed.
    Fatal = 1,
    /// A peer asked for what makes no sense.
    InvalidRequest = 2,
    /// A peer asked for what it has no right to.
    Access = 3,
    /// The first message came before it was ready to send.
    Established = 4,
    /// Its send queue is drained.
    SendQueueDrained = 5,
    /// It takes nothing more from its shared receive queue.
    LastRequestReached = 16,
}
