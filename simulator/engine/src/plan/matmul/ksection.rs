//! k-section bandwidth: what bisection bandwidth is for two halves, for any number of parts.
//!
//! Cut the machine into k about equal parts, take one of them and ask for the largest flow from
//! it to all the others; the smallest such flow over all cuts is the k-section bandwidth. As a
//! function of k it says what a machine's network is worth to programs of any locality.

use super::machine::{Machine, TorusNode, WORD};
use crate::plot::Chart;
use angara_net::torus::Shape;
use serde::Serialize;

/// A point of the curve.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Number of parts.
    pub k: u64,
    /// Gwords/s out of one part.
    pub gwords: f64,
}

/// Curves by name as a chart.
pub fn chart(curves: Vec<(String, Vec<Point>)>) -> Chart {
    let points = |p: Vec<Point>| p.iter().map(|p| (p.k as f64, p.gwords)).collect();
    Chart {
        title: "k-section bandwidth".into(),
        x: "parts k".into(),
        y: "Gwords/s out of one part".into(),
        x_log: true,
        y_log: true,
        curves: curves.into_iter().map(|(name, p)| (name, points(p))).collect(),
        ..Chart::default()
    }
}

/// The curve of a machine whose levels are switches: k = 2, 4, 8, … up to its elements.
///
/// A part is made of whole components of the level just below its size, inside as few components
/// of the level above as possible, because spreading them would open more outside links.
pub fn switched(machine: &Machine) -> Vec<Point> {
    let total = machine.elements_total();
    (1..)
        .map(|bit| 1u64 << bit)
        .take_while(|&k| k <= total)
        .map(|k| Point { k, gwords: switched_at(machine, k) })
        .collect()
}

/// Flow out of one of `k` parts of a switched machine, Gwords/s.
pub fn switched_at(machine: &Machine, k: u64) -> f64 {
    let size = (machine.elements_total() / k).max(1);
    let level = machine.levels.iter().rposition(|l| l.elements <= size).unwrap_or(0);
    let own = &machine.levels[level];
    let members = (size / own.elements) as f64;
    let all = match machine.levels.get(level + 1) {
        Some(above) => above.parts as f64,
        None => own.count as f64,
    };
    // The part's links, or what the rest of its own parent and the parent's uplink can take.
    let uplink = machine.levels.get(level + 1).map_or(0.0, |above| above.gwords());
    (members * own.gwords()).min((all - members) * own.gwords() + uplink)
}

/// The curve of a torus or mesh: for k dividing into powers of two up to the number of nodes, the
/// smallest cut around a box of N/k nodes. `over_links` ignores how much nodes can inject.
pub fn torus(shape: &Shape, node: &TorusNode, over_links: bool) -> Vec<Point> {
    let total = shape.nodes() as u64;
    let ks = (1..).map(|bit| 1u64 << bit).take_while(|&k| k <= total);
    ks.map(|k| {
        let (volume, links) = smallest_cut(shape, (total / k).max(1));
        let cut = links as f64 * node.link;
        let flow = if over_links { cut } else { cut.min(volume as f64 * node.injection) };
        Point { k, gwords: flow / WORD }
    })
    .collect()
}

/// The box of nodes whose volume is nearest to `volume`, and among these with the fewest links
/// out of it: (volume, links). A box leaves a torus through two faces in each dimension that it
/// does not fill, and a mesh through one when it lies in a corner.
pub fn smallest_cut(shape: &Shape, volume: u64) -> (u64, u64) {
    let mut best = (u64::MAX, u64::MAX, 0);
    let mut sides = vec![1u64; shape.dims().len()];
    loop {
        let size: u64 = sides.iter().product();
        let faces = if shape.is_torus() { 2 } else { 1 };
        let links =
            sides.iter().enumerate().filter(|&(d, &s)| s < shape.size(d) as u64).map(|(_, s)| faces * size / s).sum();
        best = best.min((size.abs_diff(volume), links, size));
        let Some(d) = (0..sides.len()).find(|&d| sides[d] < shape.size(d) as u64) else { break };
        sides[d] += 1;
        sides[..d].fill(1);
    }
    (best.2, best.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_fabric::bits::bits;
    use angara_net::torus::Direction;

    #[test]
    fn merrimac_steps() {
        let m = Machine::merrimac();
        for (k, gwords) in [(16, 160.0), (512, 10.0), (8 << 10, 2.5), (128 << 10, 0.5), (512 << 10, 1.0)] {
            assert_eq!(switched_at(&m, k), gwords, "k = {k}");
        }
        assert_eq!(switched_at(&m, 2), 1280.0, "bisection: eight racks");
        assert_eq!(switched_at(&m, 32), 160.0, "half a rack: 16 boards");
        assert_eq!(switched(&m).len(), 19);
    }

    #[test]
    fn a_torus_is_cut_along_its_longest_dimension() {
        let node = TorusNode { link: 8.0, ..TorusNode::default() };
        let curve = torus(&"8x4x4".parse().unwrap(), &node, true);
        assert_eq!(curve[0], Point { k: 2, gwords: 32.0 }, "two faces of 4x4 links of one Gword/s");
        assert_eq!(curve.last(), Some(&Point { k: 128, gwords: 6.0 }), "a single node has six links");
    }

    #[test]
    fn injection_limits_small_parts() {
        let curve = torus(&"8x8x8".parse().unwrap(), &TorusNode::default(), false);
        assert_eq!(curve.last().unwrap().gwords, 1.0, "8 GB/s into the host, though six links leave");
    }

    /// Fewest links out of any set of `volume` nodes.
    fn brute_force(shape: &Shape, volume: u32) -> u64 {
        let nodes = shape.nodes() as u32;
        let links: Vec<Vec<u32>> =
            (0..nodes).map(|v| Direction::ALL.iter().filter_map(|&d| shape.neighbour(v, d)).collect()).collect();
        let cut = |set: u32| -> u64 {
            bits(set).map(|v| links[v as usize].iter().filter(|&&u| set >> u & 1 == 0).count() as u64).sum()
        };
        (0..1u32 << nodes).filter(|s| s.count_ones() == volume).map(cut).min().unwrap()
    }

    #[test]
    fn no_other_set_of_nodes_has_a_smaller_cut() {
        for (text, volumes) in [("4x4", &[2, 4, 8][..]), ("mesh:4x4", &[2, 4, 8]), ("4x2x2", &[2, 4, 8]), ("3x3", &[3])]
        {
            let shape = text.parse().unwrap();
            for &volume in volumes {
                assert_eq!(
                    smallest_cut(&shape, volume),
                    (volume, brute_force(&shape, volume as u32)),
                    "{text} {volume}"
                );
            }
        }
    }
}
