//! A network of one's own: its wiring and routing are in this file, everything else is the simulator's.
//!
//! Routers stand in a ring, with an endpoint each. Messages to the opposite side are as far one way as the other.
//! Two routings are compared: always one way, and the way with the shorter queue at the first router.

use angara_model::AnyTopology;
use angara_model::topology::{Class, Classes, End, Hop, Outputs, Route, RouteState, Routing, Topology, TopologyError};
use angara_sim::run::router::Router;
use angara_sim::run::{Outcome, driver};
use angara_sim::settings::Keys;
use std::fmt;
use std::ops::ControlFlow;

/// Port to the next router.
const NEXT: u8 = 0;
/// Port to the router before.
const BEFORE: u8 = 1;
/// Port to the endpoint.
const ENDPOINT: u8 = 2;

#[derive(Clone)]
struct Ring {
    routers: u32,
    /// Packets look at the queues of their first router.
    looks: bool,
    /// One end of a link is wrong, to be refused.
    broken: bool,
}

/// What a packet remembers: `lo` is its target, `hi` its port and four times its hops.
impl Ring {
    fn distance(&self, from: u32, to: u32) -> u32 {
        (to + self.routers - from) % self.routers
    }
    fn go(&self, router: u32, route: &mut RouteState, way: impl FnOnce(u32) -> u8) -> Hop {
        let ahead = self.distance(router, route.lo as u32);
        if ahead == 0 {
            return Hop { port: ENDPOINT, class: Class::Any };
        }
        let hops = route.hi >> 2;
        let port = if hops == 0 { way(ahead) } else { route.hi as u8 & 3 };
        route.hi = (hops + 1) << 2 | u64::from(port);
        Hop { port, class: Class::Step(hops as u8) }
    }
    fn fixed(&self, ahead: u32) -> u8 {
        if 2 * ahead <= self.routers { NEXT } else { BEFORE }
    }
}

impl Topology for Ring {
    fn endpoints(&self) -> usize {
        self.routers as usize
    }
    fn routers(&self) -> usize {
        self.routers as usize
    }
    fn ports(&self) -> usize {
        3
    }
    fn output(&self, router: u32, port: u8) -> End {
        match port {
            NEXT if self.broken && router == 3 => End::Router { router: 5, port: BEFORE },
            NEXT => End::Router { router: (router + 1) % self.routers, port: BEFORE },
            BEFORE => End::Router { router: (router + self.routers - 1) % self.routers, port: NEXT },
            _ => End::Endpoint(router),
        }
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        (endpoint, ENDPOINT)
    }
    fn start(&self, _src: u32, dst: u32, _random: u64) -> RouteState {
        RouteState { lo: dst.into(), hi: 0 }
    }
    fn next(&self, router: u32, route: &mut RouteState) -> Hop {
        self.go(router, route, |ahead| self.fixed(ahead))
    }
    fn classes(&self) -> Classes {
        // A hop waits only for channels of the next one.
        Classes::Steps(self.routers / 2)
    }
    fn routing(&self) -> Routing {
        Routing::Minimal
    }
}

impl Route for Ring {
    const LOOKS: bool = true;
    fn choose(&self, router: u32, _input: u8, route: &mut RouteState, outputs: &impl Outputs) -> Hop {
        self.go(router, route, |ahead| match 2 * ahead == self.routers && self.looks {
            true if outputs.used(BEFORE) < outputs.used(NEXT) => BEFORE,
            _ => self.fixed(ahead),
        })
    }
}

impl fmt::Display for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "my-ring:{}{}", self.routers, if self.looks { ",looks" } else { "" })
    }
}

fn ring(looks: bool, broken: bool) -> Result<AnyTopology, TopologyError> {
    AnyTopology::outside(Ring { routers: 8, looks, broken })
}

fn simulate(looks: bool, load: f64) -> Outcome {
    let keys = Keys {
        topology: Some(ring(looks, false).unwrap()),
        router: Some(Router::Generic),
        pattern: Some("opposite".parse().unwrap()),
        load: Some(load),
        ..Keys::default()
    };
    let experiment = keys.resolve().map_err(|(e, _)| e).unwrap().experiment;
    driver::run(&experiment, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn a_network_of_another_crate_is_simulated() {
    let light = simulate(true, 0.01);
    // Four hops pass five routers of four cycles each; entering and leaving takes two more.
    assert!((light.packet_latency_cycles.unwrap() - 22.0).abs() < 0.5, "{light:?}");
    assert_eq!(light.settings.topology, "my-ring:8,looks");
}

#[test]
fn its_routing_sees_the_queues() {
    // One way, four links carry each message, so a link of one flit per cycle carries 0.25; both ways carry more.
    let [fixed, looks] = [false, true].map(|looks| simulate(looks, 0.3));
    assert!(fixed.saturated && fixed.accepted_flits_per_node_cycle < 0.26, "{}", fixed.text());
    assert!(!looks.saturated && looks.accepted_flits_per_node_cycle > 0.29, "{}", looks.text());
}

#[test]
fn a_network_whose_parts_do_not_fit_is_refused() {
    let why = ring(true, true).unwrap_err().to_string();
    assert!(why.contains("port 0 of router 3 leads to port 1 of router 5, which leads elsewhere"), "{why}");
}
