//! 32 PEs on 4 hosts with 8 nodes each: the conformance programs and all examples, over good networks and bad ones.
//! Results must be right, and the counters of the trunks must tell what the network did.
//!
//! Hosts are network namespaces joined by a bridge where that is allowed, and 127.0.0.1 to 127.0.0.4.
//! `CLUSTER_MATRIX=all cargo test --release -p angara-tests cluster_matrix::` runs every program on every network
//! in both places, `CLUSTER_MATRIX=drop=10%` on that one. Otherwise a test takes the networks that it names and deals
//! programs out to them, without the two that take longest; only the good network between namespaces gets all others.

use angara_protocol::msg::ClusterStatus;
use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::{Test, python, tools};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// A bit of everything.
const MIXED: &str = "drop=1% reorder=1% dup=1% corrupt=1% delay=200us";
/// What trunks do to datagrams, and what the counters must say afterwards.
const NETWORKS: [(&str, Explained); 7] = [
    ("", Explained { lost: 0.0, refused: 0.0, only: None }),
    ("drop=1%", Explained { lost: 0.01, refused: 0.0, only: None }),
    ("drop=10%", Explained { lost: 0.1, refused: 0.0, only: None }),
    ("reorder=5%", Explained { lost: 0.0, refused: 0.0, only: None }),
    ("dup=5%", Explained { lost: 0.0, refused: 0.05, only: Some("replayed") }),
    // A bit of the header makes it a stranger's or another session's, any other a forgery.
    ("corrupt=5%", Explained { lost: 0.05, refused: 0.05, only: None }),
    (MIXED, Explained { lost: 0.02, refused: 0.02, only: None }),
];
/// Longest a program may take on a busy machine with a bad network.
const LIMIT: Duration = Duration::from_secs(280);

/// Shares of the datagrams sent.
#[derive(Clone, Copy)]
struct Explained {
    lost: f64,
    refused: f64,
    /// The one cause of refusals.
    only: Option<&'static str>,
}

/// A program with its arguments and what it says once if all is well.
struct Program {
    name: &'static str,
    file: PathBuf,
    arguments: Vec<String>,
    /// PEs and where they are.
    places: &'static str,
    says: &'static str,
}

impl Program {
    fn new(name: &'static str, file: PathBuf, arguments: &str, says: &'static str) -> Program {
        let arguments = arguments.split_whitespace().map(String::from).collect();
        Program { name, file, arguments, places: "-n 32", says }
    }
}

fn programs() -> Vec<Program> {
    let conformance = |name: &'static str| {
        // 128 threads on a core or two: few rounds.
        let flags: &[&str] = if name == "threads" { &["-pthread", "-DROUNDS=5"] } else { &[] };
        let file = tools::compile_with(&format!("tests/c/openshmem/{name}.c"), flags);
        Program::new(name, file, "", " passed")
    };
    let names =
        ["rma", "amo", "sync", "fences", "collectives", "teams", "interpose", "generics", "extensions", "threads"];
    let mut all: Vec<Program> = names.into_iter().map(conformance).collect();
    for (name, arguments, says) in [
        ("hello", "", "PE 31 of 32"),
        ("ring", "", "rounds over 32 PEs"),
        ("heat2d", "", "on 32 PEs"),
        ("isort", "", "0 misplaced"),
        ("gups", "200", "0 not restored"),
        ("matmul", "", "0 wrong elements"),
        ("bench_shmem", "1 broadcast", "sample"),
    ] {
        all.push(Program::new(name, tools::compile(&format!("examples/c/{name}.c")), arguments, says));
    }
    all.push(Program::new("driver", tools::driver(), "", "from PE 30: ok"));
    all.push(Program::new("rust heat", tools::tool("heat"), "16 16", " ok"));
    all.push(Program::new("rust check", tools::example("check"), "", "ok"));
    all.push(Program::new("pgas check", tools::example("pgas_check"), "", "ok"));
    if let Some((python, _)) = python::environment() {
        let mut jacobi = Program::new("jacobi.py", python.clone(), "", "a straight line");
        // Its steps grow with the square of the PEs: two nodes of every host are enough.
        jacobi.places = "-n 8 --map file:places";
        jacobi.arguments = vec![tools::root().join("examples/python/jacobi.py").display().to_string(), "1".into()];
        all.push(jacobi);
    }
    all
}

/// Sums over the trunks of all hosts.
#[derive(Clone, Default, Debug)]
struct Sums {
    sent: u64,
    received: u64,
    replays: u64,
    refused: BTreeMap<String, u64>,
}

impl Sums {
    fn of(cluster: &Cluster<'_>) -> Sums {
        let mut sums = Sums::default();
        for host in 0..cluster.len() {
            let status: ClusterStatus = cluster.status(host);
            if status.strangers > 0 {
                *sums.refused.entry("stranger".into()).or_default() += status.strangers;
            }
            for peer in status.peers {
                sums.sent += peer.sent.datagrams;
                sums.received += peer.received.datagrams;
                sums.replays += peer.replays;
                peer.refused.into_iter().for_each(|(why, n)| *sums.refused.entry(why).or_default() += n);
            }
        }
        sums
    }
    fn since(&self, before: &Sums) -> Sums {
        let refused = self.refused.iter().map(|(why, n)| (why.clone(), n - before.refused.get(why).unwrap_or(&0)));
        Sums {
            sent: self.sent - before.sent,
            received: self.received - before.received,
            replays: self.replays - before.replays,
            refused: refused.filter(|(_, n)| *n > 0).collect(),
        }
    }
}

/// True if a share is about what it should be: the network is random, and machines are busy.
fn about(share: f64, wanted: f64) -> bool {
    if wanted == 0.0 { share < 0.003 } else { share > wanted / 2.0 && share < wanted * 2.0 }
}

fn explain(network: &str, wanted: Explained, sums: &Sums) {
    let sent = sums.sent as f64;
    assert!(sums.sent > 1000, "`{network}`: hardly anything crossed: {sums:?}");
    let refused: u64 = sums.refused.values().sum();
    let lost = sums.sent as f64 - sums.received as f64;
    assert!(about(lost / sent, wanted.lost), "`{network}`: {lost} of {sent} datagrams did not arrive: {sums:?}");
    match wanted.refused {
        0.0 => assert_eq!(refused, 0, "`{network}`: {sums:?}"),
        share => assert!(about(refused as f64 / sent, share), "`{network}`: {refused} of {sent} refused: {sums:?}"),
    }
    if let Some(only) = wanted.only {
        assert!(sums.refused.keys().all(|why| why == only), "`{network}`: {sums:?}");
    }
    assert!(wanted.lost == 0.0 || sums.replays as f64 > lost / 4.0, "`{network}`: who sent the lost again? {sums:?}");
}

/// Of each `deal` programs a network gets one, unless all are asked for.
fn run_networks(name: &str, hosts: Hosts, deal: usize, usual: &[&str]) {
    let engine = "syscall";
    let asked = std::env::var("CLUSTER_MATRIX").ok();
    let all = asked.is_some();
    let test = Test::new(name);
    let cluster = Cluster::start(&test, "4x4x2", hosts, &["--udp-engine", engine]);
    assert!((0..4).all(|host| cluster.status(host).engine == engine));
    let programs = programs();
    // Blocks are columns: neighbours on the wire are on different hosts.
    let places: String = (0..4).chain(20..24).map(|node| format!("{node}\n")).collect();
    std::fs::write(test.file("places"), places).expect("ours");
    let networks: Vec<_> = NETWORKS
        .into_iter()
        .filter(|(network, _)| match asked.as_deref() {
            None => usual.contains(network),
            Some(one) => one == "all" || one == *network,
        })
        .collect();
    assert!(!networks.is_empty(), "CLUSTER_MATRIX is `all` or one of {:?}", NETWORKS.map(|n| n.0));
    for (turn, (network, wanted)) in networks.iter().enumerate() {
        let start = Instant::now();
        if !network.is_empty() {
            cluster.fault(&format!("trunk all {network} seed={turn}"));
        }
        let before = Sums::of(&cluster);
        let whole = name == "matrix-netns" && network.is_empty();
        // As long as all others together: one has four threads in each PE, one asks the daemons for thousands of counters.
        let fits = |p: &Program| !["threads", "extensions"].contains(&p.name);
        let part = |(i, p): &(usize, &Program)| all || (fits(p) && (whole || i % deal == turn));
        let mut failures = Vec::new();
        for (_, program) in programs.iter().enumerate().filter(part) {
            let begun = Instant::now();
            let mut options = vec!["--heap", "16M", "--timeout", "200"];
            options.extend(program.places.split(' '));
            let mut command: Command = cluster.run(&options, &program.file);
            command.args(&program.arguments);
            match test.spawn(command).try_wait(LIMIT) {
                Ok(done) if done.code() == 0 && done.stdout.contains(program.says) => {}
                Ok(done) => failures.push(done.to_string()),
                Err(still) => failures.push(format!("{} hangs\n{}", program.name, still.so_far())),
            }
            println!("  `{network}` {}: {:.1?}", program.name, begun.elapsed());
        }
        assert!(failures.is_empty(), "`{network}`: {} runs failed:\n\n{}", failures.len(), failures.join("\n\n"));
        let sums = Sums::of(&cluster).since(&before);
        println!("`{network}`: {:.1?}, {sums:?}", start.elapsed());
        explain(network, *wanted, &sums);
        if !network.is_empty() {
            cluster.fault("trunk all clear");
        }
    }
    cluster.shutdown();
    test.assert_clean();
}

/// What every run of the tests takes.
#[test]
fn over_a_network_that_does_a_bit_of_everything_results_are_right_and_counters_explain() {
    let hosts = Hosts::namespaces(4).unwrap_or_else(|why| {
        println!("on loopback: no network namespaces with veth and a bridge here: {why}");
        Hosts::loopback(4)
    });
    run_networks("matrix-mixed", hosts, 4, &[MIXED]);
}

#[test]
fn all_networks_between_namespaces() {
    match Hosts::namespaces(4) {
        Ok(hosts) => run_networks("matrix-netns", hosts, 3, &["", "drop=10%", "corrupt=5%"]),
        Err(why) => println!("skipped: no network namespaces with veth and a bridge here: {why}"),
    }
}

#[test]
fn all_networks_between_loopback_addresses() {
    run_networks("matrix-loopback", Hosts::loopback(4), 2, &["reorder=5%", MIXED]);
}
