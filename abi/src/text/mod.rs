//! What people write and read: shares, times, sizes and lists in options and files, and lines on standard
//! output and error ([`print`]). [`whole_file`] is for files that are there as a whole or not at all. [`fault`] is the grammar of faults.

pub mod fault;
pub mod print;
mod units;
pub mod whole_file;

pub use units::{bytes, list, share, show_bytes, time, whole};
