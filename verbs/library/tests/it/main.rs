//! C programs with the library preloaded.

use std::ffi::CString;
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

#[test]
fn files_of_adapters_are_there() {
    let Some(program) = build("files") else { return };
    let out = run(&program);
    assert!(out.status.success(), "{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
}

#[test]
fn all_names_are_there_under_their_versions() {
    let c = |text: &str| CString::new(text).expect("no zero");
    // SAFETY: a path; the library has no constructors that do harm.
    let library = unsafe { libc::dlopen(c(LIBRARY).as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null());
    let has = |name: &str, version: &str| {
        // SAFETY: an open library, and texts.
        !unsafe { libc::dlvsym(library, c(name).as_ptr(), c(version).as_ptr()) }.is_null()
    };
    let (mut version, mut names) = (String::new(), 0);
    let map = include_str!("../../exports.map").split("*/").map(|part| part.split("/*").next().unwrap_or_default());
    for word in map.flat_map(str::split_whitespace) {
        match word.strip_suffix(';') {
            None if word.starts_with("IBVERBS_") => version = word.into(),
            Some(name) if name.contains("ibv_") || name.contains("verbs_") => {
                assert!(has(name, &version), "{name}@{version}");
                names += 1;
            }
            _ => {}
        }
    }
    assert!(names >= 100, "{names}");
    for version in ["34", "57", "59", "64", "65"].map(|number| format!("IBVERBS_PRIVATE_{number}")) {
        for name in ["execute_ioctl", "ibv_cmd_create_cq_ex2", "ibv_query_gid_type", "verbs_open_device"] {
            assert!(has(name, &version), "{name}@{version}");
        }
    }
}
