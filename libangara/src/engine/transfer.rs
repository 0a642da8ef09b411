//! Description of an operation, whichever engine carries it out.

use angara_abi::account::{Class, READ_MAX, Traffic};
use angara_abi::desc::{AmoOp, Place};

/// Bytes of a PE that an operation writes or reads.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    /// Class under which it is counted.
    pub(crate) class: Class,
    /// Whose bytes.
    pub(crate) pe: usize,
    /// Where they begin.
    pub(crate) place: Place,
    /// How many.
    pub(crate) len: usize,
}

/// When a put or a get returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A put when its source may be reused, a get when its data is there.
    Blocking,
    /// At once, if it can; the next quiet ends it.
    Nonblocking,
}

/// One atomic on a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amo {
    /// Operation on the word.
    pub op: AmoOp,
    /// Bytes of the word, 4 or 8.
    pub width: u8,
    /// Operand.
    pub operand: u64,
    /// Comparand of a compare-and-swap.
    pub comparand: u64,
    /// The old value comes back.
    pub fetch: bool,
}

impl Amo {
    /// Returns what it puts on the network.
    #[inline(always)]
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic::amo(self.width as usize, self.op.is_native() && !self.fetch, self.fetch)
    }
}

/// Blocks of equal size at equal distances, all in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Strided {
    /// Number of blocks.
    pub count: usize,
    /// Bytes of one block.
    pub block: usize,
    /// Bytes from the start of one block to the next where they go.
    pub to_step: usize,
    /// Bytes from the start of one block to the next where they come from.
    pub from_step: usize,
}

/// Bytes that one request for blocks and their gaps asks for at most, if a block is not larger.
const SPAN_MAX: usize = 4 * READ_MAX;

impl Strided {
    /// There is nothing to move.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 || self.block == 0
    }

    /// Bytes from the start of the first block to the end of the last where they go; there is one at least.
    pub fn to_extent(&self) -> usize {
        (self.count - 1).saturating_mul(self.to_step).saturating_add(self.block)
    }

    /// [`Strided::to_extent`] where the blocks come from.
    pub fn from_extent(&self) -> usize {
        (self.count - 1).saturating_mul(self.from_step).saturating_add(self.block)
    }

    /// Reading all of it puts no more flits on a link than a request and an answer for each block.
    pub(crate) fn is_worth_the_gaps(&self) -> bool {
        let flits = |t: Traffic| t.out.flits + t.back.flits;
        let apart = flits(Traffic::get(self.block)).saturating_mul(self.count as u64);
        self.count > 1 && self.from_step >= self.block && flits(Traffic::get(self.from_extent())) <= apart
    }

    /// Blocks that are read together with the gaps between them.
    pub(crate) fn at_once(&self) -> usize {
        SPAN_MAX.saturating_sub(self.block) / self.from_step.max(1) + 1
    }
}

/// The place `by` bytes further.
pub(crate) fn forward(place: Place, by: usize) -> Place {
    Place { offset: place.offset + by as u64, ..place }
}
