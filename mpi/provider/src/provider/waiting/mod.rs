//! A process that waits: what its looks in vain do for others, and what it says of its wait.

mod idle;
mod looks;
mod waits;

pub(super) use idle::{Idle, Next};
pub(crate) use idle::{is_wanted, wanting};
pub(super) use looks::Looks;
pub(super) use waits::{Quiet, UnderWay};
