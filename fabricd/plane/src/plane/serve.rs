//! The loop of the data-plane thread, and how it rests.
//!
//! Each round takes a bounded number of posts from every channel and lets the network run for a
//! bounded turn, so no client can keep the others waiting. Without work the thread first spins or yields for a
//! moment, then sleeps: it raises `daemon_sleeps` in every job page, makes every client's earlier
//! posts visible with a heavy fence, looks once more, and waits for a doorbell or a command. A
//! client that posts afterwards sees the flag and rings. The time limit covers clients that could
//! not register for the fence.

use super::DataPlane;
use super::idle::Idle;
use crate::channels::lane::Lane;
use crate::command::{Answer, Command};
use crate::notice::Notice;
use crate::service::turn::Turn;
use crate::trunks::Trunks;
use crate::virtual_time::turns::Halt;
use angara_abi::wait::{Kernel, Linux};
use angara_net::fault::Fault;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

/// Commands of the control plane per round: whoever asks for figures without end must not keep PEs waiting.
const COMMANDS_PER_ROUND: usize = 4;
/// Events the network handles between two looks at what they did.
const EVENTS_PER_RUN: u64 = 256;
/// Turns of network and trunks per round.
const GATHERS_PER_ROUND: usize = 16;
/// How long the thread stays awake without work.
const AWAKE: Duration = Duration::from_micros(200);
/// Longest sleep while PEs are attached, with and without heavy fences.
const NAP: Duration = Duration::from_millis(20);
const NAP_UNFENCED: Duration = angara_abi::wait::SLEEP_MAX;
/// Longest sleep with nobody attached.
const SLEEP: Duration = Duration::from_secs(60);
/// Rounds between two looks at the clock while there is work.
const HOUSEKEEPING_ROUNDS: u64 = 256;
/// How old register pages may be while there is work.
const REGISTERS_AGE: Duration = Duration::from_millis(1);
/// Rounds the network gets to come to rest before routes change.
const SETTLE_ROUNDS: usize = 1024;
/// In virtual time: rounds after which commands are looked for although nobody has counted one: whoever could send some may
/// have gone.
const ROUNDS_UNTOLD: u32 = 1024;

impl DataPlane {
    /// Serves until told to stop or until nobody can tell any more.
    pub(crate) fn serve(mut self) {
        if self.virtual_time.is_some() {
            return self.serve_virtual();
        }
        let mut idle = Idle::new((self.clock)());
        while let Some(more) = self.run_commands(|answer| answer()) {
            if self.round() | more {
                idle.reset();
                self.rounds.busy += 1;
                if self.rounds.busy.is_multiple_of(HOUSEKEEPING_ROUNDS) {
                    self.housekeeping(&mut idle);
                }
            } else {
                self.rest(&mut idle);
            }
        }
        self.say_goodbye();
    }

    /// Serves until told to stop or until nobody can tell any more.
    fn serve_virtual(mut self) {
        // Commands that are done, and rounds since they were looked for.
        let (mut done, mut rounds) = (None, 0);
        loop {
            let heard = self.reports.gauges.commands.load(Ordering::SeqCst);
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
        let mut turns = self.turns();
        if turns.is_over() {
            return turns.let_end();
        }
        turns.look_for_absent();
        if !turns.begun() {
            turns.listen();
            return false;
        }
        if let Some(running) = turns.running() {
            return turns.let_run(running, heard);
        }
        let halt = turns.go_on(false);
        let goes_on = self.go_on_after(halt);
        if !goes_on {
            self.before_sleep();
            self.turns().listen();
        }
        goes_on
    }

    /// Has the network's time go on until a PE is due, and has that go on. Returns whether anything could.
    pub(crate) fn go_on(&mut self) -> bool {
        let halt = self.turns().go_on(false);
        self.go_on_after(halt)
    }

    #[inline]
    fn go_on_after(&mut self, halt: Halt) -> bool {
        match halt {
            Halt::Over(goes_on) => goes_on,
            halt => self.go_on_after_change(halt),
        }
    }

    #[cold]
    fn go_on_after_change(&mut self, mut halt: Halt) -> bool {
        loop {
            match halt {
                Halt::Over(goes_on) => return goes_on,
                Halt::Fault(fault) => self.fault_comes(fault),
                Halt::GivenUp(link, change) => self.outages().link_failed(link, change),
            }
            halt = self.turns().go_on(true);
        }
    }

    /// Does what a thread of its own would do until it sleeps, or for N rounds. Returns whether it would go on at once. `None`: it
    /// was told to end. Answers to commands are whoever calls to give.
    pub fn run_for(&mut self, rounds: usize, answers: &mut Vec<Answer>) -> Option<bool> {
        for _ in 0..rounds {
            let Some(more) = self.run_commands(|answer| answers.push(answer)) else {
                self.say_goodbye();
                return None;
            };
            if !(self.round() | more) {
                self.before_sleep();
                return Some(false);
            }
        }
        Some(true)
    }

    /// How long it would sleep if nobody woke it.
    pub fn sleeps_for(&self) -> Option<Duration> {
        self.next_due()
    }

    /// Ends the sessions with other hosts.
    fn say_goodbye(&mut self) {
        if let Some(run) = &mut self.virtual_time {
            run.end_record();
        }
        // What was said to them last, such as why their jobs end, goes before.
        self.carry();
        if let Some(trunks) = &mut self.trunks {
            trunks.close(&mut self.fabric);
        }
    }

    /// Takes posts from every channel and lets the network run for a turn. Returns whether there was anything to do.
    pub(crate) fn round(&mut self) -> bool {
        let mut work = self.faults_due();
        let mut service = self.service();
        for i in 0..service.channels.lanes.active().len() {
            work |= service.poll_lane(service.channels.lanes.active()[i]);
        }
        work |= self.carry();
        // After what PEs have posted: a look at the socket takes longer than all of the above.
        if self.poll_trunks() {
            work = true;
            self.carry();
        }
        self.departures.look(&self.seats.jobs, &self.fabric);
        work
    }

    /// Lets the network run and sends what leaves this host. Returns whether there was anything.
    fn carry(&mut self) -> bool {
        let mut turn = self.turn();
        let mut work = self.run_network(&mut turn);
        // What has left over a trunk makes room for more in the same datagrams.
        for _ in 0..GATHERS_PER_ROUND {
            if !self.trunks.as_mut().is_some_and(|trunks| trunks.gather(&mut self.fabric)) {
                break;
            }
            work = true;
            self.run_network(&mut turn);
        }
        if let Some(trunks) = &mut self.trunks {
            trunks.send();
        }
        work
    }

    /// Takes what the trunks brought. Returns whether there was anything.
    fn poll_trunks(&mut self) -> bool {
        let Some(trunks) = &mut self.trunks else { return false };
        let work = trunks.poll(&mut self.fabric);
        trunks.take_events().for_each(|event| self.reports.say(Notice::Trunk(event)));
        work
    }

    /// Does some of what it is asked for. Returns whether there may be more, and nothing when it should end.
    fn run_commands(&mut self, mut answer: impl FnMut(Answer)) -> Option<bool> {
        for _ in 0..COMMANDS_PER_ROUND {
            match self.commands.try_recv() {
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return None,
                Ok(command) => self.execute(command).into_iter().for_each(&mut answer),
                Err(TryRecvError::Empty) => return Some(false),
            }
        }
        Some(true)
    }

    /// What the network may do before channels are looked at again.
    pub(super) fn turn(&self) -> Turn {
        Turn::new(self.channels.lanes.active().len(), self.trunks.is_some())
    }

    /// Lets the network run for a turn and applies what it does. Returns whether it did anything.
    pub(super) fn run_network(&mut self, turn: &mut Turn) -> bool {
        let mut work = self.apply_some(turn);
        let until = self.pace.until(&self.fabric, self.clock);
        while !turn.is_over() {
            let (before, events) = (self.fabric.events_handled(), turn.events.min(EVENTS_PER_RUN));
            let quiet = match until {
                None => self.fabric.run_some(events),
                Some(until) => self.fabric.run_some_until(until, events),
            };
            turn.events = turn.events.saturating_sub(self.fabric.events_handled() - before);
            if !self.apply_some(turn) && quiet {
                break;
            }
            work = true;
        }
        self.captures.tell(&self.seats.jobs, &mut self.fabric);
        if work {
            self.registers.are_stale();
        }
        work
    }

    fn apply_some(&mut self, turn: &mut Turn) -> bool {
        let mut any = false;
        while let Some((link, change)) = self.service().apply_some(turn, &mut any) {
            self.outages().link_failed(link, change);
        }
        any
    }

    /// Puts faults in force whose time has come. Returns whether there were any.
    fn faults_due(&mut self) -> bool {
        let due = self.faults.take_due(self.clock);
        for fault in &due {
            if self.trunks.is_some() {
                // All hosts must agree on it.
                self.reports.say(Notice::Due(fault.now()));
            } else {
                self.fault_comes(*fault);
            }
        }
        !due.is_empty()
    }

    fn fault_comes(&mut self, fault: Fault) {
        if let Err(why) = self.apply_fault(fault) {
            tracing::warn!(fault = fault.show(&self.shape), why, "fault refused");
        }
    }

    /// Puts a fault in force, now or when its time comes.
    pub(super) fn set_fault(&mut self, fault: Fault) -> Result<(), String> {
        match (fault.at, &mut self.virtual_time) {
            (None, _) => return self.apply_fault(fault),
            (Some(at), Some(run)) => run.plan(at, fault),
            (Some(_), None) => {
                tracing::info!(fault = fault.show(&self.shape), "fault set for later");
                self.faults.plan(fault, self.clock);
            }
        }
        Ok(())
    }

    fn apply_fault(&mut self, fault: Fault) -> Result<(), String> {
        // A tree moves to other links only between two packets. In virtual time the fault comes when it comes.
        for _ in 0..SETTLE_ROUNDS {
            if self.virtual_time.is_some() || !self.run_network(&mut self.turn()) {
                break;
            }
        }
        self.outages().put_in_force(fault)
    }

    fn housekeeping(&mut self, idle: &mut Idle) {
        let now = (self.clock)();
        if now.duration_since(idle.kept) >= REGISTERS_AGE {
            idle.kept = now;
            self.registers.refresh(&self.fabric);
            self.show_cpu_time();
            self.show_core();
        }
    }

    /// Tells clients on which core this thread is, which they leave to it.
    fn show_core(&self) {
        let core = rustix::thread::sched_getcpu() as u32 + 1;
        for job in self.seats.jobs.values() {
            let shown = job.memory.page.daemon_core();
            if shown.load(Ordering::Relaxed) != core {
                shown.store(core, Ordering::Relaxed);
            }
        }
    }

    fn show_cpu_time(&self) {
        let t = clock_gettime(ClockId::ThreadCPUTime);
        self.reports.gauges.cpu_ns.store(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64, Ordering::Relaxed);
    }

    fn rest(&mut self, idle: &mut Idle) {
        self.rounds.idle += 1;
        if !idle.slept && (!self.channels.lanes.active().is_empty() || self.trunks.is_some()) {
            // A look at the socket costs more than a yield that finds nobody else.
            if self.trunks.is_none() && idle.may_spin(self.channels.lanes.active().len() >= idle.cores) {
                std::hint::spin_loop();
                return;
            }
            self.show_core();
            let now = (self.clock)();
            if now.duration_since(*idle.since.get_or_insert(now)) < AWAKE {
                rustix::thread::sched_yield();
                idle.yielded((self.clock)().saturating_duration_since(now));
                return;
            }
        }
        self.show_cpu_time();
        self.before_sleep();
        self.rounds.sleeps += 1;
        self.sleep(idle);
        idle.slept = true;
    }

    /// What others wait for is done before a pause.
    fn before_sleep(&mut self) {
        self.registers.refresh(&self.fabric);
        if let Some(trunks) = &mut self.trunks {
            trunks.flush_acks(&mut self.fabric);
        }
    }

    /// How long until something is due without anybody's call.
    fn next_due(&self) -> Option<Duration> {
        let fault = self.faults.next_due().map(|due| due.saturating_duration_since((self.clock)()));
        let heartbeat = self.trunks.as_ref().and_then(Trunks::next_due);
        [fault, heartbeat, self.pace.pause(&self.fabric, self.clock)].into_iter().flatten().min()
    }

    fn sleep(&mut self, idle: &Idle) {
        self.announce(1);
        Linux.heavy_fence();
        if !self.channels.lanes.served().any(Lane::has_work) {
            let nap = match (self.channels.lanes.active().is_empty(), idle.fenced) {
                (true, _) => SLEEP,
                (false, true) => NAP,
                (false, false) => NAP_UNFENCED,
            };
            let mut limit = self.next_due().map_or(nap, |due| due.min(nap));
            if let Some(trunks) = &mut self.trunks {
                trunks.wait(self.bells.as_fd(), limit);
                limit = Duration::ZERO;
            }
            self.bells.wait(limit);
        }
        self.announce(0);
    }

    /// Tells clients whether their posts need a doorbell.
    fn announce(&self, asleep: u32) {
        for job in self.seats.jobs.values() {
            job.memory.page.daemon_sleeps().store(asleep, Ordering::SeqCst);
        }
    }
}
