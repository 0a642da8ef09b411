//! What hangs on the ports of a range of routers.

use crate::parallel::part_of;
use crate::topology::{End, Topology};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Open,
    Router,
    Endpoint,
    /// A router of another part.
    Away,
}

/// One port, input and output side.
#[derive(Clone, Copy)]
pub(crate) struct Port {
    /// Base of the far port's channels (in its part), or the endpoint.
    pub(crate) peer: u32,
    pub(crate) wire: Wire,
    /// The part of the far port.
    pub(crate) part: u16,
    /// Input side: next channel for an output; next output. Output side: next input.
    pub(crate) vc_turn: u8,
    pub(crate) out_turn: u8,
    pub(crate) in_turn: u8,
    /// Cycles beyond one that a flit takes on the link, and a credit in the other direction.
    pub(crate) extra: u16,
}

/// Which routers, and the endpoints attached to them, are simulated here: all, or one part of several.
pub(crate) struct Range<'a> {
    /// First router of every part.
    pub(crate) cuts: &'a [u32],
    /// First endpoint of every part.
    pub(crate) endpoint_cuts: &'a [u32],
    /// Cycles from an event to anything it causes in another part.
    pub(crate) window: u64,
    /// Number of this part.
    pub(crate) part: usize,
    /// Least cycles of a link.
    pub(crate) link: u16,
}

impl Range<'_> {
    pub(crate) fn of(cuts: &[u32], part: usize, all: usize) -> std::ops::Range<u32> {
        cuts[part]..cuts.get(part + 1).copied().unwrap_or(all as u32)
    }
    /// The ports of a router, as seen from this part.
    pub(crate) fn ports<const N: usize, const P: usize>(&self, topology: &dyn Topology, router: u32) -> [Port; P] {
        std::array::from_fn(|port| {
            let (here, ports) = ((router, port as u8), topology.ports());
            let end = match if port < ports { topology.output(router, port as u8) } else { End::Open } {
                // Of a link of one direction, credits go the other way.
                End::Open if port < ports => topology.input(router, port as u8),
                end => end,
            };
            let (peer, wire, part) = match end {
                End::Router { router, port } => {
                    let part = part_of(self.cuts, router);
                    let wire = if part == self.part { Wire::Router } else { Wire::Away };
                    ((router - self.cuts[part]) * N as u32 + port as u32 * (N / P) as u32, wire, part)
                }
                End::Endpoint(e) if topology.attach(e) == here => {
                    (e - self.endpoint_cuts[self.part], Wire::Endpoint, self.part)
                }
                // It sends elsewhere, so nobody asks for its number.
                End::Endpoint(_) => (0, Wire::Endpoint, self.part),
                End::Open => (0, Wire::Open, self.part),
            };
            let link = matches!(wire, Wire::Router | Wire::Away);
            let extra = if link { beyond_one(topology, self.link, router, port as u8) } else { 0 };
            Port { peer, wire, part: part as u16, vc_turn: 0, out_turn: 0, in_turn: 0, extra }
        })
    }
}

/// Cycles beyond one that a flit takes on a link, where all take at least `link`.
pub(crate) fn beyond_one(topology: &dyn Topology, link: u16, router: u32, port: u8) -> u16 {
    link.max(topology.delay(router, port).into()) - 1
}

/// Cycles beyond one that a flit takes on the longest link.
pub(crate) fn longest(topology: &dyn Topology, link: u16) -> u16 {
    links(topology).map(|(r, p, _)| beyond_one(topology, link, r, p)).max().unwrap_or(0)
}

/// All links: router, port, and the router they lead to.
pub(crate) fn links(topology: &dyn Topology) -> impl Iterator<Item = (u32, u8, u32)> {
    let ports = (0..topology.routers() as u32).flat_map(|r| (0..topology.ports() as u8).map(move |p| (r, p)));
    ports.filter_map(|(r, p)| match topology.output(r, p) {
        End::Router { router, .. } => Some((r, p, router)),
        _ => None,
    })
}
