//! `rand` and `random` with a state of their own per PE, made at the first call; the same numbers as libc's.

use crate::libc_state::numbers::{RandomData, initstate_r};
use crate::record::current;
use std::ffi::{c_char, c_int, c_long, c_uint};

unsafe extern "C" {
    fn random_r(data: *mut RandomData, to: *mut i32) -> c_int;
    fn srandom_r(seed: c_uint, data: *mut RandomData) -> c_int;
    fn setstate_r(state: *mut c_char, data: *mut RandomData) -> c_int;
}

pub(super) fn symbol(name: &str) -> Option<*const ()> {
    Some(match name {
        "rand" => rand as *const (),
        "random" => random as *const (),
        "srand" | "srandom" => srandom as *const (),
        "initstate" => initstate as *const (),
        "setstate" => setstate as *const (),
        _ => return None,
    })
}

/// The state of the PE that runs.
fn data() -> *mut RandomData {
    // SAFETY: only PEs have the addresses of these functions.
    unsafe { current() }.libc.random.data()
}

unsafe extern "C" fn rand() -> c_int {
    let mut number = 0;
    // SAFETY: the PE's state and a place on the stack.
    unsafe { random_r(data(), &mut number) };
    number
}

unsafe extern "C" fn random() -> c_long {
    // SAFETY: no conditions.
    c_long::from(unsafe { rand() })
}

unsafe extern "C" fn srandom(seed: c_uint) {
    // SAFETY: the PE's state.
    unsafe { srandom_r(seed, data()) };
}

/// Where a state given by the program begins: one word before what the generator uses.
unsafe fn given(data: *mut RandomData) -> *mut c_char {
    // SAFETY: the state of a generator that was made.
    unsafe { (*data).state.sub(1).cast() }
}

unsafe extern "C" fn initstate(seed: c_uint, state: *mut c_char, len: usize) -> *mut c_char {
    // SAFETY: the program's memory and the PE's state.
    unsafe {
        let (data, before) = (data(), given(data()));
        if initstate_r(seed, state, len, data) == 0 { before } else { std::ptr::null_mut() }
    }
}

unsafe extern "C" fn setstate(state: *mut c_char) -> *mut c_char {
    // SAFETY: the program's memory and the PE's state.
    unsafe {
        let (data, before) = (data(), given(data()));
        if setstate_r(state, data) == 0 { before } else { std::ptr::null_mut() }
    }
}
