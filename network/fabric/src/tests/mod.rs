//! Tests of the whole network, with a driver that owns memory.

mod barriers;
mod boundary;
mod cluster;
mod collectives;
mod driver;
mod faults;
mod impaired;
mod listen;
mod lossy;
mod machine;
mod occupancy;
mod order;
mod routing;
mod sets;
mod split;
mod traffic;
