//! `getopt` for several programs at once: libc keeps where it is within an argument in a place that cannot be reached.

use crate::libc_state::variables::Variables;
use crate::record::current;
use crate::record::one_thread::OneThread;
use std::ffi::{c_char, c_int, c_void};

pub(super) fn symbol(name: &str) -> Option<*const ()> {
    Some(match name {
        "getopt" | "__posix_getopt" => getopt as *const (),
        "getopt_long" => getopt_long as *const (),
        "getopt_long_only" => getopt_long_only as *const (),
        _ => return None,
    })
}

unsafe extern "C" {
    #[link_name = "getopt"]
    fn libc_getopt(n: c_int, args: *const *mut c_char, short: *const c_char) -> c_int;
    #[link_name = "getopt_long"]
    fn libc_getopt_long(
        n: c_int,
        args: *const *mut c_char,
        short: *const c_char,
        long: *const c_void,
        index: *mut c_int,
    ) -> c_int;
    #[link_name = "getopt_long_only"]
    fn libc_getopt_long_only(
        n: c_int,
        args: *const *mut c_char,
        short: *const c_char,
        long: *const c_void,
        index: *mut c_int,
    ) -> c_int;
}

/// The arguments that libc's hidden state is about.
static LAST: OneThread<*const *mut c_char> = OneThread::new(std::ptr::null());

/// Calls libc's function with this PE's variables, and takes them back.
///
/// # Safety
/// Called on a PE's stack with its arguments.
unsafe fn with(args: *const *mut c_char, call: impl Fn() -> c_int) -> c_int {
    // SAFETY: libc's variables are this PE's; copies lie in its image.
    unsafe {
        copies(|at, libc_has| *libc_has = (at as *const c_int).read_unaligned());
        let fresh = !std::mem::replace(&mut current().libc.getopt_begun, true);
        if fresh && Variables::read().optind == 1 {
            // Zero makes libc forget all it knows, and begin with the first argument.
            Variables { optind: 0, ..Variables::read() }.write();
        } else if *LAST.get() != args && Variables::read().optind != 0 {
            forget();
        }
        *LAST.get() = args;
        let result = call();
        copies(|at, libc_has| (at as *mut c_int).write_unaligned(*libc_has));
        if let Some(at) = current().libc.copy_of("optarg") {
            (at as *mut *mut c_char).write_unaligned(Variables::read().optarg);
        }
        result
    }
}

/// Has libc forget where it was, while its variables stay.
///
/// # Safety
/// As for `with`.
unsafe fn forget() {
    // SAFETY: an array of one argument, which ends with null.
    unsafe {
        let keep = Variables::read();
        Variables { optind: 0, ..keep }.write();
        let none = [c"".as_ptr().cast_mut(), std::ptr::null_mut()];
        libc_getopt(1, none.as_ptr(), c"".as_ptr());
        keep.write();
    }
}

/// Calls `each` with the address of an image's copy and the value that libc has.
///
/// # Safety
/// Called on a PE's stack.
unsafe fn copies(each: impl Fn(usize, &mut c_int)) {
    // SAFETY: only this thread uses the variables.
    unsafe {
        let (state, mut v) = (&current().libc, Variables::read());
        for (name, value) in [("optind", &mut v.optind), ("opterr", &mut v.opterr), ("optopt", &mut v.optopt)] {
            if let Some(at) = state.copy_of(name) {
                each(at, value);
            }
        }
        v.write();
    }
}

unsafe extern "C" fn getopt(n: c_int, args: *const *mut c_char, short: *const c_char) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { with(args, || libc_getopt(n, args, short)) }
}

unsafe extern "C" fn getopt_long(
    n: c_int,
    args: *const *mut c_char,
    short: *const c_char,
    long: *const c_void,
    index: *mut c_int,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { with(args, || libc_getopt_long(n, args, short, long, index)) }
}

unsafe extern "C" fn getopt_long_only(
    n: c_int,
    args: *const *mut c_char,
    short: *const c_char,
    long: *const c_void,
    index: *mut c_int,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { with(args, || libc_getopt_long_only(n, args, short, long, index)) }
}
