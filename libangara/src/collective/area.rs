//! The library's own area at the start of each heap slice, as libraries above this one, trees and barriers share it.

use angara_abi::job::INTERNAL_BYTES;
use angara_abi::{PAYLOAD_MAX, REDUCES, TREES};

/// Bytes at the start of the internal area ([`crate::Job::internal`]) that a library on top of this one
/// may use; the rest of the area belongs to barriers and trees.
pub const INTERNAL_FREE: usize = INTERNAL_BYTES - 128 * 1024;

/// Bytes of the internal area that take results: one packet per tree and ReduceId.
const RESULT_BYTES: usize = TREES * REDUCES * PAYLOAD_MAX;

/// Where dissemination flags lie: one u64 per round.
pub(super) const FLAGS: u64 = (INTERNAL_FREE + RESULT_BYTES) as u64;
