//! Where the program begins, and where its threads do.

use super::order;
use crate::program::program;
use crate::real;
use crate::real::real;
use angara_abi::program_clock::Call;
use angara_protocol::launch::ENV_PE;
use libc::{c_char, c_int, c_void, pthread_attr_t, pthread_t};
use std::sync::atomic::{AtomicUsize, Ordering};

type Main = unsafe extern "C-unwind" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
type Start = unsafe extern "C-unwind" fn(Main, c_int, usize, usize, usize, usize, usize) -> c_int;

/// The program's own.
static MAIN: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C-unwind" fn main(count: c_int, words: *mut *mut c_char, variables: *mut *mut c_char) -> c_int {
    // What starts ranks, as Open MPI's mpirun does, has real time.
    if angara_protocol::trust::var_os(ENV_PE).is_some() {
        program().becomes_virtual();
        program().set_call(Call::OUTSIDE);
    }
    // SAFETY: what the program's first instructions gave to libc.
    unsafe { std::mem::transmute::<usize, Main>(MAIN.load(Ordering::Relaxed))(count, words, variables) }
}

/// As the function of libc, which a program calls first: with its `main`, words, constructors and destructors, and the end
/// of its stack.
///
/// # Safety
/// As that function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn __libc_start_main(
    program: Main,
    count: c_int,
    words: usize,
    init: usize,
    fini: usize,
    loader_fini: usize,
    stack: usize,
) -> c_int {
    MAIN.store(program as usize, Ordering::Relaxed);
    // SAFETY: libc has one.
    let start = unsafe { std::mem::transmute::<usize, Start>(real::next(c"__libc_start_main") as usize) };
    // SAFETY: passed on as the program gave it, but for `main`, which calls what it gave.
    unsafe { start(main, count, words, init, fini, loader_fini, stack) }
}

type Routine = extern "C-unwind" fn(*mut c_void) -> *mut c_void;
/// The same of C11.
type Routine11 = extern "C-unwind" fn(*mut c_void) -> c_int;

/// Routine and argument of a thread of the program, and its number.
struct Work<R>(R, *mut c_void, u64);

impl<R> Work<R> {
    /// Makes a thread by `create`. One that the program makes is the program's. One that is made before the program begins,
    /// inside a call of a message-passing library, or by such a thread, is a library's: it keeps real time where that library has
    /// such threads.
    ///
    /// # Safety
    /// `create` writes the thread's handle to `made`, unless it fails.
    unsafe fn begin(
        made: *const pthread_t,
        routine: R,
        argument: *mut c_void,
        ours: R,
        create: impl FnOnce(R, *mut c_void) -> c_int,
    ) -> c_int {
        if program().is_real() || program().is_in_call() {
            return create(routine, argument);
        }
        let number = order::makes_thread();
        let work = Box::into_raw(Box::new(Work(routine, argument, number)));
        let result = create(ours, work.cast());
        if result != 0 {
            order::thread_ends(number);
            // SAFETY: made above, and given to nobody.
            drop(unsafe { Box::from_raw(work) });
        } else {
            // SAFETY: the caller's contract.
            order::thread_made(number, unsafe { made.read() });
        }
        result
    }

    /// The thread begins; its routine and argument. Nothing is left to drop: it may unwind.
    ///
    /// # Safety
    /// `work` was made by `begin`, for this thread alone.
    unsafe fn take(work: *mut c_void) -> (R, *mut c_void) {
        // SAFETY: the caller's contract.
        let Work(routine, argument, number) = *unsafe { Box::from_raw(work.cast::<Work<R>>()) };
        program().set_call(Call::OUTSIDE);
        order::thread_begins(number);
        (routine, argument)
    }
}

extern "C-unwind" fn of_program(work: *mut c_void) -> *mut c_void {
    // SAFETY: what `pthread_create` has given this thread.
    let (routine, argument) = unsafe { Work::<Routine>::take(work) };
    routine(argument)
}

extern "C-unwind" fn of_program11(work: *mut c_void) -> c_int {
    // SAFETY: what `thrd_create` has given this thread.
    let (routine, argument) = unsafe { Work::<Routine11>::take(work) };
    routine(argument)
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    routine: Routine,
    argument: *mut c_void,
) -> c_int {
    let create = real!(pthread_create: fn(*mut pthread_t, *const pthread_attr_t, Routine, *mut c_void) -> c_int);
    let create = |routine, argument| create(thread, attributes, routine, argument);
    // SAFETY: as libc does it.
    unsafe { Work::begin(thread, routine, argument, of_program as Routine, create) }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn thrd_create(
    thread: *mut pthread_t,
    routine: Routine11,
    argument: *mut c_void,
) -> c_int {
    let create = real!(thrd_create: fn(*mut pthread_t, Routine11, *mut c_void) -> c_int);
    let create = |routine, argument| create(thread, routine, argument);
    // SAFETY: as libc does it. Handles of C11 are those of POSIX.
    unsafe { Work::begin(thread, routine, argument, of_program11 as Routine11, create) }
}
