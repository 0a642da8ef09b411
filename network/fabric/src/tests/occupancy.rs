//! How full the virtual channels of links are, seen from outside.

use super::driver::*;
use crate::*;
use angara_abi::account::Class;
use angara_abi::packet::Vc;
use angara_net::torus::Direction;
use proptest::prelude::*;

fn links(fabric: &Fabric) -> Vec<Link> {
    (0..fabric.shape().nodes() as u32).flat_map(|node| Direction::ALL.map(|dir| Link { node, dir })).collect()
}

#[test]
fn a_packet_has_its_slot_until_its_credit_is_back() {
    let mut w = World::with(Config::new("mesh:3".parse().unwrap()), &[port(0), port(2)]);
    let first = Link { node: 0, dir: Direction::ALL[0] };
    let request =
        |fabric: &Fabric| fabric.link_channels(first).into_iter().find(|c| c.vc == Vc::Request).expect("it exists");
    let idle = request(&w.fabric);
    assert!(idle.of > 1 && idle.slots == 0 && idle.packets == 0 && idle.flits == 0, "{idle:?}");
    w.put(port(0), port(2), 24, &[7; 8]);
    let mut seen = vec![idle];
    while let Some(next) = w.fabric.poll_timeout() {
        w.fabric.advance(next);
        w.apply();
        let now = request(&w.fabric);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    // On its way with all its flits, then a credit that is not back, then nothing.
    let counts: Vec<(u16, u16, u32)> = seen.iter().map(|c| (c.slots, c.packets, c.flits)).collect();
    assert_eq!(counts, [(0, 0, 0), (1, 1, 3), (1, 0, 0), (0, 0, 0)]);
    assert!(w.fabric.link_channels(Link { node: 2, dir: Direction::ALL[0] }).is_empty(), "a mesh ends there");
    assert!(w.fabric.link_channels(Link { node: 9, dir: Direction::ALL[0] }).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// No more packets than slots in use, no more of these than there are, and none when nothing is under way; looking
    /// changes nothing.
    #[test]
    fn packets_have_slots_and_give_them_back(seed: u64) {
        let run = |look: bool| {
            let mut dice = Dice(seed);
            let shape: angara_net::torus::Shape = ["4x2", "5", "mesh:3x2", "2x2x2"][dice.below(4) as usize].parse().expect("a shape");
            let ports: Vec<Port> = (0..shape.nodes() as u32).map(port).collect();
            let mut w = World::with(Config { seed, ..Config::new(shape) }, &ports);
            for _ in 0..20 {
                let (from, to) = (dice.below(ports.len() as u64) as usize, dice.below(ports.len() as u64) as usize);
                let (at, len) = (heap(8 * dice.below(1000)), 1 + dice.below(20_000) as u32);
                let source = Source::Memory { place: at, len };
                let adaptive = dice.below(2) == 0;
                let op = Op::Write { to: ports[to], place: at, source, vc: Vc::Request, adaptive };
                w.must_post(ports[from], Class::Put, op);
            }
            let (links, mut fullest) = (links(&w.fabric), 0);
            while let Some(next) = w.fabric.poll_timeout() {
                w.fabric.advance(next);
                w.apply();
                for channel in links.iter().filter(|_| look).flat_map(|link| w.fabric.link_channels(*link)) {
                    assert!(channel.packets <= channel.slots && channel.slots <= channel.of, "{channel:?}");
                    assert!(channel.flits >= 2 * u32::from(channel.packets), "{channel:?}");
                    fullest = fullest.max(channel.slots);
                }
            }
            w.settle();
            let left = links.iter().flat_map(|link| w.fabric.link_channels(*link)).filter(|c| (c.slots, c.packets) != (0, 0));
            assert_eq!(left.count(), 0);
            (fullest, w.effects.iter().map(|e| format!("{e:?}")).collect::<Vec<_>>())
        };
        let (fullest, seen) = run(true);
        prop_assert!(fullest > 0);
        prop_assert_eq!(seen, run(false).1);
    }
}
