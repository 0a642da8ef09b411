//! Clients that misbehave: the daemon answers with an error or stops serving that client, and a
//! second job, whose memory is checksummed throughout, never notices.

use angara_abi::channel::Fault;
use angara_abi::desc::Op;
use angara_abi::queue::QueueMemory;
use angara_abi::shm::Mapping;
use angara_abi::{ABI_VERSION, Architecture, JobId};
use angara_protocol::msg::{AdapterReply, AdapterRequest, Failure, FdRole, Path, Request};
use angara_tests::Test;
use angara_tests::client::{Client, Socket, attach_request};
use angara_tests::daemon::{Control, Daemon, Job, spec};
use angara_tests::hostile::Victim;
use angara_tests::process::poll_until;
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

struct Arena {
    // Order matters: clients go before the daemon, the daemon before the scratch directory.
    victim: Victim,
    control: Control,
    daemon: Daemon,
    test: Test,
}

impl Arena {
    fn new(name: &str) -> Arena {
        let test = Test::new(name);
        let daemon = Daemon::start(&test, &["--torus", "2x2x2", "--log", "error"]);
        let victim = Victim::start(&daemon);
        let control = daemon.control();
        Arena { victim, control, daemon, test }
    }
    fn job(&mut self, pes: u32) -> Job {
        self.control.create(spec(pes, Path::Ring)).expect("a plain job")
    }
    fn attach(&self, job: &Job, pe: u32) -> Client {
        Client::attach(self.daemon.dir(), job, pe).expect("attach")
    }
    fn finish(mut self) {
        self.victim.check("at the end");
        self.victim.end();
        drop(self.control);
        let none = || self.daemon.status().jobs.is_empty();
        assert!(poll_until(none), "jobs outlive their owners: {:?}", self.daemon.status().jobs);
        self.daemon.shutdown();
        self.test.assert_clean();
    }
}

fn refused(answer: Option<(AdapterReply, Vec<std::os::fd::OwnedFd>)>, parts: &[&str]) {
    match answer {
        Some((AdapterReply::Error(Failure { message, remedy }), fds)) => {
            assert!(fds.is_empty(), "descriptors came with a refusal");
            for part in parts {
                assert!(message.contains(part), "`{part}` is not in: {message}");
            }
            assert!(!remedy.is_empty(), "no remedy for: {message}");
        }
        other => panic!("expected a refusal with {parts:?}, got {:?}", other.map(|o| o.0)),
    }
}

#[test]
fn attach_is_refused_for_wrong_versions_keys_and_seats() {
    let mut arena = Arena::new("attach");
    let job = arena.job(2);
    let dir = arena.daemon.dir().to_owned();
    let attach = |abi, job: &Job, key: &str, pe, statics| {
        let request =
            AdapterRequest::Attach { abi, job: job.id, key: key.into(), pe, architecture: Architecture::HERE, statics };
        Socket::connect(&dir).ask(&request)
    };
    let speaks = |abi| format!("the program speaks ABI version {abi}, the daemon {ABI_VERSION}");
    refused(attach(ABI_VERSION + 1, &job, &job.key, 0, vec![]), &[&speaks(ABI_VERSION + 1)]);
    refused(attach(ABI_VERSION - 1, &job, &job.key, 0, vec![]), &[&speaks(ABI_VERSION - 1)]);
    refused(attach(0, &job, &job.key, 0, vec![]), &["version 0"]);
    refused(attach(ABI_VERSION, &job, "", 0, vec![]), &["key"]);
    refused(attach(ABI_VERSION, &job, &arena.victim.job.key, 0, vec![]), &["key"]);
    refused(attach(ABI_VERSION, &arena.victim.job, &job.key, 0, vec![]), &["key"]);
    refused(attach(ABI_VERSION, &job, &job.key, 2, vec![]), &["PE 2", "2 PEs"]);
    refused(attach(ABI_VERSION, &job, &job.key, u32::MAX, vec![]), &["PE 4294967295"]);
    refused(attach(ABI_VERSION, &Job { id: JobId::new(9999), ..job.clone() }, &job.key, 0, vec![]), &["9999"]);
    refused(attach(ABI_VERSION, &job, &job.key, 0, vec![100]), &["100"]);
    refused(attach(ABI_VERSION, &job, &job.key, 0, vec![u64::MAX - 4095]), &[]);
    refused(attach(ABI_VERSION, &job, &job.key, 0, vec![1 << 50; 8]), &[]);
    let first = arena.attach(&job, 0);
    refused(attach(ABI_VERSION, &job, &job.key, 0, vec![]), &["PE 0", "attached"]);
    refused(first.socket.ask(&attach_request(&job, 1)), &["PE 0"]);
    // After all that the job still works.
    let mut second = arena.attach(&job, 1);
    second.put_and_quiet(0, 64, 7).expect("a put");
    drop((first, second));
    arena.finish();
}

#[test]
fn foreign_descriptors_are_refused_and_closed() {
    let mut arena = Arena::new("foreign");
    let job = arena.job(1);
    let count =
        |daemon: &Daemon| std::fs::read_dir(format!("/proc/{}/fd", daemon.pid().pid)).expect("the daemon runs").count();
    let socket = Socket::connect(arena.daemon.dir());
    // One round trip, so that the connection itself is counted.
    refused(socket.ask(&AdapterRequest::Detach), &["attach"]);
    let before = count(&arena.daemon);
    let null = std::fs::File::open("/dev/null").expect("/dev/null");
    let (own, _map) = Mapping::create("mine", 4096, angara_abi::shm::Access::Shared).expect("a memfd");
    let text = serde_json::to_vec(&attach_request(&job, 0)).expect("plain data");
    for _ in 0..100 {
        socket.send(&text, &[null.as_fd(), own.as_fd(), null.as_fd()]).expect("the daemon listens");
        refused(socket.receive(), &["descriptor"]);
    }
    assert_eq!(count(&arena.daemon), before, "the daemon kept foreign descriptors");
    drop(socket);
    arena.finish();
}

#[test]
fn punching_holes_into_own_memory_hurts_nobody() {
    let mut arena = Arena::new("holes");
    let job = arena.job(2);
    let roles =
        [FdRole::ChannelPage, FdRole::Ring, FdRole::Dma, FdRole::Bounce, FdRole::Heap, FdRole::Sync, FdRole::Counters];
    for round in 0..20 {
        let job = if round == 0 { job.clone() } else { arena.job(2) };
        let (mut a, b) = (arena.attach(&job, 0), arena.attach(&job, 1));
        a.put_and_quiet(1, 64, 7).expect("works before");
        for role in roles {
            let fd = a.fd(role);
            let size = rustix::fs::fstat(fd).expect("a memfd").st_size as u64;
            fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, size).expect("punch");
            assert!(ftruncate(fd, 0).is_err() && ftruncate(fd, size * 2).is_err(), "{role:?} could be resized");
        }
        for role in [FdRole::Job, FdRole::Targets, FdRole::Csr, FdRole::ChannelStatus] {
            let fd = a.fd(role);
            assert!(Mapping::map(fd, 4096).is_err(), "{role:?} could be mapped writable");
            let punch = fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 4096);
            assert!(punch.is_err(), "holes could be punched into {role:?}");
        }
        // The queue is zero now: the next post is the first thing there.
        a.put_and_quiet(1, 64, 8).expect("works after");
        drop((a, b));
        arena.control.destroy(job.id);
    }
    arena.finish();
}

#[test]
fn what_clients_may_only_read_they_cannot_write() {
    let mut arena = Arena::new("read-only");
    let job = arena.job(1);
    let client = arena.attach(&job, 0);
    let read_only = [FdRole::Job, FdRole::Targets, FdRole::Csr, FdRole::ChannelStatus];
    for role in read_only {
        let (_, fd) = client.fds.iter().find(|(r, _)| *r == role).expect("every client gets it");
        let before = rustix::io::pread(fd, [0u8; 64].as_mut_slice(), 0).expect("readable");
        assert!(before >= 4, "{role:?} has {before} bytes");
        assert!(rustix::io::pwrite(fd, &[0xff; 4], 0).is_err(), "{role:?} takes writes");
        // A descriptor that is only open for reading can be opened again for writing: the seal must hold.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(fd));
        if let Ok(again) = std::fs::OpenOptions::new().read(true).write(true).open(path) {
            assert!(rustix::io::pwrite(&again, &[0xff; 4], 0).is_err(), "{role:?} takes writes when opened again");
            let mapped = Mapping::map(&again, 4096).is_ok();
            assert!(!mapped, "{role:?} can be mapped for writing");
        }
    }
    drop(client);
    arena.finish();
}

#[test]
fn a_channel_in_error_stays_so_alone() {
    let mut arena = Arena::new("sticky");
    let job = arena.job(3);
    let (mut bad, mut good, other) = (arena.attach(&job, 0), arena.attach(&job, 1), arena.attach(&job, 2));
    good.put_and_quiet(2, 64, 1).expect("works before");
    let mut wild = bad.descriptor(Op::Put, 1);
    wild.len = 8;
    wild.local = Some(angara_abi::desc::Place { region: angara_abi::desc::Region::Heap, offset: 1 << 40 });
    wild.remote = Some(angara_abi::desc::Place { region: angara_abi::desc::Region::Heap, offset: 0 });
    let seq = bad.post(&wild).expect("room");
    assert_eq!(bad.expect_error(), (Fault::BadRange, seq));
    // Nothing the client posts afterwards is taken.
    let head = bad.head();
    let mut fine = bad.descriptor(Op::PutInline, 1);
    (fine.len, fine.remote) =
        (8, Some(angara_abi::desc::Place { region: angara_abi::desc::Region::Heap, offset: 1 << 20 }));
    bad.post(&fine).expect("room");
    good.put_and_quiet(2, 64, 2).expect("the same job's other PEs are served");
    good.put_and_quiet(0, 64, 3).expect("and may still reach it");
    assert_eq!(bad.head(), head, "a channel in error is not served");
    assert!(arena.daemon.status().violations >= 1);
    drop((bad, good, other));
    arena.finish();
}

#[test]
fn wild_doorbells_are_noticed() {
    let mut arena = Arena::new("doorbell");
    for tail in [4097, u32::MAX, 1 << 31] {
        let job = arena.job(1);
        let client = arena.attach(&job, 0);
        client.channel.tx_tail().store(tail, Ordering::Release);
        client.ring_doorbell();
        assert_eq!(client.expect_error().0, Fault::BadPacket, "doorbell {tail}");
    }
    // A doorbell within the ring over untouched flits: those are no packets.
    let job = arena.job(1);
    let client = arena.attach(&job, 0);
    client.channel.tx_tail().store(40, Ordering::Release);
    client.ring_doorbell();
    assert_eq!(client.expect_error().0, Fault::BadPacket);
    drop(client);
    arena.finish();
}

#[test]
fn clients_that_stop_reading_hold_up_nobody() {
    let mut arena = Arena::new("deaf");
    let rss = |daemon: &Daemon| {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", daemon.pid().pid)).expect("the daemon runs");
        text.split(' ').nth(1).and_then(|p| p.parse::<u64>().ok()).expect("statm") * 4096
    };
    let before = rss(&arena.daemon);
    // Control: requests without ever reading an answer, until the daemon takes no more.
    let mut deaf = arena.daemon.control();
    deaf.set_patience(std::time::Duration::from_millis(200));
    let status = [serde_json::to_vec(&Request::Status).expect("plain data"), vec![b'\n']].concat().repeat(200);
    let mut sent = 0;
    while sent < 200_000 && deaf.send(&status).is_ok() {
        sent += 200;
    }
    println!("{sent} status requests sent without reading");
    // Adapter: the same.
    let socket = Socket::connect(arena.daemon.dir());
    socket.nonblocking();
    let text = serde_json::to_vec(&AdapterRequest::Detach).expect("plain data");
    let asked = (0..100_000).take_while(|_| socket.send(&text, &[]).is_ok()).count();
    println!("{asked} adapter requests sent without reading");
    arena.victim.check("beside clients that stopped reading");
    let grown = rss(&arena.daemon).saturating_sub(before);
    assert!(grown < 64 << 20, "the daemon grew by {} MiB for clients that do not read", grown >> 20);
    drop((deaf, socket));
    arena.finish();
}

#[test]
fn overlong_and_broken_requests_are_refused() {
    let mut arena = Arena::new("requests");
    let mut control = arena.daemon.control();
    for bad in [
        "\n",
        "{}\n",
        "[]\n",
        "{\"cmd\":\"nonsense\"}\n",
        "{\"cmd\":\"job-destroy\",\"job\":1,\"x\":1}\n",
        "\u{0}\u{1}\n",
    ] {
        control.send(bad.as_bytes()).expect("the daemon reads");
        match control.reply() {
            Some(angara_protocol::msg::Reply::Error(f)) => {
                assert!(!f.message.is_empty() && !f.remedy.is_empty(), "{bad:?}: {f:?}")
            }
            other => panic!("{bad:?} got {other:?}"),
        }
    }
    // A line that never ends is refused once it is too long, then the connection is closed.
    let _ = control.send(&vec![b'x'; angara_protocol::msg::MESSAGE_MAX + 10]);
    assert!(matches!(control.reply(), Some(angara_protocol::msg::Reply::Error(_)) | None));
    assert!(control.reply().is_none());
    // A datagram that is too long does not fit the protocol either.
    let socket = Socket::connect(arena.daemon.dir());
    if socket.send(&vec![b'x'; angara_protocol::msg::DATAGRAM_MAX + 1], &[]).is_ok() {
        refused(socket.receive(), &["longer than"]);
    }
    arena.victim.check("after broken requests");
    arena.finish();
}

#[test]
fn a_lost_pe_ends_its_job_and_is_reported_to_its_owner() {
    let mut arena = Arena::new("lost");
    let job = arena.job(2);
    let (a, b) = (arena.attach(&job, 0), arena.attach(&job, 1));
    drop(a);
    let event = arena.control.event(|e| matches!(e, angara_protocol::msg::Event::PeLost { .. }));
    assert_eq!(
        event,
        angara_protocol::msg::Event::PeLost { job: job.id, pe: 0, node: job.placement[0], finalized: false }
    );
    assert!(b.wait(angara_tests::process::PATIENCE, |c| c.job.state() == angara_abi::job::JobState::Ended));
    drop(b);
    arena.finish();
}
