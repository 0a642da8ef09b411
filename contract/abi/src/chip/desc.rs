//! 64-byte descriptors of a channel's DMA queue.
//!
//! | word | bits |
//! |---|---|
//! | q0 | `[31:0]` sequence · `[39:32]` operation · `[43:40]` class · `[47:44]` virtual channel · `[63:48]` flags |
//! | q1 | `[31:0]` length · `[41:32]` endpoint · `[55:48]` atomic operation · `[63:56]` operand width |
//! | q2 | local place: `[47:0]` offset · `[53:48]` region · `[63]` present |
//! | q3 | remote place, same form |
//! | q4 | `[31:0]` target coordinates · `[35:32]` TreeId · `[39:36]` ReduceId · `[43:40]` reduce operation · `[47:44]` element |
//! | q5 | completion place, same form: receives the sequence as a u64 when the result is in memory |
//! | q6 | operand, or inline data |
//! | q7 | comparand |
//!
//! Bits no field owns must be zero, so that a later version can give them a meaning.

use crate::account::{Class, READ_MAX, Traffic};
use crate::packet::{ReduceElem, ReduceOp, Vc};
use crate::{REDUCES, TREES};
use angara_net::torus::Coords;

pub use super::operations::{Answered, Counted, DMA_MAX, Facts, Moves, Op, Own};

/// Largest offset a region can have (48 bits).
pub const OFFSET_MAX: u64 = (1 << 48) - 1;

/// A memory region of a PE as the adapter names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum Region {
    /// Symmetric heap slice, the library's internal area first.
    Heap = 0,
    /// Symmetric static data.
    Static = 1,
    /// Staging and completion words of the owning PE; remote PEs cannot name it.
    Bounce = 2,
}

impl Region {
    /// Decodes a region code.
    pub fn from_bits(bits: u8) -> Option<Region> {
        [Region::Heap, Region::Static, Region::Bounce].get(bits as usize).copied()
    }
}

/// A byte position in a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Place {
    /// Which part of a PE's memory.
    pub region: Region,
    /// Bytes from the start of the region, 48 bits.
    pub offset: u64,
}

/// Atomics. `Add` and `Xor` without a result are the chip's own (paper 001); the others are
/// the service-processor extension OpenSHMEM needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum AmoOp {
    /// old + operand.
    Add = 0,
    /// old ^ operand.
    Xor = 1,
    /// old & operand.
    And = 2,
    /// old | operand.
    Or = 3,
    /// operand.
    Swap = 4,
    /// operand if old == comparand.
    CompareSwap = 5,
    /// old.
    Fetch = 6,
}

impl AmoOp {
    /// Decodes an atomic operation code.
    pub fn from_bits(bits: u8) -> Option<AmoOp> {
        use AmoOp::*;
        [Add, Xor, And, Or, Swap, CompareSwap, Fetch].get(bits as usize).copied()
    }
    /// Executed by the adapter itself when no result is wanted (AADD, AXOR packets).
    pub fn is_native(self) -> bool {
        matches!(self, AmoOp::Add | AmoOp::Xor)
    }
}

/// Bits of the flags field.
pub mod flags {
    /// A half-barrier (guarantees 1 and 3 of paper 001) instead of a full one.
    pub const HALF: u16 = 1 << 0;
    /// Result of a reduction goes to every participant.
    pub const ALL: u16 = 1 << 1;
    /// Packets may take the adaptive channel.
    pub const ADAPTIVE: u16 = 1 << 2;
    /// A get of 8 bytes is there to know that everything written before it is in memory.
    pub const FLUSH: u16 = 1 << 3;
    /// Every defined bit.
    pub const KNOWN: u16 = HALF | ALL | ADAPTIVE | FLUSH;
}

/// A validated descriptor. Fields an operation does not use are zero or `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// Position in the channel's post sequence.
    pub seq: u32,
    /// The operation.
    pub op: Op,
    /// Class under which its packets are counted.
    pub class: Class,
    /// Virtual channel of the request.
    pub vc: Vc,
    /// Bits of [`flags`].
    pub flags: u16,
    /// Bytes to move: of the data, or of the inline operand.
    pub len: u32,
    /// Target endpoint at the target node.
    pub endpoint: u16,
    /// Target node.
    pub dst: Coords,
    /// Operation of an atomic on the target word.
    pub amo: AmoOp,
    /// Bytes of an atomic's word: 4 or 8.
    pub width: u8,
    /// Own memory: source of a put, destination of a get, place of an atomic's old value.
    pub local: Option<Place>,
    /// Memory of the target.
    pub remote: Option<Place>,
    /// Own word that receives `seq` on completion.
    pub completion: Option<Place>,
    /// TreeId of a collective, below 16.
    pub tree: u8,
    /// ReduceId of a reduction, below 16.
    pub reduce: u8,
    /// How a reduction combines.
    pub reduce_op: ReduceOp,
    /// Element of a reduction.
    pub elem: ReduceElem,
    /// First operand of an atomic, or up to 8 bytes of inline data, the first byte lowest.
    pub operand: u64,
    /// Comparand of a compare-and-swap.
    pub comparand: u64,
}

impl Descriptor {
    /// A descriptor of `op` with everything else empty.
    pub fn new(op: Op) -> Descriptor {
        Descriptor {
            seq: 0,
            op,
            class: Class::Sync,
            vc: Vc::Request,
            flags: 0,
            len: 0,
            endpoint: 0,
            dst: Coords::default(),
            amo: AmoOp::Add,
            width: 0,
            local: None,
            remote: None,
            completion: None,
            tree: 0,
            reduce: 0,
            reduce_op: ReduceOp::Sum,
            elem: ReduceElem::I64,
            operand: 0,
            comparand: 0,
        }
    }
}

impl Descriptor {
    /// Returns what it puts on the network; `None` if a driver does not count it for its target.
    pub fn traffic(&self) -> Option<Traffic> {
        let bytes = self.bytes() as usize;
        Some(match self.op.facts().counted? {
            Counted::Put => Traffic::put(bytes),
            Counted::Get => Traffic::get(bytes),
            Counted::Amo => {
                let fetch = self.local.is_some();
                Traffic::amo(bytes, self.amo.is_native() && !fetch, fetch)
            }
        })
    }

    /// Bytes that it moves.
    #[inline]
    pub const fn bytes(&self) -> u32 {
        match self.op.facts().moves {
            Moves::Nothing => 0,
            Moves::Bytes(_) | Moves::Elements(_) => self.len,
            Moves::Word => self.width as u32,
        }
    }

    /// True if something comes back that tells of its end, so that its completion can be waited for.
    #[inline]
    pub const fn is_answered(&self) -> bool {
        match self.op.facts().answered {
            Answered::Never => false,
            Answered::Always => true,
            Answered::IntoOwn => self.local.is_some(),
        }
    }
}

/// Why a descriptor was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DescError {
    /// Unknown operation.
    #[error("unknown descriptor operation {0}")]
    Op(u8),
    /// Unknown accounting class.
    #[error("unknown class {0}")]
    Class(u8),
    /// Channel not allowed for the operation (paper 001: reads and atomics only on vc1).
    #[error("virtual channel {0} is not allowed for this operation")]
    Vc(u8),
    /// Undefined flags.
    #[error("undefined flags {0:#x}")]
    Flags(u16),
    /// Length outside what the operation takes.
    #[error("length {len} outside {min}..={max}")]
    Len {
        /// Bytes given.
        len: u32,
        /// Fewest bytes allowed.
        min: u32,
        /// Most bytes allowed.
        max: u32,
    },
    /// Unknown atomic.
    #[error("unknown atomic operation {0}")]
    Amo(u8),
    /// Atomic width other than 4 or 8.
    #[error("atomic width {0}, expected 4 or 8")]
    Width(u8),
    /// Atomic target not a multiple of its width.
    #[error("atomic at offset {0:#x} is not aligned to its width")]
    Align(u64),
    /// Region unknown or not allowed there.
    #[error("region {0} is not allowed here")]
    Region(u8),
    /// A place the operation needs is missing.
    #[error("the {0} place is missing")]
    Missing(&'static str),
    /// Place word with undefined bits.
    #[error("place {0:#x} has undefined bits")]
    Place(u64),
    /// A bit that no field owns is set.
    #[error("descriptor word {0} has undefined bits {1:#x}")]
    Reserved(usize, u64),
    /// Unknown reduce operation.
    #[error("unknown reduce operation {0}")]
    ReduceOp(u8),
    /// Unknown reduce element.
    #[error("unknown reduce element {0}")]
    ReduceElem(u8),
}

const PRESENT: u64 = 1 << 63;

fn place_word(p: Option<Place>) -> u64 {
    p.map_or(0, |p| PRESENT | (p.region as u64) << 48 | p.offset & OFFSET_MAX)
}

fn place(word: u64) -> Result<Option<Place>, DescError> {
    if word & PRESENT == 0 {
        return if word == 0 { Ok(None) } else { Err(DescError::Place(word)) };
    }
    if word & !(PRESENT | 0x3f << 48 | OFFSET_MAX) != 0 {
        return Err(DescError::Place(word));
    }
    let bits = (word >> 48 & 0x3f) as u8;
    let region = Region::from_bits(bits).ok_or(DescError::Region(bits))?;
    Ok(Some(Place { region, offset: word & OFFSET_MAX }))
}

/// The eight words of a descriptor as they lie in the queue.
pub type Words = [u64; 8];

impl Descriptor {
    /// The words to post.
    pub fn encode(&self) -> Words {
        [
            self.seq as u64
                | (self.op as u64) << 32
                | (self.class as u64) << 40
                | (self.vc as u64) << 44
                | (self.flags as u64) << 48,
            self.len as u64
                | (self.endpoint as u64 & 0x3ff) << 32
                | (self.amo as u64) << 48
                | (self.width as u64) << 56,
            place_word(self.local),
            place_word(self.remote),
            u32::from_le_bytes(self.dst.0) as u64
                | (self.tree as u64 & 15) << 32
                | (self.reduce as u64 & 15) << 36
                | (self.reduce_op as u64) << 40
                | (self.elem as u64) << 44,
            place_word(self.completion),
            self.operand,
            self.comparand,
        ]
    }

    /// Reads and validates words a client wrote. Everything that does not depend on the job
    /// (does the endpoint exist, is the range inside the region) is checked here.
    pub fn decode(w: &Words) -> Result<Descriptor, DescError> {
        for (word, undefined) in [(1, 0x3f << 42), (4, 0xffff << 48)] {
            if w[word] & undefined != 0 {
                return Err(DescError::Reserved(word, w[word] & undefined));
            }
        }
        let op_bits = (w[0] >> 32) as u8;
        let op = Op::from_bits(op_bits).ok_or(DescError::Op(op_bits))?;
        let class_bits = (w[0] >> 40 & 15) as u8;
        let vc_bits = (w[0] >> 44 & 15) as u8;
        let amo_bits = (w[1] >> 48) as u8;
        let (rop_bits, elem_bits) = ((w[4] >> 40 & 15) as u8, (w[4] >> 44 & 15) as u8);
        let d = Descriptor {
            seq: w[0] as u32,
            op,
            class: Class::from_bits(class_bits).ok_or(DescError::Class(class_bits))?,
            vc: Vc::from_bits(vc_bits).ok_or(DescError::Vc(vc_bits))?,
            flags: (w[0] >> 48) as u16,
            len: w[1] as u32,
            endpoint: (w[1] >> 32 & 0x3ff) as u16,
            dst: Coords((w[4] as u32).to_le_bytes()),
            amo: AmoOp::from_bits(amo_bits).ok_or(DescError::Amo(amo_bits))?,
            width: (w[1] >> 56) as u8,
            local: place(w[2])?,
            remote: place(w[3])?,
            completion: place(w[5])?,
            tree: (w[4] >> 32 & 15) as u8,
            reduce: (w[4] >> 36 & 15) as u8,
            reduce_op: ReduceOp::from_bits(rop_bits).ok_or(DescError::ReduceOp(rop_bits))?,
            elem: ReduceElem::from_bits(elem_bits).ok_or(DescError::ReduceElem(elem_bits))?,
            operand: w[6],
            comparand: w[7],
        };
        d.validate()?;
        Ok(d)
    }

    fn validate(&self) -> Result<(), DescError> {
        if self.flags & !flags::KNOWN != 0 {
            return Err(DescError::Flags(self.flags));
        }
        let facts = self.op.facts();
        match facts.moves {
            Moves::Nothing => {}
            Moves::Bytes(max) | Moves::Elements(max) => {
                if !(1..=max).contains(&(self.len as usize)) {
                    return Err(DescError::Len { len: self.len, min: 1, max: max as u32 });
                }
            }
            Moves::Word => {
                if !matches!(self.width, 4 | 8) {
                    return Err(DescError::Width(self.width));
                }
            }
        }
        match facts.own {
            Own::Unused | Own::OldValue => {}
            Own::Source | Own::Destination => {
                self.local.ok_or(DescError::Missing("local"))?;
            }
        }
        if facts.remote {
            let remote = self.remote.ok_or(DescError::Missing("remote"))?;
            if remote.region == Region::Bounce {
                return Err(DescError::Region(Region::Bounce as u8));
            }
            if facts.moves == Moves::Word && !remote.offset.is_multiple_of(self.width as u64) {
                return Err(DescError::Align(remote.offset));
            }
        }
        if matches!(facts.moves, Moves::Elements(_)) && !(self.len as usize).is_multiple_of(self.elem.bytes()) {
            return Err(DescError::Width(self.elem.bytes() as u8));
        }
        if self.vc == Vc::Request || self.vc == Vc::Response && facts.may_overtake {
            Ok(())
        } else {
            Err(DescError::Vc(self.vc as u8))
        }
    }
}

const _: () = assert!(size_of::<Words>() == 64);
const _: () = assert!(TREES == 16 && REDUCES == 16, "four-bit fields");
const _: () = assert!(READ_MAX < 1 << 16, "READ_REQ length field");
