//! The event queue: what happens next, in an order that does not depend on who asked first.
//!
//! Events at one tick run in phases: faults, then everything that updates state (packets reaching
//! the head of a queue, deliveries, timers), then arbitration of outputs in order of node and
//! output. The key holds phase, node, kind and argument, so equal ticks have one fixed order.

use crate::types::Tick;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens at an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Argument: index of the scheduled fault.
    Fault = 0,
    /// The front packet of a queue (argument) has arrived and may ask for outputs.
    Head = 1,
    /// A port (argument) may go on with its operations.
    Pump = 2,
    /// A packet (argument) has reached the host.
    Deliver = 3,
    /// The next transmission on the lossy link in direction (argument) has arrived.
    Arrive = 4,
    /// The sender of the lossy link in direction (argument) has heard of an error.
    Replay = 5,
    /// Credits to the processor are due at this node.
    TreeTimer = 6,
    /// The adapter starts a barrier phase for job (argument).
    Phase = 7,
    /// Arbitrate output (argument).
    Arbitrate = 8,
}

const KINDS: [Kind; 9] = [
    Kind::Fault,
    Kind::Head,
    Kind::Pump,
    Kind::Deliver,
    Kind::Arrive,
    Kind::Replay,
    Kind::TreeTimer,
    Kind::Phase,
    Kind::Arbitrate,
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    time: Tick,
    key: u64,
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) node: u32,
    pub(crate) arg: u32,
}

/// Events by time and key.
#[derive(Default, Debug)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<Entry>>,
}

impl Events {
    #[inline]
    pub(crate) fn push(&mut self, time: Tick, kind: Kind, node: u32, arg: u32) {
        let phase = match kind {
            Kind::Fault => 0,
            Kind::Arbitrate => 2,
            _ => 1,
        };
        let key = phase << 56 | (node as u64) << 36 | (kind as u64) << 32 | arg as u64;
        self.heap.push(Reverse(Entry { time, key }));
    }
    #[inline]
    pub(crate) fn next_time(&self) -> Option<Tick> {
        self.heap.peek().map(|e| e.0.time)
    }
    /// The next event if it is due at `time` and, with `updates_only`, is not an arbitration.
    #[inline]
    pub(crate) fn pop_at(&mut self, time: Tick) -> Option<Event> {
        let top = self.heap.peek()?.0;
        if top.time > time {
            return None;
        }
        self.heap.pop();
        Some(Event {
            kind: KINDS[(top.key >> 32 & 15) as usize],
            node: (top.key >> 36 & 0xf_ffff) as u32,
            arg: top.key as u32,
        })
    }
}
