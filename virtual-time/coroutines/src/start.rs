//! The beginning of a PE: its stack as the kernel lays it out, and the function that calls constructors and `main`.

use crate::exit;
use crate::record::{Record, current};
use crate::{PAGE, switch};
use std::ffi::{CStr, c_char, c_int, c_void};

/// The function of this module for a name.
pub(crate) fn symbol(name: &str) -> Option<usize> {
    (name == "__libc_start_main").then_some(libc_start_main as *const () as usize)
}

type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
type Init = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char);

/// Called by the program's `_start`. Programs linked with glibc before 2.34 give their own `init`, which calls the
/// constructors; for others it is null and they are called here.
unsafe extern "C" fn libc_start_main(
    main: Main,
    argc: c_int,
    argv: *mut *mut c_char,
    init: Option<Init>,
    _fini: *mut c_void,
    rtld_fini: Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int {
    // SAFETY: called once on the PE's stack with what `lay_out` wrote; the arrays lie in the image and hold functions.
    unsafe {
        let envp = argv.add(argc as usize + 1);
        if let Some(f) = rtld_fini {
            exit::cxa_atexit(f, std::ptr::null_mut(), std::ptr::null_mut());
        }
        let (base, program) = (current().base, &*current().program);
        let call = |(at, count): (usize, usize)| {
            for i in 0..count {
                let function = ((base + at + 8 * i) as *const usize).read_unaligned();
                if function != 0 && function != usize::MAX {
                    std::mem::transmute::<usize, Init>(function)(argc, argv, envp);
                }
            }
        };
        call(program.preinit_array);
        match init {
            Some(init) => init(argc, argv, envp),
            None => {
                if let Some(init) = program.init {
                    std::mem::transmute::<usize, Init>(base + init)(argc, argv, envp);
                }
                call(program.init_array);
            }
        }
        exit::exit(main(argc, argv, envp))
    }
}

/// Words of the auxiliary vector that programs read.
fn auxiliary(random: usize, base: usize, entry: usize) -> [usize; 14] {
    // SAFETY: no conditions.
    let of_host = |kind| unsafe { libc::getauxval(kind) } as usize;
    [
        libc::AT_PAGESZ as usize,
        PAGE,
        libc::AT_RANDOM as usize,
        random,
        libc::AT_BASE as usize,
        base,
        libc::AT_ENTRY as usize,
        base + entry,
        libc::AT_HWCAP as usize,
        of_host(libc::AT_HWCAP),
        libc::AT_CLKTCK as usize,
        of_host(libc::AT_CLKTCK),
        libc::AT_NULL as usize,
        0,
    ]
}

/// Bytes that arguments and environment take on a stack.
pub(crate) fn needed(args: &[&CStr], env: usize) -> usize {
    args.iter().map(|a| a.count_bytes() + 1).sum::<usize>() + 8 * (args.len() + env + 24) + 256
}

/// Writes arguments, pointers to `env` and the auxiliary vector to the top of the stack and makes the PE ready to begin.
/// Returns where the pointers to the environment lie.
///
/// # Safety
/// The PE's stack is writable and has room for [`needed`]; strings of `env` live as long as the PE.
pub(crate) unsafe fn lay_out(pe: &mut Record, entry: usize, args: &[&CStr], env: &[*const c_char]) -> *mut *mut c_char {
    // SAFETY: all writes go below the stack's top, no deeper than `needed`.
    unsafe {
        let mut at = pe.stack.top - 16;
        let random = at;
        // Not secret: a fresh process has random bytes here, a PE the same ones in every run.
        (at as *mut [u64; 2]).write([0x9e37_79b9_7f4a_7c15 ^ u64::from(pe.number), 0xbf58_476d_1ce4_e5b9]);
        let mut words: Vec<usize> = vec![args.len()];
        for a in args {
            let bytes = a.to_bytes_with_nul();
            at -= bytes.len();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len());
            words.push(at);
        }
        words.push(0);
        let env_at = words.len();
        words.extend(env.iter().map(|e| *e as usize));
        words.push(0);
        words.extend(auxiliary(random, pe.base, entry));
        let argc_at = (at - 8 * words.len()) & !15;
        std::ptr::copy_nonoverlapping(words.as_ptr(), argc_at as *mut usize, words.len());
        pe.sp = switch::prepare(argc_at, pe.base + entry);
        (argc_at as *mut *mut c_char).add(env_at)
    }
}
