//! Looks in vain of a process that waits: what they do for others, and when they end.

mod idle;
mod looks;

pub(super) use idle::{Idle, Next};
pub(crate) use idle::{is_wanted, wanting};
pub(super) use looks::Looks;
