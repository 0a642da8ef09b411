//! Section 3, accuracy: the time of an all-gather by messages between pairs, against a simulator that
//! looks at every packet at every instant.
//!
//! Paper 000 compared its model with a cluster. Here the reference is the brute-force oracle of the network
//! model's tests, which shares no code with it. Its times are in `data/allgather.csv`; the test
//! `allgather_oracle` computes them anew and compares.

use super::claim::{Claim, Job, Judgement, values};
use angara_fabric::Config;
use angara_sim::workload::collective::{Collective, CollectivePlan, Method, measure};

const ORACLE: &str = include_str!("../data/allgather.csv");
/// The paper's largest difference was 8.96 %.
const TOLERANCE: f64 = 0.09;

/// An all-gather by recursive doubling and what the oracle says.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Sizes of the torus, as in `2x2`.
    pub torus: String,
    /// Bytes of every node's part.
    pub bytes: u64,
    /// Software time of a message, ns.
    pub sw_ns: f64,
    /// Time until everybody has everything, ns.
    pub ns: f64,
}

/// All rows of the reference.
pub fn references() -> Vec<Reference> {
    let row = |line: &str| {
        let [torus, bytes, sw, ns] = line.split(',').collect::<Vec<_>>()[..] else { return None };
        Some(Reference {
            torus: torus.into(),
            bytes: bytes.parse().ok()?,
            sw_ns: sw.parse().ok()?,
            ns: ns.parse().ok()?,
        })
    };
    let lines = ORACLE.lines().filter(|l| !l.starts_with('#')).skip(1);
    lines.map(|l| row(l).unwrap_or_else(|| panic!("row `{l}` is malformed; a test checks them all"))).collect()
}

/// The model's time for the same, ns.
///
/// # Errors
/// See [`measure`].
pub fn simulate(r: &Reference) -> Result<f64, angara_sim::Error> {
    let config = Config { payload: false, ..Config::new(r.torus.parse().expect("a torus")) };
    let plan = CollectivePlan { what: Collective::AllGather, how: Method::PointToPoint, bytes: r.bytes };
    Ok(measure(config, plan, r.sw_ns)?.time as f64 / 1000.0)
}

pub(super) fn claims() -> Vec<Claim> {
    let mut tori: Vec<String> = references().into_iter().map(|r| r.torus).collect();
    tori.dedup();
    tori.into_iter().map(claim).collect()
}

fn claim(torus: String) -> Claim {
    let cases: Vec<Reference> = references().into_iter().filter(|r| r.torus == torus).collect();
    let nodes = torus.split('x').filter_map(|n| n.parse::<u32>().ok()).product::<u32>();
    let job = Job::call(format!("all-gather on {torus}"), 0.05, {
        let cases = cases.clone();
        move || {
            let off =
                cases.iter().map(|c| Ok(simulate(c)? / c.ns - 1.0)).collect::<Result<Vec<f64>, angara_sim::Error>>()?;
            let worst = off.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(f64::NAN);
            let exact = off.iter().filter(|o| o.abs() < 1e-9).count();
            Ok(values(&[("worst", worst), ("exact", exact as f64)]))
        }
    });
    let name = job.name.clone();
    let (least, most) = cases.iter().fold((u64::MAX, 0), |(a, b), c| (a.min(c.bytes), b.max(c.bytes)));
    let id = format!("3.allgather.{torus}");
    let claim = format!(
        "all-gather by recursive doubling on {torus} ({nodes} nodes), parts of {least} to {most} bytes, sw = 0 and 700 ns: \
         the model against a cycle-by-cycle oracle"
    );
    Claim::new(id, claim, "within 9 %", vec![job], move |r| {
        let worst = r.get(&name, "worst");
        let measured =
            format!("{:.2} % at most, {} of {} times equal", 100.0 * worst.abs(), r.get(&name, "exact"), cases.len());
        Judgement::new(worst.abs() <= TOLERANCE, measured)
    })
}
