//! Cores of put and get.

use super::handles::CTX_DEFAULT;
use super::record::{Moved, call, compound, context};
use super::transfer::{Strides, Transfer};
use super::{Runtime, bytes, die, ok, untold_state};
use crate::ctypes::*;
use angara::{Amo, Strided};
use angara_abi::account::Class;
use angara_abi::copy::{peek, poke};
use angara_abi::desc::{AmoOp, Place};
use angara_protocol::calls::{Action, Blocks};

/// `SHMEM_SIGNAL_SET`.
pub(crate) const SIGNAL_SET: int = 0;
/// `SHMEM_SIGNAL_ADD`.
pub(crate) const SIGNAL_ADD: int = 1;

/// The job, if `ctx` is its default context: only then there is a short path.
#[inline(always)]
fn default_of(ctx: shmem_ctx_t) -> Option<&'static Runtime> {
    if ctx == CTX_DEFAULT { untold_state() } else { None }
}

/// `nelems` elements of `size` bytes are one of `N` bytes.
#[inline(always)]
fn are_one<const N: usize>(nelems: usize, size: usize) -> bool {
    size <= N && nelems == N / size
}

/// # Safety
/// `source` is readable for the elements.
#[inline(always)]
pub(crate) unsafe fn put(name: Name, ctx: shmem_ctx_t, what: Transfer, pe: int) {
    let Transfer { dest, source, nelems, size } = what;
    if let Some(s) = default_of(ctx) {
        // A negative PE is a number too large.
        let (to, world) = (s.job.ctx(), pe as u32 as usize);
        // SAFETY: the caller vouches for the source, here and below.
        let long = || unsafe { peek::<u64>(source) };
        if are_one::<8>(nelems, size) && to.put_element::<8>(Class::Put, world, dest, long) {
            return;
        }
        // SAFETY: the caller vouches for the source, here and below.
        let int = || u64::from(unsafe { peek::<u32>(source) });
        if are_one::<4>(nelems, size) && to.put_element::<4>(Class::Put, world, dest, int) {
            return;
        }
    }
    // SAFETY: the caller promises what the callee asks for.
    unsafe { put_any::<true>(name, ctx, dest, source, product(nelems, size), pe) }
}

/// `nelems` elements of `size` bytes in bytes, or more than there can be.
#[inline(always)]
fn product(nelems: usize, size: usize) -> usize {
    nelems.saturating_mul(size)
}

fn fit(name: Name, len: usize) -> usize {
    if len > isize::MAX as usize {
        die(name, None, "that many elements do not fit into the address space");
    }
    len
}

/// [`put`] and [`put_nbi`] of every kind, and their errors. No more than six parameters: the call is then a jump.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn put_any<const BLOCKING: bool>(
    name: Name,
    ctx: shmem_ctx_t,
    dest: *mut u8,
    source: *const u8,
    len: usize,
    pe: int,
) {
    if let Some(s) = default_of(ctx)
        // SAFETY: the caller vouches for the source. A negative PE is a number too large.
        && unsafe { s.job.ctx().put_own(Class::Put, pe as u32 as usize, dest, source, len) }
    {
        return;
    }
    let moved = Moved { ctx, pe, dest, source, blocks: Blocks::one(len), blocking: BLOCKING };
    call(
        name,
        |s, ()| moved.put(s, name),
        |s| {
            let (pe, len) = (s.target(name, ctx, pe), fit(name, len));
            if len > 0 {
                let place = s.place_to(name, dest, len);
                s.check_transfer(name, pe, dest, source, len);
                // SAFETY: the caller vouches for the source; the destination was located.
                let done = unsafe {
                    match BLOCKING {
                        true => s.job.ctx().put(Class::Put, pe, place, source, len),
                        false => s.job.ctx().put_nbi(Class::Put, pe, place, source, len),
                    }
                };
                ok(name, Some(pe), done);
            }
        },
    );
}

/// [`put`] of one element by value.
///
/// # Safety
/// None beyond what is checked; unsafe for uniformity with the other cores.
#[inline(always)]
pub(crate) unsafe fn p<T: Copy>(name: Name, ctx: shmem_ctx_t, dest: *mut T, value: T, pe: int) {
    if let Some(s) = default_of(ctx) {
        let (to, world, at) = (s.job.ctx(), pe as u32 as usize, dest.cast());
        // SAFETY: `T` has as many bytes, here and below.
        let long = || unsafe { std::mem::transmute_copy::<T, u64>(&value) };
        if size_of::<T>() == 8 && to.put_element::<8>(Class::Put, world, at, long) {
            return;
        }
        // SAFETY: `T` has as many bytes, here and below.
        let int = || unsafe { std::mem::transmute_copy::<T, u32>(&value) } as u64;
        if size_of::<T>() == 4 && to.put_element::<4>(Class::Put, world, at, int) {
            return;
        }
    }
    p_any(name, ctx, dest, value, pe);
}

#[inline(never)]
fn p_any<T: Copy>(name: Name, ctx: shmem_ctx_t, dest: *mut T, value: T, pe: int) {
    // SAFETY: `value` is one element.
    unsafe { put_any::<true>(name, ctx, dest.cast(), (&raw const value).cast(), size_of::<T>(), pe) }
}

/// # Safety
/// As [`put`], and `source` stays valid until the next quiet.
#[inline(always)]
pub(crate) unsafe fn put_nbi(name: Name, ctx: shmem_ctx_t, what: Transfer, pe: int) {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { put_any::<false>(name, ctx, what.dest, what.source, product(what.nelems, what.size), pe) }
}

/// # Safety
/// `dest` is writable for the elements.
#[inline(always)]
pub(crate) unsafe fn get(name: Name, ctx: shmem_ctx_t, what: Transfer, pe: int) {
    let Transfer { dest, source, nelems, size } = what;
    if let Some(s) = default_of(ctx) {
        // A negative PE is a number too large.
        let (from, world) = (s.job.ctx(), pe as u32 as usize);
        if are_one::<8>(nelems, size)
            && let Some(bits) = from.get_element::<8>(Class::Get, world, source)
        {
            // SAFETY: the caller vouches for the destination, here and below.
            return unsafe { poke::<u64>(dest, bits) };
        }
        if are_one::<4>(nelems, size)
            && let Some(bits) = from.get_element::<4>(Class::Get, world, source)
        {
            // SAFETY: the caller vouches for the destination, here and below.
            return unsafe { poke::<u32>(dest, bits as u32) };
        }
    }
    // SAFETY: the caller promises what the callee asks for.
    unsafe { get_any::<true>(name, ctx, dest, source, product(nelems, size), pe) }
}

/// [`get`] and [`get_nbi`] of every kind, and their errors. No more than six parameters: the call is then a jump.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn get_any<const BLOCKING: bool>(
    name: Name,
    ctx: shmem_ctx_t,
    dest: *mut u8,
    source: *const u8,
    len: usize,
    pe: int,
) {
    if let Some(s) = default_of(ctx)
        // SAFETY: the caller vouches for the destination. A negative PE is a number too large.
        && unsafe { s.job.ctx().get_own(Class::Get, pe as u32 as usize, dest, source, len) }
    {
        return;
    }
    let moved = Moved { ctx, pe, dest, source, blocks: Blocks::one(len), blocking: BLOCKING };
    call(
        name,
        |s, ()| moved.get(s, name),
        |s| {
            let (pe, len) = (s.target(name, ctx, pe), fit(name, len));
            if len > 0 {
                let place = s.place(name, source, len);
                s.check_transfer(name, pe, source, dest, len);
                // SAFETY: the caller vouches for the destination; the source was located.
                let done = unsafe {
                    match BLOCKING {
                        true => s.job.ctx().get(Class::Get, pe, dest, place, len),
                        false => s.job.ctx().get_nbi(Class::Get, pe, dest, place, len),
                    }
                };
                ok(name, Some(pe), done);
            }
        },
    );
}

/// # Safety
/// As [`get`], and `dest` stays valid until the next quiet.
#[inline(always)]
pub(crate) unsafe fn get_nbi(name: Name, ctx: shmem_ctx_t, what: Transfer, pe: int) {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { get_any::<false>(name, ctx, what.dest, what.source, product(what.nelems, what.size), pe) }
}

/// One element.
///
/// # Safety
/// None beyond what is checked; unsafe for uniformity with the other cores.
#[inline(always)]
pub(crate) unsafe fn g<T: Copy>(name: Name, ctx: shmem_ctx_t, source: *const T, pe: int) -> T {
    if let Some(s) = default_of(ctx) {
        let (from, world, at) = (s.job.ctx(), pe as u32 as usize, source.cast());
        if size_of::<T>() == 8
            && let Some(bits) = from.get_element::<8>(Class::Get, world, at)
        {
            // SAFETY: `T` has as many bytes, here and below; a peer stored it as a `T`.
            return unsafe { std::mem::transmute_copy::<u64, T>(&bits) };
        }
        if size_of::<T>() == 4
            && let Some(bits) = from.get_element::<4>(Class::Get, world, at)
        {
            // SAFETY: `T` has as many bytes, here and below; a peer stored it as a `T`.
            return unsafe { std::mem::transmute_copy::<u32, T>(&(bits as u32)) };
        }
    }
    g_any(name, ctx, source, pe)
}

#[inline(never)]
fn g_any<T: Copy>(name: Name, ctx: shmem_ctx_t, source: *const T, pe: int) -> T {
    let mut value = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: `value` has room for one element, and `get_any` fills it or ends the program.
    unsafe {
        get_any::<true>(name, ctx, value.as_mut_ptr().cast(), source.cast(), size_of::<T>(), pe);
        value.assume_init()
    }
}

/// `nblocks` blocks in bytes, of elements `apart` from the first of one block to the first of the next; `None` when there
/// is nothing to move.
fn blocks(name: Name, block: Transfer, apart: Strides, nblocks: usize) -> Option<Strided> {
    if block.nelems == 0 || nblocks == 0 {
        return None;
    }
    let step = |stride: isize, side: &str| {
        if stride < 1 {
            die(name, None, format_args!("the {side} stride is {stride}; it must be at least 1"));
        }
        let step = bytes(name, stride as usize, block.size);
        bytes(name, nblocks - 1, step);
        step
    };
    let (to_step, from_step) = (step(apart.dst, "destination"), step(apart.sst, "source"));
    Some(Strided { count: nblocks, block: block.len(name), to_step, from_step })
}

/// Puts `nblocks` blocks, the first of which is `block`; block i of the source starts `sst * i` elements in, block i of
/// the destination `dst * i`.
///
/// # Safety
/// The source is readable for the elements the strides reach.
pub(crate) unsafe fn ibput(name: Name, ctx: shmem_ctx_t, block: Transfer, apart: Strides, nblocks: usize, pe: int) {
    let body = |s: &'static Runtime| {
        let pe = s.target(name, ctx, pe);
        let blocks = blocks(name, block, apart, nblocks)?;
        let place = s.place_to(name, block.dest, blocks.to_extent());
        // SAFETY: the caller vouches for the source; the destination was located.
        ok(name, Some(pe), unsafe { s.job.ctx().put_strided(Class::Put, pe, place, block.source, blocks) });
        Some(blocks)
    };
    call(name, |s, blocks| strided(ctx, pe, block, *blocks, |b| (b.to_step, b.from_step)).put(s, name), body);
}

/// The reverse of [`ibput`].
///
/// # Safety
/// The destination is writable for the elements the strides reach.
pub(crate) unsafe fn ibget(name: Name, ctx: shmem_ctx_t, block: Transfer, apart: Strides, nblocks: usize, pe: int) {
    let body = |s: &'static Runtime| {
        let pe = s.target(name, ctx, pe);
        let blocks = blocks(name, block, apart, nblocks)?;
        let place = s.place(name, block.source, blocks.from_extent());
        // SAFETY: the caller vouches for the destination; the source was located.
        ok(name, Some(pe), unsafe { s.job.ctx().get_strided(Class::Get, pe, block.dest, place, blocks) });
        Some(blocks)
    };
    call(name, |s, blocks| strided(ctx, pe, block, *blocks, |b| (b.from_step, b.to_step)).get(s, name), body);
}

/// Describes a strided transfer to note; `steps` are those of the remote and of the local side.
fn strided(
    ctx: shmem_ctx_t,
    pe: int,
    what: Transfer,
    blocks: Option<Strided>,
    steps: impl Fn(&Strided) -> (usize, usize),
) -> Moved {
    let blocks = blocks.map_or(Blocks::one(0), |b| {
        let (remote, local) = steps(&b);
        Blocks { count: b.count as u64, block: b.block as u64, remote_step: remote as u64, local_step: local as u64 }
    });
    Moved { ctx, pe, dest: what.dest, source: what.source, blocks, blocking: true }
}

/// Update of a signal word.
#[derive(Clone, Copy)]
pub(crate) struct Signal {
    /// The word.
    pub(crate) sig_addr: *mut u64,
    /// Value to store or to add.
    pub(crate) signal: u64,
    /// [`SIGNAL_SET`] or [`SIGNAL_ADD`].
    pub(crate) sig_op: int,
}

/// Puts data, then updates the signal word at the same PE so that whoever sees it sees the data.
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn put_signal(name: Name, ctx: shmem_ctx_t, what: Transfer, then: Signal, pe: int) {
    compound(name, || {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { put(name, ctx, what, pe) };
        if what.nelems > 0 {
            fence(name, ctx);
        }
        signal(name, ctx, then.sig_addr, then.signal, then.sig_op, pe);
    });
}

/// Sets or adds to a signal word.
pub(crate) fn signal(name: Name, ctx: shmem_ctx_t, sig_addr: *mut u64, value: u64, sig_op: int, pe: int) {
    let noted = |s: &Runtime, &target: &usize| Action::Atomic {
        ctx: context(ctx),
        pe: target as u32,
        remote: s.memory(sig_addr.cast()),
        width: 8,
        writes: true,
        fetches: false,
        signals: true,
        operand: value,
        stores: sig_op == SIGNAL_SET,
    };
    call(name, noted, |s| {
        let pe = s.target(name, ctx, pe);
        let place = aligned(s, name, sig_addr.cast(), 8, true);
        let add = Amo { op: AmoOp::Add, width: 8, operand: value, comparand: 0, fetch: false };
        let result = match sig_op {
            // SAFETY: the source is a local of 8 bytes.
            SIGNAL_SET => unsafe { s.job.ctx().put(Class::Put, pe, place, (&raw const value).cast(), 8) },
            SIGNAL_ADD => s.job.ctx().amo(Class::Amo, pe, place, add).map(drop),
            other => die(
                name,
                Some(pe),
                format_args!("signal operation {other} is neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD"),
            ),
        };
        ok(name, Some(pe), result);
        pe
    });
}

/// The place of one word of `width` bytes, which must be symmetric and aligned.
#[inline]
pub(crate) fn aligned(s: &Runtime, name: Name, p: *mut u8, width: usize, written: bool) -> Place {
    if !(p as usize).is_multiple_of(width) {
        die(name, None, format_args!("the address {p:p} is not aligned to the {width} bytes of its type"));
    }
    if written { s.place_to(name, p, width) } else { s.place(name, p, width) }
}

/// Orders earlier puts and atomics before later ones, per target.
pub(crate) fn fence(name: Name, ctx: shmem_ctx_t) {
    call(
        name,
        move |_, ()| Action::Fence { ctx: context(ctx) },
        move |s| {
            if s.is_live(name, ctx) {
                ok(name, None, s.job.ctx().fence());
            }
        },
    );
}

/// Waits until everything issued before has taken effect.
pub(crate) fn quiet(name: Name, ctx: shmem_ctx_t) {
    call(
        name,
        move |_, ()| Action::Quiet { ctx: context(ctx), pe: None },
        move |s| {
            if s.is_live(name, ctx) {
                ok(name, None, s.job.ctx().quiet());
            }
        },
    );
}

/// [`quiet`] towards some PEs.
///
/// # Safety
/// `target_pes` is readable for `npes` elements.
pub(crate) unsafe fn pe_quiet(name: Name, ctx: shmem_ctx_t, target_pes: *const int, npes: usize) {
    let body = |s: &'static Runtime| {
        if !s.is_live(name, ctx) {
            return None;
        }
        let mut last = None;
        for i in 0..npes {
            // SAFETY: `i < npes`.
            let pe = s.target(name, ctx, unsafe { *target_pes.add(i) });
            ok(name, Some(pe), s.job.ctx().quiet_pe(pe));
            last = Some(pe as u32);
        }
        last.filter(|_| npes == 1)
    };
    // A quiet towards several PEs is noted as one towards all.
    call(name, |_, &pe| Action::Quiet { ctx: context(ctx), pe }, body);
}

/// Old cache routines: caches are coherent.
pub(crate) fn coherent(_name: Name) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
/// The same for one line.
pub(crate) fn coherent_line(name: Name, _dest: *mut void) {
    coherent(name);
}
