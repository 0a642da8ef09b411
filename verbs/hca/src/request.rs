//! Work requests.

use crate::pair::PathAttributes;
use smallvec::SmallVec;

/// Bytes of a request in registered memory: a scatter/gather element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element {
    /// Address in the region.
    pub at: u64,
    /// Bytes.
    pub len: u32,
    /// Key of the region.
    pub key: u32,
}

/// Where the bytes of a request are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// In the request.
    Inline(bytes::Bytes),
    /// In registered memory.
    Elements(SmallVec<[Element; 2]>),
}

/// What a send request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // fields of `struct ibv_send_wr`
pub enum Operation {
    Send { imm: Option<u32> },
    Datagram { to: PathAttributes, qp: u32, qkey: u32, imm: Option<u32> },
    Write { at: u64, key: u32, imm: Option<u32> },
    Read { at: u64, key: u32 },
    FetchAdd { at: u64, key: u32, add: u64 },
    CompareSwap { at: u64, key: u32, compare: u64, swap: u64 },
}

/// A request of the send queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendRequest {
    /// The program's number for it.
    pub wr_id: u64,
    /// What to do.
    pub operation: Operation,
    /// With which bytes.
    pub payload: Payload,
    /// It makes a completion also if it succeeds.
    pub signaled: bool,
    /// It begins after all reads and atomics before it.
    pub fence: bool,
    /// Its receiver is woken also if that waits for solicited events only.
    pub solicited: bool,
}

/// A request of a receive queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiveRequest {
    /// The program's number for it.
    pub wr_id: u64,
    /// Where the bytes go.
    pub elements: SmallVec<[Element; 2]>,
}

/// An atomic operation on a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atomic {
    /// Adds.
    Add(u64),
    /// Stores `swap` where `compare` is.
    Swap {
        /// The word that is replaced.
        compare: u64,
        /// What replaces it.
        swap: u64,
    },
}

impl Atomic {
    /// The new word.
    pub fn apply(self, old: u64) -> u64 {
        match self {
            Atomic::Add(add) => old.wrapping_add(add),
            Atomic::Swap { compare, swap } if compare == old => swap,
            Atomic::Swap { .. } => old,
        }
    }
}
