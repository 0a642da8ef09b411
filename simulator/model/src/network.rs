//! A simulated network of either profile behind one face.

use crate::angara;
use crate::engine::Engine;
use crate::member::Crew;
use crate::peers::Peers;
use crate::profile::Plan;
use crate::setup::{Profile, Setup, SetupError};
use crate::topology::AnyTopology;
use crate::waits::Waits;
use angara_fabric::raw::{Delivery, Inconsistent, Injection, LinkLoad, Lost, Totals, TraceEvent};
use angara_fabric::{Heard, Tick};
use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Cycle of the EC8430's router clock, 500 MHz; loads and latencies of the `angara` profile are
/// quoted in it.
const ANGARA_CYCLE: Tick = 2_000;

/// Hears of what happens to packets, until it has heard enough.
pub type Listener = Box<dyn FnMut(&Heard) -> ControlFlow<()> + Send>;

/// A simulated network. See the module's documentation.
pub struct Network {
    engine: Box<dyn Engine>,
    endpoints: usize,
    own: Range<u32>,
    routers: usize,
    cycle: Tick,
    listener: Option<Listener>,
    /// Since when the routers of endpoints are down; empty if none ever are.
    down: Vec<Tick>,
    /// Packets from or to them, the earliest first, and how many there have been.
    undeliverable: BinaryHeap<Reverse<Lost>>,
    dropped: u64,
}

/// Endpoints of part `part` of `parts`.
fn own_endpoints(config: &Setup, part: usize, parts: usize) -> Range<u32> {
    let shape = &config.shape;
    let first = |part: usize| match &config.profile {
        Profile::Angara(a) => (shape.endpoints() * part / parts * a.channels as usize) as u32,
        Profile::Generic(_) => {
            let cut = (shape.routers() * part / parts) as u32;
            (0..shape.endpoints() as u32).take_while(|&e| shape.attach(e).0 < cut).count() as u32
        }
    };
    first(part)..first(part + 1)
}

impl Network {
    /// Builds the network `config` describes.
    pub fn new(config: &Setup) -> Result<Network, SetupError> {
        Network::with_threads(config, 1)
    }
    /// Like [`Network::new`], simulated by `threads` threads (fewer if there are not as many routers). Results do not
    /// depend on their number.
    pub fn with_threads(config: &Setup, threads: usize) -> Result<Network, SetupError> {
        Network::with_crew(config, &Crew::Threads(threads))
    }
    /// One part of the network, that of the process which `peers` is; the others have the other parts. It takes packets
    /// of [`Network::own_endpoints`] alone, and has the deliveries, counters and loads of its part. All processes
    /// call [`Network::advance`], [`Network::next_event`], [`Network::run_until_idle`] and [`Network::check_idle`] in
    /// the same order with the same times. Results do not depend on the number of processes.
    pub fn among(config: &Setup, peers: Arc<dyn Peers>) -> Result<Network, SetupError> {
        Network::with_crew(config, &Crew::Processes(peers))
    }
    fn with_crew(config: &Setup, crew: &Crew) -> Result<Network, SetupError> {
        let later = config.validated()?;
        let (shape, routers) = (&config.shape, config.shape.routers());
        let (engine, endpoints, cycle) = match &config.profile {
            Profile::Generic(router) => {
                config.check_threads(match crew {
                    Crew::Threads(threads) => *threads,
                    Crew::Processes(peers) => peers.count(),
                })?;
                let changes: Vec<(u64, &dyn Any)> =
                    later.iter().map(|(at, left)| (at.div_ceil(router.cycle), left.as_any())).collect();
                let plan = Plan { router, seed: config.seed, rates: &shape.rates(&config.faults)?, changes: &changes };
                (shape.generic(&plan, crew)?, shape.endpoints(), router.cycle)
            }
            Profile::Angara(a) => (angara::engine(config, a, crew)?, routers * a.channels as usize, ANGARA_CYCLE),
        };
        let own = match crew {
            Crew::Threads(_) => 0..endpoints as u32,
            Crew::Processes(peers) => own_endpoints(config, peers.rank(), peers.count()),
        };
        let is_down = |left: &AnyTopology, e: u32| !left.is_up(e);
        let since = |e: u32| match later.iter().find(|(_, left)| is_down(left, e)) {
            _ if is_down(shape, e) => 0,
            Some((at, _)) => *at,
            None => Tick::MAX,
        };
        let down: Vec<Tick> = (0..shape.endpoints() as u32).map(since).collect();
        let down = if down.iter().any(|at| *at < Tick::MAX) { down } else { Vec::new() };
        let undeliverable = BinaryHeap::new();
        Ok(Network { engine, endpoints, own, routers, cycle, listener: None, down, undeliverable, dropped: 0 })
    }
    /// Endpoints whose packets this network takes: all, or those of this process's part.
    pub fn own_endpoints(&self) -> Range<u32> {
        self.own.clone()
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
    pub fn inject(&mut self, packet: Injection) {
        assert!((packet.src.max(packet.dst) as usize) < self.endpoints, "endpoint of {packet:?} does not exist");
        assert!(self.own.contains(&packet.src), "source of {packet:?} belongs to another process");
        if [packet.src, packet.dst].iter().any(|&e| self.down.get(e as usize).is_some_and(|since| *since <= packet.at))
        {
            let Injection { src, dst, tag, .. } = packet;
            let time = packet.at.div_ceil(self.cycle) * self.cycle;
            self.undeliverable.push(Reverse(Lost { time, src, dst, tag }));
            self.dropped += 1;
            return;
        }
        self.engine.inject(packet);
    }
    /// The time up to which everything has happened.
    pub fn now(&self) -> Tick {
        self.engine.now()
    }
    /// Lets everything happen that is due at or before `to`.
    pub fn advance(&mut self, to: Tick) {
        self.engine.advance(to);
        if self.listener.is_some() {
            self.tell();
        }
    }
    /// Tells the listener what has happened.
    #[cold]
    fn tell(&mut self) {
        let heard = self.engine.heard();
        let Some(listener) = &mut self.listener else { return };
        if heard.iter().try_for_each(listener).is_break() {
            self.engine.listen(false);
            self.listener = None;
        }
    }
    /// From now on `listener` hears of everything that happens to packets, in order of time, after each
    /// [`Network::advance`]. Results stay the same. False if this network cannot tell: only one of the `angara` profile
    /// that one thread simulates does.
    pub fn listen(&mut self, listener: Listener) -> bool {
        let can = self.engine.listen(true);
        self.listener = can.then_some(listener);
        can
    }
    /// A time before which nothing will happen, or `None` if nothing is under way.
    pub fn next_event(&self) -> Option<Tick> {
        self.engine.next_event()
    }
    /// Advances until nothing is under way. Deliveries accumulate.
    pub fn run_until_idle(&mut self) {
        while let Some(t) = self.engine.next_event() {
            self.advance(t);
        }
    }
    /// The next packet that arrived, in order of (time of its tail, then as documented by the profile).
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.engine.deliveries().pop_front()
    }
    /// The next packet that was dropped because no route was left, in order of time. One from or to an endpoint of the
    /// generic profile that is down is dropped when it is injected.
    pub fn poll_lost(&mut self) -> Option<Lost> {
        self.undeliverable.pop().map(|Reverse(lost)| lost).or_else(|| self.engine.lost())
    }
    /// Returns what has happened so far.
    pub fn counters(&self) -> Totals {
        let totals = self.engine.counters();
        Totals { injected: totals.injected + self.dropped, lost: totals.lost + self.dropped, ..totals }
    }
    /// Returns what happened to traced packets since the last call, in order of time.
    pub fn take_trace(&mut self) -> Vec<TraceEvent> {
        self.engine.take_trace()
    }
    /// Begins to count what leaves every router through every port; see [`Network::link_load`].
    pub fn count_links(&mut self) {
        self.engine.count_links();
    }
    /// Returns what left `router` through `port` since [`Network::count_links`]; ports are numbered as the
    /// topology does. Nothing for a port that does not exist.
    pub fn link_load(&self, router: u32, port: u8) -> LinkLoad {
        self.engine.link_load(router, port)
    }
    /// Begins to count how long packets wait at every output; see [`Network::waits`]. False if this network cannot: the
    /// routers of the `angara` profile do not look at every cycle.
    pub fn count_waits(&mut self) -> bool {
        self.engine.count_waits()
    }
    /// Returns how long packets have waited at the outputs of `router` to `port` since [`Network::count_waits`].
    pub fn waits(&self, router: u32, port: u8) -> Waits {
        self.engine.waits(router, port)
    }
    /// Room of the buffers behind `port` of `router` that is taken: by packets in them, on the way there, or whose credits
    /// are on the way back. Flits; always 0 in the `angara` profile, where credits are counted when somebody needs them.
    pub fn occupied(&self, router: u32, port: u8) -> u64 {
        self.engine.occupied(router, port)
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
