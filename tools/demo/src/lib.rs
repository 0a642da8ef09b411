//! What it takes to compile OpenSHMEM programs and run them.
//!
//! `cargo run` builds one package with its libraries, and daemon and library of OpenSHMEM are others. Built one after
//! another, the packages share little: features of what they depend on differ, and all is compiled twice. So `cargo demo`
//! has them built together. It depends on nothing itself, and is there at once.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Packages with the commands, the daemon, and the library of OpenSHMEM.
pub const PARTS: [&str; 3] = ["angara-cli", "angara-fabricd", "shmem-shim"];

/// Cargo, about to build them into `target`, with what is in `profile`.
pub fn cargo_build(profile: &OsStr, target: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg("build").arg("--profile").arg(profile).arg("--target-dir").arg(target);
    // Else cargo would put one more directory between.
    cargo.args(PARTS.iter().flat_map(|part| ["--package", part])).env_remove("CARGO_BUILD_TARGET");
    cargo
}
