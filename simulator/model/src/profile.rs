//! Parameters of routers, with units.

use angara_fabric::{FlitTime, Params, Tick};
use std::any::Any;

/// Kind of router. `docs/explain/model.md` has every rule of each.
#[derive(Clone, PartialEq, Debug)]
#[allow(clippy::large_enum_variant)] // one per network
pub enum Profile {
    /// Textbook input-queued router with cycle-synchronous separable allocation (BookSim's).
    Generic(Generic),
    /// The Angara EC8430 router.
    Angara(Angara),
}

/// Parameters of the `generic` router. Times are in cycles; `cycle` says how long one is.
#[derive(Clone, PartialEq, Debug)]
pub struct Generic {
    /// Virtual channels per port, 1..=32. A torus splits them in two classes and needs at least 2.
    pub vcs: u8,
    /// Buffer of one virtual channel, in flits.
    pub buffer_flits: u16,
    /// Longest packet that will be injected, in flits; at most `buffer_flits`, except with wormhole switching.
    pub packet_flits_max: u16,
    /// Length of one cycle, in picoseconds.
    pub cycle: Tick,
    /// When a packet may leave a router.
    pub switching: Switching,
    /// Least cycles of a flit on a link between routers, 1..=[`LINK_MAX`]; longer ones are the topology's.
    pub link: u16,
    /// Time at both ends, in picoseconds: so much later than it is given may a source send a packet.
    pub ends: Tick,
    /// Flits of a packet beside those of its data, which longest packets have, too.
    pub overhead: u16,
}

/// Most cycles of a link of all `generic` routers.
pub const LINK_MAX: u16 = 8_192;

/// When a packet of the `generic` router may leave a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Switching {
    /// When there is room for the whole of it; then its flits follow each other without a gap.
    #[default]
    CutThrough,
    /// Flit by flit, as there is room for each.
    Wormhole {
        /// The switch connection stays with a packet as long as it has a flit to send in every cycle
        /// (BookSim's `hold_switch_for_packet`).
        hold: bool,
    },
}

impl Default for Generic {
    fn default() -> Generic {
        Generic {
            vcs: 4,
            buffer_flits: 8,
            packet_flits_max: 1,
            cycle: 2_000,
            switching: Switching::CutThrough,
            link: 1,
            ends: 0,
            overhead: 0,
        }
    }
}

/// Rate of a link in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkRate {
    /// The router and port where it begins.
    pub from: (u32, u8),
    /// Those where it ends.
    pub to: (u32, u8),
    /// Flits per cycle, in parts per million: 10,000 to 1,000,000.
    pub ppm: u32,
    /// It has this rate from then on, in picoseconds; 0 is the beginning.
    pub since: Tick,
}

/// What a network of `generic` routers has beside its topology.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) router: &'a Generic,
    pub(crate) seed: u64,
    pub(crate) rates: &'a [LinkRate],
    /// What is left of the topology from a cycle on, in order of time.
    pub(crate) changes: &'a [(u64, &'a dyn Any)],
}

/// Parameters of the `angara` router; defaults are the EC8430's. All times in picoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Angara {
    /// Host to router (PCIe injection). Paper 000, section 2: 300 ns.
    pub injection: Tick,
    /// Router to host (PCIe ejection). Paper 000, section 2: 300 ns.
    pub ejection: Tick,
    /// From a head flit's arrival until it may leave on a link. 49 ns (129 ns hop less the link).
    pub router: Tick,
    /// Flight time of a link. Paper 000, section 2: 80 ns.
    pub link: Tick,
    /// Time of one flit inside the adapter, num/den picoseconds: 16 B at 8 GB/s.
    pub flit_internal: Rate,
    /// Time of one flit on a link: 16 B at 7.5 GB/s is 6400/3 ps.
    pub flit_link: Rate,
    /// From a packet's tail leaving a buffer until the upstream router knows its slot is free.
    pub credit: Tick,
    /// How long an adaptive packet waits at a router before it may also leave on its
    /// deterministic channel. 32 cycles of 500 MHz.
    pub escape: Tick,
    /// Buffer slots of one maximum packet each: response, request and adaptive channels.
    pub slots: u16,
    /// Grants of an output that a waiting packet may see go elsewhere before it precedes everyone.
    pub age_limit: u8,
    /// Endpoints per node, each with an injection and an ejection channel: 1..=8, or 4 on more than four dimensions. Several
    /// exclude several ports of one (`rest.ports`).
    pub channels: u8,
    /// Parameters that simulations of routers do not vary: adapters, barriers, collectives.
    pub rest: Params,
    /// Count free buffer space in flits instead of slots. Wrong on purpose: deadlocks with mixed
    /// lengths; kept so that a test can show it.
    pub bubble_in_flits: bool,
}

impl Default for Angara {
    /// The chip as [`Params`] has it.
    fn default() -> Angara {
        Params::default().into()
    }
}

impl From<Params> for Angara {
    fn from(p: Params) -> Angara {
        let rate = |flit: FlitTime| Rate { num: flit.num as u32, den: flit.den as u32 };
        Angara {
            injection: p.inject_ps,
            ejection: p.eject_ps,
            router: p.router_ps,
            link: p.link_ps,
            flit_internal: rate(p.core_flit),
            flit_link: rate(p.link_flit),
            credit: p.credit_ps,
            escape: p.escape_ps,
            slots: p.slots,
            age_limit: p.age_limit,
            channels: 1,
            rest: p,
            bubble_in_flits: false,
        }
    }
}

/// Longest packet of the `angara` profile: header, 16 data flits, tail.
pub const ANGARA_FLITS_MAX: u16 = 18;

/// Picoseconds per flit as a fraction, so that flit times never drift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Numerator.
    pub num: u32,
    /// Denominator, not 0.
    pub den: u32,
}

impl Rate {
    /// Time from a packet's head until `flits` flits have left: ceil(flits·num/den).
    #[inline(always)]
    pub fn span(self, flits: u32) -> Tick {
        (flits as u64 * self.num as u64).div_ceil(self.den as u64)
    }
    /// The slower of two rates.
    pub fn slower(self, other: Rate) -> Rate {
        if self.num as u64 * other.den as u64 >= other.num as u64 * self.den as u64 { self } else { other }
    }
}
