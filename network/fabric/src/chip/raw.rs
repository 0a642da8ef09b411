//! Packets of simulations: a length and two ends, no operation, no contents, no effects.
//!
//! They share queues, outputs and faults with everything else, but cost nothing beyond that: a
//! source hands them straight to an injection channel ([`Chip::inject_raw`]) and finds them in a list
//! when they have arrived ([`Raw::delivered`]). A fabric that models part of a network passes them on
//! as [`Crossing`]s: the driver takes those of every part after each window of time and gives each
//! to the part that owns its node; nothing in a window depends on what others do in it, as long as a
//! window is no longer than [`Chip::lookahead`].

use super::At;
use super::layout::{ADAPTIVE, Layout};
use super::observe::records::{Delivery, Inconsistent, Injection, LinkLoad, Lost, Totals};
use super::observe::trace::Stage;
use super::state::Chip;
use crate::packet::{Detail, NO_QUEUE, Packet, PacketHandle, flag};
use crate::raw::{Packed, packed};
use crate::routes::Way;
use crate::types::Tick;
use angara_abi::capture::{Happening, Reason};
use angara_abi::packet::PacketType;
use std::collections::VecDeque;

/// Results of simulated packets.
#[derive(Default, Debug)]
pub(crate) struct Raw {
    pub(crate) delivered: VecDeque<Delivery>,
    /// Dropped because no route was left.
    pub(crate) lost: VecDeque<Lost>,
    pub(crate) totals: Totals,
    /// For other parts of the network.
    pub(crate) outgoing: Vec<Crossing>,
}

/// Something that crosses a link between two parts of a network.
#[derive(Clone, Copy, Debug)]
pub struct Crossing {
    /// The node it goes to.
    pub to: u32,
    /// A packet travels in this direction; a credit is for the link leaving `to` in it.
    dir: u8,
    vc: u8,
    /// When the packet may ask, or the slots are free.
    pub at: Tick,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Packet(RawPacket),
    Credit { units: u8 },
}

#[derive(Clone, Copy, Debug)]
struct RawPacket {
    way: Way,
    src: u32,
    dst: u32,
    tag: u64,
    at: Tick,
    flags: u16,
    routers: u16,
    vc: u8,
    flits: u8,
    rate: u8,
    from_channel: u8,
    to_channel: u8,
    traced: bool,
}

packed!(Crossing { to, dir, vc, at, what });
packed!(RawPacket { way, src, dst, tag, at, flags, routers, vc, flits, rate, from_channel, to_channel, traced });

impl Packed for What {
    fn pack(&self, out: &mut Vec<u8>) {
        match self {
            What::Packet(packet) => {
                out.push(0);
                packet.pack(out);
            }
            What::Credit { units } => out.extend([1, *units]),
        }
    }
    fn unpack(from: &mut &[u8]) -> Option<What> {
        match u8::unpack(from)? {
            0 => Some(What::Packet(RawPacket::unpack(from)?)),
            1 => Some(What::Credit { units: u8::unpack(from)? }),
            _ => None,
        }
    }
}

impl Chip {
    /// Gives a packet to its injection channel, whose host interface it crosses when those before it have.
    /// Returns its handle.
    pub(crate) fn inject_raw(&mut self, packet: &Injection) -> PacketHandle {
        let endpoints = self.endpoints();
        let (src, dst) = (packet.src / endpoints, packet.dst / endpoints);
        let way = self.usual_way(src, dst);
        let mut p = Packet::new(PacketType::Write);
        (p.src, p.dst) = (src, dst);
        (p.from_channel, p.to_channel) = ((packet.src % endpoints) as u8, (packet.dst % endpoints) as u8);
        self.use_ports(&mut p);
        let from = usize::from(p.from_channel);
        p.flits = packet.flits;
        p.vc = packet.class as u8;
        p.flags = flag::RAW | if packet.adaptive { flag::MAY_ADAPT } else { 0 };
        p.detail = Detail::Raw { tag: packet.tag, at: packet.at };
        p.way = way;
        let interface = &mut self.inject_busy[src as usize * self.lay.channels + from];
        let start = packet.at.max(*interface);
        *interface = start + self.timing.port(p.flits);
        p.ready = start + self.params.inject_ps + self.params.router_ps;
        let vc = if packet.adaptive { ADAPTIVE } else { p.vc as usize };
        let queue = self.lay.injection(from, vc);
        let h = self.packets.alloc(p);
        self.raw.totals.injected += 1;
        if packet.traced {
            self.observers.tracer.begin(h, packet.tag);
            let place = (src, self.endpoint_port(from), vc as u32);
            self.observers.tracer.note(h, packet.at, place, Stage::Created);
            self.observers.tracer.note(h, start, place, Stage::Injected);
            self.observers.tracer.note(h, start + self.params.inject_ps, place, Stage::Arrived);
        }
        if self.observers.tracer.on() {
            self.tell(h, At::Host(src), start, Happening::Injected);
        }
        self.append(src, queue, h);
        h
    }

    /// A simulated packet's last flit has arrived.
    pub(crate) fn deliver_raw(&mut self, h: PacketHandle) {
        let delivery = self.leave(h);
        self.raw.totals.delivered += 1;
        self.raw.totals.delivered_flits += delivery.flits as u64;
        if self.observers.tracer.on() {
            let p = &self.packets[h];
            let place = (p.dst, self.endpoint_port(p.to_channel as usize), p.vc as u32);
            self.tell(h, At::Host(place.0), self.now, Happening::Ejected);
            self.observers.tracer.note(h, self.now, place, Stage::Delivered);
            self.observers.tracer.end(h);
        }
        self.packets.free(h);
        let list = &mut self.raw.delivered;
        list.push_back(delivery);
        // Those of one instant stand in order of destination, and from several ports of it in that of source.
        let order = |d: &Delivery| (d.tail, d.dst, d.src);
        let mut i = list.len() - 1;
        while i > 0 && list[i - 1].tail == delivery.tail && order(&list[i - 1]) > order(&delivery) {
            list.swap(i - 1, i);
            i -= 1;
        }
    }

    /// A simulated packet has no route left.
    pub(crate) fn drop_raw(&mut self, h: PacketHandle) {
        let d = self.leave(h);
        self.raw.totals.lost += 1;
        self.raw.lost.push_back(Lost { time: self.now, src: d.src, dst: d.dst, tag: d.tag });
        if self.observers.tracer.on() {
            let p = &self.packets[h];
            let place = (p.src, self.endpoint_port(p.from_channel as usize), p.vc as u32);
            self.tell_dropped(h, At::Host(place.0), self.now, Reason::NoRoute);
            self.observers.tracer.note(h, self.now, place, Stage::Dropped);
            self.observers.tracer.end(h);
        }
        self.packets.free(h);
    }

    /// Returns what there is to say of a simulated packet that leaves the network now.
    fn leave(&mut self, h: PacketHandle) -> Delivery {
        let p = &self.packets[h];
        let (old, pair, endpoints) = (p.is(flag::OLD), (p.src, p.dst), self.endpoints());
        let (tag, at) = match p.detail {
            Detail::Raw { tag, at } => (tag, at),
            _ => (0, 0),
        };
        let delivery = Delivery {
            tail: self.now,
            src: p.src * endpoints + self.endpoint(p.from_channel),
            dst: p.dst * endpoints + self.endpoint(p.to_channel),
            tag,
            at,
            flits: p.flits,
            routers: p.routers,
        };
        if old {
            self.old_left(pair.0, pair.1);
        }
        delivery
    }

    /// Time within which nothing that others do can matter here.
    pub(crate) fn lookahead(&self) -> Tick {
        self.hop_ps.min(self.params.credit_ps + self.timing.inside(1)).max(1)
    }

    /// A simulated packet leaves this part of the network.
    pub(crate) fn send_raw(&mut self, node: u32, out: usize, vc: usize, h: PacketHandle) {
        let p = &self.packets[h];
        let Detail::Raw { tag, at } = p.detail else { unreachable!("caller asked for a simulated packet") };
        let traced = self.observers.tracer.follows(h);
        let raw = RawPacket {
            way: p.way,
            src: p.src,
            dst: p.dst,
            tag,
            at,
            flags: p.flags,
            routers: p.routers,
            vc: p.vc,
            flits: p.flits as u8,
            rate: p.rate,
            from_channel: p.from_channel,
            to_channel: p.to_channel,
            traced,
        };
        let to = self.net.neighbour(node, out);
        let crossing = Crossing { to, dir: out as u8, vc: vc as u8, at: p.ready, what: What::Packet(raw) };
        self.raw.outgoing.push(crossing);
        self.observers.tracer.end(h);
        self.packets.free(h);
    }

    /// Slots of a link that leaves another part of the network are free from `at` on.
    pub(crate) fn return_raw_credit(&mut self, sender: u32, dir: usize, vc: usize, units: usize, at: Tick) {
        let what = What::Credit { units: units as u8 };
        self.raw.outgoing.push(Crossing { to: sender, dir: dir as u8, vc: vc as u8, at, what });
    }

    /// Takes what crossed from another part. Its time must not have passed here.
    pub(crate) fn accept(&mut self, crossing: &Crossing) {
        let (to, dir, vc) = (crossing.to, crossing.dir as usize, crossing.vc as usize);
        debug_assert!(crossing.at > self.now, "{crossing:?} comes too late");
        match crossing.what {
            What::Credit { units } => {
                self.give_slots(to, dir, vc, units as usize, crossing.at);
            }
            What::Packet(raw) => {
                let mut p = Packet::new(PacketType::Write);
                (p.way, p.src, p.dst) = (raw.way, raw.src, raw.dst);
                (p.flags, p.routers, p.vc) = (raw.flags, raw.routers, raw.vc);
                (p.flits, p.rate) = (raw.flits as u16, raw.rate);
                (p.from_channel, p.to_channel) = (raw.from_channel, raw.to_channel);
                p.detail = Detail::Raw { tag: raw.tag, at: raw.at };
                p.ready = crossing.at;
                let h = self.packets.alloc(p);
                if raw.traced {
                    self.observers.tracer.begin(h, raw.tag);
                }
                self.append(to, self.lay.arrival(dir, vc), h);
            }
        }
    }

    /// Returns what left `router` through a network port (2·dimension, odd towards smaller coordinates).
    pub(crate) fn raw_load(&self, router: u32, port: u8) -> LinkLoad {
        let (dims, port) = (self.net.dims, port as usize);
        if port >= 2 * dims {
            let channels = (0..self.lay.channels).filter(|c| self.endpoint_port(*c) == port as u32);
            let mut load = LinkLoad::default();
            for channel in channels {
                let (packets, flits) = self.routers.load(router, self.lay.dirs + channel);
                (load.packets, load.flits) = (load.packets + packets, load.flits + flits);
            }
            return load;
        }
        let out = port / 2 + (port & 1) * self.lay.dirs / 2;
        let (packets, flits) = self.routers.load(router, out);
        let mut load = LinkLoad { packets, flits, ..LinkLoad::default() };
        if let Some(l) = self.degraded.links.get(&self.link(router, out)) {
            (load.replays, load.crc_errors) = (l.replays, l.crc_errors);
            (load.duplicates, load.reordered) = (l.duplicates, l.reordered);
        }
        load
    }

    /// With nothing under way: every queue is empty, every slot is back or its time is known.
    pub(crate) fn check_idle(&self) -> Result<(), Inconsistent> {
        let fail = |what: String| Err(Inconsistent(what));
        let Layout { queues, outs, dirs, .. } = self.lay;
        if self.packets.in_flight() != 0 {
            return fail(format!("{} packets never arrived", self.packets.in_flight()));
        }
        if let Some(i) = self.routers.inputs.iter().position(|i| i.front.is_some() || i.wants != 0) {
            return fail(format!("queue {} of node {} is in use", i % queues, i / queues));
        }
        if let Some(i) = self.routers.outputs.iter().position(|o| o.requests.iter().any(|r| *r != 0)) {
            return fail(format!("output {} of node {} has requests", i % outs, i / outs));
        }
        if let Some(i) = self.routers.first_short(&self.slots) {
            return fail(format!("output {} of node {} lacks a slot", i % outs, i / outs));
        }
        if let Some((i, _)) = self.degraded.links.iter().find(|(_, l)| !l.unreceived.is_empty()) {
            return fail(format!("link {} of node {} has packets to repeat", i % dirs, i / dirs));
        }
        if !self.degraded.held.is_empty() {
            return fail(format!("{} pairs are held", self.degraded.held.len()));
        }
        Ok(())
    }

    /// Bytes held by tables and queues.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.routers.memory_bytes()
            + self.slots.memory_bytes()
            + self.packets.memory_bytes()
            + self.events.memory_bytes()
            + self.net.memory_bytes()
            + self.inject_busy.capacity() * 8
            + self.owned.capacity()
            + self.observers.counters.nodes.capacity() * size_of::<super::observe::counters::NodeCounters>()
            + self.raw.delivered.capacity() * size_of::<Delivery>()
    }
}

/// Notes for traced packets; see [`Stage`] for what each means.
impl Chip {
    fn endpoint_port(&self, channel: usize) -> u32 {
        2 * self.net.dims as u32 + self.endpoint(channel as u8)
    }
    /// The network's name of an output.
    fn port(&self, out: usize) -> u32 {
        match out < self.lay.dirs {
            true => (2 * self.net.dim(out) + usize::from(out >= self.lay.dirs / 2)) as u32,
            false => self.endpoint_port(out - self.lay.dirs),
        }
    }
    /// Where the packets of a queue came in.
    fn input_place(&self, node: u32, queue: usize) -> (u32, u32, u32) {
        let port = match self.lay.dir(queue) {
            Some(dir) => self.port(dir) ^ 1,
            None => self.endpoint_port(self.lay.channel(queue)),
        };
        (node, port, self.lay.vc(queue) as u32)
    }
    #[cold]
    pub(crate) fn note_requested(&mut self, node: u32, queue: usize) {
        let h = self.front(node, queue);
        if self.packets[h].queue != NO_QUEUE && self.packets[h].is(flag::RAW) {
            self.observers.tracer.note(h, self.now, self.input_place(node, queue), Stage::Requested);
        }
    }
    pub(crate) fn note_escaping(&mut self, node: u32, queue: usize, h: PacketHandle) {
        if self.observers.tracer.on() {
            self.observers.tracer.note(h, self.now, self.input_place(node, queue), Stage::Escaping);
        }
    }
    #[cold]
    pub(crate) fn note_granted(&mut self, node: u32, out: usize, vc: usize, h: PacketHandle) {
        let place = (node, self.port(out), vc as u32);
        self.observers.tracer.note(h, self.now, place, Stage::SwitchGranted);
        let stage = if out < self.lay.dirs { Stage::LinkEntered } else { Stage::Ejected };
        self.observers.tracer.note(h, self.now, place, stage);
    }
    /// The packet's head is at the router at the other end of a link.
    #[cold]
    pub(crate) fn note_arrived(&mut self, node: u32, out: usize, vc: usize, h: PacketHandle) {
        let at = self.packets[h].ready.saturating_sub(self.params.router_ps);
        let place = (self.net.neighbour(node, out), self.port(out) ^ 1, vc as u32);
        self.observers.tracer.note(h, at, place, Stage::Arrived);
    }
    pub(crate) fn note_replay(&mut self, node: u32, out: usize, vc: u8, h: PacketHandle, at: Tick) {
        self.observers.tracer.note(h, at, (node, self.port(out), vc as u32), Stage::Replayed);
    }
}
