//! Samples of several libraries, put side by side: medians, spreads, ratios, floors, goals.
//!
//! The runs alternate, so the n-th sample of one library was taken next to the n-th of another: a
//! ratio is the median of the ratios of such neighbours, which moves less than the ratio of two
//! medians on a machine that does other things too.

use angara_control::report::table::Table;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Why a library has no figures for a number of PEs.
pub(crate) struct Outcome {
    /// What was run.
    pub what: &'static str,
    /// What happened.
    pub why: String,
}

/// A quantity at a number of PEs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    pes: u32,
    name: String,
}

/// All samples.
pub(crate) struct Results {
    /// Our own paths first.
    libraries: Vec<String>,
    ours: usize,
    /// In the order they were first seen.
    keys: Vec<(Key, String)>,
    samples: BTreeMap<(Key, usize), Vec<f64>>,
    failures: BTreeMap<(usize, u32), Outcome>,
}

/// What a goal compares with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Against {
    /// The first peer.
    First,
    /// The second peer.
    Second,
    /// The best of all peers.
    Best,
    /// The machine's own floor.
    Floor,
    /// Nothing: the value itself.
    Value,
}

/// What this library wants to reach, with 2 PEs if not said otherwise.
struct Goal {
    name: &'static str,
    pes: u32,
    limit: f64,
    against: Against,
}

const fn goal(name: &'static str, pes: u32, limit: f64, against: Against) -> Goal {
    Goal { name, pes, limit, against }
}

/// Ratios were set against Open MPI's OSHMEM over UCX shared memory on a machine with 2 cores.
const GOALS: [Goal; 28] = [
    goal("init", 2, 0.15, Against::First),
    goal("put 8 B + quiet", 2, 0.4, Against::First),
    goal("get 8 B", 2, 0.6, Against::First),
    goal("put 8 B rate", 2, 3.0, Against::First),
    goal("fetch-add, heap", 2, 0.6, Against::First),
    goal("fetch-add, static", 2, 0.03, Against::First),
    goal("put, wait_until", 2, 0.95, Against::First),
    goal("put 1 MiB bandwidth", 2, 0.97, Against::Best),
    goal("put 1 MiB bandwidth", 2, 0.95, Against::Floor),
    goal("get 1 MiB bandwidth", 2, 0.97, Against::Best),
    goal("get 1 MiB bandwidth", 2, 0.95, Against::Floor),
    goal("barrier_all", 2, 0.7, Against::First),
    goal("barrier_all", 4, 0.6, Against::First),
    goal("barrier_all", 8, 0.5, Against::First),
    goal("barrier_all after work", 8, 0.5, Against::First),
    goal("barrier_all, 400 after the start", 8, 0.7, Against::First),
    goal("barrier_all, 400 after page faults", 8, 0.7, Against::First),
    goal("barrier_all, 400 after a file", 8, 0.7, Against::First),
    goal("barrier_all", 64, 0.4, Against::First),
    goal("barrier_all", 64, 100.0, Against::Value),
    goal("broadcast 8 B + barrier", 8, 0.5, Against::First),
    goal("sum 8 B", 8, 0.5, Against::First),
    // MPI: the first peer is the same library over libfabric's shm.
    goal("half round trip 8 B", 2, 0.95, Against::First),
    goal("rate 8 B", 2, 1.0, Against::First),
    goal("bandwidth 1 MiB", 2, 20.0, Against::Value),
    goal("barrier", 8, 100.0, Against::Value),
    goal("put 8 B + quiet, median beside 2", 2, 30_000.0, Against::Value),
    goal("put 8 B + quiet, 99 % beside 2", 2, 300_000.0, Against::Value),
];

/// The same between two daemons (`--path udp`), set against Sandia OpenSHMEM over libfabric's tcp, the first peer, and OSHMEM
/// over UCX's tcp, the second.
const UDP_GOALS: [Goal; 6] = [
    goal("put 8 B + quiet", 2, 1.2, Against::First),
    goal("put 8 B + quiet", 2, 0.5, Against::Second),
    goal("put 8 B rate", 2, 5.0, Against::First),
    goal("put 8 B rate", 2, 5.0, Against::Second),
    goal("put 1 MiB bandwidth", 2, 1.2, Against::Best),
    goal("put 1 MiB bandwidth", 2, 0.6, Against::Floor),
];

/// Floors of the path between daemons: plain UDP.
pub(super) const UDP_BANDWIDTH: &str = "floor: GSO and GRO";
pub(super) const UDP_RELAYED: &str = "floor: relayed echo";
/// The same with what no trunk can leave out, as rows of their own.
pub(super) const UDP_BANDWIDTH_SEALED: &str = "UDP copied and sealed";
pub(super) const UDP_RELAYED_SEALED: &str = "UDP sealed, relayed echo";

/// Name of the floor of a quantity on the first path.
fn floor_of(name: &str, udp: bool) -> Option<String> {
    if udp {
        let there_and_back = ["put 8 B + quiet", "get 8 B", "fetch-add, heap", "fetch-add, static"].contains(&name);
        let bandwidth = name.ends_with("bandwidth").then_some(UDP_BANDWIDTH);
        return bandwidth.or(there_and_back.then_some(UDP_RELAYED)).map(String::from);
    }
    if name.ends_with("bandwidth") {
        return name.split_once(' ').map(|(kind, size)| match kind {
            "get" => format!("floor: get by memcpy {size}"),
            _ => format!("floor: memcpy {size}"),
        });
    }
    if let Some(size) = name.strip_prefix("bandwidth ") {
        return Some(format!("floor: memcpy {size}"));
    }
    let handed_over = ["put, wait_until", "barrier_all", "sync_all", "half round trip 8 B"].contains(&name);
    handed_over.then(|| "floor: cache line".to_string())
}

/// True if more of `unit` is better.
fn more_is_better(unit: &str) -> bool {
    unit.ends_with("/s")
}

/// Nanoseconds in one `unit`, so that floors in another unit compare; 1 for what is no time.
fn scale(unit: &str) -> f64 {
    match unit {
        "us" => 1e3,
        "ms" => 1e6,
        _ => 1.0,
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (upper, lower) = (sorted.get(sorted.len() / 2)?, sorted.get(sorted.len().saturating_sub(1) / 2)?);
    Some((upper + lower) / 2.0)
}

/// Three significant digits.
fn figure(x: f64) -> String {
    match x.abs() {
        a if a >= 99.95 => format!("{x:.0}"),
        a if a >= 9.995 => format!("{x:.1}"),
        a if a >= 0.1 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

impl Results {
    /// For `libraries`, of which the first `ours` are paths of this library.
    pub(crate) fn new(libraries: Vec<String>, ours: usize) -> Results {
        Results { libraries, ours, keys: Vec::new(), samples: BTreeMap::new(), failures: BTreeMap::new() }
    }

    /// Takes in the lines `sample UNIT VALUE NAME` of a run.
    pub(crate) fn add(&mut self, library: usize, pes: u32, text: &str) {
        for line in text.lines() {
            let mut words = line.splitn(4, ' ');
            let (Some("sample"), Some(unit), Some(value), Some(name)) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Ok(value) = value.parse() else { continue };
            let key = Key { pes, name: name.into() };
            if !self.keys.iter().any(|(k, _)| *k == key) {
                self.keys.push((key.clone(), unit.into()));
            }
            self.samples.entry((key, library)).or_default().push(value);
        }
    }

    /// Remembers that a library cannot do `pes` PEs.
    pub(crate) fn fail(&mut self, library: usize, pes: u32, outcome: Outcome) {
        self.failures.insert((library, pes), outcome);
    }

    /// Nothing was measured and nothing failed.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.failures.is_empty()
    }

    /// A library that failed once with this number of PEs is not asked again.
    pub(crate) fn failed(&self, library: usize, pes: u32) -> bool {
        self.failures.contains_key(&(library, pes))
    }

    fn of(&self, key: &Key, library: usize) -> &[f64] {
        self.samples.get(&(key.clone(), library)).map_or(&[], Vec::as_slice)
    }

    /// Median of the ratios of neighbouring samples.
    fn ratio(&self, key: &Key, library: usize, to: usize) -> Option<f64> {
        let ratios: Vec<f64> =
            self.of(key, library).iter().zip(self.of(key, to)).filter(|(_, b)| **b > 0.0).map(|(a, b)| a / b).collect();
        median(&ratios)
    }

    /// Floors are measured by the pair of the first library, whatever the number of PEs.
    fn floor(&self, key: &Key) -> Option<Vec<f64>> {
        let floor = Key { pes: 2, name: floor_of(&key.name, self.libraries[0] == "udp")? };
        let values = self.of(&floor, 0);
        (!values.is_empty()).then(|| values.to_vec())
    }

    fn floor_ratio(&self, key: &Key, unit: &str) -> Option<f64> {
        let floor = self.floor(key)?;
        let ratios: Vec<f64> = self.of(key, 0).iter().zip(floor).map(|(a, b)| a * scale(unit) / b).collect();
        median(&ratios)
    }

    /// The ratio a goal is about, and whether it is reached.
    fn reached(&self, key: &Key, unit: &str, goal: &Goal) -> Option<bool> {
        let peers = self.ours..self.libraries.len();
        let ratios = || peers.clone().filter_map(|peer| self.ratio(key, 0, peer));
        let value = match goal.against {
            Against::First => self.ratio(key, 0, peers.clone().next()?)?,
            Against::Second => self.ratio(key, 0, peers.clone().nth(1)?)?,
            Against::Best if more_is_better(unit) => ratios().reduce(f64::min)?,
            Against::Best => ratios().reduce(f64::max)?,
            Against::Floor => self.floor_ratio(key, unit)?,
            Against::Value => median(self.of(key, 0))?,
        };
        Some(if more_is_better(unit) { value >= goal.limit } else { value <= goal.limit })
    }

    /// `<= 0.4x oshmem: ok`, for every goal of a quantity that can be judged.
    fn goals(&self, key: &Key, unit: &str) -> String {
        let sign = if more_is_better(unit) { ">=" } else { "<=" };
        let text = |goal: &Goal| {
            let verdict = if self.reached(key, unit, goal)? { "ok" } else { "MISSED" };
            let limit = goal.limit;
            let to = match goal.against {
                Against::First => format!("{limit}x {}", self.libraries[self.ours]),
                Against::Second => format!("{limit}x {}", self.libraries[self.ours + 1]),
                Against::Best => format!("{limit}x best peer"),
                Against::Floor => format!("{limit}x floor"),
                Against::Value => format!("{limit} {unit}"),
            };
            Some(format!("{sign} {to}: {verdict}"))
        };
        let all: &[Goal] = if self.libraries[0] == "udp" { &UDP_GOALS } else { &GOALS };
        let mine = all.iter().filter(|g| g.name == key.name && g.pes == key.pes);
        mine.filter_map(text).collect::<Vec<_>>().join(", ")
    }

    fn rows(&self) -> impl Iterator<Item = &(Key, String)> {
        let mut rows: Vec<_> = self.keys.iter().filter(|(k, _)| !k.name.starts_with("floor: ")).collect();
        rows.sort_by_key(|(k, _)| k.pes);
        rows.into_iter()
    }

    /// `10.7 (10.5-11.2)`: median, fastest and slowest.
    fn cell(&self, key: &Key, library: usize) -> String {
        let values = self.of(key, library);
        let Some(middle) = median(values) else { return "-".into() };
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
        format!("{} ({}-{})", figure(middle), figure(least), figure(most))
    }

    /// The table, and what could not be measured.
    pub(crate) fn render(&self, repeat: u32) -> String {
        let ratios: Vec<String> =
            self.libraries[self.ours..].iter().map(|p| format!(">{}/{p}", self.libraries[0])).collect();
        let libraries: Vec<String> = self.libraries.iter().map(|l| format!(">{l}")).collect();
        let titles: Vec<&str> = [">PEs", "quantity", "unit"]
            .into_iter()
            .chain(libraries.iter().map(String::as_str))
            .chain(ratios.iter().map(String::as_str))
            .chain([">floor", "goal"])
            .collect();
        let mut table = Table::new(&titles);
        for (key, unit) in self.rows() {
            let mut cells = vec![key.pes.to_string(), key.name.clone(), unit.clone()];
            cells.extend((0..self.libraries.len()).map(|l| self.cell(key, l)));
            cells.extend((self.ours..self.libraries.len()).map(|p| self.ratio(key, 0, p).map_or("-".into(), figure)));
            let floor = self.floor(key).and_then(|f| median(&f)).map(|f| f / scale(unit));
            cells.push(floor.map_or(String::new(), figure));
            cells.push(self.goals(key, unit));
            table.row(&cells);
        }
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let mut text = format!(
            "{cores} cores; median (fastest-slowest) of {repeat} alternating runs; ratios are medians of neighbouring runs\n{}",
            table.render()
        );
        for ((library, pes), outcome) in &self.failures {
            text += &format!("{} with {pes} PEs: {}: {}\n", self.libraries[*library], outcome.what, outcome.why);
        }
        text
    }

    /// Everything, for scripts.
    pub(crate) fn json(&self, repeat: u32) -> Value {
        let row = |(key, unit): &(Key, String)| {
            let of = |l: usize| (self.libraries[l].clone(), json!(self.of(key, l)));
            let ratio = |p: usize| (self.libraries[p].clone(), json!(self.ratio(key, 0, p)));
            json!({
                "pes": key.pes, "quantity": key.name, "unit": unit,
                "samples": (0..self.libraries.len()).map(of).collect::<serde_json::Map<_, _>>(),
                "ratio": (self.ours..self.libraries.len()).map(ratio).collect::<serde_json::Map<_, _>>(),
                "floor_ratio": self.floor_ratio(key, unit),
                "goal": self.goals(key, unit),
            })
        };
        let failure = |((library, pes), outcome): (&(usize, u32), &Outcome)| json!({ "library": self.libraries[*library], "pes": pes, "what": outcome.what, "why": outcome.why });
        json!({
            "cores": std::thread::available_parallelism().map_or(1, |n| n.get()),
            "repeat": repeat,
            "libraries": self.libraries,
            "rows": self.keys.iter().map(row).collect::<Vec<_>>(),
            "failures": self.failures.iter().map(failure).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let mut r = Results::new(vec!["direct".into(), "ring".into(), "other".into()], 2);
        for (ours, other) in [(10.0, 40.0), (12.0, 30.0), (30.0, 60.0)] {
            r.add(0, 2, &format!("hello\nsample ns {ours} get 8 B\nsample GB/s 19 put 1 MiB bandwidth\n"));
            r.add(0, 2, "sample GB/s 20 floor: memcpy 1 MiB bandwidth\nsample us x barrier_all");
            r.add(2, 2, &format!("sample ns {other} get 8 B\nsample GB/s 20 put 1 MiB bandwidth\n"));
            r.add(0, 64, "sample us 101 barrier_all\n");
        }
        r
    }

    #[test]
    fn ratios_are_those_of_neighbours() {
        let r = results();
        let key = Key { pes: 2, name: "get 8 B".into() };
        // 0.25, 0.4 and 0.5; the ratio of the medians would be 0.3.
        assert_eq!(r.ratio(&key, 0, 2), Some(0.4));
        assert_eq!(r.ratio(&key, 0, 1), None);
        assert_eq!(r.goals(&key, "ns"), "<= 0.6x other: ok");
        assert_eq!(r.cell(&key, 0), "12.0 (10.0-30.0)");
    }

    #[test]
    fn goals_compare_with_peers_floors_and_numbers() {
        let r = results();
        let put = Key { pes: 2, name: "put 1 MiB bandwidth".into() };
        assert_eq!(r.goals(&put, "GB/s"), ">= 0.97x best peer: MISSED, >= 0.95x floor: ok");
        // Without a peer's figures its goals are not judged.
        let barrier = Key { pes: 64, name: "barrier_all".into() };
        assert_eq!(r.goals(&barrier, "us"), "<= 100 us: MISSED");
    }

    #[test]
    fn floors_are_a_column_and_failures_are_told() {
        let mut r = results();
        r.fail(2, 64, Outcome { what: "the benchmark", why: "not done after 60 s".into() });
        assert!(r.failed(2, 64) && !r.failed(2, 2));
        let text = r.render(3);
        assert!(
            !text.contains("floor: memcpy") && text.contains("other with 64 PEs: the benchmark: not done"),
            "{text}"
        );
        let row = text.lines().find(|l| l.contains("put 1 MiB")).unwrap();
        assert!(row.contains("0.95") && row.contains("20.0"), "{row}");
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!([1234.5, 99.96, 12.34, 1.234, 0.0312].map(figure), ["1234", "100", "12.3", "1.23", "0.031"]);
        assert_eq!((median(&[]), median(&[3.0, 1.0]), median(&[5.0, 1.0, 2.0])), (None, Some(2.0), Some(2.0)));
    }
}
