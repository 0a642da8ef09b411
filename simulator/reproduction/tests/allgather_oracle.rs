//! The times in `data/allgather.csv` are those of the brute-force oracle, which is run again here, and the model's
//! all-gather takes as long.
//!
//! Processors are as simple as the oracle: a rank posts its first message at once, each later one when the
//! message of the round before has come. As the oracle takes all packets before it begins, it is run again and again
//! with the times found so far until none changes.

use angara_model::Angara;
use angara_oracle::{Grid, Sent};
use angara_reproduction::allgather::{references, simulate};

/// Tori of 2, 4 and 8 nodes. In a ring of 8 messages share links, in the others every partner is a neighbour.
const TORI: [&str; 4] = ["2", "2x2", "2x2x2", "8"];
const BYTES: [u64; 4] = [8, 256, 1000, 8192];
const SW_NS: [u64; 2] = [0, 700];

/// Flits of the packets that carry `bytes`: up to 16 of data, a header and a tail.
fn packets(bytes: u64) -> Vec<u64> {
    (0..bytes.div_ceil(256)).map(|i| 2 + (bytes - 256 * i).min(256).div_ceil(16)).collect()
}

/// Picoseconds until every rank has every part.
fn all_gather(torus: &str, bytes: u64, sw: u64) -> u64 {
    let grid = Grid { sizes: torus.split('x').map(|n| n.parse().unwrap()).collect(), wrap: true };
    let (n, p) = (grid.nodes() as usize, Angara::default());
    let rounds = n.trailing_zeros() as usize;
    // When each rank posts its message of each round, as far as known.
    let mut posts = vec![vec![None; rounds]; n];
    posts.iter_mut().for_each(|of| of[0] = Some(sw));
    loop {
        let mut sent = Vec::new();
        for (rank, round) in (0..n).flat_map(|rank| (0..rounds).map(move |round| (rank, round))) {
            let Some(at) = posts[rank][round] else { continue };
            let (src, dst) = (rank as u32, (rank ^ 1 << round) as u32);
            let packet = |flits| (Sent { src, dst, flits, at, request: true, adaptive: false }, round);
            sent.extend(packets(bytes << round).into_iter().map(packet));
        }
        sent.sort_by_key(|(s, round)| (s.at, s.src, *round));
        let messages: Vec<Sent> = sent.iter().map(|(s, _)| *s).collect();
        let mut arrived = vec![vec![None; rounds]; n];
        for (packet, last, _) in angara_oracle::angara::run(&grid, &p, &messages) {
            let (s, round) = sent[packet];
            let message = &mut arrived[s.dst as usize][round];
            *message = Some(message.map_or(last, |m: u64| m.max(last)));
        }
        let mut next = posts.clone();
        for (rank, round) in (0..n).flat_map(|rank| (1..rounds).map(move |round| (rank, round))) {
            let ready = posts[rank][round - 1].zip(arrived[rank][round - 1]);
            next[rank][round] = ready.map(|(posted, arrived)| posted.max(arrived) + sw);
        }
        if next == posts {
            return arrived.into_iter().filter_map(|of| of[rounds - 1]).max().unwrap();
        }
        posts = next;
    }
}

#[test]
fn the_model_takes_as_long_for_an_all_gather_as_the_oracle() {
    let mut table = String::new();
    for (torus, bytes) in TORI.into_iter().flat_map(|t| BYTES.map(|b| (t, b))) {
        for sw in SW_NS {
            let ps = all_gather(torus, bytes, sw * 1000);
            table += &format!("{torus},{bytes},{sw},{}\n", ps as f64 / 1000.0);
        }
    }
    let carried = include_str!("../data/allgather.csv");
    let rows = carried.split_once("torus,bytes,sw_ns,ns\n").unwrap().1;
    assert!(rows == table, "simulator/reproduction/data/allgather.csv must say\n{table}");
    for r in references() {
        let ns = simulate(&r).unwrap();
        assert!((ns / r.ns - 1.0).abs() <= 0.09, "{r:?}: {ns} ns in the model");
    }
}
