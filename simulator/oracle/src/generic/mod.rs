//! Section 3 of `docs/explain/model.md`, cycle by cycle, everything looked at in every cycle.

mod adaptive;
mod cayley;
mod clos;
pub mod dragonfly;
mod express;
mod fly;
pub mod graph;
pub mod grid;
mod hyperx;
mod kinds;
pub mod left;
pub(crate) mod net;
mod tree;
pub mod turns;

pub use kinds::{any_shape, knows, read, read_adaptive};
pub use net::{Far, Net};

use super::{Received, Sent};
use net::Packet;
use std::collections::{BTreeMap, VecDeque};

/// Cycles whose queues are remembered.
pub(crate) const REMEMBERED: usize = 20;

/// What is left of a network from a cycle on.
pub struct Change {
    pub cycle: u64,
    pub net: Box<dyn Net>,
    /// Ports, by router and port, that are closed then.
    pub closed: Vec<(usize, usize)>,
    /// Endpoints that are down then.
    pub down: Vec<u32>,
}

pub struct Parameters {
    pub net: Box<dyn Net>,
    pub vcs: usize,
    pub buffer: i64,
    /// Least cycles of a link.
    pub link: u64,
    /// So much later than it is given may a packet be sent.
    pub ends: u64,
    /// The random word of each packet.
    pub words: Vec<u64>,
    /// Flits per cycle of the links that begin at a router and port, in parts per million; 1 of the others.
    pub rates: BTreeMap<(usize, usize), u64>,
    /// Those that they have from a cycle on, in order of time.
    pub rates_later: Vec<(u64, (usize, usize), u64)>,
    /// In order of time.
    pub changes: Vec<Change>,
}

/// Cycles of a packet at a rate, a part of the last one counted as a whole.
fn cycles(flits: u64, ppm: u64) -> u64 {
    (flits * 1_000_000).div_ceil(ppm)
}

#[derive(Default)]
struct Input {
    /// Each with the cycle from which it may ask for an output channel, as far as its own flits go.
    packets: VecDeque<(u64, Packet)>,
    /// Cycle from which the packet at the front may ask for an output channel.
    asks_from: u64,
    output: Option<(usize, usize)>,
    /// Cycle from which it may ask for the switch.
    switch_from: u64,
    /// Output port and lowest and highest channel it may use, once known.
    wants: Option<(usize, usize, usize)>,
    pointer: usize,
}

struct Output {
    credits: i64,
    owner: Option<(usize, usize)>,
    owned_until: u64,
    pointer: usize,
}

#[derive(Default, Clone)]
struct Port {
    in_busy_until: u64,
    out_busy_until: u64,
    channel_pointer: usize,
    output_pointer: usize,
    input_pointer: usize,
    /// Parts per million of a flit per cycle: time that the link has left of the last cycle of a packet.
    rest: u64,
}

enum Happens {
    Head { router: usize, port: usize, vc: usize, packet: Packet },
    Credit { router: usize, port: usize, vc: usize, flits: i64 },
    SourceCredit { source: usize, vc: usize, flits: i64 },
}

/// The first of `asking` at or after `pointer`, else the first.
fn turn(asking: &[usize], pointer: usize) -> Option<usize> {
    asking.iter().copied().filter(|&a| a >= pointer).min().or(asking.iter().copied().min())
}

/// Packets of one endpoint that are to be sent.
struct Source {
    queue: VecDeque<usize>,
    credits: Vec<i64>,
    /// Channel of the last packet.
    last: usize,
    free_from: u64,
}

/// Input port and channel, and the output port and channel it would have.
type Pick = ((usize, usize), (usize, usize));
/// Input port, channel, output port.
type Nominee = (usize, usize, usize);

/// The network in one cycle.
struct World<'a> {
    p: &'a Parameters,
    /// The network as it is now, and how often it has changed.
    net: &'a dyn Net,
    changed: usize,
    closing: Option<&'a Change>,
    lost: Vec<(usize, u64)>,
    /// Of links that have one now.
    rates: BTreeMap<(usize, usize), u64>,
    sent: &'a [Sent],
    /// Picoseconds of a cycle.
    cycle: u64,
    now: u64,
    inputs: Vec<Vec<Vec<Input>>>,
    outputs: Vec<Vec<Vec<Output>>>,
    state: Vec<Vec<Port>>,
    sources: Vec<Source>,
    coming: Vec<(u64, Happens)>,
    received: Vec<Received>,
    /// Flits of packets at a router bound for a port.
    bound: Vec<Vec<i64>>,
    /// Those and its queue after every cycle, the last one first.
    before: VecDeque<Vec<Vec<i64>>>,
}

pub fn run(p: &Parameters, sent: &[Sent], cycle: u64) -> Vec<Received> {
    run_with_changes(p, sent, cycle).0
}

/// Also the packets that are lost, and when.
pub fn run_with_changes(p: &Parameters, sent: &[Sent], cycle: u64) -> (Vec<Received>, Vec<(usize, u64)>) {
    let mut world = World::new(p, sent, cycle);
    while world.received.len() + world.lost.len() < sent.len() {
        assert!(world.now < 10_000_000, "the oracle does not finish");
        while world.closing.is_none() && p.changes.get(world.changed).is_some_and(|next| next.cycle <= world.now) {
            world.close();
            world.reopen(world.now * cycle);
        }
        for &(_, (r, port), ppm) in p.rates_later.iter().filter(|later| later.0 == world.now) {
            world.rates.insert((r, port), ppm);
            world.state[r][port].rest = 0;
        }
        world.hear();
        if world.closing.is_none() {
            world.start();
        }
        for r in 0..p.net.routers() {
            // Step 1 of both allocations sees the start of the cycle.
            let picked = world.pick(r);
            let nominated = world.nominate(r);
            world.allocate(r, &picked);
            world.cross(r, &nominated);
        }
        world.remember();
        world.reopen(world.now * cycle + 1);
        world.now += 1;
    }
    world.received.sort();
    world.lost.sort();
    (world.received, world.lost)
}

impl<'a> World<'a> {
    fn new(p: &'a Parameters, sent: &'a [Sent], cycle: u64) -> Self {
        let (routers, ports, vcs) = (p.net.routers(), p.net.ports(), p.vcs);
        let inputs = |_| (0..ports).map(|_| (0..vcs).map(|_| Input::default()).collect()).collect();
        let output = || Output { credits: p.buffer, owner: None, owned_until: 0, pointer: 0 };
        let outputs = |_| (0..ports).map(|_| (0..vcs).map(|_| output()).collect()).collect();
        let source = |_| Source { queue: VecDeque::new(), credits: vec![p.buffer; vcs], last: vcs - 1, free_from: 0 };
        let mut sources: Vec<Source> = (0..p.net.endpoints()).map(source).collect();
        for (i, s) in sent.iter().enumerate() {
            sources[s.src as usize].queue.push_back(i);
        }
        World {
            p,
            net: &*p.net,
            changed: 0,
            closing: None,
            lost: Vec::new(),
            rates: p.rates.clone(),
            sent,
            cycle,
            now: 0,
            inputs: (0..routers).map(inputs).collect(),
            outputs: (0..routers).map(outputs).collect(),
            state: vec![vec![Port::default(); ports]; routers],
            sources,
            coming: Vec::new(),
            received: Vec::new(),
            bound: vec![vec![0; ports]; routers],
            before: VecDeque::new(),
        }
    }

    /// The next change begins: packets that want a closed port are lost, unless they have left.
    fn close(&mut self) {
        let change = &self.p.changes[self.changed];
        (self.changed, self.closing) = (self.changed + 1, Some(change));
        for r in 0..self.net.routers() {
            for port in 0..self.net.ports() {
                for vc in 0..self.p.vcs {
                    let all = std::mem::take(&mut self.inputs[r][port][vc].packets);
                    for (i, (ready, packet)) in all.into_iter().enumerate() {
                        // The first one may have chosen.
                        let wants = self.inputs[r][port][vc].wants.filter(|_| i == 0).map(|wants| wants.0);
                        let out = wants.unwrap_or_else(|| self.out(r, &packet));
                        if ready > self.now || !change.closed.contains(&(r, out)) {
                            self.inputs[r][port][vc].packets.push_back((ready, packet));
                            continue;
                        }
                        let input = &mut self.inputs[r][port][vc];
                        if i == 0 {
                            input.wants = None;
                            if let Some((out, ov)) = input.output.take() {
                                self.outputs[r][out][ov].owner = None;
                            }
                        }
                        self.lose(r, (port, vc), &packet);
                    }
                }
            }
        }
    }

    /// Packets that have waited for their flits line up now; those that want a closed port are lost.
    fn line_up(&mut self) {
        if self.closing.is_none() {
            return;
        }
        for (r, port) in (0..self.net.routers()).flat_map(|r| (0..self.net.ports()).map(move |port| (r, port))) {
            for vc in 0..self.p.vcs {
                let is_due = |&(ready, _): &(u64, Packet)| ready == self.now;
                let Some(at) = self.inputs[r][port][vc].packets.iter().position(is_due) else { continue };
                if self.is_closed(r, &self.inputs[r][port][vc].packets[at].1) {
                    let (_, packet) = self.inputs[r][port][vc].packets.remove(at).unwrap();
                    self.lose(r, (port, vc), &packet);
                }
            }
        }
    }

    /// Where a packet that has just come wants to go.
    fn out(&self, r: usize, packet: &Packet) -> usize {
        self.net.route(r, self.sent[packet.index].dst, &mut packet.clone(), self.p.vcs).0
    }

    fn is_closed(&self, r: usize, packet: &Packet) -> bool {
        self.closing.is_some_and(|change| change.closed.contains(&(r, self.out(r, packet))))
    }

    /// A packet in an input channel is lost, as if it left.
    fn lose(&mut self, r: usize, (port, vc): (usize, usize), packet: &Packet) {
        self.lost.push((packet.index, self.now * self.cycle));
        self.make_room(r, (port, vc), self.sent[packet.index].flits as i64);
    }

    /// Once nothing is under way at `time`, packets take the ways of what is left.
    fn reopen(&mut self, time: u64) {
        let here = self.inputs.iter().flatten().flatten().all(|input| input.packets.is_empty());
        let coming = self.coming.iter().any(|(_, what)| matches!(what, Happens::Head { .. }));
        // A packet is under way until its tail has arrived.
        let leaving = self.received.iter().any(|received| received.1 >= time);
        if !here || coming || leaving {
            return;
        }
        let Some(change) = self.closing.take() else { return };
        self.net = &*change.net;
        for source in &mut self.sources {
            let (gone, left) = std::mem::take(&mut source.queue).into_iter().partition(|&i: &usize| {
                let Sent { src, dst, .. } = self.sent[i];
                [src, dst].iter().any(|end| change.down.contains(end))
            });
            source.queue = left;
            let gone: VecDeque<usize> = gone;
            // One that is given later than the fault is lost at its time.
            let time = |i: usize| match self.sent[i].at {
                at if at < change.cycle * self.cycle => self.now * self.cycle,
                at => at.div_ceil(self.cycle) * self.cycle,
            };
            self.lost.extend(gone.into_iter().map(|i| (i, time(i))));
        }
    }

    /// Flits that are on their way through an output port, or in the buffer behind it.
    fn used(&self, r: usize, out: usize) -> i64 {
        self.outputs[r][out].iter().map(|o| self.p.buffer - o.credits).sum()
    }

    /// Phase 1: what arrives.
    fn hear(&mut self) {
        self.line_up();
        let coming = std::mem::take(&mut self.coming);
        let (mut due, later): (Vec<_>, Vec<_>) = coming.into_iter().partition(|c| c.0 == self.now);
        self.coming = later;
        // Heads see the credits of this cycle.
        due.sort_by_key(|(_, what)| matches!(what, Happens::Head { .. }));
        for (_, what) in due {
            match what {
                Happens::Head { router, port, vc, packet } => self.take_in(router, port, vc, packet),
                Happens::Credit { router, port, vc, flits } => self.outputs[router][port][vc].credits += flits,
                Happens::SourceCredit { source, vc, flits } => self.sources[source].credits[vc] += flits,
            }
        }
    }

    /// A packet's head is at a router.
    fn take_in(&mut self, router: usize, port: usize, vc: usize, mut packet: Packet) {
        packet.routers += 1;
        let queue = |r: usize, out: usize, ago: u64| match ago {
            0 => self.used(r, out),
            _ => self.before.get(ago as usize - 1).map_or(0, |cycle| cycle[r][out]),
        };
        let Sent { dst, flits, .. } = self.sent[packet.index];
        self.net.look(router, dst, &mut packet, port, &queue);
        let out = self.net.route(router, dst, &mut packet.clone(), self.p.vcs).0;
        self.bound[router][out] += flits as i64;
        // A packet that may still choose is prepared for a link without rate, and so is any where rates change.
        let leaves = match self.net.options(router, dst, &mut packet.clone(), self.p.vcs) {
            None if self.p.rates_later.is_empty() => self.rate(router, out),
            _ => 1_000_000,
        };
        let ready = self.now + packet.came.saturating_sub(cycles(flits, leaves));
        if ready == self.now && self.is_closed(router, &packet) {
            return self.lose(router, (port, vc), &packet);
        }
        self.inputs[router][port][vc].packets.push_back((ready, packet));
    }

    fn rate(&self, r: usize, out: usize) -> u64 {
        self.rates.get(&(r, out)).copied().unwrap_or(1_000_000)
    }

    /// Phase 2: sources.
    fn start(&mut self) {
        let (p, net, now) = (self.p, self.net, self.now);
        for (e, source) in self.sources.iter_mut().enumerate() {
            let Some(&i) = source.queue.front() else { continue };
            let Sent { src, dst, flits, at, .. } = self.sent[i];
            if source.free_from > now || (at + self.p.ends).div_ceil(self.cycle) > now {
                continue;
            }
            let mut channels = (1..=p.vcs).map(|n| (source.last + n) % p.vcs);
            let Some(vc) = channels.find(|&vc| source.credits[vc] >= flits as i64) else { continue };
            source.queue.pop_front();
            source.last = vc;
            source.free_from = now + flits;
            source.credits[vc] -= flits as i64;
            let mut packet = Packet::new(i, p.words[i]);
            net.start(&mut packet, src, dst);
            let (router, port) = net.attach(e);
            self.coming.push((now + 2, Happens::Head { router, port, vc, packet }));
        }
    }

    /// Step 1 of the allocation of output channels: each input channel picks one.
    fn pick(&mut self, r: usize) -> Vec<Pick> {
        let mut picked = Vec::new();
        for port in 0..self.net.ports() {
            for vc in 0..self.p.vcs {
                let open = self.wanted(r, port, vc);
                if let Some(o) = turn(&open, self.inputs[r][port][vc].pointer) {
                    picked.push(((port, vc), (o / self.p.vcs, o % self.p.vcs)));
                }
            }
        }
        picked
    }

    /// Free output channels that the first packet of an input channel may have: port by port, numbered through.
    fn wanted(&mut self, r: usize, port: usize, vc: usize) -> Vec<usize> {
        let (net, now, outputs, vcs) = (self.net, self.now, &self.outputs[r], self.p.vcs);
        let input = &mut self.inputs[r][port][vc];
        if input.packets.front().is_none_or(|front| front.0 > now) || input.asks_from > now || input.output.is_some() {
            return Vec::new();
        }
        let front = &mut input.packets[0].1;
        let Sent { dst, flits, .. } = self.sent[front.index];
        let is_free = |out: usize, v: &usize| outputs[out][*v].owner.is_none() && outputs[out][*v].owned_until <= now;
        // An adaptive packet chooses anew in every cycle.
        let preferred = net.options(r, dst, front, vcs).map(|options| {
            let has_room = |out: usize, v: &usize| outputs[out][*v].credits >= flits as i64;
            let open = |&out: &usize| {
                let open = (options.first..vcs).filter(|v| is_free(out, v) && has_room(out, v));
                (out, open.collect::<Vec<usize>>())
            };
            let credits = |out: usize| (options.first..vcs).map(|v| outputs[out][v].credits).sum::<i64>();
            let choices = options.ports.iter().map(open).filter(|(_, open)| !open.is_empty());
            let best = choices.min_by_key(|&(out, _)| (-credits(out), out));
            let (out, lowest, highest) = options.escape;
            best.unwrap_or_else(|| (out, (lowest..=highest).filter(|v| is_free(out, v)).collect()))
        });
        let (out, channels) = preferred.unwrap_or_else(|| {
            let wants = input.wants.get_or_insert_with(|| net.route(r, dst, front, vcs));
            (wants.0, (wants.1..=wants.2).filter(|v| is_free(wants.0, v)).collect())
        });
        channels.into_iter().map(|v| out * vcs + v).collect()
    }

    /// Step 1 of the switch: each input port nominates one of its channels.
    fn nominate(&self, r: usize) -> Vec<Nominee> {
        let mut nominated = Vec::new();
        for (port, state) in self.state[r].iter().enumerate() {
            if state.in_busy_until > self.now {
                continue;
            }
            let ready: Vec<(usize, usize)> = (0..self.p.vcs)
                .filter_map(|vc| {
                    let input = &self.inputs[r][port][vc];
                    let (out, ov) = input.output?;
                    let flits = self.sent[input.packets.front()?.1.index].flits;
                    (input.switch_from <= self.now
                        && self.outputs[r][out][ov].credits >= flits as i64
                        && self.state[r][out].out_busy_until <= self.now)
                        .then_some((vc, out))
                })
                .collect();
            let outs: Vec<usize> = ready.iter().map(|x| x.1).collect();
            let Some(out) = turn(&outs, state.output_pointer) else { continue };
            let channels: Vec<usize> = ready.iter().filter(|x| x.1 == out).map(|x| x.0).collect();
            let vc = turn(&channels, state.channel_pointer).unwrap();
            nominated.push((port, vc, out));
        }
        nominated
    }

    /// Step 2: output channels.
    fn allocate(&mut self, r: usize, picked: &[Pick]) {
        let vcs = self.p.vcs;
        for (out, channels) in self.outputs[r].iter_mut().enumerate() {
            for (ov, output) in channels.iter_mut().enumerate() {
                let asking: Vec<usize> =
                    picked.iter().filter(|x| x.1 == (out, ov)).map(|x| x.0.0 * vcs + x.0.1).collect();
                if let Some(i) = turn(&asking, output.pointer) {
                    let input = &mut self.inputs[r][i / vcs][i % vcs];
                    input.output = Some((out, ov));
                    input.switch_from = self.now + 1;
                    input.pointer = out * vcs + ov + 1;
                    output.owner = Some((i / vcs, i % vcs));
                    output.pointer = i + 1;
                }
            }
        }
    }

    /// Step 2: the switch.
    fn cross(&mut self, r: usize, nominated: &[Nominee]) {
        for out in 0..self.net.ports() {
            let asking: Vec<usize> = nominated.iter().filter(|n| n.2 == out).map(|n| n.0).collect();
            let Some(port) = turn(&asking, self.state[r][out].input_pointer) else { continue };
            let vc = nominated.iter().find(|n| n.0 == port).unwrap().1;
            self.state[r][out].input_pointer = port + 1;
            self.state[r][port].output_pointer = out + 1;
            self.state[r][port].channel_pointer = (vc + 1) % self.p.vcs;
            self.leave(r, (port, vc), out);
        }
    }

    /// The first packet of an input channel leaves by port `out`.
    fn leave(&mut self, r: usize, (port, vc): (usize, usize), out: usize) {
        let now = self.now;
        let input = &mut self.inputs[r][port][vc];
        let mut packet = input.packets.pop_front().unwrap().1;
        let flits = self.sent[packet.index].flits;
        self.bound[r][out] -= flits as i64;
        let (_, ov) = input.output.take().unwrap();
        input.wants = None;
        input.asks_from = now + flits;
        self.state[r][port].in_busy_until = now + flits;
        let ppm = self.rate(r, out);
        packet.came = cycles(flits, ppm);
        let time = flits * 1_000_000 + self.state[r][out].rest;
        self.state[r][out].rest = time % ppm;
        self.state[r][out].out_busy_until = now + time / ppm;
        let output = &mut self.outputs[r][out][ov];
        output.owner = None;
        output.owned_until = now + time / ppm;
        output.credits -= flits as i64;
        self.make_room(r, (port, vc), flits as i64);
        let net = self.net;
        match net.far(r, out) {
            Far::Router(router, port) => {
                let at = now + 2 + self.p.link.max(net.delay(r, out));
                self.coming.push((at, Happens::Head { router, port, vc: ov, packet }));
            }
            Far::Endpoint(_) => {
                self.coming.push((now + 7, Happens::Credit { router: r, port: out, vc: ov, flits: flits as i64 }));
                self.received.push((packet.index, (now + 3 + flits - 1) * self.cycle, packet.routers));
            }
        }
    }

    /// The flits of a packet leave an input channel.
    fn make_room(&mut self, r: usize, (port, vc): (usize, usize), flits: i64) {
        let now = self.now;
        match self.net.far(r, port) {
            Far::Router(up, up_port) => {
                let credit = Happens::Credit { router: up, port: up_port, vc, flits };
                self.coming.push((now + 3 + self.p.link.max(self.net.delay(r, port)), credit));
            }
            Far::Endpoint(source) => self.coming.push((now + 2, Happens::SourceCredit { source, vc, flits })),
        }
    }

    /// Keeps the queues of this cycle for whoever looks at older ones.
    fn remember(&mut self) {
        let all = |r: usize| (0..self.net.ports()).map(|o| self.bound[r][o] + self.used(r, o)).collect();
        let queues = (0..self.net.routers()).map(all).collect();
        self.before.push_front(queues);
        self.before.truncate(REMEMBERED);
    }
}
