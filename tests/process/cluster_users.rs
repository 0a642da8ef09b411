//! Several users on one cluster whose daemons are root's: everybody's programs run as who started them, on every
//! host, and nobody reaches what is somebody else's. Only root can be several users, so all of this is skipped without.

use angara_protocol::launch::{ADAPTER_SOCKET, CONTROL_SOCKET};
use angara_protocol::msg::{AdapterReply, CaptureSpec, FdRole, Map, Path as Engine, Request};
use angara_tests::client::{Client, Socket, attach_request};
use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::daemon::{Control, Job, spec};
use angara_tests::process::{PATIENCE, Process, Running, poll_until};
use angara_tests::users::{as_user, only_root_can, set_mode};
use angara_tests::{Test, tools};
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::process::Signal;
use std::fs::File;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Users every Debian has: `nobody` and `daemon` ...
const ALICE: u32 = 65_534;
const BOB: u32 = 1;
/// ... and `bin`.
const CAROL: u32 = 2;

/// Two hosts, each with its own copy of the programs, where every user reaches them.
struct Shared<'t> {
    cluster: Cluster<'t>,
    daemons: Vec<Running>,
}

fn skipped() -> bool {
    let user = |uid: u32| {
        let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        text.lines().any(|l| l.split(':').nth(2) == Some(&uid.to_string()))
    };
    if only_root_can() {
        return true;
    }
    let none = ![ALICE, BOB, CAROL].into_iter().all(user);
    if none {
        println!("skipped: there are no users 65534, 1 and 2 here");
    }
    none
}

impl<'t> Shared<'t> {
    /// `second` is what the daemon of host h1 is started with, which `fabricd` and its options follow.
    fn start(test: &'t Test, second: impl FnOnce(&Cluster<'t>) -> Command) -> Shared<'t> {
        let cluster = Cluster::prepare(test, "4x2", Hosts::loopback(2), "dead-after = \"10s\"", &[]);
        std::fs::create_dir_all(test.file("bin")).expect("a directory");
        for name in ["fabricd", "angara", "libsma.so.1"] {
            tools::copy_program(&tools::tool(name), &Shared::program(test, name));
        }
        let mut shared = Shared { cluster, daemons: Vec::new() };
        let commands = [test.command("env"), second(&shared.cluster)];
        for (host, mut command) in commands.into_iter().enumerate() {
            let dir = shared.cluster.dir(host);
            command.arg(Shared::program(test, "fabricd")).arg("--cluster").arg(shared.cluster.file(host));
            command.args(["--host", &format!("h{host}")]).arg("--runtime-dir").arg(&dir);
            let daemon = test.spawn(command);
            daemon.expect_line("{");
            // What the socket unit does for the group.
            set_mode(&dir, 0o755);
            [CONTROL_SOCKET, ADAPTER_SOCKET].iter().for_each(|s| set_mode(&dir.join(s), 0o666));
            shared.daemons.push(daemon);
        }
        for host in 0..2 {
            let up = || shared.cluster.status(host).peers.iter().all(|p| p.up);
            assert!(poll_until(up), "{}", shared.daemons[host].so_far());
        }
        shared
    }

    fn program(test: &Test, name: &str) -> PathBuf {
        test.file("bin").join(name)
    }

    /// `angara run` of `user` on host h0, 8 PEs on both hosts.
    fn run(&self, user: u32, program: &[&str]) -> Command {
        let test = self.cluster.test;
        let mut command = test.command(Shared::program(test, "angara"));
        command.args(["run", "-n", "8", "--label", "--cluster"]).arg(self.cluster.file(0));
        command.arg("--runtime-dir").arg(self.cluster.dir(0)).args(["--heap", "16M", "--timeout", "200", "--"]);
        command.args(program).env("LD_LIBRARY_PATH", test.file("bin"));
        command.uid(user).gid(user).current_dir("/");
        command
    }

    fn end(self) {
        for host in 0..2 {
            self.cluster.control(host).ask(&Request::Shutdown).expect("root may");
        }
        for daemon in self.daemons {
            daemon.wait(PATIENCE).success();
        }
    }
}

#[test]
fn programs_run_as_who_started_them_on_every_host() {
    if skipped() {
        return;
    }
    let test = Test::new("users-programs");
    let shared = Shared::start(&test, |_| test.command("env"));
    let script = "echo $(id -u):$(id -g):$(id -G) $(grep -c '^Cap\\(Prm\\|Eff\\|Amb\\).*[1-9a-f]' /proc/self/status); \
                  tty; cat /proc/$PPID/environ | tr '\\0' '\\n' | grep -c ^HOME=; umask";
    for (user, groups) in [(ALICE, "65534"), (BOB, "1")] {
        let done = test.run(shared.run(user, &["/bin/sh", "-c", script])).success();
        // Nodes 2, 3, 6 and 7 are h1's.
        for pe in [2, 3, 6, 7] {
            let says = |what: &str| done.stdout.lines().any(|l| l == format!("[{pe}] {what}"));
            assert!(says(&format!("{user}:{user}:{groups} 0")), "PE {pe} of user {user}: {done}");
            // Nothing of root's: no terminal, no environment; but the launcher's file mode mask.
            assert!(says("not a tty") && says("0") && says("0022"), "PE {pe} of user {user}: {done}");
        }
        let others = done.stdout.lines().filter(|l| l.contains(&format!("{user}:"))).count();
        assert_eq!(others, 8, "{done}");
    }
    // A real program, whose PEs reach the daemon of their host as that user.
    let source = tools::compile("tests/c/openshmem/rma.c");
    let program = Shared::program(&test, "rma");
    tools::copy_program(source.as_ref(), &program);
    let done = test.run(shared.run(ALICE, &[program.to_str().expect("utf-8")])).success();
    assert!(done.stdout.contains(" passed"), "{done}");
    // A program that only root may read is not run for others.
    set_mode(&program, 0o700);
    let done = test.run(shared.run(ALICE, &[program.to_str().expect("utf-8")]));
    assert!(done.code() != 0 && !done.stdout.contains(" passed"), "{done}");
    shared.end();
    test.assert_clean();
}

#[test]
fn what_a_daemon_was_started_with_reaches_no_program() {
    if skipped() {
        return;
    }
    let test = Test::new("users-descriptors");
    let secret = test.file("secret");
    std::fs::write(&secret, "of root's").expect("written");
    set_mode(&secret, 0o600);
    let script = format!("exec 9<{}; exec \"$0\" \"$@\"", secret.display());
    let shared = Shared::start(&test, |_| {
        let mut command = test.command("bash");
        command.args(["-c", &script]);
        command
    });
    // As somebody else, and as the daemon's own user: standard input, output and error, the stream to the launcher's
    // server of MPI, and nothing more.
    for user in [ALICE, 0] {
        let done = test
            .run(shared.run(user, &["/bin/sh", "-c", "printf %s: \"$PMI_FD\"; ls -m /proc/$$/fd; cat <&9 || true"]));
        for pe in [2, 3, 6, 7] {
            let label = format!("[{pe}] ");
            let line = done.stdout.lines().find_map(|line| line.strip_prefix(&label)?.split_once(':'));
            let Some((stream, all)) = line else { panic!("no line of PE {pe} for user {user}: {done}") };
            let left: Vec<&str> = all.split(", ").filter(|fd| *fd != stream).collect();
            assert_eq!(left, ["0", "1", "2"], "PE {pe} for user {user}: {done}");
        }
        assert!(!done.stdout.contains("of root's"), "{done}");
    }
    shared.end();
    test.assert_clean();
}

#[test]
fn what_a_user_has_stopped_gets_no_signal_of_roots() {
    if skipped() {
        return;
    }
    let test = Test::new("users-stopped");
    let shared = Shared::start(&test, |_| test.command("env"));
    let job = test.spawn(shared.run(ALICE, &["/bin/sleep", "1000"]));
    assert!(poll_until(|| test.named("sleep").len() == 8), "{}", job.so_far());
    // It has an empty environment, so it is found as the parent of what it has started.
    let read = |pid: i32, what: &str| std::fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let parent = |p: &Process| {
        let pid = read(p.pid, "status").lines().find_map(|l| l.strip_prefix("PPid:")?.trim().parse().ok())?;
        read(pid, "cmdline").contains("__agent").then_some(pid)
    };
    let pid = test.named("sleep").iter().find_map(parent).expect("the other half on h1");
    let agent = Process { pid, comm: "angara".into(), args: Vec::new() };
    agent.stop();
    job.signal(Signal::INT);
    assert_eq!(job.wait(PATIENCE).code(), 130);
    // The daemon waits no longer, and leaves it alone.
    let daemon = &shared.daemons[1];
    assert!(poll_until(|| daemon.so_far().contains("did not end within")), "{}", daemon.so_far());
    assert!(read(pid, "stat").contains(") T "), "{}", read(pid, "stat"));
    agent.signal(Signal::CONT);
    assert!(agent.wait_exit(PATIENCE), "it does not end");
    assert!(poll_until(|| test.named("sleep").is_empty()), "{:?}", test.processes());
    shared.end();
    test.assert_clean();
}

#[test]
fn a_user_who_is_somebody_else_there_is_refused() {
    if skipped() {
        return;
    }
    if !tools::have("unshare") {
        return println!("skipped: no unshare (Debian: apt-get install util-linux)");
    }
    let test = Test::new("users-names");
    // On h1, as it sees /etc, Bob has another name and Carol none.
    let passwd = test.file("passwd");
    let text = std::fs::read_to_string("/etc/passwd").expect("there");
    let other = |l: &str| match l.split(':').nth(2) {
        Some("1") => format!("mallory{}\n", &l[l.find(':').expect("split above")..]),
        Some("2") => String::new(),
        _ => format!("{l}\n"),
    };
    std::fs::write(&passwd, text.lines().map(other).collect::<String>()).expect("written");
    let script = format!("mount --bind {} /etc/passwd && exec \"$0\" \"$@\"", passwd.display());
    let mut probe = test.command("unshare");
    probe.args(["--mount", "sh", "-c", &script, "true"]);
    if test.run(probe).code() != 0 {
        return println!("skipped: no mount namespaces here");
    }
    let shared = Shared::start(&test, |_| {
        let mut command = test.command("unshare");
        command.args(["--mount", "sh", "-c", &script]);
        command
    });
    let refused = test.run(shared.run(BOB, &["/bin/true"]));
    let refused = refused.failure(&["host h1: user 1 is mallory here, but daemon where the job was started"]);
    assert!(refused.stderr.contains("the same number on all hosts"), "{refused}");
    test.run(shared.run(CAROL, &["/bin/true"])).failure(&["no user 2 here (bin where the job was started)"]);
    test.run(shared.run(ALICE, &["/bin/true"])).success();
    // Root is root.
    test.run(shared.run(0, &["/bin/true"])).success();
    shared.end();
    test.assert_clean();
}

#[test]
fn a_daemon_of_a_plain_user_starts_programs_for_nobody_else() {
    if skipped() {
        return;
    }
    let test = Test::new("users-plain");
    let shared = Shared::start(&test, |cluster| {
        // Its own copy of the key: that of root is root's.
        let text = std::fs::read_to_string(cluster.file(1)).expect("written");
        std::fs::write(cluster.own_file(1), text.replace("cluster.key", "cluster1.key")).expect("written");
        std::fs::copy(test.file("cluster.key"), test.file("cluster1.key")).expect("copied");
        chown(test.file("cluster1.key"), Some(ALICE), None).expect("we are root");
        std::fs::create_dir_all(cluster.dir(1)).expect("a directory");
        chown(cluster.dir(1), Some(ALICE), None).expect("we are root");
        let mut command = test.command("env");
        command.uid(ALICE).gid(ALICE);
        command
    });
    test.run(shared.run(ALICE, &["/bin/true"])).success();
    for user in [BOB, 0] {
        let refused = test.run(shared.run(user, &["/bin/true"]));
        let why = format!("belongs to user {user}, fabricd here runs as user 65534 and starts programs of nobody else");
        refused.failure(&["host h1", &why, "fabricd@"]);
    }
    shared.end();
}

#[test]
fn captures_of_all_hosts_have_the_packets_of_ones_own_jobs() {
    if skipped() {
        return;
    }
    let test = Test::new("users-captures");
    let shared = Shared::start(&test, |_| test.command("env"));
    let program = Shared::program(&test, "ring");
    tools::copy_program(tools::compile("examples/c/ring.c").as_ref(), &program);
    let captures = [ALICE, BOB].map(|user| {
        let home = test.file(&format!("of-{user}"));
        std::fs::create_dir(&home).expect("a directory");
        chown(&home, Some(user), Some(user)).expect("we are root");
        let file = home.join("x.pcapng");
        let mut command = test.command(Shared::program(&test, "angara"));
        command.args(["capture", "-w"]).arg(&file).arg("--runtime-dir").arg(shared.cluster.dir(0));
        command.uid(user).gid(user).current_dir("/");
        let capture = test.spawn(command);
        capture.expect_error("capturing");
        (file, capture)
    });
    test.run(shared.run(ALICE, &[program.to_str().expect("utf-8")])).success();
    let heard = captures.map(|(file, capture)| {
        capture.signal(Signal::INT);
        capture.wait(PATIENCE).success();
        let mut reader = PcapNgReader::new(File::open(&file).expect("a file")).expect("a pcapng file");
        let mut packets = [0; 2];
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.expect("whole blocks") {
                packets[packet.interface_id as usize] += 1;
            }
        }
        packets
    });
    assert!(heard[0].iter().all(|packets| *packets > 0) && heard[1] == [0, 0], "{heard:?}");
    shared.end();
    test.assert_clean();
}

#[test]
fn users_reach_nothing_of_each_other_on_any_host() {
    if skipped() {
        return;
    }
    let test = Test::new("users-apart");
    let shared = Shared::start(&test, |_| test.command("env"));
    let start = |user| {
        as_user(user, || {
            let mut control = Control::connect(&shared.cluster.dir(0));
            let job = control.create(angara_protocol::msg::JobSpec { map: Map::Linear, ..spec(8, Engine::Ring) });
            (control, job.expect("every user may have jobs"))
        })
    };
    let (mut alices, job): (Control, Job) = start(ALICE);
    let (mut bobs, bobs_job) = start(BOB);
    // Nothing on another host in her name: no programs, no news, no end.
    for request in [
        Request::JobAgent { job: job.id, host: "h1".into() },
        Request::JobReport { job: job.id },
        Request::JobPairs { job: job.id, from: 0, to: 0 },
        Request::JobDestroy { job: job.id },
        Request::Capture(CaptureSpec { job: Some(job.id), host: Some("h1".into()), ..CaptureSpec::default() }),
    ] {
        let refused = bobs.ask(&request).expect_err("must be refused");
        assert!(refused.message.contains("belongs to user 65534, not to user 1"), "{refused:?}");
    }
    let refused = bobs.ask(&Request::KeysReload).expect_err("not his daemon");
    assert!(refused.message.contains("user 1 may not change the keys"), "{refused:?}");
    // No place in her job on the other host, where no daemon has seen her: PE 2 is there.
    let dir = shared.cluster.dir(1);
    let mut there = Control::connect(&dir);
    assert_eq!(there.status().jobs.iter().map(|j| j.uid).collect::<Vec<_>>(), [ALICE, BOB]);
    match as_user(BOB, || Socket::connect(&dir).ask(&attach_request(&job, 2))) {
        Some((AdapterReply::Error(f), fds)) => {
            assert!(f.message.contains("belongs to user 65534, this process to user 1") && fds.is_empty(), "{f:?}");
        }
        other => panic!("Bob got {:?}", other.map(|o| o.0)),
    }
    // Memory of both jobs there: nothing in common, and nothing to be had from the daemon's process.
    let alice = as_user(ALICE, || Client::attach(&dir, &job, 2)).expect("her own job");
    let bob = as_user(BOB, || Client::attach(&dir, &bobs_job, 2)).expect("his own job");
    let inodes = |client: &Client| -> Vec<u64> {
        let own = client.fds.iter().filter(|(role, _)| *role != FdRole::Csr && *role != FdRole::Doorbell);
        own.map(|(_, fd)| rustix::fs::fstat(fd).expect("open").st_ino).collect()
    };
    let (a, b) = (inodes(&alice), inodes(&bob));
    assert!(!a.is_empty() && a.iter().all(|i| !b.contains(i)), "shared memory between jobs: {a:?} {b:?}");
    let fds = format!("/proc/{}/fd", shared.daemons[1].process().pid);
    let peek = as_user(BOB, || std::fs::read_dir(&fds).map(drop)).expect_err("not his");
    assert_eq!(peek.kind(), std::io::ErrorKind::PermissionDenied);
    drop((alice, bob));
    alices.destroy(job.id);
    bobs.destroy(bobs_job.id);
    drop((alices, bobs, there));
    shared.end();
    test.assert_clean();
}
