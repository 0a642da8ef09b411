//! The graph under the network: coordinates and neighbours as flat tables.
//!
//! [`abi::torus::Shape`] answers the same questions by arithmetic; a router asks them for every
//! packet, so they are looked up here.

use crate::types::Link;
use abi::torus::{Direction, NodeId, Shape};

/// Link directions of a node.
pub(crate) const DIRS: usize = 8;
/// "No node".
pub(crate) const NONE: u32 = u32::MAX;

/// Lookup tables of one shape.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) shape: Shape,
    pub(crate) nodes: usize,
    coords: Vec<[u8; 4]>,
    neighbours: Vec<u32>,
}

impl Net {
    pub(crate) fn new(shape: Shape) -> Net {
        let nodes = shape.nodes();
        let coords = (0..nodes as u32).map(|n| shape.coords(n).0).collect();
        let neighbours =
            (0..nodes as u32).flat_map(|n| Direction::ALL.map(|d| shape.neighbour(n, d).unwrap_or(NONE))).collect();
        Net { shape, nodes, coords, neighbours }
    }
    #[inline]
    pub(crate) fn coords(&self, node: NodeId) -> [u8; 4] {
        self.coords[node as usize]
    }
    /// Neighbour of `node` in direction `dir` (0..8), [`NONE`] if there is no link.
    #[inline]
    pub(crate) fn neighbour(&self, node: NodeId, dir: usize) -> u32 {
        self.neighbours[node as usize * DIRS + dir]
    }
    /// The other direction of the same cable.
    pub(crate) fn reverse(&self, link: Link) -> Option<Link> {
        match self.neighbour(link.node, link.dir.index()) {
            NONE => None,
            far => Some(Link { node: far, dir: link.dir.opposite() }),
        }
    }
}

/// Index of the link leaving `node` in direction `dir`.
#[inline]
pub(crate) fn link_index(node: NodeId, dir: usize) -> usize {
    node as usize * DIRS + dir
}
