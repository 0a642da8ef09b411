//! Links: the slots of the far buffer.
//!
//! When a slot of a virtual channel's buffer will be free is known as soon as the packet in it has
//! been granted its way on. Such times are kept beside the number of free slots and counted when
//! somebody asks for that number, so a credit costs no event unless somebody waits for it.
//!
//! A link is cut through and computes no checksum, unless something is wrong with it: see [`super::impaired`].

use super::layout::{DATA_VCS, VCS};
use crate::types::Tick;

/// Most slots of a virtual channel.
pub(crate) const SLOTS_MAX: usize = 16;
/// Not known yet.
pub(crate) const NEVER: Tick = Tick::MAX;

/// Channels a [`Credits`] is for: those of data, or the collective ones.
const GROUP: usize = DATA_VCS;

/// Place of a channel in its [`Credits`].
#[inline(always)]
fn place(vc: usize) -> usize {
    if vc < GROUP { vc } else { vc - GROUP }
}

/// Slots at the far end of a link as its sender knows them, in units: packets, or flits in the
/// variant that shows why packets are counted. Those counted as free are free; others may have become so since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credits {
    /// The earliest time at which a slot that is not counted yet is free, by channel.
    next: [Tick; GROUP],
    free: [u8; GROUP],
    /// Slots whose time is known but not counted yet.
    pending: [u8; GROUP],
}

impl Credits {
    /// The earliest time at which a slot that is not counted yet is free.
    #[inline(always)]
    pub(crate) fn next(&self, vc: usize) -> Tick {
        self.next[place(vc)]
    }
    /// Takes units that are free.
    #[inline(always)]
    pub(crate) fn take(&mut self, vc: usize, units: usize) {
        self.free[place(vc)] -= units as u8;
    }
}

/// The times at which slots become free, once known, behind all outputs: all but the earliest, which is in the
/// channel's [`Credits`], in no order.
#[derive(Debug)]
pub(crate) struct Slots {
    returns: Vec<Tick>,
    per_output: usize,
    first: [usize; VCS],
    units: [usize; VCS],
}

impl Slots {
    /// `units` per virtual channel.
    pub(crate) fn new(outputs: usize, units: [usize; VCS]) -> Slots {
        let (mut first, mut next) = ([0; VCS], 0);
        for vc in 0..VCS {
            first[vc] = next;
            next += units[vc].saturating_sub(1);
        }
        Slots { returns: vec![0; outputs * next], per_output: next, first, units }
    }
    /// The state of a link none of whose slots is in use, for the channels from `vc` on.
    pub(crate) fn all_free(&self, vc: usize) -> Credits {
        let free = std::array::from_fn(|i| self.units.get(vc + i).map_or(0, |units| *units as u8));
        Credits { next: [NEVER; GROUP], free, pending: [0; GROUP] }
    }
    /// Free units behind `output` on `vc` at `now`.
    #[inline(always)]
    pub(crate) fn free(&mut self, c: &mut Credits, output: usize, vc: usize, now: Tick) -> usize {
        if c.next[place(vc)] <= now {
            self.count(c, output, vc, now);
        }
        c.free[place(vc)] as usize
    }
    /// Counts the slots that are free by `now`, at least the earliest.
    #[inline]
    fn count(&mut self, c: &mut Credits, output: usize, vc: usize, now: Tick) {
        let i = place(vc);
        let pending = std::mem::take(&mut c.pending[i]);
        c.free[i] += pending;
        c.next[i] = NEVER;
        if pending > 1 {
            self.keep_pending(c, output, vc, pending as usize - 1, now);
        }
    }
    /// Keeps those of the `later` returns that come after `now` pending.
    #[inline(never)]
    fn keep_pending(&mut self, c: &mut Credits, output: usize, vc: usize, later: usize, now: Tick) {
        let i = place(vc);
        let base = output * self.per_output + self.first[vc];
        for k in base..base + later {
            let at = self.returns[k];
            if at > now {
                c.free[i] -= 1;
                self.file(c, output, vc, at);
            }
        }
    }
    /// Another slot is known to be free from `at` on.
    #[inline(always)]
    fn file(&mut self, c: &mut Credits, output: usize, vc: usize, at: Tick) {
        let i = place(vc);
        let pending = c.pending[i] as usize;
        c.pending[i] += 1;
        let earliest = c.next[i];
        c.next[i] = earliest.min(at);
        if pending > 0 {
            self.returns[output * self.per_output + self.first[vc] + pending - 1] = earliest.max(at);
        }
    }
    /// Units are free again from `at` on.
    #[inline(always)]
    pub(crate) fn give(&mut self, c: &mut Credits, output: usize, vc: usize, units: usize, at: Tick) {
        debug_assert!(self.owes(c, vc, units), "more slots given back than taken");
        for _ in 0..units {
            self.file(c, output, vc, at);
        }
    }
    /// True if N units are in use with no time known, so that a credit may come back for them.
    pub(crate) fn owes(&self, c: &Credits, vc: usize, units: usize) -> bool {
        let known = c.free[place(vc)] as usize + c.pending[place(vc)] as usize;
        known + units <= self.units[vc]
    }
    /// Units of a channel.
    pub(crate) fn all(&self, vc: usize) -> usize {
        self.units[vc]
    }
    /// Units of `vc` behind `output` that are in use at `now`, for whoever looks on: nothing is counted by it.
    pub(crate) fn in_use(&self, c: &Credits, output: usize, vc: usize, now: Tick) -> usize {
        let i = place(vc);
        let base = output * self.per_output + self.first[vc];
        let later = &self.returns[base..base + usize::from(c.pending[i]).saturating_sub(1)];
        let earliest = (c.pending[i] > 0).then_some(&c.next[i]);
        let back = earliest.into_iter().chain(later).filter(|at| **at <= now).count();
        self.units[vc] - usize::from(c.free[i]) - back
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        self.returns.capacity() * size_of::<Tick>()
    }
}
