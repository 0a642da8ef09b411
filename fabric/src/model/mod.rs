//! The network model: flit-exact timing at the cost of one event per packet and hop.
//!
//! A [`Network`] is a machine without sockets, threads or clocks. You hand it packets
//! ([`Network::inject`]), tell it how far time may go ([`Network::advance`]) and collect what
//! arrived ([`Network::poll_delivery`]). A packet that wins an output streams its flits without a gap,
//! so one head time, a rate and a length give the time of every flit, and only packets cost work.
//! Two kinds of router exist ([`Profile`]): `generic`, a textbook router comparable with BookSim, and
//! `angara`, the EC8430. `docs/model.md` states every rule both follow.
//!
//! Nothing depends on the order in which simultaneous events were put in: everything that happens at
//! one instant first updates state (arrivals, credits, timers), then every router that has something
//! to decide decides, in order of node number. Random choices are functions of (seed, packet).
//!
//! ```
//! use fabric::model::{Config, Generic, Network, Packet, Profile};
//! let config = Config { shape: "torus:4x4".parse()?, profile: Profile::Generic(Generic::default()), seed: 1,
//!     faults: Vec::new() };
//! let mut net = Network::new(&config)?;
//! net.inject(Packet { src: 0, dst: 5, flits: 1, at: 0, tag: 7, ..Packet::default() });
//! net.run_until_idle();
//! let d = net.poll_delivery().expect("an empty network delivers");
//! // Two hops pass three routers of four cycles each; entering and leaving takes two more.
//! assert_eq!((d.tag, d.routers, d.tail / net.cycle()), (7, 3, 14));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod angara;
pub mod config;
mod generic;
mod packet;
mod parallel;
pub mod rng;
pub mod topology;
pub mod trace;

pub use config::{Angara, Config, ConfigError, Generic, Profile, Rate};
pub use topology::{Shape, Topology};
pub use trace::{LinkLoad, Stage, TraceEvent};

/// Model time in picoseconds.
pub type Tick = u64;

/// Cycle of the EC8430's router clock, 500 MHz; loads and latencies of the `angara` profile are
/// quoted in it.
const ANGARA_CYCLE: Tick = 2_000;

/// Traffic class of a packet: which deterministic virtual channel of the angara router it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub enum TrafficClass {
    /// vc0: responses, and writes that need no order with requests.
    Response,
    /// vc1: requests, atomics, ordered writes.
    #[default]
    Request,
}

/// A packet to inject.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Packet {
    /// Source endpoint.
    pub src: u32,
    /// Destination endpoint.
    pub dst: u32,
    /// Length in flits, at least 1 (`angara`: at most 18).
    pub flits: u16,
    /// `angara`: which deterministic channel.
    pub class: TrafficClass,
    /// `angara`: may use the adaptive channel.
    pub adaptive: bool,
    /// When its source has it ready. Packets of one source must be injected in order of `at`, and
    /// `at` must not be before [`Network::now`].
    pub at: Tick,
    /// Returned with the delivery.
    pub tag: u64,
    /// Everything that happens to it is noted for [`Network::take_trace`].
    pub traced: bool,
}

/// A packet that has reached its destination.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Delivery {
    /// When its last flit was received.
    pub tail: Tick,
    /// Source endpoint.
    pub src: u32,
    /// Destination endpoint.
    pub dst: u32,
    /// As injected.
    pub tag: u64,
    /// As injected.
    pub at: Tick,
    /// Length in flits.
    pub flits: u16,
    /// Routers passed, those of source and destination included.
    pub routers: u16,
}

/// What a network has done since it was built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets handed to [`Network::inject`].
    pub injected: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Flits delivered.
    pub delivered_flits: u64,
    /// Packets that left a router (through a link or to an endpoint).
    pub packet_hops: u64,
    /// Flits that left a router.
    pub flit_hops: u64,
    /// Packets dropped because no route was left.
    pub lost: u64,
}

impl Counters {
    /// A packet left a router.
    #[inline(always)]
    pub(crate) fn hop(&mut self, flits: u16) {
        self.packet_hops += 1;
        self.flit_hops += flits as u64;
    }
}

/// A packet that was dropped because no route to its destination was left (`angara` with faults).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lost {
    /// When.
    pub time: Tick,
    /// Source endpoint.
    pub src: u32,
    /// Destination endpoint.
    pub dst: u32,
    /// As injected.
    pub tag: u64,
}

/// A broken conservation law, found by [`Network::check_idle`]: always a bug of the model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("model inconsistency: {0}")]
pub struct Inconsistent(pub String);

/// The engine behind a network: one implementation per profile and topology, called coarsely.
trait Engine: Send {
    fn inject(&mut self, packet: Packet);
    /// Processes every event at or before `to`, then sets the time to `to`.
    fn advance(&mut self, to: Tick);
    fn now(&self) -> Tick;
    /// When the next event is due; it may be earlier than anything visible.
    fn next_event(&self) -> Option<Tick>;
    fn deliveries(&mut self) -> &mut std::collections::VecDeque<Delivery>;
    /// The next packet that was dropped.
    fn lost(&mut self) -> Option<Lost> {
        None
    }
    fn counters(&self) -> Counters;
    /// What happened to traced packets since the last call.
    fn take_trace(&mut self) -> Vec<TraceEvent> {
        Vec::new()
    }
    /// Begins to count what leaves through every port.
    fn count_links(&mut self) {}
    fn link_load(&self, _router: u32, _port: u8) -> LinkLoad {
        LinkLoad::default()
    }
    fn check_idle(&self) -> Result<(), Inconsistent>;
    fn memory_bytes(&self) -> usize;
}

/// A network of `generic` routers.
fn generic_network<T: Topology + Clone + 'static>(topology: T, g: &Generic, seed: u64, threads: usize) -> Network {
    let (endpoints, routers) = (topology.endpoints(), topology.routers());
    Network { engine: generic::engine(topology, g, seed, threads), endpoints, routers, cycle: g.cycle }
}

/// A simulated network. See the module's documentation.
pub struct Network {
    engine: Box<dyn Engine>,
    endpoints: usize,
    routers: usize,
    cycle: Tick,
}

impl Network {
    /// Builds the network `config` describes.
    pub fn new(config: &Config) -> Result<Network, ConfigError> {
        Network::with_threads(config, 1)
    }
    /// Like [`Network::new`], simulated by `threads` threads (fewer if there are not as many routers). Results do not
    /// depend on their number.
    pub fn with_threads(config: &Config, threads: usize) -> Result<Network, ConfigError> {
        config.validate()?;
        let seed = config.seed;
        Ok(match (&config.shape, &config.profile) {
            (Shape::Grid { dims, wrap }, Profile::Generic(g)) => {
                generic_network(topology::Grid::new(dims, *wrap), g, seed, threads)
            }
            (Shape::FatTree { arity, levels }, Profile::Generic(g)) => {
                generic_network(topology::FatTree::new(*arity, *levels), g, seed, threads)
            }
            (Shape::Clos { spines, endpoints, leaves }, Profile::Generic(g)) => {
                generic_network(topology::Clos::new(*spines, *endpoints, *leaves), g, seed, threads)
            }
            (Shape::Cayley(p), Profile::Generic(g)) => generic_network(topology::Cayley::new(p)?, g, seed, threads),
            (Shape::Grid { dims, wrap }, Profile::Angara(a)) => {
                let routers = topology::Grid::new(dims, *wrap).routers();
                let endpoints = routers * a.channels as usize;
                Network { engine: angara::engine(config, a, threads)?, endpoints, routers, cycle: ANGARA_CYCLE }
            }
            (shape, Profile::Angara(_)) => return Err(ConfigError::NotAGrid(shape.clone())),
        })
    }
    /// Sources and sinks of packets, numbered from 0. `angara`: channel c of node n is endpoint
    /// n·channels + c.
    pub fn endpoints(&self) -> usize {
        self.endpoints
    }
    /// Routers.
    pub fn routers(&self) -> usize {
        self.routers
    }
    /// Length of one router cycle, in picoseconds.
    pub fn cycle(&self) -> Tick {
        self.cycle
    }
    /// Gives a packet to its source's queue. Panics if the packet is longer than the profile allows
    /// or an endpoint does not exist: callers generate packets, users do not.
    pub fn inject(&mut self, packet: Packet) {
        assert!((packet.src.max(packet.dst) as usize) < self.endpoints, "endpoint of {packet:?} does not exist");
        self.engine.inject(packet);
    }
    /// The time up to which everything has happened.
    pub fn now(&self) -> Tick {
        self.engine.now()
    }
    /// Lets everything happen that is due at or before `to`.
    pub fn advance(&mut self, to: Tick) {
        self.engine.advance(to);
    }
    /// A time before which nothing will happen, or `None` if nothing is under way.
    pub fn next_event(&self) -> Option<Tick> {
        self.engine.next_event()
    }
    /// Advances until nothing is under way. Deliveries accumulate.
    pub fn run_until_idle(&mut self) {
        while let Some(t) = self.engine.next_event() {
            self.engine.advance(t);
        }
    }
    /// The next packet that arrived, in order of (time of its tail, then as documented by the profile).
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.engine.deliveries().pop_front()
    }
    /// The next packet that was dropped because no route was left, in order of time.
    pub fn poll_lost(&mut self) -> Option<Lost> {
        self.engine.lost()
    }
    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.engine.counters()
    }
    /// What happened to traced packets since the last call, in order of time.
    pub fn take_trace(&mut self) -> Vec<TraceEvent> {
        self.engine.take_trace()
    }
    /// Begins to count what leaves every router through every port; see [`Network::link_load`].
    pub fn count_links(&mut self) {
        self.engine.count_links();
    }
    /// What left `router` through `port` since [`Network::count_links`]; ports are numbered as the
    /// topology does. Nothing for a port that does not exist.
    pub fn link_load(&self, router: u32, port: u8) -> LinkLoad {
        self.engine.link_load(router, port)
    }
    /// With nothing under way: every buffer is empty, every credit and slot is back, every packet
    /// arrived.
    pub fn check_idle(&self) -> Result<(), Inconsistent> {
        self.engine.check_idle()
    }
    /// Bytes held by the model's tables and queues.
    pub fn memory_bytes(&self) -> usize {
        self.engine.memory_bytes()
    }
}
