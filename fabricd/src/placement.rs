//! Which node each PE of a job lives on.

use crate::config::show_size;
use abi::msg::{Failure, Map};
use abi::torus::{NodeId, Shape};

/// A failure from its two sentences.
pub(crate) fn failure(message: impl Into<String>, remedy: impl Into<String>) -> Failure {
    Failure { message: message.into(), remedy: remedy.into() }
}

/// The node of each PE: PEs 0..ppn on the first node of the chosen order, and so on.
pub(crate) fn place(shape: Shape, hosted: &[NodeId], pes: u32, ppn: u32, map: &Map) -> Result<Vec<NodeId>, Failure> {
    if pes == 0 || ppn == 0 {
        return Err(failure(
            format!("a job of {pes} PEs with {ppn} PEs per node"),
            "give at least 1 of each (-n and --ppn)",
        ));
    }
    let room = hosted.len() as u64 * ppn as u64;
    if pes as u64 > room {
        let fit = (pes as u64).div_ceil(hosted.len() as u64);
        return Err(failure(
            format!("{pes} PEs do not fit: {} nodes × {ppn} PEs per node = {room}", hosted.len()),
            format!("start at most {room} PEs, use --ppn {fit}, or a larger network (--torus)"),
        ));
    }
    match map {
        Map::Linear => Ok(fill(hosted, pes, ppn)),
        Map::Random(seed) => Ok(fill(&shuffled(hosted, *seed), pes, ppn)),
        Map::List(list) => check_list(shape, hosted, pes, ppn, list),
    }
}

fn fill(order: &[NodeId], pes: u32, ppn: u32) -> Vec<NodeId> {
    (0..pes).map(|pe| order[(pe / ppn) as usize]).collect()
}

/// Fisher-Yates with a counter-based generator: the same seed gives the same order everywhere.
fn shuffled(nodes: &[NodeId], seed: u64) -> Vec<NodeId> {
    let mut order = nodes.to_vec();
    for i in (1..order.len()).rev() {
        order.swap(i, (splitmix(seed, i as u64) % (i as u64 + 1)) as usize);
    }
    order
}

/// SplitMix64 of (seed, counter).
fn splitmix(seed: u64, counter: u64) -> u64 {
    let mut z = seed.wrapping_add(counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn check_list(shape: Shape, hosted: &[NodeId], pes: u32, ppn: u32, list: &[NodeId]) -> Result<Vec<NodeId>, Failure> {
    if list.len() != pes as usize {
        return Err(failure(
            format!("the placement lists {} nodes for {pes} PEs", list.len()),
            "give one node per PE in the --map file",
        ));
    }
    let mut count = vec![0u32; shape.nodes()];
    for (pe, &node) in list.iter().enumerate() {
        if hosted.binary_search(&node).is_err() {
            let last = shape.nodes() - 1;
            return Err(failure(
                format!("the placement puts PE {pe} on node {node}, which is not hosted here"),
                format!("use hosted nodes of {shape} (0 to {last}; `angara status` lists them)"),
            ));
        }
        count[node as usize] += 1;
        if count[node as usize] > ppn {
            return Err(failure(
                format!("the placement puts more than {ppn} PEs on node {node}"),
                format!("raise --ppn above {ppn} or spread the PEs"),
            ));
        }
    }
    Ok(list.to_vec())
}

/// What a job would reserve and what there is; an error names both.
pub(crate) fn check_memory(per_pe: u64, pes: u32, limits: &[(String, u64)]) -> Result<u64, Failure> {
    let need = per_pe.saturating_mul(pes as u64);
    match limits.iter().find(|(_, limit)| need > *limit) {
        None => Ok(need),
        Some((what, limit)) => {
            let fits = limit / per_pe.max(1);
            let heap = (limit / pes.max(1) as u64).saturating_sub(abi::job::INTERNAL_BYTES as u64) >> 20;
            Err(failure(
                format!(
                    "{pes} PEs × {} of symmetric memory = {} exceed {what} ({})",
                    show_size(per_pe),
                    show_size(need),
                    show_size(*limit)
                ),
                match (heap, fits) {
                    (1.., _) => format!("use --heap {heap}M or less, or at most {fits} PEs"),
                    _ => format!("start at most {fits} PEs"),
                },
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape() -> Shape {
        "2x2x2".parse().expect("shape")
    }
    fn all() -> Vec<NodeId> {
        (0..8).collect()
    }

    #[test]
    fn too_many_pes_name_both_numbers_and_the_remedy() {
        let f = place(shape(), &all(), 9, 1, &Map::Linear).expect_err("nine on eight");
        assert!(f.message.contains("9 PEs") && f.message.contains("= 8"), "{f:?}");
        assert!(f.remedy.contains("--ppn 2"), "{f:?}");
    }

    #[test]
    fn linear_fills_nodes_in_order() {
        assert_eq!(place(shape(), &all(), 5, 2, &Map::Linear), Ok(vec![0, 0, 1, 1, 2]));
        assert_eq!(place(shape(), &[2, 5], 2, 1, &Map::Linear), Ok(vec![2, 5]));
    }

    #[test]
    fn lists_are_checked() {
        for (list, part) in
            [(vec![0], "lists 1 nodes"), (vec![0, 8], "node 8"), (vec![3, 3], "more than 1 PEs on node 3")]
        {
            let f = place(shape(), &all(), 2, 1, &Map::List(list)).expect_err("must be refused");
            assert!(f.message.contains(part), "{f:?}");
        }
        assert_eq!(place(shape(), &all(), 2, 1, &Map::List(vec![6, 1])), Ok(vec![6, 1]));
    }

    #[test]
    fn memory_errors_name_the_limit() {
        let limits = [("MemAvailable".to_string(), 1 << 30)];
        assert_eq!(check_memory(1 << 20, 8, &limits), Ok(8 << 20));
        let f = check_memory(1 << 30, 8, &limits).expect_err("too much");
        assert!(f.message.contains("8G") && f.message.contains("MemAvailable (1G)"), "{f:?}");
        assert!(f.remedy.contains("--heap 127M"), "{f:?}");
        assert!(check_memory(u64::MAX, 2, &limits).is_err());
    }

    proptest! {
        #[test]
        fn random_placement_is_a_permutation(seed: u64) {
            let mut placed = place(shape(), &all(), 8, 1, &Map::Random(seed)).expect("fits");
            placed.sort_unstable();
            prop_assert_eq!(placed, all());
        }
    }
}
