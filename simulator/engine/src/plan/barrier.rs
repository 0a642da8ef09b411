//! How long a barrier takes on an empty torus, and which kind of barrier is faster (paper 001).
//!
//! Two barriers that need no acknowledgements compete. *All-to-all*: everybody sends one packet to
//! everybody, so links and injectors fill up, but one packet delay suffices. *Multiphase*: K times
//! in a row every node sends one special packet to each neighbour and waits for theirs, where K is
//! the diameter; links stay empty but every phase costs a hop. K phases make a half-barrier (all
//! entered, all packets for me arrived), 2K phases a full barrier (and mine arrived too).
//!
//! The paper's formulas (1) to (6) contain slips, so each estimate comes in a [`Mode`]. Times are
//! nanoseconds; a *rate* is the time per packet, that is the inverse of a throughput.

use crate::Error;
use angara_fabric::BarrierWork;
use angara_net::torus::Shape;
use serde::Serialize;

angara_net::words! {
    /// Which reading of the formulas.
    #[derive(Debug, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Mode {
        /// As printed: link load n^(dim+1)/4 (both directions of a link added up), diameter dim·n/2
        /// also for odd n, link-bound from n > r, inequality (6) with the forgotten division.
        Paper = "paper",
        /// The same load with the algebra mended: (6) divided by n on both sides, link-bound from
        /// n > 4/r.
        Corrected = "corrected",
        /// The true load of one directed link, n^(dim+1)/8 for even n with ties split, the true
        /// diameter dim·⌊n/2⌋, link-bound from n > 8/r.
        Exact = "exact",
    }
}

/// The network's costs in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Costs {
    /// Router and link of one hop.
    pub lat_hop: f64,
    /// Advancing to the next phase (the text also calls it lat_inj once, a slip).
    pub lat_inc: f64,
    /// Time per packet on a link.
    pub rate_link: f64,
    /// Time per packet of an injector.
    pub rate_inj: f64,
    /// Time per packet of an ejector.
    pub rate_ej: f64,
    /// From the host into the network.
    pub lat_inj: f64,
    /// From the network to the host.
    pub lat_ej: f64,
}

impl Default for Costs {
    /// Angara EC8430: 129 ns per hop, 300 ns in and out; 4 ns is a two-flit packet at 8 GB/s.
    fn default() -> Costs {
        Costs {
            lat_hop: 129.0,
            lat_inc: 10.0,
            rate_link: 4.0,
            rate_inj: 4.0,
            rate_ej: 4.0,
            lat_inj: 300.0,
            lat_ej: 300.0,
        }
    }
}

impl Costs {
    /// Refuses negative and non-finite values.
    pub fn check(&self) -> Result<(), Error> {
        let all = [
            ("--lat-hop", self.lat_hop),
            ("--lat-inc", self.lat_inc),
            ("--rate-link", self.rate_link),
            ("--rate-inj", self.rate_inj),
            ("--rate-ej", self.rate_ej),
            ("--lat-inj", self.lat_inj),
            ("--lat-ej", self.lat_ej),
        ];
        match all.iter().find(|(_, v)| !(v.is_finite() && *v >= 0.0)) {
            Some((name, v)) => Err(Error::invalid(name, v, "give a time of at least 0 in nanoseconds")),
            None => Ok(()),
        }
    }

    /// Formula (1): the busiest link, the injectors or the ejectors of `nodes` nodes decide, then
    /// the last packet crosses `diameter` hops.
    pub fn lower_bound(&self, link_packets: f64, nodes: f64, diameter: f64) -> f64 {
        self.busy(link_packets, nodes) + self.lat_hop * diameter + self.lat_inj + self.lat_ej
    }

    /// The maximum in (1): time for which the busiest resource works.
    pub fn busy(&self, link_packets: f64, nodes: f64) -> f64 {
        (self.rate_link * link_packets).max(self.rate_inj * (nodes - 1.0)).max(self.rate_ej * (nodes - 1.0))
    }

    /// A multiphase barrier of `phases` phases: K for a half-barrier, 2K for a full one.
    pub fn multiphase(&self, phases: f64) -> f64 {
        phases * (self.lat_hop + self.lat_inc) + self.lat_inj + self.lat_ej
    }

    /// r = rate_link / rate_inj.
    pub fn ratio(&self) -> f64 {
        self.rate_link / self.rate_inj
    }
}

/// A torus of `dim` dimensions with `n` nodes each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Cube {
    /// Nodes per dimension.
    pub n: u32,
    /// Dimensions.
    pub dim: u32,
}

impl Cube {
    /// n^dim.
    pub fn nodes(&self) -> f64 {
        f64::from(self.n).powi(self.dim as i32)
    }
    /// Longest minimal route.
    pub fn diameter(&self, mode: Mode) -> f64 {
        match mode {
            Mode::Exact => f64::from(self.dim * (self.n / 2)),
            _ => f64::from(self.dim) * f64::from(self.n) / 2.0,
        }
    }
    /// Packets over the busiest link when everybody sends one to everybody.
    pub fn link_packets(&self, mode: Mode) -> f64 {
        let n = f64::from(self.n);
        match mode {
            Mode::Exact => self.nodes() * ring_hops(self.n) / (2.0 * n),
            _ => n.powi(self.dim as i32 + 1) / 4.0,
        }
    }
    /// Packets an all-to-all half-barrier sends: N² − N.
    pub fn all_to_all_packets(&self) -> f64 {
        self.nodes() * (self.nodes() - 1.0)
    }
    /// Packets of a multiphase barrier: one per phase, node and directed link.
    pub fn multiphase_packets(&self, phases: f64) -> f64 {
        2.0 * f64::from(self.dim) * self.nodes() * phases
    }
    /// All-to-all half-barrier, formula (2) and its 2D and 4D siblings.
    pub fn all_to_all_half(&self, costs: &Costs, mode: Mode) -> f64 {
        costs.lower_bound(self.link_packets(mode), self.nodes(), self.diameter(mode))
    }
    /// Full all-to-all barrier: two half-barriers.
    pub fn all_to_all_full(&self, costs: &Costs, mode: Mode) -> f64 {
        2.0 * self.all_to_all_half(costs, mode)
    }
    /// Multiphase half-barrier, K phases.
    pub fn multiphase_half(&self, costs: &Costs, mode: Mode) -> f64 {
        costs.multiphase(self.diameter(mode))
    }
    /// Full multiphase barrier, 2K phases.
    pub fn multiphase_full(&self, costs: &Costs, mode: Mode) -> f64 {
        costs.multiphase(2.0 * self.diameter(mode))
    }
    /// Links, not injectors, limit the all-to-all barrier.
    pub fn link_bound(&self, costs: &Costs, mode: Mode) -> bool {
        let slots = (self.nodes() - 1.0) / self.nodes();
        match mode {
            Mode::Paper => f64::from(self.n) > costs.ratio() * slots,
            Mode::Corrected => f64::from(self.n) > 4.0 / costs.ratio() * slots,
            Mode::Exact => costs.rate_link * self.link_packets(mode) > costs.rate_inj * (self.nodes() - 1.0),
        }
    }
}

/// Sum of the distances from one node of a ring of `n` to all the others.
fn ring_hops(n: u32) -> f64 {
    let n = f64::from(n);
    if n % 2.0 == 0.0 { n * n / 4.0 } else { (n * n - 1.0) / 4.0 }
}

/// Which barriers an inequality compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// Inequalities (3) to (5): full multiphase (2K) against *half* all-to-all.
    FullAgainstHalf,
    /// Inequality (6) as the mode reads it; `exact` has none of its own and uses (3).
    Six,
    /// Both half-barriers.
    HalfAgainstHalf,
    /// Both full barriers.
    FullAgainstFull,
}

impl Criterion {
    /// Every criterion.
    pub const ALL: [Criterion; 4] =
        [Criterion::FullAgainstHalf, Criterion::Six, Criterion::HalfAgainstHalf, Criterion::FullAgainstFull];

    /// The multiphase barrier wins on `cube`.
    pub fn holds(self, cube: Cube, costs: &Costs, mode: Mode) -> bool {
        match self {
            Criterion::Six if mode != Mode::Exact => {
                let (n, dim) = (f64::from(cube.n), f64::from(cube.dim));
                let inject = costs.rate_inj * (cube.nodes() - 1.0) / if mode == Mode::Paper { 1.0 } else { n };
                let left = dim * (0.5 * costs.lat_hop + costs.lat_inc);
                left < (cube.link_packets(mode) / n * costs.rate_link).max(inject)
            }
            Criterion::FullAgainstHalf | Criterion::Six => {
                cube.multiphase_full(costs, mode) < cube.all_to_all_half(costs, mode)
            }
            Criterion::HalfAgainstHalf => cube.multiphase_half(costs, mode) < cube.all_to_all_half(costs, mode),
            Criterion::FullAgainstFull => cube.multiphase_full(costs, mode) < cube.all_to_all_full(costs, mode),
        }
    }

    /// Smallest n from 2 to `n_max` on which the multiphase barrier wins.
    pub fn first(self, dim: u32, costs: &Costs, mode: Mode, n_max: u32) -> Option<u32> {
        (2..=n_max).find(|&n| self.holds(Cube { n, dim }, costs, mode))
    }
}

/// Formula (1) on any torus or mesh, with the true loads of direction-order routing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShapeBound {
    /// The shape, as the user types it.
    pub shape: String,
    /// Nodes.
    pub nodes: usize,
    /// Longest minimal route.
    pub diameter: u32,
    /// Packets over the busiest directed link of each dimension, ties split.
    pub link_packets: Vec<f64>,
    /// All-to-all half-barrier.
    pub all_to_all_half_ns: f64,
    /// Multiphase half-barrier.
    pub multiphase_half_ns: f64,
    /// Full multiphase barrier.
    pub multiphase_full_ns: f64,
    /// Packets times links of a full multiphase barrier with a PE at every node.
    pub multiphase_packet_hops: u64,
    /// The same along a tree.
    pub tree_packet_hops: u64,
    /// Barrier that `angara run --path ring --barrier auto` takes for such a job.
    pub auto: String,
}

impl ShapeBound {
    /// The bound for `shape`.
    pub fn new(shape: &Shape, costs: &Costs) -> ShapeBound {
        let nodes = shape.nodes();
        let (mut diameter, mut link_packets) = (0, Vec::new());
        for &size in shape.dims() {
            let size = u32::from(size);
            let (reach, packets) = if shape.is_torus() {
                (size / 2, ring_hops(size) * nodes as f64 / (2.0 * f64::from(size)))
            } else {
                // The middle link of a line: everybody on one side to everybody on the other.
                (size - 1, f64::from(size / 2) * f64::from(size.div_ceil(2)) * nodes as f64 / f64::from(size))
            };
            diameter += reach;
            link_packets.push(if size > 1 { packets } else { 0.0 });
        }
        let busiest = link_packets.iter().copied().fold(0.0, f64::max);
        let work = BarrierWork::new(*shape, &(0..nodes as u32).collect::<Vec<_>>());
        ShapeBound {
            shape: shape.to_string(),
            nodes,
            diameter,
            all_to_all_half_ns: costs.lower_bound(busiest, nodes as f64, f64::from(diameter)),
            multiphase_half_ns: costs.multiphase(f64::from(diameter)),
            multiphase_full_ns: costs.multiphase(2.0 * f64::from(diameter)),
            multiphase_packet_hops: work.multiphase,
            tree_packet_hops: work.tree,
            auto: work.choice().to_string(),
            link_packets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cube(n: u32, dim: u32) -> Cube {
        Cube { n, dim }
    }

    /// Microseconds rounded to nanoseconds.
    fn us(ns: f64) -> f64 {
        ns.round() / 1000.0
    }

    #[test]
    fn known_times_of_six_networks() {
        let costs = Costs::default();
        let known = [
            (2, 3, 1.015, 1.015, 1.017, 1.434),
            (4, 3, 1.630, 1.626, 1.434, 2.268),
            (8, 3, 6.244, 4.196, 2.268, 3.936),
            (16, 3, 69.232, 36.464, 3.936, 7.272),
            (4, 4, 2.656, 2.652, 1.712, 2.824),
            (8, 4, 35.432, 19.048, 2.824, 5.048),
        ];
        for (n, dim, paper, exact, half, full) in known {
            let c = cube(n, dim);
            assert_eq!(us(c.all_to_all_half(&costs, Mode::Paper)), paper, "{n}^{dim}");
            assert_eq!(us(c.all_to_all_half(&costs, Mode::Corrected)), paper, "{n}^{dim}");
            assert_eq!(us(c.all_to_all_half(&costs, Mode::Exact)), exact, "{n}^{dim}");
            for mode in [Mode::Paper, Mode::Corrected, Mode::Exact] {
                assert_eq!(us(c.multiphase_half(&costs, mode)), half, "{n}^{dim}");
                assert_eq!(us(c.multiphase_full(&costs, mode)), full, "{n}^{dim}");
            }
        }
    }

    #[test]
    fn crossover_table() {
        let known =
            [(129.0, 4.0, [12, 6, 5]), (129.0, 20.0, [7, 4, 3]), (80.0, 4.0, [10, 6, 4]), (80.0, 20.0, [5, 3, 3])];
        for (lat_hop, rate, expected) in known {
            let costs = Costs { lat_hop, lat_inc: 4.0, rate_inj: rate, rate_ej: rate, ..Costs::default() };
            for (dim, n) in (2..=4).zip(expected) {
                for mode in [Mode::Paper, Mode::Corrected] {
                    assert_eq!(
                        Criterion::FullAgainstHalf.first(dim, &costs, mode, 100),
                        Some(n),
                        "{lat_hop} {rate} {dim}D"
                    );
                }
                let six = Criterion::Six.first(dim, &costs, Mode::Corrected, 100);
                assert_eq!(six, Some(n), "(6) divided by n says the same: {lat_hop} {rate} {dim}D");
            }
        }
    }

    #[test]
    fn printed_inequality_six_forgets_a_division() {
        let costs = Costs { lat_inc: 4.0, ..Costs::default() };
        assert_eq!(Criterion::Six.first(2, &costs, Mode::Paper, 100), Some(6), "too optimistic: 12 by (3)");
    }

    #[test]
    fn like_for_like_comparisons_follow_their_inequalities() {
        let costs = Costs::default();
        for dim in 2..=4u32 {
            for n in 2..=20u32 {
                let c = cube(n, dim);
                let busy = costs.busy(c.link_packets(Mode::Corrected), c.nodes());
                let (n, d) = (f64::from(n), f64::from(dim));
                let half = d / 2.0 * n * costs.lat_inc < busy;
                let full = d * n * costs.lat_inc < 2.0 * busy + costs.lat_inj + costs.lat_ej;
                assert_eq!(Criterion::HalfAgainstHalf.holds(c, &costs, Mode::Corrected), half);
                assert_eq!(Criterion::FullAgainstFull.holds(c, &costs, Mode::Corrected), full);
            }
        }
    }

    #[test]
    fn link_bound_thresholds() {
        let costs = Costs { rate_inj: 20.0, rate_ej: 20.0, ..Costs::default() };
        let first = |mode| (2..200).find(|&n| cube(n, 3).link_bound(&costs, mode));
        assert_eq!(first(Mode::Paper), Some(2), "r = 0.2");
        assert_eq!(first(Mode::Corrected), Some(20), "4/r, less the node itself");
        assert_eq!(first(Mode::Exact), Some(40), "8/r, less the node itself");
    }

    /// Routes every pair in dimension order and counts packets per directed link; a tie counts
    /// half each way.
    fn counted_load(shape: &Shape) -> f64 {
        use angara_net::torus::{DIMS_MAX, Direction};
        let mut load = vec![[0.0f64; 8]; shape.nodes()];
        for a in 0..shape.nodes() as u32 {
            for b in 0..shape.nodes() as u32 {
                let mut at = vec![(a, 1.0)];
                for dim in 0..DIMS_MAX {
                    let size = shape.size(dim) as i32;
                    let mut next = Vec::new();
                    for (from, share) in at {
                        let ahead = i32::from(shape.coords(b).0[dim]) - i32::from(shape.coords(from).0[dim]);
                        let (up, down) = if shape.is_torus() {
                            (ahead.rem_euclid(size), (-ahead).rem_euclid(size))
                        } else {
                            (if ahead >= 0 { ahead } else { i32::MAX }, if ahead <= 0 { -ahead } else { i32::MAX })
                        };
                        let ways: &[(bool, i32, f64)] = match up.cmp(&down) {
                            std::cmp::Ordering::Less => &[(true, up, share)],
                            std::cmp::Ordering::Greater => &[(false, down, share)],
                            std::cmp::Ordering::Equal if up == 0 => &[(true, 0, share)],
                            std::cmp::Ordering::Equal => &[(true, up, share / 2.0), (false, down, share / 2.0)],
                        };
                        for &(plus, hops, share) in ways {
                            let mut node = from;
                            for _ in 0..hops {
                                load[node as usize][Direction::new(dim, plus).index()] += share;
                                node = shape.neighbour(node, Direction::new(dim, plus)).unwrap();
                            }
                            next.push((node, share));
                        }
                    }
                    at = next;
                }
            }
        }
        load.iter().flatten().copied().fold(0.0, f64::max)
    }

    #[test]
    fn exact_load_is_the_counted_one() {
        for (n, dim) in [(2, 2), (2, 3), (3, 2), (4, 2), (4, 3), (5, 2), (6, 2), (3, 3)] {
            let shape = Shape::new(&vec![n as u8; dim as usize], true).unwrap();
            let counted = counted_load(&shape);
            assert!((counted - cube(n, dim).link_packets(Mode::Exact)).abs() < 1e-9, "{shape}: {counted}");
        }
        assert_eq!(cube(4, 3).link_packets(Mode::Exact), 32.0);
        assert_eq!(cube(4, 3).link_packets(Mode::Paper), 64.0, "both directions added up");
    }

    #[test]
    fn any_shape_has_the_counted_load() {
        for text in ["4x2x3", "mesh:4x3", "5x4", "mesh:5", "3x3x4", "1x4"] {
            let shape: Shape = text.parse().unwrap();
            let bound = ShapeBound::new(&shape, &Costs::default());
            let busiest = bound.link_packets.iter().copied().fold(0.0, f64::max);
            assert!((counted_load(&shape) - busiest).abs() < 1e-9, "{text}");
            let far = (0..shape.nodes() as u32).map(|b| shape.distance(0, b)).max().unwrap();
            assert!(far <= bound.diameter, "{text}");
        }
    }

    #[test]
    fn packet_counts() {
        assert_eq!(cube(4, 3).all_to_all_packets(), 4096.0 - 64.0);
        assert_eq!(cube(4, 3).multiphase_packets(6.0), 2.0 * 3.0 * 64.0 * 6.0);
    }

    #[test]
    fn negative_costs_are_refused_by_name() {
        let e = Costs { lat_hop: -1.0, ..Costs::default() }.check().unwrap_err();
        assert!(e.to_string().starts_with("--lat-hop is -1"), "{e}");
    }
}
