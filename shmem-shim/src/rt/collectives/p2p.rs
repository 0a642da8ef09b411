//! How PEs of a collective talk: counted signals and small messages in the library's own area.
//!
//! Each PE has, in its internal area, one word per other PE for signals and a two-slot mailbox per
//! other PE. A signal or message carries the count of those sent before it on the same pair, so
//! the receiver knows which one it sees, and nothing is ever reset. Collectives of overlapping teams work
//! because two PEs that belong to both call them in one order, unless several threads do: then only the team of
//! all PEs uses these words, and the others have [`super::streams`]. Everything goes through put, so the same
//! code runs on every engine.
//!
//! ```text
//! 0        4096 (in large jobs the end of what other jobs have)
//! | words | signals 8n | mail in 8n | mail read 8n | entered 8n | mailboxes: per PE two slots | rings of the streams |
//! ```

use super::streams::{self, Streams};
use crate::ctypes::Name;
use crate::rt::{Runtime, ok};
use angara::per_peer::PerPeer;
use angara::{Class, Comparison, INTERNAL_FREE, Place, Region};
use angara_abi::job::{internal_bytes, large_tables};
use angara_abi::order;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Byte offsets of single words at the start of the area.
pub(crate) mod word {
    /// TreeId + 1 of the world tree, written by PE 0.
    pub(crate) const TREE: usize = 64;
    /// Bytes this PE contributes to a collect.
    pub(crate) const LENGTH: usize = 72;
    /// Bytes those before it contribute, written by the PE that adds them up.
    pub(crate) const BELOW: usize = 80;
    /// Not 0 if some PE runs several threads.
    pub(crate) const THREADS: usize = 88;
}

/// Where the tables begin that come behind the single words, and where they have to end.
fn tables(n: usize) -> Range<usize> {
    // Usually they fit before what barriers and trees have.
    large_tables(n).unwrap_or(4096..INTERNAL_FREE)
}
/// Smallest mailbox slot.
const SLOT_MIN: usize = 48;
/// Largest mailbox slot.
const SLOT_MAX: usize = 16 * 1024;
/// Messages of a pair that may be under way.
pub(crate) const SLOTS: usize = 2;
/// Wait of a broadcast's root, in notes of waits.
pub(crate) const ENTRY: &str = "entry to an earlier broadcast by";

/// Where everything lies, for a job of `n` PEs.
#[derive(Clone, Copy, Debug)]
struct Layout {
    n: usize,
    /// Where the tables begin.
    tables: usize,
    /// Bytes of a mailbox slot.
    slot: usize,
    /// The rest, if some PE runs several threads.
    streams: Option<streams::Layout>,
}

impl Layout {
    fn new(n: usize, threads: bool) -> Layout {
        let tables = tables(n);
        let room = tables.len();
        let words = Layout::words(n);
        let own = if threads { (room / 2).max(words + SLOTS * n * SLOT_MIN) } else { room };
        // Whole cache lines, as long as there are enough.
        let whole = |bytes: usize| if bytes >= 64 { bytes & !63 } else { bytes & !15 };
        let slot = whole(own.saturating_sub(words) / (SLOTS * n)).min(SLOT_MAX);
        let end = words + SLOTS * n * slot;
        let streams = threads.then(|| streams::Layout::new(n, tables.start + end, room - end));
        Layout { n, tables: tables.start, slot, streams }
    }
    /// Bytes of the words.
    fn words(n: usize) -> usize {
        (4 * 8 * n).next_multiple_of(64)
    }
    fn signal(&self, from: usize) -> usize {
        self.tables + from * 8
    }
    fn mail_in(&self, from: usize) -> usize {
        self.tables + (self.n + from) * 8
    }
    fn mail_read(&self, by: usize) -> usize {
        self.tables + (2 * self.n + by) * 8
    }
    fn entered(&self, by: usize) -> usize {
        self.tables + (3 * self.n + by) * 8
    }
    fn mailbox(&self, from: usize, count: u64) -> usize {
        self.tables + Layout::words(self.n) + (from * SLOTS + count as usize % SLOTS) * self.slot
    }
}

/// Signals and messages between this PE and another one: those sent, and those seen.
#[derive(Default)]
struct Pair {
    signals_sent: AtomicU64,
    signals_seen: AtomicU64,
    mail_sent: AtomicU64,
    mail_seen: AtomicU64,
    /// Active-set broadcasts from this PE to the other one, and from the other one.
    broadcasts: AtomicU64,
    entered: AtomicU64,
}

/// Counters of all pairs this PE is part of.
pub(crate) struct P2p {
    layout: Layout,
    pairs: PerPeer<Pair>,
    streams: Option<Streams>,
}

fn next(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed) + 1
}

/// A place in the internal area.
pub(crate) fn internal(offset: usize) -> Place {
    Place { region: Region::Heap, offset: offset as u64 }
}

impl P2p {
    /// `threads`: some PE runs several threads.
    pub(crate) fn new(n: usize, threads: bool) -> P2p {
        let layout = Layout::new(n, threads);
        let pairs = PerPeer::new(n);
        P2p { layout, pairs, streams: layout.streams.map(Streams::new) }
    }
    /// The streams of teams, if they have any.
    pub(crate) fn streams(&self) -> Option<&Streams> {
        self.streams.as_ref()
    }
    /// The streams, if `team` uses them.
    #[inline]
    fn stream(&self, team: u64) -> Option<&Streams> {
        if team == streams::WORLD { None } else { self.streams.as_ref() }
    }
    /// Most bytes of one message in `team`.
    pub(crate) fn message_max(&self, team: u64) -> usize {
        self.stream(team).map_or(self.layout.slot, Streams::message_max)
    }
}

impl Runtime {
    /// A word of this PE's internal area.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= internal_bytes(self.n));
        // SAFETY: inside the internal area, which stays mapped for the life of the process; aligned;
        // peers write it by single stores only.
        unsafe { AtomicU64::from_ptr(self.job.internal().add(offset).cast()) }
    }

    /// Stores `value` in a word of the internal area of `pe`.
    pub(crate) fn put_word(&self, name: Name, pe: usize, offset: usize, value: u64) {
        if pe == self.me {
            self.word(offset).store(value, Ordering::Release);
            return;
        }
        // The word says that what was put or read before is done.
        order::publish();
        if self.job.ctx().put_element::<8>(Class::Sync, pe, self.job.internal().wrapping_add(offset), || value) {
            return;
        }
        // SAFETY: the source is a local of 8 bytes.
        let result = unsafe { self.job.ctx().put(Class::Sync, pe, internal(offset), (&raw const value).cast(), 8) };
        ok(name, Some(pe), result);
    }

    /// Puts on behalf of the library.
    ///
    /// # Safety
    /// `source` is readable for `len` bytes.
    pub(crate) unsafe fn put_sync(&self, name: Name, pe: usize, to: Place, source: *const u8, len: usize) {
        if len > 0 {
            // SAFETY: the caller promises what the callee asks for.
            ok(name, Some(pe), unsafe { self.job.ctx().put(Class::Sync, pe, to, source, len) });
        }
    }

    /// Gets on behalf of the library.
    ///
    /// # Safety
    /// `into` is writable for `len` bytes.
    pub(crate) unsafe fn get_sync(&self, name: Name, pe: usize, from: Place, into: *mut u8, len: usize) {
        // SAFETY: the caller promises what the callee asks for.
        ok(name, Some(pe), unsafe { self.job.ctx().get(Class::Sync, pe, into, from, len) });
    }

    /// Waits until a word of this PE's area has reached `count`.
    fn await_word(&self, name: Name, offset: usize, count: u64, what: &str, pe: usize) {
        let word = self.word(offset);
        // Without this check the closure for the message would be built on every call.
        if word.load(Ordering::Acquire) < count {
            let what = || format!("{name}: {what} PE {pe} (number {count})");
            let ready = || word.load(Ordering::Acquire) >= count;
            ok(name, Some(pe), self.job.wait_word(word.as_ptr().cast(), Comparison::at_least(count), ready, &what));
        }
    }

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

    /// Orders what was put before against what is put after.
    pub(crate) fn order(&self, name: Name) {
        ok(name, None, self.job.ctx().fence());
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_holds_tables_mailboxes_and_rings_of_every_job_size() {
        for n in [1, 2, 3, 7, 8, 64, 65, 1000, 4096, 4097, 32_768, angara_abi::job::PES_MAX] {
            for threads in [false, true] {
                let l = Layout::new(n, threads);
                let end = l.mailbox(n, 0);
                assert!(l.entered(n - 1) + 8 <= l.mailbox(0, 0), "{n} PEs: {l:?}");
                assert!(
                    l.slot >= SLOT_MIN && l.slot.is_multiple_of(if l.slot < 64 { 16 } else { 64 }),
                    "{n} PEs: {l:?}"
                );
                assert_eq!(threads, l.streams.is_some());
                match l.streams {
                    Some(streams) => {
                        assert!(streams.end() <= tables(n).end, "{n} PEs: {l:?} ends at {}", streams.end());
                        assert!(streams.message_max() >= 48, "{n} PEs: {l:?}");
                    }
                    None => assert!(end <= tables(n).end, "{n} PEs: {l:?} ends at {end}"),
                }
            }
        }
    }
}
