//! Time that each routine of a library above this driver costs its PE, where time is virtual.
//!
//! The library says when the program calls a routine ([`Routines::begins`]). What the routine does with the driver moves
//! the clock, and each time that counts for it: nobody has to say when it returns. The program's own looks at clocks and
//! its sleeps lie behind the last of it. Routines are told apart by thread.

use angara_protocol::msg::{ROUTINES_MAX, Routine};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// The routine that this thread called last, and the time up to which that has been counted.
    static CURRENT: Cell<Current> = const { Cell::new(None) };
}

/// The routine that a PE called last, and the time up to which that has been counted.
pub(crate) type Current = Option<(&'static str, u64)>;

/// It is another PE's turn on this thread: its routine in place of that of the one before, which is returned.
pub(crate) fn change(current: Current) -> Current {
    CURRENT.replace(current)
}

#[derive(Clone, Copy, Default)]
struct Cost {
    calls: u64,
    ps: u64,
    bytes: u64,
}

#[derive(Default)]
pub(super) struct Routines(Mutex<BTreeMap<&'static str, Cost>>);

impl Routines {
    fn add(&self, routine: &'static str, more: Cost) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cost = all.entry(routine).or_default();
        cost.calls += more.calls;
        cost.ps += more.ps;
        cost.bytes += more.bytes;
    }

    /// The program calls a routine, at `now`.
    pub(super) fn begins(&self, routine: &'static str, now: u64) {
        CURRENT.set(Some((routine, now)));
        self.add(routine, Cost { calls: 1, ..Cost::default() });
    }

    /// The clock has come to `now` inside the library.
    pub(super) fn goes_on(&self, now: u64) {
        let Some((routine, since)) = CURRENT.get() else { return };
        CURRENT.set(Some((routine, now)));
        self.add(routine, Cost { ps: now.saturating_sub(since), ..Cost::default() });
    }

    /// Counts bytes that the routine asks the network to carry.
    pub(super) fn carries(&self, bytes: u32) {
        if let Some((routine, _)) = CURRENT.get() {
            self.add(routine, Cost { bytes: bytes.into(), ..Cost::default() });
        }
    }

    /// Returns what routines have cost since this was asked last; the costliest, if there are too many to be told.
    pub(super) fn take(&self) -> Vec<Routine> {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let row = |(name, cost): (&str, Cost)| Routine {
            name: name.into(),
            calls: cost.calls,
            ps: cost.ps,
            bytes: cost.bytes,
        };
        let mut rows: Vec<Routine> = all.into_iter().map(row).collect();
        if rows.len() > ROUTINES_MAX {
            rows.sort_by_key(|row| std::cmp::Reverse((row.ps, row.calls)));
            rows.truncate(ROUTINES_MAX);
        }
        rows
    }
}

/// Returns the name of a routine, which stays.
pub(super) fn name(name: *const c_char) -> Option<&'static str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the library that wraps calls names them by its constants, which end with 0.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_routine_costs_what_passes_in_it_and_not_what_passes_behind_it() {
        let routines = Routines::default();
        routines.goes_on(5);
        routines.begins("put", 10);
        routines.carries(8);
        routines.goes_on(12);
        routines.goes_on(15);
        // The program computes until 40.
        routines.begins("quiet", 40);
        routines.goes_on(70);
        routines.begins("put", 100);
        routines.goes_on(101);
        let row = |name: &str, calls, ps, bytes| Routine { name: name.into(), calls, ps, bytes };
        assert_eq!(routines.take(), [row("put", 2, 6, 8), row("quiet", 1, 30, 0)]);
        assert_eq!(routines.take(), []);
    }
}
