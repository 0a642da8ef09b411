//! All topologies as one type.

use super::contract::{Route, Topology, TopologyError, check};
use super::dependencies::Ways;
use crate::engine::Engine;
use crate::member::Crew;
use crate::parallel::PartsError;
use crate::profile::Plan;
use std::fmt;
use std::sync::Arc;

/// A topology that this crate does not know. [`AnyTopology::outside`](super::AnyTopology::outside) makes one.
#[derive(Clone)]
pub struct Outside(Arc<dyn Foreign>);

/// [`Route`] without its type, so that the engine is still compiled for it.
trait Foreign: Ways + fmt::Display {
    fn generic(&self, plan: &Plan, crew: &Crew) -> Result<Box<dyn Engine>, PartsError>;
    fn ways(&self) -> &(dyn Ways + 'static);
}

impl<T: Route + fmt::Display> Foreign for T {
    fn generic(&self, plan: &Plan, crew: &Crew) -> Result<Box<dyn Engine>, PartsError> {
        crate::generic::engine(self.clone(), plan, crew)
    }
    fn ways(&self) -> &(dyn Ways + 'static) {
        self
    }
}

impl Outside {
    /// `topology`, if its parts fit together.
    pub(super) fn new(topology: impl Route + fmt::Display) -> Result<Outside, TopologyError> {
        match check(&topology) {
            Ok(()) => Ok(Outside(Arc::new(topology))),
            Err(why) => Err(TopologyError { text: topology.to_string(), why }),
        }
    }
    pub(super) fn shared(&self) -> Arc<dyn Topology> {
        self.0.clone()
    }
    pub(super) fn generic(&self, plan: &Plan, crew: &Crew) -> Result<Box<dyn Engine>, PartsError> {
        self.0.generic(plan, crew)
    }
    pub(super) fn ways(&self) -> &(dyn Ways + 'static) {
        self.0.ways()
    }
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outside({self})")
    }
}

/// Two are the same if they are written the same way.
impl PartialEq for Outside {
    fn eq(&self, other: &Outside) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Outside {}

/// Declares [`AnyTopology`](super::AnyTopology), one variant for each topology there is.
macro_rules! topologies {
    ($($name:ident),*) => {
        /// Any topology, as written on a command line: `torus:8x8x8`, `clos:4,8,16`.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[allow(missing_docs)] // the types say it
        pub enum AnyTopology {
            $($name($name),)*
            /// One of another crate.
            Outside(Outside),
        }

        impl AnyTopology {
            /// A topology of another crate; how it is written must tell it from others.
            ///
            /// # Errors
            /// Returns which of its parts do not fit together.
            pub fn outside(topology: impl Route + std::fmt::Display) -> Result<AnyTopology, TopologyError> {
                Outside::new(topology).map(AnyTopology::Outside)
            }
            /// Every form that can be written.
            pub fn forms() -> String {
                let kinds = [$($name::FORMS),*];
                let forms: Vec<String> = kinds.concat().iter().map(|(kind, rest)| format!("{kind}:{rest}")).collect();
                forms.join(", ")
            }
            /// What is left of it when these links and routers are down: `link 0,0 0,1 down`, `link 0,0 +X down`,
            /// `node 1,0 down`, `2% links down`, of which `seed` draws the links. Its packets go up, then down, or take
            /// another way of graphs.
            ///
            /// # Errors
            /// A fault that cannot be, too large a network, or endpoints that cannot reach each other.
            pub fn with_faults(&self, faults: &[String], seed: u64) -> Result<AnyTopology, TopologyError> {
                let shared: std::sync::Arc<dyn $crate::topology::Topology> = match self {
                    $(AnyTopology::$name(t) => std::sync::Arc::new(t.clone()),)*
                    AnyTopology::Outside(t) => t.shared(),
                };
                Graph::left(shared, &self.to_string(), faults, seed).map(AnyTopology::Graph)
            }
            /// Rates of links that are slower than others: `link 0,0 0,1 rate=25%`, `node 0,0 rate=50%`, `rate=10% @2us`.
            /// The last word on a link counts. What goes down under way is passed over.
            ///
            /// # Errors
            /// A text that is no such rate, or a link that is not there.
            pub fn rates(&self, texts: &[String]) -> Result<Vec<LinkRate>, TopologyError> {
                $crate::topology::graph::rates(&**self, texts)
            }
            /// Tells whether a fault is the rate of a link.
            pub fn is_rate(fault: &str) -> bool {
                $crate::topology::graph::is_rate(fault)
            }
            /// Tells whether a fault takes something down under way: `link 0,0 0,1 down @2us`.
            pub fn is_later(fault: &str) -> bool {
                $crate::topology::graph::later(fault).is_some()
            }
            /// What is left of it under way, each time something more goes down, with the same routing, and when in
            /// picoseconds. Only what [`AnyTopology::with_faults`] returned can change.
            ///
            /// # Errors
            /// As [`AnyTopology::with_faults`], or a routing that does not find ways anew.
            pub fn left_later(&self, faults: &[String], seed: u64) -> Result<Vec<(u64, AnyTopology)>, TopologyError> {
                let mut by_time = std::collections::BTreeMap::<u64, Vec<String>>::new();
                for fault in faults {
                    if let Some(later) = $crate::topology::graph::later(fault) {
                        let (what, at) = later?;
                        by_time.entry(at).or_default().push(what.into());
                    }
                }
                let (mut left, mut all) = (self.clone(), Vec::new());
                for (at, faults) in by_time {
                    let refuse = |why: String| TopologyError { text: faults.join("; "), why };
                    if !matches!(left, AnyTopology::Graph(_)) {
                        return Err(refuse("only what with_faults returned changes under way".into()));
                    }
                    left = left.with_faults(&faults, seed)?.with_routing(self.routing()).map_err(|_| {
                        refuse("a table has no other ways; use updown, minimal or valiant".into())
                    })?;
                    all.push((at, left.clone()));
                }
                Ok(all)
            }
            /// The same network with ways from the file at `path`, as [`Graph::with_table`] reads it.
            ///
            /// # Errors
            /// Too large a network, or what is wrong with the file.
            pub fn with_table(&self, path: &str) -> Result<AnyTopology, String> {
                match self {
                    AnyTopology::Graph(t) => t.with_table(path).map(AnyTopology::Graph),
                    _ => self.with_faults(&[], 0).map_err(|e| e.why)?.with_table(path),
                }
            }
            /// The same network with packets that find their way like this: one of its own ways, or else one of those
            /// that every graph has.
            ///
            /// # Errors
            /// Its own ways, or an empty text if there is one only.
            pub fn with_routing(&self, routing: $crate::topology::Routing) -> Result<AnyTopology, String> {
                use $crate::topology::Routing::{Minimal, UpDown, Valiant};
                self.with_own_routing(routing).or_else(|several| match (self, routing) {
                    (AnyTopology::Graph(_), _) => Err(several),
                    (_, Minimal | Valiant | UpDown) => {
                        self.with_faults(&[], 0).map_err(|_| several)?.with_own_routing(routing)
                    }
                    _ => Err(several),
                })
            }
            fn with_own_routing(&self, routing: $crate::topology::Routing) -> Result<AnyTopology, String> {
                match self {
                    $(AnyTopology::$name(t) => t.with_routing(routing).map(AnyTopology::$name),)*
                    AnyTopology::Outside(t) if t.ways().routing() == routing => Ok(self.clone()),
                    AnyTopology::Outside(_) => Err(String::new()),
                }
            }
            /// The same network with this threshold of [`Comparison`](super::Comparison); None if its routing has none.
            pub fn with_threshold(&self, flits: u16) -> Option<AnyTopology> {
                match self {
                    $(AnyTopology::$name(t) => t.with_threshold(flits).map(AnyTopology::$name),)*
                    AnyTopology::Outside(_) => None,
                }
            }
            /// The topology itself.
            pub(crate) fn as_any(&self) -> &dyn std::any::Any {
                match self {
                    $(AnyTopology::$name(t) => t,)*
                    AnyTopology::Outside(t) => t,
                }
            }
            /// The ways its packets take.
            pub fn ways(&self) -> &(dyn $crate::topology::dependencies::Ways + 'static) {
                match self {
                    $(AnyTopology::$name(t) => t,)*
                    AnyTopology::Outside(t) => t.ways(),
                }
            }
            /// A network of generic routers wired like this.
            pub(crate) fn generic(
                &self,
                plan: &crate::profile::Plan,
                crew: &crate::member::Crew,
            ) -> Result<Box<dyn crate::engine::Engine>, crate::PartsError> {
                match self {
                    $(AnyTopology::$name(t) => crate::generic::engine(t.clone(), plan, crew),)*
                    AnyTopology::Outside(t) => t.generic(plan, crew),
                }
            }
        }

        impl std::ops::Deref for AnyTopology {
            type Target = dyn $crate::topology::Topology;
            fn deref(&self) -> &(dyn $crate::topology::Topology + 'static) {
                self.ways()
            }
        }

        impl std::fmt::Display for AnyTopology {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(AnyTopology::$name(t) => t.fmt(f),)*
                    AnyTopology::Outside(t) => t.fmt(f),
                }
            }
        }

        impl std::str::FromStr for AnyTopology {
            type Err = TopologyError;
            fn from_str(text: &str) -> Result<AnyTopology, TopologyError> {
                let refuse = |why: String| TopologyError { text: text.into(), why };
                let Some((kind, rest)) = text.split_once(':') else {
                    return Err(refuse(format!("write {}", AnyTopology::forms())));
                };
                $(if let Some((_, form)) = $name::FORMS.iter().find(|f| f.0 == kind) {
                    return $name::read(kind, rest).map(AnyTopology::$name).map_err(|why| {
                        refuse(if why.is_empty() { format!("write {kind}:{form}") } else { why })
                    });
                })*
                Err(refuse(format!("there is no `{kind}`; write {}", AnyTopology::forms())))
            }
        }

        $(impl From<$name> for AnyTopology {
            fn from(t: $name) -> AnyTopology {
                AnyTopology::$name(t)
            }
        })*
    };
}
pub(super) use topologies;

#[cfg(test)]
mod tests {
    use crate::topology::{AnyTopology, Clos, End, FatTree, Grid, Routing, Topology};
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
                        assert_eq!(t.input(router, port), End::Router { router: r, port: p }, "link of {r}.{p}");
                    }
                    End::Endpoint(e) => assert!(t.attach(e) == (r, p) || t.input(r, p) == End::Open),
                    End::Open => {}
                }
            }
        }
        let mut cells = std::collections::HashSet::new();
        for (r, p) in (0..t.routers() as u32).flat_map(|r| (0..t.ports() as u8).map(move |p| (r, p))) {
            if t.output(r, p) != End::Open {
                let c = t.cell(r, p);
                assert!(c.column < c.columns && c.row < c.rows, "{r}.{p}: {c:?}");
                assert!(cells.insert((c.panel, c.column, c.row)), "{r}.{p} is drawn over another: {c:?}");
            }
        }
        assert_eq!(t.layout().endpoints() as usize, t.endpoints());
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
            check(&Grid::new(dims, wrap).unwrap());
        }
        for text in ["torus:3x2,c=2", "mesh:3x4,c=3,x=2", "torus:1x4,x=3"] {
            check(&*text.parse::<AnyTopology>().unwrap());
        }
        for (k, n) in [(2, 1), (2, 4), (3, 3), (4, 2)] {
            check(&FatTree::new(k, n).unwrap());
        }
        for text in ["fly:2,1", "fly:2,4", "fly:3,3", "fly:4,2"] {
            check(&*text.parse::<AnyTopology>().unwrap());
        }
        for (m, n, r) in [(1, 1, 1), (3, 2, 5), (4, 4, 4)] {
            check(&Clos::new(m, n, r).unwrap());
        }
        for text in [
            "dragonfly:1",
            "dragonfly:2,1,5",
            "dragonfly:p=1,a=2,h=3,g=4",
            "dragonfly:p=1,a=3,h=1,g=3",
            "dragonfly:p=2,a=2,h=5,g=8",
            "dragonfly:p=1,a=2,h=2,g=2",
            "dragonfly:p=1,a=5,h=1,g=5",
            "dragonfly:p=1,a=1,h=4",
            "hyperx:4x4,2",
            "hyperx:3x2x4,1",
            "hyperx:5,3",
        ] {
            let t: AnyTopology = text.parse().unwrap();
            for routing in [Routing::Minimal, Routing::Valiant, Routing::Ugal] {
                check(&*t.clone().with_routing(routing).unwrap());
            }
            assert!(t.with_routing(Routing::Dor).is_err());
        }
        for text in ["express:9x4,4", "express:5,2", "express:3x2x7,3", "express:4x4,200"] {
            check(&*text.parse::<AnyTopology>().unwrap());
        }
        for (text, diameter) in CAYLEY {
            let t: AnyTopology = text.parse().unwrap();
            check(&*t);
            // From anywhere, the farthest router is as far as from the identity.
            let farthest = |s| (0..t.endpoints() as u32).map(|d| walk(&*t, s, d, 5) as u32 - 1).max().unwrap();
            assert_eq!((farthest(0), farthest(1), t.classes().count()), (diameter, diameter, diameter), "{text}");
        }
    }

    #[test]
    fn torus_routes_are_minimal() {
        let t = Grid::new(&[5, 4, 2], true).unwrap();
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
        for s in [
            "torus:8x8x8",
            "mesh:4x4",
            "fat-tree:8,3",
            "torus:2x2x2x2x2x2",
            "fly:4,3",
            "clos:4,8,16",
            "dragonfly:2",
            "dragonfly:2,1,1",
            "dragonfly:p=4,a=8,h=4,g=9",
            "dragonfly:p=1,a=3,h=2,g=7,local=1,global=2",
            "torus:8x8,c=4",
            "mesh:8x8,c=2,x=3",
            "torus:8,x=2",
            "hyperx:4x4,4",
            "express:8x8,4",
        ]
        .into_iter()
        .chain(cayley)
        {
            assert_eq!(s.parse::<AnyTopology>().unwrap().to_string(), s);
        }
        for (s, shown) in [
            ("torus:4x4,x=1,c=1", "torus:4x4"),
            ("mesh:4,x=2,c=3", "mesh:4,c=3,x=2"),
            ("dragonfly:p=2,a=4,h=2,global=100", "dragonfly:2"),
            ("dragonfly:h=2,a=4,p=2,g=9,local=3", "dragonfly:2,3,100"),
            ("dragonfly:p=1,a=3,h=1", "dragonfly:p=1,a=3,h=1,g=4"),
        ] {
            assert_eq!(s.parse::<AnyTopology>().unwrap().to_string(), shown);
        }
        for s in
            ["8x8", "torus:0x3", "torus:2x2x2x2x2x2x2", "fat-tree:8", "fat-tree:1,3", "mesh:9999", "torus:4096x4096x2"]
        {
            assert!(s.parse::<AnyTopology>().is_err(), "{s}");
        }
        for (s, why) in [
            ("clos:4,8", "SPINES"),
            ("clos:40,30,2", "endpoints + spines"),
            ("ring:8", "there is no `ring`; write torus:"),
            ("fat-tree:2", "write fat-tree:ARITY,LEVELS"),
            ("fly:2", "write fly:ARITY,RANKS"),
            ("fly:33,2", "2 to 32 inputs"),
            ("fly:2,0", "1 to 16 ranks"),
            ("torus:4096x4096x2", "33554432 nodes"),
            ("dragonfly:17", "1 to 16"),
            ("torus:4x4,c=0", "give c = 1 to 60"),
            ("torus:4x4,c=4,x=16", "give x = 1 to 15"),
            ("mesh:4x4,c=2,c=2", "c is given twice"),
            ("mesh:4x4,k=2", "write mesh:4x4[,c=ENDPOINTS][,x=LINKS]"),
            ("dragonfly:p=4,a=8,h=4,g=34", "give 2 to 33"),
            ("dragonfly:p=4,a=8", "write dragonfly:K[,LOCAL,GLOBAL] or p=N,a=N,h=N"),
            ("dragonfly:p=0,a=8,h=1", "at least 1 of each"),
            ("dragonfly:p=20,a=40,h=20", "79 ports"),
            ("dragonfly:2,0,1", "1 to 250 cycles"),
            ("hyperx:4x4", "SIZES,ENDPOINTS"),
            ("hyperx:60,6", "65 ports"),
            ("express:8x8", "SIZES,SPAN"),
            ("express:8x8,1", "give 2 to 250"),
            ("cayley:13", "group and generators"),
            ("cayley:8x8:1", "2 numbers"),
            ("cayley:8x8:2.0,0.1", "32 of 64"),
            ("cayley:6:0", "identity"),
            ("cayley:s4:2135", "once"),
            ("cayley:s10:21", "2 to 9"),
        ] {
            let error = s.parse::<AnyTopology>().unwrap_err().to_string();
            assert!(error.contains(why), "{s}: {error}");
        }
    }
}
