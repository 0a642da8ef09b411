//! Reports for those who listen to the network: see [`super::capture`].

use super::capture::{Filter, Heard, Spot};
use crate::chip::state::Chip;
use crate::packet::{Detail, Packet, PacketHandle, encode, flag, header};
use crate::routes::NONE;
use crate::types::Tick;
use angara_abi::capture::{Happening, Reason};
use angara_abi::packet::Flit;
use angara_abi::{FLIT_BYTES, PACKET_FLITS_MAX, PAYLOAD_MAX};
use angara_net::torus::Direction;

/// Where on its way a packet is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    /// Between the adapter of a node and its router.
    Host(u32),
    /// On a link: sending node, direction, virtual channel, the packet's number on it.
    Link(u32, usize, usize, u16),
}

impl Chip {
    /// From now on these hear of what happens; nobody if there are none.
    pub(crate) fn listen(&mut self, filters: Vec<Filter>) {
        self.observers.tracer.share(!filters.is_empty());
        self.observers.taps.open(filters);
    }

    /// Returns what nobody has been told yet, in order of time.
    pub(crate) fn heard(&mut self) -> Vec<Heard> {
        let until = if self.events.is_empty() { Tick::MAX } else { self.now };
        self.observers.taps.take(until)
    }

    /// Number of the packet that left last over a link that does not number its packets.
    #[cold]
    pub(crate) fn latest_on(&self, node: u32, dir: usize) -> u16 {
        self.routers.load(node, dir).0.wrapping_sub(1) as u16
    }

    /// Something happens to a packet. Only where somebody watches ([`super::trace::Tracer::on`]).
    #[cold]
    pub(crate) fn tell(&mut self, h: PacketHandle, at: At, time: Tick, what: Happening) {
        self.tell_more(h, at, time, (what, Reason::None), None);
    }

    /// The same for one that is dropped.
    #[cold]
    pub(crate) fn tell_dropped(&mut self, h: PacketHandle, at: At, time: Tick, why: Reason) {
        self.tell_more(h, at, time, (Happening::Dropped, why), None);
    }

    /// A packet arrives with a wrong bit, which a random number names.
    #[cold]
    pub(crate) fn tell_damaged(&mut self, h: PacketHandle, at: At, time: Tick, wrong: u64) {
        self.tell_more(h, at, time, (Happening::Corrupted, Reason::None), Some(wrong));
    }

    fn tell_more(
        &mut self,
        h: PacketHandle,
        at: At,
        time: Tick,
        (what, reason): (Happening, Reason),
        wrong: Option<u64>,
    ) {
        let mut p = self.packets[h];
        if p.is(flag::MARKER) {
            return;
        }
        if let Detail::Raw { tag, .. } = p.detail {
            (p.src_ep, p.dst_ep, p.op) = (p.from_channel.into(), p.to_channel.into(), tag);
        }
        let (spot, dir, sequence) = match at {
            At::Host(node) => (Spot { node, link: None, vc: p.vc }, None, 0),
            At::Link(node, dir, vc, sequence) => {
                let far = self.net.neighbour(node, dir);
                (Spot { node, link: Some((dir, far)), vc: vc as u8 }, Some(Direction::ALL[dir]), sequence)
            }
        };
        let listeners = self.observers.taps.want(&spot, p.job, p.is(flag::DEAD));
        if listeners == 0 {
            return;
        }
        let (flits, kept) = match (wrong, p.is_train()) {
            _ if p.is(flag::RAW) => self.front_alone(&p),
            (_, true) => self.front_of_train(h, sequence),
            (None, false) => encode(&self.net, &self.payloads, &p, sequence),
            (Some(wrong), false) => self.damaged(h, sequence, wrong),
        };
        self.observers.taps.hear(Heard {
            time,
            what,
            reason,
            node: spot.node,
            dir,
            vc: spot.vc,
            job: p.job,
            class: p.class,
            train: p.is_train(),
            foreign: p.is(flag::FOREIGN),
            from: (p.src, p.src_ep),
            to_endpoint: p.dst_ep,
            bytes: p.bytes,
            sequence,
            op: p.op,
            serial: p.serial,
            length: p.flits,
            flits,
            kept: kept as u8,
            listeners,
        });
    }

    /// The flits of a packet as they arrive if one bit is wrong, by a random number.
    pub(crate) fn damaged(&self, h: PacketHandle, sequence: u16, wrong: u64) -> ([Flit; PACKET_FLITS_MAX], usize) {
        let p = &self.packets[h];
        let (mut flits, n) = encode(&self.net, &self.payloads, p, sequence);
        let bit = (wrong % (p.flits as u64 * 128)) as usize;
        flits[bit / 128] ^= 1 << (bit % 128);
        (flits, n)
    }

    /// The header of a packet that carries nothing.
    fn front_alone(&self, p: &Packet) -> ([Flit; PACKET_FLITS_MAX], usize) {
        let mut flits = [0; PACKET_FLITS_MAX];
        flits[0] = header(&self.net, p, p.flits.into());
        (flits, 1)
    }

    /// The header of a train and the beginning of what it carries.
    fn front_of_train(&self, h: PacketHandle, sequence: u16) -> ([Flit; PACKET_FLITS_MAX], usize) {
        let p = &self.packets[h];
        let (mut flits, _) = encode(&self.net, &self.payloads, p, sequence);
        flits[1..].fill(0);
        if p.payload == NONE {
            return (flits, 1);
        }
        let data = self.payloads.get(p.payload, PAYLOAD_MAX);
        for (flit, bytes) in flits[1..].iter_mut().zip(data.as_chunks::<FLIT_BYTES>().0) {
            *flit = Flit::from_le_bytes(*bytes);
        }
        (flits, 1 + PAYLOAD_MAX / FLIT_BYTES)
    }
}
