//! Which copy of each part is used, and other copies that are in its way.

use super::{Finding, needed, optional};
use crate::shared::beside::{ALL, Beside};
use angara_control::{install, program};
use angara_protocol::inside::PROGRAM;
use std::ffi::OsStr;
use std::fs::canonicalize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What to do about parts that are not there.
const BUILD: &str =
    "run `cargo build --release`, or install the whole tree (the wheel, or the packages angara and libangara-dev)";
/// Commands that people type.
const COMMANDS: [&str; 5] = ["angara", "oshcc", "oshc++", "oshrun", "fabricd"];
/// What a compiled program loads.
const LOADED: &str = "libsma.so.1";

/// Looks for each part from the place of this program, as all commands do.
pub(super) fn copies() -> Vec<Finding> {
    let bin = install::bin_dir().unwrap_or_default();
    let part = |found: Option<PathBuf>, file: &str| {
        found.map(|p| p.join(file).display().to_string()).ok_or(format!("no {file} beside this program"))
    };
    let pes = install::program_file(PROGRAM).map(|p| p.display().to_string()).map_err(|e| e.message);
    let own = format!("{} ({})", bin.join("angara").display(), env!("CARGO_PKG_VERSION"));
    vec![
        optional::<String>("angara", Ok(own), ""),
        needed("fabricd", install::fabricd().map_err(|e| e.message).and_then(|file| same_version(&file)), BUILD),
        optional("angara-pes", pes, "PEs cannot be coroutines (--pes-as): cargo build --release makes it"),
        optional("other programs", beside(&bin), "their commands are refused: cargo build --release makes them"),
        needed("libsma.so", part(install::lib_dir(&bin), install::LIBRARY), BUILD),
        needed("shmem.h", part(install::include_dir(&bin), install::HEADER), BUILD),
        optional(
            "commands in PATH",
            in_path(&bin),
            "parts of two installations do not fit together: put the directory of this one first in PATH",
        ),
        optional(
            "libraries in the way",
            loaded(&bin),
            "programs load it in the place of what they were compiled with: take it out of LD_LIBRARY_PATH",
        ),
    ]
}

/// Programs that have subcommands of `angara`; those that are not there.
fn beside(bin: &Path) -> Result<String, String> {
    let is_there = |beside: &&Beside| bin.join(beside.program).is_file();
    let (there, missing): (Vec<&Beside>, Vec<&Beside>) = ALL.iter().partition(is_there);
    let names = |all: &[&Beside]| all.iter().map(|beside| beside.name).collect::<Vec<_>>().join(", ");
    match missing.is_empty() {
        true => Ok(format!("for angara {}", names(&there))),
        false => Err(format!("none beside this program for angara {}", names(&missing))),
    }
}

/// The daemon, if it is of this version.
fn same_version(file: &Path) -> Result<String, String> {
    let done = Command::new(file).arg("--version").stdin(Stdio::null()).output();
    let done = done.map_err(|e| format!("cannot start {}: {e}", file.display()))?;
    let said = String::from_utf8_lossy(&done.stdout);
    match said.split_whitespace().last() {
        Some(version) if version == env!("CARGO_PKG_VERSION") => Ok(format!("{} ({version})", file.display())),
        Some(version) => Err(format!("{} is version {version}, and angara another", file.display())),
        None => {
            let why = String::from_utf8_lossy(&done.stderr);
            Err(format!("{} does not run ({}): {}", file.display(), done.status, why.trim()))
        }
    }
}

/// Commands of this installation that come first in `PATH`; those that another copy comes before.
fn in_path(bin: &Path) -> Result<String, String> {
    let found = COMMANDS.map(|name| (name, program::in_path(OsStr::new(name))));
    // A link in a directory for all programs leads here.
    let ours =
        |file: &Path| canonicalize(file).is_ok_and(|file| file.parent() == Some(bin)) || file.parent() == Some(bin);
    let others: Vec<String> = found
        .iter()
        .filter_map(|(_, file)| file.as_deref().filter(|file| !ours(file)))
        .map(|file| file.display().to_string())
        .collect();
    if !others.is_empty() {
        return Err(format!("{} of another installation", others.join(", ")));
    }
    let there: Vec<&str> = found.iter().filter(|(_, file)| file.is_some()).map(|(name, _)| *name).collect();
    Ok(match there.is_empty() {
        true => format!("none; export PATH={}:$PATH", bin.display()),
        false => format!("{} of this installation", there.join(", ")),
    })
}

/// A library that programs would load before ours.
fn loaded(bin: &Path) -> Result<String, String> {
    let own = install::lib_dir(bin).and_then(|dir| canonicalize(dir.join(LOADED)).ok());
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let first = std::env::split_paths(&path).map(|dir| dir.join(LOADED)).find(|file| file.is_file());
    match first {
        Some(file) if canonicalize(&file).ok() != own => Err(file.display().to_string()),
        _ => Ok("none".into()),
    }
}
