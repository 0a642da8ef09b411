//! Packets as flits: what links with errors really send and what crosses a boundary.
//!
//! Inside, a packet is a slab entry; on a link whose checksum matters it is the exact sequence of
//! flits `abi::packet` defines. A boundary frame carries those flits and, beside them, what the
//! header has no bits for (job, class, source endpoint, timing).

use crate::Fabric;
use crate::slab::{Detail, Packet, flag, flits_for, rate};
use crate::topology::{NONE, Way, link_index};
use crate::types::{JobId, Link, Tick};
use abi::FLIT_BYTES;
use abi::PACKET_FLITS_MAX;
use abi::PAYLOAD_MAX;
use abi::account::READ_MAX;
use abi::desc::{AmoOp, Place, Region};
use abi::packet::{self, Address, Flit, Header, PacketType, ReduceElem, ReduceOp, Tail, Vc};
use abi::torus::{Coords, Direction, NodeId};
use bytes::Bytes;

/// What crosses a boundary link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// A packet; the time beside it is when it may ask for an output of the far router.
    Packet {
        /// Virtual channel whose buffer it occupies there.
        vc: Vc,
        /// What the flits have no room for.
        meta: Meta,
        /// The flits, sealed, little-endian; of a train, those of a packet without data.
        flits: Bytes,
        /// What a train carries.
        train: Bytes,
    },
    /// One slot of a virtual channel's buffer is free again at the time beside it.
    Credit {
        /// The channel.
        vc: Vc,
    },
    /// Packets have been ejected, for the source that keeps copies of them. The chip has no such message: it
    /// stands for the knowledge a single fabric has of its own packets, and is not traffic.
    Gone {
        /// Their job.
        job: JobId,
        /// As in [`Meta`].
        generation: u16,
        /// Their target.
        from: NodeId,
        /// Their source.
        to: NodeId,
        /// The channel of their class: 0 or 1.
        vc: u8,
        /// How many.
        count: u16,
    },
}

/// Travels beside a boundary packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// Job.
    pub job: JobId,
    /// How often that job slot had been opened before.
    pub generation: u16,
    /// Accounting class.
    pub class: u8,
    /// Source endpoint.
    pub src_endpoint: u16,
    /// Target endpoint (collective headers have no field for it).
    pub dst_endpoint: u16,
    /// Target region (collective headers have no field for it).
    pub region: u8,
    /// Internal flags.
    pub flags: u16,
    /// Payload bytes, as counted.
    pub bytes: u16,
    /// Posting port's operation, returned with the answer.
    pub op: u64,
    /// Port index at the source's fabric.
    pub port: u32,
    /// At which rate its flits follow each other: 0 the chip's, 1 the link's, 2 the chip's and all
    /// flits are there when the packet may ask.
    pub rate: u8,
}

/// Why a frame was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// Not a boundary link of this fabric in that direction.
    #[error("{0:?} is not a boundary link into this fabric for such a frame")]
    Link(Link),
    /// The flits are not a packet.
    #[error("boundary packet: {0}")]
    Packet(#[from] packet::PacketError),
    /// A field contradicts another.
    #[error("boundary packet: {0}")]
    Content(&'static str),
}

fn place_bits(p: Place) -> u128 {
    p.region as u128 | (p.offset as u128) << 16
}

fn place_of(bits: u128) -> Option<Place> {
    Some(Place { region: Region::from_bits(bits as u8 & 63)?, offset: (bits >> 16) as u64 & abi::desc::OFFSET_MAX })
}

impl Fabric {
    /// The packet as flits, sealed, with `sequence` as its link sequence number.
    /// Of a train, its header and tail.
    pub(crate) fn encode(&self, h: u32, sequence: u16) -> ([Flit; PACKET_FLITS_MAX], usize) {
        let p = &self.packets[h];
        let n = if p.is_train() { 2 } else { p.flits as usize };
        let mut flits = [0; PACKET_FLITS_MAX];
        let detour = |step: u8| (step != 0).then(|| Direction::ALL[(step & 7) as usize]);
        let address = match p.detail {
            Detail::Tree { tree, reduce, op, elem, .. } if p.kind != PacketType::Write => {
                Address::Tree { tree, reduce, op, elem, all: p.is(flag::ALL), offset: p.offset }
            }
            _ => Address::Memory { endpoint: p.dst_ep, region: p.region as u8, offset: p.offset },
        };
        let header = Header {
            kind: p.kind,
            data_flits: (n - 2) as u8,
            vc: Vc::ALL[p.vc as usize],
            adaptive: p.is(flag::ADAPTIVE),
            notify: false,
            dirbits: p.way.dirs as u8,
            first_step: detour(p.way.first),
            last_step: detour(p.way.last),
            dst: Coords(self.net.header_coords(p.dst)),
            address,
        };
        flits[0] = header.encode();
        let source = u32::from_le_bytes(self.net.header_coords(p.src)) as u128 | (p.src_ep as u128) << 32;
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
                packet::pack(self.payloads.get(p.payload, p.bytes as usize), &mut flits[1..17]);
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

    /// Rebuilds a packet from boundary flits that arrive at node `at`.
    fn decode(&mut self, at: NodeId, meta: &Meta, bytes: &[u8], train: Bytes) -> Result<Packet, FrameError> {
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
        if p.src as usize >= self.net.nodes || meta.class >= abi::account::CLASSES as u8 {
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
        p.way = Way::resume(&self.net, at, p.dst, header.dirbits, first, last);
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
                let generation = self.trees.generation(tree);
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
                    let generation = self.trees.generation(tree);
                    let (op, elem) = (ReduceOp::Sum, ReduceElem::I32);
                    p.detail = Detail::Tree { tree, reduce, op, elem, generation };
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A packet leaves this fabric over a boundary link.
    pub(crate) fn send_boundary(&mut self, node: u32, out: usize, vc: usize, h: u32) {
        if self.packets[h].is(flag::RAW) {
            return self.send_raw(node, out, vc, h);
        }
        let (flits, n) = self.encode(h, 0);
        let p = self.packets[h];
        let op = match p.detail {
            Detail::Tree { tree, reduce, .. } if p.kind == PacketType::Write => (tree as u64) << 4 | reduce as u64,
            _ => p.op,
        };
        let meta = Meta {
            job: p.job,
            generation: self.generation(p.job),
            class: p.class,
            src_endpoint: p.src_ep,
            dst_endpoint: p.dst_ep,
            region: p.region as u8,
            flags: p.flags & !flag::AWAIT,
            bytes: p.bytes,
            op,
            port: p.port,
            rate: p.rate,
        };
        let train = if p.is_train() { self.payloads.train(p.payload).clone() } else { Bytes::new() };
        let mut bytes = Vec::with_capacity(n * FLIT_BYTES);
        flits[..n].iter().for_each(|f| bytes.extend_from_slice(&f.to_le_bytes()));
        let frame = Frame::Packet { vc: Vc::ALL[vc], meta, flits: bytes.into(), train };
        self.boundary.entry(link_index(node, out)).or_default().push_back((p.ready, frame));
        self.keep(h);
    }

    /// A slot of a boundary link into this fabric has become free.
    pub(crate) fn return_boundary_credit(&mut self, sender: u32, dir: usize, vc: usize, units: usize, at: Tick) {
        if !self.adapter() {
            return self.return_raw_credit(sender, dir, vc, units, at);
        }
        let frames = self.boundary.entry(link_index(sender, dir)).or_default();
        frames.push_back((at, Frame::Credit { vc: Vc::ALL[vc] }));
    }

    /// A packet has come over a boundary link into this fabric.
    pub(crate) fn count_received(&mut self, node: u32, dir: usize, flits: u16) {
        self.routers.count(node, dir, flits);
    }

    /// Links with exactly one end here, as their senders name them. [`Fabric::poll_transmit`]
    /// gives packets on those that leave and credits on those that arrive.
    pub fn boundary_links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        for node in 0..self.net.nodes as u32 {
            for dir in Direction::ALL {
                let far = self.net.neighbour(node, dir.index());
                if far != NONE && self.owned[node as usize] != self.owned[far as usize] {
                    links.push(Link { node, dir });
                }
            }
        }
        links
    }

    /// The next frame for the other end of a boundary link: when it arrives there, and what.
    pub fn poll_transmit(&mut self, link: Link) -> Option<(Tick, Frame)> {
        if self.on_hold {
            return None;
        }
        let index = link_index(link.node, link.dir.index());
        let (time, _) = self.boundary.get(&index)?.front()?;
        if self.waits(link, *time) {
            return None;
        }
        self.boundary.get_mut(&index)?.pop_front()
    }

    /// Takes a frame from the other end of a boundary link. A time that is not in the future counts as
    /// the next moment, but packets of one link keep their order in time: what flushes a link must be later than
    /// what it flushes.
    pub fn handle_frame(&mut self, link: Link, time: Tick, frame: Frame) -> Result<(), FrameError> {
        let far = self.net.neighbour(link.node, link.dir.index());
        if link.node as usize >= self.net.nodes || far == NONE {
            return Err(FrameError::Link(link));
        }
        if self.on_hold {
            return Ok(());
        }
        // What is due now has been done already.
        let at = time.max(self.now + 1);
        let index = link_index(link.node, link.dir.index());
        match frame {
            Frame::Gone { job, generation, from, to, vc, count } => {
                if self.owned[link.node as usize] || !self.owned[far as usize] {
                    return Err(FrameError::Link(link));
                }
                if from.max(to) as usize >= self.net.nodes || vc > 1 {
                    return Err(FrameError::Content("a node outside the network or no channel of packets"));
                }
                self.heard_gone(link, job, generation, (from, to, vc), count);
            }
            Frame::Credit { vc } => {
                if !self.owned[link.node as usize] || self.owned[far as usize] {
                    return Err(FrameError::Link(link));
                }
                let credits = self.routers.credits(link.node, link.dir.index(), vc as usize);
                if !self.slots.owes(credits, vc as usize, 1) {
                    return Err(FrameError::Content("a credit for a slot that is not in use"));
                }
                self.give_slots(link.node, link.dir.index(), vc as usize, 1, at);
            }
            Frame::Packet { vc, meta, flits, train } => {
                if self.owned[link.node as usize] || !self.owned[far as usize] {
                    return Err(FrameError::Link(link));
                }
                let mut p = self.decode(far, &meta, &flits, train).inspect_err(|e| {
                    if matches!(e, FrameError::Packet(packet::PacketError::Crc)) {
                        self.counters.count_damaged(index);
                    }
                })?;
                let latest = self.arrived.entry(index).or_default();
                p.ready = if time > self.now { time } else { at.max(*latest + 1) };
                *latest = p.ready;
                if self.generation(p.job) != meta.generation {
                    p.flags |= flag::DEAD;
                }
                self.count_received(link.node, link.dir.index(), p.flits);
                let h = self.packets.alloc(p);
                self.append(far, self.lay.arrival(link.dir.index(), vc as usize), h);
            }
        }
        Ok(())
    }
}
