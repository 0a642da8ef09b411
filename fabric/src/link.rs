//! Links: slots of the far buffer, and numbering, checksums and replay where errors occur.
//!
//! When a slot of a virtual channel's buffer will be free is known as soon as the packet in it has
//! been granted its way on. Such times are kept beside the number of free slots and counted when
//! somebody asks for that number, so a credit costs no event unless somebody waits for it.
//!
//! A clean link is cut through and computes no checksum. A link with an error rate works by
//! receive-then-forward. Whether a transmission is wrong is decided when it begins; a wrong one and
//! all that follow it are discarded by the receiver until the sender hears of it and sends
//! everything not received again (go-back-N). Such packets stand in the far queue already, with no time
//! from which they may ask. After [`FAILURES_MAX`] failures in a row the link is taken out of service.
//! `docs/model.md` has the rules.

use crate::Fabric;
use crate::event::Kind;
use crate::layout::{DATA_VCS, VCS};
use crate::model::rng::{Purpose, below, draw};
use crate::slab::{NO_QUEUE, flag, rate};
use crate::types::{Blame, Effect, Link, Tick};
use abi::packet;
use abi::torus::Direction;
use std::collections::{BTreeMap, VecDeque};

/// Failures in a row after which a link goes down.
const FAILURES_MAX: u32 = 16;
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

/// What the sender of a link knows of the slots at the far end, in units: packets, or flits in the
/// variant that shows why packets are counted. Those counted as free are; others may have become so since.
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
    /// Of the `later` returns those after `now` are still pending.
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
    /// Whether so many units are in use with no time known, so that a credit may come back for them.
    pub(crate) fn owes(&self, c: &Credits, vc: usize, units: usize) -> bool {
        let known = c.free[place(vc)] as usize + c.pending[place(vc)] as usize;
        known + units <= self.units[vc]
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        self.returns.capacity() * size_of::<Tick>()
    }
}

/// The sender of one link with an error rate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lossy {
    /// Errors per million packets.
    per_million: u32,
    /// Granted and not received right, with the virtual channel they use; oldest first.
    pub(crate) unreceived: VecDeque<(u32, u8)>,
    /// A transmission was wrong and the sender does not know yet.
    out_of_step: bool,
    /// Errors in a row.
    failures: u32,
    /// Sequence number of the next packet to be received.
    sequence: u16,
    /// Random numbers drawn so far.
    drawn: u64,
    pub(crate) crc_errors: u64,
    pub(crate) replays: u64,
}

/// The links that have or had an error rate, by link number (node · directions + direction).
pub(crate) type LossyLinks = BTreeMap<usize, Lossy>;

impl Fabric {
    pub(crate) fn set_error_rate(&mut self, node: u32, dir: usize, per_million: u32) {
        let link = self.link(node, dir);
        match self.lossy.get_mut(&link) {
            Some(l) => l.per_million = per_million,
            None if per_million > 0 => {
                self.lossy.insert(link, Lossy { per_million, ..Lossy::default() });
            }
            None => {}
        }
    }

    /// One transmission of packet `h` that begins at `start`: when it ends, and whether it is
    /// received right. If so the packet's time to ask is set.
    fn transmit(&mut self, node: u32, dir: usize, vc: usize, h: u32, start: Tick) -> (Tick, bool) {
        let link = self.link(node, dir);
        let p = &self.packets[h];
        let end = start + self.timing.span(p.rate, p.flits);
        // Trains were under way when the link got its error rate.
        let (raw, bits) = (p.is(flag::RAW) || p.is_train(), p.flits as u64 * 128);
        let seed = self.seed;
        let l = self.lossy.get_mut(&link).expect("caller knows the link has errors");
        if l.out_of_step {
            return (end, false);
        }
        let (node_dir, k) = (16 * node as u64 + dir as u64, l.drawn);
        l.drawn += 1;
        let number = draw(seed, node_dir, Purpose::Error, k);
        let mut wrong = below(number, 1_000_000) < l.per_million as u64;
        if !raw {
            let sequence = l.sequence;
            let (mut flits, n) = self.encode(h, sequence);
            if wrong {
                let bit = (number % bits) as usize;
                flits[bit / 128] ^= 1 << (bit % 128);
            }
            wrong = packet::check(&flits[..n]).is_err();
        }
        let (link_ps, router_ps) = (self.params.link_ps, self.params.router_ps);
        let l = self.lossy.get_mut(&link).expect("looked up above");
        if wrong {
            l.failures += 1;
            l.crc_errors += 1;
            l.out_of_step = true;
            self.events.push(end + 2 * link_ps, Kind::Heard, node, dir as u32);
            return (end, false);
        }
        l.failures = 0;
        l.sequence = l.sequence.wrapping_add(1);
        let p = &mut self.packets[h];
        p.ready = end + link_ps + router_ps;
        p.rate = rate::WHOLE;
        if self.tracer.on() {
            self.note_arrived(node, dir, vc, h);
        }
        (end, true)
    }

    /// A granted packet begins to cross a link with an error rate.
    pub(crate) fn send_lossy(&mut self, node: u32, dir: usize, vc: usize, h: u32) {
        self.packets[h].ready = NEVER;
        let (_, right) = self.transmit(node, dir, vc, h, self.now);
        let far = self.net.neighbour(node, dir);
        if self.owned[far as usize] {
            self.append(far, self.lay.arrival(dir, vc), h);
        } else if right {
            self.send_boundary(node, dir, vc, h);
        }
        if !right {
            let link = self.link(node, dir);
            let l = self.lossy.get_mut(&link).expect("caller knows the link has errors");
            l.unreceived.push_back((h, vc as u8));
        }
    }

    /// The routers have been emptied: no link has anything to repeat. Returns the packets that were in no queue either.
    pub(crate) fn clear_lossy(&mut self) -> Vec<u32> {
        let mut lost = Vec::new();
        for l in self.lossy.values_mut() {
            (l.out_of_step, l.failures) = (false, 0);
            lost.extend(l.unreceived.drain(..).map(|u| u.0).filter(|h| self.packets[*h].queue == NO_QUEUE));
        }
        lost
    }

    /// A packet in the queue of a link is taken out: it will not be repeated.
    pub(crate) fn forget_replay(&mut self, node: u32, dir: usize, h: u32) {
        if !self.lossy.is_empty() {
            let sender = self.net.neighbour(node, self.net.opposite(dir));
            let link = self.link(sender, dir);
            if let Some(lossy) = self.lossy.get_mut(&link) {
                lossy.unreceived.retain(|u| u.0 != h);
            }
        }
    }

    /// [`Kind::Heard`]: the sender knows of an error and repeats everything not received.
    pub(crate) fn on_heard(&mut self, node: u32, dir: usize) {
        let link = self.link(node, dir);
        let l = self.lossy.get_mut(&link).expect("only links with errors hear of them");
        l.out_of_step = false;
        if l.failures >= FAILURES_MAX {
            l.failures = 0;
            // In a split network all parts must change routes together: until they do, this link says nothing more.
            l.out_of_step = self.split;
            let link = Link { node, dir: Direction::ALL[dir] };
            self.effect(Effect::LinkDown { link, time: self.now });
            if self.split {
                return;
            }
            return self.fail(Blame::Link(link));
        }
        let again = std::mem::take(&mut l.unreceived);
        if again.is_empty() {
            return;
        }
        l.replays += again.len() as u64;
        let mut start = self.now.max(self.routers.out_busy(node, dir));
        let far = self.net.neighbour(node, dir);
        let mut left = VecDeque::new();
        for (h, vc) in again {
            self.note_replay(node, dir, vc, h, start);
            let (end, right) = self.transmit(node, dir, vc as usize, h, start);
            start = end;
            if !right {
                left.push_back((h, vc));
            } else if self.owned[far as usize] {
                self.arrived(far, self.lay.arrival(dir, vc as usize), h);
            } else {
                self.send_boundary(node, dir, vc as usize, h);
            }
        }
        self.lossy.get_mut(&link).expect("looked up above").unreceived = left;
        self.routers.set_out_busy(node, dir, start);
        self.look_at(node, 1 << dir);
    }
}

/// Counter-based random number for test data: a function of its arguments only (SplitMix64
/// finaliser, applied to each argument in turn).
#[cfg(test)]
pub(crate) fn random(seed: u64, link: u64, purpose: u64, counter: u64) -> u64 {
    [seed, link, purpose, counter].into_iter().fold(0x9e37_79b9_7f4a_7c15, |state: u64, word| {
        let mut z = state.wrapping_add(word).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    })
}
