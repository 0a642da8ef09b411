//! Bound sockets, and what both engines say to the kernel in the same way.

#![allow(unsafe_code)] // socket options and addresses that no safe wrapper offers

use rustix::fd::{AsFd, AsRawFd};
use rustix::net::{self, sockopt};
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, UdpSocket};

/// Wanted kernel buffer in either direction.
const BUFFER: libc::c_int = 8 << 20;
/// Each socket has to be looked at.
const CONNECTED_MAX: usize = 4;

/// Room for one control message with an `int` in it, aligned as the kernel wants it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct Control([u8; 24]);

impl Control {
    pub(super) const EMPTY: Control = Control([0; 24]);

    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.0.as_mut_ptr().cast()
    }

    /// Returns what the kernel has written.
    pub(super) fn filled(&self, len: usize) -> &[u8] {
        &self.0[..len.min(self.0.len())]
    }
}

fn set(socket: &impl AsRawFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value outlives the call and its length is given.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn get(socket: &impl AsRawFd, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `value`.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Sockets with one local address: one for everybody, and one for each peer that was connected. The kernel knows the way to a
/// connected peer, and finds the socket for what it sends, without looking routes up for every datagram.
pub(super) struct Lines {
    sockets: Vec<UdpSocket>,
    /// Peers of all sockets but the first.
    peers: Vec<SocketAddr>,
    local: SocketAddr,
    receive_buffer: usize,
}

impl Lines {
    pub(super) fn bind(local: SocketAddr) -> io::Result<Lines> {
        let socket = UdpSocket::bind(local)?;
        configure(&socket, local)?;
        // The kernel reports twice what it was asked for, to cover its own bookkeeping.
        let receive_buffer = get(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF)? as usize / 2;
        Ok(Lines { local: socket.local_addr()?, sockets: vec![socket], peers: Vec::new(), receive_buffer })
    }

    /// Gives each of these peers a socket of its own, if they are few.
    pub(super) fn connect(&mut self, peers: &[SocketAddr]) -> io::Result<()> {
        if self.peers.len() + peers.len() > CONNECTED_MAX {
            return Ok(());
        }
        let main = self.sockets[0].as_fd();
        sockopt::set_socket_reuseport(main, true)?;
        let added: Vec<_> = peers.iter().map(|peer| (*peer, connected(self.local, *peer))).collect();
        // The address is taken by nobody else, as if there were only one socket.
        sockopt::set_socket_reuseport(main, false)?;
        for (peer, socket) in added {
            match socket {
                Ok(socket) => {
                    self.peers.push(peer);
                    self.sockets.push(socket);
                }
                // No way to it now.
                Err(e) if is_loss(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// All sockets, the one for everybody first.
    pub(super) fn sockets(&self) -> &[UdpSocket] {
        &self.sockets
    }

    /// The socket for datagrams to `to`, and the address to state if it is not connected.
    pub(super) fn towards(&self, to: SocketAddr) -> (&UdpSocket, Option<SocketAddr>) {
        match self.peers.iter().position(|peer| *peer == to) {
            Some(peer) => (&self.sockets[peer + 1], None),
            None => (&self.sockets[0], Some(to)),
        }
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Bytes the kernel keeps per socket.
    pub(super) fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }
}

fn connected(local: SocketAddr, peer: SocketAddr) -> io::Result<UdpSocket> {
    let family = if local.is_ipv4() { net::AddressFamily::INET } else { net::AddressFamily::INET6 };
    let socket = net::socket_with(family, net::SocketType::DGRAM, net::SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    net::bind(&socket, &local)?;
    let socket = UdpSocket::from(socket);
    configure(&socket, local)?;
    socket.connect(peer)?;
    Ok(socket)
}

/// Makes a socket never fragment, coalesce what it receives, and have large buffers.
fn configure(socket: &UdpSocket, local: SocketAddr) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let (level, discover, probe) = match local {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE),
    };
    set(socket, level, discover, probe)?;
    // Without coalescing everything works, one datagram at a time.
    let _ = set(socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    for (name, force) in [(libc::SO_RCVBUF, libc::SO_RCVBUFFORCE), (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE)] {
        // The limit of the system holds for those who may not exceed it.
        if set(socket, libc::SOL_SOCKET, force, BUFFER).is_err() {
            set(socket, libc::SOL_SOCKET, name, BUFFER)?;
        }
    }
    Ok(())
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
            // SAFETY: a `sockaddr_storage` has room and alignment for every kind of address.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(sin6) };
            (storage, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
        }
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

/// True if the network refused a datagram: it is lost, as it would be further on.
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
