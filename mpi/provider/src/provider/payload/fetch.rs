//! The receiver's side: payloads of peers that are being fetched, and what follows when they are here.

use super::proof::REVOKED_AT;
use crate::abi::constants::errno;
use crate::memory::{UserMemory, read_process};
use crate::provider::ends::Ends;
use crate::provider::fault::{Fault, fault_of};
use crate::provider::noted::Notes;
use crate::provider::objects::{Done, Side};
use crate::provider::peers::Peers;
use crate::slots::Slots;
use crate::wire::{Head, InMemory, MessageKind, Reader, Remote, Rts, Way, rest};
use angara::mailbox::{Message, Peer};
use angara_protocol::calls::Step;

/// A payload that is being fetched.
pub(crate) struct Inbound {
    pub(in crate::provider) peer: Peer,
    rts: u64,
    /// Endpoints: the peer's and ours.
    from: u32,
    pub(in crate::provider) ep: u32,
    memory: UserMemory,
    pub(in crate::provider) len: usize,
    pub(in crate::provider) got: usize,
    pub(in crate::provider) end: InboundEnd,
}

impl Inbound {
    pub(in crate::provider) fn writes_to(&self, key: u64) -> bool {
        matches!(&self.end, InboundEnd::Written(written) if written.names(key))
    }
}

/// What follows when a payload is there.
pub(crate) enum InboundEnd {
    /// A message was received.
    Received { done: Done, excess: usize, multi: u64, number: u64 },
    /// A peer's write took effect.
    Written(Written),
    /// The answer to a request has come.
    Answered { request: u64 },
}

/// A peer's write whose payload is fetched.
pub(crate) struct Written {
    pub(in crate::provider) peer: Peer,
    pub(in crate::provider) head: Head,
    pub(in crate::provider) remotes: Vec<Remote>,
    pub(in crate::provider) len: usize,
}

impl Written {
    fn names(&self, key: u64) -> bool {
        self.remotes.iter().any(|remote| remote.key == key)
    }
}

/// Payloads of peers that are being fetched.
pub(crate) type Fetches = Slots<Inbound, u64>;

/// What the receiver's side of a transfer touches.
pub(crate) struct Fetching<'a> {
    pub(in crate::provider) fetches: &'a mut Fetches,
    pub(in crate::provider) peers: &'a mut Peers,
    pub(in crate::provider) notes: &'a Notes,
    pub(in crate::provider) ends: Ends<'a>,
}

impl Fetching<'_> {
    /// Fetches the first `len` bytes that an RTS announced.
    #[allow(clippy::too_many_arguments, reason = "all of it describes one transfer")]
    pub(in crate::provider) fn begin(
        &mut self,
        peer: Peer,
        from: u32,
        ep: u32,
        rts: &Rts,
        memory: UserMemory,
        len: usize,
        end: InboundEnd,
    ) {
        let memory = memory.part(0, len);
        if !self.peers.at(peer).is(peer) {
            // The RTS was kept, but its sender has left.
            let inbound = Inbound { peer, rts: rts.id, from, ep, memory, len, got: 0, end };
            return self.inbound_is_over(inbound, Fault::io(errno::ENOTCONN));
        }
        let (direct, ahead) = match &rts.way {
            Way::Memory(at) => (Some(at), None),
            Way::Window { ahead } => (None, *ahead),
        };
        let tried = match direct {
            Some(at) if len > 0 && self.may_attach(peer, at) => self.attach(peer, rts.len, at, &memory),
            _ => None,
        };
        let inbound = Inbound { peer, rts: rts.id, from, ep, memory, len, got: 0, end };
        match tried {
            Some(fault) => self.inbound_is_over(inbound, fault),
            None if len == 0 => self.inbound_is_over(inbound, Fault::NONE),
            None if self.fetches.is_full() => self.inbound_is_over(inbound, errno::ENOMEM.into()),
            None => {
                let id = self.fetches.insert(inbound);
                let ahead = ahead.filter(|(chunk, bytes)| self.ends.here.window.holds(*chunk, *bytes));
                if ahead.is_none_or(|(_, bytes)| bytes < len) {
                    let body = [id.to_le_bytes().as_slice(), &(len as u64).to_le_bytes()].concat();
                    self.peers.post(peer, &Head::new(MessageKind::Cts, from, ep, rts.id), &body);
                }
                if let Some((chunk, bytes)) = ahead {
                    self.get_fragment(id, chunk, bytes.min(len));
                }
            }
        }
    }

    /// Copies a payload out of the memory of the process that announced it. `None` if the kernel refuses, or the RTS may
    /// have been revoked meanwhile: then the payload goes through the window.
    fn attach(&mut self, peer: Peer, whole: u64, at: &InMemory, memory: &UserMemory) -> Option<Fault> {
        let (pid, then) = (at.pid.get() as i32, at.proof.0.wrapping_add(REVOKED_AT));
        let is_revoked = |word: u64| word as u32 != at.revoked;
        let read = read_process(pid, at.pieces.of(whole), memory, then);
        let word = match &read {
            Ok(word) => Ok(*word),
            Err(_) => read_process(pid, std::iter::empty(), &UserMemory::nothing(), then),
        };
        if word.is_ok_and(is_revoked) {
            return None;
        }
        let Err(error) = read else {
            let seat = self.ends.here.job.pe_entry(peer.seat as usize).seat;
            // Nobody knows whose memory that was if the peer has left meanwhile.
            let stays = seat.life() == peer.generation && !seat.is_over();
            return Some(if stays { Fault::NONE } else { Fault::io(errno::ENOTCONN) });
        };
        let (seat, len) = (peer.seat, memory.len());
        crate::log::warn(&format!("{len} bytes of process {} at seat {seat} could not be read: {error}", at.pid));
        match error.raw_os_error() {
            // The window would be filled from the same memory, or emptied into it.
            Some(errno::EFAULT) => Some(Fault::io(errno::EFAULT)),
            None => Some(Fault::io(errno::EFAULT)),
            Some(_) => {
                self.peers.all[seat as usize].attach = Some(false);
                None
            }
        }
    }

    /// True if this process may read the sender's memory. Tried once for each peer.
    fn may_attach(&mut self, peer: Peer, at: &InMemory) -> bool {
        if !self.ends.here.is_direct(peer) {
            return false;
        }
        let known = self.peers.at_mut(peer);
        *known.attach.get_or_insert_with(|| {
            let nothing = UserMemory::nothing();
            let read = read_process(at.pid.get() as i32, std::iter::empty(), &nothing, at.proof.0);
            let may = read.as_ref().is_ok_and(|word| *word == at.proof.1);
            if !may {
                let why = read.err().map_or("it is another process".to_owned(), |e| e.to_string());
                crate::log::info(&format!("large messages from seat {} go through its window: {why}", peer.seat));
            }
            may
        })
    }

    pub(in crate::provider) fn inbound_ends(&mut self, id: u64, fault: Fault) {
        if let Some(inbound) = self.fetches.remove(id) {
            self.inbound_is_over(inbound, fault);
        }
    }

    fn inbound_is_over(&mut self, inbound: Inbound, fault: Fault) {
        let head = Head::new(MessageKind::Fin, inbound.from, inbound.ep, inbound.rts);
        self.peers.post_fault(inbound.peer, &head, fault);
        match inbound.end {
            InboundEnd::Received { done, excess, multi, number } => {
                self.ends.here.pay_to_receive(done.len);
                if fault == Fault::NONE {
                    self.notes.note(Step::Received, inbound.peer, number, done.len);
                }
                self.ends.received(done, excess, multi, fault);
            }
            InboundEnd::Written(Written { peer, head, remotes, len }) => {
                if fault == Fault::NONE {
                    self.ends.accessed(&head, &remotes, Side::RemoteWrite, len);
                }
                self.peers.answer(peer, &head, fault);
            }
            InboundEnd::Answered { request } => self.ends.request_ends(request, fault),
        }
    }

    /// Ends an inbound payload that the sender has revoked.
    pub(in crate::provider) fn revoked(
        &mut self,
        peer: Peer,
        head: &Head,
        message: &Message<'_>,
        at: usize,
    ) -> Option<()> {
        let fault = fault_of(message, at)?;
        if self.fetches.get(head.aux).is_some_and(|inbound| inbound.peer == peer) {
            self.inbound_ends(head.aux, fault);
        }
        Some(())
    }

    /// Gets a fragment that is in the peer's window now.
    pub(in crate::provider) fn on_fragment(
        &mut self,
        peer: Peer,
        head: &Head,
        message: &Message<'_>,
        at: usize,
    ) -> Option<()> {
        let body = rest(message, at, 8);
        let mut reader = Reader(&body);
        let (chunk, len) = (reader.u32()?, reader.u32()? as usize);
        let Some(inbound) = self.fetches.get(head.aux).filter(|inbound| inbound.peer == peer) else {
            // Its endpoint or region was closed, which the peer will learn.
            return Some(());
        };
        if !self.ends.here.window.holds(chunk, len) || len > inbound.len - inbound.got {
            return None;
        }
        self.get_fragment(head.aux, chunk, len);
        Some(())
    }

    /// Gets the next `len` bytes of an inbound payload from a chunk of the peer's window.
    fn get_fragment(&mut self, id: u64, chunk: u32, len: usize) {
        let place = self.ends.here.window.place(chunk);
        let Some(inbound) = self.fetches.get_mut(id) else { return };
        let peer = inbound.peer;
        let fetched = inbound.memory.fetch(inbound.got, &self.ends.here.job, (peer.seat as usize, place), len);
        inbound.got += len;
        let (is_over, rts, from, ep) = (inbound.got == inbound.len, inbound.rts, inbound.from, inbound.ep);
        match fetched {
            Err(e) => {
                crate::log::warn(&format!("a chunk of {len} bytes in the window of seat {}: {e}", peer.seat));
                self.inbound_ends(id, Fault::from(&e));
            }
            Ok(()) if is_over => self.inbound_ends(id, Fault::NONE),
            Ok(()) => {
                let done = Head { chunk: Some(chunk), ..Head::new(MessageKind::FragmentDone, from, ep, rts) };
                self.peers.post(peer, &done, &[]);
            }
        }
    }
}
