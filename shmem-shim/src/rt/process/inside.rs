//! All PEs of a job in this process, as coroutines of one thread: what their host calls ([`angara_abi::inside`]).
//!
//! The library is loaded once. What it keeps of a PE is in [`Pe`], and what is asked for most, the state of the job, in statics
//! that change with each turn.

use super::host::set_host;
use super::init;
use super::pe::{self, Boot, Pe};
use crate::rt::record;
use crate::rt::runtime::{Runtime, STATE, TOLD};
use angara::{Job, inside};
use angara_abi::inside::{Host, Library, Parts, VERSION};
use std::ffi::{CString, c_char};
use std::sync::atomic::Ordering;

static LIBRARY: Library = Library { version: VERSION, join, enter, leave, ended: init::ended };
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
    set_host(host);
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
