//! What the network does to memory, done.
//!
//! Effects are applied strictly in the order they are polled. Places were checked when the post
//! was taken; they are resolved again here against the memory's owner, so a mistake elsewhere can
//! at worst lose a packet.

use super::turn::Turn;
use super::view::Service;
use crate::channels::outstanding::Operation;
use crate::jobs::job::OpenJob;
use crate::virtual_time::gates::Gate;
use crate::virtual_time::touch::{By, Touch};
use angara_abi::PAYLOAD_MAX;
use angara_abi::channel::{Fault, status};
use angara_abi::desc::{AmoOp, Place, Region};
use angara_abi::shm::Mapping;
use angara_abi::wait::Linux;
use angara_fabric::{Cause, Completion, Effect, JobSlot, Link, NetError, OpFault, OpState, Port};
use angara_net::torus::NodeId;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

impl OpenJob {
    #[inline]
    fn memory(&self, pe: usize, place: Place, len: usize) -> Option<(&Mapping, usize)> {
        let bounce = self.pes[pe].as_ref().map(|p| &p.bounce);
        self.memory.resolve(pe, place, len, bounce)
    }

    /// Wakes `pe` after a write to `region` of its memory. What it awaits in its bounce region is
    /// announced by a completion word, whose write wakes it.
    #[inline]
    fn notify(&self, pe: usize, region: Region) {
        if region != Region::Bounce {
            self.memory.sync.cell(pe).notify(&Linux);
        }
    }
}

/// A link that the network has taken out of service, after this route change. Whoever applies effects sees to it before the
/// next one.
pub(crate) type GivenUp = (Link, u64);

impl Service<'_> {
    /// Applies what the network has done, as far as the turn allows. `any` becomes true if there was anything.
    pub(crate) fn apply_some(&mut self, turn: &mut Turn, any: &mut bool) -> Option<GivenUp> {
        while turn.bytes > 0
            && let Some(effect) = self.fabric.poll_effect()
        {
            *any = true;
            turn.bytes = turn.bytes.saturating_sub(effect.bytes());
            let given_up = self.apply(effect);
            if given_up.is_some() {
                return given_up;
            }
        }
        while let Some(completion) = self.fabric.poll_completion() {
            *any = true;
            self.finish(completion);
        }
        None
    }

    /// Applies all that the network has done.
    pub(crate) fn apply_all(&mut self) -> Option<GivenUp> {
        while let Some(effect) = self.fabric.poll_effect() {
            let given_up = self.apply(effect);
            if given_up.is_some() {
                return given_up;
            }
        }
        while let Some(completion) = self.fabric.poll_completion() {
            self.finish(completion);
        }
        None
    }

    fn apply(&mut self, effect: Effect) -> Option<GivenUp> {
        match effect {
            Effect::Write { at, place, data, last, cause, .. } => {
                let (job, pe) = self.seats.job_at(at)?;
                if let Some((map, offset)) = job.memory(pe, place, data.len()) {
                    // `resolve` checked the range. A packet's last word is the last to be stored: whoever polls for it
                    // finds the whole packet (`angara::mailbox` does).
                    let _ = map.write_ending(offset, self.fabric.payload(data));
                    // Once per operation: a sleeper woken for every packet would only look and sleep.
                    if last {
                        job.notify(pe, place.region);
                    }
                }
                self.written(at, (place, data.len() as u64), cause);
            }
            Effect::Fetch { at, place, len, token, .. } => {
                let len = len as usize;
                let found = self.seats.job_at(at).and_then(|(job, pe)| job.memory(pe, place, len));
                if len > PAYLOAD_MAX {
                    match found.map(|(map, offset)| map.read_vec(offset, len)) {
                        Some(Ok(bytes)) => self.fabric.supply_bytes(token, bytes.into()),
                        _ => self.fabric.refuse(token),
                    }
                    return None;
                }
                let bytes = &mut [0; PAYLOAD_MAX][..len];
                match found.map(|(map, offset)| map.read(offset, bytes)) {
                    Some(Ok(())) => self.fabric.supply(token, bytes),
                    _ => self.fabric.refuse(token),
                }
            }
            Effect::Amo { at, place, op, width, operand, comparand, token, cause, .. } => {
                let found = self.seats.job_at(at);
                let old = found.and_then(|(job, pe)| {
                    let (map, offset) = job.memory(pe, place, width as usize)?;
                    let old = atomic(map, offset, op, width, operand, comparand)?;
                    job.notify(pe, place.region);
                    Some(old)
                });
                self.written(at, (place, width.into()), cause);
                match (token, old) {
                    (Some(token), Some(old)) => self.fabric.supply(token, &old.to_le_bytes()),
                    (Some(token), None) => self.fabric.refuse(token),
                    (None, _) => {}
                }
            }
            Effect::TreeResult { at, tree, place, data, bcast, count, .. } => {
                let (job, pe) = self.seats.job_at(at)?;
                if let Some((map, offset)) = job.memory(pe, place, data.len()) {
                    // `resolve` checked the range.
                    let _ = map.write(offset, self.fabric.payload(data));
                }
                self.tree_brings(at, (tree, bcast, count), Some((place, data.len() as u64)));
            }
            Effect::TreeCredit { at, tree, count, .. } => self.tree_brings(at, (tree, false, count), None),
            Effect::Error { at, what, .. } => self.net_error(at, what),
            Effect::LinkDown { link, change, .. } => return Some((link, change)),
        }
        None
    }

    /// Bytes of a PE's memory have been written by an operation.
    #[inline]
    fn written(&mut self, at: Port, (place, len): (Place, u64), cause: Option<Cause>) {
        let seats = self.seats;
        if let Some(record) = self.record() {
            record.arrival(at, (place, len), cause, seats);
        }
        self.touched(at, Touch::Memory(place, len), By::Other(cause));
    }

    /// A tree brings a PE a result or a broadcast, of which there have been `count` by now. It may have written some bytes.
    fn tree_brings(&mut self, at: Port, (tree, bcast, count): (u8, bool, u64), written: Option<(Place, u64)>) {
        if let Some(record) = self.record() {
            record.tree_brings(tree, bcast, count);
        }
        let gate = if bcast { Gate::Bcast(tree) } else { Gate::Reduce(tree) };
        self.touched(at, Touch::Tree(written), By::Tree(gate, count));
        self.show_tree(at, tree, bcast, count);
    }

    fn show_tree(&self, at: Port, tree: u8, bcast: bool, count: u64) {
        let Some((job, pe)) = self.seats.job_at(at) else { return };
        let base = if bcast { status::TREE_BCASTS } else { status::TREE_RESULTS };
        if let Some(memory) = &job.pes[pe] {
            let word = memory.channel.status_u32(base + (tree as usize & 15) * 4);
            word.store(count as u32, Ordering::Release);
        }
        job.notify(pe, Region::Heap);
        job.memory.sync.answers(pe).notify(&Linux);
    }

    fn finish(&mut self, c: Completion) {
        let Some(operation) = self.channels.outstanding.get_mut(c.tag).map(|f| *f) else { return };
        let from = c.from;
        let complete = c.state == OpState::Complete || c.state == OpState::Injected && !operation.answered;
        let (number, state) = (operation.number, c.state);
        self.finish_operation(c, operation);
        if let Some(record) = self.record() {
            record.state(number, state);
        }
        let by = if complete && operation.barrier.is_some() { By::Barrier } else { By::Own(operation.to) };
        self.touched(from, Touch::Post(operation.completion.filter(|_| complete)), by);
        self.take_waiting(operation.lane);
    }

    fn finish_operation(&mut self, c: Completion, operation: Operation) {
        let Some(lane) = self.channels.lanes.get_mut(operation.lane) else { return };
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
                self.channels.outstanding.remove(c.tag);
                return;
            }
            OpState::Failed(why) => {
                self.channels.outstanding.remove(c.tag);
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
    fn barrier_left(&mut self, slot: JobSlot, node: NodeId, half: bool) {
        let longest = self.fabric.longest_route(slot) as u64;
        self.registers.barrier_left(node, if half { longest } else { 2 * longest });
    }

    fn net_error(&mut self, at: Port, what: NetError) {
        let Some(index) = self.seats.lane_at(at) else { return };
        let seq = self.channels.lanes.get(index).map_or(0, |l| l.consumer.expected().wrapping_sub(1));
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
