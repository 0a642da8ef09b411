//! Section 4 of `docs/explain/model.md`. Nothing is counted: what is free, idle or allowed at an instant is
//! found by looking through every packet's times again.

mod failures;
mod impaired;
mod routes;

use super::{Grid, Received, Sent};
use angara_model::{Angara, Rate};
use impaired::Link;
use routes::{Dead, Routes};
use std::collections::{BTreeMap, BTreeSet};

/// Not known yet.
const NEVER: u64 = u64::MAX;

/// Fault of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The cable at a port of a node fails.
    Cable {
        node: u32,
        port: usize,
    },
    Node(u32),
    /// Something befalls the packets of a link from now on.
    Impair {
        node: u32,
        port: usize,
        how: How,
    },
}

/// Impairment of a link: shares are per million, 0 means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Wrong(u64),
    Twice(u64),
    Early(u64),
    Delay(u64),
    /// Bytes per second.
    Rate(u64),
    /// Seed of random words, instead of the network's.
    Seed(Option<u64>),
}

/// Counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counts {
    /// Wrong transmissions.
    pub wrong: u64,
    /// Repeated ones.
    pub repeated: u64,
    /// Packets that came twice.
    pub twice: u64,
    /// Packets that overtook another.
    pub early: u64,
}

/// Outcome of the packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    pub received: Vec<Received>,
    /// Packet index and time of those whose pair was unreachable.
    pub dropped: Vec<(usize, u64)>,
    /// Node, port and counts of every link that has counted anything.
    pub links: Vec<(u32, usize, Counts)>,
}

/// How often the rules about faults were needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    /// Packets taken back from the network.
    pub taken_back: u64,
    /// Packets that waited because their pair was held.
    pub held: u64,
    /// Packets sent on a route with a first or last step, or the longer way around a ring.
    pub detours: u64,
    /// Failures after which some route left routing order.
    pub out_of_order: u64,
    /// Cables taken out of service after 16 errors in a row.
    pub worn_out: u64,
    /// Packets that came twice.
    pub twice: u64,
    /// Packets that overtook one held back.
    pub early: u64,
    /// Packets held back that nothing overtook in time.
    pub late: u64,
    /// Packets held back that were taken back.
    pub let_go: u64,
    /// Transmissions that a rate made longer.
    pub slowed: u64,
    /// Packets cut through that a delay made later.
    pub delayed: u64,
    /// Packets that waited on a shortened cable for one before them.
    pub queued: u64,
    /// Transmissions that drew from a seed of their link's own.
    pub seeded: u64,
}

impl Met {
    fn each(&mut self) -> [&mut u64; 13] {
        let Met {
            taken_back,
            held,
            detours,
            out_of_order,
            worn_out,
            twice,
            early,
            late,
            let_go,
            slowed,
            delayed,
            queued,
            seeded,
        } = self;
        [taken_back, held, detours, out_of_order, worn_out, twice, early, late, let_go, slowed, delayed, queued, seeded]
    }
    pub fn add(&mut self, other: &Met) {
        let mut other = *other;
        self.each().into_iter().zip(other.each()).for_each(|(sum, n)| *sum += *n);
    }
    /// True if each was needed at least once.
    pub fn every_rule(&mut self) -> bool {
        self.each().into_iter().all(|n| *n > 0)
    }
}

/// One packet at one place: an input channel of a node.
#[derive(Clone, Debug)]
struct Stay {
    packet: usize,
    node: u32,
    /// Direction of travel, as in `Grid`; none in an injection queue.
    travels: Option<usize>,
    /// Virtual channel, also of an injection queue.
    vc: usize,
    /// When its request may be ready if nobody is before it.
    ready: u64,
    /// When its request was posted; grants of its straight output then, and at its escape.
    posted: Option<(u64, u64)>,
    escaped: Option<(u64, u64)>,
    /// Ports still to leave through, in this order where the route is fixed.
    route: Vec<usize>,
    /// Grant: (time, when its tail left, output).
    left: Option<(u64, u64, usize)>,
    /// When the router before knows that its slot is free.
    freed: u64,
    rate: (u64, u64),
    /// All its flits are here from the first on (it was received before it was forwarded).
    whole: bool,
    routers: u64,
}

fn span(flits: u64, rate: (u64, u64)) -> u64 {
    (flits * rate.0).div_ceil(rate.1)
}

/// Of a port of a node: never more than the chip's.
fn port_rate(p: &Angara) -> (u64, u64) {
    let port = p.rest.port_flit.map(|port| Rate { num: port.num as u32, den: port.den as u32 });
    let rate = port.map_or(p.flit_internal, |port| p.flit_internal.slower(port));
    (rate.num as u64, rate.den as u64)
}

struct World<'a> {
    grid: &'a Grid,
    p: &'a Angara,
    sent: &'a [Sent],
    seed: u64,
    stays: Vec<Stay>,
    /// Per node and output and channel.
    pointers: Vec<Vec<[u32; 3]>>,
    grants: Vec<Vec<u64>>,
    instants: BTreeSet<u64>,
    /// Packets being ejected: when the last flit is received, and routers passed.
    ejected: Vec<Received>,
    fate: Fate,
    met: Met,
    dead: Dead,
    routes: Routes,
    /// Packets that new ones of their pair wait for.
    old: BTreeSet<usize>,
    /// New packets of all pairs wait for them.
    /// Parts of the machine all of whose pairs are held.
    drain: BTreeSet<Option<usize>>,
    /// Links that are or were impaired, by node and port.
    impaired: BTreeMap<(u32, usize), Link>,
    now: u64,
}

impl World<'_> {
    fn links(&self) -> usize {
        2 * self.grid.sizes.len()
    }
    /// Injection (and ejection) channels of a node: one of each endpoint, or the ports of its only one.
    fn channels(&self) -> u32 {
        u32::from(self.p.channels).max(self.p.rest.ports.into())
    }
    /// The injection channel of a packet, and its ejection channel.
    fn channels_of(&self, packet: usize) -> [u32; 2] {
        let (sent, endpoints) = (&self.sent[packet], u32::from(self.p.channels));
        if endpoints > 1 {
            return [sent.src % endpoints, sent.dst % endpoints];
        }
        let mut linked: Vec<usize> = (0..self.links()).filter(|o| self.grid.sizes[o / 2] > 1).collect();
        linked.sort_by_key(|&o| self.order(o));
        let mut way = routes::own(self.grid, sent.src, sent.dst);
        way.sort_by_key(|&o| self.order(o));
        let port = |o: Option<&usize>| o.map_or(0, |o| linked.iter().position(|l| l == o).unwrap() as u32);
        [way.first(), way.last()].map(|o| port(o) % u32::from(self.p.rest.ports))
    }
    fn node_of(&self, endpoint: u32) -> u32 {
        endpoint / self.p.channels as u32
    }
    fn pair(&self, packet: usize) -> (u32, u32) {
        (self.node_of(self.sent[packet].src), self.node_of(self.sent[packet].dst))
    }
    /// Place of an output in routing order: + of each dimension, then − of each, then ejection channels.
    fn order(&self, o: usize) -> usize {
        if o < self.links() { o % 2 * self.links() / 2 + o / 2 } else { o }
    }
    fn straight(&self, s: &Stay) -> usize {
        let eject = self.links() + self.channels_of(s.packet)[1] as usize;
        s.route.first().copied().unwrap_or(eject)
    }
    fn class(&self, s: &Stay) -> usize {
        self.sent[s.packet].request as usize
    }
    /// Asks for adaptive channels (it may also have escaped).
    fn roams(&self, s: &Stay) -> bool {
        s.vc == 2 && !s.route.is_empty() && !self.dead.any()
    }
    fn busy(&self, node: u32, o: usize) -> bool {
        let streaming = self.stays.iter().any(|s| {
            s.node == node && s.left.is_some_and(|(g, tail, out)| out == o && g <= self.now && self.now < tail)
        });
        streaming || self.impaired.get(&(node, o)).is_some_and(|l| self.now < l.sending_until)
    }
    fn free(&self, node: u32, o: usize, vc: usize) -> i64 {
        let to = self.grid.step(node, o);
        let held: u64 = self
            .stays
            .iter()
            .filter(|s| s.node == to && s.travels == Some(o) && s.vc == vc)
            .filter(|s| s.left.is_none() || self.now < s.freed)
            .map(|s| if self.p.bubble_in_flits { self.sent[s.packet].flits } else { 1 })
            .sum();
        self.p.slots as i64 * if self.p.bubble_in_flits { 18 } else { 1 } - held as i64
    }
    fn fits(&self, s: &Stay, o: usize, vc: usize) -> bool {
        if o >= self.links() {
            return true;
        }
        let unit = if self.p.bubble_in_flits { 18 } else { 1 };
        let ring = self.grid.wrap && self.grid.sizes[o / 2] > 1;
        let continues = s.travels == Some(o) && s.vc == vc;
        let need = if vc == 2 || !ring || continues { unit } else { 2 * unit };
        self.free(s.node, o, vc) >= need
    }
    fn number(&self, s: &Stay, vc: usize) -> u32 {
        let own = match s.travels {
            None => 12 + self.channels_of(s.packet)[0],
            Some(t) => self.order(t) as u32,
        };
        if s.vc == vc { own } else { 20 + own }
    }
    /// It is the first waiting packet of its input channel or queue, and the tail of every packet
    /// that left has left. An injection queue is in the order of injection, a channel in that of arrival.
    fn is_front(&self, i: usize) -> bool {
        let s = &self.stays[i];
        let same = |t: &Stay| {
            t.node == s.node
                && t.travels == s.travels
                && t.vc == s.vc
                && (s.travels.is_some() || self.channels_of(t.packet)[0] == self.channels_of(s.packet)[0])
        };
        let before = |j: usize, t: &Stay| if s.travels.is_some() { j < i } else { t.packet < s.packet };
        self.stays.iter().enumerate().filter(|(_, t)| same(t)).all(|(j, t)| match t.left {
            Some((_, tail, _)) => tail <= self.now,
            None => j == i || !before(j, t),
        })
    }
    fn preferred(&self, s: &Stay) -> Option<usize> {
        let unit = if self.p.bubble_in_flits { 18 } else { 1 };
        let mut outs = s.route.clone();
        outs.sort_by_key(|&o| self.order(o));
        outs.dedup();
        outs.retain(|&o| !self.busy(s.node, o) && self.free(s.node, o, 2) >= unit);
        let most = outs.iter().map(|&o| self.free(s.node, o, 2)).max()?;
        outs.into_iter().find(|&o| self.free(s.node, o, 2) == most)
    }
    /// Everyone who asks for output `o` and fits: (aged, channel, number, stay).
    fn candidates(&self, node: u32, o: usize) -> Vec<(bool, usize, u32, usize)> {
        let mut list = Vec::new();
        for (i, s) in self.stays.iter().enumerate() {
            let Some((_, since)) = s.posted.filter(|_| s.node == node && s.left.is_none()) else { continue };
            let aged = |since: u64| self.grants[node as usize][o] - since >= self.p.age_limit as u64;
            if self.roams(s) && self.preferred(s) == Some(o) {
                list.push((false, 2, self.number(s, 2), i));
            }
            let since = if self.roams(s) { s.escaped.map(|e| e.1) } else { Some(since) };
            // A packet of the adaptive channel goes on in that of its class, except to an endpoint.
            let vc = if s.vc == 2 && !s.route.is_empty() { self.class(s) } else { s.vc };
            if let Some(since) = since
                && self.straight(s) == o
                && self.fits(s, o, vc)
            {
                list.push((aged(since), vc, self.number(s, vc), i));
            }
        }
        list
    }
    fn decide(&mut self, node: u32) {
        let mut outs: Vec<usize> = (0..self.links() + self.channels() as usize).collect();
        outs.sort_by_key(|&o| self.order(o));
        loop {
            let mut granted = false;
            for &o in &outs {
                if self.busy(node, o) {
                    continue;
                }
                let mut list = self.candidates(node, o);
                if list.iter().any(|c| c.0) {
                    list.retain(|c| c.0);
                }
                let Some(vc) = list.iter().map(|c| c.1).min() else { continue };
                list.retain(|c| c.1 == vc);
                let pointer = self.pointers[node as usize][o][vc];
                let chosen = *list.iter().min_by_key(|c| (c.2 < pointer, c.2)).unwrap();
                self.pointers[node as usize][o][vc] = chosen.2 + 1;
                self.grant(chosen.3, o, vc);
                granted = true;
            }
            if !granted {
                return;
            }
        }
    }
    /// Stay `i` ends now; its tail leaves then.
    fn leave(&mut self, i: usize, tail: u64, o: usize) {
        let s = &self.stays[i];
        let before = s.travels.map(|crossed| (self.grid.step(s.node, crossed ^ 1), crossed));
        let freed = tail + self.p.credit + before.map_or(0, |link| self.delay(link));
        self.stays[i].left = Some((self.now, tail, o));
        self.stays[i].freed = freed;
        self.instants.extend([tail, freed].into_iter().filter(|at| *at > self.now));
    }
    fn grant(&mut self, i: usize, o: usize, vc: usize) {
        let g = self.now;
        let flits = self.sent[self.stays[i].packet].flits;
        let link = (self.p.flit_link.num as u64, self.p.flit_link.den as u64);
        let stage = if o < self.links() { link } else { port_rate(self.p) };
        let mut s = self.stays[i].clone();
        let rate = if s.rate.0 * stage.1 >= stage.0 * s.rate.1 { s.rate } else { stage };
        let tail = g + span(flits, rate);
        self.leave(i, tail, o);
        self.grants[s.node as usize][o] += 1;
        if o >= self.links() {
            let last = g + (self.p.ejection - self.p.router) + span(flits - 1, rate);
            self.instants.insert(last);
            self.ejected.push((s.packet, last, s.routers + 1));
            return;
        }
        let crossed = s.route.iter().position(|&port| port == o).unwrap();
        s.route.remove(crossed);
        let ready = g + self.p.link + self.p.router;
        let from = s.node;
        let stay = Stay {
            node: self.grid.step(from, o),
            travels: Some(o),
            vc,
            ready,
            posted: None,
            escaped: None,
            left: None,
            rate,
            whole: false,
            routers: s.routers + 1,
            ..s
        };
        self.stays.push(stay);
        if self.impaired.contains_key(&(from, o)) {
            self.send_impaired((from, o));
        } else {
            self.instants.insert(ready);
        }
    }
    /// Requests that become possible now, and packets without a route.
    fn ask(&mut self) {
        loop {
            let mut again = false;
            for i in 0..self.stays.len() {
                let s = &self.stays[i];
                if s.posted.is_some() || s.left.is_some() || s.ready > self.now || !self.is_front(i) {
                    continue;
                }
                if s.travels.is_none() {
                    if self.is_held(s.packet) {
                        self.met.held += 1;
                        continue;
                    }
                    let (from, to) = self.pair(s.packet);
                    let Some(route) = self.routes.get(from, to) else {
                        self.fate.dropped.push((s.packet, self.now));
                        self.stays.remove(i);
                        again = true;
                        break;
                    };
                    self.met.detours += u64::from(route != routes::own(self.grid, from, to));
                    self.stays[i].route = route;
                }
                let s = &self.stays[i];
                let (grants, roams) = (self.grants[s.node as usize][self.straight(s)], self.roams(s));
                self.stays[i].posted = Some((self.now, grants));
                if roams {
                    self.instants.insert(self.now + self.p.escape);
                }
            }
            if !again {
                return;
            }
        }
    }
    fn escape(&mut self) {
        for i in 0..self.stays.len() {
            let s = &self.stays[i];
            let due = s.posted.is_some_and(|(t, _)| t + self.p.escape == self.now);
            if s.left.is_none() && self.roams(s) && due {
                self.stays[i].escaped = Some((self.now, self.grants[s.node as usize][self.straight(s)]));
            }
        }
    }
    /// Packets whose last flit is received now.
    fn receive(&mut self) {
        let now = self.now;
        let (arrived, later) = std::mem::take(&mut self.ejected).into_iter().partition(|e| e.1 <= now);
        self.ejected = later;
        for e in arrived {
            self.old.remove(&e.0);
            self.fate.received.push(e);
        }
        self.end_drains();
    }
}

pub fn run(grid: &Grid, p: &Angara, sent: &[Sent]) -> Vec<Received> {
    let (fate, _) = run_with_faults(grid, p, sent, &[], 0);
    assert!(fate.dropped.is_empty(), "nothing is dropped without faults");
    fate.received
}

/// `faults` happen at their times, those of one instant in the order given.
pub fn run_with_faults(grid: &Grid, p: &Angara, sent: &[Sent], faults: &[(u64, Fault)], seed: u64) -> (Fate, Met) {
    run_in_sets(grid, p, sent, faults, &[], seed)
}

impl World<'_> {
    /// Puts every packet into its injection queue; an interface takes one after the other.
    fn queue_all(&mut self, rate: (u64, u64)) {
        let (p, nodes) = (self.p, self.grid.nodes());
        let mut interfaces = vec![0; (nodes * self.channels()) as usize];
        for (packet, s) in self.sent.iter().enumerate() {
            let node = s.src / p.channels as u32;
            let interface = &mut interfaces[(node * self.channels() + self.channels_of(packet)[0]) as usize];
            let begins = s.at.max(*interface);
            *interface = begins + span(s.flits, rate);
            let ready = begins + p.injection + p.router;
            self.instants.insert(ready);
            self.stays.push(Stay {
                packet,
                node,
                travels: None,
                vc: if s.adaptive { 2 } else { s.request as usize },
                ready,
                posted: None,
                escaped: None,
                route: Vec::new(),
                left: None,
                freed: NEVER,
                rate,
                whole: false,
                routers: 0,
            });
        }
    }
}

/// A network divided by node sets: the nodes of each that send and receive, and those that pass packets on.
pub fn run_in_sets(
    grid: &Grid,
    p: &Angara,
    sent: &[Sent],
    faults: &[(u64, Fault)],
    sets: &[(Vec<u32>, Vec<u32>)],
    seed: u64,
) -> (Fate, Met) {
    let mut dead = Dead::default();
    for (i, (nodes, transit)) in sets.iter().enumerate() {
        dead.sets.extend(nodes.iter().map(|node| (*node, (i, false))));
        dead.sets.extend(transit.iter().map(|node| (*node, (i, true))));
    }
    let outs = 2 * grid.sizes.len() + p.channels.max(p.rest.ports) as usize;
    let nodes = grid.nodes() as usize;
    let mut w = World {
        grid,
        p,
        sent,
        seed,
        stays: Vec::new(),
        pointers: vec![vec![[0; 3]; outs]; nodes],
        grants: vec![vec![0; outs]; nodes],
        instants: BTreeSet::new(),
        ejected: Vec::new(),
        fate: Fate::default(),
        met: Met::default(),
        routes: Routes::new(grid, &dead),
        dead,
        old: BTreeSet::new(),
        drain: BTreeSet::new(),
        impaired: BTreeMap::new(),
        now: 0,
    };
    w.queue_all(port_rate(p));
    w.instants.extend(faults.iter().map(|f| f.0));
    while let Some(now) = w.instants.pop_first() {
        w.now = now;
        // Those that can matter no more: their slot is known to be free.
        let gone = |s: &Stay| s.left.is_some() && s.freed <= now;
        w.stays.retain(|s| !gone(s));
        for (_, fault) in faults.iter().filter(|f| f.0 == now) {
            w.fail(*fault);
        }
        w.hear();
        w.let_pass();
        w.receive();
        w.escape();
        w.ask();
        for node in 0..nodes as u32 {
            w.decide(node);
        }
    }
    let mut fate = w.fate;
    let counts = w.impaired.iter().map(|(link, l)| (link.0, link.1, l.counts));
    fate.links = counts.filter(|l| l.2 != Counts::default()).collect();
    assert_eq!(fate.received.len() + fate.dropped.len(), sent.len(), "the oracle deadlocked");
    fate.received.sort();
    fate.dropped.sort();
    (fate, w.met)
}
