//! Tests of the public API, one module each.

mod behaviour;
mod hostile;
mod loopback;
mod net;
mod number;
mod simulation;
