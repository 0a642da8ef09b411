//! Variables of libc that exist once in a process and are a PE's own while it runs.

use libc::FILE;
use std::ffi::{c_char, c_int};

unsafe extern "C" {
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
    static mut environ: *mut *mut c_char;
    static mut optarg: *mut c_char;
    static mut program_invocation_name: *mut c_char;
    static mut optind: c_int;
    static mut opterr: c_int;
    static mut optopt: c_int;
}

/// Their values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variables {
    pub(crate) stdin: *mut FILE,
    pub(crate) stdout: *mut FILE,
    pub(crate) stderr: *mut FILE,
    pub(crate) environ: *mut *mut c_char,
    pub(crate) optarg: *mut c_char,
    pub(crate) program_invocation_name: *mut c_char,
    pub(crate) optind: c_int,
    pub(crate) opterr: c_int,
    pub(crate) optopt: c_int,
    pub(crate) errno: c_int,
}

impl Variables {
    /// What a fresh process has, but for streams, environment and name.
    pub(crate) const FRESH: Variables = Variables {
        stdin: std::ptr::null_mut(),
        stdout: std::ptr::null_mut(),
        stderr: std::ptr::null_mut(),
        environ: std::ptr::null_mut(),
        optarg: std::ptr::null_mut(),
        program_invocation_name: c"".as_ptr().cast_mut(),
        optind: 1,
        opterr: 1,
        optopt: b'?' as c_int,
        errno: 0,
    };

    /// # Safety
    /// No other thread changes them.
    #[inline]
    pub(crate) unsafe fn read() -> Variables {
        // SAFETY: the caller's promise; libc has these variables.
        unsafe {
            Variables {
                stdin,
                stdout,
                stderr,
                environ,
                optarg,
                program_invocation_name,
                optind,
                opterr,
                optopt,
                errno: *libc::__errno_location(),
            }
        }
    }

    /// # Safety
    /// No other thread uses them; the streams are open and the environment lives.
    #[inline]
    pub(crate) unsafe fn write(&self) {
        // SAFETY: the caller's promise; libc has these variables.
        unsafe {
            stdin = self.stdin;
            stdout = self.stdout;
            stderr = self.stderr;
            environ = self.environ;
            optarg = self.optarg;
            program_invocation_name = self.program_invocation_name;
            optind = self.optind;
            opterr = self.opterr;
            optopt = self.optopt;
            *libc::__errno_location() = self.errno;
        }
    }
}

/// libc's variable for the standard output.
pub(crate) fn stdout_now() -> *mut FILE {
    // SAFETY: only the thread that hosts PEs changes it.
    unsafe { stdout }
}

/// libc's variable for the standard error.
pub(crate) fn stderr_now() -> *mut FILE {
    // SAFETY: as for `stdout_now`.
    unsafe { stderr }
}

/// libc's variable for the standard input.
pub(crate) fn stdin_now() -> *mut FILE {
    // SAFETY: as for `stdout_now`.
    unsafe { stdin }
}

/// Where libc has the environment.
pub(crate) fn environ_place() -> *mut *mut *mut c_char {
    &raw mut environ
}
