//! Who came last to what several PEs take part in: barriers, reductions, broadcasts.

use angara_fabric::Tick;
use std::collections::BTreeMap;

/// How many of one kind are told apart at a time: as many reductions as a tree holds, and more than there can be barriers.
const OPEN: usize = angara_abi::REDUCES;

/// Something that several PEs take part in, again and again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Gate {
    /// The job's barrier.
    Barrier,
    /// Reductions of a tree.
    Reduce(u8),
    /// Broadcasts of a tree, whoever sends them.
    Bcast(u8),
}

#[derive(Clone, Copy, Default)]
struct Last {
    number: u64,
    at: Tick,
    pe: usize,
}

#[derive(Default)]
struct Entries {
    /// How often each PE has entered; all together for broadcasts.
    entered: BTreeMap<usize, u64>,
    left: BTreeMap<usize, u64>,
    last: [Last; OPEN],
}

/// All gates that PEs have come to.
#[derive(Default)]
pub(super) struct Gates(BTreeMap<Gate, Entries>);

impl Gates {
    /// A PE enters at a time.
    pub(super) fn enter(&mut self, gate: Gate, pe: usize, at: Tick) {
        let entries = self.0.entry(gate).or_default();
        let count = entries.entered.entry(if matches!(gate, Gate::Bcast(_)) { 0 } else { pe }).or_default();
        let number = std::mem::replace(count, *count + 1);
        let last = &mut entries.last[number as usize % OPEN];
        if last.number != number || (last.at, last.pe) <= (at, pe) {
            *last = Last { number, at, pe };
        }
    }

    /// A PE leaves its next one: who entered that last, and when.
    pub(super) fn leave(&mut self, gate: Gate, pe: usize) -> Option<(usize, Tick)> {
        let left = self.0.get_mut(&gate)?.left.entry(pe).or_default();
        let number = std::mem::replace(left, *left + 1);
        self.last(gate, number)
    }

    /// Returns who entered one last, by its number.
    pub(super) fn last(&self, gate: Gate, number: u64) -> Option<(usize, Tick)> {
        let entries = self.0.get(&gate)?;
        let Last { number: known, at, pe } = entries.last[number as usize % OPEN];
        (known == number && entries.entered.values().any(|count| *count > number)).then_some((pe, at))
    }

    /// A tree has gone; another one may have its number.
    pub(super) fn forget(&mut self, tree: u8) {
        self.0.remove(&Gate::Reduce(tree));
        self.0.remove(&Gate::Bcast(tree));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_enter_is_known_of_each_also_when_others_are_ahead() {
        let mut gates = Gates::default();
        assert_eq!((gates.leave(Gate::Barrier, 0), gates.last(Gate::Reduce(3), 0)), (None, None));
        gates.enter(Gate::Barrier, 1, 20);
        gates.enter(Gate::Barrier, 0, 30);
        gates.enter(Gate::Barrier, 2, 10);
        assert_eq!(gates.leave(Gate::Barrier, 1), Some((0, 30)));
        gates.enter(Gate::Barrier, 1, 90);
        assert_eq!(gates.leave(Gate::Barrier, 2), Some((0, 30)));
        gates.enter(Gate::Barrier, 2, 70);
        assert_eq!(gates.leave(Gate::Barrier, 2), Some((1, 90)));
        gates.enter(Gate::Bcast(3), 1, 5);
        gates.enter(Gate::Bcast(3), 2, 6);
        assert_eq!([0, 1, 2].map(|n| gates.last(Gate::Bcast(3), n)), [Some((1, 5)), Some((2, 6)), None]);
        gates.forget(3);
        assert_eq!(gates.last(Gate::Bcast(3), 0), None);
    }
}
