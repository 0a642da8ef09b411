//! Tests of the whole network, with a driver that owns memory.

mod barriers;
mod boundary;
mod collectives;
mod driver;
mod faults;
mod lossy;
mod order;
mod routing;
mod traffic;
