//! Receiving: contacts, messages, and the credit that goes back.

use super::layout::{BELL, CONTACT, CREDIT, Pair, SHORT_MAX, SLOT, raw_slots};
use super::message::Message;
use super::{Mailbox, Peer};
use crate::error::{Error, Result};
use angara_abi::account::Class;
use angara_abi::order;
use std::sync::atomic::Ordering;

/// Messages taken from one peer before it is the next one's turn.
const TURN: usize = 16;

/// Somebody who has made contact.
pub(super) struct Incoming {
    seat: u32,
    pair: Pair,
    /// Slots taken, modulo 2^32; the next message has the next one.
    taken: u32,
    /// Slots that have been given back.
    given: u32,
    /// It has written what no mailbox writes: nothing more is taken from this generation.
    lost: bool,
}

impl Incoming {
    pub(super) fn peer(&self) -> Peer {
        Peer { seat: self.seat, generation: self.pair.sender }
    }
}

impl Mailbox {
    /// Hands at most `most` messages to `take`, those of each sender in the order sent, and returns how many there were. Who
    /// sends much does not keep others waiting. What `take` has seen is gone.
    pub fn receive(&mut self, most: usize, take: &mut dyn FnMut(Peer, &Message<'_>)) -> Result<usize> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        self.job.look()?;
        if self.word(BELL).load(Ordering::Acquire) != self.bell {
            self.meet_all();
        }
        if self.owes {
            self.give_what_is_owed()?;
        }
        if !self.is_ordered && self.job.adapter.virtual_now().is_some() {
            // The order in which peers made contact so far depended on the system.
            self.contacts.sort_unstable_by_key(|contact| contact.seat);
            (self.turn, self.is_ordered) = (0, true);
        }
        // However fast a peer writes, this ends.
        let most = most.min(self.contacts.len() * self.layout.slots as usize);
        let (mut done, mut in_vain) = (0, 0);
        while done < most && in_vain < self.contacts.len() {
            let got = self.visit((most - done).min(TURN), take)?;
            done += got;
            in_vain = if got == 0 { in_vain + 1 } else { 0 };
        }
        Ok(done)
    }

    /// Takes messages from the contact whose turn it is. The turn is the next one's then.
    fn visit(&mut self, most: usize, take: &mut dyn FnMut(Peer, &Message<'_>)) -> Result<usize> {
        let index = if self.turn < self.contacts.len() { self.turn } else { 0 };
        self.turn = index + 1;
        let mut done = 0;
        while done < most {
            let contact = &self.contacts[index];
            let Some(len) = self.arrived(contact) else { break };
            if len > self.layout.message_max() {
                self.contacts[index].lost = true;
                break;
            }
            let (peer, position, slots) = (contact.peer(), contact.taken, self.layout.slots);
            let ring = self.layout.ring(contact.seat as usize);
            // SAFETY: the ring is inside the mailbox, and the message is no longer than a quarter of it.
            let message = unsafe { Message::new(self.base.add(ring), position & (slots - 1), slots, len) };
            take(peer, &message);
            let raw = raw_slots(len);
            for i in 1..=raw {
                // Raw bytes could look like the trailer of a later message.
                let seal = ring + self.layout.slot(position.wrapping_add(i)) + SLOT - 8;
                self.word(seal).store(0, Ordering::Relaxed);
            }
            self.contacts[index].taken = position.wrapping_add(1 + raw);
            self.give_back(index)?;
            done += 1;
        }
        Ok(done)
    }

    /// The length of the next message of `contact`, if it is there. Whoever sees the last word of a slot sees all of it.
    #[inline]
    pub(super) fn arrived(&self, contact: &Incoming) -> Option<usize> {
        let trailer = self.layout.ring(contact.seat as usize) + self.layout.slot(contact.taken) + SHORT_MAX;
        let len = contact.pair.open(contact.taken, self.word(trailer + 8).load(Ordering::Acquire))?;
        (self.word(trailer).load(Ordering::Relaxed) == contact.pair.word() && !contact.lost).then_some(len)
    }

    /// Tells a sender how many slots have been freed, once they are a quarter of its ring.
    #[inline]
    fn give_back(&mut self, index: usize) -> Result<()> {
        let Incoming { taken, given, .. } = self.contacts[index];
        if taken.wrapping_sub(given) < self.layout.batch() { Ok(()) } else { self.give_credit(index) }
    }

    #[inline(never)]
    fn give_credit(&mut self, index: usize) -> Result<()> {
        let Incoming { seat, pair, taken, .. } = self.contacts[index];
        let peer = self.contacts[index].peer();
        if !self.is_there(peer) {
            // A peer that has left needs none. News of the seat's present owner may come later than what it sends.
            self.owes |= self.job.adapter.memory.job.seat(seat as usize).life() < peer.generation;
            return Ok(());
        }
        let credit = pair.credit(taken);
        let place = self.place(self.layout.lane(self.me.seat as usize) + CREDIT);
        let src = (&raw const credit).cast();
        // What has been read and cleared is no longer needed: the sender may overwrite it once it sees the credit.
        order::publish();
        // SAFETY: a live word.
        match unsafe { self.job.ctx().put(Class::Sync, seat as usize, place, src, 8) } {
            // Its messages must still be received.
            Err(Error::Unreachable { .. }) => {
                self.owes = true;
                Ok(())
            }
            done => {
                self.contacts[index].given = taken;
                done
            }
        }
    }

    /// Tries again to tell senders what could not be told before: a sender without credit says nothing by itself.
    #[cold]
    fn give_what_is_owed(&mut self) -> Result<()> {
        self.owes = false;
        (0..self.contacts.len()).try_for_each(|index| self.give_back(index))
    }

    /// Finds out who has made contact.
    #[cold]
    #[inline(never)]
    fn meet_all(&mut self) {
        // A peer that rings from now on is found the next time, or already now.
        self.bell = self.word(BELL).load(Ordering::Acquire);
        for word in 0..self.layout.pes.div_ceil(64) {
            let bitmap = self.word(self.layout.bitmap(word));
            if bitmap.load(Ordering::Acquire) == 0 {
                continue;
            }
            let mut bits = bitmap.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let seat = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if seat < self.layout.pes {
                    self.meet(seat);
                }
            }
        }
    }

    /// `seat` says that it has made contact.
    fn meet(&mut self, seat: usize) {
        let word = self.word(self.layout.lane(seat) + CONTACT).load(Ordering::Acquire);
        let pair = Pair::from_word(word);
        if pair.receiver != self.me.generation || pair.sender == 0 {
            return;
        }
        let life = self.job.adapter.memory.job.seat(seat).life();
        let new = Incoming { seat: seat as u32, pair, taken: 0, given: 0, lost: false };
        match self.contacts.iter_mut().find(|contact| contact.seat == new.seat) {
            None => self.contacts.push(new),
            // A new generation begins its ring anew.
            // So it does after one that has called itself a later one than there has been.
            Some(known) if pair.sender > known.pair.sender || known.pair.sender > life => *known = new,
            Some(_) => {}
        }
    }
}
