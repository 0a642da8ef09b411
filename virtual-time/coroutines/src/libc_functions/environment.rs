//! Functions that look at, and change, the environment of a PE.

use crate::libc_state::variables::environ_place;
use crate::record::current;
use std::ffi::{c_char, c_int};

pub(super) fn symbol(name: &str) -> Option<*const ()> {
    Some(match name {
        "getenv" | "secure_getenv" | "__secure_getenv" => getenv as *const (),
        "setenv" => setenv as *const (),
        "putenv" => putenv as *const (),
        "unsetenv" => unsetenv as *const (),
        "clearenv" => clearenv as *const (),
        _ => return None,
    })
}

/// The array of the PE that runs: the program may have set its variable itself.
unsafe fn array() -> *mut *mut c_char {
    // SAFETY: the image's copy of the variable, or libc's.
    unsafe {
        let state = &current().libc;
        let copy = ["environ", "__environ", "_environ"].iter().find_map(|n| state.copy_of(n));
        copy.map_or(environ_place().cast_const(), |at| at as *const _).read_unaligned()
    }
}

unsafe fn set_array(to: *mut *mut c_char) {
    // SAFETY: the image's copies of the variable, and libc's.
    unsafe {
        let state = &current().libc;
        for at in ["environ", "__environ", "_environ"].iter().filter_map(|n| state.copy_of(n)) {
            (at as *mut *mut *mut c_char).write_unaligned(to);
        }
        environ_place().write(to);
    }
}

/// The entry of this name: its place in the array, if any, and the number of entries.
unsafe fn find(name: *const c_char, len: usize) -> (Option<*mut *mut c_char>, usize) {
    // SAFETY: the array ends with null, its strings are terminated.
    unsafe {
        let (array, mut at) = (array(), 0);
        let mut found = None;
        while !array.is_null() && !(*array.add(at)).is_null() {
            let entry = *array.add(at);
            if found.is_none() && libc::strncmp(entry, name, len) == 0 && *entry.add(len) == b'=' as c_char {
                found = Some(array.add(at));
            }
            at += 1;
        }
        (found, at)
    }
}

/// Length of a name; none if it cannot be one.
unsafe fn name_len(name: *const c_char) -> Option<usize> {
    // SAFETY: null or the program's terminated text.
    unsafe {
        let valid = !name.is_null() && *name != 0 && libc::strchr(name, c_int::from(b'=')).is_null();
        if !valid {
            *libc::__errno_location() = libc::EINVAL;
        }
        valid.then(|| libc::strlen(name))
    }
}

/// Puts `entry` in place of the one with the same name, or at the end.
unsafe fn put(entry: *mut c_char, len: usize) -> c_int {
    // SAFETY: the array is this PE's own: on its stack, or grown by malloc.
    unsafe {
        let (found, count) = find(entry, len);
        if let Some(place) = found {
            *place = entry;
            return 0;
        }
        let bigger = libc::malloc((count + 2) * size_of::<*mut c_char>()).cast::<*mut c_char>();
        if bigger.is_null() {
            return -1;
        }
        if count > 0 {
            std::ptr::copy_nonoverlapping(array(), bigger, count);
        }
        bigger.add(count).write(entry);
        bigger.add(count + 1).write(std::ptr::null_mut());
        set_array(bigger);
        libc::free(std::mem::replace(&mut current().libc.environment.grown, bigger).cast());
        0
    }
}

unsafe extern "C" fn getenv(name: *const c_char) -> *mut c_char {
    // SAFETY: the program's terminated text.
    unsafe {
        let len = libc::strlen(name);
        find(name, len).0.map_or(std::ptr::null_mut(), |place| (*place).add(len + 1))
    }
}

unsafe extern "C" fn setenv(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int {
    // SAFETY: the program's terminated texts; the new entry is as long as they, with '=' and the end.
    unsafe {
        let Some(len) = name_len(name) else { return -1 };
        if overwrite == 0 && find(name, len).0.is_some() {
            return 0;
        }
        let value_len = libc::strlen(value);
        let entry = libc::malloc(len + value_len + 2).cast::<c_char>();
        if entry.is_null() {
            return -1;
        }
        std::ptr::copy_nonoverlapping(name, entry, len);
        *entry.add(len) = b'=' as c_char;
        std::ptr::copy_nonoverlapping(value, entry.add(len + 1), value_len + 1);
        put(entry, len)
    }
}

unsafe extern "C" fn putenv(entry: *mut c_char) -> c_int {
    // SAFETY: the program's terminated text, which becomes part of the environment.
    unsafe {
        let sign = libc::strchr(entry, c_int::from(b'='));
        if sign.is_null() { unsetenv(entry) } else { put(entry, sign.offset_from(entry) as usize) }
    }
}

unsafe extern "C" fn unsetenv(name: *const c_char) -> c_int {
    // SAFETY: the program's text; the array is this PE's own and ends with null.
    unsafe {
        let Some(len) = name_len(name) else { return -1 };
        while let (Some(mut place), _) = find(name, len) {
            while !(*place).is_null() {
                *place = *place.add(1);
                place = place.add(1);
            }
        }
        0
    }
}

unsafe extern "C" fn clearenv() -> c_int {
    // SAFETY: no conditions.
    unsafe { set_array(std::ptr::null_mut()) };
    0
}
