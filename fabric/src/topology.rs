//! The graph under the network: coordinates and neighbours as flat tables, and the way a packet
//! still has before it.
//!
//! Directions are numbered in routing order +X +Y +Z +W −X −Y −Z −W, so the direction a packet
//! takes next is the lowest bit of those it has hops left in. The chip has four dimensions;
//! simulated networks may have six (+X … +V, −X … −V), which only the router knows: faults, jobs,
//! trees and headers need the chip's shape.

use crate::routes::Route;
use crate::types::Link;
use abi::packet::Detour;
use abi::torus::{Direction, NodeId, Shape};

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
    /// The dimension of a direction.
    #[inline]
    pub(crate) fn dim(&self, dir: usize) -> usize {
        if dir < self.dirs / 2 { dir } else { dir - self.dirs / 2 }
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

    /// Whether the way from `from` to `to` in a dimension in which they differ leads towards plus
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

/// What a packet remembers of its way: hops left in each dimension, and steps outside direction order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    left: [u16; DIMS],
    /// Directions with hops left.
    pub(crate) dirs: u16,
    /// Direction + 8 if pending, else 0, as in the header flit.
    pub(crate) first: u8,
    pub(crate) last: u8,
}

impl Way {
    /// The minimal way without faults.
    pub(crate) fn plain(net: &Net, from: NodeId, to: NodeId) -> Way {
        let mut way = Way::default();
        if from == to {
            return way;
        }
        let (a, b) = (net.coords(from), net.coords(to));
        for dim in 0..net.dirs / 2 {
            if a[dim] != b[dim] {
                let (plus, hops) = net.shorter(from, to, dim);
                way.left[dim] = hops;
                way.dirs |= 1 << if plus { dim } else { dim + net.dirs / 2 };
            }
        }
        way
    }
    /// The way of `route` from its start `from` to `to`.
    pub(crate) fn along(net: &Net, from: NodeId, route: &Route, to: NodeId) -> Way {
        let step = |d: Detour| d.map_or(0, |d| 8 | d.index() as u8);
        Way::resume(net, from, to, route.dirbits, step(route.first_step), step(route.last_step))
    }
    /// The way a header describes, seen from `at`. All steps must exist.
    pub(crate) fn resume(net: &Net, at: NodeId, to: NodeId, dirs: u8, first: u8, last: u8) -> Way {
        let start = if first == 0 { at } else { net.neighbour(at, (first & 7) as usize) };
        let end = if last == 0 { to } else { net.neighbour(to, (last & 7) as usize ^ 4) };
        let mut way = Way { first, last, ..Way::default() };
        for dir in Direction::ALL.into_iter().filter(|d| dirs & d.bit() != 0) {
            let hops = net.hops_towards(start, end, dir.dim(), dir.is_plus());
            way.left[dir.dim()] = hops;
            way.dirs |= u16::from(hops > 0) << dir.index();
        }
        way
    }
    /// The direction to leave in, `None` at the target.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<usize> {
        if self.first != 0 {
            Some((self.first & 7) as usize)
        } else if self.dirs != 0 {
            Some(self.dirs.trailing_zeros() as usize)
        } else {
            (self.last != 0).then_some((self.last & 7) as usize)
        }
    }
    /// A hop in direction `dir`, of dimension `dim`, has been made.
    #[inline(always)]
    pub(crate) fn taken(&mut self, dir: usize, dim: usize) {
        if self.first != 0 {
            self.first = 0;
        } else if self.dirs != 0 {
            self.left[dim] -= 1;
            if self.left[dim] == 0 {
                self.dirs &= !(1 << dir);
            }
        } else {
            self.last = 0;
        }
    }
}
