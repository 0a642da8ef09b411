//! The program's own memory, which it may unmap whenever it likes. Registered bytes whose pages were exchanged are reached at the
//! seat's mapping of them, which is there as long as the seat. Others the kernel copies, so that what is missing is an error
//! and not the end of the process.

use crate::copies;
use angara_abi::copy;
use angara_hca::{Errno, Memory, Piece};
use angara_registered::{Area, Stays};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The memory of this process.
#[derive(Clone)]
pub struct Own {
    pid: i32,
    /// The kernel copies from and to this process; a sandbox may forbid it.
    by_kernel: bool,
    /// Where exchanged pages are.
    area: Option<Area>,
    /// Name of the adapter that says what stays where it is, if it shall.
    says: Option<String>,
}

impl Own {
    /// The memory of the calling process. Pages are exchanged for those of `area`, if there is one; with `says` the adapter of
    /// that name tells which are not.
    pub fn new(area: Option<Area>, says: Option<String>) -> Own {
        let pid = std::process::id() as i32;
        let (probe, mut copy) = ([7u8; 8], [0u8; 8]);
        let by_kernel = copies::read(pid, probe.as_ptr() as u64, &mut copy).is_ok() && copy == probe;
        Own { pid, by_kernel, area, says }
    }

    /// Where bytes are, if they are in the area.
    #[inline]
    fn exchanged(&self, at: u64, len: usize) -> Option<*mut u8> {
        self.area.as_ref()?.offset(at, len as u64)?;
        Some(std::ptr::with_exposed_provenance_mut(at as usize))
    }

    /// Exchanges the pages of bytes that are being registered, if that can be. Returns the address at which they are reached.
    pub(crate) fn exchange(&self, at: u64, len: u64) -> u64 {
        let Some(area) = &self.area else { return at };
        match area.register(at as usize, len as usize) {
            Ok(reach) => reach as u64,
            Err(stays) => {
                if let Some(name) = self.says.as_ref().filter(|_| stays != Stays::Empty) {
                    angara_protocol::complain!("angara: {name}: {len} bytes at {at:#x} stay where they are: {stays}");
                }
                at
            }
        }
    }
    /// Undoes an exchange that has returned `reach`.
    pub(crate) fn give_back(&self, at: u64, len: u64, reach: u64) {
        if let Some(area) = &self.area {
            area.deregister(at as usize, len as usize, reach as usize);
        }
    }
}

/// Stores bytes, and whoever sees the last one change sees all of them.
///
/// # Safety
/// As [`copy::store`].
pub(crate) unsafe fn store_last(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if ends_whole(to as u64, len) {
            return copy::store_ending(to, from, len);
        }
        copy::store(to, from, len - 1);
        AtomicU8::from_ptr(to.add(len - 1)).store(*from.add(len - 1), Ordering::Release);
    }
}

/// True if the last bytes of a range are one word, of which all are seen at once.
fn ends_whole(at: u64, len: usize) -> bool {
    let is_word = matches!(len, 1 | 2 | 4) && at.is_multiple_of(len as u64);
    is_word || len >= 8 && (at + len as u64).is_multiple_of(8) || len == 0
}

impl Memory for Own {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Errno> {
        if let Some(from) = self.exchanged(at, into.len()) {
            // SAFETY: inside the area; the destination has as many bytes.
            unsafe { copy::load(into.as_mut_ptr(), from, into.len()) };
            return Ok(());
        }
        if self.by_kernel {
            return copies::read(self.pid, at, into);
        }
        let from = std::ptr::with_exposed_provenance::<u8>(at as usize);
        // SAFETY: the program has registered these bytes and promises to keep them. Others may write them meanwhile, so
        // each is read by itself.
        (0..into.len()).for_each(|i| into[i] = unsafe { from.add(i).read_volatile() });
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), Errno> {
        if let Some(to) = self.exchanged(at, from.len()) {
            // SAFETY: inside the area; the source has as many bytes.
            unsafe { store_last(to, from.as_ptr(), from.len()) };
            return Ok(());
        }
        if self.by_kernel {
            let own = [Piece { at: from.as_ptr() as u64, len: from.len() as u64 }];
            return match copies::copy_ending(self.pid, at, &own, true) {
                Ok(()) => Ok(()),
                Err(e) => Err(e),
            };
        }
        let to = std::ptr::with_exposed_provenance_mut::<u8>(at as usize);
        // SAFETY: as above. The last bytes are stored last.
        (0..from.len()).for_each(|i| unsafe { to.add(i).write_volatile(from[i]) });
        Ok(())
    }

    fn update(&self, at: u64, change: &dyn Fn(u64) -> u64) -> Result<u64, Errno> {
        if self.exchanged(at, 8).is_none() {
            // A page that is not there is an error; the program is not to take it away at this very moment.
            self.read(at, &mut [0; 8])?;
        }
        let word = std::ptr::with_exposed_provenance_mut::<u64>(at as usize);
        if !word.is_aligned() {
            return Err(Errno::INVAL);
        }
        // SAFETY: aligned, there a moment ago, and registered as writable, which the program promises to keep so.
        let word = unsafe { AtomicU64::from_ptr(word) };
        let mut old = word.load(Ordering::Acquire);
        while let Err(now) = word.compare_exchange(old, change(old), Ordering::AcqRel, Ordering::Acquire) {
            old = now;
        }
        Ok(old)
    }

    fn is_mapped(&self, at: u64, len: u64, _to_write: bool) -> bool {
        let page = angara_abi::PAGE as u64;
        let first = at / page * page;
        let Some(end) = at.checked_add(len) else { return false };
        if len == 0 {
            return true;
        }
        let start = std::ptr::without_provenance_mut::<libc::c_void>(first as usize);
        // SAFETY: writes nothing back that the program has not written: it only says whether all pages are mapped.
        unsafe { libc::msync(start, (end - first) as usize, libc::MS_ASYNC) == 0 }
    }

    fn register(&mut self, at: u64, len: u64) -> u64 {
        self.exchange(at, len)
    }
    fn deregister(&mut self, at: u64, len: u64, reach: u64) {
        self.give_back(at, len, reach);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_an_error() {
        let own = Own::new(None, None);
        let mut bytes = vec![1u8; 100];
        let at = bytes.as_mut_ptr() as u64;
        own.write(at + 10, &[5; 20]).expect("own memory");
        let mut copy = [0; 30];
        own.read(at, &mut copy).expect("own memory");
        assert_eq!(copy[..10], [1; 10]);
        assert_eq!(copy[10..], [5; 20]);
        assert!(own.read(8, &mut copy).is_err());
        assert!(own.write(8, &copy).is_err());
        assert!(own.update(16, &|old| old).is_err());
        assert!(own.is_mapped(at, 100, true) && !own.is_mapped(4096, 1, false) && !own.is_mapped(u64::MAX, 2, false));
        let mut word = 5u64;
        assert_eq!(own.update((&raw mut word) as u64, &|old| old + 2), Ok(5));
        assert_eq!(word, 7);
    }
}
