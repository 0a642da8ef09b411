//! MPI programs for tests: the library that they are built with, and what leads them into a domain.

use crate::{Test, python, tools};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// MPICH, Python's bindings for it, and what these want for arrays.
const PACKAGES: [&str; 3] = ["mpich==5.0.2", "mpi4py==4.1.2", "numpy"];

/// The environment with MPICH, if it can be had here.
pub fn mpich() -> Option<&'static PathBuf> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    MADE.get_or_init(|| python::wheels("mpich", &PACKAGES)).as_ref()
}

/// Compiles a program of `tests/c/mpi` with a wrapper of an MPI library.
pub fn compile(test: &Test, name: &str, wrapper: impl AsRef<Path>) -> PathBuf {
    let (program, source) = (test.file(name), tools::root().join("tests/c/mpi").join(name).with_extension("c"));
    let mut compile = Command::new(wrapper.as_ref());
    compile.arg("-O1").arg(source).arg("-o").arg(&program).stdin(Stdio::null());
    let done = compile.output().expect("the wrapper starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    program
}

/// A program that joins a domain of the daemon in `dir`, or a launcher whose processes do.
pub fn in_domain(test: &Test, program: impl AsRef<Path>, dir: &Path) -> Command {
    let mut command = test.command(program.as_ref());
    command.env("FI_PROVIDER", "angara").env("FI_PROVIDER_PATH", tools::profile_dir().join("lib/libfabric"));
    // Over libfabric, which MPICH would not take by itself, also between ranks of one host.
    command.env("MPIR_CVAR_CH4_NETMOD", "ofi").env("MPIR_CVAR_NOLOCAL", "1");
    command.env("ANGARA_RUNTIME_DIR", dir).env("ANGARA_TIMEOUT", "200").stdin(Stdio::null());
    command
}
