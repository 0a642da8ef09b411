//! Ways through a graph, one table per kind of routing.

use super::table::Table;
use super::wiring::{Link, Wiring};
use crate::topology::contract::{Class, Classes, Hop, RouteState, Routing};
use angara_fabric::bits::bits;
use angara_fabric::rng::below;

/// Links between every two routers.
pub(super) struct Distances {
    /// Those to router d from router r at d·routers + r.
    rows: Vec<u16>,
    /// Of the longest route.
    longest: u32,
}

/// Shortest ways that go up, then down: a link leads up if its end is nearer to the root, or as near and has the
/// smaller number.
pub(super) struct Legal {
    /// Hops of the ways to router d from router r that only go down, at d·routers + r.
    down: Vec<u16>,
    /// The same of ways that may go up first.
    any: Vec<u16>,
    /// Place of every router in the order by distance to the root and number.
    place: Vec<u32>,
}

/// How packets find their way.
pub(super) enum Ways {
    Minimal(Distances),
    Valiant(Distances),
    UpDown(Legal),
    Table(Table),
}

/// What [`RouteState::lo`] of a packet holds: destination, then a mark of the routing, then the hops done.
const MARK: u32 = 24;
const DONE: u32 = 48;

/// The root of up*/down* routing.
const ROOT: u32 = 0;

impl Distances {
    fn new(wiring: &Wiring, factor: u32) -> Distances {
        let n = wiring.routers();
        let rows: Vec<u16> = (0..n as u32).flat_map(|d| wiring.distances(d)).collect();
        let ends: Vec<usize> = (0..n).filter(|&r| wiring.terminals(r as u32) > 0).collect();
        // A detour may lead anywhere, a direct way leads to a router with terminals.
        let row = |d: usize| ends.iter().map(|&r| u32::from(rows[d * n + r])).max().unwrap_or(0);
        let farthest = if factor == 1 { ends.iter().map(|&d| row(d)).max() } else { (0..n).map(row).max() };
        let longest = if ends.len() == 1 { 0 } else { factor * farthest.unwrap_or(0) };
        Distances { rows, longest }
    }
    #[inline(always)]
    fn row(&self, to: u32, n: usize) -> &[u16] {
        &self.rows[to as usize * n..][..n]
    }
}

impl Legal {
    fn new(wiring: &Wiring) -> Legal {
        let n = wiring.routers();
        let level = wiring.distances(ROOT);
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.sort_by_key(|&r| (level[r as usize], r));
        let mut place = vec![0; n];
        (0..).zip(&order).for_each(|(p, &r)| place[r as usize] = p);
        let up = |from: u32, link: &&Link| place[link.to as usize] < place[from as usize];
        let (mut down, mut any) = (vec![u16::MAX; n * n], vec![u16::MAX; n * n]);
        for d in 0..n as u32 {
            let (down, any) = (&mut down[d as usize * n..][..n], &mut any[d as usize * n..][..n]);
            down[d as usize] = 0;
            let mut queue = std::collections::VecDeque::from([d]);
            while let Some(r) = queue.pop_front() {
                // The link back leads down.
                for link in wiring.links(r).iter().filter(|l| up(r, l)) {
                    if down[link.to as usize] == u16::MAX {
                        down[link.to as usize] = down[r as usize] + 1;
                        queue.push_back(link.to);
                    }
                }
            }
            for &r in &order {
                let above = wiring.links(r).iter().filter(|l| up(r, l)).map(|l| any[l.to as usize].saturating_add(1));
                any[r as usize] = above.min().unwrap_or(u16::MAX).min(down[r as usize]);
            }
        }
        Legal { down, any, place }
    }
}

/// The number of one of `ports`, drawn if there are several.
#[inline(always)]
fn one_of(ports: u64, route: &mut RouteState) -> u32 {
    match u64::from(ports.count_ones()) {
        0 | 1 => ports.trailing_zeros(),
        several => bits(ports).nth(below(route.advance(), several) as usize).expect("fewer than there are"),
    }
}

/// Ports of `links` that a condition holds of.
#[inline(always)]
fn ports(links: &[Link], fits: impl Fn(&Link) -> bool) -> u64 {
    links.iter().enumerate().filter(|(_, link)| fits(link)).fold(0, |ports, (p, _)| ports | 1 << p)
}

impl Ways {
    /// Ways of a kind that needs no file.
    pub(super) fn new(wiring: &Wiring, routing: Routing) -> Option<Ways> {
        match routing {
            Routing::Minimal => Some(Ways::Minimal(Distances::new(wiring, 1))),
            Routing::Valiant => Some(Ways::Valiant(Distances::new(wiring, 2))),
            Routing::UpDown => Some(Ways::UpDown(Legal::new(wiring))),
            _ => None,
        }
    }
    pub(super) fn routing(&self) -> Routing {
        match self {
            Ways::Minimal(_) => Routing::Minimal,
            Ways::Valiant(_) => Routing::Valiant,
            Ways::UpDown(_) => Routing::UpDown,
            Ways::Table(_) => Routing::Table,
        }
    }
    pub(super) fn classes(&self) -> Classes {
        match self {
            Ways::Minimal(d) | Ways::Valiant(d) => Classes::Steps(d.longest.max(1)),
            Ways::UpDown(_) => Classes::One,
            Ways::Table(t) => t.classes(),
        }
    }
    pub(super) fn start(&self, wiring: &Wiring, src: u32, dst: u32, random: u64) -> RouteState {
        let mut route = RouteState { lo: dst.into(), hi: random };
        if let Ways::Valiant(_) = self {
            let [from, to] = [src, dst].map(|e| wiring.at[e as usize]);
            if from != to {
                route.lo |= (1 + below(route.advance(), wiring.routers() as u64)) << MARK;
            }
        }
        route
    }
    /// The hop of a packet at a router.
    #[inline(always)]
    pub(super) fn next(&self, wiring: &Wiring, router: u32, route: &mut RouteState) -> Hop {
        let dst = route.lo as u32 & ((1 << MARK) - 1);
        let mut mark = (route.lo >> MARK) as u32 & ((1 << (DONE - MARK)) - 1);
        let to = wiring.at[dst as usize];
        if matches!(self, Ways::Valiant(_)) && mark == router + 1 {
            mark = 0;
            route.lo &= !(((1 << (DONE - MARK)) - 1) << MARK);
        }
        let detour = matches!(self, Ways::Valiant(_)) && mark != 0;
        if router == to && !detour {
            return Hop { port: wiring.port_of(dst), class: Class::Any };
        }
        let (links, n) = (wiring.links(router), wiring.routers());
        let step = Class::Step((route.lo >> DONE) as u8);
        route.lo = route.lo.wrapping_add(1 << DONE);
        let (port, class) = match self {
            Ways::Minimal(d) | Ways::Valiant(d) => {
                let row = d.row(if detour { mark - 1 } else { to }, n);
                let here = row[router as usize];
                (one_of(ports(links, |l| row[l.to as usize] < here), route), step)
            }
            Ways::UpDown(legal) => {
                let (down, any) = (&legal.down[to as usize * n..][..n], &legal.any[to as usize * n..][..n]);
                let up = |l: &Link| legal.place[l.to as usize] < legal.place[router as usize];
                let left = if mark != 0 { down[router as usize] } else { any[router as usize] };
                let fits = |l: &Link| match up(l) {
                    true => mark == 0 && any[l.to as usize] < left && any[l.to as usize] + 1 == left,
                    false => down[l.to as usize] < left && down[l.to as usize] + 1 == left,
                };
                let port = one_of(ports(links, fits), route);
                if !up(&links[port as usize]) {
                    route.lo |= 1 << MARK;
                }
                (port, Class::Any)
            }
            Ways::Table(t) => t.hop(router, to),
        };
        Hop { port: links[port as usize].out, class }
    }
    /// A number that tells these ways from others.
    pub(super) fn digest(&self) -> u64 {
        match self {
            Ways::Table(t) => t.digest(),
            other => other.routing() as u64,
        }
    }
}
