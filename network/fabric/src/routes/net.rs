//! The graph under the network: coordinates and neighbours as flat tables.
//!
//! Directions are numbered in routing order +X +Y +Z +W −X −Y −Z −W, so the direction a packet
//! takes next is the lowest bit of those it has hops left in. The chip has four dimensions;
//! simulated networks may have six (+X … +V, −X … −V), which only the router knows: faults, jobs,
//! trees and headers need the chip's shape.

use crate::types::Link;
use angara_net::torus::{NodeId, Shape};

/// Link directions of the chip.
pub(crate) const DIRS: usize = 8;
/// "No node".
pub(crate) const NONE: u32 = u32::MAX;
/// Most dimensions of a simulated network.
pub(crate) const DIMS: usize = 6;

/// Lookup tables of one shape.
#[derive(Debug)]
pub(crate) struct Net {
    /// The chip's idea of the shape; a single node if it is larger than chips can be.
    pub(crate) shape: Shape,
    pub(crate) nodes: usize,
    /// Dimensions.
    pub(crate) dims: usize,
    /// Directions of a node: the chip's 8, or 12.
    pub(crate) dirs: usize,
    wrap: bool,
    sizes: [u16; DIMS],
    coords: Vec<[u16; DIMS]>,
    neighbours: Vec<u32>,
}

impl Net {
    /// The chip's network.
    pub(crate) fn new(shape: Shape) -> Net {
        let sizes: Vec<u16> = shape.dims().iter().map(|&d| d as u16).collect();
        Net::of_sizes(&sizes, shape.is_torus())
    }

    /// A torus or mesh of 1 to 6 sizes, at most 2²⁴ nodes.
    pub(crate) fn of_sizes(dims: &[u16], wrap: bool) -> Net {
        let small: Option<Vec<u8>> = dims.iter().map(|&d| u8::try_from(d).ok()).collect();
        let shape = small.and_then(|d| Shape::new(&d, wrap).ok());
        let shape = shape.or_else(|| Shape::new(&[1], wrap).ok()).expect("a single node is a shape");
        let nodes = dims.iter().map(|&d| d as usize).product();
        let mut sizes = [1; DIMS];
        sizes[..dims.len()].copy_from_slice(dims);
        let half = if dims.len() > DIRS / 2 { DIMS } else { DIRS / 2 };
        let dims = dims.len();
        let (coords, neighbours) = (Vec::new(), Vec::new());
        let mut net = Net { shape, nodes, dims, dirs: 2 * half, wrap, sizes, coords, neighbours };
        net.coords = (0..nodes).map(|n| net.position(n)).collect();
        net.neighbours = (0..nodes * net.dirs).map(|i| net.step(i / net.dirs, i % net.dirs)).collect();
        net
    }

    fn position(&self, mut node: usize) -> [u16; DIMS] {
        self.sizes.map(|size| {
            let c = node % size as usize;
            node /= size as usize;
            c as u16
        })
    }

    fn step(&self, node: usize, dir: usize) -> u32 {
        let (dim, plus) = (self.dim(dir), dir < self.dirs / 2);
        let (size, c) = (self.sizes[dim] as usize, self.coords[node][dim] as usize);
        let stride: usize = self.sizes[..dim].iter().map(|&s| s as usize).product();
        let to = match plus {
            _ if size < 2 => return NONE,
            true if c + 1 < size => c + 1,
            false if c > 0 => c - 1,
            _ if !self.wrap => return NONE,
            true => 0,
            false => size - 1,
        };
        (node + to * stride - c * stride) as u32
    }

    #[inline]
    pub(crate) fn coords(&self, node: NodeId) -> [u16; DIMS] {
        self.coords[node as usize]
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        self.coords.capacity() * size_of::<[u16; DIMS]>() + self.neighbours.capacity() * 4
    }
    /// Coordinates as a header carries them.
    pub(crate) fn header_coords(&self, node: NodeId) -> [u8; 4] {
        std::array::from_fn(|d| self.coords[node as usize][d] as u8)
    }
    /// Neighbour of `node` in direction `dir`, [`NONE`] if there is no link.
    #[inline]
    pub(crate) fn neighbour(&self, node: NodeId, dir: usize) -> u32 {
        self.neighbours[node as usize * self.dirs + dir]
    }
    /// The node with coordinate `value` in dimension `dim` and the other coordinates of `node`.
    #[inline]
    pub(crate) fn with_coordinate(&self, node: NodeId, dim: usize, value: u16) -> NodeId {
        let stride: u32 = self.sizes[..dim].iter().map(|&s| u32::from(s)).product();
        node + u32::from(value) * stride - u32::from(self.coords(node)[dim]) * stride
    }
    /// Links from a node to the edge of a mesh.
    pub(crate) fn to_edge(&self, node: NodeId, dir: usize) -> u16 {
        let (dim, at) = (self.dim(dir), self.coords(node)[self.dim(dir)]);
        if dir < self.dirs / 2 { self.sizes[dim] - 1 - at } else { at }
    }
    /// The largest coordinate in a dimension.
    pub(crate) fn coords_max(&self, dim: usize) -> u16 {
        self.sizes[dim] - 1
    }
    /// The dimension of a direction.
    #[inline]
    pub(crate) fn dim(&self, dir: usize) -> usize {
        if dir < self.dirs / 2 { dir } else { dir - self.dirs / 2 }
    }
    /// Nodes in a dimension.
    pub(crate) fn size(&self, dim: usize) -> u16 {
        self.sizes[dim]
    }
    /// The same dimension, the other way.
    #[inline]
    pub(crate) fn opposite(&self, dir: usize) -> usize {
        if dir < self.dirs / 2 { dir + self.dirs / 2 } else { dir - self.dirs / 2 }
    }
    /// Links in direction `dir` close to rings.
    pub(crate) fn is_ring(&self, dir: usize) -> bool {
        self.wrap && self.sizes[self.dim(dir)] > 1
    }
    /// The other direction of the same cable.
    pub(crate) fn reverse(&self, link: Link) -> Option<Link> {
        match self.neighbour(link.node, link.dir.index()) {
            NONE => None,
            far => Some(Link { node: far, dir: link.dir.opposite() }),
        }
    }

    /// Tells whether the way from `from` to `to` in a dimension in which they differ leads towards plus
    /// on a minimal route, and its hops. Half-way around a ring the parity of the pair decides, so that
    /// both ways carry the same load; of size 2, plus.
    #[inline]
    pub(crate) fn shorter(&self, from: NodeId, to: NodeId, dim: usize) -> (bool, u16) {
        let (a, b) = (self.coords(from), self.coords(to));
        let (size, here, there) = (self.sizes[dim], a[dim], b[dim]);
        if !self.wrap {
            return (there > here, there.abs_diff(here));
        }
        let plus = if there >= here { there - here } else { there + size - here };
        let minus = size - plus;
        if plus != minus {
            return (plus < minus, plus.min(minus));
        }
        let sum = a.iter().sum::<u16>() + b.iter().sum::<u16>() - there;
        (size == 2 || sum.is_multiple_of(2), plus)
    }

    /// Hops from `from` to `to` in a dimension, going the given way around.
    pub(crate) fn hops_towards(&self, from: NodeId, to: NodeId, dim: usize, plus: bool) -> u16 {
        let (a, b) = (self.coords(from)[dim], self.coords(to)[dim]);
        let (a, b) = if plus { (a, b) } else { (b, a) };
        if b >= a { b - a } else { b + self.sizes[dim] - a }
    }
}

/// Index of the link leaving `node` in direction `dir` of a chip.
#[inline]
pub(crate) fn link_index(node: NodeId, dir: usize) -> usize {
    node as usize * DIRS + dir
}
