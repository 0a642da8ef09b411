//! Functions with variable arguments that write messages and may end the program: libc's own would end the host, and
//! write past the host's sink.

use super::streams;
use crate::exit;
use crate::libc_state::variables::{stderr_now, stdout_now};
use crate::record::current;
use std::ffi::{c_char, c_int, c_uint, c_void};

unsafe extern "C" {
    fn vwarn(format: *const c_char, list: *mut c_void);
    fn vwarnx(format: *const c_char, list: *mut c_void);
    fn vfprintf(stream: *mut libc::FILE, format: *const c_char, list: *mut c_void) -> c_int;
    fn vasprintf(to: *mut *mut c_char, format: *const c_char, list: *mut c_void) -> c_int;
    static program_invocation_name: *const c_char;
    fn angara_coro_err();
    fn angara_coro_errx();
    fn angara_coro_error();
    fn angara_coro_error_at_line();
    fn angara_coro_dprintf();
    fn angara_coro_dprintf_chk();
}

pub(super) fn symbol(name: &str) -> Option<*const ()> {
    Some(match name {
        "err" => angara_coro_err as *const (),
        "errx" => angara_coro_errx as *const (),
        "verr" => verr as *const (),
        "verrx" => verrx as *const (),
        "error" => angara_coro_error as *const (),
        "error_at_line" => angara_coro_error_at_line as *const (),
        "dprintf" => angara_coro_dprintf as *const (),
        "__dprintf_chk" => angara_coro_dprintf_chk as *const (),
        "vdprintf" => vdprintf as *const (),
        "__vdprintf_chk" => vdprintf_chk as *const (),
        _ => return None,
    })
}

/// A function with variable arguments that calls one with a list of them, as the ABI lays it out: offsets of the next
/// general and floating-point registers, where further arguments lie, where the registers were saved.
macro_rules! with_list {
    ($name:literal, $fixed:literal, $list:literal, $to:path) => {
        std::arch::global_asm!(
            concat!(".globl ", $name),
            concat!(".type ", $name, ",@function"),
            concat!($name, ":"),
            ".cfi_startproc",
            "sub rsp, 0xd8",
            ".cfi_adjust_cfa_offset 0xd8",
            "mov [rsp + 0x20], rdi",
            "mov [rsp + 0x28], rsi",
            "mov [rsp + 0x30], rdx",
            "mov [rsp + 0x38], rcx",
            "mov [rsp + 0x40], r8",
            "mov [rsp + 0x48], r9",
            "test al, al",
            "je 2f",
            "movaps [rsp + 0x50], xmm0",
            "movaps [rsp + 0x60], xmm1",
            "movaps [rsp + 0x70], xmm2",
            "movaps [rsp + 0x80], xmm3",
            "movaps [rsp + 0x90], xmm4",
            "movaps [rsp + 0xa0], xmm5",
            "movaps [rsp + 0xb0], xmm6",
            "movaps [rsp + 0xc0], xmm7",
            "2:",
            concat!("mov dword ptr [rsp], 8 * ", $fixed),
            "mov dword ptr [rsp + 4], 48",
            "lea rax, [rsp + 0xe0]",
            "mov [rsp + 8], rax",
            "lea rax, [rsp + 0x20]",
            "mov [rsp + 16], rax",
            concat!("mov ", $list, ", rsp"),
            "call {to}",
            "add rsp, 0xd8",
            ".cfi_adjust_cfa_offset -0xd8",
            "ret",
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            to = sym $to,
        );
    };
}

with_list!("angara_coro_err", "2", "rdx", verr);
with_list!("angara_coro_errx", "2", "rdx", verrx);
with_list!("angara_coro_error", "3", "rcx", verror);
with_list!("angara_coro_error_at_line", "5", "r9", verror_at_line);
with_list!("angara_coro_dprintf", "2", "rdx", vdprintf);
with_list!("angara_coro_dprintf_chk", "3", "rcx", vdprintf_chk);

unsafe extern "C" fn verr(status: c_int, format: *const c_char, list: *mut c_void) -> ! {
    // SAFETY: the program's format and arguments, on its stack.
    unsafe {
        vwarn(format, list);
        exit::exit(status)
    }
}

unsafe extern "C" fn verrx(status: c_int, format: *const c_char, list: *mut c_void) -> ! {
    // SAFETY: as for `verr`.
    unsafe {
        vwarnx(format, list);
        exit::exit(status)
    }
}

unsafe extern "C" fn verror(status: c_int, number: c_int, format: *const c_char, list: *mut c_void) {
    // SAFETY: as for `verr`.
    unsafe { verror_at_line(status, number, std::ptr::null(), 0, format, list) }
}

unsafe extern "C" fn verror_at_line(
    status: c_int,
    number: c_int,
    file: *const c_char,
    line: c_uint,
    format: *const c_char,
    list: *mut c_void,
) {
    // SAFETY: as for `verr`; texts are libc's or the program's, terminated.
    unsafe {
        libc::fflush(stdout_now());
        let to = stderr_now();
        libc::fprintf(to, c"%s:".as_ptr(), program_name());
        if file.is_null() {
            libc::fputs(c" ".as_ptr(), to);
        } else {
            libc::fprintf(to, c"%s:%u: ".as_ptr(), file, line);
        }
        vfprintf(to, format, list);
        if number != 0 {
            libc::fprintf(to, c": %s".as_ptr(), libc::strerror(number));
        }
        libc::fputs(c"\n".as_ptr(), to);
        if status != 0 {
            exit::exit(status)
        }
    }
}

/// The name that the PE was started with.
unsafe fn program_name() -> *const c_char {
    // SAFETY: the first argument lies on the PE's stack, terminated.
    unsafe {
        let name = current().libc.name;
        if name.is_null() { program_invocation_name } else { name }
    }
}

unsafe extern "C" fn vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int {
    // SAFETY: the program's format and arguments; the text comes from malloc.
    unsafe {
        let mut text = std::ptr::null_mut();
        let len = vasprintf(&mut text, format, list);
        if len < 0 {
            return -1;
        }
        let written = streams::write(fd, text.cast(), len as usize);
        libc::free(text.cast());
        if written < 0 { -1 } else { len }
    }
}

unsafe extern "C" fn vdprintf_chk(fd: c_int, _: c_int, format: *const c_char, list: *mut c_void) -> c_int {
    // SAFETY: as for `vdprintf`.
    unsafe { vdprintf(fd, format, list) }
}
