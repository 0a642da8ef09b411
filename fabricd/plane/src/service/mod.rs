//! What the network does to memory and channels.

mod effects;
