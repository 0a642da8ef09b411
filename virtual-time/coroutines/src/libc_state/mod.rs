//! What libc keeps hidden in a process, for each PE: made when it is first used where possible.

pub(crate) mod cxx;
mod environment;
pub(crate) mod numbers;
pub(crate) mod results;
pub(crate) mod streams;
pub(crate) mod variables;

use crate::record::hooks::Sink;
use std::collections::BTreeSet;
use std::ffi::{CString, c_char, c_int};
use variables::Variables;

/// One PE's state of libc.
pub(crate) struct State {
    /// libc's variables while the host runs.
    variables: Variables,
    /// Where the image has its own copy of such a variable.
    copies: Vec<(&'static str, usize)>,
    pub(crate) random: numbers::Random,
    pub(crate) drand: numbers::Drand,
    pub(crate) strtok: *mut c_char,
    pub(crate) environment: environment::Environment,
    pub(crate) streams: streams::Streams,
    pub(crate) files: Vec<*mut libc::FILE>,
    /// Those that it has opened and not closed.
    pub(crate) descriptors: BTreeSet<c_int>,
    pub(crate) cxx: cxx::Cxx,
    pub(crate) results: results::Results,
    pub(crate) getopt_begun: bool,
    /// The program's name, as it was started.
    pub(crate) name: *const c_char,
}

impl Default for State {
    fn default() -> State {
        State {
            variables: Variables::FRESH,
            copies: Vec::new(),
            random: Default::default(),
            drand: Default::default(),
            strtok: std::ptr::null_mut(),
            environment: Default::default(),
            streams: Default::default(),
            files: Vec::new(),
            descriptors: BTreeSet::new(),
            cxx: Default::default(),
            results: Default::default(),
            getopt_begun: false,
            name: std::ptr::null(),
        }
    }
}

impl State {
    /// Keeps strings of this PE's environment; pointers to these and the common ones.
    pub(crate) fn keep(&mut self, own: &[CString], common: &[*const c_char]) -> Vec<*const c_char> {
        self.environment.own = own.to_vec();
        common.iter().copied().chain(self.environment.own.iter().map(|e| e.as_ptr())).collect()
    }

    /// Opens the PE's standard streams and sets its variables of libc; `cxx` says if it has streams of
    /// libstdc++.
    ///
    /// # Safety
    /// The environment and the buffers live as long as the PE.
    pub(crate) unsafe fn open(
        &mut self,
        number: u32,
        sink: Sink,
        buffers: &mut streams::Buffers,
        environ: *mut *mut c_char,
        cxx: bool,
    ) -> Result<(), String> {
        // SAFETY: the caller's promise.
        self.streams = unsafe { streams::Streams::open(number, sink, buffers)? };
        self.variables.stdin = self.streams.input;
        self.variables.stdout = self.streams.output;
        self.variables.stderr = self.streams.error;
        self.variables.environ = environ;
        // SAFETY: the pointers to the arguments and their null lie just before; after the count, if there are none.
        self.name = unsafe { first_argument(environ) };
        if !self.name.is_null() {
            self.variables.program_invocation_name = self.name.cast_mut();
        }
        if cxx {
            self.cxx = cxx::Cxx::fresh();
        }
        Ok(())
    }

    /// Sets the copies of libc's variables that the image has, as the loader of a process would.
    ///
    /// # Safety
    /// The copies lie in the slice.
    pub(crate) unsafe fn fill_copies(&mut self, slice: *mut u8, copies: &[(&'static str, usize)]) {
        let v = self.variables;
        for &(name, offset) in copies {
            let place = slice.wrapping_add(offset);
            self.copies.push((name, place as usize));
            let pointer: *mut u8 = match name {
                "stdin" => v.stdin.cast::<u8>(),
                "stdout" => v.stdout.cast(),
                "stderr" => v.stderr.cast(),
                "environ" | "__environ" | "_environ" => v.environ.cast(),
                "optarg" => v.optarg.cast(),
                "optind" | "opterr" | "optopt" => {
                    let value = if name == "optopt" { v.optopt } else { 1 };
                    // SAFETY: the caller's promise.
                    unsafe { place.cast::<c_int>().write_unaligned(value) };
                    continue;
                }
                "program_invocation_name" | "__progname_full" => v.program_invocation_name.cast(),
                // SAFETY: the others are short names of the program, which the host set.
                _ => unsafe { *variables_of_name() }.cast(),
            };
            // SAFETY: the caller's promise.
            unsafe { place.cast::<*mut u8>().write_unaligned(pointer) };
        }
    }

    /// Where the image has its copy of a variable.
    pub(crate) fn copy_of(&self, name: &str) -> Option<usize> {
        self.copies.iter().find(|(n, _)| *n == name).map(|(_, at)| *at)
    }

    /// Puts this PE's values into libc's variables.
    ///
    /// # Safety
    /// The host's are kept, and the PE runs next.
    #[inline]
    pub(crate) unsafe fn enter(&mut self) {
        // SAFETY: the caller's promise.
        unsafe {
            self.variables.write();
            self.cxx.enter();
        }
    }

    /// Takes them out again.
    ///
    /// # Safety
    /// The PE ran just now.
    #[inline]
    pub(crate) unsafe fn leave(&mut self) {
        // SAFETY: the caller's promise.
        unsafe {
            self.variables = Variables::read();
            self.cxx.leave();
        }
    }

    /// Closes the streams; what is not flushed is lost.
    ///
    /// # Safety
    /// The PE never runs again.
    pub(crate) unsafe fn close(&mut self) {
        // SAFETY: the caller's promise.
        unsafe {
            self.streams.close();
            self.environment.free();
            self.random.free();
            self.results.free();
        }
    }
}

/// The first argument of a stack as the kernel lays it out, by the place of its environment; null if there is none.
///
/// # Safety
/// The environment lies on such a stack.
unsafe fn first_argument(environ: *mut *mut c_char) -> *const c_char {
    // SAFETY: before the environment lie null, the arguments and their count.
    unsafe {
        let mut count = 0;
        while *environ.sub(2 + count) as usize != count {
            count += 1;
        }
        *environ.sub(1 + count)
    }
}

fn variables_of_name() -> *mut *mut c_char {
    unsafe extern "C" {
        static mut program_invocation_short_name: *mut c_char;
    }
    &raw mut program_invocation_short_name
}
