//! Cables and nodes that fail, and what becomes of packets under way.

use super::routes::Routes;
use super::{Fault, NEVER, Stay, World, port_rate, span};
use std::collections::BTreeSet;

impl World<'_> {
    pub(super) fn fail(&mut self, fault: Fault) {
        match fault {
            Fault::Cable { node, port } => self.cut((node, port)),
            Fault::Node(node) => {
                self.dead.nodes.insert(node);
                self.reroute(Some(self.dead.part(node)));
            }
            Fault::Impair { node, port, how } => self.impaired.entry((node, port)).or_default().change(how),
        }
    }

    /// A cable fails: both directions.
    pub(super) fn cut(&mut self, (node, port): (u32, usize)) {
        let far = self.grid.step(node, port);
        self.dead.links.extend([(node, port), (far, port ^ 1)]);
        let inside = self.dead.part(node) == self.dead.part(far);
        self.reroute(inside.then(|| self.dead.part(node)));
    }

    /// New packets of this packet's pair wait for older ones.
    pub(super) fn is_held(&self, packet: usize) -> bool {
        let pair = self.pair(packet);
        let part = self.dead.part(pair.0);
        let drains = |old: (u32, u32)| self.drain.contains(&part) && self.dead.part(old.0) == part;
        self.old.iter().any(|&o| self.pair(o) == pair || drains(self.pair(o)))
    }

    fn in_network(s: &Stay) -> bool {
        s.travels.is_some() && s.left.is_none()
    }

    fn is_blocked(&self, s: &Stay) -> bool {
        let crossed = s.travels.unwrap();
        let sender = self.grid.step(s.node, crossed ^ 1);
        let behind = if s.whole { 0 } else { span(self.sent[s.packet].flits, s.rate) };
        let crossing = s.ready == NEVER || s.ready + behind > self.now;
        self.dead.nodes.contains(&s.node)
            || (crossing && !self.dead.usable(self.grid, sender, crossed))
            || s.vc == 2
            || !self.dead.clear(self.grid, s.node, &s.route)
    }

    /// Reroutes packets when another link or node is dead, in a part of the machine or between two.
    fn reroute(&mut self, part: Option<Option<usize>>) {
        let before = std::mem::replace(&mut self.routes, Routes::new(self.grid, &self.dead));
        let taken = self.take_back();
        let leaves_order = |routes: &Routes| part.is_some_and(|part| routes.out_of_order.contains(&part));
        self.met.out_of_order += u64::from(leaves_order(&self.routes));
        self.end_drains();
        if leaves_order(&before) || leaves_order(&self.routes) {
            self.drain.extend(part);
        }
        for s in self.stays.iter().filter(|s| World::in_network(s)) {
            let (from, to) = self.pair(s.packet);
            let changed = before.get(from, to) != self.routes.get(from, to);
            let drains = self.drain.contains(&self.dead.part(from));
            if drains || changed || taken.contains(&(from, to)) {
                self.old.insert(s.packet);
            }
        }
        self.end_drains();
        for s in self.stays.iter_mut().filter(|s| s.travels.is_none() && s.left.is_none()) {
            (s.posted, s.escaped) = (None, None);
        }
    }

    /// Parts in which nothing old is left are drained.
    pub(super) fn end_drains(&mut self) {
        let left: BTreeSet<Option<usize>> = self.old.iter().map(|&o| self.dead.part(self.pair(o).0)).collect();
        self.drain.retain(|part| left.contains(part));
    }

    /// Puts blocked packets, and later ones of the same source endpoint, target node and class that must
    /// keep their order, back into their sources' queues. Returns the pairs concerned.
    fn take_back(&mut self) -> BTreeSet<(u32, u32)> {
        let mut inside: Vec<usize> = (0..self.stays.len()).filter(|&i| World::in_network(&self.stays[i])).collect();
        inside.sort_by_key(|&i| self.stays[i].packet);
        let (mut streams, mut pairs) = (BTreeSet::new(), BTreeSet::new());
        for i in inside {
            let s = self.stays[i].clone();
            let m = &self.sent[s.packet];
            let stream = (m.src, self.node_of(m.dst), m.request);
            if !self.is_blocked(&s) && (m.adaptive || !streams.contains(&stream)) {
                continue;
            }
            if !m.adaptive {
                streams.insert(stream);
            }
            pairs.insert(self.pair(s.packet));
            self.met.taken_back += 1;
            self.old.remove(&s.packet);
            // It leaves its channel at once, through no output.
            self.leave(i, self.now, usize::MAX);
            self.let_go(s.packet);
            let ready = self.now + self.p.router;
            self.instants.insert(ready);
            self.stays.push(Stay {
                packet: s.packet,
                node: self.node_of(m.src),
                travels: None,
                vc: m.request as usize,
                ready,
                posted: None,
                escaped: None,
                route: Vec::new(),
                left: None,
                freed: NEVER,
                rate: port_rate(self.p),
                whole: false,
                routers: 0,
            });
        }
        pairs
    }
}
