//! Messages as the program sends them.

use super::objects::*;
use super::transfer::{Outbound, Purpose};
use super::{Outcome, Provider, ProviderState, Request};
use crate::abi::constants::*;
use crate::memory::UserMemory;
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

impl ProviderState {
    /// Where time is virtual: what the library takes to send so many bytes passes, once for each message.
    #[inline]
    fn pay_to_send(&mut self, len: usize) {
        if let Some(costs) = self.job.adapter().mpi_costs().filter(|_| !self.has_paid) {
            let now = self.job.adapter().virtual_now().unwrap_or(0);
            let copy = if len + HEAD_MAX > self.eager_max { 0 } else { costs.copying(len) };
            self.job.adapter().takes(self.gap_ends.saturating_sub(now) + costs.send + copy);
            self.gap_ends = now.max(self.gap_ends) + costs.gap;
            self.has_paid = true;
        }
    }

    /// The same at the receiver.
    #[inline]
    pub(super) fn pay_to_receive(&mut self, len: usize) {
        if let Some(costs) = self.job.adapter().mpi_costs() {
            let more = if len + HEAD_MAX > self.eager_max { costs.rendezvous } else { costs.copying(len) };
            self.job.adapter().takes(costs.receive + more);
        }
    }
}

impl Provider {
    /// Returns whom an operation goes to, if it may begin.
    #[inline]
    pub(super) fn begin(&mut self, id: u32, to: u64, flags: u64) -> Outcome<Target> {
        let state = &self.state;
        let ep = state.eps.get(id).ok_or(errno::EINVAL)?;
        if !ep.enabled {
            return Err(errno::EOPBADSTATE);
        }
        if state.broken.is_some() {
            return Err(errno::EIO);
        }
        let av = ep.av.and_then(|av| state.avs.get(av)).ok_or(errno::ENOAV)?;
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
            || state.outbound.iter().any(|(_, rts)| rts.peer == target.peer)
    }

    /// There is a number for one more operation.
    fn room(&mut self) -> Outcome {
        self.unless(|state| state.requests.is_full() || state.outbound.is_full())
    }

    /// And this endpoint may have one more access under way.
    pub(super) fn room_to_access(&mut self, id: u32) -> Outcome {
        self.room()?;
        self.unless(|state| state.eps.get(id).is_none_or(|ep| ep.accesses >= ACCESSES_MAX))
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
        let ep = self.state.eps.get(id).ok_or(errno::EINVAL)?;
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
        self.state.pay_to_send(call.memory.len());
        self.state.note_sending(target.peer, done.len);
        let sent = self.send_to(target, head, call, (done, is_counted));
        if sent.is_ok() {
            self.state.has_paid = false;
            self.state.count_sent(target.peer);
        }
        sent
    }

    #[inline]
    fn send_to(&mut self, target: Target, mut head: Head, call: SendCall, (done, is_counted): (Done, bool)) -> Outcome {
        let xoff = &self.state.peers[target.peer.seat as usize].xoff;
        if call.memory.len() + HEAD_MAX > self.state.eager_max || (!xoff.is_empty() && xoff.contains(&target.ep)) {
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
            self.state.end_well(done);
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
            && let Some(ep) = self.state.eps.get_mut(done.ep)
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
            self.unless(|state| state.copied >= COPIED_MAX)?;
        }
        let mut outbound = Outbound::new(target.peer, (done.ep, target.ep), call.memory, Purpose::Message(done));
        let copied = if is_injected { outbound.copy() } else { 0 };
        let id = self.state.outbound.insert(outbound);
        head.kind = MessageKind::SendRts;
        self.state.stage_ahead(id);
        let body = self.state.describe(id);
        if let Err(e) = self.try_send(target.peer, &head, &body, &UserMemory::nothing()) {
            self.state.take_back(id);
            return Err(e);
        }
        self.state.copied += copied;
        Ok(())
    }
}
