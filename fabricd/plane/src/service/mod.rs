//! Channels in service: their posts go to the network, and what that does comes to memory and channels.
//!
//! Jobs and their PEs stay as they are meanwhile: a [`Service`] can only look at them.

mod effects;
mod posts;
pub(crate) mod turn;
pub(crate) mod view;
