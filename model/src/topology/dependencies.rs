//! Channels that packets wait for while they hold others, and circles of these.
//!
//! A packet that holds a channel waits for the next one of its way. If no chain of such waits comes back to where it
//! began, somebody can always go on: nothing deadlocks (Dally and Seitz 1987). A channel here is one class of virtual
//! channels of a link; those to endpoints always empty.

use super::contract::{Class, Classes, End, Topology};
use angara_fabric::rng::mix;
use std::collections::{HashMap, HashSet};

/// A class of channels of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Channel {
    /// The router it leaves.
    pub router: u32,
    /// The port it leaves through.
    pub port: u8,
    /// Its class, from 0; the only one if there are none.
    pub class: u8,
}

/// Channels of which each waits for the next one, the last for the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Circle(pub Vec<Channel>);

impl Circle {
    /// The circle in words.
    pub fn shown(&self, topology: &dyn Topology) -> String {
        let one = |c: &Channel| {
            let to = match topology.output(c.router, c.port) {
                End::Router { router, .. } => topology.router_name(router),
                _ => topology.port_name(c.port),
            };
            let class = if topology.classes().count() > 1 { format!(" class {}", c.class) } else { String::new() };
            format!("{} → {to}{class}", topology.router_name(c.router))
        };
        let shown: Vec<String> = self.0.iter().take(12).map(one).collect();
        let more = if self.0.len() > shown.len() { ", …" } else { "" };
        format!("{}{more}", shown.join(", "))
    }
}

/// The classes a packet may use, as numbers.
fn classes(topology: &dyn Topology, class: Class) -> std::ops::Range<u8> {
    let all = topology.classes();
    match (all, class) {
        (Classes::Halves, Class::Lower) => 0..1,
        (Classes::Halves, Class::Upper) => 1..2,
        (Classes::Steps(_), Class::Step(k)) => k..k + 1,
        _ => 0..all.count() as u8,
    }
}

/// Which channels packets wait for, by the one they hold, from the ways of all pairs of endpoints with `words` random
/// words each. A way of more than 8 times as many hops as there are routers ends there.
pub fn waits(topology: &dyn Topology, words: u64) -> HashMap<Channel, HashSet<Channel>> {
    let mut waits: HashMap<Channel, HashSet<Channel>> = HashMap::new();
    let endpoints = topology.endpoints() as u32;
    // Endpoints of a router take the same ways between routers.
    let firsts: Vec<u32> =
        (0..endpoints).filter(|&e| e == 0 || topology.attach(e).0 != topology.attach(e - 1).0).collect();
    for (&src, &dst) in firsts.iter().flat_map(|s| firsts.iter().map(move |d| (s, d))) {
        for word in 0..words {
            let random = mix(u64::from(src) << 40 ^ u64::from(dst) << 16 ^ word);
            let mut route = topology.start(src, dst, random);
            let (mut at, _) = topology.attach(src);
            let mut held: Vec<Channel> = Vec::new();
            for _ in 0..8 * topology.routers() {
                let hop = topology.next(at, &mut route);
                let End::Router { router, .. } = topology.output(at, hop.port) else { break };
                let channel = |class| Channel { router: at, port: hop.port, class };
                let wanted: Vec<Channel> = classes(topology, hop.class).map(channel).collect();
                for channel in held {
                    waits.entry(channel).or_default().extend(&wanted);
                }
                (at, held) = (router, wanted);
            }
        }
    }
    waits
}

/// A circle of channels that packets can wait for, found as [`waits`] does.
pub fn circle(topology: &dyn Topology, words: u64) -> Option<Circle> {
    circle_of(&waits(topology, words))
}

pub(super) fn circle_of(waits: &HashMap<Channel, HashSet<Channel>>) -> Option<Circle> {
    let sorted = |channels: &mut dyn Iterator<Item = Channel>| {
        let mut channels: Vec<Channel> = channels.collect();
        channels.sort_unstable();
        channels
    };
    let mut done = HashSet::new();
    for start in sorted(&mut waits.keys().copied()) {
        // Channels under way, with those they wait for that have not been looked at.
        let mut path: Vec<(Channel, Vec<Channel>)> = Vec::new();
        let mut on_path = HashSet::new();
        let mut next = Some(start);
        loop {
            if let Some(channel) = next.take().filter(|c| !done.contains(c)) {
                if on_path.contains(&channel) {
                    let circle = path.iter().map(|p| p.0).skip_while(|&c| c != channel).collect();
                    return Some(Circle(circle));
                }
                on_path.insert(channel);
                let after = waits.get(&channel).map(|w| sorted(&mut w.iter().copied())).unwrap_or_default();
                path.push((channel, after));
            }
            let Some((channel, after)) = path.last_mut() else { break };
            next = after.pop();
            if next.is_none() {
                done.insert(*channel);
                on_path.remove(channel);
                path.pop();
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::AnyTopology;

    #[test]
    fn no_topology_has_a_circle() {
        for text in [
            "torus:5x4x3",
            "torus:2x2x2",
            "torus:3x3",
            "torus:6",
            "mesh:4x3x2",
            "fat-tree:2,4",
            "fat-tree:4,2",
            "clos:3,2,5",
            "cayley:13:1,5",
            "cayley:5x4:1.0,0.1",
            "cayley:s4:2134,3214,4231",
            "random:16,4,2,7",
            "slimfly:5",
            "express:9x5,3",
        ] {
            let topology: AnyTopology = text.parse().unwrap();
            let circle = circle(&*topology, 16);
            assert!(circle.is_none(), "{text}: {}", circle.unwrap().shown(&*topology));
        }
    }

    /// A torus that forgets its classes.
    struct Careless(AnyTopology);

    impl Topology for Careless {
        fn endpoints(&self) -> usize {
            self.0.endpoints()
        }
        fn routers(&self) -> usize {
            self.0.routers()
        }
        fn ports(&self) -> usize {
            self.0.ports()
        }
        fn output(&self, router: u32, port: u8) -> End {
            self.0.output(router, port)
        }
        fn attach(&self, endpoint: u32) -> (u32, u8) {
            self.0.attach(endpoint)
        }
        fn start(&self, src: u32, dst: u32, random: u64) -> super::super::RouteState {
            self.0.start(src, dst, random)
        }
        fn next(&self, router: u32, route: &mut super::super::RouteState) -> super::super::Hop {
            self.0.next(router, route)
        }
    }

    #[test]
    fn a_ring_without_a_dateline_has_one() {
        let ring = Careless("torus:6".parse().unwrap());
        let circle = circle(&ring, 4).unwrap();
        assert_eq!(circle.0.len(), 6);
        for (a, b) in circle.0.iter().zip(circle.0.iter().cycle().skip(1)) {
            assert!(matches!(ring.output(a.router, a.port), End::Router { router, .. } if router == b.router));
        }
        assert!(circle.shown(&ring).starts_with("router "), "{}", circle.shown(&ring));
        assert!(super::circle(&Careless("mesh:4x4".parse().unwrap()), 4).is_none());
    }
}
