//! Python with packages: shmem4py, built with our compiler wrapper, and MPI libraries that come as wheels.
//!
//! Packages come from their registry. Where that cannot be reached, or Python lacks venv, this says so
//! and there are none. What was installed is kept below `target` for the next time.

use crate::tools;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The version whose tests are known to pass; it does not work with numpy 2.
const PACKAGE: &str = "shmem4py==1.0.0";
const NUMPY: &str = "numpy<2";

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
fn reachable(pip: &Path, dir: &Path, package: &str) -> Result<(), String> {
    step(pip, &["download", "--quiet", "--no-deps", "--timeout", "10", "--retries", "0", package], dir)
}

/// A virtual environment in `name` with wheels of these packages; `None` where they cannot be had, which is said. One at a time
/// makes it; others wait.
pub fn wheels(name: &str, packages: &[&str]) -> Option<PathBuf> {
    let dir = tools::profile_dir().join("angara-tests").join(name);
    std::fs::create_dir_all(dir.parent().expect("a place")).expect("target directory is writable");
    let lock = std::fs::File::create(dir.with_extension("lock")).expect("target directory is writable");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("files can be locked");
    let (venv, done, wanted) = (dir.join("venv"), dir.join("done"), packages.join(" "));
    if std::fs::read_to_string(&done).is_ok_and(|d| d == wanted) {
        return Some(venv);
    }
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("target directory is writable");
    let install = [&["install", "--quiet", "--only-binary", ":all:", "--timeout", "10", "--retries", "1"], packages];
    let made = step("python3", &["-m", "venv", "venv"], &dir)
        .and_then(|()| step(venv.join("bin/pip"), &install.concat(), &dir));
    if let Err(why) = made {
        println!("skipped: {wanted} cannot be had from Python's registry: {}", why.trim());
        return None;
    }
    std::fs::write(done, wanted).expect("target directory is writable");
    Some(venv)
}

/// Python of an environment with the package, and the directory of the package's tests; `None` where it
/// cannot be had, which is said.
pub fn environment() -> Option<&'static (PathBuf, PathBuf)> {
    static MADE: OnceLock<Option<(PathBuf, PathBuf)>> = OnceLock::new();
    MADE.get_or_init(install).as_ref()
}

fn install() -> Option<(PathBuf, PathBuf)> {
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
    if let Err(why) = step("python3", &["-m", "venv", "venv"], &dir).and_then(|()| reachable(&pip, &dir, NUMPY)) {
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
