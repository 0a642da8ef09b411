//! Folded Clos: leaves first, then spines.

use super::net::{Far, Net, Packet};
use proptest::prelude::*;

struct Clos {
    spines: usize,
    endpoints: usize,
    leaves: usize,
}

pub(super) fn read(_kind: &str, rest: &str) -> Box<dyn Net> {
    let n: Vec<usize> = rest.split(',').map(|n| n.parse().unwrap()).collect();
    Box::new(Clos { spines: n[0], endpoints: n[1], leaves: n[2] })
}

pub(super) fn shapes() -> BoxedStrategy<String> {
    (1u16..4, 1u16..4, 1u16..6).prop_map(|(s, e, l)| format!("clos:{s},{e},{l}")).boxed()
}

impl Net for Clos {
    fn routers(&self) -> usize {
        self.spines + self.leaves
    }
    fn ports(&self) -> usize {
        (self.spines + self.endpoints).max(self.leaves)
    }
    fn endpoints(&self) -> usize {
        self.endpoints * self.leaves
    }
    fn attach(&self, endpoint: usize) -> (usize, usize) {
        (endpoint / self.endpoints, endpoint % self.endpoints)
    }
    fn far(&self, router: usize, port: usize) -> Far {
        if router >= self.leaves {
            return Far::Router(port, self.endpoints + router - self.leaves);
        }
        match port.checked_sub(self.endpoints) {
            None => Far::Endpoint(router * self.endpoints + port),
            Some(spine) => Far::Router(self.leaves + spine, router),
        }
    }
    fn route(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        let (leaf, port) = self.attach(dst as usize);
        let port = if router >= self.leaves {
            leaf
        } else if router == leaf {
            port
        } else {
            self.endpoints + packet.draw(self.spines)
        };
        (port, 0, vcs - 1)
    }
}
