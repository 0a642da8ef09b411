//! Plain system calls: `sendmsg` with `UDP_SEGMENT`, `recvmmsg` with `UDP_GRO`.

#![allow(unsafe_code)] // message headers and socket options that no safe wrapper offers

use super::{Kind, Socket};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};

/// Largest datagram, and largest train of datagrams the kernel hands over as one.
const SLOT: usize = 65_536;
/// Messages per `recvmmsg`.
const SLOTS: usize = 8;
/// Wanted kernel buffer in either direction.
const BUFFER: libc::c_int = 8 << 20;

/// Room for one control message with an `int` in it, aligned as the kernel wants it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct Control([u8; 24]);

impl Control {
    pub(super) const EMPTY: Control = Control([0; 24]);

    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.0.as_mut_ptr().cast()
    }
}

pub(super) struct Plain {
    socket: UdpSocket,
    gso: bool,
    receive_buffer: usize,
    slots: Box<[u8]>,
    /// Messages to ask for: one while they come one by one, as each costs time even if it is not there.
    expected: usize,
}

fn set(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value outlives the call and its length is given.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn get(socket: &UdpSocket, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `value`.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Binds a socket that never fragments, coalesces what it receives and has large buffers. Returns the size
/// of the receive buffer.
pub(super) fn bind(addr: SocketAddr) -> io::Result<(UdpSocket, usize)> {
    let socket = UdpSocket::bind(addr)?;
    socket.set_nonblocking(true)?;
    let (level, discover, probe) = match addr {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE),
    };
    set(&socket, level, discover, probe)?;
    // Without coalescing everything works, one datagram at a time.
    let _ = set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    for (name, force) in [(libc::SO_RCVBUF, libc::SO_RCVBUFFORCE), (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE)] {
        // The limit of the system holds for those who may not exceed it.
        if set(&socket, libc::SOL_SOCKET, force, BUFFER).is_err() {
            set(&socket, libc::SOL_SOCKET, name, BUFFER)?;
        }
    }
    // The kernel reports twice what it was asked for, to cover its own bookkeeping.
    let receive_buffer = get(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF)? as usize / 2;
    Ok((socket, receive_buffer))
}

/// A socket address as the kernel wants it, and its length.
pub(super) fn encode(addr: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all-zero bytes are a valid `sockaddr_storage`.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    match addr {
        SocketAddr::V4(a) => {
            let sin = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: a.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(a.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: a `sockaddr_storage` has room and alignment for every kind of address.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(sin) };
            (storage, size_of::<libc::sockaddr_in>() as libc::socklen_t)
        }
        SocketAddr::V6(a) => {
            let sin6 = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: a.port().to_be(),
                sin6_flowinfo: a.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: a.ip().octets() },
                sin6_scope_id: a.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(sin6) };
            (storage, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
        }
    }
}

/// The address the kernel wrote.
pub(super) fn decode(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which kind it is, and the storage is large enough for all.
            let a = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(a.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(a.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let a = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let (ip, port) = (Ipv6Addr::from(a.sin6_addr.s6_addr), u16::from_be(a.sin6_port));
            // The scope matters only to link-local addresses; elsewhere the kernel leaves it zero.
            Some(SocketAddr::new(IpAddr::V6(ip), port)).map(|s| match s {
                SocketAddr::V6(v6) => SocketAddr::V6(SocketAddrV6::new(*v6.ip(), port, 0, a.sin6_scope_id)),
                v4 => v4,
            })
        }
        _ => None,
    }
}

/// Asks for the batch to be cut into datagrams of `segment` bytes. Returns the length to state.
pub(super) fn encode_segment(control: &mut Control, segment: u16) -> usize {
    // struct cmsghdr { size_t len; int level; int type; } and the data.
    let len = size_of::<libc::cmsghdr>() + size_of::<u16>();
    control.0[..8].copy_from_slice(&(len as u64).to_ne_bytes());
    control.0[8..12].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
    control.0[12..16].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
    control.0[16..18].copy_from_slice(&segment.to_ne_bytes());
    24
}

/// The size of the datagrams a received train is made of.
pub(super) fn decode_segment(control: &[u8]) -> Option<usize> {
    let field = |at: usize| control.get(at..at + 4).map(|b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    (field(8)? == libc::SOL_UDP && field(12)? == libc::UDP_GRO).then(|| field(16))?.map(|size| size as usize)
}

/// What the network refuses is lost, as it would be further on.
pub(super) fn is_loss(e: &io::Error) -> bool {
    let lost = [
        libc::EMSGSIZE,
        libc::ECONNREFUSED,
        libc::ENETUNREACH,
        libc::EHOSTUNREACH,
        libc::ENETDOWN,
        libc::EHOSTDOWN,
        libc::EPERM,
        libc::ENOBUFS,
    ];
    e.raw_os_error().is_some_and(|code| lost.contains(&code))
}

impl Plain {
    pub(super) fn open(addr: SocketAddr) -> io::Result<Plain> {
        let (socket, receive_buffer) = bind(addr)?;
        Ok(Plain { socket, gso: true, receive_buffer, slots: vec![0; SLOT * SLOTS].into(), expected: 1 })
    }

    fn send_message(&self, to: SocketAddr, bytes: &[u8], segment: Option<u16>) -> io::Result<()> {
        let (mut name, name_len) = encode(to);
        let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = Control::EMPTY;
        // SAFETY: all-zero bytes are a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_name = (&raw mut name).cast();
        message.msg_namelen = name_len;
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        if let Some(segment) = segment {
            message.msg_controllen = encode_segment(&mut control, segment);
            message.msg_control = control.as_mut_ptr();
        }
        loop {
            // SAFETY: everything the header points to lives until the call returns, and sendmsg only reads it.
            let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
            if sent >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return if is_loss(&error) { Ok(()) } else { Err(error) };
        }
    }
}

impl Socket for Plain {
    fn send(&mut self, to: SocketAddr, batch: &[u8], segment: usize) -> io::Result<()> {
        if self.gso && batch.len() > segment {
            let result = self.send_message(to, batch, u16::try_from(segment).ok());
            match result.as_ref().err().and_then(io::Error::raw_os_error) {
                // The device or the kernel cannot cut it.
                Some(libc::EIO | libc::EOPNOTSUPP) => self.gso = false,
                // Segments larger than the path: one by one, so that those that fit get through.
                Some(libc::EINVAL) => {}
                _ => return result,
            }
        }
        batch.chunks(segment.max(1)).try_for_each(|one| self.send_message(to, one, None))
    }

    fn recv(&mut self, f: &mut dyn FnMut(SocketAddr, &mut [u8])) -> io::Result<usize> {
        // SAFETY: all-zero bytes are valid for these three.
        let mut names: [libc::sockaddr_storage; SLOTS] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; SLOTS] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut iovs: [libc::iovec; SLOTS] = unsafe { zeroed() };
        let mut controls = [Control::EMPTY; SLOTS];
        for i in 0..self.expected {
            iovs[i].iov_base = self.slots[i * SLOT..].as_mut_ptr().cast();
            iovs[i].iov_len = SLOT;
            let header = &mut messages[i].msg_hdr;
            header.msg_name = (&raw mut names[i]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut iovs[i];
            header.msg_iovlen = 1;
            header.msg_control = controls[i].as_mut_ptr();
            header.msg_controllen = 24;
        }
        let fd = self.socket.as_raw_fd();
        // SAFETY: each header points to a name, a control buffer and a slot of its own, all of which outlive
        // the call and have the stated lengths.
        let received =
            unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), self.expected as u32, 0, std::ptr::null_mut()) };
        if received < 0 {
            self.expected = 1;
            let error = io::Error::last_os_error();
            let nothing = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if nothing || is_loss(&error) { Ok(0) } else { Err(error) };
        }
        let full = received as usize == self.expected;
        self.expected = if full { (2 * self.expected).min(SLOTS) } else { (received as usize).max(1) };
        let mut count = 0;
        for (i, message) in messages.iter().enumerate().take(received as usize) {
            let Some(from) = decode(&names[i]) else { continue };
            if message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
                continue;
            }
            let bytes = &mut self.slots[i * SLOT..][..message.msg_len as usize];
            let control = &controls[i].0[..message.msg_hdr.msg_controllen.min(24)];
            let segment = decode_segment(control).unwrap_or(bytes.len()).max(1);
            for datagram in bytes.chunks_mut(segment) {
                f(from, datagram);
                count += 1;
            }
        }
        // What was dropped above must not look like an empty socket.
        Ok(count.max(received as usize))
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    fn kind(&self) -> Kind {
        Kind::Syscall
    }
}
