//! What `angara doctor` says of MPI: libraries, versions, and whether one process may read another's memory.

use super::elf;
use super::library::{Library, LibraryKind, output};
use super::provider;
use super::reach::{device, reaches, reaches_ucx};
use angara_control::install;
use angara_control::program::in_path;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use rustix::process::{PTracer, set_ptracer};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::sync::atomic::AtomicU64;

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
            false if !reaches_ucx(&library, &[]) => {
                Err(format!("{shown}{device} uses neither libfabric nor UCX, and cannot reach the network"))
            }
            false => match install::verbs_library() {
                Ok(_) => Ok(format!("{shown}{device}, through UCX and emulated RDMA adapters")),
                Err(e) => Err(format!("{shown}{device} sends through UCX, and there is {}", e.message)),
            },
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

/// What is read, and written back.
static MARK: AtomicU64 = AtomicU64::new(IS);
const IS: u64 = 0x616e_6761_7261_2021;

/// Yama's setting, for people.
fn scope() -> String {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    scope.map_or("no Yama".into(), |scope| format!("kernel.yama.ptrace_scope is {}", scope.trim()))
}

/// What a process of this user is told that reads and then writes this one's memory: nothing where it may.
fn tried() -> Result<[String; 2], String> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(angara_protocol::modes::PEEK)
        .arg(std::process::id().to_string())
        .arg((&raw const MARK as usize).to_string());
    let said = output(command).ok_or("cannot start a process to try with")?;
    let mut lines = said.lines().map(|line| line.trim().to_string());
    Ok([lines.next().unwrap_or_default(), lines.next().unwrap_or_default()])
}

/// Tells whether processes of one user may read each other's memory without being each other's parents, as ranks are
/// not.
pub fn cross_memory() -> Result<String, String> {
    let [read, _] = tried()?;
    match read.as_str() {
        "" => Ok(format!("process_vm_readv is permitted ({})", scope())),
        why => Err(format!("process_vm_readv is not permitted: {why} ({})", scope())),
    }
}

/// Tells the same of reading and writing, for processes that have declared that any other of their user may, as RDMA
/// programs do. This process declares it, too.
pub fn cross_memory_both_ways() -> Result<String, String> {
    // There is nothing to declare without Yama.
    let _ = set_ptracer(PTracer::Any);
    let named = ["process_vm_readv", "process_vm_writev"].into_iter().zip(tried()?);
    match named.into_iter().find(|(_, why)| !why.is_empty()) {
        None => Ok(format!("process_vm_readv and process_vm_writev are permitted ({})", scope())),
        Some((call, why)) => Err(format!("{call} is not permitted: {why} ({})", scope())),
    }
}

/// The other side of both: reads the mark at `address` of its `process` and writes it back. Prints a line for each, which
/// is empty if it could.
pub fn peek(process: i32, address: usize) -> ! {
    let mut seen = [0; 8];
    let (process, there) = (Pid::from_raw(process), [RemoteIoVec { base: address, len: seen.len() }]);
    let read = match process_vm_readv(process, &mut [IoSliceMut::new(&mut seen)], &there) {
        Err(e) => e.to_string(),
        Ok(_) if u64::from_ne_bytes(seen) != IS => "something else was read".into(),
        Ok(_) => String::new(),
    };
    let written = match &read {
        why if !why.is_empty() => why.clone(),
        _ => match process_vm_writev(process, &[IoSlice::new(&seen)], &there) {
            Err(e) => e.to_string(),
            Ok(_) => String::new(),
        },
    };
    exit(i32::from(angara_control::error::print(format!("{read}\n{written}\n")).is_err()))
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
