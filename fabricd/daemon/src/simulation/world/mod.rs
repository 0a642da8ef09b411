//! The hosts, the network between them, the jobs, and the clock they all go by.

mod checks;
mod jobs;
mod recovery;
mod totals;

pub(super) use totals::Totals;

use super::blame::Troubles;
use super::network::Network;
use super::node::{Bell, Ending, Node, cluster};
use super::random::{Random, Trace};
use super::schedule::{Act, Schedule};
use angara_cluster::Cluster;
use angara_protocol::msg::Failure;
use jobs::Job;
use recovery::{CLEAR_ALL, Stage};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// The first job begins within this time.
const FIRST_JOB_BOUND: u64 = 10_000;
/// What a run may take at most: no more than this many steps.
const STEPS_MAX: u64 = 400_000;

/// A host, whose daemon may be dead.
#[derive(Default)]
struct Host {
    node: Option<Node>,
    /// How many daemons it has had.
    lives: u64,
    starts_at: u64,
    frozen_until: u64,
    slow_until: u64,
    /// What has been checked last: number of the change, route changes, on hold.
    checked: (u64, u64, bool),
}

/// A fault command under way.
struct Asked {
    text: String,
    host: usize,
    life: u64,
    since: u64,
    answer: Rc<RefCell<Option<Result<(), Failure>>>>,
}

pub(super) struct World {
    schedule: Schedule,
    cluster: Cluster,
    random: Random,
    start: Instant,
    now: u64,
    bell: Arc<Bell>,
    hosts: Vec<Host>,
    network: Network,
    troubles: Troubles,
    jobs: Vec<Job>,
    asked: Vec<Asked>,
    next_act: usize,
    /// For how long acts have waited for the first job.
    shift: u64,
    stage: Stage,
    repaired_at: u64,
    /// A fault that comes by itself may come after all faults were cleared, once.
    late_faults: bool,
    /// Cuts that a host was asked for by another one may come after it was told to restore all, once: then all are told again.
    late_cuts: bool,
    /// A host ended before it answered that all faults are cleared: then another one is told.
    clear_lost: bool,
    pub(super) trace: Trace,
    pub(super) totals: Totals,
}

impl World {
    /// To be made inside a runtime whose clock is paused.
    pub(super) fn new(seed: u64, schedule: Schedule) -> World {
        let cluster = cluster(&schedule);
        let counts = schedule.counts();
        let totals = Totals {
            schedules: 1,
            events: counts.events,
            crashes: counts.crashes,
            splits: counts.splits,
            ..Totals::default()
        };
        let mut world = World {
            hosts: (0..schedule.hosts).map(|_| Host::default()).collect(),
            schedule,
            cluster,
            random: Random::new(seed ^ 0x00c4_a05e),
            start: Instant::now(),
            now: 0,
            bell: Arc::default(),
            network: Network::default(),
            troubles: Troubles::default(),
            jobs: Vec::new(),
            asked: Vec::new(),
            next_act: 0,
            shift: 0,
            stage: Stage::Trouble,
            repaired_at: 0,
            late_faults: true,
            late_cuts: true,
            clear_lost: false,
            trace: Trace::default(),
            totals,
        };
        for host in &mut world.hosts {
            host.starts_at = world.random.of(&[0, 0, 3, 100]);
        }
        world
    }

    /// Runs to the end, or to the first thing that must not be.
    pub(super) async fn run(&mut self) -> Result<(), String> {
        loop {
            self.now = self.now.max(self.start.elapsed().as_millis() as u64);
            let mut busy = self.act()?;
            busy |= self.arrive();
            busy |= self.run_controls();
            busy |= self.deliver();
            busy |= self.step_pes()?;
            busy |= self.run_planes();
            self.watch_jobs();
            self.take_answers();
            self.check()?;
            if busy {
                self.totals.steps += 1;
                if self.totals.steps > STEPS_MAX {
                    return Err(format!("busy without end\n{}", self.describe()));
                }
                continue;
            }
            if self.go_on_repaired()? {
                self.totals.seconds = self.now / 1000;
                self.totals.datagrams = self.network.sent;
                self.totals.lost = self.network.lost;
                self.totals.doubled = self.network.doubled;
                self.totals.overtaken = self.network.overtaken;
                return Ok(());
            }
            self.wait(self.next()).await;
        }
    }

    /// Lets time pass until something happens.
    async fn wait(&self, until: u64) {
        let mut sleep = pin!(tokio::time::sleep_until(self.start + Duration::from_millis(until)));
        poll_fn(|cx| {
            *self.bell.0.lock().unwrap_or_else(|e| e.into_inner()) = Some(cx.waker().clone());
            let free = |h: &Host| {
                h.frozen_until <= self.now && h.node.as_ref().is_some_and(|n| n.is_woken() && n.control_at <= self.now)
            };
            match self.hosts.iter().any(free) {
                true => Poll::Ready(()),
                false => sleep.as_mut().poll(cx),
            }
        })
        .await;
    }

    /// When something happens next without a timer of a control plane.
    fn next(&self) -> u64 {
        let host = |h: &Host| match &h.node {
            None => h.starts_at,
            Some(node) => node.next().max(h.frozen_until),
        };
        let mut next = self.hosts.iter().map(host).min().unwrap_or(u64::MAX).min(self.network.next());
        if self.stage == Stage::Trouble {
            let act = self.schedule.acts.get(self.next_act).map_or(self.schedule.repaired, |(at, _)| *at);
            let first = self.next_act == 1 && self.shift == 0;
            next = next.min(if first { self.now + 20 } else { act + self.shift });
        }
        let jobs = self.jobs.iter().filter(|j| !j.closed);
        for job in jobs {
            if job.answered {
                next = next.min(job.closes_at);
            }
            next = job.pes.iter().filter(|pe| !pe.is_over()).map(|pe| pe.at).fold(next, u64::min);
        }
        // Somebody may have to look whether all is well.
        let look = if self.stage == Stage::Trouble { u64::MAX } else { self.now + 20 };
        next.min(look).max(self.now + 1)
    }

    /// Returns what happens now; whether anything did.
    fn act(&mut self) -> Result<bool, String> {
        let mut busy = false;
        for index in 0..self.hosts.len() {
            if self.hosts[index].node.is_none() && self.hosts[index].starts_at <= self.now {
                self.start_daemon(index);
                busy = true;
            }
        }
        if self.stage != Stage::Trouble {
            return Ok(busy);
        }
        if self.next_act == 1 && self.shift == 0 && !self.first_job_runs()? {
            return Ok(busy);
        }
        let now = self.now.saturating_sub(self.shift);
        while let Some((_, act)) = self.schedule.acts.get(self.next_act).filter(|(at, _)| *at <= now).cloned() {
            self.next_act += 1;
            busy = true;
            self.trace.add(self.next_act as u64);
            tracing::info!(at = self.now, ?act, "ACT");
            self.do_act(act);
            if self.next_act == 1 {
                return Ok(true);
            }
        }
        if self.next_act == self.schedule.acts.len() && now >= self.schedule.repaired {
            self.repaired_at = self.now;
            self.repair_everything();
            busy = true;
        }
        Ok(busy)
    }

    /// Tells whether the first job has begun; then time goes on for the other acts, too.
    fn first_job_runs(&mut self) -> Result<bool, String> {
        let Some(job) = self.jobs.first() else {
            // Left out when a schedule is made shorter.
            self.shift = 1;
            return Ok(true);
        };
        if job.closed || self.now > job.began + FIRST_JOB_BOUND {
            return Err(format!("the first job does not begin: {:?}\n{}", job.reason, self.describe()));
        }
        let runs = job.is_live();
        if runs {
            self.shift = (self.now - self.schedule.acts[0].0).max(1);
        }
        Ok(runs)
    }

    fn start_daemon(&mut self, index: usize) {
        let random = Random::new(self.random.draw());
        let node = Node::start(&self.cluster, index, random, &self.bell, self.now);
        let host = &mut self.hosts[index];
        host.lives += 1;
        host.checked = Default::default();
        (host.node, host.frozen_until, host.slow_until) = (Some(node), 0, 0);
        tracing::info!(host = index, at = self.now, "START");
    }

    fn do_act(&mut self, act: Act) {
        let now = self.now;
        self.troubles.note(now, &act, &self.schedule);
        match act {
            Act::Crash(host, pause) => self.kill(host, pause),
            Act::Shutdown(host, pause) => {
                self.hosts[host].starts_at = now + pause;
                if let Some(node) = &self.hosts[host].node {
                    node.daemon.stop.notify_one();
                }
            }
            Act::Freeze(host, lasts) => self.hosts[host].frozen_until = now + lasts,
            Act::Stall(host, lasts) => {
                if let Some(node) = &mut self.hosts[host].node {
                    node.control_at = now + lasts;
                }
            }
            Act::Slow(host, lasts) => self.hosts[host].slow_until = now + lasts,
            Act::Step(host, by) => {
                if let Some(node) = &mut self.hosts[host].node {
                    node.plane.step_clock(by);
                    node.plane_at = now;
                }
            }
            Act::Split(set, lasts) => self.network.split(now + lasts, set),
            Act::Bad(a, b, quality) => self.network.make_bad(a, b, quality),
            Act::Fault(host, text) => self.command(host, text),
            Act::Job(coordinator, plan) => self.start_job(coordinator, plan),
            Act::Leave(job) => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.reason.get_or_insert("its launcher went away".into());
                    (job.closes_at, job.excused) = (now, true);
                }
            }
            Act::EndPe(job, pe, lost) => {
                let job = self.jobs.get_mut(job).filter(|job| pe < job.pes.len());
                if let Some(job) = job {
                    (job.pes[pe].doomed, job.excused) = (Some(lost), true);
                }
            }
            Act::Forget(host, job) => {
                let made = self.jobs.get_mut(job).and_then(|job| {
                    job.excused = true;
                    job.made.clone()
                });
                if let (Some(node), Some((id, _))) = (&self.hosts[host].node, made) {
                    let daemon = node.daemon.clone();
                    node.tasks.spawn_local(async move { daemon.end_job(id).await });
                }
            }
        }
    }

    fn kill(&mut self, index: usize, pause: u64) {
        let host = &mut self.hosts[index];
        if host.node.take().is_some() {
            host.starts_at = self.now + pause;
            self.troubles.without_daemon(self.now, self.now + pause, index);
            for pe in self.jobs.iter_mut().flat_map(|j| &mut j.pes).filter(|pe| pe.host == index && !pe.is_over()) {
                pe.orphan();
            }
        }
    }

    /// Asks a daemon for something, as `angara fault` does.
    fn command(&mut self, index: usize, text: String) {
        let host = &self.hosts[index];
        let Some(node) = &host.node else { return };
        let (daemon, answer) = (node.daemon.clone(), Rc::new(RefCell::new(None)));
        let (asked, said) = (text.clone(), answer.clone());
        node.tasks.spawn_local(async move {
            let result = daemon.set_fault(&asked).await;
            *said.borrow_mut() = Some(result);
        });
        self.totals.commands += 1;
        self.asked.push(Asked { text, host: index, life: host.lives, since: self.now, answer });
    }

    fn take_answers(&mut self) {
        let (hosts, totals, clear_lost, now) = (&self.hosts, &mut self.totals, &mut self.clear_lost, self.now);
        self.asked.retain(|asked| {
            let there = hosts[asked.host].node.is_some() && hosts[asked.host].lives == asked.life;
            let answer = asked.answer.borrow_mut().take();
            if let Some(Err(f)) = &answer {
                tracing::info!(text = asked.text, host = asked.host, at = now, why = f.message, "REFUSED");
                totals.commands_refused += 1;
            }
            *clear_lost |= !there && answer.is_none() && asked.text == CLEAR_ALL;
            there && answer.is_none()
        });
    }

    fn arrive(&mut self) -> bool {
        let mut busy = false;
        while let Some((from, to, datagram)) = self.network.land(self.now) {
            busy = true;
            self.trace.add((from * 8 + to) as u64);
            let delay = self.plane_delay(to);
            if let Some(node) = &mut self.hosts[to].node {
                node.plug.arrive(datagram);
                node.plane_at = node.plane_at.min(self.now + delay);
            }
        }
        busy
    }

    /// How long a data plane takes to notice.
    fn plane_delay(&mut self, host: usize) -> u64 {
        let slow = self.hosts[host].slow_until > self.now;
        match self.random.below(32) {
            0..=1 => 1 + self.random.below(3),
            2 => self.random.below(12),
            _ if slow => self.random.below(30),
            _ => 0,
        }
    }

    fn run_controls(&mut self) -> bool {
        let mut busy = false;
        let first = self.random.below(self.hosts.len() as u64) as usize;
        let all = self.hosts.len();
        for index in (0..all).map(|i| (first + i) % all) {
            let (now, host) = (self.now, &mut self.hosts[index]);
            let ready = |n: &&mut Node| n.is_woken() && n.control_at <= now;
            let Some(node) = host.node.as_mut().filter(|_| host.frozen_until <= now).filter(ready) else { continue };
            node.run_control();
            busy = true;
            let slow = host.slow_until > now;
            if node.ending.get().is_some() && node.stopped {
                let expelled = node.ending.get() == Some(Ending::Expelled);
                let pause = host.starts_at.saturating_sub(now);
                self.totals.expelled += u64::from(expelled);
                tracing::info!(host = index, at = now, expelled, "ENDED");
                self.kill(index, pause.max(1));
                continue;
            }
            let delay = self.plane_delay(index);
            let later = if slow { self.random.below(30) } else { 0 };
            if let Some(node) = &mut self.hosts[index].node {
                node.plane_at = node.plane_at.min(now + delay);
                node.control_at = now + later;
            }
        }
        busy
    }

    fn deliver(&mut self) -> bool {
        let mut count = 0;
        for host in self.hosts.iter_mut().filter(|h| h.frozen_until <= self.now) {
            count += host.node.as_mut().map_or(0, |node| node.deliver(self.now));
        }
        self.trace.add(count);
        count > 0
    }

    fn run_planes(&mut self) -> bool {
        let mut busy = false;
        for index in 0..self.hosts.len() {
            let (now, host) = (self.now, &mut self.hosts[index]);
            let slow = host.slow_until > now;
            let Some(node) = host.node.as_mut().filter(|n| n.plane_at <= now && host.frozen_until <= now) else {
                continue;
            };
            busy = true;
            let (random, late) = (&mut self.random, &mut self.totals.late_answers);
            let rounds = random.of(&[1, 4, 64, 64]);
            node.run_plane(now, rounds, || {
                let delay = match random.below(16) {
                    0..=2 => 1 + random.below(4),
                    3 => random.of(&[10, 40, 150]),
                    _ if slow => random.below(40),
                    _ => 0,
                };
                *late += u64::from(delay > 0);
                delay
            });
            for (to, datagram) in node.plug.take_sent() {
                self.trace.add(now << 8 | (index * 8 + to) as u64);
                self.trace.bytes(&datagram);
                self.network.launch(now, index, to, datagram, &mut self.random);
            }
            if node.stopped && node.ending.get().is_some() {
                // So that it is noticed.
                node.control_at = now;
            }
        }
        busy
    }
}
