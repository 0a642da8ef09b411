//! Dragonfly: groups of routers that are joined completely, and a link between every two groups.

use super::contract::{
    Class, Classes, Comparison, DELAY_MAX, End, Hop, Outputs, Route, RouteState, Routing, Topology, Written,
};
use super::layout::{Layout, LayoutKind};
use angara_fabric::rng;
use std::fmt;
use std::ops::Range;

/// Most endpoints of a router: it has four times as many ports, less one.
const ENDPOINTS_MAX: u8 = 16;
/// Flits by which UGAL prefers the shortest way unless told otherwise: BookSim's.
const THRESHOLD: u16 = 30;

/// Router r of group r / (2·p) has endpoints at ports 0..p, the other routers of its group at ports p..3p−1 in
/// ascending order, and p links to other groups at the ports that follow. Link o = p·i + m of a group, the m-th of
/// its router i, leads to the o-th of the other groups in ascending order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dragonfly {
    /// Endpoints of a router, and links to other groups.
    p: u32,
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
const DESTINATION: u32 = 32;
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
    (route.lo >> DESTINATION) as u32 & 0xff_ffff
}

impl Dragonfly {
    /// A network with `p` endpoints per router, and links of N cycles.
    ///
    /// # Errors
    /// Which numbers are possible.
    pub fn new(p: u8, local: u8, global: u8) -> Result<Dragonfly, String> {
        if !(1..=ENDPOINTS_MAX).contains(&p) {
            return Err(format!("{p} endpoints per router; give 1 to {ENDPOINTS_MAX}"));
        }
        if ![local, global].iter().all(|cycles| (1..=DELAY_MAX).contains(cycles)) {
            return Err(format!("links take 1 to {DELAY_MAX} cycles"));
        }
        Ok(Dragonfly { p: p.into(), local, global, routing: Routing::Minimal, threshold: THRESHOLD })
    }
    /// Routers of a group.
    fn group(&self) -> u32 {
        2 * self.p
    }
    fn groups(&self) -> u32 {
        self.group() * self.p + 1
    }
    /// The group of an endpoint.
    fn home(&self, endpoint: u32) -> u32 {
        endpoint / (self.p * self.group())
    }
    /// The first port to another group.
    fn first_global(&self) -> u32 {
        self.p + self.group() - 1
    }
    /// The port from router `from` of a group to its router `to`.
    fn local_port(&self, from: u32, to: u32) -> u32 {
        self.p + to - u32::from(to > from)
    }
    /// The router of group `from`, and its port, whose link leads to group `to`.
    fn exit(&self, from: u32, to: u32) -> (u32, u32) {
        let link = to - u32::from(to > from);
        (link / self.p, self.first_global() + link % self.p)
    }
    /// The port at `router` by which a packet gets nearer to another group.
    fn port_to(&self, router: u32, to: u32) -> u32 {
        let (group, at) = (router / self.group(), router % self.group());
        let (exit, port) = self.exit(group, to);
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
        route.lo = route.lo & !(0xff_ffff << DESTINATION) | u64::from(by) << DESTINATION;
        by != from && by != to
    }
    /// Whether a packet at `router` gets to its destination sooner by the detour drawn: twice its queue is shorter than
    /// that of the shortest way by more than a threshold.
    fn is_shorter(&self, router: u32, route: &RouteState, outputs: &impl Outputs) -> bool {
        let queue = |to: u32| match self.exit(router / self.group(), to) {
            (exit, port) if self.routing == Routing::UgalG => {
                outputs.bound(router / self.group() * self.group() + exit, port as u8)
            }
            _ => outputs.used(self.port_to(router, to) as u8),
        };
        queue(self.home(route.lo as u32)) > 2 * queue(detour(route)) + u32::from(self.threshold)
    }
}

impl Written for Dragonfly {
    const FORMS: &'static [(&'static str, &'static str)] = &[("dragonfly", "K[,LOCAL,GLOBAL]")];
    fn read(_kind: &str, rest: &str) -> Result<Dragonfly, String> {
        let numbers: Option<Vec<u8>> = rest.split(',').map(|n| n.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[p]) => Dragonfly::new(p, 10, 100),
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
        match (self.local, self.global) {
            (10, 100) => write!(f, "dragonfly:{}", self.p),
            (local, global) => write!(f, "dragonfly:{},{local},{global}", self.p),
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
        (self.first_global() + self.p) as usize
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
            Some(m) if m < self.p => {
                let link = at * self.p + m;
                let to = link + u32::from(link >= group);
                let (router, port) = self.exit(to, group);
                (to, router, port)
            }
            Some(_) => return End::Open,
        };
        End::Router { router: group * self.group() + at, port: port as u8 }
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        (endpoint / self.p, (endpoint % self.p) as u8)
    }
    fn start(&self, src: u32, dst: u32, random: u64) -> RouteState {
        let mut route = RouteState { lo: dst.into(), hi: random };
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
        let dst = route.lo as u32;
        let (home, port) = self.attach(dst);
        if router == home {
            return Hop { port, class: self.class(phase(route)) };
        }
        let (group, to) = (router / self.group(), self.home(dst));
        if phase(route) == Phase::Detour && group == detour(route) {
            enter(route, Phase::Towards);
        }
        let port = match phase(route) {
            Phase::Detour => self.port_to(router, detour(route)),
            _ if group == to => self.local_port(router % self.group(), home % self.group()),
            _ => self.port_to(router, to),
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
        Layout { sizes: vec![self.p, self.group(), self.groups()], kind: LayoutKind::Tree }
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
                let (from, to) = (router / self.group(), self.home(route.lo as u32));
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
