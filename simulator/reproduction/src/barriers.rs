//! Section 4: barriers (paper 001), simulated and by formula.

use super::claim::{Claim, Job, Judgement, Values, values};
use angara_fabric::{BarrierFamily, Config};
use angara_sim::Error;
use angara_sim::plan::barrier::{Costs, Criterion, Cube, Mode};
use angara_sim::workload::barrier::{BarrierPlan, formula_ns, measure};

/// Tori n^dim with the known times in µs: all-to-all with the printed and the exact load, multiphase
/// half and full, for lat_inc = 10 and 4 ns per packet.
const KNOWN: [(u32, u32, [f64; 4]); 6] = [
    (2, 3, [1.015, 1.015, 1.017, 1.434]),
    (4, 3, [1.630, 1.626, 1.434, 2.268]),
    (8, 3, [6.244, 4.196, 2.268, 3.936]),
    (16, 3, [69.232, 36.464, 3.936, 7.272]),
    (4, 4, [2.656, 2.652, 1.712, 2.824]),
    (8, 4, [35.432, 19.048, 2.824, 5.048]),
];
/// Largest torus on which everybody tells everybody in a simulation.
const TELL_MAX: u32 = 512;

pub(super) fn claims() -> Vec<Claim> {
    let mut all: Vec<Claim> = KNOWN.iter().map(formulas).collect();
    for (n, dim, _) in KNOWN {
        all.extend([true, false].map(|half| multiphase(n, dim, half)));
    }
    let small = KNOWN.iter().filter(|(n, dim, _)| n.pow(*dim) <= TELL_MAX);
    all.extend(small.map(|&(n, dim, _)| all_to_all(n, dim)));
    all.extend([phases(0), phases(1)]);
    all.extend(crossover());
    all
}

pub(super) fn shape(n: u32, dim: u32) -> String {
    vec![n.to_string(); dim as usize].join("x")
}

fn config(shape: &str) -> Config {
    Config { payload: false, ..Config::new(shape.parse().expect("a shape by construction")) }
}

fn formulas((n, dim, known): &(u32, u32, [f64; 4])) -> Claim {
    let (costs, cube) = (Costs::default(), Cube { n: *n, dim: *dim });
    let found = [
        cube.all_to_all_half(&costs, Mode::Paper),
        cube.all_to_all_half(&costs, Mode::Exact),
        cube.multiphase_half(&costs, Mode::Exact),
        cube.multiphase_full(&costs, Mode::Exact),
    ];
    let found = found.map(|ns| ns / 1000.0);
    let met = found.iter().zip(known).all(|(a, b)| (a - b).abs() < 6e-4);
    let shown = |v: &[f64; 4]| v.map(|v| format!("{v:.3}")).join(", ");
    let measured = shown(&found);
    Claim::new(
        format!("4.formula.{}", shape(*n, *dim)),
        format!(
            "{}: all-to-all with printed and with exact load, multiphase with K and 2K phases, µs",
            shape(*n, *dim)
        ),
        shown(known),
        Vec::new(),
        move |_| Judgement::new(met, measured.clone()),
    )
}

/// A barrier on an empty network and its formula, ns.
pub(super) fn timed(family: BarrierFamily, half: bool, shape: String) -> Job {
    let nodes = config(&shape).shape.nodes() as f64;
    let seconds = if family == BarrierFamily::AllToAll { nodes * nodes / 1e5 } else { nodes / 500.0 };
    Job::call(format!("{family} barrier {shape} {half}"), seconds.max(0.05), move || {
        let plan = BarrierPlan::empty(family, half);
        let formula = formula_ns(&config(&shape), &plan).expect("these families have formulas");
        let ran = measure(config(&shape), plan)?;
        Ok(values(&[("ns", ran.time as f64 / 1000.0), ("formula", formula)]))
    })
}

fn multiphase(n: u32, dim: u32, half: bool) -> Claim {
    let shape = shape(n, dim);
    let job = timed(BarrierFamily::Multiphase, half, shape.clone());
    let name = job.name.clone();
    let (kind, phases) = if half { ("half", "K") } else { ("full", "2K") };
    Claim::new(
        format!("4.multiphase.{shape}.{kind}"),
        format!(
            "{shape}, {kind} barrier of {phases} phases, empty network: {phases}(lat_hop + lat_inc) + lat_inj + lat_ej"
        ),
        "within 2 %",
        vec![job],
        move |r| {
            let (ns, formula) = (r.get(&name, "ns"), r.get(&name, "formula"));
            let off = ns / formula - 1.0;
            let measured = format!("{:.3} µs, formula {:.3} µs ({:+.2} %)", ns / 1000.0, formula / 1000.0, 100.0 * off);
            Judgement::new(off.abs() <= 0.02, measured)
        },
    )
    .plotted("barriers.svg")
}

fn all_to_all(n: u32, dim: u32) -> Claim {
    let shape = shape(n, dim);
    let job = timed(BarrierFamily::AllToAll, true, shape.clone());
    let name = job.name.clone();
    Claim::new(
        format!("4.all-to-all.{shape}"),
        format!("{shape}, all-to-all half-barrier, empty network: formula (1) with the exact load is a lower bound"),
        "at or above",
        vec![job],
        move |r| {
            let (ns, bound) = (r.get(&name, "ns"), r.get(&name, "formula"));
            let measured = format!("{:.3} µs, bound {:.3} µs ({:.2} times)", ns / 1000.0, bound / 1000.0, ns / bound);
            Judgement::new(ns >= bound, measured)
        },
    )
    .plotted("barriers.svg")
}

/// Half-barriers under load with `short_by` phases too few: late packets and early exits.
fn loaded(short_by: u32) -> Result<Values, Error> {
    let (mut late, mut early, mut left) = (0, 0, 0);
    for seed in 1..=8 {
        let base = BarrierPlan::empty(BarrierFamily::Multiphase, true);
        let plan = BarrierPlan { packets: 12, skew_ns: 3000.0, short_by, seed, ..base };
        let barriers = measure(config("8"), plan)?.barriers;
        (late, early, left) = (late + barriers.late, early + barriers.early, left + barriers.left);
    }
    Ok(values(&[("late", late as f64), ("early", early as f64), ("left", left as f64)]))
}

fn phases(short_by: u32) -> Claim {
    let name = format!("half-barriers short by {short_by}");
    let job = Job::call(name.clone(), 0.1, move || loaded(short_by));
    let (id, claim, demand) = match short_by {
        0 => ("4.phases.K", "K phases are enough for a half-barrier under load", "no late packet, no early exit"),
        _ => ("4.phases.K-1", "K-1 phases are not enough", "a late packet"),
    };
    let claim = format!("ring of 8, 12 packets per node before each of 32 barriers: {claim}");
    Claim::new(id, claim, demand, vec![job], move |r| {
        let [late, early, left] = ["late", "early", "left"].map(|v| r.get(&name, v));
        let met = if short_by == 0 { late + early == 0.0 } else { late > 0.0 };
        Judgement::new(met, format!("{late} late packets, {early} early exits of {left}"))
    })
}

fn crossover() -> Vec<Claim> {
    let known = [(129.0, 4.0, [12, 6, 5]), (129.0, 20.0, [7, 4, 3]), (80.0, 4.0, [10, 6, 4]), (80.0, 20.0, [5, 3, 3])];
    let row = |(lat_hop, rate, expected): (f64, f64, [u32; 3])| {
        let costs = Costs { lat_hop, lat_inc: 4.0, rate_inj: rate, rate_ej: rate, ..Costs::default() };
        let found = [2, 3, 4].map(|dim| Criterion::FullAgainstHalf.first(dim, &costs, Mode::Corrected, 100));
        let met = found == expected.map(Some);
        let measured = found.map(|n| n.map_or("none".into(), |n| n.to_string())).join(", ");
        Claim::new(
            format!("4.crossover.{lat_hop}.{rate}"),
            format!(
                "first n where full multiphase beats half all-to-all in 2D, 3D, 4D; lat_hop {lat_hop}, rate 4/{rate}, lat_inc 4 ns"
            ),
            expected.map(|n| n.to_string()).join(", "),
            Vec::new(),
            move |_| Judgement::new(met, measured.clone()),
        )
    };
    known.into_iter().map(row).collect()
}
