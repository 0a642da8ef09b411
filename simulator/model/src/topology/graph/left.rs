//! What faults leave of a network of any topology, as a graph.

use super::faults::Down;
use super::wiring::{Link, ROUTERS_MAX, Wiring};
use crate::topology::contract::{End, Topology, TopologyError};
use std::sync::Arc;

/// Number of a router or endpoint that is not left.
const NONE: u32 = u32::MAX;
/// Pairs that a refusal names.
const NAMED: usize = 4;

/// The network of whose links and routers a graph consists: it numbers and names them.
pub(super) struct Whole {
    pub(super) topology: Arc<dyn Topology>,
    /// Numbers of its routers and endpoints in the graph.
    routers: Vec<u32>,
    endpoints: Vec<u32>,
    /// Of each of its routers, the ports of links that are left, as a mask.
    links: Vec<u64>,
}

impl Whole {
    /// What the faults leave of `topology`, and its graph.
    pub(super) fn new(
        topology: Arc<dyn Topology>,
        text: &str,
        faults: &[String],
        seed: u64,
    ) -> Result<(Whole, Wiring), TopologyError> {
        let refuse = |why: String| TopologyError { text: text.into(), why };
        let t = &*topology;
        if t.routers() > ROUTERS_MAX {
            return Err(refuse(format!(
                "{} routers; ways round faults, and those of a graph, are for at most {ROUTERS_MAX}",
                t.routers()
            )));
        }
        let receives = |e: u32| t.output(t.attach(e).0, t.attach(e).1) == End::Endpoint(e);
        if !(0..t.endpoints() as u32).all(receives) {
            return Err(refuse("links of one direction have no way back; only its own routes go through".into()));
        }
        let down = Down::read(t, faults, seed)?;
        let links: Vec<u64> = (0..t.routers() as u32).map(|r| live(t, &down, r)).collect();
        let part = parts(t, &links);
        let alive = |e: u32| t.is_up(e) && !down.routers.contains(&t.attach(e).0);
        let ends: Vec<u32> = (0..t.endpoints() as u32).filter(|&e| alive(e)).collect();
        check_joined(t, &part, &ends).map_err(refuse)?;
        // The others have no endpoints, and nobody comes by.
        let kept = |r: u32| part[r as usize] == part[t.attach(ends[0]).0 as usize];
        let routers = numbered(t.routers() as u32, kept);
        let endpoints = numbered(t.endpoints() as u32, alive);
        let whole = Whole { routers, endpoints, links, topology: topology.clone() };
        let wiring = whole.wiring();
        Ok((whole, wiring))
    }

    /// The graph of what is left.
    fn wiring(&self) -> Wiring {
        let t = &*self.topology;
        let kept: Vec<u32> = (0..t.routers() as u32).filter(|&r| self.routers[r as usize] != NONE).collect();
        let links = |&r: &u32| -> Vec<Link> {
            let link = |out| match self.output(r, out) {
                End::Router { router, port } => {
                    let to = self.routers[router as usize];
                    Some(Link { to, port, delay: t.delay(r, out), out })
                }
                _ => None,
            };
            (0..t.ports() as u8).filter_map(link).collect()
        };
        let mut terminals = vec![Vec::new(); kept.len()];
        for e in (0..t.endpoints() as u32).filter(|&e| self.endpoints[e as usize] != NONE) {
            let (router, port) = t.attach(e);
            terminals[self.routers[router as usize] as usize].push(port);
        }
        let labels = kept.iter().map(u32::to_string).collect();
        Wiring::of((labels, false), &kept.iter().map(links).collect::<Vec<_>>(), terminals)
    }
    /// Number of a router in the graph.
    #[inline(always)]
    pub(super) fn router(&self, router: u32) -> u32 {
        self.routers[router as usize]
    }
    /// Number of an endpoint in the graph, unless its router is down.
    pub(super) fn endpoint(&self, endpoint: u32) -> Option<u32> {
        Some(self.endpoints[endpoint as usize]).filter(|&e| e != NONE)
    }
    pub(super) fn output(&self, router: u32, port: u8) -> End {
        match self.topology.output(router, port) {
            End::Router { .. } if self.links[router as usize] >> port & 1 == 0 => End::Open,
            end => end,
        }
    }
    /// Words that tell this from others.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        self.routers.iter().map(|&r| u64::from(r)).chain(self.links.iter().copied())
    }
}

/// Ports of the links of a router that are left, as a mask.
fn live(t: &dyn Topology, down: &Down, r: u32) -> u64 {
    let is_left = |&port: &u8| match t.output(r, port) {
        End::Router { router, .. } => {
            !down.links.contains(&(r, port)) && ![r, router].iter().any(|r| down.routers.contains(r))
        }
        _ => false,
    };
    (0..t.ports() as u8).filter(is_left).fold(0, |ports, port| ports | 1 << port)
}

/// Numbers from 0 of those that are kept.
fn numbered(count: u32, kept: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut next = 0..;
    (0..count).map(|n| if kept(n) { next.next().expect("numbers do not end") } else { NONE }).collect()
}

/// For every router the first one that it can reach.
fn parts(t: &dyn Topology, links: &[u64]) -> Vec<u32> {
    let mut part = vec![NONE; links.len()];
    for first in 0..links.len() as u32 {
        let mut todo = vec![first];
        while let Some(r) = todo.pop() {
            if part[r as usize] != NONE {
                continue;
            }
            part[r as usize] = first;
            for port in (0..t.ports() as u8).filter(|port| links[r as usize] >> port & 1 != 0) {
                if let End::Router { router, .. } = t.output(r, port) {
                    todo.push(router);
                }
            }
        }
    }
    part
}

/// Refuses endpoints that cannot reach each other.
fn check_joined(t: &dyn Topology, part: &[u32], ends: &[u32]) -> Result<(), String> {
    let of = |e: u32| part[t.attach(e).0 as usize];
    let Some(&first) = ends.first() else {
        return Err("every endpoint's router is down; leave some of them".into());
    };
    let mut sizes = vec![0u64; part.len()];
    ends.iter().for_each(|&e| sizes[of(e) as usize] += 1);
    let all = ends.len() as u64;
    let apart: u64 = sizes.iter().map(|n| n * (all - n)).sum();
    if apart == 0 {
        return Ok(());
    }
    let others = ends.iter().filter(|&&e| of(e) != of(first)).take(NAMED);
    let named: Vec<String> = others.map(|e| format!("{first} and {e}")).collect();
    let more = if apart > 2 * named.len() as u64 { ", …" } else { "" };
    Err(format!(
        "{apart} pairs of endpoints have no way to each other: {}{more}; give fewer faults, or routers that are cut off \
         as `node ROUTER down`",
        named.join(", ")
    ))
}
