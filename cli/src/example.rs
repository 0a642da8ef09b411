//! Example programs: everything they need built, found, and compiled into a directory that goes away again.

use crate::daemon::random_number;
use crate::error::{Failed, say};
use crate::install;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory that is removed again.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    /// Makes one for this user alone. One that is there already may be somebody else's, and what is compiled into
    /// it is run.
    pub(crate) fn new(name: &str) -> Result<Temporary, Failed> {
        let dir = std::env::temp_dir().join(format!("angara-{name}-{:016x}", random_number()?));
        DirBuilder::new().mode(0o700).create(&dir).map_err(|e| {
            Failed::runtime(
                format!("cannot create {}: {e}", dir.display()),
                "set TMPDIR to a directory you can write to",
            )
        })?;
        Ok(Temporary(dir))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// In a source checkout, has cargo bring every part up to date: `cargo run` builds only this program.
pub(crate) fn build(bin: &Path) -> Result<(), Failed> {
    let Some(checkout) = install::checkout(bin) else { return Ok(()) };
    say!("== building daemon, library and compiler wrapper: {}", checkout.hint())?;
    match checkout.cargo_build().status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Failed::runtime("cargo build failed", "see its messages above")),
        // No cargo: fine if everything is there already.
        Err(_) if install::lib_dir(bin).is_some() && install::fabricd().is_ok() => Ok(()),
        Err(e) => Err(Failed::runtime(format!("cannot run cargo: {e}"), install::build_hint(bin))),
    }
}

/// The source of an example, such as `c/heat2d.c`: in the checkout, or installed beside the programs.
pub(crate) fn find(bin: &Path, name: &str) -> Result<PathBuf, Failed> {
    let mut places: Vec<PathBuf> = install::checkout(bin).into_iter().map(|c| c.root.join("examples")).collect();
    places.push(bin.join("examples"));
    places.push(bin.parent().unwrap_or(bin).join("share/angara/examples"));
    places.iter().map(|p| p.join(name)).find(|f| f.is_file()).ok_or_else(|| {
        let looked = places.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        Failed::runtime(
            format!("example {name} not found (looked in {looked})"),
            "run this in a source checkout: cargo run --release -- demo",
        )
    })
}

/// Compiles one source file with the `oshcc` beside this program.
pub(crate) fn compile(bin: &Path, source: &Path, program: &Path) -> Result<(), Failed> {
    let status =
        Command::new(bin.join("oshcc")).args(["-O2", "-o"]).arg(program).arg(source).arg("-lm").status().map_err(
            |e| Failed::runtime(format!("cannot start {}: {e}", bin.join("oshcc").display()), install::build_hint(bin)),
        )?;
    if status.success() {
        Ok(())
    } else {
        Err(Failed::runtime(format!("oshcc failed ({status})"), "see its messages above"))
    }
}
