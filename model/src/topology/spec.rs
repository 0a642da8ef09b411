//! Topologies as written on a command line.

use super::cayley::{Cayley, Presentation};
use super::clos::Clos;
use super::contract::{DIMS_MAX, NODES_MAX, PORTS_MAX, Topology, TopologyError};
use super::fat_tree::FatTree;
use super::grid::Grid;
use std::fmt;
use std::str::FromStr;

/// A topology as written on a command line: `torus:8x8x8`, `mesh:4x4`, `fat-tree:8,3`, `clos:4,8,16`,
/// `cayley:13:1,5` (see [`Presentation`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopologySpec {
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
    /// Folded Clos of three stages.
    Clos {
        /// Switches that join all leaves.
        spines: u16,
        /// Endpoints of a leaf.
        endpoints: u16,
        /// Leaf switches.
        leaves: u16,
    },
    /// Cayley graph.
    Cayley(Presentation),
}

impl TopologySpec {
    /// Checks sizes and counts.
    pub fn validate(&self) -> Result<(), TopologyError> {
        let nodes = match self {
            TopologySpec::Grid { dims, .. } => {
                if dims.is_empty() || dims.len() > DIMS_MAX || dims.iter().any(|&d| d == 0 || d > 4096) {
                    return Err(TopologyError::Size(self.to_string()));
                }
                dims.iter().map(|&d| d as u64).product()
            }
            TopologySpec::FatTree { arity, levels } => {
                if !(2..=32).contains(arity) || !(1..=16).contains(levels) {
                    return Err(TopologyError::Tree(self.to_string()));
                }
                (*arity as u64).saturating_pow(*levels as u32)
            }
            TopologySpec::Clos { spines, endpoints, leaves } => {
                let counts = [spines, endpoints, leaves].map(|&n| n as u64);
                if counts.iter().any(|n| !(1..64).contains(n)) || counts[0] + counts[1] > PORTS_MAX as u64 {
                    return Err(TopologyError::Clos(self.to_string()));
                }
                counts[1] * counts[2]
            }
            TopologySpec::Cayley(p) => Cayley::new(p)?.endpoints() as u64,
        };
        if nodes > NODES_MAX { Err(TopologyError::Nodes(self.to_string(), nodes)) } else { Ok(()) }
    }
    /// The network of this shape, which must be valid.
    pub fn topology(&self) -> Box<dyn Topology> {
        match self {
            TopologySpec::Grid { dims, wrap } => Box::new(Grid::new(dims, *wrap)),
            TopologySpec::FatTree { arity, levels } => Box::new(FatTree::new(*arity, *levels)),
            TopologySpec::Clos { spines, endpoints, leaves } => Box::new(Clos::new(*spines, *endpoints, *leaves)),
            TopologySpec::Cayley(p) => Box::new(Cayley::new(p).expect("a valid shape")),
        }
    }
    /// Number of endpoints.
    pub fn endpoints(&self) -> usize {
        match self {
            TopologySpec::Grid { dims, .. } => dims.iter().map(|&d| d as usize).product(),
            TopologySpec::FatTree { arity, levels } => (*arity as usize).pow(*levels as u32),
            TopologySpec::Clos { endpoints, leaves, .. } => *endpoints as usize * *leaves as usize,
            TopologySpec::Cayley(p) => Cayley::new(p).map_or(0, |c| c.endpoints()),
        }
    }
}

impl fmt::Display for TopologySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopologySpec::Grid { dims, wrap } => {
                let sizes = dims.iter().map(u16::to_string).collect::<Vec<_>>().join("x");
                write!(f, "{}:{sizes}", if *wrap { "torus" } else { "mesh" })
            }
            TopologySpec::FatTree { arity, levels } => write!(f, "fat-tree:{arity},{levels}"),
            TopologySpec::Clos { spines, endpoints, leaves } => write!(f, "clos:{spines},{endpoints},{leaves}"),
            TopologySpec::Cayley(p) => write!(f, "cayley:{p}"),
        }
    }
}

impl FromStr for TopologySpec {
    type Err = TopologyError;
    fn from_str(s: &str) -> Result<TopologySpec, TopologyError> {
        let form = || TopologyError::Form(s.to_string());
        let shape = match s.split_once(':').ok_or_else(form)? {
            (kind @ ("torus" | "mesh"), sizes) => {
                let dims: Result<Vec<u16>, _> = sizes.split('x').map(str::parse).collect();
                TopologySpec::Grid { dims: dims.map_err(|_| form())?, wrap: kind == "torus" }
            }
            ("fat-tree", rest) => {
                let (a, l) = rest.split_once(',').ok_or_else(form)?;
                TopologySpec::FatTree { arity: a.parse().map_err(|_| form())?, levels: l.parse().map_err(|_| form())? }
            }
            ("clos", rest) => {
                let counts: Vec<u16> = rest.split(',').map_while(|c| c.parse().ok()).collect();
                match counts[..] {
                    [spines, endpoints, leaves] => TopologySpec::Clos { spines, endpoints, leaves },
                    _ => return Err(form()),
                }
            }
            ("cayley", rest) => {
                TopologySpec::Cayley(rest.parse().map_err(|why| TopologyError::Cayley(s.to_string(), why))?)
            }
            _ => return Err(form()),
        };
        shape.validate()?;
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract::End;
    use super::*;
    use angara_fabric::rng;

    /// With their diameters.
    const CAYLEY: [(&str, u32); 6] = [
        ("cayley:13:1,5", 2),                  // every element is a sum of at most two of ±1, ±5
        ("cayley:5x4:1.0,0.1", 4),             // a torus
        ("cayley:2x2x2:1.0.0,0.1.0,0.0.1", 3), // a hypercube
        ("cayley:s4:2134,3214,4231", 4),       // the star graph of 24 routers
        ("cayley:s4:2134,3214,4321", 4),       // the pancake graph
        ("cayley:s4:2314,2143", 3),            // the alternating group only
    ];

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
        for (m, n, r) in [(1, 1, 1), (3, 2, 5), (4, 4, 4)] {
            check(&Clos::new(m, n, r));
        }
        for (text, diameter) in CAYLEY {
            let Ok(TopologySpec::Cayley(p)) = text.parse() else { panic!("{text}") };
            let t = Cayley::new(&p).unwrap();
            check(&t);
            // From anywhere, the farthest router is as far as from the identity.
            let farthest = |s| (0..t.endpoints() as u32).map(|d| walk(&t, s, d, 5) as u32 - 1).max().unwrap();
            assert_eq!((farthest(0), farthest(1), t.classes()), (diameter, diameter, diameter), "{text}");
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
        let cayley = CAYLEY.iter().map(|c| c.0);
        for s in
            ["torus:8x8x8", "mesh:4x4", "fat-tree:8,3", "torus:2x2x2x2x2x2", "clos:4,8,16"].into_iter().chain(cayley)
        {
            assert_eq!(s.parse::<TopologySpec>().unwrap().to_string(), s);
        }
        for s in
            ["8x8", "torus:0x3", "torus:2x2x2x2x2x2x2", "fat-tree:8", "fat-tree:1,3", "mesh:9999", "torus:4096x4096x2"]
        {
            assert!(s.parse::<TopologySpec>().is_err(), "{s}");
        }
        for (s, why) in [
            ("clos:4,8", "SPINES"),
            ("clos:40,30,2", "endpoints + spines"),
            ("cayley:13", "group and generators"),
            ("cayley:8x8:1", "2 numbers"),
            ("cayley:8x8:2.0,0.1", "32 of 64"),
            ("cayley:6:0", "identity"),
            ("cayley:s4:2135", "once"),
            ("cayley:s10:21", "2 to 9"),
        ] {
            let error = s.parse::<TopologySpec>().unwrap_err().to_string();
            assert!(error.contains(why), "{s}: {error}");
        }
    }
}
