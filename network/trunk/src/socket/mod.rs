//! UDP sockets that move batches of datagrams.

mod choose;
pub mod floor;
mod lines;
mod syscall;
mod uring;

use rustix::fd::BorrowedFd;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A UDP socket that never blocks but in [`Socket::wait`].
pub trait Socket: Send {
    /// Makes a few peers cheaper to reach. The others are as before.
    fn connect(&mut self, peers: &[SocketAddr]) -> io::Result<()>;

    /// Sends a batch of datagrams of `segment` bytes each, the last perhaps shorter. `WouldBlock`: nothing was
    /// sent, and may be tried again. A datagram the network refuses (too large for the path, no route, filtered)
    /// counts as sent and lost.
    fn send(&mut self, to: SocketAddr, batch: &[u8], segment: usize) -> io::Result<()>;

    /// Hands over what has arrived, datagram by datagram; returns how many. Zero: there is nothing more, or only something
    /// from strangers, who are looked for less often.
    fn recv(&mut self, f: &mut dyn FnMut(&mut [u8])) -> io::Result<usize>;

    /// Sleeps until there may be something to receive, `doorbells` is readable, or `limit` is over. The next [`Socket::recv`]
    /// looks everywhere.
    fn wait(&mut self, doorbells: BorrowedFd<'_>, limit: Duration) -> io::Result<()>;

    /// Where it is bound.
    fn local_addr(&self) -> SocketAddr;

    /// Bytes the kernel keeps for it before it drops datagrams.
    fn receive_buffer(&self) -> usize;

    /// Which engine this is.
    fn kind(&self) -> SocketKind;
}

/// Which engine moves the datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketKind {
    /// Whichever is faster here.
    Auto,
    /// `sendmsg` and `recvmmsg`.
    Syscall,
    /// io_uring. All calls must come from one thread, the one that makes the first.
    Uring,
}

impl std::str::FromStr for SocketKind {
    type Err = String;

    fn from_str(name: &str) -> Result<SocketKind, String> {
        match name {
            "auto" => Ok(SocketKind::Auto),
            "syscall" => Ok(SocketKind::Syscall),
            "uring" => Ok(SocketKind::Uring),
            _ => Err(format!("{name:?} is not a UDP engine; there are auto, syscall and uring")),
        }
    }
}

/// Opens a socket bound to `addr`.
pub fn open(addr: SocketAddr, kind: SocketKind) -> io::Result<Box<dyn Socket>> {
    match kind {
        SocketKind::Auto => open(addr, choose::faster()),
        SocketKind::Syscall => Ok(Box::new(syscall::Plain::open(addr)?)),
        SocketKind::Uring => Ok(Box::new(uring::Uring::open(addr)?)),
    }
}
