//! Sets of numbers as sorted half-open ranges: packet numbers seen, stream bytes to send again.

use std::ops::Range;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    pub(crate) fn as_slice(&self) -> &[Range<u64>] {
        &self.0
    }

    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.0.first().cloned()
    }

    pub(crate) fn last(&self) -> Option<Range<u64>> {
        self.0.last().cloned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn contains(&self, x: u64) -> bool {
        let after = self.0.partition_point(|r| r.end <= x);
        self.0.get(after).is_some_and(|r| r.start <= x)
    }

    /// Adds a range, merging what touches it.
    pub(crate) fn insert(&mut self, mut add: Range<u64>) {
        if add.is_empty() {
            return;
        }
        if let Some(last) = self.0.last_mut()
            && last.end == add.start
        {
            last.end = add.end;
            return;
        }
        let from = self.0.partition_point(|r| r.end < add.start);
        let to = self.0.partition_point(|r| r.start <= add.end);
        if from < to {
            add.start = add.start.min(self.0[from].start);
            add.end = add.end.max(self.0[to - 1].end);
        }
        self.0.splice(from..to, [add]);
    }

    /// Takes a range out, splitting what it cuts.
    pub(crate) fn remove(&mut self, cut: Range<u64>) {
        if cut.is_empty() || self.0.is_empty() {
            return;
        }
        let from = self.0.partition_point(|r| r.end <= cut.start);
        let to = self.0.partition_point(|r| r.start < cut.end);
        if from >= to {
            return;
        }
        let left = self.0[from].start..cut.start;
        let right = cut.end..self.0[to - 1].end;
        self.0.splice(from..to, [left, right].into_iter().filter(|r| r.start < r.end));
    }

    /// Forgets the lowest ranges beyond `count`.
    pub(crate) fn keep_highest(&mut self, count: usize) {
        if self.0.len() > count {
            self.0.drain(..self.0.len() - count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set_of_numbers(ops in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 1..60)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (add, start, len) in ops {
                if add {
                    ranges.insert(start..start + len);
                    set.extend(start..start + len);
                } else {
                    ranges.remove(start..start + len);
                    set.retain(|x| !(start..start + len).contains(x));
                }
                let listed: Vec<u64> = ranges.as_slice().iter().cloned().flatten().collect();
                prop_assert_eq!(&listed, &set.iter().copied().collect::<Vec<_>>());
                prop_assert!(ranges.as_slice().windows(2).all(|w| w[0].end < w[1].start));
                prop_assert!((0..80).all(|x| ranges.contains(x) == set.contains(&x)));
            }
        }
    }
}
