//! What programs ask for: addresses, ports, connections.

use super::id::{BACKLOG_MAX, Fabric, Id, PATIENCE, State, TIME_WAIT, event, is_any, node_of, reason};
use super::layout::QKEY;
use super::manager::{Manager, no_param, say};
use super::wire::{Body, Ends};
use angara_hca::address::ipv4;
use angara_hca::{Errno, Result};
use angara_verbs_process::Listener;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Ports that programs get who ask for any.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32768..=60999;

/// The address of a node, in the family of another address.
fn address_of(node: u32, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => ipv4(node).into(),
        IpAddr::V6(_) => ipv4(node).to_ipv6_mapped().into(),
    }
}

/// Two identifiers that want the same port cannot both have it.
fn excludes(one: &Id, other: &Id) -> bool {
    let (Some(a), Some(b)) = (one.src, other.src) else { return false };
    let apart = one.options.own_family_only && other.options.own_family_only && a.is_ipv4() != b.is_ipv4();
    let share = one.options.reuses_address
        && other.options.reuses_address
        && !(one.state == State::Listening && other.state == State::Listening);
    one.listener() == other.listener()
        && !apart
        && !share
        && (is_any(&a) || is_any(&b) || a.ip().to_canonical() == b.ip().to_canonical())
}

impl Manager {
    /// Takes the port that the address of an identifier says, or any if it is 0.
    fn take_port(&mut self, fabric: &dyn Fabric, id: u32) -> Result<()> {
        let is_free = |id: u32, manager: &Manager| {
            let wants = &manager.ids[&id];
            !manager.ids.iter().any(|(other, has)| *other != id && has.has_port && excludes(wants, has))
        };
        let wants = self.ids.get_mut(&id).ok_or(Errno::NOENT)?;
        let src = wants.src.as_mut().ok_or(Errno::INVAL)?;
        if src.port() == 0 {
            let first = u32::from(fabric.random());
            let many = u32::from(*EPHEMERAL.end() - *EPHEMERAL.start()) + 1;
            // A host's addresses lead to any adapter, so that nobody else may have the port.
            let space = wants.space;
            let found = (0..many).map(|i| *EPHEMERAL.start() + ((first + i) % many) as u16).find(|port| {
                let is_used =
                    self.ids.values().any(|id| id.has_port && id.listener() == Listener { space, port: *port });
                !is_used && fabric.find(0, Listener { space, port: *port }, None).is_none()
            });
            let wants = self.ids.get_mut(&id).ok_or(Errno::NOENT)?;
            let port = found.ok_or(Errno::ADDRNOTAVAIL)?;
            if let Some(src) = &mut wants.src {
                src.set_port(port);
            }
        } else {
            let listener = wants.listener();
            let all = wants.adapter.map_or_else(|| (0..fabric.adapters().len()).collect(), |adapter| vec![adapter]);
            // Whoever else has an adapter at this node shares its addresses.
            let others_have = |adapter: usize| {
                let found = fabric.find(adapter, listener, Some(fabric.adapters()[adapter]));
                found.is_some_and(|peer| (0..fabric.adapters().len()).all(|own| fabric.me(own) != peer))
            };
            if !is_free(id, self) || all.into_iter().any(others_have) {
                return Err(Errno::ADDRINUSE);
            }
        }
        let has = self.ids.get_mut(&id).ok_or(Errno::NOENT)?;
        has.has_port = true;
        if has.datagrams {
            let (listener, one) = (has.listener(), has.adapter);
            // Without room in the table it is reached by the addresses of nodes alone.
            let _ = self.publish(fabric, id, listener, one);
        }
        Ok(())
    }

    /// Gives an identifier an address of its own.
    pub(crate) fn bind(&mut self, fabric: &dyn Fabric, channel: u64, id: u32, to: SocketAddr) -> Result<()> {
        let bound = self.id(channel, id)?;
        if bound.state != State::Idle {
            return Err(Errno::INVAL);
        }
        bound.adapter = match node_of(&to) {
            Some(node) => {
                let at = fabric.adapters().iter().position(|own| *own == node);
                Some(at.ok_or(Errno::ADDRNOTAVAIL)?)
            }
            // Any of them, until it is known which.
            None => None,
        };
        bound.src = Some(to);
        let taken = self.take_port(fabric, id);
        let bound = self.id(channel, id)?;
        match taken {
            Ok(()) => bound.state = State::Bound,
            Err(_) => (bound.src, bound.adapter) = (None, None),
        }
        taken
    }

    pub(crate) fn listen(&mut self, fabric: &dyn Fabric, channel: u64, id: u32, backlog: u32) -> Result<()> {
        match self.id(channel, id)?.state {
            State::Idle => self.bind(fabric, channel, id, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?,
            State::Bound => {}
            _ => return Err(Errno::INVAL),
        }
        let listens = self.id(channel, id)?;
        listens.state = State::Listening;
        listens.backlog = if backlog == 0 { BACKLOG_MAX } else { backlog.min(BACKLOG_MAX) };
        let (listener, one) = (listens.listener(), listens.adapter);
        let result = self.publish(fabric, id, listener, one);
        if result.is_err() {
            self.id(channel, id)?.state = State::Bound;
        }
        result
    }

    fn publish(&mut self, fabric: &dyn Fabric, id: u32, listener: Listener, one: Option<usize>) -> Result<()> {
        let own = &self.ids[&id];
        let others = || self.ids.iter().filter(|(other, _)| **other != id).map(|(_, other)| other);
        if own.state == State::Listening
            && others().any(|other| other.state == State::Listening && excludes(own, other))
        {
            return Err(Errno::ADDRINUSE);
        }
        let wanted = one.map_or_else(|| (0..fabric.adapters().len()).collect(), |adapter| vec![adapter]);
        let is_public =
            |adapter| self.ids.values().any(|id| id.listener() == listener && id.open_at.contains(&adapter));
        let fresh: Vec<_> = wanted.iter().copied().filter(|adapter| !is_public(*adapter)).collect();
        for (done, adapter) in fresh.iter().enumerate() {
            if let Err(e) = fabric.listen(*adapter, listener) {
                fresh[..done].iter().for_each(|adapter| fabric.stop_listening(*adapter, listener));
                return Err(e);
            }
        }
        self.ids.get_mut(&id).ok_or(Errno::NOENT)?.open_at = wanted;
        Ok(())
    }

    /// Finds out how an address is reached.
    pub(crate) fn resolve(
        &mut self,
        fabric: &dyn Fabric,
        channel: u64,
        id: u32,
        (src, dst): (Option<SocketAddr>, SocketAddr),
    ) -> Result<()> {
        let asked = self.id(channel, id)?;
        match (asked.state, src) {
            (State::Idle, Some(src)) => self.bind(fabric, channel, id, src)?,
            (State::Idle | State::Bound, _) => {}
            _ => return Err(Errno::INVAL),
        }
        let mut dst = dst;
        if is_any(&dst) {
            // This host, as everywhere.
            dst.set_ip(if dst.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        let asked = self.id(channel, id)?;
        let own = asked.src.filter(|src| !is_any(src));
        if own.is_some_and(|own| own.is_ipv4() != dst.is_ipv4()) {
            return Err(Errno::INVAL);
        }
        let adapter = asked.adapter();
        let here = fabric.adapters()[adapter];
        let ip = own.map(|own| own.ip()).unwrap_or_else(|| {
            let by_host = if node_of(&dst).is_some() { None } else { fabric.source_for(dst.ip()) };
            by_host.unwrap_or_else(|| address_of(here, dst.ip()))
        });
        let port = asked.src.map_or(0, |src| src.port());
        (asked.src, asked.dst, asked.adapter) = (Some(SocketAddr::new(ip, port)), Some(dst), Some(adapter));
        if !asked.has_port {
            self.take_port(fabric, id)?;
        }
        let asked = self.id(channel, id)?;
        if node_of(&dst).is_some_and(|node| node >= fabric.nodes()) {
            self.tell(id, event::ADDR_ERROR, -libc::EHOSTUNREACH, no_param());
            return Ok(());
        }
        asked.state = State::Resolved;
        self.tell(id, event::ADDR_RESOLVED, 0, no_param());
        Ok(())
    }

    pub(crate) fn resolve_route(&mut self, channel: u64, id: u32) -> Result<()> {
        let asked = self.id(channel, id)?;
        if asked.state != State::Resolved {
            return Err(Errno::INVAL);
        }
        asked.state = State::Routed;
        self.tell(id, event::ROUTE_RESOLVED, 0, no_param());
        Ok(())
    }

    /// Asks whoever listens at the address that has been resolved.
    pub(crate) fn connect(
        &mut self,
        fabric: &dyn Fabric,
        channel: u64,
        id: u32,
        (ends, data): (Ends, Vec<u8>),
    ) -> Result<()> {
        let asks = self.id(channel, id)?;
        let (State::Routed, Some(src), Some(dst)) = (asks.state, asks.src, asks.dst) else { return Err(Errno::INVAL) };
        asks.own = Ends { retries: ends.retries & 7, rnr_retries: ends.rnr_retries & 7, ..ends };
        let (space, datagrams, ends) = (asks.space, asks.datagrams, asks.own);
        match fabric.find(asks.adapter(), Listener { space, port: dst.port() }, node_of(&dst)) {
            Some(peer) => {
                asks.peer = Some((peer, 0));
                asks.state = State::Asked;
                asks.until = Some(fabric.now() + PATIENCE);
                say(fabric, asks, Body::Request { space, datagrams, src, dst, ends, data });
            }
            None => {
                asks.state = State::Over;
                let (kind, why) = match datagrams {
                    true => (event::UNREACHABLE, reason::DATAGRAMS_UNSUPPORTED),
                    false => (event::REJECTED, reason::NO_SUCH_SERVICE),
                };
                self.tell(id, kind, why.into(), no_param());
            }
        }
        Ok(())
    }

    /// Accepts a request, or says that the asker is ready, too.
    pub(crate) fn accept(
        &mut self,
        fabric: &dyn Fabric,
        channel: u64,
        id: u32,
        uid: u64,
        (ends, data): (Ends, Vec<u8>),
    ) -> Result<()> {
        let accepts = self.id(channel, id)?;
        match (accepts.state, accepts.datagrams) {
            (State::Answered, false) => {
                accepts.state = State::Connected;
                say(fabric, accepts, Body::Ready);
            }
            (State::Requested, datagrams) => {
                accepts.uid = if uid == 0 { accepts.uid } else { uid };
                // What the asker wants holds for both.
                let Ends { retries, rnr_retries, .. } = accepts.own;
                let mut said = ends;
                accepts.own = Ends { retries, rnr_retries, ..ends };
                if datagrams {
                    accepts.state = State::Connected;
                    said.qkey = if ends.qkey == 0 { QKEY } else { ends.qkey };
                    say(fabric, accepts, Body::Datagrams { status: 0, ends: said, data });
                } else {
                    accepts.state = State::Accepted;
                    accepts.until = Some(fabric.now() + PATIENCE);
                    say(fabric, accepts, Body::Reply { ends: said, data });
                }
            }
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }

    pub(crate) fn reject(
        &mut self,
        fabric: &dyn Fabric,
        channel: u64,
        id: u32,
        (why, data): (u8, Vec<u8>),
    ) -> Result<()> {
        let why = match why {
            0 | reason::CONSUMER => reason::CONSUMER,
            reason::VENDOR_OPTION => why,
            _ => return Err(Errno::INVAL),
        };
        let rejects = self.id(channel, id)?;
        match (rejects.state, rejects.datagrams) {
            (State::Requested, true) => {
                let (status, ends) = (reason::DATAGRAMS_REJECTED, Ends::default());
                say(fabric, rejects, Body::Datagrams { status, ends, data });
            }
            (State::Requested | State::Accepted | State::Answered, false) => {
                say(fabric, rejects, Body::Reject { reason: why, data });
            }
            _ => return Err(Errno::INVAL),
        }
        (rejects.state, rejects.until) = (State::Over, None);
        Ok(())
    }

    pub(crate) fn disconnect(&mut self, fabric: &dyn Fabric, channel: u64, id: u32) -> Result<()> {
        let leaves = self.id(channel, id)?;
        match leaves.state {
            _ if leaves.datagrams => {}
            State::Connected | State::Accepted | State::Answered => {
                leaves.state = State::Leaving;
                leaves.until = Some(fabric.now() + PATIENCE);
                say(fabric, leaves, Body::Disconnect);
            }
            State::Left => {
                leaves.state = State::Over;
                leaves.until = Some(fabric.now() + TIME_WAIT);
            }
            State::Leaving | State::Over | State::Asked => {}
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }

    /// The program has heard from its adapter that the peer sends already.
    pub(crate) fn notify(&mut self, channel: u64, id: u32, what: u32) -> Result<()> {
        const COMMUNICATION_ESTABLISHED: u32 = 4;
        let notified = self.id(channel, id)?;
        if what != COMMUNICATION_ESTABLISHED || notified.datagrams {
            return Err(Errno::INVAL);
        }
        match notified.state {
            State::Accepted => {
                (notified.state, notified.until) = (State::Connected, None);
                self.tell(id, event::ESTABLISHED, 0, no_param());
                Ok(())
            }
            State::Connected => Err(Errno::ISCONN),
            _ => Err(Errno::INVAL),
        }
    }

    /// Changes an option.
    pub(crate) fn set_option(&mut self, channel: u64, id: u32, (level, name): (u32, u32), value: &[u8]) -> Result<()> {
        const OF_IDS: u32 = 0;
        const OF_INFINIBAND: u32 = 1;
        let set = self.id(channel, id)?;
        let is_early = matches!(set.state, State::Idle | State::Bound | State::Resolved);
        let number = || <[u8; 4]>::try_from(value).map(i32::from_ne_bytes).map_err(|_| Errno::INVAL);
        let byte = || if let [byte] = *value { Ok(byte) } else { Err(Errno::INVAL) };
        match (level, name) {
            (OF_IDS, 0) => set.options.traffic_class = byte()?,
            (OF_IDS, 1) if set.state == State::Idle || number()? != 0 && set.state != State::Listening => {
                set.options.reuses_address = number()? != 0;
            }
            (OF_IDS, 2) if matches!(set.state, State::Idle | State::Bound) => {
                set.options.own_family_only = number()? != 0
            }
            (OF_IDS, 3) if !set.datagrams => set.options.ack_timeout = Some(byte()?),
            (OF_IDS, 0..=3) => return Err(Errno::INVAL),
            // A path that the program has found by itself: there is only one.
            (OF_INFINIBAND, 1) if is_early => return self.resolve_route(channel, id),
            _ => return Err(Errno::NOSYS),
        }
        Ok(())
    }
}
