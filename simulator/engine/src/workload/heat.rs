//! The heat equation of paper 000: an explicit scheme on a square grid, cut into one block per node.
//!
//! Written `heat:CELLS[,METHOD[,SW]]`. One time step of every node: compute its block, exchange the
//! block's rim with the eight neighbours (corners included), agree on the largest conductivity by an
//! all-reduce of one number, which decides the length of the next step. Blocks lie on a grid of nodes
//! near a square, in the order of their ranks. METHOD and SW are those of `allreduce`.
//!
//! The paper's measure is operations / (T_S + T_max): computing and all-reduce without the rim. T_S is
//! given by the node's speed, as the paper measured it on a processor; T_max is simulated alone, and
//! the whole step once more.

use super::collective::{Collective, CollectivePlan, Method, measure_at, report_time};
use super::script::{Chip, Program, Ran, Stage, Step, chip, ns};
use super::{Report, Shows, Watch, Workload, WorkloadKind};
use crate::Error;
use crate::run::Experiment;
use crate::table::number;
use angara_fabric::Tick;
use angara_net::torus::NodeId;
use std::sync::Arc;
use std::time::Instant;

/// Operations of a node per second (paper 000: about 11 GFLOPS).
pub const SPEED: f64 = 11e9;
/// Operations per cell of the printed scheme (4): two second differences of 3, two divisions by a
/// constant and a sum, then times sigma, plus f, times the step, plus the old value.
pub const CELL_OPERATIONS: f64 = 13.0;
/// Bytes of a cell.
const CELL_BYTES: u64 = 8;
/// The grids of the paper.
pub const GRIDS: [u64; 3] = [40_960_000, 81_920_000, 163_840_000];

/// Seconds a node computes in a time step.
pub fn compute_s(cells: u64, nodes: usize) -> f64 {
    cells as f64 / nodes as f64 * CELL_OPERATIONS / SPEED
}

/// The paper's measure with the all-reduce taking `all_reduce_s`: operations per second.
pub fn speed(cells: u64, nodes: usize, all_reduce_s: f64) -> f64 {
    cells as f64 * CELL_OPERATIONS / (compute_s(cells, nodes) + all_reduce_s)
}

/// The all-reduce of one number on an idle network, T_max.
///
/// # Errors
/// See [`measure`].
pub fn all_reduce(chip: Chip, how: Method, overhead_ns: f64, watch: &mut Watch<'_>) -> Result<Ran, Error> {
    let plan = CollectivePlan { what: Collective::AllReduce, how, bytes: CELL_BYTES };
    measure_at(chip, plan, ns(overhead_ns), &|rank| rank as NodeId, watch)
}

/// Columns and rows of the grid of nodes: as near to a square as `n` allows.
fn grid(n: usize) -> (usize, usize) {
    let rows = (1..=n).take_while(|r| r * r <= n).filter(|r| n.is_multiple_of(*r)).max().unwrap_or(1);
    (n / rows, rows)
}

/// First tag of the rim's messages, beyond those of any all-reduce.
const RIM: u16 = 1000;

/// Exchanges the rim of a block of `width` x `height` cells.
fn rim(me: usize, n: usize, width: u64, height: u64, at: &dyn Fn(usize) -> NodeId) -> Program {
    let (columns, rows) = grid(n);
    let (x, y) = ((me % columns) as i64, (me / columns) as i64);
    let around = (-1..=1).flat_map(|dy| (-1..=1).map(move |dx| (dx, dy))).filter(|d| *d != (0, 0));
    let inside =
        |(dx, dy): &(i64, i64)| (0..columns as i64).contains(&(x + dx)) && (0..rows as i64).contains(&(y + dy));
    let number = |dx: i64, dy: i64| RIM + ((dy + 1) * 3 + dx + 1) as u16;
    let there: Vec<(i64, i64)> = around.filter(inside).collect();
    let send = |&(dx, dy): &(i64, i64)| {
        let to = at(((y + dy) * columns as i64 + x + dx) as usize);
        let cells = if dx == 0 { width } else { 1 } * if dy == 0 { height } else { 1 };
        // The neighbour looks for it in the opposite direction.
        Step::Send { to, bytes: (cells * CELL_BYTES) as u32, tag: number(-dx, -dy) }
    };
    there.iter().map(send).chain(there.iter().map(|&(dx, dy)| Step::Receive(number(dx, dy)))).collect()
}

#[derive(Debug)]
struct Heat {
    cells: u64,
    how: Method,
    overhead_ns: f64,
}

pub(super) const KIND: WorkloadKind = WorkloadKind {
    name: "heat",
    form: "heat:CELLS[,trees|p2p|reduce-broadcast|ring[,SW]]",
    about: "one time step of the heat equation on CELLS cells: compute, exchange rims, all-reduce",
    parse: |arguments| {
        let (cells, rest) = arguments.split_once(',').unwrap_or((arguments, "trees"));
        let bad = || Error::invalid("workload", cells, "give a number of cells");
        let cells = cells.trim().parse().ok().filter(|c| *c > 0).ok_or_else(bad)?;
        let (how, overhead_ns) = super::collective::method(Collective::AllReduce, rest)?;
        Ok(Arc::new(Heat { cells, how, overhead_ns }))
    },
};

impl Heat {
    fn plan(&self) -> CollectivePlan {
        CollectivePlan { what: Collective::AllReduce, how: self.how, bytes: CELL_BYTES }
    }

    fn step(&self, chip: Chip, at: &dyn Fn(usize) -> NodeId, watch: &mut Watch<'_>) -> Result<Ran, Error> {
        let mut stage = Stage::new(chip, ns(self.overhead_ns))?;
        let n = stage.nodes();
        self.plan().plant(&mut stage, at)?;
        let (columns, rows) = grid(n);
        let side = (self.cells as f64).sqrt();
        let (width, height) = ((side / columns as f64).ceil() as u64, (side / rows as f64).ceil() as u64);
        let compute = (compute_s(self.cells, n) * 1e12).round() as Tick;
        for rank in 0..n {
            let mut program = vec![Step::Compute(compute)];
            program.extend(rim(rank, n, width, height, at));
            program.extend(self.plan().program(rank, n, 0, at));
            stage.set(at(rank), program);
        }
        stage.run(watch)
    }
}

impl Workload for Heat {
    fn keys(&self) -> &'static [&'static str] {
        &[]
    }

    fn shows(&self) -> Shows {
        Shows { packets: true, ..Shows::default() }
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        chip(experiment)?;
        self.plan().check(experiment.placement.len())
    }

    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        let started = Instant::now();
        let (chip, n) = (chip(experiment)?, experiment.placement.len());
        let at = |rank: usize| experiment.placement[rank];
        let idle = Chip { capture: None, ..chip.clone() };
        let alone = all_reduce(idle, self.how, self.overhead_ns, watch)?.time as f64 / 1e12;
        let whole = self.step(chip, &at, watch)?;
        let us = |s: f64| format!("{} us", number(s * 1e6, 5));
        let Heat { cells, how, overhead_ns } = self;
        let title = format!("{} · heat equation, {cells} cells, {}, {overhead_ns} ns", experiment.title(), how.name());
        let mut report = Report::new(&title);
        report.line("computing", us(compute_s(*cells, n)));
        report.line("all-reduce alone", us(alone));
        let paper = speed(*cells, n, alone) / 1e12;
        report.line("by the paper", format!("{} TFLOPS, rims not counted", number(paper, 4)));
        report_time(&mut report, &whole, started, experiment);
        report.set("compute_ns", compute_s(*cells, n) * 1e9);
        report.set("allreduce_ns", alone * 1e9);
        report.set("teraflops", paper);
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_fabric::Config;
    use std::ops::ControlFlow;

    #[test]
    fn rims_meet_their_neighbours() {
        for n in [1, 2, 6, 16, 30] {
            let programs: Vec<Program> = (0..n).map(|me| rim(me, n, 40, 30, &|r| r as NodeId)).collect();
            let mut waited: Vec<(NodeId, u16)> = Vec::new();
            let mut sent = Vec::new();
            for (me, program) in programs.iter().enumerate() {
                for step in program {
                    match step {
                        Step::Send { to, bytes, tag } => sent.push((*to, *tag, *bytes)),
                        Step::Receive(tag) => waited.push((me as NodeId, *tag)),
                        other => panic!("{other:?}"),
                    }
                }
            }
            sent.sort_unstable();
            waited.sort_unstable();
            assert_eq!(sent.iter().map(|s| (s.0, s.1)).collect::<Vec<_>>(), waited, "{n} nodes");
            assert!(sent.iter().all(|s| [8, 240, 320].contains(&s.2)), "corner, column or row");
        }
    }

    #[test]
    fn few_nodes_compute_and_many_agree() {
        let ratio = |n: usize| {
            let config = Config { payload: false, ..Config::new(super::super::collective::torus_4d(n)) };
            let time = |how| {
                all_reduce(config.clone().into(), how, 0.0, &mut |_| ControlFlow::Continue(())).unwrap().time as f64
                    / 1e12
            };
            let (trees, messages) = (time(Method::Trees), time(Method::ReduceBroadcast));
            speed(GRIDS[0], n, trees) / speed(GRIDS[0], n, messages)
        };
        let few = ratio(64);
        assert!((1.0..1.02).contains(&few), "{few}");
        assert!(ratio(1024) > few);
        let report = crate::workload::simulate("topology = \"torus:2x2\"\nworkload = \"heat:10000,p2p\"");
        let time = |name: &str| report.json[name].as_f64().unwrap();
        assert!(time("time_ns") > time("compute_ns") + time("allreduce_ns") + 700.0, "rims take time: {}", report.text);
    }
}
