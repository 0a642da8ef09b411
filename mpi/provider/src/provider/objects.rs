//! Contents of libfabric's objects: endpoints, completion queues, counters, address vectors, domains.

use crate::abi::constants::*;
use crate::matching::{Matching, Source};
use crate::memory::UserMemory;
use crate::wire::{Reader, Remote, Rts};
use angara::mailbox::Peer;
use std::collections::{HashMap, VecDeque};

/// Bytes of unexpected messages that an endpoint keeps. Beyond that, payload stays with its sender.
pub(crate) const HELD_MAX: usize = 128 << 20;
/// Bytes that a waiting message counts beside its payload.
pub(crate) const HELD_EACH: usize = 32;

/// Which counter and which of an endpoint's queues an operation is reported by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Send,
    Recv,
    Read,
    Write,
    RemoteRead,
    RemoteWrite,
}

impl Side {
    pub(crate) const ALL: [(u64, Side); 6] = [
        (SEND, Side::Send),
        (RECV, Side::Recv),
        (READ, Side::Read),
        (WRITE, Side::Write),
        (REMOTE_READ, Side::RemoteRead),
        (REMOTE_WRITE, Side::RemoteWrite),
    ];
}

/// Report of an ended operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) ep: u32,
    pub(crate) side: Side,
    pub(crate) context: usize,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: usize,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) source: u64,
    /// A completion is wanted. Errors are always reported.
    pub(crate) report: bool,
}

/// Why an operation failed. Nothing did if `error` is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// Error number of libfabric.
    pub(crate) error: i32,
    /// Error of the system or the adapter, here or at the peer.
    pub(crate) cause: i32,
}

impl Fault {
    pub(crate) const NONE: Fault = Fault { error: 0, cause: 0 };

    pub(crate) fn io(cause: i32) -> Fault {
        Fault { error: errno::EIO, cause }
    }

    /// As peers tell each other: what went well is four bytes.
    pub(crate) fn encode(&self) -> ([u8; 8], usize) {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.error.to_le_bytes());
        bytes[4..].copy_from_slice(&self.cause.to_le_bytes());
        (bytes, if self.error == 0 { 4 } else { 8 })
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Fault> {
        let error = (reader.u32()? as i32).max(0);
        Some(Fault { error, cause: reader.u32().map_or(error, |cause| cause as i32) })
    }
}

impl From<i32> for Fault {
    fn from(error: i32) -> Fault {
        Fault { error, cause: error }
    }
}

/// Converts the adapter's error to the closest error of the system.
impl From<&angara::Error> for Fault {
    fn from(error: &angara::Error) -> Fault {
        match error {
            angara::Error::Unreachable { .. } => Fault::io(libc::EHOSTUNREACH),
            _ => Fault::from(errno::EIO),
        }
    }
}

/// An operation that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) done: Done,
    pub(crate) fault: Fault,
    /// Bytes that did not fit.
    pub(crate) excess: usize,
}

/// A completion queue.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) ready: VecDeque<Done>,
    pub(crate) failed: VecDeque<Failed>,
    /// `fi_cq_signal` was called.
    pub(crate) signalled: bool,
}

impl Queue {
    /// Something has still to be read.
    pub(crate) fn has_something(&self) -> bool {
        !self.ready.is_empty() || !self.failed.is_empty() || self.signalled
    }
}

#[derive(Default)]
pub(crate) struct Counter {
    pub(crate) value: u64,
    pub(crate) errors: u64,
}

/// Endpoint named by an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) peer: Peer,
    pub(crate) ep: u32,
    pub(crate) source: Source,
}

/// An address vector. Its addresses are positions.
#[derive(Default)]
pub(crate) struct Addresses {
    pub(crate) targets: Vec<Option<Target>>,
    by_source: Vec<u64>,
}

impl Addresses {
    pub(crate) fn insert(&mut self, target: Target) -> u64 {
        let address = self.targets.len() as u64;
        self.targets.push(Some(target));
        let at = target.source as usize;
        if self.by_source.len() <= at {
            self.by_source.resize(at + 1, ADDR_NOTAVAIL);
        }
        if self.by_source[at] == ADDR_NOTAVAIL {
            self.by_source[at] = address;
        }
        address
    }

    pub(crate) fn remove(&mut self, address: u64) -> bool {
        let slot = usize::try_from(address).ok().and_then(|at| self.targets.get_mut(at));
        let Some(target) = slot.and_then(Option::take) else { return false };
        let other = self.targets.iter().position(|t| t.is_some_and(|t| t.source == target.source));
        self.by_source[target.source as usize] = other.map_or(ADDR_NOTAVAIL, |at| at as u64);
        true
    }

    #[inline]
    pub(crate) fn target(&self, address: u64) -> Option<Target> {
        *self.targets.get(usize::try_from(address).ok()?)?
    }

    #[inline]
    pub(crate) fn address_of(&self, source: Source) -> u64 {
        self.by_source.get(source as usize).copied().unwrap_or(ADDR_NOTAVAIL)
    }
}

/// Memory that peers may name by its key.
pub(crate) struct Registered {
    pub(crate) memory: UserMemory,
    pub(crate) access: u64,
    /// Remote addresses are the target's own, not offsets.
    pub(crate) by_address: bool,
    /// Counters that learn of accesses, with which kinds.
    pub(crate) counters: Vec<(u32, u64)>,
}

#[derive(Default)]
pub(crate) struct Domain {
    pub(crate) keys: HashMap<u64, Registered>,
    pub(crate) next_key: u64,
}

impl Domain {
    /// The memory that `remotes` name, if it may be used so.
    pub(crate) fn resolve(&self, remotes: &[Remote], access: u64) -> Result<UserMemory, i32> {
        let mut parts = [const { None }; crate::memory::PIECES];
        for (part, remote) in parts.iter_mut().zip(remotes) {
            let region = self.keys.get(&remote.key).ok_or(errno::ENOKEY)?;
            if region.access & access != access {
                return Err(errno::EACCES);
            }
            let base = if region.by_address { region.memory.address() as u64 } else { 0 };
            let from = remote.addr.checked_sub(base).ok_or(errno::EFAULT)?;
            let end = from.checked_add(remote.len).ok_or(errno::EFAULT)?;
            if end > region.memory.len() as u64 {
                return Err(errno::EFAULT);
            }
            *part = Some(region.memory.part(from as usize, remote.len as usize));
        }
        UserMemory::join(parts.into_iter().flatten()).ok_or(errno::EINVAL)
    }
}

/// A receive that waits.
pub(crate) struct Posted {
    pub(crate) memory: UserMemory,
    pub(crate) context: usize,
    pub(crate) report: bool,
    /// The buffer for several messages that it stands for, or 0.
    pub(crate) multi: u64,
}

/// A buffer that takes several messages.
pub(crate) struct Multi {
    pub(crate) ep: u32,
    pub(crate) used: usize,
    /// Messages on their way into it.
    pub(crate) pending: u32,
    /// No further message goes there.
    pub(crate) closed: bool,
}

/// Where the payload of a message is.
pub(crate) enum Body {
    Bytes(Box<[u8]>),
    Rts(Rts),
}

/// A message that waits for a receive, or has found one.
pub(crate) struct Incoming {
    pub(crate) peer: Peer,
    /// The sender's endpoint.
    pub(crate) from: u32,
    pub(crate) data: Option<u64>,
    pub(crate) len: usize,
    /// The sender's request that ends when a receive has taken the message, or 0.
    pub(crate) wants_done: u64,
    /// Among those of its PE, where messages are noted.
    pub(crate) number: u64,
    pub(crate) body: Body,
}

impl Incoming {
    pub(crate) fn held(&self) -> usize {
        HELD_EACH + if let Body::Bytes(bytes) = &self.body { bytes.len() } else { 0 }
    }
}

/// A queue of an endpoint.
#[derive(Clone, Copy)]
pub(crate) struct Binding {
    pub(crate) queue: u32,
    /// Only operations with `FI_COMPLETION` are reported.
    pub(crate) selective: bool,
}

pub(crate) struct Endpoint {
    pub(crate) domain: u32,
    pub(crate) av: Option<u32>,
    pub(crate) tx: Option<Binding>,
    pub(crate) rx: Option<Binding>,
    pub(crate) counters: [Option<u32>; 6],
    /// Receives may name whom they are from (`FI_DIRECTED_RECV`).
    pub(crate) directed: bool,
    pub(crate) enabled: bool,
    pub(crate) plain: Matching<Posted, Incoming>,
    pub(crate) tagged: Matching<Posted, Incoming>,
    /// Messages that came before the endpoint was enabled.
    pub(crate) early: Vec<(Peer, Box<[u8]>)>,
    /// Messages that `FI_CLAIM` keeps for a second call, by the context of the first.
    pub(crate) claimed: HashMap<usize, (Source, u64, Incoming)>,
    /// A buffer with less room takes no more messages.
    pub(crate) min_multi: usize,
    /// Bytes of unexpected messages.
    pub(crate) held: usize,
    /// Senders have been told to keep their payload.
    pub(crate) xoff: bool,
    /// Writes, reads and atomics under way.
    pub(crate) accesses: usize,
}

impl Endpoint {
    pub(crate) fn new(domain: u32, directed: bool) -> Endpoint {
        Endpoint {
            domain,
            av: None,
            tx: None,
            rx: None,
            counters: [None; 6],
            directed,
            enabled: false,
            plain: Matching::new(),
            tagged: Matching::new(),
            early: Vec::new(),
            claimed: HashMap::new(),
            min_multi: 64,
            held: 0,
            xoff: false,
            accesses: 0,
        }
    }

    #[inline]
    pub(crate) fn matching(&mut self, tagged: bool) -> &mut Matching<Posted, Incoming> {
        if tagged { &mut self.tagged } else { &mut self.plain }
    }

    /// Messages that no receive has taken.
    pub(crate) fn into_waiting(self) -> impl Iterator<Item = Incoming> {
        let claimed = self.claimed.into_values().map(|(_, _, incoming)| incoming);
        self.plain.into_messages().chain(self.tagged.into_messages()).chain(claimed)
    }

    /// True if an operation with these flags is reported.
    #[inline]
    pub(crate) fn reports(binding: Option<Binding>, flags: u64) -> bool {
        binding.is_some_and(|b| !b.selective || flags & COMPLETION != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_told_what_failed_and_why() {
        for fault in [Fault::NONE, errno::ENOMEM.into(), Fault::io(libc::EFAULT)] {
            let (bytes, len) = fault.encode();
            assert_eq!(Fault::decode(&mut Reader(&bytes[..len])), Some(fault));
        }
        assert_eq!(Fault::decode(&mut Reader(&[1, 0, 0])), None);
        assert_eq!(Fault::decode(&mut Reader(&(-5i32).to_le_bytes())), Some(Fault::NONE));
    }

    #[test]
    fn an_address_names_its_target_until_it_is_removed() {
        let mut av = Addresses::default();
        let target = |source| Target { peer: Peer { seat: source, generation: 1 }, ep: 3, source };
        assert_eq!([5, 2, 5].map(|source| av.insert(target(source))), [0, 1, 2]);
        assert_eq!((av.address_of(5), av.address_of(2), av.address_of(9)), (0, 1, ADDR_NOTAVAIL));
        assert!(av.remove(0) && !av.remove(0) && !av.remove(77));
        assert_eq!((av.target(0), av.target(1), av.address_of(5)), (None, Some(target(2)), 2));
        assert!(av.remove(2));
        assert_eq!(av.address_of(5), ADDR_NOTAVAIL);
    }

    #[test]
    fn only_registered_memory_is_resolved() {
        let mut domain = Domain::default();
        let memory = UserMemory::owned(vec![7; 100].into_boxed_slice());
        let base = memory.address() as u64;
        domain.keys.insert(9, Registered { memory, access: REMOTE_READ, by_address: false, counters: Vec::new() });
        let remote = |addr, len, key| Remote { addr, len, key };
        assert_eq!(domain.resolve(&[remote(10, 90, 9), remote(0, 5, 9)], REMOTE_READ).map(|m| m.len()), Ok(95));
        assert_eq!(domain.resolve(&[remote(10, 91, 9)], REMOTE_READ).err(), Some(errno::EFAULT));
        assert_eq!(domain.resolve(&[remote(u64::MAX, 2, 9)], REMOTE_READ).err(), Some(errno::EFAULT));
        assert_eq!(domain.resolve(&[remote(0, 1, 8)], REMOTE_READ).err(), Some(errno::ENOKEY));
        assert_eq!(domain.resolve(&[remote(0, 1, 9)], REMOTE_WRITE).err(), Some(errno::EACCES));
        domain.keys.get_mut(&9).expect("it is there").by_address = true;
        assert_eq!(
            domain.resolve(&[remote(base + 99, 1, 9)], REMOTE_READ).map(|m| m.address()),
            Ok(base as usize + 99)
        );
        assert_eq!(domain.resolve(&[remote(base - 1, 1, 9)], REMOTE_READ).err(), Some(errno::EFAULT));
    }
}
