//! What people write and read: shares, times, sizes and lists in options and files, and lines on standard
//! output and error ([`print`]). [`fault`] is the grammar of faults.

pub mod fault;
pub mod print;
mod units;

pub use units::{bytes, list, share, show_bytes, time};
