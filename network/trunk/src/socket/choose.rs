//! Which engine is faster on this machine: measured once per process, in a few milliseconds, on loopback.

use super::{SocketKind, open};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Rounds of one small and one large batch; the fastest counts, as a busy machine only ever adds.
const ROUNDS: usize = 60;
const PATIENCE: Duration = Duration::from_millis(100);

/// System calls unless io_uring works and is clearly faster.
pub(super) fn faster() -> SocketKind {
    static CHOICE: OnceLock<SocketKind> = OnceLock::new();
    *CHOICE.get_or_init(|| {
        let (Ok(plain), Ok(ring)) = (measure(SocketKind::Syscall), measure(SocketKind::Uring)) else {
            return SocketKind::Syscall;
        };
        if ring.as_nanos() * 20 < plain.as_nanos() * 19 { SocketKind::Uring } else { SocketKind::Syscall }
    })
}

/// Time to move a small datagram and a large batch from one socket to another.
fn measure(kind: SocketKind) -> io::Result<Duration> {
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (mut from, mut to) = (open(local, kind)?, open(local, kind)?);
    let target = to.local_addr();
    from.connect(&[target])?;
    to.connect(&[from.local_addr()])?;
    let batch = vec![0; 64_000];
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        for (best, len) in best.iter_mut().zip([64, batch.len()]) {
            let start = Instant::now();
            from.send(target, &batch[..len], 8_000)?;
            let mut missing = len;
            while missing > 0 {
                to.recv(&mut |datagram| missing = missing.saturating_sub(datagram.len()))?;
                if start.elapsed() > PATIENCE {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            *best = (*best).min(start.elapsed());
        }
    }
    Ok(best[0] + best[1])
}
