//! `angara bench shmem`: this OpenSHMEM library beside others, in alternating runs.
//!
//! One C program (`examples/c/bench_shmem.c`) measures everything there is to measure; this
//! command compiles it with the `oshcc` of each library and runs it under each library in turn,
//! again and again, so that whatever disturbs the machine disturbs all of them alike. The figures
//! are put together by [`super::compare`].

use super::compare::{Outcome, Results};
use super::pair::Pair;
use super::tune;
use super::{run, write};
use angara_cli::shared::WhereArgs;
use angara_control::error::{Failed, say};
use angara_control::install;
use angara_launch::example::{self, Temporary};
use angara_net::units::whole;
use clap::Args;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The program that measures, below `examples`.
const PROGRAM: &str = "c/bench_shmem.c";
/// The path between daemons.
const UDP: &str = "udp";
/// The path through the emulated adapters.
const RING: &str = "ring";
/// Symmetric heap of each PE, for every library.
pub(super) const HEAP: &str = "32M";
/// The same where transfers of up to 256 MiB are asked for.
const LARGE_HEAP: &str = "1200M";

/// The heap for these arguments of the program.
fn heap(args: &[String]) -> &'static str {
    let is_large = |word: &String| ["16 MiB", "64 MiB", "256 MiB"].iter().any(|size| word.contains(size));
    if args.iter().skip(1).any(is_large) { LARGE_HEAP } else { HEAP }
}

/// Arguments of `angara bench shmem`.
#[derive(Args)]
pub(crate) struct ShmemArgs {
    /// Compare with another library: its name, compiler wrapper and launcher, and options of the
    /// launcher if it needs some. May be given several times; goals are ratios to the first one.
    /// Example: 'oshmem=/usr/bin/oshcc,/usr/bin/oshrun,--oversubscribe --mca osc ucx'
    #[arg(long = "peer", value_name = "NAME=OSHCC,OSHRUN[,ARGS]")]
    peers: Vec<Peer>,
    /// Numbers of PEs
    #[arg(long, value_delimiter = ',', value_name = "N,N...", default_value = "2,4,8,64",
          value_parser = whole::<u32>(2..=1024))]
    pub(super) pes: Vec<u32>,
    /// Paths of our own library to measure; ratios are those of the first one. `udp`: half of the PEs each on two daemons
    /// that are started for it, with UDP over loopback between them; its first two peers should use TCP
    #[arg(long, value_delimiter = ',', value_name = "PATH,PATH", default_value = "direct,ring",
          value_parser = ["direct", RING, UDP])]
    pub(super) path: Vec<String>,
    /// Runs of each library and number of PEs
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = whole::<u32>(1..=1000))]
    pub(super) repeat: u32,
    /// Time for each quantity in a run
    #[arg(long, default_value_t = 10, value_name = "MS", value_parser = whole::<u32>(1..=10_000))]
    pub(super) time: u32,
    /// Only quantities whose name contains one of these words, such as `barrier,sum 8`
    #[arg(long, value_delimiter = ',', value_name = "WORD,WORD")]
    only: Vec<String>,
    /// Measure a put with its quiet on the ring path beside another job, of which K PEs transfer without end
    #[arg(long, value_delimiter = ',', value_name = "K,K...", value_parser = whole::<u32>(1..=512))]
    beside: Vec<u32>,
    /// A run that takes longer than this counts as not done
    #[arg(long, default_value_t = 60, value_name = "S", value_parser = whole::<u64>(1..=3600))]
    pub(super) limit: u64,
    /// Measure the algorithms of the collectives instead, and write a table of the fastest ones to a file, for
    /// `angara run --collectives-table FILE`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["peers", "only", "beside", "json"])]
    write_table: Option<PathBuf>,
    /// Write every sample to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// In a source checkout: have cargo bring daemon, library and compiler wrapper up to date first
    #[arg(long)]
    build: bool,
    #[command(flatten)]
    at: WhereArgs,
}

/// Another library, as given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Peer {
    name: String,
    oshcc: PathBuf,
    oshrun: PathBuf,
    args: Vec<OsString>,
}

impl std::str::FromStr for Peer {
    type Err = String;
    fn from_str(text: &str) -> Result<Peer, String> {
        let bad = || format!("`{text}` is not NAME=OSHCC,OSHRUN[,ARGS]; write oshmem=/usr/bin/oshcc,/usr/bin/oshrun");
        let (name, tools) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(bad)?;
        let mut tools = tools.splitn(3, ',');
        let mut tool = || tools.next().filter(|t| !t.is_empty()).ok_or_else(bad);
        let (oshcc, oshrun) = (tool()?.into(), tool()?.into());
        let args = tools.next().unwrap_or_default().split_whitespace().map(OsString::from).collect();
        Ok(Peer { name: name.into(), oshcc, oshrun, args })
    }
}

/// A library ready to run the program.
pub(super) struct Library {
    name: String,
    /// Launcher with its options, the number of PEs excepted.
    pub(super) launch: Vec<OsString>,
    /// By number of PEs, the daemons it runs on, if not those of everybody.
    pairs: BTreeMap<u32, Pair>,
    program: PathBuf,
}

impl Library {
    pub(super) fn ours(bin: &Path, program: &Path, path: &str, at: &WhereArgs) -> Library {
        let mut launch = vec![bin.join("angara").into_os_string()];
        launch.extend(["run", "-q"].map(OsString::from));
        if path != UDP {
            launch.extend(["--path", path].map(OsString::from));
            launch.extend(at.to_args());
        }
        Library { name: path.into(), launch, pairs: BTreeMap::new(), program: program.into() }
    }

    /// Starts the daemons that measuring needs.
    fn prepare(mut self, bin: &Path, pes: &[u32]) -> Result<Library, Failed> {
        if self.name == UDP {
            let fabricd = install::fabricd()?;
            for &n in pes {
                self.pairs.insert(n, Pair::start(bin, &fabricd, n)?);
            }
        }
        Ok(self)
    }

    fn peer(peer: &Peer, source: &Path, dir: &Path) -> Result<Library, Failed> {
        let program = dir.join(&peer.name);
        let shown = peer.oshcc.display();
        let done = Command::new(&peer.oshcc).args(["-O2", "-w", "-o"]).arg(&program).arg(source).status();
        let done = done.map_err(|e| {
            Failed::usage(format!("cannot start {shown}: {e}"), format!("give the path of {}'s oshcc", peer.name))
        })?;
        if !done.success() {
            return Err(Failed::runtime(format!("{shown} failed ({done})"), "see its messages above"));
        }
        let mut launch = vec![peer.oshrun.clone().into_os_string()];
        launch.extend(peer.args.iter().cloned());
        Ok(Library { name: peer.name.clone(), launch, pairs: BTreeMap::new(), program })
    }

    /// One run: what it printed, and how long it took from launch to exit; or why it is not done.
    pub(super) fn run(&self, pes: u32, args: &[String], limit: Duration) -> Result<(String, Duration), String> {
        let mut command = Command::new(&self.launch[0]);
        command
            .args(&self.launch[1..])
            .args(self.pairs.get(&pes).map(Pair::to_args).unwrap_or_default())
            .args(["-np", &pes.to_string()])
            .arg(&self.program)
            .args(args)
            .env("SHMEM_SYMMETRIC_SIZE", heap(args))
            // As Open MPI calls it.
            .env("SHMEM_SYMMETRIC_HEAP_SIZE", heap(args));
        run::run(command, limit)
    }
}

/// Measures and shows.
pub(crate) fn main(args: ShmemArgs) -> Result<u8, Failed> {
    let bin = install::bin_dir()?;
    example::prepare(&bin, args.build)?;
    let source = example::find(&bin, PROGRAM)?;
    let temporary = Temporary::new("bench")?;
    let program = temporary.0.join("angara");
    example::compile(&bin, &source, &program)?;
    if let Some(file) = &args.write_table {
        let list: Vec<String> = args.pes.iter().map(u32::to_string).collect();
        let command = format!(
            "angara bench shmem --write-table FILE --pes {} --repeat {} --time {}",
            list.join(","),
            args.repeat,
            args.time
        );
        let text = tune::table(&args, &|path| Library::ours(&bin, &program, path, &args.at), &temporary.0, &command)?;
        return write(file, &text).map(|()| 0);
    }
    let ours = args.path.iter().map(|p| Library::ours(&bin, &program, p, &args.at).prepare(&bin, &args.pes));
    let mut libraries = ours.collect::<Result<Vec<Library>, Failed>>()?;
    for peer in &args.peers {
        if libraries.iter().any(|l| l.name == peer.name) {
            let remedy = "give every --peer a name of its own";
            return Err(Failed::usage(format!("two libraries are called `{}`", peer.name), remedy));
        }
        libraries.push(Library::peer(peer, &source, &temporary.0)?);
    }
    let names = libraries.iter().map(|l| l.name.clone()).collect();
    let mut results = Results::new(names, args.path.len());
    for round in 1..=args.repeat {
        for &pes in &args.pes {
            angara_protocol::complain!("angara: run {round} of {}, {pes} PEs", args.repeat);
            for (i, library) in libraries.iter().enumerate() {
                once(&args, library, i, pes, &mut results);
                if library.name == UDP && pes == 2 {
                    results.add(i, pes, &super::pair::floors()?);
                }
                if library.name == RING && pes == 2 {
                    beside(&args, &bin, library, i, &mut results)?;
                }
            }
            if results.is_empty() {
                let what = format!("--only is {}: no quantity has this in its name", args.only.join(","));
                return Err(Failed::usage(what, "run `angara bench shmem --repeat 1 --time 1` to see the names"));
            }
        }
    }
    let shown = say!("{}", results.render(args.repeat));
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&results.json(args.repeat)).expect("plain values are JSON");
        // What was measured is not lost with the output.
        write(file, &(text + "\n"))?;
    }
    shown.map(|()| 0)
}

/// One library's runs of a round: start-up alone, then everything.
fn once(args: &ShmemArgs, library: &Library, index: usize, pes: u32, results: &mut Results) {
    if results.failed(index, pes) {
        return;
    }
    let limit = Duration::from_secs(args.limit);
    let startup = |word: &String| "init finalize launch to exit".contains(word.as_str());
    if args.only.is_empty() || args.only.iter().any(startup) {
        match library.run(pes, &["0".into()], limit) {
            Ok((text, took)) => {
                results.add(index, pes, &text);
                results.add(index, pes, &format!("sample ms {} launch to exit", took.as_secs_f64() * 1e3));
            }
            Err(why) => return results.fail(index, pes, Outcome { what: "start-up", why }),
        }
    }
    let words: Vec<String> = std::iter::once(args.time.to_string()).chain(args.only.iter().cloned()).collect();
    match library.run(pes, &words, limit) {
        Ok((text, _)) => results.add(index, pes, &text),
        Err(why) => results.fail(index, pes, Outcome { what: "the benchmark", why }),
    }
}

/// A pair of PEs beside other jobs that transfer.
fn beside(args: &ShmemArgs, bin: &Path, library: &Library, index: usize, results: &mut Results) -> Result<(), Failed> {
    let (fabricd, limit) = (install::fabricd()?, Duration::from_secs(args.limit));
    for &streams in &args.beside {
        if results.failed(index, 2) {
            break;
        }
        match super::beside::measure(bin, &fabricd, &library.program, streams, args.time, limit) {
            Ok(text) => results.add(index, 2, &text),
            Err(why) => results.fail(index, 2, Outcome { what: "beside another job", why }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_name_two_programs_and_options() {
        let peer: Peer = "oshmem=/usr/bin/oshcc,/usr/bin/oshrun,--oversubscribe --mca osc ucx".parse().unwrap();
        assert_eq!((peer.name.as_str(), peer.oshcc.to_str()), ("oshmem", Some("/usr/bin/oshcc")));
        assert_eq!(peer.args, ["--oversubscribe", "--mca", "osc", "ucx"].map(OsString::from));
        assert_eq!("x=a,b".parse::<Peer>().unwrap().args.len(), 0);
        for bad in ["", "x", "=a,b", "x=a", "x=,b", "x=a,"] {
            assert!(bad.parse::<Peer>().unwrap_err().contains("NAME=OSHCC"), "{bad}");
        }
    }

    fn shell(script: &str) -> Library {
        // The script sees the number of PEs as $2.
        let launch = ["/bin/sh", "-c", script].map(OsString::from).to_vec();
        Library { name: "shell".into(), launch, pairs: BTreeMap::new(), program: "program".into() }
    }

    #[test]
    fn a_run_that_hangs_or_fails_says_so_and_leaves_nothing() {
        let limit = Duration::from_secs(1);
        let (text, _) = shell("echo n=$1; echo noise >&2").run(3, &[], Duration::from_secs(60)).unwrap();
        assert_eq!(text, "n=3\n");
        assert_eq!(shell("sleep 1000 & wait").run(2, &[], limit).unwrap_err(), "not done after 1 s");
        let failed = shell("echo broken >&2; exit 3").run(2, &[], Duration::from_secs(60)).unwrap_err();
        assert!(failed.contains('3') && failed.contains("broken"), "{failed}");
    }
}
