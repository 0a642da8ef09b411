//! Trunks: what the links of this host's nodes to other hosts run over.
//!
//! Per other host there is one association that carries every torus link between the two and the
//! daemons' own messages. Channel 0 is for the messages, channel 1 + i for the i-th link of the two
//! hosts in order of node and direction: packets one way, credits the other way, in the order in which
//! `fabric` made them.
//!
//! **Slots.** A buffer of eight packets per virtual channel, as the chip has, would limit a link to eight
//! packets per round trip. The receiver of a boundary link therefore has `slots` of them, of which the
//! sender's router is shown at most its own eight: while more are free, a slot is given back to the router
//! as soon as its packet is on the trunk. The router sees the same answers to "is one free, are two free" as if
//! it counted all of them, so the bubble rule holds.

mod frames;

use crate::config::{Clock, TrunkHost, TrunksConfig};
use crate::log_limit::LogLimit;
use angara_fabric::{Fabric, Frame, Link};
use angara_net::HostId;
use angara_net::fault::{TrunkChange, TrunkState};
use angara_trunk::{Association, Event, KeyRing, SendError};
use bytes::Bytes;
use frames::{Reader, Writer};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Bytes waiting for a peer above which nothing more is taken from the network.
const BACKLOG_MAX: usize = 1 << 20;
/// Records of a link kept until the route change they come after has been made. No honest host sends as many: each
/// packet in them takes a slot, and each credit gives one back.
const EARLY_MAX: usize = 4096;
/// Channel of the daemons' own messages.
pub(super) const CONTROL: u16 = 0;
/// Packet slots per virtual channel the sender's router counts itself.
const ROUTER_SLOTS: u16 = 8;
/// Packet slots of a boundary link per virtual channel: 64 KiB of payload under way, with trains up to 32 KiB per slot
/// (then [`BACKLOG_MAX`] is what limits).
const SLOTS_DEFAULT: u16 = 256;
/// Least an association wants to receive ahead of what was handed out.
const RECEIVE_WINDOW_MIN: usize = 256 << 10;
/// How long credits and word of ejected packets wait for a packet that goes the same way: a datagram costs more than
/// everything else in a round, and whoever has just been answered posts again soon.
const HELD_MAX: Duration = Duration::from_micros(20);
/// Datagrams sent to one peer per round.
const BATCHES_PER_ROUND: usize = 16;
/// Virtual channels.
const VCS: usize = angara_abi::packet::Vc::ALL.len();

#[derive(Debug)]
pub enum TrunkEvent {
    /// A message from the daemon of a host.
    Message(HostId, Bytes),
    /// A session with a host has begun: its number. It may have ended another one.
    Up(HostId, u32),
    /// The session with a host is over: why, and for how long nothing was heard.
    Down(HostId, String, Duration),
}

/// One torus link between this host and another.
struct Crossing {
    link: Link,
    /// This host has the sending end.
    sends: bool,
    /// Packets in slots of the far end, by virtual channel.
    taken: [u16; VCS],
    /// ... of which the sender's router has not been given the slot back.
    shown: [u16; VCS],
    /// Records sent after a route change that has not been made here yet.
    early: VecDeque<Bytes>,
    /// Frames for the other end that are not on the trunk yet.
    record: Writer,
}

/// Another host.
struct Peer {
    association: Association,
    address: SocketAddr,
    crossings: Vec<Crossing>,
    /// Number of the session, while there is one.
    session: Option<u32>,
    /// All hosts have agreed that this session carries links; until then nothing of them goes out or comes in.
    live: bool,
    /// Since when credits and such have been held back.
    held: Option<Duration>,
    /// Messages the association had no room for.
    messages: VecDeque<Vec<u8>>,
    impaired: TrunkState,
    nonsense: Nonsense,
    name: String,
}

/// Records or frames of a host that were not understood.
#[derive(Default)]
struct Nonsense {
    count: u64,
    complaints: LogLimit,
}

impl Nonsense {
    fn add(&mut self, (host, now): (&str, Instant), channel: u16, why: impl Display) {
        self.count += 1;
        if let Some(left_out) = self.complaints.allow(now) {
            tracing::warn!(host, channel, %why, left_out, "what came over a boundary link was refused");
        }
    }
}

/// Figures of one trunk.
#[derive(Clone, Debug)]
pub struct TrunkFigures {
    pub host: HostId,
    /// There is a session.
    pub up: bool,
    /// Where its datagrams go.
    pub address: SocketAddr,
    /// Torus links that it carries.
    pub links: usize,
    /// Bytes waiting for the peer.
    pub backlog: usize,
    /// Records or frames of it that were not understood.
    pub nonsense: u64,
    /// Statistics of its association.
    pub stats: angara_trunk::Stats,
}

/// All trunks of this host.
pub(super) struct Trunks {
    socket: Box<dyn angara_trunk::socket::Socket>,
    peers: BTreeMap<HostId, Peer>,
    me: HostId,
    clock: Clock,
    origin: Instant,
    slots: u16,
    batch: Vec<u8>,
    /// The time when the clock was read last.
    now: Duration,
    /// Datagrams that do not even claim to be from another host of this cluster to this one.
    strangers: u64,
    /// Events that are about to be reported.
    words: Vec<TrunkEvent>,
}

impl Trunks {
    /// Makes an association for every other host.
    pub(super) fn new(config: TrunksConfig, fabric: &Fabric, clock: Clock) -> io::Result<Trunks> {
        let TrunksConfig { me, hosts, owners, mut socket, keys, mut random, .. } = config;
        // All peers together may have as much under way as the socket holds, or bursts would be lost in it.
        let share = socket.receive_buffer() / (hosts.len() - 1).max(1);
        let origin = clock();
        let mut peers = BTreeMap::new();
        for (number, TrunkHost { name, address }) in (0..).zip(hosts).filter(|(number, _)| *number != me.number()) {
            let host = HostId::new(number);
            let crossings = fabric.boundary_links().into_iter().filter_map(|link| {
                let far = fabric.shape().neighbour(link.node, link.dir)?;
                let sends = fabric.owns(link.node);
                let other = owners[if sends { far } else { link.node } as usize];
                let none = [0; VCS];
                let (early, record) = (VecDeque::new(), Writer::default());
                (other == host).then_some(Crossing { link, sends, taken: none, shown: none, early, record })
            });
            let mut ends =
                angara_trunk::Config::new(me.number(), host.number(), config.cluster, keys.clone(), random()?);
            (ends.heartbeat, ends.dead_after) = (config.heartbeat, config.dead_after);
            ends.receive_window = share.clamp(RECEIVE_WINDOW_MIN, ends.receive_window);
            if let Some(mtu) = config.mtu {
                let headers = if address.is_ipv4() { 28 } else { 48 };
                ends.mtu_max =
                    (mtu as usize).saturating_sub(headers).clamp(angara_trunk::MTU_MIN, angara_trunk::MTU_MAX);
            }
            let association = Association::new(ends, Duration::ZERO).map_err(io::Error::other)?;
            let crossings = crossings.collect();
            let impaired = TrunkState::default();
            let (session, live, held, messages) = (None, false, None, VecDeque::new());
            let nonsense = Nonsense::default();
            let peer =
                Peer { association, address, crossings, session, live, held, messages, impaired, nonsense, name };
            peers.insert(host, peer);
        }
        socket.connect(&peers.values().map(|p| p.address).collect::<Vec<_>>())?;
        Ok(Trunks {
            socket,
            peers,
            me,
            clock,
            origin,
            slots: config.slots.unwrap_or(SLOTS_DEFAULT).max(ROUTER_SLOTS),
            batch: Vec::new(),
            strangers: 0,
            words: Vec::new(),
            now: Duration::ZERO,
        })
    }

    /// Time since these trunks were made.
    fn read_clock(&self) -> Duration {
        (self.clock)().saturating_duration_since(self.origin)
    }

    /// Sleeps until a datagram comes, a doorbell rings or `limit` is over.
    pub(super) fn wait(&mut self, doorbells: BorrowedFd<'_>, limit: Duration) {
        // Whatever the outcome, the next round looks at everything.
        if let Err(e) = self.socket.wait(doorbells, limit) {
            tracing::debug!(error = %e, "cannot wait");
        }
    }

    /// How long until an association wants to be looked at.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let now = self.read_clock();
        self.peers.values().filter_map(|p| p.association.poll_timeout()).min().map(|due| due.saturating_sub(now))
    }

    /// Sends a message to the daemon of a host.
    pub(super) fn tell(&mut self, host: HostId, message: &[u8]) {
        if let Some(peer) = self.peers.get_mut(&host) {
            peer.messages.push_back(message.to_vec());
            peer.send_messages();
        }
    }

    /// Changes what befalls the trunk to a host, or those to all but `except`.
    pub(super) fn impair(&mut self, host: Option<HostId>, except: Option<HostId>, change: TrunkChange) {
        for (to, peer) in self.peers.iter_mut() {
            if host.is_some_and(|only| only != *to) || except == Some(*to) {
                continue;
            }
            peer.impaired.change(change);
            if let Some(what) = change.what {
                // Trunks that fare the same shall not do so at the same moment.
                let seed = what.seed.unwrap_or(0) ^ (u64::from(self.me.number()) << 16 | u64::from(to.number())) << 32;
                peer.association.impair(angara_trunk::Impairment { seed: Some(seed), ..what });
            }
        }
    }

    /// The impairments in force.
    pub(super) fn impaired(&self) -> Vec<String> {
        let bad = self.peers.values().filter(|p| !p.impaired.is_none());
        bad.map(|p| format!("trunk {} {}", p.name, p.impaired)).collect()
    }

    /// Other keys from now on; sessions go on.
    pub(super) fn set_keys(&mut self, keys: &KeyRing) {
        self.peers.values_mut().for_each(|p| p.association.set_keys(keys));
    }

    /// The network has recovered: `live` trunks carry links, if their sessions still are those.
    pub(super) fn recovered(&mut self, live: &BTreeMap<HostId, u32>) {
        for (host, peer) in &mut self.peers {
            peer.live = peer.session.is_some() && live.get(host).copied() == peer.session;
            for c in &mut peer.crossings {
                (c.taken, c.shown) = ([0; VCS], [0; VCS]);
            }
        }
    }

    /// Figures of every trunk.
    pub(super) fn figures(&self) -> Vec<TrunkFigures> {
        let figures = |(&host, p): (&HostId, &Peer)| TrunkFigures {
            host,
            up: p.association.is_up(),
            address: p.address,
            backlog: p.association.backlog(),
            links: p.crossings.len(),
            nonsense: p.nonsense.count,
            stats: p.association.stats(),
        };
        self.peers.iter().map(figures).collect()
    }

    /// The socket engine in use.
    pub(super) fn engine(&self) -> String {
        format!("{:?}", self.socket.kind()).to_lowercase()
    }

    /// Datagrams of strangers.
    pub(super) fn strangers(&self) -> u64 {
        self.strangers
    }

    /// One round: what has come goes into the network, what leaves it goes out. Whether anything but
    /// the trunks' own housekeeping was done.
    pub(super) fn poll(&mut self, fabric: &mut Fabric) -> bool {
        let now = self.read_clock();
        self.now = now;
        let wall = self.origin + now;
        self.receive(now);
        let mut work = false;
        for (&host, peer) in &mut self.peers {
            if peer.association.poll_timeout().is_some_and(|due| due <= now) {
                peer.association.handle_timeout(now);
            }
            while let Some(event) = peer.association.poll_event() {
                work = true;
                match event {
                    Event::Up { session } => {
                        peer.begin(Some(session));
                        self.words.push(TrunkEvent::Up(host, session));
                    }
                    Event::Restarted { session } => {
                        peer.begin(Some(session));
                        self.words.push(TrunkEvent::Up(host, session));
                    }
                    Event::Down { why, since } => {
                        peer.begin(None);
                        self.words.push(TrunkEvent::Down(host, why.to_string(), now.saturating_sub(since)));
                    }
                }
            }
            while let Some((channel, record)) = peer.association.poll_record() {
                work = true;
                match channel {
                    CONTROL => self.words.push(TrunkEvent::Message(host, record)),
                    n => match peer.crossings.get_mut(n as usize - 1) {
                        Some(crossing) if crossing.early.len() < EARLY_MAX => crossing.early.push_back(record),
                        Some(_) => {
                            peer.nonsense.add((&peer.name, wall), n, "more than can be kept until routes change")
                        }
                        None => peer.nonsense.add((&peer.name, wall), n, "there is no such link"),
                    },
                }
            }
            if peer.live {
                for (channel, crossing) in (1..).zip(&mut peer.crossings) {
                    crossing.take_due(fabric, |why| peer.nonsense.add((&peer.name, wall), channel, why));
                }
            }
        }
        work
    }

    /// Takes what has happened in the rounds since the last call.
    pub(super) fn take_events(&mut self) -> impl Iterator<Item = TrunkEvent> {
        self.words.drain(..)
    }

    /// Hands what leaves the network to the trunks. Whether there was anything; then routers may have slots again.
    pub(super) fn gather(&mut self, fabric: &mut Fabric) -> bool {
        let extra = self.slots - ROUTER_SLOTS;
        let change = fabric.route_change();
        let mut work = false;
        for peer in self.peers.values_mut() {
            peer.send_messages();
            if peer.live && peer.gather(fabric, change, extra) {
                peer.hand_over();
                work = true;
            }
        }
        work
    }

    /// Sends what the trunks have.
    pub(super) fn send(&mut self) {
        // Reading the clock takes as long as the rest while there is nothing to send.
        let idle = |p: &Peer| p.association.backlog() == 0 && p.held.is_none();
        if !self.peers.values().all(idle) {
            self.now = self.read_clock();
        }
        let now = self.now;
        for peer in self.peers.values_mut() {
            if peer.crossings.iter().any(|c| !c.record.is_empty()) {
                let since = *peer.held.get_or_insert(now);
                if now.saturating_sub(since) > HELD_MAX {
                    peer.hand_over();
                }
            }
            for _ in 0..BATCHES_PER_ROUND {
                self.batch.clear();
                let Some(segment) = peer.association.poll_transmit(now, &mut self.batch) else { break };
                if peer.impaired.cut {
                    continue;
                }
                if let Err(e) = self.socket.send(peer.address, &self.batch, segment) {
                    // As good as lost on the way; the association sends it again.
                    tracing::debug!(to = %peer.address, error = %e, "cannot send");
                    break;
                }
            }
        }
    }

    fn receive(&mut self, now: Duration) {
        let (peers, me, strangers) = (&mut self.peers, self.me.number(), &mut self.strangers);
        let mut take = |datagram: &mut [u8]| {
            let claimed = angara_trunk::hosts(datagram).filter(|(_, to)| *to == me);
            match claimed.and_then(|(from, _)| peers.get_mut(&HostId::new(from))) {
                Some(peer) if peer.impaired.cut => {}
                // What it refuses, it counts by cause.
                Some(peer) => drop(peer.association.handle_datagram(now, datagram)),
                None => *strangers += 1,
            }
        };
        if let Err(e) = self.socket.recv(&mut take) {
            tracing::debug!(error = %e, "cannot receive");
        }
    }

    /// Acknowledges everything now: the thread is about to sleep.
    pub(super) fn flush_acks(&mut self, fabric: &mut Fabric) {
        self.gather(fabric);
        for peer in self.peers.values_mut() {
            peer.hand_over();
            peer.association.flush_acks();
        }
        self.send();
    }

    /// Says goodbye to everybody.
    pub(super) fn close(&mut self, fabric: &mut Fabric) {
        self.peers.values_mut().for_each(|p| p.association.close());
        self.gather(fabric);
        self.send();
    }
}

impl Peer {
    /// A session has begun or ended: nothing of an earlier one comes any more, and what its links carried is lost until all
    /// hosts have the network recover.
    fn begin(&mut self, session: Option<u32>) {
        (self.session, self.live) = (session, false);
        self.messages.clear();
        for c in &mut self.crossings {
            c.early.clear();
            c.record.clear();
        }
    }

    /// Takes what leaves the network for this peer. Returns whether that includes a packet.
    fn gather(&mut self, fabric: &mut Fabric, change: u64, extra: u16) -> bool {
        let mut packets = false;
        for (index, crossing) in self.crossings.iter_mut().enumerate() {
            if crossing.record.route_change() != change {
                crossing.record.clear(); // of routes that are no longer: the other end would drop it
            }
            while self.association.backlog() <= BACKLOG_MAX
                && let Some((_, frame)) = fabric.poll_transmit(crossing.link)
            {
                if !crossing.record.is_empty() && !crossing.record.takes(&frame) {
                    hand_over(&mut self.association, index, &mut crossing.record);
                }
                if crossing.record.is_empty() {
                    crossing.record.begin(change);
                }
                if let Frame::Packet { vc, .. } = frame {
                    crossing.sent(fabric, vc, extra);
                    packets = true;
                }
                crossing.record.push(&frame);
            }
        }
        packets
    }

    /// Gives everything gathered to the trunk.
    fn hand_over(&mut self) {
        self.held = None;
        for (index, crossing) in self.crossings.iter_mut().enumerate().filter(|(_, c)| !c.record.is_empty()) {
            hand_over(&mut self.association, index, &mut crossing.record);
        }
    }

    fn send_messages(&mut self) {
        while let Some(message) = self.messages.front() {
            match self.association.send(CONTROL, message) {
                Err(SendError::Full) => return,
                // Down: whoever asked is told of it; nothing else is expected to arrive.
                _ => drop(self.messages.pop_front()),
            }
        }
    }
}

/// Gives a record of a boundary link to its trunk.
fn hand_over(to: &mut Association, crossing: usize, record: &mut Writer) {
    if let Err(e) = to.send_with(crossing as u16 + 1, record.bytes(), record.train()) {
        // Cannot be: there is a session, and its backlog was looked at.
        tracing::error!(error = %e, "a trunk refused a record");
    }
    record.clear();
}

impl Crossing {
    /// A packet has left over this link: while the far end has more slots than the router counts, the
    /// router gets its slot back at once.
    fn sent(&mut self, fabric: &mut Fabric, vc: angara_abi::packet::Vc, extra: u16) {
        let i = vc as usize;
        self.taken[i] += 1;
        if self.taken[i] - self.shown[i] <= extra {
            // Refused only if the network was reset meanwhile; then all slots are free anyway.
            let _ = fabric.handle_frame(self.link, 0, Frame::Credit { vc });
        } else {
            self.shown[i] += 1;
        }
    }

    /// Takes the records whose route change has been made here: routes and barriers of the two ends
    /// must be of one mind. What is wrong with records or frames goes to `refuse`.
    fn take_due(&mut self, fabric: &mut Fabric, mut refuse: impl FnMut(&dyn Display)) {
        while let Some(record) = self.early.front() {
            match frames::route_change(record) {
                Some(change) if change > fabric.route_change() => break,
                // What was under way when the network recovered has been sent again.
                Some(change) if change < fabric.route_change() => drop(self.early.pop_front()),
                Some(_) => {
                    if let Some(record) = self.early.pop_front() {
                        self.take(fabric, record, &mut refuse);
                    }
                }
                None => {
                    refuse(&"a record without a number of route changes");
                    self.early.pop_front();
                }
            }
        }
    }

    /// Takes a record from the other end.
    fn take(&mut self, fabric: &mut Fabric, record: Bytes, refuse: &mut impl FnMut(&dyn Display)) {
        let mut reader = Reader::new(record);
        loop {
            let (frame, count) = match reader.next() {
                Ok(Some(next)) => next,
                Ok(None) => return,
                Err(e) => return refuse(&e),
            };
            if let Frame::Credit { vc } = frame {
                if !self.sends {
                    refuse(&"a credit for a link that sends nothing from here");
                    continue;
                }
                let i = vc as usize;
                self.taken[i] = self.taken[i].saturating_sub(count);
                for _ in 0..count.min(self.shown[i]) {
                    self.shown[i] -= 1;
                    let _ = fabric.handle_frame(self.link, 0, Frame::Credit { vc });
                }
            } else if let Err(e) = fabric.handle_frame(self.link, 0, frame) {
                refuse(&e);
            }
        }
    }
}

/// For whoever runs whole clusters in one process.
impl Trunks {
    pub(super) fn step_clock(&mut self, by: i64) {
        let step = Duration::from_millis(by.unsigned_abs());
        self.origin = if by < 0 { self.origin + step } else { self.origin - step };
    }

    pub(super) fn live_session(&self, host: HostId) -> Option<u32> {
        self.peers.get(&host).filter(|peer| peer.live).and_then(|peer| peer.session)
    }
}
