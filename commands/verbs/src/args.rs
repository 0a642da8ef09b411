//! Options, and what they ask for.

use crate::environment::{self, Environment, LinkLayer, Memory};
use angara_cli::run::{mesh, path, torus};
use angara_cli::shared::word;
use angara_control::error::Failed;
use angara_launch::run::options::Options;
use angara_launch::run::plan::network::Network;
use angara_machine::Machine;
use angara_net::torus::Shape;
use angara_protocol::msg::Path as EnginePath;
use angara_protocol::verbs::{DOMAIN, NAME};
use clap::{Args, ValueHint};
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
    /// A machine: desmos, angara-k1, bluegene-p, gemini, tpu-v4, tpu-v5p, or a file of shape and times as `angara machine desmos` prints one;
    /// --torus or --mesh gives it another shape
    #[arg(long, value_name = "NAME|FILE.toml", value_parser = Machine::named, help_heading = NETWORK)]
    machine: Option<Machine>,
    /// Change values of the machine, such as link=15GB/s,hop=60ns; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = NETWORK)]
    set: Vec<String>,
    /// Break or impair links and nodes, as for `angara run`; may be repeated
    #[arg(long = "fault", value_name = "FAULT", help_heading = NETWORK)]
    pub(super) faults: Vec<String>,
    /// How data moves: direct (stores into the target's memory), ring (through the emulated adapters and links) or auto
    #[arg(long, value_name = "PATH", default_value = "auto", value_parser = path, help_heading = NETWORK)]
    pub(super) path: EnginePath,
    /// Use the daemon that listens in this directory, instead of one that lasts as long as COMMAND
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = NETWORK)]
    pub(super) runtime_dir: Option<PathBuf>,
    /// Name of the domain; processes of another one are not reached
    #[arg(long, value_name = "NAME", default_value = DOMAIN, value_parser = environment::domain, help_heading = NETWORK)]
    domain: String,
    /// Number of the node where every process has its adapter [default: each gets a node with free seats]
    #[arg(long, value_name = "N", conflicts_with = "nodes", help_heading = ADAPTERS)]
    node: Option<u32>,
    /// Numbers of nodes, such as 0,5: every process has an adapter at each of them
    #[arg(long, value_name = "N,…", value_delimiter = ',', help_heading = ADAPTERS)]
    nodes: Vec<u32>,
    /// Name of the first device; the others count on from the number at its end, or from 1
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
    pub(super) env: bool,
    /// Say what is started; processes say how they reach memory
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Command and its arguments [default: a shell]
    #[arg(value_name = "COMMAND", trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub(super) command: Vec<OsString>,
}

impl VerbsArgs {
    /// Refuses options that contradict each other.
    pub(super) fn check(&self) -> Result<(), Failed> {
        let own = [
            (self.torus.is_some(), "--torus"),
            (self.mesh.is_some(), "--mesh"),
            (self.machine.is_some(), "--machine"),
            (!self.set.is_empty(), "--set"),
            (!self.faults.is_empty(), "--fault"),
        ];
        let own = own.into_iter().find_map(|(given, option)| given.then_some(option));
        match (own, &self.command.first()) {
            (Some(option), _) if self.env => Err(Failed::usage(
                format!("{option} is for a daemon that is started, and --env starts none"),
                format!("leave {option} out; the daemon's own options decide: `fabricd --help`, `angara fault --help`"),
            )),
            (Some(option), _) if self.runtime_dir.is_some() => Err(Failed::usage(
                format!("{option} is for a daemon that is started, and --runtime-dir names one that runs already"),
                format!("leave --runtime-dir out, or {option}; `angara fault` breaks links of a running daemon"),
            )),
            (_, Some(command)) if self.env => Err(Failed::usage(
                format!("--env starts nothing, and `{}` is to be started", command.display()),
                "leave --env or the command out",
            )),
            _ => Ok(()),
        }
    }

    /// The network that they ask for.
    pub(super) fn network(&mut self) -> Result<Network, Failed> {
        let options = Options {
            torus: self.torus,
            mesh: self.mesh,
            machine: self.machine.take(),
            set: std::mem::take(&mut self.set),
            faults: self.faults.clone(),
            path: self.path,
            ..Options::new(1, Vec::new())
        };
        let network = Network::of(&options, USUAL.parse().expect("a shape"))?;
        if self.memory == Memory::Direct && network.path == EnginePath::Ring {
            return Err(Failed::usage(
                "--memory direct has processes copy from and to each other, and --path ring sends everything through the network",
                "leave one of them out",
            ));
        }
        Ok(network)
    }

    /// The variables for processes that use the daemon in `dir`.
    pub(super) fn environment<'a>(&'a self, path: EnginePath, library: &'a Path, dir: &'a Path) -> Environment<'a> {
        Environment {
            library,
            dir,
            domain: &self.domain,
            path,
            nodes: self.node.iter().chain(&self.nodes).copied().collect(),
            name: &self.name,
            link: self.link_layer,
            memory: self.memory,
            verbose: self.verbose,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: VerbsArgs,
    }

    fn read(words: &[&str]) -> Result<VerbsArgs, String> {
        let line = std::iter::once(&"verbs").chain(words);
        Line::try_parse_from(line).map(|line| line.args).map_err(|e| e.to_string())
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
        ] {
            let e = read(line).unwrap().check().expect_err("refused");
            assert!(e.message.contains(parts[0]) && e.remedy.contains(parts[1]) && e.code == 2, "{line:?}: {e:?}");
        }
        let ring = ["--memory", "direct", "--path", "ring"];
        assert!(read(&ring).unwrap().network().unwrap_err().message.contains("--path ring sends everything"));
        for line in [&["--node", "1", "--nodes", "2"][..], &["--torus", "2", "--mesh", "2"], &["--memory", "fast"]] {
            assert!(read(line).is_err(), "{line:?}");
        }
    }
}
