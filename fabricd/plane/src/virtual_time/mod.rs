//! The data plane in virtual time: PEs are coroutines of one run of events.
//!
//! A PE runs alone, until it must wait or has run ahead by less than anything another PE does takes to reach it. While it
//! runs, nothing that it can see changes. Then its posts are taken, with the times at which it made them, and the network
//! goes on to the next PE that is due; what it does on the way is done to memory. So the network never passes the clock of
//! a PE that runs, and what happens depends on nothing but the program: not on cores, load or addresses.
//!
//! A PE is a process, which sleeps while it stands, or a coroutine of this very thread ([`coroutines`]).
//!
//! Everything is best on one core: a hand-over there is a switch between two threads, and across cores it is an interrupt
//! and a core that wakes up.

mod absent;
pub(crate) mod coroutines;
pub(crate) mod gates;
mod links;
mod log;
pub(crate) mod patience;
pub(crate) mod record;
pub(crate) mod report;
mod rest;
mod spent;
pub(crate) mod standing;
pub(crate) mod touch;
pub(crate) mod turns;
