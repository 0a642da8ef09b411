//! Ranges of addresses: sets of them, and how often each is counted.

use std::collections::BTreeMap;
use std::ops::Range;

pub(crate) type Span = Range<usize>;

/// How many regions each page is part of. Neighbours of one count are one span.
#[derive(Default, Debug)]
pub(crate) struct Counts {
    /// End and count, by start. Spans do not touch unless their counts differ.
    spans: BTreeMap<usize, (usize, u32)>,
}

impl Counts {
    /// Nothing.
    pub(crate) const EMPTY: Counts = Counts { spans: BTreeMap::new() };

    /// Spans that overlap a range, in order.
    fn over(&self, range: &Span) -> impl Iterator<Item = (Span, u32)> + '_ {
        let before = self.spans.range(..range.start).next_back().map_or(range.start, |(start, _)| *start);
        let (from, to) = (range.start, range.end);
        self.spans
            .range(before.min(from)..to)
            .filter(move |(_, (end, _))| *end > from)
            .map(|(start, (end, count))| (*start..*end, *count))
    }

    /// What of a range is not counted.
    pub(crate) fn gaps(&self, range: &Span) -> Vec<Span> {
        let (mut gaps, mut at) = (Vec::new(), range.start);
        for (span, _) in self.over(range) {
            if span.start > at {
                gaps.push(at..span.start);
            }
            at = span.end;
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    /// What of a range is counted.
    pub(crate) fn parts(&self, range: &Span) -> Vec<Span> {
        let mut parts: Vec<Span> = Vec::new();
        for (span, _) in self.over(range) {
            let part = span.start.max(range.start)..span.end.min(range.end);
            match parts.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                _ => parts.push(part),
            }
        }
        parts
    }

    /// True if any of a range is counted.
    pub(crate) fn touches(&self, range: &Span) -> bool {
        self.over(range).next().is_some()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
    /// All spans, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = Span> + '_ {
        self.spans.iter().map(|(start, (end, _))| *start..*end)
    }

    /// Makes `at` a border between spans.
    fn cut(&mut self, at: usize) {
        if let Some((start, (end, count))) = self.spans.range(..at).next_back().map(|(s, e)| (*s, *e))
            && end > at
        {
            self.spans.insert(start, (at, count));
            self.spans.insert(at, (end, count));
        }
    }
    /// Joins the spans on both sides of `at` if they are alike.
    fn join(&mut self, at: usize) {
        let Some((end, count)) = self.spans.get(&at).copied() else { return };
        if let Some((start, (before, same))) = self.spans.range(..at).next_back().map(|(s, e)| (*s, *e))
            && before == at
            && same == count
        {
            self.spans.remove(&at);
            self.spans.insert(start, (end, count));
        }
    }

    /// Counts a range once more.
    pub(crate) fn add(&mut self, range: &Span) {
        let gaps = self.gaps(range);
        self.cut(range.start);
        self.cut(range.end);
        for (_, (_, count)) in self.spans.range_mut(range.clone()) {
            *count += 1;
        }
        for gap in gaps {
            self.spans.insert(gap.start, (gap.end, 1));
        }
        self.tidy(range);
    }

    /// Counts a range once less. Returns what is not counted any more.
    pub(crate) fn remove(&mut self, range: &Span) -> Vec<Span> {
        self.cut(range.start);
        self.cut(range.end);
        let mut gone = Vec::new();
        for (start, (end, count)) in self.spans.range_mut(range.clone()) {
            *count -= 1;
            if *count == 0 {
                gone.push(*start..*end);
            }
        }
        for span in &gone {
            self.spans.remove(&span.start);
        }
        self.tidy(range);
        gone
    }

    /// Counts a range not at all.
    pub(crate) fn clear(&mut self, range: &Span) {
        self.cut(range.start);
        self.cut(range.end);
        let starts: Vec<usize> = self.spans.range(range.clone()).map(|(start, _)| *start).collect();
        for start in starts {
            self.spans.remove(&start);
        }
    }

    fn tidy(&mut self, range: &Span) {
        let borders: Vec<usize> = self.spans.range(range.start..=range.end).map(|(start, _)| *start).collect();
        borders.into_iter().rev().for_each(|at| self.join(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by an array.
    #[test]
    fn counts_are_those_of_every_page() {
        let mut seed = 0x1234_5678_9abc_def1_u64;
        let mut random = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed as usize % below
        };
        let (mut counts, mut plain) = (Counts::default(), [0u32; 64]);
        let mut ranges: Vec<Span> = Vec::new();
        for _ in 0..20_000 {
            let start = random(63);
            let range = start..start + 1 + random(64 - start);
            match random(3) {
                0 | 1 if ranges.len() < 20 => {
                    counts.add(&range);
                    range.clone().for_each(|page| plain[page] += 1);
                    ranges.push(range.clone());
                }
                _ if !ranges.is_empty() => {
                    let old = ranges.swap_remove(random(ranges.len()));
                    let gone = counts.remove(&old);
                    old.for_each(|page| {
                        plain[page] -= 1;
                        assert_eq!(plain[page] == 0, gone.iter().any(|span| span.contains(&page)));
                    });
                }
                _ => {}
            }
            let parts = counts.parts(&range);
            let gaps = counts.gaps(&range);
            for page in range.clone() {
                assert_eq!(plain[page] > 0, parts.iter().any(|part| part.contains(&page)), "{page} {plain:?}");
                assert_eq!(plain[page] == 0, gaps.iter().any(|gap| gap.contains(&page)), "{page} {plain:?}");
            }
            assert_eq!(counts.touches(&range), range.clone().any(|page| plain[page] > 0));
            let spans = plain.windows(2).filter(|two| two[0] != two[1] && two[1] > 0).count();
            assert_eq!(counts.spans.len(), spans + usize::from(plain[0] > 0), "neighbours alike are one");
        }
    }
}
