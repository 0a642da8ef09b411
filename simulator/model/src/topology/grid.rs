//! Torus and mesh of up to six dimensions, with dimension-order routes.

use super::contract::{
    Cell, Class, Classes, DIMS_MAX, End, Hop, Options, PORTS_MAX, Route, RouteState, Routing, Topology, Written, among,
    check_nodes, lot, settings,
};
use super::layout::Layout;
use std::fmt;

/// Names of the dimensions.
const AXES: [char; DIMS_MAX] = ['X', 'Y', 'Z', 'W', 'V', 'U'];

/// Torus or mesh. Node ids count with X fastest. Port 2d leads towards larger coordinates of
/// dimension d, port 2d+1 towards smaller ones. With several links in every direction, the l-th link of port p is
/// port 2n·l + p, n being the number of dimensions. The last ports lead to the node's endpoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grid {
    dims: Vec<u16>,
    strides: Vec<u32>,
    wrap: bool,
    /// Endpoints of a router.
    endpoints: u32,
    /// Parallel links in every direction.
    links: u32,
    routing: Routing,
}

/// Bits of `RouteState::hi` from here on: dimension d travels in the upper class.
const UPPER_SHIFT: u32 = 32;
/// Bit of `RouteState::hi`: the packet has left its source's column; of meshes, which have no upper classes.
const LEFT_COLUMN: u64 = 1 << 37;
/// Bits of `RouteState::hi` from here on: dimension d travels towards minus.
const MINUS_SHIFT: u32 = 38;
/// Bits of `RouteState::hi` from here on: the destination's number at its router, below [`PORTS_MAX`].
const SLOT_SHIFT: u32 = 44;
/// Bits of `RouteState::hi` from here on: the packet's lot.
const LOT_SHIFT: u32 = 50;

impl Grid {
    /// A torus (`wrap`) or mesh of these sizes, X first.
    ///
    /// # Errors
    /// Which sizes are possible.
    pub fn new(dims: &[u16], wrap: bool) -> Result<Grid, String> {
        Grid::with(dims, wrap, 1, 1)
    }
    /// The same with N endpoints per router and N parallel links in every direction.
    ///
    /// # Errors
    /// Which sizes and numbers are possible.
    pub fn with(dims: &[u16], wrap: bool, endpoints: u16, links: u16) -> Result<Grid, String> {
        if !(1..=DIMS_MAX).contains(&dims.len()) || dims.iter().any(|d| !(1..=4096).contains(d)) {
            return Err(format!("give 1 to {DIMS_MAX} sizes, each from 1 to 4096"));
        }
        let most = PORTS_MAX - 2 * dims.len();
        if !(1..=most).contains(&endpoints.into()) {
            return Err(format!("{endpoints} endpoints per router; give c = 1 to {most}"));
        }
        let most = (PORTS_MAX - usize::from(endpoints)) / (2 * dims.len());
        if !(1..=most).contains(&links.into()) {
            return Err(format!(
                "{links} links in every direction and {endpoints} endpoints per router; a router has at most {PORTS_MAX} \
                 ports: give x = 1 to {most}"
            ));
        }
        check_nodes(dims.iter().fold(endpoints.into(), |nodes: u64, &d| nodes.saturating_mul(d.into())))?;
        let mut strides = Vec::with_capacity(dims.len());
        let mut stride = 1u32;
        for &d in dims {
            strides.push(stride);
            stride *= d as u32;
        }
        let (endpoints, links) = (endpoints.into(), links.into());
        Ok(Grid { dims: dims.to_vec(), strides, wrap, endpoints, links, routing: Routing::Dor })
    }
    /// Sizes of the dimensions, X first.
    pub fn dims(&self) -> &[u16] {
        &self.dims
    }
    /// The links of every dimension close to rings: a torus.
    pub fn wraps(&self) -> bool {
        self.wrap
    }
    /// A router has one endpoint, and one link in every direction, as the chip has.
    pub fn is_plain(&self) -> bool {
        (self.endpoints, self.links) == (1, 1)
    }
    /// There are turn models: it is a mesh of two dimensions.
    fn takes_turns(&self) -> bool {
        !self.wrap && self.dims.len() == 2
    }
    /// Of the directions that bring a packet nearer, as bits, those that the turn model allows it at `router`.
    fn turns(&self, router: u32, route: &RouteState, directions: u64) -> u64 {
        const EAST: u64 = 1;
        const WEST: u64 = 2;
        let vertical = directions & !(EAST | WEST);
        let odd = |column: u32| column % 2 == 1;
        match self.routing {
            Routing::WestFirst if directions & WEST != 0 => WEST,
            Routing::OddEven if directions & WEST != 0 => {
                if odd(self.coordinate(router, 0)) {
                    WEST
                } else {
                    directions
                }
            }
            Routing::OddEven if directions & EAST != 0 && vertical != 0 => {
                let (here, left) = (self.coordinate(router, 0), route.lo as u32 & 0xffff);
                // A turn out of the east is taken in odd columns, or where the packet began.
                let turns = odd(here) || route.hi & LEFT_COLUMN == 0;
                let goes_on = left != 1 || odd(here + left);
                if turns { vertical | if goes_on { EAST } else { 0 } } else { EAST }
            }
            _ => directions,
        }
    }
    /// Ports that lead to other routers.
    fn link_ports(&self) -> u32 {
        2 * self.dims.len() as u32 * self.links
    }
    /// The port of a packet's link at `router` in a direction.
    #[inline(always)]
    fn port(&self, router: u32, direction: u32, route: &RouteState) -> u8 {
        let link = if self.links == 1 { 0 } else { among(route.hi >> LOT_SHIFT, router, self.links) };
        (2 * self.dims.len() as u32 * link + direction) as u8
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

impl Written for Grid {
    const FORMS: &'static [(&'static str, &'static str)] =
        &[("torus", "8x8x8[,c=ENDPOINTS][,x=LINKS]"), ("mesh", "4x4[,c=ENDPOINTS][,x=LINKS] (one to six sizes)")];
    fn read(kind: &str, rest: &str) -> Result<Grid, String> {
        let (sizes, more) = rest.split_once(',').map_or((rest, None), |(sizes, more)| (sizes, Some(more)));
        let dims: Result<Vec<u16>, _> = sizes.split('x').map(str::parse).collect();
        let [endpoints, links] = more.map_or(Ok([None; 2]), |more| settings(more, ["c", "x"]))?;
        Grid::with(&dims.map_err(|_| String::new())?, kind == "torus", endpoints.unwrap_or(1), links.unwrap_or(1))
    }
    fn with_routing(&self, routing: Routing) -> Result<Grid, String> {
        match routing {
            Routing::Dor | Routing::Adaptive => Ok(Grid { routing, ..self.clone() }),
            Routing::WestFirst | Routing::OddEven if self.takes_turns() => Ok(Grid { routing, ..self.clone() }),
            _ if self.takes_turns() => Err("dor, adaptive, west-first or odd-even".into()),
            _ => Err("dor or adaptive".into()),
        }
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = self.dims.iter().map(u16::to_string).collect::<Vec<_>>().join("x");
        write!(f, "{}:{sizes}", if self.wrap { "torus" } else { "mesh" })?;
        for (name, number) in [("c", self.endpoints), ("x", self.links)].into_iter().filter(|(_, n)| *n > 1) {
            write!(f, ",{name}={number}")?;
        }
        Ok(())
    }
}

impl Topology for Grid {
    fn endpoints(&self) -> usize {
        self.routers() * self.endpoints as usize
    }
    fn routers(&self) -> usize {
        self.dims.iter().map(|&d| d as usize).product()
    }
    fn ports(&self) -> usize {
        (self.link_ports() + self.endpoints) as usize
    }
    fn output(&self, router: u32, port: u8) -> End {
        if let Some(slot) = u32::from(port).checked_sub(self.link_ports()) {
            return End::Endpoint(router * self.endpoints + slot);
        }
        // A packet sent through port 2d arrives at port 2d+1, where the way back begins.
        let to = self.neighbour(router, port % (2 * self.dims.len()) as u8);
        to.map_or(End::Open, |to| End::Router { router: to, port: port ^ 1 })
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        (endpoint / self.endpoints, (self.link_ports() + endpoint % self.endpoints) as u8)
    }
    fn start(&self, src: u32, dst: u32, random: u64) -> RouteState {
        let slot = u64::from(dst % self.endpoints);
        let mut route = RouteState { lo: 0, hi: lot(random) << LOT_SHIFT | slot << SLOT_SHIFT };
        let (mut from_left, mut to_left) = (src / self.endpoints, dst / self.endpoints);
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
    fn next(&self, router: u32, route: &mut RouteState) -> Hop {
        let d = if route.lo != 0 {
            let d = route.lo.trailing_zeros() / 16;
            route.lo -= 1 << (16 * d);
            d
        } else if route.hi as u32 != 0 {
            let d = route.hi.trailing_zeros() / 16;
            route.hi -= 1 << (16 * d);
            4 + d
        } else {
            let slot = (route.hi >> SLOT_SHIFT) as u32 % PORTS_MAX as u32;
            return Hop { port: (self.link_ports() + slot) as u8, class: Class::Any };
        };
        let bits = route.hi >> d;
        let class = match (self.wrap, bits >> UPPER_SHIFT & 1) {
            (false, _) => Class::Any,
            (true, 0) => Class::Lower,
            (true, _) => Class::Upper,
        };
        Hop { port: self.port(router, (2 * d) | (bits >> MINUS_SHIFT & 1) as u32, route), class }
    }
    fn classes(&self) -> Classes {
        let rings = self.wrap && self.dims.iter().any(|&d| d > 1);
        match self.routing {
            Routing::Adaptive => Classes::Escape(1 + u32::from(rings)),
            Routing::WestFirst | Routing::OddEven => Classes::Escape(0),
            _ if rings => Classes::Halves,
            _ => Classes::One,
        }
    }
    fn routing(&self) -> Routing {
        self.routing
    }
    fn layout(&self) -> Layout {
        let sizes: Vec<u32> = self.dims.iter().map(|&d| u32::from(d)).collect();
        let places = if self.wrap { Layout::torus(&sizes) } else { Layout::mesh(&sizes) };
        places.with_endpoints(self.endpoints)
    }
    fn router_name(&self, router: u32) -> String {
        let digits: Vec<String> = (0..self.ndims()).map(|d| self.coordinate(router, d).to_string()).collect();
        format!("({})", digits.join(","))
    }
    fn port_name(&self, port: u8) -> String {
        let numbered = |name: String, number: u32, of: u32| if of == 1 { name } else { format!("{name} {number}") };
        match u32::from(port).checked_sub(self.link_ports()) {
            Some(slot) => numbered("node".into(), slot, self.endpoints),
            None => {
                let (link, direction) =
                    (usize::from(port) / (2 * self.ndims()), usize::from(port) % (2 * self.ndims()));
                let sign = if direction.is_multiple_of(2) { '+' } else { '-' };
                numbered(format!("{sign}{}", AXES[direction / 2]), link as u32, self.links)
            }
        }
    }
    /// A panel per direction. Every node is a cell in planes X by Y, the planes side by side along Z and below each
    /// other along the other dimensions, one cell apart.
    fn cell(&self, router: u32, port: u8) -> Cell {
        let size = |d: usize| self.dims.get(d).map_or(1, |&s| usize::from(s));
        let digit = |d: usize| if d < self.ndims() { self.coordinate(router, d) as usize } else { 0 };
        let down = self.strides.get(3).map_or(0, |stride| (router / stride) as usize);
        let planes_down = (3..self.ndims()).map(size).product::<usize>();
        let title = match u32::from(port).checked_sub(self.link_ports()) {
            None => format!("{} links", self.port_name(port)),
            Some(_) if self.endpoints == 1 => "to nodes".into(),
            Some(slot) => format!("to nodes {slot}"),
        };
        Cell {
            panel: (port.into(), 0),
            title,
            columns: (size(0) + 1) * size(2) - 1,
            rows: (size(1) + 1) * planes_down - 1,
            column: digit(2) * (size(0) + 1) + digit(0),
            row: down * (size(1) + 1) + digit(1),
        }
    }
}

impl Route for Grid {
    const ADAPTS: bool = true;
    fn options(&self, router: u32, route: &RouteState) -> Options {
        let mut directions = 0;
        for d in 0..self.ndims() {
            let lanes = if d < 4 { route.lo } else { route.hi };
            if lanes >> (16 * (d & 3)) & 0xffff != 0 {
                directions |= 1 << (2 * d + usize::from(route.hi >> d >> MINUS_SHIFT & 1 != 0));
            }
        }
        let turns = self.turns(router, route, directions);
        let links = 0..self.links as usize;
        let ports = links.fold(0, |ports, link| ports | turns << (2 * self.ndims() * link));
        if self.routing != Routing::Adaptive && ports != 0 {
            // Whoever waits for a channel without room waits for none of a circle.
            let port = self.port(router, turns.trailing_zeros(), route);
            return Options { ports, escape: Hop { port, class: Class::Any } };
        }
        let mut escape = self.next(router, &mut route.clone());
        if !self.wrap && ports != 0 {
            escape.class = Class::Lower;
        }
        Options { ports, escape }
    }
    fn came(&self, input: u8, route: &mut RouteState) {
        if u32::from(input) < self.link_ports() {
            let d = usize::from(input) % (2 * self.ndims()) / 2;
            let lanes = if d < 4 { &mut route.lo } else { &mut route.hi };
            *lanes -= 1 << (16 * (d & 3));
            if d == 0 && self.routing == Routing::OddEven {
                route.hi |= LEFT_COLUMN;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_names_and_cells() {
        let torus = Grid::new(&[4, 3, 2, 2], true).unwrap();
        assert_eq!(
            (torus.router_name(23), torus.port_name(3), torus.port_name(8)),
            ("(3,2,1,0)".into(), "-Y".into(), "node".into())
        );
        let wide = Grid::with(&[4, 3], false, 3, 2).unwrap();
        assert_eq!([3, 4, 10].map(|port| wide.port_name(port)), ["-Y 0", "+X 1", "node 2"]);
        assert_eq!([4, 10].map(|port| wide.cell(0, port).title), ["+X 1 links", "to nodes 2"]);
        let cell = torus.cell(47, 0);
        assert_eq!((cell.title.as_str(), cell.columns, cell.rows, cell.column, cell.row), ("+X links", 9, 7, 8, 6));
    }

    /// Links that packets wait for while they hold another one, on all ways that a turn model leaves them.
    fn waits(mesh: &Grid) -> std::collections::BTreeMap<(u32, u8), std::collections::BTreeSet<(u32, u8)>> {
        let mut waits = std::collections::BTreeMap::<_, std::collections::BTreeSet<_>>::new();
        let nodes = mesh.endpoints() as u32;
        for (src, dst) in (0..nodes).flat_map(|src| (0..nodes).map(move |dst| (src, dst))) {
            let mut todo = vec![(src, None, mesh.start(src, dst, 0))];
            while let Some((router, held, route)) = todo.pop() {
                let options = mesh.options(router, &route);
                assert_eq!(options.ports == 0, router == dst, "{mesh} from {src} to {dst} at {router}");
                for port in angara_fabric::bits::bits(options.ports).map(|port| port as u8) {
                    let link = (router, port);
                    held.into_iter().for_each(|held| _ = waits.entry(held).or_default().insert(link));
                    waits.entry(link).or_default();
                    let End::Router { router, port } = mesh.output(router, port) else { panic!("a link") };
                    let mut route = route;
                    mesh.came(port, &mut route);
                    todo.push((router, Some(link), route));
                }
            }
        }
        waits
    }

    #[test]
    fn no_packets_wait_in_a_circle_if_they_turn_by_a_model() {
        for (dims, routing) in [([5, 4], Routing::WestFirst), ([5, 4], Routing::OddEven), ([4, 5], Routing::OddEven)] {
            let mesh = Grid::new(&dims, false).unwrap().with_routing(routing).unwrap();
            let mut waits = waits(&mesh);
            // Who waits for nobody goes on, until nobody is left.
            while let Some(link) = waits.iter().find(|(_, of)| of.is_empty()).map(|(link, _)| *link) {
                waits.remove(&link);
                waits.values_mut().for_each(|of| _ = of.remove(&link));
            }
            assert!(waits.is_empty(), "{mesh} {routing:?}: {waits:?}");
        }
        let adaptive = Grid::new(&[5, 4], false).unwrap().with_routing(Routing::Adaptive).unwrap();
        assert!(!waits(&adaptive).values().all(std::collections::BTreeSet::is_empty), "links are waited for");
        assert!(Grid::new(&[4, 4], true).unwrap().with_routing(Routing::OddEven).is_err());
    }
}
