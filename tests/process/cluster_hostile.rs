//! Somebody on the network sends daemons what they like while jobs run: nothing of it is accepted, and nobody notices.
//! And a host that has the key but has lost its mind: daemons may lose its jobs, but not their own minds.
//!
//! `CLUSTER_HOSTILE=1000000 CLUSTER_SEED=1 cargo test --release -p angara-tests cluster_hostile::` sends more.

use angara_protocol::msg::PeerStatus;
use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::process::{PATIENCE, Process, poll_until};
use angara_tests::trunks::{Peer, Proxy, handshake};
use angara_tests::{Rng, Test, tools};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Datagrams of an ordinary run.
const USUAL: u64 = 100_000;
/// Records of a byzantine host in an ordinary run.
const USUAL_RECORDS: u64 = 20_000;
/// Sent before the daemon's socket is looked at again.
const BURST: u64 = 32;
/// How much a daemon may grow: buffers of trunks, rings that double.
const GROWTH: u64 = 24 << 20;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn random() -> (Rng, u64) {
    let seed = number("CLUSTER_SEED", 1);
    println!("again: CLUSTER_SEED={seed} cargo test --release -p angara-tests cluster_hostile::");
    (Rng::new(seed), seed)
}

/// A job that checks every byte; must end well.
fn job(cluster: &Cluster<'_>, map: &Path, pes: &str, millis: &str) -> Command {
    let map = format!("file:{}", map.display());
    let mut command = cluster.run(&["-n", pes, "--map", &map, "--heap", "1M"], &tools::compile("tests/c/checked.c"));
    command.args(["1", millis]);
    command
}

/// Resident memory of a process.
fn memory(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).expect("it is alive");
    let line = status.lines().find(|l| l.starts_with("VmRSS")).expect("every process has a size");
    line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).expect("kilobytes") << 10
}

/// The sockets of an address by their number: datagrams the kernel dropped because one was full, and bytes waiting in it.
fn sockets(address: SocketAddr) -> BTreeMap<u64, (u64, u64)> {
    let SocketAddr::V4(address) = address else { panic!("{address} is not IPv4") };
    let local = format!("{:08X}:{:04X}", u32::from_le_bytes(address.ip().octets()), address.port());
    let table = std::fs::read_to_string("/proc/net/udp").expect("Linux");
    let fields = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
    let ours = table.lines().map(fields).filter(|f| f[1] == local);
    let one = |f: Vec<String>| {
        let waiting = f[4].split(':').nth(1).and_then(|n| u64::from_str_radix(n, 16).ok());
        let dropped = f.last().and_then(|n| n.parse().ok());
        (f[9].parse().expect("an inode"), (dropped.expect("a number"), waiting.expect("a number")))
    };
    ours.map(one).collect()
}

/// Datagrams the kernel dropped because a socket of an address was full, and bytes waiting there.
fn kernel(address: SocketAddr) -> (u64, u64) {
    // While sockets come and go elsewhere, a reader of the table may miss some.
    let mut found = sockets(address);
    let stable = || {
        let before = std::mem::replace(&mut found, sockets(address));
        !found.is_empty() && found.keys().eq(before.keys())
    };
    assert!(poll_until(stable), "no socket of {address} in the table of the kernel");
    found.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Datagrams by what a daemon did with them: accepted, refused.
fn counted(cluster: &Cluster<'_>, host: usize) -> (u64, u64) {
    let status = cluster.status(host);
    let refused = |p: &PeerStatus| p.refused.values().sum::<u64>();
    let accepted = status.peers.iter().map(|p| p.received.datagrams).sum();
    (accepted, status.strangers + status.peers.iter().map(refused).sum::<u64>())
}

/// The text of a cluster file with one address in place of another.
fn rewire(cluster: &Cluster<'_>, host: usize, from: &str, to: SocketAddr) {
    let text = std::fs::read_to_string(cluster.file(host)).expect("written");
    assert!(text.contains(from), "{from} in\n{text}");
    std::fs::write(cluster.own_file(host), text.replace(from, &to.to_string())).expect("ours");
}

fn cluster_id(cluster: &Cluster<'_>) -> [u8; 16] {
    let text = std::fs::read_to_string(cluster.file(0)).expect("written");
    let digits = text.lines().find_map(|l| l.strip_prefix("id = \"")?.strip_suffix('"')).expect("every file has one");
    hex(digits).try_into().expect("16 bytes")
}

fn hex(digits: &str) -> Vec<u8> {
    let pair = |i: usize| u8::from_str_radix(&digits[i..i + 2], 16).expect("hexadecimal digits");
    (0..digits.trim().len()).step_by(2).map(pair).collect()
}

/// Datagrams of all kinds by their receiver: those that passed, and those of sessions that only look alike.
fn overheard(proxies: &[Proxy], id: [u8; 16], key: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut recorded: Vec<(usize, Vec<u8>)> = Vec::new();
    for (to, proxy) in proxies.iter().enumerate() {
        recorded.extend(proxy.recorded().into_iter().map(|d| (to, d)));
    }
    // Sessions made with another key, of another cluster, between other hosts.
    for (key, id, hosts) in [(&[7; 32][..], id, (0, 1)), (key, [9; 16], (0, 1)), (key, id, (0, 7)), (key, id, (5, 1))] {
        for (to, datagram) in handshake(key, id, hosts) {
            recorded.push((usize::from(to == hosts.1), datagram));
        }
    }
    recorded.retain(|(_, d)| d.len() < 9000);
    let kinds = recorded.iter().fold(BTreeMap::<u8, u64>::new(), |mut all, (_, d)| {
        *all.entry(d[0]).or_default() += 1;
        all
    });
    assert!((1..=4).all(|kind| kinds.contains_key(&kind)), "datagrams of every kind were recorded: {kinds:?}");
    recorded
}

/// What somebody hostile makes of a datagram, and the host that gets it.
fn spoilt(rng: &mut Rng, mut to: usize, genuine: &[u8]) -> (usize, Vec<u8>) {
    let mut frame = genuine.to_vec();
    match rng.below(7) {
        0 => {
            frame = {
                let n = rng.below(2_000) as usize;
                rng.bytes(n)
            }
        }
        1 => {
            // A good header, the rest random.
            frame.truncate(24);
            let n = rng.below(200) as usize;
            frame.extend(rng.bytes(n));
        }
        2 => frame.truncate(rng.below(frame.len() as u64) as usize),
        3 => {
            let bit = rng.below(8 * frame.len() as u64) as usize;
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        4 => {
            let at = rng.below(24) as usize;
            frame[at] = frame[at].wrapping_add(1 + rng.below(255) as u8);
        }
        5 => to = 1 - to,
        // As it was.
        _ => {}
    }
    (to, frame)
}

/// A host's counts before anything hostile is sent to it.
struct Before {
    host: usize,
    address: SocketAddr,
    forwarded: u64,
    accepted: u64,
    refused: u64,
    dropped: u64,
    session: u64,
    memory: u64,
}

impl Before {
    /// First what was forwarded, then what was taken; at the end the other way round: never more taken than forwarded.
    fn of(cluster: &Cluster<'_>, host: usize, address: SocketAddr, proxy: &Proxy) -> Before {
        let forwarded = proxy.forwarded();
        let (accepted, refused) = counted(cluster, host);
        let dropped = kernel(address).0;
        let session = cluster.status(host).peers[0].session;
        let memory = memory(&cluster.daemon(host).expect("it runs").process());
        Before { host, address, forwarded, accepted, refused, dropped, session, memory }
    }

    /// Every datagram that came since is accounted for: genuine ones accepted, `sent` hostile ones refused. Of these,
    /// `requests` were old requests.
    fn check(&self, cluster: &Cluster<'_>, proxy: &Proxy, sent: u64, requests: u64) {
        let host = self.host;
        let figures = || {
            let (accepted, refused) = counted(cluster, host);
            let genuine = proxy.forwarded() - self.forwarded;
            let dropped = kernel(self.address).0 - self.dropped;
            (accepted - self.accepted, refused - self.refused, genuine, dropped)
        };
        // Recorded requests that were answered may be in neither count.
        let settled = || {
            let (accepted, refused, genuine, dropped) = figures();
            let (least, all) = (accepted + refused + dropped, genuine + sent);
            least <= all && all <= least + requests
        };
        let ok = poll_until(settled);
        let (accepted, refused, genuine, dropped) = figures();
        let text = format!(
            "h{host}: {accepted} accepted, {refused} refused, {dropped} dropped by the kernel; {genuine} genuine and \
             {sent} hostile ones were sent, {requests} of them old requests"
        );
        println!("{text}: {:?}", cluster.status(host).peers[0].refused);
        assert!(ok, "datagrams are not accounted for: {text}");
        assert!(accepted <= genuine + requests, "something hostile was accepted: {text}");
        assert!(refused + dropped >= sent - requests, "{text}");
        let peer = &cluster.status(host).peers[0];
        assert_eq!((peer.up, peer.session), (true, self.session), "a new session: {peer:?}");
        for why in ["foreign", "unknown key", "old session", "forged", "replayed"] {
            assert!(peer.refused.get(why).is_some_and(|n| *n > 0), "nothing {why}: {peer:?}");
        }
        assert_eq!(peer.refused.get("violation"), None, "{peer:?}");
        let grown = memory(&cluster.daemon(host).expect("it runs").process()).saturating_sub(self.memory);
        assert!(grown < GROWTH, "h{host} has grown by {grown} bytes");
    }
}

#[test]
fn nothing_hostile_is_accepted_by_daemons() {
    let (mut rng, seed) = random();
    let count = number("CLUSTER_HOSTILE", USUAL);
    let test = Test::new("cluster-hostile");
    let mut cluster = Cluster::prepare(&test, "4x2", Hosts::loopback(2), "dead-after = \"10s\"", &[]);
    // All datagrams between the daemons pass through us.
    let addresses: Vec<SocketAddr> = (0..2).map(|h| cluster.address(h).parse().expect("an address")).collect();
    let proxies = [Proxy::start(addresses[0]), Proxy::start(addresses[1])];
    rewire(&cluster, 0, &addresses[1].to_string(), proxies[1].address());
    rewire(&cluster, 1, &addresses[0].to_string(), proxies[0].address());
    (0..2).for_each(|h| cluster.spawn(h));
    cluster.wait_up();
    let map = test.file("map");
    std::fs::write(&map, "0\n1\n2\n3\n4\n5\n6\n7\n").expect("ours");
    test.run(job(&cluster, &map, "8", "200")).success();
    // What has been recorded so far is of an earlier session once a host has begun anew.
    let old = cluster.take(1);
    old.signal(Signal::TERM);
    old.wait(PATIENCE).success();
    let session = cluster.status(0).peers[0].session;
    cluster.spawn(1);
    assert!(poll_until(|| cluster.status(0).peers[0].up && cluster.status(0).peers[0].session != session));
    cluster.wait_up();
    test.run(job(&cluster, &map, "8", "200")).success();
    let key = hex(&std::fs::read_to_string(test.file("cluster.key")).expect("ours"));
    let recorded = overheard(&proxies, cluster_id(&cluster), &key);

    let before = [0, 1].map(|h| Before::of(&cluster, h, addresses[h], &proxies[h]));
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let (mut sent, mut requests, mut jobs) = ([0u64; 2], [0u64; 2], 0);
    let start = Instant::now();
    let mut running = test.spawn(job(&cluster, &map, "8", "1000"));
    for i in 0..count {
        let (meant_for, genuine) = &recorded[rng.below(recorded.len() as u64) as usize];
        let (to, frame) = spoilt(&mut rng, *meant_for, genuine);
        // A recorded request for a session has an answer of the same length, and no other effect. Nothing is nothing.
        requests[to] += u64::from(frame.is_empty() || (frame == *genuine && frame[0] == 1));
        // From anywhere, or from where the genuine ones come from.
        let from = if rng.one_in(2) { &stranger } else { proxies[to].socket() };
        from.send_to(&frame, addresses[to]).expect("loopback");
        sent[to] += 1;
        if i % BURST == 0 {
            let room = || addresses.iter().all(|a| kernel(*a).1 < 100_000);
            assert!(poll_until(room), "a daemon does not read its socket any more");
            if running.process().wait_exit(Duration::ZERO) {
                let done = running.wait(PATIENCE).success();
                assert!(done.stdout.contains("all right"), "{done}");
                jobs += 1;
                running = test.spawn(job(&cluster, &map, "8", "1000"));
            }
        }
    }
    let done = running.wait(PATIENCE).success();
    assert!(done.stdout.contains("all right"), "{done}");
    println!("seed {seed}: {sent:?} hostile datagrams in {:.1?}, {} jobs unharmed", start.elapsed(), jobs + 1);
    for (host, before) in before.iter().enumerate() {
        before.check(&cluster, &proxies[host], sent[host], requests[host]);
    }
    drop(proxies);
    cluster.shutdown();
    test.assert_clean();
}

/// Changes a value somewhere in a message.
fn mutate(rng: &mut Rng, value: &mut Value) {
    const NUMBERS: [u64; 12] = [0, 1, 2, 3, 7, 255, 65_535, 65_536, 1 << 31, u32::MAX as u64, 1 << 40, u64::MAX];
    match value {
        Value::Array(all) if !all.is_empty() && !rng.one_in(8) => {
            let at = rng.below(all.len() as u64) as usize;
            match rng.below(6) {
                0 => drop(all.remove(at)),
                1 => all.push(all[at].clone()),
                _ => mutate(rng, &mut all[at]),
            }
        }
        Value::Object(all) if !all.is_empty() && !rng.one_in(16) => {
            let at = rng.below(all.len() as u64) as usize;
            if let Some(inner) = all.values_mut().nth(at) {
                mutate(rng, inner);
            }
        }
        Value::Number(_) => *value = json!(rng.pick(&NUMBERS)),
        Value::String(text) if rng.one_in(2) => {
            let at = rng.below(text.len() as u64 + 1) as usize;
            if text.is_char_boundary(at) {
                text.truncate(at);
            }
        }
        Value::String(text) => text.push_str(rng.pick(&["x", " ", "\u{0}", "999999999999", "-X", "0,0", "@1ms"])),
        Value::Bool(b) => *b = !*b,
        other => *other = rng.pick(&[Some(0), None]).map_or(json!([]), |n: u64| json!(n)),
    }
}

/// Messages of every kind, as a sane host might say them about a job.
fn messages(rng: &mut Rng, job: u64) -> Value {
    let spec = json!({"pes": 4, "ppn": 1, "map": "linear", "heap": 1 << 20, "path": "auto", "barrier": "auto",
        "collectives": "auto", "name": "byzantine"});
    let id = [job, job + 3, 3 * 7 + 2][rng.below(3) as usize];
    let ask = |ask: Value| json!({"ask": [id * 1000 + 5, ask]});
    let tell = |tell: Value| json!({"tell": tell});
    let n = rng.below(8);
    let held = json!({"agreed": {"number": n, "members": {"0": n, "1": n, "2": 2989}, "edges": [[0, 1, 1], [0, 2, 1]],
        "expelled": [[2, n]], "faults": ["link 0,0 +X corrupt=1%"]}, "ledger": vec![n; 40], "jobs": []});
    match rng.below(25) {
        0 | 1 => {
            ask(json!({"reserve": {"id": 50 + 3 * n + 2, "slot": n + 2, "generation": 1, "uid": 0, "user": "root",
            "key": "00".repeat(16), "spec": spec, "nodes": [0, 1, 2, 3], "heap_stride": 2 << 20, "number": n}}))
        }
        2 | 3 => ask(json!({"open": {"id": 50 + 3 * n + 2, "endpoints": [0, 0, 0, 0], "barrier": "multiphase",
            "hosts": [0, 1, 2]}})),
        4 => ask(json!({"report": id})),
        5 => ask(json!({"waits": id})),
        6 => ask(json!({"tree-load": [id, n, 0, [0, 1, 2, 3]]})),
        7 => ask(json!({"lead": "link 0,0 +X corrupt=1%"})),
        8 => ask(json!({"hold": [n, 2]})),
        9 => {
            let mut order = held;
            order["ballot"] = json!([n, 2]);
            ask(json!({"mend": order}))
        }
        10 => ask(json!({"agent": [id, n]})),
        11 => tell(json!({"close": [id + 1000, [n, 0]]})),
        12 => tell(json!({"event": {"event": "pe-lost", "job": id + 1000, "pe": n, "reason": "byzantine"}})),
        13 => tell(json!({"attached": [id + 1000, n, true]})),
        14 => tell(json!({"statics": [id + 1000, [4096, 4096]]})),
        15 => tell(json!({"tree-close": [id + 1000, n]})),
        16 => tell(json!({"stream-taken": [n, 1 << 20]})),
        17 => tell(json!({"stream-end": n})),
        18 => tell(json!({"stuck": n})),
        19 => ask(json!({"forget": "link 0,0 +X clear"})),
        20 => ask(json!({"capture": [0, "root", {"job": null, "link": null, "node": null, "vc": n, "snaplen": n}, n]})),
        21 => ask(json!({"links": n})),
        22 => ask(json!({"link": n * id})),
        23 => ask(json!("clock")),
        _ => json!({"answer": [n, {"Ok": {"held": held}}]}),
    }
}

/// An answer of some kind to a question.
fn answer(rng: &mut Rng, peer: &mut Peer, from: u16, record: &[u8]) {
    // Behind the head of a piece and its own two bytes.
    let Some(message) = record.get(40..).and_then(|json| serde_json::from_slice::<Value>(json).ok()) else { return };
    let Some([id, _]) = message["ask"].as_array().map(Vec::as_slice) else { return };
    let reply = rng.pick(&["done", "later", "unable"]);
    peer.say(from, &json!({"answer": [id, {"Ok": reply}]}), false);
}

/// What a mad host has done.
enum Said {
    Message,
    Record,
    Nothing,
}

/// Says something about a job to one of the daemons, or sends what could be from a link.
fn babble(rng: &mut Rng, byzantine: &mut Peer, job: u64) -> Said {
    let to = rng.below(2) as u16;
    if rng.one_in(3) {
        let mut message = messages(rng, job);
        for _ in 0..rng.below(4) {
            mutate(rng, &mut message);
        }
        // Of what it may ask the others to do, this would leave it alone with itself.
        if message.to_string().contains("down") {
            return Said::Nothing;
        }
        byzantine.say(to, &message, rng.one_in(10));
        return Said::Message;
    }
    let record = if rng.one_in(4) {
        let n = rng.below(300) as usize;
        rng.bytes(n)
    } else {
        frames(rng)
    };
    let channel = if rng.one_in(10) { rng.u64() as u16 } else { rng.below(10) as u16 };
    byzantine.send(to, channel, &record);
    Said::Record
}

/// The two daemons answer, and end without a panic or a log full of complaints about the third host.
fn end_in_order(cluster: &mut Cluster<'_>, began: Instant) {
    for host in 0..2 {
        cluster.control(host).status();
        let daemon = cluster.take(host);
        daemon.signal(Signal::TERM);
        let done = daemon.wait(PATIENCE).success();
        assert!(!done.stderr.contains("panicked"), "{done}");
        // What it said a thousand times does not fill the log.
        let seconds = began.elapsed().as_secs() as usize;
        for complaint in ["a message was not understood", "over a boundary link was refused"] {
            let said = |line: &&str| line.contains(complaint) && line.contains("host=\"h2\"");
            let lines = done.stderr.lines().filter(said).count();
            assert!((1..=seconds + 1).contains(&lines), "{complaint}: {lines} times in {seconds} s\n{done}");
        }
    }
}

#[test]
fn a_mad_host_with_the_key_harms_no_daemon() {
    let (mut rng, seed) = random();
    let count = number("CLUSTER_RECORDS", USUAL_RECORDS);
    let test = Test::new("cluster-byzantine");
    // Three columns of a ring: what h0 and h1 say to each other does not pass the nodes of h2.
    let mut cluster = Cluster::prepare(&test, "3x2", Hosts::loopback(3), "dead-after = \"10s\"", &[]);
    let addresses: Vec<SocketAddr> = (0..3).map(|h| cluster.address(h).parse().expect("an address")).collect();
    let key = hex(&std::fs::read_to_string(test.file("cluster.key")).expect("ours"));
    let mut byzantine = Peer::new(2, &addresses, cluster_id(&cluster), &key);
    let began = Instant::now();
    (0..2).for_each(|h| cluster.spawn(h));
    let end = Instant::now() + PATIENCE;
    while byzantine.known() < 2 {
        assert!(Instant::now() < end, "the daemons do not say that they live");
        byzantine.turn(Duration::from_millis(5));
    }
    byzantine.announce();
    let (on_two, on_three) = (test.file("two"), test.file("three"));
    std::fs::write(&on_two, "0\n1\n3\n4\n").expect("ours");
    std::fs::write(&on_three, "0\n1\n2\n3\n").expect("ours");

    let process = |h: usize| cluster.daemon(h).expect("it runs").process();
    let sizes = [0, 1].map(|h| memory(&process(h)));
    let (mut said, mut sent) = (0u64, 0u64);
    for i in 0..count {
        match babble(&mut rng, &mut byzantine, i / 1000) {
            Said::Message => said += 1,
            Said::Record => sent += 1,
            Said::Nothing => {}
        }
        if i % 8 == 0 {
            // What is asked of it, it answers or not.
            for (from, channel, record) in byzantine.turn(Duration::ZERO) {
                if channel == 0 && rng.one_in(2) {
                    answer(&mut rng, &mut byzantine, from, &record);
                }
            }
        }
        if i % 2_000 == 0 {
            for host in 0..2 {
                assert!(
                    !process(host).wait_exit(Duration::ZERO),
                    "h{host} died\n{}",
                    cluster.daemon(host).map_or(String::new(), |d| d.so_far())
                );
                cluster.control(host).status();
            }
        }
    }
    println!("seed {seed}: {said} messages and {sent} records of links");
    for host in 0..2 {
        let status = cluster.status(host);
        let counted = status.peers.iter().any(|p| p.host == "h2" && p.nonsense > 0);
        assert!(counted, "h{host} took everything seriously: {status:?}");
    }
    drop(byzantine);
    let grown = [0, 1].map(|h| memory(&process(h)).saturating_sub(sizes[h]));
    println!("grown by {grown:?} bytes; {:?}", cluster.status(0).peers);
    assert!(grown.iter().all(|g| *g < GROWTH), "daemons have grown by {grown:?} bytes");

    // What they have agreed on with a byzantine host may be nonsense for good (the number of a change that nothing is above,
    // say), so they begin anew; with a sane host in its place everything works.
    end_in_order(&mut cluster, began);
    (0..3).for_each(|host| cluster.spawn(host));
    cluster.wait_up();
    let done = test.run(job(&cluster, &on_two, "4", "200")).success();
    assert!(done.stdout.contains("all right"), "{done}");
    let done = test.run(job(&cluster, &on_three, "4", "200")).success();
    assert!(done.stdout.contains("all right"), "{done}");
    for daemon in cluster.shutdown() {
        assert!(!daemon.stderr.contains("panicked"), "{daemon}");
    }
    test.assert_clean();
}

/// Frames of a link with any contents, behind the number of route changes.
fn frames(rng: &mut Rng) -> Vec<u8> {
    let mut out = rng.below(4).to_le_bytes().to_vec();
    for _ in 0..1 + rng.below(5) {
        let vc = (rng.below(6) as u8) << 4;
        match rng.below(4) {
            0 => {
                out.push(vc);
                out.extend((rng.u64() as u16).to_le_bytes());
            }
            1 => {
                let flits = rng.below(20) as u8;
                out.extend([1 | vc, flits]);
                // Job and generation as they are likely to be, then anything.
                out.extend((rng.below(4) as u16).to_le_bytes());
                out.extend((rng.below(4) as u16).to_le_bytes());
                out.extend(rng.bytes(28));
                out.extend(rng.bytes(flits as usize * 16));
            }
            kind => {
                out.push(kind as u8);
                out.extend((rng.below(8) as u32).to_le_bytes());
                out.extend((rng.below(3) as u16).to_le_bytes());
                out.extend((rng.below(4) as u16).to_le_bytes());
                out.extend((rng.below(4) as u16).to_le_bytes());
                if kind == 3 {
                    out.extend(rng.bytes(13));
                    out.push(rng.below(6) as u8);
                    out.extend(rng.bytes(10));
                }
            }
        }
    }
    out
}
