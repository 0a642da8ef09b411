//! Time per operation from PE 0 to its neighbour, median of seven rounds.
//!
//! ```text
//! cargo bench -p angara                              one PE, direct
//! angara run -n 2 [--path ring] target/release/deps/ops-… two PEs
//! ```

use angara::{Amo, AmoOp, Class, Job, Place};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 7;
/// Aim for this long per round.
const ROUND_NS: f64 = 20e6;

/// Nanoseconds per call of `op`.
fn time(mut op: impl FnMut()) -> f64 {
    let mut calls = 1u64;
    loop {
        let start = Instant::now();
        (0..calls).for_each(|_| op());
        let ns = start.elapsed().as_nanos() as f64;
        if ns > ROUND_NS / 10.0 {
            calls = ((calls as f64 * ROUND_NS / ns) as u64).max(1);
            break;
        }
        calls *= 4;
    }
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..calls).for_each(|_| op());
            start.elapsed().as_nanos() as f64 / calls as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn small(job: &Job, pe: usize, place: Place) {
    let ctx = job.ctx();
    let value = 7u64;
    let src = (&raw const value).cast::<u8>();
    let mut back = 0u64;
    let dst = (&raw mut back).cast::<u8>();
    let show = |what: &str, ns: f64| println!("{what:<34} {ns:>10.1} ns");
    // SAFETY: `value` is a live word, `place` is in the heap.
    let put = |len: usize| unsafe { ctx.put(Class::Put, black_box(pe), black_box(place), src, len) }.expect("put");
    // SAFETY: `back` is a live word, `place` is in the heap.
    let get = |dst, len| unsafe { ctx.get(Class::Get, black_box(pe), dst, black_box(place), len) }.expect("get");
    let amo = |op, fetch| {
        black_box(
            ctx.amo(Class::Amo, black_box(pe), place, Amo { op, width: 8, operand: 1, comparand: 0, fetch })
                .expect("amo"),
        );
    };
    show("put 8 B", time(|| put(8)));
    show("put 4 B", time(|| put(4)));
    let p = job.heap();
    show(
        "locate + put 8 B",
        time(|| {
            let place = job.locate(black_box(p), 8).expect("heap");
            // SAFETY: `back` is a live word, `place` is in the heap.
            unsafe { ctx.put(Class::Put, black_box(pe), place, src, 8) }.expect("put");
        }),
    );
    ctx.quiet().expect("quiet");
    show(
        "put 8 B + quiet",
        time(|| {
            put(8);
            ctx.quiet().expect("quiet");
        }),
    );
    show("get 8 B", time(|| get(black_box(dst), 8)));
    show("atomic add", time(|| amo(AmoOp::Add, false)));
    show("atomic fetch-add", time(|| amo(AmoOp::Add, true)));
    show("atomic fetch", time(|| amo(AmoOp::Fetch, true)));
    ctx.quiet().expect("quiet");
    show("fence", time(|| ctx.fence().expect("fence")));
}

fn large(job: &Job, pe: usize, place: Place) {
    for shift in [8, 10, 12, 14, 16, 18, 20, 22, 24] {
        let len = 1usize << shift;
        let data = vec![1u8; len];
        let mut back = vec![0u8; len];
        // SAFETY: both vectors hold `len` bytes; the heap holds 16 MiB.
        let put = time(|| unsafe {
            job.ctx().put(Class::Put, pe, place, data.as_ptr(), len).expect("put");
            job.ctx().quiet().expect("quiet");
        });
        // SAFETY: both vectors hold `len` bytes; the heap holds 16 MiB.
        let get = time(|| unsafe { job.ctx().get(Class::Get, pe, back.as_mut_ptr(), place, len).expect("get") });
        println!("{len:>10} B: put+quiet {:>8.2} GB/s, get {:>8.2} GB/s", len as f64 / put, len as f64 / get);
    }
}

fn main() -> angara::Result<()> {
    let job = Job::from_env(32 << 20)?;
    let (me, n) = (job.my_pe(), job.n_pes());
    let place = job.locate(job.heap(), 16 << 20).expect("angara run --heap 32M");
    if me == 0 {
        let pe = 1 % n;
        println!("{n} PEs, target PE {pe}, {:?}", job.ctx().reach(pe));
        small(&job, pe, place);
        large(&job, pe, place);
    }
    job.barrier(false)?;
    let start = Instant::now();
    let times = 2000;
    for _ in 0..times {
        job.barrier(false)?;
    }
    if me == 0 {
        println!("barrier of {n}: {:.2} us", start.elapsed().as_nanos() as f64 / 1e3 / times as f64);
    }
    Ok(())
}
