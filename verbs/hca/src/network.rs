//! What an adapter stands on: the network between adapters, and the memory of the program.

use crate::Errno;
use crate::region::access;
use crate::request::Atomic;

/// Another adapter, or this one: one life of a seat of the job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer {
    /// Its PE number.
    pub seat: u32,
    /// Which life of the seat.
    pub generation: u32,
}

/// Bytes of the program: an address of the process that has them, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Address.
    pub at: u64,
    /// Bytes.
    pub len: u64,
}

/// Why a message was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotSent {
    /// There is no room: try again later.
    Full,
    /// The peer has left or was lost, or nothing can reach it.
    Gone,
}

/// What became of a copy between two processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// All bytes are there.
    Done,
    /// This pair of processes does not copy: the network has to carry it.
    NotHere,
    /// The target's key, range, rights or queue pair forbid it, or are not as the initiator believes: the target is to be asked.
    Refused,
    /// Memory that a key names is not there.
    Fault,
}

/// What this process copies by itself between its memory and another one's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copies {
    /// Nothing: messages carry all.
    Nothing,
    /// Between registered memory that both can be reached at: [`Memory::register`].
    Registered,
    /// Whatever is registered, and what the other one names.
    All,
}

/// The network that an adapter is at. Messages of a pair of adapters arrive once, whole, and in the order sent.
pub trait Network {
    /// Nanoseconds of a clock that never goes back.
    fn now(&self) -> u64;
    /// This adapter.
    fn me(&self) -> Peer;
    /// Node of the torus that this adapter is at.
    fn node(&self) -> u32;
    /// Who of its node this adapter is: the lower bits of its queue pairs' numbers tell adapters of a node apart.
    fn lane(&self) -> u32;
    /// Nodes of the network.
    fn nodes(&self) -> u32;
    /// The adapter that is `lane` of `node` now, if there is one.
    fn find(&self, node: u32, lane: u32) -> Option<Peer>;
    /// True if it has not left or been lost.
    fn is_there(&self, peer: Peer) -> bool;
    /// This adapter's node works.
    fn is_up(&self) -> bool;
    /// Bytes of the longest message.
    fn message_max(&self) -> usize;
    /// Sends the parts as one message.
    fn send(&mut self, to: Peer, parts: &[&[u8]]) -> Result<(), NotSent>;
    /// Hands the messages that have come, at most `most`, to `take`.
    fn receive(&mut self, most: usize, take: &mut dyn FnMut(Peer, &[u8])) -> usize;

    /// What this process may copy from and to that one's memory by itself.
    fn copies(&mut self, peer: Peer) -> Copies;
    /// Copies between pieces of this process and registered memory of another one, which `at` describes, once all that it
    /// says is checked against what the other one has published.
    fn copy(&mut self, at: &RemoteAccess, own: &[Piece]) -> Copied;
    /// Changes a word of registered memory of another process, which `at` describes, as one atomic step. The old word, or why
    /// this process cannot.
    fn update(&mut self, at: &RemoteAccess, atomic: Atomic) -> Result<u64, Copied>;
    /// Copies all bytes of pieces of another process, which that has named, to pieces of this one.
    fn fetch(&mut self, from: Peer, pieces: &[Piece], own: &[Piece]) -> Copied;
    /// True if a region of that key can be published.
    fn has_place(&self, key: u32) -> bool;
    /// Says that a region is there, to those who copy by themselves.
    fn publish_region(&mut self, region: &crate::Region);
    /// Says that it is not. Returns when nobody copies there any more.
    fn withdraw_region(&mut self, key: u32);
    /// Says what a queue pair lets peers do.
    fn publish_pair(&mut self, pair: &PublicPair);
    /// Says that it lets them do nothing. Returns when nobody does.
    fn withdraw_pair(&mut self, number: u32);
}

/// An access to registered memory of another process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteAccess {
    /// Whose memory.
    pub peer: Peer,
    /// Queue pair there.
    pub pair: u32,
    /// Queue pair here.
    pub from: u32,
    /// Key of the region.
    pub key: u32,
    /// Address in the region.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// Rights that it takes: [`crate::access`].
    pub need: u32,
    /// The bytes on this side are the adapter's own, not the program's.
    pub inline: bool,
}

impl RemoteAccess {
    /// To there; else from there.
    pub fn writes(&self) -> bool {
        self.need == access::REMOTE_WRITE
    }
}

/// What is to be known of a queue pair by those who copy by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicPair {
    /// Its number.
    pub number: u32,
    /// The adapter that it is connected to.
    pub peer: Peer,
    /// The queue pair there.
    pub with: u32,
    /// Its protection domain.
    pub pd: u32,
    /// Rights of peers: [`crate::access`].
    pub access: u32,
}

/// The memory of the program. What is not there, or may not be used so, is an error, never a signal.
pub trait Memory {
    /// Reads bytes at an address.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Errno>;
    /// Writes bytes to an address; the last 8 of them become visible after the rest.
    fn write(&self, at: u64, from: &[u8]) -> Result<(), Errno>;
    /// Replaces the word at an address, a multiple of 8, by what `change` makes of it, as one atomic step. Returns the old
    /// one.
    fn update(&self, at: u64, change: &dyn Fn(u64) -> u64) -> Result<u64, Errno>;
    /// True if the bytes are mapped, and may be written, too, if asked for.
    fn is_mapped(&self, at: u64, len: u64, to_write: bool) -> bool;
    /// Bytes of the program are being registered. Returns the address at which they are reached from now on, which may be another
    /// mapping of the same bytes.
    fn register(&mut self, at: u64, len: u64) -> u64 {
        let _ = len;
        at
    }
    /// They are not any more; `reach` is what [`Memory::register`] has returned.
    fn deregister(&mut self, at: u64, len: u64, reach: u64) {
        let _ = (at, len, reach);
    }
}
