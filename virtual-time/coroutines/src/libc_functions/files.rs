//! Files that a PE opened: flushed and closed at its end, as libc does at a process's.

use super::descriptors;
use crate::libc_state::variables::{Variables, stderr_now, stdin_now, stdout_now};
use crate::record::current;
use libc::FILE;
use std::ffi::{c_char, c_int};

unsafe extern "C" {
    fn tmpfile() -> *mut FILE;
    #[link_name = "freopen"]
    fn libc_freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
}

pub(super) fn symbol(name: &str) -> Option<*const ()> {
    Some(match name {
        "fopen" | "fopen64" => open as *const (),
        "fdopen" => open_descriptor as *const (),
        "tmpfile" | "tmpfile64" => open_temporary as *const (),
        "freopen" | "freopen64" => reopen as *const (),
        "fclose" => close as *const (),
        "fflush" | "fflush_unlocked" => flush as *const (),
        "fcloseall" => close_all as *const (),
        "fcntl" | "fcntl64" => control as *const (),
        _ => return None,
    })
}

fn kept(file: *mut FILE) -> *mut FILE {
    if !file.is_null() {
        // SAFETY: only PEs have the addresses of these functions.
        unsafe { current() }.libc.files.push(file);
    }
    file
}

unsafe extern "C" fn open(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the program's texts.
    kept(unsafe { libc::fopen(path, mode) })
}

unsafe extern "C" fn open_descriptor(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: the program's descriptor and text. The standard descriptors are the host's.
    kept(unsafe {
        match (0..3).contains(&fd) {
            true => super::streams::open_standard(fd, mode),
            false => descriptors::open_stream(fd, mode),
        }
    })
}

unsafe extern "C" fn open_temporary() -> *mut FILE {
    // SAFETY: no conditions.
    kept(unsafe { tmpfile() })
}

/// A standard stream is replaced by a new one: the old one writes to the host's sink and stays.
unsafe extern "C" fn reopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
    // SAFETY: the program's texts and stream; libc's variables are this PE's.
    unsafe {
        let Some(fd) = current().libc.streams.descriptor(stream) else { return libc_freopen(path, mode, stream) };
        libc::fflush(stream);
        if path.is_null() {
            return stream;
        }
        let file = open(path, mode);
        if !file.is_null() {
            let mut v = Variables::read();
            let (variable, name) = match fd {
                0 => (&mut v.stdin, "stdin"),
                1 => (&mut v.stdout, "stdout"),
                _ => (&mut v.stderr, "stderr"),
            };
            *variable = file;
            v.write();
            if let Some(at) = current().libc.copy_of(name) {
                (at as *mut *mut FILE).write_unaligned(file);
            }
            current().libc.cxx.follow();
        }
        file
    }
}

unsafe extern "C" fn close(file: *mut FILE) -> c_int {
    // SAFETY: the program's stream. Standard ones stay, for C++ streams may write to them.
    unsafe {
        if current().libc.streams.descriptor(file).is_some() {
            return libc::fflush(file);
        }
        let files = &mut current().libc.files;
        if let Some(i) = files.iter().rposition(|f| *f == file) {
            files.swap_remove(i);
        }
        descriptors::closes(libc::fileno(file));
        libc::fclose(file)
    }
}

unsafe extern "C" fn flush(file: *mut FILE) -> c_int {
    // SAFETY: the program's stream, or none for all of this PE's.
    unsafe {
        if !file.is_null() {
            return libc::fflush(file);
        }
        libc::fflush(stdout_now());
        libc::fflush(stderr_now());
        (0..current().libc.files.len()).map(|i| libc::fflush(current().libc.files[i])).fold(0, |a, b| a | b)
    }
}

/// Locks of records are a process's. The other kind is of who has opened the file, which a PE has for itself. The third
/// argument is a number or a pointer, and where the function takes any.
unsafe extern "C" fn control(fd: c_int, command: c_int, argument: usize) -> c_int {
    let command = match command {
        libc::F_SETLK => libc::F_OFD_SETLK,
        libc::F_SETLKW => libc::F_OFD_SETLKW,
        libc::F_GETLK => libc::F_OFD_GETLK,
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            // SAFETY: the program's arguments.
            return descriptors::opened(unsafe { libc::fcntl(fd, command, argument) });
        }
        // SAFETY: the program's arguments.
        other => return unsafe { libc::fcntl(fd, other, argument) },
    };
    // SAFETY: the program's lock; this kind wants no process number.
    unsafe {
        let lock = argument as *mut libc::flock;
        if !lock.is_null() {
            (*lock).l_pid = 0;
        }
        libc::fcntl(fd, command, lock)
    }
}

unsafe extern "C" fn close_all() -> c_int {
    // SAFETY: the PE's own streams.
    unsafe {
        flush_all();
        0
    }
}

/// Flushes the PE's streams and closes its files.
///
/// # Safety
/// Called on the PE's stack.
pub(crate) unsafe fn flush_all() {
    // SAFETY: streams that are open; the list is taken before its files are closed.
    unsafe {
        let streams = &current().libc.streams;
        let (output, error) = (streams.output, streams.error);
        libc::fflush(output);
        libc::fflush(error);
        let standard = [stdin_now(), stdout_now(), stderr_now()];
        for file in std::mem::take(&mut current().libc.files) {
            libc::fflush(file);
            if !standard.contains(&file) {
                descriptors::closes(libc::fileno(file));
                libc::fclose(file);
            }
        }
    }
}
