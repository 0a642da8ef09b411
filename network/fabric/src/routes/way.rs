//! The way a packet still has before it.

use super::net::{DIMS, Net};
use super::route::Route;
use angara_abi::packet::Detour;
use angara_net::torus::{Direction, NodeId};

/// Rest of a packet's way: hops left in each dimension, and steps outside direction order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    left: [u16; DIMS],
    /// Directions with hops left.
    pub(crate) dirs: u16,
    /// Direction + 8 if pending, else 0, as in the header flit.
    pub(crate) first: u8,
    pub(crate) last: u8,
}

crate::raw::packed!(Way { left, dirs, first, last });

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
