//! A PE whose time begins after it attaches.

use crate::error::{Error, Result};
use crate::memory::Memory;
use angara_abi::clock::ClockPage;
use angara_abi::shm::Cover;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Memory and words of a PE whose time begins after it attaches.
pub(super) struct Late {
    /// Covers the table of how PEs are reached.
    pub(super) reach: Cover,
    /// Covers the counters.
    pub(super) counters: Cover,
    /// Time at which all PEs begin.
    begins: *const AtomicU64,
    /// PEs that have said so far when they can, and how many there are.
    met: *const AtomicU32,
    pub(super) pes: u32,
    /// Number of the stand of a PE that is outside virtual time.
    pub(super) outside: AtomicU32,
}

impl Late {
    /// `memory` outlives it.
    pub(super) fn new(memory: &Memory, page: &ClockPage) -> Result<Late> {
        let failed = |e| Error::system("memory for the time before virtual time begins", e);
        let late = Late {
            reach: memory.targets.cover().map_err(failed)?,
            counters: memory.counters.cover().map_err(failed)?,
            begins: memory.sync.begins(),
            met: memory.sync.met(),
            pes: memory.sync.pes() as u32,
            outside: AtomicU32::new(0),
        };
        page.begins_late(true);
        late.reach.lay().and_then(|()| late.counters.lay()).map_err(failed)?;
        Ok(late)
    }

    pub(super) fn begins(&self) -> &AtomicU64 {
        // SAFETY: a word of the job's synchronisation page, which stays mapped as long as the driver.
        unsafe { &*self.begins }
    }
    pub(super) fn met(&self) -> &AtomicU32 {
        // SAFETY: as `begins`.
        unsafe { &*self.met }
    }
}
