//! The options of `fabricd`, from which its manual page and completions are made, too.

use clap::Parser;
use std::path::PathBuf;

/// Emulate the adapters of an Angara network and the torus between them
///
/// Programs are started on it with `angara run`; `angara status` shows what it does.
#[derive(Parser, Clone, Debug, Default)]
#[command(name = "fabricd", version, max_term_width = 100)]
#[command(after_help = "\
EXAMPLES:
  fabricd --torus 2x2x2
  fabricd --machine desmos --cores 1 --fault 'link 0,0,0,0 +X corrupt=1%'
  fabricd --config /etc/angara/fabricd.toml --check-config
  fabricd --cluster /etc/angara/cluster.toml --host node1
  fabricd --torus 4x4x4 --web 127.0.0.1:8290 --metrics 127.0.0.1:26291

CONFIG FILE: TOML with the long flags as keys, for example
  torus = \"4x2x2\"
  cores = \"1\"
  fault = [\"link 0,0,0 +X down @2s\"]

EXIT STATUS: 0 ended as asked, 1 failed while running, 2 bad usage or configuration,
3 another daemon already serves the runtime directory.")]
pub struct Args {
    /// Torus of 1 to 4 dimensions, such as 4x2x2
    #[arg(long, value_name = "SIZES", conflicts_with = "mesh")]
    pub torus: Option<String>,
    /// Mesh (no wrap-around links) of 1 to 4 dimensions, such as 4x4
    #[arg(long, value_name = "SIZES")]
    pub mesh: Option<String>,
    /// A machine: desmos, angara-k1, bluegene-p, gemini, tpu-v4, tpu-v5p, or a file of shape and times as `angara machine desmos` prints one;
    /// --torus or --mesh gives it another shape
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub machine: Option<String>,
    /// Change values of the machine, such as link=15GB/s,hop=60ns; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Nodes that PEs may be placed on, such as 0-3,7; the others only forward [default: all]
    #[arg(long, value_name = "LIST")]
    pub nodes: Option<String>,
    /// Be one host of the cluster in this file, which `angara cluster init` writes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["torus", "mesh", "machine", "set", "nodes"])]
    pub cluster: Option<PathBuf>,
    /// Which host of the cluster to be [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// How the socket to the other hosts is served: auto (what the kernel allows and what is faster), syscall or uring
    #[arg(long, value_name = "ENGINE")]
    pub udp_engine: Option<String>,
    /// Read these options from a TOML file; flags win
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory for sockets and the lock file [default: $ANGARA_RUNTIME_DIR, $XDG_RUNTIME_DIR/angara or /tmp/angara-UID]
    #[arg(long, value_name = "DIR")]
    pub runtime_dir: Option<PathBuf>,
    /// Cores the data plane thread may use, such as 1 or 2-3 [default: any]
    #[arg(long, value_name = "LIST")]
    pub cores: Option<String>,
    /// Seed of everything random in the network [default: 0]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// A fault, such as 'link 0,0,0 +X down', 'link 0,0,0 +X corrupt=1%' or 'node 1,0,0 down', each with an optional '@2ms'; may be given several times
    #[arg(long, value_name = "SPEC")]
    pub fault: Vec<String>,
    /// Most memory one job may reserve, such as 8G [default: what the machine has]
    #[arg(long, value_name = "SIZE")]
    pub memory_limit: Option<String>,
    /// Injection channels (so: PEs) per node, 1 to 1024 [default: 16, with --private 1024]
    #[arg(long, value_name = "N")]
    pub channels: Option<u16>,
    /// What one user may have of this daemon, such as jobs=10 or pending=4M; may be given several times. --check-config lists all
    #[arg(long, value_name = "NAME=N")]
    pub limit: Vec<String>,
    /// Serve one `angara run`: exit when its control connection has closed
    #[arg(long)]
    pub private: bool,
    /// Time of the jobs: wall, or virtual: PEs stand still wherever they wait, and the network's exact times decide when
    /// they go on; needs --private [default: wall]
    #[arg(long, value_name = "KIND")]
    pub clock: Option<String>,
    /// With --clock virtual: nanoseconds that a library call takes [default: 1]
    #[arg(long, value_name = "NS")]
    pub call_cost: Option<f64>,
    /// With --clock virtual: seconds on the wall after which the others go on without a PE that does not come back to the
    /// library, or never [default: 30]
    #[arg(long, value_name = "SECONDS|never")]
    pub patience: Option<String>,
    /// With --clock virtual: note who waited for whom, what routines cost and when links carried what, for reports
    #[arg(long)]
    pub times: bool,
    /// With --clock virtual: write what each PE posts, and what it waits for, to this file, for `angara sim run`
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Serve a page that shows the network at work at this address, such as 127.0.0.1:8290; `angara web` prints its URL
    #[arg(long, value_name = "ADDR")]
    pub web: Option<String>,
    /// Serve metrics for Prometheus at this address, such as 127.0.0.1:26291, or at a unix socket, as unix:PATH
    #[arg(long, value_name = "ADDR|unix:PATH")]
    pub metrics: Option<String>,
    /// Let everybody who reaches the address of --metrics read them, without a token
    #[arg(long)]
    pub metrics_open: bool,
    /// Most links with metrics of their own: those that have carried most [default: 1024]
    #[arg(long, value_name = "N")]
    pub metrics_links: Option<usize>,
    /// Write the line that says the sockets are ready to this descriptor [default: standard output]
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<u32>,
    /// What to log to standard error: error, warn, info, debug, trace, or those of modules, as info,fabricd::agree=debug
    #[arg(long, value_name = "FILTER", env = "ANGARA_LOG")]
    pub log: Option<String>,
    /// Log as JSON lines
    #[arg(long)]
    pub log_json: bool,
    /// Check the options and the config file, say what they mean, and exit
    #[arg(long)]
    pub check_config: bool,
}

impl Args {
    /// Reads the command line of this process.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn of_this_process() -> Result<Args, String> {
        Args::try_parse().map_err(|e| e.to_string())
    }
}
