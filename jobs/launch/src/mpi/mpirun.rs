//! Open MPI's `mpirun`, which starts the processes of a job that this launcher has made.

use super::library::output;
use super::rank::Rank;
use crate::run::processes::program::Program;
use angara_control::error::Failed;
use angara_control::install::ENV_PRELOAD;
use angara_control::program::in_path;
use angara_protocol::launch::{ENV_PE, Launch};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names it goes by: the first where several MPI libraries are installed, and `mpirun` is somebody's.
const NAMES: [&str; 3] = ["mpirun.openmpi", "mpirun", "mpiexec"];
/// What it says of itself.
const MARK: &str = "(Open MPI)";

/// The `mpirun` of the installation that holds `library`, else the first one in PATH.
pub fn find(library: Option<&Path>) -> Result<PathBuf, Failed> {
    let real = library.and_then(|file| std::fs::canonicalize(file).ok());
    // The real place first: where /bin is a link, mpirun does not find its own files from there.
    let files = real.as_deref().into_iter().chain(library);
    let beside =
        files.flat_map(prefixes).map(|prefix| prefix.join("bin")).flat_map(|bin| NAMES.map(|name| bin.join(name)));
    let here = beside.filter(|file| file.is_file()).chain(NAMES.iter().filter_map(|name| in_path(OsStr::new(name))));
    for file in here {
        let mut command = Command::new(&file);
        command.arg("--version");
        if output(command).is_some_and(|said| said.contains(MARK)) {
            return Ok(file);
        }
    }
    let of = library.map_or("Open MPI".into(), |file| format!("Open MPI ({})", file.display()));
    Err(Failed::runtime(
        format!("the program needs the mpirun of {of}, and there is none beside the library or in PATH"),
        "install it (Debian: apt-get install openmpi-bin), or put its directory into PATH; without it each process would be \
         alone",
    )
    .with_code(127))
}

/// Directories of which `library` may be in `lib`, or below: not the root, whose programs are elsewhere.
fn prefixes(library: &Path) -> impl Iterator<Item = &Path> {
    let below = |prefix: &&Path| {
        let first = library.strip_prefix(prefix).ok().and_then(|rest| rest.iter().next());
        prefix.parent().is_some() && first.is_some_and(|first| first.as_bytes().starts_with(b"lib"))
    };
    library.ancestors().skip(2).filter(below)
}

/// The command that starts `program` as the job of `launch`, each rank as [`Rank`] says, and the command's variables.
pub fn command(
    mpirun: &Path,
    program: &Program,
    launch: &Launch,
    outputs: Vec<[i32; 2]>,
    cores: Option<Vec<Vec<usize>>>,
) -> (PathBuf, Vec<OsString>, Vec<(OsString, OsString)>) {
    let mut argv: Vec<OsString> = vec![mpirun.into()];
    if rustix::process::geteuid().is_root() {
        argv.push("--allow-run-as-root".into());
    }
    argv.extend(["--oversubscribe", "--bind-to", "none", "-n"].map(OsString::from));
    argv.push(launch.pes.to_string().into());
    // Not the path of our executable, which may have been replaced by a newer build meanwhile.
    argv.push(format!("/proc/{}/exe", std::process::id()).into());
    // From the root: a command of --wrap may change the directory.
    let file = std::path::absolute(&program.file).unwrap_or_else(|_| program.file.clone());
    let (preload, others): (Vec<_>, Vec<_>) = program.env.iter().cloned().partition(|(name, _)| name == ENV_PRELOAD);
    let preload = preload.last().map(|(_, all)| &**all);
    argv.extend(Rank::arguments(&file, outputs, cores, &program.wraps, preload));
    argv.extend(program.argv.iter().cloned());
    let own = launch.to_env().into_iter().filter(|(name, _)| *name != ENV_PE);
    let own = own.map(|(name, value)| (name.into(), value));
    (mpirun.into(), argv, others.into_iter().chain(own).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_is_above_its_library() {
        for (library, all) in [
            ("/opt/venv/lib/libmpi.so.40", &["/opt/venv"][..]),
            ("/usr/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so.40", &["/usr/lib/x86_64-linux-gnu/openmpi", "/usr"]),
            ("/lib/x86_64-linux-gnu/libmpi.so.40", &[]),
            ("/tmp/somewhere/libmpi.so.40", &[]),
        ] {
            assert_eq!(prefixes(Path::new(library)).collect::<Vec<_>>(), all.iter().map(Path::new).collect::<Vec<_>>());
        }
    }
}
