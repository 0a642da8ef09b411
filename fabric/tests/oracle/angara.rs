//! Section 4 of `docs/model.md`. Nothing is counted: what is free, idle or allowed at an instant is
//! found by looking through every packet's times again.

use super::{Grid, Received, Sent};
use fabric::model::Angara;
use std::collections::BTreeSet;

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
    /// Grant: (time, when its tail left, output).
    left: Option<(u64, u64, usize)>,
    rate: (u64, u64),
    routers: u64,
}

fn span(flits: u64, rate: (u64, u64)) -> u64 {
    (flits * rate.0).div_ceil(rate.1)
}

struct World<'a> {
    grid: &'a Grid,
    p: &'a Angara,
    sent: &'a [Sent],
    stays: Vec<Stay>,
    /// Per node and output and channel.
    pointers: Vec<Vec<[u32; 3]>>,
    grants: Vec<Vec<u64>>,
    instants: BTreeSet<u64>,
    received: Vec<Received>,
    now: u64,
}

impl World<'_> {
    fn links(&self) -> usize {
        2 * self.grid.sizes.len()
    }
    fn node_of(&self, endpoint: u32) -> u32 {
        endpoint / self.p.channels as u32
    }
    /// Half-way around a ring: does the packet go towards plus in dimension `d`?
    fn tie(&self, from: &[u32], to: &[u32], d: usize) -> bool {
        let others: u32 = to.iter().enumerate().filter(|(i, _)| *i != d).map(|(_, c)| c).sum();
        (from.iter().sum::<u32>() + others).is_multiple_of(2)
    }
    /// Link outputs that bring the packet nearer, in direction order.
    fn useful(&self, s: &Stay) -> Vec<usize> {
        let m = &self.sent[s.packet];
        let (from, to, here) =
            (self.grid.coords(self.node_of(m.src)), self.grid.coords(self.node_of(m.dst)), self.grid.coords(s.node));
        let plus = |d: usize| self.grid.towards_plus(from[d], to[d], d, self.tie(&from, &to, d));
        let left = |d: &usize| here[*d] != to[*d];
        let dims = 0..here.len();
        let ups = dims.clone().filter(left).filter(|&d| plus(d)).map(|d| 2 * d);
        let downs = dims.filter(left).filter(|&d| !plus(d)).map(|d| 2 * d + 1);
        ups.chain(downs).collect()
    }
    /// Place of an output in routing order: + of each dimension, then − of each, then ejection channels.
    fn order(&self, o: usize) -> usize {
        if o < self.links() { o % 2 * self.links() / 2 + o / 2 } else { o }
    }
    fn straight(&self, s: &Stay) -> usize {
        let eject = self.links() + (self.sent[s.packet].dst % self.p.channels as u32) as usize;
        self.useful(s).first().copied().unwrap_or(eject)
    }
    fn class(&self, s: &Stay) -> usize {
        self.sent[s.packet].request as usize
    }
    /// Asks for adaptive channels (it may also have escaped).
    fn roams(&self, s: &Stay) -> bool {
        s.vc == 2 && !self.useful(s).is_empty()
    }
    fn busy(&self, node: u32, o: usize) -> bool {
        self.stays.iter().any(|s| {
            s.node == node && s.left.is_some_and(|(g, tail, out)| out == o && g <= self.now && self.now < tail)
        })
    }
    fn free(&self, node: u32, o: usize, vc: usize) -> i64 {
        let to = self.grid.step(node, o);
        let held: u64 = self
            .stays
            .iter()
            .filter(|s| s.node == to && s.travels == Some(o) && s.vc == vc)
            .filter(|s| s.left.is_none_or(|(_, tail, _)| self.now < tail + self.p.credit))
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
            None => 12 + self.sent[s.packet].src % self.p.channels as u32,
            Some(t) => self.order(t) as u32,
        };
        if s.vc == vc { own } else { 16 + own }
    }
    /// The first packet of an input channel that has not begun to leave, if its predecessor's tail left.
    fn is_front(&self, i: usize) -> bool {
        let s = &self.stays[i];
        let same = |t: &Stay| {
            t.node == s.node
                && t.travels == s.travels
                && t.vc == s.vc
                && (s.travels.is_some() || self.sent[t.packet].src == self.sent[s.packet].src)
        };
        self.stays[..i].iter().filter(|t| same(t)).all(|t| t.left.is_some_and(|(_, tail, _)| tail <= self.now))
    }
    fn preferred(&self, s: &Stay) -> Option<usize> {
        let unit = if self.p.bubble_in_flits { 18 } else { 1 };
        let mut outs = self.useful(s);
        outs.sort_by_key(|&o| self.order(o));
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
            if self.roams(s) {
                if self.preferred(s) == Some(o) {
                    list.push((false, 2, self.number(s, 2), i));
                }
                if let Some((_, since)) = s.escaped
                    && self.straight(s) == o
                    && self.fits(s, o, self.class(s))
                {
                    list.push((aged(since), self.class(s), self.number(s, self.class(s)), i));
                }
            } else if self.straight(s) == o {
                if self.fits(s, o, s.vc) {
                    list.push((aged(since), s.vc, self.number(s, s.vc), i));
                }
            }
        }
        list
    }
    fn decide(&mut self, node: u32) {
        let mut outs: Vec<usize> = (0..self.links() + self.p.channels as usize).collect();
        outs.sort_by_key(|&o| self.order(o));
        loop {
            let mut granted = false;
            for &o in &outs {
                let link = o < self.links();
                if link && !self.grid.wrap {
                    let c = self.grid.coords(node)[o / 2];
                    if c == if o % 2 == 0 { self.grid.sizes[o / 2] - 1 } else { 0 } {
                        continue;
                    }
                }
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
    fn grant(&mut self, i: usize, o: usize, vc: usize) {
        let g = self.now;
        let flits = self.sent[self.stays[i].packet].flits;
        let stage = if o < self.links() { self.p.flit_link } else { self.p.flit_internal };
        let stage = (stage.num as u64, stage.den as u64);
        let s = self.stays[i].clone();
        let rate = if s.rate.0 * stage.1 >= stage.0 * s.rate.1 { s.rate } else { stage };
        let tail = g + span(flits, rate);
        self.stays[i].left = Some((g, tail, o));
        self.grants[s.node as usize][o] += 1;
        self.instants.extend([tail, tail + self.p.credit]);
        if o < self.links() {
            let ready = g + self.p.link + self.p.router;
            self.instants.insert(ready);
            let node = self.grid.step(s.node, o);
            let (travels, routers) = (Some(o), s.routers + 1);
            let fresh = Stay { node, travels, vc, ready, posted: None, escaped: None, left: None, rate, routers, ..s };
            self.stays.push(fresh);
        } else {
            let last = g + (self.p.ejection - self.p.router) + span(flits - 1, rate);
            self.received.push((s.packet, last, s.routers + 1));
        }
    }
}

pub(crate) fn run(grid: &Grid, p: &Angara, sent: &[Sent]) -> Vec<Received> {
    let outs = 2 * grid.sizes.len() + p.channels as usize;
    let nodes = grid.nodes() as usize;
    let mut w = World {
        grid,
        p,
        sent,
        stays: Vec::new(),
        pointers: vec![vec![[0; 3]; outs]; nodes],
        grants: vec![vec![0; outs]; nodes],
        instants: BTreeSet::new(),
        received: Vec::new(),
        now: 0,
    };
    let rate = (p.flit_internal.num as u64, p.flit_internal.den as u64);
    let mut interfaces = vec![0; nodes * p.channels as usize];
    for (packet, s) in sent.iter().enumerate() {
        let begins = s.at.max(interfaces[s.src as usize]);
        interfaces[s.src as usize] = begins + span(s.flits, rate);
        let ready = begins + p.injection + p.router;
        w.instants.insert(ready);
        w.stays.push(Stay {
            packet,
            node: s.src / p.channels as u32,
            travels: None,
            vc: if s.adaptive { 2 } else { s.request as usize },
            ready,
            posted: None,
            escaped: None,
            left: None,
            rate,
            routers: 0,
        });
    }
    while let Some(now) = w.instants.pop_first() {
        w.now = now;
        // Those that can matter no more: their slot is known to be free.
        let dead = |s: &Stay| s.left.is_some_and(|(_, tail, _)| tail + p.credit <= now);
        w.stays.retain(|s| !dead(s));
        for i in 0..w.stays.len() {
            if w.stays[i].posted.is_none() && w.stays[i].ready <= now && w.is_front(i) {
                let grants = w.grants[w.stays[i].node as usize][w.straight(&w.stays[i])];
                w.stays[i].posted = Some((now, grants));
                if w.roams(&w.stays[i]) {
                    w.instants.insert(now + p.escape);
                }
            }
            let s = &w.stays[i];
            if s.left.is_none() && w.roams(s) && s.posted.is_some_and(|(t, _)| t + p.escape == now) {
                w.stays[i].escaped = Some((now, w.grants[s.node as usize][w.straight(s)]));
            }
        }
        for node in 0..nodes as u32 {
            w.decide(node);
        }
    }
    assert_eq!(w.received.len(), sent.len(), "the oracle deadlocked");
    w.received.sort();
    w.received
}
