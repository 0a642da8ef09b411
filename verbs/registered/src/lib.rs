//! Registered memory: pages of a program exchanged for pages of its seat.
//!
//! An adapter of a machine reaches memory of a program because the kernel pins it there. The emulated one reaches memory that the
//! daemon has made. So whoever registers memory has its pages exchanged: their content goes to pages of the seat, and those
//! are mapped in their place. From then on the network, the processes of other seats, and the program have the same pages.
//!
//! ```text
//! program   ... | heap | registered | heap | ...        addresses stay as they are
//!                           | same pages
//! seat      ... | mailbox, tables | area                what the daemon and the other seats have mapped, too
//! ```
//!
//! * [`Area`] is the part of a seat that is for this. It mirrors the addresses of the program in *windows* ([`windows`]), so
//!   that neighbours there are neighbours here: regions may share pages, overlap, and grow into each other.
//! * Pages are counted ([`ranges::Counts`]): the first region of a page exchanges it, the last one gives the program a page
//!   of its own back.
//! * An exchange is safe against other threads and system calls that write there meanwhile, or is not made ([`exchange`]).
//! * [`fork`]: a child gets copies.
//!
//! What cannot be exchanged stays where it is, and [`Stays`] says why.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod area;
mod book;
mod exchange;
mod fork;
mod guard;
mod maps;
mod published;
mod ranges;
mod stays;
mod windows;

pub use area::{Area, emptied, offset_in};
pub use guard::{is_guarded, own_thread};
pub use published::Published;
pub use stays::Stays;
