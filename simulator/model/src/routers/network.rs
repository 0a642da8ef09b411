//! All routers of a network, or of a part of it, as both switchings have them.

use super::changes::Changes;
use super::mask::Mask;
use super::news::{Change, News};
use super::place::{Port, Range};
use super::router::{Input, Router, Scratch};
use super::timing::Clock;
use super::view::View;
use crate::pool::{Pool, Queue};
use crate::profile::Generic;
use crate::topology::{Class, Route};
use crate::waits::Waiting;
use angara_fabric::raw::{Delivery, LinkLoad, Packed, PacketHandle, Stage, Totals, Tracer};
use std::collections::VecDeque;

/// How packets pass a router, and what is known of them meanwhile. Everything is compiled for each switching by itself.
pub(crate) trait Switched<const W: usize>: 'static {
    /// Flits pass the switch one by one.
    const FLITS: bool;
    /// An input virtual channel.
    type Input: Input<Output: Copy + Send> + Copy + Send;
    /// What a router has beyond those of the other switching.
    type Own: Default + Send;
    /// An endpoint that sends.
    type Source: Source;
    /// What is due.
    type Calendar: Calendar;
    /// Message from part to part. Channels are numbered as in the receiving part.
    type Message: From<Change> + Packed + Send + 'static;
    /// What all routers have together beyond those of the other switching.
    type All: Send;
}

/// An endpoint that sends.
pub(crate) trait Source: Send {
    /// Packets that it has been given.
    fn sequence(&mut self) -> &mut u64;
    /// Packets that it has not begun to send.
    fn queue(&mut self) -> &mut Queue;
    /// Gives it one more. Returns whether it has to be looked at, which it was not for want of packets.
    fn push(&mut self, pool: &mut Pool, packet: PacketHandle) -> bool;
}

/// Everything that is due, by cycle.
pub(crate) trait Calendar: Send {
    /// The cycle being processed, or the next one.
    fn now(&self) -> u64;
    /// From now on it is cycle `now`.
    fn set(&mut self, now: u64);
    fn memory_bytes(&self) -> usize;
}

/// Routers, sources and links of a network, or of a part of it. Routers, channels and endpoints are
/// numbered from 0 within the part. See [`super::router`] for `N`, `P` and `W`.
pub(crate) struct Routers<T, S: Switched<W>, const N: usize, const P: usize, const W: usize> {
    pub(crate) topology: T,
    pub(crate) first_router: u32,
    pub(crate) first_endpoint: u32,
    pub(crate) seed: u64,
    pub(crate) clock: Clock,
    pub(crate) vcs: u32,
    pub(crate) buffer: u16,
    pub(crate) packet_max: u16,
    /// Channels a packet may use, by [`Class::index`].
    pub(crate) allowed: [u32; Class::COUNT],
    pub(crate) pool: Pool,
    pub(crate) routers: Vec<Router<S::Input, S::Own, N, P, W>>,
    pub(crate) sources: Vec<S::Source>,
    pub(crate) source_credits: Vec<u16>,
    pub(crate) calendar: S::Calendar,
    /// Cycles from an event to anything it causes in another part.
    pub(crate) window: u64,
    pub(crate) scratch: Scratch<N, P, W>,
    pub(crate) delivered: VecDeque<Delivery>,
    pub(crate) outgoing: Vec<(u16, u64, S::Message)>,
    pub(crate) counters: Totals,
    pub(crate) tracer: Tracer,
    /// What routers have been told of others' queues.
    pub(crate) news: News,
    /// Per port; empty unless somebody asked.
    pub(crate) link_loads: Vec<LinkLoad>,
    /// Nobody's unless somebody asked.
    pub(crate) waiting: Waiting<W>,
    /// What of the network fails under way.
    pub(crate) changes: Changes<T>,
    /// These are all routers of the network.
    pub(crate) alone: bool,
    pub(crate) all: S::All,
}

impl<T: Route, S: Switched<W>, const N: usize, const P: usize, const W: usize> Routers<T, S, N, P, W> {
    /// log2 of the channels of a router and of a port.
    pub(crate) const ROUTER: u32 = N.trailing_zeros();
    pub(crate) const PORT: u32 = Router::<S::Input, S::Own, N, P, W>::SHIFT;

    /// Idle routers of one range. `source` makes a source of the first channel of its input port, and `rest` what only this
    /// switching has, of the number of routers and of the sources.
    pub(crate) fn idle(
        topology: T,
        (p, seed, range): (&Generic, u64, &Range),
        (input, output): (S::Input, <S::Input as Input>::Output),
        source: impl Fn(u32) -> S::Source,
        rest: impl FnOnce(&T, usize, &[S::Source]) -> (S::Calendar, S::All),
    ) -> Self {
        let here = Range::of(range.cuts, range.part, topology.routers());
        let endpoints = Range::of(range.endpoint_cuts, range.part, topology.endpoints());
        let mut free = Mask::NONE;
        (0..P as u32).for_each(|q| (0..p.vcs as u32).for_each(|v| free.set(q << Self::PORT | v)));
        let router = |ports: [Port; P]| Router {
            allocating: Mask::NONE,
            ready: Mask::NONE,
            free,
            in_busy: 0,
            out_busy: 0,
            own: S::Own::default(),
            ports,
            outputs: [output; N],
            inputs: [input; N],
        };
        let attached = |e| {
            let (router, port) = topology.attach(e);
            source((router - here.start) << Self::ROUTER | (port as u32) << Self::PORT)
        };
        let sources: Vec<S::Source> = endpoints.clone().map(attached).collect();
        let (calendar, all) = rest(&topology, here.len(), &sources);
        Routers {
            first_router: here.start,
            first_endpoint: endpoints.start,
            seed,
            clock: Clock { cycle: p.cycle, ends: p.ends },
            vcs: p.vcs as u32,
            buffer: p.buffer_flits,
            packet_max: p.packet_flits_max,
            allowed: Class::channels(p.vcs as u32, topology.classes()),
            pool: Pool::default(),
            routers: here.map(|r| router(range.ports::<N, P>(&topology, r))).collect(),
            source_credits: vec![p.buffer_flits; sources.len() * p.vcs as usize],
            sources,
            calendar,
            window: range.window,
            scratch: Scratch::default(),
            delivered: VecDeque::new(),
            outgoing: Vec::new(),
            counters: Totals::default(),
            tracer: Tracer::default(),
            link_loads: Vec::new(),
            news: News::new(&topology, range),
            waiting: Waiting::default(),
            changes: Changes::default(),
            alone: range.cuts.len() == 1,
            all,
            topology,
        }
    }

    /// The same, of which something fails from those cycles on.
    pub(crate) fn that_change(self, changes: Vec<(u64, T)>) -> Self {
        Routers { changes: Changes::new(changes), ..self }
    }

    /// Place of a port of one of this part's routers among those of all of them.
    pub(crate) fn place(&self, router: u32, port: u8) -> Option<usize> {
        let (router, port) = (router.wrapping_sub(self.first_router) as usize, usize::from(port));
        (router < self.routers.len() && port < P).then(|| router * P + port)
    }

    /// A traced packet at `channel` (a number of an input or output channel), in this cycle.
    #[inline(always)]
    pub(crate) fn trace(&mut self, packet: PacketHandle, channel: u32, stage: Stage) {
        if self.tracer.on() {
            let (router, port) = (channel >> Self::ROUTER, channel >> Self::PORT & (P as u32 - 1));
            let place = (self.first_router + router, port, channel & ((1 << Self::PORT) - 1));
            self.tracer.note(packet, self.clock.time(self.calendar.now()), place, stage);
        }
    }

    /// Packet `packet`, which came by port `port`, is told by which output and channels of router `r` it goes on.
    #[inline(always)]
    pub(crate) fn decide(&mut self, r: u32, port: u32, packet: PacketHandle) {
        let hot = &mut self.pool.hot[packet.index()];
        let at = self.first_router + r;
        let hop = if T::LOOKS {
            let news = (&self.news, self.calendar.now(), at);
            let view = View::new(&self.routers[r as usize].outputs, Self::PORT, (self.vcs, self.buffer), news);
            self.topology.choose(at, port as u8, &mut hot.route, &view)
        } else {
            self.topology.next(at, &mut hot.route)
        };
        hot.out = u16::from(hop.port) << Self::PORT;
        hot.allowed = self.allowed[hop.class.index() % Class::COUNT];
        hot.routers += 1;
        let flits = u32::from(hot.flits);
        self.tell(r << Self::ROUTER | u32::from(hop.port) << Self::PORT, flits);
    }

    /// N flits more, or fewer, are bound for the port of output channel `o`: for routers that look at it.
    #[inline(always)]
    pub(crate) fn tell(&mut self, o: u32, flits: u32) {
        if T::LOOKS && self.news.on() {
            let port = (o >> Self::PORT) as u8 & (P as u8 - 1);
            let place = (self.first_router + (o >> Self::ROUTER), port, self.calendar.now());
            let outgoing = &mut self.outgoing;
            let post = |part, due, change: Change| outgoing.push((part, due, change.into()));
            self.news.change(&self.topology, place, flits, post);
        }
    }

    /// The tails of these packets have arrived; `put` keeps them.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, packets: &mut Vec<PacketHandle>, mut put: impl FnMut(&mut Self, Delivery)) {
        // One endpoint receives at most one tail per cycle, so this order is total.
        packets.sort_unstable_by_key(|&h| self.pool.cold[h.index()].dst);
        for h in packets.drain(..) {
            let d = self.pool.remove(h, self.clock.time(self.calendar.now()));
            if self.tracer.on() {
                let (router, port) = self.topology.attach(d.dst);
                self.tracer.note(h, d.tail, (router, u32::from(port), 0), Stage::Delivered);
                self.tracer.end(h);
            }
            self.counters.delivered += 1;
            self.counters.delivered_flits += d.flits as u64;
            put(self, d);
        }
    }
}
