//! Trunks, links and hosts that go and come while jobs run: the jobs go on with right data, or end with a report that
//! names what was lost.

use angara_protocol::msg::ClusterStatus;
use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::process::{PATIENCE, Running, poll_until};
use angara_tests::{Finished, Test, tools};
use rustix::process::Signal;
use std::time::Duration;

/// Longest a program may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);
/// A ring of eight nodes: h0 has nodes 0 and 1, h1 2 and 3, and so on; each host has trunks with links to two others.
const RING: &str = "8";

fn start<'t>(test: &'t Test, torus: &str) -> Cluster<'t> {
    let mut cluster = Cluster::prepare(test, torus, Hosts::loopback(4), "dead-after = \"2s\"", &[]);
    (0..cluster.len()).for_each(|host| cluster.spawn(host));
    cluster.wait_up();
    wait(&cluster, 0, "all hosts agree", |s| s.settled && s.peers.iter().all(|p| p.member));
    cluster
}

fn wait(cluster: &Cluster<'_>, host: usize, what: &str, wanted: impl Fn(&ClusterStatus) -> bool) {
    let there = poll_until(|| wanted(&cluster.status(host)));
    assert!(there, "on h{host}: not within the time: {what}; it says {:#?}", cluster.status(host));
}

/// A job that exchanges data and checks it until it is told to end.
struct Churn<'t> {
    test: &'t Test,
    job: Running,
}

impl<'t> Churn<'t> {
    fn start(cluster: &Cluster<'t>, args: &[&str]) -> Churn<'t> {
        let end = cluster.test.file("end");
        let mut command = cluster.run(args, &tools::compile("tests/c/churn.c"));
        command.arg("120").arg(end);
        let job = cluster.test.spawn(command);
        job.expect_line("churning");
        Churn { test: cluster.test, job }
    }
    fn end(self) -> Finished {
        std::fs::write(self.test.file("end"), "").expect("the directory is writable");
        self.job.wait(LIMIT)
    }
    fn goes_on(self) {
        let done = self.end().success();
        assert!(done.stdout.contains("churned"), "{done}");
    }
}

#[test]
fn jobs_survive_trunks_and_links_that_come_and_go() {
    for (torus, run) in [
        (RING, &["-n", "8"][..]),
        ("4x4x2", &["-n", "8", "--map", "random:1"]),
        (RING, &["-n", "8", "--barrier", "dissemination", "--collectives", "p2p"]),
    ] {
        let test = Test::new("reroute-trunks");
        let cluster = start(&test, torus);
        let job = Churn::start(&cluster, run);
        for round in 0..2 {
            let before = cluster.status(3).change;
            cluster.fault("trunk h1 down");
            wait(&cluster, 3, "the trunk h0 - h1 is left out", |s| {
                s.settled && s.dead_trunks == [["h0".to_string(), "h1".to_string()]]
            });
            wait(&cluster, 0, "h1 is reached over another host", |s| s.peers[0].via.is_some());
            cluster.fault("trunk h1 up");
            wait(&cluster, 3, "the trunk h0 - h1 is used again", |s| s.settled && s.dead_trunks.is_empty());
            let at = if torus == RING { "3" } else { "0,0,0" };
            for spec in ["down", "up", "down", "corrupt=5% drop=5% dup=5% reorder=5% delay=50us rate=200M", "clear"] {
                cluster.fault(&format!("link {at} +X {spec}"));
            }
            // A link that damages everything is given up, and all hosts take it out of service.
            cluster.fault(&format!("link {at} +X corrupt=100%"));
            let given_up = format!("link {at} +X down");
            let noticed = || cluster.control(2).status().faults.contains(&given_up);
            assert!(poll_until(noticed), "not given up: {:?}", cluster.control(2).status().faults);
            cluster.fault(&format!("link {at} +X clear"));
            let after = cluster.status(3).change;
            assert!(after >= before + 10, "round {round}: change {before} before, {after} after");
        }
        job.goes_on();
        cluster.shutdown();
        test.assert_clean();
    }
}

#[test]
fn a_host_without_pes_may_die_and_return_while_a_job_runs() {
    let test = Test::new("reroute-bystander");
    let mut cluster = start(&test, RING);
    // Nodes 0 to 5: h3 only passes packets on.
    let job = Churn::start(&cluster, &["-n", "6"]);
    for _ in 0..2 {
        let victim = cluster.take(3);
        victim.process().signal(Signal::KILL);
        drop(victim);
        wait(&cluster, 0, "h3 is left out", |s| s.settled && !s.peers[2].member);
        cluster.spawn(3);
        wait(&cluster, 0, "h3 takes part again", |s| s.settled && s.peers[2].member && s.dead_trunks.is_empty());
    }
    job.goes_on();
    // It counts in full for what comes.
    Churn::start(&cluster, &["-n", "8"]).goes_on();
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn the_host_that_decides_may_die() {
    let test = Test::new("reroute-first");
    let mut cluster = start(&test, RING);
    let program = tools::compile("tests/c/churn.c");
    let map = test.file("map");
    std::fs::write(&map, "2\n3\n4\n5\n6\n7\n").expect("the directory is writable");
    let map = format!("file:{}", map.display());
    let mut command = cluster.run_on(1, &["-n", "6", "--map", &map], &program);
    command.arg("120").arg(test.file("end"));
    let job = test.spawn(command);
    job.expect_line("churning");
    let job = Churn { test: &test, job };
    let victim = cluster.take(0);
    victim.process().signal(Signal::KILL);
    drop(victim);
    wait(&cluster, 3, "h1 leads, without h0", |s| s.settled && s.leader == "h1" && !s.peers[0].member);
    cluster.spawn(0);
    wait(&cluster, 3, "h0 leads again", |s| s.settled && s.leader == "h0" && s.peers[0].member);
    job.goes_on();
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn a_job_with_pes_on_a_host_that_dies_ends_with_a_report() {
    let test = Test::new("reroute-victim");
    let mut cluster = start(&test, RING);
    let job = Churn::start(&cluster, &["-n", "8"]);
    let victim = cluster.take(2);
    victim.process().signal(Signal::KILL);
    drop(victim);
    let done = job.job.wait(PATIENCE);
    assert_eq!(done.code(), 1, "{done}");
    for part in ["host h2 was lost", "(trunk h", "nodes of the job there: (4) (5)", "s after the job began"] {
        assert!(done.stderr.contains(part), "no `{part}` in {done}");
    }
    cluster.spawn(2);
    wait(&cluster, 0, "h2 takes part again", |s| s.settled && s.peers[1].member);
    Churn::start(&cluster, &["-n", "8"]).goes_on();
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn all_trunks_down_ends_jobs_and_up_mends_everything() {
    let test = Test::new("reroute-all");
    let cluster = start(&test, RING);
    let job = Churn::start(&cluster, &["-n", "8"]);
    cluster.fault("trunk all down");
    let done = job.job.wait(PATIENCE);
    assert_eq!(done.code(), 1, "{done}");
    assert!(done.stderr.contains("was lost"), "{done}");
    for host in 0..4 {
        wait(&cluster, host, "it is alone", |s| s.settled && s.peers.iter().all(|p| !p.member));
    }
    cluster.fault("trunk all up");
    for host in 0..4 {
        wait(&cluster, host, "all are back", |s| {
            s.settled && s.dead_trunks.is_empty() && s.peers.iter().all(|p| p.member)
        });
    }
    Churn::start(&cluster, &["-n", "8"]).goes_on();
    cluster.shutdown();
    test.assert_clean();
}
