//! Users who take more than their share: they are refused with the limit's name, and the others go on.

use angara_abi::channel::Fault;
use angara_abi::queue::QueueMemory;
use angara_protocol::msg::{AdapterReply, AdapterRequest, Alloc, Event, Failure, JobSpec, Map, Path, Reply, Request};
use angara_tests::Test;
use angara_tests::client::{Client, Socket, attach_all};
use angara_tests::daemon::{Control, Daemon, Job, spec};
use angara_tests::hostile::Victim;
use angara_tests::process::{PATIENCE, poll_until, wait_readable};
use angara_tests::users::{as_user, only_root_can, set_mode};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Numbers of users that exist nowhere.
const ALICE: u32 = 65_002;
const BOB: u32 = 65_003;

/// A daemon that every user may connect to.
fn shared(test: &Test, args: &[&str]) -> Daemon {
    let daemon = Daemon::start(test, args);
    for (name, mode) in [("", 0o755), ("control.sock", 0o666), ("adapter.sock", 0o666)] {
        set_mode(&daemon.dir().join(name), mode);
    }
    daemon
}

/// A new control connection and the answer to a request on it, or why it is not served.
fn visit(daemon: &Daemon) -> Result<(Control, Reply), Failure> {
    let mut control = daemon.control();
    // Who is refused is hung up on before he can say anything.
    let _ = control.send(b"{\"cmd\":\"status\"}\n");
    match control.reply().expect("an answer comes before the end") {
        Reply::Error(failure) => Err(failure),
        reply => Ok((control, reply)),
    }
}

fn refused<T>(result: Result<T, Failure>, parts: &[&str]) {
    let failure = result.err().expect("must be refused");
    for part in parts {
        assert!(failure.message.contains(part) || failure.remedy.contains(part), "`{part}` is not in {failure:?}");
    }
    assert!(!failure.remedy.is_empty(), "{failure:?}");
}

fn resident(daemon: &Daemon) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", daemon.pid().pid)).expect("the daemon runs");
    text.split(' ').nth(1).and_then(|p| p.parse::<u64>().ok()).expect("statm") * 4096
}

#[test]
fn connections_of_a_user_are_limited() {
    let test = Test::new("limit-connections");
    let daemon = Daemon::start(&test, &["--torus", "2x2x2", "--log", "error"]);
    let mut victim = Victim::start(&daemon);
    // 256 and one for each PE; the victim has four connections.
    let mut guests: Vec<Control> = Vec::new();
    let failure = loop {
        assert!(guests.len() < 300, "300 connections of one user are served");
        match visit(&daemon) {
            Ok((control, _)) => guests.push(control),
            Err(failure) => break failure,
        }
    };
    assert_eq!(guests.len(), 255);
    refused::<()>(Err(failure), &["259 connections", "`connections`"]);
    match Socket::connect(daemon.dir()).receive() {
        Some((AdapterReply::Error(f), _)) => assert!(f.message.contains("259 connections"), "{f:?}"),
        other => panic!("{:?}", other.map(|o| o.0)),
    }
    let done = test.run(test.angara(["status", "--runtime-dir", daemon.dir().to_str().expect("utf-8")]));
    done.failure(&["259 connections", "close some"]);
    victim.check("beside connections without end");
    guests.pop();
    assert!(poll_until(|| visit(&daemon).is_ok()), "room for one is not given back");
    victim.end();
    drop(guests);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn half_requests_are_kept_up_to_a_sum() {
    if only_root_can() {
        return;
    }
    let test = Test::new("limit-pending");
    let daemon = shared(&test, &["--torus", "2x2x2", "--limit", "pending=4M", "--log", "error"]);
    let mut victim = Victim::start(&daemon);
    let before = resident(&daemon);
    let half = vec![b' '; 1_000_000];
    let mut guests: Vec<UnixStream> = Vec::new();
    for _ in 0..100 {
        let mut guest =
            as_user(ALICE, || UnixStream::connect(daemon.dir().join("control.sock"))).expect("there is a daemon");
        guest.set_write_timeout(Some(PATIENCE)).expect("a socket");
        // One that is refused is closed in the middle.
        let _ = guest.write_all(&half);
        guests.push(guest);
    }
    // Four can be kept; all others are told.
    let told = |guests: &[UnixStream]| guests.iter().filter(|g| wait_readable(g, Duration::ZERO)).count();
    assert!(poll_until(|| told(&guests) >= 96), "only {} of 100 were refused", told(&guests));
    let one = guests.iter_mut().find(|g| wait_readable(&**g, Duration::ZERO)).expect("just seen");
    let mut said = vec![0; 4096];
    let n = one.read(&mut said).expect("readable");
    let said = String::from_utf8_lossy(&said[..n]);
    assert!(said.contains("user 65002 has sent 4M") && said.contains("pending"), "{said}");
    let grown = resident(&daemon).saturating_sub(before);
    assert!(grown < 64 << 20, "the daemon keeps {} MiB of half requests", grown >> 20);
    // The other users' share is theirs.
    assert_eq!(daemon.status().jobs.len(), 1);
    victim.check("beside half requests");
    drop(guests);
    victim.end();
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn a_job_is_asked_to_end_once_by_each_pe() {
    let test = Test::new("limit-abort");
    let daemon = Daemon::start(&test, &["--torus", "2x2x2", "--limit", "notes=3", "--log", "info"]);
    let mut control = daemon.control();
    let (job, clients) = attach_all(daemon.dir(), &mut control, spec(8, Path::Ring));
    for client in &clients {
        for round in 0..200 {
            let reason = format!("{round} {}", "x".repeat(1000));
            let answer = client.socket.ask(&AdapterRequest::Abort { status: 3, reason, orderly: false });
            assert!(matches!(answer, Some((AdapterReply::Ok, _))));
        }
    }
    let notes = control.report(job.id).notes;
    assert_eq!(notes.len(), 4, "{notes:?}");
    assert!(notes[3].contains("5 more notes"), "{}", notes[3]);
    let aborts = control.events.iter().filter(|e| matches!(e, Event::Abort { .. })).count();
    assert_eq!(aborts, 8, "one for each PE");
    drop(clients);
    control.destroy(job.id);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn names_of_jobs_are_short() {
    let test = Test::new("limit-name");
    let daemon = Daemon::start(&test, &["--torus", "2x2x2"]);
    let mut control = daemon.control();
    let named = |n: usize| JobSpec { name: "x".repeat(n), ..spec(1, Path::Auto) };
    refused(control.create(named(1_000_000)), &["1000000 bytes", "255", "`name`"]);
    refused(control.create(named(256)), &["256 bytes"]);
    let job = control.create(named(255)).expect("as long as a file's name");
    control.destroy(job.id);
    drop(control);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn what_a_user_causes_fills_no_log() {
    let test = Test::new("limit-log");
    let daemon = Daemon::start(&test, &["--torus", "2x2x2", "--log", "info", "--limit", "log-lines=5"]);
    let began = Instant::now();
    let socket = Socket::connect(daemon.dir());
    for _ in 0..2_000 {
        assert!(matches!(socket.ask(&AdapterRequest::Detach), Some((AdapterReply::Error(_), _))));
    }
    // So do jobs that come and go, and channels that stop.
    let mut control = daemon.control();
    for _ in 0..30 {
        let job = control.create(spec(1, Path::Ring)).expect("a plain job");
        let client = Client::attach(daemon.dir(), &job, 0).expect("attach");
        client.channel.tx_tail().store(u32::MAX, Ordering::Release);
        client.ring_doorbell();
        assert_eq!(client.expect_error().0, Fault::BadPacket);
        control.destroy(job.id);
    }
    let seconds = began.elapsed().as_secs() as usize + 2;
    drop((socket, control));
    let process = daemon.process.process();
    daemon.control().ask(&Request::Shutdown).expect("a daemon obeys");
    assert!(process.wait_exit(PATIENCE));
    let said = daemon.process.wait(PATIENCE).success().stderr;
    let lines = said.lines().count();
    // The daemon's own few words come on top.
    assert!(lines <= 5 * seconds + 10, "{lines} lines in {seconds} s:\n{said}");
    assert!(said.contains("left_out="), "nobody is told how many lines are missing:\n{said}");
    test.assert_clean();
}

#[test]
fn jobs_go_to_free_nodes() {
    let test = Test::new("limit-nodes");
    let daemon = Daemon::start(&test, &["--torus", "2x2x2", "--channels", "4"]);
    let mut control = daemon.control();
    let full = JobSpec { ppn: 4, map: Map::List(vec![0; 4]), ..spec(4, Path::Auto) };
    control.create(full).expect("node 0 has four channels");
    let job = control.create(spec(7, Path::Auto)).expect("seven nodes are free");
    assert_eq!(job.placement, [1, 2, 3, 4, 5, 6, 7]);
    let job = control.create(JobSpec { map: Map::Random(3), ..spec(7, Path::Auto) }).expect("seven nodes are free");
    assert!(!job.placement.contains(&0), "{job:?}");
    refused(control.create(spec(8, Path::Auto)), &["8 PEs", "7 of 14", "--channels"]);
    drop(control);
    let mut run = test.angara(["run", "-n", "4", "--torus", "2x2x2", "--runtime-dir"]);
    run.arg(daemon.dir()).arg("true");
    test.run(run).success();
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn jobs_and_pes_of_a_user_are_limited() {
    if only_root_can() {
        return;
    }
    let test = Test::new("limit-pes");
    let daemon = shared(&test, &["--torus", "2x2x2", "--channels", "4", "--limit", "jobs=30"]);
    let mut alices = as_user(ALICE, || daemon.control());
    let mut bobs = as_user(BOB, || daemon.control());
    // 32 channels: three quarters of them.
    let mut jobs: Vec<Job> = Vec::new();
    let failure = loop {
        assert!(jobs.len() < 32, "one user has every channel");
        match alices.create(spec(1, Path::Auto)) {
            Ok(job) => jobs.push(job),
            Err(failure) => break failure,
        }
    };
    assert_eq!(jobs.len(), 24);
    refused::<()>(Err(failure), &["user 65002 has 24 PEs", "may have 24 of 32", "`pes`"]);
    refused(alices.create(spec(2, Path::Auto)), &["asks for 2 more"]);
    let job = bobs.create(spec(2, Path::Auto)).expect("Bob has his share");
    assert_eq!(job.placement, [0, 1], "all nodes have as many PEs of Alice");
    bobs.destroy(job.id);
    // Whoever could set the limits is not bound by these.
    let mut operator = daemon.control();
    operator.create(JobSpec { ppn: 4, ..spec(9, Path::Auto) }).expect_err("only eight channels are free");
    operator.create(spec(8, Path::Auto)).expect("one on each node is");
    drop((alices, bobs, operator));
    assert!(poll_until(|| daemon.status().jobs.is_empty()));
    daemon.shutdown();

    let daemon = shared(&test, &["--torus", "2x2x2", "--limit", "jobs=3"]);
    let mut alices = as_user(ALICE, || daemon.control());
    let jobs: Vec<Job> = (0..3).map(|_| alices.create(spec(1, Path::Auto)).expect("three jobs")).collect();
    refused(alices.create(spec(1, Path::Auto)), &["user 65002 has 3 jobs", "`jobs`"]);
    alices.destroy(jobs[0].id);
    alices.create(spec(1, Path::Auto)).expect("one has ended");
    drop(alices);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn one_user_cannot_hold_all_nodes_by_sets() {
    if only_root_can() {
        return;
    }
    let test = Test::new("limit-nodes");
    let daemon = shared(&test, &["--torus", "4x2"]);
    let with_set = |pes| JobSpec { alloc: Some(Alloc::Auto), ..spec(pes, Path::Auto) };
    let (mut alices, mut bobs) = (as_user(ALICE, || daemon.control()), as_user(BOB, || daemon.control()));
    // Eight nodes: three quarters of them, whichever way they are asked for.
    let first = alices.create(with_set(4)).expect("four nodes");
    let second = alices.create(spec(2, Path::Auto)).expect("two more, for a job that asked for no set");
    assert!(first.placement.iter().all(|node| !second.placement.contains(node)));
    for more in [with_set(1), spec(1, Path::Auto)] {
        refused(alices.create(more), &["user 65002 hold 6 nodes", "may hold 6 of 8", "`nodes`"]);
    }
    bobs.create(with_set(2)).expect("Bob has his share");
    drop((alices, bobs));
    assert!(poll_until(|| daemon.status().jobs.is_empty()));
    daemon.control().create(with_set(8)).expect("the operator is not bound by it");
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn the_last_job_slots_are_for_users_who_have_none() {
    if only_root_can() {
        return;
    }
    let test = Test::new("limit-slots");
    let args = ["--torus", "16x16x8", "--limit", "jobs=1024", "--limit", "pes=1024", "--log", "error"];
    let daemon = shared(&test, &args);
    let mut alices = as_user(ALICE, || daemon.control());
    let mut made = 0;
    let failure = loop {
        assert!(made < 1024, "one user has every job slot");
        match alices.create(spec(1, Path::Direct)) {
            Ok(_) => made += 1,
            Err(failure) => break failure,
        }
    };
    assert_eq!(made, 768, "{failure:?}");
    refused::<()>(Err(failure), &["user 65002 has 768 of the 1024 job slots", "the last 256"]);
    let mut bobs = as_user(BOB, || daemon.control());
    let first = bobs.create(spec(1, Path::Direct)).expect("Bob has none yet");
    refused(bobs.create(spec(1, Path::Direct)), &["user 65003 has 1 of"]);
    bobs.destroy(first.id);
    bobs.create(spec(1, Path::Direct)).expect("Bob has none again");
    // Whoever could set the limits is not bound by this one.
    let mut operator = daemon.control();
    (0..2).for_each(|_| drop(operator.create(spec(1, Path::Direct)).expect("there are slots")));
    drop((alices, bobs, operator));
    assert!(poll_until(|| daemon.status().jobs.is_empty()));
    daemon.shutdown();
    test.assert_clean();
}

/// Does something in the end, whatever happens.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn requests_without_end_keep_nobody_waiting() {
    let test = Test::new("limit-requests");
    let daemon = Daemon::start(&test, &["--torus", "16x16x16", "--log", "error"]);
    let mut victim = Victim::start(&daemon);
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // Also when this test fails.
        let _stop = OnDrop(|| stop.store(true, Ordering::Relaxed));
        let flood = || {
            let mut controls: Vec<Control> = (0..16).map(|_| daemon.control()).collect();
            while !stop.load(Ordering::Relaxed) {
                controls.iter_mut().for_each(|c| c.send(b"{\"cmd\":\"counters\"}\n").expect("the daemon reads"));
                for control in &mut controls {
                    control.reply().expect("an answer");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        (0..4).for_each(|_| drop(scope.spawn(flood)));
        for round in 0..5 {
            let before = answered.load(Ordering::Relaxed);
            assert!(poll_until(|| answered.load(Ordering::Relaxed) > before + 64), "round {round}: nobody is answered");
            victim.check("beside requests without end");
            daemon.status();
        }
    });
    victim.end();
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn at_the_descriptor_limit_everybody_is_told_so() {
    let test = Test::new("limit-descriptors");
    let daemon = Daemon::start_after(&test, "ulimit -n 64", &["--torus", "2x2x2", "--log", "error"]);
    let mut guests: Vec<Control> = Vec::new();
    let failure = loop {
        assert!(guests.len() < 100, "more connections than descriptors");
        match visit(&daemon) {
            Ok((control, _)) => guests.push(control),
            Err(failure) => break failure,
        }
    };
    refused::<()>(Err(failure), &["no free file descriptors", "may have 64", "ulimit -n"]);
    match Socket::connect(daemon.dir()).receive() {
        Some((AdapterReply::Error(f), _)) => assert!(f.message.contains("no free file descriptors"), "{f:?}"),
        other => panic!("{:?}", other.map(|o| o.0)),
    }
    let done = test.run(test.angara(["status", "--runtime-dir", daemon.dir().to_str().expect("utf-8")]));
    done.failure(&["no free file descriptors", "LimitNOFILE="]);
    // Those who are here are served, and when they have gone others are.
    assert!(matches!(guests[0].ask(&Request::Status), Ok(Reply::Status(_))));
    drop(guests);
    assert!(poll_until(|| visit(&daemon).is_ok()), "descriptors are not given back");
    daemon.shutdown();
    test.assert_clean();
}
