//! Streams of libstdc++, which exist once: what goes through them is the running PE's.
//!
//! They keep the standard streams that libc had when the library was opened. It is opened with streams that pass all on
//! to those of the PE that runs. How numbers are written (`std::setprecision`) and whether input ended is kept per PE.

use super::streams::{Functions, fopencookie};
use super::variables::{Variables, stderr_now, stdin_now, stdout_now};
use crate::record::OneThread;
use libc::FILE;
use std::ffi::{CStr, c_char, c_int, c_void};

const LIBRARY: &CStr = c"libstdc++.so.6";
const STREAMS: [&CStr; 4] = [c"_ZSt4cout", c"_ZSt4cerr", c"_ZSt4clog", c"_ZSt3cin"];
const INIT: &CStr = c"_ZNSt8ios_base4InitC1Ev";
const FLUSH: &CStr = c"_ZNSo5flushEv";
const ENDL: &CStr = c"_ZSt4endlIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_";

/// Bytes of `std::ios_base` from precision to state.
const FORMAT: usize = 28;
type Format = [u8; FORMAT];
type Manipulator = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// Addresses in libstdc++, once it is open.
#[derive(Clone, Copy)]
struct Library {
    input: *mut FILE,
    output: *mut c_void,
    formats: [*mut Format; STREAMS.len()],
    fresh: [Format; STREAMS.len()],
    flush: Manipulator,
    endl: Manipulator,
}

static OPEN: OneThread<Option<Library>> = OneThread::new(None);

/// A PE's formats of the four streams; none for programs without libstdc++.
#[derive(Default)]
pub(super) struct Formats(Option<Box<[Format; STREAMS.len()]>>);

impl Formats {
    /// What the streams have in a fresh process.
    pub(super) fn fresh() -> Formats {
        // SAFETY: only the thread that hosts PEs uses it.
        Formats(unsafe { (*OPEN.get()).as_ref() }.map(|l| Box::new(l.fresh)))
    }

    /// Swaps this PE's formats with those in the library.
    ///
    /// # Safety
    /// No other thread uses the streams.
    #[inline]
    pub(super) unsafe fn exchange(&mut self) {
        if let Some(formats) = &mut self.0 {
            // SAFETY: the addresses were found when the library was opened, and it stays open.
            unsafe {
                if let Some(library) = &*OPEN.get() {
                    for (mine, theirs) in formats.iter_mut().zip(library.formats) {
                        std::ptr::swap(mine, theirs);
                    }
                    libc::clearerr(library.input);
                }
            }
        }
    }
}

unsafe extern "C" fn pass_output(_: *mut c_void, bytes: *const c_char, len: usize) -> isize {
    // SAFETY: the stream's bytes, to the standard output of who runs.
    unsafe { libc::fwrite(bytes.cast(), 1, len, stdout_now()) as isize }
}

unsafe extern "C" fn pass_error(_: *mut c_void, bytes: *const c_char, len: usize) -> isize {
    // SAFETY: as above. `std::cerr` is tied to `std::cout`, whose flush ends at the passing stream.
    unsafe {
        libc::fflush(stdout_now());
        libc::fwrite(bytes.cast(), 1, len, stderr_now()) as isize
    }
}

unsafe extern "C" fn pass_input(_: *mut c_void, bytes: *mut c_char, len: usize) -> isize {
    // SAFETY: room for `len` bytes. `std::cin` is tied to `std::cout`.
    unsafe {
        libc::fflush(stdout_now());
        let got = libc::fread(bytes.cast(), 1, len, stdin_now());
        if got == 0 && libc::ferror(stdin_now()) != 0 { -1 } else { got as isize }
    }
}

/// Opens libstdc++ with streams that pass all on, unless that was done before.
pub(super) fn open_library() -> Result<(), String> {
    // SAFETY: libc's variables are the host's and are put back; only this thread uses them.
    unsafe {
        if (*OPEN.get()).is_some() {
            return Ok(());
        }
        if !libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_NOW).is_null() {
            return Err("libstdc++ was opened before it, and keeps the standard streams of this process".into());
        }
        let (none, before) = (std::ptr::null_mut(), Variables::read());
        let functions = |read, write| Functions { read, write, seek: None, close: None };
        let input = fopencookie(none, c"r".as_ptr(), functions(Some(pass_input), None));
        let output = fopencookie(none, c"w".as_ptr(), functions(None, Some(pass_output)));
        let error = fopencookie(none, c"w".as_ptr(), functions(None, Some(pass_error)));
        if input.is_null() || output.is_null() || error.is_null() {
            return Err("no memory for streams".into());
        }
        for stream in [input, output, error] {
            libc::setvbuf(stream, std::ptr::null_mut(), libc::_IONBF, 0);
        }
        Variables { stdin: input, stdout: output, stderr: error, ..before }.write();
        let library = libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        let begun = if library.is_null() { Err("libstdc++.so.6 cannot be opened".into()) } else { begin(library) };
        before.write();
        begun?;
        *OPEN.get() = Some(find(library, input)?);
        Ok(())
    }
}

/// Makes the streams: before GCC 13 only a program's first constructor does, later ones find them made.
///
/// # Safety
/// `library` is libstdc++, just opened.
unsafe fn begin(library: *mut c_void) -> Result<(), String> {
    static COUNTED: OneThread<u64> = OneThread::new(0);
    // SAFETY: `std::ios_base::Init` has no data; this one is never destroyed.
    unsafe {
        let at = libc::dlsym(library, INIT.as_ptr());
        if at.is_null() {
            return Err("libstdc++.so.6 has no std::ios_base::Init".into());
        }
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut u64)>(at)(COUNTED.get());
    }
    Ok(())
}

/// # Safety
/// `library` is libstdc++.
unsafe fn find(library: *mut c_void, input: *mut FILE) -> Result<Library, String> {
    let address = |name: &CStr| {
        // SAFETY: an open library and a terminated name.
        let at = unsafe { libc::dlsym(library, name.as_ptr()) };
        if at.is_null() { Err(format!("libstdc++.so.6 has no {}", name.to_string_lossy())) } else { Ok(at) }
    };
    let mut formats = [std::ptr::null_mut::<Format>(); STREAMS.len()];
    let mut fresh = [[0; FORMAT]; STREAMS.len()];
    for (i, name) in STREAMS.into_iter().enumerate() {
        let stream = address(name)?.cast::<u8>();
        // SAFETY: by the C++ ABI, a stream begins with the address of its table, which has the distance to the virtual
        // base 24 bytes before it. The base begins with its own such address; then come precision, width, flags,
        // exceptions and state.
        unsafe {
            let table = stream.cast::<*const isize>().read();
            formats[i] = stream.offset(table.sub(3).read()).add(8).cast();
            fresh[i] = formats[i].read();
        }
    }
    // SAFETY: both take a stream and return it.
    let (flush, endl) = unsafe {
        let function = |at| std::mem::transmute::<*mut c_void, Manipulator>(at);
        (function(address(FLUSH)?), function(address(ENDL)?))
    };
    Ok(Library { input, output: address(STREAMS[0])?, formats, fresh, flush, endl })
}

pub(super) fn symbol(name: &str) -> Option<*const ()> {
    Some(match name.as_bytes() {
        n if n == FLUSH.to_bytes() => flush as *const (),
        n if n == ENDL.to_bytes() => endl as *const (),
        b"_ZNSt8ios_base15sync_with_stdioEb" => sync_with_stdio as *const (),
        _ => return None,
    })
}

/// Calls libstdc++'s function, then flushes what `std::cout` passed on.
///
/// # Safety
/// Called by a program with libstdc++, on a stream.
unsafe fn then_flush(stream: *mut c_void, function: fn(&Library) -> Manipulator) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(library) = (*OPEN.get()).as_ref() else { libc::abort() };
        let result = function(library)(stream);
        if stream == library.output {
            libc::fflush(stdout_now());
        }
        result
    }
}

unsafe extern "C" fn flush(stream: *mut c_void) -> *mut c_void {
    // SAFETY: the program's stream.
    unsafe { then_flush(stream, |l| l.flush) }
}

unsafe extern "C" fn endl(stream: *mut c_void) -> *mut c_void {
    // SAFETY: the program's stream.
    unsafe { then_flush(stream, |l| l.endl) }
}

/// Streams stay together with libc's: buffers of their own would be all PEs' in common.
unsafe extern "C" fn sync_with_stdio(_: bool) -> c_int {
    1
}
