//! The data plane in virtual time: PEs are coroutines of one run of events.
//!
//! A PE runs alone, until it must wait or has run ahead by less than anything another PE does takes to reach it. While it
//! runs, nothing that it can see changes. Then its posts are taken, with the times at which it made them, and the network
//! goes on to the next PE that is due; what it does on the way is done to memory. So the network never passes the clock of
//! a PE that runs, and what happens depends on nothing but the program: not on cores, load or addresses.
//!
//! A PE is a process, which sleeps while it stands, or a coroutine of this very thread ([`coroutines`]).
//!
//! Everything is best on one core: a hand-over there is a switch between two threads, and across cores it is an interrupt
//! and a core that wakes up.

pub(crate) mod coroutines;
pub(crate) mod gates;
mod links;
mod log;
mod patience;
pub(crate) mod record;
mod report;
mod spent;
pub(crate) mod standing;

use self::coroutines::Resumed;
use self::gates::Gate;
pub use self::patience::Turn;
use self::standing::{By, Ended, Notes, Touch, VirtualRun};
use crate::channels::post::Violation;
use crate::jobs::job::OpenJob;
use crate::notice::Notice;
use crate::plane::DataPlane;
use angara_abi::channel::Fault;
use angara_abi::clock::{ClockPage, TIME_MAX, Verdict, WaitsFor};
use angara_abi::wait::{Kernel, Linux};
use angara_fabric::{Cause, Port, Tick};
use angara_protocol::msg::Why;
use rustix::event::{Timespec, epoll};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest sleep while only a command can change anything.
const SLEEP: Duration = Duration::from_secs(60);
/// The same while PEs are absent or outside virtual time.
const ABSENT_LOOK: Duration = Duration::from_millis(1);

/// Longest turn of a PE beside which nothing can happen, in picoseconds: it takes some milliseconds on the wall where the PE looks
/// at a clock all the time, and patience measures turns.
const TURN_MOST: u64 = 2_000_000_000;

/// Rounds after which commands are looked for although nobody has counted one: whoever could send some may have gone.
const ROUNDS_UNTOLD: u32 = 1024;

/// Sum of counters that others raise.
fn sum_of<'a>(words: impl Iterator<Item = &'a AtomicU32>) -> u32 {
    words.fold(0, |sum, word| sum.wrapping_add(word.load(Ordering::SeqCst)))
}

impl DataPlane {
    /// Something happened at a port, now, by somebody's doing: whoever waits there for it is due. Bytes are written already.
    pub(crate) fn touched(&mut self, at: Port, what: Touch, by: By) {
        if self.virtual_time.is_none() {
            return;
        }
        let now = self.fabric.now();
        let Some(index) = self.lane_at(at) else { return };
        let (Some(run), Some(lane)) = (&mut self.virtual_time, &self.lanes[index]) else { return };
        let pe_at = |port: Port| self.ports.get(port).map(|owner| owner.pe as usize);
        let event = run.record.as_ref().and_then(|record| record.event);
        let own = |port: Option<Port>| {
            let whom = port.and_then(pe_at).unwrap_or(lane.pe);
            Ended { why: Why::Answer, whom, posted: now, event }
        };
        let last = |why, last: Option<(usize, Tick)>| {
            last.map_or(own(None), |(whom, posted)| Ended { why, whom, posted, event })
        };
        let by = match (by, &mut run.notes) {
            (_, None) => own(None),
            (By::Own(port), _) => own(port),
            (By::Other(Some(Cause { from, posted })), _) if from != at => {
                Ended { why: Why::Data, whom: pe_at(from).unwrap_or(lane.pe), posted, event }
            }
            (By::Other(_), _) => own(None),
            (By::Barrier, Some(notes)) => last(Why::Barrier, notes.gates.leave(Gate::Barrier, lane.pe)),
            (By::Tree(gate, count), Some(notes)) => {
                last(Why::Tree, count.checked_sub(1).and_then(|n| notes.gates.last(gate, n)))
            }
        };
        let word = |place, width: u8| {
            let (map, offset) = lane.job.resolve(lane.pe, place, width.into(), Some(&lane.memory.bounce))?;
            let mut bytes = [0; 8];
            map.read(offset, bytes.get_mut(..width.into())?).ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        run.touched((index, &lane.memory.channel), now, what, word, by);
    }

    fn notes(&mut self) -> Option<&mut Notes> {
        self.virtual_time.as_mut()?.notes.as_mut()
    }

    /// A tree has gone.
    pub(crate) fn forget_tree(&mut self, tree: u8) {
        if let Some(notes) = self.notes() {
            notes.gates.forget(tree);
        }
    }

    /// A PE enters what several take part in.
    pub(crate) fn enters(&mut self, gate: Gate, pe: usize, at: Tick) {
        if let Some(notes) = self.notes() {
            notes.gates.enter(gate, pe, at);
        }
    }

    /// A PE goes; what it has posted is taken first, unless it was lost: then its job is over.
    pub(crate) fn left_virtual_time(&mut self, index: usize, lost: bool) {
        if !lost && !self.is_over() {
            self.take_posts(index, TIME_MAX);
        }
        let pe = self.lanes[index].as_ref().map(|lane| lane.pe);
        let doubted = self.doubted(index);
        if let Some(run) = &mut self.virtual_time {
            if let Some(pe) = pe.filter(|_| !lost) {
                run.has_ended(pe);
            }
            run.doubted.extend(doubted);
            run.forget(index);
            run.left = Some(Instant::now());
            run.over |= lost;
        }
    }

    /// The job has ended, at the time of the PE whose turn it is: nothing of the others happens after that.
    pub(crate) fn end_virtual_time(&mut self) {
        if let Some(run) = &mut self.virtual_time {
            run.over = true;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.virtual_time.as_ref().is_some_and(|run| run.over)
    }

    /// Serves until told to stop or until nobody can tell any more.
    pub(crate) fn serve_virtual(mut self) {
        // Commands that are done, and rounds since they were looked for.
        let (mut done, mut rounds) = (None, 0);
        loop {
            let heard = self.gauges.commands.load(Ordering::SeqCst);
            rounds += 1;
            if done != Some(heard) || rounds >= ROUNDS_UNTOLD {
                let Some(more) = self.run_commands(|answer| answer()) else { break };
                if more {
                    continue;
                }
                (done, rounds) = (Some(heard), 0);
            }
            if !self.serve_turn(heard) {
                done = None;
            }
        }
        self.say_goodbye();
    }

    /// Lets whoever is next have its turn. False if it has slept: then there may be commands.
    fn serve_turn(&mut self, heard: u32) -> bool {
        if self.is_over() {
            return self.let_end();
        }
        self.look_for_absent();
        if !self.begun() {
            self.listen();
            return false;
        }
        if let Some(running) = self.running() {
            return self.let_run(running, heard);
        }
        let goes_on = self.go_on();
        if !goes_on {
            self.before_sleep();
            self.listen();
        }
        goes_on
    }

    /// Sleeps until the PE of a lane stands, or there are other commands than `heard`: they must not wait for a PE that
    /// computes. No time limit: it would program a timer at every stop, which costs more than all the rest. False if it has
    /// slept for commands.
    fn let_run(&mut self, index: usize, heard: u32) -> bool {
        let Some(memory) = self.lanes[index].as_ref().map(|lane| &lane.memory) else { return true };
        if let Some(coroutines) = &mut self.coroutines {
            let stands = coroutines.resume(memory.pe) == Resumed::Stands;
            if !stands {
                self.listen();
            }
            return stands;
        }
        let Some(clock) = &memory.clock else { return true };
        let seen = clock.bell().load(Ordering::SeqCst);
        // Whoever sends a command counts it first, and then rings this bell.
        self.gauges.sleeps_for(memory);
        if clock.stands().is_some() || self.gauges.commands.load(Ordering::SeqCst) != heard {
            return true;
        }
        match self.is_in_doubt() {
            // Who is absent may stand or post any time.
            true => Linux.futex_wait(clock.bell(), seen, ABSENT_LOOK),
            false => Linux.futex_wait_unlimited(clock.bell(), seen),
        }
        true
    }

    /// The job is over. A PE that is a coroutine still has its handlers to run, and goodbye to say: as a process it would do so
    /// by itself. False if it has slept.
    fn let_end(&mut self) -> bool {
        let running = self.virtual_time.as_ref().and_then(|run| run.running.last().copied());
        let pe = running.and_then(|index| Some(self.lanes[index].as_ref()?.pe));
        let resumed = self.coroutines.as_mut().zip(pe).map(|(coroutines, pe)| coroutines.resume(pe));
        let stands = resumed == Some(Resumed::Stands);
        if !stands {
            self.listen();
        }
        stands
    }

    /// Sleeps until there is a command: nothing else can change anything.
    fn listen(&self) {
        let mut events = [std::mem::MaybeUninit::uninit(); 64];
        let in_doubt = self.virtual_time.as_ref().is_some_and(|run| run.in_doubt.is_some() && !run.stuck);
        let is_outside = self.virtual_time.as_ref().is_some_and(|run| run.outside().next().is_some());
        let limit = if in_doubt || is_outside || self.is_anyone_absent() { ABSENT_LOOK } else { SLEEP };
        let limit = Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
        // Every outcome means: look again.
        let _ = epoll::wait(&self.epoll, &mut events[..], Some(&limit));
    }

    /// All PEs have come; time begins when they stand for the first time.
    pub(crate) fn begun(&mut self) -> bool {
        let Some(run) = &mut self.virtual_time else { return false };
        if run.begun.is_none() && !self.active.is_empty() && self.jobs.values().all(OpenJob::complete) {
            run.begun = Some(Instant::now());
        }
        run.begun.is_some()
    }

    /// A lane whose PE runs. What those who stand have posted is taken.
    pub(crate) fn running(&mut self) -> Option<usize> {
        while let Some(&index) = self.virtual_time.as_ref()?.running.last() {
            let lane = self.lanes[index].as_ref().filter(|lane| !lane.broken);
            let stands = match lane.map(|lane| lane.memory.clock.as_ref().and_then(ClockPage::stands)) {
                Some(None) => return Some(index),
                Some(stands) => stands,
                None => None,
            };
            self.virtual_time.as_mut()?.running.pop();
            if let Some((said, waits_for)) = stands {
                self.stands(index, said, waits_for);
            }
        }
        None
    }

    /// A PE stands now, as it says.
    fn stands(&mut self, index: usize, said: Tick, waits_for: Option<WaitsFor>) {
        let Some(lane) = self.lanes[index].as_ref() else { return };
        let (pe, port, began) = (lane.pe, lane.port, lane.ran.0);
        let clock = lane.memory.clock.as_ref();
        let (spending, deadline) = clock.map_or(((0, 0), TIME_MAX), |clock| (clock.spending(), clock.deadline()));
        let has_ended = clock.is_some_and(ClockPage::has_ended);
        let (Some(waits_for), true) = (waits_for, (began..=TIME_MAX).contains(&said)) else {
            let why = format!("its clock page says {said} ps, waiting for {waits_for:?}, after {began} ps");
            return self.break_lane(index, Fault::BadRange, 0, &why);
        };
        if let Some(run) = &mut self.virtual_time {
            if has_ended {
                run.has_ended(pe);
            }
            run.nothing_happens();
            let ran = (said - began, spending);
            run.stands((index, pe), (said, deadline), waits_for, (!has_ended).then_some(ran));
        }
        if self.take_posts(index, said) {
            // A queue that was full has room now, a command is done, and what needs no network is complete.
            self.touched(port, Touch::Post(None), By::Own(None));
        }
    }

    /// Takes the posts of a lane for which the network had no room, as it may have some now. Their PE need not stand for
    /// room: what it waits for may be behind them.
    pub(crate) fn take_waiting(&mut self, index: usize) {
        let Some(lane) = self.lanes[index].as_ref().filter(|lane| lane.pending.is_some()) else { return };
        let (port, until) = (lane.port, lane.ran.1);
        if self.virtual_time.is_some() && self.take_posts(index, until) {
            self.touched(port, Touch::Post(None), By::Own(None));
        }
    }

    /// Takes what a PE has posted until `now`, and does what it has commanded; whether there was any of it.
    fn take_posts(&mut self, index: usize, now: Tick) -> bool {
        if let Some(lane) = self.lanes[index].as_mut() {
            lane.ran.1 = now;
        }
        let mut taken = 0;
        loop {
            match self.take_post(index) {
                Ok(true) => taken += 1,
                Ok(false) => break,
                Err(Violation { fault, seq, why }) => {
                    self.break_lane(index, fault, seq, &why);
                    break;
                }
            }
        }
        if let (Some(run), Some(lane)) = (&mut self.virtual_time, &self.lanes[index]) {
            run.spent_of(lane.pe).times.posts += taken;
        }
        self.poll_mailbox(index) || taken > 0
    }

    /// Lets the network's time go on until a PE is due, and has it go on; whether anything could.
    pub(crate) fn go_on(&mut self) -> bool {
        loop {
            self.look_at_deadlines();
            if !(self.run_to_news() || self.run_to_fault()) {
                break;
            }
            self.stale = true;
            while let Some(effect) = self.fabric.poll_effect() {
                self.apply(effect);
            }
            while let Some(completion) = self.fabric.poll_completion() {
                self.finish(completion);
            }
            self.tell_listeners();
        }
        let Some(run) = &mut self.virtual_time else { return false };
        let Some((at, index)) = run.take_due() else {
            self.look_at_those_outside();
            let some_are_due = self.virtual_time.as_ref().is_some_and(|run| run.next_due().is_some());
            return some_are_due || self.nothing_can_happen();
        };
        (run.stuck, run.in_doubt) = (false, None);
        self.let_go(index, at, Verdict::Go);
        true
    }

    /// Has the network go on until it says something, a PE is due, or a thread of one has changed its deadline; whether it
    /// could. No further than before the next fault and the next look at links.
    fn run_to_news(&mut self) -> bool {
        let Some(run) = &self.virtual_time else { return false };
        let mut until = run.next_due().unwrap_or(Tick::MAX);
        if let Some(fault) = run.next_fault() {
            let Some(before) = fault.checked_sub(1) else { return false };
            until = until.min(before);
        }
        if run.notes.is_some() {
            let Some(next) = self.fabric.poll_timeout().filter(|next| *next <= until) else { return false };
            until = next;
            self.look_at_links(next);
        }
        let Some(run) = &self.virtual_time else { return false };
        let words = || self.jobs.values().map(|job| job.memory.sync.deadlines());
        let (first, others, known) = (words().next(), self.jobs.len() > 1, run.deadlines);
        self.fabric.advance_to_news(until, || match first {
            Some(word) if !others => word.load(Ordering::SeqCst) == known,
            _ => sum_of(words()) == known,
        })
    }

    /// Has the network go on to the next fault, which comes then; whether there is one in time.
    fn run_to_fault(&mut self) -> bool {
        let Some(run) = &self.virtual_time else { return false };
        let Some(fault) = run.next_fault() else { return false };
        let due = run.next_due();
        // A fault is no reason to go on: after the end of everything nobody sees it.
        let next = self.fabric.poll_timeout().or(due);
        if next.is_none_or(|next| next < fault) || due.is_some_and(|due| due < fault) {
            return false;
        }
        self.look_at_links(fault);
        self.fabric.advance(fault);
        self.fault_comes();
        true
    }

    /// PEs that are outside virtual time come back together, so that nobody's turn depends on how fast it was there.
    fn look_at_those_outside(&mut self) {
        let Some(run) = self.virtual_time.as_mut() else { return };
        let outside: Vec<usize> = run.outside().collect();
        let is_back = |index: &usize| {
            let clock = self.lanes[*index].as_ref().and_then(|lane| lane.memory.clock.as_ref());
            clock.is_none_or(|clock| clock.deadline() < TIME_MAX)
        };
        // Who runs or stands may be about to go outside, too.
        if !outside.is_empty() && outside.len() == run.waiting().len() && outside.iter().all(is_back) {
            run.come_back(&outside, self.fabric.now().max(run.present));
        }
    }

    /// How often PEs that stand have changed their deadlines.
    fn changes_of_deadlines(&self) -> u32 {
        sum_of(self.jobs.values().map(|job| job.memory.sync.deadlines()))
    }

    /// Threads of PEs that stand may have become due at an earlier time.
    fn look_at_deadlines(&mut self) {
        let changes = self.changes_of_deadlines();
        let Some(run) = self.virtual_time.as_mut().filter(|run| run.deadlines != changes) else { return };
        run.deadlines = changes;
        let now = self.fabric.now().max(run.present);
        for (index, _) in run.waiting() {
            if let Some(clock) = self.lanes[index].as_ref().and_then(|lane| lane.memory.clock.as_ref()) {
                run.is_due_at(index, clock.deadline(), now);
            }
        }
    }

    /// Plans a fault for a time of the job in picoseconds, counted from the beginning of its programs.
    pub(crate) fn plan_fault(&mut self, at: Tick, fault: angara_net::fault::Fault) {
        if let Some(run) = &mut self.virtual_time {
            run.plan(at.min(TIME_MAX), fault.now());
        }
    }

    /// The next fault comes, now.
    fn fault_comes(&mut self) {
        let Some(fault) = self.virtual_time.as_mut().and_then(VirtualRun::take_fault) else { return };
        if let Err(why) = self.apply_fault(fault) {
            tracing::warn!(fault = fault.show(&self.shape), why, "fault refused");
        }
    }

    fn let_go(&mut self, index: usize, at: Tick, verdict: Verdict) {
        let next = self.fabric.poll_timeout().unwrap_or(TIME_MAX);
        let is_one_job = self.jobs.len() == 1;
        let (Some(run), Some(lane)) = (&mut self.virtual_time, self.lanes[index].as_mut()) else { return };
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
        let Some(run) = &mut self.virtual_time else { return false };
        if run.patience.is_anyone_absent() || run.stuck || run.outside().next().is_some() {
            return false;
        }
        let mut told = run.waiting();
        told.retain(|(index, _)| self.lanes[*index].as_ref().is_some_and(|lane| !lane.broken));
        let pids = told.iter().filter_map(|(index, _)| Some(self.lanes[*index].as_ref()?.pid));
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
            let clock = self.lanes[index].as_ref().and_then(|lane| lane.memory.clock.as_ref());
            clock.is_some_and(ClockPage::is_unsure)
        };
        if let Some((index, since)) = told.iter().copied().find(|(index, _)| is_unsure(*index)) {
            if let Some(run) = &mut self.virtual_time {
                run.forget(index);
            }
            self.let_go(index, since, Verdict::Doubt);
            return true;
        }
        let Some(run) = &mut self.virtual_time else { return false };
        run.stuck = true;
        let left = self.jobs.values().find(|job| job.lanes.iter().any(Option::is_none));
        if let Some(job) = left.filter(|_| !told.is_empty()).map(|job| job.memory.id) {
            // They wait for one that has left, which is why the job ends.
            self.end_virtual_time();
            self.notice(Notice::InVain { job });
            return false;
        }
        for (index, since) in &told {
            if let Some(run) = &mut self.virtual_time {
                run.forget(*index);
            }
            self.let_go(*index, *since, Verdict::Deadlock);
        }
        if let Some(run) = self.virtual_time.as_mut().filter(|_| self.coroutines.is_some()) {
            // The first is to say it; of processes it is the first that is woken.
            run.running.reverse();
        }
        !told.is_empty()
    }
}
