//! What tasks have in common: other programs, and directories that they make.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file or directory that is removed when this is dropped.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nothing depends on its going.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What to say of a file that could not be used.
pub(crate) fn cannot(what: &str, path: &Path, e: &io::Error) -> String {
    format!("cannot {what} {}: {e}", path.display())
}

/// Fails with the remedy where a program is missing. `tools`: name, and the package of Debian that has it.
pub(crate) fn require(tools: &[(&str, &str)]) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = |tool: &&(&str, &str)| !std::env::split_paths(&path).any(|dir| dir.join(tool.0).is_file());
    match tools.iter().find(missing) {
        Some((tool, package)) => Err(format!("no {tool} in PATH; apt-get install {package}")),
        None => Ok(()),
    }
}

/// Runs a command to its end; what it printed. Its name and what it said if it fails.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|e| format!("cannot start {name}: {e}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(format!("{name} failed ({}): {}", done.status, said.trim())),
    }
}

/// Cargo, about to build into `target` what is then named.
pub(crate) fn cargo_build(root: &Path, target: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // A `CARGO_BUILD_TARGET` would put one more directory between.
    cargo.args(["build", "--target-dir"]).arg(target).current_dir(root).env_remove("CARGO_BUILD_TARGET");
    cargo
}

/// Has it do so; `remedy` is said where it fails.
pub(crate) fn built(cargo: &mut Command, remedy: &str) -> Result<(), String> {
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo build failed ({status}){remedy}")),
        Err(e) => Err(format!("cannot start cargo: {e}")),
    }
}

/// Makes a directory and those above it, with the mode that packages have whatever the mask of this process.
pub(crate) fn make_dir(dir: &Path) -> Result<(), String> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|d| !d.exists()).collect();
    for dir in missing.into_iter().rev() {
        fs::create_dir(dir)
            .and_then(|()| fs::set_permissions(dir, fs::Permissions::from_mode(0o755)))
            .map_err(|e| cannot("make", dir, &e))?;
    }
    Ok(())
}
