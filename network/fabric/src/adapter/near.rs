//! Between PEs of one node, where [`crate::Params::node_path`] says that its memory carries their operations.
//!
//! The node's memory does one thing after the other, and nothing overtakes: a read finds everything that was written
//! before it. A request that is answered costs nothing by itself; its answer does.

use super::state::Adapters;
use crate::chip::Injected;
use crate::packet::{PacketHandle, flag};
use crate::routes::NONE;
use crate::types::Tick;
use angara_abi::FLIT_BYTES;
use angara_abi::packet::{PacketType, Vc};
use std::collections::VecDeque;

/// Traffic through a node's memory.
#[derive(Clone, Default, Debug)]
pub(super) struct NodeMemory {
    /// When it will have passed all bytes accepted so far.
    busy: Tick,
    /// When the last packet arrives.
    last: Tick,
    /// Packets on their way through it, in order of arrival; several may arrive at the same time.
    under_way: VecDeque<PacketHandle>,
}

impl Adapters {
    /// True if a packet does not go through the adapter.
    #[inline]
    pub(crate) fn goes_by_memory(&self, h: PacketHandle) -> bool {
        if self.memories.is_empty() {
            return false;
        }
        let p = &self.chip.packets[h];
        let data = matches!(
            p.kind,
            PacketType::Write
                | PacketType::ReadReq
                | PacketType::ReadRsp
                | PacketType::AtomicAdd
                | PacketType::AtomicXor
                | PacketType::Service
        );
        p.src == p.dst && p.vc <= Vc::Adaptive as u8 && data && !p.is(flag::RESULT)
    }

    /// The packet whose arrival at a node an event tells.
    #[inline]
    pub(crate) fn arriving(&mut self, node: u32, h: PacketHandle) -> Option<PacketHandle> {
        match h {
            PacketHandle::BY_MEMORY => self.memories[node as usize].under_way.pop_front(),
            h => Some(h),
        }
    }

    /// Takes everything out of the memories of nodes.
    pub(crate) fn empty_memories(&mut self) -> Vec<PacketHandle> {
        self.memories.iter_mut().flat_map(|memory| std::mem::take(&mut memory.under_way)).collect()
    }

    /// Takes a packet to its target on the same node.
    pub(super) fn go_by_memory(&mut self, node: u32, h: PacketHandle, jitter: Tick) {
        let Some(path) = self.chip.params.node_path else { return };
        let p = &mut self.chip.packets[h];
        let bytes = if p.is(flag::ANSWER) { None } else { Some(u64::from(p.bytes)) };
        let memory = &mut self.memories[node as usize];
        let start = self.chip.now.max(memory.busy);
        let span = path.flit.of(bytes.unwrap_or(0).div_ceil(FLIT_BYTES as u64));
        let latency = if bytes.is_some() { path.latency_ps + jitter } else { 0 };
        memory.busy = start + span;
        memory.last = memory.last.max(start + span + latency);
        memory.under_way.push_back(h);
        let (at, own) = (memory.last, p.port != NONE && p.kind != PacketType::ReadRsp);
        p.flags |= flag::INJECTED;
        let entered = Injected { port: p.port, lane: p.from_channel, packets: p.packets() as u32, op: p.op };
        self.chip.will_deliver(at, node, PacketHandle::BY_MEMORY);
        if own {
            self.injected(entered);
        }
    }
}
