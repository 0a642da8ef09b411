//! A `generic` router with the times, rates and packets of a machine, so that networks of both routers can be compared.

use super::keys::Keys;
use crate::Error;
use crate::traffic::Lengths;
use angara_fabric::{FlitTime, Params, Quiet, Tick};
use angara_machine::Machine;
use angara_model::Generic;
use angara_model::setup::{ANGARA_FLITS_MAX, LINK_MAX};

/// Cycles of a hop over a link of one cycle less those of the link, of a lone packet: from `docs/explain/model.md`, section 3.
const HOP_BESIDE_LINK: Tick = 3;
/// Cycles that a lone packet of one flit takes besides its hops: 2 to its router, 4 in it and to its endpoint.
const AT_ENDS: Tick = 6;
/// Header and tail flit.
const OVERHEAD: u16 = 2;

/// What a machine says that this router has not: a key, and what it must be.
fn unlike(p: &Params) -> Option<(&'static str, &'static str)> {
    let usual = Params::default();
    let keys = [
        (p.ports > 1, "ports", "an endpoint has one port here; compare with --set ports=1"),
        (p.port_flit.is_some(), "port-rate", "a port has the rate of a link here; leave it out"),
        (
            p.adaptive,
            "routing",
            "a machine's adaptive routing belongs to its router; set routing=dor, and --routing for this one",
        ),
        (p.balanced, "routes", "balanced routes are a table of its router; set routes=parity"),
        (p.credit_ps != usual.credit_ps, "credit", "credits take as long as flits here; leave it out"),
        (p.escape_ps != usual.escape_ps, "escape", "a packet may escape at once here; leave it out"),
        (p.age_limit != usual.age_limit, "age-limit", "its arbiters know no age; leave it out"),
        (p.quiet != Quiet::Read, "quiet", "programs that end with quiet run on router angara; leave it out"),
    ];
    keys.into_iter().find(|key| key.0).map(|(_, key, why)| (key, why))
}

impl Keys {
    /// The router whose lone packets take the times of `machine`: a cycle is a flit on the slower of a link and the core,
    /// all links take so long that a hop takes `hop`, and what remains of `injection` and `ejection` passes at the ends.
    pub(super) fn like_a_machine(
        &self,
        machine: &Machine,
        lengths: &Lengths,
    ) -> Result<Generic, (Error, &'static str)> {
        let key = if self.set.is_some() { "set" } else { "machine" };
        let refuse = |what: &str, why: String| (Error::invalid(key, what, why), key);
        if let Some(ns) = self.cycle_ns {
            let why = "a machine's cycle is a flit on its links; leave it out, or change link";
            return Err((Error::invalid("cycle-ns", ns, why), "cycle-ns"));
        }
        let p = machine.params().map_err(|e| refuse(&machine.name, e.to_string()))?;
        if let Some((what, why)) = unlike(&p) {
            return Err(refuse(what, format!("with router generic, {why}")));
        }
        let flit = if slower(p.core_flit, p.link_flit) { p.core_flit } else { p.link_flit };
        let cycle = (2 * flit.num + flit.den) / (2 * flit.den);
        let hop = (p.router_ps + p.link_ps + cycle / 2) / cycle;
        if hop <= HOP_BESIDE_LINK {
            let (least, flit) = (HOP_BESIDE_LINK + 1, cycle as f64 / 1000.0);
            let why = format!(
                "a hop takes this router at least {least} cycles, each a flit on a link, {flit} ns; give a longer hop, or \
                 faster links"
            );
            return Err(refuse("hop", why));
        }
        let link = hop - HOP_BESIDE_LINK;
        let link = u16::try_from(link).ok().filter(|link| *link <= LINK_MAX).ok_or_else(|| {
            refuse(
                "hop",
                format!("a hop is {hop} cycles of {cycle} ps, and links have up to {LINK_MAX}; give a shorter one"),
            )
        })?;
        // A lone packet over K links takes injection + K hops + ejection; of the cycles at the ends one is its own flit.
        let ends = (p.inject_ps + p.eject_ps).saturating_sub((AT_ENDS - 1) * cycle);
        let longest = lengths.max();
        // The credits of a packet are back 2·link + 6 cycles after its grant.
        let round_trip = 2 * u32::from(link) + 6 + u32::from(longest);
        let slots = u32::from(p.slots) * u32::from(ANGARA_FLITS_MAX);
        let packets = round_trip.max(slots).div_ceil(u32::from(longest));
        let buffer_flits = (packets * u32::from(longest)).min(u16::MAX.into()) as u16;
        let overhead = if longest > OVERHEAD { OVERHEAD } else { 0 };
        Ok(Generic { buffer_flits, cycle, link, ends, overhead, ..Generic::default() })
    }
}

/// One takes longer for a flit than the other.
fn slower(a: FlitTime, b: FlitTime) -> bool {
    u128::from(a.num) * u128::from(b.den) > u128::from(b.num) * u128::from(a.den)
}

#[cfg(test)]
mod tests {
    use crate::settings::Keys;
    use angara_model::setup::ANGARA_FLITS_MAX;
    use angara_model::{Injection, Network, Profile};

    fn network(settings: &str) -> angara_model::Setup {
        let keys: Keys = toml::from_str(settings).unwrap();
        keys.resolve().map_err(|e| format!("{settings}: {}", e.0)).unwrap().experiment.network
    }

    /// What a lone full packet takes from endpoint 0 to `dst`, and the routers that it passes.
    fn lone(setup: &angara_model::Setup, dst: u32) -> (u64, u16) {
        let mut net = Network::new(setup).unwrap();
        net.inject(Injection { src: 0, dst, flits: ANGARA_FLITS_MAX, at: 0, ..Injection::default() });
        net.run_until_idle();
        let d = net.poll_delivery().unwrap();
        (d.tail, d.routers)
    }

    #[test]
    fn lone_packets_of_both_routers_take_the_machines_times() {
        for machine in ["desmos", "gemini"] {
            let of = format!("machine = \"{machine}\"\nset = \"ports=1\"\ntopology = \"torus:8x8\"\n");
            let with = |rest: &str| network(&format!("{of}{rest}"));
            let (chip, generic) = (with("router = \"angara\""), with("router = \"generic\""));
            let Profile::Generic(g) = &generic.profile else { panic!("a generic router") };
            for dst in [1, 3, 9, 36] {
                let (a, b) = (lone(&chip, dst), lone(&generic, dst));
                assert_eq!(a.1, b.1);
                // Half a cycle for each hop, and rounding at the ends and of a flit.
                let allowed = u64::from(a.1) * g.cycle / 2 + 2 * g.cycle + u64::from(ANGARA_FLITS_MAX);
                assert!(a.0.abs_diff(b.0) <= allowed, "{machine} to {dst}: {} and {} ps", a.0, b.0);
            }
        }
    }

    #[test]
    fn a_machine_goes_with_every_topology() {
        for topology in ["fat-tree:4,3", "dragonfly:2", "hyperx:4x4,2", "clos:4,4,4", "express:8x8,4", "cayley:13:1,5"]
        {
            let setup = network(&format!("machine = \"desmos\"\ntopology = \"{topology}\"\n"));
            let Profile::Generic(g) = &setup.profile else { panic!("a generic router") };
            assert_eq!(
                (g.cycle, g.link, g.overhead, g.buffer_flits % ANGARA_FLITS_MAX),
                (2133, 57, 2, 0),
                "{topology}"
            );
            // No link is longer than its buffers.
            let keys: Keys = toml::from_str(&format!("machine = \"desmos\"\ntopology = \"{topology}\"\n")).unwrap();
            let notes = crate::run::notes::of(&keys.resolve().map_err(|e| e.0).unwrap().experiment);
            assert_eq!(notes, [""; 0], "{topology}");
        }
    }

    #[test]
    fn what_this_router_has_not_is_refused_with_the_remedy() {
        let refused = |settings: &str| {
            let keys: Keys = toml::from_str(&format!("topology = \"fat-tree:4,3\"\n{settings}")).unwrap();
            keys.resolve().map(drop).map_err(|e| e.0.to_string()).unwrap_err()
        };
        assert!(refused("machine = \"tpu-v4\"").contains("--set ports=1"), "{}", refused("machine = \"tpu-v4\""));
        assert!(refused("set = [\"credit=90ns\"]").contains("credits take as long"));
        assert!(refused("machine = \"desmos\"\ncycle-ns = 2.0").contains("leave it out"));
        let far = refused("set = [\"hop=50us,ejection=50us\"]");
        assert!(far.contains("give a shorter one"), "{far}");
        let slow = refused("machine = \"bluegene-p\"\nset = \"ports=1\"");
        assert!(slow.contains("at least 4 cycles") && slow.contains("faster links"), "{slow}");
        assert!(refused("injection-ns = 300.0").contains("a machine"));
    }
}
