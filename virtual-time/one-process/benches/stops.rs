//! Instructions that stops of PEs cost, the program's own part included: `cargo bench -p angara-one-process`.
//!
//! Each case is a pattern of `tests/c/virtual_time/patterns.c` with 8 PEs as coroutines, run by `angara run`, with all PEs,
//! network and data plane in one process under callgrind. A longer run less a shorter one leaves start and end out. The bench
//! fails if a stop costs more than 10 % more or less than its budget. It needs what `cargo build --release` has built; without
//! valgrind it only says so.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Pattern and instructions per stop as counted with rustc 1.95 on x86-64, before cold code was no longer optimised.
const CASES: [(&str, f64); 4] =
    [("pingpong", 12112.3), ("put_quiet", 28867.3), ("halo", 41173.5), ("barrier", 73902.7)];

/// Rounds of a pattern in the shorter run and in the longer one.
const ROUNDS: [u64; 2] = [50, 250];

/// Times that a run is tried.
const TRIES: usize = 5;

/// The commands, with `angara-pes` under callgrind, and the program.
struct Bench {
    folder: PathBuf,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Bench {
    /// Of what lies in the folder of this build.
    fn new() -> Result<Bench, String> {
        let me = std::env::current_exe().map_err(|e| format!("this program's own path: {e}"))?;
        let built = me.parent().and_then(Path::parent).ok_or("this program is not in a folder of cargo's")?;
        let bench = Bench { folder: std::env::temp_dir().join(format!("angara-stops-{}", std::process::id())) };
        bench.fill(built).map_err(|e| format!("{}: {e}", bench.folder.display()))?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/c/virtual_time/patterns.c");
        let mut compiler = Command::new(built.join("oshcc"));
        compiler.arg("-O2").arg(&source).arg("-o").arg(bench.folder.join("patterns"));
        match compiler.status() {
            Ok(status) if status.success() => Ok(bench),
            Ok(status) => Err(format!("oshcc {}: {status}", source.display())),
            Err(e) => Err(format!("{}: {e}; build it: cargo build --release", built.join("oshcc").display())),
        }
    }

    /// `angara` takes what lies beside it, so it is copied; the rest leads back.
    fn fill(&self, built: &Path) -> std::io::Result<()> {
        fs::create_dir(&self.folder)?;
        for entry in fs::read_dir(built)?.flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().contains(".so") || name == "lib" {
                symlink(entry.path(), self.folder.join(name))?;
            }
        }
        fs::copy(built.join("angara"), self.folder.join("angara"))?;
        let pes = self.folder.join("angara-pes");
        let counts = "--tool=callgrind --callgrind-out-file=/dev/null --log-file=\"$STOPS_LOG\"";
        fs::write(
            &pes,
            format!("#!/bin/sh\nexec valgrind {counts} '{}' \"$@\"\n", built.join("angara-pes").display()),
        )?;
        fs::set_permissions(&pes, fs::Permissions::from_mode(0o755))
    }

    /// Instructions and stops of a run.
    fn count(&self, pattern: &str, rounds: u64) -> Result<(f64, f64), String> {
        let log = self.folder.join("log");
        let mut run = Command::new(self.folder.join("angara"));
        run.args(["run", "-n", "8", "--timeout", "120", "--clock", "virtual", "--pes-as", "coroutines"]);
        run.arg(self.folder.join("patterns")).args([pattern, &rounds.to_string()]).env("STOPS_LOG", &log);
        let done = run.output().map_err(|e| format!("angara: {e}; build it: cargo build --release"))?;
        let said = String::from_utf8_lossy(&done.stderr);
        let counted = fs::read_to_string(&log).unwrap_or_default();
        // ==1234== Collected : 4870452926
        let number = |line: &str| line.rsplit(':').next().and_then(|n| n.trim().parse::<f64>().ok());
        let instructions = counted.lines().filter(|line| line.contains("Collected")).find_map(number);
        let behind = said.split_once("PEs have stopped ").and_then(|(_, rest)| rest.split_once(" times"));
        let stops = behind.and_then(|(n, _)| n.parse().ok());
        instructions.zip(stops).filter(|_| done.status.success()).ok_or_else(|| format!("angara run: {said}"))
    }

    /// The same. Valgrind hides the kernel's own page of code, and rustix, which looks for it where a daemon waits, crashes in
    /// some runs: such a run is repeated, and that is said.
    fn count_again(&self, pattern: &str, rounds: u64) -> Result<(f64, f64), String> {
        let mut done = self.count(pattern, rounds);
        for _ in 1..TRIES {
            let crash = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            if done.is_ok() || !crash.contains("rustix::backend::param::auxv") {
                break;
            }
            print!("(again: rustix crashed under valgrind) ");
            done = self.count(pattern, rounds);
        }
        done
    }

    fn per_stop(&self, pattern: &str) -> Result<f64, String> {
        let [short, long] = ROUNDS.map(|rounds| self.count_again(pattern, rounds));
        let ((few, fewer), (many, more)) = (short?, long?);
        Ok((many - few) / (more - fewer))
    }
}

fn main() -> ExitCode {
    if !angara_callgrind::is_here() {
        println!("no valgrind here: instructions are not counted and no budget is checked");
        return ExitCode::SUCCESS;
    }
    let bench = match Bench::new() {
        Ok(bench) => bench,
        Err(why) => {
            println!("{why}");
            return ExitCode::FAILURE;
        }
    };
    // Another profile's code is other code.
    let checked = cfg!(not(debug_assertions));
    let mut kept = true;
    for (pattern, budget) in CASES {
        print!("{pattern:<20}");
        kept &= match bench.per_stop(pattern) {
            Ok(each) if checked => angara_callgrind::is_near(each, budget),
            Ok(each) => {
                println!("{each:>9.1} instructions; budgets are of release builds");
                true
            }
            Err(why) => {
                println!("   {why}");
                false
            }
        };
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
