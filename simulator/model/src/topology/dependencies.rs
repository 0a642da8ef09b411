//! Channels that packets wait for while they hold others, and circles of these.
//!
//! A packet that holds a channel waits for the next one of its way. If no chain of such waits comes back to where it
//! began, somebody can always go on: nothing deadlocks (Dally and Seitz 1987). A channel here is one class of virtual
//! channels of a link; those to endpoints always empty.
//!
//! Where a packet may escape at any time, it waits for its escape channel only, and counts as if it still held all
//! escape channels it has been in. If no chain of these waits closes, escapes empty, and with them everything else
//! (Duato 1993).

use super::contract::{Class, Classes, End, Hop, Options, Outputs, Route, Topology};
use angara_fabric::bits::bits;
use angara_fabric::rng::{below, mix};
use std::collections::{HashMap, HashSet};

/// Queues that a packet meets on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queues {
    /// None.
    Empty,
    /// Half of all ports are full, by this random word.
    Random(u64),
}

/// Queues as the router `here` sees them.
struct Seen {
    queues: Queues,
    here: u32,
}

impl Outputs for Seen {
    fn used(&self, port: u8) -> u32 {
        self.bound(self.here, port)
    }
    fn owned(&self, _port: u8) -> u32 {
        0
    }
    fn bound(&self, router: u32, port: u8) -> u32 {
        match self.queues {
            Queues::Random(word) if mix(word ^ u64::from(router) << 8 ^ u64::from(port)).is_multiple_of(2) => FULL,
            _ => 0,
        }
    }
}

/// Flits of a full queue.
const FULL: u32 = 1000;

/// What a packet does at a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The router.
    pub router: u32,
    /// The port it leaves through.
    pub port: u8,
    /// The channels it may use there.
    pub class: Class,
    /// The hop it may take instead at any time, if there is one.
    pub escape: Option<Hop>,
}

/// One of a packet's options, drawn at random: the port of any shortest way, or also the escape where there are queues.
fn any(options: &Options, word: u64, queues: Queues) -> Hop {
    let ports: Vec<u32> = bits(options.ports).collect();
    let escapes = usize::from(queues != Queues::Empty || ports.is_empty());
    match ports.get(below(word, (ports.len() + escapes) as u64) as usize) {
        Some(&port) => Hop { port: port as u8, class: Class::ADAPTIVE },
        None => options.escape,
    }
}

/// Ways of packets as the engine routes them.
pub trait Ways: Topology {
    /// The way of a packet with the random word `random`, from its source to its destination. One of more than 8 times
    /// as many hops as there are routers ends there.
    fn way(&self, pair: (u32, u32), random: u64, queues: Queues) -> Vec<Step>;
}

impl<T: Route> Ways for T {
    fn way(&self, (src, dst): (u32, u32), random: u64, queues: Queues) -> Vec<Step> {
        let mut route = self.start(src, dst, random);
        let (mut here, mut input) = self.attach(src);
        let mut way = Vec::new();
        while way.len() < 8 * self.routers() {
            let (hop, escape) = if Self::ADAPTS && self.routing().adapts() {
                self.came(input, &mut route);
                let options = self.options(here, &route);
                (any(&options, mix(random ^ way.len() as u64), queues), Some(options.escape))
            } else {
                (self.choose(here, input, &mut route, &Seen { queues, here }), None)
            };
            way.push(Step { router: here, port: hop.port, class: hop.class, escape });
            let End::Router { router, port } = self.output(here, hop.port) else { break };
            (here, input) = (router, port);
        }
        way
    }
}

/// A class of channels of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Channel {
    /// The router it leaves.
    pub router: u32,
    /// The port it leaves through.
    pub port: u8,
    /// Its class, from 0; the only one if there are none.
    pub class: u8,
}

/// Channels of which each waits for the next one, the last for the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Circle(pub Vec<Channel>);

impl Circle {
    /// The circle in words.
    pub fn shown(&self, topology: &dyn Topology) -> String {
        let one = |c: &Channel| {
            let to = match topology.output(c.router, c.port) {
                End::Router { router, .. } => topology.router_name(router),
                _ => topology.port_name(c.port),
            };
            let class = if topology.classes().count() > 1 { format!(" class {}", c.class) } else { String::new() };
            format!("{} → {to}{class}", topology.router_name(c.router))
        };
        let shown: Vec<String> = self.0.iter().take(12).map(one).collect();
        let more = if self.0.len() > shown.len() { ", …" } else { "" };
        format!("{}{more}", shown.join(", "))
    }
}

/// The classes a packet may use, as numbers.
fn classes(topology: &dyn Topology, class: Class) -> std::ops::Range<u8> {
    let all = topology.classes();
    match (all, class) {
        (Classes::Halves, Class::Lower) => 0..1,
        (Classes::Halves, Class::Upper) => 1..2,
        (Classes::Steps(_), Class::Step(k)) => k..k + 1,
        (Classes::Escape(_), Class::Lower) => 0..1,
        (Classes::Escape(_), Class::Upper) => 1..2,
        (Classes::Escape(n), Class::Step(_)) => n as u8..n as u8 + 1,
        _ => 0..all.count() as u8,
    }
}

/// Which channels packets wait for, by the one they hold, from `words` ways of every pair of routers: the first one
/// without queues, the others through random ones.
fn waits(topology: &dyn Ways, words: u64) -> HashMap<Channel, HashSet<Channel>> {
    let mut waits: HashMap<Channel, HashSet<Channel>> = HashMap::new();
    let endpoints = topology.endpoints() as u32;
    // Endpoints of a router take the same ways between routers.
    let firsts = (0..endpoints).filter(|&e| e == 0 || topology.attach(e).0 != topology.attach(e - 1).0);
    let firsts: Vec<u32> = firsts.filter(|&e| topology.is_up(e)).collect();
    for (&src, &dst) in firsts.iter().flat_map(|s| firsts.iter().map(move |d| (s, d))) {
        for word in 0..words {
            let random = mix(u64::from(src) << 40 ^ u64::from(dst) << 16 ^ word);
            let queues = if word == 0 { Queues::Empty } else { Queues::Random(random) };
            let mut held: Vec<Channel> = Vec::new();
            for step in topology.way((src, dst), random, queues) {
                if !matches!(topology.output(step.router, step.port), End::Router { .. }) {
                    break;
                }
                let taken = Hop { port: step.port, class: step.class };
                let hop = step.escape.unwrap_or(taken);
                let channel = |class| Channel { router: step.router, port: hop.port, class };
                let wanted: Vec<Channel> = classes(topology, hop.class).map(channel).collect();
                for &channel in &held {
                    waits.entry(channel).or_default().extend(&wanted);
                }
                match step.escape {
                    None => held = wanted,
                    Some(escape) if escape == taken => held.extend(wanted),
                    // What it waits for is the escape; the channel it gets has room for it.
                    Some(_) => {}
                }
            }
        }
    }
    waits
}

/// A circle of channels that packets can wait for, in `words` ways of every pair: the first one without queues, the
/// others through random ones.
pub fn circle(topology: &dyn Ways, words: u64) -> Option<Circle> {
    circle_of(&waits(topology, words))
}

fn circle_of(waits: &HashMap<Channel, HashSet<Channel>>) -> Option<Circle> {
    let sorted = |channels: &mut dyn Iterator<Item = Channel>| {
        let mut channels: Vec<Channel> = channels.collect();
        channels.sort_unstable();
        channels
    };
    let mut done = HashSet::new();
    for start in sorted(&mut waits.keys().copied()) {
        // Channels under way, with those they wait for that have not been looked at.
        let mut path: Vec<(Channel, Vec<Channel>)> = Vec::new();
        let mut on_path = HashSet::new();
        let mut next = Some(start);
        loop {
            if let Some(channel) = next.take().filter(|c| !done.contains(c)) {
                if on_path.contains(&channel) {
                    let circle = path.iter().map(|p| p.0).skip_while(|&c| c != channel).collect();
                    return Some(Circle(circle));
                }
                on_path.insert(channel);
                let after = waits.get(&channel).map(|w| sorted(&mut w.iter().copied())).unwrap_or_default();
                path.push((channel, after));
            }
            let Some((channel, after)) = path.last_mut() else { break };
            next = after.pop();
            if next.is_none() {
                done.insert(*channel);
                on_path.remove(channel);
                path.pop();
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
