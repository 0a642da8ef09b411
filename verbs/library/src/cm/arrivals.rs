//! What peers say, and what becomes of those who say nothing.

use super::id::{Fabric, GRACE, Id, State, TIME_WAIT, event, is_any, reason};
use super::layout::{self, QKEY, Way};
use super::manager::{Manager, no_param, say, send, way};
use super::wire::{Body, Ends, Message};
use angara_hca::Peer;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes of private data that messages of the specification have room for, besides what Linux puts there. Events always
/// have as many.
pub(crate) mod room {
    pub(crate) const REQUEST: usize = 56;
    pub(crate) const REPLY: usize = 196;
    pub(crate) const REJECT: usize = 148;
    pub(crate) const DATAGRAM_REQUEST: usize = 180;
    pub(crate) const DATAGRAM_REPLY: usize = 136;
}

/// Reads and atomic operations of one end are what the other one answers.
fn mirrored(ends: Ends) -> Ends {
    Ends { answers: ends.begins, begins: ends.answers, ..ends }
}

impl Manager {
    /// Takes a message that has come to an adapter. What is none is passed over.
    pub(crate) fn arrive(&mut self, fabric: &dyn Fabric, adapter: usize, from: Peer, bytes: &[u8]) {
        let Some(message) = Message::decode(bytes) else { return };
        let is_it = |id: &Id| {
            id.peer.is_some_and(|(peer, number)| {
                peer == from && if message.to == 0 { number == message.from } else { id.number == message.to }
            })
        };
        let known = self.ids.iter().find(|(_, id)| id.adapter() == adapter && is_it(id)).map(|(id, _)| *id);
        match (message.body, known) {
            (Body::Request { space, datagrams, src, dst, ends, data }, None) => {
                let refusal =
                    self.request(fabric, adapter, (from, message.from), (space, datagrams), (src, dst), ends, &data);
                if let Err(body) = refusal {
                    send(fabric, adapter, from, Message { to: message.from, from: 0, body });
                }
            }
            (Body::Request { .. }, Some(_)) => {}
            (Body::Reply { ends, data }, Some(id)) => self.reply(fabric, id, message.from, ends, &data),
            (Body::Datagrams { status, ends, data }, Some(id)) => {
                self.datagrams(fabric, id, message.from, status, ends, &data);
            }
            (Body::Ready, Some(id)) => self.ready(fabric, id),
            (Body::Reject { reason, data }, Some(id)) => self.rejected(id, reason, &data),
            (Body::Disconnect, Some(id)) => self.left(fabric, id),
            (Body::Disconnected, Some(id)) => self.agreed(fabric, id),
            // It is over here already.
            (Body::Reply { .. } | Body::Ready, None) => {
                let body = Body::Reject { reason: reason::STALE, data: Vec::new() };
                send(fabric, adapter, from, Message { to: message.from, from: message.to, body });
            }
            (Body::Disconnect, None) => {
                let body = Body::Disconnected;
                send(fabric, adapter, from, Message { to: message.from, from: message.to, body });
            }
            (_, None) => {}
        }
    }

    /// The listener for an address: the one that has it by name, else one for all addresses of a family, else any,
    /// because all names of a host lead here.
    fn listener_for(&self, adapter: usize, space: u16, dst: SocketAddr) -> Option<u32> {
        let rank = |id: &Id| {
            let own = id.src.unwrap_or(dst);
            match own.ip().to_canonical() == dst.ip().to_canonical() {
                true => 0,
                false if is_any(&own) && own.is_ipv4() == dst.is_ipv4() => 1,
                false if is_any(&own) && !id.options.own_family_only => 2,
                false => 3,
            }
        };
        let fits = |id: &Id| {
            let listener = id.listener();
            id.state == State::Listening
                && id.open_at.contains(&adapter)
                && (listener.space, listener.port) == (space, dst.port())
        };
        self.ids.iter().filter(|(_, id)| fits(id)).min_by_key(|(_, id)| rank(id)).map(|(id, _)| *id)
    }

    #[allow(clippy::too_many_arguments)] // a message, field by field
    fn request(
        &mut self,
        fabric: &dyn Fabric,
        adapter: usize,
        (peer, number): (Peer, u32),
        (space, datagrams): (u16, bool),
        (src, dst): (SocketAddr, SocketAddr),
        ends: Ends,
        data: &[u8],
    ) -> Result<(), Body> {
        let refuse = |why: u8, status: u8| match datagrams {
            true => Body::Datagrams { status, ends: Ends::default(), data: Vec::new() },
            false => Body::Reject { reason: why, data: Vec::new() },
        };
        let nobody = || refuse(reason::NO_SUCH_SERVICE, reason::DATAGRAMS_UNSUPPORTED);
        let busy = || refuse(reason::CONSUMER, reason::DATAGRAMS_REJECTED);
        let id = self.listener_for(adapter, space, dst).ok_or_else(nobody)?;
        let listener = self.ids.get_mut(&id).filter(|id| id.datagrams == datagrams).ok_or_else(nobody)?;
        let (channel, options) = (listener.channel, listener.options);
        listener.backlog = listener.backlog.checked_sub(1).ok_or_else(busy)?;
        let request = self.create(channel, 0, space, datagrams).map_err(|_| busy())?;
        let Some(new) = self.ids.get_mut(&request) else { return Err(busy()) };
        (new.src, new.dst, new.options, new.adapter) = (Some(dst), Some(src), options, Some(adapter));
        (new.state, new.peer) = (State::Requested, Some((peer, number)));
        new.theirs = mirrored(ends);
        new.own = Ends { pair: 0, ..new.theirs };
        let param = match datagrams {
            true => {
                let way = way(fabric, new, adapter);
                layout::datagram_event(&Ends::default(), way, data, room::DATAGRAM_REQUEST)
            }
            false => layout::conn_event(&new.theirs, data, room::REQUEST),
        };
        self.tell_request(id, request, param);
        Ok(())
    }

    fn reply(&mut self, fabric: &dyn Fabric, id: u32, number: u32, ends: Ends, data: &[u8]) {
        let Some(asked) = self.ids.get_mut(&id).filter(|id| !id.datagrams) else { return };
        if asked.state != State::Asked {
            return is_over(fabric, asked, number);
        }
        asked.until = None;
        asked.peer = asked.peer.map(|(peer, _)| (peer, number));
        if asked.left_early {
            asked.state = State::Over;
            return self.tell(id, event::REJECTED, reason::CONSUMER.into(), no_param());
        }
        asked.state = State::Answered;
        asked.theirs = mirrored(ends);
        let Ends { answers, begins, rnr_retries, .. } = asked.theirs;
        asked.own = Ends { answers, begins, rnr_retries: rnr_retries & 7, ..asked.own };
        let shown = Ends { retries: 0, ..asked.theirs };
        self.tell(id, event::CONNECT_RESPONSE, 0, layout::conn_event(&shown, data, room::REPLY));
    }

    fn datagrams(&mut self, fabric: &dyn Fabric, id: u32, number: u32, status: u8, ends: Ends, data: &[u8]) {
        let Some(asked) = self.ids.get_mut(&id).filter(|id| id.state == State::Asked && id.datagrams) else { return };
        asked.until = None;
        if status != 0 {
            asked.state = State::Over;
            return self.tell(id, event::UNREACHABLE, status.into(), no_param());
        }
        asked.state = State::Connected;
        asked.peer = asked.peer.map(|(peer, _)| (peer, number));
        let ends = Ends { qkey: if ends.qkey == 0 { QKEY } else { ends.qkey }, ..ends };
        let way: Way = way(fabric, asked, asked.adapter());
        self.tell(id, event::ESTABLISHED, 0, layout::datagram_event(&ends, way, data, room::DATAGRAM_REPLY));
    }

    fn ready(&mut self, fabric: &dyn Fabric, id: u32) {
        let Some(accepted) = self.ids.get_mut(&id) else { return };
        if accepted.state != State::Accepted {
            let number = accepted.peer.map_or(0, |(_, number)| number);
            return is_over(fabric, accepted, number);
        }
        (accepted.state, accepted.until) = (State::Connected, None);
        self.tell(id, event::ESTABLISHED, 0, no_param());
    }

    fn rejected(&mut self, id: u32, why: u8, data: &[u8]) {
        let waits = |id: &&mut Id| {
            matches!(id.state, State::Asked | State::Requested | State::Accepted | State::Answered | State::Connected)
        };
        let Some(refused) = self.ids.get_mut(&id).filter(waits) else { return };
        if refused.state == State::Connected {
            (refused.state, refused.until) = (State::Left, None);
            return self.tell(id, event::DISCONNECTED, 0, no_param());
        }
        (refused.state, refused.until) = (State::Over, None);
        let param = layout::conn_event(&Ends::default(), data, room::REJECT);
        self.tell(id, event::REJECTED, why.into(), param);
    }

    /// The peer has left.
    fn left(&mut self, fabric: &dyn Fabric, id: u32) {
        let Some(own) = self.ids.get_mut(&id) else { return };
        say(fabric, own, Body::Disconnected);
        match own.state {
            // What it said before may come after this: another thread has that in its hands.
            State::Asked => own.left_early = true,
            State::Accepted => {
                (own.state, own.until) = (State::Left, None);
                self.tell(id, event::ESTABLISHED, 0, no_param());
                self.tell(id, event::DISCONNECTED, 0, no_param());
            }
            State::Answered | State::Connected => {
                (own.state, own.until) = (State::Left, None);
                self.tell(id, event::DISCONNECTED, 0, no_param());
            }
            State::Leaving => self.agreed(fabric, id),
            _ => {}
        }
    }

    /// The peer knows that this end has left.
    fn agreed(&mut self, fabric: &dyn Fabric, id: u32) {
        let Some(own) = self.ids.get_mut(&id).filter(|id| id.state == State::Leaving) else { return };
        (own.state, own.until) = (State::Over, Some(fabric.now() + TIME_WAIT));
        self.tell(id, event::DISCONNECTED, 0, no_param());
    }

    /// True if time changes anything.
    pub(crate) fn waits(&self) -> bool {
        self.ids.values().any(|id| id.until.is_some() || needs_peer(id))
    }

    /// Looks at time limits and lost peers.
    pub(crate) fn tick(&mut self, fabric: &dyn Fabric) {
        let now = fabric.now();
        let late = |id: &Id| id.until.is_some_and(|until| until <= now);
        let all: Vec<_> = self.ids.iter().filter(|(_, id)| late(id)).map(|(id, _)| *id).collect();
        for id in all {
            self.is_late(id);
        }
        let mut there = BTreeMap::new();
        let mut lost = Vec::new();
        for (number, id) in self.ids.iter_mut().filter(|(_, id)| needs_peer(id)) {
            let Some((peer, _)) = id.peer else { continue };
            let adapter = id.adapter();
            if *there.entry((adapter, peer)).or_insert_with(|| fabric.is_there(adapter, peer)) {
                id.lost = None;
            } else if now >= *id.lost.get_or_insert(now) + GRACE {
                lost.push(*number);
            }
        }
        for id in lost {
            self.is_lost(id, now);
        }
    }

    fn is_late(&mut self, number: u32) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        id.until = None;
        let before = std::mem::replace(&mut id.state, State::Over);
        match before {
            State::Asked | State::Accepted => self.tell(number, event::UNREACHABLE, -libc::ETIMEDOUT, no_param()),
            State::Leaving => self.tell(number, event::DISCONNECTED, -libc::ETIMEDOUT, no_param()),
            State::Over => self.tell(number, event::TIMEWAIT_EXIT, 0, no_param()),
            other => id.state = other,
        }
    }

    fn is_lost(&mut self, number: u32, now: Duration) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        let before = std::mem::replace(&mut id.state, State::Over);
        id.until = None;
        match before {
            State::Asked | State::Accepted => self.tell(number, event::UNREACHABLE, -libc::ETIMEDOUT, no_param()),
            State::Leaving => {
                id.until = Some(now + TIME_WAIT);
                self.tell(number, event::DISCONNECTED, 0, no_param());
            }
            State::Answered | State::Connected => {
                id.state = State::Left;
                self.tell(number, event::DISCONNECTED, 0, no_param());
            }
            _ => {}
        }
    }
}

/// Tells a peer that comes too late.
fn is_over(fabric: &dyn Fabric, id: &Id, number: u32) {
    if let (State::Over, Some((peer, _))) = (id.state, id.peer) {
        let body = Body::Reject { reason: reason::STALE, data: Vec::new() };
        send(fabric, id.adapter(), peer, Message { to: number, from: id.number, body });
    }
}

/// It waits for its peer, or wants to know when that is gone.
fn needs_peer(id: &Id) -> bool {
    match id.state {
        State::Asked => true,
        State::Requested | State::Accepted | State::Answered | State::Connected | State::Leaving => !id.datagrams,
        _ => false,
    }
}
