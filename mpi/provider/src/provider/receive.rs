//! Messages of programs as they arrive, and where they land.

use super::ProviderState;
use super::objects::*;
use super::transfer::InboundEnd;
use crate::abi::constants::*;
use crate::matching::Source;
use crate::memory::UserMemory;
use crate::wire::{Head, MessageKind, Reader, Rts, rest};
use angara::mailbox::{Message, Peer};
use angara_protocol::calls::Step;

/// A receive that a message has found.
pub(super) struct Landing {
    pub(super) memory: UserMemory,
    pub(super) context: usize,
    pub(super) report: bool,
    /// The buffer for several messages that the memory is a part of, or 0.
    pub(super) multi: u64,
}

impl From<Posted> for Landing {
    fn from(posted: Posted) -> Landing {
        let Posted { memory, context, report, multi } = posted;
        Landing { memory, context, report, multi }
    }
}

/// The report of a receive that ends without a message.
pub(super) fn done_of(ep: u32, tagged: bool, posted: &Posted, tag: u64) -> Done {
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

/// Where the payload of a message is that lands.
pub(super) enum Payload<'a> {
    Bytes(&'a [u8]),
    Rts(Rts),
}

/// Metadata of a message that lands.
#[derive(Clone, Copy)]
pub(super) struct Envelope {
    pub(super) peer: Peer,
    /// The sender's endpoint.
    pub(super) from: u32,
    pub(super) source: Source,
    /// Tag of a tagged message.
    pub(super) tag: Option<u64>,
    pub(super) data: Option<u64>,
    pub(super) len: usize,
    /// The sender's request that ends when a receive has taken the message, or 0.
    pub(super) wants_done: u64,
    /// Among those of its PE, where messages are noted.
    pub(super) number: u64,
}

impl ProviderState {
    /// The number of the sender of a message.
    #[inline]
    fn source(&mut self, peer: Peer, from: u32) -> Source {
        let known = &mut self.peers[peer.seat as usize];
        match known.last {
            Some((ep, source)) if ep == from => source,
            _ => {
                let source = self.sources.number(peer, from);
                known.last = Some((from, source));
                source
            }
        }
    }

    /// A message with its payload.
    #[inline]
    pub(super) fn message(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) {
        let len = message.len() - at;
        let Some(mut envelope) = self.envelope(peer, head, len) else { return self.undelivered(peer, head, message) };
        match self.landing(head.dst, &envelope) {
            Some(landing) => {
                let (done, excess) = self.fits(head.dst, &landing, &envelope);
                landing.memory.write_message(0, message, at, done.len);
                self.landed(landing.multi, envelope, done, excess);
            }
            None => {
                let bytes = rest(message, at, len).into_boxed_slice();
                if head.wants_done && !head.wants_match {
                    // Delivered is what the provider has kept: no sender waits for a receive that it did not ask for.
                    self.answer(peer, head, Fault::NONE);
                    envelope.wants_done = 0;
                }
                self.keep(head.dst, envelope, Body::Bytes(bytes));
            }
        }
    }

    /// A message whose payload is to be fetched.
    pub(super) fn on_send_rts(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let rts = Rts::decode(&mut Reader(&rest(message, at, Rts::BYTES)))?;
        let Some(envelope) = self.envelope(peer, head, rts.len as usize) else {
            // The endpoint is closed: the sender shall not wait for ever.
            self.refuse(peer, head.src, &rts, errno::ECONNREFUSED);
            return Some(());
        };
        match self.landing(head.dst, &envelope) {
            Some(landing) => self.land(head.dst, landing, envelope, Payload::Rts(rts)),
            None => self.keep(head.dst, envelope, Body::Rts(rts)),
        }
        Some(())
    }

    #[inline(always)]
    fn envelope(&mut self, peer: Peer, head: &Head, len: usize) -> Option<Envelope> {
        let number = self.number_of(peer);
        if !self.eps.get(head.dst).is_some_and(|ep| ep.enabled) {
            return None;
        }
        let source = self.source(peer, head.src);
        let wants_done = if head.wants_done { head.aux } else { 0 };
        Some(Envelope { peer, from: head.src, source, tag: head.tag, data: head.data, len, wants_done, number })
    }

    /// Tells a peer that its request is done.
    pub(super) fn answer(&mut self, peer: Peer, head: &Head, fault: impl Into<Fault>) {
        let (bytes, len) = fault.into().encode();
        self.post(peer, &Head::new(MessageKind::Done, head.src, head.dst, head.aux), &bytes[..len]);
    }

    /// The posted receive that a message goes to.
    #[inline(always)]
    fn landing(&mut self, id: u32, envelope: &Envelope) -> Option<Landing> {
        let matching = self.eps.get_mut(id)?.matching(envelope.tag.is_some());
        let at = matching.receiver(envelope.source, envelope.tag.unwrap_or(0))?;
        if matching.posted_mut(at).multi == 0 {
            return Some(matching.take_posted(at).into());
        }
        self.landing_among_several(id, envelope)
    }

    /// The same, where that receive takes several messages.
    #[inline(never)]
    fn landing_among_several(&mut self, id: u32, envelope: &Envelope) -> Option<Landing> {
        loop {
            let ep = self.eps.get_mut(id)?;
            let min_multi = ep.min_multi;
            let matching = ep.matching(envelope.tag.is_some());
            let at = matching.receiver(envelope.source, envelope.tag.unwrap_or(0))?;
            let posted = matching.posted_mut(at);
            if posted.multi == 0 {
                return Some(matching.take_posted(at).into());
            }
            let Posted { context, report, multi: number, .. } = *posted;
            let multi = self.multis.get_mut(number)?;
            let room = posted.memory.len() - multi.used;
            let fits = envelope.len <= room || multi.used == 0;
            let len = if fits { envelope.len.min(room) } else { 0 };
            let memory = posted.memory.part(multi.used, len);
            multi.used += len;
            multi.closed = !fits || room - len < min_multi;
            if multi.closed {
                matching.take_posted(at);
            }
            if fits {
                multi.pending += 1;
                return Some(Landing { memory, context, report, multi: number });
            }
            if multi.pending == 0 {
                self.release(id, number, context, report);
            }
        }
    }

    /// A buffer for several messages is given back apart from a message.
    pub(super) fn release(&mut self, ep: u32, multi: u64, context: usize, report: bool) {
        self.multis.remove(multi);
        let posted = Posted { memory: UserMemory::nothing(), context, report, multi };
        let done = Done { flags: MULTI_RECV, ..done_of(ep, false, &posted, 0) };
        // No operation has ended, so no counter counts.
        let queue = self.eps.get(ep).and_then(|ep| ep.rx).and_then(|rx| self.queues.get_mut(rx.queue));
        if let Some(queue) = queue.filter(|_| report) {
            queue.ready.push_back(done);
        }
    }

    /// Puts a message where it goes and reports it, or begins to fetch it.
    pub(super) fn land(&mut self, ep: u32, landing: Landing, envelope: Envelope, payload: Payload<'_>) {
        let (done, excess) = self.fits(ep, &landing, &envelope);
        let Landing { memory, multi, .. } = landing;
        match payload {
            Payload::Bytes(bytes) => memory.write(0, &bytes[..done.len]),
            Payload::Rts(rts) => {
                self.note(Step::Wanted, envelope.peer, rts.id, done.len);
                let (len, end) = (done.len, InboundEnd::Received { done, excess, multi, number: envelope.number });
                return self.fetch_payload(envelope.peer, envelope.from, ep, &rts, memory, len, end);
            }
        }
        self.landed(multi, envelope, done, excess);
    }

    /// Returns what is reported of a message when it has landed, and how many bytes of it find no room.
    #[inline(always)]
    fn fits(&self, ep: u32, landing: &Landing, envelope: &Envelope) -> (Done, usize) {
        let Landing { memory, context, report, multi } = landing;
        let len = envelope.len.min(memory.len());
        let av = self.eps.get(ep).and_then(|ep| ep.av).and_then(|av| self.avs.get(av));
        let flags = RECV | if envelope.tag.is_some() { TAGGED } else { MSG };
        let done = Done {
            ep,
            side: Side::Recv,
            context: *context,
            flags: flags | if envelope.data.is_some() { REMOTE_CQ_DATA } else { 0 },
            len,
            buf: if *multi != 0 { memory.address() } else { 0 },
            data: envelope.data.unwrap_or(0),
            tag: envelope.tag.unwrap_or(0),
            source: av.map_or(ADDR_NOTAVAIL, |av| av.address_of(envelope.source)),
            report: *report,
        };
        (done, envelope.len - len)
    }

    /// A message is where it goes.
    #[inline(always)]
    fn landed(&mut self, multi: u64, envelope: Envelope, done: Done, excess: usize) {
        self.pay_to_receive(done.len);
        self.note(Step::Received, envelope.peer, envelope.number, done.len);
        if envelope.wants_done != 0 {
            let head = Head::new(MessageKind::Done, envelope.from, done.ep, envelope.wants_done);
            self.post(envelope.peer, &head, &0i32.to_le_bytes());
        }
        if multi == 0 && excess == 0 {
            return self.end_well(done);
        }
        self.received(done, excess, multi, 0);
    }

    /// A message is where it goes, or will never be.
    pub(super) fn received(&mut self, mut done: Done, excess: usize, multi: u64, fault: impl Into<Fault>) {
        let mut fault = fault.into();
        if multi != 0
            && let Some(buffer) = self.multis.get_mut(multi)
        {
            buffer.pending -= 1;
            if buffer.closed && buffer.pending == 0 {
                self.multis.remove(multi);
                done.flags |= MULTI_RECV;
            }
        }
        if fault == Fault::NONE && excess > 0 {
            fault = errno::ETRUNC.into();
        }
        self.end(done, fault, excess);
    }

    /// A message that nobody wants yet.
    fn keep(&mut self, id: u32, envelope: Envelope, body: Body) {
        let Envelope { peer, from, source, tag, data, len, wants_done, number } = envelope;
        let incoming = Incoming { peer, from, data, len, wants_done, number, body };
        let Some(ep) = self.eps.get_mut(id) else { return };
        ep.held += incoming.held();
        ep.matching(tag.is_some()).arrive(source, tag.unwrap_or(0), incoming);
        if ep.held > HELD_MAX {
            self.stop(peer, from, id);
        }
    }

    /// Tells a peer to keep the payload of its next messages.
    pub(super) fn stop(&mut self, peer: Peer, from: u32, id: u32) {
        let Some(ep) = self.eps.get_mut(id) else { return };
        ep.xoff = true;
        let known = &mut self.peers[peer.seat as usize];
        if !known.told.contains(&id) {
            known.told.push(id);
            self.post(peer, &Head::new(MessageKind::Xoff, from, id, 0), &[]);
        }
    }

    /// A message that was kept has found a receive.
    pub(super) fn kept_no_more(&mut self, id: u32, held: usize) {
        let Some(ep) = self.eps.get_mut(id) else { return };
        ep.held -= held;
        if !ep.xoff || ep.held > HELD_MAX / 2 {
            return;
        }
        ep.xoff = false;
        for seat in 0..self.peers.len() {
            let known = &mut self.peers[seat];
            if known.told.contains(&id) {
                known.told.retain(|told| *told != id);
                let peer = Peer { seat: seat as u32, generation: known.generation };
                self.post(peer, &Head::new(MessageKind::Xon, 0, id, 0), &[]);
            }
        }
    }
}
