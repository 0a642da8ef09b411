//! One attached PE's injection channel, as the data plane serves it.

use super::post::Posted;
use crate::memory::{JobMemory, PeMemory};
use abi::channel::status;
use abi::desc::Place;
use abi::queue::Consumer;
use abi::wait::{Fenced, Linux};
use fabric::Port;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A channel being served.
pub(super) struct Lane {
    pub(super) slot: u16,
    pub(super) pe: usize,
    pub(super) port: Port,
    pub(super) job: Arc<JobMemory>,
    pub(super) memory: Arc<PeMemory>,
    pub(super) consumer: Consumer,
    /// A checked post the network had no room for.
    pub(super) pending: Option<Posted>,
    /// In its sticky error state: nothing is taken any more.
    pub(super) broken: bool,
    /// A refused CSR command has been logged.
    pub(super) csr_logged: bool,
    progress: Progress,
}

impl Lane {
    pub(super) fn new(port: Port, job: Arc<JobMemory>, memory: Arc<PeMemory>) -> Lane {
        Lane {
            slot: job.slot,
            pe: memory.pe,
            port,
            job,
            memory,
            consumer: Consumer::default(),
            pending: None,
            broken: false,
            csr_logged: false,
            progress: Progress::default(),
        }
    }

    /// Something can be taken now: a post, unless one is waiting for room, or a CSR command.
    pub(super) fn has_work(&self) -> bool {
        let channel = &self.memory.channel;
        channel.csr_pending().is_some() || (!self.broken && self.pending.is_none() && self.consumer.has_work(channel))
    }

    /// Wakes the PE behind the channel if it waits for its adapter.
    pub(super) fn notify(&self) {
        self.job.sync.answers(self.pe).notify(&Linux);
    }

    /// Enters a post that the network accepted; returns its number for [`Lane::reached`].
    pub(super) fn enter(&mut self, seq: u32, copied: bool) -> u64 {
        let number = self.progress.enter(seq, copied);
        self.show_progress();
        number
    }

    /// Post `number` had its source copied, or all its packets injected too.
    pub(super) fn reached(&mut self, number: u64, injected: bool) {
        self.progress.reached(number, injected);
        self.show_progress();
    }

    fn show_progress(&mut self) {
        let channel = &self.memory.channel;
        if let Some(seq) = self.progress.take_copied() {
            channel.status_u32(status::COPIED).store(seq, Ordering::Release);
        }
        if let Some(seq) = self.progress.take_injected() {
            channel.status_u32(status::INJECTED).store(seq, Ordering::Release);
        }
    }

    /// Writes `seq` into a completion word of this PE.
    pub(super) fn complete(&self, place: Option<Place>, seq: u32) {
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
}

struct Entry {
    seq: u32,
    copied: bool,
    injected: bool,
}

impl Progress {
    fn enter(&mut self, seq: u32, copied: bool) -> u64 {
        self.open.push_back(Entry { seq, copied, injected: false });
        self.settle();
        self.first + self.open.len() as u64 - 1
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
        let (a, b, c) = (p.enter(1, false), p.enter(2, true), p.enter(3, true));
        assert_eq!((p.take_copied(), p.take_injected()), (None, None));
        p.reached(c, true);
        p.reached(b, true);
        assert_eq!((p.take_copied(), p.take_injected()), (None, None));
        p.reached(a, false);
        assert_eq!((p.take_copied(), p.take_injected()), (Some(3), None));
        p.reached(a, true);
        assert_eq!((p.take_copied(), p.take_injected()), (None, Some(3)));
        let d = p.enter(4, true);
        assert_eq!(p.take_copied(), Some(4));
        p.reached(d, true);
        assert_eq!(p.take_injected(), Some(4));
        p.reached(a, true); // stale numbers are ignored
    }
}
