//! All PEs of a job in this process, as coroutines of one thread: what their host calls ([`angara_abi::inside`]).
//!
//! The library is loaded once. What it keeps of a PE is in [`Pe`], and what is asked for most, the state of the job, in statics
//! that change with each turn.

use super::exit;
use super::init::Boot;
use super::pe::{self, Pe};
use crate::rt::{Runtime, STATE, TOLD, record};
use angara::{Job, inside};
use angara_abi::inside::{Host, Library, Parts, VERSION};
use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Longest description of a line of the program.
const LINE_MAX: usize = 4096;
static LIBRARY: Library = Library { version: VERSION, join, enter, leave, ended: exit::ended_inside };
/// The process that all PEs are in, if this is one.
static HOST: AtomicPtr<Host> = AtomicPtr::new(std::ptr::null_mut());

/// The process that all PEs are in, if this is one.
pub(crate) fn host() -> Option<&'static Host> {
    // SAFETY: null, or what `join` was given.
    unsafe { HOST.load(Ordering::Relaxed).as_ref() }
}

/// Where the copy of the program begins that contains an address, and its file, where this process has such copies.
pub(crate) fn copy_of(address: *const ()) -> Option<(usize, String)> {
    let mut file: *const c_char = std::ptr::null();
    let base = (host()?.find)(address as usize, &mut file);
    // SAFETY: a string of the host's, which stays.
    (base != 0).then(|| (base, unsafe { CStr::from_ptr(file) }.to_string_lossy().into_owned()))
}

/// The line of an address in such a copy.
pub(crate) fn line_of(address: *const ()) -> Option<String> {
    copy_of(address)?;
    let mut text = vec![0; LINE_MAX];
    let len = (host()?.line)(address as usize, text.as_mut_ptr(), text.len());
    text.truncate(len);
    String::from_utf8(text).ok().filter(|text| !text.is_empty())
}

/// For the process that all PEs are in ([`angara_abi::inside::SYMBOL`]).
#[unsafe(no_mangle)]
pub(super) extern "C" fn angara_inside() -> &'static Library {
    &LIBRARY
}

/// A PE, and what is in statics during its turn.
struct Guest {
    pe: Pe,
    state: *mut Runtime,
    told: *mut Runtime,
    turn: inside::Turn,
    /// Calls of the library that it is in.
    depth: u8,
}

unsafe extern "C" fn join(host: &'static Host, parts: &Parts, why: &mut *const c_char) -> *mut angara_abi::inside::Pe {
    HOST.store(std::ptr::from_ref(host).cast_mut(), Ordering::Relaxed);
    let tell = |text: String, why: &mut *const c_char| {
        *why = CString::new(text.replace('\0', "?")).unwrap_or_default().into_raw();
        std::ptr::null_mut()
    };
    if host.version != VERSION {
        return tell(format!("libsma.so is of another version ({VERSION}, not {})", host.version), why);
    }
    // SAFETY: the host's promise.
    match unsafe { Job::inside(host, parts) } {
        Ok(job) => {
            let turn = inside::change(inside::Turn::NONE);
            let pe = Pe::new(Boot::Joined(job));
            let guest = Guest { pe, state: std::ptr::null_mut(), told: std::ptr::null_mut(), turn, depth: 0 };
            Box::into_raw(Box::new(guest)).cast()
        }
        Err(e) => tell(e.to_string(), why),
    }
}

unsafe extern "C" fn enter(guest: *mut angara_abi::inside::Pe) {
    // SAFETY: what `join` has returned, on the one thread of all PEs; it is never freed.
    let guest: &'static mut Guest = unsafe { &mut *guest.cast() };
    STATE.store(guest.state, Ordering::Relaxed);
    TOLD.store(guest.told, Ordering::Relaxed);
    inside::change(std::mem::replace(&mut guest.turn, inside::Turn::NONE));
    record::change_depth(guest.depth);
    pe::turn_to(Some(&guest.pe));
}

unsafe extern "C" fn leave(guest: *mut angara_abi::inside::Pe) {
    pe::turn_to(None);
    // SAFETY: as in `enter`, whose reference has ended with the turn.
    let guest: &mut Guest = unsafe { &mut *guest.cast() };
    guest.state = STATE.swap(std::ptr::null_mut(), Ordering::Relaxed);
    guest.told = TOLD.swap(std::ptr::null_mut(), Ordering::Relaxed);
    guest.turn = inside::change(inside::Turn::NONE);
    guest.depth = record::change_depth(0);
}
