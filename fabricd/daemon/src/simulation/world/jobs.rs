//! Launchers and their jobs: started, watched, and judged when all is over.

use super::World;
use crate::jobs::job::{Outgoing, Owner, Words};
use crate::simulation::program::{Board, JobView, Pe, Phase, USER};
use crate::simulation::schedule::JobPlan;
use angara_abi::JobId;
use angara_abi::job::Collectives;
use angara_protocol::msg::{Event, Failure, JobSpec, Map, Path, Reply};
use std::cell::RefCell;
use std::rc::Rc;
use tokio::sync::mpsc;

/// A launcher and its job.
pub(super) struct Job {
    pub(super) plan: JobPlan,
    pub(super) coordinator: usize,
    /// Which of its daemons.
    pub(super) life: u64,
    pub(super) connection: u64,
    pub(super) asked: Rc<RefCell<Option<Result<Reply, Failure>>>>,
    pub(super) answered: bool,
    pub(super) lines: mpsc::Receiver<Outgoing>,
    /// Once it exists.
    pub(super) made: Option<(JobId, String)>,
    pub(super) pes: Vec<Pe>,
    pub(super) board: Board,
    /// Why it has ended, other than well.
    pub(super) reason: Option<String>,
    /// When its launcher goes.
    pub(super) closes_at: u64,
    pub(super) closed: bool,
    pub(super) well: bool,
    /// All its PEs were there at once.
    pub(super) live: bool,
    /// From when to when it was.
    pub(super) began: u64,
    pub(super) ended: u64,
    /// Its launcher or one of its PEs was ended on purpose.
    pub(super) excused: bool,
}

impl Job {
    /// All its PEs have attached at some time.
    pub(super) fn is_live(&self) -> bool {
        !self.pes.is_empty() && !self.pes.iter().any(|pe| matches!(pe.phase, Phase::Coming | Phase::Attaching))
    }
}

impl World {
    pub(super) fn start_job(&mut self, coordinator: usize, plan: JobPlan) {
        let host = &self.hosts[coordinator];
        let (sender, lines) = mpsc::channel(4096);
        let asked = Rc::new(RefCell::new(None));
        let connection = self.jobs.len() as u64 + 1;
        let mut job = Job {
            coordinator,
            life: host.lives,
            connection,
            asked: asked.clone(),
            answered: false,
            lines,
            made: None,
            pes: Vec::new(),
            board: Board::default(),
            reason: None,
            closes_at: u64::MAX,
            closed: false,
            well: false,
            live: false,
            began: self.now,
            ended: u64::MAX,
            excused: false,
            plan,
        };
        self.totals.jobs += 1;
        match &host.node {
            None => (job.reason, job.closed) = (Some("no daemon".into()), true),
            Some(node) => {
                let daemon = node.daemon.clone();
                let owner = Owner { connection, pid: None, lines: sender, overrun: Rc::default(), gone: Rc::default() };
                let spec = JobSpec {
                    pes: job.plan.nodes.len() as u32,
                    ppn: 8,
                    map: Map::List(job.plan.nodes.clone()),
                    heap: 65_536,
                    heap_may_shrink: false,
                    registered: 0,
                    path: Path::Ring,
                    barrier: job.plan.barrier,
                    collectives: Collectives::Auto,
                    name: "simulated".into(),
                    alloc: None,
                    open: false,
                    heterogeneous: false,
                };
                daemon.connection_opened();
                node.tasks.spawn_local(async move {
                    let made = daemon.create_job(USER, owner, spec).await;
                    *asked.borrow_mut() = Some(made);
                });
            }
        }
        self.jobs.push(job);
    }

    /// What launchers hear and do.
    pub(super) fn watch_jobs(&mut self) {
        for index in 0..self.jobs.len() {
            if !self.jobs[index].closed {
                self.watch_job(index);
            }
        }
    }

    pub(super) fn watch_job(&mut self, index: usize) {
        let (now, random) = (self.now, &mut self.random);
        let job = &mut self.jobs[index];
        let coordinator = &self.hosts[job.coordinator];
        let Some(node) = coordinator.node.as_ref().filter(|_| coordinator.lives == job.life) else {
            job.reason.get_or_insert("its daemon went away".into());
            (job.closed, job.ended) = (true, job.ended.min(now));
            return;
        };
        let answer = job.asked.borrow_mut().take();
        job.answered |= answer.is_some();
        match answer {
            Some(Ok(Reply::Job { job: id, key, .. })) => {
                for (pe, node) in job.plan.nodes.iter().enumerate() {
                    let host = self.schedule.owner(*node);
                    let (life, at) = (self.hosts[host].lives, now + random.below(40));
                    job.pes.push(Pe::new(pe, host, life, at, random.draw()));
                }
                job.made = Some((id, key));
            }
            Some(Ok(_)) => job.reason = Some("an answer to another question".into()),
            Some(Err(f)) => {
                tracing::info!(job = index, at = now, why = f.message, "NOT MADE");
                job.ended = now;
                job.reason.get_or_insert(f.message);
            }
            None => {}
        }
        while let Ok(out) = job.lines.try_recv() {
            if let Words::Event(event) = out.words {
                let why = match event {
                    Event::Abort { pe, reason, .. } => format!("PE {pe} ended it: {reason}"),
                    Event::PeLost { pe, .. } => format!("PE {pe} was lost"),
                    Event::HostLost { host, reason, .. } => format!("{host} was lost: {reason}"),
                    Event::DaemonEnds { reason, .. } => format!("its daemon {reason}"),
                    Event::WentOn { absence, .. } => format!("PE {} did not come back", absence.pe),
                    Event::ChannelError { pe, reason, .. } => format!("PE {pe} is cut off: {reason}"),
                };
                tracing::info!(job = index, at = now, why, "JOB ENDS");
                job.ended = job.ended.min(now);
                job.reason.get_or_insert(why);
            }
        }
        job.live |= job.is_live() && job.pes.iter().all(|pe| pe.phase != Phase::Gone);
        job.well = !job.pes.is_empty() && job.pes.iter().all(|pe| pe.phase == Phase::Done);
        // A PE may leave early and in order when the others need it no more: then all processes have ended, which is told to
        // launchers by the system.
        let over = !job.pes.is_empty() && job.pes.iter().all(Pe::is_over);
        if (job.reason.is_some() || over) && job.closes_at == u64::MAX {
            job.closes_at = now + random.of(&[0, 1, 30, 200]);
        }
        // A connection that closes is noticed when what it asked for is answered.
        if job.closes_at <= now && job.answered {
            job.closed = true;
            let (daemon, connection) = (node.daemon.clone(), job.connection);
            node.tasks.spawn_local(async move { daemon.connection_closed(connection).await });
        }
    }

    /// Counts jobs, and looks whether those that did not end well had a cause to.
    pub(super) fn judge_jobs(&mut self) -> Result<(), String> {
        for job in &self.jobs {
            self.totals.ops += job.board.ops;
            self.totals.jobs_live += u64::from(job.live);
            let told = job.reason.as_ref().is_some_and(|why| why.contains("its daemon was shut down"));
            self.totals.jobs_told += u64::from(told);
            match (&job.reason, job.well, job.made.is_some()) {
                (_, true, _) => self.totals.jobs_well += 1,
                (_, false, true) => self.totals.jobs_ended += 1,
                (_, false, false) => self.totals.jobs_refused += 1,
            }
        }
        for (index, job) in self.jobs.iter().enumerate() {
            self.trace.add(job.board.ops << 2 | u64::from(job.well));
            let hosts_fail =
                ["come and go", "have not agreed", "does not answer", "not in the network", "is in use already"];
            let reason = job.reason.as_deref().unwrap_or_default();
            let refused = job.made.is_none() && !hosts_fail.iter().any(|part| reason.contains(part));
            if job.well || job.excused || refused {
                continue;
            }
            self.totals.judged += 1;
            let nodes = &job.plan.nodes;
            if !self.troubles.may_end(job.began, job.ended, job.coordinator, nodes, &self.schedule) {
                let why = job.reason.as_deref().unwrap_or("?");
                let (made, coordinator) = (&job.made, job.coordinator);
                return Err(format!(
                    "job {index} {made:?} of h{coordinator} on nodes {nodes:?} ended without cause: {why}"
                ));
            }
        }
        Ok(())
    }

    pub(super) fn step_pes(&mut self) -> Result<bool, String> {
        let (mut busy, now) = (false, self.now);
        for job in self.jobs.iter_mut() {
            let Some((id, key)) = &job.made else { continue };
            for pe in job.pes.iter_mut().filter(|pe| !pe.is_over() && pe.at <= now) {
                let host = &mut self.hosts[pe.host];
                let Some(node) = host.node.as_mut().filter(|_| host.lives == pe.life) else {
                    pe.orphan();
                    continue;
                };
                let mut view = JobView { id: *id, key, plan: &job.plan, board: &mut job.board };
                pe.step(now, &node.daemon, &node.tasks, &mut view)?;
                // It rings the doorbell if it has posted.
                node.plane_at = node.plane_at.min(now);
                busy = true;
            }
        }
        Ok(busy)
    }
}
