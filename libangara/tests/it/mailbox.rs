//! Mailboxes on both engines, over a stand-in for the daemon: against a queue, with little room, with peers that go and
//! come, and with peers that write nonsense.

use crate::fake::Fake;
use angara::mailbox::{Mailbox, Peer, SendError};
use angara::{Error, Job};
use angara_abi::job::{Barrier, INTERNAL_BYTES, Reach, Seat, SeatState};
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BOTH: [Reach; 2] = [Reach::Direct, Reach::Ring];
const PATIENCE: Duration = Duration::from_secs(100);

fn start(pes: usize, reach: Reach) -> Arc<Fake> {
    Fake::start(pes, Mailbox::bytes(pes), Barrier::Auto, reach)
}

fn open(job: &Arc<Job>) -> Mailbox {
    let at = job.locate(job.heap(), Mailbox::bytes(job.n_pes())).expect("room");
    Mailbox::open(job.clone(), at).expect("a mailbox")
}

fn jobs(fake: &Fake, pes: usize) -> Vec<Arc<Job>> {
    (0..pes).map(|pe| Arc::new(Job::attach(&fake.launch(pe), &[]).expect("attach"))).collect()
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 17 + (i >> 8)) as u8).collect()
}

fn send(mailbox: &mut Mailbox, to: Peer, data: &[u8]) -> Result<(), SendError> {
    mailbox.try_send(to, &[IoSlice::new(data)])
}

/// Returns what has come, at most `most` messages.
fn take(mailbox: &mut Mailbox, most: usize) -> Vec<(Peer, Vec<u8>)> {
    let mut all = Vec::new();
    let got = mailbox.receive(most, &mut |from, message| {
        let mut bytes = vec![0; message.len()];
        message.copy(0, &mut bytes);
        all.push((from, bytes));
    });
    assert_eq!(got.expect("receive"), all.len());
    all
}

/// Exactly `count` messages, waited for.
fn take_all(mailbox: &mut Mailbox, count: usize) -> Vec<(Peer, Vec<u8>)> {
    let (mut all, end) = (Vec::new(), Instant::now() + PATIENCE);
    while all.len() < count {
        assert!(Instant::now() < end, "{} of {count} messages", all.len());
        mailbox.wait(Duration::from_secs(1)).expect("wait");
        all.extend(take(mailbox, count - all.len()));
    }
    all
}

/// Ends the life of `pe`, and begins the next one.
fn next_life(fake: &Fake, pe: usize, ended: u32) {
    fake.set_seat(pe, Seat { state: SeatState::Taken, ended });
}

#[derive(Clone, Debug)]
enum Step {
    Send {
        from: usize,
        to: usize,
        len: usize,
        cut: usize,
    },
    Receive {
        at: usize,
        most: usize,
    },
    /// All messages are taken; then a PE leaves, and another process comes to its seat.
    Replace {
        pe: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![4 => 0usize..=300, 1 => 0usize..=16_384, 1 => prop::sample::select(vec![0, 239, 240, 241, 496, 16_384])];
    prop_oneof![
        60 => (0usize..3, 0usize..3, len, any::<usize>()).prop_map(|(from, to, len, cut)| Step::Send { from, to, len, cut }),
        30 => (0usize..3, 1usize..60).prop_map(|(at, most)| Step::Receive { at, most }),
        1 => (0usize..3).prop_map(|pe| Step::Replace { pe }),
    ]
}

/// Mailboxes and what they must deliver: a queue for each sender and receiver.
struct Model {
    boxes: Vec<Option<Mailbox>>,
    queues: HashMap<(usize, usize), VecDeque<Vec<u8>>>,
    sent: usize,
}

impl Model {
    fn of(&mut self, pe: usize) -> &mut Mailbox {
        self.boxes[pe].as_mut().expect("open")
    }

    fn send(&mut self, from: usize, to: usize, len: usize, cut: usize) {
        let data = pattern(len, self.sent);
        self.sent += 1;
        let (peer, at) = (self.of(to).me(), cut % (len + 1));
        let parts = [IoSlice::new(&data[..at]), IoSlice::new(&[]), IoSlice::new(&data[at..])];
        match self.of(from).try_send(peer, if cut.is_multiple_of(2) { &parts } else { &parts[2..] }) {
            Ok(()) if cut.is_multiple_of(2) => self.queues.entry((from, to)).or_default().push_back(data),
            Ok(()) => self.queues.entry((from, to)).or_default().push_back(data[at..].to_vec()),
            // Some 64 slots may be free and not yet be given back.
            Err(SendError::Full) => assert!(self.queues.contains_key(&(from, to))),
            Err(error) => panic!("{error}"),
        }
    }

    fn receive(&mut self, at: usize, most: usize) -> usize {
        let got = take(self.of(at), most);
        for (from, bytes) in &got {
            let sender = self.of(from.seat as usize).me();
            assert_eq!(*from, sender);
            let want = self.queues.get_mut(&(from.seat as usize, at)).and_then(VecDeque::pop_front);
            assert!(want.as_ref() == Some(bytes), "from {from:?} at {at}: {} bytes", bytes.len());
        }
        got.len()
    }

    fn drain(&mut self) {
        let end = Instant::now() + PATIENCE;
        while self.queues.values().any(|queue| !queue.is_empty()) {
            assert!(Instant::now() < end, "messages are missing");
            (0..self.boxes.len()).for_each(|pe| {
                self.receive(pe, usize::MAX);
            });
        }
    }
}

fn runs_as_queues(reach: Reach, steps: &[Step]) {
    let fake = start(3, reach);
    let jobs = jobs(&fake, 3);
    let mut lives = [0; 3];
    let mut model = Model { boxes: jobs.iter().map(|job| Some(open(job))).collect(), queues: HashMap::new(), sent: 0 };
    for step in steps {
        match *step {
            Step::Send { from, to, len, cut } => model.send(from, to, len, cut),
            Step::Receive { at, most } => {
                model.receive(at, most);
            }
            Step::Replace { pe } => {
                model.drain();
                // Messages posted for the old life arrive in it.
                jobs.iter().for_each(|job| job.ctx().quiet().expect("quiet"));
                let old = model.of(pe).me();
                model.boxes[pe] = None;
                lives[pe] += 1;
                next_life(&fake, pe, lives[pe]);
                model.boxes[pe] = Some(open(&jobs[pe]));
                let other = model.of((pe + 1) % 3);
                assert!(!other.is_there(old) && matches!(send(other, old, b"late"), Err(SendError::Gone)));
            }
        }
    }
    model.drain();
    fake.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn mailboxes_are_queues(steps in prop::collection::vec(step(), 1..800)) {
        BOTH.into_iter().for_each(|reach| runs_as_queues(reach, &steps));
    }
}

#[test]
fn many_messages_pass_a_small_ring_in_order_both_ways_at_once() {
    const COUNT: usize = 40_000;
    for reach in BOTH {
        let fake = start(2, reach);
        let jobs = jobs(&fake, 2);
        std::thread::scope(|s| {
            for job in &jobs {
                s.spawn(move || {
                    let mut mailbox = open(job);
                    let (me, end) = (job.my_pe(), Instant::now() + PATIENCE);
                    let (mut sent, mut got) = (0, 0);
                    while sent < COUNT || got < COUNT {
                        assert!(Instant::now() < end, "{reach:?}: {sent} sent, {got} received");
                        let to = mailbox.peer(1 - me);
                        let data = pattern(sent % 700, sent + me);
                        let full = sent == COUNT
                            || match send(&mut mailbox, to, &data) {
                                Ok(()) => false,
                                Err(SendError::Full) => true,
                                Err(error) => panic!("{error}"),
                            };
                        sent += usize::from(!full);
                        for (_, bytes) in take(&mut mailbox, 9) {
                            assert!(bytes == pattern(got % 700, got + 1 - me), "{reach:?}: message {got}");
                            got += 1;
                        }
                        if full && got < COUNT {
                            mailbox.wait(Duration::from_millis(50)).expect("wait");
                        }
                    }
                });
            }
        });
        fake.finish();
    }
}

#[test]
fn a_short_message_is_one_packet_and_no_longer_than_it_must_be() {
    let fake = start(2, Reach::Ring);
    let jobs = jobs(&fake, 2);
    let (mut a, mut b) = (open(&jobs[0]), open(&jobs[1]));
    let to = b.me();
    send(&mut a, to, b"first").expect("room");
    assert_eq!(take_all(&mut b, 1)[0].1, b"first");
    for (len, flits) in [(0, 3), (8, 4), (16, 4), (17, 5), (240, 18)] {
        let before = (fake.packets(), jobs[0].traffic(1, angara::Class::Put).out);
        send(&mut a, to, &pattern(len, 1)).expect("room");
        assert_eq!(take_all(&mut b, 1)[0].1, pattern(len, 1));
        let after = (fake.packets(), jobs[0].traffic(1, angara::Class::Put).out);
        assert_eq!((after.0 - before.0, after.1.packets - before.1.packets), (1, 1), "{len} bytes");
        assert_eq!(after.1.flits - before.1.flits, flits, "{len} bytes");
    }
    let before = jobs[0].traffic(1, angara::Class::Put).out.packets;
    send(&mut a, to, &pattern(1024, 1)).expect("room");
    assert_eq!(take_all(&mut b, 1)[0].1, pattern(1024, 1));
    assert_eq!(jobs[0].traffic(1, angara::Class::Put).out.packets - before, 5, "no more than its bytes need");
    fake.finish();
}

#[test]
fn a_full_ring_is_said_and_its_end_is_waited_for() {
    for reach in BOTH {
        let fake = start(2, reach);
        let jobs = jobs(&fake, 2);
        let (mut a, mut b) = (open(&jobs[0]), open(&jobs[1]));
        let to = b.me();
        let fits = (0..).take_while(|_| send(&mut a, to, b"x").is_ok()).count();
        assert_eq!(fits, 256);
        assert!(matches!(send(&mut a, to, b"x"), Err(SendError::Full)));
        assert!(!a.wait(Duration::from_millis(20)).expect("a limit is no error"), "nobody has freed anything");
        let long = vec![0; a.message_max() + 1];
        assert!(matches!(send(&mut a, to, &long), Err(SendError::TooLong { len: 16_385, max: 16_384 })));
        std::thread::scope(|s| {
            let waiter = s.spawn(move || {
                let came = a.wait(PATIENCE).expect("wait");
                (came, send(&mut a, to, b"x").is_ok())
            });
            assert_eq!(take_all(&mut b, 256).len(), 256);
            assert_eq!(waiter.join().expect("thread"), (true, true), "{reach:?}");
        });
        take_all(&mut b, 1);
        fake.finish();
    }
}

#[test]
fn one_that_floods_does_not_keep_another_waiting() {
    let fake = start(3, Reach::Direct);
    let jobs = jobs(&fake, 3);
    let mut boxes: Vec<_> = jobs.iter().map(open).collect();
    let to = boxes[0].me();
    while send(&mut boxes[1], to, b"flood").is_ok() {}
    send(&mut boxes[2], to, b"other").expect("room");
    let got = take(&mut boxes[0], 40);
    assert!(got.iter().any(|(from, _)| from.seat == 2), "among the first 40 of 257");
    assert_eq!(boxes[0].contacts().map(|peer| peer.seat).collect::<Vec<_>>(), [1, 2]);
    fake.finish();
}

#[test]
fn who_has_left_is_gone_and_what_it_sent_is_not() {
    for reach in BOTH {
        let fake = start(2, reach);
        let jobs = jobs(&fake, 2);
        let (mut a, mut b) = (open(&jobs[0]), open(&jobs[1]));
        let (first, to) = (a.me(), b.me());
        send(&mut a, to, b"before").expect("room");
        assert_eq!(take_all(&mut b, 1), [(first, b"before".to_vec())]);
        send(&mut a, to, b"last words").expect("room");
        fake.set_seat(0, Seat { state: SeatState::Deserted, ended: 0 });
        assert!(!b.is_there(first) && matches!(send(&mut b, first, b"?"), Err(SendError::Gone)));
        assert_eq!(take_all(&mut b, 1), [(first, b"last words".to_vec())]);
        // The next process at that seat.
        next_life(&fake, 0, 1);
        let mut a = open(&jobs[0]);
        assert_eq!(a.me(), Peer { seat: 0, generation: 2 });
        assert!(b.is_there(a.me()) && matches!(send(&mut b, first, b"?"), Err(SendError::Gone)));
        send(&mut a, to, b"hello").expect("room");
        assert_eq!(take_all(&mut b, 1), [(a.me(), b"hello".to_vec())]);
        send(&mut b, a.me(), b"welcome").expect("room");
        assert_eq!(take_all(&mut a, 1), [(to, b"welcome".to_vec())]);
        let nobody = Peer { seat: 2, generation: 1 };
        assert!(!a.is_there(nobody) && matches!(send(&mut a, nobody, b"?"), Err(SendError::Gone)));
        fake.finish();
    }
}

#[test]
fn credit_that_could_not_be_given_is_given_later() {
    for reach in BOTH {
        let fake = start(2, reach);
        let jobs = jobs(&fake, 2);
        let mut b = open(&jobs[1]);
        next_life(&fake, 0, 1);
        let mut a = open(&jobs[0]);
        // Where `b` is, nobody knows yet that somebody sits there again.
        fake.set_seat(0, Seat { state: SeatState::Deserted, ended: 0 });
        for _ in 0..256 {
            send(&mut a, b.me(), b"x").expect("room");
        }
        assert_eq!(take_all(&mut b, 256).len(), 256);
        assert!(matches!(send(&mut a, b.me(), b"x"), Err(SendError::Full)));
        next_life(&fake, 0, 1);
        let end = Instant::now() + PATIENCE;
        while send(&mut a, b.me(), b"y").is_err() {
            assert!(Instant::now() < end, "no credit has come");
            assert!(take(&mut b, 1).is_empty());
        }
        assert_eq!(take_all(&mut b, 1), [(a.me(), b"y".to_vec())]);
        fake.finish();
    }
}

/// Words of PE 1's mailbox, as another process of the job can write them.
fn words<'j>(job: &'j Job) -> impl Fn(usize) -> &'j AtomicU64 {
    let base = job.peer(job.locate(job.heap(), 8).expect("heap"), 1).expect("direct");
    // SAFETY: words of the mailbox, which lives as long as the job.
    move |offset| unsafe { AtomicU64::from_ptr(base.wrapping_add(offset).cast()) }
}

#[test]
fn nonsense_in_a_mailbox_harms_nobody_else() {
    let fake = start(3, Reach::Direct);
    let jobs = jobs(&fake, 3);
    let mut boxes: Vec<_> = jobs.iter().map(open).collect();
    let (to, bytes) = (boxes[1].me(), Mailbox::bytes(3));
    let rings = bytes - 3 * 256 * 256;
    let word = words(&jobs[0]);
    let ring_of_0 = |slot: usize| rings + slot * 256 + 240;
    send(&mut boxes[0], to, b"honest").expect("room");
    assert_eq!(take(&mut boxes[1], 9).len(), 1);
    // A length beyond all bounds, with everything else as it must be.
    send(&mut boxes[0], to, b"soon to be spoilt").expect("room");
    word(ring_of_0(1) + 8).fetch_or(0xffff << 48, Ordering::Relaxed);
    assert_eq!(take(&mut boxes[1], 9).len(), 0);
    send(&mut boxes[0], to, b"not believed any more").expect("room");
    assert_eq!(take(&mut boxes[1], 9).len(), 0);
    // More credit than messages: PE 1 takes PE 0 for gone, once it looks.
    let me = boxes[0].me();
    while send(&mut boxes[1], me, b"x").is_ok() {}
    let lane_of_0 = rings - 4096 + 128;
    word(lane_of_0 + 8).store(0x0001_0001 << 32 | 100_000, Ordering::Relaxed);
    assert!(matches!(send(&mut boxes[1], me, b"x"), Err(SendError::Gone)));
    let mut random = angara_abi::random::SplitMix(7);
    for round in 0..200_000u64 {
        // Anywhere but in what PE 2 writes.
        let ring = 8 * random.below((256 * 256) / 8) as usize;
        let at = [rings + ring, lane_of_0 + ring % 64, ring % 72][round as usize % 3];
        let generation = random.below(4);
        let values = [random.draw(), generation | 1 << 32, random.below(400) | 0x1_0001 << 16 | generation << 48];
        word(at).store(values[random.below(3) as usize], Ordering::Relaxed);
        if round % 64 == 0 {
            word(0).fetch_add(1, Ordering::Relaxed);
            word(64).store(!0, Ordering::Relaxed);
            take(&mut boxes[1], usize::MAX);
            let _ = send(&mut boxes[1], Peer { seat: 0, generation: 1 }, b"x");
        }
    }
    for i in 0..1000usize {
        send(&mut boxes[2], to, &i.to_le_bytes()).expect("room");
        let got = take(&mut boxes[1], usize::MAX);
        let own: Vec<_> = got.iter().filter(|(from, _)| from.seat == 2).collect();
        assert!(own.len() == 1 && own[0].1 == i.to_le_bytes(), "message {i}");
    }
    fake.finish();
}

#[test]
fn one_that_claimed_a_later_life_does_not_lock_out_those_who_come() {
    let fake = start(2, Reach::Direct);
    let jobs = jobs(&fake, 2);
    let mut receiver = open(&jobs[1]);
    let word = words(&jobs[1]);
    let lane_of_0 = Mailbox::bytes(2) - 2 * 256 * 256 - 4096 + 128;
    word(lane_of_0).store(u64::from(u32::MAX) | 1 << 32, Ordering::Relaxed);
    word(64).store(1, Ordering::Relaxed);
    word(0).fetch_add(1, Ordering::Release);
    assert_eq!(take(&mut receiver, 9).len(), 0);
    assert_eq!(
        receiver.contacts().map(|peer| peer.generation).collect::<Vec<_>>(),
        [u32::MAX],
        "the lane is that of PE 0"
    );
    next_life(&fake, 0, 1);
    let mut next = open(&jobs[0]);
    send(&mut next, receiver.me(), b"honest").expect("room");
    assert_eq!(take_all(&mut receiver, 1), [(next.me(), b"honest".to_vec())]);
    fake.finish();
}

#[test]
fn raw_bytes_of_a_long_message_are_never_taken_for_a_message() {
    let fake = start(2, Reach::Direct);
    let jobs = jobs(&fake, 2);
    let (mut a, mut b) = (open(&jobs[0]), open(&jobs[1]));
    let to = b.me();
    // Trailers of messages one round later, wherever a slot of the long message could end.
    let mut data = vec![0u8; 16_384];
    for (slot, bytes) in data.chunks_mut(256).enumerate() {
        let trailer = [1u64 | 1 << 32, (slot as u64 + 2 + 256) | 0x1_0001 << 16 | 8 << 48];
        bytes[240..248].copy_from_slice(&trailer[0].to_le_bytes());
        bytes[248..].copy_from_slice(&trailer[1].to_le_bytes());
    }
    send(&mut a, to, &data).expect("room");
    assert_eq!(take(&mut b, 9), [(a.me(), data)]);
    for i in 0..1000usize {
        send(&mut a, to, &i.to_le_bytes()).expect("room");
        assert_eq!(take(&mut b, 9), [(a.me(), i.to_le_bytes().to_vec())]);
    }
    fake.finish();
}

#[test]
fn memory_is_taken_only_for_those_who_speak() {
    const PES: usize = 4096;
    assert!(Mailbox::bytes(PES) < 65 << 20, "whatever the number of PEs");
    let fake = start(PES, Reach::Direct);
    let jobs = jobs(&fake, 2);
    let before = fake.heap_memory();
    let (mut a, mut b) = (open(&jobs[0]), open(&jobs[1]));
    assert_eq!(a.message_max(), 4096);
    assert!(take(&mut a, 9).is_empty() && take(&mut b, 9).is_empty());
    for i in 0..1000usize {
        send(&mut a, b.me(), &pattern(i * 4, i)).expect("room");
        assert_eq!(take(&mut b, 9), [(a.me(), pattern(i * 4, i))]);
    }
    let used = fake.heap_memory() - before;
    assert!(used <= 64 << 10, "one ring of 16 KiB and a few pages, not {used} bytes");
    fake.finish();
}

#[test]
fn a_place_that_cannot_be_is_refused() {
    let job = Arc::new(Job::solo(Mailbox::bytes(1), &[]).expect("solo"));
    let at = |offset: usize| angara::Place { region: angara::Region::Heap, offset: (INTERNAL_BYTES + offset) as u64 };
    let refused = |place| Mailbox::open(job.clone(), place).err().expect("refused").to_string();
    assert!(refused(at(64)).contains("whole page"));
    assert!(refused(at(4096)).contains("bytes of symmetric heap"));
    assert!(refused(angara::Place { region: angara::Region::Static, ..at(0) }).contains("of the heap"));
    let mut mailbox = Mailbox::open(job, at(0)).expect("a mailbox");
    let me = mailbox.me();
    send(&mut mailbox, me, b"to myself").expect("room");
    assert_eq!(take(&mut mailbox, 9), [(me, b"to myself".to_vec())]);
}

#[test]
fn a_forked_child_gets_an_error_and_its_parent_goes_on() {
    let fake = start(2, Reach::Direct);
    let jobs = jobs(&fake, 2);
    let (mut a, mut b) = (open(&jobs[0]), open(&jobs[1]));
    let to = b.me();
    send(&mut a, to, b"one").expect("room");
    // SAFETY: the child calls functions that neither allocate nor lock, then leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let sent = matches!(send(&mut a, to, b"child"), Err(SendError::Job(Error::Forked)));
        let got = matches!(b.receive(9, &mut |_, _| {}), Err(Error::Forked));
        let waited = matches!(a.wait(Duration::ZERO), Err(Error::Forked));
        // SAFETY: ends the child without running the parent's destructors.
        unsafe { libc::_exit(i32::from(!(sent && got && waited))) };
    }
    let mut status = 0;
    // SAFETY: `child` was forked above and is waited for once.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
    send(&mut a, to, b"two").expect("room");
    let texts: Vec<_> = take(&mut b, 9).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, [b"one", b"two"]);
    fake.finish();
}
