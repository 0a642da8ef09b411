//! The way to the daemon: requests with one answer each. It is a socket, with descriptors beside answers, and this PE's life
//! line; or a function, where daemon and PEs are one process.

use crate::error::{Error, Result};
use angara_abi::inside::Host;
use angara_abi::job::PES_MAX;
use angara_protocol::launch::ADAPTER_SOCKET;
use angara_protocol::msg::{AdapterReply, AdapterRequest, DATAGRAM_MAX};
use angara_protocol::trust::{Distrust, TrustedDir};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType, recvmsg, send, sockopt,
};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// How long the daemon may take to answer before it counts as hung: for itself, and for each PE that may ask at once.
const ANSWER_MAX: Duration = Duration::from_secs(30);
const ANSWER_EACH: Duration = Duration::from_millis(50);
/// Room for an answer in this process: that to attach, which is long, is not asked for.
const ANSWER_INSIDE: usize = 4096;
/// Room for descriptors in one answer; the protocol sends 13.
const FDS_MAX: usize = 24;

/// The way to the daemon.
pub(crate) enum Connection {
    /// To another process.
    Socket(Socket),
    /// In this process, which all PEs are in.
    Inside(&'static Host),
}

/// One SEQPACKET connection. Closing it tells the daemon that this PE is gone.
pub(crate) struct Socket {
    /// -1 in a forked child, where the life line must not stay open.
    fd: AtomicI32,
    /// One request at a time.
    lock: Mutex<()>,
    /// How long an answer may take.
    limit: Duration,
}

impl Connection {
    /// Connects to the daemon in `dir`, if that may be believed, as one of `pes` PEs.
    pub(crate) fn open(dir: &Path, pes: usize) -> Result<Connection> {
        reach(dir, ADAPTER_SOCKET, SocketType::SEQPACKET).map(|fd| Connection::from_fd(fd, pes))
    }

    pub(crate) fn from_fd(fd: OwnedFd, pes: usize) -> Connection {
        let limit = ANSWER_MAX + ANSWER_EACH.saturating_mul(pes.min(PES_MAX) as u32);
        // A socket without a receive timeout would only wait longer for a hung daemon.
        let _ = sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(limit));
        Connection::Socket(Socket { fd: AtomicI32::new(fd.into_raw_fd()), lock: Mutex::new(()), limit })
    }

    /// Called in a forked child: async-signal-safe.
    pub(crate) fn close_in_child(&self) {
        if let Connection::Socket(socket) = self {
            socket.close();
        }
    }

    /// Sends `request` and waits for its answer.
    pub(crate) fn ask(&self, request: &AdapterRequest) -> Result<(AdapterReply, Vec<OwnedFd>)> {
        let text = serde_json::to_vec(request).map_err(|e| Error::Daemon(e.to_string()))?;
        let (text, fds) = match self {
            Connection::Socket(socket) => socket.ask(&text)?,
            Connection::Inside(host) => (ask_inside(host, &text)?, Vec::new()),
        };
        match serde_json::from_slice(&text) {
            Ok(AdapterReply::Error(failure)) => Err(Error::Refused(failure)),
            Ok(reply) => Ok((reply, fds)),
            Err(e) => Err(Error::Daemon(format!("answer not understood ({e}); daemon and library differ in version"))),
        }
    }

    /// The daemon has closed the connection or died.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Connection::Socket(socket) => socket.is_closed(),
            Connection::Inside(_) => false,
        }
    }
}

/// Asks the daemon in this process.
fn ask_inside(host: &Host, text: &[u8]) -> Result<Vec<u8>> {
    let mut answer = vec![0; ANSWER_INSIDE];
    let got = (host.ask)(text.as_ptr(), text.len(), answer.as_mut_ptr(), answer.len());
    let got = usize::try_from(got).map_err(|_| Error::JobEnded)?;
    answer.truncate(got);
    Ok(answer)
}

impl Socket {
    fn fd(&self) -> Result<BorrowedFd<'_>> {
        match self.fd.load(Ordering::Relaxed) {
            -1 => Err(Error::Forked),
            // SAFETY: the descriptor is open until `drop` or `close_in_child`, and no other
            // thread exists in a child that has just closed it.
            raw => Ok(unsafe { BorrowedFd::borrow_raw(raw) }),
        }
    }

    fn close(&self) {
        let raw = self.fd.swap(-1, Ordering::Relaxed);
        if raw >= 0 {
            // SAFETY: `raw` was ours and nobody can find it any more.
            unsafe { libc::close(raw) };
        }
    }

    /// Sends a request and waits for its answer.
    fn ask(&self, request: &[u8]) -> Result<(Vec<u8>, Vec<OwnedFd>)> {
        let _one_at_a_time = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        match send(self.fd()?, request, SendFlags::NOSIGNAL) {
            // A daemon that does not serve this process closes at once, and has said why.
            Ok(_) | Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => {}
            Err(e) => return Err(gone(e)),
        }
        let mut text = vec![0; DATAGRAM_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = loop {
            let flags = RecvFlags::CMSG_CLOEXEC;
            match recvmsg(self.fd()?, &mut [IoSliceMut::new(&mut text)], &mut control, flags) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => {
                    let s = self.limit.as_secs();
                    return Err(Error::Daemon(format!("no answer within {s} s; see its log, or restart it")));
                }
                other => break other.map_err(gone)?,
            }
        };
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        if got.bytes == 0 {
            return Err(Error::Daemon("closed the connection; see its log".into()));
        }
        text.truncate(got.bytes);
        Ok((text, fds))
    }

    fn is_closed(&self) -> bool {
        let Ok(fd) = self.fd() else { return true };
        let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut fds, Some(&now)) {
            Ok(n) => n > 0 && fds[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR),
            Err(_) => false,
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.close();
    }
}

/// Connects to a socket in `dir`, if whoever made that may be believed.
pub(crate) fn reach(dir: &Path, socket: &str, kind: SocketType) -> Result<OwnedFd> {
    let failed = |source| Error::Connect { path: dir.join(socket), source };
    let checked = TrustedDir::open(dir).map_err(|e| match e {
        Distrust::Missing { .. } => failed(std::io::ErrorKind::NotFound.into()),
        e => Error::Distrust(e),
    })?;
    checked.connect(socket, kind, SocketFlags::empty()).map_err(failed)
}

fn gone(e: rustix::io::Errno) -> Error {
    Error::Daemon(format!("connection lost ({e}); it was stopped or it crashed: see its log"))
}
