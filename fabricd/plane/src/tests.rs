//! The data plane without its thread: what others notice of a large transfer, and time that is virtual.

use crate::config::{Config, VirtualTime};
use crate::jobs::memory::{Identity, JobMemory, PeMemory};
use crate::plane::DataPlane;
use crate::service::turn::BYTES_PER_ROUND;
use angara_abi::JobId;
use angara_abi::account::{Class, READ_MAX};
use angara_abi::clock::{AHEAD_MAX, ClockPage, TIME_MAX, Verdict, WaitsFor};
use angara_abi::desc::{Descriptor, Op, Place, Region};
use angara_abi::job::{Barrier, Collectives, Geometry, PeEntry, Seat};
use angara_abi::queue::Producer;
use angara_fabric::{JobSlot, Link};
use angara_net::torus::{Coords, Direction, Shape};
use angara_protocol::absence::Patience;
use std::sync::Arc;

const STREAM: u32 = 32 << 20;
/// Jobs, each with one PE on either of two nodes.
const JOBS: usize = 3;

struct Client {
    job: Arc<JobMemory>,
    pe: Arc<PeMemory>,
    producer: Producer,
    endpoint: u16,
    /// The other node.
    to: Coords,
}

impl Client {
    fn post(&mut self, op: Op, len: u32, completion: Option<Place>) {
        let class = if op == Op::Get { Class::Get } else { Class::Put };
        let (dst, endpoint, place) = (self.to, self.endpoint, Some(heap(4096)));
        let d =
            Descriptor { class, len, dst, endpoint, local: place, remote: place, completion, ..Descriptor::new(op) };
        self.producer.post(&self.pe.channel, d.encode()).expect("room");
    }

    /// A put of 8 bytes and the read behind it that `quiet` makes.
    fn put_and_quiet(&mut self) -> u64 {
        self.post(Op::PutInline, 8, None);
        let seq = self.producer.next_seq();
        self.post(Op::Get, 8, Some(heap(0)));
        seq as u64
    }

    fn completed(&self) -> u64 {
        let (map, at) = self.job.resolve(self.pe.pe, heap(0), 8, None).expect("inside");
        let mut word = [0; 8];
        map.read(at, &mut word).expect("inside");
        u64::from_le_bytes(word)
    }
}

fn heap(offset: u64) -> Place {
    Place { region: Region::Heap, offset }
}

/// A data plane without its thread, and the clients of `jobs` jobs: PE 0 of each, then PE 1 of each.
fn plane(jobs: usize, virtual_time: Option<VirtualTime>) -> (DataPlane, Vec<Client>) {
    let shape: Shape = "2".parse().expect("shape");
    let (_, mut plane) = DataPlane::new(Config { virtual_time, ..Config::new(shape) }, drop).expect("a data plane");
    let mut clients = Vec::new();
    let job = |slot: JobSlot| {
        let (barrier, collectives) = (Barrier::Auto, Collectives::Auto);
        let (heap_stride, static_stride) = (STREAM as usize + 8192, 0);
        let geometry = Geometry {
            pes: 2,
            shape,
            heap_stride,
            static_stride,
            barrier,
            collectives,
            crowded: false,
            open: false,
            registered: 0,
            heterogeneous: false,
        };
        let entry = |node| PeEntry { node, coords: shape.coords(node), endpoint: slot.number(), seat: Seat::FREE };
        let identity = Identity { id: JobId::new(u32::from(slot.number()) + 1), slot, generation: 1, uid: 0 };
        JobMemory::create(
            identity,
            &geometry,
            vec![entry(0), entry(1)],
            vec![true; 2],
            true,
            &angara_abi::shm::Source::Files,
        )
        .expect("memory")
    };
    let jobs: Vec<Arc<JobMemory>> = JobSlot::first(jobs).map(|slot| Arc::new(job(slot))).collect();
    for job in &jobs {
        plane.open_job(job.clone()).expect("open");
    }
    for pe in 0..2 {
        for job in &jobs {
            let memory = Arc::new(PeMemory::create(job, pe, virtual_time).expect("memory").0);
            plane.attach(job.slot, memory.clone(), 0).expect("attach");
            let (producer, to) = (Producer::default(), shape.coords(1 - pe as u32));
            clients.push(Client { job: job.clone(), pe: memory, producer, endpoint: job.slot.number(), to });
        }
    }
    (plane, clients)
}

/// Bytes that have gone over the links between the two nodes.
fn moved(plane: &DataPlane) -> u64 {
    let links = [0, 1].into_iter().flat_map(|node| Direction::ALL.map(|dir| Link { node, dir }));
    links.flat_map(|link| plane.fabric.link_counters(link).tx).map(|load| load.bytes).sum()
}

#[test]
fn a_small_put_waits_for_few_bytes_of_large_ones() {
    let (mut plane, mut clients) = plane(JOBS, None);
    // Two jobs transfer both ways between the nodes of a third one.
    for streams in 1..=4 {
        let (job, pe) = [(0, 0), (1, 0), (0, 1), (1, 1)][streams - 1];
        clients[pe * JOBS + job].post(Op::Put, STREAM, None);
        for _ in 0..20 {
            plane.round();
        }
        for _ in 0..20 {
            let (small, before) = (&mut clients[JOBS - 1], moved(&plane));
            let seq = small.put_and_quiet();
            let mut last = before;
            while small.completed() != seq {
                assert!(plane.round(), "nothing to do, but the put is not complete");
                let now = moved(&plane);
                // What is copied in a round, and what each has been copied for before.
                let limit = (2 * BYTES_PER_ROUND + (1 + streams) * READ_MAX) as u64;
                assert!(now - last <= limit, "{} bytes in one round", now - last);
                last = now;
            }
            let (waited, limit) = (last - before, (3 * streams * READ_MAX + 2 * BYTES_PER_ROUND) as u64);
            assert!(waited <= limit, "{waited} bytes went before a small put beside {streams} large ones");
        }
    }
    let large = STREAM as u64;
    let moved = moved(&plane);
    assert!(moved > large / 4 && moved < large, "{moved} bytes: the large ones go on, and none is over");
}

fn virtual_pair() -> (DataPlane, [Client; 2]) {
    let (plane, clients) =
        plane(1, Some(VirtualTime { call_cost: 1_000, ahead: AHEAD_MAX, patience: Patience::default(), noted: false }));
    (plane, clients.try_into().unwrap_or_else(|_| panic!("two PEs")))
}

fn clock(client: &Client) -> &ClockPage {
    client.pe.clock.as_ref().expect("time is virtual")
}

/// Lets the plane do what it can while PEs stand.
fn turn(plane: &mut DataPlane) {
    assert_eq!(plane.turns().running(), None, "everybody stands");
    assert!(plane.turns().begun());
    plane.go_on();
}

#[test]
fn a_pe_goes_on_when_what_it_waits_for_has_happened_and_not_before() {
    let (mut plane, [mut a, b]) = virtual_pair();
    clock(&a).stamp(a.producer.next_seq(), 2_000_000);
    let seq = a.put_and_quiet() as u32;
    clock(&a).stamp(seq, 2_001_000);
    let waits = clock(&a).stand(2_001_000, WaitsFor::Completion(heap(0)), TIME_MAX);
    assert!(plane.turns().running().is_some(), "the other PE runs, so nothing moves");
    let writes = clock(&b).stand(1_000_000, WaitsFor::Memory, TIME_MAX);
    turn(&mut plane);
    // One way of a packet of three flits, from the time of its post on (docs/explain/model.md).
    let (arrived, verdict) = clock(&b).ended(writes).expect("its memory was written");
    let way = 600_000 + 129_000 + 2 * 6400 / 3;
    assert!(verdict == Verdict::Go && arrived.abs_diff(2_000_000 + way) < 1_000, "{arrived}");
    assert!(clock(&a).ended(waits).is_none() && a.completed() == 0, "the answer is not there yet");
    clock(&b).stand(arrived, WaitsFor::Memory, TIME_MAX);
    turn(&mut plane);
    let (answered, _) = clock(&a).ended(waits).expect("the read came back");
    assert!(answered > arrived + 700_000 && a.completed() == u64::from(seq), "{answered}");
}

#[test]
fn whoever_waits_for_ever_is_told() {
    let (mut plane, [a, b]) = virtual_pair();
    let stands =
        [clock(&a).stand(5, WaitsFor::Memory, TIME_MAX), clock(&b).stand(7, WaitsFor::Completion(heap(0)), TIME_MAX)];
    turn(&mut plane);
    assert_eq!(clock(&a).ended(stands[0]), Some((5, Verdict::Deadlock)));
    assert_eq!(clock(&b).ended(stands[1]), Some((7, Verdict::Deadlock)));
}

#[test]
fn a_clock_that_goes_back_or_beyond_the_end_of_time_breaks_its_channel_alone() {
    for said in [TIME_MAX + 1, u64::MAX, 2_000] {
        let (mut plane, [a, b]) = virtual_pair();
        clock(&a).stand(3_000, WaitsFor::Time, 3_000);
        clock(&b).stand(1_000, WaitsFor::Time, 1_000);
        // The one that is due first, then the other.
        turn(&mut plane);
        clock(&b).stand(9_000_000, WaitsFor::Time, 9_000_000);
        turn(&mut plane);
        clock(&a).stand(said, WaitsFor::Time, said);
        turn(&mut plane);
        assert!(a.pe.channel.error().is_some() && clock(&a).is_over(), "{said}: nobody lets it go any more");
        assert!(b.pe.channel.error().is_none() && clock(&b).stands().is_none(), "the other goes on");
    }
}

#[test]
fn a_post_is_made_between_two_stands_whatever_its_stamp_says() {
    for stamp in [0, u64::MAX] {
        let (mut plane, [mut a, b]) = virtual_pair();
        let first = a.producer.next_seq();
        [first, first + 1].into_iter().for_each(|seq| clock(&a).stamp(seq, stamp));
        a.put_and_quiet();
        clock(&a).stand(4_000_000, WaitsFor::Completion(heap(0)), TIME_MAX);
        let writes = clock(&b).stand(0, WaitsFor::Memory, TIME_MAX);
        turn(&mut plane);
        let (arrived, _) = clock(&b).ended(writes).expect("its memory was written");
        assert!((700_000..4_800_000).contains(&arrived), "{arrived}");
    }
}

#[test]
fn only_what_a_pe_waits_for_lets_it_go_on() {
    let other = |what: WaitsFor, due: bool| {
        let (mut plane, [mut a, b]) = virtual_pair();
        a.put_and_quiet();
        clock(&a).stand(2_000, WaitsFor::Delivered(a.producer.next_seq().wrapping_sub(1)), TIME_MAX);
        let stand = clock(&b).stand(0, what, TIME_MAX);
        turn(&mut plane);
        assert_eq!(clock(&b).ended(stand).is_some(), due, "{what:?}");
        // What it does not concern does not hold up the other.
        assert_eq!(clock(&a).stands().is_none(), !due, "{what:?}");
    };
    other(WaitsFor::Adapter, true);
    other(WaitsFor::Memory, true);
    // The put writes 8 bytes there.
    other(WaitsFor::Bytes(heap(4096), 8), true);
    other(WaitsFor::Bytes(heap(4103), 4), true);
    other(WaitsFor::Bytes(heap(4104), 8), false);
    other(WaitsFor::Bytes(heap(4088), 8), false);
    other(WaitsFor::Bytes(Place { region: Region::Static, offset: 4096 }, 8), false);
    other(WaitsFor::Completion(heap(0)), false);
    for nothing_posted in [WaitsFor::Copied(1), WaitsFor::Injected(1), WaitsFor::Delivered(1), WaitsFor::Tree] {
        other(nothing_posted, false);
    }
}

#[test]
fn a_pe_knows_until_when_nothing_changes() {
    let (mut plane, [mut a, b]) = virtual_pair();
    clock(&a).stand(2_000, WaitsFor::Time, 2_000);
    clock(&b).stand(1_000, WaitsFor::Time, 1_000);
    turn(&mut plane);
    assert!(clock(&b).stands().is_none(), "the first that is due");
    assert_eq!(clock(&b).sees_until(), 2_000 + AHEAD_MAX, "nothing is on its way, and the other one stands until then");
    clock(&b).stand(3_000_000, WaitsFor::Time, 3_000_000);
    turn(&mut plane);
    [0, 1].into_iter().for_each(|i| clock(&a).stamp(a.producer.next_seq() + i, 4_000));
    a.put_and_quiet();
    clock(&a).stand(5_000, WaitsFor::Time, 5_000);
    turn(&mut plane);
    let until = clock(&a).sees_until();
    assert!(clock(&a).stands().is_none() && (5_000..5_000 + AHEAD_MAX).contains(&until), "{until}");
}

#[test]
fn an_absent_pe_posts_in_the_present_and_comes_back_to_it() {
    let (mut plane, [mut a, b]) = virtual_pair();
    clock(&b).stand(5_000_000, WaitsFor::Time, 5_000_000);
    let runs = plane.turns().running().expect("the first one does");
    assert!(plane.turns().begun() && !plane.turns().go_on_without((runs, 1)), "it has not stood yet");
    assert!(plane.turns().go_on_without((runs, 0)));
    turn(&mut plane);
    assert!(clock(&b).stands().is_none(), "the other one goes on");
    let writes = clock(&b).stand(5_000_000, WaitsFor::Memory, TIME_MAX);
    turn(&mut plane);
    assert_eq!(clock(&b).ended(writes), None, "who is absent may still end a deadlock");
    [0, 1].into_iter().for_each(|i| clock(&a).stamp(a.producer.next_seq() + i, 2_000));
    let seq = a.put_and_quiet();
    plane.turns().look_for_absent();
    turn(&mut plane);
    let way = 600_000 + 129_000 + 2 * 6400 / 3;
    let (arrived, verdict) = clock(&b).ended(writes).expect("its memory was written");
    assert!(verdict == Verdict::Go && arrived.abs_diff(5_000_000 + way) < 1_000, "{arrived}");
    clock(&b).stand(arrived, WaitsFor::Memory, TIME_MAX);
    let waits = clock(&a).stand(3_000, WaitsFor::Completion(heap(0)), TIME_MAX);
    plane.turns().look_for_absent();
    turn(&mut plane);
    let (answered, verdict) = clock(&a).ended(waits).expect("the read came back");
    assert!(verdict == Verdict::Go && answered > arrived + 700_000 && a.completed() == seq, "{answered}");
    let again = clock(&a).stand(answered, WaitsFor::Memory, TIME_MAX);
    turn(&mut plane);
    assert_eq!(clock(&a).ended(again), Some((answered, Verdict::Deadlock)), "it takes part again");
}
