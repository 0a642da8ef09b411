//! The loop of the data-plane thread, and how it rests.
//!
//! Each round takes a bounded number of posts from every channel and lets the network run for a
//! bounded turn, so no client can keep the others waiting. Without work the thread first spins or yields for a
//! moment, then sleeps: it raises `daemon_sleeps` in every job page, makes every client's earlier
//! posts visible with a heavy fence, looks once more, and waits for a doorbell or a command. A
//! client that posts afterwards sees the flag and rings. The time limit covers clients that could
//! not register for the fence.

use crate::channels::lane::Lane;
use crate::channels::outstanding::Operation;
use crate::channels::post::{Context, Posted, Violation};
use crate::command::{Answer, Command};
use crate::plane::DataPlane;
use crate::trunks::Trunks;
use crate::virtual_time::standing::{By, Touch};
use angara_abi::channel::Fault;
use angara_abi::wait::{Kernel, Linux};
use angara_fabric::{InjectError, Port, Tick};
use rustix::event::{Timespec, epoll};
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

/// Commands of the control plane per round: whoever asks for figures without end must not keep PEs waiting.
const COMMANDS_PER_ROUND: usize = 4;
/// Posts taken from one channel per round.
const POSTS_PER_ROUND: usize = 64;
/// Bytes copied out of and into memory per round, for every so many channels; a larger transfer goes on in the next one.
pub(crate) const BYTES_PER_ROUND: usize = 32 << 10;
const CHANNELS_PER_SHARE: usize = 8;
/// So many times as much where a round looks at a socket, too, and makes datagrams.
const TRUNK_SHARES: usize = 4;
/// Events the network handles per round, and between two looks at what they did.
const EVENTS_PER_ROUND: u64 = 1024;
const EVENTS_PER_RUN: u64 = 256;
/// Turns of network and trunks per round.
const GATHERS_PER_ROUND: usize = 16;
/// Pauses before the first yield when there is a core to spare.
const SPINS: u32 = 200;
/// Pauses between yields where the last one found nobody else on the core: they take about as long as it did.
const SPINS_ALONE: u32 = 8;
/// A yield that took longer has let somebody else work.
const QUICK_YIELD: Duration = Duration::from_micros(2);
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

/// What the network may still do in a round. Nobody's post waits for longer than this takes, whatever others transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Bytes to copy out of and into memory; the copy that exceeds them is the last.
    bytes: usize,
    events: u64,
}

impl Turn {
    fn is_over(&self) -> bool {
        self.bytes == 0 || self.events == 0
    }
}

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

    /// Does what a thread of its own would do until it sleeps, or for so many rounds; whether it would go on at once. `None`: it
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
    pub(crate) fn say_goodbye(&mut self) {
        self.record_ends();
        // What was said to them last, such as why their jobs end, goes before.
        self.carry();
        if let Some(trunks) = &mut self.trunks {
            trunks.close(&mut self.fabric);
        }
    }

    /// Takes posts from every channel and lets the network run for a turn; whether there was anything to do.
    pub(crate) fn round(&mut self) -> bool {
        let mut work = self.faults_due();
        for i in 0..self.active.len() {
            work |= self.poll_lane(self.active[i]);
        }
        work |= self.carry();
        // After what PEs have posted: a look at the socket takes longer than all of the above.
        if self.poll_trunks() {
            work = true;
            self.carry();
        }
        self.look_at_leaving();
        work
    }

    /// Lets the network run and sends what leaves this host; whether there was anything.
    fn carry(&mut self) -> bool {
        let mut turn = self.turn();
        let mut work = self.run_network(&mut turn);
        // What has left over a trunk makes room for more in the same datagrams.
        for _ in 0..GATHERS_PER_ROUND {
            if !self.gather_trunks() {
                break;
            }
            work = true;
            self.run_network(&mut turn);
        }
        self.send_trunks();
        work
    }

    /// Does some of what it is asked for; whether there may be more, and nothing when it should end.
    pub(crate) fn run_commands(&mut self, mut answer: impl FnMut(Answer)) -> Option<bool> {
        for _ in 0..COMMANDS_PER_ROUND {
            match self.commands.try_recv() {
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return None,
                Ok(command) => self.execute(command).into_iter().for_each(&mut answer),
                Err(TryRecvError::Empty) => return Some(false),
            }
        }
        Some(true)
    }

    /// Takes posts and CSR commands from one channel; whether there were any.
    pub(crate) fn poll_lane(&mut self, index: usize) -> bool {
        let mut work = self.poll_mailbox(index);
        let waited = self.lanes[index].as_ref().is_some_and(|l| l.pending.is_some());
        let mut taken = 0;
        while taken < POSTS_PER_ROUND {
            match self.take_post(index) {
                Ok(true) => taken += 1,
                Ok(false) => break,
                Err(v) => {
                    self.break_lane(index, v.fault, v.seq, &v.why);
                    return true;
                }
            }
        }
        work |= taken > 0;
        // A client that found its queue full waits for the heads; that takes more posts than one
        // round serves, or a network without room. Otherwise waking it now would be too early.
        let was_full = taken == POSTS_PER_ROUND || waited && taken > 0;
        if was_full && let Some(lane) = &self.lanes[index] {
            lane.notify();
        }
        work
    }

    pub(crate) fn take_post(&mut self, index: usize) -> Result<bool, Violation> {
        let Some(lane) = self.lanes[index].as_mut().filter(|l| !l.broken) else { return Ok(false) };
        let posted = match lane.pending.take() {
            Some(posted) => posted,
            None => {
                let seq = lane.consumer.expected();
                let next = lane.consumer.next(&lane.memory.channel);
                let next = next.map_err(|e| Violation { fault: Fault::BadPacket, seq, why: e.to_string() })?;
                let Some(post) = next else { return Ok(false) };
                let (ports, slot) = (&self.ports, lane.slot);
                let member = |port: Port| ports.get(port).is_some_and(|o| o.slot == slot);
                Context { job: &lane.job, shape: &self.shape, member: &member }.check(post, &mut lane.carried)?
            }
        };
        self.submit(index, posted)
    }

    /// Gives a checked post to the network; false if it has no room now.
    fn submit(&mut self, index: usize, posted: Posted) -> Result<bool, Violation> {
        let Some(lane) = self.lanes[index].as_mut() else { return Ok(false) };
        let issue = match &lane.memory.clock {
            Some(clock) => {
                let said = clock.stamped(posted.seq);
                lane.issue_time(said)
            }
            None => self.fabric.now(),
        };
        let Some(op) = posted.op(&lane.carried) else {
            let number = lane.enter(posted.seq, true, false);
            lane.reached(number, true);
            lane.complete(posted.completion, posted.seq);
            let (port, pe) = (lane.port, lane.pe);
            self.record_post(pe, issue, &posted);
            self.touched(port, Touch::Post(posted.completion), By::Own(None));
            return Ok(true);
        };
        let operation = Operation {
            lane: index,
            seq: posted.seq,
            completion: posted.completion,
            number: 0,
            answered: posted.is_answered(),
            read: posted.is_read(),
            barrier: posted.barrier(),
            to: posted.target(),
        };
        let tag = self.outstanding.insert(operation);
        match self.fabric.inject(lane.port, lane.slot, posted.class, op, issue, tag) {
            Ok(()) => {
                let number = lane.enter(posted.seq, !posted.reads_memory(), posted.is_read());
                if let Some(operation) = self.outstanding.get_mut(tag) {
                    operation.number = number;
                }
                let pe = lane.pe;
                if let Some(gate) = posted.gate() {
                    self.enters(gate, pe, issue);
                }
                self.record_post(pe, issue, &posted);
                Ok(true)
            }
            Err(e) => {
                self.outstanding.remove(tag);
                let fault = match e {
                    InjectError::Busy => {
                        lane.pending = Some(posted);
                        return Ok(false);
                    }
                    InjectError::Unreachable { .. } => Fault::Unreachable,
                    InjectError::NotOpen(_) | InjectError::NoTree(_) => Fault::BadTarget,
                    InjectError::Invalid(_) => Fault::BadDescriptor,
                };
                Err(Violation { fault, seq: posted.seq, why: e.to_string() })
            }
        }
    }

    /// Returns what the network may do before channels are looked at again.
    pub(crate) fn turn(&self) -> Turn {
        let shares = if self.trunks.is_some() { TRUNK_SHARES } else { 1 };
        let shares = shares * (1 + self.active.len() / CHANNELS_PER_SHARE);
        Turn { bytes: BYTES_PER_ROUND * shares, events: EVENTS_PER_ROUND * shares as u64 }
    }

    /// Lets the network run for a turn and applies what it does; whether it did anything.
    pub(crate) fn run_network(&mut self, turn: &mut Turn) -> bool {
        let mut work = self.apply_all(turn);
        let until = self.pace();
        while !turn.is_over() {
            let (before, events) = (self.fabric.events_handled(), turn.events.min(EVENTS_PER_RUN));
            let quiet = match until {
                None => self.fabric.run_some(events),
                Some(until) => self.fabric.run_some_until(until, events),
            };
            turn.events = turn.events.saturating_sub(self.fabric.events_handled() - before);
            if !self.apply_all(turn) && quiet {
                break;
            }
            work = true;
        }
        self.tell_listeners();
        self.stale |= work;
        work
    }

    /// Applies what the network has done, as far as the turn allows; whether there was anything.
    fn apply_all(&mut self, turn: &mut Turn) -> bool {
        let mut any = false;
        while turn.bytes > 0
            && let Some(effect) = self.fabric.poll_effect()
        {
            any = true;
            turn.bytes = turn.bytes.saturating_sub(effect.bytes());
            self.apply(effect);
        }
        while let Some(completion) = self.fabric.poll_completion() {
            any = true;
            self.finish(completion);
        }
        any
    }

    /// How far the network's time may go, if not as far as it likes.
    fn pace(&mut self) -> Option<Tick> {
        if !self.fabric.is_slow() {
            self.pace = None;
            return None;
        }
        let (began, at) = *self.pace.get_or_insert_with(|| ((self.clock)(), self.fabric.now()));
        Some(at + self.elapsed(began).as_nanos() as Tick * 1000)
    }

    /// How long the network has nothing to do because it waits for the clock on the wall.
    fn paced_pause(&self) -> Option<Duration> {
        let ((began, at), next) = (self.pace?, self.fabric.poll_timeout()?);
        Some(Duration::from_nanos(next.saturating_sub(at).div_ceil(1000)).saturating_sub(self.elapsed(began)))
    }

    fn elapsed(&self, since: Instant) -> Duration {
        (self.clock)().saturating_duration_since(since)
    }

    fn housekeeping(&mut self, idle: &mut Idle) {
        let now = (self.clock)();
        if now.duration_since(idle.kept) >= REGISTERS_AGE {
            idle.kept = now;
            self.refresh_registers();
            self.show_cpu_time();
            self.show_core();
        }
    }

    /// Tells clients on which core this thread is, which they leave to it.
    fn show_core(&self) {
        let core = rustix::thread::sched_getcpu() as u32 + 1;
        for job in self.jobs.values() {
            let shown = job.memory.page.daemon_core();
            if shown.load(Ordering::Relaxed) != core {
                shown.store(core, Ordering::Relaxed);
            }
        }
    }

    fn show_cpu_time(&self) {
        let t = clock_gettime(ClockId::ThreadCPUTime);
        self.gauges.cpu_ns.store(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64, Ordering::Relaxed);
    }

    fn rest(&mut self, idle: &mut Idle) {
        self.rounds.idle += 1;
        if !idle.slept && (!self.active.is_empty() || self.trunks.is_some()) {
            // A look at the socket costs more than a yield that finds nobody else.
            if self.trunks.is_none() && idle.may_spin(self.active.len() >= idle.cores) {
                std::hint::spin_loop();
                return;
            }
            self.show_core();
            let now = (self.clock)();
            if now.duration_since(*idle.since.get_or_insert(now)) < AWAKE {
                rustix::thread::sched_yield();
                idle.yielded(self.elapsed(now));
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
    pub(crate) fn before_sleep(&mut self) {
        self.refresh_registers();
        if let Some(trunks) = &mut self.trunks {
            trunks.flush_acks(&mut self.fabric);
        }
    }

    /// How long until something is due without anybody's call.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        let fault = self.faults.next_due().map(|due| due.saturating_duration_since((self.clock)()));
        let heartbeat = self.trunks.as_ref().and_then(Trunks::next_due);
        [fault, heartbeat, self.paced_pause()].into_iter().flatten().min()
    }

    fn sleep(&mut self, idle: &Idle) {
        self.announce(1);
        Linux.heavy_fence();
        let mut lanes = self.active.iter().filter_map(|&i| self.lanes[i].as_ref());
        if !lanes.any(Lane::has_work) {
            let nap = match (self.active.is_empty(), idle.fenced) {
                (true, _) => SLEEP,
                (false, true) => NAP,
                (false, false) => NAP_UNFENCED,
            };
            let mut limit = self.next_due().map_or(nap, |due| due.min(nap));
            if let Some(trunks) = &mut self.trunks {
                trunks.wait(self.epoll.as_fd(), limit);
                limit = Duration::ZERO;
            }
            let timeout = Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
            let mut events = [std::mem::MaybeUninit::uninit(); 64];
            // Every outcome (doorbell, command, timeout, interruption) means: look again.
            let _ = epoll::wait(&self.epoll, &mut events[..], Some(&timeout));
        }
        self.announce(0);
    }

    /// Tells clients whether their posts need a doorbell.
    fn announce(&self, asleep: u32) {
        for job in self.jobs.values() {
            job.memory.page.daemon_sleeps().store(asleep, Ordering::SeqCst);
        }
    }
}

/// Cores this process may run on.
fn cores() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize).max(1)
}

/// How long there has been nothing to do.
struct Idle {
    /// Pauses since the last work or yield.
    spins: u32,
    /// The last yield found nobody else on the core.
    alone: bool,
    /// There has been a yield since the last work.
    yielded: bool,
    since: Option<Instant>,
    /// Slept since the last work: a timeout alone is no reason to stay awake.
    slept: bool,
    kept: Instant,
    cores: usize,
    fenced: bool,
}

impl Idle {
    fn new(now: Instant) -> Idle {
        Idle {
            spins: 0,
            alone: false,
            yielded: false,
            since: None,
            slept: false,
            kept: now,
            cores: cores(),
            fenced: angara_abi::wait::register(),
        }
    }

    fn reset(&mut self) {
        self.spins = 0;
        self.yielded = false;
        self.since = None;
        self.slept = false;
    }

    /// Tells whether to pause and look again rather than to let others have the core. `crowded`: more threads than
    /// cores.
    fn may_spin(&mut self, crowded: bool) -> bool {
        let most = match (self.yielded || crowded, self.alone) {
            (false, _) => SPINS,
            (true, true) => SPINS_ALONE,
            (true, false) => 0,
        };
        self.spins += 1;
        self.spins <= most
    }

    /// After a yield that took so long.
    fn yielded(&mut self, took: Duration) {
        self.yielded = true;
        self.alone = took < QUICK_YIELD;
        self.spins = 0;
    }
}
