//! The libfabric provider in a domain: peers that die, addresses that are out of date, memory that may not be read, progress
//! without calls. Where libfabric's headers or its library are not installed, nothing is tried.

use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::daemon::Daemon;
use angara_tests::process::{Running, poll_until};
use angara_tests::{Test, tools};
use rustix::process::Signal;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// More than goes through the window while a peer looks 20 times.
const LARGE: u32 = 64 << 20;
const WELL: &str = "ended well";
/// `FI_EIO`.
const FAILED: &str = "ended with 5";
/// `FI_ENOTCONN` of a receive.
const GONE_WHILE_AWAITED: &str = "ended with 107";
/// `FI_ENOTCONN`, and `FI_ECONNREFUSED` once somebody else sits there.
const GONE: [&str; 2] = ["begun 107", "begun 111"];

/// `tests/c/ofi/member.c`, if it can be compiled here.
fn program() -> Option<&'static PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| compiled("member"));
    if built.is_none() {
        println!("-- skipped: libfabric's headers (package libfabric-dev) are not installed");
    }
    built.as_ref()
}

/// A program of `tests/c/ofi`, where libfabric's headers are.
fn compiled(name: &str) -> Option<PathBuf> {
    if !PathBuf::from("/usr/include/rdma/fabric.h").exists() {
        return None;
    }
    let output = tools::profile_dir().join("angara-tests").join(format!("ofi-{name}-{}", std::process::id()));
    std::fs::create_dir_all(output.parent()?).expect("target directory is writable");
    let mut compile = Command::new("gcc");
    compile
        .args(["-O1", "-Wall", "-Werror", "-o"])
        .arg(&output)
        .arg(tools::root().join(format!("tests/c/ofi/{name}.c")));
    let done = compile.args(["-lfabric", "-lpthread"]).stdin(Stdio::null()).output().expect("gcc starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(output)
}

/// A process of the domain.
struct Member {
    running: Running,
    input: ChildStdin,
    address: String,
    told: u32,
}

impl Member {
    /// `rank` says at which node.
    fn start(test: &Test, program: &PathBuf, path: &str, rank: u32, mode: &str) -> Member {
        let mut command = Member::command(test, program, path, mode);
        command.env("PMI_RANK", rank.to_string());
        Member::begin_as(test, command)
    }
    /// One whose endpoint has a name: `mode` is followed by its service, and perhaps its host.
    fn command(test: &Test, program: &PathBuf, path: &str, mode: &str) -> Command {
        let mut command = test.command(program);
        command.args(mode.split(' ')).stdin(Stdio::piped()).env("ANGARA_DOMAIN_PATH", path);
        command.env("FI_PROVIDER_PATH", tools::profile_dir().join("lib/libfabric")).env("FI_LOG_LEVEL", "info");
        command
    }
    fn begin_as(test: &Test, command: Command) -> Member {
        let mut running = test.spawn(command);
        let input = running.take_stdin();
        let line = running.expect_line("address ");
        let address = line.rsplit(' ').next().expect("an address").to_owned();
        Member { running, input, address, told: 0 }
    }
    /// Its number is what the answer begins with.
    fn tell(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").expect("it reads");
        self.told += 1;
        format!("{}: ", self.told)
    }
    fn answer(&self, number: &str, wanted: &[&str]) {
        let line = self.running.expect_line(number);
        let answer = line.trim_start_matches(number);
        assert!(wanted.contains(&answer), "{answer:?} instead of {wanted:?}\n{}", self.running.so_far());
    }
    /// A command, and what may be answered.
    fn ask(&mut self, command: &str, wanted: &[&str]) {
        let number = self.tell(command);
        self.answer(&number, wanted);
    }
    fn meet(&mut self, address: &str) {
        self.ask(&format!("peer {address}"), &["inserted 1"]);
    }
    fn begin(&mut self, command: &str) {
        self.ask(command, &["begun 0"]);
    }
    /// It closes its endpoint or region, gives up the memory, and goes on.
    fn close(&mut self, how: &str, what: &str) {
        let number = self.tell(&format!("{how} {what}"));
        let line = self.running.expect_line(&format!("{number}closed, address "));
        self.address = line.rsplit(' ').next().expect("an address").to_owned();
    }
    /// It looks at its queue, and finds nothing there, until the other one has answered.
    fn goes_on_until(&mut self, other: &Member, number: &str, wanted: &str) {
        let answered = poll_until(|| {
            self.ask("look 30000", &["looked"]);
            other.running.has_line(number, Duration::from_millis(10))
        });
        assert!(answered, "no answer {number}\n{}", other.running.so_far());
        other.answer(number, &[wanted]);
    }
    fn kill(self) {
        self.running.signal(Signal::KILL);
        assert_eq!(self.running.wait(angara_tests::process::PATIENCE).code(), 128 + 9);
    }
    fn leave(self) -> String {
        drop(self.input);
        self.running.wait(angara_tests::process::PATIENCE).success().stderr
    }
}

/// Two members that know each other.
fn pair(test: &Test, program: &PathBuf, path: &str) -> (Member, Member) {
    let mut a = Member::start(test, program, path, 0, "manual");
    let mut b = Member::start(test, program, path, 1, "manual");
    a.meet(&b.address);
    b.meet(&a.address);
    (a, b)
}

/// The daemon has nothing left of the domain.
fn ends_clean(test: &Test, daemon: Daemon) {
    assert!(poll_until(|| daemon.status().jobs.is_empty()), "the domain stays without anybody in it");
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn what_waits_for_a_peer_that_is_killed_ends_with_an_error() {
    let Some(program) = program() else { return };
    for path in ["direct", "ring"] {
        let test = Test::new("ofi-killed");
        let daemon = Daemon::start(&test, &["--torus", "2x2"]);
        for receives in [true, false] {
            let (mut a, mut b) = pair(&test, program, path);
            // Piece by piece on both paths.
            a.ask("forbid", &["forbidden"]);
            b.ask("forbid", &["forbidden"]);
            let (sender, receiver) = if receives { (&mut a, &mut b) } else { (&mut b, &mut a) };
            receiver.begin(&format!("expect {LARGE}"));
            sender.begin(&format!("send {LARGE}"));
            let waits = a.tell("wait");
            b.ask("look 20", &["looked"]);
            b.kill();
            a.answer(&waits, &[FAILED]);
            a.ask("send 8", &GONE);
            a.leave();
        }
        ends_clean(&test, daemon);
    }
}

#[test]
fn a_message_whose_sender_was_killed_before_it_was_fetched_is_an_error() {
    let Some(program) = program() else { return };
    let test = Test::new("ofi-offered");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let (mut a, mut b) = pair(&test, program, "direct");
    b.begin(&format!("send {LARGE}"));
    a.begin(&format!("send {LARGE}"));
    b.kill();
    // Once it has noticed that.
    a.ask("wait", &[FAILED]);
    a.begin(&format!("expect {LARGE}"));
    a.ask("wait", &[FAILED]);
    a.leave();
    ends_clean(&test, daemon);
}

#[test]
fn a_successor_gets_nothing_that_was_meant_for_the_one_before() {
    let Some(program) = program() else { return };
    let test = Test::new("ofi-stale");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let (mut a, b) = pair(&test, program, "auto");
    let old = b.address.clone();
    b.kill();
    let mut next = Member::start(&test, program, "auto", 1, "manual");
    assert_ne!(next.address, old);
    assert_eq!(next.address[32..40], old[32..40], "the same seat");
    next.meet(&a.address);
    next.begin("expect 8");
    let mut stranger = Member::start(&test, program, "auto", 2, "manual");
    stranger.meet(&old);
    for member in [&mut a, &mut stranger] {
        member.ask("send 8", &GONE);
    }
    a.meet(&next.address);
    a.begin("send 8");
    next.ask("wait", &[WELL]);
    a.ask("wait", &[WELL]);
    for member in [a, next, stranger] {
        member.leave();
    }
    ends_clean(&test, daemon);
}

/// An operation under way when one of the two closes something: the commands of the one that begins and of its peer; whether
/// the one that began closes, and what; what the other one is told, if it waits for something: `FI_EIO`, `FI_ECONNREFUSED` or
/// `FI_ENOKEY`.
type Closed = (&'static str, Option<&'static str>, bool, &'static str, Option<&'static str>);

const CLOSED: [Closed; 8] = [
    ("send", Some("expect"), true, "ep", Some(FAILED)),
    ("send", Some("expect"), false, "ep", Some("ended with 111")),
    ("write", None, true, "ep", None),
    ("write", None, false, "ep", Some("ended with 111")),
    ("write", None, false, "mr", Some("ended with 266")),
    ("read", None, true, "ep", None),
    ("read", None, false, "ep", Some(FAILED)),
    ("read", None, false, "mr", Some(FAILED)),
];

#[test]
fn what_is_closed_is_touched_no_more_and_its_peer_is_told() {
    let Some(program) = program() else { return };
    for path in ["direct", "ring"] {
        let test = Test::new("ofi-closed");
        let daemon = Daemon::start(&test, &["--torus", "2x2"]);
        let (mut a, mut b) = pair(&test, program, path);
        // Piece by piece on both paths.
        a.ask("forbid", &["forbidden"]);
        b.ask("forbid", &["forbidden"]);
        for (command, other, is_beginner, what, told) in CLOSED {
            for how in ["close", "reuse"] {
                println!("-- {path}: {command}, {how} {what} by the one that began: {is_beginner}");
                if let Some(other) = other {
                    b.begin(&format!("{other} {LARGE}"));
                }
                a.begin(&format!("{command} {LARGE}"));
                // A few pieces, of hundreds.
                for _ in 0..3 {
                    b.ask("look 3000", &["looked"]);
                    a.ask("look 3000", &["looked"]);
                }
                let (closer, peer) = if is_beginner { (&mut a, &mut b) } else { (&mut b, &mut a) };
                let waits = peer.tell(if told.is_some() { "wait" } else { "look 30000" });
                closer.close(how, what);
                closer.goes_on_until(peer, &waits, told.unwrap_or("looked"));
                // Chunks of the window and numbers are free again: both go on.
                peer.meet(&closer.address);
                talk(&mut a, &mut b);
                talk(&mut b, &mut a);
            }
        }
        a.leave();
        b.leave();
        ends_clean(&test, daemon);
    }
}

#[test]
fn a_message_whose_sender_has_closed_before_it_was_fetched_is_an_error() {
    let Some(program) = program() else { return };
    for path in ["direct", "ring"] {
        let test = Test::new("ofi-revoked");
        let daemon = Daemon::start(&test, &["--torus", "2x2"]);
        let (mut a, mut b) = pair(&test, program, path);
        for (how, what) in [("close", "ep"), ("reuse", "ep")] {
            a.begin("send 1000000");
            b.ask("look 3000", &["looked"]);
            a.close(how, what);
            // Its memory is another's now, or nobody's: nothing of that is taken for the message.
            b.begin("expect 1000000");
            let waits = b.tell("wait");
            a.goes_on_until(&b, &waits, FAILED);
            b.meet(&a.address);
            talk(&mut a, &mut b);
        }
        a.leave();
        b.leave();
        ends_clean(&test, daemon);
    }
}

#[test]
fn a_payload_that_an_endpoint_has_not_taken_when_it_is_closed_is_an_error_for_its_sender() {
    let Some(program) = program() else { return };
    let test = Test::new("ofi-unreceived");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let (mut a, mut b) = pair(&test, program, "direct");
    // The short one was delivered.
    for (len, end) in [(8, "ended well"), (1_000_000, "ended with 111")] {
        a.begin(&format!("send {len}"));
        b.ask("look 3000", &["looked"]);
        b.close("close", "ep");
        a.ask("wait", &[end]);
        a.meet(&b.address);
    }
    a.leave();
    b.leave();
    ends_clean(&test, daemon);
}

#[test]
fn what_is_in_use_cannot_be_closed() {
    let Some(program) = program() else { return };
    let test = Test::new("ofi-busy");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let mut member = Member::start(&test, program, "direct", 0, "manual");
    member.ask("busy", &["12 of 12 refused"]);
    member.leave();
    ends_clean(&test, daemon);
}

#[test]
fn where_no_process_may_read_another_large_messages_go_through_the_window() {
    let Some(program) = program() else { return };
    let test = Test::new("ofi-forbidden");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let (mut a, mut b) = pair(&test, program, "direct");
    b.ask("forbid", &["forbidden"]);
    b.begin(&format!("expect {LARGE}"));
    a.begin(&format!("send {LARGE}"));
    let waits = b.tell("wait");
    a.ask("wait", &[WELL]);
    b.answer(&waits, &[WELL]);
    a.leave();
    let log = b.leave();
    assert!(log.contains("go through its window"), "{log}");
    ends_clean(&test, daemon);
}

#[test]
fn automatic_progress_needs_no_calls_of_the_target() {
    let Some(program) = program() else { return };
    for path in ["direct", "ring"] {
        let test = Test::new("ofi-auto");
        let daemon = Daemon::start(&test, &["--torus", "2x2"]);
        let target = Member::start(&test, program, path, 0, "auto");
        let mut origin = Member::start(&test, program, path, 1, "manual");
        origin.meet(&target.address);
        for len in [8, LARGE] {
            origin.begin(&format!("write {len}"));
            // The target reads its standard input all the time.
            origin.ask("wait", &[WELL]);
        }
        origin.leave();
        target.leave();
        ends_clean(&test, daemon);
    }
}

/// Both ends sleep in `poll` on descriptors of completion queues, counters and event queues.
#[test]
fn who_sleeps_on_a_descriptor_misses_nothing() {
    let Some(program) = compiled("sleeper") else {
        return println!("-- skipped: libfabric's headers (package libfabric-dev) are not installed");
    };
    for path in ["direct", "ring"] {
        let test = Test::new("ofi-sleeper");
        let mut run = test.angara(["run", "-n", "2", "--heap", "64M", "--timeout", "100", "--path", path, "--"]);
        run.arg(&program).arg("1000");
        let done = test.run(run).success();
        for pe in 0..2 {
            assert!(done.stdout.contains(&format!("{pe}: all well, and slept")), "{path}: {done}");
        }
        test.assert_clean();
    }
    // A process that sleeps in the system has no time of its own.
    let test = Test::new("ofi-sleeper");
    let mut run = test.angara(["run", "-n", "2", "--heap", "64M", "--timeout", "100", "--clock", "virtual", "--"]);
    run.arg(&program).arg("1");
    let refused = test.run(run);
    assert!(refused.code() != 0 && refused.stdout.contains("fi_cq_open: -38"), "{refused}");
    test.assert_clean();
}

#[test]
fn who_sleeps_on_a_descriptor_learns_that_a_peer_was_killed() {
    let Some(program) = program() else { return };
    for path in ["direct", "ring"] {
        let test = Test::new("ofi-sleeper-killed");
        let daemon = Daemon::start(&test, &["--torus", "2x2"]);
        let mut a = Member::start(&test, program, path, 0, "fd");
        let mut b = Member::start(&test, program, path, 1, "manual");
        a.meet(&b.address);
        b.meet(&a.address);
        // Large ones are fetched while the receiver sleeps.
        for len in [8, LARGE] {
            a.begin(&format!("expect {len}"));
            let waits = a.tell("wait");
            b.begin(&format!("send {len}"));
            b.ask("wait", &[WELL]);
            a.answer(&waits, &[WELL]);
        }
        a.begin("expect 8");
        let waits = a.tell("wait");
        b.ask("look 20", &["looked"]);
        b.kill();
        a.answer(&waits, &[GONE_WHILE_AWAITED]);
        a.leave();
        ends_clean(&test, daemon);
    }
}

/// Returns what a name leads to.
fn found(name: &str) -> String {
    format!("inserted 1, angara://{name}")
}

/// A message from one to the other.
fn talk(from: &mut Member, to: &mut Member) {
    to.meet(&from.address);
    to.begin("expect 100000");
    from.begin("send 100000");
    let waits = to.tell("wait");
    from.ask("wait", &[WELL]);
    to.answer(&waits, &[WELL]);
}

#[test]
fn a_client_names_its_server_by_host_and_service() {
    let Some(program) = program() else { return };
    for path in ["direct", "ring"] {
        let test = Test::new("ofi-names");
        let daemon = Daemon::start(&test, &["--torus", "2x2"]);
        let mut server = Member::start(&test, program, path, 0, "manual 9228");
        let mut local = Member::start(&test, program, path, 1, "manual 9229 localhost");
        let mut client = Member::start(&test, program, path, 2, "manual");
        for name in ["name localhost 9228", "name 127.0.0.1 9228", "name - 9228", "name angara://*:9228 -"] {
            client.ask(name, &[&found("*:9228")]);
            talk(&mut client, &mut server);
        }
        client.ask("name - 9229", &[&found("*:9229")]);
        talk(&mut client, &mut local);
        local.ask("call 9228", &["called 98"]);
        local.ask("call 9230", &["called 0"]);
        client.ask("svc localhost 9230", &["inserted 1"]);
        talk(&mut client, &mut local);
        // It has the name no more when it has left.
        local.leave();
        client.ask("name - 9229", &["inserted 0, angara://*:9229"]);
        client.ask("name 192.0.2.7 9228", &["inserted 0, angara://192.0.2.7:9228"]);
        let second = test.run(Member::command(&test, program, path, "manual 9228"));
        assert!(second.code() == 1 && second.stdout.contains("fi_endpoint: Address already in use"), "{second}");
        let far = test.run(Member::command(&test, program, path, "manual 9230 192.0.2.7"));
        assert!(far.code() == 1 && far.stderr.contains("this host has no such address"), "{far}");
        let log = client.leave();
        assert!(log.contains("angara://*:9229: no endpoint of the domain has that name after 5 s"), "{log}");
        server.leave();
        ends_clean(&test, daemon);
    }
}

#[test]
fn a_client_that_is_earlier_than_its_server_waits_for_it() {
    let Some(program) = program() else { return };
    let test = Test::new("ofi-early");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let mut client = Member::start(&test, program, "auto", 0, "manual");
    let waits = client.tell("name - 9228");
    let mut server = Member::start(&test, program, "auto", 1, "manual 9228");
    client.answer(&waits, &[&found("*:9228")]);
    talk(&mut client, &mut server);
    client.leave();
    server.leave();
    ends_clean(&test, daemon);
}

#[test]
fn addresses_may_be_texts() {
    let Some(program) = program() else { return };
    let test = Test::new("ofi-texts");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let start = |mode: &str| {
        let mut command = Member::command(&test, program, "auto", mode);
        command.env("MEMBER_TEXT", "1");
        Member::begin_as(&test, command)
    };
    let (mut server, mut client) = (start("manual 9228 localhost"), start("manual"));
    let scheme: String = "angara://".bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(client.address.starts_with(&scheme), "{}", client.address);
    client.ask("name localhost 9228", &[&found("*:9228")]);
    talk(&mut client, &mut server);
    client.meet(&server.address);
    talk(&mut client, &mut server);
    client.leave();
    server.leave();
    ends_clean(&test, daemon);
}

#[test]
fn names_are_found_on_other_hosts_of_a_cluster() {
    let Some(program) = program() else { return };
    let test = Test::new("ofi-names-hosts");
    let cluster = Cluster::start(&test, "2x2", Hosts::loopback(2), &[]);
    let start = |dir: &Path, mode: &str| {
        let mut command = Member::command(&test, program, "auto", mode);
        command.env("ANGARA_RUNTIME_DIR", dir);
        Member::begin_as(&test, command)
    };
    let (mut server, mut client) = (start(&cluster.dir(0), "manual 9228"), start(&cluster.dir(1), "manual"));
    client.ask("name localhost 9228", &[&found("*:9228")]);
    talk(&mut client, &mut server);
    client.leave();
    server.leave();
    cluster.shutdown();
    test.assert_clean();
}
