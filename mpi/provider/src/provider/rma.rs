//! Writes, reads and atomics on memory of a peer, which that one's progress carries out.

use super::objects::*;
use super::transfer::{InboundEnd, Outbound, Purpose};
use super::{Outcome, Provider, ProviderState, Request, fault_of};
use crate::abi::constants::*;
use crate::atomics;
use crate::memory::{PIECES, UserMemory};
use crate::wire::{HEAD_MAX, Head, MessageKind, Reader, Remote, Rts, rest};
use angara::mailbox::{Message, Peer};

/// A call that writes or reads.
pub(crate) struct Access {
    pub(crate) memory: UserMemory,
    pub(crate) to: u64,
    pub(crate) remotes: Vec<Remote>,
    pub(crate) data: Option<u64>,
    pub(crate) context: usize,
    pub(crate) flags: u64,
    pub(crate) silent: bool,
}

/// A call of an atomic.
pub(crate) struct AtomicCall {
    pub(crate) access: Access,
    pub(crate) datatype: i32,
    pub(crate) op: i32,
    pub(crate) compare: UserMemory,
    /// Where the old value goes, if it is asked for.
    pub(crate) result: Option<UserMemory>,
}

/// A peer's write whose payload was fetched.
pub(super) struct Written {
    peer: Peer,
    head: Head,
    remotes: Vec<Remote>,
    len: usize,
}

impl Written {
    pub(super) fn names(&self, key: u64) -> bool {
        self.remotes.iter().any(|remote| remote.key == key)
    }
}

impl Provider {
    fn request(&self, id: u32, call: &Access, side: Side, flags: u64, target: Target) -> Outcome<Request> {
        let ep = self.state.eps.get(id).ok_or(errno::EINVAL)?;
        let done = Done {
            ep: id,
            side,
            context: call.context,
            flags,
            len: call.remotes.iter().map(|remote| remote.len as usize).sum(),
            buf: 0,
            data: 0,
            tag: 0,
            source: ADDR_NOTAVAIL,
            report: !call.silent && Endpoint::reports(ep.tx, call.flags),
        };
        Ok(Request { peer: target.peer, done, result: UserMemory::nothing() })
    }

    fn check(call: &Access, len: usize) -> Outcome {
        let sum = call.remotes.iter().try_fold(0u64, |sum, remote| sum.checked_add(remote.len));
        if call.remotes.len() > PIECES || sum != Some(len as u64) { Err(errno::EINVAL) } else { Ok(()) }
    }

    pub(crate) fn write(&mut self, id: u32, call: Access) -> Outcome {
        let target = self.begin(id, call.to, call.flags)?;
        Provider::check(&call, call.memory.len())?;
        self.room_to_access(id)?;
        let request = self.request(id, &call, Side::Write, RMA | WRITE, target)?;
        let mut head = Head { data: call.data, ..Head::new(MessageKind::Write, target.ep, id, 0) };
        head.count = call.remotes.len() as u8;
        let mut body = Vec::with_capacity(PIECES * Remote::BYTES + Rts::BYTES);
        Remote::encode_all(&call.remotes, &mut body);
        if HEAD_MAX + body.len() + call.memory.len() <= self.state.eager_max {
            return self.send_request(head, request, &body, &call.memory);
        }
        let mut outbound = Outbound::new(target.peer, (id, target.ep), call.memory, Purpose::Write);
        let copied = if call.flags & INJECT != 0 { outbound.copy() } else { 0 };
        let rts = self.state.outbound.insert(outbound);
        head.kind = MessageKind::WriteRts;
        body.extend(self.state.describe(rts));
        let sent = self.send_request(head, request, &body, &UserMemory::nothing());
        match sent {
            Ok(()) => self.state.copied += copied,
            Err(_) => drop(self.state.outbound.remove(rts)),
        }
        sent
    }

    pub(crate) fn read(&mut self, id: u32, call: Access) -> Outcome {
        let target = self.begin(id, call.to, call.flags)?;
        Provider::check(&call, call.memory.len())?;
        self.room_to_access(id)?;
        let mut request = self.request(id, &call, Side::Read, RMA | READ, target)?;
        request.result = call.memory;
        let head = Head { count: call.remotes.len() as u8, ..Head::new(MessageKind::Read, target.ep, id, 0) };
        let mut body = Vec::with_capacity(PIECES * Remote::BYTES);
        Remote::encode_all(&call.remotes, &mut body);
        self.send_request(head, request, &body, &UserMemory::nothing())
    }

    pub(crate) fn atomic(&mut self, id: u32, call: AtomicCall) -> Outcome {
        let AtomicCall { access, datatype, op, compare, result } = call;
        let target = self.begin(id, access.to, access.flags)?;
        let size = atomics::size(datatype).ok_or(errno::EOPNOTSUPP)?;
        let shape = atomics::shape(op).ok_or(errno::EOPNOTSUPP)?;
        if !atomics::is_defined(datatype, op) || (shape != atomics::Shape::Update && result.is_none()) {
            return Err(errno::EOPNOTSUPP);
        }
        let len = access.remotes.iter().map(|remote| remote.len as usize).sum::<usize>();
        Provider::check(&access, len)?;
        let wrong = |memory: &UserMemory| memory.len() != len;
        if (shape != atomics::Shape::Read && wrong(&access.memory))
            || (shape == atomics::Shape::Compare && wrong(&compare))
            || result.as_ref().is_some_and(wrong)
            || !len.is_multiple_of(size)
        {
            return Err(errno::EINVAL);
        }
        if len > crate::ATOMIC_MAX {
            return Err(errno::EMSGSIZE);
        }
        self.room_to_access(id)?;
        let (side, flags) = if result.is_some() { (Side::Read, ATOMIC | READ) } else { (Side::Write, ATOMIC | WRITE) };
        let mut request = self.request(id, &access, side, flags, target)?;
        let mut body = vec![datatype as u8, op as u8, u8::from(result.is_some()), access.remotes.len() as u8];
        Remote::encode_all(&access.remotes, &mut body);
        if shape == atomics::Shape::Compare {
            let at = body.len();
            body.resize(at + len, 0);
            compare.read(0, &mut body[at..]);
        }
        request.result = result.unwrap_or_else(UserMemory::nothing);
        let head = Head { data: access.data, ..Head::new(MessageKind::Atomic, target.ep, id, 0) };
        let operand = if shape == atomics::Shape::Read { UserMemory::nothing() } else { access.memory };
        self.send_request(head, request, &body, &operand)
    }
}

impl ProviderState {
    /// Memory of the endpoint's domain that a peer names.
    fn resolve(&self, head: &Head, remotes: &[Remote], access: u64) -> Outcome<UserMemory> {
        let ep = self.eps.get(head.dst).filter(|ep| ep.enabled).ok_or(errno::ECONNREFUSED)?;
        self.domains.get(ep.domain).ok_or(errno::ECONNREFUSED)?.resolve(remotes, access)
    }

    /// Counts a peer's access, and reports it if it carries data.
    fn accessed(&mut self, head: &Head, remotes: &[Remote], side: Side, len: usize) {
        let kind = if side == Side::RemoteRead { REMOTE_READ } else { REMOTE_WRITE };
        let Some(ep) = self.eps.get(head.dst) else { return };
        let region = remotes.first().and_then(|r| self.domains.get(ep.domain)?.keys.get(&r.key));
        for (counter, kinds) in region.map_or(&[][..], |region| &region.counters) {
            if kinds & kind != 0
                && let Some(counter) = self.counters.get_mut(*counter)
            {
                counter.value += 1;
            }
        }
        let done = Done {
            ep: head.dst,
            side,
            context: 0,
            flags: RMA | kind | REMOTE_CQ_DATA,
            len,
            buf: 0,
            data: head.data.unwrap_or(0),
            tag: 0,
            source: ADDR_NOTAVAIL,
            report: head.data.is_some(),
        };
        self.end(done, 0, 0);
    }

    pub(super) fn write_came(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let front = rest(message, at, usize::from(head.count) * Remote::BYTES);
        let remotes = Remote::decode_all(head.count, &mut Reader(&front))?;
        let at = at + front.len();
        let len = message.len() - at;
        let error = match self.resolve(head, &remotes, REMOTE_WRITE) {
            Ok(memory) if memory.len() == len => {
                memory.write_message(0, message, at, len);
                self.accessed(head, &remotes, Side::RemoteWrite, len);
                0
            }
            Ok(_) => errno::EINVAL,
            Err(e) => e,
        };
        self.answer(peer, head, error);
        Some(())
    }

    pub(super) fn on_write_rts(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let body = rest(message, at, PIECES * Remote::BYTES + Rts::BYTES);
        let mut reader = Reader(&body);
        let remotes = Remote::decode_all(head.count, &mut reader)?;
        let rts = Rts::decode(&mut reader)?;
        let len = rts.len as usize;
        match self.resolve(head, &remotes, REMOTE_WRITE) {
            Ok(memory) if memory.len() == len => {
                let end = InboundEnd::Written(Written { peer, head: *head, remotes, len });
                self.fetch_payload(peer, head.src, head.dst, &rts, memory, len, end);
            }
            other => {
                let error = other.err().unwrap_or(errno::EINVAL);
                self.refuse(peer, head.src, &rts, error);
                self.answer(peer, head, error);
            }
        }
        Some(())
    }

    /// A write whose payload was fetched has taken effect, or failed.
    pub(super) fn written(&mut self, written: Written, fault: Fault) {
        let Written { peer, head, remotes, len } = written;
        if fault == Fault::NONE {
            self.accessed(&head, &remotes, Side::RemoteWrite, len);
        }
        self.answer(peer, &head, fault);
    }

    pub(super) fn read_came(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let body = rest(message, at, PIECES * Remote::BYTES);
        let remotes = Remote::decode_all(head.count, &mut Reader(&body))?;
        let memory = match self.resolve(head, &remotes, REMOTE_READ) {
            Ok(memory) => memory,
            Err(e) => {
                self.answer(peer, head, e);
                return Some(());
            }
        };
        let len = memory.len();
        if HEAD_MAX + len <= self.eager_max {
            let mut bytes = vec![0; len];
            memory.read(0, &mut bytes);
            self.post(peer, &Head::new(MessageKind::Reply, head.src, head.dst, head.aux), &bytes);
        } else if self.outbound.is_full() {
            self.answer(peer, head, errno::ENOMEM);
            return Some(());
        } else {
            let purpose = Purpose::Answer(remotes.as_slice().into());
            let rts = self.outbound.insert(Outbound::new(peer, (head.dst, head.src), memory, purpose));
            let body = self.describe(rts);
            self.post(peer, &Head::new(MessageKind::ReplyRts, head.src, head.dst, head.aux), &body);
        }
        self.accessed(&Head { data: None, ..*head }, &remotes, Side::RemoteRead, len);
        Some(())
    }

    /// Returns what a peer answers. Nothing, if the endpoint that asked for it has been closed since.
    fn requested(&self, peer: Peer, head: &Head) -> Option<&Request> {
        self.requests.get(head.aux).filter(|request| request.peer == peer)
    }

    pub(super) fn reply_came(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let Some(request) = self.requested(peer, head) else { return Some(()) };
        let len = message.len() - at;
        if len == request.result.len() {
            request.result.write_message(0, message, at, len);
            self.request_ends(head.aux, Fault::NONE);
        } else {
            self.request_ends(head.aux, Fault::io(errno::EMSGSIZE));
        }
        Some(())
    }

    pub(super) fn on_reply_rts(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let rts = Rts::decode(&mut Reader(&rest(message, at, Rts::BYTES)))?;
        let Some(request) = self.requested(peer, head) else {
            self.refuse(peer, head.src, &rts, errno::ECANCELED);
            return Some(());
        };
        let len = request.result.len();
        if rts.len as usize != len {
            self.refuse(peer, head.src, &rts, errno::EMSGSIZE);
            self.request_ends(head.aux, Fault::io(errno::EMSGSIZE));
            return Some(());
        }
        let memory = request.result.part(0, len);
        let end = InboundEnd::Answered { request: head.aux };
        self.fetch_payload(peer, head.src, head.dst, &rts, memory, len, end);
        Some(())
    }

    pub(super) fn request_done(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let Some(_) = self.requested(peer, head) else { return Some(()) };
        let fault = fault_of(message, at)?;
        self.request_ends(head.aux, fault);
        Some(())
    }

    pub(super) fn request_ends(&mut self, id: u64, fault: Fault) {
        if let Some(request) = self.requests.remove(id) {
            self.end_request(request.done, fault);
        }
    }

    pub(super) fn atomic_came(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        let body = rest(message, at, self.eager_max);
        let mut reader = Reader(&body);
        let (datatype, op) = (i32::from(reader.u8()?), i32::from(reader.u8()?));
        let (fetch, count) = (reader.u8()? != 0, reader.u8()?);
        let remotes = Remote::decode_all(count, &mut reader)?;
        let shape = atomics::shape(op)?;
        let writes = if shape == atomics::Shape::Read { 0 } else { REMOTE_WRITE };
        let access = writes | if fetch { REMOTE_READ } else { 0 };
        let memory = match self.resolve(head, &remotes, access) {
            Ok(memory) => memory,
            Err(e) => {
                self.answer(peer, head, e);
                return Some(());
            }
        };
        let len = memory.len();
        if len > crate::ATOMIC_MAX || !len.is_multiple_of(atomics::size(datatype)?) {
            return None;
        }
        let compare = if shape == atomics::Shape::Compare { reader.take(len)? } else { &[] };
        let operand = if shape == atomics::Shape::Read { &[] } else { reader.take(len)? };
        let mut value = vec![0; len];
        memory.read(0, &mut value);
        let old = if fetch { value.clone() } else { Vec::new() };
        if !atomics::apply(datatype, op, &mut value, operand, compare) {
            self.answer(peer, head, errno::EOPNOTSUPP);
            return Some(());
        }
        memory.write(0, &value);
        let side = if fetch && shape == atomics::Shape::Read { Side::RemoteRead } else { Side::RemoteWrite };
        self.accessed(head, &remotes, side, len);
        if fetch {
            self.post(peer, &Head::new(MessageKind::Reply, head.src, head.dst, head.aux), &old);
        } else {
            self.answer(peer, head, 0);
        }
        Some(())
    }
}
