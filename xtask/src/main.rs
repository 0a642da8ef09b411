//! `cargo xtask install` and `uninstall`: what `make install` is elsewhere.
//!
//! Programs, library, headers, documents and examples go below a prefix, in the layout in which
//! `angara` and `oshcc` look for each other; with `--systemd` also the units, with the prefix filled in.
//! A list of all that was put there lies in `share/angara/manifest` and is what `uninstall` goes by.
#![forbid(unsafe_code)]

mod help;
mod install;

use install::Plan;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
cargo xtask install [--prefix DIR] [--destdir DIR] [--sysconfdir DIR] [--systemd] [--from DIR]
cargo xtask uninstall [--prefix DIR] [--destdir DIR]

  --prefix DIR      where it will be used from [default: /usr/local]
  --destdir DIR     put this before every path, to make a package
  --sysconfdir DIR  configuration of the services [default: /etc below /usr, else PREFIX/etc]
  --systemd         also units, sysusers.d and tmpfiles.d
  --from DIR        directory with the built programs [default: builds target/release]";

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(text) => match angara_abi::print::out(&text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => fail(&format!("cannot write to standard output: {e}")),
        },
        Err(e) => fail(&e),
    }
}

fn fail(why: &str) -> ExitCode {
    angara_abi::complain!("xtask: {why}");
    ExitCode::FAILURE
}

fn run(args: Vec<String>) -> Result<String, String> {
    let mut args = args.into_iter();
    let task = args.next().unwrap_or_default();
    let (mut prefix, mut destdir, mut sysconfdir, mut from) = (PathBuf::from("/usr/local"), None, None, None);
    let mut systemd = false;
    while let Some(arg) = args.next() {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name.to_string(), Some(value.to_string())),
            None => (arg, None),
        };
        let mut path = || {
            let text = value.clone().or_else(|| args.next()).filter(|v| !v.is_empty());
            text.map(PathBuf::from).ok_or_else(|| format!("{name} needs a directory\n{USAGE}"))
        };
        match name.as_str() {
            "--prefix" => prefix = path()?,
            "--destdir" => destdir = Some(absolute(&path()?)?),
            "--sysconfdir" => sysconfdir = Some(path()?),
            "--from" => from = Some(absolute(&path()?)?),
            "--systemd" => systemd = true,
            _ => return Err(format!("unknown option {name}\n{USAGE}")),
        }
    }
    for dir in [Some(&prefix), sysconfdir.as_ref()].into_iter().flatten() {
        if !dir.is_absolute() {
            return Err(format!("{} is not absolute; it is written into units and the manifest", dir.display()));
        }
    }
    let sysconfdir = sysconfdir.unwrap_or_else(|| match prefix.starts_with("/usr") {
        true => "/etc".into(),
        false => prefix.join("etc"),
    });
    match task.as_str() {
        "install" => {
            let from = match from {
                Some(from) => from,
                None => build()?,
            };
            Plan { root: root(), from, prefix, destdir, sysconfdir, systemd }.install()
        }
        "uninstall" => install::uninstall(&prefix, destdir.as_deref()),
        _ => Err(format!("tell me what to do\n{USAGE}")),
    }
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository").to_path_buf()
}

/// Builds everything for use; the directory with the programs.
fn build() -> Result<PathBuf, String> {
    // This program lies in target/PROFILE.
    let exe = std::env::current_exe().map_err(|e| format!("cannot find this program's file: {e}"))?;
    let target = exe.ancestors().nth(2).ok_or("this program does not lie in target/PROFILE")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // A `CARGO_BUILD_TARGET` would put one more directory between.
    build.args(["build", "--release", "--target-dir"]).arg(target).env_remove("CARGO_BUILD_TARGET");
    let status = build.current_dir(root()).status();
    match status {
        Ok(status) if status.success() => Ok(target.join("release")),
        Ok(status) => Err(format!("cargo build failed ({status})")),
        Err(e) => Err(format!("cannot start cargo: {e}")),
    }
}
