//! What routers of either switching have in common: how they are laid out, who gets what, and when it takes effect.
//!
//! [`crate::generic`] has a packet pass a router as a whole, [`crate::wormhole`] flit by flit. Each says by [`network::Switched`]
//! what it knows of channels, sources and what is due, and by [`engine::Cycles`] how it goes through a cycle.

pub(crate) mod changes;
mod drain;
pub(crate) mod engine;
pub(crate) mod mask;
pub(crate) mod network;
pub(crate) mod news;
pub(crate) mod place;
pub(crate) mod router;
pub(crate) mod slow;
pub(crate) mod timing;
pub(crate) mod view;
