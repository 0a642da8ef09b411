//! Packets as flits: what links with errors really send and what crosses a boundary.
//!
//! Inside, a packet is a slab entry; on a link whose checksum matters it is the exact sequence of
//! flits `angara_abi::packet` defines. A boundary frame carries those flits and, beside them, what the
//! header has no bits for (job, class, source endpoint, timing).

use super::frame::{FrameError, Meta};
use super::payloads::Payloads;
use super::slab::{Detail, Packet, flag, flits_for, rate};
use crate::routes::{NONE, Net, Way};
use angara_abi::account::READ_MAX;
use angara_abi::desc::{AmoOp, Place, Region};
use angara_abi::packet::{self, Address, Flit, Header, PacketType, ReduceElem, ReduceOp, Tail, Vc};
use angara_abi::{FLIT_BYTES, PACKET_FLITS_MAX, PAYLOAD_MAX, TREES};
use angara_net::torus::{Coords, Direction, NodeId};
use bytes::Bytes;

fn place_bits(p: Place) -> u128 {
    p.region as u128 | (p.offset as u128) << 16
}

fn place_of(bits: u128) -> Option<Place> {
    Some(Place {
        region: Region::from_bits(bits as u8 & 63)?,
        offset: (bits >> 16) as u64 & angara_abi::desc::OFFSET_MAX,
    })
}

/// Returns the packet as flits, sealed, with `sequence` as its link sequence number; for a train, its header
/// and tail.
pub(crate) fn encode(net: &Net, payloads: &Payloads, p: &Packet, sequence: u16) -> ([Flit; PACKET_FLITS_MAX], usize) {
    let n = if p.is_train() { 2 } else { p.flits as usize };
    let mut flits = [0; PACKET_FLITS_MAX];
    flits[0] = header(net, p, n);
    let source = u32::from_le_bytes(net.header_coords(p.src)) as u128 | (p.src_ep as u128) << 32;
    match p.detail {
        Detail::Read { back, len } => {
            flits[1] = source | place_bits(back) << 42 | (len as u128 & 0xffff) << 106;
        }
        Detail::Amo { op, width, operand, comparand, back } => {
            if p.kind == PacketType::Service {
                let back = back.map_or(0, |b| place_bits(b) | 32);
                flits[1] = source | back << 42 | (op as u128) << 106 | (width as u128) << 112;
                flits[2] = operand as u128 | (comparand as u128) << 64;
            } else {
                flits[1] = operand as u128 | (width as u128) << 64;
            }
        }
        _ if p.is_train() => {}
        _ => {
            packet::pack(payloads.get(p.payload, p.bytes as usize), &mut flits[1..17]);
        }
    }
    let tail = Tail {
        link_seq: sequence,
        src: p.src as u16,
        first_byte: 0,
        last_byte: if p.payload == NONE || p.bytes == 0 { 15 } else { (p.bytes as usize - 1) as u8 & 15 },
        end_crc: 0,
        tag: p.serial as u32,
    };
    flits[n - 1] = tail.encode();
    packet::seal(&mut flits[..n]);
    (flits, n)
}

/// The header of a packet of `n` flits.
pub(crate) fn header(net: &Net, p: &Packet, n: usize) -> Flit {
    let detour = |step: u8| (step != 0).then(|| Direction::ALL[(step & 7) as usize]);
    let address = match p.detail {
        Detail::Tree { tree, reduce, op, elem, .. } if p.kind != PacketType::Write => {
            Address::Tree { tree, reduce, op, elem, all: p.is(flag::ALL), offset: p.offset }
        }
        _ => Address::Memory { endpoint: p.dst_ep, region: p.region as u8, offset: p.offset },
    };
    Header {
        kind: p.kind,
        data_flits: n.saturating_sub(2) as u8,
        vc: Vc::ALL[p.vc as usize],
        adaptive: p.is(flag::ADAPTIVE),
        notify: false,
        dirbits: p.way.dirs as u8,
        first_step: detour(p.way.first),
        last_step: detour(p.way.last),
        dst: Coords(net.header_coords(p.dst)),
        address,
    }
    .encode()
}

/// Makes packets of frames.
pub(crate) struct Decoder<'a> {
    pub(crate) net: &'a Net,
    pub(crate) payloads: &'a mut Payloads,
    /// Packets carry data here.
    pub(crate) carry: bool,
    /// Generations of the trees loaded here.
    pub(crate) generations: &'a [u32; TREES],
}

impl Decoder<'_> {
    /// Rebuilds a packet from boundary flits that arrive at node `at`.
    pub(crate) fn packet(&mut self, at: NodeId, meta: &Meta, bytes: &[u8], train: Bytes) -> Result<Packet, FrameError> {
        let mut flits = [0; PACKET_FLITS_MAX];
        let n = bytes.len() / FLIT_BYTES;
        if n > PACKET_FLITS_MAX || !bytes.len().is_multiple_of(FLIT_BYTES) {
            return Err(FrameError::Content("not a whole number of flits, or too many"));
        }
        for (flit, chunk) in flits.iter_mut().zip(bytes.chunks_exact(FLIT_BYTES)) {
            *flit = Flit::from_le_bytes(chunk.try_into().expect("chunks are one flit long"));
        }
        let (header, tail) = packet::check(&flits[..n])?;
        let mut p = Packet::new(header.kind);
        p.dst = self.net.shape.id(header.dst).ok_or(FrameError::Content("target outside the network"))?;
        p.src = tail.src as u32;
        if p.src as usize >= self.net.nodes || meta.class >= angara_abi::account::CLASSES as u8 {
            return Err(FrameError::Content("source outside the network or unknown class"));
        }
        p.vc = header.vc as u8;
        p.flits = n as u16;
        p.class = meta.class;
        p.job = meta.job;
        p.flags = meta.flags | flag::FOREIGN;
        p.bytes = meta.bytes;
        p.src_ep = meta.src_endpoint;
        p.dst_ep = meta.dst_endpoint;
        p.op = meta.op;
        p.port = meta.port;
        let step = |d: packet::Detour| d.map_or(0, |d| 8 | d.index() as u8);
        let (first, last) = (step(header.first_step), step(header.last_step));
        let exists = |node: NodeId, d: packet::Detour, back: bool| {
            d.is_none_or(|d| self.net.neighbour(node, if back { d.opposite() } else { d }.index()) != NONE)
        };
        if !exists(at, header.first_step, false) || !exists(p.dst, header.last_step, true) {
            return Err(FrameError::Content("a step over a link that does not exist"));
        }
        p.way = Way::resume(self.net, at, p.dst, header.dirbits, first, last);
        p.rate = meta.rate.min(rate::WHOLE);
        p.region = Region::from_bits(meta.region).ok_or(FrameError::Content("unknown region"))?;
        if meta.bytes as usize <= PAYLOAD_MAX {
            self.decode_address(&mut p, &header, &flits, meta)?;
            return Ok(p);
        }
        let Address::Memory { offset, .. } = header.address else {
            return Err(FrameError::Content("a train for a tree"));
        };
        if !matches!(p.kind, PacketType::Write | PacketType::ReadRsp) || p.is(flag::RESULT) || !self.carry {
            return Err(FrameError::Content("a train that carries no data"));
        }
        if train.len() != meta.bytes as usize || train.len() > READ_MAX {
            return Err(FrameError::Content("a train of another length"));
        }
        p.offset = offset;
        p.flits = flits_for(train.len());
        p.payload = self.payloads.alloc_train(train);
        Ok(p)
    }

    fn decode_address(
        &mut self,
        p: &mut Packet,
        header: &Header,
        flits: &[Flit],
        meta: &Meta,
    ) -> Result<(), FrameError> {
        match header.address {
            Address::Memory { offset, .. } => p.offset = offset,
            Address::Tree { tree, reduce, op, elem, offset, .. } => {
                p.offset = offset;
                let generation = self.generations[tree as usize & 15];
                p.detail = Detail::Tree { tree, reduce, op, elem, generation };
            }
        }
        let back = |bits: u128| place_of(bits).ok_or(FrameError::Content("unknown return region"));
        match p.kind {
            PacketType::ReadReq => {
                p.detail = Detail::Read { back: back(flits[1] >> 42)?, len: (flits[1] >> 106) as u32 & 0xffff };
            }
            PacketType::Service => {
                let op = AmoOp::from_bits((flits[1] >> 106) as u8 & 63).ok_or(FrameError::Content("unknown atomic"))?;
                let place = flits[1] >> 42;
                let back = if place & 32 != 0 { Some(back(place & !32)?) } else { None };
                let (operand, comparand) = (flits[2] as u64, (flits[2] >> 64) as u64);
                p.detail = Detail::Amo { op, width: (flits[1] >> 112) as u8, operand, comparand, back };
            }
            PacketType::AtomicAdd | PacketType::AtomicXor => {
                let op = if p.kind == PacketType::AtomicAdd { AmoOp::Add } else { AmoOp::Xor };
                let width = (flits[1] >> 64) as u8;
                p.detail = Detail::Amo { op, width, operand: flits[1] as u64, comparand: 0, back: None };
            }
            _ if self.carry && meta.bytes > 0 => {
                if meta.bytes as usize > (p.flits as usize - 2) * FLIT_BYTES {
                    return Err(FrameError::Content("fewer data flits than payload bytes"));
                }
                p.payload = self.payloads.alloc();
                let data = self.payloads.get_mut(p.payload);
                for (chunk, flit) in data.chunks_exact_mut(FLIT_BYTES).zip(&flits[1..p.flits as usize - 1]) {
                    chunk.copy_from_slice(&flit.to_le_bytes());
                }
                if p.is(flag::RESULT) && p.kind == PacketType::Write {
                    // The reduction a point-to-point result belongs to travels in the operation word.
                    let (tree, reduce) = ((meta.op >> 4) as u8 & 15, meta.op as u8 & 15);
                    let generation = self.generations[tree as usize & 15];
                    let (op, elem) = (ReduceOp::Sum, ReduceElem::I32);
                    p.detail = Detail::Tree { tree, reduce, op, elem, generation };
                }
            }
            _ => {}
        }
        Ok(())
    }
}
