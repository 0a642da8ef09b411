//! Faults and what follows from them: dead links and nodes, links that corrupt packets.
//!
//! **Route changes lose and reorder nothing.** When routes change, every packet whose way is now
//! blocked is taken out of the network and put back into its source's injection queue (the source
//! still has its copy, as a sender that retransmits would), together with all later packets of the
//! same source, target and channel, in their old order. New packets of a pair whose route changed,
//! or that had packets taken back, are held at the injector until its older packets have left the
//! network. If the old or the new table has a route that breaks direction order, every injector
//! waits until the whole network has drained, because the two tables together might deadlock.
//! Packets of pairs that are no longer reachable are dropped and their injector is told.
//!
//! Where the source is modelled by another fabric (a boundary link away), a packet is put back at
//! the node where it was met; such pairs may then be reordered by a second fault.

use crate::Fabric;
use crate::event::Kind;
use crate::router::{Q_CREDIT, Q_INJECT, Q_SPECIAL, VCS};
use crate::routes::Routes;
use crate::slab::{NO_QUEUE, flag};
use crate::topology::{DIRS, NONE, link_index};
use crate::types::{Blame, Link, Tick};
use abi::packet::{PacketType, Vc};
use abi::torus::{Direction, NodeId, Shape};
use std::collections::BTreeSet;
use std::fmt;

/// Something that is wrong with the network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultKind {
    /// A cable is cut: both directions.
    LinkDown(Link),
    /// A node neither forwards nor injects nor ejects.
    NodeDown(NodeId),
    /// Packets are corrupted.
    Corrupt {
        /// On this link only (one direction), or on all.
        link: Option<Link>,
        /// Corrupted packets per million.
        per_million: u32,
    },
}

/// A fault and when it begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// When; `None` is at once.
    pub at: Option<Tick>,
}

/// Why a fault was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FaultError {
    /// No such link.
    #[error("there is no link {0} in {1}")]
    NoLink(String, Shape),
    /// No such node.
    #[error("there is no node {0} in {1}")]
    NoNode(NodeId, Shape),
    /// A rate above 1.
    #[error("{0} corrupted packets per million: give at most 1000000")]
    Rate(u32),
    /// Text that is not a fault.
    #[error(
        "fault `{0}`: write `link 0,0,0 +X down`, `link 0,0,0 +X corrupt=1%`, `node 1,0,0 down` or `corrupt=0.1%`, each optionally followed by `@2ms`"
    )]
    Form(String),
}

impl Fault {
    /// Reads a fault as users write it: `link 0,0,0 +X down`, `link 1,0 -Y corrupt=1%`,
    /// `node 1,0,0 down` or `corrupt=0.1%`, optionally followed by a time such as `@2ms`.
    pub fn parse(text: &str, shape: &Shape) -> Result<Fault, FaultError> {
        let form = || FaultError::Form(text.to_string());
        let (body, at) = match text.split_once('@') {
            Some((body, time)) => (body, Some(parse_time(time.trim()).ok_or_else(form)?)),
            None => (text, None),
        };
        let words: Vec<&str> = body.split_whitespace().collect();
        let node = |w: &str| shape.parse_coords(w).ok().and_then(|c| shape.id(c)).ok_or_else(form);
        let link = |n: &str, d: &str| Ok(Link { node: node(n)?, dir: d.parse().map_err(|_| form())? });
        let rate = |w: &str| w.strip_prefix("corrupt=").and_then(parse_rate).ok_or_else(form);
        let kind = match words[..] {
            ["link", n, d, "down"] => FaultKind::LinkDown(link(n, d)?),
            ["link", n, d, r] => FaultKind::Corrupt { link: Some(link(n, d)?), per_million: rate(r)? },
            ["node", n, "down"] => FaultKind::NodeDown(node(n)?),
            [r] => FaultKind::Corrupt { link: None, per_million: rate(r)? },
            _ => return Err(form()),
        };
        Ok(Fault { kind, at })
    }

    /// The fault as [`Fault::parse`] reads it.
    pub fn show(&self, shape: &Shape) -> String {
        let rate = |m: u32| format!("corrupt={}%", m as f64 / 10_000.0);
        let mut text = match self.kind {
            FaultKind::LinkDown(link) => format!("link {} down", link.show(shape)),
            FaultKind::NodeDown(node) => format!("node {} down", shape.show(shape.coords(node))),
            FaultKind::Corrupt { link: Some(link), per_million } => {
                format!("link {} {}", link.show(shape), rate(per_million))
            }
            FaultKind::Corrupt { link: None, per_million } => rate(per_million),
        };
        if let Some(at) = self.at {
            text += &format!(" @{at}ps");
        }
        text
    }
}

/// `1%`, `0.5%`, `0.01` or `200ppm` as parts per million.
fn parse_rate(text: &str) -> Option<u32> {
    let (number, scale) = match (text.strip_suffix('%'), text.strip_suffix("ppm")) {
        (Some(n), _) => (n, 10_000.0),
        (_, Some(n)) => (n, 1.0),
        _ => (text, 1_000_000.0),
    };
    let value = number.parse::<f64>().ok()? * scale;
    (0.0..=1_000_000.0).contains(&value).then_some(value.round() as u32)
}

/// `2ms`, `1.5us`, `300ns`, `1s` or `5ps` as picoseconds.
fn parse_time(text: &str) -> Option<Tick> {
    let units = [("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("µs", 1e6), ("ms", 1e9), ("s", 1e12)];
    let (number, scale) = units.iter().find_map(|(u, s)| text.strip_suffix(u).map(|n| (n, s)))?;
    let value = number.trim().parse::<f64>().ok()? * scale;
    (0.0..1e18).contains(&value).then_some(value.round() as Tick)
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::LinkDown(l) => write!(f, "link {} of node {} down", l.dir, l.node),
            FaultKind::NodeDown(n) => write!(f, "node {n} down"),
            FaultKind::Corrupt { link: Some(l), per_million } => {
                write!(f, "link {} of node {} corrupts {per_million} packets per million", l.dir, l.node)
            }
            FaultKind::Corrupt { link: None, per_million } => {
                write!(f, "every link corrupts {per_million} packets per million")
            }
        }
    }
}

impl Fabric {
    /// Sets a fault now, or plans it for its time. Setting one twice changes nothing.
    pub fn set_fault(&mut self, fault: Fault) -> Result<(), FaultError> {
        self.check_fault(&fault.kind)?;
        match fault.at {
            Some(at) if at > self.now => {
                self.planned.push(Some(fault));
                self.events.push(at, Kind::Fault, 0, self.planned.len() as u32 - 1);
            }
            _ => self.begin_fault(fault),
        }
        Ok(())
    }

    fn check_fault(&self, kind: &FaultKind) -> Result<(), FaultError> {
        let (nodes, shape) = (self.net.nodes, self.net.shape);
        let link_ok = |l: &Link| {
            if (l.node as usize) < nodes && self.net.neighbour(l.node, l.dir.index()) != NONE {
                return Ok(());
            }
            Err(FaultError::NoLink(format!("{} of node {}", l.dir, l.node), shape))
        };
        match kind {
            FaultKind::LinkDown(link) => link_ok(link),
            FaultKind::NodeDown(node) if *node as usize >= nodes => Err(FaultError::NoNode(*node, shape)),
            FaultKind::NodeDown(_) => Ok(()),
            FaultKind::Corrupt { per_million, .. } if *per_million > 1_000_000 => Err(FaultError::Rate(*per_million)),
            FaultKind::Corrupt { link, .. } => link.as_ref().map_or(Ok(()), link_ok),
        }
    }

    /// Faults in force and planned.
    pub fn faults(&self) -> Vec<Fault> {
        self.faults.iter().copied().chain(self.planned.iter().flatten().copied()).collect()
    }

    /// [`Kind::Fault`]: a planned fault begins.
    pub(crate) fn on_fault(&mut self, index: u32) {
        if let Some(fault) = self.planned[index as usize].take() {
            self.begin_fault(fault);
        }
    }

    fn begin_fault(&mut self, fault: Fault) {
        match fault.kind {
            FaultKind::LinkDown(link) => self.fail(Blame::Link(link)),
            FaultKind::NodeDown(node) => self.fail(Blame::Node(node)),
            FaultKind::Corrupt { link, per_million } => {
                self.corrupt(link, per_million);
                self.remember(fault.kind);
            }
        }
    }

    fn remember(&mut self, kind: FaultKind) {
        let same = |f: &Fault| match (f.kind, kind) {
            (FaultKind::Corrupt { link: a, .. }, FaultKind::Corrupt { link: b, .. }) => a == b,
            (a, b) => a == b,
        };
        self.faults.retain(|f| !same(f));
        self.faults.push(Fault { kind, at: Some(self.now) });
    }

    fn corrupt(&mut self, link: Option<Link>, per_million: u32) {
        for node in 0..self.net.nodes as u32 {
            for dir in 0..DIRS {
                let this = Link { node, dir: Direction::ALL[dir] };
                if self.net.neighbour(node, dir) != NONE && link.is_none_or(|l| l == this) {
                    self.links.set_error_rate(link_index(node, dir), per_million);
                }
            }
        }
    }

    /// Takes back a fault in force or planned. A link that failed by itself is cleared like one set.
    pub fn clear_fault(&mut self, kind: FaultKind) {
        for planned in &mut self.planned {
            if planned.is_some_and(|f| f.kind == kind) {
                *planned = None;
            }
        }
        match kind {
            FaultKind::Corrupt { link, .. } => {
                self.faults.retain(|f| !matches!(f.kind, FaultKind::Corrupt { link: l, .. } if l == link));
                self.corrupt(link, 0);
            }
            FaultKind::LinkDown(link) => {
                let back = self.net.reverse(link);
                self.faults.retain(|f| !matches!(f.kind, FaultKind::LinkDown(l) if l == link || Some(l) == back));
                self.change_routes(Blame::Link(link), false);
            }
            FaultKind::NodeDown(node) => {
                self.faults.retain(|f| f.kind != kind);
                self.change_routes(Blame::Node(node), false);
            }
        }
    }

    /// Takes a link or node out of service.
    pub(crate) fn fail(&mut self, what: Blame) {
        let kind = match what {
            Blame::Link(link) => FaultKind::LinkDown(link),
            Blame::Node(node) => FaultKind::NodeDown(node),
        };
        self.remember(kind);
        self.change_routes(what, true);
    }

    fn change_routes(&mut self, what: Blame, dead: bool) {
        let before = self.routes.clone();
        self.routes.set(what, dead);
        self.epoch += 1;
        self.settle_lossy_links();
        self.take_out_specials();
        if dead {
            self.break_trees(what);
        }
        let taken = self.take_back_blocked();
        self.hold_changed(&before, &taken);
        for node in 0..self.net.nodes as u32 {
            if self.owned[node as usize] {
                self.ask_again(node);
            }
        }
        self.barriers_restart();
    }

    /// Ends the crossing of packets on lossy links: on a working link they are accepted as they
    /// are, on a dead one they go back to their source.
    fn settle_lossy_links(&mut self) {
        for node in 0..self.net.nodes as u32 {
            for dir in 0..DIRS {
                let link = link_index(node, dir);
                if !self.links.is_lossy(link) {
                    continue;
                }
                let l = self.links.lossy(link);
                let crossing: Vec<(u32, u8)> = l.unacked.drain(..).collect();
                l.wire.clear();
                l.rx_epoch += 1;
                l.tx_epoch = l.rx_epoch;
                l.failures = 0;
                l.sequence = l.sequence.wrapping_add(crossing.len() as u16);
                let far = self.net.neighbour(node, dir);
                for (h, vc) in crossing {
                    if !self.owned[far as usize] {
                        self.send_boundary(node, dir, vc as usize, h);
                        continue;
                    }
                    // On a dead link this only gives the packet a place to be taken back from.
                    self.append(far, dir * VCS + vc as usize, h);
                }
            }
        }
    }

    /// Removes barrier specials and messages that wait for outputs.
    fn take_out_specials(&mut self) {
        for h in self.packets.handles() {
            let p = &self.packets[h];
            if p.kind == PacketType::Barrier && p.queue != NO_QUEUE && (p.queue as usize >= Q_SPECIAL || p.src != p.dst)
            {
                self.unlink(h);
                self.free_packet(h);
            }
        }
    }

    /// Is this packet in a router's link queue with a way ahead (or behind) that is blocked?
    fn is_blocked(&self, h: u32) -> bool {
        let p = &self.packets[h];
        let (node, dir) = (p.node, p.queue as usize / VCS);
        let sender = self.net.neighbour(node, dir ^ 4);
        if !self.routes.node_up(node) || (p.tail > self.now && self.routes.blocked(sender, dir)) {
            return true;
        }
        if p.is(flag::ADAPTIVE) {
            return self.routes.any_dead();
        }
        let (mut cursor, mut at) = (p.cursor, node);
        while let Some(dir) = cursor.peek(&self.net, at) {
            if self.routes.blocked(at, dir) {
                return true;
            }
            cursor.taken();
            at = self.net.neighbour(at, dir);
        }
        false
    }

    fn in_network(&self, h: u32) -> bool {
        let p = &self.packets[h];
        (p.queue as usize) < Q_INJECT && p.kind != PacketType::Barrier && p.queue as usize % VCS < Vc::Up as usize
    }

    /// Puts blocked packets, and later ones of the same pair and channel, back at their sources.
    /// Returns the pairs concerned.
    fn take_back_blocked(&mut self) -> BTreeSet<(u32, u32)> {
        let mut inside: Vec<u32> = self.packets.handles().into_iter().filter(|h| self.in_network(*h)).collect();
        inside.sort_by_key(|h| self.packets[*h].serial);
        let mut streams = BTreeSet::new();
        let mut pairs = BTreeSet::new();
        for h in inside {
            let p = &self.packets[h];
            let ordered = !p.is(flag::MAY_ADAPT);
            let stream = (p.src, p.dst, p.vc);
            let behind = ordered && streams.contains(&stream);
            if behind || self.is_blocked(h) {
                if ordered {
                    streams.insert(stream);
                }
                pairs.insert((stream.0, stream.1));
                self.take_back(h);
            }
        }
        pairs
    }

    /// Moves one packet from the network to the injection queue it came from.
    pub(crate) fn take_back(&mut self, h: u32) {
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
        let node = if self.owned[p.src as usize] { p.src } else { p.node };
        let vc = if p.is(flag::MAY_ADAPT) && !self.routes.any_dead() { Vc::Adaptive as usize } else { p.vc as usize };
        (p.head, p.tail) = (self.now, self.now + self.core_time[p.flits as usize]);
        self.insert_by_serial(node, Q_INJECT + vc, h);
    }

    /// Marks what a new packet must not overtake, pair by pair.
    fn hold_changed(&mut self, before: &Routes, taken: &BTreeSet<(u32, u32)>) {
        self.drain_all |= before.out_of_order() || self.routes.out_of_order();
        for h in self.packets.handles() {
            if !self.in_network(h) || self.packets[h].is(flag::OLD) {
                continue;
            }
            let (src, dst) = (self.packets[h].src, self.packets[h].dst);
            let changed = before.route(src, dst) != self.routes.route(src, dst);
            if self.drain_all || changed || taken.contains(&(src, dst)) {
                self.packets[h].flags |= flag::OLD;
                *self.held.entry((src, dst)).or_default() += 1;
            }
        }
        self.drain_all &= !self.held.is_empty();
    }

    /// Must a packet of this pair wait at the injector?
    #[inline]
    pub(crate) fn is_held(&self, src: u32, dst: u32) -> bool {
        !self.held.is_empty() && (self.drain_all || self.held.contains_key(&(src, dst)))
    }

    /// A packet that new ones wait for has left the network.
    pub(crate) fn old_left(&mut self, src: u32, dst: u32) {
        let Some(left) = self.held.get_mut(&(src, dst)) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        self.held.remove(&(src, dst));
        if !self.drain_all {
            return self.wake_injector(src);
        }
        if self.held.is_empty() {
            self.drain_all = false;
            (0..self.net.nodes as u32).for_each(|n| self.wake_injector(n));
        }
    }

    fn wake_injector(&mut self, node: u32) {
        if self.owned[node as usize] {
            (Q_INJECT..Q_CREDIT).for_each(|queue| self.schedule_head(node, queue));
        }
    }

    /// Nothing asks for an output that is blocked; checked by tests after every fault.
    #[cfg(test)]
    pub(crate) fn no_request_on_dead_links(&self) -> bool {
        (0..self.net.nodes as u32)
            .all(|n| (0..DIRS).all(|d| !self.routes.blocked(n, d) || !self.routers.requested(n, d)))
    }
}
