//! Distributed locks: first come, first served, each waiter on its own PE's memory.
//!
//! A lock is a symmetric `long`, 0 when free. Its low half at the *home* PE (chosen by address)
//! names the last PE in the queue, plus one. The high half at each PE is that PE's place in the
//! queue: bit 31 "waiting", the rest the PE behind it, plus one. Taking the lock swaps oneself in
//! as last; if there was someone, one links oneself behind and waits on one's own word. Releasing
//! swaps the home word back to 0 if nobody came, else clears the waiting bit of the next PE.

use super::record::call;
use super::{Runtime, die, ok, rma::aligned};
use crate::ctypes::*;
use angara::{Amo, AmoOp, Class, Place};
use angara_protocol::calls::Action;
use std::sync::atomic::{AtomicU32, Ordering};

const WAITING: u32 = 1 << 31;

struct Lock<'a> {
    s: &'a Runtime,
    name: Name,
    home: usize,
    tail: Place,
    node: Place,
    /// My place in the queue.
    own: &'a AtomicU32,
}

impl<'a> Lock<'a> {
    /// # Safety
    /// `lock` points to a live `long`.
    unsafe fn at(s: &'a Runtime, name: Name, lock: *mut long) -> Lock<'a> {
        let tail = aligned(s, name, lock.cast(), 8, true);
        // Neighbouring locks get different homes.
        let home = (tail.offset as usize / 8) % s.n;
        // SAFETY: the high half of an aligned 8-byte word that peers access as 4-byte words.
        let own = unsafe { AtomicU32::from_ptr(lock.cast::<u32>().add(1)) };
        Lock { s, name, home, tail, node: Place { offset: tail.offset + 4, ..tail }, own }
    }

    fn amo(&self, pe: usize, at: Place, op: AmoOp, operand: u32, comparand: u32, fetch: bool) -> u32 {
        let result = self.s.job.ctx().amo(
            Class::Sync,
            pe,
            at,
            Amo { op, width: 4, operand: operand as u64, comparand: comparand as u64, fetch },
        );
        ok(self.name, Some(pe), result) as u32
    }

    fn me(&self) -> u32 {
        self.s.me as u32 + 1
    }

    fn wait(&self, ready: impl FnMut() -> bool, what: &str) {
        let name = self.name;
        let what = || format!("{name}: {what} (home PE {})", self.home);
        ok(name, None, self.s.job.wait_at((self.own.as_ptr().cast(), 4), ready, &what));
    }

    fn set(&self) {
        self.own.store(WAITING, Ordering::SeqCst);
        let before = self.amo(self.home, self.tail, AmoOp::Swap, self.me(), 0, true);
        if before == 0 {
            self.own.fetch_and(!WAITING, Ordering::SeqCst);
            return;
        }
        if before == self.me() {
            die(self.name, None, "this PE already holds the lock; waiting for itself would never end");
        }
        self.amo(before as usize - 1, self.node, AmoOp::Or, self.me(), 0, false);
        self.wait(|| self.own.load(Ordering::Acquire) & WAITING == 0, "the lock, held by another PE");
    }

    /// True if somebody else has it.
    fn test(&self) -> bool {
        // My place in the queue is empty unless I hold the lock, and then this fails.
        let taken = self.amo(self.home, self.tail, AmoOp::CompareSwap, self.me(), 0, true) != 0;
        if taken && self.s.job.geometry().crowded {
            std::thread::yield_now();
        }
        taken
    }

    fn clear(&self) {
        // Everything done under the lock must be complete before the next PE gets it.
        ok(self.name, None, self.s.job.ctx().quiet());
        let next = || self.own.load(Ordering::Acquire) & !WAITING;
        if next() == 0 {
            let last = self.amo(self.home, self.tail, AmoOp::CompareSwap, 0, self.me(), true);
            if last == self.me() {
                return;
            }
            if last == 0 {
                die(self.name, None, "the lock is not held");
            }
            self.wait(|| next() != 0, "the PE behind in the queue to link itself");
        }
        let successor = next();
        self.own.store(0, Ordering::SeqCst);
        self.amo(successor as usize - 1, self.node, AmoOp::And, !WAITING, 0, false);
    }
}

/// # Safety
/// `lock` points to a live `long`.
pub(crate) unsafe fn set(name: Name, lock: *mut long) {
    let noted = |s: &Runtime, (): &()| Action::Lock { at: s.memory(lock.cast()), taken: true };
    // SAFETY: the caller promises what the callee asks for.
    call(name, noted, |s| unsafe { Lock::at(s, name, lock) }.set());
}

/// # Safety
/// As [`set`].
pub(crate) unsafe fn test(name: Name, lock: *mut long) -> int {
    let noted = |s: &Runtime, &busy: &bool| Action::Lock { at: s.memory(lock.cast()), taken: !busy };
    // SAFETY: the caller promises what the callee asks for.
    call(name, noted, |s| unsafe { Lock::at(s, name, lock) }.test()) as int
}

/// # Safety
/// As [`set`].
pub(crate) unsafe fn clear(name: Name, lock: *mut long) {
    // SAFETY: the caller promises what the callee asks for.
    call(name, |s, ()| Action::Unlock { at: s.memory(lock.cast()) }, |s| unsafe { Lock::at(s, name, lock) }.clear());
}
