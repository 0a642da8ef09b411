//! How a PE that stands hands over to the data plane: two processes sleep on words of the clock page in turn, or one thread
//! goes on elsewhere.

use angara_abi::clock::ClockPage;
use angara_abi::inside::Host;
use angara_abi::wait::{Kernel, Linux};
use std::time::Duration;

/// The way from a PE that stands to the data plane, and back.
pub(crate) trait HandOver: Send + Sync {
    /// The page says that the PE stands, or something else that the data plane shall look at.
    fn tell(&self, page: &ClockPage);
    /// Returns when stand `number` may have ended, and after `at_most` in any case where others are other processes.
    fn wait(&self, page: &ClockPage, number: u32, at_most: Duration);
}

/// PE and data plane are two processes.
pub(crate) struct Futexes;

impl HandOver for Futexes {
    fn tell(&self, page: &ClockPage) {
        Linux.futex_wake(page.bell());
    }
    fn wait(&self, page: &ClockPage, number: u32, at_most: Duration) {
        Linux.futex_wait(page.goes(), number.wrapping_sub(1), at_most);
    }
}

/// They are one thread.
pub(crate) struct SameThread(pub(crate) &'static Host);

impl HandOver for SameThread {
    fn tell(&self, _: &ClockPage) {}
    fn wait(&self, _: &ClockPage, _: u32, _: Duration) {
        (self.0.stand)();
    }
}
