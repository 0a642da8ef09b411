//! Wormhole switching as `docs/explain/model.md` has it: cycle by cycle, flit by flit, everything looked at in every
//! cycle.

use super::generic::net::{Far, Packet};
use super::generic::{Change, Net, Parameters, REMEMBERED};
use super::{Received, Sent};
use std::collections::{BTreeMap, VecDeque};

/// A flit; the head has the packet's route with it.
struct Flit {
    packet: usize,
    head: Option<Packet>,
    tail: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Idle,
    /// Asks for one of the channels (port, lowest, highest).
    Asks(usize, usize, usize),
    /// Owns (port, channel).
    Owns(usize, usize),
}

struct Input {
    flits: VecDeque<Flit>,
    state: State,
    pointer: usize,
    /// The tail of a packet that was lost has not come.
    vanishing: bool,
}

struct Output {
    credits: u64,
    owned: bool,
    pointer: usize,
}

#[derive(Default, Clone)]
struct Port {
    channel_pointer: usize,
    output_pointer: usize,
    input_pointer: usize,
    /// As an input: the channel whose packet holds the switch.
    holds: Option<usize>,
    /// As an output: some packet holds it.
    held: bool,
    /// As an output: cycle from which its link has time for a flit, and what the last one left of a cycle, in parts per
    /// million of a flit per cycle.
    free_from: u64,
    rest: u64,
}

#[derive(Default)]
struct Source {
    packets: VecDeque<usize>,
    /// Flits sent of the first packet.
    sent: u64,
    vc: usize,
    credits: Vec<u64>,
}

enum Happens {
    Arrives { router: usize, port: usize, vc: usize, flit: Flit },
    Credit { router: usize, port: usize, vc: usize },
    SourceCredit { source: usize, vc: usize },
}

struct Router {
    inputs: Vec<Vec<Input>>,
    outputs: Vec<Vec<Output>>,
    ports: Vec<Port>,
}

/// The first of `asking` at or after `pointer`, else the first.
fn turn(asking: &[usize], pointer: usize) -> Option<usize> {
    asking.iter().copied().filter(|&a| a >= pointer).min().or(asking.iter().copied().min())
}

/// When every packet is received, if packets hold the switch or not.
pub fn run(p: &Parameters, hold: bool, sent: &[Sent], cycle: u64) -> Vec<Received> {
    run_with_changes(p, hold, sent, cycle).0
}

/// Also the packets that are lost, and when.
pub fn run_with_changes(p: &Parameters, hold: bool, sent: &[Sent], cycle: u64) -> (Vec<Received>, Vec<(usize, u64)>) {
    let mut world = World::new(p, hold, sent, cycle);
    while world.received.len() + world.lost.len() < sent.len() {
        assert!(world.now < 10_000_000, "the oracle does not finish");
        while world.closing.is_none() && p.changes.get(world.changed).is_some_and(|next| next.cycle <= world.now) {
            world.close();
            world.reopen(world.now * cycle);
        }
        for &(_, (r, port), ppm) in p.rates_later.iter().filter(|later| later.0 == world.now) {
            world.rates.insert((r, port), ppm);
            world.routers[r].ports[port].rest = 0;
        }
        world.updates();
        for e in 0..world.sources.len() {
            world.send(e);
        }
        for r in 0..world.routers.len() {
            world.decide(r);
        }
        world.remember();
        world.reopen(world.now * cycle + 1);
        world.now += 1;
    }
    world.received.sort();
    world.lost.sort();
    (world.received, world.lost)
}

struct World<'a> {
    p: &'a Parameters,
    /// The network as it is now, and how often it has changed.
    net: &'a dyn Net,
    changed: usize,
    closing: Option<&'a Change>,
    lost: Vec<(usize, u64)>,
    /// Of links that have one now.
    rates: BTreeMap<(usize, usize), u64>,
    hold: bool,
    sent: &'a [Sent],
    cycle: u64,
    now: u64,
    routers: Vec<Router>,
    sources: Vec<Source>,
    coming: Vec<(u64, Happens)>,
    received: Vec<Received>,
    /// Routers passed by packets being received.
    passed: Vec<u64>,
    /// Flits of packets at a router bound for a port.
    bound: Vec<Vec<i64>>,
    /// Those and the queues after every cycle, the last one first.
    before: VecDeque<Vec<Vec<i64>>>,
}

impl<'a> World<'a> {
    fn new(p: &'a Parameters, hold: bool, sent: &'a [Sent], cycle: u64) -> World<'a> {
        let (ports, vcs, buffer) = (p.net.ports(), p.vcs, p.buffer as u64);
        let input = || Input { flits: VecDeque::new(), state: State::Idle, pointer: 0, vanishing: false };
        let output = || Output { credits: buffer, owned: false, pointer: 0 };
        let router = |_| Router {
            inputs: (0..ports).map(|_| (0..vcs).map(|_| input()).collect()).collect(),
            outputs: (0..ports).map(|_| (0..vcs).map(|_| output()).collect()).collect(),
            ports: vec![Port::default(); ports],
        };
        let source = |_| Source { vc: vcs - 1, credits: vec![buffer; vcs], ..Source::default() };
        let mut sources: Vec<Source> = (0..p.net.endpoints()).map(source).collect();
        for (i, s) in sent.iter().enumerate() {
            sources[s.src as usize].packets.push_back(i);
        }
        let routers = (0..p.net.routers()).map(router).collect();
        let passed = vec![0; sent.len()];
        let (coming, received, before) = (Vec::new(), Vec::new(), VecDeque::new());
        let bound = vec![vec![0; ports]; p.net.routers()];
        let (net, changed, closing, lost) = (&*p.net, 0, None, Vec::new());
        World {
            p,
            net,
            changed,
            closing,
            lost,
            rates: p.rates.clone(),
            hold,
            sent,
            cycle,
            now: 0,
            routers,
            sources,
            coming,
            received,
            passed,
            bound,
            before,
        }
    }

    /// The next change begins: packets that want a closed port are lost, unless their head has left.
    fn close(&mut self) {
        let change = &self.p.changes[self.changed];
        (self.changed, self.closing) = (self.changed + 1, Some(change));
        for r in 0..self.routers.len() {
            for (port, vc) in (0..self.net.ports()).flat_map(|port| (0..self.p.vcs).map(move |vc| (port, vc))) {
                let state = self.routers[r].inputs[port][vc].state;
                let mut loses = false;
                for (i, flit) in std::mem::take(&mut self.routers[r].inputs[port][vc].flits).into_iter().enumerate() {
                    let mut gone = None;
                    if let Some(packet) = &flit.head {
                        // The first one has chosen.
                        let out = match state {
                            State::Asks(out, ..) | State::Owns(out, _) if i == 0 => out,
                            _ => self.out(r, packet),
                        };
                        loses = change.closed.contains(&(r, out));
                        gone = loses.then_some(packet.index);
                    }
                    if i == 0 && loses {
                        if let State::Owns(out, ov) = state {
                            self.routers[r].outputs[out][ov].owned = false;
                        }
                        self.routers[r].inputs[port][vc].state = State::Idle;
                    }
                    if loses {
                        self.vanish(r, (port, vc), &flit, gone);
                    } else {
                        self.routers[r].inputs[port][vc].flits.push_back(flit);
                    }
                }
            }
        }
    }

    /// Where a packet that has just come wants to go.
    fn out(&self, r: usize, packet: &Packet) -> usize {
        self.net.route(r, self.sent[packet.index].dst, &mut packet.clone(), self.p.vcs).0
    }

    /// A flit in an input channel vanishes as if it left, perhaps the first one of a packet.
    fn vanish(&mut self, r: usize, (port, vc): (usize, usize), flit: &Flit, lost: Option<usize>) {
        self.lost.extend(lost.map(|packet| (packet, self.now * self.cycle)));
        self.routers[r].inputs[port][vc].vanishing = !flit.tail;
        self.make_room(r, port, vc);
    }

    /// Once nothing is under way at `time`, packets take the ways of what is left.
    fn reopen(&mut self, time: u64) {
        let mut inputs = self.routers.iter().flat_map(|router| router.inputs.iter().flatten());
        let here = inputs.any(|input| !input.flits.is_empty() || input.vanishing);
        let coming = self.coming.iter().any(|(_, what)| matches!(what, Happens::Arrives { .. }));
        let leaving = self.received.iter().any(|received| received.1 >= time);
        if here || coming || leaving || self.sources.iter().any(|source| source.sent > 0) {
            return;
        }
        let Some(change) = self.closing.take() else { return };
        self.net = &*change.net;
        for source in &mut self.sources {
            let down = |i: &usize| [self.sent[*i].src, self.sent[*i].dst].iter().any(|end| change.down.contains(end));
            let gone: Vec<usize> = source.packets.iter().copied().filter(down).collect();
            source.packets.retain(|i| !down(i));
            // One that is given later than the fault is lost at its time.
            let time = |i: usize| match self.sent[i].at {
                at if at < change.cycle * self.cycle => self.now * self.cycle,
                at => at.div_ceil(self.cycle) * self.cycle,
            };
            self.lost.extend(gone.into_iter().map(|i| (i, time(i))));
        }
    }

    fn rate(&self, r: usize, out: usize) -> u64 {
        self.rates.get(&(r, out)).copied().unwrap_or(1_000_000)
    }

    /// The room of a flit in an input channel is free at the other end later.
    fn make_room(&mut self, r: usize, port: usize, vc: usize) {
        match self.net.far(r, port) {
            Far::Router(router, far) => {
                let at = self.now + 3 + self.p.link.max(self.net.delay(r, port));
                self.coming.push((at, Happens::Credit { router, port: far, vc }));
            }
            Far::Endpoint(source) => self.coming.push((self.now + 2, Happens::SourceCredit { source, vc })),
        }
    }

    /// Flits in the queue of an output.
    fn used(&self, router: usize, port: usize) -> i64 {
        self.routers[router].outputs[port].iter().map(|o| self.p.buffer - o.credits as i64).sum()
    }

    fn remember(&mut self) {
        let of = |r: usize| (0..self.net.ports()).map(|port| self.bound[r][port] + self.used(r, port)).collect();
        let queues = (0..self.routers.len()).map(of).collect();
        self.before.push_front(queues);
        self.before.truncate(REMEMBERED);
    }

    fn updates(&mut self) {
        let (mut due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.coming).into_iter().partition(|c| c.0 == self.now);
        self.coming = later;
        // Heads see the credits of this cycle.
        due.sort_by_key(|(_, what)| matches!(what, Happens::Arrives { .. }));
        for (_, what) in due {
            match what {
                Happens::Arrives { router, port, vc, mut flit } => {
                    if let Some(packet) = &mut flit.head {
                        packet.routers += 1;
                        let queue = |r: usize, out: usize, ago: u64| match ago {
                            0 => self.used(r, out),
                            _ => self.before.get(ago as usize - 1).map_or(0, |cycle| cycle[r][out]),
                        };
                        let Sent { dst, flits, .. } = self.sent[packet.index];
                        self.net.look(router, dst, packet, port, &queue);
                        let out = self.net.route(router, dst, &mut packet.clone(), self.p.vcs).0;
                        self.bound[router][out] += flits as i64;
                        if self.closing.is_some_and(|change| change.closed.contains(&(router, out))) {
                            let lost = Some(packet.index);
                            self.vanish(router, (port, vc), &flit, lost);
                            continue;
                        }
                    } else if self.routers[router].inputs[port][vc].vanishing {
                        self.vanish(router, (port, vc), &flit, None);
                        continue;
                    }
                    self.routers[router].inputs[port][vc].flits.push_back(flit);
                }
                Happens::Credit { router, port, vc } => self.routers[router].outputs[port][vc].credits += 1,
                Happens::SourceCredit { source, vc } => self.sources[source].credits[vc] += 1,
            }
        }
        // A head at the front asks.
        for r in 0..self.routers.len() {
            for input in self.routers[r].inputs.iter_mut().flatten() {
                if let (State::Idle, Some(front)) = (input.state, input.flits.front_mut()) {
                    let packet = front.head.as_mut().expect("a head follows a tail");
                    let (port, lowest, highest) = self.net.route(r, self.sent[packet.index].dst, packet, self.p.vcs);
                    input.state = State::Asks(port, lowest, highest);
                }
            }
        }
    }

    fn send(&mut self, e: usize) {
        let source = &mut self.sources[e];
        if source.sent == 0 && self.closing.is_some() {
            return;
        }
        let Some(&i) = source.packets.front() else { return };
        let s = &self.sent[i];
        let mut head = None;
        if source.sent == 0 {
            if (s.at + self.p.ends).div_ceil(self.cycle) > self.now {
                return;
            }
            let vcs = self.p.vcs;
            let vc = (1..=vcs).map(|n| (source.vc + n) % vcs).find(|&vc| source.credits[vc] > 0);
            let Some(vc) = vc else { return };
            source.vc = vc;
            let mut packet = Packet::new(i, self.p.words[i]);
            self.net.start(&mut packet, s.src, s.dst);
            head = Some(packet);
        } else if source.credits[source.vc] == 0 {
            return;
        }
        source.credits[source.vc] -= 1;
        source.sent += 1;
        let tail = source.sent == s.flits;
        if tail {
            source.packets.pop_front();
            source.sent = 0;
        }
        let (router, port) = self.net.attach(e);
        let flit = Flit { packet: i, head, tail };
        self.coming.push((self.now + 2, Happens::Arrives { router, port, vc: source.vc, flit }));
    }

    /// One cycle of router `r`: every choice sees the start of the cycle, then all of them take effect.
    fn decide(&mut self, r: usize) {
        let owners = self.channels(r);
        let (continuing, ceasing) = self.holding(r);
        let granted = self.switch(r);
        for ((port, vc), (out, ov)) in owners {
            let router = &mut self.routers[r];
            router.inputs[port][vc].state = State::Owns(out, ov);
            router.outputs[out][ov].owned = true;
        }
        for (port, out) in ceasing {
            self.routers[r].ports[port].holds = None;
            self.routers[r].ports[out].held = false;
        }
        for (port, vc) in continuing.into_iter().chain(granted) {
            self.pass(r, port, vc);
        }
    }

    /// Which input channel gets which output channel.
    fn channels(&mut self, r: usize) -> Vec<((usize, usize), (usize, usize))> {
        let vcs = self.p.vcs;
        let router = &mut self.routers[r];
        let mut picked: Vec<(usize, usize)> = Vec::new();
        for (port, channels) in router.inputs.iter().enumerate() {
            for (vc, input) in channels.iter().enumerate() {
                let State::Asks(out, lowest, highest) = input.state else { continue };
                let open: Vec<usize> =
                    (lowest..=highest).filter(|&v| !router.outputs[out][v].owned).map(|v| out * vcs + v).collect();
                if let Some(o) = turn(&open, input.pointer) {
                    picked.push((port * vcs + vc, o));
                }
            }
        }
        let mut owners = Vec::new();
        for o in 0..self.net.ports() * vcs {
            let output = &mut router.outputs[o / vcs][o % vcs];
            let asking: Vec<usize> = picked.iter().filter(|x| x.1 == o).map(|x| x.0).collect();
            let Some(i) = turn(&asking, output.pointer) else { continue };
            output.pointer = i + 1;
            router.inputs[i / vcs][i % vcs].pointer = o + 1;
            owners.push(((i / vcs, i % vcs), (o / vcs, o % vcs)));
        }
        owners
    }

    /// Input channels that hold the switch and send a flit; (input port, output port) of those that cease to hold it.
    #[allow(clippy::type_complexity)]
    fn holding(&self, r: usize) -> (Vec<(usize, usize)>, Vec<(usize, usize)>) {
        let router = &self.routers[r];
        let (mut continuing, mut ceasing) = (Vec::new(), Vec::new());
        for (port, state) in router.ports.iter().enumerate() {
            let Some(vc) = state.holds else { continue };
            let State::Owns(out, ov) = router.inputs[port][vc].state else { panic!("holds without a channel") };
            if router.outputs[out][ov].credits > 0 {
                continuing.push((port, vc));
            } else {
                ceasing.push((port, out));
            }
        }
        (continuing, ceasing)
    }

    /// Which input channels are granted the switch.
    fn switch(&mut self, r: usize) -> Vec<(usize, usize)> {
        let (ports, vcs) = (self.net.ports(), self.p.vcs);
        let router = &mut self.routers[r];
        let mut nominated: Vec<(usize, usize, usize)> = Vec::new(); // input port, channel, output port
        for port in 0..ports {
            if router.ports[port].holds.is_some() {
                continue;
            }
            let ready: Vec<(usize, usize)> = (0..vcs)
                .filter_map(|vc| {
                    let input = &router.inputs[port][vc];
                    let State::Owns(out, ov) = input.state else { return None };
                    let able = !input.flits.is_empty() && router.outputs[out][ov].credits > 0;
                    (able && !router.ports[out].held && router.ports[out].free_from <= self.now).then_some((vc, out))
                })
                .collect();
            let outs: Vec<usize> = ready.iter().map(|x| x.1).collect();
            let Some(out) = turn(&outs, router.ports[port].output_pointer) else { continue };
            let channels: Vec<usize> = ready.iter().filter(|x| x.1 == out).map(|x| x.0).collect();
            let vc = turn(&channels, router.ports[port].channel_pointer).unwrap();
            nominated.push((port, vc, out));
        }
        let mut granted = Vec::new();
        for out in 0..ports {
            let asking: Vec<usize> = nominated.iter().filter(|n| n.2 == out).map(|n| n.0).collect();
            let Some(port) = turn(&asking, router.ports[out].input_pointer) else { continue };
            let vc = nominated.iter().find(|n| n.0 == port).unwrap().1;
            router.ports[out].input_pointer = port + 1;
            router.ports[port].output_pointer = out + 1;
            router.ports[port].channel_pointer = (vc + 1) % vcs;
            granted.push((port, vc));
        }
        granted
    }

    /// The flit at the front of an input channel passes the switch.
    fn pass(&mut self, r: usize, port: usize, vc: usize) {
        let State::Owns(out, ov) = self.routers[r].inputs[port][vc].state else { panic!("a flit without a channel") };
        let rate = self.rate(r, out);
        let router = &mut self.routers[r];
        let input = &mut router.inputs[port][vc];
        let flit = input.flits.pop_front().unwrap();
        self.bound[r][out] -= 1;
        let output = &mut router.outputs[out][ov];
        output.credits -= 1;
        if flit.tail {
            output.owned = false;
            input.state = State::Idle;
        }
        let holds = self.hold && !flit.tail && !input.flits.is_empty() && rate == 1_000_000;
        router.ports[port].holds = holds.then_some(vc);
        let link = &mut router.ports[out];
        link.held = holds;
        link.free_from = self.now + (1_000_000 + link.rest) / rate;
        link.rest = (1_000_000 + link.rest) % rate;
        self.make_room(r, port, vc);
        match self.net.far(r, out) {
            Far::Router(router, port) => {
                let at = self.now + 2 + self.p.link.max(self.net.delay(r, out));
                self.coming.push((at, Happens::Arrives { router, port, vc: ov, flit }));
            }
            Far::Endpoint(_) => {
                self.coming.push((self.now + 7, Happens::Credit { router: r, port: out, vc: ov }));
                if let Some(packet) = &flit.head {
                    self.passed[flit.packet] = packet.routers;
                }
                if flit.tail {
                    self.received.push((flit.packet, (self.now + 3) * self.cycle, self.passed[flit.packet]));
                }
            }
        }
    }
}
