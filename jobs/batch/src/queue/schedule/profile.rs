//! Free nodes over the time to come.

/// Steps of a number of free nodes, which reservations lower. Numbers may be negative where sets hold
/// more than was reserved for them.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// From each time on: free nodes. Times ascend; the last step lasts for ever.
    steps: Vec<(u64, i64)>,
}

impl Profile {
    /// From now on N nodes are free, and more when jobs end, in order of time.
    pub(super) fn new(now: u64, free: usize, ends: impl Iterator<Item = (u64, usize)>) -> Profile {
        let mut steps = vec![(now, free as i64)];
        for (time, held) in ends {
            let last = steps[steps.len() - 1];
            if last.0 == time {
                steps.last_mut().expect("one step at least").1 += held as i64;
            } else {
                steps.push((time, last.1 + held as i64));
            }
        }
        Profile { steps }
    }

    /// The earliest time, not before `from`, from which `nodes` are free for so long.
    pub(super) fn earliest(&self, from: u64, nodes: usize, length: u64) -> u64 {
        let mut begin = None;
        let first = self.steps.partition_point(|step| step.0 <= from).saturating_sub(1);
        for &(time, free) in &self.steps[first..] {
            let time = time.max(from);
            if begin.is_some_and(|begin| time >= begin + length) {
                break;
            }
            if free < nodes as i64 {
                begin = None;
            } else {
                begin = begin.or(Some(time));
            }
        }
        // What the last step has not room for starts never; callers keep to what fits the empty machine.
        begin.unwrap_or(u64::MAX / 4)
    }

    /// Lowers the number of free nodes from `begin` on for so long; a negative number raises it.
    pub(super) fn reserve(&mut self, begin: u64, length: u64, nodes: i64) {
        let first = self.step_at(begin.max(self.steps[0].0));
        let last = self.step_at((begin + length).max(self.steps[0].0));
        self.steps[first..last].iter_mut().for_each(|step| step.1 -= nodes);
    }

    /// Index of the step that begins at `time`, made if there is none.
    fn step_at(&mut self, time: u64) -> usize {
        match self.steps.binary_search_by_key(&time, |step| step.0) {
            Ok(index) => index,
            Err(index) => {
                let free = self.steps[index.saturating_sub(1)].1;
                self.steps.insert(index, (time, free));
                index
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_found_only_where_it_is_long_enough() {
        let mut profile = Profile::new(10, 2, [(20, 3), (20, 1), (50, 4)].into_iter());
        assert_eq!([2, 3, 7].map(|nodes| profile.earliest(10, nodes, 5)), [10, 20, 50]);
        profile.reserve(20, 10, 5);
        // 2 until 20, 1 until 30, 6 until 50, then 10.
        assert_eq!(profile.earliest(0, 2, 10), 10);
        assert_eq!(profile.earliest(0, 2, 11), 30);
        assert_eq!(profile.earliest(0, 1, 11), 10);
        assert_eq!([25, 40, 49].map(|from| profile.earliest(from, 2, 3)), [30, 40, 49]);
        profile.reserve(20, 10, -5);
        assert_eq!(profile.earliest(0, 2, 11), 10);
    }
}
