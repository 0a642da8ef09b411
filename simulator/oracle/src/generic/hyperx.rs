//! HyperX: coordinates compared one by one. Direct ways only.

use super::net::{Far, Net, Packet};
use proptest::prelude::*;

struct HyperX {
    sizes: Vec<usize>,
    endpoints: usize,
}

pub(super) fn read(_kind: &str, rest: &str) -> Box<dyn Net> {
    let (sizes, endpoints) = rest.split_once(',').unwrap();
    let sizes = sizes.split('x').map(|k| k.parse().unwrap()).collect();
    Box::new(HyperX { sizes, endpoints: endpoints.parse().unwrap() })
}

pub(super) fn shapes() -> BoxedStrategy<String> {
    (prop::collection::vec(1u16..5, 1..4), 1u16..4)
        .prop_map(|(sizes, c)| {
            let sizes: Vec<String> = sizes.iter().map(u16::to_string).collect();
            format!("hyperx:{},{c}", sizes.join("x"))
        })
        .boxed()
}

impl HyperX {
    fn coordinates(&self, mut router: usize) -> Vec<usize> {
        let digit = |&k: &usize| {
            let at = router % k;
            router /= k;
            at
        };
        self.sizes.iter().map(digit).collect()
    }
    /// What every port of a router leads to, in order.
    fn around(&self, router: usize) -> Vec<Option<usize>> {
        let own = self.coordinates(router);
        let mut ports = vec![None; self.endpoints];
        for d in 0..self.sizes.len() {
            ports.extend(
                (0..self.routers())
                    .filter(|&other| {
                        let at = self.coordinates(other);
                        (0..at.len()).all(|e| (at[e] == own[e]) != (e == d))
                    })
                    .map(Some),
            );
        }
        ports
    }
}

impl Net for HyperX {
    fn routers(&self) -> usize {
        self.sizes.iter().product()
    }
    fn ports(&self) -> usize {
        self.around(0).len()
    }
    fn endpoints(&self) -> usize {
        self.endpoints * self.routers()
    }
    fn attach(&self, endpoint: usize) -> (usize, usize) {
        (endpoint / self.endpoints, endpoint % self.endpoints)
    }
    fn far(&self, router: usize, port: usize) -> Far {
        match self.around(router)[port] {
            None => Far::Endpoint(router * self.endpoints + port),
            Some(to) => Far::Router(to, self.around(to).iter().position(|&r| r == Some(router)).unwrap()),
        }
    }
    fn shortest(&self, router: usize, dst: u32, _packet: &Packet) -> Vec<usize> {
        let home = self.coordinates(self.attach(dst as usize).0);
        let apart = |router| self.coordinates(router).iter().zip(&home).filter(|(a, b)| a != b).count();
        let nearer = |to: &Option<usize>| to.is_some_and(|to| apart(to) < apart(router));
        (0..self.ports()).filter(|&port| nearer(&self.around(router)[port])).collect()
    }
    fn route(&self, router: usize, dst: u32, _packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        let (home, port) = self.attach(dst as usize);
        let (own, wanted) = (self.coordinates(router), self.coordinates(home));
        let Some(d) = (0..own.len()).find(|&d| own[d] != wanted[d]) else { return (port, 0, vcs - 1) };
        let mut next = own;
        next[d] = wanted[d];
        let port = self.around(router).iter().position(|to| to.is_some_and(|to| self.coordinates(to) == next));
        (port.unwrap(), 0, vcs - 1)
    }
}
