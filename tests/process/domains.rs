//! Domains: jobs whose seats processes take and leave without a launcher.

use angara_abi::ABI_VERSION;
use angara_abi::desc::{Descriptor, Op};
use angara_abi::job::{INTERNAL_BYTES, Reach, SeatState};
use angara_protocol::msg::{AdapterRequest, Failure, Path, Request};
use angara_tests::Test;
use angara_tests::client::{Client, bounce};
use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::daemon::{Daemon, spec};
use angara_tests::process::{PATIENCE, poll_until};
use angara_tests::users::{as_user, only_root_can, set_mode};
use std::path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes of a seat's heap.
const HEAP: u64 = 1 << 20;

fn wish(domain: &str, hint: Option<u32>) -> AdapterRequest {
    AdapterRequest::Join { abi: ABI_VERSION, domain: domain.into(), hint, heap: HEAP, registered: 0, path: Path::Auto }
}

fn through_the_network(domain: &str, hint: u32) -> AdapterRequest {
    AdapterRequest::Join {
        abi: ABI_VERSION,
        domain: domain.into(),
        hint: Some(hint),
        heap: HEAP,
        registered: 0,
        path: Path::Ring,
    }
}

fn join(dir: &path::Path, request: &AdapterRequest) -> Client {
    Client::join(dir, request).unwrap_or_else(|f| panic!("{request:?}: {f:?}"))
}

fn refused(result: Result<Client, Failure>, part: &str) {
    let failure = result.err().unwrap_or_else(|| panic!("must be refused, as in `{part}`"));
    assert!(failure.message.contains(part) && !failure.remedy.is_empty(), "`{part}` is not in {failure:?}");
}

/// The PE page of `by` shows this of `seat`.
fn shows(by: &Client, seat: u32, state: SeatState, reach: Reach) -> bool {
    poll_until(|| by.job.pe(seat as usize).seat.state == state && by.targets.get(seat as usize) == reach)
}

#[test]
fn seats_are_taken_left_and_taken_again() {
    let test = Test::new("domain-seats");
    let daemon = Daemon::start(&test, &["--torus", "2x2", "--channels", "4"]);
    let (first, second) = (join(daemon.dir(), &wish("a", Some(0))), join(daemon.dir(), &wish("a", Some(1))));
    assert_eq!((first.job.pe(first.pe as usize).node, second.job.pe(second.pe as usize).node), (0, 1));
    assert_eq!(first.pes(), 8, "half of the channels of each node");
    // Neighbours without a hint go where there is most room.
    let third = join(daemon.dir(), &wish("a", None));
    assert_eq!(third.job.pe(third.pe as usize).node, 2);
    assert!(shows(&first, second.pe, SeatState::Taken, Reach::Direct));
    assert_eq!(first.targets.get(7), Reach::Unreachable, "nobody sits there");
    let at = INTERNAL_BYTES as u64;
    second.heap_word(second.pe as usize, at).store(42, Ordering::Release);
    first.heap_word(second.pe as usize, at + 8).store(43, Ordering::Release);

    // Lost, without a goodbye: nobody else notices more than that.
    let seat = second.pe;
    assert_eq!(first.job.pe(seat as usize).seat.life(), 1);
    drop(second);
    assert!(shows(&first, seat, SeatState::Deserted, Reach::Unreachable));
    assert!(first.channel.error().is_none() && third.job.state() == angara_abi::job::JobState::Running);
    // It is free once it is cleared; until then the other seat of that node is given.
    let mut again = join(daemon.dir(), &wish("a", Some(1)));
    let is_free = poll_until(|| {
        if again.pe != seat {
            again = join(daemon.dir(), &wish("a", Some(1)));
        }
        again.pe == seat
    });
    assert!(is_free, "free again");
    assert!(shows(&first, seat, SeatState::Taken, Reach::Direct));
    assert_eq!(first.job.pe(seat as usize).seat.life(), 2, "another generation");
    let left = [at, at + 8].map(|at| again.heap_word(seat as usize, at).load(Ordering::Acquire));
    assert_eq!(left, [0, 0], "what was there before");

    // With one.
    again.detach();
    assert!(shows(&first, seat, SeatState::Deserted, Reach::Unreachable));
    first.detach();
    third.detach();
    assert!(poll_until(|| daemon.status().jobs.is_empty()), "the domain stays without anybody in it");
    // All channels are free again.
    let job = daemon.control().create(angara_protocol::msg::JobSpec { ppn: 4, ..spec(16, Path::Auto) });
    job.expect("all channels are free");
    daemon.shutdown();
}

#[test]
fn what_cannot_be_joined_is_refused_with_a_remedy() {
    let test = Test::new("domain-refused");
    let daemon = Daemon::start(&test, &["--torus", "2", "--channels", "2", "--memory-limit", "8M"]);
    let dir = daemon.dir();
    for name in ["", "a b", "\u{fc}", "../x", &"x".repeat(65)] {
        refused(Client::join(dir, &wish(name, None)), "cannot be the name");
    }
    let ask = |abi, heap, path| AdapterRequest::Join { abi, domain: "a".into(), hint: None, heap, registered: 0, path };
    refused(Client::join(dir, &ask(ABI_VERSION - 1, HEAP, Path::Auto)), "ABI version");
    refused(Client::join(dir, &ask(ABI_VERSION, 1 << 40, Path::Auto)), "--memory-limit");
    refused(Client::join(dir, &ask(ABI_VERSION, u64::MAX, Path::Auto)), "symmetric heap");
    assert!(daemon.status().jobs.is_empty(), "a refusal makes no domain");
    let one = join(dir, &wish("a", Some(0)));
    refused(Client::join(dir, &ask(ABI_VERSION, HEAP + 4096, Path::Auto)), "this process needs");
    refused(Client::join(dir, &ask(ABI_VERSION, HEAP, Path::Ring)), "was made for the path Auto");
    // Another name is another domain, of which the first one has left half a node.
    let other = join(dir, &wish("b", Some(0)));
    assert_eq!(other.pe, 0);
    refused(
        Client::attach(
            dir,
            &angara_tests::daemon::Job { id: daemon.status().jobs[0].job, key: "0".repeat(32), placement: Vec::new() },
            1,
        )
        .map_err(|message| Failure { message, remedy: "-".into() }),
        "is a domain",
    );
    let two = join(dir, &wish("a", Some(0)));
    assert_eq!(two.pe, 1, "the next node");
    refused(Client::join(dir, &wish("a", Some(5))), "all 2 seats");
    let open = angara_protocol::msg::JobSpec { open: true, ..spec(1, Path::Auto) };
    let failure = daemon.control().ask(&Request::JobCreate(open)).expect_err("made by joining");
    assert!(failure.message.contains("domain"), "{failure:?}");
    // Whoever asks for the end of the program only leaves.
    let abort = AdapterRequest::Abort { status: 3, reason: "no".into(), orderly: false };
    assert!(two.socket.ask(&abort).is_some());
    assert_eq!(one.job.state(), angara_abi::job::JobState::Running);
    // What all PEs would have to do together breaks the channel of whoever tries.
    let mut two = two;
    two.post(&Descriptor::new(Op::Barrier)).expect("room");
    two.expect_error();
    drop(two);
    let three = join(dir, &wish("a", Some(1)));
    three.detach();
    one.detach();
    other.detach();
    daemon.shutdown();
}

#[test]
fn each_user_has_domains_of_her_own() {
    if only_root_can() {
        return;
    }
    let test = Test::new("domain-users");
    let daemon = Daemon::start(&test, &["--torus", "2x2", "--channels", "8"]);
    for (name, mode) in [("", 0o755), ("control.sock", 0o666), ("adapter.sock", 0o666)] {
        set_mode(&daemon.dir().join(name), mode);
    }
    let mine = join(daemon.dir(), &wish("a", Some(0)));
    let hers = as_user(65_002, || join(daemon.dir(), &wish("a", Some(0))));
    let jobs = daemon.status().jobs;
    let users: Vec<u32> = jobs.iter().map(|job| job.uid).collect();
    assert_eq!(users, [0, 65_002], "two domains of one name");
    let (at, word) = (INTERNAL_BYTES as u64, |c: &Client, at| c.heap_word(c.pe as usize, at).load(Ordering::Acquire));
    mine.heap_word(0, at).store(4711, Ordering::Release);
    assert_eq!((word(&mine, at), word(&hers, at)), (4711, 0), "memory of another user");
    // Nor does it help to know the number.
    let theirs = angara_tests::daemon::Job { id: jobs[0].job, key: "0".repeat(32), placement: Vec::new() };
    assert!(as_user(65_002, || Client::attach(daemon.dir(), &theirs, 1)).is_err());
    mine.detach();
    hers.detach();
    daemon.shutdown();
}

#[test]
fn a_seat_is_free_when_nothing_of_its_process_is_on_its_way() {
    let test = Test::new("domain-quiet");
    // Slow enough that what is posted outlives its process.
    let daemon = Daemon::start(&test, &["--torus", "2", "--channels", "1", "--fault", "rate=1M"]);
    let far = join(daemon.dir(), &through_the_network("a", 1));
    for generation in 1..=3 {
        let mut near = join(daemon.dir(), &through_the_network("a", 0));
        let seat = near.job.pe(near.pe as usize).seat;
        assert_eq!((near.pe, seat.life()), (0, generation), "the same seat, another generation");
        let answered = near.wait(Duration::from_millis(300), |c| c.bounce_word(8192) != 0);
        assert!(!answered, "an answer to a question of the one before");
        far.heap_word(far.pe as usize, INTERNAL_BYTES as u64).store(u64::from(generation), Ordering::Release);
        for _ in 0..8 {
            let at = INTERNAL_BYTES as u64;
            let get = Descriptor { len: 65_536, local: Some(bounce(8192)), ..near.aim(Op::Get, far.pe as usize, at) };
            near.post(&get).expect("room");
        }
        // Taken by the adapter, not yet answered.
        assert!(near.wait(PATIENCE, |c| c.head().0 >= 1));
        drop(near);
    }
    far.detach();
    daemon.shutdown();
}

#[test]
fn a_thousand_programs_leave_nothing_behind() {
    let test = Test::new("domain-thousand");
    let daemon = Daemon::start(&test, &["--torus", "2x2", "--log", "error"]);
    let held = |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", daemon.pid().pid)).expect("it runs").count();
    let resident = || {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", daemon.pid().pid)).expect("the daemon runs");
        text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("statm") * 4096
    };
    let program = || {
        let pair = [0, 1].map(|hint| join(daemon.dir(), &wish("a", Some(hint))));
        for client in &pair {
            let peer = pair.iter().map(|c| c.pe).find(|pe| *pe != client.pe).expect("two");
            client.heap_word(peer as usize, INTERNAL_BYTES as u64).store(1, Ordering::Release);
        }
        let [one, two] = pair;
        one.detach();
        drop(two);
    };
    let keeper = join(daemon.dir(), &wish("a", Some(3)));
    (0..50).for_each(|_| program());
    let seats_free = || poll_until(|| daemon.status().jobs[0].attached == 1);
    assert!(seats_free());
    let before = (held("fd"), held("map_files"), resident());
    (0..1000).for_each(|_| program());
    assert!(seats_free());
    assert!(poll_until(|| held("fd") <= before.0 + 2), "{} descriptors, {} before", held("fd"), before.0);
    assert!(poll_until(|| held("map_files") <= before.1 + 2), "{} mappings, {} before", held("map_files"), before.1);
    assert!(resident() < before.2 + (4 << 20), "{} bytes, {} before", resident(), before.2);
    assert_eq!(daemon.status().jobs[0].memory, HEAP + INTERNAL_BYTES as u64, "charged for one seat");
    keeper.detach();
    daemon.shutdown();
}

#[test]
fn hosts_hand_out_the_seats_of_their_own_nodes() {
    let test = Test::new("domain-cluster");
    let cluster = Cluster::start(&test, "2x2", Hosts::loopback(2), &[]);
    let dirs = [cluster.dir(0), cluster.dir(1)];
    // At once: one of them makes it.
    let (here, there) = std::thread::scope(|scope| {
        let one = scope.spawn(|| join(&dirs[0], &wish("a", Some(0))));
        let two = scope.spawn(|| join(&dirs[1], &wish("a", Some(0))));
        (one.join().expect("joined"), two.join().expect("joined"))
    });
    assert_ne!(here.job.pe(here.pe as usize).node, there.job.pe(there.pe as usize).node);
    assert!(shows(&here, there.pe, SeatState::Taken, Reach::Ring));
    assert!(shows(&there, here.pe, SeatState::Taken, Reach::Ring));
    let (mut here, seat) = (here, there.pe);
    here.put_and_quiet(seat as usize, 64, 4711).expect("across the trunk");
    assert_eq!(there.heap_word(seat as usize, INTERNAL_BYTES as u64 + 64).load(Ordering::Acquire), 4711);
    drop(there);
    assert!(shows(&here, seat, SeatState::Deserted, Reach::Unreachable));
    let there = join(&dirs[1], &wish("a", Some(0)));
    assert_eq!(there.pe, seat);
    assert!(shows(&here, seat, SeatState::Taken, Reach::Ring));
    assert_eq!(here.job.pe(seat as usize).seat.life(), 2);
    here.put_and_quiet(seat as usize, 64, 4712).expect("across the trunk");
    assert_eq!(there.heap_word(seat as usize, INTERNAL_BYTES as u64 + 64).load(Ordering::Acquire), 4712);
    here.detach();
    there.detach();
    let gone =
        |host: usize| poll_until(|| angara_tests::daemon::Control::connect(&dirs[host]).status().jobs.is_empty());
    assert!(gone(0) && gone(1), "the domain stays without anybody in it");
    cluster.shutdown();
}
