//! RDMA programs on several hosts: every byte over networks that lose datagrams, and hosts that are lost.

use crate::verbs::{FAILED, FOR_EVER, kill, pid_of};
use angara_protocol::msg::Request;
use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::process::{PATIENCE, Running, poll_until};
use angara_tests::{Test, tools};
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Enough for every size of message.
const ALL_SIZES: &str = "8";
/// `IBV_WC_RETRY_EXC_ERR`.
const LOST: &str = "failed: status 12 ";

fn hosts(number: usize) -> Hosts {
    Hosts::namespaces(number).unwrap_or_else(|why| {
        println!("on loopback: no network namespaces with veth and a bridge here: {why}");
        Hosts::loopback(number)
    })
}

/// Pairs of processes in one domain of a cluster.
struct Domain<'c, 't> {
    cluster: &'c Cluster<'t>,
    options: Vec<&'c str>,
    name: String,
    pairs: usize,
}

impl<'c, 't> Domain<'c, 't> {
    fn new(cluster: &'c Cluster<'t>, name: &str, options: &[&'c str]) -> Domain<'c, 't> {
        Domain { cluster, options: options.to_vec(), name: name.into(), pairs: 0 }
    }

    fn start(&self, host: usize, place: &PathBuf, number: u32, rounds: &str) -> Running {
        let test = self.cluster.test;
        let mut words = self.cluster.hosts().words(host);
        words.push(tools::tool("angara").display().to_string());
        let mut command = test.command(&words[0]);
        command.args(&words[1..]).args(["verbs", "--domain", &self.name, "--runtime-dir"]);
        command.arg(self.cluster.dir(host)).args(&self.options).arg("--");
        command.arg(tools::example("verbs_peer")).arg(place).args([&number.to_string(), rounds]);
        test.spawn(command)
    }

    /// One process on each of these hosts.
    fn pair(&mut self, on: [usize; 2], rounds: &str) -> [Running; 2] {
        self.pairs += 1;
        let place = self.cluster.test.file(&format!("{}-{}", self.name, self.pairs));
        fs::create_dir_all(&place).expect("made");
        let one = self.start(on[0], &place, 0, rounds);
        // The first one's host makes the domain, if there is none.
        assert!(poll_until(|| place.join("0").exists()), "{}", one.so_far());
        [one, self.start(on[1], &place, 1, rounds)]
    }

    fn is_well(&mut self, on: [usize; 2]) {
        for one in self.pair(on, ALL_SIZES) {
            one.wait(PATIENCE).success();
        }
    }
}

#[test]
fn processes_on_two_hosts_find_every_byte_of_each_other() {
    let ways: [&[&str]; 4] = [&[], &["--path", "ring"], &["--memory", "agent"], &["--memory", "remap"]];
    for (mtu, fault) in [(1500, ""), (9000, ""), (1500, "drop=5% reorder=2% dup=1% corrupt=1%")] {
        let test = Test::new("verbs-two-hosts");
        let hosts = hosts(2);
        hosts.set_mtu(mtu);
        let cluster = Cluster::start(&test, "2x2", hosts, &[]);
        if !fault.is_empty() {
            cluster.fault(&format!("trunk all {fault}"));
        }
        for (turn, way) in ways.iter().enumerate() {
            Domain::new(&cluster, &format!("way{turn}"), way).is_well([turn % 2, 1 - turn % 2]);
        }
        cluster.shutdown();
        test.assert_clean();
    }
}

#[test]
fn pairs_on_three_hosts_talk_at_once_over_a_bad_network() {
    let test = Test::new("verbs-three-hosts");
    let cluster = Cluster::start(&test, "3x2", hosts(3), &[]);
    cluster.fault("trunk all drop=3% reorder=3% dup=1% corrupt=1%");
    let mut domain = Domain::new(&cluster, "three", &[]);
    let all: Vec<Running> = [[0, 1], [1, 2], [2, 0]].into_iter().flat_map(|on| domain.pair(on, ALL_SIZES)).collect();
    for one in all {
        one.wait(PATIENCE).success();
    }
    cluster.shutdown();
    test.assert_clean();
}

/// One of three hosts is lost, and comes back.
fn lose(victim: usize, maker: usize, orderly: bool) {
    let test = Test::new("verbs-lost-host");
    let case = format!("h{victim} is lost (in order: {orderly}), h{maker} has made the domain");
    let mut cluster = Cluster::prepare(&test, "3x2", hosts(3), "dead-after = \"2s\"", &[]);
    (0..3).for_each(|host| cluster.spawn(host));
    cluster.wait_up();
    let others: Vec<usize> = (0..3).filter(|host| *host != victim).collect();
    let other = if maker == victim { others[0] } else { maker };
    let peer = others.into_iter().find(|host| *host != other).expect("three hosts");
    let (mut cut, go_on);
    {
        let mut domain = Domain::new(&cluster, "lost", &[]);
        cut = domain.pair(if maker == victim { [victim, other] } else { [other, victim] }, FOR_EVER);
        if maker != victim {
            cut.reverse();
        }
        go_on = domain.pair([other, peer], FOR_EVER);
    }
    let pids = go_on.each_ref().map(pid_of);
    cut.iter().chain(&go_on).for_each(|one| drop(one.expect_line("goes")));
    if orderly {
        cluster.control(victim).ask(&Request::Shutdown).expect("a daemon obeys");
        cluster.take(victim).wait(PATIENCE).success();
    } else {
        let daemon = cluster.take(victim);
        daemon.signal(Signal::KILL);
        daemon.wait(PATIENCE);
    }
    let [there, here] = cut;
    let here = here.wait(PATIENCE);
    assert_eq!(here.code(), FAILED, "{case}: {here}");
    assert!(here.stdout.contains(LOST), "{case}: {here}");
    let there = there.wait(PATIENCE);
    assert!([FAILED, 137].contains(&there.code()), "{case}: {there}");

    // The others go on, and newcomers find their places.
    Domain { pairs: 10, ..Domain::new(&cluster, "lost", &[]) }.is_well([peer, other]);
    cluster.spawn(victim);
    cluster.wait_up();
    let mut domain = Domain { pairs: 20, ..Domain::new(&cluster, "lost", &[]) };
    domain.is_well([victim, other]);
    domain.is_well([peer, victim]);
    for one in &go_on {
        assert!(!one.has_line("failed", Duration::ZERO), "{case}: {}", one.so_far());
    }
    for (one, pid) in go_on.into_iter().zip(pids) {
        kill(pid);
        let done = one.wait(PATIENCE);
        assert!([FAILED, 137].contains(&done.code()), "{case}: {done}");
    }
    let gone = |host: usize| poll_until(|| cluster.control(host).status().jobs.is_empty());
    assert!((0..3).all(gone), "{case}: the domain stays without anybody in it");
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn a_host_that_is_lost_is_an_error_of_its_peers_alone() {
    lose(2, 0, false);
}

#[test]
fn so_is_the_host_that_made_the_domain() {
    lose(0, 0, false);
}

#[test]
fn so_is_a_daemon_that_is_shut_down() {
    lose(1, 1, true);
}
