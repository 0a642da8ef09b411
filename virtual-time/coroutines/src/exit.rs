//! The end of a PE: its handlers, destructors, streams, and the way back to the host.

use crate::libc_functions::files;
use crate::record::handlers::{Handler, Handlers};
use crate::record::{CURRENT, HOST, Life, Record, current};
use crate::switch;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

/// The function of this module for a name.
pub(crate) fn symbol(name: &str) -> Option<usize> {
    let at = match name {
        "exit" => exit as *const (),
        "_exit" | "_Exit" => exit_now as *const (),
        "quick_exit" => quick_exit as *const (),
        "__cxa_atexit" => cxa_atexit as *const (),
        "atexit" => atexit as *const (),
        "on_exit" => on_exit as *const (),
        "__cxa_at_quick_exit" => cxa_at_quick_exit as *const (),
        "at_quick_exit" => at_quick_exit as *const (),
        "__cxa_finalize" => cxa_finalize as *const (),
        _ => return None,
    };
    Some(at as usize)
}

/// Ends the PE that runs.
///
/// # Safety
/// Called on its stack.
unsafe fn end(status: c_int) -> ! {
    // SAFETY: the record is used before the switch only; the host never resumes a PE that ended.
    unsafe {
        let pe: *mut Record = current();
        (*pe).life = Life::Ended(status & 0xff);
        switch::to_host(pe);
        libc::abort()
    }
}

/// Says goodbye by the host's function, then ends.
///
/// # Safety
/// Called on the PE's stack.
unsafe fn leave(status: c_int) -> ! {
    // SAFETY: no reference to the record lives while the host's function runs.
    unsafe {
        if let Some(goodbye) = current().hooks.at_exit {
            goodbye(status & 0xff);
        }
        end(status)
    }
}

/// Calls the handlers, the last first. A handler may register more, and may call `exit`: what was called is gone.
///
/// # Safety
/// Called on the PE's stack.
unsafe fn run(status: c_int, list: fn(&mut Handlers) -> &mut Vec<Handler>) {
    loop {
        // SAFETY: the reference ends before the handler runs.
        match unsafe { list(&mut current().handlers).pop() } {
            // SAFETY: the program gave the function with its argument.
            Some(Handler::Plain(f, with)) => unsafe { f(with) },
            // SAFETY: as above.
            Some(Handler::WithStatus(f, with)) => unsafe { f(status, with) },
            None => return,
        }
    }
}

/// Calls the destructors of the image: its array from the end, then the old single function.
///
/// # Safety
/// Called on the PE's stack.
unsafe fn destroy() {
    // SAFETY: the program outlives its PEs; the array lies inside the image and holds functions of the program.
    unsafe {
        let pe = current();
        if std::mem::replace(&mut pe.handlers.destroyed, true) {
            return;
        }
        let (base, program) = (pe.base, &*pe.program);
        let (at, count) = program.fini_array;
        for i in (0..count).rev() {
            call_entry(base + at + 8 * i);
        }
        if let Some(fini) = program.fini {
            std::mem::transmute::<usize, unsafe extern "C" fn()>(base + fini)();
        }
    }
}

/// Calls the function whose address is at `at`, unless it is none.
///
/// # Safety
/// An entry of an array of functions without arguments.
unsafe fn call_entry(at: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let function = (at as *const usize).read_unaligned();
        if function != 0 && function != usize::MAX {
            std::mem::transmute::<usize, unsafe extern "C" fn()>(function)();
        }
    }
}

pub(crate) unsafe extern "C" fn exit(status: c_int) -> ! {
    // SAFETY: called by the program, or for it, on its stack.
    unsafe {
        run(status, |h| &mut h.exit);
        destroy();
        run(status, |h| &mut h.exit);
        files::flush_all();
        leave(status)
    }
}

/// Ends at once, as a process does that nobody has said goodbye for.
pub(crate) unsafe extern "C" fn exit_now(status: c_int) -> ! {
    // SAFETY: called by the program, or for it, on its stack.
    unsafe { end(status) }
}

unsafe extern "C" fn quick_exit(status: c_int) -> ! {
    // SAFETY: called by the program on its stack.
    unsafe {
        run(status, |h| &mut h.quick);
        end(status)
    }
}

type Plain = unsafe extern "C" fn(*mut c_void);

pub(crate) unsafe extern "C" fn cxa_atexit(f: Plain, with: *mut c_void, _: *mut c_void) -> c_int {
    // SAFETY: called on a PE's stack; the reference ends here.
    unsafe { current() }.handlers.exit.push(Handler::Plain(f, with));
    0
}

unsafe extern "C" fn atexit(f: Plain) -> c_int {
    // SAFETY: a function without arguments ignores the one it gets.
    unsafe { cxa_atexit(f, std::ptr::null_mut(), std::ptr::null_mut()) }
}

unsafe extern "C" fn on_exit(f: unsafe extern "C" fn(c_int, *mut c_void), with: *mut c_void) -> c_int {
    // SAFETY: called on a PE's stack; the reference ends here.
    unsafe { current() }.handlers.exit.push(Handler::WithStatus(f, with));
    0
}

unsafe extern "C" fn cxa_at_quick_exit(f: Plain, _: *mut c_void) -> c_int {
    // SAFETY: called on a PE's stack; the reference ends here.
    unsafe { current() }.handlers.quick.push(Handler::Plain(f, std::ptr::null_mut()));
    0
}

unsafe extern "C" fn at_quick_exit(f: Plain) -> c_int {
    // SAFETY: as for `cxa_at_quick_exit`.
    unsafe { cxa_at_quick_exit(f, std::ptr::null_mut()) }
}

/// Called by the image's destructors for what was registered since: the image is the only object with a list here.
unsafe extern "C" fn cxa_finalize(_: *mut c_void) {
    // SAFETY: called on a PE's stack.
    unsafe { run(0, |h| &mut h.exit) }
}

/// What a PE says whose program was ended by libc itself.
const BY_LIBC: &[u8] = b"a function of libc ended this program; its status is not known, 1 is taken\n";

/// Has calls of `exit` inside libc end the PE only. Each call of this is good for one exit.
///
/// libc first calls the destructors of the thread's objects, the last registered first. To be the first of all, this is
/// called when a PE begins: what the host's thread registered before stays alive.
pub(crate) fn catch_exits_of_libc() {
    unsafe extern "C" {
        fn __cxa_thread_atexit_impl(f: Plain, with: *mut c_void, object: *mut c_void) -> c_int;
    }
    unsafe extern "C" fn thread_ends(_: *mut c_void) {
        // A thread that hosted PEs before may end while another hosts some.
        // SAFETY: it is written before the first PE runs.
        let hosts = unsafe { libc::pthread_self() == (*HOST.get()).thread };
        if hosts && !CURRENT.load(Ordering::Relaxed).is_null() {
            catch_exits_of_libc();
            // SAFETY: a PE runs, so libc was called on its stack.
            unsafe {
                let (pe, sink) = (current().number, current().hooks.sink);
                sink(pe, 2, BY_LIBC.as_ptr(), BY_LIBC.len());
                exit(1)
            }
        }
    }
    // SAFETY: the function lives as long as the process.
    unsafe { __cxa_thread_atexit_impl(thread_ends, std::ptr::null_mut(), std::ptr::null_mut()) };
}
