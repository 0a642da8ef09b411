//! Adapters: ports, operations, and the packets they become.
//!
//! What the units of an adapter do (barriers, trees) is above this: they are given the adapters they belong to.

mod answer;
mod inject;
mod near;
mod ops;
mod ports;
mod state;

pub(crate) use inject::Step;
pub(crate) use ops::{Doing, OpRecord};
pub(crate) use state::Adapters;
