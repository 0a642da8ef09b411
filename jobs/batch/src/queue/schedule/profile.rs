//! Free nodes over the time to come.

use super::nodes::Nodes;
use std::ops::Range;

/// Steps of what is free, which running jobs and reservations lower.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// Times ascend; the last step lasts for ever.
    steps: Vec<Step>,
}

/// What is free from a time to that of the next step.
#[derive(Clone, Debug)]
struct Step {
    time: u64,
    nodes: Nodes,
    /// Their number.
    free: usize,
}

impl Profile {
    /// From now on these nodes are free.
    pub(super) fn new(now: u64, nodes: Nodes) -> Profile {
        Profile { steps: vec![Step { time: now, free: nodes.count(), nodes }] }
    }

    /// Forgets what was before.
    pub(super) fn forget(&mut self, now: u64) {
        let passed = self.steps.partition_point(|step| step.time <= now).saturating_sub(1);
        self.steps.drain(..passed);
        self.steps[0].time = now;
    }

    /// These nodes are not free for that time. All are until then.
    pub(super) fn take(&mut self, span: &Range<u64>, nodes: &Nodes) {
        self.change(span, |free| {
            debug_assert!(nodes.within(free), "a node is reserved twice");
            free.remove(nodes);
        });
    }

    /// These nodes are free for that time.
    pub(super) fn give_back(&mut self, span: &Range<u64>, nodes: &Nodes) {
        self.change(span, |free| {
            debug_assert!(!nodes.meets(free), "a node is given back twice");
            free.add(nodes);
        });
    }

    fn change(&mut self, span: &Range<u64>, change: impl Fn(&mut Nodes)) {
        let first = self.step_at(span.start.max(self.steps[0].time));
        let last = self.step_at(span.end.max(self.steps[0].time));
        for step in &mut self.steps[first..last] {
            change(&mut step.nodes);
            step.free = step.nodes.count();
        }
        // At both ends the step may now be like the one before.
        for step in [last, first] {
            if step > 0 && self.steps[step].nodes == self.steps[step - 1].nodes {
                self.steps.remove(step);
            }
        }
    }

    /// Index of the step that begins at `time`, made if there is none.
    fn step_at(&mut self, time: u64) -> usize {
        match self.steps.binary_search_by_key(&time, |step| step.time) {
            Ok(index) => index,
            Err(index) => {
                let before = self.steps[index - 1].clone();
                self.steps.insert(index, Step { time, ..before });
                index
            }
        }
    }

    /// What `find` returns for the earliest step, of those that begin within `starts`, of which it returns something:
    /// for its time, and for what is free from then on for so long. It is asked if those are as many nodes as wanted.
    pub(super) fn earliest<T>(
        &self,
        starts: Range<u64>,
        length: u64,
        wanted: usize,
        mut find: impl FnMut(u64, &Nodes) -> Option<T>,
    ) -> Option<T> {
        let mut first = self.steps.partition_point(|step| step.time < starts.start);
        let mut failed: Option<Nodes> = None;
        while let Some(step) = self.steps.get(first).filter(|step| step.time < starts.end) {
            let window = self.window(first, step.time + length);
            if let Some(few) = window.iter().rposition(|step| step.free < wanted) {
                first += few + 1;
                continue;
            }
            first += 1;
            let nodes = common(window);
            // Where nothing has become free since the last step, `find` has said no.
            if nodes.count() < wanted || failed.as_ref().is_some_and(|failed| nodes.within(failed)) {
                continue;
            }
            let found = find(step.time, &nodes);
            if found.is_some() {
                return found;
            }
            failed = Some(nodes);
        }
        None
    }

    /// Steps from one on that begin before `end`.
    fn window(&self, first: usize, end: u64) -> &[Step] {
        let steps = &self.steps[first..];
        &steps[..steps.partition_point(|step| step.time < end)]
    }

    /// The earliest time from which these nodes are free until `time`, at which they are.
    pub(super) fn since(&self, time: u64, nodes: &Nodes) -> u64 {
        let before = self.steps.iter().rev().skip_while(|step| step.time >= time);
        before.take_while(|step| nodes.within(&step.nodes)).last().map_or(time, |step| step.time)
    }

    /// Number of nodes that are free from now on for so long, if the reservation of `own` is not counted.
    pub(super) fn now(&self, length: u64, (span, own): (&Range<u64>, &Nodes)) -> usize {
        let now = self.steps[0].time;
        let mut nodes = self.steps[0].nodes.clone();
        for step in self.window(1, now + length) {
            if span.contains(&step.time) {
                let mut free = step.nodes.clone();
                free.add(own);
                nodes.keep(&free);
            } else {
                nodes.keep(&step.nodes);
            }
        }
        nodes.count()
    }
}

/// What is free in each of the steps.
fn common(window: &[Step]) -> Nodes {
    let mut nodes = window[0].nodes.clone();
    window[1..].iter().for_each(|step| nodes.keep(&step.nodes));
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_placement::{Machine, NodeSet};

    #[test]
    fn a_hole_is_found_only_where_it_is_long_enough() {
        let machine = Machine::new("10".parse().unwrap(), &[]);
        let nodes = |range: Range<u32>| Nodes::held(&machine, &NodeSet::of(range.collect()));
        let mut profile = Profile::new(10, Nodes::free(&machine));
        profile.take(&(0..20), &nodes(2..6));
        profile.take(&(0..50), &nodes(6..10));
        let earliest = |profile: &Profile, from: u64, wanted: usize, length: u64| {
            profile.earliest(from..u64::MAX, length, wanted, |time, _| Some(time)).unwrap()
        };
        assert_eq!([2, 6, 7].map(|wanted| earliest(&profile, 0, wanted, 5)), [10, 20, 50]);
        profile.take(&(20..30), &nodes(0..5));
        // Free are 0 and 1 until 20, 5 until 30, 0 to 5 until 50, then all.
        assert_eq!([10, 11].map(|length| earliest(&profile, 0, 2, length)), [10, 30]);
        assert_eq!(earliest(&profile, 0, 1, 11), 20, "one node all the time");
        assert_eq!(profile.earliest(0..30, 11, 2, |time, _| Some(time)), None);
        assert_eq!((profile.since(50, &nodes(0..1)), profile.since(50, &nodes(5..6))), (30, 20));
        assert_eq!(profile.since(50, &nodes(6..7)), 50);
        profile.give_back(&(20..30), &nodes(0..5));
        assert_eq!((profile.steps.len(), earliest(&profile, 0, 2, 11)), (3, 10));
        profile.forget(25);
        assert_eq!((profile.steps[0].time, profile.steps.len(), earliest(&profile, 0, 6, 11)), (25, 2, 25));
    }
}
