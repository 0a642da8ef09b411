//! SEQPACKET sockets with descriptors beside the datagrams, for tokio.

use angara_protocol::msg::DATAGRAM_MAX;
use nix::sys::socket::{getsockopt, sockopt};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Descriptors taken from a client's message before they are closed (the kernel's own limit).
const SCM_MAX: usize = 253;

/// A listening socket.
pub(crate) struct Listener {
    fd: AsyncFd<OwnedFd>,
}

/// One client.
pub(crate) struct Connection {
    fd: AsyncFd<OwnedFd>,
}

/// The process that connected, as the kernel saw it then.
pub(crate) struct Peer {
    pub(crate) uid: u32,
    /// Only to be compared and shown: by now the number may be another process's. 0 if that is in no namespace of ours.
    pub(crate) pid: i32,
    /// The process itself, where the kernel can say which it was.
    pub(crate) process: Option<OwnedFd>,
}

/// What a datagram from a client turned out to be.
#[derive(Debug)]
pub(crate) enum Datagram {
    /// Its bytes.
    Message(Vec<u8>),
    /// Longer than [`DATAGRAM_MAX`].
    TooLong,
    /// Came with this many descriptors, which have been closed.
    Descriptors(usize),
    /// The client is gone.
    End,
}

/// Registers an owned descriptor with the event loop.
#[expect(deprecated, reason = "the replacement is unsafe; it asks for what an owned descriptor always keeps")]
pub(crate) fn watch<T: std::os::fd::AsRawFd + AsFd>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(fd, interest)
}

impl Listener {
    /// Binds `path` (which must not exist) and listens.
    pub(crate) fn bind(path: &Path) -> io::Result<Listener> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::bind(&fd, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&fd, 4096)?;
        Listener::new(fd)
    }

    /// Takes over a listening SEQPACKET socket that does not block.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Listener> {
        Ok(Listener { fd: watch(fd, Interest::READABLE)? })
    }

    /// The next client.
    pub(crate) async fn accept(&self) -> io::Result<Connection> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accept = |fd: &OwnedFd| Ok(rustix::net::accept_with(fd, flags)?);
        let fd = self.fd.async_io(Interest::READABLE, accept).await?;
        Ok(Connection { fd: watch(fd, Interest::READABLE | Interest::WRITABLE)? })
    }
}

impl Connection {
    /// Returns who connected.
    pub(crate) fn peer(&self) -> io::Result<Peer> {
        let who = getsockopt(self.fd.get_ref(), sockopt::PeerCredentials)?;
        // Kernels before 6.5 have none, and some have none of a process that has ended.
        let process = getsockopt(self.fd.get_ref(), sockopt::PeerPidfd).ok();
        Ok(Peer { uid: who.uid(), pid: who.pid(), process })
    }

    /// The next datagram. `buffer` has at least [`DATAGRAM_MAX`] bytes.
    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> io::Result<Datagram> {
        self.fd.async_io(Interest::READABLE, |fd| receive_now(fd.as_fd(), buffer)).await
    }

    /// Sends one datagram with descriptors beside it.
    pub(crate) async fn send(&self, data: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.fd.async_io(Interest::WRITABLE, |fd| send_now(fd.as_fd(), data, fds)).await
    }

    /// Sends one datagram if there is room for it.
    pub(crate) fn try_send(&self, data: &[u8]) -> io::Result<()> {
        send_now(self.fd.get_ref().as_fd(), data, &[])
    }

    /// Ends the connection from this side.
    pub(crate) fn shutdown(&self) {
        // Fails only if the client was faster.
        let _ = rustix::net::shutdown(self.fd.get_ref(), rustix::net::Shutdown::Both);
    }
}

fn receive_now(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Datagram> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SCM_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::net::recvmsg(
        fd,
        &mut [IoSliceMut::new(&mut buffer[..DATAGRAM_MAX])],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut descriptors = 0;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            // Dropping each closes it.
            descriptors += fds.map(drop).count();
        }
    }
    Ok(if descriptors > 0 || got.flags.contains(ReturnFlags::CTRUNC) {
        Datagram::Descriptors(descriptors)
    } else if got.flags.contains(ReturnFlags::TRUNC) {
        Datagram::TooLong
    } else if got.bytes == 0 {
        Datagram::End
    } else {
        Datagram::Message(buffer[..got.bytes].to_vec())
    })
}

fn send_now(fd: BorrowedFd<'_>, data: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other(format!("{} descriptors do not fit one message", fds.len())));
    }
    rustix::net::sendmsg(fd, &[IoSlice::new(data)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
