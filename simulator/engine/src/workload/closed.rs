//! Programs on a network: nodes that send when something has arrived.
//!
//! [`Closed`] hands out what arrives one delivery at a time, in order of time, and takes what the
//! program sends in answer. The answer may be for later (a node computes for a while); packets of one
//! node then leave in order of the times the program gave.

use super::kind::TRAFFIC_KEYS;
use crate::Error;
use crate::observe::{Follower, Links, Series};
use crate::run::outcome::peak_rss_bytes;
use crate::run::report::Report;
use crate::run::{Experiment, Progress, Watch};
use angara_fabric::Tick;
use angara_model::setup::ANGARA_FLITS_MAX;
use angara_model::{Delivery, Injection, Network, Profile};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Instant;

/// Bytes of a flit.
const FLIT_BYTES: u64 = 16;
/// Flits of an angara packet that carry no payload: header and tail.
const ANGARA_OVERHEAD: u16 = 2;
/// Bit of the tag with which a followed packet travels; the rest is its number.
const FOLLOWED: u64 = 1 << 62;
/// Deliveries between two calls of a watch.
const LOOK: u64 = 4096;

/// A network driven by a program.
pub struct Closed {
    network: Network,
    series: Option<Series>,
    /// To be injected when their time has come, in order of (time, number).
    waiting: BinaryHeap<Reverse<(Tick, u64, Waiting)>>,
    sent: u64,
    seen: u64,
    arrived: VecDeque<Delivery>,
    started: Instant,
    follower: Follower,
    /// Tags that followed packets had, by the number they travel with.
    followed: HashMap<u64, u64>,
    injected: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    src: u32,
    dst: u32,
    flits: u16,
    class: angara_model::TrafficClass,
    adaptive: bool,
    tag: u64,
}

impl Closed {
    /// The network of `experiment`, idle.
    ///
    /// # Errors
    /// The network cannot be built.
    pub fn new(experiment: &Experiment) -> Result<Closed, Error> {
        let mut network = experiment.build()?;
        if experiment.observe.links {
            network.count_links();
        }
        let begin = |every| Series::begin(every, &mut network, &experiment.network);
        let series = experiment.observe.series.as_ref().map(begin).transpose()?;
        Ok(Closed {
            network,
            series,
            waiting: BinaryHeap::new(),
            sent: 0,
            seen: 0,
            arrived: VecDeque::new(),
            started: Instant::now(),
            follower: Follower::new(experiment.observe.packets.as_ref()),
            followed: HashMap::new(),
            injected: 0,
        })
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Sends `packet` at its time `at`, or at once if that has passed. Tags are below 2^62;
    /// whether the packet is followed is decided here.
    pub fn send(&mut self, packet: Injection) {
        let Injection { src, dst, flits, class, adaptive, at, tag, .. } = packet;
        let waiting = Waiting { src, dst, flits, class, adaptive, tag };
        self.waiting.push(Reverse((at.max(self.network.now()), self.sent, waiting)));
        self.sent += 1;
    }

    /// Packets given to [`Closed::send`] so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The next packet that arrives; `None` when nothing is under way any more.
    ///
    /// # Errors
    /// A packet was dropped for want of a route.
    pub fn next_delivery(&mut self) -> Result<Option<Delivery>, Error> {
        self.next_delivery_before(Tick::MAX)
    }

    /// The same, but the network stays where it is if nothing happens in it before `limit`.
    ///
    /// # Errors
    /// A packet was dropped for want of a route.
    pub fn next_delivery_before(&mut self, limit: Tick) -> Result<Option<Delivery>, Error> {
        loop {
            if let Some(d) = self.arrived.pop_front() {
                return Ok(Some(d));
            }
            let due = self.waiting.peek().map(|Reverse((at, ..))| *at).filter(|at| *at < limit);
            match (due, self.network.next_event().filter(|event| *event < limit)) {
                (Some(at), event) if event.is_none_or(|e| at <= e) => {
                    let Some(Reverse((at, _, w))) = self.waiting.pop() else { return Ok(None) };
                    let Waiting { src, dst, flits, class, adaptive, mut tag } = w;
                    let traced = self.follower.wants(self.injected, (src, dst, flits), true);
                    if traced {
                        let number = FOLLOWED | self.injected;
                        self.followed.insert(number, tag);
                        tag = number;
                    }
                    self.injected += 1;
                    self.network.inject(Injection { src, dst, flits, class, adaptive, at, tag, traced });
                }
                (_, Some(event)) => {
                    if let Some(series) = &mut self.series {
                        let cycle = event / self.network.cycle();
                        series.advance(&mut self.network, cycle);
                    }
                    self.network.advance(event);
                    if let Some(lost) = self.network.poll_lost() {
                        let why = format!("faults have left no route from node {} to node {}", lost.src, lost.dst);
                        return Err(Error::Network(format!(
                            "{why}: a program that waits for it cannot end; give fewer faults"
                        )));
                    }
                    if self.follower.open() {
                        self.follower.note(self.network.take_trace(), |tag| tag & !FOLLOWED);
                    }
                    while let Some(mut d) = self.network.poll_delivery() {
                        if d.tag & FOLLOWED != 0 {
                            d.tag = self.followed.remove(&d.tag).unwrap_or(d.tag);
                        }
                        self.arrived.push_back(d);
                    }
                }
                (_, None) => return Ok(None),
            }
        }
    }

    /// Tells `watch` now and then that `done` of `of` steps are behind us.
    ///
    /// # Errors
    /// The user wants the run to end.
    pub fn look(&mut self, watch: &mut Watch<'_>, doing: &'static str, done: u64, of: u64) -> Result<(), Error> {
        self.seen += 1;
        if self.seen.is_multiple_of(LOOK) && watch(Progress { doing, done, of }).is_break() {
            return Err(Error::Interrupted("a program that has not ended has no result"));
        }
        Ok(())
    }

    /// Adds what every workload reports: settings, of traffic those that it has `read`, work done, time and memory taken.
    ///
    /// # Errors
    /// The series could not be written.
    pub fn finish(self, experiment: &Experiment, read: &[&str], report: &mut Report) -> Result<(), Error> {
        if let Some(series) = self.series {
            series.finish(&self.network, self.network.now() / self.network.cycle() + 1)?;
        }
        let counters = self.network.counters();
        let wall_s = self.started.elapsed().as_secs_f64();
        let mut settings = serde_json::to_value(&experiment.settings).expect("settings are numbers and names");
        if let Some(fields) = settings.as_object_mut() {
            // Defaults of what the workload does not read would only mislead.
            fields.retain(|name, _| !TRAFFIC_KEYS.contains(&name.as_str()) || read.contains(&name.as_str()));
        }
        report.set("settings", settings);
        report.set("packets", counters.delivered);
        report.set("packet_hops", counters.packet_hops);
        report.set("flit_hops", counters.flit_hops);
        if experiment.observe.links {
            let cycles = self.network.now() / self.network.cycle();
            let links = Links::collect(&self.network, &experiment.network, cycles);
            report.set("links", links.summary());
            report.observed.links = Some(links);
        }
        (report.observed.ways, report.observed.missing) = self.follower.finish();
        report.set("wall_s", wall_s);
        report.set("peak_rss_bytes", peak_rss_bytes());
        report.line(
            "simulated in",
            format!("{wall_s:.2} s, {:.2} M packet hops/s", counters.packet_hops as f64 / wall_s / 1e6),
        );
        Ok(())
    }
}

/// Length in flits of one packet that carries `bytes`, at most 256 of them.
pub(super) fn payload_flits(experiment: &Experiment, bytes: u64) -> u16 {
    let overhead = match &experiment.network.profile {
        Profile::Angara(_) => ANGARA_OVERHEAD,
        Profile::Generic(generic) => generic.overhead,
    };
    overhead + bytes.div_ceil(FLIT_BYTES) as u16
}

/// Lengths in flits of the packets that carry `bytes`, at least one: full ones, then a shorter one.
/// An angara packet adds a header and a tail flit to up to 256 bytes, as does one of the generic router with a machine;
/// else a packet of the generic router is all payload, as long as `length` allows.
pub fn packets_for(experiment: &Experiment, bytes: u64) -> impl Iterator<Item = u16> + use<> {
    let (longest, overhead) = match &experiment.network.profile {
        Profile::Angara(_) => (ANGARA_FLITS_MAX - ANGARA_OVERHEAD, ANGARA_OVERHEAD),
        Profile::Generic(generic) => (experiment.lengths.max() - generic.overhead, generic.overhead),
    };
    let flits = bytes.div_ceil(FLIT_BYTES).max(1);
    let count = flits.div_ceil(u64::from(longest));
    (0..count).map(move |i| overhead + (flits - i * u64::from(longest)).min(u64::from(longest)) as u16)
}
