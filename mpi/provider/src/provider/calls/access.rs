//! Writes, reads and atomics on memory of a peer: at once, where this process reaches it, else by that one's progress.

use crate::abi::constants::*;
use crate::atomics;
use crate::memory::{PIECES, UserMemory};
use crate::provider::ends::Request;
use crate::provider::fault::Outcome;
use crate::provider::objects::*;
use crate::provider::onesided;
use crate::provider::payload::{Outbound, Purpose};
use crate::provider::progress::Provider;
use crate::provider::state::ProviderState;
use crate::wire::{HEAD_MAX, Head, MessageKind, Remote, Rts};

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

impl Provider {
    fn request(&self, id: u32, call: &Access, side: Side, flags: u64, target: Target) -> Outcome<Request> {
        let ep = self.state.objects.eps.get(id).ok_or(errno::EINVAL)?;
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

    /// What `carry` makes of the peer's memory, if this process reaches it. Nothing also while an access is under way that has to
    /// come before.
    fn at_once<T>(
        &mut self,
        id: u32,
        call: &Access,
        target: Target,
        access: u64,
        carry: impl FnOnce(onesided::Remote<'_>) -> Option<T>,
    ) -> Option<T> {
        let ProviderState { here, objects, onesided, .. } = &mut self.state;
        let ([remote], None) = (&call.remotes[..], call.data) else { return None };
        if objects.eps.get(id)?.accesses > 0 || remote.len == 0 {
            return None;
        }
        onesided.with(here, (target.peer, target.ep), (remote.addr, remote.len, remote.key), access, carry)
    }

    /// It has happened.
    fn has_happened(&mut self, id: u32, call: &Access, side: Side, flags: u64, target: Target) -> Outcome {
        let done = self.request(id, call, side, flags, target)?.done;
        self.state.ends().end(done, 0, 0);
        Ok(())
    }

    pub(crate) fn write(&mut self, id: u32, call: Access) -> Outcome {
        let target = self.begin(id, call.to, call.flags)?;
        Provider::check(&call, call.memory.len())?;
        if self.at_once(id, &call, target, REMOTE_WRITE, |there| there.write(&call.memory)).is_some() {
            return self.has_happened(id, &call, Side::Write, RMA | WRITE, target);
        }
        self.room_to_access(id)?;
        let request = self.request(id, &call, Side::Write, RMA | WRITE, target)?;
        let mut head = Head { data: call.data, ..Head::new(MessageKind::Write, target.ep, id, 0) };
        head.count = call.remotes.len() as u8;
        let mut body = Vec::with_capacity(PIECES * Remote::BYTES + Rts::BYTES);
        Remote::encode_all(&call.remotes, &mut body);
        if HEAD_MAX + body.len() + call.memory.len() <= self.state.here.eager_max {
            return self.send_request(head, request, &body, &call.memory);
        }
        let mut outbound = Outbound::new(target.peer, (id, target.ep), call.memory, Purpose::Write);
        let copied = if call.flags & INJECT != 0 { outbound.copy() } else { 0 };
        let rts = self.state.offers.all.insert(outbound);
        head.kind = MessageKind::WriteRts;
        body.extend(self.state.offers.describe(&self.state.here, rts));
        let sent = self.send_request(head, request, &body, &UserMemory::nothing());
        match sent {
            Ok(()) => self.state.offers.copied += copied,
            Err(_) => drop(self.state.offers.all.remove(rts)),
        }
        sent
    }

    pub(crate) fn read(&mut self, id: u32, call: Access) -> Outcome {
        let target = self.begin(id, call.to, call.flags)?;
        Provider::check(&call, call.memory.len())?;
        if self.at_once(id, &call, target, REMOTE_READ, |there| there.read(&call.memory)).is_some() {
            return self.has_happened(id, &call, Side::Read, RMA | READ, target);
        }
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
        let (side, flags) = if result.is_some() { (Side::Read, ATOMIC | READ) } else { (Side::Write, ATOMIC | WRITE) };
        let rights = if shape == atomics::Shape::Read { 0 } else { REMOTE_WRITE }
            | if result.is_some() { REMOTE_READ } else { 0 };
        let bytes = |memory: &UserMemory| {
            let mut bytes = vec![0; memory.len()];
            memory.read(0, &mut bytes);
            bytes
        };
        let operand = if shape == atomics::Shape::Read { Vec::new() } else { bytes(&access.memory) };
        let comparand = if shape == atomics::Shape::Compare { bytes(&compare) } else { Vec::new() };
        let change = |there: onesided::Remote<'_>| there.update((datatype, op), &operand, &comparand);
        if let Some(old) = self.at_once(id, &access, target, rights, change) {
            if let Some(result) = &result {
                result.write(0, &old);
            }
            return self.has_happened(id, &access, side, flags, target);
        }
        self.room_to_access(id)?;
        let mut request = self.request(id, &access, side, flags, target)?;
        let mut body = vec![datatype as u8, op as u8, u8::from(result.is_some()), access.remotes.len() as u8];
        Remote::encode_all(&access.remotes, &mut body);
        body.extend(&comparand);
        request.result = result.unwrap_or_else(UserMemory::nothing);
        let head = Head { data: access.data, ..Head::new(MessageKind::Atomic, target.ep, id, 0) };
        let operand = if shape == atomics::Shape::Read { UserMemory::nothing() } else { access.memory };
        self.send_request(head, request, &body, &operand)
    }
}
