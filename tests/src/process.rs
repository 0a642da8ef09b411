//! Processes with a time limit, and the proof that a test left nothing behind.
//!
//! Every process of a test inherits an environment variable with a value of its own. Whoever still
//! carries it in `/proc/PID/environ` belongs to the test, however often it forked, and whoever
//! adopted it. Shared memory of a job exists only as memfds, so once no such process is left, no
//! memory is either; sockets and lock files can only lie in the scratch directory.

use crate::tools;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const TAG: &str = "ANGARA_TEST_TAG";

/// Longest wait for anything that normally takes well below a second: it must do on a machine that does much else, and
/// be longer than the 200 s after which jobs of tests end by themselves and say why.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// One test: a scratch directory, an environment that reaches no daemon but its own, and every
/// process started in it. Dropping it kills what is left and removes the directory.
pub struct Test {
    dir: PathBuf,
    tag: String,
}

impl Test {
    /// A fresh scratch directory for `name`.
    pub fn new(name: &str) -> Test {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tag = format!("{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(format!("angara-test-{tag}"));
        for sub in ["run", "tmp", "out"] {
            fs::create_dir_all(dir.join(sub)).expect("temporary directory is writable");
        }
        Test { dir, tag }
    }

    /// Default runtime directory of daemons in this test.
    pub fn runtime_dir(&self) -> PathBuf {
        self.dir.join("run").join("angara")
    }
    /// A file for the test's own results; not looked at by [`Test::assert_clean`].
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join("out").join(name)
    }

    /// A command in this test's environment.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let name_ = name.to_string_lossy();
            if ["ANGARA", "SHMEM", "SMA_", "CARGO", "RUST", "LD_"].iter().any(|p| name_.starts_with(p)) {
                command.env_remove(&name);
            }
        }
        command
            .env(TAG, &self.tag)
            .env("XDG_RUNTIME_DIR", self.dir.join("run"))
            .env("TMPDIR", self.dir.join("tmp"))
            .current_dir(self.dir.join("out"))
            .stdin(Stdio::null());
        command
    }
    /// A command in this test's environment that a shell becomes when it has done `before`: set limits, for one.
    pub fn after(&self, before: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.command("bash");
        command.args(["-c", &format!(r#"{before}; exec "$0" "$@""#)]).arg(program);
        command
    }
    /// `angara` with `args`.
    pub fn angara<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.command(tools::tool("angara"));
        command.args(args);
        command
    }

    /// Starts a command; its output is collected.
    pub fn spawn(&self, mut command: Command) -> Running {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let shown = words.map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("cannot start {shown}: {e}"));
        let stdout = Output::collect(child.stdout.take().expect("piped"));
        let stderr = Output::collect(child.stderr.take().expect("piped"));
        Running { child, shown, stdout, stderr, tag: self.tag.clone(), started: Instant::now() }
    }
    /// Runs a command to its end, at most [`PATIENCE`].
    pub fn run(&self, command: Command) -> Finished {
        self.spawn(command).wait(PATIENCE)
    }

    /// Processes of this test that are alive.
    pub fn processes(&self) -> Vec<Process> {
        tagged(&self.tag)
    }
    /// Processes of this test whose command is `name`.
    pub fn named(&self, name: &str) -> Vec<Process> {
        self.processes().into_iter().filter(|p| p.comm == name).collect()
    }

    /// Waits until no process of this test is left.
    pub fn wait_gone(&self, limit: Duration) -> Result<(), String> {
        let end = Instant::now() + limit;
        loop {
            let Some(first) = self.processes().into_iter().next() else { return Ok(()) };
            if !first.wait_exit(end.saturating_duration_since(Instant::now())) {
                return Err(format!("after {limit:?} these processes are left:\n{}", diagnose(&self.tag)));
            }
        }
    }

    /// Fails unless every process has ended and no socket, lock or temporary file is left.
    pub fn assert_clean(&self) {
        if let Err(left) = self.wait_gone(PATIENCE) {
            panic!("leftovers of {}: {left}", self.tag);
        }
        let mut files = Vec::new();
        for sub in ["run", "tmp"] {
            walk(&self.dir.join(sub), &mut files);
        }
        assert!(files.is_empty(), "leftovers of {}: {files:?}", self.tag);
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        for _ in 0..100 {
            let left = tagged(&self.tag);
            if left.is_empty() {
                break;
            }
            for p in &left {
                p.signal(Signal::CONT);
                p.signal(Signal::KILL);
            }
            for p in &left {
                p.wait_exit(Duration::from_secs(5));
            }
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            walk(&path, out);
            // An empty directory that survives is not worth a failure unless it is a daemon's own.
            let _ = fs::remove_dir(&path);
        } else {
            out.push(path);
        }
    }
}

/// A process found in `/proc`.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Name of its executable, at most 15 bytes.
    pub comm: String,
    /// Its arguments.
    pub args: Vec<String>,
}

impl Process {
    /// Sends a signal; a process that is gone is no error.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            let _ = kill_process(pid, signal);
        }
    }
    /// Stops it and returns once every one of its threads has stopped: a signal stops them one by one.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let give_up = Instant::now() + PATIENCE;
        let stopped = |stat: &str| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'));
        loop {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
            if tasks.filter_map(|t| std::fs::read_to_string(t.path().join("stat")).ok()).all(|stat| stopped(&stat)) {
                return;
            }
            assert!(Instant::now() < give_up, "process {} did not stop within {PATIENCE:?}", self.pid);
            std::thread::yield_now();
        }
    }
    /// Waits until it has exited; false after `limit`.
    pub fn wait_exit(&self, limit: Duration) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return true };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => wait_readable(&fd, limit),
            Err(_) => true,
        }
    }
    /// CPU time used so far by all threads.
    pub fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
        // Fields 14 and 15 of stat(5), counted after the name: clock ticks of 10 ms.
        Duration::from_millis((ticks(11) + ticks(12)) * 10)
    }
}

/// Asks again and again until `done`, for what no event announces; false after [`PATIENCE`].
pub fn poll_until(mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !done() {
        if Instant::now() > end {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    true
}

/// True if this process, and so what it starts, ignores the signal.
pub fn ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:")).expect("a mask of ignored signals");
    u64::from_str_radix(mask.trim(), 16).expect("a hexadecimal mask") >> (signal.as_raw() - 1) & 1 == 1
}

/// Waits until `fd` is readable or hung up; false after `limit`.
pub fn wait_readable(fd: impl AsFd, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos() as _ };
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&time)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => panic!("poll: {e}"),
        }
    }
}

fn tagged(tag: &str) -> Vec<Process> {
    let want = format!("{TAG}={tag}");
    let mut out = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc is mounted").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else { continue };
        let Ok(environ) = fs::read(entry.path().join("environ")) else { continue };
        if !environ.split(|&b| b == 0).any(|v| v == want.as_bytes()) {
            continue;
        }
        let args = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        out.push(Process {
            pid,
            comm: fs::read_to_string(entry.path().join("comm")).unwrap_or_default().trim().into(),
            args: args
                .split(|&b| b == 0)
                .filter(|a| !a.is_empty())
                .map(|a| String::from_utf8_lossy(a).into())
                .collect(),
        });
    }
    out
}

/// Returns what the processes of a test are doing: for messages about a hang.
fn diagnose(tag: &str) -> String {
    let mut text = String::new();
    for p in tagged(tag) {
        let read = |what: &str| fs::read_to_string(format!("/proc/{}/{what}", p.pid)).unwrap_or_default();
        let state = read("status").lines().find(|l| l.starts_with("State")).unwrap_or("gone").to_string();
        let _ = writeln!(text, "  {} {} ({state}, in {}, cpu {:?})", p.pid, p.args.join(" "), read("wchan"), p.cpu());
    }
    text
}

/// Output of a process as it arrives.
struct Output {
    shared: Arc<(Mutex<Collected>, Condvar)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    closed: bool,
}

impl Output {
    fn collect(mut pipe: impl Read + Send + 'static) -> Output {
        let shared = Arc::new((Mutex::new(Collected::default()), Condvar::new()));
        let theirs = shared.clone();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            loop {
                let n = pipe.read(&mut buffer).unwrap_or(0);
                let mut c = theirs.0.lock().expect("no panic while holding it");
                c.bytes.extend_from_slice(&buffer[..n]);
                c.closed = n == 0;
                theirs.1.notify_all();
                if n == 0 {
                    return;
                }
            }
        });
        Output { shared, thread: Some(thread) }
    }
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shared.0.lock().expect("no panic while holding it").bytes).into()
    }
    /// Waits for a whole line that `wanted` accepts.
    fn line(&self, limit: Duration, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let end = Instant::now() + limit;
        let mut c = self.shared.0.lock().expect("no panic while holding it");
        loop {
            let text = String::from_utf8_lossy(&c.bytes);
            let whole = text.rfind('\n').map_or("", |at| &text[..at]);
            if let Some(line) = whole.lines().find(|l| wanted(l)) {
                return Some(line.into());
            }
            let left = end.saturating_duration_since(Instant::now());
            if c.closed || left.is_zero() {
                return None;
            }
            c = self.shared.1.wait_timeout(c, left).expect("no panic while holding it").0;
        }
    }
    /// Waits for the end of the output, which a stray grandchild may keep open.
    fn finish(&mut self, limit: Duration) -> String {
        let end = Instant::now() + limit;
        let mut c = self.shared.0.lock().expect("no panic while holding it");
        while !c.closed && Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            c = self.shared.1.wait_timeout(c, left).expect("no panic while holding it").0;
        }
        if c.closed {
            drop(c);
            if let Some(thread) = self.thread.take() {
                thread.join().expect("collector does not panic");
            }
        }
        self.text()
    }
}

/// A process that is running. Killed when dropped.
pub struct Running {
    child: Child,
    shown: String,
    stdout: Output,
    stderr: Output,
    tag: String,
    started: Instant,
}

impl Running {
    pub fn process(&self) -> Process {
        Process { pid: self.child.id() as i32, comm: String::new(), args: vec![self.shown.clone()] }
    }
    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.process().signal(signal);
    }
    /// Waits for a line on standard output that contains `part` and returns it.
    pub fn expect_line(&self, part: &str) -> String {
        self.stdout.line(PATIENCE, |l| l.contains(part)).unwrap_or_else(|| {
            panic!("{} printed no line with `{part}` within {PATIENCE:?}\n{}", self.shown, self.so_far())
        })
    }
    /// Waits for a line on standard error that contains `part`.
    pub fn expect_error(&self, part: &str) {
        let said = self.stderr.line(PATIENCE, |l| l.contains(part));
        assert!(said.is_some(), "{} said no `{part}` within {PATIENCE:?}\n{}", self.shown, self.so_far());
    }
    /// True if a line on standard output contains `part`, now or within `limit`.
    pub fn has_line(&self, part: &str, limit: Duration) -> bool {
        self.stdout.line(limit, |l| l.contains(part)).is_some()
    }
    /// The other end of its standard input, if the command asked for a pipe.
    pub fn take_stdin(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().expect("the command was given `Stdio::piped()` for standard input")
    }
    /// Returns what both outputs hold so far, and what the processes are doing.
    pub fn so_far(&self) -> String {
        format!(
            "--- stdout\n{}\n--- stderr\n{}\n--- processes\n{}",
            self.stdout.text(),
            self.stderr.text(),
            diagnose(&self.tag)
        )
    }
    /// Waits for its end, at most `limit`; running longer fails the test.
    pub fn wait(self, limit: Duration) -> Finished {
        let shown = self.shown.clone();
        self.try_wait(limit).unwrap_or_else(|still| {
            let text = format!("{shown} still runs after {limit:?}\n{}", still.so_far());
            drop(still);
            panic!("{text}")
        })
    }
    /// Waits for its end, at most `limit`; gives itself back if it still runs.
    pub fn try_wait(mut self, limit: Duration) -> Result<Finished, Box<Running>> {
        if !self.process().wait_exit(limit) {
            return Err(Box::new(self));
        }
        let status = self.child.wait().expect("a child of this process");
        let stdout = self.stdout.finish(Duration::from_secs(10));
        let stderr = self.stderr.finish(Duration::from_secs(10));
        Ok(Finished { shown: self.shown.clone(), status, stdout, stderr, elapsed: self.started.elapsed() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that has ended.
#[derive(Debug)]
pub struct Finished {
    shown: String,
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// How long it took.
    pub elapsed: Duration,
}

impl Finished {
    /// Exit code, or 128 + signal as a shell has it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }
    /// Fails unless it ended with exit code 0.
    pub fn success(self) -> Finished {
        assert_eq!(self.code(), 0, "{self}");
        self
    }
    /// Fails unless it ended with another exit code than 0, with standard error containing every
    /// one of `parts` (in any case).
    pub fn failure(self, parts: &[&str]) -> Finished {
        assert_ne!(self.code(), 0, "was expected to fail: {self}");
        let lower = self.stderr.to_lowercase();
        for part in parts {
            assert!(lower.contains(&part.to_lowercase()), "`{part}` is not in the error message of {self}");
        }
        assert!(!self.stderr.contains("panicked"), "a panic is no error message: {self}");
        self
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}\nended with {} after {:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.shown, self.status, self.elapsed, self.stdout, self.stderr
        )
    }
}
