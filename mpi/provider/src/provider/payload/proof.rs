//! What a sender's memory says beside payload: whose it is, and whether payloads have been revoked.

use crate::abi::constants::errno;
use crate::provider::fault::Fault;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;

/// What a peer reads beside payload in this process's memory.
#[repr(C)]
pub(super) struct Proof {
    /// Proves whose memory it is.
    pub(super) whose: u64,
    /// Number of revocations so far.
    pub(super) revoked: AtomicU64,
}

/// Where the second word of a [`Proof`] is.
pub(super) const REVOKED_AT: u64 = std::mem::offset_of!(Proof, revoked) as u64;

pub(super) static PROOF: LazyLock<Proof> = LazyLock::new(|| {
    let mut bytes = [0; 8];
    let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    let whose = if drawn == Ok(8) { u64::from_ne_bytes(bytes) } else { u64::from(std::process::id()) << 32 | 0x0f1 };
    Proof { whose, revoked: AtomicU64::new(0) }
});

/// How a peer's operation ends whose payload was revoked.
pub(super) const REVOKED: Fault = Fault { error: errno::EIO, cause: errno::ECANCELED };
