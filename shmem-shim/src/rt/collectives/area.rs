//! The library's own area, in which PEs of a collective talk: where everything lies, and the counters of each pair.
//!
//! ```text
//! 0        4096 (in large jobs the end of what other jobs have)
//! | words | signals 8n | mail in 8n | mail read 8n | entered 8n | mailboxes: per PE two slots | rings of the streams |
//! ```

use super::rings::{self, Streams};
use crate::rt::teams::group::stream::WORLD;
use angara::per_peer::PerPeer;
use angara::{INTERNAL_FREE, Place, Region};
use angara_abi::job::large_tables;
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
pub(super) struct Layout {
    n: usize,
    /// Where the tables begin.
    tables: usize,
    /// Bytes of a mailbox slot.
    slot: usize,
    /// The rest, if some PE runs several threads.
    streams: Option<rings::Layout>,
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
        let streams = threads.then(|| rings::Layout::new(n, tables.start + end, room - end));
        Layout { n, tables: tables.start, slot, streams }
    }
    /// Returns the bytes of all words.
    fn words(n: usize) -> usize {
        (4 * 8 * n).next_multiple_of(64)
    }
    pub(super) fn signal(&self, from: usize) -> usize {
        self.tables + from * 8
    }
    pub(super) fn mail_in(&self, from: usize) -> usize {
        self.tables + (self.n + from) * 8
    }
    pub(super) fn mail_read(&self, by: usize) -> usize {
        self.tables + (2 * self.n + by) * 8
    }
    pub(super) fn entered(&self, by: usize) -> usize {
        self.tables + (3 * self.n + by) * 8
    }
    pub(super) fn mailbox(&self, from: usize, count: u64) -> usize {
        self.tables + Layout::words(self.n) + (from * SLOTS + count as usize % SLOTS) * self.slot
    }
}

/// Signals and messages between this PE and another one: those sent, and those seen.
#[derive(Default)]
pub(super) struct Pair {
    pub(super) signals_sent: AtomicU64,
    pub(super) signals_seen: AtomicU64,
    pub(super) mail_sent: AtomicU64,
    pub(super) mail_seen: AtomicU64,
    /// Active-set broadcasts from this PE to the other one, and from the other one.
    pub(super) broadcasts: AtomicU64,
    pub(super) entered: AtomicU64,
}

/// Counters of all pairs this PE is part of.
pub(crate) struct P2p {
    pub(super) layout: Layout,
    pub(super) pairs: PerPeer<Pair>,
    streams: Option<Streams>,
}

pub(super) fn next(counter: &AtomicU64) -> u64 {
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
    pub(super) fn stream(&self, team: u64) -> Option<&Streams> {
        if team == WORLD { None } else { self.streams.as_ref() }
    }
    /// Forgets a team that was destroyed.
    pub(crate) fn forget(&self, team: u64) {
        if let Some(streams) = &self.streams {
            streams.forget(team);
        }
    }
    /// Most bytes of one message in `team`.
    pub(crate) fn message_max(&self, team: u64) -> usize {
        self.stream(team).map_or(self.layout.slot, Streams::message_max)
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
