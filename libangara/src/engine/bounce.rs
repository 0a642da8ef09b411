//! Book-keeping of the bounce region: who uses which bytes of staging, and which gets are due.
//!
//! Staging is a ring handed out and taken back in order. An entry at the front is taken back
//! when its put has been copied by the adapter or its get has arrived and been copied out.

use crate::driver::Adapter;
use crate::error::Result;
use angara_abi::clock::WaitsFor;
use angara_abi::desc::{Place, Region};
use angara_abi::job::bounce::{STAGING, STAGING_BYTES};
use std::collections::VecDeque;

/// Where staged data of a get goes: destination, where it was staged, bytes.
type CopyOut = (*mut u8, Place, usize);

struct Entry {
    seq: u32,
    /// Ends when its data is there; a put when it is copied.
    read: bool,
    /// Free-running end of the entry's staging; `None` if it took none.
    end: Option<u64>,
    to: Option<CopyOut>,
}

impl Entry {
    fn is_done(&self, adapter: &Adapter) -> bool {
        if self.read { adapter.delivered(self.seq) } else { adapter.copied(self.seq) }
    }

    fn waits_for(&self) -> WaitsFor {
        if self.read { WaitsFor::Delivered(self.seq) } else { WaitsFor::Copied(self.seq) }
    }
}

#[derive(Default)]
pub(crate) struct Bounce {
    entries: VecDeque<Entry>,
    /// Bytes handed out and taken back, both free-running.
    tail: u64,
    head: u64,
    /// Entries made and retired so far.
    made: u64,
    done: u64,
}

// SAFETY: the destination pointers of pending gets belong to callers who promised to keep them
// valid until quiet; which thread copies does not matter.
unsafe impl Send for Bounce {}

impl Bounce {
    /// `len` bytes of staging, and the mark that ends them; waits for earlier entries if full.
    pub(crate) fn take(&mut self, adapter: &Adapter, len: usize) -> Result<(Place, u64)> {
        debug_assert!(len <= STAGING_BYTES);
        let size = STAGING_BYTES as u64;
        let len = (len as u64).next_multiple_of(16);
        let mut start = self.tail;
        if start % size + len > size {
            start = start.next_multiple_of(size);
        }
        let end = start + len;
        while end - self.head > size {
            self.retire(adapter);
            let Some(first) = self.entries.front() else {
                self.head = start;
                break;
            };
            if end - self.head <= size {
                break;
            }
            let done = || first.is_done(adapter);
            adapter.wait(first.waits_for(), done, &|| "room in the staging memory of this PE".into())?;
        }
        self.tail = end;
        Ok((Place { region: Region::Bounce, offset: STAGING as u64 + start % size }, end))
    }

    /// The latest get that is not retired.
    pub(crate) fn last_get(&self) -> Option<u32> {
        self.entries.iter().rev().find(|e| e.read).map(|e| e.seq)
    }

    /// Staging up to `end` is in use until the adapter has copied put `seq`.
    pub(crate) fn put(&mut self, seq: u32, end: u64) {
        self.entries.push_back(Entry { seq, read: false, end: Some(end), to: None });
        self.made += 1;
    }

    /// Once get `seq` has delivered, staged data goes `to`.
    pub(crate) fn get(&mut self, seq: u32, end: Option<u64>, to: Option<CopyOut>) {
        self.entries.push_back(Entry { seq, read: true, end, to });
        self.made += 1;
    }

    /// What has not been delivered of gets that were made after the first `made` entries goes nowhere.
    pub(crate) fn give_up(&mut self, made: u64) {
        let retired = made.saturating_sub(self.done) as usize;
        self.entries.iter_mut().skip(retired).for_each(|entry| entry.to = None);
    }

    /// Nothing is staged or due.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries made so far.
    pub(crate) fn posted(&self) -> u64 {
        self.made
    }

    /// Takes back what is finished; returns how many entries were ever retired.
    pub(crate) fn retired(&mut self, adapter: &Adapter) -> u64 {
        self.retire(adapter);
        self.done
    }

    fn retire(&mut self, adapter: &Adapter) {
        while let Some(e) = self.entries.front() {
            if !e.is_done(adapter) {
                break;
            }
            if let Some((to, from, len)) = e.to {
                let staging = adapter.memory.bounce.as_ptr();
                // SAFETY: `from` was handed out by `take` for `len` bytes; the caller of the get
                // keeps `to` valid until quiet.
                unsafe { angara_abi::copy::store(to, staging.add(from.offset as usize), len) };
            }
            if let Some(end) = e.end {
                self.head = end;
            }
            self.done += 1;
            self.entries.pop_front();
        }
    }
}
