//! Turns of PEs: one runs alone, and when it stands the network goes on to whoever is due next.

use super::coroutines::Coroutines;
use super::touch::{By, Touch};
use crate::bells::Bells;
use crate::channels::lane::Lane;
use crate::jobs::job::OpenJob;
use crate::notice::Notice;
use crate::observe::capture::Captures;
use crate::service::view::Service;
use angara_abi::channel;
use angara_abi::clock::{ClockPage, TIME_MAX, Verdict, WaitsFor};
use angara_abi::wait::{Kernel, Linux};
use angara_fabric::{Link, Tick};
use angara_net::fault::Fault;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Longest turn of a PE beside which nothing can happen, in picoseconds: it takes some milliseconds on the wall where the PE looks
/// at a clock all the time, and patience measures turns.
const TURN_MOST: u64 = 2_000_000_000;

/// Sum of counters that others raise.
fn sum_of<'a>(words: impl Iterator<Item = &'a AtomicU32>) -> u32 {
    words.fold(0, |sum, word| sum.wrapping_add(word.load(Ordering::SeqCst)))
}

/// Parts of a data plane that PEs take their turns with.
pub(crate) struct Turns<'p> {
    pub(crate) service: Service<'p>,
    /// The PEs themselves, where they are on this thread.
    pub(crate) coroutines: &'p mut Option<Box<dyn Coroutines>>,
    pub(crate) captures: &'p mut Captures,
    pub(crate) bells: &'p Bells,
}

/// Why the network does not go on for now.
pub(crate) enum Halt {
    /// Whether anything could go on: then a PE has its turn.
    Over(bool),
    /// A fault comes, now.
    Fault(Fault),
    /// The network has given a link up, after this route change.
    GivenUp(Link, u64),
}

impl Turns<'_> {
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.service.time.as_ref().is_some_and(|run| run.over)
    }

    /// All PEs have come; time begins when they stand for the first time.
    #[inline]
    pub(crate) fn begun(&mut self) -> bool {
        let Some(run) = &mut self.service.time else { return false };
        if run.begun.is_none()
            && !self.service.channels.lanes.active().is_empty()
            && self.service.seats.jobs.values().all(OpenJob::complete)
        {
            run.begun = Some(Instant::now());
        }
        run.begun.is_some()
    }

    /// A lane whose PE runs. What those who stand have posted is taken.
    #[inline]
    pub(crate) fn running(&mut self) -> Option<usize> {
        while let Some(&index) = self.service.time.as_ref()?.running.last() {
            let lane = self.service.channels.lanes.get(index).filter(|lane| !lane.broken);
            let stands = match lane.map(|lane| lane.memory.clock.as_ref().and_then(ClockPage::stands)) {
                Some(None) => return Some(index),
                Some(stands) => stands,
                None => None,
            };
            self.service.time.as_mut()?.running.pop();
            if let Some((said, waits_for)) = stands {
                self.stands(index, said, waits_for);
            }
        }
        None
    }

    /// A PE stands now, as it says.
    pub(super) fn stands(&mut self, index: usize, said: Tick, waits_for: Option<WaitsFor>) {
        let Some(lane) = self.service.channels.lanes.get(index) else { return };
        let (pe, port, began) = (lane.pe, lane.port, lane.ran.0);
        let clock = lane.memory.clock.as_ref();
        let (spending, deadline) = clock.map_or(((0, 0), TIME_MAX), |clock| (clock.spending(), clock.deadline()));
        let has_ended = clock.is_some_and(ClockPage::has_ended);
        let (Some(waits_for), true) = (waits_for, (began..=TIME_MAX).contains(&said)) else {
            let why = format!("its clock page says {said} ps, waiting for {waits_for:?}, after {began} ps");
            return self.service.break_lane(index, channel::Fault::BadRange, 0, &why);
        };
        if let Some(run) = &mut self.service.time {
            if has_ended {
                run.has_ended(pe);
            }
            run.nothing_happens();
            let ran = (said - began, spending);
            run.stands((index, pe), (said, deadline), waits_for, (!has_ended).then_some(ran));
        }
        if self.service.take_posts(index, said) {
            // A queue that was full has room now, a command is done, and what needs no network is complete.
            self.service.touched(port, Touch::Post(None), By::Own(None));
        }
    }

    /// Lets the network's time go on until a PE is due, and has it go on. With `news` the network has said something already.
    pub(crate) fn go_on(&mut self, mut news: bool) -> Halt {
        loop {
            if !news {
                self.look_at_deadlines();
                if !self.run_to_news() {
                    match self.run_to_fault() {
                        Some(fault) => return Halt::Fault(fault),
                        None => break,
                    }
                }
            }
            news = false;
            self.service.registers.are_stale();
            if let Some((link, change)) = self.service.apply_all() {
                return Halt::GivenUp(link, change);
            }
            self.captures.tell(&self.service.seats.jobs, self.service.fabric);
        }
        let Some(run) = &mut self.service.time else { return Halt::Over(false) };
        let Some((at, index)) = run.take_due() else {
            self.look_at_those_outside();
            let some_are_due = self.service.time.as_ref().is_some_and(|run| run.next_due().is_some());
            return Halt::Over(some_are_due || self.nothing_can_happen());
        };
        (run.stuck, run.in_doubt) = (false, None);
        self.let_go(index, at, Verdict::Go);
        Halt::Over(true)
    }

    /// Has the network go on until it says something, a PE is due, or a thread of one has changed its deadline. Returns whether it
    /// could. No further than before the next fault and the next look at links.
    fn run_to_news(&mut self) -> bool {
        let Some(run) = &self.service.time else { return false };
        let mut until = run.next_due().unwrap_or(Tick::MAX);
        if let Some(fault) = run.next_fault() {
            let Some(before) = fault.checked_sub(1) else { return false };
            until = until.min(before);
        }
        if run.notes.is_some() {
            let Some(next) = self.service.fabric.poll_timeout().filter(|next| *next <= until) else { return false };
            until = next;
            self.look_at_links(next);
        }
        let Some(run) = &self.service.time else { return false };
        let words = || self.service.seats.jobs.values().map(|job| job.memory.sync.deadlines());
        let (first, others, known) = (words().next(), self.service.seats.jobs.len() > 1, run.deadlines);
        self.service.fabric.advance_to_news(until, || match first {
            Some(word) if !others => word.load(Ordering::SeqCst) == known,
            _ => sum_of(words()) == known,
        })
    }

    /// Has the network go on to the next fault, which comes then, if there is one in time.
    fn run_to_fault(&mut self) -> Option<Fault> {
        let run = self.service.time.as_ref()?;
        let fault = run.next_fault()?;
        let due = run.next_due();
        // A fault is no reason to go on: after the end of everything nobody sees it.
        let next = self.service.fabric.poll_timeout().or(due);
        if next.is_none_or(|next| next < fault) || due.is_some_and(|due| due < fault) {
            return None;
        }
        self.look_at_links(fault);
        self.service.fabric.advance(fault);
        self.service.time.as_mut()?.take_fault()
    }

    /// PEs that are outside virtual time come back together, so that nobody's turn depends on how fast it was there.
    fn look_at_those_outside(&mut self) {
        let Some(run) = self.service.time.as_mut() else { return };
        let outside: Vec<usize> = run.outside().collect();
        let is_back = |index: &usize| {
            let clock = self.service.channels.lanes.get(*index).and_then(|lane| lane.memory.clock.as_ref());
            clock.is_none_or(|clock| clock.deadline() < TIME_MAX)
        };
        // Who runs or stands may be about to go outside, too.
        if !outside.is_empty() && outside.len() == run.waiting().len() && outside.iter().all(is_back) {
            run.come_back(&outside, self.service.fabric.now().max(run.present));
        }
    }

    /// How often PEs that stand have changed their deadlines.
    fn changes_of_deadlines(&self) -> u32 {
        sum_of(self.service.seats.jobs.values().map(|job| job.memory.sync.deadlines()))
    }

    /// Threads of PEs that stand may have become due at an earlier time.
    fn look_at_deadlines(&mut self) {
        let changes = self.changes_of_deadlines();
        let Some(run) = self.service.time.as_mut().filter(|run| run.deadlines != changes) else { return };
        run.deadlines = changes;
        let now = self.service.fabric.now().max(run.present);
        for (index, _) in run.waiting() {
            if let Some(clock) = self.service.channels.lanes.get(index).and_then(|lane| lane.memory.clock.as_ref()) {
                run.is_due_at(index, clock.deadline(), now);
            }
        }
    }

    fn let_go(&mut self, index: usize, at: Tick, verdict: Verdict) {
        let next = self.service.fabric.poll_timeout().unwrap_or(TIME_MAX);
        let is_one_job = self.service.seats.jobs.len() == 1;
        let (Some(run), Some(lane)) = (&mut self.service.time, self.service.channels.lanes.get_mut(index)) else {
            return;
        };
        let nobody_else_runs = is_one_job
            && verdict == Verdict::Go
            && run.running.is_empty()
            && !run.patience.is_anyone_absent()
            && run.outside().next().is_none();
        let others = if nobody_else_runs { run.next_due().unwrap_or(TIME_MAX).max(at) } else { at };
        run.runs(index);
        run.present = run.present.max(at);
        lane.ran = (at, at);
        if let Some(clock) = &lane.memory.clock {
            // What others post when they are due takes longer to come than anybody runs ahead.
            let comes = others.min(at.saturating_add(TURN_MOST)).saturating_add(clock.ahead());
            clock.go(at, next.min(comes), verdict);
            if self.coroutines.is_none() {
                Linux.futex_wake(clock.goes());
            }
        }
    }

    /// Everybody stands and nothing is on its way: every PE is told, once, after those that might go on by themselves. One whose channel is in error knows more.
    fn nothing_can_happen(&mut self) -> bool {
        let Some(run) = &mut self.service.time else { return false };
        if run.patience.is_anyone_absent() || run.stuck || run.outside().next().is_some() {
            return false;
        }
        let mut told = run.waiting();
        told.retain(|(index, _)| self.service.channels.lanes.get(*index).is_some_and(|lane| !lane.broken));
        let pids = told.iter().filter_map(|(index, _)| Some(self.service.channels.lanes.get(*index)?.pid));
        let before = run.deadlines;
        // A coroutine that does not run does nothing.
        if self.coroutines.is_none() && run.patience.may_yet(&mut run.in_doubt, pids) {
            return false;
        }
        if self.changes_of_deadlines() != before {
            // The last thread that ran has just gone to sleep, and is due when it has slept.
            return true;
        }
        // One after the other: what one of them does may be what others wait for.
        let is_unsure = |index: usize| {
            let clock = self.service.channels.lanes.get(index).and_then(|lane| lane.memory.clock.as_ref());
            clock.is_some_and(ClockPage::is_unsure)
        };
        if let Some((index, since)) = told.iter().copied().find(|(index, _)| is_unsure(*index)) {
            if let Some(run) = &mut self.service.time {
                run.forget(index);
            }
            self.let_go(index, since, Verdict::Doubt);
            return true;
        }
        let Some(run) = &mut self.service.time else { return false };
        run.stuck = true;
        let left = self.service.seats.jobs.values().find(|job| job.lanes.iter().any(Option::is_none));
        if let Some(job) = left.filter(|_| !told.is_empty()).map(|job| job.memory.id) {
            // They wait for one that has left, which is why the job ends.
            run.over = true;
            self.service.reports.say(Notice::InVain { job });
            return false;
        }
        for (index, since) in &told {
            if let Some(run) = &mut self.service.time {
                run.forget(*index);
            }
            self.let_go(*index, *since, Verdict::Deadlock);
        }
        if let Some(run) = self.service.time.as_mut().filter(|_| self.coroutines.is_some()) {
            // The first is to say it; of processes it is the first that is woken.
            run.running.reverse();
        }
        !told.is_empty()
    }

    /// A PE goes; what it has posted is taken first, unless it was lost: then its job is over.
    pub(crate) fn leaves(&mut self, index: usize, lost: bool) {
        if !lost && !self.is_over() {
            self.service.take_posts(index, TIME_MAX);
        }
        let pe = self.service.channels.lanes.get(index).map(|lane| lane.pe);
        let doubted = self.service.channels.lanes.get(index).and_then(Lane::doubted);
        if let Some(run) = &mut self.service.time {
            if let Some(pe) = pe.filter(|_| !lost) {
                run.has_ended(pe);
            }
            run.doubted.extend(doubted);
            run.forget(index);
            run.left = Some(Instant::now());
            run.over |= lost;
        }
    }
}
