//! MPI programs under `angara run`: which library a program uses, and what its processes need to find each other.
//!
//! [`library`] and [`python`] recognise the library by [`elf`] files. MPICH and Intel MPI ask the launcher over PMI-1, which
//! [`server`] speaks by the rules of [`space`], to other hosts by [`relay`]; their ranks are processes as those of every job. Open MPI knows PMIx alone, so
//! its own `mpirun` starts the processes, see [`mpirun`], each through a hidden mode of this program, [`rank`]. Messages go over
//! the emulated network by a provider of libfabric, which [`provider`] names to the library. [`survey`] is for `angara doctor`.

pub(crate) mod elf;
mod leftovers;
pub(crate) mod library;
pub(crate) mod mpirun;
pub(crate) mod provider;
mod python;
pub(crate) mod rank;
pub(crate) mod relay;
pub(crate) mod server;
mod space;
pub(crate) mod survey;

use crate::error::Failed;
use crate::run::options::{Clock, RunArgs};
use clap::ValueEnum;
use library::{Kind, Library, Linked, linked};
pub(crate) use space::Told;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Heap of a rank unless the user says otherwise: for the provider's mailboxes, and windows through which large messages go.
/// The program itself has its data elsewhere.
pub(crate) const HEAP: u64 = 64 << 20;

/// `--mpi`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MpiArg {
    /// By the program's file.
    Auto,
    /// MPICH and its kin.
    Mpich,
    /// Intel MPI.
    Intel,
    /// Open MPI.
    Openmpi,
    /// The program has nothing to do with MPI.
    None,
}

/// How processes become ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// Not at all.
    Plain,
    /// They may ask this launcher over PMI-1.
    Pmi,
    /// This `mpirun` starts them.
    Mpirun(PathBuf),
}

/// What MPI means for a job.
pub(crate) struct Plan {
    /// How processes become ranks.
    pub(crate) start: Start,
    /// The library, if the program uses one for sure.
    pub(crate) kind: Option<Kind>,
    /// Variables for the program.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// What is to be said because messages will not go over the network.
    pub(crate) lacking: Option<String>,
}

impl Plan {
    /// For `program`, as the options ask for it.
    pub(crate) fn new(args: &RunArgs, program: &Path) -> Result<Plan, Failed> {
        let (kind, file) = match args.mpi {
            MpiArg::None => return Ok(Plan::none()),
            MpiArg::Mpich => (Some(Kind::Mpich), None),
            MpiArg::Intel => (Some(Kind::Intel), None),
            // What the file says is of use, but it need not say anything.
            MpiArg::Openmpi => {
                (Some(Kind::OpenMpi), recognise(args, program).ok().flatten().map(|library| library.file))
            }
            MpiArg::Auto => match linked(program, &args.env)? {
                Linked::Shmem => return Ok(Plan::none()),
                Linked::Mpi(Library { kind, file }) => (Some(kind), Some(file)),
                Linked::Unknown => in_python(args, program).map(|library| (library.kind, library.file)).unzip(),
            },
        };
        if let Some(kind) = kind {
            refuse(args, kind)?;
        }
        let start = match kind {
            Some(Kind::OpenMpi) => Start::Mpirun(mpirun::find(file.as_deref())?),
            // Whoever does not ask pays next to nothing.
            _ => Start::Pmi,
        };
        let given = |name: &str| args.variable(name);
        let lacking = kind.and_then(|kind| provider::lacking(kind, given));
        Ok(Plan { start, kind, env: provider::variables(provider::directory(), given), lacking })
    }

    fn none() -> Plan {
        Plan { start: Start::Plain, kind: None, env: Vec::new(), lacking: None }
    }
}

/// The library of a program, or of what runs it.
fn recognise(args: &RunArgs, program: &Path) -> Result<Option<Library>, Failed> {
    Ok(match linked(program, &args.env)? {
        Linked::Mpi(library) => Some(library),
        _ => in_python(args, program),
    })
}

fn in_python(args: &RunArgs, program: &Path) -> Option<Library> {
    python::library(&python::interpreter(program)?, &args.env)
}

/// What cannot be had with MPI, or with this library.
fn refuse(args: &RunArgs, kind: Kind) -> Result<(), Failed> {
    if kind == Kind::OpenMpi && args.cluster.is_some() {
        return Err(Failed::usage(
            "the program uses Open MPI, whose mpirun alone can start its processes, and reaches other hosts by ssh, not by our \
             daemons",
            "build it with MPICH or Intel MPI; or leave --cluster out; or start it with mpirun itself, and its processes join a \
             domain of the cluster (docs/guide/mpi.md)",
        ));
    }
    if kind == Kind::OpenMpi && args.clock == Clock::Virtual {
        return Err(Failed::usage(
            "the program uses Open MPI, whose mpirun lives on the wall's time",
            "build it with MPICH, or leave --clock virtual out",
        ));
    }
    match args.debug {
        Some(pe) if kind == Kind::OpenMpi => Err(Failed::usage(
            "--debug: Open MPI's mpirun starts the PEs, and gives none of them the terminal",
            format!("give --wrap {pe} 'xterm -e gdb --args', or attach to the process (gdb -p)"),
        )),
        _ => Ok(()),
    }
}
