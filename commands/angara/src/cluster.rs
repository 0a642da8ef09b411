//! `angara cluster`: writing a cluster file, and what a daemon knows of its cluster.

use crate::shared::WhereArgs;
use crate::shared::out_file;
use angara_cluster::{self, Address, Cluster, blocks};
use angara_control::daemon::{Control, block_on, runtime_dir, unexpected};
use angara_control::error::{self, Failed, say};
use angara_control::report::table::{Table, bytes, count};
use angara_net::Link;
use angara_net::torus::Shape;
use angara_protocol::msg::{ClusterStatus, LinkReport, PeerStatus, Reply, Request};
use angara_protocol::print::{plain_line, ranges};
use clap::{Args, Subcommand};
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `angara cluster`.
#[derive(Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write a cluster file, with blocks of nodes that few links cross, and a key
    Init(InitArgs),
    /// Show the trunks of a daemon to the other hosts: state, round-trip time, loss, replays, throughput
    Status(StatusArgs),
    /// Make a key, or have a daemon read its keys again
    Keys(KeysArgs),
}

/// Arguments of `angara cluster keys`.
#[derive(Args)]
struct KeysArgs {
    #[command(subcommand)]
    action: KeysAction,
}

#[derive(Subcommand)]
enum KeysAction {
    /// Write a new random key to a file of mode 0600
    New {
        /// The file, which must not exist yet
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Have the daemon of this host read the cluster file's keys again and use them from now on
    Reload(WhereArgs),
}

/// Arguments of `angara cluster init`.
#[derive(Args)]
struct InitArgs {
    /// Torus over all hosts, such as 4x4x2
    #[arg(long, value_name = "SHAPE", required_unless_present = "mesh", conflicts_with = "mesh")]
    torus: Option<Shape>,
    /// Mesh (no wrap-around links), such as 4x4
    #[arg(long, value_name = "SHAPE")]
    mesh: Option<String>,
    /// Hosts, separated by commas: names, addresses (10.0.0.1, [fd00::1]:7000) or NAME=ADDRESS
    #[arg(long, value_name = "A,B,C", required = true, value_delimiter = ',')]
    hosts: Vec<String>,
    /// The file to write; the key goes beside it, as NAME.key
    #[arg(long, value_name = "FILE", default_value = "cluster.toml", value_parser = out_file())]
    out: PathBuf,
}

/// Arguments of `angara cluster status`.
#[derive(Args)]
struct StatusArgs {
    /// Check that the daemon has read this cluster file
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    #[command(flatten)]
    at: WhereArgs,
    /// Seconds over which throughput is measured
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
    /// Also list the links that cross between hosts
    #[arg(long)]
    links: bool,
    /// Machine-readable
    #[arg(long)]
    json: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (0.01..=3600.0).contains(&s) => Ok(s),
        _ => Err("give seconds from 0.01 to 3600".into()),
    }
}

/// Does it.
pub(crate) fn main(args: ClusterArgs) -> Result<u8, Failed> {
    match args.action {
        Action::Init(args) => init(&args),
        Action::Status(args) => status(&args),
        Action::Keys(KeysArgs { action: KeysAction::New { file } }) => new_key(&file),
        Action::Keys(KeysArgs { action: KeysAction::Reload(at) }) => reload_keys(&at),
    }
}

fn new_key(file: &Path) -> Result<u8, Failed> {
    let shown = file.display();
    match angara_cluster::create_key(file) {
        Ok(true) => Ok(0),
        Ok(false) => Err(Failed::usage(format!("{shown} exists already"), "give the new key a file of its own")),
        Err(e) => Err(Failed::runtime(format!("cannot write {shown}: {e}"), "give another FILE")),
    }
}

fn reload_keys(at: &WhereArgs) -> Result<u8, Failed> {
    let dir = runtime_dir(&at.runtime_dir);
    let reply = block_on(async { Control::connect(&dir)?.request(&Request::KeysReload).await })?;
    match reply {
        Reply::Keys { accepted, current } => {
            let accepted: Vec<String> = accepted.iter().map(u8::to_string).collect();
            say!("accepting keys {}, sending with {current}", accepted.join(", "))?;
            Ok(0)
        }
        other => Err(unexpected(&other)),
    }
}

fn init(args: &InitArgs) -> Result<u8, Failed> {
    let shape = match (&args.torus, &args.mesh) {
        (Some(shape), _) => Ok(*shape),
        (None, Some(sizes)) => format!("mesh:{sizes}").parse(),
        (None, None) => "".parse(),
    };
    let shape: Shape = shape.map_err(|e| Failed::usage(e.to_string(), "write --torus 4x4x2 or --mesh 4x4"))?;
    let hosts = hosts(&args.hosts)?;
    let cut = blocks::cut(shape, hosts.len()).ok_or_else(|| {
        Failed::usage(
            format!("{} hosts, but {shape} has only {} nodes", hosts.len(), shape.nodes()),
            "give a larger network or fewer hosts: every host plays at least one node",
        )
    })?;
    let key = args.out.with_extension("key");
    let name = key.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let cannot = |what: &Path| {
        let what = what.display().to_string();
        move |e: std::io::Error| Failed::runtime(format!("cannot write {what}: {e}"), "give another --out FILE")
    };
    if key == args.out {
        return Err(Failed::usage(
            format!("{} would be the name of the key file too", key.display()),
            "give --out another ending, such as .toml",
        ));
    }
    let text = angara_cluster::render(shape, &hosts, &cut, &name).map_err(cannot(&args.out))?;
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&args.out);
    let mut file = file.map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Failed::usage(
            format!("{} exists already", args.out.display()),
            "remove it first, or give another --out FILE; its daemons must all get the new one",
        ),
        _ => cannot(&args.out)(e),
    })?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(cannot(&args.out))?;
    let new = angara_cluster::create_key(&key).map_err(cannot(&key))?;
    // What was written is what every daemon will read.
    let written = Cluster::load(&args.out).map_err(|e| Failed::runtime(e.to_string(), "please report this"))?;
    written.load_keys().map_err(|e| Failed::runtime(e.to_string(), ""))?;
    error::print(told(&written, &args.out, &key, new))?;
    Ok(0)
}

/// `A`, `10.0.0.1`, `A=10.0.0.1:7000`: a name and an address each.
fn hosts(texts: &[String]) -> Result<Vec<(String, Address)>, Failed> {
    let mut hosts: Vec<(String, Address)> = Vec::new();
    for text in texts {
        let (name, address) = text.split_once('=').unwrap_or((text, text));
        let address: Address = address
            .parse()
            .map_err(|e| Failed::usage(format!("--hosts: {e}"), "write --hosts node1,node2=10.0.0.2"))?;
        if name.is_empty() || hosts.iter().any(|(n, a)| n == name || *a == address) {
            return Err(Failed::usage(
                format!("--hosts: `{text}` has no name, or its name or address is there twice"),
                "give every host its own name and address, such as a=127.0.0.1:7001,b=127.0.0.1:7002",
            ));
        }
        hosts.push((name.into(), address));
    }
    Ok(hosts)
}

fn told(cluster: &Cluster, file: &Path, key: &Path, new: bool) -> String {
    let crossings = cluster.crossings();
    let mut out = format!(
        "{}: {} over {} hosts, {} of {} links cross between hosts\n",
        file.display(),
        cluster.shape,
        cluster.hosts.len(),
        crossings.len(),
        Link::all(cluster.shape).count(),
    );
    let mut table = Table::new(&["host", "address", ">nodes", "which", ">crossing links"]);
    for (id, host) in cluster.ids().zip(&cluster.hosts) {
        table.row(&[
            host.name.clone(),
            host.addresses[0].to_string(),
            host.nodes.len().to_string(),
            ranges(&host.nodes),
            crossings.iter().filter(|c| c.from_host == id || c.to_host == id).count().to_string(),
        ]);
    }
    out.push_str(&table.render());
    let made = if new { "a new key, mode 0600" } else { "was there already and stays the key" };
    out.push_str(&format!("{}: {made}\n", key.display()));
    out.push_str("\nEvery host needs both files, the key readable for the user of its fabricd alone:\n");
    for host in cluster.hosts.iter().skip(1) {
        let to = &host.addresses[0].host;
        let to = if to.contains(':') { format!("[{to}]") } else { to.clone() };
        out.push_str(&format!("  scp -p {} {} {to}:\n", file.display(), key.display()));
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    out.push_str(&format!(
        "Then, as host NAME:\n  fabricd --cluster {name} --host NAME --check-config\n  fabricd --cluster {name} --host NAME\n"
    ));
    out
}

/// Two looks at a daemon, some time apart.
#[derive(Serialize)]
struct Seen {
    runtime_dir: PathBuf,
    status: ClusterStatus,
    /// By peer.
    throughput: BTreeMap<String, Throughput>,
    links: Vec<LinkReport>,
}

/// Bytes per second.
#[derive(Serialize, Clone, Copy, PartialEq, Debug)]
struct Throughput {
    sent: f64,
    received: f64,
}

fn status(args: &StatusArgs) -> Result<u8, Failed> {
    let dir = runtime_dir(&args.at.runtime_dir);
    let seen = block_on(async {
        let mut control = Control::connect(&dir)?;
        control.status().await?;
        let first = ask(&mut control).await?;
        tokio::time::sleep(Duration::from_secs_f64(args.interval)).await;
        let status = ask(&mut control).await?;
        let links = match control.request(&Request::Counters).await? {
            Reply::Counters { links } => links,
            other => return Err(unexpected(&other)),
        };
        let throughput = throughput(&first, &status);
        Ok(Seen { runtime_dir: dir.clone(), status, throughput, links })
    })?;
    let cluster = match &args.cluster {
        Some(file) => Some(same_file(file, &seen.status)?),
        None => None,
    };
    if args.json {
        error::print_json(&seen)?;
    } else {
        error::print(show(&seen))?;
        if args.links {
            error::print(crossing_links(&seen, cluster)?)?;
        }
    }
    Ok(if seen.status.peers.iter().all(|p| p.up) { 0 } else { 1 })
}

async fn ask(control: &mut Control) -> Result<ClusterStatus, Failed> {
    match control.request(&Request::Cluster).await? {
        Reply::Cluster(status) => Ok(status),
        other => Err(unexpected(&other)),
    }
}

/// The file, if it is the one the daemon has.
fn same_file(file: &Path, status: &ClusterStatus) -> Result<Cluster, Failed> {
    let cluster = load(file)?;
    let theirs = Path::new(&status.file);
    if cluster.path != theirs && std::fs::read(&cluster.path).ok() != std::fs::read(theirs).ok() {
        return Err(Failed::runtime(
            format!("the daemon has read {}, which differs from {}", theirs.display(), file.display()),
            "give the --runtime-dir of the daemon that has, or restart it with --cluster",
        ));
    }
    Ok(cluster)
}

fn load(file: &Path) -> Result<Cluster, Failed> {
    Cluster::load(file).map_err(|e| Failed::usage(e.to_string(), "mend the file; `angara cluster init` writes one"))
}

fn throughput(first: &ClusterStatus, second: &ClusterStatus) -> BTreeMap<String, Throughput> {
    let seconds = second.at_us.saturating_sub(first.at_us) as f64 / 1e6;
    let rate = |then: u64, now: u64| if seconds > 0.0 { now.saturating_sub(then) as f64 / seconds } else { 0.0 };
    let pairs = first.peers.iter().zip(&second.peers);
    pairs
        .map(|(then, now)| {
            let sent = rate(then.sent.bytes, now.sent.bytes);
            (now.host.clone(), Throughput { sent, received: rate(then.received.bytes, now.received.bytes) })
        })
        .collect()
}

fn show(seen: &Seen) -> String {
    let s = &seen.status;
    let mut out = format!(
        "host {} of {}, daemon in {} (start {:x}, {} engine)\n",
        plain_line(&s.host),
        plain_line(&s.file),
        plain_line(&seen.runtime_dir.to_string_lossy()),
        s.start,
        plain_line(&s.engine)
    );
    let titles = [
        "host",
        "address",
        "state",
        ">links",
        ">RTT",
        ">loss",
        ">replays",
        ">sent/s",
        ">received/s",
        ">refused",
        ">MTU",
    ];
    let mut table = Table::new(&titles);
    for p in &s.peers {
        let rate = seen.throughput.get(&p.host).copied().unwrap_or(Throughput { sent: 0.0, received: 0.0 });
        table.row(&[
            p.host.clone(),
            p.address.clone(),
            format!("{} {:.0} s", state(p), p.since_s),
            p.links.to_string(),
            if p.rtt_us > 0.0 { format!("{:.0} us", p.rtt_us) } else { "-".into() },
            format!("{:.2} %", p.loss * 100.0),
            count(p.replays),
            bytes(rate.sent.round() as u64),
            bytes(rate.received.round() as u64),
            count(p.refused.values().sum()),
            p.mtu.to_string(),
        ]);
    }
    out.push_str(&table.render());
    out.push_str(&agreement(s));
    for p in &s.peers {
        out.push_str(&troubles(p));
    }
    if s.strangers > 0 {
        out.push_str(&format!("  {} datagrams came from nobody in the cluster file\n", count(s.strangers)));
    }
    out
}

/// Returns what becomes of a trunk and the host at its end.
fn state(p: &PeerStatus) -> &'static str {
    match (p.up, p.reached, p.member) {
        (true, _, true) => "up",
        (true, ..) => "up, host waits",
        (false, true, _) => "DOWN, host reached",
        (false, false, _) => "DOWN",
    }
}

/// Returns what the hosts have agreed on, and what they do without.
fn agreement(s: &ClusterStatus) -> String {
    let mut out = format!("change {}, led by {}", s.change, plain_line(&s.leader));
    out.push_str(match s.settled {
        true => ": all hosts in reach agree\n",
        false => ": a new one is being agreed on\n",
    });
    if let Some(seconds) = s.holding_s {
        out.push_str(&format!("  on hold for {seconds:.3} s: nothing moves until the hosts have agreed\n"));
    }
    for p in s.peers.iter().filter(|p| !p.member) {
        out.push_str(&format!("  {} takes no part: its nodes are out of service\n", plain_line(&p.host)));
    }
    for [a, b] in &s.dead_trunks {
        let (a, b) = (plain_line(a), plain_line(b));
        out.push_str(&format!("  trunk {a} - {b} carries nothing: its links are out of service\n"));
    }
    for p in &s.peers {
        if let Some(via) = &p.via {
            out.push_str(&format!("  {} is reached over {}\n", plain_line(&p.host), plain_line(via)));
        }
    }
    out
}

fn troubles(p: &PeerStatus) -> String {
    let mut out = String::new();
    if !p.up && !p.why.is_empty() {
        out.push_str(&format!("  {}: {}\n", plain_line(&p.host), plain_line(&p.why)));
    }
    if p.nonsense > 0 {
        let n = count(p.nonsense);
        out.push_str(&format!(
            "  {}: frames and messages that make no sense: {n}; run one version of fabricd everywhere\n",
            plain_line(&p.host)
        ));
    }
    if p.refused.values().any(|&n| n > 0) {
        let causes = p.refused.iter().filter(|(_, n)| **n > 0);
        let causes: Vec<String> = causes.map(|(cause, &n)| format!("{} {}", count(n), plain_line(cause))).collect();
        out.push_str(&format!("  {}: datagrams refused: {}\n", plain_line(&p.host), causes.join(", ")));
    }
    out
}

/// Counters of the links between hosts; needs the file, which says what crosses.
fn crossing_links(seen: &Seen, given: Option<Cluster>) -> Result<String, Failed> {
    let cluster = match given {
        Some(cluster) => cluster,
        None => load(Path::new(&seen.status.file))?,
    };
    let mut table =
        Table::new(&["from", "at", "dir", "to host", "at", ">packets", ">bytes", ">CRC errors", ">replays", ""]);
    let at = |node| cluster.shape.show(cluster.shape.coords(node));
    for c in cluster.crossings() {
        let (from, to) = (&cluster.hosts[c.from_host.index()].name, &cluster.hosts[c.to_host.index()].name);
        if *from != seen.status.host && *to != seen.status.host {
            continue;
        }
        let link = seen.links.iter().find(|l| l.node == c.node && l.dir == c.dir);
        let sum = |f: fn(&angara_abi::account::Load) -> u64| link.map_or(0, |l| l.load.values().map(f).sum());
        table.row(&[
            from.clone(),
            at(c.node),
            c.dir.to_string(),
            to.clone(),
            at(c.to),
            count(sum(|l| l.packets)),
            count(sum(|l| l.bytes)),
            count(link.map_or(0, |l| l.crc_errors)),
            count(link.map_or(0, |l| l.replays)),
            if link.is_some_and(|l| !l.up) { "down".into() } else { String::new() },
        ]);
    }
    Ok(table.render())
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_protocol::msg::Flow;

    #[test]
    fn hosts_are_names_addresses_or_both() {
        let texts = |list: &[&str]| list.iter().map(|t| t.to_string()).collect::<Vec<_>>();
        let read = hosts(&texts(&["a", "10.0.0.2", "c=[fd00::1]:7"])).unwrap();
        let shown: Vec<_> = read.iter().map(|(n, a)| format!("{n} {a}")).collect();
        assert_eq!(shown, ["a a:26290", "10.0.0.2 10.0.0.2:26290", "c [fd00::1]:7"]);
        for bad in [&["a", "a"][..], &["a=1.1.1.1", "b=1.1.1.1"], &["=1.1.1.1"], &["a b"], &[""]] {
            assert_eq!(hosts(&texts(bad)).unwrap_err().code, 2, "{bad:?}");
        }
    }

    fn peer(host: &str, bytes: u64) -> PeerStatus {
        PeerStatus {
            host: host.into(),
            via: Some("c".into()),
            reached: true,
            member: true,
            address: "10.0.0.2:26290".into(),
            links: 8,
            up: false,
            since_s: 3.0,
            why: "silent for 1 s".into(),
            session: 5,
            rtt_us: 0.0,
            loss: 0.015,
            mtu: 1500,
            sent: Flow { datagrams: bytes / 1000, bytes },
            received: Flow::default(),
            replays: 1234,
            backlog: 0,
            refused: [("forged".to_string(), 7), ("replayed".to_string(), 0)].into(),
            nonsense: 5,
        }
    }

    fn status(at_us: u64, bytes: u64) -> ClusterStatus {
        ClusterStatus {
            file: "/etc/angara/cluster.toml".into(),
            host: "a".into(),
            start: 1,
            at_us,
            engine: "uring".into(),
            peers: vec![peer("b", bytes)],
            strangers: 3,
            change: 12,
            leader: "a".into(),
            holding_s: Some(0.25),
            settled: false,
            dead_trunks: vec![["a".into(), "b".into()]],
        }
    }

    #[test]
    fn throughput_is_what_was_sent_between_two_looks() {
        let (first, second) = (status(1_000_000, 1000), status(1_500_000, 1000 + (1 << 20)));
        let rates = throughput(&first, &second);
        assert_eq!(rates["b"], Throughput { sent: (2 << 20) as f64, received: 0.0 });
        let shown = show(&Seen { runtime_dir: "/run/angara".into(), status: second, throughput: rates, links: vec![] });
        for part in ["change 12, led by a", "on hold for 0.250 s", "trunk a - b carries nothing", "b is reached over c"]
        {
            assert!(shown.contains(part), "no {part} in\n{shown}");
        }
        for part in [
            "DOWN, host reached 3 s",
            "1.50 %",
            "1 234",
            "2 MiB",
            "7 forged",
            "make no sense: 5",
            "silent for 1 s",
            "3 datagrams came from",
        ] {
            assert!(shown.contains(part), "no {part} in\n{shown}");
        }
        assert!(!shown.contains("0 replayed"), "{shown}");
    }
}
