//! C programs with the library preloaded.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library as programs load it.
const LIBRARY: &str = env!("CARGO_BIN_EXE_libangara-verbs");

/// A program, which goes when this does.
struct Program(PathBuf);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Builds a program of `tests/c`. None if there is nothing to build it with.
fn build(name: &str) -> Option<Program> {
    let to = std::env::temp_dir().join(format!("angara-verbs-{name}-{}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    if !Path::new("/usr/include/infiniband/verbs.h").exists() || Command::new("cc").arg("--version").output().is_err() {
        println!("-- skipped: there are no headers of libibverbs, or no C compiler");
        return None;
    }
    let built =
        Command::new("cc").args(["-Wall", "-o"]).arg(&to).arg(source).arg("-libverbs").output().expect("a compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(Program(to))
}

fn run(program: &Program) -> Output {
    Command::new(&program.0).env("LD_PRELOAD", LIBRARY).output().expect("the program runs")
}

#[test]
fn two_pairs_of_a_process_talk_to_each_other() {
    let Some(program) = build("loop") else { return };
    let out = run(&program);
    assert!(out.status.success(), "{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
}
