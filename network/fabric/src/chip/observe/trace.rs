//! Events of single packets on their way.
//!
//! A packet injected with `traced` set leaves one [`TraceEvent`] for everything that happens to it,
//! from its creation to its last flit's arrival. Packets that are not traced pay one test per event.

use crate::packet::PacketHandle;
use crate::types::Tick;

/// Event in a packet's life, in the order in which each first happens. Router, port and virtual channel
/// of an event are those named here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Stage {
    /// Its source has it ready; it waits for those before it. The source's router and port.
    Created,
    /// Its first flit leaves the source. The source's router, port and virtual channel.
    Injected,
    /// Its head reached a router. Input port and virtual channel.
    Arrived,
    /// It may compete for an output: routing is done. Input port and virtual channel.
    Requested,
    /// It may also leave on its deterministic channel (adaptive routing waited long enough). Input
    /// port and virtual channel.
    Escaping,
    /// It owns a virtual channel of an output. Output port and virtual channel.
    ChannelGranted,
    /// Its flits begin to cross the switch. Output port and virtual channel.
    SwitchGranted,
    /// Its head leaves on the link. Output port and virtual channel.
    LinkEntered,
    /// The link sends it again. Output port and virtual channel.
    Replayed,
    /// It was dropped: a dead link or node, or no way left. Output port and virtual channel.
    Dropped,
    /// Its head leaves the last router for the endpoint. The endpoint's port.
    Ejected,
    /// Its last flit was received. The endpoint's port.
    Delivered,
}

/// One thing that happened to a traced packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TraceEvent {
    /// When, in picoseconds.
    pub time: Tick,
    /// Tag of the packet.
    pub tag: u64,
    /// What.
    pub stage: Stage,
    /// At which router.
    pub router: u32,
    /// At which of its ports; see [`Stage`].
    pub port: u8,
    /// On which virtual channel.
    pub vc: u8,
}

/// Traced packets under way and what happened to them.
#[derive(Default, Debug)]
pub struct Tracer {
    /// (handle, tag)
    live: Vec<(PacketHandle, u64)>,
    events: Vec<TraceEvent>,
    /// Somebody else wants to know of packets, too.
    shared: bool,
    /// That, or a packet is being followed.
    on: bool,
}

impl Tracer {
    /// Follows the packet `handle`.
    pub fn begin(&mut self, handle: PacketHandle, tag: u64) {
        self.live.push((handle, tag));
        self.on = true;
    }
    /// Somebody watches: some packet is being followed, or somebody [listens](crate::Fabric::listen).
    #[inline(always)]
    pub fn on(&self) -> bool {
        self.on
    }
    /// Tells whether somebody listens.
    pub(crate) fn share(&mut self, shared: bool) {
        self.shared = shared;
        self.on = shared || !self.live.is_empty();
    }
    /// True if the packet `handle` is being followed.
    pub fn follows(&self, handle: PacketHandle) -> bool {
        self.live.iter().any(|l| l.0 == handle)
    }
    /// Something may have happened to a traced packet.
    #[inline(always)]
    pub fn note(&mut self, handle: PacketHandle, time: Tick, (router, port, vc): (u32, u32, u32), stage: Stage) {
        if !self.live.is_empty() {
            self.record(handle, time, (router, port, vc), stage);
        }
    }
    #[cold]
    fn record(&mut self, handle: PacketHandle, time: Tick, (router, port, vc): (u32, u32, u32), stage: Stage) {
        if let Some(&(_, tag)) = self.live.iter().find(|l| l.0 == handle) {
            self.events.push(TraceEvent { time, tag, stage, router, port: port as u8, vc: vc as u8 });
        }
    }
    /// The packet has left this engine, its handle will be reused. Whether it was followed.
    #[inline(always)]
    pub fn end(&mut self, handle: PacketHandle) -> bool {
        let before = self.live.len();
        if before != 0 {
            self.live.retain(|l| l.0 != handle);
            self.on = self.shared || !self.live.is_empty();
        }
        self.live.len() != before
    }
    /// Everything noted since the last call, in order of time.
    pub fn take(&mut self) -> Vec<TraceEvent> {
        let mut events = std::mem::take(&mut self.events);
        events.sort_unstable();
        events
    }
}
