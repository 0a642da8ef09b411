//! Rendezvous: how large payloads cross. The sender announces a payload with a request to send (RTS). The receiver fetches
//! it and ends the exchange with a FIN.
//!
//! On one host, off the network, the receiver reads the sender's memory, if the kernel lets it. Otherwise it answers with a
//! clear to send (CTS). The sender then puts the payload into its window, a part of its symmetric heap, in fragments, and
//! the receiver gets each fragment by the adapter: nothing bypasses the network where there is one.
//!
//! An RTS is *revoked* if its endpoint or region is closed before the FIN, since its memory must not be used any more. A
//! receiver that reads the sender's memory also reads a word there that counts revocations. If the count has changed, the
//! bytes may be anything, and the receiver asks through the window instead. A receiver that uses the window is told. It may
//! be getting a fragment at that moment, so no chunk is reused before its answer.

use super::objects::{Done, Fault};
use super::{ProviderState, fault_of};
use crate::abi::constants::errno;
use crate::memory::{UserMemory, read_process};
use crate::wire::{Head, InMemory, MessageKind, Pieces, Reader, Remote, Rts, Way, rest};
use angara::mailbox::{Message, Peer};
use angara::{Place, Region};
use angara_protocol::calls::Step;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most chunks of one payload that wait to be got.
const CHUNKS_EACH: usize = 4;

/// Bytes that a copy of a payload counts at least, whatever its length: keeping it costs as much.
const COPY_LEAST: usize = 2048;

/// What a peer reads beside payload in this process's memory.
#[repr(C)]
struct Proof {
    /// Proves whose memory it is.
    whose: u64,
    /// Number of revocations so far.
    revoked: AtomicU64,
}

/// Where the second word of a [`Proof`] is.
const REVOKED_AT: u64 = std::mem::offset_of!(Proof, revoked) as u64;

static PROOF: LazyLock<Proof> = LazyLock::new(|| {
    let mut bytes = [0; 8];
    let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    let whose = if drawn == Ok(8) { u64::from_ne_bytes(bytes) } else { u64::from(std::process::id()) << 32 | 0x0f1 };
    Proof { whose, revoked: AtomicU64::new(0) }
});

/// How a peer's operation ends whose payload was revoked.
const REVOKED: Fault = Fault { error: errno::EIO, cause: errno::ECANCELED };

/// The part of the heap through which payloads go.
pub(crate) struct Window {
    /// Where it begins in every PE's heap region.
    start: u64,
    chunk: usize,
    chunks: u32,
    free: Vec<u32>,
    /// Outbound payloads that wait for a chunk, first come first served.
    waiting: VecDeque<u64>,
}

impl Window {
    /// Chunks in `len` bytes at `start`; the same on every PE.
    pub(crate) fn new(start: u64, len: usize) -> Window {
        let chunk = (len / 32).clamp(4 << 10, 256 << 10) & !0xfff;
        let chunks = (len / chunk).min(1 << 16) as u32;
        Window { start, chunk, chunks, free: (0..chunks).rev().collect(), waiting: VecDeque::new() }
    }

    fn place(&self, chunk: u32) -> Place {
        Place { region: Region::Heap, offset: self.start + u64::from(chunk) * self.chunk as u64 }
    }
}

/// A payload that was announced by an RTS and has no FIN yet.
pub(super) struct Outbound {
    pub(super) peer: Peer,
    /// Endpoints: ours and the peer's.
    pub(super) ep: u32,
    to: u32,
    memory: UserMemory,
    /// Bytes that the program's memory counts in [`ProviderState::copied`], if this one's is a copy of it.
    copied: usize,
    purpose: Purpose,
    staging: Option<Box<Staging>>,
}

/// The operation that a payload belongs to.
pub(super) enum Purpose {
    /// A message, which is reported when it has been fetched.
    Message(Done),
    /// A write, whose request ends by itself.
    Write,
    /// A peer's read from registered memory.
    Answer(Box<[Remote]>),
    /// None any more.
    Revoked,
}

/// The way of a payload through the window.
struct Staging {
    /// The receiver's number from its CTS; none before, and none if the fragment that came with the RTS was all.
    cts: Option<u64>,
    /// Bytes that have been put there.
    staged: usize,
    chunks: Vec<u32>,
    /// True while it waits for a free chunk.
    waits_for_chunk: bool,
}

impl Outbound {
    pub(super) fn new(peer: Peer, (ep, to): (u32, u32), memory: UserMemory, purpose: Purpose) -> Outbound {
        Outbound { peer, ep, to, memory, copied: 0, purpose, staging: None }
    }

    /// The program may change its memory from now on. Returns the bytes that the copy counts.
    pub(super) fn copy(&mut self) -> usize {
        self.memory = self.memory.to_owned_copy();
        self.copied = self.memory.len().max(COPY_LEAST);
        self.copied
    }

    pub(super) fn is_copy(&self) -> bool {
        self.copied > 0
    }

    pub(super) fn message(&self) -> Option<&Done> {
        if let Purpose::Message(done) = &self.purpose { Some(done) } else { None }
    }

    pub(super) fn reads_from(&self, key: u64) -> bool {
        matches!(&self.purpose, Purpose::Answer(remotes) if remotes.iter().any(|remote| remote.key == key))
    }
}

/// A payload that is being fetched.
pub(super) struct Inbound {
    pub(super) peer: Peer,
    rts: u64,
    /// Endpoints: the peer's and ours.
    from: u32,
    pub(super) ep: u32,
    memory: UserMemory,
    pub(super) len: usize,
    pub(super) got: usize,
    pub(super) end: InboundEnd,
}

impl Inbound {
    pub(super) fn writes_to(&self, key: u64) -> bool {
        matches!(&self.end, InboundEnd::Written(written) if written.names(key))
    }
}

/// What follows when a payload is there.
pub(super) enum InboundEnd {
    /// A message was received.
    Received { done: Done, excess: usize, multi: u64, number: u64 },
    /// A peer's write took effect.
    Written(super::rma::Written),
    /// The answer to a request has come.
    Answered { request: u64 },
}

impl ProviderState {
    /// Encodes the RTS of an outbound payload.
    pub(super) fn describe(&self, id: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(Rts::BYTES);
        if let Some(outbound) = self.outbound.get(id) {
            let len = outbound.memory.len() as u64;
            let way = match NonZeroU32::new(std::process::id()).filter(|_| self.is_direct(outbound.peer)) {
                Some(pid) => {
                    let pieces = outbound.memory.spans().map(|span| (span.address() as u64, span.len() as u64));
                    Way::Memory(InMemory {
                        pid,
                        revoked: PROOF.revoked.load(Ordering::SeqCst) as u32,
                        proof: (&raw const *PROOF as u64, PROOF.whose),
                        pieces: Pieces::Several(pieces.collect()),
                    })
                }
                None => {
                    let staging = outbound.staging.as_ref();
                    Way::Window { ahead: staging.and_then(|way| Some((*way.chunks.first()?, way.staged))) }
                }
            };
            let rts = Rts { id, len, way };
            rts.encode(&mut out);
        }
        out
    }

    /// Puts the first fragment into the window before the RTS is sent, if the payload will go that way, so that the
    /// receiver need not wait for it. Half of the window stays free for receivers that wait already.
    pub(super) fn stage_ahead(&mut self, id: u64) {
        let Some(outbound) = self.outbound.get(id) else { return };
        let half = self.window.chunks as usize / 2;
        if self.is_direct(outbound.peer) || outbound.memory.len() == 0 || self.window.free.len() <= half {
            return;
        }
        if let Some(outbound) = self.outbound.get_mut(id) {
            outbound.staging =
                Some(Box::new(Staging { cts: None, staged: 0, chunks: Vec::new(), waits_for_chunk: false }));
        }
        self.stage(id);
    }

    /// Forgets a payload whose RTS could not be sent.
    pub(super) fn take_back(&mut self, id: u64) {
        if let Some(staging) = self.outbound.remove(id).and_then(|outbound| outbound.staging) {
            self.window.free.extend(staging.chunks);
            self.feed_waiting();
        }
    }

    /// Ends an outbound payload: reports it and frees its chunks.
    pub(super) fn withdraw(&mut self, id: u64, fault: Fault) {
        let Some(mut outbound) = self.outbound.remove(id) else { return };
        self.copied -= std::mem::take(&mut outbound.copied);
        if let Purpose::Message(done) = outbound.purpose {
            if fault == Fault::NONE {
                self.note(Step::Fetched, outbound.peer, id, done.len);
            }
            self.end(done, fault, 0);
        }
        if let Some(staging) = outbound.staging {
            self.window.free.extend(staging.chunks);
            self.feed_waiting();
        }
    }

    /// Revokes these RTS: their memory is not used any more, and nothing is reported of them.
    pub(super) fn revoke(&mut self, ids: Vec<u64>) {
        if !ids.is_empty() {
            PROOF.revoked.fetch_add(1, Ordering::SeqCst);
        }
        for id in ids {
            let Some(outbound) = self.outbound.get_mut(id) else { continue };
            self.copied -= std::mem::take(&mut outbound.copied);
            let Some(staging) = &mut outbound.staging else {
                // The receiver has copied it, or its CTS will be answered with a revocation.
                self.outbound.remove(id);
                continue;
            };
            (outbound.memory, outbound.purpose) = (UserMemory::nothing(), Purpose::Revoked);
            let Some(inbound) = staging.cts else {
                // The fragment that came with the RTS is a copy. It stays in its chunk until the receiver has got it, or sends
                // a CTS, which is answered with a revocation.
                continue;
            };
            let (peer, head) = (outbound.peer, Head::new(MessageKind::Revoked, outbound.to, outbound.ep, inbound));
            let (bytes, len) = REVOKED.encode();
            self.post(peer, &head, &bytes[..len]);
        }
    }

    /// Ends an inbound payload that the sender has revoked.
    pub(super) fn revoked(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let fault = fault_of(message, at)?;
        if self.inbound.get(head.aux).is_some_and(|inbound| inbound.peer == peer) {
            self.inbound_ends(head.aux, fault);
        }
        Some(())
    }

    /// Fetches the first `len` bytes that an RTS announced.
    #[allow(clippy::too_many_arguments, reason = "all of it describes one transfer")]
    pub(super) fn fetch_payload(
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
        let known = &self.peers[peer.seat as usize];
        if known.lost || known.generation != peer.generation {
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
            None if self.inbound.is_full() => self.inbound_is_over(inbound, errno::ENOMEM.into()),
            None => {
                let id = self.inbound.insert(inbound);
                let ahead = ahead.filter(|(chunk, bytes)| *chunk < self.window.chunks && *bytes <= self.window.chunk);
                if ahead.is_none_or(|(_, bytes)| bytes < len) {
                    let body = [id.to_le_bytes().as_slice(), &(len as u64).to_le_bytes()].concat();
                    self.post(peer, &Head::new(MessageKind::Cts, from, ep, rts.id), &body);
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
            let seat = self.job.pe_entry(peer.seat as usize).seat;
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
                self.peers[seat as usize].attach = Some(false);
                None
            }
        }
    }

    /// True if this process may read the sender's memory. Tried once for each peer.
    fn may_attach(&mut self, peer: Peer, at: &InMemory) -> bool {
        if !self.is_direct(peer) {
            return false;
        }
        let known = &mut self.peers[peer.seat as usize];
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

    /// Tells a peer that nobody will fetch the payload of its RTS.
    pub(super) fn refuse(&mut self, peer: Peer, from: u32, rts: &Rts, error: i32) {
        let (bytes, len) = Fault::from(error).encode();
        self.post(peer, &Head::new(MessageKind::Fin, from, 0, rts.id), &bytes[..len]);
    }

    pub(super) fn inbound_ends(&mut self, id: u64, fault: Fault) {
        if let Some(inbound) = self.inbound.remove(id) {
            self.inbound_is_over(inbound, fault);
        }
    }

    fn inbound_is_over(&mut self, inbound: Inbound, fault: Fault) {
        let (bytes, len) = fault.encode();
        let head = Head::new(MessageKind::Fin, inbound.from, inbound.ep, inbound.rts);
        self.post(inbound.peer, &head, &bytes[..len]);
        match inbound.end {
            InboundEnd::Received { done, excess, multi, number } => {
                self.pay_to_receive(done.len);
                if fault == Fault::NONE {
                    self.note(Step::Received, inbound.peer, number, done.len);
                }
                self.received(done, excess, multi, fault);
            }
            InboundEnd::Written(written) => self.written(written, fault),
            InboundEnd::Answered { request } => self.request_ends(request, fault),
        }
    }

    /// Begins to send a payload through the window, as the receiver asks.
    pub(super) fn on_cts(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let body = rest(message, at, 16);
        let mut reader = Reader(&body);
        let (inbound, len) = (reader.u64()?, usize::try_from(reader.u64()?).ok()?);
        let Some(outbound) = self.outbound.get_mut(head.aux).filter(|outbound| outbound.peer == peer) else {
            let (bytes, len) = REVOKED.encode();
            self.post(peer, &Head::new(MessageKind::Revoked, head.src, head.dst, inbound), &bytes[..len]);
            return Some(());
        };
        let none = || Box::new(Staging { cts: None, staged: 0, chunks: Vec::new(), waits_for_chunk: false });
        if outbound.staging.get_or_insert_with(none).cts.replace(inbound).is_some() {
            return None;
        }
        if matches!(outbound.purpose, Purpose::Revoked) {
            let (bytes, len) = REVOKED.encode();
            self.post(peer, &Head::new(MessageKind::Revoked, head.src, head.dst, inbound), &bytes[..len]);
            return Some(());
        }
        if len < outbound.memory.len() {
            outbound.memory.truncate(len);
        }
        self.feed(head.aux);
        Some(())
    }

    /// Puts as many fragments into the window as there is room for, and tells the receiver of each.
    fn feed(&mut self, id: u64) {
        while let Some((chunk, len)) = self.stage(id) {
            let Some(Outbound { peer, ep, to, staging: Some(staging), .. }) = self.outbound.get(id) else { return };
            let (peer, head) = (*peer, Head::new(MessageKind::Fragment, *to, *ep, staging.cts.unwrap_or(0)));
            self.post(peer, &head, &[chunk.to_le_bytes(), (len as u32).to_le_bytes()].concat());
        }
    }

    /// Puts the next fragment into the window; returns its chunk and length. `None` if there is no more, or no room.
    fn stage(&mut self, id: u64) -> Option<(u32, usize)> {
        let Outbound { memory, staging: Some(staging), .. } = self.outbound.get_mut(id)? else { return None };
        let left = memory.len().saturating_sub(staging.staged);
        if left == 0 || staging.waits_for_chunk || staging.chunks.len() >= CHUNKS_EACH {
            return None;
        }
        let Some(chunk) = self.window.free.pop() else {
            staging.waits_for_chunk = true;
            self.window.waiting.push_back(id);
            return None;
        };
        let len = left.min(self.window.chunk);
        let part = memory.part(staging.staged, len);
        let window = self.job.local(self.window.place(chunk));
        // SAFETY: a chunk of this PE's own window, which no peer gets from before it is told.
        unsafe { part.copy_to(window) };
        staging.chunks.push(chunk);
        staging.staged += len;
        Some((chunk, len))
    }

    /// Gives free chunks to those who have waited longest.
    fn feed_waiting(&mut self) {
        while !self.window.free.is_empty()
            && let Some(id) = self.window.waiting.pop_front()
        {
            if let Some(staging) = self.outbound.get_mut(id).and_then(|outbound| outbound.staging.as_mut()) {
                staging.waits_for_chunk = false;
            }
            self.feed(id);
        }
    }

    /// Gets a fragment that is in the peer's window now.
    pub(super) fn on_fragment(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let body = rest(message, at, 8);
        let mut reader = Reader(&body);
        let (chunk, len) = (reader.u32()?, reader.u32()? as usize);
        let Some(inbound) = self.inbound.get(head.aux).filter(|inbound| inbound.peer == peer) else {
            // Its endpoint or region was closed, which the peer will learn.
            return Some(());
        };
        if chunk >= self.window.chunks || len > self.window.chunk || len > inbound.len - inbound.got {
            return None;
        }
        self.get_fragment(head.aux, chunk, len);
        Some(())
    }

    /// Gets the next `len` bytes of an inbound payload from a chunk of the peer's window.
    fn get_fragment(&mut self, id: u64, chunk: u32, len: usize) {
        let place = self.window.place(chunk);
        let Some(inbound) = self.inbound.get_mut(id) else { return };
        let peer = inbound.peer;
        let fetched = inbound.memory.fetch(inbound.got, &self.job, (peer.seat as usize, place), len);
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
                self.post(peer, &done, &[]);
            }
        }
    }

    /// Frees the chunk of a fragment that the receiver has got.
    pub(super) fn on_fragment_done(&mut self, peer: Peer, head: &Head) -> Option<()> {
        let chunk = head.chunk?;
        let outbound = self.outbound.get_mut(head.aux).filter(|outbound| outbound.peer == peer)?;
        let staging = outbound.staging.as_mut()?;
        let at = staging.chunks.iter().position(|c| *c == chunk)?;
        staging.chunks.swap_remove(at);
        self.window.free.push(chunk);
        self.feed_waiting();
        self.feed(head.aux);
        Some(())
    }

    pub(super) fn on_fin(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let fault = fault_of(message, at)?;
        // It may have been revoked meanwhile.
        if self.outbound.get(head.aux).is_some_and(|outbound| outbound.peer == peer) {
            self.withdraw(head.aux, fault);
        }
        Some(())
    }
}
