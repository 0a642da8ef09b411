//! The barrier of PEs on one host that share its cores.
//!
//! A barrier of PEs that wait for each other on few cores costs one switch between processes per PE and
//! core, whatever its algorithm; what can be saved is the switches made in vain. PEs bound to one core
//! therefore gather at a counter of that core first, and wait by giving the core to each other. Whoever
//! completes a core's counter knows that nobody on this core has anything left to do, so it arrives for
//! all of them at the job's counter and watches that without giving the core away. The last one to
//! arrive opens the barrier. Results do not depend on where PEs run, only the time does; the first
//! barrier, and jobs whose PEs are not bound, use the job's counter alone.

use crate::driver::Adapter;
use crate::error::Result;
use angara_abi::job::SyncPage;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Looks at the generation before the core is given away after all: the other cores' PEs need a
/// while, and another program may keep them from running.
const SPINS: u32 = 400;

/// How PEs are spread over cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct CoreGroup {
    /// Number of my core among those used.
    index: usize,
    /// PEs bound to it.
    pes: u32,
    /// Cores used.
    cores: u32,
}

/// State of a PE for the on-host barrier.
#[derive(Default)]
pub(crate) struct Host {
    /// A barrier has been left, so every PE has said where it lives.
    met: AtomicBool,
    core: OnceLock<Option<CoreGroup>>,
}

/// Says which core this PE is bound to. Before its first barrier.
pub(crate) fn announce(adapter: &Adapter) {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let only = sched_getaffinity(None).ok().filter(|set| set.count() == 1);
    let core = only.and_then(|set| (0..CpuSet::MAX_CPU).find(|c| set.is_set(*c)));
    adapter.memory.sync.home(adapter.my_pe()).store(core.map_or(0, |c| c as u32 + 1), Ordering::Release);
}

/// Where PE `me` gathers, given each PE's home (core + 1); `None` if some PE has none, or there are
/// more cores than counters.
fn core_of(me: usize, homes: &[u32]) -> Option<CoreGroup> {
    let mut pes: BTreeMap<u32, u32> = BTreeMap::new();
    for home in homes {
        *pes.entry(*home).or_default() += 1;
    }
    if pes.contains_key(&0) || pes.len() > SyncPage::CORES {
        return None;
    }
    let index = pes.keys().position(|home| *home == homes[me])?;
    Some(CoreGroup { index, pes: pes[&homes[me]], cores: pes.len() as u32 })
}

impl Host {
    /// Enters the barrier. The last PE of the job to arrive calls `last` before anyone leaves.
    pub(crate) fn barrier(
        &self,
        adapter: &Adapter,
        last: impl FnOnce() -> Result<()>,
        missing: &dyn Fn() -> String,
    ) -> Result<()> {
        let sync = &adapter.memory.sync;
        let n = adapter.n_pes();
        let core = if self.met.load(Ordering::Relaxed) {
            let homes = || (0..n).map(|pe| sync.home(pe).load(Ordering::Acquire)).collect::<Vec<_>>();
            *self.core.get_or_init(|| core_of(adapter.my_pe(), &homes()))
        } else {
            None
        };
        let generation = sync.generation().load(Ordering::Acquire);
        let left = || sync.generation().load(Ordering::Acquire) != generation;
        let mut expected = n as u32;
        if let Some(core) = core {
            let gathered = sync.gathered(core.index);
            if gathered.fetch_add(1, Ordering::AcqRel) + 1 < core.pes {
                return self.wait(adapter, left, missing);
            }
            gathered.store(0, Ordering::Relaxed);
            expected = core.cores;
        }
        if sync.arrived().fetch_add(1, Ordering::AcqRel) + 1 >= expected {
            last()?;
            sync.arrived().store(0, Ordering::Relaxed);
            sync.generation().store(generation.wrapping_add(1), Ordering::Release);
            adapter.notify_barrier();
            self.met.store(true, Ordering::Relaxed);
            return Ok(());
        }
        if core.is_some() {
            for _ in 0..SPINS {
                if left() {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        self.wait(adapter, left, missing)
    }

    fn wait(&self, adapter: &Adapter, left: impl FnMut() -> bool, missing: &dyn Fn() -> String) -> Result<()> {
        adapter.wait_barrier(left, missing)?;
        self.met.store(true, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pes_gather_by_core() {
        assert_eq!(core_of(3, &[5, 9, 5, 9, 5]), Some(CoreGroup { index: 1, pes: 2, cores: 2 }));
        assert_eq!(core_of(4, &[5, 9, 5, 9, 5]), Some(CoreGroup { index: 0, pes: 3, cores: 2 }));
        assert_eq!(core_of(0, &[5, 0, 5]), None);
        let many: Vec<u32> = (1..=SyncPage::CORES as u32 + 1).collect();
        assert_eq!(core_of(0, &many), None);
        assert!(core_of(0, &many[1..]).is_some());
    }
}
