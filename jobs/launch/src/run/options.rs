//! What `angara run` is asked for. Nothing is decided here, nor looked up.

use angara_abi::job::{Barrier, Collectives};
use angara_control::cores::Bind;
use angara_machine::Machine;
use angara_net::torus::{NodeId, Shape};
use angara_net::words;
use angara_protocol::absence::Patience;
use angara_protocol::compute::Compute;
use angara_protocol::msg::{Alloc, Path as EnginePath};
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What the user asks for: `angara run` reads it from its command line.
#[derive(Clone)]
pub struct Options {
    /// Number of PEs.
    pub pes: u32,
    /// Torus to run on; the most cubic one that holds the PEs unless it is given.
    pub torus: Option<Shape>,
    /// Mesh to run on.
    pub mesh: Option<Shape>,
    /// The machine: its shape, times and buffers.
    pub machine: Option<Machine>,
    /// Changes of the machine, as `KEY=VALUE`.
    pub set: Vec<String>,
    /// Most PEs on one node.
    pub ppn: u32,
    /// Placement of PEs on nodes.
    pub map: MapArg,
    /// Nodes of the job's own, found by this search.
    pub alloc: Option<Alloc>,
    /// Processor affinity of the PEs.
    pub bind: Bind,
    pub path: EnginePath,
    /// How collectives are done.
    pub collectives: Collectives,
    /// Table of which collective uses which algorithm.
    pub collectives_table: Option<PathBuf>,
    /// Kind of barrier.
    pub barrier: Barrier,
    /// MPI library of the program.
    pub mpi: MpiArg,
    /// Bytes of symmetric heap per PE, if not the default.
    pub heap: Option<u64>,
    /// PEs may be programs for different processors.
    pub heterogeneous: bool,
    /// What is broken, as `angara fault` has it.
    pub faults: Vec<String>,
    /// PEs and the command that starts them, by turns.
    pub wrap: Vec<String>,
    /// The PE that is started in a debugger.
    pub debug: Option<u32>,
    /// Time of the program.
    pub clock: Clock,
    pub pes_as: PesAs,
    /// File for what each PE posts and waits for.
    pub record: Option<PathBuf>,
    /// Nanoseconds that a call of the library takes, in virtual time.
    pub call_cost: Option<f64>,
    /// What computing takes, in virtual time.
    pub compute: Option<Compute>,
    /// The time stamp counter tells virtual time.
    pub virtual_tsc: bool,
    /// Decides what is random in virtual time.
    pub seed: Option<u64>,
    /// Runs once with each of these.
    pub seeds: Option<Seeds>,
    /// How long others wait for a PE that does not come back, in virtual time.
    pub patience: Option<Patience>,
    /// A run that another may differ from is a failure.
    pub strict: bool,
    /// Lines of output begin with the number of the PE.
    pub label: bool,
    /// The job ends after this.
    pub timeout: Option<Duration>,
    /// What is looked at more closely.
    pub check: Vec<Check>,
    /// File for placement and traffic.
    pub report: Option<PathBuf>,
    /// The report has what links carried, by time.
    pub history: bool,
    /// File for a timeline.
    pub trace: Option<PathBuf>,
    /// Number of links with tracks in the timeline.
    pub trace_links: Option<u32>,
    /// File for every packet.
    pub capture: Option<PathBuf>,
    /// Address of a page that shows the network.
    pub web: Option<String>,
    /// Whether that page stays after the program.
    pub web_stay: Stay,
    /// Variables for the PEs.
    pub env: Vec<(OsString, OsString)>,
    /// Directory of the daemon to use, and of no other.
    pub runtime_dir: Option<PathBuf>,
    /// Cluster file to run on.
    pub cluster: Option<PathBuf>,
    /// Nothing is said about what is started.
    pub quiet: bool,
    /// Program and its arguments.
    pub command: Vec<OsString>,
}

impl Options {
    /// Returns what is asked for by `angara run -n PES COMMAND`.
    pub fn new(pes: u32, command: Vec<OsString>) -> Options {
        Options {
            pes,
            torus: None,
            mesh: None,
            machine: None,
            set: Vec::new(),
            ppn: 1,
            map: MapArg::Linear,
            alloc: None,
            bind: Bind::Auto,
            path: EnginePath::Auto,
            collectives: Collectives::Auto,
            collectives_table: None,
            barrier: Barrier::Auto,
            mpi: MpiArg::Auto,
            heap: None,
            heterogeneous: false,
            faults: Vec::new(),
            wrap: Vec::new(),
            debug: None,
            clock: Clock::Wall,
            pes_as: PesAs::Processes,
            record: None,
            call_cost: None,
            compute: None,
            virtual_tsc: false,
            seed: None,
            seeds: None,
            patience: None,
            strict: false,
            label: false,
            timeout: None,
            check: Vec::new(),
            report: None,
            history: false,
            trace: None,
            trace_links: None,
            capture: None,
            web: None,
            web_stay: Stay::Yes,
            env: Vec::new(),
            runtime_dir: None,
            cluster: None,
            quiet: false,
            command,
        }
    }

    /// The value that a variable has in the job's processes, unless the launcher sets it.
    pub fn variable(&self, name: &str) -> Option<OsString> {
        self.assigned(name).or_else(|| std::env::var_os(name))
    }
    /// The value that `-x` gives it.
    pub(super) fn assigned(&self, name: &str) -> Option<OsString> {
        self.env.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.clone())
    }
}

words! {
    /// Whether a page stays.
    #[derive(Debug)]
    pub enum Stay {
        /// Until Ctrl-C.
        Yes = "yes",
        /// It goes with the job.
        No = "no",
    }
}

words! {
    /// Time of the program.
    #[derive(Debug)]
    pub enum Clock {
        /// The machine's.
        Wall = "wall",
        /// The emulated machine's.
        Virtual = "virtual",
    }
}

words! {
    /// What PEs are.
    #[derive(Debug)]
    pub enum PesAs {
        /// A process each.
        Processes = "processes",
        /// All in one process, on one thread.
        Coroutines = "coroutines",
        /// The latter where that is possible.
        Auto = "auto",
    }
}

words! {
    /// What is looked at more closely.
    #[derive(Debug)]
    pub enum Check {
        /// What the program passes to the library.
        Calls = "calls",
        /// Accesses that nothing puts in order.
        Races = "races",
    }
}

/// Says something about what is started.
pub(super) fn say(args: &Options, text: String) {
    if !args.quiet {
        angara_protocol::complain!("angara: {text}");
    }
}

words! {
    /// Which MPI library a program uses.
    #[derive(Debug)]
    pub enum MpiArg {
        /// By the program's file.
        Auto = "auto",
        /// MPICH and its kin.
        Mpich = "mpich",
        /// Intel MPI.
        Intel = "intel",
        /// Open MPI.
        Openmpi = "openmpi",
        /// The program has nothing to do with MPI.
        None = "none",
    }
}

/// `--map` before the torus is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MapArg {
    /// In order.
    Linear,
    /// Seeded permutation.
    Random(u64),
    /// A file with one node per line.
    File(PathBuf),
    /// Found from the traffic of a report, a recording or a matrix.
    Auto(PathBuf),
    /// By where another launcher has put the PEs.
    Nodes(Vec<NodeId>),
}

impl FromStr for MapArg {
    type Err = String;
    fn from_str(s: &str) -> Result<MapArg, String> {
        match s.split_once(':') {
            None if s == "linear" => Ok(MapArg::Linear),
            None if s == "random" => Err("random needs a seed, such as random:1".into()),
            Some(("random", seed)) => match seed.parse() {
                Ok(seed) => Ok(MapArg::Random(seed)),
                Err(_) => Err(format!("`{seed}` is not a seed; write a whole number, such as random:1")),
            },
            Some(("file", file)) if !file.is_empty() => Ok(MapArg::File(file.into())),
            Some(("auto", file)) if !file.is_empty() => Ok(MapArg::Auto(file.into())),
            None if s == "auto" => Err("auto needs a report of an earlier run, such as auto:out.json".into()),
            _ => Err("use linear, random:SEED, file:F or auto:F".into()),
        }
    }
}

/// Most seeds of one command.
const SEEDS_MAX: u64 = 1_000_000;

/// `1..200`: seeds from the first to the last, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seeds {
    pub first: u64,
    pub last: u64,
}

impl FromStr for Seeds {
    type Err = String;
    fn from_str(text: &str) -> Result<Seeds, String> {
        let bad = || format!("`{text}`: give the first and the last seed, such as 1..200");
        let (first, last) = text.split_once("..").ok_or_else(bad)?;
        let last = last.strip_prefix('=').unwrap_or(last);
        let (first, last): (u64, u64) = (first.parse().map_err(|_| bad())?, last.parse().map_err(|_| bad())?);
        match last.checked_sub(first) {
            Some(more) if more < SEEDS_MAX => Ok(Seeds { first, last }),
            Some(_) => Err(format!("`{text}`: at most {SEEDS_MAX} seeds")),
            None => Err(bad()),
        }
    }
}

impl std::fmt::Display for Seeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

/// Asks for something else, in tests.
#[cfg(test)]
pub(super) type Change = fn(&mut Options);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps() {
        assert_eq!("random:7".parse(), Ok(MapArg::Random(7)));
        assert!("random".parse::<MapArg>().unwrap_err().contains("seed"));
        assert!("file:".parse::<MapArg>().is_err());
        assert_eq!("auto:out.json".parse(), Ok(MapArg::Auto("out.json".into())));
        assert!("auto".parse::<MapArg>().unwrap_err().contains("auto:out.json"));
    }
}
