//! `--map auto:FILE`: a placement found from what the PEs sent each other in an earlier run.

use crate::run::options::{MapArg, Options};
use angara_control::error::Failed;
use angara_fabric::Outage;
use angara_net::fault::{Fault, Site};
use angara_net::torus::{NodeId, Shape};
use angara_placement::mapping::{Effort, Sites, Traffic, cost, map};
use angara_traffic::{Count, Volumes};
use std::path::{Path, PathBuf};

/// Decides what is random in a search. The same file gives the same placement.
const SEED: u64 = 1;

/// What the PEs are expected to send each other.
pub(super) struct Expected {
    file: PathBuf,
    traffic: Traffic,
}

impl Expected {
    /// Reads it if the placement is to be found by it.
    pub(super) fn of(args: &Options) -> Result<Option<Expected>, Failed> {
        match &args.map {
            MapArg::Auto(file) => Expected::read(file, args).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads it from a report, a recording or a matrix for as many PEs as there will be.
    fn read(file: &Path, args: &Options) -> Result<Expected, Failed> {
        if args.cluster.is_some() {
            let why = "--map auto takes all nodes of a torus, and those of a cluster may not all be up";
            let remedy = format!(
                "write a placement on nodes that are: `angara alloc map --nodes LIST --traffic {} --write F`, then give \
                 --map file:F",
                file.display()
            );
            return Err(Failed::usage(why, remedy));
        }
        let volumes = Volumes::read("--map auto", file, Count::Exactly(args.pes)).map_err(|e| {
            let (message, remedy) = e.parts();
            let other = "give --map auto:FILE with a file of `angara run --report` or `--record`, or a matrix of bytes";
            Failed::usage(message, remedy.unwrap_or_else(|| other.into()))
        })?;
        let traffic = Traffic::new(args.pes, volumes.pairs).map_err(|e| unusable(file, &e.to_string()))?;
        Ok(Expected { file: file.into(), traffic })
    }

    /// Node of each PE.
    pub(super) fn place(&self, args: &Options, shape: Shape) -> Result<Vec<NodeId>, Failed> {
        let dead = outages(&args.faults, &shape);
        let is_up = |node: &NodeId| !dead.contains(&Outage::Node(*node));
        let nodes = (0..shape.nodes() as NodeId).filter(is_up).collect();
        let refused = |e: angara_placement::mapping::MappingError| unusable(&self.file, &e.to_string());
        let sites = Sites::new(shape, &dead, nodes, args.ppn).map_err(refused)?;
        let found = map(&self.traffic, &sites, Effort::seeded(SEED)).map_err(refused)?;
        if !args.quiet {
            let linear = sites.linear(args.pes).and_then(|linear| cost(&self.traffic, &sites, &linear));
            let bytes = self.traffic.bytes() as f64;
            let per_byte = |hop_bytes: u64| hop_bytes as f64 / bytes;
            angara_protocol::complain!(
                "angara: --map auto: a byte crosses {:.2} links, {:.2} with --map linear",
                per_byte(found.cost.hop_bytes),
                per_byte(linear.map_err(refused)?.hop_bytes)
            );
        }
        Ok(found.nodes)
    }
}

fn unusable(file: &Path, why: &str) -> Failed {
    Failed::usage(
        format!("--map auto:{}: {why}", file.display()),
        "give a larger --torus, more --ppn, or another --map",
    )
}

/// Links and nodes that are out of service from the beginning. What is no fault is refused by the daemon.
fn outages(faults: &[String], shape: &Shape) -> Vec<Outage> {
    let down = |text: &String| match Fault::parse(text, shape).ok()? {
        fault if !fault.is_down() || fault.at.is_some() => None,
        Fault { site: Site::Link(link), .. } => Some(Outage::Link(link)),
        Fault { site: Site::Node(node), .. } => Some(Outage::Node(node)),
        _ => None,
    };
    faults.iter().filter_map(down).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_dead_from_the_beginning_is_avoided() {
        let shape: Shape = "4x4".parse().unwrap();
        let faults =
            ["link 0,0 +X down", "node 1,1 down", "node 2,2 down@2ms", "link 1,0 +X corrupt=1%"].map(String::from);
        let dead = outages(&faults, &shape);
        assert!(matches!(dead[..], [Outage::Link(link), Outage::Node(5)] if link.node == 0), "{dead:?}");
    }
}
