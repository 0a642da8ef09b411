//! `cargo xtask cross --check`: builds for aarch64 with Debian's cross compiler, and tries the result under QEMU.
//!
//! The conformance programs of OpenSHMEM run as PEs of aarch64 beside the daemon of aarch64, and beside a daemon of this
//! machine's own, which shares its memory with them. A job has PEs of one machine: the static variables of a program lie
//! elsewhere on the other, so a mixed one is refused. QEMU on x86-64 keeps x86's memory order, so that mistakes of order are not
//! found here.

use crate::steps::{Temporary, make_dir, require, run};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const TRIPLE: &str = "aarch64-unknown-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";
const QEMU: &str = "qemu-aarch64-static";
/// Where Debian has the loader and libc of the other machine.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
/// Programs this takes, and the package of Debian that has each.
const TOOLS: [(&str, &str); 2] =
    [(COMPILER, "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"), (QEMU, "qemu-user-static")];
/// What is built for the other machine.
const CRATES: [&str; 5] = ["angara", "shmem-shim", "angara-fabricd", "angara-cli", "angara-clock"];
/// Longest life of a job, in seconds.
const PATIENCE: &str = "300";
const STARTS: Duration = Duration::from_secs(60);

/// C programs that check themselves, with the flags that each needs.
const PROGRAMS: [(&str, &[&str]); 15] = [
    ("rma", &[]),
    ("amo", &[]),
    ("sync", &[]),
    ("fences", &[]),
    ("collectives", &[]),
    ("teams", &[]),
    ("interpose", &[]),
    ("generics", &[]),
    ("active_sets", &[]),
    ("order", &[]),
    ("beside", &[]),
    ("extensions", &[]),
    ("overlap", &[]),
    ("threads", &["-pthread"]),
    ("streams", &["-pthread", "-DLIVES=50", "-DROUNDS=2"]),
];
/// (path, PEs).
const WAYS: [(&str, &str); 3] = [("direct", "1"), ("direct", "3"), ("ring", "3")];

/// Builds, and tries if `check`; what was found.
pub(crate) fn cross(root: &Path, target: &Path, check: bool) -> Result<String, String> {
    require(if check { &TOOLS } else { &TOOLS[..1] })?;
    cargo(root, target, Some(TRIPLE))?;
    let built = target.join(TRIPLE).join("debug");
    if !check {
        return Ok(format!("{}\n", built.display()));
    }
    cargo(root, target, None)?;
    Trial::new(root, target, built)?.all()
}

/// Builds what is tried, for the other machine or for this one.
fn cargo(root: &Path, target: &Path, triple: Option<&str>) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--target-dir"]).arg(target).current_dir(root).env_remove("CARGO_BUILD_TARGET");
    build.args(CRATES.iter().flat_map(|name| ["-p", name]));
    if let Some(triple) = triple {
        build.args(["--target", triple]);
        build.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER);
    }
    match build.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let remedy = triple.map_or(String::new(), |t| format!("; is the target there? rustup target add {t}"));
            Err(format!("cargo build failed ({status}){remedy}"))
        }
        Err(e) => Err(format!("cannot start cargo: {e}")),
    }
}

/// What a job is started beside.
#[derive(Clone, Copy)]
enum Beside<'a> {
    /// A daemon of the other machine, in this directory.
    Theirs(&'a Path),
    /// A daemon of this machine, of the job's own.
    Ours,
}

/// Where things are, and how many did what.
struct Trial<'r> {
    root: &'r Path,
    /// Programs of this machine.
    ours: PathBuf,
    /// Programs and libraries of the other one.
    theirs: PathBuf,
    /// Compiled programs and sockets.
    work: PathBuf,
    passed: usize,
    failed: Vec<String>,
}

/// A process that ends with its owner.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl<'r> Trial<'r> {
    fn new(root: &'r Path, target: &Path, theirs: PathBuf) -> Result<Trial<'r>, String> {
        let work = target.join("cross");
        make_dir(&work)?;
        Ok(Trial { root, ours: target.join("debug"), theirs, work, passed: 0, failed: Vec::new() })
    }

    fn all(mut self) -> Result<String, String> {
        let version = self.qemu(&self.theirs.join("angara"), |c| c.arg("--version"))?;
        let mut programs = Vec::new();
        for (name, flags) in PROGRAMS {
            programs.push((name, self.compile(name, flags)?));
        }
        let dir = Temporary(self.work.join(format!("run-{}", std::process::id())));
        make_dir(&dir.0)?;
        let daemon = self.daemon(&dir.0)?;
        for (name, program) in &programs {
            self.alone(name, program);
            for (path, pes) in WAYS {
                for beside in [Beside::Theirs(&dir.0), Beside::Ours] {
                    self.job(name, program, path, pes, beside);
                }
            }
        }
        drop(daemon);
        let mut text = format!("{version}{} runs of {} programs passed", self.passed, programs.len());
        let _ = writeln!(text, ", {} failed", self.failed.len());
        if self.failed.is_empty() { Ok(text) } else { Err(format!("{text}{}", self.failed.join("\n"))) }
    }

    /// Runs a program of the other machine by itself.
    fn qemu(&self, program: &Path, with: impl FnOnce(&mut Command) -> &mut Command) -> Result<String, String> {
        let mut command = Command::new(QEMU);
        command.args(["-L", LIBRARIES]).arg(program);
        run(with(&mut command))
    }

    /// Compiles a C program for the other machine.
    fn compile(&self, name: &str, flags: &[&str]) -> Result<PathBuf, String> {
        let out = self.work.join(name);
        let mut command = Command::new(COMPILER);
        command.args(["-O2", "-Wall"]).args(flags).arg("-I").arg(self.theirs.join("include"));
        command.arg(self.root.join(format!("tests/c/openshmem/{name}.c"))).arg("-o").arg(&out);
        command.arg("-L").arg(&self.theirs).args(["-lsma", "-lm", "-pthread"]);
        command.arg(format!("-Wl,-rpath,{}", self.theirs.display()));
        run(&mut command).map(|_| out)
    }

    /// Starts a daemon of the other machine, with its sockets in `dir`.
    fn daemon(&self, dir: &Path) -> Result<Ends, String> {
        let mut command = Command::new(QEMU);
        command.args(["-L", LIBRARIES]).arg(self.theirs.join("fabricd")).arg("--runtime-dir").arg(dir);
        command.args(["--torus", "2x2", "--channels", "4"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut daemon = Ends(command.spawn().map_err(|e| format!("cannot start {QEMU}: {e}"))?);
        let mut said = BufReader::new(daemon.0.stdout.take().ok_or("fabricd of aarch64 has no output")?);
        let (ready, is_ready) = mpsc::channel();
        // It says a line when its sockets are there, and nothing after it.
        std::thread::spawn(move || ready.send(said.read_line(&mut String::new())));
        match is_ready.recv_timeout(STARTS) {
            Ok(Ok(1..)) => Ok(daemon),
            Ok(_) => Err("fabricd of aarch64 ended before it was ready".into()),
            Err(_) => Err(format!("fabricd of aarch64 was not ready within {} s", STARTS.as_secs())),
        }
    }

    fn alone(&mut self, name: &str, program: &Path) {
        let answer = self.qemu(program, |c| c);
        self.note(format!("{name}: one PE without a launcher"), answer);
    }

    fn job(&mut self, name: &str, program: &Path, path: &str, pes: &str, beside: Beside<'_>) {
        let mut command = Command::new(self.ours.join("angara"));
        command.args(["run", "-n", pes, "--path", path, "--timeout", PATIENCE]);
        let which = match beside {
            Beside::Theirs(dir) => {
                command.arg("--runtime-dir").arg(dir);
                "aarch64"
            }
            Beside::Ours => "this machine",
        };
        command.args(["--", QEMU, "-L", LIBRARIES]).arg(program);
        let answer = run(&mut command);
        self.note(format!("{name}: {pes} PEs, {path}, daemon of {which}"), answer);
    }

    /// Counts a run: its program says that it passed.
    fn note(&mut self, what: String, answer: Result<String, String>) {
        let why = match answer {
            Ok(text) if text.contains(" passed") => {
                self.passed += 1;
                return;
            }
            Ok(text) => format!("it did not say that it passed: {text}"),
            Err(why) => why,
        };
        angara_protocol::complain!("xtask: {what}: {why}");
        self.failed.push(what);
    }
}
