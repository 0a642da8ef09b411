//! Random schedules of faults over real daemons while a job runs whose every byte is checked: daemons are killed,
//! stopped and started again, trunks cut and made bad, links cut, keys wrong.
//!
//! Whatever happens: no wrong data; a job either ends well or says why not, soon after the last fault; afterwards the
//! cluster heals, and neither processes nor jobs nor descriptors nor files are left.
//!
//! `CLUSTER_SCHEDULES=1000 CLUSTER_SEED=1 cargo test --release -p angara-tests --test cluster_schedules` runs more of them.
//! Clocks that jump need no schedule of their own: daemons and trunks know only the monotonic clock, which cannot be
//! set, and one that was stopped for a while sees exactly what a jump would show it.

use abi::torus::{Direction, Shape};
use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::process::{PATIENCE, poll_until};
use angara_tests::{Finished, Rng, Running, Test, tools};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Schedules of an ordinary run.
const USUAL: u64 = 16;
/// Schedules one cluster lives for.
const LIFE: u64 = 20;
/// Shapes and numbers of hosts.
const CLUSTERS: [(&str, usize); 4] = [("4x2", 2), ("4x4", 4), ("3x2x2", 3), ("4x2x2", 4)];
/// Silence after which a host counts as dead.
const DEAD_AFTER: Duration = Duration::from_secs(2);
/// Longest a job may go on after the last fault, on a machine that does much else: it takes `DEAD_AFTER` and
/// what the job itself needs when nothing is wrong.
const BOUND: Duration = Duration::from_secs(60);

/// Something that happens some time after the job was started.
#[derive(Clone, Debug)]
enum Act {
    /// `angara fault …` on a host.
    Fault(usize, String),
    Kill(usize),
    /// Ends in order.
    End(usize),
    Start(usize),
    Stop(usize),
    Continue(usize),
}

#[derive(Debug)]
struct Schedule {
    seed: u64,
    home: usize,
    pes: usize,
    millis: u64,
    options: Vec<String>,
    /// By time in milliseconds.
    acts: Vec<(u64, Act)>,
    /// Before the job: this host has a wrong key.
    wrong_key: Option<usize>,
    /// The job may end because of what happens.
    may_end: bool,
    /// It may not begin: who asks for a job while routes change may be told to try again.
    may_wait: bool,
}

impl Schedule {
    fn new(seed: u64, shape: Shape, hosts: usize) -> Schedule {
        let mut rng = Rng::new(seed);
        let nodes = shape.nodes() as u64;
        let mut s = Schedule {
            seed,
            home: rng.below(hosts as u64) as usize,
            pes: 2 + rng.below(nodes.min(8) - 1) as usize,
            millis: 100 + rng.below(300),
            options: Vec::new(),
            acts: Vec::new(),
            wrong_key: None,
            may_end: false,
            may_wait: false,
        };
        s.options.push("--map".into());
        s.options.push(format!("random:{}", rng.below(1000)));
        if rng.one_in(3) {
            s.options.extend(["--path", "ring"].map(String::from));
        }
        if rng.one_in(4) {
            let family = rng.pick(&["all-to-all", "tree", "hypercube", "master", "counting", "dissemination"]);
            s.options.extend(["--barrier".into(), family.into()]);
        }
        if rng.one_in(20) {
            s.wrong_key = Some(rng.below(hosts as u64) as usize);
            s.may_end = true;
        }
        for _ in 0..1 + rng.below(3) {
            s.add(&mut rng, shape, hosts);
        }
        // Trees of the collective subnet do not outlive a change of routes while they are in use.
        s.may_end |= s.may_wait && s.options.iter().any(|o| o == "ring");
        s.acts.sort_by_key(|(at, _)| *at);
        s
    }

    /// Some trouble.
    fn add(&mut self, rng: &mut Rng, shape: Shape, hosts: usize) {
        let host = rng.below(hosts as u64) as usize;
        let other = (host + 1 + rng.below(hosts as u64 - 1) as usize) % hosts;
        // Starting takes a while, too, and is a time to fail as good as any.
        let at = rng.below(700);
        let name = if rng.one_in(2) { "all".into() } else { format!("h{other}") };
        match rng.below(12) {
            0..=3 => {
                let percent = |rng: &mut Rng| 1 + rng.below(10);
                let what = match rng.below(6) {
                    0 => format!("drop={}%", percent(rng)),
                    1 => format!("dup={}%", percent(rng)),
                    2 => format!("reorder={}%", percent(rng)),
                    3 => format!("corrupt={}%", percent(rng)),
                    4 => format!("delay={}ms", 1 + rng.below(5)),
                    _ => format!("drop=2% dup=2% reorder=2% corrupt=2% rate={}M", 5 + rng.below(50)),
                };
                self.acts.push((at, Act::Fault(host, format!("trunk {name} {what} seed={}", rng.below(1000)))));
            }
            4 => {
                // Short: nobody is given up. Long: everybody is.
                let long = rng.one_in(2);
                let lasts = if long { 2500 + rng.below(1500) } else { 50 + rng.below(400) };
                self.may_end |= long;
                self.acts.push((at, Act::Fault(host, format!("trunk {name} down"))));
                self.acts.push((at + lasts, Act::Fault(host, format!("trunk {name} up"))));
            }
            5 | 6 => {
                let node = rng.below(shape.nodes() as u64) as u32;
                let dirs: Vec<Direction> =
                    Direction::ALL.into_iter().filter(|d| shape.neighbour(node, *d).is_some()).collect();
                let link = format!("link {} {}", shape.show(shape.coords(node)), rng.pick(&dirs));
                // With several links gone there may be no way round that keeps deadlocks out.
                self.may_wait = true;
                self.may_end |= self.acts.iter().any(|(_, a)| matches!(a, Act::Fault(_, f) if f.starts_with("link")));
                self.acts.push((at, Act::Fault(host, format!("{link} down"))));
                if rng.one_in(2) {
                    self.acts.push((at + 50 + rng.below(500), Act::Fault(other, format!("{link} up"))));
                }
            }
            7 | 8 => {
                self.may_end = true;
                self.acts.push((at, if rng.one_in(4) { Act::End(host) } else { Act::Kill(host) }));
                if rng.one_in(2) {
                    self.acts.push((at + 20 + rng.below(600), Act::Start(host)));
                }
            }
            _ => {
                let long = rng.one_in(3);
                let lasts = if long { 2500 + rng.below(1000) } else { 10 + rng.below(600) };
                self.may_end |= long;
                self.acts.push((at, Act::Stop(host)));
                self.acts.push((at + lasts, Act::Continue(host)));
            }
        }
    }
}

/// What became of jobs, for the last line.
#[derive(Default, Debug)]
struct Tally {
    right: u64,
    /// Longest from the last act to the end of a job.
    slowest: Duration,
    reasons: BTreeMap<&'static str, u64>,
}

struct World<'t> {
    cluster: Cluster<'t>,
    shape: Shape,
    program: PathBuf,
    stopped: Vec<bool>,
    /// Descriptors of each daemon when nothing ran, by process. Some are opened at their first use and stay.
    descriptors: BTreeMap<i32, usize>,
    /// `angara fault` commands under way.
    commands: Vec<Running>,
}

impl World<'_> {
    fn new<'t>(test: &'t Test, torus: &str, hosts: usize, seed: u64) -> World<'t> {
        let head = format!("dead-after = \"{}ms\"", DEAD_AFTER.as_millis());
        let engine = if (seed / LIFE).is_multiple_of(2) { "syscall" } else { "uring" };
        let mut cluster = Cluster::prepare(test, torus, Hosts::loopback(hosts), &head, &["--udp-engine", engine]);
        (0..hosts).for_each(|host| cluster.spawn(host));
        cluster.wait_up();
        let shape = torus.parse().expect("a shape");
        let program = tools::compile("tests/c/checked.c");
        let stopped = vec![false; hosts];
        World { cluster, shape, program, stopped, descriptors: BTreeMap::new(), commands: Vec::new() }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Fault(host, spec) => {
                if self.cluster.daemon(*host).is_some() {
                    self.commands.push(self.cluster.test.spawn(self.cluster.fault_on(*host, spec)));
                }
            }
            Act::Kill(host) if self.cluster.daemon(*host).is_some() => {
                let victim = self.cluster.take(*host);
                victim.signal(Signal::KILL);
                self.stopped[*host] = false;
                check_log(&victim.wait(PATIENCE));
            }
            Act::End(host) if self.cluster.daemon(*host).is_some() => {
                self.act(&Act::Continue(*host));
                let daemon = self.cluster.take(*host);
                daemon.signal(Signal::TERM);
                check_log(&daemon.wait(PATIENCE).success());
            }
            Act::Start(host) if self.cluster.daemon(*host).is_none() => self.cluster.spawn(*host),
            Act::Stop(host) => {
                if let Some(daemon) = self.cluster.daemon(*host) {
                    daemon.process().stop();
                    self.stopped[*host] = true;
                }
            }
            Act::Continue(host) => {
                if let Some(daemon) = self.cluster.daemon(*host).filter(|_| self.stopped[*host]) {
                    daemon.signal(Signal::CONT);
                    self.stopped[*host] = false;
                }
            }
            // Killed or started by something else meanwhile.
            Act::Kill(_) | Act::End(_) | Act::Start(_) => {}
        }
    }

    /// Gives a host a wrong key, or the right one again.
    fn key(&mut self, host: usize, wrong: bool) {
        self.act(&Act::End(host));
        let own = self.cluster.own_file(host);
        if wrong {
            let text = std::fs::read_to_string(self.cluster.file(host)).expect("written");
            std::fs::write(&own, text.replace("cluster.key", "wrong.key")).expect("ours");
            let key = self.cluster.test.file("wrong.key");
            std::fs::write(&key, "ab".repeat(32)).expect("ours");
            std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("ours");
        } else {
            std::fs::remove_file(&own).expect("written before");
        }
        self.cluster.spawn(host);
    }

    fn start_job(&self, s: &Schedule) -> Running {
        let pes = s.pes.to_string();
        let mut args = vec!["-n", &pes, "--heap", "1M"];
        args.extend(s.options.iter().map(String::as_str));
        let mut command = self.cluster.run_on(s.home, &args, &self.program);
        command.args([s.seed.to_string(), s.millis.to_string()]);
        self.cluster.test.spawn(command)
    }

    fn run(&mut self, s: &Schedule, tally: &mut Tally) {
        if let Some(host) = s.wrong_key {
            self.key(host, true);
        }
        let job = self.start_job(s);
        let begun = Instant::now();
        let mut last = begun;
        for (at, act) in &s.acts {
            let left = Duration::from_millis(*at).saturating_sub(begun.elapsed());
            if job.process().wait_exit(left) {
                break;
            }
            self.act(act);
            last = Instant::now();
        }
        // Nothing stays stopped; what else is wrong stays until the job has ended.
        (0..self.stopped.len()).for_each(|host| self.act(&Act::Continue(host)));
        let done = job.try_wait(BOUND).unwrap_or_else(|still| {
            let logs: Vec<String> = self.cluster.running().iter().map(|h| self.log(*h)).collect();
            panic!("the job hangs {BOUND:?} after the last fault\n{}\n{}", still.so_far(), logs.join("\n"));
        });
        tally.slowest = tally.slowest.max(last.elapsed());
        self.judge(s, &done, tally);
        if let Some(host) = s.wrong_key {
            let forged = |h: &usize| {
                let peers = self.cluster.status(*h).peers;
                peers[host - usize::from(*h < host)].refused.get("forged").copied().unwrap_or(0)
            };
            let others: Vec<usize> = self.cluster.running().into_iter().filter(|h| *h != host).collect();
            assert!(
                poll_until(|| others.iter().all(|h| forged(h) > 0)),
                "nobody counted what the wrong key has sealed"
            );
            self.key(host, false);
        }
        self.heal();
    }

    fn log(&self, host: usize) -> String {
        self.cluster.daemon(host).map_or(String::new(), |d| format!("h{host}:\n{}", d.so_far()))
    }

    /// The job ended well, or says why not.
    fn judge(&self, s: &Schedule, done: &Finished, tally: &mut Tally) {
        assert!(!done.stdout.contains("WRONG DATA") && done.code() != 42, "{done}");
        assert!(!done.stderr.contains("panicked"), "{done}");
        if done.code() == 0 {
            assert!(done.stdout.contains("all right"), "it ended well without a word: {done}");
            tally.right += 1;
            return;
        }
        // A job that could not begin, with what to do about it; else one that ended, with why.
        let why = match done.stderr.contains("angara: error: ") && done.stderr.contains("angara: try: ") {
            true => "could not begin",
            false => {
                ["was lost", "the daemon (pid", "unreachable", "does not answer", "every route to the target is dead"]
                    .into_iter()
                    .find(|r| done.stderr.contains(r))
                    .unwrap_or_else(|| panic!("no clear report: {done}"))
            }
        };
        let may = s.may_end || (s.may_wait && why == "could not begin");
        assert!(may, "nothing happened that should have ended this job: {done}\n{}", self.log(s.home));
        *tally.reasons.entry(why).or_default() += 1;
    }

    /// Everything is mended; then nothing is left of the job anywhere.
    fn heal(&mut self) {
        for command in std::mem::take(&mut self.commands) {
            // They may fail, where daemons are dead, but not hang.
            let done = command.wait(PATIENCE);
            assert!(!done.stderr.contains("panicked"), "{done}");
        }
        (0..self.cluster.len()).for_each(|host| self.act(&Act::Start(host)));
        // At once: who cut a trunk has to mend it. Those that cannot be told yet are told once all are up.
        let clear = |host| self.cluster.test.spawn(self.cluster.fault_on(host, "trunk all clear"));
        let clearing: Vec<Running> = (0..self.cluster.len()).map(clear).collect();
        clearing.into_iter().for_each(|c| drop(c.wait(PATIENCE)));
        self.cluster.wait_up();
        self.cluster.fault("trunk all clear");
        self.cluster.fault("all clear");
        for host in 0..self.cluster.len() {
            let agreed = || {
                let status = self.cluster.status(host);
                status.settled && status.peers.iter().all(|p| p.up && p.member) && status.dead_trunks.is_empty()
            };
            assert!(poll_until(agreed), "h{host} is not of one mind with the others: {:#?}", self.cluster.status(host));
        }
        for host in 0..self.cluster.len() {
            let idle = || {
                let status = self.cluster.control(host).status();
                status.jobs.is_empty() && status.faults.is_empty()
            };
            assert!(poll_until(idle), "jobs or faults stay: {:?}", self.cluster.control(host).status());
        }
        let alone = || self.cluster.test.processes().iter().all(|p| p.comm == "fabricd");
        assert!(poll_until(alone), "processes stay: {:?}", self.cluster.test.processes());
        for host in 0..self.cluster.len() {
            let pid = self.cluster.daemon(host).map_or(0, |d| d.process().pid);
            let count =
                || std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).map_or(0, Iterator::count);
            let first = *self.descriptors.entry(pid).or_insert_with(count);
            assert!(poll_until(|| count() <= first + 10), "h{host} had {first} descriptors open, now {}", count());
        }
    }

    fn end(self) {
        let running = self.cluster.running();
        let daemons = self.cluster.shutdown();
        assert_eq!(running.len(), daemons.len());
        daemons.iter().for_each(check_log);
    }
}

fn check_log(daemon: &Finished) {
    assert!(!daemon.stderr.contains("panicked"), "{daemon}");
}

#[test]
fn jobs_end_well_or_say_why_whatever_fails() {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (first, count) = (number("CLUSTER_SEED", 1), number("CLUSTER_SCHEDULES", USUAL));
    let mut tally = Tally::default();
    let (begun, mut seed) = (Instant::now(), first);
    while seed < first + count {
        // A single schedule runs on the same cluster as it did among others.
        let (torus, hosts) = CLUSTERS[(seed / LIFE) as usize % CLUSTERS.len()];
        let test = Test::new("schedules");
        let mut world = World::new(&test, torus, hosts, seed);
        world.heal();
        loop {
            let schedule = Schedule::new(seed, world.shape, hosts);
            println!("CLUSTER_SEED={seed} CLUSTER_SCHEDULES=1 repeats: {torus} {schedule:?}");
            world.run(&schedule, &mut tally);
            seed += 1;
            if seed == first + count || seed % LIFE == 0 {
                break;
            }
        }
        let run = Schedule {
            acts: Vec::new(),
            wrong_key: None,
            may_end: false,
            may_wait: false,
            ..Schedule::new(seed, world.shape, hosts)
        };
        world.run(&run, &mut tally);
        world.end();
        test.assert_clean();
    }
    println!("{count} schedules in {:.0?}: {tally:?}", begun.elapsed());
}
