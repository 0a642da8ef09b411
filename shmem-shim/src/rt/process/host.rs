//! The process that has all PEs of a job, as they ask it ([`super::inside`] has what it asks of them).

use angara_abi::inside::Host;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Longest description of a line of the program.
const LINE_MAX: usize = 4096;
/// The process that all PEs are in, if this is one.
static HOST: AtomicPtr<Host> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the process that all PEs are in, if this is one.
pub(crate) fn host() -> Option<&'static Host> {
    // SAFETY: null, or what [`set_host`] was given.
    unsafe { HOST.load(Ordering::Relaxed).as_ref() }
}

/// Says that from now on this is the process that all PEs are in.
pub(super) fn set_host(host: &'static Host) {
    HOST.store(std::ptr::from_ref(host).cast_mut(), Ordering::Relaxed);
}

/// Returns where the copy of the program begins that contains an address, and its file, where this process has such copies.
pub(crate) fn copy_of(address: *const ()) -> Option<(usize, String)> {
    let mut file: *const c_char = std::ptr::null();
    let base = (host()?.find)(address as usize, &mut file);
    // SAFETY: a string of the host's, which stays.
    (base != 0).then(|| (base, unsafe { CStr::from_ptr(file) }.to_string_lossy().into_owned()))
}

/// Returns the line of an address in such a copy.
pub(crate) fn line_of(address: *const ()) -> Option<String> {
    copy_of(address)?;
    let mut text = vec![0; LINE_MAX];
    let len = (host()?.line)(address as usize, text.as_mut_ptr(), text.len());
    text.truncate(len);
    String::from_utf8(text).ok().filter(|text| !text.is_empty())
}
