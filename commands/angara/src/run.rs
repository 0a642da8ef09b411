//! `angara run`: its options, and what they ask for. `oshrun` has the same.

use crate::shared::foreign::Misread;
use crate::shared::out_file;
use crate::shared::{say_usage, word};
use angara_abi::job::{Barrier, Collectives, PES_MAX};
use angara_control::cores::Bind;
use angara_control::error::Failed;
use angara_launch::many::seeds;
use angara_launch::run;
use angara_launch::run::options::{Check, Clock, MapArg, MpiArg, Options, PesAs, Seeds, Stay};
use angara_machine::Machine;
use angara_net::fault::{KINDS, examples};
use angara_net::torus::Shape;
use angara_net::units::whole;
use angara_protocol::absence::Patience;
use angara_protocol::compute::Compute;
use angara_protocol::env::parse_size;
use angara_protocol::msg::{Alloc, Path as EnginePath};
use clap::{Args, ValueHint};
use serde::Deserialize;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Most links with tracks of their own in a timeline.
const LINK_TRACKS_MAX: u32 = 1024;

/// Returns what `-h` says below the options of `launcher`: three commands that work as they are, but for the program.
pub(crate) fn short_after_help(launcher: &str) -> String {
    format!(
        "\
EXAMPLES:
  {launcher} -n 8 ./hello                                      # at full speed
  {launcher} -n 8 --torus 2x2x2 --report r.json ./hello        # then: angara report r.json
  {launcher} -n 32 --machine desmos --clock virtual ./hello    # how long on that machine?

`{launcher} --help` has all options, faults, exit statuses and more examples."
    )
}

/// Returns what `--help` and the manual page say below the options of `launcher`.
pub(crate) fn after_help(launcher: &str) -> String {
    let others = examples(KINDS.iter().filter(|k| k.name != "corrupt"), "`, `");
    format!(
        "\
FAULTS: A link fault is written `link 0,0,0 +X down` or `link 0,0,0 +X corrupt=1%` (or `{others}`), a node fault \
`node 1,0,0 down`, each optionally followed by `@2ms`. `0,0,0` is a node by its coordinates, `+X` the direction of one of \
its links.

EXIT STATUS: that of the first PE that fails, 128+N if signal N killed it, 124 after --timeout, 126 if the program cannot be \
started, 127 if there is none of that name, 2 for wrong usage, 1 if the job could not be run.

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
#[command(after_help = short_after_help("angara run"), after_long_help = after_help("angara run"))]
pub struct RunArgs {
    /// Number of PEs (processes)
    ///
    /// -np is understood too, as are the usual options of other launchers.
    #[arg(short = 'n', long = "np", value_name = "N", value_parser = whole(1..=PES_MAX as u32))]
    pes: u32,
    /// Torus, such as 2x2x2 [default: the most cubic that fits]
    ///
    /// Without it, the torus is the most cubic one that holds the PEs.
    #[arg(long, value_name = "SHAPE", value_parser = torus, group = "network", help_heading = NETWORK)]
    torus: Option<Shape>,
    /// Mesh (no wrap-around links), such as 4x4
    #[arg(long, value_name = "SHAPE", value_parser = mesh, group = "network", help_heading = NETWORK)]
    mesh: Option<Shape>,
    /// A machine, as `angara machine --help` lists them, or a file
    ///
    /// desmos is 4x2x2x2, angara-k1 is 3x3x4. A file has shape and times, as `angara machine desmos` prints one; --torus or
    /// --mesh gives it another shape.
    #[arg(long, value_name = "NAME|FILE.toml", value_parser = Machine::named, help_heading = NETWORK)]
    machine: Option<Machine>,
    /// Change values of the machine, such as link=15GB/s,hop=60ns; may be repeated
    #[arg(hide_short_help = true, long, value_name = "KEY=VALUE", help_heading = NETWORK)]
    set: Vec<String>,
    /// Most PEs on one node
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = whole::<u32>(1..=1024),
          help_heading = PLACEMENT)]
    ppn: u32,
    /// Placement: linear, random:SEED, file:F or auto:REPORT
    ///
    /// A file has one node (`1,0,1` or a number) per PE and line. With auto, PEs sit near those they send most to, by a report
    /// of an earlier run (--report), a recording or a matrix of bytes.
    #[arg(long, value_name = "MAP", default_value = "linear", help_heading = PLACEMENT)]
    map: MapArg,
    /// Give the job nodes of its own whose packets stay among them (a node set), found by: auto (the same as
    /// utilisation), utilisation, fragmentation, closed, first-fit-box, best-fit-box
    #[arg(hide_short_help = true, long, value_name = "SEARCH", value_parser = alloc, conflicts_with = "map", help_heading = PLACEMENT)]
    alloc: Option<Alloc>,
    /// Processor affinity of the PEs: auto (own core each if there are at least as many PEs as cores, else an equal
    /// share of the cores; an affinity set by you is kept), core (one core each), none
    #[arg(hide_short_help = true, long, value_parser = word::<Bind>(), default_value_t = Bind::Auto, help_heading = PLACEMENT)]
    bind: Bind,
    /// Engine: direct, ring (the emulated chip) or auto
    ///
    /// With direct, the PE's own thread stores into the peer's memory. With ring, everything goes through the emulated
    /// adapters and links. With auto, it is direct where the target is on this host.
    #[arg(long, value_name = "PATH", default_value = "auto", value_parser = path, help_heading = NETWORK)]
    path: EnginePath,
    /// Collectives: auto, tree (collective subnet) or p2p (puts)
    #[arg(hide_short_help = true, long, value_name = "HOW", default_value = "auto", value_parser = collectives, help_heading = NETWORK)]
    collectives: Collectives,
    /// Table of which collective uses which algorithm, as `angara bench shmem --write-table FILE` writes it
    #[arg(hide_short_help = true, long, value_name = "FILE", help_heading = NETWORK)]
    collectives_table: Option<PathBuf>,
    /// Barrier: auto; multiphase, all-to-all, tree, hypercube, master or counting (the adapters');
    /// counter (shared memory) or dissemination (puts)
    #[arg(hide_short_help = true, long, value_name = "HOW", default_value = "auto", value_parser = barrier, help_heading = NETWORK)]
    barrier: Barrier,
    /// MPI library of the program: mpich, intel or openmpi; auto looks at the program's file, or at Python's packages; none
    /// offers no launcher of MPI
    #[arg(hide_short_help = true, long, value_parser = word::<MpiArg>(), value_name = "LIBRARY", default_value_t = MpiArg::Auto, hide_possible_values = true)]
    mpi: MpiArg,
    /// Symmetric heap per PE, such as 64M [default: 256M]
    ///
    /// The default is $SHMEM_SYMMETRIC_SIZE, or 256M (MPI: 64M, through UCX 96M) where memory allows.
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    heap: Option<u64>,
    /// PEs may be programs for x86-64 and for aarch64, in one job. Static variables are not symmetric then, only the heap is;
    /// routines of long double and the order of plain char, which differ, are refused
    #[arg(hide_short_help = true, long, help_heading = PLACEMENT)]
    heterogeneous: bool,
    /// Break something, such as `link 0,0,0 +X down`
    ///
    /// Others are `link 0,0,0 +X corrupt=1%` and `node 1,0,0 down`; may be repeated.
    #[arg(long = "fault", value_name = "SPEC", help_heading = NETWORK)]
    faults: Vec<String>,
    /// Start PEs in another command: `--wrap 2 valgrind`
    ///
    /// The program and its arguments follow the command, as in `--wrap all 'strace -o trace.$ANGARA_PE'`. PES is a number, a
    /// list such as 0,4-7, or all; a shell reads COMMAND; may be repeated, and the first one is the outermost.
    #[arg(long, num_args = 2, value_names = ["PES", "COMMAND"], help_heading = DEBUGGING)]
    wrap: Vec<String>,
    /// Start this PE in gdb, with the terminal
    ///
    /// With --wrap for the same PE, it is that command in place of gdb. What is typed, Ctrl-C and Ctrl-Z go to this PE alone.
    #[arg(long, value_name = "PE", help_heading = DEBUGGING)]
    debug: Option<u32>,
    /// Time of the program
    ///
    /// With virtual, every operation takes as long as on the emulated network, the program's own timers say so, and two runs
    /// are equal.
    #[arg(long, value_parser = word::<Clock>(), default_value_t = Clock::Wall, help_heading = VIRTUAL_TIME)]
    clock: Clock,
    /// In virtual time: processes, coroutines or auto
    ///
    /// With --clock virtual: PEs as processes; as coroutines of one process, which has many more of them and is faster; or
    /// auto: coroutines where program and options allow it.
    #[arg(long, value_parser = word::<PesAs>(), value_name = "HOW", default_value_t = PesAs::Processes, hide_possible_values = true,
          help_heading = VIRTUAL_TIME)]
    pes_as: PesAs,
    /// With --clock virtual: write to this file what each PE posts and what it waits for; `angara sim run --workload
    /// trace:FILE` replays it, on this network or another one
    #[arg(hide_short_help = true, long, value_name = "FILE.atr", help_heading = VIRTUAL_TIME, value_parser = out_file())]
    record: Option<PathBuf>,
    /// With --clock virtual: nanoseconds that a call of the library takes [default: 1; ours, no machine's]
    #[arg(hide_short_help = true, long, value_name = "NS", value_parser = call_cost, help_heading = VIRTUAL_TIME)]
    call_cost: Option<f64>,
    /// With --clock virtual: what the program's computing between two calls of the library takes: none, fixed:NS,
    /// measured[:FACTOR] (of the processor time here; two runs differ), record:FILE (the same, and writes it down) or
    /// replay:FILE (what was written down; two runs are equal) [default: none]
    #[arg(hide_short_help = true, long, value_name = "HOW", help_heading = VIRTUAL_TIME)]
    compute: Option<Compute>,
    /// With --clock virtual: the processor's time stamp counter (rdtsc) tells virtual time at 1 GHz; x86-64 only, and each
    /// look takes microseconds on the wall
    #[arg(hide_short_help = true, long, help_heading = VIRTUAL_TIME)]
    virtual_tsc: bool,
    /// With --clock virtual: injections take up to 200 ns longer (or as --set jitter=… says), as this seed draws it, so that
    /// a program that relies on an order that nothing ensures may fail; random numbers of the system are drawn by it, too;
    /// the same seed is the same run
    #[arg(hide_short_help = true, long, value_name = "S", help_heading = VIRTUAL_TIME)]
    seed: Option<u64>,
    /// With --clock virtual: run once with each of these seeds, such as 1..200, on all cores, until one fails
    #[arg(hide_short_help = true, long, value_name = "A..B", conflicts_with = "seed", help_heading = VIRTUAL_TIME)]
    seeds: Option<Seeds>,
    /// With --clock virtual: seconds on the wall after which the others go on without a PE that does not come back to the
    /// library, because it spins on memory, sleeps in the kernel or computes; or never. It is named with its line, and another
    /// run may differ [default: 30]
    #[arg(hide_short_help = true, long, value_name = "SECONDS|never", help_heading = VIRTUAL_TIME)]
    patience: Option<Patience>,
    /// With --clock virtual: exit with status 1 if another run may differ, because the others went on without a PE, or if times
    /// rest on a guess; the run says at its end why
    #[arg(hide_short_help = true, long, help_heading = VIRTUAL_TIME)]
    strict: bool,
    /// Prefix each line of output with its PE
    #[arg(long, help_heading = OUTPUT)]
    label: bool,
    /// End the job after this time, and say who waits for what
    ///
    /// In seconds, or with a unit, such as 2m. The message says what each PE waits for.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Find wrong calls, or races
    ///
    /// Look closer, slowly. `calls`: at what the program passes to the library, and end it with a message about the first
    /// mistake: memory that is not allocated, overlapping ranges, collectives called differently by different PEs. `races`:
    /// at accesses of PEs to the same memory that nothing puts in order, when the job has ended.
    #[arg(
        long, value_name = "calls|races", value_parser = word::<Check>(), value_delimiter = ',', num_args = 0..=1, require_equals = true,
        default_missing_value = "calls", help_heading = DEBUGGING
    )]
    check: Vec<Check>,
    /// Write traffic to this file, for `angara report`
    ///
    /// The file has placement, PE×PE traffic and link traffic. It is compressed if the name ends in .gz; a large one gets
    /// that ending.
    #[arg(long, value_name = "FILE.json[.gz]", help_heading = OUTPUT, value_parser = out_file())]
    report: Option<PathBuf>,
    /// With --report: also write what each link carried, by time; `angara report FILE --html PAGE` plays it
    #[arg(hide_short_help = true, long, help_heading = OUTPUT)]
    history: bool,
    /// Write a timeline of every call to this file
    ///
    /// Perfetto and chrome://tracing show it, and `angara trace summary FILE` sums it up; compressed if the name ends in .gz.
    #[arg(long, value_name = "FILE.json[.gz]", help_heading = OUTPUT, value_parser = out_file())]
    trace: Option<PathBuf>,
    /// With --trace: add tracks of the load of the links that carry most, N of them [default N: 16]; the links of the
    /// daemon are looked at up to 10 times a second
    #[arg(hide_short_help = true, long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16", requires = "trace",
          value_parser = whole(1..=LINK_TRACKS_MAX), help_heading = OUTPUT)]
    trace_links: Option<u32>,
    /// Write every packet to this file, for Wireshark
    ///
    /// Everything goes through the emulated network (--path ring).
    #[arg(long, value_name = "FILE.pcapng", help_heading = OUTPUT)]
    capture: Option<PathBuf>,
    /// Serve a page that shows the network at work
    ///
    /// Its URL is printed. The page stays after the program until Ctrl-C. A daemon that has a page shows its own [default ADDR:
    /// 127.0.0.1:8290; port 0 is any that is free].
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:8290",
          help_heading = OUTPUT)]
    web: Option<String>,
    /// Whether the page of --web stays after the program
    #[arg(hide_short_help = true, long, value_name = "YES|NO", value_parser = word::<Stay>(), default_value = "yes", requires = "web", help_heading = OUTPUT)]
    web_stay: Stay,
    /// Set a variable for the PEs; may be repeated
    #[arg(short = 'x', value_name = "VAR=VAL", value_parser = assignment)]
    env: Vec<(OsString, OsString)>,
    /// Use the daemon that listens in this directory, and no other
    #[arg(hide_short_help = true, long, value_name = "DIR", help_heading = NETWORK)]
    runtime_dir: Option<PathBuf>,
    /// Run on the cluster of this file
    ///
    /// The daemon of this host starts the job.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["network", "machine", "set"], help_heading = NETWORK)]
    cluster: Option<PathBuf>,
    /// Say nothing about what is started
    ///
    /// Errors are still reported.
    #[arg(short, long)]
    quiet: bool,
    /// Program and its arguments
    #[arg(value_name = "PROG [ARGS]", required = true, trailing_var_arg = true, allow_hyphen_values = true,
          value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

impl From<RunArgs> for Options {
    fn from(args: RunArgs) -> Options {
        Options {
            pes: args.pes,
            torus: args.torus,
            mesh: args.mesh,
            machine: args.machine,
            set: args.set,
            ppn: args.ppn,
            map: args.map,
            alloc: args.alloc,
            bind: args.bind,
            path: args.path,
            collectives: args.collectives,
            collectives_table: args.collectives_table,
            barrier: args.barrier,
            mpi: args.mpi,
            heap: args.heap,
            heterogeneous: args.heterogeneous,
            faults: args.faults,
            wrap: args.wrap,
            debug: args.debug,
            clock: args.clock,
            pes_as: args.pes_as,
            record: args.record,
            call_cost: args.call_cost,
            compute: args.compute,
            virtual_tsc: args.virtual_tsc,
            seed: args.seed,
            seeds: args.seeds,
            patience: args.patience,
            strict: args.strict,
            label: args.label,
            timeout: args.timeout,
            check: args.check,
            report: args.report,
            history: args.history,
            trace: args.trace,
            trace_links: args.trace_links,
            capture: args.capture,
            web: args.web,
            web_stay: args.web_stay,
            env: args.env,
            runtime_dir: args.runtime_dir,
            cluster: args.cluster,
            quiet: args.quiet,
            command: args.command,
        }
    }
}

/// Reads the value of `--torus`.
pub fn torus(s: &str) -> Result<Shape, String> {
    let shape: Shape = s.parse().map_err(|e: angara_net::torus::ShapeError| e.to_string())?;
    if shape.is_torus() { Ok(shape) } else { Err("this is a mesh; use --mesh".into()) }
}

/// Reads the value of `--mesh`.
pub fn mesh(s: &str) -> Result<Shape, String> {
    let sizes = s.strip_prefix("mesh:").unwrap_or(s);
    format!("mesh:{sizes}").parse().map_err(|e: angara_net::torus::ShapeError| e.to_string())
}

/// Reads the value of `--path`.
pub fn path(s: &str) -> Result<EnginePath, String> {
    spelt(s, "auto, direct or ring")
}
fn alloc(s: &str) -> Result<Alloc, String> {
    spelt(s, "auto, utilisation, fragmentation, closed, first-fit-box or best-fit-box")
}
fn collectives(s: &str) -> Result<Collectives, String> {
    spelt(s, "auto, tree or p2p")
}
fn barrier(s: &str) -> Result<Barrier, String> {
    spelt(s, "auto, multiphase, all-to-all, tree, hypercube, master, counting, counter or dissemination")
}

/// Reads a word the way the messages spell it.
fn spelt<T: for<'a> Deserialize<'a>>(s: &str, known: &str) -> Result<T, String> {
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

/// Runs a program, once or with many seeds. `line` is the whole command line.
pub(crate) fn start(args: RunArgs, line: &[OsString]) -> Result<u8, Failed> {
    let options = Options::from(args);
    let Some(seeds) = options.seeds else { return run::main(options) };
    run::check(&options)?;
    seeds::main(seeds, line, options.quiet)
}

/// Says what had no effect.
pub(crate) fn say(notes: &[String], args: &RunArgs) {
    if !args.quiet {
        notes.iter().for_each(|note| angara_protocol::complain!("angara: {note}"));
    }
}

/// Shows what is wrong with what stands before a program.
pub fn say_misread(e: Misread) -> Result<u8, Failed> {
    match e {
        Misread::Unknown(e) => say_usage(&e),
        Misread::Other(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn times() {
        assert_eq!(["0.5", "500ms"].map(seconds), [Ok(Duration::from_millis(500)), Ok(Duration::from_millis(500))]);
        assert_eq!(seconds("2m"), Ok(Duration::from_secs(120)));
        assert!(seconds("0").is_err() && seconds("x").is_err() && seconds("inf").is_err());
    }
}
