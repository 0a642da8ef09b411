//! The contract between `fabricd` and everything that talks to it.
//!
//! A node's adapter is emulated as shared memory. This crate says what lies where (control and
//! status registers, injection rings, descriptor queues, segments, read-only job pages), how a
//! packet looks bit by bit, and which messages a client and the daemon exchange while setting
//! that memory up. It is the only crate whose job is `unsafe` shared memory: the daemon and the
//! driver reach every mapped word through the checked types in here.
//!
//! No public bit-level description of the Angara adapter exists. Facts (operations, virtual
//! channels, 128-bit flits, CRC in the last flit, rings, DMA and CSR regions) come from the
//! papers named in `docs/reference/registers.md`; field positions are ours and are listed there.
#![warn(missing_docs)] // others read them
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux")))]
compile_error!(
    "the shared-memory protocols here rely on Linux memfds and on what x86-64 and aarch64 promise of words that several \
     processes access; on another platform they would be silently weaker, so this refuses to build"
);

mod chip;
#[cfg(not(loom))]
mod control;
mod memory;
#[cfg(all(loom, test))]
mod models;
pub mod random;
#[cfg(all(test, not(loom)))]
mod registers;
mod signals;

pub use chip::{account, capture, csr, desc, packet, queue};
#[cfg(not(loom))]
pub use chip::{channel, clock};
#[cfg(not(loom))]
pub use control::architecture::Architecture;
#[cfg(not(loom))]
pub use control::job_id::JobId;
#[cfg(not(loom))]
pub use control::{doubts, inside, job, note, program_clock};
pub use memory::{copy, order, shm, wait};
pub use signals::NoSignals;

/// Version of every layout in this crate and of every message in `angara-protocol`. Daemon and client must agree exactly.
pub const ABI_VERSION: u32 = 14;
/// First eight bytes of every page that starts with a [`shm::PageHeader`]: `ANGARA\0` and the page kind.
pub const MAGIC: [u8; 7] = *b"ANGARA\0";
/// Bytes in one flit (paper 000, section 2: 128 bits).
pub const FLIT_BYTES: usize = 16;
/// Most payload bytes in one packet (16 data flits; our choice, within the 4-bit field family of comparable chips).
pub const PAYLOAD_MAX: usize = 256;
/// Most flits in one packet: header, 16 data flits, tail.
pub const PACKET_FLITS_MAX: usize = 18;
/// Broadcast/reduce trees (paper 000, section 1).
pub const TREES: usize = 16;
/// Reduce packets a router holds at once per tree (paper 000, section 1).
pub const REDUCES: usize = 16;
/// Unit of layouts: regions of a job begin and end at multiples of it, on every machine. What the kernel maps is counted in
/// pages of the machine's own ([`machine_page`]).
pub const PAGE: usize = 4096;

/// Bytes of a page of this machine's kernel: 4, 16 or 64 KiB on aarch64.
pub fn machine_page() -> usize {
    // Not rustix's: it looks for the vDSO first, where valgrind has none.
    // SAFETY: it reads no memory of ours.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(page).unwrap_or(PAGE)
}

/// Says why shared memory cannot be laid out in pages of `page` bytes, if so. Parts of regions are mapped and given back by
/// themselves, and with larger pages neighbours would share one; it has been tried with no others.
#[cfg(not(loom))]
pub fn refuses_pages(page: usize) -> Option<String> {
    (page != PAGE).then(|| {
        format!(
            "this kernel has pages of {} KiB, and memory is shared in pages of 4 KiB; use a kernel with pages of 4 KiB",
            page >> 10
        )
    })
}

/// The pages of this machine, unless they are refused.
#[cfg(not(loom))]
pub fn require_pages() -> std::io::Result<()> {
    refuses_pages(machine_page()).map_or(Ok(()), |why| Err(std::io::Error::new(std::io::ErrorKind::Unsupported, why)))
}

/// Rounds `n` up to whole pages; `None` on overflow.
pub fn page_round(n: usize) -> Option<usize> {
    n.checked_add(PAGE - 1).map(|n| n & !(PAGE - 1))
}

#[cfg(all(test, not(loom)))]
mod tests {
    #[test]
    fn larger_pages_are_refused_by_a_sentence() {
        assert_eq!(super::refuses_pages(4096), None);
        for (page, said) in [(16 << 10, "pages of 16 KiB"), (64 << 10, "pages of 64 KiB")] {
            let why = super::refuses_pages(page).expect("refused");
            assert!(why.contains(said) && why.contains("use a kernel"), "{why}");
        }
    }
}

/// What crates.io shows is compiled and run with the examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
