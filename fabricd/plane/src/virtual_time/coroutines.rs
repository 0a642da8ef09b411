//! PEs that are coroutines of the data plane's thread, as the data plane sees them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// PEs on this thread. Each has a stack of its own, and one of them runs at a time.
pub trait Coroutines: Send {
    /// Lets a PE run until it has something for the data plane to do.
    fn resume(&mut self, pe: usize) -> Resumed;
    /// Has a PE that stands leave a note of what it waits for, if it has waited for long.
    fn note(&mut self, pe: usize);
    /// Set when there is a command: a PE that computes shall let it be done, and goes on then.
    fn wanted(&self) -> Arc<AtomicBool>;
}

/// What a PE has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resumed {
    /// It stands, as its clock page says.
    Stands,
    /// It has asked the daemon something, or has ended: it does nothing before there is a command.
    Waits,
}
