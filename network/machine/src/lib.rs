//! Machine files: the shape of a network, and what everything on it takes.
//!
//! Programs (`angara run --machine`, `fabricd --machine`) and simulations (`angara sim`) read the same files. A file says
//! only what differs from the defaults; [`KEYS`] lists everything there is, with units and sources.
#![warn(missing_docs)] // others read them
#![forbid(unsafe_code)]

mod file;
mod keys;
mod window;

pub use file::{Machine, MachineError, SHIPPED, shape_names};
pub use keys::{KEYS, Key, MPI_TABLE, Values};

/// What crates.io shows is compiled and run with the examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
