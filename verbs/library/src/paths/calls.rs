//! Functions of libc: each looks whether a path is here, and else calls the one that comes after this library.

use super::tree::{Found, Node, find, may_be_here};
use super::{CONNECTION_MANAGER, open_connection_manager, real};
use crate::entry::guard::{count, pointer};
use angara_hca::{Errno, Result};
use libc::{DIR, FILE, c_char, c_int, mode_t, ssize_t};
use rustix::fd::{IntoRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, SeekFrom};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The path if it may be one of ours.
///
/// # Safety
/// Null or a string.
unsafe fn ours<'a>(path: *const c_char) -> Option<&'a str> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller promises it.
    let path = unsafe { CStr::from_ptr(path) };
    path.to_str().ok().filter(|path| may_be_here(path.as_bytes()))
}

/// What is at a path, if it is here.
///
/// # Safety
/// Null or a string.
unsafe fn here(path: *const c_char, follow: bool) -> Option<Found> {
    // SAFETY: the caller promises it.
    let path = unsafe { ours(path) }?;
    std::panic::catch_unwind(|| find(path, follow)).ok().flatten()
}

/// A file in memory, which stands at its beginning.
fn file(text: &str, flags: MemfdFlags) -> Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(c"sysfs", flags)?;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&fd, rest)?..];
    }
    rustix::fs::seek(&fd, SeekFrom::Start(0))?;
    Ok(fd)
}

fn opened(node: &Node, flags: c_int) -> Result<OwnedFd> {
    let memfd = if flags & libc::O_CLOEXEC != 0 { MemfdFlags::CLOEXEC } else { MemfdFlags::empty() };
    let is_to_write = flags & libc::O_ACCMODE != libc::O_RDONLY;
    match node {
        Node::File(_) if is_to_write => Err(Errno::ACCESS),
        Node::File(text) => file(text, memfd),
        // What it is for, this library does without it.
        Node::Device(_) => rustix::fs::open(c"/dev/null", OFlags::from_bits_retain(flags as u32), Mode::empty()),
        Node::Folder(_) if is_to_write => Err(Errno::ISDIR),
        Node::Folder(names) => {
            folder(names, |at| rustix::fs::open(at, OFlags::from_bits_retain(flags as u32), Mode::empty()))
        }
        Node::Link(_) => Err(Errno::LOOP),
    }
}

/// A folder for as long as `with` takes, or until somebody removes it who is given its path.
fn folder<T>(names: &[String], with: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let at = make_folder(names)?;
    let done = with(&at);
    let _ = std::fs::remove_dir_all(&at);
    done
}

fn make_folder(names: &[String]) -> Result<PathBuf> {
    let pattern = std::env::temp_dir().join("angara-sysfs-XXXXXX");
    let mut pattern = CString::new(pattern.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?.into_bytes_with_nul();
    // SAFETY: a string that ends as it should.
    if unsafe { libc::mkdtemp(pattern.as_mut_ptr().cast()) }.is_null() {
        return Err(Errno::NOENT);
    }
    pattern.pop();
    let at = PathBuf::from(std::ffi::OsStr::from_bytes(&pattern));
    for name in names {
        std::fs::create_dir(at.join(name)).map_err(|_| Errno::NOENT)?;
    }
    Ok(at)
}

/// # Safety
/// That of `open`.
unsafe fn open_here(path: *const c_char, flags: c_int) -> Option<c_int> {
    // SAFETY: the caller promises it.
    let name = unsafe { ours(path) }?;
    if name == CONNECTION_MANAGER {
        return Some(count(|| Ok(open_connection_manager(flags)?.into_raw_fd())));
    }
    // SAFETY: the caller promises it.
    let found = unsafe { here(path, flags & libc::O_NOFOLLOW == 0) }?;
    Some(count(|| Ok(opened(&found.node, flags)?.into_raw_fd())))
}

/// `open` and `open64`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { open_here(path, flags).unwrap_or_else(|| real::open(path, flags, mode)) }
}

/// `openat` and `openat64`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { open_here(path, flags).unwrap_or_else(|| real::openat(dir, path, flags, mode)) }
}

/// `fopen` and `fopen64`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the caller promises it.
    let Some(found) = (unsafe { here(path, true) }) else { return unsafe { real::fopen(path, mode) } };
    pointer(|| {
        // SAFETY: a mode is a string.
        let flags = if unsafe { *mode } as u8 == b'r' { libc::O_RDONLY } else { libc::O_RDWR };
        let fd = opened(&found.node, flags)?.into_raw_fd();
        // SAFETY: the descriptor is open, and nobody else's.
        Ok(unsafe { libc::fdopen(fd, mode) })
    })
}

/// Whether a node may be used so.
fn allows(node: &Node, mode: c_int) -> Result<c_int> {
    let not = match node {
        Node::Device(_) => libc::X_OK,
        Node::Folder(_) => libc::W_OK,
        _ => libc::W_OK | libc::X_OK,
    };
    if mode & not == 0 { Ok(0) } else { Err(Errno::ACCESS) }
}

/// `access`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the caller promises it.
    let Some(found) = (unsafe { here(path, true) }) else { return unsafe { real::access(path, mode) } };
    count(|| allows(&found.node, mode))
}

/// `faccessat`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn faccessat(dir: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller promises it.
    let Some(found) = (unsafe { here(path, true) }) else { return unsafe { real::faccessat(dir, path, mode, flags) } };
    count(|| allows(&found.node, mode))
}

/// Mode, bytes and minor number of what `stat` is asked about.
fn facts(node: &Node) -> (u32, usize, Option<u32>) {
    match node {
        Node::File(_) => (libc::S_IFREG | 0o444, 4096, None),
        Node::Link(to) => (libc::S_IFLNK | 0o777, to.len(), None),
        Node::Device(minor) => (libc::S_IFCHR | 0o666, 0, Some(*minor)),
        Node::Folder(_) => (libc::S_IFDIR | 0o755, 0, None),
    }
}

/// The major number of devices.
const MAJOR: u32 = 231;

/// `fstatat` and `fstatat64`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn fstatat(dir: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> c_int {
    // SAFETY: the caller promises it.
    let Some(found) = (unsafe { here(path, flags & libc::AT_SYMLINK_NOFOLLOW == 0) }) else {
        // SAFETY: the caller promises it.
        return unsafe { real::fstatat(dir, path, to, flags) };
    };
    let (mode, len, minor) = facts(&found.node);
    // SAFETY: a struct of numbers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    (stat.st_mode, stat.st_size) = (mode, len as libc::off_t);
    stat.st_rdev = minor.map_or(0, |minor| libc::makedev(MAJOR, minor));
    (stat.st_nlink, stat.st_blksize) = (1, 4096);
    // SAFETY: the caller promises it.
    unsafe { *to = stat };
    0
}

/// `statx`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn statx(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mask: u32,
    to: *mut libc::statx,
) -> c_int {
    // SAFETY: the caller promises it.
    let Some(found) = (unsafe { here(path, flags & libc::AT_SYMLINK_NOFOLLOW == 0) }) else {
        // SAFETY: the caller promises it.
        return unsafe { real::statx(dir, path, flags, mask, to) };
    };
    let (mode, len, minor) = facts(&found.node);
    // SAFETY: a struct of numbers.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    stat.stx_mask = libc::STATX_BASIC_STATS;
    (stat.stx_mode, stat.stx_size) = (mode as u16, len as u64);
    (stat.stx_nlink, stat.stx_blksize) = (1, 4096);
    if let Some(minor) = minor {
        (stat.stx_rdev_major, stat.stx_rdev_minor) = (MAJOR, minor);
    }
    // SAFETY: the caller promises it.
    unsafe { *to = stat };
    0
}

/// # Safety
/// That of `stat`.
unsafe fn stat_of(path: *const c_char, to: *mut libc::stat, follow: bool) -> c_int {
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    // SAFETY: the caller promises it.
    unsafe { fstatat(libc::AT_FDCWD, path, to, flags) }
}

/// `stat` and `stat64`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn stat(path: *const c_char, to: *mut libc::stat) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { stat_of(path, to, true) }
}

/// `lstat` and `lstat64`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn lstat(path: *const c_char, to: *mut libc::stat) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { stat_of(path, to, false) }
}

/// `__xstat` and `__xstat64`, which programs call that were built with glibc 2.32 or older.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn xstat(_version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { stat_of(path, to, true) }
}

/// `__lxstat` and `__lxstat64`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn lxstat(_version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { stat_of(path, to, false) }
}

/// `realpath`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn realpath(path: *const c_char, to: *mut c_char) -> *mut c_char {
    // SAFETY: the caller promises it.
    let Some(found) = (unsafe { here(path, true) }) else { return unsafe { real::realpath(path, to) } };
    pointer(|| {
        let at = CString::new(found.at.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
        // SAFETY: there is room for the longest path, or none and the caller frees what it gets.
        Ok(unsafe { if to.is_null() { libc::strdup(at.as_ptr()) } else { libc::strcpy(to, at.as_ptr()) } })
    })
}

/// `readlink`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn readlink(path: *const c_char, to: *mut c_char, len: usize) -> ssize_t {
    // SAFETY: the caller promises it.
    let Some(found) = (unsafe { here(path, false) }) else { return unsafe { real::readlink(path, to, len) } };
    let given = count(|| {
        let Node::Link(target) = &found.node else { return Err(Errno::INVAL) };
        let given = target.len().min(len);
        // SAFETY: there is room for `len` bytes.
        unsafe { std::ptr::copy_nonoverlapping(target.as_ptr().cast(), to, given) };
        Ok(given as c_int)
    });
    given as ssize_t
}

/// Folders that are open, with what they stand for in the meantime.
static OPEN: Mutex<Vec<(usize, PathBuf)>> = Mutex::new(Vec::new());

/// `opendir`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    // SAFETY: the caller promises it.
    let Some(found) = (unsafe { here(path, true) }) else { return unsafe { real::opendir(path) } };
    pointer(|| {
        let Node::Folder(names) = &found.node else { return Err(Errno::NOTDIR) };
        let at = make_folder(names)?;
        let name = CString::new(at.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
        // SAFETY: a string.
        let dir = unsafe { real::opendir(name.as_ptr()) };
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).push((dir.addr(), at));
        Ok(dir)
    })
}

/// `closedir`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C" fn closedir(of: *mut DIR) -> c_int {
    let at = {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().position(|(dir, _)| *dir == of.addr()).map(|index| open.swap_remove(index).1)
    };
    // SAFETY: the caller promises it.
    let closed = unsafe { real::closedir(of) };
    if let Some(at) = at {
        let _ = std::fs::remove_dir_all(at);
    }
    closed
}
