//! Contents of libfabric's objects: endpoints, completion queues, counters, address vectors, domains.

use super::bell::Bell;
use super::fault::Fault;
use crate::abi::constants::*;
use crate::matching::{Matching, Source};
use crate::memory::UserMemory;
use crate::slots::Slots;
use crate::wire::{Remote, Rts};
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

impl Done {
    /// The report of a receive that ends without a message.
    pub(super) fn without_message(ep: u32, tagged: bool, posted: &Posted, tag: u64) -> Done {
        Done {
            ep,
            side: Side::Recv,
            context: posted.context,
            flags: RECV | if tagged { TAGGED } else { MSG } | if posted.multi != 0 { MULTI_RECV } else { 0 },
            len: 0,
            buf: 0,
            data: 0,
            tag,
            source: ADDR_NOTAVAIL,
            report: posted.report,
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
    pub(crate) bell: Bell,
}

impl Queue {
    /// Something has still to be read.
    pub(crate) fn has_something(&self) -> bool {
        !self.ready.is_empty() || !self.failed.is_empty() || self.signalled
    }

    #[inline(always)]
    fn report(&mut self, done: Done) {
        self.ready.push_back(done);
        self.bell.tell();
    }
}

#[derive(Default)]
pub(crate) struct Counter {
    pub(crate) value: u64,
    pub(crate) errors: u64,
    /// Both, as the program has read them last.
    pub(crate) read: (u64, u64),
    pub(crate) bell: Bell,
}

impl Counter {
    #[inline(always)]
    fn count(&mut self) {
        self.value += 1;
        self.bell.tell();
    }

    /// It is not what the program has read.
    pub(crate) fn has_changed(&self) -> bool {
        self.read != (self.value, self.errors)
    }
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

/// How peers reach registered memory by themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exposure {
    /// Where the first byte is reached, if pages were exchanged or would have been.
    pub(super) reach: Option<usize>,
    /// Where it is published.
    pub(super) slot: Option<u64>,
}

/// Memory that peers may name by its key.
pub(crate) struct Registered {
    pub(crate) memory: UserMemory,
    pub(crate) access: u64,
    /// Remote addresses are the target's own, not offsets.
    pub(crate) by_address: bool,
    /// Counters that learn of accesses, with which kinds.
    pub(crate) counters: Vec<(u32, u64)>,
    /// How peers reach it by themselves.
    pub(crate) exposure: Exposure,
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

/// What is open here.
pub(crate) struct Objects {
    pub(crate) domains: Slots<Domain>,
    pub(crate) eps: Slots<Endpoint>,
    pub(crate) queues: Slots<Queue>,
    pub(crate) counters: Slots<Counter>,
    pub(crate) avs: Slots<Addresses>,
    pub(super) multis: Slots<Multi, u64>,
}

impl Objects {
    pub(super) const fn new() -> Objects {
        Objects {
            domains: Slots::new(),
            eps: Slots::new(),
            queues: Slots::new(),
            counters: Slots::new(),
            avs: Slots::new(),
            multis: Slots::new(),
        }
    }

    fn bells(&mut self) -> impl Iterator<Item = &mut Bell> {
        let Objects { queues, counters, .. } = self;
        queues.iter_mut().map(|queue| &mut queue.bell).chain(counters.iter_mut().map(|counter| &mut counter.bell))
    }

    /// Wakes all who sleep.
    pub(super) fn wake_all(&mut self) {
        self.bells().for_each(Bell::tell);
    }

    /// Somebody sleeps on a descriptor.
    pub(super) fn is_slept_on(&self) -> bool {
        self.queues.iter().any(|(_, queue)| queue.bell.is_armed())
            || self.counters.iter().any(|(_, counter)| counter.bell.is_armed())
    }

    /// Returns what learns of the end of an operation.
    #[inline(always)]
    fn reports(&mut self, done: &Done) -> Option<(Option<&mut Counter>, Option<&mut Queue>)> {
        let ep = self.eps.get(done.ep)?;
        let binding = match done.side {
            Side::Send | Side::Read | Side::Write => ep.tx,
            Side::Recv | Side::RemoteRead | Side::RemoteWrite => ep.rx,
        };
        let counter = ep.counters[done.side as usize].and_then(|id| self.counters.get_mut(id));
        Some((counter, binding.and_then(|binding| self.queues.get_mut(binding.queue))))
    }

    #[inline(always)]
    pub(super) fn end_well(&mut self, done: Done) {
        let Some((counter, queue)) = self.reports(&done) else { return };
        if let Some(counter) = counter {
            counter.count();
        }
        if let Some(queue) = queue.filter(|_| done.report) {
            queue.report(done);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn end_badly(&mut self, failed: Failed) {
        let Some((counter, queue)) = self.reports(&failed.done) else { return };
        if let Some(counter) = counter {
            counter.errors += 1;
            counter.bell.tell();
        }
        if let Some(queue) = queue {
            queue.failed.push_back(failed);
            queue.bell.tell();
        }
    }

    /// Reports to receivers what no counter counts, as no operation has ended.
    pub(super) fn report_uncounted(&mut self, done: Done) {
        let queue = self.eps.get(done.ep).and_then(|ep| ep.rx).and_then(|rx| self.queues.get_mut(rx.queue));
        if let Some(queue) = queue.filter(|_| done.report) {
            queue.report(done);
        }
    }

    /// A buffer for several messages is given back apart from a message.
    pub(super) fn release(&mut self, ep: u32, multi: u64, context: usize, report: bool) {
        self.multis.remove(multi);
        let posted = Posted { memory: UserMemory::nothing(), context, report, multi };
        self.report_uncounted(Done { flags: MULTI_RECV, ..Done::without_message(ep, false, &posted, 0) });
    }

    /// Memory of an endpoint's domain that a peer names.
    pub(super) fn resolve(&self, ep: u32, remotes: &[Remote], access: u64) -> Result<UserMemory, i32> {
        let ep = self.eps.get(ep).filter(|ep| ep.enabled).ok_or(errno::ECONNREFUSED)?;
        self.domains.get(ep.domain).ok_or(errno::ECONNREFUSED)?.resolve(remotes, access)
    }

    /// The counters of registered memory learn of a peer's access.
    pub(super) fn count_access(&mut self, ep: u32, remotes: &[Remote], kind: u64) {
        let Some(ep) = self.eps.get(ep) else { return };
        let region = remotes.first().and_then(|r| self.domains.get(ep.domain)?.keys.get(&r.key));
        for (counter, kinds) in region.map_or(&[][..], |region| &region.counters) {
            if kinds & kind != 0
                && let Some(counter) = self.counters.get_mut(*counter)
            {
                counter.count();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        domain.keys.insert(
            9,
            Registered {
                memory,
                access: REMOTE_READ,
                by_address: false,
                counters: Vec::new(),
                exposure: Exposure::default(),
            },
        );
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
