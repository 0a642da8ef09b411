//! The libfabric provider: MPI libraries and other programs of libfabric on the emulated Angara network.
//!
//! libfabric loads this library, finds [`fi_prov_ini`] and calls through tables of functions. [`abi`] has those tables and
//! structs; [`entry`] turns what comes from C into checked values; [`provider`] does the work, in safe Rust, on a
//! mailbox and the symmetric heap of an `angara` job; [`matching`] says which message goes to which receive.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod abi;
mod address;
mod atomics;
mod entry;
mod info;
mod log;
mod lookup;
mod matching;
mod memory;
mod process;
mod provider;
mod slots;
mod wire;

/// Most bytes of one message.
pub(crate) const MESSAGE_MAX: usize = 1 << 40;
/// Most bytes of what is injected: as many as a message that is sent at once has at most, so that a library which asks for
/// delivery, and injects what it can, does not hold up its short sends until their receivers look. Where a message is not sent at
/// once, its sender keeps a copy.
pub(crate) const INJECT_MAX: usize = 16_352;
/// Most bytes of writes and reads that keep their order.
pub(crate) const ORDERED_MAX: usize = 2048;
/// Most bytes of the target of one atomic: it fits a message with its comparands in jobs of any size.
pub(crate) const ATOMIC_MAX: usize = 768;
/// Bytes of an address.
pub(crate) const ADDRESS_BYTES: usize = 32;

pub use entry::fi_prov_ini;
