//! Barriers by messages from node to node, routed like data: all-to-all, tree, master, hypercube
//! and counting.
//!
//! The host's word takes the injection delay to the adapter and the last word the ejection delay
//! back; what happens in between happens among adapters, so a message pays routers and links, its
//! time at the injector and at the ejector, but no host interface. A message to many is written one
//! after the other at the injector's rate.
//!
//! * *Master* and *tree*: a node that has heard from all its children tells its parent; the root
//!   releases its children, and they theirs. A master is a tree of one level.
//! * *Hypercube*: in round r ranks that differ in bit r tell each other. Ranks beyond the largest
//!   power of two report to the rank that much lower first, and are released by it last.
//! * *All-to-all*: a message on each channel that data may be on, so that it is behind all of them.
//! * *Counting*: the message says how many packets its target has been sent; nobody is done before
//!   as many have come. A full barrier then has a second round of messages: "mine have come".

use super::family::BarrierFamily;
use super::state::{Barriers, Bulk, Heard, Stage, Upwards, Word};
use crate::adapter::Adapters;
use crate::chip::At;
use crate::packet::{Packet, PacketHandle, flag};
use crate::routes::NONE;
use crate::routes::Routes;
use crate::types::*;
use angara_abi::capture::Happening;
use angara_abi::packet::{PacketType, Vc};
use angara_net::torus::{NodeId, Shape};

const REQUEST: u8 = 1 << Vc::Request as u8;
const RESPONSE: u8 = 1 << Vc::Response as u8;

/// Which of `nodes` is nearest the middle of the network (of a mesh; on a torus all are alike).
pub(super) fn middle(shape: &Shape, nodes: &[NodeId]) -> usize {
    let mut coords = shape.coords(0);
    for dim in 0..shape.dims().len() {
        coords.0[dim] = (shape.size(dim) / 2) as u8;
    }
    let centre = shape.id(coords).unwrap_or(0);
    (0..nodes.len()).min_by_key(|i| shape.distance(centre, nodes[*i])).unwrap_or(0)
}

/// Parents in a tree that follows links away from the middle in dimension order; who cannot be
/// reached so hangs on the root. `nodes` are sorted.
pub(super) fn tree_parents(routes: &Routes, nodes: &[NodeId], middle: usize) -> Vec<u32> {
    let net = routes.net();
    let ports: Vec<Port> = nodes.iter().map(|n| Port { node: *n, endpoint: 0 }).collect();
    let alone = |i: usize| if i == middle { NONE } else { middle as u32 };
    let Ok(rows) = crate::collective::build(routes, nodes[middle], &ports) else {
        return (0..nodes.len()).map(alone).collect();
    };
    let mut up = vec![NONE; net.nodes];
    for (node, row) in &rows.rows {
        up[*node as usize] = row.to_root.map_or(NONE, |dir| net.neighbour(*node, dir.index()));
    }
    let parent = |i: usize| {
        let mut at = up[nodes[i] as usize];
        while at != NONE {
            if let Ok(member) = nodes.binary_search(&at) {
                return member as u32;
            }
            at = up[at as usize]; // a transit node
        }
        alone(i)
    };
    (0..nodes.len()).map(parent).collect()
}

impl Barriers {
    /// Works out who talks to whom for the present routes.
    pub(super) fn prepare_messages(&mut self, host: &mut Adapters, job: JobSlot) {
        let Some(j) = self.job(job) else { return };
        let nodes = j.nodes.clone();
        let middle = middle(&host.chip.net.shape, &nodes);
        let (mut tree, mut order) = (Upwards::default(), Vec::new());
        match j.group.family {
            BarrierFamily::Master => {
                tree = Upwards::new(
                    nodes.iter().map(|n| if *n == nodes[middle] { NONE } else { middle as u32 }).collect(),
                );
            }
            BarrierFamily::Tree => tree = Upwards::new(tree_parents(&host.chip.routes, &nodes, middle)),
            BarrierFamily::AllToAll | BarrierFamily::Counting => {
                // Offsets as nodes seen from node 0, the nearest first: who is K hops away comes last.
                order = (1..host.chip.net.nodes as u32).collect();
                order.sort_by_key(|n| host.chip.net.shape.distance(0, *n));
            }
            BarrierFamily::Hypercube | BarrierFamily::Multiphase => {}
        }
        if let Some(j) = self.jobs[job.index()].as_mut() {
            (j.group.tree, j.group.order) = (tree, order);
        }
    }

    /// The host's word goes to the adapter, behind what it has posted.
    pub(super) fn barrier_announce(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId) {
        let at = host.chip.now.max(host.chip.injecting_until(node)) + host.chip.params.inject_ps;
        let Some(m) = self.member(job, node) else { return };
        if m.second {
            m.stage = Stage::Talk(0);
            return self.barrier_talk(host, job, node, false);
        }
        m.stage = Stage::Enter;
        // Counts already announced stay valid when a route change starts the barrier again.
        if !m.rerun && !std::mem::replace(&mut m.told, true) {
            let sent = host.take_sent(job, node);
            m.before = (std::mem::replace(&mut m.said, sent), std::mem::take(&mut m.channels));
            for (port, _) in m.waiting.clone() {
                let used = std::mem::take(&mut host.ports[port as usize].channels);
                if let Some(m) = self.member(job, node) {
                    m.channels |= used;
                }
            }
        }
        self.barrier_wake(host, job, node, at);
    }

    /// A node that had left a barrier takes part in it again, after a route change.
    pub(super) fn barrier_rerun(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId) {
        if self.barrier_family(job) == BarrierFamily::Multiphase {
            return; // starts with the first special
        }
        let Some(m) = self.member(job, node).filter(|m| m.rerun) else { return };
        m.full = m.left_full;
        self.barrier_begin(host, job, node);
    }

    /// Goes as far in the exchange as the messages here allow. `packet`: a packet has come, not a message.
    pub(super) fn barrier_talk(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId, packet: bool) {
        loop {
            let Some(group) = self.job(job).map(|j| &j.group) else { return };
            let (family, size) = (group.family, group.members.len() as u32);
            let me = group.index[node as usize];
            let Stage::Talk(step) = group.members[me as usize].stage else { return };
            let next = match family {
                BarrierFamily::Master | BarrierFamily::Tree => self.talk_tree(host, job, me, step),
                BarrierFamily::Hypercube => self.talk_hypercube(host, job, me, step, size),
                _ => self.talk_all(host, job, me, step, size),
            };
            let Some(next) = next else { return };
            let stage = if next == DONE { Stage::Settle } else { Stage::Talk(next) };
            if let Some(m) = self.member(job, node) {
                m.stage = stage;
            }
            if next == DONE {
                // A packet has reached the host already; a message is at the adapter.
                let at = host.chip.now + if packet { 0 } else { host.chip.params.eject_ps };
                return self.barrier_wake(host, job, node, at);
            }
        }
    }

    fn heard(&self, job: JobSlot, me: u32) -> Heard {
        self.job(job).map_or_else(Heard::default, |j| {
            let m = &j.group.members[me as usize];
            m.heard[m.odd() as usize]
        })
    }

    fn talk_tree(&mut self, host: &mut Adapters, job: JobSlot, me: u32, step: u8) -> Option<u8> {
        let heard = self.heard(job, me);
        let tree = &self.job(job)?.group.tree;
        let (up, children) = (tree.up[me as usize], tree.children(me).len() as u32);
        match step {
            0 if heard.arrived[0] < children => None,
            0 if up != NONE => {
                self.say(host, job, (me, up), Word::Arrived, 0, Vc::Request as u8);
                Some(1)
            }
            1 if !heard.released => None,
            0 | 1 => {
                self.begin_bulk(host, job, me, Word::Release, false, REQUEST);
                Some(2)
            }
            _ => self.bulk_done(job, me).then_some(DONE),
        }
    }

    /// Steps: 0 waits for the extra rank, 1 + r has sent round r, [`EXTRA`] waits for its release.
    fn talk_hypercube(&mut self, host: &mut Adapters, job: JobSlot, me: u32, step: u8, size: u32) -> Option<u8> {
        let heard = self.heard(job, me);
        let half = 1 << size.ilog2();
        let extra = me + half < size;
        let round = |this: &mut Barriers, host: &mut Adapters, r: u8| {
            if 1 << r < half {
                this.say(host, job, (me, me ^ 1 << r), Word::Round, r as u64, Vc::Request as u8);
                return Some(1 + r);
            }
            if extra {
                this.say(host, job, (me, me + half), Word::Release, 0, Vc::Request as u8);
            }
            Some(DONE)
        };
        match step {
            0 if me >= half => {
                self.say(host, job, (me, me - half), Word::Arrived, 0, Vc::Request as u8);
                Some(EXTRA)
            }
            EXTRA => heard.released.then_some(DONE),
            0 if extra && heard.arrived[0] == 0 => None,
            0 => round(self, host, 0),
            sent if heard.rounds >> (sent - 1) & 1 == 0 => None,
            sent => round(self, host, sent),
        }
    }

    /// All-to-all and counting.
    fn talk_all(&mut self, host: &mut Adapters, job: JobSlot, me: u32, step: u8, size: u32) -> Option<u8> {
        let heard = self.heard(job, me);
        let j = self.job(job)?;
        let (m, family) = (&j.group.members[me as usize], j.group.family);
        let counting = family == BarrierFamily::Counting;
        let half = usize::from(m.second || step >= 2);
        match step {
            0 | 2 => {
                let channels = match (counting, m.second) {
                    (true, _) => REQUEST,
                    // Between the halves only answers have gone out.
                    (false, true) => RESPONSE,
                    // A node without data says so on one channel.
                    (false, false) if m.announced().1 == 0 => REQUEST,
                    (false, false) => m.announced().1,
                };
                self.begin_bulk(host, job, me, Word::Arrived, true, channels);
                Some(step + 1)
            }
            _ => {
                let here = m.delivered[(m.left % 2) as usize];
                let own = m.said.get(&j.group.nodes[me as usize]).copied().unwrap_or(0) as u64;
                let all_here = !counting || m.rerun || here == heard.announced + own;
                if heard.arrived[half] < 2 * (size - 1) || !all_here || !self.bulk_done(job, me) {
                    return None;
                }
                Some(if counting && m.full && half == 0 { 2 } else { DONE })
            }
        }
    }

    fn begin_bulk(&mut self, host: &mut Adapters, job: JobSlot, me: u32, word: Word, all: bool, channels: u8) {
        if let Some(j) = self.jobs[job.index()].as_mut() {
            j.group.members[me as usize].bulk = Some(Bulk { word, all, next: 0, channels, sent: 0 });
        }
        self.bulk_next(host, job, me);
    }

    fn bulk_done(&self, job: JobSlot, me: u32) -> bool {
        self.job(job).is_none_or(|j| j.group.members[me as usize].bulk.is_none())
    }

    /// Writes the next message of a bulk; the one after it follows when this one is at the front of
    /// its injection queue, so that a node holds few of them.
    fn bulk_next(&mut self, host: &mut Adapters, job: JobSlot, me: u32) {
        let shape = host.chip.net.shape;
        let Some(j) = self.jobs[job.index()].as_mut() else { return };
        let group = &mut j.group;
        let node = group.nodes[me as usize];
        let Some(bulk) = group.members[me as usize].bulk.as_mut() else { return };
        let (all, word) = (bulk.all, bulk.word);
        let to = loop {
            let next = bulk.next as usize;
            let target = match all {
                true => group.order.get(next).map(|offset| group.index[offset_from(&shape, node, *offset) as usize]),
                false => group.tree.children(me).get(next).copied(),
            };
            match target {
                Some(NONE) => bulk.next += 1,
                other => break other,
            }
        };
        let Some(to) = to else {
            group.members[me as usize].bulk = None;
            return;
        };
        let left = bulk.channels & !bulk.sent;
        let vc = left.trailing_zeros() as u8;
        bulk.sent |= 1 << vc;
        let share = 2 / bulk.channels.count_ones() as u64;
        if bulk.sent == bulk.channels {
            (bulk.sent, bulk.next) = (0, bulk.next + 1);
        }
        let count = match group.family {
            BarrierFamily::Counting => {
                let target = group.nodes[to as usize];
                group.members[me as usize].announced().0.get(&target).copied().unwrap_or(0) as u64
            }
            _ => 0,
        };
        self.say(host, job, (me, to), word, share | count << 2, vc);
    }

    /// Sends one message from member to member.
    fn say(&mut self, host: &mut Adapters, job: JobSlot, (me, to): (u32, u32), word: Word, number: u64, vc: u8) {
        let Some(j) = self.jobs[job.index()].as_mut() else { return };
        let (node, target) = (j.group.nodes[me as usize], j.group.nodes[to as usize]);
        let counting = j.group.family == BarrierFamily::Counting;
        let m = &mut j.group.members[me as usize];
        let mut p = Packet::new(PacketType::Barrier);
        (p.src, p.dst, p.job, p.vc, p.op) = (node, target, job, vc, host.chip.route_change);
        p.flags = if m.full { flag::FULL } else { 0 } | if m.odd() { flag::ODD } else { 0 };
        p.flits = if counting { 3 } else { 2 };
        let second = m.second || matches!(m.stage, Stage::Talk(2..)) && counting;
        p.offset = word as u64 | u64::from(second) << 4 | number << 8;
        p.ready = host.chip.now.max(m.unit_busy);
        m.unit_busy = p.ready + host.chip.timing.inside(p.flits);
        // Behind the data of its pair, and no sooner out of the network.
        host.chip.use_ports(&mut p);
        let queue = host.chip.lay.injection(p.from_channel.into(), vc.into());
        let h = host.chip.packets.alloc(p);
        if host.chip.observers.tracer.on() {
            host.chip.tell(h, At::Host(node), host.chip.now, Happening::Injected);
        }
        host.chip.append(node, queue, h);
    }

    /// A message is at the front of a queue and asks for the output it wants.
    pub(super) fn message_head(&mut self, host: &mut Adapters, node: NodeId, queue: usize, h: PacketHandle) {
        let (job, dst) = (host.chip.packets[h].job, host.chip.packets[h].dst);
        if !host.chip.routes.whole() && host.chip.routes.route(node, dst).is_none() {
            host.chip.discard_front(node, queue);
            return; // the barrier fails by name
        }
        host.chip.data_head(node, queue, h);
        let me = self.job(job).map(|j| j.group.index[node as usize]).filter(|_| host.chip.lay.dir(queue).is_none());
        if let Some(me) = me.filter(|me| !self.bulk_done(job, *me)) {
            self.bulk_next(host, job, me);
            if self.bulk_done(job, me) {
                self.barrier_talk(host, job, node, false);
            }
        }
    }

    /// A message has come to the adapter it is for.
    pub(crate) fn message_here(&mut self, host: &mut Adapters, node: NodeId, h: PacketHandle) {
        let p = host.chip.packets[h];
        host.chip.free_packet(h);
        if p.op != host.chip.route_change || p.is(flag::DEAD) {
            return;
        }
        self.prepare_group(host, p.job);
        let Some(m) = self.member(p.job, node) else { return };
        let heard = &mut m.heard[usize::from(p.is(flag::ODD))];
        let (number, second) = (p.offset >> 8, (p.offset >> 4 & 1) as usize);
        match p.offset & 15 {
            w if w == Word::Release as u64 => heard.released = true,
            w if w == Word::Round as u64 => heard.rounds |= 1 << number,
            _ => {
                heard.arrived[second] += if number == 0 { 1 } else { number as u32 & 3 };
                heard.announced += if second == 0 { number >> 2 } else { 0 };
            }
        }
        let now = matches!(m.stage, Stage::Talk(_)) && m.odd() == p.is(flag::ODD) && m.full != p.is(flag::FULL);
        if now {
            let at = Port { node, endpoint: self.first_endpoint(p.job, node) };
            host.effect(Effect::Error {
                at,
                job: p.job,
                what: NetError::BarrierMismatch { node },
                time: host.chip.now,
            });
        }
        self.barrier_talk(host, p.job, node, false);
    }

    /// A packet for another part of the network has been given up here: its target is not to wait for it.
    fn count_unsent(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId, to: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        let count = if m.told { m.said.get_mut(&to) } else { Some(host.sent_to(job, node, to)) };
        if let Some(count) = count {
            *count = count.saturating_sub(1);
        }
    }

    /// A packet has been delivered, or given up, that its target's barrier counts.
    pub(crate) fn count_delivered(&mut self, host: &mut Adapters, h: PacketHandle) {
        let p = &host.chip.packets[h];
        let (job, node, odd) = (p.job, p.dst, super::check::stamp_of(p) & 1);
        if self.barrier_family(job) != BarrierFamily::Counting {
            return;
        }
        if !host.chip.owned[node as usize] {
            return self.count_unsent(host, job, host.chip.packets[h].src, node);
        }
        if let Some(m) = self.member(job, node) {
            m.delivered[odd as usize] += 1;
            self.barrier_talk(host, job, node, true);
        }
    }
}

/// The node as far from `node` as `offset` is from node 0, with wrap-around (X is numbered fastest).
fn offset_from(shape: &Shape, node: NodeId, offset: NodeId) -> NodeId {
    let (mut n, mut o, mut stride, mut to) = (node, offset, 1, 0);
    for &size in shape.dims() {
        let size = size as u32;
        to += (n % size + o % size) % size * stride;
        (n, o, stride) = (n / size, o / size, stride * size);
    }
    to
}

/// The exchange is over.
const DONE: u8 = u8::MAX;
/// See [`Barriers::talk_hypercube`].
const EXTRA: u8 = u8::MAX - 1;
