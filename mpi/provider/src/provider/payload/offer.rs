//! The sender's side: payloads that stay here until they are fetched, and this process's part of the window.

use super::proof::{PROOF, REVOKED};
use crate::memory::UserMemory;
use crate::provider::ends::Ends;
use crate::provider::fault::{Fault, fault_of};
use crate::provider::here::{Here, Window};
use crate::provider::noted::Notes;
use crate::provider::objects::Done;
use crate::provider::peers::Peers;
use crate::slots::Slots;
use crate::wire::{Head, InMemory, MessageKind, Pieces, Reader, Remote, Rts, Way, rest};
use angara::mailbox::{Message, Peer};
use angara_protocol::calls::Step;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;

/// Most chunks of one payload that wait to be got.
const CHUNKS_EACH: usize = 4;

/// Bytes that a copy of a payload counts at least, whatever its length: keeping it costs as much.
const COPY_LEAST: usize = 2048;

/// A payload that was announced by an RTS and has no FIN yet.
pub(crate) struct Outbound {
    pub(in crate::provider) peer: Peer,
    /// Endpoints: ours and the peer's.
    pub(in crate::provider) ep: u32,
    to: u32,
    memory: UserMemory,
    /// Bytes that the program's memory counts in [`Offers::copied`], if this one's is a copy of it.
    copied: usize,
    purpose: Purpose,
    staging: Option<Box<Staging>>,
}

/// The operation that a payload belongs to.
pub(crate) enum Purpose {
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

impl Staging {
    fn begin() -> Box<Staging> {
        Box::new(Staging { cts: None, staged: 0, chunks: Vec::new(), waits_for_chunk: false })
    }
}

impl Outbound {
    pub(in crate::provider) fn new(peer: Peer, (ep, to): (u32, u32), memory: UserMemory, purpose: Purpose) -> Outbound {
        Outbound { peer, ep, to, memory, copied: 0, purpose, staging: None }
    }

    /// The program may change its memory from now on. Returns the bytes that the copy counts.
    pub(in crate::provider) fn copy(&mut self) -> usize {
        self.memory = self.memory.to_owned_copy();
        self.copied = self.memory.len().max(COPY_LEAST);
        self.copied
    }

    pub(in crate::provider) fn is_copy(&self) -> bool {
        self.copied > 0
    }

    pub(in crate::provider) fn message(&self) -> Option<&Done> {
        if let Purpose::Message(done) = &self.purpose { Some(done) } else { None }
    }

    pub(in crate::provider) fn reads_from(&self, key: u64) -> bool {
        matches!(&self.purpose, Purpose::Answer(remotes) if remotes.iter().any(|remote| remote.key == key))
    }
}

/// Payloads of this process that peers fetch, and the chunks of its own window.
pub(crate) struct Offers {
    pub(in crate::provider) all: Slots<Outbound, u64>,
    /// Bytes of payloads that are copies of the program's memory ([`Outbound::copied`]).
    pub(in crate::provider) copied: usize,
    /// Chunks without a fragment.
    free: Vec<u32>,
    /// Payloads that wait for a chunk, first come first served.
    waiting: VecDeque<u64>,
}

impl Offers {
    pub(in crate::provider) fn new(window: &Window) -> Offers {
        Offers { all: Slots::new(), copied: 0, free: (0..window.chunks).rev().collect(), waiting: VecDeque::new() }
    }

    /// Messages of the program, with whom they go to.
    pub(in crate::provider) fn messages(&self) -> impl Iterator<Item = (&Done, Peer)> {
        self.all.iter().filter_map(|(_, rts)| Some((rts.message()?, rts.peer)))
    }

    /// Encodes the RTS of an outbound payload.
    pub(in crate::provider) fn describe(&self, here: &Here, id: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(Rts::BYTES);
        if let Some(outbound) = self.all.get(id) {
            let len = outbound.memory.len() as u64;
            let way = match NonZeroU32::new(std::process::id()).filter(|_| here.is_direct(outbound.peer)) {
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
    pub(in crate::provider) fn stage_ahead(&mut self, here: &Here, id: u64) {
        let Some(outbound) = self.all.get(id) else { return };
        let half = here.window.chunks as usize / 2;
        if here.is_direct(outbound.peer) || outbound.memory.len() == 0 || self.free.len() <= half {
            return;
        }
        if let Some(outbound) = self.all.get_mut(id) {
            outbound.staging = Some(Staging::begin());
        }
        self.stage(here, id);
    }

    /// Puts the next fragment into the window; returns its chunk and length. `None` if there is no more, or no room.
    fn stage(&mut self, here: &Here, id: u64) -> Option<(u32, usize)> {
        let Outbound { memory, staging: Some(staging), .. } = self.all.get_mut(id)? else { return None };
        let left = memory.len().saturating_sub(staging.staged);
        if left == 0 || staging.waits_for_chunk || staging.chunks.len() >= CHUNKS_EACH {
            return None;
        }
        let Some(chunk) = self.free.pop() else {
            staging.waits_for_chunk = true;
            self.waiting.push_back(id);
            return None;
        };
        let len = left.min(here.window.chunk);
        let part = memory.part(staging.staged, len);
        let window = here.job.local(here.window.place(chunk));
        // SAFETY: a chunk of this PE's own window, which no peer gets from before it is told.
        unsafe { part.copy_to(window) };
        staging.chunks.push(chunk);
        staging.staged += len;
        Some((chunk, len))
    }
}

/// What the sender's side of a transfer touches.
pub(crate) struct Offering<'a> {
    pub(in crate::provider) offers: &'a mut Offers,
    pub(in crate::provider) peers: &'a mut Peers,
    pub(in crate::provider) notes: &'a Notes,
    pub(in crate::provider) ends: Ends<'a>,
}

impl Offering<'_> {
    /// Forgets a payload whose RTS could not be sent.
    pub(in crate::provider) fn take_back(&mut self, id: u64) {
        if let Some(staging) = self.offers.all.remove(id).and_then(|outbound| outbound.staging) {
            self.offers.free.extend(staging.chunks);
            self.feed_waiting();
        }
    }

    /// Ends an outbound payload: reports it and frees its chunks.
    pub(in crate::provider) fn withdraw(&mut self, id: u64, fault: Fault) {
        let Some(mut outbound) = self.offers.all.remove(id) else { return };
        self.offers.copied -= std::mem::take(&mut outbound.copied);
        if let Purpose::Message(done) = outbound.purpose {
            if fault == Fault::NONE {
                self.notes.note(Step::Fetched, outbound.peer, id, done.len);
            }
            self.ends.end(done, fault, 0);
        }
        if let Some(staging) = outbound.staging {
            self.offers.free.extend(staging.chunks);
            self.feed_waiting();
        }
    }

    /// Revokes these RTS: their memory is not used any more, and nothing is reported of them.
    pub(in crate::provider) fn revoke(&mut self, ids: Vec<u64>) {
        if !ids.is_empty() {
            PROOF.revoked.fetch_add(1, Ordering::SeqCst);
        }
        for id in ids {
            let Some(outbound) = self.offers.all.get_mut(id) else { continue };
            self.offers.copied -= std::mem::take(&mut outbound.copied);
            let Some(staging) = &mut outbound.staging else {
                // The receiver has copied it, or its CTS will be answered with a revocation.
                self.offers.all.remove(id);
                continue;
            };
            (outbound.memory, outbound.purpose) = (UserMemory::nothing(), Purpose::Revoked);
            let Some(inbound) = staging.cts else {
                // The fragment that came with the RTS is a copy. It stays in its chunk until the receiver has got it, or sends
                // a CTS, which is answered with a revocation.
                continue;
            };
            let (peer, head) = (outbound.peer, Head::new(MessageKind::Revoked, outbound.to, outbound.ep, inbound));
            self.peers.post_fault(peer, &head, REVOKED);
        }
    }

    /// Begins to send a payload through the window, as the receiver asks.
    pub(in crate::provider) fn on_cts(
        &mut self,
        peer: Peer,
        head: &Head,
        message: &Message<'_>,
        at: usize,
    ) -> Option<()> {
        let body = rest(message, at, 16);
        let mut reader = Reader(&body);
        let (inbound, len) = (reader.u64()?, usize::try_from(reader.u64()?).ok()?);
        let Some(outbound) = self.offers.all.get_mut(head.aux).filter(|outbound| outbound.peer == peer) else {
            self.peers.post_fault(peer, &Head::new(MessageKind::Revoked, head.src, head.dst, inbound), REVOKED);
            return Some(());
        };
        if outbound.staging.get_or_insert_with(Staging::begin).cts.replace(inbound).is_some() {
            return None;
        }
        if matches!(outbound.purpose, Purpose::Revoked) {
            self.peers.post_fault(peer, &Head::new(MessageKind::Revoked, head.src, head.dst, inbound), REVOKED);
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
        while let Some((chunk, len)) = self.offers.stage(self.ends.here, id) {
            let Some(Outbound { peer, ep, to, staging: Some(staging), .. }) = self.offers.all.get(id) else { return };
            let (peer, head) = (*peer, Head::new(MessageKind::Fragment, *to, *ep, staging.cts.unwrap_or(0)));
            self.peers.post(peer, &head, &[chunk.to_le_bytes(), (len as u32).to_le_bytes()].concat());
        }
    }

    /// Gives free chunks to those who have waited longest.
    fn feed_waiting(&mut self) {
        while !self.offers.free.is_empty()
            && let Some(id) = self.offers.waiting.pop_front()
        {
            if let Some(staging) = self.offers.all.get_mut(id).and_then(|outbound| outbound.staging.as_mut()) {
                staging.waits_for_chunk = false;
            }
            self.feed(id);
        }
    }

    /// Frees the chunk of a fragment that the receiver has got.
    pub(in crate::provider) fn on_fragment_done(&mut self, peer: Peer, head: &Head) -> Option<()> {
        let chunk = head.chunk?;
        let outbound = self.offers.all.get_mut(head.aux).filter(|outbound| outbound.peer == peer)?;
        let staging = outbound.staging.as_mut()?;
        let at = staging.chunks.iter().position(|c| *c == chunk)?;
        staging.chunks.swap_remove(at);
        self.offers.free.push(chunk);
        self.feed_waiting();
        self.feed(head.aux);
        Some(())
    }

    pub(in crate::provider) fn on_fin(
        &mut self,
        peer: Peer,
        head: &Head,
        message: &Message<'_>,
        at: usize,
    ) -> Option<()> {
        let fault = fault_of(message, at)?;
        // It may have been revoked meanwhile.
        if self.offers.all.get(head.aux).is_some_and(|outbound| outbound.peer == peer) {
            self.withdraw(head.aux, fault);
        }
        Some(())
    }
}
