//! Arguments that several commands share: the machine, how sets are searched for, lists of nodes.

use angara_control::error::Failed;
use angara_fabric::Outage;
use angara_fabric::rng::splitmix;
use angara_net::fault::{Fault, Site};
use angara_net::torus::{NodeId, Shape};
use angara_net::units;
use angara_placement::{BestFitBox, Closed, FirstFitBox, Fragmentation, Machine, Search, Unconstrained, Utilisation};
use clap::{Args, ValueEnum};

/// How a set is searched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Policy {
    /// The first free box, smallest first
    FirstFitBox,
    /// The free box of that size which touches most nodes that are taken or dead
    BestFitBox,
    /// The free box, holes and all, that holds the fewest nodes and has routes for all pairs
    Closed,
    /// Of such boxes, the one that leaves the largest free box
    Fragmentation,
    /// The same, but nodes beyond those asked for are given back where routes can do without
    Utilisation,
    /// The free nodes with the lowest numbers; packets of jobs cross each other
    Unconstrained,
}

impl Policy {
    pub(crate) fn search(self) -> &'static dyn Search {
        match self {
            Policy::FirstFitBox => &FirstFitBox,
            Policy::BestFitBox => &BestFitBox,
            Policy::Closed => &Closed,
            Policy::Fragmentation => &Fragmentation,
            Policy::Utilisation => &Utilisation,
            Policy::Unconstrained => &Unconstrained,
        }
    }
}

/// The machine: its torus and its dead parts.
#[derive(Args, Debug)]
pub(crate) struct MachineArgs {
    /// Shape of the torus; `mesh:` before it for a mesh
    #[arg(long, value_name = "SHAPE")]
    pub(crate) torus: Shape,
    /// Dead link or node, such as `link 0,0 +X down` or `node 1,0 down`; may be repeated
    #[arg(long = "fault", value_name = "FAULT")]
    pub(crate) faults: Vec<String>,
    /// Fraction of nodes that are dead, drawn at random, such as 1%
    #[arg(long, value_name = "FRACTION", value_parser = fraction)]
    pub(crate) dead_nodes: Option<f64>,
    /// Seed of the dead nodes
    #[arg(long, value_name = "SEED", default_value_t = 1, requires = "dead_nodes")]
    pub(crate) dead_seed: u64,
}

/// A fraction below 1, as a number or per cent.
fn fraction(text: &str) -> Result<f64, String> {
    let value = units::fraction(text).filter(|f| (0.0..1.0).contains(f));
    value.ok_or_else(|| "give a fraction below 1, such as 0.01 or 1%".into())
}

impl MachineArgs {
    pub(crate) fn machine(&self) -> Result<Machine, Failed> {
        Ok(Machine::new(self.torus, &self.outages()?))
    }

    pub(crate) fn outages(&self) -> Result<Vec<Outage>, Failed> {
        let named: Result<Vec<Outage>, Failed> = self.faults.iter().map(|text| outage(text, &self.torus)).collect();
        let nodes = self.torus.nodes();
        let count = (self.dead_nodes.unwrap_or(0.0) * nodes as f64).round() as usize;
        // The same nodes whatever the number: the first of a seeded order.
        let mut order: Vec<NodeId> = (0..nodes as NodeId).collect();
        order.sort_by_key(|node| (splitmix(self.dead_seed, u64::from(*node)), *node));
        Ok(named?.into_iter().chain(order.into_iter().take(count).map(Outage::Node)).collect())
    }
}

/// A dead part, as `--fault` has it.
pub(super) fn outage(text: &str, shape: &Shape) -> Result<Outage, Failed> {
    let fault = Fault::parse(text, shape).map_err(|mistake| Failed::usage(mistake.brief(), mistake.remedy()))?;
    match fault.site {
        Site::Link(link) if fault.is_down() && fault.at.is_none() => Ok(Outage::Link(link)),
        Site::Node(node) if fault.is_down() && fault.at.is_none() => Ok(Outage::Node(node)),
        _ => Err(Failed::usage(
            format!("--fault `{text}` is neither a dead link nor a dead node"),
            "write `link 0,0,0 +X down` or `node 1,0,0 down`",
        )),
    }
}

/// Reads nodes by numbers and ranges (`0-7,12`), or a list of coordinates with semicolons (`0,0;1,0`).
pub(crate) fn parse_nodes(text: &str, shape: &Shape) -> Result<Vec<NodeId>, String> {
    if text.contains(';') {
        let id = |part: &str| shape.parse_coords(part.trim()).map(|at| shape.id(at).expect("coordinates were checked"));
        return text.split(';').map(|part| id(part).map_err(|e| e.to_string())).collect();
    }
    let count = shape.nodes() as NodeId;
    let mut nodes = Vec::new();
    for part in text.split(',') {
        let number = |digits: &str| digits.trim().parse::<NodeId>().ok().filter(|node| *node < count);
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => nodes.extend(first..=last),
            _ => return Err(format!("`{part}` is no range of nodes of {shape} (0 to {})", count - 1)),
        }
    }
    Ok(nodes)
}

/// The coordinates of nodes.
pub(crate) fn shown(shape: &Shape, nodes: &[NodeId]) -> Vec<String> {
    nodes.iter().map(|&node| shape.show(shape.coords(node))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbers_ranges_or_coordinates() {
        let shape: Shape = "4x2".parse().unwrap();
        assert_eq!(parse_nodes("0-3, 7,5", &shape), Ok(vec![0, 1, 2, 3, 7, 5]));
        assert_eq!(parse_nodes("0,1; 3,0", &shape), Ok(vec![4, 3]));
        for bad in ["", "1,,2", "3-1", "a", "0-8", "-1", "0,1;4,0"] {
            assert!(parse_nodes(bad, &shape).is_err(), "{bad}");
        }
    }

    #[test]
    fn dead_nodes_are_a_fraction_and_more_of_them_include_fewer() {
        assert_eq!((fraction("1%"), fraction("0.25")), (Ok(0.01), Ok(0.25)));
        assert!(["100%", "-1", "x", ""].iter().all(|bad| fraction(bad).is_err()));
        let dead = |fraction| {
            let torus = "8x8".parse().unwrap();
            let args = MachineArgs { torus, faults: Vec::new(), dead_nodes: Some(fraction), dead_seed: 3 };
            let machine = args.machine().unwrap();
            (0..64).filter(|n| machine.is_dead(*n)).collect::<Vec<_>>()
        };
        let (few, more) = (dead(0.05), dead(0.25));
        assert_eq!((few.len(), more.len()), (3, 16));
        assert!(few.iter().all(|n| more.contains(n)));
    }
}
