//! What routines begin with: the job, or the end of the program when there is none.

use super::process::pe;
use super::{Runtime, die, ok, try_state, untold_state};
use crate::ctypes::Name;

/// Returns the job, or ends the program when there is none.
#[inline]
pub(crate) fn state(name: Name) -> &'static Runtime {
    match untold_state() {
        Some(s) => s,
        None => told_state(name),
    }
}

/// [`state`] of a job that is told of every call, which this tells it.
#[cold]
pub(crate) fn told_state(name: Name) -> &'static Runtime {
    match try_state() {
        Some(s) => {
            ok(name, None, s.job.called(name));
            s
        }
        None => die(name, None, pe::this().why_no_job()),
    }
}
