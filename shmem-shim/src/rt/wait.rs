//! Cores of wait and test: one comparison on one or several symmetric variables of this PE.

use super::process::pe::this;
use super::record::{Answer, call, waited};
use super::{Runtime, die, ok};
use crate::ctypes::*;
use angara::Comparison;
use angara_abi::order;
use angara_protocol::calls::Action;
use std::fmt::Display;
use std::sync::atomic::Ordering;

/// `SHMEM_CMP_EQ` and so on, as in `shmem.h`.
pub(crate) const CMP_EQ: int = 1;
pub(crate) const CMP_NE: int = 2;
pub(crate) const CMP_GT: int = 3;
pub(crate) const CMP_GE: int = 4;
pub(crate) const CMP_LT: int = 5;
pub(crate) const CMP_LE: int = 6;

/// Types one can wait on: integers.
pub(crate) trait Waitable: order::Watched<Value = Self> + Copy + PartialOrd + Display {
    /// Some are below 0.
    const SIGNED: bool;
    /// Returns its bits; those above its width do not count.
    fn bits(self) -> u64;
    /// Returns a comparison as the data plane is told of it.
    fn comparison(cmp: int, value: Self) -> Comparison {
        Comparison { width: size_of::<Self>() as u8, signed: Self::SIGNED, relation: cmp as u8, value: value.bits() }
    }
}

macro_rules! waitable {
    ($($t:ty),*) => {$(
        impl Waitable for $t {
            const SIGNED: bool = <$t>::MIN != 0;
            fn bits(self) -> u64 {
                self as u64
            }
        }
    )*};
}
waitable!(i16, u16, i32, u32, i64, u64, isize, usize);

/// The comparands of a group: one for all, or one each.
#[derive(Clone, Copy)]
pub(crate) enum Values<T> {
    /// The same for every variable.
    One(T),
    /// A vector of the same length.
    Each(*const T),
}

#[inline]
fn holds<T: Waitable>(name: Name, value: T, cmp: int, with: T) -> bool {
    match cmp {
        CMP_EQ => value == with,
        CMP_NE => value != with,
        CMP_GT => value > with,
        CMP_GE => value >= with,
        CMP_LT => value < with,
        CMP_LE => value <= with,
        other => die(name, None, format_args!("comparison {other} is not one of SHMEM_CMP_EQ, NE, GT, GE, LT, LE")),
    }
}

/// Returns whether a variable is as wanted; what its writer put before it is there then.
///
/// # Safety
/// `ivar` points to a live variable.
#[inline(always)]
unsafe fn is_so<T: Waitable>(name: Name, ivar: *const T, cmp: int, with: T) -> bool {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { order::seen(ivar, |now| holds(name, now, cmp, with)) }
}

fn sign(cmp: int) -> &'static str {
    ["?", "==", "!=", ">", ">=", "<", "<="].get(cmp as usize).unwrap_or(&"?")
}

/// Nothing can ever change a variable peers cannot reach: waiting for it would never end.
fn check<T>(s: &Runtime, name: Name, p: *mut T) {
    if !(p as usize).is_multiple_of(size_of::<T>()) {
        die(name, None, format_args!("the address {p:p} is not aligned to the {} bytes of its type", size_of::<T>()));
    }
    s.place(name, p.cast(), size_of::<T>());
}

/// # Safety
/// `ivar` points to a live variable.
#[inline(always)]
pub(crate) unsafe fn until<T: Waitable>(name: Name, ivar: *mut T, cmp: int, value: T) {
    call(
        name,
        |s, ()| waited(s, ivar.cast(), 1, T::comparison(cmp, value), Answer::WAITED),
        |s| {
            // SAFETY: the caller's contract.
            if !unsafe { is_so(name, ivar, cmp, value) } {
                // SAFETY: the caller promises what the callee asks for.
                unsafe { wait_for(s, name, ivar, cmp, value) }
            }
        },
    );
}

/// # Safety
/// As [`until`].
#[inline(never)]
unsafe fn wait_for<T: Waitable>(s: &Runtime, name: Name, ivar: *mut T, cmp: int, value: T) {
    check(s, name, ivar);
    let what = || {
        // SAFETY: the caller promises what the callee asks for.
        let now = unsafe { T::look(ivar) };
        format!("{name}: the variable at {ivar:p} {} {value} (it is {now})", sign(cmp))
    };
    // SAFETY: the caller promises what the callee asks for.
    let ready = || unsafe { is_so(name, ivar, cmp, value) };
    ok(name, None, s.job.wait_word(ivar.cast(), T::comparison(cmp, value), ready, &what));
}

/// Before a test. Where time is virtual it takes some.
#[inline]
fn look(s: &Runtime) {
    if s.timed {
        // Where the job has ended the next call that communicates says so.
        let _ = s.job.look();
    }
}

#[inline]
fn tested(s: &Runtime, success: bool) -> bool {
    // A program that polls must not keep a core from the PE that would make its test succeed.
    let failed_tests = &this().failed_tests;
    if success {
        failed_tests.store(0, Ordering::Relaxed);
    } else if !s.timed {
        let failed = failed_tests.load(Ordering::Relaxed).wrapping_add(1);
        failed_tests.store(failed, Ordering::Relaxed);
        if s.job.geometry().crowded || failed > 100 {
            std::thread::yield_now();
        }
    }
    success
}

/// # Safety
/// As [`until`].
pub(crate) unsafe fn test<T: Waitable>(name: Name, ivar: *mut T, cmp: int, value: T) -> int {
    let noted =
        |s: &Runtime, &found: &bool| waited(s, ivar.cast(), 1, T::comparison(cmp, value), Answer::tested(found));
    let found = call(name, noted, |s| {
        look(s);
        // SAFETY: the caller's contract.
        tested(s, unsafe { is_so(name, ivar, cmp, value) })
    });
    found as int
}

/// A group of variables; those with a non-zero status are left out.
struct Group<T> {
    name: Name,
    ivars: *mut T,
    nelems: usize,
    status: *const int,
    cmp: int,
    values: Values<T>,
}

impl<T: Waitable> Group<T> {
    /// # Safety
    /// `i < nelems`; the arrays given by the caller are live.
    unsafe fn included(&self, i: usize) -> bool {
        // SAFETY: inside the status array.
        self.status.is_null() || unsafe { *self.status.add(i) } == 0
    }
    /// # Safety
    /// As [`Group::included`].
    unsafe fn ready(&self, i: usize) -> bool {
        // SAFETY: inside the arrays.
        unsafe {
            let with = match self.values {
                Values::One(v) => v,
                Values::Each(p) => *p.add(i),
            };
            is_so(self.name, self.ivars.add(i), self.cmp, with)
        }
    }
    /// Returns the indices that take part.
    ///
    /// # Safety
    /// As [`Group::included`] for every index.
    unsafe fn members(&self) -> impl Iterator<Item = usize> + '_ {
        // SAFETY: indices below nelems.
        (0..self.nelems).filter(|i| unsafe { self.included(*i) })
    }
    /// Returns a variable that is ready. The search starts behind the last one found, so that repeated
    /// calls report all that are ready in turn.
    ///
    /// # Safety
    /// As [`Group::members`].
    unsafe fn first(&self) -> Option<usize> {
        let start = this().next_search.load(Ordering::Relaxed).min(self.nelems);
        // SAFETY: as above; indices below nelems.
        let found = (start..self.nelems).chain(0..start).find(|i| unsafe { self.included(*i) && self.ready(*i) });
        if let Some(i) = found {
            this().next_search.store(i + 1, Ordering::Relaxed);
        }
        found
    }
    /// # Safety
    /// As [`Group::members`].
    unsafe fn all(&self) -> bool {
        // SAFETY: as above; indices below nelems.
        unsafe { self.members().all(|i| self.ready(i)) }
    }
    /// # Safety
    /// As [`Group::members`], and `indices` has room for `nelems`.
    unsafe fn collect(&self, indices: *mut usize) -> usize {
        let mut n = 0;
        // SAFETY: as above; `n` stays below nelems.
        unsafe {
            for i in self.members().filter(|i| self.ready(*i)) {
                indices.add(n).write(i);
                n += 1;
            }
        }
        n
    }
    /// Returns what is noted of a call with this group.
    fn noted(&self, s: &Runtime, answer: Answer) -> Action {
        let value = match self.values {
            Values::One(value) => Some(value),
            // SAFETY: the caller's array has as many values as there are variables.
            Values::Each(values) => (self.nelems > 0).then(|| unsafe { *values }),
        };
        let comparison = match value {
            Some(value) => T::comparison(self.cmp, value),
            None => Comparison { width: size_of::<T>() as u8, signed: T::SIGNED, relation: self.cmp as u8, value: 0 },
        };
        waited(s, self.ivars.cast(), self.nelems, comparison, answer)
    }
    /// Waits until `ready`; false at once if no variable takes part.
    ///
    /// # Safety
    /// As [`Group::members`].
    unsafe fn wait(&self, s: &Runtime, mut ready: impl FnMut() -> bool) -> bool {
        // SAFETY: the caller's array has as many values as there are variables.
        if unsafe { self.members().next() }.is_none() {
            return false;
        }
        if !ready() {
            check(s, self.name, self.ivars);
            let what = || format!("{}: {} variables at {:p}", self.name, self.nelems, self.ivars);
            let all = self.nelems.saturating_mul(size_of::<T>());
            ok(self.name, None, s.job.wait_at((self.ivars.cast(), all), ready, &what));
        }
        true
    }
}

/// # Safety
/// The arrays hold `nelems` elements; `status` may be null.
pub(crate) unsafe fn until_all<T: Waitable>(
    name: Name,
    ivars: *mut T,
    nelems: usize,
    status: *const int,
    cmp: int,
    values: Values<T>,
) {
    let g = Group { name, ivars, nelems, status, cmp, values };
    // SAFETY: the caller's contract.
    call(name, |s, _| g.noted(s, Answer::WAITED), |s| unsafe { g.wait(s, || g.all()) });
}

/// # Safety
/// As [`until_all`].
pub(crate) unsafe fn until_any<T: Waitable>(
    name: Name,
    ivars: *mut T,
    nelems: usize,
    status: *const int,
    cmp: int,
    values: Values<T>,
) -> usize {
    let g = Group { name, ivars, nelems, status, cmp, values };
    let found = call(
        name,
        |s, _| g.noted(s, Answer::WAITED),
        |s| {
            let mut found = None;
            // SAFETY: the caller's contract.
            unsafe {
                g.wait(s, || {
                    found = g.first();
                    found.is_some()
                })
            };
            found
        },
    );
    found.unwrap_or(usize::MAX)
}

/// # Safety
/// As [`until_all`], and `indices` has room for `nelems`.
pub(crate) unsafe fn until_some<T: Waitable>(
    name: Name,
    ivars: *mut T,
    nelems: usize,
    indices: *mut usize,
    status: *const int,
    cmp: int,
    values: Values<T>,
) -> usize {
    let g = Group { name, ivars, nelems, status, cmp, values };
    // SAFETY: the caller's contract.
    let body = |s| unsafe { if g.wait(s, || g.first().is_some()) { g.collect(indices) } else { 0 } };
    call(name, |s, _| g.noted(s, Answer::WAITED), body)
}

/// # Safety
/// As [`until_all`].
pub(crate) unsafe fn test_all<T: Waitable>(
    name: Name,
    ivars: *mut T,
    nelems: usize,
    status: *const int,
    cmp: int,
    values: Values<T>,
) -> int {
    let g = Group { name, ivars, nelems, status, cmp, values };
    let found = call(
        name,
        |s, &found| g.noted(s, Answer::tested(found)),
        |s| {
            look(s);
            // SAFETY: the caller's contract.
            tested(s, unsafe { g.all() })
        },
    );
    found as int
}

/// # Safety
/// As [`until_all`].
pub(crate) unsafe fn test_any<T: Waitable>(
    name: Name,
    ivars: *mut T,
    nelems: usize,
    status: *const int,
    cmp: int,
    values: Values<T>,
) -> usize {
    let g = Group { name, ivars, nelems, status, cmp, values };
    let noted = |s: &Runtime, found: &Option<usize>| g.noted(s, Answer::tested(found.is_some()));
    let found = call(name, noted, |s| {
        look(s);
        // SAFETY: the caller's contract.
        let found = unsafe { g.first() };
        tested(s, found.is_some());
        found
    });
    found.unwrap_or(usize::MAX)
}

/// # Safety
/// As [`until_some`].
pub(crate) unsafe fn test_some<T: Waitable>(
    name: Name,
    ivars: *mut T,
    nelems: usize,
    indices: *mut usize,
    status: *const int,
    cmp: int,
    values: Values<T>,
) -> usize {
    let g = Group { name, ivars, nelems, status, cmp, values };
    call(
        name,
        |s, &found| g.noted(s, Answer::tested(found > 0)),
        |s| {
            look(s);
            // SAFETY: the caller's contract.
            let found = unsafe { g.collect(indices) };
            tested(s, found > 0);
            found
        },
    )
}

/// # Safety
/// `sig_addr` points to a live word.
pub(crate) unsafe fn signal_fetch(name: Name, sig_addr: *const u64) -> u64 {
    // The fetch is noted as a test for the value it saw.
    let noted =
        |s: &Runtime, seen: &u64| waited(s, sig_addr.cast(), 1, u64::comparison(CMP_EQ, *seen), Answer::tested(true));
    call(name, noted, |s| {
        look(s);
        // SAFETY: the caller's contract.
        unsafe { order::read(sig_addr) }
    })
}

/// Waits as [`until`] and returns the value that satisfied the comparison.
///
/// # Safety
/// As [`until`].
pub(crate) unsafe fn signal_until(name: Name, sig_addr: *mut u64, cmp: int, value: u64) -> u64 {
    let noted = |s: &Runtime, _: &u64| waited(s, sig_addr.cast(), 1, u64::comparison(cmp, value), Answer::WAITED);
    call(name, noted, |s| {
        let mut seen = 0;
        let mut ready = || {
            let come = |now| {
                seen = now;
                holds(name, now, cmp, value)
            };
            // SAFETY: the caller's contract.
            unsafe { order::seen(sig_addr, come) }
        };
        if !ready() {
            check(s, name, sig_addr);
            let what = || format!("{name}: the signal at {sig_addr:p} {} {value}", sign(cmp));
            ok(name, None, s.job.wait_word(sig_addr.cast(), u64::comparison(cmp, value), ready, &what));
        }
        seen
    })
}
