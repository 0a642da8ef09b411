//! Options of `angara run`, and the plan they make: everything decided before anything is started.

mod auto;
mod checks;
mod engine;
mod map;
mod pes_as;
mod virtual_time;

use super::wrap::{self, Wrap};
use crate::machine;
use crate::many::seeds::Seeds;
use crate::mpi::{self, MpiArg};
use angara_abi::job::{Barrier, Collectives, PES_MAX};
use angara_abi::program_clock::PRELOADED;
use angara_control::cores::Bind;
use angara_control::error::Failed;
use angara_control::install;
pub use angara_control::program::find_program;
use angara_fabric::BALANCED_NODES;
use angara_machine::Machine;
use angara_net::fault::{KINDS, examples};
use angara_net::torus::Shape;
use angara_net::units::whole;
use angara_protocol::absence::Patience;
use angara_protocol::compute::{Compute, ENV_COMPUTE, HEADER, intervals};
use angara_protocol::env::{DEFAULT_HEAP, parse_size, symmetric_size};
use angara_protocol::launch::ENV_TIMEOUT;
use angara_protocol::mpi::ENV_MPI;
use angara_protocol::msg::{Alloc, JobSpec, Map, Path as EnginePath};
use angara_recordings::notes::Notes;
use auto::Expected;
use clap::{Args, ValueEnum, ValueHint};
use engine::Engine;
pub use map::MapArg;
use map::read_map;
use serde::Deserialize;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use virtual_time::what_else_is_virtual;
pub use virtual_time::{VirtualPlan, check_recorded};

/// Makes the library look closer.
pub const ENV_CHECK: &str = "SHMEM_DEBUG";
/// Names a table of collectives to the library.
pub const ENV_TABLE: &str = "ANGARA_COLLECTIVES_TABLE";

/// Most links with tracks of their own in a timeline.
const LINK_TRACKS_MAX: u32 = 1024;

/// What a seed draws unless the machine says another bound.
const SEED_JITTER: &str = "jitter=200ns";
/// Libraries that the loader puts before others.
const ENV_PRELOAD: &str = "LD_PRELOAD";

/// Returns what is said below the options of `launcher`.
pub fn after_help(launcher: &str) -> String {
    let others = examples(KINDS.iter().filter(|k| k.name != "corrupt"), "`, `");
    format!(
        "\
FAULTS: A link fault is written `link 0,0,0 +X down` or `link 0,0,0 +X corrupt=1%` (or `{others}`), a node fault \
`node 1,0,0 down`, each optionally followed by `@2ms`.

EXIT STATUS: that of the first PE that fails, 128+N if signal N killed it, 124 after --timeout, 2 for wrong usage, 1 if the job \
could not be run.

EXAMPLES:
  {launcher} -n 8 ./hello
  {launcher} -n 8 --torus 2x2x2 --path ring --report r.json ./heat2d
  {launcher} -n 32 --machine desmos --clock virtual ./heat2d
  {launcher} -n 4 --fault 'link 0,0 +X corrupt=1%' --torus 2x2 --path ring ./hello
  {launcher} -n 4 --trace t.json --trace-links ./heat2d
  {launcher} -n 4 --debug 2 ./hello"
    )
}

const NETWORK: &str = "Network";
const PLACEMENT: &str = "Placement";
const VIRTUAL_TIME: &str = "Virtual time";
const DEBUGGING: &str = "Debugging";
const OUTPUT: &str = "What is written and shown";

/// What the user asked for.
#[derive(Args, Clone)]
#[command(after_help = after_help("angara run"))]
pub struct RunArgs {
    /// Number of PEs (processes); -np is understood too, as are the usual options of other launchers
    #[arg(short = 'n', long = "np", value_name = "N", value_parser = whole(1..=PES_MAX as u32))]
    pub pes: u32,
    /// Torus to run on, such as 2x2x2 [default: the most cubic one that holds the PEs]
    #[arg(long, value_name = "SHAPE", value_parser = torus, group = "network", help_heading = NETWORK)]
    pub torus: Option<Shape>,
    /// Mesh (no wrap-around links) to run on, such as 4x4
    #[arg(long, value_name = "SHAPE", value_parser = mesh, group = "network", help_heading = NETWORK)]
    pub mesh: Option<Shape>,
    /// A machine: desmos (4x2x2x2), angara-k1 (3x3x4), or a file of shape and times as `angara machine desmos` prints one;
    /// --torus or --mesh gives it another shape
    #[arg(long, value_name = "NAME|FILE.toml", value_parser = Machine::named, help_heading = NETWORK)]
    pub machine: Option<Machine>,
    /// Change values of the machine, such as link=15GB/s,hop=60ns; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = NETWORK)]
    pub set: Vec<String>,
    /// Most PEs on one node
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = whole::<u32>(1..=1024),
          help_heading = PLACEMENT)]
    pub ppn: u32,
    /// Placement of PEs on nodes: linear, random:SEED, file:F with one node (`1,0,1` or a number) per PE and line, or
    /// auto:F near those they send most to, by a report of an earlier run (--report), a recording or a matrix of bytes
    #[arg(long, value_name = "MAP", default_value = "linear", help_heading = PLACEMENT)]
    pub map: MapArg,
    /// Give the job nodes of its own whose packets stay among them (a node set), found by: auto (the same as
    /// utilisation), utilisation, fragmentation, closed, first-fit-box, best-fit-box
    #[arg(long, value_name = "SEARCH", value_parser = alloc, conflicts_with = "map", help_heading = PLACEMENT)]
    pub alloc: Option<Alloc>,
    /// Processor affinity of the PEs: auto (own core each if there are at least as many PEs as cores, else an equal
    /// share of the cores; an affinity set by you is kept), core (one core each), none
    #[arg(long, value_enum, default_value_t = Bind::Auto, help_heading = PLACEMENT)]
    pub bind: Bind,
    /// Engine: direct (the PE's own thread stores into the peer's memory), ring (everything through the emulated
    /// adapters and links), auto (direct where the target is on this host)
    #[arg(long, value_name = "PATH", default_value = "auto", value_parser = path, help_heading = NETWORK)]
    pub path: EnginePath,
    /// Collectives: auto, tree (collective subnet) or p2p (puts)
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = collectives, help_heading = NETWORK)]
    pub collectives: Collectives,
    /// Table of which collective uses which algorithm, as `angara bench shmem --write-table FILE` writes it
    #[arg(long, value_name = "FILE", help_heading = NETWORK)]
    pub collectives_table: Option<PathBuf>,
    /// Barrier: auto; multiphase, all-to-all, tree, hypercube, master or counting (the adapters');
    /// counter (shared memory) or dissemination (puts)
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = barrier, help_heading = NETWORK)]
    pub barrier: Barrier,
    /// MPI library of the program: mpich, intel or openmpi; auto looks at the program's file, or at Python's packages; none
    /// offers no launcher of MPI
    #[arg(long, value_enum, value_name = "LIBRARY", default_value_t = MpiArg::Auto, hide_possible_values = true)]
    pub mpi: MpiArg,
    /// Symmetric heap per PE, such as 64M or 1.5G [default: $SHMEM_SYMMETRIC_SIZE, or 256M (MPI: 64M) where memory allows]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub heap: Option<u64>,
    /// PEs may be programs for x86-64 and for aarch64, in one job. Static variables are not symmetric then, only the heap is;
    /// routines of long double and the order of plain char, which differ, are refused
    #[arg(long, help_heading = PLACEMENT)]
    pub heterogeneous: bool,
    /// Break something: `link 0,0,0 +X down`, `link 0,0,0 +X corrupt=1%`, `node 1,0,0 down`; may be repeated
    #[arg(long = "fault", value_name = "SPEC", help_heading = NETWORK)]
    pub faults: Vec<String>,
    /// Start these PEs in another command, which the program and its arguments follow: `--wrap 2 valgrind`,
    /// `--wrap all 'strace -o trace.$ANGARA_PE'`. PES is a number, a list such as 0,4-7, or all; a shell reads COMMAND; may
    /// be repeated, and the first one is the outermost
    #[arg(long, num_args = 2, value_names = ["PES", "COMMAND"], help_heading = DEBUGGING)]
    pub wrap: Vec<String>,
    /// Start this PE in gdb, or in what --wrap names for it, and give it the terminal: what is typed, Ctrl-C and Ctrl-Z go
    /// to it alone
    #[arg(long, value_name = "PE", help_heading = DEBUGGING)]
    pub debug: Option<u32>,
    /// Time of the program: wall, or virtual: every operation takes as long as on the emulated network, the program's own
    /// timers say so, and two runs are equal
    #[arg(long, value_enum, default_value_t = Clock::Wall, help_heading = VIRTUAL_TIME)]
    pub clock: Clock,
    /// With --clock virtual: PEs as processes; as coroutines of one process, which has many more of them and is faster; or auto:
    /// coroutines where program and options allow it
    #[arg(long, value_enum, value_name = "HOW", default_value_t = PesAs::Processes, hide_possible_values = true,
          help_heading = VIRTUAL_TIME)]
    pub pes_as: PesAs,
    /// With --clock virtual: write to this file what each PE posts and what it waits for; `angara sim run --workload
    /// trace:FILE` replays it, on this network or another one
    #[arg(long, value_name = "FILE.atr", help_heading = VIRTUAL_TIME)]
    pub record: Option<PathBuf>,
    /// With --clock virtual: nanoseconds that a call of the library takes [default: 1; ours, no machine's]
    #[arg(long, value_name = "NS", value_parser = call_cost, help_heading = VIRTUAL_TIME)]
    pub call_cost: Option<f64>,
    /// With --clock virtual: what the program's computing between two calls of the library takes: none, fixed:NS,
    /// measured[:FACTOR] (of the processor time here; two runs differ), record:FILE (the same, and writes it down) or
    /// replay:FILE (what was written down; two runs are equal) [default: none]
    #[arg(long, value_name = "HOW", help_heading = VIRTUAL_TIME)]
    pub compute: Option<Compute>,
    /// With --clock virtual: the processor's time stamp counter (rdtsc) tells virtual time at 1 GHz; x86-64 only, and each
    /// look takes microseconds on the wall
    #[arg(long, help_heading = VIRTUAL_TIME)]
    pub virtual_tsc: bool,
    /// With --clock virtual: injections take up to 200 ns longer (or as --set jitter=… says), as this seed draws it, so that
    /// a program that relies on an order that nothing ensures may fail; random numbers of the system are drawn by it, too;
    /// the same seed is the same run
    #[arg(long, value_name = "S", help_heading = VIRTUAL_TIME)]
    pub seed: Option<u64>,
    /// With --clock virtual: run once with each of these seeds, such as 1..200, on all cores, until one fails
    #[arg(long, value_name = "A..B", conflicts_with = "seed", help_heading = VIRTUAL_TIME)]
    pub seeds: Option<Seeds>,
    /// With --clock virtual: seconds on the wall after which the others go on without a PE that does not come back to the
    /// library, because it spins on memory, sleeps in the kernel or computes; or never. It is named with its line, and another
    /// run may differ [default: 30]
    #[arg(long, value_name = "SECONDS|never", help_heading = VIRTUAL_TIME)]
    pub patience: Option<Patience>,
    /// With --clock virtual: exit with status 1 if another run may differ, because the others went on without a PE, or if times
    /// rest on a guess; the run says at its end why
    #[arg(long, help_heading = VIRTUAL_TIME)]
    pub strict: bool,
    /// Prefix each line of output with the number of the PE that wrote it
    #[arg(long, help_heading = OUTPUT)]
    pub label: bool,
    /// End the job after this many seconds, and say what each PE waits for
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// Look closer, slowly. `calls`: at what the program passes to the library, and end it with a message about the first
    /// mistake: memory that is not allocated, overlapping ranges, collectives called differently by different PEs.
    /// `races`: at accesses of PEs to the same memory that nothing puts in order, when the job has ended
    #[arg(
        long, value_name = "calls|races", value_enum, value_delimiter = ',', num_args = 0..=1, require_equals = true,
        default_missing_value = "calls", help_heading = DEBUGGING
    )]
    pub check: Vec<Check>,
    /// Write placement, PE×PE traffic and link traffic to this file; `angara report FILE` shows it. Compressed if the
    /// name ends in .gz; a large one gets that ending
    #[arg(long, value_name = "FILE.json[.gz]", help_heading = OUTPUT)]
    pub report: Option<PathBuf>,
    /// Write a timeline of every call of the library to this file, which Perfetto and chrome://tracing show, and `angara trace
    /// summary FILE` sums up; compressed if the name ends in .gz
    #[arg(long, value_name = "FILE.json[.gz]", help_heading = OUTPUT)]
    pub trace: Option<PathBuf>,
    /// With --trace: add tracks of the load of the links that carry most, N of them [default N: 16]; the links of the
    /// daemon are looked at up to 10 times a second
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16", requires = "trace",
          value_parser = whole(1..=LINK_TRACKS_MAX), help_heading = OUTPUT)]
    pub trace_links: Option<u32>,
    /// Write every packet of the job to this file, for Wireshark; everything goes through the emulated network (--path ring)
    #[arg(long, value_name = "FILE.pcapng", help_heading = OUTPUT)]
    pub capture: Option<PathBuf>,
    /// Serve a page that shows the network at work, and print its URL; it stays after the program until Ctrl-C. A daemon that
    /// has a page shows its own [default ADDR: 127.0.0.1:8290; port 0 is any that is free]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:8290",
          help_heading = OUTPUT)]
    pub web: Option<String>,
    /// Whether the page of --web stays after the program
    #[arg(long, value_name = "YES|NO", default_value = "yes", requires = "web", help_heading = OUTPUT)]
    pub web_stay: Stay,
    /// Set an environment variable for the PEs; may be repeated
    #[arg(short = 'x', value_name = "VAR=VAL", value_parser = assignment)]
    pub env: Vec<(OsString, OsString)>,
    /// Use the daemon that listens in this directory, and no other
    #[arg(long, value_name = "DIR", help_heading = NETWORK)]
    pub runtime_dir: Option<PathBuf>,
    /// Run on the cluster of this file, through the daemon of this host
    #[arg(long, value_name = "FILE", conflicts_with_all = ["network", "machine", "set"], help_heading = NETWORK)]
    pub cluster: Option<PathBuf>,
    /// Say nothing about what is started; errors are still reported
    #[arg(short, long)]
    pub quiet: bool,
    /// Program and its arguments
    #[arg(value_name = "PROG [ARGS]", required = true, trailing_var_arg = true, allow_hyphen_values = true,
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

impl RunArgs {
    /// The value that a variable has in the job's processes, unless the launcher sets it.
    pub fn variable(&self, name: &str) -> Option<OsString> {
        self.assigned(name).or_else(|| std::env::var_os(name))
    }
    /// The value that `-x` gives it.
    fn assigned(&self, name: &str) -> Option<OsString> {
        self.env.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.clone())
    }
}

/// `--web-stay`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stay {
    /// Until Ctrl-C.
    Yes,
    /// It goes with the job.
    No,
}

/// `--clock`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// The machine's.
    Wall,
    /// The emulated machine's.
    Virtual,
}

/// `--pes-as`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum PesAs {
    /// A process each.
    Processes,
    /// All in one process, on one thread.
    Coroutines,
    /// The latter where that is possible.
    Auto,
}

/// `--check`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// What the program passes to the library.
    Calls,
    /// Accesses that nothing puts in order.
    Races,
}

fn torus(s: &str) -> Result<Shape, String> {
    let shape: Shape = s.parse().map_err(|e: angara_net::torus::ShapeError| e.to_string())?;
    if shape.is_torus() { Ok(shape) } else { Err("this is a mesh; use --mesh".into()) }
}

fn mesh(s: &str) -> Result<Shape, String> {
    let sizes = s.strip_prefix("mesh:").unwrap_or(s);
    format!("mesh:{sizes}").parse().map_err(|e: angara_net::torus::ShapeError| e.to_string())
}

fn path(s: &str) -> Result<EnginePath, String> {
    word(s, "auto, direct or ring")
}
fn alloc(s: &str) -> Result<Alloc, String> {
    word(s, "auto, utilisation, fragmentation, closed, first-fit-box or best-fit-box")
}
fn collectives(s: &str) -> Result<Collectives, String> {
    word(s, "auto, tree or p2p")
}
fn barrier(s: &str) -> Result<Barrier, String> {
    word(s, "auto, multiphase, all-to-all, tree, hypercube, master, counting, counter or dissemination")
}

/// Reads a word the way the messages spell it.
fn word<T: for<'a> Deserialize<'a>>(s: &str, known: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::from(s)).map_err(|_| format!("use {known}"))
}

fn seconds(s: &str) -> Result<Duration, String> {
    let time = match s.parse::<f64>() {
        Ok(n) => Duration::try_from_secs_f64(n).ok(),
        Err(_) => angara_net::units::time(s).map(|ps| Duration::from_nanos(ps / 1000)),
    };
    time.filter(|t| !t.is_zero())
        .ok_or_else(|| format!("`{s}` is not a time; write seconds above 0, such as 30 or 0.5, or 2m"))
}

fn call_cost(s: &str) -> Result<f64, String> {
    let ns = s.parse::<f64>().ok().filter(|ns| (0.0..=1e9).contains(ns));
    ns.ok_or_else(|| format!("`{s}`: give nanoseconds from 0 to 1e9, such as 50"))
}

fn assignment(s: &str) -> Result<(OsString, OsString), String> {
    match s.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        Some(_) => Err("write VAR=VALUE".into()),
        None => match std::env::var_os(s) {
            Some(value) => Ok((s.into(), value)),
            None => Err(format!("{s} is not set here; write {s}=VALUE")),
        },
    }
}

/// Says something about what is started.
pub(super) fn say(args: &RunArgs, text: String) {
    if !args.quiet {
        angara_protocol::complain!("angara: {text}");
    }
}

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
    /// Time is virtual.
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
    pub fn new(args: &RunArgs) -> Result<JobPlan, Failed> {
        checks::capture(args)?;
        let mut machine = machine::changed(args.machine.clone(), &args.set)?;
        let engine = Engine::of(args, &machine)?;
        let seeded = args.seed.is_some() && args.clock == Clock::Virtual;
        if seeded && machine.params().is_ok_and(|p| p.jitter_ps == 0) {
            machine.change(SEED_JITTER).expect("a key and its value");
        }
        if let Some(why) = machine.values.bottleneck().filter(|_| !args.quiet) {
            angara_protocol::complain!("angara: {why}");
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
        if machine.params().is_ok_and(|params| params.balanced) && shape.nodes() > BALANCED_NODES {
            let why = format!("routes=balanced on {shape}: balanced routes are found for up to {BALANCED_NODES} nodes");
            return Err(Failed::usage(why, "give a smaller --torus, or leave routes=balanced out"));
        }
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
        let default = mpi.kind.map_or(DEFAULT_HEAP, |_| mpi::HEAP);
        let heap = heap_of(args, default, |name| std::env::var_os(name))?;
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
        let virtual_time = VirtualPlan::new(args)?;
        let pes_as = pes_as::decide(args, &program, mpi.kind.is_some())?;
        let mut ours = Vec::new();
        if virtual_time.is_some() {
            ours.push(install::preloaded(PRELOADED)?);
        }
        if virtual_time.is_some() || args.trace.is_some() {
            ours.extend(mpi.preloaded()?);
        }
        if !ours.is_empty() {
            let others = args.variable(ENV_PRELOAD).filter(|others| !others.is_empty());
            let all: Vec<OsString> = ours.into_iter().map(PathBuf::into_os_string).chain(others).collect();
            env.push((ENV_PRELOAD.into(), all.join(OsStr::new(":"))));
        }
        if virtual_time.is_some() {
            env.extend(mpi.in_virtual_time(args));
            env.push((ENV_MPI.into(), machine.values.mpi().to_string().into()));
            let compute = prepared(args.compute.clone().unwrap_or_default())?;
            env.push((ENV_COMPUTE.into(), compute.to_string().into()));
            env.extend(what_else_is_virtual(args));
        }
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
    pub fn job(&self, args: &RunArgs, shape: Shape, in_force: &[String]) -> Result<JobSpec, Failed> {
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
fn heap_of(args: &RunArgs, default: u64, here: impl Fn(&str) -> Option<OsString>) -> Result<(u64, bool), Failed> {
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

    #[test]
    fn the_environment_of_the_pes_says_how_much_heap() {
        let heap = |args: &[&str], env: &[(&str, &str)]| {
            let all = ["angara", "-n", "1"].iter().chain(args).chain(&["true"]).map(OsString::from).collect();
            let look = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
            heap_of(&crate::oshrun::run_args(all).expect("valid"), DEFAULT_HEAP, look)
        };
        let (new, old) = (("SHMEM_SYMMETRIC_SIZE", "2k"), ("SMA_SYMMETRIC_SIZE", "3.1M"));
        assert_eq!(heap(&[], &[]).unwrap(), (DEFAULT_HEAP, true));
        assert_eq!(heap(&[], &[old]).unwrap(), (3250586, false));
        assert_eq!(heap(&[], &[old, new]).unwrap(), (2048, false));
        assert_eq!(heap(&["-x", "SMA_SYMMETRIC_SIZE=1k"], &[old]).unwrap(), (1024, false));
        assert_eq!(heap(&["-x", "SMA_SYMMETRIC_SIZE=1k"], &[new]).unwrap(), (2048, false));
        assert_eq!(heap(&["--heap", "0"], &[new]).unwrap(), (0, false));
        assert!(heap(&[], &[("SHMEM_SYMMETRIC_SIZE", "20x")]).unwrap_err().message.contains("20x"));
    }

    #[test]
    fn words_are_those_of_the_messages() {
        assert_eq!(path("ring"), Ok(EnginePath::Ring));
        assert_eq!(barrier("dissemination"), Ok(Barrier::Dissemination));
        assert_eq!(collectives("p2p"), Ok(Collectives::P2p));
        assert_eq!(
            barrier("fast").unwrap_err(),
            "use auto, multiphase, all-to-all, tree, hypercube, master, counting, counter or dissemination"
        );
    }

    #[test]
    fn help_shows_options_in_groups() {
        let help = crate::oshrun::oshrun().render_long_help().to_string();
        // Headings stand at the beginning of a line, options behind blanks.
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in help.lines() {
            match line.strip_suffix(':') {
                Some(heading) if !line.starts_with(' ') => groups.push((heading, Vec::new())),
                _ => {
                    let long = line.trim_start().starts_with('-').then(|| line.split_once("--")).flatten();
                    let name = long.and_then(|(_, rest)| rest.split([' ', '[', '=']).next());
                    if let Some((_, options)) = groups.last_mut() {
                        options.extend(name);
                    }
                }
            }
        }
        let of = |heading: &str| {
            let group = groups.iter().find(|(name, _)| *name == heading);
            &group.unwrap_or_else(|| panic!("no group {heading}: {help}")).1[..]
        };
        assert_eq!(of("Options"), ["np", "mpi", "heap", "timeout", "quiet", "help", "version"]);
        for (heading, members) in [
            (NETWORK, &["torus", "mesh", "machine", "set", "path", "barrier", "fault", "runtime-dir", "cluster"][..]),
            (PLACEMENT, &["ppn", "map", "bind"]),
            (VIRTUAL_TIME, &["clock", "call-cost", "compute", "seed", "seeds", "patience", "strict"]),
            (DEBUGGING, &["wrap", "debug", "check"]),
            (OUTPUT, &["label", "report", "trace", "capture", "web"]),
        ] {
            let there = of(heading);
            assert!(members.iter().all(|member| there.contains(member)), "{heading}: {there:?}");
        }
    }

    #[test]
    fn shapes() {
        assert!(mesh("4x4").is_ok_and(|s| !s.is_torus()));
        assert!(torus("mesh:4x4").is_err());
    }

    #[test]
    fn times_and_maps() {
        assert_eq!(["0.5", "500ms"].map(seconds), [Ok(Duration::from_millis(500)), Ok(Duration::from_millis(500))]);
        assert_eq!(seconds("2m"), Ok(Duration::from_secs(120)));
        assert!(seconds("0").is_err() && seconds("x").is_err() && seconds("inf").is_err());
        assert_eq!("random:7".parse(), Ok(MapArg::Random(7)));
        assert!("random".parse::<MapArg>().unwrap_err().contains("seed"));
        assert!("file:".parse::<MapArg>().is_err());
        assert_eq!("auto:out.json".parse(), Ok(MapArg::Auto("out.json".into())));
        assert!("auto".parse::<MapArg>().unwrap_err().contains("auto:out.json"));
    }

    #[test]
    fn a_job_that_does_not_fit_names_both_ways_out() {
        let e = too_many(9, 1, "2x2x2".parse().unwrap());
        assert_eq!(e.code, 2);
        assert!(e.message.contains("9 PEs do not fit 2x2x2"), "{}", e.message);
        assert!(e.remedy.contains("--ppn 2") && e.remedy.contains("--torus 3x"), "{}", e.remedy);
    }
}
