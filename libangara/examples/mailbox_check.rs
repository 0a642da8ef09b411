//! Everything mailboxes promise, checked on whatever network this is started on: order, contents, little room, threads,
//! PEs that leave.
//!
//! ```text
//! angara run -n 4 --path ring target/release/examples/mailbox_check [MESSAGES]
//! ```

use angara::angara_abi::random::SplitMix;
use angara::mailbox::{Mailbox, Message, Peer, SendError};
use angara::{Job, Result};
use std::io::IoSlice;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(100);

fn bytes(from: u32, number: usize) -> Vec<u8> {
    let mut random = SplitMix((u64::from(from) << 32) + number as u64);
    let len = match random.below(20) {
        0 => random.below(4097),
        1..5 => random.below(500),
        _ => random.below(33),
    };
    let first = random.draw() as usize;
    (0..len as usize).map(|i| (first + i * 7) as u8).collect()
}

/// Sends, unless the receiver's ring is full.
fn sent(mailbox: &mut Mailbox, to: Peer, data: &[u8]) -> Result<bool> {
    match mailbox.try_send(to, &[IoSlice::new(data)]) {
        Ok(()) => Ok(true),
        Err(SendError::Full) => Ok(false),
        Err(SendError::Job(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

fn whole(message: &Message<'_>) -> Vec<u8> {
    let mut all = vec![0; message.len()];
    message.copy(0, &mut all);
    all
}

/// Everybody sends `count` messages of any length to everybody.
fn all_to_all(mailbox: &mut Mailbox, count: usize) -> Result<()> {
    let n = mailbox.job().n_pes();
    let peers: Vec<Peer> = (0..n).map(|pe| mailbox.peer(pe)).collect();
    let (mut out, mut came) = (vec![0; n], vec![0; n]);
    let me = mailbox.me().seat;
    while out.iter().chain(&came).any(|done| *done < count) {
        let mut stuck = true;
        for pe in (0..n).map(|i| (i + me as usize) % n) {
            while out[pe] < count && sent(mailbox, peers[pe], &bytes(me, out[pe]))? {
                out[pe] += 1;
                stuck = false;
            }
        }
        let got = mailbox.receive(100, &mut |from, message| {
            let number = &mut came[from.seat as usize];
            assert_eq!(from, peers[from.seat as usize]);
            assert!(whole(message) == bytes(from.seat, *number), "message {number} from {from:?}");
            *number += 1;
        })?;
        if stuck && got == 0 {
            assert!(mailbox.wait(PATIENCE)?, "sent: {}; received: {}", progress(&out, count), progress(&came, count));
        }
    }
    mailbox.job().barrier(false)
}

/// How far messages to or from every PE have come, in a line whatever the number of PEs.
fn progress(done: &[usize], count: usize) -> String {
    let unfinished: Vec<usize> = (0..done.len()).filter(|pe| done[*pe] < count).collect();
    let first = unfinished.first().map(|pe| format!(", first PE {pe} with {}", done[*pe])).unwrap_or_default();
    format!("all {count} with {} of {} PEs{first}", done.len() - unfinished.len(), done.len())
}

/// The right neighbour.
fn right(mailbox: &Mailbox) -> Peer {
    mailbox.peer((mailbox.me().seat as usize + 1) % mailbox.job().n_pes())
}

/// Numbers to the right neighbour, which is slow now and then, so that rings fill up.
fn numbers(mailbox: &mut Mailbox, count: u64) -> Result<()> {
    let (to, mut out, mut next) = (right(mailbox), 0u64, 0);
    while out < count || next < count {
        let before = out;
        while out < count && sent(mailbox, to, &out.to_le_bytes())? {
            out += 1;
        }
        let got = mailbox.receive(64, &mut |_, message| {
            assert_eq!(whole(message), u64::to_le_bytes(next));
            next += 1;
        })?;
        if got == 0 && before == out {
            assert!(mailbox.wait(PATIENCE)?, "{out} sent, {next} received of {count}");
        }
        if got > 0 && next / 50_000 != (next - got as u64) / 50_000 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    mailbox.job().barrier(false)
}

/// The same where one thread sends and another receives, under a lock.
fn threads(mailbox: &mut Mailbox, count: u64) -> Result<()> {
    let (to, job) = (right(mailbox), mailbox.job().clone());
    let mailbox = Mutex::new(mailbox);
    let lock = || mailbox.lock().expect("no thread has panicked");
    std::thread::scope(|s| {
        let sender = s.spawn(|| -> Result<()> {
            let mut out = 0u64;
            while out < count {
                let until = (out + 50).min(count);
                let mut mailbox = lock();
                while out < until && sent(&mut mailbox, to, &out.to_le_bytes())? {
                    out += 1;
                }
                drop(mailbox);
                // The other thread's turn, and the daemon's.
                std::thread::yield_now();
            }
            Ok(())
        });
        let mut next = 0;
        while next < count {
            let got = lock().receive(64, &mut |_, message| {
                assert_eq!(whole(message), u64::to_le_bytes(next));
                next += 1;
            })?;
            if got == 0 {
                std::thread::yield_now();
            }
        }
        sender.join().expect("the sender")
    })?;
    job.barrier(false)
}

/// The last PE leaves with a word to each of the others. Where there is one only, nobody does.
fn farewell(mut mailbox: Mailbox) -> Result<()> {
    let (me, n) = (mailbox.me(), mailbox.job().n_pes());
    let last = mailbox.peer(n - 1);
    if n == 1 {
        return Ok(());
    }
    if me == last {
        for pe in 0..n - 1 {
            let to = mailbox.peer(pe);
            assert!(sent(&mut mailbox, to, b"farewell")?);
        }
        return mailbox.job().ctx().quiet();
    }
    let mut heard = false;
    while !heard {
        mailbox.wait(PATIENCE)?;
        mailbox.receive(1, &mut |from, message| {
            assert_eq!((from, whole(message)), (last, b"farewell".to_vec()));
            heard = true;
        })?;
    }
    while mailbox.is_there(last) {
        mailbox.wait(Duration::from_millis(5))?;
    }
    assert!(matches!(mailbox.try_send(last, &[]), Err(SendError::Gone)));
    Ok(())
}

fn main() -> Result<()> {
    let count = std::env::args().nth(1).map_or(20_000, |n| n.parse().expect("a number of messages"));
    let mut job = Job::from_env(2 << 20)?;
    job.with_threads();
    let job = Arc::new(job);
    let at = job.locate(job.heap(), Mailbox::bytes(job.n_pes())).expect("angara run --heap");
    let mut mailbox = Mailbox::open(job.clone(), at)?;
    all_to_all(&mut mailbox, (count as usize / job.n_pes()).min(2000))?;
    numbers(&mut mailbox, count)?;
    threads(&mut mailbox, count / 10)?;
    farewell(mailbox)?;
    println!("PE {}: ok", job.my_pe());
    Ok(())
}
