//! `angara alloc slurm` with a real Slurm, where it is installed: a controller and eight nodes on loopback.

use angara_net::torus::{Direction, NodeId, Shape};
use angara_protocol::print::plain_line;
use angara_tests::process::{Finished, PATIENCE, Running, poll_until};
use angara_tests::{Test, tools};
use rustix::process::{Signal, geteuid};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

const TORUS: &str = "2x2x2";
const NODES: usize = 8;

/// Hosts n0 to n7, one node of the torus each.
fn cluster_file(test: &Test) -> PathBuf {
    let mut text = format!(
        "id = \"000102030405060708090a0b0c0d0e0f\"\ntorus = \"{TORUS}\"\n[[key]]\nid = 1\nfile = \"cluster.key\"\n"
    );
    for n in 0..NODES {
        text += &format!("[[host]]\nname = \"n{n}\"\naddresses = [\"127.0.0.{}\"]\nnodes = \"{n}\"\n", n + 1);
    }
    let path = test.file("cluster.toml");
    std::fs::write(&path, text).expect("a file");
    path
}

/// True if a command of Slurm or munge is installed: its daemons know `-V` only.
fn have(name: &str) -> bool {
    Command::new(name).arg("-V").output().is_ok_and(|done| done.status.success())
}

/// The first of N ports in a row that are free now.
fn ports(count: u16) -> u16 {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    // Tests beside this one do not get the same: those of this program count, other programs begin elsewhere.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = 12_000 + (std::process::id() % 400) as u16 * 40;
    let mut all = (0..100).map(|_| begin + NEXT.fetch_add(count, Ordering::Relaxed));
    let found = all.find(|&first| (first..first + count).all(free));
    found.expect("free ports")
}

/// Slurm with its own authentication, in the test's folder.
struct Slurm<'t> {
    test: &'t Test,
    config: PathBuf,
    daemons: Vec<Running>,
}

impl<'t> Slurm<'t> {
    /// `None`, and a note, where it is not installed.
    fn start(test: &'t Test) -> Option<Slurm<'t>> {
        let missing = ["munged", "slurmctld", "slurmd", "sbatch", "scontrol"].into_iter().find(|name| !have(name));
        if let Some(name) = missing {
            println!("skipped: no {name} here");
            return None;
        }
        if !geteuid().is_root() {
            println!("skipped: slurmd starts jobs as root only");
            return None;
        }
        let dir = test.file("slurm");
        for sub in ["state", "spool"] {
            std::fs::create_dir_all(dir.join(sub)).expect("a folder");
        }
        let config = dir.join("slurm.conf");
        std::fs::write(&config, configuration(&dir, ports(NODES as u16 + 1))).expect("a file");
        let mut slurm = Slurm { test, config, daemons: Vec::new() };
        slurm.munge(&dir);
        slurm.daemon("slurmctld", &["-D", "-i"]);
        for n in 0..NODES {
            slurm.daemon("slurmd", &["-D", "-N", &format!("n{n}")]);
        }
        let idle = || slurm.ask("sinfo", ["-h", "-N", "-o", "%T"]).lines().filter(|state| *state == "idle").count();
        assert!(poll_until(|| idle() == NODES), "Slurm does not start: {}", slurm.so_far());
        Some(slurm)
    }

    fn munge(&mut self, dir: &Path) {
        use std::os::unix::fs::PermissionsExt;
        let key = dir.join("munge.key");
        std::fs::write(&key, [7; 64]).expect("a file");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("its mode");
        let place = |option: &str, name: &str| format!("--{option}={}", dir.join(name).display());
        let files = [
            place("key-file", "munge.key"),
            place("socket", "munge.sock"),
            place("pid-file", "munge.pid"),
            place("seed-file", "munge.seed"),
            place("log-file", "munge.log"),
        ];
        let options: Vec<&str> =
            ["--foreground", "--force"].into_iter().chain(files.iter().map(String::as_str)).collect();
        self.daemon("munged", &options);
        assert!(poll_until(|| dir.join("munge.sock").exists()), "munged does not start: {}", self.so_far());
    }

    fn daemon(&mut self, name: &str, arguments: &[&str]) {
        let command = self.command(name, arguments);
        self.daemons.push(self.test.spawn(command));
    }

    fn command<S: AsRef<OsStr>>(&self, name: impl AsRef<OsStr>, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.test.command(name);
        command.args(arguments).env("SLURM_CONF", &self.config);
        command
    }

    fn angara(&self, file: &Path, more: &[&str]) -> Command {
        let mut command = self.command(tools::tool("angara"), ["alloc", "slurm", "--cluster"]);
        command.arg(file).args(more);
        command
    }

    /// What one of Slurm's commands prints, if anything.
    fn ask<S: AsRef<OsStr>>(&self, name: &str, arguments: impl IntoIterator<Item = S>) -> String {
        self.test.run(self.command(name, arguments)).stdout
    }

    fn tell<S: AsRef<OsStr>>(&self, name: &str, arguments: impl IntoIterator<Item = S>) -> Finished {
        self.test.run(self.command(name, arguments)).success()
    }

    /// Submits a job that sleeps; its number.
    fn submit(&self, options: &[&str]) -> String {
        let sleep = ["--parsable", "--wrap=exec sleep 1000"];
        self.tell("sbatch", options.iter().chain(&sleep)).stdout.trim().to_string()
    }

    /// State and reason of a job, such as `PENDING JobHeldUser`.
    fn state(&self, job: &str) -> String {
        self.ask("squeue", ["-h", "-j", job, "-o", "%T %r"]).trim().to_string()
    }

    /// A word of `scontrol show job`.
    fn word(&self, job: &str, name: &str) -> String {
        let shown = self.tell("scontrol", ["-o", "show", "job", job]).stdout;
        let word = shown.split_whitespace().find_map(|word| word.strip_prefix(&format!("{name}=")));
        word.unwrap_or_else(|| panic!("no {name} in {shown}")).to_string()
    }

    /// Nodes of a job that runs, or will soon.
    fn nodes(&self, job: &str) -> BTreeSet<NodeId> {
        let runs = poll_until(|| self.state(job).starts_with("RUNNING"));
        assert!(runs, "job {job} does not run but is {}: {}", self.state(job), self.so_far());
        let names = self.tell("scontrol", ["show", "hostnames", &self.word(job, "NodeList")]).stdout;
        names.lines().map(|name| name[1..].parse().expect("n and a number")).collect()
    }

    fn so_far(&self) -> String {
        self.daemons.iter().map(Running::so_far).collect::<Vec<_>>().join("\n")
    }

    fn shut_down(mut self) {
        self.tell("scancel", ["--user=root"]);
        assert!(poll_until(|| self.ask("squeue", ["-h"]).trim().is_empty()), "jobs do not end: {}", self.so_far());
        // The controller and the nodes need munged until their ends.
        while let Some(daemon) = self.daemons.pop() {
            daemon.signal(Signal::TERM);
            daemon.wait(PATIENCE);
        }
    }
}

/// Processes that start jobs have no mark of the test, so a test that fails ends its jobs itself.
impl Drop for Slurm<'_> {
    fn drop(&mut self) {
        if self.daemons.is_empty() {
            return;
        }
        let run = |name: &str, arguments: &[&str]| self.command(name, arguments).output();
        let _ = run("scancel", &["--user=root"]);
        let none = || run("squeue", &["-h"]).is_ok_and(|done| done.stdout.is_empty());
        poll_until(none);
    }
}

fn configuration(dir: &Path, port: u16) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let host = host.trim().split('.').next().unwrap_or("localhost");
    let (dir, first, last) = (dir.display(), port + 1, port + NODES as u16);
    format!(
        "ClusterName=angara\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmctldPort={port}\n\
         AuthType=auth/munge\nAuthInfo=socket={dir}/munge.sock\nCredType=cred/munge\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n\
         MailProg=/bin/true\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
         SchedulerParameters=sched_interval=1,bf_interval=1\nReturnToService=2\nKillWait=1\n\
         JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
         StateSaveLocation={dir}/state\nSlurmdSpoolDir={dir}/spool/%n\n\
         SlurmctldPidFile={dir}/slurmctld.pid\nSlurmdPidFile={dir}/slurmd-%n.pid\n\
         SlurmdParameters=config_overrides\nCommunicationParameters=NoCtldInAddrAny,NoInAddrAny\n\
         NodeName=n[0-{}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=2 State=UNKNOWN\n\
         PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=EXCLUSIVE State=UP\n",
        NODES - 1
    )
}

/// Tells whether every node reaches every other one over nodes of the set.
fn connected(set: &BTreeSet<NodeId>) -> bool {
    let shape: Shape = TORUS.parse().expect("a shape");
    let mut reached: BTreeSet<NodeId> = set.iter().take(1).copied().collect();
    loop {
        let near = |&node: &NodeId| Direction::ALL.into_iter().filter_map(move |dir| shape.neighbour(node, dir));
        let next: BTreeSet<NodeId> = reached.iter().flat_map(near).filter(|node| set.contains(node)).collect();
        let before = reached.len();
        reached.extend(next);
        if reached.len() == before {
            return reached.len() == set.len();
        }
    }
}

const MARKED: [&str; 3] = ["--hold", "--comment=angara", "--time=60"];

fn marked<'a>(more: &[&'a str]) -> Vec<&'a str> {
    MARKED.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn held_jobs_get_sets_of_a_real_slurm() {
    let test = Test::new("slurm-alloc");
    let Some(slurm) = Slurm::start(&test) else { return };
    let file = cluster_file(&test);
    slurm.tell("scontrol", ["update", "NodeName=n5", "State=DRAIN", "Reason=test"]);
    let four = slurm.submit(&marked(&["-N4"]));
    let two = slurm.submit(&marked(&["-N2"]));
    let large = slurm.submit(&marked(&["-N9"]));
    let unmarked = slurm.submit(&["--hold", "-N1"]);
    let dry = test.run(slurm.angara(&file, &["--dry-run"])).success();
    assert!(dry.stdout.contains(&format!("job {four} would be released")), "{dry}");
    assert_eq!(slurm.state(&four), "PENDING JobHeldUser", "--dry-run changes nothing");

    let mut watcher = test.spawn(slurm.angara(&file, &["--interval=200ms"]));
    watcher.expect_line(&format!("job {four} released"));
    watcher.expect_line(&format!("job {two} released"));
    watcher.expect_error(&format!("job {large} stays on hold: it asks for 9 nodes, and {TORUS} has 8"));
    let (first, second) = (slurm.nodes(&four), slurm.nodes(&two));
    println!("{first:?} {second:?}");
    assert_eq!((first.len(), second.len()), (4, 2));
    assert!(first.is_disjoint(&second), "two jobs at once: {first:?} and {second:?}");
    assert!(!first.contains(&5) && !second.contains(&5), "n5 is drained: {first:?} and {second:?}");
    assert!(connected(&first) && connected(&second), "{first:?} and {second:?}");
    assert_eq!(
        slurm.word(&four, "NumCPUs"),
        "8",
        "whole hosts, of 2 processors each: the partition has OverSubscribe=EXCLUSIVE"
    );
    let comment = slurm.tell("scontrol", ["-o", "show", "job", &two]).stdout;
    let [low, high] = [second.first(), second.last()].map(|node| node.expect("two nodes"));
    let separator = if high - low == 1 { '-' } else { ',' };
    assert!(comment.contains(&format!("AdminComment=angara set nodes={low}{separator}{high} ")), "{comment}");

    // Somebody ends the watcher; the next one knows what runs.
    let third = slurm.submit(&marked(&["-N2"]));
    watcher.expect_line(&format!("job {third} waits"));
    watcher.signal(Signal::TERM);
    assert_eq!(watcher.wait(PATIENCE).code(), 143);
    watcher = test.spawn(slurm.angara(&file, &["--interval=200ms"]));
    watcher.expect_line(&format!("job {third} waits"));
    slurm.tell("scancel", [&four]);
    watcher.expect_line(&format!("job {third} released"));
    let third = slurm.nodes(&third);
    assert!(third.is_subset(&first) && connected(&third), "{third:?} of {first:?}");
    // Tasks of an array go one by one; the last one has the array's own number.
    let array = slurm.submit(&marked(&["-N1", "--array=1-2%1"]));
    watcher.expect_line(&format!("job {array}_1 released"));
    slurm.tell("scancel", [format!("{array}_1")]);
    watcher.expect_line(&format!("job {array}_2 released"));
    assert_eq!(slurm.nodes(&format!("{array}_2")).len(), 1);
    for held in [&large, &unmarked] {
        assert_eq!(slurm.state(held), "PENDING JobHeldUser");
    }
    watcher.signal(Signal::INT);
    assert_eq!(watcher.wait(PATIENCE).code(), 130);
    slurm.shut_down();
    test.assert_clean();
}

#[test]
fn a_set_that_dies_before_its_job_starts_is_replaced() {
    let test = Test::new("slurm-again");
    let Some(slurm) = Slurm::start(&test) else { return };
    let file = cluster_file(&test);
    // A job of somebody else has n0, so that the one of the set waits for it.
    let other = slurm.submit(&["-N1", "--nodelist=n0", "--exclusive"]);
    assert_eq!(slurm.nodes(&other), BTreeSet::from([0]));
    let job = slurm.submit(&marked(&["-N2"]));
    let of = format!("JobId={job}");
    slurm.tell("scontrol", ["update", &of, "ReqNodeList=n0,n1", "AdminComment=angara set nodes=0-1"]);
    slurm.tell("scontrol", ["release", &job]);
    let waits = test.run(slurm.angara(&file, &["--once"])).success();
    assert!(waits.stdout.is_empty(), "nothing is to be done about a released job: {waits}");
    slurm.tell("scontrol", ["update", "NodeName=n1", "State=DRAIN", "Reason=test"]);
    let again = test.run(slurm.angara(&file, &["--once"])).success();
    assert!(again.stdout.contains(&format!("job {job} held again: host n1")), "{again}");
    assert!(slurm.state(&job).starts_with("PENDING JobHeld"), "{}", slurm.state(&job));
    test.run(slurm.angara(&file, &["--once"])).success();
    let nodes = slurm.nodes(&job);
    assert!(nodes.len() == 2 && connected(&nodes) && !nodes.contains(&0) && !nodes.contains(&1), "{nodes:?}");
    slurm.shut_down();
    test.assert_clean();
}

/// Commands that say what Slurm's would, so that Slurm can be made to refuse something.
fn pretend(test: &Test, squeue: &str, scontrol: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let dir = test.file("bin");
    std::fs::create_dir_all(&dir).expect("a folder");
    let sinfo: String = (0..NODES).map(|n| format!("echo 'n{n}|idle|p'\n")).collect();
    for (name, text) in
        [("sinfo", &*sinfo), ("squeue", &format!("cat <<'END'\n{squeue}\nEND\n")), ("scontrol", scontrol)]
    {
        let path = dir.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}")).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    dir
}

#[test]
fn a_job_that_slurm_refuses_keeps_no_nodes_from_others() {
    let test = Test::new("slurm-refused");
    let file = cluster_file(&test);
    let job = |id: u32, nodes: u32| {
        format!(
            r#"{{"job_id": {id}, "job_state": "PENDING", "state_reason": "JobHeldUser", "partition": "p",
                "comment": "angara", "node_count": {nodes}, "submit_time": {id}, "time_limit": 5}}"#
        )
    };
    let squeue = format!(r#"{{"errors": [], "jobs": [{}, {}]}}"#, job(1, 8), job(2, 4));
    let refuse = "case \"$2\" in JobId=1) echo 'slurm_update error: Access/permission denied' >&2; exit 1;; esac\n";
    let dir = pretend(&test, &squeue, refuse);
    let alloc = |more: &str| {
        let mut command = test.angara(["alloc", "slurm", more, "--cluster"]);
        let path = std::env::var("PATH").unwrap_or_default();
        command.arg(&file).env("PATH", format!("{}:{path}", dir.display()));
        command
    };
    let once = test.run(alloc("--once")).failure(&["job 1: `scontrol update", "permission denied", "operators"]);
    assert!(once.stdout.starts_with("job 2 waits"), "job 1 is the first and takes all: {once}");
    let watcher = test.spawn(alloc("--interval=100ms"));
    watcher.expect_line("job 2 released onto n0,n2,n4,n6");
    watcher.signal(Signal::TERM);
    assert_eq!(watcher.wait(PATIENCE).code(), 143);
    test.assert_clean();
}

#[test]
fn what_is_wrong_with_slurm_or_the_file_is_said() {
    let test = Test::new("slurm-wrong");
    let file = cluster_file(&test);
    let alloc = |file: &Path| {
        let mut command = test.angara(["alloc", "slurm", "--once", "--cluster"]);
        command.arg(file);
        command
    };
    let mut none = alloc(&file);
    none.env("PATH", test.file("nothing"));
    test.run(none).failure(&["cannot run `sinfo", "slurm-client"]);
    let shared = test.file("shared.toml");
    let text = std::fs::read_to_string(&file).expect("a file");
    let end = text.find("[[host]]\nname = \"n6\"").expect("a host n6");
    let host = "[[host]]\nname = \"n6\"\naddresses = [\"127.0.0.7\"]\nnodes = \"6-7\"\n";
    std::fs::write(&shared, format!("{}{host}", &text[..end])).expect("a file");
    test.run(alloc(&shared)).failure(&["shared.toml", "`n6` has 2 nodes", "[[host]] of its own"]);
    test.run(alloc(&test.file("no.toml"))).failure(&["cannot read the cluster file"]);
    if !have("sinfo") {
        println!("skipped: no sinfo here");
        return;
    }
    let config = test.file("no-slurm.conf");
    let port = ports(1);
    std::fs::write(
        &config,
        format!("ClusterName=a\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={port}\nMessageTimeout=1\n"),
    )
    .expect("a file");
    let mut silent = alloc(&file);
    silent.env("SLURM_CONF", &config);
    let done = test.run(silent).failure(&["`sinfo", "scontrol ping"]);
    println!("{}", plain_line(&done.stderr));
    test.assert_clean();
}
