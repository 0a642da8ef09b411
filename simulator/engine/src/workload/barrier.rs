//! Barrier runs: how long a barrier takes on an empty or a loaded network, and whether it keeps what it
//! promises.
//!
//! Written `barrier:FAMILY[,half|full[,PACKETS[,SKEW]]]`. Every node computes for a random time up to SKEW
//! ns, sends PACKETS packets of 256 bytes to random nodes and enters the barrier, four times in a row.
//! Without PACKETS the network is empty. What counts is the time from the last node's entry to the last
//! node's exit, of the first barrier. The model watches the guarantee itself (`docs/explain/fabric.md`).

use super::collective::report_time;
use super::script::{Chip, JOB, Program, Ran, Stage, Step, chip, ns};
use super::{Report, Shows, Watch, Workload, WorkloadKind};
use crate::Error;
use crate::plan::barrier::{Costs, ShapeBound};
use crate::run::Experiment;
use crate::table::number;
use angara_fabric::rng::mix;
use angara_fabric::{BarrierFamily, Config};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// Barriers of a loaded run; on an empty network one tells all.
const ROUNDS: u32 = 4;
const PACKET_BYTES: u32 = 256;

/// A barrier run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BarrierPlan {
    /// How.
    pub family: BarrierFamily,
    /// Half or full.
    pub half: bool,
    /// Packets every node sends before it enters.
    pub packets: u32,
    /// Largest time a node computes before, ns.
    pub skew_ns: f64,
    /// Phases left out of a multiphase barrier, to show that they are needed.
    pub short_by: u32,
    /// Seed of targets and computing times.
    pub seed: u64,
}

impl BarrierPlan {
    /// One barrier on an empty network, everybody entering at once.
    pub fn empty(family: BarrierFamily, half: bool) -> BarrierPlan {
        BarrierPlan { family, half, packets: 0, skew_ns: 0.0, short_by: 0, seed: 1 }
    }

    fn program(&self, me: u32, nodes: u32) -> Program {
        let mut steps = Program::new();
        let rounds = if self.packets == 0 && self.skew_ns == 0.0 { 1 } else { ROUNDS };
        for round in 0..rounds {
            let dice = |n: u32| mix(mix(mix(self.seed) ^ u64::from(round)) ^ (u64::from(me) << 32 | u64::from(n)));
            let share = dice(0) as f64 / u64::MAX as f64;
            steps.push(Step::Compute(ns(share * self.skew_ns)));
            let send = |n: u32| Step::Send { to: (dice(n + 1) % u64::from(nodes)) as u32, bytes: PACKET_BYTES, tag: 0 };
            steps.extend((0..self.packets).map(send));
            steps.push(Step::Barrier { half: self.half });
        }
        steps
    }
}

/// Runs it. The time is that of all rounds; on an empty network that is one barrier. A broken
/// guarantee is no error here; [`Ran::barriers`] reports it.
///
/// # Errors
/// If the plan cannot be run.
pub fn measure(config: Config, plan: BarrierPlan) -> Result<Ran, Error> {
    measure_watched(config.into(), plan, &mut |_| ControlFlow::Continue(()))
}

fn measure_watched(chip: Chip, plan: BarrierPlan, watch: &mut Watch<'_>) -> Result<Ran, Error> {
    let mut stage = Stage::new(chip, 0)?;
    stage.set_barrier(plan.family)?;
    stage.fabric().shorten_barrier(JOB, plan.short_by);
    let nodes = stage.nodes() as u32;
    (0..nodes).for_each(|node| stage.set(node, plan.program(node, nodes)));
    stage.run(watch)
}

/// Returns what the cost model of paper 001 says of an empty network, ns: for multiphase the time itself, for
/// all-to-all the exact bound. `None` for families it has no formula for.
pub fn formula_ns(config: &Config, plan: &BarrierPlan) -> Option<f64> {
    let p = &config.params;
    let two_flits = |t: angara_fabric::FlitTime| t.of(2) as f64 / 1000.0;
    let ns = |t: u64| t as f64 / 1000.0;
    let costs = Costs {
        lat_hop: ns(p.router_ps + p.link_ps),
        lat_inc: ns(p.barrier_ps),
        rate_link: two_flits(p.link_flit),
        rate_inj: two_flits(p.core_flit),
        rate_ej: two_flits(p.core_flit),
        lat_inj: ns(p.inject_ps),
        lat_ej: ns(p.eject_ps),
    };
    let bound = ShapeBound::new(&config.shape, &costs);
    match plan.family {
        BarrierFamily::Multiphase if plan.half => Some(bound.multiphase_half_ns),
        BarrierFamily::Multiphase => Some(bound.multiphase_full_ns),
        // Between the halves nothing goes to the hosts.
        BarrierFamily::AllToAll if plan.half => Some(bound.all_to_all_half_ns),
        BarrierFamily::AllToAll => Some(2.0 * bound.all_to_all_half_ns - costs.lat_inj),
        _ => None,
    }
}

#[derive(Debug)]
struct Barrier {
    plan: BarrierPlan,
}

pub(super) const KIND: WorkloadKind = WorkloadKind {
    name: "barrier",
    form: "barrier:multiphase|all-to-all|tree|hypercube|master|counting[,half|full[,PACKETS[,SKEW]]]",
    about: "barriers on an empty network, or after PACKETS random packets per node",
    parse: |arguments| {
        let mut parts = arguments.split(',').map(str::trim);
        let bad = |value: &str, why: &str| Error::invalid("workload", value, why);
        let family = parts.next().unwrap_or_default();
        let family = family.parse().map_err(|e: String| bad(family, &e))?;
        let half = match parts.next().unwrap_or("full") {
            "half" => true,
            "full" => false,
            other => return Err(bad(other, "a barrier is half or full")),
        };
        let packets = parts.next().unwrap_or("0");
        let packets = packets.parse().map_err(|_| bad(packets, "give a number of packets"))?;
        let skew = parts.next().unwrap_or("0");
        let skew_ns = skew.parse().ok().filter(|ns| (0.0..1e9).contains(ns)).ok_or_else(|| bad(skew, "give ns"))?;
        if let Some(more) = parts.next() {
            return Err(bad(more, "that is one argument too many"));
        }
        Ok(Arc::new(Barrier { plan: BarrierPlan { packets, skew_ns, ..BarrierPlan::empty(family, half) } }))
    },
};

/// Most messages of a barrier in which everybody tells everybody.
const MESSAGES_MAX: usize = 200_000_000;

impl Workload for Barrier {
    fn keys(&self) -> &'static [&'static str] {
        &[]
    }

    fn shows(&self) -> Shows {
        Shows { packets: true, ..Shows::default() }
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        let nodes = chip(experiment)?.config.shape.nodes();
        let everybody = matches!(self.plan.family, BarrierFamily::AllToAll | BarrierFamily::Counting);
        if everybody && nodes * nodes > MESSAGES_MAX {
            let why =
                format!("{nodes} nodes would send {} messages; take another family or fewer nodes", nodes * nodes);
            return Err(Error::invalid("workload", self.plan.family, why));
        }
        Ok(())
    }

    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        let started = Instant::now();
        let chip = chip(experiment)?;
        let plan = BarrierPlan { seed: experiment.seed, ..self.plan };
        let idle = plan.packets == 0 && plan.skew_ns == 0.0 && chip.faults.is_empty();
        let formula = formula_ns(&chip.config, &plan).filter(|_| idle);
        let ran = measure_watched(chip, plan, watch)?;
        let kind = if plan.half { "half" } else { "full" };
        let title =
            format!("{} · {kind} barrier, {}, {} packets before", experiment.title(), plan.family, plan.packets);
        let mut report = Report::new(&title);
        report_time(&mut report, &ran, started, experiment);
        if let Some(formula) = formula {
            let ratio = ran.time as f64 / 1000.0 / formula;
            report.line("formula", format!("{} us (simulated / formula {ratio:.4})", number(formula / 1000.0, 5)));
            report.set("formula_ns", formula);
        }
        let b = ran.barriers;
        let held = if b.held() { "held" } else { "BROKEN" };
        report.line(
            "guarantee",
            format!("{held}: {} early exits, {} late packets, {} unfinished", b.early, b.late, b.unfinished),
        );
        report.set("early_exits", b.early);
        report.set("late_packets", b.late);
        report.set("unfinished", b.unfinished);
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(shape: &str) -> Config {
        Config { payload: false, ..Config::new(shape.parse().unwrap()) }
    }

    #[test]
    fn an_empty_network_takes_the_formulas_time() {
        for shape in ["2x2x2", "4x4x4", "8x4", "mesh:5"] {
            for half in [true, false] {
                let plan = BarrierPlan::empty(BarrierFamily::Multiphase, half);
                let ratio = measure(config(shape), plan).unwrap().time as f64
                    / 1000.0
                    / formula_ns(&config(shape), &plan).unwrap();
                assert!((ratio - 1.0).abs() < 1e-9, "{shape} {half}: {ratio}");
                // Formula (1) lets the last packet go the longest way; a node that sends to the far ones
                // first is a packet or two faster.
                let plan = BarrierPlan::empty(BarrierFamily::AllToAll, half);
                let ratio = measure(config(shape), plan).unwrap().time as f64
                    / 1000.0
                    / formula_ns(&config(shape), &plan).unwrap();
                assert!(ratio > 0.98, "{shape} {half}: {ratio}");
            }
        }
    }

    #[test]
    fn loaded_networks_keep_the_guarantee_unless_a_phase_is_left_out() {
        let plan = |family, short_by, seed| BarrierPlan {
            packets: 12,
            skew_ns: 3000.0,
            short_by,
            seed,
            ..BarrierPlan::empty(family, true)
        };
        for family in BarrierFamily::ALL {
            let ran = measure(config("4x4"), plan(family, 0, 3)).unwrap();
            assert!(ran.barriers.held() && ran.barriers.left == 64, "{family}: {:?}", ran.barriers);
        }
        let late: u64 = (0..4)
            .map(|seed| measure(config("8"), plan(BarrierFamily::Multiphase, 1, seed)).unwrap().barriers.late)
            .sum();
        assert!(late > 0, "K-1 phases let packets come late");
    }

    #[test]
    fn bad_arguments_are_named() {
        let refused = |text: &str| text.parse::<crate::workload::Chosen>().unwrap_err().to_string();
        assert!(refused("barrier:fast").contains("there are multiphase, all-to-all"));
        assert!(refused("barrier:tree,whole").contains("half or full"));
        let report = crate::workload::simulate("topology = \"torus:2x2\"\nworkload = \"barrier:tree,half,3,100\"");
        assert!(report.text.contains("guarantee             held"), "{}", report.text);
    }
}
