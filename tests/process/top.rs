//! `angara top`: once as text, and as a user sees it in a terminal.

use angara_tests::daemon::Daemon;
use angara_tests::process::{Running, poll_until};
use angara_tests::{Test, tools};

/// A daemon, and a job that sends through its links until it is ended.
fn at_work(test: &Test) -> (Daemon, Running) {
    let daemon = Daemon::start(test, &["--torus", "2x2"]);
    let program = tools::compile("tests/c/endless.c");
    let mut command = test.angara(["run", "-q", "-n", "4", "--path", "ring", "--timeout", "300", "--"]);
    command.arg(program);
    let job = test.spawn(command);
    assert!(poll_until(|| daemon.status().jobs.iter().any(|job| job.attached == 4)), "the job does not start");
    (daemon, job)
}

#[test]
fn once_prints_jobs_and_the_hottest_links() {
    let test = Test::new("top-once");
    let (_daemon, job) = at_work(&test);
    let text = test.run(test.angara(["top", "--once", "--interval", "0.5", "--links", "3"])).success().stdout;
    for part in ["torus 2x2", "no faults", "endless", "packets/s", "+X", "more links"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // By rate, so the first link has carried something in between.
    let first = text.lines().skip_while(|line| !line.contains("packets/s")).nth(1).expect("a link");
    // Behind link, target, and bytes with their unit.
    let packets = first.split_whitespace().nth(4).expect("packets a second");
    assert_ne!(packets, "0", "{text}");
    let only = test.run(test.angara(["top", "--once", "--interval", "0.1", "--filter", "+Y"])).success().stdout;
    assert!(only.contains("+Y") && !only.contains("+X"), "{only}");
    drop(job);
}

#[test]
fn without_a_terminal_or_a_daemon_it_says_what_to_do() {
    let test = Test::new("top-none");
    test.run(test.angara(["top", "--once"])).failure(&["no daemon listens", "fabricd --torus"]);
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    test.run(test.angara(["top"])).failure(&["no terminal", "--once"]);
    test.run(test.angara(["top", "--interval", "0"])).failure(&["`0`: give seconds"]);
    daemon.shutdown();
}

/// True if a command is there; not every one knows `--version`.
fn have(name: &str, option: &str) -> bool {
    std::process::Command::new(name).arg(option).output().is_ok_and(|done| done.status.success())
}

/// What a user sees of `angara top` in a terminal of tmux.
struct Screen<'t> {
    test: &'t Test,
}

impl Screen<'_> {
    fn tmux(&self, words: &[&str]) -> String {
        let mut command = self.test.command("tmux");
        command.arg("-S").arg(self.test.file("tmux")).args(["-f", "/dev/null"]).args(words);
        self.test.run(command).success().stdout
    }

    fn expect(&self, parts: &[&str]) -> String {
        let mut seen = String::new();
        let found = poll_until(|| {
            seen = self.tmux(&["capture-pane", "-p", "-t", "top"]);
            parts.iter().all(|part| seen.contains(part))
        });
        assert!(found, "{parts:?} did not come:\n{seen}");
        seen
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys", "-t", "top"], keys].concat());
    }
}

#[test]
fn in_a_terminal_it_sorts_filters_pauses_and_leaves_it_clean() {
    if !have("tmux", "-V") {
        eprintln!("note: no tmux here, so nothing is drawn");
        return;
    }
    let test = Test::new("top-tmux");
    let (daemon, job) = at_work(&test);
    let screen = Screen { test: &test };
    let angara = tools::tool("angara");
    let shell = format!("sh -c '{} top --interval 0.2; echo ended with $?; exec sleep 300'", angara.display());
    screen.tmux(&["new-session", "-d", "-x", "110", "-y", "30", "-s", "top", &shell]);
    screen.expect(&["torus 2x2", "endless", "█", "sort: rate", "links, by rate"]);
    screen.keys(&["s"]);
    screen.expect(&["sort: total", "links, by total"]);
    screen.keys(&["/", "+", "Y", "Enter"]);
    let seen = screen.expect(&["filter: +Y", "0,0+Y"]);
    assert!(!seen.contains("0,0+X"), "{seen}");
    // A fault that is made elsewhere is seen here.
    test.run(test.angara(["fault", "link", "0,0", "+Y", "down"])).success();
    screen.expect(&["faults: link 0,0 +Y down", "DOWN"]);
    screen.keys(&["Space"]);
    screen.expect(&["PAUSED"]);
    screen.keys(&["Space"]);
    screen.keys(&["?"]);
    screen.expect(&["keys; any of them closes this", "links, nodes, jobs"]);
    screen.keys(&["x", "/", "Escape"]);
    screen.expect(&["filter: none"]);
    screen.keys(&["s", "s", "Tab"]);
    screen.expect(&["view: nodes", "received/s", "4 nodes, by name", "last minute, all links"]);
    // A click as a terminal sends it: the first row of a table that fills the screen below two lines.
    screen.keys(&["-l", "\x1b[<0;5;5M"]);
    screen.expect(&["last minute, 0,0: "]);
    screen.keys(&["3"]);
    screen.expect(&["view: jobs", "came", "endless"]);
    screen.keys(&["1"]);
    screen.tmux(&["resize-window", "-t", "top", "-x", "60", "-y", "15"]);
    screen.expect(&["torus 2x2"]);
    drop(job);
    daemon.shutdown();
    screen.expect(&["q ends"]);
    screen.keys(&["q"]);
    screen.expect(&["ended with 0"]);
    screen.tmux(&["kill-server"]);
}
