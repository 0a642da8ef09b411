//! The critical path: the chain of work that the end of the job waited for.
//!
//! It is walked backwards from the last call to end. On a PE it goes back to the call that had to wait last; from there
//! it goes on at the PE that came late, at the time when that did what was waited for.

use super::events::{Span, Timeline, outermost};
use std::collections::BTreeMap;

/// Time on the critical path, by kind, ns.
#[derive(Default, Debug, PartialEq)]
pub(super) struct Critical {
    pub(super) length: u64,
    /// From what was waited for to the end of the wait.
    pub(super) hand_over: u64,
    /// Outside the library.
    pub(super) outside: u64,
    pub(super) routines: BTreeMap<u16, u64>,
    /// On each PE.
    pub(super) pes: BTreeMap<u32, u64>,
    /// Times that it goes from one PE to another.
    pub(super) changes: u64,
}

/// The critical path of `timeline`.
pub(super) fn critical(timeline: &Timeline) -> Critical {
    let outer: Vec<Vec<Span>> = timeline.pes.iter().map(|spans| main_thread(spans)).collect();
    let mut path = Critical::default();
    let last = outer.iter().enumerate().filter_map(|(pe, spans)| Some((spans.last()?.end, pe)));
    let Some((end, mut pe)) = last.max() else { return path };
    let first = outer.iter().filter_map(|spans| spans.first()).map(|span| span.start).min().unwrap_or(end);
    let mut now = end;
    path.length = end - first;
    loop {
        let spans = &outer[pe];
        let before = spans.partition_point(|span| span.end <= now);
        let waited = spans[..before].iter().rev().find_map(|span| {
            let because = span.cause.filter(|because| because.late > 0 && because.pe as usize != pe)?;
            (because.at < now && (because.pe as usize) < outer.len()).then_some((span.end, because))
        });
        let Some((end, because)) = waited else {
            path.work(pe, spans, first, now);
            return path;
        };
        path.work(pe, spans, end, now);
        let handed = end.saturating_sub(because.at);
        path.hand_over += handed;
        *path.pes.entry(pe as u32).or_default() += handed;
        path.changes += 1;
        (pe, now) = (because.pe as usize, because.at);
    }
}

/// Calls of the thread that ended last, which is the one that finalizes.
fn main_thread(spans: &[Span]) -> Vec<Span> {
    let outer = outermost(spans);
    let thread = outer.iter().max_by_key(|span| span.end).map(|span| span.thread);
    outer.into_iter().filter(|span| Some(span.thread) == thread).collect()
}

impl Critical {
    /// From `from` to `to` the path is on `pe`, which made these calls.
    fn work(&mut self, pe: usize, spans: &[Span], from: u64, to: u64) {
        if from >= to {
            return;
        }
        *self.pes.entry(pe as u32).or_default() += to - from;
        let mut outside = to - from;
        let start = spans.partition_point(|span| span.end <= from);
        for span in spans[start..].iter().take_while(|span| span.start < to) {
            let inside = span.end.min(to) - span.start.max(from);
            *self.routines.entry(span.routine).or_default() += inside;
            outside -= inside;
        }
        self.outside += outside;
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::Because;
    use super::*;

    #[test]
    fn the_path_goes_to_whoever_came_late() {
        let span =
            |routine, start, end, cause| Span { thread: 0, start, end, routine, cause, bytes: 0, is_inside: false };
        let barrier =
            |start: u64, late| Some(Because { pe: 1, at: 60, late: if late { 60 - start } else { 0 }, together: true });
        // PE 1 computes from 10 to 60, and PE 0 waits for it in a barrier; then PE 0 is the last to end.
        let timeline = Timeline {
            pes: vec![
                vec![span(0, 0, 5, None), span(1, 20, 70, barrier(20, true)), span(0, 80, 100, None)],
                vec![span(0, 0, 10, None), span(1, 60, 70, barrier(60, false)), span(0, 70, 75, None)],
            ],
            routines: vec!["a".into(), "b".into()],
            ..Timeline::default()
        };
        let path = critical(&timeline);
        assert_eq!((path.length, path.hand_over, path.changes), (100, 10, 1));
        assert_eq!(path.outside, 10 + 50, "PE 0 from 70 to 80, PE 1 from 10 to 60");
        assert_eq!(path.routines, [(0, 20 + 10)].into());
        assert_eq!(path.pes, [(0, 30 + 10), (1, 60)].into());
        assert_eq!(path.pes.values().sum::<u64>(), path.length);
    }
}
