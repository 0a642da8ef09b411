//! `angara alloc set`: one set of a machine with dead and busy parts.

use angara_alloc::{BestFitBox, FirstFitBox, Machine, NodeSet, Search, Unconstrained};
use angara_client::error::{Failed, print_json, say};
use angara_fabric::Outage;
use angara_net::fault::{Fault, Site};
use angara_net::torus::{NodeId, Shape};
use clap::{Args, ValueEnum};
use serde::Serialize;

/// How a set is searched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Policy {
    /// The first free box, smallest first
    FirstFitBox,
    /// The free box of that size which touches most nodes that are taken or dead
    BestFitBox,
    /// The free nodes with the lowest numbers; packets of jobs cross each other
    Unconstrained,
}

impl Policy {
    pub(crate) fn search(self) -> &'static dyn Search {
        match self {
            Policy::FirstFitBox => &FirstFitBox,
            Policy::BestFitBox => &BestFitBox,
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
}

impl MachineArgs {
    pub(crate) fn machine(&self) -> Result<Machine, Failed> {
        Ok(Machine::new(self.torus, &self.outages()?))
    }

    fn outages(&self) -> Result<Vec<Outage>, Failed> {
        self.faults.iter().map(|text| outage(text, &self.torus)).collect()
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

#[derive(Args, Debug)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Nodes for processes
    #[arg(short = 'n', long, value_name = "NODES")]
    nodes: usize,
    /// How the set is searched for
    #[arg(long, value_enum, default_value = "first-fit-box")]
    policy: Policy,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Found {
    torus: String,
    policy: &'static str,
    nodes: Vec<String>,
    transit: Vec<String>,
}

pub(crate) fn main(args: &SetArgs) -> Result<u8, Failed> {
    let machine = args.machine.machine()?;
    let set = find(&machine, args.policy, args.nodes)?;
    let show = |nodes: &[NodeId]| nodes.iter().map(|&n| machine.shape().show(machine.shape().coords(n))).collect();
    let found = Found {
        torus: machine.shape().to_string(),
        policy: args.policy.search().name(),
        nodes: show(&set.nodes),
        transit: show(&set.transit),
    };
    if args.json {
        return print_json(&found).map(|()| 0);
    }
    say!("{} nodes by {}: {}", found.nodes.len(), found.policy, found.nodes.join(" "))?;
    if !found.transit.is_empty() {
        say!("{} transit nodes: {}", found.transit.len(), found.transit.join(" "))?;
    }
    Ok(0)
}

fn find(machine: &Machine, policy: Policy, wanted: usize) -> Result<NodeSet, Failed> {
    if wanted == 0 || wanted > machine.working() {
        return Err(Failed::usage(
            format!("a set of {wanted} nodes in {}, of which {} nodes work", machine.shape(), machine.working()),
            "give 1 to that many (-n)",
        ));
    }
    policy.search().find(machine, wanted).ok_or_else(|| {
        Failed::runtime(
            format!("{} finds no set of {wanted} nodes; {} are free", policy.search().name(), machine.free()),
            "ask for fewer nodes, or try another --policy",
        )
    })
}
