//! Captures: what Wireshark will see of a network is what happened in it, whoever may not hear of it does not, and neither
//! full disks nor readers that stop are anybody else's business.

use angara_abi::packet::{self, PacketType};
use angara_protocol::msg::{CaptureSpec, Path as Engine, Request};
use angara_tests::daemon::{Daemon, spec};
use angara_tests::process::{PATIENCE, poll_until};
use angara_tests::users::{as_user, only_root_can, set_mode};
use angara_tests::{Finished, Test, tools};
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

const PSEUDO: usize = 64;
const SENT: u8 = 1;
const REPLAYED: u8 = 2;
const CORRUPTED: u8 = 3;
const EJECTED: u8 = 5;
const HOST: u8 = 255;

/// A packet of a file, by fields of its pseudo-header.
struct Packet {
    stamp: u128,
    event: u8,
    time: u64,
    node: u32,
    dir: u8,
    vc: u8,
    class: u8,
    job: u32,
    /// The packet itself.
    bytes: Vec<u8>,
    length: u32,
}

impl Packet {
    fn new(stamp: u128, length: u32, data: &[u8]) -> Packet {
        let word = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(data[..2], [1, PSEUDO as u8], "another pseudo-header");
        assert_eq!(word(4) + PSEUDO as u32, length, "the length of the packet");
        Packet {
            stamp,
            event: data[2],
            time: u64::from(word(8)) | u64::from(word(12)) << 32,
            node: word(16),
            dir: data[24],
            vc: data[25],
            class: data[26],
            job: word(28),
            bytes: data[PSEUDO..].to_vec(),
            length: word(4),
        }
    }
    fn kind(&self) -> Option<PacketType> {
        PacketType::from_bits(self.bytes[0] & 15)
    }
    fn check(&self) -> Result<(), packet::PacketError> {
        let flits: Vec<u128> =
            self.bytes.chunks_exact(16).map(|f| u128::from_le_bytes(f.try_into().expect("16 bytes"))).collect();
        packet::check(&flits).map(drop)
    }
}

/// Returns what is in a file: packets, and the counts of the block that closes it: passed, dropped, written.
fn read(file: &Path) -> (Vec<Packet>, Option<[u64; 3]>) {
    let open = File::open(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut reader = PcapNgReader::new(open).expect("a pcapng file");
    let (mut packets, mut counts) = (Vec::new(), None);
    while let Some(block) = reader.next_block() {
        match block.expect("whole blocks") {
            Block::InterfaceDescription(interface) => assert_eq!(interface.linktype, DataLink::USER0),
            Block::EnhancedPacket(p) => packets.push(Packet::new(p.timestamp.as_nanos(), p.original_len, &p.data)),
            Block::InterfaceStatistics(statistics) => {
                let mut found = [u64::MAX; 3];
                for option in statistics.options {
                    match option {
                        InterfaceStatisticsOption::IsbIfRecv(n) => found[0] = n,
                        InterfaceStatisticsOption::IsbIfDrop(n) => found[1] = n,
                        InterfaceStatisticsOption::IsbUsrDeliv(n) => found[2] = n,
                        _ => {}
                    }
                }
                counts = Some(found);
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    (packets, counts)
}

fn program() -> PathBuf {
    tools::compile("tests/c/captured.c")
}

/// Runs the program on a ring of four with these options, and returns what was captured.
fn run(test: &Test, options: &[&str]) -> (Finished, Vec<Packet>, Option<[u64; 3]>) {
    let file = test.file("run.pcapng");
    let mut command = test.angara(["run", "-n", "4", "--torus", "4", "--timeout", "200", "--capture"]);
    command.arg(&file).args(options).arg("--").arg(program());
    let done = test.run(command).success();
    let (packets, counts) = read(&file);
    (done, packets, counts)
}

#[test]
fn a_file_has_every_packet_of_a_run() {
    let test = Test::new("capture");
    let report = test.file("report.json");
    let (done, packets, counts) = run(&test, &["--report", report.to_str().expect("utf-8")]);
    assert!(done.stderr.contains(&format!("angara: {} packets in ", packets.len())), "{done}");
    assert_eq!(counts, Some([packets.len() as u64, 0, packets.len() as u64]));
    assert!(packets.iter().all(|p| p.check().is_ok() && p.bytes.len() as u32 == p.length));
    let job = packets[0].job;
    assert!(packets.iter().all(|p| p.job == job) && packets.is_sorted_by_key(|p| p.time));
    // Links have counted the same.
    let text = std::fs::read_to_string(report).expect("a report");
    let report: angara_protocol::msg::Report = serde_json::from_str(&text).expect("a report");
    let mut seen = BTreeMap::<(u32, u8, u8), u64>::new();
    for p in packets.iter().filter(|p| p.event == SENT) {
        *seen.entry((p.node, p.dir, p.class)).or_default() += 1;
    }
    let mut counted = BTreeMap::new();
    for link in &report.links {
        let dir = link.dir;
        for (class, load) in link.load.iter().filter(|(_, load)| load.packets > 0) {
            counted.insert((link.node, dir.index() as u8, *class as u8), load.packets);
        }
    }
    assert_eq!(seen, counted);
    // 600 words of 8 bytes are 19 packets, there and back; PE 3 is one link away, over -X.
    let ejected = |kind| packets.iter().filter(|p| p.event == EJECTED && p.class < 3 && p.kind() == Some(kind)).count();
    use PacketType::{AtomicAdd, ReadReq, ReadRsp, Service, Write};
    let counts = [Write, ReadReq, ReadRsp, Service, AtomicAdd].map(ejected);
    assert_eq!(counts, [1 + 19, 1, 19 + 1, 1, 1], "{counts:?}");
    test.assert_clean();
}

#[test]
fn in_virtual_time_stamps_are_its_and_two_runs_send_the_same() {
    let test = Test::new("virtual");
    let (_, packets, _) = run(&test, &["--clock", "virtual"]);
    assert!(packets.iter().all(|p| p.stamp == u128::from(p.time / 1000)));
    let (_, again, counts) = run(&test, &["--clock", "virtual"]);
    assert_eq!(counts.map(|c| c[1]), Some(0));
    let what = |p: &Packet| (p.stamp, p.event, p.node, p.dir, p.vc, p.class, p.bytes.clone());
    assert!(packets.iter().map(what).eq(again.iter().map(what)), "two runs differ");
    test.assert_clean();
}

#[test]
fn a_bad_link_shows_what_it_damages_and_sends_again() {
    let test = Test::new("damaged");
    let (_, packets, _) = run(&test, &["--fault", "link 0 -X corrupt=30%"]);
    let bad: Vec<&Packet> = packets.iter().filter(|p| p.check().is_err()).collect();
    assert!(!bad.is_empty() && bad.iter().all(|p| p.event == CORRUPTED && (p.node, p.dir) == (0, 4)));
    assert_eq!(packets.iter().filter(|p| p.event == CORRUPTED).count(), bad.len());
    assert!(packets.iter().any(|p| p.event == REPLAYED && (p.node, p.dir) == (0, 4)));
    test.assert_clean();
}

/// Returns what tshark prints of a file with the project's dissector.
fn tshark(test: &Test, file: &Path, args: &[&str]) -> String {
    let mut command = test.command("tshark");
    let script = tools::root().join("packaging/wireshark/angara.lua");
    command.arg("-X").arg(format!("lua_script:{}", script.display())).arg("-r").arg(file).args(args);
    command.env("HOME", test.file("home"));
    let done = test.run(command).success();
    assert!(!done.stderr.contains("Lua"), "{done}");
    done.stdout
}

#[test]
fn tshark_reads_it_as_the_golden_file_has_it() {
    if !tools::have("tshark") {
        println!("skipped: no tshark (Debian: apt-get install tshark)");
        return;
    }
    let test = Test::new("tshark");
    run(&test, &["--clock", "virtual", "--fault", "link 0 -X corrupt=20% seed=3"]);
    let file = test.file("run.pcapng");
    let fields = [
        "angara.time",
        "angara.event",
        "angara.link",
        "angara.vc",
        "angara.type",
        "angara.src",
        "angara.dst",
        "angara.seq",
        "angara.bytes",
        "angara.offset",
        "angara.crc_ok",
        "angara.request_in",
        "angara.response_in",
        "angara.response_time",
    ];
    let mut args = vec!["-2", "-Y", "angara.type != 11", "-T", "fields", "-E", "header=y", "-e", "frame.number"];
    fields.iter().for_each(|field| args.extend(["-e", field]));
    let said = tshark(&test, &file, &args);
    let golden = tools::root().join("tests/golden/capture.txt");
    if std::env::var_os("ANGARA_BLESS").is_some() {
        std::fs::create_dir_all(golden.parent().expect("a folder")).expect("writable");
        std::fs::write(&golden, &said).expect("writable");
    }
    let expected = std::fs::read_to_string(&golden).expect("the golden file; ANGARA_BLESS=1 writes it");
    assert!(said == expected, "ANGARA_BLESS=1 writes {} anew; tshark said\n{said}", golden.display());
    // What is bad is marked, and nothing else is.
    let (packets, _) = read(&file);
    let bad = packets.iter().filter(|p| p.event == CORRUPTED).count();
    let marked = |filter: &str| tshark(&test, &file, &["-Y", filter]).lines().count();
    assert_eq!((marked("angara.crc.bad"), marked("angara.event == 3")), (bad, bad));
    assert!(bad > 0 && marked("angara.link == \"0-X\" && angara.event == 2") > 0);
    assert_eq!(marked("_ws.malformed || _ws.lua.error"), 0);
    test.assert_clean();
}

/// `angara sim run` on the chip's torus, what it reports, and what it captured if it was to.
fn simulate(test: &Test, options: &[&str], capture: bool) -> (serde_json::Value, Vec<Packet>, Option<[u64; 3]>) {
    let file = test.file("sim.pcapng");
    let mut command = test.angara(["sim", "run", "--topology", "torus:4x2", "--router", "angara", "--json"]);
    command.args(options);
    if capture {
        command.arg("--capture").arg(&file);
    }
    let mut report: serde_json::Value = serde_json::from_str(&test.run(command).success().stdout).expect("JSON");
    for unsteady in ["wall_s", "peak_rss_bytes"] {
        assert!(report.as_object_mut().expect("an object").remove(unsteady).is_some(), "{unsteady}");
    }
    let (packets, counts) = if capture { read(&file) } else { (Vec::new(), None) };
    (report, packets, counts)
}

#[test]
fn a_simulation_is_captured_and_has_the_same_results() {
    let test = Test::new("simulated");
    let heads = |p: &Packet| (p.bytes.len(), p.job, u128::from(p.time / 1000) == p.stamp);
    for workload in ["all-to-all:600", "pair-probe:0,5", "allreduce:8", "broadcast:4096", "heat:10000"] {
        let (alone, ..) = simulate(&test, &["--workload", workload], false);
        let (report, packets, counts) = simulate(&test, &["--workload", workload], true);
        assert_eq!(report, alone, "{workload}");
        assert_eq!(counts, Some([packets.len() as u64, 0, packets.len() as u64]));
        assert!(packets.is_sorted_by_key(|p| p.time) && packets.iter().all(|p| heads(p) == (16, u32::MAX, true)));
        let count = |event| packets.iter().filter(|p| p.event == event).count() as u64;
        // What simulations count of hops of packets without an adapter has the one to the host.
        let raw = workload.starts_with("all-to-all") || workload.starts_with("pair-probe");
        let hops = count(SENT) + if raw { count(EJECTED) } else { 0 };
        assert_eq!(Some(hops), report["packet_hops"].as_u64(), "{workload}");
        assert!(!raw || (count(0) == count(EJECTED) && count(0) > 0), "{workload}");
    }
    test.assert_clean();
}

#[test]
fn a_captured_simulation_ends_where_it_is_told_to_and_tshark_reads_it() {
    let test = Test::new("simulated-tshark");
    let options = ["--load", "0.2", "--length", "1:0.5,9:0.5", "--warmup", "0", "--cycles", "2000"];
    let (_, packets, _) = simulate(&test, &[&options[..], &["--capture-count", "500"]].concat(), true);
    assert_eq!(packets.len(), 500);
    assert!(packets.iter().any(|p| p.length == 16) && packets.iter().any(|p| p.length == 144));
    if !tools::have("tshark") {
        println!("skipped: no tshark (Debian: apt-get install tshark)");
        return;
    }
    let file = test.file("sim.pcapng");
    let lines = |filter: &str| tshark(&test, &file, &["-Y", filter]).lines().count();
    assert_eq!(
        (lines("angara.type == 1 && angara.dst"), lines("_ws.malformed || _ws.lua.error || angara.crc")),
        (500, 0)
    );
    let sent = packets.iter().filter(|p| p.event == SENT && (p.node, p.dir) == (0, 0)).count();
    assert!(sent > 0 && lines("angara.link == \"0,0+X\"") == sent);
}

#[test]
fn what_of_a_simulation_cannot_be_captured_is_refused() {
    let test = Test::new("simulated-refused");
    let refused = |options: &[&str], remedy: &str| {
        let mut command = test.angara(["sim", "run", "--capture", "x.pcapng"]);
        command.args(options);
        let done = test.run(command);
        assert_eq!(done.code(), 2, "{done}");
        done.failure(&["--capture", remedy]);
    };
    refused(&["--topology", "torus:4x4", "--router", "generic"], "--router angara");
    refused(&["--topology", "torus:4x4", "--router", "angara", "--threads", "2"], "--threads 1");
    refused(&["--topology", "torus:2x2x2x2x2", "--router", "angara"], "4x2x2");
    refused(&["--topology", "torus:4x4", "--router", "angara", "--workload", "spmv:trees"], "several networks");
    let mut command = test.angara(["sim", "run", "--topology", "torus:4x4", "--capture-count", "5"]);
    command.arg("--json");
    test.run(command).failure(&["--capture <"]);
}

/// A daemon, and a program on it that goes on until it is told to end.
fn busy(test: &Test) -> (Daemon, angara_tests::Running) {
    let daemon = Daemon::start(test, &["--torus", "4"]);
    let mut command = test.angara(["run", "-n", "4", "--path", "ring", "--timeout", "200", "--runtime-dir"]);
    command.arg(daemon.dir()).arg("--").arg(program()).arg("forever");
    let job = test.spawn(command);
    job.expect_line("42 599");
    (daemon, job)
}

fn end(job: angara_tests::Running) {
    job.process().signal(Signal::INT);
    assert_eq!(job.wait(PATIENCE).code(), 130);
}

#[test]
fn a_link_a_node_a_channel_and_a_count_are_obeyed() {
    let test = Test::new("filters");
    let (daemon, job) = busy(&test);
    let file = test.file("some.pcapng");
    let some = |args: &[&str]| {
        let mut command = test.angara(["capture", "--count", "50", "-w"]);
        command.arg(&file).args(args);
        let done = test.run(command).success();
        assert!(done.stderr.contains("angara: 50 packets in "), "{done}");
        let (packets, counts) = read(&file);
        assert_eq!((packets.len(), counts.map(|c| c[2])), (50, Some(50)), "{args:?}");
        packets
    };
    assert!(some(&["--link", "0-X"]).iter().all(|p| (p.node, p.dir) == (0, 4)));
    assert!(some(&["--link", "0 -X", "--vc", "request"]).iter().all(|p| (p.node, p.dir, p.vc) == (0, 4, 1)));
    let at_3 = |p: &Packet| p.node == 3 || p.dir != HOST && [(0, 4), (2, 0)].contains(&(p.node, p.dir));
    assert!(some(&["--node", "3"]).iter().all(at_3));
    assert!(some(&["--snaplen", "20"]).iter().all(|p| p.bytes.len() == 20 && p.length >= 32));
    assert!(some(&["--snaplen", "0"]).iter().all(|p| p.bytes.is_empty()));
    let id = daemon.status().jobs[0].job;
    assert!(some(&["--job", &id.to_string()]).iter().all(|p| p.job == id.number()));
    end(job);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn wrong_words_are_refused_with_what_would_be_right() {
    let test = Test::new("words");
    let daemon = Daemon::start(&test, &["--torus", "4x2"]);
    let file = test.file("none.pcapng");
    for (args, says) in [
        (&["--link", "9,0+X"][..], &["9,0", "--link 0,0,0+X"][..]),
        (&["--link", "0,0+Z"], &["+Z", "--link"]),
        (&["--link", "0,0"], &["direction is missing"]),
        (&["--node", "8"], &["`8`", "--node 1,0,0"]),
        (&["--job", "77"], &["no job 77", "angara status"]),
        (&["--vc", "9"], &["response, request"]),
        (&["--count", "0"], &["--count"]),
    ] {
        let mut command = test.angara(["capture", "-w"]);
        command.arg(&file).args(args);
        test.run(command).failure(says);
    }
    let done =
        test.run(test.angara(["capture", "-w", "/nowhere/x.pcapng"])).failure(&["/nowhere/x.pcapng", "directory"]);
    assert_eq!(done.code(), 2);
    for (options, says) in
        [(&["--capture", "-"][..], "mkfifo"), (&["--capture", "x", "--path", "direct"], "sends none")]
    {
        let mut command = test.angara(["run", "-n", "2"]);
        command.args(options).arg("--").arg("true");
        test.run(command).failure(&[says]);
    }
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn an_interrupt_completes_the_file_and_two_captures_share_a_network() {
    let test = Test::new("interrupt");
    let (daemon, job) = busy(&test);
    let start = |name: &str| {
        let mut command = test.angara(["capture", "-w"]);
        command.arg(test.file(name));
        let capture = test.spawn(command);
        capture.expect_error("capturing");
        capture
    };
    let both = [start("one.pcapng"), start("two.pcapng")];
    for name in ["one.pcapng", "two.pcapng"] {
        let grows = || std::fs::metadata(test.file(name)).is_ok_and(|m| m.len() > 10_000);
        assert!(poll_until(grows), "{name} does not grow");
    }
    for (capture, name) in both.into_iter().zip(["one.pcapng", "two.pcapng"]) {
        capture.process().signal(Signal::INT);
        let done = capture.wait(PATIENCE).success();
        let (packets, counts) = read(&test.file(name));
        let [passed, dropped, written] = counts.expect("the closing block");
        assert_eq!((passed - dropped, written), (packets.len() as u64, packets.len() as u64), "{done}");
        assert!(packets.iter().all(|p| p.check().is_ok()));
    }
    end(job);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn a_reader_that_goes_ends_a_capture_quietly_and_one_that_stops_slows_nobody() {
    let test = Test::new("reader");
    let (daemon, job) = busy(&test);
    let mut command = test.command("bash");
    command.args(["-c", r#""$0" capture -q -w - | head -c 2000 >/dev/null; exit ${PIPESTATUS[0]}"#]);
    command.arg(tools::tool("angara"));
    let done = test.run(command).success();
    assert_eq!(done.stderr, "", "{done}");
    // One that takes nothing: its capture fills up, and the job goes on. What was lost is counted.
    let mut slow = test.angara(["capture", "-w"]);
    slow.arg(test.file("slow.pcapng"));
    let slow = test.spawn(slow);
    slow.expect_error("capturing");
    slow.process().stop();
    let mut enough = test.angara(["capture", "-q", "--snaplen", "0", "--count", "60000", "-w", "/dev/null"]);
    enough.arg("--runtime-dir").arg(daemon.dir());
    test.run(enough).success();
    slow.process().signal(Signal::CONT);
    slow.process().signal(Signal::INT);
    let done = slow.wait(PATIENCE).success();
    let [passed, dropped, written] = read(&test.file("slow.pcapng")).1.expect("the closing block");
    assert!(dropped > 0 && passed == dropped + written, "{passed} {dropped} {written}");
    assert!(done.stderr.contains(&format!("{dropped} of {passed} packets are not in")), "{done}");
    end(job);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn a_full_disk_ends_the_capture_and_not_the_job() {
    let test = Test::new("full");
    let file = test.file("full.pcapng");
    // 64 KiB; what else the launcher writes is less.
    let mut command = test.after("ulimit -f 64", tools::tool("angara"));
    let daemon = Daemon::start(&test, &["--torus", "4"]);
    command.args(["run", "-n", "4", "--timeout", "200", "--runtime-dir"]).arg(daemon.dir()).arg("--capture");
    command.arg(&file).arg("--").arg(program());
    let done = test.run(command);
    assert!(done.stdout.contains("42 599"), "the job goes on: {done}");
    assert_eq!((done.code(), done.stderr.matches("cannot write to").count()), (1, 1), "{done}");
    let (packets, counts) = read(&file);
    assert!(counts.is_none() && packets.len() > 100 && packets.iter().all(|p| p.check().is_ok()), "{done}");
    assert!(done.stderr.contains(&format!("{} packets are there", packets.len())), "{done}");
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn a_daemon_that_dies_leaves_a_whole_file() {
    let test = Test::new("dies");
    let (daemon, job) = busy(&test);
    let mut command = test.angara(["capture", "-w"]);
    command.arg(test.file("cut.pcapng"));
    let capture = test.spawn(command);
    let grows = || std::fs::metadata(test.file("cut.pcapng")).is_ok_and(|m| m.len() > 10_000);
    assert!(poll_until(grows), "nothing is captured");
    daemon.pid().signal(Signal::KILL);
    let done = capture.wait(PATIENCE).failure(&["went away in the middle of the capture", "look at its log"]);
    let (packets, counts) = read(&test.file("cut.pcapng"));
    assert!(counts.is_none() && done.stderr.contains(&format!("{} packets are in", packets.len())), "{done}");
    assert_ne!(job.wait(PATIENCE).code(), 0);
}

#[test]
fn users_hear_of_their_own_jobs_only() {
    if only_root_can() {
        return;
    }
    const ALICE: u32 = 65_021;
    const BOB: u32 = 65_022;
    let test = Test::new("users");
    let daemon = Daemon::start(&test, &["--torus", "4", "--limit", "captures=1"]);
    set_mode(daemon.dir(), 0o755);
    set_mode(&daemon.dir().join(angara_protocol::launch::CONTROL_SOCKET), 0o666);
    let mut alice = as_user(ALICE, || daemon.control());
    let job = alice.create(spec(2, Engine::Ring)).expect("a job").id;
    let capture = |job, link: Option<&str>| {
        Request::Capture(CaptureSpec { job, link: link.map(String::from), snaplen: 288, ..CaptureSpec::default() })
    };
    let mut bob = as_user(BOB, || daemon.control());
    let refused = bob.ask(&capture(Some(job), None)).expect_err("alice's job");
    assert!(refused.message.contains("belongs to user 65021"), "{refused:?}");
    assert!(bob.ask(&capture(None, Some("7+X"))).expect_err("no such node").message.contains("7"));
    bob.ask(&capture(None, None)).expect("his own jobs, of which there are none");
    let mut again = as_user(BOB, || daemon.control());
    let refused = again.ask(&capture(None, None)).expect_err("one is enough");
    assert!(refused.message.contains("1 captures") && refused.remedy.contains("`captures`"), "{refused:?}");
    // A job of hers sends packets; root hears of them, he does not.
    let mut stream = bob.into_stream();
    let root = test.file("root.pcapng");
    let mut all = test.angara(["capture", "--count", "20", "-w"]);
    all.arg(&root);
    let all = test.spawn(all);
    all.expect_error("capturing");
    let mut run = test.angara(["run", "-n", "2", "--path", "ring", "--runtime-dir"]);
    run.arg(daemon.dir()).arg("--").arg(program());
    test.run(run).success();
    all.wait(PATIENCE).success();
    assert_eq!(read(&root).0.len(), 20);
    stream.shutdown(std::net::Shutdown::Write).expect("open");
    let mut left = Vec::new();
    stream.read_to_end(&mut left).expect("the rest of a stream");
    let last = angara_abi::capture::read_part(&mut &left[..]).expect("a part");
    assert_eq!(last, Some(angara_abi::capture::Part::Tally { passed: 0, dropped: 0 }));
    drop(alice);
    daemon.shutdown();
    test.assert_clean();
}
