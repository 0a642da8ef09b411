//! Which port of which router leads where.

use super::read::shown;
use crate::topology::contract::{End, FULL_RATE, LinkRate, PORTS_MAX, check_nodes};
use angara_fabric::rng::mix;
use std::collections::{HashMap, VecDeque};

/// Most routers of a graph: its tables have an entry for every two of them.
pub(super) const ROUTERS_MAX: usize = 4096;

/// A link as it was given.
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Cycles of a flit from `from` to `to`, and back.
    pub(super) delays: [u8; 2],
    /// Flits per cycle in either direction, in parts per million.
    pub(super) ppm: u32,
    /// Line of the file; 0 without one.
    pub(super) line: usize,
}

/// A graph whose parts have not been checked.
pub(super) struct Draft {
    /// What people call the routers.
    pub(super) labels: Vec<String>,
    /// True if these are names, not numbers.
    pub(super) named: bool,
    pub(super) links: Vec<Edge>,
    pub(super) terminals: Vec<u32>,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// The router it leads to, and the port there.
    pub(super) to: u32,
    pub(super) port: u8,
    pub(super) delay: u8,
    /// The port it leaves through.
    pub(super) out: u8,
}

/// A graph that has been checked. A router's links are its first ports, in the order given; its terminals follow. Of what
/// is left of another network, links and terminals have the ports that they have there.
pub(super) struct Wiring {
    pub(super) labels: Vec<String>,
    pub(super) named: bool,
    /// First link of every router, and the end.
    first: Vec<u32>,
    links: Vec<Link>,
    /// First endpoint of every router, and the end.
    endpoints: Vec<u32>,
    /// Router of every endpoint.
    pub(super) at: Vec<u32>,
    /// Its port there.
    at_port: Vec<u8>,
    pub(super) ports: usize,
    /// Of links that are slower than others.
    pub(super) rates: Vec<LinkRate>,
}

impl Wiring {
    /// The graph of `draft`, read from `file`.
    pub(super) fn new(file: &str, draft: Draft) -> Result<Wiring, String> {
        let routers = draft.labels.len();
        if routers == 0 {
            return Err(format!("{file}: no routers; give lines ROUTER ROUTER"));
        }
        if routers > ROUTERS_MAX {
            return Err(format!("{file}: {routers} routers; at most {ROUTERS_MAX} are supported"));
        }
        let mut of: Vec<Vec<Link>> = vec![Vec::new(); routers];
        let (mut seen, mut rates) = (HashMap::new(), Vec::new());
        let label = |r: u32| shown(&draft.labels[r as usize]);
        for &Edge { from, to, delays, ppm, line } in &draft.links {
            let wrong = |why: String| format!("{file}, line {line}: {why}");
            if from == to {
                return Err(wrong(format!("router {} is linked to itself; leave the line out", label(from))));
            }
            // Parallel links have one line.
            if let Some(before) = seen.insert((from.min(to), from.max(to)), line).filter(|&before| before != line) {
                let (from, to) = (label(from), label(to));
                return Err(wrong(format!(
                    "routers {from} and {to} are linked in line {before} already; leave one out, or write x2 at the end \
                     of one for two links"
                )));
            }
            let (a, b) = (from as usize, to as usize);
            let ports = [of[a].len(), of[b].len()].map(|n| n as u8);
            if let Some(r) = [from, to].into_iter().find(|&r| of[r as usize].len() >= PORTS_MAX) {
                return Err(wrong(format!("router {} has more than {PORTS_MAX} links; take some away", label(r))));
            }
            of[a].push(Link { to, port: ports[1], delay: delays[0], out: ports[0] });
            of[b].push(Link { to: from, port: ports[0], delay: delays[1], out: ports[1] });
            if ppm < FULL_RATE {
                let ends = [(from, ports[0]), (to, ports[1])];
                rates.extend([[0, 1], [1, 0]].map(|[a, b]| LinkRate { from: ends[a], to: ends[b], ppm, since: 0 }));
            }
        }
        let all: u64 = draft.terminals.iter().map(|&n| u64::from(n)).sum();
        if all == 0 {
            return Err(format!("{file}: no terminals; add a line such as `terminals 1`"));
        }
        check_nodes(all)?;
        for (r, links) in of.iter().enumerate() {
            let (links, terminals) = (links.len(), draft.terminals[r] as usize);
            if links + terminals > PORTS_MAX {
                return Err(format!(
                    "{file}: router {} has {links} links and {terminals} terminals; a router has at most {PORTS_MAX} \
                     ports",
                    label(r as u32)
                ));
            }
        }
        let terminals = |(links, &n): (&Vec<Link>, &u32)| (0..n).map(|t| links.len() as u8 + t as u8).collect();
        let terminals = of.iter().zip(&draft.terminals).map(terminals).collect();
        let wiring = Wiring { rates, ..Wiring::of((draft.labels, draft.named), &of, terminals) };
        wiring.check_connected(file)?;
        Ok(wiring)
    }

    /// Routers of these names, whose links, and ports of terminals, are these.
    pub(super) fn of((labels, named): (Vec<String>, bool), of: &[Vec<Link>], terminals: Vec<Vec<u8>>) -> Wiring {
        let sums = |counts: &mut dyn Iterator<Item = usize>| {
            let mut sums = vec![0];
            counts.for_each(|n| sums.push(sums[sums.len() - 1] + n as u32));
            sums
        };
        let ports = of.iter().zip(&terminals).map(|(links, ends)| links.len() + ends.len()).max().unwrap_or(0);
        let first = sums(&mut of.iter().map(Vec::len));
        let endpoints = sums(&mut terminals.iter().map(Vec::len));
        let at = (0..).zip(&terminals).flat_map(|(r, ends)| ends.iter().map(move |_| r)).collect();
        let (links, at_port) = (of.concat(), terminals.concat());
        Wiring { labels, named, first, links, endpoints, at, at_port, ports, rates: Vec::new() }
    }

    fn check_connected(&self, file: &str) -> Result<(), String> {
        let distance = self.distances(0);
        let cut: Vec<usize> = (0..self.routers()).filter(|&r| distance[r] == u16::MAX).collect();
        if cut.is_empty() {
            return Ok(());
        }
        let some: Vec<String> = cut.iter().take(8).map(|&r| shown(&self.labels[r])).collect();
        let more = if cut.len() > some.len() { format!(" and {} more", cut.len() - some.len()) } else { String::new() };
        let (some, from) = (some.join(", "), shown(&self.labels[0]));
        Err(format!("{file}: no way leads from router {from} to {some}{more}; add a link"))
    }

    pub(super) fn routers(&self) -> usize {
        self.labels.len()
    }
    /// Links of a router, in order of its ports.
    #[inline(always)]
    pub(super) fn links(&self, router: u32) -> &[Link] {
        &self.links[self.first[router as usize] as usize..self.first[router as usize + 1] as usize]
    }
    /// First port of a router that leads to an endpoint.
    #[inline(always)]
    pub(super) fn degree(&self, router: u32) -> u32 {
        self.first[router as usize + 1] - self.first[router as usize]
    }
    pub(super) fn terminals(&self, router: u32) -> u32 {
        self.endpoints[router as usize + 1] - self.endpoints[router as usize]
    }
    pub(super) fn end(&self, router: u32, port: u8) -> End {
        if let Some(link) = self.links(router).get(usize::from(port)) {
            return End::Router { router: link.to, port: link.port };
        }
        match u32::from(port) - self.degree(router) {
            n if n < self.terminals(router) => End::Endpoint(self.endpoints[router as usize] + n),
            _ => End::Open,
        }
    }
    /// Port of an endpoint at its router.
    #[inline(always)]
    pub(super) fn port_of(&self, endpoint: u32) -> u8 {
        self.at_port[endpoint as usize]
    }
    /// Links from every router to `router`; `u16::MAX` if there is no way.
    pub(super) fn distances(&self, router: u32) -> Vec<u16> {
        let mut distance = vec![u16::MAX; self.routers()];
        distance[router as usize] = 0;
        let mut queue = VecDeque::from([router]);
        while let Some(r) = queue.pop_front() {
            for link in self.links(r) {
                if distance[link.to as usize] == u16::MAX {
                    distance[link.to as usize] = distance[r as usize] + 1;
                    queue.push_back(link.to);
                }
            }
        }
        distance
    }
    /// A number that tells this graph from others.
    pub(super) fn digest(&self) -> u64 {
        let mut words: Vec<u64> = self.first.iter().chain(&self.endpoints).map(|&n| n.into()).collect();
        let link =
            |l: &Link| u64::from(l.to) << 24 | u64::from(l.out) << 16 | u64::from(l.port) << 8 | u64::from(l.delay);
        words.extend(self.links.iter().map(link).chain(self.at_port.iter().map(|&port| port.into())));
        let rate = |l: &LinkRate| [l.from.0.into(), l.from.1.into(), u64::from(l.ppm)];
        words.extend(self.rates.iter().flat_map(rate));
        words.extend(self.labels.iter().flat_map(|l| l.bytes().map(u64::from).chain([256])));
        digest(words)
    }
}

/// A number that tells these from others.
pub(super) fn digest(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(1, |d, word| mix(mix(d).wrapping_add(word)))
}
