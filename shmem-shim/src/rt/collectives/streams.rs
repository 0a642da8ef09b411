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

use super::ops;
use super::p2p::SLOTS;
use crate::ctypes::Name;
use crate::rt::{Runtime, lock, ok, team::Group};
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the team of all PEs, which has words of its own.
pub(crate) const WORLD: u64 = 0;
/// Name of `SHMEM_TEAM_SHARED`.
pub(crate) const SHARED: u64 = 1;
/// Name under which all active sets talk.
pub(crate) const ACTIVE_SETS: u64 = 2;
/// Bits of a name that count the teams whose first PE is the same; those above are that PE, plus one.
const COUNT_BITS: u32 = 40;

/// Bytes of a record before its message: team, kind, length.
const HEAD: usize = 16;
/// Most records of a pair under way.
const RECORDS_MAX: usize = 8;
/// Largest record, in bytes.
const RECORD_MAX: usize = 4096;

/// Kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RecordKind {
    /// A signal.
    Signal,
    /// A message, which follows.
    Mail,
    /// A message was read.
    Read,
    /// The sender has entered a broadcast that the receiver is the root of.
    Entered,
}

/// A record to be posted.
struct Record {
    team: u64,
    kind: RecordKind,
    /// The message, of `len` bytes.
    data: *const u8,
    len: usize,
}

impl RecordKind {
    fn of(bits: u32) -> Option<RecordKind> {
        [RecordKind::Signal, RecordKind::Mail, RecordKind::Read, RecordKind::Entered]
            .into_iter()
            .find(|k| *k as u32 == bits)
    }
}

/// Where the rings of this PE lie in its internal area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    n: usize,
    start: usize,
    records: usize,
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
    fn posted(&self, from: usize) -> usize {
        self.start + from * 8
    }
    /// Records taken by `by`.
    fn taken(&self, by: usize) -> usize {
        self.start + (self.n + by) * 8
    }
    fn slot(&self, from: usize, count: u64) -> usize {
        self.start + 2 * 8 * self.n + (from * self.records + count as usize % self.records) * self.record
    }
    #[cfg(test)]
    pub(crate) fn end(&self) -> usize {
        self.slot(self.n, 0)
    }
}

/// Signals and messages for a team from another PE, and those sent to it.
#[derive(Default)]
struct Peer {
    signals: u64,
    mail: VecDeque<Vec<u8>>,
    /// Messages sent and not read yet.
    unread: usize,
    entered: u64,
}

struct Inbox {
    /// Records taken, by sender.
    taken: Box<[u64]>,
    /// Teams by name, and their PEs.
    teams: HashMap<u64, HashMap<usize, Peer>>,
}

impl Inbox {
    fn peer(&mut self, team: u64, pe: usize) -> &mut Peer {
        self.teams.entry(team).or_default().entry(pe).or_default()
    }
}

/// The streams of all teams, on this PE.
pub(crate) struct Streams {
    layout: Layout,
    /// Records posted, by receiver. Locked while one is posted.
    posted: Box<[Mutex<u64>]>,
    inbox: Mutex<Inbox>,
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
        let slot = super::p2p::internal(layout.slot(s.me, count));
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
        self.wait(s, name, team, pe, super::p2p::ENTRY, |peer| (peer.entered >= count).then_some(()))
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

/// A name as a reader knows it: the first PE of the team's parent, and the number of the team among those it has named.
pub(crate) fn shown(team: u64) -> String {
    match team {
        WORLD => "SHMEM_TEAM_WORLD".into(),
        SHARED => "SHMEM_TEAM_SHARED".into(),
        ACTIVE_SETS => "active set".into(),
        name => format!("{}.{}", (name >> COUNT_BITS).saturating_sub(1), name & ((1 << COUNT_BITS) - 1)),
    }
}

/// Names this PE has given.
#[derive(Default)]
pub(crate) struct Names(AtomicU64);

impl Runtime {
    /// Teams have names of their own.
    fn names_teams(&self) -> bool {
        self.checking || self.p2p().streams().is_some()
    }

    /// `name` if teams have names, else that of the team of all PEs.
    pub(crate) fn stream(&self, name: u64) -> u64 {
        if self.names_teams() { name } else { WORLD }
    }

    /// Names for `count` (1 or 2) teams to be made out of `parent`. Collective over `parent`, and orders what
    /// its PEs did before against what they do after: programs rely on that.
    pub(crate) fn new_streams(&self, name: Name, parent: &Group, count: u64) -> [u64; 2] {
        if !self.names_teams() {
            self.group_sync(name, parent);
            return [WORLD; 2];
        }
        let mut first = 0u64;
        if parent.world(0) == self.me {
            first = (self.me as u64 + 1) << COUNT_BITS | (self.names.0.fetch_add(count, Ordering::Relaxed) + 1);
        }
        // SAFETY: one element, which fits into a message.
        unsafe { self.doubling(name, parent, (&raw mut first).cast(), 1, ops::Ops::<u64>::OR) };
        [first, first + count - 1]
    }

    /// Forgets a team that was destroyed.
    pub(crate) fn forget_stream(&self, team: u64) {
        if let Some(streams) = self.p2p().streams() {
            streams.forget(team);
        }
    }
}
