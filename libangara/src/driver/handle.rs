//! Handles: how far a posted operation has come.

use super::posts::{Slot, reached};
use super::wait::For;
use super::{Adapter, packet};
use crate::error::{Error, Result};
use angara_abi::account::{Class, Traffic};
use angara_abi::clock::WaitsFor;
use angara_abi::desc::{AmoOp, Descriptor, Op, Place, Region, flags};
use angara_abi::job::Reach;
use angara_abi::packet::Flit;

/// The seven states of a communication operation (paper 001). They are ordered: an operation
/// that is [`OpState::Injected`] has also been copied.
///
/// A program cannot observe all states. The adapter reports *copied* and
/// *injected* in its status page. It acknowledges nothing, so *received* and *written* are known
/// only when something that travelled behind the operation on the same path has come back: a
/// flush (a read on vc1 to the same PE) or the operation's own answer. [`Handle::state`] then
/// goes from `Injected` to `Complete` at once, and `>= Received` and `>= Written` become true
/// together with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum OpState {
    /// Not posted.
    NotCalled = 0,
    /// Posted; the adapter may not have looked at it.
    Called = 1,
    /// Source data has been copied: the source may be reused.
    Copied = 2,
    /// Every packet has entered the network (guarantee 2).
    Injected = 3,
    /// Every packet has left the network.
    Received = 4,
    /// The target's memory holds the data.
    Written = 5,
    /// Nothing of the operation remains.
    Complete = 6,
}

/// One posted operation. Dropping it does not cancel anything. An operation that is answered
/// (read, fetching atomic, barrier, flush) holds one of 64 completion words until [`Handle::wait`].
#[must_use = "an answered operation holds a completion word until it is waited for"]
#[derive(Debug)]
pub struct Handle {
    /// Target PE.
    pe: usize,
    /// Number of the post.
    seq: u32,
    /// Completion word it owns.
    slot: Option<Slot>,
    /// Completing it proves that everything before it to the same PE is complete.
    flushes: bool,
}

impl Handle {
    /// The parts a C program keeps.
    pub(crate) fn into_raw(self) -> (usize, u32, Option<u8>, bool) {
        (self.pe, self.seq, self.slot.map(Slot::index), self.flushes)
    }
    pub(crate) fn from_raw(pe: usize, seq: u32, slot: Option<u8>, flushes: bool) -> Handle {
        Handle { pe, seq, slot: slot.map(Slot::from_index), flushes }
    }
    /// Position in the channel's post sequence.
    pub fn seq(&self) -> u32 {
        self.seq
    }
    /// The target.
    pub fn pe(&self) -> usize {
        self.pe
    }

    /// How far the operation has come, as far as can be known (see [`OpState`]).
    pub fn state(&self, adapter: &Adapter) -> OpState {
        // Where the job has ended the next post says so.
        let _ = adapter.look();
        self.reached(adapter)
    }

    fn reached(&self, adapter: &Adapter) -> OpState {
        if self.slot.is_some_and(|slot| adapter.completed(slot, self.seq)) {
            if self.flushes {
                adapter.note_flush(self.pe, self.seq);
            }
            return OpState::Complete;
        }
        let flushed = adapter.flushed.get(self.pe);
        if self.slot.is_none() && flushed != 0 && reached(flushed, self.seq) {
            OpState::Complete
        } else if adapter.injected(self.seq) {
            OpState::Injected
        } else if adapter.copied(self.seq) {
            OpState::Copied
        } else {
            OpState::Called
        }
    }

    /// Waits until the operation has come at least as far as `state`.
    ///
    /// A write or an atomic without result reaches the states after [`OpState::Injected`] only
    /// through a later [`Adapter::flush`] of its target; without one the wait does not end.
    pub fn wait_for(&self, adapter: &Adapter, state: OpState) -> Result<()> {
        let Handle { pe, seq, .. } = self;
        let what = || format!("post {seq} to PE {pe} to be {state:?}");
        if let (Some(slot), OpState::Complete) = (self.slot, state) {
            let change = WaitsFor::Completion(slot.completion());
            return adapter.wait_completion((For::Adapter, change), || self.reached(adapter) >= state, &what);
        }
        let change = match state {
            OpState::Copied => WaitsFor::Copied(*seq),
            OpState::Injected => WaitsFor::Injected(*seq),
            _ => WaitsFor::Adapter,
        };
        adapter.wait(change, || self.reached(adapter) >= state, &what)
    }

    /// Waits for completion of an operation that is answered (read, fetching atomic, flush) and
    /// returns the old value of an atomic or the value read by a flush.
    pub fn wait(self, adapter: &Adapter) -> Result<u64> {
        let Some(slot) = self.slot else {
            return Err(Error::invalid("a write is not answered: flush its target, then look at the handle's state"));
        };
        self.wait_for(adapter, OpState::Complete)?;
        let value = adapter.result(slot);
        adapter.release_slot(slot);
        Ok(value)
    }
}

impl Adapter {
    /// Puts a packet for `pe` into the injection ring as it is ([`packet`] builds them). The
    /// adapter fills in source, route and checksum.
    pub fn inject(&self, pe: usize, packet: &[Flit]) -> Result<Handle> {
        self.check_target(pe)?;
        if packet.len() < 2 || packet.len() > angara_abi::PACKET_FLITS_MAX {
            return Err(Error::invalid(format!("a packet has 2 to 18 flits, not {}", packet.len())));
        }
        let bytes = packet::payload_bytes(packet);
        self.count(pe, Class::Put, Traffic::put(bytes));
        let seq = self.push_packet(packet, pe, bytes)?;
        Ok(Handle { pe, seq, slot: None, flushes: false })
    }

    /// Posts `descriptor` for `pe`: its target node and endpoint are filled in, and for an
    /// operation with an answer also the completion place.
    pub fn post_descriptor(&self, pe: usize, descriptor: &Descriptor) -> Result<Handle> {
        self.check_target(pe)?;
        let entry = self.memory.job.pe(pe);
        let mut d = Descriptor { dst: entry.coords, endpoint: entry.endpoint, ..*descriptor };
        let slot = if d.is_answered() { Some(self.wait_slot()?) } else { None };
        d.completion = slot.map(Slot::completion).or(d.completion);
        if let Some(traffic) = d.traffic() {
            self.count(pe, d.class, traffic);
        }
        let seq = self.post(&d, pe)?;
        Ok(Handle { pe, seq, slot, flushes: false })
    }

    /// Posts an atomic on the word at `at` of `pe`; with `fetch`, [`Handle::wait`] returns the old value.
    pub fn post_atomic(
        &self,
        pe: usize,
        at: Place,
        op: AmoOp,
        operand: [u64; 2],
        width: u8,
        fetch: bool,
    ) -> Result<Handle> {
        self.check_target(pe)?;
        let entry = self.memory.job.pe(pe);
        let slot = if fetch { Some(self.wait_slot()?) } else { None };
        let d = Descriptor {
            class: Class::Amo,
            dst: entry.coords,
            endpoint: entry.endpoint,
            amo: op,
            width,
            operand: operand[0],
            comparand: operand[1],
            remote: Some(at),
            local: slot.map(Slot::result),
            completion: slot.map(Slot::completion),
            ..Descriptor::new(Op::Amo)
        };
        self.count(pe, Class::Amo, Traffic::amo(width as usize, op.is_native() && !fetch, fetch));
        let seq = self.post(&d, pe)?;
        Ok(Handle { pe, seq, slot, flushes: false })
    }

    /// Posts a read of 8 bytes behind everything sent to `pe` on vc1: when it completes, every
    /// earlier write and atomic on vc1 to `pe` is complete (quiet with respect to one target).
    /// Writes on vc0 or the adaptive channel are not covered: they travel another way.
    pub fn flush(&self, pe: usize) -> Result<Handle> {
        self.check_target(pe)?;
        self.flush_with(pe, self.wait_slot()?)
    }

    /// A flush that completes through `slot`.
    pub(crate) fn flush_with(&self, pe: usize, slot: Slot) -> Result<Handle> {
        self.count(pe, Class::Sync, Traffic::get(8));
        let remote = Place { region: Region::Heap, offset: 0 };
        let d = Descriptor { flags: flags::FLUSH, ..self.read(pe, Some(slot), Class::Sync, remote, slot.result(), 8) };
        Ok(Handle { pe, seq: self.post(&d, pe)?, slot: Some(slot), flushes: true })
    }

    /// Posts a read. Its end shows in `slot`, and without one through [`Adapter::delivered`].
    pub(crate) fn post_read(
        &self,
        pe: usize,
        slot: Option<Slot>,
        class: Class,
        remote: Place,
        local: Place,
        len: usize,
    ) -> Result<u32> {
        self.post(&self.read(pe, slot, class, remote, local, len), pe)
    }

    fn read(&self, pe: usize, slot: Option<Slot>, class: Class, remote: Place, local: Place, len: usize) -> Descriptor {
        let entry = self.memory.job.pe(pe);
        Descriptor {
            class,
            len: len as u32,
            dst: entry.coords,
            endpoint: entry.endpoint,
            local: Some(local),
            remote: Some(remote),
            completion: slot.map(Slot::completion),
            ..Descriptor::new(Op::Get)
        }
    }

    pub(crate) fn count(&self, pe: usize, class: Class, traffic: Traffic) {
        self.memory.peers.count(pe, class, traffic);
    }

    /// Records that every post up to `seq` is complete at `pe`.
    pub(crate) fn note_flush(&self, pe: usize, seq: u32) {
        self.flushed.note(pe, seq);
    }

    /// A completion word, waiting while all are in use.
    pub(crate) fn wait_slot(&self) -> Result<Slot> {
        let mut slot = self.take_slot();
        if slot.is_none() {
            let free = || {
                slot = self.take_slot();
                slot.is_some()
            };
            self.wait(WaitsFor::Adapter, free, &|| "one of 64 completion words (wait for earlier handles)".into())?;
        }
        slot.ok_or(Error::JobEnded)
    }

    pub(crate) fn check_target(&self, pe: usize) -> Result<()> {
        if pe >= self.n_pes() {
            return Err(Error::invalid(format!("PE {pe} does not exist: the job has {} PEs", self.n_pes())));
        }
        if self.guard.forked() {
            return Err(Error::Forked);
        }
        match self.memory.peers.reach(pe) {
            Reach::Unreachable => Err(self.unreachable(pe)),
            _ => Ok(()),
        }
    }
}
