//! Dragonfly: groups of routers that are joined completely, and a link or several between every two groups.

use super::contract::{
    Class, Classes, Comparison, DELAY_MAX, End, Hop, Outputs, PORTS_MAX, Route, RouteState, Routing, Topology, Written,
    among, check_nodes, lot, settings,
};
use super::layout::Layout;
use angara_fabric::rng;
use std::fmt;
use std::ops::Range;

/// Most endpoints of a router of the short form: it has four times as many ports, less one.
const ENDPOINTS_MAX: u8 = 16;
/// Flits by which UGAL prefers the shortest way unless told otherwise: BookSim's.
const THRESHOLD: u16 = 30;
/// Cycles of a link within a group, and between groups, unless given.
const LOCAL: u16 = 10;
const GLOBAL: u16 = 100;

/// Router r of group r / a has endpoints at ports 0..p, the other routers of its group at ports p..p+a−1 in
/// ascending order, and h links to other groups at the ports that follow. Link o = h·i + m of a group is the m-th of
/// its router i. The links go round the other groups in ascending order, as often as there are enough for all; what is
/// left leads to the nearest groups by number, in turn the j-th above and the j-th below, the last one half way round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dragonfly {
    /// Endpoints of a router.
    p: u32,
    /// Routers of a group.
    a: u32,
    /// Links of a router to other groups.
    h: u32,
    /// Groups.
    g: u32,
    /// Cycles of a link within a group.
    local: u8,
    /// Cycles of a link between groups.
    global: u8,
    routing: Routing,
    /// Flits by which the shortest way is preferred, where queues decide.
    threshold: u16,
}

/// Where a packet is on its way. Each has a class of virtual channels of its own, in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// To the link that leads to the destination's group, or to a detour if a router of the own group says so.
    Undecided,
    /// To another group than the destination's.
    Detour,
    /// To the link that leads to the destination's group.
    Towards,
    /// On that link, or in the destination's group.
    There,
}

/// Bits of [`RouteState::lo`] for the destination; the group of the detour follows.
const DESTINATION: u32 = 24;
/// Where the packet's lot begins.
const LOT: u32 = 40;
/// Where the phase begins.
const PHASE: u32 = 56;

fn phase(route: &RouteState) -> Phase {
    match route.lo >> PHASE {
        0 => Phase::Undecided,
        1 => Phase::Detour,
        2 => Phase::Towards,
        _ => Phase::There,
    }
}

fn enter(route: &mut RouteState, phase: Phase) {
    route.lo = route.lo & ((1 << PHASE) - 1) | (phase as u64) << PHASE;
}

fn detour(route: &RouteState) -> u32 {
    (route.lo >> DESTINATION) as u32 & 0xffff
}

fn destination(route: &RouteState) -> u32 {
    route.lo as u32 & ((1 << DESTINATION) - 1)
}

impl Dragonfly {
    /// A balanced network of the largest size with `p` endpoints per router, and links of N cycles.
    ///
    /// # Errors
    /// Which numbers are possible.
    pub fn new(p: u8, local: u8, global: u8) -> Result<Dragonfly, String> {
        if !(1..=ENDPOINTS_MAX).contains(&p) {
            return Err(format!("{p} endpoints per router; give 1 to {ENDPOINTS_MAX}"));
        }
        let [k, local, global] = [p, local, global].map(u16::from);
        Dragonfly::with([k, 2 * k, k, 2 * k * k + 1], [local, global])
    }
    /// A network with p endpoints per router, a routers per group, h links per router to other groups, and g groups;
    /// links within and between groups take N cycles.
    ///
    /// # Errors
    /// Which numbers are possible.
    pub fn with([p, a, h, g]: [u16; 4], [local, global]: [u16; 2]) -> Result<Dragonfly, String> {
        let [p, a, h, g] = [p, a, h, g].map(u32::from);
        if p == 0 || a == 0 || h == 0 {
            return Err(format!("p = {p}, a = {a}, h = {h}; give at least 1 of each"));
        }
        let ports = p + a - 1 + h;
        if ports > PORTS_MAX as u32 {
            return Err(format!("{ports} ports (p + a - 1 + h); a router has at most {PORTS_MAX}"));
        }
        if !(2..=a * h + 1).contains(&g) {
            return Err(format!("g = {g} groups of a·h = {} links to others; give 2 to {}", a * h, a * h + 1));
        }
        check_nodes(u64::from(p) * u64::from(a) * u64::from(g))?;
        let cycles = |n: u16| {
            let n = u8::try_from(n).ok().filter(|cycles| (1..=DELAY_MAX).contains(cycles));
            n.ok_or_else(|| format!("links take 1 to {DELAY_MAX} cycles"))
        };
        let (local, global) = (cycles(local)?, cycles(global)?);
        Ok(Dragonfly { p, a, h, g, local, global, routing: Routing::Minimal, threshold: THRESHOLD })
    }
    /// The short form says everything.
    fn is_balanced(&self) -> bool {
        let p = self.p;
        p <= u32::from(ENDPOINTS_MAX) && (self.a, self.h, self.g) == (2 * p, p, 2 * p * p + 1)
    }
    /// Routers of a group.
    fn group(&self) -> u32 {
        self.a
    }
    fn groups(&self) -> u32 {
        self.g
    }
    /// Links from every group to every other, and links of a group beyond these.
    fn rounds(&self) -> (u32, u32) {
        let (links, others) = (self.a * self.h, self.g - 1);
        (links / others, links % others)
    }
    /// The group that link `link` of group `from` leads to, and the number that it has there.
    fn over(&self, from: u32, link: u32) -> Option<(u32, u32)> {
        let (others, (rounds, more)) = (self.g - 1, self.rounds());
        let (round, nth) = (link / others, link % others);
        let to = match nth {
            _ if round < rounds => nth + u32::from(nth >= from),
            _ if nth + 1 == more && more % 2 == 1 => match self.g.is_multiple_of(2) {
                true => (from + self.g / 2) % self.g,
                false => return None,
            },
            _ if nth.is_multiple_of(2) => (from + nth / 2 + 1) % self.g,
            _ => (from + self.g - nth / 2 - 1) % self.g,
        };
        let back = if round < rounds { round * others + from - u32::from(from > to) } else { self.beyond(to, from)? };
        Some((to, back))
    }
    /// The link of group `from` to group `to` beyond those that all pairs have.
    fn beyond(&self, from: u32, to: u32) -> Option<u32> {
        let (rounds, more) = self.rounds();
        let (above, first) = ((to + self.g - from) % self.g, rounds * (self.g - 1));
        let below = self.g - above;
        match more / 2 {
            pairs if above <= pairs => Some(first + 2 * (above - 1)),
            pairs if below <= pairs => Some(first + 2 * (below - 1) + 1),
            _ if more % 2 == 1 && above == below => Some(first + more - 1),
            _ => None,
        }
    }
    /// The group of an endpoint.
    fn home(&self, endpoint: u32) -> u32 {
        endpoint / (self.p * self.a)
    }
    /// The first port to another group.
    fn first_global(&self) -> u32 {
        self.p + self.group() - 1
    }
    /// The port from router `from` of a group to its router `to`.
    fn local_port(&self, from: u32, to: u32) -> u32 {
        self.p + to - u32::from(to > from)
    }
    /// The router of group `from`, and its port, whose link a packet takes to group `to`.
    fn exit(&self, from: u32, to: u32, route: &RouteState) -> (u32, u32) {
        let (others, nth) = (self.g - 1, to - u32::from(to > from));
        // Without a short cut for one link, every hop would pay for those of other networks.
        let link = match self.rounds() {
            (1, 0) => nth,
            (rounds, _) => {
                let beyond = self.beyond(from, to);
                let lot = route.lo >> LOT & 0xffff;
                match among(lot, from, rounds + u32::from(beyond.is_some())) {
                    round if round < rounds => round * others + nth,
                    _ => beyond.expect("the last one"),
                }
            }
        };
        (link / self.h, self.first_global() + link % self.h)
    }
    /// The port at `router` by which a packet gets nearer to another group.
    fn port_to(&self, router: u32, to: u32, route: &RouteState) -> u32 {
        let (group, at) = (router / self.group(), router % self.group());
        let (exit, port) = self.exit(group, to, route);
        if at == exit { port } else { self.local_port(at, exit) }
    }
    /// The first phase of a packet's way to another group.
    fn first(&self) -> Phase {
        match self.routing {
            Routing::Minimal => Phase::Towards,
            Routing::Par => Phase::Undecided,
            _ => Phase::Detour,
        }
    }
    /// Packets choose between their shortest way and a detour by queues.
    fn compares(&self) -> bool {
        matches!(self.routing, Routing::Ugal | Routing::UgalG | Routing::Par)
    }
    /// Of `vcs` virtual channels, those of a phase.
    fn channels(&self, phase: Phase, vcs: u32) -> u32 {
        self.class(phase).count(vcs, self.classes())
    }
    fn class(&self, phase: Phase) -> Class {
        Class::Step(phase as u8 - self.first() as u8)
    }
    /// Draws the group of a detour. False if it is that of the source or of the destination.
    fn draw(&self, route: &mut RouteState, from: u32, to: u32) -> bool {
        let by = rng::below(route.advance(), self.groups().into()) as u32;
        route.lo = route.lo & !(0xffff << DESTINATION) | u64::from(by) << DESTINATION;
        by != from && by != to
    }
    /// Whether a packet at `router` gets to its destination sooner by the detour drawn: twice its queue is shorter than
    /// that of the shortest way by more than a threshold.
    fn is_shorter(&self, router: u32, route: &RouteState, outputs: &impl Outputs) -> bool {
        let queue = |to: u32| match self.exit(router / self.group(), to, route) {
            (exit, port) if self.routing == Routing::UgalG => {
                outputs.bound(router / self.group() * self.group() + exit, port as u8)
            }
            _ => outputs.used(self.port_to(router, to, route) as u8),
        };
        queue(self.home(destination(route))) > 2 * queue(detour(route)) + u32::from(self.threshold)
    }
}

impl Written for Dragonfly {
    const FORMS: &'static [(&'static str, &'static str)] =
        &[("dragonfly", "K[,LOCAL,GLOBAL] or p=N,a=N,h=N[,g=N][,local=N][,global=N]")];
    fn read(_kind: &str, rest: &str) -> Result<Dragonfly, String> {
        if rest.contains('=') {
            let [p, a, h, g, local, global] = settings(rest, ["p", "a", "h", "g", "local", "global"])?;
            let (Some(p), Some(a), Some(h)) = (p, a, h) else { return Err(String::new()) };
            let g = g.unwrap_or(a.saturating_mul(h).saturating_add(1));
            return Dragonfly::with([p, a, h, g], [local.unwrap_or(LOCAL), global.unwrap_or(GLOBAL)]);
        }
        let numbers: Option<Vec<u8>> = rest.split(',').map(|n| n.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[p]) => Dragonfly::new(p, LOCAL as u8, GLOBAL as u8),
            Some(&[p, local, global]) => Dragonfly::new(p, local, global),
            _ => Err(String::new()),
        }
    }
    fn with_routing(&self, routing: Routing) -> Result<Dragonfly, String> {
        match routing {
            Routing::Minimal | Routing::Valiant | Routing::Ugal | Routing::UgalG | Routing::Par => {
                Ok(Dragonfly { routing, ..self.clone() })
            }
            _ => Err("minimal, valiant, ugal, ugal-g or par".into()),
        }
    }
    fn with_threshold(&self, threshold: u16) -> Option<Dragonfly> {
        self.compares().then(|| Dragonfly { threshold, ..self.clone() })
    }
}

impl fmt::Display for Dragonfly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cycles = (u16::from(self.local), u16::from(self.global));
        match (self.is_balanced(), cycles) {
            (true, (LOCAL, GLOBAL)) => write!(f, "dragonfly:{}", self.p),
            (true, (local, global)) => write!(f, "dragonfly:{},{local},{global}", self.p),
            (false, (local, global)) => {
                write!(f, "dragonfly:p={},a={},h={},g={}", self.p, self.a, self.h, self.g)?;
                let given = [("local", local, LOCAL), ("global", global, GLOBAL)];
                given.iter().filter(|(_, n, own)| n != own).try_for_each(|(name, n, _)| write!(f, ",{name}={n}"))
            }
        }
    }
}

impl Topology for Dragonfly {
    fn endpoints(&self) -> usize {
        self.routers() * self.p as usize
    }
    fn routers(&self) -> usize {
        (self.group() * self.groups()) as usize
    }
    fn ports(&self) -> usize {
        (self.first_global() + self.h) as usize
    }
    fn output(&self, router: u32, port: u8) -> End {
        let (group, at, port) = (router / self.group(), router % self.group(), u32::from(port));
        if port < self.p {
            return End::Endpoint(router * self.p + port);
        }
        let (group, at, port) = match port.checked_sub(self.first_global()) {
            None => {
                let to = port - self.p + u32::from(port - self.p >= at);
                (group, to, self.local_port(to, at))
            }
            Some(m) if m < self.h => {
                let Some((to, back)) = self.over(group, at * self.h + m) else { return End::Open };
                (to, back / self.h, self.first_global() + back % self.h)
            }
            Some(_) => return End::Open,
        };
        End::Router { router: group * self.group() + at, port: port as u8 }
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        (endpoint / self.p, (endpoint % self.p) as u8)
    }
    fn start(&self, src: u32, dst: u32, random: u64) -> RouteState {
        let mut route = RouteState { lo: u64::from(dst) | lot(random) << LOT, hi: random };
        let (from, to) = (self.home(src), self.home(dst));
        let first = match self.first() {
            Phase::Towards => Phase::Towards,
            _ if from == to => Phase::There,
            Phase::Detour if !self.draw(&mut route, from, to) => Phase::Towards,
            first => first,
        };
        enter(&mut route, first);
        route
    }
    #[inline(always)]
    fn next(&self, router: u32, route: &mut RouteState) -> Hop {
        let dst = destination(route);
        let (home, port) = self.attach(dst);
        if router == home {
            return Hop { port, class: self.class(phase(route)) };
        }
        let (group, to) = (router / self.group(), self.home(dst));
        if phase(route) == Phase::Detour && group == detour(route) {
            enter(route, Phase::Towards);
        }
        let port = match phase(route) {
            Phase::Detour => self.port_to(router, detour(route), route),
            _ if group == to => self.local_port(router % self.group(), home % self.group()),
            _ => self.port_to(router, to, route),
        };
        if matches!(phase(route), Phase::Undecided | Phase::Towards) && port >= self.first_global() {
            enter(route, Phase::There);
        }
        Hop { port: port as u8, class: self.class(phase(route)) }
    }
    fn delay(&self, _router: u32, port: u8) -> u8 {
        if u32::from(port) < self.first_global() { self.local } else { self.global }
    }
    /// Classes ascend along a packet's way. Within one it takes a local link, then at most a global one.
    fn classes(&self) -> Classes {
        Classes::Steps(1 + Phase::There as u32 - self.first() as u32)
    }
    fn routing(&self) -> Routing {
        self.routing
    }
    /// Without detours, a local link carries packets on their way to the group's link and packets that have arrived
    /// from other groups; a link between groups carries the latter's class only. UGAL-G counts what the exit's router
    /// holds, too: from the rest of the group, and from its endpoints, on any channel.
    fn comparison(&self, vcs: u32) -> Option<Comparison> {
        if !self.compares() {
            return None;
        }
        let first = if self.routing == Routing::Par { Phase::Undecided } else { Phase::Towards };
        let (first, there) = (self.channels(first, vcs), self.channels(Phase::There, vcs));
        let threshold = self.threshold;
        Some(match self.routing {
            Routing::UgalG => {
                let inputs = (self.group() - 1) * first + self.p * vcs;
                Comparison { threshold, credits: there, own: there, inputs }
            }
            _ => Comparison { threshold, credits: first + there, own: first.max(there), inputs: 0 },
        })
    }
    fn channels_on(&self, _router: u32, port: u8, vcs: u32) -> u32 {
        let detour = if self.routing == Routing::Minimal { 0 } else { self.channels(Phase::Detour, vcs) };
        if u32::from(port) < self.first_global() { vcs } else { detour + self.channels(Phase::There, vcs) }
    }
    fn links_name(&self, port: u8) -> &'static str {
        if u32::from(port) < self.first_global() { "links within groups" } else { "links between groups" }
    }
    fn layout(&self) -> Layout {
        Layout::levels(vec![self.p, self.group(), self.groups()])
    }
    fn router_name(&self, router: u32) -> String {
        format!("router {} of group {}", router % self.group(), router / self.group())
    }
    fn port_name(&self, port: u8) -> String {
        match u32::from(port) {
            port if port < self.p => format!("endpoint {port}"),
            port if port < self.first_global() => format!("local {}", port - self.p),
            port => format!("global {}", port - self.first_global()),
        }
    }
}

impl Route for Dragonfly {
    const LOOKS: bool = true;
    /// UGAL decides at the first router, UGAL-G by what is bound for the group's links to others. PAR decides there and, if
    /// for the shortest way, at the router that has the link to the destination's group, with a detour drawn anew.
    #[inline(always)]
    fn choose(&self, router: u32, input: u8, route: &mut RouteState, outputs: &impl Outputs) -> Hop {
        match phase(route) {
            Phase::Detour
                if matches!(self.routing, Routing::Ugal | Routing::UgalG)
                    && u32::from(input) < self.p
                    && !self.is_shorter(router, route, outputs) =>
            {
                enter(route, Phase::Towards);
            }
            Phase::Undecided => {
                let (from, to) = (router / self.group(), self.home(destination(route)));
                if self.draw(route, from, to) && self.is_shorter(router, route, outputs) {
                    enter(route, Phase::Detour);
                }
            }
            _ => {}
        }
        self.next(router, route)
    }
    fn news_delay(&self) -> Option<u8> {
        (self.routing == Routing::UgalG).then_some(self.local)
    }
    fn told(&self, router: u32, port: u8) -> Range<u32> {
        let first = router / self.group() * self.group();
        if u32::from(port) < self.first_global() { 0..0 } else { first..first + self.group() }
    }
}
