//! Who stands in virtual time, and who is due.

use crate::faults::fault::{ClearSpec, FaultSpec};
use angara_abi::clock::WaitsFor;
use angara_fabric::Tick;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Posts that the network takes from a PE: more than its queues hold, so that none has to wait for the network's time.
pub(in crate::dataplane) const OPS_PER_PORT: u16 = 8192;
/// What has happened to a PE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::dataplane) enum Touch {
    /// Something of its posts, which no completion word tells.
    Progress,
    /// Its memory was written.
    Memory,
    /// A post of its own is complete.
    Completion,
}

impl Touch {
    /// Whether a PE that waits for this has to look.
    pub(super) fn concerns(self, waits_for: WaitsFor) -> bool {
        match waits_for {
            WaitsFor::Adapter => true,
            WaitsFor::Time => false,
            WaitsFor::Memory => self == Touch::Memory,
            WaitsFor::Completion => self == Touch::Completion,
        }
    }
}

/// Who stands, and who is due.
#[derive(Default)]
pub(in crate::dataplane) struct VirtualRun {
    /// Lanes that stand: since when, and for what.
    pub(super) standing: BTreeMap<usize, (Tick, WaitsFor)>,
    /// Those of them that shall go on: when, PE, lane.
    pub(super) due: BTreeSet<(Tick, usize, usize)>,
    /// All PEs have come.
    pub(super) begun: bool,
    /// Faults to come, by their time and in the order given.
    faults: VecDeque<(Tick, FaultSpec)>,
    /// Nothing can happen any more, and everybody has been told.
    pub(super) stuck: bool,
}

impl VirtualRun {
    /// A fault that comes at a time.
    pub(super) fn plan(&mut self, at: Tick, fault: FaultSpec) {
        let behind = self.faults.partition_point(|(other, _)| *other <= at);
        self.faults.insert(behind, (at, fault));
    }
    /// When the next fault comes.
    pub(super) fn next_fault(&self) -> Option<Tick> {
        self.faults.front().map(|(at, _)| *at)
    }
    /// The next fault.
    pub(super) fn take_fault(&mut self) -> Option<FaultSpec> {
        self.faults.pop_front().map(|(_, fault)| fault)
    }
    /// Takes back faults to come; whether there were any.
    pub(in crate::dataplane) fn forget_faults(&mut self, what: ClearSpec) -> bool {
        let before = self.faults.len();
        self.faults.retain(|(_, fault)| !what.concerns(fault));
        self.faults.len() < before
    }

    pub(super) fn forget(&mut self, lane: usize) {
        self.standing.remove(&lane);
        self.due.retain(|d| d.2 != lane);
    }
}
