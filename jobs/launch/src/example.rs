//! Example programs: everything they need built, found, and compiled into a directory that goes away again.

use angara_control::daemon::random_number;
use angara_control::error::{Failed, say};
use angara_control::install::{self, Checkout};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory that is removed again.
pub struct Temporary(pub PathBuf);

impl Temporary {
    /// Makes one for this user alone. One that is there already may be somebody else's, and what is compiled into
    /// it is run.
    pub fn new(name: &str) -> Result<Temporary, Failed> {
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

/// Has cargo build everything if `wanted`. Otherwise everything has to be there.
///
/// # Errors
/// Something is missing, `wanted` outside a checkout, or cargo fails.
pub fn prepare(bin: &Path, wanted: bool) -> Result<(), Failed> {
    match (install::checkout(bin), wanted) {
        (Some(checkout), true) => build(bin, &checkout, checkout.cargo_build()),
        (None, true) => {
            let what = format!("--build is for a source checkout, and {} is not of one", bin.display());
            Err(Failed::usage(what, "leave it out"))
        }
        (Some(checkout), false) if !is_complete(bin) => {
            let what = format!("{} lacks the daemon, the library or the compiler wrapper", bin.display());
            Err(Failed::runtime(what, format!("add --build, or run {}", checkout.hint())))
        }
        (_, false) => Ok(()),
    }
}

/// True if programs can be compiled and run.
pub fn is_complete(bin: &Path) -> bool {
    install::lib_dir(bin).is_some() && install::fabricd().is_ok() && bin.join("oshcc").is_file()
}

/// Has `cargo` bring parts of a checkout up to date: `cargo run` builds only this program.
pub fn build(bin: &Path, checkout: &Checkout, mut cargo: Command) -> Result<(), Failed> {
    say!("== building daemon, library and compiler wrapper (in {})", checkout.root.display())?;
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Failed::runtime("cargo build failed", "see its messages above")),
        // No cargo: fine if everything is there already.
        Err(_) if is_complete(bin) => Ok(()),
        Err(e) => Err(Failed::runtime(format!("cannot run cargo: {e}"), install::build_hint(bin))),
    }
}

/// The source of an example, such as `c/heat2d.c`: in the checkout, or installed beside the programs.
pub fn find(bin: &Path, name: &str) -> Result<PathBuf, Failed> {
    let mut places: Vec<PathBuf> = install::checkout(bin).into_iter().map(|c| c.root.join("examples")).collect();
    places.push(bin.join("examples"));
    places.push(bin.parent().unwrap_or(bin).join("share/angara/examples"));
    places.iter().map(|p| p.join(name)).find(|f| f.is_file()).ok_or_else(|| {
        let looked = places.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        Failed::runtime(
            format!("example {name} not found (looked in {looked})"),
            "install the whole tree, examples included, or run `cargo demo` in a source checkout",
        )
    })
}

/// Compiles one source file with the `oshcc` beside this program.
pub fn compile(bin: &Path, source: &Path, program: &Path) -> Result<(), Failed> {
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
