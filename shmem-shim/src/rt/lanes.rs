//! Lanes: collectives of several teams at once.
//!
//! With SHMEM_THREAD_MULTIPLE, threads of a PE may be in collectives of different teams at once, in any
//! order. So that they do not take each other's signals, each team talks on a lane of its own. A lane is
//! agreed on when the team is made: its number must be free on every PE of the parent team. Where no PE
//! asked for several threads there is one lane, all teams share it, and nothing is agreed on.
//!
//! Agreeing is a reduction over the parent team, and two threads of a PE may be making teams out of two
//! parents, so a PE offers its free lanes to one of them at a time and nothing to the other, which
//! tries again. The parent with the lowest lane comes first on every PE, so one of them gets through.

use super::{State, lock, ops, team::Group};
use crate::ctypes::*;
use std::sync::Mutex;

/// Lane of `SHMEM_TEAM_SHARED`; the team of all PEs has 0.
pub(crate) const SHARED: usize = 1;
/// Lane of all active sets.
pub(crate) const ACTIVE_SETS: usize = 2;
/// First lane of the program's own teams. The last lane is that of teams that found none free.
pub(crate) const FIRST: usize = 3;

/// In a mask of free lanes: this PE offers them.
const OFFERED: u64 = 1 << 63;

/// Lanes of this PE.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    taken: u64,
    /// Parent whose new teams the free lanes are offered to.
    offered_to: Option<usize>,
    /// Parents that wait for an offer.
    waiting: u64,
}

impl Lanes {
    /// Free lanes below `lanes` - 1, for teams made out of the one on lane `parent`, or 0 if it is not its turn.
    fn offer(&self, parent: usize, lanes: usize) -> u64 {
        let mut inner = lock(&self.0);
        inner.waiting |= 1 << parent;
        if inner.offered_to.is_some() || inner.waiting.trailing_zeros() as usize != parent {
            return 0;
        }
        inner.offered_to = Some(parent);
        let all = (1u64 << (lanes - 1)) - 1;
        OFFERED | (all & !((1 << FIRST.min(lanes - 1)) - 1) & !inner.taken)
    }

    /// Ends the offer; `done` if the parent got what it wanted.
    fn settle(&self, parent: usize, done: bool) {
        let mut inner = lock(&self.0);
        if inner.offered_to == Some(parent) {
            inner.offered_to = None;
        }
        if done {
            inner.waiting &= !(1 << parent);
        }
    }

    pub(crate) fn take(&self, lane: usize) {
        lock(&self.0).taken |= 1 << lane;
    }

    pub(crate) fn give_back(&self, lane: usize) {
        lock(&self.0).taken &= !(1 << lane);
    }
}

impl State {
    /// Lane number `lane` if there are so many, else the last one.
    pub(crate) fn lane(&self, lane: usize) -> usize {
        lane.min(self.p2p().lanes() - 1)
    }

    /// Lanes for `count` (1 or 2) teams to be made out of `parent`. Collective over `parent`, and orders what
    /// its PEs did before against what they do after: programs rely on that.
    pub(crate) fn new_lanes(&self, name: Name, parent: &Group, count: usize) -> [usize; 2] {
        let lanes = self.p2p().lanes();
        if lanes == 1 {
            self.group_sync(name, parent);
            return [0; 2];
        }
        loop {
            let mut free = self.lanes.offer(parent.lane, lanes);
            // SAFETY: one element, which fits into a message.
            unsafe { self.doubling(name, parent, (&raw mut free).cast(), 1, ops::Ops::<u64>::AND) };
            let done = free & OFFERED != 0;
            let chosen = pick(free & !OFFERED, lanes, count);
            if done {
                chosen[..count].iter().for_each(|lane| self.lanes.take(*lane));
            }
            self.lanes.settle(parent.lane, done);
            if done {
                return chosen;
            }
            std::thread::yield_now();
        }
    }
}

/// The lowest lanes of `free`; the last of all where there are too few.
fn pick(free: u64, lanes: usize, count: usize) -> [usize; 2] {
    let mut rest = free;
    let mut chosen = [lanes - 1; 2];
    for lane in chosen.iter_mut().take(count) {
        if rest != 0 {
            *lane = rest.trailing_zeros() as usize;
            rest &= rest - 1;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_picked_from_what_is_free_everywhere() {
        assert_eq!(pick(0b111000, 16, 2), [3, 4]);
        assert_eq!(pick(0b100000, 16, 2), [5, 15]);
        assert_eq!(pick(0, 16, 1), [15, 15]);
    }

    #[test]
    fn free_lanes_are_offered_to_one_parent_at_a_time_the_lowest_first() {
        let lanes = Lanes::default();
        lanes.take(3);
        let free = OFFERED | 0x7ff0;
        assert_eq!(lanes.offer(4, 16), free);
        assert_eq!(lanes.offer(0, 16), 0, "offered to another");
        lanes.settle(0, false);
        lanes.settle(4, false);
        assert_eq!(lanes.offer(4, 16), 0, "a lower one waits");
        lanes.settle(4, false);
        assert_eq!(lanes.offer(0, 16), free);
        lanes.settle(0, true);
        assert_eq!(lanes.offer(4, 16), free);
        lanes.settle(4, true);
        lanes.give_back(3);
        assert_eq!(lanes.offer(1, 16), OFFERED | 0x7ff8);
        assert_eq!(Lanes::default().offer(0, 2), OFFERED, "one lane beside that of all PEs, which all share");
    }
}
