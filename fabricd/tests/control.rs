//! The control plane of a real daemon: what it grants, what it refuses, what it leaves behind.

mod common;

use abi::job::JobState;
use abi::msg::{AdapterReply, AdapterRequest, Event, JobSpec, Map, Path, Reply, Request};
use common::{Adapter, Daemon, Pe, attach_request, job, spec};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

/// Set for the process that [`spawn_pe`] starts.
const ENV_CHILD: &str = "FABRICD_TEST_CHILD";

/// Not a test of its own: the body of the process that other tests start and kill.
#[test]
fn child_process() {
    let Ok(args) = std::env::var(ENV_CHILD) else { return };
    let mut words = args.split(' ');
    let mut next = || words.next().expect("four words").to_string();
    let (dir, job, key, pe) = (next(), next(), next(), next());
    let daemon = std::mem::ManuallyDrop::new(Daemon {
        child: Command::new("true").spawn().expect("a process"),
        dir: dir.into(),
    });
    let _pe = Pe::attach(&daemon, job.parse().expect("job"), &key, pe.parse().expect("PE"));
    println!("attached");
    // Until killed, or until the test that started us is gone.
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

fn spawn_pe(daemon: &Daemon, job: u32, key: &str, pe: u32) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child_process", "--nocapture", "--test-threads=1"])
        .env(ENV_CHILD, format!("{} {job} {key} {pe}", daemon.dir.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let attached = lines.map_while(Result::ok).any(|l| l.contains("attached"));
    assert!(attached, "the child did not attach");
    child
}

fn killed(mut child: Child) -> bool {
    use std::os::unix::process::ExitStatusExt;
    // `wait` would close its input, which also ends it.
    let _input = child.stdin.take();
    child.wait().expect("child").signal() == Some(Signal::KILL.as_raw())
}

#[test]
fn requests_that_make_no_sense_get_one_clear_error_each() {
    let mut daemon = Daemon::start(&["--torus", "2x2", "--memory-limit", "64M"]);
    let mut c = daemon.control();
    for (line, part) in [
        ("garbage", "not a control request"),
        ("{}", "not a control request"),
        ("{\"cmd\":\"explode\"}", "explode"),
        ("{\"cmd\":\"job-report\",\"job\":7}", "there is no job 7"),
        ("{\"cmd\":\"fault-set\",\"spec\":\"link 0,0 +Q down\"}", "+Q"),
        ("{\"cmd\":\"fault-clear\",\"spec\":\"\"}", "empty"),
    ] {
        match c.raw(line) {
            Reply::Error(f) => assert!(f.message.contains(part) && !f.remedy.is_empty(), "{line}: {f:?}"),
            other => panic!("{line}: {other:?}"),
        }
    }
    for (s, part) in [
        (spec(5, 1, Path::Auto), "5 PEs do not fit"),
        (spec(4, 17, Path::Auto), "16 injection channels"),
        (spec(0, 1, Path::Auto), "0 PEs"),
        (JobSpec { heap: 1 << 30, ..spec(1, 1, Path::Auto) }, "--memory-limit (64M)"),
        (JobSpec { map: Map::List(vec![0, 9]), ..spec(2, 1, Path::Auto) }, "node 9"),
    ] {
        let f = c.refused(&Request::JobCreate(s));
        assert!(f.message.contains(part), "{f:?}");
    }
    daemon.shutdown();
}

#[test]
fn a_line_without_end_is_refused_and_closed() {
    let daemon = Daemon::start(&["--torus", "2"]);
    let mut c = daemon.control();
    let long = vec![b'x'; abi::msg::MESSAGE_MAX + 2];
    c.reader.get_mut().write_all(&long).expect("daemon reads");
    let mut text = String::new();
    c.reader.read_line(&mut text).expect("an answer");
    assert!(text.contains("longer than"), "{text}");
    assert!(matches!(daemon.control().ask(&Request::Status), Reply::Status(_)));
}

#[test]
fn attaching_checks_everything_a_client_says() {
    let daemon = Daemon::start(&["--torus", "2x2"]);
    let mut c = daemon.control();
    let (id, key) = c.create(&spec(4, 1, Path::Auto));
    let mut first = Pe::attach(&daemon, id, &key, 0);
    let good = attach_request(id, &key, 1);
    let AdapterRequest::Attach { statics, .. } = &good else { unreachable!() };
    let with = |abi, job, key: &str, pe, statics: &[u64]| AdapterRequest::Attach {
        abi,
        job,
        key: key.into(),
        pe,
        statics: statics.to_vec(),
    };
    let v = abi::ABI_VERSION;
    for (request, part) in [
        (with(v + 1, id, &key, 1, statics), "ABI version"),
        (with(v, id + 9, &key, 1, statics), "there is no job"),
        (with(v, id, "0123", 1, statics), "wrong key"),
        (with(v, id, &key, 4, statics), "out of range"),
        (with(v, id, &key, 0, statics), "attached already"),
        (with(v, id, &key, 1, &[8192]), "different executable"),
        (AdapterRequest::Detach, "not attached"),
        (AdapterRequest::TreeOpen { root: 0, pes: vec![0] }, "not attached"),
    ] {
        let f = Adapter::connect(&daemon).refused(&request);
        assert!(f.message.contains(part) && !f.remedy.is_empty(), "{f:?}");
    }
    let adapter = Adapter::connect(&daemon);
    for bytes in [&b"\xff\xfe"[..], &[b'['; 60_000], &vec![b'x'; 2 * abi::msg::DATAGRAM_MAX]] {
        adapter.send(bytes);
        assert!(matches!(adapter.receive().0, AdapterReply::Error(_)));
    }
    // The same connection still works.
    assert!(matches!(adapter.ask(&good).0, AdapterReply::Attached { .. }));
    assert!(adapter.refused(&good).message.contains("is PE 1 already"));
    first.detach();
    let again = Adapter::connect(&daemon).refused(&attach_request(id, &key, 0));
    assert!(again.message.contains("already finished"), "{again:?}");
}

#[test]
fn descriptors_from_clients_are_closed_and_refused() {
    let daemon = Daemon::start(&["--torus", "2"]);
    let adapter = Adapter::connect(&daemon);
    let (read, write) = rustix::pipe::pipe().expect("pipe");
    {
        let fds = [write.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        adapter.send_with(&[IoSlice::new(b"{}")], &mut control, SendFlags::empty());
    }
    let AdapterReply::Error(f) = adapter.receive().0 else { panic!("must be refused") };
    assert!(f.message.contains("1 file descriptors"), "{f:?}");
    drop(write);
    // The daemon kept no copy: the pipe has no writer left.
    assert_eq!(rustix::io::read(&read, &mut [0u8; 1]).expect("pipe"), 0);
}

#[test]
fn a_lost_pe_ends_the_job_and_is_named() {
    let daemon = Daemon::start(&["--torus", "2x2"]);
    let mut c = daemon.control();
    let (id, key) = c.create(&spec(4, 1, Path::Auto));
    let mut pe = Pe::attach(&daemon, id, &key, 0);
    let mut child = spawn_pe(&daemon, id, &key, 3);
    child.kill().expect("kill");
    assert_eq!(c.event(), Event::PeLost { job: id, pe: 3, node: 3 });
    assert_eq!(pe.page.state(), JobState::Ended);
    assert_eq!(pe.targets.get(3), abi::job::Reach::Unreachable);
    child.wait().expect("child");
    pe.detach();
}

#[test]
fn an_abort_reaches_the_owner() {
    let daemon = Daemon::start(&["--torus", "2x2"]);
    let mut c = daemon.control();
    let (id, mut pes) = job(&daemon, &mut c, &spec(2, 1, Path::Auto));
    let reason = "out of luck".to_string();
    let (reply, _) = pes[1].adapter.ask(&AdapterRequest::Abort { status: 7, reason: reason.clone() });
    assert_eq!(reply, AdapterReply::Ok);
    assert_eq!(c.event(), Event::Abort { job: id, pe: 1, status: 7, reason });
    assert_eq!(pes[0].page.state(), JobState::Ended);
    pes.iter_mut().for_each(Pe::detach);
}

#[test]
fn when_the_owner_goes_its_processes_are_killed_and_others_live() {
    let mut daemon = Daemon::start(&["--torus", "2x2"]);
    let (mut owner, mut other) = (daemon.control(), daemon.control());
    let (doomed, key) = owner.create(&spec(2, 1, Path::Auto));
    let child = spawn_pe(&daemon, doomed, &key, 1);
    let (kept, kept_key) = other.create(&spec(2, 1, Path::Auto));
    let survivor = spawn_pe(&daemon, kept, &kept_key, 1);
    // The connection must belong to another process than the PE; its end ends the job.
    drop(owner);
    assert!(killed(child));
    let jobs = |c: &mut common::Control| match c.ask(&Request::Status) {
        Reply::Status(s) => s.jobs,
        other => panic!("{other:?}"),
    };
    let left = jobs(&mut other);
    assert_eq!(left.iter().map(|j| (j.job, j.attached)).collect::<Vec<_>>(), [(kept, 1)]);
    assert!(matches!(other.ask(&Request::JobDestroy { job: kept }), Reply::Report(_)));
    assert!(killed(survivor));
    assert!(jobs(&mut other).is_empty());
    daemon.shutdown();
}

#[test]
fn a_second_daemon_is_refused_and_a_killed_one_is_replaced() {
    let mut first = Daemon::start(&["--torus", "2"]);
    let second = Command::new(env!("CARGO_BIN_EXE_fabricd"))
        .args(["--torus", "2", "--runtime-dir"])
        .arg(&first.dir)
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(3), "{text}");
    assert!(text.contains(&format!("pid {}", first.child.id())), "{text}");
    first.child.kill().expect("kill");
    first.child.wait().expect("daemon");
    let mut third = Daemon::start_in(first.dir.clone(), &["--torus", "2"]);
    assert!(matches!(third.control().ask(&Request::Status), Reply::Status(_)));
    third.control().ask(&Request::Shutdown);
    assert!(third.child.wait().expect("daemon").success());
}

#[test]
fn a_private_daemon_ends_with_its_run() {
    let mut daemon = Daemon::start(&["--torus", "2", "--private"]);
    let mut c = daemon.control();
    c.create(&spec(2, 1, Path::Auto));
    drop(c);
    assert!(daemon.child.wait().expect("daemon").success());
    assert!(!daemon.dir.exists());
}

#[test]
fn sigterm_ends_jobs_and_leaves_nothing() {
    let mut daemon = Daemon::start(&["--torus", "2"]);
    let mut c = daemon.control();
    let (id, key) = c.create(&spec(2, 1, Path::Auto));
    let child = spawn_pe(&daemon, id, &key, 0);
    let pid = Pid::from_raw(daemon.child.id() as i32).expect("a pid");
    kill_process(pid, Signal::TERM).expect("signal");
    assert!(daemon.child.wait().expect("daemon").success());
    assert!(killed(child));
    assert!(!daemon.dir.exists());
}

/// Prints what an idle daemon costs; the number depends on the machine, so nothing is asserted.
#[test]
fn idle_cost_is_printed() {
    let daemon = Daemon::start(&["--torus", "2x2x2"]);
    let mut c = daemon.control();
    let (_, mut pes) = job(&daemon, &mut c, &spec(8, 1, Path::Ring));
    let cpu = |c: &mut common::Control| match c.ask(&Request::Status) {
        Reply::Status(s) => (s.uptime_s, s.data_plane_cpu_s),
        other => panic!("{other:?}"),
    };
    let (t0, c0) = cpu(&mut c);
    // Nothing happens for a second: the timeout is the event waited for.
    c.reader.get_ref().set_read_timeout(Some(std::time::Duration::from_secs(1))).expect("timeout");
    let _ = c.reader.read(&mut [0]);
    let (t1, c1) = cpu(&mut c);
    println!("idle data plane with 8 attached PEs: {:.3} % of a core", 100.0 * (c1 - c0) / (t1 - t0));
    pes.iter_mut().for_each(Pe::detach);
}
