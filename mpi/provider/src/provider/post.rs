//! Receives as the program posts them, looks at what waits, and their cancelling.

use super::objects::*;
use super::receive::{Envelope, Landing, Payload, done_of};
use super::{Outcome, Provider, ProviderState};
use crate::abi::constants::*;
use crate::matching::{Source, Want};
use crate::memory::UserMemory;
use crate::wire::{Head, MessageKind};

/// Which messages a tagged receive wants.
#[derive(Clone, Copy)]
pub(crate) struct Tagged {
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
}

/// A call that receives.
pub(crate) struct Receive {
    pub(crate) memory: UserMemory,
    /// From whom, or `FI_ADDR_UNSPEC`.
    pub(crate) from: u64,
    pub(crate) tagged: Option<Tagged>,
    pub(crate) context: usize,
    pub(crate) flags: u64,
}

const KNOWN: u64 = COMPLETION
    | MULTI_RECV
    | PEEK
    | CLAIM
    | DISCARD
    | MORE
    | INJECT_COMPLETE
    | TRANSMIT_COMPLETE
    | DELIVERY_COMPLETE
    | RECV
    | AFFINITY;

impl Provider {
    /// Posts a receive, or gives it a message that waits. Its sender is told at once: who finds a message for every receive
    /// need not call anything that makes progress.
    pub(crate) fn receive(&mut self, id: u32, call: Receive) -> Outcome {
        let outcome = self.begin_receive(id, call);
        if self.has_unsent() {
            self.flush();
        }
        outcome
    }

    fn begin_receive(&mut self, id: u32, call: Receive) -> Outcome {
        if call.flags & !KNOWN != 0 {
            return Err(errno::EBADFLAGS);
        }
        if call.flags & PEEK != 0 {
            // A program that looks again and again calls nothing else.
            self.state.asks = true;
            self.progress();
            self.state.asks = false;
        }
        let state = &mut self.state;
        let ep = state.eps.get(id).ok_or(errno::EINVAL)?;
        if !ep.enabled {
            return Err(errno::EOPBADSTATE);
        }
        if state.broken.is_some() {
            return Err(errno::EIO);
        }
        let source = match call.from {
            ADDR_UNSPEC => None,
            _ if !ep.directed => None,
            address => {
                let av = ep.av.and_then(|av| state.avs.get(av)).ok_or(errno::ENOAV)?;
                Some(av.target(address).ok_or(errno::EINVAL)?.source)
            }
        };
        let Tagged { tag, ignore } = call.tagged.unwrap_or(Tagged { tag: 0, ignore: 0 });
        let want = Want { source, tag, ignore };
        let report = Endpoint::reports(ep.rx, call.flags);
        if call.flags & (PEEK | CLAIM | DISCARD) != 0 {
            return state.peek(id, want, call, report);
        }
        let is_tagged = call.tagged.is_some();
        if call.flags & MULTI_RECV != 0 {
            if is_tagged {
                return Err(errno::EBADFLAGS);
            }
            if state.multis.is_full() {
                return Err(errno::EAGAIN);
            }
            let multi = state.multis.insert(Multi { ep: id, used: 0, pending: 0, closed: false });
            let Receive { memory, context, .. } = call;
            state.post_multi(id, want, Posted { memory, context, report, multi });
            return Ok(());
        }
        let Receive { memory, context, .. } = call;
        let is_new = source.is_some_and(|source| !state.is_known(source));
        let matching = state.eps.get_mut(id).ok_or(errno::EINVAL)?.matching(is_tagged);
        match matching.find(&want) {
            None => {
                let posted = Posted { memory, context, report, multi: 0 };
                if !is_new {
                    matching.post(want, posted);
                    return Ok(());
                }
                if let Some(error) = source.and_then(|source| state.never_sends(source)) {
                    let done = done_of(id, is_tagged, &posted, 0);
                    state.end(done, error, 0);
                    return Ok(());
                }
                state.eps.get_mut(id).ok_or(errno::EINVAL)?.matching(is_tagged).post(want, posted);
            }
            Some(at) => {
                let (source, tag, incoming) = matching.take_message(at);
                state.kept_no_more(id, incoming.held());
                let landing = Landing { memory, context, report, multi: 0 };
                state.land_kept(id, landing, source, is_tagged.then_some(tag), incoming);
            }
        }
        Ok(())
    }

    /// Takes back a receive that has not found a message.
    pub(crate) fn cancel(&mut self, id: u32, context: usize) -> Outcome {
        for tagged in [false, true] {
            let matching = self.state.eps.get_mut(id).ok_or(errno::EINVAL)?.matching(tagged);
            let Some(at) = matching.posted_where(|_, posted| posted.context == context).into_iter().next() else {
                continue;
            };
            let posted = matching.take_posted(at);
            self.state.multis.remove(posted.multi);
            let done = done_of(id, tagged, &posted, 0);
            self.state.end(done, errno::ECANCELED, 0);
            return Ok(());
        }
        Err(errno::ENOENT)
    }
}

impl ProviderState {
    /// Whoever has this number has made acquaintance, and is not lost.
    #[inline]
    fn is_known(&self, source: Source) -> bool {
        self.sources.peer(source).is_none_or(|peer| {
            let known = &self.peers[peer.seat as usize];
            known.generation == peer.generation && !known.lost
        })
    }

    /// Why nothing more will come from an endpoint of which nothing waits: its process has gone. Whoever is waited for is looked
    /// after from now on, also if it has never said anything.
    #[cold]
    #[inline(never)]
    pub(super) fn never_sends(&mut self, source: Source) -> Option<i32> {
        let peer = self.sources.peer(source)?;
        self.meet(peer, false).err().filter(|error| *error != errno::EAGAIN)
    }

    /// A buffer for several messages: takes those that wait, then stays posted.
    fn post_multi(&mut self, id: u32, want: Want, posted: Posted) {
        let Posted { memory, context, report, multi: number } = posted;
        loop {
            let Some(ep) = self.eps.get_mut(id) else { return };
            let min_multi = ep.min_multi;
            let Some(multi) = self.multis.get_mut(number) else { return };
            let Some(at) = ep.plain.find(&want) else {
                let posted = Posted { memory, context, report, multi: number };
                return ep.plain.post(want, posted);
            };
            let room = memory.len() - multi.used;
            let wanted = ep.plain.message(at).2.len;
            if wanted > room && multi.used > 0 {
                multi.closed = true;
                if multi.pending == 0 {
                    self.release(id, number, context, report);
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

    fn land_kept(&mut self, id: u32, landing: Landing, source: Source, tag: Option<u64>, incoming: Incoming) {
        let Incoming { peer, from, data, len, wants_done, number, body } = incoming;
        let envelope = Envelope { peer, from, source, tag, data, len, wants_done, number };
        match body {
            Body::Bytes(bytes) => self.land(id, landing, envelope, Payload::Bytes(&bytes)),
            Body::Rts(rts) => self.land(id, landing, envelope, Payload::Rts(rts)),
        }
    }

    /// `FI_PEEK` looks, with `FI_CLAIM` it keeps what it sees for a second call, with `FI_DISCARD` it drops it.
    fn peek(&mut self, id: u32, want: Want, call: Receive, report: bool) -> Outcome {
        let Receive { memory, context, flags, tagged, .. } = call;
        let is_tagged = tagged.is_some();
        let ep = self.eps.get_mut(id).ok_or(errno::EINVAL)?;
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
        let av = ep.av.and_then(|av| self.avs.get(av));
        let matching = ep.matching(is_tagged);
        let Some(at) = matching.find(&want) else {
            let posted = Posted { memory, context, report, multi: 0 };
            self.end(Done { report: true, ..done_of(id, is_tagged, &posted, want.tag) }, errno::ENOMSG, 0);
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
        self.report(done);
        Ok(())
    }

    /// Reports what a look has seen, which no counter counts.
    fn report(&mut self, done: Done) {
        let queue = self.eps.get(done.ep).and_then(|ep| ep.rx).and_then(|rx| self.queues.get_mut(rx.queue));
        if let Some(queue) = queue {
            queue.ready.push_back(done);
        }
    }

    fn drop_message(&mut self, id: u32, incoming: Incoming, context: usize, tag: Option<u64>, report: bool) {
        self.give_back(id, &incoming, Fault::NONE);
        let posted = Posted { memory: UserMemory::nothing(), context, report, multi: 0 };
        let done = done_of(id, tag.is_some(), &posted, tag.unwrap_or(0));
        self.end(Done { len: incoming.len, ..done }, 0, 0);
    }

    /// The sender of a message that is dropped need not wait, and learns whether that was meant.
    pub(super) fn give_back(&mut self, id: u32, incoming: &Incoming, fault: Fault) {
        let (bytes, len) = fault.encode();
        if incoming.wants_done != 0 {
            let head = Head::new(MessageKind::Done, incoming.from, id, incoming.wants_done);
            self.post(incoming.peer, &head, &bytes[..len]);
        }
        if let Body::Rts(rts) = &incoming.body {
            let head = Head::new(MessageKind::Fin, incoming.from, id, rts.id);
            self.post(incoming.peer, &head, &bytes[..len]);
        }
    }
}
