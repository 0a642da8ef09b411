//! What peers send: messages of the program until a receive has them, and accesses to memory.

mod early;
mod posted;
mod receive;
mod target;

pub(super) use posted::Look;
pub(super) use receive::{Arrivals, Landing};
pub(super) use target::Targets;
