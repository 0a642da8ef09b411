//! The same networks and loads as another simulator ran, and how close the results are.
//!
//! The reference is BookSim 2, an input-queued flit-level simulator: 4 virtual channels, separable
//! input-first allocation, dimension order with a dateline on the torus, nearest common ancestor
//! with random up-ports in the fat tree. Its results are in `data/booksim.csv`; the name of a case
//! says what ran: `t8x3` is an 8x8x8 torus, `ft8x3` a fat tree of 8 down-links and 3 ranks, `L16`
//! packets of 16 flits, `vct` whole packets buffered (64 flits), `sat` loads beyond saturation.
//!
//! Each row is good for one thing: latency within a tolerance, accepted load within a tolerance,
//! or only for its order among rows of its family. A deviation is a finding and is shown as such.

use crate::Error;
use crate::run::{Keys, Outcome, driver};
use crate::table::Table;
use crate::traffic::{Pattern, Process};
use serde::Serialize;
use std::fmt::Write;

const BOOKSIM: &str = include_str!("../data/booksim.csv");
/// Rows whose reference latencies differ by less are not ordered.
const DISTINCT: f64 = 0.05;
/// A reference row that accepted less of its load has a latency that depends on its run's length.
const CARRIED: f64 = 0.98;

/// A row of the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reference {
    /// Name.
    pub case: String,
    /// Flits per node and cycle.
    pub offered: f64,
    /// Flits per node and cycle.
    pub accepted: f64,
    /// Cycles.
    pub latency: f64,
    /// Mean routers visited.
    pub routers: f64,
    /// Latency must agree to this share.
    pub latency_tolerance: Option<f64>,
    /// Accepted load must agree to this share.
    pub accepted_tolerance: Option<f64>,
}

/// All rows of the reference.
pub fn references() -> Vec<Reference> {
    let rows = BOOKSIM.lines().filter(|l| !l.starts_with('#')).skip(1);
    rows.map(|line| reference(line).unwrap_or_else(|| panic!("row `{line}` is malformed; a test checks them all")))
        .collect()
}

fn reference(line: &str) -> Option<Reference> {
    let fields = split_csv(line);
    let [case, offered, accepted, latency, error, routers, compare, tolerance] = &fields[..] else { return None };
    let latency: f64 = latency.parse().ok()?;
    let tolerance = match tolerance.parse::<f64>() {
        Ok(t) => Some(t),
        // "3 std_error or 0.05, the larger"
        Err(_) => error.parse::<f64>().ok().map(|e| (3.0 * e / latency).max(0.05)),
    };
    let compares = |what: &str| compare.split(',').any(|c| c == what);
    Some(Reference {
        case: case.clone(),
        offered: offered.parse().ok()?,
        accepted: accepted.parse().ok()?,
        latency,
        routers: routers.parse().ok()?,
        latency_tolerance: tolerance.filter(|_| compares("lat")),
        accepted_tolerance: tolerance.filter(|_| compares("acc")),
    })
}

/// Fields of a CSV line; quotes may surround a field with commas.
fn split_csv(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().expect("starts with one field").push(c),
        }
    }
    fields
}

impl Reference {
    /// The settings that repeat the case.
    ///
    /// # Errors
    /// A name that is not understood.
    pub fn keys(&self) -> Result<Keys, Error> {
        let unknown = || Error::invalid("case", &self.case, "not a name this program understands");
        let mut parts = self.case.split('_');
        let mut first = parts.next().unwrap_or_default();
        let whole_packets = first == "vct";
        if whole_packets {
            first = parts.next().unwrap_or_default();
        }
        let (tree, size) = first.strip_prefix("ft").map_or((false, first.trim_start_matches('t')), |s| (true, s));
        let (arity, levels) = size.split_once('x').ok_or_else(unknown)?;
        let topology = match levels.parse::<usize>() {
            Ok(levels) if !tree => format!("torus:{}", vec![arity; levels].join("x")),
            Ok(levels) => format!("fat-tree:{arity},{levels}"),
            Err(_) => return Err(unknown()),
        };
        let parts: Vec<&str> = parts.collect();
        let mut keys = Keys {
            topology: Some(topology.parse().map_err(|_| unknown())?),
            router: Some(crate::run::keys::Router::Generic),
            vcs: Some(4),
            load: Some(self.offered),
            ..Keys::default()
        };
        let kind = parts.first().copied().ok_or_else(unknown)?;
        let (length, process, pattern) = traffic(kind, &parts).ok_or_else(unknown)?;
        let long = length != "1" && kind != "hot";
        keys.buffer = Some(if whole_packets || long { 64 } else { 8 });
        keys.length = Some(length.parse()?);
        keys.process = Some(process);
        keys.pattern = Some(pattern.parse::<Pattern>()?);
        if kind == "hot" {
            // As long as the reference: rare queues at the hot spot dominate the mean.
            (keys.warmup, keys.cycles) = (Some(5_000), Some(80_000));
        }
        Ok(keys)
    }

    /// What the case has in common with others it is ordered against.
    pub fn family(&self) -> String {
        let parts: Vec<&str> = self.case.split('_').collect();
        let at = if parts[0] == "vct" { 2 } else { 1 };
        let kind = parts[at].trim_end_matches(|c: char| c.is_ascii_digit());
        if kind == "L" { format!("{}{}", if at == 2 { "vct " } else { "" }, parts[at]) } else { kind.to_string() }
    }
}

/// Lengths, process and pattern of a case by its parts after the topology.
fn traffic(kind: &str, parts: &[&str]) -> Option<(String, Process, String)> {
    let uniform = || "uniform".to_string();
    if let Some(length) = kind.strip_prefix('L') {
        let process = match parts.get(1).copied() {
            Some("pois" | "poisson") => Process::Poisson,
            Some("batch") => Process::BatchPoisson(4.0),
            _ => Process::Bernoulli,
        };
        return Some((length.into(), process, uniform()));
    }
    if let Some(columns) = kind.strip_prefix("fftrow") {
        return Some(("32".into(), Process::Poisson, format!("fftrow:{columns}")));
    }
    if let Some(columns) = kind.strip_prefix("fftcol") {
        return Some(("32".into(), Process::Poisson, format!("fftcol:{columns}")));
    }
    match (kind, &parts[1..]) {
        ("bim2", [shares]) => {
            let (short, long) = shares.strip_prefix('s')?.split_once('l')?;
            Some((format!("4:0.{short},32:0.{long}"), Process::Bernoulli, uniform()))
        }
        ("hot", [share, _]) => Some(("8".into(), Process::Poisson, format!("hotspot:219,{share}"))),
        ("loc", ["u", _]) => Some(("8".into(), Process::Poisson, uniform())),
        ("loc", [radius, share, _]) => Some(("8".into(), Process::Poisson, format!("local:{radius},{share}"))),
        _ => None,
    }
}

/// A case repeated.
#[derive(Clone, Debug, Serialize)]
pub struct Repeated {
    /// The reference.
    pub reference: Reference,
    /// What was measured here.
    pub latency: Option<f64>,
    /// What was measured here.
    pub accepted: f64,
    /// What was measured here.
    pub routers: Option<f64>,
    /// The demand is met; `None` for rows that are only ordered.
    pub met: Option<bool>,
}

/// Repeats `reference`.
///
/// # Errors
/// A case that is not understood.
pub fn repeat(reference: &Reference) -> Result<Repeated, Error> {
    let experiment = reference.keys()?.resolve().map_err(|(e, _)| e)?;
    Ok(judge(reference, &driver::run(&experiment, &mut |_| std::ops::ControlFlow::Continue(()))?))
}

fn judge(reference: &Reference, o: &Outcome) -> Repeated {
    let within = |measured: f64, expected: f64, tolerance: f64| (measured / expected - 1.0).abs() <= tolerance;
    let latency =
        reference.latency_tolerance.map(|t| o.packet_latency_cycles.is_some_and(|l| within(l, reference.latency, t)));
    let accepted = reference.accepted_tolerance.map(|t| within(o.accepted_flits_per_node_cycle, reference.accepted, t));
    Repeated {
        reference: reference.clone(),
        latency: o.packet_latency_cycles,
        accepted: o.accepted_flits_per_node_cycle,
        routers: o.mean_routers_visited,
        met: latency.or(accepted),
    }
}

/// Pairs of one family that the reference orders: those in the same order here, all, and the
/// inverted ones by name.
pub fn orderings(rows: &[Repeated]) -> (usize, usize, Vec<String>) {
    let usable = |r: &&Repeated| r.reference.accepted >= CARRIED * r.reference.offered && r.latency.is_some();
    let rows: Vec<&Repeated> = rows.iter().filter(usable).collect();
    let (mut same, mut all, mut inverted) = (0, 0, Vec::new());
    for (i, a) in rows.iter().enumerate() {
        for b in rows[i + 1..].iter().filter(|b| b.reference.family() == a.reference.family()) {
            let (x, y) = (a.reference.latency, b.reference.latency);
            if (x - y).abs() <= DISTINCT * x.min(y) {
                continue;
            }
            all += 1;
            if (x < y) == (a.latency < b.latency) {
                same += 1;
            } else {
                inverted.push(format!("{} and {}", a.reference.case, b.reference.case));
            }
        }
    }
    (same, all, inverted)
}

/// The results for people.
pub fn text(rows: &[Repeated]) -> String {
    let mut table =
        Table::new(&["case", ">latency", ">BookSim", ">%", ">accepted", ">BookSim", ">routers", "demand", ""]);
    for r in rows {
        let reference = &r.reference;
        let demand = match (reference.latency_tolerance, reference.accepted_tolerance) {
            (Some(t), _) => format!("latency ±{:.0} %", 100.0 * t),
            (_, Some(t)) => format!("accepted ±{:.0} %", 100.0 * t),
            _ => "order".into(),
        };
        let deviation = r.latency.map_or(String::new(), |l| format!("{:+.1}", 100.0 * (l / reference.latency - 1.0)));
        let shown = |v: Option<f64>, digits: usize| v.map_or("-".into(), |v| format!("{v:.digits$}"));
        table.row(&[
            reference.case.clone(),
            shown(r.latency, 2),
            format!("{:.2}", reference.latency),
            deviation,
            format!("{:.4}", r.accepted),
            format!("{:.4}", reference.accepted),
            shown(r.routers, 3),
            demand,
            r.met.map_or("", |met| if met { "met" } else { "NOT MET" }).into(),
        ]);
    }
    let judged: Vec<bool> = rows.iter().filter_map(|r| r.met).collect();
    let met = judged.iter().filter(|m| **m).count();
    let (same, all, inverted) = orderings(rows);
    let mut out = table.render();
    let _ = writeln!(out, "\n{met} of {} demands met; {same} of {all} orderings within families kept", judged.len());
    if !inverted.is_empty() {
        let _ = writeln!(out, "  inverted: {}", inverted.join("; "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_understood() {
        let all = references();
        assert_eq!(all.len(), 91);
        for r in &all {
            let e =
                r.keys().and_then(|k| k.resolve().map_err(|(e, _)| e)).map_err(|e| format!("{}: {e}", r.case)).unwrap();
            assert_eq!(e.settings.load, r.offered);
        }
    }

    #[test]
    fn names_become_settings() {
        let settings = |case: &str| {
            let all = references();
            all.iter().find(|r| r.case == case).unwrap().keys().unwrap().resolve().map_err(|e| e.0).unwrap().settings
        };
        let s = settings("t4x4_L1_0.5");
        assert_eq!((s.topology.as_str(), s.length.as_str(), s.buffer), ("torus:4x4x4x4", "1", 8));
        let s = settings("vct_ft8x3_L16_0.3");
        assert_eq!((s.topology.as_str(), s.length.as_str(), s.buffer), ("fat-tree:8,3", "16", 64));
        let s = settings("t8x3_hot_0.3_0.9");
        assert_eq!(
            (s.pattern.to_string().as_str(), s.process, s.length.as_str()),
            ("hotspot:219,0.3", Process::Poisson, "8")
        );
        assert_eq!(settings("ft8x3_bim2_s1l9").length, "4:0.1,32:0.9");
        assert_eq!(settings("t8x3_loc_2_0.6_0.5").pattern.to_string(), "local:2,0.6");
    }

    #[test]
    fn tolerances_follow_the_columns() {
        let all = references();
        let find = |case: &str| all.iter().find(|r| r.case == case).unwrap();
        assert_eq!(find("t8x3_L1_0.1").latency_tolerance, Some(0.03));
        assert_eq!(find("t8x3_L1_sat").accepted_tolerance, Some(0.05));
        let hot = find("ft8x3_hot_0.3_0.9");
        assert!((hot.latency_tolerance.unwrap() - 3.0 * 1.81 / 41.0).abs() < 1e-9);
        assert_eq!(find("t8x3_fftrow16_0.4").latency_tolerance, None);
    }

    #[test]
    fn a_light_load_agrees() {
        let all = references();
        let r = repeat(all.iter().find(|r| r.case == "t4x4_L1_0.1").unwrap()).unwrap();
        assert_eq!(r.met, Some(true), "{r:?}");
    }

    #[test]
    fn an_inverted_pair_is_named() {
        let row = |case: &str, reference: f64, latency: f64| Repeated {
            reference: Reference {
                case: case.into(),
                offered: 0.1,
                accepted: 0.1,
                latency: reference,
                routers: 7.0,
                latency_tolerance: None,
                accepted_tolerance: None,
            },
            latency: Some(latency),
            accepted: 0.1,
            routers: None,
            met: None,
        };
        let rows = [row("t8x3_L1_0.1", 30.0, 30.0), row("t8x3_L1_0.2", 40.0, 29.0), row("t8x3_L1_0.3", 50.0, 50.0)];
        let (same, all, inverted) = orderings(&rows);
        assert_eq!((same, all, &inverted[..]), (2, 3, &["t8x3_L1_0.1 and t8x3_L1_0.2".to_string()][..]));
    }
}
