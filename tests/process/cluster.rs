//! One torus over several daemons: programs that check their own results run on all of them at once; a host that dies
//! ends the job with a report and comes back. `cluster_matrix` has more hosts, more PEs and bad networks.

use angara_protocol::launch::{ADAPTER_SOCKET, CONTROL_SOCKET, LOCK_FILE};
use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::process::{PATIENCE, poll_until};
use angara_tests::{Test, tools};
use rustix::process::Signal;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest a program may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

fn programs() -> Vec<(&'static str, PathBuf, &'static str)> {
    ["rma", "amo", "sync", "collectives", "teams"]
        .map(|name| (name, tools::compile(&format!("tests/c/openshmem/{name}.c")), " passed"))
        .into_iter()
        .collect()
}

fn run_all(cluster: &Cluster<'_>, args: &[&str]) {
    run(cluster, &programs(), args);
}

fn run(cluster: &Cluster<'_>, programs: &[(&str, PathBuf, &str)], args: &[&str]) {
    let mut failures = Vec::new();
    for (name, program, passed) in programs {
        let mut all = args.to_vec();
        all.extend(["--timeout", "200", "--heap", "16M"]);
        match cluster.test.spawn(cluster.run(&all, program)).try_wait(LIMIT) {
            Ok(done) if done.code() == 0 && done.stdout.contains(*passed) => {}
            Ok(done) => failures.push(done.to_string()),
            Err(still) => failures.push(format!("{name} {args:?} hangs\n{}", still.so_far())),
        }
    }
    assert!(failures.is_empty(), "{} runs failed:\n\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn conformance_programs_run_on_two_hosts() {
    let test = Test::new("cluster-two");
    let cluster = Cluster::start(&test, "2x2x1", Hosts::loopback(2), &[]);
    run_all(&cluster, &["-n", "4"]);
    run_all(&cluster, &["-n", "4", "--path", "ring", "--collectives", "tree"]);
    // Each host counts its own nodes.
    for host in 0..2 {
        let mut status = test.angara(["status", "--runtime-dir"]);
        status.arg(cluster.dir(host));
        let said = test.run(status).success().stdout;
        assert!(said.contains("2 of 4 nodes here (4 on all hosts in reach)"), "{said}");
    }
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn ipv6_and_host_names_work_with_either_socket_engine() {
    let both = match Hosts::ipv6(2) {
        Ok(hosts) => vec![("uring", Hosts::names(3)), ("syscall", hosts)],
        Err(why) => {
            println!("skipped: {why}");
            vec![("uring", Hosts::names(3))]
        }
    };
    for (engine, hosts) in both {
        let test = Test::new("cluster-addresses");
        let cluster = Cluster::start(&test, "3x2", hosts, &["--udp-engine", engine]);
        assert_eq!(cluster.status(0).engine, engine);
        let mut command = cluster.run(&["-n", "6"], &tools::compile("tests/c/checked.c"));
        command.args(["6", "500"]);
        let done = test.run(command).success();
        assert!(done.stdout.contains("on 6 PEs, all right"), "{done}");
        let peers = cluster.status(0).peers;
        assert!(peers.iter().all(|p| p.sent.datagrams > 100 && p.refused.is_empty()), "{peers:?}");
        cluster.shutdown();
        test.assert_clean();
    }
}

#[test]
fn link_faults_hold_on_every_host() {
    let test = Test::new("cluster-fault");
    let cluster = Cluster::start(&test, "4x2", Hosts::loopback(2), &[]);
    for spec in [
        "link 0,0 +X down",
        "link 1,0 +X corrupt=20% dup=5% reorder=5% delay=2us rate=200M",
        "node 2,1 down",
        "node 0,1 dup=1% delay=5us",
    ] {
        cluster.fault(spec);
    }
    for host in 0..2 {
        assert_eq!(cluster.control(host).status().faults.len(), 9, "host h{host}");
    }
    // Node 6 is down: PEs 0 to 5 are on nodes 0 to 5.
    run_all(&cluster, &["-n", "6"]);
    cluster.fault("all clear");
    assert!((0..2).all(|host| cluster.control(host).status().faults.is_empty()));
    // What is to come is known where it was said, and holds everywhere when its time has come.
    cluster.fault("link 0,0 +X down @1s");
    cluster.fault("link 0,0 +X clear");
    cluster.fault("link 0,0 +X reorder=2% @1ms");
    let faults = |host| cluster.control(host).status().faults;
    assert_eq!((faults(0).len(), faults(1).len()), (1, 0));
    run(&cluster, &programs()[..1], &["-n", "8"]);
    let agreed = || (0..2).all(|host| faults(host) == ["link 0,0 +X reorder=2%"]);
    assert!(poll_until(agreed), "on h0 {:?}, on h1 {:?}", faults(0), faults(1));
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn faults_that_wait_for_their_time_are_cleared_on_every_host() {
    let test = Test::new("cluster-waiting");
    let cluster = Cluster::start(&test, "3x2", Hosts::loopback(3), &[]);
    let say = |host, spec: &str| test.run(cluster.fault_on(host, spec));
    let faults = |host| cluster.control(host).status().faults;
    // Nothing runs, so their time does not come.
    for (waiting, clear, left) in [
        (&["link 0,0 +X down @1ms", "link 0,0 +X dup=1% @1ms"][..], "link 0,0 +X up", &["link 0,0 +X dup=1% @1ms"][..]),
        (&["link 0,0 +X down @1ms", "link 1,0 +X drop=1% @1ms"], "link 0,0 +X clear", &["link 1,0 +X drop=1% @1ms"]),
        (&["node 1,0 down @1ms"], "node 1,0 clear", &[]),
        (&["corrupt=1% @1ms", "rate=10M @1ms", "node 0,0 dup=1% @1ms"], "every link clear", &["node 0,0 dup=1% @1ms"]),
        (&["corrupt=1% @1ms", "node 0,0 dup=1% @1ms", "link 0,0 +X down @1ms"], "all clear", &[]),
    ] {
        for host in 1..3 {
            for spec in waiting {
                say(host, spec).success();
            }
            assert_eq!(faults(host).len(), waiting.len(), "{:?}", faults(host));
        }
        say(0, clear).success();
        let left: Vec<String> = left.iter().map(|text| format!("{text} (after the next job has started)")).collect();
        assert_eq!((faults(1), faults(2)), (left.clone(), left.clone()), "{clear}");
        if clear != "all clear" {
            // They are gone everywhere.
            say(2, clear).failure(&["no fault is set on"]);
        }
        say(1, "all clear").success();
        assert!((0..3).all(|host| faults(host).is_empty()));
    }
    // One that waits and one in force are cleared as one; what is set with it is set.
    say(1, "link 0,0 +X down @1ms").success();
    say(2, "link 0,0 +X corrupt=1%").success();
    say(0, "link 0,0 +X clear").success();
    assert!((0..3).all(|host| faults(host).is_empty()));
    say(2, "link 0,0 +X corrupt=1%").success();
    say(1, "link 0,0 +X down @1ms").success();
    say(0, "link 0,0 +X clear dup=2%").success();
    assert!((0..3).all(|host| faults(host) == ["link 0,0 +X dup=2%"]));
    run_all(&cluster, &["-n", "6"]);
    assert!((0..3).all(|host| faults(host) == ["link 0,0 +X dup=2%"]));
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn a_killed_daemon_ends_the_job_with_a_report_and_comes_back() {
    let test = Test::new("cluster-kill");
    let mut cluster = Cluster::start(&test, "4x2", Hosts::loopback(2), &[]);
    let steps = tools::compile("tests/c/steps.c");
    let mut command = cluster.run(&["-n", "8"], &steps);
    command.stdin(std::process::Stdio::piped());
    let running = test.spawn(command);
    let attached = || cluster.control(0).status().jobs.iter().any(|j| j.attached == 8);
    assert!(poll_until(attached), "{}", running.so_far());
    let victim = cluster.take(1);
    victim.process().signal(Signal::KILL);
    let done = running.wait(PATIENCE);
    assert_eq!(done.code(), 1, "{done}");
    assert!(done.stderr.contains("host h1 was lost: nothing was heard from it"), "{done}");
    drop(victim);
    let refused = test.run(cluster.run(&["-n", "8"], &steps));
    assert!(refused.code() != 0 && refused.stderr.contains("h1"), "{refused}");
    cluster.spawn(1);
    cluster.wait_up();
    run(&cluster, &programs()[..1], &["-n", "8"]);
    let dir = cluster.dir(1);
    cluster.shutdown();
    for name in [ADAPTER_SOCKET, CONTROL_SOCKET, LOCK_FILE] {
        assert!(!dir.join(name).exists(), "{name} survived");
    }
    test.assert_clean();
}

#[test]
fn mpi_launchers_start_jobs_across_hosts() {
    let test = Test::new("cluster-mpi");
    let cluster = Cluster::start(&test, "4x2", Hosts::loopback(2), &[]);
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
                let dir = format!("{}={}", angara_protocol::launch::ENV_RUNTIME_DIR, cluster.dir(host).display());
                if host == 0 {
                    command.arg(":");
                }
                command.args(["-n", pes, "env", &dir]).arg(&program);
            }
            command.env("ANGARA_OPTIONS", format!("--cluster {} --heap 16M {options}", cluster.file(0).display()));
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

#[test]
fn a_daemon_that_is_shut_down_is_named_and_jobs_without_a_pe_there_go_on() {
    let test = Test::new("cluster-shut-down");
    let mut cluster = Cluster::start(&test, "3x2x2", Hosts::loopback(3), &[]);
    let steps = tools::compile("tests/c/steps.c");
    let owners = angara_cluster::Cluster::load(&cluster.file(0)).expect("a cluster file").owners();
    let nodes = owners.iter().enumerate().filter(|(_, host)| host.index() < 2).map(|(node, _)| format!("{node}\n"));
    let map = test.file("map");
    std::fs::write(&map, nodes.collect::<String>()).expect("ours");
    let map = format!("file:{}", map.display());
    let job = |cluster: &Cluster<'_>| {
        let mut command = cluster.run(&["-n", "8", "--map", &map], &steps);
        command.stdin(std::process::Stdio::piped());
        let job = test.spawn(command);
        job.expect_line("ready 8");
        job
    };
    // A host without PEs of the job, one with, the launcher's.
    let mut running = job(&cluster);
    let end = |cluster: &mut Cluster<'_>, host| {
        let daemon = cluster.take(host);
        daemon.signal(Signal::TERM);
        daemon.wait(PATIENCE).success();
    };
    end(&mut cluster, 2);
    let without = || cluster.status(0).peers.iter().any(|p| p.host == "h2" && !p.member);
    assert!(poll_until(without), "h2 is not left out: {:#?}", cluster.status(0));
    writeln!(running.take_stdin(), "put 7 5\nget 7\nquit").expect("the job reads");
    running.wait(PATIENCE).success();
    for (host, told) in [(1, "host h1 was lost: its daemon was shut down"), (0, ") was shut down; the job was ended")] {
        cluster.spawn(host + 1);
        cluster.wait_up();
        let running = job(&cluster);
        end(&mut cluster, host);
        let done = running.wait(PATIENCE);
        assert!(done.code() == 1 && done.stderr.contains(told), "h{host}: {done}");
    }
    let left = || test.processes().iter().all(|p| p.comm == "fabricd");
    assert!(poll_until(left), "left: {:?}", test.processes());
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn a_path_for_short_packets_only_is_no_trunk_and_is_named() {
    let test = Test::new("cluster-mtu");
    let hosts = match Hosts::namespaces(2) {
        Ok(hosts) => hosts,
        Err(why) => return println!("skipped: no network namespaces with veth and a bridge here: {why}"),
    };
    for host in 0..2 {
        let words = hosts.words(host);
        let mut narrow = Command::new(&words[0]);
        narrow.args(&words[1..]).args(["ip", "link", "set", "eth0", "mtu", "576"]);
        assert!(narrow.status().expect("ip runs").success());
    }
    let mut cluster = Cluster::prepare(&test, "4x2", hosts, "", &[]);
    (0..2).for_each(|host| cluster.spawn(host));
    for host in 0..2 {
        let peer = || cluster.status(host).peers[0].clone();
        assert!(poll_until(|| peer().why.contains("576 bytes (MTU)") && peer().why.contains("1228")), "{:?}", peer());
        assert!(!peer().up, "{:?}", peer());
    }
    let done = test.run(cluster.run(&["-n", "8"], Path::new("/bin/true"))).failure(&["the job needs 8", "h1"]);
    assert!(done.stderr.contains("cluster status"), "{done}");
    cluster.shutdown();
    test.assert_clean();
}
