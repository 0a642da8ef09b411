//! Receives that find messages which wait, and looks at these.

use super::receive::{Arrivals, Envelope, Landing, Payload};
use crate::abi::constants::*;
use crate::matching::{Source, Want};
use crate::memory::UserMemory;
use crate::provider::fault::{Fault, Outcome};
use crate::provider::objects::*;
use crate::wire::{Head, MessageKind};

/// A call that looks at a message, keeps it for another call, or drops it.
pub(crate) struct Look {
    pub(in crate::provider) memory: UserMemory,
    pub(in crate::provider) context: usize,
    pub(in crate::provider) flags: u64,
    pub(in crate::provider) is_tagged: bool,
}

impl Arrivals<'_> {
    /// A buffer for several messages: takes those that wait, then stays posted.
    pub(in crate::provider) fn post_multi(&mut self, id: u32, want: Want, posted: Posted) {
        let Posted { memory, context, report, multi: number } = posted;
        loop {
            let Some(ep) = self.ends.objects.eps.get_mut(id) else { return };
            let min_multi = ep.min_multi;
            let Some(multi) = self.ends.objects.multis.get_mut(number) else { return };
            let Some(at) = ep.plain.find(&want) else {
                let posted = Posted { memory, context, report, multi: number };
                return ep.plain.post(want, posted);
            };
            let room = memory.len() - multi.used;
            let wanted = ep.plain.message(at).2.len;
            if wanted > room && multi.used > 0 {
                multi.closed = true;
                if multi.pending == 0 {
                    self.ends.objects.release(id, number, context, report);
                }
                return;
            }
            let len = wanted.min(room);
            let part = memory.part(multi.used, len);
            multi.used += len;
            multi.pending += 1;
            multi.closed = room - len < min_multi;
            let closed = multi.closed;
            let (source, _, incoming) = ep.plain.take_message(at);
            self.kept_no_more(id, incoming.held());
            self.land_kept(id, Landing { memory: part, context, report, multi: number }, source, None, incoming);
            if closed {
                return;
            }
        }
    }

    pub(in crate::provider) fn land_kept(
        &mut self,
        id: u32,
        landing: Landing,
        source: Source,
        tag: Option<u64>,
        incoming: Incoming,
    ) {
        let Incoming { peer, from, data, len, wants_done, number, body } = incoming;
        let envelope = Envelope { peer, from, source, tag, data, len, wants_done, number };
        match body {
            Body::Bytes(bytes) => self.land(id, landing, envelope, Payload::Bytes(&bytes)),
            Body::Rts(rts) => self.land(id, landing, envelope, Payload::Rts(rts)),
        }
    }

    /// `FI_PEEK` looks, with `FI_CLAIM` it keeps what it sees for a second call, with `FI_DISCARD` it drops it.
    pub(in crate::provider) fn peek(&mut self, id: u32, want: Want, call: Look, report: bool) -> Outcome {
        let Look { memory, context, flags, is_tagged } = call;
        let ep = self.ends.objects.eps.get_mut(id).ok_or(errno::EINVAL)?;
        if flags & PEEK == 0 {
            let (source, tag, incoming) = ep.claimed.remove(&context).ok_or(errno::EINVAL)?;
            self.kept_no_more(id, incoming.held());
            let tag = is_tagged.then_some(tag);
            if flags & DISCARD != 0 {
                self.drop_message(id, incoming, context, tag, report);
            } else {
                self.land_kept(id, Landing { memory, context, report, multi: 0 }, source, tag, incoming);
            }
            return Ok(());
        }
        let av = ep.av.and_then(|av| self.ends.objects.avs.get(av));
        let matching = ep.matching(is_tagged);
        let Some(at) = matching.find(&want) else {
            let posted = Posted { memory, context, report, multi: 0 };
            self.ends.end(
                Done { report: true, ..Done::without_message(id, is_tagged, &posted, want.tag) },
                errno::ENOMSG,
                0,
            );
            return Ok(());
        };
        let (source, tag, incoming) = matching.message(at);
        let done = Done {
            ep: id,
            side: Side::Recv,
            context,
            flags: RECV
                | if is_tagged { TAGGED } else { MSG }
                | if incoming.data.is_some() { REMOTE_CQ_DATA } else { 0 },
            len: incoming.len,
            buf: 0,
            data: incoming.data.unwrap_or(0),
            tag,
            source: av.map_or(ADDR_NOTAVAIL, |av| av.address_of(source)),
            report: true,
        };
        if flags & (CLAIM | DISCARD) != 0 {
            let message = matching.take_message(at);
            if flags & CLAIM != 0 {
                ep.claimed.insert(context, message);
            } else {
                self.kept_no_more(id, message.2.held());
                self.give_back(id, &message.2, Fault::NONE);
            }
        }
        self.ends.objects.report_uncounted(done);
        Ok(())
    }

    fn drop_message(&mut self, id: u32, incoming: Incoming, context: usize, tag: Option<u64>, report: bool) {
        self.give_back(id, &incoming, Fault::NONE);
        let posted = Posted { memory: UserMemory::nothing(), context, report, multi: 0 };
        let done = Done::without_message(id, tag.is_some(), &posted, tag.unwrap_or(0));
        self.ends.end(Done { len: incoming.len, ..done }, 0, 0);
    }

    /// The sender of a message that is dropped need not wait, and learns whether that was meant.
    pub(in crate::provider) fn give_back(&mut self, id: u32, incoming: &Incoming, fault: Fault) {
        if incoming.wants_done != 0 {
            let head = Head::new(MessageKind::Done, incoming.from, id, incoming.wants_done);
            self.peers.post_fault(incoming.peer, &head, fault);
        }
        if let Body::Rts(rts) = &incoming.body {
            let head = Head::new(MessageKind::Fin, incoming.from, id, rts.id);
            self.peers.post_fault(incoming.peer, &head, fault);
        }
    }
}
