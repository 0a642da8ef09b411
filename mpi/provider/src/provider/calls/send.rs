//! Messages as the program sends them.

use crate::abi::constants::*;
use crate::memory::UserMemory;
use crate::provider::ends::Request;
use crate::provider::fault::Outcome;
use crate::provider::objects::*;
use crate::provider::payload::{Outbound, Purpose};
use crate::provider::progress::Provider;
use crate::provider::state::ProviderState;
use crate::wire::{HEAD_MAX, Head, MessageKind};

/// Most writes, reads and atomics of an endpoint that are under way. Their targets end each of them in their next call. Messages
/// are not counted: which receive is posted first must not decide whether the next one may be sent.
const ACCESSES_MAX: usize = 4096;

/// Most bytes of injected messages that a process keeps for receivers that take no payload: a million short ones. It holds up
/// whoever sends without end to somebody slower, and nobody else.
const COPIED_MAX: usize = 2 << 30;

/// A call that sends.
pub(crate) struct SendCall {
    pub(crate) memory: UserMemory,
    pub(crate) to: u64,
    pub(crate) tag: Option<u64>,
    pub(crate) data: Option<u64>,
    pub(crate) context: usize,
    pub(crate) flags: u64,
    /// `fi_inject`: no completion at all.
    pub(crate) silent: bool,
}

/// Flags that operations with memory of this side may have.
pub(super) const KNOWN: u64 = COMPLETION
    | INJECT
    | INJECT_COMPLETE
    | TRANSMIT_COMPLETE
    | DELIVERY_COMPLETE
    | MATCH_COMPLETE
    | REMOTE_CQ_DATA
    | MORE
    | FENCE
    | SEND
    | MSG
    | TAGGED
    | RMA
    | ATOMIC
    | READ
    | WRITE
    | AFFINITY;

impl Provider {
    /// Returns whom an operation goes to, if it may begin.
    #[inline]
    pub(super) fn begin(&mut self, id: u32, to: u64, flags: u64) -> Outcome<Target> {
        let state = &self.state;
        let ep = state.objects.eps.get(id).ok_or(errno::EINVAL)?;
        if !ep.enabled {
            return Err(errno::EOPBADSTATE);
        }
        if state.broken.is_some() {
            return Err(errno::EIO);
        }
        let av = ep.av.and_then(|av| state.objects.avs.get(av)).ok_or(errno::ENOAV)?;
        let target = av.target(to).ok_or(errno::EINVAL)?;
        if flags & !KNOWN != 0 {
            return Err(errno::EBADFLAGS);
        }
        if flags & FENCE != 0 { self.behind_others(target) } else { Ok(target) }
    }

    /// A fenced operation begins when those before it have ended.
    #[cold]
    fn behind_others(&mut self, target: Target) -> Outcome<Target> {
        if self.is_under_way(target) {
            self.progress();
            if self.is_under_way(target) {
                return Err(errno::EAGAIN);
            }
        }
        Ok(target)
    }

    fn is_under_way(&self, target: Target) -> bool {
        let state = &self.state;
        state.requests.iter().any(|(_, request)| request.peer == target.peer)
            || state.offers.all.iter().any(|(_, rts)| rts.peer == target.peer)
    }

    /// There is a number for one more operation.
    fn room(&mut self) -> Outcome {
        self.unless(|state| state.requests.is_full() || state.offers.all.is_full())
    }

    /// And this endpoint may have one more access under way.
    pub(super) fn room_to_access(&mut self, id: u32) -> Outcome {
        self.room()?;
        self.unless(|state| state.objects.eps.get(id).is_none_or(|ep| ep.accesses >= ACCESSES_MAX))
    }

    fn unless(&mut self, is_full: impl Fn(&ProviderState) -> bool) -> Outcome {
        if is_full(&self.state) {
            self.progress();
        }
        if is_full(&self.state) { Err(errno::EAGAIN) } else { Ok(()) }
    }

    #[inline]
    pub(crate) fn send(&mut self, id: u32, call: SendCall) -> Outcome {
        let target = self.begin(id, call.to, call.flags)?;
        let ep = self.state.objects.eps.get(id).ok_or(errno::EINVAL)?;
        let is_counted = ep.counters[Side::Send as usize].is_some();
        let done = Done {
            ep: id,
            side: Side::Send,
            context: call.context,
            flags: SEND | if call.tag.is_some() { TAGGED } else { MSG },
            len: call.memory.len(),
            buf: 0,
            data: 0,
            tag: call.tag.unwrap_or(0),
            source: ADDR_NOTAVAIL,
            report: !call.silent && Endpoint::reports(ep.tx, call.flags),
        };
        let mut head = Head::new(MessageKind::Send, target.ep, id, 0);
        (head.tag, head.data) = (call.tag, call.data);
        self.state.costs.pay_to_send(&self.state.here, call.memory.len());
        self.state.notes.note_sending(target.peer, done.len);
        let sent = self.send_to(target, head, call, (done, is_counted));
        if sent.is_ok() {
            self.state.costs.has_sent();
            self.state.notes.count_sent(target.peer);
        }
        sent
    }

    #[inline]
    fn send_to(&mut self, target: Target, mut head: Head, call: SendCall, (done, is_counted): (Done, bool)) -> Outcome {
        let xoff = &self.state.peers.at(target.peer).xoff;
        if call.memory.len() + HEAD_MAX > self.state.here.eager_max || (!xoff.is_empty() && xoff.contains(&target.ep)) {
            return self.send_rts(target, head, call, done);
        }
        if call.flags & (DELIVERY_COMPLETE | MATCH_COMPLETE) != 0 {
            self.room()?;
            head.wants_match = call.flags & MATCH_COMPLETE != 0;
            let request = Request { peer: target.peer, done, result: UserMemory::nothing() };
            return self.send_request(head, request, &[], &call.memory);
        }
        self.try_send(target.peer, &head, &[], &call.memory)?;
        if done.report || is_counted {
            self.state.objects.end_well(done);
        }
        Ok(())
    }

    /// Sends something whose end the peer tells.
    pub(super) fn send_request(
        &mut self,
        mut head: Head,
        request: Request,
        body: &[u8],
        memory: &UserMemory,
    ) -> Outcome {
        let (peer, done) = (request.peer, request.done);
        let id = self.state.requests.insert(request);
        (head.aux, head.wants_done) = (id, true);
        if let Err(e) = self.try_send(peer, &head, body, memory) {
            self.state.requests.remove(id);
            return Err(e);
        }
        if done.side != Side::Send
            && let Some(ep) = self.state.objects.eps.get_mut(done.ep)
        {
            ep.accesses += 1;
        }
        Ok(())
    }

    /// Keeps the payload until the receiver fetches it.
    fn send_rts(&mut self, target: Target, mut head: Head, call: SendCall, done: Done) -> Outcome {
        self.room()?;
        let is_injected = call.flags & INJECT != 0;
        if is_injected {
            self.unless(|state| state.offers.copied >= COPIED_MAX)?;
        }
        let mut outbound = Outbound::new(target.peer, (done.ep, target.ep), call.memory, Purpose::Message(done));
        let copied = if is_injected { outbound.copy() } else { 0 };
        let id = self.state.offers.all.insert(outbound);
        head.kind = MessageKind::SendRts;
        self.state.offers.stage_ahead(&self.state.here, id);
        let body = self.state.offers.describe(&self.state.here, id);
        if let Err(e) = self.try_send(target.peer, &head, &body, &UserMemory::nothing()) {
            self.state.offering().take_back(id);
            return Err(e);
        }
        self.state.offers.copied += copied;
        Ok(())
    }
}
