//! Whoever listens hears of everything and changes nothing.

use super::driver::*;
use super::failures::impaired::impair_some;
use crate::*;
use angara_abi::account::Class;
use angara_abi::capture::{Happening, Reason};
use angara_abi::packet::{self, PacketType, Vc};
use angara_net::torus::Direction;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Views of a run: of its programs and of listeners.
struct Run {
    effects: String,
    completions: Vec<Completion>,
    memory: BTreeMap<Port, Vec<u8>>,
    heard: Vec<Heard>,
    links: Vec<LinkCounters>,
}

fn links(fabric: &Fabric) -> Vec<LinkCounters> {
    let links = (0..fabric.shape().nodes() as u32).flat_map(|node| Direction::ALL.map(|dir| Link { node, dir }));
    links.map(|link| fabric.link_counters(link)).collect()
}

/// Puts, gets, atomics and barriers by the dice, on links that damage, double and reorder if they are `impaired`.
fn traffic(seed: u64, trains: bool, impaired: bool, filters: Vec<Filter>) -> Run {
    let mut dice = Dice(seed);
    let shape = ["4x2", "5", "mesh:3x2", "2x2x2"][dice.below(4) as usize].parse().expect("a shape");
    let config = Config { trains, seed, ..Config::new(shape) };
    let ports: Vec<Port> = (0..shape.nodes() as u32).map(port).collect();
    let mut w = World::with(config, &ports);
    if impaired {
        w.fabric.set_impairments(&impair_some(shape, &mut dice)).expect("links that exist");
    }
    w.fabric.listen(filters);
    let mut heard = Vec::new();
    for _ in 0..30 {
        let (from, to) =
            (ports[dice.below(ports.len() as u64) as usize], ports[dice.below(ports.len() as u64) as usize]);
        let (at, len) = (heap(8 * dice.below(1000)), 1 + dice.below(40_000) as u32);
        match dice.below(5) {
            0 => {
                w.put(from, to, at.offset, &[seed as u8; 8]);
            }
            1 => {
                let source = Source::Memory { place: at, len };
                let op = Op::Write { to, place: at, source, vc: Vc::Request, adaptive: dice.below(2) == 0 };
                w.must_post(from, Class::Put, op);
            }
            2 => {
                w.must_post(from, Class::Get, Op::Read { to, remote: at, local: heap(64), len });
            }
            3 => {
                let op = angara_abi::desc::AmoOp::Add;
                let (width, operand, comparand, result) = (8, 1, 0, (dice.below(2) == 0).then(|| heap(8)));
                w.must_post(from, Class::Amo, Op::Amo { to, place: at, op, width, operand, comparand, result });
            }
            _ => {
                for port in &ports {
                    w.must_post(*port, Class::Sync, Op::Barrier { half: false });
                }
            }
        }
        // One after the other where times differ, so that nothing depends on which of two comes first.
        if trains || dice.below(4) == 0 {
            w.settle();
            heard.extend(w.fabric.heard());
        }
    }
    w.settle();
    heard.extend(w.fabric.heard());
    let effects = w.effects.iter().map(|e| format!("{e:?}\n")).collect();
    let links = links(&w.fabric);
    Run { effects, completions: w.completions, memory: w.memory, heard, links }
}

fn count(heard: &[Heard], what: Happening, reason: Reason) -> u64 {
    heard.iter().filter(|h| h.what == what && h.reason == reason).count() as u64
}

fn is_whole(heard: &Heard) -> bool {
    packet::check(&heard.flits[..heard.kept as usize]).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Effects, completions and their times are the same; where packets travel in trains otherwise, memory is.
    #[test]
    fn listening_changes_nothing(seed: u64, trains: bool, impaired: bool) {
        let alone = traffic(seed, trains, impaired, Vec::new());
        let listened = traffic(seed, trains, impaired, vec![Filter::default()]);
        prop_assert!(alone.heard.is_empty());
        prop_assert!(!listened.heard.is_empty());
        if !trains {
            prop_assert!(alone.effects == listened.effects, "effects differ");
            prop_assert_eq!(alone.completions, listened.completions);
            prop_assert_eq!(alone.links, listened.links);
        }
        prop_assert!(alone.memory == listened.memory, "memory differs");
    }

    /// Links count what listeners hear, and only what is damaged fails its check.
    #[test]
    fn all_that_links_count_is_heard(seed: u64, impaired: bool) {
        let run = traffic(seed, true, impaired, vec![Filter::default()]);
        let sum = |of: fn(&LinkCounters) -> u64| run.links.iter().map(of).sum::<u64>();
        prop_assert_eq!(count(&run.heard, Happening::Sent, Reason::None), sum(|l| l.total().packets));
        prop_assert_eq!(count(&run.heard, Happening::Corrupted, Reason::None), sum(|l| l.crc_errors));
        prop_assert_eq!(count(&run.heard, Happening::Replayed, Reason::None), sum(|l| l.replays));
        prop_assert_eq!(count(&run.heard, Happening::Dropped, Reason::Duplicate), sum(|l| l.duplicates));
        for heard in &run.heard {
            prop_assert_eq!(is_whole(heard), heard.what != Happening::Corrupted, "{:?}", heard);
            prop_assert!(!heard.train && heard.length == u16::from(heard.kept));
        }
    }
}

#[test]
fn a_put_is_heard_of_where_it_enters_crosses_and_leaves() {
    let mut w = World::with(Config { trains: true, ..Config::new("mesh:3".parse().unwrap()) }, &[port(0), port(2)]);
    w.fabric.listen(vec![Filter::default(), Filter { node: Some(2), ..Filter::default() }]);
    w.put(port(0), port(2), 24, &[7; 8]);
    w.finish();
    let heard = w.fabric.heard();
    let what: Vec<(Happening, u32, Option<usize>, u32)> =
        heard.iter().map(|h| (h.what, h.node, h.dir.map(Direction::index), h.listeners)).collect();
    use Happening::{Ejected, Injected, Sent};
    assert_eq!(what, [(Injected, 0, None, 1), (Sent, 0, Some(0), 1), (Sent, 1, Some(0), 3), (Ejected, 2, None, 3)]);
    let times: Vec<Tick> = heard.iter().map(|h| h.time).collect();
    let Some(Effect::Write { time, .. }) = w.effects.first() else { panic!("{:?}", w.effects) };
    assert_eq!(times, [0, 349_000, 349_000 + 129_000, *time]);
    let (header, tail) = packet::check(&heard[1].flits[..3]).expect("a packet");
    assert_eq!((header.kind, header.dst.0[0], tail.src), (PacketType::Write, 2, 0));
    assert_eq!(heard[1].flits[1] as u64, u64::from_le_bytes([7; 8]));
    assert_eq!((heard[1].bytes, heard[1].length, heard[1].job), (8, 3, JOB));
    w.fabric.listen(Vec::new());
    w.put(port(0), port(2), 24, &[7; 8]);
    w.finish();
    assert!(w.fabric.heard().is_empty());
}

#[test]
fn what_is_left_of_a_job_is_told_to_those_who_hear_all() {
    let mut w = World::with(Config::new("mesh:3".parse().unwrap()), &[port(0), port(2)]);
    let own = Filter { jobs: Some(vec![JOB]), ..Filter::default() };
    w.fabric.listen(vec![Filter::default(), own]);
    w.put(port(0), port(2), 24, &[7; 8]);
    w.fabric.advance(400_000);
    w.fabric.close_job(JOB);
    w.fabric.open_job(JOB, &[port(0), port(2)]).expect("the slot is free");
    w.settle();
    let heard: Vec<(Happening, u32)> = w.fabric.heard().iter().map(|h| (h.what, h.listeners)).collect();
    assert_eq!(heard, [(Happening::Injected, 3), (Happening::Sent, 3), (Happening::Dropped, 1)]);
}
