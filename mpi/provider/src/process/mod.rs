//! The one place of this process in a job, shared by all that libfabric opens here.

mod attach;
mod helper;
mod one;
mod turns;

pub(crate) use attach::{attach, leave};
pub(crate) use helper::{Helper, wake};
pub(crate) use one::{provider, settle, wait_for};
pub(crate) use turns::stand_if_it_is_to;
