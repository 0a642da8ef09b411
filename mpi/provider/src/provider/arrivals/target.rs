//! Accesses of peers to memory here, and what peers answer.

use crate::abi::constants::*;
use crate::atomics;
use crate::memory::PIECES;
use crate::provider::ends::{Ends, Request};
use crate::provider::fault::{Fault, fault_of};
use crate::provider::noted::Notes;
use crate::provider::objects::Side;
use crate::provider::payload::{Fetches, Fetching, InboundEnd, Offers, Outbound, Purpose, Written};
use crate::provider::peers::Peers;
use crate::wire::{HEAD_MAX, Head, MessageKind, Reader, Remote, Rts, rest};
use angara::mailbox::{Message, Peer};

/// What peers' accesses touch, and their answers to accesses from here.
pub(crate) struct Targets<'a> {
    pub(in crate::provider) ends: Ends<'a>,
    pub(in crate::provider) peers: &'a mut Peers,
    pub(in crate::provider) notes: &'a Notes,
    pub(in crate::provider) fetches: &'a mut Fetches,
    pub(in crate::provider) offers: &'a mut Offers,
}

impl Targets<'_> {
    fn fetching(&mut self) -> Fetching<'_> {
        let Targets { ends, peers, notes, fetches, .. } = self;
        Fetching { ends: ends.lend(), peers, notes, fetches }
    }

    pub(in crate::provider) fn write_came(
        &mut self,
        peer: Peer,
        head: &Head,
        message: &Message<'_>,
        at: usize,
    ) -> Option<()> {
        let front = rest(message, at, usize::from(head.count) * Remote::BYTES);
        let remotes = Remote::decode_all(head.count, &mut Reader(&front))?;
        let at = at + front.len();
        let len = message.len() - at;
        let error = match self.ends.objects.resolve(head.dst, &remotes, REMOTE_WRITE) {
            Ok(memory) if memory.len() == len => {
                memory.write_message(0, message, at, len);
                self.ends.accessed(head, &remotes, Side::RemoteWrite, len);
                0
            }
            Ok(_) => errno::EINVAL,
            Err(e) => e,
        };
        self.peers.answer(peer, head, error);
        Some(())
    }

    pub(in crate::provider) fn on_write_rts(
        &mut self,
        peer: Peer,
        head: &Head,
        message: &Message<'_>,
        at: usize,
    ) -> Option<()> {
        let body = rest(message, at, PIECES * Remote::BYTES + Rts::BYTES);
        let mut reader = Reader(&body);
        let remotes = Remote::decode_all(head.count, &mut reader)?;
        let rts = Rts::decode(&mut reader)?;
        let len = rts.len as usize;
        match self.ends.objects.resolve(head.dst, &remotes, REMOTE_WRITE) {
            Ok(memory) if memory.len() == len => {
                let end = InboundEnd::Written(Written { peer, head: *head, remotes, len });
                self.fetching().begin(peer, head.src, head.dst, &rts, memory, len, end);
            }
            other => {
                let error = other.err().unwrap_or(errno::EINVAL);
                self.peers.refuse(peer, head.src, rts.id, error);
                self.peers.answer(peer, head, error);
            }
        }
        Some(())
    }

    pub(in crate::provider) fn read_came(
        &mut self,
        peer: Peer,
        head: &Head,
        message: &Message<'_>,
        at: usize,
    ) -> Option<()> {
        let body = rest(message, at, PIECES * Remote::BYTES);
        let remotes = Remote::decode_all(head.count, &mut Reader(&body))?;
        let memory = match self.ends.objects.resolve(head.dst, &remotes, REMOTE_READ) {
            Ok(memory) => memory,
            Err(e) => {
                self.peers.answer(peer, head, e);
                return Some(());
            }
        };
        let len = memory.len();
        if HEAD_MAX + len <= self.ends.here.eager_max {
            let mut bytes = vec![0; len];
            memory.read(0, &mut bytes);
            self.peers.post(peer, &Head::new(MessageKind::Reply, head.src, head.dst, head.aux), &bytes);
        } else if self.offers.all.is_full() {
            self.peers.answer(peer, head, errno::ENOMEM);
            return Some(());
        } else {
            let purpose = Purpose::Answer(remotes.as_slice().into());
            let rts = self.offers.all.insert(Outbound::new(peer, (head.dst, head.src), memory, purpose));
            let body = self.offers.describe(self.ends.here, rts);
            self.peers.post(peer, &Head::new(MessageKind::ReplyRts, head.src, head.dst, head.aux), &body);
        }
        self.ends.accessed(&Head { data: None, ..*head }, &remotes, Side::RemoteRead, len);
        Some(())
    }

    /// Returns what a peer answers. Nothing, if the endpoint that asked for it has been closed since.
    fn requested(&self, peer: Peer, head: &Head) -> Option<&Request> {
        self.ends.requests.get(head.aux).filter(|request| request.peer == peer)
    }

    pub(in crate::provider) fn reply_came(
        &mut self,
        peer: Peer,
        head: &Head,
        message: &Message<'_>,
        at: usize,
    ) -> Option<()> {
        let Some(request) = self.requested(peer, head) else { return Some(()) };
        let len = message.len() - at;
        if len == request.result.len() {
            request.result.write_message(0, message, at, len);
            self.ends.request_ends(head.aux, Fault::NONE);
        } else {
            self.ends.request_ends(head.aux, Fault::io(errno::EMSGSIZE));
        }
        Some(())
    }

    pub(in crate::provider) fn on_reply_rts(
        &mut self,
        peer: Peer,
        head: &Head,
        message: &Message<'_>,
        at: usize,
    ) -> Option<()> {
        let rts = Rts::decode(&mut Reader(&rest(message, at, Rts::BYTES)))?;
        let Some(request) = self.requested(peer, head) else {
            self.peers.refuse(peer, head.src, rts.id, errno::ECANCELED);
            return Some(());
        };
        let len = request.result.len();
        if rts.len as usize != len {
            self.peers.refuse(peer, head.src, rts.id, errno::EMSGSIZE);
            self.ends.request_ends(head.aux, Fault::io(errno::EMSGSIZE));
            return Some(());
        }
        let memory = request.result.part(0, len);
        let end = InboundEnd::Answered { request: head.aux };
        self.fetching().begin(peer, head.src, head.dst, &rts, memory, len, end);
        Some(())
    }

    pub(in crate::provider) fn request_done(
        &mut self,
        peer: Peer,
        head: &Head,
        message: &Message<'_>,
        at: usize,
    ) -> Option<()> {
        let Some(_) = self.requested(peer, head) else { return Some(()) };
        let fault = fault_of(message, at)?;
        self.ends.request_ends(head.aux, fault);
        Some(())
    }

    pub(in crate::provider) fn atomic_came(
        &mut self,
        peer: Peer,
        head: &Head,
        message: &Message<'_>,
        at: usize,
    ) -> Option<()> {
        let body = rest(message, at, self.ends.here.eager_max);
        let mut reader = Reader(&body);
        let (datatype, op) = (i32::from(reader.u8()?), i32::from(reader.u8()?));
        let (fetch, count) = (reader.u8()? != 0, reader.u8()?);
        let remotes = Remote::decode_all(count, &mut reader)?;
        let shape = atomics::shape(op)?;
        let writes = if shape == atomics::Shape::Read { 0 } else { REMOTE_WRITE };
        let access = writes | if fetch { REMOTE_READ } else { 0 };
        let memory = match self.ends.objects.resolve(head.dst, &remotes, access) {
            Ok(memory) => memory,
            Err(e) => {
                self.peers.answer(peer, head, e);
                return Some(());
            }
        };
        let len = memory.len();
        if len > crate::ATOMIC_MAX || !len.is_multiple_of(atomics::size(datatype)?) {
            return None;
        }
        let compare = if shape == atomics::Shape::Compare { reader.take(len)? } else { &[] };
        let operand = if shape == atomics::Shape::Read { &[] } else { reader.take(len)? };
        let old = atomics::update(&memory, (datatype, op), operand, compare).or_else(|| {
            let mut value = vec![0; len];
            memory.read(0, &mut value);
            let old = value.clone();
            atomics::apply(datatype, op, &mut value, operand, compare).then(|| memory.write(0, &value))?;
            Some(old)
        });
        let Some(old) = old else {
            self.peers.answer(peer, head, errno::EOPNOTSUPP);
            return Some(());
        };
        let side = if fetch && shape == atomics::Shape::Read { Side::RemoteRead } else { Side::RemoteWrite };
        self.ends.accessed(head, &remotes, side, len);
        if fetch {
            self.peers.post(peer, &Head::new(MessageKind::Reply, head.src, head.dst, head.aux), &old);
        } else {
            self.peers.answer(peer, head, 0);
        }
        Some(())
    }
}
