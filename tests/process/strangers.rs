//! Other users of the machine who wait where a user's programs will look: for daemons, for processes, for environments.
//! Only root can be several users, so most of this is skipped without.

use angara_abi::JobId;
use angara_protocol::launch::{ADAPTER_SOCKET, CONTROL_SOCKET};
use angara_protocol::msg::{CoreAdvice, JobHost, JobSpec, Line, Path as Engine, Reply, Status};
use angara_tests::client::attach_request;
use angara_tests::daemon::{Control, Daemon, Job, spec};
use angara_tests::pmi::Launcher;
use angara_tests::process::{PATIENCE, Process};
use angara_tests::users::{as_user, only_root_can, set_mode};
use angara_tests::{Finished, Test, tools};
use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// Numbers of users that exist nowhere.
const VICTIM: u32 = 65_011;
const STRANGER: u32 = 65_012;
/// In the victim's environment; nobody else may see it.
const SECRET: &str = "the-victims-own-words";

/// A directory in which everybody may make directories, as in /tmp, and where a daemon of the victim would listen.
struct Stage {
    test: Test,
    everybodys: PathBuf,
}

impl Stage {
    fn new(name: &str) -> Stage {
        let test = Test::new(name);
        std::fs::create_dir_all(test.file("bin")).expect("a directory");
        let everybodys = test.file("tmp");
        std::fs::create_dir_all(&everybodys).expect("a directory");
        set_mode(&everybodys, 0o1777);
        for name in ["fabricd", "angara", "libsma.so"] {
            tools::copy_program(&tools::tool(name), &test.file("bin").join(name));
        }
        Stage { test, everybodys }
    }

    /// Where everybody can execute it.
    fn program(&self, source: &str) -> PathBuf {
        let compiled = tools::compile(source);
        let copy = self.test.file("bin").join(compiled.file_name().expect("a file"));
        tools::copy_program(compiled.as_ref(), &copy);
        copy
    }

    /// Where the victim's daemon would be.
    fn place(&self) -> PathBuf {
        self.everybodys.join("angara")
    }

    /// The victim starts a program of the stage's, or any other.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.test.command(self.test.file("bin").join(program));
        command.env("XDG_RUNTIME_DIR", &self.everybodys).env("LD_LIBRARY_PATH", self.test.file("bin"));
        command.env("SECRET", SECRET).uid(VICTIM).gid(VICTIM).current_dir("/");
        command
    }

    fn angara(&self, words: &[&str]) -> Finished {
        let mut command = self.command("angara");
        command.args(words);
        self.test.run(command)
    }
}

/// A daemon of a stranger's that says what its victim likes to hear, and keeps what it is told.
struct Fake {
    told: Arc<Mutex<String>>,
}

impl Fake {
    /// Answers as one of a cluster on whose other host all PEs are to be.
    fn start(dir: &Path, status: Status) -> Fake {
        let listener = as_user(STRANGER, || {
            std::fs::create_dir(dir).expect("everybody may");
            set_mode(dir, 0o755);
            let listener = UnixListener::bind(dir.join(CONTROL_SOCKET)).expect("a socket");
            set_mode(&dir.join(CONTROL_SOCKET), 0o666);
            listener
        });
        let told = Arc::new(Mutex::new(String::new()));
        let fake = Fake { told: told.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (told, status) = (told.clone(), status.clone());
                std::thread::spawn(move || Fake::answer(stream, &told, status));
            }
        });
        fake
    }

    fn answer(mut stream: UnixStream, told: &Mutex<String>, status: Status) {
        let mut from = BufReader::new(stream.try_clone().expect("a descriptor"));
        let mut line = Vec::new();
        told.lock().expect("nobody panics").push_str("connected\n");
        while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            told.lock().expect("nobody panics").push_str(&text);
            line.clear();
            let reply = if text.contains("job-create") {
                let remote = vec![JobHost { host: "h1".into(), pes: vec![0, 1], cores: CoreAdvice::default() }];
                let key = "0".repeat(32);
                Reply::Job {
                    job: JobId::new(1),
                    key,
                    placement: vec![0, 1],
                    cores: CoreAdvice::default(),
                    remote,
                    confined: false,
                }
            } else if text.contains("\"status\"") {
                Reply::Status(status.clone())
            } else {
                Reply::Ok
            };
            let reply = serde_json::to_string(&Line::Reply(reply)).expect("plain data");
            if writeln!(stream, "{reply}").is_err() {
                return;
            }
        }
    }

    fn heard_nothing(&self) {
        let told = self.told.lock().expect("nobody panics");
        assert!(told.is_empty(), "the stranger was told: {told}");
    }
}

/// Returns what a daemon says of itself.
fn honest_status(test: &Test) -> Status {
    let daemon = Daemon::start(test, &["--torus", "2x2x2"]);
    let status = daemon.status();
    daemon.shutdown();
    status
}

#[test]
fn a_fake_daemon_hears_nothing_of_its_victim() {
    if only_root_can() {
        return;
    }
    let stage = Stage::new("squat-fake");
    let program = stage.program("tests/c/openshmem/rma.c");
    let fake = Fake::start(&stage.place(), honest_status(&stage.test));
    let program = program.to_str().expect("utf-8");
    // Goes on without it, and says so.
    let done = stage.angara(&["run", "-n", "2", "--heap", "16M", "--timeout", "200", program]).success();
    assert!(done.stdout.contains(" passed") && done.stderr.contains("belongs to user 65012"), "{done}");
    fake.heard_nothing();
    let dir = stage.place();
    let dir = dir.to_str().expect("utf-8");
    let cluster = stage.test.file("cluster.toml");
    let cluster = cluster.to_str().expect("utf-8");
    let hosts = "a=127.0.0.1,b=127.0.0.2";
    stage
        .test
        .run(stage.test.angara(["cluster", "init", "--torus", "2x2", "--hosts", hosts, "--out", cluster]))
        .success();
    for words in [
        &["status"][..],
        &["status", "--runtime-dir", dir],
        &["shutdown"],
        &["fault", "link 0,0,0 +X down"],
        &["cluster", "status"],
        &["cluster", "keys", "reload"],
        &["run", "-n", "2", "--runtime-dir", dir, program],
        &["run", "-n", "2", "--cluster", cluster, program],
    ] {
        let done = stage.angara(words);
        let refused = done.failure(&["belongs to user 65012, who could read", "65011", "ANGARA_RUNTIME_DIR"]);
        assert_ne!(refused.code(), 0);
    }
    let doctor = stage.angara(&["doctor"]);
    assert!(doctor.stdout.contains("belongs to user 65012"), "{doctor}");
    // A program that some other launcher has told to go there.
    let mut pe = stage.command(program);
    pe.env("ANGARA_JOB", "1").env("ANGARA_KEY", "0".repeat(32)).env("ANGARA_PE", "0").env("ANGARA_NPES", "1");
    stage.test.run(pe).failure(&["belongs to user 65012", "ANGARA_RUNTIME_DIR"]);
    fake.heard_nothing();
    stage.test.wait_gone(PATIENCE).expect("nothing is left");
}

#[test]
fn pes_of_a_victim_meet_in_one_place_of_their_own() {
    if only_root_can() {
        return;
    }
    let stage = Stage::new("squat-pmi");
    let program = stage.program("tests/c/openshmem/collectives.c");
    let fake = Fake::start(&stage.place(), honest_status(&stage.test));
    let mut launcher = Launcher::new(3);
    let running: Vec<_> = (0..3).map(|pe| launcher.start(&stage.test, pe, stage.command(&program))).collect();
    let said: Vec<Finished> = running.into_iter().map(|r| r.wait(PATIENCE).success()).collect();
    assert_eq!(said.iter().filter(|s| s.stdout.contains(" passed")).count(), 1, "{said:?}");
    assert!(said[0].stderr.contains("belongs to user 65012"), "{}", said[0]);
    launcher.finish();
    fake.heard_nothing();
    stage.test.wait_gone(PATIENCE).expect("nothing is left");
}

#[test]
fn a_strangers_real_daemon_gets_no_job_of_its_victim() {
    if only_root_can() {
        return;
    }
    let stage = Stage::new("squat-real");
    let program = stage.program("tests/c/openshmem/rma.c");
    let mut command = stage.command("fabricd");
    command.args(["--torus", "2x2x2", "--runtime-dir"]).arg(stage.place()).uid(STRANGER).gid(STRANGER);
    let daemon = stage.test.spawn(command);
    daemon.expect_line("{");
    set_mode(&stage.place(), 0o755);
    [CONTROL_SOCKET, ADAPTER_SOCKET].iter().for_each(|s| set_mode(&stage.place().join(s), 0o666));
    let mut control = as_user(STRANGER, || Control::connect(&stage.place()));
    let program = program.to_str().expect("utf-8");
    let run =
        stage.angara(&["run", "-n", "2", "--torus", "2x2x2", "--path", "ring", "--heap", "16M", program]).success();
    assert!(run.stderr.contains("belongs to user 65012") && run.stderr.contains("private fabricd"), "{run}");
    // A daemon counts its jobs from 1.
    let job = as_user(STRANGER, || control.create(spec(1, Engine::Ring))).expect("its first");
    assert_eq!(job.id, JobId::new(1), "somebody had a job before");
    daemon.signal(Signal::TERM);
    daemon.wait(PATIENCE).success();
}

#[test]
fn only_what_nobody_else_can_have_made_is_believed() {
    if only_root_can() {
        return;
    }
    let stage = Stage::new("squat-modes");
    let status = |dir: &Path| {
        let mut command = stage.command("angara");
        command.args(["status", "--runtime-dir"]).arg(dir);
        stage.test.run(command)
    };
    let make = |name: &str, owner: u32, mode: u32| {
        let dir = stage.everybodys.join(name);
        as_user(owner, || std::fs::create_dir(&dir).expect("everybody may"));
        set_mode(&dir, mode);
        dir
    };
    for (name, owner) in [("own", VICTIM), ("roots", 0)] {
        let dir = make(name, owner, 0o755);
        let done = status(&dir);
        assert!(done.stderr.contains("no daemon") || done.stdout.contains("no daemon is running"), "{name}: {done}");
    }
    status(&make("open", VICTIM, 0o777)).failure(&["mode 0777, so others may put sockets of theirs there"]);
    status(&make("groups", 0, 0o770)).failure(&["mode 0770"]);
    status(&make("closed", STRANGER, 0o700)).failure(&["belongs to user 65012"]);
    let link = stage.everybodys.join("link");
    as_user(STRANGER, || std::os::unix::fs::symlink(stage.everybodys.join("own"), &link)).expect("everybody may");
    status(&link).failure(&["is no directory (symbolic links are not followed)"]);
    // Nor does a daemon listen there.
    for name in ["link", "closed", "open"] {
        let mut command = stage.command("fabricd");
        command.args(["--torus", "2", "--runtime-dir"]).arg(stage.everybodys.join(name));
        stage.test.run(command).failure(&[name, "--runtime-dir"]);
    }
}

#[test]
fn the_services_account_is_believed_where_only_root_decides() {
    if only_root_can() {
        return;
    }
    let stage = Stage::new("squat-service");
    // A machine where the service's account exists.
    let passwd = stage.test.file("passwd");
    let text = std::fs::read_to_string("/etc/passwd").expect("there");
    let text: String = text.lines().filter(|l| !l.starts_with("angara:")).map(|l| format!("{l}\n")).collect();
    std::fs::write(&passwd, format!("{text}angara:x:65013:65013::/:/bin/false\n")).expect("written");
    let script = format!("mount --bind {} /etc/passwd && exec \"$0\" \"$@\"", passwd.display());
    let inside = |words: &[&str]| {
        let mut command = stage.test.command("unshare");
        command.args(["--mount", "sh", "-c", &script]).args(words);
        command
    };
    if !tools::have("unshare") || stage.test.run(inside(&["true"])).code() != 0 {
        return println!("skipped: no mount namespaces here");
    }
    let angara = stage.test.file("bin").join("angara");
    let program = stage.program("tests/c/openshmem/rma.c");
    for (name, parent, believed) in
        [("run", stage.test.file("roots"), true), ("squat", stage.everybodys.clone(), false)]
    {
        std::fs::create_dir_all(&parent).expect("a directory");
        let dir = parent.join(name);
        std::fs::create_dir(&dir).expect("a directory");
        chown(&dir, Some(65_013), Some(65_013)).expect("we are root");
        let mut command = stage.command("fabricd");
        command.args(["--torus", "2x2x2", "--runtime-dir"]).arg(&dir).uid(65_013).gid(65_013);
        let daemon = stage.test.spawn(command);
        daemon.expect_line("{");
        [CONTROL_SOCKET, ADAPTER_SOCKET].iter().for_each(|s| set_mode(&dir.join(s), 0o666));
        let become_victim = ["setpriv", "--reuid", "65011", "--regid", "65011", "--clear-groups"];
        let words = ["run", "-n", "2", "--heap", "16M", "--runtime-dir"];
        let mut command = inside(&become_victim);
        command.arg(&angara).args(words).arg(&dir).arg(&program);
        command.env("LD_LIBRARY_PATH", stage.test.file("bin"));
        let done = stage.test.run(command);
        match believed {
            true => assert!(done.success().stdout.contains(" passed")),
            false => drop(done.failure(&["belongs to user 65013"])),
        }
        daemon.signal(Signal::TERM);
        daemon.wait(PATIENCE).success();
    }
}

#[test]
fn a_setuid_program_does_nothing_that_its_environment_asks_for() {
    if only_root_can() {
        return;
    }
    let stage = Stage::new("squat-setuid");
    let program = stage.program("tests/c/openshmem/rma.c");
    // As a distribution would install it: the library where the loader looks by itself.
    let flags = format!("-Wl,-rpath,{}", stage.test.file("bin").display());
    let compiled = tools::compile_with("tests/c/openshmem/rma.c", &[&flags]);
    std::fs::remove_file(&program).expect("ours");
    tools::copy_program(&compiled, &program);
    chown(&program, Some(VICTIM), Some(VICTIM)).expect("we are root");
    set_mode(&program, 0o4755);
    let start = || {
        let mut command = stage.command(&program);
        command.uid(STRANGER).gid(STRANGER).env_remove("LD_LIBRARY_PATH");
        command
    };
    let plain = stage.test.run(start());
    if !plain.stdout.contains(" passed") {
        return println!("skipped: setuid programs do not work here: {plain}");
    }
    // A file of the victim's, which a complaint would show.
    let file = stage.test.file("private");
    std::fs::write(&file, SECRET).expect("written");
    chown(&file, Some(VICTIM), Some(VICTIM)).expect("we are root");
    set_mode(&file, 0o600);
    let mut command = start();
    let done = stage.test.run({
        command.env("ANGARA_COLLECTIVES_TABLE", &file);
        command
    });
    assert!(done.stdout.contains(" passed") && !done.stderr.contains(SECRET), "{done}");
    // A job of the stranger's, whose memory he shares.
    let mut command = start();
    command.env("ANGARA_JOB", "1").env("ANGARA_KEY", "0".repeat(32)).env("ANGARA_PE", "0").env("ANGARA_NPES", "1");
    command.env("ANGARA_RUNTIME_DIR", stage.place());
    stage.test.run(command).failure(&["ANGARA_JOB is set", "setuid"]);
    // A program of the stranger's, started with the victim's rights.
    let planted = stage.everybodys.join("angara");
    let trace = stage.everybodys.join("trace");
    std::fs::write(&planted, format!("#!/bin/sh\nid -u > {}\n", trace.display())).expect("written");
    set_mode(&planted, 0o755);
    let mut launcher = Launcher::new(1);
    let mut command = start();
    command.env("ANGARA_BIN", &stage.everybodys).env("PATH", &stage.everybodys);
    let done = launcher.start(&stage.test, 0, command).wait(PATIENCE);
    launcher.finish();
    done.failure(&["PMI_FD is set", "setuid"]);
    assert!(!trace.exists(), "{:?}", std::fs::read_to_string(trace));
}

/// A process that attaches in one of the ways of `tests/c/peers.c`, and the signal that ended it with its job.
fn ended_by(mode: &str, daemon: &Daemon, test: &Test, users: &[u32]) -> String {
    let (mut control, job): (Control, Job) = as_user(users[0], || {
        let mut control = daemon.control();
        let job = control.create(JobSpec { heap: 4096, ..spec(1, Engine::Ring) }).expect("every user may have jobs");
        (control, job)
    });
    if mode == "stale" {
        daemon.pid().stop();
    }
    let mut command = test.command(tools::compile("tests/c/peers.c"));
    command.arg(mode).arg(daemon.dir());
    command.arg(serde_json::to_string(&attach_request(&job, 0)).expect("plain data"));
    command.args(users.iter().map(u32::to_string)).stdin(Stdio::piped());
    let mut peers = test.spawn(command);
    let mut input = peers.take_stdin();
    if mode == "stale" {
        peers.expect_line("ready");
        daemon.process.signal(Signal::CONT);
    }
    let answer = peers.expect_line("answer");
    assert!(mode == "stale" || answer != "answer 0", "{answer}");
    control.destroy(job.id);
    writeln!(input, "end").expect("it reads");
    let done = peers.wait(PATIENCE).success();
    done.stdout.lines().find(|l| l.starts_with("signal")).expect("its end").to_string()
}

#[test]
fn a_job_takes_its_processes_along_and_nobody_elses() {
    let test = Test::new("peers");
    let daemon = Daemon::start(&test, &["--torus", "2x2x2"]);
    let me = rustix::process::geteuid().as_raw();
    let (one, _other) = UnixStream::pair().expect("a socket pair");
    // Kernels before 6.5 do not say which process is at the other end.
    let own = if getsockopt(&one, PeerPidfd).is_ok() { "signal 9" } else { "signal 15" };
    assert_eq!(ended_by("own", &daemon, &test, &[me]), own, "a process of the daemon's own user");
    if !only_root_can() {
        set_mode(daemon.dir(), 0o755);
        [CONTROL_SOCKET, ADAPTER_SOCKET].iter().for_each(|s| set_mode(&daemon.dir().join(s), 0o666));
        let users = [VICTIM, STRANGER];
        assert_eq!(ended_by("stale", &daemon, &test, &users), "signal 15", "its number was another process's before");
        assert_eq!(ended_by("changed", &daemon, &test, &users), "signal 15", "it had become somebody else's");
        // Even one that is root's, as is this daemon.
        assert_eq!(ended_by("changed", &daemon, &test, &[VICTIM, 0]), "signal 15", "it had become root's");
    }
    daemon.shutdown();
    test.assert_clean();
}

/// Where the descriptors of a process lead.
fn descriptors(pid: i32) -> Vec<(u32, PathBuf)> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("ours").flatten();
    let number = |name: std::ffi::OsString| name.to_str().and_then(|n| n.parse().ok()).expect("a number");
    entries.filter_map(|e| Some((number(e.file_name()), std::fs::read_link(e.path()).ok()?))).collect()
}

#[test]
fn what_a_shell_hands_over_reaches_the_pes_and_nobody_who_stays() {
    let test = Test::new("descriptors");
    let file = test.file("handed-over");
    std::fs::write(&file, SECRET).expect("written");
    let with_file = |number: u32| format!("exec {number}<{}; exec \"$0\" \"$@\"", file.display());
    let mut command = test.command("bash");
    command.args(["-c", &with_file(9)]).arg(tools::tool("angara"));
    command.args(["run", "-n", "2", "--heap", "16M", "sh", "-c", "cat <&9; echo"]);
    let done = test.run(command).success();
    assert!(done.stdout.contains(SECRET), "{done}");
    // Under a launcher of MPI, what one PE has open is not kept open by whoever keeps the job.
    let program = tools::compile("tests/c/churn.c");
    let mut launcher = Launcher::new(1);
    let mut command = test.command("bash");
    // A number that the launcher's own descriptor for the PE does not have.
    command.args(["-c", &with_file(200)]).arg(program).arg("90");
    let pe = launcher.start(&test, 0, command);
    pe.expect_line("churning");
    let leads_there = |pid: i32| descriptors(pid).iter().any(|(_, to)| *to == file);
    assert!(leads_there(pe.process().pid), "what was handed over has gone");
    let others: Vec<_> = test.processes().into_iter().filter(|p| p.pid != pe.process().pid).collect();
    let keeper = |p: &Process| p.args.iter().any(|a| a == "__host");
    assert!(others.iter().any(|p| p.comm == "fabricd") && others.iter().any(keeper), "{others:?}");
    for other in others {
        assert!(!leads_there(other.pid), "{other:?}: {:?}", descriptors(other.pid));
    }
    pe.signal(Signal::KILL);
    pe.wait(PATIENCE);
    launcher.finish();
    test.assert_clean();
}
