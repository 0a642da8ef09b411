//! Latencies of messages: all of them, and by the routers they passed and by their lengths.

use super::stats::Histogram;
use super::together::{Together, limbs, whole};
use serde::Serialize;
use std::fmt::Write;

/// Rows of a class that the text shows; programs get all.
const SHOWN: usize = 6;

/// What has arrived.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// All latencies, cycles.
    pub(crate) all: Histogram,
    /// By routers passed.
    by_routers: Tallies,
    by_flits: Tallies,
}

/// Sums by a small number.
#[derive(Clone, Debug, Default)]
struct Tallies(Vec<Tally>);

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    messages: u64,
    /// Sum of latencies, ps.
    sum: u128,
    /// Largest latency, ps.
    max: u64,
}

/// Latency of the messages that have something in common.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Messages that arrived.
    pub messages: u64,
    /// Mean latency, router cycles.
    pub mean_cycles: f64,
    /// Largest latency, router cycles.
    pub max_cycles: f64,
}

/// Latency of the messages that passed N routers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OfRouters {
    /// Routers passed, those of source and destination included.
    pub routers: usize,
    /// Their latency.
    #[serde(flatten)]
    pub row: Row,
}

/// Latency of the messages of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OfFlits {
    /// The length.
    pub flits: usize,
    /// Their latency.
    #[serde(flatten)]
    pub row: Row,
}

impl Latencies {
    /// Counts a message of `flits` flits that took `latency` ps through `routers` routers; a cycle is `cycle` ps.
    #[inline]
    pub(crate) fn record(&mut self, latency: u64, cycle: u64, routers: usize, flits: u16) {
        self.all.record(latency.div_ceil(cycle));
        self.by_routers.record(routers, latency);
        self.by_flits.record(usize::from(flits), latency);
    }

    /// Counts everything `other` has counted.
    pub(crate) fn add(&mut self, other: &Latencies) {
        self.all.add(&other.all);
        self.by_routers.add(&other.by_routers);
        self.by_flits.add(&other.by_flits);
    }

    /// Counts what the others of `together` have counted, too; they do the same.
    pub(super) fn gather(&mut self, together: &Together) {
        self.all.gather(together);
        self.by_routers.gather(together);
        self.by_flits.gather(together);
    }

    /// Latency by routers passed, fewest first; a cycle is `cycle` ps.
    pub fn of_routers(&self, cycle: u64) -> Vec<OfRouters> {
        self.by_routers.rows(cycle).map(|(routers, row)| OfRouters { routers, row }).collect()
    }

    /// Latency by length, shortest first; a cycle is `cycle` ps.
    pub fn of_flits(&self, cycle: u64) -> Vec<OfFlits> {
        self.by_flits.rows(cycle).map(|(flits, row)| OfFlits { flits, row }).collect()
    }
}

/// Mean latencies by routers passed and by length, a line each: names and values. A single row would only repeat the
/// mean of all.
pub fn lines(routers: &[OfRouters], flits: &[OfFlits]) -> impl Iterator<Item = (&'static str, String)> {
    let routers: Vec<_> = routers.iter().map(|of| (of.routers, of.row)).collect();
    let flits: Vec<_> = flits.iter().map(|of| (of.flits, of.row)).collect();
    [("by routers visited", routers), ("by length in flits", flits)]
        .into_iter()
        .filter_map(|(name, rows)| (rows.len() > 1).then(|| (name, line(&rows))))
}

/// A few of `rows`, first and last among them.
fn line(rows: &[(usize, Row)]) -> String {
    let shown = SHOWN.min(rows.len());
    let mut text = String::new();
    for i in 0..shown {
        let (key, row) = &rows[i * (rows.len() - 1) / (shown - 1).max(1)];
        let _ = write!(text, "{}{key}: {:.2}", if i > 0 { ", " } else { "" }, row.mean_cycles);
    }
    let rest = if shown < rows.len() { format!(" (of {}, all with --json)", rows.len()) } else { String::new() };
    format!("{text} cycles{rest}")
}

impl Tallies {
    #[inline]
    fn record(&mut self, key: usize, latency: u64) {
        if key >= self.0.len() {
            self.0.resize(key + 1, Tally::default());
        }
        let tally = &mut self.0[key];
        tally.messages += 1;
        tally.sum += u128::from(latency);
        tally.max = tally.max.max(latency);
    }

    fn add(&mut self, other: &Tallies) {
        let keys = self.0.len().max(other.0.len());
        self.0.resize(keys, Tally::default());
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.messages += theirs.messages;
            mine.sum += theirs.sum;
            mine.max = mine.max.max(theirs.max);
        }
    }

    fn gather(&mut self, together: &Together) {
        if together.count() == 1 {
            return;
        }
        self.0.resize(together.most(self.0.len() as u64) as usize, Tally::default());
        let numbers = |tally: &Tally| {
            let [a, b, c, d] = limbs(tally.sum);
            [tally.messages, a, b, c, d]
        };
        let mut sums: Vec<[u64; 5]> = self.0.iter().map(numbers).collect();
        together.sum(sums.as_flattened_mut());
        for (tally, [messages, a, b, c, d]) in self.0.iter_mut().zip(sums) {
            *tally = Tally { messages, sum: whole([a, b, c, d]), max: together.most(tally.max) };
        }
    }

    /// What arrived, by key.
    fn rows(&self, cycle: u64) -> impl Iterator<Item = (usize, Row)> {
        let used = self.0.iter().enumerate().filter(|(_, tally)| tally.messages > 0);
        used.map(move |(key, tally)| {
            let cycles = |ps: f64| ps / cycle as f64;
            let mean_cycles = cycles(tally.sum as f64 / tally.messages as f64);
            (key, Row { messages: tally.messages, mean_cycles, max_cycles: cycles(tally.max as f64) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::driver;
    use crate::run::outcome::Outcome;
    use crate::settings::Keys;
    use std::ops::ControlFlow;

    fn of(settings: &str) -> Outcome {
        let keys: Keys = toml::from_str(settings).unwrap();
        driver::run(&keys.resolve().map_err(|e| e.0).unwrap().experiment, &mut |_| ControlFlow::Continue(())).unwrap()
    }

    const IDLE: &str = "topology = \"torus:8x8\"\nrouter = \"generic\"\nwarmup = 1000\ncycles = 40000\n";

    #[test]
    fn an_empty_network_shows_the_time_of_each_router_and_flit() {
        let o = of(&format!("{IDLE}length = \"2:0.5,5:0.5\"\nload = 0.0003"));
        // Alone, a packet of L flits over R routers takes 4 R + 2 + (L - 1) cycles; a few meet others.
        for of in &o.latency_by_routers {
            let alone = 4.0 * of.routers as f64 + 2.0 + 2.5;
            assert!((of.row.mean_cycles - alone).abs() < 2.0, "{of:?}, not {alone}");
        }
        let routers: Vec<usize> = o.latency_by_routers.iter().map(|of| of.routers).collect();
        assert_eq!(routers, Vec::from_iter(1..=9));
        let [short, long] = &o.latency_by_flits[..] else { panic!("{:?}", o.latency_by_flits) };
        assert_eq!((short.flits, long.flits), (2, 5));
        assert!(short.row.messages.abs_diff(long.row.messages) < o.packets / 5);
    }

    #[test]
    fn rows_are_those_of_the_result() {
        for settings in [
            "topology = \"torus:4x4\"\nload = 0.3\nlength = \"1:0.5,7:0.5\"",
            "topology = \"dragonfly:2\"\nload = 0.2\nrouting = \"valiant\"",
        ] {
            let o = of(&format!("router = \"generic\"\ncycles-max = 20000\n{settings}"));
            for rows in [
                o.latency_by_routers.iter().map(|of| of.row).collect::<Vec<_>>(),
                o.latency_by_flits.iter().map(|of| of.row).collect(),
            ] {
                let messages: u64 = rows.iter().map(|row| row.messages).sum();
                let sum: f64 = rows.iter().map(|row| row.messages as f64 * row.mean_cycles).sum();
                let max = rows.iter().map(|row| row.max_cycles).fold(0.0, f64::max);
                assert_eq!((messages, max), (o.packets, o.latency_percentiles_cycles.max), "{settings}");
                assert!((sum / messages as f64 / o.packet_latency_cycles.unwrap() - 1.0).abs() < 1e-9, "{settings}");
            }
            let passed: f64 = o.latency_by_routers.iter().map(|of| (of.routers as u64 * of.row.messages) as f64).sum();
            assert!((passed / o.packets as f64 / o.mean_routers_visited.unwrap() - 1.0).abs() < 1e-9, "{settings}");
        }
    }

    #[test]
    fn people_see_a_few_rows_and_no_single_one() {
        let row = |cycles: u64| Row { messages: 1, mean_cycles: cycles as f64, max_cycles: cycles as f64 };
        let routers = |n: usize| Vec::from_iter((1..=n).map(|routers| OfRouters { routers, row: row(4) }));
        let said = |n| Vec::from_iter(lines(&routers(n), &[OfFlits { flits: 7, row: row(9) }]).map(|(_, text)| text));
        assert!(said(0).is_empty() && said(1).is_empty());
        assert_eq!(said(2), ["1: 4.00, 2: 4.00 cycles"]);
        assert_eq!(said(11), ["1: 4.00, 3: 4.00, 5: 4.00, 7: 4.00, 9: 4.00, 11: 4.00 cycles (of 11, all with --json)"]);
    }
}
