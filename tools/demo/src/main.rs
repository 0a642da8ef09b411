//! `cargo demo`: builds what `angara demo` needs in one go, then becomes `angara demo`.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

fn main() -> ExitCode {
    let why = match run() {
        Ok(status) => return status,
        Err(why) => why,
    };
    say(&why);
    ExitCode::FAILURE
}

/// If nobody can read it, the status still tells.
fn say(what: &str) {
    let _ = writeln!(io::stderr(), "cargo demo: {what}");
}

/// Returns only if the demo was not started.
fn run() -> Result<ExitCode, String> {
    let exe = std::env::current_exe().map_err(|e| format!("cannot find this program's file: {e}"))?;
    let bin = exe.parent().ok_or("this program lies in no directory")?;
    let target = bin.parent().ok_or("this program does not lie in target/PROFILE")?;
    let profile = match bin.file_name().unwrap_or_default() {
        name if name == "debug" => OsStr::new("dev"),
        name => name,
    };
    let started = Instant::now();
    say(&format!(
        "step 1 of 3: building the commands, the daemon and the OpenSHMEM library into {} (some minutes the first time)\n\
         cargo demo: then 2: compiling an example with oshcc, and 3: running it on 8 PEs over a 2x2x2 torus, twice",
        bin.display()
    ));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."));
    let built = angara_demo::cargo_build(profile, target).current_dir(root).status();
    match built.map_err(|e| format!("cannot start cargo: {e}; call this by `cargo demo`"))? {
        status if status.success() => say(&format!("built in {:.0} s", started.elapsed().as_secs_f64())),
        // Cargo has said why.
        _ => return Ok(ExitCode::FAILURE),
    }
    let mut demo = Command::new(bin.join("angara"));
    let e = demo.args(["demo", "--no-build"]).args(std::env::args_os().skip(1)).exec();
    Err(format!("cannot start {}: {e}", bin.join("angara").display()))
}
