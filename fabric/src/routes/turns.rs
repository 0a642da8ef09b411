//! The check that no packets wait for each other in a circle.
//!
//! Packets turn from one run of links in a direction, a *segment*, into another. The bubble rule
//! keeps a ring without a gap from filling up, and a segment with ends has no circle in itself. So
//! circles can only lead over turns, and there are none if the graph of segments and turns has none.
//! Links of different parts never belong to one segment, so what holds for the table of each part
//! holds for all of them together.

use super::links::Links;
use super::route::Route;
use super::table::walk;
use angara_net::torus::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Segments that packets turn between.
#[derive(Clone, Default, Debug)]
pub(super) struct Turns {
    edges: BTreeMap<u32, BTreeSet<u32>>,
}

/// Segments that a route turns between, in order: `(from, to)` pairs.
pub(super) fn turns(links: &Links, src: NodeId, dst: NodeId, route: &Route) -> Vec<(u32, u32)> {
    let mut turns = Vec::new();
    let mut last = None;
    let mut dir = None;
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
    /// Adds turns of a route, whatever circles they close.
    pub(super) fn add(&mut self, turns: Vec<(u32, u32)>) {
        for (a, b) in turns {
            self.edges.entry(a).or_default().insert(b);
        }
    }

    /// Adds `turns` unless one would close a circle; then nothing is added.
    pub(super) fn admit(&mut self, turns: &[(u32, u32)]) -> bool {
        let mut added = Vec::new();
        for &(a, b) in turns {
            if self.reaches(b, a) {
                for (a, b) in added {
                    self.edges.entry(a).or_default().remove(&b);
                }
                return false;
            }
            if self.edges.entry(a).or_default().insert(b) {
                added.push((a, b));
            }
        }
        true
    }

    fn reaches(&self, from: u32, to: u32) -> bool {
        let mut seen = BTreeSet::from([from]);
        let mut open = vec![from];
        while let Some(segment) = open.pop() {
            if segment == to {
                return true;
            }
            open.extend(self.edges.get(&segment).into_iter().flatten().filter(|s| seen.insert(**s)));
        }
        false
    }

    /// True if there is no circle: segments that nobody turns into are removed until none is left.
    pub(super) fn acyclic(&self) -> bool {
        let mut into: BTreeMap<u32, usize> = BTreeMap::new();
        for (a, next) in &self.edges {
            into.entry(*a).or_default();
            next.iter().for_each(|b| *into.entry(*b).or_default() += 1);
        }
        let mut free: Vec<u32> = into.iter().filter(|(_, n)| **n == 0).map(|(s, _)| *s).collect();
        let mut removed = 0;
        while let Some(segment) = free.pop() {
            removed += 1;
            for b in self.edges.get(&segment).into_iter().flatten() {
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
