//! Instructions of one call of `angara::pgas` beside the same call of C, counted by callgrind: `cargo bench -p angara --bench pgas`.
//!
//! Both programs are a job of one PE whose target is itself. A long run less one without calls leaves start and end out. The bench
//! fails if Rust costs more than 10 % more than C. It needs `oshcc` of `cargo build --release`; without valgrind it only says so.

use angara::Result;
use angara::pgas::{Exposed, World};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const CALLS: i64 = 100_000;
/// What Rust may cost, in parts of C.
const MOST: f64 = 1.1;

/// A call: its name here, what it is in C, and in Rust.
struct Call {
    name: &'static str,
    c: &'static str,
    rust: fn(&World, &Exposed<i64>, i64, usize) -> Result<i64>,
}

const CALLS_OF_ALL: [Call; 4] = [
    Call { name: "write", c: "shmem_long_p(to, i, pe);", rust: write },
    Call { name: "read", c: "sum += shmem_long_g(to, pe);", rust: read },
    Call { name: "put_quiet", c: "shmem_long_put(to, &i, 1, pe); shmem_quiet();", rust: put_quiet },
    Call { name: "fetch_add", c: "sum += shmem_long_atomic_fetch_add(to, 1, pe);", rust: fetch_add },
];

#[inline(never)]
fn write(world: &World, to: &Exposed<i64>, calls: i64, pe: usize) -> Result<i64> {
    for i in 0..calls {
        world.write(to.at(pe, 0), i)?;
    }
    Ok(0)
}

#[inline(never)]
fn read(world: &World, to: &Exposed<i64>, calls: i64, pe: usize) -> Result<i64> {
    let mut sum = 0;
    for _ in 0..calls {
        sum += world.read(to.at(pe, 0))?;
    }
    Ok(sum)
}

#[inline(never)]
fn put_quiet(world: &World, to: &Exposed<i64>, calls: i64, pe: usize) -> Result<i64> {
    for i in 0..calls {
        world.put(to.at(pe, 0), &[i])?;
        world.quiet()?;
    }
    Ok(0)
}

#[inline(never)]
fn fetch_add(world: &World, to: &Exposed<i64>, calls: i64, pe: usize) -> Result<i64> {
    let mut sum = 0i64;
    for _ in 0..calls {
        sum = sum.wrapping_add(world.fetch_add(to.at(pe, 0), 1)?);
    }
    Ok(sum)
}

/// The program in C, compiled by the `oshcc` of this build.
fn program(folder: &Path, built: &Path) -> std::result::Result<PathBuf, String> {
    let mut source = String::from("#include <shmem.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    let mut choices = String::new();
    for Call { name, c, .. } in &CALLS_OF_ALL {
        source.push_str(&format!(
            "__attribute__((noinline)) long {name}_(long *to, long calls, int pe)\n{{ long sum = 0; for (long i = 0; i < calls; i++) {{ {c} }} return sum; }}\n"
        ));
        choices.push_str(&format!("if (!strcmp(name, \"{name}\")) sum = {name}_(to, calls, shmem_n_pes() - 1);\n"));
    }
    source.push_str(&format!(
        "int main(int argc, char **argv)\n{{ const char *name = argv[1]; long calls = atol(argv[2]), sum = 0;\nshmem_init(); long *to = shmem_calloc(8, 8);\n{choices}shmem_finalize(); return sum == 1; }}\n"
    ));
    let (file, program) = (folder.join("calls.c"), folder.join("calls"));
    std::fs::write(&file, source).map_err(|e| format!("{}: {e}", file.display()))?;
    let oshcc = built.join("oshcc");
    let done = Command::new(&oshcc).args(["-O2", "-o"]).arg(&program).arg(&file).status();
    match done {
        Ok(status) if status.success() => Ok(program),
        Ok(status) => Err(format!("oshcc {}: {status}", file.display())),
        Err(e) => Err(format!("{}: {e}; build it: cargo build --release", oshcc.display())),
    }
}

/// Instructions of one call.
fn each(program: &Path, name: &str) -> std::result::Result<f64, String> {
    let count = |calls: i64| angara_callgrind::count(program, &[name, &calls.to_string()]);
    Ok((count(CALLS)?.0 - count(0)?.0) / CALLS as f64)
}

fn compare() -> std::result::Result<bool, String> {
    let me = std::env::current_exe().map_err(|e| format!("this program's own path: {e}"))?;
    let built = me.parent().and_then(Path::parent).ok_or("this program is not in a folder of cargo's")?;
    let folder = std::env::temp_dir().join(format!("angara-pgas-{}", std::process::id()));
    std::fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let table = || {
        let (c, mut good) = (program(&folder, built)?, true);
        for Call { name, .. } in &CALLS_OF_ALL {
            let (c, rust) = (each(&c, name)?, each(&me, name)?);
            let verdict = if rust <= c * MOST { "" } else { "  <- more than 10 % more" };
            println!("{name:<10} {c:>6.1} instructions in C, {rust:>6.1} in Rust: {:.2}{verdict}", rust / c);
            good &= verdict.is_empty();
        }
        Ok(good)
    };
    let good = table();
    let _ = std::fs::remove_dir_all(&folder);
    good
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    if let Some(call) = arguments.next().and_then(|name| CALLS_OF_ALL.iter().find(|call| call.name == name)) {
        let calls = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(CALLS);
        let done = World::init().and_then(|world| {
            let to = world.array(8)?;
            (call.rust)(&world, &to, calls, world.n_pes() - 1)
        });
        return if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if !angara_callgrind::is_here() {
        println!("valgrind is not here: nothing is counted");
        return ExitCode::SUCCESS;
    }
    match compare() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}
