//! The functions that libfabric calls: each turns pointers into checked values and hands these on.
//!
//! Their contract is libfabric's: an object is one that was opened and has not been closed; buffers are valid until the
//! operation completes; arrays have as many elements as is said. That is what every SAFETY reason here rests on. No panic
//! leaves a function.

mod atomic;
mod av;
mod cntr;
mod cq;
mod domain;
mod ep;
mod eq;
mod fabric;
mod form;
mod msg;
mod parents;
mod poll;
mod rma;
mod tagged;
mod waitobj;

pub use fabric::fi_prov_ini;

use crate::abi::constants::errno;
use crate::abi::ops::absent;
use crate::abi::structs::{FiOps, Fid, Ioc, RmaIov};
use crate::memory::UserMemory;
use crate::provider::Outcome;
use crate::wire::Remote;
use libc::{c_char, c_int, c_void, iovec};
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Calls `f`; an error, and a panic as an error, is a negative number.
#[inline(always)]
fn guard(f: impl FnOnce() -> Outcome<isize>) -> isize {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => value,
        Ok(Err(e)) => -(e as isize),
        Err(_) => {
            crate::log::warn("this provider has a bug: it panicked");
            -(errno::EOTHER as isize)
        }
    }
}

/// [`guard`] for functions that return an `int` and nothing else.
#[inline(always)]
fn guarded(f: impl FnOnce() -> Outcome) -> c_int {
    guard(|| f().map(|()| 0)) as c_int
}

/// Users of an object: it is closed after they are. Each has one more of these.
#[derive(Clone, Default)]
struct Users(Arc<()>);

impl Users {
    /// `-FI_EBUSY` as long as there is one.
    fn none(&self) -> Outcome {
        if Arc::strong_count(&self.0) == 1 { Ok(()) } else { Err(errno::EBUSY) }
    }
}

type Close = unsafe extern "C" fn(*mut Fid) -> c_int;
type Bind = unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int;
type Control = unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int;

const fn fi_ops(close: Close, bind: Bind, control: Control) -> FiOps {
    FiOps { size: size_of::<FiOps>(), close, bind, control, ops_open: absent, tostr: absent, ops_set: absent }
}

unsafe extern "C" fn no_bind(_: *mut Fid, _: *mut Fid, _: u64) -> c_int {
    -errno::ENOSYS
}

unsafe extern "C" fn no_control(_: *mut Fid, _: c_int, _: *mut c_void) -> c_int {
    -errno::ENOSYS
}

/// The pieces of a buffer.
///
/// # Safety
/// The pieces are `count` that lie at `iov`, and as [`UserMemory::pieces`].
unsafe fn pieces(iov: *const iovec, count: usize) -> Outcome<UserMemory> {
    if count > 0 && iov.is_null() {
        return Err(errno::EINVAL);
    }
    // SAFETY: the caller promises what the callee asks for.
    let all = (0..count).map(|i| unsafe { *iov.add(i) }).map(|piece| (piece.iov_base.cast(), piece.iov_len));
    // SAFETY: the caller promises what the callee asks for.
    unsafe { UserMemory::pieces(all) }.ok_or(errno::EINVAL)
}

/// The pieces of a buffer of elements.
///
/// # Safety
/// As [`pieces`].
unsafe fn elements(ioc: *const Ioc, count: usize, size: usize) -> Outcome<UserMemory> {
    if count > 0 && ioc.is_null() {
        return Err(errno::EINVAL);
    }
    // SAFETY: the caller promises what the callee asks for.
    let all =
        (0..count).map(|i| unsafe { *ioc.add(i) }).map(|piece| (piece.addr.cast(), piece.count.saturating_mul(size)));
    // SAFETY: the caller promises what the callee asks for.
    unsafe { UserMemory::pieces(all) }.ok_or(errno::EINVAL)
}

/// Memory of a target; `unit` is what its lengths count.
///
/// # Safety
/// There are `count` elements at `iov`.
unsafe fn remotes(iov: *const RmaIov, count: usize, unit: usize) -> Outcome<Vec<Remote>> {
    if count > crate::memory::PIECES || (count > 0 && iov.is_null()) {
        return Err(errno::EINVAL);
    }
    // SAFETY: the caller promises what the callee asks for.
    let all = (0..count).map(|i| unsafe { *iov.add(i) });
    Ok(all.map(|r| Remote { addr: r.addr, len: r.len.saturating_mul(unit) as u64, key: r.key }).collect())
}

/// # Safety
/// Null or a string.
unsafe fn text(p: *const c_char) -> Option<String> {
    // SAFETY: the caller promises what the callee asks for.
    (!p.is_null()).then(|| unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned())
}

thread_local! {
    /// The text that was last given to a caller without a buffer.
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Gives a text to a caller's buffer of `len` bytes and returns it. Without a buffer it stays until this thread asks for the
/// next one.
///
/// # Safety
/// `buf` is null or writable for `len` bytes.
unsafe fn give_text(text: &str, buf: *mut c_char, len: usize) -> *const c_char {
    let text = CString::new(text).unwrap_or_default();
    let bytes = text.as_bytes_with_nul();
    if buf.is_null() || len == 0 {
        return TEXT.with_borrow_mut(|kept| {
            *kept = text;
            kept.as_ptr()
        });
    }
    let shown = bytes.len().min(len);
    // SAFETY: at most `len` bytes, the last of which ends the text.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), buf, shown);
        *buf.add(shown - 1) = 0;
    }
    buf
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_given_with_and_without_a_buffer() {
        let mut room = [1 as c_char; 8];
        // SAFETY: the buffer has as many bytes; texts end with a zero.
        unsafe {
            let all = [0, 4, 8].map(|len| CStr::from_ptr(give_text("no such", room.as_mut_ptr(), len)).to_owned());
            assert_eq!(all.map(|text| text.into_string().ok()), ["no such", "no ", "no such"].map(|s| Some(s.into())));
            let kept = give_text("key", std::ptr::null_mut(), 9);
            assert_eq!(CStr::from_ptr(kept), c"key");
        }
    }
}
