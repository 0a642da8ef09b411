//! Messages of programs as they arrive, and where they land.

use crate::abi::constants::*;
use crate::matching::Source;
use crate::memory::UserMemory;
use crate::provider::ends::Ends;
use crate::provider::fault::Fault;
use crate::provider::noted::Notes;
use crate::provider::objects::*;
use crate::provider::payload::{Fetches, Fetching, InboundEnd};
use crate::provider::peers::Peers;
use crate::wire::{Head, MessageKind, Reader, Rts, rest};
use angara::mailbox::{Message, Peer};
use angara_protocol::calls::Step;

/// A receive that a message has found.
pub(crate) struct Landing {
    pub(in crate::provider) memory: UserMemory,
    pub(in crate::provider) context: usize,
    pub(in crate::provider) report: bool,
    /// The buffer for several messages that the memory is a part of, or 0.
    pub(in crate::provider) multi: u64,
}

impl From<Posted> for Landing {
    fn from(posted: Posted) -> Landing {
        let Posted { memory, context, report, multi } = posted;
        Landing { memory, context, report, multi }
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

/// What a message of the program touches that arrives, or that finds a receive.
pub(crate) struct Arrivals<'a> {
    pub(in crate::provider) ends: Ends<'a>,
    pub(in crate::provider) peers: &'a mut Peers,
    pub(in crate::provider) notes: &'a mut Notes,
    pub(in crate::provider) fetches: &'a mut Fetches,
}

impl Arrivals<'_> {
    /// The same for a call that is rare: whoever seldom makes it need not have the view in memory.
    #[inline(always)]
    fn lend(&mut self) -> Arrivals<'_> {
        let Arrivals { ends, peers, notes, fetches } = self;
        Arrivals { ends: ends.lend(), peers, notes, fetches }
    }

    fn fetching(&mut self) -> Fetching<'_> {
        let Arrivals { ends, peers, notes, fetches } = self;
        Fetching { ends: ends.lend(), peers, notes, fetches }
    }

    /// A message with its payload.
    #[inline(always)]
    pub(in crate::provider) fn message(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) {
        let len = message.len() - at;
        let Some(mut envelope) = self.envelope(peer, head, len) else {
            return self.lend().undelivered(peer, head, message);
        };
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
                    self.peers.answer(peer, head, Fault::NONE);
                    envelope.wants_done = 0;
                }
                self.lend().keep(head.dst, envelope, Body::Bytes(bytes));
            }
        }
    }

    /// A message whose payload is to be fetched.
    pub(in crate::provider) fn on_send_rts(
        &mut self,
        peer: Peer,
        head: &Head,
        message: &Message<'_>,
        at: usize,
    ) -> Option<()> {
        let rts = Rts::decode(&mut Reader(&rest(message, at, Rts::BYTES)))?;
        let Some(envelope) = self.envelope(peer, head, rts.len as usize) else {
            // The endpoint is closed: the sender shall not wait for ever.
            self.peers.refuse(peer, head.src, rts.id, errno::ECONNREFUSED);
            return Some(());
        };
        match self.landing(head.dst, &envelope) {
            Some(landing) => self.land(head.dst, landing, envelope, Payload::Rts(rts)),
            None => self.lend().keep(head.dst, envelope, Body::Rts(rts)),
        }
        Some(())
    }

    #[inline(always)]
    fn envelope(&mut self, peer: Peer, head: &Head, len: usize) -> Option<Envelope> {
        let number = self.notes.number_of(peer);
        if !self.ends.objects.eps.get(head.dst).is_some_and(|ep| ep.enabled) {
            return None;
        }
        let source = self.peers.source(peer, head.src);
        let wants_done = if head.wants_done { head.aux } else { 0 };
        Some(Envelope { peer, from: head.src, source, tag: head.tag, data: head.data, len, wants_done, number })
    }

    /// The posted receive that a message goes to.
    #[inline(always)]
    fn landing(&mut self, id: u32, envelope: &Envelope) -> Option<Landing> {
        let matching = self.ends.objects.eps.get_mut(id)?.matching(envelope.tag.is_some());
        let at = matching.receiver(envelope.source, envelope.tag.unwrap_or(0))?;
        if matching.posted_mut(at).multi == 0 {
            return Some(matching.take_posted(at).into());
        }
        landing_among_several(self.ends.objects, id, envelope)
    }

    /// Puts a message where it goes and reports it, or begins to fetch it.
    pub(super) fn land(&mut self, ep: u32, landing: Landing, envelope: Envelope, payload: Payload<'_>) {
        let (done, excess) = self.fits(ep, &landing, &envelope);
        let Landing { memory, multi, .. } = landing;
        match payload {
            Payload::Bytes(bytes) => memory.write(0, &bytes[..done.len]),
            Payload::Rts(rts) => {
                self.notes.note(Step::Wanted, envelope.peer, rts.id, done.len);
                let (len, end) = (done.len, InboundEnd::Received { done, excess, multi, number: envelope.number });
                return self.fetching().begin(envelope.peer, envelope.from, ep, &rts, memory, len, end);
            }
        }
        self.landed(multi, envelope, done, excess);
    }

    /// Returns what is reported of a message when it has landed, and how many bytes of it find no room.
    #[inline(always)]
    fn fits(&self, ep: u32, landing: &Landing, envelope: &Envelope) -> (Done, usize) {
        let Landing { memory, context, report, multi } = landing;
        let len = envelope.len.min(memory.len());
        let av = self.ends.objects.eps.get(ep).and_then(|ep| ep.av).and_then(|av| self.ends.objects.avs.get(av));
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
        self.ends.here.pay_to_receive(done.len);
        self.notes.note(Step::Received, envelope.peer, envelope.number, done.len);
        if envelope.wants_done != 0 {
            let head = Head::new(MessageKind::Done, envelope.from, done.ep, envelope.wants_done);
            self.peers.post(envelope.peer, &head, &0i32.to_le_bytes());
        }
        if multi == 0 && excess == 0 {
            return self.ends.objects.end_well(done);
        }
        self.ends.lend().received(done, excess, multi, Fault::NONE);
    }

    /// A message that nobody wants yet.
    fn keep(&mut self, id: u32, envelope: Envelope, body: Body) {
        let Envelope { peer, from, source, tag, data, len, wants_done, number } = envelope;
        let incoming = Incoming { peer, from, data, len, wants_done, number, body };
        let Some(ep) = self.ends.objects.eps.get_mut(id) else { return };
        ep.held += incoming.held();
        ep.matching(tag.is_some()).arrive(source, tag.unwrap_or(0), incoming);
        if ep.held > HELD_MAX {
            ep.xoff = true;
            self.peers.stop(peer, from, id);
        }
    }

    /// A message that was kept has found a receive.
    pub(in crate::provider) fn kept_no_more(&mut self, id: u32, held: usize) {
        let Some(ep) = self.ends.objects.eps.get_mut(id) else { return };
        ep.held -= held;
        if !ep.xoff || ep.held > HELD_MAX / 2 {
            return;
        }
        ep.xoff = false;
        self.peers.resume(id);
    }
}

/// The posted receive that a message goes to, where it takes several messages.
#[inline(never)]
fn landing_among_several(objects: &mut Objects, id: u32, envelope: &Envelope) -> Option<Landing> {
    loop {
        let ep = objects.eps.get_mut(id)?;
        let min_multi = ep.min_multi;
        let matching = ep.matching(envelope.tag.is_some());
        let at = matching.receiver(envelope.source, envelope.tag.unwrap_or(0))?;
        let posted = matching.posted_mut(at);
        if posted.multi == 0 {
            return Some(matching.take_posted(at).into());
        }
        let Posted { context, report, multi: number, .. } = *posted;
        let multi = objects.multis.get_mut(number)?;
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
            objects.release(id, number, context, report);
        }
    }
}
