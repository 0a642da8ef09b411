//! Ways of any topology: how long they are, how traffic loads the links, and whether packets can wait for each other in
//! a circle.

use crate::Error;
use crate::run::router::Routing;
use crate::table::{Table, number};
use crate::traffic::Pattern;
use angara_fabric::rng::mix;
use angara_model::AnyTopology;
use angara_model::topology::{
    End,
    dependencies::{self, Queues, Step},
};
use serde::Serialize;

/// Most routers, and endpoints, of a network whose ways are all walked.
const ROUTERS_MAX: usize = 1024;
/// Random words tried for every pair of routers, for a circle.
const WORDS: u64 = 8;
/// Ways walked for loads, about, and of one pair at least and at most.
const WALKS: u64 = 1 << 20;
const PER_PAIR: (u64, u64) = (2, 64);

/// Properties of a topology's ways.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The topology.
    pub topology: String,
    /// How packets find their way.
    pub routing: Routing,
    /// Routers.
    pub routers: usize,
    /// Endpoints.
    pub endpoints: usize,
    /// Virtual channels needed.
    pub vcs: u32,
    /// Links of the longest way walked.
    pub most_links: usize,
    /// Mean links of a way between two endpoints, without queues.
    pub mean_links: f64,
    /// Channels that packets can wait around; none if there is no circle.
    pub circle: Option<String>,
    /// Random ways walked of every pair for the loads; 1 if there is one only, so that the loads are exact.
    pub ways_per_pair: u64,
    /// Decides the random ways.
    pub seed: u64,
    /// Loads of uniform traffic, and of the pattern asked for.
    pub loads: Vec<Loads>,
}

/// Loads of links where every node sends one flit per cycle on average, without queues.
#[derive(Clone, Debug, Serialize)]
pub struct Loads {
    /// The pattern.
    pub pattern: String,
    /// Mean flits per cycle of a link between routers.
    pub mean: f64,
    /// Most flits per cycle of one.
    pub most: f64,
    /// The link that has them; none if no link is used.
    pub link: Option<String>,
    /// Most flits per cycle that an endpoint sends.
    pub sends: f64,
    /// Most flits per cycle that an endpoint receives.
    pub receives: f64,
    /// Flits per node and cycle above which a link or endpoint would have more than one flit per cycle.
    pub bound: f64,
}

/// Ways of all pairs, random ones where there are several.
struct Walker<'a> {
    topology: &'a AnyTopology,
    /// Ways of every pair.
    words: u64,
    seed: u64,
}

impl Walker<'_> {
    /// The random words of a pair. Each comes with its complement, so that bits which decide between two ways decide
    /// for either equally often.
    fn words(&self, src: u32, dst: u32) -> impl Iterator<Item = u64> + use<> {
        let pair = mix(self.seed ^ mix(u64::from(src) << 32 | u64::from(dst)));
        (0..self.words).map(move |n| if n % 2 == 0 { mix(pair ^ n) } else { !mix(pair ^ (n - 1)) })
    }
    fn ways(&self, src: u32, dst: u32) -> impl Iterator<Item = Vec<Step>> {
        self.words(src, dst).map(move |word| self.topology.ways().way((src, dst), word, Queues::Empty))
    }
    /// Mean links of a way and most, and whether every pair has one way.
    fn lengths(&self) -> (f64, usize, bool) {
        let n = self.topology.endpoints() as u32;
        let (mut most, mut sum, mut one) = (0, 0, true);
        for (src, dst) in (0..n).flat_map(|s| (0..n).map(move |d| (s, d))) {
            let ways: Vec<Vec<Step>> = self.ways(src, dst).collect();
            one &= ways.iter().all(|way| *way == ways[0]);
            for (word, way) in self.words(src, dst).zip(&ways) {
                let through = self.topology.ways().way((src, dst), word, Queues::Random(word));
                sum += way.len() - 1;
                most = most.max(way.len() - 1).max(through.len() - 1);
            }
        }
        (sum as f64 / (f64::from(n).powi(2) * self.words as f64), most, one)
    }
    fn loads(&self, pattern: &Pattern) -> Result<Loads, Error> {
        let t = self.topology;
        let destinations = pattern.prepare(&t.layout(), self.seed)?;
        let sends = destinations.weights().map_or_else(|| vec![1.0; t.endpoints()], |weights| weights.relative());
        let mut ports = vec![0.0; t.routers() * t.ports()];
        for (src, sent) in (0..).zip(&sends) {
            for (dst, share) in destinations.shares(src) {
                for way in self.ways(src, dst) {
                    for step in way {
                        ports[step.router as usize * t.ports() + usize::from(step.port)] +=
                            sent * share / self.words as f64;
                    }
                }
            }
        }
        let (mut links, mut sum, mut receives) = (0, 0.0, 0.0f64);
        let mut busiest: Option<(f64, String)> = None;
        for (i, &load) in ports.iter().enumerate() {
            let (router, port) = ((i / t.ports()) as u32, (i % t.ports()) as u8);
            match t.output(router, port) {
                End::Router { router: to, .. } => {
                    (links, sum) = (links + 1, sum + load);
                    // Sums of other orders differ in their last digits.
                    if load > busiest.as_ref().map_or(0.0, |(most, _)| most * (1.0 + 1e-9)) {
                        let name = format!("{} → {}", t.router_name(router), t.router_name(to));
                        busiest = Some((load, name));
                    }
                }
                End::Endpoint(_) => receives = receives.max(load),
                End::Open => {}
            }
        }
        let (most, link) = busiest.map_or((0.0, None), |(most, link)| (most, Some(link)));
        let sends = sends.into_iter().fold(0.0, f64::max);
        let bound = 1.0 / most.max(sends).max(receives);
        let mean = sum / f64::from(links.max(1));
        Ok(Loads { pattern: pattern.to_string(), mean, most, link, sends, receives, bound })
    }
}

/// Walks every way of a topology, as packets of `routing` take it, and counts the loads of `pattern` beside those of
/// uniform traffic.
///
/// # Errors
/// The network is too large for that, or routing or pattern do not fit it.
pub fn report(topology: &AnyTopology, routing: Routing, pattern: &Pattern, seed: u64) -> Result<Report, Error> {
    let n = topology.endpoints();
    if topology.routers().max(n) > ROUTERS_MAX {
        let why = format!("all ways of at most {ROUTERS_MAX} routers and endpoints are walked; give a smaller one");
        return Err(Error::invalid("--topology", topology, why));
    }
    let words = (WALKS / (n * n) as u64).clamp(PER_PAIR.0, PER_PAIR.1);
    let mut walker = Walker { topology, words, seed };
    let (mean_links, most_links, one) = walker.lengths();
    if one {
        walker.words = 1;
    }
    let mut loads = vec![walker.loads(&Pattern::Uniform)?];
    if *pattern != Pattern::Uniform {
        loads.push(walker.loads(pattern)?);
    }
    Ok(Report {
        topology: topology.to_string(),
        routing,
        routers: topology.routers(),
        endpoints: n,
        vcs: topology.classes().count(),
        most_links,
        mean_links,
        circle: dependencies::circle(topology.ways(), WORDS).map(|circle| circle.shown(&**topology)),
        ways_per_pair: walker.words,
        seed,
        loads,
    })
}

impl Report {
    /// The report for people.
    pub fn text(&self) -> String {
        let Report { topology, routing, routers, endpoints, vcs, most_links, mean_links, circle, .. } = self;
        let circle = match circle {
            None => format!("no circle of waiting packets ({WORDS} random ways of every pair)"),
            Some(circle) => format!("packets can wait in a circle: {circle}"),
        };
        let counted = match self.ways_per_pair {
            1 => "every pair has one way".into(),
            several => format!("{several} random ways of every pair, seed {}", self.seed),
        };
        let mut table = Table::new(&[">mean", ">most", "busiest link", ">sends", ">receives", ">bound", "pattern"]);
        for l in &self.loads {
            let [mean, most, sends, receives, bound] =
                [l.mean, l.most, l.sends, l.receives, l.bound].map(|value| number(value, 4));
            table.row(&[mean, most, l.link.clone().unwrap_or_default(), sends, receives, bound, l.pattern.clone()]);
        }
        format!(
            "{topology}, {routing}: {routers} routers, {endpoints} endpoints\nlinks of a way: {mean_links:.3} on average, \
             at most {most_links}\nvirtual channels: at least {vcs}\n{circle}\n\nFlits per cycle of the links if every \
             node sends one, without queues ({counted})\n\n{}",
            table.render()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(topology: &str, pattern: &str) -> Report {
        let topology: AnyTopology = topology.parse().unwrap();
        report(&topology, Routing::Minimal, &pattern.parse().unwrap(), 1).unwrap()
    }

    #[test]
    fn ways_of_small_networks() {
        let mesh = of("mesh:2x2", "uniform");
        assert_eq!((mesh.most_links, mesh.mean_links, mesh.circle.is_none()), (2, 1.0, true));
        let fly = of("slimfly:3", "uniform");
        assert!(fly.text().contains("18 routers, 54 endpoints") && (fly.most_links, fly.vcs) == (2, 2));
        let e = report(&"torus:64x64".parse().unwrap(), Routing::Dor, &Pattern::Uniform, 1).unwrap_err();
        assert!(e.to_string().contains("at most 1024"));
    }

    /// Loads known from textbooks, per flit of every node.
    #[test]
    fn loads_of_patterns_are_those_of_formulas() {
        let last = |topology: &str, pattern: &str| {
            let loads = of(topology, pattern).loads;
            let l = loads.last().unwrap();
            (l.most, l.mean, l.bound, l.receives)
        };
        let near = |a: (f64, f64, f64, f64), b: (f64, f64, f64, f64)| {
            for (a, b) in [(a.0, b.0), (a.1, b.1), (a.2, b.2), (a.3, b.3)] {
                assert!((a - b).abs() < 1e-9, "{a:?} is not {b:?}");
            }
        };
        // A ring of k: k/8 for even k; tornado travels (k-1)/2 links, all in one direction.
        near(last("torus:8x8", "uniform"), (1.0, 1.0, 1.0, 1.0));
        near(last("torus:8x8", "tornado"), (3.0, 1.5, 1.0 / 3.0, 1.0));
        // The middle of a mesh: k/4.
        let (most, _, bound, _) = last("mesh:8x8", "uniform");
        assert!((most - 2.0).abs() < 1e-9 && (bound - 0.5).abs() < 1e-9, "{most}");
        // All of a group of 8 to the next one over one link.
        let (most, _, bound, _) = last("dragonfly:2", "bad-dragon");
        assert!((most - 8.0).abs() < 1e-9 && (bound - 0.125).abs() < 1e-9, "{most}");
        // Half of everybody's to one endpoint, and 1/64 of the rest.
        let (_, _, bound, receives) = last("torus:8x8", "hotspot:0,0.5");
        assert!((receives - 32.5).abs() < 1e-9 && (bound - 1.0 / 32.5).abs() < 1e-9, "{receives}");
    }

    #[test]
    fn loads_of_a_matrix_are_those_of_its_rates() {
        let path = std::env::temp_dir().join(format!("angara-ways-{}", std::process::id()));
        std::fs::write(&path, "0 1 3\n1 0 1\n2 0 0\n").unwrap();
        let report = of("mesh:4", &format!("matrix:{}", path.display()));
        std::fs::remove_file(&path).unwrap();
        let l = &report.loads[1];
        assert_eq!((l.most, l.sends, l.receives), (3.0, 3.0, 3.0), "3 of the 4 flits of 4 nodes");
        assert_eq!(l.link.as_deref(), Some("(0) → (1)"));
        assert_eq!(report.ways_per_pair, 1);
    }
}
