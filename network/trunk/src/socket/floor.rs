//! Speed of plain UDP through an engine on this machine: the least any trunk costs.
//!
//! Every figure is the median of many short intervals, so that those in which a thread had to wait for a processor do not
//! count. Two cores are used if there are two.
//!
//! [`Work::Sealed`] adds what a trunk of a daemon cannot leave out: the bytes are copied from memory that others may change,
//! sealed as trunks seal them, and at the other end opened and copied to where they belong.

use super::{Socket, SocketKind, open};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const ECHOES: u64 = 10_000;
/// Bytes of a tag.
const TAG: usize = 16;
/// Bytes under way, and to be sent.
const WINDOW: u64 = 512 << 10;
const TOTAL: u64 = 320 << 20;

/// Work on the bytes besides sending and receiving them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Nothing.
    None,
    /// Copying and sealing, opening and copying.
    Sealed,
}

/// [`Work`] at one end.
struct Worker {
    key: Option<LessSafeKey>,
    /// Memory that bytes are copied from or to.
    memory: Vec<u8>,
    at: usize,
}

/// More than the caches of a core keep.
const MEMORY: usize = 4 << 20;

impl Worker {
    fn new(work: Work) -> Worker {
        let sealed = work == Work::Sealed;
        let key = || LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16]).expect("16 bytes are an AES-128 key"));
        Worker { key: sealed.then(key), memory: vec![3; if sealed { MEMORY } else { 0 }], at: 0 }
    }

    /// Bytes a datagram of `len` has.
    fn sealed(&self, len: usize) -> usize {
        len + if self.key.is_some() { TAG } else { 0 }
    }

    fn place(&mut self, len: usize) -> &mut [u8] {
        if self.at + len > MEMORY {
            self.at = 0;
        }
        self.at += len;
        &mut self.memory[self.at - len..self.at]
    }

    /// Makes datagrams of `segment` bytes in `batch`, or one that says `head` if that is given.
    fn seal(&mut self, batch: &mut [u8], segment: usize, head: Option<u64>) {
        let Some(key) = self.key.take() else {
            batch.iter_mut().zip(head.into_iter().flat_map(u64::to_le_bytes)).for_each(|(to, from)| *to = from);
            return;
        };
        for datagram in batch.chunks_mut(segment) {
            let (body, tag) = datagram.split_at_mut(datagram.len() - TAG);
            match head {
                Some(head) => body.copy_from_slice(&head.to_le_bytes()),
                None => body.copy_from_slice(self.place(body.len())),
            }
            // Nobody shall keep a secret with this key.
            let nonce = Nonce::assume_unique_for_key([0; 12]);
            let sealed =
                key.seal_in_place_separate_tag(nonce, Aad::empty(), body).expect("far below the cipher's limit");
            tag.copy_from_slice(sealed.as_ref());
        }
        self.key = Some(key);
    }

    /// Returns what a datagram says, which is all of it or nothing.
    fn open<'d>(&mut self, datagram: &'d mut [u8]) -> &'d [u8] {
        let Some(key) = &self.key else { return datagram };
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let Ok(body) = key.open_in_place(nonce, Aad::empty(), datagram) else { return &[] };
        self.place(body.len()).copy_from_slice(body);
        body
    }
}

/// Lengths of intervals.
pub struct Samples {
    /// When the present one began.
    pub last: Instant,
    /// Seconds of each sample.
    seconds: Vec<f64>,
}

impl Samples {
    /// The first one begins.
    #[allow(clippy::new_without_default)] // a clock is read
    pub fn new() -> Samples {
        Samples { last: Instant::now(), seconds: Vec::new() }
    }

    /// One ends and the next begins.
    pub fn lap(&mut self) {
        self.seconds.push(self.last.elapsed().as_secs_f64());
        self.last = Instant::now();
    }

    /// Seconds.
    pub fn median(&mut self) -> f64 {
        self.seconds.sort_by(f64::total_cmp);
        self.seconds[self.seconds.len() / 2]
    }
}

/// Keeps the calling thread on a core.
pub fn bind_to(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    // On a machine with one core both share it.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// Two connected sockets on `address`, each with the address of the other.
pub fn pair(kind: SocketKind, address: IpAddr) -> io::Result<[(Box<dyn Socket>, SocketAddr); 2]> {
    let any = SocketAddr::new(address, 0);
    let (mut a, mut b) = (open(any, kind)?, open(any, kind)?);
    let (to_a, to_b) = (a.local_addr(), b.local_addr());
    a.connect(&[to_b])?;
    b.connect(&[to_a])?;
    Ok([(a, to_b), (b, to_a)])
}

/// Answers datagrams of 8 bytes, and every [`WINDOW`]` / 4` bytes of longer ones, with the bytes received so far.
fn serve(mut socket: Box<dyn Socket>, to: SocketAddr, work: Work, stop: &AtomicBool) {
    let (mut bytes, mut told) = (0u64, 0u64);
    let mut worker = Worker::new(work);
    let mut reply = vec![0; worker.sealed(8)];
    while !stop.load(Ordering::Relaxed) {
        let mut small = false;
        let got = socket.recv(&mut |d| {
            let d = worker.open(d);
            bytes += d.len() as u64;
            small |= d.len() == 8;
        });
        match got {
            Ok(0) => thread::yield_now(),
            Ok(_) if small || bytes - told >= WINDOW / 4 => {
                told = bytes;
                let len = reply.len();
                worker.seal(&mut reply, len, Some(bytes));
                // The client misses it.
                let _ = socket.send(to, &reply, len);
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// Waits for the next answer of the server.
fn answer(socket: &mut dyn Socket, worker: &mut Worker, known: &mut u64) -> io::Result<()> {
    let (before, since) = (*known, Instant::now());
    while *known == before {
        let got =
            socket.recv(&mut |d| *known = worker.open(d).first_chunk().map_or(*known, |b| u64::from_le_bytes(*b)))?;
        if got == 0 {
            thread::yield_now();
            if since.elapsed() > PATIENCE {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "a datagram was lost; the floor has no remedy"));
            }
        }
    }
    Ok(())
}

/// Runs `client` against a server on another core.
fn against_server(
    kind: SocketKind,
    address: IpAddr,
    work: Work,
    client: impl FnOnce(&mut dyn Socket, SocketAddr, Worker) -> io::Result<f64> + Send,
) -> io::Result<f64> {
    let [(mut socket, to), (server, back)] = pair(kind, address)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        thread::Builder::new().spawn_scoped(scope, || {
            bind_to(1);
            serve(server, back, work, &stop);
        })?;
        // On a thread of its own, too: the caller's affinity is not touched.
        let result = thread::Builder::new().spawn_scoped(scope, || {
            bind_to(0);
            client(&mut *socket, to, Worker::new(work))
        });
        let result =
            result.and_then(|started| started.join().unwrap_or_else(|_| Err(io::Error::other("the client panicked"))));
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Microseconds for a datagram and its echo, both sides polling.
pub fn round_trip(kind: SocketKind, address: IpAddr) -> io::Result<f64> {
    against_server(kind, address, Work::None, |socket, to, mut worker| {
        let (mut known, mut echoes) = (0, Samples::new());
        for _ in 0..ECHOES {
            socket.send(to, &[1; 8], 8)?;
            answer(socket, &mut worker, &mut known)?;
            echoes.lap();
        }
        Ok(echoes.median() * 1e6)
    })
}

/// Microseconds for the same on behalf of a third thread, which shares the client's core and speaks with it through
/// memory, as a program does with its daemon.
pub fn relayed(kind: SocketKind, address: IpAddr, work: Work) -> io::Result<f64> {
    against_server(kind, address, work, |socket, to, mut worker| {
        let (asked, answered) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            let program = thread::Builder::new().spawn_scoped(scope, || {
                let mut echoes = Samples::new();
                for i in 1..=ECHOES {
                    asked.store(i, Ordering::Release);
                    while answered.load(Ordering::Acquire) < i {
                        thread::yield_now();
                    }
                    echoes.lap();
                }
                echoes.median() * 1e6
            })?;
            let mut known = 0;
            let mut question = vec![0; worker.sealed(8)];
            let mut relay = || {
                for i in 1..=ECHOES {
                    while asked.load(Ordering::Acquire) < i {
                        thread::yield_now();
                    }
                    let len = question.len();
                    worker.seal(&mut question, len, Some(i));
                    socket.send(to, &question, len)?;
                    answer(socket, &mut worker, &mut known)?;
                    answered.store(i, Ordering::Release);
                }
                Ok(())
            };
            let done = relay();
            // Ends the program if the relay has failed.
            answered.store(u64::MAX, Ordering::Release);
            let median = program.join().map_err(|_| io::Error::other("the program panicked"))?;
            done.map(|()| median)
        })
    })
}

/// Bytes per nanosecond (GB/s) of batches of datagrams of `segment` bytes, counted by the receiver.
pub fn bandwidth(kind: SocketKind, address: IpAddr, segment: usize, work: Work) -> io::Result<f64> {
    against_server(kind, address, work, |socket, to, mut worker| {
        let mut batch = vec![3; (65_000 / segment).clamp(1, 64) * segment];
        let carried = (batch.len() / segment * (segment - worker.sealed(0))) as u64;
        let (mut known, mut sent, mut slice) = (0, 0, 0);
        let mut slices = Samples::new();
        while known < TOTAL {
            while sent - known < WINDOW && sent < TOTAL + WINDOW {
                worker.seal(&mut batch, segment, None);
                socket.send(to, &batch, segment)?;
                sent += carried;
            }
            answer(socket, &mut worker, &mut known)?;
            if known >= slice + (1 << 20) {
                slice += 1 << 20;
                slices.lap();
            }
        }
        Ok(f64::from(1 << 20) / slices.median() / 1e9)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_are_measured() {
        let here = IpAddr::from([127, 0, 0, 1]);
        assert!((0.0..1e6).contains(&round_trip(SocketKind::Syscall, here).unwrap()));
        for work in [Work::None, Work::Sealed] {
            let figure = relayed(SocketKind::Syscall, here, work).unwrap();
            assert!(figure > 0.0 && figure < 1e6, "{figure} us");
            assert!(bandwidth(SocketKind::Syscall, here, 8_188, work).unwrap() > 0.0);
        }
    }
}
