//! Route tables: how far packets travel, which links they load, whether they can deadlock.
//!
//! The tables are those the live network uses ([`angara_fabric::Routes`]), after the faults asked for; or
//! a table of somebody else's, read from a file. Every route is walked. With the bubble rule inside
//! each unidirectional ring, a table is free of deadlock if no cycle exists among the segments (rows of
//! used links, or whole rings) that packets turn between; a cycle is shown turn by turn, each with a route.

use crate::Error;
use crate::table::{Table, number};
use crate::toml_file::TomlFile;
use angara_fabric::{Config, Fabric, Link, Params};
use angara_net::fault::Fault;
use angara_net::torus::{Direction, NodeId, Shape};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Largest network whose pairs are all walked.
pub const NODES_MAX: usize = 4096;
/// Links shown in the list of the busiest.
const BUSIEST: usize = 8;

angara_net::words! {
    /// Which of a pair's equally short ways it takes.
    #[derive(Debug)]
    pub enum Ways {
        /// As the parity of its coordinates says.
        Parity = "parity",
        /// As a table says that evens out all-to-all traffic.
        Balanced = "balanced",
    }
}

/// A network after faults.
///
/// # Errors
/// A fault that does not fit the network, or that is no question of routes; balanced ways of too large a network.
pub fn network(shape: &Shape, ways: Ways, faults: &[String]) -> Result<Fabric, Error> {
    let params = Params { balanced: ways == Ways::Balanced, ..Params::default() };
    let config = Config { payload: false, params, ..Config::new(*shape) };
    let mut fabric = Fabric::new(config).map_err(|e| Error::Network(e.to_string()))?;
    for text in faults {
        let fault = Fault::parse(text, shape).map_err(|e| Error::Network(e.to_string()))?;
        if !fault.is_down() || fault.at.is_some() {
            let why = "routes depend on dead links and nodes only: write `link 0,0,0 +X down` or `node 1,0,0 down`";
            return Err(Error::invalid("--fault", text, why));
        }
        fabric.set_fault(fault).map_err(|e| Error::Network(e.to_string()))?;
    }
    Ok(fabric)
}

/// One route for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Source.
    pub from: String,
    /// Destination.
    pub to: String,
    /// Directions in the order travelled; `None` if unreachable.
    pub path: Option<Vec<String>>,
    /// First hop outside direction order.
    pub first_step: Option<String>,
    /// Last hop outside direction order.
    pub last_step: Option<String>,
}

/// Properties of a route table.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The shape.
    pub shape: String,
    /// Nodes.
    pub nodes: usize,
    /// Faults.
    pub faults: Vec<String>,
    /// Ordered pairs of different working nodes with a route.
    pub routes: usize,
    /// Pairs of working nodes without one.
    pub unreachable: usize,
    /// Routes that use a first or last step.
    pub detours: usize,
    /// Pairs by hops, from 0.
    pub pairs_by_hops: Vec<usize>,
    /// Mean hops.
    pub mean_hops: f64,
    /// Load of the links when every pair sends one packet, by direction.
    pub loads: Vec<DirectionLoad>,
    /// The busiest links.
    pub busiest: Vec<(String, u64)>,
    /// Rings of a cycle that packets can wait around; empty if the table is free of deadlock.
    pub cycle: Vec<Turn>,
    /// Routes asked for.
    pub shown: Vec<Shown>,
}

/// Load of all links in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct DirectionLoad {
    /// Direction.
    pub direction: String,
    /// Working links.
    pub links: usize,
    /// Least loaded.
    pub least: u64,
    /// Mean.
    pub mean: f64,
    /// Most loaded.
    pub most: u64,
}

/// A turn from one ring into the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// Where and from which direction into which.
    pub turn: String,
    /// A route that takes it.
    pub route: String,
}

/// Counts loads and turns of routes as they are walked.
struct Walker<'a> {
    shape: &'a Shape,
    load: BTreeMap<Link, u64>,
    by_hops: Vec<usize>,
    /// For a pair of links that follow on one another in two directions: source and destination of a route that turns.
    turns: BTreeMap<(Link, Link), (NodeId, NodeId)>,
}

impl<'a> Walker<'a> {
    fn new(shape: &'a Shape) -> Walker<'a> {
        Walker { shape, load: BTreeMap::new(), by_hops: Vec::new(), turns: BTreeMap::new() }
    }

    fn walk(&mut self, from: NodeId, to: NodeId, path: &[Link]) {
        if self.by_hops.len() <= path.len() {
            self.by_hops.resize(path.len() + 1, 0);
        }
        self.by_hops[path.len()] += 1;
        let mut last = None;
        for &link in path {
            *self.load.entry(link).or_default() += 1;
            if let Some(before) = last.filter(|before: &Link| before.dir != link.dir) {
                self.turns.entry((before, link)).or_insert((from, to));
            }
            last = Some(link);
        }
    }

    /// The segment of a link that is used: the row of used links that it belongs to, by its first; of a ring
    /// that is used as a whole, the least.
    fn segment(&self, link: Link) -> Link {
        let (mut at, mut least) = (link, link);
        loop {
            let before = self.shape.neighbour(at.node, link.dir.opposite()).map(|node| Link { node, dir: link.dir });
            match before.filter(|before| self.load.contains_key(before)) {
                Some(before) if before == link => return least,
                Some(before) => (at, least) = (before, least.min(before)),
                None => return at,
            }
        }
    }

    /// A cycle of segments, if there is one: depth-first search for an edge back onto the path.
    fn cycle(&self) -> Vec<Turn> {
        let mut turns: BTreeMap<(Link, Link), (Link, NodeId, NodeId)> = BTreeMap::new();
        for (&(before, link), &(from, to)) in &self.turns {
            turns.entry((self.segment(before), self.segment(link))).or_insert((link, from, to));
        }
        let mut next: BTreeMap<Link, Vec<Link>> = BTreeMap::new();
        for &(a, b) in turns.keys() {
            next.entry(a).or_default().push(b);
        }
        let mut done = BTreeSet::new();
        for &start in next.keys() {
            // The path so far, each segment with how many of its successors were tried.
            let mut path = vec![(start, 0usize)];
            while let Some((segment, tried)) = path.last_mut() {
                let segment = *segment;
                let follow =
                    next.get(&segment).and_then(|n| n.get(*tried)).copied().filter(|_| !done.contains(&segment));
                *tried += 1;
                match follow {
                    Some(to) => match path.iter().position(|(s, _)| *s == to) {
                        Some(first) => {
                            let mut around: Vec<Link> = path[first..].iter().map(|(s, _)| *s).collect();
                            around.push(to);
                            return around.windows(2).map(|w| self.turn(turns[&(w[0], w[1])], w[0], w[1])).collect();
                        }
                        None => path.push((to, 0)),
                    },
                    None => {
                        done.insert(segment);
                        path.pop();
                    }
                }
            }
        }
        Vec::new()
    }

    fn turn(&self, (link, from, to): (Link, NodeId, NodeId), a: Link, b: Link) -> Turn {
        let at = |node| self.shape.show(self.shape.coords(node));
        Turn {
            turn: format!("at {} from {} into {}", at(link.node), a.dir, b.dir),
            route: format!("{} to {}", at(from), at(to)),
        }
    }

    fn loads(&self, alive: impl Fn(Link) -> bool) -> (Vec<DirectionLoad>, Vec<(String, u64)>) {
        let mut loads = Vec::new();
        for dir in Direction::ALL {
            let links = (0..self.shape.nodes() as u32).map(|node| Link { node, dir }).filter(|&l| alive(l));
            let all: Vec<u64> = links.map(|l| self.load.get(&l).copied().unwrap_or(0)).collect();
            if let (Some(&least), Some(&most)) = (all.iter().min(), all.iter().max()) {
                let mean = all.iter().sum::<u64>() as f64 / all.len() as f64;
                loads.push(DirectionLoad { direction: dir.to_string(), links: all.len(), least, mean, most });
            }
        }
        let mut busiest: Vec<(&Link, &u64)> = self.load.iter().collect();
        busiest.sort_by_key(|&(link, load)| (std::cmp::Reverse(load), link));
        let name = |(link, load): &(&Link, &u64)| (link.show(self.shape), **load);
        (loads, busiest.iter().take(BUSIEST).map(name).collect())
    }
}

/// Walks every route of `shape` after `faults`; shows the routes from `from` (to `to`, or to all).
///
/// # Errors
/// Too large a network, or faults and nodes that do not fit it.
pub fn report(
    shape: &Shape,
    ways: Ways,
    faults: &[String],
    from: Option<NodeId>,
    to: Option<NodeId>,
) -> Result<Report, Error> {
    let nodes = shape.nodes();
    if nodes > NODES_MAX {
        let why = format!("{nodes} nodes are too many to walk every pair; give at most {NODES_MAX}");
        return Err(Error::invalid("--torus", shape, why));
    }
    let fabric = network(shape, ways, faults)?;
    let routes = fabric.routes();
    let mut walker = Walker::new(shape);
    let (mut unreachable, mut detours) = (0, 0);
    for a in (0..nodes as u32).filter(|&n| routes.node_up(n)) {
        for b in (0..nodes as u32).filter(|&n| n != a && routes.node_up(n)) {
            match (routes.route(a, b), routes.path(a, b)) {
                (Some(route), Some(path)) => {
                    detours += usize::from(route.first_step.is_some() || route.last_step.is_some());
                    walker.walk(a, b, &path);
                }
                _ => unreachable += 1,
            }
        }
    }
    let (loads, busiest) = walker.loads(|l| routes.link_up(l));
    let everyone = || 0..nodes as u32;
    let pairs: Vec<(u32, u32)> = match (from, to) {
        (None, None) => Vec::new(),
        (Some(a), Some(b)) => vec![(a, b)],
        (Some(a), None) => everyone().filter(|&b| b != a).map(|b| (a, b)).collect(),
        (None, Some(b)) => everyone().filter(|&a| a != b).map(|a| (a, b)).collect(),
    };
    let show = |(a, b)| {
        let route = routes.route(a, b);
        Shown {
            from: shape.show(shape.coords(a)),
            to: shape.show(shape.coords(b)),
            path: routes.path(a, b).map(|p| p.iter().map(|l| l.dir.to_string()).collect()),
            first_step: route.and_then(|r| r.first_step).map(|d| d.to_string()),
            last_step: route.and_then(|r| r.last_step).map(|d| d.to_string()),
        }
    };
    let shown = pairs.into_iter().map(show).collect();
    let cycle = walker.cycle();
    Ok(finish(shape, faults.to_vec(), walker.by_hops, Tail { unreachable, detours, loads, busiest, cycle, shown }))
}

/// The parts of a report that are found in different ways.
struct Tail {
    unreachable: usize,
    detours: usize,
    loads: Vec<DirectionLoad>,
    busiest: Vec<(String, u64)>,
    cycle: Vec<Turn>,
    shown: Vec<Shown>,
}

fn finish(shape: &Shape, faults: Vec<String>, by_hops: Vec<usize>, tail: Tail) -> Report {
    let routes: usize = by_hops.iter().sum();
    let hops: usize = by_hops.iter().enumerate().map(|(h, n)| h * n).sum();
    let Tail { unreachable, detours, loads, busiest, cycle, shown } = tail;
    Report {
        shape: shape.to_string(),
        nodes: shape.nodes(),
        faults,
        routes,
        unreachable,
        detours,
        pairs_by_hops: by_hops,
        mean_hops: hops as f64 / routes.max(1) as f64,
        loads,
        busiest,
        cycle,
        shown,
    }
}

/// A route table in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    torus: Shape,
    #[serde(default)]
    route: Vec<FileRoute>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRoute {
    from: String,
    to: String,
    path: toml::Spanned<Vec<String>>,
}

/// Walks the routes of a file: `torus = "4x4"` and `[[route]]` tables with `from`, `to` and the
/// `path` as a list of directions.
///
/// # Errors
/// A route that leaves the network or does not end where it says, or a table that can deadlock;
/// with file and line.
pub fn check_file(file: &TomlFile) -> Result<Report, Error> {
    let table = RouteTable::read(file)?;
    let shape = table.torus;
    let mut walker = Walker::new(&shape);
    table.routes.iter().for_each(|route| walker.walk(route.from, route.to, &route.path));
    let cycle = walker.cycle();
    if !cycle.is_empty() {
        return Err(file.error_at(0, &format!("the routes can deadlock: {}", around(&cycle))));
    }
    let (loads, busiest) = walker.loads(|l| shape.neighbour(l.node, l.dir).is_some());
    let tail = Tail { unreachable: 0, detours: 0, loads, busiest, cycle, shown: Vec::new() };
    Ok(finish(&shape, Vec::new(), walker.by_hops, tail))
}

/// A route table that has been read from a file.
pub struct RouteTable {
    /// Its network.
    pub torus: Shape,
    /// Its routes, in the order of the file.
    pub routes: Vec<ReadRoute>,
}

/// A route of a file.
pub struct ReadRoute {
    /// Source.
    pub from: NodeId,
    /// Destination.
    pub to: NodeId,
    /// Links in the order travelled.
    pub path: Vec<Link>,
    /// Where its path begins in the file, bytes.
    pub place: usize,
}

impl RouteTable {
    /// Reads a table: `torus = "4x4"` and `[[route]]` tables with `from`, `to` and the `path` as a list of directions.
    ///
    /// # Errors
    /// A route that leaves the network or does not end where it says, with file and line.
    pub fn read(file: &TomlFile) -> Result<RouteTable, Error> {
        let table: TableFile = file.parse()?;
        let shape = table.torus;
        let mut routes = Vec::with_capacity(table.route.len());
        for route in &table.route {
            let place = route.path.span().start;
            let wrong = |why: String| file.error_at(place, &why);
            let node = |text: &str| shape.parse_coords(text).map_err(|e| wrong(e.to_string()));
            let id = |c| shape.id(c).expect("parsed coordinates are inside");
            let (from, to) = (id(node(&route.from)?), id(node(&route.to)?));
            let mut at = from;
            let mut path = Vec::new();
            for step in route.path.get_ref() {
                let dir: Direction = step.parse().map_err(|e: angara_net::torus::ShapeError| wrong(e.to_string()))?;
                path.push(Link { node: at, dir });
                let here = shape.show(shape.coords(at));
                at = shape.neighbour(at, dir).ok_or_else(|| wrong(format!("there is no link {dir} at {here}")))?;
            }
            if at != to {
                let ends = shape.show(shape.coords(at));
                return Err(wrong(format!("the path from {} ends at {ends}, not at {}", route.from, route.to)));
            }
            routes.push(ReadRoute { from, to, path, place });
        }
        Ok(RouteTable { torus: shape, routes })
    }
}

/// A cycle in words.
fn around(cycle: &[Turn]) -> String {
    let turns: Vec<String> = cycle.iter().map(|t| format!("{} (route {})", t.turn, t.route)).collect();
    format!("a cycle of {} turns: {}", turns.len(), turns.join(", "))
}

impl Report {
    /// The report for people.
    pub fn text(&self) -> String {
        let mut out =
            format!("Routes of {}: {} routes, mean {} hops\n", self.shape, self.routes, number(self.mean_hops, 4));
        if !self.faults.is_empty() {
            let _ = writeln!(out, "  after {}", self.faults.join("; "));
        }
        if self.unreachable > 0 {
            let _ = writeln!(out, "  {} pairs have no route", self.unreachable);
        }
        if self.detours > 0 {
            let _ = writeln!(out, "  {} routes use a first or last step", self.detours);
        }
        let verdict = if self.cycle.is_empty() { "free of deadlock".into() } else { around(&self.cycle) };
        let _ = writeln!(out, "  {verdict}\n");
        let mut t = Table::new(&[">hops", ">pairs"]);
        self.pairs_by_hops.iter().enumerate().filter(|(_, n)| **n > 0).for_each(|(h, n)| t.row(&[h, *n]));
        out.push_str(&t.render());
        out.push_str("\nPackets per link when every pair sends one\n\n");
        let mut t = Table::new(&["direction", ">links", ">least", ">mean", ">most"]);
        for l in &self.loads {
            let cells =
                [l.direction.clone(), l.links.to_string(), l.least.to_string(), number(l.mean, 5), l.most.to_string()];
            t.row(&cells);
        }
        out.push_str(&t.render());
        let busiest: Vec<String> = self.busiest.iter().map(|(link, load)| format!("{link}: {load}")).collect();
        let _ = writeln!(out, "  busiest: {}", busiest.join("; "));
        if !self.shown.is_empty() {
            out.push('\n');
            let mut t = Table::new(&["from", "to", ">hops", "path", "first", "last"]);
            for s in &self.shown {
                let step = |s: &Option<String>| s.clone().unwrap_or_default();
                let (hops, path) = match &s.path {
                    Some(path) => (path.len().to_string(), path.join(" ")),
                    None => ("-".into(), "unreachable".into()),
                };
                t.row(&[s.from.clone(), s.to.clone(), hops, path, step(&s.first_step), step(&s.last_step)]);
            }
            out.push_str(&t.render());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Shape {
        text.parse().unwrap()
    }

    fn table(name: &str, text: &str) -> Result<Report, Error> {
        let path = std::env::temp_dir().join(format!("angara-routes-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let file = TomlFile::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        check_file(&file)
    }

    #[test]
    fn loads_of_a_cube_are_those_of_the_cost_model() {
        let r = report(&shape("4x4x4"), Ways::Parity, &[], None, None).unwrap();
        assert_eq!((r.routes, r.unreachable, r.detours, r.cycle.len()), (64 * 63, 0, 0, 0));
        assert!(r.loads.iter().all(|l| l.mean == 32.0), "n^4/8 per directed link: {:?}", r.loads);
        assert_eq!(r.pairs_by_hops.len(), 7);
        assert!((r.mean_hops - 3.0 * 64.0 / 63.0).abs() < 1e-9, "3n/4 without the node itself");
    }

    #[test]
    fn a_dead_link_is_gone_around() {
        let faults = ["link 0,0 +X down".to_string()];
        let r = report(&shape("4x4"), Ways::Parity, &faults, Some(0), Some(1)).unwrap();
        assert_eq!((r.routes, r.unreachable, r.cycle.len()), (16 * 15, 0, 0));
        let path = r.shown[0].path.as_ref().unwrap();
        assert!(path.len() > 1 && path[0] != "+X", "{path:?}");
        assert_eq!(r.loads[0].links, 15);
        assert!(r.text().contains("after link 0,0 +X down"));
    }

    #[test]
    fn a_dead_node_leaves_the_others_connected() {
        let r = report(&shape("3x3"), Ways::Parity, &["node 1,1 down".into()], Some(0), None).unwrap();
        assert_eq!((r.routes, r.unreachable), (8 * 7, 0));
        assert!(r.text().contains("unreachable"), "the dead node itself");
    }

    #[test]
    fn a_table_with_a_cycle_is_refused_and_the_cycle_shown() {
        let corner = |from: &str, to: &str, a: &str, b: &str| {
            format!("[[route]]\nfrom = \"{from}\"\nto = \"{to}\"\npath = [\"{a}\", \"{b}\"]\n")
        };
        let around = [
            corner("0,0", "1,1", "+X", "+Y"),
            corner("1,0", "0,1", "+Y", "-X"),
            corner("1,1", "0,0", "-X", "-Y"),
            corner("0,1", "1,0", "-Y", "+X"),
        ];
        let text = format!("torus = \"4x4\"\n{}", around.concat());
        let e = table("cycle", &text).unwrap_err().to_string();
        assert!(e.contains("a cycle of 4 turns") && e.contains("from +X into +Y (route 0,0 to 1,1)"), "{e}");
        let open = format!("torus = \"4x4\"\n{}", around[..3].concat());
        assert_eq!(table("open", &open).unwrap().routes, 3);
    }

    #[test]
    fn routes_that_go_wrong_are_refused_with_their_line() {
        let line =
            |path: &str| format!("torus = \"mesh:4x4\"\n\n[[route]]\nfrom = \"0,0\"\nto = \"1,0\"\npath = {path}\n");
        let refused = |name: &str, path: &str| table(name, &line(path)).unwrap_err().to_string();
        let e = refused("end", "[\"+Y\"]");
        assert!(e.contains(".toml:6: the path from 0,0 ends at 0,1, not at 1,0"), "{e}");
        assert!(refused("edge", "[\"-X\"]").contains(".toml:6: there is no link -X at 0,0"));
        assert!(refused("dir", "[\"+Q\"]").contains("use one of +X"));
    }

    #[test]
    fn faults_that_do_not_fit_are_refused() {
        let refused = |fault: &str| {
            network(&shape("4x4"), Ways::Parity, &[fault.to_string()]).map(|_| ()).unwrap_err().to_string()
        };
        assert!(refused("link 9,9 +X down").contains("link 9,9 +X down"));
        assert!(refused("corrupt=1%").contains("dead links and nodes only"));
        assert!(refused("link 0,0 +Z down").contains("no link"));
    }
}
