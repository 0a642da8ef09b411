//! One run: the network, the traffic that is offered to it, and how long it lasts.
//!
//! Programs of the nodes stand above it: a workload borrows an [`Experiment`] and takes what it needs, and nothing here
//! knows which one that is.

use super::Together;
use super::router::{Deadlock, Router, Routing, Switching};
use crate::Error;
use crate::observe::{Capture, Observe};
use crate::traffic::{Destinations, Lengths, Mapping, Pattern, Probe, Process, Rate, RatesFile};
use angara_model::topology::Layout;
use angara_model::{Network, Profile, Setup};
use serde::Serialize;

/// How long to run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Schedule {
    /// Cycles before measuring; `None` to find out.
    pub warmup: Option<u64>,
    /// Cycles measured; `None` until `precision` is reached.
    pub measure: Option<u64>,
    /// Wanted relative half-width of the confidence interval.
    pub precision: f64,
    /// Most cycles in all.
    pub cycles_max: u64,
}

/// Everything a run needs.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// What settings of its machine keep others from.
    pub caps: Vec<String>,
    /// The network.
    pub network: Setup,
    /// Packets may be routed adaptively.
    pub adaptive: bool,
    /// Where messages go, by rank.
    pub destinations: Destinations,
    /// How long they are.
    pub lengths: Lengths,
    /// When they are created.
    pub process: Process,
    /// Messages per node and cycle, on average over the nodes.
    pub rate: Rate,
    /// Messages per cycle of each rank, where they differ.
    pub rates: Option<Vec<Rate>>,
    /// Endpoint of every rank.
    pub placement: Vec<u32>,
    /// Extra messages.
    pub probe: Option<Probe>,
    /// How the nodes are arranged.
    pub layout: Layout,
    /// Observations to make.
    pub observe: Observe,
    /// How long to run.
    pub schedule: Schedule,
    /// Threads that simulate it; results do not depend on them.
    pub threads: usize,
    /// Processes that simulate it together, each its part; results do not depend on them.
    pub together: Together,
    /// Search the largest load the network carries instead, to within N flits per node and cycle.
    pub find_saturation: Option<f64>,
    /// Decides everything random.
    pub seed: u64,
    /// The settings, with defaults filled in.
    pub settings: Settings,
}

/// The settings a result belongs to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Settings {
    /// How its routers are wired.
    pub topology: String,
    /// Kind of router.
    pub router: Router,
    /// Virtual channels per port; the angara router has its own five.
    pub vcs: u8,
    /// When packets leave a router (generic).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switching: Option<Switching>,
    /// Packets keep the switch (generic, wormhole).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_switch: Option<bool>,
    /// Flits (generic) or packet slots (angara) per virtual channel.
    pub buffer: u16,
    /// Times of a packet that has the network to itself.
    pub lone_packet: Lone,
    /// Rule in rings.
    pub deadlock: Deadlock,
    /// Routing.
    pub routing: Routing,
    /// Flits by which UGAL prefers the shortest way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ugal_threshold: Option<u16>,
    /// Program of the nodes, as it was chosen.
    pub workload: String,
    /// Message lengths.
    pub length: String,
    /// Flits per node and cycle.
    pub load: f64,
    /// Destinations.
    pub pattern: Pattern,
    /// Relative rates of the ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rates: Option<RatesFile>,
    /// Arrivals.
    pub process: Process,
    /// Placement.
    pub map: Mapping,
    /// Faults and impairments of links and nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fault: Vec<String>,
    /// Seed.
    pub seed: u64,
}

/// Times of a packet that has the network to itself, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Lone {
    /// At both ends together.
    pub ends_ns: f64,
    /// From router to router, over the shortest link.
    pub hop_ns: f64,
    /// A flit on a link.
    pub flit_ns: f64,
}

impl Lone {
    /// That of a network of these routers.
    pub fn of(profile: &Profile) -> Lone {
        let ns = |ps: u64| ps as f64 / 1000.0;
        match profile {
            Profile::Angara(a) => {
                let flit = a.flit_internal.slower(a.flit_link);
                let flit_ns = f64::from(flit.num) / f64::from(flit.den) / 1000.0;
                Lone { ends_ns: ns(a.injection + a.ejection), hop_ns: ns(a.router + a.link), flit_ns }
            }
            // 2 cycles to the first router, 4 in the last one and to the endpoint, of which one is the flit's.
            Profile::Generic(g) => Lone {
                ends_ns: ns(g.ends + 5 * g.cycle),
                hop_ns: ns((3 + u64::from(g.link)) * g.cycle),
                flit_ns: ns(g.cycle),
            },
        }
    }
}

impl Settings {
    /// The machine in a few words.
    pub fn machine(&self) -> String {
        let wormhole = if self.switching == Some(Switching::Wormhole) { ", wormhole" } else { "" };
        let router = format!("{:?}", self.router).to_lowercase();
        format!("{} · router {router}, {}{wormhole}", self.topology, self.routing)
    }
}

impl Experiment {
    /// Builds the network.
    ///
    /// # Errors
    /// It cannot be built.
    pub fn build(&self) -> Result<Network, Error> {
        let network = match self.together.peers() {
            Some(peers) => Network::among(&self.network, peers.clone()),
            None => Network::with_threads(&self.network, self.threads),
        };
        let mut network = network.map_err(|e| Error::Network(e.to_string()))?;
        if let Some(capture) = self.observe.capture.clone().filter(Capture::begin) {
            network.listen(Box::new(move |heard| capture.hear(heard)));
        }
        Ok(network)
    }
    /// Has the processes of `together` simulate it, each its part. Whoever knows the workload has asked whether it can
    /// be simulated so.
    ///
    /// # Errors
    /// It is something that several processes cannot simulate.
    pub fn among(&mut self, together: Together) -> Result<(), Error> {
        let count = together.count();
        if self.threads > 1 {
            return Err(Error::invalid("threads", self.threads, "each of several processes has one thread; give 1"));
        }
        if let Some(packets) = &self.observe.packets {
            let why = "several processes do not number packets as one does; start one process";
            return Err(Error::invalid("trace", packets, why));
        }
        if let Some(series) = &self.observe.series {
            let why = "several processes do not write one series; start one process";
            return Err(Error::invalid("--series", series.cycles, why));
        }
        self.network.check_threads(count).map_err(|e| Error::Network(e.to_string()))?;
        self.together = together;
        Ok(())
    }
    /// The same with another load, in flits per node and cycle.
    pub fn at_load(&self, load: f64) -> Experiment {
        let mut other = self.clone();
        let factor = load / self.settings.load;
        let scale = |rate: &mut Rate| {
            *rate = Rate::messages((rate.per_cycle() * factor).min(1.0)).expect("from 0 to 1");
        };
        scale(&mut other.rate);
        other.rates.iter_mut().flatten().for_each(scale);
        other.settings.load = load;
        other
    }
    /// Messages per cycle of `rank`.
    pub fn rate_of(&self, rank: u32) -> Rate {
        self.rates.as_ref().map_or(self.rate, |rates| rates[rank as usize])
    }
    /// Rank of every endpoint.
    pub fn ranks(&self) -> Vec<u32> {
        let mut ranks = vec![0; self.placement.len()];
        for (rank, &endpoint) in (0..).zip(&self.placement) {
            ranks[endpoint as usize] = rank;
        }
        ranks
    }
    /// The machine in a few words.
    pub fn title(&self) -> String {
        self.settings.machine()
    }
}
