//! PEs that are all in this process: whose turn it is.

use crate::driver::routines::{self, Current};
use crate::driver::virtual_time::{VirtualClock, change_clock};

/// What this library keeps of the PE whose turn it is, while it is another one's.
pub struct Turn(*mut VirtualClock, Current);

impl Turn {
    /// Nobody's.
    pub const NONE: Turn = Turn(std::ptr::null_mut(), None);
}

// SAFETY: the clock is its PE's, which is one thread's.
unsafe impl Send for Turn {}

/// From now on it is the turn of the PE that `turn` belongs to. Returns what belongs to the one whose turn it was.
pub fn change(turn: Turn) -> Turn {
    Turn(change_clock(turn.0), routines::change(turn.1))
}
