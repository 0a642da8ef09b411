//! Graphs of any form: read from a file, or generated.
//!
//! [`wiring`] says what leads where, [`ways`] how packets go. Both are tables that all clones share. What faults leave of
//! any network is a graph, too: [`left`].

mod faults;
mod generate;
mod left;
mod read;
mod table;
#[cfg(test)]
mod tests;
mod ways;
mod wiring;

use super::contract::{
    Cell, Classes, End, Hop, LinkRate, RouteState, Routing, Topology, TopologyError, Written, port_cell,
};
use super::dependencies::circle;
use super::layout::Layout;
pub(super) use faults::{is_rate, later, rates};
use left::Whole;
use std::fmt;
use std::sync::Arc;
use table::Table;
use ways::Ways;
use wiring::{Draft, Wiring, digest};

/// A graph: `graph:FILE`, `anynet:FILE`, `random:ROUTERS,DEGREE,TERMINALS,SEED`, `slimfly:Q`. A router's links are
/// its first ports, its endpoints follow. Or what faults leave of another network, which says all but the ways.
#[derive(Clone)]
pub struct Graph {
    text: Arc<str>,
    wiring: Arc<Wiring>,
    ways: Arc<Ways>,
    whole: Option<Arc<Whole>>,
    /// Tells wiring and ways from others.
    digest: u64,
}

/// A digest of the contents stands for the file, in the identity of a sweep, too.
impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} {:?} {:016x})", self.text, self.ways.routing(), self.digest)
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Graph {
    fn eq(&self, other: &Graph) -> bool {
        (&self.text, self.digest) == (&other.text, other.digest)
    }
}

impl Eq for Graph {}

impl Written for Graph {
    const FORMS: &'static [(&'static str, &'static str)] = &[
        ("graph", "FILE"),
        ("anynet", "FILE"),
        ("random", "ROUTERS,DEGREE,TERMINALS[,SEED]"),
        ("slimfly", "Q (a prime)"),
    ];
    fn read(kind: &str, rest: &str) -> Result<Graph, String> {
        match kind {
            "random" => generate::random(rest).and_then(|(text, draft)| Graph::new(&text, &text, draft)),
            "slimfly" => generate::slim_fly(rest).and_then(|(text, draft)| Graph::new(&text, &text, draft)),
            _ => Graph::of(kind, rest, &read::contents(rest)?),
        }
    }
    fn with_routing(&self, routing: Routing) -> Result<Graph, String> {
        let ways = Ways::new(&self.wiring, routing);
        ways.map(|ways| self.with(ways)).ok_or_else(|| "minimal, valiant, updown or table:FILE".into())
    }
}

impl Graph {
    /// The graph of a file whose contents are `text`; `kind` is `graph` or `anynet`.
    ///
    /// # Errors
    /// Returns what is wrong with it, with file and line.
    pub fn of(kind: &str, file: &str, text: &str) -> Result<Graph, String> {
        let draft = if kind == "anynet" { read::anynet(file, text) } else { read::edges(file, text) };
        Graph::new(&format!("{kind}:{file}"), file, draft?)
    }
    fn new(text: &str, file: &str, draft: Draft) -> Result<Graph, String> {
        let wiring = Wiring::new(file, draft)?;
        let ways = Ways::new(&wiring, Routing::Minimal).expect("every graph has shortest ways");
        let digest = digest([wiring.digest(), ways.digest()]);
        Ok(Graph { text: text.into(), wiring: wiring.into(), ways: ways.into(), whole: None, digest })
    }
    /// What is left of a network that is written `text`, with ways that go up, then down. `seed` draws faults.
    pub(super) fn left(
        topology: Arc<dyn Topology>,
        text: &str,
        faults: &[String],
        seed: u64,
    ) -> Result<Graph, TopologyError> {
        let (whole, wiring) = Whole::new(topology, text, faults, seed)?;
        let ways = Ways::new(&wiring, Routing::UpDown).expect("every graph has such ways");
        let graph =
            Graph { text: text.into(), wiring: wiring.into(), ways: ways.into(), whole: Some(whole.into()), digest: 0 };
        Ok(Graph { digest: graph.digest(&graph.ways), ..graph })
    }
    fn digest(&self, ways: &Ways) -> u64 {
        let whole = self.whole.iter().flat_map(|whole| whole.words());
        digest([self.wiring.digest(), ways.digest()].into_iter().chain(whole))
    }
    fn with(&self, ways: Ways) -> Graph {
        let digest = self.digest(&ways);
        Graph { ways: ways.into(), digest, ..self.clone() }
    }
    /// The same graph with ways from the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read or is wrong, or packets that take these ways can wait for each other in a circle.
    pub fn with_table(&self, path: &str) -> Result<Graph, String> {
        if path.is_empty() {
            return Err("write table:FILE".into());
        }
        self.with_table_of(path, &read::contents(path)?)
    }
    fn with_table_of(&self, file: &str, text: &str) -> Result<Graph, String> {
        let graph = self.with(Ways::Table(Table::read(&self.wiring, file, text)?));
        match circle(&graph, 1) {
            Some(channels) => Err(format!(
                "{file}: packets can wait for each other in a circle, {}; change a way, or give classes",
                channels.shown(&graph)
            )),
            None => Ok(graph),
        }
    }
}

impl Topology for Graph {
    fn endpoints(&self) -> usize {
        self.whole.as_ref().map_or(self.wiring.at.len(), |whole| whole.topology.endpoints())
    }
    fn routers(&self) -> usize {
        self.whole.as_ref().map_or(self.wiring.routers(), |whole| whole.topology.routers())
    }
    fn ports(&self) -> usize {
        self.whole.as_ref().map_or(self.wiring.ports, |whole| whole.topology.ports())
    }
    fn output(&self, router: u32, port: u8) -> End {
        match &self.whole {
            Some(whole) => whole.output(router, port),
            None => self.wiring.end(router, port),
        }
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        match &self.whole {
            Some(whole) => whole.topology.attach(endpoint),
            None => (self.wiring.at[endpoint as usize], self.wiring.port_of(endpoint)),
        }
    }
    fn is_up(&self, endpoint: u32) -> bool {
        self.whole.as_ref().is_none_or(|whole| whole.endpoint(endpoint).is_some())
    }
    fn start(&self, src: u32, dst: u32, random: u64) -> RouteState {
        let number = |e| self.whole.as_ref().map_or(Some(e), |whole| whole.endpoint(e));
        let [src, dst] = [src, dst].map(|e| number(e).expect("packets are given to endpoints that are up"));
        self.ways.start(&self.wiring, src, dst, random)
    }
    #[inline(always)]
    fn next(&self, router: u32, route: &mut RouteState) -> Hop {
        let router = self.whole.as_ref().map_or(router, |whole| whole.router(router));
        self.ways.next(&self.wiring, router, route)
    }
    fn delay(&self, router: u32, port: u8) -> u8 {
        match &self.whole {
            Some(whole) => whole.topology.delay(router, port),
            None => self.wiring.links(router).get(usize::from(port)).map_or(1, |link| link.delay),
        }
    }
    fn rates(&self) -> Vec<LinkRate> {
        let Some(whole) = &self.whole else { return self.wiring.rates.clone() };
        let is_left = |link: &LinkRate| whole.output(link.from.0, link.from.1) != End::Open;
        whole.topology.rates().into_iter().filter(is_left).collect()
    }
    fn classes(&self) -> Classes {
        self.ways.classes()
    }
    fn routing(&self) -> Routing {
        self.ways.routing()
    }
    fn links_name(&self, port: u8) -> &'static str {
        self.whole.as_ref().map_or("links", |whole| whole.topology.links_name(port))
    }
    fn layout(&self) -> Layout {
        match &self.whole {
            Some(whole) => whole.topology.layout(),
            None => Layout::torus(&[self.endpoints() as u32]),
        }
    }
    fn router_name(&self, router: u32) -> String {
        if let Some(whole) = &self.whole {
            return whole.topology.router_name(router);
        }
        let label = &self.wiring.labels[router as usize];
        if self.wiring.named { label.clone() } else { format!("router {label}") }
    }
    fn port_name(&self, port: u8) -> String {
        self.whole.as_ref().map_or_else(|| format!("port {port}"), |whole| whole.topology.port_name(port))
    }
    fn cell(&self, router: u32, port: u8) -> Cell {
        self.whole.as_ref().map_or_else(|| port_cell(self, router, port), |whole| whole.topology.cell(router, port))
    }
}
