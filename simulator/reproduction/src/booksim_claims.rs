//! Section 1: the same numbers as BookSim 2 at the same parameters.

use super::booksim::{Compared, Reference, keys, references};
use super::claim::{Claim, Job, Judgement, Results, Values, values};
use angara_model::{AnyTopology, Generic, Injection, Network, Profile, Setup};
use angara_sim::Error;
use angara_sim::rng::{Purpose, Stream};

/// Rows whose reference latencies differ by less are not ordered.
const DISTINCT: f64 = 0.05;
/// A reference row that accepted less of its load has a latency that depends on its run's length.
const CARRIED: f64 = 0.98;
/// Cycles of a window that begins in an empty network and accepts as little as the reference did.
const COLD: u64 = 210;
/// The reference row whose window was too short.
const SHORT: &str = "t32x3_L1_0.02";

/// The job that runs case `name`.
pub(super) fn job(name: &str) -> Job {
    let keys = keys(name).expect("the names here are checked by a test");
    let flits = keys.topology.as_ref().map_or(1, |t| t.endpoints()) as f64 * keys.load.unwrap_or(0.1);
    let seconds = match (keys.warmup, keys.cycles) {
        // Some million flit-hops a second, about eight hops for each flit.
        (Some(warmup), Some(cycles)) => (warmup + cycles) as f64 * flits * 8.0 / 1e7,
        // A run takes some thousand cycles, and a torus packet more hops the larger the network.
        _ => 0.2 + flits / 500.0,
    };
    Job::simulate(name, seconds, keys)
}

pub(super) fn claims() -> Vec<Claim> {
    let mut all: Vec<Claim> = ["t8x3", "t4x4", "t16x3", "t8x4", "t32x3", "ft8x3", "ft16x3", "ft8x4"]
        .into_iter()
        .flat_map(|network| [1, 16].map(|flits| empty(network, flits)))
        .collect();
    all.extend(references().into_iter().map(case));
    let mut families: Vec<String> = references().iter().map(Reference::family).collect();
    families.sort();
    families.dedup();
    all.extend(families.into_iter().map(orderings));
    all
}

/// T0 on `network`.
fn empty(network: &'static str, flits: u16) -> Claim {
    let topology = keys(&format!("{network}_L1_0.1")).ok().and_then(|k| k.topology).expect("a known network");
    let text = topology.to_string();
    let name = format!("{network} empty L{flits}");
    let seconds = topology.endpoints() as f64 / 50_000.0;
    let job = Job::call(name.clone(), seconds, move || empty_network(&topology, flits));
    Claim::new(
        format!("1.T0.{network}.L{flits}"),
        format!("{text}, {flits} flit(s), empty network: T0 = 4 R + 2 + (L-1) cycles"),
        "± 0.5 cycle",
        vec![job],
        move |r| {
            let (off, longest) = (r.get(&name, "off"), r.get(&name, "routers"));
            let measured = format!("{off} cycles off at most, up to R = {longest}");
            Judgement::new(off <= 0.5, measured)
        },
    )
}

/// Sends 100 packets between random endpoints, each alone.
fn empty_network(topology: &AnyTopology, flits: u16) -> Result<Values, Error> {
    let generic = Generic { vcs: 4, buffer_flits: 16, packet_flits_max: 16, ..Generic::default() };
    let config = Setup {
        shape: topology.clone(),
        profile: Profile::Generic(generic),
        seed: 1,
        faults: Vec::new(),
        sets: Vec::new(),
    };
    let mut network = Network::new(&config).map_err(|e| Error::Network(e.to_string()))?;
    let mut ends = Stream::new(1, 0, Purpose::Destination);
    let (mut off, mut routers) = (0.0f64, 0);
    for _ in 0..100 {
        let [src, dst] = [(); 2].map(|()| (ends.next_u64() % network.endpoints() as u64) as u32);
        let at = (network.now() / network.cycle() + 100) * network.cycle();
        network.inject(Injection { src, dst, flits, at, ..Injection::default() });
        network.run_until_idle();
        let arrived = network.poll_delivery().ok_or_else(|| Error::Network("an empty network lost a packet".into()))?;
        let cycles = (arrived.tail - at) as f64 / network.cycle() as f64;
        let expected = 4.0 * f64::from(arrived.routers) + 2.0 + f64::from(flits) - 1.0;
        off = off.max((cycles - expected).abs());
        routers = routers.max(arrived.routers);
    }
    Ok(values(&[("off", off), ("routers", f64::from(routers))]))
}

fn case(reference: Reference) -> Claim {
    let k = keys(&reference.case).expect("checked by a test");
    let shown = |v: Option<String>| v.unwrap_or_default();
    let claim = format!(
        "{}, L = {}, {}, {}, load {}: latency {}, accepted {}",
        shown(k.topology.map(|t| t.to_string())),
        shown(k.length.map(|l| l.to_string())),
        shown(k.pattern.map(|p| p.to_string())),
        shown(k.process.map(|p| p.to_string())),
        reference.offered,
        reference.latency,
        reference.accepted,
    );
    let what = match reference.compared {
        Compared::Latency => "latency",
        Compared::Accepted => "accepted",
    };
    let demand = format!("{what} ± {:.0} %", 100.0 * reference.tolerance);
    let mut needs = vec![job(&reference.case)];
    if reference.case == SHORT {
        let mut cold = keys(SHORT).expect("checked by a test");
        (cold.warmup, cold.cycles) = (Some(0), Some(COLD));
        needs.push(Job::simulate("t32x3 cold", 1.0, cold));
    }
    let plot = match reference.case.as_str() {
        c if c.starts_with("vct") => "booksim-L16.svg",
        c if c.contains("_L1_") => "booksim-L1.svg",
        _ => "booksim-ratio.svg",
    };
    Claim::new(format!("1.{}", reference.case), claim, demand, needs, move |r| judge(&reference, r)).plotted(plot)
}

fn judge(reference: &Reference, results: &Results) -> Judgement {
    let find = |value: &str| results.find(&reference.case, value);
    let (latency, accepted) = (find("latency"), find("accepted").unwrap_or(f64::NAN));
    let off = |measured: f64, expected: f64| 100.0 * (measured / expected - 1.0);
    let mut measured = latency
        .map_or("nothing arrived".to_string(), |l| format!("latency {l:.2} ({:+.1} %)", off(l, reference.latency)));
    if find("saturated") == Some(1.0) {
        measured = "saturated".into();
    }
    measured += &format!(", accepted {accepted:.4} ({:+.1} %)", off(accepted, reference.accepted));
    let within = |measured: f64, expected: f64, tolerance: f64| (measured / expected - 1.0).abs() <= tolerance;
    let met = match reference.compared {
        Compared::Latency => latency.is_some_and(|l| within(l, reference.latency, reference.tolerance)),
        Compared::Accepted => within(accepted, reference.accepted, reference.tolerance),
    };
    let judged = Judgement::new(met, measured);
    if reference.case == SHORT { judged.because(short_window(results)) } else { judged }
}

/// Why the reference of [`SHORT`] accepted half of its load.
fn short_window(results: &Results) -> String {
    let (cold, accepted) = (results.get("t32x3 cold", "accepted"), results.get(SHORT, "accepted"));
    format!(
        "The reference cannot have been saturated: its latency, 102.36, is that of an empty network \
         (4·25.03 + 2 = 102.1). It counted arrivals in a window about twice as long as a packet's journey that \
         began with an empty network, so the arrivals of its first half are missing. The same window here, {COLD} cycles \
         from the start, accepts {cold:.4} too; a long run accepts all that is offered, {accepted:.4}."
    )
}

/// Pairs of one family that the reference orders.
fn orderings(family: String) -> Claim {
    let all: Vec<Reference> = references().into_iter().filter(|r| r.family() == family).collect();
    let pairs = pairs(&all);
    let needs = all.iter().map(|r| job(&r.case)).collect();
    Claim::new(
        format!("1.order.{family}"),
        format!("order of latencies within family {family}: {} pairs more than 5 % apart", pairs.len()),
        "all kept",
        needs,
        move |r| order(&pairs, r),
    )
}

/// The faster and the slower case of each pair.
fn pairs(all: &[Reference]) -> Vec<(Reference, Reference)> {
    let usable: Vec<&Reference> = all.iter().filter(|r| r.accepted >= CARRIED * r.offered).collect();
    let mut pairs = Vec::new();
    for (i, a) in usable.iter().enumerate() {
        for b in &usable[i + 1..] {
            let (fast, slow) = if a.latency < b.latency { (*a, *b) } else { (*b, *a) };
            if slow.latency - fast.latency > DISTINCT * fast.latency {
                pairs.push((fast.clone(), slow.clone()));
            }
        }
    }
    pairs
}

fn order(pairs: &[(Reference, Reference)], results: &Results) -> Judgement {
    let latency = |r: &Reference| results.get(&r.case, "latency");
    let inverted: Vec<String> = pairs
        .iter()
        .filter(|(fast, slow)| latency(fast) >= latency(slow))
        .map(|(fast, slow)| {
            format!(
                "{} ({:.2}, reference {:.2}) and {} ({:.2}, reference {:.2})",
                fast.case,
                latency(fast),
                fast.latency,
                slow.case,
                latency(slow),
                slow.latency
            )
        })
        .collect();
    let kept = pairs.len() - inverted.len();
    let judged = Judgement::new(inverted.is_empty(), format!("{kept} of {} kept", pairs.len()));
    if inverted.is_empty() { judged } else { judged.because(format!("Inverted: {}.", inverted.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    fn reference(case: &str, latency: f64) -> Reference {
        Reference {
            case: case.into(),
            offered: 0.1,
            accepted: 0.1,
            latency,
            routers: 7.0,
            compared: Compared::Latency,
            tolerance: 0.03,
        }
    }

    fn results(of: &[(&str, f64)]) -> Results {
        Results(of.iter().map(|(case, l)| (case.to_string(), values(&[("latency", *l), ("accepted", 0.1)]))).collect())
    }

    #[test]
    fn an_inverted_pair_is_named() {
        let all = [reference("t8x3_L1_0.1", 30.0), reference("t8x3_L1_0.2", 40.0), reference("t8x3_L1_0.3", 41.0)];
        let pairs = pairs(&all);
        assert_eq!(pairs.len(), 2, "40 and 41 are too close to be ordered");
        let j = order(&pairs, &results(&[("t8x3_L1_0.1", 30.0), ("t8x3_L1_0.2", 29.0), ("t8x3_L1_0.3", 50.0)]));
        assert_eq!((j.verdict, j.measured.as_str()), (Verdict::Deviates, "1 of 2 kept"));
        assert!(j.evidence.contains("t8x3_L1_0.1 (30.00, reference 30.00) and t8x3_L1_0.2 (29.00"), "{}", j.evidence);
    }

    #[test]
    fn a_latency_outside_its_tolerance_deviates() {
        let r = reference("t8x3_L1_0.1", 30.0);
        assert_eq!(judge(&r, &results(&[("t8x3_L1_0.1", 30.8)])).verdict, Verdict::Met);
        let j = judge(&r, &results(&[("t8x3_L1_0.1", 31.0)]));
        assert_eq!(
            (j.verdict, j.measured.as_str()),
            (Verdict::Deviates, "latency 31.00 (+3.3 %), accepted 0.1000 (+0.0 %)")
        );
    }
}
