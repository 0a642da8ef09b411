//! Operations: what a port posts. All that differs between them and needs no network stands here.

use crate::types::Port;
use angara_abi::PAYLOAD_MAX;
use angara_abi::desc::{AmoOp, Place};
use angara_abi::packet::{ReduceElem, ReduceOp, Vc};

/// Bytes that a flush reads.
const FLUSH_BYTES: u32 = 8;

/// Where the bytes of a write, reduction or broadcast come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source<'a> {
    /// At most 256 bytes, copied now.
    Inline(&'a [u8]),
    /// Memory of the injecting port, asked for packet by packet with [`Effect::Fetch`].
    Memory {
        /// First byte.
        place: Place,
        /// Bytes.
        len: u32,
    },
    /// No data, only a length (simulation).
    Length(u32),
}

impl Source<'_> {
    /// Bytes.
    pub fn len(&self) -> u32 {
        match *self {
            Source::Inline(b) => b.len() as u32,
            Source::Memory { len, .. } | Source::Length(len) => len,
        }
    }
    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An operation a port posts. `S` says where the bytes come from: a [`Source`] where it is posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op<S> {
    /// Write memory at `to`; unacknowledged.
    Write {
        /// Target.
        to: Port,
        /// Where, at the target.
        place: Place,
        /// The bytes.
        source: S,
        /// [`Vc::Request`] (ordered behind other requests) or [`Vc::Response`].
        vc: Vc,
        /// Packets may take the adaptive channel and then arrive in any order.
        adaptive: bool,
    },
    /// Read `len` bytes at `remote` of `to` into `local`.
    Read {
        /// Target.
        to: Port,
        /// First byte at the target.
        remote: Place,
        /// First byte here.
        local: Place,
        /// Bytes.
        len: u32,
    },
    /// Ends when everything that this port has written before on the deterministic way to `to` is in memory: a read of 8
    /// bytes behind it, or what [`crate::Quiet`] says.
    Flush {
        /// Target.
        to: Port,
        /// Place to read at the target.
        remote: Place,
        /// Where the data goes here.
        local: Place,
    },
    /// Atomic on one word. Add and xor without a result are the chip's own; the others are the
    /// service-processor extension.
    Amo {
        /// Target.
        to: Port,
        /// The word.
        place: Place,
        /// The operation.
        op: AmoOp,
        /// 4 or 8 bytes.
        width: u8,
        /// Operand.
        operand: u64,
        /// Comparand of [`AmoOp::CompareSwap`].
        comparand: u64,
        /// Where the old value goes here, if wanted.
        result: Option<Place>,
    },
    /// Later posts of this port wait until everything it posted before has been ejected.
    Fence,
    /// Enter the job's barrier. Later posts of this port wait until it may leave.
    Barrier {
        /// Half-barrier: K phases instead of 2K.
        half: bool,
    },
    /// Contribute to a reduction. ReduceIds of one tree must be used in sequence 0, 1 .. 15, 0 ..
    Reduce {
        /// TreeId.
        tree: u8,
        /// ReduceId.
        reduce: u8,
        /// Operation.
        op: ReduceOp,
        /// Element type.
        elem: ReduceElem,
        /// Receiver of the result; `None`: every participant.
        to: Option<Port>,
        /// Where the result goes at each receiver.
        place: Place,
        /// At most 256 bytes, a multiple of the element size.
        source: S,
    },
    /// Broadcast to every participant of a tree, this port included.
    Bcast {
        /// TreeId.
        tree: u8,
        /// Where the data goes at each participant.
        place: Place,
        /// At most 256 bytes.
        source: S,
    },
}

impl<S> Op<S> {
    /// The same operation with bytes from elsewhere.
    pub fn with_source<T>(self, other: impl FnOnce(S) -> T) -> Op<T> {
        match self {
            Op::Write { to, place, source, vc, adaptive } => {
                Op::Write { to, place, source: other(source), vc, adaptive }
            }
            Op::Read { to, remote, local, len } => Op::Read { to, remote, local, len },
            Op::Flush { to, remote, local } => Op::Flush { to, remote, local },
            Op::Amo { to, place, op, width, operand, comparand, result } => {
                Op::Amo { to, place, op, width, operand, comparand, result }
            }
            Op::Fence => Op::Fence,
            Op::Barrier { half } => Op::Barrier { half },
            Op::Reduce { tree, reduce, op, elem, to, place, source } => {
                Op::Reduce { tree, reduce, op, elem, to, place, source: other(source) }
            }
            Op::Bcast { tree, place, source } => Op::Bcast { tree, place, source: other(source) },
        }
    }

    /// Where the bytes come from, if it brings some.
    pub fn source(&self) -> Option<&S> {
        match self {
            Op::Write { source, .. } | Op::Reduce { source, .. } | Op::Bcast { source, .. } => Some(source),
            Op::Read { .. } | Op::Flush { .. } | Op::Amo { .. } | Op::Fence | Op::Barrier { .. } => None,
        }
    }

    /// Whose memory it is for; `None` if not one other's.
    pub fn target(&self) -> Option<Port> {
        match *self {
            Op::Write { to, .. } | Op::Read { to, .. } | Op::Flush { to, .. } | Op::Amo { to, .. } => Some(to),
            Op::Reduce { to, .. } => to,
            Op::Fence | Op::Barrier { .. } | Op::Bcast { .. } => None,
        }
    }

    /// TreeId of a reduction or broadcast.
    pub(crate) fn tree(&self) -> Option<u8> {
        match *self {
            Op::Reduce { tree, .. } | Op::Bcast { tree, .. } => Some(tree),
            _ => None,
        }
    }

    /// Bytes that it moves, given how many its source has.
    pub(crate) fn len(&self, of_source: impl FnOnce(&S) -> u32) -> u32 {
        match self {
            Op::Write { source, .. } | Op::Reduce { source, .. } | Op::Bcast { source, .. } => of_source(source),
            Op::Read { len, .. } => *len,
            Op::Flush { .. } => FLUSH_BYTES,
            Op::Amo { width, .. } => *width as u32,
            Op::Fence | Op::Barrier { .. } => 0,
        }
    }

    /// True if it ends with bytes that come back, as many as it moves.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self, Op::Read { .. } | Op::Flush { .. } | Op::Amo { result: Some(_), .. })
    }

    /// True if the DMA engine may do it, piece by piece.
    pub(crate) fn is_transfer(&self) -> bool {
        matches!(self, Op::Write { .. } | Op::Read { .. } | Op::Flush { .. })
    }

    /// True if it takes part in something collective.
    pub(crate) fn is_collective(&self) -> bool {
        matches!(self, Op::Barrier { .. } | Op::Reduce { .. } | Op::Bcast { .. })
    }

    /// True if it brings data back into memory of its port.
    pub fn is_read(&self) -> bool {
        matches!(self, Op::Read { .. } | Op::Flush { .. })
    }
}

impl Op<Source<'_>> {
    /// Checks all that can be said of the operation without a network.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let wrong = match self {
            Op::Write { vc, .. } if !matches!(vc, Vc::Request | Vc::Response) => "a write goes on vc0 or vc1",
            Op::Write { source, .. }
                if source.is_empty() || matches!(source, Source::Inline(b) if b.len() > PAYLOAD_MAX) =>
            {
                "a write needs at least 1 byte, and at most 256 inline"
            }
            Op::Read { len: 0, .. } => "a read needs at least 1 byte",
            Op::Amo { width, .. } if *width != 4 && *width != 8 => "an atomic is 4 or 8 bytes wide",
            Op::Reduce { source, .. } | Op::Bcast { source, .. }
                if source.is_empty() || source.len() > PAYLOAD_MAX as u32 =>
            {
                "a collective packet carries 1 to 256 bytes"
            }
            Op::Reduce { elem, source, .. } if !(source.len() as usize).is_multiple_of(elem.bytes()) => {
                "a reduction needs whole elements"
            }
            _ => return Ok(()),
        };
        Err(wrong)
    }
}
