//! Torus and mesh.

use super::net::{Far, Net, Packet};
use crate::Grid;
use proptest::prelude::*;

struct Wide {
    grid: Grid,
    /// Endpoints of a router.
    endpoints: usize,
    /// Links in every direction.
    links: usize,
}

pub(super) fn read(kind: &str, rest: &str) -> Box<dyn Net> {
    let mut words = rest.split(',');
    let sizes = words.next().unwrap().split('x').map(|n| n.parse().unwrap()).collect();
    let mut wide = Wide { grid: Grid { sizes, wrap: kind == "torus" }, endpoints: 1, links: 1 };
    for word in words {
        let (name, number) = word.split_once('=').unwrap();
        *if name == "c" { &mut wide.endpoints } else { &mut wide.links } = number.parse().unwrap();
    }
    Box::new(wide)
}

/// Texts of small tori and meshes, some with several endpoints per router or links per direction.
pub fn shapes() -> BoxedStrategy<String> {
    let some =
        |name: &'static str| prop_oneof![Just(String::new()), (2u8..4).prop_map(move |n| format!(",{name}={n}"))];
    (super::super::grid_shape(), some("c"), some("x")).prop_map(|(grid, c, x)| format!("{grid}{c}{x}")).boxed()
}

impl Wide {
    fn dims(&self) -> usize {
        self.grid.sizes.len()
    }
    /// Coordinates of a router, and of that of an endpoint.
    fn places(&self, router: usize, dst: u32) -> (Vec<u32>, Vec<u32>) {
        (self.grid.coords(router as u32), self.grid.coords(dst / self.endpoints as u32))
    }
}

impl Net for Wide {
    fn routers(&self) -> usize {
        self.grid.nodes() as usize
    }
    fn ports(&self) -> usize {
        2 * self.dims() * self.links + self.endpoints
    }
    fn endpoints(&self) -> usize {
        self.routers() * self.endpoints
    }
    fn attach(&self, endpoint: usize) -> (usize, usize) {
        (endpoint / self.endpoints, 2 * self.dims() * self.links + endpoint % self.endpoints)
    }
    fn far(&self, router: usize, port: usize) -> Far {
        if port >= 2 * self.dims() * self.links {
            return Far::Endpoint(router * self.endpoints + port - 2 * self.dims() * self.links);
        }
        let (link, direction) = (port / (2 * self.dims()), port % (2 * self.dims()));
        let to = self.grid.step(router as u32, direction) as usize;
        Far::Router(to, 2 * self.dims() * link + (direction ^ 1))
    }
    fn start(&self, packet: &mut Packet, src: u32, dst: u32) {
        let (from, to) = self.places(src as usize / self.endpoints, dst);
        for d in 0..from.len() {
            let up = self.grid.towards_plus(from[d], to[d], d, packet.word >> d & 1 == 1);
            let crosses = if up { to[d] < from[d] } else { to[d] > from[d] };
            packet.plus.push(up);
            packet.upper.push(up == crosses);
        }
    }
    fn shortest(&self, router: usize, dst: u32, packet: &Packet) -> Vec<usize> {
        let (here, there) = self.places(router, dst);
        let directions = (0..here.len()).filter(|&d| here[d] != there[d]).map(|d| 2 * d + !packet.plus[d] as usize);
        directions.flat_map(|p| (0..self.links).map(move |link| 2 * self.dims() * link + p)).collect()
    }
    fn route(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        let (here, there) = self.places(router, dst);
        let Some(d) = (0..here.len()).find(|&d| here[d] != there[d]) else {
            return (self.attach(dst as usize).1, 0, vcs - 1);
        };
        let link = packet.one_of(self.links, router);
        let port = 2 * self.dims() * link + 2 * d + !packet.plus[d] as usize;
        match (self.grid.wrap, packet.upper[d]) {
            (false, _) => (port, 0, vcs - 1),
            (true, false) => (port, 0, vcs / 2 - 1),
            (true, true) => (port, vcs / 2, vcs - 1),
        }
    }
}
