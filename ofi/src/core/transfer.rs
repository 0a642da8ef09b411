//! Large payloads: offered by whoever has them, pulled by whoever wants them.
//!
//! On one host, off the network, the puller reads the other process's memory, if the kernel lets it. Otherwise the offering
//! side puts the payload into its window, a part of its symmetric heap, chunk by chunk, and the puller gets each chunk
//! by the adapter: nothing bypasses the network where there is one.
//!
//! An offer whose memory is to be used no more, because its endpoint or region was closed, is *revoked*. Who reads this
//! process's memory looks at a word behind the payload that counts revocations. If it has changed, the payload may be anything,
//! and who offered it is asked through the window. Who pulls through the window is told. It may be getting a chunk, so chunks
//! wait for its answer before others use them.

use super::objects::{Done, Fault};
use super::{State, fault_of, rest};
use crate::abi::constants::errno;
use crate::memory::{UserMemory, read_process};
use crate::wire::{Head, Kind, Offer, Pieces, Reader, Remote};
use angara::mailbox::{Message, Peer};
use angara::{Place, Region};
use angara_protocol::calls::Step;
use std::collections::VecDeque;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most chunks of one payload that wait to be got.
const CHUNKS_EACH: usize = 4;

/// Words that a peer reads in this process's memory, beside payload.
#[repr(C)]
struct Proof {
    /// Proves whose memory it is.
    whose: u64,
    /// How often offers have been revoked.
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
    /// Offers that wait for a chunk.
    hungry: VecDeque<u64>,
}

impl Window {
    /// Chunks in `len` bytes at `start`; the same on every PE.
    pub(crate) fn new(start: u64, len: usize) -> Window {
        let chunk = (len / 32).clamp(4 << 10, 256 << 10) & !0xfff;
        let chunks = (len / chunk).min(1 << 16) as u32;
        Window { start, chunk, chunks, free: (0..chunks).rev().collect(), hungry: VecDeque::new() }
    }

    fn place(&self, chunk: u32) -> Place {
        Place { region: Region::Heap, offset: self.start + u64::from(chunk) * self.chunk as u64 }
    }
}

/// A payload that waits to be fetched.
pub(super) struct Offered {
    pub(super) peer: Peer,
    /// Endpoints: ours and the peer's.
    pub(super) ep: u32,
    to: u32,
    memory: UserMemory,
    /// The memory is a copy of the program's, of which there may be so many.
    pub(super) is_copy: bool,
    purpose: Purpose,
    staging: Option<Box<Staging>>,
}

/// Reason why a payload was offered.
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
    /// The peer's number for it, once the peer has asked for more than came with the offer.
    pull: Option<u64>,
    /// Bytes that have been put there.
    staged: usize,
    chunks: Vec<u32>,
    /// It waits for a chunk.
    is_hungry: bool,
}

impl Offered {
    pub(super) fn new(peer: Peer, (ep, to): (u32, u32), memory: UserMemory, purpose: Purpose) -> Offered {
        Offered { peer, ep, to, memory, is_copy: false, purpose, staging: None }
    }

    pub(super) fn message(&self) -> Option<&Done> {
        if let Purpose::Message(done) = &self.purpose { Some(done) } else { None }
    }

    pub(super) fn reads_from(&self, key: u64) -> bool {
        matches!(&self.purpose, Purpose::Answer(remotes) if remotes.iter().any(|remote| remote.key == key))
    }
}

/// A payload that is being fetched.
pub(super) struct Pull {
    pub(super) peer: Peer,
    offer: u64,
    /// Endpoints: the peer's and ours.
    from: u32,
    pub(super) ep: u32,
    memory: UserMemory,
    pub(super) len: usize,
    pub(super) got: usize,
    pub(super) end: PullEnd,
}

impl Pull {
    pub(super) fn writes_to(&self, key: u64) -> bool {
        matches!(&self.end, PullEnd::Written(written) if written.names(key))
    }
}

/// Continuation when a payload has come.
pub(super) enum PullEnd {
    /// A message was received.
    Received { done: Done, excess: usize, multi: u64, number: u64 },
    /// A peer's write took effect.
    Written(super::rma::Written),
    /// The answer to a request has come.
    Answered { request: u64 },
}

impl State {
    /// Returns what a peer has to know of an offer.
    pub(super) fn describe(&self, id: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(Offer::BYTES);
        if let Some(offered) = self.offers.get(id) {
            let direct = self.is_direct(offered.peer);
            let ahead = offered.staging.as_ref().and_then(|staging| Some((*staging.chunks.first()?, staging.staged)));
            let pieces = offered.memory.spans().map(|span| (span.address() as u64, span.len() as u64));
            let offer = Offer {
                id,
                len: offered.memory.len() as u64,
                pid: if direct { std::process::id() } else { 0 },
                revoked: PROOF.revoked.load(Ordering::SeqCst) as u32,
                proof: if direct { (&raw const *PROOF as u64, PROOF.whose) } else { Offer::ahead(ahead) },
                pieces: Pieces::Several(if direct { pieces.collect() } else { Box::default() }),
            };
            offer.encode(&mut out);
        }
        out
    }

    /// Puts the first chunk of an offer into the window, before the peer asks for it, where it will go that way: the peer need
    /// not wait for it. Half of the window is left for what peers wait for.
    pub(super) fn stage_ahead(&mut self, id: u64) {
        let Some(offered) = self.offers.get(id) else { return };
        let half = self.window.chunks as usize / 2;
        if self.is_direct(offered.peer) || offered.memory.len() == 0 || self.window.free.len() <= half {
            return;
        }
        if let Some(offered) = self.offers.get_mut(id) {
            offered.staging = Some(Box::new(Staging { pull: None, staged: 0, chunks: Vec::new(), is_hungry: false }));
        }
        self.stage(id);
    }

    /// An offer was not sent.
    pub(super) fn take_back(&mut self, id: u64) {
        if let Some(staging) = self.offers.remove(id).and_then(|offered| offered.staging) {
            self.window.free.extend(staging.chunks);
            self.feed_hungry();
        }
    }

    /// An offer is over: its chunks are free again.
    pub(super) fn withdraw(&mut self, id: u64, fault: Fault) {
        let Some(mut offered) = self.offers.remove(id) else { return };
        self.copies -= usize::from(std::mem::take(&mut offered.is_copy));
        if let Purpose::Message(done) = offered.purpose {
            if fault == Fault::NONE {
                self.note(Step::Fetched, offered.peer, id, done.len);
            }
            self.end(done, fault, 0);
        }
        if let Some(staging) = offered.staging {
            self.window.free.extend(staging.chunks);
            self.feed_hungry();
        }
    }

    /// The memory of these offers is not used any more, and nothing is reported of them.
    pub(super) fn revoke(&mut self, offers: Vec<u64>) {
        if !offers.is_empty() {
            PROOF.revoked.fetch_add(1, Ordering::SeqCst);
        }
        for id in offers {
            let Some(offered) = self.offers.get_mut(id) else { continue };
            self.copies -= usize::from(std::mem::take(&mut offered.is_copy));
            let Some(staging) = &mut offered.staging else {
                // Its peer has copied it, or will claim it in vain.
                self.offers.remove(id);
                continue;
            };
            (offered.memory, offered.purpose) = (UserMemory::nothing(), Purpose::Revoked);
            let Some(pull) = staging.pull else {
                // An offer's payload here is a copy, and stays in its chunk until the peer has got it, or asks for more
                // in vain.
                continue;
            };
            let (peer, head) = (offered.peer, Head::new(Kind::Revoked, offered.to, offered.ep, pull));
            let (bytes, len) = REVOKED.encode();
            self.post(peer, &head, &bytes[..len]);
        }
    }

    /// Returns what was offered here does not come.
    pub(super) fn revoked(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let fault = fault_of(message, at)?;
        if self.pulls.get(head.aux).is_some_and(|pull| pull.peer == peer) {
            self.pull_ends(head.aux, fault);
        }
        Some(())
    }

    /// Fetches the first `len` bytes of an offer.
    #[allow(clippy::too_many_arguments, reason = "a pull is all of that")]
    pub(super) fn pull(
        &mut self,
        peer: Peer,
        from: u32,
        ep: u32,
        offer: &Offer,
        memory: UserMemory,
        len: usize,
        end: PullEnd,
    ) {
        let memory = memory.part(0, len);
        let known = &self.peers[peer.seat as usize];
        if known.lost || known.generation != peer.generation {
            // The payload it offered is kept, but there is no peer to answer.
            let pull = Pull { peer, offer: offer.id, from, ep, memory, len, got: 0, end };
            return self.pull_is_over(pull, Fault::io(errno::ENOTCONN));
        }
        let tried = if len > 0 && self.may_attach(peer, offer) { self.attach(peer, offer, &memory) } else { None };
        let pull = Pull { peer, offer: offer.id, from, ep, memory, len, got: 0, end };
        match tried {
            Some(fault) => self.pull_is_over(pull, fault),
            None if len == 0 => self.pull_is_over(pull, Fault::NONE),
            None if self.pulls.is_full() => self.pull_is_over(pull, errno::ENOMEM.into()),
            None => {
                let id = self.pulls.insert(pull);
                let ahead = offer
                    .is_ahead()
                    .filter(|(chunk, bytes)| *chunk < self.window.chunks && *bytes <= self.window.chunk);
                if ahead.is_none_or(|(_, bytes)| bytes < len) {
                    let body = [id.to_le_bytes().as_slice(), &(len as u64).to_le_bytes()].concat();
                    self.post(peer, &Head::new(Kind::Claim, from, ep, offer.id), &body);
                }
                if let Some((chunk, bytes)) = ahead {
                    self.get_piece(id, chunk, bytes.min(len));
                }
            }
        }
    }

    /// Copies an offer out of the memory of the process that made it. Nothing if the kernel does not let it any more, or the offer
    /// may have been revoked meanwhile: there is the window.
    fn attach(&mut self, peer: Peer, offer: &Offer, memory: &UserMemory) -> Option<Fault> {
        let (pid, then) = (offer.pid as i32, offer.proof.0.wrapping_add(REVOKED_AT));
        let is_revoked = |word: u64| word as u32 != offer.revoked;
        let read = read_process(pid, offer.pieces(), memory, then);
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
        crate::log::warn(&format!("{len} bytes of process {} at seat {seat} could not be read: {error}", offer.pid));
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

    /// True if this process may read the memory of the one that offers. Tried once for each peer.
    fn may_attach(&mut self, peer: Peer, offer: &Offer) -> bool {
        if offer.pid == 0 || !self.is_direct(peer) {
            return false;
        }
        let known = &mut self.peers[peer.seat as usize];
        *known.attach.get_or_insert_with(|| {
            let nothing = UserMemory::nothing();
            let read = read_process(offer.pid as i32, std::iter::empty(), &nothing, offer.proof.0);
            let may = read.as_ref().is_ok_and(|word| *word == offer.proof.1);
            if !may {
                let why = read.err().map_or("it is another process".to_owned(), |e| e.to_string());
                crate::log::info(&format!("large messages from seat {} go through its window: {why}", peer.seat));
            }
            may
        })
    }

    /// Tells a peer that nobody will fetch its offer.
    pub(super) fn refuse(&mut self, peer: Peer, from: u32, offer: &Offer, error: i32) {
        let (bytes, len) = Fault::from(error).encode();
        self.post(peer, &Head::new(Kind::Fetched, from, 0, offer.id), &bytes[..len]);
    }

    pub(super) fn pull_ends(&mut self, id: u64, fault: Fault) {
        if let Some(pull) = self.pulls.remove(id) {
            self.pull_is_over(pull, fault);
        }
    }

    fn pull_is_over(&mut self, pull: Pull, fault: Fault) {
        let (bytes, len) = fault.encode();
        let head = Head::new(Kind::Fetched, pull.from, pull.ep, pull.offer);
        self.post(pull.peer, &head, &bytes[..len]);
        match pull.end {
            PullEnd::Received { done, excess, multi, number } => {
                self.pay_to_receive(done.len);
                if fault == Fault::NONE {
                    self.note(Step::Received, pull.peer, number, done.len);
                }
                self.received(done, excess, multi, fault);
            }
            PullEnd::Written(written) => self.written(written, fault),
            PullEnd::Answered { request } => self.request_ends(request, fault),
        }
    }

    /// The payload is wanted through the window.
    pub(super) fn offer_claimed(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let body = rest(message, at, 16);
        let mut reader = Reader(&body);
        let (pull, len) = (reader.u64()?, usize::try_from(reader.u64()?).ok()?);
        let Some(offered) = self.offers.get_mut(head.aux).filter(|offered| offered.peer == peer) else {
            let (bytes, len) = REVOKED.encode();
            self.post(peer, &Head::new(Kind::Revoked, head.src, head.dst, pull), &bytes[..len]);
            return Some(());
        };
        let none = || Box::new(Staging { pull: None, staged: 0, chunks: Vec::new(), is_hungry: false });
        if offered.staging.get_or_insert_with(none).pull.replace(pull).is_some() {
            return None;
        }
        if matches!(offered.purpose, Purpose::Revoked) {
            let (bytes, len) = REVOKED.encode();
            self.post(peer, &Head::new(Kind::Revoked, head.src, head.dst, pull), &bytes[..len]);
            return Some(());
        }
        if len < offered.memory.len() {
            offered.memory.truncate(len);
        }
        self.feed(head.aux);
        Some(())
    }

    /// Puts as much of an offer into the window as there is room for, and tells the peer.
    fn feed(&mut self, id: u64) {
        while let Some((chunk, len)) = self.stage(id) {
            let Some(Offered { peer, ep, to, staging: Some(staging), .. }) = self.offers.get(id) else { return };
            let (peer, head) = (*peer, Head::new(Kind::Piece, *to, *ep, staging.pull.unwrap_or(0)));
            self.post(peer, &head, &[chunk.to_le_bytes(), (len as u32).to_le_bytes()].concat());
        }
    }

    /// Puts the next chunk of an offer into the window, if there is one and room for it.
    fn stage(&mut self, id: u64) -> Option<(u32, usize)> {
        let Offered { memory, staging: Some(staging), .. } = self.offers.get_mut(id)? else { return None };
        let left = memory.len().saturating_sub(staging.staged);
        if left == 0 || staging.is_hungry || staging.chunks.len() >= CHUNKS_EACH {
            return None;
        }
        let Some(chunk) = self.window.free.pop() else {
            staging.is_hungry = true;
            self.window.hungry.push_back(id);
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
    fn feed_hungry(&mut self) {
        while !self.window.free.is_empty()
            && let Some(id) = self.window.hungry.pop_front()
        {
            if let Some(staging) = self.offers.get_mut(id).and_then(|offered| offered.staging.as_mut()) {
                staging.is_hungry = false;
            }
            self.feed(id);
        }
    }

    /// A chunk is in the peer's window.
    pub(super) fn piece_came(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let body = rest(message, at, 8);
        let mut reader = Reader(&body);
        let (chunk, len) = (reader.u32()?, reader.u32()? as usize);
        let Some(pull) = self.pulls.get(head.aux).filter(|pull| pull.peer == peer) else {
            // Its endpoint or region was closed, which the peer will learn.
            return Some(());
        };
        if chunk >= self.window.chunks || len > self.window.chunk || len > pull.len - pull.got {
            return None;
        }
        self.get_piece(head.aux, chunk, len);
        Some(())
    }

    /// Gets so many bytes of a pull from a chunk of the peer's window.
    fn get_piece(&mut self, id: u64, chunk: u32, len: usize) {
        let place = self.window.place(chunk);
        let Some(pull) = self.pulls.get_mut(id) else { return };
        let peer = pull.peer;
        let fetched = pull.memory.fetch(pull.got, &self.job, (peer.seat as usize, place), len);
        pull.got += len;
        let (is_over, offer, from, ep) = (pull.got == pull.len, pull.offer, pull.from, pull.ep);
        match fetched {
            Err(e) => {
                crate::log::warn(&format!("a chunk of {len} bytes in the window of seat {}: {e}", peer.seat));
                self.pull_ends(id, Fault::from(&e));
            }
            Ok(()) if is_over => self.pull_ends(id, Fault::NONE),
            Ok(()) => {
                let done = Head { tag: Some(u64::from(chunk)), ..Head::new(Kind::PieceDone, from, ep, offer) };
                self.post(peer, &done, &[]);
            }
        }
    }

    /// A chunk may be used again.
    pub(super) fn piece_done(&mut self, peer: Peer, head: &Head) -> Option<()> {
        let chunk = u32::try_from(head.tag?).ok()?;
        let offered = self.offers.get_mut(head.aux).filter(|offered| offered.peer == peer)?;
        let staging = offered.staging.as_mut()?;
        let at = staging.chunks.iter().position(|c| *c == chunk)?;
        staging.chunks.swap_remove(at);
        self.window.free.push(chunk);
        self.feed_hungry();
        self.feed(head.aux);
        Some(())
    }

    pub(super) fn offer_fetched(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let fault = fault_of(message, at)?;
        // It may have been revoked meanwhile.
        if self.offers.get(head.aux).is_some_and(|offered| offered.peer == peer) {
            self.withdraw(head.aux, fault);
        }
        Some(())
    }
}
