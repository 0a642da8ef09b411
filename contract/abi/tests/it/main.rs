//! Tests of the public API, one module each.

mod decoders;
mod endings;
mod litmus;
mod memory;
mod queues;
