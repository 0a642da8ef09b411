//! `SHMEM_DEBUG=1`: a closer look at what the program passes, and where it did.
//!
//! Some mistakes are always found, because finding them costs nothing: a PE that does not exist, an
//! address that is not symmetric. Here are those that cost something: memory of the heap that was
//! never allocated or is free again, ranges that overlap, and PEs that call different collectives
//! or the same one with different arguments. While a PE looks closer, the short paths of put and
//! get are closed, so that a program that does not ask for it pays nothing.
//!
//! [`caller`] finds the line of the program that called the library, for every message.

use super::team::Group;
use super::{State, die, lock};
use crate::ctypes::Name;
use abi::desc::{Place, Region};
use std::ffi::CStr;
use std::fmt::Display;
use std::path::Path;

/// Longest description of a collective that travels between PEs, in bytes.
const CALL_MAX: usize = 512;

/// Whether the environment asks for checks.
pub(crate) fn wanted() -> bool {
    std::env::var_os("SHMEM_DEBUG").is_some_and(|v| !v.is_empty() && v != "0")
}

/// Base address and file of the module that holds `address`.
fn module(address: *const ()) -> Option<(usize, String)> {
    // SAFETY: plain data; an all-zero value is valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: writes `info`, whose name is a string that lives as long as the module.
    let known = unsafe { libc::dladdr(address.cast(), &raw mut info) } != 0 && !info.dli_fname.is_null();
    // SAFETY: as above.
    known.then(|| (info.dli_fbase as usize, unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned()))
}

/// Where the program called the library: `heat.c:42 (main)`, or the module and offset where there are
/// no symbols.
pub(crate) fn caller() -> Option<String> {
    let own = module(caller as *const ())?.0;
    let mut found = None;
    let mut inside = false;
    backtrace::trace(|frame| {
        let Some((base, file)) = module(frame.ip() as *const ()) else { return true };
        if base == own {
            inside = true;
            return true;
        }
        // Frames before the library's own first one belong to the machinery that walks them.
        if !inside {
            return true;
        }
        let mut line = None;
        backtrace::resolve_frame(frame, |symbol| {
            let name = symbol.name().map_or("?".into(), |n| n.to_string());
            line = match (symbol.filename(), symbol.lineno()) {
                (Some(file), Some(n)) => Some(format!("{}:{n} ({name})", short(file))),
                _ => line.take(),
            };
        });
        let offset = frame.ip() as usize - base;
        found = Some(line.unwrap_or_else(|| format!("{}+{offset:#x}", short(Path::new(&file)))));
        false
    });
    found
}

/// The last part of a path: compilers write whole ones.
fn short(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// A place as a reader knows it: `heap+0x40`, `static+0x10`.
pub(crate) fn shown(s: &State, p: *const u8) -> String {
    match s.job.locate(p, 1) {
        Some(Place { region: Region::Heap, .. }) => {
            format!("heap+{:#x}", (p as usize).wrapping_sub(s.job.heap() as usize))
        }
        Some(Place { offset, .. }) => format!("static+{offset:#x}"),
        None => "private memory".into(),
    }
}

impl State {
    /// Ends the job if `len` bytes at `p` lie in the heap but not inside one live block.
    pub(crate) fn check_block(&self, name: Name, p: *const u8, len: usize) {
        let offset = (p as usize).wrapping_sub(self.job.heap() as usize);
        if offset >= self.job.heap_len() || len == 0 {
            return;
        }
        let block = lock(&self.heap).block_of(offset);
        match block {
            None => die(
                name,
                None,
                format_args!("{len} bytes at {p:p} (heap+{offset:#x}) are not allocated: freed before, or never"),
            ),
            Some((start, size)) if len > size - (offset - start) => die(
                name,
                None,
                format_args!(
                    "{len} bytes at {p:p} (heap+{offset:#x}) run {} bytes over the end of their block, \
                     {size} bytes from heap+{start:#x}",
                    len - (size - (offset - start))
                ),
            ),
            Some(_) => {}
        }
    }

    /// Checks the private side of a transfer with `pe`, and that the two sides do not overlap partly.
    #[inline]
    pub(crate) fn check_transfer(&self, name: Name, pe: usize, remote: *const u8, local: *const u8, len: usize) {
        if self.checking {
            self.check_block(name, local, len);
            if pe == self.me {
                self.check_overlap(name, remote, len, local, len);
            }
        }
    }

    /// Ends the job if two ranges overlap without being the same.
    pub(crate) fn check_overlap(&self, name: Name, dest: *const u8, n: usize, source: *const u8, m: usize) {
        let (d, s) = (dest as usize, source as usize);
        if self.checking && d != s && d < s.saturating_add(m) && s < d.saturating_add(n) {
            die(
                name,
                None,
                format_args!(
                    "the destination ({n} bytes at {dest:p}, {}) overlaps the source ({m} bytes at {source:p}, {})",
                    shown(self, dest),
                    shown(self, source)
                ),
            );
        }
    }

    /// Ends the job if the PEs of `group` do not all call this routine with these arguments.
    #[inline]
    pub(crate) fn agree(&self, name: Name, group: &Group, args: impl FnOnce() -> String) {
        if self.checking && group.size > 1 && group.index(self.me).is_some() {
            self.compare(name, group, format!("{name}({})", args()));
        }
    }

    /// The first PE of the group compares what all of them say and lets them go on.
    #[cold]
    fn compare(&self, name: Name, group: &Group, call: String) {
        let len = self.p2p().message_max(group.lane).min(CALL_MAX);
        let cut = |text: &str| text.bytes().take(len / 2 - 1).collect::<Vec<u8>>();
        let (call, place) = (cut(&call), cut(&caller().unwrap_or_default()));
        if group.world(0) != self.me {
            let mut message = vec![0u8; len];
            message[..call.len()].copy_from_slice(&call);
            message[len / 2..len / 2 + place.len()].copy_from_slice(&place);
            // SAFETY: a buffer of `len` bytes.
            unsafe { self.send(name, group.lane, group.world(0), message.as_ptr(), len) };
            self.receive(name, group.lane, group.world(0), |_| ());
            return;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes.split(|b| *b == 0).next().unwrap_or(&[])).into_owned();
        for pe in (1..group.size).map(|i| group.world(i)) {
            let theirs = self.receive(name, group.lane, pe, |p| {
                // SAFETY: a mailbox slot of at least `len` bytes, written before the signal that ended the wait.
                unsafe { std::slice::from_raw_parts(p, len) }.to_vec()
            });
            let (other, at) = (text(&theirs[..len / 2]), text(&theirs[len / 2..]));
            if other.as_bytes() != call {
                let at = if at.is_empty() { at } else { format!(" at {at}") };
                die(name, None, format_args!("PE {pe} calls {other}{at} where this PE calls {}", text(&call)));
            }
        }
        for pe in (1..group.size).map(|i| group.world(i)) {
            // SAFETY: one byte.
            unsafe { self.send(name, group.lane, pe, [0u8].as_ptr(), 1) };
        }
    }
}

/// Arguments as text: `dest heap+0x40, nelems 4`.
pub(crate) fn list(args: &[(&str, &dyn Display)]) -> String {
    args.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}
