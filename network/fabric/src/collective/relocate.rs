//! Moving a tree to other links when one of its own has failed.
//!
//! Between two packets all a tree knows lies in its Reducer slots: sums of the contributions made
//! so far. They can move. Every reduction that has not finished at the root starts again on the
//! new tree, as if each participant that had contributed did so once more: one of them brings the
//! sum of everything gathered so far, the others bring the neutral element. Participants notice
//! nothing. With packets of the tree on their way the sums are not known and the tree is unloaded
//! instead (`break_trees`).

use super::reducer::{Slot, combine};
use super::state::{CREDIT_EVERY, Member, Tree, Trees};
use super::tree::build;
use crate::adapter::Adapters;
use crate::packet::{Detail, PacketHandle};
use angara_abi::packet::{ReduceElem, ReduceOp};
use angara_abi::{PAYLOAD_MAX, REDUCES};
use std::collections::{BTreeMap, BTreeSet};

impl Trees {
    /// Moves a tree to links that work; false if it cannot be moved and nothing was changed.
    pub(super) fn relocate_tree(&mut self, host: &mut Adapters, tree: u8) -> bool {
        let Some(t) = &self.loaded[tree as usize] else { return false };
        let Some(root) = t.rows.root() else { return false };
        let finished = t.members.get(&root).map_or(0, |m| m.emitted);
        let made = t.members.values().flat_map(|m| &m.ports).map(|p| p.1).max().unwrap_or(0);
        // Beyond one round of ReduceIds two reductions would share a slot on the new tree.
        if made > finished + REDUCES as u64 || self.tree_is_moving(host, tree, t) {
            return false;
        }
        let Ok(rows) = build(&host.chip.routes, root, &t.rows.ports) else { return false };
        let Some(mut old) = self.loaded[tree as usize].take() else { return false };
        let mut members: BTreeMap<u32, Member> = BTreeMap::new();
        for (node, row) in &rows.rows {
            let before = old.members.get(node);
            let done = before.map_or(finished, |m| m.done);
            let member = Member {
                row: *row,
                ports: before.map_or_else(Vec::new, |m| m.ports.clone()),
                slots: vec![Slot::EMPTY; REDUCES],
                emitted: finished,
                window: if row.is_root { u64::MAX } else { REDUCES as u64 + finished / CREDIT_EVERY * CREDIT_EVERY },
                pending: Default::default(),
                done,
                repeated: done.saturating_sub(finished),
                told: before.map_or(done, |m| m.told),
                bcasts: before.map_or(0, |m| m.bcasts),
                casts: before.map_or(0, |m| m.casts),
            };
            members.insert(*node, member);
        }
        for reduction in finished..made {
            self.gather(host, &mut old, &mut members, reduction);
        }
        let nodes: Vec<u32> = members.keys().copied().collect();
        self.loaded[tree as usize] = Some(Box::new(Tree { job: old.job, rows, members }));
        for node in nodes {
            self.emit_ready(host, node, tree);
        }
        true
    }

    /// Packets of the tree are on their way, not only in Reducer slots.
    fn tree_is_moving(&self, host: &Adapters, tree: u8, t: &Tree) -> bool {
        let slots = t.members.values().flat_map(|m| &m.slots).map(|s| s.packet);
        let held: BTreeSet<PacketHandle> = slots.filter(|h| h.is_some()).collect();
        let ours =
            |h: &PacketHandle| matches!(host.chip.packets[*h].detail, Detail::Tree { tree: of, .. } if of == tree);
        host.chip.packets.handles().into_iter().any(|h| ours(&h) && !held.contains(&h))
    }

    /// Gathers what was contributed to one reduction and hands it out again on the new tree.
    fn gather(&mut self, host: &mut Adapters, old: &mut Tree, members: &mut BTreeMap<u32, Member>, reduction: u64) {
        let index = (reduction % REDUCES as u64) as usize;
        let mut whole = PacketHandle::NONE;
        for member in old.members.values_mut() {
            let held = std::mem::replace(&mut member.slots[index], Slot::EMPTY).packet;
            if held.is_none() {
                continue;
            }
            if whole.is_none() {
                whole = held;
                continue;
            }
            let (into, from) = (host.chip.packets[whole], host.chip.packets[held]);
            if let (true, Detail::Tree { op, elem, .. }) = (host.chip.carry, into.detail) {
                let data = *host.chip.payloads.get_mut(from.payload);
                // Lengths differ only if participants disagree; the reducer then finds it out later.
                let len = into.bytes.min(from.bytes) as usize;
                combine(op, elem, &mut host.chip.payloads.get_mut(into.payload)[..len], &data[..len]);
            }
            host.chip.free_packet(held);
        }
        for member in members.values_mut() {
            let count = member.ports.iter().filter(|p| p.1 > reduction).count() as u32;
            if count == 0 || whole.is_none() {
                continue;
            }
            // The next one to contribute gets a neutral copy, this one the packet itself.
            let neutral = self.neutral_copy(host, whole);
            let packet = std::mem::replace(&mut whole, neutral);
            member.slots[index] = Slot { count, packet, complete: count == member.row.expected() };
        }
        if whole.is_some() {
            host.chip.free_packet(whole);
        }
    }

    /// A packet like `h` whose data changes no result.
    fn neutral_copy(&mut self, host: &mut Adapters, h: PacketHandle) -> PacketHandle {
        let mut p = host.chip.packets[h];
        if let (true, Detail::Tree { op, elem, .. }) = (host.chip.carry, p.detail) {
            p.payload = host.chip.payloads.alloc();
            *host.chip.payloads.get_mut(p.payload) = neutral(op, elem);
        }
        host.chip.packets.alloc(p)
    }
}

/// A payload full of the neutral element.
fn neutral(op: ReduceOp, elem: ReduceElem) -> [u8; PAYLOAD_MAX] {
    let (low, high): (u64, u64) = match elem {
        ReduceElem::I32 => (i32::MIN as u32 as u64, i32::MAX as u64),
        ReduceElem::U32 => (0, u32::MAX as u64),
        ReduceElem::I64 => (i64::MIN as u64, i64::MAX as u64),
        ReduceElem::U64 => (0, u64::MAX),
    };
    let value = match op {
        ReduceOp::Sum => 0,
        ReduceOp::Max => low,
        ReduceOp::Min => high,
    };
    let mut all = [0; PAYLOAD_MAX];
    for chunk in all.chunks_exact_mut(elem.bytes()) {
        chunk.copy_from_slice(&value.to_le_bytes()[..chunk.len()]);
    }
    all
}
