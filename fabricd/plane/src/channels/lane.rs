//! One attached PE's injection channel, as the data plane serves it.

use crate::channels::post::{Carried, Posted};
use crate::jobs::memory::{JobMemory, PeMemory};
use angara_abi::channel::status;
use angara_abi::desc::Place;
use angara_abi::queue::Consumer;
use angara_abi::wait::{Fenced, Linux};
use angara_fabric::{JobSlot, Port, Tick};
use angara_protocol::doubts::Doubted;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A channel being served.
pub(crate) struct Lane {
    pub(crate) slot: JobSlot,
    pub(crate) pe: usize,
    /// Its process.
    pub(crate) pid: i32,
    pub(crate) port: Port,
    pub(crate) job: Arc<JobMemory>,
    pub(crate) memory: Arc<PeMemory>,
    pub(crate) consumer: Consumer,
    /// A checked post the network had no room for.
    pub(crate) pending: Option<Posted>,
    /// The bytes that it, or the post being taken, carries itself.
    pub(crate) carried: Carried,
    /// In its sticky error state: nothing is taken any more.
    pub(crate) broken: bool,
    /// A refused CSR command has been logged.
    pub(crate) csr_logged: bool,
    progress: Progress,
    /// Reads delivered since the PE was last told.
    untold: usize,
    /// In virtual time: the latest post, and when the PE last stood.
    pub(crate) ran: (Tick, Tick),
}

/// Reads delivered for which one wake-up is due at the latest.
const READS_PER_WORD: usize = 64;

impl Lane {
    pub(crate) fn new(port: Port, job: Arc<JobMemory>, memory: Arc<PeMemory>, pid: i32) -> Lane {
        Lane {
            slot: job.slot,
            pe: memory.pe,
            pid,
            port,
            job,
            memory,
            consumer: Consumer::default(),
            pending: None,
            carried: [0; angara_abi::PAYLOAD_MAX],
            broken: false,
            csr_logged: false,
            progress: Progress::default(),
            untold: 0,
            ran: (0, 0),
        }
    }

    /// Something can be taken now: a post, unless one is waiting for room, or a CSR command.
    pub(crate) fn has_work(&self) -> bool {
        let channel = &self.memory.channel;
        channel.csr_pending().is_some() || (!self.broken && self.pending.is_none() && self.consumer.has_work(channel))
    }

    /// When a post was made, given what the PE says of it: not before the one before it, nor after it stood.
    pub(crate) fn issue_time(&mut self, said: Tick) -> Tick {
        self.ran.0 = said.clamp(self.ran.0, self.ran.1.max(self.ran.0));
        self.ran.0
    }

    /// Wakes the PE behind the channel if it waits for its adapter.
    pub(crate) fn notify(&self) {
        self.job.sync.answers(self.pe).notify(&Linux);
    }

    /// Enters a post that the network accepted, its source copied or not, a read or not; returns its number
    /// for [`Lane::reached`] and [`Lane::delivered`].
    pub(crate) fn enter(&mut self, seq: u32, copied: bool, read: bool) -> u64 {
        let number = self.progress.enter(seq, copied, read);
        self.show_progress();
        number
    }

    /// Post `number` had its source copied, or all its packets injected too.
    pub(crate) fn reached(&mut self, number: u64, injected: bool) {
        self.progress.reached(number, injected);
        self.show_progress();
    }

    /// The data of read `number` is where it belongs. Many reads are waited for as one: whoever sleeps is told
    /// when no more are on their way, or a batch of them is done. For one with a completion word that word is what tells.
    pub(crate) fn delivered(&mut self, number: u64, completion: Option<Place>) {
        self.progress.delivered(number);
        self.show_progress();
        if completion.is_some() {
            return;
        }
        self.untold += 1;
        let last = self.progress.reads.is_empty() && !self.has_work();
        if last || self.untold >= READS_PER_WORD {
            self.untold = 0;
            self.notify();
            self.job.sync.completions(self.pe).notify(&Fenced(Linux));
        }
    }

    fn show_progress(&mut self) {
        let channel = &self.memory.channel;
        if let Some(seq) = self.progress.take_delivered() {
            channel.status_u32(status::DELIVERED).store(seq, Ordering::Release);
        }
        if let Some(seq) = self.progress.take_copied() {
            channel.status_u32(status::COPIED).store(seq, Ordering::Release);
        }
        if let Some(seq) = self.progress.take_injected() {
            channel.status_u32(status::INJECTED).store(seq, Ordering::Release);
        }
    }

    /// Writes `seq` into a completion word of this PE.
    pub(crate) fn complete(&self, place: Option<Place>, seq: u32) {
        if let Some(place) = place
            && let Some((map, at)) = self.job.resolve(self.pe, place, 8, Some(&self.memory.bounce))
        {
            // The place was checked when the post was taken; mappings do not shrink.
            let _ = map.write(at, &(seq as u64).to_le_bytes());
        }
        self.notify();
        if place.is_some() {
            self.job.sync.completions(self.pe).notify(&Fenced(Linux));
        }
    }

    /// In virtual time: what makes times of its PE doubtful, as that says.
    pub(crate) fn doubted(&self) -> Option<Doubted> {
        let clock = self.memory.clock.as_ref()?;
        let (reasons, looks) = (clock.doubted(), clock.looks_most());
        (!reasons.is_none()).then(|| Doubted { pe: self.pe as u32, reasons: reasons.bits(), looks })
    }
}

/// Posts reach their states out of order; clients are shown how far *all* have come.
#[derive(Default)]
struct Progress {
    /// Number of the first entry of `open`.
    first: u64,
    open: VecDeque<Entry>,
    /// Entries of `open` known to be copied without a gap.
    copied: usize,
    copied_seq: Option<u32>,
    injected_seq: Option<u32>,
    /// Reads without their data, oldest first, and those behind them that have it.
    reads: VecDeque<Read>,
    /// The latest post.
    latest: u32,
    delivered_seq: Option<u32>,
}

struct Read {
    number: u64,
    seq: u32,
    delivered: bool,
}

struct Entry {
    seq: u32,
    copied: bool,
    injected: bool,
}

impl Progress {
    fn enter(&mut self, seq: u32, copied: bool, read: bool) -> u64 {
        self.open.push_back(Entry { seq, copied, injected: false });
        let number = self.first + self.open.len() as u64 - 1;
        self.latest = seq;
        if read {
            self.reads.push_back(Read { number, seq, delivered: false });
        } else if self.reads.is_empty() {
            self.delivered_seq = Some(seq);
        }
        self.settle();
        number
    }

    fn delivered(&mut self, number: u64) {
        if let Ok(at) = self.reads.binary_search_by_key(&number, |r| r.number) {
            self.reads[at].delivered = true;
        }
        while let Some(seq) = self.reads.front().filter(|r| r.delivered).map(|r| r.seq) {
            self.reads.pop_front();
            self.delivered_seq = Some(if self.reads.is_empty() { self.latest } else { seq });
        }
    }

    fn reached(&mut self, number: u64, injected: bool) {
        let entry = number.checked_sub(self.first).and_then(|i| self.open.get_mut(i as usize));
        if let Some(entry) = entry {
            entry.copied = true;
            entry.injected |= injected;
            self.settle();
        }
    }

    fn settle(&mut self) {
        while let Some(entry) = self.open.get(self.copied).filter(|e| e.copied) {
            self.copied_seq = Some(entry.seq);
            self.copied += 1;
        }
        while self.open.front().is_some_and(|e| e.injected) {
            if let Some(entry) = self.open.pop_front() {
                self.injected_seq = Some(entry.seq);
                self.first += 1;
                self.copied -= 1;
            }
        }
    }

    fn take_delivered(&mut self) -> Option<u32> {
        self.delivered_seq.take()
    }
    fn take_copied(&mut self) -> Option<u32> {
        self.copied_seq.take()
    }
    fn take_injected(&mut self) -> Option<u32> {
        self.injected_seq.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_shown_only_up_to_the_first_gap() {
        let mut p = Progress::default();
        let (a, b, c) = (p.enter(1, false, false), p.enter(2, true, false), p.enter(3, true, false));
        assert_eq!((p.take_copied(), p.take_injected()), (None, None));
        p.reached(c, true);
        p.reached(b, true);
        assert_eq!((p.take_copied(), p.take_injected()), (None, None));
        p.reached(a, false);
        assert_eq!((p.take_copied(), p.take_injected()), (Some(3), None));
        p.reached(a, true);
        assert_eq!((p.take_copied(), p.take_injected()), (None, Some(3)));
        let d = p.enter(4, true, false);
        assert_eq!(p.take_copied(), Some(4));
        p.reached(d, true);
        assert_eq!(p.take_injected(), Some(4));
        p.reached(a, true); // stale numbers are ignored
    }

    #[test]
    fn reads_count_as_delivered_only_up_to_the_first_gap() {
        let mut p = Progress::default();
        p.enter(1, true, false);
        assert_eq!(p.take_delivered(), Some(1), "nothing is read");
        let (a, b) = (p.enter(2, true, true), p.enter(3, true, true));
        p.enter(4, false, false);
        let c = p.enter(5, true, true);
        p.delivered(b);
        assert_eq!(p.take_delivered(), None);
        p.delivered(a);
        assert_eq!(p.take_delivered(), Some(3), "a later read is on its way");
        p.delivered(c);
        assert_eq!(p.take_delivered(), Some(5));
        p.enter(6, true, false);
        assert_eq!(p.take_delivered(), Some(6), "so that no old number is ever compared with a new one");
        p.delivered(a); // stale numbers are ignored
        assert_eq!(p.take_delivered(), None);
    }
}
