//! Captures of programs' packets: a listener hears of each packet wherever something happens to it.
//!
//! While nobody listens it costs one test where something happens, mostly the same that traces of simulated packets cost
//! ([`super::trace::Tracer::on`]).

use crate::types::{JobSlot, Link, Tick};
use angara_abi::capture::{
    FLAG_FOREIGN, FLAG_TRAIN, FLAGS_DIMS, HOST, Happening, PSEUDO_BYTES, Pseudo, Reason, push_packet,
};
use angara_abi::packet::Flit;
use angara_abi::{FLIT_BYTES, PACKET_FLITS_MAX};
use angara_net::torus::{Direction, NodeId, Shape};

/// Most listeners at once: as many as bits in [`Heard::listeners`].
pub const LISTENERS_MAX: usize = 32;

/// Which packets a listener hears of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Jobs to hear of; `None`: all, and packets whose job is gone.
    pub jobs: Option<Vec<JobSlot>>,
    /// Only what happens on this link.
    pub link: Option<Link>,
    /// Only what happens at this node or on a link from or to it.
    pub node: Option<NodeId>,
    /// Only on this virtual channel.
    pub vc: Option<u8>,
}

/// Something that happened to a packet.
#[derive(Clone, Debug)]
pub struct Heard {
    /// When, by the network's clock.
    pub time: Tick,
    /// What.
    pub what: Happening,
    /// Why it was dropped.
    pub reason: Reason,
    /// The sending end of the link, or where it entered or left the network.
    pub node: NodeId,
    /// The link's direction; `None`: between adapter and router.
    pub dir: Option<Direction>,
    /// Virtual channel it is on there.
    pub vc: u8,
    /// Its job; [`JobSlot::NONE`]: the network's own.
    pub job: JobSlot,
    /// Accounting class.
    pub class: u8,
    /// Several packets behind one header; see [`crate::Config::trains`].
    pub train: bool,
    /// Came from a part of the network that is modelled elsewhere.
    pub foreign: bool,
    /// Source node and endpoint.
    pub from: (NodeId, u16),
    /// Target endpoint, which headers of collective packets have no field for.
    pub to_endpoint: u16,
    /// Payload bytes, as counted.
    pub bytes: u16,
    /// Number of the packet on the link.
    pub sequence: u16,
    /// Operation of the requester; an answer has that of its request.
    pub op: u64,
    /// Number of the packet in this part of the network.
    pub serial: u64,
    /// All its flits, of which `flits` may be fewer.
    pub length: u16,
    /// Its first flits.
    pub flits: [Flit; PACKET_FLITS_MAX],
    /// How many of them.
    pub kept: u8,
    /// One bit for each listener whose filter it passes, in the order of [`crate::Fabric::listen`].
    pub listeners: u32,
}

impl Heard {
    /// Returns what a capture says of it before the packet itself. `job`: the number of its job; `u32::MAX`: of none
    /// that runs.
    pub fn pseudo(&self, job: u32, shape: &Shape) -> Pseudo {
        let place = |node: NodeId| (node, shape.coords(node).0);
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let dims = (shape.dims().len() as u8) << FLAGS_DIMS;
        Pseudo {
            what: self.what,
            reason: self.reason,
            length: u32::from(self.length) * FLIT_BYTES as u32,
            time: self.time,
            node: place(self.node),
            direction: self.dir.map_or(HOST, |dir| dir.index() as u8),
            vc: self.vc,
            class: self.class,
            flags: flag(self.train, FLAG_TRAIN) | flag(self.foreign, FLAG_FOREIGN) | dims,
            job,
            from: place(self.from.0),
            from_endpoint: self.from.1,
            to_endpoint: self.to_endpoint,
            bytes: self.bytes,
            sequence: self.sequence,
            op: self.op,
            serial: self.serial,
        }
    }

    /// Appends it to the stream of a capture, with at most `snaplen` bytes of the packet; see [`Heard::pseudo`]. `stamp`:
    /// nanoseconds.
    pub fn push(&self, out: &mut Vec<u8>, stamp: u64, job: u32, shape: &Shape, snaplen: usize) {
        let pseudo = self.pseudo(job, shape);
        let mut flits = [0; PACKET_FLITS_MAX * FLIT_BYTES];
        for (bytes, flit) in flits.chunks_exact_mut(FLIT_BYTES).zip(&self.flits) {
            bytes.copy_from_slice(&flit.to_le_bytes());
        }
        let kept = (self.kept as usize * FLIT_BYTES).min(snaplen);
        push_packet(out, stamp, PSEUDO_BYTES as u32 + pseudo.length, [&pseudo.encode(), &flits[..kept]]);
    }
}

/// Where something happens, as filters see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) node: NodeId,
    /// The direction of the link and the node at its other end.
    pub(crate) link: Option<(usize, NodeId)>,
    pub(crate) vc: u8,
}

impl Filter {
    /// `stale`: left over from a job that has ended, whose slot another one may have by now.
    fn passes(&self, spot: &Spot, job: JobSlot, stale: bool) -> bool {
        let job = self.jobs.as_ref().is_none_or(|jobs| !stale && jobs.contains(&job));
        let far = spot.link.map(|(_, far)| far);
        let link = |link: Link| link.node == spot.node && Some(link.dir.index()) == spot.link.map(|(dir, _)| dir);
        job && self.link.is_none_or(link)
            && self.node.is_none_or(|node| node == spot.node || Some(node) == far)
            && self.vc.is_none_or(|vc| vc == spot.vc)
    }
}

/// Listeners, and the reports not yet given to them.
#[derive(Default, Debug)]
pub(crate) struct Taps {
    filters: Vec<Filter>,
    heard: Vec<Heard>,
}

impl Taps {
    pub(crate) fn open(&mut self, filters: Vec<Filter>) {
        assert!(filters.len() <= LISTENERS_MAX, "{} listeners, {LISTENERS_MAX} at most", filters.len());
        self.filters = filters;
    }
    /// Some filter may let packets of this job through.
    pub(crate) fn mind(&self, job: JobSlot) -> bool {
        self.filters.iter().any(|filter| filter.jobs.as_ref().is_none_or(|jobs| jobs.contains(&job)))
    }
    /// One bit for each listener who wants to hear of it.
    pub(crate) fn want(&self, spot: &Spot, job: JobSlot, stale: bool) -> u32 {
        let bit = |(i, filter): (usize, &Filter)| u32::from(filter.passes(spot, job, stale)) << i;
        self.filters.iter().enumerate().map(bit).sum()
    }
    pub(crate) fn hear(&mut self, heard: Heard) {
        self.heard.push(heard);
    }
    /// Returns what has happened by `until`, in order of time.
    pub(crate) fn take(&mut self, until: Tick) -> Vec<Heard> {
        if !self.heard.is_sorted_by_key(|heard| heard.time) {
            self.heard.sort_by_key(|heard| heard.time);
        }
        let later = self.heard.split_off(self.heard.partition_point(|heard| heard.time <= until));
        std::mem::replace(&mut self.heard, later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_pass_what_they_name_and_nothing_stale_to_those_who_may_not_hear_all() {
        let (job, other) = (JobSlot::new(1), JobSlot::new(2));
        let spot = Spot { node: 3, link: Some((0, 4)), vc: 1 };
        let host = Spot { node: 3, link: None, vc: 1 };
        let of = |change: fn(&mut Filter)| {
            let mut filter = Filter::default();
            change(&mut filter);
            filter
        };
        let all = Filter::default();
        assert!(all.passes(&spot, job, true) && all.passes(&host, JobSlot::NONE, false));
        let own = Filter { jobs: Some(vec![job]), ..Filter::default() };
        assert!(own.passes(&spot, job, false));
        assert!(!own.passes(&spot, job, true) && !own.passes(&spot, other, false));
        let link = of(|f| f.link = Some(Link { node: 3, dir: Direction::ALL[0] }));
        let back = of(|f| f.link = Some(Link { node: 4, dir: Direction::ALL[4] }));
        assert!(link.passes(&spot, job, false) && !link.passes(&host, job, false) && !back.passes(&spot, job, false));
        for (node, on_link, at_host) in [(3, true, true), (4, true, false), (5, false, false)] {
            let filter = Filter { node: Some(node), ..Filter::default() };
            assert_eq!((filter.passes(&spot, job, false), filter.passes(&host, job, false)), (on_link, at_host));
        }
        assert!(of(|f| f.vc = Some(1)).passes(&spot, job, false) && !of(|f| f.vc = Some(0)).passes(&spot, job, false));
    }
}
