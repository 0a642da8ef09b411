//! The receiving half of a session: packet numbers seen, stream bytes put in order, records cut out.

use crate::clock::Nanos;
use crate::frame;
use crate::ranges::Ranges;
use crate::ring::Ring;
use crate::rtt::ACK_DELAY;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::ops::Range;

/// Head of a record in the stream: channel u16, length u16.
pub(super) const RECORD_HEAD: usize = 4;
/// Ranges of packet numbers remembered; what lies below the lowest counts as seen.
const SEEN_MAX: usize = 256;
/// Acknowledged at once after this many bytes.
const ACK_BYTES: usize = 256 << 10;

/// How urgently the peer should hear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Urgency {
    /// Not at all.
    Never,
    /// With the next data, or soon.
    Soon,
    Now,
}

#[derive(Debug)]
pub(super) struct Receiver {
    window: u64,
    seen: Ranges,
    /// When the highest number came.
    highest_at: Nanos,
    /// Stream bytes up to here have arrived in order.
    next: u64,
    /// Bytes that arrived beyond `next`, and their ranges.
    early: Ring,
    early_at: Ranges,
    /// In order, not yet handed out.
    ready: VecDeque<Bytes>,
    /// A record that came in pieces.
    pieces: Vec<u8>,
    /// Stream bytes handed out.
    consumed: u64,
    /// How far the peer may send.
    limit: u64,
    ack_at: Option<Nanos>,
    unacked: usize,
}

impl Receiver {
    pub(super) fn new(window: usize) -> Self {
        Receiver {
            window: window as u64,
            seen: Ranges::default(),
            highest_at: 0,
            next: 0,
            early: Ring::default(),
            early_at: Ranges::default(),
            ready: VecDeque::new(),
            pieces: Vec::new(),
            consumed: 0,
            limit: window as u64,
            ack_at: None,
            unacked: 0,
        }
    }

    /// True if a frame with this number may still be accepted.
    pub(super) fn is_new(&self, number: u64) -> bool {
        let forgotten = self.seen.len() == SEEN_MAX && self.seen.first().is_some_and(|r| number < r.start);
        !forgotten && !self.seen.contains(number)
    }

    /// A genuine frame has come. Returns whether it is the one expected.
    pub(super) fn note(&mut self, number: u64, now: Nanos) -> bool {
        let expected = self.seen.last().map_or(0, |r| r.end);
        if number >= expected {
            self.highest_at = now;
        }
        self.seen.insert(number..number + 1);
        self.seen.keep_highest(SEEN_MAX);
        number == expected
    }

    /// The frame wants to be acknowledged.
    pub(super) fn owe(&mut self, now: Nanos, bytes: usize, urgency: Urgency) {
        self.unacked += bytes;
        let at = match urgency {
            Urgency::Never => return,
            Urgency::Soon if self.unacked < ACK_BYTES.min(self.window as usize / 8) => now + ACK_DELAY,
            _ => now,
        };
        self.ack_at = Some(self.ack_at.map_or(at, |already| already.min(at)));
    }

    pub(super) fn ack_at(&self) -> Option<Nanos> {
        self.ack_at
    }

    /// True if an acknowledgement should go with the next frame.
    pub(super) fn owes(&self) -> bool {
        self.ack_at.is_some()
    }

    /// Ranges an acknowledgement would name beside the highest.
    pub(super) fn extra_ranges(&self) -> usize {
        self.seen.len().saturating_sub(1).min(frame::ACK_RANGES_MAX)
    }

    /// Makes what is owed due.
    pub(super) fn flush(&mut self, now: Nanos) {
        if self.ack_at.is_some() {
            self.ack_at = Some(now);
        }
    }

    /// Appends an acknowledgement, if anything has been received at all.
    pub(super) fn encode_ack(&mut self, now: Nanos, space: usize, out: &mut Vec<u8>) {
        self.limit = self.consumed + self.window;
        let delay = (now.saturating_sub(self.highest_at) / 1_000).min(u64::from(u16::MAX)) as u16;
        let room = (self.limit - self.next) as u32;
        let before = out.len();
        frame::encode_ack(self.seen.as_slice(), delay, self.next, room, space, out);
        if out.len() > before {
            self.ack_at = None;
            self.unacked = 0;
        }
    }

    /// Takes stream bytes. Returns how many of them were already here.
    pub(super) fn take(&mut self, offset: u64, bytes: &[u8]) -> Result<u64, &'static str> {
        let end = offset.checked_add(bytes.len() as u64).ok_or("a stream offset beyond 64 bits")?;
        if end > self.limit {
            return Err("more than the window allows");
        }
        if end <= self.next {
            return Ok(bytes.len() as u64);
        }
        let known = self.next.saturating_sub(offset);
        let (start, new) = (offset + known, &bytes[known as usize..]);
        if start == self.next && self.early_at.is_empty() {
            self.ready.push_back(Bytes::copy_from_slice(new));
            self.next = end;
            return Ok(known);
        }
        let live = self.next..self.early_at.last().map_or(self.next, |r| r.end);
        let before: u64 = self.early_bytes();
        self.early.reserve(live, start..end);
        self.early.put(start, new);
        self.early_at.insert(start..end);
        let added = self.early_bytes() - before;
        if let Some(first) = self.early_at.first()
            && first.start == self.next
        {
            let (a, b) = self.early.get(first.clone());
            for piece in [a, b] {
                if !piece.is_empty() {
                    self.ready.push_back(Bytes::copy_from_slice(piece));
                }
            }
            self.next = first.end;
            self.early_at.remove(first);
        }
        Ok(bytes.len() as u64 - added)
    }

    fn early_bytes(&self) -> u64 {
        self.early_at.as_slice().iter().map(|r: &Range<u64>| r.end - r.start).sum()
    }

    /// The next record.
    pub(super) fn record(&mut self) -> Option<(u16, Bytes)> {
        loop {
            let front = self.ready.front_mut()?;
            let wanted = if self.pieces.is_empty() { record_len(front) } else { record_len(&self.pieces) };
            if let Some(len) = wanted
                && self.pieces.is_empty()
                && front.len() >= len
            {
                let mut record = front.split_to(len);
                if front.is_empty() {
                    self.ready.pop_front();
                }
                return Some(self.hand_out(&mut record));
            }
            let missing = wanted.unwrap_or(RECORD_HEAD) - self.pieces.len();
            let part = front.split_to(missing.min(front.len()));
            self.pieces.reserve(wanted.unwrap_or(RECORD_HEAD) - self.pieces.len());
            self.pieces.extend_from_slice(&part);
            if front.is_empty() {
                self.ready.pop_front();
            }
            if record_len(&self.pieces) == Some(self.pieces.len()) {
                let mut record = std::mem::take(&mut self.pieces).into();
                return Some(self.hand_out(&mut record));
            }
        }
    }

    fn hand_out(&mut self, record: &mut Bytes) -> (u16, Bytes) {
        self.consumed += record.len() as u64;
        let channel = record.get_u16_le();
        record.advance(2);
        // The peer may be waiting for room.
        if self.consumed + self.window - self.limit >= self.window / 4 {
            self.ack_at = Some(0);
        }
        (channel, std::mem::take(record))
    }

    /// Bytes of memory held.
    pub(super) fn memory(&self) -> usize {
        self.early.capacity()
            + self.pieces.capacity()
            + self.ready.iter().map(|b| b.len() + size_of::<Bytes>()).sum::<usize>()
    }
}

/// Length of the record that starts here, head included, once that much is known.
fn record_len(start: &[u8]) -> Option<usize> {
    let head = start.first_chunk::<RECORD_HEAD>()?;
    Some(RECORD_HEAD + u16::from_le_bytes([head[2], head[3]]) as usize)
}
