//! The injection ring and the descriptor queue against random interleavings and hostile clients.
#![cfg(not(loom))]

use angara_abi::channel::{Channel, DMA_BYTES, PAGE_BYTES, RING_BYTES, status};
use angara_abi::packet::{Address, Flit, Header, PacketType, Tail, Vc};
use angara_abi::queue::{Consumer, FIRST_SEQ, Full, Post, Producer, QueueMemory, next_seq};
use angara_abi::shm::Mapping;
use angara_net::torus::Coords;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Queue memory of chosen capacities that both ends can scribble on.
struct Memory {
    flits: Vec<[AtomicU64; 2]>,
    slots: Vec<[AtomicU64; 8]>,
    tx_tail: AtomicU32,
    tx_head: AtomicU32,
    dma_head: AtomicU32,
}

impl Memory {
    fn new(flits: usize, slots: usize) -> Memory {
        let zero = || AtomicU64::new(0);
        Memory {
            flits: (0..flits).map(|_| std::array::from_fn(|_| zero())).collect(),
            slots: (0..slots).map(|_| std::array::from_fn(|_| zero())).collect(),
            tx_tail: AtomicU32::new(0),
            tx_head: AtomicU32::new(0),
            dma_head: AtomicU32::new(0),
        }
    }
}

impl QueueMemory for Memory {
    fn ring_flits(&self) -> usize {
        self.flits.len()
    }
    fn dma_slots(&self) -> usize {
        self.slots.len()
    }
    fn flit(&self, index: usize, half: usize) -> &AtomicU64 {
        &self.flits[index][half]
    }
    fn slot(&self, slot: usize, word: usize) -> &AtomicU64 {
        &self.slots[slot][word]
    }
    fn tx_tail(&self) -> &AtomicU32 {
        &self.tx_tail
    }
    fn tx_head(&self) -> &AtomicU32 {
        &self.tx_head
    }
    fn dma_head(&self) -> &AtomicU32 {
        &self.dma_head
    }
}

fn packet(n: u64, data: usize) -> Vec<Flit> {
    let header = Header {
        kind: PacketType::Write,
        data_flits: data as u8,
        vc: Vc::Request,
        adaptive: false,
        notify: false,
        dirbits: 0,
        first_step: None,
        last_step: None,
        dst: Coords::default(),
        address: Address::Memory { endpoint: 0, region: 0, offset: n },
    };
    let mut flits = vec![header.encode()];
    flits.extend((0..data).map(|i| (n as u128) << 64 | i as u128));
    flits.push(Tail::default().encode());
    flits
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Descriptor,
    Packet(usize),
    Take,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step =
        prop_oneof![Just(Step::Descriptor), (0..=16usize).prop_map(Step::Packet), Just(Step::Take), Just(Step::Take),];
    proptest::collection::vec(step, 0..400)
}

proptest! {
    #[test]
    fn every_interleaving_delivers_each_post_once_in_order(steps in steps(), log_ring in 5..7u32, log_slots in 0..4u32) {
        let mem = Memory::new(1 << log_ring, 1 << log_slots);
        let (mut producer, mut consumer) = (Producer::default(), Consumer::default());
        let mut due = std::collections::VecDeque::new();
        let (mut flits, mut slots) = (0, 0);
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Descriptor => {
                    let words = std::array::from_fn(|i| (n as u64) << 32 | i as u64);
                    let room = slots < mem.dma_slots();
                    let posted = producer.post(&mem, words);
                    prop_assert_eq!(posted.is_ok(), room);
                    if let Ok(seq) = posted {
                        slots += 1;
                        due.push_back((seq, n as u64, None));
                    }
                }
                Step::Packet(data) => {
                    let room = flits + data + 2 <= mem.ring_flits();
                    let posted = producer.inject(&mem, &packet(n as u64, data));
                    prop_assert_eq!(posted.is_ok(), room);
                    if let Ok(seq) = posted {
                        flits += data + 2;
                        due.push_back((seq, n as u64, Some(data)));
                    }
                }
                Step::Take => {
                    prop_assert_eq!(consumer.has_work(&mem), !due.is_empty());
                    let post = consumer.next(&mem);
                    match (due.pop_front(), post) {
                        (None, Ok(None)) => {}
                        (Some((seq, n, None)), Ok(Some(Post::Descriptor(words)))) => {
                            slots -= 1;
                            prop_assert_eq!(words[0], n << 32 | seq as u64);
                            prop_assert!((1..8).all(|i| words[i] == n << 32 | i as u64));
                        }
                        (Some((seq, n, Some(size))), Ok(Some(Post::Packet { seq: got, header, tail, data }))) => {
                            flits -= size + 2;
                            prop_assert_eq!((got, tail.tag), (seq, seq & 0xff_ffff));
                            prop_assert_eq!(header.address, Address::Memory { endpoint: 0, region: 0, offset: n });
                            prop_assert!((0..size).all(|i| data[i] == (n as u128) << 64 | i as u128));
                            prop_assert!(data[size..].iter().all(|&d| d == 0));
                        }
                        (want, got) => prop_assert!(false, "due {:?}, got {:?}", want, got),
                    }
                }
            }
        }
    }

    #[test]
    fn hostile_memory_never_panics_the_consumer_or_yields_more_than_capacity(
        flits in proptest::collection::vec((any::<u64>(), any::<u64>()), 32),
        words in proptest::collection::vec(any::<u64>(), 8 * 8),
        tails in proptest::collection::vec(prop_oneof![any::<u32>(), 0..64u32], 1..8),
        tame: bool,
        order in proptest::collection::vec(0..8usize, 8),
    ) {
        let mem = Memory::new(32, 8);
        for (at, (lo, hi)) in flits.iter().enumerate() {
            // Tamed flits decode often, so that lengths, tags and wrap-around are exercised.
            let lo = if tame { lo & !0xffff | 1 | (lo & 3) << 4 | 1 << 9 } else { *lo };
            let hi = if tame && at % 3 == 0 { hi & 0xff_ffff_ffff | (FIRST_SEQ as u64 + at as u64 / 4) << 40 } else { *hi };
            mem.flits[at][0].store(lo & !(0xff << 24), Relaxed);
            mem.flits[at][1].store(hi, Relaxed);
        }
        for (i, word) in words.iter().enumerate() {
            mem.slots[i / 8][i % 8].store(*word, Relaxed);
        }
        for (slot, seq) in order.iter().enumerate() {
            // Plausible sequence numbers in random slots.
            mem.slots[slot][0].store(words[slot * 8] & !0xffff_ffff | (FIRST_SEQ as u64 + *seq as u64), Relaxed);
        }
        let mut consumer = Consumer::default();
        let mut taken = 0;
        'tails: for tail in tails {
            mem.tx_tail.store(tail, Relaxed);
            loop {
                let _ = consumer.has_work(&mem);
                match consumer.next(&mem) {
                    Err(_) => break 'tails,
                    Ok(None) => break,
                    Ok(Some(_)) => taken += 1,
                }
                // Slots carry eight different sequence numbers at most; every packet takes two flits.
                prop_assert!(taken <= 8 + 8 * 32 / 2, "the consumer takes posts that were never made");
            }
        }
    }
}

#[test]
fn a_doorbell_beyond_the_ring_is_named() {
    let mem = Memory::new(32, 8);
    mem.tx_tail.store(33, Relaxed);
    let error = Consumer::default().next(&mem).expect_err("too far ahead").to_string();
    assert_eq!(error, "doorbell 33 is more than 32 flits ahead of head 0");
}

#[test]
fn indices_and_sequences_wrap_without_a_false_post() {
    assert_eq!(next_seq(u32::MAX), FIRST_SEQ, "0 would look like untouched memory");
    // 2^16 packets of 18 flits in a small ring pass every alignment of a packet to the ring's end;
    // the free-running u32 wrap itself is the same arithmetic.
    let mem = Memory::new(32, 1);
    let (mut producer, mut consumer) = (Producer::default(), Consumer::default());
    for n in 0..1u64 << 16 {
        let data = (n * 7 % 17) as usize;
        producer.inject(&mem, &packet(n, data)).expect("room");
        match consumer.next(&mem) {
            Ok(Some(Post::Packet { header, .. })) => {
                assert_eq!(header.address, Address::Memory { endpoint: 0, region: 0, offset: n })
            }
            other => panic!("packet {n}: {other:?}"),
        }
    }
    assert_eq!(consumer.next(&mem), Ok(None));
}

#[test]
fn a_full_queue_says_so_and_recovers() {
    let mem = Memory::new(4, 2);
    let (mut producer, mut consumer) = (Producer::default(), Consumer::default());
    assert!(producer.post(&mem, [0; 8]).is_ok() && producer.post(&mem, [0; 8]).is_ok());
    assert_eq!(producer.post(&mem, [0; 8]), Err(Full));
    assert_eq!(producer.inject(&mem, &packet(0, 3)), Err(Full), "longer than the ring");
    assert_eq!(producer.next_seq(), 3, "refused posts take no sequence number");
    assert!(matches!(consumer.next(&mem), Ok(Some(_))));
    assert_eq!(producer.post(&mem, [0; 8]), Ok(3));
}

#[test]
fn two_threads_exchange_through_a_real_channel() {
    let (fds, daemon) = Channel::create(&angara_abi::shm::Source::Files, "two-threads").expect("memfds");
    let fds = fds.expect("files");
    const POSTS: u64 = 200_000;
    std::thread::scope(|s| {
        s.spawn(|| {
            let client = Channel::map(&fds).expect("map");
            let mut producer = Producer::default();
            for n in 0..POSTS {
                let flits = packet(n, (n % 17) as usize);
                loop {
                    let posted = match n % 3 {
                        0 => producer.inject(&client, &flits),
                        _ => producer.post(&client, std::array::from_fn(|i| n << 32 | i as u64)),
                    };
                    if posted.is_ok() {
                        break;
                    }
                    std::thread::yield_now();
                }
            }
        });
        let mut consumer = Consumer::default();
        let mut n = 0;
        while n < POSTS {
            match consumer.next(&daemon).expect("honest client") {
                None => std::thread::yield_now(),
                Some(Post::Descriptor(words)) => {
                    assert!(n % 3 != 0 && (1..8).all(|i| words[i] == n << 32 | i as u64), "post {n}: {words:?}");
                    n += 1;
                }
                Some(Post::Packet { data, .. }) => {
                    assert!(
                        n.is_multiple_of(3) && (0..(n % 17) as usize).all(|i| data[i] == (n as u128) << 64 | i as u128)
                    );
                    n += 1;
                }
            }
        }
    });
}

#[test]
fn csr_commands_are_answered_by_sequence() {
    let (fds, daemon) = Channel::create(&angara_abi::shm::Source::Files, "mailbox").expect("memfds");
    let fds = fds.expect("files");
    let client = Channel::map(&fds).expect("map");
    assert_eq!(daemon.csr_pending(), None);
    let seq = client.csr_command(angara_abi::csr::SCRATCH, 42);
    assert_eq!(client.csr_reply(seq), None);
    assert_eq!(daemon.csr_pending(), Some((seq, angara_abi::csr::SCRATCH, 42)));
    daemon.csr_acknowledge(seq, Ok(()));
    assert_eq!((client.csr_reply(seq), daemon.csr_pending()), (Some(Ok(())), None));
    let seq = client.csr_command(angara_abi::csr::NODE, 1);
    daemon.csr_acknowledge(seq, Err(angara_abi::channel::Fault::BadCsr));
    assert_eq!(client.csr_reply(seq), Some(Err(angara_abi::channel::Fault::BadCsr)));
    daemon.set_error(angara_abi::channel::Fault::BadRange, 9);
    assert_eq!(client.error(), Some((angara_abi::channel::Fault::BadRange, 9)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_bytes_in_every_client_page_never_panic_the_daemon_side(seed: u64, tail in prop_oneof![any::<u32>(), 0..5000u32]) {
        let (fds, daemon) = Channel::create(&angara_abi::shm::Source::Files, "hostile").expect("memfds");
    let fds = fds.expect("files");
        let mut state = seed | 1;
        let mut noise = |len: usize| -> Vec<u8> {
            (0..len)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 56) as u8
                })
                .collect()
        };
        for (fd, len) in [(&fds.page, PAGE_BYTES), (&fds.ring, RING_BYTES), (&fds.dma, DMA_BYTES)] {
            Mapping::map(fd, len).expect("map").write(0, &noise(len)).expect("inside");
        }
        daemon.tx_tail().store(tail, Relaxed);
        let mut consumer = Consumer::default();
        for _ in 0..5_000 {
            let _ = daemon.csr_pending();
            match consumer.next(&daemon) {
                Ok(Some(Post::Descriptor(words))) => drop(angara_abi::desc::Descriptor::decode(&words)),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        prop_assert!(daemon.status_u32(status::TX_HEAD).load(Relaxed) <= 4096 || daemon.error().is_none());
    }
}
