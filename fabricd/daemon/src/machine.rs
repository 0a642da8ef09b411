//! What the control plane asks of the machine it runs on, beside time, sockets and memory. A simulation answers it itself.

use crate::limits;
use crate::users::accounts;
use std::io;
use std::pin::Pin;

/// A machine, real or simulated.
pub(crate) trait Machine {
    /// Random bytes that nobody can foresee.
    fn random(&self) -> io::Result<[u8; 16]>;
    /// Name of a user here; `None` if the number is nobody's.
    fn user(&self, uid: u32) -> Pin<Box<dyn Future<Output = Option<String>> + '_>>;
    /// Every limit on the memory of one job, its name and its bytes; `configured` is one of them.
    fn memory_limits(&self, configured: Option<u64>) -> Vec<(String, u64)>;
    /// Returns what `CLOCK_MONOTONIC` shows, by which PEs note since when they wait: nanoseconds.
    fn monotonic(&self) -> u64;
    /// Returns what `CLOCK_REALTIME` shows, by which packets are captured: nanoseconds.
    fn wall(&self) -> u64;
    /// Cores the daemon may run on.
    fn cores(&self) -> usize;
}

/// The one this process runs on.
pub(crate) struct Real;

impl Machine for Real {
    fn random(&self) -> io::Result<[u8; 16]> {
        let mut bytes = [0u8; 16];
        let n = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
        match n == bytes.len() {
            true => Ok(bytes),
            false => Err(io::Error::other("the kernel gave too few random bytes")),
        }
    }

    fn user(&self, uid: u32) -> Pin<Box<dyn Future<Output = Option<String>> + '_>> {
        Box::pin(accounts::name(uid))
    }

    fn memory_limits(&self, configured: Option<u64>) -> Vec<(String, u64)> {
        limits::memory_limits(configured)
    }

    fn monotonic(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }

    fn wall(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }

    fn cores(&self) -> usize {
        limits::cores()
    }
}
