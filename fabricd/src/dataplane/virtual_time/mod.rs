//! The data plane in virtual time: PEs are coroutines of one run of events.
//!
//! A PE runs alone, until it must wait or has run ahead by less than anything another PE does takes to reach it. While it
//! runs, nothing that it can see changes. Then its posts are taken, with the times at which it made them, and the network
//! goes on to the next PE that is due; what it does on the way is done to memory. So the network never passes the clock of
//! a PE that runs, and what happens depends on nothing but the program: not on cores, load or addresses.
//!
//! Everything is best on one core: a hand-over there is a switch between two threads, and across cores it is an interrupt
//! and a core that wakes up.

pub(super) mod standing;

use self::standing::{Touch, VirtualRun};
use super::Command;
use super::engine::Engine;
use super::job::EngineJob;
use super::post::Violation;
use crate::faults::fault::FaultSpec;
use angara_abi::channel::Fault;
use angara_abi::clock::{ClockPage, TIME_MAX, Verdict, WaitsFor};
use angara_abi::wait::{Kernel, Linux};
use angara_fabric::{Port, Tick};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// How often the control plane is listened to while a PE runs.
const LISTEN: Duration = Duration::from_millis(1);

impl Engine {
    /// Something happened at a port, now: whoever waits there for it is due.
    pub(super) fn touched(&mut self, at: Port, what: Touch) {
        if self.virtual_time.is_none() {
            return;
        }
        let now = self.fabric.now();
        let Some(index) = self.lane_at(at) else { return };
        let (Some(run), Some(lane)) = (&mut self.virtual_time, &self.lanes[index]) else { return };
        if let Some((since, waits_for)) = run.standing.get(&index)
            && what.concerns(*waits_for)
        {
            run.due.insert((now.max(*since), lane.pe, index));
        }
    }

    /// A PE goes; what it has posted is taken first, unless it was lost.
    pub(super) fn left_virtual_time(&mut self, index: usize, lost: bool) {
        if !lost {
            self.take_posts(index, TIME_MAX);
        }
        if let Some(run) = &mut self.virtual_time {
            run.forget(index);
        }
    }

    /// Serves until told to stop or until nobody can tell any more.
    pub(super) fn serve_virtual(mut self, commands: &Receiver<Command>) {
        while self.run_commands(commands, |reply| reply()).is_some() {
            if let Some(running) = self.running() {
                self.listen(Some(running));
                continue;
            }
            let ready = !self.active.is_empty() && self.begun();
            if !ready || !self.go_on() {
                self.before_sleep();
                self.listen(None);
            }
        }
        self.say_goodbye();
    }

    /// Sleeps until the PE of a lane stands, or a moment.
    fn listen(&self, running: Option<usize>) {
        match running.and_then(|index| self.lanes[index].as_ref()?.memory.clock.as_ref()) {
            Some(clock) => {
                let seen = clock.stops().load(Ordering::SeqCst);
                if clock.stands().is_none() {
                    Linux.futex_wait(clock.stops(), seen, LISTEN);
                }
            }
            None => std::thread::sleep(LISTEN),
        }
    }

    /// All PEs have come; time begins when they stand for the first time.
    pub(super) fn begun(&mut self) -> bool {
        let complete = self.jobs.values().all(EngineJob::complete);
        let Some(run) = &mut self.virtual_time else { return false };
        run.begun |= complete;
        run.begun
    }

    /// A lane whose PE runs. What those who stand have posted is taken.
    pub(super) fn running(&mut self) -> Option<usize> {
        for i in 0..self.active.len() {
            let index = self.active[i];
            let Some(lane) = self.lanes[index].as_ref() else { continue };
            if lane.broken || self.virtual_time.as_ref().is_some_and(|run| run.standing.contains_key(&index)) {
                continue;
            }
            let Some((said, waits_for)) = lane.memory.clock.as_ref().and_then(ClockPage::stands) else {
                return Some(index);
            };
            self.stands(index, said, waits_for);
        }
        None
    }

    /// A PE stands now, as it says.
    fn stands(&mut self, index: usize, said: Tick, waits_for: Option<WaitsFor>) {
        let Some(lane) = self.lanes[index].as_ref() else { return };
        let (pe, began) = (lane.pe, lane.ran.0);
        let (Some(waits_for), true) = (waits_for, (began..=TIME_MAX).contains(&said)) else {
            let why = format!("its clock page says {said} ps, waiting for {waits_for:?}, after {began} ps");
            return self.break_lane(index, Fault::BadRange, 0, &why);
        };
        let (posts, commands) = self.take_posts(index, said);
        let Some(run) = &mut self.virtual_time else { return };
        run.standing.insert(index, (said, waits_for));
        // A queue that was full has room now, and a command is done.
        let room = posts && waits_for == WaitsFor::Adapter;
        if room || commands || waits_for == WaitsFor::Time {
            run.due.insert((said, pe, index));
        }
    }

    /// Takes what a PE has posted until `now`, and does what it has commanded; whether there was any of each.
    fn take_posts(&mut self, index: usize, now: Tick) -> (bool, bool) {
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
        (taken > 0, self.poll_mailbox(index))
    }

    /// Lets the network's time go on until a PE is due, and has it go on; whether anything could.
    pub(super) fn go_on(&mut self) -> bool {
        loop {
            let run = self.virtual_time.as_ref();
            let due = run.and_then(|run| run.due.first().map(|d| d.0));
            let (event, fault) = (self.fabric.poll_timeout(), run.and_then(VirtualRun::next_fault));
            // A fault is no reason to go on: after the end of everything nobody sees it.
            let fault = fault.filter(|fault| event.or(due).is_some_and(|next| *fault <= next));
            let Some(next) = fault.or(event).filter(|next| due.is_none_or(|due| *next <= due)) else { break };
            self.fabric.advance(next);
            if fault.is_some() {
                self.fault_comes();
            }
            self.stale = true;
            while let Some(effect) = self.fabric.poll_effect() {
                self.apply(effect);
            }
            while let Some(completion) = self.fabric.poll_completion() {
                self.finish(completion);
            }
        }
        let Some(run) = &mut self.virtual_time else { return false };
        let Some((at, _, index)) = run.due.pop_first() else { return self.nothing_can_happen() };
        run.forget(index);
        run.stuck = false;
        self.let_go(index, at, Verdict::Go);
        true
    }

    /// Plans a fault for a time of the job, counted from the beginning of its programs.
    pub(super) fn plan_fault(&mut self, after: Duration, fault: FaultSpec) {
        let at = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000).min(TIME_MAX);
        if let Some(run) = &mut self.virtual_time {
            run.plan(at, FaultSpec { after: None, ..fault });
        }
    }

    /// The next fault comes, now.
    fn fault_comes(&mut self) {
        let Some(fault) = self.virtual_time.as_mut().and_then(VirtualRun::take_fault) else { return };
        if let Err(why) = self.apply_fault(fault.clone()) {
            tracing::warn!(%fault, why, "fault refused");
        }
    }

    fn let_go(&mut self, index: usize, at: Tick, verdict: Verdict) {
        let Some(lane) = self.lanes[index].as_mut() else { return };
        lane.ran = (at, at);
        if let Some(clock) = &lane.memory.clock {
            clock.go(at, verdict);
            Linux.futex_wake(clock.goes());
        }
    }

    /// Everybody stands and nothing is on its way: every PE is told, once. One whose channel is in error knows more.
    fn nothing_can_happen(&mut self) -> bool {
        let Some(run) = &mut self.virtual_time else { return false };
        if std::mem::replace(&mut run.stuck, true) {
            return false;
        }
        let broken = |index: &usize| self.lanes[*index].as_ref().is_none_or(|lane| lane.broken);
        let told: Vec<(usize, Tick)> = run
            .standing
            .iter()
            .filter(|(index, _)| !broken(index))
            .map(|(index, (since, _))| (*index, *since))
            .collect();
        told.iter().for_each(|(index, _)| run.forget(*index));
        for (index, since) in &told {
            self.let_go(*index, *since, Verdict::Deadlock);
        }
        !told.is_empty()
    }
}
