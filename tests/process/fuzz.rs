//! A million random inputs to a live daemon: descriptors, ring packets, doorbells, CSR commands,
//! control lines and adapter datagrams. The daemon must not panic, must not reach outside a
//! client's memory, and must leave the checksummed memory of a second job alone.
//!
//! `ANGARA_FUZZ_INPUTS=N` changes the number of inputs.

use angara_abi::JobId;
use angara_abi::account::Class;
use angara_abi::csr;
use angara_abi::desc::{AmoOp, Descriptor, Moves, Op, Place, Region, Words};
use angara_abi::packet::{Address, Header, PacketType, ReduceElem, ReduceOp, Tail, Vc};
use angara_abi::queue::QueueMemory;
use angara_net::Link;
use angara_net::fault::{Action, Command, Failing, Fault, Site, Target};
use angara_net::torus::Coords;
use angara_net::torus::Direction;
use angara_protocol::msg::FdRole;
use angara_protocol::msg::{AdapterRequest, JobSpec, Map, Path, Request};
use angara_tests::client::{Client, Socket, attach_request};
use angara_tests::daemon::{Control, Daemon, Job, spec};
use angara_tests::hostile::Victim;
use angara_tests::process::poll_until;
use angara_tests::{Rng, Test};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// PEs of an attacking job, all on a few nodes so that endpoints are dense.
const ATTACKERS: u32 = 16;

fn inputs() -> u64 {
    std::env::var("ANGARA_FUZZ_INPUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000)
}

/// A daemon under attack and the job that must not notice.
struct Arena {
    victim: Victim,
    control: Control,
    daemon: Daemon,
    test: Test,
    rng: Rng,
}

impl Arena {
    fn new(name: &str, seed: u64) -> Arena {
        let test = Test::new(name);
        let daemon = Daemon::start(&test, &["--torus", "2x2x2", "--channels", "64", "--log", "off"]);
        let victim = Victim::start(&daemon);
        let control = daemon.control();
        Arena { victim, control, daemon, test, rng: Rng::for_test("fuzz", seed) }
    }
    fn job(&mut self) -> Job {
        let spec = JobSpec { ppn: 8, heap: 64 << 10, ..spec(ATTACKERS, Path::Ring) };
        self.control.create(spec).expect("a plain job")
    }
    /// Nothing panicked, nobody was harmed, everything is given back.
    fn finish(mut self) {
        self.victim.check("at the end");
        self.victim.end();
        drop(self.control);
        assert!(poll_until(|| self.daemon.status().jobs.is_empty()), "jobs outlive their owners");
        let said = self.daemon.process.so_far();
        assert!(!said.contains("panicked"), "{said}");
        self.daemon.shutdown();
        self.test.assert_clean();
    }
}

/// A value near the edges that matter, or anything.
fn number(rng: &mut Rng, edges: &[u64]) -> u64 {
    match rng.below(4) {
        0 => rng.u64(),
        1 => rng.pick(edges).wrapping_add(rng.below(17)).wrapping_sub(8),
        _ => rng.below(rng.clone().pick(edges).max(1)),
    }
}

fn place(rng: &mut Rng, client: &Client) -> Place {
    let region = rng.pick(&[Region::Heap, Region::Heap, Region::Heap, Region::Static, Region::Bounce]);
    let edges = [4096, client.stride as u64, 1 << 20, 1 << 32, 1 << 48];
    Place { region, offset: number(rng, &edges) & angara_abi::desc::OFFSET_MAX }
}

/// A target: usually a PE of the own job, sometimes one of the victim, sometimes nonsense.
fn target(rng: &mut Rng, client: &Client, victim: &[(Coords, u16)]) -> (Coords, u16) {
    match rng.below(8) {
        0 => (Coords(rng.u32().to_le_bytes()), rng.below(1024) as u16),
        1 => rng.pick(victim),
        _ => client.address(rng.below(ATTACKERS as u64) as usize),
    }
}

/// Plausible descriptors: most pass the decoder, many reach memory.
fn descriptor(rng: &mut Rng, client: &Client, victim: &[(Coords, u16)]) -> Words {
    let op = match rng.below(16) {
        0 => Op::Nop,
        1..4 => rng.pick(&[Op::Put, Op::PutInline]),
        _ => rng.pick(&Op::ALL.iter().copied().filter(|op| op.facts().remote).collect::<Vec<_>>()),
    };
    let (dst, endpoint) = target(rng, client, victim);
    let amo = AmoOp::from_bits(rng.below(7) as u8).expect("seven atomics");
    let mut d = Descriptor { dst, endpoint, amo, ..Descriptor::new(op) };
    d.class = rng.pick(&Class::ALL);
    d.width = rng.pick(&[4, 8]);
    d.len = number(rng, &[8, 256, 4096, client.stride as u64, 1 << 30]) as u32;
    if op.facts().moves == Moves::Bytes(8) {
        d.len = 1 + d.len % 8;
    }
    d.remote = Some(place(rng, client));
    d.local = (!rng.one_in(8)).then(|| place(rng, client));
    d.completion = rng.one_in(2).then(|| place(rng, client));
    d.flags = if rng.one_in(16) { rng.u32() as u16 } else { 0 };
    d.vc = if rng.one_in(16) { rng.pick(&Vc::ALL) } else { Vc::Request };
    (d.tree, d.reduce) = (rng.below(16) as u8, rng.below(16) as u8);
    (d.operand, d.comparand) = (rng.u64(), rng.u64());
    let mut words = d.encode();
    if rng.one_in(16) {
        let bit = rng.below(512) as usize;
        words[bit / 64] ^= 1 << (bit % 64);
    }
    if rng.one_in(64) {
        words = std::array::from_fn(|_| rng.u64());
    }
    words
}

/// Plausible packets.
fn packet(rng: &mut Rng, client: &Client, victim: &[(Coords, u16)]) -> Vec<u128> {
    let kind = PacketType::from_bits(rng.below(12) as u8).expect("twelve types");
    let kind = if rng.one_in(2) { PacketType::Write } else { kind };
    let (dst, endpoint) = target(rng, client, victim);
    let offset = place(rng, client).offset;
    let address = match kind {
        PacketType::BcastUp | PacketType::BcastDown | PacketType::Reduce | PacketType::CollCredit => Address::Tree {
            tree: rng.below(16) as u8,
            reduce: rng.below(16) as u8,
            op: rng.pick(&[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min]),
            elem: rng.pick(&[ReduceElem::I32, ReduceElem::U64]),
            all: rng.one_in(2),
            offset,
        },
        _ => Address::Memory { endpoint, region: rng.below(4) as u8, offset },
    };
    let data_flits = rng.below(17) as u8;
    let header = Header {
        vc: if rng.one_in(8) { rng.pick(&Vc::ALL) } else { Vc::Request },
        adaptive: rng.one_in(4),
        notify: rng.one_in(4),
        dirbits: rng.u32() as u8,
        dst,
        address,
        ..client.header(kind, data_flits, 0, 0)
    };
    let mut flits = vec![header.encode()];
    flits.extend((0..data_flits).map(|_| (rng.u64() as u128) << 64 | rng.u64() as u128));
    let bytes = rng.u32().to_le_bytes();
    flits.push(Tail { first_byte: bytes[0] & 3, last_byte: bytes[1], ..Tail::default() }.encode());
    if rng.one_in(32) {
        let bit = rng.below(flits.len() as u64 * 128) as usize;
        flits[bit / 128] ^= 1 << (bit % 128);
    }
    flits
}

/// How often an honest program posts an operation without being in a tree. Its PEs do not wait for each other.
fn often(op: Op) -> usize {
    match op {
        Op::PutInline | Op::Amo => 2,
        Op::Nop | Op::Put | Op::Get | Op::Fence => 1,
        Op::Barrier | Op::Reduce | Op::Bcast => 0,
    }
}

/// A descriptor an honest program could post: everything in range, the target in the own job.
fn honest(rng: &mut Rng, client: &Client, tree: Option<u8>) -> Words {
    let op = match tree {
        Some(_) if rng.one_in(8) => rng.pick(&[Op::Reduce, Op::Bcast]),
        _ => rng.pick(&Op::ALL.iter().flat_map(|&op| std::iter::repeat_n(op, often(op))).collect::<Vec<_>>()),
    };
    let mut d = client.descriptor(op, rng.below(ATTACKERS as u64) as usize);
    let room = client.stride as u64 - 512;
    let inside = |rng: &mut Rng| Some(Place { region: Region::Heap, offset: rng.below(room) & !7 });
    (d.remote, d.local) = (inside(rng), inside(rng));
    d.completion = rng.one_in(4).then(|| Place { region: Region::Bounce, offset: rng.below(64) * 8 });
    d.class = rng.pick(&Class::ALL);
    d.amo = AmoOp::from_bits(rng.below(7) as u8).expect("seven atomics");
    (d.operand, d.comparand, d.width) = (rng.u64(), rng.u64(), rng.pick(&[4, 8]));
    d.len = match op.facts().moves {
        Moves::Bytes(max) => 1 + rng.below(max.min(500) as u64) as u32,
        Moves::Elements(max) => 8 * (1 + rng.below(max as u64 / 8) as u32),
        Moves::Nothing | Moves::Word => 0,
    };
    d.tree = tree.unwrap_or(0);
    d.reduce = rng.below(16) as u8;
    d.encode()
}

/// An attacking client with its habits.
struct Attacker {
    client: Client,
    /// One post in N is wild.
    wild_once_in: u64,
    /// Packets rather than descriptors, one in N.
    packet_once_in: u64,
    descriptors: u32,
    /// Its last post waits for something, such as a reduction nobody else joins.
    stalled: bool,
}

impl Attacker {
    fn new(rng: &mut Rng, client: Client) -> Attacker {
        let wild_once_in = rng.pick(&[1, 20, 100, 400, 400, 2000]);
        Attacker { client, wild_once_in, packet_once_in: rng.pick(&[1, 3, 50]), descriptors: 0, stalled: false }
    }
    fn served(&self) -> bool {
        !self.stalled && self.client.channel.error().is_none()
    }
    /// Everything posted has been taken.
    fn drained(&self) -> bool {
        let (dma, tx) = self.client.head();
        dma == self.descriptors && tx == self.client.channel.tx_tail().load(Ordering::Relaxed)
    }
    fn honest_packet(rng: &mut Rng, client: &Client) -> Vec<u128> {
        let pe = rng.below(ATTACKERS as u64) as usize;
        let offset = rng.below(client.stride as u64 - 512);
        let mut flits = packet(rng, client, &[client.address(pe)]);
        let data_flits = (flits.len() - 2) as u8;
        flits[0] = client.header(PacketType::Write, data_flits, pe, offset).encode();
        flits[data_flits as usize + 1] = Tail { last_byte: 15, ..Tail::default() }.encode();
        flits
    }
    /// Posts some and says how many posts that were.
    fn flood(&mut self, rng: &mut Rng, victim: &[(Coords, u16)], tree: Option<u8>) -> u32 {
        let mut posted = 0;
        for _ in 0..1 + rng.below(64) {
            let client = &mut self.client;
            let (wild, ring) = (rng.one_in(self.wild_once_in), rng.one_in(self.packet_once_in));
            let done = match (ring, wild) {
                (false, false) => client.producer.post(&client.channel, honest(rng, client, tree)),
                (false, true) => client.producer.post(&client.channel, descriptor(rng, client, victim)),
                (true, false) => client.producer.inject(&client.channel, &Self::honest_packet(rng, client)),
                (true, true) => client.producer.inject(&client.channel, &packet(rng, client, victim)),
            };
            if done.is_err() {
                break;
            }
            self.descriptors += u32::from(!ring);
            posted += 1;
        }
        if rng.one_in(self.wild_once_in * 4) {
            let roles = [FdRole::ChannelPage, FdRole::Ring, FdRole::Dma, FdRole::Bounce, FdRole::Sync];
            let memory = self.client.writable(rng.pick(&roles));
            let at = rng.below(memory.len() as u64) as usize;
            let len = rng.below((memory.len() - at) as u64) as usize;
            memory.write(at, &rng.bytes(len)).expect("inside");
            self.client.channel.tx_tail().store(rng.u32(), Ordering::Release);
        }
        self.client.ring_doorbell();
        posted
    }
}

#[test]
fn random_posts_harm_nobody() {
    let mut arena = Arena::new("fuzz-posts", 0xf022_0001);
    let victim: Vec<_> = (0..3).map(|pe| arena.victim.clients[0].address(pe)).collect();
    let (want, begin) = (inputs() * 6 / 10, Instant::now());
    let (mut judged, mut jobs, mut stalled, mut faults) = (0u64, 0u64, 0, BTreeMap::new());
    while judged < want {
        let job = arena.job();
        jobs += 1;
        let dir = arena.daemon.dir().to_owned();
        let mut attackers: Vec<Attacker> = (0..ATTACKERS)
            .map(|pe| Attacker::new(&mut arena.rng, Client::attach(&dir, &job, pe).expect("attach")))
            .collect();
        let tree = open_tree(&mut arena.rng, &attackers[0].client);
        // Rounds go on with those that are still served.
        for _ in 0..60 {
            let mut waiting = Vec::new();
            for (i, attacker) in attackers.iter_mut().enumerate().filter(|(_, a)| a.served()) {
                let first = attacker.client.producer.next_seq();
                waiting.push((i, first, attacker.flood(&mut arena.rng, &victim, tree)));
            }
            if waiting.is_empty() {
                break;
            }
            let deadline = Instant::now() + Duration::from_millis(50);
            for (i, first, posted) in waiting {
                let attacker = &mut attackers[i];
                let left = deadline.saturating_duration_since(Instant::now());
                let taken = attacker.client.wait(left, |_| !attacker.served() || attacker.drained());
                attacker.stalled = !taken;
                judged += match attacker.client.channel.error() {
                    Some((fault, seq)) => {
                        *faults.entry(format!("{fault:?}")).or_insert(0u64) += 1;
                        u64::from(seq.clamp(first, first + posted - 1) - first + 1)
                    }
                    None if taken => u64::from(posted),
                    None => 0,
                };
            }
        }
        stalled += attackers.iter().filter(|a| a.stalled).count();
        drop(attackers);
        arena.control.events.clear();
        arena.control.destroy(job.id);
        if jobs.is_multiple_of(16) {
            arena.victim.check("beside random posts");
        }
    }
    println!(
        "{judged} posts judged in {jobs} jobs, {stalled} channels left waiting, {:?}, sticky errors: {faults:?}",
        begin.elapsed()
    );
    assert!(faults.len() >= 3, "the inputs are too tame or too wild: {faults:?}");
    arena.finish();
}

/// Every other job has a tree, so that collective posts go deep.
fn open_tree(rng: &mut Rng, client: &Client) -> Option<u8> {
    if rng.one_in(2) {
        return None;
    }
    match client.socket.ask(&AdapterRequest::TreeOpen { root: 0, pes: (0..ATTACKERS).collect() }) {
        Some((angara_protocol::msg::AdapterReply::Tree { tree }, _)) => Some(tree),
        other => panic!("no tree for a fresh job: {:?}", other.map(|(reply, _)| reply)),
    }
}

#[test]
fn random_csr_commands_harm_nobody() {
    let mut arena = Arena::new("fuzz-csr", 0xf022_0002);
    let (want, begin) = (inputs() * 2 / 10, Instant::now());
    let (mut answered, mut done, mut job) = (0u64, 0u64, arena.job());
    let mut clients: Vec<Client> = Vec::new();
    while answered < want {
        clients.retain(|c| c.channel.error().is_none());
        if clients.is_empty() {
            arena.control.events.clear();
            arena.control.destroy(job.id);
            job = arena.job();
            clients.extend((0..ATTACKERS).map(|pe| Client::attach(arena.daemon.dir(), &job, pe).expect("attach")));
        }
        let rng = &mut arena.rng;
        let sent: Vec<(usize, u32)> = clients
            .iter()
            .enumerate()
            .map(|(i, client)| {
                let known = [csr::SCRATCH, csr::ERRORS, csr::ID, csr::NODE, csr::LINK_BASE, csr::TREE_BASE];
                let register = match rng.below(4) {
                    0 => rng.u32(),
                    1 => rng.below(csr::CSR_BYTES as u64) as u32,
                    _ => rng.pick(&known),
                };
                let seq = client.channel.csr_command(register, rng.u64());
                client.ring_doorbell();
                (i, seq)
            })
            .collect();
        for (i, seq) in sent {
            let mut reply = None;
            let there = clients[i].wait(angara_tests::process::PATIENCE, |c| {
                reply = c.channel.csr_reply(seq);
                reply.is_some() || c.channel.error().is_some()
            });
            assert!(there, "CSR command {seq} was never answered");
            answered += 1;
            done += u64::from(reply == Some(Ok(())));
        }
    }
    println!("{answered} CSR commands answered, {done} executed, {:?}", begin.elapsed());
    assert!(done > 0 && done < answered);
    clients.clear();
    arena.victim.check("beside random CSR commands");
    arena.finish();
}

/// A fault that no network has.
fn no_fault(rng: &mut Rng, text: String) -> Command {
    let link = Link { node: u32::MAX - rng.below(9) as u32, dir: rng.pick(&Direction::ALL) };
    let site = rng.pick(&[Site::Link(link), Site::Node(link.node)]);
    let target = Target::Network(vec![Action::Set(Fault { site, failing: Failing::Down, at: Some(rng.u64()) })]);
    Command { text, target }
}

/// Control lines that must not do what an operator is allowed to (shut down, set real faults).
fn control_line(rng: &mut Rng, own_job: JobId) -> Vec<u8> {
    let job = if rng.one_in(2) { own_job } else { JobId::new(1_000_000 + rng.below(1000) as u32) };
    let text = |rng: &mut Rng| -> String {
        let alphabet: Vec<char> = "link node down corrupt=@+X-0,9%ä{}\"\\\u{7}".chars().collect();
        let random: String = (0..rng.below(40)).map(|_| rng.pick(&alphabet)).collect();
        format!("?{random}")
    };
    let request = match rng.below(13) {
        12 => Request::JobRemember { job },
        11 => Request::JobHistory { job, after: rng.u32().into() },
        10 => Request::LinkLoads,
        9 => Request::JobPairs { job, from: rng.u32(), to: rng.u32() },
        8 => Request::JobWaits { job },
        0 => Request::Status,
        1 => Request::JobReport { job },
        2 => Request::JobAttach { job: JobId::new(job.number() + 1_000_000), key: text(rng) },
        3 | 4 => {
            let text = text(rng);
            Request::Fault { command: no_fault(rng, text) }
        }
        5 => Request::Counters,
        6 => Request::JobDestroy { job: JobId::new(1_000_000) },
        _ => Request::JobCreate(JobSpec {
            // Always one thing wrong, so that no jobs pile up.
            pes: rng.pick(&[0, 1, 5000, u32::MAX]),
            ppn: rng.pick(&[0, u32::MAX]),
            map: if rng.one_in(2) { Map::List(vec![rng.u32(); rng.below(9) as usize]) } else { Map::Random(rng.u64()) },
            heap: rng.pick(&[0, 1 << 60, u64::MAX]),
            heap_may_shrink: false,
            registered: 0,
            name: text(rng),
            open: false,
            heterogeneous: false,
            ..spec(1, Path::Auto)
        }),
    };
    let mut line = serde_json::to_vec(&request).expect("plain data");
    if rng.one_in(2) {
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(line.len() as u64) as usize;
            line[at] = rng.u32() as u8;
        }
    }
    if rng.one_in(8) {
        line.truncate(rng.below(line.len() as u64) as usize);
    }
    line.retain(|&b| b != b'\n');
    line.push(b'\n');
    line
}

#[test]
fn random_control_lines_harm_nobody() {
    let mut arena = Arena::new("fuzz-control", 0xf022_0003);
    let (want, begin) = (inputs() / 10, Instant::now());
    let job = arena.job();
    let (mut answered, mut errors) = (0u64, 0u64);
    while answered < want {
        let mut control = arena.daemon.control();
        for _ in 0..50 {
            let lines: Vec<u8> = (0..100).flat_map(|_| control_line(&mut arena.rng, job.id)).collect();
            control.send(&lines).expect("the daemon reads");
            for _ in 0..100 {
                match control.reply() {
                    Some(angara_protocol::msg::Reply::Error(_)) => errors += 1,
                    Some(_) => {}
                    None => panic!("the daemon closed the connection after bad lines"),
                }
                answered += 1;
            }
        }
        arena.victim.check("beside random control lines");
    }
    println!("{answered} control lines answered, {errors} with an error, {:?}", begin.elapsed());
    assert!(errors > 0 && errors < answered);
    arena.finish();
}

#[test]
fn random_adapter_datagrams_harm_nobody() {
    let mut arena = Arena::new("fuzz-adapter", 0xf022_0004);
    let (want, begin) = (inputs() / 10, Instant::now());
    let mut answered = 0u64;
    'all: loop {
        let job = arena.job();
        // Half of the connections are attached, so that requests of a PE are reached.
        let seat = arena.rng.below(ATTACKERS as u64) as u32;
        let attached = Client::attach(arena.daemon.dir(), &job, seat).ok();
        let socket = Socket::connect(arena.daemon.dir());
        for _ in 0..2000 {
            let rng = &mut arena.rng;
            let wrong = Job { key: format!("{:032x}", rng.u64()), ..job.clone() };
            let request = match rng.below(5) {
                0 => attach_request(&wrong, rng.below(20) as u32),
                1 => AdapterRequest::TreeOpen { root: rng.below(20) as u32, pes: (0..rng.below(20) as u32).collect() },
                2 => AdapterRequest::TreeOpen { root: rng.u32(), pes: vec![rng.u32(); rng.below(40) as usize] },
                3 => AdapterRequest::TreeClose { tree: rng.u32() as u8 },
                _ => AdapterRequest::Attach {
                    abi: rng.u32(),
                    job: JobId::new(rng.u32()),
                    key: String::new(),
                    pe: 0,
                    architecture: angara_abi::Architecture::HERE,
                    statics: vec![rng.u64(); 100],
                },
            };
            let mut bytes = serde_json::to_vec(&request).expect("plain data");
            if rng.one_in(2) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.u32() as u8;
            }
            if rng.one_in(50) {
                let len = 1 + rng.below(2000) as usize;
                bytes = rng.bytes(len);
            }
            let to = attached.as_ref().filter(|_| rng.one_in(2)).map_or(&socket, |c| &c.socket);
            to.send(&bytes, &[]).expect("the daemon listens");
            assert!(to.receive().is_some(), "the daemon hung up on {:?}", String::from_utf8_lossy(&bytes));
            answered += 1;
            if answered >= want {
                break 'all;
            }
        }
        drop((attached, socket));
        arena.control.events.clear();
        arena.control.destroy(job.id);
    }
    println!("{answered} adapter datagrams answered, {:?}", begin.elapsed());
    arena.victim.check("beside random adapter datagrams");
    arena.finish();
}
