//! The `generic` router: input queues, separable input-first allocation, everything at cycle edges.
//!
//! One cycle is two phases. First whatever is due is applied: flits' credits, tails that free ports,
//! heads that reach an input. These touch one channel each and commute. Then every source with a
//! packet injects and every router with a request allocates. What they cause at another router is
//! due at least [`WINDOW`](crate::routers::timing::WINDOW) cycles later, so the order of routers within a cycle cannot matter.
//!
//! Nor, then, does it matter if one range of routers runs some cycles ahead of another. A network larger than a
//! core's cache is therefore cut into *blocks* that fit, and each block is taken through a window
//! of cycles before the next one is looked at. Parts of a network that different threads simulate
//! (`crate::parallel`) run ahead of each other for the same reason.

mod allocators;
pub(crate) mod build;
mod changes;
mod engine;
mod routers;
mod state;

pub(crate) use build::{engine, places};
