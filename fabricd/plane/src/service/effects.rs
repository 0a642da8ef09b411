//! What the network does to memory, done.
//!
//! Effects are applied strictly in the order they are polled. Places were checked when the post
//! was taken; they are resolved again here against the memory's owner, so a mistake elsewhere can
//! at worst lose a packet.

use crate::channels::outstanding::{Operation, Ports};
use crate::jobs::job::{Jobs, OpenJob};
use crate::plane::DataPlane;
use crate::virtual_time::gates::Gate;
use crate::virtual_time::standing::{By, Touch};
use angara_abi::PAYLOAD_MAX;
use angara_abi::channel::{Fault, status};
use angara_abi::desc::{AmoOp, Place, Region};
use angara_abi::shm::Mapping;
use angara_abi::wait::Linux;
use angara_fabric::{Completion, Effect, JobSlot, NetError, OpFault, OpState, Port};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

impl OpenJob {
    fn memory(&self, pe: usize, place: Place, len: usize) -> Option<(&Mapping, usize)> {
        let bounce = self.pes[pe].as_ref().map(|p| &p.bounce);
        self.memory.resolve(pe, place, len, bounce)
    }

    /// Wakes `pe` after a write to `region` of its memory. What it awaits in its bounce region is
    /// announced by a completion word, whose write wakes it.
    fn notify(&self, pe: usize, region: Region) {
        if region != Region::Bounce {
            self.memory.sync.cell(pe).notify(&Linux);
        }
    }
}

impl DataPlane {
    pub(crate) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Write { at, place, data, last, cause, .. } => {
                let Some((job, pe)) = owner(&self.ports, &self.jobs, at) else { return };
                if let Some((map, offset)) = job.memory(pe, place, data.len()) {
                    // `resolve` checked the range. A packet's last word is the last to be stored: whoever polls for it
                    // finds the whole packet (`angara::mailbox` does).
                    let _ = map.write_ending(offset, self.fabric.payload(data));
                    // Once per operation: a sleeper woken for every packet would only look and sleep.
                    if last {
                        job.notify(pe, place.region);
                    }
                }
                self.record_arrival(at, (place, data.len() as u64), cause);
                self.touched(at, Touch::Memory(place, data.len() as u64), By::Other(cause));
            }
            Effect::Fetch { at, place, len, token, .. } => {
                let len = len as usize;
                let found = owner(&self.ports, &self.jobs, at).and_then(|(job, pe)| job.memory(pe, place, len));
                if len > PAYLOAD_MAX {
                    let read = found.map(|(map, offset)| map.read_vec(offset, len));
                    return match read {
                        Some(Ok(bytes)) => self.fabric.supply_bytes(token, bytes.into()),
                        _ => self.fabric.refuse(token),
                    };
                }
                let bytes = &mut [0; PAYLOAD_MAX][..len];
                match found.map(|(map, offset)| map.read(offset, bytes)) {
                    Some(Ok(())) => self.fabric.supply(token, bytes),
                    _ => self.fabric.refuse(token),
                }
            }
            Effect::Amo { at, place, op, width, operand, comparand, token, cause, .. } => {
                let found = owner(&self.ports, &self.jobs, at);
                let old = found.and_then(|(job, pe)| {
                    let (map, offset) = job.memory(pe, place, width as usize)?;
                    let old = atomic(map, offset, op, width, operand, comparand)?;
                    job.notify(pe, place.region);
                    Some(old)
                });
                self.record_arrival(at, (place, width.into()), cause);
                self.touched(at, Touch::Memory(place, width.into()), By::Other(cause));
                match (token, old) {
                    (Some(token), Some(old)) => self.fabric.supply(token, &old.to_le_bytes()),
                    (Some(token), None) => self.fabric.refuse(token),
                    (None, _) => {}
                }
            }
            Effect::TreeResult { at, tree, place, data, bcast, count, .. } => {
                let gate = if bcast { Gate::Bcast(tree) } else { Gate::Reduce(tree) };
                let Some((job, pe)) = owner(&self.ports, &self.jobs, at) else { return };
                if let Some((map, offset)) = job.memory(pe, place, data.len()) {
                    // `resolve` checked the range.
                    let _ = map.write(offset, self.fabric.payload(data));
                }
                self.record_tree(tree, bcast, count);
                self.touched(at, Touch::Tree(Some((place, data.len() as u64))), By::Tree(gate, count));
                self.show_tree(at, tree, bcast, count);
            }
            Effect::TreeCredit { at, tree, count, .. } => {
                self.record_tree(tree, false, count);
                self.touched(at, Touch::Tree(None), By::Tree(Gate::Reduce(tree), count));
                self.show_tree(at, tree, false, count)
            }
            Effect::Error { at, what, .. } => self.net_error(at, what),
            Effect::LinkDown { link, change, .. } => self.link_failed(link, change),
        }
    }

    fn show_tree(&self, at: Port, tree: u8, bcast: bool, count: u64) {
        let Some((job, pe)) = owner(&self.ports, &self.jobs, at) else { return };
        let base = if bcast { status::TREE_BCASTS } else { status::TREE_RESULTS };
        if let Some(memory) = &job.pes[pe] {
            let word = memory.channel.status_u32(base + (tree as usize & 15) * 4);
            word.store(count as u32, Ordering::Release);
        }
        job.notify(pe, Region::Heap);
        job.memory.sync.answers(pe).notify(&Linux);
    }

    pub(crate) fn finish(&mut self, c: Completion) {
        let Some(operation) = self.outstanding.get_mut(c.tag).map(|f| *f) else { return };
        let from = c.from;
        let complete = c.state == OpState::Complete || c.state == OpState::Injected && !operation.answered;
        let (number, state) = (operation.number, c.state);
        self.finish_operation(c, operation);
        self.record_state(number, state);
        let by = if complete && operation.barrier.is_some() { By::Barrier } else { By::Own(operation.to) };
        self.touched(from, Touch::Post(operation.completion.filter(|_| complete)), by);
        self.take_waiting(operation.lane);
    }

    fn finish_operation(&mut self, c: Completion, operation: Operation) {
        let Some(lane) = self.lanes[operation.lane].as_mut() else { return };
        match c.state {
            OpState::Copied => lane.reached(operation.number, false),
            OpState::Injected if operation.answered => lane.reached(operation.number, true),
            OpState::Injected | OpState::Complete => {
                lane.reached(operation.number, true);
                if operation.read {
                    lane.delivered(operation.number, operation.completion);
                }
                if !operation.read || operation.completion.is_some() {
                    lane.complete(operation.completion, operation.seq);
                }
                if let Some(half) = operation.barrier {
                    let (slot, node) = (lane.slot, lane.port.node);
                    self.barrier_left(slot, node, half);
                }
                self.outstanding.remove(c.tag);
                return;
            }
            OpState::Failed(why) => {
                self.outstanding.remove(c.tag);
                let fault = match why {
                    OpFault::Unreachable { .. } | OpFault::Barrier(_) => Fault::Unreachable,
                    OpFault::Refused => Fault::BadRange,
                    OpFault::NoTree(_) => Fault::BadTarget,
                    OpFault::ReduceOrder { .. } => Fault::BadReduce,
                };
                return self.break_lane(operation.lane, fault, operation.seq, &why.to_string());
            }
        }
        lane.notify();
    }

    /// Counts a barrier in the node's registers: K phases for a half one, 2K for a full one.
    fn barrier_left(&mut self, slot: JobSlot, node: u32, half: bool) {
        let longest = self.fabric.longest_route(slot) as u64;
        let (done, phases) = self.barriers.entry(node).or_default();
        (*done, *phases) = (*done + 1, if half { longest } else { 2 * longest });
    }

    fn net_error(&mut self, at: Port, what: NetError) {
        let Some(index) = self.lane_at(at) else { return };
        let seq = self.lanes[index].as_ref().map_or(0, |l| l.consumer.expected().wrapping_sub(1));
        let fault = match what {
            NetError::Unreachable { .. }
            | NetError::BarrierCut { .. }
            | NetError::TreeDown { .. }
            | NetError::TreeLost { .. } => Fault::Unreachable,
            NetError::ReduceMismatch { .. } | NetError::ReduceOrder { .. } => Fault::BadReduce,
            NetError::BarrierMismatch { .. } => Fault::BadDescriptor,
            NetError::EarlyExit { .. } | NetError::LatePacket { .. } | NetError::Unfinished { .. } => {
                // The barrier's mistake, not the program's; the job's report counts it.
                return tracing::error!(%what, "a barrier did not keep its guarantee");
            }
            NetError::Overtaken { .. } | NetError::Unflushed { .. } => {
                // As above.
                return tracing::error!(%what, "a fence or flush did not keep its guarantee");
            }
        };
        self.break_lane(index, fault, seq, &what.to_string());
    }
}

fn owner<'j>(ports: &Ports, jobs: &'j Jobs, at: Port) -> Option<(&'j OpenJob, usize)> {
    let owner = ports.get(at)?;
    Some((jobs.get(owner.slot)?, owner.pe as usize))
}

/// One lock-prefixed operation on a word that programs use the same way; the old value.
fn atomic(map: &Mapping, offset: usize, op: AmoOp, width: u8, operand: u64, comparand: u64) -> Option<u64> {
    macro_rules! on {
        ($atomic:ty, $int:ty) => {{
            let word: &$atomic = map.at(offset).ok()?;
            let value = operand as $int;
            let old = match op {
                AmoOp::Add => word.fetch_add(value, Ordering::SeqCst),
                AmoOp::Xor => word.fetch_xor(value, Ordering::SeqCst),
                AmoOp::And => word.fetch_and(value, Ordering::SeqCst),
                AmoOp::Or => word.fetch_or(value, Ordering::SeqCst),
                AmoOp::Swap => word.swap(value, Ordering::SeqCst),
                AmoOp::CompareSwap => {
                    let r = word.compare_exchange(comparand as $int, value, Ordering::SeqCst, Ordering::SeqCst);
                    r.unwrap_or_else(|old| old)
                }
                AmoOp::Fetch => word.load(Ordering::SeqCst),
            };
            Some(old as u64)
        }};
    }
    match width {
        4 => on!(AtomicU32, u32),
        8 => on!(AtomicU64, u64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::shm::Access;

    #[test]
    fn atomics_return_the_old_value_and_leave_the_new() {
        let (_fd, map) = Mapping::create("test", 64, Access::Shared).expect("memory");
        let run = |op, width, operand, comparand| atomic(&map, 8, op, width, operand, comparand);
        assert_eq!(run(AmoOp::Swap, 8, 5, 0), Some(0));
        assert_eq!(run(AmoOp::Add, 8, 3, 0), Some(5));
        assert_eq!(run(AmoOp::Xor, 8, 0xf, 0), Some(8));
        assert_eq!(run(AmoOp::And, 8, 5, 0), Some(7));
        assert_eq!(run(AmoOp::Or, 8, 2, 0), Some(5));
        assert_eq!(run(AmoOp::CompareSwap, 8, 9, 1), Some(7));
        assert_eq!(run(AmoOp::CompareSwap, 8, u64::MAX, 7), Some(7));
        assert_eq!(run(AmoOp::Fetch, 8, 0, 0), Some(u64::MAX));
        assert_eq!(run(AmoOp::Add, 4, 1, 0), Some(0xffff_ffff));
        assert_eq!(run(AmoOp::Fetch, 8, 0, 0), Some(0xffff_ffff_0000_0000));
        assert_eq!(atomic(&map, 4, AmoOp::Add, 8, 1, 0), None, "misaligned");
        assert_eq!(atomic(&map, 64, AmoOp::Add, 4, 1, 0), None, "outside");
    }
}
