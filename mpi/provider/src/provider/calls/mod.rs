//! What libfabric's functions ask for.

mod access;
mod endpoint;
mod receive;
mod send;

pub(crate) use access::{Access, AtomicCall};
pub(crate) use receive::{Receive, Tagged};
pub(crate) use send::SendCall;
