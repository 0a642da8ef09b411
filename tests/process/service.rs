//! A daemon under a service manager: sockets that it hands over, readiness, the watchdog, and users who
//! share the daemon but not their jobs.

use angara_protocol::launch::{ADAPTER_SOCKET, CONTROL_SOCKET};
use angara_protocol::msg::{AdapterReply, Failure, FdRole, JobSpec, Path as Engine, Reply, Request};
use angara_tests::client::{Client, Socket, attach_request};
use angara_tests::daemon::{Control, Job, spec};
use angara_tests::freeze::Frozen;
use angara_tests::users::{as_user, only_root_can};
use angara_tests::{Running, Test, process::PATIENCE, tools};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::process::Signal;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Numbers of users that exist nowhere.
const DAEMON: u32 = 65_001;
const ALICE: u32 = 65_002;
const BOB: u32 = 65_003;
/// Within which the daemon has to say that it lives.
const WATCHDOG: Duration = Duration::from_millis(300);

/// What stands for the service manager: it holds the sockets while daemons come and go.
struct Manager {
    test: Test,
    dir: PathBuf,
    control: UnixListener,
    adapter: OwnedFd,
    /// What daemons say, taken at once.
    said: Receiver<String>,
    fabricd: PathBuf,
    /// User of the daemon.
    user: Option<u32>,
}

impl Manager {
    fn new(name: &str, user: Option<u32>) -> Manager {
        let test = Test::new(name);
        let dir = test.runtime_dir();
        std::fs::create_dir_all(&dir).expect("a directory");
        let control = UnixListener::bind(dir.join(CONTROL_SOCKET)).expect("a socket");
        let adapter = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let adapter = adapter.expect("a socket");
        bind(&adapter, &SocketAddrUnix::new(dir.join(ADAPTER_SOCKET)).expect("short")).expect("free");
        listen(&adapter, 64).expect("bound");
        for name in [CONTROL_SOCKET, ADAPTER_SOCKET] {
            std::fs::set_permissions(dir.join(name), PermissionsExt::from_mode(0o666)).expect("ours");
        }
        if let Some(user) = user {
            chown(&dir, Some(user), Some(user)).expect("we are root");
        }
        let address = test.file("notify");
        let notify = UnixDatagram::bind(&address).expect("a socket");
        std::fs::set_permissions(&address, PermissionsExt::from_mode(0o666)).expect("ours");
        let (words, said) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n) = notify.recv(&mut buffer) {
                if words.send(String::from_utf8_lossy(&buffer[..n]).into_owned()).is_err() {
                    return;
                }
            }
        });
        // Where other users reach it, wherever the repository lies.
        let fabricd = test.file("fabricd");
        tools::copy_program(&tools::tool("fabricd"), &fabricd);
        Manager { test, dir, control, adapter, said, fabricd, user }
    }

    /// Starts a daemon as a `Type=notify` service with a watchdog is.
    fn start(&self) -> Running {
        self.start_telling(&self.test.file("notify"))
    }

    /// ... which tells `notify` how it is.
    fn start_telling(&self, notify: &Path) -> Running {
        let (control, adapter) = (self.control.as_raw_fd(), self.adapter.as_raw_fd());
        for fd in [&self.adapter, &OwnedFd::from(self.control.try_clone().expect("a descriptor"))] {
            fcntl_setfd(fd, FdFlags::empty()).expect("inherited");
        }
        fcntl_setfd(&self.control, FdFlags::empty()).expect("inherited");
        let mut command = self.test.command("bash");
        // Any number may be in use here, so bash chooses; LISTEN_PID is that of the process that becomes fabricd.
        let script =
            format!(r#"exec {{c}}<&{control} {{a}}<&{adapter}; exec 3<&$c 4<&$a; LISTEN_PID=$$ exec "$0" "$@""#);
        command.args(["-c", &script]).arg(&self.fabricd).args(["--torus", "2x2x2", "--runtime-dir"]).arg(&self.dir);
        command.env("LISTEN_FDS", "2").env("NOTIFY_SOCKET", notify);
        command.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        self.test.spawn(command)
    }

    /// Waits until the daemon says `word`.
    fn hear(&self, word: &str) -> String {
        loop {
            let said = self.said.recv_timeout(PATIENCE).unwrap_or_else(|e| panic!("never heard {word}: {e}"));
            if said.lines().any(|line| line.starts_with(word)) {
                return said;
            }
        }
    }
}

#[test]
fn sockets_of_a_service_manager_outlive_the_daemon() {
    let manager = Manager::new("service", None);
    let daemon = manager.start();
    let said = manager.hear("READY=1");
    assert!(said.contains("STATUS=8 of 8 nodes of 2x2x2"), "{said}");
    manager.hear("WATCHDOG=1");
    let test = &manager.test;
    let mut run = test.angara(["run", "-n", "2", "--timeout", "200"]);
    run.arg(tools::compile("tests/c/openshmem/collectives.c"));
    test.run(run).success();
    daemon.signal(Signal::KILL);
    assert_eq!(daemon.wait(PATIENCE).code(), 128 + 9);
    // Who connects now waits for the next one.
    let status = test.spawn(test.angara(["status", "--runtime-dir", manager.dir.to_str().expect("utf-8")]));
    let daemon = manager.start();
    manager.hear("READY=1");
    assert!(status.wait(PATIENCE).success().stdout.contains("2x2x2, 8 of 8 nodes"));
    test.run(test.angara(["shutdown"])).success();
    manager.hear("STOPPING=1");
    daemon.wait(PATIENCE).success();
    for name in [CONTROL_SOCKET, ADAPTER_SOCKET] {
        assert!(manager.dir.join(name).exists(), "{name} is the service manager's and must stay");
    }
}

#[test]
fn the_watchdog_hears_nothing_while_the_data_plane_hangs() {
    let manager = Manager::new("service-watchdog", None);
    let daemon = manager.start();
    manager.hear("READY=1");
    (0..3).for_each(|_| drop(manager.hear("WATCHDOG=1")));
    let frozen = match Frozen::new(&daemon.process(), "data-plane") {
        Ok(frozen) => frozen,
        Err(why) => return println!("skipped: {why}"),
    };
    // What the data plane had answered before may still be said.
    let end = Instant::now() + PATIENCE;
    while let Ok(said) = manager.said.recv_timeout(4 * WATCHDOG) {
        assert!(Instant::now() < end, "a daemon that carries nothing says that it lives: {said}");
    }
    // The other half of the daemon runs, and so its timer does: it alone could say that all is well.
    let mut control = Control::connect(&manager.dir);
    control.send(b"what?\n").expect("the daemon reads");
    assert!(matches!(control.reply(), Some(Reply::Error(_))), "the control plane does not answer");
    drop(frozen);
    // A service manager would have killed it by now. One that is let live is well again.
    (0..3).for_each(|_| drop(manager.hear("WATCHDOG=1")));
    let test = &manager.test;
    let mut run = test.angara(["run", "-n", "2", "--path", "ring", "--timeout", "200"]);
    run.arg(tools::compile("tests/c/openshmem/rma.c"));
    test.run(run).success();
    test.run(test.angara(["shutdown"])).success();
    manager.hear("STOPPING=1");
    daemon.wait(PATIENCE).success();
}

#[test]
fn the_watchdog_is_heard_beside_requests_without_end() {
    let manager = Manager::new("service-flood", None);
    let daemon = manager.start();
    manager.hear("READY=1");
    let mut owner = Control::connect(&manager.dir);
    // Every status names every job, so long names make long answers.
    for _ in 0..32 {
        let name = "x".repeat(900_000);
        let long = owner.create(JobSpec { name, ..spec(1, Engine::Auto) });
        long.or_else(|_| owner.create(spec(1, Engine::Auto))).expect("there is room for so many");
    }
    let stop = AtomicBool::new(false);
    let flood = || {
        let mut control = Control::connect(&manager.dir);
        while !stop.load(Ordering::Relaxed) {
            control.status();
        }
    };
    std::thread::scope(|scope| {
        (0..16).for_each(|_| drop(scope.spawn(flood)));
        // Twenty times as long as a service manager waits is enough for a machine with other work.
        let heard = (0..20).filter(|_| manager.said.recv_timeout(20 * WATCHDOG).is_ok()).count();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(heard, 20, "the daemon does not say that it lives");
    });
    owner.ask(&Request::Shutdown).expect("a daemon obeys");
    daemon.wait(PATIENCE).success();
}

/// Sends to a socket until it takes no more.
fn fill(address: &Path) {
    let sender = UnixDatagram::unbound().expect("a socket");
    sender.set_nonblocking(true).expect("ours");
    let full = (0..1_000_000).find_map(|_| sender.send_to(b"FULL=1", address).err());
    assert_eq!(full.expect("every socket is full some day").kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_service_manager_that_does_not_read_holds_up_nobody() {
    let manager = Manager::new("service-deaf", None);
    let test = &manager.test;
    let address = test.file("deaf");
    let notify = UnixDatagram::bind(&address).expect("a socket");
    notify.set_read_timeout(Some(PATIENCE)).expect("ours");
    fill(&address);
    let daemon = manager.start_telling(&address);
    let run = || {
        let mut run = test.angara(["run", "-n", "2", "--path", "ring", "--timeout", "200"]);
        run.arg(tools::compile("tests/c/openshmem/rma.c"));
        run
    };
    test.run(run()).success();
    // When it reads again it is told what it has missed: first of all that the daemon is ready.
    let mut buffer = [0; 4096];
    let mut hear = || {
        let n = notify.recv(&mut buffer).expect("never heard the daemon");
        String::from_utf8_lossy(&buffer[..n]).into_owned()
    };
    let first = std::iter::repeat_with(&mut hear).find(|said| said != "FULL=1").expect("a word");
    assert!(first.starts_with("READY=1"), "{first}");
    assert!(std::iter::repeat_with(&mut hear).take(3).all(|said| said.trim_end() == "WATCHDOG=1"));
    fill(&address);
    test.run(run()).success();
    // Nor does it keep the daemon from ending.
    test.run(test.angara(["shutdown"])).success();
    daemon.wait(PATIENCE).success();
}

#[test]
fn who_may_not_use_the_service_is_told_so() {
    if only_root_can() {
        return;
    }
    let manager = Manager::new("service-closed", None);
    std::fs::set_permissions(&manager.dir, PermissionsExt::from_mode(0o700)).expect("ours");
    let angara = manager.test.file("angara");
    tools::copy_program(&tools::tool("angara"), &angara);
    let mut status = manager.test.command(&angara);
    status.arg("status").env("ANGARA_RUNTIME_DIR", &manager.dir).uid(BOB).gid(BOB);
    let done = manager.test.run(status).success();
    // Whether one runs behind closed doors is not known.
    assert!(!done.stdout.contains("no daemon is running") && done.stdout.contains("no daemon of yours"), "{done}");
    assert!(!done.stdout.contains(&format!("{}", manager.dir.display())), "{done}");
    assert!(done.stderr.contains("Permission denied") && done.stderr.contains("group angara"), "{done}");
}

#[test]
fn half_a_hand_over_is_refused() {
    let manager = Manager::new("service-half", None);
    let mut command = manager.test.command("bash");
    let fd = manager.control.as_raw_fd();
    fcntl_setfd(&manager.control, FdFlags::empty()).expect("inherited");
    let script = format!(r#"exec 13<&{fd}; exec 3<&13; LISTEN_PID=$$ exec "$0" "$@""#);
    command.args(["-c", &script]).arg(&manager.fabricd).args(["--torus", "2", "--runtime-dir"]).arg(&manager.dir);
    command.env("LISTEN_FDS", "1");
    manager.test.run(command).failure(&["passed 1 sockets", "ListenSequentialPacket="]);
}

fn foreign(answer: Result<Reply, Failure>, part: &str) {
    let failure = answer.expect_err("must be refused");
    assert!(failure.message.contains(part) && !failure.remedy.is_empty(), "`{part}` is not in: {failure:?}");
}

/// Inodes of what belongs to a job: all but the register pages of nodes, which are read-only and shared.
fn inodes(client: &Client) -> Vec<u64> {
    let own = client.fds.iter().filter(|(role, _)| *role != FdRole::Csr && *role != FdRole::Doorbell);
    own.map(|(_, fd)| rustix::fs::fstat(fd).expect("open").st_ino).collect()
}

#[test]
fn users_share_a_daemon_but_never_reach_each_others_jobs() {
    if only_root_can() {
        return;
    }
    let manager = Manager::new("users", Some(DAEMON));
    let daemon = manager.start();
    manager.hear("READY=1");
    let dir: &Path = &manager.dir;
    let start = |user| {
        as_user(user, || {
            let mut control = Control::connect(dir);
            let job = control.create(spec(2, Engine::Ring)).expect("every user may have jobs");
            (control, job)
        })
    };
    let (mut alices, job): (Control, Job) = start(ALICE);
    let (mut bobs, bobs_job) = start(BOB);

    // Control socket: nothing about a job of somebody else, and nothing that concerns all.
    for request in [
        Request::JobReport { job: job.id },
        Request::JobPairs { job: job.id, from: 0, to: 0 },
        Request::JobWaits { job: job.id },
        Request::JobDestroy { job: job.id },
        Request::JobAttach { job: job.id, key: job.key.clone() },
    ] {
        foreign(bobs.ask(&request), "belongs to user 65002, not to user 65003");
    }
    foreign(bobs.fault("node 0,0,0 down"), "user 65003 may not set faults");
    foreign(bobs.fault("all clear"), "user 65003 may not set faults");
    foreign(bobs.ask(&Request::Shutdown), "user 65003 may not shut the daemon down");

    // Adapter socket: not even with the right key.
    let stolen = as_user(BOB, || Socket::connect(dir).ask(&attach_request(&job, 0)));
    match stolen {
        Some((AdapterReply::Error(failure), fds)) => {
            assert!(failure.message.contains("belongs to user 65002, this process to user 65003"), "{failure:?}");
            assert!(fds.is_empty());
        }
        other => panic!("Bob got {:?}", other.map(|o| o.0)),
    }
    // Nor with the wrong job's key, as its own user.
    let confused = as_user(BOB, || {
        Socket::connect(dir).ask(&attach_request(&Job { key: job.key.clone(), ..bobs_job.clone() }, 0))
    });
    assert!(matches!(confused, Some((AdapterReply::Error(_), _))), "a key opens its own job only");

    // Memory: no descriptor leads into another job's.
    let alice = as_user(ALICE, || Client::attach(dir, &job, 0)).expect("her own job");
    let bob = as_user(BOB, || Client::attach(dir, &bobs_job, 0)).expect("his own job");
    let (a, b) = (inodes(&alice), inodes(&bob));
    assert!(!a.is_empty() && a.iter().all(|i| !b.contains(i)), "shared memory between jobs: {a:?} {b:?}");
    let fds = format!("/proc/{}/fd", daemon.process().pid);
    let peek = as_user(BOB, || std::fs::read_dir(&fds).map(drop)).expect_err("the daemon's own");
    assert_eq!(peek.kind(), std::io::ErrorKind::PermissionDenied);

    // The daemon's user may look after everybody's jobs.
    let mut operator = as_user(DAEMON, || Control::connect(dir));
    let users: Vec<u32> = operator.status().jobs.iter().map(|j| j.uid).collect();
    assert_eq!(users, [ALICE, BOB]);
    operator.destroy(bobs_job.id);
    drop((bob, alice));
    alices.destroy(job.id);
    drop((alices, bobs));
    operator.ask(&Request::Shutdown).expect("its own daemon");
    daemon.wait(PATIENCE).success();
}
