//! The networks and loads another simulator ran, and what it got.
//!
//! The reference is BookSim 2, an input-queued flit-level simulator: 4 virtual channels, separable
//! input-first allocation, dimension order with a dateline on the torus, nearest common ancestor
//! with random up-ports in the fat tree. Its results are in `data/booksim.csv`; the name of a case
//! says what ran: `t8x3` is an 8x8x8 torus, `ft8x3` a fat tree of 8 down-links and 3 ranks, `L16`
//! packets of 16 flits, `vct` whole packets buffered (64 flits) instead of wormhole (8 flits), `sat`
//! loads beyond saturation.
//!
//! Each row is good for one thing: latency or, where it accepts less than is offered, accepted load.
//! The names are a small language: [`keys`] turns any such name, also of a case that has no reference,
//! into settings.

use angara_sim::Error;
use angara_sim::run::router::{Router, Switching};
use angara_sim::settings::Keys;
use angara_sim::traffic::{Pattern, Process};

const BOOKSIM: &str = include_str!("../data/booksim.csv");

/// What of a row is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The mean latency.
    Latency,
    /// The accepted load: the latency depends on the length of the run.
    Accepted,
}

/// A row of the reference.
#[derive(Clone, Debug, PartialEq)]
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
    /// What must agree.
    pub compared: Compared,
    /// To this share.
    pub tolerance: f64,
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
        Ok(t) => t,
        // "3 std_error or 0.05, the larger"
        Err(_) => (3.0 * error.parse::<f64>().ok()? / latency).max(0.05),
    };
    let compared = match compare.as_str() {
        "lat" => Compared::Latency,
        "acc" => Compared::Accepted,
        _ => return None,
    };
    Some(Reference {
        case: case.clone(),
        offered: offered.parse().ok()?,
        accepted: accepted.parse().ok()?,
        latency,
        routers: routers.parse().ok()?,
        compared,
        tolerance,
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

/// The settings of the case called `name`, whether or not there is a reference for it.
///
/// # Errors
/// A name that is not understood.
pub fn keys(name: &str) -> Result<Keys, Error> {
    let unknown = || Error::invalid("case", name, "not a name this program understands");
    let mut parts = name.split('_');
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
    let topology: angara_model::AnyTopology = topology.parse().map_err(|_| unknown())?;
    let parts: Vec<&str> = parts.collect();
    let kind = parts.first().copied().ok_or_else(unknown)?;
    let (length, process, pattern) = traffic(kind, &parts).ok_or_else(unknown)?;
    let length: angara_sim::traffic::Lengths = length.parse()?;
    let load = load(kind, &parts, whole_packets, topology.endpoints()).ok_or_else(unknown)?;
    let wormhole = length.max() > 1 && !whole_packets;
    let mut keys = Keys {
        topology: Some(topology),
        router: Some(Router::Generic),
        vcs: Some(4),
        load: Some(load),
        switching: Some(if wormhole { Switching::Wormhole } else { Switching::CutThrough }),
        buffer: Some(if whole_packets { 64 } else { 8 }),
        length: Some(length),
        process: Some(process),
        pattern: Some(pattern.parse::<Pattern>()?),
        ..Keys::default()
    };
    // Flits average over nodes, too: a larger network needs fewer cycles.
    let share = 512.0 / keys.topology.as_ref().map_or(1, |t| t.endpoints()).max(512) as f64;
    let shorter = |cycles: f64| (cycles * share).max(3_000.0) as u64;
    if kind == "hot" {
        // As much as the reference's three runs of 80,000: rare queues at the hot spot dominate the mean.
        (keys.warmup, keys.cycles) = (Some(5_000), Some(240_000));
    } else if wormhole {
        // Latencies of saturated rows grow with the run; their accepted load settles within some thousand cycles.
        (keys.warmup, keys.cycles) = (Some(shorter(5_000.0)), Some(shorter(10_000.0)));
    } else {
        keys.cycles_max = Some(shorter(20_000.0));
    }
    Ok(keys)
}

/// Offered load of a case, flits per node and cycle: mostly the last part of its name.
fn load(kind: &str, parts: &[&str], whole_packets: bool, endpoints: usize) -> Option<f64> {
    let last = || parts.last()?.parse::<f64>().ok();
    match (kind, parts) {
        ("bim2", _) => Some(0.35),
        ("hot", [_, share, times]) => {
            Some(times.parse::<f64>().ok()? / (endpoints as f64 * share.parse::<f64>().ok()?))
        }
        // Far above saturation.
        (_, [_, "sat"]) => Some(match (whole_packets, endpoints) {
            (false, _) => 1.0,
            (true, 256) => 0.99,
            (true, _) => 0.9,
        }),
        _ => last(),
    }
}

impl Reference {
    /// Returns what the case has in common with others it is ordered against.
    pub fn family(&self) -> String {
        let parts: Vec<&str> = self.case.split('_').collect();
        let at = if parts[0] == "vct" { 2 } else { 1 };
        let kind = parts[at].trim_end_matches(|c: char| c.is_ascii_digit());
        if kind == "L" { format!("{}{}", if at == 2 { "vct-" } else { "" }, parts[at]) } else { kind.to_string() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_understood_and_has_its_load() {
        let all = references();
        assert_eq!(all.len(), 91);
        for r in &all {
            let e = keys(&r.case).and_then(|k| k.resolve().map_err(|(e, _)| e));
            let load = e.map_err(|e| format!("{}: {e}", r.case)).unwrap().experiment.settings.load;
            assert!((load / r.offered - 1.0).abs() < 1e-3, "{}: {load} {}", r.case, r.offered);
        }
    }

    #[test]
    fn names_become_settings() {
        let settings = |case: &str| keys(case).unwrap().resolve().map_err(|e| e.0).unwrap().experiment.settings;
        let s = settings("t4x4_L1_0.5");
        assert_eq!((s.topology.as_str(), s.length.as_str(), s.buffer), ("torus:4x4x4x4", "1", 8));
        let s = settings("vct_ft8x3_L16_0.3");
        assert_eq!((s.topology.as_str(), s.length.as_str(), s.buffer), ("fat-tree:8,3", "16", 64));
        assert_eq!(s.switching, Some(Switching::CutThrough));
        assert_eq!(settings("t8x3_L32_bern_0.2").switching, Some(Switching::Wormhole));
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
        let find = |case: &str| all.iter().find(|r| r.case == case).map(|r| (r.compared, r.tolerance)).unwrap();
        assert_eq!(find("t8x3_L1_0.1"), (Compared::Latency, 0.03));
        assert_eq!(find("t8x3_L1_sat"), (Compared::Accepted, 0.05));
        let (compared, tolerance) = find("ft8x3_hot_0.3_0.9");
        assert!(compared == Compared::Latency && (tolerance - 3.0 * 1.81 / 41.0).abs() < 1e-9);
    }
}
