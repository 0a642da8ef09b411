//! PEs that are coroutines of the data plane's thread, as the data plane sees them.

/// PEs on this thread. Each has a stack of its own, and one of them runs at a time.
pub trait Coroutines: Send {
    /// Lets a PE run until it has something for the data plane to do.
    fn resume(&mut self, pe: usize) -> Resumed;
}

/// What a PE has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resumed {
    /// It stands, as its clock page says.
    Stands,
    /// It has asked the daemon something, or has ended: it does nothing before there is a command.
    Waits,
}
