//! Express mesh: the links of a router listed one by one, the way by the farthest of them that does not lead past.

use super::net::{Far, Net, Packet};
use proptest::prelude::*;

struct Express {
    sizes: Vec<usize>,
    span: usize,
}

pub(super) fn read(_kind: &str, rest: &str) -> Box<dyn Net> {
    let (sizes, span) = rest.split_once(',').unwrap();
    let sizes = sizes.split('x').map(|k| k.parse().unwrap()).collect();
    Box::new(Express { sizes, span: span.parse().unwrap() })
}

pub(super) fn shapes() -> BoxedStrategy<String> {
    (prop::collection::vec(1u16..8, 1..3), 2u8..4)
        .prop_map(|(sizes, span)| {
            let sizes: Vec<String> = sizes.iter().map(u16::to_string).collect();
            format!("express:{},{span}", sizes.join("x"))
        })
        .boxed()
}

impl Express {
    fn coordinates(&self, mut router: usize) -> Vec<i64> {
        let mut all = Vec::new();
        for k in &self.sizes {
            all.push((router % k) as i64);
            router /= k;
        }
        all
    }
    fn number(&self, coordinates: &[i64]) -> usize {
        coordinates.iter().zip(&self.sizes).rev().fold(0, |number, (&at, k)| number * k + at as usize)
    }
    /// Port, dimension and distance (signed) of every link of a router.
    fn links(&self, router: usize) -> Vec<(usize, usize, i64)> {
        let own = self.coordinates(router);
        let mut all = Vec::new();
        for (d, &at) in own.iter().enumerate() {
            let span = self.span as i64;
            for (port, by) in [1, -1, span, -span].into_iter().enumerate() {
                let inside = (0..self.sizes[d] as i64).contains(&(at + by));
                if inside && (by.abs() == 1 || at % span == 0) {
                    all.push((4 * d + port, d, by));
                }
            }
        }
        all
    }
}

impl Net for Express {
    fn routers(&self) -> usize {
        self.sizes.iter().product()
    }
    fn ports(&self) -> usize {
        4 * self.sizes.len() + 1
    }
    fn endpoints(&self) -> usize {
        self.routers()
    }
    fn attach(&self, endpoint: usize) -> (usize, usize) {
        (endpoint, 4 * self.sizes.len())
    }
    fn far(&self, router: usize, port: usize) -> Far {
        if port == 4 * self.sizes.len() {
            return Far::Endpoint(router);
        }
        let (_, d, by) = *self.links(router).iter().find(|link| link.0 == port).expect("a link");
        let mut there = self.coordinates(router);
        there[d] += by;
        let to = self.number(&there);
        let back = self.links(to).into_iter().find(|link| (link.1, link.2) == (d, -by)).expect("its other end");
        Far::Router(to, back.0)
    }
    fn delay(&self, router: usize, port: usize) -> u64 {
        self.links(router).iter().find(|link| link.0 == port).map_or(1, |link| link.2.unsigned_abs())
    }
    fn route(&self, router: usize, dst: u32, _packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        let (own, wanted) = (self.coordinates(router), self.coordinates(dst as usize));
        let Some(first) = (0..own.len()).find(|&d| own[d] != wanted[d]) else {
            return (4 * own.len(), 0, vcs - 1);
        };
        let left = wanted[first] - own[first];
        let fits = |by: i64| by.signum() == left.signum() && by.abs() <= left.abs();
        let links = self.links(router).into_iter().filter(|link| link.1 == first && fits(link.2));
        (links.max_by_key(|link| link.2.abs()).expect("a mesh").0, 0, vcs - 1)
    }
}
