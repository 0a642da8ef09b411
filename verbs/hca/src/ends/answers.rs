//! What a pair has taken of its peer, and what it answers.

use crate::core::Pieces;
use crate::request::ReceiveRequest;
use crate::wire::{Head, Outcome, Part};
use std::collections::VecDeque;

/// Answers that wait for a peer at most, which is more than any peer causes that keeps to its number of reads.
const ANSWERS: usize = 256;

#[derive(Default)]
pub(crate) struct Responder {
    /// Number of the next request.
    pub(crate) expected: u32,
    /// The message that has come in part.
    pub(crate) inbound: Option<Inbound>,
    /// Bytes of a write that have come in part.
    pub(crate) written: u32,
    pub(crate) answers: VecDeque<Answer>,
    /// The initiator waits for a receive request, or for this pair to become ready.
    pub(crate) owes_go: bool,
}

pub(crate) struct Inbound {
    pub(crate) request: ReceiveRequest,
    pub(crate) pieces: Pieces,
    /// Regions that were lost before these pieces were found.
    pub(crate) found: u64,
    pub(crate) part: Part,
}

pub(crate) enum Answer {
    Ack { number: u32, attempt: u8, outcome: Outcome },
    Data { number: u32, attempt: u8, key: u32, at: u64, total: u32, sent: u32 },
    Old { number: u32, attempt: u8, word: u64 },
    Go,
}

impl Responder {
    /// The receive request of a message that will not end.
    pub(crate) fn give_up(&mut self) -> Option<ReceiveRequest> {
        self.inbound.take().map(|inbound| inbound.request)
    }

    /// Nothing more is taken of a peer that does not read its answers.
    pub(crate) fn is_full(&self) -> bool {
        self.answers.len() >= ANSWERS
    }

    /// The initiator may have tried already.
    pub(crate) fn is_ready(&mut self) {
        self.answers.push_back(Answer::Go);
    }

    pub(crate) fn ack(&mut self, head: Head, outcome: Outcome) {
        let (number, attempt) = (head.number, head.attempt);
        // An answer is one to all before it, too.
        if let (Outcome::Done, Some(Answer::Ack { number: last, attempt: then, outcome: Outcome::Done })) =
            (outcome, self.answers.back_mut())
        {
            (*last, *then) = (number, attempt);
            return;
        }
        self.answers.push_back(Answer::Ack { number, attempt, outcome });
    }
}
