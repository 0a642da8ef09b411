//! `angara alloc map`: which process goes to which node, by what the processes send each other.

use super::machine::{MachineArgs, parse_nodes};
use angara_cli::shared::out_file;
use angara_control::error::{Failed, print, print_json, say};
use angara_control::report::table::{Table, bytes};
use angara_net::torus::NodeId;
use angara_placement::mapping::{self, Effort, MappingError, Sites, Traffic};
use angara_protocol::whole_file::write_whole;
use angara_sim::run::Experiment;
use angara_sim::settings::Keys;
use angara_sim::table::number;
use angara_sim::workload::exchange::{divisor, exchange};
use angara_traffic::{Count, Volumes};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  angara run -n 64 --report out.json ./heat2d
  angara alloc map --torus 4x4x4 --traffic out.json --write places.txt
  angara run -n 64 --torus 4x4x4 --map file:places.txt ./heat2d")]
pub(crate) struct MapArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Nodes that take processes, by number, such as `0-7,12` [default: all that work]
    #[arg(long, value_name = "LIST")]
    nodes: Option<String>,
    /// Most processes on a node
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    ppn: u32,
    /// Number of processes [default: as many as the file has; of a matrix in lines `SRC DST BYTES`, as have room]
    #[arg(short = 'n', long = "np", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    processes: Option<u32>,
    /// What processes send each other: a report (`angara run --report`), a recording (`--record`), or a matrix of bytes
    #[arg(long, value_name = "FILE")]
    traffic: PathBuf,
    /// Write the placement to this file, for `angara run --map file:F`
    #[arg(long, value_name = "FILE", value_parser = out_file())]
    write: Option<PathBuf>,
    /// Random placements to compare with
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    randoms: u32,
    /// Seed of random placements and of the search
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Most packets of a simulation: bytes are divided until there are no more, or one for each pair; 0 for none
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    packets: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Figures of a placement, or means of several.
#[derive(Serialize)]
struct Row {
    placement: String,
    hop_bytes: f64,
    hops_per_byte: f64,
    /// Bytes on the link that carries most.
    link_bytes: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    /// Time of the exchange in the simulated network, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Answer {
    torus: String,
    nodes: usize,
    ppn: u32,
    processes: u32,
    pairs: usize,
    bytes: u64,
    /// Bytes that a rate of 1 became.
    #[serde(skip_serializing_if = "Option::is_none")]
    scale: Option<f64>,
    /// Divisor of bytes in simulations.
    #[serde(skip_serializing_if = "Option::is_none")]
    divisor: Option<u64>,
    seed: u64,
    placements: Vec<Row>,
}

pub(crate) fn main(args: &MapArgs) -> Result<u8, Failed> {
    let sites = args.sites()?;
    let volumes = args.volumes(&sites)?;
    let traffic = Traffic::new(volumes.processes, volumes.pairs.iter().copied()).map_err(|e| args.refused(&e))?;
    let compared = Compared::new(args, &sites, &traffic)?;
    let refused = |e: MappingError| args.refused(&e);
    let linear = sites.linear(volumes.processes).map_err(refused)?;
    let auto = mapping::map(&traffic, &sites, Effort::seeded(args.seed)).map_err(refused)?;
    let mut rows = vec![compared.row("linear", &[linear])?];
    let random = |k: u32| sites.random(volumes.processes, args.seed.wrapping_add(k.into()));
    let random = (0..args.randoms).map(random).collect::<Result<Vec<_>, _>>().map_err(refused)?;
    rows.push(compared.row(&format!("random, mean of {}", args.randoms), &random)?);
    rows.push(compared.row("auto", std::slice::from_ref(&auto.nodes))?);
    compared.bar.finish_and_clear();
    if let Some(file) = &args.write {
        let text = written(args, &sites, &auto.nodes);
        write_whole(file, text.as_bytes()).map_err(|e| Failed::unwritten(file.display(), &e))?;
    }
    let answer = Answer {
        torus: sites.shape().to_string(),
        nodes: sites.nodes().len(),
        ppn: args.ppn,
        processes: volumes.processes,
        pairs: traffic.pairs().len(),
        bytes: traffic.bytes(),
        scale: volumes.scale,
        divisor: compared.network.as_ref().map(|_| compared.divisor),
        seed: args.seed,
        placements: rows,
    };
    if args.json {
        return print_json(&answer).map(|()| 0);
    }
    answer.show(args).map(|()| 0)
}

impl MapArgs {
    fn sites(&self) -> Result<Sites, Failed> {
        let machine = self.machine.machine()?;
        let count = machine.shape().nodes() as NodeId;
        let nodes = match &self.nodes {
            Some(list) => parse_nodes(list, machine.shape()).map_err(|why| {
                Failed::usage(format!("--nodes {list}: {why}"), "give nodes such as 0-7,12 or `0,0;1,0`")
            })?,
            None => (0..count).filter(|&node| machine.is_free(node)).collect(),
        };
        Sites::new(*machine.shape(), &self.machine.outages()?, nodes, self.ppn).map_err(|e| {
            let remedy =
                format!("name nodes of {} that work and reach each other: 0 to {}", machine.shape(), count - 1);
            Failed::usage(format!("--nodes: {e}"), remedy)
        })
    }

    fn volumes(&self, sites: &Sites) -> Result<Volumes, Failed> {
        let places = u32::try_from(sites.places()).unwrap_or(u32::MAX);
        if let Some(processes) = self.processes.filter(|&processes| processes > places) {
            let e = MappingError::TooMany { processes, nodes: sites.nodes().len(), ppn: self.ppn };
            return Err(self.refused(&e));
        }
        let count = self.processes.map_or(Count::UpTo(places), Count::Exactly);
        Volumes::read("--traffic", &self.traffic, count).map_err(|e| of_simulator(&e.into()))
    }

    fn refused(&self, e: &MappingError) -> Failed {
        Failed::usage(
            format!("{}: {e}", self.traffic.display()),
            "give more nodes (--torus, --nodes), more processes on each (--ppn), or another --traffic",
        )
    }
}

fn of_simulator(e: &angara_sim::Error) -> Failed {
    let (message, remedy, usage) = e.parts();
    if usage { Failed::usage(message, remedy) } else { Failed::runtime(message, remedy) }
}

/// The placement as a file for `--map file:F`.
fn written(args: &MapArgs, sites: &Sites, nodes: &[NodeId]) -> String {
    let from = args.traffic.display().to_string().replace(['\n', '\r'], " ");
    let mut text = format!("# {} processes of {from} on {}\n", nodes.len(), sites.shape());
    for node in shown(sites, nodes) {
        let _ = writeln!(text, "{node}");
    }
    text
}

fn shown(sites: &Sites, nodes: &[NodeId]) -> Vec<String> {
    let shape = sites.shape();
    nodes.iter().map(|&node| shape.show(shape.coords(node))).collect()
}

/// What placements are compared by.
struct Compared<'a> {
    sites: &'a Sites,
    traffic: &'a Traffic,
    /// The network of simulations; none if there are to be none.
    network: Option<Experiment>,
    divisor: u64,
    bar: ProgressBar,
}

impl<'a> Compared<'a> {
    fn new(args: &MapArgs, sites: &'a Sites, traffic: &'a Traffic) -> Result<Compared<'a>, Failed> {
        let shape = sites.shape();
        let topology = if shape.is_torus() { format!("torus:{shape}") } else { shape.to_string() };
        let keys = Keys {
            topology: Some(topology.parse().expect("a torus or mesh of the chip is one of simulations, too")),
            fault: (!args.machine.faults.is_empty()).then(|| args.machine.faults.clone()),
            ..Keys::default()
        };
        let simulates = args.packets > 0 && shape.nodes() > 1;
        let network = simulates.then(|| keys.resolve().map_err(|(e, _)| of_simulator(&e)));
        let network = network.transpose()?.map(|simulation| simulation.experiment);
        let bytes: Vec<u64> = traffic.pairs().iter().map(|&(.., bytes)| bytes).collect();
        let divisor = network.as_ref().map_or(1, |network| divisor(network, &bytes, args.packets));
        let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %").expect("a template");
        Ok(Compared { sites, traffic, network, divisor, bar: ProgressBar::new(1).with_style(style) })
    }

    /// Means of placements that are called `name`.
    fn row(&self, name: &str, placements: &[Vec<NodeId>]) -> Result<Row, Failed> {
        let costs = placements.iter().map(|nodes| mapping::cost(self.traffic, self.sites, nodes));
        let no_route = |e: MappingError| Failed::runtime(e.to_string(), "give fewer faults");
        let costs = costs.collect::<Result<Vec<_>, _>>().map_err(no_route)?;
        let mut times = Vec::new();
        for (i, nodes) in placements.iter().enumerate() {
            self.bar.set_message(match placements.len() {
                1 => format!("simulating {name}"),
                count => format!("simulating {name}: {} of {count}", i + 1),
            });
            times.extend(self.simulated(nodes)?);
        }
        let count = placements.len() as f64;
        let mean = |of: fn(&mapping::Cost) -> u64| costs.iter().map(|cost| of(cost) as f64).sum::<f64>() / count;
        let hop_bytes = mean(|cost| cost.hop_bytes);
        let one = placements.len() == 1;
        let link = costs[0].link.filter(|_| one).map(|link| link.show(&self.sites.shape()));
        Ok(Row {
            placement: name.into(),
            hop_bytes,
            hops_per_byte: hop_bytes / self.traffic.bytes() as f64,
            link_bytes: mean(|cost| cost.link_bytes),
            link,
            simulated_ns: (!times.is_empty()).then(|| times.iter().sum::<f64>() / count),
            nodes: one.then(|| shown(self.sites, &placements[0])),
        })
    }

    /// Nanoseconds that the network takes for all messages, sent at once.
    fn simulated(&self, nodes: &[NodeId]) -> Result<Option<f64>, Failed> {
        let Some(network) = &self.network else { return Ok(None) };
        let node = |process: u32| nodes[process as usize];
        let pairs = self.traffic.pairs().iter();
        let messages: Vec<(u32, u32, u64)> =
            pairs.map(|&(from, to, bytes)| (node(from), node(to), bytes.div_ceil(self.divisor))).collect();
        let done = exchange(network, &messages, &mut |progress| {
            self.bar.set_length(progress.of.max(1));
            self.bar.set_position(progress.done);
            ControlFlow::Continue(())
        });
        done.map(|done| Some(done.time as f64 / 1000.0)).map_err(|e| of_simulator(&e))
    }
}

impl Answer {
    fn show(&self, args: &MapArgs) -> Result<(), Failed> {
        let Answer { torus, nodes, ppn, processes, pairs, seed, .. } = self;
        let all = bytes(self.bytes);
        say!("{processes} processes send {all} in {pairs} pairs, on {nodes} nodes of {torus}, up to {ppn} on each")?;
        if let Some(scale) = self.scale {
            say!("rates, not bytes: a rate of 1 is {} bytes", number(scale, 4))?;
        }
        let mut table =
            Table::new(&["placement", ">hop-bytes", ">hops per byte", ">greatest link load", ">simulated, us"]);
        for row in &self.placements {
            table.row(&[
                row.placement.clone(),
                bytes(row.hop_bytes.round() as u64),
                format!("{:.3}", row.hops_per_byte),
                bytes(row.link_bytes.round() as u64),
                row.simulated_ns.map_or_else(|| "-".into(), |ns| number(ns / 1000.0, 4)),
            ]);
        }
        print(table.render())?;
        if let Some(divisor) = self.divisor.filter(|divisor| *divisor > 1) {
            say!("simulated with all bytes divided by {divisor}; --packets sets how many packets there may be")?;
        }
        say!("seed {seed}")?;
        if let Some(file) = &args.write {
            say!("auto is in {0}: angara run -n {processes} --torus {torus} --map file:{0} …", file.display())?;
        }
        Ok(())
    }
}
