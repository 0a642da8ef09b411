//! Time series: what a network carried, held and kept waiting in every N cycles.
//!
//! Rows are written as the run goes, so that a long one takes no memory. Counting begins with the first cycle and ends
//! with the last: the sums over all rows are those of the run.

use crate::Error;
use angara_model::topology::End;
use angara_model::{AnyTopology, Network, Setup, Totals, Waits};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// When to write rows, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Every {
    /// Cycles between rows.
    pub cycles: u64,
    /// Directory of the files.
    pub dir: PathBuf,
}

/// The series of one run.
pub struct Series {
    every: u64,
    /// End of the present interval: what happens before this cycle belongs to it.
    next: u64,
    /// End of the last one.
    last: u64,
    outputs: Vec<Output>,
    totals: Totals,
    /// The network says who waits, and how full its buffers are.
    waits: bool,
    whole: Rows,
    links: Rows,
}

/// An output, and what it had counted at the end of the last interval.
struct Output {
    router: u32,
    port: u8,
    /// Router, port, name, and what it leads to, as columns.
    columns: String,
    before: Counts,
}

/// What went through an output, and what did not.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    packets: u64,
    flits: u64,
    waits: Waits,
}

impl Counts {
    fn of(network: &Network, router: u32, port: u8) -> Counts {
        let load = network.link_load(router, port);
        Counts { packets: load.packets, flits: load.flits, waits: network.waits(router, port) }
    }
    fn since(self, earlier: Counts) -> Counts {
        let (packets, flits) = (self.packets - earlier.packets, self.flits - earlier.flits);
        Counts { packets, flits, waits: self.waits.since(earlier.waits) }
    }
    fn and(self, other: Counts) -> Counts {
        let (packets, flits) = (self.packets + other.packets, self.flits + other.flits);
        Counts { packets, flits, waits: self.waits.and(other.waits) }
    }
}

/// A file that grows by lines.
struct Rows {
    path: PathBuf,
    file: BufWriter<File>,
    /// The first error: a run does not end because a disk is full.
    failed: Option<std::io::Error>,
}

impl Rows {
    fn create(path: PathBuf) -> Result<Rows, Error> {
        match File::create(&path) {
            Ok(file) => Ok(Rows { path, file: BufWriter::new(file), failed: None }),
            Err(source) => Err(Error::File { path, source }),
        }
    }
    fn row(&mut self, columns: std::fmt::Arguments<'_>) {
        if self.failed.is_none() {
            self.failed = writeln!(self.file, "{columns}").err();
        }
    }
    fn finish(mut self) -> Result<(), Error> {
        match self.failed.or(self.file.flush().err()) {
            Some(source) => Err(Error::File { path: self.path, source }),
            None => Ok(()),
        }
    }
}

impl Series {
    /// Begins the series of `network`, set up as `setup`.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn begin(every: &Every, network: &mut Network, setup: &Setup) -> Result<Series, Error> {
        network.count_links();
        let waits = network.count_waits();
        let mut whole = Rows::create(every.dir.join("series.csv"))?;
        let mut links = Rows::create(every.dir.join("series-links.csv"))?;
        let more = if waits { ",occupied_flits,wait_channel,wait_credit,wait_switch" } else { "" };
        whole.row(format_args!("cycle,cycles,created,arrived,arrived_flits,lost,under_way,packets,flits{more}"));
        links.row(format_args!("cycle,cycles,router,port,name,to,packets,flits{more}"));
        let (outputs, totals) = (outputs(&setup.shape), Totals::default());
        Ok(Series { every: every.cycles, next: every.cycles, last: 0, outputs, totals, waits, whole, links })
    }

    /// The cycle with which the present interval ends.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Lets `network` go on to the last interval that ends before or with `cycle`, with a row for each.
    pub fn advance(&mut self, network: &mut Network, cycle: u64) {
        while self.next <= cycle {
            network.advance(self.next * network.cycle() - 1);
            self.end_interval(network, self.next);
        }
    }

    /// Ends the last interval, which may be shorter, and writes what is left.
    ///
    /// # Errors
    /// A row could not be written.
    pub fn finish(mut self, network: &Network, cycle: u64) -> Result<(), Error> {
        if cycle > self.last {
            self.end_interval(network, cycle);
        }
        self.whole.finish()?;
        self.links.finish()
    }

    /// Ends an interval: in `network` everything before `cycle` has happened, and nothing else.
    fn end_interval(&mut self, network: &Network, cycle: u64) {
        let cycles = cycle - self.last;
        let (mut sum, mut held) = (Counts::default(), 0);
        for output in &mut self.outputs {
            let now = Counts::of(network, output.router, output.port);
            let counts = now.since(std::mem::replace(&mut output.before, now));
            let occupied = network.occupied(output.router, output.port);
            (sum, held) = (sum.and(counts), held + occupied);
            if (counts, occupied) != (Counts::default(), 0) {
                let Counts { packets, flits, waits } = counts;
                let more = columns(self.waits, occupied, waits);
                self.links.row(format_args!("{cycle},{cycles},{},{packets},{flits}{more}", output.columns));
            }
        }
        let (now, before) = (network.counters(), self.totals);
        let (created, lost) = (now.injected - before.injected, now.lost - before.lost);
        let (arrived, arrived_flits) = (now.delivered - before.delivered, now.delivered_flits - before.delivered_flits);
        let under_way = now.injected - now.delivered - now.lost;
        let Counts { packets, flits, waits } = sum;
        let more = columns(self.waits, held, waits);
        self.whole.row(format_args!(
            "{cycle},{cycles},{created},{arrived},{arrived_flits},{lost},{under_way},{packets},{flits}{more}"
        ));
        (self.totals, self.last, self.next) = (now, cycle, cycle + self.every);
    }
}

/// What only some networks tell.
fn columns(told: bool, occupied: u64, waits: Waits) -> String {
    let Waits { channel, credit, switch } = waits;
    if told { format!(",{occupied},{channel},{credit},{switch}") } else { String::new() }
}

/// All outputs of `shape` that lead somewhere.
fn outputs(shape: &AnyTopology) -> Vec<Output> {
    let places = (0..shape.routers() as u32).flat_map(|r| (0..shape.ports() as u8).map(move |p| (r, p)));
    let output = |(router, port)| {
        let to = match shape.output(router, port) {
            End::Open => return None,
            End::Router { .. } => "router",
            End::Endpoint(_) => "endpoint",
        };
        let name = format!("{} {}", shape.router_name(router), shape.port_name(port));
        let columns = format!("{router},{port},\"{name}\",{to}");
        Some(Output { router, port, columns, before: Counts::default() })
    };
    places.filter_map(output).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Keys;
    use serde_json::{Map, Value};
    use std::collections::HashMap;
    use std::ops::ControlFlow;

    /// Rows of a file by the names of their columns.
    type Table = Vec<HashMap<String, u64>>;

    /// The result of a run and its two files, with a row every `cycles` cycles if there is to be one.
    fn run(name: &str, settings: &str, threads: usize, cycles: Option<u64>) -> (Map<String, Value>, [String; 2]) {
        let dir = std::env::temp_dir().join(format!("angara-series-{}-{name}-{threads}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let list = dir.join("list");
        std::fs::write(&list, "0 3 5 4\n0 1 5 4\n").unwrap();
        let settings = settings.replace("LIST", list.to_str().unwrap());
        let keys: Keys = toml::from_str(&settings).unwrap();
        let mut simulation = keys.resolve().map_err(|e| e.0).unwrap();
        let experiment = &mut simulation.experiment;
        experiment.threads = threads;
        experiment.observe.links = true;
        experiment.observe.series = cycles.map(|cycles| Every { cycles, dir: dir.clone() });
        let mut json = simulation.run(&mut |_| ControlFlow::Continue(())).unwrap().json;
        for key in ["wall_s", "packet_hops_per_s", "flit_hops_per_s", "peak_rss_bytes", "model_bytes", "threads"] {
            json.remove(key);
        }
        let read = |name| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        let files = ["series.csv", "series-links.csv"].map(read);
        std::fs::remove_dir_all(&dir).unwrap();
        (json, files)
    }

    fn table(csv: &str) -> Table {
        let mut lines = csv.lines();
        let names: Vec<&str> = lines.next().unwrap().split(',').collect();
        // Names of routers have commas, in quotes.
        let plain = |line: &str| line.split('"').step_by(2).collect::<Vec<_>>().join("name");
        let row = |line: &str| {
            let line = plain(line);
            names.iter().zip(line.split(',')).map(|(n, v)| (n.to_string(), v.parse().unwrap_or(0))).collect()
        };
        lines.map(row).collect()
    }

    fn sum(table: &Table, name: &str) -> u64 {
        table.iter().map(|row| row[name]).sum()
    }

    const NETWORKS: [(&str, &str, bool); 4] = [
        ("cut-through", "topology = \"torus:4x4\"\nrouter = \"generic\"\nlength = \"1:0.5,5:0.5\"\nload = 0.5\n", true),
        (
            "wormhole",
            "topology = \"mesh:4x4\"\nrouter = \"generic\"\nswitching = \"wormhole\"\nbuffer = 4\nlength = 6\nload = 0.3\n",
            true,
        ),
        (
            "hold",
            "topology = \"mesh:4x4\"\nrouter = \"generic\"\nswitching = \"wormhole\"\nhold-switch = true\nbuffer = 4\nlength = 6\nload = 0.3\n",
            true,
        ),
        ("angara", "topology = \"torus:4x4\"\nlength = 3\nload = 0.2\nrouting = \"adaptive\"\n", false),
    ];

    #[test]
    fn sums_are_those_of_the_run_and_of_the_links() {
        for (name, network, waits) in NETWORKS {
            let (json, files) = run(name, &format!("{network}warmup = 0\ncycles = 1490\n"), 1, Some(100));
            let [whole, links] = files.each_ref().map(|file| table(file));
            assert_eq!((whole.len(), sum(&whole, "cycles")), (15, 1490), "{name}");
            for (column, field) in
                [("created", "created"), ("arrived", "packets"), ("packets", "packet_hops"), ("flits", "flit_hops")]
            {
                assert_eq!(sum(&whole, column), json[field].as_u64().unwrap(), "{name}: {column}");
            }
            assert_eq!(whole[14]["under_way"], json["under_way"].as_u64().unwrap(), "{name}");
            let both = ["packets", "flits", "occupied_flits", "wait_channel", "wait_credit", "wait_switch"];
            for column in &both[..if waits { 6 } else { 2 }] {
                for row in &whole {
                    let of_links = links.iter().filter(|of| of["cycle"] == row["cycle"]);
                    assert_eq!(of_links.map(|of| of[*column]).sum::<u64>(), row[*column], "{name}: {column}, {row:?}");
                }
                assert!(sum(&whole, column) > 0, "{name}: {column}");
            }
        }
    }

    #[test]
    fn neither_result_nor_series_depends_on_threads_or_the_other() {
        for (name, network, _) in NETWORKS {
            for more in ["warmup = 300\ncycles = 1000", "cycles-max = 3000"] {
                let settings = format!("{network}{more}");
                let name = format!("threads-{name}");
                let (json, files) = run(&name, &settings, 1, Some(37));
                assert!(files.iter().all(|file| file.lines().count() > 20), "{name}");
                assert_eq!(run(&name, &settings, 3, Some(37)), (json.clone(), files), "{name}");
                assert_eq!(run(&name, &settings, 1, None).0, json, "{name}");
            }
        }
    }

    #[test]
    fn a_packet_waits_as_long_as_the_other_needs() {
        // Two packets of 4 flits reach node 5 over as many routers, and its port takes one after the other.
        for (switching, latency) in [("cut-through", 19.0), ("wormhole", 20.5)] {
            let settings = format!(
                "topology = \"mesh:3x3\"\nrouter = \"generic\"\nswitching = \"{switching}\"\nworkload = \"list:LIST\"\n"
            );
            let (json, [whole, links]) = run(switching, &settings, 1, Some(1000));
            // Alone, each takes 4 · 3 + 2 + 3 cycles.
            let waited = json["packet_latency_cycles"].as_f64().unwrap() * 2.0 - 34.0;
            assert_eq!(waited, (latency - 17.0) * 2.0, "{switching}");
            let [whole, links] = [whole, links].map(|file| table(&file));
            let waits = ["wait_channel", "wait_credit", "wait_switch"].map(|column| sum(&whole, column));
            // The second packet waits 4 cycles for the port of node 5, the first of them for a channel. Flit by flit, both
            // wait in turn.
            assert_eq!(waits, if switching == "cut-through" { [1, 0, 3] } else { [1, 0, 6] }, "{switching}");
            let places: Vec<u64> = links.iter().filter(|of| of["wait_switch"] > 0).map(|of| of["router"]).collect();
            assert_eq!(places, [5], "{switching}");
            assert_eq!(whole[0]["occupied_flits"], 0, "nothing is left");
        }
    }
}
