//! Random networks under random load: nothing is lost, duplicated or reordered, nothing deadlocks, and
//! in the end every slot and credit is back. Half of the angara networks have links that corrupt, double, reorder, delay or slow down
//! packets and cables and nodes that fail while packets are under way; then packets may be dropped, but
//! each is reported, none is delivered as well, and after a single failure nothing of the same stream arrives
//! after it. A few networks of `angara` routers without faults run on two or three threads. Networks of `angara` routers are grids, the only
//! shape their profile takes; Clos networks, Cayley graphs and fat trees have `generic` ones.
//!
//! `MODEL_SOAK=10000 cargo test --release -p angara-model soak::` runs that many
//! configurations; a failure names the one to repeat with `MODEL_SOAK_FIRST=<n> MODEL_SOAK=1`.

use angara_fabric::rng::{self, below, mix};
use angara_model::topology::{FatTree, Grid};
use angara_model::{
    Angara, AnyTopology, Delivery, Generic, Injection, Network, Profile, Rate, Setup, Switching, TrafficClass,
};
use std::collections::HashMap;

/// How far time goes at once, ps.
const STEP: u64 = 1_000_000;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 = mix(self.0.wrapping_add(rng::STEP));
        below(self.0, n)
    }
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize]
    }
}

fn shape(d: &mut Dice, grid: bool) -> AnyTopology {
    if !grid && d.roll(4) == 0 {
        return match d.roll(3) {
            0 => d.pick(&["clos:3,4,6", "clos:1,2,9", "cayley:13:1,5", "cayley:4x4:1.0,0.1,1.1,1.-1"]).parse().unwrap(),
            _ => FatTree::new(d.pick(&[2, 3, 4]), d.pick(&[1, 2, 3])).unwrap().into(),
        };
    }
    loop {
        let dims: Vec<u16> = (0..1 + d.roll(6)).map(|_| 1 + d.roll(7) as u16).collect();
        if (2..=150).contains(&dims.iter().map(|&x| x as u32).product::<u32>()) {
            return Grid::new(&dims, d.roll(4) != 0).unwrap().into();
        }
    }
}

fn configuration(d: &mut Dice) -> (Setup, Vec<u16>) {
    let angara = d.roll(2) == 0;
    let shape = shape(d, angara);
    let seed = d.roll(u64::MAX);
    if angara {
        let base = Angara { slots: d.pick(&[2, 2, 3, 4]), channels: d.pick(&[1, 1, 2]), ..Angara::default() };
        let p = match d.roll(3) {
            0 => Angara { credit: 1, link: 1, router: 1, escape: 1, ..base },
            1 => Angara { credit: d.roll(400_000) + 1, flit_link: Rate { num: 1500, den: 1 }, age_limit: 2, ..base },
            _ => base,
        };
        return (
            Setup { shape, profile: Profile::Angara(p), seed, faults: Vec::new(), sets: Vec::new() },
            d.pick(&[&[1, 18][..], &[2, 3, 7, 18], &[18], &[1]]).to_vec(),
        );
    }
    let lengths = d.pick(&[&[1][..], &[1, 2, 3], &[4, 32], &[16], &[1, 9, 10]]).to_vec();
    let longest = *lengths.iter().max().unwrap();
    let hold = d.roll(2) == 0;
    let switching = d.pick(&[Switching::CutThrough, Switching::Wormhole { hold }]);
    let buffer_flits = match switching {
        Switching::CutThrough => longest + d.pick(&[0, 0, 1, 8]),
        Switching::Wormhole { .. } => d.pick(&[1, 2, 7, 8]),
    };
    let vcs = d.pick(&[2, 4, 6, 8, 10, 16, 32]);
    let g = Generic { vcs, buffer_flits, packet_flits_max: longest, cycle: 2000, switching, ..Generic::default() };
    (Setup { shape, profile: Profile::Generic(g), seed, faults: Vec::new(), sets: Vec::new() }, lengths)
}

/// Something that befalls packets, to one of these shares if it is of that kind.
fn impairment(d: &mut Dice, percent: &[f64]) -> String {
    let share = d.pick(percent);
    match d.roll(7) {
        0..3 => format!("corrupt={share}%"),
        3 => format!("dup={share}%"),
        4 => format!("reorder={share}%"),
        5 => format!("delay={}ps", d.pick(&[0, 1, 100_000, 20_000_000])),
        _ => format!("rate={}", d.pick(&[0, 30_000_000, 2_000_000_000, 90_000_000_000u64])),
    }
}

/// Up to five faults of a network of at most four dimensions, before `until`.
fn faults(d: &mut Dice, shape: &AnyTopology, until: u64) -> Vec<String> {
    let AnyTopology::Grid(grid) = shape else { return Vec::new() };
    let dims = grid.dims();
    if dims.len() > 4 || d.roll(2) == 0 {
        return Vec::new();
    }
    let place = |c: &[u16]| c.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let mut list = Vec::new();
    for _ in 0..1 + d.roll(5) {
        let node: Vec<u16> = dims.iter().map(|&size| d.roll(size as u64) as u16).collect();
        let (dim, plus) = (d.roll(dims.len() as u64) as usize, d.roll(2) == 0);
        let at = d.roll(until);
        let edge = if plus { node[dim] + 1 == dims[dim] } else { node[dim] == 0 };
        if dims[dim] == 1 || (!grid.wraps() && edge) {
            continue;
        }
        let link = format!("link {} {}{}", place(&node), if plus { '+' } else { '-' }, ["X", "Y", "Z", "W"][dim]);
        list.push(match d.roll(8) {
            0..3 => format!("{link} down @{at}ps"),
            3 => format!("node {} down @{at}ps", place(&node)),
            4..7 => format!("{link} {} @{at}ps", impairment(d, &[0.1, 10.0, 50.0, 95.0, 100.0])),
            _ => format!("{} @{at}ps", impairment(d, &[0.0, 0.1, 5.0, 30.0])),
        });
    }
    list
}

fn soak(number: u64, seen: &mut Seen) -> Result<(), String> {
    let mut d = Dice(mix(number));
    let (mut config, lengths) = configuration(&mut d);
    let endpoints_per_node = if let Profile::Angara(p) = &config.profile { p.channels as u64 } else { 1 };
    let n = config.shape.endpoints() as u64 * endpoints_per_node;
    let count = 40 * n.min(100);
    // From light load to far above saturation, uniform or with a hot spot.
    let window = count * d.pick(&[0, 1, 10, 60]) * 2000 / n + 1;
    if matches!(config.profile, Profile::Angara(_)) {
        config.faults = faults(&mut d, &config.shape, window + 2_000_000);
    }
    let hot = d.roll(3) == 0;
    let mut packets: Vec<Injection> = (0..count)
        .map(|_| Injection {
            src: d.roll(n) as u32,
            dst: if hot && d.roll(2) == 0 { 0 } else { d.roll(n) as u32 },
            flits: d.pick(&lengths),
            at: 1 + d.roll(window),
            class: d.pick(&[TrafficClass::Request, TrafficClass::Response]),
            adaptive: d.roll(3) == 0,
            tag: 0,
            traced: false,
        })
        .collect();
    packets.sort_by_key(|p| p.at);
    // The longer the parts of a network need not hear of each other, the less their threads wait.
    let patient = matches!(&config.profile, Profile::Angara(p) if p.credit >= 10_000);
    let threads = if config.faults.is_empty() && patient && d.roll(8) == 0 { 2 + d.roll(2) as usize } else { 1 };
    let mut net = Network::with_threads(&config, threads).map_err(|e| format!("{e}; {config:?}"))?;
    for (i, p) in packets.iter_mut().enumerate() {
        p.tag = i as u64;
        net.inject(*p);
    }
    while let Some(next) = net.next_event() {
        net.advance(next + STEP);
    }
    check(&mut net, &config, &packets).map_err(|what| format!("{what}; {threads} threads; {config:?}"))?;
    seen.threaded += u64::from(threads > 1);
    seen.faulty += u64::from(!config.faults.is_empty());
    seen.dropped += net.counters().lost;
    Ok(())
}

/// Returns what became of every packet.
fn check(net: &mut Network, config: &Setup, packets: &[Injection]) -> Result<(), String> {
    let mut ended = vec![false; packets.len()];
    let mut end = |tag: u64| match std::mem::replace(&mut ended[tag as usize], true) {
        true => Err(format!("{:?} was delivered or dropped twice", packets[tag as usize])),
        false => Ok(()),
    };
    // Deterministic packets of one pair and class keep their order, and a pair cut off stays cut off:
    // unless something else fails, after which other routes that leave routing order may be admitted.
    let once = config.faults.len() == 1;
    type Stream = (u32, u32, TrafficClass);
    let ordered = matches!(config.profile, Profile::Angara(_));
    let stream = |p: &Injection| -> Option<Stream> { (ordered && !p.adaptive).then_some((p.src, p.dst, p.class)) };
    let mut first_lost: HashMap<Stream, u64> = HashMap::new();
    let mut losses = 0;
    while let Some(lost) = net.poll_lost() {
        let p = &packets[lost.tag as usize];
        end(lost.tag)?;
        losses += 1;
        if config.faults.is_empty() || (lost.src, lost.dst) != (p.src, p.dst) {
            return Err(format!("{p:?} was dropped as {lost:?}"));
        }
        if let Some(stream) = stream(p) {
            let first = first_lost.entry(stream).or_insert(lost.tag);
            *first = lost.tag.min(*first);
        }
    }
    let mut last: HashMap<Stream, Delivery> = HashMap::new();
    while let Some(got) = net.poll_delivery() {
        let p = &packets[got.tag as usize];
        end(got.tag)?;
        if (got.src, got.dst, got.flits, got.at) != (p.src, p.dst, p.flits, p.at) {
            return Err(format!("{p:?} became {got:?}"));
        }
        let Some(stream) = stream(p) else { continue };
        if let Some(b) = last.insert(stream, got).filter(|b| b.tag > got.tag) {
            return Err(format!("{b:?} overtook {got:?}"));
        }
        if let Some(lost) = first_lost.get(&stream).filter(|lost| once && **lost < got.tag) {
            return Err(format!("{got:?} arrived although packet {lost} before it was dropped"));
        }
    }
    if let Some(i) = ended.iter().position(|s| !s) {
        return Err(format!("{:?} never arrived: deadlock", packets[i]));
    }
    if losses != net.counters().lost {
        return Err(format!("{losses} packets were reported lost, {} counted", net.counters().lost));
    }
    net.check_idle().map_err(|e| e.to_string())
}

/// Features that the configurations had.
#[derive(Default, Debug)]
struct Seen {
    faulty: u64,
    threaded: u64,
    dropped: u64,
}

#[test]
fn random_networks_deliver_everything_once_in_order_and_end_empty() {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (first, count) = (number("MODEL_SOAK_FIRST", 0), number("MODEL_SOAK", 300));
    let mut seen = Seen::default();
    for i in first..first + count {
        if let Err(e) = soak(i, &mut seen) {
            panic!(
                "configuration {i}: {e}\nrepeat: MODEL_SOAK_FIRST={i} MODEL_SOAK=1 cargo test -p angara-model soak::"
            );
        }
    }
    println!("{count} configurations from {first}: {seen:?}");
    assert!(
        count < 100 || (seen.faulty > count / 10 && seen.dropped > 0 && seen.threaded > 0),
        "too few of a kind: {seen:?}"
    );
}
