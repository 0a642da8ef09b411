//! Where the program called the library, for notes and for every message.

use crate::rt::mutex::lock;
use crate::rt::process::host;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::path::Path;
use std::sync::Mutex;

/// Returns base address and file of the module that holds `address`.
fn module(address: *const ()) -> Option<(usize, String)> {
    if let Some(copy) = host::copy_of(address) {
        return Some(copy);
    }
    // SAFETY: plain data; an all-zero value is valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: writes `info`, whose name is a string that lives as long as the module.
    let known = unsafe { libc::dladdr(address.cast(), &raw mut info) } != 0 && !info.dli_fname.is_null();
    // SAFETY: writes `info`, whose name is a string that lives as long as the module.
    known.then(|| (info.dli_fbase as usize, unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned()))
}

/// Returns where the program called the library: `heat.c:42 (main)`, or the module and offset where there are
/// no symbols.
pub(crate) fn caller() -> Option<String> {
    caller_address().map(line_of)
}

/// Whose a place in the code is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Library,
    Other,
    Nobody,
}

/// Returns whose the code at an address is, which the loader is asked only once.
fn owner(address: usize) -> Owner {
    static KNOWN: Mutex<BTreeMap<usize, Owner>> = Mutex::new(BTreeMap::new());
    *lock(&KNOWN).entry(address).or_insert_with(|| {
        let of = |address| module(address).map(|(base, _)| base);
        match of(address as *const ()) {
            None => Owner::Nobody,
            base if base == of(owner as *const ()) => Owner::Library,
            Some(_) => Owner::Other,
        }
    })
}

/// Returns the address behind the call by which the program entered the library.
pub(crate) fn caller_address() -> Option<*mut c_void> {
    let mut found = None;
    let mut inside = false;
    backtrace::trace(|frame| {
        match owner(frame.ip() as usize) {
            Owner::Library => inside = true,
            // Frames before the library's own first one belong to the machinery that walks them.
            Owner::Other if inside => found = Some(frame.ip()),
            Owner::Other | Owner::Nobody => {}
        }
        found.is_none()
    });
    found
}

/// Returns the line of the program at a return address, as [`caller`] gives it.
pub(crate) fn line_of(address: *mut c_void) -> String {
    if let Some(line) = host::line_of(address.cast_const().cast()) {
        return line;
    }
    let mut line = None;
    backtrace::resolve(address, |symbol| {
        let name = symbol.name().map_or("?".into(), |n| n.to_string());
        line = match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(n)) => Some(format!("{}:{n} ({name})", short(file))),
            _ => line.take(),
        };
    });
    line.unwrap_or_else(|| match module(address.cast()) {
        Some((base, file)) => format!("{}+{:#x}", short(Path::new(&file)), address as usize - base),
        None => format!("{address:p}"),
    })
}

/// Returns the last part of a path: compilers write whole ones.
fn short(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
