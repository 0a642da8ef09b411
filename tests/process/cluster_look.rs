//! Looking at jobs that span several hosts: timelines, captures, and the page.

use angara_protocol::msg::{Reply, Request};
use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::process::{PATIENCE, poll_until};
use angara_tests::web::http;
use angara_tests::{Running, Test, tools};
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Events of a timeline that was not compressed.
fn events(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a timeline");
    serde_json::from_str(&text).expect("one list of events")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns what `angara trace summary` says of a timeline, which it reads strictly.
fn summary(test: &Test, file: &Path) -> String {
    let mut command = test.angara(["trace", "summary"]);
    command.arg(file);
    test.run(command).success().stdout
}

/// Directories for notes that agents of this test have left.
fn left(place: &Path) -> Vec<String> {
    let names = std::fs::read_dir(place).expect("readable").flatten();
    names.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|name| name.contains(".calls-")).collect()
}

/// A cluster of two hosts, whose agents have `TMPDIR` for their notes. The second one is inside of `words`.
fn two<'t>(test: &'t Test, place: &Path, words: &[&str]) -> Cluster<'t> {
    std::fs::create_dir(place).expect("ours");
    let variable = format!("TMPDIR={}", place.display());
    let mut cluster = Cluster::prepare(test, "4x2", Hosts::loopback(2), "dead-after = \"10s\"", &[]);
    for (host, words) in [(0, &[][..]), (1, words)] {
        cluster.spawn_inside(host, &[&["env", &variable], words].concat());
    }
    cluster.wait_up();
    cluster
}

/// The timeline of a ring of 8 PEs over two hosts is whole, and nothing in it comes before its cause by more than it says.
fn check_ring(test: &Test, cluster: &Cluster<'_>, file: &Path) {
    let ring = tools::compile("examples/c/ring.c");
    let trace = file.to_str().expect("text");
    test.run(cluster.run(&["--timeout", "100", "-n", "8", "--trace", trace], &ring)).success();
    let events = events(file);
    let of = |event: &Value| event["pid"].as_u64().expect("a PE") as usize;
    let tracks: Vec<&Value> = events.iter().filter(|e| e["name"] == "process_name").collect();
    assert_eq!(tracks.len(), 8);
    let mut errors = [0.0; 8];
    for track in tracks {
        let args = &track["args"];
        let there = args["host"] == "h1";
        assert_eq!(args["clock_error"].is_number(), there, "{track}");
        if there {
            errors[of(track)] = number(&args["clock_error"]);
        }
    }
    assert_eq!(errors.iter().filter(|error| **error > 0.0).count(), 4, "{errors:?}");
    let calls = |name: &'static str| events.iter().filter(move |e| e["ph"] == "X" && e["name"] == name);
    let waits: Vec<&Value> = calls("shmem_long_wait_until").collect();
    assert_eq!(waits.len(), 160, "20 rounds of 8 PEs");
    for wait in &waits {
        assert_eq!(wait["args"]["woken_by"], (of(wait) + 7) as u64 % 8, "{wait}");
    }
    let ends = |phase: &str| events.iter().filter(|e| e["ph"] == *phase).collect::<Vec<_>>();
    let (from, to) = (ends("s"), ends("f"));
    assert_eq!((from.len(), to.len()), (160, 160));
    let end = |call: &Value| number(&call["ts"]) + number(&call["dur"]);
    // Times of one host have one clock. Rounding to nanoseconds adds a little.
    let bound =
        |a: usize, b: usize| if (errors[a] > 0.0) == (errors[b] > 0.0) { 0.0 } else { errors[a] + errors[b] } + 0.002;
    for (from, to) in from.iter().zip(&to) {
        assert!(number(&from["ts"]) <= number(&to["ts"]), "{from} {to}");
        let bound = bound(of(from), of(to));
        let mut ends = waits.iter().filter(|wait| of(wait) == of(to)).map(|wait| end(wait));
        let fits = |end: f64| end <= number(&to["ts"]) + 0.002 && number(&from["ts"]) <= end + bound;
        assert!(ends.any(fits), "{from} began behind the wait that it ended by more than {bound} us");
    }
    // Nobody leaves a barrier before the last has come.
    let barriers: Vec<&Value> = calls("shmem_barrier_all").collect();
    assert!(barriers.len() >= 8 && barriers.len().is_multiple_of(8), "{}", barriers.len());
    for (a, b) in (0..8).flat_map(|a| (0..8).map(move |b| (a, b))) {
        let row = |pe| barriers.iter().filter(move |call| of(call) == pe);
        for (left, came) in row(a).zip(row(b)) {
            assert!(end(left) + bound(a, b) >= number(&came["ts"]), "{left} {came} {}", bound(a, b));
        }
    }
    let text = summary(test, file);
    assert!(text.contains("other hosts may be wrong by up to") && !text.contains("not complete"), "{text}");
}

#[test]
fn a_timeline_has_the_pes_of_all_hosts() {
    let test = Test::new("cluster-look-timeline");
    let (place, file) = (test.file("notes"), test.file("ring.json"));
    let cluster = two(&test, &place, &[]);
    check_ring(&test, &cluster, &file);
    assert_eq!(left(&place), [""; 0], "what PEs wrote is gone");
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn times_of_another_host_are_put_on_our_clock() {
    const SHIFTED: [&str; 4] = ["unshare", "--time", "--monotonic", "100000"];
    let tried = Command::new(SHIFTED[0]).args(&SHIFTED[1..]).arg("true").output();
    if !tried.is_ok_and(|done| done.status.success()) {
        eprintln!("not tried: this machine lets us make no time namespace");
        return;
    }
    let test = Test::new("cluster-look-clocks");
    let (place, file) = (test.file("notes"), test.file("ring.json"));
    let cluster = two(&test, &place, &SHIFTED);
    check_ring(&test, &cluster, &file);
    cluster.shutdown();
    test.assert_clean();
}

/// A job whose PEs wait, and what notes of it there are on the hosts.
fn waiting(test: &Test, cluster: &Cluster<'_>, place: &Path, file: &Path) -> Running {
    let steps = tools::compile("tests/c/steps.c");
    let mut command = cluster.run(&["-n", "8", "--trace", file.to_str().expect("text")], &steps);
    command.stdin(Stdio::piped());
    let job = test.spawn(command);
    job.expect_line("ready 8");
    assert_eq!(left(place).len(), 1, "on the other host");
    job
}

#[test]
fn notes_elsewhere_go_with_a_launcher_that_is_killed() {
    let test = Test::new("cluster-look-killed");
    let (place, file) = (test.file("notes"), test.file("steps.json"));
    let cluster = two(&test, &place, &[]);
    let job = waiting(&test, &cluster, &place, &file);
    job.signal(Signal::KILL);
    job.wait(PATIENCE);
    assert!(poll_until(|| left(&place).is_empty()), "left: {:?}", left(&place));
    cluster.shutdown();
}

#[test]
fn a_host_that_is_lost_is_missing_in_the_timeline() {
    let test = Test::new("cluster-look-lost");
    let (place, file) = (test.file("notes"), test.file("steps.json"));
    let mut cluster = two(&test, &place, &[]);
    let job = waiting(&test, &cluster, &place, &file);
    let daemon = cluster.take(1);
    daemon.signal(Signal::KILL);
    daemon.wait(PATIENCE);
    let done = job.wait(PATIENCE);
    assert_eq!(done.code(), 1, "{done}");
    let missing =
        "the timeline is not complete: 4 PEs have noted no call; host h1: what its PEs have noted has not come";
    assert!(done.stderr.contains(missing), "{done}");
    assert_eq!(events(&file).iter().filter(|e| e["name"] == "process_name").count(), 4);
    assert!(summary(&test, &file).contains("not complete"));
    cluster.shutdown();
}

/// A packet of a capture: number of its interface, time stamp, what happens, node, direction and class.
struct Packet {
    interface: u32,
    stamp: Duration,
    event: u8,
    node: u32,
    dir: u8,
    class: u8,
}

/// Names of the interfaces of a capture, its packets, and what each interface passed, dropped and wrote.
fn captured(file: &Path) -> (Vec<String>, Vec<Packet>, BTreeMap<u32, [u64; 3]>) {
    let open = std::fs::File::open(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut reader = PcapNgReader::new(open).expect("a pcapng file");
    let (mut names, mut packets, mut counts) = (Vec::new(), Vec::new(), BTreeMap::new());
    while let Some(block) = reader.next_block() {
        match block.expect("whole blocks") {
            Block::InterfaceDescription(interface) => {
                let name = interface.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                });
                let clock = interface.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfDescription(text) => Some(text.to_string()),
                    _ => None,
                });
                // Hosts of a test have the same clock, so nothing is added to what the others say.
                let clock = clock.expect("a description");
                let expected = if names.is_empty() { "this machine's clock" } else { "lacked 0.0 us to it" };
                assert!(clock.contains(expected), "{clock}");
                names.push(name.expect("a name"));
            }
            Block::EnhancedPacket(p) => packets.push(Packet {
                interface: p.interface_id,
                stamp: p.timestamp,
                event: p.data[2],
                node: u32::from_le_bytes(p.data[16..20].try_into().expect("four bytes")),
                dir: p.data[24],
                class: p.data[26],
            }),
            Block::InterfaceStatistics(statistics) => {
                let found = statistics.options.iter().filter_map(|option| match option {
                    InterfaceStatisticsOption::IsbIfRecv(n) => Some((0, *n)),
                    InterfaceStatisticsOption::IsbIfDrop(n) => Some((1, *n)),
                    InterfaceStatisticsOption::IsbUsrDeliv(n) => Some((2, *n)),
                    _ => None,
                });
                let mut three = [u64::MAX; 3];
                found.for_each(|(at, n)| three[at] = n);
                counts.insert(statistics.interface_id, three);
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    (names, packets, counts)
}

const SENT: u8 = 1;

/// The host of each node.
fn owners(cluster: &Cluster<'_>) -> Vec<u32> {
    let cluster = angara_cluster::Cluster::load(&cluster.file(0)).expect("a cluster file");
    cluster.owners().iter().map(|host| host.index() as u32).collect()
}

#[test]
fn a_capture_has_the_packets_of_all_hosts() {
    let test = Test::new("cluster-look-capture");
    let cluster = Cluster::start(&test, "4x2", Hosts::loopback(2), &[]);
    let (file, report) = (test.file("run.pcapng"), test.file("report.json"));
    let text = |path: &Path| path.to_str().expect("text").to_string();
    let options = ["--timeout", "100", "-n", "8", "--capture", &text(&file), "--report", &text(&report)];
    let done = test.run(cluster.run(&options, &tools::compile("examples/c/ring.c"))).success();
    let (names, packets, counts) = captured(&file);
    assert!(done.stderr.contains(&format!("angara: {} packets in ", packets.len())), "{done}");
    assert_eq!(names, ["h0", "h1"]);
    let owners = owners(&cluster);
    for (interface, [passed, dropped, written]) in &counts {
        let here = packets.iter().filter(|p| p.interface == *interface).count() as u64;
        assert!(here > 0 && [here, 0, here] == [*passed, *dropped, *written], "h{interface}: {counts:?}");
    }
    assert_eq!(counts.len(), 2);
    assert!(packets.iter().filter(|p| p.event == SENT).all(|p| owners[p.node as usize] == p.interface));
    // On one machine there is one clock, and everything ended before anything had to wait for long.
    let late = packets.windows(2).filter(|two| two[0].stamp > two[1].stamp).count();
    assert!(late * 100 <= packets.len(), "{late} of {} packets are behind later ones", packets.len());
    // Links have counted the same, wherever they are.
    let report: angara_protocol::msg::Report =
        serde_json::from_str(&std::fs::read_to_string(report).expect("a report")).expect("a report");
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
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn a_host_that_is_lost_ends_its_part_of_a_capture() {
    let test = Test::new("cluster-look-capture-lost");
    let mut cluster = Cluster::start(&test, "4x2", Hosts::loopback(2), &[]);
    let ring = tools::compile("examples/c/ring.c");
    let (all, own, other) = (test.file("all.pcapng"), test.file("own.pcapng"), test.file("other.pcapng"));
    let dir = cluster.dir(0);
    let capture = |file: &Path, options: &[&str]| {
        let mut command = test.angara(["capture", "-w"]);
        command.arg(file).arg("--runtime-dir").arg(&dir).args(options);
        let capture = test.spawn(command);
        capture.expect_error("capturing");
        capture
    };
    // A link of the other host, and what this host alone hears.
    let far = (0..8).zip(owners(&cluster)).find(|(_, host)| *host == 1).expect("it has nodes").0;
    let running = [
        capture(&all, &[]),
        capture(&own, &["--here"]),
        capture(&other, &["--node", &format!("{},{}", far % 4, far / 4)]),
    ];
    test.run(cluster.run(&["--timeout", "100", "-n", "8", "--path", "ring"], &ring)).success();
    let daemon = cluster.take(1);
    daemon.signal(Signal::KILL);
    daemon.wait(PATIENCE);
    running[0].expect_error("host h1 was lost in the middle of the capture");
    running.iter().for_each(|capture| capture.signal(Signal::INT));
    let done = running.map(|capture| capture.wait(PATIENCE).success());
    assert!(!done[1].stderr.contains("was lost"), "{}", done[1]);
    let (names, packets, counts) = captured(&all);
    assert_eq!((names.len(), counts.keys().copied().collect::<Vec<_>>()), (2, vec![0]), "it ended without a count");
    assert!(packets.iter().any(|p| p.interface == 1));
    let (names, packets, _) = captured(&own);
    assert_eq!(names.len(), 1);
    assert!(!packets.is_empty());
    let (_, packets, _) = captured(&other);
    assert!(packets.iter().any(|p| p.interface == 1 && p.node == far), "{} packets", packets.len());
    cluster.shutdown();
}

/// Links in the events of a page that are on `host`, with the flits that each has carried, as far as events have come.
fn told(text: &str, owners: &[u32], host: u32) -> BTreeMap<u64, u64> {
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let mut links = BTreeMap::new();
    for event in events {
        let figures: Vec<u64> = event["links"].as_array().expect("links").iter().filter_map(Value::as_u64).collect();
        let rows = figures.chunks_exact(4).filter(|row| owners[row[0] as usize / 8] == host);
        links.extend(rows.map(|row| (row[0], row[2])));
    }
    links
}

#[test]
fn the_page_shows_the_links_of_all_hosts() {
    let test = Test::new("cluster-look-page");
    let mut cluster = Cluster::start(&test, "4x2", Hosts::loopback(2), &["--web", "127.0.0.1:0"]);
    let owners = owners(&cluster);
    let Ok(Reply::Status(status)) = cluster.control(0).ask(&Request::Status) else { panic!("no status") };
    let to = http::address(&status.web.expect("a page"));
    let token = std::fs::read_to_string(cluster.dir(0).join("read.token")).expect("a token");
    let may = format!("Authorization: Bearer {}", token.trim());
    let mut stream = http::connect(to);
    write!(stream, "GET /api/events HTTP/1.1\r\nHost: {to}\r\n{may}\r\n\r\n").expect("written");
    let report = test.file("report.json");
    let options = ["--timeout", "100", "-n", "8", "--path", "ring", "--report", report.to_str().expect("text")];
    test.run(cluster.run(&options, &tools::compile("examples/c/ring.c"))).success();
    let report: angara_protocol::msg::Report =
        serde_json::from_str(&std::fs::read_to_string(report).expect("a report")).expect("a report");
    let mut counted = BTreeMap::new();
    for link in report.links.iter().filter(|link| owners[link.node as usize] == 1) {
        let dir = link.dir;
        let flits: u64 = link.load.values().map(|load| load.flits).sum();
        if flits > 0 {
            counted.insert(u64::from(link.node) * 8 + dir.index() as u64, flits);
        }
    }
    assert!(!counted.is_empty(), "nothing crossed the other host");
    // The page of this host comes to show what links of the other one have carried.
    let (mut text, mut piece) = (String::new(), [0; 16 << 10]);
    let whole = |text: &str| {
        let told = told(text, &owners, 1);
        counted.iter().all(|(link, flits)| told.get(link).is_some_and(|told| told >= flits))
    };
    while !whole(&text) {
        let n = stream.read(&mut piece).unwrap_or_else(|e| panic!("{e}: {counted:?} in\n{text}"));
        assert!(n > 0, "the stream has ended: {counted:?} in\n{text}");
        text.push_str(&String::from_utf8_lossy(&piece[..n]));
    }
    let link = *counted.keys().next().expect("some");
    let detail = || http::ask(to, "GET", &format!("/api/link/{}/{}", link / 8, link % 8), &[&may], "");
    let answer = detail();
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
    let flits = |class: &Value| class["load"]["flits"].as_u64();
    let flits: Option<u64> = body["classes"].as_array().expect("classes").iter().map(flits).sum();
    assert!(flits.is_some_and(|flits| flits >= counted[&link]), "{body}");
    let daemon = cluster.take(1);
    daemon.signal(Signal::KILL);
    daemon.wait(PATIENCE);
    let lost = || detail().status == 503 && detail().body.contains("host h1 does not answer");
    assert!(poll_until(lost), "{:?}", detail());
    cluster.shutdown();
}

#[test]
fn what_nobody_takes_of_a_capture_is_counted_for_each_host() {
    let test = Test::new("cluster-look-capture-slow");
    let cluster = Cluster::start(&test, "4x2", Hosts::loopback(2), &[]);
    let file = test.file("slow.pcapng");
    let mut job = cluster.run(&["-n", "4", "--path", "ring"], &tools::compile("tests/c/captured.c"));
    // It goes on until it is ended.
    job.arg("on");
    let job = test.spawn(job);
    let capture = |options: &[&str], file: &Path| {
        let mut command = test.angara(["capture", "--runtime-dir"]);
        command.arg(cluster.dir(0)).arg("-w").arg(file).args(options);
        command
    };
    let slow = test.spawn(capture(&[], &file));
    slow.expect_error("capturing");
    slow.process().stop();
    test.run(capture(&["-q", "--snaplen", "0", "--count", "150000"], Path::new("/dev/null"))).success();
    slow.process().signal(Signal::CONT);
    slow.process().signal(Signal::INT);
    let done = slow.wait(PATIENCE).success();
    let (names, _, counts) = captured(&file);
    assert_eq!(counts.len(), 2, "{done}");
    for (interface, [passed, dropped, written]) in counts {
        assert!(dropped > 0 && passed == dropped + written, "h{interface}: {passed} {dropped} {written}");
        let said = format!("{dropped} of {passed} packets of host {} are not in", names[interface as usize]);
        assert!(done.stderr.contains(&said), "{said}: {done}");
    }
    job.signal(Signal::INT);
    assert_eq!(job.wait(PATIENCE).code(), 130);
    cluster.shutdown();
    test.assert_clean();
}
