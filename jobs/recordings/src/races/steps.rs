//! Calls of all PEs in an order that fits what they did to each other.
//!
//! A call's data is sent when it begins, and it has learnt what it learns when it ends. So each call is two steps, and
//! the steps of all threads are merged by time. At equal times beginnings come first, and waits that nothing has ended
//! yet come last: virtual time often stands still while PEs answer each other.

use crate::notes::{Calls, Notes};
use angara_protocol::calls::{Action, Call};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io;

/// Notes of a job's PEs. All of them are in memory: about 150 bytes for a call.
#[derive(Default)]
pub(super) struct Log {
    /// By PE, in the order in which they ended; routines and sites are numbers of `texts`.
    pub(super) calls: Vec<Vec<Call>>,
    texts: Vec<String>,
    /// PEs that noted nothing, or not all.
    pub(super) incomplete: usize,
}

impl Log {
    /// Reads what `pes` PEs noted.
    pub(super) fn read(notes: &Notes, pes: u32) -> io::Result<Log> {
        // Number 0 is for what is not noted.
        let mut log = Log { texts: vec![String::new()], ..Log::default() };
        let mut numbers = HashMap::new();
        for of in notes.read(pes)? {
            let mut calls = Vec::new();
            if let Some(mut of) = of {
                while let Some(mut call) = of.next_call()? {
                    call.routine = log.number(&mut numbers, &of, call.routine);
                    call.site = log.number(&mut numbers, &of, call.site);
                    calls.push(call);
                }
                log.incomplete += usize::from(of.full);
            } else {
                log.incomplete += 1;
            }
            log.calls.push(calls);
        }
        Ok(log)
    }

    fn number(&mut self, numbers: &mut HashMap<String, u32>, of: &Calls, number: u32) -> u32 {
        if number == 0 {
            return 0;
        }
        let text = of.text(number);
        if let Some(number) = numbers.get(text) {
            return *number;
        }
        numbers.insert(text.into(), self.texts.len() as u32);
        self.texts.push(text.into());
        self.texts.len() as u32 - 1
    }

    /// A routine or a line of the program; nothing for number 0.
    pub(super) fn text(&self, number: u32) -> &str {
        &self.texts[number as usize]
    }
}

/// The beginning or the end of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) pe: u32,
    /// Number of the call among those of the PE.
    pub(super) call: u32,
    /// It is the end.
    pub(super) end: bool,
}

/// Steps of each thread, by time.
pub(super) struct Steps<'l> {
    calls: &'l [Vec<Call>],
    /// By thread: its steps, and the next one.
    threads: Vec<(Vec<Step>, usize)>,
    next: BinaryHeap<Reverse<(u64, u8, usize)>>,
}

/// The place at equal times of a step that had to wait for others.
const LAST: u8 = 3;

impl<'l> Steps<'l> {
    pub(super) fn new(calls: &'l [Vec<Call>]) -> Steps<'l> {
        let threads =
            calls.iter().enumerate().flat_map(|(pe, calls)| of_threads(pe as u32, calls)).map(|t| (t, 0)).collect();
        let mut steps = Steps { calls, threads, next: BinaryHeap::new() };
        for thread in 0..steps.threads.len() {
            steps.push(thread, None);
        }
        steps
    }

    fn call(&self, step: Step) -> &'l Call {
        &self.calls[step.pe as usize][step.call as usize]
    }

    fn push(&mut self, thread: usize, class: Option<u8>) {
        let (steps, next) = &self.threads[thread];
        let Some(step) = steps.get(*next) else { return };
        let call = self.call(*step);
        let time = if step.end { call.end } else { call.start };
        let class = class.unwrap_or(match (step.end, &call.action) {
            (false, _) => 0,
            (true, Action::Wait { .. }) => 2,
            (true, _) => 1,
        });
        self.next.push(Reverse((time, class, thread)));
    }

    /// Takes the next step. `ready` says whether a wait can have ended by what is known; if not, others of the same time go
    /// first.
    pub(super) fn take(&mut self, ready: impl Fn(Step, &Call) -> bool) -> Option<(Step, &'l Call)> {
        loop {
            let Reverse((_, class, thread)) = self.next.pop()?;
            let (steps, next) = &mut self.threads[thread];
            let step = steps[*next];
            let call = &self.calls[step.pe as usize][step.call as usize];
            if class == LAST || !step.end || ready(step, call) {
                *next += 1;
                self.push(thread, None);
                return Some((step, call));
            }
            self.push(thread, Some(LAST));
        }
    }
}

/// Steps of each thread of a PE in the order of the program: what a call made within it lies between its own.
fn of_threads(pe: u32, calls: &[Call]) -> Vec<Vec<Step>> {
    let mut threads: BTreeMap<u16, Vec<(u8, Vec<Step>)>> = BTreeMap::new();
    for (number, call) in calls.iter().enumerate() {
        let done = threads.entry(call.thread).or_default();
        let step = |end| Step { pe, call: number as u32, end };
        // Calls are noted when they end, so those within this one came before it.
        let within = done.iter().rposition(|(depth, _)| *depth <= call.depth).map_or(0, |last| last + 1);
        let mut steps = vec![step(false)];
        steps.extend(done.drain(within..).flat_map(|(_, steps)| steps));
        steps.push(step(true));
        match done.last_mut() {
            // Calls that are over at the outermost level need no more order.
            Some((0, before)) if call.depth == 0 => before.extend(steps),
            _ => done.push((call.depth, steps)),
        }
    }
    threads.into_values().map(|done| done.into_iter().flat_map(|(_, steps)| steps).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(thread: u16, depth: u8, start: u64, end: u64) -> Call {
        Call { routine: 1, site: 0, thread, depth, start, end, action: Action::Other }
    }

    #[test]
    fn calls_within_calls_lie_between_their_steps() {
        let calls = [call(0, 0, 1, 2), call(0, 1, 3, 4), call(1, 0, 3, 9), call(0, 1, 4, 4), call(0, 0, 3, 5)];
        let order: Vec<Vec<(u32, bool)>> =
            of_threads(0, &calls).iter().map(|t| t.iter().map(|s| (s.call, s.end)).collect()).collect();
        let first = [(0, false), (0, true), (4, false), (1, false), (1, true), (3, false), (3, true), (4, true)];
        assert_eq!(order, [first.to_vec(), vec![(2, false), (2, true)]]);
    }

    #[test]
    fn at_equal_times_beginnings_come_first_and_waits_last() {
        let comparison = angara_abi::clock::Comparison { width: 8, signed: true, relation: 1, value: 1 };
        let at = angara_protocol::calls::Memory::Private(0);
        let wait = Call {
            action: Action::Wait { at, count: 1, comparison, satisfied: true, test: false },
            ..call(0, 0, 1, 5)
        };
        // PE 0 waits for PE 1, which answers what PE 2 tells it; all at time 5.
        let calls = [vec![wait], vec![wait, call(0, 0, 5, 5)], vec![call(0, 0, 5, 5)]];
        let mut steps = Steps::new(&calls);
        let mut told = [false; 3];
        let mut ends = Vec::new();
        loop {
            let ready = |step: Step, call: &Call| !matches!(call.action, Action::Wait { .. }) || told[step.pe as usize];
            let Some((step, call)) = steps.take(ready) else { break };
            match (step.end, matches!(call.action, Action::Wait { .. })) {
                (false, false) => told[step.pe as usize - 1] = true,
                (true, true) => ends.push((step.pe, told[step.pe as usize])),
                _ => {}
            }
        }
        assert_eq!(ends, [(1, true), (0, true)]);
    }
}
