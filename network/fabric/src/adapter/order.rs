//! The model checks its own fences and flushes, as it checks its barriers.
//!
//! A write that is in memory before one to the same target that its source posted before a fence (*overtaken*), and a flush
//! that ends before what its port wrote to the target is in memory (*unfinished*), are errors of the network, not of the
//! program. Every write and atomic that is under way is noted by source and target, with the number of fences that its
//! source had passed; so the check costs two look-ups per packet, and [`crate::Config::check_order`] turns it on.

use crate::packet::{Packet, flag};
use crate::types::JobSlot;
use angara_abi::packet::PacketType;
use angara_net::torus::NodeId;
use std::collections::{BTreeMap, VecDeque};

/// Fences and flushes of a job that the model checked since the job was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OrderCheck {
    /// Fences passed and flushes ended.
    pub checked: u64,
    /// Packets in memory before one that was posted before a fence.
    pub overtaken: u64,
    /// Flushes that ended before all earlier writes were in memory.
    pub unfinished: u64,
}

impl OrderCheck {
    /// Every guarantee held.
    pub fn held(&self) -> bool {
        self.overtaken + self.unfinished == 0
    }
}

/// Source port, and node and endpoint of the target.
type Pair = (u32, NodeId, u16);

/// Packets under way, and what was seen of them.
#[derive(Debug, Default)]
pub(crate) struct Order {
    on: bool,
    /// By pair, in the order made: serial number, and fences passed before it.
    under_way: BTreeMap<Pair, VecDeque<(u64, u32)>>,
    checks: BTreeMap<JobSlot, OrderCheck>,
}

/// True if fences and flushes are about such a packet.
fn counts(p: &Packet) -> bool {
    use PacketType::*;
    matches!(p.kind, Write | AtomicAdd | AtomicXor | Service) && !p.is(flag::RESULT) && !p.is(flag::FOREIGN)
}

impl Order {
    pub(crate) fn new(on: bool) -> Order {
        Order { on, ..Order::default() }
    }

    /// A packet sets out from its port.
    #[inline]
    pub(super) fn sets_out(&mut self, p: &Packet, fences: u32) {
        if self.on && counts(p) {
            self.under_way.entry((p.port, p.dst, p.dst_ep)).or_default().push_back((p.serial, fences));
        }
    }

    /// Notes that a packet is no longer under way. Returns true if it is in memory too early.
    #[inline]
    pub(crate) fn arrives(&mut self, p: &Packet) -> bool {
        self.on && counts(p) && self.take(p)
    }

    fn take(&mut self, p: &Packet) -> bool {
        let pair = (p.port, p.dst, p.dst_ep);
        let Some(packets) = self.under_way.get_mut(&pair) else { return false };
        let Some(at) = packets.iter().position(|(serial, _)| *serial == p.serial) else { return false };
        let Some((_, fences)) = packets.remove(at) else { return false };
        let early = packets.front().is_some_and(|first| first.1 < fences);
        if packets.is_empty() {
            self.under_way.remove(&pair);
        }
        if early {
            self.checks.entry(p.job).or_default().overtaken += 1;
        }
        early
    }

    /// A fence is passed.
    pub(crate) fn fence(&mut self, job: JobSlot) {
        if self.on {
            self.checks.entry(job).or_default().checked += 1;
        }
    }

    /// Notes that a flush ends. Returns true if a packet that its port made before packet `serial` is still
    /// under way.
    pub(super) fn flush_ends(&mut self, job: JobSlot, pair: Pair, serial: u64) -> bool {
        if !self.on {
            return false;
        }
        let first = self.under_way.get(&pair).and_then(VecDeque::front);
        let early = first.is_some_and(|first| first.0 < serial);
        let check = self.checks.entry(job).or_default();
        check.checked += 1;
        check.unfinished += u64::from(early);
        early
    }

    /// Returns what was seen of a job.
    pub(crate) fn check(&self, job: JobSlot) -> OrderCheck {
        self.checks.get(&job).copied().unwrap_or_default()
    }

    /// A port is closed.
    pub(super) fn forget_port(&mut self, port: u32) {
        self.under_way.retain(|pair, _| pair.0 != port);
    }

    /// A job is closed.
    pub(crate) fn forget_job(&mut self, job: JobSlot) {
        self.checks.remove(&job);
    }
}
