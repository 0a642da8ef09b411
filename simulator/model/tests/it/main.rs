//! Tests of the public API, one module each.

mod empty_network;
mod parallel;
mod random_networks;
mod soak;
mod trace;
