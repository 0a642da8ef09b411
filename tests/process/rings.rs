//! Operations through the rings of a real daemon, driven by a bare `abi` client.

use angara_abi::JobId;
use angara_abi::account::{Class, Traffic};
use angara_abi::channel::Fault;
use angara_abi::desc::{AmoOp, Descriptor, Op, Region, flags};
use angara_abi::job::{INTERNAL_BYTES, Reach};
use angara_abi::packet::{AtomicOperand, PacketType, ReadOperand, Tail, pack};
use angara_protocol::msg::{Event, JobSpec, MESSAGE_MAX, PAIRS_MAX, Path, Reply, Report, Request};
use angara_tests::Test;
use angara_tests::client::{Client, attach_all, bounce, heap};
use angara_tests::daemon::{Control, Daemon, spec};
use angara_tests::process::PATIENCE;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// First byte of the user's heap.
const USER: u64 = INTERNAL_BYTES as u64;

/// A daemon and a job whose PEs are all attached.
struct Ready {
    // Order matters: clients go before the daemon, the daemon before the scratch directory.
    pes: Vec<Client>,
    job: JobId,
    control: Control,
    daemon: Daemon,
    test: Test,
}

impl Ready {
    fn new(name: &str, daemon: &[&str], job: JobSpec) -> Ready {
        let test = Test::new(name);
        let daemon = Daemon::start(&test, daemon);
        let mut control = daemon.control();
        let (job, pes) = attach_all(daemon.dir(), &mut control, job);
        Ready { pes, job: job.id, control, daemon, test }
    }
    fn finish(mut self) {
        self.pes.into_iter().for_each(Client::detach);
        self.control.destroy(self.job);
        let dir = self.daemon.dir().to_owned();
        self.daemon.shutdown();
        assert!(!dir.exists(), "{} is left", dir.display());
        self.test.assert_clean();
    }
}

fn put8(pe: &mut Client, to: usize, offset: u64, value: u64) {
    let d = Descriptor { class: Class::Put, len: 8, operand: value, ..pe.aim(Op::PutInline, to, offset) };
    pe.post(&d).expect("room");
    pe.counters.row(0, to, Class::Put).count(Traffic::put(8));
}

fn report(control: &mut Control, job: JobId) -> Report {
    match control.ask(&Request::JobReport { job }) {
        Ok(Reply::Report(r)) => r,
        other => panic!("{other:?}"),
    }
}

#[test]
fn puts_gets_and_atomics_reach_every_pe() {
    let mut r = Ready::new("rings", &["--torus", "2x2x2"], spec(8, Path::Ring));
    for to in 0..8 {
        assert_eq!(r.pes[1].targets.get(to), Reach::Ring);
        put8(&mut r.pes[1], to, USER, 100 + to as u64);
        r.pes[1].quiet(to);
        assert_eq!(r.pes[0].heap_word(to, USER).load(Ordering::Relaxed), 100 + to as u64);
    }
    let fetch = Descriptor { len: 8, local: Some(bounce(1024)), ..r.pes[2].aim(Op::Get, 5, USER) };
    r.pes[2].run(&fetch);
    assert_eq!(r.pes[2].bounce_word(1024), 105);
    let add = Descriptor { amo: AmoOp::Add, width: 8, operand: 7, ..r.pes[3].aim(Op::Amo, 5, USER) };
    r.pes[3].run(&Descriptor { local: Some(bounce(1024)), ..add });
    assert_eq!((r.pes[3].bounce_word(1024), r.pes[3].heap_word(5, USER).load(Ordering::Relaxed)), (105, 112));
    let links = report(&mut r.control, r.job).links;
    assert!(!links.is_empty(), "ring traffic shows on links");
    r.finish();
}

#[test]
fn a_megabyte_travels_by_dma_both_ways() {
    let mut r = Ready::new("dma", &["--torus", "4x2"], spec(8, Path::Ring));
    const LEN: usize = 512 * 1024 + 13;
    let data: Vec<u8> = (0..LEN).map(|i| (i * 7 + i / 256) as u8).collect();
    let stride = r.pes[0].stride;
    r.pes[0].heap.write(USER as usize, &data).expect("inside");
    let len = LEN as u32;
    let put = Descriptor { class: Class::Put, len, local: Some(heap(USER)), ..r.pes[0].aim(Op::Put, 5, USER + 1) };
    r.pes[0].post(&put).expect("room");
    r.pes[0].quiet(5);
    let mut back = vec![0; LEN];
    r.pes[0].heap.read(5 * stride + USER as usize + 1, &mut back).expect("inside");
    assert!(back == data, "the put delivered other bytes");
    let get = Descriptor { class: Class::Get, len, local: Some(heap(USER)), ..r.pes[2].aim(Op::Get, 5, USER + 1) };
    r.pes[2].run(&get);
    r.pes[0].heap.read(2 * stride + USER as usize, &mut back).expect("inside");
    assert!(back == data, "the get delivered other bytes");
    r.finish();
}

/// Whoever polls for the last word of a packet finds the whole packet.
#[test]
fn the_last_word_of_a_packet_is_the_last_to_be_written() {
    const WORDS: usize = 32;
    let mut r = Ready::new("endings", &["--torus", "2"], spec(2, Path::Ring));
    let mut flits = [0; 18];
    for value in 1..=100_000u64 {
        let n = pack(&value.to_le_bytes().repeat(WORDS), &mut flits[1..]);
        flits[0] = r.pes[0].header(PacketType::Write, n as u8, 1, USER).encode();
        flits[n + 1] = Tail { last_byte: 15, ..Tail::default() }.encode();
        r.pes[0].inject(&flits[..n + 2]).expect("room");
        let words: [_; WORDS] = std::array::from_fn(|i| r.pes[1].heap_word(1, USER + 8 * i as u64));
        let end = Instant::now() + PATIENCE;
        while words[WORDS - 1].load(Ordering::Acquire) != value {
            assert!(Instant::now() < end, "packet {value} has not arrived");
        }
        // From the middle, which a copy that keeps no order writes last.
        let late = (0..WORDS).map(|i| (i + WORDS / 2) % WORDS).find(|i| words[*i].load(Ordering::Relaxed) != value);
        assert_eq!(late, None, "packet {value}: a word came behind the last");
    }
    r.finish();
}

#[test]
fn raw_packets_in_the_ring_write_read_and_add() {
    let mut r = Ready::new("packets", &["--torus", "2x2"], spec(4, Path::Ring));
    let mut flits = [0; 18];
    let n = pack(b"twenty bytes of data", &mut flits[1..]);
    flits[0] = r.pes[0].header(PacketType::Write, n as u8, 3, USER).encode();
    flits[n + 1] = Tail { last_byte: 3, ..Tail::default() }.encode();
    r.pes[0].inject(&flits[..n + 2]).expect("room");
    let tail = Tail { last_byte: 15, ..Tail::default() }.encode();
    let add = AtomicOperand { operand: 1, width: 8 }.encode();
    let header = r.pes[0].header(PacketType::AtomicAdd, 1, 3, USER).encode();
    r.pes[0].inject(&[header, add, tail]).expect("room");
    let read = ReadOperand { region: Region::Bounce as u8, offset: 4096, len: 20 }.encode();
    let header = r.pes[0].header(PacketType::ReadReq, 1, 3, USER).encode();
    r.pes[0].inject(&[header, read, tail]).expect("room");
    r.pes[0].sleep_until("the read", || r.pes[0].bounce_word(4096) != 0);
    r.pes[0].quiet(3);
    let mut got = [0; 20];
    r.pes[0].bounce.read(4096, &mut got).expect("inside");
    assert_eq!(&got, b"uwenty bytes of data");
    r.finish();
}

#[test]
fn barriers_hold_everyone_until_the_last_has_come() {
    let mut r = Ready::new("barriers", &["--torus", "2x2"], JobSpec { ppn: 2, ..spec(8, Path::Ring) });
    for half in [0, flags::HALF] {
        let barrier = Descriptor { flags: half, completion: Some(bounce(8)), ..Descriptor::new(Op::Barrier) };
        let early: Vec<u32> = r.pes[1..].iter_mut().map(|pe| pe.post(&barrier).expect("room")).collect();
        for pe in 1..8 {
            put8(&mut r.pes[0], pe, USER, 40 + half as u64);
        }
        // Everything before this answer has been served, and nobody has left yet.
        r.pes[0].quiet(1);
        assert!(r.pes[1..].iter().zip(&early).all(|(pe, seq)| pe.bounce_word(8) as u32 != *seq));
        let last = r.pes[0].post(&barrier).expect("room");
        r.pes[0].sleep_until("the barrier", || r.pes[0].bounce_word(8) as u32 == last);
        for (pe, seq) in r.pes[1..].iter().zip(early) {
            pe.sleep_until("the barrier", || pe.bounce_word(8) as u32 == seq);
            assert_eq!(pe.heap_word(pe.pe as usize, USER).load(Ordering::Relaxed), 40 + half as u64);
        }
    }
    r.finish();
}

#[test]
fn a_violation_stops_only_the_channel_it_came_from() {
    let mut r = Ready::new("violation", &["--torus", "2x2"], spec(4, Path::Ring));
    let outside = Descriptor { len: 8, ..r.pes[1].aim(Op::PutInline, 2, 1 << 40) };
    let seq = r.pes[1].post(&outside).expect("room");
    r.pes[1].sleep_until("the error", || r.pes[1].channel.error() == Some((Fault::BadRange, seq)));
    match r.control.event(|_| true) {
        Event::ChannelError { job, pe: 1, reason } if job == r.job => {
            assert!(reason.contains("0x10000000000"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
    put8(&mut r.pes[0], 1, USER, 9);
    r.pes[0].quiet(1);
    assert_eq!(r.pes[0].heap_word(1, USER).load(Ordering::Relaxed), 9);
    assert_eq!(r.control.status().violations, 1);
    r.finish();
}

#[test]
fn registers_answer_and_refuse() {
    let r = Ready::new("registers", &["--torus", "2x2"], spec(2, Path::Auto));
    let reply = |pe: &Client, csr, value| {
        let seq = pe.channel.csr_command(csr, value);
        pe.ring_doorbell();
        pe.sleep_until("the mailbox", || pe.channel.csr_reply(seq).is_some());
        pe.channel.csr_reply(seq).expect("just seen")
    };
    let word = |pe: &Client, csr: u32| {
        pe.csr.at::<std::sync::atomic::AtomicU64>(csr as usize).expect("inside").load(Ordering::Acquire)
    };
    assert_eq!(word(&r.pes[1], angara_abi::csr::ID), angara_abi::csr::ID_VALUE);
    assert_eq!(word(&r.pes[1], angara_abi::csr::NODE), 1);
    assert_eq!(reply(&r.pes[1], angara_abi::csr::SCRATCH, 77), Ok(()));
    assert_eq!(word(&r.pes[1], angara_abi::csr::SCRATCH), 77);
    assert_eq!(reply(&r.pes[1], angara_abi::csr::NODE, 0), Err(Fault::BadCsr));
    assert_eq!(reply(&r.pes[1], 0xffff_fff8, 0), Err(Fault::BadCsr));
    assert_eq!(word(&r.pes[1], angara_abi::csr::ERRORS), 2);
    assert_eq!(reply(&r.pes[1], angara_abi::csr::ERRORS, 0), Ok(()));
    assert_eq!(word(&r.pes[1], angara_abi::csr::ERRORS), 0);
    assert_eq!(r.pes[1].channel.error(), None);
    r.finish();
}

#[test]
fn a_dead_node_is_unreachable_and_a_dead_link_is_not() {
    let mut r = Ready::new("dead-node", &["--torus", "4"], spec(4, Path::Ring));
    assert_eq!(r.control.fault("link 0 +X down"), Ok(Reply::Ok));
    assert_eq!(r.pes[0].targets.get(1), Reach::Ring);
    put8(&mut r.pes[0], 1, USER, 5);
    r.pes[0].quiet(1);
    assert_eq!(r.control.fault("node 1 down"), Ok(Reply::Ok));
    assert_eq!((r.pes[0].targets.get(1), r.pes[2].targets.get(1)), (Reach::Unreachable, Reach::Unreachable));
    assert_eq!(r.pes[0].targets.get(2), Reach::Ring);
    put8(&mut r.pes[0], 1, USER, 6);
    r.pes[0].sleep_until("the error", || matches!(r.pes[0].channel.error(), Some((Fault::Unreachable, _))));
    let Event::ChannelError { reason, .. } = r.control.event(|_| true) else { panic!("no channel error") };
    assert!(reason.contains("node 1"), "{reason}");
    assert_eq!(r.control.status().faults, ["link 0 +X down", "node 1 down"]);
    assert_eq!(r.control.fault("all clear"), Ok(Reply::Ok));
    assert_eq!(r.pes[2].targets.get(1), Reach::Ring);
    assert!(r.control.fault("node 1 clear").expect_err("none").message.contains("no fault is set"));
    r.finish();
}

#[test]
fn direct_traffic_is_folded_into_the_links_it_would_have_crossed() {
    let mut r = Ready::new("folded", &["--torus", "4"], spec(4, Path::Auto));
    assert_eq!(r.pes[0].targets.get(2), Reach::Direct);
    r.pes[0].counters.row(0, 1, Class::Put).count(Traffic::put(1000));
    r.pes[1].counters.row(0, 0, Class::Get).count(Traffic::get(8));
    r.pes.remove(0).detach(); // counters outlive their PE
    let traffic = report(&mut r.control, r.job);
    let mut pairs = |from, to| match r.control.ask(&Request::JobPairs { job: r.job, from, to }) {
        Ok(Reply::Pairs(pairs)) => {
            (pairs.pairs.iter().map(|p| (p.from, p.to, p.class, p.traffic)).collect(), pairs.next)
        }
        other => panic!("{other:?}"),
    };
    let (put, get) = ((0, 1, Class::Put, Traffic::put(1000)), (1, 0, Class::Get, Traffic::get(8)));
    assert_eq!(pairs(0, 0), (vec![put, get], None));
    assert_eq!(pairs(0, 2), (vec![get], None));
    assert_eq!(pairs(9, 9), (vec![], None));
    let link = |node, dir: &str| traffic.links.iter().find(|l| l.node == node && l.dir.to_string() == dir);
    let there = link(0, "+X").expect("put and get response");
    assert_eq!(there.load[&Class::Put], Traffic::put(1000).out);
    assert_eq!(there.load[&Class::Get], Traffic::get(8).back);
    assert_eq!(link(1, "-X").expect("get request").load[&Class::Get], Traffic::get(8).out);
    // What was counted before a route change stays where it was.
    assert_eq!(r.control.fault("link 0 +X down"), Ok(Reply::Ok));
    let after = report(&mut r.control, r.job);
    let before: Vec<_> = traffic.links.iter().map(|l| (l.node, l.dir, l.load.clone())).collect();
    let now = after.links.iter().filter(|l| !l.load.is_empty()).map(|l| (l.node, l.dir, l.load.clone()));
    assert_eq!(now.collect::<Vec<_>>(), before);
    r.finish();
}

#[test]
fn traffic_of_many_pairs_comes_in_pieces_without_gap_or_overlap() {
    let mut r = Ready::new("pairs", &["--torus", "8x8"], spec(64, Path::Auto));
    let mut want = Vec::new();
    for (from, to) in (0..64).flat_map(|from| (0..64).map(move |to| (from, to))) {
        for class in Class::ALL {
            r.pes[from].counters.row(to % 16, to, class).count(Traffic::put(from * 64 + to));
            want.push((from as u32, to as u32, class, Traffic::put(from * 64 + to)));
        }
    }
    assert!(report(&mut r.control, r.job).pairs.is_empty());
    let (mut got, mut next, mut pieces) = (Vec::new(), Some((0, 0)), 0);
    while let Some((from, to)) = next {
        let Ok(Reply::Pairs(piece)) = r.control.ask(&Request::JobPairs { job: r.job, from, to }) else {
            panic!("no pairs")
        };
        assert!(piece.pairs.len() <= PAIRS_MAX);
        assert!(serde_json::to_vec(&piece).expect("plain data").len() < MESSAGE_MAX);
        got.extend(piece.pairs.iter().map(|p| (p.from, p.to, p.class, p.traffic)));
        next = piece.next;
        pieces += 1;
    }
    assert_eq!(pieces, 4);
    assert_eq!(got, want);
    r.finish();
}

#[test]
fn hosted_nodes_reach_each_other_through_the_others() {
    let mut r = Ready::new("hosted", &["--torus", "5", "--nodes", "0,2"], spec(2, Path::Ring));
    put8(&mut r.pes[0], 1, USER, 3);
    r.pes[0].quiet(1);
    assert_eq!(r.pes[1].heap_word(1, USER).load(Ordering::Relaxed), 3);
    let traffic = report(&mut r.control, r.job);
    assert_eq!(traffic.placement, [0, 2]);
    assert!(traffic.links.iter().any(|l| l.node == 1), "{:?}", traffic.links);
    r.finish();
}
