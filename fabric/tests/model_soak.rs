//! Random networks under random load: nothing is lost, duplicated or reordered, nothing deadlocks, and
//! in the end every slot and credit is back.
//!
//! `MODEL_SOAK=10000 cargo test --release -p angara-fabric --test model_soak` runs that many
//! configurations; a failure names the one to repeat with `MODEL_SOAK_FIRST=<n> MODEL_SOAK=1`.

use fabric::model::rng::{below, mix};
use fabric::model::{Angara, Config, Delivery, Generic, Network, Packet, Profile, Rate, Shape, TrafficClass};
use std::collections::HashMap;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 = mix(self.0.wrapping_add(0x9e37_79b9_7f4a_7c15));
        below(self.0, n)
    }
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize]
    }
}

fn shape(d: &mut Dice, grid: bool) -> Shape {
    if !grid && d.roll(4) == 0 {
        return match d.roll(3) {
            0 => d.pick(&["clos:3,4,6", "clos:1,2,9", "cayley:13:1,5", "cayley:4x4:1.0,0.1,1.1,1.-1"]).parse().unwrap(),
            _ => Shape::FatTree { arity: d.pick(&[2, 3, 4]), levels: d.pick(&[1, 2, 3]) },
        };
    }
    loop {
        let dims: Vec<u16> = (0..1 + d.roll(4)).map(|_| 1 + d.roll(7) as u16).collect();
        if (2..=150).contains(&dims.iter().map(|&x| x as u32).product::<u32>()) {
            return Shape::Grid { dims, wrap: d.roll(4) != 0 };
        }
    }
}

fn configuration(d: &mut Dice) -> (Config, Vec<u16>) {
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
            Config { shape, profile: Profile::Angara(p), seed, faults: Vec::new() },
            d.pick(&[&[1, 18][..], &[2, 3, 7, 18], &[18], &[1]]).to_vec(),
        );
    }
    let lengths = d.pick(&[&[1][..], &[1, 2, 3], &[4, 32], &[16], &[1, 9, 10]]).to_vec();
    let longest = *lengths.iter().max().unwrap();
    let buffer = longest + d.pick(&[0, 0, 1, 8]);
    let g = Generic { vcs: d.pick(&[2, 4, 6, 8]), buffer_flits: buffer, packet_flits_max: longest, cycle: 2000 };
    (Config { shape, profile: Profile::Generic(g), seed, faults: Vec::new() }, lengths)
}

fn soak(number: u64) -> Result<(), String> {
    let mut d = Dice(mix(number));
    let (config, lengths) = configuration(&mut d);
    let mut net = Network::new(&config).map_err(|e| e.to_string())?;
    let n = net.endpoints() as u64;
    let count = 40 * n.min(100);
    // From light load to far above saturation, uniform or with a hot spot.
    let window = count * d.pick(&[0, 1, 10, 60]) * net.cycle() / n + 1;
    let hot = d.roll(3) == 0;
    let mut packets: Vec<Packet> = (0..count)
        .map(|_| Packet {
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
    for (i, p) in packets.iter_mut().enumerate() {
        p.tag = i as u64;
        net.inject(*p);
    }
    net.run_until_idle();
    let fail = |what: String| Err(format!("{what}; {config:?}"));
    let mut seen = vec![false; packets.len()];
    let mut last: HashMap<(u32, u32, TrafficClass), Delivery> = HashMap::new();
    let angara = matches!(config.profile, Profile::Angara(_));
    while let Some(got) = net.poll_delivery() {
        let p = &packets[got.tag as usize];
        if std::mem::replace(&mut seen[got.tag as usize], true) {
            return fail(format!("{p:?} was delivered twice"));
        }
        if (got.src, got.dst, got.flits, got.at) != (p.src, p.dst, p.flits, p.at) {
            return fail(format!("{p:?} became {got:?}"));
        }
        // Deterministic packets of one pair and class keep their order.
        if angara && !p.adaptive {
            let before = last.insert((p.src, p.dst, p.class), got);
            if let Some(b) = before.filter(|b| b.tag > got.tag) {
                return fail(format!("{b:?} overtook {got:?}"));
            }
        }
    }
    if let Some(i) = seen.iter().position(|s| !s) {
        return fail(format!("{:?} never arrived: deadlock", packets[i]));
    }
    net.check_idle().or_else(|e| fail(e.to_string()))
}

#[test]
fn random_networks_deliver_everything_once_in_order_and_end_empty() {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (first, count) = (number("MODEL_SOAK_FIRST", 0), number("MODEL_SOAK", 300));
    for i in first..first + count {
        if let Err(e) = soak(i) {
            panic!(
                "configuration {i}: {e}\nrepeat: MODEL_SOAK_FIRST={i} MODEL_SOAK=1 cargo test -p angara-fabric --test model_soak"
            );
        }
    }
}
