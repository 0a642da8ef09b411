//! Memory of a peer that this process uses by itself.

use crate::atomics;
use crate::memory::{UserMemory, copy_process};
use angara::{Class, Job, Place};

/// A range of a peer's registered memory, of `len` bytes, at `seat` of `job`.
#[derive(Clone, Copy)]
pub(crate) enum Remote<'a> {
    /// Pages that both have mapped.
    Mapped { job: &'a Job, seat: usize, at: *mut u8, len: usize },
    /// Pages that the adapters reach.
    Adapter { job: &'a Job, seat: usize, place: Place },
    /// Memory of its process alone, between which and this one the kernel copies.
    Process { job: &'a Job, seat: usize, pid: i32, at: u64, len: usize },
}

impl Remote<'_> {
    /// Writes all of its bytes. Nothing if that is impossible.
    pub(crate) fn write(self, from: &UserMemory) -> Option<()> {
        match self {
            Remote::Mapped { job, seat, at, len } => {
                // SAFETY: mapped for as many bytes, which the peer has registered for this.
                unsafe { from.copy_to(at) };
                job.ctx().count_copy(Class::Put, seat, len);
            }
            Remote::Adapter { job, seat, mut place, .. } => {
                for span in from.spans().filter(|span| span.len() > 0) {
                    // SAFETY: the program's buffer; the driver checks the other side.
                    unsafe { job.ctx().put(Class::Put, seat, place, span.start(), span.len()) }.ok()?;
                    place.offset += span.len() as u64;
                }
                job.ctx().quiet_pe(seat).ok()?;
            }
            Remote::Process { job, seat, pid, at, len } => {
                copy_process(pid, at, from, true).ok()?;
                job.ctx().count_copy(Class::Put, seat, len);
            }
        }
        Some(())
    }

    /// Reads all of its bytes. Nothing if that is impossible.
    pub(crate) fn read(self, to: &UserMemory) -> Option<()> {
        match self {
            Remote::Mapped { job, seat, at, len } => {
                // SAFETY: mapped for as many bytes, which others change by whole words.
                unsafe { to.copy_from(at) };
                job.ctx().count_copy(Class::Get, seat, len);
            }
            Remote::Adapter { job, seat, mut place, .. } => {
                for span in to.spans().filter(|span| span.len() > 0) {
                    // SAFETY: the program's buffer; the driver checks the other side.
                    unsafe { job.ctx().get(Class::Get, seat, span.start(), place, span.len()) }.ok()?;
                    place.offset += span.len() as u64;
                }
            }
            Remote::Process { job, seat, pid, at, len } => {
                copy_process(pid, at, to, false).ok()?;
                job.ctx().count_copy(Class::Get, seat, len);
            }
        }
        Some(())
    }

    /// Changes all of its elements, each in one atomic step. Nothing if that is impossible.
    pub(crate) fn update(self, (datatype, op): (i32, i32), operand: &[u8], compare: &[u8]) -> Option<Vec<u8>> {
        let Remote::Mapped { job, seat, at, len } = self else { return None };
        // SAFETY: mapped for as many bytes, which the peer has registered for this.
        let there = unsafe { UserMemory::new(at, len) };
        let old = atomics::update(&there, (datatype, op), operand, compare)?;
        job.ctx().count_copy(Class::Amo, seat, len.min(8));
        Some(old)
    }
}
