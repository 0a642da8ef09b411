//! Reductions and prefix sums.
//!
//! Four ways, chosen by [`super::table`]: the routers' tree where they know the operation; one PE that
//! reduces for all while they wait, on one host; recursive doubling through mailboxes for what fits into one
//! message; each PE reduces one slice, reading it from everybody and writing it to everybody. Floating-point
//! results are the same on every PE and in every run with the same table, to the bit, NaNs included: the order of
//! operations and operands depends only on it and the number of PEs and elements. Minimum and maximum are the same
//! on every path ([`super::ops`]).

use super::ops::Op;
use super::table::{How, What};
use crate::ctypes::*;
use crate::rt::check::{list, shown};
use crate::rt::record::{call, exchanged};
use crate::rt::teams::group::Group;
use crate::rt::teams::members::{Members, Set, collective_of};
use crate::rt::transfer::Transfer;
use crate::rt::{Runtime, die, ok};
use angara::{Class, Place};
use angara_protocol::calls::Meeting;

/// Bytes combined at a time in the sliced algorithm.
const CHUNK: usize = 32 * 1024;

impl Runtime {
    /// Looks at the arguments of a reduction or prefix sum; returns how many bytes each vector has.
    #[inline]
    fn check_vectors(&self, name: Name, group: &Group, what: Transfer) -> usize {
        let Transfer { dest, source, nelems: n, .. } = what;
        let len = what.len(name);
        self.agree(name, group, || list(&[("dest", &shown(self, dest)), ("source", &shown(self, source)), ("n", &n)]));
        if len > 0 {
            self.check_overlap(name, dest, len, source, len);
            self.check_written(name, dest, len);
        }
        len
    }

    /// # Safety
    /// `dest` and `source` are valid for the elements, which are of the type of `op`, and equal or apart.
    unsafe fn reduce(&self, name: Name, group: &Group, what: Transfer, op: &Op) {
        let len = self.check_vectors(name, group, what);
        if len == 0 {
            return;
        }
        let Transfer { dest, source, nelems, .. } = what;
        let how = self.table.choose(What::Reduce, group.size, len);
        // SAFETY: the caller's contract.
        unsafe {
            if group.size == 1 {
                std::ptr::copy(source, dest, len);
            } else if let Some((routers, tree)) = op.tree.and_then(|op| Some((op, self.tree_for(group, how)?))) {
                std::ptr::copy(source, dest, len);
                routers.ranks.inspect(|[to_ranks, _]| to_ranks(dest, nelems));
                let buffer = std::slice::from_raw_parts_mut(dest, len);
                ok(name, None, tree.all_reduce_raw(routers.op, routers.elem, buffer));
                routers.ranks.inspect(|[_, from_ranks]| from_ranks(dest, nelems));
            } else if how == Some(How::Last) && self.can_meet(group) {
                self.by_last(name, group, what, op);
            } else if how != Some(How::Sliced) && len <= self.p2p().message_max(group.stream) {
                std::ptr::copy(source, dest, len);
                self.doubling(name, group, dest, nelems, op);
            } else {
                self.sliced(name, group, what, op);
            }
        }
    }

    /// The last PE to arrive reads everybody's source, in order, and writes everybody's destination.
    ///
    /// # Safety
    /// As [`Runtime::reduce`].
    unsafe fn by_last(&self, name: Name, group: &Group, what: Transfer, op: &Op) {
        let Transfer { dest, source, nelems: n, size } = what;
        let len = n * size;
        let (to, from) = (self.place_to(name, dest, len), self.place(name, source, len));
        self.meet(name, || {
            let (mut acc, mut with) = (vec![0u8; len], vec![0u8; len]);
            for p in (0..group.size).filter_map(|i| self.job.peer(from, group.world(i))) {
                // Every source lies in the cache of another core, and reading one after the other would wait for each.
                angara_abi::copy::prefetch(p);
            }
            for i in 0..group.size {
                let into = if i == 0 { acc.as_mut_ptr() } else { with.as_mut_ptr() };
                // SAFETY: both buffers hold `n` elements, here and below.
                unsafe { self.get_sync(name, group.world(i), from, into, len) };
                if i > 0 {
                    // SAFETY: both buffers hold `n` elements, here and below.
                    unsafe { (op.combine)(acc.as_mut_ptr(), with.as_ptr(), n) };
                }
            }
            for i in 0..group.size {
                // SAFETY: both buffers hold `n` elements, here and below.
                unsafe { self.put_sync(name, group.world(i), to, acc.as_ptr(), len) };
            }
        });
    }

    /// Recursive doubling. PEs beyond the largest power of two hand their vector to a partner
    /// first and get the result last.
    ///
    /// # Safety
    /// `acc` is valid for `n` elements, which fit into one message.
    pub(crate) unsafe fn doubling(&self, name: Name, group: &Group, acc: *mut u8, n: usize, op: &Op) {
        let (size, me, len) = (group.size, self.my_index(name, group), n * op.size);
        let power = 1 << size.ilog2();
        let send = |to: usize| {
            // SAFETY: `acc` holds `n` elements, and so does a message of this exchange, here and below.
            unsafe { self.send(name, group.stream, group.world(to), acc, len) }
        };
        let combine = |from: usize| {
            let read = |p: *mut u8| {
                // The lower PE's vector comes first on both sides: of two NaNs, a sum is the first.
                // SAFETY: as above, and the message is this PE's until it says that it has read it.
                unsafe {
                    if from > me {
                        (op.combine)(acc, p, n);
                    } else {
                        (op.combine)(p, acc, n);
                        std::ptr::copy_nonoverlapping(p, acc, len);
                    }
                }
            };
            self.receive(name, group.stream, group.world(from), read);
        };
        if me >= power {
            send(me - power);
            let read = |p: *mut u8| {
                // SAFETY: as above, and the message is this PE's until it says that it has read it.
                unsafe { std::ptr::copy_nonoverlapping(p, acc, len) }
            };
            self.receive(name, group.stream, group.world(me - power), read);
            return;
        }
        let extra = me + power < size;
        if extra {
            combine(me + power);
        }
        let mut bit = 1;
        while bit < power {
            send(me ^ bit);
            combine(me ^ bit);
            bit *= 2;
        }
        if extra {
            send(me + power);
        }
    }

    /// Each PE reduces one slice: after everybody's source is ready it reads that slice from each
    /// PE in turn, in the same order everywhere, and writes the result into every destination.
    /// Works in place: nobody else reads the slice a PE writes.
    ///
    /// # Safety
    /// As [`Runtime::reduce`].
    unsafe fn sliced(&self, name: Name, group: &Group, what: Transfer, op: &Op) {
        let Transfer { dest, source, nelems, size } = what;
        let (n, me, len) = (group.size, self.my_index(name, group), nelems * size);
        let (to, from) = (self.place_to(name, dest, len), self.place(name, source, len));
        self.group_sync(name, group);
        let per = nelems.div_ceil(n);
        let (mut at, end) = ((me * per).min(nelems), ((me + 1) * per).min(nelems));
        let step = (CHUNK / size).max(1);
        let mut acc = vec![0u8; step * size];
        let mut with = vec![0u8; step * size];
        while at < end {
            let count = step.min(end - at);
            let (offset, bytes) = (at * size, count * size);
            let place = |p: Place| Place { offset: p.offset + offset as u64, ..p };
            for i in 0..n {
                let pe = group.world(i);
                let into = if i == 0 { acc.as_mut_ptr() } else { with.as_mut_ptr() };
                // SAFETY: the buffers hold a step of elements.
                ok(name, Some(pe), unsafe { self.job.ctx().get(Class::Sync, pe, into, place(from), bytes) });
                if i > 0 {
                    // SAFETY: the buffers hold a step of elements.
                    unsafe { (op.combine)(acc.as_mut_ptr(), with.as_ptr(), count) };
                }
            }
            for i in 0..n {
                // SAFETY: the buffers hold a step of elements.
                unsafe { self.put_sync(name, group.world((me + i) % n), place(to), acc.as_ptr(), bytes) };
            }
            at += count;
        }
        ok(name, None, self.job.ctx().quiet());
        self.group_sync(name, group);
    }

    /// Prefix combination, chunk by chunk: in round k each PE hands what it has to PE me + 2^k.
    ///
    /// # Safety
    /// As [`Runtime::reduce`].
    unsafe fn prefix(&self, name: Name, group: &Group, what: Transfer, op: &Op, inclusive: bool) {
        let (n, me) = (group.size, self.my_index(name, group));
        self.check_vectors(name, group, what);
        let Transfer { dest, source, nelems, size } = what;
        let step = (self.p2p().message_max(group.stream) / size).max(1);
        // `sum` covers me and those below heard of so far, `below` only the latter.
        let mut sum = vec![0u8; step * size];
        let mut below = vec![0u8; step * size];
        let mut done = 0;
        while done < nelems {
            let count = step.min(nelems - done);
            let (offset, bytes) = (done * size, count * size);
            let mut heard = false;
            // SAFETY: within the arrays of `n` elements.
            unsafe { std::ptr::copy_nonoverlapping(source.add(offset), sum.as_mut_ptr(), bytes) };
            let mut distance = 1;
            while distance < n {
                if me + distance < n {
                    // SAFETY: `sum` holds a step of elements.
                    unsafe { self.send(name, group.stream, group.world(me + distance), sum.as_ptr(), bytes) };
                }
                if me >= distance {
                    let read = |p: *mut u8| {
                        // SAFETY: the message holds `count` elements, as do both buffers.
                        unsafe {
                            if heard {
                                (op.combine)(below.as_mut_ptr(), p, count);
                            } else {
                                std::ptr::copy_nonoverlapping(p, below.as_mut_ptr(), bytes);
                            }
                            (op.combine)(sum.as_mut_ptr(), p, count);
                        }
                    };
                    self.receive(name, group.stream, group.world(me - distance), read);
                    heard = true;
                }
                distance *= 2;
            }
            if !inclusive && !heard {
                // The first PE's exclusive sum is the identity, which is 0 in every type.
                below[..bytes].fill(0);
            }
            let result = if inclusive { &sum } else { &below };
            // SAFETY: within the destination of `n` elements.
            unsafe { std::ptr::copy_nonoverlapping(result.as_ptr(), dest.add(offset), bytes) };
            done += count;
        }
    }
}

/// # Safety
/// As [`Runtime::reduce`].
unsafe fn of_group(name: Name, of: impl Members, what: Transfer, op: &'static Op) {
    let body = |s: &'static Runtime| {
        let (s, group) = collective_of(s, name, of);
        // SAFETY: the caller promises what the callee asks for.
        unsafe { s.reduce(name, &group, what, op) };
        group
    };
    let noted = |s: &Runtime, group: &Group| of.noted(s, exchanged(s, (Meeting::Reduce, group, 0), what, (1, 1)));
    call(name, noted, body);
}

/// # Safety
/// As [`Runtime::reduce`].
pub(crate) unsafe fn team(name: Name, team: shmem_team_t, what: Transfer, op: &'static Op) -> int {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { of_group(name, team, what, op) };
    0
}

/// # Safety
/// As [`team`].
pub(crate) unsafe fn active_set(
    name: Name,
    set: Set,
    dest: *mut u8,
    source: *const u8,
    n: int,
    op: &'static Op,
    _pwrk: *mut u8,
) {
    let Ok(nelems) = usize::try_from(n) else {
        die(name, None, format_args!("nreduce is {n}; it must not be negative"))
    };
    // SAFETY: the caller promises what the callee asks for.
    unsafe { of_group(name, set, Transfer { dest, source, nelems, size: op.size }, op) };
}

/// # Safety
/// As [`team`].
pub(crate) unsafe fn scan(name: Name, team: shmem_team_t, what: Transfer, op: &'static Op, inclusive: bool) -> int {
    let body = |s: &'static Runtime| {
        let (s, group) = collective_of(s, name, team);
        // SAFETY: the caller promises what the callee asks for.
        unsafe { s.prefix(name, &group, what, op, inclusive) };
        group
    };
    call(name, |s, group: &Group| exchanged(s, (Meeting::Scan, group, 0), what, (1, 1)), body);
    0
}
