//! Python: the shmem4py package builds with our compiler wrapper, its own tests pass, the example runs.
//!
//! The package comes from its registry. Where that cannot be reached, or Python lacks venv, this says so
//! and checks nothing. What was installed is kept below `target` for the next time.

use angara_tests::{Test, tools};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The version whose tests are known to pass; it does not work with numpy 2.
const PACKAGE: &str = "shmem4py==1.0.0";
const NUMPY: &str = "numpy<2";
/// 110 tests in Python on every PE take seconds, and minutes on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(200);

/// Runs a step of the installation; what it said if it failed.
fn step(program: impl AsRef<std::ffi::OsStr>, args: &[&str], dir: &Path) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let ours = tools::profile_dir().to_path_buf();
    let path = std::env::join_paths(std::iter::once(ours).chain(std::env::split_paths(&path))).expect("a search path");
    let mut command = Command::new(program);
    // The interface is one C file of which an optimising compiler makes minutes of work.
    command.args(args).current_dir(dir).env("PATH", path).env("CFLAGS", "-O0").stdin(Stdio::null());
    let done = command.output();
    let done = done.map_err(|e| e.to_string())?;
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
}

/// The registry answers.
fn reachable(pip: &Path, dir: &Path) -> Result<(), String> {
    step(pip, &["download", "--quiet", "--no-deps", "--timeout", "10", "--retries", "0", NUMPY], dir)
}

/// Python of an environment with the package, and the directory of the package's tests; `None` where it
/// cannot be had.
fn environment() -> Option<(PathBuf, PathBuf)> {
    let dir = tools::profile_dir().join("angara-tests/python");
    let (python, pip) = (dir.join("venv/bin/python"), dir.join("venv/bin/pip"));
    let (done, tests) = (dir.join("done"), dir.join("shmem4py-1.0.0/test"));
    // Built against the header and library as they were then: again when the header has changed.
    let header = std::fs::read(tools::tool("include/shmem.h")).expect("the header is readable");
    if std::fs::read(&done).is_ok_and(|d| d == header) && tests.is_dir() {
        return Some((python, tests));
    }
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("target directory is writable");
    if let Err(why) = step("python3", &["-m", "venv", "venv"], &dir).and_then(|()| reachable(&pip, &dir)) {
        println!("skipped: no Python with venv, or its package registry cannot be reached: {}", why.trim());
        return None;
    }
    let install = ["install", "--quiet", "--no-cache-dir", NUMPY, PACKAGE];
    let download = ["download", "--quiet", "--no-deps", "--no-binary", "shmem4py", PACKAGE];
    let all = step(&pip, &install, &dir)
        .and_then(|()| step(&pip, &download, &dir))
        .and_then(|()| step("tar", &["xf", "shmem4py-1.0.0.tar.gz"], &dir));
    all.unwrap_or_else(|why| panic!("shmem4py cannot be installed with our oshcc:\n{why}"));
    std::fs::write(done, header).expect("target directory is writable");
    Some((python, tests))
}

#[test]
fn shmem4py_builds_passes_its_tests_and_runs_the_example() {
    let Some((python, tests)) = environment() else { return };
    for (path, pes) in [("direct", "2"), ("ring", "2")] {
        let test = Test::new("shmem4py");
        let mut command = test.angara(["run", "-n", pes, "--path", path, "--timeout", "180", "--"]);
        command.arg(&python).args(["-m", "unittest", "discover", "-s"]).arg(&tests);
        let done = test.spawn(command).wait(LIMIT).success();
        let ran = done.stderr.lines().filter(|l| l.starts_with("Ran ")).count();
        assert_eq!(ran.to_string(), pes, "every PE reports: {done}");
        test.assert_clean();
    }
    let test = Test::new("python-example");
    let mut command = test.angara(["run", "-n", "3", "--timeout", "100", "--"]);
    command.arg(&python).arg(tools::root().join("examples/python/jacobi.py")).arg("4");
    let done = test.run(command).success();
    assert!(done.stdout.contains("12 cells") && done.stdout.contains("a straight line"), "{done}");
    test.assert_clean();
}
