//! Packets: one header flit, up to 16 data flits, one tail flit with the CRC.
//!
//! Bit positions are in `docs/reference/registers.md`. What is known of the chip: 128-bit flits, routing
//! information, type, collective operation, TreeId and ReduceId in the header flit, the checksum
//! in the last flit, numbered packets (papers 000 section 2 and 002 section 2). The rest is ours.

use crate::{FLIT_BYTES, PACKET_FLITS_MAX, PAYLOAD_MAX};
use angara_net::torus::{Coords, Direction};

/// One 128-bit flit, as it lies in memory (little-endian).
pub type Flit = u128;

/// Types of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum PacketType {
    /// Link-local control (acknowledge, not-acknowledge, credits).
    Ctrl = 0,
    /// Write payload into the target's memory; unacknowledged.
    Write = 1,
    /// Ask for memory; answered by [`PacketType::ReadRsp`].
    ReadReq = 2,
    /// Data answering a read or a fetching atomic.
    ReadRsp = 3,
    /// Add an operand to a word; no answer.
    AtomicAdd = 4,
    /// Exclusive-or an operand into a word; no answer.
    AtomicXor = 5,
    /// Broadcast on its way to the root.
    BcastUp = 6,
    /// Broadcast on its way from the root.
    BcastDown = 7,
    /// Contribution to a reduction.
    Reduce = 8,
    /// Collective credits.
    CollCredit = 9,
    /// Service-processor extension: the atomics the chip lacks (see [`crate::desc::AmoOp`]).
    Service = 10,
    /// Multiphase-barrier special.
    Barrier = 11,
}

impl PacketType {
    /// Decodes the 4-bit type field.
    pub fn from_bits(bits: u8) -> Option<PacketType> {
        use PacketType::*;
        [Ctrl, Write, ReadReq, ReadRsp, AtomicAdd, AtomicXor, BcastUp, BcastDown, Reduce, CollCredit, Service, Barrier]
            .get(bits as usize)
            .copied()
    }
}

/// Virtual channels of one link direction (paper 002, section 2; names of paper 001).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum Vc {
    /// vc0, "non-blocking": read responses and writes that may overtake vc1.
    Response = 0,
    /// vc1, "blocking": requests, atomics and ordered writes.
    Request = 1,
    /// Minimal adaptive with escape into the class channel.
    Adaptive = 2,
    /// Collective subnet, towards the root.
    Up = 3,
    /// Collective subnet, from the root.
    Down = 4,
}

impl Vc {
    /// Every channel, by index.
    pub const ALL: [Vc; 5] = [Vc::Response, Vc::Request, Vc::Adaptive, Vc::Up, Vc::Down];
    /// Decodes the 3-bit channel field.
    pub fn from_bits(bits: u8) -> Option<Vc> {
        Vc::ALL.get(bits as usize).copied()
    }
}

/// A relaxed first or last hop (FS/LS): the direction to take outside direction order.
pub type Detour = Option<Direction>;

/// Everything in a header flit. `address` is the 64-bit upper half: a memory address
/// (endpoint, region, offset) or, for collective types, the tree overlay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Type of the packet.
    pub kind: PacketType,
    /// Data flits that follow, 0..=16.
    pub data_flits: u8,
    /// Virtual channel it was injected on.
    pub vc: Vc,
    /// May leave its deterministic route for the adaptive channel.
    pub adaptive: bool,
    /// The target's adapter reports the delivery to its host.
    pub notify: bool,
    /// Directions still to travel, one bit each in routing order.
    pub dirbits: u8,
    /// First step still pending.
    pub first_step: Detour,
    /// Last step still pending.
    pub last_step: Detour,
    /// Target node.
    pub dst: Coords,
    /// Target address or collective overlay.
    pub address: Address,
}

/// The upper half of a header flit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address {
    /// A place in the memory of an endpoint at the target node.
    Memory {
        /// Endpoint (injection/ejection channel) at the node, 10 bits.
        endpoint: u16,
        /// Memory region of that endpoint, 6 bits (see [`crate::desc::Region`]).
        region: u8,
        /// Byte offset in the region, 48 bits.
        offset: u64,
    },
    /// Collective overlay: types 6 to 9.
    Tree {
        /// TreeId 0..16.
        tree: u8,
        /// ReduceId 0..16.
        reduce: u8,
        /// Operation.
        op: ReduceOp,
        /// Element type.
        elem: ReduceElem,
        /// Result goes to every participant (else to one node).
        all: bool,
        /// Destination offset in the heap region of every receiver.
        offset: u64,
    },
}

/// Operations of the hardware reducer (paper 000, section 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum ReduceOp {
    /// Sum.
    Sum = 0,
    /// Maximum.
    Max = 1,
    /// Minimum.
    Min = 2,
}

/// Integer element types of the hardware reducer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum ReduceElem {
    /// Signed 32 bits.
    I32 = 0,
    /// Unsigned 32 bits.
    U32 = 1,
    /// Signed 64 bits.
    I64 = 2,
    /// Unsigned 64 bits.
    U64 = 3,
}

impl ReduceOp {
    /// Decodes the 2-bit (of 3) operation field.
    pub fn from_bits(bits: u8) -> Option<ReduceOp> {
        [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min].get(bits as usize).copied()
    }
}

impl ReduceElem {
    /// Decodes the 2-bit element field.
    pub fn from_bits(bits: u8) -> Option<ReduceElem> {
        [ReduceElem::I32, ReduceElem::U32, ReduceElem::I64, ReduceElem::U64].get(bits as usize).copied()
    }
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            ReduceElem::I32 | ReduceElem::U32 => 4,
            ReduceElem::I64 | ReduceElem::U64 => 8,
        }
    }
}

/// Why flits were not a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PacketError {
    /// Reserved type code.
    #[error("reserved packet type {0}")]
    Type(u8),
    /// Reserved virtual channel.
    #[error("reserved virtual channel {0}")]
    Vc(u8),
    /// More than 16 data flits.
    #[error("{0} data flits, at most 16 fit a packet")]
    DataFlits(u8),
    /// Reserved collective operation.
    #[error("reserved reduce operation {0}")]
    ReduceOp(u8),
    /// Version field does not match this layout.
    #[error("packet layout version {0}")]
    Version(u8),
    /// A field that must be zero is not.
    #[error("reserved bits set")]
    Reserved,
    /// Number of flits disagrees with the header.
    #[error("{have} flits where the header announces {want}")]
    Length {
        /// Flits at hand.
        have: usize,
        /// Flits announced.
        want: usize,
    },
    /// Checksum mismatch.
    #[error("CRC-32C mismatch")]
    Crc,
    /// Valid-byte bounds in the tail are impossible.
    #[error("valid-byte bounds {0}..={1} impossible")]
    ByteBounds(u8, u8),
}

const LAYOUT_VERSION: u8 = 0;

fn put(word: &mut u128, at: u32, bits: u32, value: u128) {
    debug_assert!(bits == 128 || value < 1 << bits, "value {value:#x} wider than {bits} bits");
    *word |= value << at;
}

fn take(word: u128, at: u32, bits: u32) -> u128 {
    (word >> at) & ((1 << bits) - 1)
}

fn detour_bits(step: Detour) -> u128 {
    step.map_or(0, |d| 8 | d.index() as u128)
}

fn detour(bits: u128) -> Result<Detour, PacketError> {
    match bits {
        0 => Ok(None),
        8..16 => Ok(Direction::from_index(bits as usize & 7)),
        _ => Err(PacketError::Reserved),
    }
}

impl Header {
    /// Flits of the whole packet: header, data, tail.
    pub fn flits(&self) -> usize {
        self.data_flits as usize + 2
    }

    /// The header flit.
    pub fn encode(&self) -> Flit {
        let mut h = 0;
        put(&mut h, 0, 4, self.kind as u128);
        put(&mut h, 4, 5, self.data_flits as u128);
        put(&mut h, 9, 3, self.vc as u128);
        put(&mut h, 12, 1, self.adaptive as u128);
        put(&mut h, 13, 1, self.notify as u128);
        put(&mut h, 14, 2, LAYOUT_VERSION as u128);
        put(&mut h, 16, 8, self.dirbits as u128);
        put(&mut h, 24, 4, detour_bits(self.first_step));
        put(&mut h, 28, 4, detour_bits(self.last_step));
        put(&mut h, 32, 32, u32::from_le_bytes(self.dst.0) as u128);
        match self.address {
            Address::Memory { endpoint, region, offset } => {
                put(&mut h, 64, 10, endpoint as u128);
                put(&mut h, 74, 6, region as u128);
                put(&mut h, 80, 48, offset as u128);
            }
            Address::Tree { tree, reduce, op, elem, all, offset } => {
                put(&mut h, 64, 4, tree as u128);
                put(&mut h, 68, 4, reduce as u128);
                put(&mut h, 72, 3, op as u128);
                put(&mut h, 75, 2, elem as u128);
                put(&mut h, 77, 1, all as u128);
                put(&mut h, 80, 48, offset as u128);
            }
        }
        h
    }

    /// Reads a header flit, refusing every reserved value.
    pub fn decode(h: Flit) -> Result<Header, PacketError> {
        let kind_bits = take(h, 0, 4) as u8;
        let kind = PacketType::from_bits(kind_bits).ok_or(PacketError::Type(kind_bits))?;
        let data_flits = take(h, 4, 5) as u8;
        if data_flits > 16 {
            return Err(PacketError::DataFlits(data_flits));
        }
        let vc_bits = take(h, 9, 3) as u8;
        let version = take(h, 14, 2) as u8;
        if version != LAYOUT_VERSION {
            return Err(PacketError::Version(version));
        }
        let offset = take(h, 80, 48) as u64;
        let address = match kind {
            PacketType::BcastUp | PacketType::BcastDown | PacketType::Reduce | PacketType::CollCredit => {
                let op_bits = take(h, 72, 3) as u8;
                if take(h, 78, 2) != 0 {
                    return Err(PacketError::Reserved);
                }
                Address::Tree {
                    tree: take(h, 64, 4) as u8,
                    reduce: take(h, 68, 4) as u8,
                    op: ReduceOp::from_bits(op_bits).ok_or(PacketError::ReduceOp(op_bits))?,
                    elem: ReduceElem::from_bits(take(h, 75, 2) as u8).expect("two bits name four types"),
                    all: take(h, 77, 1) != 0,
                    offset,
                }
            }
            _ => Address::Memory { endpoint: take(h, 64, 10) as u16, region: take(h, 74, 6) as u8, offset },
        };
        Ok(Header {
            kind,
            data_flits,
            vc: Vc::from_bits(vc_bits).ok_or(PacketError::Vc(vc_bits))?,
            adaptive: take(h, 12, 1) != 0,
            notify: take(h, 13, 1) != 0,
            dirbits: take(h, 16, 8) as u8,
            first_step: detour(take(h, 24, 4))?,
            last_step: detour(take(h, 28, 4))?,
            dst: Coords((take(h, 32, 32) as u32).to_le_bytes()),
            address,
        })
    }
}

/// Everything in a tail flit except the checksum, which [`seal`] computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tail {
    /// Link sequence number, rewritten at each hop.
    pub link_seq: u16,
    /// Node that injected the packet (low 16 bits of its id).
    pub src: u16,
    /// First valid byte of the first data flit.
    pub first_byte: u8,
    /// Last valid byte of the last data flit (15 if there is no data).
    pub last_byte: u8,
    /// End-to-end CRC-32C over the data, 0 when unused.
    pub end_crc: u32,
    /// In the injection ring: low 24 bits of the post's sequence number. On a link: trace id.
    pub tag: u32,
}

impl Tail {
    /// The tail flit with a zero checksum field.
    pub fn encode(&self) -> Flit {
        let mut t = 0;
        put(&mut t, 32, 16, self.link_seq as u128);
        put(&mut t, 48, 16, self.src as u128);
        put(&mut t, 64, 4, (self.first_byte & 15) as u128);
        put(&mut t, 68, 4, (self.last_byte & 15) as u128);
        put(&mut t, 72, 32, self.end_crc as u128);
        put(&mut t, 104, 24, (self.tag & 0xff_ffff) as u128);
        t
    }
    /// Reads a tail flit; the checksum is checked by [`check`].
    pub fn decode(t: Flit) -> Tail {
        Tail {
            link_seq: take(t, 32, 16) as u16,
            src: take(t, 48, 16) as u16,
            first_byte: take(t, 64, 4) as u8,
            last_byte: take(t, 68, 4) as u8,
            end_crc: take(t, 72, 32) as u32,
            tag: take(t, 104, 24) as u32,
        }
    }
    /// Payload bytes of a packet with `data_flits` data flits.
    pub fn payload_bytes(&self, data_flits: u8) -> Result<usize, PacketError> {
        if data_flits == 0 {
            return Ok(0);
        }
        let end = (data_flits as usize - 1) * FLIT_BYTES + self.last_byte as usize + 1;
        end.checked_sub(self.first_byte as usize)
            .filter(|&n| n > 0)
            .ok_or(PacketError::ByteBounds(self.first_byte, self.last_byte))
    }
}

/// CRC-32C (Castagnoli) of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

fn link_crc(flits: &[Flit]) -> u32 {
    let mut bytes = [0u8; PACKET_FLITS_MAX * FLIT_BYTES];
    let mut n = 0;
    for (i, flit) in flits.iter().enumerate() {
        let last = i + 1 == flits.len();
        let flit = if last { flit & !0xffff_ffff } else { *flit };
        bytes[n..n + FLIT_BYTES].copy_from_slice(&flit.to_le_bytes());
        n += FLIT_BYTES;
    }
    crc32c(&bytes[..n])
}

/// Fills in the checksum of the packet in `flits` (2 to 18 flits, the last one its tail).
pub fn seal(flits: &mut [Flit]) {
    debug_assert!((2..=PACKET_FLITS_MAX).contains(&flits.len()));
    let crc = link_crc(flits);
    if let Some(tail) = flits.last_mut() {
        *tail = (*tail & !0xffff_ffff) | crc as u128;
    }
}

/// Decodes and checks a whole packet: header, length, checksum, byte bounds.
pub fn check(flits: &[Flit]) -> Result<(Header, Tail), PacketError> {
    let header = Header::decode(*flits.first().ok_or(PacketError::Length { have: 0, want: 2 })?)?;
    if flits.len() != header.flits() {
        return Err(PacketError::Length { have: flits.len(), want: header.flits() });
    }
    let tail_flit = flits[flits.len() - 1];
    if link_crc(flits) != tail_flit as u32 {
        return Err(PacketError::Crc);
    }
    let tail = Tail::decode(tail_flit);
    tail.payload_bytes(header.data_flits)?;
    Ok((header, tail))
}

/// Data flits that `bytes` payload bytes occupy (`bytes` ≤ 256).
pub const fn data_flits(bytes: usize) -> usize {
    debug_assert!(bytes <= PAYLOAD_MAX);
    bytes.div_ceil(FLIT_BYTES)
}

/// The data flit of a READ_REQ a driver writes into its injection ring: `[47:0]` return offset,
/// `[53:48]` return region, `[79:64]` length in bytes. The adapter adds who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadOperand {
    /// Byte offset where the answer goes at the reader.
    pub offset: u64,
    /// Region of that place (see [`crate::desc::Region`]).
    pub region: u8,
    /// Bytes to read.
    pub len: u16,
}

impl ReadOperand {
    /// The data flit.
    pub fn encode(&self) -> Flit {
        let mut d = 0;
        put(&mut d, 0, 48, self.offset as u128);
        put(&mut d, 48, 6, self.region as u128);
        put(&mut d, 64, 16, self.len as u128);
        d
    }
    /// Reads a data flit, refusing reserved bits.
    pub fn decode(d: Flit) -> Result<ReadOperand, PacketError> {
        if take(d, 54, 10) != 0 || take(d, 80, 48) != 0 {
            return Err(PacketError::Reserved);
        }
        Ok(ReadOperand { offset: take(d, 0, 48) as u64, region: take(d, 48, 6) as u8, len: take(d, 64, 16) as u16 })
    }
}

/// The data flit of an atomic in the injection ring: `[63:0]` operand, `[67:64]` width (4 or 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicOperand {
    /// Operand, in the low `width` bytes.
    pub operand: u64,
    /// Bytes of the word: 4 or 8.
    pub width: u8,
}

impl AtomicOperand {
    /// The data flit.
    pub fn encode(&self) -> Flit {
        let mut d = 0;
        put(&mut d, 0, 64, self.operand as u128);
        put(&mut d, 64, 4, self.width as u128);
        d
    }
    /// Reads a data flit, refusing reserved bits.
    pub fn decode(d: Flit) -> Result<AtomicOperand, PacketError> {
        if take(d, 68, 60) != 0 {
            return Err(PacketError::Reserved);
        }
        Ok(AtomicOperand { operand: d as u64, width: take(d, 64, 4) as u8 })
    }
}

/// Packs `payload` (at most 256 bytes) into data flits from byte 0 and returns how many.
pub fn pack(payload: &[u8], out: &mut [Flit]) -> usize {
    let n = data_flits(payload.len());
    for (flit, chunk) in out.iter_mut().zip(payload.chunks(FLIT_BYTES)) {
        let mut bytes = [0; FLIT_BYTES];
        bytes[..chunk.len()].copy_from_slice(chunk);
        *flit = Flit::from_le_bytes(bytes);
    }
    n
}
