//! Puts a network of `generic` routers together, or parts of one for several threads.

use super::routers::{Range, Routers};
use crate::engine::Engine;
use crate::parallel::{Parallel, cuts};
use crate::setup::{Generic, SetupError};
use crate::topology::Topology;

/// Most parts of a network.
const PARTS_MAX: usize = u8::MAX as usize;

/// An engine of as many parts as there are threads, with routers as large as necessary.
pub(crate) fn engine<T: Topology + Clone + 'static>(
    topology: T,
    p: &Generic,
    seed: u64,
    threads: usize,
) -> Result<Box<dyn Engine>, SetupError> {
    match (topology.ports(), p.vcs) {
        (..=8, ..=4) => assemble::<T, 32, 8, 1>(topology, p, seed, threads),
        (..=16, ..=4) => assemble::<T, 64, 16, 1>(topology, p, seed, threads),
        (..=8, _) => assemble::<T, 64, 8, 1>(topology, p, seed, threads),
        _ => assemble::<T, 512, 64, 8>(topology, p, seed, threads),
    }
}

fn assemble<T: Topology + Clone + 'static, const N: usize, const P: usize, const W: usize>(
    topology: T,
    p: &Generic,
    seed: u64,
    threads: usize,
) -> Result<Box<dyn Engine>, SetupError> {
    let (routers, endpoints) = (topology.routers(), topology.endpoints());
    let cuts = cuts(routers, threads.clamp(1, routers.min(PARTS_MAX)));
    // Endpoints are attached in ascending order, so those of a range of routers are a range, too.
    let attached: Vec<u32> = (0..endpoints as u32).map(|e| topology.attach(e).0).collect();
    let endpoint_cuts: Vec<u32> = cuts.iter().map(|&cut| attached.partition_point(|&r| r < cut) as u32).collect();
    let part = |part| {
        let range = Range { cuts: &cuts, endpoint_cuts: &endpoint_cuts, part };
        Routers::<T, N, P, W>::new(topology.clone(), p, seed, &range)
    };
    Ok(match cuts.len() {
        1 => Box::new(part(0)),
        n => Box::new(Parallel::new((0..n).map(part).collect(), endpoint_cuts.clone())?),
    })
}
