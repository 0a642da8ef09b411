//! States of random numbers.

use std::ffi::{c_char, c_int, c_uint, c_ushort};

/// libc's `struct random_data`.
#[repr(C)]
pub(crate) struct RandomData {
    front: *mut i32,
    rear: *mut i32,
    pub(crate) state: *mut i32,
    kind: c_int,
    degree: c_int,
    separation: c_int,
    end: *mut i32,
}

/// Bytes of state that libc begins with.
const OWN: usize = 128;

#[repr(C)]
struct Made {
    data: RandomData,
    own: [u8; OWN],
}

/// A PE's state; null before the first call.
pub(crate) struct Random(*mut Made);

impl Default for Random {
    fn default() -> Random {
        Random(std::ptr::null_mut())
    }
}

impl Random {
    /// Returns the state, as after `srandom(1)` at first.
    pub(crate) fn data(&mut self) -> *mut RandomData {
        // SAFETY: the memory is zeroed, as libc wants it.
        unsafe {
            if self.0.is_null() {
                self.0 = libc::calloc(1, size_of::<Made>()).cast();
                if self.0.is_null() {
                    libc::abort()
                }
                initstate_r(1, (&raw mut (*self.0).own).cast(), OWN, &raw mut (*self.0).data);
            }
            &raw mut (*self.0).data
        }
    }

    /// # Safety
    /// The PE never runs again.
    pub(super) unsafe fn free(&mut self) {
        // SAFETY: null or from calloc.
        unsafe { libc::free(self.0.cast()) };
        self.0 = std::ptr::null_mut();
    }
}

unsafe extern "C" {
    pub(crate) fn initstate_r(seed: c_uint, state: *mut c_char, len: usize, data: *mut RandomData) -> c_int;
}

/// libc's `struct drand48_data`.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Drand {
    x: [c_ushort; 3],
    pub(crate) old_x: [c_ushort; 3],
    c: c_ushort,
    init: c_ushort,
    a: u64,
}
