//! Operations go in order: the front one of a port becomes packets, or a matter of its barrier or tree unit.
//!
//! Where nodes have several injection ports, those for one of them go in order, and beside those for another. What
//! concerns all of them (a fence, a barrier, a tree) waits for all before it, as all behind it wait for it.

use super::Fabric;
use crate::adapter::Step;
use crate::chip::Notice;
use crate::op::Op;
use crate::types::{OpState, Tick};

impl Fabric {
    /// [`crate::chip::EventKind::Pump`]: turns operations into packets until one has to wait.
    pub(crate) fn on_pump(&mut self, port: usize) {
        self.adapters.ports[port].pump_at = Tick::MAX;
        let all = self.adapters.all_lanes();
        let (mut at, mut waiting) = (0, 0);
        while let (Some(&op), false) = (self.adapters.ports[port].ops.get(at), self.adapters.ports[port].blocked) {
            let lanes = self.adapters.lanes_of(op);
            if lanes & waiting == 0 && self.goes_on(port, op) {
                self.adapters.ports[port].ops.remove(at);
                continue;
            }
            waiting |= lanes;
            if waiting == all {
                return;
            }
            at += 1;
        }
    }

    /// The first operation for its injection ports goes as far as it can. True if it needs nothing more of them.
    fn goes_on(&mut self, port: usize, op: u32) -> bool {
        let issue = self.adapters.begin(op);
        if issue > self.adapters.chip.now {
            self.adapters.schedule_pump(port, issue);
            return false;
        }
        matches!(self.step(port, op), Step::Next)
    }

    fn step(&mut self, port: usize, op: u32) -> Step {
        match self.adapters.ops[op].doing {
            Op::Fence => {
                if !self.adapters.ports[port].pass_fence() {
                    return Step::Wait;
                }
                self.adapters.order.fence(self.adapters.ops[op].job);
                self.adapters.complete(op, OpState::Complete);
                self.adapters.ops.free(op);
                Step::Next
            }
            Op::Barrier { half } => {
                if !self.barriers.barrier_may_enter(&mut self.adapters, port, half) {
                    return Step::Wait;
                }
                self.adapters.ports[port].blocked = true;
                self.barriers.barrier_enter(&mut self.adapters, port, op, half);
                Step::Next
            }
            Op::Reduce { .. } | Op::Bcast { .. } => {
                if !self.adapters.may_stage(port, 0) {
                    return Step::Wait;
                }
                if self.trees.step_tree(&mut self.adapters, port, op) { Step::Next } else { Step::Wait }
            }
            // Operations that become packets to one target are the adapter's own business.
            doing => self.adapters.step(port, op, doing),
        }
    }

    /// Hears what has happened in the network since the last call.
    #[inline(never)]
    pub(crate) fn hear_notices(&mut self) {
        while !self.adapters.chip.notices.is_empty() {
            let mut notices = std::mem::take(&mut self.adapters.chip.notices);
            for notice in notices.drain(..) {
                match notice {
                    Notice::Injected(packet) => self.adapters.injected(packet),
                    Notice::Unreachable { node, h } => self.drop_unreachable(node, h),
                }
            }
            if self.adapters.chip.notices.is_empty() {
                self.adapters.chip.notices = notices; // keep the allocation
            }
        }
    }
}
