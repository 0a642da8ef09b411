//! Links: the slots of the far buffer.
//!
//! When a slot of a virtual channel's buffer will be free is known as soon as the packet in it has
//! been granted its way on. Such times are kept beside the number of free slots and counted when
//! somebody asks for that number, so a credit costs no event unless somebody waits for it.
//!
//! A link is cut through and computes no checksum, unless something is wrong with it: see [`super::impaired`].

use super::layout::{DATA_VCS, VCS};
use crate::types::Tick;

/// Most slots of a virtual channel: what a link of 400 GB/s needs with the chip's times, and room for slower ones.
pub const SLOTS_MAX: u16 = 1024;
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
    free: [u16; GROUP],
    /// Slots whose time is known but not counted yet.
    pending: [u16; GROUP],
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
        self.free[place(vc)] -= units as u16;
    }
}

/// The times at which slots become free, once known, behind all outputs: all but the earliest, which is in the
/// channel's [`Credits`], as rings in ascending order. Packets leave a buffer one after the other, so a new time is
/// nearly always the latest.
#[derive(Debug)]
pub(crate) struct Slots {
    returns: Vec<Tick>,
    /// Where each channel's ring begins, behind each output.
    heads: Vec<u16>,
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
        Slots { returns: vec![0; outputs * next], heads: vec![0; outputs * VCS], per_output: next, first, units }
    }
    /// The state of a link none of whose slots is in use, for the channels from `vc` on.
    pub(crate) fn all_free(&self, vc: usize) -> Credits {
        let free = std::array::from_fn(|i| self.units.get(vc + i).map_or(0, |units| *units as u16));
        Credits { next: [NEVER; GROUP], free, pending: [0; GROUP] }
    }
    /// Place in `returns` of the `k`th time of a ring, which holds at most `units` − 1.
    #[inline(always)]
    fn nth(&self, output: usize, vc: usize, k: usize) -> usize {
        let (size, at) = (self.units[vc] - 1, self.heads[output * VCS + vc] as usize + k);
        output * self.per_output + self.first[vc] + if at < size { at } else { at - size }
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
        c.free[i] += 1;
        c.pending[i] -= 1;
        c.next[i] = NEVER;
        if c.pending[i] > 0 {
            self.count_later(c, output, vc, now);
        }
    }
    /// Goes on with the ring, and takes the earliest that is not free yet out of it.
    #[inline(never)]
    fn count_later(&mut self, c: &mut Credits, output: usize, vc: usize, now: Tick) {
        let i = place(vc);
        let mut gone = 0;
        while c.pending[i] > 0 {
            let at = self.returns[self.nth(output, vc, gone)];
            gone += 1;
            if at > now {
                c.next[i] = at;
                break;
            }
            c.free[i] += 1;
            c.pending[i] -= 1;
        }
        let (size, head) = (self.units[vc] - 1, &mut self.heads[output * VCS + vc]);
        let at = *head as usize + gone;
        *head = if at < size { at } else { at - size } as u16;
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
            self.file_later(output, vc, pending - 1, (at, earliest));
        }
    }
    /// Puts the later one of two times, one of which precedes all, into a ring of `len`.
    #[inline]
    fn file_later(&mut self, output: usize, vc: usize, len: usize, (at, earliest): (Tick, Tick)) {
        let at = at.max(earliest);
        let mut k = len;
        while k > 0 {
            let before = self.returns[self.nth(output, vc, k - 1)];
            if before <= at {
                break;
            }
            let place = self.nth(output, vc, k);
            self.returns[place] = before;
            k -= 1;
        }
        let place = self.nth(output, vc, k);
        self.returns[place] = at;
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
        let later = (0..usize::from(c.pending[i]).saturating_sub(1)).map(|k| self.returns[self.nth(output, vc, k)]);
        let earliest = (c.pending[i] > 0).then_some(c.next[i]);
        let back = earliest.into_iter().chain(later).filter(|at| *at <= now).count();
        self.units[vc] - usize::from(c.free[i]) - back
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        self.returns.capacity() * size_of::<Tick>() + self.heads.capacity() * size_of::<u16>()
    }
}
