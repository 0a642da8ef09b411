//! Section 3, sparse matrix times vector: a long all-gather on trees and by recursive doubling (paper 000).

use super::claim::{Claim, Job, Judgement, Results, values};
use angara_fabric::Config;
use angara_sim::workload::collective::{Method, torus_4d};
use angara_sim::workload::spmv;
use std::ops::ControlFlow;

/// Nodes of the tori, with the paper's ratio.
const RATIOS: [(usize, f64, f64, &str); 4] = [
    (64, 0.95, 1.05, "1.0"),
    (256, 0.95, 1.05, "1.0"),
    (1024, 0.95, 1.10, "less than 1.10"),
    (2048, 1.15, 1.35, "1.15 to 1.35"),
];

pub(super) fn claims() -> Vec<Claim> {
    RATIOS.iter().map(|&(nodes, low, high, demand)| claim(nodes, low, high, demand)).collect()
}

/// The job that times the all-gather of the whole vector, in ms.
fn job(nodes: usize, how: Method) -> Job {
    Job::call(format!("spmv all-gather {} {nodes}", how.name()), nodes as f64 / 60.0, move || {
        let config = Config { payload: false, ..Config::new(torus_4d(nodes)) };
        let gathered = spmv::gather(&config.into(), how, 0.0, spmv::sample(nodes), &mut |_| ControlFlow::Continue(()))?;
        Ok(values(&[("ms", gathered.time_s * 1e3)]))
    })
}

fn jobs(nodes: usize) -> [Job; 2] {
    [job(nodes, Method::Trees), job(nodes, Method::PointToPoint)]
}

/// Speed with trees over that with recursive doubling, if both were simulated.
fn ratio(r: &Results, nodes: usize) -> Option<f64> {
    let compute = spmv::compute_s(nodes) * 1e3;
    let [trees, pairs] = jobs(nodes).map(|j| r.find(&j.name, "ms"));
    Some((compute + pairs?) / (compute + trees?))
}

/// The ratio over the number of nodes, as far as simulated.
pub(super) fn points(r: &Results) -> Vec<(f64, f64)> {
    RATIOS.iter().filter_map(|&(nodes, ..)| Some((nodes as f64, ratio(r, nodes)?))).collect()
}

fn claim(nodes: usize, low: f64, high: f64, demand: &str) -> Claim {
    let about = format!(
        "sparse matrix times vector, 20.48 M rows on {} ({nodes} nodes): speed with 16 trees over that with recursive doubling",
        torus_4d(nodes)
    );
    Claim::new(format!("3.spmv.{nodes}"), about, demand, jobs(nodes).to_vec(), move |r| {
        let ratio = ratio(r, nodes).unwrap_or(f64::NAN);
        let [trees, pairs] = jobs(nodes).map(|j| r.get(&j.name, "ms"));
        let compute = spmv::compute_s(nodes) * 1e3;
        let measured =
            format!("{ratio:.2}: computing {compute:.1} ms, all-gather {pairs:.1} ms doubling, {trees:.1} ms trees");
        Judgement::new((low..=high).contains(&ratio), measured)
    })
    .plotted("spmv.svg")
}
