//! Section 3 of `docs/explain/model.md`, cycle by cycle, everything looked at in every cycle.

mod adaptive;
mod cayley;
mod clos;
pub mod dragonfly;
mod express;
pub mod graph;
mod grid;
mod hyperx;
pub(crate) mod net;
mod tree;

pub use net::{Net, any_shape, knows, read, read_adaptive};

use super::{Received, Sent};
use net::{Far, Packet};
use std::collections::VecDeque;

/// Cycles whose queues are remembered.
pub(crate) const REMEMBERED: usize = 20;

pub struct Parameters {
    pub net: Box<dyn Net>,
    pub vcs: usize,
    pub buffer: i64,
    /// The random word of each packet.
    pub words: Vec<u64>,
}

#[derive(Default)]
struct Input {
    packets: VecDeque<Packet>,
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

pub fn run(p: &Parameters, sent: &[Sent], cycle: u64) -> Vec<Received> {
    let (routers, ports, vcs) = (p.net.routers(), p.net.ports(), p.vcs);
    let each = |_| (0..ports).map(|_| (0..vcs).map(|_| Input::default()).collect()).collect();
    let mut inputs: Vec<Vec<Vec<Input>>> = (0..routers).map(each).collect();
    let output = || Output { credits: p.buffer, owner: None, owned_until: 0, pointer: 0 };
    let each = |_| (0..ports).map(|_| (0..vcs).map(|_| output()).collect()).collect();
    let mut outputs: Vec<Vec<Vec<Output>>> = (0..routers).map(each).collect();
    let mut state = vec![vec![Port::default(); ports]; routers];
    let mut queues: Vec<VecDeque<usize>> = vec![VecDeque::new(); p.net.endpoints()];
    for (i, s) in sent.iter().enumerate() {
        queues[s.src as usize].push_back(i);
    }
    let mut source_credits = vec![vec![p.buffer; vcs]; queues.len()];
    let mut source_last = vec![vcs - 1; queues.len()];
    let mut source_free = vec![0u64; queues.len()];
    let mut coming: Vec<(u64, Happens)> = Vec::new();
    let mut received = Vec::new();
    let mut now = 0u64;
    // Flits of packets at a router bound for a port; those and its queue after every cycle, the last one first.
    let mut bound = vec![vec![0; ports]; routers];
    let mut before: VecDeque<Vec<Vec<i64>>> = VecDeque::new();
    let used = |channels: &Vec<Output>| channels.iter().map(|o| p.buffer - o.credits).sum::<i64>();
    while received.len() < sent.len() {
        assert!(now < 10_000_000, "the oracle does not finish");
        // Phase 1.
        let (mut due, later): (Vec<_>, Vec<_>) = coming.into_iter().partition(|c| c.0 == now);
        coming = later;
        // Heads see the credits of this cycle.
        due.sort_by_key(|(_, what)| matches!(what, Happens::Head { .. }));
        for (_, what) in due {
            match what {
                Happens::Head { router, port, vc, mut packet } => {
                    packet.routers += 1;
                    let queue = |r: usize, out: usize, ago: u64| match ago {
                        0 => used(&outputs[r][out]),
                        _ => before.get(ago as usize - 1).map_or(0, |cycle| cycle[r][out]),
                    };
                    let Sent { dst, flits, .. } = sent[packet.index];
                    p.net.look(router, dst, &mut packet, port, &queue);
                    let out = p.net.route(router, dst, &mut packet.clone(), vcs).0;
                    bound[router][out] += flits as i64;
                    let input = &mut inputs[router][port][vc];
                    if input.packets.is_empty() {
                        input.asks_from = input.asks_from.max(now);
                    }
                    input.packets.push_back(packet);
                }
                Happens::Credit { router, port, vc, flits } => outputs[router][port][vc].credits += flits,
                Happens::SourceCredit { source, vc, flits } => source_credits[source][vc] += flits,
            }
        }
        // Phase 2: sources.
        for e in 0..queues.len() {
            let Some(&i) = queues[e].front() else { continue };
            let flits = sent[i].flits;
            if source_free[e] > now || sent[i].at.div_ceil(cycle) > now {
                continue;
            }
            let vc = (1..=vcs).map(|n| (source_last[e] + n) % vcs).find(|&vc| source_credits[e][vc] >= flits as i64);
            let Some(vc) = vc else { continue };
            queues[e].pop_front();
            source_last[e] = vc;
            source_free[e] = now + flits;
            source_credits[e][vc] -= flits as i64;
            let mut packet = Packet::new(i, p.words[i]);
            p.net.start(&mut packet, sent[i].src, sent[i].dst);
            let (router, port) = p.net.attach(e);
            coming.push((now + 2, Happens::Head { router, port, vc, packet }));
        }
        for r in 0..routers {
            // Step 1 of both allocations sees the start of the cycle.
            let mut picked: Vec<((usize, usize), (usize, usize))> = Vec::new();
            for port in 0..ports {
                for vc in 0..vcs {
                    let input = &mut inputs[r][port][vc];
                    if input.packets.is_empty() || input.asks_from > now || input.output.is_some() {
                        continue;
                    }
                    let front = &mut input.packets[0];
                    let Sent { dst, flits, .. } = sent[front.index];
                    let is_free = |out: usize, v: &usize| {
                        outputs[r][out][*v].owner.is_none() && outputs[r][out][*v].owned_until <= now
                    };
                    // An adaptive packet chooses anew in every cycle.
                    let preferred = p.net.options(r, dst, front, vcs).map(|options| {
                        let has_room = |out: usize, v: &usize| outputs[r][out][*v].credits >= flits as i64;
                        let open = |&out: &usize| {
                            let open = (options.first..vcs).filter(|v| is_free(out, v) && has_room(out, v));
                            (out, open.collect::<Vec<usize>>())
                        };
                        let credits =
                            |out: usize| (options.first..vcs).map(|v| outputs[r][out][v].credits).sum::<i64>();
                        let choices = options.ports.iter().map(open).filter(|(_, open)| !open.is_empty());
                        let best = choices.min_by_key(|&(out, _)| (-credits(out), out));
                        let (out, lowest, highest) = options.escape;
                        best.unwrap_or_else(|| (out, (lowest..=highest).filter(|v| is_free(out, v)).collect()))
                    });
                    let (out, channels) = preferred.unwrap_or_else(|| {
                        let wants = input.wants.get_or_insert_with(|| p.net.route(r, dst, front, vcs));
                        (wants.0, (wants.1..=wants.2).filter(|v| is_free(wants.0, v)).collect())
                    });
                    let open: Vec<usize> = channels.into_iter().map(|v| out * vcs + v).collect();
                    if let Some(o) = turn(&open, input.pointer) {
                        picked.push(((port, vc), (o / vcs, o % vcs)));
                    }
                }
            }
            let mut nominated: Vec<(usize, usize, usize)> = Vec::new(); // input port, channel, output port
            for port in 0..ports {
                if state[r][port].in_busy_until > now {
                    continue;
                }
                let ready: Vec<(usize, usize)> = (0..vcs)
                    .filter_map(|vc| {
                        let input = &inputs[r][port][vc];
                        let (out, ov) = input.output?;
                        let flits = sent[input.packets.front()?.index].flits;
                        (input.switch_from <= now
                            && outputs[r][out][ov].credits >= flits as i64
                            && state[r][out].out_busy_until <= now)
                            .then_some((vc, out))
                    })
                    .collect();
                let outs: Vec<usize> = ready.iter().map(|x| x.1).collect();
                let Some(out) = turn(&outs, state[r][port].output_pointer) else { continue };
                let channels: Vec<usize> = ready.iter().filter(|x| x.1 == out).map(|x| x.0).collect();
                let vc = turn(&channels, state[r][port].channel_pointer).unwrap();
                nominated.push((port, vc, out));
            }
            // Step 2: output channels.
            for out in 0..ports {
                for ov in 0..vcs {
                    let asking: Vec<usize> =
                        picked.iter().filter(|x| x.1 == (out, ov)).map(|x| x.0.0 * vcs + x.0.1).collect();
                    if let Some(i) = turn(&asking, outputs[r][out][ov].pointer) {
                        let input = &mut inputs[r][i / vcs][i % vcs];
                        input.output = Some((out, ov));
                        input.switch_from = now + 1;
                        input.pointer = out * vcs + ov + 1;
                        outputs[r][out][ov].owner = Some((i / vcs, i % vcs));
                        outputs[r][out][ov].pointer = i + 1;
                    }
                }
            }
            // Step 2: the switch.
            for out in 0..ports {
                let asking: Vec<usize> = nominated.iter().filter(|n| n.2 == out).map(|n| n.0).collect();
                let Some(port) = turn(&asking, state[r][out].input_pointer) else { continue };
                let vc = nominated.iter().find(|n| n.0 == port).unwrap().1;
                state[r][out].input_pointer = port + 1;
                state[r][port].output_pointer = out + 1;
                state[r][port].channel_pointer = (vc + 1) % vcs;
                let input = &mut inputs[r][port][vc];
                let packet = input.packets.pop_front().unwrap();
                let flits = sent[packet.index].flits;
                bound[r][out] -= flits as i64;
                let (_, ov) = input.output.take().unwrap();
                input.wants = None;
                input.asks_from = now + flits;
                state[r][port].in_busy_until = now + flits;
                state[r][out].out_busy_until = now + flits;
                let output = &mut outputs[r][out][ov];
                output.owner = None;
                output.owned_until = now + flits;
                output.credits -= flits as i64;
                match p.net.far(r, port) {
                    Far::Router(up, up_port) => {
                        let credit = Happens::Credit { router: up, port: up_port, vc, flits: flits as i64 };
                        coming.push((now + 3 + p.net.delay(r, port), credit));
                    }
                    Far::Endpoint(source) => {
                        coming.push((now + 2, Happens::SourceCredit { source, vc, flits: flits as i64 }));
                    }
                }
                match p.net.far(r, out) {
                    Far::Router(router, port) => {
                        let at = now + 2 + p.net.delay(r, out);
                        coming.push((at, Happens::Head { router, port, vc: ov, packet }));
                    }
                    Far::Endpoint(_) => {
                        coming.push((now + 7, Happens::Credit { router: r, port: out, vc: ov, flits: flits as i64 }));
                        received.push((packet.index, (now + 3 + flits - 1) * cycle, packet.routers));
                    }
                }
            }
        }
        let all = |r: usize| (0..ports).map(|o| bound[r][o] + used(&outputs[r][o])).collect();
        before.push_front((0..routers).map(all).collect());
        before.truncate(REMEMBERED);
        now += 1;
    }
    received.sort();
    received
}
