//! Handling of packets under way when a link or node fails or comes back.
//!
//! **Route changes lose and reorder nothing.** When routes change, every packet whose way is now
//! blocked is taken out of the network and put back into its source's injection queue (the source
//! still has its copy, as a sender that retransmits would), together with all later packets of the
//! same source, target and channel, in their old order. New packets of a pair whose route changed,
//! or that had packets taken back, are held at the injector until its older packets have left the
//! network. If the old or the new table of a part of the machine has a route that breaks direction order,
//! every injector of that part waits until its packets have left, because the two tables together might deadlock.
//! Packets of pairs that are no longer reachable are dropped and their injector is told.
//! `docs/explain/model.md`, section 4, "Failures", has every rule.
//!
//! This is what one fabric does that models the whole network. Parts of one cannot see each other's packets and
//! change together: see [`crate::Fabric::recover`].

use super::layout::DATA_VCS;
use super::state::Chip;
use super::time::events::EventKind;
use crate::packet::{NO_QUEUE, Packet, PacketHandle, flag, rate};
use crate::routes::{PartId, Routes, Ways};
use crate::types::Outage;
use angara_abi::packet::{PacketType, Vc};
use angara_net::NodeSet;
use std::collections::BTreeSet;

impl Chip {
    /// A cable or node goes out of service or back, and routes are rebuilt. Returns the routes before, for
    /// [`Chip::reroute`].
    pub(crate) fn change_routes(&mut self, what: Outage, dead: bool) -> Routes {
        let before = self.routes.clone();
        self.routes.set(what, dead);
        self.degraded.by_table = !self.routes.whole();
        self.route_change += 1;
        before
    }

    /// Nodes belong to a set from now on. Returns the routes before, for [`Chip::reroute`].
    pub(crate) fn form_set(&mut self, id: u32, set: &NodeSet, ways: Ways) -> Routes {
        let before = self.routes.clone();
        self.routes.form(id, set, ways);
        self.degraded.by_table = !self.routes.whole();
        before
    }

    /// A set gives its nodes back. Returns the routes before, for [`Chip::reroute`].
    pub(crate) fn dissolve_set(&mut self, id: u32) -> Routes {
        let before = self.routes.clone();
        self.routes.dissolve(id);
        self.degraded.by_table = !self.routes.whole();
        before
    }

    /// Routes of the given change, the same in all parts of a split network: exactly what `dead` names is out of service.
    pub(crate) fn replace_routes(&mut self, change: u64, dead: &[Outage]) {
        self.routes.replace(dead);
        self.degraded.by_table = !self.routes.whole();
        self.route_change = change;
        self.special = true; // barriers begin again
    }

    /// Takes everything that moves out of routers and links. Ports, barriers and trees are not told.
    pub(crate) fn empty(&mut self) -> Vec<PacketHandle> {
        let queued = |h: &PacketHandle| self.packets[*h].is_queued();
        let mut moving: Vec<PacketHandle> = self.packets.handles().into_iter().filter(queued).collect();
        for (time, event) in self.events.drain() {
            match event.kind {
                // Adapters know which.
                EventKind::Deliver if PacketHandle::new(event.arg) == PacketHandle::BY_MEMORY => {}
                EventKind::Deliver => moving.push(PacketHandle::new(event.arg)),
                EventKind::Fault | EventKind::TreeTimer => self.events.push(time, event.kind, event.node, event.arg),
                // Routers are empty now, and ports and barriers are called next: these events have no purpose left.
                EventKind::Heard
                | EventKind::Line
                | EventKind::Head
                | EventKind::Escape
                | EventKind::Wake
                | EventKind::Pump
                | EventKind::Phase => {}
            }
        }
        moving.extend(self.clear_impaired());
        self.routers.empty(&self.slots);
        self.edge.empty();
        self.degraded.held.clear();
        self.degraded.draining.clear();
        for h in &moving {
            let p = &mut self.packets[*h];
            (p.queue, p.next) = (NO_QUEUE, PacketHandle::NONE);
        }
        moving
    }

    /// Packets whose way is blocked by what has changed since `before` go back to their sources, and new packets wait for
    /// those they must not overtake.
    pub(crate) fn reroute(&mut self, before: &Routes) {
        let taken = self.take_back_blocked();
        self.hold_changed(before, &taken);
        for node in 0..self.net.nodes as u32 {
            if self.owned[node as usize] {
                self.ask_again(node);
            }
        }
    }

    /// Removes barrier specials and messages that wait for outputs.
    pub(crate) fn take_out_specials(&mut self) {
        for h in self.packets.handles() {
            let p = &self.packets[h];
            if p.kind == PacketType::Barrier && p.is_queued() && (self.lay.is_special(p.queue.into()) || p.src != p.dst)
            {
                self.unlink(h);
                self.free_packet(h);
            }
        }
    }

    /// Is this packet in a router's link queue with a way ahead (or behind) that is blocked?
    fn is_blocked(&self, h: PacketHandle) -> bool {
        let p = &self.packets[h];
        let (node, queue) = (p.node, p.queue as usize);
        let Some(dir) = self.lay.dir(queue) else { return false };
        let sender = self.net.neighbour(node, self.net.opposite(dir));
        if !self.routes.node_up(node) || (self.whole_at(h) > self.now && self.routes.blocked(sender, dir)) {
            return true;
        }
        if p.is(flag::ADAPTIVE) {
            return self.degraded.by_table;
        }
        let (mut way, mut at) = (p.way, node);
        while let Some(dir) = way.next() {
            if self.routes.blocked(at, dir) {
                return true;
            }
            way.taken(dir, self.net.dim(dir));
            at = self.net.neighbour(at, dir);
        }
        false
    }

    fn in_network(&self, h: PacketHandle) -> bool {
        let p = &self.packets[h];
        let queue = p.queue as usize;
        p.is_queued() && p.kind != PacketType::Barrier && self.lay.dir(queue).is_some() && self.lay.vc(queue) < DATA_VCS
    }

    /// Puts blocked packets, and later ones of the same pair and channel, back at their sources.
    /// Returns the pairs concerned.
    fn take_back_blocked(&mut self) -> BTreeSet<(u32, u32)> {
        let mut inside: Vec<PacketHandle> =
            self.packets.handles().into_iter().filter(|h| self.in_network(*h)).collect();
        inside.sort_by_key(|h| self.packets[*h].serial);
        let mut streams = BTreeSet::new();
        let mut pairs = BTreeSet::new();
        for h in inside {
            let p = &self.packets[h];
            let ordered = !p.is(flag::MAY_ADAPT);
            let (pair, stream) = ((p.src, p.dst), (p.src, p.from_channel, p.dst, p.vc));
            let behind = ordered && streams.contains(&stream);
            if behind || self.is_blocked(h) {
                if ordered {
                    streams.insert(stream);
                }
                pairs.insert(pair);
                self.take_back(h);
            }
        }
        pairs
    }

    /// Moves one packet from the network to the injection queue it came from.
    pub(crate) fn take_back(&mut self, h: PacketHandle) {
        if self.packets[h].queue != NO_QUEUE {
            self.unlink(h);
        }
        let p = &self.packets[h];
        if p.is(flag::OLD) {
            let pair = (p.src, p.dst);
            self.old_left(pair.0, pair.1);
        }
        let p = &mut self.packets[h];
        p.flags &= !(flag::OLD | flag::ADAPTIVE);
        (p.ready, p.rate, p.routers) = (self.now + self.params.router_ps, rate::PORT, 0);
        let node = p.src;
        let vc = if p.is(flag::MAY_ADAPT) && !self.degraded.by_table { Vc::Adaptive as usize } else { p.vc as usize };
        let queue = self.lay.injection(p.from_channel as usize, vc);
        self.insert_by_serial(node, queue, h);
    }

    /// Marks what a new packet must not overtake, pair by pair.
    fn hold_changed(&mut self, before: &Routes, taken: &BTreeSet<(u32, u32)>) {
        let draining = std::mem::take(&mut self.degraded.draining);
        let drains = |src: u32| draining.contains(&before.part(src)) || self.routes.must_drain(before, src);
        let nodes = 0..self.net.nodes as u32;
        self.degraded.draining = nodes.filter(|n| drains(*n)).map(|n| self.routes.part(n)).collect();
        for h in self.packets.handles().into_iter().filter(|h| self.in_network(*h)).collect::<Vec<_>>() {
            let (src, dst) = (self.packets[h].src, self.packets[h].dst);
            let changed = before.route(src, dst) != self.routes.route(src, dst);
            let drains = self.degraded.draining.contains(&self.routes.part(src));
            let waited_for = drains || changed || taken.contains(&(src, dst));
            if waited_for && !self.packets[h].is(flag::OLD) {
                self.packets[h].flags |= flag::OLD;
                *self.degraded.held.entry((src, dst)).or_default() += 1;
            }
        }
        self.end_drains();
    }

    /// Parts that wait for no packet any more are drained. Returns them.
    fn end_drains(&mut self) -> BTreeSet<PartId> {
        if self.degraded.draining.is_empty() {
            return BTreeSet::new();
        }
        let waiting: BTreeSet<PartId> = self.degraded.held.keys().map(|(src, _)| self.routes.part(*src)).collect();
        let drained = self.degraded.draining.difference(&waiting).copied().collect();
        self.degraded.draining.retain(|part| waiting.contains(part));
        drained
    }

    /// Must a packet of this pair wait at the injector?
    #[inline]
    pub(crate) fn is_held(&self, src: u32, dst: u32) -> bool {
        !self.degraded.held.is_empty()
            && (self.degraded.held.contains_key(&(src, dst)) || self.degraded.draining.contains(&self.routes.part(src)))
    }

    /// A packet that new ones wait for has left the network.
    pub(crate) fn old_left(&mut self, src: u32, dst: u32) {
        let Some(left) = self.degraded.held.get_mut(&(src, dst)) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        self.degraded.held.remove(&(src, dst));
        let drained = self.end_drains();
        let part = self.routes.part(src);
        if !drained.contains(&part) && !self.degraded.draining.contains(&part) {
            return self.wake_injector(src);
        }
        for node in 0..self.net.nodes as u32 {
            if drained.contains(&self.routes.part(node)) {
                self.wake_injector(node);
            }
        }
    }

    fn wake_injector(&mut self, node: u32) {
        if self.owned[node as usize] {
            let queues = (0..self.lay.queues).filter(|q| self.lay.is_injection(*q));
            queues.collect::<Vec<_>>().into_iter().for_each(|queue| self.schedule_head(node, queue));
        }
    }

    /// Takes a packet out of the middle of a queue (faults only). Its requests are withdrawn.
    pub(crate) fn unlink(&mut self, h: PacketHandle) {
        let p = &self.packets[h];
        let (node, queue, next) = (p.node, p.queue as usize, p.next);
        let units = if self.units_are_flits { p.flits as usize } else { 1 };
        if self.front(node, queue) == h {
            self.withdraw(node, queue);
            self.input(node, queue).front = next;
            self.schedule_head(node, queue);
        } else {
            let mut before = self.front(node, queue);
            while self.packets[before].next != h {
                before = self.packets[before].next;
            }
            self.packets[before].next = next;
            if next.is_none() {
                self.input(node, queue).back = before;
            }
        }
        let p = &mut self.packets[h];
        (p.next, p.queue) = (PacketHandle::NONE, NO_QUEUE);
        if let Some(dir) = self.lay.dir(queue).filter(|_| !p.is(flag::MARKER)) {
            self.forget_replay(node, dir, h);
            self.give_back(node, dir, self.lay.vc(queue), units, self.now);
        }
    }

    /// Puts a packet into an injection queue in front of all that were made after it (faults only).
    pub(crate) fn insert_by_serial(&mut self, node: u32, queue: usize, h: PacketHandle) {
        let serial = self.packets[h].serial;
        let (mut before, mut at) = (PacketHandle::NONE, self.front(node, queue));
        while at.is_some() && self.packets[at].serial < serial {
            (before, at) = (at, self.packets[at].next);
        }
        if at.is_none() {
            return self.append(node, queue, h);
        }
        let p = &mut self.packets[h];
        (p.node, p.queue, p.next) = (node, queue as u8, at);
        if before.is_some() {
            self.packets[before].next = h;
            return;
        }
        self.withdraw(node, queue);
        self.input(node, queue).front = h;
        self.schedule_head(node, queue);
    }

    /// Puts a barrier's marker behind the packets of a link queue that arrived before it.
    /// False if there are none and nothing was put.
    pub(crate) fn mark(&mut self, node: u32, queue: usize, mut marker: Packet) -> bool {
        let (mut before, mut at) = (PacketHandle::NONE, self.front(node, queue));
        while at.is_some() && self.packets[at].ready < marker.ready {
            (before, at) = (at, self.packets[at].next);
        }
        if before.is_none() {
            return false;
        }
        (marker.node, marker.queue, marker.next) = (node, queue as u8, at);
        let h = self.packets.alloc(marker);
        self.packets[before].next = h;
        if at.is_none() {
            self.input(node, queue).back = h;
        }
        true
    }

    /// Withdraws the requests of the injection queues at `node`, so that routes are looked up again.
    pub(crate) fn ask_again(&mut self, node: u32) {
        for queue in (0..self.lay.queues).filter(|q| self.lay.is_injection(*q)).collect::<Vec<_>>() {
            self.withdraw(node, queue);
            self.schedule_head(node, queue);
        }
    }

    /// Nothing asks for an output that is blocked; checked by tests after every fault.
    #[cfg(test)]
    pub(crate) fn no_request_on_dead_links(&self) -> bool {
        let requested = |n: u32, d: usize| {
            self.routers.outputs[n as usize * self.lay.outs + d].requests != [0; super::layout::LANES]
        };
        (0..self.net.nodes as u32).all(|n| (0..self.lay.dirs).all(|d| !self.routes.blocked(n, d) || !requested(n, d)))
    }
}
