//! Memory of the program that an operation reads or writes.
//!
//! libfabric's contract is that a buffer stays valid, and untouched or unread, from the call that names it to its completion.
//! The entry points make a [`UserMemory`] where a call names a buffer; from there on it is used within its bounds.

use angara::mailbox::Message;
use std::io::IoSlice;

/// Most pieces a buffer may consist of.
pub(crate) const PIECES: usize = 4;

/// A piece of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    at: *mut u8,
    len: usize,
}

impl Span {
    const EMPTY: Span = Span { at: std::ptr::null_mut(), len: 0 };

    pub(crate) fn address(&self) -> usize {
        self.at as usize
    }
    pub(crate) fn len(&self) -> usize {
        self.len
    }
    /// Its first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.at
    }

    /// Its bytes. They are there as long as the buffer that it is a piece of.
    #[inline]
    fn io_slice(&self) -> IoSlice<'_> {
        match self.len {
            0 => IoSlice::new(&[]),
            // SAFETY: readable until the operation completes.
            len => IoSlice::new(unsafe { std::slice::from_raw_parts(self.at, len) }),
        }
    }
}

/// A buffer of up to [`PIECES`] pieces. Most have one, and are moved several times from the call to the completion.
pub(crate) struct UserMemory {
    first: Span,
    len: usize,
    more: Option<Box<More>>,
}

/// Parts of a buffer that few buffers have.
struct More {
    /// Pieces behind the first.
    spans: [Span; PIECES - 1],
    count: usize,
    /// Where the first piece is a copy of our own.
    _own: Option<Box<[u8]>>,
}

// SAFETY: the spans are plain memory of the process, which any thread may use; who may at a time is libfabric's contract.
unsafe impl Send for UserMemory {}

impl UserMemory {
    /// # Safety
    /// `len` bytes at `at` may be used, as the operation does, until its completion.
    #[inline]
    pub(crate) unsafe fn new(at: *mut u8, len: usize) -> UserMemory {
        UserMemory { first: Span { at, len }, len, more: None }
    }

    /// Nothing, if there are too many pieces.
    ///
    /// # Safety
    /// As [`UserMemory::new`] for every piece.
    pub(crate) unsafe fn pieces(pieces: impl Iterator<Item = (*mut u8, usize)>) -> Option<UserMemory> {
        let mut memory = UserMemory::nothing();
        for (number, (at, len)) in pieces.enumerate() {
            if number >= PIECES {
                return None;
            }
            memory.push(Span { at, len })?;
        }
        Some(memory)
    }

    /// One more piece. Nothing if there are too many, or the sum of their bytes is.
    fn push(&mut self, span: Span) -> Option<()> {
        if self.len == 0 {
            self.first = span;
        } else if span.len > 0 {
            let none = || Box::new(More { spans: [Span::EMPTY; PIECES - 1], count: 0, _own: None });
            let more = self.more.get_or_insert_with(none);
            *more.spans.get_mut(more.count)? = span;
            more.count += 1;
        }
        self.len = self.len.checked_add(span.len)?;
        Some(())
    }

    /// Bytes that nobody else has.
    pub(crate) fn owned(mut bytes: Box<[u8]>) -> UserMemory {
        // SAFETY: the box lives as long as the memory, and its bytes do not move.
        let memory = unsafe { UserMemory::new(bytes.as_mut_ptr(), bytes.len()) };
        let more = More { spans: [Span::EMPTY; PIECES - 1], count: 0, _own: Some(bytes) };
        UserMemory { more: Some(Box::new(more)), ..memory }
    }

    #[inline]
    pub(crate) fn nothing() -> UserMemory {
        UserMemory { first: Span::EMPTY, len: 0, more: None }
    }

    /// The pieces of several buffers as one; nothing if there are too many.
    pub(crate) fn join(all: impl Iterator<Item = UserMemory>) -> Option<UserMemory> {
        let mut joined = UserMemory::nothing();
        for memory in all {
            memory.spans().try_for_each(|span| joined.push(*span))?;
        }
        Some(joined)
    }

    /// A copy of the bytes there now.
    pub(crate) fn to_owned_copy(&self) -> UserMemory {
        let mut bytes = vec![0; self.len].into_boxed_slice();
        self.read(0, &mut bytes);
        UserMemory::owned(bytes)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        let more = self.more.as_deref().map_or(&[][..], |more| &more.spans[..more.count]);
        std::iter::once(&self.first).chain(more)
    }

    /// Address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.first.address()
    }

    /// Part of the buffer, which shares its bytes.
    pub(crate) fn part(&self, from: usize, len: usize) -> UserMemory {
        let mut part = UserMemory::nothing();
        self.walk(from, len, |_, at, len| {
            // As many as there are here, at most.
            let _ = part.push(Span { at, len });
        });
        part
    }

    /// Forgets all but the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        let mut left = len.min(self.len);
        self.len = left;
        let more = self.more.iter_mut().flat_map(|more| more.spans.iter_mut());
        for span in std::iter::once(&mut self.first).chain(more) {
            span.len = span.len.min(left);
            left -= span.len;
        }
    }

    /// Copies all of the buffer to memory that others may read.
    ///
    /// # Safety
    /// `to` is writable for as many bytes.
    pub(crate) unsafe fn copy_to(&self, to: *mut u8) {
        // SAFETY: inside the buffer; the caller vouches for the other side.
        self.walk(0, self.len, |done, at, len| unsafe { angara_abi::copy::store(to.add(done), at, len) });
    }

    /// Copies all of the buffer from memory that others may write.
    ///
    /// # Safety
    /// `from` is readable for as many bytes.
    pub(crate) unsafe fn copy_from(&self, from: *const u8) {
        // SAFETY: inside the buffer; the caller vouches for the other side.
        self.walk(0, self.len, |done, at, len| unsafe { angara_abi::copy::load(at, from.add(done), len) });
    }

    /// Calls `each` with where in the range, address and length of each piece.
    #[inline]
    fn walk(&self, from: usize, len: usize, mut each: impl FnMut(usize, *mut u8, usize)) {
        assert!(from.checked_add(len).is_some_and(|end| end <= self.len), "{len} bytes from {from} of {}", self.len);
        if self.more.is_none() {
            if len > 0 {
                each(0, self.first.at.wrapping_add(from), len);
            }
            return;
        }
        let (mut skip, mut done) = (from, 0);
        for span in self.spans() {
            let here = span.len.saturating_sub(skip).min(len - done);
            if here > 0 {
                each(done, span.at.wrapping_add(skip), here);
                done += here;
            }
            skip = skip.saturating_sub(span.len);
        }
    }

    /// Copies out of the buffer.
    pub(crate) fn read(&self, from: usize, to: &mut [u8]) {
        // SAFETY: inside the buffer, and `to` has as many bytes.
        self.walk(from, to.len(), |done, at, len| unsafe {
            std::ptr::copy(at, to[done..done + len].as_mut_ptr(), len);
        });
    }

    /// Copies into the buffer.
    pub(crate) fn write(&self, to: usize, from: &[u8]) {
        // SAFETY: inside the buffer, and `from` has as many bytes.
        self.walk(to, from.len(), |done, at, len| unsafe {
            std::ptr::copy(from[done..done + len].as_ptr(), at, len);
        });
    }

    /// Copies part of a message into the buffer.
    #[inline]
    pub(crate) fn write_message(&self, to: usize, message: &Message<'_>, from: usize, len: usize) {
        // SAFETY: inside the buffer.
        self.walk(to, len, |done, at, len| unsafe { message.copy_to(from + done, at, len) });
    }

    /// The bytes, to be sent now, if they are in one piece.
    #[inline]
    pub(crate) fn one_piece(&self) -> Option<IoSlice<'_>> {
        if self.more.is_some() { None } else { Some(self.first.io_slice()) }
    }

    /// The pieces to be sent now.
    pub(crate) fn io_slices(&self) -> impl Iterator<Item = IoSlice<'_>> {
        self.spans().map(Span::io_slice)
    }

    /// Gets bytes of a PE's heap into the buffer.
    pub(crate) fn fetch(
        &self,
        to: usize,
        job: &angara::Job,
        from: (usize, angara::Place),
        len: usize,
    ) -> angara::Result<()> {
        let mut out = Ok(());
        self.walk(to, len, |done, at, len| {
            let place = angara::Place { offset: from.1.offset + done as u64, ..from.1 };
            if out.is_ok() {
                // SAFETY: inside the buffer.
                out = unsafe { job.ctx().get_nbi(angara::Class::Get, from.0, at, place, len) };
            }
        });
        out?;
        job.ctx().quiet()
    }
}

/// Reads memory of another process of this user into `to`: as many bytes as that has. What is returned is the word at `then`
/// of that process, read when all of them have been. The kernel decides whether it may be.
pub(crate) fn read_process(
    pid: i32,
    from: impl Iterator<Item = (u64, u64)> + Clone,
    to: &UserMemory,
    then: u64,
) -> Result<u64, std::io::Error> {
    let mut word = [0; 8];
    let (mut at, all) = (0, to.len + word.len());
    while at < all {
        let (most, behind) = (to.len.saturating_sub(at), at.saturating_sub(to.len));
        let mut local = Vec::with_capacity(PIECES + 1);
        to.walk(at.min(to.len), most, |_, at, len| local.push(libc::iovec { iov_base: at.cast(), iov_len: len }));
        let rest = &mut word[behind..];
        local.push(libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() });
        let mut remote = Vec::with_capacity(PIECES + 1);
        let (mut skip, mut left) = (at as u64, most as u64);
        for (address, len) in from.clone() {
            let here = len.saturating_sub(skip).min(left);
            if here > 0 {
                let base = address.wrapping_add(skip) as usize as *mut libc::c_void;
                remote.push(libc::iovec { iov_base: base, iov_len: here as usize });
                left -= here;
            }
            skip = skip.saturating_sub(len);
        }
        // The kernel takes the pieces one after the other, the word last.
        let base = then.wrapping_add(behind as u64) as usize as *mut libc::c_void;
        remote.push(libc::iovec { iov_base: base, iov_len: word.len() - behind });
        // SAFETY: the local pieces are inside the buffer and the word; the kernel checks the others.
        let got = unsafe {
            libc::process_vm_readv(pid, local.as_ptr(), local.len() as u64, remote.as_ptr(), remote.len() as u64, 0)
        };
        match got {
            1.. => at += got as usize,
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => return Err(std::io::Error::last_os_error()),
        }
    }
    Ok(u64::from_ne_bytes(word))
}

/// Copies all of a buffer to `at` of another process of this user, or from there. The kernel decides whether it may be.
pub(crate) fn copy_process(pid: i32, at: u64, memory: &UserMemory, writes: bool) -> Result<(), std::io::Error> {
    let mut done = 0;
    while done < memory.len {
        let mut local = Vec::with_capacity(PIECES);
        memory.walk(done, memory.len - done, |_, at, len| {
            local.push(libc::iovec { iov_base: at.cast(), iov_len: len });
        });
        let base = at.wrapping_add(done as u64) as usize as *mut libc::c_void;
        let remote = libc::iovec { iov_base: base, iov_len: memory.len - done };
        // SAFETY: the local pieces are inside the buffer; the kernel checks the other side.
        let got = unsafe {
            match writes {
                true => libc::process_vm_writev(pid, local.as_ptr(), local.len() as u64, &raw const remote, 1, 0),
                false => libc::process_vm_readv(pid, local.as_ptr(), local.len() as u64, &raw const remote, 1, 0),
            }
        };
        match got {
            1.. => done += got as usize,
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => return Err(std::io::Error::last_os_error()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_pieces_is_one_row_of_bytes() {
        let (mut a, mut b, mut c) = ([0u8; 3], [0u8; 0], [0u8; 6]);
        let pieces = [(a.as_mut_ptr(), 3), (b.as_mut_ptr(), 0), (c.as_mut_ptr(), 6)];
        // SAFETY: three arrays that live to the end of the test.
        let memory = unsafe { UserMemory::pieces(pieces.into_iter()) }.expect("three pieces");
        memory.write(0, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
        for from in 0..9 {
            for len in 0..9 - from {
                let mut out = vec![0; len];
                memory.read(from, &mut out);
                assert!(out.iter().enumerate().all(|(i, byte)| *byte as usize == from + i), "{from} {len}");
                let mut part = vec![0; len];
                memory.part(from, len).read(0, &mut part);
                assert_eq!(part, out);
            }
        }
        assert_eq!(memory.to_owned_copy().len(), 9);
        assert_eq!(a, [0, 1, 2]);
        // SAFETY: nothing is used.
        assert!(unsafe { UserMemory::pieces([(std::ptr::null_mut(), 0); 5].into_iter()) }.is_none());
    }

    #[test]
    fn a_process_may_read_itself() {
        let source: Vec<u8> = (0..100).collect();
        let base = source.as_ptr() as u64;
        let out = UserMemory::owned(vec![0; 60].into_boxed_slice());
        let (me, word) = (std::process::id() as i32, u64::from_ne_bytes([91, 92, 93, 94, 95, 96, 97, 98]));
        let pieces = [(base + 10, 25), (base + 50, 50)];
        assert_eq!(read_process(me, pieces.into_iter(), &out, base + 91).expect("own memory"), word);
        let mut bytes = [0; 60];
        out.read(0, &mut bytes);
        assert_eq!(&bytes[..25], &source[10..35]);
        assert_eq!(&bytes[25..], &source[50..85]);
        for (pieces, then) in [([(8, 60)], base), ([(base, 60)], 8)] {
            assert!(read_process(me, pieces.into_iter(), &out, then).is_err(), "nothing is there");
        }
        assert_eq!(read_process(me, [].into_iter(), &UserMemory::nothing(), base + 91).expect("own memory"), word);
    }
}
