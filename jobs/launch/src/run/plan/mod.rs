//! The plan that options make: everything decided before anything is started.

mod auto;
mod checks;
mod engine;
mod map;
pub mod network;
mod pes_as;
mod virtual_time;

use super::options::{Check, Clock, MapArg, Options, PesAs};
use super::processes::wrap::{self, Wrap};
use crate::machine;
use crate::mpi;
use angara_abi::program_clock::PRELOADED;
use angara_control::error::Failed;
use angara_control::install::{self, ENV_PRELOAD};
use angara_control::program::find_program;
use angara_machine::Machine;
use angara_net::torus::Shape;
use angara_protocol::compute::{Compute, ENV_COMPUTE, HEADER, intervals};
use angara_protocol::env::symmetric_size;
use angara_protocol::launch::ENV_TIMEOUT;
use angara_protocol::mpi::ENV_MPI;
use angara_protocol::msg::{JobSpec, Map};
use angara_recordings::notes::Notes;
use auto::Expected;
use engine::Engine;
use map::read_map;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use virtual_time::what_else_is_virtual;
pub use virtual_time::{VirtualPlan, check_recorded};

/// Makes the library look closer.
pub const ENV_CHECK: &str = "SHMEM_DEBUG";
/// Names a table of collectives to the library.
pub const ENV_TABLE: &str = "ANGARA_COLLECTIVES_TABLE";

/// What a seed draws unless the machine says another bound.
const SEED_JITTER: &str = "jitter=200ns";

/// A job that makes sense, not yet tied to a daemon.
pub struct JobPlan {
    /// Shape the user named; a daemon must then have exactly this one.
    pub wanted: Option<Shape>,
    /// Shape of a private daemon.
    pub shape: Shape,
    /// What differs from the chip's times and buffers, for a private daemon; empty if nothing does.
    pub changes: String,
    /// Nodes the job needs.
    pub nodes: u32,
    /// Heap per PE, and whether less will do.
    pub heap: (u64, bool),
    /// The program's file, found and executable.
    pub program: PathBuf,
    /// What it needs if it is an MPI program.
    pub mpi: mpi::MpiPlan,
    /// Environment on top of the launcher's own.
    pub env: Vec<(OsString, OsString)>,
    /// Commands that start the program of some PEs.
    pub wraps: Vec<Wrap>,
    pub virtual_time: Option<VirtualPlan>,
    /// What PEs are; nothing is left to be decided.
    pub pes_as: PesAs,
    /// Where PEs note their calls, if they have to.
    pub notes: Option<Arc<Notes>>,
    /// What PEs are expected to send each other, if that places them.
    expected: Option<Expected>,
    /// The engine that was asked for, and what needs the emulated network.
    engine: Engine,
}

impl JobPlan {
    /// Checks what can be checked without a daemon.
    pub fn new(args: &Options) -> Result<JobPlan, Failed> {
        checks::capture(args)?;
        checks::history(args)?;
        let mut machine = machine::changed(args.machine.clone(), &args.set)?;
        let engine = Engine::of(args, &machine)?;
        let seeded = args.seed.is_some() && args.clock == Clock::Virtual;
        if seeded && machine.params().is_ok_and(|p| p.jitter_ps == 0) {
            machine.change(SEED_JITTER).expect("a key and its value");
        }
        if !args.quiet {
            machine.values.bottlenecks().iter().for_each(|why| angara_protocol::complain!("angara: {why}"));
        }
        let changes = machine.changes();
        if !changes.is_empty() && args.runtime_dir.is_some() {
            let why = format!("a daemon that runs already has its own machine, not {changes}");
            return Err(Failed::usage(why, "leave --runtime-dir out, or start that daemon with --machine or --set"));
        }
        let wanted = args.torus.or(args.mesh).or(machine.shape);
        let nodes = args.pes.div_ceil(args.ppn);
        let shape = wanted.unwrap_or_else(|| Shape::most_cubic(nodes as usize));
        if nodes as usize > shape.nodes() {
            return Err(too_many(args.pes, args.ppn, shape));
        }
        checks::routes(&machine, shape)?;
        if args.cluster.is_none() && args.runtime_dir.is_none() {
            checks::faults(args, shape)?;
        }
        let expected = Expected::of(args)?;
        let program = find_program(&args.command[0], std::env::var_os("PATH"))?;
        let mpi = mpi::MpiPlan::new(args, &program)?;
        if args.check.contains(&Check::Races) && args.cluster.is_some() {
            let why =
                "--check=races needs the order of all calls, which clocks of several hosts do not tell well enough";
            return Err(Failed::usage(why, "look for races on one host: leave --cluster out"));
        }
        checks::heterogeneous(args, mpi.kind.is_some())?;
        checks::library(args, mpi.kind)?;
        let heap = heap_of(args, mpi.heap(), |name| std::env::var_os(name))?;
        let virtual_time = VirtualPlan::new(args)?;
        let pes_as = pes_as::decide(args, &program, mpi.kind.is_some())?;
        let env = environment(args, &mpi, virtual_time.is_some(), &machine)?;
        Ok(JobPlan {
            wanted,
            shape,
            changes,
            nodes,
            heap,
            program,
            mpi,
            env,
            wraps: wrap::of(args)?,
            virtual_time,
            pes_as,
            notes: None,
            expected,
            engine,
        })
    }

    /// True if the network must be this run's own.
    pub fn alone(&self) -> bool {
        self.virtual_time.is_some() || !self.changes.is_empty()
    }

    /// Options of a private daemon, beside its shape.
    pub fn daemon_options(&self) -> Vec<OsString> {
        let mut options = self.virtual_time.as_ref().map(VirtualPlan::daemon_options).unwrap_or_default();
        if !self.changes.is_empty() {
            options.extend(["--set".into(), self.changes.clone().into()]);
        }
        options
    }

    /// The request for a daemon whose network has `shape`, and these faults in force.
    pub fn job(&self, args: &Options, shape: Shape, in_force: &[String]) -> Result<JobSpec, Failed> {
        let map = match (&args.map, &self.expected) {
            (_, Some(expected)) => Map::List(expected.place(args, shape)?),
            (MapArg::Linear | MapArg::Auto(_), None) => Map::Linear,
            (MapArg::Nodes(nodes), None) => Map::List(nodes.clone()),
            (MapArg::Random(seed), None) => Map::Random(*seed),
            (MapArg::File(file), None) => Map::List(read_map(file, args.pes, args.ppn, shape)?),
        };
        let name = Path::new(&args.command[0]).file_name().unwrap_or(&args.command[0]).to_string_lossy().into_owned();
        Ok(JobSpec {
            pes: args.pes,
            ppn: args.ppn,
            map,
            heap: self.heap.0,
            heap_may_shrink: self.heap.1,
            registered: if self.virtual_time.is_some() { 0 } else { self.mpi.registered() },
            path: self.engine.path(args, shape, in_force)?,
            barrier: args.barrier,
            collectives: args.collectives,
            name,
            alloc: args.alloc,
            open: false,
            heterogeneous: args.heterogeneous,
        })
    }
}

/// Variables of the PEs, on top of the launcher's own.
fn environment(
    args: &Options,
    mpi: &mpi::MpiPlan,
    is_virtual: bool,
    machine: &Machine,
) -> Result<Vec<(OsString, OsString)>, Failed> {
    let mut env = args.env.clone();
    env.extend(mpi.env.iter().cloned());
    if let Some(t) = args.timeout {
        env.push((ENV_TIMEOUT.into(), (t.as_secs_f64().ceil() as u64).to_string().into()));
    }
    if args.check.contains(&Check::Calls) {
        env.push((ENV_CHECK.into(), "1".into()));
    }
    if let Some(file) = &args.collectives_table {
        let found = std::fs::canonicalize(file).map_err(|e| {
            let remedy = "write one with `angara bench shmem --write-table FILE`";
            Failed::usage(format!("cannot find the table of collectives {}: {e}", file.display()), remedy)
        })?;
        env.push((ENV_TABLE.into(), found.into_os_string()));
    }
    let mut ours = Vec::new();
    if is_virtual {
        ours.push(install::preloaded(PRELOADED)?);
    }
    if is_virtual || args.trace.is_some() {
        ours.extend(mpi.preloaded()?);
    }
    ours.extend(mpi.adapters.clone());
    if let Some(file) = ours.iter().find(|file| separates(file)) {
        return Err(Failed::runtime(
            format!("{} cannot be preloaded: its path has a blank or a colon", file.display()),
            "put this installation, or the build, where the path has none",
        ));
    }
    if !ours.is_empty() {
        let others = args.variable(ENV_PRELOAD).filter(|others| !others.is_empty());
        let all: Vec<OsString> = ours.into_iter().map(PathBuf::into_os_string).chain(others).collect();
        env.push((ENV_PRELOAD.into(), all.join(OsStr::new(":"))));
    }
    if is_virtual {
        env.extend(mpi.in_virtual_time(args));
        env.push((ENV_MPI.into(), machine.values.mpi().to_string().into()));
        let compute = prepared(args.compute.clone().unwrap_or_default())?;
        env.push((ENV_COMPUTE.into(), compute.to_string().into()));
        env.extend(what_else_is_virtual(args));
    }
    Ok(env)
}

/// True if the loader would take a file's name for those of several.
fn separates(file: &Path) -> bool {
    file.as_os_str().as_encoded_bytes().iter().any(|byte| *byte == b':' || byte.is_ascii_whitespace())
}

/// With a file that is there, and can be found from anywhere.
fn prepared(compute: Compute) -> Result<Compute, Failed> {
    let failed = |file: &Path, e: &dyn std::fmt::Display, remedy: &str| {
        Failed::usage(format!("--compute: {}: {e}", file.display()), remedy)
    };
    let whole = |file: &Path| {
        std::fs::canonicalize(file).map_err(|e| failed(file, &e, "name a file in a directory that exists"))
    };
    match compute {
        Compute::Record(file) => {
            let made = std::fs::write(&file, format!("{HEADER}\n"));
            made.map_err(|e| failed(&file, &e, "name a file that can be written"))?;
            Ok(Compute::Record(whole(&file)?))
        }
        Compute::Replay(file) => {
            let text = std::fs::read_to_string(&file);
            let text = text.map_err(|e| failed(&file, &e, "write it first, by --compute record:FILE"))?;
            intervals(&text, 0).map_err(|e| failed(&file, &e, "write it again, by --compute record:FILE"))?;
            Ok(Compute::Replay(whole(&file)?))
        }
        other => Ok(other),
    }
}

/// The heap per PE, and whether that is only the default. The variables are those of the PEs: the launcher's, which
/// `here` looks up, with those of `-x` on top.
fn heap_of(args: &Options, default: u64, here: impl Fn(&str) -> Option<OsString>) -> Result<(u64, bool), Failed> {
    if let Some(heap) = args.heap {
        return Ok((heap, false));
    }
    let asked = symmetric_size(|name| args.assigned(name).or_else(|| here(name)))
        .map_err(|e| Failed::usage(e, "correct the variable, or give --heap"))?;
    Ok(asked.map_or((default, true), |heap| (heap, false)))
}

fn too_many(pes: u32, ppn: u32, shape: Shape) -> Failed {
    let nodes = shape.nodes() as u32;
    let enough = pes.div_ceil(nodes);
    Failed::usage(
        format!(
            "{pes} PEs do not fit {shape}: {nodes} nodes with at most {ppn} PE{} each",
            if ppn == 1 { "" } else { "s" }
        ),
        format!(
            "give --ppn {enough}, or a torus of at least {} nodes such as --torus {}",
            pes.div_ceil(ppn),
            Shape::most_cubic(pes.div_ceil(ppn) as usize)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_protocol::env::DEFAULT_HEAP;

    #[test]
    fn the_environment_of_the_pes_says_how_much_heap() {
        let heap = |heap: Option<u64>, given: &[(&str, &str)], env: &[(&str, &str)]| {
            let variables = given.iter().map(|(name, value)| (name.into(), value.into())).collect();
            let args = Options { heap, env: variables, ..Options::new(1, vec!["true".into()]) };
            let look = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
            heap_of(&args, DEFAULT_HEAP, look)
        };
        let (new, old) = (("SHMEM_SYMMETRIC_SIZE", "2k"), ("SMA_SYMMETRIC_SIZE", "3.1M"));
        assert_eq!(heap(None, &[], &[]).unwrap(), (DEFAULT_HEAP, true));
        assert_eq!(heap(None, &[], &[old]).unwrap(), (3250586, false));
        assert_eq!(heap(None, &[], &[old, new]).unwrap(), (2048, false));
        assert_eq!(heap(None, &[("SMA_SYMMETRIC_SIZE", "1k")], &[old]).unwrap(), (1024, false));
        assert_eq!(heap(None, &[("SMA_SYMMETRIC_SIZE", "1k")], &[new]).unwrap(), (2048, false));
        assert_eq!(heap(Some(0), &[], &[new]).unwrap(), (0, false));
        assert!(heap(None, &[], &[("SHMEM_SYMMETRIC_SIZE", "20x")]).unwrap_err().message.contains("20x"));
    }

    #[test]
    fn a_job_that_does_not_fit_names_both_ways_out() {
        let e = too_many(9, 1, "2x2x2".parse().unwrap());
        assert_eq!(e.code, 2);
        assert!(e.message.contains("9 PEs do not fit 2x2x2"), "{}", e.message);
        assert!(e.remedy.contains("--ppn 2") && e.remedy.contains("--torus 3x"), "{}", e.remedy);
    }
}
