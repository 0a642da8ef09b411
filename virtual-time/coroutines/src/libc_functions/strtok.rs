//! `strtok` with a place of its own per PE.

use crate::record::current;
use std::ffi::c_char;

pub(super) fn symbol(name: &str) -> Option<*const ()> {
    (name == "strtok").then_some(strtok as *const ())
}

unsafe extern "C" {
    fn strtok_r(text: *mut c_char, of: *const c_char, place: *mut *mut c_char) -> *mut c_char;
}

unsafe extern "C" fn strtok(text: *mut c_char, of: *const c_char) -> *mut c_char {
    // SAFETY: the program's arguments, on its stack.
    unsafe { strtok_r(text, of, &raw mut current().libc.strtok) }
}
