//! One network in several parts, as several hosts have it.

mod boundary;
mod cluster;
mod split;
