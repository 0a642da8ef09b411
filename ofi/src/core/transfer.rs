//! Large payloads: offered by whoever has them, pulled by whoever wants them.
//!
//! On one host, off the network, the puller reads the other process's memory, if the kernel lets it. Otherwise the offering
//! side puts the payload into its window, a part of its symmetric heap, chunk by chunk, and the puller gets each chunk
//! by the adapter: nothing bypasses the network where there is one.

use super::objects::{Done, Fault};
use super::{State, rest};
use crate::abi::constants::errno;
use crate::memory::{UserMemory, read_process};
use crate::wire::{Head, Kind, Offer, Reader};
use angara::mailbox::{Message, Peer};
use angara::{Place, Region};
use std::collections::VecDeque;
use std::sync::LazyLock;

/// Most chunks of one payload that wait to be got.
const CHUNKS_EACH: usize = 4;

/// A word that proves to a reader of this process's memory whose it is.
static PROOF: LazyLock<Box<u64>> = LazyLock::new(|| {
    let mut bytes = [0; 8];
    let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    Box::new(if drawn == Ok(8) { u64::from_ne_bytes(bytes) } else { u64::from(std::process::id()) << 32 | 0x0f1 })
});

/// The part of the heap through which payloads go.
pub(crate) struct Window {
    /// Where it begins in every PE's heap region.
    start: u64,
    chunk: usize,
    chunks: u32,
    free: Vec<u32>,
    /// Offers that wait for a chunk.
    hungry: VecDeque<u32>,
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
    memory: UserMemory,
    /// What is reported when it has been.
    pub(super) done: Option<Done>,
    /// The peer's endpoint, and its pull if the payload goes through the window.
    to: u32,
    pull: Option<u32>,
    staged: usize,
    chunks: Vec<u32>,
}

impl Offered {
    pub(super) fn new(peer: Peer, to: u32, memory: UserMemory, done: Option<Done>) -> Offered {
        Offered { peer, memory, done, to, pull: None, staged: 0, chunks: Vec::new() }
    }
}

/// A payload that is being fetched.
pub(super) struct Pull {
    pub(super) peer: Peer,
    offer: u32,
    /// Endpoints: the peer's and ours.
    from: u32,
    ep: u32,
    memory: UserMemory,
    pub(super) len: usize,
    pub(super) got: usize,
    pub(super) end: PullEnd,
}

/// What follows when a payload is there.
pub(super) enum PullEnd {
    /// A message was received.
    Received { done: Done, excess: usize, multi: u32 },
    /// A peer's write took effect.
    Written(super::rma::Written),
    /// The answer to a request has come.
    Answered { request: u32 },
}

impl State {
    /// What a peer has to know of an offer.
    pub(super) fn describe(&self, id: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(Offer::BYTES);
        if let Some(offered) = self.offers.get(id) {
            let direct = self.is_direct(offered.peer);
            let pieces = offered.memory.spans().map(|span| (span.address() as u64, span.len() as u64));
            let offer = Offer {
                id,
                len: offered.memory.len() as u64,
                pid: if direct { std::process::id() } else { 0 },
                proof: (&raw const **PROOF as u64, **PROOF),
                pieces: if direct { pieces.collect() } else { Vec::new() },
            };
            offer.encode(&mut out);
        }
        out
    }

    /// An offer is over: its chunks are free again.
    pub(super) fn withdraw(&mut self, id: u32, fault: Fault) {
        let Some(offered) = self.offers.remove(id) else { return };
        self.window.free.extend(offered.chunks);
        if let Some(done) = offered.done {
            self.end_under_way(done, fault);
        }
        self.feed_hungry();
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
            // What it offered has been kept, but nobody is there to answer.
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
                let body = [id.to_le_bytes().as_slice(), &(len as u64).to_le_bytes()].concat();
                self.post(peer, &Head::new(Kind::Claim, from, ep, offer.id), &body);
            }
        }
    }

    /// Copies an offer out of the memory of the process that made it. Nothing if the kernel does not let it any more: there is
    /// the window.
    fn attach(&mut self, peer: Peer, offer: &Offer, memory: &UserMemory) -> Option<Fault> {
        let Err(error) = read_process(offer.pid as i32, &offer.pieces, memory) else {
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

    /// Whether this process may read the memory of the one that offers. Tried once for each peer.
    fn may_attach(&mut self, peer: Peer, offer: &Offer) -> bool {
        if offer.pid == 0 || !self.is_direct(peer) {
            return false;
        }
        let known = &mut self.peers[peer.seat as usize];
        *known.attach.get_or_insert_with(|| {
            let mut word = [0; 8];
            let copy = UserMemory::owned(Box::new([0; 8]));
            let read = read_process(offer.pid as i32, &[(offer.proof.0, 8)], &copy);
            copy.read(0, &mut word);
            let may = read.is_ok() && u64::from_ne_bytes(word) == offer.proof.1;
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

    pub(super) fn pull_ends(&mut self, id: u32, fault: Fault) {
        if let Some(pull) = self.pulls.remove(id) {
            self.pull_is_over(pull, fault);
        }
    }

    fn pull_is_over(&mut self, pull: Pull, fault: Fault) {
        let (bytes, len) = fault.encode();
        let head = Head::new(Kind::Fetched, pull.from, pull.ep, pull.offer);
        self.post(pull.peer, &head, &bytes[..len]);
        match pull.end {
            PullEnd::Received { done, excess, multi } => self.received(done, excess, multi, fault),
            PullEnd::Written(written) => self.written(written, fault),
            PullEnd::Answered { request } => self.request_ends(request, fault),
        }
    }

    /// The payload is wanted through the window.
    pub(super) fn offer_claimed(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let body = rest(message, at, 12);
        let mut reader = Reader(&body);
        let (pull, len) = (reader.u32()?, usize::try_from(reader.u64()?).ok()?);
        let offered = self.offers.get_mut(head.aux).filter(|offered| offered.peer == peer && offered.pull.is_none())?;
        offered.pull = Some(pull);
        if len < offered.memory.len() {
            offered.memory.truncate(len);
        }
        self.feed(head.aux);
        Some(())
    }

    /// Puts as much of an offer into the window as there is room for.
    fn feed(&mut self, id: u32) {
        while let Some(offered) = self.offers.get_mut(id) {
            let left = offered.memory.len() - offered.staged;
            let (Some(pull), 1..) = (offered.pull, left) else { return };
            if offered.chunks.len() >= CHUNKS_EACH {
                return;
            }
            let Some(chunk) = self.window.free.pop() else {
                self.window.hungry.push_back(id);
                return;
            };
            let len = left.min(self.window.chunk);
            let part = offered.memory.part(offered.staged, len);
            let window = self.job.local(self.window.place(chunk));
            // SAFETY: a chunk of this PE's own window, which no peer gets from before it is told.
            unsafe { part.copy_to(window) };
            offered.chunks.push(chunk);
            offered.staged += len;
            let (peer, to) = (offered.peer, offered.to);
            let body = [chunk.to_le_bytes(), (len as u32).to_le_bytes()].concat();
            // The peer's endpoint is told by its pull; ours is that of the offer.
            self.post(peer, &Head::new(Kind::Piece, to, id, pull), &body);
        }
    }

    fn feed_hungry(&mut self) {
        for id in std::mem::take(&mut self.window.hungry) {
            self.feed(id);
        }
    }

    /// A chunk is in the peer's window.
    pub(super) fn piece_came(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let body = rest(message, at, 8);
        let mut reader = Reader(&body);
        let (chunk, len) = (reader.u32()?, reader.u32()? as usize);
        let pull = self.pulls.get_mut(head.aux).filter(|pull| pull.peer == peer)?;
        if chunk >= self.window.chunks || len > self.window.chunk || len > pull.len - pull.got {
            return None;
        }
        let place = self.window.place(chunk);
        let fetched = pull.memory.fetch(pull.got, &self.job, (peer.seat as usize, place), len);
        pull.got += len;
        let (is_over, offer, from, ep) = (pull.got == pull.len, pull.offer, pull.from, pull.ep);
        match fetched {
            Err(e) => {
                crate::log::warn(&format!("a chunk of {len} bytes in the window of seat {}: {e}", peer.seat));
                self.pull_ends(head.aux, Fault::from(&e));
            }
            Ok(()) if is_over => self.pull_ends(head.aux, Fault::NONE),
            Ok(()) => {
                let done = Head { tag: Some(u64::from(chunk)), ..Head::new(Kind::PieceDone, from, ep, offer) };
                self.post(peer, &done, &[]);
            }
        }
        Some(())
    }

    /// A chunk may be used again.
    pub(super) fn piece_done(&mut self, peer: Peer, head: &Head) -> Option<()> {
        let chunk = u32::try_from(head.tag?).ok()?;
        let offered = self.offers.get_mut(head.aux).filter(|offered| offered.peer == peer)?;
        let at = offered.chunks.iter().position(|c| *c == chunk)?;
        offered.chunks.swap_remove(at);
        self.window.free.push(chunk);
        self.feed_hungry();
        self.feed(head.aux);
        Some(())
    }

    pub(super) fn offer_fetched(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        self.offers.get(head.aux).filter(|offered| offered.peer == peer)?;
        let fault = Fault::decode(&mut Reader(&rest(message, at, 8)))?;
        self.withdraw(head.aux, fault);
        Some(())
    }
}
