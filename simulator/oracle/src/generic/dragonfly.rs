//! Dragonfly: a list of cables, looked through for every step.

use super::net::{Far, Net, Packet, Queues};
use proptest::prelude::*;

/// How packets find their way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Minimal,
    Valiant,
    Ugal,
    UgalG,
    Par,
}

struct Dragonfly {
    way: Way,
    threshold: i64,
    p: usize,
    a: usize,
    h: usize,
    groups: usize,
    local: u64,
    global: u64,
    /// Router and port of both ends.
    cables: Vec<[(usize, usize); 2]>,
}

pub(super) fn read(_kind: &str, rest: &str) -> Box<dyn Net> {
    of(rest, Way::Minimal, 30)
}

/// The network `dragonfly:REST` with packets that find their way like this, and take a detour only if that is shorter
/// by more than `threshold` flits.
pub fn of(rest: &str, way: Way, threshold: i64) -> Box<dyn Net> {
    let number = |name: &str| {
        let value = rest.split(',').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.map(|n| n.parse::<usize>().unwrap())
    };
    let (p, a, h, groups, local, global) = match number("p") {
        Some(p) => {
            let (a, h) = (number("a").unwrap(), number("h").unwrap());
            (p, a, h, number("g").unwrap(), number("local").unwrap_or(10), number("global").unwrap_or(100))
        }
        None => {
            let n: Vec<usize> = rest.split(',').map(|n| n.parse().unwrap()).collect();
            let (local, global) = if n.len() == 1 { (10, 100) } else { (n[1], n[2]) };
            (n[0], 2 * n[0], n[0], 2 * n[0] * n[0] + 1, local, global)
        }
    };
    // Every group gives its ports away in order, to the routers and groups it meets in ascending order.
    let mut cables = Vec::new();
    for g in 0..groups {
        for (i, j) in (0..a).flat_map(|i| (i + 1..a).map(move |j| (i, j))) {
            cables.push([(g * a + i, p + j - 1), (g * a + j, p + i)]);
        }
    }
    let end = |group: usize, link: usize| (group * a + link / h, p + a - 1 + link % h);
    let mut given = vec![0; groups];
    for _ in 0..a * h / (groups - 1) {
        for (g, h) in (0..groups).flat_map(|g| (g + 1..groups).map(move |h| (g, h))) {
            cables.push([g, h].map(|group: usize| {
                given[group] += 1;
                end(group, given[group] - 1)
            }));
        }
    }
    let first = given[0];
    for (g, apart) in (0..groups).flat_map(|g| (0..(a * h - first) / 2).map(move |apart| (g, apart))) {
        let other = (g + apart + 1) % groups;
        cables.push([end(g, first + 2 * apart), end(other, first + 2 * apart + 1)]);
    }
    if (a * h - first) % 2 == 1 && groups % 2 == 0 {
        cables.extend((0..groups / 2).map(|g| [g, g + groups / 2].map(|group| end(group, a * h - 1))));
    }
    let (local, global) = (local as u64, global as u64);
    Box::new(Dragonfly { way, threshold, p, a, h, groups, local, global, cables })
}

pub(super) fn shapes() -> BoxedStrategy<String> {
    let short = (1u16..3, 1u16..12, 1u16..40).prop_map(|(k, l, g)| format!("dragonfly:{k},{l},{g}"));
    prop_oneof![short, general().prop_map(|rest| format!("dragonfly:{rest}"))].boxed()
}

/// Small dragonflies with several links between groups, some left open.
pub fn general() -> impl Strategy<Value = String> {
    (1u16..4, 1u16..5, 1u16..5, any::<u16>(), 1u16..8, 1u16..20).prop_map(|(p, a, h, g, local, global)| {
        let g = 2 + g % (a * h).min(8);
        format!("p={p},a={a},h={h},g={g},local={local},global={global}")
    })
}

impl Dragonfly {
    fn group(&self, router: usize) -> usize {
        router / self.a
    }
    /// The port from one router to another, if there is a cable.
    fn cable(&self, from: usize, to: usize) -> Option<usize> {
        let [a, b] = *self.cables.iter().find(|c| [[from, to], [to, from]].contains(&c.map(|end| end.0)))?;
        Some(if a.0 == from { a.1 } else { b.1 })
    }
    /// The port at `router` on a packet's shortest way to another group.
    fn towards(&self, router: usize, to: usize, packet: &Packet) -> usize {
        let ends = self.cables.iter().flat_map(|&[a, b]| [(a, b), (b, a)]);
        let exits = ends.filter(|(a, b)| [self.group(a.0), self.group(b.0)] == [self.group(router), to]);
        let mut exits: Vec<(usize, usize)> = exits.map(|(a, _)| a).collect();
        exits.sort_unstable();
        let (exit, port) = exits[packet.one_of(exits.len(), self.group(router))];
        if exit == router { port } else { self.cable(router, exit).unwrap() }
    }
    /// Draws the group of a detour; none if it is that of the source or destination.
    fn draw(&self, packet: &mut Packet, from: usize, to: usize) -> Option<usize> {
        let by = packet.draw(self.groups);
        (by != from && by != to).then_some(by)
    }
}

impl Net for Dragonfly {
    fn routers(&self) -> usize {
        self.a * self.groups
    }
    fn ports(&self) -> usize {
        self.p + self.a - 1 + self.h
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
        match self.way {
            Way::Valiant | Way::Ugal | Way::UgalG if from != to => packet.via = self.draw(packet, from, to),
            Way::Par => packet.undecided = from != to,
            _ => {}
        }
    }
    fn look(&self, router: usize, dst: u32, packet: &mut Packet, input: usize, queue: &Queues) {
        let [here, to] = [router, dst as usize / self.p].map(|r| self.group(r));
        let by = match self.way {
            Way::Ugal | Way::UgalG if input < self.p => packet.via,
            Way::Par if packet.undecided && here != to => self.draw(packet, here, to),
            _ => return,
        };
        let seen = packet.clone();
        let queue = |to: usize| {
            let first = self.towards(router, to, &seen);
            match self.far(router, first) {
                // The next router has the link.
                Far::Router(next, _) if self.way == Way::UgalG && self.group(next) == here => {
                    queue(next, self.towards(next, to, &seen), 2 + self.local)
                }
                _ => queue(router, first, u64::from(self.way == Way::UgalG)),
            }
        };
        let longer = |&by: &usize| queue(to) > 2 * queue(by) + self.threshold;
        packet.via = by.filter(longer);
        packet.undecided &= packet.via.is_none();
    }
    fn route(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        let (home, port) = self.attach(dst as usize);
        let (here, to) = (self.group(router), self.group(home));
        packet.via = packet.via.filter(|&by| by != here);
        let port = match packet.via {
            _ if router == home => port,
            Some(by) => self.towards(router, by, packet),
            None if here == to => self.cable(router, home).unwrap(),
            None => self.towards(router, to, packet),
        };
        let next = match self.far(router, port) {
            Far::Router(next, _) => self.group(next),
            Far::Endpoint(_) => here,
        };
        // Classes ascend: undecided, to the group of the detour, towards the destination's group, there.
        let stage = match packet.via {
            Some(_) => 1,
            None if next == to => 3,
            None if packet.undecided => 0,
            None => 2,
        };
        let (classes, class) = match self.way {
            Way::Minimal => (2, if packet.upper[0] { stage - 2 } else { 0 }),
            Way::Valiant | Way::Ugal | Way::UgalG => (3, stage - 1),
            Way::Par => (4, stage),
        };
        let of_class = || (0..vcs).filter(|v| v * classes / vcs == class);
        (port, of_class().min().unwrap(), of_class().max().unwrap())
    }
}
