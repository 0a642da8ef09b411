//! Torus and mesh of up to six dimensions, with dimension-order routes.

use super::contract::{Class, End, Hop, RouteState, Topology};

/// Torus or mesh. Node ids count with X fastest. Port 2d leads towards larger coordinates of
/// dimension d, port 2d+1 towards smaller ones, the last port to the node's endpoint.
#[derive(Clone, Debug)]
pub struct Grid {
    dims: Vec<u16>,
    strides: Vec<u32>,
    wrap: bool,
}

/// Bits of `RouteState::hi` from here on: dimension d travels in the upper class.
const UPPER_SHIFT: u32 = 32;
/// Bits of `RouteState::hi` from here on: dimension d travels towards minus.
const MINUS_SHIFT: u32 = 40;

impl Grid {
    /// A grid of validated sizes.
    pub fn new(dims: &[u16], wrap: bool) -> Grid {
        let mut strides = Vec::with_capacity(dims.len());
        let mut stride = 1u32;
        for &d in dims {
            strides.push(stride);
            stride *= d as u32;
        }
        Grid { dims: dims.to_vec(), strides, wrap }
    }
    /// Number of dimensions.
    pub fn ndims(&self) -> usize {
        self.dims.len()
    }
    /// Size of dimension `d`.
    pub fn size(&self, d: usize) -> u32 {
        self.dims[d] as u32
    }
    /// Links of dimension `d` close to a ring.
    pub fn is_ring(&self, d: usize) -> bool {
        self.wrap && self.dims[d] > 1
    }
    /// Coordinate of `node` in dimension `d`.
    pub fn coordinate(&self, node: u32, d: usize) -> u32 {
        node / self.strides[d] % self.dims[d] as u32
    }
    /// The node reached from `node` through link port `port`, if any.
    pub fn neighbour(&self, node: u32, port: u8) -> Option<u32> {
        let d = port as usize / 2;
        let size = *self.dims.get(d)? as u32;
        if size < 2 {
            return None;
        }
        let c = self.coordinate(node, d);
        let to = match port & 1 {
            0 if c + 1 < size => c + 1,
            0 if self.wrap => 0,
            1 if c > 0 => c - 1,
            1 if self.wrap => size - 1,
            _ => return None,
        };
        Some(node + to * self.strides[d] - c * self.strides[d])
    }
    /// Signed hops from `from` to `to` in dimension `d`; `tie` decides between two halves of a ring.
    pub fn offset(&self, from: u32, to: u32, d: usize, tie: bool) -> i16 {
        self.signed(self.coordinate(from, d), self.coordinate(to, d), self.size(d), tie)
    }
    /// Signed hops between two coordinates.
    fn signed(&self, from: u32, to: u32, size: u32, tie: bool) -> i16 {
        if !self.wrap {
            return (to as i32 - from as i32) as i16;
        }
        let plus = if to >= from { to - from } else { to + size - from };
        let minus = size - plus;
        if plus < minus || (plus == minus && (tie || size == 2)) { plus as i16 } else { -(minus as i16) }
    }
}

impl Topology for Grid {
    fn endpoints(&self) -> usize {
        self.dims.iter().map(|&d| d as usize).product()
    }
    fn routers(&self) -> usize {
        self.endpoints()
    }
    fn ports(&self) -> usize {
        2 * self.dims.len() + 1
    }
    fn output(&self, router: u32, port: u8) -> End {
        if port as usize == 2 * self.dims.len() {
            return End::Endpoint(router);
        }
        // A packet sent through port 2d arrives at port 2d+1, where the way back begins.
        self.neighbour(router, port).map_or(End::Open, |to| End::Router { router: to, port: port ^ 1 })
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        (endpoint, 2 * self.dims.len() as u8)
    }
    fn start(&self, src: u32, dst: u32, random: u64) -> RouteState {
        let mut route = RouteState::default();
        let (mut from_left, mut to_left) = (src, dst);
        for (d, &size) in self.dims.iter().enumerate() {
            let size = size as u32;
            let (from, to) = (from_left % size, to_left % size);
            (from_left, to_left) = (from_left / size, to_left / size);
            let o = self.signed(from, to, size, random >> d & 1 != 0);
            let lane = (o.unsigned_abs() as u64) << (16 * (d & 3));
            if d < 4 {
                route.lo |= lane
            } else {
                route.hi |= lane
            }
            // The whole leg in a dimension stays in one class: towards plus the legs that cross
            // the dateline (between size-1 and 0) are the upper ones, towards minus those that do not,
            // which loads both classes alike. No chain of either class closes around the ring.
            let upper = self.wrap && o != 0 && from > to;
            route.hi |= (upper as u64) << (UPPER_SHIFT as usize + d) | ((o < 0) as u64) << (MINUS_SHIFT as usize + d);
        }
        route
    }
    #[inline(always)]
    fn next(&self, _router: u32, route: &mut RouteState) -> Hop {
        let d = if route.lo != 0 {
            let d = route.lo.trailing_zeros() / 16;
            route.lo -= 1 << (16 * d);
            d
        } else if route.hi as u32 != 0 {
            let d = route.hi.trailing_zeros() / 16;
            route.hi -= 1 << (16 * d);
            4 + d
        } else {
            return Hop { port: 2 * self.dims.len() as u8, class: Class::Any };
        };
        let bits = route.hi >> d;
        let class = match (self.wrap, bits >> UPPER_SHIFT & 1) {
            (false, _) => Class::Any,
            (true, 0) => Class::Lower,
            (true, _) => Class::Upper,
        };
        Hop { port: (2 * d) as u8 | (bits >> MINUS_SHIFT & 1) as u8, class }
    }
    fn classes(&self) -> u32 {
        if self.wrap && self.dims.iter().any(|&d| d > 1) { 2 } else { 1 }
    }
}
