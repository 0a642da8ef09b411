//! Functions that answer in memory of libc: the answer is copied to memory of the PE, which stays where it is.

use crate::libc_state::results::Text;
use crate::record::current;
use std::ffi::{c_char, c_int, c_long};

unsafe extern "C" {
    fn tzset();
    fn asctime(time: *const libc::tm) -> *const c_char;
    fn ctime(time: *const libc::time_t) -> *const c_char;
    fn inet_ntoa(address: libc::in_addr) -> *const c_char;
    fn l64a(number: c_long) -> *const c_char;
    fn ecvt(number: f64, digits: c_int, point: *mut c_int, sign: *mut c_int) -> *const c_char;
    fn fcvt(number: f64, digits: c_int, point: *mut c_int, sign: *mut c_int) -> *const c_char;
    fn strsignal(signal: c_int) -> *const c_char;
}

pub(super) fn symbol(name: &str) -> Option<*const ()> {
    Some(match name {
        "gmtime" => own_gmtime as *const (),
        "localtime" => own_localtime as *const (),
        "localtime_r" => own_localtime_r as *const (),
        "asctime" => own_asctime as *const (),
        "ctime" => own_ctime as *const (),
        "ctime_r" => own_ctime_r as *const (),
        "inet_ntoa" => own_inet_ntoa as *const (),
        "l64a" => own_l64a as *const (),
        "ecvt" => own_ecvt as *const (),
        "fcvt" => own_fcvt as *const (),
        "strerror" => own_strerror as *const (),
        "strsignal" => own_strsignal as *const (),
        _ => return None,
    })
}

/// The PE's copy of a text of libc.
///
/// # Safety
/// Called on a PE's stack with null or a terminated text.
unsafe fn kept(which: Text, text: *const c_char) -> *mut c_char {
    // SAFETY: the caller's promise.
    unsafe { current().libc.results.keep(which, text) }
}

/// The one time that `gmtime` and `localtime` answer in.
unsafe fn time() -> *mut libc::tm {
    // SAFETY: called on a PE's stack.
    unsafe { current() }.libc.results.time()
}

unsafe extern "C" fn own_gmtime(when: *const libc::time_t) -> *mut libc::tm {
    // SAFETY: the program's time.
    unsafe { libc::gmtime_r(when, time()) }
}

unsafe extern "C" fn own_localtime(when: *const libc::time_t) -> *mut libc::tm {
    // SAFETY: the program's time.
    unsafe { own_localtime_r(when, time()) }
}

/// The time zone that libc knows may be another PE's.
unsafe extern "C" fn own_localtime_r(when: *const libc::time_t, to: *mut libc::tm) -> *mut libc::tm {
    // SAFETY: the program's time and place; the environment is this PE's.
    unsafe {
        tzset();
        libc::localtime_r(when, to)
    }
}

unsafe extern "C" fn own_asctime(when: *const libc::tm) -> *mut c_char {
    // SAFETY: the program's time.
    unsafe { kept(Text::Time, asctime(when)) }
}

unsafe extern "C" fn own_ctime(when: *const libc::time_t) -> *mut c_char {
    // SAFETY: the program's time.
    unsafe { kept(Text::Time, ctime(when)) }
}

unsafe extern "C" fn own_ctime_r(when: *const libc::time_t, to: *mut c_char) -> *mut c_char {
    unsafe extern "C" {
        fn asctime_r(time: *const libc::tm, to: *mut c_char) -> *mut c_char;
    }
    // SAFETY: the program's time and place; the time between is on the stack.
    unsafe {
        let mut time = std::mem::zeroed();
        if own_localtime_r(when, &mut time).is_null() { std::ptr::null_mut() } else { asctime_r(&time, to) }
    }
}

unsafe extern "C" fn own_inet_ntoa(address: libc::in_addr) -> *mut c_char {
    // SAFETY: no conditions.
    unsafe { kept(Text::Address, inet_ntoa(address)) }
}

unsafe extern "C" fn own_l64a(number: c_long) -> *mut c_char {
    // SAFETY: no conditions.
    unsafe { kept(Text::Number, l64a(number)) }
}

unsafe extern "C" fn own_ecvt(number: f64, digits: c_int, point: *mut c_int, sign: *mut c_int) -> *mut c_char {
    // SAFETY: the program's places.
    unsafe { kept(Text::Digits, ecvt(number, digits, point, sign)) }
}

unsafe extern "C" fn own_fcvt(number: f64, digits: c_int, point: *mut c_int, sign: *mut c_int) -> *mut c_char {
    // SAFETY: the program's places.
    unsafe { kept(Text::Digits, fcvt(number, digits, point, sign)) }
}

/// Known errors have texts that never change; a program may look at two of them at a time.
unsafe extern "C" fn own_strerror(error: c_int) -> *mut c_char {
    // SAFETY: libc's text.
    unsafe {
        let text = libc::strerror(error);
        if begins(text, b"Unknown ") { kept(Text::Error, text) } else { text }
    }
}

/// As for errors.
unsafe extern "C" fn own_strsignal(signal: c_int) -> *mut c_char {
    // SAFETY: libc's text.
    unsafe {
        let text = strsignal(signal);
        let made = begins(text, b"Unknown ") || begins(text, b"Real-time ");
        if made { kept(Text::Signal, text) } else { text.cast_mut() }
    }
}

unsafe fn begins(text: *const c_char, with: &[u8]) -> bool {
    // SAFETY: the caller's terminated text.
    unsafe { libc::strncmp(text, with.as_ptr().cast(), with.len()) == 0 }
}
