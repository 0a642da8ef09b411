//! Faults: what users say of them, and which are in force.

mod in_force;
mod kinds;

pub(crate) use in_force::{Faults, check_link};
pub use kinds::{Fault, FaultError, FaultKind, Impair, Impairment};
