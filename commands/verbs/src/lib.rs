//! `angara verbs`: unmodified RDMA programs on emulated adapters.
//!
//! A library of ours is put before libibverbs in each process that the command starts, by the loader, which reads it from the
//! variables of [`environment`]. [`program`] looks at whether a program's loader will do that. [`session`] has the daemon that
//! the adapters belong to, and waits for the command.
#![forbid(unsafe_code)]

mod environment;
mod program;
mod session;

use angara_cli::run::{mesh, path, torus};
use angara_cli::shared::beside::VERBS;
use angara_cli::shared::word;
use angara_control::daemon::{Control, block_on, runtime_dir};
use angara_control::error::{Failed, print};
use angara_control::install;
use angara_launch::run::options::Options;
use angara_launch::run::plan::network::Network;
use angara_machine::Machine;
use angara_net::torus::Shape;
use angara_protocol::msg::Path as EnginePath;
use angara_protocol::verbs::{DOMAIN, NAME};
use clap::{Args, Parser, ValueHint};
use environment::{Environment, LinkLayer, Memory};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The network unless the user says otherwise.
const USUAL: &str = "2x2x2";

const NETWORK: &str = "Network";
const ADAPTERS: &str = "Adapters";

const AFTER_HELP: &str = "\
Each process of COMMAND that opens a device gets an emulated adapter at a node of the torus. Those of one domain reach each \
other. Without COMMAND a shell is started, and network and adapters last until it ends.

EXIT STATUS: that of COMMAND, 128+N if signal N killed it, 126 or 127 if it cannot be executed or found, 2 for wrong usage, 1 if \
it could not be run.

EXAMPLES:
  angara verbs --path ring -- sh -c 'ibv_rc_pingpong & sleep 1; ibv_rc_pingpong localhost'
  angara verbs --nodes 0,7 -- ibv_devinfo
  angara verbs --torus 4x4 --name mlx5_0
  eval $(angara verbs --env --runtime-dir /tmp/torus)";

/// The subcommand as `angara` has it.
#[derive(Parser)]
#[command(name = "angara", version, propagate_version = true, arg_required_else_help = true)]
pub enum Commands {
    /// `angara verbs`.
    #[command(about = VERBS.about)]
    Verbs(VerbsArgs),
}

/// Entry of the program. Never returns.
pub fn main() -> ! {
    angara_cli::shared::enter(VERBS, |Commands::Verbs(args)| start(args))
}

/// Arguments of `angara verbs`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct VerbsArgs {
    /// Torus of a daemon of its own [default: 2x2x2]
    #[arg(long, value_name = "SHAPE", value_parser = torus, group = "network", help_heading = NETWORK)]
    torus: Option<Shape>,
    /// Mesh (no wrap-around links) of such a daemon, such as 4x4
    #[arg(long, value_name = "SHAPE", value_parser = mesh, group = "network", help_heading = NETWORK)]
    mesh: Option<Shape>,
    /// A machine: desmos (4x2x2x2), angara-k1 (3x3x4), or a file of shape and times as `angara machine desmos` prints one;
    /// --torus or --mesh gives it another shape
    #[arg(long, value_name = "NAME|FILE.toml", value_parser = Machine::named, help_heading = NETWORK)]
    machine: Option<Machine>,
    /// Change values of the machine, such as link=15GB/s,hop=60ns; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = NETWORK)]
    set: Vec<String>,
    /// Break or impair links and nodes, as for `angara run`; may be repeated
    #[arg(long = "fault", value_name = "FAULT", help_heading = NETWORK)]
    faults: Vec<String>,
    /// How data moves: direct (stores into the target's memory), ring (through the emulated adapters and links) or auto
    #[arg(long, value_name = "PATH", default_value = "auto", value_parser = path, help_heading = NETWORK)]
    path: EnginePath,
    /// Use the daemon that listens in this directory, instead of one that lasts as long as COMMAND
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = NETWORK)]
    runtime_dir: Option<PathBuf>,
    /// Name of the domain; processes of another one are not reached
    #[arg(long, value_name = "NAME", default_value = DOMAIN, value_parser = environment::domain, help_heading = NETWORK)]
    domain: String,
    /// Number of the node where every process has its adapter [default: each gets a node with free seats]
    #[arg(long, value_name = "N", conflicts_with = "nodes", help_heading = ADAPTERS)]
    node: Option<u32>,
    /// Numbers of nodes, such as 0,5: every process has an adapter at each of them
    #[arg(long, value_name = "N,…", value_delimiter = ',', help_heading = ADAPTERS)]
    nodes: Vec<u32>,
    /// Name of the first device; the others count on from the number at its end
    #[arg(long, value_name = "NAME", default_value = NAME, value_parser = environment::device, help_heading = ADAPTERS)]
    name: String,
    /// What ports say they are
    #[arg(long, value_name = "LAYER", value_parser = word::<LinkLayer>(), default_value_t = LinkLayer::Infiniband,
          help_heading = ADAPTERS)]
    link_layer: LinkLayer,
    /// How data gets into and out of the memory of a process that has registered it
    #[arg(long, value_name = "HOW", value_parser = word::<Memory>(), default_value_t = Memory::Auto, help_heading = ADAPTERS)]
    memory: Memory,
    /// Start nothing: print what has later programs of this shell join a daemon that is there; eval reads it
    #[arg(long)]
    env: bool,
    /// Say what is started; processes say how they reach memory
    #[arg(short, long)]
    verbose: bool,
    /// Command and its arguments [default: a shell]
    #[arg(value_name = "COMMAND", trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// What the command does.
fn start(mut args: VerbsArgs) -> Result<u8, Failed> {
    check(&args)?;
    let network = network(&mut args)?;
    let library = install::verbs_library()?;
    if args.env {
        return print_environment(&args, network.path, &library);
    }
    let program = program::find(&args.command)?;
    session::run(&args, &network, &library, &program)
}

/// Refuses options that contradict each other.
fn check(args: &VerbsArgs) -> Result<(), Failed> {
    environment::names(&args.name, args.nodes.len())?;
    let own = [
        (args.torus.is_some(), "--torus"),
        (args.mesh.is_some(), "--mesh"),
        (args.machine.is_some(), "--machine"),
        (!args.set.is_empty(), "--set"),
        (!args.faults.is_empty(), "--fault"),
    ];
    let own = own.into_iter().find_map(|(given, option)| given.then_some(option));
    match (own, &args.command.first()) {
        (Some(option), _) if args.env => Err(Failed::usage(
            format!("{option} is for a daemon that is started, and --env starts none"),
            format!("leave {option} out; the daemon's own options decide: `fabricd --help`, `angara fault --help`"),
        )),
        (Some(option), _) if args.runtime_dir.is_some() => Err(Failed::usage(
            format!("{option} is for a daemon that is started, and --runtime-dir names one that runs already"),
            format!("leave --runtime-dir out, or {option}; `angara fault` breaks links of a running daemon"),
        )),
        (_, Some(command)) if args.env => Err(Failed::usage(
            format!("--env starts nothing, and `{}` is to be started", command.display()),
            "leave --env or the command out",
        )),
        _ => Ok(()),
    }
}

fn network(args: &mut VerbsArgs) -> Result<Network, Failed> {
    let options = Options {
        torus: args.torus,
        mesh: args.mesh,
        machine: args.machine.take(),
        set: std::mem::take(&mut args.set),
        faults: args.faults.clone(),
        path: args.path,
        ..Options::new(1, Vec::new())
    };
    Network::of(&options, USUAL.parse().expect("a shape"))
}

/// The variables for processes that use the daemon in `dir`.
fn environment<'a>(args: &'a VerbsArgs, path: EnginePath, library: &'a Path, dir: &'a Path) -> Environment<'a> {
    Environment {
        library,
        dir,
        domain: &args.domain,
        path,
        nodes: args.node.iter().chain(&args.nodes).copied().collect(),
        name: &args.name,
        link: args.link_layer,
        memory: args.memory,
        verbose: args.verbose,
    }
}

/// Prints what a shell has to read.
fn print_environment(args: &VerbsArgs, path: EnginePath, library: &Path) -> Result<u8, Failed> {
    let dir = session::absolute(&runtime_dir(&args.runtime_dir))?;
    let environment = environment(args, path, library, &dir);
    block_on(async {
        let status = Control::connect(&dir)?.status().await?;
        environment.fits(status.shape)
    })?;
    print(environment.for_a_shell(|name| std::env::var_os(name))?)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<VerbsArgs, String> {
        let line = ["angara", "verbs"].iter().chain(words);
        Commands::try_parse_from(line).map(|Commands::Verbs(args)| args).map_err(|e| e.to_string())
    }

    #[test]
    fn options_end_where_the_command_begins() {
        for line in [&["--node", "3", "--", "ibv_devinfo", "-v"][..], &["--node", "3", "ibv_devinfo", "-v"]] {
            let args = read(line).unwrap();
            assert_eq!((args.node, args.command), (Some(3), vec!["ibv_devinfo".into(), "-v".into()]), "{line:?}");
            assert!(!args.verbose, "{line:?}");
        }
        assert!(read(&["-v"]).unwrap().command.is_empty());
        let mistyped = read(&["--nodse", "3", "ibv_devinfo"]).err().expect("refused");
        assert!(mistyped.contains("'--nodes'"), "{mistyped}");
    }

    #[test]
    fn what_contradicts_is_refused_with_a_remedy() {
        for (line, parts) in [
            (&["--env", "--torus", "2"][..], ["--torus is for a daemon that is started", "leave --torus out"]),
            (&["--env", "--", "true"], ["`true` is to be started", "leave --env or the command out"]),
            (&["--runtime-dir", "/x", "--fault", "node 0 down"], ["--fault is for", "`angara fault`"]),
            (&["--nodes", "0,1", "--name", "hca"], ["`hca`", "--name hca0"]),
        ] {
            let e = check(&read(line).unwrap()).expect_err("refused");
            assert!(e.message.contains(parts[0]) && e.remedy.contains(parts[1]) && e.code == 2, "{line:?}: {e:?}");
        }
        for line in [&["--node", "1", "--nodes", "2"][..], &["--torus", "2", "--mesh", "2"], &["--memory", "fast"]] {
            assert!(read(line).is_err(), "{line:?}");
        }
    }
}
