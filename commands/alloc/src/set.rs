//! `angara alloc set` and `angara alloc check`: a set of a machine with dead and busy parts, and its route tables.

use super::machine::{MachineArgs, Policy, parse_nodes, shown};
use angara_cli::shared::out_file;
use angara_control::error::{Failed, print_json, say};
use angara_fabric::Ways;
use angara_net::torus::{NodeId, Shape};
use angara_placement::{CutOff, Machine, NodeSet, SetTables, connected};
use angara_protocol::whole_file::write_whole;
use angara_sim::plan::routes::{RouteTable, check_file};
use angara_sim::toml_file::TomlFile;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Sets with more nodes have no table: it would have an entry for each pair.
const TABLE_NODES: usize = angara_fabric::TABLE_NODES;

#[derive(Args, Debug)]
struct Output {
    /// Which of a pair's shortest ways it takes
    #[arg(long, value_enum, default_value = "spread")]
    routes: RoutesArg,
    /// Write the routes into FILE, as `angara plan routes --check` reads them
    #[arg(long, value_name = "FILE", value_parser = out_file())]
    write: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Nodes for processes
    #[arg(short = 'n', long, value_name = "NODES")]
    nodes: usize,
    /// Nodes that other jobs hold: numbers and ranges, such as 0-7,12, or coordinates, such as `0,0;1,0`
    #[arg(long, value_name = "LIST")]
    taken: Option<String>,
    /// How the set is searched for
    #[arg(long, value_enum, default_value = "utilisation")]
    policy: Policy,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Nodes of the set: numbers and ranges, such as 0-7,12, or coordinates, such as `0,0;1,0`
    #[arg(long, value_name = "LIST")]
    nodes: String,
    /// Nodes of the set that only pass packets on
    #[arg(long, value_name = "LIST")]
    transit: Option<String>,
    /// Check the routes of FILE, as --write or somebody else has written them, instead of making some
    #[arg(long, value_name = "FILE", conflicts_with_all = ["routes", "write"])]
    table: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// How route tables choose among the shortest ways of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum RoutesArg {
    /// As the parity of its coordinates says
    Parity,
    /// As evens out the loads of links, in direction order
    Balanced,
    /// The same, also with first and last steps that leave direction order
    Spread,
}

impl RoutesArg {
    fn ways(self) -> Ways {
        match self {
            RoutesArg::Parity => Ways::Parity,
            RoutesArg::Balanced => Ways::Balanced,
            RoutesArg::Spread => Ways::Spread,
        }
    }
}

/// A set and its tables, as they are printed.
#[derive(Serialize)]
struct Found {
    torus: Shape,
    nodes: Vec<String>,
    transit: Vec<String>,
    /// Sets of more than 2,048 nodes have none.
    tables: Option<Tables>,
}

#[derive(Serialize)]
struct Tables {
    pairs: usize,
    mean_hops: f64,
    detours: usize,
    out_of_order: usize,
    links: usize,
    max_load: u64,
    mean_load: f64,
    bound: u64,
}

pub(crate) fn set(args: &SetArgs) -> Result<u8, Failed> {
    let mut machine = args.machine.machine()?;
    if let Some(taken) = &args.taken {
        // A range of nodes that others hold may have dead ones in it: nobody gets these anyway.
        let held = named("--taken", taken, machine.shape())?;
        machine.take(&NodeSet::of(held.into_iter().filter(|node| !machine.is_dead(*node)).collect()));
    }
    let wanted = args.nodes;
    if wanted == 0 || wanted > machine.working() {
        return Err(Failed::usage(
            format!("a set of {wanted} nodes in {}, of which {} nodes work", machine.shape(), machine.working()),
            "give 1 to that many (-n)",
        ));
    }
    let search = args.policy.search();
    let set = search.find(&machine, wanted).ok_or_else(|| {
        Failed::runtime(
            format!("{} finds no set of {wanted} nodes; {} are free", search.name(), machine.free()),
            "ask for fewer nodes, or try another --policy",
        )
    })?;
    let tables = match args.policy {
        // Its jobs share links with others: there is nothing to confine.
        Policy::Unconstrained => None,
        _ => tables(&machine, &set, args.output.routes.ways())?,
    };
    print(&machine, &set, tables, &args.output)
}

pub(crate) fn check(args: &CheckArgs) -> Result<u8, Failed> {
    let machine = args.machine.machine()?;
    let nodes = list("--nodes", &args.nodes, &machine)?;
    let transit = args.transit.as_ref().map_or(Ok(Vec::new()), |text| list("--transit", text, &machine))?;
    if let Some(both) = transit.iter().find(|node| nodes.contains(node)) {
        let both = &shown(machine.shape(), &[*both])[0];
        return Err(Failed::usage(format!("node {both} is in --nodes and in --transit"), "name it once"));
    }
    let set = NodeSet { transit, ..NodeSet::of(nodes) };
    if let Some(path) = &args.table {
        return table(&machine, &set, path);
    }
    let tables = tables(&machine, &set, args.output.routes.ways())?;
    print(&machine, &set, tables, &args.output)
}

fn wrong(option: &str, text: &str, why: String) -> Failed {
    Failed::usage(format!("{option} {text}: {why}"), "give nodes such as 0-7,12 or `0,0;1,0`")
}

/// Reads a list of nodes, ascending.
fn named(option: &str, text: &str, shape: &Shape) -> Result<Vec<NodeId>, Failed> {
    let wrong = |why: String| wrong(option, text, why);
    let mut nodes = parse_nodes(text, shape).map_err(wrong)?;
    nodes.sort_unstable();
    match nodes.windows(2).find(|w| w[0] == w[1]) {
        Some(twice) => Err(wrong(format!("node {} is named twice", twice[0]))),
        None => Ok(nodes),
    }
}

/// Reads a list of nodes that work.
fn list(option: &str, text: &str, machine: &Machine) -> Result<Vec<NodeId>, Failed> {
    let shape = machine.shape();
    let nodes = named(option, text, shape)?;
    let wrong = |why: String| wrong(option, text, why);
    if let Some(dead) = nodes.iter().find(|node| machine.is_dead(**node)) {
        return Err(wrong(format!("node {dead} ({}) is dead", shown(shape, &[*dead])[0])));
    }
    Ok(nodes)
}

/// The tables of a set in which all pairs have routes.
fn tables(machine: &Machine, set: &NodeSet, ways: Ways) -> Result<Option<SetTables>, Failed> {
    if set.nodes.len() > TABLE_NODES {
        return Ok(None);
    }
    connected(machine, set, ways).map(Some).map_err(|cut| cut_off(machine.shape(), set, &cut))
}

/// Checks a table of a file: it is of this torus, serves every pair of the set, stays inside, and has no circle.
fn table(machine: &Machine, set: &NodeSet, path: &Path) -> Result<u8, Failed> {
    let file = TomlFile::read(path).map_err(of_file)?;
    let table = RouteTable::read(&file).map_err(of_file)?;
    let shape = machine.shape();
    if table.torus != *shape {
        let why = format!("the table is for {}, not for {shape}", table.torus);
        let failed = of_file(file.error_at(0, &why));
        return Err(Failed { remedy: format!("give --torus {}", table.torus), ..failed });
    }
    let links = machine.links().inside(set);
    let mut missing: BTreeSet<(NodeId, NodeId)> =
        set.nodes.iter().flat_map(|a| set.nodes.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b).collect();
    for route in &table.routes {
        missing.remove(&(route.from, route.to));
        if let Some(link) = route.path.iter().find(|link| !links.up(**link)) {
            let why = format!("link {} is dead or leaves the set", link.show(shape));
            return Err(of_file(file.error_at(route.place, &why)));
        }
    }
    if let Some((from, to)) = missing.first() {
        let at = |node: &NodeId| shown(shape, &[*node]).remove(0);
        let why = format!("{} pairs of the set have no route, such as {} to {}", missing.len(), at(from), at(to));
        return Err(Failed::runtime(format!("{}: {why}", path.display()), "add their routes, or leave nodes out"));
    }
    let report = check_file(&file).map_err(of_file)?;
    say!("{} routes serve all pairs of {} nodes inside the set", table.routes.len(), set.nodes.len())?;
    say!("{}", report.text())?;
    Ok(0)
}

/// A failure of a file, with the exit code that it has.
fn of_file(e: angara_sim::Error) -> Failed {
    let (message, remedy, _) = e.parts();
    Failed::usage(message, remedy)
}

fn cut_off(shape: &Shape, set: &NodeSet, cut: &CutOff) -> Failed {
    let (from, to) = (&shown(shape, &[cut.example.0])[0], &shown(shape, &[cut.example.1])[0]);
    let nodes = shown(shape, &cut.nodes).join("; ");
    let message = format!(
        "{} of the {} pairs of the set have no route inside it, such as {from} to {to}; cut off: {nodes}",
        cut.pairs,
        set.nodes.len() * (set.nodes.len() - 1),
    );
    let remedy = match cut.joins.is_empty() {
        true => "leave these nodes out, or choose a set with `angara alloc set`".into(),
        false => {
            let all: Vec<NodeId> = set.transit.iter().chain(&cut.joins).copied().collect();
            let all: Vec<String> = all.iter().map(NodeId::to_string).collect();
            format!("--transit {} joins them ({})", all.join(","), shown(shape, &cut.joins).join("; "))
        }
    };
    Failed::runtime(message, remedy)
}

fn print(machine: &Machine, set: &NodeSet, tables: Option<SetTables>, output: &Output) -> Result<u8, Failed> {
    let shape = *machine.shape();
    if let (Some(path), Some(tables)) = (&output.write, &tables) {
        write_whole(path, routes(&shape, set, tables)).map_err(|e| Failed::unwritten(path.display(), &e))?;
    }
    let found = Found {
        torus: shape,
        nodes: shown(&shape, &set.nodes),
        transit: shown(&shape, &set.transit),
        tables: tables.map(|t| Tables {
            pairs: t.pairs,
            mean_hops: t.mean_hops,
            detours: t.detours,
            out_of_order: t.out_of_order,
            links: t.links,
            max_load: t.max_load,
            mean_load: t.mean_load,
            bound: t.bound,
        }),
    };
    if output.json {
        return print_json(&found).map(|()| 0);
    }
    say!("{} nodes of {shape}: {}", found.nodes.len(), found.nodes.join(" "))?;
    if !found.transit.is_empty() {
        say!("{} transit nodes: {}", found.transit.len(), found.transit.join(" "))?;
    }
    let Some(t) = &found.tables else { return Ok(0) };
    say!("routes of {} pairs stay inside, free of deadlock: {:.3} hops on average", t.pairs, t.mean_hops)?;
    if t.detours > 0 {
        say!("{} have a first or last step, {} leave direction order", t.detours, t.out_of_order)?;
    }
    say!(
        "packets per link when every pair sends one: {} at most, {:.2} on average over {} links; no table has less than {}",
        t.max_load,
        t.mean_load,
        t.links,
        t.bound
    )?;
    Ok(0)
}

/// The routes as a file.
fn routes(shape: &Shape, set: &NodeSet, tables: &SetTables) -> String {
    let mut text = format!("torus = \"{shape}\"\n");
    for (&from, &to) in set.nodes.iter().flat_map(|a| set.nodes.iter().map(move |b| (a, b))) {
        let Some(path) = tables.routes.path(from, to).filter(|path| !path.is_empty()) else { continue };
        let path: Vec<String> = path.iter().map(|link| format!("\"{}\"", link.dir)).collect();
        let at = |node| shape.show(shape.coords(node));
        let _ = write!(text, "[[route]]\nfrom = \"{}\"\nto = \"{}\"\npath = [{}]\n", at(from), at(to), path.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::AllocArgs;
    use angara_control::error::Failed;
    use clap::Parser;
    use std::path::PathBuf;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: AllocArgs,
    }

    fn alloc(line: &str) -> Result<u8, Failed> {
        crate::alloc(Command::parse_from(["alloc"].into_iter().chain(line.split(' '))).args)
    }

    fn refused(line: &str) -> String {
        let e = alloc(line).expect_err(line);
        assert!(e.code > 0 && !e.remedy.is_empty(), "{e:?}");
        format!("{}; try: {}", e.message, e.remedy)
    }

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("angara-alloc-{}-{name}.toml", std::process::id()))
    }

    #[test]
    fn what_others_hold_may_have_dead_nodes_in_it() {
        assert_eq!(
            alloc("set --torus 8x8 -n 4 --taken 0-31 --dead-nodes 20% --dead-seed 1").map_err(|e| e.message),
            Ok(0)
        );
        let e = refused("set --torus 8x8 -n 4 --taken 0-31,5");
        assert!(e.contains("node 5 is named twice"), "{e}");
        assert!(refused("check --torus 8x8 --nodes 0-31 --dead-nodes 20% --dead-seed 1").contains("is dead"));
    }

    #[test]
    fn who_is_cut_off_and_what_joins_them_is_said() {
        let e = refused("check --torus 8x8 --nodes 0,2,9");
        assert!(e.contains("6 of the 6 pairs") && e.contains("0,0 to 2,0") && e.contains("--transit 1 joins"), "{e}");
        let e = refused("check --torus 8x1 --nodes 0,4 --transit 4");
        assert!(e.contains("in --nodes and in --transit"), "{e}");
        assert!(refused("check --torus 4x4 --nodes 3,3").contains("node 3 is named twice"));
        assert!(refused("check --torus 4x4 --nodes 3,16").contains("`16` is no range of nodes of 4x4"));
    }

    #[test]
    fn sets_larger_than_the_machine_are_refused() {
        assert!(refused("set --torus 4x4 -n 17").contains("of which 16 nodes work"));
        assert!(
            refused("set --torus 4x4 -n 5 --taken 0-12 --policy closed").contains("closed finds no set of 5 nodes")
        );
    }

    #[test]
    fn written_tables_are_checked_and_tables_of_other_machines_refused() {
        let path = file("table");
        let shown = path.display().to_string();
        assert_eq!(alloc(&format!("check --torus 4x4 --nodes 0-2,4,6 --transit 5 --write {shown}")), Ok(0));
        let check = |rest: &str| format!("check --torus 4x4 {rest} --table {shown}");
        assert_eq!(alloc(&check("--nodes 0-2,4,6 --transit 5")), Ok(0));
        let other = refused(&format!("check --torus 8x8 --nodes 0-2 --table {shown}"));
        assert!(other.contains(":1: the table is for 4x4, not for 8x8") && other.contains("--torus 4x4"), "{other}");
        let outside = alloc(&check("--nodes 0-2,4,6")).expect_err("without node 5");
        assert!(outside.message.contains("is dead or leaves the set"), "{outside:?}");
        assert!(refused(&check("--nodes 0-6")).contains("pairs of the set have no route"));
        std::fs::remove_file(path).unwrap();
    }
}
