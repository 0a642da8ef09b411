//! The end of a job because something failed.
//!
//! A routine of the API has no way to return an error, so whatever fails (a PE that does not
//! exist, an address that is not symmetric, a target every route to which is dead) ends the job
//! with one message that names PE, routine and reason: see [`die`].

use super::exit;
use crate::ctypes::Name;
use crate::rt::notes::caller;
use crate::rt::runtime::{node, try_state};
use angara::Error;
use std::fmt::Display;

/// Ends the job: one line on stderr, the daemon told, exit status 1.
#[cold]
#[inline(never)]
pub(crate) fn die(name: Name, target: Option<usize>, why: impl Display) -> ! {
    let to = target.map_or(String::new(), |pe| format!(" to PE {pe}"));
    let at = caller::caller().map_or(String::new(), |place| format!(" [called at {place}]"));
    let line = match try_state() {
        Some(s) => format!("angara: PE {} ({}): {name}{to}: {why}{at}\n", s.me, node(s, s.me)),
        None => format!("angara: {name}{to}: {why}{at}\n"),
    };
    // The launcher names this PE itself; the whole story is on stderr.
    exit::failed(1, &line, &format!("{name}{to} failed"))
}

/// Passes success on; anything else ends the job. A job that is already ending says nothing more:
/// whoever ended it has spoken.
#[inline]
pub(crate) fn ok<T>(name: Name, pe: Option<usize>, result: Result<T, Error>) -> T {
    match result {
        Ok(v) => v,
        Err(e) => fail(name, pe, e),
    }
}

#[cold]
#[inline(never)]
fn fail(name: Name, pe: Option<usize>, error: Error) -> ! {
    if let Error::JobEnded = error {
        exit::with_the_job(error.exit_status());
    }
    die(name, pe, error)
}

/// Returns the bytes of `nelems` elements of `size` bytes.
#[inline]
pub(crate) fn bytes(name: Name, nelems: usize, size: usize) -> usize {
    match nelems.checked_mul(size) {
        Some(n) if n <= isize::MAX as usize => n,
        _ => die(name, None, format_args!("{nelems} elements of {size} bytes do not fit into the address space")),
    }
}
