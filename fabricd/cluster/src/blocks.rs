//! Cutting a network into one box per host.
//!
//! A box is cut in two by a plane, with a share of the hosts for either side, until every box has one
//! host. Of all such cuts the one is taken whose largest box is smallest (hosts are taken to be equal),
//! and among those the one that the fewest links cross. Links cut by a plane depend only on the box:
//! its cross-section, twice where the box goes once round the torus.

use angara_net::torus::{DIMS_MAX, Shape};
use std::collections::HashMap;

/// Up to this many nodes and hosts every plane and share is tried; above, those near an equal share.
const EXHAUSTIVE: (usize, usize) = (512, 16);
/// Compromises kept per box and number of hosts.
const FRONT_MAX: usize = 4;

/// A box of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Lowest corner.
    pub low: [u8; DIMS_MAX],
    /// Nodes along each dimension.
    pub size: [u8; DIMS_MAX],
}

impl Block {
    /// Highest corner, which belongs to it.
    pub fn high(&self) -> [u8; DIMS_MAX] {
        std::array::from_fn(|d| self.low[d] + self.size[d] - 1)
    }
    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        volume(&self.size)
    }
}

/// A network cut into blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// One per host.
    pub blocks: Vec<Block>,
    /// Links between blocks, each counted once.
    pub crossing: usize,
}

type Size = [u8; DIMS_MAX];

fn volume(size: &Size) -> usize {
    size.iter().map(|&s| s as usize).product()
}

/// One way to divide a box: nodes of its largest part, links cut, and how.
#[derive(Clone, Copy)]
struct Way {
    largest: usize,
    crossing: usize,
    split: Option<Split>,
}

/// A plane through a box: the first `at` layers of `dim` go to `hosts` hosts divided in way `low`, the
/// rest to the others in way `high`.
#[derive(Clone, Copy)]
struct Split {
    dim: usize,
    at: u8,
    hosts: usize,
    low: usize,
    high: usize,
}

struct Search {
    shape: Shape,
    exhaustive: bool,
    known: HashMap<(Size, usize), Vec<Way>>,
}

/// The best cut of `shape` into one box for each of `hosts` hosts; `None` if there are more hosts than nodes.
pub fn cut(shape: Shape, hosts: usize) -> Option<Cut> {
    if hosts == 0 || hosts > shape.nodes() {
        return None;
    }
    let exhaustive = shape.nodes() <= EXHAUSTIVE.0 && hosts <= EXHAUSTIVE.1;
    let mut search = Search { shape, exhaustive, known: HashMap::new() };
    let whole = Block { low: [0; DIMS_MAX], size: std::array::from_fn(|d| shape.size(d) as u8) };
    let best = search.ways(whole.size, hosts).first().copied()?;
    let mut blocks = Vec::with_capacity(hosts);
    search.collect(whole, hosts, best, &mut blocks);
    Some(Cut { blocks, crossing: best.crossing })
}

impl Search {
    /// The compromises for a box, smallest largest part first; each later one cuts fewer links.
    fn ways(&mut self, size: Size, hosts: usize) -> Vec<Way> {
        if hosts == 1 {
            return vec![Way { largest: volume(&size), crossing: 0, split: None }];
        }
        if let Some(known) = self.known.get(&(size, hosts)) {
            return known.clone();
        }
        let mut all = Vec::new();
        for dim in 0..DIMS_MAX {
            for (at, share) in self.planes(&size, dim, hosts) {
                let (mut below, mut above) = (size, size);
                (below[dim], above[dim]) = (at, size[dim] - at);
                if volume(&below) < share || volume(&above) < hosts - share {
                    continue;
                }
                let cut = self.cut_links(&size, dim);
                let (lows, highs) = (self.ways(below, share), self.ways(above, hosts - share));
                for (low, a) in lows.iter().enumerate() {
                    for (high, b) in highs.iter().enumerate() {
                        let split = Some(Split { dim, at, hosts: share, low, high });
                        let crossing = a.crossing + b.crossing + cut;
                        all.push(Way { largest: a.largest.max(b.largest), crossing, split });
                    }
                }
            }
        }
        all.sort_by_key(|w| (w.largest, w.crossing));
        let mut front: Vec<Way> = Vec::new();
        for way in all {
            if front.len() < FRONT_MAX && front.last().is_none_or(|last| way.crossing < last.crossing) {
                front.push(way);
            }
        }
        self.known.insert((size, hosts), front.clone());
        front
    }

    /// Places of a plane across `dim` and the hosts that the side below it gets. The mirrored ones are left out.
    fn planes(&self, size: &Size, dim: usize, hosts: usize) -> Vec<(u8, usize)> {
        let layers = size[dim] as usize;
        let mut all = Vec::new();
        let shares = match hosts > EXHAUSTIVE.1 {
            // Halves and thirds lead to all but large prime factors.
            true => hosts / 3..=hosts / 2,
            false => 1..=hosts / 2,
        };
        for share in shares.clone().filter(|s| hosts <= EXHAUSTIVE.1 || s == shares.start() || s == shares.end()) {
            let near = layers * share / hosts;
            for at in 1..layers {
                if self.exhaustive || at == near || at == near + 1 {
                    all.push((at as u8, share));
                }
            }
        }
        all
    }

    fn cut_links(&self, size: &Size, dim: usize) -> usize {
        let section = volume(size) / size[dim] as usize;
        let round = self.shape.is_torus() && size[dim] as usize == self.shape.size(dim);
        if round { 2 * section } else { section }
    }

    fn collect(&mut self, block: Block, hosts: usize, way: Way, out: &mut Vec<Block>) {
        let Some(split) = way.split else {
            out.push(block);
            return;
        };
        let (mut below, mut above) = (block, block);
        below.size[split.dim] = split.at;
        above.size[split.dim] -= split.at;
        above.low[split.dim] += split.at;
        let low = self.ways(below.size, split.hosts)[split.low];
        let high = self.ways(above.size, hosts - split.hosts)[split.high];
        self.collect(below, split.hosts, low, out);
        self.collect(above, hosts - split.hosts, high, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_net::torus::{Direction, NodeId};

    /// Counted link by link, each from its plus end.
    fn crossing_of(shape: Shape, blocks: &[Block]) -> usize {
        let owner = |node: NodeId| {
            let c = shape.coords(node).0;
            let holds = |b: &&Block| (0..DIMS_MAX).all(|d| (b.low[d]..=b.high()[d]).contains(&c[d]));
            let mut found = blocks.iter().enumerate().filter(|(_, b)| holds(b)).map(|(i, _)| i);
            let owner = found.next().expect("every node is in a block");
            assert_eq!(found.next(), None, "node {node} is in one block only");
            owner
        };
        (0..shape.nodes() as NodeId)
            .flat_map(|n| Direction::ALL[..4].iter().map(move |&d| (n, d)))
            .filter(|&(n, d)| shape.neighbour(n, d).is_some_and(|to| owner(n) != owner(to)))
            .count()
    }

    fn checked(shape: &str, hosts: usize) -> (Vec<usize>, usize) {
        let shape: Shape = shape.parse().expect("a shape");
        let cut = cut(shape, hosts).expect("fits");
        assert_eq!(cut.blocks.len(), hosts);
        assert_eq!(cut.crossing, crossing_of(shape, &cut.blocks), "{shape} {hosts}: {:?}", cut.blocks);
        let mut sizes: Vec<usize> = cut.blocks.iter().map(Block::nodes).collect();
        sizes.sort_unstable();
        (sizes, cut.crossing)
    }

    #[test]
    fn known_cuts() {
        assert_eq!(checked("4x4x2", 1), (vec![32], 0));
        // Two halves: across X, with the wrap-around.
        assert_eq!(checked("4x4x2", 2), (vec![16, 16], 16));
        // Four columns of 2x2x2 cut X and Y once each.
        assert_eq!(checked("4x4x2", 4), (vec![8; 4], 32));
        // No three equal boxes exist; 12 is the least that the largest can be.
        assert_eq!(checked("4x4x2", 3), (vec![8, 12, 12], 28));
        assert_eq!(checked("8", 8), (vec![1; 8], 8));
        assert_eq!(checked("mesh:8", 2), (vec![4, 4], 1));
        assert_eq!(checked("2x2", 4), (vec![1; 4], 8));
        assert_eq!(cut("2x2".parse().expect("a shape"), 5), None);
        assert_eq!(cut("2x2".parse().expect("a shape"), 0), None);
    }

    #[test]
    fn blocks_cover_every_node_once_and_crossings_are_counted_right() {
        for shape in ["4x4x2", "mesh:3x5", "3x3x4", "4x2x2x2", "mesh:2x3x2x2", "17", "6x6"] {
            for hosts in 1..=9 {
                checked(shape, hosts);
            }
        }
    }

    #[test]
    fn large_networks_are_cut_in_equal_parts() {
        assert_eq!(checked("16x16x16", 64).0, vec![64; 64]);
        let (sizes, _) = checked("32x32x16", 12);
        assert!(sizes[11] <= 2 * sizes[0], "{sizes:?}");
    }

    /// Every way to put boxes onto the nodes of a small network, not only cuts by planes.
    fn best_by_trying(shape: Shape, hosts: usize) -> (usize, usize) {
        fn place(shape: Shape, hosts: usize, blocks: &mut Vec<Block>, used: &mut [bool], best: &mut (usize, usize)) {
            let Some(first) = used.iter().position(|u| !u) else {
                if blocks.len() == hosts {
                    let largest = blocks.iter().map(Block::nodes).max().expect("some");
                    *best = (*best).min((largest, crossing_of(shape, blocks)));
                }
                return;
            };
            if blocks.len() == hosts {
                return;
            }
            let low = shape.coords(first as NodeId).0;
            for x in 1..=shape.size(0) as u8 - low[0] {
                for y in 1..=shape.size(1) as u8 - low[1] {
                    let block = Block { low, size: [x, y, 1, 1] };
                    let nodes: Vec<usize> = (0..used.len())
                        .filter(|&n| {
                            let c = shape.coords(n as NodeId).0;
                            (0..2).all(|d| (low[d]..=block.high()[d]).contains(&c[d]))
                        })
                        .collect();
                    if nodes.iter().any(|&n| used[n]) {
                        continue;
                    }
                    nodes.iter().for_each(|&n| used[n] = true);
                    blocks.push(block);
                    place(shape, hosts, blocks, used, best);
                    blocks.pop();
                    nodes.iter().for_each(|&n| used[n] = false);
                }
            }
        }
        let mut best = (usize::MAX, usize::MAX);
        place(shape, hosts, &mut Vec::new(), &mut vec![false; shape.nodes()], &mut best);
        best
    }

    #[test]
    fn small_cuts_are_the_best_of_all_boxes() {
        for shape in ["4x3", "mesh:4x3", "5x2", "mesh:3x3"] {
            for hosts in 2..=4 {
                let (sizes, crossing) = checked(shape, hosts);
                let best = best_by_trying(shape.parse().expect("a shape"), hosts);
                assert_eq!((sizes[hosts - 1], crossing), best, "{shape} over {hosts}");
            }
        }
    }
}
