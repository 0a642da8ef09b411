//! Sending, as far as there is credit.

use super::layout::{BELL, CONTACT, CREDIT, Pair, SHORT_MAX, SLOT, TRAILER, raw_bytes, raw_slots};
use super::{Mailbox, Peer, SendError};
use crate::error::{Error, Result};
use crate::{Amo, AmoOp};
use angara_abi::account::Class;
use angara_abi::copy::{self, poke};
use angara_abi::desc::Place;
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};

/// Somebody to whom something has been sent.
pub(super) struct Outgoing {
    seat: u32,
    pair: Pair,
    /// Slots filled, modulo 2^32.
    filled: u32,
    /// Slots that the receiver has said it has freed.
    freed: u32,
    /// It knows of this sender.
    met: bool,
    /// It has written what no mailbox writes.
    lost: bool,
}

impl Outgoing {
    fn new(seat: u32, pair: Pair) -> Outgoing {
        Outgoing { seat, pair, filled: 0, freed: 0, met: false, lost: false }
    }
    fn on_way(&self) -> u32 {
        self.filled.wrapping_sub(self.freed)
    }
}

/// The bytes of a message, wherever its sender has them.
#[derive(Clone, Copy)]
struct Parts<'a> {
    parts: &'a [IoSlice<'a>],
    len: usize,
}

impl Mailbox {
    /// Sends the bytes of `parts`, one after the other, as one message. They may be reused on return. Does not wait for
    /// the receiver; where the adapter carries the message, for room in its queue.
    #[inline]
    pub fn try_send(&mut self, to: Peer, parts: &[IoSlice<'_>]) -> std::result::Result<(), SendError> {
        let len = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
        if len > self.message_max() {
            return Err(SendError::TooLong { len, max: self.message_max() });
        }
        if self.is_forked() {
            return Err(Error::Forked.into());
        }
        if !self.sits_there(to) {
            self.may_come(to)?;
        }
        let index = match self.known[to.seat as usize] {
            known if known > 0 && self.outgoing[usize::from(known) - 1].pair.receiver == to.generation => {
                usize::from(known) - 1
            }
            _ => self.begin(to),
        };
        let slots = 1 + raw_slots(len);
        let outgoing = &self.outgoing[index];
        let has_room = self.layout.slots - outgoing.on_way() >= slots;
        if !(has_room && outgoing.met && !outgoing.lost) {
            self.prepare(index, slots, to)?;
        }
        self.carry(index, slots, Parts { parts, len }).map_err(|error| self.failed(error, to))
    }

    /// Returns what keeps a message from going at once: no room as far as is known, a first one, a receiver that
    /// writes nonsense.
    #[cold]
    #[inline(never)]
    fn prepare(&mut self, index: usize, slots: u32, to: Peer) -> std::result::Result<(), SendError> {
        if self.layout.slots - self.outgoing[index].on_way() < slots {
            self.need_room(index, slots)?;
        }
        if self.outgoing[index].lost {
            return Err(SendError::Gone);
        }
        if !self.outgoing[index].met {
            self.introduce(index).map_err(|error| self.failed(error, to))?;
        }
        Ok(())
    }

    #[cold]
    fn failed(&self, error: Error, to: Peer) -> SendError {
        if self.is_there(to) { SendError::Job(error) } else { SendError::Gone }
    }

    /// True if `to` has come, and has not left or been lost: one load.
    #[inline]
    fn sits_there(&self, to: Peer) -> bool {
        (to.seat as usize) < self.layout.pes && {
            let seat = self.job.adapter.memory.job.seat(to.seat as usize);
            seat.taken() && seat.life() == to.generation
        }
    }

    /// Why nothing can be sent to somebody who does not sit there now, if it cannot.
    #[cold]
    #[inline(never)]
    fn may_come(&self, to: Peer) -> std::result::Result<(), SendError> {
        match (self.is_to_come(to), self.is_there(to)) {
            (true, _) => Err(SendError::Full),
            (false, false) => Err(SendError::Gone),
            (false, true) => Ok(()),
        }
    }

    /// The first message to a generation of a seat: where to remember it.
    #[cold]
    #[inline(never)]
    fn begin(&mut self, to: Peer) -> usize {
        let new = Outgoing::new(to.seat, Pair { sender: self.me.generation, receiver: to.generation });
        match usize::from(self.known[to.seat as usize]) {
            0 => {
                self.outgoing.push(new);
                // Seats have 16 bits.
                self.known[to.seat as usize] = self.outgoing.len() as u16;
                self.outgoing.len() - 1
            }
            known => {
                self.outgoing[known - 1] = new;
                known - 1
            }
        }
    }

    /// Looks whether the receiver has freed `slots` slots.
    fn need_room(&mut self, index: usize, slots: u32) -> std::result::Result<(), SendError> {
        // A caller that tries in a loop waits here.
        self.job.look()?;
        if let Some(freed) = self.freed(&self.outgoing[index]) {
            let outgoing = &mut self.outgoing[index];
            let newly = freed.wrapping_sub(outgoing.freed);
            if newly <= outgoing.on_way() {
                outgoing.freed = freed;
            } else if newly as i32 > 0 {
                // More than was filled.
                outgoing.lost = true;
            }
        }
        let outgoing = &self.outgoing[index];
        if !outgoing.lost && self.layout.slots - outgoing.on_way() < slots {
            // Seats have 16 bits.
            let index = index as u16;
            if !self.blocked.contains(&index) {
                self.blocked.push(index);
            }
            return Err(SendError::Full);
        }
        Ok(())
    }

    /// Returns what the receiver says it has freed.
    fn freed(&self, outgoing: &Outgoing) -> Option<u32> {
        let credit = self.word(self.layout.lane(outgoing.seat as usize) + CREDIT).load(Ordering::Acquire);
        outgoing.pair.freed(credit)
    }

    /// The receiver, whose ring was full, has freed slots since, or is not there any more.
    pub(super) fn has_been_freed(&self, outgoing: &Outgoing) -> bool {
        let peer = Peer { seat: outgoing.seat, generation: outgoing.pair.receiver };
        self.freed(outgoing).is_some_and(|freed| freed != outgoing.freed) || !self.is_there(peer)
    }

    #[inline]
    fn carry(&mut self, index: usize, slots: u32, message: Parts<'_>) -> Result<()> {
        let ring = self.place(self.layout.ring(self.me.seat as usize));
        let outgoing = &mut self.outgoing[index];
        let Outgoing { seat, pair, filled, .. } = *outgoing;
        let pe = seat as usize;
        match self.job.adapter.memory.peers.direct_to(pe, ring, self.layout.ring_bytes()) {
            Some(p) => {
                outgoing.filled = filled.wrapping_add(slots);
                // SAFETY: the whole ring can be written.
                unsafe { self.store(p, filled, pair, message) };
                self.job.ctx().count_put(Class::Put, pe, ring, message.len + TRAILER);
                self.job.adapter.memory.peers.notify(pe);
                Ok(())
            }
            None => {
                self.post(pe, ring, filled, pair, message)?;
                self.outgoing[index].filled = filled.wrapping_add(slots);
                Ok(())
            }
        }
    }

    /// Writes a message into the ring at `p` by this thread's own stores, the last word of its slot last.
    ///
    /// # Safety
    /// The ring is writable, and slots from `filled` on are this sender's.
    #[inline]
    unsafe fn store(&self, p: *mut u8, filled: u32, pair: Pair, message: Parts<'_>) {
        let raw = raw_bytes(message.len);
        // SAFETY: as `Layout` says, all of it is inside the ring.
        unsafe {
            if raw > 0 {
                self.store_raw(p, filled, message, raw);
            }
            let trailer = p.add(self.layout.slot(filled) + SHORT_MAX);
            let rest = message.len - raw;
            message.copy(raw, trailer.sub(rest), rest);
            poke(trailer, pair.word());
            let last = AtomicU64::from_ptr(trailer.add(8).cast());
            last.store(pair.seal(filled, message.len), Ordering::Release);
        }
    }

    /// The first `raw` bytes of a long message.
    ///
    /// # Safety
    /// As [`Mailbox::store`].
    #[inline(never)]
    unsafe fn store_raw(&self, p: *mut u8, filled: u32, message: Parts<'_>, raw: usize) {
        let first = self.layout.slot(filled.wrapping_add(1));
        let until_end = raw.min(self.layout.ring_bytes() - first);
        // SAFETY: up to the end of the ring, and from its start on.
        unsafe {
            message.copy(0, p.add(first), until_end);
            message.copy(until_end, p, raw - until_end);
        }
    }

    /// Has the adapter carry a message: raw bytes by puts, then a packet that ends with the slot.
    #[inline(never)]
    fn post(&mut self, pe: usize, ring: Place, filled: u32, pair: Pair, message: Parts<'_>) -> Result<()> {
        let (ctx, layout) = (self.job.ctx(), self.layout);
        let forward = |by: usize| Place { offset: ring.offset + by as u64, ..ring };
        let raw = raw_bytes(message.len);
        if raw > 0 {
            let whole = match message.parts {
                [one] => one.as_ptr(),
                _ => {
                    self.whole.resize(raw, 0);
                    // SAFETY: the vector has as many bytes, and so has the message.
                    unsafe { message.copy(0, self.whole.as_mut_ptr(), raw) };
                    self.whole.as_ptr()
                }
            };
            let first = layout.slot(filled.wrapping_add(1));
            let until_end = raw.min(layout.ring_bytes() - first);
            // SAFETY: `whole` has `raw` bytes.
            unsafe {
                ctx.put(Class::Put, pe, forward(first), whole, until_end)?;
                ctx.put(Class::Put, pe, ring, whole.add(until_end), raw - until_end)?;
            }
            ctx.fence()?;
        }
        let mut slot = [0u8; SLOT];
        let rest = message.len - raw;
        // SAFETY: the last part of a message and the trailer fit a slot.
        unsafe { message.copy(raw, slot.as_mut_ptr().add(SHORT_MAX - rest), rest) };
        slot[SHORT_MAX..SHORT_MAX + 8].copy_from_slice(&pair.word().to_le_bytes());
        slot[SHORT_MAX + 8..].copy_from_slice(&pair.seal(filled, message.len).to_le_bytes());
        let packet = &slot[SHORT_MAX - rest..];
        let place = forward(layout.slot(filled) + SHORT_MAX - rest);
        // SAFETY: a live slice of its own length.
        unsafe { ctx.put_posted(Class::Put, pe, place, packet.as_ptr(), packet.len()) }
    }

    /// Tells a receiver who will send to it: its contact word first, then its bit and the bell.
    #[cold]
    #[inline(never)]
    fn introduce(&mut self, index: usize) -> Result<()> {
        let Outgoing { seat, pair, .. } = self.outgoing[index];
        let (me, pe, ctx) = (self.me.seat as usize, seat as usize, self.job.ctx());
        let contact = pair.word();
        let place = self.place(self.layout.lane(me) + CONTACT);
        // SAFETY: a live word.
        unsafe { ctx.put(Class::Sync, pe, place, (&raw const contact).cast(), 8)? };
        ctx.fence()?;
        let amo = |offset, op, operand| {
            let amo = Amo { op, width: 8, operand, comparand: 0, fetch: false };
            ctx.amo(Class::Sync, pe, self.place(offset), amo).map(drop)
        };
        amo(self.layout.bitmap(me / 64), AmoOp::Or, 1 << (me % 64))?;
        amo(BELL, AmoOp::Add, 1)?;
        self.outgoing[index].met = true;
        Ok(())
    }
}

impl Parts<'_> {
    /// Copies `len` bytes from `from` on to `dst`.
    ///
    /// # Safety
    /// `dst` is writable for `len` bytes, and the message has as many.
    #[inline]
    unsafe fn copy(&self, from: usize, dst: *mut u8, len: usize) {
        // SAFETY: the caller's promise; each copy stays inside its part.
        unsafe {
            match self.parts {
                [one] => return copy::store(dst, one.as_ptr().add(from), len),
                [head, payload] if len == self.len => {
                    copy::store_words(dst, head.as_ptr(), head.len());
                    return copy::store(dst.add(head.len()), payload.as_ptr(), payload.len());
                }
                _ => {}
            }
            let (mut skip, mut done) = (from, 0);
            for part in self.parts {
                let here = part.len().saturating_sub(skip).min(len - done);
                if here > 0 {
                    copy::store(dst.add(done), part.as_ptr().add(skip), here);
                }
                (skip, done) = (skip.saturating_sub(part.len()), done + here);
            }
        }
    }
}
