//! What `angara doctor` says of MPI: libraries, versions, and whether one process may read another's memory.

use super::elf;
use super::library::{Library, LibraryKind, output};
use super::provider;
use super::reach::{device, reaches};
use angara_control::install;
use angara_control::program::in_path;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::IoSliceMut;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Beginnings of the names of files that are MPI libraries.
const MPI: [&str; 4] = ["libmpi.so.12", "libmpi.so.40", "libmpi_abi.so", "libmpich.so.12"];
/// The same of libfabric.
const FABRIC: [&str; 1] = ["libfabric.so.1"];
/// Directories below those of libraries where libraries bring their own libfabric, or are kept apart from each other's.
const BELOW: [&str; 6] = ["", "mpich", "openmpi", "openmpi/lib", "mpich/lib", "libfabric/lib"];

/// MPI libraries, as `MPICH 5.0.2 in FILE`; an error if it does not reach the network.
pub fn libraries() -> Vec<Result<String, String>> {
    let with_kind = |file: PathBuf| {
        let kind = LibraryKind::of(&file)?;
        let shown = shown(&kind.to_string(), &file);
        let library = Library { kind, file };
        let device = device(&library.file).map_or(String::new(), |device| format!(" ({device})"));
        Some(match reaches(&library, &[]) {
            true => Ok(shown),
            false => Err(format!("{shown}{device} does not use libfabric, and cannot reach the network")),
        })
    };
    files(&MPI).into_iter().filter_map(with_kind).collect()
}

/// Versions of libfabric.
pub fn fabrics() -> Vec<String> {
    files(&FABRIC).into_iter().map(|file| shown("libfabric", &file)).collect()
}

/// The provider's file.
pub fn provider() -> Result<String, String> {
    let found = provider::directory().map(|dir| dir.join(install::PROVIDER).display().to_string());
    found.ok_or(format!("no {} in lib/libfabric beside this program", install::PROVIDER))
}

fn shown(what: &str, file: &Path) -> String {
    let version = elf::texts(file, |texts| elf::version(texts)).flatten();
    let version = version.map_or("of unknown version".into(), |v| v);
    format!("{what} {version} in {}", file.display())
}

/// Files with such names, each once, where the loader and Python look.
fn files(names: &[&str]) -> BTreeSet<PathBuf> {
    let dirs = directories().into_iter().flat_map(|dir| BELOW.map(|below| dir.join(below)));
    let inside = dirs.filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten().map(|entry| entry.path());
    let named = |file: &PathBuf| {
        let own = file.file_name().unwrap_or_default().as_bytes();
        names.iter().any(|name| own.starts_with(name.as_bytes()))
    };
    inside.filter(named).filter_map(|file| std::fs::canonicalize(file).ok()).collect()
}

/// `LD_LIBRARY_PATH`, the system's directories, and those beside an `mpirun`, `mpiexec` or Python that is found first.
fn directories() -> BTreeSet<PathBuf> {
    let given = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let given = std::env::split_paths(&given).filter(|dir| dir.is_absolute());
    let prefixes = ["mpirun", "mpiexec", "python3"].into_iter().filter_map(|name| in_path(OsStr::new(name)));
    let mut prefixes: Vec<PathBuf> = prefixes.filter_map(|f| Some(f.parent()?.parent()?.to_path_buf())).collect();
    prefixes.extend(["/", "/usr", "/usr/local"].map(PathBuf::from));
    let arch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let own = prefixes.iter().flat_map(|prefix| ["lib", "lib64", &arch].map(|lib| prefix.join(lib)));
    given.chain(own).collect()
}

/// What is read.
static MARK: u64 = 0x616e_6761_7261_2021;

/// Tells whether processes of one user may read each other's memory without being each other's parents, as ranks are
/// not.
pub fn cross_memory() -> Result<String, String> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(angara_protocol::modes::PEEK)
        .arg(std::process::id().to_string())
        .arg((&raw const MARK as usize).to_string());
    let said = output(command).ok_or("cannot start a process to try with")?;
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    let scope = scope.map_or("no Yama".into(), |scope| format!("kernel.yama.ptrace_scope is {}", scope.trim()));
    match said.trim() {
        "" => Ok(format!("process_vm_readv is permitted ({scope})")),
        why => Err(format!("process_vm_readv is not permitted: {why} ({scope})")),
    }
}

/// The other side of [`cross_memory`]: reads its mark at `address` of its `process`, and prints nothing if it could.
pub fn peek(process: i32, address: usize) -> ! {
    let mut seen = [0; 8];
    let from = RemoteIoVec { base: address, len: seen.len() };
    let read = process_vm_readv(Pid::from_raw(process), &mut [IoSliceMut::new(&mut seen)], &[from]);
    let why = match read {
        Err(e) => Some(e.to_string()),
        Ok(_) if u64::from_ne_bytes(seen) != MARK => Some("something else was read".into()),
        Ok(_) => None,
    };
    exit(why.map_or(0, |why| i32::from(angara_control::error::print(why).is_err()) + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_where_they_may_lie() {
        let all = directories();
        assert!(all.contains(Path::new("/usr/lib")) && all.contains(Path::new("/usr/local/lib64")), "{all:?}");
    }
}
