//! Operations through the rings of a real daemon, driven by a bare `abi` client.

mod common;

use abi::account::{Class, Traffic};
use abi::channel::Fault;
use abi::desc::{AmoOp, Descriptor, Op, Place, Region, flags};
use abi::job::Reach;
use abi::msg::{Event, Path, Reply, Report, Request};
use abi::packet::{Address, AtomicOperand, Header, PacketType, ReadOperand, Tail, Vc, pack};
use common::{Daemon, Pe, USER, bounce, heap, job, spec};
use std::sync::atomic::Ordering;

fn put8(pe: &mut Pe, to: usize, offset: u64, value: u64) {
    let d = Descriptor { class: Class::Put, len: 8, operand: value, ..pe.aim(Op::PutInline, to, offset) };
    pe.post(&d);
    pe.counters.row(0, to, Class::Put).count(Traffic::put(8));
}

fn report(control: &mut common::Control, job: u32) -> Report {
    match control.ask(&Request::JobReport { job }) {
        Reply::Report(r) => r,
        other => panic!("{other:?}"),
    }
}

#[test]
fn puts_gets_and_atomics_reach_every_pe() {
    let mut daemon = Daemon::start(&["--torus", "2x2x2"]);
    let mut control = daemon.control();
    let (id, mut pes) = job(&daemon, &mut control, &spec(8, 1, Path::Ring));
    for to in 0..8 {
        assert_eq!(pes[1].targets.get(to), Reach::Ring);
        put8(&mut pes[1], to, USER, 100 + to as u64);
        pes[1].quiet(to);
        assert_eq!(pes[0].heap_word(to, USER).load(Ordering::Relaxed), 100 + to as u64);
    }
    let fetch = Descriptor { len: 8, local: Some(bounce(1024)), ..pes[2].aim(Op::Get, 5, USER) };
    pes[2].run(&fetch);
    assert_eq!(pes[2].bounce_word(1024), 105);
    let add = Descriptor { amo: AmoOp::Add, width: 8, operand: 7, ..pes[3].aim(Op::Amo, 5, USER) };
    pes[3].run(&Descriptor { local: Some(bounce(1024)), ..add });
    assert_eq!((pes[3].bounce_word(1024), pes[3].heap_word(5, USER).load(Ordering::Relaxed)), (105, 112));
    let links = report(&mut control, id).links;
    assert!(!links.is_empty(), "ring traffic shows on links");
    pes.iter_mut().for_each(Pe::detach);
    drop(pes);
    assert!(matches!(control.ask(&Request::JobDestroy { job: id }), Reply::Report(_)));
    daemon.shutdown();
}

#[test]
fn a_megabyte_travels_by_dma_both_ways() {
    let daemon = Daemon::start(&["--torus", "4x2"]);
    let mut control = daemon.control();
    let (_, mut pes) = job(&daemon, &mut control, &spec(8, 1, Path::Ring));
    const LEN: usize = 512 * 1024 + 13;
    let data: Vec<u8> = (0..LEN).map(|i| (i * 7 + i / 256) as u8).collect();
    let stride = pes[0].page.geometry().expect("geometry").heap_stride;
    pes[0].heap.write(USER as usize, &data).expect("inside");
    let len = LEN as u32;
    let put = Descriptor { class: Class::Put, len, local: Some(heap(USER)), ..pes[0].aim(Op::Put, 5, USER + 1) };
    pes[0].post(&put);
    pes[0].quiet(5);
    let mut back = vec![0; LEN];
    pes[0].heap.read(5 * stride + USER as usize + 1, &mut back).expect("inside");
    assert!(back == data, "the put delivered other bytes");
    let get = Descriptor { class: Class::Get, len, local: Some(heap(USER)), ..pes[2].aim(Op::Get, 5, USER + 1) };
    pes[2].run(&get);
    pes[0].heap.read(2 * stride + USER as usize, &mut back).expect("inside");
    assert!(back == data, "the get delivered other bytes");
    pes.iter_mut().for_each(Pe::detach);
}

#[test]
fn raw_packets_in_the_ring_write_read_and_add() {
    let daemon = Daemon::start(&["--torus", "2x2"]);
    let mut control = daemon.control();
    let (_, mut pes) = job(&daemon, &mut control, &spec(4, 1, Path::Ring));
    let e = pes[0].entry(3);
    let header = |kind, data_flits, offset| Header {
        kind,
        data_flits,
        vc: Vc::Request,
        adaptive: false,
        notify: false,
        dirbits: 0,
        first_step: None,
        last_step: None,
        dst: e.coords,
        address: Address::Memory { endpoint: e.endpoint, region: Region::Heap as u8, offset },
    };
    let mut flits = [0; 18];
    let n = pack(b"twenty bytes of data", &mut flits[1..]);
    flits[0] = header(PacketType::Write, n as u8, USER).encode();
    flits[n + 1] = Tail { last_byte: 3, ..Tail::default() }.encode();
    pes[0].inject(&flits[..n + 2]);
    let tail = Tail { last_byte: 15, ..Tail::default() }.encode();
    let add = AtomicOperand { operand: 1, width: 8 }.encode();
    pes[0].inject(&[header(PacketType::AtomicAdd, 1, USER).encode(), add, tail]);
    let read = ReadOperand { region: Region::Bounce as u8, offset: 4096, len: 20 }.encode();
    pes[0].inject(&[header(PacketType::ReadReq, 1, USER).encode(), read, tail]);
    pes[0].wait("the read", || pes[0].bounce_word(4096) != 0);
    pes[0].quiet(3);
    let mut got = [0; 20];
    pes[0].bounce.read(4096, &mut got).expect("inside");
    assert_eq!(&got, b"uwenty bytes of data");
    pes.iter_mut().for_each(Pe::detach);
}

#[test]
fn barriers_hold_everyone_until_the_last_has_come() {
    let daemon = Daemon::start(&["--torus", "2x2"]);
    let mut control = daemon.control();
    let (_, mut pes) = job(&daemon, &mut control, &spec(8, 2, Path::Ring));
    for half in [0, flags::HALF] {
        let barrier = Descriptor { flags: half, completion: Some(bounce(8)), ..Descriptor::new(Op::Barrier) };
        let early: Vec<u32> = pes[1..].iter_mut().map(|pe| pe.post(&barrier)).collect();
        for pe in 1..8 {
            put8(&mut pes[0], pe, USER, 40 + half as u64);
        }
        // Everything before this answer has been served, and nobody has left yet.
        pes[0].quiet(1);
        assert!(pes[1..].iter().zip(&early).all(|(pe, seq)| pe.bounce_word(8) as u32 != *seq));
        let last = pes[0].post(&barrier);
        pes[0].wait("the barrier", || pes[0].bounce_word(8) as u32 == last);
        for (pe, seq) in pes[1..].iter().zip(early) {
            pe.wait("the barrier", || pe.bounce_word(8) as u32 == seq);
            assert_eq!(pe.heap_word(pe.pe, USER).load(Ordering::Relaxed), 40 + half as u64);
        }
    }
    pes.iter_mut().for_each(Pe::detach);
}

#[test]
fn a_violation_stops_only_the_channel_it_came_from() {
    let daemon = Daemon::start(&["--torus", "2x2"]);
    let mut control = daemon.control();
    let (id, mut pes) = job(&daemon, &mut control, &spec(4, 1, Path::Ring));
    let outside = Descriptor { len: 8, ..pes[1].aim(Op::PutInline, 2, 1 << 40) };
    let seq = pes[1].post(&outside);
    pes[1].wait("the error", || pes[1].channel.error() == Some((Fault::BadRange, seq)));
    match control.event() {
        Event::ChannelError { job, pe: 1, reason } if job == id => {
            assert!(reason.contains("0x10000000000"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
    put8(&mut pes[0], 1, USER, 9);
    pes[0].quiet(1);
    assert_eq!(pes[0].heap_word(1, USER).load(Ordering::Relaxed), 9);
    let Reply::Status(status) = control.ask(&Request::Status) else { panic!("no status") };
    assert_eq!(status.violations, 1);
    pes.iter_mut().for_each(Pe::detach);
}

#[test]
fn registers_answer_and_refuse() {
    let daemon = Daemon::start(&["--torus", "2x2"]);
    let mut control = daemon.control();
    let (_, mut pes) = job(&daemon, &mut control, &spec(2, 1, Path::Auto));
    let reply = |pe: &Pe, csr, value| {
        let seq = pe.channel.csr_command(csr, value);
        pe.ring_doorbell();
        pe.wait("the mailbox", || pe.channel.csr_reply(seq).is_some());
        pe.channel.csr_reply(seq).expect("just seen")
    };
    let word = |pe: &Pe, csr: u32| {
        pe.csr.at::<std::sync::atomic::AtomicU64>(csr as usize).expect("inside").load(Ordering::Acquire)
    };
    assert_eq!(word(&pes[1], abi::csr::ID), abi::csr::ID_VALUE);
    assert_eq!(word(&pes[1], abi::csr::NODE), 1);
    assert_eq!(reply(&pes[1], abi::csr::SCRATCH, 77), Ok(()));
    assert_eq!(word(&pes[1], abi::csr::SCRATCH), 77);
    assert_eq!(reply(&pes[1], abi::csr::NODE, 0), Err(Fault::BadCsr));
    assert_eq!(reply(&pes[1], 0xffff_fff8, 0), Err(Fault::BadCsr));
    assert_eq!(word(&pes[1], abi::csr::ERRORS), 2);
    assert_eq!(reply(&pes[1], abi::csr::ERRORS, 0), Ok(()));
    assert_eq!(word(&pes[1], abi::csr::ERRORS), 0);
    assert_eq!(pes[1].channel.error(), None);
    pes.iter_mut().for_each(Pe::detach);
}

#[test]
fn a_dead_node_is_unreachable_and_a_dead_link_is_not() {
    let daemon = Daemon::start(&["--torus", "4"]);
    let mut control = daemon.control();
    let (_, mut pes) = job(&daemon, &mut control, &spec(4, 1, Path::Ring));
    assert_eq!(control.ask(&Request::FaultSet { spec: "link 0 +X down".into() }), Reply::Ok);
    assert_eq!(pes[0].targets.get(1), Reach::Ring);
    put8(&mut pes[0], 1, USER, 5);
    pes[0].quiet(1);
    assert_eq!(control.ask(&Request::FaultSet { spec: "node 1 down".into() }), Reply::Ok);
    assert_eq!((pes[0].targets.get(1), pes[2].targets.get(1)), (Reach::Unreachable, Reach::Unreachable));
    assert_eq!(pes[0].targets.get(2), Reach::Ring);
    put8(&mut pes[0], 1, USER, 6);
    pes[0].wait("the error", || matches!(pes[0].channel.error(), Some((Fault::Unreachable, _))));
    let Event::ChannelError { reason, .. } = control.event() else { panic!("no channel error") };
    assert!(reason.contains("node 1"), "{reason}");
    let Reply::Status(status) = control.ask(&Request::Status) else { panic!("no status") };
    assert_eq!(status.faults, ["link 0 +X down", "node 1 down"]);
    assert_eq!(control.ask(&Request::FaultClear { spec: "all".into() }), Reply::Ok);
    assert_eq!(pes[2].targets.get(1), Reach::Ring);
    assert!(control.refused(&Request::FaultClear { spec: "node 1".into() }).message.contains("no fault is set"));
    pes.iter_mut().for_each(Pe::detach);
}

#[test]
fn direct_traffic_is_folded_into_the_links_it_would_have_crossed() {
    let daemon = Daemon::start(&["--torus", "4"]);
    let mut control = daemon.control();
    let (id, mut pes) = job(&daemon, &mut control, &spec(4, 1, Path::Auto));
    assert_eq!(pes[0].targets.get(2), Reach::Direct);
    pes[0].counters.row(0, 1, Class::Put).count(Traffic::put(1000));
    pes[1].counters.row(0, 0, Class::Get).count(Traffic::get(8));
    pes[0].detach(); // counters outlive their PE
    let r = report(&mut control, id);
    assert_eq!(r.pairs.len(), 2);
    let link = |node, dir: &str| r.links.iter().find(|l| l.node == node && l.dir == dir);
    let there = link(0, "+X").expect("put and get response");
    assert_eq!(there.load[&Class::Put], Traffic::put(1000).out);
    assert_eq!(there.load[&Class::Get], Traffic::get(8).back);
    assert_eq!(link(1, "-X").expect("get request").load[&Class::Get], Traffic::get(8).out);
    // What was counted before a route change stays where it was.
    assert_eq!(control.ask(&Request::FaultSet { spec: "link 0 +X down".into() }), Reply::Ok);
    let after = report(&mut control, id);
    let before: Vec<_> = r.links.iter().map(|l| (l.node, l.dir.clone(), l.load.clone())).collect();
    let now = after.links.iter().filter(|l| !l.load.is_empty()).map(|l| (l.node, l.dir.clone(), l.load.clone()));
    assert_eq!(now.collect::<Vec<_>>(), before);
    let place = Place { region: Region::Heap, offset: USER };
    assert_eq!(place, heap(USER));
    pes.iter_mut().for_each(Pe::detach);
}

/// Prints what the ring path costs here and now; nothing is asserted, other work may run beside.
#[test]
fn ring_costs_are_printed() {
    let daemon = Daemon::start(&["--torus", "2x2x2"]);
    let mut control = daemon.control();
    let (_, mut pes) = job(&daemon, &mut control, &spec(8, 1, Path::Ring));
    let mut measure = |what: &str, target: usize, f: &mut dyn FnMut(&mut Pe)| {
        let mut times: Vec<_> = (0..501)
            .map(|_| {
                let begin = std::time::Instant::now();
                f(&mut pes[0]);
                pes[0].quiet(target);
                begin.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!("{what}: least {:?}, median {:?}", times[0], times[times.len() / 2]);
    };
    measure("put of 8 bytes and quiet, 1 hop", 1, &mut |pe| put8(pe, 1, USER, 1));
    measure("put of 8 bytes and quiet, 3 hops", 7, &mut |pe| put8(pe, 7, USER, 1));
    measure("put of 512 KiB and quiet, 1 hop", 1, &mut |pe| {
        let put = Descriptor { class: Class::Put, len: 1 << 19, local: Some(heap(USER)), ..pe.aim(Op::Put, 1, USER) };
        pe.post(&put);
    });
    pes.iter_mut().for_each(Pe::detach);
}

#[test]
fn hosted_nodes_reach_each_other_through_the_others() {
    let daemon = Daemon::start(&["--torus", "5", "--nodes", "0,2"]);
    let mut control = daemon.control();
    let (id, mut pes) = job(&daemon, &mut control, &spec(2, 1, Path::Ring));
    put8(&mut pes[0], 1, USER, 3);
    pes[0].quiet(1);
    assert_eq!(pes[1].heap_word(1, USER).load(Ordering::Relaxed), 3);
    let r = report(&mut control, id);
    assert_eq!(r.placement, [0, 2]);
    assert!(r.links.iter().any(|l| l.node == 1), "{:?}", r.links);
    pes.iter_mut().for_each(Pe::detach);
}
