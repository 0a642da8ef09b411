//! `angara verbs`: what its command is told, how it ends, and what is left then. The library that it preloads is a stand-in
//! in most of these, in a copy of the installed layout; those of [`Peers`] have the real one, and two processes that check
//! every byte of each other.

use angara_tests::daemon::Daemon;
use angara_tests::process::{PATIENCE, Running, poll_until};
use angara_tests::rng::Rng;
use angara_tests::{Finished, Test, tools};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A tree with what the command needs.
struct Tree<'t> {
    test: &'t Test,
    prefix: PathBuf,
}

impl<'t> Tree<'t> {
    /// With programs alone.
    fn without_library(test: &'t Test) -> Tree<'t> {
        let prefix = test.file("prefix");
        fs::create_dir_all(prefix.join("bin")).expect("made");
        for program in ["angara", "angara-verbs", "fabricd"] {
            tools::copy_program(&tools::tool(program), &prefix.join("bin").join(program));
        }
        Tree { test, prefix }
    }

    fn new(test: &'t Test) -> Tree<'t> {
        let tree = Tree::without_library(test);
        fs::create_dir_all(tree.library().parent().expect("below the prefix")).expect("made");
        let source = test.file("stand_in.c");
        fs::write(&source, "int angara_stand_in;\n").expect("written");
        let mut cc = test.command("cc");
        cc.args(["-shared", "-fPIC"]).arg(&source).arg("-o").arg(tree.library());
        test.run(cc).success();
        tree
    }

    fn library(&self) -> PathBuf {
        self.prefix.join("lib/angara/libibverbs.so.1")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.test.command(self.prefix.join("bin/angara"));
        command.arg("verbs").args(words);
        command
    }

    fn run(&self, words: &[&str]) -> Finished {
        self.test.run(self.command(words))
    }

    /// No private daemon has left its directory.
    fn nothing_is_left(&self) {
        let run = self.test.runtime_dir();
        let left: Vec<PathBuf> = fs::read_dir(run.parent().expect("below the test's directory"))
            .expect("there")
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| *path != run)
            .collect();
        assert_eq!(left, Vec::<PathBuf>::new());
        self.test.assert_clean();
    }
}

/// What `env` printed.
fn variables(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once('=')).collect()
}

#[test]
fn the_command_has_its_status_and_leaves_nothing() {
    let test = Test::new("verbs-status");
    let tree = Tree::new(&test);
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        let done = tree.run(&["--", "sh", "-c", script]);
        assert_eq!((done.code(), done.stderr.as_str()), (code, ""), "{script}: {done}");
    }
    // The daemon answers while the command runs, on the network that was asked for.
    let done = tree.run(&["--mesh", "3x2", "--fault", "link 0,0 +X down", "--", "sh", "-c", "angara status"]);
    assert_eq!(done.code(), 127, "the command has the user's PATH: {done}");
    let angara = tools::tool("angara");
    let angara = angara.to_str().expect("UTF-8");
    let done = tree.run(&["--mesh", "3x2", "--fault", "link 0,0 +X down", "--", angara, "status"]).success();
    for part in ["private", "mesh:3x2", "link 0,0 +X down"] {
        assert!(done.stdout.contains(part), "{part}: {done}");
    }
    tree.nothing_is_left();
}

#[test]
fn the_command_is_told_of_its_adapters() {
    let test = Test::new("verbs-environment");
    let tree = Tree::new(&test);
    let mut command = tree.command(&["--", "env"]);
    command.env("ANGARA_NODE", "3").env("ANGARA_VERBS_VERBOSE", "1").env("LD_PRELOAD", "libm.so.6");
    let done = test.run(command).success();
    let plain = variables(&done.stdout);
    assert_eq!(plain["LD_PRELOAD"], format!("{}:libm.so.6", tree.library().display()));
    assert!(plain["ANGARA_RUNTIME_DIR"].contains("/angara-run-"), "{done}");
    for (name, value) in [
        ("ANGARA_DOMAIN", "verbs"),
        ("ANGARA_DOMAIN_PATH", "auto"),
        ("ANGARA_VERBS_NAME", "angara0"),
        ("ANGARA_VERBS_LINK", "infiniband"),
        ("ANGARA_VERBS_MEMORY", "auto"),
    ] {
        assert_eq!(plain[name], value, "{name}");
    }
    for name in ["ANGARA_NODE", "ANGARA_VERBS_VERBOSE"] {
        assert!(!plain.contains_key(name), "{name} was not chosen: {done}");
    }
    let line = "-v --path ring --nodes 0,5 --name mlx5_0 --link-layer ethernet --memory agent --domain mine -- env";
    let done = tree.run(&line.split(' ').collect::<Vec<_>>()).success();
    assert!(done.stderr.contains("started a private fabricd") && done.stderr.contains("torus 2x2x2"), "{done}");
    let chosen = variables(&done.stdout);
    for (name, value) in [
        ("ANGARA_DOMAIN", "mine"),
        ("ANGARA_DOMAIN_PATH", "ring"),
        ("ANGARA_NODE", "0,5"),
        ("ANGARA_VERBS_NAME", "mlx5_0"),
        ("ANGARA_VERBS_LINK", "ethernet"),
        ("ANGARA_VERBS_MEMORY", "agent"),
        ("ANGARA_VERBS_VERBOSE", "1"),
    ] {
        assert_eq!(chosen[name], value, "{name}");
    }
    // Times other than the chip's are for packets.
    let done = tree.run(&["--set", "hop=60ns", "--", "env"]).success();
    assert_eq!(variables(&done.stdout)["ANGARA_DOMAIN_PATH"], "ring");
    assert!(done.stderr.contains("acts on packets"), "{done}");
    // The loader has put it there.
    let done = tree.run(&["--", "cat", "/proc/self/maps"]).success();
    assert!(done.stdout.contains(tree.library().to_str().expect("UTF-8")), "{done}");
    tree.nothing_is_left();
}

#[test]
fn without_a_command_there_is_a_shell() {
    let test = Test::new("verbs-shell");
    let tree = Tree::new(&test);
    let script = test.file("input");
    fs::write(&script, "echo in $ANGARA_DOMAIN\nexit 5\n").expect("written");
    let mut command = tree.command(&[]);
    command.env("SHELL", "/bin/sh").stdin(fs::File::open(&script).expect("there"));
    let done = test.run(command);
    assert_eq!((done.code(), done.stdout.as_str()), (5, "in verbs\n"), "{done}");
    assert!(done.stderr.contains("/bin/sh ends with `exit`"), "{done}");
    let mut command = tree.command(&[]);
    command.env("SHELL", "/no/such/shell");
    test.run(command).failure(&["/no/such/shell", "set SHELL"]);
    tree.nothing_is_left();
}

/// A command that runs until something ends it.
fn waiting(tree: &Tree, script: &str) -> Running {
    let running = tree.test.spawn(tree.command(&["--", "sh", "-c", script]));
    running.expect_line("here");
    running
}

#[test]
fn signals_reach_the_command() {
    let test = Test::new("verbs-signals");
    let tree = Tree::new(&test);
    // Ctrl-C of a terminal would reach both; this one is for the command that was started alone.
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let running = waiting(&tree, "echo here; exec sleep 300");
        running.signal(signal);
        let done = running.wait(PATIENCE);
        assert_eq!(done.code(), code, "{signal:?}: {done}");
        tree.nothing_is_left();
    }
    // It may end in its own way.
    let running = waiting(&tree, "trap 'exit 3' TERM; echo here; while :; do sleep 0.1; done");
    running.signal(Signal::TERM);
    let done = running.wait(PATIENCE);
    assert_eq!(done.code(), 3, "{done}");
    // Nobody waits for a command whose `angara verbs` was killed.
    let running = waiting(&tree, "echo here; exec sleep 300");
    running.signal(Signal::KILL);
    assert_eq!(running.wait(PATIENCE).code(), 137);
    test.wait_gone(PATIENCE).expect("daemon and command end");
    tree.nothing_is_left();
}

#[test]
fn what_the_command_leaves_behind_is_named() {
    let test = Test::new("verbs-left");
    let tree = Tree::new(&test);
    let done = tree.run(&["--", "sh", "-c", "sleep 300 > /dev/null 2>&1 & echo $!"]).success();
    let pid = done.stdout.trim();
    for part in [&format!("sleep (pid {pid}) still runs"), "no adapter from now on", "--runtime-dir"] {
        assert!(done.stderr.contains(part), "{part}: {done}");
    }
    assert!(poll_until(|| test.named("fabricd").is_empty()), "the daemon stays");
    let left = test.named("sleep");
    assert_eq!(left.len(), 1, "it is not ours to end");
    left[0].signal(Signal::KILL);
    test.wait_gone(PATIENCE).expect("nothing else is left");
    tree.nothing_is_left();
    // One that ends by itself is no news.
    let done = tree.run(&["--", "sh", "-c", "sleep 0.2 &"]).success();
    assert_eq!(done.stderr, "", "{done}");
}

#[test]
fn a_daemon_that_is_there_stays() {
    let test = Test::new("verbs-daemon");
    let tree = Tree::new(&test);
    test.run(tree.command(&["--env"])).failure(&["no daemon listens", "fabricd --torus"]);
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let dir = daemon.dir().to_str().expect("UTF-8").to_string();
    let done = tree.run(&["--runtime-dir", &dir, "--", "env"]).success();
    assert_eq!(variables(&done.stdout)["ANGARA_RUNTIME_DIR"], dir);
    tree.run(&["--runtime-dir", &dir, "--node", "4", "--", "true"]).failure(&["no node 4", "0 to 3"]);

    // As a user's shell reads it, quoted or not.
    let angara = tree.prefix.join("bin/angara");
    for eval in [r#"eval "$("$0" verbs --env --node 3)""#, r#"eval $("$0" verbs --env --node 3)"#] {
        let mut sh = test.command("sh");
        sh.args(["-ec", &format!("{eval}; {eval}; env")]).arg(&angara);
        let done = test.run(sh).success();
        let set = variables(&done.stdout);
        assert_eq!(set["LD_PRELOAD"], tree.library().to_str().expect("UTF-8"), "once: {done}");
        for (name, value) in [("ANGARA_RUNTIME_DIR", &dir[..]), ("ANGARA_DOMAIN", "verbs"), ("ANGARA_NODE", "3")] {
            assert_eq!(set[name], value, "{name}: {done}");
        }
    }
    let mut sh = test.command("sh");
    sh.args(["-c", r#""$0" verbs --env > /dev/full"#]).arg(&angara);
    test.run(sh).failure(&["cannot write to standard output"]);
    assert_eq!(daemon.status().nodes, 4, "it goes on");
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn refusals_name_the_remedy() {
    let test = Test::new("verbs-refused");
    let tree = Tree::new(&test);
    let fails = |words: &[&str], code: i32, parts: &[&str]| {
        let done = tree.run(words).failure(parts);
        assert_eq!((done.code(), done.stdout.as_str()), (code, ""), "{words:?}: {done}");
    };
    fails(&["--env", "--", "true"], 2, &["`true` is to be started", "leave --env or the command out"]);
    fails(&["--env", "--torus", "4x4"], 2, &["--torus", "leave --torus out"]);
    fails(&["--runtime-dir", "/x", "--machine", "desmos"], 2, &["--machine", "leave --runtime-dir out"]);
    fails(&["--name", "../x", "true"], 2, &["../x", "letters, digits"]);
    fails(&["--memory", "direct", "--path", "ring", "true"], 2, &["--path ring sends everything", "leave one"]);
    fails(&["--node", "8", "true"], 2, &["no node 8", "0 to 7"]);
    fails(&["--domain", "a b", "true"], 2, &["a b", "1 to 64 letters"]);
    fails(&["--fault", "link 9,9,9 +X down", "true"], 2, &["9,9,9"]);
    fails(&["--memory", "fast", "true"], 2, &["fast", "agent"]);
    fails(&["--nodse", "1", "true"], 2, &["--nodse", "--nodes"]);
    fails(&["no-such-program"], 127, &["no program `no-such-program` in PATH", "spelling"]);
    fails(&["/etc/passwd"], 126, &["not executable"]);

    // A static program is started all the same; it may start others.
    let (source, fixed) = (test.file("fixed.c"), test.file("fixed"));
    fs::write(&source, "int main(void) { return 4; }\n").expect("written");
    let mut cc = test.command("cc");
    cc.arg("-static").arg(&source).arg("-o").arg(&fixed);
    test.run(cc).success();
    let done = tree.run(&[fixed.to_str().expect("UTF-8")]).failure(&["linked statically", "link it dynamically"]);
    assert_eq!(done.code(), 4, "{done}");
    tree.nothing_is_left();
}

#[test]
fn a_missing_library_is_named_with_how_to_build_it() {
    let test = Test::new("verbs-none");
    let tree = Tree::without_library(&test);
    let installed = tree.prefix.join("lib/angara/libibverbs.so.1");
    let done = tree.run(&["true"]).failure(&[installed.to_str().expect("UTF-8"), "install the whole tree"]);
    assert_eq!(done.code(), 1, "{done}");
    // As cargo leaves it beside what it has built.
    let list = format!("angara: {}\n", tools::root().join("commands/angara/src/main.rs").display());
    let built = test.file("target/release");
    fs::create_dir_all(&built).expect("made");
    for program in ["angara", "angara-verbs"] {
        tools::copy_program(&tools::tool(program), &built.join(program));
    }
    fs::write(built.join("angara.d"), list).expect("written");
    let at = |path: &Path| path.join("libangara-verbs").display().to_string();
    let mut command = test.command(built.join("angara"));
    command.args(["verbs", "true"]);
    test.run(command).failure(&[&at(&built), "cargo build --release -p angara-verbs-library"]);
    tree.nothing_is_left();
}

/// Rounds of who does not end by himself.
pub(super) const FOR_EVER: &str = "100000000";
/// How a process ends one of whose completions has failed.
pub(super) const FAILED: i32 = 3;

/// Pairs of processes at a daemon, with adapters of the real library.
struct Peers<'t> {
    test: &'t Test,
    daemon: Daemon,
    options: &'t [&'t str],
    pairs: usize,
}

impl<'t> Peers<'t> {
    fn new(test: &'t Test, options: &'t [&'t str]) -> Peers<'t> {
        Peers { test, daemon: Daemon::start(test, &["--torus", "2x2"]), options, pairs: 0 }
    }

    /// One of a pair, by whatever starts it.
    fn start(&self, starts: &[&str], number: u32, rounds: &str) -> Running {
        let mut command = self.test.angara(["verbs", "--runtime-dir"]);
        command.arg(self.daemon.dir()).args(self.options).arg("--").args(starts);
        command.arg(tools::example("verbs_peer")).arg(self.place()).args([&number.to_string(), rounds]);
        self.test.spawn(command)
    }
    fn place(&self) -> PathBuf {
        self.test.file(&format!("pair{}", self.pairs))
    }

    /// Two that begin anew.
    fn pair(&mut self, starts: [&[&str]; 2], rounds: &str) -> [Running; 2] {
        self.pairs += 1;
        fs::create_dir_all(self.place()).expect("made");
        [0, 1].map(|number| self.start(starts[number as usize], number, rounds))
    }

    /// Two talk to each other as if nothing had been.
    fn all_is_well(&mut self) {
        for one in self.pair([&[], &[]], "15") {
            one.wait(PATIENCE).success();
        }
    }

    fn end(self) {
        self.daemon.shutdown();
        self.test.assert_clean();
    }
}

/// The process itself, which says its number first.
pub(super) fn pid_of(running: &Running) -> rustix::process::Pid {
    let line = running.expect_line("pid ");
    let number = line.trim_start_matches("pid ").trim().parse().expect("a number");
    rustix::process::Pid::from_raw(number).expect("a process")
}

pub(super) fn kill(pid: rustix::process::Pid) {
    // It may have ended by itself.
    let _ = rustix::process::kill_process(pid, Signal::KILL);
}

#[test]
fn two_processes_find_every_byte_of_each_other() {
    let ways: [&[&str]; 4] = [&[], &["--path", "ring"], &["--memory", "agent"], &["--nodes", "1,2"]];
    for options in ways {
        let test = Test::new("verbs-peers");
        let mut peers = Peers::new(&test, options);
        peers.all_is_well();
        peers.end();
    }
}

#[test]
fn who_is_killed_is_an_error_to_the_other_and_nothing_is_left() {
    let mut rng = Rng::for_test("verbs", 0x6b69_6c6c);
    let ways: [&[&str]; 3] = [&[], &["--path", "ring"], &["--memory", "agent"]];
    for options in ways {
        let test = Test::new("verbs-killed");
        let mut peers = Peers::new(&test, options);
        for _ in 0..4 {
            let both = peers.pair([&[], &[]], FOR_EVER);
            let pids = both.each_ref().map(pid_of);
            both.iter().for_each(|one| drop(one.expect_line("goes")));
            std::thread::sleep(Duration::from_millis(rng.below(50)));
            let victim = rng.below(2) as usize;
            kill(pids[victim]);
            for (number, one) in both.into_iter().enumerate() {
                let done = one.wait(PATIENCE);
                let expected = if number == victim { 137 } else { FAILED };
                assert_eq!(done.code(), expected, "{options:?}, {victim} is killed: {done}");
            }
        }
        // While they open their adapters, or look for each other.
        for _ in 0..6 {
            let both = peers.pair([&[], &[]], FOR_EVER);
            let pids = both.each_ref().map(pid_of);
            std::thread::sleep(Duration::from_millis(rng.below(40)));
            pids.into_iter().for_each(kill);
            both.into_iter().for_each(|one| assert_eq!(one.wait(PATIENCE).code(), 137));
        }
        peers.all_is_well();
        peers.end();
    }
}

#[test]
fn a_daemon_that_dies_ends_in_errors() {
    for options in [&[][..], &["--path", "ring"]] {
        let test = Test::new("verbs-orphans");
        let mut peers = Peers::new(&test, options);
        let both = peers.pair([&[], &[]], FOR_EVER);
        both.iter().for_each(|one| drop(one.expect_line("goes")));
        peers.daemon.pid().signal(Signal::KILL);
        for one in both {
            let done = one.wait(PATIENCE);
            assert_eq!(done.code(), FAILED, "{options:?}: {done}");
        }
    }
}

#[test]
fn a_second_preload_does_no_harm() {
    let test = Test::new("verbs-twice");
    let mut peers = Peers::new(&test, &[]);
    let second = test.file("second.so");
    tools::copy_program(&tools::tool("libangara-verbs"), &second);
    let preload = format!("LD_PRELOAD={0}:{0}:{1}", tools::tool("libangara-verbs").display(), second.display());
    for one in peers.pair([&["env", &preload], &[]], "8") {
        one.wait(PATIENCE).success();
    }
    peers.end();
}

#[test]
fn who_sees_other_process_numbers_is_reached_all_the_same() {
    const APART: [&str; 4] = ["unshare", "--map-root-user", "--pid", "--fork"];
    let test = Test::new("verbs-apart");
    let mut probe = test.command(APART[0]);
    probe.args(&APART[1..]).arg("true");
    if !tools::have("unshare") || test.run(probe).code() != 0 {
        println!("-- skipped: no namespaces of processes");
        return;
    }
    let mut peers = Peers::new(&test, &[]);
    for starts in [[&APART[..], &[]], [&APART, &APART]] {
        for one in peers.pair(starts, "15") {
            one.wait(PATIENCE).success();
        }
    }
    peers.end();
}
