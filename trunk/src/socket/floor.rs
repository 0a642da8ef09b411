//! What plain UDP through an engine can do on this machine: the least any trunk costs.
//!
//! Every figure is the median of many short intervals, so that those in which a thread had to wait for a processor do not
//! count. Two cores are used if there are two.

use super::{Kind, Socket, open};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const ECHOES: u64 = 10_000;
/// Bytes under way, and to be sent.
const WINDOW: u64 = 512 << 10;
const TOTAL: u64 = 320 << 20;

/// Lengths of intervals.
pub struct Samples {
    /// When the present one began.
    pub last: Instant,
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
pub fn pair(kind: Kind, address: IpAddr) -> io::Result<[(Box<dyn Socket>, SocketAddr); 2]> {
    let any = SocketAddr::new(address, 0);
    let (mut a, mut b) = (open(any, kind)?, open(any, kind)?);
    let (to_a, to_b) = (a.local_addr(), b.local_addr());
    a.connect(&[to_b])?;
    b.connect(&[to_a])?;
    Ok([(a, to_b), (b, to_a)])
}

/// Answers datagrams of 8 bytes, and every [`WINDOW`]` / 4` bytes of longer ones, with the bytes received so far.
fn serve(mut socket: Box<dyn Socket>, to: SocketAddr, stop: &AtomicBool) {
    let (mut bytes, mut told) = (0u64, 0u64);
    while !stop.load(Ordering::Relaxed) {
        let mut small = false;
        let got = socket.recv(&mut |d| {
            bytes += d.len() as u64;
            small |= d.len() == 8;
        });
        match got {
            Ok(0) => thread::yield_now(),
            Ok(_) if small || bytes - told >= WINDOW / 4 => {
                told = bytes;
                // The client misses it.
                let _ = socket.send(to, &bytes.to_le_bytes(), 8);
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// Waits for the next answer of the server.
fn answer(socket: &mut dyn Socket, known: &mut u64) -> io::Result<()> {
    let (before, since) = (*known, Instant::now());
    while *known == before {
        let got = socket.recv(&mut |d| *known = d.first_chunk().map_or(*known, |b| u64::from_le_bytes(*b)))?;
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
    kind: Kind,
    address: IpAddr,
    client: impl FnOnce(&mut dyn Socket, SocketAddr) -> io::Result<f64> + Send,
) -> io::Result<f64> {
    let [(mut socket, to), (server, back)] = pair(kind, address)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            bind_to(1);
            serve(server, back, &stop);
        });
        // On a thread of its own, too: the caller's affinity is not touched.
        let result = scope.spawn(|| {
            bind_to(0);
            client(&mut *socket, to)
        });
        let result = result.join().unwrap_or_else(|_| Err(io::Error::other("the client panicked")));
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Microseconds for a datagram and its echo, both sides polling.
pub fn round_trip(kind: Kind, address: IpAddr) -> io::Result<f64> {
    against_server(kind, address, |socket, to| {
        let (mut known, mut echoes) = (0, Samples::new());
        for _ in 0..ECHOES {
            socket.send(to, &[1; 8], 8)?;
            answer(socket, &mut known)?;
            echoes.lap();
        }
        Ok(echoes.median() * 1e6)
    })
}

/// Microseconds for the same on behalf of a third thread, which shares the client's core and speaks with it through
/// memory, as a program does with its daemon.
pub fn relayed(kind: Kind, address: IpAddr) -> io::Result<f64> {
    against_server(kind, address, |socket, to| {
        let (asked, answered) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            let program = scope.spawn(|| {
                let mut echoes = Samples::new();
                for i in 1..=ECHOES {
                    asked.store(i, Ordering::Release);
                    while answered.load(Ordering::Acquire) < i {
                        thread::yield_now();
                    }
                    echoes.lap();
                }
                echoes.median() * 1e6
            });
            let mut known = 0;
            let mut relay = || {
                for i in 1..=ECHOES {
                    while asked.load(Ordering::Acquire) < i {
                        thread::yield_now();
                    }
                    socket.send(to, &[1; 8], 8)?;
                    answer(socket, &mut known)?;
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

/// Bytes per nanosecond (GB/s) of batches of `segment` bytes, counted by the receiver.
pub fn bandwidth(kind: Kind, address: IpAddr, segment: usize) -> io::Result<f64> {
    against_server(kind, address, |socket, to| {
        let batch = vec![3; (65_000 / segment).clamp(1, 64) * segment];
        let (mut known, mut sent, mut slice) = (0, 0, 0);
        let mut slices = Samples::new();
        while known < TOTAL {
            while sent - known < WINDOW && sent < TOTAL + WINDOW {
                socket.send(to, &batch, segment)?;
                sent += batch.len() as u64;
            }
            answer(socket, &mut known)?;
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
        for figure in [round_trip, relayed].map(|f| f(Kind::Syscall, here).unwrap()) {
            assert!(figure > 0.0 && figure < 1e6, "{figure} us");
        }
        assert!(bandwidth(Kind::Syscall, here, 8_188).unwrap() > 0.0);
    }
}
