//! Plain system calls: `sendmsg` with `UDP_SEGMENT`, `recvmmsg` with `UDP_GRO`.

#![allow(unsafe_code)] // message headers, which point to other memory

use super::lines::{Control, Lines, decode_segment, encode, encode_segment, is_loss};
use super::{Socket, SocketKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use std::io;
use std::mem::zeroed;
use std::net::SocketAddr;
use std::time::Duration;

/// Largest datagram, and largest train of datagrams the kernel hands over as one.
const SLOT: usize = 65_536;
/// Messages per `recvmmsg`.
const SLOTS: usize = 8;
/// While peers have sockets of their own, the one for everybody is looked at once in this many times.
const RARELY: u32 = 16;

/// Headers for `recvmmsg` and what they point to, which stays where it is.
struct Reception {
    messages: [libc::mmsghdr; SLOTS],
    iovs: [libc::iovec; SLOTS],
    controls: [Control; SLOTS],
    slots: Box<[u8]>,
}

// SAFETY: the pointers in the headers point into this and its slots, and the kernel uses them during calls only.
unsafe impl Send for Reception {}

impl Reception {
    fn new() -> Box<Reception> {
        // SAFETY: all-zero bytes are valid for both.
        let (messages, iovs) = unsafe { (zeroed(), zeroed()) };
        let slots = vec![0; SLOT * SLOTS].into();
        let mut all = Box::new(Reception { messages, iovs, controls: [Control::EMPTY; SLOTS], slots });
        let Reception { messages, iovs, controls, slots } = &mut *all;
        let slots = slots.chunks_mut(SLOT);
        for (((message, iov), control), slot) in messages.iter_mut().zip(iovs).zip(controls).zip(slots) {
            *iov = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: SLOT };
            message.msg_hdr.msg_iov = &raw mut *iov;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.as_mut_ptr();
        }
        all
    }

    /// Takes up to `limit` messages. Returns how many came.
    fn receive(&mut self, fd: BorrowedFd<'_>, limit: usize) -> io::Result<usize> {
        let messages = &mut self.messages[..limit];
        // The kernel has written here what it used.
        messages.iter_mut().for_each(|m| m.msg_hdr.msg_controllen = size_of::<Control>());
        let (first, count) = (messages.as_mut_ptr(), messages.len() as u32);
        let received = if let [message] = messages {
            // SAFETY: as below. One message takes less time this way.
            let len = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message.msg_hdr, 0) };
            message.msg_len = len.max(0) as u32;
            if len < 0 { -1 } else { 1 }
        } else {
            // SAFETY: each header points to a control buffer and a slot of its own, all of which outlive the call and have the
            // stated lengths; `&mut self` keeps others away from them.
            unsafe { libc::recvmmsg(fd.as_raw_fd(), first, count, 0, std::ptr::null_mut()) }
        };
        if received >= 0 { Ok(received as usize) } else { Err(io::Error::last_os_error()) }
    }
}

pub(super) struct Plain {
    lines: Lines,
    gso: bool,
    reception: Box<Reception>,
    /// Messages to ask for, by socket: one while they come one by one, as each costs time even if it is not there.
    expected: Vec<usize>,
    /// Looks since the socket for everybody has been looked at.
    passed: u32,
}

impl Plain {
    pub(super) fn open(addr: SocketAddr) -> io::Result<Plain> {
        let lines = Lines::bind(addr)?;
        Ok(Plain { lines, gso: true, reception: Reception::new(), expected: vec![1], passed: RARELY })
    }

    fn send_message(&self, to: SocketAddr, bytes: &[u8], segment: Option<u16>) -> io::Result<()> {
        let (socket, name) = self.lines.towards(to);
        let mut name = name.map(encode);
        let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = Control::EMPTY;
        // SAFETY: all-zero bytes are a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { zeroed() };
        if let Some((name, len)) = &mut name {
            message.msg_name = (&raw mut *name).cast();
            message.msg_namelen = *len;
        }
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        if let Some(segment) = segment {
            message.msg_controllen = encode_segment(&mut control, segment);
            message.msg_control = control.as_mut_ptr();
        }
        loop {
            // SAFETY: everything the header points to lives until the call returns, and sendmsg only reads it.
            let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
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

    /// Takes what one socket has.
    fn look(&mut self, index: usize, f: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        let expected = &mut self.expected[index];
        let received = match self.reception.receive(self.lines.sockets()[index].as_fd(), *expected) {
            Ok(received) => received,
            Err(error) => {
                *expected = 1;
                let nothing = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
                return if nothing || is_loss(&error) { Ok(0) } else { Err(error) };
            }
        };
        *expected = if received == *expected { (2 * received).min(SLOTS) } else { received.max(1) };
        let Reception { messages, controls, slots, .. } = &mut *self.reception;
        let mut count = 0;
        let slots = slots.chunks_mut(SLOT);
        for ((message, control), slot) in messages.iter().zip(controls).zip(slots).take(received) {
            if message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
                continue;
            }
            let bytes = &mut slot[..message.msg_len as usize];
            let segment = decode_segment(control.filled(message.msg_hdr.msg_controllen));
            for datagram in bytes.chunks_mut(segment.unwrap_or(SLOT).max(1)) {
                f(datagram);
                count += 1;
            }
        }
        // Datagrams dropped above must not look like an empty socket.
        Ok(count.max(received))
    }
}

impl Socket for Plain {
    fn connect(&mut self, peers: &[SocketAddr]) -> io::Result<()> {
        self.lines.connect(peers)?;
        self.expected.resize(self.lines.sockets().len(), 1);
        Ok(())
    }

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

    fn recv(&mut self, f: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        let mut count = 0;
        for index in 1..self.expected.len() {
            count += self.look(index, f)?;
        }
        self.passed += 1;
        if self.passed >= RARELY || self.expected.len() == 1 {
            let strangers = self.look(0, f)?;
            // Where one has come from there may be more.
            self.passed = if strangers > 0 { RARELY } else { 0 };
            count += strangers;
        }
        Ok(count)
    }

    fn wait(&mut self, doorbells: BorrowedFd<'_>, limit: Duration) -> io::Result<()> {
        self.passed = RARELY;
        let sockets = self.lines.sockets().iter().map(AsFd::as_fd);
        let all = sockets.chain([doorbells]).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut all.collect::<Vec<_>>(), Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.lines.local_addr()
    }

    fn receive_buffer(&self) -> usize {
        self.lines.receive_buffer()
    }

    fn kind(&self) -> SocketKind {
        SocketKind::Syscall
    }
}
