//! Whether RDMA programs can run on emulated adapters here, and which of their programs are there to try.

use super::{Finding, optional};
use angara_control::install;
use angara_control::program::in_path;
use angara_launch::mpi::survey;
use std::ffi::OsStr;

/// The tools of ibverbs-utils: one of them stands for all.
const UTILITIES: &str = "ibv_devinfo";
/// The same of perftest.
const PERFTEST: &str = "ib_write_lat";

pub(super) fn verbs() -> Vec<Finding> {
    vec![
        optional(
            "RDMA library",
            install::verbs_library().map(|file| file.display().to_string()).map_err(|e| e.message),
            "`angara verbs` is refused: cargo build --release makes it",
        ),
        optional(
            "direct RDMA copies",
            survey::cross_memory_both_ways(),
            "RDMA programs run without: a thread at the memory's side copies (allowed by: sysctl kernel.yama.ptrace_scope=1)",
        ),
        optional(
            "RDMA programs",
            tools(),
            "programs of your own need none; those to try are in Debian's packages ibverbs-utils and perftest",
        ),
    ]
}

fn tools() -> Result<String, String> {
    let (there, missing): (Vec<&str>, Vec<&str>) =
        [UTILITIES, PERFTEST].into_iter().partition(|name| in_path(OsStr::new(name)).is_some());
    match missing.is_empty() {
        true => Ok(format!("{} in PATH", there.join(", "))),
        false => Err(format!("no {} in PATH", missing.join(", "))),
    }
}
