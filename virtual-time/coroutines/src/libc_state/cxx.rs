//! What libstdc++ has once, for each PE: its streams, exceptions that are being handled, handlers of the language.
//!
//! Its standard streams write to those of the PE that runs, and look as that PE has left them (`std::setfill`,
//! `std::setprecision`, locale, buffer, whether input ended).

use super::streams::{Functions, fopencookie};
use super::variables::{Variables, stderr_now, stdin_now, stdout_now};
use crate::record::one_thread::OneThread;
use libc::FILE;
use std::ffi::{CStr, c_int, c_void};

const LIBRARY: &CStr = c"libstdc++.so.6";
const STREAMS: [&CStr; 4] = [c"_ZSt4cout", c"_ZSt4cerr", c"_ZSt4clog", c"_ZSt3cin"];
const INIT: &CStr = c"_ZNSt8ios_base4InitC1Ev";
const GLOBALS: &CStr = c"__cxa_get_globals";
const COPY_LOCALE: &CStr = c"_ZNSt6localeC1ERKS_";
pub(crate) const SETTERS: [&CStr; 3] =
    [c"_ZSt13set_terminatePFvvE", c"_ZSt14set_unexpectedPFvvE", c"_ZSt15set_new_handlerPFvvE"];

/// Bytes of `std::basic_ios<char>`, and where it has its locale and its buffer.
const IOS: usize = 264;
const LOCALE_AT: usize = 208;
const BUFFER_AT: usize = 232;
/// Where a buffer that writes to a `FILE` has it; the character that can be put back follows.
const FILE_AT: usize = 64;

/// Bytes of all four streams.
const STREAM_BYTES: usize = 4 * IOS + 3 * 8 + 16;
type Formats = [u8; STREAM_BYTES];
/// `__cxa_eh_globals`: exceptions in handlers, the last first, and how many are under way.
type Exceptions = [usize; 2];
pub(crate) type Handler = *mut c_void;
type Setter = unsafe extern "C" fn(Handler) -> Handler;
type CopyLocale = unsafe extern "C" fn(*mut c_void, *const c_void);

/// A `FILE` of a stream's buffer, and the character that can be put back.
#[derive(Clone, Copy)]
#[repr(C)]
struct File {
    file: *mut FILE,
    back: c_int,
}

/// Addresses in libstdc++, once it is open, and what it has there in a fresh process.
struct Library {
    /// Streams and their bytes.
    streams: [(*mut u8, usize); STREAMS.len()],
    fresh: Formats,
    /// What the buffers of input, output and error write to.
    files: [*mut File; 3],
    pass: [File; 3],
    globals: unsafe extern "C" fn() -> *mut Exceptions,
    copy_locale: CopyLocale,
    setters: [Setter; SETTERS.len()],
    handlers: [Handler; SETTERS.len()],
}

static OPEN: OneThread<Option<Library>> = OneThread::new(None);

/// What is one PE's; nothing for programs without libstdc++.
#[derive(Default)]
pub(crate) struct Cxx(Option<Own>);

struct Own {
    /// Where this thread has its exceptions.
    globals: *mut Exceptions,
    exceptions: Exceptions,
    /// The streams while others run, unless they are as in a fresh process.
    formats: Option<Box<Formats>>,
    /// The character that can be put back to the input.
    back: c_int,
    /// Handlers that the program has set.
    handlers: [Option<Handler>; SETTERS.len()],
}

impl Cxx {
    /// What a fresh process has.
    pub(super) fn fresh() -> Cxx {
        // SAFETY: only the thread that hosts PEs uses it, and its exceptions lie where they are as long as it lives.
        Cxx(unsafe {
            (*OPEN.get()).as_ref().map(|l| Own {
                globals: (l.globals)(),
                exceptions: [0; 2],
                formats: None,
                back: l.pass[0].back,
                handlers: [None; SETTERS.len()],
            })
        })
    }

    /// Puts what is this PE's into the library. libc's variables are the PE's already.
    ///
    /// # Safety
    /// The library is as in a fresh process; no other thread uses it.
    #[inline]
    pub(super) unsafe fn enter(&mut self) {
        let Some(own) = &mut self.0 else { return };
        // SAFETY: the addresses were found when the library was opened, and it stays open.
        unsafe {
            let Some(library) = &*OPEN.get() else { return };
            std::ptr::swap(own.globals, &mut own.exceptions);
            if let Some(formats) = &own.formats {
                library.write_streams(formats);
            }
            library.set_files();
            (*library.files[0]).back = own.back;
            for (set, handler) in library.setters.iter().zip(&own.handlers) {
                if let Some(handler) = handler {
                    set(*handler);
                }
            }
        }
    }

    /// Takes it out again.
    ///
    /// # Safety
    /// As for `enter`, which was called last.
    #[inline]
    pub(super) unsafe fn leave(&mut self) {
        let Some(own) = &mut self.0 else { return };
        // SAFETY: as for `enter`.
        unsafe {
            let Some(library) = &*OPEN.get() else { return };
            std::ptr::swap(own.globals, &mut own.exceptions);
            if library.streams_are_fresh() {
                own.formats = None;
            } else {
                let formats = own.formats.get_or_insert_with(|| library.new_formats());
                library.read_streams(formats);
                library.write_streams(&library.fresh);
            }
            own.back = (*library.files[0]).back;
            for (file, pass) in library.files.into_iter().zip(library.pass) {
                file.write(pass);
            }
            for i in (0..SETTERS.len()).filter(|i| own.handlers[*i].is_some()) {
                library.setters[i](library.handlers[i]);
            }
        }
    }

    /// Has C++ streams follow libc's variables, which the PE has changed.
    ///
    /// # Safety
    /// The PE runs.
    pub(crate) unsafe fn follow(&self) {
        // SAFETY: on the thread that hosts PEs, where PEs run.
        unsafe {
            if let (Some(library), true) = (&*OPEN.get(), self.0.is_some()) {
                library.set_files();
            }
        }
    }

    /// Sets handler number `which` of [`SETTERS`]; returns the one before.
    ///
    /// # Safety
    /// The PE runs, and its program has libstdc++.
    pub(crate) unsafe fn set(&mut self, which: usize, handler: Handler) -> Handler {
        // SAFETY: the caller's promise.
        unsafe {
            let (Some(library), Some(own)) = ((*OPEN.get()).as_ref(), self.0.as_mut()) else { libc::abort() };
            own.handlers[which] = Some(handler);
            library.setters[which](handler)
        }
    }
}

impl Library {
    /// Each stream with its part of all bytes.
    fn parts(&self) -> impl Iterator<Item = (*mut u8, std::ops::Range<usize>)> {
        let mut at = 0;
        self.streams.into_iter().map(move |(stream, len)| {
            at += len;
            (stream, at - len..at)
        })
    }

    unsafe fn streams_are_fresh(&self) -> bool {
        // SAFETY: the library's objects, which nobody uses meanwhile.
        self.parts().all(|(at, part)| unsafe { std::slice::from_raw_parts(at, part.len()) } == &self.fresh[part])
    }

    unsafe fn read_streams(&self, to: &mut Formats) {
        for (at, part) in self.parts() {
            // SAFETY: as above.
            to[part.clone()].copy_from_slice(unsafe { std::slice::from_raw_parts(at, part.len()) });
        }
    }

    unsafe fn write_streams(&self, from: &Formats) {
        for (at, part) in self.parts() {
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(from[part.clone()].as_ptr(), at, part.len()) };
        }
    }

    /// Room for a PE's streams. What a fresh process has is written back each time, so that its locale gets as many
    /// references more.
    unsafe fn new_formats(&self) -> Box<Formats> {
        let mut copy = [0u8; 8];
        for (_, part) in self.parts() {
            // SAFETY: a stream ends with its `std::basic_ios`, which has a locale; the copy is never destroyed.
            unsafe {
                let locale = self.fresh.as_ptr().add(part.end - IOS + LOCALE_AT);
                (self.copy_locale)(copy.as_mut_ptr().cast(), locale.cast());
            }
        }
        Box::new(self.fresh)
    }

    /// Has the streams write to those of libc that are in its variables.
    unsafe fn set_files(&self) {
        for (place, file) in self.files.into_iter().zip([stdin_now(), stdout_now(), stderr_now()]) {
            // SAFETY: buffers of the library.
            unsafe { (*place).file = file };
        }
    }
}

/// No byte comes, and none goes: streams of nobody.
unsafe extern "C" fn nothing_to_read(_: *mut c_void, _: *mut std::ffi::c_char, _: usize) -> isize {
    0
}

unsafe extern "C" fn write_nothing(_: *mut c_void, _: *const std::ffi::c_char, len: usize) -> isize {
    len as isize
}

/// Opens libstdc++ with streams of nobody, which its own keep while no PE runs, unless that was done before.
pub(crate) fn open_library() -> Result<(), String> {
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
        let input = fopencookie(none, c"r".as_ptr(), functions(Some(nothing_to_read), None));
        let output = fopencookie(none, c"w".as_ptr(), functions(None, Some(write_nothing)));
        let error = fopencookie(none, c"w".as_ptr(), functions(None, Some(write_nothing)));
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
        *OPEN.get() = Some(find(library)?);
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
/// `library` is libstdc++, with its streams made.
unsafe fn find(library: *mut c_void) -> Result<Library, String> {
    let address = |name: &CStr| {
        // SAFETY: an open library and a terminated name.
        let at = unsafe { libc::dlsym(library, name.as_ptr()) };
        if at.is_null() { Err(format!("libstdc++.so.6 has no {}", name.to_string_lossy())) } else { Ok(at) }
    };
    let mut streams = [(std::ptr::null_mut::<u8>(), 0); STREAMS.len()];
    let mut buffers = [std::ptr::null_mut::<u8>(); STREAMS.len()];
    for (i, name) in STREAMS.into_iter().enumerate() {
        let stream = address(name)?.cast::<u8>();
        // SAFETY: by the C++ ABI, a stream begins with the address of its table, which has the distance to the virtual
        // base 24 bytes before it. The base, `std::basic_ios`, is its last part.
        unsafe {
            let base = stream.cast::<*const isize>().read().sub(3).read() as usize;
            streams[i] = (stream, base + IOS);
            buffers[i] = stream.add(base + BUFFER_AT).cast::<*mut u8>().read();
        }
    }
    if streams.iter().map(|s| s.1).sum::<usize>() != STREAM_BYTES {
        return Err("libstdc++.so.6 has streams of another layout".into());
    }
    let files = [buffers[3], buffers[0], buffers[1]].map(|buffer| buffer.wrapping_add(FILE_AT).cast::<File>());
    // SAFETY: the functions have these types; setting a handler gives the one before, which is set again.
    unsafe {
        let mut setters = [std::mem::transmute::<*mut c_void, Setter>(address(SETTERS[0])?); SETTERS.len()];
        for (setter, name) in setters.iter_mut().zip(SETTERS) {
            *setter = std::mem::transmute::<*mut c_void, Setter>(address(name)?);
        }
        let handlers = setters.map(|set| {
            let fresh = set(std::ptr::null_mut());
            set(fresh);
            fresh
        });
        let mut found = Library {
            streams,
            fresh: [0; STREAM_BYTES],
            files,
            pass: files.map(|file| file.read()),
            globals: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut Exceptions>(address(GLOBALS)?),
            copy_locale: std::mem::transmute::<*mut c_void, CopyLocale>(address(COPY_LOCALE)?),
            setters,
            handlers,
        };
        let mut fresh = found.fresh;
        found.read_streams(&mut fresh);
        found.fresh = fresh;
        Ok(found)
    }
}
