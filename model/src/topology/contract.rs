//! What routers ask of a topology.

use angara_fabric::rng;

/// Most ports of one router.
pub const PORTS_MAX: usize = 64;
/// Most dimensions of a torus or mesh.
pub const DIMS_MAX: usize = 6;

/// What a packet remembers of its way; its meaning belongs to the topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouteState {
    pub(crate) lo: u64,
    pub(crate) hi: u64,
}

impl RouteState {
    /// The next random word of a route that keeps its last one in `hi`.
    #[inline(always)]
    pub(super) fn advance(&mut self) -> u64 {
        self.hi = rng::mix(self.hi.wrapping_add(0x9e37_79b9_7f4a_7c15));
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
    /// Values of [`Class::index`]: there are at most 8 virtual channels, so as many steps.
    pub(crate) const COUNT: usize = 11;

    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        match self {
            Class::Lower => 0,
            Class::Upper => 1,
            Class::Any => 2,
            Class::Step(k) => 3 + k as usize,
        }
    }
    /// The channels of every class, as masks, if there are `vcs` of them and `classes` classes.
    pub(crate) fn channels(vcs: u32, classes: u32) -> [u32; Class::COUNT] {
        let all = (1 << vcs) - 1;
        let lower = (1 << (vcs / 2)) - 1;
        let mut masks = [0; Class::COUNT];
        masks[Class::Lower.index()] = lower;
        masks[Class::Upper.index()] = all & !lower;
        masks[Class::Any.index()] = all;
        for v in 0..vcs {
            masks[Class::Step((v * classes / vcs) as u8).index() % Class::COUNT] |= 1 << v;
        }
        masks
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

/// What is wired to a port.
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

/// A network's shape and deterministic routing.
pub trait Topology: Send + Sync {
    /// Sources and sinks of packets.
    fn endpoints(&self) -> usize;
    /// Routers.
    fn routers(&self) -> usize;
    /// Ports of the largest router, those to endpoints included.
    fn ports(&self) -> usize;
    /// What output `port` of `router` leads to; for a link, the input port it arrives at.
    fn output(&self, router: u32, port: u8) -> End;
    /// The router and port (input and output alike) of an endpoint.
    fn attach(&self, endpoint: u32) -> (u32, u8);
    /// What a packet from `src` to `dst` remembers; `random` decides free choices.
    fn start(&self, src: u32, dst: u32, random: u64) -> RouteState;
    /// The output the packet wants at `router`, updating what it remembers for the next one.
    fn next(&self, router: u32, route: &mut RouteState) -> Hop;
    /// Classes of virtual channels that keep the generic profile from deadlock: 1 if any channel will do, 2
    /// with [`Class::Lower`] and [`Class::Upper`], else as many as there are values of [`Class::Step`].
    fn classes(&self) -> u32 {
        1
    }
}

/// Why a shape was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TopologyError {
    /// Not a known form.
    #[error(
        "topology `{0}`: write torus:8x8x8, mesh:4x4, fat-tree:ARITY,LEVELS, clos:SPINES,ENDPOINTS,LEAVES or cayley:GROUP:GENERATORS"
    )]
    Form(String),
    /// Bad sizes.
    #[error("topology `{0}`: give 1 to 6 sizes, each from 1 to 4096")]
    Size(String),
    /// Bad tree.
    #[error("topology `{0}`: a fat tree needs 2 to 32 down-links per router and 1 to 16 levels")]
    Tree(String),
    /// Bad Clos network.
    #[error(
        "topology `{0}`: give 1 to 63 spines, endpoints per leaf and leaves, of a leaf endpoints + spines at most {max}",
        max = PORTS_MAX
    )]
    Clos(String),
    /// Bad group or generators.
    #[error("topology `{0}`: {1}")]
    Cayley(String, String),
    /// Too large for 32-bit channel numbers.
    #[error("topology `{0}` has {1} nodes; at most {max} are supported", max = NODES_MAX)]
    Nodes(String, u64),
}

/// Most endpoints or routers of a network.
pub const NODES_MAX: u64 = 1 << 24;
