//! What the daemon is told: flags, and the same keys in a TOML file.
//!
//! A flag on the command line wins over the file, the file over the default. Unknown keys and
//! impossible values are refused with the file and line they stand on.

use crate::hosts::wires::Wires;
use crate::users::quota::Limits;
use crate::watch::options::{self as watch, Looks};
use angara_abi::clock::AHEAD_MAX;
use angara_cluster::args::Args;
use angara_cluster::{Cluster, ClusterError, Membership};
use angara_fabric::Params;
use angara_machine::Machine;
use angara_net::fault::Fault;
use angara_net::torus::{NodeId, Shape};
pub use angara_plane::{CHANNELS_DEFAULT, RecordTo, VirtualTime};
use angara_protocol::absence::Patience;
use angara_protocol::launch::default_runtime_dir;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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

/// A complete, checked configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Shape of the whole network.
    pub shape: Shape,
    /// Times and buffers of the network.
    pub params: Params,
    /// Nodes hosted here, ascending; `None`: all.
    pub nodes: Option<Vec<NodeId>>,
    /// The cluster this daemon is a part of.
    pub cluster: Option<Membership>,
    /// How the trunks' socket is served.
    pub udp_engine: angara_trunk::socket::SocketKind,
    /// Directory of the sockets.
    pub runtime_dir: PathBuf,
    /// Cores the data plane may run on; empty: any.
    pub cores: Vec<usize>,
    /// Seed of everything random in the network.
    pub seed: u64,
    /// Faults in force from the start.
    pub faults: Vec<Fault>,
    /// Most bytes one job may reserve.
    pub memory_limit: Option<u64>,
    /// Injection channels per node.
    pub channels: u16,
    /// What one user may have.
    pub limits: Limits,
    /// Exit when the run that started this daemon is over.
    pub private: bool,
    /// Jobs run in virtual time.
    pub virtual_time: Option<VirtualTime>,
    /// Where they are recorded.
    pub record: Option<RecordTo>,
    /// Who may look at what this daemon does.
    pub looks: Looks,
    /// How to report readiness.
    pub ready: Ready,
}

impl Options {
    /// Defaults for a network of `shape` listening in `runtime_dir`.
    pub fn new(shape: Shape, runtime_dir: impl Into<PathBuf>) -> Options {
        Options {
            shape,
            params: Params::default(),
            nodes: None,
            cluster: None,
            udp_engine: angara_trunk::socket::SocketKind::Auto,
            runtime_dir: runtime_dir.into(),
            cores: Vec::new(),
            seed: 0,
            faults: Vec::new(),
            memory_limit: None,
            channels: CHANNELS_DEFAULT,
            limits: Limits::default(),
            private: false,
            virtual_time: None,
            record: None,
            looks: Looks::default(),
            ready: Ready::Silent,
        }
    }
    /// Returns what the data plane is given. In a cluster the socket of the trunks is opened.
    pub(crate) fn plane(&self) -> std::io::Result<angara_plane::Config> {
        let wires = self.cluster.as_ref().map(|member| Wires::open(member, self.udp_engine)).transpose()?;
        Ok(self.plane_over(wires))
    }

    /// The same with trunks that run over `wires`.
    pub(crate) fn plane_over(&self, wires: Option<Wires>) -> angara_plane::Config {
        angara_plane::Config {
            params: self.params,
            seed: self.seed,
            channels: self.channels,
            faults: self.faults.clone(),
            virtual_time: self.virtual_time,
            record: self.record.clone(),
            watched: self.looks.any(),
            trunks: self.cluster.as_ref().zip(wires).map(|(member, wires)| wires.trunks(member)),
            cores: self.cores.clone(),
            ..angara_plane::Config::new(self.shape)
        }
    }

    /// Nodes hosted here, ascending.
    pub fn hosted(&self) -> Vec<NodeId> {
        self.nodes.clone().unwrap_or_else(|| (0..self.shape.nodes() as NodeId).collect())
    }
}

/// The same keys in a file.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    torus: Option<String>,
    mesh: Option<String>,
    machine: Option<String>,
    set: Option<Vec<String>>,
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
    limit: Option<BTreeMap<String, Amount>>,
    private: Option<bool>,
    clock: Option<String>,
    call_cost: Option<f64>,
    patience: Option<String>,
    times: Option<bool>,
    record: Option<PathBuf>,
    web: Option<String>,
    metrics: Option<String>,
    metrics_open: Option<bool>,
    metrics_links: Option<usize>,
    ready_fd: Option<u32>,
    log: Option<String>,
    log_json: Option<bool>,
}

/// A number or a size.
#[derive(Deserialize, Clone, Debug)]
#[serde(untagged)]
enum Amount {
    Number(u64),
    Text(String),
}

/// Why a configuration was refused. The text names the value and what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// File cannot be read.
    #[error("cannot read {path}: {error}; check --config")]
    Read {
        /// The file.
        path: PathBuf,
        error: std::io::Error,
    },
    /// File has a mistake.
    #[error("{path}:{line}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The mistake.
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
        /// The mistake.
        message: String,
    },
}

fn bad<T: std::fmt::Display>(key: &'static str) -> impl FnOnce(T) -> ConfigError {
    move |e| ConfigError::Value { key, message: e.to_string() }
}

/// Returns what to log, and whether as JSON: needed before the rest is read.
pub fn log_filter(args: &Args) -> (String, bool) {
    let file = file(args).unwrap_or_default();
    let filter = args.log.clone().or(file.log).unwrap_or_else(|| "info".into());
    (filter, args.log_json || file.log_json.unwrap_or(false))
}

fn file(args: &Args) -> Result<File, ConfigError> {
    args.config.as_deref().map_or_else(|| Ok(File::default()), read_file)
}

/// Flags over file over defaults, checked.
pub fn resolve(args: &Args) -> Result<Options, ConfigError> {
    let file = file(args)?;
    let in_flags = args.torus.is_some() || args.mesh.is_some() || args.machine.is_some();
    let cluster = membership(args, &file, in_flags)?;
    without_effect(args, &file, cluster.is_some())?;
    let machine = machine(if in_flags { &args.machine } else { &file.machine }, args, &file)?;
    let shape = match (&cluster, in_flags) {
        (Some(member), _) => member.cluster.shape,
        (None, true) => shape(&args.torus, &args.mesh, &machine)?,
        (None, false) => shape(&file.torus, &file.mesh, &machine)?,
    };
    let private = args.private || file.private.unwrap_or(false);
    let nodes = match (&cluster, args.nodes.as_ref().or(file.nodes.as_ref())) {
        (Some(member), _) => Some(member.cluster.hosts[member.host.index()].nodes.clone()),
        (None, None) => None,
        (None, Some(text)) => Some(node_list(text, shape)?),
    };
    let cores = match args.cores.as_ref().or(file.cores.as_ref()) {
        None => Vec::new(),
        Some(text) => parse_list(text, "--cores").map_err(bad("cores"))?,
    };
    let looks = looks(args, &file)?;
    let fault_texts = match args.fault.is_empty() {
        true => file.fault.unwrap_or_default(),
        false => args.fault.clone(),
    };
    let faults = fault_texts.iter().map(|f| Fault::parse(f, &shape)).collect::<Result<_, _>>();
    let channels = args.channels.or(file.channels).unwrap_or(match private {
        true => CHANNELS_MAX,
        false => CHANNELS_DEFAULT,
    });
    if !(1..=CHANNELS_MAX).contains(&channels) {
        return Err(bad("channels")(format!("{channels} channels per node; give 1 to {CHANNELS_MAX}")));
    }
    let clock = args.clock.as_deref().or(file.clock.as_deref());
    let params = machine.params().map_err(bad("machine"))?;
    let ahead = AHEAD_MAX.min(params.least_latency());
    let virtual_time = virtual_time(clock, args.call_cost.or(file.call_cost), ahead)?;
    let virtual_time = patient(virtual_time, args.patience.as_ref().or(file.patience.as_ref()))?;
    let virtual_time = noted(virtual_time, args.times || file.times.unwrap_or(false))?;
    if virtual_time.is_some() && (!private || cluster.is_some()) {
        let why = "virtual runs one job alone, on one host; add --private and leave --cluster out";
        return Err(bad("clock")(why));
    }
    let record = args.record.clone().or(file.record);
    if record.is_some() && virtual_time.is_none() {
        return Err(bad("record")("only --clock virtual has times that can be replayed"));
    }
    let record = record.map(|path| RecordTo { path, set: machine.changes() });
    let limits = limits(args, file.limit.unwrap_or_default())?;
    let memory_limit = args.memory_limit.as_ref().or(file.memory_limit.as_ref());
    Ok(Options {
        shape,
        params,
        nodes,
        cluster,
        udp_engine: udp_engine(args.udp_engine.as_ref().or(file.udp_engine.as_ref()))?,
        runtime_dir: args.runtime_dir.clone().or(file.runtime_dir).unwrap_or_else(default_runtime_dir),
        cores,
        seed: args.seed.or(file.seed).unwrap_or(0),
        faults: faults.map_err(bad("fault"))?,
        memory_limit: memory_limit.map(|s| parse_size(s)).transpose().map_err(bad("memory-limit"))?,
        channels,
        limits,
        private,
        virtual_time,
        record,
        looks,
        ready: args.ready_fd.or(file.ready_fd).map_or(Ready::Stdout, Ready::Fd),
    })
}

/// Refuses what would do nothing.
fn without_effect(args: &Args, file: &File, cluster: bool) -> Result<(), ConfigError> {
    let metrics = args.metrics.is_some() || file.metrics.is_some();
    let needs_metrics = "nobody serves metrics; give --metrics ADDR, too";
    let needs_cluster = "there are no trunks; give --cluster FILE, too";
    let in_cluster = "the cluster file says which nodes are here; leave it out";
    let given = [
        ("metrics-links", args.metrics_links.is_some() || file.metrics_links.is_some(), metrics, needs_metrics),
        ("metrics-open", args.metrics_open || file.metrics_open == Some(true), metrics, needs_metrics),
        ("udp-engine", args.udp_engine.is_some() || file.udp_engine.is_some(), cluster, needs_cluster),
        ("nodes", args.nodes.is_some() || file.nodes.is_some(), !cluster, in_cluster),
    ];
    match given.into_iter().find(|(_, given, acts, _)| *given && !acts) {
        Some((key, .., why)) => Err(bad(key)(why)),
        None => Ok(()),
    }
}

/// `--web` and `--metrics`.
fn looks(args: &Args, file: &File) -> Result<Looks, ConfigError> {
    let (web, metrics) = (args.web.as_ref().or(file.web.as_ref()), args.metrics.as_ref().or(file.metrics.as_ref()));
    let links = args.metrics_links.or(file.metrics_links).unwrap_or(watch::LINKS_DEFAULT);
    if links > watch::LINKS_MAX {
        return Err(bad("metrics-links")(format!("{links} links; give at most {}", watch::LINKS_MAX)));
    }
    Ok(Looks {
        web: web.map(|text| watch::address(text)).transpose().map_err(bad("web"))?,
        metrics: metrics.map(|text| text.parse()).transpose().map_err(bad("metrics"))?,
        open: args.metrics_open || file.metrics_open.unwrap_or(false),
        links,
    })
}

/// With `--patience`.
fn patient(time: Option<VirtualTime>, wanted: Option<&String>) -> Result<Option<VirtualTime>, ConfigError> {
    match (time, wanted) {
        (None, Some(_)) => Err(bad("patience")("only --clock virtual needs it")),
        (Some(time), Some(text)) => Ok(Some(VirtualTime { patience: text.parse().map_err(bad("patience"))?, ..time })),
        (time, None) => Ok(time),
    }
}

/// With `--times`.
fn noted(time: Option<VirtualTime>, wanted: bool) -> Result<Option<VirtualTime>, ConfigError> {
    match time {
        None if wanted => Err(bad("times")("only --clock virtual has them")),
        time => Ok(time.map(|time| VirtualTime { noted: wanted, ..time })),
    }
}

/// `--clock` and `--call-cost`.
fn virtual_time(clock: Option<&str>, call_cost: Option<f64>, ahead: u64) -> Result<Option<VirtualTime>, ConfigError> {
    let ns = call_cost.unwrap_or(1.0);
    if !(0.0..=1e9).contains(&ns) {
        return Err(bad("call-cost")(format!("{ns} ns; give 0 to 1e9")));
    }
    match clock {
        None | Some("wall") if call_cost.is_some() => Err(bad("call-cost")("only --clock virtual has one")),
        None | Some("wall") => Ok(None),
        Some("virtual") => {
            let patience = Patience::default();
            Ok(Some(VirtualTime { call_cost: (ns * 1000.0).round() as u64, ahead, patience, noted: false }))
        }
        Some(other) => Err(bad("clock")(format!("`{other}`; use wall or virtual"))),
    }
}

/// Flags over file over defaults.
fn limits(args: &Args, file: BTreeMap<String, Amount>) -> Result<Limits, ConfigError> {
    let mut limits = Limits::default();
    for (name, value) in file {
        let value = match value {
            Amount::Number(n) => n.to_string(),
            Amount::Text(text) => text,
        };
        limits.set(&name, &value).map_err(bad("limit"))?;
    }
    for given in &args.limit {
        let (name, value) =
            given.split_once('=').ok_or_else(|| bad("limit")(format!("`{given}`: write NAME=N, such as jobs=10")))?;
        limits.set(name.trim(), value.trim()).map_err(bad("limit"))?;
    }
    Ok(limits)
}

/// The cluster file, flag over file; a network in the flags sets one in the config file aside.
fn membership(args: &Args, file: &File, in_flags: bool) -> Result<Option<Membership>, ConfigError> {
    let host = args.host.as_ref().or(file.host.as_ref());
    let path = match &args.cluster {
        Some(path) => Some(path),
        None => file.cluster.as_ref().filter(|_| !in_flags),
    };
    let Some(path) = path else {
        return match &args.host {
            Some(name) => Err(bad("host")(format!("`{name}` is a host of no cluster; give --cluster FILE too"))),
            None => Ok(None),
        };
    };
    let network = [&file.torus, &file.mesh, &file.machine].iter().any(|key| key.is_some()) || file.set.is_some();
    if args.cluster.is_none() && network {
        return Err(bad("cluster")("the cluster file names the network; remove torus, mesh, machine and set"));
    }
    let cluster = Cluster::load(path)?;
    let own = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host = cluster.host(&host.cloned().unwrap_or_else(own))?;
    Ok(Some(Membership { cluster, host }))
}

fn udp_engine(word: Option<&String>) -> Result<angara_trunk::socket::SocketKind, ConfigError> {
    word.map_or(Ok(angara_trunk::socket::SocketKind::Auto), |word| word.parse().map_err(bad("udp-engine")))
}

fn read_file(path: &Path) -> Result<File, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
    toml::from_str(&text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start.min(text.len()));
        let line = text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count() + 1;
        ConfigError::File { path: path.to_owned(), line, message: e.message().to_string() }
    })
}

/// The machine and what is changed of it.
fn machine(name: &Option<String>, args: &Args, file: &File) -> Result<Machine, ConfigError> {
    let machine = name.as_deref().map_or_else(|| Ok(Machine::plain()), Machine::named).map_err(bad("machine"))?;
    let changes = if args.set.is_empty() { file.set.as_deref().unwrap_or_default() } else { &args.set[..] };
    machine.with(changes).map_err(bad("set"))
}

fn shape(torus: &Option<String>, mesh: &Option<String>, machine: &Machine) -> Result<Shape, ConfigError> {
    match (torus, mesh) {
        (Some(sizes), None) => sizes.parse().map_err(bad("torus")),
        (None, Some(sizes)) => format!("mesh:{sizes}").parse().map_err(bad("mesh")),
        (Some(_), Some(_)) => Err(bad("torus")("torus and mesh exclude each other; keep one")),
        (None, None) => machine.shape.ok_or_else(|| {
            let plain = machine.name == Machine::plain().name;
            let who = if plain { String::new() } else { format!(" by machine {}", machine.name) };
            bad("torus")(format!("no network given{who}; use --torus 2x2x2, --mesh 4x4 or --machine desmos"))
        }),
    }
}

/// Reads `0-3,7`, given as `what`.
fn parse_list(text: &str, what: &str) -> Result<Vec<usize>, String> {
    angara_net::units::list(text).ok_or_else(|| format!("`{text}`: give numbers and ranges such as {what} 0-3,7"))
}

fn node_list(text: &str, shape: Shape) -> Result<Vec<NodeId>, ConfigError> {
    let nodes = parse_list(text, "--nodes").map_err(bad("nodes"))?;
    if let Some(node) = nodes.iter().find(|&&n| n >= shape.nodes()) {
        let last = shape.nodes() - 1;
        return Err(bad("nodes")(format!("node {node} is not in {shape}; its nodes are 0 to {last}")));
    }
    Ok(nodes.into_iter().map(|n| n as NodeId).collect())
}

/// Reads `512`, `64K`, `64M`, `1.5G` or `1T` (powers of 1024) as bytes.
fn parse_size(text: &str) -> Result<u64, String> {
    angara_net::units::bytes(text)
        .ok_or_else(|| format!("`{text}` is not a size; write a number with K, M, G or T, such as 64M"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::quota::Limit;
    use clap::Parser;

    fn args(words: &[&str]) -> Args {
        Args::try_parse_from(std::iter::once("fabricd").chain(words.iter().copied())).expect("flags are well formed")
    }

    fn with_file(text: &str, words: &[&str]) -> Result<Options, ConfigError> {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("fabricd-config-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("temporary directory");
        let path = dir.join("fabricd.toml");
        std::fs::write(&path, text).expect("temporary file");
        let mut all = vec!["--config", path.to_str().expect("utf-8 path")];
        all.extend(words);
        let result = resolve(&args(&all));
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
    fn limits_stand_in_a_table_of_the_file() {
        let text = "torus = \"2x2\"\n[limit]\njobs = 3\npending = \"4M\"\nname = 9\n";
        let o = with_file(text, &["--limit", "name=8"]).expect("valid");
        let get = |limit| o.limits.get(limit);
        assert_eq!((get(Limit::Jobs), get(Limit::Pending), get(Limit::Name)), (3, 4 << 20, 8));
        let e = with_file("torus = \"2\"\n[limit]\nseats = 3\n", &[]).expect_err("unknown");
        assert!(e.to_string().contains("no limit `seats`"), "{e}");
    }

    #[test]
    fn unknown_keys_name_file_and_line() {
        let e = with_file("torus = \"2x2\"\n\nfrobnicate = 1\n", &[]).expect_err("unknown key");
        let text = e.to_string();
        assert!(text.contains("fabricd.toml:3:") && text.contains("frobnicate"), "{text}");
    }

    #[test]
    fn a_machine_gives_shape_and_times_and_both_may_be_changed() {
        let o = resolve(&args(&["--machine", "desmos"])).expect("valid");
        assert_eq!((o.shape.to_string(), o.params), ("4x2x2x2".into(), Params::default()));
        let o = resolve(&args(&["--machine", "desmos", "--torus", "8x8", "--set", "hop=100ns,flight=80ns"]))
            .expect("valid");
        assert_eq!((o.shape.to_string(), o.params.router_ps), ("8x8".into(), 20_000));
        let o = with_file("machine = \"desmos\"\nset = [\"slots=4\"]\n", &[]).expect("valid");
        assert_eq!((o.shape.nodes(), o.params.slots), (32, 4));
        let o = with_file("torus = \"2x2\"\nset = [\"slots=4\"]\n", &["--set", "slots=5"]).expect("valid");
        assert_eq!(o.params.slots, 5);
    }

    #[test]
    fn a_private_daemon_offers_every_channel() {
        assert_eq!(resolve(&args(&["--torus", "2", "--private"])).expect("valid").channels, CHANNELS_MAX);
        assert_eq!(resolve(&args(&["--torus", "2"])).expect("valid").channels, CHANNELS_DEFAULT);
    }

    #[test]
    fn mistakes_are_named_with_their_remedy() {
        for (words, part) in [
            (vec![], "--torus 2x2x2"),
            (vec!["--torus", "2x0"], "every size must be from 1 to 255"),
            (vec!["--machine", "cray"], "there are desmos (4x2x2x2)"),
            (vec!["--torus", "2x2", "--set", "hop=fast"], "hop = `fast`: give a time"),
            (vec!["--torus", "2x2", "--nodes", "0-4"], "its nodes are 0 to 3"),
            (vec!["--torus", "2x2", "--cores", "a"], "such as --cores 0-3,7"),
            (vec!["--torus", "2x2", "--memory-limit", "lots"], "such as 64M"),
            (vec!["--torus", "2x2", "--fault", "link 5,5 +X down"], "5,5"),
            (vec!["--torus", "2x2", "--channels", "2000"], "1 to 1024"),
            (vec!["--torus", "2x2", "--metrics-links", "9"], "--metrics ADDR"),
            (vec!["--torus", "2x2", "--metrics-open"], "--metrics ADDR"),
            (vec!["--torus", "2x2", "--udp-engine", "syscall"], "--cluster FILE"),
            (vec!["--torus", "2x2", "--limit", "jobs"], "write NAME=N"),
            (vec!["--torus", "2x2", "--limit", "jobs=0"], "give 1 to 1024"),
            (vec!["--torus", "2x2", "--limit", "seats=1"], "no limit `seats`"),
        ] {
            let text = resolve(&args(&words)).expect_err("must be refused").to_string();
            assert!(text.contains(part), "{words:?} gave: {text}");
        }
    }

    #[test]
    fn sizes_read_back_what_they_show() {
        for bytes in [0, 1, 1023, 1 << 10, 3 << 20, 3 << 29, 1 << 30, 5 << 40] {
            assert_eq!(parse_size(&angara_net::units::show_bytes(bytes)), Ok(bytes));
        }
        assert!(parse_size("18446744073709551615T").is_err());
    }
}
