//! One injection channel: its page, its status page, its ring and its descriptor queue.
//!
//! Four protection domains, four memfds: the client writes the channel page, the ring and the
//! queue; the status page it can only read.
//!
//! Plain memory has no side effects, so writing a CSR is a command: index, value and a sequence
//! number in the channel page's mailbox, checked, executed and acknowledged by the daemon.

use crate::queue::{DMA_SLOTS, QueueMemory, RING_FLITS};
use crate::shm::{Access, Mapping, PageKind, Part, ShmError, Source};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a channel page and of a status page.
pub const PAGE_BYTES: usize = crate::PAGE;
/// Bytes of an injection ring.
pub const RING_BYTES: usize = RING_FLITS * crate::FLIT_BYTES;
/// Bytes of a descriptor queue.
pub const DMA_BYTES: usize = DMA_SLOTS * 64;

/// Byte offsets in the channel page (client-written).
pub mod page {
    /// u32: ring flits made visible.
    pub const TX_TAIL: usize = 0x080;
    /// u32: mailbox command sequence; written last.
    pub const MAILBOX_SEQ: usize = 0x100;
    /// u32: byte offset of the CSR to write.
    pub const MAILBOX_CSR: usize = 0x104;
    /// u64: value to write.
    pub const MAILBOX_VALUE: usize = 0x108;
}

/// Byte offsets in the status page (daemon-written).
pub mod status {
    /// u32: ring flits taken.
    pub const TX_HEAD: usize = 0x080;
    /// u32: descriptors taken.
    pub const DMA_HEAD: usize = 0x100;
    /// u32: sequence of the latest post whose source data has been copied.
    pub const COPIED: usize = 0x180;
    /// u32: sequence of the latest post all of whose packets are injected (guarantee 2).
    pub const INJECTED: usize = 0x184;
    /// u32: sequence of the latest post up to which every read has delivered its data.
    pub const DELIVERED: usize = 0x188;
    /// u32: 0, or a [`super::Fault`] code: the sticky error state.
    pub const ERR: usize = 0x200;
    /// u32: sequence of the post that caused it.
    pub const ERR_SEQ: usize = 0x204;
    /// u32: mailbox sequence acknowledged.
    pub const MAILBOX_ACK: usize = 0x280;
    /// u32: 0 if the command was executed, else a [`super::Fault`] code.
    pub const MAILBOX_RESULT: usize = 0x284;
    /// u32 × 16: reduce results delivered to this channel, per tree.
    pub const TREE_RESULTS: usize = 0x300;
    /// u32 × 16: broadcasts delivered to this channel, per tree.
    pub const TREE_BCASTS: usize = 0x340;
}

/// Sticky error of a channel: why the daemon stopped serving it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Fault {
    /// A descriptor failed validation.
    BadDescriptor = 1,
    /// A ring packet or the doorbell failed validation.
    BadPacket = 2,
    /// A place outside its region.
    BadRange = 3,
    /// An endpoint, node or tree that does not belong to the job.
    BadTarget = 4,
    /// CSR index unknown, read-only, or not allowed for this channel.
    BadCsr = 5,
    /// Every route to the target is dead.
    Unreachable = 6,
    /// A reduce slot received operands that do not match.
    BadReduce = 7,
}

impl Fault {
    /// Decodes a code from a status page.
    pub fn from_code(code: u32) -> Option<Fault> {
        use Fault::*;
        [BadDescriptor, BadPacket, BadRange, BadTarget, BadCsr, Unreachable, BadReduce]
            .into_iter()
            .find(|f| *f as u32 == code)
    }
    /// One sentence for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Fault::BadDescriptor => "a DMA descriptor failed validation",
            Fault::BadPacket => "a packet in the injection ring failed validation",
            Fault::BadRange => "an operation reached outside its memory region",
            Fault::BadTarget => "an endpoint, node or tree does not belong to the job",
            Fault::BadCsr => "a CSR command named an unknown or protected register",
            Fault::Unreachable => "every route to the target is dead",
            Fault::BadReduce => "participants of a reduction disagree on operation or length",
        }
    }
}

/// Memory of one channel, from either side.
pub struct Channel {
    /// Page that the client writes: doorbell, mailbox.
    page: Mapping,
    /// Page that the daemon writes: heads, progress, error.
    status: Mapping,
    /// Injection ring: 16-byte flits.
    ring: Mapping,
    /// Descriptor queue: 64-byte slots.
    dma: Mapping,
}

/// Descriptors of a channel's memory, in the order [`Channel::map`] takes them.
pub struct ChannelFds {
    /// Channel page.
    pub page: OwnedFd,
    /// Status page, sealed read-only.
    pub status: OwnedFd,
    /// Injection ring.
    pub ring: OwnedFd,
    /// Descriptor queue.
    pub dma: OwnedFd,
}

impl Channel {
    /// Daemon side: creates the memory of a channel; its descriptors where other processes can map it.
    pub fn create(source: &Source, name: &str) -> io::Result<(Option<ChannelFds>, Channel)> {
        let (page_fd, page) = source.create(&format!("{name}-page"), PAGE_BYTES, Access::Shared)?;
        let (status_fd, status) = source.create(&format!("{name}-status"), PAGE_BYTES, Access::ReadOnly)?;
        let (ring_fd, ring) = source.create(&format!("{name}-ring"), RING_BYTES, Access::Shared)?;
        let (dma_fd, dma) = source.create(&format!("{name}-dma"), DMA_BYTES, Access::Shared)?;
        page.stamp_page(PageKind::Channel, PAGE_BYTES).map_err(io::Error::other)?;
        status.stamp_page(PageKind::Status, PAGE_BYTES).map_err(io::Error::other)?;
        let fds = match (page_fd, status_fd, ring_fd, dma_fd) {
            (Some(page), Some(status), Some(ring), Some(dma)) => Some(ChannelFds { page, status, ring, dma }),
            _ => None,
        };
        Ok((fds, Channel { page, status, ring, dma }))
    }

    /// Channel page, status page, injection ring and descriptor queue, for a client in the same process.
    pub fn parts(&self) -> [Part; 4] {
        [&self.page, &self.status, &self.ring, &self.dma].map(Part::of)
    }

    /// Client side: the channel that lies in these regions of the same process.
    pub fn over([page, status, ring, dma]: [Mapping; 4]) -> Result<Channel, ShmError> {
        page.expect_page(PageKind::Channel)?;
        status.expect_page(PageKind::Status)?;
        ring.require(RING_BYTES)?;
        dma.require(DMA_BYTES)?;
        Ok(Channel { page, status, ring, dma })
    }

    /// Client side: maps a channel the daemon handed over and checks its headers.
    pub fn map(fds: &ChannelFds) -> io::Result<Channel> {
        let page = Mapping::map(&fds.page, PAGE_BYTES)?;
        let status = Mapping::map_read_only(&fds.status, PAGE_BYTES)?;
        page.expect_page(PageKind::Channel).map_err(io::Error::other)?;
        status.expect_page(PageKind::Status).map_err(io::Error::other)?;
        let ring = Mapping::map(&fds.ring, RING_BYTES)?;
        let dma = Mapping::map(&fds.dma, DMA_BYTES)?;
        Ok(Channel { page, status, ring, dma })
    }

    fn page_u32(&self, at: usize) -> &AtomicU32 {
        self.page.at(at).expect("constant offset inside the page")
    }
    /// A u32 of the status page by its [`status`] offset.
    pub fn status_u32(&self, at: usize) -> &AtomicU32 {
        self.status.at(at).expect("constant offset inside the page")
    }

    /// Client: sends a CSR write command and returns its sequence, to be compared with
    /// [`Channel::csr_reply`].
    pub fn csr_command(&self, csr: u32, value: u64) -> u32 {
        let seq = self.page_u32(page::MAILBOX_SEQ).load(Ordering::Relaxed).wrapping_add(1);
        self.page_u32(page::MAILBOX_CSR).store(csr, Ordering::Relaxed);
        let v: &AtomicU64 = self.page.at(page::MAILBOX_VALUE).expect("constant offset inside the page");
        v.store(value, Ordering::Relaxed);
        self.page_u32(page::MAILBOX_SEQ).store(seq, Ordering::Release);
        seq
    }
    /// Client: the outcome of command `seq` once the daemon acknowledged it.
    pub fn csr_reply(&self, seq: u32) -> Option<Result<(), Fault>> {
        if self.status_u32(status::MAILBOX_ACK).load(Ordering::Acquire) != seq {
            return None;
        }
        match self.status_u32(status::MAILBOX_RESULT).load(Ordering::Relaxed) {
            0 => Some(Ok(())),
            code => Some(Err(Fault::from_code(code).unwrap_or(Fault::BadCsr))),
        }
    }
    /// Daemon: the pending command `(sequence, csr, value)`, if any.
    pub fn csr_pending(&self) -> Option<(u32, u32, u64)> {
        let seq = self.page_u32(page::MAILBOX_SEQ).load(Ordering::Acquire);
        if seq == self.status_u32(status::MAILBOX_ACK).load(Ordering::Relaxed) {
            return None;
        }
        let v: &AtomicU64 = self.page.at(page::MAILBOX_VALUE).expect("constant offset inside the page");
        Some((seq, self.page_u32(page::MAILBOX_CSR).load(Ordering::Relaxed), v.load(Ordering::Relaxed)))
    }
    /// Daemon: acknowledges command `seq`.
    pub fn csr_acknowledge(&self, seq: u32, result: Result<(), Fault>) {
        let code = result.map_or_else(|f| f as u32, |()| 0);
        self.status_u32(status::MAILBOX_RESULT).store(code, Ordering::Relaxed);
        self.status_u32(status::MAILBOX_ACK).store(seq, Ordering::Release);
    }
    /// The sticky error and the post that caused it, if the channel is in error.
    pub fn error(&self) -> Option<(Fault, u32)> {
        let code = self.status_u32(status::ERR).load(Ordering::Acquire);
        (code != 0).then(|| {
            let seq = self.status_u32(status::ERR_SEQ).load(Ordering::Relaxed);
            (Fault::from_code(code).unwrap_or(Fault::BadDescriptor), seq)
        })
    }
    /// Daemon: puts the channel into its sticky error state.
    pub fn set_error(&self, fault: Fault, seq: u32) {
        self.status_u32(status::ERR_SEQ).store(seq, Ordering::Relaxed);
        self.status_u32(status::ERR).store(fault as u32, Ordering::Release);
    }
}

impl QueueMemory for Channel {
    fn ring_flits(&self) -> usize {
        RING_FLITS
    }
    fn dma_slots(&self) -> usize {
        DMA_SLOTS
    }
    #[inline]
    fn flit(&self, index: usize, half: usize) -> &AtomicU64 {
        self.ring.at(index * 16 + half * 8).expect("index reduced modulo the capacity")
    }
    #[inline]
    fn slot(&self, slot: usize, word: usize) -> &AtomicU64 {
        self.dma.at(slot * 64 + word * 8).expect("slot reduced modulo the capacity")
    }
    fn tx_tail(&self) -> &AtomicU32 {
        self.page_u32(page::TX_TAIL)
    }
    fn tx_head(&self) -> &AtomicU32 {
        self.status_u32(status::TX_HEAD)
    }
    fn dma_head(&self) -> &AtomicU32 {
        self.status_u32(status::DMA_HEAD)
    }
}

/// Used by `ShmError` conversions in callers that map several pages at once.
impl From<ShmError> for io::Error {
    fn from(e: ShmError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, e)
    }
}
