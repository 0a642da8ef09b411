//! Streams of teams: collectives of several teams at once.
//!
//! With SHMEM_THREAD_MULTIPLE, threads of a PE may be in collectives of different teams at once, in any order.
//! So that they do not take each other's signals, those of a team carry its name. Names are agreed on when a
//! team is made, and never used again, so there may be as many teams as there is memory for handles. Signals and
//! messages between two PEs, of whatever team, follow each other through one ring of records in the receiver's
//! internal area. Whoever waits there takes out all records that have come, for itself and for the other threads
//! of its PE; that keeps the rings moving whatever the order in which the teams are entered.
//!
//! A PE holds, for each team and other PE, a few counts and at most two messages: a third one waits for word
//! that the first was read. What it holds of a team goes with the team.
//!
//! Where no PE asked for several threads, all teams use what [`super::p2p`] has for the team of all PEs.

use super::area::{ENTRY, SLOTS, internal};
use super::rings::{HEAD, Inbox, Peer, RECORD_MAX, RecordKind, Streams};
use crate::ctypes::Name;
use crate::rt::mutex::lock;
use crate::rt::teams::group::stream::shown;
use crate::rt::{Runtime, ok};
use std::sync::atomic::Ordering;

/// A record to be posted.
struct Record {
    team: u64,
    kind: RecordKind,
    /// The message, of `len` bytes.
    data: *const u8,
    len: usize,
}

impl Streams {
    /// Takes out every record that has come, then asks `take` about team and PE.
    fn look<R>(
        &self,
        s: &Runtime,
        name: Name,
        team: u64,
        pe: usize,
        take: &mut dyn FnMut(&mut Peer) -> Option<R>,
    ) -> Option<R> {
        let mut inbox = lock(&self.inbox);
        let mut others = false;
        for from in 0..self.layout.n {
            let posted = s.word(self.layout.posted(from)).load(Ordering::Acquire);
            let before = inbox.taken[from];
            if posted == before {
                continue;
            }
            for count in before + 1..=posted {
                others |= self.sort(s, &mut inbox, from, count) != team;
            }
            inbox.taken[from] = posted;
            s.put_word(name, from, self.layout.taken(s.me), posted);
        }
        let found = take(inbox.peer(team, pe));
        drop(inbox);
        if others {
            // Another thread may sleep until its record comes.
            s.job.notify(s.me);
        }
        found
    }

    /// Notes what a record says; returns the team it is for.
    fn sort(&self, s: &Runtime, inbox: &mut Inbox, from: usize, count: u64) -> u64 {
        let mut head = [0u8; HEAD];
        // SAFETY: a slot inside the internal area, written before the count that announced it.
        let slot = unsafe { s.job.internal().add(self.layout.slot(from, count)) };
        // SAFETY: `HEAD` bytes of the slot.
        unsafe { angara_abi::copy::load(head.as_mut_ptr(), slot, HEAD) };
        let team = u64::from_le_bytes([head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]]);
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (kind, len) = (RecordKind::of(number(8)), (number(12) as usize).min(self.message_max()));
        match kind {
            Some(RecordKind::Signal) => inbox.peer(team, from).signals += 1,
            Some(RecordKind::Entered) => inbox.peer(team, from).entered += 1,
            Some(RecordKind::Mail) => {
                let mut message = vec![0u8; len];
                // SAFETY: `HEAD` + `len` bytes lie in the slot.
                unsafe { angara_abi::copy::load(message.as_mut_ptr(), slot.add(HEAD), len) };
                inbox.peer(team, from).mail.push_back(message);
            }
            // Nothing else comes for a team that this PE has destroyed, and then nobody waits for it.
            Some(RecordKind::Read) => {
                if let Some(peer) = inbox.teams.get_mut(&team).and_then(|pes| pes.get_mut(&from)) {
                    peer.unread = peer.unread.saturating_sub(1);
                }
            }
            None => {}
        }
        team
    }

    /// Waits until `take` finds what it looks for.
    fn wait<R>(
        &self,
        s: &Runtime,
        name: Name,
        team: u64,
        pe: usize,
        what: &str,
        mut take: impl FnMut(&mut Peer) -> Option<R>,
    ) -> R {
        let mut found = None;
        let ready = || {
            found = self.look(s, name, team, pe, &mut take);
            found.is_some()
        };
        ok(name, Some(pe), s.job.wait(ready, &|| format!("{name}: {what} PE {pe} (team {})", shown(team))));
        found.expect("the wait ended well")
    }

    /// Posts a record to `pe`.
    ///
    /// # Safety
    /// The message of `what` is readable.
    unsafe fn post(&self, s: &Runtime, name: Name, pe: usize, what: Record) {
        let Record { team, kind, data, len } = what;
        let mut posted = lock(&self.posted[pe]);
        *posted += 1;
        let (count, layout) = (*posted, &self.layout);
        let room = || s.word(layout.taken(pe)).load(Ordering::Acquire) + layout.records as u64 >= count;
        if !room() {
            self.wait(s, name, team, pe, "room for a record at", |_| room().then_some(()));
        }
        let mut record = [0u8; RECORD_MAX];
        record[..8].copy_from_slice(&team.to_le_bytes());
        record[8..12].copy_from_slice(&(kind as u32).to_le_bytes());
        record[12..16].copy_from_slice(&(len as u32).to_le_bytes());
        if len > 0 {
            // SAFETY: the caller's contract; a record has room for the longest message.
            unsafe { std::ptr::copy_nonoverlapping(data, record[HEAD..HEAD + len].as_mut_ptr(), len) };
        }
        let slot = internal(layout.slot(s.me, count));
        // SAFETY: a local.
        unsafe { s.put_sync(name, pe, slot, record.as_ptr(), HEAD + len) };
        s.order(name);
        s.put_word(name, pe, layout.posted(s.me), count);
    }

    fn tell(&self, s: &Runtime, name: Name, team: u64, pe: usize, kind: RecordKind) {
        // SAFETY: no bytes.
        unsafe { self.post(s, name, pe, Record { team, kind, data: std::ptr::null(), len: 0 }) }
    }

    pub(crate) fn signal(&self, s: &Runtime, name: Name, team: u64, pe: usize) {
        self.tell(s, name, team, pe, RecordKind::Signal);
    }

    pub(crate) fn await_signal(&self, s: &Runtime, name: Name, team: u64, pe: usize) {
        self.wait(s, name, team, pe, "a signal of", |peer| {
            peer.signals = peer.signals.checked_sub(1)?;
            Some(())
        })
    }

    pub(crate) fn enter(&self, s: &Runtime, name: Name, team: u64, root: usize) {
        self.tell(s, name, team, root, RecordKind::Entered);
    }

    pub(crate) fn await_entered(&self, s: &Runtime, name: Name, team: u64, pe: usize, count: u64) {
        self.wait(s, name, team, pe, ENTRY, |peer| (peer.entered >= count).then_some(()))
    }

    /// # Safety
    /// `data` is readable for `len` bytes, no more than [`Streams::message_max`].
    pub(crate) unsafe fn send(&self, s: &Runtime, name: Name, team: u64, pe: usize, data: *const u8, len: usize) {
        self.wait(s, name, team, pe, "two messages to be read by", |peer| {
            peer.unread = (peer.unread < SLOTS).then_some(peer.unread + 1)?;
            Some(())
        });
        // SAFETY: the caller promises what the callee asks for.
        unsafe { self.post(s, name, pe, Record { team, kind: RecordKind::Mail, data, len }) }
    }

    /// The next message of `pe`.
    pub(crate) fn receive(&self, s: &Runtime, name: Name, team: u64, pe: usize) -> Vec<u8> {
        let message = self.wait(s, name, team, pe, "a message of", |peer| peer.mail.pop_front());
        self.tell(s, name, team, pe, RecordKind::Read);
        message
    }
}
