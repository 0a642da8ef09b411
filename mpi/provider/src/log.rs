//! Messages through libfabric's own log (`FI_LOG_LEVEL`), and facts about the libfabric that loaded this provider.
//!
//! The provider is not linked with libfabric, because one file serves every version of it: its functions are looked up where
//! they are.

use crate::abi::constants::version;
use crate::abi::ops::FiProvider;
use libc::{c_char, c_int, c_void};
use std::ffi::{CStr, CString};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

type Version = unsafe extern "C" fn() -> u32;
type Enabled = unsafe extern "C" fn(*const FiProvider, c_int, c_int) -> c_int;
type Log = unsafe extern "C" fn(*const FiProvider, c_int, c_int, *const c_char, c_int, *const c_char, ...);

const WARN: c_int = 0;
const INFO: c_int = 2;
const CORE: c_int = 0;

struct Host {
    version: Option<Version>,
    log: Option<(Enabled, Log)>,
}

static HOST: OnceLock<Host> = OnceLock::new();
static PROVIDER: AtomicPtr<FiProvider> = AtomicPtr::new(std::ptr::null_mut());

/// A function of libfabric, wherever in the process that is: an MPI library may have loaded it for itself alone.
fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: looks up names; a handle that is found belongs to a library that stays loaded, as it has called us.
    unsafe {
        let loaded = libc::dlopen(c"libfabric.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        let found = [loaded, libc::RTLD_DEFAULT].map(|library| libc::dlsym(library, name.as_ptr()));
        found.into_iter().find(|f| !f.is_null())
    }
}

fn host() -> &'static Host {
    HOST.get_or_init(|| {
        // SAFETY: functions of libfabric with these prototypes in every version.
        unsafe {
            Host {
                version: find(c"fi_version").map(|f| std::mem::transmute::<*mut c_void, Version>(f)),
                log: find(c"fi_log_enabled").zip(find(c"fi_log")).map(|(enabled, log)| {
                    (std::mem::transmute::<*mut c_void, Enabled>(enabled), std::mem::transmute::<*mut c_void, Log>(log))
                }),
            }
        }
    })
}

/// The API version of the libfabric that is there.
pub(crate) fn host_version() -> u32 {
    // SAFETY: takes no arguments.
    host().version.map_or(version(1, 17), |version| unsafe { version() })
}

/// Whose messages these are.
pub(crate) fn set_provider(provider: *mut FiProvider) {
    PROVIDER.store(provider, Ordering::Release);
}

fn say(level: c_int, text: &str) {
    let provider = PROVIDER.load(Ordering::Acquire);
    let Some((enabled, log)) = host().log.filter(|_| !provider.is_null()) else { return };
    let Ok(text) = CString::new(text) else { return };
    // SAFETY: the provider and the strings are valid, and the format takes one string.
    unsafe {
        if enabled(provider, level, CORE) != 0 {
            log(provider, level, CORE, c"angara".as_ptr(), 0, c"%s\n".as_ptr(), text.as_ptr());
        }
    }
}

pub(crate) fn warn(text: &str) {
    say(WARN, text);
}

pub(crate) fn info(text: &str) {
    say(INFO, text);
}
