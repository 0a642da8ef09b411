//! Operations of all PEs of a job together: barriers ([`barrier`], and between PEs of one host that share
//! cores [`host`]), and reductions and broadcasts by the routers ([`tree`]).

pub(crate) mod area;
pub(crate) mod barrier;
mod host;
pub mod tree;
