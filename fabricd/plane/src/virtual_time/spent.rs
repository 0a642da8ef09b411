//! What virtual time went for, by PE.

use angara_fabric::Tick;
use angara_protocol::msg::{PeTimes, ROUTINE_NAME_MAX, ROUTINES_MAX, Routine, RoutineRow, WHOM_MAX, WaitRow};
use std::collections::BTreeMap;

/// Use of a PE's time.
#[derive(Default)]
pub(super) struct Spent {
    pub(super) times: PeTimes,
    /// How often it waited for whom, and how long.
    waits: BTreeMap<u32, (u64, Tick)>,
    /// The same for those who are not among these.
    others: (u64, Tick),
    /// Routines that it has called, as it reports them.
    routines: BTreeMap<String, Routine>,
}

impl Spent {
    /// It ran for so long, and says what its time went for so far: what that was since it said so last.
    pub(super) fn ran(&mut self, ran: Tick, (computed, software): (Tick, Tick)) -> (Tick, Tick) {
        let times = &mut self.times;
        let computed = computed.saturating_sub(times.compute).min(ran);
        let software = software.saturating_sub(times.software).min(ran - computed);
        (times.compute, times.software) = (times.compute + computed, times.software + software);
        (computed, software)
    }

    /// It waited for a PE.
    pub(super) fn waited(&mut self, whom: u32, ps: Tick) {
        let room = self.waits.len() < WHOM_MAX;
        let sum = match self.waits.get_mut(&whom) {
            Some(sum) => sum,
            None if room => self.waits.entry(whom).or_default(),
            None => &mut self.others,
        };
        *sum = (sum.0 + 1, sum.1 + ps);
    }

    /// Routines that it has called since its last report.
    pub(super) fn called(&mut self, routines: Vec<Routine>) {
        for Routine { name, calls, ps, bytes } in routines {
            let name: String = name.chars().take(ROUTINE_NAME_MAX).collect();
            if self.routines.len() < ROUTINES_MAX || self.routines.contains_key(&name) {
                let sum = self.routines.entry(name).or_default();
                sum.calls = sum.calls.saturating_add(calls);
                sum.ps = sum.ps.saturating_add(ps);
                sum.bytes = sum.bytes.saturating_add(bytes);
            }
        }
    }

    /// Returns whom PE `pe` waited for.
    pub(super) fn waits(&self, pe: u32) -> impl Iterator<Item = WaitRow> {
        let others = (self.others.0 > 0).then_some((None, self.others));
        let named = self.waits.iter().map(|(whom, sum)| (Some(*whom), *sum));
        named.chain(others).map(move |(whom, (times, ps))| (pe, whom, times, ps))
    }

    /// Returns what PE `pe` called.
    pub(super) fn routines(&self, pe: u32) -> impl Iterator<Item = RoutineRow> {
        self.routines.iter().map(move |(name, r)| (pe, name.clone(), r.calls, r.ps, r.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_there_is_room_for_and_sums_are_right() {
        let mut spent = Spent::default();
        for i in 0..1000 {
            spent.waited(i % 100, 2);
        }
        let rows: Vec<_> = spent.waits(7).collect();
        assert_eq!(rows.len(), WHOM_MAX + 1);
        assert_eq!(rows[5], (7, Some(5), 10, 20));
        assert_eq!(rows[WHOM_MAX], (7, None, 360, 720));
        let routine = |i: usize| Routine { name: format!("r{i}"), calls: 1, ps: u64::MAX, bytes: 8 };
        spent.called((0..2 * ROUTINES_MAX).map(routine).collect());
        spent.called(vec![routine(0), Routine { name: "ü".repeat(100), ..routine(0) }]);
        let rows: Vec<_> = spent.routines(7).collect();
        assert_eq!(rows.len(), ROUTINES_MAX);
        assert_eq!(rows[0], (7, "r0".to_string(), 2, u64::MAX, 16));
    }

    #[test]
    fn what_a_pe_says_is_believed_up_to_what_it_ran() {
        let mut spent = Spent::default();
        assert_eq!(spent.ran(100, (60, 30)), (60, 30));
        assert_eq!(spent.ran(100, (60, 50)), (0, 20));
        assert_eq!(spent.ran(10, (u64::MAX, u64::MAX)), (10, 0));
        assert_eq!(spent.ran(10, (0, 0)), (0, 0));
    }
}
