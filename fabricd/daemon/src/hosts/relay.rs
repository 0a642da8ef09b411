//! Messages between two daemons, exactly once and in order, over whichever trunks lead from one to the other.
//!
//! A trunk alone keeps order and loses nothing while its session lasts; a message that goes over several, or over another one
//! from now on, may be lost or come twice. Each direction of a pair of hosts therefore counts its pieces, the receiver takes
//! them in order and acknowledges, and the sender sends again what was not acknowledged: at once when the trunks have changed,
//! else after a while.
//!
//! **Contact.** When a host cannot be reached at all, its pending pieces are forgotten and the number of the contact grows.
//! Pieces of an earlier contact are not taken; a later one tells the receiver that the sender has given up what was before, and
//! the receiver does the same. So both ends always agree on what the first piece is.

use angara_net::HostId;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// How long an acknowledgement may take before something is sent again.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pieces sent again without a change of the trunks.
const AGAIN: usize = 8;
/// No honest host counts further, and adding to it does not overflow.
pub(crate) const COUNT_MAX: u64 = 1 << 62;
/// Bytes before what a record carries.
const HEADER: usize = 1 + 2 + 2 + 1 + 8 + 8 + 8 + 8;

/// A record on its way from one daemon to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Packet {
    pub(crate) from: HostId,
    pub(crate) to: HostId,
    /// Hosts it has passed.
    pub(crate) hops: u8,
    /// Lives of the two daemons it is meant between.
    pub(crate) lives: (u64, u64),
    pub(crate) contact: u64,
    pub(crate) body: Body,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    Piece(u64, Vec<u8>),
    /// All pieces before this one have come.
    Taken(u64),
}

/// First byte of a record.
pub(crate) const PIECE: u8 = 2;
pub(crate) const TAKEN: u8 = 3;

impl Packet {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, number, data) = match &self.body {
            Body::Piece(n, data) => (PIECE, *n, &data[..]),
            Body::Taken(n) => (TAKEN, *n, &[][..]),
        };
        let mut out = Vec::with_capacity(HEADER + data.len());
        out.push(kind);
        out.extend_from_slice(&self.from.number().to_le_bytes());
        out.extend_from_slice(&self.to.number().to_le_bytes());
        out.push(self.hops);
        for word in [self.lives.0, self.lives.1, self.contact, number] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(data);
        out
    }

    pub(crate) fn decode(record: &[u8]) -> Option<Packet> {
        let (head, data) = record.split_first_chunk::<HEADER>()?;
        let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        if word(22) > COUNT_MAX || word(30) > COUNT_MAX {
            return None;
        }
        let body = match head[0] {
            PIECE => Body::Piece(word(30), data.to_vec()),
            TAKEN if data.is_empty() => Body::Taken(word(30)),
            _ => return None,
        };
        Some(Packet {
            from: HostId::new(short(1)),
            to: HostId::new(short(3)),
            hops: head[5],
            lives: (word(6), word(14)),
            contact: word(22),
            body,
        })
    }
}

/// What a packet from the other host led to.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    /// The next piece.
    pub(crate) piece: Option<Vec<u8>>,
    pub(crate) answer: Option<Body>,
    /// The other host had lost us.
    pub(crate) broken: bool,
}

/// One pair of hosts, seen from one of them.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) contact: u64,
    next: u64,
    waiting: VecDeque<(u64, Instant, Vec<u8>)>,
    expected: u64,
}

impl Line {
    /// Nothing has been said yet, in this contact.
    pub(crate) fn new(contact: u64) -> Line {
        Line { contact, ..Line::default() }
    }

    /// Forgets everything under way: the other host cannot be reached.
    pub(crate) fn break_off(&mut self) {
        *self = Line { contact: self.contact + 1, ..Line::default() };
    }

    /// The other host has lost touch so often; whether that is news.
    pub(crate) fn adopt(&mut self, contact: u64) -> bool {
        let news = contact > self.contact;
        if news {
            *self = Line { contact, ..Line::default() };
        }
        news
    }

    /// A piece to send.
    pub(crate) fn send(&mut self, now: Instant, piece: Vec<u8>) -> Body {
        self.waiting.push_back((self.next, now, piece.clone()));
        self.next += 1;
        Body::Piece(self.next - 1, piece)
    }

    /// Pieces that the other host has not said it has.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.waiting.len()
    }

    /// Takes what came.
    pub(crate) fn take(&mut self, contact: u64, body: Body) -> Outcome {
        let mut outcome = Outcome::default();
        if contact < self.contact {
            // It shall learn of the later contact.
            outcome.answer = matches!(body, Body::Piece(..)).then_some(Body::Taken(self.expected));
            return outcome;
        }
        outcome.broken = self.adopt(contact);
        match body {
            Body::Piece(number, data) => {
                if number == self.expected {
                    self.expected += 1;
                    outcome.piece = Some(data);
                }
                outcome.answer = Some(Body::Taken(self.expected));
            }
            Body::Taken(upto) => {
                while self.waiting.front().is_some_and(|(number, ..)| *number < upto) {
                    self.waiting.pop_front();
                }
            }
        }
        outcome
    }

    /// Returns what to send again: everything if the trunks `changed`, else a little of what has waited for long.
    pub(crate) fn again(&mut self, now: Instant, changed: bool) -> Vec<Body> {
        let due = |sent: &Instant| changed || now.saturating_duration_since(*sent) >= PATIENCE;
        let limit = if changed { usize::MAX } else { AGAIN };
        let first = self.waiting.iter_mut().take(limit).take_while(|(_, sent, _)| due(sent));
        first
            .map(|(number, sent, data)| {
                *sent = now;
                Body::Piece(*number, data.clone())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet() -> impl Strategy<Value = Packet> {
        let body = prop_oneof![
            (0..=COUNT_MAX, proptest::collection::vec(any::<u8>(), 0..50)).prop_map(|(n, data)| Body::Piece(n, data)),
            (0..=COUNT_MAX).prop_map(Body::Taken),
        ];
        let counts = (0..=COUNT_MAX, any::<(u64, u64)>());
        (any::<(u16, u16, u8)>(), counts, body).prop_map(|((from, to, hops), (contact, lives), body)| Packet {
            from: HostId::new(from),
            to: HostId::new(to),
            hops,
            lives,
            contact,
            body,
        })
    }

    #[test]
    fn a_broken_contact_is_noticed_at_both_ends_and_begins_anew() {
        let now = Instant::now();
        let (mut a, mut b) = (Line::default(), Line::default());
        let lost = a.send(now, b"lost".to_vec());
        let late = a.send(now, b"late".to_vec());
        a.break_off();
        let fresh = a.send(now, b"fresh".to_vec());
        let taken = b.take(1, fresh);
        assert_eq!((taken.piece, taken.broken), (Some(b"fresh".to_vec()), true));
        for old in [lost, late] {
            let taken = b.take(0, old);
            assert_eq!((taken.piece, taken.broken), (None, false));
        }
        // Both having given up at the same time is one break.
        b.break_off();
        a.break_off();
        let hello = b.send(now, b"hello".to_vec());
        let taken = a.take(2, hello);
        assert_eq!((taken.piece, taken.broken), (Some(b"hello".to_vec()), false));
    }

    proptest! {
        #[test]
        fn packets_read_back_as_written(p in packet()) {
            prop_assert_eq!(Packet::decode(&p.encode()), Some(p));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(p) = Packet::decode(&bytes) {
                prop_assert_eq!(p.encode(), bytes);
            }
        }

        /// Pieces that are lost, doubled and reordered on the way still come once and in order.
        #[test]
        fn every_piece_comes_once_and_in_order(
            fates in proptest::collection::vec((0u8..8, any::<proptest::sample::Index>()), 0..300)
        ) {
            let now = Instant::now();
            let (mut a, mut b) = (Line::default(), Line::default());
            let (mut there, mut back): (Vec<Body>, Vec<Body>) = (vec![], vec![]);
            let (mut sent, mut got) = (0u32, Vec::new());
            let mut deliver = |b: &mut Line, body: Body, back: &mut Vec<Body>| {
                let outcome = b.take(0, body);
                got.extend(outcome.piece.map(|p| u32::from_le_bytes(p.try_into().expect("four bytes"))));
                back.extend(outcome.answer);
            };
            for (fate, which) in fates {
                match fate {
                    0..=2 => {
                        there.push(a.send(now, sent.to_le_bytes().to_vec()));
                        sent += 1;
                    }
                    3..=4 if !there.is_empty() => deliver(&mut b, there.swap_remove(which.index(there.len())), &mut back),
                    5 if !there.is_empty() => drop(there.swap_remove(which.index(there.len()))),
                    6 if !back.is_empty() => drop(a.take(0, back.swap_remove(which.index(back.len())))),
                    7 => there.extend(a.again(now, true)),
                    _ => {}
                }
            }
            // In the end the network is good.
            for body in there.drain(..).chain(a.again(now, true)) {
                deliver(&mut b, body, &mut back);
            }
            back.into_iter().for_each(|body| drop(a.take(0, body)));
            prop_assert_eq!(got, (0..sent).collect::<Vec<_>>());
            prop_assert!(a.again(now, true).is_empty());
        }
    }
}
