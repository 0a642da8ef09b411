//! The drand48 family, with a state of its own per PE: zeros at first, as in libc.

use crate::libc_state::numbers::Drand;
use crate::record::current;
use std::ffi::{c_int, c_long, c_ushort};

unsafe extern "C" {
    fn drand48_r(state: *mut Drand, to: *mut f64) -> c_int;
    fn erand48_r(x: *mut c_ushort, state: *mut Drand, to: *mut f64) -> c_int;
    fn lrand48_r(state: *mut Drand, to: *mut c_long) -> c_int;
    fn nrand48_r(x: *mut c_ushort, state: *mut Drand, to: *mut c_long) -> c_int;
    fn mrand48_r(state: *mut Drand, to: *mut c_long) -> c_int;
    fn jrand48_r(x: *mut c_ushort, state: *mut Drand, to: *mut c_long) -> c_int;
    fn srand48_r(seed: c_long, state: *mut Drand) -> c_int;
    fn seed48_r(x: *mut c_ushort, state: *mut Drand) -> c_int;
    fn lcong48_r(x: *mut c_ushort, state: *mut Drand) -> c_int;
}

pub(super) fn symbol(name: &str) -> Option<*const ()> {
    Some(match name {
        "drand48" => drand48 as *const (),
        "erand48" => erand48 as *const (),
        "lrand48" => lrand48 as *const (),
        "nrand48" => nrand48 as *const (),
        "mrand48" => mrand48 as *const (),
        "jrand48" => jrand48 as *const (),
        "srand48" => srand48 as *const (),
        "seed48" => seed48 as *const (),
        "lcong48" => lcong48 as *const (),
        _ => return None,
    })
}

/// The state of the PE that runs.
fn state() -> *mut Drand {
    // SAFETY: only PEs have the addresses of these functions.
    unsafe { &raw mut current().libc.drand }
}

macro_rules! numbers {
    ($($name:ident() by $with:ident: $type:ty;)*) => {$(
        unsafe extern "C" fn $name() -> $type {
            let mut number = Default::default();
            // SAFETY: the PE's state and a place on the stack.
            unsafe { $with(state(), &mut number) };
            number
        }
    )*};
    ($($name:ident(x) by $with:ident: $type:ty;)*) => {$(
        unsafe extern "C" fn $name(x: *mut c_ushort) -> $type {
            let mut number = Default::default();
            // SAFETY: the program's three numbers, the PE's state and a place on the stack.
            unsafe { $with(x, state(), &mut number) };
            number
        }
    )*};
}

numbers! {
    drand48() by drand48_r: f64;
    lrand48() by lrand48_r: c_long;
    mrand48() by mrand48_r: c_long;
}

numbers! {
    erand48(x) by erand48_r: f64;
    nrand48(x) by nrand48_r: c_long;
    jrand48(x) by jrand48_r: c_long;
}

unsafe extern "C" fn srand48(seed: c_long) {
    // SAFETY: the PE's state.
    unsafe { srand48_r(seed, state()) };
}

unsafe extern "C" fn seed48(x: *mut c_ushort) -> *mut c_ushort {
    // SAFETY: the program's three numbers and the PE's state, which keeps the old ones.
    unsafe {
        seed48_r(x, state());
        (&raw mut (*state()).old_x).cast()
    }
}

unsafe extern "C" fn lcong48(x: *mut c_ushort) {
    // SAFETY: the program's seven numbers and the PE's state.
    unsafe { lcong48_r(x, state()) };
}
