//! k-ary n-fly: wires between ranks of numbers written as digits, the highest first.

use super::net::{Far, Net, Packet};
use proptest::prelude::*;

struct Fly {
    k: usize,
    n: usize,
}

pub(super) fn read(_kind: &str, rest: &str) -> Box<dyn Net> {
    let (k, n) = rest.split_once(',').unwrap();
    Box::new(Fly { k: k.parse().unwrap(), n: n.parse().unwrap() })
}

pub(super) fn shapes() -> BoxedStrategy<String> {
    (2u16..5, 1u8..4).prop_map(|(k, n)| format!("fly:{k},{n}")).boxed()
}

impl Fly {
    fn per_rank(&self) -> usize {
        self.k.pow(self.n as u32 - 1)
    }
    /// Digits of `number`, the highest first.
    fn digits(&self, number: usize, count: usize) -> Vec<usize> {
        (0..count).rev().map(|d| number / self.k.pow(d as u32) % self.k).collect()
    }
    fn number(&self, digits: &[usize]) -> usize {
        digits.iter().fold(0, |n, d| n * self.k + d)
    }
    /// The router and input that an output of a router leads to.
    fn wire(&self, router: usize, out: usize) -> (usize, usize) {
        let (rank, place) = (router / self.per_rank(), router % self.per_rank());
        let mut digits = self.digits(place, self.n - 1);
        let input = std::mem::replace(&mut digits[rank], out);
        ((rank + 1) * self.per_rank() + self.number(&digits), input)
    }
}

impl Net for Fly {
    fn routers(&self) -> usize {
        self.n * self.per_rank()
    }
    fn ports(&self) -> usize {
        2 * self.k
    }
    fn endpoints(&self) -> usize {
        self.k * self.per_rank()
    }
    fn attach(&self, endpoint: usize) -> (usize, usize) {
        (endpoint / self.k, endpoint % self.k)
    }
    fn far(&self, router: usize, port: usize) -> Far {
        let (rank, place) = (router / self.per_rank(), router % self.per_rank());
        if port >= self.k {
            if rank == self.n - 1 {
                return Far::Endpoint(place * self.k + port - self.k);
            }
            let (to, input) = self.wire(router, port - self.k);
            return Far::Router(to, input);
        }
        if rank == 0 {
            return Far::Endpoint(place * self.k + port);
        }
        let before = (rank - 1) * self.per_rank()..rank * self.per_rank();
        let mut outputs = before.flat_map(|r| (0..self.k).map(move |out| (r, out)));
        let (from, out) = outputs.find(|&(r, out)| self.wire(r, out) == (router, port)).unwrap();
        Far::Router(from, self.k + out)
    }
    fn route(&self, router: usize, dst: u32, _packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        let rank = router / self.per_rank();
        (self.k + self.digits(dst as usize, self.n)[rank], 0, vcs - 1)
    }
}
