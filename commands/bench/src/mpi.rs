//! `angara bench mpi`: an MPI library on this network, beside the same library on others, in alternating runs.
//!
//! One program (`examples/mpi/bench_mpi.c`) is compiled once, with the `mpicc` of the library. `angara run` starts it for our
//! paths; for a peer the library's own `mpiexec` does, with the environment that makes it use another network. So only
//! the network differs.

use super::compare::{Outcome, Results};
use super::{run, write};
use angara_cli::shared::WhereArgs;
use angara_control::error::{Failed, say};
use angara_control::install;
use angara_launch::example::{self, Temporary};
use angara_net::units::whole;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The program that measures, below `examples`.
const PROGRAM: &str = "mpi/bench_mpi.c";

/// Arguments of `angara bench mpi`.
#[derive(Args)]
pub(crate) struct MpiArgs {
    /// Compiler wrapper of the MPI library
    #[arg(long, value_name = "FILE", default_value = "mpicc")]
    mpicc: PathBuf,
    /// Its launcher, for peers [default: the mpiexec beside mpicc]
    #[arg(long, value_name = "FILE")]
    mpiexec: Option<PathBuf>,
    /// Compare with the same library on another network: a name, and the environment that chooses it. May be given several
    /// times; goals are ratios to the first one. Example: 'shm=FI_PROVIDER=shm,MPIR_CVAR_CH4_NETMOD=ofi,MPIR_CVAR_NOLOCAL=1'
    #[arg(long = "peer", value_name = "NAME=VARIABLE=VALUE[,...]")]
    peers: Vec<Peer>,
    /// Further arguments of mpiexec, such as --oversubscribe
    #[arg(long, value_name = "ARGS", default_value = "", allow_hyphen_values = true)]
    mpiexec_args: String,
    /// Numbers of ranks
    #[arg(long, value_delimiter = ',', value_name = "N,N...", default_value = "2,8",
          value_parser = whole::<u32>(2..=1024))]
    pes: Vec<u32>,
    /// Paths of ours to measure; ratios are those of the first one
    #[arg(long, value_delimiter = ',', value_name = "PATH,PATH", default_value = "direct,ring",
          value_parser = ["direct", "ring"])]
    path: Vec<String>,
    /// Runs of each and number of ranks
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = whole::<u32>(1..=1000))]
    repeat: u32,
    /// Time for each quantity in a run
    #[arg(long, default_value_t = 10, value_name = "MS", value_parser = whole::<u32>(1..=10_000))]
    time: u32,
    /// A run that takes longer than this counts as not done
    #[arg(long, default_value_t = 60, value_name = "S", value_parser = whole::<u64>(1..=3600))]
    limit: u64,
    /// Write every sample to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// In a source checkout: have cargo bring daemon, library and compiler wrapper up to date first
    #[arg(long)]
    build: bool,
    #[command(flatten)]
    at: WhereArgs,
}

/// Another network, as given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Peer {
    name: String,
    environment: Vec<(String, String)>,
}

impl std::str::FromStr for Peer {
    type Err = String;
    fn from_str(text: &str) -> Result<Peer, String> {
        let bad = || format!("`{text}` is not NAME=VARIABLE=VALUE[,...]; write shm=FI_PROVIDER=shm");
        let (name, variables) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(bad)?;
        let pair = |word: &str| word.split_once('=').map(|(k, v)| (k.to_string(), v.to_string())).ok_or_else(bad);
        let environment = variables.split(',').filter(|w| !w.is_empty()).map(pair).collect::<Result<_, _>>()?;
        Ok(Peer { name: name.into(), environment })
    }
}

/// How a network is used.
struct Network {
    name: String,
    /// Launcher with its options, the number of ranks excepted.
    launch: Vec<std::ffi::OsString>,
    environment: Vec<(String, String)>,
}

impl Network {
    fn run(&self, program: &Path, ranks: u32, ms: u32, limit: Duration) -> Result<String, String> {
        let mut command = Command::new(&self.launch[0]);
        command.args(&self.launch[1..]).args(["-n", &ranks.to_string()]).arg(program).arg(ms.to_string());
        command.envs(self.environment.iter().cloned());
        run::run(command, limit).map(|(text, _)| text)
    }
}

fn networks(args: &MpiArgs, bin: &Path) -> Result<Vec<Network>, Failed> {
    let ours = |path: &String| {
        let mut launch = vec![bin.join("angara").into_os_string()];
        launch.extend(["run", "-q", "--path", path].map(Into::into));
        launch.extend(args.at.to_args());
        Network { name: path.clone(), launch, environment: Vec::new() }
    };
    let mpiexec = args.mpiexec.clone().unwrap_or_else(|| args.mpicc.with_file_name("mpiexec"));
    let theirs = |peer: &Peer| {
        let mut launch = vec![mpiexec.clone().into_os_string()];
        launch.extend(args.mpiexec_args.split_whitespace().map(Into::into));
        Network { name: peer.name.clone(), launch, environment: peer.environment.clone() }
    };
    let all: Vec<Network> = args.path.iter().map(ours).chain(args.peers.iter().map(theirs)).collect();
    match all.iter().enumerate().find(|(i, n)| all[..*i].iter().any(|other| other.name == n.name)) {
        Some((_, n)) => {
            Err(Failed::usage(format!("two networks are called `{}`", n.name), "give every --peer a name of its own"))
        }
        None => Ok(all),
    }
}

/// Measures and shows.
pub(crate) fn main(args: MpiArgs) -> Result<u8, Failed> {
    let bin = install::bin_dir()?;
    example::prepare(&bin, args.build)?;
    let source = example::find(&bin, PROGRAM)?;
    let temporary = Temporary::new("bench")?;
    let program = temporary.0.join("bench_mpi");
    let shown = args.mpicc.display();
    let done = Command::new(&args.mpicc).args(["-O2", "-o"]).arg(&program).arg(&source).arg("-lpthread").status();
    let done = done.map_err(|e| {
        Failed::usage(format!("cannot start {shown}: {e}"), "give the compiler wrapper of an MPI library by --mpicc")
    })?;
    if !done.success() {
        return Err(Failed::runtime(format!("{shown} failed ({done})"), "see its messages above"));
    }
    let networks = networks(&args, &bin)?;
    let mut results = Results::new(networks.iter().map(|n| n.name.clone()).collect(), args.path.len());
    for round in 1..=args.repeat {
        for &ranks in &args.pes {
            angara_protocol::complain!("angara: run {round} of {}, {ranks} ranks", args.repeat);
            for (i, network) in networks.iter().enumerate() {
                if results.failed(i, ranks) {
                    continue;
                }
                match network.run(&program, ranks, args.time, Duration::from_secs(args.limit)) {
                    Ok(text) => results.add(i, ranks, &text),
                    Err(why) => results.fail(i, ranks, Outcome { what: "the benchmark", why }),
                }
            }
        }
    }
    say!("{}", results.render(args.repeat))?;
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&results.json(args.repeat)).expect("plain values are JSON");
        write(file, &(text + "\n"))?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_name_and_an_environment() {
        let peer: Peer = "shm=FI_PROVIDER=shm,MPIR_CVAR_NOLOCAL=1".parse().expect("well formed");
        let both = [("FI_PROVIDER", "shm"), ("MPIR_CVAR_NOLOCAL", "1")].map(|(k, v)| (k.to_string(), v.to_string()));
        assert_eq!((peer.name.as_str(), peer.environment), ("shm", both.to_vec()));
        assert_eq!("own=".parse::<Peer>().expect("as it comes").environment, Vec::new());
        for bad in ["shm", "=A=1", "shm=A"] {
            assert!(bad.parse::<Peer>().expect_err("refused").contains("NAME="), "{bad}");
        }
    }
}
