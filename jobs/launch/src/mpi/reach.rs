//! Ways from an MPI library to libfabric or to UCX, without which its messages cannot go over the emulated network.

use super::elf;
use super::library::{Library, LibraryKind, dependencies, has_component};
use angara_control::error::Failed;
use std::ffi::OsString;
use std::path::Path;

/// What begins the name of the file that all of them share.
const FABRIC: &str = "libfabric.so";
/// A variable that only libfabric itself reads: a library that names it has libfabric built in.
const BUILT_IN: &str = "FI_PROVIDER_PATH";
/// The part of Open MPI that uses libfabric, where parts are files of their own.
const COMPONENT: &str = "mca_mtl_ofi.so";
/// What begins the name of UCX's file.
const UCX: &str = "libucp.so";
/// The part of Open MPI that uses UCX.
const UCX_COMPONENT: &str = "mca_pml_ucx.so";
/// Beginnings of the text in which MPICH says by what it was configured to reach others.
const DEVICES: [&str; 2] = ["ch3:", "ch4:"];
/// Longest such text.
const DEVICE_MAX: usize = 40;

/// True if the library can use libfabric. It loads it, has it built in, opens it by its name, or has a part that does.
pub fn reaches(library: &Library, variables: &[(OsString, OsString)]) -> bool {
    names_fabric(&library.file)
        || dependencies(&library.file, variables).iter().any(|(name, _)| name.starts_with(FABRIC))
        || library.kind == LibraryKind::OpenMpi && has_component(&library.file, COMPONENT)
}

/// True if the library can use UCX. It loads it, or has a part that does.
pub fn reaches_ucx(library: &Library, variables: &[(OsString, OsString)]) -> bool {
    dependencies(&library.file, variables).iter().any(|(name, _)| name.starts_with(UCX))
        || library.kind == LibraryKind::OpenMpi && has_component(&library.file, UCX_COMPONENT)
}

/// True if it names libfabric among its constants.
fn names_fabric(file: &Path) -> bool {
    let names = |text: &str| text.starts_with(FABRIC) || text == BUILT_IN;
    elf::texts(file, |texts| texts.filter(|text| names(text)).count() > 0).unwrap_or(false)
}

/// Returns what is wrong with a library that does not reach the network, and what to take instead.
pub fn unreachable(library: &Library) -> Failed {
    let configured = device(&library.file).map_or(String::new(), |device| format!(", configured as {device}"));
    Failed::runtime(
        format!(
            "{} ({}{configured}) uses neither libfabric nor UCX: none of its messages could go over the emulated network",
            library.file.display(),
            library.kind
        ),
        "build the program with an MPI library that does: pip install mpich has a compiler wrapper in its bin, and other \
         builds of MPICH take --with-device=ch4:ofi; or start it without us, by that library's own mpiexec",
    )
}

/// Returns what is wrong with a library that could reach the network, by UCX, and was not told how, because nobody knew that it
/// would be used.
pub fn untold(library: &Library) -> Failed {
    let options = match library.kind {
        LibraryKind::OpenMpi => "--mpi openmpi -x OMPI_MCA_pml=ucx",
        LibraryKind::Mpich | LibraryKind::Intel => "--mpi mpich -x MPIR_CVAR_CH4_NETMOD=ucx",
    };
    Failed::runtime(
        format!(
            "{} ({}) sends through UCX, for which its processes were not prepared: the program's file does not name it",
            library.file.display(),
            library.kind
        ),
        format!("say so ({options}), or name the program itself, not a shell that starts it"),
    )
}

/// `ch4:ucx` of a library of MPICH's.
pub fn device(file: &Path) -> Option<String> {
    let is_device = |text: &&str| text.len() <= DEVICE_MAX && DEVICES.iter().any(|device| text.starts_with(device));
    elf::texts(file, |texts| texts.filter(is_device).map(str::to_string).next()).flatten()
}

/// The MPI library that a process has loaded, of which `maps` is the list.
pub fn loaded(maps: &str) -> Option<Library> {
    let files = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    files.filter(|file| super::library::is_mpi(file)).find_map(|file| {
        let kind = LibraryKind::of(file)?;
        Some(Library { kind, file: file.into() })
    })
}
