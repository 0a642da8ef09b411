//! Tests of the whole network, with a driver that owns memory.

mod driver;
mod traffic;
