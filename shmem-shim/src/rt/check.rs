//! `SHMEM_DEBUG`: a closer look at what the program passes, and where it did.
//!
//! Some mistakes are always found, because finding them costs nothing: a PE that does not exist, an
//! address that is not symmetric. Here are those that cost something: memory of the heap that was
//! never allocated or is free again, ranges that overlap, and PEs that call different collectives
//! or the same one with different arguments. While a PE looks closer, the short paths of put and
//! get are closed, so that a program that does not ask for it pays nothing.

use super::group::{Group, stream};
use super::notes::caller::caller;
use super::{Runtime, die, lock};
use crate::ctypes::Name;
use angara_abi::desc::{Place, Region};
use std::fmt::Display;
use std::time::Duration;

/// Longest description of a collective that travels between PEs, in bytes.
const CALL_MAX: usize = 512;

/// How long the higher of two PEs that call different collectives leaves it to the lower one to say so.
const PRECEDENCE: Duration = Duration::from_secs(1);

/// Returns whether the environment asks for checks.
pub(crate) fn wanted() -> bool {
    angara_protocol::env::shmem_is_set("DEBUG")
}

/// Returns a place as a reader knows it: `heap+0x40`, `static+0x10`.
pub(crate) fn shown(s: &Runtime, p: *const u8) -> String {
    match s.job.locate(p, 1) {
        Some(Place { region: Region::Heap, .. }) => {
            format!("heap+{:#x}", (p as usize).wrapping_sub(s.job.heap() as usize))
        }
        Some(Place { offset, .. }) => format!("static+{offset:#x}"),
        None => "private memory".into(),
    }
}

impl Runtime {
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
            self.compare(name, group, format!("{name}({}){}", args(), of_team(group)));
        }
    }

    /// Every PE tells every other one what it calls, and goes on when all have said the same. Two PEs that wait for
    /// each other in collectives of different teams notice it, because each is told by the other.
    #[cold]
    fn compare(&self, name: Name, group: &Group, call: String) {
        let len = self.p2p().message_max(group.stream).min(CALL_MAX);
        let cut = |text: &str| text.bytes().take(len / 2 - 1).collect::<Vec<u8>>();
        let (call, place) = (cut(&call), cut(&caller().unwrap_or_default()));
        let mut message = vec![0u8; len];
        message[..call.len()].copy_from_slice(&call);
        message[len / 2..len / 2 + place.len()].copy_from_slice(&place);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes.split(|b| *b == 0).next().unwrap_or(&[])).into_owned();
        let others = || (0..group.size).map(|i| group.world(i)).filter(|pe| *pe != self.me);
        for pe in others() {
            // SAFETY: a buffer of `len` bytes.
            unsafe { self.send(name, group.stream, pe, message.as_ptr(), len) };
        }
        for pe in others() {
            let theirs = self.receive(name, group.stream, pe, |p| {
                // SAFETY: a message of `len` bytes, written before the signal that ended the wait.
                unsafe { std::slice::from_raw_parts(p, len) }.to_vec()
            });
            let (other, at) = (text(&theirs[..len / 2]), text(&theirs[len / 2..]));
            if other.as_bytes() != call {
                if pe < self.me {
                    // One message is enough. The lower PE speaks, unless it is held up elsewhere.
                    std::thread::sleep(PRECEDENCE);
                }
                let at = if at.is_empty() { at } else { format!(" at {at}") };
                die(name, None, format_args!("PE {pe} calls {other}{at} where this PE calls {}", text(&call)));
            }
        }
    }
}

/// Returns " of team 0.3 (PEs 0, 2 to 6)", or nothing for all PEs.
fn of_team(group: &Group) -> String {
    if group.stream == stream::WORLD {
        return String::new();
    }
    let (first, last) = (group.world(0), group.world(group.size - 1));
    let pes = match (group.size, group.stride) {
        (2, _) => format!("{first}, {last}"),
        (_, 1) => format!("{first} to {last}"),
        _ => format!("{first}, {} to {last}", group.world(1)),
    };
    format!(" of team {} (PEs {pes})", stream::shown(group.stream))
}

/// Returns arguments as text: `dest heap+0x40, nelems 4`.
pub(crate) fn list(args: &[(&str, &dyn Display)]) -> String {
    args.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}
