//! One torus over several daemons: programs that check their own results run on all of them at once, over
//! good networks and bad ones; a host that dies ends the job with a report and comes back.

use abi::launch::{ADAPTER_SOCKET, CONTROL_SOCKET, LOCK_FILE};
use abi::msg::{Reply, Request};
use angara_tests::daemon::Control;
use angara_tests::process::{PATIENCE, Running, poll_until};
use angara_tests::{Test, tools};
use rustix::process::Signal;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest a program may take on a busy machine with a bad network.
const LIMIT: Duration = Duration::from_secs(150);

/// Daemons of one cluster, on 127.0.0.1, 127.0.0.2 and so on, or each in a network namespace of its own.
struct Cluster<'t> {
    test: &'t Test,
    file: PathBuf,
    daemons: Vec<Option<Running>>,
    namespaces: Option<Namespaces>,
}

/// Network namespaces joined by a bridge, which lies in one of its own.
struct Namespaces {
    names: Vec<String>,
}

impl Namespaces {
    /// One per host, named after this process; an error where the kernel or our rights do not allow it.
    fn new(hosts: usize) -> Result<Namespaces, String> {
        let made = Namespaces { names: (0..=hosts).map(|h| format!("angara{}-{h}", std::process::id())).collect() };
        let switch = &made.names[hosts];
        for name in &made.names {
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        ip(&format!("-n {switch} link add switch type bridge"))?;
        ip(&format!("-n {switch} link set switch up"))?;
        for (h, name) in made.names[..hosts].iter().enumerate() {
            ip(&format!("-n {name} link add eth0 type veth peer name port{h} netns {switch}"))?;
            ip(&format!("-n {switch} link set port{h} master switch up"))?;
            ip(&format!("-n {name} address add 10.77.0.{}/24 dev eth0", h + 1))?;
            ip(&format!("-n {name} link set eth0 up"))?;
        }
        Ok(made)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            // Those that were never made are no loss.
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

fn ip(words: &str) -> Result<(), String> {
    let done = Command::new("ip").args(words.split(' ')).output().map_err(|e| format!("ip: {e}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("ip {words}: {}", String::from_utf8_lossy(&done.stderr).trim())),
    }
}

impl<'t> Cluster<'t> {
    /// Starts `hosts` daemons that share a torus of this shape, and waits until all trunks are up.
    fn start(test: &'t Test, torus: &str, hosts: usize) -> Cluster<'t> {
        let hosts = (0..hosts).map(|h| format!("127.0.0.{}:{}", h + 1, free_port(h + 1))).collect();
        Cluster::start_on(test, torus, hosts, None)
    }

    fn start_on(test: &'t Test, torus: &str, addresses: Vec<String>, namespaces: Option<Namespaces>) -> Cluster<'t> {
        let file = test.file("cluster.toml");
        let hosts = addresses.len();
        let names = addresses.iter().enumerate().map(|(h, address)| format!("h{h}={address}"));
        let mut init = test.angara(["cluster", "init", "--torus", torus, "--hosts"]);
        init.arg(names.collect::<Vec<_>>().join(",")).arg("--out").arg(&file);
        test.run(init).success();
        // A busy machine may keep a daemon from running for longer than the usual second.
        let text = std::fs::read_to_string(&file).expect("just written");
        std::fs::write(&file, format!("dead-after = \"10s\"\n{text}")).expect("the directory is writable");
        let mut cluster = Cluster { test, file, daemons: Vec::new(), namespaces };
        for host in 0..hosts {
            let daemon = cluster.daemon(host);
            cluster.daemons.push(Some(daemon));
        }
        cluster.wait_up();
        cluster
    }

    fn dir(&self, host: usize) -> PathBuf {
        self.test.runtime_dir().with_file_name(format!("h{host}"))
    }

    fn daemon(&self, host: usize) -> Running {
        let fabricd = tools::tool("fabricd");
        let mut command = match &self.namespaces {
            None => self.test.command(fabricd),
            Some(all) => {
                let mut command = self.test.command("ip");
                command.args(["netns", "exec", &all.names[host]]).arg(fabricd);
                command
            }
        };
        command.arg("--cluster").arg(&self.file).args(["--host", &format!("h{host}")]);
        command.arg("--runtime-dir").arg(self.dir(host));
        let daemon = self.test.spawn(command);
        daemon.expect_line("{");
        daemon
    }

    fn control(&self, host: usize) -> Control {
        Control::connect(&self.dir(host))
    }

    /// Waits until every daemon sees every other one.
    fn wait_up(&self) {
        for host in (0..self.daemons.len()).filter(|h| self.daemons[*h].is_some()) {
            let mut control = self.control(host);
            let up = || match control.ask(&Request::Cluster).expect("a daemon of a cluster") {
                Reply::Cluster(status) => status.peers.iter().all(|p| p.up),
                other => panic!("unexpected {other:?}"),
            };
            assert!(poll_until(up), "host h{host} does not see all others");
        }
    }

    /// `angara run` on the first host.
    fn run(&self, args: &[&str], program: &Path) -> Command {
        let mut command = self.test.angara(["run", "--cluster"]);
        command.arg(&self.file).arg("--runtime-dir").arg(self.dir(0)).args(args).arg("--").arg(program);
        command
    }

    /// Makes every trunk bad, or good again.
    fn fault(&self, spec: &str) {
        let mut command = self.test.angara(["fault"]);
        command.args(spec.split_whitespace()).arg("--runtime-dir").arg(self.dir(0));
        self.test.run(command).success();
    }

    /// Ends all daemons in order.
    fn shutdown(self) {
        for (host, daemon) in self.daemons.iter().enumerate() {
            if daemon.is_some() {
                self.control(host).ask(&Request::Shutdown).expect("a daemon obeys");
            }
        }
        for daemon in self.daemons.into_iter().flatten() {
            daemon.wait(PATIENCE).success();
        }
    }
}

/// A port nobody uses on 127.0.0.`last`.
fn free_port(last: usize) -> u16 {
    let socket = UdpSocket::bind(format!("127.0.0.{last}:0")).expect("a loopback address");
    socket.local_addr().expect("it is bound").port()
}

fn programs() -> Vec<(&'static str, PathBuf, &'static str)> {
    ["rma", "amo", "sync", "collectives", "teams"]
        .map(|name| (name, tools::compile(&format!("tests/c/openshmem/{name}.c")), " passed"))
        .into_iter()
        .collect()
}

fn run_all(cluster: &Cluster<'_>, args: &[&str]) {
    let mut failures = Vec::new();
    for (name, program, passed) in programs() {
        let mut all = args.to_vec();
        all.extend(["--timeout", "120", "--heap", "16M"]);
        match cluster.test.spawn(cluster.run(&all, &program)).try_wait(LIMIT) {
            Ok(done) if done.code() == 0 && done.stdout.contains(passed) => {}
            Ok(done) => failures.push(done.to_string()),
            Err(still) => failures.push(format!("{name} {args:?} hangs\n{}", still.so_far())),
        }
    }
    assert!(failures.is_empty(), "{} runs failed:\n\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn conformance_programs_run_on_two_hosts() {
    let test = Test::new("cluster-two");
    let cluster = Cluster::start(&test, "2x2x1", 2);
    run_all(&cluster, &["-n", "4"]);
    run_all(&cluster, &["-n", "4", "--path", "ring"]);
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn conformance_programs_run_on_four_hosts() {
    let test = Test::new("cluster-four");
    let cluster = Cluster::start(&test, "4x4x2", 4);
    run_all(&cluster, &["-n", "8", "--map", "random:1"]);
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn conformance_programs_run_between_network_namespaces() {
    let namespaces = match Namespaces::new(4) {
        Ok(namespaces) => namespaces,
        Err(why) => return eprintln!("skipped: no network namespaces with veth and a bridge here: {why}"),
    };
    let test = Test::new("cluster-netns");
    let addresses = (1..=4).map(|h| format!("10.77.0.{h}")).collect();
    let cluster = Cluster::start_on(&test, "4x4x2", addresses, Some(namespaces));
    run_all(&cluster, &["-n", "8", "--map", "random:3"]);
    cluster.fault("trunk all drop=1% reorder=1% dup=1% seed=3");
    run_all(&cluster, &["-n", "8", "--map", "random:4"]);
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn a_bad_network_changes_no_result() {
    let test = Test::new("cluster-bad");
    let cluster = Cluster::start(&test, "4x4x2", 4);
    for bad in ["drop=1%", "drop=10%", "reorder=5%", "dup=5%", "corrupt=5%"] {
        cluster.fault(&format!("trunk all {bad} seed=7"));
        run_all(&cluster, &["-n", "8", "--map", "random:2"]);
    }
    cluster.fault("trunk all clear");
    let Ok(Reply::Cluster(status)) = cluster.control(0).ask(&Request::Cluster) else { panic!("no status") };
    assert!(status.peers.iter().all(|p| p.replays > 0), "{status:?}");
    assert!(status.peers.iter().any(|p| p.refused.get("forged").is_some_and(|n| *n > 0)), "{status:?}");
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn link_faults_hold_on_every_host() {
    let test = Test::new("cluster-fault");
    let cluster = Cluster::start(&test, "4x2", 2);
    for spec in ["link 0,0 +X down", "link 1,0 +X corrupt=20%", "node 2,1 down"] {
        cluster.fault(spec);
    }
    for host in 0..2 {
        assert_eq!(cluster.control(host).status().faults.len(), 3, "host h{host}");
    }
    // Node 6 is down: PEs 0 to 5 are on nodes 0 to 5.
    run_all(&cluster, &["-n", "6"]);
    cluster.fault("all clear");
    assert!((0..2).all(|host| cluster.control(host).status().faults.is_empty()));
    run_all(&cluster, &["-n", "8"]);
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn a_killed_daemon_ends_the_job_with_a_report_and_comes_back() {
    let test = Test::new("cluster-kill");
    let mut cluster = Cluster::start(&test, "4x2", 2);
    let steps = tools::compile("tests/c/steps.c");
    let mut command = cluster.run(&["-n", "8"], &steps);
    command.stdin(std::process::Stdio::piped());
    let running = test.spawn(command);
    let attached = || cluster.control(0).status().jobs.iter().any(|j| j.attached == 8);
    assert!(poll_until(attached), "{}", running.so_far());
    let victim = cluster.daemons[1].take().expect("it runs");
    victim.process().signal(Signal::KILL);
    let done = running.wait(PATIENCE);
    assert_eq!(done.code(), 1, "{done}");
    assert!(done.stderr.contains("host h1 was lost: nothing was heard from it"), "{done}");
    drop(victim);
    let refused = test.run(cluster.run(&["-n", "8"], &steps));
    assert!(refused.code() != 0 && refused.stderr.contains("h1"), "{refused}");
    let again = cluster.daemon(1);
    cluster.daemons[1] = Some(again);
    cluster.wait_up();
    run_all(&cluster, &["-n", "8"]);
    cluster.shutdown();
    for name in [ADAPTER_SOCKET, CONTROL_SOCKET, LOCK_FILE] {
        assert!(!test.runtime_dir().with_file_name("h1").join(name).exists(), "{name} survived");
    }
    test.assert_clean();
}

#[test]
fn mpi_launchers_start_jobs_across_hosts() {
    let test = Test::new("cluster-mpi");
    let cluster = Cluster::start(&test, "4x2", 2);
    let program = tools::compile("tests/c/openshmem/collectives.c");
    let open_mpi = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"];
    for launcher in [&["mpiexec.hydra"][..], &open_mpi] {
        if !tools::have(launcher[0]) {
            println!("skipped: no {} (Debian: apt-get install mpich openmpi-bin)", launcher[0]);
            continue;
        }
        // Which process is where is the launcher's choice, and need not follow the nodes: 3 on one host, 2 on the other.
        let start = |options: &str| {
            let mut command = test.command(launcher[0]);
            command.args(&launcher[1..]);
            for (host, pes) in [(1, "2"), (0, "3")] {
                let dir = format!("{}={}", abi::launch::ENV_RUNTIME_DIR, cluster.dir(host).display());
                if host == 0 {
                    command.arg(":");
                }
                command.args(["-n", pes, "env", &dir]).arg(&program);
            }
            command.env("ANGARA_OPTIONS", format!("--cluster {} --heap 16M {options}", cluster.file.display()));
            test.run(command)
        };
        let report = test.file(&format!("{}.json", launcher[0]));
        let done = start(&format!("--report {}", report.display())).success();
        assert!(done.stdout.contains(" passed"), "{launcher:?}: {done}");
        let shown = test.run(test.angara(["report", report.to_str().expect("utf-8")])).success();
        assert!(shown.stdout.contains("5 PEs"), "{shown}");
        let text = std::fs::read_to_string(&report).expect("written");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        // h1 has the right half of the torus: nodes 2, 3, 6, 7; h0 the left one.
        assert_eq!(report["placement"], serde_json::json!([2, 3, 0, 1, 4]), "{launcher:?}");
        let done = start("--ppn 1 --torus 2");
        assert!(done.code() != 0, "{launcher:?}: a cluster and a torus exclude each other: {done}");
    }
    cluster.shutdown();
    test.assert_clean();
}
