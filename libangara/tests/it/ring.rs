//! The ring engine, barriers and trees over a stand-in for the daemon that applies posts at once.

use crate::fake::{Fake, is_unreachable};
use angara::driver::{OpState, packet};
use angara::tree::ReduceOp;
use angara::{Amo, AmoOp, Class, Error, Job, Place, Strided};
use angara_abi::channel::Fault;
use angara_abi::desc::Op;
use angara_abi::job::{Barrier, Reach};
use std::sync::atomic::{AtomicU64, Ordering};

const HEAP: usize = 4 << 20;

fn at(job: &Job, offset: usize) -> Place {
    job.locate(job.heap().wrapping_add(offset), 1).expect("inside the heap")
}

fn word(job: &Job, offset: usize) -> &AtomicU64 {
    // SAFETY: an aligned word of this PE's heap, which lives as long as the job.
    unsafe { AtomicU64::from_ptr(job.heap().wrapping_add(offset).cast()) }
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 17 + (i >> 8)) as u8).collect()
}

fn put(job: &Job, pe: usize, offset: usize, data: &[u8]) -> angara::Result<()> {
    // SAFETY: `data` is a live slice of its own length.
    unsafe { job.ctx().put(Class::Put, pe, at(job, offset), data.as_ptr(), data.len()) }
}

fn get(job: &Job, pe: usize, offset: usize, len: usize) -> angara::Result<Vec<u8>> {
    let mut back = vec![0; len];
    // SAFETY: `back` holds `len` bytes.
    unsafe { job.ctx().get(Class::Get, pe, back.as_mut_ptr(), at(job, offset), len)? };
    Ok(back)
}

#[test]
fn every_length_arrives_by_descriptor_packet_and_dma() {
    let fake = Fake::start(2, HEAP, Barrier::Auto, Reach::Ring);
    fake.run(|job| {
        let peer = 1 - job.my_pe();
        for len in [1, 3, 8, 9, 100, 256, 257, 4096, 65536, 1_000_003, 3 << 20] {
            let data = pattern(len, job.my_pe());
            put(job, peer, 24, &data).unwrap();
            job.ctx().quiet().unwrap();
            assert_eq!(get(job, peer, 24, len).unwrap(), data, "{len} bytes");
            job.barrier(false).unwrap();
            // SAFETY: this PE's own heap, quiescent after the barrier.
            let mine = unsafe { std::slice::from_raw_parts(job.heap().add(24), len) };
            assert_eq!(mine, pattern(len, peer));
            job.barrier(true).unwrap();
        }
    });
    assert!(fake.taken(Op::PutInline) >= 6 && fake.packets() >= 6 && fake.taken(Op::Put) >= 10);
}

#[test]
fn symmetric_memory_is_read_and_written_in_place() {
    let fake = Fake::start(2, HEAP, Barrier::Auto, Reach::Ring);
    fake.run(|job| {
        let peer = 1 - job.my_pe();
        let len = 1 << 20;
        let data = pattern(len, job.my_pe() + 5);
        // SAFETY: disjoint parts of the own heap.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr(), job.heap(), len);
            job.ctx().put_nbi(Class::Put, peer, at(job, len), job.heap(), len).unwrap();
            job.ctx().quiet().unwrap();
            job.ctx().get_nbi(Class::Get, peer, job.heap().add(2 * len), at(job, len), len).unwrap();
            job.ctx().quiet().unwrap();
            assert_eq!(std::slice::from_raw_parts(job.heap().add(2 * len), len), data);
            job.ctx().put(Class::Put, peer, at(job, len), job.heap(), len).unwrap();
        }
    });
    let gets = fake.taken(Op::Get) - 2; // one flush per quiet that followed a put
    assert_eq!((fake.taken(Op::Put), gets), (4, 2), "one descriptor each, no staging");
}

#[test]
fn hundreds_of_gets_are_on_their_way_at_once() {
    const GETS: usize = 500;
    let fake = Fake::start(2, HEAP, Barrier::Auto, Reach::Ring);
    fake.run(|job| {
        let peer = 1 - job.my_pe();
        for i in 0..GETS {
            word(job, 8 * i).store((job.my_pe() * 1000 + i) as u64, Ordering::Relaxed);
        }
        job.barrier(true).unwrap();
        if job.my_pe() == 0 {
            // Half of them into memory the adapter cannot reach.
            let mut got = [0u64; GETS];
            let into = |i: usize, own: *mut u64| match i % 2 {
                0 => own.cast(),
                _ => job.heap().wrapping_add(8 * (GETS + i)),
            };
            fake.hold.store(true, Ordering::Relaxed);
            let taken = job.adapter().heads().unwrap().1;
            for (i, own) in got.iter_mut().enumerate() {
                // SAFETY: 8 bytes that live until the quiet below.
                unsafe { job.ctx().get_nbi(Class::Get, peer, into(i, own), at(job, 8 * i), 8).unwrap() };
            }
            assert!(job.adapter().heads().unwrap().1 - taken <= 64, "the adapter stood still");
            fake.hold.store(false, Ordering::Relaxed);
            job.ctx().quiet().unwrap();
            for (i, own) in got.iter_mut().enumerate() {
                // SAFETY: written by the get above, read by nobody else.
                let value = unsafe { into(i, own).cast::<u64>().read_volatile() };
                assert_eq!(value, (peer * 1000 + i) as u64, "get {i}");
            }
        }
        job.barrier(false).unwrap();
    });
}

#[test]
fn a_strided_get_is_one_wait_for_all_its_blocks() {
    let fake = Fake::start(2, HEAP, Barrier::Auto, Reach::Ring);
    fake.run(|job| {
        let peer = 1 - job.my_pe();
        for i in 0..4000 {
            word(job, 8 * i).store(((job.my_pe() << 20) + i) as u64, Ordering::Relaxed);
        }
        job.barrier(true).unwrap();
        for (count, block, to_step, from_step) in
            [(1000, 8, 16, 24), (300, 16, 16, 40), (7, 4096, 4096, 4104), (30, 8, 8, 1000), (1, 8, 0, 0)]
        {
            let mut into = vec![u8::MAX; 1 << 16];
            let blocks = Strided { count, block, to_step, from_step };
            // SAFETY: the last block ends inside the vector.
            unsafe { job.ctx().get_strided(Class::Get, peer, into.as_mut_ptr(), at(job, 0), blocks).unwrap() };
            for (i, at) in (0..count).flat_map(|i| (0..block).step_by(8).map(move |at| (i, at))) {
                let value = u64::from_le_bytes(into[i * to_step + at..][..8].try_into().unwrap());
                assert_eq!(value, ((peer << 20) + (i * from_step + at) / 8) as u64, "{blocks:?}: block {i} byte {at}");
            }
            let end = (count - 1) * to_step + block;
            assert!(into[end..].iter().all(|b| *b == u8::MAX), "{blocks:?} wrote behind its end");
        }
        job.barrier(false).unwrap();
    });
}

#[test]
fn gets_on_their_way_when_the_channel_breaks_are_an_error() {
    let fake = Fake::start(2, HEAP, Barrier::Auto, Reach::Ring);
    fake.run(|job| {
        if job.my_pe() == 1 {
            return;
        }
        fake.hold.store(true, Ordering::Relaxed);
        let mut into = [0u64; 100];
        std::thread::scope(|s| {
            let reader = s.spawn(|| {
                let blocks = Strided { count: 100, block: 8, to_step: 8, from_step: 160 };
                // SAFETY: 100 words that outlive the job.
                unsafe { job.ctx().get_strided(Class::Get, 1, into.as_mut_ptr().cast(), at(job, 0), blocks) }
            });
            fake.set_error(0, Fault::Unreachable, 1);
            fake.set_reach(0, 1, Reach::Unreachable);
            let e = reader.join().unwrap().unwrap_err();
            assert!(is_unreachable(&e, 1), "{e}");
        });
    });
}

#[test]
fn atomics_are_applied_once_each() {
    let fake = Fake::start(3, HEAP, Barrier::Auto, Reach::Ring);
    fake.run(|job| {
        for i in 0..300u64 {
            let fetch = i % 3 == 0;
            job.ctx()
                .amo(Class::Amo, 0, at(job, 0), Amo { op: AmoOp::Add, width: 8, operand: 1, comparand: 0, fetch })
                .unwrap();
            job.ctx()
                .amo(
                    Class::Amo,
                    0,
                    at(job, 8),
                    Amo { op: AmoOp::Add, width: 4, operand: u64::MAX, comparand: 0, fetch: false },
                )
                .unwrap();
        }
        job.ctx().quiet().unwrap();
        job.barrier(false).unwrap();
        let fetch = |o, width| {
            job.ctx()
                .amo(Class::Amo, 0, at(job, o), Amo { op: AmoOp::Fetch, width, operand: 0, comparand: 0, fetch: true })
                .unwrap()
        };
        assert_eq!(fetch(0, 8), 900);
        assert_eq!(fetch(8, 4), 0u32.wrapping_sub(900) as u64);
        assert_eq!(fetch(8, 8), 0u32.wrapping_sub(900) as u64, "a 4-byte atomic touches 4 bytes");
        let old = job
            .ctx()
            .amo(
                Class::Amo,
                0,
                at(job, 8),
                Amo { op: AmoOp::CompareSwap, width: 8, operand: 1, comparand: 77, fetch: true },
            )
            .unwrap();
        assert_ne!(old, 77);
        job.barrier(false).unwrap();
    });
}

#[test]
fn a_full_queue_waits_instead_of_losing_posts() {
    let fake = Fake::start(1, HEAP, Barrier::Auto, Reach::Ring);
    fake.run(|job| {
        fake.hold.store(true, Ordering::Relaxed);
        std::thread::scope(|s| {
            s.spawn(|| {
                for i in 0..3000u64 {
                    put(job, 0, 8 * i as usize, &i.to_le_bytes()).unwrap();
                }
                job.ctx().quiet().unwrap();
            });
            // The queue holds 1024: once it is full the poster waits for the adapter.
            job.wait(|| job.adapter().heads().unwrap().1 == 0, &|| "start".into()).unwrap();
            fake.hold.store(false, Ordering::Relaxed);
        });
        assert!((0..3000).all(|i| word(job, 8 * i).load(Ordering::Relaxed) == i as u64));
    });
}

#[test]
fn threads_share_a_context() {
    let fake = Fake::start(2, HEAP, Barrier::Auto, Reach::Ring);
    fake.run(|job| {
        let peer = 1 - job.my_pe();
        std::thread::scope(|s| {
            for t in 0..4usize {
                s.spawn(move || {
                    for i in 0..200 {
                        let data = pattern(1 + (i * 37) % 700, t);
                        put(job, peer, t << 16, &data).unwrap();
                        job.ctx().quiet().unwrap();
                        assert_eq!(get(job, peer, t << 16, data.len()).unwrap(), data);
                        job.ctx()
                            .amo(
                                Class::Amo,
                                peer,
                                at(job, 1 << 20),
                                Amo { op: AmoOp::Add, width: 8, operand: 1, comparand: 0, fetch: i % 2 == 0 },
                            )
                            .unwrap();
                    }
                });
            }
        });
        job.ctx().quiet().unwrap();
        job.barrier(false).unwrap();
        assert_eq!(word(job, 1 << 20).load(Ordering::Relaxed), 800);
    });
}

#[test]
fn barriers_of_every_family_hold_everyone_back() {
    use Barrier::*;
    for (family, reach) in [
        (Multiphase, Reach::Ring),
        (Hypercube, Reach::Ring),
        (Counter, Reach::Direct),
        (Counter, Reach::Ring),
        (Dissemination, Reach::Direct),
        (Dissemination, Reach::Ring),
        (Auto, Reach::Direct),
    ] {
        let fake = Fake::start(5, HEAP, family, reach);
        let entered = AtomicU64::new(0);
        fake.run(|job| {
            for round in 1..=40u64 {
                put(job, (job.my_pe() + 1) % 5, 0, &round.to_le_bytes()).unwrap();
                entered.fetch_add(1, Ordering::SeqCst);
                job.barrier(round % 2 == 0).unwrap();
                assert!(entered.load(Ordering::SeqCst) >= 5 * round, "{family:?} over {reach:?}, round {round}");
                assert!(word(job, 0).load(Ordering::Relaxed) >= round, "a put before the barrier is here after it");
                job.barrier(true).unwrap();
            }
        });
        let posted = fake.taken(Op::Barrier);
        assert_eq!(posted != 0, family.by_adapter(), "{family:?} over {reach:?} posted {posted} barriers");
    }
}

#[test]
fn a_mixed_job_is_quiet_before_it_arrives() {
    let fake = Fake::start_mixed(2, HEAP, Barrier::Auto, vec![Reach::Direct, Reach::Ring]);
    fake.run(|job| {
        for round in 1..50u64 {
            for pe in 0..2 {
                put(job, pe, 8 * job.my_pe(), &round.to_le_bytes()).unwrap();
            }
            job.barrier(false).unwrap();
            assert!((0..2).all(|i| word(job, 8 * i).load(Ordering::Relaxed) >= round));
            job.barrier(false).unwrap();
        }
    });
}

#[test]
fn trees_reduce_and_broadcast_more_than_16_packets() {
    let fake = Fake::start(3, HEAP, Barrier::Auto, Reach::Ring);
    fake.run(|job| {
        let me = job.my_pe();
        if me == 0 {
            assert_eq!(job.tree_open(0, &[0, 1, 2]).unwrap(), 0);
        }
        job.barrier(false).unwrap();
        let tree = job.tree(0);
        for n in [1usize, 5, 32, 33, 1000, 3000] {
            let mine: Vec<i64> = (0..n as i64).map(|i| i * (me as i64 + 1) - 7).collect();
            let want: Vec<i64> = (0..n as i64).map(|i| i * 6 - 21).collect();
            assert_eq!(tree.all_reduce(ReduceOp::Sum, &mine).unwrap(), want, "{n} elements");
        }
        let low: Vec<u32> = vec![7 + me as u32, u32::MAX - me as u32];
        assert_eq!(tree.all_reduce(ReduceOp::Min, &low).unwrap(), [7, u32::MAX - 2]);
        assert_eq!(tree.all_reduce(ReduceOp::Max, &[-(me as i32)]).unwrap(), [0]);
        // Results that come to one PE only: the others learn of them through the driver's own packets.
        for i in 0..100u64 {
            let to = (i % 2) as usize;
            let sum = tree.reduce(ReduceOp::Sum, to, &[i, me as u64]).unwrap();
            let want: &[u64] = if me == to { &[3 * i, 3] } else { &[] };
            assert_eq!(sum, want);
        }
        let pending: Vec<_> =
            (0..10).map(|i| tree.all_reduce_nb(ReduceOp::Sum, &[i as u64 + me as u64]).unwrap()).collect();
        for (i, p) in pending.into_iter().enumerate().rev() {
            assert_eq!(p.wait().unwrap(), [3 * i as u64 + 3]);
        }
        for (round, from) in [0usize, 2, 1, 1, 0].into_iter().enumerate() {
            let data = pattern(2000 + round, from);
            // SAFETY: `data` is a live slice.
            unsafe { tree.broadcast(from, at(job, round * 4096), data.as_ptr(), data.len()).unwrap() };
            // SAFETY: this PE's own heap; nobody broadcasts there again.
            let got = unsafe { std::slice::from_raw_parts(job.heap().add(round * 4096), data.len()) };
            assert_eq!(got, data, "broadcast {round} from PE {from}");
        }
        job.barrier(false).unwrap();
        job.tree_close(0).unwrap();
    });
}

#[test]
fn a_handle_passes_through_the_observable_states() {
    let fake = Fake::start(2, HEAP, Barrier::Auto, Reach::Ring);
    fake.run(|job| {
        let adapter = job.adapter();
        let peer = 1 - job.my_pe();
        if job.my_pe() == 0 {
            let held = fake.hold.swap(true, Ordering::SeqCst);
            assert!(!held);
            let bytes = packet::write(job.pe_entry(peer), at(job, 0), b"a packet").unwrap();
            let write = adapter.inject(peer, &bytes).unwrap();
            fake.hold.store(false, Ordering::SeqCst);
            write.wait_for(adapter, OpState::Injected).unwrap();
            assert_eq!(write.state(adapter), OpState::Injected, "nothing acknowledges a write");
            adapter.flush(peer).unwrap().wait(adapter).unwrap();
            assert_eq!(write.state(adapter), OpState::Complete);
            let add = adapter.post_atomic(peer, at(job, 64), AmoOp::Add, [5, 0], 8, true).unwrap();
            assert_eq!(add.wait(adapter).unwrap(), 0);
            assert!(write.wait(adapter).is_err(), "a write has no answer to wait for");
        }
        job.barrier(false).unwrap();
        if job.my_pe() == 1 {
            assert_eq!(word(job, 0).load(Ordering::Relaxed), u64::from_le_bytes(*b"a packet"));
            assert_eq!(word(job, 64).load(Ordering::Relaxed), 5);
        }
        for bar in adapter.bars().unwrap() {
            // SAFETY: a mapped window starts with at least one aligned word; it is only read.
            let first = unsafe { (bar.base as *const u64).read_volatile() };
            let headed = bar.name.ends_with("page");
            assert!(bar.len >= 4096 && (!headed || first.to_le_bytes().starts_with(&angara_abi::MAGIC)), "{bar:?}");
        }
        adapter.csr_write(angara_abi::csr::SCRATCH, 0x1234).unwrap();
        assert_eq!(adapter.csr_read(angara_abi::csr::SCRATCH).unwrap(), 0x1234);
        assert!(matches!(adapter.csr_write(angara_abi::csr::NODE, 1), Err(Error::Invalid(_))));
        assert!(adapter.csr_read(3).is_err());
    });
}

#[test]
fn failures_name_the_target_the_post_and_the_wait() {
    let fake = Fake::start(2, HEAP, Barrier::Auto, Reach::Ring);
    fake.run(|job| {
        if job.my_pe() != 0 {
            return;
        }
        job.wait(|| job.pe_entry(1).seat.taken(), &|| "the other PE".into()).unwrap();
        fake.set_reach(0, 1, Reach::Unreachable);
        let e = put(job, 1, 0, &[1; 8]).unwrap_err();
        assert!(is_unreachable(&e, 1) && e.to_string().contains("node 1"), "{e}");
        fake.set_reach(0, 1, Reach::Ring);
        put(job, 1, 0, &[1; 300]).unwrap();
        fake.set_error(0, Fault::BadRange, 1);
        let e = put(job, 1, 0, &[1; 8]).unwrap_err();
        assert!(e.to_string().contains("post 1: put of 300 bytes, PE 1"), "{e}");
        let e = job.wait(|| false, &|| "nothing".into()).unwrap_err();
        assert!(matches!(e, Error::Channel { fault: Fault::BadRange, .. }), "{e}");
        job.abort(3, "enough", false);
        assert_eq!(fake.aborted(), Some((3, "enough".into())));
    });
}

#[test]
fn waits_end_with_the_job_and_with_the_daemon() {
    let fake = Fake::start(1, HEAP, Barrier::Auto, Reach::Direct);
    fake.run(|job| {
        fake.end_job();
        assert!(matches!(job.wait(|| false, &|| "never".into()), Err(Error::JobEnded)));
    });
    let dying = Fake::start(1, HEAP, Barrier::Auto, Reach::Ring);
    dying.run(|job| {
        dying.die();
        let e = job.wait(|| false, &|| "never".into()).unwrap_err();
        assert!(matches!(e, Error::Daemon(_)), "{e}");
    });
    let none = Job::attach(&fake.launch(0), &[]);
    assert!(matches!(none, Err(Error::Connect { .. })));
}
