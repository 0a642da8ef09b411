//! What can be watched of a network: single packets on their way, and how much every link carried.
//!
//! A packet injected with `traced` set leaves one [`TraceEvent`] for everything that happens to it,
//! from its creation to its last flit's arrival. Packets that are not traced pay one test of an empty
//! list per event. [`LinkLoad`] is what left a router through one of its ports.

use super::Tick;

/// What happens to a packet, in the order in which it first happens. Router, port and virtual channel
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

/// What left a router through one port since counting began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkLoad {
    /// Packets, each counted once.
    pub packets: u64,
    /// Their flits.
    pub flits: u64,
    /// Packets the link sent again.
    pub replays: u64,
    /// Packets that arrived with a wrong checksum.
    pub crc_errors: u64,
    /// Packets that arrived a second time.
    pub duplicates: u64,
    /// Packets that arrived before one sent earlier.
    pub reordered: u64,
}

/// Traced packets under way and what happened to them.
#[derive(Default, Debug)]
pub(crate) struct Tracer {
    /// (handle, tag)
    live: Vec<(u32, u64)>,
    events: Vec<TraceEvent>,
}

impl Tracer {
    /// Follows the packet `handle`.
    pub(crate) fn begin(&mut self, handle: u32, tag: u64) {
        self.live.push((handle, tag));
    }
    /// Some packet is being followed.
    #[inline(always)]
    pub(crate) fn on(&self) -> bool {
        !self.live.is_empty()
    }
    /// Whether the packet `handle` is being followed.
    pub(crate) fn follows(&self, handle: u32) -> bool {
        self.live.iter().any(|l| l.0 == handle)
    }
    /// Something may have happened to a traced packet.
    #[inline(always)]
    pub(crate) fn note(&mut self, handle: u32, time: Tick, (router, port, vc): (u32, u32, u32), stage: Stage) {
        if !self.live.is_empty() {
            self.record(handle, time, (router, port, vc), stage);
        }
    }
    #[cold]
    fn record(&mut self, handle: u32, time: Tick, (router, port, vc): (u32, u32, u32), stage: Stage) {
        if let Some(&(_, tag)) = self.live.iter().find(|l| l.0 == handle) {
            self.events.push(TraceEvent { time, tag, stage, router, port: port as u8, vc: vc as u8 });
        }
    }
    /// The packet has left this engine, its handle will be reused. Whether it was followed.
    #[inline(always)]
    pub(crate) fn end(&mut self, handle: u32) -> bool {
        let before = self.live.len();
        if before != 0 {
            self.live.retain(|l| l.0 != handle);
        }
        self.live.len() != before
    }
    /// Everything noted since the last call, in order of time.
    pub(crate) fn take(&mut self) -> Vec<TraceEvent> {
        let mut events = std::mem::take(&mut self.events);
        events.sort_unstable();
        events
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{Config, Generic, Network, Packet, Profile, Stage};

    #[test]
    fn a_traced_packet_tells_its_whole_way_and_links_count() {
        let shape = "torus:4x4".parse().unwrap();
        let mut net =
            Network::new(&Config { shape, profile: Profile::Generic(Generic::default()), seed: 1, faults: Vec::new() })
                .unwrap();
        net.count_links();
        net.inject(Packet { src: 0, dst: 5, flits: 1, at: 0, tag: 7, traced: true, ..Packet::default() });
        net.inject(Packet { src: 5, dst: 0, flits: 1, at: 0, tag: 8, ..Packet::default() });
        net.run_until_idle();
        let events = net.take_trace();
        assert!(events.iter().all(|e| e.tag == 7) && net.take_trace().is_empty());
        let cycles: Vec<_> = events.iter().map(|e| (e.time / net.cycle(), e.router, e.stage)).collect();
        let hop = |at: u64, router, last| {
            let leaves = if last { Stage::Ejected } else { Stage::LinkEntered };
            let stages = [(0, Stage::Arrived), (0, Stage::ChannelGranted), (1, Stage::SwitchGranted), (2, leaves)];
            stages.map(|(after, stage)| (at + after, router, stage))
        };
        let mut expected = vec![(0, 0, Stage::Created), (0, 0, Stage::Injected)];
        expected.extend(hop(2, 0, false));
        expected.extend(hop(6, 1, false));
        expected.extend(hop(10, 5, true));
        expected.push((14, 5, Stage::Delivered));
        assert_eq!(cycles, expected);
        let flits = |router| (0..5).map(|port| net.link_load(router, port).flits).collect::<Vec<_>>();
        assert_eq!((flits(0), flits(1)), (vec![1, 0, 0, 0, 1], vec![0, 0, 1, 0, 0]));
        assert_eq!((flits(5), flits(4)), (vec![0, 1, 0, 0, 1], vec![0, 0, 0, 1, 0]));
    }
}
