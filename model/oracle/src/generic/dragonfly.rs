//! Dragonfly: a list of cables, looked through for every step. Shortest ways only.

use super::net::{Far, Net, Packet};
use proptest::prelude::*;

struct Dragonfly {
    p: usize,
    local: u64,
    global: u64,
    /// Router and port of both ends.
    cables: Vec<[(usize, usize); 2]>,
}

pub(super) fn read(_kind: &str, rest: &str) -> Box<dyn Net> {
    let n: Vec<u64> = rest.split(',').map(|n| n.parse().unwrap()).collect();
    let (p, local, global) = if n.len() == 1 { (n[0], 10, 100) } else { (n[0], n[1], n[2]) };
    let (p, a) = (p as usize, 2 * p as usize);
    let groups = a * p + 1;
    // Every group gives its ports away in order, to the routers and groups it meets in ascending order.
    let mut cables = Vec::new();
    for g in 0..groups {
        for (i, j) in (0..a).flat_map(|i| (i + 1..a).map(move |j| (i, j))) {
            cables.push([(g * a + i, p + j - 1), (g * a + j, p + i)]);
        }
    }
    let mut given = vec![0; groups];
    for (g, h) in (0..groups).flat_map(|g| (g + 1..groups).map(move |h| (g, h))) {
        cables.push([g, h].map(|group: usize| {
            let link = given[group];
            given[group] += 1;
            (group * a + link / p, p + a - 1 + link % p)
        }));
    }
    Box::new(Dragonfly { p, local, global, cables })
}

pub(super) fn shapes() -> BoxedStrategy<String> {
    (1u16..3, 1u16..12, 1u16..40).prop_map(|(k, l, g)| format!("dragonfly:{k},{l},{g}")).boxed()
}

impl Dragonfly {
    fn group(&self, router: usize) -> usize {
        router / (2 * self.p)
    }
    /// The port from one router to another, if there is a cable.
    fn cable(&self, from: usize, to: usize) -> Option<usize> {
        let [a, b] = *self.cables.iter().find(|c| [[from, to], [to, from]].contains(&c.map(|end| end.0)))?;
        Some(if a.0 == from { a.1 } else { b.1 })
    }
}

impl Net for Dragonfly {
    fn routers(&self) -> usize {
        2 * self.p * (2 * self.p * self.p + 1)
    }
    fn ports(&self) -> usize {
        4 * self.p - 1
    }
    fn endpoints(&self) -> usize {
        self.routers() * self.p
    }
    fn attach(&self, endpoint: usize) -> (usize, usize) {
        (endpoint / self.p, endpoint % self.p)
    }
    fn far(&self, router: usize, port: usize) -> Far {
        if port < self.p {
            return Far::Endpoint(router * self.p + port);
        }
        let cable = self.cables.iter().find(|c| c.contains(&(router, port))).unwrap();
        let (router, port) = if cable[0] == (router, port) { cable[1] } else { cable[0] };
        Far::Router(router, port)
    }
    fn delay(&self, router: usize, port: usize) -> u64 {
        match self.far(router, port) {
            Far::Router(to, _) if self.group(to) != self.group(router) => self.global,
            _ => self.local,
        }
    }
    /// `upper`: whether the destination is in another group.
    fn start(&self, packet: &mut Packet, src: u32, dst: u32) {
        let [from, to] = [src, dst].map(|e| self.group(e as usize / self.p));
        packet.upper = vec![from != to];
    }
    fn route(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        let (home, port) = self.attach(dst as usize);
        let (group, to) = (self.group(router), self.group(home));
        let of_class = |class| (0..vcs).filter(move |v| v * 2 / vcs == class);
        let (port, class) = if router == home {
            (port, usize::from(packet.upper[0]))
        } else if group == to {
            (self.cable(router, home).unwrap(), usize::from(packet.upper[0]))
        } else {
            let near = |c: &[(usize, usize); 2]| {
                let [a, b] = *c;
                let fits = |a: usize, b: usize| self.group(a) == group && self.group(b) == to;
                if fits(a.0, b.0) { Some(a) } else { fits(b.0, a.0).then_some(b) }
            };
            let (exit, port) = self.cables.iter().find_map(near).unwrap();
            if exit == router { (port, 1) } else { (self.cable(router, exit).unwrap(), 0) }
        };
        (port, of_class(class).min().unwrap(), of_class(class).max().unwrap())
    }
}
