//! How PEs of a collective talk: counted signals and small messages in the library's own area.
//!
//! Each PE has, in its internal area, one word per other PE for signals and a two-slot mailbox per
//! other PE. A signal or message carries the count of those sent before it on the same pair, so
//! the receiver knows which one it sees, and nothing is ever reset. Collectives of overlapping teams work
//! because two PEs that belong to both call them in one order, unless several threads do: then only the team of
//! all PEs uses these words, and the others have [`super::streams`]. Everything goes through put, so the same
//! code runs on every engine.

use super::area::{ENTRY, SLOTS, internal, next};
use crate::ctypes::Name;
use crate::rt::group::Group;
use crate::rt::{Runtime, ok};

impl Runtime {
    /// Tells `pe` that this PE got here. Everything put to `pe` before is ordered before it only
    /// after [`Runtime::order`].
    pub(crate) fn signal(&self, name: Name, team: u64, pe: usize) {
        let p2p = self.p2p();
        if let Some(streams) = p2p.stream(team) {
            return streams.signal(self, name, team, pe);
        }
        let count = next(&p2p.pairs.of(pe).signals_sent);
        self.put_word(name, pe, p2p.layout.signal(self.me), count);
    }

    /// Waits for the next signal of `pe`.
    pub(crate) fn await_signal(&self, name: Name, team: u64, pe: usize) {
        let p2p = self.p2p();
        if let Some(streams) = p2p.stream(team) {
            return streams.await_signal(self, name, team, pe);
        }
        let count = next(&p2p.pairs.of(pe).signals_seen);
        self.await_word(name, p2p.layout.signal(pe), count, "a signal of", pe);
    }

    /// Keeps the root of an active-set broadcast from being two ahead: it waits until the others have entered the
    /// one before, and so are done with the result of the one before that. Programs that alternate between two
    /// work arrays rely on it.
    pub(crate) fn pace(&self, name: Name, team: u64, root: usize, members: impl Iterator<Item = usize>) {
        let p2p = self.p2p();
        if self.me != root {
            let count = next(&p2p.pairs.of(root).entered);
            return match p2p.stream(team) {
                Some(streams) => streams.enter(self, name, team, root),
                None => self.put_word(name, root, p2p.layout.entered(self.me), count),
            };
        }
        for pe in members.filter(|pe| *pe != root) {
            let before = next(&p2p.pairs.of(pe).broadcasts) - 1;
            match p2p.stream(team) {
                Some(streams) => streams.await_entered(self, name, team, pe, before),
                None => self.await_word(name, p2p.layout.entered(pe), before, ENTRY, pe),
            }
        }
    }

    /// Sends at most [`P2p::message_max`] bytes to another PE. Waits while two earlier messages to it are unread.
    ///
    /// # Safety
    /// `data` is readable for `len` bytes.
    pub(crate) unsafe fn send(&self, name: Name, team: u64, pe: usize, data: *const u8, len: usize) {
        let p2p = self.p2p();
        debug_assert!(len <= p2p.message_max(team) && pe != self.me);
        if let Some(streams) = p2p.stream(team) {
            // SAFETY: the caller promises what the callee asks for.
            return unsafe { streams.send(self, name, team, pe, data, len) };
        }
        let (layout, count) = (&p2p.layout, next(&p2p.pairs.of(pe).mail_sent));
        let unread = count.saturating_sub(SLOTS as u64);
        self.await_word(name, layout.mail_read(pe), unread, "room in the mailbox at", pe);
        // SAFETY: the caller promises what the callee asks for; the slot has room for the message.
        unsafe { self.put_sync(name, pe, internal(layout.mailbox(self.me, count)), data, len) };
        self.order(name);
        self.put_word(name, pe, layout.mail_in(self.me), count);
    }

    /// Waits for the next message of `pe` and hands it to `read`, which may change it.
    pub(crate) fn receive<R>(&self, name: Name, team: u64, pe: usize, read: impl FnOnce(*mut u8) -> R) -> R {
        let p2p = self.p2p();
        if let Some(streams) = p2p.stream(team) {
            return read(streams.receive(self, name, team, pe).as_mut_ptr());
        }
        let (layout, count) = (&p2p.layout, next(&p2p.pairs.of(pe).mail_seen));
        self.await_word(name, layout.mail_in(pe), count, "a message of", pe);
        // SAFETY: the slot is inside the internal area.
        let value = read(unsafe { self.job.internal().add(layout.mailbox(pe, count)) });
        self.put_word(name, pe, layout.mail_read(self.me), count);
        value
    }

    /// Returns when every PE of the group has arrived, and what they had sent has. It completes nothing at its senders,
    /// so among all PEs half a barrier does.
    pub(crate) fn group_sync(&self, name: Name, group: &Group) {
        let n = group.size;
        if self.is_world(group) {
            ok(name, None, self.job.barrier(true));
            return;
        }
        let me = self.my_index(name, group);
        // Dissemination: after round k each PE has heard, directly or not, of 2^(k+1) PEs.
        let mut distance = 1;
        while distance < n {
            self.signal(name, group.stream, group.world((me + distance) % n));
            self.await_signal(name, group.stream, group.world((me + n - distance) % n));
            distance *= 2;
        }
    }
}
