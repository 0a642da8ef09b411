//! Section 1, dragonflies, butterflies, a concentrated mesh and a torus with many channels: three seeds here and in
//! BookSim 2.
//!
//! Its configurations are `data/booksim/*.cfg`, its results `data/booksim-networks.csv`. A row has a latency where
//! the network carries the load; beyond, only the accepted load is compared.

use super::claim::{Claim, Job, Judgement, Results};
use angara_model::AnyTopology;
use angara_sim::run::router::{Router, Routing};
use angara_sim::settings::Keys;
use angara_sim::traffic::Pattern;
use angara_sim::traffic::matrix::Matrix;

const ROWS: &str = include_str!("../data/booksim-networks.csv");
/// BookSim's tornado on a flattened butterfly, which is another one than ours.
const TORNADO: &str = include_str!("../data/booksim/tornado.txt");

const SEEDS: [u64; 3] = [1, 2, 3];
/// Accepted loads agree to this share.
const ACCEPTED: f64 = 0.02;

/// A row of the reference.
#[derive(Clone, Debug)]
struct Reference {
    case: String,
    topology: AnyTopology,
    routing: Routing,
    pattern: Pattern,
    vcs: u8,
    buffer: u16,
    offered: f64,
    /// Flits per node and cycle; none if the network froze.
    accepted: Option<f64>,
    /// Mean latency in cycles, and the share to which it must agree.
    latency: Option<(f64, f64)>,
}

fn references() -> impl Iterator<Item = Reference> {
    let rows = ROWS.lines().filter(|l| !l.starts_with('#')).skip(1);
    rows.map(|line| reference(line).unwrap_or_else(|| panic!("row `{line}` is malformed; a test reads them all")))
}

fn reference(line: &str) -> Option<Reference> {
    let fields: Vec<&str> = line.split(';').collect();
    let [case, topology, routing, pattern, vcs, buffer, offered, accepted, latency, error, tolerance] = fields[..]
    else {
        return None;
    };
    let number = |text: &str| text.parse::<f64>().ok();
    let latency = match latency {
        "" => None,
        cycles => {
            let cycles = number(cycles)?;
            Some((cycles, number(tolerance)?.max(3.0 * number(error)? / cycles)))
        }
    };
    Some(Reference {
        case: case.into(),
        topology: topology.parse().ok()?,
        routing: routing.parse().ok()?,
        pattern: match pattern {
            "tornado.txt" => Pattern::Matrix(Matrix::of(pattern, TORNADO)),
            named => named.parse().ok()?,
        },
        vcs: vcs.parse().ok()?,
        buffer: buffer.parse().ok()?,
        offered: number(offered)?,
        accepted: if accepted == "frozen" { None } else { Some(number(accepted)?) },
        latency,
    })
}

impl Reference {
    fn jobs(&self) -> [Job; 3] {
        SEEDS.map(|seed| {
            let keys = Keys {
                topology: Some(self.topology.clone()),
                router: Some(Router::Generic),
                routing: Some(self.routing.clone()),
                pattern: Some(self.pattern.clone()),
                vcs: Some(self.vcs),
                buffer: Some(self.buffer),
                load: Some(self.offered),
                seed: Some(seed),
                // As in the reference.
                warmup: Some(10_000),
                cycles: Some(15_000),
                ..Keys::default()
            };
            Job::simulate(format!("{} seed {seed}", self.case), 0.5, keys)
        })
    }

    fn demand(&self) -> String {
        let accepted = format!("accepted ± {:.0} %", 100.0 * ACCEPTED);
        match (self.accepted, self.latency) {
            (None, _) => "does not freeze".into(),
            (_, Some((_, tolerance))) => format!("{accepted}, latency ± {:.0} %", 100.0 * tolerance),
            _ => accepted,
        }
    }

    fn result(&self) -> String {
        match (self.accepted, self.latency) {
            (None, _) => "BookSim freezes (\"Possible network deadlock\")".into(),
            (Some(a), Some((l, _))) => format!("accepted {a}, latency {l}"),
            (Some(a), None) => format!("accepted {a}"),
        }
    }

    fn claim(self) -> Claim {
        let Reference { topology, routing, pattern, vcs, buffer, offered, .. } = &self;
        let network = format!("{topology}, {routing}, {vcs} channels of {buffer} flits, {pattern}, load {offered}");
        let (id, text) = (format!("1.{}", self.case), format!("{network}: {}", self.result()));
        Claim::new(id, text, self.demand(), self.jobs().to_vec(), move |r| self.judge(r))
    }

    fn judge(&self, results: &Results) -> Judgement {
        let values = |what: &str| self.jobs().map(|job| results.get(&job.name, what));
        let mean = |of: [f64; 3]| of.iter().sum::<f64>() / 3.0;
        let accepted = mean(values("accepted"));
        let Some(expected) = self.accepted else {
            let least = values("accepted").into_iter().fold(f64::INFINITY, f64::min);
            return Judgement::new(least > 0.0, format!("accepted {accepted:.4}, {least:.4} at least")).because(
                "BookSim's packets keep their class of channels from the source to a router in another group, so some may \
                 wait for each other in a circle. Here the classes rise with every group, and a test finds no circle.",
            );
        };
        let off = accepted / expected - 1.0;
        let mut measured = format!("accepted {accepted:.4} ({:+.1} %)", 100.0 * off);
        let mut met = off.abs() <= ACCEPTED;
        if let Some((cycles, tolerance)) = self.latency {
            let latency = mean(values("latency"));
            let off = latency / cycles - 1.0;
            measured += &format!(", latency {latency:.2} ({:+.1} %)", 100.0 * off);
            met &= off.abs() <= tolerance;
        }
        Judgement::new(met, measured)
    }
}

pub(super) fn claims() -> Vec<Claim> {
    references().map(Reference::claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Verdict, values};

    fn found(case: &str, accepted: f64, latency: f64) -> Verdict {
        let row = references().find(|r| r.case == case).unwrap();
        let numbers = values(&[("accepted", accepted), ("latency", latency)]);
        row.judge(&Results(row.jobs().map(|job| (job.name, numbers.clone())).into())).verdict
    }

    #[test]
    fn every_row_is_understood() {
        assert!(references().all(|r| r.jobs().len() == 3));
    }

    #[test]
    fn the_configurations_are_those_of_the_rows() {
        let files = [
            ("dragonfly.cfg", "dragonfly:2"),
            ("flatfly.cfg", "hyperx:4x4,4"),
            ("torus.cfg", "torus:8x8"),
            ("cmesh.cfg", "mesh:4x4,c=4"),
            ("fly.cfg", "fly:4,3"),
        ];
        for (file, network) in files {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/booksim").join(file);
            let booksim = angara_sim::booksim::Booksim::read(&path).unwrap();
            let keys = booksim.keys().unwrap();
            assert_eq!(keys.topology.unwrap().to_string(), network);
            assert!(references().any(|r| r.topology.to_string() == network && Some(r.vcs) == keys.vcs));
            let differences = booksim.differences.iter().filter(|d| !d.contains("say when a run ends"));
            assert_eq!(differences.collect::<Vec<_>>(), [""; 0], "its routers are like those here");
        }
    }

    #[test]
    fn accepted_load_and_latency_are_both_judged() {
        let row = references().find(|r| r.case == "dragonfly_short_0.2").unwrap();
        let (accepted, latency) = (row.accepted.unwrap(), row.latency.unwrap().0);
        assert_eq!(found(&row.case, accepted, latency), Verdict::Met);
        assert_eq!(found(&row.case, 0.97 * accepted, latency), Verdict::Deviates);
        assert_eq!(found(&row.case, accepted, 1.04 * latency), Verdict::Deviates);
    }

    #[test]
    fn a_network_that_accepts_nothing_has_frozen() {
        assert_eq!(found("dragonfly_ugal_bad_0.3", 0.0, 0.0), Verdict::Deviates);
        assert_eq!(found("dragonfly_ugal_bad_0.3", 0.17, 0.0), Verdict::Met);
    }
}
