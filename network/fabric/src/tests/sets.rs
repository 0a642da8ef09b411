//! Node sets: packets, barriers and trees of a job stay in its set, and tables change where they must.

use super::driver::*;
use crate::*;
use angara_abi::account::Class;
use angara_abi::packet::Vc;
use angara_net::NodeSet;
use angara_net::fault::Fault;
use angara_net::torus::{Direction, Shape};
use std::collections::{BTreeMap, BTreeSet};

const SECOND: JobSlot = JobSlot::new(1);

fn set(nodes: &[u32], transit: &[u32]) -> NodeSet {
    NodeSet { transit: transit.to_vec(), ..NodeSet::of(nodes.to_vec()) }
}

/// A world whose jobs have sets of their own.
fn divided(shape: &str, sets: &[NodeSet]) -> World {
    let config = Config::new(shape.parse().unwrap());
    let mut fabric = Fabric::new(Config { check_order: true, ..config }).unwrap();
    let mut memory = BTreeMap::new();
    for (slot, set) in (0..).zip(sets) {
        let ports: Vec<Port> = set.nodes.iter().map(|n| port(*n)).collect();
        fabric.open_job_in(JobSlot::new(slot), 1, &ports, set).unwrap();
        memory.extend(ports.iter().map(|p| (*p, vec![0; MEMORY])));
    }
    World { fabric, memory, effects: Vec::new(), data: Vec::new(), completions: Vec::new(), next_tag: 0 }
}

/// Every pair of a set sends, adaptively and not; everybody meets at a barrier.
fn all_talk(w: &mut World, job: JobSlot, nodes: &[u32]) {
    let mut tag = 1000 * (1 + job.index() as u64);
    let mut post = |w: &mut World, from: u32, class, op: Op<Source<'_>>| {
        tag += 1;
        while let Err(e) = w.fabric.inject(port(from), job, class, op, w.fabric.now(), tag) {
            assert_eq!(e, InjectError::Busy);
            w.settle();
        }
    };
    for (a, b) in nodes.iter().flat_map(|a| nodes.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b) {
        for adaptive in [false, true] {
            let source = Source::Memory { place: heap(0), len: 700 };
            let write = Op::Write { to: port(b), place: heap(4096), source, vc: Vc::Request, adaptive };
            post(w, a, Class::Put, write);
        }
    }
    nodes.iter().for_each(|n| post(w, *n, Class::Sync, Op::Barrier { half: false }));
}

/// Links that a job has used.
fn used(w: &World, job: JobSlot) -> BTreeSet<Link> {
    let carried = |link: &Link| w.fabric.job_link_counters(job, *link).iter().any(|load| load.packets > 0);
    Link::all(w.fabric.shape()).filter(carried).collect()
}

#[test]
fn jobs_with_sets_share_no_link_whatever_they_do() {
    // An L and what is below it; nodes 5 and 6 only pass packets on.
    let sets = [set(&[0, 1, 2, 3, 4], &[]), set(&[7, 9, 10, 11], &[5, 6])];
    for family in BarrierFamily::ALL {
        let mut w = divided("4x4", &sets);
        for (job, set) in [(JOB, &sets[0]), (SECOND, &sets[1])] {
            w.fabric.set_barrier_family(job, family).unwrap();
            let ports: Vec<Port> = set.nodes.iter().map(|n| port(*n)).collect();
            let rows = w.fabric.build_tree(set.nodes[0], &ports).unwrap();
            w.fabric.load_tree(job.index() as u8, job, &rows).unwrap();
            all_talk(&mut w, job, &set.nodes);
        }
        w.settle();
        assert!(w.errors().is_empty(), "{family}: {:?}", w.errors());
        let (first, second) = (used(&w, JOB), used(&w, SECOND));
        assert!(first.is_disjoint(&second) && !first.is_empty() && !second.is_empty(), "{family}");
        for (used, set) in [(first, &sets[0]), (second, &sets[1])] {
            let inside = |n: u32| set.held().any(|held| held == n);
            let ends = |l: &Link| (l.node, l.reverse(&w.fabric.shape()).unwrap().node);
            assert!(used.iter().all(|l| inside(ends(l).0) && inside(ends(l).1)), "{family}: {used:?}");
        }
        for job in [JOB, SECOND] {
            assert!(w.fabric.barrier_check(job).held(), "{family}");
        }
        assert!(w.completions.iter().all(|c| !matches!(c.state, OpState::Failed(_))), "{family}");
    }
}

#[test]
fn a_link_that_dies_changes_the_table_of_its_set_alone() {
    let sets = [set(&[0, 1, 4, 5], &[]), set(&[2, 3, 6, 7], &[])];
    let mut w = divided("4x4", &sets);
    let made = |w: &World| [JOB, SECOND].map(|job| w.fabric.tables_made(job));
    assert_eq!(made(&w), [1, 1]);
    let link = |node, dim| Link { node, dir: Direction::new(dim, true) };
    let state = |w: &World, link| (w.fabric.routes().link_up(link), w.fabric.routes().link_works(link));
    assert_eq!([link(0, 0), link(1, 0)].map(|l| state(&w, l)), [(true, true), (false, true)]);
    w.fabric.set_fault(Fault::link_down(link(0, 0))).unwrap();
    assert_eq!(made(&w), [2, 1], "0 +X is inside the first set");
    w.fabric.set_fault(Fault::link_down(link(1, 0))).unwrap();
    assert_eq!(made(&w), [2, 1], "1 +X leads from set to set");
    assert_eq!([link(0, 0), link(1, 0)].map(|l| state(&w, l)), [(false, false); 2]);
    assert_eq!(w.fabric.nodes_without_set(), 8);
    w.fabric.set_fault(Fault::node_down(13)).unwrap();
    assert_eq!((w.fabric.nodes_without_set(), state(&w, link(12, 0)).1), (7, false));
    w.fabric.clear_fault(Fault::node_down(13));
    w.fabric.set_fault(Fault::link_down(link(12, 0))).unwrap();
    assert_eq!(made(&w), [2, 1], "12 +X is in no set");
    all_talk(&mut w, JOB, &sets[0].nodes);
    all_talk(&mut w, SECOND, &sets[1].nodes);
    w.settle();
    assert!(
        w.errors().is_empty() && w.completions.iter().all(|c| !matches!(c.state, OpState::Failed(_))),
        "{:?} {:?}",
        w.errors(),
        w.completions.iter().filter(|c| c.state != OpState::Complete).collect::<Vec<_>>()
    );
    assert!(!used(&w, JOB).contains(&link(0, 0)));
    // A closed job gives its nodes back: packets may pass there again.
    w.fabric.close_job(JOB);
    assert_eq!(made(&w), [0, 1]);
    assert!(!w.fabric.routes().in_set(0) && w.fabric.routes().in_set(2));
    assert_eq!(w.fabric.hops(0, 12), Some(1));
    w.fabric.close_job(SECOND);
    w.fabric.clear_fault(Fault::link_down(link(0, 0)));
    assert!(w.fabric.hops(0, 2).is_some(), "no set is left");
}

#[test]
fn sets_that_cannot_be_are_refused() {
    let mut w = divided("4x4", &[set(&[0, 1], &[4])]);
    let mut open = |nodes: &[u32], transit: &[u32], at: u32| {
        w.fabric.open_job_in(SECOND, 1, &[port(at)], &set(nodes, transit)).unwrap_err()
    };
    assert_eq!(open(&[2, 99], &[], 2), JobError::SetNode(99));
    assert_eq!(open(&[2, 3], &[3], 2), JobError::SetNode(3));
    assert_eq!(open(&[2, 4], &[], 2), JobError::SetNode(4), "a transit node of another");
    assert_eq!(open(&[2, 3], &[7], 7), JobError::OutsideSet(port(7)));
    w.fabric.open_job_in(SECOND, 1, &[port(2)], &set(&[2, 3], &[7])).unwrap();
}

#[test]
fn a_job_without_a_set_goes_on_when_sets_come_and_go() {
    let mut w = World::new("4x4");
    w.fabric.close_job(JOB);
    let nodes = [0, 1, 2, 3];
    w.fabric.open_job(JOB, &nodes.map(port)).unwrap();
    all_talk(&mut w, JOB, &nodes);
    w.fabric.open_job_in(SECOND, 1, &[port(8)], &set(&[8, 9, 10, 11], &[])).unwrap();
    w.settle();
    all_talk(&mut w, JOB, &nodes);
    w.fabric.close_job(SECOND);
    w.settle();
    assert!(w.errors().is_empty() && w.completions.iter().all(|c| !matches!(c.state, OpState::Failed(_))));
    assert!(w.fabric.barrier_check(JOB).held());
    let barriers = w.completions.iter().filter(|c| c.state == OpState::Complete).count();
    assert_eq!(barriers, 2 * 4);
}

/// All usable routes of each pair, by trying every first step, sign and last step.
fn choices(routes: &Routes, shape: &Shape, src: u32, dst: u32) -> Vec<Vec<Link>> {
    let steps = || std::iter::once(None).chain(Direction::ALL.into_iter().map(Some));
    let mut found = BTreeSet::new();
    for (first_step, last_step) in steps().flat_map(|f| steps().map(move |l| (f, l))) {
        for dirbits in (0..=255u8).filter(|bits| bits & (bits >> 4) == 0) {
            if let Some(path) = path(routes, shape, (src, dst), (first_step, dirbits, last_step)) {
                found.insert(path);
            }
        }
    }
    found.into_iter().collect()
}

/// Walks a route hop by hop; `None` if it does not lead there over usable links without turning back.
fn path(
    routes: &Routes,
    shape: &Shape,
    (src, dst): (u32, u32),
    (first, dirbits, last): (Option<Direction>, u8, Option<Direction>),
) -> Option<Vec<Link>> {
    let end = last.map_or(Some(dst), |d| shape.neighbour(dst, d.opposite()))?;
    let (mut at, mut path) = (src, Vec::new());
    let mut hop = |at: &mut u32, dir: Direction| {
        let link = Link { node: *at, dir };
        path.push(link);
        *at = shape.neighbour(*at, dir).filter(|_| routes.link_up(link))?;
        Some(())
    };
    first.map_or(Some(()), |d| hop(&mut at, d))?;
    for dir in Direction::ALL.into_iter().filter(|d| dirbits & d.bit() != 0) {
        if shape.coords(at).0[dir.dim()] == shape.coords(end).0[dir.dim()] {
            return None;
        }
        while shape.coords(at).0[dir.dim()] != shape.coords(end).0[dir.dim()] {
            hop(&mut at, dir)?;
        }
    }
    if at != end {
        return None;
    }
    last.map_or(Some(()), |d| hop(&mut at, d))?;
    let back = path.windows(2).any(|w| w[0].dir == w[1].dir.opposite());
    (!back && !path.is_empty()).then_some(path)
}

/// Is there a route for every pair such that no packets can wait in a circle? Tried by backtracking: pairs with the fewest
/// choices first, choices that add no turn at once.
fn complete_table(routes: &Routes, shape: &Shape, pairs: &[(u32, u32)]) -> bool {
    let mut all: Vec<Vec<Vec<(Segment, Segment)>>> = Vec::new();
    for &(src, dst) in pairs {
        let mut turns: Vec<_> = choices(routes, shape, src, dst).iter().map(|p| turns(routes, shape, p)).collect();
        turns.sort_by_key(|t| t.len());
        turns.dedup();
        if turns.is_empty() {
            return false;
        }
        // One without turns closes no circle.
        if !turns[0].is_empty() {
            all.push(turns);
        }
    }
    all.sort_by_key(|choices| choices.len());
    let mut steps = 0;
    let found = choose(&all, &mut BTreeMap::new(), &mut steps);
    assert!(steps < 3_000_000, "too many to try");
    found
}

type Segment = (BTreeSet<u32>, usize);
type Edges = BTreeMap<(Segment, Segment), usize>;

fn segment(routes: &Routes, shape: &Shape, link: Link) -> Segment {
    let mut nodes = BTreeSet::new();
    for towards in [link.dir, link.dir.opposite()] {
        let mut at = Some(link.node);
        while let Some(node) = at.filter(|&node| routes.link_up(Link { node, dir: link.dir })) {
            if !nodes.insert(node) && node != link.node {
                break;
            }
            at = shape.neighbour(node, towards).filter(|next| *next != link.node);
        }
    }
    (nodes, link.dir.index())
}

fn turns(routes: &Routes, shape: &Shape, path: &[Link]) -> Vec<(Segment, Segment)> {
    let segments: Vec<Segment> = path.iter().map(|l| segment(routes, shape, *l)).collect();
    segments.windows(2).filter(|w| w[0] != w[1]).map(|w| (w[0].clone(), w[1].clone())).collect()
}

fn closes_circle(edges: &Edges, from: &Segment, to: &Segment) -> bool {
    let (mut seen, mut open) = (BTreeSet::from([to]), vec![to]);
    while let Some(at) = open.pop() {
        if at == from {
            return true;
        }
        let next = edges.keys().filter(|(a, _)| a == at).map(|(_, b)| b);
        open.extend(next.filter(|b| seen.insert(*b)).collect::<Vec<_>>());
    }
    false
}

fn choose(left: &[Vec<Vec<(Segment, Segment)>>], edges: &mut Edges, steps: &mut u64) -> bool {
    *steps += 1;
    if *steps > 3_000_000 {
        return false;
    }
    // A pair with a route all of whose turns are there already costs nothing.
    let Some((first, rest)) = left.split_first() else { return true };
    if first.iter().any(|turns| turns.iter().all(|t| edges.contains_key(t))) {
        return choose(rest, edges, steps);
    }
    for turns in first {
        let mut added = Vec::new();
        let fits = turns.iter().all(|turn| {
            let fits = edges.contains_key(turn) || !closes_circle(edges, &turn.0, &turn.1);
            if fits {
                *edges.entry(turn.clone()).or_default() += 1;
                added.push(turn.clone());
            }
            fits
        });
        if fits && choose(rest, edges, steps) {
            return true;
        }
        for turn in added {
            let count = edges.get_mut(&turn).unwrap();
            *count -= 1;
            if *count == 0 {
                edges.remove(&turn);
            }
        }
    }
    false
}

/// Outages of a network: all sets of at most `most` cables and nodes.
fn outages(shape: &Shape, most: usize) -> Vec<Vec<Outage>> {
    let cable = |l: &Link| l.reverse(shape).is_some_and(|back| *l <= back);
    let links = Link::all(*shape).filter(cable).map(Outage::Link);
    let single: Vec<Outage> = links.chain((0..shape.nodes() as u32).map(Outage::Node)).collect();
    let mut all = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..most {
        let until = all.len();
        for i in from..until {
            let next = all[i].last().map_or(0, |last| single.iter().position(|o| o == last).unwrap() + 1);
            for outage in &single[next..] {
                let more = all[i].iter().copied().chain([*outage]).collect();
                all.push(more);
            }
        }
        from = until;
    }
    all
}

/// Wherever trying everything finds a table for all pairs, the tables have a route for all pairs.
#[test]
fn tables_are_complete_wherever_any_can_be() {
    let (mut complete, mut impossible) = (0, 0);
    for (text, most) in [
        ("3", 2),
        ("mesh:3", 2),
        ("2x2", 2),
        ("mesh:2x2", 2),
        ("mesh:3x2", 2),
        ("3x2", 2),
        ("mesh:3x3", 2),
        ("3x3", 2),
        ("mesh:2x2x2", 2),
        ("2x2x2", 2),
    ] {
        let shape: Shape = text.parse().unwrap();
        for dead in outages(&shape, most) {
            let routes = Routes::of(shape, &dead);
            let up: Vec<u32> = (0..shape.nodes() as u32).filter(|n| routes.node_up(*n)).collect();
            let pairs: Vec<(u32, u32)> =
                up.iter().flat_map(|a| up.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b).collect();
            assert!(routes.acyclic(), "{text} {dead:?}");
            let refused = pairs.iter().filter(|(a, b)| routes.route(*a, *b).is_none()).count();
            if refused == 0 {
                complete += 1;
                continue;
            }
            assert!(!complete_table(&routes, &shape, &pairs), "{text} {dead:?}: {refused} pairs refused in vain");
            impossible += 1;
        }
    }
    assert!(complete > 100 && impossible > 10, "{complete} complete, {impossible} impossible");
}

/// A set of links, one direction each.
type Mask = [u64; 4];

fn mask(links: &[Link]) -> Mask {
    let mut mask = [0; 4];
    for link in links {
        let index = link.node as usize * 8 + link.dir.index();
        mask[index / 64] |= 1 << (index % 64);
    }
    mask
}

/// The links that an outage takes away.
fn taken(shape: &Shape, outage: &Outage) -> Vec<Link> {
    match outage {
        Outage::Link(link) => [Some(*link), link.reverse(shape)].into_iter().flatten().collect(),
        Outage::Node(node) => {
            let own = Link::of_node(*node, *shape);
            own.flat_map(|link| [Some(link), link.reverse(shape)]).flatten().collect()
        }
    }
}

/// All routes of all pairs are walked once; a pair is connected if one of them avoids all that is dead. Faults that
/// a shift of the torus makes equal are tried once: one of them is at node 0.
#[test]
fn connectivity_is_what_trying_every_route_says() {
    let (mut connected, mut apart) = (0u64, 0u64);
    for text in ["2", "3", "2x2", "3x2", "3x3", "2x2x2", "3x2x2", "3x3x2", "3x3x3"] {
        let shape: Shape = text.parse().unwrap();
        let whole = Routes::of(shape, &[]);
        let nodes = shape.nodes() as u32;
        let pairs: Vec<(u32, u32)> =
            (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b))).filter(|(a, b)| a != b).collect();
        let ways: Vec<Vec<Mask>> = (pairs.iter())
            .map(|(a, b)| {
                let mut ways = choices(&whole, &shape, *a, *b);
                ways.sort_by_key(Vec::len);
                ways.iter().map(|path| mask(path)).collect()
            })
            .collect();
        for dead in outages(&shape, 3) {
            let at_zero = |outage: &Outage| match outage {
                Outage::Link(link) => link.node == 0,
                Outage::Node(node) => *node == 0,
            };
            if !dead.is_empty() && !dead.iter().any(at_zero) {
                continue;
            }
            let links = Links::of(shape, &dead);
            let blocked = mask(&dead.iter().flat_map(|outage| taken(&shape, outage)).collect::<Vec<_>>());
            for ((a, b), ways) in pairs.iter().zip(&ways) {
                let up = |node: &u32| !dead.contains(&Outage::Node(*node));
                let free = |way: &Mask| way.iter().zip(&blocked).all(|(w, b)| w & b == 0);
                let want = up(a) && up(b) && ways.iter().any(free);
                assert_eq!(links.any_route(*a, *b), want, "{text} {dead:?}: {a} to {b}");
                if want { connected += 1 } else { apart += 1 }
            }
        }
    }
    assert!(connected > 1_000_000 && apart > 100_000, "{connected} {apart}");
}
