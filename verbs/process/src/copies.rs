//! Copies between two processes, by the kernel.

use angara_hca::{Errno, Piece};
use rustix::io::Errno as E;
use smallvec::SmallVec;

/// What a spinning program looks at: the last bytes of what is written.
const LAST: u64 = 8;

fn vector(pieces: impl Iterator<Item = Piece>) -> SmallVec<[libc::iovec; 4]> {
    pieces
        .map(|piece| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(piece.at as usize),
            iov_len: piece.len as usize,
        })
        .collect()
}

/// Pieces without their first `skip` bytes.
fn rest(pieces: &[Piece], skip: u64) -> impl Iterator<Item = Piece> + '_ {
    let mut skip = skip;
    pieces.iter().filter_map(move |piece| {
        let from = skip.min(piece.len);
        skip -= from;
        (from < piece.len).then_some(Piece { at: piece.at + from, len: piece.len - from })
    })
}

/// Copies all bytes between pieces of this process and of another one: there, with `writes`, else from there. Both have the
/// same number of bytes.
pub(crate) fn copy(pid: i32, theirs: &[Piece], own: &[Piece], writes: bool) -> Result<(), Errno> {
    let all: u64 = own.iter().map(|piece| piece.len).sum();
    let mut done = 0;
    while done < all {
        let (local, remote) = (vector(rest(own, done)), vector(rest(theirs, done)));
        let (locals, remotes) = (local.len() as libc::c_ulong, remote.len() as libc::c_ulong);
        // SAFETY: the kernel checks both sides: whatever is not there is EFAULT. What the copy changes in this process is
        // memory that the program has registered for it, or a buffer that the caller lends.
        let got = unsafe {
            match writes {
                true => libc::process_vm_writev(pid, local.as_ptr(), locals, remote.as_ptr(), remotes, 0),
                false => libc::process_vm_readv(pid, local.as_ptr(), locals, remote.as_ptr(), remotes, 0),
            }
        };
        match got {
            1.. => done += got as u64,
            0 => return Err(E::FAULT),
            _ => return Err(E::from_io_error(&std::io::Error::last_os_error()).unwrap_or(E::FAULT)),
        }
    }
    Ok(())
}

/// [`copy`] to or from one range of the other process, whose last bytes are written after the rest.
pub(crate) fn copy_ending(pid: i32, at: u64, own: &[Piece], writes: bool) -> Result<(), Errno> {
    let len: u64 = own.iter().map(|piece| piece.len).sum();
    let before = len.saturating_sub(LAST);
    let theirs = [Piece { at, len: before }, Piece { at: at + before, len: len - before }];
    match writes && before > 0 {
        true => copy(pid, &theirs, own, true),
        false => copy(pid, &[Piece { at, len }], own, writes),
    }
}

/// Reads bytes of a process.
pub(crate) fn read(pid: i32, at: u64, into: &mut [u8]) -> Result<(), Errno> {
    let own = [Piece { at: into.as_mut_ptr() as u64, len: into.len() as u64 }];
    copy(pid, &[Piece { at, len: into.len() as u64 }], &own, false)
}
