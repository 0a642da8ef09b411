//! What ended a PE, as the handler of signals writes it down and as the host learns of it.

use std::ffi::c_int;

const FRAMES: usize = 32;

/// What ended a PE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Number of the signal.
    pub signal: i32,
    /// The address that could not be used; 0 for SIGABRT and for a canary found dead.
    pub address: usize,
    /// The instruction; 0 for a canary found dead.
    pub rip: usize,
    /// The stack was too small.
    pub stack_overflow: bool,
    /// Addresses in the program, the innermost first: the instruction itself if it is the program's, then what on the
    /// stack looks like return addresses. Old ones may be among them.
    pub frames: Vec<usize>,
}

/// The same without memory from malloc, for the handler.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    signal: c_int,
    address: usize,
    rip: usize,
    pub(crate) overflow: bool,
    frames: [usize; FRAMES],
    count: usize,
}

impl Fault {
    pub(crate) const NONE: Fault =
        Fault { signal: 0, address: 0, rip: 0, overflow: false, frames: [0; FRAMES], count: 0 };

    /// Returns what signal `signal` did at instruction `rip`, for the sake of `address`.
    pub(crate) fn of(signal: c_int, address: usize, rip: usize) -> Fault {
        Fault { signal, address, rip, ..Fault::NONE }
    }

    /// Returns the same for the host.
    pub(crate) fn crash(&self) -> Crash {
        Crash {
            signal: self.signal,
            address: self.address,
            rip: self.rip,
            stack_overflow: self.overflow,
            frames: self.frames[..self.count].to_vec(),
        }
    }

    pub(crate) fn add(&mut self, frame: usize) {
        if let Some(place) = self.frames.get_mut(self.count) {
            *place = frame;
            self.count += 1;
        }
    }
}
