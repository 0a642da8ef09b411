//! Injection and ejection channels.

use crate::PORTS_MAX;
use crate::barrier::BarrierFamily;
use crate::packet::PacketHandle;
use crate::types::{JobSlot, Port, Tick};
use std::collections::VecDeque;

/// What goes from one channel through one injection port of its node.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Lane {
    /// Packets not yet in the network; a train counts as one.
    pub(crate) staged: u32,
    /// The same, but a train counts as the packets it carries.
    pub(crate) carried: u32,
    /// Read requests not yet answered.
    pub(crate) reads: u32,
}

/// An open injection/ejection channel.
#[derive(Debug)]
pub(crate) struct PortState {
    pub(crate) port: Port,
    pub(crate) job: JobSlot,
    /// Posted operations that are not all packets yet.
    pub(crate) ops: VecDeque<u32>,
    /// Packets in order, some still waiting for memory.
    pub(crate) staging: VecDeque<PacketHandle>,
    /// What goes through each injection port of its node.
    pub(crate) lanes: [Lane; PORTS_MAX],
    /// Packets not yet ejected.
    pub(crate) outstanding: u32,
    /// Those of them that go through the node's memory.
    pub(crate) near: u32,
    /// In a barrier.
    pub(crate) blocked: bool,
    pub(crate) pump_at: Tick,
    /// How the job's barriers are done.
    pub(crate) family: BarrierFamily,
    /// Barriers left, as packets carry it.
    pub(crate) stamp: u16,
    /// Channels data went on since the last barrier, as bits.
    pub(crate) channels: u8,
    /// Some of what is outstanding may be overtaken: it does not go on vc1 by the default way.
    pub(crate) unordered: bool,
    /// A fence was passed with packets outstanding: nothing goes another way before they have been ejected.
    pub(crate) fenced: bool,
    /// Fences passed.
    pub(crate) fences: u32,
    /// When the last acknowledgement is back (families that rest on them).
    pub(crate) acknowledged: Tick,
}

impl PortState {
    pub(crate) fn new(port: Port, job: JobSlot) -> PortState {
        PortState {
            port,
            job,
            ops: VecDeque::new(),
            staging: VecDeque::new(),
            lanes: [Lane::default(); PORTS_MAX],
            outstanding: 0,
            near: 0,
            blocked: false,
            pump_at: Tick::MAX,
            family: BarrierFamily::default(),
            stamp: 0,
            channels: 0,
            unordered: false,
            fenced: false,
            fences: 0,
            acknowledged: 0,
        }
    }

    /// Packets not yet in the network; a train counts as one.
    pub(crate) fn staged(&self) -> u32 {
        self.lanes.iter().map(|lane| lane.staged).sum()
    }

    /// Everything posted has been ejected.
    pub(crate) fn is_drained(&self) -> bool {
        self.outstanding == 0 && self.staged() == 0
    }

    /// Nothing that was posted here is on its way any more, nor are answers.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_drained()
            && self.ops.is_empty()
            && self.staging.is_empty()
            && self.lanes.iter().all(|lane| lane.reads == 0)
    }

    /// Passes a fence, if that is possible now: when all has been ejected, or all goes where nothing overtakes.
    pub(crate) fn pass_fence(&mut self) -> bool {
        let passes = !self.unordered || self.is_drained() || is_heedless();
        self.fenced |= passes;
        self.fences += u32::from(passes);
        passes
    }

    /// True if a packet may follow what is outstanding. `ordered`: it goes on vc1 by the default way.
    pub(crate) fn may_follow(&self, ordered: bool) -> bool {
        ordered || !self.fenced || self.is_drained() || is_heedless()
    }

    /// True if a flush may go out now. With `told`, only if everything has been ejected; otherwise also if it follows
    /// only packets that it cannot overtake.
    pub(super) fn may_flush(&self, told: bool) -> bool {
        !told && !self.unordered || self.is_drained() || is_heedless()
    }

    /// A packet follows.
    pub(crate) fn follow(&mut self, ordered: bool) {
        if self.is_drained() {
            (self.unordered, self.fenced) = (false, false);
        }
        self.unordered |= !ordered;
    }
}

#[cfg(test)]
thread_local! {
    static HEEDLESS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// From now on nothing waits for a fence or flush in this thread's networks: to show that the model notices.
#[cfg(test)]
pub(crate) fn heedless(on: bool) {
    HEEDLESS.set(on);
}

fn is_heedless() -> bool {
    #[cfg(test)]
    return HEEDLESS.get();
    #[cfg(not(test))]
    false
}
