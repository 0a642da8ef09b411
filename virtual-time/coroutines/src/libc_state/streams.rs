//! Standard streams of a PE: what is written to them goes to the host's sink, buffered as in a process.

use super::variables::stdin_now;
use crate::PAGE;
use crate::record::hooks::Sink;
use libc::FILE;
use std::ffi::{c_char, c_int, c_void};
use std::io;

/// libc's `cookie_io_functions_t`.
#[repr(C)]
pub(crate) struct Functions {
    pub(crate) read: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> isize>,
    pub(crate) write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize>,
    pub(crate) seek: Option<unsafe extern "C" fn(*mut c_void, *mut i64, c_int) -> c_int>,
    pub(crate) close: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

unsafe extern "C" {
    pub(crate) fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

/// Bytes of the buffer of a standard output: what libc takes for a pipe or a file, and for a terminal.
const BUFFER: usize = 4096;
const LINE_BUFFER: usize = 1024;

/// Buffers for PEs: pages of large mappings, which take memory when a PE first writes.
pub(crate) struct Buffers {
    maps: Vec<*mut u8>,
    left: usize,
    terminal: bool,
}

const BUFFERS_PER_MAP: usize = 1024;

impl Buffers {
    pub(crate) fn new() -> Buffers {
        // SAFETY: no conditions.
        Buffers { maps: Vec::new(), left: 0, terminal: unsafe { libc::isatty(1) } == 1 }
    }

    fn take(&mut self) -> Result<*mut u8, String> {
        if self.left == 0 {
            let (rw, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let flags = flags | libc::MAP_NORESERVE;
            // SAFETY: a new mapping.
            let map = unsafe { libc::mmap(std::ptr::null_mut(), BUFFER * BUFFERS_PER_MAP, rw, flags, -1, 0) };
            if map == libc::MAP_FAILED {
                return Err(format!("no buffers for its output: {}", io::Error::last_os_error()));
            }
            self.maps.push(map.cast());
            self.left = BUFFERS_PER_MAP;
        }
        self.left -= 1;
        let map = self.maps[self.maps.len() - 1];
        Ok(map.wrapping_add(BUFFER * self.left))
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for map in &self.maps {
            // SAFETY: the set of PEs, whose streams used them, is gone.
            unsafe { libc::munmap(map.cast(), BUFFER * BUFFERS_PER_MAP) };
        }
    }
}

/// Whose stream it is.
struct Cookie {
    pe: u32,
    fd: c_int,
    sink: Sink,
    /// The stream is being closed: what it holds is lost.
    closing: bool,
}

unsafe extern "C" fn write_cookie(cookie: *mut c_void, bytes: *const c_char, len: usize) -> isize {
    // SAFETY: the stream's own cookie and bytes.
    unsafe {
        let Cookie { pe, fd, sink, closing } = *cookie.cast::<Cookie>();
        if !closing {
            sink(pe, fd, bytes.cast(), len);
        }
    }
    len as isize
}

/// Nothing comes: the end of /dev/null.
unsafe extern "C" fn read_nothing(_: *mut c_void, _: *mut c_char, _: usize) -> isize {
    0
}

/// A PE's standard streams.
pub(crate) struct Streams {
    pub(super) input: *mut FILE,
    pub(crate) output: *mut FILE,
    pub(crate) error: *mut FILE,
    cookies: [*mut Cookie; 2],
    /// The input is the host's.
    shared_input: bool,
}

impl Default for Streams {
    fn default() -> Streams {
        let none = std::ptr::null_mut();
        Streams { input: none, output: none, error: none, cookies: [std::ptr::null_mut(); 2], shared_input: true }
    }
}

impl Streams {
    /// # Safety
    /// The buffers live as long as the streams.
    pub(super) unsafe fn open(pe: u32, sink: Sink, buffers: &mut Buffers) -> Result<Streams, String> {
        let cookies = [1, 2].map(|fd| Box::into_raw(Box::new(Cookie { pe, fd, sink, closing: false })));
        let buffer = buffers.take()?;
        let shared_input = pe == 0;
        let write = || Functions { read: None, write: Some(write_cookie), seek: None, close: None };
        let read = Functions { read: Some(read_nothing), write: None, seek: None, close: None };
        // SAFETY: cookies outlive their streams; the buffer is this stream's alone.
        unsafe {
            let input = match shared_input {
                true => stdin_now(),
                false => fopencookie(std::ptr::null_mut(), c"r".as_ptr(), read),
            };
            let output = fopencookie(cookies[0].cast(), c"w".as_ptr(), write());
            let error = fopencookie(cookies[1].cast(), c"w".as_ptr(), write());
            if input.is_null() || output.is_null() || error.is_null() {
                return Err("no memory for its streams".into());
            }
            let (mode, size) = if buffers.terminal { (libc::_IOLBF, LINE_BUFFER) } else { (libc::_IOFBF, BUFFER) };
            libc::setvbuf(output, buffer.cast(), mode, size.min(PAGE));
            libc::setvbuf(error, std::ptr::null_mut(), libc::_IONBF, 0);
            Ok(Streams { input, output, error, cookies, shared_input })
        }
    }

    /// Closes them, the newest first: libc finds a stream in its list from the newest on.
    ///
    /// # Safety
    /// The PE never runs again.
    pub(super) unsafe fn close(&mut self) {
        // SAFETY: streams and cookies that `open` made; nothing uses them any more.
        unsafe {
            for cookie in self.cookies.into_iter().filter(|c| !c.is_null()) {
                (*cookie).closing = true;
            }
            for stream in [self.error, self.output].into_iter().filter(|s| !s.is_null()) {
                libc::fclose(stream);
            }
            if !self.shared_input {
                libc::fclose(self.input);
            }
            for cookie in self.cookies.into_iter().filter(|c| !c.is_null()) {
                drop(Box::from_raw(cookie));
            }
        }
        *self = Streams::default();
    }

    /// The descriptor that a standard stream stands for.
    pub(crate) fn descriptor(&self, stream: *mut FILE) -> Option<c_int> {
        [self.input, self.output, self.error].iter().position(|s| *s == stream).map(|fd| fd as c_int)
    }
}
