//! The control plane of a real daemon: what it grants, what it refuses, what it leaves behind.

use angara_abi::job::{JobState, Reach};
use angara_abi::{ABI_VERSION, Architecture, JobId};
use angara_protocol::msg::{AdapterReply, AdapterRequest, Event, FdRole, JobSpec, Line, Map, Path, Reply};
use angara_tests::client::{Client, Socket, attach_all, attach_request};
use angara_tests::daemon::{Daemon, Job, spec};
use angara_tests::process::{PATIENCE, Running, wait_readable};
use angara_tests::{Test, tools};
use rustix::process::Signal;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// Set for the process that [`spawn_pe`] starts.
const ENV_CHILD: &str = "ANGARA_TEST_CHILD";

/// Not a test of its own: the body of the process that other tests start and kill.
#[test]
fn child_process() {
    let Ok(args) = std::env::var(ENV_CHILD) else { return };
    let [dir, job, key, pe] = args.split(' ').collect::<Vec<_>>().try_into().expect("four words");
    let job = Job { id: job.parse().expect("job"), key: key.into(), placement: Vec::new() };
    let _client = Client::attach(dir.as_ref(), &job, pe.parse().expect("PE")).expect("attach");
    println!("attached");
    // Until killed, or until the test that started us is gone.
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

fn spawn_pe(test: &Test, daemon: &Daemon, job: &Job, pe: u32) -> Running {
    let mut command = test.command(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "control::child_process", "--nocapture", "--test-threads=1"])
        .env(ENV_CHILD, format!("{} {} {} {pe}", daemon.dir().display(), job.id, job.key))
        .stdin(Stdio::piped());
    let child = test.spawn(command);
    child.expect_line("attached");
    child
}

/// Waits for its end. Returns whether it was killed.
fn killed(child: Running) -> bool {
    child.wait(PATIENCE).status.signal() == Some(Signal::KILL.as_raw())
}

/// Waits until the daemon has ended in good order and taken its directory along.
fn ends(daemon: Daemon) {
    let dir = daemon.dir().to_owned();
    daemon.process.wait(PATIENCE).success();
    assert!(!dir.exists(), "{} is left", dir.display());
}

fn shut_down(daemon: Daemon) {
    let dir = daemon.dir().to_owned();
    daemon.shutdown();
    assert!(!dir.exists(), "{} is left", dir.display());
}

#[test]
fn requests_that_make_no_sense_get_one_clear_error_each() {
    let test = Test::new("nonsense");
    let daemon = Daemon::start(&test, &["--torus", "2x2", "--memory-limit", "64M"]);
    let mut c = daemon.control();
    let fault = |action| format!(r#"{{"cmd":"fault","command":{{"text":"","target":{{"network":[{action}]}}}}}}"#);
    for (line, part) in [
        ("garbage", "not a control request"),
        ("{}", "not a control request"),
        ("{\"cmd\":\"explode\"}", "explode"),
        ("{\"cmd\":\"job-report\",\"job\":7}", "there is no job 7"),
        (&fault(r#"{"set":{"site":{"link":{"node":0,"dir":"+Q"}},"failing":"down","at":null}}"#), "+Q"),
        (&fault(r#"{"set":{"site":{"node":4},"failing":"down","at":null}}"#), "there is no node 4 in 2x2"),
        (&fault(r#"{"set":{"site":"every-link","failing":{"impaired":{"corrupt":2000000}},"at":null}}"#), "2000000"),
    ] {
        c.send(format!("{line}\n").as_bytes()).expect("daemon reads");
        match c.reply() {
            Some(Reply::Error(f)) => assert!(f.message.contains(part) && !f.remedy.is_empty(), "{line}: {f:?}"),
            other => panic!("{line}: {other:?}"),
        }
    }
    for (s, part) in [
        (spec(5, Path::Auto), "5 PEs do not fit"),
        (JobSpec { ppn: 17, ..spec(4, Path::Auto) }, "16 injection channels"),
        (spec(0, Path::Auto), "0 PEs"),
        (JobSpec { heap: 1 << 30, ..spec(1, Path::Auto) }, "--memory-limit (64M)"),
        (JobSpec { map: Map::List(vec![0, 9]), ..spec(2, Path::Auto) }, "node 9"),
    ] {
        let f = c.create(s).expect_err("no such job");
        assert!(f.message.contains(part), "{f:?}");
    }
    drop(c);
    shut_down(daemon);
    test.assert_clean();
}

#[test]
fn a_line_without_end_is_refused_and_closed() {
    let test = Test::new("long-line");
    let daemon = Daemon::start(&test, &["--torus", "2"]);
    let mut c = daemon.control();
    let long = vec![b'x'; angara_protocol::msg::MESSAGE_MAX + 2];
    c.send(&long).expect("daemon reads");
    match c.line() {
        Some(Line::Reply(Reply::Error(f))) => assert!(f.message.contains("longer than"), "{f:?}"),
        other => panic!("{other:?}"),
    }
    assert!(c.line().is_none(), "the connection is still open");
    daemon.status();
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn attaching_checks_everything_a_client_says() {
    let test = Test::new("attach-checks");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let mut c = daemon.control();
    let job = c.create(spec(4, Path::Auto)).expect("a plain job");
    let first = Client::attach(daemon.dir(), &job, 0).expect("attach");
    let good = attach_request(&job, 1);
    let AdapterRequest::Attach { statics, .. } = &good else { unreachable!() };
    let with = |abi, job, key: &str, pe, statics: &[u64]| AdapterRequest::Attach {
        abi,
        job,
        key: key.into(),
        pe,
        architecture: Architecture::HERE,
        statics: statics.to_vec(),
    };
    let (v, id, key) = (ABI_VERSION, job.id, &job.key);
    let here = Architecture::HERE;
    let there = if here == Architecture::X86_64 { Architecture::Aarch64 } else { Architecture::X86_64 };
    let other = |job: &Job, pe, statics| AdapterRequest::Attach {
        abi: v,
        job: job.id,
        key: job.key.clone(),
        pe,
        architecture: there,
        statics,
    };
    let both = format!("PE 1 runs a program for {there}, and the first PE of job {id} one for {here}");
    let f = Socket::connect(daemon.dir()).refused(&other(&job, 1, vec![]));
    assert!(f.message.contains(&both) && f.remedy.contains("angara run --heterogeneous"), "{f:?}");
    // In a job that was declared so, whatever static data programs have stays their own.
    let declared = c.create(JobSpec { heterogeneous: true, ..spec(2, Path::Auto) }).expect("a heterogeneous job");
    let of_it = Client::attach(daemon.dir(), &declared, 0).expect("attach");
    match Socket::connect(daemon.dir()).ask(&other(&declared, 1, vec![8192])) {
        Some((AdapterReply::Attached { fds }, _)) => assert!(!fds.contains(&FdRole::Static), "{fds:?}"),
        other => panic!("{:?}", other.map(|o| o.0)),
    }
    drop(of_it);
    for (request, part) in [
        (with(v + 1, id, key, 1, statics), "ABI version"),
        (with(v, JobId::new(id.number() + 9), key, 1, statics), "there is no job"),
        (with(v, id, "0123", 1, statics), "wrong key"),
        (with(v, id, key, 4, statics), "out of range"),
        (with(v, id, key, 0, statics), "attached already"),
        (with(v, id, key, 1, &[8192]), "different executable"),
        (AdapterRequest::Detach, "not attached"),
        (AdapterRequest::TreeOpen { root: 0, pes: vec![0] }, "not attached"),
    ] {
        let f = Socket::connect(daemon.dir()).refused(&request);
        assert!(f.message.contains(part) && !f.remedy.is_empty(), "{f:?}");
    }
    let adapter = Socket::connect(daemon.dir());
    for bytes in [&b"\xff\xfe"[..], &[b'['; 60_000], &vec![b'x'; 2 * angara_protocol::msg::DATAGRAM_MAX]] {
        adapter.send(bytes, &[]).expect("daemon takes it");
        assert!(matches!(adapter.receive(), Some((AdapterReply::Error(_), _))));
    }
    // The same connection still works.
    assert!(matches!(adapter.ask(&good), Some((AdapterReply::Attached { .. }, _))));
    assert!(adapter.refused(&good).message.contains("is PE 1 already"));
    first.detach();
    let again = Socket::connect(daemon.dir()).refused(&attach_request(&job, 0));
    assert!(again.message.contains("already finished"), "{again:?}");
    drop((adapter, c));
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn descriptors_from_clients_are_closed_and_refused() {
    let test = Test::new("descriptors");
    let daemon = Daemon::start(&test, &["--torus", "2"]);
    let adapter = Socket::connect(daemon.dir());
    let (read, write) = rustix::pipe::pipe().expect("pipe");
    adapter.send(b"{}", &[write.as_fd()]).expect("daemon takes it");
    let Some((AdapterReply::Error(f), _)) = adapter.receive() else { panic!("must be refused") };
    assert!(f.message.contains("1 file descriptors"), "{f:?}");
    drop(write);
    // The daemon kept no copy: the pipe has no writer left.
    assert!(wait_readable(&read, PATIENCE), "somebody can still write to the pipe");
    assert_eq!(rustix::io::read(&read, &mut [0u8; 1]).expect("pipe"), 0);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn a_lost_pe_ends_the_job_and_is_named() {
    let test = Test::new("lost-pe");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let mut c = daemon.control();
    let job = c.create(spec(4, Path::Auto)).expect("a plain job");
    let client = Client::attach(daemon.dir(), &job, 0).expect("attach");
    let child = spawn_pe(&test, &daemon, &job, 3);
    child.signal(Signal::KILL);
    assert_eq!(c.event(|_| true), Event::PeLost { job: job.id, pe: 3, node: 3, finalized: false });
    assert_eq!(client.job.state(), JobState::Ended);
    assert_eq!(client.targets.get(3), Reach::Unreachable);
    assert!(killed(child));
    client.detach();
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn an_abort_reaches_the_owner() {
    let test = Test::new("abort");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let mut c = daemon.control();
    let (job, clients) = attach_all(daemon.dir(), &mut c, spec(2, Path::Auto));
    let reason = "out of luck".to_string();
    let abort = AdapterRequest::Abort { status: 7, reason: reason.clone(), orderly: false };
    assert!(matches!(clients[1].socket.ask(&abort), Some((AdapterReply::Ok, _))));
    assert_eq!(c.event(|_| true), Event::Abort { job: job.id, pe: 1, status: 7, reason, orderly: false });
    assert_eq!(clients[0].job.state(), JobState::Ended);
    clients.into_iter().for_each(Client::detach);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn when_the_owner_goes_its_processes_are_killed_and_others_live() {
    let test = Test::new("owner-gone");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let (mut owner, mut other) = (daemon.control(), daemon.control());
    let doomed = owner.create(spec(2, Path::Auto)).expect("a plain job");
    let child = spawn_pe(&test, &daemon, &doomed, 1);
    let kept = other.create(spec(2, Path::Auto)).expect("a plain job");
    let survivor = spawn_pe(&test, &daemon, &kept, 1);
    // The connection must belong to another process than the PE; its end ends the job.
    drop(owner);
    assert!(killed(child));
    let left = other.status().jobs;
    assert_eq!(left.iter().map(|j| (j.job, j.attached)).collect::<Vec<_>>(), [(kept.id, 1)]);
    other.destroy(kept.id);
    assert!(killed(survivor));
    assert!(other.status().jobs.is_empty());
    shut_down(daemon);
    test.assert_clean();
}

#[test]
fn a_second_daemon_is_refused_and_a_killed_one_is_replaced() {
    let test = Test::new("second-daemon");
    let first = Daemon::start(&test, &["--torus", "2"]);
    let dir = first.dir().to_owned();
    let mut command = test.command(tools::tool("fabricd"));
    command.args(["--torus", "2", "--runtime-dir"]).arg(&dir);
    let second = test.run(command);
    assert_eq!(second.code(), 3, "{second}");
    assert!(second.stderr.contains(&format!("pid {}", first.pid().pid)), "{second}");
    first.process.signal(Signal::KILL);
    assert!(killed(first.process));
    let third = Daemon::start(&test, &["--torus", "2"]);
    assert_eq!(third.dir(), dir);
    third.status();
    third.shutdown();
    test.assert_clean();
}

#[test]
fn a_private_daemon_ends_with_its_run() {
    let test = Test::new("private");
    let daemon = Daemon::start(&test, &["--torus", "2", "--private"]);
    let mut c = daemon.control();
    c.create(spec(2, Path::Auto)).expect("a plain job");
    drop(c);
    ends(daemon);
    test.assert_clean();
}

#[test]
fn sigterm_ends_jobs_and_leaves_nothing() {
    let test = Test::new("sigterm");
    let daemon = Daemon::start(&test, &["--torus", "2"]);
    let mut c = daemon.control();
    let job = c.create(spec(2, Path::Auto)).expect("a plain job");
    let child = spawn_pe(&test, &daemon, &job, 0);
    daemon.process.signal(Signal::TERM);
    ends(daemon);
    assert!(killed(child));
    test.assert_clean();
}
