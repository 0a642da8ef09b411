//! The comment by which a job, and a restarted program, know a set: `angara set nodes=0-3 transit=7`.

use angara_net::torus::NodeId;
use angara_net::units;
use angara_placement::NodeSet;

const BEGIN: &str = "angara set ";

/// The comment of a set.
pub(super) fn write(set: &NodeSet) -> String {
    let transit = if set.transit.is_empty() { String::new() } else { format!(" transit={}", ranges(&set.transit)) };
    format!("{BEGIN}nodes={}{transit}", ranges(&set.nodes))
}

/// The set of a comment, or `None` if it is somebody else's comment. Nodes outside of `0..nodes` are left out:
/// the torus may have been another one.
pub(super) fn read(comment: &str, nodes: usize) -> Option<NodeSet> {
    let mut set = NodeSet::default();
    for word in comment.strip_prefix(BEGIN)?.split_whitespace() {
        let (name, list) = word.split_once('=')?;
        let list = units::list(list)?.into_iter().filter(|&n| n < nodes).map(|n| n as NodeId).collect();
        match name {
            "nodes" => set.nodes = list,
            "transit" => set.transit = list,
            _ => return None,
        }
    }
    Some(set)
}

/// `0-3,7`, of ascending numbers.
pub(super) fn ranges(nodes: &[NodeId]) -> String {
    let mut runs: Vec<(NodeId, NodeId)> = Vec::new();
    for &node in nodes {
        match runs.last_mut() {
            Some(run) if run.1 + 1 == node => run.1 = node,
            _ => runs.push((node, node)),
        }
    }
    let shown = runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_survives_its_comment() {
        let plain = NodeSet::of(vec![7, 0, 1, 2, 5]);
        assert_eq!(write(&plain), "angara set nodes=0-2,5,7");
        let with_transit = NodeSet { transit: vec![3], ..plain.clone() };
        for set in [plain, with_transit] {
            assert_eq!(read(&write(&set), 8), Some(set));
        }
        assert_eq!(read("angara set nodes=3-9", 4), Some(NodeSet::of(vec![3])));
        for other in ["", "angara", "set nodes=1", "angara set nodes=x", "angara set colour=1"] {
            assert_eq!(read(other, 8), None, "{other}");
        }
    }
}
