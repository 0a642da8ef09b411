//! Loads of all links.

use crate::run::Together;
use angara_model::topology::End;
use angara_model::{AnyTopology, LinkLoad, Network, Setup};
use angara_net::fault::{Fault, Site};
use angara_net::torus::{Direction, NodeId, Shape};
use serde::Serialize;

/// Links named in a report.
const BUSIEST: usize = 5;

/// Loads of all outputs that lead somewhere, over some time.
#[derive(Clone, Debug)]
pub struct Links {
    /// The network.
    pub shape: AnyTopology,
    /// Cycles counted.
    pub cycles: u64,
    /// By router, then port.
    pub outputs: Vec<Output>,
}

/// One output of a router.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Output {
    /// The router.
    pub router: u32,
    /// Its port.
    pub port: u8,
    /// It leads to an endpoint, not to another router.
    pub to_endpoint: bool,
    /// Packets and flits that left through it.
    pub load: LinkLoad,
    /// A fault took it out of service, at some time.
    pub cut: bool,
}

/// Loads of the links between routers in a few numbers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// Mean, flits per cycle and link.
    pub mean_flits_per_cycle: f64,
    /// The same of the busiest link.
    pub max_flits_per_cycle: f64,
    /// The busiest links.
    pub busiest: Vec<Busy>,
    /// Packets sent again.
    pub replays: u64,
    /// Packets that arrived with a wrong checksum.
    pub crc_errors: u64,
    /// Packets that arrived a second time.
    pub duplicates: u64,
    /// Packets that had overtaken another.
    pub reordered: u64,
}

/// A busy link.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Busy {
    /// Its router and port by name.
    pub link: String,
    /// Flits per cycle.
    pub flits_per_cycle: f64,
}

impl Links {
    /// Returns what `network`, set up as `setup`, counted in `cycles` cycles.
    pub fn collect(network: &Network, setup: &Setup, cycles: u64) -> Links {
        let shape = &setup.shape;
        let mut outputs = Vec::new();
        for router in 0..shape.routers() as u32 {
            for port in 0..shape.ports() as u8 {
                let to_endpoint = match shape.output(router, port) {
                    End::Open => continue,
                    End::Router { .. } => false,
                    End::Endpoint(_) => true,
                };
                outputs.push(Output { router, port, to_endpoint, load: network.link_load(router, port), cut: false });
            }
        }
        Links { shape: shape.clone(), cycles: cycles.max(1), outputs }.with_cuts(&setup.faults)
    }

    /// The same with the links marked that faults of a chip's network, as texts, take out of service.
    fn with_cuts(mut self, faults: &[String]) -> Links {
        // Only networks of the chip have faults, and their ports are its directions.
        let AnyTopology::Grid(grid) = &self.shape else { return self };
        if faults.is_empty() {
            return self;
        }
        let sizes: Vec<u8> = grid.dims().iter().filter_map(|&d| u8::try_from(d).ok()).collect();
        let Ok(shape) = Shape::new(&sizes, grid.wraps()) else { return self };
        let downs = faults.iter().filter_map(|text| Fault::parse(text, &shape).ok());
        let downs: Vec<Site> = downs.filter(Fault::is_down).map(|fault| fault.site).collect();
        for output in &mut self.outputs {
            let node = output.router as NodeId;
            let link =
                (!output.to_endpoint).then(|| Direction::new(usize::from(output.port / 2), output.port % 2 == 0));
            let other = link.and_then(|dir| shape.neighbour(node, dir));
            output.cut = downs.iter().any(|down| match *down {
                Site::Node(dead) => dead == node || other == Some(dead),
                Site::Link(cut) => {
                    let here = (Some(cut.dir), cut.node) == (link, node);
                    let there = shape.neighbour(cut.node, cut.dir) == Some(node);
                    here || there && link == Some(cut.dir.opposite())
                }
                Site::EveryLink => false,
            });
        }
        self
    }

    /// Adds what the others of `together` have counted; they do the same.
    pub(crate) fn gather(&mut self, together: &Together) {
        let numbers = |l: &LinkLoad| [l.packets, l.flits, l.replays, l.crc_errors, l.duplicates, l.reordered];
        let mut all: Vec<[u64; 6]> = self.outputs.iter().map(|output| numbers(&output.load)).collect();
        together.sum(all.as_flattened_mut());
        for (output, sums) in self.outputs.iter_mut().zip(all) {
            let [packets, flits, replays, crc_errors, duplicates, reordered] = sums;
            output.load = LinkLoad { packets, flits, replays, crc_errors, duplicates, reordered };
        }
    }

    /// Returns what was carried after `earlier`, which counted the same network before.
    pub fn since(mut self, earlier: &Links) -> Links {
        for (now, before) in self.outputs.iter_mut().zip(&earlier.outputs) {
            now.load.packets -= before.load.packets;
            now.load.flits -= before.load.flits;
            now.load.replays -= before.load.replays;
            now.load.crc_errors -= before.load.crc_errors;
            now.load.duplicates -= before.load.duplicates;
            now.load.reordered -= before.load.reordered;
        }
        self
    }

    /// Flits per cycle of `output`.
    pub fn rate(&self, output: &Output) -> f64 {
        output.load.flits as f64 / self.cycles as f64
    }

    /// Name of `output`: its router, then its port.
    pub fn name(&self, output: &Output) -> String {
        format!("{} {}", self.shape.router_name(output.router), self.shape.port_name(output.port))
    }

    /// The links between routers in a few numbers.
    pub fn summary(&self) -> Summary {
        let mut links: Vec<&Output> = self.outputs.iter().filter(|o| !o.to_endpoint).collect();
        links.sort_by_key(|o| (std::cmp::Reverse(o.load.flits), o.router, o.port));
        let total: f64 = links.iter().map(|o| self.rate(o)).sum();
        let busy = |o: &&Output| Busy { link: self.name(o), flits_per_cycle: self.rate(o) };
        Summary {
            mean_flits_per_cycle: total / links.len().max(1) as f64,
            max_flits_per_cycle: links.first().map_or(0.0, |o| self.rate(o)),
            busiest: links.iter().take(BUSIEST).map(busy).collect(),
            replays: links.iter().map(|o| o.load.replays).sum(),
            crc_errors: links.iter().map(|o| o.load.crc_errors).sum(),
            duplicates: links.iter().map(|o| o.load.duplicates).sum(),
            reordered: links.iter().map(|o| o.load.reordered).sum(),
        }
    }

    /// Every output as a line of CSV.
    pub fn csv(&self) -> String {
        let mut out =
            String::from("router,port,name,to,packets,flits,flits_per_cycle,replays,crc_errors,duplicates,reordered\n");
        for o in &self.outputs {
            let LinkLoad { packets, flits, replays, crc_errors, duplicates, reordered } = o.load;
            let to = if o.to_endpoint { "endpoint" } else { "router" };
            let (name, rate) = (self.name(o), self.rate(o));
            out.push_str(&format!(
                "{},{},\"{name}\",{to},{packets},{flits},{rate:.6},{replays},{crc_errors},{duplicates},{reordered}\n",
                o.router, o.port
            ));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_model::{Generic, Injection, Profile};

    #[test]
    fn loads_are_counted_where_packets_went() {
        let shape: AnyTopology = "mesh:3x2".parse().unwrap();
        let profile = Profile::Generic(Generic { packet_flits_max: 4, ..Generic::default() });
        let setup = Setup { shape, profile, seed: 1, faults: Vec::new(), sets: Vec::new() };
        let mut net = Network::new(&setup).unwrap();
        net.count_links();
        net.inject(Injection { src: 0, dst: 5, flits: 4, ..Injection::default() });
        net.run_until_idle();
        let links = Links::collect(&net, &setup, 10);
        // 4 + 3 inner links of both directions, and 6 to endpoints.
        assert_eq!(links.outputs.len(), 2 * 7 + 6);
        let used: Vec<String> = links.outputs.iter().filter(|o| o.load.flits == 4).map(|o| links.name(o)).collect();
        assert_eq!(used, ["(0,0) +X", "(1,0) +X", "(2,0) +Y", "(2,1) node"]);
        let summary = links.summary();
        assert_eq!((summary.max_flits_per_cycle, summary.busiest[0].link.as_str()), (0.4, "(0,0) +X"));
        assert!((summary.mean_flits_per_cycle - 12.0 / 140.0).abs() < 1e-12);
        assert!(links.csv().contains("\n2,2,\"(2,0) +Y\",router,1,4,0.400000,0,0,0,0\n"), "{}", links.csv());
    }
}
