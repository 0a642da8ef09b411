//! Two-phase commit of what is out of service, on all hosts of a cluster, while jobs run.
//!
//! Every host computes the routes of the whole network by itself, so all of them must have the same faults in force, and
//! change them at one point of everybody's traffic. Among the hosts that can reach each other, the first one of the cluster
//! file is the *leader*. When a trunk or a host goes or comes, or a fault is set or cleared, the leader
//!
//! 1. has each host *prepare*: its part of the network stands still. Each answers with its ledger (how much of what has
//!    arrived);
//! 2. merges the ledgers and has each host *commit*: everything under way is thrown away, and every source sends again what
//!    has not arrived, over routes that avoid what is out of service.
//!
//! Each change has a *ballot*: a number higher than any before, and the leader's own. The number is also that of the route
//! change, which every record on a trunk carries. A host that has prepared for a ballot refuses lower ones, so two hosts
//! that both believe to lead do no harm. If a leader is lost in the middle, the next one begins again: ledgers stay true
//! whether or not a host has committed.

use super::ballot::{Agreed, Ballot, Commit, PendingFault, Prepared};
use super::protocol::{Answer, Ask, Tell};
use super::relay::COUNT_MAX;
use crate::ask::ask;
use crate::daemon::Daemon;
use crate::failure::failure;
use crate::faults::ledger::By;
use crate::faults::out_of_order;
use crate::jobs::job::{Job, PeState};
use angara_abi::JobId;
use angara_fabric::{Ledger, Outage};
use angara_net::fault::{Action, Book, Command, Fault, Target};
use angara_net::torus::{Direction, NodeId};
use angara_net::{HostId, Link};
use angara_plane::{Command as Plane, Dead, Recovery};
use angara_protocol::msg::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Changes that come together are made together.
const GATHER: Duration = Duration::from_millis(10);
/// Interval at which a prepared host checks that a leader still sees to it.
const LOOK: Duration = Duration::from_millis(250);
/// Time limit of a request that all hosts must commit.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why a change was not made.
enum Failed {
    /// Somebody has promised more, or cannot be reached: look again.
    Again,
    /// This one does not answer, or cannot follow.
    Unfit(HostId, u64),
}

impl Daemon {
    /// Has the host that decides do a fault command everywhere.
    pub(crate) async fn change_faults(self: &Rc<Self>, command: &Command, since: Option<u64>) -> Result<(), Failure> {
        let Some(messages) = &self.cluster.messages else { return Ok(()) };
        match messages.group().into_keys().next().filter(|first| *first != messages.me) {
            Some(first) => messages.ask(first, Ask::Lead(command.clone(), since)).await.map(drop),
            None => self.lead(command, since).await,
        }
    }

    /// Tells whether a fault command makes sense after those that are known here.
    pub(crate) fn makes_sense(&self, command: &Command) -> Result<(), Failure> {
        self.faults_after(&self.cluster.ballots.agreed.borrow().faults, command).map(drop)
    }

    /// The faults in force after a command.
    fn faults_after(&self, faults: &Book, command: &Command) -> Result<Book, Failure> {
        // Another host may have sent it.
        command.check(&self.options.shape).map_err(|why| failure(format!("fault `{}`: {why}", command.text), ""))?;
        let actions: &[Action] = if let Target::Network(actions) = &command.target { actions } else { &[] };
        faults.after(actions).map_err(|error| out_of_order(error, &command.text, &self.options.shape))
    }

    /// Does a fault command everywhere.
    pub(crate) async fn lead(&self, command: &Command, since: Option<u64>) -> Result<(), Failure> {
        // A mistake is told at once.
        self.makes_sense(command)?;
        let (done, made) = oneshot::channel();
        self.cluster.ballots.pending.borrow_mut().push(PendingFault { command: command.clone(), since, done });
        self.cluster.ballots.wake.notify_one();
        match tokio::time::timeout(PATIENCE, made).await {
            Ok(Ok(result)) => result,
            _ => Err(failure(
                format!("fault `{}`: the hosts have not agreed within {PATIENCE:?}", command.text),
                "see `angara cluster status` and the log",
            )),
        }
    }

    /// A link of this host's nodes failed by itself: has it taken out of service everywhere, however long that takes.
    /// Unless a change has been made since: then the link is tried again, and fails again if it is no better.
    pub(crate) async fn report_link(self: &Rc<Self>, link: Link, since: u64) {
        let command = Command::set(Fault::link_down(link), &self.options.shape);
        self.ledger.say(By::Network, vec![command.text.clone()]);
        while let Err(f) = self.change_faults(&command, Some(since)).await {
            tracing::warn!(
                fault = command.text,
                why = f.message,
                "a link that failed is not out of service everywhere"
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until this host and all it can reach have committed the same; returns the number of the latest change.
    pub(crate) async fn agreed(&self) -> Result<u64, Failure> {
        let until = Instant::now() + PATIENCE;
        while !self.is_settled() {
            if Instant::now() >= until {
                return Err(failure(
                    format!("the hosts of the cluster have not agreed within {PATIENCE:?}"),
                    "see `angara cluster status` and the logs",
                ));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(self.cluster.ballots.number())
    }

    /// Nothing is on hold, and nothing has to be agreed on as far as is known here.
    pub(crate) fn is_settled(&self) -> bool {
        let Some(messages) = &self.cluster.messages else { return true };
        let agreed = self.cluster.ballots.agreed.borrow();
        let known = |host: &HostId| agreed.members.contains_key(host) || agreed.expelled.iter().any(|e| e.0 == *host);
        self.cluster.ballots.held.get().is_none()
            && agreed.number > 0
            && self.wanted() == *agreed
            && messages.neighbours().iter().all(known)
    }

    /// Returns what should be agreed on, with the faults and the number that are.
    fn wanted(&self) -> Agreed {
        let agreed = self.cluster.ballots.agreed.borrow().clone();
        let Some(messages) = &self.cluster.messages else { return agreed };
        let mut expelled = agreed.expelled;
        let members: BTreeMap<HostId, u64> = messages.group().into_iter().filter(|m| !expelled.contains(m)).collect();
        // One that was started again counts as any other.
        expelled.retain(|(host, _)| !members.contains_key(host));
        let edges = messages.edges(&members.keys().copied().collect());
        Agreed { members, edges, expelled, ..agreed }
    }

    /// Leads changes when it is this host's turn, for as long as the daemon lives.
    pub(crate) async fn lead_changes(self: Rc<Self>) {
        let Some(messages) = &self.cluster.messages else { return };
        let a = &self.cluster.ballots;
        // This host alone, to begin with.
        a.wake.notify_one();
        loop {
            // The timeout is for what is on hold and what was lost on the way.
            let _ = tokio::time::timeout(LOOK, a.wake.notified()).await;
            messages.send_again(false);
            let wanted = self.wanted();
            let leader = wanted.members.keys().next().copied().unwrap_or(messages.me);
            if leader != messages.me {
                if a.held.get().is_some_and(|since| since.elapsed() >= LOOK) {
                    messages.tell(&[leader], &Tell::Stuck(a.promised.get().0));
                }
                // Whoever asked gets the answer of the present leader.
                for fault in a.pending.take() {
                    let daemon = self.clone();
                    tokio::task::spawn_local(async move {
                        // Who asked may have given up.
                        let _ = fault.done.send(daemon.change_faults(&fault.command, fault.since).await);
                    });
                }
                continue;
            }
            self.tell_expelled(&wanted.expelled);
            let behind = a.held.get().is_some() || a.again.get();
            if !behind && a.pending.borrow().is_empty() && wanted == *a.agreed.borrow() {
                continue;
            }
            tokio::time::sleep(GATHER).await;
            a.again.set(false);
            let mut pending = a.pending.take();
            // A link that failed by itself did so before what is said now: that may be that it is mended.
            pending.sort_by_key(|fault| fault.since.is_none());
            match self.make_change(&pending).await {
                Ok(results) => pending.into_iter().zip(results).for_each(|(fault, result)| {
                    // Who asked may have given up.
                    let _ = fault.done.send(result);
                }),
                Err(why) => {
                    a.again.set(true);
                    a.pending.borrow_mut().splice(0..0, pending);
                    if let Failed::Unfit(host, life) = why {
                        self.expel(host, life);
                    }
                }
            }
            if a.again.get() {
                a.wake.notify_one();
            }
        }
    }

    /// A daemon is heard, but does not follow.
    fn expel(&self, host: HostId, life: u64) {
        let Some(messages) = &self.cluster.messages else { return };
        tracing::error!(host = messages.name(host), "does not follow; the others go on without it");
        if host == messages.me {
            return self.leave_cluster();
        }
        self.cluster.ballots.agreed.borrow_mut().expelled.insert((host, life));
        messages.tell(&[host], &Tell::Expelled);
    }

    /// Whoever is expelled and there all the same has not heard of it: touch was lost before it was told.
    fn tell_expelled(&self, expelled: &BTreeSet<(HostId, u64)>) {
        let Some(messages) = &self.cluster.messages else { return };
        let group = messages.group();
        let there = |(host, life): &&(HostId, u64)| group.get(host) == Some(life) && messages.has_taken_all(*host);
        for (host, _) in expelled.iter().filter(there) {
            messages.tell(&[*host], &Tell::Expelled);
        }
    }

    /// The others go on without this host: it must begin anew.
    pub(crate) fn leave_cluster(&self) {
        self.cluster.expelled.set(true);
        self.stop.notify_one();
    }

    /// One change; what became of each fault.
    async fn make_change(self: &Rc<Self>, pending: &[PendingFault]) -> Result<Vec<Result<(), Failure>>, Failed> {
        let Some(messages) = &self.cluster.messages else { return Err(Failed::Again) };
        let began = Instant::now();
        let wanted = self.wanted();
        let number = messages.next_number(self.cluster.ballots.promised.get().0.max(self.cluster.ballots.number()));
        let ballot = (number, messages.me);
        let mut ledger = Ledger::default();
        let (mut latest, mut jobs) = (Agreed::default(), Vec::new());
        for (host, answer) in self.ask_all(&wanted.members, Ask::Prepare(ballot)).await? {
            let unfit = Failed::Unfit(host, wanted.members[&host]);
            let held = match answer {
                Answer::Prepared(held) => held,
                Answer::Refused((more, _)) => {
                    self.cluster.ballots.promise_above(more);
                    return Err(Failed::Again);
                }
                _ => return Err(unfit),
            };
            match Ledger::from_bytes(&held.ledger) {
                Ok(part) => ledger.merge(&part),
                Err(e) => {
                    tracing::error!(host = messages.name(host), error = %e, "an unreadable ledger; are all daemons of one version?");
                    return Err(unfit);
                }
            }
            jobs.extend(held.jobs);
            if held.agreed.number > latest.number || latest.members.is_empty() {
                latest = held.agreed;
            }
        }
        let (mut faults, before) = (latest.faults, latest.number);
        let mut made = Vec::new();
        for fault in pending {
            if fault.since.is_some_and(|since| since < before) {
                made.push(Ok(()));
                continue;
            }
            let result = self.faults_after(&faults, &fault.command);
            made.push(result.map(|after| faults = after));
        }
        let agreed = Agreed { number, faults, ..wanted };
        let commit = Commit { ballot, agreed: agreed.clone(), ledger: ledger.to_bytes(), jobs };
        for (host, answer) in self.ask_all(&agreed.members, Ask::Commit(Box::new(commit))).await? {
            match answer {
                Answer::Done => {}
                Answer::Refused(_) => return Err(Failed::Again),
                _ => return Err(Failed::Unfit(host, agreed.members[&host])),
            }
        }
        let shown: Vec<String> = agreed.faults.faults().iter().map(|f| f.show(&self.options.shape)).collect();
        tracing::info!(number, hosts = agreed.members.len(), faults = ?shown, took = ?began.elapsed(), "agreed");
        Ok(made)
    }

    /// Asks every member the same.
    async fn ask_all(
        self: &Rc<Self>,
        members: &BTreeMap<HostId, u64>,
        ask: Ask,
    ) -> Result<Vec<(HostId, Answer)>, Failed> {
        let Some(messages) = &self.cluster.messages else { return Err(Failed::Again) };
        // A host whose daemon is heard, but does not answer, is lost like one that is not heard.
        let limit = 2 * messages.member.cluster.dead_after + Duration::from_secs(5);
        let mut asked = Vec::new();
        for (&host, &life) in members {
            let (daemon, ask) = (self.clone(), ask.clone());
            let answer = tokio::task::spawn_local(async move {
                match &daemon.cluster.messages {
                    Some(messages) if messages.me != host => messages.ask_within(host, ask, limit).await,
                    _ => daemon.answer_host(host, ask).await,
                }
            });
            asked.push((host, life, answer));
        }
        let began = Instant::now();
        let mut answers = Vec::new();
        let mut failed = None;
        for (host, life, answer) in asked {
            match answer.await {
                Ok(Ok(answer)) => answers.push((host, answer)),
                Ok(Err(f)) => {
                    tracing::info!(host = messages.name(host), why = f.message, "no commit yet");
                    let mute = began.elapsed() >= limit && messages.is_up(host);
                    failed = Some(if mute { Failed::Unfit(host, life) } else { Failed::Again });
                }
                Err(_) => failed = Some(Failed::Again),
            }
        }
        failed.map_or(Ok(answers), Err)
    }

    /// First phase: has the network stand still and returns what this host knows.
    pub(crate) async fn prepare(&self, ballot: Ballot) -> Answer {
        let a = &self.cluster.ballots;
        if ballot <= a.promised.get() || ballot.0 > 2 * COUNT_MAX {
            return Answer::Refused(a.promised.get());
        }
        a.promised.set(ballot);
        if a.held.get().is_none() {
            a.held.set(Some(Instant::now()));
        }
        let Ok(ledger) = ask(&self.data, Plane::Hold).await else { return Answer::Unable };
        let jobs = self
            .jobs
            .table
            .borrow()
            .values()
            .filter(|j| j.coordinator.is_none() || self.is_orphan(j))
            .map(|j| j.descriptor.clone())
            .collect();
        let agreed = a.agreed.borrow().clone();
        Answer::Prepared(Box::new(Prepared { agreed, ledger, jobs }))
    }

    /// Second phase: goes on as committed.
    pub(crate) async fn commit(self: &Rc<Self>, commit: Commit) -> Answer {
        let (a, Some(messages)) = (&self.cluster.ballots, &self.cluster.messages) else { return Answer::Unable };
        if commit.ballot != a.promised.get() {
            return Answer::Refused(a.promised.get());
        }
        self.know_jobs(&commit).await;
        let Commit { ballot, agreed, ledger, .. } = commit;
        let faults = agreed.faults.clone();
        if faults.faults().iter().any(|fault| fault.site.check(&self.options.shape).is_err()) {
            return Answer::Unable;
        }
        let dead = self.without(&agreed);
        let live = agreed.edges.iter().filter_map(|&(x, y, session)| match messages.me {
            me if me == x => Some((y, session)),
            me if me == y => Some((x, session)),
            _ => None,
        });
        let number = agreed.number;
        let recovery = Box::new(Recovery { number, dead, faults, ledger, live: live.collect() });
        // Looked at again right before the data plane is told: it takes this and a later hold in the same order.
        if ballot != a.promised.get() {
            return Answer::Refused(a.promised.get());
        }
        *a.agreed.borrow_mut() = agreed;
        match ask(&self.data, |reply| Plane::Recover(recovery, reply)).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => {
                tracing::error!(number, why, "cannot recover the network");
                return Answer::Unable;
            }
            Err(Dead) => return Answer::Unable,
        }
        a.committed.set(ballot);
        a.closed.borrow_mut().retain(|_, named| *named > ballot);
        if a.promised.get() == ballot {
            a.held.set(None);
        }
        self.forget_reservations_before(number);
        self.members_changed();
        Answer::Done
    }

    /// Returns what the group does without, apart from faults: nodes of hosts that take no part, links of trunks that
    /// are down.
    fn without(&self, agreed: &Agreed) -> Vec<Outage> {
        let Some(messages) = &self.cluster.messages else { return Vec::new() };
        let shape = self.options.shape;
        let joined: BTreeSet<(HostId, HostId)> = agreed.edges.iter().map(|e| (e.0, e.1)).collect();
        let mut dead = Vec::new();
        for (node, host) in (0..).zip(&messages.owners) {
            if !agreed.members.contains_key(host) {
                dead.push(Outage::Node(node));
                continue;
            }
            for dir in Direction::ALL {
                let Some(far) = shape.neighbour(node, dir) else { continue };
                let other = &messages.owners[far as usize];
                let cut = host < other && agreed.members.contains_key(other) && !joined.contains(&(*host, *other));
                if cut {
                    dead.push(Outage::Link(Link { node, dir }));
                }
            }
        }
        dead
    }

    /// Opens the jobs of the group that this host does not know, because it has just come, and ends those that the
    /// group has ended without it. One with PEs here was known here from its beginning: whoever does not know it has left it, or is
    /// another life of the daemon that has. What the PEs had in memory is gone, so nothing may be done to it any more.
    async fn know_jobs(self: &Rc<Self>, commit: &Commit) {
        let Some(messages) = &self.cluster.messages else { return };
        let over: Vec<JobId> = {
            let jobs = self.jobs.table.borrow();
            let over = |job: &Job| job.coordinator.is_some() && !commit.jobs.iter().any(|c| c.is_of(&job.descriptor));
            let ends = |job: &Job| over(job) || self.is_other_half(job, commit);
            jobs.iter().filter(|(_, job)| ends(job)).map(|(id, _)| *id).collect()
        };
        for id in over {
            tracing::info!(job = id.number(), "the job had ended without this host");
            let begun = |job: &Job| job.pes.iter().any(|pe| !matches!(pe, PeState::Waiting));
            if self.jobs.table.borrow().get(&id).is_some_and(begun) {
                // Perhaps only those that this host follows now have lost the job's coordinator, which waits for the PEs here.
                self.leave_job(id, "it went on with hosts that had lost the job's own");
            }
            self.end_job(id).await;
        }
        for descriptor in
            commit.jobs.iter().filter(|descriptor| descriptor.coordinator != messages.me && !descriptor.over)
        {
            if self.jobs.table.borrow().contains_key(&descriptor.id())
                || self.cluster.ballots.closed.borrow().contains_key(&descriptor.id())
            {
                continue;
            }
            // It may have been about to be opened.
            self.forget_reservation(descriptor.id());
            let here = |node: &NodeId| messages.owners.get(*node as usize) == Some(&messages.me);
            if !descriptor.new.spec.open && descriptor.nodes().iter().any(here) {
                self.say_left(descriptor, &commit.agreed);
                continue;
            }
            if let Err(f) = self.open_from_descriptor(descriptor).await {
                tracing::error!(
                    job = descriptor.id().number(),
                    why = f.message,
                    "cannot take part in a job; its packets cannot pass here"
                );
            }
        }
    }

    /// A host has been on hold for long.
    pub(crate) fn stuck(&self, from: HostId, number: u64) {
        let (a, Some(messages)) = (&self.cluster.ballots, &self.cluster.messages) else { return };
        let life = messages.group().get(&from).copied();
        if life.is_some_and(|life| a.agreed.borrow().expelled.contains(&(from, life))) {
            return messages.tell(&[from], &Tell::Expelled);
        }
        if number >= a.number() {
            a.promise_above(number);
            a.again.set(true);
            a.wake.notify_one();
        }
    }
}
