//! How PEs of a collective talk: counted signals and small messages in the library's own area.
//!
//! Each PE has, in its internal area, one word per other PE for signals and a two-slot mailbox per
//! other PE. A signal or message carries the count of those sent before it on the same pair, so
//! the receiver knows which one it sees, and nothing is ever reset. Collectives of overlapping teams work
//! because two PEs that belong to both call them in one order, unless several threads do: then each team
//! has a *lane*, a set of words and mailboxes of its own ([`super::lanes`]). Everything goes through put,
//! so the same code runs on every engine.
//!
//! ```text
//! 0        4096
//! | words | lane 0 | lane 1 | ...
//!
//! lane:  | signals 8n | mail in 8n | mail read 8n | mailboxes: per PE two slots |
//! ```

use super::{State, ok};
use crate::ctypes::Name;
use angara::{Class, INTERNAL_FREE, Place, Region};
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

const TABLES: usize = 4096;
/// Largest mailbox slot.
const SLOT_MAX: usize = 16 * 1024;
/// Messages of a pair that may be under way.
const SLOTS: usize = 2;

/// Most lanes of a job.
pub(crate) const LANES: usize = 16;

/// Where everything lies, for a job of `n` PEs.
#[derive(Clone, Copy, Debug)]
struct Layout {
    n: usize,
    lanes: usize,
    /// Bytes of lane 0, and of each other one.
    bytes: [usize; 2],
    /// Bytes of a mailbox slot in lane 0, and in each other one.
    slot: [usize; 2],
}

impl Layout {
    /// Lane 0 alone has everything; with `threads`, the others together have half.
    fn new(n: usize, threads: bool) -> Layout {
        let room = INTERNAL_FREE - TABLES;
        let words = Layout::words(n);
        let others = if threads { (LANES - 1).min(room / 2 / (words + 64 * SLOTS * n)) } else { 0 };
        let other = (room / 2).checked_div(others).map_or(0, |bytes| bytes & !63);
        let bytes = [(room - others * other) & !63, other];
        let slot = bytes.map(|b| ((b.saturating_sub(words) / (SLOTS * n)) & !63).min(SLOT_MAX));
        assert!(slot[0] >= 64, "the internal area is too small for {n} PEs");
        Layout { n, lanes: others + 1, bytes, slot }
    }
    /// Bytes of the words of a lane.
    fn words(n: usize) -> usize {
        (3 * 8 * n).next_multiple_of(64)
    }
    fn slot(&self, lane: usize) -> usize {
        self.slot[lane.min(1)]
    }
    fn start(&self, lane: usize) -> usize {
        TABLES + if lane == 0 { 0 } else { self.bytes[0] + (lane - 1) * self.bytes[1] }
    }
    fn signal(&self, lane: usize, from: usize) -> usize {
        self.start(lane) + from * 8
    }
    fn mail_in(&self, lane: usize, from: usize) -> usize {
        self.start(lane) + (self.n + from) * 8
    }
    fn mail_read(&self, lane: usize, by: usize) -> usize {
        self.start(lane) + (2 * self.n + by) * 8
    }
    fn mailbox(&self, lane: usize, from: usize, count: u64) -> usize {
        self.start(lane) + Layout::words(self.n) + (from * SLOTS + count as usize % SLOTS) * self.slot(lane)
    }
}

/// What this PE has sent to and seen from each other one.
struct Pair {
    signals_sent: AtomicU64,
    signals_seen: AtomicU64,
    mail_sent: AtomicU64,
    mail_seen: AtomicU64,
}

/// Counters of all pairs this PE is part of.
pub(crate) struct P2p {
    layout: Layout,
    pairs: Box<[Pair]>,
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
        let pair = |_| Pair {
            signals_sent: AtomicU64::new(0),
            signals_seen: AtomicU64::new(0),
            mail_sent: AtomicU64::new(0),
            mail_seen: AtomicU64::new(0),
        };
        let layout = Layout::new(n, threads);
        P2p { layout, pairs: (0..n * layout.lanes).map(pair).collect() }
    }
    /// Most bytes of one message of a lane.
    pub(crate) fn message_max(&self, lane: usize) -> usize {
        self.layout.slot(lane)
    }
    /// Lanes there are.
    pub(crate) fn lanes(&self) -> usize {
        self.layout.lanes
    }
    fn pair(&self, lane: usize, pe: usize) -> &Pair {
        &self.pairs[lane * self.layout.n + pe]
    }
}

impl State {
    /// A word of this PE's internal area.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= INTERNAL_FREE);
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
        if self.job.ctx().put_element::<8>(Class::Sync, pe, self.job.internal().wrapping_add(offset), value) {
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
            // SAFETY: passed on.
            ok(name, Some(pe), unsafe { self.job.ctx().put(Class::Sync, pe, to, source, len) });
        }
    }

    /// Gets on behalf of the library.
    ///
    /// # Safety
    /// `into` is writable for `len` bytes.
    pub(crate) unsafe fn get_sync(&self, name: Name, pe: usize, from: Place, into: *mut u8, len: usize) {
        // SAFETY: passed on.
        ok(name, Some(pe), unsafe { self.job.ctx().get(Class::Sync, pe, into, from, len) });
    }

    /// Waits until a word of this PE's area has reached `count`.
    fn await_word(&self, name: Name, offset: usize, count: u64, what: &str, pe: usize) {
        let word = self.word(offset);
        // Without this check the closure for the message would be built on every call.
        if word.load(Ordering::Acquire) < count {
            let what = || format!("{name}: {what} PE {pe} (number {count})");
            ok(name, Some(pe), self.job.wait(|| word.load(Ordering::Acquire) >= count, &what));
        }
    }

    /// Tells `pe` that this PE got here. Everything put to `pe` before is ordered before it only
    /// after [`State::order`].
    pub(crate) fn signal(&self, name: Name, lane: usize, pe: usize) {
        let p2p = self.p2p();
        let count = next(&p2p.pair(lane, pe).signals_sent);
        self.put_word(name, pe, p2p.layout.signal(lane, self.me), count);
    }

    /// Waits for the next signal of `pe`.
    pub(crate) fn await_signal(&self, name: Name, lane: usize, pe: usize) {
        let p2p = self.p2p();
        let count = next(&p2p.pair(lane, pe).signals_seen);
        self.await_word(name, p2p.layout.signal(lane, pe), count, "a signal of", pe);
    }

    /// Orders what was put before against what is put after.
    pub(crate) fn order(&self, name: Name) {
        ok(name, None, self.job.ctx().fence());
    }

    /// Sends at most [`P2p::message_max`] bytes to another PE. Waits while two earlier messages to it are unread.
    ///
    /// # Safety
    /// `data` is readable for `len` bytes.
    pub(crate) unsafe fn send(&self, name: Name, lane: usize, pe: usize, data: *const u8, len: usize) {
        let layout = &self.p2p().layout;
        debug_assert!(len <= layout.slot(lane) && pe != self.me);
        let count = next(&self.p2p().pair(lane, pe).mail_sent);
        let unread = count.saturating_sub(SLOTS as u64);
        self.await_word(name, layout.mail_read(lane, pe), unread, "room in the mailbox at", pe);
        // SAFETY: passed on; the slot has room for the message.
        unsafe { self.put_sync(name, pe, internal(layout.mailbox(lane, self.me, count)), data, len) };
        self.order(name);
        self.put_word(name, pe, layout.mail_in(lane, self.me), count);
    }

    /// Waits for the next message of `pe` and hands it to `read`.
    pub(crate) fn receive<R>(&self, name: Name, lane: usize, pe: usize, read: impl FnOnce(*const u8) -> R) -> R {
        let layout = &self.p2p().layout;
        let count = next(&self.p2p().pair(lane, pe).mail_seen);
        self.await_word(name, layout.mail_in(lane, pe), count, "a message of", pe);
        // SAFETY: the slot is inside the internal area.
        let value = read(unsafe { self.job.internal().add(layout.mailbox(lane, pe, count)) });
        self.put_word(name, pe, layout.mail_read(lane, self.me), count);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_holds_tables_and_mailboxes_of_every_job_size() {
        for n in [1, 2, 3, 7, 8, 64, 65, 1000, abi::job::PES_MAX] {
            for threads in [false, true] {
                let l = Layout::new(n, threads);
                assert!(threads || l.lanes == 1);
                assert!(!threads || l.lanes == LANES || n > 64, "{n} PEs: {l:?}");
                for lane in 0..l.lanes {
                    let end = l.mailbox(lane, n - 1, 1) + l.slot(lane);
                    let next = if lane + 1 < l.lanes { l.start(lane + 1) } else { INTERNAL_FREE };
                    assert!(end <= next, "{n} PEs: lane {lane} of {l:?} ends at {end}");
                    assert!(l.mail_read(lane, n - 1) + 8 <= l.mailbox(lane, 0, 0));
                    assert!(l.slot(lane) >= 64 && l.mailbox(lane, 0, 0).is_multiple_of(64), "{l:?}");
                }
            }
        }
    }
}
