//! Folded Clos network of three stages: leaf switches that carry the endpoints, and spines that join
//! all leaves. A packet between two leaves climbs to a spine drawn at random and has one way down;
//! one between endpoints of a leaf stays there.

use super::contract::{Class, End, Hop, RouteState, Topology};
use angara_fabric::rng;

/// Leaves have numbers 0..R, spines follow. A leaf's ports 0..N lead to its endpoints, N.. to the
/// spines; a spine's port r leads to leaf r.
#[derive(Clone, Debug)]
pub struct Clos {
    spines: u32,
    endpoints: u32,
    leaves: u32,
}

impl Clos {
    /// `spines` spines and `leaves` leaves of `endpoints` endpoints each, all validated.
    pub fn new(spines: u16, endpoints: u16, leaves: u16) -> Clos {
        Clos { spines: spines.into(), endpoints: endpoints.into(), leaves: leaves.into() }
    }
}

impl Topology for Clos {
    fn endpoints(&self) -> usize {
        (self.endpoints * self.leaves) as usize
    }
    fn routers(&self) -> usize {
        (self.leaves + self.spines) as usize
    }
    fn ports(&self) -> usize {
        (self.endpoints + self.spines).max(self.leaves) as usize
    }
    fn output(&self, router: u32, port: u8) -> End {
        let port = port as u32;
        if router >= self.leaves {
            let up = self.endpoints + router - self.leaves;
            return if port < self.leaves { End::Router { router: port, port: up as u8 } } else { End::Open };
        }
        if port < self.endpoints {
            return End::Endpoint(router * self.endpoints + port);
        }
        let spine = port - self.endpoints;
        if spine < self.spines { End::Router { router: self.leaves + spine, port: router as u8 } } else { End::Open }
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        (endpoint / self.endpoints, (endpoint % self.endpoints) as u8)
    }
    fn start(&self, _src: u32, dst: u32, random: u64) -> RouteState {
        RouteState { lo: dst as u64, hi: random }
    }
    #[inline(always)]
    fn next(&self, router: u32, route: &mut RouteState) -> Hop {
        let (leaf, port) = self.attach(route.lo as u32);
        let port = if router >= self.leaves {
            leaf
        } else if router == leaf {
            port as u32
        } else {
            self.endpoints + rng::below(route.advance(), self.spines as u64) as u32
        };
        Hop { port: port as u8, class: Class::Any }
    }
}
