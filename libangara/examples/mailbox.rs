//! Mailboxes, measured: half a round trip and messages a second between PE 0 and PE 1, beside what it takes to hand one
//! cache line to and fro.
//!
//! ```text
//! angara run -n 2 [--path ring] target/release/examples/mailbox
//! ```

use angara::mailbox::{Mailbox, Peer, SendError};
use angara::{Job, Result};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;

fn send(mailbox: &mut Mailbox, to: Peer, data: &[u8]) -> Result<()> {
    loop {
        match mailbox.try_send(to, &[IoSlice::new(data)]) {
            Ok(()) => return Ok(()),
            Err(SendError::Full) => drop(mailbox.wait(Duration::from_secs(1))?),
            Err(SendError::Job(error)) => return Err(error),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Takes N messages and returns the bytes of them all.
fn take(mailbox: &mut Mailbox, count: usize) -> Result<usize> {
    let (mut done, mut bytes) = (0, 0);
    let mut to = vec![0; mailbox.message_max()];
    let mut vain = 0;
    while done < count {
        let got = mailbox.receive(count - done, &mut |_, message| {
            message.copy(0, &mut to[..message.len()]);
            bytes += message.len();
        })?;
        done += got;
        vain = if got == 0 { vain + 1 } else { 0 };
        if vain > 50 {
            mailbox.wait(Duration::from_secs(1))?;
        }
    }
    Ok(bytes)
}

/// Nanoseconds of half a round trip.
fn ping(mailbox: &mut Mailbox, len: usize, count: usize) -> Result<f64> {
    let me = mailbox.me().seat as usize;
    let (peer, data) = (mailbox.peer(1 - me), vec![7; len]);
    mailbox.job().barrier(false)?;
    let start = Instant::now();
    for _ in 0..count {
        if me == 0 {
            send(mailbox, peer, &data)?;
        }
        assert_eq!(take(mailbox, 1)?, len);
        if me == 1 {
            send(mailbox, peer, &data)?;
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64 / 2.0)
}

/// Nanoseconds a message, from 0 to 1, until the last has been taken.
fn stream(mailbox: &mut Mailbox, len: usize, count: usize) -> Result<f64> {
    let me = mailbox.me().seat as usize;
    let (peer, data) = (mailbox.peer(1 - me), vec![7; len]);
    mailbox.job().barrier(false)?;
    let start = Instant::now();
    if me == 0 {
        for _ in 0..count {
            send(mailbox, peer, &data)?;
        }
        take(mailbox, 1)?;
    } else {
        assert_eq!(take(mailbox, count)?, len * count);
        send(mailbox, peer, &[])?;
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

/// Nanoseconds until a word that one PE stores is seen by the other, if plain stores reach it.
fn floor(job: &Job, offset: usize, count: usize) -> Result<Option<f64>> {
    let at = job.locate(job.heap().wrapping_add(offset), 8).expect("inside the heap");
    let (me, there) = (job.my_pe(), job.peer(at, 1 - job.my_pe()));
    let Some(there) = there else { return Ok(None) };
    // SAFETY: aligned words of the two heaps, used for nothing else.
    let [own, there] = [job.local(at), there].map(|p| unsafe { AtomicU64::from_ptr(p.cast()) });
    let base = own.load(Ordering::Relaxed);
    job.barrier(false)?;
    let start = Instant::now();
    for i in 1..=count as u64 {
        if me == 0 {
            there.store(base + i, Ordering::Release);
        }
        let mut looks = 0u64;
        while own.load(Ordering::Acquire) != base + i {
            looks += 1;
            if looks.is_multiple_of(1 << 16) {
                std::thread::yield_now();
            }
        }
        if me == 1 {
            there.store(base + i, Ordering::Release);
        }
    }
    Ok(Some(start.elapsed().as_nanos() as f64 / count as f64 / 2.0))
}

fn main() -> Result<()> {
    let job = Arc::new(Job::from_env(1 << 20)?);
    let bytes = Mailbox::bytes(job.n_pes());
    let at = job.locate(job.heap(), bytes + 64).expect("angara run --heap 1M");
    assert!(job.n_pes() == 2, "angara run -n 2");
    let mut mailbox = Mailbox::open(job.clone(), at)?;
    let near = job.peer(at, 1 - job.my_pe()).is_some();
    let count = if near { 200_000 } else { 5_000 };
    let say = |what: &str, mut ns: Vec<f64>| {
        ns.sort_by(f64::total_cmp);
        let (least, median) = (ns[0], ns[ns.len() / 2]);
        if job.my_pe() == 0 {
            println!("{what:<34} {median:>9.1} ns median, {least:>9.1} ns least, {:>7.2} M/s at most", 1e3 / least);
        }
    };
    if near {
        let all = (0..ROUNDS).map(|_| floor(&job, bytes, count)).collect::<Result<Vec<_>>>()?;
        say("a cache line to and fro, half", all.into_iter().flatten().collect());
    }
    for len in [8, 240, 1024, 16_384] {
        let count = if len > 1000 { count / 10 } else { count };
        let name = format!("{len} B, half a round trip");
        say(&name, (0..ROUNDS).map(|_| ping(&mut mailbox, len, count)).collect::<Result<_>>()?);
        let name = format!("{len} B, one after another");
        say(&name, (0..ROUNDS).map(|_| stream(&mut mailbox, len, 5 * count)).collect::<Result<_>>()?);
    }
    job.barrier(false)
}
