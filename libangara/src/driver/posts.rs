//! Posting to a channel: one sequence for ring packets and descriptors, a note of each post for
//! error messages, and the completion words.

use super::Adapter;
use crate::error::{Error, Result};
use angara_abi::channel::{Channel, status};
use angara_abi::clock::WaitsFor;
use angara_abi::desc::{Descriptor, Moves, Op, Place, Region, flags};
use angara_abi::job::bounce;
use angara_abi::packet::Flit;
use angara_abi::queue::{Full, Producer};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Posts remembered for error messages: more than a queue holds.
const NOTES: usize = 2048;

/// Description of a post, for error messages.
#[derive(Clone, Copy)]
pub(super) struct Note {
    what: What,
    pub(super) pe: u32,
    len: u32,
}

#[derive(Clone, Copy)]
enum What {
    Packet,
    Op(Op),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { what, pe, len } = self;
        let what = match what {
            What::Packet => "packet",
            What::Op(op) => {
                let name = op.facts().name;
                match op.facts().moves {
                    Moves::Nothing => return f.write_str(name),
                    Moves::Bytes(_) | Moves::Elements(_) | Moves::Word => name,
                }
            }
        };
        write!(f, "{what} of {len} bytes, PE {pe}")
    }
}

/// The producing end of the channel and its recent posts.
pub(super) struct Posts {
    producer: Producer,
    notes: Vec<(u32, Note)>,
}

impl Default for Posts {
    fn default() -> Posts {
        let none = (0, Note { what: What::Packet, pe: 0, len: 0 });
        Posts { producer: Producer::default(), notes: vec![none; NOTES] }
    }
}

impl Posts {
    /// Returns what post `seq` was, if it is recent.
    pub(super) fn note(&self, seq: u32) -> Option<Note> {
        let (at, note) = self.notes[seq as usize % NOTES];
        (at == seq && seq != 0).then_some(note)
    }
}

/// `a` is `b` or a later sequence number.
pub(crate) fn reached(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

/// A completion word and the result word beside it, owned until released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(u8);

impl Slot {
    pub(super) fn index(self) -> u8 {
        self.0
    }
    /// `index` is below 64.
    pub(super) fn from_index(index: u8) -> Slot {
        debug_assert!(index < 64);
        Slot(index)
    }
    pub(crate) fn completion(self) -> Place {
        Place { region: Region::Bounce, offset: self.0 as u64 * 8 }
    }
    pub(crate) fn result(self) -> Place {
        Place { region: Region::Bounce, offset: (bounce::RESULTS + self.0 as usize * 8) as u64 }
    }
}

impl Adapter {
    /// Posts a descriptor and returns its sequence number; waits while the queue is full.
    pub(crate) fn post(&self, d: &Descriptor, pe: usize) -> Result<u32> {
        let words = d.encode();
        let len = d.bytes();
        if let Some(clock) = self.clock().filter(|_| d.flags & flags::FLUSH == 0) {
            clock.carries(len);
        }
        self.push(Note { what: What::Op(d.op), pe: pe as u32, len }, |p, c| p.post(c, words))
    }

    /// Puts a packet into the injection ring; waits while the ring is full.
    pub(crate) fn push_packet(&self, packet: &[Flit], pe: usize, len: usize) -> Result<u32> {
        if let Some(clock) = self.clock() {
            clock.carries(len as u32);
        }
        self.push(Note { what: What::Packet, pe: pe as u32, len: len as u32 }, |p, c| p.inject(c, packet))
    }

    fn push(&self, note: Note, mut attempt: impl FnMut(&mut Producer, &Channel) -> Result<u32, Full>) -> Result<u32> {
        let device = self.device()?;
        if self.guard.forked() {
            return Err(Error::Forked);
        }
        if device.channel.error().is_some() {
            return Err(self.channel_error().unwrap_or(Error::JobEnded));
        }
        let mut posts = self.posts.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(clock) = self.clock() {
            clock.entered()?;
            clock.stamp(posts.producer.next_seq());
        }
        let seq = match attempt(&mut posts.producer, &device.channel) {
            Ok(seq) => seq,
            Err(Full) => {
                let mut taken = None;
                let room = || {
                    taken = attempt(&mut posts.producer, &device.channel).ok();
                    taken.is_some()
                };
                self.wait(WaitsFor::Adapter, room, &|| format!("room in the queue of this PE's channel for a {note}"))?;
                taken.expect("the wait ended because the post was taken")
            }
        };
        posts.notes[seq as usize % NOTES] = (seq, note);
        drop(posts);
        match self.clock() {
            Some(clock) if clock.is_ahead() => self.stand()?,
            Some(_) => {}
            None => self.ring_doorbell(device),
        }
        Ok(seq)
    }

    /// True if the source data of post `seq` has been copied.
    pub(crate) fn copied(&self, seq: u32) -> bool {
        self.passed(status::COPIED, seq)
    }

    /// True if every packet of post `seq` is in the network.
    pub(crate) fn injected(&self, seq: u32) -> bool {
        self.passed(status::INJECTED, seq)
    }

    /// True if read `seq` and all before it have delivered their data.
    pub(crate) fn delivered(&self, seq: u32) -> bool {
        self.passed(status::DELIVERED, seq)
    }

    fn passed(&self, at: usize, seq: u32) -> bool {
        let Ok(channel) = self.channel() else { return true };
        let now = channel.status_u32(at).load(Ordering::Acquire);
        now != 0 && reached(now, seq)
    }

    /// Takes a completion word, or `None` while all 64 are in use.
    pub(crate) fn take_slot(&self) -> Option<Slot> {
        let take = |free: u64| (free != 0).then(|| free & (free - 1));
        let before = self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).ok()?;
        Some(Slot(before.trailing_zeros() as u8))
    }

    /// Gives a completion word back, after the post that used it completed.
    pub(crate) fn release_slot(&self, slot: Slot) {
        self.free.fetch_or(1 << slot.0, Ordering::AcqRel);
    }

    fn word(&self, place: Place) -> &AtomicU64 {
        self.memory.bounce.at(place.offset as usize).expect("slots lie inside the bounce region")
    }

    /// Post `seq`, which was given `slot`, has completed.
    pub(crate) fn completed(&self, slot: Slot, seq: u32) -> bool {
        self.word(slot.completion()).load(Ordering::Acquire) == seq as u64
    }

    /// The result word beside a completion word.
    pub(crate) fn result(&self, slot: Slot) -> u64 {
        self.word(slot.result()).load(Ordering::Acquire)
    }
}
