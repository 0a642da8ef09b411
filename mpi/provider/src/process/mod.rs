//! The one place of this process in a job, shared by all that libfabric opens here.

mod attach;
mod one;
mod turns;

pub(crate) use attach::attach;
pub(crate) use one::{give_way, leave, provider, settle, wait_for};
pub(crate) use turns::stand_if_it_is_to;
