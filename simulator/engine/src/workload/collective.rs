//! Scripted collectives: broadcast, reduce, all-reduce and all-gather, on the chip's trees or by
//! messages between pairs of nodes.
//!
//! Written `broadcast:BYTES[,METHOD[,SW]]` and so on. METHOD is `trees` (the collective subnet), or an
//! algorithm of point-to-point messages: `p2p` is the binomial tree for broadcast and reduce and
//! recursive doubling for the others, `reduce-broadcast` an all-reduce by two binomial trees, `ring` a
//! ring. SW is the software's time per post in ns: per message point-to-point, once per node on trees.
//! Where an idle network allows it a closed form stands beside the simulated time.

use super::script::{Chip, Program, Ran, Stage, Step, chip, ns, tree_packets};
use super::{Report, Shows, Watch, Workload, WorkloadKind};
use crate::Error;
use crate::run::Experiment;
use crate::run::outcome::peak_rss_bytes;
use crate::table::number;
use angara_abi::packet::data_flits;
use angara_fabric::Config;
use angara_fabric::Tick;
use angara_net::torus::{NodeId, Shape};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// Collective operation of all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collective {
    /// Rank 0 has something for everybody.
    Broadcast,
    /// Rank 0 gets the sum of everybody's.
    Reduce,
    /// Everybody gets the sum.
    AllReduce,
    /// Everybody gets everybody's.
    AllGather,
}

/// How.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// On the collective subnet.
    Trees,
    /// Binomial tree, or recursive doubling.
    PointToPoint,
    /// A binomial reduce, then a binomial broadcast.
    ReduceBroadcast,
    /// Around the ring of ranks.
    Ring,
}

impl Collective {
    /// As written.
    pub fn name(self) -> &'static str {
        ["broadcast", "reduce", "allreduce", "allgather"][self as usize]
    }
    fn methods(self) -> &'static [Method] {
        use Method::*;
        match self {
            Collective::Broadcast | Collective::Reduce => &[Trees, PointToPoint],
            Collective::AllReduce => &[Trees, PointToPoint, ReduceBroadcast, Ring],
            Collective::AllGather => &[Trees, PointToPoint, Ring],
        }
    }
}

impl Method {
    /// As written.
    pub fn name(self) -> &'static str {
        ["trees", "p2p", "reduce-broadcast", "ring"][self as usize]
    }
}

/// Tag of the first message of a second algorithm in one program.
const SECOND: u16 = 64;

/// Steps of rank `me` of `n` in a binomial broadcast from rank 0; `at` names the node of a rank.
fn binomial_broadcast(me: usize, n: usize, bytes: u32, tag: u16, at: &dyn Fn(usize) -> NodeId) -> Program {
    let mut steps = Program::new();
    let below = if me == 0 {
        n.next_power_of_two()
    } else {
        steps.push(Step::Receive(tag));
        1 << me.trailing_zeros()
    };
    // The farthest child first: it has the longest way to go on.
    let masks = (0..below.trailing_zeros()).rev().map(|bit| me + (1 << bit));
    steps.extend(masks.filter(|to| *to < n).map(|to| Step::Send { to: at(to), bytes, tag }));
    steps
}

/// Steps in a binomial reduce to rank 0.
fn binomial_reduce(me: usize, n: usize, bytes: u32, at: &dyn Fn(usize) -> NodeId) -> Program {
    let mut steps = Program::new();
    for bit in 0..n.next_power_of_two().trailing_zeros() {
        let mask = 1 << bit;
        if me & mask != 0 {
            steps.push(Step::Send { to: at(me & !mask), bytes, tag: bit as u16 });
            break;
        }
        if me | mask < n {
            steps.push(Step::Receive(bit as u16));
        }
    }
    steps
}

/// Steps in a recursive doubling: round r exchanges `bytes(r)` with the rank that differs in bit r.
fn doubling(me: usize, n: usize, bytes: impl Fn(u32) -> u64, at: &dyn Fn(usize) -> NodeId) -> Program {
    let round = |r: u32| {
        let (to, bytes, tag) = (at(me ^ 1 << r), bytes(r) as u32, r as u16);
        [Step::Send { to, bytes, tag }, Step::Receive(tag)]
    };
    (0..n.trailing_zeros()).flat_map(round).collect()
}

/// Steps around a ring: `rounds` times `bytes` to the next rank.
fn ring(me: usize, n: usize, rounds: usize, bytes: u32, at: &dyn Fn(usize) -> NodeId) -> Program {
    let to = at((me + 1) % n);
    // Tags may repeat after 65,536 rounds: a neighbour is at most one round ahead.
    (0..rounds).flat_map(|r| [Step::Send { to, bytes, tag: r as u16 }, Step::Receive(r as u16)]).collect()
}

/// Steps of a collective; see [`CollectivePlan::program`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollectivePlan {
    /// What.
    pub what: Collective,
    /// How.
    pub how: Method,
    /// Bytes per node: of the message, the operand, or a node's part.
    pub bytes: u64,
}

impl CollectivePlan {
    /// Trees it uses on `n` nodes.
    pub fn trees(&self, n: usize) -> usize {
        match (self.how, self.what) {
            (Method::Trees, Collective::AllGather) => n.min(angara_abi::TREES),
            (Method::Trees, _) => 1,
            _ => 0,
        }
    }

    /// Refuses what cannot be run on `n` nodes.
    ///
    /// # Errors
    /// Says what to change.
    pub fn check(&self, n: usize) -> Result<(), Error> {
        let bad = |why: &str| Err(Error::invalid("workload", format!("{} on {n} nodes", self.what.name()), why));
        if self.bytes == 0 || self.bytes.saturating_mul(n as u64) > u32::MAX as u64 {
            return bad("give at least 1 byte, and less than 4 GiB for all nodes together");
        }
        let doubles = matches!(self.what, Collective::AllReduce | Collective::AllGather);
        if self.how == Method::PointToPoint && doubles && !n.is_power_of_two() {
            return bad("recursive doubling needs a power of two of nodes; use ring or trees");
        }
        if self.how == Method::Trees && self.what != Collective::AllGather && self.what != Collective::Broadcast {
            // A reduction works on whole 8-byte words.
            if !self.bytes.is_multiple_of(8) {
                return bad("a reduction on trees needs whole words of 8 bytes");
            }
        }
        Ok(())
    }

    /// Returns what rank `me` of `n` does. Reductions and broadcasts are waited for by their number: those of
    /// earlier collectives in the same program count, `before` of them.
    pub fn program(&self, me: usize, n: usize, before: u64, at: &dyn Fn(usize) -> NodeId) -> Program {
        use Collective::*;
        let bytes = self.bytes as u32;
        let packets = tree_packets(self.bytes);
        match (self.how, self.what) {
            (Method::Trees, Broadcast) => {
                let root = (me == 0).then_some(Step::Broadcast { tree: 0, bytes });
                root.into_iter().chain([Step::Heard(before + packets)]).collect()
            }
            (Method::Trees, Reduce) => {
                let mut steps = vec![Step::Reduce { tree: 0, bytes, to: Some(at(0)) }];
                steps.extend((me == 0).then_some(Step::Reduced(before + packets)));
                steps
            }
            (Method::Trees, AllReduce) => {
                vec![Step::Reduce { tree: 0, bytes, to: None }, Step::Reduced(before + packets)]
            }
            (Method::Trees, AllGather) => {
                let tree = (me * self.trees(n) / n) as u8;
                vec![Step::Broadcast { tree, bytes }, Step::Heard(before + packets * n as u64)]
            }
            (Method::PointToPoint, Broadcast) => binomial_broadcast(me, n, bytes, 0, at),
            (Method::PointToPoint, Reduce) => binomial_reduce(me, n, bytes, at),
            (Method::PointToPoint, AllReduce) => doubling(me, n, |_| self.bytes, at),
            (Method::PointToPoint, AllGather) => doubling(me, n, |r| self.bytes << r, at),
            (Method::Ring, AllReduce) => ring(me, n, 2 * (n - 1), self.bytes.div_ceil(n as u64) as u32, at),
            (Method::Ring, _) => ring(me, n, n - 1, bytes, at),
            (Method::ReduceBroadcast, _) => {
                let mut steps = binomial_reduce(me, n, bytes, at);
                steps.extend(binomial_broadcast(me, n, bytes, SECOND, at));
                steps
            }
        }
    }

    /// Loads the trees it needs. An all-gather's roots are spread evenly over the ranks, each in the
    /// middle of those that use its tree; otherwise rank 0 is the root.
    ///
    /// # Errors
    /// A tree that cannot be built.
    pub fn plant(&self, stage: &mut Stage, at: &dyn Fn(usize) -> NodeId) -> Result<(), Error> {
        let (n, trees) = (stage.nodes(), self.trees(stage.nodes()));
        for tree in 0..trees {
            let root = if trees == 1 { 0 } else { tree * n / trees + n / trees / 2 };
            stage.plant(tree as u8, at(root))?;
        }
        Ok(())
    }

    /// Time on an idle network in ps, where it follows from hops and lengths: one packet on trees,
    /// binomial trees and recursive doubling.
    pub fn closed_form(&self, config: &Config, overhead: Tick, at: &dyn Fn(usize) -> NodeId) -> Option<Tick> {
        if self.bytes > 256 || self.what == Collective::AllGather || self.how == Method::Ring {
            return None;
        }
        let (p, shape) = (&config.params, &config.shape);
        let flits = 2 + data_flits(self.bytes as usize) as u64;
        let (core, link) = (p.core_flit.of(flits), p.link_flit.of(flits));
        // A packet has arrived with its last flit, which is one flit less behind the first.
        let last = |rate: angara_fabric::FlitTime| rate.of(flits - 1);
        let n = shape.nodes();
        if self.how == Method::Trees {
            // Every node waits for the whole packet.
            let deep = (0..n as u32).map(|to| u64::from(shape.distance(at(0), to))).max()?;
            let edge = p.router_ps + p.link_ps + link;
            let (once, ways) = (
                overhead + p.inject_ps + core + p.eject_ps + last(p.core_flit),
                u64::from(self.what != Collective::AllReduce),
            );
            let up_and_down = if ways == 1 { deep } else { 2 * deep };
            // A result for one node leaves the root as a packet of the request channel.
            return (self.what != Collective::Reduce).then_some(once + up_and_down * edge);
        }
        let step = |a: usize, b: usize| {
            overhead
                + p.inject_ps
                + u64::from(shape.distance(at(a), at(b))) * (p.router_ps + p.link_ps)
                + last(p.link_flit).max(last(p.core_flit))
                + p.eject_ps
        };
        // The rank whose bits are all set is the last: every round's message is on its way there.
        let far = |bits: u32| (0..bits).map(|bit| step(n - 1, (n - 1) & !(1 << bit))).sum::<Tick>();
        if !n.is_power_of_two() {
            return None;
        }
        let once = far(n.trailing_zeros());
        Some(if self.how == Method::ReduceBroadcast { 2 * once } else { once })
    }
}

/// Runs one collective on an idle network, rank r on node r; `overhead_ns` is SW.
///
/// # Errors
/// If the plan cannot be run, or if the user interrupts it.
pub fn measure(chip: impl Into<Chip>, plan: CollectivePlan, overhead_ns: f64) -> Result<Ran, Error> {
    measure_at(chip.into(), plan, ns(overhead_ns), &|rank| rank as NodeId, &mut |_| ControlFlow::Continue(()))
}

pub(super) fn measure_at(
    chip: Chip,
    plan: CollectivePlan,
    overhead: Tick,
    at: &dyn Fn(usize) -> NodeId,
    watch: &mut Watch<'_>,
) -> Result<Ran, Error> {
    let mut stage = Stage::new(chip, overhead)?;
    let n = stage.nodes();
    plan.check(n)?;
    plan.plant(&mut stage, at)?;
    (0..n).for_each(|rank| stage.set(at(rank), plan.program(rank, n, 0, at)));
    stage.run(watch)
}

/// The 4D torus of a power of two of nodes that is nearest to a cube, longer dimensions first.
///
/// # Panics
/// If `nodes` is not a power of two.
pub fn torus_4d(nodes: usize) -> Shape {
    assert!(nodes.is_power_of_two(), "{nodes} nodes");
    let bits = nodes.trailing_zeros();
    let sizes: Vec<String> =
        (0..4).map(|d| (bits + 3 - d) / 4).filter(|b| *b > 0).map(|b| (1u32 << b).to_string()).collect();
    let text = if sizes.is_empty() { "1".into() } else { sizes.join("x") };
    text.parse().expect("sizes from 2 to 256")
}

#[derive(Debug)]
struct Scripted {
    plan: CollectivePlan,
    overhead_ns: f64,
}

fn parse(what: Collective, arguments: &str) -> Result<Arc<dyn Workload>, Error> {
    let (bytes, rest) = arguments.split_once(',').unwrap_or((arguments, "trees"));
    let bytes = bytes.trim().parse().map_err(|_| Error::invalid("workload", bytes, "give a number of bytes"))?;
    let (how, overhead_ns) = method(what, rest)?;
    Ok(Arc::new(Scripted { plan: CollectivePlan { what, how, bytes }, overhead_ns }))
}

/// Reads `METHOD[,SW]`.
pub(super) fn method(what: Collective, arguments: &str) -> Result<(Method, f64), Error> {
    let mut parts = arguments.split(',').map(str::trim);
    let bad = |value: &str, why: String| Error::invalid("workload", value, why);
    let how = parts.next().unwrap_or("trees");
    let methods = what.methods();
    let how =
        methods.iter().find(|m| m.name() == how).copied().ok_or_else(|| {
            bad(how, format!("use {}", methods.iter().map(|m| m.name()).collect::<Vec<_>>().join(", ")))
        })?;
    let sw = parts.next().unwrap_or("0");
    let overhead_ns = sw.parse().ok().filter(|ns| (0.0..1e9).contains(ns));
    let overhead_ns = overhead_ns.ok_or_else(|| bad(sw, "give SW in ns".into()))?;
    match parts.next() {
        Some(more) => Err(bad(more, "that is one argument too many".into())),
        None => Ok((how, overhead_ns)),
    }
}

pub(super) const BROADCAST: WorkloadKind = WorkloadKind {
    name: "broadcast",
    form: "broadcast:BYTES[,trees|p2p[,SW]]",
    about: "rank 0 sends BYTES to everybody",
    parse: |a| parse(Collective::Broadcast, a),
};
pub(super) const REDUCE: WorkloadKind = WorkloadKind {
    name: "reduce",
    form: "reduce:BYTES[,trees|p2p[,SW]]",
    about: "rank 0 gets the sum of everybody's BYTES",
    parse: |a| parse(Collective::Reduce, a),
};
pub(super) const ALL_REDUCE: WorkloadKind = WorkloadKind {
    name: "allreduce",
    form: "allreduce:BYTES[,trees|p2p|reduce-broadcast|ring[,SW]]",
    about: "everybody gets the sum of everybody's BYTES",
    parse: |a| parse(Collective::AllReduce, a),
};
pub(super) const ALL_GATHER: WorkloadKind = WorkloadKind {
    name: "allgather",
    form: "allgather:BYTES[,trees|p2p|ring[,SW]]",
    about: "everybody gets everybody's BYTES",
    parse: |a| parse(Collective::AllGather, a),
};

impl Workload for Scripted {
    fn keys(&self) -> &'static [&'static str] {
        &[]
    }

    fn shows(&self) -> Shows {
        Shows { packets: true, ..Shows::default() }
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        chip(experiment)?;
        self.plan.check(experiment.placement.len())
    }

    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        let started = Instant::now();
        let (chip, overhead) = (chip(experiment)?, ns(self.overhead_ns));
        let at = |rank: usize| experiment.placement[rank];
        let closed = self.plan.closed_form(&chip.config, overhead, &at).filter(|_| chip.faults.is_empty());
        let ran = measure_at(chip, self.plan, overhead, &at, watch)?;
        let CollectivePlan { what, how, bytes } = self.plan;
        let title = format!(
            "{} · {}, {bytes} bytes, {}, {} ns of software",
            experiment.title(),
            what.name(),
            how.name(),
            self.overhead_ns
        );
        let mut report = Report::new(&title);
        report_time(&mut report, &ran, started, experiment);
        if let Some(closed) = closed {
            let ratio = ran.time as f64 / closed as f64;
            report
                .line("closed form", format!("{} us (simulated / formula {ratio:.4})", number(closed as f64 / 1e6, 5)));
            report.set("closed_form_ns", closed as f64 / 1000.0);
        }
        Ok(report)
    }
}

/// Reports the times that every scripted workload has.
pub(super) fn report_time(report: &mut Report, ran: &Ran, started: Instant, experiment: &Experiment) {
    let wall_s = started.elapsed().as_secs_f64();
    report.line("time", format!("{} us", number(ran.time as f64 / 1e6, 5)));
    report.line("packets to hosts", ran.packets);
    report.line("simulated in", format!("{wall_s:.2} s, {:.2} M packet hops/s", ran.packet_hops as f64 / wall_s / 1e6));
    report.set("settings", &experiment.settings);
    report.set("time_ns", ran.time as f64 / 1000.0);
    report.set("packets", ran.packets);
    report.set("packet_hops", ran.packet_hops);
    report.set("flit_hops", ran.flit_hops);
    report.set("wall_s", wall_s);
    report.set("peak_rss_bytes", peak_rss_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use Collective::*;
    use Method::*;

    fn time(shape: &str, what: Collective, how: Method, bytes: u64, sw: f64) -> f64 {
        let config = Config { payload: false, ..Config::new(shape.parse().unwrap()) };
        measure(config, CollectivePlan { what, how, bytes }, sw).unwrap().time as f64 / 1000.0
    }

    #[test]
    fn small_collectives_take_the_time_of_their_closed_form() {
        for shape in ["2x2x2", "4x4", "4x4x2x2"] {
            let config = Config { payload: false, ..Config::new(shape.parse().unwrap()) };
            for (what, how, tolerance) in [
                (Broadcast, Trees, 1e-9),
                (AllReduce, Trees, 1e-9),
                (Broadcast, PointToPoint, 0.01),
                (Reduce, PointToPoint, 0.01),
                (AllReduce, PointToPoint, 0.01),
                (AllReduce, ReduceBroadcast, 0.01),
            ] {
                for sw in [0, 700] {
                    let plan = CollectivePlan { what, how, bytes: 8 };
                    let closed = plan.closed_form(&config, sw * 1000, &|r| r as u32).unwrap() as f64 / 1000.0;
                    let took = time(shape, what, how, 8, sw as f64);
                    assert!(
                        (took / closed - 1.0).abs() < tolerance,
                        "{shape} {what:?} {how:?} {sw}: {took} ns, {closed}"
                    );
                }
            }
        }
    }

    #[test]
    fn collectives_end_where_links_fail_or_corrupt_packets() {
        let all = [
            "broadcast:1000",
            "broadcast:1000,p2p",
            "reduce:800",
            "allreduce:8",
            "allreduce:4000,ring",
            "allgather:600",
        ];
        let others = ["barrier:multiphase", "barrier:tree,full,3", "heat:10000", "spmv:p2p,0,2"];
        for workload in all.into_iter().chain(others) {
            let ends = |fault: &str| {
                let settings = format!("topology = \"torus:4x4\"\nworkload = \"{workload}\"\n{fault}");
                let json = crate::workload::simulate(&settings).json;
                let fields = ["time_ns", "packets", "flit_hops"].map(|f| json[f].as_f64().unwrap());
                assert!(json.get("late_packets").is_none_or(|n| n == 0), "{settings}");
                (fields, json.contains_key("closed_form_ns") || json.contains_key("formula_ns"))
            };
            let (whole, _) = ends("");
            let (down, formula) = ends("fault = [\"link 0,0 +X down\", \"link 1,1 -Y down\"]");
            assert!(whole != down && !formula, "{workload}: {whole:?} {down:?}");
            let (wrong, formula) = ends("error-rate = \"10%\"");
            assert!(whole[0] != wrong[0] && whole[1] == wrong[1] && !formula, "{workload}: {whole:?} {wrong:?}");
        }
    }

    #[test]
    fn everybody_hears_all_of_an_all_gather() {
        for how in [Trees, PointToPoint, Ring] {
            let config = Config { payload: false, ..Config::new("4x4".parse().unwrap()) };
            let ran = measure(config, CollectivePlan { what: AllGather, how, bytes: 600 }, 0.0).unwrap();
            // 600 bytes are 3 packets; on trees everybody also hears itself. Doubling sends 1, 2, 4, 8
            // times 600 bytes in 3, 5, 10 and 19 packets.
            let packets = match how {
                Trees => 16 * 16 * 3,
                PointToPoint => 16 * (3 + 5 + 10 + 19),
                _ => 16 * 15 * 3,
            };
            assert_eq!(ran.packets, packets, "{how:?}");
        }
    }

    #[test]
    fn shapes_are_near_cubes_with_the_long_sides_first() {
        let shapes = [1, 2, 8, 64, 256, 1024, 2048, 8192, 32768].map(|n| torus_4d(n).to_string());
        assert_eq!(shapes, ["1", "2", "2x2x2", "4x4x2x2", "4x4x4x4", "8x8x4x4", "8x8x8x4", "16x8x8x8", "16x16x16x8"]);
    }

    #[test]
    fn numbers_of_nodes_that_are_no_power_of_two() {
        for (what, how) in
            [(Broadcast, PointToPoint), (Reduce, PointToPoint), (AllReduce, ReduceBroadcast), (AllReduce, Ring)]
        {
            assert!(time("3x3", what, how, 64, 0.0) > 0.0);
        }
        let odd = CollectivePlan { what: AllReduce, how: PointToPoint, bytes: 8 }.check(9).unwrap_err().to_string();
        assert!(odd.contains("power of two"), "{odd}");
    }

    #[test]
    fn workloads_say_what_is_wrong_with_them() {
        let refused = |text: &str| text.parse::<crate::workload::Chosen>().unwrap_err().to_string();
        assert!(refused("allreduce:8,binary").contains("use trees, p2p, reduce-broadcast, ring"));
        assert!(refused("broadcast:x").contains("give a number of bytes"));
        assert!(refused("broadcast:8,trees,soon").contains("give SW in ns"));
        let report = crate::workload::simulate("topology = \"torus:2x2\"\nworkload = \"allreduce:8,trees,100\"");
        assert!(report.json["time_ns"].as_f64().unwrap() > 700.0, "{}", report.text);
        assert!(report.text.contains("simulated / formula 1.0"), "{}", report.text);
    }
}
