//! Routers: queues in, outputs out, and who may go.
//!
//! Every node has input queues (one per travel direction and virtual channel, one per channel for
//! the injector, and a few for the node's own credit and barrier units) and nine outputs (eight
//! links and the ejector). Packets are the unit: a packet that wins an output streams its flits
//! without a gap, so the times of its header and its last flit say everything.
//!
//! * A queue's front packet asks for outputs once its header has arrived (collective channels:
//!   once all of it has, paper 000 section 2.1).
//! * An output that is idle picks among the askers that have credit: collective before vc0 before
//!   vc1 before adaptive, round robin inside a class, and a class passed over 64 times goes first.
//! * Bubble rule: going on in the same ring needs one free slot at the far end, entering a ring
//!   (injection, turn, escape, first and last step) needs two. The adaptive channel needs one; its
//!   packets can always leave it for their class channel.

use crate::Fabric;
use crate::event::Kind;
use crate::slab::{NO_QUEUE, Packet, flag};
use crate::topology::{DIRS, NONE, link_index};
use crate::types::Tick;
use abi::packet::{PacketType, Vc};

/// Virtual channels of a link.
pub(crate) const VCS: usize = 5;
/// First of the injector's queues, one per channel.
pub(crate) const Q_INJECT: usize = DIRS * VCS;
/// Credit packets of the node's collective unit, on the Down channel.
pub(crate) const Q_CREDIT: usize = Q_INJECT + VCS;
/// First of the barrier unit's queues, one per data channel.
pub(crate) const Q_SPECIAL: usize = Q_CREDIT + 1;
/// Queues of a node.
pub(crate) const QUEUES: usize = Q_SPECIAL + 3;
/// Outputs of a node.
pub(crate) const OUTS: usize = DIRS + 1;
/// The ejector.
pub(crate) const OUT_EJECT: usize = DIRS;

const ADAPTIVE: usize = Vc::Adaptive as usize;
const UP: usize = Vc::Up as usize;
const AGE_MAX: u8 = 64;
const NEVER: Tick = Tick::MAX;

/// Channel of a queue.
#[inline]
pub(crate) fn vc_of(queue: usize) -> usize {
    if queue < Q_CREDIT {
        queue % VCS
    } else if queue == Q_CREDIT {
        Vc::Down as usize
    } else {
        queue - Q_SPECIAL
    }
}

/// Queues of each priority class, as bits.
const CLASS_QUEUES: [u64; 4] = {
    let mut masks = [0; 4];
    let mut q = 0;
    while q < QUEUES {
        let class = if q >= Q_CREDIT {
            0
        } else {
            match q % VCS {
                0 => 1,
                1 => 2,
                2 => 3,
                _ => 0,
            }
        };
        masks[class] |= 1 << q;
        q += 1;
    }
    masks
};

/// One input queue: packets linked through [`crate::slab::Packet::next`].
#[derive(Clone, Copy, Debug)]
struct Queue {
    front: u32,
    back: u32,
    /// The last flit of the packet before has left.
    busy: Tick,
}

/// One output; what an arbitration looks at lies in one cache line.
#[derive(Clone, Copy, Debug)]
struct Output {
    /// Queues whose front packet asks for it.
    requests: u64,
    busy: Tick,
    /// Earliest planned arbitration.
    arbitrate_at: Tick,
    /// Per class: the queue served last, and how often the class has been passed over since.
    last_granted: [u8; 4],
    age: [u8; 4],
}

/// State of all routers.
#[derive(Debug)]
pub(crate) struct Routers {
    queues: Vec<Queue>,
    outputs: Vec<Output>,
}

impl Routers {
    pub(crate) fn new(nodes: usize) -> Routers {
        let queue = Queue { front: NONE, back: NONE, busy: 0 };
        let output = Output { requests: 0, busy: 0, arbitrate_at: NEVER, last_granted: [0; 4], age: [0; 4] };
        Routers { queues: vec![queue; nodes * QUEUES], outputs: vec![output; nodes * OUTS] }
    }
    #[inline]
    pub(crate) fn front(&self, node: u32, queue: usize) -> u32 {
        self.queues[node as usize * QUEUES + queue].front
    }
    #[cfg(test)]
    pub(crate) fn requested(&self, node: u32, out: usize) -> bool {
        self.outputs[node as usize * OUTS + out].requests != 0
    }
    pub(crate) fn set_out_busy(&mut self, node: u32, out: usize, until: Tick) {
        self.outputs[node as usize * OUTS + out].busy = until;
    }
    pub(crate) fn out_busy(&self, node: u32, out: usize) -> Tick {
        self.outputs[node as usize * OUTS + out].busy
    }
}

impl Fabric {
    /// Puts a packet whose `head` and `tail` are set at the back of a queue.
    #[inline]
    pub(crate) fn append(&mut self, node: u32, queue: usize, h: u32) {
        let i = node as usize * QUEUES + queue;
        let p = &mut self.packets[h];
        p.next = NONE;
        p.node = node;
        p.queue = queue as u8;
        p.want = 0;
        if self.routers.queues[i].front == NONE {
            self.routers.queues[i].front = h;
            self.routers.queues[i].back = h;
            self.schedule_head(node, queue);
        } else {
            let back = self.routers.queues[i].back;
            self.packets[back].next = h;
            self.routers.queues[i].back = h;
        }
    }

    /// When the front packet of a queue may ask for outputs.
    #[inline]
    fn head_time(&self, node: u32, queue: usize) -> Option<Tick> {
        let h = self.routers.front(node, queue);
        if h == NONE {
            return None;
        }
        let p = &self.packets[h];
        let arrived = if vc_of(queue) >= UP { p.tail } else { p.head };
        Some(arrived.max(self.routers.queues[node as usize * QUEUES + queue].busy))
    }
    #[inline]
    pub(crate) fn schedule_head(&mut self, node: u32, queue: usize) {
        if let Some(at) = self.head_time(node, queue) {
            self.events.push(at.max(self.now), Kind::Head, node, queue as u32);
        }
    }

    /// [`Kind::Head`]: the front packet asks for its outputs.
    pub(crate) fn on_head(&mut self, node: u32, queue: usize) {
        let Some(at) = self.head_time(node, queue) else { return };
        let h = self.routers.front(node, queue);
        if self.packets[h].want != 0 {
            return;
        }
        if at > self.now {
            self.events.push(at, Kind::Head, node, queue as u32);
            return;
        }
        let p = &self.packets[h];
        if p.is(flag::DEAD) {
            return self.discard_front(node, queue);
        }
        let want = match p.kind {
            PacketType::Barrier => self.barrier_head(node, queue, h),
            _ if vc_of(queue) >= UP => self.tree_head(node, queue, h),
            _ => self.data_head(node, queue, h),
        };
        if let Some(want) = want {
            self.packets[h].want = want;
            let mut bits = want;
            while bits != 0 {
                let out = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.routers.outputs[node as usize * OUTS + out].requests |= 1 << queue;
                self.dirty.push(node * 16 + out as u32);
            }
        }
    }

    /// Outputs of a data packet; `None` if it stays put or has been consumed.
    #[inline]
    pub(crate) fn data_head(&mut self, node: u32, queue: usize, h: u32) -> Option<u16> {
        if queue >= Q_INJECT && !self.leave_adapter(node, h) {
            return None;
        }
        let p = &mut self.packets[h];
        if p.is(flag::ADAPTIVE) {
            if p.dst == node {
                return Some(1 << OUT_EJECT);
            }
            let dst = p.dst;
            let profit = self.profitable(node, dst);
            let Some(route) = self.routes.route(node, dst) else {
                self.drop_front(node, queue);
                return None;
            };
            let p = &mut self.packets[h];
            p.cursor = crate::routes::Cursor::new(&self.net, &route, dst);
            let escape = p.cursor.peek(&self.net, node).expect("the target is another node");
            p.profit = profit;
            p.escape = escape as u8;
            return Some(profit as u16 | 1 << escape);
        }
        let out = p.cursor.peek(&self.net, node).unwrap_or(OUT_EJECT);
        if out != OUT_EJECT && self.routes.blocked(node, out) {
            // Only from another fabric that does not know of the fault yet.
            self.take_back(h);
            return None;
        }
        Some(1 << out)
    }

    /// Outputs on some minimal route, as bits.
    fn profitable(&self, node: u32, dst: u32) -> u8 {
        let (a, b) = (self.net.coords(node), self.net.coords(dst));
        let mut bits = 0;
        for dim in 0..4 {
            if a[dim] == b[dim] {
                continue;
            }
            let size = self.net.shape.size(dim);
            let plus = if b[dim] >= a[dim] { (b[dim] - a[dim]) as usize } else { size - (a[dim] - b[dim]) as usize };
            let up = b[dim] > a[dim];
            let (take_plus, take_minus) = match self.net.shape.is_torus() {
                true => (plus * 2 <= size, plus * 2 >= size),
                false => (up, !up),
            };
            for (take, dir) in [(take_plus, dim), (take_minus, dim + 4)] {
                if take && !self.routes.blocked(node, dir) {
                    bits |= 1 << dir;
                }
            }
        }
        bits
    }

    /// Asks for an arbitration of `out` at `at`.
    pub(crate) fn schedule_arbitration(&mut self, node: u32, out: usize, at: Tick) {
        if at <= self.now {
            self.dirty.push(node * 16 + out as u32);
            return;
        }
        let planned = &mut self.routers.outputs[node as usize * OUTS + out].arbitrate_at;
        if *planned > at || *planned <= self.now {
            *planned = at;
            self.events.push(at, Kind::Arbitrate, node, out as u32);
        }
    }

    /// Gives an idle output to one of its askers.
    pub(crate) fn arbitrate(&mut self, node: u32, out: usize) {
        let i = node as usize * OUTS + out;
        let requests = self.routers.outputs[i].requests;
        if requests == 0 {
            return;
        }
        if self.routers.outputs[i].busy > self.now {
            let at = self.routers.outputs[i].busy;
            return self.schedule_arbitration(node, out, at);
        }
        let mut order = [0usize, 1, 2, 3];
        if let Some(old) = (0..4).find(|c| self.routers.outputs[i].age[*c] >= AGE_MAX) {
            order[..=old].rotate_right(1);
        }
        let mut winner = None;
        for class in order {
            let asking = requests & CLASS_QUEUES[class];
            if asking != 0 && winner.is_none() {
                winner = self
                    .pick(node, out, asking, self.routers.outputs[i].last_granted[class])
                    .map(|(q, vc)| (q, vc, class));
            }
        }
        match winner {
            Some((queue, vc, class)) => {
                for (c, age) in self.routers.outputs[i].age.iter_mut().enumerate() {
                    let passed_over = c != class && requests & CLASS_QUEUES[c] != 0;
                    *age = if passed_over { age.saturating_add(1) } else { 0 };
                }
                self.routers.outputs[i].last_granted[class] = queue as u8;
                self.grant(node, queue, out, vc);
                if self.routers.outputs[i].requests != 0 {
                    let at = self.routers.outputs[i].busy;
                    self.schedule_arbitration(node, out, at);
                }
            }
            None => {
                if let Some(at) = self.links.next_return(link_index(node, out), self.now) {
                    self.schedule_arbitration(node, out, at);
                }
            }
        }
    }

    /// The next asker after `last` that has credit, and the channel it gets.
    #[inline]
    fn pick(&mut self, node: u32, out: usize, asking: u64, last: u8) -> Option<(usize, usize)> {
        let after = asking & !(u64::MAX >> (63 - last as u32));
        for mut bits in [after, asking & !after] {
            while bits != 0 {
                let queue = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if let Some(vc) = self.channel_for(node, queue, out) {
                    return Some((queue, vc));
                }
            }
        }
        None
    }

    /// The channel on which the front packet of `queue` may leave through `out` now.
    #[inline]
    fn channel_for(&mut self, node: u32, queue: usize, out: usize) -> Option<usize> {
        let vc = vc_of(queue);
        if out == OUT_EJECT {
            return Some(vc);
        }
        let link = link_index(node, out);
        if !self.links.may_send(link) {
            return None;
        }
        let p = &self.packets[self.routers.front(node, queue)];
        if vc == ADAPTIVE {
            if !p.is(flag::ADAPTIVE) {
                return (self.links.free(link, vc, self.now) >= 1).then_some(vc);
            }
            if p.profit >> out & 1 != 0 && self.links.free(link, vc, self.now) >= 1 {
                return Some(vc);
            }
            let class = p.vc as usize;
            return (p.escape as usize == out && self.links.free(link, class, self.now) >= 2).then_some(class);
        }
        let goes_on = queue < Q_INJECT && queue / VCS == out;
        (self.links.free(link, vc, self.now) >= if goes_on { 1 } else { 2 }).then_some(vc)
    }

    /// The front packet of `queue`, or one copy of it, leaves through `out` on channel `vc`.
    fn grant(&mut self, node: u32, queue: usize, out: usize, vc: usize) {
        let h = self.routers.front(node, queue);
        let p = &mut self.packets[h];
        let flits = p.flits as usize;
        let serial = if out == OUT_EJECT { self.core_time[flits] } else { self.link_time[flits] };
        let end = (self.now + serial).max(p.tail);
        self.routers.outputs[node as usize * OUTS + out].busy = end;
        let many = vc_of(queue) >= UP || queue >= Q_CREDIT;
        let rest = if many { p.want & !(1 << out) } else { 0 };
        let clear = if many { 1 << out } else { p.want };
        let mut bits = clear;
        while bits != 0 {
            let o = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            self.routers.outputs[node as usize * OUTS + o].requests &= !(1 << queue);
        }
        let sent = if rest == 0 {
            self.pop(node, queue, end);
            h
        } else {
            let i = node as usize * QUEUES + queue;
            self.routers.queues[i].busy = self.routers.queues[i].busy.max(end);
            p.want = rest;
            let copy = *p;
            self.payloads.retain(copy.payload);
            self.packets.alloc(copy)
        };
        if out == OUT_EJECT {
            // A barrier's message is for the adapter, not for its host.
            let host = if self.packets[sent].kind == PacketType::Barrier { 0 } else { self.params.eject_ps };
            let at = end + host;
            self.packets[sent].queue = NO_QUEUE;
            self.events.push(at, Kind::Deliver, node, sent);
        } else {
            self.send(node, out, vc, sent, end);
        }
    }

    /// Puts a granted packet on a link.
    fn send(&mut self, node: u32, out: usize, vc: usize, h: u32, end: Tick) {
        let link = link_index(node, out);
        self.links.take(link, vc);
        let p = &mut self.packets[h];
        self.counters.count_sent(p.job, link, p.class, p.flits, p.bytes);
        if vc != ADAPTIVE {
            p.flags &= !flag::ADAPTIVE;
            p.cursor.taken();
        }
        p.queue = NO_QUEUE;
        p.head = self.now + self.params.hop_ps;
        p.tail = end + self.params.hop_ps;
        let far = self.net.neighbour(node, out);
        if self.links.is_lossy(link) {
            self.send_lossy(node, out, vc, h, end);
        } else if !self.owned[far as usize] {
            self.send_boundary(node, out, vc, h);
        } else {
            self.counters.count_received(link);
            self.append(far, out * VCS + vc, h);
        }
    }

    /// Takes the front packet out of its queue; its last flit leaves at `end`.
    pub(crate) fn pop(&mut self, node: u32, queue: usize, end: Tick) {
        let i = node as usize * QUEUES + queue;
        let h = self.routers.queues[i].front;
        let p = &mut self.packets[h];
        p.want = 0;
        let (next, marker) = (p.next, p.is(flag::MARKER));
        self.routers.queues[i].front = next;
        if next == NONE {
            self.routers.queues[i].back = NONE;
        }
        self.routers.queues[i].busy = self.routers.queues[i].busy.max(end);
        if queue < Q_INJECT {
            if !marker {
                self.give_back(node, queue, end);
            }
        } else if queue < Q_CREDIT {
            self.injected(h);
        }
        if next != NONE {
            self.schedule_head(node, queue);
        }
    }

    /// Returns a slot of a link queue to the sender, `link_ps` after `end`.
    pub(crate) fn give_back(&mut self, node: u32, queue: usize, end: Tick) {
        let (dir, vc) = (queue / VCS, queue % VCS);
        let at = end + self.params.link_ps;
        let sender = self.net.neighbour(node, dir ^ 4);
        if !self.owned[sender as usize] {
            return self.return_boundary_credit(sender, dir, vc, at);
        }
        self.links.give(link_index(sender, dir), vc, at);
        if self.routers.outputs[sender as usize * OUTS + dir].requests != 0 {
            self.schedule_arbitration(sender, dir, at);
        }
    }

    /// Throws the front packet away.
    pub(crate) fn discard_front(&mut self, node: u32, queue: usize) {
        let h = self.routers.front(node, queue);
        let end = self.now.max(self.packets[h].tail);
        self.pop(node, queue, end);
        if self.packets[h].is(flag::OLD) {
            let (src, dst) = (self.packets[h].src, self.packets[h].dst);
            self.old_left(src, dst);
        }
        self.free_packet(h);
    }

    /// Frees a packet and its payload.
    pub(crate) fn free_packet(&mut self, h: u32) {
        self.payloads.release(self.packets[h].payload);
        self.packets.free(h);
    }

    /// Takes a packet out of the middle of a queue (faults only). Its requests are withdrawn.
    pub(crate) fn unlink(&mut self, h: u32) {
        let (node, queue) = (self.packets[h].node, self.packets[h].queue as usize);
        let i = node as usize * QUEUES + queue;
        if self.routers.queues[i].front == h {
            for out in 0..OUTS {
                self.routers.outputs[node as usize * OUTS + out].requests &= !(1 << queue);
            }
            self.packets[h].want = 0;
            self.routers.queues[i].front = self.packets[h].next;
            if self.routers.queues[i].front == NONE {
                self.routers.queues[i].back = NONE;
            }
            self.schedule_head(node, queue);
        } else {
            let mut before = self.routers.queues[i].front;
            while self.packets[before].next != h {
                before = self.packets[before].next;
            }
            self.packets[before].next = self.packets[h].next;
            if self.routers.queues[i].back == h {
                self.routers.queues[i].back = before;
            }
        }
        self.packets[h].next = NONE;
        self.packets[h].queue = NO_QUEUE;
        if queue < Q_INJECT && !self.packets[h].is(flag::MARKER) {
            let end = self.now;
            self.give_back(node, queue, end);
        }
    }

    /// Puts a packet into an injection queue in front of all that were made after it (faults only).
    pub(crate) fn insert_by_serial(&mut self, node: u32, queue: usize, h: u32) {
        let i = node as usize * QUEUES + queue;
        let serial = self.packets[h].serial;
        let (mut before, mut at) = (NONE, self.routers.queues[i].front);
        while at != NONE && self.packets[at].serial < serial {
            (before, at) = (at, self.packets[at].next);
        }
        if at == NONE {
            return self.append(node, queue, h);
        }
        let p = &mut self.packets[h];
        (p.node, p.queue, p.want, p.next) = (node, queue as u8, 0, at);
        if before != NONE {
            self.packets[before].next = h;
            return;
        }
        for out in 0..OUTS {
            self.routers.outputs[node as usize * OUTS + out].requests &= !(1 << queue);
        }
        self.packets[at].want = 0;
        self.routers.queues[i].front = h;
        self.schedule_head(node, queue);
    }

    /// Puts a barrier's marker behind the packets of a link queue that arrived before `marker.head`.
    /// False if there are none and nothing was put.
    pub(crate) fn mark(&mut self, node: u32, queue: usize, mut marker: Packet) -> bool {
        let i = node as usize * QUEUES + queue;
        let (mut before, mut at) = (NONE, self.routers.queues[i].front);
        while at != NONE && self.packets[at].head < marker.head {
            (before, at) = (at, self.packets[at].next);
        }
        if before == NONE {
            return false;
        }
        (marker.node, marker.queue, marker.next) = (node, queue as u8, at);
        let h = self.packets.alloc(marker);
        self.packets[before].next = h;
        if at == NONE {
            self.routers.queues[i].back = h;
        }
        true
    }

    /// Withdraws the requests of the injector's queues at `node`, so that routes are looked up again.
    pub(crate) fn ask_again(&mut self, node: u32) {
        for queue in Q_INJECT..Q_CREDIT {
            for out in 0..OUTS {
                self.routers.outputs[node as usize * OUTS + out].requests &= !(1 << queue);
            }
            let h = self.routers.front(node, queue);
            if h != NONE {
                self.packets[h].want = 0;
                self.schedule_head(node, queue);
            }
        }
    }
}
