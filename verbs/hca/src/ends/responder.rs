//! The side of a queue pair that answers: it takes requests in order, and says what became of them.

use super::answers::{Answer, Inbound};
use super::state::Pair;
use crate::completion::{Completion, Opcode, Status, flags};
use crate::core::{Core, Pieces, first_of};
use crate::event::{Event, PairEvent};
use crate::network::{Copied, Memory, Network, NotSent, Peer, Piece};
use crate::pair::{State, Transport};
use crate::region::access;
use crate::request::Atomic;
use crate::request::ReceiveRequest;
use crate::wire::{Head, Notice, Outcome, Packet, Part};

/// Bytes of the global routing header, which are in front of every datagram.
const GRH: u64 = 40;

impl Pair {
    /// A request has come from the peer that this pair is connected to.
    pub(crate) fn take_request<N: Network, M: Memory>(
        &mut self,
        core: &mut Core<N, M>,
        from: Peer,
        head: Head,
        packet: Packet<'_>,
    ) {
        if self.answers.is_full() {
            return;
        }
        let reads = matches!(packet, Packet::Read { .. } | Packet::Atomic { .. });
        if reads && self.init.transport != Transport::Rc {
            return;
        }
        if self.init.transport == Transport::Rc {
            let ahead = head.number.wrapping_sub(self.answers.expected) as i32;
            if ahead < 0 && packet.begins() {
                let last = Head { number: self.answers.expected.wrapping_sub(1), ..head };
                self.answers.ack(last, Outcome::Done);
                self.is_due(core);
            }
            if ahead != 0 {
                return;
            }
        }
        match packet {
            Packet::Send { part, notice, payload } => self.take_send(core, head, part, notice, payload),
            Packet::SendFrom { total, notice, pieces } => {
                self.take_send_from(core, (from, head), total, notice, &pieces);
            }
            Packet::Write { at, key, part, notice, carried, payload } => {
                self.take_write(core, head, (at, key), part, notice, (!carried).then_some(payload));
            }
            Packet::Read { at, key, total } => self.take_read(core, head, (at, key), total),
            Packet::Atomic { at, key, atomic } => self.take_atomic(core, head, (at, key), atomic),
            _ => {}
        }
        self.is_due(core);
    }

    fn take_send<N: Network, M: Memory>(
        &mut self,
        core: &mut Core<N, M>,
        head: Head,
        part: Part,
        notice: Notice,
        payload: &[u8],
    ) {
        if part.offset == 0 && !self.begin_receive(core, head, part.total) {
            return;
        }
        let Some(inbound) = self.answers.inbound.as_mut() else { return };
        if inbound.part != part {
            return;
        }
        let place = (&mut inbound.pieces, &mut inbound.found);
        let found = core.resolve_again(self.init.pd, &inbound.request.elements, access::LOCAL_WRITE, place);
        if found.is_err() || core.write_pieces(&inbound.pieces, part.offset.into(), payload).is_err() {
            return self.receive_failed(core, head, Status::LocalProtection, Status::RemoteOperation);
        }
        inbound.part.offset += payload.len() as u32;
        if inbound.part.offset == part.total {
            self.end_receive(core, head, Opcode::Receive, part.total, notice);
        }
    }

    fn take_send_from<N: Network, M: Memory>(
        &mut self,
        core: &mut Core<N, M>,
        (from, head): (Peer, Head),
        total: u32,
        notice: Notice,
        pieces: &[Piece],
    ) {
        if !self.begin_receive(core, head, total) {
            return;
        }
        let Some(inbound) = self.answers.inbound.as_ref() else { return };
        let own = first_of(&inbound.pieces, total.into());
        match core.network.fetch(from, pieces, &own) {
            Copied::Done => self.end_receive(core, head, Opcode::Receive, total, notice),
            _ => self.receive_failed(core, head, Status::LocalProtection, Status::RemoteOperation),
        }
    }

    fn take_write<N: Network, M: Memory>(
        &mut self,
        core: &mut Core<N, M>,
        head: Head,
        (at, key): (u64, u32),
        part: Part,
        notice: Notice,
        payload: Option<&[u8]>,
    ) {
        let may = self.attributes.access & access::REMOTE_WRITE != 0;
        let place = core.find(self.init.pd, key, at, part.total.into(), access::REMOTE_WRITE);
        let Some(place) = place.filter(|_| may) else {
            return self.refuse(core, head, Status::RemoteAccess);
        };
        if payload.is_some() {
            if part.offset == 0 {
                self.answers.written = 0;
            }
            // The parts before it came when this pair was not ready: the initiator begins again.
            if part.offset != self.answers.written {
                return;
            }
        }
        let ends = payload.is_none_or(|payload| part.offset + payload.len() as u32 == part.total);
        if let Some(payload) = payload
            && !payload.is_empty()
            && core.memory.write(place + u64::from(part.offset), payload).is_err()
        {
            return self.refuse(core, head, Status::RemoteOperation);
        }
        self.answers.written += payload.map_or(0, |payload| payload.len() as u32);
        if !ends {
            return;
        }
        self.answers.written = 0;
        if notice.imm.is_some() {
            let Some(request) = self.take_receive(core) else { return self.no_receive(core, head) };
            let part = Part { total: part.total, offset: part.total };
            let (pieces, found) = (Pieces::new(), core.lost_regions);
            self.answers.inbound = Some(Inbound { request, pieces, found, part });
            return self.end_receive(core, head, Opcode::ReceiveRdmaWithImm, part.total, notice);
        }
        self.succeeded_with(head);
    }

    fn take_read<N: Network, M: Memory>(
        &mut self,
        core: &mut Core<N, M>,
        head: Head,
        (at, key): (u64, u32),
        total: u32,
    ) {
        let may = self.attributes.access & access::REMOTE_READ != 0;
        if !may || core.find(self.init.pd, key, at, total.into(), access::REMOTE_READ).is_none() {
            return self.refuse(core, head, Status::RemoteAccess);
        }
        let Head { number, attempt, .. } = head;
        self.answers.answers.push_back(Answer::Data { number, attempt, key, at, total, sent: 0 });
        self.answers.expected = number.wrapping_add(1);
    }

    fn take_atomic<N: Network, M: Memory>(
        &mut self,
        core: &mut Core<N, M>,
        head: Head,
        (at, key): (u64, u32),
        atomic: Atomic,
    ) {
        let may = self.attributes.access & access::REMOTE_ATOMIC != 0;
        let place = core.find(self.init.pd, key, at, 8, access::REMOTE_ATOMIC);
        let Some(place) = place.filter(|_| may) else {
            return self.refuse(core, head, Status::RemoteAccess);
        };
        if place % 8 != 0 {
            return self.refuse(core, head, Status::RemoteInvalidRequest);
        }
        let Ok(word) = core.memory.update(place, &|old| atomic.apply(old)) else {
            return self.refuse(core, head, Status::RemoteOperation);
        };
        let Head { number, attempt, .. } = head;
        self.answers.answers.push_back(Answer::Old { number, attempt, word });
        self.answers.expected = number.wrapping_add(1);
    }

    /// A datagram has come. What cannot be taken is dropped.
    pub(crate) fn take_datagram<N: Network, M: Memory>(
        &mut self,
        core: &mut Core<N, M>,
        head: Head,
        packet: &Packet<'_>,
    ) {
        let Packet::Datagram { qkey, notice, lid, sl, grh, payload } = packet else { return };
        if self.init.transport != Transport::Ud || !self.state.receives() || *qkey != self.attributes.qkey {
            return;
        }
        let Some(request) = self.take_receive(core) else { return };
        let total = GRH + payload.len() as u64;
        let room: u64 = request.elements.iter().map(|element| u64::from(element.len)).sum();
        let pieces = core.resolve(self.init.pd, &request.elements, access::LOCAL_WRITE);
        let status = match pieces {
            _ if room < total => Status::LocalLength,
            Err(status) => status,
            Ok(pieces) => {
                let front = grh.unwrap_or([0; GRH as usize]);
                let front = core.write_pieces(&pieces, 0, &front);
                match front.and_then(|()| core.write_pieces(&pieces, GRH, payload)) {
                    Ok(()) => Status::Success,
                    Err(()) => Status::LocalProtection,
                }
            }
        };
        let completion = Completion {
            status,
            byte_len: total as u32,
            imm: notice.imm.unwrap_or(0),
            src_qp: head.from,
            flags: if notice.imm.is_some() { flags::WITH_IMM } else { 0 } | if grh.is_some() { flags::GRH } else { 0 },
            slid: *lid,
            sl: *sl,
            ..self.completion(core, request.wr_id, Opcode::Receive)
        };
        core.complete(self.init.recv_cq, completion, 0, notice.solicited);
        if status != Status::Success {
            self.fail(core);
        }
    }

    fn take_receive<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>) -> Option<ReceiveRequest> {
        match self.init.srq {
            Some(srq) => core.take_shared(srq),
            None => self.receives.pop_front(),
        }
    }

    /// Takes a receive request for a message of `total` bytes. False if there is none, or it cannot take them.
    fn begin_receive<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>, head: Head, total: u32) -> bool {
        // A message that begins again goes on with the request that it had.
        let before = self.answers.inbound.take().map(|inbound| inbound.request);
        let Some(request) = before.or_else(|| self.take_receive(core)) else {
            self.no_receive(core, head);
            return false;
        };
        let room: u64 = request.elements.iter().map(|element| u64::from(element.len)).sum();
        let pieces = core.resolve(self.init.pd, &request.elements, access::LOCAL_WRITE);
        let part = Part { total, offset: 0 };
        let (pieces, failed) = match pieces {
            _ if room < total.into() => (Pieces::new(), Some((Status::LocalLength, Status::RemoteInvalidRequest))),
            Err(status) => (Pieces::new(), Some((status, Status::RemoteOperation))),
            Ok(pieces) => (pieces, None),
        };
        self.answers.inbound = Some(Inbound { request, pieces, found: core.lost_regions, part });
        match failed {
            Some((here, there)) => {
                self.receive_failed(core, head, here, there);
                false
            }
            None => true,
        }
    }

    /// The message is there.
    fn end_receive<N: Network, M: Memory>(
        &mut self,
        core: &mut Core<N, M>,
        head: Head,
        opcode: Opcode,
        total: u32,
        notice: Notice,
    ) {
        let Some(inbound) = self.answers.inbound.take() else { return };
        let completion = Completion {
            byte_len: total,
            imm: notice.imm.unwrap_or(0),
            src_qp: self.attributes.dest_qp,
            flags: if notice.imm.is_some() { flags::WITH_IMM } else { 0 },
            ..self.completion(core, inbound.request.wr_id, opcode)
        };
        core.complete(self.init.recv_cq, completion, 0, notice.solicited);
        if self.state == State::Rtr && !std::mem::replace(&mut self.is_established, true) {
            core.events.push(Event::Pair(self.qp, PairEvent::Established));
        }
        self.succeeded_with(head);
    }

    fn succeeded_with(&mut self, head: Head) {
        if self.init.transport == Transport::Rc {
            self.answers.expected = head.number.wrapping_add(1);
            self.answers.ack(head, Outcome::Done);
        }
    }

    /// There is no receive request: of RC the initiator waits, of others the message is dropped.
    fn no_receive<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>, head: Head) {
        if self.init.transport != Transport::Rc {
            return;
        }
        self.answers.ack(head, Outcome::NoReceive(self.attributes.min_rnr_timer));
        if !std::mem::replace(&mut self.answers.owes_go, true)
            && let Some(queue) = self.init.srq.and_then(|srq| core.srqs.get_mut(&srq))
        {
            queue.starved.push(self.qp);
        }
    }

    /// Receive requests have been posted.
    pub(crate) fn has_receives<N, M>(&mut self, core: &mut Core<N, M>) {
        if std::mem::take(&mut self.answers.owes_go) {
            self.answers.answers.push_back(Answer::Go);
            self.is_due(core);
        }
    }

    /// The receive request that a message had taken fails, and what the initiator asked for.
    fn receive_failed<N: Network, M: Memory>(
        &mut self,
        core: &mut Core<N, M>,
        head: Head,
        here: Status,
        there: Status,
    ) {
        let Some(request) = self.answers.give_up() else { return };
        let failed = Completion { status: here, ..self.completion(core, request.wr_id, Opcode::Receive) };
        core.complete(self.init.recv_cq, failed, 0, false);
        if self.init.transport == Transport::Rc {
            self.answers.ack(head, Outcome::Failed(there));
        }
        self.fail(core);
    }

    /// What a peer asks for is refused: of RC both sides fail, of others it is dropped.
    fn refuse<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>, head: Head, status: Status) {
        if self.init.transport != Transport::Rc {
            return;
        }
        self.answers.ack(head, Outcome::Failed(status));
        let event = if status == Status::RemoteAccess { PairEvent::Access } else { PairEvent::InvalidRequest };
        core.events.push(Event::Pair(self.qp, event));
        self.fail(core);
    }

    /// Sends answers. True if the network has no room.
    pub(crate) fn pump_answers<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>) -> bool {
        while let Some(answer) = self.answers.answers.front_mut() {
            let Some(peer) = self.peer else {
                self.answers.answers.clear();
                return false;
            };
            let (to, from) = (self.attributes.dest_qp, self.qp.0);
            let head = |number, attempt| Head { to, from, number, attempt };
            let went = match answer {
                Answer::Ack { number, attempt, outcome } => {
                    core.send(peer, head(*number, *attempt), &Packet::Ack(*outcome), &[])
                }
                Answer::Old { number, attempt, word } => {
                    core.send(peer, head(*number, *attempt), &Packet::Old { word: *word }, &[])
                }
                Answer::Go => core.send(peer, head(0, 0), &Packet::Go, &[]),
                Answer::Data { number, attempt, key, at, total, sent } => {
                    let head = head(*number, *attempt);
                    let packet = Packet::Data { part: Part { total: *total, offset: *sent }, payload: &[] };
                    let len = (*total - *sent).min(core.room() as u32);
                    let place = core.find(self.init.pd, *key, *at, (*total).into(), access::REMOTE_READ);
                    let pieces = place.map(|place| [Piece { at: place, len: (*total).into() }]);
                    let status = match pieces {
                        None => Err(Status::RemoteAccess),
                        Some(pieces) => core
                            .send_from(peer, head, &packet, (&pieces, (*sent).into(), len as usize))
                            .map_err(|()| Status::RemoteOperation),
                    };
                    match status {
                        Err(status) => {
                            self.answers.answers.pop_front();
                            self.refuse(core, head, status);
                            continue;
                        }
                        Ok(Ok(())) => {
                            *sent += len;
                            if *sent < *total {
                                continue;
                            }
                            Ok(())
                        }
                        Ok(not) => not,
                    }
                }
            };
            match went {
                Err(NotSent::Full) => return true,
                // Nobody is there who could be answered.
                Ok(()) | Err(NotSent::Gone) => self.answers.answers.pop_front(),
            };
        }
        false
    }
}
