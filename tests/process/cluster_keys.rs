//! Keys of a cluster that change while a job runs over its trunks.

use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::process::{PATIENCE, Running, poll_until};
use angara_tests::{Finished, Test, tools};
use rustix::process::Signal;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{ChildStdin, Stdio};

/// A job whose PE 0 on h0 does what it is told with PE 1, which is on h1.
struct Talk {
    job: Running,
    input: ChildStdin,
    said: u32,
}

impl Talk {
    fn start(cluster: &Cluster<'_>) -> Talk {
        let test = cluster.test;
        std::fs::write(test.file("map"), "0\n2\n").expect("written");
        let map = format!("file:{}", test.file("map").display());
        let mut command = cluster.run(&["-n", "2", "--heap", "16M", "--map", &map], &tools::compile("tests/c/steps.c"));
        command.stdin(Stdio::piped());
        let mut job = test.spawn(command);
        job.expect_line("ready 2");
        let input = job.take_stdin();
        Talk { job, input, said: 0 }
    }
    /// Memory goes there and back: what was put is what comes.
    fn check(&mut self) {
        self.said += 1;
        writeln!(self.input, "put 1 {0}\nget 1\nblock 1 {0}", self.said * 1000).expect("it reads");
        self.job.expect_line(&format!("get 1 = {}", self.said * 1000));
        let whole = || self.job.so_far().matches("block 1 whole").count() == self.said as usize;
        assert!(poll_until(whole), "{}", self.job.so_far());
    }
    fn end(mut self) {
        self.check();
        writeln!(self.input, "quit").expect("it reads");
        assert!(self.job.wait(PATIENCE).success().stdout.contains("bye"));
    }
}

fn reload(cluster: &Cluster<'_>, host: usize) -> Finished {
    let mut command = cluster.test.angara(["cluster", "keys", "reload", "--runtime-dir"]);
    command.arg(cluster.dir(host));
    cluster.test.run(command)
}

/// Changes the cluster file, which all hosts share.
fn edit(cluster: &Cluster<'_>, from: &str, to: &str) {
    let file = cluster.file(0);
    let text = std::fs::read_to_string(&file).expect("there");
    assert!(text.contains(from), "no `{from}` in:\n{text}");
    std::fs::write(file, text.replacen(from, to, 1)).expect("written");
}

#[test]
fn keys_change_while_a_job_runs() {
    let test = Test::new("cluster-keys");
    let cluster = Cluster::start(&test, "4x2", Hosts::loopback(2), &[]);
    let mut talk = Talk::start(&cluster);
    talk.check();
    let sessions = |host: usize| cluster.status(host).peers.iter().map(|p| p.session).collect::<Vec<_>>();
    let before = (sessions(0), sessions(1));

    // Add the new key everywhere, send with it everywhere, forget the old one everywhere: at no point do all
    // hosts have the same.
    let new = test.file("second.key");
    test.run(test.angara(["cluster", "keys", "new", new.to_str().expect("utf-8")])).success();
    assert_eq!(std::fs::metadata(&new).expect("made").permissions().mode() & 0o777, 0o600);
    test.run(test.angara(["cluster", "keys", "new", new.to_str().expect("utf-8")])).failure(&["exists already"]);
    let steps = [
        ("[[key]]", "[[key]]\nid = 2\nfile = \"second.key\"\n[[key]]", "accepting keys 1, 2, sending with 1"),
        ("current-key = 1", "current-key = 2", "accepting keys 1, 2, sending with 2"),
        ("[[key]]\nid = 1", "#", "accepting keys 2, sending with 2"),
    ];
    for (from, to, told) in steps {
        if to == "#" {
            let text = std::fs::read_to_string(cluster.file(0)).expect("there");
            let first = text.rfind("[[key]]").expect("the first key is the last one in the file");
            let end = first + text[first..].find("[[host]]").expect("hosts follow");
            std::fs::write(cluster.file(0), format!("{}{}", &text[..first], &text[end..])).expect("written");
        } else {
            edit(&cluster, from, to);
        }
        for host in [1, 0] {
            let done = reload(&cluster, host).success();
            assert_eq!(done.stdout.trim(), told, "h{host}");
            talk.check();
        }
    }
    talk.end();
    assert_eq!((sessions(0), sessions(1)), before, "a session began anew");
    let lost: u64 = (0..2).flat_map(|h| cluster.status(h).peers).flat_map(|p| p.refused.into_values()).sum();
    assert_eq!(lost, 0, "datagrams were refused");
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn what_is_wrong_with_new_keys_leaves_the_old_ones() {
    let test = Test::new("cluster-keys-bad");
    let mut cluster = Cluster::start(&test, "4x2", Hosts::loopback(2), &[]);
    let mut talk = Talk::start(&cluster);
    let key = test.file("cluster.key");
    let good = std::fs::read(&key).expect("there");
    let mode = |mode| std::fs::set_permissions(&key, PermissionsExt::from_mode(mode)).expect("ours");

    mode(0o644);
    reload(&cluster, 1).failure(&["has mode 0644", "chmod 600", "the keys in use stay"]);
    mode(0o600);
    std::fs::write(&key, "not a key").expect("written");
    reload(&cluster, 1).failure(&["does not hold 64 hexadecimal digits"]);
    std::fs::rename(&key, test.file("aside")).expect("renamed");
    reload(&cluster, 1).failure(&["cannot read the key file"]);
    edit(&cluster, "current-key = 1", "current-key = 7");
    reload(&cluster, 1).failure(&["current-key 7 is not the id of any"]);
    talk.check();

    // A signal does the same; whoever sent it finds the answer in the log.
    let daemon = cluster.daemon(1).expect("it runs");
    let log = |part: &str| poll_until(|| daemon.so_far().contains(part));
    daemon.signal(Signal::HUP);
    assert!(log("the keys were read again and refused; those in use stay"), "{}", daemon.so_far());
    talk.check();
    edit(&cluster, "current-key = 7", "current-key = 1");
    std::fs::rename(test.file("aside"), &key).expect("renamed");
    std::fs::write(&key, &good).expect("written");
    daemon.signal(Signal::HUP);
    assert!(log("keys read again"), "{}", daemon.so_far());
    talk.end();
    // A daemon without a cluster has none.
    let alone = angara_tests::daemon::Daemon::start(&test, &["--torus", "2"]);
    test.run(test.angara(["cluster", "keys", "reload"])).failure(&["is no part of a cluster"]);
    alone.shutdown();
    // One key on one side, another on the other: they never meet, and say why.
    let stranger = cluster.take(1);
    stranger.signal(Signal::TERM);
    stranger.wait(PATIENCE).success();
    let (own, text) = (cluster.own_file(1), std::fs::read_to_string(cluster.file(0)).expect("there"));
    std::fs::write(own, text.replace("cluster.key", "other.key")).expect("written");
    test.run(test.angara(["cluster", "keys", "new", test.file("other.key").to_str().expect("utf-8")])).success();
    cluster.spawn(1);
    let refused = || cluster.status(0).peers[0].refused.values().sum::<u64>() > 0;
    assert!(poll_until(refused) && !cluster.status(0).peers[0].up, "{:?}", cluster.status(0));
    std::fs::write(cluster.own_file(1), std::fs::read_to_string(test.file("cluster.toml")).expect("there"))
        .expect("written");
    reload(&cluster, 1).success();
    cluster.wait_up();
    cluster.shutdown();
    test.assert_clean();
}
