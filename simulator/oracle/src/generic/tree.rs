//! k-ary n-tree. Routers are named by rank and n-1 digits; a link between rank l and l+1 changes digit l.

use super::net::{Far, Net, Packet};
use proptest::prelude::*;

struct Tree {
    k: usize,
    n: u32,
}

pub(super) fn read(_kind: &str, rest: &str) -> Box<dyn Net> {
    let (k, n) = rest.split_once(',').unwrap();
    Box::new(Tree { k: k.parse().unwrap(), n: n.parse().unwrap() })
}

pub(super) fn shapes() -> BoxedStrategy<String> {
    (2u16..4, 1u8..4).prop_map(|(k, n)| format!("fat-tree:{k},{n}")).boxed()
}

impl Tree {
    fn per_rank(&self) -> usize {
        self.k.pow(self.n - 1)
    }
}

impl Net for Tree {
    fn routers(&self) -> usize {
        self.n as usize * self.per_rank()
    }
    fn ports(&self) -> usize {
        2 * self.k
    }
    fn endpoints(&self) -> usize {
        self.k.pow(self.n)
    }
    fn attach(&self, endpoint: usize) -> (usize, usize) {
        ((self.n as usize - 1) * self.per_rank() + endpoint / self.k, endpoint % self.k)
    }
    fn far(&self, router: usize, port: usize) -> Far {
        let (k, n) = (self.k, self.n as usize);
        let (rank, place) = (router / self.per_rank(), router % self.per_rank());
        if rank == n - 1 && port < k {
            return Far::Endpoint(place * k + port);
        }
        let down = port < k;
        // The digit that the link changes, most significant digit first.
        let digit = if down { rank } else { rank - 1 };
        let weight = k.pow((n - 2 - digit) as u32);
        let old = place / weight % k;
        let moved = place + (port % k) * weight - old * weight;
        let rank = if down { rank + 1 } else { rank - 1 };
        Far::Router(rank * self.per_rank() + moved, if down { k + old } else { old })
    }
    fn route(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        let (rank, place) = ((router / self.per_rank()) as u32, router % self.per_rank());
        let (serves, group) = (self.k.pow(self.n - rank), self.k.pow(self.n - 1 - rank));
        let dst = dst as usize;
        let port = if place / group == dst / serves { dst % serves / group } else { self.k + packet.draw(self.k) };
        (port, 0, vcs - 1)
    }
}
