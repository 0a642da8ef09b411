//! Whether what happened may have ended a job.

use super::schedule::{Act, Schedule};
use angara_fabric::bits::bits;
use angara_fabric::{Config, Fabric, Link};
use angara_net::fault::Fault;
use angara_net::torus::{Direction, NodeId, Shape};

/// How long something that is over may still have effects, in milliseconds: hosts that were lost come back.
const AFTER: u64 = 3_000;
/// More than this many things at once may end any job.
const MANY: usize = 7;

/// Something that was gone for so long that hosts may have noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gone {
    Host(usize),
    Trunk(usize, usize),
    Link(NodeId, Direction),
}

/// Everything that was gone at some time: from when, until when.
#[derive(Default)]
pub(super) struct Troubles(Vec<(u64, u64, Gone)>);

impl Troubles {
    /// A daemon has ended, and the next one starts at `until`.
    pub(super) fn without_daemon(&mut self, now: u64, until: u64, host: usize) {
        self.0.push((now, until, Gone::Host(host)));
    }

    /// Notes what an act may do to jobs.
    pub(super) fn note(&mut self, now: u64, act: &Act, schedule: &Schedule) {
        let hosts = schedule.hosts;
        let pairs = || (0..hosts).flat_map(move |a| (a + 1..hosts).map(move |b| (a, b)));
        match act {
            Act::Crash(host, lasts) | Act::Shutdown(host, lasts) => self.without_daemon(now, now + lasts, *host),
            Act::Freeze(host, lasts) | Act::Stall(host, lasts) if *lasts >= 150 => {
                self.without_daemon(now, now + lasts, *host)
            }
            Act::Split(set, lasts) => {
                let apart = pairs().filter(|(a, b)| (set >> a & 1) != (set >> b & 1));
                self.0.extend(apart.map(|(a, b)| (now, now + lasts, Gone::Trunk(a, b))));
            }
            Act::Bad(a, b, [loss, ..]) if *loss >= 30 => {
                self.0.push((now, u64::MAX, Gone::Trunk(*a.min(b), *a.max(b))));
            }
            Act::Fault(host, text) => self.note_fault(now, *host, text, schedule),
            _ => {}
        }
    }

    fn note_fault(&mut self, now: u64, host: usize, text: &str, schedule: &Schedule) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (shape, hosts) = (schedule.shape, schedule.hosts);
        let mut add = |gone| self.0.push((now, u64::MAX, gone));
        match words[..] {
            ["trunk", "all", "down"] => {
                (0..hosts).flat_map(|a| (a + 1..hosts).map(move |b| Gone::Trunk(a, b))).for_each(add);
            }
            ["trunk", name, "down"] => {
                let other: usize = name[1..].parse().expect("the number of a host");
                add(Gone::Trunk(host.min(other), host.max(other)));
            }
            ["link", at, dir, what, ..] if what == "down" || what.starts_with("corrupt") => {
                let at = shape.parse_coords(at).ok().and_then(|at| shape.id(at)).expect("a node");
                add(Gone::Link(at, dir.parse().expect("a direction")));
            }
            ["node", at, what, ..] if what.starts_with("drop") => {
                let at = shape.parse_coords(at).ok().and_then(|at| shape.id(at)).expect("a node");
                Direction::ALL
                    .into_iter()
                    .filter(|d| shape.neighbour(at, *d).is_some())
                    .for_each(|d| add(Gone::Link(at, d)));
            }
            _ => {}
        }
    }

    /// True if a job of these nodes with its launcher at `coordinator` may have ended for what was gone, some of it or all.
    pub(super) fn may_end(
        &self,
        began: u64,
        ended: u64,
        coordinator: usize,
        nodes: &[NodeId],
        schedule: &Schedule,
    ) -> bool {
        let mut gone: Vec<Gone> = Vec::new();
        for (from, until, what) in &self.0 {
            if *from <= ended && until.saturating_add(AFTER) >= began && !gone.contains(what) {
                gone.push(*what);
            }
        }
        let of = |subset: u32| bits(subset).map(|i| gone[i as usize]);
        gone.len() > MANY
            || (0..1u32 << gone.len()).any(|s| !works(schedule, coordinator, nodes, &of(s).collect::<Vec<_>>()))
    }
}

/// True if packets can go from each of `nodes` to each other, and messages between their hosts and `coordinator`, without
/// `gone`.
fn works(schedule: &Schedule, coordinator: usize, nodes: &[NodeId], gone: &[Gone]) -> bool {
    let (shape, hosts): (Shape, usize) = (schedule.shape, schedule.hosts);
    let cut = |a: usize, b: usize| {
        gone.contains(&Gone::Trunk(a.min(b), a.max(b)))
            || gone.contains(&Gone::Host(a))
            || gone.contains(&Gone::Host(b))
    };
    let mut reached = vec![coordinator];
    for at in 0.. {
        let Some(&host) = reached.get(at) else { break };
        let more = (0..hosts).filter(|h| !reached.contains(h) && !cut(host, *h));
        reached.extend(more.collect::<Vec<_>>());
    }
    let takes_part = |host: usize| reached.contains(&host) && !gone.contains(&Gone::Host(host));
    if !takes_part(coordinator) || !nodes.iter().all(|n| takes_part(schedule.owner(*n))) {
        return false;
    }
    let mut network = Fabric::new(Config::new(shape)).expect("a network");
    let mut down = |fault| network.set_fault(fault).expect("it is there");
    for node in 0..shape.nodes() as NodeId {
        let host = schedule.owner(node);
        if !takes_part(host) {
            down(Fault::node_down(node));
            continue;
        }
        for dir in Direction::ALL {
            let Some(far) = shape.neighbour(node, dir) else { continue };
            let other = schedule.owner(far);
            if gone.contains(&Gone::Link(node, dir)) || host != other && cut(host, other) {
                down(Fault::link_down(Link { node, dir }));
            }
        }
    }
    nodes.iter().all(|from| nodes.iter().all(|to| network.reachable(*from, *to)))
}
