//! HyperX, also called flattened butterfly: a grid of routers in which every line is joined completely.

use super::contract::{
    Class, Classes, Comparison, DIMS_MAX, End, Hop, Options, Outputs, PORTS_MAX, Route, RouteState, Routing, Topology,
    Written, check_nodes,
};
use super::layout::Layout;
use angara_fabric::rng;
use std::fmt;

/// By how much UGAL prefers the shortest way unless told otherwise: BookSim's.
const THRESHOLD: u16 = 2;

/// Routers are numbered with the first coordinate fastest. Ports 0..C lead to endpoints; those of dimension d follow
/// those of dimension d − 1 and lead to the other routers of the line, in ascending order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HyperX {
    /// Routers of each dimension; 1 beyond the last.
    sizes: [u32; DIMS_MAX],
    dims: usize,
    /// Endpoints of a router.
    endpoints: u32,
    routing: Routing,
    /// By how much UGAL prefers the shortest way.
    threshold: u16,
}

/// Bits of [`RouteState::lo`] for the destination; the router of the detour follows, plus one, or 0.
const DESTINATION: u32 = 32;

impl HyperX {
    /// Routers of these sizes with N endpoints each.
    ///
    /// # Errors
    /// Which numbers are possible.
    pub fn new(sizes: &[u16], endpoints: u16) -> Result<HyperX, String> {
        if !(1..=DIMS_MAX).contains(&sizes.len()) || sizes.contains(&0) || endpoints == 0 {
            return Err(format!("give 1 to {DIMS_MAX} sizes and at least one endpoint"));
        }
        let ports = usize::from(endpoints) + sizes.iter().map(|&k| usize::from(k) - 1).sum::<usize>();
        if ports > PORTS_MAX {
            return Err(format!("{ports} ports; a router has at most {PORTS_MAX}"));
        }
        let nodes = sizes.iter().fold(u64::from(endpoints), |n, &k| n.saturating_mul(k.into()));
        check_nodes(nodes)?;
        let mut all = [1; DIMS_MAX];
        all.iter_mut().zip(sizes).for_each(|(to, &k)| *to = k.into());
        let (dims, endpoints) = (sizes.len(), endpoints.into());
        Ok(HyperX { sizes: all, dims, endpoints, routing: Routing::Minimal, threshold: THRESHOLD })
    }
    /// The sizes of all dimensions.
    fn sizes(&self) -> &[u32] {
        &self.sizes[..self.dims]
    }
    /// The port at `from` by which a packet gets nearer to router `to`, another one: in the first dimension in
    /// which they differ.
    #[inline(always)]
    fn port_to(&self, mut from: u32, mut to: u32) -> u8 {
        let mut first = self.endpoints;
        for &k in self.sizes() {
            let (a, b) = (from % k, to % k);
            if a != b {
                return (first + b - u32::from(b > a)) as u8;
            }
            (from, to, first) = (from / k, to / k, first + k - 1);
        }
        unreachable!("a packet at its destination has no way left")
    }
    /// Dimensions in which two routers differ.
    fn distance(&self, mut a: u32, mut b: u32) -> u32 {
        let mut apart = 0;
        for &k in self.sizes() {
            apart += u32::from(a % k != b % k);
            (a, b) = (a / k, b / k);
        }
        apart
    }
    /// A router drawn at random among those that share every coordinate which two routers share.
    fn between(&self, mut a: u32, mut b: u32, route: &mut RouteState) -> u32 {
        let (mut router, mut step) = (0, 1);
        for &k in self.sizes() {
            let at = if a % k == b % k { a % k } else { rng::below(route.advance(), k.into()) as u32 };
            router += at * step;
            (a, b, step) = (a / k, b / k, step * k);
        }
        router
    }
    fn detour(route: &RouteState) -> Option<u32> {
        ((route.lo >> DESTINATION) as u32).checked_sub(1)
    }
    fn end_detour(route: &mut RouteState) {
        route.lo &= (1 << DESTINATION) - 1;
    }
}

impl Written for HyperX {
    const FORMS: &'static [(&'static str, &'static str)] = &[("hyperx", "SIZES,ENDPOINTS (hyperx:4x4,4)")];
    fn read(_kind: &str, rest: &str) -> Result<HyperX, String> {
        let (sizes, endpoints) = rest.split_once(',').ok_or_else(String::new)?;
        let sizes: Option<Vec<u16>> = sizes.split('x').map(|k| k.parse().ok()).collect();
        HyperX::new(&sizes.ok_or_else(String::new)?, endpoints.parse().map_err(|_| String::new())?)
    }
    fn with_routing(&self, routing: Routing) -> Result<HyperX, String> {
        match routing {
            Routing::Minimal | Routing::Valiant | Routing::Ugal | Routing::Adaptive => {
                Ok(HyperX { routing, ..self.clone() })
            }
            _ => Err("minimal, valiant, ugal or adaptive".into()),
        }
    }
    fn with_threshold(&self, threshold: u16) -> Option<HyperX> {
        (self.routing == Routing::Ugal).then(|| HyperX { threshold, ..self.clone() })
    }
}

impl fmt::Display for HyperX {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.sizes().iter().map(u32::to_string).collect();
        write!(f, "hyperx:{},{}", sizes.join("x"), self.endpoints)
    }
}

impl Topology for HyperX {
    fn endpoints(&self) -> usize {
        self.routers() * self.endpoints as usize
    }
    fn routers(&self) -> usize {
        self.sizes.iter().product::<u32>() as usize
    }
    fn ports(&self) -> usize {
        (self.endpoints + self.sizes().iter().map(|k| k - 1).sum::<u32>()) as usize
    }
    fn output(&self, router: u32, port: u8) -> End {
        let Some(mut link) = u32::from(port).checked_sub(self.endpoints) else {
            return End::Endpoint(router * self.endpoints + u32::from(port));
        };
        let mut step = 1;
        for &k in self.sizes() {
            if link < k - 1 {
                let at = router / step % k;
                let to = router - at * step + (link + u32::from(link >= at)) * step;
                return End::Router { router: to, port: self.port_to(to, router) };
            }
            (link, step) = (link - (k - 1), step * k);
        }
        End::Open
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        (endpoint / self.endpoints, (endpoint % self.endpoints) as u8)
    }
    fn start(&self, src: u32, dst: u32, random: u64) -> RouteState {
        let mut route = RouteState { lo: dst.into(), hi: random };
        let (from, to) = (src / self.endpoints, dst / self.endpoints);
        let by = match self.routing {
            Routing::Valiant => rng::below(route.advance(), self.routers() as u64) as u32,
            Routing::Ugal => self.between(from, to, &mut route),
            _ => from,
        };
        if by != from && from != to {
            route.lo |= u64::from(by + 1) << DESTINATION;
        }
        route
    }
    #[inline(always)]
    fn next(&self, router: u32, route: &mut RouteState) -> Hop {
        let (home, port) = self.attach(route.lo as u32);
        let by = HyperX::detour(route);
        // A Valiant packet that passes its destination stays there, as in BookSim.
        if router == home && (by.is_none() || self.routing == Routing::Valiant || by == Some(router)) {
            return Hop { port, class: Class::Any };
        }
        match by {
            Some(by) if by != router => Hop { port: self.port_to(router, by), class: Class::Lower },
            _ => {
                HyperX::end_detour(route);
                let class = if self.routing == Routing::Minimal { Class::Any } else { Class::Upper };
                Hop { port: self.port_to(router, home), class }
            }
        }
    }
    /// Dimension order within each class, and the upper one after the lower one.
    fn classes(&self) -> Classes {
        match self.routing {
            Routing::Minimal => Classes::One,
            Routing::Adaptive => Classes::Escape(1),
            _ => Classes::Halves,
        }
    }
    fn routing(&self) -> Routing {
        self.routing
    }
    /// Without detours all packets are in the upper half, and the queue is multiplied by the hops of the way.
    fn comparison(&self, vcs: u32) -> Option<Comparison> {
        let hops = self.sizes().iter().filter(|&&k| k > 1).count() as u32;
        let credits = hops * Class::Upper.count(vcs, self.classes());
        let of_ugal = Comparison { threshold: self.threshold, credits, own: credits, inputs: 0 };
        (self.routing == Routing::Ugal).then_some(of_ugal)
    }
    fn layout(&self) -> Layout {
        let sizes = std::iter::once(self.endpoints).chain(self.sizes().iter().copied()).collect();
        Layout::levels(sizes)
    }
    fn port_name(&self, port: u8) -> String {
        let Some(mut link) = u32::from(port).checked_sub(self.endpoints) else { return format!("endpoint {port}") };
        for (d, &k) in self.sizes().iter().enumerate() {
            if link < k - 1 {
                return format!("dimension {d} link {link}");
            }
            link -= k - 1;
        }
        format!("port {port}")
    }
}

impl Route for HyperX {
    const LOOKS: bool = true;
    /// UGAL decides at the first router by hops times queue of both ways.
    #[inline(always)]
    fn choose(&self, router: u32, input: u8, route: &mut RouteState, outputs: &impl Outputs) -> Hop {
        if let (Routing::Ugal, true, Some(by)) =
            (self.routing, u32::from(input) < self.endpoints, HyperX::detour(route))
        {
            let home = route.lo as u32 / self.endpoints;
            let shortest = self.distance(router, home) * outputs.used(self.port_to(router, home));
            let hops = self.distance(router, by) + self.distance(by, home);
            if shortest <= hops * outputs.used(self.port_to(router, by)) + u32::from(self.threshold) {
                HyperX::end_detour(route);
            }
        }
        self.next(router, route)
    }
    const ADAPTS: bool = true;
    fn options(&self, router: u32, route: &RouteState) -> Options {
        let (home, port) = self.attach(route.lo as u32);
        let (mut ports, mut first, mut step) = (0, self.endpoints, 1);
        for &k in self.sizes() {
            let (a, b) = (router / step % k, home / step % k);
            if a != b {
                ports |= 1 << (first + b - u32::from(b > a));
            }
            (first, step) = (first + k - 1, step * k);
        }
        let escape = match ports {
            0 => Hop { port, class: Class::Any },
            // Dimension order: lower dimensions have lower ports.
            _ => Hop { port: u64::trailing_zeros(ports) as u8, class: Class::Lower },
        };
        Options { ports, escape }
    }
}
