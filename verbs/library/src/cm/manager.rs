//! The identifiers of a process and their events.

use super::bytes::Record;
use super::id::{Fabric, Id, State, event, reason};
use super::layout::{PARAM, Way};
use super::wire::{Body, Message};
use angara_hca::{Errno, Peer, Result};
use std::collections::{BTreeMap, VecDeque};

/// librdmacm finds identifiers by these numbers in a table of as many places.
const IDS_MAX: u32 = 0xffff;

/// An event that a program has not got yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Waiting {
    /// Whose it is.
    of: u32,
    /// The identifier that it tells of: for a request a new one.
    pub(crate) about: u32,
    pub(crate) kind: u32,
    status: i32,
    param: Record,
}

/// Events of an event channel.
#[derive(Default, Debug)]
pub(crate) struct Channel {
    pub(crate) waiting: VecDeque<Waiting>,
    /// How many the descriptor says.
    pub(crate) counted: usize,
}

/// The connection manager of a process.
#[derive(Default, Debug)]
pub(crate) struct Manager {
    pub(crate) ids: BTreeMap<u32, Id>,
    pub(crate) channels: BTreeMap<u64, Channel>,
    last_id: u32,
    last_number: u32,
    last_channel: u64,
}

impl Manager {
    pub(crate) fn open(&mut self) -> u64 {
        self.last_channel += 1;
        self.channels.insert(self.last_channel, Channel::default());
        self.last_channel
    }
    /// Ends a channel and all that it has.
    pub(crate) fn close(&mut self, fabric: &dyn Fabric, channel: u64) {
        while let Some(id) = self.ids.iter().find(|(_, id)| id.channel == channel).map(|(id, _)| *id) {
            self.destroy(fabric, id);
        }
        self.channels.remove(&channel);
    }

    /// A new identifier. `ENOMEM`: there are too many.
    pub(crate) fn create(&mut self, channel: u64, uid: u64, space: u16, datagrams: bool) -> Result<u32> {
        if self.ids.len() >= IDS_MAX as usize {
            return Err(Errno::NOMEM);
        }
        loop {
            self.last_id = self.last_id % IDS_MAX + 1;
            if !self.ids.contains_key(&self.last_id) {
                break;
            }
        }
        self.last_number = self.last_number.wrapping_add(1).max(1);
        self.ids.insert(self.last_id, Id::new(channel, uid, space, datagrams, self.last_number));
        Ok(self.last_id)
    }

    /// An identifier of a channel. `ENOENT`: there is none.
    pub(crate) fn id(&mut self, channel: u64, id: u32) -> Result<&mut Id> {
        self.ids.get_mut(&id).filter(|id| id.channel == channel).ok_or(Errno::NOENT)
    }

    /// Ends an identifier, and tells its peer. Returns how many events the program has got of it.
    pub(crate) fn destroy(&mut self, fabric: &dyn Fabric, id: u32) -> u32 {
        let Some(mut gone) = self.ids.remove(&id) else { return 0 };
        let farewell = match (gone.state, gone.datagrams) {
            (State::Asked, _) => Some(Body::Reject { reason: reason::TIMEOUT, data: Vec::new() }),
            (State::Requested, true) => {
                Some(Body::Datagrams { status: reason::DATAGRAMS_REJECTED, ends: gone.own, data: Vec::new() })
            }
            (State::Requested | State::Accepted | State::Answered, false) => {
                Some(Body::Reject { reason: reason::CONSUMER, data: Vec::new() })
            }
            (State::Connected, false) => Some(Body::Disconnect),
            _ => None,
        };
        if let Some(body) = farewell {
            say(fabric, &gone, body);
        }
        self.close_port(fabric, &mut gone);
        let mut requests = Vec::new();
        if let Some(channel) = self.channels.get_mut(&gone.channel) {
            channel.waiting.retain(|event| {
                if event.of == id && event.about != id {
                    requests.push(event.about);
                }
                event.of != id
            });
        }
        // Those whom the program does not know yet.
        for request in requests {
            self.destroy(fabric, request);
        }
        gone.reported
    }

    fn close_port(&self, fabric: &dyn Fabric, gone: &mut Id) {
        let listener = gone.listener();
        for adapter in std::mem::take(&mut gone.open_at) {
            let is_shared = |id: &Id| id.listener() == listener && id.open_at.contains(&adapter);
            if !self.ids.values().any(is_shared) {
                fabric.stop_listening(adapter, listener);
            }
        }
    }

    /// Has another channel get the events of an identifier. Returns how many the program has got so far.
    pub(crate) fn migrate(&mut self, from: u64, to: u64, id: u32) -> Result<u32> {
        let moved = self.id(from, id)?;
        moved.channel = to;
        let reported = moved.reported;
        let old = self.channels.get_mut(&from).ok_or(Errno::NOENT)?;
        let (mine, others): (Vec<_>, Vec<_>) = old.waiting.drain(..).partition(|event| event.of == id);
        old.waiting = others.into();
        for request in mine.iter().filter(|event| event.about != id) {
            if let Some(id) = self.ids.get_mut(&request.about) {
                id.channel = to;
            }
        }
        self.channels.get_mut(&to).ok_or(Errno::NOENT)?.waiting.extend(mine);
        Ok(reported)
    }

    /// Has the program be told of an identifier; of one that it does not know yet it is told nothing.
    pub(crate) fn tell(&mut self, id: u32, kind: u32, status: i32, param: Record) {
        if self.ids.get(&id).is_some_and(|id| id.uid != 0) {
            self.tell_of(id, id, kind, status, param);
        }
    }
    /// Tells a listener of a request.
    pub(crate) fn tell_request(&mut self, listener: u32, request: u32, param: Record) {
        self.tell_of(listener, request, event::CONNECT_REQUEST, 0, param);
    }
    fn tell_of(&mut self, of: u32, about: u32, kind: u32, status: i32, param: Record) {
        let channel = self.ids.get(&of).map(|id| id.channel);
        if let Some(channel) = channel.and_then(|channel| self.channels.get_mut(&channel)) {
            channel.waiting.push_back(Waiting { of, about, kind, status, param });
        }
    }

    /// The next event of a channel: `struct rdma_ucm_event_resp`.
    pub(crate) fn take_event(&mut self, channel: u64) -> Option<Record> {
        let event = self.channels.get_mut(&channel)?.waiting.pop_front()?;
        let mut out = Record::new(20 + PARAM + 12);
        if let Some(id) = self.ids.get_mut(&event.of) {
            id.reported += 1;
            if event.about != event.of {
                id.backlog += 1;
            }
            out.u64(0, id.uid);
        }
        out.u32(8, event.about);
        out.u32(12, event.kind);
        out.u32(16, event.status as u32);
        out.bytes(20, &event.param.0);
        Some(out)
    }
}

/// Parameters of an event that has none.
pub(crate) fn no_param() -> Record {
    Record::new(PARAM)
}

/// Sends a message to the peer of an identifier, if it has one.
pub(crate) fn say(fabric: &dyn Fabric, id: &Id, body: Body) {
    if let Some((peer, to)) = id.peer {
        send(fabric, id.adapter(), peer, Message { to, from: id.number, body });
    }
}

pub(crate) fn send(fabric: &dyn Fabric, adapter: usize, to: Peer, message: Message) {
    fabric.send(adapter, to, &message.encode());
}

/// Where paths of an identifier lead from an adapter.
pub(crate) fn way(fabric: &dyn Fabric, id: &Id, adapter: usize) -> Way {
    let from = fabric.adapters().get(adapter).copied().unwrap_or_default();
    let far = || {
        let dst = id.dst?;
        super::id::node_of(&dst).or_else(|| {
            let listener = angara_verbs_process::Listener { space: id.space, port: dst.port() };
            fabric.find(adapter, listener, None).map(|peer| fabric.node_of(adapter, peer))
        })
    };
    let to = id.peer.map(|(peer, _)| fabric.node_of(adapter, peer)).or_else(far).unwrap_or(from);
    Way { link: fabric.link(adapter), from, to }
}
