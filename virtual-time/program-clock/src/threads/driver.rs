//! What the driver is told of threads.

use super::places::first_due;
use super::{order, quiet, turns};
use angara_abi::program_clock::{Call, Threads};
use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<u32> = const { Cell::new(0) };
    static CALL: Cell<Call> = const { Cell::new(Call::NONE) };
}

/// For the driver.
pub(crate) const ALL: Threads = Threads { inside, first_due, is_quiet, call, order: order::ORDER };

extern "C" fn is_quiet() -> bool {
    quiet::is_alone() || quiet::is_quiet()
}

/// See [`angara_abi::program_clock::Inside`].
extern "C" fn inside() -> *mut u32 {
    turns::this().map_or_else(|| INSIDE.with(Cell::as_ptr), |turn| turn.inside.as_ptr())
}

/// See [`angara_abi::program_clock::OfThread`].
extern "C" fn call() -> *mut Call {
    turns::this().map_or_else(|| CALL.with(Cell::as_ptr), |turn| turn.call.as_ptr())
}
