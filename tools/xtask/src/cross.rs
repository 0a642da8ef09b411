//! `cargo xtask cross --check`: builds for aarch64 with Debian's cross compiler, and tries the result under QEMU.
//!
//! The conformance programs of OpenSHMEM run as PEs of aarch64 beside the daemon of aarch64, and beside a daemon of this
//! machine's own, which shares its memory with them. One program runs in jobs of both: every other PE is of aarch64, and what
//! the two do not have in common is refused. QEMU on x86-64 keeps x86's memory order, so that mistakes of order are not found
//! here.

use crate::machine::{CROSS, Machine};
use crate::steps::{Temporary, built, cargo_build, make_dir, require, run};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const OTHER: Machine = Machine::Aarch64;
const COMPILER: &str = "aarch64-linux-gnu-gcc";
const QEMU: &str = "qemu-aarch64-static";
/// Programs this takes, and the package of Debian that has each.
const TOOLS: [(&str, &str); 3] =
    [(COMPILER, "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"), (QEMU, "qemu-user-static"), ("cc", "gcc")];
/// What is built for the other machine.
const CRATES: [&str; 5] = ["angara", "shmem-shim", "angara-fabricd", "angara-cli", "angara-program-clock"];
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
/// The program of jobs of both architectures.
const BOTH: &str = "heterogeneous";
/// Mistakes in such a job, as that program names them, and what is said.
const REFUSED: [(&str, &str); 6] = [
    ("static", "shmem_long_p: the address"),
    ("static", "a global or static variable of the program"),
    ("long-double-p", "shmem_longdouble_p: in a job of several architectures"),
    ("long-double-g", "shmem_longdouble_g: in a job of several architectures"),
    ("all-long-double-sum", "shmem_longdouble_sum_reduce: in a job of several architectures"),
    ("all-char-max", "shmem_char_max_reduce: in a job of several architectures"),
];
/// (path, PEs).
const WAYS: [(&str, &str); 3] = [("direct", "1"), ("direct", "3"), ("ring", "3")];

/// Builds, and tries if `check`; what was found.
pub(crate) fn cross(root: &Path, target: &Path, check: bool) -> Result<String, String> {
    require(if check { &TOOLS } else { &TOOLS[..1] })?;
    cargo(root, target, Some(OTHER))?;
    let theirs = target.join(OTHER.triple()).join("debug");
    if !check {
        return Ok(format!("{}\n", theirs.display()));
    }
    cargo(root, target, None)?;
    Trial::new(root, target, theirs)?.all()
}

/// Builds what is tried, for the other machine or for this one.
fn cargo(root: &Path, target: &Path, other: Option<Machine>) -> Result<(), String> {
    let mut cargo = cargo_build(root, target);
    cargo.args(CRATES.iter().flat_map(|name| ["-p", name]));
    let Some(machine) = other else { return built(&mut cargo, "") };
    cargo.args(["--target", machine.triple()]).env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER);
    built(&mut cargo, &machine.without_rust())
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
            programs.push((name, self.compile(COMPILER, &self.theirs, name, flags, name)?));
        }
        let both = self.compile_both()?;
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
        self.both(&both);
        let mut text = format!("{version}{} runs of {} programs passed", self.passed, programs.len() + 1);
        let _ = writeln!(text, ", {} failed", self.failed.len());
        if self.failed.is_empty() { Ok(text) } else { Err(format!("{text}{}", self.failed.join("\n"))) }
    }

    /// Runs a program of the other machine by itself.
    fn qemu(&self, program: &Path, with: impl FnOnce(&mut Command) -> &mut Command) -> Result<String, String> {
        run(with(&mut OTHER.command(program)))
    }

    /// Compiles a C program with what was built in `built`.
    fn compile(&self, compiler: &str, built: &Path, name: &str, flags: &[&str], out: &str) -> Result<PathBuf, String> {
        let out = self.work.join(out);
        let mut command = Command::new(compiler);
        command.args(["-O2", "-Wall"]).args(flags).arg("-I").arg(built.join("include"));
        command.arg(self.root.join(format!("tests/c/openshmem/{name}.c"))).arg("-o").arg(&out);
        command.arg("-L").arg(built).args(["-lsma", "-lm", "-pthread"]);
        command.arg(format!("-Wl,-rpath,{}", built.display()));
        run(&mut command).map(|_| out)
    }

    /// Compiles [`BOTH`] twice, and writes what starts one or the other, by the number of the PE.
    fn compile_both(&self) -> Result<PathBuf, String> {
        let ours = self.compile("cc", &self.ours, BOTH, &[], &format!("{BOTH}-here"))?;
        let theirs = self.compile(COMPILER, &self.theirs, BOTH, &[], BOTH)?;
        let start = self.work.join(format!("{BOTH}.sh"));
        let text = format!(
            "case $((ANGARA_PE % 2)) in 0) exec '{}' \"$@\" ;; *) exec {QEMU} -L {CROSS} '{}' \"$@\" ;; esac\n",
            ours.display(),
            theirs.display()
        );
        std::fs::write(&start, text).map_err(|e| format!("cannot write {}: {e}", start.display()))?;
        Ok(start)
    }

    /// Jobs of both architectures.
    fn both(&mut self, start: &Path) {
        let run_both = |ours: &Path, options: &[&str], path: &str, mistake: &[&str]| {
            let mut command = Command::new(ours.join("angara"));
            command.args(["run", "-n", "4", "--path", path, "--timeout", PATIENCE]).args(options);
            run(command.args(["--", "sh"]).arg(start).args(mistake))
        };
        for path in ["direct", "ring"] {
            let answer = run_both(&self.ours, &["--heterogeneous"], path, &[]);
            self.note(format!("{BOTH}: 2 PEs of each architecture, {path}"), answer);
        }
        let without = run_both(&self.ours, &[], "direct", &[]);
        self.note_refusal(format!("{BOTH}: without the option"), without, "--heterogeneous");
        for (mistake, why) in REFUSED {
            let answer = run_both(&self.ours, &["--heterogeneous"], "direct", &[mistake]);
            self.note_refusal(format!("{BOTH}: {mistake}"), answer, why);
        }
    }

    /// Starts a daemon of the other machine, with its sockets in `dir`.
    fn daemon(&self, dir: &Path) -> Result<Ends, String> {
        let mut command = Command::new(QEMU);
        command.args(["-L", CROSS]).arg(self.theirs.join("fabricd")).arg("--runtime-dir").arg(dir);
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
        command.args(["--", QEMU, "-L", CROSS]).arg(program);
        let answer = run(&mut command);
        self.note(format!("{name}: {pes} PEs, {path}, daemon of {which}"), answer);
    }

    /// Counts a run that must fail, and say why.
    fn note_refusal(&mut self, what: String, answer: Result<String, String>, why: &str) {
        let answer = match answer {
            Err(said) if said.contains(why) => Ok(" passed".to_owned()),
            Err(said) => Err(format!("it did not say `{why}`: {said}")),
            Ok(text) => Err(format!("it was not refused: {text}")),
        };
        self.note(what, answer);
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
