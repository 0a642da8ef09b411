//! One pass: which held jobs are released, onto which sets.

use super::shadow::Shadow;
use super::{Condition, Hosts, Job, Layout, State, set_comment};
use angara_net::torus::NodeId;
use angara_placement::{Machine, NodeSet, Search};

/// Which held jobs are chosen for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted<'a> {
    /// Those with this comment.
    Marked(&'a str),
    /// Every one.
    All,
}

/// What a pass looks at.
pub struct World<'a> {
    /// Hosts and nodes.
    pub layout: &'a Layout,
    /// The torus with links and nodes that are dead whatever Slurm says.
    pub machine: &'a Machine,
    /// Nodes as Slurm has them.
    pub hosts: &'a Hosts,
    /// Jobs as Slurm has them.
    pub jobs: &'a [Job],
    /// How sets are searched for.
    pub search: &'a dyn Search,
    /// Whose nodes are chosen.
    pub wanted: Wanted<'a>,
    /// Seconds since 1970.
    pub now: u64,
}

/// Nodes of a job, and what it and the administrator read about them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub set: NodeSet,
    /// Its hosts, as Slurm takes them.
    pub hosts: String,
    /// Comment by which the set is known.
    pub comment: String,
}

/// What is to be done about a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It gets these nodes and is released.
    Start { job: String, place: Place },
    /// It is the first of the queue, and must wait.
    Waits { job: String, why: String },
    /// It stays on hold, whatever becomes free.
    Left {
        job: String,
        why: String,
        /// What helps.
        remedy: String,
    },
    /// It was released, has not started, and a node of its set has died: another set is to be found.
    HoldAgain {
        job: String,
        /// The node's host.
        host: String,
    },
}

/// Nodes of a job and its latest end.
type Going = (u64, Vec<NodeId>);

/// Ends that nobody knows; far away, with room to add to it.
const NEVER: u64 = u64::MAX / 4;

impl World<'_> {
    /// Decides about every job. Jobs start in the order of their submission. Later ones overtake as in EASY
    /// backfilling: where they end before the first one can start, or leave it enough nodes, by their time limits.
    pub fn plan(&self) -> Vec<Decision> {
        let mut decisions = Vec::new();
        let empty = self.empty();
        let (mut machine, mut going) = (empty.clone(), Vec::new());
        for job in self.jobs {
            let held = self.held(job, &mut decisions);
            if !held.is_empty() {
                take(&mut machine, held.iter().copied());
                let end = if job.end > self.now { job.end } else { self.now + job.limit.unwrap_or(NEVER) };
                going.push((end, held));
            }
        }
        let busy = |node: &NodeId| self.hosts.condition(*node) == Condition::Busy;
        take(&mut machine, (0..self.layout.shape().nodes() as NodeId).filter(busy));
        let mut first: Option<Option<Shadow>> = None;
        for job in self.queue() {
            if let Some((why, remedy)) = self.hopeless(job, &empty) {
                decisions.push(Decision::Left { job: job.id.clone(), why, remedy });
                continue;
            }
            let usable = self.usable(&machine, job);
            let end = self.now + job.limit.unwrap_or(NEVER);
            let (room, before) = match &first {
                None => (usable.free(), true),
                Some(None) => continue,
                Some(Some(shadow)) if end <= shadow.time => (usable.free(), true),
                Some(Some(shadow)) => (shadow.extra.min(usable.free()), false),
            };
            let found = if job.count <= room { self.search.find(&usable, job.count) } else { None };
            match found.filter(|set| set.size() <= room) {
                Some(set) => {
                    take(&mut machine, set.held());
                    if let (Some(Some(shadow)), false) = (&mut first, before) {
                        shadow.extra -= set.size();
                    }
                    going.push((end, set.held().collect()));
                    decisions.push(Decision::Start { job: job.id.clone(), place: self.place(set) });
                }
                None if first.is_none() => {
                    let name = self.search.name();
                    let why = format!("{name} finds no {} nodes among the {} that are free", job.count, usable.free());
                    decisions.push(Decision::Waits { job: job.id.clone(), why });
                    first = Some(self.shadow(job, usable.free(), &going, &empty));
                }
                None => {}
            }
        }
        decisions
    }

    /// The machine without jobs: what is dead for Slurm is dead.
    fn empty(&self) -> Machine {
        let mut machine = self.machine.clone();
        let dead = |node: &NodeId| self.hosts.condition(*node) == Condition::Dead;
        take(&mut machine, (0..self.layout.shape().nodes() as NodeId).filter(dead));
        machine
    }

    /// Nodes that a job has, or that were chosen for it.
    fn held(&self, job: &Job, decisions: &mut Vec<Decision>) -> Vec<NodeId> {
        let set = set_comment::read(&job.admin_comment, self.layout.shape().nodes());
        match (job.state, set) {
            (State::Running, set) => {
                let mut nodes = self.layout.nodes(&job.hosts).unwrap_or_default();
                nodes.extend(set.into_iter().flat_map(|set| set.transit));
                nodes
            }
            // Released, and not started yet.
            (State::Pending, Some(set)) => {
                let dead = |node: &NodeId| self.hosts.condition(*node) == Condition::Dead;
                if let Some(node) = set.held().find(dead) {
                    let host = self.layout.name(node).to_string();
                    decisions.push(Decision::HoldAgain { job: job.id.clone(), host });
                    return Vec::new();
                }
                set.held().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Held jobs in order of submission.
    fn queue(&self) -> Vec<&Job> {
        let ours = |job: &&Job| match self.wanted {
            Wanted::All => true,
            Wanted::Marked(mark) => job.comment == mark,
        };
        let known = |job: &&Job| job.partitions.iter().any(|name| self.hosts.partitions.contains_key(name));
        let due = |job: &&Job| job.eligible <= self.now;
        let held = self.jobs.iter().filter(|job| job.state == State::Held);
        let mut queue: Vec<&Job> = held.filter(ours).filter(known).filter(due).collect();
        // Slurm's own order is by priority, and that of held jobs is 0. Equal instants keep the order of numbers.
        queue.sort_by_key(|job| (job.submit, number_of(&job.id)));
        queue
    }

    /// Why a job cannot be released even on the empty machine, and what helps.
    fn hopeless(&self, job: &Job, empty: &Machine) -> Option<(String, String)> {
        if let Some(option) = job.demand {
            let why = format!("it asks for more than a number of nodes ({option})");
            return Some((
                why,
                format!("submit it without {option}, or release it by hand: scontrol release {}", job.id),
            ));
        }
        let nodes = self.layout.shape().nodes();
        if !job.required.is_empty() && set_comment::read(&job.admin_comment, nodes).is_none() {
            let why = format!("it names its nodes itself ({})", job.required);
            return Some((why, format!("submit it without --nodelist, or release it: scontrol release {}", job.id)));
        }
        let cancel =
            format!("cancel it (scancel {}), or ask for fewer: scontrol update JobId={} NumNodes=N", job.id, job.id);
        if job.count > nodes {
            let why = format!("it asks for {} nodes, and {} has {nodes}", job.count, self.layout.shape());
            return Some((why, cancel));
        }
        let usable = self.usable(empty, job);
        if job.count > usable.free() {
            let why = format!(
                "it asks for {} nodes, and {} nodes of {} work",
                job.count,
                usable.free(),
                job.partitions.join(",")
            );
            return Some((why, format!("bring nodes back (scontrol update NodeName=… State=RESUME), or {cancel}")));
        }
        if self.search.find(&usable, job.count).is_none() {
            let (name, free) = (self.search.name(), usable.free());
            let why = format!("{name} finds no set of {} nodes though no job ran; {free} work", job.count);
            return Some((why, format!("try another --policy, bring nodes back, or {cancel}")));
        }
        None
    }

    /// The machine as one job may use it: nodes of its partitions that it does not exclude.
    fn usable(&self, machine: &Machine, job: &Job) -> Machine {
        let excluded = self.layout.nodes(&job.excluded).unwrap_or_default();
        let partitions: Vec<_> = job.partitions.iter().filter_map(|name| self.hosts.partitions.get(name)).collect();
        let outside = |node: &NodeId| excluded.contains(node) || !partitions.iter().any(|nodes| nodes.contains(node));
        let mut usable = machine.clone();
        take(&mut usable, (0..self.layout.shape().nodes() as NodeId).filter(outside));
        usable
    }

    /// When the first job of the queue can start, by time limits.
    fn shadow(&self, job: &Job, free: usize, going: &[Going], empty: &Machine) -> Option<Shadow> {
        let usable = self.usable(empty, job);
        let held = |nodes: &[NodeId]| nodes.iter().filter(|&&node| usable.is_free(node)).count();
        let mut ends: Vec<(u64, usize)> = going.iter().map(|(end, nodes)| (*end, held(nodes))).collect();
        ends.sort_unstable();
        Shadow::of(free, job.count, ends.into_iter())
    }

    fn place(&self, set: NodeSet) -> Place {
        Place { hosts: self.layout.list(&set.nodes), comment: set_comment::write(&set), set }
    }
}

/// Takes those of the nodes that are free: Slurm knows of more than one reason why a node is not.
fn take(machine: &mut Machine, nodes: impl Iterator<Item = NodeId>) {
    let mut free: Vec<NodeId> = nodes.filter(|&node| machine.is_free(node)).collect();
    free.sort_unstable();
    free.dedup();
    machine.take(&NodeSet::of(free));
}

/// A job's number and task, to sort by.
fn number_of(id: &str) -> (u64, u64) {
    let (job, task) = id.split_once('_').unwrap_or((id, "0"));
    (job.parse().unwrap_or(u64::MAX), task.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests;
