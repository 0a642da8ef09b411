//! Interface of a topology: what routers ask of it, how it is written, how it is shown.

use super::layout::Layout;
pub use crate::profile::LinkRate;
use angara_fabric::rng;
use angara_net::units;
use std::fmt;
use std::ops::Range;

/// Most ports of one router.
pub const PORTS_MAX: usize = 64;
/// Most virtual channels of a port of the generic profile, and so most classes of them.
pub const VCS_MAX: u8 = 32;
/// Most cycles of a flit on a link.
pub const DELAY_MAX: u8 = 250;
/// Most dimensions of a torus or mesh.
pub const DIMS_MAX: usize = 6;

/// Rest of a packet's way; its meaning belongs to the topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouteState {
    /// First word.
    pub lo: u64,
    /// Second word.
    pub hi: u64,
}

impl RouteState {
    /// The next random word of a route that keeps its last one in `hi`.
    #[inline(always)]
    pub fn advance(&mut self) -> u64 {
        self.hi = rng::mix(self.hi.wrapping_add(rng::STEP));
        self.hi
    }
}

/// Which virtual channels of an output a packet of the generic profile may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The lower half of the virtual channels (before the dateline).
    Lower,
    /// The upper half (after the dateline).
    Upper,
    /// Any.
    Any,
    /// Those of a packet's hop of this number, from 0: channel v of V is in class ⌊v·classes/V⌋.
    Step(u8),
}

impl Class {
    /// Values of [`Class::index`]: a step needs a virtual channel.
    pub(crate) const COUNT: usize = 3 + VCS_MAX as usize;
    /// The channels that adaptive packets prefer, where others are for escape.
    pub const ADAPTIVE: Class = Class::Step(0);

    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        match self {
            Class::Lower => 0,
            Class::Upper => 1,
            Class::Any => 2,
            Class::Step(k) => 3 + k as usize,
        }
    }
    /// Channels of the class, if there are `vcs` of them and `classes` classes.
    pub(super) fn count(self, vcs: u32, classes: Classes) -> u32 {
        Class::channels(vcs, classes)[self.index()].count_ones()
    }
    /// The channels of every class, as masks, if there are `vcs` of them and `classes` classes.
    pub(crate) fn channels(vcs: u32, classes: Classes) -> [u32; Class::COUNT] {
        let all = u32::MAX >> (u32::from(VCS_MAX) - vcs);
        let lower = (1 << (vcs / 2)) - 1;
        let mut masks = [0; Class::COUNT];
        if let Classes::Escape(escapes) = classes {
            masks[Class::Lower.index()] = 1;
            masks[Class::Upper.index()] = 2;
            masks[Class::Any.index()] = all;
            masks[Class::ADAPTIVE.index()] = all & !((1 << escapes) - 1);
            return masks;
        }
        let classes = classes.count();
        masks[Class::Lower.index()] = lower;
        masks[Class::Upper.index()] = all & !lower;
        masks[Class::Any.index()] = all;
        for v in 0..vcs {
            masks[Class::Step((v * classes / vcs) as u8).index() % Class::COUNT] |= 1 << v;
        }
        masks
    }
}

/// Into which classes the virtual channels are split, so that packets do not wait for each other in a circle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Classes {
    /// None: packets take [`Class::Any`].
    One,
    /// [`Class::Lower`] and [`Class::Upper`], of as many channels each.
    Halves,
    /// N values of [`Class::Step`].
    Steps(u32),
    /// N channels for escape, [`Class::Lower`] and if there are two [`Class::Upper`], and [`Class::ADAPTIVE`]. With none, no
    /// option of a packet leads into a circle.
    Escape(u32),
}

impl Classes {
    /// How many there are; each needs a virtual channel.
    pub fn count(self) -> u32 {
        match self {
            Classes::One => 1,
            Classes::Halves => 2,
            Classes::Steps(n) => n,
            Classes::Escape(n) => n + 1,
        }
    }
}

/// The output a packet wants at a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Output port.
    pub port: u8,
    /// Virtual channels it may take there.
    pub class: Class,
}

/// Far end of a port's wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Port `port` of router `router`.
    Router {
        /// The router.
        router: u32,
        /// Its port.
        port: u8,
    },
    /// An endpoint (a source and sink of packets).
    Endpoint(u32),
    /// Nothing.
    Open,
}

/// How packets of the generic profile find their way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routing {
    /// Dimension by dimension.
    Dor,
    /// Up to the nearest common ancestor by links drawn at random, then down.
    Nca,
    /// Along a shortest way, of several next hops one drawn at random.
    Minimal,
    /// By a router or group drawn at random, along shortest ways to it and from there.
    Valiant,
    /// As minimal or as Valiant, whichever has the shorter queues at the first router.
    Ugal,
    /// As UGAL, by the queues of the links that leave the first router's group.
    UgalG,
    /// As UGAL, and once more in the source's group if the first router is for minimal (progressive adaptive).
    Par,
    /// Along a shortest way of those that first go up a tree and then down.
    UpDown,
    /// Along any shortest way, at every router as there is room, with an escape in dimension order.
    Adaptive,
    /// Along any shortest way on which no packet turns west, at every router as there is room (mesh of two dimensions).
    WestFirst,
    /// Along any shortest way whose turns the column allows, at every router as there is room (mesh of two dimensions).
    OddEven,
    /// As a table says.
    Table,
}

impl Routing {
    /// Packets choose at every router as there is room, by [`Route::options`].
    pub fn adapts(self) -> bool {
        matches!(self, Routing::Adaptive | Routing::WestFirst | Routing::OddEven)
    }
}

/// What [`Routing::Ugal`] and its like compare, as long as every packet takes its shortest way: by this it can be told
/// whether any packet will ever take a detour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Comparison {
    /// Flits by which the shortest way is preferred.
    pub threshold: u16,
    /// Most virtual channels whose credits the queue of a shortest way counts; times the hops by which it is multiplied.
    pub credits: u32,
    /// Most of them that packets fill which have the choice of a detour. Others hold packets that have arrived in their group.
    pub own: u32,
    /// Input channels whose packets the queue counts, too.
    pub inputs: u32,
}

/// Where a picture of all links shows one of them: panels of cells, one panel per direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Panels are drawn in this order; links with the same number share one.
    pub panel: (u32, u32),
    /// The panel's title.
    pub title: String,
    /// Cells per row of the panel.
    pub columns: usize,
    /// Rows of the panel.
    pub rows: usize,
    /// The link's column, below `columns`.
    pub column: usize,
    /// The link's row, below `rows`.
    pub row: usize,
}

/// A network's shape and routing.
pub trait Topology: Send + Sync {
    /// Sources and sinks of packets.
    fn endpoints(&self) -> usize;
    /// Routers.
    fn routers(&self) -> usize;
    /// Ports of the largest router, those to endpoints included.
    fn ports(&self) -> usize;
    /// Returns what output `port` of `router` leads to; for a link, the input port it arrives at.
    fn output(&self, router: u32, port: u8) -> End;
    /// What leads to input `port` of `router`: what the output of this port leads to, unless links have one direction.
    fn input(&self, router: u32, port: u8) -> End {
        self.output(router, port)
    }
    /// The router and port by which an endpoint sends; it receives by the same, unless links have one direction.
    fn attach(&self, endpoint: u32) -> (u32, u8);
    /// False for an endpoint whose router is down: no packet is from or to it.
    fn is_up(&self, _endpoint: u32) -> bool {
        true
    }
    /// Returns what a packet from `src` to `dst` remembers; `random` decides free choices.
    fn start(&self, src: u32, dst: u32, random: u64) -> RouteState;
    /// The output the packet wants at `router`, updating what it remembers for the next one.
    fn next(&self, router: u32, route: &mut RouteState) -> Hop;
    /// Cycles of a flit on the link that leaves `router` through `port`, 1 to [`DELAY_MAX`]; the credits of what comes
    /// over the link in the other direction take as long.
    fn delay(&self, _router: u32, _port: u8) -> u8 {
        1
    }
    /// Returns the links that are slower than a flit per cycle.
    fn rates(&self) -> Vec<LinkRate> {
        Vec::new()
    }
    /// Returns what keeps the generic profile from deadlock.
    fn classes(&self) -> Classes {
        Classes::One
    }
    /// How [`Topology::next`] finds the way.
    fn routing(&self) -> Routing {
        Routing::Minimal
    }
    /// What its routing compares with `vcs` virtual channels; None if it compares no queues with a threshold.
    fn comparison(&self, _vcs: u32) -> Option<Comparison> {
        None
    }
    /// Virtual channels, of `vcs`, that packets can take on the link that leaves `router` through `port`.
    fn channels_on(&self, _router: u32, _port: u8, vcs: u32) -> u32 {
        vcs
    }
    /// Returns what people call links like the one behind `port`.
    fn links_name(&self, _port: u8) -> &'static str {
        "links"
    }
    /// Where traffic patterns see the endpoints: in a ring.
    fn layout(&self) -> Layout {
        Layout::torus(&[self.endpoints() as u32])
    }
    /// Returns what people call a router.
    fn router_name(&self, router: u32) -> String {
        format!("router {router}")
    }
    /// Returns what people call a port.
    fn port_name(&self, port: u8) -> String {
        format!("port {port}")
    }
    /// Where a picture shows the link that leaves `router` through `port`: a panel per port, routers line by line.
    fn cell(&self, router: u32, port: u8) -> Cell {
        port_cell(self, router, port)
    }
}

/// The link of `router` in a panel of its own for every port, routers line by line.
pub(super) fn port_cell<T: Topology + ?Sized>(t: &T, router: u32, port: u8) -> Cell {
    let columns = t.routers().isqrt().max(1);
    let (router, rows) = (router as usize, t.routers().div_ceil(columns));
    let title = format!("{} links", t.port_name(port));
    Cell { panel: (port.into(), 0), title, columns, rows, column: router % columns, row: router / columns }
}

/// What a router of the generic profile knows of its outputs when a packet reaches it: the credits and
/// tails of this cycle have been counted, nothing has been decided yet.
pub trait Outputs {
    /// Flits that may still be in the buffers behind `port`: credits of all its channels that have not come back.
    fn used(&self, port: u8) -> u32;
    /// Channels of `port` that a packet owns.
    fn owned(&self, port: u8) -> u32;
    /// Flits of packets at `router` on their way to `port`, and of those that may still be in the buffers behind it: of
    /// this router in the cycle before, of another one as far as this one has been told ([`Route::told`]).
    fn bound(&self, router: u32, port: u8) -> u32;
}

/// Where a packet that [adapts](Routing::adapts) may go from a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Ports of all shortest ways, as a mask, on channels of [`Class::ADAPTIVE`]; none at the destination's router.
    pub ports: u64,
    /// Its hop on the escape way, or to its endpoint.
    pub escape: Hop,
}

/// A topology by which the generic profile routes: called once for every packet and router, and compiled into the
/// engine.
pub trait Route: Topology + Clone + 'static {
    /// True if [`Route::choose`] looks at the outputs; without that it is never called.
    const LOOKS: bool = false;
    /// The output wanted by a packet that has reached `router` through `input`, updating what it remembers.
    #[inline(always)]
    fn choose(&self, router: u32, _input: u8, route: &mut RouteState, _outputs: &impl Outputs) -> Hop {
        self.next(router, route)
    }
    /// True if there is [`Routing::Adaptive`].
    const ADAPTS: bool = false;
    /// Where a packet may go from `router` with [`Routing::Adaptive`], asked in every cycle in which it wants a channel.
    fn options(&self, router: u32, route: &RouteState) -> Options {
        Options { ports: 0, escape: self.next(router, &mut route.clone()) }
    }
    /// A packet that chose among options has come through `input`.
    fn came(&self, _input: u8, _route: &mut RouteState) {}
    /// Cycles of the link over which routers tell others what is bound for their ports; None if nobody is told.
    fn news_delay(&self) -> Option<u8> {
        None
    }
    /// Routers that are told what is bound for `port` of `router`, itself included; links join them.
    fn told(&self, _router: u32, _port: u8) -> Range<u32> {
        0..0
    }
}

/// A topology that can be written on a command line: `KIND:REST`. `Display` writes it the same way.
pub trait Written: Topology + fmt::Display + Sized {
    /// Its kinds, each with what follows the colon: `("clos", "SPINES,ENDPOINTS,LEAVES")`.
    const FORMS: &'static [(&'static str, &'static str)];
    /// Reads what follows the colon of a text of one of its kinds.
    ///
    /// # Errors
    /// Why there is no such network. An empty text stands for "that is not the form".
    fn read(kind: &str, rest: &str) -> Result<Self, String>;
    /// The same network with packets that find their way like this.
    ///
    /// # Errors
    /// Which ways there are, if there are several.
    fn with_routing(&self, routing: Routing) -> Result<Self, String>
    where
        Self: Clone,
    {
        if routing == self.routing() { Ok(self.clone()) } else { Err(String::new()) }
    }
    /// The same network with this threshold of [`Comparison`]; None if its routing has none.
    fn with_threshold(&self, _flits: u16) -> Option<Self> {
        None
    }
}

/// The numbers of `NAME=NUMBER,…`; None for each that is left out.
///
/// # Errors
/// A name that is given twice; an empty text if one is unknown, or its value no number.
pub(super) fn settings<const N: usize>(text: &str, names: [&str; N]) -> Result<[Option<u16>; N], String> {
    let mut numbers = [None; N];
    for word in text.split(',') {
        let (name, number) = word.split_once('=').ok_or_else(String::new)?;
        let place = names.iter().position(|n| *n == name).ok_or_else(String::new)?;
        if numbers[place].replace(number.parse().map_err(|_| String::new())?).is_some() {
            return Err(format!("{name} is given twice; give it once"));
        }
    }
    Ok(numbers)
}

/// A packet's lot, the upper 14 bits of its random word: it says which of several links it takes, wherever it is.
#[inline(always)]
pub(super) fn lot(word: u64) -> u64 {
    word >> 50
}

/// Which of `links` links a packet takes at a place.
#[inline(always)]
pub(super) fn among(lot: u64, place: u32, links: u32) -> u32 {
    rng::below(rng::mix(lot << 32 | u64::from(place)), links.into()) as u32
}

/// A flit per cycle, in parts per million.
pub(crate) const FULL_RATE: u32 = 1_000_000;
/// Least rate of a link.
const RATE_MIN: u32 = 10_000;

/// A rate as people write it.
pub(super) fn rate(text: &str) -> Result<u32, String> {
    units::share(text)
        .filter(|ppm| *ppm >= RATE_MIN)
        .ok_or_else(|| format!("rate {text}: routers count in flits per cycle; give a share of one from 1% to 100%"))
}

/// Why a topology was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("topology `{text}`: {why}")]
pub struct TopologyError {
    /// The text as written.
    pub text: String,
    /// The mistake, or how to write it.
    pub why: String,
}

/// Most endpoints of a network, for 32-bit channel numbers.
pub const NODES_MAX: u64 = 1 << 24;

/// Refuses more endpoints than there may be.
pub(super) fn check_nodes(nodes: u64) -> Result<(), String> {
    if nodes <= NODES_MAX { Ok(()) } else { Err(format!("{nodes} nodes; at most {NODES_MAX} are supported")) }
}

/// Refuses a topology whose parts do not fit together: every link has two ends, every endpoint is where its
/// router says, in ascending order.
pub(super) fn check(t: &dyn Topology) -> Result<(), String> {
    let (routers, ports, endpoints) = (t.routers() as u64, t.ports(), t.endpoints() as u64);
    check_nodes(routers.max(endpoints))?;
    if ports > PORTS_MAX {
        return Err(format!("{ports} ports; a router has at most {PORTS_MAX}"));
    }
    if routers == 0 || endpoints == 0 {
        return Err(format!("{routers} routers and {endpoints} endpoints; give at least one of each"));
    }
    let places = (0..routers as u32).flat_map(|r| (0..ports as u8).map(move |p| (r, p)));
    for (r, p) in places {
        match t.output(r, p) {
            End::Router { router, port } => {
                if u64::from(router) >= routers || usize::from(port) >= ports {
                    return Err(format!(
                        "port {p} of router {r} leads to port {port} of router {router}, which is not there"
                    ));
                }
                let back = t.input(router, port);
                if back != (End::Router { router: r, port: p }) {
                    return Err(format!(
                        "port {p} of router {r} leads to port {port} of router {router}, which leads elsewhere"
                    ));
                }
                let delay = t.delay(r, p);
                if !(1..=DELAY_MAX).contains(&delay) {
                    return Err(format!(
                        "the link of port {p} of router {r} takes {delay} cycles; give 1 to {DELAY_MAX}"
                    ));
                }
            }
            End::Endpoint(e)
                if u64::from(e) >= endpoints || t.input(r, p) == t.output(r, p) && t.attach(e) != (r, p) =>
            {
                return Err(format!("port {p} of router {r} leads to endpoint {e}, which is elsewhere"));
            }
            End::Endpoint(_) | End::Open => {}
        }
    }
    let mut last = 0;
    for e in 0..endpoints as u32 {
        let (router, port) = t.attach(e);
        if u64::from(router) >= routers || usize::from(port) >= ports || t.input(router, port) != End::Endpoint(e) {
            return Err(format!("endpoint {e} is at port {port} of router {router}, which does not lead to it"));
        }
        if router < last {
            return Err(format!("endpoint {e} is at router {router}, the one before at {last}; number them by router"));
        }
        last = router;
    }
    if t.layout().endpoints() as u64 != endpoints {
        return Err(format!("its layout has {} endpoints, it has {endpoints}", t.layout().endpoints()));
    }
    Ok(())
}
