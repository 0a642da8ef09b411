//! Links of the network.

use crate::torus::{Direction, NodeId, Shape};
use serde::{Deserialize, Serialize};

/// A link in one direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Link {
    /// Sending node.
    pub node: NodeId,
    /// Direction it sends in.
    pub dir: Direction,
}

impl Link {
    /// Numbers of links per node, whether or not it has as many.
    pub const PER_NODE: usize = Direction::ALL.len();

    /// Its number in tables of all links: those of node 0 first, in routing order. The page of `fabricd` and reports use the
    /// same number.
    pub fn index(self) -> usize {
        self.node as usize * Link::PER_NODE + self.dir.index()
    }

    /// The link of a number; whether a shape has it is another question.
    pub fn from_index(index: usize) -> Link {
        let dir = Direction::ALL[index % Link::PER_NODE];
        Link { node: (index / Link::PER_NODE) as NodeId, dir }
    }

    /// A node's links of `shape`.
    pub fn of_node(node: NodeId, shape: Shape) -> impl Iterator<Item = Link> {
        Direction::ALL.into_iter().map(move |dir| Link { node, dir }).filter(move |link| link.exists(&shape))
    }

    /// All links of `shape`, by their number.
    pub fn all(shape: Shape) -> impl Iterator<Item = Link> {
        (0..shape.nodes() as NodeId).flat_map(move |node| Link::of_node(node, shape))
    }

    /// There is such a link.
    pub fn exists(self, shape: &Shape) -> bool {
        (self.node as usize) < shape.nodes() && shape.neighbour(self.node, self.dir).is_some()
    }

    /// The other direction of the same cable.
    pub fn reverse(self, shape: &Shape) -> Option<Link> {
        Some(Link { node: shape.neighbour(self.node, self.dir)?, dir: self.dir.opposite() })
    }

    /// In the words of `shape`: `0,1,0 +X`.
    pub fn show(&self, shape: &Shape) -> String {
        format!("{} {}", shape.show(shape.coords(self.node)), self.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_has_one_number() {
        let shape: Shape = "3x2".parse().expect("a shape");
        let all: Vec<Link> = Link::all(shape).collect();
        // Two cables join the nodes of a ring of two.
        assert_eq!(all.len(), 4 * 6);
        assert!(all.windows(2).all(|two| two[0].index() < two[1].index()));
        for link in all {
            assert_eq!(Link::from_index(link.index()), link);
            assert_eq!(link.reverse(&shape).and_then(|back| back.reverse(&shape)), Some(link));
        }
        assert!(!Link { node: 6, dir: Direction::ALL[0] }.exists(&shape));
    }
}
