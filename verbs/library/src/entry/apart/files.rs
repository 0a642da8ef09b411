//! Files of sysfs, as far as other libraries read them through this one.

use crate::entry::guard::{count, value};
use crate::paths;
use angara_hca::{Errno, Result};
use libc::{c_char, c_int};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// `ibv_get_sysfs_path`.
pub extern "C" fn get_sysfs_path() -> *const c_char {
    static AT: OnceLock<CString> = OnceLock::new();
    value(c"/sys".as_ptr(), || {
        let named = || {
            // A program that runs with others' rights takes no advice.
            let is_own = rustix::process::getuid() == rustix::process::geteuid();
            let named = std::env::var_os("SYSFS_PATH").filter(|_| is_own)?;
            let bytes = named.as_bytes();
            let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
            CString::new(&bytes[..end]).ok()
        };
        AT.get_or_init(|| named().unwrap_or_else(|| c"/sys".to_owned())).as_ptr()
    })
}

/// What a file says, without the end of the line.
fn contents(at: &Path) -> Result<Vec<u8>> {
    let mut bytes = match paths::contents(at) {
        Some(bytes) => bytes,
        None => std::fs::read(at).map_err(|e| e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?,
    };
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Ok(bytes)
}

/// `ibv_read_sysfs_file`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    to: *mut c_char,
    len: usize,
) -> c_int {
    count(|| {
        // SAFETY: see the module.
        let (dir, file) = unsafe { (CStr::from_ptr(dir), CStr::from_ptr(file)) };
        let at =
            Path::new(std::ffi::OsStr::from_bytes(dir.to_bytes())).join(std::ffi::OsStr::from_bytes(file.to_bytes()));
        let bytes = contents(&at)?;
        if bytes.len() >= len {
            return Err(Errno::NAMETOOLONG);
        }
        // SAFETY: there is room for the text and its end.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, bytes.len());
            *to.add(bytes.len()) = 0;
        }
        Ok(bytes.len() as c_int)
    })
}
