//! Adapters: ports, operations, and the packets they become.
//!
//! The units of an adapter (barriers, trees) are above this; they are given the adapters they belong to.

mod answer;
mod inject;
mod near;
mod ops;
mod order;
mod ports;
mod state;

pub(crate) use inject::Step;
pub(crate) use ops::OpRecord;
pub use order::OrderCheck;
#[cfg(test)]
pub(crate) use ports::heedless;
pub(crate) use state::Adapters;
