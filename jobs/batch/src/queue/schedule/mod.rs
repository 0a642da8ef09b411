//! Schedulers: which waiting job starts next.
//!
//! Plans ahead are by estimates of run times, as batch systems make them. A reservation is a start time and
//! a set of nodes. On a machine with shapes, a number of nodes would promise too much: enough free nodes may
//! still be no set when the time has come.

mod conservative;
mod easy;
mod fcfs;
mod nodes;
mod profile;
#[cfg(test)]
mod tests;

pub use conservative::Conservative;
pub use easy::Easy;
pub use fcfs::Fcfs;

use super::engine::Desk;

/// An order in which waiting jobs start.
pub trait Scheduler {
    /// Name, as the command line has it.
    fn name(&self) -> &'static str;

    /// A job has ended.
    fn ended(&mut self, _job: u32, _desk: &Desk) {}

    /// Starts what may start now. Called at every instant at which jobs have ended or were submitted.
    fn pass(&mut self, desk: &mut Desk);
}
