//! Barriers, broadcast, collect, all-to-all.
//!
//! The specification lets a collective assume that every PE's destination is ready, so data goes
//! straight there by put and is followed by a signal; only sizes and partial sums travel through
//! mailboxes. All of it is counted as class `sync`.

use super::area::{internal, word};
use super::table::{How, What};
use crate::ctypes::*;
use crate::rt::check::{list, shown};
use crate::rt::record::{call, exchanged, met};
use crate::rt::teams::group::Group;
use crate::rt::teams::handles::TEAM_INVALID;
use crate::rt::teams::members::{Collective, Members, Set, collective, collective_of};
use crate::rt::transfer::{Strides, Transfer};
use crate::rt::{Runtime, bytes, die, ok};
use angara::Place;
use angara_abi::order;
use angara_protocol::calls::{Action, Meeting};
use std::sync::atomic::Ordering;

/// Broadcasts are passed on in pieces of this many bytes, so that levels of the tree overlap.
const PIECE: usize = 64 * 1024;

fn shift(place: Place, by: usize) -> Place {
    Place { offset: place.offset + by as u64, ..place }
}

impl Runtime {
    fn agree_on_gather(&self, name: Name, group: &Group, dest: *mut u8, nelems: Option<usize>) {
        self.agree(name, group, || match nelems {
            Some(n) => list(&[("dest", &shown(self, dest)), ("nelems", &n)]),
            None => list(&[("dest", &shown(self, dest))]),
        });
    }

    fn agree_on_exchange(&self, name: Name, group: &Group, what: Transfer, apart: Strides) {
        self.agree(name, group, || {
            let (to, from) = (shown(self, what.dest), shown(self, what.source));
            let Strides { dst, sst } = apart;
            list(&[("dest", &to), ("source", &from), ("dst", &dst), ("sst", &sst), ("nelems", &what.nelems)])
        });
    }

    /// True if the PEs of `group` can [`Runtime::meet`].
    pub(crate) fn can_meet(&self, group: &Group) -> bool {
        self.is_world(group) && self.job.can_meet()
    }

    /// True if that is the way to combine a word of every PE: where PEs share cores, one that does everything is
    /// faster than many that wait for each other.
    fn meets(&self, group: &Group) -> bool {
        self.can_meet(group) && self.job.geometry().crowded
    }

    /// A barrier of all PEs, the last of which to arrive runs `last`. Only if [`Runtime::can_meet`].
    pub(crate) fn meet(&self, name: Name, last: impl FnOnce()) {
        let last = || {
            last();
            Ok(())
        };
        ok(name, None, self.job.meet(last));
    }

    fn all_done(&self, name: Name, group: &Group) {
        ok(name, None, self.job.ctx().quiet());
        self.group_sync(name, group);
    }

    /// Puts from `root` into everybody's destination: by itself, or along a binomial tree.
    ///
    /// # Safety
    /// `source` at the root and `dest` are valid for `len` bytes.
    unsafe fn spread(&self, name: Name, group: &Group, dest: *mut u8, source: *const u8, len: usize, root: usize) {
        let (n, me) = (group.size, self.my_index(name, group));
        if n == 1 || len == 0 {
            return;
        }
        let place = self.place_to(name, dest, len);
        if self.table.choose(What::Broadcast, group.size, len) == Some(How::Flat) {
            if me != root {
                return self.await_signal(name, group.stream, group.world(root));
            }
            for pe in (1..n).map(|i| group.world((root + i) % n)) {
                // SAFETY: the caller's contract.
                unsafe { self.put_sync(name, pe, place, source, len) };
                self.order(name);
                self.signal(name, group.stream, pe);
            }
            return;
        }
        let rank = (me + n - root) % n;
        let world = |rank: usize| group.world((rank + root) % n);
        // My parent differs in my lowest set bit; my children in the bits below it.
        let lowest = if rank == 0 { n.next_power_of_two() } else { rank & rank.wrapping_neg() };
        let children = || std::iter::successors(Some(lowest / 2), |bit| Some(bit / 2)).take_while(|bit| *bit > 0);
        let mut done = 0;
        while done < len {
            let piece = PIECE.min(len - done);
            let from = if rank == 0 {
                source
            } else {
                self.await_signal(name, group.stream, world(rank - lowest));
                dest.cast_const()
            };
            for child in children().filter(|bit| rank + bit < n).map(|bit| world(rank + bit)) {
                // SAFETY: `done + piece` is within `len`.
                unsafe { self.put_sync(name, child, shift(place, done), from.add(done), piece) };
                self.order(name);
                self.signal(name, group.stream, child);
            }
            done += piece;
        }
    }

    /// Everybody puts its block everywhere, or Bruck's allgather in place: in round k each PE passes on the 2^k
    /// blocks it has.
    ///
    /// # Safety
    /// `dest` is valid for `len` bytes per PE, `source` for `len`.
    unsafe fn gather(&self, name: Name, group: &Group, dest: *mut u8, source: *const u8, len: usize) {
        let (n, me) = (group.size, self.my_index(name, group));
        if len == 0 {
            return;
        }
        let place = self.place_to(name, dest, bytes(name, len, n));
        // SAFETY: my block of the destination.
        unsafe { std::ptr::copy(source, dest.add(me * len), len) };
        if self.table.choose(What::Fcollect, group.size, len) == Some(How::Flat) {
            for pe in (1..n).map(|i| group.world((me + i) % n)) {
                // SAFETY: the caller's contract.
                unsafe { self.put_sync(name, pe, shift(place, me * len), source, len) };
            }
            return self.all_done(name, group);
        }
        let mut have = 1;
        while have < n {
            // The blocks me-have+1 ..= me, which may wrap around the end of the destination.
            let count = have.min(n - have);
            let to = group.world((me + have) % n);
            let first = (me + n - (count - 1)) % n;
            let straight = count.min(n - first);
            for (block, blocks) in [(first, straight), (0, count - straight)] {
                // SAFETY: blocks below n.
                let from = unsafe { dest.add(block * len) };
                // SAFETY: blocks below n.
                unsafe { self.put_sync(name, to, shift(place, block * len), from, blocks * len) };
            }
            self.order(name);
            self.signal(name, group.stream, to);
            self.await_signal(name, group.stream, group.world((me + n - have) % n));
            have *= 2;
        }
    }

    /// Sum of `value` over lower PEs of the group.
    fn sum_below(&self, name: Name, group: &Group, value: u64) -> u64 {
        let (n, me) = (group.size, self.my_index(name, group));
        if self.meets(group) {
            self.word(word::LENGTH).store(value, Ordering::Relaxed);
            self.meet(name, || {
                let (mut sum, mut length) = (0u64, 0u64);
                for pe in (0..n).map(|i| group.world(i)) {
                    self.put_word(name, pe, word::BELOW, sum);
                    // SAFETY: a local of 8 bytes.
                    unsafe { self.get_sync(name, pe, internal(word::LENGTH), (&raw mut length).cast(), 8) };
                    sum += length;
                }
            });
            return self.word(word::BELOW).load(Ordering::Relaxed);
        }
        let (mut below, mut sum, mut distance) = (0u64, value, 1);
        while distance < n {
            if me + distance < n {
                // SAFETY: a local of 8 bytes.
                unsafe { self.send(name, group.stream, group.world(me + distance), (&raw const sum).cast(), 8) };
            }
            if me >= distance {
                let read = |p: *mut u8| {
                    // SAFETY: messages of this exchange have 8 bytes.
                    unsafe { order::Watched::look(p.cast::<u64>()) }
                };
                let part = self.receive(name, group.stream, group.world(me - distance), read);
                (below, sum) = (below + part, sum + part);
            }
            distance *= 2;
        }
        below
    }

    /// Blocks of different lengths, one after the other.
    ///
    /// # Safety
    /// `dest` is valid for all blocks, `source` for `len` bytes.
    unsafe fn gather_any(&self, name: Name, group: &Group, dest: *mut u8, source: *const u8, len: usize) {
        let me = self.my_index(name, group);
        let below = self.sum_below(name, group, len as u64) as usize;
        if len > 0 {
            // SAFETY: my block starts `below` bytes into the destination, which holds all blocks.
            let mine = unsafe { dest.add(below) };
            let place = self.place_to(name, mine, len);
            // SAFETY: my block starts `below` bytes into the destination, which holds all blocks.
            unsafe { std::ptr::copy(source, mine, len) };
            for i in 1..group.size {
                let pe = group.world((me + i) % group.size);
                // SAFETY: the caller's contract.
                unsafe { self.put_sync(name, pe, place, source, len) };
            }
        }
        self.all_done(name, group);
    }

    /// Block j of my source becomes block `me` of PE j's destination; elements of a block are some elements apart.
    ///
    /// # Safety
    /// Both arrays are valid for what the strides reach.
    unsafe fn exchange(&self, name: Name, group: &Group, what: Transfer, apart: Strides) {
        let (n, me) = (group.size, self.my_index(name, group));
        let (Transfer { dest, source, nelems, size }, Strides { dst, sst }) = (what, apart);
        if nelems == 0 {
            return;
        }
        if dst < 1 || sst < 1 {
            die(name, None, format_args!("the strides are {dst} and {sst}; they must be at least 1"));
        }
        let (dst, sst) = (dst as usize, sst as usize);
        let block = |stride: usize| bytes(name, bytes(name, nelems, stride), size);
        let (to_block, from_block) = (block(dst), block(sst));
        // The last element of the last block ends the array.
        let place = self.place_to(name, dest, bytes(name, n, to_block) - (dst - 1) * size);
        let (chunk, count) = if dst == 1 && sst == 1 { (nelems * size, 1) } else { (size, nelems) };
        for i in 0..n {
            let to = (me + i) % n;
            for e in 0..count {
                let at = shift(place, me * to_block + e * dst * size);
                // SAFETY: within the arrays.
                let from = unsafe { source.add(to * from_block + e * sst * size) };
                // SAFETY: within the arrays.
                unsafe { self.put_sync(name, group.world(to), at, from, chunk) };
            }
        }
        self.all_done(name, group);
    }
}

pub(crate) fn barrier_all(name: Name) {
    call(
        name,
        |s, ()| met(Meeting::Barrier, &s.world()),
        |s| {
            let s = collective(s, name);
            s.agree(name, &s.world(), String::new);
            ok(name, None, s.job.quiet_barrier());
        },
    );
}

pub(crate) fn sync_all(name: Name) {
    call(
        name,
        |s, ()| met(Meeting::Sync, &s.world()),
        |s| {
            let s = collective(s, name);
            s.agree(name, &s.world(), String::new);
            s.group_sync(name, &s.world());
        },
    );
}

pub(crate) fn sync<M: Members>(name: Name, of: M) -> M::Answer {
    let body = |s: &'static Runtime| {
        let (s, group) = collective_of(s, name, of);
        s.agree(name, &group, String::new);
        s.group_sync(name, &group);
    };
    call(name, |s, ()| of.noted(s, met(Meeting::Sync, &of.group(s, name))), body);
    M::DONE
}

pub(crate) fn team_sync(name: Name, team: shmem_team_t) -> int {
    // A PE outside the team holds SHMEM_TEAM_INVALID, for which this does nothing.
    if team == TEAM_INVALID { 0 } else { sync(name, team) }
}

/// # Safety
/// `dest`, and at the root `source`, are valid for the elements.
pub(crate) unsafe fn broadcast(name: Name, team: shmem_team_t, what: Transfer, root: int) -> int {
    let body = |s: &'static Runtime| {
        let (s, group, root) = broadcasting(s, name, team, what, root);
        let (Transfer { dest, source, .. }, len) = (what, what.len(name));
        if group.world(root) == s.me {
            s.check_overlap(name, dest, len, source, len);
        }
        if len == 0 {
            return;
        }
        // SAFETY: the caller's contract.
        unsafe {
            match s.tree_for(&group, s.table.choose(What::Broadcast, group.size, len)) {
                Some(tree) => {
                    let place = s.place_to(name, dest, len);
                    ok(name, None, tree.broadcast(group.world(root), place, source, len));
                }
                None => s.spread(name, &group, dest, source, len, root),
            }
            if group.world(root) == s.me {
                std::ptr::copy(source, dest, len);
            }
        }
    };
    call(name, |s, ()| broadcast_noted(s, name, team, what, (root, true)), body);
    0
}

/// Returns what is noted of a broadcast; `own`: the root's destination is written, too.
fn broadcast_noted(s: &Runtime, name: Name, of: impl Members, what: Transfer, (root, own): (int, bool)) -> Action {
    let group = of.group(s, name);
    let is_root = group.pe(root) == Some(s.me);
    let action = exchanged(s, (Meeting::Broadcast, &group, root), what, ((own || !is_root) as usize, is_root as usize));
    of.noted(s, action)
}

/// [`collective_of`] for a broadcast, and its root.
#[inline]
fn broadcasting(
    s: &'static Runtime,
    name: Name,
    of: impl Members,
    what: Transfer,
    root: int,
) -> (Collective, Group, usize) {
    let (s, group) = collective_of(s, name, of);
    let root = match usize::try_from(root) {
        Ok(i) if i < group.size => i,
        _ => die(name, None, format_args!("root PE {root} does not exist: the team has PEs 0 to {}", group.size - 1)),
    };
    let Transfer { dest, nelems, .. } = what;
    s.agree(name, &group, || list(&[("dest", &shown(&s, dest)), ("nelems", &nelems), ("PE_root", &root)]));
    (s, group, root)
}

/// # Safety
/// `source` is valid for the elements, `dest` for those of all PEs.
pub(crate) unsafe fn fcollect<M: Members>(name: Name, of: M, what: Transfer) -> M::Answer {
    let body = |s: &'static Runtime| {
        let (s, group) = collective_of(s, name, of);
        s.agree_on_gather(name, &group, what.dest, Some(what.nelems));
        // SAFETY: the caller's contract.
        unsafe { s.gather(name, &group, what.dest, what.source, what.len(name)) };
        group
    };
    let noted =
        |s: &Runtime, group: &Group| of.noted(s, exchanged(s, (Meeting::Collect, group, 0), what, (group.size, 1)));
    call(name, noted, body);
    M::DONE
}

/// # Safety
/// As [`fcollect`].
pub(crate) unsafe fn collect<M: Members>(name: Name, of: M, what: Transfer) -> M::Answer {
    let body = |s: &'static Runtime| {
        let (s, group) = collective_of(s, name, of);
        s.agree_on_gather(name, &group, what.dest, None);
        // SAFETY: the caller's contract.
        unsafe { s.gather_any(name, &group, what.dest, what.source, what.len(name)) };
        group
    };
    // How much the others bring is not noted.
    let noted = |s: &Runtime, group: &Group| of.noted(s, exchanged(s, (Meeting::Collect, group, 0), what, (0, 1)));
    call(name, noted, body);
    M::DONE
}

/// # Safety
/// Both arrays hold the elements of every PE.
pub(crate) unsafe fn alltoall<M: Members>(name: Name, of: M, what: Transfer) -> M::Answer {
    // SAFETY: the caller's contract.
    unsafe { alltoalls(name, of, what, Strides::NONE) }
}

/// # Safety
/// Both arrays hold the elements of every PE, as far apart.
pub(crate) unsafe fn alltoalls<M: Members>(name: Name, of: M, what: Transfer, apart: Strides) -> M::Answer {
    let body = |s: &'static Runtime| {
        let (s, group) = collective_of(s, name, of);
        s.agree_on_exchange(name, &group, what, apart);
        // SAFETY: the caller's contract.
        unsafe { s.exchange(name, &group, what, apart) };
        group
    };
    let noted = |s: &Runtime, group: &Group| {
        let all = |stride: isize| stride.max(1) as usize * group.size;
        of.noted(s, exchanged(s, (Meeting::Alltoall, group, 0), what, (all(apart.dst), all(apart.sst))))
    };
    call(name, noted, body);
    M::DONE
}

pub(crate) fn set_barrier(name: Name, set: Set) {
    let body = |s: &'static Runtime| {
        let (s, group) = collective_of(s, name, set);
        s.agree(name, &group, String::new);
        s.all_done(name, &group);
    };
    call(name, |s, ()| set.noted(s, met(Meeting::Barrier, &set.group(s, name))), body);
}

/// # Safety
/// As [`broadcast`]; the root's destination stays as it is.
pub(crate) unsafe fn set_broadcast(name: Name, set: Set, what: Transfer, root: int) {
    let body = |s: &'static Runtime| {
        let (s, group, root) = broadcasting(s, name, set, what, root);
        let len = what.len(name);
        if len > 0 {
            s.pace(name, group.stream, group.world(root), (0..group.size).map(|i| group.world(i)));
        }
        // SAFETY: the caller's contract.
        unsafe { s.spread(name, &group, what.dest, what.source, len, root) };
    };
    call(name, |s, ()| broadcast_noted(s, name, set, what, (root, false)), body);
}
