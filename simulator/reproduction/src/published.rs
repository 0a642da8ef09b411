//! Section 5: published numbers of Angara machines (paper 002). Most belong to real programs in
//! virtual time; what the network model alone can say is checked here.

use super::claim::{Claim, Job, Judgement, Results, Values, Verdict, values};
use angara_model::{Angara, Injection, Network, Profile, Setup, TrafficClass};
use angara_sim::Error;

/// Flits of a 16-byte write: header, one of data, tail.
const WRITE: u16 = 3;
/// Flits of the longest packet, 16 of them data.
const FULL: u16 = 18;
/// Bytes of a flit.
const FLIT: f64 = 16.0;
/// Packets of a stream.
const STREAM: u64 = 2_000;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        neighbours(),
        hop(),
        link(),
        Claim::new(
            "5.mpi",
            "MPI, 16 bytes between neighbours: 0.85 µs",
            "a real MPI program in virtual time",
            Vec::new(),
            |_| Judgement {
                measured: "not a matter of the network alone".into(),
                verdict: Verdict::Programs,
                evidence: "0.12 µs above the put are software; runs of real programs in virtual time will tell.".into(),
            },
        ),
    ]
}

fn network(slots: u16) -> Result<Network, Error> {
    let shape = "torus:8x4".parse().expect("a shape");
    let config = Setup {
        shape,
        profile: Profile::Angara(Angara { slots, ..Angara::default() }),
        seed: 1,
        faults: Vec::new(),
        sets: Vec::new(),
    };
    Network::new(&config).map_err(|e| Error::Network(e.to_string()))
}

/// Nanoseconds from a write's creation to its last flit over 1, 2 and 3 links.
fn latencies() -> Result<Values, Error> {
    let mut found = Values::new();
    for hops in 1..=3u32 {
        let mut net = network(4)?;
        net.inject(Injection { src: 0, dst: hops, flits: WRITE, at: 0, ..Injection::default() });
        net.run_until_idle();
        let arrived = net.poll_delivery().ok_or_else(|| Error::Network("an empty network lost a packet".into()))?;
        found.insert(hops.to_string(), arrived.tail as f64 / 1000.0);
    }
    Ok(found)
}

fn latency_job() -> Job {
    Job::call("writes over 1 to 3 links", 0.01, latencies)
}

/// Time of the flits behind the head, ns: they come at the link's rate.
fn behind() -> f64 {
    f64::from(WRITE - 1) * 6.4 / 3.0
}

fn neighbours() -> Claim {
    Claim::new(
        "5.put",
        "SHMEM put of 16 bytes between neighbours: 0.7 µs = 300 + 129 + 300 ns",
        "head after 729 ns",
        vec![latency_job()],
        |r| {
            let last = r.get("writes over 1 to 3 links", "1");
            let head = last - behind();
            Judgement::new(
                (head - 729.0).abs() < 0.01,
                format!("head {head:.1} ns, last of {WRITE} flits {last:.1} ns"),
            )
        },
    )
}

fn hop() -> Claim {
    Claim::new("5.hop", "one more hop: 129 ns", "exactly", vec![latency_job()], |r| {
        let at = |hops: &str| r.get("writes over 1 to 3 links", hops);
        let (second, third) = (at("2") - at("1"), at("3") - at("2"));
        let met = (second - 129.0).abs() < 1e-6 && (third - 129.0).abs() < 1e-6;
        Judgement::new(met, format!("second {second:.3} ns, third {third:.3} ns"))
    })
}

/// Gbytes/s of a stream of full packets to the neighbour, on one channel or on all in turn.
fn stream(slots: u16, all: bool) -> Result<f64, Error> {
    let mut net = network(slots)?;
    for i in 0..STREAM {
        let (class, adaptive) = match i % 3 {
            0 => (TrafficClass::Request, false),
            1 => (TrafficClass::Response, false),
            _ => (TrafficClass::Request, true),
        };
        let (class, adaptive) = if all { (class, adaptive) } else { (TrafficClass::Request, false) };
        net.inject(Injection { src: 0, dst: 1, flits: FULL, class, adaptive, at: 0, tag: i, ..Injection::default() });
    }
    net.run_until_idle();
    let mut times: Vec<u64> = std::iter::from_fn(|| net.poll_delivery()).map(|d| d.tail).collect();
    times.sort_unstable();
    let (first, last) = (times[times.len() / 4], times[times.len() - 1]);
    let packets = times.len() - 1 - times.len() / 4;
    Ok(packets as f64 * f64::from(FULL) * FLIT / ((last - first) as f64 / 1000.0))
}

fn streams() -> Result<Values, Error> {
    let slots = Angara::default().slots;
    Ok(values(&[("one", stream(slots, false)?), ("all", stream(slots, true)?), ("shallow", stream(4, false)?)]))
}

fn link() -> Claim {
    Claim::new(
        "5.link",
        "a link carries 7.5 GB/s, 16/18 of it payload with 256-byte packets (6.67 GB/s)",
        "7.5 GB/s within 1 % with full packets on all data channels and on vc1 alone",
        vec![Job::call("streams to the neighbour", 0.1, streams)],
        judge_link,
    )
}

fn judge_link(r: &Results) -> Judgement {
    let at = |name: &str| r.get("streams to the neighbour", name);
    let (one, all, shallow) = (at("one"), at("all"), at("shallow"));
    let payload = all * 16.0 / 18.0;
    let measured = format!("{all:.2} GB/s, payload {payload:.2} GB/s; on vc1 alone {one:.2} GB/s");
    let near = |rate: f64| (rate / 7.5 - 1.0).abs() <= 0.01;
    Judgement::new(near(all) && near(one), measured).because(format!(
        "The chip's buffer sizes are not public. A slot is taken from the grant until 80 ns after the packet's tail has \
         left the next router, 247 ns for a full packet, and entering a ring must leave one free: with 4 slots \
         vc1 alone carries {shallow:.2} GB/s, so the default is 8."
    ))
}
