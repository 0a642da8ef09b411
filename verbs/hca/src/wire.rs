//! Messages between two adapters, as bytes. Whoever writes them may be hostile: every reader checks.
//!
//! ```text
//! kind u8, flags u8, attempt u8, syndrome u8, to u32, from u32, number u32, imm u32, key u32, total u32, offset u32, at u64
//! ```
//!
//! 40 bytes in front of every message; what a kind does not use is 0. Integers are little-endian but for the immediate
//! data, which are bytes.

use crate::completion::Status;
use crate::network::Piece;
use crate::request::Atomic;
use smallvec::SmallVec;

/// Bytes in front of a payload.
pub(crate) const HEAD: usize = 40;
/// Bytes of a piece that a message names.
const PIECE: usize = 16;

const HAS_IMM: u8 = 1;
const SOLICITED: u8 = 2;
const CARRIED: u8 = 4;
const GLOBAL: u8 = 8;

/// Between which queue pairs, and about which request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// Queue pair of the receiver.
    pub(crate) to: u32,
    /// Queue pair of the sender.
    pub(crate) from: u32,
    /// Number of the request, of those of its queue pair.
    pub(crate) number: u32,
    /// How often the initiator has begun again, modulo 256: answers repeat it.
    pub(crate) attempt: u8,
}

/// Which part of a payload is in a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// Bytes of the whole.
    pub(crate) total: u32,
    /// Where the part begins.
    pub(crate) offset: u32,
}

/// What a responder says of a request, and of all before it, which have succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Done,
    /// There was no receive request; the code of the time after which to try again.
    NoReceive(u8),
    /// The queue pair takes nothing, if there is one.
    NotReady,
    Failed(Status),
}

/// What comes with the last part of a message that takes a receive request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Notice {
    pub(crate) imm: Option<u32>,
    pub(crate) solicited: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Packet<'a> {
    Send {
        part: Part,
        notice: Notice,
        payload: &'a [u8],
    },
    /// A send whose payload the receiver copies out of the sender's memory.
    SendFrom {
        total: u32,
        notice: Notice,
        pieces: SmallVec<[Piece; 2]>,
    },
    /// With `carried` the bytes are there already.
    Write {
        at: u64,
        key: u32,
        part: Part,
        notice: Notice,
        carried: bool,
        payload: &'a [u8],
    },
    Read {
        at: u64,
        key: u32,
        total: u32,
    },
    Atomic {
        at: u64,
        key: u32,
        atomic: Atomic,
    },
    /// Answers to a read and an atomic.
    Data {
        part: Part,
        payload: &'a [u8],
    },
    Old {
        word: u64,
    },
    Ack(Outcome),
    /// What was missing is there: try again.
    Go,
    Datagram {
        qkey: u32,
        notice: Notice,
        lid: u16,
        sl: u8,
        grh: Option<[u8; 40]>,
        payload: &'a [u8],
    },
    /// Of connection managers.
    Cm {
        payload: &'a [u8],
    },
}

const KINDS: u8 = 11;

/// What is in front of a message, but for its [`Head`].
struct Fields {
    kind: u8,
    flags: u8,
    syndrome: u8,
    imm: [u8; 4],
    key: u32,
    part: Part,
    at: u64,
}

impl Fields {
    fn write(&self, head: Head) -> SmallVec<[u8; 96]> {
        let mut out = SmallVec::new();
        out.extend_from_slice(&[self.kind, self.flags, head.attempt, self.syndrome]);
        for word in [head.to, head.from, head.number] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.imm);
        for word in [self.key, self.part.total, self.part.offset] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.at.to_le_bytes());
        out
    }
}

impl Packet<'_> {
    /// The front of the message; the payload follows as it is.
    pub(crate) fn front(&self, head: Head) -> SmallVec<[u8; 96]> {
        let mut flags = 0;
        let (mut syndrome, mut imm, mut key, mut at) = (0, [0; 4], 0, 0);
        let mut part = Part { total: 0, offset: 0 };
        let mut more: SmallVec<[u8; 56]> = SmallVec::new();
        let mut say = |notice: &Notice| {
            if let Some(data) = notice.imm {
                (flags, imm) = (flags | HAS_IMM, data.to_ne_bytes());
            }
            flags |= if notice.solicited { SOLICITED } else { 0 };
        };
        let kind = match self {
            Packet::Send { part: here, notice, .. } => {
                say(notice);
                part = *here;
                1
            }
            Packet::SendFrom { total, notice, pieces } => {
                say(notice);
                part.total = *total;
                for piece in pieces {
                    more.extend_from_slice(&piece.at.to_le_bytes());
                    more.extend_from_slice(&piece.len.to_le_bytes());
                }
                2
            }
            Packet::Write { at: to, key: of, part: here, notice, carried, .. } => {
                say(notice);
                flags |= if *carried { CARRIED } else { 0 };
                (at, key, part) = (*to, *of, *here);
                3
            }
            Packet::Read { at: from, key: of, total } => {
                (at, key, part.total) = (*from, *of, *total);
                4
            }
            Packet::Atomic { at: to, key: of, atomic } => {
                (at, key) = (*to, *of);
                let (code, a, b) = match *atomic {
                    Atomic::Add(add) => (0, add, 0),
                    Atomic::Swap { compare, swap } => (1, compare, swap),
                };
                syndrome = code;
                more.extend_from_slice(&a.to_le_bytes());
                more.extend_from_slice(&b.to_le_bytes());
                5
            }
            Packet::Data { part: here, .. } => {
                part = *here;
                6
            }
            Packet::Old { word } => {
                at = *word;
                7
            }
            Packet::Ack(outcome) => {
                (syndrome, key) = match *outcome {
                    Outcome::Done => (0, 0),
                    Outcome::NoReceive(timer) => (1, timer.into()),
                    Outcome::NotReady => (2, 0),
                    Outcome::Failed(status) => (3, status as u32),
                };
                8
            }
            Packet::Go => 9,
            Packet::Datagram { qkey, notice, lid, sl, grh, .. } => {
                say(notice);
                (key, syndrome, part.total) = (*qkey, *sl, (*lid).into());
                if let Some(grh) = grh {
                    flags |= GLOBAL;
                    more.extend_from_slice(grh);
                }
                10
            }
            Packet::Cm { .. } => 11,
        };
        let mut out = Fields { kind, flags, syndrome, imm, key, part, at }.write(head);
        out.extend_from_slice(&more);
        out
    }

    /// True of what asks for something: such a message has a number.
    pub(crate) fn is_request(&self) -> bool {
        matches!(
            self,
            Packet::Send { .. }
                | Packet::SendFrom { .. }
                | Packet::Write { .. }
                | Packet::Read { .. }
                | Packet::Atomic { .. }
        )
    }

    /// True of a request, and of the first part of one.
    pub(crate) fn begins(&self) -> bool {
        match self {
            Packet::Send { part, .. } | Packet::Write { part, .. } => part.offset == 0,
            _ => self.is_request(),
        }
    }
}

/// What a message says; nothing if it is none of ours.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Head, Packet<'_>)> {
    let (front, rest) = bytes.split_first_chunk::<HEAD>()?;
    let word = |at: usize| u32::from_le_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]]);
    let [kind, flags, attempt, syndrome, ..] = *front;
    if !(1..=KINDS).contains(&kind) {
        return None;
    }
    let head = Head { to: word(4), from: word(8), number: word(12), attempt };
    let imm = u32::from_ne_bytes([front[16], front[17], front[18], front[19]]);
    let (key, part) = (word(20), Part { total: word(24), offset: word(28) });
    let at = u64::from(word(32)) | u64::from(word(36)) << 32;
    let notice = Notice { imm: (flags & HAS_IMM != 0).then_some(imm), solicited: flags & SOLICITED != 0 };
    let whole = |payload: &[u8]| part.offset.checked_add(payload.len() as u32).is_some_and(|end| end <= part.total);
    let packet = match kind {
        1 if whole(rest) => Packet::Send { part, notice, payload: rest },
        2 => {
            let mut pieces = SmallVec::new();
            let mut sum = 0u64;
            for piece in rest.chunks(PIECE) {
                let (at, len) = piece.split_first_chunk::<8>()?;
                let piece = Piece { at: u64::from_le_bytes(*at), len: u64::from_le_bytes(*len.first_chunk::<8>()?) };
                sum = sum.checked_add(piece.len)?;
                pieces.push(piece);
            }
            (sum == u64::from(part.total)).then_some(())?;
            Packet::SendFrom { total: part.total, notice, pieces }
        }
        3 if whole(rest) => Packet::Write { at, key, part, notice, carried: flags & CARRIED != 0, payload: rest },
        4 => Packet::Read { at, key, total: part.total },
        5 => {
            let (a, b) = rest.split_first_chunk::<8>()?;
            let (a, b) = (u64::from_le_bytes(*a), u64::from_le_bytes(*b.first_chunk::<8>()?));
            let atomic = if syndrome == 0 { Atomic::Add(a) } else { Atomic::Swap { compare: a, swap: b } };
            Packet::Atomic { at, key, atomic }
        }
        6 if whole(rest) => Packet::Data { part, payload: rest },
        7 => Packet::Old { word: at },
        8 => Packet::Ack(match syndrome {
            0 => Outcome::Done,
            1 => Outcome::NoReceive(key as u8),
            2 => Outcome::NotReady,
            _ => Outcome::Failed(failure(key)?),
        }),
        9 => Packet::Go,
        10 => {
            let (grh, payload) = match flags & GLOBAL != 0 {
                true => rest.split_first_chunk::<40>().map(|(grh, payload)| (Some(*grh), payload))?,
                false => (None, rest),
            };
            Packet::Datagram { qkey: key, notice, lid: part.total as u16, sl: syndrome, grh, payload }
        }
        11 => Packet::Cm { payload: rest },
        _ => return None,
    };
    Some((head, packet))
}

/// The statuses that a responder may give.
fn failure(number: u32) -> Option<Status> {
    [Status::RemoteInvalidRequest, Status::RemoteAccess, Status::RemoteOperation]
        .into_iter()
        .find(|status| *status as u32 == number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn comes_back(head: Head, packet: &Packet<'_>, payload: &[u8]) {
        let mut bytes = packet.front(head).to_vec();
        bytes.extend_from_slice(payload);
        assert_eq!(decode(&bytes), Some((head, packet.clone())));
    }

    proptest! {
        #[test]
        fn packets_come_back(to: u32, from: u32, number: u32, attempt: u8, imm: Option<u32>, solicited: bool, key: u32,
            at: u64, a: u64, b: u64, offset in 0u32..1 << 20, payload in prop::collection::vec(any::<u8>(), 0..300), lid: u16) {
            let head = Head { to, from, number, attempt };
            let (notice, payload) = (Notice { imm, solicited }, &payload[..]);
            let part = Part { total: offset + payload.len() as u32 + 5, offset };
            comes_back(head, &Packet::Send { part, notice, payload }, payload);
            comes_back(head, &Packet::Write { at, key, part, notice, carried: solicited, payload }, payload);
            comes_back(head, &Packet::Data { part, payload }, payload);
            comes_back(head, &Packet::Read { at, key, total: offset }, &[]);
            comes_back(head, &Packet::Atomic { at, key, atomic: Atomic::Add(a) }, &[]);
            comes_back(head, &Packet::Atomic { at, key, atomic: Atomic::Swap { compare: a, swap: b } }, &[]);
            comes_back(head, &Packet::Old { word: a }, &[]);
            comes_back(head, &Packet::Go, &[]);
            comes_back(head, &Packet::Cm { payload }, payload);
            let pieces = [Piece { at, len: 7 }, Piece { at: a, len: 9 }, Piece { at: b, len: 0 }].into_iter().collect();
            comes_back(head, &Packet::SendFrom { total: 16, notice, pieces }, &[]);
            for grh in [None, Some([7; 40])] {
                comes_back(head, &Packet::Datagram { qkey: key, notice, lid, sl: 3, grh, payload }, payload);
            }
            for outcome in [Outcome::Done, Outcome::NoReceive(12), Outcome::NotReady, Outcome::Failed(Status::RemoteAccess)] {
                comes_back(head, &Packet::Ack(outcome), &[]);
            }
        }

        #[test]
        fn nonsense_is_refused_or_read_but_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
