//! Exhaustive models of the lock-free protocols, run by the loom model checker.
//!
//! loom runs each closure under every interleaving of its threads (up to a bound on forced
//! preemptions) and under every value a weakly ordered load may return. `abi/models` is the package that builds this
//! crate for it: `cargo test -p angara-abi-models`.
//!
//! The sleep protocol replaces the writer's fence by `membarrier` in the sleeper. loom knows no
//! membarrier, but its definition is that every other process executes a full fence at some point
//! during the call; in each execution the writer's fence therefore falls either before or after
//! its load of `sleepers`. A `SeqCst` fence on both sides is the strongest instance and proves the
//! protocol; the negative tests take each fence away and show that the checker then finds the
//! lost wake-up, so the model is able to fail.
//!
//! The order of memory is that of `docs/explain/memory-order.md`. Models use the operations of [`crate::order`] themselves, so
//! a weaker one fails them; what loom does not try, [`reordered`] does.

mod credit;
mod effects;
mod exposed;
mod mailbox;
mod puts;
pub(crate) mod reordered;
mod shared;
mod waits;

use crate::memory::sync::{AtomicU32, AtomicU64, Ordering};
use crate::packet::{Address, Header, PacketType, Tail, Vc, seal};
use crate::queue::{Consumer, FIRST_SEQ, Full, Post, Producer, QueueError, QueueMemory};
use crate::wait::{Fenced, Kernel, WaitCell};
use angara_net::torus::Coords;
use loom::sync::{Arc, Condvar, Mutex};

fn check(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 100_000;
    model.check(f);
}

/// A thread of a model with its share of the memory.
fn spawn<T: Send + Sync + 'static>(words: &Arc<T>, f: impl FnOnce(&T) + 'static) -> loom::thread::JoinHandle<()> {
    let words = words.clone();
    loom::thread::spawn(move || f(&words))
}

/// Both queues with capacities small enough to explore.
struct Memory {
    flits: Vec<[AtomicU64; 2]>,
    slots: Vec<[AtomicU64; 8]>,
    tx_tail: AtomicU32,
    tx_head: AtomicU32,
    dma_head: AtomicU32,
}

impl Memory {
    fn new(flits: usize, slots: usize) -> Memory {
        Memory {
            flits: (0..flits).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect(),
            slots: (0..slots).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect(),
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

/// One post of a model run: a descriptor or a packet whose content names its number.
#[derive(Clone, Copy)]
enum PostKind {
    Descriptor,
    Packet,
}

fn descriptor(n: u64) -> [u64; 8] {
    // Word 0 beyond the sequence field and every other word carry the number, so a torn or stale
    // copy is recognised.
    std::array::from_fn(|i| (n << 32) | (i as u64 * (i > 0) as u64))
}

fn packet(n: u64) -> [u128; 3] {
    let header = Header {
        kind: PacketType::Write,
        data_flits: 1,
        vc: Vc::Request,
        adaptive: false,
        notify: false,
        dirbits: 0,
        first_step: None,
        last_step: None,
        dst: Coords::default(),
        address: Address::Memory { endpoint: 0, region: 0, offset: n },
    };
    let mut flits = [header.encode(), (n as u128) << 64 | n as u128, Tail::default().encode()];
    seal(&mut flits);
    flits
}

fn expect(n: u64, seq: u32, post: &Post) {
    match post {
        Post::Descriptor(words) => {
            let mut want = descriptor(n);
            want[0] |= seq as u64;
            assert_eq!(*words, want, "descriptor {n} is torn, lost or out of order");
        }
        Post::Packet { seq: got, header, data, .. } => {
            assert_eq!(*got, seq);
            let address = Address::Memory { endpoint: 0, region: 0, offset: n };
            assert_eq!(header.address, address, "header of packet {n} is torn");
            assert_eq!(data[0], (n as u128) << 64 | n as u128, "data of packet {n} is torn");
        }
    }
}

fn queue_model(flits: usize, slots: usize, posts: &'static [PostKind], preemptions: usize) {
    check(preemptions, move || {
        let mem = Arc::new(Memory::new(flits, slots));
        let theirs = mem.clone();
        let client = loom::thread::spawn(move || {
            let mut producer = Producer::default();
            for (n, kind) in posts.iter().enumerate() {
                loop {
                    let posted = match kind {
                        PostKind::Descriptor => producer.post(&*theirs, descriptor(n as u64)),
                        PostKind::Packet => producer.inject(&*theirs, &packet(n as u64)),
                    };
                    match posted {
                        Ok(seq) => break assert_eq!(seq, FIRST_SEQ + n as u32),
                        Err(Full) => loom::thread::yield_now(),
                    }
                }
            }
        });
        let mut consumer = Consumer::default();
        let mut taken = 0;
        while taken < posts.len() {
            match consumer.next(&*mem).expect("an honest client never breaks the protocol") {
                Some(post) => {
                    expect(taken as u64, FIRST_SEQ + taken as u32, &post);
                    taken += 1;
                }
                None => loom::thread::yield_now(),
            }
        }
        client.join().expect("client thread");
        assert_eq!(consumer.next(&*mem), Ok(None), "nothing is delivered twice");
        assert!(!consumer.has_work(&*mem));
    });
}

#[test]
fn descriptors_arrive_once_whole_and_in_order_through_a_full_queue() {
    use PostKind::Descriptor as D;
    queue_model(4, 2, &[D, D, D], 3);
}

#[test]
fn packets_arrive_once_whole_and_in_order_through_a_full_ring() {
    use PostKind::Packet as P;
    queue_model(4, 2, &[P, P, P], 3);
}

#[test]
fn posts_of_both_kinds_keep_their_common_sequence() {
    use PostKind::{Descriptor as D, Packet as P};
    queue_model(4, 1, &[P, D, D, P], 2);
    queue_model(8, 2, &[D, P, P, D], 2);
}

/// A client that makes the doorbell visible before the flits, as a missing release would.
#[test]
#[should_panic(expected = "torn")]
fn a_doorbell_rung_too_early_is_caught_by_the_model() {
    check(3, || {
        let mem = Arc::new(Memory::new(4, 1));
        let theirs = mem.clone();
        let client = loom::thread::spawn(move || {
            let mut flits = packet(5);
            flits[2] |= (FIRST_SEQ as u128) << 104;
            for (i, flit) in flits.iter().enumerate() {
                theirs.flit(i, 0).store(*flit as u64, Ordering::Relaxed);
                theirs.flit(i, 1).store((*flit >> 64) as u64, Ordering::Relaxed);
            }
            theirs.tx_tail.store(3, Ordering::Relaxed);
        });
        // The consumer may answer with an error for such a client; what it delivers as a packet
        // must be what was posted, and here it cannot be.
        if let Ok(Some(post)) = Consumer::default().next(&*mem) {
            expect(5, FIRST_SEQ, &post);
        }
        client.join().expect("client thread");
    });
}

#[test]
fn a_packet_whose_turn_cannot_come_is_an_error_not_a_stall() {
    check(2, || {
        let mem = Memory::new(4, 1);
        let mut flits = packet(0);
        flits[2] |= 7 << 104;
        for (i, flit) in flits.iter().enumerate() {
            mem.flit(i, 0).store(*flit as u64, Ordering::Relaxed);
            mem.flit(i, 1).store((*flit >> 64) as u64, Ordering::Relaxed);
        }
        mem.tx_tail.store(3, Ordering::Release);
        assert_eq!(Consumer::default().next(&mem), Err(QueueError::Sequence { tag: 7, want: FIRST_SEQ }));
    });
}

/// A futex without its time limit, and fences that can be taken away. A lost wake-up is a
/// deadlock, which loom reports.
struct Model {
    lock: Mutex<()>,
    woken: Condvar,
    heavy: bool,
    light: bool,
}

impl Model {
    fn new(heavy: bool, light: bool) -> Model {
        Model { lock: Mutex::new(()), woken: Condvar::new(), heavy, light }
    }
}

impl Kernel for Model {
    fn heavy_fence(&self) {
        if self.heavy {
            loom::sync::atomic::fence(Ordering::SeqCst);
        }
    }
    fn futex_wait(&self, word: &AtomicU32, value: u32, _: std::time::Duration) {
        let guard = self.lock.lock().expect("model lock");
        // The kernel compares under the same lock that a waker takes.
        if word.load(Ordering::SeqCst) == value {
            drop(self.woken.wait(guard).expect("model lock"));
        }
    }
    fn futex_wake(&self, _word: &AtomicU32) {
        let _guard = self.lock.lock().expect("model lock");
        self.woken.notify_all();
    }
    fn light_fence(&self) {
        if self.light {
            loom::sync::atomic::fence(Ordering::SeqCst);
        }
    }
}

fn sleep_model(heavy: bool, light: bool, writers: usize) {
    sleep_model_of(move || Model::new(heavy, light), writers);
}

fn sleep_model_of<K: Kernel + Send + Sync + 'static>(kernel: impl Fn() -> K + Send + Sync + 'static, writers: usize) {
    check(3, move || {
        let shared = Arc::new((WaitCell::detached(), kernel()));
        let data = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let threads: Vec<_> = (0..writers)
            .map(|w| {
                let (shared, data) = (shared.clone(), data.clone());
                loom::thread::spawn(move || {
                    let word = if w == 0 { &data.0 } else { &data.1 };
                    word.store(1, Ordering::Relaxed);
                    shared.0.notify(&shared.1);
                })
            })
            .collect();
        let ready = || data.0.load(Ordering::Relaxed) == 1 && (writers < 2 || data.1.load(Ordering::Relaxed) == 1);
        let mut sleeper = shared.0.sleeper(&shared.1);
        while !ready() {
            sleeper.sleep(std::time::Duration::ZERO, ready);
        }
        drop(sleeper);
        for thread in threads {
            thread.join().expect("writer thread");
        }
    });
}

#[test]
fn no_wake_up_is_lost() {
    sleep_model(true, true, 1);
}

#[test]
fn no_wake_up_is_lost_where_writers_fence() {
    sleep_model_of(|| Fenced(Model::new(false, false)), 1);
}

#[test]
fn no_wake_up_is_lost_between_two_writers() {
    sleep_model(true, true, 2);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_sleepers_heavy_fence_a_wake_up_can_be_lost() {
    sleep_model(false, true, 1);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_writers_half_of_the_fence_a_wake_up_can_be_lost() {
    sleep_model(true, false, 1);
}
