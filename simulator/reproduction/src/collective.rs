//! Section 3: what the collective subnet gains over messages between pairs of nodes (paper 000).

use super::claim::{Claim, Job, Judgement, Results, Verdict, values};
use angara_fabric::{Config, FlitTime};
use angara_sim::plan::barrier::Costs;
use angara_sim::workload::collective::{Collective, CollectivePlan, Method, measure, torus_4d};
use angara_sim::workload::heat;

/// Software time of a point-to-point step with which the paper's numbers come out, ns.
pub(super) const SW: f64 = 700.0;
/// Bytes that are broadcast or reduced.
const BYTES: u64 = 8;
/// Nodes of the growing tori.
pub(super) const SIZES: [usize; 5] = [8, 64, 512, 4096, 8192];
/// Nodes of the heat equation's tori.
pub(super) const HEAT_SIZES: [usize; 4] = [8, 64, 4096, 32_768];

pub(super) fn claims() -> Vec<Claim> {
    let mut all = vec![
        faster("3.broadcast.8", Collective::Broadcast, Method::PointToPoint, 8, 0.0, 129.0, (2.0, f64::INFINITY)),
        faster("3.allreduce.8", Collective::AllReduce, Method::ReduceBroadcast, 8, 0.0, 129.0, (2.0, f64::INFINITY)),
        faster("3.broadcast.8192.sw0", Collective::Broadcast, Method::PointToPoint, 8192, 0.0, 129.0, (3.9, 4.6)),
        faster("3.allreduce.8192.sw0", Collective::AllReduce, Method::ReduceBroadcast, 8192, 0.0, 129.0, (3.9, 4.6)),
        faster(
            "3.broadcast.8192.sw700",
            Collective::Broadcast,
            Method::PointToPoint,
            8192,
            SW,
            90.0,
            (6.0, f64::INFINITY),
        ),
        faster(
            "3.allreduce.8192.sw700",
            Collective::AllReduce,
            Method::ReduceBroadcast,
            8192,
            SW,
            129.0,
            (6.0, f64::INFINITY),
        ),
        growing("3.broadcast.grows", Collective::Broadcast, Method::PointToPoint),
        growing("3.allreduce.grows", Collective::AllReduce, Method::ReduceBroadcast),
    ];
    all.extend(heat::GRIDS.map(heat_large));
    all.push(heat_order());
    all.push(heat_small());
    all
}

/// A chip's network of `nodes` nodes with hops of `hop_ns`.
fn machine(nodes: usize, hop_ns: f64) -> Config {
    let mut config = Config { payload: false, ..Config::new(torus_4d(nodes)) };
    let less = Costs::default().lat_hop - hop_ns;
    config.params.link_ps -= (less * 1000.0) as u64;
    config
}

/// The job that times a collective, in ns.
pub(super) fn timed(what: Collective, how: Method, nodes: usize, sw: f64, hop_ns: f64) -> Job {
    let name = format!("{} {} {nodes} sw {sw} hop {hop_ns}", what.name(), how.name());
    let seconds = nodes as f64 / 4000.0;
    Job::call(name, seconds, move || {
        // On trees the software acts once, not per step.
        let ran = measure(
            machine(nodes, hop_ns),
            CollectivePlan { what, how, bytes: BYTES },
            if how == Method::Trees { 0.0 } else { sw },
        )?;
        Ok(values(&[("ns", ran.time as f64 / 1000.0)]))
    })
}

/// The same with flits that take next to no time, so that only heads count.
fn heads(what: Collective, how: Method, nodes: usize, hop_ns: f64) -> Job {
    let name = format!("{} {} {nodes} hop {hop_ns}, heads", what.name(), how.name());
    Job::call(name, nodes as f64 / 4000.0, move || {
        let mut config = machine(nodes, hop_ns);
        let instant = FlitTime { num: 1, den: 1 };
        (config.params.link_flit, config.params.core_flit) = (instant, instant);
        Ok(values(&[("ns", measure(config, CollectivePlan { what, how, bytes: BYTES }, 0.0)?.time as f64 / 1000.0)]))
    })
}

/// Both ways of a collective.
pub(super) fn both(what: Collective, pairs: Method, nodes: usize, sw: f64, hop_ns: f64) -> [Job; 2] {
    [timed(what, Method::Trees, nodes, 0.0, hop_ns), timed(what, pairs, nodes, sw, hop_ns)]
}

fn faster(
    id: &'static str,
    what: Collective,
    pairs: Method,
    nodes: usize,
    sw: f64,
    hop_ns: f64,
    (low, high): (f64, f64),
) -> Claim {
    let jobs = both(what, pairs, nodes, sw, hop_ns);
    let names = jobs.each_ref().map(|j| j.name.clone());
    let demand = if high.is_finite() { format!("{low} to {high} times") } else { format!("more than {low} times") };
    let claim = format!(
        "{} of {BYTES} bytes on {} ({nodes} nodes), hop {hop_ns} ns: trees against {} with sw = {sw} ns",
        what.name(),
        torus_4d(nodes),
        pairs.name()
    );
    let mut needs = jobs.to_vec();
    let without = [Method::Trees, pairs].map(|how| heads(what, how, nodes, hop_ns));
    let without_names = without.each_ref().map(|j| j.name.clone());
    // The one row whose demand has two ends counts heads only.
    if high.is_finite() {
        needs.extend(without);
    }
    Claim::new(id, claim, demand, needs, move |r| {
        let [trees, pairs] = names.each_ref().map(|n| r.get(n, "ns"));
        let ratio = pairs / trees;
        let measured = format!("{ratio:.2} times: {:.3} and {:.3} µs", trees / 1000.0, pairs / 1000.0);
        let judged = Judgement::new(ratio > low && ratio <= high, measured);
        if judged.verdict == Verdict::Met {
            return judged;
        }
        let [trees, pairs] = without_names.each_ref().map(|n| r.get(n, "ns"));
        judged.because(format!(
            "The expected values count heads only. The collective channels wait at every hop for the whole packet, as \
             the paper describes them: 3 flits take 6.4 ns more per hop, and twice as many internal flit times at the ends. \
             The same simulation with flits of 1 ps, so that heads alone count, gives {:.2} times: {:.3} and {:.3} µs.",
            pairs / trees,
            trees / 1000.0,
            pairs / 1000.0
        ))
    })
    .plotted("collectives.svg")
}

fn growing(id: &'static str, what: Collective, pairs: Method) -> Claim {
    let jobs = SIZES.map(|nodes| both(what, pairs, nodes, SW, 129.0));
    let names = jobs.each_ref().map(|j| j.each_ref().map(|j| j.name.clone()));
    let claim = format!("{}, sw = {SW} ns: what trees gain grows with the number of nodes", what.name());
    Claim::new(id, claim, "monotone from 8 to 8192 nodes", jobs.concat(), move |r| {
        let gains = names.each_ref().map(|[trees, pairs]| (r.get(pairs, "ns") - r.get(trees, "ns")) / 1000.0);
        let shown = gains.map(|g| format!("{g:.2}")).join(" < ");
        Judgement::new(gains.windows(2).all(|w| w[0] < w[1]), format!("{shown} µs"))
    })
    .plotted("collectives.svg")
}

/// Speed with trees over that with recursive doubling, if both were simulated.
pub(super) fn heat_ratio(r: &Results, cells: u64, nodes: usize) -> Option<f64> {
    let [trees, pairs] = heat_jobs(nodes).map(|j| r.find(&j.name, "ns").map(|ns| ns * 1e-9));
    Some(heat::speed(cells, nodes, trees?) / heat::speed(cells, nodes, pairs?))
}

fn known_ratio(r: &Results, cells: u64, nodes: usize) -> f64 {
    heat_ratio(r, cells, nodes).unwrap_or(f64::NAN)
}

fn heat_jobs(nodes: usize) -> [Job; 2] {
    both(Collective::AllReduce, Method::PointToPoint, nodes, SW, 129.0)
}

fn heat_large(cells: u64) -> Claim {
    let claim = format!(
        "heat equation, {:.2} M cells on {}, sw = {SW} ns: speed with trees over that with recursive doubling",
        cells as f64 / 1e6,
        torus_4d(32_768)
    );
    Claim::new(format!("3.heat.{}", cells / 1_000_000), claim, "2.2 to 4.2", heat_jobs(32_768).to_vec(), move |r| {
        let ratio = known_ratio(r, cells, 32_768);
        let [trees, pairs] = heat_jobs(32_768).map(|j| r.get(&j.name, "ns") / 1000.0);
        let compute = heat::compute_s(cells, 32_768) * 1e6;
        let measured =
            format!("{ratio:.2}: computing {compute:.2} µs, all-reduce {pairs:.2} µs doubling, {trees:.2} µs trees");
        Judgement::new((2.2..=4.2).contains(&ratio), measured)
    })
    .plotted("heat.svg")
}

fn heat_order() -> Claim {
    let claim = "heat equation at 32768 nodes: the fewer cells, the larger the gain";
    Claim::new("3.heat.order", claim, "largest for 40.96 M", heat_jobs(32_768).to_vec(), |r| {
        let ratios = heat::GRIDS.map(|cells| known_ratio(r, cells, 32_768));
        Judgement::new(ratios.windows(2).all(|w| w[0] > w[1]), ratios.map(|v| format!("{v:.2}")).join(" > "))
    })
    .plotted("heat.svg")
}

fn heat_small() -> Claim {
    let jobs = HEAT_SIZES[..2].iter().flat_map(|&n| heat_jobs(n)).chain(heat_jobs(4096)).collect();
    Claim::new("3.heat.64", "heat equation, up to 64 nodes: no difference", "1.00 ± 0.02", jobs, |r| {
        let ratios = [8, 64].map(|nodes| known_ratio(r, heat::GRIDS[0], nodes));
        let met = ratios.iter().all(|v| (v - 1.0).abs() <= 0.02);
        Judgement::new(met, format!("8 nodes {:.4}, 64 nodes {:.4}", ratios[0], ratios[1]))
    })
    .plotted("heat.svg")
}
