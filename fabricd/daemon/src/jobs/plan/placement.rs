//! Which node each PE of a job lives on.

use crate::failure::failure;
use angara_net::torus::{NodeId, Shape};
use angara_net::units::show_bytes;
use angara_protocol::msg::{Failure, Map};

/// Nodes that PEs may be placed on.
#[derive(Clone, Copy)]
pub(crate) struct Nodes<'a> {
    /// All of them, ascending.
    pub(crate) all: &'a [NodeId],
    /// Channels that nobody uses.
    pub(crate) free: &'a dyn Fn(NodeId) -> u32,
    /// Channels that others use: nodes with fewer of them come first.
    pub(crate) taken: &'a dyn Fn(NodeId) -> u32,
}

/// The node of each PE: PEs 0..ppn on the first node of the chosen order that has room for them, and so on.
pub(crate) fn place(shape: Shape, nodes: Nodes<'_>, pes: u32, ppn: u32, map: &Map) -> Result<Vec<NodeId>, Failure> {
    let hosted = nodes.all;
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
        Map::Linear => fill(hosted, nodes, pes, ppn),
        Map::Random(seed) => fill(&shuffled(hosted, *seed), nodes, pes, ppn),
        Map::List(list) => check_list(shape, hosted, pes, ppn, list),
    }
}

/// Fills nodes in this order, but those first on which fewer others are. Those without room for `ppn` PEs are passed over as long as there are others; then each
/// takes what it has room for.
fn fill(order: &[NodeId], nodes: Nodes<'_>, pes: u32, ppn: u32) -> Result<Vec<NodeId>, Failure> {
    let mut order = order.to_vec();
    order.sort_by_key(|node| (nodes.taken)(*node));
    for whole in [true, false] {
        let mut placed = Vec::with_capacity(pes as usize);
        for &node in &order {
            let due = ppn.min(pes - placed.len() as u32);
            let room = (nodes.free)(node).min(due);
            let taken = if whole && room < due { 0 } else { room };
            placed.extend(std::iter::repeat_n(node, taken as usize));
        }
        if placed.len() == pes as usize {
            return Ok(placed);
        }
    }
    let (free, usable) = nodes.all.iter().fold((0, 0), |(free, usable), &node| {
        let here = (nodes.free)(node);
        (free + u64::from(here), usable + u64::from(here.min(ppn)))
    });
    Err(failure(
        format!(
            "{pes} PEs with at most {ppn} on a node find no room now: {usable} of {free} free channels can be used"
        ),
        "wait for another job to end, start fewer PEs or more on a node (--ppn), or give the daemon more --channels",
    ))
}

/// Fisher-Yates with a counter-based generator: the same seed gives the same order everywhere.
fn shuffled(nodes: &[NodeId], seed: u64) -> Vec<NodeId> {
    let mut order = nodes.to_vec();
    for i in (1..order.len()).rev() {
        order.swap(i, (angara_fabric::rng::splitmix(seed, i as u64) % (i as u64 + 1)) as usize);
    }
    order
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

/// Returns what a job would reserve and what there is; an error names both.
pub(crate) fn check_memory(per_pe: u64, pes: u32, limits: &[(String, u64)]) -> Result<u64, Failure> {
    let need = per_pe.saturating_mul(pes as u64);
    match limits.iter().find(|(_, limit)| need > *limit) {
        None => Ok(need),
        Some((what, limit)) => {
            let fits = limit / per_pe.max(1);
            let heap = (limit / pes.max(1) as u64).saturating_sub(angara_abi::job::INTERNAL_BYTES as u64) >> 20;
            Err(failure(
                format!(
                    "{pes} PEs × {} of symmetric memory = {} exceed {what} ({})",
                    show_bytes(per_pe),
                    show_bytes(need),
                    show_bytes(*limit)
                ),
                match (heap, fits) {
                    (1.., 0) => format!("use --heap {heap}M or less"),
                    (1.., _) => format!("use --heap {heap}M or less, or at most {fits} PEs"),
                    (0, 1..) => format!("start at most {fits} PEs"),
                    (0, 0) => match limit / (angara_abi::job::INTERNAL_BYTES as u64 + (1 << 20)) {
                        0 => "raise that limit or make room: there is not enough for one PE".into(),
                        few => format!("use --heap 1M and at most {few} PEs"),
                    },
                },
            ))
        }
    }
}

/// The same for the global and static variables of a program, which no option makes smaller.
pub(crate) fn check_static_memory(per_pe: u64, pes: u32, limits: &[(String, u64)]) -> Result<u64, Failure> {
    let need = per_pe.saturating_mul(pes as u64);
    match limits.iter().find(|(_, limit)| need > *limit) {
        None => Ok(need),
        Some((what, limit)) => Err(failure(
            format!(
                "{pes} PEs × {} of global and static variables of the program = {} exceed {what} ({})",
                show_bytes(per_pe),
                show_bytes(need),
                show_bytes(*limit)
            ),
            match limit / per_pe.max(1) {
                0 => "make the program's global arrays smaller: there is not enough for one PE".into(),
                fits => format!("start at most {fits} PEs, or make the program's global arrays smaller"),
            },
        )),
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
    fn place(shape: Shape, all: &[NodeId], pes: u32, ppn: u32, map: &Map) -> Result<Vec<NodeId>, Failure> {
        super::place(shape, Nodes { all, free: &|_| 16, taken: &|_| 0 }, pes, ppn, map)
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
    fn nodes_without_others_come_first() {
        let taken = |node: NodeId| [2, 1, 1, 0, 0, 0, 0, 1][node as usize];
        let place = |pes, ppn, map| {
            super::place(shape(), Nodes { all: &all(), free: &|node| 4 - taken(node), taken: &taken }, pes, ppn, map)
        };
        assert_eq!(place(3, 1, &Map::Linear), Ok(vec![3, 4, 5]));
        assert_eq!(place(8, 1, &Map::Linear), Ok(vec![3, 4, 5, 6, 1, 2, 7, 0]));
        assert_eq!(place(6, 4, &Map::Linear), Ok(vec![3, 3, 3, 3, 4, 4]));
        let mut random = place(4, 1, &Map::Random(1)).expect("room");
        random.sort_unstable();
        assert_eq!(random, [3, 4, 5, 6]);
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

    #[test]
    fn too_much_static_data_is_no_question_of_the_heap() {
        let limits = [("MemAvailable".to_string(), 1 << 30)];
        assert_eq!(check_static_memory(1 << 20, 8, &limits), Ok(8 << 20));
        let f = check_static_memory(300 << 20, 8, &limits).expect_err("too much");
        assert!(f.message.contains("8 PEs × 300M of global and static") && f.message.contains("2.3G"), "{f:?}");
        assert!(f.remedy.contains("at most 3 PEs") && !f.remedy.contains("--heap"), "{f:?}");
        let f = check_static_memory(2 << 30, 1, &limits).expect_err("too much");
        assert!(f.remedy.contains("smaller") && !f.remedy.contains("--heap"), "{f:?}");
    }

    #[test]
    fn memory_remedies_are_possible() {
        let internal = angara_abi::job::INTERNAL_BYTES as u64;
        let remedy = |per_pe: u64, pes: u32, limit: u64| {
            check_memory(per_pe, pes, &[("MemAvailable".to_string(), limit)]).expect_err("too much").remedy
        };
        let room = internal + (1 << 20);
        assert_eq!(remedy(room + 1, 1, room), "use --heap 1M or less");
        assert_eq!(remedy(100 * room, 50, 3 * room), "use --heap 1M and at most 3 PEs");
        assert_eq!(remedy(room, 9, 3 * room), "start at most 3 PEs");
        assert!(remedy(room, 2, room - 1).contains("not enough for one PE"));
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
