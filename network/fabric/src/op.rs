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
    /// Bytes that come with the operation.
    fn carried(&self) -> usize {
        match self {
            Source::Inline(bytes) => bytes.len(),
            Source::Memory { .. } | Source::Length(_) => 0,
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

    /// All that is said of the operation, a row for each. Everybody else asks the methods below.
    #[inline(always)]
    fn facts(&self) -> Facts<'_, S> {
        match *self {
            Op::Write { to, ref source, .. } => {
                Facts { moves: Moves::Source(source), to: Some(to), by: By::Pieces, ends: Ends::Injected }
            }
            Op::Read { to, len, .. } => {
                let ends = Ends::Answered(to, Answer::Data);
                Facts { moves: Moves::Bytes(len), to: Some(to), by: By::Pieces, ends }
            }
            Op::Flush { to, .. } => {
                let ends = Ends::Answered(to, Answer::Flushed);
                Facts { moves: Moves::Bytes(FLUSH_BYTES), to: Some(to), by: By::Pieces, ends }
            }
            Op::Amo { to, width, result, .. } => {
                let ends = if result.is_some() { Ends::Answered(to, Answer::OldValue) } else { Ends::Injected };
                Facts { moves: Moves::Bytes(width as u32), to: Some(to), by: By::OnePacket, ends }
            }
            Op::Fence => Facts { moves: Moves::Bytes(0), to: None, by: By::Nothing, ends: Ends::Reported },
            Op::Barrier { half } => {
                let by = By::Together(Meeting::Barrier { half });
                Facts { moves: Moves::Bytes(0), to: None, by, ends: Ends::Reported }
            }
            Op::Reduce { tree, to, ref source, .. } => {
                let by = By::Together(Meeting::Reduce { tree });
                Facts { moves: Moves::Source(source), to, by, ends: Ends::Reported }
            }
            Op::Bcast { tree, ref source, .. } => {
                let by = By::Together(Meeting::Bcast { tree });
                Facts { moves: Moves::Source(source), to: None, by, ends: Ends::Reported }
            }
        }
    }

    /// Where the bytes come from, if it brings some.
    #[inline]
    pub fn source(&self) -> Option<&S> {
        match self.facts().moves {
            Moves::Source(source) => Some(source),
            Moves::Bytes(_) => None,
        }
    }

    /// Whose memory it is for; `None` if not one other's.
    #[inline]
    pub fn target(&self) -> Option<Port> {
        self.facts().to
    }

    /// What it takes part in, if several ports do it together.
    #[inline]
    pub fn meeting(&self) -> Option<Meeting> {
        match self.facts().by {
            By::Together(meeting) => Some(meeting),
            By::Pieces | By::OnePacket | By::Nothing => None,
        }
    }

    /// How its port learns that it is over.
    #[inline]
    pub fn ends(&self) -> Ends {
        self.facts().ends
    }

    /// TreeId of a reduction or broadcast.
    #[inline]
    pub(crate) fn tree(&self) -> Option<u8> {
        match self.meeting()? {
            Meeting::Reduce { tree } | Meeting::Bcast { tree } => Some(tree),
            Meeting::Barrier { .. } => None,
        }
    }

    /// Bytes that it moves, given how many its source has.
    #[inline]
    pub(crate) fn len(&self, of_source: impl FnOnce(&S) -> u32) -> u32 {
        match self.facts().moves {
            Moves::Source(source) => of_source(source),
            Moves::Bytes(len) => len,
        }
    }

    /// Who answers it with bytes, as many as it moves, if somebody does.
    #[inline]
    pub(crate) fn answered_by(&self) -> Option<Port> {
        match self.facts().ends {
            Ends::Answered(by, _) => Some(by),
            Ends::Injected | Ends::Reported => None,
        }
    }

    /// True if the DMA engine may do it, piece by piece.
    #[inline]
    pub(crate) fn is_transfer(&self) -> bool {
        match self.facts().by {
            By::Pieces => true,
            By::OnePacket | By::Nothing | By::Together(_) => false,
        }
    }

    /// True if it may enter only when nothing of its port waits for memory.
    #[inline]
    pub(crate) fn waits_for_staging(&self) -> bool {
        match self.meeting() {
            Some(Meeting::Barrier { .. }) => true,
            Some(Meeting::Reduce { .. } | Meeting::Bcast { .. }) | None => false,
        }
    }

    /// Whom it flushes: when its answer is here, so is what was written there before.
    #[inline]
    pub(crate) fn flushes(&self) -> Option<Port> {
        match self.facts().ends {
            Ends::Answered(by, Answer::Flushed) => Some(by),
            Ends::Answered(_, Answer::Data | Answer::OldValue) | Ends::Injected | Ends::Reported => None,
        }
    }

    /// True if it brings data back into memory of its port.
    #[inline]
    pub fn is_read(&self) -> bool {
        match self.facts().ends {
            Ends::Answered(_, Answer::Data | Answer::Flushed) => true,
            Ends::Answered(_, Answer::OldValue) | Ends::Injected | Ends::Reported => false,
        }
    }
}

/// What there is to say of an operation.
struct Facts<'a, S> {
    moves: Moves<'a, S>,
    /// Whose memory it is for, if one port's.
    to: Option<Port>,
    by: By,
    ends: Ends,
}

/// How much it moves.
enum Moves<'a, S> {
    /// What its source has.
    Source(&'a S),
    /// N bytes, none of which it brings.
    Bytes(u32),
}

/// How it is done.
enum By {
    /// By packets, as many as it takes; the DMA engine does it if one is not enough.
    Pieces,
    /// By one packet.
    OnePacket,
    /// It only makes others wait.
    Nothing,
    /// By several ports.
    Together(Meeting),
}

/// What several ports take part in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meeting {
    /// The barrier of their job.
    Barrier {
        /// A half one.
        half: bool,
    },
    /// A reduction.
    Reduce {
        /// TreeId.
        tree: u8,
    },
    /// A broadcast.
    Bcast {
        /// TreeId.
        tree: u8,
    },
}

/// How a port learns that an operation is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// Its packets are in the network; nobody acknowledges them.
    Injected,
    /// Bytes come back from this port. It fails when they cannot come any more.
    Answered(Port, Answer),
    /// The network says so.
    Reported,
}

/// What an answer brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Data for memory of the port that asked.
    Data,
    /// The same, behind everything that this port has written there before.
    Flushed,
    /// What an atomic has found.
    OldValue,
}

impl Op<Source<'_>> {
    /// Checks all that can be said of the operation without a network.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let wrong = match self {
            Op::Write { vc: Vc::Adaptive | Vc::Up | Vc::Down, .. } => "a write goes on vc0 or vc1",
            Op::Write { source, .. } if source.is_empty() || source.carried() > PAYLOAD_MAX => {
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
            // Every operation by name: of a new one somebody says whether anything is to be refused.
            Op::Write { .. } | Op::Read { .. } | Op::Flush { .. } | Op::Amo { .. } => return Ok(()),
            Op::Fence | Op::Barrier { .. } | Op::Reduce { .. } | Op::Bcast { .. } => return Ok(()),
        };
        Err(wrong)
    }
}
