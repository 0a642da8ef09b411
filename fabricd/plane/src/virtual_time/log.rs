//! Every stand of a PE that has ended, and the critical path through them.
//!
//! Stands end in the order of the network's time, so the log is sorted by their ends, and one walk over it from its end
//! backward finds the path: whoever waited for another one's operation leads to that PE, at the time it posted it.

use angara_fabric::Tick;
use angara_protocol::msg::{CriticalPath, PATH_MAX, PathShare, PathStep, Why};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Stands that are remembered, some 56 MiB of them.
const MOST: usize = 1 << 20;

/// A stand, and the run before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stood {
    pub(super) pe: u32,
    /// Whose operation ended it.
    pub(super) whom: u32,
    pub(super) why: Why,
    pub(super) since: Tick,
    pub(super) until: Tick,
    /// When that operation was posted.
    pub(super) posted: Tick,
    /// Of the run before it, what went for computing and for calls of the library.
    pub(super) computed: Tick,
    pub(super) software: Tick,
}

/// The stands that ended last.
pub(super) struct Log {
    stands: VecDeque<Stood>,
    most: usize,
    /// Some have been forgotten.
    cut: bool,
}

impl Default for Log {
    fn default() -> Log {
        Log { stands: VecDeque::new(), most: MOST, cut: false }
    }
}

impl Log {
    pub(super) fn add(&mut self, stood: Stood) {
        if self.stands.len() == self.most {
            self.stands.pop_front();
            self.cut = true;
        }
        self.stands.push_back(stood);
    }

    /// The path that leads to the time `end` of a PE, which is the end of its last stand.
    pub(super) fn path(&self, pe: u32, end: Tick) -> CriticalPath {
        let mut walk = Walk::new(pe, end);
        // What each PE did next, as seen from where the walk is.
        let mut next: BTreeMap<u32, &Stood> = BTreeMap::new();
        for stood in self.stands.iter().rev() {
            if stood.pe != walk.pe || stood.until > walk.at {
                next.insert(stood.pe, stood);
                continue;
            }
            walk.back_to(stood.until, next.insert(stood.pe, stood));
            walk.through(stood);
        }
        if !self.cut {
            walk.back_to(0, next.get(&walk.pe).copied());
        }
        walk.done()
    }
}

/// A walk along a path, from its end.
struct Walk {
    pe: u32,
    at: Tick,
    path: CriticalPath,
    visited: BTreeSet<u32>,
    shares: BTreeMap<(Why, u32, u32), (u64, Tick)>,
}

impl Walk {
    fn new(pe: u32, end: Tick) -> Walk {
        let path = CriticalPath { pe, end, ..CriticalPath::default() };
        Walk { pe, at: end, path, visited: [pe].into(), shares: BTreeMap::new() }
    }

    /// The PE ran since `from`, until it stood as `next` says, or for ever.
    fn back_to(&mut self, from: Tick, next: Option<&Stood>) {
        if let Some(next) = next.filter(|next| next.since < self.at) {
            // What it had posted before went on its way while it stood.
            self.path.answers += self.at - next.since;
            self.step(Why::Answer, self.pe, next.since);
        }
        let (ran, whole) = (self.at - from, next.map_or(0, |next| next.since.saturating_sub(from)));
        let part = |ps: Tick| (u128::from(ps) * u128::from(ran)).checked_div(whole.into()).unwrap_or(0) as Tick;
        let (computed, software) = next.map_or((0, 0), |next| (part(next.computed), part(next.software)));
        self.path.compute += computed;
        self.path.software += software;
        self.path.other += ran.saturating_sub(computed + software);
        self.step(Why::Run, self.pe, from);
    }

    /// The PE stood, and leads to whom it waited for.
    fn through(&mut self, stood: &Stood) {
        let led = matches!(stood.why, Why::Data | Why::Barrier | Why::Tree) && stood.posted <= stood.until;
        let (whom, posted) = if led { (stood.whom, stood.posted) } else { (stood.pe, stood.since) };
        let sum = match stood.why {
            Why::Run => &mut self.path.other,
            Why::Data => &mut self.path.data,
            Why::Answer => &mut self.path.answers,
            Why::Barrier => &mut self.path.barriers,
            Why::Tree => &mut self.path.trees,
        };
        *sum += self.at - posted;
        self.step(stood.why, stood.whom, posted);
        self.path.turns += u64::from(whom != self.pe);
        self.visited.insert(whom);
        self.pe = whom;
    }

    fn step(&mut self, why: Why, whom: u32, from: Tick) {
        let until = std::mem::replace(&mut self.at, from);
        if from == until {
            return;
        }
        let share = self.shares.entry((why, self.pe, whom)).or_default();
        (share.0, share.1) = (share.0 + 1, share.1 + until - from);
        let step = PathStep { why, pe: self.pe, whom, from, until };
        let last = &mut self.path.last;
        let same = |later: &PathStep| why == Why::Run && (later.why, later.pe, later.from) == (why, self.pe, until);
        let room = last.len() < PATH_MAX;
        match last.last_mut().filter(|later| same(later)) {
            Some(later) => later.from = from,
            None if room => last.push(step),
            None => {}
        }
    }

    fn done(self) -> CriticalPath {
        let share = |((why, pe, whom), (times, ps))| PathShare { why, pe, whom, times, ps };
        let mut most: Vec<PathShare> = self.shares.into_iter().map(share).collect();
        most.sort_by_key(|share| Reverse(share.ps));
        most.truncate(PATH_MAX);
        CriticalPath { from: self.at, pes: self.visited.len() as u32, most, ..self.path }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stood(pe: u32, (since, until): (Tick, Tick), why: Why, (whom, posted): (u32, Tick)) -> Stood {
        Stood { pe, whom, why, since, until, posted, computed: 0, software: 0 }
    }

    /// PE 1 computes and writes to PE 0, which has waited, reads something, and ends last.
    fn log() -> Log {
        let mut log = Log::default();
        log.add(Stood { computed: 300, software: 50, ..stood(1, (400, 500), Why::Answer, (0, 400)) });
        log.add(stood(0, (10, 1000), Why::Data, (1, 200)));
        log.add(stood(1, (500, 1100), Why::Data, (0, 20)));
        log.add(Stood { software: 7, ..stood(0, (1010, 1500), Why::Answer, (1, 1010)) });
        log
    }

    #[test]
    fn the_path_leads_over_the_message_that_was_waited_for_to_its_sender() {
        let path = log().path(0, 1500);
        assert_eq!((path.from, path.end, path.pe, path.pes, path.turns), (0, 1500, 0, 2, 1));
        // Half of the run of PE 1 was before the post.
        assert_eq!((path.compute, path.software, path.other), (150, 25 + 7, 25 + 3));
        assert_eq!((path.data, path.answers), (800, 490));
        let steps: Vec<_> = path.last.iter().map(|s| (s.why, s.pe, s.whom, s.from, s.until)).collect();
        let run = |pe, from, until| (Why::Run, pe, pe, from, until);
        let wanted =
            [(Why::Answer, 0, 1, 1010, 1500), run(0, 1000, 1010), (Why::Data, 0, 1, 200, 1000), run(1, 0, 200)];
        assert_eq!(steps, wanted);
        assert_eq!((path.most[0].why, path.most[0].times, path.most[0].ps), (Why::Data, 1, 800));
    }

    #[test]
    fn what_was_posted_goes_on_its_way_while_its_pe_stands() {
        let mut log = Log::default();
        log.add(stood(1, (100, 900), Why::Answer, (0, 100)));
        // Its PE stood when that was posted: times that a PE says need not fit to each other.
        log.add(stood(0, (50, 1000), Why::Data, (1, 700)));
        let path = log.path(0, 1000);
        assert_eq!((path.data, path.answers, path.other, path.from), (300, 600, 100, 0));
    }

    #[test]
    fn a_path_whose_begin_is_forgotten_begins_later() {
        let mut log = Log { most: 2, ..log() };
        log.stands.truncate(2);
        log.add(stood(0, (1010, 1500), Why::Answer, (1, 1010)));
        let path = log.path(0, 1500);
        assert_eq!((path.from, path.end), (200, 1500));
        let all = path.compute + path.software + path.other + path.data + path.answers + path.barriers + path.trees;
        assert_eq!(all, path.end - path.from);
    }
}
