//! Section 7: an all-reduce on the rings of Blue Gene/Q.
//!
//! S. Kumar and D. Faraj, "Optimization of MPI_Allreduce on the Blue Gene/Q supercomputer" (EuroMPI 2013); of it the
//! abstract was at hand. Links: Chen et al., IEEE Micro 32, 2012.

use crate::claim::{Claim, Job, Judgement, Values, values};
use angara_sim::Error;
use angara_sim::run::router::Router;
use angara_sim::settings::Keys;
use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sizes of 512 nodes of the machine.
const SIZES: [usize; 5] = [4, 4, 4, 4, 2];
/// Rings whose links have a share of the vector in either direction. The last one is a pair of nodes.
const RINGS: usize = 4;
/// Shares of the vector, each with an endpoint of its own at every router.
const SHARES: usize = 2 * RINGS;
/// Bytes of a share.
const SHARE: usize = 64 << 10;
/// Gigabytes per second of a link in one direction.
const LINK: f64 = 2.0;
/// What the paper reached, GB/s.
const PUBLISHED: f64 = 6.3;

pub(super) fn claim() -> Claim {
    let job = Job::call("all-reduce, Blue Gene/Q", 4.0, simulate);
    let name = job.name.clone();
    // A byte of the vector goes into the sum, and out of it.
    let most = SHARES as f64 * LINK / 2.0;
    Claim::new(
        "7.bgq.allreduce",
        format!(
            "Blue Gene/Q (Kumar and Faraj 2013): an all-reduce of doubles over all links of a node reaches {PUBLISHED} GB/s"
        ),
        format!("{PUBLISHED} GB/s at least; no more than the links of four rings allow, {most}"),
        vec![job],
        move |r| {
            let rate = r.get(&name, "rate");
            Judgement::new((PUBLISHED..=most).contains(&rate), format!("{rate:.2} GB/s")).because(NETWORK)
        },
    )
}

const NETWORK: &str = "The network alone: 512 nodes, 4x4x4x4x2, generic routers with a flit of 16 bytes per 8 ns, which is the 2 GB/s of a \
     link in one direction (Chen et al., IEEE Micro 32, 2012), no headers, and no time for sums. Every link of the four rings of 4 has \
     a share of 64 KiB of the vector in each direction. A share goes round ring after ring, beginning with the link's own, as a \
     reduce-scatter, and back as an all-gather. The paper has ten trees instead, which use the fifth ring, too; links would allow \
     10 GB/s then. It reaches 63 % of that and says that cores add packets; its abstract, which alone was at hand, does not say how \
     many nodes it had.";

/// Bytes of the vector by the time of the all-reduce, GB/s.
fn simulate() -> Result<Values, Error> {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("angara-allreduce-{}-{run}", std::process::id()));
    fs::write(&path, schedule()).map_err(|source| Error::File { path: path.clone(), source })?;
    // It is read as a whole here.
    let workload = format!("goal:{}", path.display()).parse();
    let removed = fs::remove_file(&path);
    removed.map_err(|source| Error::File { path, source })?;
    let sizes: Vec<String> = SIZES.iter().map(usize::to_string).collect();
    let keys = Keys {
        topology: Some(format!("torus:{},c={SHARES}", sizes.join("x")).parse().expect("a torus")),
        router: Some(Router::Generic),
        cycle_ns: Some(8.0),
        vcs: Some(4),
        buffer: Some(72),
        length: Some("18".parse().expect("a length")),
        workload: Some(workload?),
        ..Keys::default()
    };
    let simulation = keys.resolve().map_err(|(e, _)| e)?;
    let report = simulation.run(&mut |_| ControlFlow::Continue(()))?;
    let ns = report.json["time_ns"].as_f64().expect("a schedule has a time");
    Ok(values(&[("rate", (SHARES * SHARE) as f64 / ns)]))
}

/// Node of these coordinates, X first.
fn number(at: &[usize; 5]) -> usize {
    at.iter().zip(SIZES).rev().fold(0, |number, (at, size)| number * size + at)
}

/// The all-reduce in GOAL: rank SHARES·n + s has share s of node n.
fn schedule() -> String {
    let nodes: usize = SIZES.iter().product();
    let mut text = format!("num_ranks {}\n", nodes * SHARES);
    for node in 0..nodes {
        let mut rest = node;
        let at = SIZES.map(|size| {
            let coordinate = rest % size;
            rest /= size;
            coordinate
        });
        for share in 0..SHARES {
            let _ = writeln!(text, "rank {} {{", node * SHARES + share);
            steps(&mut text, at, share);
            text.push_str("}\n");
        }
    }
    text
}

/// What a node sends and receives of a share.
fn steps(text: &mut String, at: [usize; 5], share: usize) {
    let (first, up) = (share / 2, share.is_multiple_of(2));
    let rings = (0..RINGS).map(|i| (first + i) % RINGS).chain(RINGS..SIZES.len());
    let mut bytes = SHARE;
    let pieces: Vec<(usize, usize)> = rings
        .map(|ring| {
            bytes /= SIZES[ring];
            (ring, bytes)
        })
        .collect();
    let mut step = 0usize;
    for (ring, bytes) in pieces.iter().chain(pieces.iter().rev()).copied() {
        let size = SIZES[ring];
        let rank = |steps: usize| {
            let mut to = at;
            to[ring] = (at[ring] + steps) % size;
            number(&to) * SHARES + share
        };
        let (to, from) = if up { (rank(1), rank(size - 1)) } else { (rank(size - 1), rank(1)) };
        for _ in 1..size {
            let _ = writeln!(text, "s{step}: send {bytes}b to {to} tag {step}");
            let _ = writeln!(text, "r{step}: recv {bytes}b from {from} tag {step}");
            if let Some(before) = step.checked_sub(1) {
                let _ = writeln!(text, "s{step} requires r{before}");
            }
            step += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_sends_and_receives_all_of_a_share_but_its_own_piece_twice() {
        let all = schedule();
        let of = |word: &str| -> usize {
            let lines = all.lines().filter(|line| line.contains(word));
            lines
                .map(|line| line.split_whitespace().nth(2).unwrap().trim_end_matches('b').parse::<usize>().unwrap())
                .sum()
        };
        let nodes: usize = SIZES.iter().product();
        let expected = nodes * SHARES * 2 * (SHARE - SHARE / nodes);
        assert_eq!((of(": send "), of(": recv ")), (expected, expected));
    }
}
