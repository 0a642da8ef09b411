//! Jobs with node sets of their own, as their users see them: `angara run --alloc`.

use angara_net::{Link, NodeSet};
use angara_protocol::msg::{Alloc, JobSpec, Path, Reply, Report, Request, Status};
use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::daemon::{Daemon, spec};
use angara_tests::process::{Running, poll_until, wait_readable};
use angara_tests::web::http;
use angara_tests::{Test, tools};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longest a program may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

fn run(test: &Test, daemon: &Daemon, args: &[&str]) -> Command {
    let mut command = test.angara(["run", "--quiet", "--runtime-dir"]);
    command.arg(daemon.dir()).args(args);
    command
}

/// A job that exchanges data and checks it until the file `end` is there.
fn churn(test: &Test, mut command: Command) -> Running {
    command.arg("--").arg(tools::compile("tests/c/churn.c")).arg("200").arg(test.file("end"));
    let job = test.spawn(command);
    job.expect_line("churning");
    job
}

/// Ends jobs; their programs must have found all data right.
fn end(test: &Test, jobs: impl IntoIterator<Item = Running>) {
    std::fs::write(test.file("end"), "").expect("the directory is writable");
    for job in jobs {
        let done = job.wait(LIMIT).success();
        assert!(done.stdout.contains("churned"), "{done}");
    }
    std::fs::remove_file(test.file("end")).expect("it is there");
}

/// The sets of the jobs that run.
fn sets(status: &Status) -> Vec<NodeSet> {
    status.jobs.iter().map(|job| job.set.clone().expect("every job has a set")).collect()
}

fn read(report: &PathBuf) -> Report {
    let text = std::fs::read_to_string(report).expect("the report is written");
    serde_json::from_str(&text).expect("a report")
}

fn links_of(report: &PathBuf) -> BTreeSet<Link> {
    let report = read(report);
    report.links.iter().filter(|l| !l.load.is_empty()).map(|l| Link { node: l.node, dir: l.dir }).collect()
}

fn inside(set: &NodeSet, shape: &angara_net::torus::Shape, links: &BTreeSet<Link>) -> bool {
    let holds = |node| set.held().any(|held| held == node);
    links.iter().all(|l| holds(l.node) && shape.neighbour(l.node, l.dir).is_some_and(holds))
}

#[test]
fn two_jobs_share_no_link_on_either_path() {
    for path in ["ring", "direct"] {
        let test = Test::new("sets-two");
        // Node 1,0 is dead from the beginning.
        let daemon = Daemon::start(&test, &["--torus", "4x4", "--fault", "node 1,0 down"]);
        let reports = ["first.json", "second.json"].map(|name| test.file(name));
        let jobs: Vec<Running> = [("5", &reports[0]), ("6", &reports[1])]
            .map(|(pes, report)| {
                let mut command = run(&test, &daemon, &["-n", pes, "--alloc", "auto", "--path", path, "--report"]);
                command.arg(report);
                churn(&test, command)
            })
            .into();
        let status = daemon.status();
        let sets = sets(&status);
        assert_eq!((sets[0].nodes.len(), sets[1].nodes.len()), (5, 6), "{path}");
        assert!(sets[0].held().all(|n| n != 1 && sets[1].held().all(|m| m != n && m != 1)), "{path}: {sets:?}");
        let shown = test.run({
            let mut command = test.angara(["status", "--runtime-dir"]);
            command.arg(daemon.dir());
            command
        });
        let shown = shown.success().stdout;
        let held = sets[0].size() + sets[1].size();
        assert!(shown.contains("set of job 1: 5 nodes: ") && shown.contains("set of job 2: 6 nodes: "), "{shown}");
        // The dead one is none of them.
        assert!(shown.contains(&format!("{} of 16 nodes work and are in no set", 15 - held)), "{shown}");
        assert_eq!(shown.matches("; table made ").count(), 2, "{shown}");
        end(&test, jobs);
        for (report, set) in reports.iter().zip(&sets) {
            assert_eq!(read(report).set.as_ref(), Some(set), "{path}");
            let mut command = test.angara(["report"]);
            command.arg(report);
            let text = test.run(command).success().stdout;
            assert!(text.contains(&format!("node set: {}\n", set.show(&status.shape))), "{text}");
        }
        let links = reports.each_ref().map(links_of);
        assert!(!links[0].is_empty() && links[0].is_disjoint(&links[1]), "{path}: {links:?}");
        assert!(inside(&sets[0], &status.shape, &links[0]) && inside(&sets[1], &status.shape, &links[1]), "{path}");
        // Everything is free again.
        let all = test.run({
            let mut command = run(&test, &daemon, &["-n", "15", "--alloc", "closed"]);
            command.args(["--", "/bin/true"]);
            command
        });
        assert_eq!(all.code(), 0, "{all}");
        daemon.shutdown();
        test.assert_clean();
    }
}

/// Packets that all links have carried.
fn carried(daemon: &Daemon) -> u64 {
    match daemon.control().ask(&Request::Counters) {
        Ok(Reply::Counters { links }) => links.iter().flat_map(|l| &l.load).map(|(_, load)| load.packets).sum(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn links_that_die_and_return_leave_the_other_job_alone() {
    let test = Test::new("sets-faults");
    let daemon = Daemon::start(&test, &["--torus", "4x4"]);
    let report = test.file("second.json");
    // A tree over a link that dies is unloaded, and its job ends; messages go around.
    let six = ["-n", "6", "--alloc", "auto", "--path", "ring", "--collectives", "p2p"];
    let first = churn(&test, run(&test, &daemon, &six));
    let mut command = run(&test, &daemon, &six);
    command.arg("--report").arg(&report);
    let second = churn(&test, command);
    let status = daemon.status();
    let sets = sets(&status);
    let within = |l: &Link| inside(&sets[0], &status.shape, &BTreeSet::from([*l]));
    let links: Vec<Link> = Link::all(status.shape).filter(within).collect();
    let mut control = daemon.control();
    for link in links.iter().take(6) {
        let at = link.show(&status.shape);
        control.fault(&format!("link {at} down")).expect("the link is there");
        // The jobs go on while it is dead.
        let before = carried(&daemon);
        assert!(poll_until(|| carried(&daemon) > before + 1000), "nothing moves while link {at} is down");
        control.fault(&format!("link {at} up")).expect("the link is there");
    }
    end(&test, [first, second]);
    assert!(inside(&sets[1], &status.shape, &links_of(&report)));
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn metrics_and_the_page_have_sets_and_count_their_tables() {
    let test = Test::new("sets-figures");
    let daemon = Daemon::start(&test, &["--torus", "4x4", "--web", "127.0.0.1:0"]);
    let to = http::address(&daemon.status().web.expect("a page"));
    let token = std::fs::read_to_string(daemon.dir().join("read.token")).expect("a token");
    let get = |path: &str| http::ask(to, "GET", path, &[&format!("Authorization: Bearer {}", token.trim())], "");
    let metric = |name: &str| {
        let text = get("/metrics").body;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok());
        value.unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    assert_eq!(metric("angara_nodes_without_set"), 16);
    // Boxes of five nodes have six, so one is a transit node.
    // Without trees: one that loses a link ends its job.
    let job = |pes: &str| {
        let args = ["-n", pes, "--alloc", "first-fit-box", "--barrier", "dissemination", "--collectives", "p2p"];
        let mut command = run(&test, &daemon, &args);
        command.arg("--").arg(tools::compile("tests/c/steps.c")).stdin(Stdio::piped());
        let job = test.spawn(command);
        job.expect_line("ready");
        job
    };
    let mut jobs = [job("5"), job("4")];
    let status = daemon.status();
    let sets = sets(&status);
    let left = 16 - sets[0].size() - sets[1].size();
    assert!(!sets[0].transit.is_empty() && left > 0, "{sets:?}");
    assert!(poll_until(|| metric("angara_nodes_without_set") == left as u64), "{sets:?}");
    let made = |job: &angara_protocol::msg::JobStatus| job.tables_made.expect("it has a set");
    for (job, set) in status.jobs.iter().zip(&sets) {
        let of = |name: &str| metric(&format!("angara_job_set_{name}{{job=\"{}\"}}", job.job));
        assert_eq!((of("nodes"), of("transit_nodes")), (set.nodes.len() as u64, set.transit.len() as u64));
        assert_eq!(of("tables_made_total"), made(job));
        let told: NodeSet = serde_json::from_str(&get(&format!("/api/job/{}/set", job.job)).body).expect("a set");
        assert_eq!(told, *set);
    }
    assert_eq!(get("/api/job/77/set").status, 404);
    assert_eq!(metric("angara_links_down{direction=\"+X\"}"), 0, "links out of a set are down");
    assert!(daemon.status().nodes_without_set == left as u32);

    // A link of the first set, then a node of none.
    let link = Link::all(status.shape).find(|l| inside(&sets[0], &status.shape, &BTreeSet::from([*l])));
    let at = link.expect("five nodes have links").show(&status.shape);
    let free = (0..16).find(|n| sets.iter().all(|set| set.held().all(|held| held != *n))).expect("one is left");
    let mut control = daemon.control();
    control.fault(&format!("link {at} down")).expect("the link is there");
    control.fault(&format!("node {} down", status.shape.show(status.shape.coords(free)))).expect("a node");
    let tables = || daemon.status().jobs.iter().map(made).collect::<Vec<_>>();
    let before: Vec<u64> = status.jobs.iter().map(made).collect();
    assert_eq!(tables(), [before[0] + 1, before[1]], "{at}");
    assert!(poll_until(|| metric("angara_job_set_tables_made_total{job=\"1\"}") == before[0] + 1), "{at}");
    assert_eq!(metric("angara_job_set_tables_made_total{job=\"2\"}"), before[1]);
    assert!(poll_until(|| metric("angara_nodes_without_set") == left as u64 - 1));
    for job in &mut jobs {
        job.take_stdin().write_all(b"quit\n").expect("the job reads");
    }
    jobs.into_iter().for_each(|job| drop(job.wait(LIMIT).success()));
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn what_cannot_be_is_said_with_a_remedy() {
    let test = Test::new("sets-refused");
    let daemon = Daemon::start(&test, &["--torus", "4x2"]);
    let refused = |args: &[&str], parts: &[&str]| {
        let mut command = run(&test, &daemon, args);
        command.args(["--", "/bin/true"]);
        let done = test.run(command);
        assert_ne!(done.code(), 0, "{done}");
        parts.iter().for_each(|part| assert!(done.stderr.contains(part), "no `{part}` in {done}"));
    };
    refused(&["-n", "2", "--alloc", "tetris"], &["tetris", "utilisation"]);
    refused(&["-n", "2", "--alloc", "auto", "--map", "random:1"], &["--alloc", "--map"]);
    let job = churn(&test, run(&test, &daemon, &["-n", "4", "--alloc", "auto"]));
    std::fs::write(test.file("map"), "6\n7\n").expect("written");
    let map = format!("file:{}", test.file("map").display());
    refused(&["-n", "2", "--map", &map], &["job 1 (churn) has a node set", "leave --map out"]);
    refused(&["-n", "5", "--alloc", "auto"], &["no 5 nodes", "4 of 8 nodes", "wait for another job"]);
    end(&test, [job]);
    assert!(poll_until(|| daemon.status().jobs.is_empty()));
    let job = churn(&test, run(&test, &daemon, &["-n", "4"]));
    refused(&["-n", "2", "--alloc", "auto"], &["has no node set", "may cross any node"]);
    end(&test, [job]);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn a_job_beside_sets_gets_one_too_and_is_told() {
    let test = Test::new("sets-beside");
    let daemon = Daemon::start(&test, &["--torus", "4x2"]);
    let first = churn(&test, run(&test, &daemon, &["-n", "1", "--alloc", "auto"]));
    let mut plain = test.angara(["run", "-n", "3", "--runtime-dir"]);
    plain.arg(daemon.dir());
    let second = churn(&test, plain);
    second.expect_error("nodes of their own, so this one got some, too");
    let sets = sets(&daemon.status());
    assert!(sets.len() == 2 && sets[0].held().all(|n| sets[1].held().all(|m| m != n)), "{sets:?}");
    end(&test, [first, second]);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn a_second_job_goes_to_free_nodes_first() {
    let test = Test::new("sets-second");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let mut control = daemon.control();
    let placements: Vec<Vec<u32>> =
        (0..3).map(|_| control.create(spec(2, Path::Auto)).expect("there is room").placement).collect();
    assert_eq!(placements, [[0, 1], [2, 3], [0, 1]]);
    daemon.shutdown();
    test.assert_clean();
}

/// Threads of the daemon that do something beside the others.
fn aside(daemon: &Daemon) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.pid().pid)).expect("it runs");
    let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "aside").count()
}

#[test]
fn a_long_search_holds_up_nobody_and_ends_with_whoever_asked() {
    let test = Test::new("sets-search");
    let daemon = Daemon::start(&test, &["--torus", "16x16x16"]);
    let request = Request::JobCreate(JobSpec { alloc: Some(Alloc::Utilisation), ..spec(257, Path::Auto) });
    let mut searching = daemon.control();
    searching.send(format!("{}\n", serde_json::to_string(&request).expect("plain data")).as_bytes()).expect("sent");
    assert!(poll_until(|| aside(&daemon) == 1), "nobody searches");
    // Whoever asks for the status need not wait for the answer to the other.
    assert!(daemon.status().jobs.is_empty());
    let stream = searching.into_stream();
    assert!(!wait_readable(&stream, Duration::ZERO), "the search was over before anybody could ask");
    drop(stream);
    assert!(poll_until(|| aside(&daemon) == 0), "it still searches");
    assert!(daemon.status().jobs.is_empty());
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn jobs_of_a_cluster_have_sets_over_its_hosts() {
    let test = Test::new("sets-cluster");
    let cluster = Cluster::start(&test, "4x4", Hosts::loopback(4), &[]);
    let job = |host: usize, args: &[&str]| {
        let mut command = cluster.run_on(host, args, &tools::compile("tests/c/churn.c"));
        command.arg("200").arg(test.file("end"));
        let job = test.spawn(command);
        job.expect_line("churning");
        job
    };
    let first = job(0, &["-n", "6", "--alloc", "auto"]);
    let second = job(3, &["-n", "7", "--alloc", "fragmentation"]);
    let all = || cluster.control(1).status();
    assert!(poll_until(|| all().jobs.len() == 2), "h1 knows both");
    let sets = sets(&all());
    assert!(sets[0].held().all(|n| sets[1].held().all(|m| m != n)), "{sets:?}");
    // A link of the first one, which all hosts agree on.
    let status = all();
    let link = Link::all(status.shape).find(|l| inside(&sets[0], &status.shape, &BTreeSet::from([*l])));
    let at = link.expect("six nodes have links").show(&status.shape);
    cluster.fault(&format!("link {at} down"));
    cluster.fault(&format!("link {at} up"));
    end(&test, [first, second]);
    cluster.shutdown();
    test.assert_clean();
}
