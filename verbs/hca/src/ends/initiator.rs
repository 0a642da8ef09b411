//! The side of a queue pair that asks: its send queue.
//!
//! Requests of a connected pair are numbered. They go in order, as many at once as the network takes, and are completed in
//! order: a responder's answer to one is an answer to all before it. Where the responder has no receive request, or is not
//! ready, it drops everything from that request on, and the initiator begins again there: after some time, or as soon as
//! the responder says so.

use super::sends::{Fate, Posted};
use super::state::Pair;
use crate::Result;
use crate::address::{lane_of, lid, node_of_path};
use crate::completion::{Completion, Opcode, Status};
use crate::core::{Core, Pieces, bytes_of, need_of};
use crate::event::{Event, PairEvent};
use crate::network::{Copied, Copies, Memory, Network, NotSent, Peer, Piece, RemoteAccess};
use crate::objects::limits;
use crate::pair::{State, Transport};
use crate::region::access;
use crate::request::Atomic;
use crate::request::{Operation, Payload, SendRequest};
use crate::wire::{Head, Notice, Outcome, Packet, Part};
use rustix::io::Errno;

/// Where processes copy by themselves, a payload longer than this does not go by message. Ours: a copy by the kernel costs
/// as much as messages of that length.
const BY_MESSAGE: u64 = 4096;
/// An initiator hears nothing for so long at least before it takes its peer for lost, whatever its timeout says: processes share
/// cores, which adapters do not.
const SILENCE_LEAST: u64 = 2_000_000_000;
/// For so long after a peer has left it is waited for what it had sent before. Ours.
const FAREWELL: u64 = 100_000_000;
/// Between attempts where a queue pair has no timeout.
const AGAIN: u64 = 50_000_000;
const MILLISECOND: u64 = 1_000_000;
/// A retry count that does not end.
const FOR_EVER: u8 = 7;
/// Times in microseconds of the codes 0 to 31 of the RNR timer (specification, table of RNR NAK timer field values).
const RNR_US: [u64; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120, 7680, 10240,
    15360, 20480, 30720, 40960, 61440, 81920, 122_880, 163_840, 245_760, 327_680, 491_520,
];

/// What became of an attempt to send the next request or part.
enum Step {
    Went,
    /// Something has to come first.
    Waits,
    Full,
    /// The peer has left. It is given up after a while: it may have answered what came before.
    Gone,
}

impl Pair {
    /// Whether a request could be posted after so many others.
    fn check_send(&self, request: &SendRequest, before: u32) -> Result<()> {
        if self.state < State::Rts {
            return Err(Errno::INVAL);
        }
        let fits = match (self.init.transport, &request.operation) {
            (Transport::Ud, Operation::Datagram { .. }) => true,
            (Transport::Ud, _) | (_, Operation::Datagram { .. }) => false,
            (Transport::Uc, operation) => matches!(operation, Operation::Send { .. } | Operation::Write { .. }),
            (Transport::Rc, _) => true,
        };
        let caps = &self.init.caps;
        let has_room = match &request.payload {
            Payload::Inline(bytes) => bytes.len() <= caps.inline_data as usize && !is_read(&request.operation),
            Payload::Elements(elements) => elements.len() <= caps.send_sge as usize,
        };
        if !fits || !has_room {
            return Err(Errno::INVAL);
        }
        if self.sends.used + before >= caps.send_wr { Err(Errno::NOMEM) } else { Ok(()) }
    }

    /// Queues requests: all of them, or none.
    pub(crate) fn post_sends<N: Network, M: Memory>(
        &mut self,
        core: &mut Core<N, M>,
        requests: impl IntoIterator<Item = SendRequest> + AsRef<[SendRequest]>,
    ) -> Result<()> {
        (0..).zip(requests.as_ref()).try_for_each(|(before, request)| self.check_send(request, before))?;
        for request in requests {
            self.sends.used += 1;
            let (pieces, found) = (Pieces::new(), core.lost_regions);
            self.sends.queue.push_back(Posted { request, fate: Fate::Open, got: 0, reads: false, pieces, found });
        }
        match self.state {
            State::Error | State::Sqe => self.flush_sends(core),
            _ => self.is_due(core),
        }
        Ok(())
    }

    /// Sends what can be sent. True if the network has no room.
    pub(crate) fn pump_sends<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>) -> bool {
        let (mut is_full, mut is_gone) = (false, false);
        while !is_full && !is_gone && self.sends.stall.is_none() && self.sends.next < self.sends.queue.len() {
            let goes = self.state == State::Rts || self.state == State::Sqd && self.sends.going.is_some();
            if !goes {
                break;
            }
            match self.send_next(core) {
                Step::Went => {}
                Step::Waits => break,
                Step::Full => is_full = true,
                Step::Gone => is_gone = true,
            }
            self.retire(core);
        }
        self.retire(core);
        let is_blocked = (is_full || is_gone) && !self.sends.on_way();
        if is_blocked && !std::mem::replace(&mut self.sends.is_blocked, is_blocked) {
            self.sends.heard = core.network.now();
        }
        self.sends.is_blocked = is_blocked;
        self.watch(core);
        is_full
    }

    fn send_next<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>) -> Step {
        let sends = &mut self.sends;
        let index = sends.next;
        if sends.queue[index].fate != Fate::Open {
            return Step::Waits;
        }
        if sends.going.is_none() {
            let (reads, most) = (sends.reads_on_way(), usize::from(self.attributes.max_rd_atomic));
            let posted = &mut sends.queue[index];
            let read = is_read(&posted.request.operation);
            if posted.request.fence && reads > 0 || read && reads > 0 && reads >= most {
                return Step::Waits;
            }
            if let Err(status) = prepare(core, self.init.pd, posted, most) {
                posted.fate = Fate::Failed(status);
                return Step::Waits;
            }
        } else if let Err(status) = prepare_again(core, self.init.pd, &mut sends.queue[index]) {
            sends.queue[index].fate = Fate::Failed(status);
            return Step::Waits;
        }
        match self.init.transport {
            Transport::Ud => self.send_datagram(core),
            _ => self.send_connected(core),
        }
    }

    fn send_datagram<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>) -> Step {
        let posted = &mut self.sends.queue[self.sends.next];
        let Operation::Datagram { to, qp, qkey, imm } = posted.request.operation else { return Step::Waits };
        let node = node_of_path(&to);
        if let Some(peer) = node.and_then(|node| core.network.find(node, lane_of(qp))) {
            // A key of the system is this queue pair's own.
            let qkey = if qkey >> 31 == 1 { self.attributes.qkey } else { qkey };
            let notice = Notice { imm, solicited: posted.request.solicited };
            let len = posted.pieces.iter().map(|piece| piece.len).sum::<u64>() as usize;
            let grh = to.is_global.then(|| global_route(core.network.node(), &to, len));
            let lid = lid(core.network.node());
            let packet = Packet::Datagram { qkey, notice, lid, sl: to.sl, grh, payload: &[] };
            let head = Head { to: qp, from: self.qp.0, number: 0, attempt: 0 };
            match send_part(core, peer, head, &packet, posted, 0, len) {
                Err(()) => {
                    posted.fate = Fate::Failed(Status::LocalProtection);
                    return Step::Waits;
                }
                Ok(Err(NotSent::Full)) => return Step::Full,
                // Nobody is told what becomes of datagrams.
                Ok(Ok(()) | Err(NotSent::Gone)) => {}
            }
        }
        posted.fate = Fate::Done;
        self.sends.next += 1;
        Step::Went
    }

    fn send_connected<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>) -> Step {
        let is_reliable = self.init.transport == Transport::Rc;
        self.finds_peer(core);
        let Some(peer) = self.peer else {
            return self.nobody_is_there(core, is_reliable);
        };
        let index = self.sends.next;
        let posted = &self.sends.queue[index];
        let total = posted.pieces.iter().map(|piece| piece.len).sum::<u64>();
        let sent = self.sends.going.unwrap_or(0);
        let mut carried = false;
        let copies = if is_reliable && total > 0 { core.network.copies(peer) } else { Copies::Nothing };
        if copies != Copies::Nothing && self.sends.going.is_none() {
            match self.copy_itself(core, peer, total) {
                Some(Step::Went) if posted_imm(&self.sends.queue[index]).is_none() => {
                    self.done_by_itself(core);
                    return Step::Went;
                }
                Some(Step::Went) => carried = true,
                Some(step) => return step,
                None => {}
            }
        }
        let posted = &self.sends.queue[index];
        let part = Part { total: total as u32, offset: sent };
        let by_receiver = copies == Copies::All && total > BY_MESSAGE;
        let Some(packet) = packet_of(posted, part, carried, by_receiver) else { return Step::Waits };
        let number = self.sends.first.wrapping_add(index as u32);
        let head = Head { to: self.attributes.dest_qp, from: self.qp.0, number, attempt: self.sends.attempt };
        let len = match packet {
            Packet::Send { .. } | Packet::Write { carried: false, .. } => {
                (total - u64::from(sent)).min(core.room() as u64) as usize
            }
            _ => 0,
        };
        match send_part(core, peer, head, &packet, posted, sent, len) {
            Err(()) => {
                self.sends.queue[index].fate = Fate::Failed(Status::LocalProtection);
                return Step::Waits;
            }
            Ok(Err(NotSent::Full)) => return Step::Full,
            Ok(Err(NotSent::Gone)) if is_reliable => return Step::Gone,
            Ok(_) => {}
        }
        if is_reliable && !self.sends.on_way() {
            self.sends.heard = core.network.now();
        }
        let ends = match packet {
            Packet::Send { .. } | Packet::Write { carried: false, .. } => u64::from(sent) + len as u64 >= total,
            _ => true,
        };
        let posted = &mut self.sends.queue[index];
        if ends {
            posted.reads = is_read(&posted.request.operation);
            posted.fate = if is_reliable { Fate::Open } else { Fate::Done };
            (self.sends.next, self.sends.going) = (index + 1, None);
        } else {
            self.sends.going = Some(sent + len as u32);
        }
        Step::Went
    }

    /// Copies to or from the peer's memory, where this process may: a write or a read that begins. Nothing if it may not.
    fn copy_itself<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>, peer: Peer, len: u64) -> Option<Step> {
        let index = self.sends.next;
        let posted = &self.sends.queue[index];
        let (at, key, need, atomic) = match posted.request.operation {
            Operation::Write { at, key, .. } => (at, key, access::REMOTE_WRITE, None),
            Operation::Read { at, key } => (at, key, access::REMOTE_READ, None),
            Operation::FetchAdd { at, key, add } => (at, key, access::REMOTE_ATOMIC, Some(Atomic::Add(add))),
            Operation::CompareSwap { at, key, compare, swap } => {
                (at, key, access::REMOTE_ATOMIC, Some(Atomic::Swap { compare, swap }))
            }
            Operation::Send { .. } | Operation::Datagram { .. } => return None,
        };
        if index > 0 {
            // What came before has to have happened before.
            return (len > BY_MESSAGE).then_some(Step::Waits);
        }
        let (pair, from) = (self.attributes.dest_qp, self.qp.0);
        let inline = matches!(posted.request.payload, Payload::Inline(_));
        let access = RemoteAccess { peer, pair, from, key, at, len, need, inline };
        let Some(atomic) = atomic else {
            return (core.network.copy(&access, &posted.pieces) == Copied::Done).then_some(Step::Went);
        };
        let old = core.network.update(&access, atomic).ok()?;
        if core.write_pieces(&posted.pieces, 0, &old.to_ne_bytes()).is_err() {
            // It has happened all the same.
            self.sends.queue[index].fate = Fate::Failed(Status::LocalProtection);
            return Some(Step::Waits);
        }
        Some(Step::Went)
    }

    /// The first request has happened without a message, so that it has no number.
    fn done_by_itself<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>) {
        if let Some(posted) = self.sends.queue.pop_front() {
            self.succeeded(core, &posted.request);
        }
    }

    fn nobody_is_there<N: Network, M>(&mut self, core: &Core<N, M>, is_reliable: bool) -> Step {
        let index = self.sends.next;
        if is_reliable {
            self.not_answered(index, core.network.now());
            return Step::Waits;
        }
        self.sends.queue[index].fate = Fate::Done;
        self.sends.next += 1;
        Step::Went
    }

    /// Whoever is at the other end has left.
    fn peer_is_lost(&mut self) {
        if let Some(posted) = self.sends.queue.iter_mut().find(|posted| posted.fate == Fate::Open) {
            posted.fate = Fate::Failed(Status::RetryExceeded);
        }
    }

    /// Completes what is done, in order.
    pub(crate) fn retire<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>) {
        while let Some(posted) = self.sends.queue.front() {
            match posted.fate {
                Fate::Open => break,
                Fate::Done => {
                    if let Some(posted) = self.pop() {
                        self.succeeded(core, &posted.request);
                    }
                }
                Fate::Failed(status) => {
                    if let Some(posted) = self.pop() {
                        self.complete_send(core, &posted.request, status);
                    }
                    match self.init.transport {
                        Transport::Rc => self.fail(core),
                        _ => {
                            self.state = State::Sqe;
                            self.flush_sends(core);
                        }
                    }
                }
            }
        }
        if self.state == State::Sqd && self.sends.tell_drained && !self.sends.on_way() {
            self.sends.tell_drained = false;
            core.events.push(Event::Pair(self.qp, PairEvent::SendQueueDrained));
        }
    }

    fn pop(&mut self) -> Option<Posted> {
        let posted = self.sends.queue.pop_front()?;
        self.sends.first = self.sends.first.wrapping_add(1);
        match self.sends.next.checked_sub(1) {
            Some(next) => self.sends.next = next,
            // It was going.
            None => self.sends.going = None,
        }
        Some(posted)
    }

    fn succeeded<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>, request: &SendRequest) {
        if request.signaled || self.init.signal_all {
            self.complete_send(core, request, Status::Success);
        } else {
            self.sends.silent += 1;
        }
    }

    fn complete_send<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>, request: &SendRequest, status: Status) {
        let opcode = match request.operation {
            Operation::Send { .. } | Operation::Datagram { .. } => Opcode::Send,
            Operation::Write { .. } => Opcode::RdmaWrite,
            Operation::Read { .. } => Opcode::RdmaRead,
            Operation::FetchAdd { .. } => Opcode::FetchAdd,
            Operation::CompareSwap { .. } => Opcode::CompareSwap,
        };
        let byte_len = bytes_of(&request.payload) as u32;
        let completion = Completion { status, byte_len, ..self.completion(core, request.wr_id, opcode) };
        let frees = 1 + std::mem::take(&mut self.sends.silent);
        core.complete(self.init.send_cq, completion, frees, false);
    }

    pub(crate) fn flush_sends<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>) {
        while let Some(posted) = self.pop() {
            self.complete_send(core, &posted.request, Status::Flushed);
        }
        (self.sends.next, self.sends.going, self.sends.stall) = (0, None, None);
        self.sends.is_blocked = false;
    }

    /// A responder has answered.
    pub(crate) fn answered<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>, head: Head, outcome: Outcome) {
        let now = core.network.now();
        let is_of_now = head.attempt == self.sends.attempt;
        let Some(index) = self.sends.index(head.number) else { return };
        match outcome {
            Outcome::Done => self.sends.done_before(index + 1),
            Outcome::Failed(status) => {
                self.sends.done_before(index);
                self.sends.queue[index].fate = Fate::Failed(status);
            }
            Outcome::NoReceive(timer) if is_of_now => {
                self.sends.done_before(index);
                self.sends.rewind(index);
                let retries = self.attributes.rnr_retry;
                let left = self.sends.rnr_left.get_or_insert(retries);
                if retries != FOR_EVER && *left == 0 {
                    self.sends.queue[index].fate = Fate::Failed(Status::RnrRetryExceeded);
                } else {
                    *left = left.saturating_sub(1);
                    self.sends.stall = Some(now + 1000 * RNR_US[usize::from(timer & 31)]);
                }
            }
            // It comes from whoever had no such queue pair, and may have overtaken answers of one that has failed.
            Outcome::NotReady if is_of_now => self.not_answered(index, now),
            Outcome::NoReceive(_) | Outcome::NotReady => return,
        }
        if matches!(outcome, Outcome::Done) {
            self.goes_on();
        }
        self.retire(core);
        self.is_due(core);
    }

    /// Something has succeeded: retries are counted anew.
    fn goes_on(&mut self) {
        (self.sends.rnr_left, self.sends.retries_left) = (None, None);
    }

    /// Nobody takes this request: it is to be sent again after the timeout, as often as the pair tries.
    fn not_answered(&mut self, index: usize, now: u64) {
        self.sends.rewind(index);
        let timeout = self.timeout();
        let left = self.sends.retries_left.get_or_insert(self.attributes.retry_cnt);
        if timeout.is_some() && *left == 0 {
            self.sends.queue[index].fate = Fate::Failed(Status::RetryExceeded);
        } else {
            *left = left.saturating_sub(1);
            self.sends.stall = Some(now + timeout.map_or(AGAIN, |timeout| timeout.max(MILLISECOND)));
        }
    }

    /// The local ack timeout in nanoseconds; none if it never ends.
    fn timeout(&self) -> Option<u64> {
        let code = self.attributes.timeout & 31;
        (code > 0).then(|| 4096 << code)
    }

    /// Part of what a read asked for has come.
    pub(crate) fn data_came<N: Network, M: Memory>(
        &mut self,
        core: &mut Core<N, M>,
        head: Head,
        part: Part,
        payload: &[u8],
    ) {
        let Some(index) = self.sends.index(head.number) else { return };
        let posted = &mut self.sends.queue[index];
        let total = posted.pieces.iter().map(|piece| piece.len).sum::<u64>();
        let is_next = posted.reads && part.offset == posted.got && u64::from(part.total) == total;
        if !is_next || posted.fate != Fate::Open {
            return;
        }
        let written = prepare_again(core, self.init.pd, posted).and_then(|()| {
            core.write_pieces(&posted.pieces, part.offset.into(), payload).map_err(|()| Status::LocalProtection)
        });
        match written {
            Err(status) => posted.fate = Fate::Failed(status),
            Ok(()) => {
                posted.got += payload.len() as u32;
                if u64::from(posted.got) == total {
                    posted.fate = Fate::Done;
                }
            }
        }
        self.read_ended(core, index);
    }

    /// The old word of an atomic has come.
    pub(crate) fn old_came<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>, head: Head, word: u64) {
        let Some(index) = self.sends.index(head.number) else { return };
        let posted = &mut self.sends.queue[index];
        if !posted.reads || posted.fate != Fate::Open {
            return;
        }
        let written = prepare_again(core, self.init.pd, posted).and_then(|()| {
            core.write_pieces(&posted.pieces, 0, &word.to_ne_bytes()).map_err(|()| Status::LocalProtection)
        });
        posted.fate = written.map_or_else(Fate::Failed, |()| Fate::Done);
        self.read_ended(core, index);
    }

    fn read_ended<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>, index: usize) {
        if self.sends.queue[index].fate != Fate::Open {
            self.sends.done_before(index);
            self.goes_on();
            self.retire(core);
            self.is_due(core);
        }
    }

    /// The responder says that it is worth another try.
    pub(crate) fn may_go<N, M>(&mut self, core: &mut Core<N, M>) {
        if self.sends.stall.take().is_some() {
            self.is_due(core);
        }
    }

    /// It is looked at again while it waits for something.
    fn watch<N: Network, M>(&mut self, core: &mut Core<N, M>) {
        if self.init.transport != Transport::Rc {
            return;
        }
        if let Some(deadline) = self.sends.deadline(core.network.now()) {
            core.next_look = core.next_look.min(deadline);
            if !std::mem::replace(&mut self.sends.is_watched, true) {
                core.watched.push(self.qp);
            }
        }
    }

    /// Looks at time limits. When to look again, if anything is waited for.
    pub(crate) fn look<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>, now: u64) -> Option<u64> {
        if self.sends.stall.is_some_and(|until| until <= now) {
            self.sends.stall = None;
            self.is_due(core);
        }
        if self.sends.waits() {
            let budget = self.timeout().map(|timeout| timeout.saturating_mul(1 + u64::from(self.attributes.retry_cnt)));
            // Who finds no room may have others before him.
            let patience = if self.sends.on_way() { 1 } else { 4 };
            // Any message of the peer's adapter shows that it is there, if not what this pair waits for.
            let heard = self.peer.and_then(|peer| core.heard.get(&peer.seat).copied()).unwrap_or(0);
            let silent = now.saturating_sub(heard.max(self.sends.heard)) / patience;
            // What a peer has sent before it left may still be on its way.
            let has_left = self.peer.is_some_and(|peer| !core.network.is_there(peer));
            let left = if has_left { *self.sends.left.get_or_insert(now) } else { now };
            if now - left > FAREWELL || budget.is_some_and(|budget| silent > budget.max(SILENCE_LEAST)) {
                self.peer_is_lost();
                self.retire(core);
            }
        }
        let again = if self.is_ready { Some(now) } else { self.sends.deadline(now) };
        self.sends.is_watched = again.is_some();
        again
    }
}

fn posted_imm(posted: &Posted) -> Option<u32> {
    match posted.request.operation {
        Operation::Write { imm, .. } | Operation::Send { imm } | Operation::Datagram { imm, .. } => imm,
        _ => None,
    }
}

/// The packet of a request of a connected pair, for this part of its payload: with `carried` it is there already, and
/// `by_receiver` says that whoever receives a send copies it.
fn packet_of(posted: &Posted, part: Part, carried: bool, by_receiver: bool) -> Option<Packet<'static>> {
    let notice = Notice { imm: posted_imm(posted), solicited: posted.request.solicited };
    Some(match posted.request.operation {
        Operation::Send { .. } if by_receiver => {
            Packet::SendFrom { total: part.total, notice, pieces: posted.pieces.clone() }
        }
        Operation::Send { .. } => Packet::Send { part, notice, payload: &[] },
        Operation::Write { at, key, .. } => Packet::Write { at, key, part, notice, carried, payload: &[] },
        Operation::Read { at, key } => Packet::Read { at, key, total: part.total },
        Operation::FetchAdd { at, key, add } => Packet::Atomic { at, key, atomic: Atomic::Add(add) },
        Operation::CompareSwap { at, key, compare, swap } => {
            Packet::Atomic { at, key, atomic: Atomic::Swap { compare, swap } }
        }
        Operation::Datagram { .. } => return None,
    })
}

/// Sends a packet with `len` bytes of a request's payload from `offset` on.
fn send_part<N: Network, M: Memory>(
    core: &mut Core<N, M>,
    peer: Peer,
    head: Head,
    packet: &Packet<'_>,
    posted: &Posted,
    offset: u32,
    len: usize,
) -> std::result::Result<std::result::Result<(), NotSent>, ()> {
    match &posted.request.payload {
        _ if len == 0 => Ok(core.send(peer, head, packet, &[])),
        Payload::Inline(bytes) => Ok(core.send(peer, head, packet, &bytes[offset as usize..][..len])),
        Payload::Elements(_) => core.send_from(peer, head, packet, (&posted.pieces, offset.into(), len)),
    }
}

fn is_read(operation: &Operation) -> bool {
    matches!(operation, Operation::Read { .. } | Operation::FetchAdd { .. } | Operation::CompareSwap { .. })
}

/// Finds the bytes of a request, and checks its length.
fn prepare<N: Network, M: Memory>(
    core: &Core<N, M>,
    pd: crate::Pd,
    posted: &mut Posted,
    reads: usize,
) -> std::result::Result<(), Status> {
    let operation = &posted.request.operation;
    let read = is_read(operation);
    let total = bytes_of(&posted.request.payload);
    let is_atomic = read && !matches!(operation, Operation::Read { .. });
    let most = match operation {
        Operation::Datagram { .. } => limits::DATAGRAM,
        _ => limits::MESSAGE,
    };
    if total > most.into() || is_atomic && total != 8 {
        return Err(Status::LocalLength);
    }
    if read && reads == 0 {
        return Err(Status::LocalQpOperation);
    }
    posted.pieces = match &posted.request.payload {
        Payload::Inline(bytes) => {
            std::iter::once(Piece { at: bytes.as_ptr() as u64, len: bytes.len() as u64 }).collect()
        }
        Payload::Elements(elements) => core.resolve(pd, elements, need_of(read))?,
    };
    posted.found = core.lost_regions;
    Ok(())
}

/// Finds the bytes of a request that is on its way again, if a region has gone since.
fn prepare_again<N: Network, M: Memory>(
    core: &Core<N, M>,
    pd: crate::Pd,
    posted: &mut Posted,
) -> std::result::Result<(), Status> {
    let need = need_of(is_read(&posted.request.operation));
    match &posted.request.payload {
        Payload::Inline(_) => Ok(()),
        Payload::Elements(elements) => core.resolve_again(pd, elements, need, (&mut posted.pieces, &mut posted.found)),
    }
}

/// The global routing header of a datagram, whose payload has so many bytes.
fn global_route(node: u32, to: &crate::pair::PathAttributes, len: usize) -> [u8; 40] {
    let link = match crate::address::node_of_gid(&to.dgid) {
        Some(_) if to.dlid == 0 => crate::address::LinkLayer::Ethernet,
        _ => crate::address::LinkLayer::InfiniBand,
    };
    let gids = crate::address::gids(link, node);
    let own = gids.get(usize::from(to.sgid_index)).map_or([0; 16], |(gid, _)| *gid);
    let mut grh = [0; 40];
    let version = 6u32 << 28 | u32::from(to.traffic_class) << 20 | to.flow_label & 0xf_ffff;
    grh[..4].copy_from_slice(&version.to_be_bytes());
    // Base and datagram headers, and the checksum, belong to its payload.
    let bytes = (len + 12 + 8 + 4).next_multiple_of(4) as u16;
    grh[4..6].copy_from_slice(&bytes.to_be_bytes());
    (grh[6], grh[7]) = (0x1b, to.hop_limit);
    grh[8..24].copy_from_slice(&own);
    grh[24..].copy_from_slice(&to.dgid);
    grh
}
