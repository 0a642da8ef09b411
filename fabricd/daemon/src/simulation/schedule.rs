//! What happens in a simulation, and when: all of it follows from a seed.

use super::random::Random;
use angara_abi::job::Barrier;
use angara_net::torus::{Direction, NodeId, Shape};

/// Shapes and numbers of hosts.
const CLUSTERS: [(&str, usize); 8] =
    [("2", 2), ("4", 2), ("2x2", 2), ("3", 3), ("2x2", 4), ("3x2", 3), ("4x2", 4), ("3x2", 3)];
/// When the first job is started, in milliseconds.
const FIRST_JOB: u64 = 1_500;
/// Events of a schedule, and how many more there may be.
const EVENTS: u64 = 31;
const MORE_EVENTS: u64 = 10;

/// Something that happens.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Act {
    /// The daemon dies, and starts again after N milliseconds.
    Crash(usize, u64),
    /// It is told to end, and starts again.
    Shutdown(usize, u64),
    /// The daemon does not run for N milliseconds; its PEs do.
    Freeze(usize, u64),
    /// Its control plane does not run for so long, but its data plane does.
    Stall(usize, u64),
    /// Its data plane and its control plane are slow for so long.
    Slow(usize, u64),
    /// The clock that its trunks go by is set by N milliseconds.
    Step(usize, i64),
    /// Nothing passes between hosts of this set and others for so long.
    Split(u64, u64),
    /// Datagrams between two hosts are lost, doubled and late: percent, percent, most milliseconds.
    Bad(usize, usize, [u64; 3]),
    /// `angara fault …` on a host.
    Fault(usize, String),
    /// A launcher on a host starts a job.
    Job(usize, JobPlan),
    /// The launcher of the so-manieth job goes away.
    Leave(usize),
    /// A PE of a job is killed, or exits in the middle of its program.
    EndPe(usize, usize, bool),
    /// A host has left the so-manieth job, and nobody has heard of it. Chance leaves this out.
    Forget(usize, usize),
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct JobPlan {
    /// Of each PE.
    pub(super) nodes: Vec<NodeId>,
    pub(super) barrier: Barrier,
    /// Barriers, with operations before each.
    pub(super) rounds: u32,
    /// Operations of a PE in a round.
    pub(super) ops: u64,
    /// Most milliseconds a PE thinks between two rounds.
    pub(super) think: u64,
}

/// The acts of a run by time in milliseconds, and where they happen. The first one starts a job; the clock of the others
/// stands still until it runs.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) shape: Shape,
    pub(super) hosts: usize,
    pub(super) acts: Vec<(u64, Act)>,
    /// When everything is repaired.
    pub(super) repaired: u64,
}

/// How often kinds of acts happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub(super) events: u64,
    pub(super) crashes: u64,
    pub(super) splits: u64,
    pub(super) jobs: u64,
}

impl Schedule {
    pub(super) fn new(seed: u64) -> Schedule {
        let mut random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed);
        let (shape, hosts) = CLUSTERS[random.below(CLUSTERS.len() as u64) as usize];
        let shape: Shape = shape.parse().expect("a shape");
        // Some schedules leave time between events, in others they come thick and fast.
        let gap = random.of(&[20, 60, 120, 250]);
        let mut acts = Vec::new();
        // By then the hosts have found each other; the rest waits for this job.
        let mut at = FIRST_JOB + random.below(200);
        let mut maker = Maker { random, shape, hosts, jobs: 0 };
        acts.push((at, maker.job()));
        let count = EVENTS + maker.random.below(MORE_EVENTS);
        let (crash, split) = (maker.random.below(count), maker.random.below(count));
        for i in 0..count {
            at += maker.random.below(2 * gap);
            match i {
                _ if i == crash => acts.push((at, maker.crash())),
                _ if i == split => acts.push((at, maker.split())),
                _ => maker.any(at, &mut acts),
            }
        }
        acts.sort_by_key(|(at, _)| *at);
        let last = acts.last().map_or(0, |(at, _)| *at);
        let repaired = last + maker.random.of(&[0, 20, 60, 90, 200, 1000]);
        Schedule { shape, hosts, acts, repaired }
    }

    pub(super) fn counts(&self) -> Counts {
        let of = |f: fn(&Act) -> bool| self.acts.iter().filter(|(_, act)| f(act)).count() as u64;
        Counts {
            events: self.acts.len() as u64,
            crashes: of(|a| matches!(a, Act::Crash(..))),
            splits: of(|a| matches!(a, Act::Split(..))),
            jobs: of(|a| matches!(a, Act::Job(..))),
        }
    }

    /// Host of each node.
    pub(super) fn owner(&self, node: NodeId) -> usize {
        node as usize * self.hosts / self.shape.nodes()
    }
}

struct Maker {
    random: Random,
    shape: Shape,
    hosts: usize,
    jobs: usize,
}

impl Maker {
    fn host(&mut self) -> usize {
        self.random.below(self.hosts as u64) as usize
    }

    fn two(&mut self) -> (usize, usize) {
        let a = self.host();
        (a, (a + 1 + self.random.below(self.hosts as u64 - 1) as usize) % self.hosts)
    }

    fn job(&mut self) -> Act {
        self.jobs += 1;
        let pes = 2 + self.random.below(3);
        let nodes = (0..pes).map(|_| self.random.below(self.shape.nodes() as u64) as NodeId).collect();
        let families = [
            Barrier::Auto,
            Barrier::Multiphase,
            Barrier::AllToAll,
            Barrier::Tree,
            Barrier::Hypercube,
            Barrier::Master,
            Barrier::Counting,
        ];
        let plan = JobPlan {
            nodes,
            barrier: self.random.of(&families),
            rounds: 2 + self.random.below(12) as u32,
            ops: 1 + self.random.below(4),
            think: self.random.of(&[1, 20, 150]),
        };
        Act::Job(self.host(), plan)
    }

    fn crash(&mut self) -> Act {
        Act::Crash(self.host(), self.random.of(&[1, 20, 100, 400, 1500]))
    }

    fn split(&mut self) -> Act {
        let set = 1 + self.random.below((1 << (self.hosts - 1)) - 1);
        Act::Split(set, self.random.of(&[20, 150, 600, 900, 2000]))
    }

    fn any(&mut self, at: u64, acts: &mut Vec<(u64, Act)>) {
        let host = self.host();
        let act = match self.random.below(32) {
            0 | 1 => self.crash(),
            2 => Act::Shutdown(host, self.random.of(&[1, 50, 500])),
            // Who is heard but does not answer for so long is expelled.
            3 if self.random.one_in(3) => Act::Stall(host, self.random.of(&[300, 2_000, 9_000])),
            3 | 4 => Act::Freeze(host, self.random.of(&[1, 20, 150, 500, 1200])),
            5 | 6 => Act::Slow(host, self.random.of(&[20, 150, 600])),
            7 => Act::Step(host, self.random.below(8000) as i64 - 3000),
            8..=10 => self.split(),
            11..=14 => {
                let (a, b) = self.two();
                let quality =
                    [self.random.of(&[0, 0, 5, 30]), self.random.of(&[0, 0, 10]), self.random.of(&[1, 3, 20])];
                Act::Bad(a, b, quality)
            }
            15..=18 if self.jobs < 5 => self.job(),
            15 | 16 => Act::Leave(self.random.below(self.jobs as u64) as usize),
            17..=19 => Act::EndPe(
                self.random.below(self.jobs as u64) as usize,
                self.random.below(4) as usize,
                self.random.one_in(2),
            ),
            20..=24 => return self.trunks(at, acts),
            _ => Act::Fault(host, self.link_fault()),
        };
        acts.push((at, act));
    }

    fn link_fault(&mut self) -> String {
        let node = self.random.below(self.shape.nodes() as u64) as NodeId;
        let dirs: Vec<Direction> =
            Direction::ALL.into_iter().filter(|d| self.shape.neighbour(node, *d).is_some()).collect();
        let dir = dirs[self.random.below(dirs.len() as u64) as usize];
        let shown = self.shape.show(self.shape.coords(node));
        match self.random.below(12) {
            0..=3 => format!("link {shown} {dir} down"),
            4..=5 => format!("link {shown} {dir} up"),
            6 => format!("link {shown} {dir} clear"),
            7 => format!("link {shown} {dir} corrupt={}%", 1 + self.random.below(30)),
            8 => format!("node {shown} drop={}% dup=5% reorder=5%", 1 + self.random.below(20)),
            9 => format!("link {shown} {dir} down @{}ms", 1 + self.random.below(100)),
            10 => format!("node {shown} clear"),
            _ => "all clear".into(),
        }
    }

    /// Trunks are cut or made bad, and soon after good again.
    fn trunks(&mut self, at: u64, acts: &mut Vec<(u64, Act)>) {
        let (host, other) = self.two();
        let name = if self.random.one_in(2) { "all".into() } else { format!("h{other}") };
        if self.random.one_in(3) {
            return acts.push((at, Act::Fault(host, format!("trunk {name} drop=5% dup=3% seed={}", at))));
        }
        acts.push((at, Act::Fault(host, format!("trunk {name} down"))));
        let back = if self.random.one_in(3) { self.random.below(self.hosts as u64) as usize } else { host };
        let later = at + self.random.of(&[1, 20, 70, 120, 400, 1000]);
        if self.random.percent(80) {
            acts.push((later, Act::Fault(back, format!("trunk {name} up"))));
        }
    }
}
