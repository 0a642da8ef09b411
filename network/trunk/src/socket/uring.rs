//! io_uring: a multishot receive into buffers the kernel picks, sends as submissions.
//!
//! The ring runs its work only when asked (`DEFER_TASKRUN`) and says in shared memory that there is some, so looking
//! for datagrams costs no system call while there are none. Doorbells are polled by the same ring while its owner sleeps in it,
//! and the sleep ends by its timer.

#![allow(unsafe_code)] // memory shared with the kernel, and requests that point to ours

use super::lines::{Control, Lines, decode_segment, encode, encode_segment, is_loss};
use super::{Socket, SocketKind};
use io_uring::types::{BufRingEntry, CancelBuilder, Fd, RecvMsgOut, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::VecDeque;
use std::io;
use std::mem::{ManuallyDrop, zeroed};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// User data of a completion: the upper half names its kind, the lower half which one of that kind.
const RECEIVE: u64 = 1 << 32;
const SEND: u64 = 2 << 32;
const DOORBELLS: u64 = 3 << 32;
const GROUP: u16 = 0;
const PAGE: usize = 4_096;
/// Buffers; a power of two.
const COUNT: u16 = 32;
/// Each takes the kernel's head, a control message and the largest train of datagrams.
const SIZE: usize = 17 * PAGE;
/// The ring of free buffers comes first.
const HEAD: usize = PAGE;
/// Sends that may wait for room in the socket.
const SENDS: usize = 8;
/// `IORING_ENTER_GETEVENTS`
const GET_EVENTS: u32 = 1;

/// Page-aligned memory that the kernel reads and writes: the ring of free buffers, and the buffers.
struct Pool {
    base: NonNull<u8>,
    tail: u16,
}

// SAFETY: the memory belongs to the pool alone (and the kernel); nothing about it is tied to a thread.
unsafe impl Send for Pool {}

impl Pool {
    const LAYOUT: Layout = match Layout::from_size_align(HEAD + COUNT as usize * SIZE, PAGE) {
        Ok(layout) => layout,
        Err(_) => panic!("a page is a power of two"),
    };

    fn new() -> Pool {
        // SAFETY: the layout is not empty.
        let Some(base) = NonNull::new(unsafe { alloc_zeroed(Self::LAYOUT) }) else { handle_alloc_error(Self::LAYOUT) };
        let mut pool = Pool { base, tail: 0 };
        (0..COUNT).for_each(|id| pool.give(id));
        pool
    }

    fn buffer(&mut self, id: u16) -> &mut [u8] {
        let at = HEAD + usize::from(id % COUNT) * SIZE;
        // SAFETY: within the allocation and initialised; the kernel has handed the buffer over, so until it is given
        // back nobody else touches it, and `&mut self` keeps others of us away.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(at), SIZE) }
    }

    /// Lets the kernel use a buffer.
    fn give(&mut self, id: u16) {
        let address = self.buffer(id).as_mut_ptr() as u64;
        let entries = self.base.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the slot is within the first page, aligned, and not the kernel's before the tail says so.
        let entry = unsafe { &mut *entries.add(usize::from(self.tail % COUNT)) };
        entry.set_addr(address);
        entry.set_len(SIZE as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `entries` is the start of the ring; the tail lies in the unused part of its first entry, is
        // aligned, and is only ever accessed atomically, here and in the kernel.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.base.as_ptr(), Self::LAYOUT) };
    }
}

/// A send under way, and all it points to.
struct Slot {
    name: libc::sockaddr_storage,
    iov: libc::iovec,
    control: Control,
    header: libc::msghdr,
    bytes: Vec<u8>,
    busy: bool,
}

impl Slot {
    fn new() -> Box<Slot> {
        // SAFETY: all-zero bytes are valid for these three.
        let (name, iov, header) = unsafe { (zeroed(), zeroed(), zeroed()) };
        Box::new(Slot { name, iov, control: Control::EMPTY, header, bytes: Vec::new(), busy: false })
    }

    /// Prepares a send to `to`, or over a connected socket.
    fn fill(&mut self, to: Option<SocketAddr>, batch: &[u8], segment: Option<u16>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(batch);
        self.header.msg_namelen = 0;
        self.header.msg_name = std::ptr::null_mut();
        if let Some(to) = to {
            (self.name, self.header.msg_namelen) = encode(to);
            self.header.msg_name = (&raw mut self.name).cast();
        }
        self.iov = libc::iovec { iov_base: self.bytes.as_mut_ptr().cast(), iov_len: self.bytes.len() };
        self.header.msg_iov = &raw mut self.iov;
        self.header.msg_iovlen = 1;
        self.header.msg_controllen = segment.map_or(0, |segment| encode_segment(&mut self.control, segment));
        self.header.msg_control = self.control.as_mut_ptr();
    }
}

/// Everything the kernel may touch until the ring is quiet.
struct Shared {
    pool: Pool,
    slots: [Box<Slot>; SENDS],
    /// Header that says which control messages the receive asks for.
    shape: Box<libc::msghdr>,
}

pub(super) struct Uring {
    ring: IoUring,
    lines: Lines,
    shared: ManuallyDrop<Shared>,
    enabled: bool,
    /// Sockets whose receive runs.
    receiving: Vec<bool>,
    /// Doorbells are being polled.
    polling: bool,
    /// Receptions found while something else was looked for: result and flags.
    received: VecDeque<(i32, u32)>,
    gso: bool,
}

// SAFETY: the pointers in the headers point into `shared`, which moves with them. The kernel accepts requests only
// from the thread that enabled the ring and refuses others with an error.
unsafe impl Send for Uring {}

impl Uring {
    pub(super) fn open(addr: SocketAddr) -> io::Result<Uring> {
        let lines = Lines::bind(addr)?;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_r_disabled()
            .setup_cqsize(256)
            .build(32)?;
        // SAFETY: all-zero bytes are a valid `msghdr`.
        let mut shape: Box<libc::msghdr> = Box::new(unsafe { zeroed() });
        shape.msg_controllen = size_of::<Control>();
        let shared = Shared { pool: Pool::new(), slots: std::array::from_fn(|_| Slot::new()), shape };
        let address = shared.pool.base.as_ptr() as u64;
        // SAFETY: the pool has COUNT entries and is freed only when the ring is quiet.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, COUNT, GROUP, 0)? };
        Ok(Uring {
            ring,
            lines,
            shared: ManuallyDrop::new(shared),
            enabled: false,
            receiving: vec![false],
            polling: false,
            received: VecDeque::new(),
            gso: true,
        })
    }

    /// Starts the receives that are not running.
    fn start(&mut self) -> io::Result<()> {
        if !self.enabled {
            // Binds the ring to the calling thread.
            self.ring.submitter().register_enable_rings()?;
            self.enabled = true;
        }
        while let Some(index) = self.receiving.iter().position(|running| !running) {
            let fd = Fd(self.lines.sockets()[index].as_raw_fd());
            let receive = opcode::RecvMsgMulti::new(fd, &raw const *self.shared.shape, GROUP).build();
            self.submit(&receive.user_data(RECEIVE + index as u64))?;
            self.receiving[index] = true;
        }
        Ok(())
    }

    fn submit(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: what the entry points to is in `shared` and stays as it is until the completion.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        self.ring.submit().map(drop)
    }

    /// Takes what is complete. Makes the kernel finish what it has put off, if there is anything.
    fn harvest(&mut self) -> io::Result<()> {
        let pending = {
            let queue = self.ring.submission();
            queue.taskrun() || queue.cq_overflow()
        };
        if pending {
            // SAFETY: no argument is passed.
            let entered = unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 0, GET_EVENTS, None) };
            match entered {
                Err(e) if !matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => return Err(e),
                _ => {}
            }
        }
        for entry in self.ring.completion() {
            let which = entry.user_data() as u32 as usize;
            match entry.user_data() - which as u64 {
                RECEIVE => {
                    self.receiving[which] &= cqueue::more(entry.flags());
                    self.received.push_back((entry.result(), entry.flags()));
                }
                SEND => {
                    self.shared.slots[which].busy = false;
                    // The device cannot cut batches. Other failures are losses.
                    if matches!(-entry.result(), libc::EIO | libc::EOPNOTSUPP) {
                        self.gso = false;
                    }
                }
                _ => self.polling = false,
            }
        }
        Ok(())
    }

    fn send_one(&mut self, to: SocketAddr, bytes: &[u8], segment: Option<u16>) -> io::Result<()> {
        if self.shared.slots.iter().all(|s| s.busy) {
            self.harvest()?;
        }
        let free = self.shared.slots.iter().position(|s| !s.busy);
        let Some(index) = free else { return Err(io::ErrorKind::WouldBlock.into()) };
        let (socket, name) = self.lines.towards(to);
        let slot = &mut self.shared.slots[index];
        slot.fill(name, bytes, segment);
        slot.busy = true;
        let (fd, header) = (Fd(socket.as_raw_fd()), &raw const slot.header);
        let send = opcode::SendMsg::new(fd, header).flags(libc::MSG_NOSIGNAL as u32).build();
        self.submit(&send.user_data(SEND + index as u64))
    }
}

impl Socket for Uring {
    fn connect(&mut self, peers: &[SocketAddr]) -> io::Result<()> {
        self.lines.connect(peers)?;
        self.receiving.resize(self.lines.sockets().len(), false);
        Ok(())
    }

    fn send(&mut self, to: SocketAddr, batch: &[u8], segment: usize) -> io::Result<()> {
        self.start()?;
        let result = if batch.len() <= segment {
            self.send_one(to, batch, None)
        } else if let (true, Ok(size)) = (self.gso, u16::try_from(segment)) {
            self.send_one(to, batch, Some(size))
        } else {
            batch.chunks(segment.max(1)).try_for_each(|one| self.send_one(to, one, None))
        };
        // Mostly it is done by now.
        self.harvest()?;
        result
    }

    fn recv(&mut self, f: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        self.start()?;
        if self.received.is_empty() {
            self.harvest()?;
        }
        let mut count = 0;
        while let Some((result, flags)) = self.received.pop_front() {
            let Some(id) = cqueue::buffer_select(flags) else {
                let error = io::Error::from_raw_os_error(-result);
                // Without a free buffer the receive ends and is started again.
                if result < 0 && -result != libc::ENOBUFS && !is_loss(&error) {
                    return Err(error);
                }
                continue;
            };
            count += self.shared.deliver(id, result, f);
            self.shared.pool.give(id);
        }
        self.start()?;
        Ok(count)
    }

    fn wait(&mut self, doorbells: BorrowedFd<'_>, limit: Duration) -> io::Result<()> {
        self.start()?;
        if !self.polling {
            let poll = opcode::PollAdd::new(Fd(doorbells.as_raw_fd()), libc::POLLIN as u32).build();
            self.submit(&poll.user_data(DOORBELLS))?;
            self.polling = true;
        }
        if !self.received.is_empty() {
            return Ok(());
        }
        let limit = Timespec::from(limit);
        match self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&limit)) {
            Err(e) if !matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => Err(e),
            _ => self.harvest(),
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.lines.local_addr()
    }

    fn receive_buffer(&self) -> usize {
        self.lines.receive_buffer()
    }

    fn kind(&self) -> SocketKind {
        SocketKind::Uring
    }
}

impl Shared {
    /// Hands over the datagrams of a filled buffer; at least one, so that it never looks like the end.
    fn deliver(&mut self, id: u16, result: i32, f: &mut dyn FnMut(&mut [u8])) -> usize {
        let len = usize::try_from(result).unwrap_or(0).min(SIZE);
        let buffer = &mut self.pool.buffer(id)[..len];
        let Ok(message) = RecvMsgOut::parse(buffer, &self.shape) else { return 1 };
        let segment = decode_segment(message.control_data());
        let (truncated, payload) = (message.is_payload_truncated(), message.payload_data().len());
        if truncated {
            return 1;
        }
        let start = buffer.len() - payload;
        let train = &mut buffer[start..];
        let segment = segment.unwrap_or(train.len()).max(1);
        let mut count = 0;
        for datagram in train.chunks_mut(segment) {
            f(datagram);
            count += 1;
        }
        count.max(1)
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let patience = Timespec::new().sec(1);
        let cancelled = self.ring.submitter().register_sync_cancel(Some(patience), CancelBuilder::any());
        let nothing_to_cancel = |e: &io::Error| e.raw_os_error() == Some(libc::ENOENT);
        let quiet = !self.enabled || cancelled.as_ref().err().is_none_or(nothing_to_cancel);
        let quiet = quiet && self.ring.submitter().unregister_buf_ring(GROUP).is_ok();
        // On another thread than the one that used it the ring cannot be told to stop; then the kernel keeps the memory.
        if quiet {
            // SAFETY: not used after this.
            unsafe { ManuallyDrop::drop(&mut self.shared) };
        }
    }
}
