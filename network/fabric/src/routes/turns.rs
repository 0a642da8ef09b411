//! The check that no packets wait for each other in a circle.
//!
//! Packets turn from one run of links in a direction, a *segment*, into another. The bubble rule
//! keeps a ring without a gap from filling up, and a segment with ends has no circle in itself. So
//! circles can only lead over turns, and there are none if the graph of segments and turns has none.
//! Links of different parts never belong to one segment, so what holds for the table of each part
//! holds for all of them together.

use super::links::Links;
use super::net::DIRS;
use super::route::Route;
use super::table::walk;
use angara_net::torus::NodeId;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A segment, by the index of its first link ([`Links::segment`]).
type Segment = u32;

/// Segments that packets turn between, without a circle.
///
/// Every segment has a place such that all turns lead to later places. At first they are those of
/// direction order, in which most turns need no search. A turn that leads back has the segments
/// between its ends moved, or is refused (D. Pearce, P. Kelly: A dynamic topological sort algorithm
/// for directed acyclic graphs, 2006).
#[derive(Clone, Default, Debug)]
pub(super) struct Turns {
    next: HashMap<Segment, HashSet<Segment>>,
    before: HashMap<Segment, HashSet<Segment>>,
    /// Places of those that have been moved.
    moved: HashMap<Segment, u64>,
    /// Turns known to close a circle: they will always do, because turns that have come stay.
    refused: HashSet<(Segment, Segment)>,
}

/// Segments that a route turns between, in order: `(from, to)` pairs.
pub(super) fn turns(links: &Links, src: NodeId, dst: NodeId, route: &Route) -> Vec<(Segment, Segment)> {
    let mut turns = Vec::new();
    let (mut last, mut dir) = (None, None);
    walk(&links.net, src, dst, route, |link| {
        // Links in a row in one direction belong to one segment.
        if dir != Some(link.dir) {
            let here = links.segment(link);
            if let Some(before) = last.replace(here) {
                turns.push((before, here));
            }
            dir = Some(link.dir);
        }
        true
    });
    turns
}

impl Turns {
    /// Adds `turns` unless one would close a circle; then nothing is added.
    pub(super) fn admit(&mut self, turns: &[(Segment, Segment)]) -> bool {
        let mut added = Vec::new();
        for &(a, b) in turns {
            if self.next.get(&a).is_some_and(|next| next.contains(&b)) {
                continue;
            }
            if self.refused.contains(&(a, b)) || !self.make_room(a, b) {
                // Not if it is because of turns that go again.
                if added.is_empty() {
                    self.refused.insert((a, b));
                }
                for (a, b) in added {
                    self.next.entry(a).or_default().remove(&b);
                    self.before.entry(b).or_default().remove(&a);
                }
                return false;
            }
            self.next.entry(a).or_default().insert(b);
            self.before.entry(b).or_default().insert(a);
            added.push((a, b));
        }
        true
    }

    fn place(&self, segment: Segment) -> u64 {
        let (node, dir) = (u64::from(segment) / DIRS as u64, u64::from(segment) % DIRS as u64);
        self.moved.get(&segment).copied().unwrap_or(dir << 32 | node)
    }

    /// Moves segments so that `a` comes before `b`; false if a way leads from `b` to `a`.
    fn make_room(&mut self, a: Segment, b: Segment) -> bool {
        let (low, high) = (self.place(b), self.place(a));
        if a == b {
            return false;
        }
        if high < low {
            return true;
        }
        let after = reached(&self.next, b, |s| self.place(s) <= high);
        if after.contains(&a) {
            return false;
        }
        let ahead = reached(&self.before, a, |s| self.place(s) >= low);
        let by_place = |set: BTreeSet<Segment>| {
            let mut list: Vec<Segment> = set.into_iter().collect();
            list.sort_by_key(|s| self.place(*s));
            list
        };
        let order: Vec<Segment> = by_place(ahead).into_iter().chain(by_place(after)).collect();
        let mut places: Vec<u64> = order.iter().map(|s| self.place(*s)).collect();
        places.sort_unstable();
        self.moved.extend(order.into_iter().zip(places));
        true
    }
}

/// Segments that can be reached from `from` over those that `within` allows.
fn reached(
    next: &HashMap<Segment, HashSet<Segment>>,
    from: Segment,
    within: impl Fn(Segment) -> bool,
) -> BTreeSet<Segment> {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(segment) = open.pop() {
        open.extend(next.get(&segment).into_iter().flatten().filter(|s| within(**s) && seen.insert(**s)));
    }
    seen
}

/// All turns of somebody's routes, circles or not.
#[derive(Default)]
pub(super) struct AllTurns(BTreeMap<Segment, BTreeSet<Segment>>);

impl AllTurns {
    /// Adds turns of a route.
    pub(super) fn add(&mut self, turns: Vec<(Segment, Segment)>) {
        for (a, b) in turns {
            self.0.entry(a).or_default().insert(b);
        }
    }

    /// True if there is no circle: segments that nobody turns into are removed until none is left.
    pub(super) fn acyclic(&self) -> bool {
        let mut into: BTreeMap<Segment, usize> = BTreeMap::new();
        for (a, next) in &self.0 {
            into.entry(*a).or_default();
            next.iter().for_each(|b| *into.entry(*b).or_default() += 1);
        }
        let mut free: Vec<Segment> = into.iter().filter(|(_, n)| **n == 0).map(|(s, _)| *s).collect();
        let mut removed = 0;
        while let Some(segment) = free.pop() {
            removed += 1;
            for b in self.0.get(&segment).into_iter().flatten() {
                let n = into.get_mut(b).expect("every target was entered above");
                *n -= 1;
                if *n == 0 {
                    free.push(*b);
                }
            }
        }
        removed == into.len()
    }
}
