//! A cluster file from `angara cluster init` to `fabricd --check-config`, on addresses of this machine.

use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::{Finished, Test, tools};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn init(test: &Test, hosts: &str, out: &Path) -> Finished {
    let mut command = test.angara(["cluster", "init", "--torus", "4x4x2", "--hosts", hosts, "--out"]);
    command.arg(out);
    test.run(command)
}

fn check(test: &Test, file: &Path, host: &str) -> Finished {
    let mut command = test.command(tools::tool("fabricd"));
    command.args(["--check-config", "--host", host, "--cluster"]).arg(file);
    test.run(command)
}

#[test]
fn a_cluster_file_that_is_missing_or_wrong_is_said_to_be_that() {
    let test = Test::new("cluster-missing");
    let run = |file: &Path| {
        let mut command = test.angara(["run", "-n", "2", "--cluster"]);
        command.arg(file).arg("true");
        test.run(command)
    };
    let done = run(&test.file("none.toml")).failure(&["--cluster", "none.toml", "No such file"]);
    assert_eq!(done.code(), 2, "{done}");
    std::fs::write(test.file("empty.toml"), "").expect("written");
    run(&test.file("empty.toml")).failure(&["--cluster", "empty.toml"]);
    test.assert_clean();
}

#[test]
fn a_new_cluster_says_as_many_crossing_links_as_its_status() {
    let test = Test::new("cluster-links");
    let cluster = Cluster::start(&test, "4x2", Hosts::loopback(2), &[]);
    let mut again = test.angara(["cluster", "init", "--torus", "4x2", "--hosts", "h0=127.0.0.1,h1=127.0.0.2", "--out"]);
    again.arg(test.file("again.toml"));
    let done = test.run(again).success();
    assert_eq!(cluster.status(0).peers[0].links, 8);
    assert!(done.stdout.contains("8 of 32 links cross between hosts"), "{done}");
    for host in ["h0", "h1"] {
        let line = done.stdout.lines().find(|line| line.trim_start().starts_with(host));
        assert!(line.is_some_and(|line| line.ends_with(" 8")), "{done}");
    }
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn a_new_cluster_is_valid_and_its_key_is_private() {
    let test = Test::new("cluster-init");
    let (file, key) = (test.file("c.toml"), test.file("c.key"));
    let done = init(&test, "a=127.0.0.1,b=127.0.0.2,c=127.0.0.3,d=127.0.0.4", &file).success();
    assert!(done.stdout.contains("64 of 192 links cross") && done.stdout.contains("scp -p"), "{done}");
    let mode = |p: &Path| std::fs::metadata(p).expect("written").permissions().mode() & 0o777;
    assert_eq!(mode(&key), 0o600);
    let secret = std::fs::read(&key).expect("ours");
    for host in ["a", "b", "c", "d"] {
        let done = check(&test, &file, host).success();
        assert!(done.stdout.contains("8 hosted here") && done.stdout.contains("configuration is valid"), "{done}");
    }
    // Neither file is overwritten.
    init(&test, "a,b", &file).failure(&["exists already"]);
    std::fs::remove_file(&file).expect("ours");
    let done = init(&test, "127.0.0.1:7001,127.0.0.1:7002,[::1]:7003", &file).success();
    assert!(done.stdout.contains("stays the key"), "{done}");
    assert_eq!(std::fs::read(&key).expect("ours"), secret);
    // A key that others may read stops the daemon, too.
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o640)).expect("ours");
    let done = check(&test, &file, "127.0.0.1:7001");
    assert!(done.stdout.contains("has mode 0640") && done.stdout.contains("chmod 600"), "{done}");
    assert_eq!(done.code(), 2, "{done}");
    test.assert_clean();
}

#[test]
fn trouble_of_a_cluster_file_is_named() {
    let test = Test::new("cluster-check");
    let file = test.file("c.toml");
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let here = format!("127.0.0.1:{}", taken.local_addr().expect("bound").port());
    // Set aside for documentation, so nobody's own address.
    init(&test, &format!("a={here},b=192.0.2.7"), &file).success();
    let done = check(&test, &file, "b");
    assert!(done.stdout.contains("192.0.2.7:26290 is not an address of this machine"), "{done}");
    assert_eq!(done.code(), 2, "{done}");
    let done = check(&test, &file, "a");
    assert!(done.stdout.contains(&format!("{here} is in use")), "{done}");
    check(&test, &file, "x").failure(&["has no host `x`; its hosts are a, b"]);
    let text = std::fs::read_to_string(&file).expect("ours");
    for (from, to, part) in [
        ("0,0,0..1,3,1", "0,0,0..2,3,1", "host `b` and host `a` both have nodes"),
        ("0,0,0..1,3,1", "0,0,0..0,3,1", "no host has nodes"),
        ("name = \"b\"", "nmae = \"b\"", "unknown field `nmae`"),
    ] {
        assert!(text.contains(from), "{from} in\n{text}");
        std::fs::write(&file, text.replace(from, to)).expect("ours");
        check(&test, &file, "a").failure(&["c.toml:", part]);
    }
    init(&test, "a,b", &test.file("none/c.toml")).failure(&["cannot write", "--out"]);
    let more: Vec<String> = (0..33).map(|i| format!("h{i}")).collect();
    init(&test, &more.join(","), &test.file("d.toml")).failure(&["33 hosts, but 4x4x2 has only 32 nodes"]);
    test.assert_clean();
}

#[test]
fn a_daemon_outside_a_cluster_says_so() {
    let test = Test::new("cluster-none");
    let daemon = angara_tests::daemon::Daemon::start(&test, &["--torus", "2x2"]);
    test.run(test.angara(["cluster", "status"])).failure(&["no part of a cluster", "--cluster FILE"]);
    daemon.shutdown();
    test.assert_clean();
}
