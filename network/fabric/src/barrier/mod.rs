//! Barriers, done by the adapters (paper 001).
//!
//! A node enters a barrier once all ports of the job at the node have. What the adapters then do
//! among themselves depends on the job's [`BarrierFamily`]; the host is told once, when the node
//! may leave. Either specials go from neighbour to neighbour and flush every channel of every link
//! (`multiphase`), or messages are routed like data from node to node (`messages`). Consecutive
//! barriers alternate in parity, so a node that is one barrier ahead is not mistaken. A route change
//! starts unfinished barriers again: messages carry the number of the change and older ones are
//! ignored. `check` watches that the guarantees hold.

mod check;
mod family;
mod group;
mod messages;
mod multiphase;
mod state;
mod unit;
mod work;

pub use check::BarrierCheck;
pub use family::BarrierFamily;
pub(crate) use state::{Barriers, Group, Job, Member};
pub use work::BarrierWork;
