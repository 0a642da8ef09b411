//! Memory that two processes share: creation, sealing, mapping, and checked access.
//!
//! The daemon creates every memfd, sizes it, maps it and seals it, so that no client can shrink
//! it under the daemon's feet. What clients may only read is sealed against further writable
//! mappings after the daemon made its own.
//!
//! Where all PEs of a job and their adapter are one process, the same memory is cut from an [`Arena`] of that process:
//! it has no descriptor and takes one mapping for all of it.
//!
//! Nothing here hands out `&[u8]` to shared memory: another process may write it at any time.
//! Access goes through atomics or through copies ([`crate::copy`]).

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Rights of holders of the descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Clients map it readable and writable.
    Shared,
    /// Clients can only map it readable (`F_SEAL_FUTURE_WRITE`), where the kernel has that seal.
    ReadOnly,
}

/// An access outside a mapping, or misaligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShmError {
    /// Range not inside.
    #[error("{len} bytes at offset {offset:#x} are not inside a region of {size} bytes")]
    Range {
        /// Start of the access.
        offset: usize,
        /// Bytes of the access.
        len: usize,
        /// Bytes of the region.
        size: usize,
    },
    /// Not a multiple of the element size.
    #[error("offset {offset:#x} is not aligned to {align} bytes")]
    Align {
        /// Start of the access.
        offset: usize,
        /// Needed alignment in bytes.
        align: usize,
    },
    /// A page does not start with the expected header.
    #[error("page is not a {kind} of ABI version {want}: found magic {magic:#018x}, version {version}, size {size}")]
    Header {
        /// Expected kind.
        kind: &'static str,
        /// Expected ABI version.
        want: u32,
        /// First word found.
        magic: u64,
        /// Version found.
        version: u32,
        /// Bytes of the region.
        size: u32,
    },
}

/// Layouts that may lie in shared memory.
///
/// # Safety
/// The type is `repr(C)`, consists of atomics and arrays of atomics only, and every bit pattern
/// is a value of it, so that a shared reference stays valid whatever another process writes.
pub unsafe trait Shared: Sized + Sync {}

macro_rules! shared {
    ($($t:ty),* $(,)?) => {$(
        // SAFETY: an atomic integer accepts every bit pattern.
        unsafe impl Shared for $t {}
    )*};
}
shared!(AtomicU8, AtomicU16, AtomicU32, AtomicU64);

// SAFETY: an array of such layouts is one.
unsafe impl<T: Shared, const N: usize> Shared for [T; N] {}

/// A mapped region.
pub struct Mapping {
    /// Keeps the address range, which may be larger than what is mapped.
    owner: Owner,
    /// First byte.
    base: *mut u8,
    /// Bytes that are mapped.
    len: usize,
}

/// Who keeps the memory of a [`Mapping`].
enum Owner {
    /// The mapping itself.
    Own { _raw: MmapRaw },
    /// An arena, which stays as long as anything is cut from it.
    Arena(Arc<Arena>),
    /// Somebody who has promised that it stays.
    Lender,
}

// SAFETY: `base` points into memory that stays as long as the mapping, and is reached by atomics and copies alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Memory of one process from which mappings are cut. Nothing of it takes memory before it is touched.
pub struct Arena {
    raw: MmapRaw,
    used: AtomicUsize,
}

impl Arena {
    /// Reserves `bytes` of addresses.
    pub fn reserve(bytes: usize) -> io::Result<Arc<Arena>> {
        let raw = MmapRaw::from(MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?);
        Ok(Arc::new(Arena { raw, used: AtomicUsize::new(0) }))
    }

    /// Cuts `len` bytes of zeros whose first address is a multiple of `align`, a power of two. They are never given back.
    pub fn cut(self: &Arc<Arena>, len: usize, align: usize) -> io::Result<Mapping> {
        let first = self.raw.as_mut_ptr() as usize;
        let place = |used: usize| {
            let at = (first + used).checked_next_multiple_of(align.max(crate::machine_page()))? - first;
            let end = at.checked_add(crate::page_round(len)?)?;
            (end <= self.raw.len()).then_some((at, end))
        };
        let cut = |used| place(used).map(|(_, end)| end);
        let used = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, cut);
        let (at, _) = used.ok().and_then(place).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base: self.raw.as_mut_ptr().wrapping_add(at), owner: Owner::Arena(self.clone()), len })
    }
}

/// A region of this process's memory, as it is told to somebody else in this process.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// First byte.
    pub at: *mut u8,
    /// Bytes.
    pub len: usize,
}

// SAFETY: an address and a number; whoever uses the memory says why he may.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

impl Part {
    /// No region.
    pub const NONE: Part = Part { at: std::ptr::null_mut(), len: 0 };

    /// Where a mapping is.
    pub fn of(map: &Mapping) -> Part {
        Part { at: map.base, len: map.len }
    }
}

/// The parts of a region of this process's own memory that take any: offsets of their first bytes and of their ends. All of it
/// where the kernel does not say.
pub fn touched(part: Part) -> Vec<(usize, usize)> {
    const PRESENT_OR_SWAPPED: u64 = 3 << 62;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(map) = rustix::fs::open("/proc/self/pagemap", flags, Mode::empty()) else { return vec![(0, part.len)] };
    let size = crate::machine_page();
    let first = part.at as usize / size;
    let pages = part.len.div_ceil(size);
    let (mut extents, mut entries) = (Vec::<(usize, usize)>::new(), [0u8; 4096]);
    let mut page = 0;
    while page < pages {
        let want = (pages - page).min(entries.len() / 8) * 8;
        let got = match rustix::io::pread(&map, &mut entries[..want], ((first + page) * 8) as u64) {
            Ok(got) if got >= 8 => got,
            _ => return vec![(0, part.len)],
        };
        for entry in entries[..got].as_chunks::<8>().0 {
            let (start, end) = (page * size, ((page + 1) * size).min(part.len));
            if u64::from_ne_bytes(*entry) & PRESENT_OR_SWAPPED != 0 {
                match extents.last_mut().filter(|last| last.1 == start) {
                    Some(last) => last.1 = end,
                    None => extents.push((start, end)),
                }
            }
            page += 1;
        }
    }
    extents
}

/// Where memory of a job comes from.
#[derive(Clone)]
pub enum Source {
    /// Each region is a memfd, which other processes map.
    Files,
    /// All PEs are in this process.
    Arena(Arc<Arena>),
}

impl Source {
    /// Makes a region of `len` bytes of zeros; a descriptor of it where other processes can map it.
    pub fn create(&self, name: &str, len: usize, access: Access) -> io::Result<(Option<OwnedFd>, Mapping)> {
        match self {
            Source::Files => Mapping::create(name, len, access).map(|(fd, map)| (Some(fd), map)),
            Source::Arena(arena) => Ok((None, arena.cut(len, crate::PAGE)?)),
        }
    }
}

/// Cover over a shared mapping: memory of this process alone, all zeros when it is laid. A reader of the mapping's
/// addresses sees either the cover or the mapping.
pub struct Cover {
    /// Start and length of the mapping.
    at: *mut u8,
    len: usize,
    /// The same pages once more.
    below: *mut u8,
}

// SAFETY: the addresses are those of mappings, which any thread may change.
unsafe impl Send for Cover {}
// SAFETY: as above; whoever looks at the addresses does so by atomics, and finds memory there at any time.
unsafe impl Sync for Cover {}

impl Cover {
    /// A cover for `map`, not laid yet. The mapping must outlive it.
    pub fn of(map: &Mapping) -> io::Result<Cover> {
        let len = map.len().next_multiple_of(crate::machine_page());
        Ok(Cover { at: map.as_ptr(), len, below: again(map.as_ptr(), len)? })
    }
    /// Lays it.
    pub fn lay(&self) -> io::Result<()> {
        let (prot, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE);
        // SAFETY: the range is one whole mapping, which is only used as memory that may change at any time.
        unsafe { rustix::mm::mmap_anonymous(self.at.cast(), self.len, prot, flags)? };
        Ok(())
    }
    /// Takes it off. What was written to it is gone.
    pub fn lift(&self) -> io::Result<()> {
        let more = again(self.below, self.len)?;
        // SAFETY: moves a mapping that nobody knows over one that is only used as memory that may change at any time.
        unsafe { rustix::mm::mremap_fixed(more.cast(), self.len, self.len, MremapFlags::MAYMOVE, self.at.cast())? };
        Ok(())
    }
}

impl Drop for Cover {
    fn drop(&mut self) {
        // SAFETY: nobody else knows of this mapping.
        let _ = unsafe { rustix::mm::munmap(self.below.cast(), self.len) };
    }
}

/// Maps the pages of a shared mapping once more.
fn again(at: *mut u8, len: usize) -> io::Result<*mut u8> {
    // SAFETY: an old size of 0 leaves the mapping as it is, and adds another one where there is room.
    Ok(unsafe { rustix::mm::mremap(at.cast(), 0, len, MremapFlags::MAYMOVE)? }.cast())
}

/// Lets nobody map it writable any more. Kernels before 5.1 do not know that seal: a daemon that serves others asks
/// [`can_seal_writes`] before it starts, and one of a single run goes on without.
fn seal_writes(fd: &OwnedFd) -> io::Result<()> {
    match fcntl_add_seals(fd, SealFlags::FUTURE_WRITE) {
        Err(Errno::INVAL) => Ok(()),
        done => Ok(done?),
    }
}

/// Tells whether this kernel can keep clients from writing what they may only read; an error where it makes no shared
/// memory at all.
pub fn can_seal_writes() -> io::Result<bool> {
    let fd = memfd_create("angara-seals", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    match fcntl_add_seals(&fd, SealFlags::FUTURE_WRITE) {
        Err(Errno::INVAL) => Ok(false),
        done => Ok(done.map(|()| true)?),
    }
}

impl Mapping {
    /// Creates a sealed memfd of `len` bytes (a multiple of the page size is not required) and
    /// maps it. The region starts zeroed and takes memory only where it is touched.
    pub fn create(name: &str, len: usize, access: Access) -> io::Result<(OwnedFd, Mapping)> {
        let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, len as u64)?;
        let map = Mapping::map(&fd, len)?;
        if access == Access::ReadOnly {
            seal_writes(&fd)?;
        }
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((fd, map))
    }

    /// Maps `len` bytes of `fd` readable and writable.
    pub fn map(fd: impl AsFd, len: usize) -> io::Result<Mapping> {
        let raw = MmapOptions::new().len(len).map_raw(&fd.as_fd())?;
        Ok(Mapping::own(raw, 0, len))
    }

    fn own(raw: MmapRaw, skip: usize, len: usize) -> Mapping {
        Mapping { base: raw.as_mut_ptr().wrapping_add(skip), owner: Owner::Own { _raw: raw }, len }
    }

    /// A region of this process that somebody else keeps.
    ///
    /// # Safety
    /// The `len` bytes at `base` stay mapped, readable and writable, until the process ends, and are reached by atomics and
    /// copies alone.
    pub unsafe fn lent(base: *mut u8, len: usize) -> Mapping {
        Mapping { base, owner: Owner::Lender, len }
    }

    /// The same region once more, where it is cut from an arena.
    pub fn again(&self) -> Option<Mapping> {
        match &self.owner {
            Owner::Arena(arena) => Some(Mapping { base: self.base, owner: Owner::Arena(arena.clone()), len: self.len }),
            _ => None,
        }
    }

    /// Maps `len` bytes of `fd` from byte `offset` (a multiple of the page size) on, readable and writable.
    pub fn map_window(fd: impl AsFd, offset: u64, len: usize) -> io::Result<Mapping> {
        let raw = MmapOptions::new().offset(offset).len(len).map_raw(&fd.as_fd())?;
        Ok(Mapping::own(raw, 0, len))
    }

    /// Maps `len` bytes of `fd` readable and writable, byte `at` of them (a multiple of the page
    /// size) at an address that is a multiple of `align`, a power of two of at least a page.
    pub fn map_aligned(fd: impl AsFd, len: usize, at: usize, align: usize) -> io::Result<Mapping> {
        let room = len.checked_add(align).ok_or(io::ErrorKind::InvalidInput)?;
        let raw = MmapRaw::from(MmapOptions::new().len(room).no_reserve_swap().map_anon()?);
        let first = raw.as_mut_ptr() as usize;
        let skip = (first + at).next_multiple_of(align) - at - first;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: `skip` is below `align`, so the new mapping replaces part of the fresh one that
        // `raw` owns and nobody uses yet.
        unsafe { mmap((first + skip) as *mut _, len, prot, flags, fd.as_fd(), 0)? };
        Ok(Mapping::own(raw, skip, len))
    }

    /// Maps `len` bytes of `fd` readable. Atomic *loads* only; a store faults.
    pub fn map_read_only(fd: impl AsFd, len: usize) -> io::Result<Mapping> {
        let raw = MmapOptions::new().len(len).map_raw_read_only(&fd.as_fd())?;
        Ok(Mapping::own(raw, 0, len))
    }

    /// First byte. Dereferencing it is the caller's `unsafe`.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.base
    }
    /// Bytes mapped.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Nothing mapped (never true for a region that was created).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Fails unless at least `len` bytes are mapped.
    pub fn require(&self, len: usize) -> Result<(), ShmError> {
        self.range(0, len).map(drop)
    }

    /// The start of `len` bytes at `offset`, if they are inside.
    #[inline]
    fn range(&self, offset: usize, len: usize) -> Result<*mut u8, ShmError> {
        match offset.checked_add(len) {
            // SAFETY: offset ≤ offset + len ≤ mapped length, so the pointer stays in the mapping.
            Some(end) if end <= self.len() => Ok(unsafe { self.as_ptr().add(offset) }),
            _ => Err(ShmError::Range { offset, len, size: self.len() }),
        }
    }

    /// The layout `T` at byte `offset`.
    #[inline]
    pub fn at<T: Shared>(&self, offset: usize) -> Result<&T, ShmError> {
        let p = self.range(offset, size_of::<T>())?;
        if !(p as usize).is_multiple_of(align_of::<T>()) {
            return Err(ShmError::Align { offset, align: align_of::<T>() });
        }
        // SAFETY: inside the mapping, aligned, alive as long as `self`, and `Shared` says any
        // content is a valid `T` under concurrent writes.
        Ok(unsafe { &*(p as *const T) })
    }

    /// Writes `data` at `offset`. A naturally aligned 1, 2, 4 or 8 byte element inside is written
    /// by one store, so a waiter never sees half of it; and whoever sees any of it sees what was stored before.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<(), ShmError> {
        let dst = self.range(offset, data.len())?;
        crate::order::publish();
        // SAFETY: `range` checked the destination; `data` is a live slice of that length.
        unsafe { crate::copy::store(dst, data.as_ptr(), data.len()) };
        Ok(())
    }

    /// [`Mapping::write`]; whoever sees the last 8 bytes, if they are aligned, sees all before them.
    pub fn write_ending(&self, offset: usize, data: &[u8]) -> Result<(), ShmError> {
        let dst = self.range(offset, data.len())?;
        crate::order::publish();
        // SAFETY: as in `write`.
        unsafe { crate::copy::store_ending(dst, data.as_ptr(), data.len()) };
        Ok(())
    }

    /// Copies bytes at `offset` into `out`, aligned elements by one load each.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), ShmError> {
        let src = self.range(offset, out.len())?;
        // SAFETY: `range` checked the source; `out` is a live slice of that length.
        unsafe { crate::copy::load(out.as_mut_ptr(), src, out.len()) };
        Ok(())
    }

    /// [`Mapping::read`] of `len` bytes into new memory.
    pub fn read_vec(&self, offset: usize, len: usize) -> Result<Vec<u8>, ShmError> {
        let src = self.range(offset, len)?;
        let mut out = Vec::with_capacity(len);
        // SAFETY: `range` checked the source; the vector has room for `len` bytes, all of which are written before they
        // count as its contents.
        unsafe {
            crate::copy::load(out.as_mut_ptr(), src, len);
            out.set_len(len);
        }
        Ok(out)
    }

    /// Checks the header of a page of kind `kind`.
    pub fn expect_page(&self, kind: PageKind) -> Result<&PageHeader, ShmError> {
        let h: &PageHeader = self.at(0)?;
        let (magic, version, size) =
            (h.magic.load(Ordering::Acquire), h.version.load(Ordering::Relaxed), h.size.load(Ordering::Relaxed));
        if magic != kind.magic() || version != crate::ABI_VERSION || size as usize > self.len() {
            let want = crate::ABI_VERSION;
            return Err(ShmError::Header { kind: kind.name(), want, magic, version, size });
        }
        Ok(h)
    }

    /// Writes the header of a page of kind `kind` whose layout takes `size` bytes.
    pub fn stamp_page(&self, kind: PageKind, size: usize) -> Result<(), ShmError> {
        self.require(size)?;
        let h: &PageHeader = self.at(0)?;
        h.version.store(crate::ABI_VERSION, Ordering::Relaxed);
        h.size.store(size as u32, Ordering::Relaxed);
        h.magic.store(kind.magic(), Ordering::Release);
        Ok(())
    }
}

/// First 16 bytes of every page with a layout.
#[repr(C)]
#[derive(Debug)]
pub struct PageHeader {
    /// `ANGARA`, a zero byte and the kind of page.
    magic: AtomicU64,
    /// [`crate::ABI_VERSION`] of who made the page.
    version: AtomicU32,
    /// Bytes of the page's layout.
    size: AtomicU32,
}
// SAFETY: `repr(C)` with atomics only.
unsafe impl Shared for PageHeader {}

/// Kind of a page: the eighth byte of its magic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PageKind {
    /// A channel page ([`crate::channel`]).
    Channel = b'C',
    /// A channel status page.
    Status = b'S',
    /// A job page ([`crate::job`]).
    Job = b'J',
    /// A job's synchronisation page.
    Sync = b'Y',
    /// A node's CSR page ([`crate::csr`]).
    Csr = b'R',
    /// A PE's clock page ([`crate::clock`]).
    Clock = b'T',
}

impl PageKind {
    /// Name for messages.
    pub fn name(self) -> &'static str {
        match self {
            PageKind::Channel => "channel page",
            PageKind::Status => "channel status page",
            PageKind::Job => "job page",
            PageKind::Sync => "job synchronisation page",
            PageKind::Csr => "CSR page",
            PageKind::Clock => "clock page",
        }
    }
    fn magic(self) -> u64 {
        let mut m = [0; 8];
        m[..7].copy_from_slice(&crate::MAGIC);
        m[7] = self as u8;
        u64::from_le_bytes(m)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_cover_hides_a_mapping_and_what_is_written_to_it_is_gone() {
        let (fd, map) = Mapping::create("angara-test-cover", 10_000, Access::Shared).expect("a mapping");
        let other = Mapping::map(&fd, 10_000).expect("the same");
        let cover = Cover::of(&map).expect("a cover");
        let word = |map: &Mapping| map.at::<AtomicU32>(8192).expect("inside").load(Ordering::Relaxed);
        let set = |map: &Mapping, to| map.at::<AtomicU32>(8192).expect("inside").store(to, Ordering::Relaxed);
        set(&map, 5);
        for _ in 0..3 {
            cover.lay().expect("laid");
            assert_eq!((word(&map), word(&other)), (0, 5));
            set(&map, 7);
            assert_eq!((word(&map), word(&other)), (7, 5));
            cover.lift().expect("lifted");
            assert_eq!(word(&map), 5);
            set(&other, 6);
            assert_eq!(word(&map), 6);
            set(&map, 5);
        }
    }
}
