//! Shapes of networks: which port of which router is wired to what, and the way a packet takes.
//!
//! A topology answers three questions: what hangs on an output port, what a packet must remember
//! when it sets out ([`Topology::start`]), and which output it wants at the router it has reached
//! ([`Topology::next`]). Everything a packet remembers is one small [`Route`]; routers hold no tables.

use super::rng;
use std::fmt;
use std::str::FromStr;

/// Most ports of one router.
pub const PORTS_MAX: usize = 64;
/// Most dimensions of a torus or mesh.
pub const DIMS_MAX: usize = 6;

/// What a packet remembers of its way; its meaning belongs to the topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Route {
    pub(crate) lo: u64,
    pub(crate) hi: u64,
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
    fn start(&self, src: u32, dst: u32, random: u64) -> Route;
    /// The output the packet wants at `router`, updating what it remembers for the next one.
    fn next(&self, router: u32, route: &mut Route) -> Hop;
    /// Rings of channels exist, so the generic profile needs two classes of virtual channels.
    fn needs_dateline(&self) -> bool;
}

/// A topology as written on a command line: `torus:8x8x8`, `mesh:4x4`, `fat-tree:8,3`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Torus or mesh of 1 to 6 dimensions.
    Grid {
        /// Sizes, X first.
        dims: Vec<u16>,
        /// Links wrap around (torus).
        wrap: bool,
    },
    /// k-ary n-tree: `arity`^`levels` endpoints, `levels` ranks of `arity`^(`levels`-1) routers.
    FatTree {
        /// Down-links (and up-links) of a router.
        arity: u16,
        /// Ranks of routers.
        levels: u8,
    },
}

/// Why a shape was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShapeError {
    /// Not a known form.
    #[error("topology `{0}`: write torus:8x8x8, mesh:4x4 or fat-tree:ARITY,LEVELS")]
    Form(String),
    /// Bad sizes.
    #[error("topology `{0}`: give 1 to 6 sizes, each from 1 to 4096")]
    Size(String),
    /// Bad tree.
    #[error("topology `{0}`: a fat tree needs 2 to 32 down-links per router and 1 to 16 levels")]
    Tree(String),
    /// Too large for 32-bit channel numbers.
    #[error("topology `{0}` has {1} nodes; at most {max} are supported", max = NODES_MAX)]
    Nodes(String, u64),
}

/// Most endpoints or routers of a network.
pub const NODES_MAX: u64 = 1 << 24;

impl Shape {
    /// Checks sizes and counts.
    pub fn validate(&self) -> Result<(), ShapeError> {
        let nodes = match self {
            Shape::Grid { dims, .. } => {
                if dims.is_empty() || dims.len() > DIMS_MAX || dims.iter().any(|&d| d == 0 || d > 4096) {
                    return Err(ShapeError::Size(self.to_string()));
                }
                dims.iter().map(|&d| d as u64).product()
            }
            Shape::FatTree { arity, levels } => {
                if !(2..=32).contains(arity) || !(1..=16).contains(levels) {
                    return Err(ShapeError::Tree(self.to_string()));
                }
                (*arity as u64).saturating_pow(*levels as u32)
            }
        };
        if nodes > NODES_MAX { Err(ShapeError::Nodes(self.to_string(), nodes)) } else { Ok(()) }
    }
    /// The network of this shape, which must be valid.
    pub fn topology(&self) -> Box<dyn Topology> {
        match self {
            Shape::Grid { dims, wrap } => Box::new(Grid::new(dims, *wrap)),
            Shape::FatTree { arity, levels } => Box::new(FatTree::new(*arity, *levels)),
        }
    }
    /// Number of endpoints.
    pub fn endpoints(&self) -> usize {
        match self {
            Shape::Grid { dims, .. } => dims.iter().map(|&d| d as usize).product(),
            Shape::FatTree { arity, levels } => (*arity as usize).pow(*levels as u32),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Grid { dims, wrap } => {
                let sizes = dims.iter().map(u16::to_string).collect::<Vec<_>>().join("x");
                write!(f, "{}:{sizes}", if *wrap { "torus" } else { "mesh" })
            }
            Shape::FatTree { arity, levels } => write!(f, "fat-tree:{arity},{levels}"),
        }
    }
}

impl FromStr for Shape {
    type Err = ShapeError;
    fn from_str(s: &str) -> Result<Shape, ShapeError> {
        let form = || ShapeError::Form(s.to_string());
        let shape = match s.split_once(':').ok_or_else(form)? {
            (kind @ ("torus" | "mesh"), sizes) => {
                let dims: Result<Vec<u16>, _> = sizes.split('x').map(str::parse).collect();
                Shape::Grid { dims: dims.map_err(|_| form())?, wrap: kind == "torus" }
            }
            ("fat-tree", rest) => {
                let (a, l) = rest.split_once(',').ok_or_else(form)?;
                Shape::FatTree { arity: a.parse().map_err(|_| form())?, levels: l.parse().map_err(|_| form())? }
            }
            _ => return Err(form()),
        };
        shape.validate()?;
        Ok(shape)
    }
}

/// Torus or mesh. Node ids count with X fastest. Port 2d leads towards larger coordinates of
/// dimension d, port 2d+1 towards smaller ones, the last port to the node's endpoint.
#[derive(Clone, Debug)]
pub struct Grid {
    dims: Vec<u16>,
    strides: Vec<u32>,
    wrap: bool,
}

/// Bits of `Route::hi` from here on: dimension d travels in the upper class.
const UPPER_SHIFT: u32 = 32;
/// Bits of `Route::hi` from here on: dimension d travels towards minus.
const MINUS_SHIFT: u32 = 40;

impl Grid {
    /// A grid of validated sizes.
    pub fn new(dims: &[u16], wrap: bool) -> Grid {
        let mut strides = Vec::with_capacity(dims.len());
        let mut stride = 1u32;
        for &d in dims {
            strides.push(stride);
            stride *= d as u32;
        }
        Grid { dims: dims.to_vec(), strides, wrap }
    }
    /// Number of dimensions.
    pub fn ndims(&self) -> usize {
        self.dims.len()
    }
    /// Size of dimension `d`.
    pub fn size(&self, d: usize) -> u32 {
        self.dims[d] as u32
    }
    /// Links of dimension `d` close to a ring.
    pub fn is_ring(&self, d: usize) -> bool {
        self.wrap && self.dims[d] > 1
    }
    /// Coordinate of `node` in dimension `d`.
    pub fn coordinate(&self, node: u32, d: usize) -> u32 {
        node / self.strides[d] % self.dims[d] as u32
    }
    /// The node reached from `node` through link port `port`, if any.
    pub fn neighbour(&self, node: u32, port: u8) -> Option<u32> {
        let d = port as usize / 2;
        let size = *self.dims.get(d)? as u32;
        if size < 2 {
            return None;
        }
        let c = self.coordinate(node, d);
        let to = match port & 1 {
            0 if c + 1 < size => c + 1,
            0 if self.wrap => 0,
            1 if c > 0 => c - 1,
            1 if self.wrap => size - 1,
            _ => return None,
        };
        Some(node + to * self.strides[d] - c * self.strides[d])
    }
    /// Signed hops from `from` to `to` in dimension `d`; `tie` decides between two halves of a ring.
    pub fn offset(&self, from: u32, to: u32, d: usize, tie: bool) -> i16 {
        self.signed(self.coordinate(from, d), self.coordinate(to, d), self.size(d), tie)
    }
    /// Signed hops between two coordinates.
    fn signed(&self, from: u32, to: u32, size: u32, tie: bool) -> i16 {
        if !self.wrap {
            return (to as i32 - from as i32) as i16;
        }
        let plus = if to >= from { to - from } else { to + size - from };
        let minus = size - plus;
        if plus < minus || (plus == minus && (tie || size == 2)) { plus as i16 } else { -(minus as i16) }
    }
}

impl Topology for Grid {
    fn endpoints(&self) -> usize {
        self.dims.iter().map(|&d| d as usize).product()
    }
    fn routers(&self) -> usize {
        self.endpoints()
    }
    fn ports(&self) -> usize {
        2 * self.dims.len() + 1
    }
    fn output(&self, router: u32, port: u8) -> End {
        if port as usize == 2 * self.dims.len() {
            return End::Endpoint(router);
        }
        // A packet sent through port 2d arrives at port 2d+1, where the way back begins.
        self.neighbour(router, port).map_or(End::Open, |to| End::Router { router: to, port: port ^ 1 })
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        (endpoint, 2 * self.dims.len() as u8)
    }
    fn start(&self, src: u32, dst: u32, random: u64) -> Route {
        let mut route = Route::default();
        let (mut from_left, mut to_left) = (src, dst);
        for (d, &size) in self.dims.iter().enumerate() {
            let size = size as u32;
            let (from, to) = (from_left % size, to_left % size);
            (from_left, to_left) = (from_left / size, to_left / size);
            let o = self.signed(from, to, size, random >> d & 1 != 0);
            let lane = (o.unsigned_abs() as u64) << (16 * (d & 3));
            if d < 4 {
                route.lo |= lane
            } else {
                route.hi |= lane
            }
            // The whole leg in a dimension stays in one class: towards plus the legs that cross
            // the dateline (between size-1 and 0) are the upper ones, towards minus those that do not,
            // which loads both classes alike. No chain of either class closes around the ring.
            let upper = self.wrap && o != 0 && from > to;
            route.hi |= (upper as u64) << (UPPER_SHIFT as usize + d) | ((o < 0) as u64) << (MINUS_SHIFT as usize + d);
        }
        route
    }
    #[inline(always)]
    fn next(&self, _router: u32, route: &mut Route) -> Hop {
        let d = if route.lo != 0 {
            let d = route.lo.trailing_zeros() / 16;
            route.lo -= 1 << (16 * d);
            d
        } else if route.hi as u32 != 0 {
            let d = route.hi.trailing_zeros() / 16;
            route.hi -= 1 << (16 * d);
            4 + d
        } else {
            return Hop { port: 2 * self.dims.len() as u8, class: Class::Any };
        };
        let bits = route.hi >> d;
        let class = match (self.wrap, bits >> UPPER_SHIFT & 1) {
            (false, _) => Class::Any,
            (true, 0) => Class::Lower,
            (true, _) => Class::Upper,
        };
        Hop { port: (2 * d) as u8 | (bits >> MINUS_SHIFT & 1) as u8, class }
    }
    fn needs_dateline(&self) -> bool {
        self.wrap && self.dims.iter().any(|&d| d > 1)
    }
}

/// k-ary n-tree. Rank 0 is the top; router r of rank l has id l·k^(n-1)+r. Ports 0..k lead down,
/// k..2k up; endpoints hang on the lowest rank. A packet climbs by random up-ports to the nearest
/// common ancestor of source and destination and then has one way down.
#[derive(Clone, Debug)]
pub struct FatTree {
    arity: u32,
    levels: u32,
    per_rank: u32,
}

impl FatTree {
    /// A tree of validated sizes.
    pub fn new(arity: u16, levels: u8) -> FatTree {
        FatTree { arity: arity as u32, levels: levels as u32, per_rank: (arity as u32).pow(levels as u32 - 1) }
    }
}

impl Topology for FatTree {
    fn endpoints(&self) -> usize {
        (self.per_rank * self.arity) as usize
    }
    fn routers(&self) -> usize {
        (self.per_rank * self.levels) as usize
    }
    fn ports(&self) -> usize {
        if self.levels == 1 { self.arity as usize } else { 2 * self.arity as usize }
    }
    fn output(&self, router: u32, port: u8) -> End {
        let (k, port) = (self.arity, port as u32);
        let (level, pos) = (router / self.per_rank, router % self.per_rank);
        // Routers of rank l form groups of k^(n-1-l) that serve the same k^(n-l) endpoints. A link
        // joins member (b, m) of branch b in the lower rank with member (m, b) above: `child` is
        // its place among the branches, `index` the up-port.
        if port < k {
            if level == self.levels - 1 {
                return End::Endpoint(pos * k + port);
            }
            let group = k.pow(self.levels - 1 - level);
            let branch = group / k;
            let (base, within) = (pos / group * group, pos % group);
            let lower = base + port * branch + within % branch;
            return End::Router { router: (level + 1) * self.per_rank + lower, port: (k + within / branch) as u8 };
        }
        if level == 0 || port >= 2 * k {
            return End::Open;
        }
        let group = k.pow(self.levels - level);
        let branch = group / k;
        let (base, within) = (pos / group * group, pos % group);
        let upper = base + (port - k) * branch + within % branch;
        End::Router { router: (level - 1) * self.per_rank + upper, port: (within / branch) as u8 }
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        ((self.levels - 1) * self.per_rank + endpoint / self.arity, (endpoint % self.arity) as u8)
    }
    fn start(&self, _src: u32, dst: u32, random: u64) -> Route {
        Route { lo: dst as u64, hi: random }
    }
    #[inline(always)]
    fn next(&self, router: u32, route: &mut Route) -> Hop {
        let (level, pos) = (router / self.per_rank, router % self.per_rank);
        let group = self.arity.pow(self.levels - 1 - level);
        let span = group * self.arity;
        let first = pos / group * span;
        let dst = route.lo as u32;
        let port = if (first..first + span).contains(&dst) {
            (dst - first) / group
        } else {
            route.hi = rng::mix(route.hi.wrapping_add(0x9e37_79b9_7f4a_7c15));
            self.arity + rng::below(route.hi, self.arity as u64) as u32
        };
        Hop { port: port as u8, class: Class::Any }
    }
    fn needs_dateline(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(t: &dyn Topology, src: u32, dst: u32, random: u64) -> usize {
        let mut route = t.start(src, dst, random);
        let (mut at, _) = t.attach(src);
        for routers in 1..1000 {
            let hop = t.next(at, &mut route);
            match t.output(at, hop.port) {
                End::Router { router, .. } => at = router,
                End::Endpoint(e) => {
                    assert_eq!(e, dst);
                    return routers;
                }
                End::Open => panic!("{src}→{dst} leaves the network at router {at} port {}", hop.port),
            }
        }
        panic!("{src}→{dst} does not arrive")
    }

    fn check(t: &dyn Topology) {
        for r in 0..t.routers() as u32 {
            for p in 0..t.ports() as u8 {
                match t.output(r, p) {
                    End::Router { router, port } => {
                        assert_eq!(t.output(router, port), End::Router { router: r, port: p }, "link of {r}.{p}");
                    }
                    End::Endpoint(e) => assert_eq!(t.attach(e), (r, p)),
                    End::Open => {}
                }
            }
        }
        for s in 0..t.endpoints() as u32 {
            for d in 0..t.endpoints() as u32 {
                walk(t, s, d, rng::mix((s * 977 + d) as u64));
            }
        }
    }

    #[test]
    fn every_link_has_two_ends_and_every_packet_arrives() {
        for (dims, wrap) in
            [(&[5u16][..], true), (&[4, 3, 2], true), (&[3, 4], false), (&[2, 2, 2, 2, 3, 2], true), (&[1, 6], true)]
        {
            check(&Grid::new(dims, wrap));
        }
        for (k, n) in [(2, 1), (2, 4), (3, 3), (4, 2)] {
            check(&FatTree::new(k, n));
        }
    }

    #[test]
    fn torus_routes_are_minimal() {
        let t = Grid::new(&[5, 4, 2], true);
        for s in 0..40 {
            for d in 0..40 {
                let far: u32 = (0..3)
                    .map(|i| {
                        let (a, b, n) = (t.coordinate(s, i), t.coordinate(d, i), t.size(i));
                        a.abs_diff(b).min(n - a.abs_diff(b))
                    })
                    .sum();
                assert_eq!(walk(&t, s, d, 3), far as usize + 1);
            }
        }
    }

    #[test]
    fn shapes_are_read_and_refused() {
        for s in ["torus:8x8x8", "mesh:4x4", "fat-tree:8,3", "torus:2x2x2x2x2x2"] {
            assert_eq!(s.parse::<Shape>().unwrap().to_string(), s);
        }
        for s in
            ["8x8", "torus:0x3", "torus:2x2x2x2x2x2x2", "fat-tree:8", "fat-tree:1,3", "mesh:9999", "torus:4096x4096x2"]
        {
            assert!(s.parse::<Shape>().is_err(), "{s}");
        }
    }
}
