//! MPI programs under `angara run`: which library a program uses, and what its processes need to find each other.
//!
//! [`library`] and [`python`] recognise the library by [`elf`] files. MPICH and Intel MPI ask the launcher over PMI-1, which
//! [`server`] speaks by the rules of [`space`], to other hosts by [`relay`]; their ranks are processes as those of every job. Open MPI knows PMIx alone, so
//! its own `mpirun` starts the processes, see [`mpirun`], each through a hidden mode of this program, [`rank`]. Messages go over
//! the emulated network by a provider of libfabric, which [`provider`] names to the library, or by RDMA adapters, to which [`ucx`]
//! leads those that send through UCX; [`reach`] tells which libraries have to do with either. [`survey`] is for `angara doctor`.

pub mod elf;
mod leftovers;
pub mod library;
pub mod mpirun;
pub mod provider;
mod python;
pub mod rank;
pub mod rank_end;
pub mod reach;
pub mod relay;
pub mod server;
mod space;
pub mod survey;
pub mod ucx;

use crate::run::options::{MpiArg, Options};
use angara_abi::program_clock::PRELOADED_FOR_MPI;
use angara_control::error::Failed;
use angara_control::install;
use angara_protocol::env::DEFAULT_HEAP;
use library::{Library, LibraryKind, Linked, linked};
pub use space::Told;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Heap of a rank unless the user says otherwise: for the provider's mailboxes, and windows through which large messages go.
/// The program itself has its data elsewhere.
pub const HEAP: u64 = 64 << 20;
/// Addresses behind it for registered memory.
const REGISTERED: u64 = 64 << 30;

/// Directories in which the loader looks for libraries, separated by colons.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// How processes become ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// Not at all.
    Plain,
    /// They may ask this launcher over PMI-1.
    Pmi,
    /// This `mpirun` starts them.
    Mpirun(PathBuf),
}

/// What MPI means for a job.
pub struct MpiPlan {
    /// How processes become ranks.
    pub start: Start,
    /// The library, if the program uses one, or the user says so.
    pub kind: Option<LibraryKind>,
    /// The same with its file, where the program's names it.
    pub library: Option<Library>,
    /// Variables for the program.
    pub env: Vec<(OsString, OsString)>,
    /// The user has named another provider, or other transports, so that messages go another way.
    pub elsewhere: bool,
    /// The library of RDMA programs, if messages go by way of UCX and adapters.
    pub adapters: Option<PathBuf>,
}

impl MpiPlan {
    /// For `program`, as the options ask for it.
    pub fn new(args: &Options, program: &Path) -> Result<MpiPlan, Failed> {
        if args.mpi == MpiArg::None {
            return Ok(MpiPlan::none(args, program));
        }
        let found = linked(program, &args.env);
        let is_oshmem = matches!(found, Ok(Linked::Oshmem(_)));
        let (kind, file) = match (named(args.mpi), found) {
            (None, found) => match found? {
                Linked::Shmem => return Ok(MpiPlan::none(args, program)),
                Linked::Mpi(library) | Linked::Oshmem(library) => Some(library),
                Linked::Unknown => in_python(args, program),
            }
            .map(|library| (library.kind, library.file))
            .unzip(),
            // What the file says is of use, but it need not say anything.
            (Some(kind), found) => {
                let library = match found {
                    Ok(Linked::Mpi(library) | Linked::Oshmem(library)) => Some(library),
                    _ => in_python(args, program),
                };
                (Some(kind), library.filter(|library| library.kind == kind).map(|library| library.file))
            }
        };
        let given = |name: &str| args.variable(name);
        if let Some(kind) = kind {
            refuse(args, kind)?;
            let library = file.clone().map(|file| Library { kind, file });
            if is_oshmem || by_way_of_ucx(args, kind, library.as_ref()) {
                return MpiPlan::by_ucx(args, program, kind, library);
            }
        }
        let elsewhere = provider::is_another(given);
        if let Some(kind) = kind.filter(|_| !elsewhere) {
            provider::check(kind)?;
        }
        let start = start(kind, file.as_deref())?;
        let library = kind.zip(file).map(|(kind, file)| Library { kind, file });
        if let Some(library) = library.as_ref().filter(|library| !elsewhere && !reach::reaches(library, &args.env)) {
            return Err(reach::unreachable(library));
        }
        let mut env = provider::variables(provider::directory(), given);
        env.extend(library_path(args, program));
        Ok(MpiPlan { start, kind, library, env, elsewhere, adapters: None })
    }

    /// For a program whose library sends through UCX.
    fn by_ucx(args: &Options, program: &Path, kind: LibraryKind, library: Option<Library>) -> Result<MpiPlan, Failed> {
        let given = |name: &str| args.variable(name);
        let elsewhere = ucx::is_elsewhere(given)?;
        ucx::check(args, kind)?;
        let adapters = if elsewhere { None } else { Some(install::verbs_library()?) };
        let start = start(Some(kind), library.as_ref().map(|library| &*library.file))?;
        let mut env = ucx::variables(kind, given);
        env.extend(library_path(args, program));
        Ok(MpiPlan { start, kind: Some(kind), library, env, elsewhere, adapters })
    }

    /// Heap of a PE unless the user says otherwise.
    pub fn heap(&self) -> u64 {
        match (self.kind, &self.adapters) {
            (None, _) => DEFAULT_HEAP,
            (Some(_), None) => HEAP,
            (Some(_), Some(_)) => ucx::HEAP,
        }
    }

    /// Bytes of a PE for registered memory, at most.
    pub fn registered(&self) -> u64 {
        if self.kind.is_some() { REGISTERED } else { 0 }
    }

    fn none(args: &Options, program: &Path) -> MpiPlan {
        let env = library_path(args, program).into_iter().collect();
        MpiPlan { start: Start::Plain, kind: None, library: None, env, elsewhere: false, adapters: None }
    }
}

impl MpiPlan {
    /// Libraries that wrap calls of MPI, and come before all others where time is virtual or calls are noted.
    pub fn preloaded(&self) -> Result<Vec<PathBuf>, Failed> {
        let mut all = Vec::new();
        if self.start == Start::Plain || self.elsewhere {
            return Ok(all);
        }
        for (ours, only_with) in PRELOADED_FOR_MPI {
            // Programs ask by weak references whether a call is there, so nobody may define what the library lacks.
            let has = |name| self.library.as_ref().is_some_and(|library| elf::exports(&library.file, name));
            if only_with.is_none_or(has) {
                all.push(install::preloaded(ours)?);
            }
        }
        Ok(all)
    }

    /// Variables for the program where time is virtual, but for those that the user has set: messages between ranks of one node
    /// go through the adapter like all others.
    pub fn in_virtual_time(&self, args: &Options) -> Vec<(OsString, OsString)> {
        if self.start == Start::Plain || self.elsewhere {
            return Vec::new();
        }
        // Windows of Open MPI, whose ranks all seem to be on one host, would be in memory that they share. From version 5 on there is
        // no other way.
        let messages = self.library.as_ref().filter(|library| !elf::exports(&library.file, "MPI_Session_init"));
        let windows = messages.map(|_| ("OMPI_MCA_osc", "pt2pt"));
        let all = [("MPIR_CVAR_NOLOCAL", "1"), ("I_MPI_FABRICS", "ofi")].into_iter().chain(windows);
        let new = all.filter(|(name, _)| args.variable(name).is_none());
        new.map(|(name, value)| (name.into(), value.into())).collect()
    }
}

/// The library that the user has named.
fn named(library: MpiArg) -> Option<LibraryKind> {
    match library {
        MpiArg::Auto | MpiArg::None => None,
        MpiArg::Mpich => Some(LibraryKind::Mpich),
        MpiArg::Intel => Some(LibraryKind::Intel),
        MpiArg::Openmpi => Some(LibraryKind::OpenMpi),
    }
}

/// How processes of a library become ranks.
fn start(kind: Option<LibraryKind>, library: Option<&Path>) -> Result<Start, Failed> {
    Ok(match kind {
        Some(LibraryKind::OpenMpi) => Start::Mpirun(mpirun::find(library)?),
        // Whoever does not ask pays next to nothing.
        _ => Start::Pmi,
    })
}

/// True if messages of a library will go through UCX: its user asks for that, or it has no way to libfabric.
fn by_way_of_ucx(args: &Options, kind: LibraryKind, library: Option<&Library>) -> bool {
    let is_asked = ucx::is_asked(kind, |name| args.variable(name));
    match library {
        None => is_asked,
        Some(library) => (is_asked || !reach::reaches(library, &args.env)) && reach::reaches_ucx(library, &args.env),
    }
}

/// Where the loader finds our libraries behind all other places, if the program needs one and was moved away from it.
fn library_path(args: &Options, program: &Path) -> Option<(OsString, OsString)> {
    if !library::lacks_ours(program, &args.env) {
        return None;
    }
    let ours = install::lib_dir(&install::bin_dir().ok()?)?;
    let given = args.variable(LIBRARY_PATH).filter(|given| !given.is_empty());
    let path = given.map_or_else(OsString::new, |mut given| {
        given.push(":");
        given
    });
    Some((LIBRARY_PATH.into(), [path, ours.into_os_string()].into_iter().collect()))
}

/// The library that a Python, or a script of its, would load.
fn in_python(args: &Options, program: &Path) -> Option<Library> {
    python::library(&python::interpreter(program)?, &args.env)
}

/// Returns what cannot be had with MPI, or with this library.
fn refuse(args: &Options, kind: LibraryKind) -> Result<(), Failed> {
    if kind == LibraryKind::OpenMpi && args.cluster.is_some() {
        return Err(Failed::usage(
            "the program uses Open MPI, whose mpirun alone can start its processes, and reaches other hosts by ssh, not by our \
             daemons",
            "build it with MPICH or Intel MPI; or leave --cluster out; or start it with mpirun itself, and its processes join a \
             domain of the cluster (docs/guide/mpi.md)",
        ));
    }
    match args.debug {
        Some(pe) if kind == LibraryKind::OpenMpi => Err(Failed::usage(
            "--debug: Open MPI's mpirun starts the PEs, and gives none of them the terminal",
            format!("give --wrap {pe} 'xterm -e gdb --args', or attach to the process (gdb -p)"),
        )),
        _ => Ok(()),
    }
}
