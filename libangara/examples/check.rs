//! Everything this library promises, checked on whatever network it is started on: every length,
//! ordering, atomics, barriers, trees, states, threads.
//!
//! ```text
//! angara run -n 8 --torus 2x2x2 --path ring target/release/examples/check
//! ```

use angara::driver::{OpState, packet};
use angara::tree::ReduceOp;
use angara::{Amo, AmoOp, Class, Job, Place, Result};
use std::sync::atomic::{AtomicU64, Ordering};

fn place(job: &Job, offset: usize) -> Place {
    job.locate(job.heap().wrapping_add(offset), 1).expect("inside the heap")
}

fn word(job: &Job, offset: usize) -> &AtomicU64 {
    // SAFETY: an aligned word of this PE's heap, which lives as long as the job.
    unsafe { AtomicU64::from_ptr(job.heap().wrapping_add(offset).cast()) }
}

fn mine(job: &Job, offset: usize, len: usize) -> Vec<u8> {
    // SAFETY: this PE's own heap, which the caller knows to be quiescent there.
    unsafe { std::slice::from_raw_parts(job.heap().wrapping_add(offset), len) }.to_vec()
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 17 + (i >> 8)) as u8).collect()
}

fn put(job: &Job, pe: usize, offset: usize, data: &[u8]) -> Result<()> {
    // SAFETY: `data` is a live slice of its own length.
    unsafe { job.ctx().put(Class::Put, pe, place(job, offset), data.as_ptr(), data.len()) }
}

fn get(job: &Job, pe: usize, offset: usize, len: usize) -> Result<Vec<u8>> {
    let mut back = vec![0; len];
    // SAFETY: `back` holds `len` bytes.
    unsafe { job.ctx().get(Class::Get, pe, back.as_mut_ptr(), place(job, offset), len)? };
    Ok(back)
}

/// Each PE writes to each other and reads it back; then everyone looks at what arrived.
fn lengths(job: &Job) -> Result<()> {
    const ROOM: usize = 80_000;
    let (me, n) = (job.my_pe(), job.n_pes());
    for len in [1, 2, 7, 8, 9, 255, 256, 257, 5000, 70_001] {
        let peers: Vec<usize> = [1, n / 2, n - 1].into_iter().map(|d| (me + d) % n).collect();
        for pe in &peers {
            put(job, *pe, me % 16 * ROOM + 3, &pattern(len, me))?;
        }
        job.ctx().quiet()?;
        for pe in &peers {
            assert_eq!(get(job, *pe, me % 16 * ROOM + 3, len)?, pattern(len, me), "{len} bytes at PE {pe}");
        }
        job.barrier(false)?;
        let left = (me + n - 1) % n;
        assert_eq!(mine(job, left % 16 * ROOM + 3, len), pattern(len, left), "{len} bytes from PE {left}");
        job.barrier(true)?;
    }
    Ok(())
}

/// Bulk transfers between symmetric memory, without staging.
fn bulk(job: &Job) -> Result<()> {
    let (me, n) = (job.my_pe(), job.n_pes());
    let len = 300_000;
    let right = (me + 1) % n;
    // SAFETY: three disjoint parts of the own heap, quiescent between barriers.
    unsafe {
        std::ptr::copy_nonoverlapping(pattern(len, me).as_ptr(), job.heap(), len);
        job.ctx().put_nbi(Class::Put, right, place(job, len), job.heap(), len)?;
        job.ctx().quiet_pe(right)?;
        job.ctx().get_nbi(Class::Get, right, job.heap().add(2 * len), place(job, len), len)?;
    }
    job.ctx().quiet()?;
    assert_eq!(mine(job, 2 * len, len), pattern(len, me), "there and back");
    job.barrier(false)
}

/// Data, fence, flag: whoever sees the flag sees the data, whatever their lengths.
fn fence(job: &Job) -> Result<()> {
    let (me, n) = (job.my_pe(), job.n_pes());
    let right = (me + 1) % n;
    for round in 1..=60u64 {
        let len = [8usize, 40, 256, 300, 4096, 60_000][round as usize % 6];
        put(job, right, 4096, &pattern(len, round as usize))?;
        job.ctx().fence()?;
        job.ctx().amo(
            Class::Amo,
            right,
            place(job, 0),
            Amo { op: AmoOp::Swap, width: 8, operand: round, comparand: 0, fetch: false },
        )?;
        let flag = word(job, 0);
        job.wait(|| flag.load(Ordering::Acquire) >= round, &|| format!("flag of round {round}"))?;
        assert_eq!(mine(job, 4096, len), pattern(len, round as usize), "round {round}");
        job.ctx().quiet()?;
        job.barrier(true)?;
    }
    Ok(())
}

fn atomics(job: &Job) -> Result<()> {
    let n = job.n_pes() as u64;
    let rounds = 40;
    let amo = |at, op, v, c, fetch| {
        job.ctx().amo(Class::Amo, 0, place(job, at), Amo { op, width: 8, operand: v, comparand: c, fetch })
    };
    let mut tickets = Vec::new();
    for i in 0..rounds {
        tickets.push(amo(0, AmoOp::Add, 1, 0, true)?);
        amo(8, AmoOp::Add, 2, 0, false)?;
        amo(16, AmoOp::Xor, 1 << (i % 8), 0, false)?;
    }
    assert!(tickets.windows(2).all(|t| t[0] < t[1]), "tickets of one PE rise");
    // A spin lock by compare-and-swap around a read-modify-write that is not atomic itself.
    for _ in 0..3 {
        while amo(24, AmoOp::CompareSwap, 1, 0, true)? != 0 {}
        let sum = u64::from_le_bytes(get(job, 0, 32, 8)?.try_into().expect("8 bytes"));
        put(job, 0, 32, &(sum + 1).to_le_bytes())?;
        job.ctx().quiet()?;
        amo(24, AmoOp::Swap, 0, 0, false)?;
    }
    job.ctx().quiet()?;
    job.barrier(false)?;
    assert_eq!(amo(0, AmoOp::Fetch, 0, 0, true)?, rounds * n);
    assert_eq!(amo(8, AmoOp::Fetch, 0, 0, true)?, 2 * rounds * n);
    let odd = if n % 2 == 1 { 0xff } else { 0 };
    assert_eq!(amo(16, AmoOp::Fetch, 0, 0, true)?, odd, "each of 8 bits was flipped five times by every PE");
    assert_eq!(amo(32, AmoOp::Fetch, 0, 0, true)?, 3 * n, "the lock held");
    job.barrier(false)
}

/// After a barrier everything sent before by anyone is here, also without a quiet by the sender.
fn barriers(job: &Job) -> Result<()> {
    let (me, n) = (job.my_pe(), job.n_pes());
    for round in 1..=50u64 {
        for d in 1..n.min(4) {
            put(job, (me + d) % n, 8 * d, &round.to_le_bytes())?;
        }
        job.barrier(round % 2 == 0)?;
        for d in 1..n.min(4) {
            assert_eq!(word(job, 8 * d).load(Ordering::Acquire), round, "from {d} PEs to the left");
        }
        job.barrier(true)?;
    }
    Ok(())
}

fn trees(job: &Job) -> Result<()> {
    let (me, n) = (job.my_pe(), job.n_pes());
    let all: Vec<usize> = (0..n).collect();
    let cell = place(job, 0);
    if me == 0 {
        let id = job.tree_open(n / 2, &all)? as u64;
        for pe in 0..n {
            put(job, pe, 0, &id.to_le_bytes())?;
        }
        job.ctx().quiet()?;
    }
    job.barrier(false)?;
    let id = job.ctx().amo(
        Class::Amo,
        me,
        cell,
        Amo { op: AmoOp::Fetch, width: 8, operand: 0, comparand: 0, fetch: true },
    )? as u8;
    let tree = job.tree(id);
    let total = (n * (n - 1) / 2) as i64;
    for len in [1usize, 32, 33, 700, 2000] {
        let values: Vec<i64> = (0..len as i64).map(|i| i - me as i64).collect();
        let want: Vec<i64> = (0..len as i64).map(|i| i * n as i64 - total).collect();
        assert_eq!(tree.all_reduce(ReduceOp::Sum, &values)?, want, "{len} elements");
    }
    assert_eq!(tree.all_reduce(ReduceOp::Max, &[me as u32, u32::MAX - me as u32])?, [n as u32 - 1, u32::MAX]);
    assert_eq!(tree.all_reduce(ReduceOp::Min, &[-(me as i32), 5])?, [1 - n as i32, 5]);
    for i in 0..60u64 {
        let to = i as usize % n;
        let got = tree.reduce(ReduceOp::Sum, to, &[i, 1])?;
        assert_eq!(got, if me == to { vec![i * n as u64, n as u64] } else { vec![] }, "reduction {i} to PE {to}");
    }
    let flying: Vec<_> = (0..12u64).map(|i| tree.all_reduce_nb(ReduceOp::Sum, &[i; 3])).collect::<Result<_>>()?;
    for (i, pending) in flying.into_iter().enumerate().rev() {
        assert_eq!(pending.wait()?, [i as u64 * n as u64; 3]);
    }
    for (round, from) in [0, n - 1, n / 2, n / 2, 0].into_iter().enumerate() {
        let data = pattern(1500 + round, from);
        // SAFETY: `data` is a live slice.
        unsafe { tree.broadcast(from, place(job, 4096 * (round + 1)), data.as_ptr(), data.len())? };
        assert_eq!(mine(job, 4096 * (round + 1), data.len()), data, "broadcast {round} from PE {from}");
    }
    job.barrier(false)?;
    job.tree_close(id)?;
    job.barrier(false)
}

/// The driver level: registers, a packet by hand, states.
fn driver(job: &Job) -> Result<()> {
    let (me, n) = (job.my_pe(), job.n_pes());
    let adapter = job.adapter();
    let entry = job.pe_entry(me);
    assert_eq!(adapter.csr_read(angara_abi::csr::NODE)?, entry.node as u64);
    assert_eq!(adapter.csr_read(angara_abi::csr::ID)? & 0xffff_ffff, angara_abi::csr::ID_VALUE);
    assert!(adapter.csr_write(angara_abi::csr::NODE, 7).is_err(), "a protected register");
    let right = (me + 1) % n;
    let text = format!("packet from PE {me:3}");
    let write = adapter.inject(right, &packet::write(job.pe_entry(right), place(job, 64), text.as_bytes())?)?;
    assert!(write.state(adapter) >= OpState::Called);
    write.wait_for(adapter, OpState::Injected)?;
    adapter.flush(right)?.wait(adapter)?;
    assert_eq!(write.state(adapter), OpState::Complete);
    let add = adapter.post_atomic(right, place(job, 128), AmoOp::Add, [me as u64 + 1, 0], 8, true)?;
    add.wait(adapter)?;
    job.barrier(false)?;
    let left = (me + n - 1) % n;
    assert_eq!(mine(job, 64, text.len()), format!("packet from PE {left:3}").as_bytes());
    assert_eq!(word(job, 128).load(Ordering::Acquire), left as u64 + 1);
    job.barrier(false)
}

fn threads(job: &Job) -> Result<()> {
    let right = (job.my_pe() + 1) % job.n_pes();
    std::thread::scope(|s| {
        let work = |t: usize| {
            move || -> Result<()> {
                for i in 0..25 {
                    let data = pattern(1 + (i * 97) % 900, t);
                    put(job, right, 4096 * (t + 1), &data)?;
                    job.ctx().quiet()?;
                    assert_eq!(get(job, right, 4096 * (t + 1), data.len())?, data);
                    job.ctx().amo(
                        Class::Amo,
                        right,
                        place(job, 0),
                        Amo { op: AmoOp::Add, width: 8, operand: 1, comparand: 0, fetch: i % 2 == 0 },
                    )?;
                }
                Ok(())
            }
        };
        let all: Vec<_> = (0..3).map(|t| s.spawn(work(t))).collect();
        all.into_iter().try_for_each(|t| t.join().expect("thread"))
    })?;
    job.ctx().quiet()?;
    job.barrier(false)?;
    assert_eq!(word(job, 0).load(Ordering::Acquire), 75);
    job.barrier(false)
}

fn main() -> Result<()> {
    let job = Job::from_env(4 << 20)?;
    let launched = job.adapter().heads().is_ok();
    type Check = fn(&Job) -> Result<()>;
    let mut checks: Vec<(&str, Check)> = vec![
        ("lengths", lengths),
        ("bulk", bulk),
        ("fence", fence),
        ("atomics", atomics),
        ("barriers", barriers),
        ("threads", threads),
    ];
    if launched {
        checks.push(("driver", driver));
    }
    // With several hosts, each PE reaches some others directly.
    if launched && job.profile().far {
        checks.push(("trees", trees));
    }
    for (name, check) in checks {
        // SAFETY: this PE's own heap; nobody sends before the barrier, and everything sent in the
        // check before has arrived.
        unsafe { std::ptr::write_bytes(job.heap(), 0, job.heap_len()) };
        job.barrier(false)?;
        check(&job).inspect_err(|e| eprintln!("PE {}: {name}: {e}", job.my_pe()))?;
    }
    job.barrier(false)?;
    if job.my_pe() == 0 {
        println!("{} PEs, {:?}: ok", job.n_pes(), job.ctx().reach(job.n_pes() - 1));
    }
    job.detach();
    Ok(())
}
