//! What the daemon is told: flags, and the same keys in a TOML file.
//!
//! A flag on the command line wins over the file, the file over the default. Unknown keys and
//! impossible values are refused with the file and line they stand on.

use crate::cluster::{Cluster, ClusterError};
use crate::fault::FaultSpec;
use abi::launch::default_runtime_dir;
use abi::torus::{NodeId, Shape};
use clap::Parser;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Injection channels per node unless told otherwise: what the chip has.
pub const CHANNELS_DEFAULT: u16 = 16;
/// Most channels of one node: the endpoint field has 10 bits.
pub const CHANNELS_MAX: u16 = 1024;

/// How the daemon says that it can be connected to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ready {
    /// One JSON line on standard output.
    #[default]
    Stdout,
    /// One JSON line on this inherited descriptor.
    Fd(u32),
    /// Not at all.
    Silent,
}

/// A place in a cluster.
#[derive(Clone, PartialEq, Debug)]
pub struct Membership {
    /// The cluster file.
    pub cluster: Cluster,
    /// Index of this host in it.
    pub host: usize,
}

/// A complete, checked configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Shape of the whole network.
    pub shape: Shape,
    /// Nodes hosted here, ascending; `None`: all.
    pub nodes: Option<Vec<NodeId>>,
    /// The cluster this daemon is a part of.
    pub cluster: Option<Membership>,
    /// How the trunks' socket is served.
    pub udp_engine: trunk::socket::Kind,
    /// Directory of the sockets.
    pub runtime_dir: PathBuf,
    /// Cores the data plane may run on; empty: any.
    pub cores: Vec<usize>,
    /// Seed of everything random in the network.
    pub seed: u64,
    /// Faults in force from the start.
    pub faults: Vec<FaultSpec>,
    /// Most bytes one job may reserve.
    pub memory_limit: Option<u64>,
    /// Injection channels per node.
    pub channels: u16,
    /// Exit when the run that started this daemon is over.
    pub private: bool,
    /// How to report readiness.
    pub ready: Ready,
}

impl Options {
    /// Defaults for a network of `shape` listening in `runtime_dir`.
    pub fn new(shape: Shape, runtime_dir: impl Into<PathBuf>) -> Options {
        Options {
            shape,
            nodes: None,
            cluster: None,
            udp_engine: trunk::socket::Kind::Auto,
            runtime_dir: runtime_dir.into(),
            cores: Vec::new(),
            seed: 0,
            faults: Vec::new(),
            memory_limit: None,
            channels: CHANNELS_DEFAULT,
            private: false,
            ready: Ready::Silent,
        }
    }
    /// Nodes hosted here, ascending.
    pub fn hosted(&self) -> Vec<NodeId> {
        self.nodes.clone().unwrap_or_else(|| (0..self.shape.nodes() as NodeId).collect())
    }
}

/// Emulates the adapters of an Angara network and the torus between them.
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

CONFIG FILE: TOML with the long flags as keys, for example
  torus = \"4x2x2\"
  cores = \"1\"
  fault = [\"link 0,0,0 +X down @2s\"]

EXIT STATUS: 0 ended as asked, 1 failed while running, 2 bad usage or configuration,
3 another daemon already serves the runtime directory.")]
pub struct Args {
    /// Torus of 1 to 4 dimensions, such as 4x2x2
    #[arg(long, value_name = "SIZES", conflicts_with_all = ["mesh", "machine"])]
    torus: Option<String>,
    /// Mesh (no wrap-around links) of 1 to 4 dimensions, such as 4x4
    #[arg(long, value_name = "SIZES", conflicts_with = "machine")]
    mesh: Option<String>,
    /// A machine that was built: desmos (4x2x2x2) or angara-k1 (3x3x4)
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Nodes that PEs may be placed on, such as 0-3,7; the others only forward [default: all]
    #[arg(long, value_name = "LIST")]
    nodes: Option<String>,
    /// Be one host of the cluster in this file, which `angara cluster init` writes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["torus", "mesh", "machine", "nodes"])]
    cluster: Option<PathBuf>,
    /// Which host of the cluster to be [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// How the socket to the other hosts is served: auto (what the kernel allows and what is faster), syscall or uring
    #[arg(long, value_name = "ENGINE")]
    udp_engine: Option<String>,
    /// Read these options from a TOML file; flags win
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory for sockets and the lock file [default: $ANGARA_RUNTIME_DIR, $XDG_RUNTIME_DIR/angara or /tmp/angara-UID]
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
    /// Cores the data plane thread may use, such as 1 or 2-3 [default: any]
    #[arg(long, value_name = "LIST")]
    cores: Option<String>,
    /// Seed of everything random in the network [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// A fault, such as 'link 0,0,0 +X down', 'link 0,0,0 +X corrupt=1%' or 'node 1,0,0 down', each with an optional '@2ms'; may be given several times
    #[arg(long, value_name = "SPEC")]
    fault: Vec<String>,
    /// Most memory one job may reserve, such as 8G [default: what the machine has]
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
    /// Injection channels (so: PEs) per node, 1 to 1024 [default: 16, with --private 1024]
    #[arg(long, value_name = "N")]
    channels: Option<u16>,
    /// Serve one `angara run`: exit when its control connection has closed
    #[arg(long)]
    private: bool,
    /// Write the line that says the sockets are ready to this descriptor [default: standard output]
    #[arg(long, value_name = "N")]
    ready_fd: Option<u32>,
    /// What to log to standard error: error, warn, info, debug, trace, or a tracing filter
    #[arg(long, value_name = "FILTER", env = "ANGARA_LOG")]
    log: Option<String>,
    /// Log as JSON lines
    #[arg(long)]
    log_json: bool,
    /// Check the options and the config file, say what they mean, and exit
    #[arg(long)]
    pub check_config: bool,
}

/// The same keys in a file.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    torus: Option<String>,
    mesh: Option<String>,
    machine: Option<String>,
    nodes: Option<String>,
    cluster: Option<PathBuf>,
    host: Option<String>,
    udp_engine: Option<String>,
    runtime_dir: Option<PathBuf>,
    cores: Option<String>,
    seed: Option<u64>,
    fault: Option<Vec<String>>,
    memory_limit: Option<String>,
    channels: Option<u16>,
    private: Option<bool>,
    ready_fd: Option<u32>,
    log: Option<String>,
    log_json: Option<bool>,
}

/// Why a configuration was refused. The text names the value and what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// File cannot be read.
    #[error("cannot read {path}: {error}; check --config")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// File has a mistake.
    #[error("{path}:{line}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The cluster file has a mistake.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A value has a mistake.
    #[error("{key}: {message}")]
    Value {
        /// Flag or key.
        key: &'static str,
        /// What is wrong.
        message: String,
    },
}

fn bad<T: std::fmt::Display>(key: &'static str) -> impl FnOnce(T) -> ConfigError {
    move |e| ConfigError::Value { key, message: e.to_string() }
}

impl Args {
    /// What to log, and whether as JSON: needed before the rest is read.
    pub fn log_filter(&self) -> (String, bool) {
        let file = self.file().unwrap_or_default();
        let filter = self.log.clone().or(file.log).unwrap_or_else(|| "info".into());
        (filter, self.log_json || file.log_json.unwrap_or(false))
    }

    fn file(&self) -> Result<File, ConfigError> {
        self.config.as_deref().map_or_else(|| Ok(File::default()), read_file)
    }

    /// Flags over file over defaults, checked.
    pub fn resolve(&self) -> Result<Options, ConfigError> {
        let file = self.file()?;
        let in_flags = self.torus.is_some() || self.mesh.is_some() || self.machine.is_some();
        let cluster = self.membership(&file, in_flags)?;
        let shape = match (&cluster, in_flags) {
            (Some(member), _) => member.cluster.shape,
            (None, true) => shape(&self.torus, &self.mesh, &self.machine)?,
            (None, false) => shape(&file.torus, &file.mesh, &file.machine)?,
        };
        let private = self.private || file.private.unwrap_or(false);
        let nodes = match (&cluster, self.nodes.as_ref().or(file.nodes.as_ref())) {
            (Some(member), _) => Some(member.cluster.hosts[member.host].nodes.clone()),
            (None, None) => None,
            (None, Some(text)) => Some(node_list(text, shape)?),
        };
        let cores = match self.cores.as_ref().or(file.cores.as_ref()) {
            None => Vec::new(),
            Some(text) => parse_list(text, "--cores").map_err(bad("cores"))?,
        };
        let fault_texts = match self.fault.is_empty() {
            true => file.fault.unwrap_or_default(),
            false => self.fault.clone(),
        };
        let faults = fault_texts.iter().map(|f| FaultSpec::parse(f, shape)).collect::<Result<_, _>>();
        let channels = self.channels.or(file.channels).unwrap_or(match private {
            true => CHANNELS_MAX,
            false => CHANNELS_DEFAULT,
        });
        if !(1..=CHANNELS_MAX).contains(&channels) {
            return Err(bad("channels")(format!("{channels} channels per node; give 1 to {CHANNELS_MAX}")));
        }
        let memory_limit = self.memory_limit.as_ref().or(file.memory_limit.as_ref());
        Ok(Options {
            shape,
            nodes,
            cluster,
            udp_engine: udp_engine(self.udp_engine.as_ref().or(file.udp_engine.as_ref()))?,
            runtime_dir: self.runtime_dir.clone().or(file.runtime_dir).unwrap_or_else(default_runtime_dir),
            cores,
            seed: self.seed.or(file.seed).unwrap_or(0),
            faults: faults.map_err(bad("fault"))?,
            memory_limit: memory_limit.map(|s| parse_size(s)).transpose().map_err(bad("memory-limit"))?,
            channels,
            private,
            ready: self.ready_fd.or(file.ready_fd).map_or(Ready::Stdout, Ready::Fd),
        })
    }
}

impl Args {
    /// The cluster file, flag over file; a network in the flags sets one in the config file aside.
    fn membership(&self, file: &File, in_flags: bool) -> Result<Option<Membership>, ConfigError> {
        let host = self.host.as_ref().or(file.host.as_ref());
        let path = match &self.cluster {
            Some(path) => Some(path),
            None => file.cluster.as_ref().filter(|_| !in_flags),
        };
        let Some(path) = path else {
            return match &self.host {
                Some(name) => Err(bad("host")(format!("`{name}` is a host of no cluster; give --cluster FILE too"))),
                None => Ok(None),
            };
        };
        if self.cluster.is_none() && (file.torus.is_some() || file.mesh.is_some() || file.machine.is_some()) {
            return Err(bad("cluster")("the cluster file names the network; remove torus, mesh and machine"));
        }
        let cluster = Cluster::load(path)?;
        let own = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = cluster.host(&host.cloned().unwrap_or_else(own))?;
        Ok(Some(Membership { cluster, host }))
    }
}

fn udp_engine(word: Option<&String>) -> Result<trunk::socket::Kind, ConfigError> {
    word.map_or(Ok(trunk::socket::Kind::Auto), |word| word.parse().map_err(bad("udp-engine")))
}

fn read_file(path: &Path) -> Result<File, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
    toml::from_str(&text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start.min(text.len()));
        let line = text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count() + 1;
        ConfigError::File { path: path.to_owned(), line, message: e.message().to_string() }
    })
}

fn shape(torus: &Option<String>, mesh: &Option<String>, machine: &Option<String>) -> Result<Shape, ConfigError> {
    match (torus, mesh, machine) {
        (Some(sizes), None, None) => sizes.parse().map_err(bad("torus")),
        (None, Some(sizes), None) => format!("mesh:{sizes}").parse().map_err(bad("mesh")),
        (None, None, Some(name)) => machine_shape(name).map_err(bad("machine")),
        (None, None, None) => Err(bad("torus")("no network given; use --torus 2x2x2, --mesh 4x4 or --machine desmos")),
        _ => Err(bad("torus")("torus, mesh and machine exclude each other; keep one")),
    }
}

/// Shape of a machine that was built.
pub fn machine_shape(name: &str) -> Result<Shape, String> {
    let dims: &[u8] = match name {
        "desmos" => &[4, 2, 2, 2],
        "angara-k1" => &[3, 3, 4],
        _ => return Err(format!("unknown machine `{name}`; known: desmos (4x2x2x2), angara-k1 (3x3x4)")),
    };
    Shape::new(dims, true).map_err(|e| e.to_string())
}

fn node_list(text: &str, shape: Shape) -> Result<Vec<NodeId>, ConfigError> {
    let nodes = parse_list(text, "--nodes").map_err(bad("nodes"))?;
    if let Some(node) = nodes.iter().find(|&&n| n >= shape.nodes()) {
        let last = shape.nodes() - 1;
        return Err(bad("nodes")(format!("node {node} is not in {shape}; its nodes are 0 to {last}")));
    }
    Ok(nodes.into_iter().map(|n| n as NodeId).collect())
}

/// Reads `0-3,7` into ascending numbers without repetition.
pub fn parse_list(text: &str, what: &str) -> Result<Vec<usize>, String> {
    let mistake = || format!("`{text}`: give numbers and ranges such as {what} 0-3,7");
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        let first: usize = first.parse().map_err(|_| mistake())?;
        let last: usize = last.parse().map_err(|_| mistake())?;
        if first > last || last > u16::MAX as usize {
            return Err(mistake());
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Reads `512`, `64K`, `64M`, `2G` or `1T` (powers of 1024) as bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let mistake = || format!("`{text}` is not a size; write a number with K, M, G or T, such as 64M");
    let text_ = text.trim().trim_end_matches(['B', 'b']).trim_end_matches('i');
    let (number, shift) = match text_.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text_[..at], 10),
        Some((at, 'm' | 'M')) => (&text_[..at], 20),
        Some((at, 'g' | 'G')) => (&text_[..at], 30),
        Some((at, 't' | 'T')) => (&text_[..at], 40),
        _ => (text_, 0),
    };
    let n: u64 = number.trim().parse().map_err(|_| mistake())?;
    n.checked_mul(1 << shift).ok_or_else(mistake)
}

/// Writes bytes the way [`parse_size`] reads them, with one decimal where needed.
pub fn show_size(bytes: u64) -> String {
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes >= 1 << shift {
            let whole = bytes as f64 / (1u64 << shift) as f64;
            return if whole.fract() == 0.0 { format!("{whole:.0}{unit}") } else { format!("{whole:.1}{unit}") };
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Args {
        Args::try_parse_from(std::iter::once("fabricd").chain(words.iter().copied())).expect("flags are well formed")
    }

    fn with_file(text: &str, words: &[&str]) -> Result<Options, ConfigError> {
        let dir = std::env::temp_dir().join(format!("fabricd-config-{}-{}", std::process::id(), text.len()));
        std::fs::create_dir_all(&dir).expect("temporary directory");
        let path = dir.join("fabricd.toml");
        std::fs::write(&path, text).expect("temporary file");
        let mut all = vec!["--config", path.to_str().expect("utf-8 path")];
        all.extend(words);
        let result = args(&all).resolve();
        std::fs::remove_dir_all(dir).expect("temporary directory removed");
        result
    }

    #[test]
    fn flags_win_over_the_file() {
        let o = with_file("torus = \"2x2\"\nseed = 7\nmemory-limit = \"1G\"\n", &["--mesh", "4x4"]).expect("valid");
        assert_eq!(o.shape, "mesh:4x4".parse().expect("shape"));
        assert_eq!((o.seed, o.memory_limit), (7, Some(1 << 30)));
    }

    #[test]
    fn unknown_keys_name_file_and_line() {
        let e = with_file("torus = \"2x2\"\n\nfrobnicate = 1\n", &[]).expect_err("unknown key");
        let text = e.to_string();
        assert!(text.contains("fabricd.toml:3:") && text.contains("frobnicate"), "{text}");
    }

    #[test]
    fn a_private_daemon_offers_every_channel() {
        assert_eq!(args(&["--torus", "2", "--private"]).resolve().expect("valid").channels, CHANNELS_MAX);
        assert_eq!(args(&["--torus", "2"]).resolve().expect("valid").channels, CHANNELS_DEFAULT);
    }

    #[test]
    fn mistakes_are_named_with_their_remedy() {
        for (words, part) in [
            (vec![], "--torus 2x2x2"),
            (vec!["--torus", "2x0"], "every size must be from 1 to 255"),
            (vec!["--machine", "cray"], "known: desmos"),
            (vec!["--torus", "2x2", "--nodes", "0-4"], "its nodes are 0 to 3"),
            (vec!["--torus", "2x2", "--cores", "a"], "such as --cores 0-3,7"),
            (vec!["--torus", "2x2", "--memory-limit", "lots"], "such as 64M"),
            (vec!["--torus", "2x2", "--fault", "link 5,5 +X down"], "5,5"),
            (vec!["--torus", "2x2", "--channels", "2000"], "1 to 1024"),
        ] {
            let text = args(&words).resolve().expect_err("must be refused").to_string();
            assert!(text.contains(part), "{words:?} gave: {text}");
        }
    }

    #[test]
    fn sizes_read_back_what_they_show() {
        for bytes in [0, 1, 1023, 1 << 10, 3 << 20, 1 << 30, 5 << 40] {
            assert_eq!(parse_size(&show_size(bytes)), Ok(bytes));
        }
        assert!(parse_size("18446744073709551615T").is_err());
    }
}
