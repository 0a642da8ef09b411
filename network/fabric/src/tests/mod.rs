//! Tests of the whole network, with a driver that owns memory.

mod barriers;
mod collectives;
mod driver;
mod failures;
mod hosts;
mod listen;
mod machine;
mod occupancy;
mod order;
mod routing;
mod sets;
mod traffic;
