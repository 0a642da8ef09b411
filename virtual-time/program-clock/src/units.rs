//! Picoseconds of other units, and the first and last times of a program.

/// Picoseconds of a nanosecond and of a microsecond.
pub(crate) const NS: u64 = 1_000;
pub(crate) const US: u64 = 1_000_000;
/// Picoseconds of a second.
pub(crate) const S: u64 = 1_000_000_000_000;
/// Reading of the monotonic clock when a program begins, in picoseconds.
pub(crate) const BEGIN_AT: u64 = S;

/// The end of virtual time, after about 27 days: nothing that a program asks for is later, and a program that comes here is
/// ended with a word.
pub(crate) const LATEST: u64 = 1 << 61;
