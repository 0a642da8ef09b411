//! Implementation of the exported routines, on bytes: the job's state ([`runtime`]), addresses, errors, and one module per
//! kind of routine.

mod addresses;
pub(crate) mod amo;
mod check;
mod collectives;
mod entry;
mod heap;
pub(crate) mod heterogeneous;
pub(crate) mod locks;
pub(crate) mod memory;
mod mutex;
mod notes;
mod process;
pub(crate) mod rma;
mod runtime;
pub(crate) mod shmemx;
mod teams;
pub(crate) mod transfer;
pub(crate) mod wait;

pub(crate) use collectives::{coll, ops, reduce};
pub(crate) use entry::{state, told_state};
pub(crate) use mutex::lock;
pub(crate) use notes::{accesses, record};
pub(crate) use process::end::{bytes, die, ok};
pub(crate) use process::init;
pub(crate) use runtime::{Runtime, try_state, untold_state};
pub(crate) use teams::{group, handles, members, team};
