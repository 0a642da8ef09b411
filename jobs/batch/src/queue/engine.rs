//! The simulation: events, the machine, and what a scheduler may ask of both.

use super::Job;
use super::schedule::Scheduler;
use angara_placement::{Machine, NodeSet, Search, largest_free_box};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::ops::{ControlFlow, Range};

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    pub start: u64,
    /// Nodes that its set held beyond those of its processes.
    pub transit: usize,
    /// A search found no set for it once, though enough nodes were free.
    pub blocked: bool,
    /// Start that the scheduler's first reservation for it said; `None` if it had none.
    pub promised: Option<u64>,
}

/// Free nodes at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Seconds.
    pub time: u64,
    /// Free nodes.
    pub free: usize,
    /// Of them, nodes of the largest free box.
    pub largest_box: usize,
}

/// A span in which enough nodes were free for the first job that a search found no set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Its beginning and end, seconds.
    pub span: (u64, u64),
    /// Nodes that the job asked for.
    pub nodes: usize,
}

/// What came of a simulation.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Per job: `None` if it was rejected.
    pub ran: Vec<Option<Ran>>,
    /// Spans in which fragmentation kept a job from starting, in order.
    pub blocked: Vec<Blocked>,
    /// Free nodes over time.
    pub samples: Vec<Sample>,
    /// Sets of jobs that ran in the span asked for, by job.
    pub sets: HashMap<usize, NodeSet>,
    /// Most jobs that waited at once.
    pub longest_queue: usize,
}

/// What a simulation records beyond starts.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// At most about N instants at which free boxes are looked at.
    pub samples: usize,
    /// Sets of jobs that run in this span are kept.
    pub sets: Range<u64>,
}

/// What a scheduler sees: the queue, the machine, and estimates of running jobs.
pub struct Desk<'a> {
    now: u64,
    jobs: &'a [Job],
    machine: Machine,
    search: &'a dyn Search,
    /// Waiting jobs in order of submission.
    queue: Vec<u32>,
    /// Estimated end, job and nodes held, of each running job.
    running: BTreeSet<(u64, u32, usize)>,
    /// Ends of running jobs, as they will be.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    sets: HashMap<u32, NodeSet>,
    /// Searches that failed since nodes came back last.
    failures: Failures,
    /// The first job at this instant for which no set was found though enough nodes are free.
    stuck: Option<u32>,
    blocked: Vec<bool>,
    /// What each job's first reservation said.
    promised: Vec<Option<u64>>,
    ran: Vec<Option<Ran>>,
}

/// Numbers of nodes for which a search found no set.
///
/// None is searched for as many until nodes come back; with searches that are monotone, none for more either, which
/// changes nothing. The others might find a set once less is free.
#[derive(Clone, Debug, Default)]
pub struct Failures(BTreeSet<usize>);

impl Failures {
    fn search(&mut self, search: &dyn Search, machine: &Machine, nodes: usize) -> Option<NodeSet> {
        let fewest = self.0.first().is_some_and(|fewest| *fewest <= nodes);
        let hopeless = fewest && search.monotone() || self.0.contains(&nodes);
        let found = if hopeless { None } else { search.find(machine, nodes) };
        if found.is_none() {
            self.0.insert(nodes);
        }
        found
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

impl Desk<'_> {
    /// The time, seconds.
    pub fn now(&self) -> u64 {
        self.now
    }
    /// Waiting jobs in order of submission.
    pub fn queue(&self) -> &[u32] {
        &self.queue
    }
    /// A job by its place in the log.
    pub fn job(&self, job: u32) -> &Job {
        &self.jobs[job as usize]
    }
    /// Number of free nodes.
    pub fn free(&self) -> usize {
        self.machine.free()
    }
    /// Running jobs: estimated end and nodes held, the first to end first.
    pub fn running(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.running.iter().map(|&(end, _, held)| (end, held))
    }

    /// The machine as it is.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
    /// How sets are searched for.
    pub fn search(&self) -> &dyn Search {
        self.search
    }

    /// The machine when those running jobs have ended that are to by `time`, by their estimates.
    pub fn machine_at(&self, time: u64) -> Machine {
        let mut machine = self.machine.clone();
        for (_, job, _) in self.running.iter().take_while(|(end, ..)| *end <= time) {
            machine.give_back(&self.sets[job]);
        }
        machine
    }

    /// Returns a set for a job, or `None` if there is none now.
    pub fn find(&mut self, job: u32) -> Option<NodeSet> {
        let nodes = self.job(job).nodes;
        if nodes > self.machine.free() {
            return None;
        }
        let found = self.failures.search(self.search, &self.machine, nodes);
        self.note(job, found)
    }

    /// The same in a part of what is free. `failures` are those in that part, or in a larger one.
    pub fn find_in(&mut self, part: &Machine, failures: &mut Failures, job: u32) -> Option<NodeSet> {
        let nodes = self.job(job).nodes;
        if nodes > part.free() {
            return None;
        }
        let found = failures.search(self.search, part, nodes);
        self.note(job, found)
    }

    /// Notes that no set was found though enough nodes are free.
    fn note(&mut self, job: u32, found: Option<NodeSet>) -> Option<NodeSet> {
        if found.is_none() {
            self.note_blocked(job);
        }
        found
    }

    /// Notes that no set is found for a job though enough nodes are free.
    pub fn note_blocked(&mut self, job: u32) {
        self.blocked[job as usize] = true;
        self.stuck = Some(self.stuck.map_or(job, |first| first.min(job)));
    }

    /// Notes the start that a reservation says. What a later one says of the same job changes nothing.
    pub fn promise(&mut self, job: u32, start: u64) {
        self.promised[job as usize].get_or_insert(start);
    }

    /// Starts the job at that place of the queue on its set.
    pub fn start(&mut self, place: usize, set: NodeSet) {
        let index = self.queue.remove(place);
        let job = self.jobs[index as usize];
        self.machine.take(&set);
        self.running.insert((self.now + job.estimate, index, set.size()));
        self.ends.push(Reverse((self.now + job.run, index)));
        let (blocked, promised) = (self.blocked[index as usize], self.promised[index as usize]);
        self.ran[index as usize] = Some(Ran { start: self.now, transit: set.transit.len(), blocked, promised });
        self.sets.insert(index, set);
    }

    fn end(&mut self, index: u32) -> NodeSet {
        let set = self.sets.remove(&index).expect("a running job has a set");
        let job = &self.jobs[index as usize];
        let start = self.ran[index as usize].expect("a running job has started").start;
        self.running.remove(&(start + job.estimate, index, set.size()));
        self.machine.give_back(&set);
        self.failures.clear();
        set
    }
}

/// Simulates `jobs`, in order of submission, to the end of the last one. `None` if `asked` wants it to end.
pub fn simulate(
    machine: &Machine,
    jobs: &[Job],
    scheduler: &mut dyn Scheduler,
    search: &dyn Search,
    record: &Record,
    asked: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Option<Outcome> {
    let mut desk = Desk {
        now: 0,
        jobs,
        machine: machine.clone(),
        search,
        queue: Vec::new(),
        running: BTreeSet::new(),
        ends: BinaryHeap::new(),
        sets: HashMap::new(),
        failures: Failures::default(),
        stuck: None,
        blocked: vec![false; jobs.len()],
        promised: vec![None; jobs.len()],
        ran: vec![None; jobs.len()],
    };
    let mut fits = Fits { machine, search, known: HashMap::new() };
    let mut outcome = Outcome::default();
    let every = (2 * jobs.len()).div_ceil(record.samples.max(1)).max(1);
    let (mut next, mut events) = (0, 0);
    loop {
        let submit = jobs.get(next).map(|job| job.submit);
        let end = desk.ends.peek().map(|Reverse((end, _))| *end);
        let Some(now) = submit.into_iter().chain(end).min() else { break };
        if let Some(job) = desk.stuck.take() {
            outcome.blocked.push(Blocked { span: (desk.now, now), nodes: desk.job(job).nodes });
        }
        desk.now = now;
        let before = events;
        while let Some(&Reverse((end, index))) = desk.ends.peek().filter(|Reverse((end, _))| *end == now) {
            desk.ends.pop();
            let set = desk.end(index);
            let start = desk.ran[index as usize].map_or(end, |ran| ran.start);
            if start < record.sets.end && end > record.sets.start {
                outcome.sets.insert(index as usize, set);
            }
            scheduler.ended(index, &desk);
            events += 1;
        }
        while let Some(job) = jobs.get(next).filter(|job| job.submit == now) {
            if fits.empty(job.nodes) {
                desk.queue.push(next as u32);
            }
            next += 1;
            events += 1;
        }
        outcome.longest_queue = outcome.longest_queue.max(desk.queue.len());
        scheduler.pass(&mut desk);
        if record.samples > 0 && before / every != events / every {
            let (free, largest_box) = (desk.machine.free(), largest_free_box(&desk.machine));
            outcome.samples.push(Sample { time: now, free, largest_box });
        }
        if asked(events).is_break() {
            return None;
        }
    }
    assert!(desk.queue.is_empty(), "a scheduler starts what fits the empty machine");
    outcome.ran = desk.ran;
    Some(outcome)
}

/// Sizes of jobs that the empty machine has a set for.
struct Fits<'a> {
    machine: &'a Machine,
    search: &'a dyn Search,
    known: HashMap<usize, bool>,
}

impl Fits<'_> {
    fn empty(&mut self, nodes: usize) -> bool {
        let search = || self.search.find(self.machine, nodes).is_some();
        *self.known.entry(nodes).or_insert_with(search)
    }
}
