//! The one order that copies keep: whoever sees the last word of [`copy::store_ending`] sees all before it.
//!
//! A child copies, one instruction at a time, into memory that its parent looks at after each.
#![cfg(not(loom))]

use angara_abi::copy;
use angara_abi::shm::{Access, Mapping};
use std::sync::atomic::{AtomicU64, Ordering};

type Copy = unsafe fn(*mut u8, *const u8, usize);

/// Result of the looks after each instruction of a copy.
#[derive(PartialEq, Eq, Debug)]
enum Found {
    /// Once, the last word was there before all others.
    Hole,
    /// There was never a hole, and in the end all was there.
    Whole,
    /// This machine lets no process follow another.
    NotAllowed,
}

/// Follows `copy` of `len` bytes to `to`, a multiple of 8 at the end.
fn follow(copy: Copy, to: usize, len: usize) -> Found {
    let (_, map) = Mapping::create("followed", 2 * 4096, Access::Shared).expect("memory");
    let source: Vec<u8> = (0..len).map(|i| i as u8 | 1).collect();
    let (dst, src) = (map.as_ptr().wrapping_add(to), source.as_ptr());
    // SAFETY: the child only asks to be followed, stops, copies inside the mapping, and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the child only asks to be followed, stops, copies inside the mapping, and leaves.
        unsafe {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0 {
                libc::_exit(9);
            }
            libc::raise(libc::SIGSTOP);
            copy(dst, src, len);
            libc::_exit(0);
        }
    }
    let last: &AtomicU64 = map.at(to + len - 8).expect("aligned");
    let want = u64::from_le_bytes(source[len - 8..].try_into().expect("8 bytes"));
    let (mut status, mut found) = (0, Found::Whole);
    let mut bytes = vec![0; len];
    loop {
        // SAFETY: the child is ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        if !libc::WIFSTOPPED(status) {
            break;
        }
        if last.load(Ordering::Acquire) == want {
            map.read(to, &mut bytes).expect("inside");
            if bytes != source {
                found = Found::Hole;
            }
        }
        // SAFETY: as above. A child that cannot go on step by step goes on as it likes, and ends.
        unsafe {
            if libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0) != 0 {
                libc::kill(child, libc::SIGKILL);
            }
        }
    }
    if !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) == 9 {
        return Found::NotAllowed;
    }
    assert_eq!(libc::WEXITSTATUS(status), 0);
    map.read(to, &mut bytes).expect("inside");
    assert!(bytes == source, "{len} bytes to {to}");
    found
}

/// A copy that keeps no order, as `store` may not.
unsafe fn last_word_first(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        copy::poke(dst.add(len - 8), copy::peek::<u64>(src.add(len - 8)));
        copy::store(dst, src, len - 8);
    }
}

#[test]
fn the_last_word_is_the_last_to_be_stored() {
    if follow(last_word_first, 4096, 64) == Found::NotAllowed {
        println!("skipped: this machine lets no process follow another");
        return;
    }
    assert_eq!(follow(last_word_first, 4096, 64), Found::Hole, "such a copy is found out");
    for len in [8, 9, 15, 16, 24, 31, 40, 72, 80, 100, 136, 137, 200, 255, 256] {
        assert_eq!(follow(copy::store_ending, 4096 - len, len), Found::Whole, "{len} bytes");
    }
}
