//! The send queue of a pair: what has gone, what is done.

use crate::completion::Status;
use crate::core::Pieces;
use crate::request::SendRequest;
use std::collections::VecDeque;

/// How often an initiator that waits looks whether its peer is there.
const LOOK: u64 = 20_000_000;

#[derive(Default)]
pub(crate) struct Initiator {
    pub(crate) queue: VecDeque<Posted>,
    /// Number of the first in the queue.
    pub(crate) first: u32,
    /// Index of the one that goes next, or is going.
    pub(crate) next: usize,
    /// Its first part has gone, and so many bytes of it.
    pub(crate) going: Option<u32>,
    /// Places that are taken: also by what is complete, until a completion is polled.
    pub(crate) used: u32,
    /// What has succeeded without a completion since the last one.
    pub(crate) silent: u32,
    pub(crate) attempt: u8,
    /// Nothing goes before that time.
    pub(crate) stall: Option<u64>,
    pub(crate) rnr_left: Option<u8>,
    pub(crate) retries_left: Option<u8>,
    /// When the first of what the peer has not answered went.
    pub(crate) heard: u64,
    /// When the peer was found to have left.
    pub(crate) left: Option<u64>,
    /// The first request finds no room at the peer, and nothing is on its way.
    pub(crate) is_blocked: bool,
    /// Whether to tell when nothing is on its way any more.
    pub(crate) tell_drained: bool,
    pub(crate) is_watched: bool,
}

pub(crate) struct Posted {
    pub(crate) request: SendRequest,
    pub(crate) fate: Fate,
    /// Of a read: bytes that have come.
    pub(crate) got: u32,
    /// A read or atomic that has gone.
    pub(crate) reads: bool,
    pub(crate) pieces: Pieces,
    /// Regions that were lost before these pieces were found.
    pub(crate) found: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    Done,
    Failed(Status),
}

impl Initiator {
    pub(crate) fn on_way(&self) -> bool {
        self.next > 0 || self.going.is_some()
    }

    /// The peer has to do something before it goes on.
    pub(crate) fn waits(&self) -> bool {
        self.on_way() || self.is_blocked
    }

    pub(crate) fn reads_on_way(&self) -> usize {
        self.queue.iter().take(self.next).filter(|posted| posted.reads && posted.fate == Fate::Open).count()
    }

    /// The index of a request that has gone, by its number.
    pub(crate) fn index(&self, number: u32) -> Option<usize> {
        let index = number.wrapping_sub(self.first) as usize;
        (index < self.next + usize::from(self.going.is_some())).then_some(index)
    }

    /// All before this one are done, but for what is completed by its data.
    pub(crate) fn done_before(&mut self, index: usize) {
        for posted in self.queue.iter_mut().take(index) {
            if posted.fate == Fate::Open && !posted.reads {
                posted.fate = Fate::Done;
            }
        }
    }

    /// To begin again with this one.
    pub(crate) fn rewind(&mut self, index: usize) {
        (self.next, self.going) = (index, None);
        self.attempt = self.attempt.wrapping_add(1);
        for posted in self.queue.iter_mut().skip(index) {
            (posted.got, posted.reads) = (0, false);
        }
    }

    pub(crate) fn frees(&mut self, places: u32) {
        self.used = self.used.saturating_sub(places);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.on_way()
    }

    pub(crate) fn drains(&mut self, tell: bool) {
        self.tell_drained = tell;
    }

    /// When it is to be looked at again.
    pub(crate) fn deadline(&self, now: u64) -> Option<u64> {
        self.stall.or_else(|| self.waits().then_some(now + LOOK))
    }
}
