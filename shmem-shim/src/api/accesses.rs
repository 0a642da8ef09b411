//! Routines called by code that `oshcc --check-races` has compiled: the interface of gcc's ThreadSanitizer
//! (`tsan_interface.h` of LLVM's compiler-rt), and routines of the C library through which a program touches memory.
//!
//! A program that is compiled with `-fsanitize=thread` finds the routines of libtsan first.

use crate::rt::accesses::{Touch, touched, touched_atomically};
use libc::{c_char, c_int, c_void};
use std::arch::naked_asm;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

extern "C" fn read(address: usize, len: usize, code: usize) {
    touched(address, len, Touch::Read, code);
}

extern "C" fn write(address: usize, len: usize, code: usize) {
    touched(address, len, Touch::Write, code);
}

/// Routines with one argument, an address of `len` bytes, that pass on where they were called from.
macro_rules! hooks {
    ($($name:ident $to:ident $len:literal;)*) => { $(
        /// # Safety
        /// As the compiler calls it.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name(_address: usize) {
            #[cfg(target_arch = "x86_64")]
            naked_asm!("mov rdx, [rsp]", "mov esi, {len}", "jmp {to}", len = const $len, to = sym $to);
            #[cfg(target_arch = "aarch64")]
            naked_asm!("mov x2, x30", "mov x1, {len}", "b {to}", len = const $len, to = sym $to);
        }
    )* };
}
hooks! {
    __tsan_read1 read 1; __tsan_read2 read 2; __tsan_read4 read 4; __tsan_read8 read 8; __tsan_read16 read 16;
    __tsan_write1 write 1; __tsan_write2 write 2; __tsan_write4 write 4; __tsan_write8 write 8; __tsan_write16 write 16;
    __tsan_unaligned_read2 read 2; __tsan_unaligned_read4 read 4; __tsan_unaligned_read8 read 8;
    __tsan_unaligned_read16 read 16; __tsan_unaligned_write2 write 2; __tsan_unaligned_write4 write 4;
    __tsan_unaligned_write8 write 8; __tsan_unaligned_write16 write 16;
    __tsan_volatile_read1 read 1; __tsan_volatile_read2 read 2; __tsan_volatile_read4 read 4;
    __tsan_volatile_read8 read 8; __tsan_volatile_read16 read 16; __tsan_volatile_write1 write 1;
    __tsan_volatile_write2 write 2; __tsan_volatile_write4 write 4; __tsan_volatile_write8 write 8;
    __tsan_volatile_write16 write 16; __tsan_vptr_read read 8; __tsan_vptr_update write 8;
}

/// Routines that pass on three arguments or fewer, and where they were called from as the fourth.
macro_rules! passed_on {
    ($($name:ident $to:ident;)*) => { $(
        /// # Safety
        /// As the compiler calls it, or as the routine of the C library.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!("mov rcx, [rsp]", "jmp {to}", to = sym $to);
            #[cfg(target_arch = "aarch64")]
            naked_asm!("mov x3, x30", "b {to}", to = sym $to);
        }
    )* };
}
passed_on! {
    __tsan_read_range read_range; __tsan_write_range write_range;
    __wrap_memcpy copy; __wrap___memcpy_chk copy; __wrap_memmove copy; __wrap___memmove_chk copy;
    __wrap_memset set; __wrap___memset_chk set; __wrap_memcmp compare;
    __wrap_strlen length; __wrap_strcpy copy_string; __wrap___strcpy_chk copy_string;
}

extern "C" fn read_range(address: usize, len: usize, _none: usize, code: usize) {
    touched(address, len, Touch::Read, code);
}

extern "C" fn write_range(address: usize, len: usize, _none: usize, code: usize) {
    touched(address, len, Touch::Write, code);
}

/// # Safety
/// As `memmove`.
unsafe extern "C" fn copy(dest: *mut c_void, source: *const c_void, len: usize, code: usize) -> *mut c_void {
    touched(source as usize, len, Touch::Read, code);
    touched(dest as usize, len, Touch::Write, code);
    // SAFETY: the caller's contract.
    unsafe { libc::memmove(dest, source, len) }
}

/// # Safety
/// As `memset`.
unsafe extern "C" fn set(dest: *mut c_void, byte: c_int, len: usize, code: usize) -> *mut c_void {
    touched(dest as usize, len, Touch::Write, code);
    // SAFETY: the caller's contract.
    unsafe { libc::memset(dest, byte, len) }
}

/// # Safety
/// As `memcmp`.
unsafe extern "C" fn compare(one: *const c_void, other: *const c_void, len: usize, code: usize) -> c_int {
    touched(one as usize, len, Touch::Read, code);
    touched(other as usize, len, Touch::Read, code);
    // SAFETY: the caller's contract.
    unsafe { libc::memcmp(one, other, len) }
}

/// # Safety
/// As `strlen`.
unsafe extern "C" fn length(text: *const c_char, _second: usize, _third: usize, code: usize) -> usize {
    // SAFETY: the caller's contract.
    let len = unsafe { libc::strlen(text) };
    touched(text as usize, len + 1, Touch::Read, code);
    len
}

/// # Safety
/// As `strcpy`.
unsafe extern "C" fn copy_string(dest: *mut c_char, text: *const c_char, _third: usize, code: usize) -> *mut c_char {
    // SAFETY: the caller's contract, here and below.
    let len = unsafe { libc::strlen(text) } + 1;
    touched(text as usize, len, Touch::Read, code);
    touched(dest as usize, len, Touch::Write, code);
    // SAFETY: the caller's contract, here and below.
    unsafe { libc::strcpy(dest, text) }
}

/// Routines of which nothing is to be learnt.
macro_rules! nothing {
    ($($name:ident($($type:ty)?);)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name($(_: $type)?) {}
    )* };
}
nothing! { __tsan_init(); __tsan_func_entry(usize); __tsan_func_exit(); }

/// Orders all accesses of this thread, as the strictest of the compiler's fences.
#[unsafe(no_mangle)]
extern "C" fn __tsan_atomic_thread_fence(_order: c_int) {
    fence(Ordering::SeqCst);
}

/// Orders accesses of this thread against those of its signal handlers.
#[unsafe(no_mangle)]
extern "C" fn __tsan_atomic_signal_fence(_order: c_int) {
    compiler_fence(Ordering::SeqCst);
}

/// The compiler's atomics of one width. All are as strict as the strictest: that is allowed for every order.
macro_rules! atomics {
    ($($n:literal $T:ty, $Atomic:ident;)*) => { ::pastey::paste! { $(
        atomics! { @change $T, $Atomic;
            [<__tsan_atomic $n _exchange>] swap; [<__tsan_atomic $n _fetch_add>] fetch_add;
            [<__tsan_atomic $n _fetch_sub>] fetch_sub; [<__tsan_atomic $n _fetch_and>] fetch_and;
            [<__tsan_atomic $n _fetch_or>] fetch_or; [<__tsan_atomic $n _fetch_xor>] fetch_xor;
            [<__tsan_atomic $n _fetch_nand>] fetch_nand;
        }
        /// # Safety
        /// `at` is an aligned variable.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn [<__tsan_atomic $n _load>](at: *const $T, _order: c_int) -> $T {
            touched_atomically(at as usize, size_of::<$T>(), Touch::AtomicRead);
            // SAFETY: the caller's contract.
            unsafe { $Atomic::from_ptr(at.cast_mut()) }.load(Ordering::SeqCst)
        }
        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn [<__tsan_atomic $n _store>](at: *mut $T, value: $T, _order: c_int) {
            touched_atomically(at as usize, size_of::<$T>(), Touch::AtomicWrite);
            // SAFETY: the caller's contract.
            unsafe { $Atomic::from_ptr(at) }.store(value, Ordering::SeqCst);
        }
        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn [<__tsan_atomic $n _compare_exchange_val>](
            at: *mut $T, expected: $T, value: $T, _order: c_int, _failure: c_int,
        ) -> $T {
            touched_atomically(at as usize, size_of::<$T>(), Touch::AtomicWrite);
            // SAFETY: the caller's contract.
            let done = unsafe { $Atomic::from_ptr(at) }
                .compare_exchange(expected, value, Ordering::SeqCst, Ordering::SeqCst);
            done.unwrap_or_else(|other| other)
        }
        atomics! { @compare $T, $Atomic;
            [<__tsan_atomic $n _compare_exchange_strong>], [<__tsan_atomic $n _compare_exchange_weak>]
        }
    )* } };
    (@change $T:ty, $Atomic:ident; $($name:ident $method:ident;)*) => { $(
        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(at: *mut $T, value: $T, _order: c_int) -> $T {
            touched_atomically(at as usize, size_of::<$T>(), Touch::AtomicWrite);
            // SAFETY: the caller's contract.
            unsafe { $Atomic::from_ptr(at) }.$method(value, Ordering::SeqCst)
        }
    )* };
    (@compare $T:ty, $Atomic:ident; $($name:ident),*) => { $(
        /// # Safety
        /// As above, and `expected` is a variable of the caller's.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            at: *mut $T, expected: *mut $T, value: $T, _order: c_int, _failure: c_int,
        ) -> c_int {
            touched_atomically(at as usize, size_of::<$T>(), Touch::AtomicWrite);
            // SAFETY: the caller's contract, here and below.
            let (variable, old) = unsafe { ($Atomic::from_ptr(at), *expected) };
            match variable.compare_exchange(old, value, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => 1,
                Err(other) => {
                    // SAFETY: the caller's contract, here and below.
                    unsafe { *expected = other };
                    0
                }
            }
        }
    )* };
}
atomics! { 8 u8, AtomicU8; 16 u16, AtomicU16; 32 u32, AtomicU32; 64 u64, AtomicU64; }
