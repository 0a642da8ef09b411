//! Folded Clos network of three stages: leaf switches that carry the endpoints, and spines that join
//! all leaves. A packet between two leaves climbs to a spine drawn at random and has one way down;
//! one between endpoints of a leaf stays there.

use super::contract::{Cell, Class, End, Hop, PORTS_MAX, RouteState, Routing, Topology, Written, check_nodes};
use super::layout::Layout;
use angara_fabric::rng;
use std::fmt;

/// Leaves have numbers 0..R, spines follow. A leaf's ports 0..N lead to its endpoints, N.. to the
/// spines; a spine's port r leads to leaf r.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clos {
    spines: u32,
    endpoints: u32,
    leaves: u32,
}

impl Clos {
    /// `spines` spines and `leaves` leaves of `endpoints` endpoints each.
    ///
    /// # Errors
    /// Which counts are possible.
    pub fn new(spines: u16, endpoints: u16, leaves: u16) -> Result<Clos, String> {
        let [spines, endpoints, leaves] = [spines, endpoints, leaves].map(u32::from);
        let few = |n| (1..64).contains(&n);
        if !(few(spines) && few(endpoints) && few(leaves)) || endpoints + spines > PORTS_MAX as u32 {
            return Err(format!(
                "give 1 to 63 spines, endpoints per leaf and leaves, of a leaf endpoints + spines at most {PORTS_MAX}"
            ));
        }
        check_nodes((endpoints * leaves).into())?;
        Ok(Clos { spines, endpoints, leaves })
    }
}

impl Written for Clos {
    const FORMS: &'static [(&'static str, &'static str)] = &[("clos", "SPINES,ENDPOINTS,LEAVES")];
    fn read(_kind: &str, rest: &str) -> Result<Clos, String> {
        let counts: Vec<u16> = rest.split(',').map_while(|c| c.parse().ok()).collect();
        match counts[..] {
            [spines, endpoints, leaves] => Clos::new(spines, endpoints, leaves),
            _ => Err(String::new()),
        }
    }
}

impl fmt::Display for Clos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clos:{},{},{}", self.spines, self.endpoints, self.leaves)
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
    fn routing(&self) -> Routing {
        Routing::Nca
    }
    fn layout(&self) -> Layout {
        Layout::levels(vec![self.endpoints, self.leaves])
    }
    fn router_name(&self, router: u32) -> String {
        match router.checked_sub(self.leaves) {
            None => format!("leaf {router}"),
            Some(spine) => format!("spine {spine}"),
        }
    }
    /// A panel of leaves and one of spines: a column per switch, a row per port.
    fn cell(&self, router: u32, port: u8) -> Cell {
        let (panel, title, columns, rows, column) = match router.checked_sub(self.leaves) {
            None => (0, "leaves", self.leaves, self.endpoints + self.spines, router),
            Some(spine) => (1, "spines", self.spines, self.leaves, spine),
        };
        let [columns, rows, column] = [columns, rows, column].map(|n| n as usize);
        Cell { panel: (panel, 0), title: title.into(), columns, rows, column, row: port.into() }
    }
}
