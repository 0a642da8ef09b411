//! Torus and mesh.

use super::net::{Far, Net, Packet};
use crate::Grid;
use proptest::prelude::*;

pub(super) fn read(kind: &str, rest: &str) -> Box<dyn Net> {
    Box::new(Grid { sizes: rest.split('x').map(|n| n.parse().unwrap()).collect(), wrap: kind == "torus" })
}

pub(super) fn shapes() -> BoxedStrategy<String> {
    super::super::grid_shape().boxed()
}

impl Net for Grid {
    fn routers(&self) -> usize {
        self.nodes() as usize
    }
    fn ports(&self) -> usize {
        2 * self.sizes.len() + 1
    }
    fn endpoints(&self) -> usize {
        self.nodes() as usize
    }
    fn attach(&self, endpoint: usize) -> (usize, usize) {
        (endpoint, 2 * self.sizes.len())
    }
    fn far(&self, router: usize, port: usize) -> Far {
        if port == 2 * self.sizes.len() {
            return Far::Endpoint(router);
        }
        Far::Router(self.step(router as u32, port) as usize, port ^ 1)
    }
    fn start(&self, packet: &mut Packet, src: u32, dst: u32) {
        let (from, to) = (self.coords(src), self.coords(dst));
        for d in 0..from.len() {
            let up = self.towards_plus(from[d], to[d], d, packet.word >> d & 1 == 1);
            let crosses = if up { to[d] < from[d] } else { to[d] > from[d] };
            packet.plus.push(up);
            packet.upper.push(up == crosses);
        }
    }
    fn shortest(&self, router: usize, dst: u32, packet: &Packet) -> Vec<usize> {
        let (here, there) = (self.coords(router as u32), self.coords(dst));
        (0..here.len()).filter(|&d| here[d] != there[d]).map(|d| 2 * d + !packet.plus[d] as usize).collect()
    }
    fn route(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        let (here, there) = (self.coords(router as u32), self.coords(dst));
        let Some(d) = (0..here.len()).find(|&d| here[d] != there[d]) else {
            return (2 * here.len(), 0, vcs - 1);
        };
        let port = 2 * d + !packet.plus[d] as usize;
        match (self.wrap, packet.upper[d]) {
            (false, _) => (port, 0, vcs - 1),
            (true, false) => (port, 0, vcs / 2 - 1),
            (true, true) => (port, vcs / 2, vcs - 1),
        }
    }
}
