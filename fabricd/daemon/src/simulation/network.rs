//! A datagram network between hosts, and the socket through which a data plane sees it.

use super::random::Random;
use angara_trunk::socket::{Socket, SocketKind};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Datagrams a socket keeps for a daemon that does not take them.
const KEPT: usize = 200;

/// Where a host is.
pub(super) fn address(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host as u8 + 1], 26_290))
}

/// Datagrams at a socket.
#[derive(Default)]
struct Waiting {
    arrived: VecDeque<Vec<u8>>,
    sent: Vec<(usize, Vec<u8>)>,
}

/// The outside of a socket.
#[derive(Clone, Default)]
pub(super) struct Plug(Arc<Mutex<Waiting>>);

impl Plug {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The inside.
    pub(super) fn socket(&self, host: usize) -> Box<dyn Socket> {
        Box::new(Simulated { host, plug: self.clone() })
    }

    /// A datagram has arrived.
    pub(super) fn arrive(&self, datagram: Vec<u8>) {
        let mut waiting = self.lock();
        if waiting.arrived.len() < KEPT {
            waiting.arrived.push_back(datagram);
        }
    }

    /// Returns what has been sent: to which host, and what.
    pub(super) fn take_sent(&self) -> Vec<(usize, Vec<u8>)> {
        std::mem::take(&mut self.lock().sent)
    }
}

struct Simulated {
    host: usize,
    plug: Plug,
}

impl Socket for Simulated {
    fn connect(&mut self, _: &[SocketAddr]) -> io::Result<()> {
        Ok(())
    }

    fn send(&mut self, to: SocketAddr, batch: &[u8], segment: usize) -> io::Result<()> {
        let SocketAddr::V4(to) = to else { return Ok(()) };
        let host = to.ip().octets()[3] as usize - 1;
        self.plug.lock().sent.extend(batch.chunks(segment).map(|datagram| (host, datagram.to_vec())));
        Ok(())
    }

    fn recv(&mut self, f: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        let arrived = std::mem::take(&mut self.plug.lock().arrived);
        let count = arrived.len();
        arrived.into_iter().for_each(|mut datagram| f(&mut datagram));
        Ok(count)
    }

    fn wait(&mut self, _: BorrowedFd<'_>, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn local_addr(&self) -> SocketAddr {
        address(self.host)
    }

    fn receive_buffer(&self) -> usize {
        1 << 20
    }

    fn kind(&self) -> SocketKind {
        SocketKind::Syscall
    }
}

/// What lies between hosts.
#[derive(Default)]
pub(super) struct Network {
    /// By arrival, and a number that makes the order definite.
    flying: BTreeMap<(u64, u64), (usize, usize, Vec<u8>)>,
    order: u64,
    /// Loss and doubling in percent, longest delay in milliseconds; by pair of hosts.
    quality: BTreeMap<(usize, usize), [u64; 3]>,
    /// Until when nothing passes between hosts of a set and others.
    splits: Vec<(u64, u64)>,
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) doubled: u64,
    pub(super) overtaken: u64,
    last: BTreeMap<(usize, usize), u64>,
}

impl Network {
    pub(super) fn make_bad(&mut self, a: usize, b: usize, quality: [u64; 3]) {
        self.quality.insert((a.min(b), a.max(b)), quality);
    }

    pub(super) fn split(&mut self, until: u64, set: u64) {
        self.splits.push((until, set));
    }

    pub(super) fn heal(&mut self) {
        self.quality.clear();
        self.splits.clear();
    }

    fn passes(&self, now: u64, a: usize, b: usize) -> bool {
        !self.splits.iter().any(|(until, set)| now < *until && (set >> a & 1) != (set >> b & 1))
    }

    pub(super) fn launch(&mut self, now: u64, from: usize, to: usize, datagram: Vec<u8>, random: &mut Random) {
        self.sent += 1;
        let [loss, dup, late] = self.quality.get(&(from.min(to), from.max(to))).copied().unwrap_or([0, 0, 1]);
        if !self.passes(now, from, to) || random.percent(loss) {
            self.lost += 1;
            return;
        }
        let copies = if random.percent(dup) { 2 } else { 1 };
        self.doubled += copies - 1;
        for _ in 0..copies {
            let at = now + 1 + random.below(late);
            let last = self.last.entry((from, to)).or_default();
            self.overtaken += u64::from(at < *last);
            *last = at.max(*last);
            self.order += 1;
            self.flying.insert((at, self.order), (from, to, datagram.clone()));
        }
    }

    /// The next one that has arrived by now.
    pub(super) fn land(&mut self, now: u64) -> Option<(usize, usize, Vec<u8>)> {
        while let Some(first) = self.flying.first_entry().filter(|e| e.key().0 <= now) {
            let (from, to, datagram) = first.remove();
            if self.passes(now, from, to) {
                return Some((from, to, datagram));
            }
            self.lost += 1;
        }
        None
    }

    pub(super) fn next(&self) -> u64 {
        self.flying.first_key_value().map_or(u64::MAX, |(key, _)| key.0)
    }
}
