//! Rings of records between two PEs, and what a PE has taken out of them: the state of [`super::streams`].

use crate::rt::mutex::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

/// Bytes of a record before its message: team, kind, length.
pub(super) const HEAD: usize = 16;
/// Most records of a pair under way.
const RECORDS_MAX: usize = 8;
/// Largest record, in bytes.
pub(super) const RECORD_MAX: usize = 4096;

/// Kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordKind {
    Signal,
    /// A message, which follows.
    Mail,
    /// A message was read.
    Read,
    /// The sender has entered a broadcast that the receiver is the root of.
    Entered,
}

impl RecordKind {
    pub(super) fn of(bits: u32) -> Option<RecordKind> {
        [RecordKind::Signal, RecordKind::Mail, RecordKind::Read, RecordKind::Entered]
            .into_iter()
            .find(|k| *k as u32 == bits)
    }
}

/// Where the rings of this PE lie in its internal area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(super) n: usize,
    start: usize,
    pub(super) records: usize,
    record: usize,
}

impl Layout {
    /// Rings of `n` PEs in `bytes` bytes from `start` on.
    pub(crate) fn new(n: usize, start: usize, bytes: usize) -> Layout {
        let ring = (bytes / n).saturating_sub(2 * 8);
        let records = (ring / 128).clamp(1, RECORDS_MAX);
        Layout { n, start, records, record: ((ring / records) & !15).min(RECORD_MAX) }
    }
    /// Most bytes of a message.
    pub(crate) fn message_max(&self) -> usize {
        self.record - HEAD
    }
    /// Records posted by `from`.
    pub(super) fn posted(&self, from: usize) -> usize {
        self.start + from * 8
    }
    /// Records taken by `by`.
    pub(super) fn taken(&self, by: usize) -> usize {
        self.start + (self.n + by) * 8
    }
    pub(super) fn slot(&self, from: usize, count: u64) -> usize {
        self.start + 2 * 8 * self.n + (from * self.records + count as usize % self.records) * self.record
    }
    #[cfg(test)]
    pub(crate) fn end(&self) -> usize {
        self.slot(self.n, 0)
    }
}

/// Signals and messages for a team from another PE, and those sent to it.
#[derive(Default)]
pub(super) struct Peer {
    pub(super) signals: u64,
    pub(super) mail: VecDeque<Vec<u8>>,
    /// Messages sent and not read yet.
    pub(super) unread: usize,
    pub(super) entered: u64,
}

pub(super) struct Inbox {
    /// Records taken, by sender.
    pub(super) taken: Box<[u64]>,
    /// Teams by name, and their PEs.
    pub(super) teams: HashMap<u64, HashMap<usize, Peer>>,
}

impl Inbox {
    pub(super) fn peer(&mut self, team: u64, pe: usize) -> &mut Peer {
        self.teams.entry(team).or_default().entry(pe).or_default()
    }
}

/// The streams of all teams, on this PE.
pub(crate) struct Streams {
    pub(super) layout: Layout,
    /// Records posted, by receiver. Locked while one is posted.
    pub(super) posted: Box<[Mutex<u64>]>,
    pub(super) inbox: Mutex<Inbox>,
}

impl Streams {
    pub(crate) fn new(layout: Layout) -> Streams {
        Streams {
            layout,
            posted: (0..layout.n).map(|_| Mutex::new(0)).collect(),
            inbox: Mutex::new(Inbox { taken: vec![0; layout.n].into(), teams: HashMap::new() }),
        }
    }
    /// Most bytes of a message.
    pub(crate) fn message_max(&self) -> usize {
        self.layout.message_max()
    }
    /// Forgets a team that was destroyed.
    pub(crate) fn forget(&self, team: u64) {
        lock(&self.inbox).teams.remove(&team);
    }
}
