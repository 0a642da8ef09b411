//! Symmetric arrays of `angara::pgas`: when one that all PEs reach becomes a slice of one PE, and when its memory is used again.
//!
//! What a put of another PE stores and what a slice reads are accesses of loom's own cells, which tell of two that nothing
//! orders. Words of messages are those of mailboxes: `publish` before them, acquire behind them.

use super::{check, spawn};
use crate::memory::sync::{AtomicU64, Ordering};
use crate::order::publish;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::fence;

/// An element of PE 1, and the last words of messages: 1 and 3 from PE 0, 2 and 4 from PE 1.
struct Pair {
    element: UnsafeCell<u64>,
    to: [AtomicU64; 2],
}

// SAFETY: what the models look for is that accesses to the element are ordered; loom tells if they are not.
unsafe impl Sync for Pair {}

impl Pair {
    fn new() -> Pair {
        Pair { element: UnsafeCell::new(0), to: [AtomicU64::new(0), AtomicU64::new(0)] }
    }

    fn write(&self, value: u64) {
        // SAFETY: as above.
        self.element.with_mut(|p| unsafe { *p = value });
    }

    fn read(&self) -> u64 {
        // SAFETY: as above.
        self.element.with(|p| unsafe { *p })
    }

    /// Sends a message to a PE.
    fn send(&self, to: usize, number: u64) {
        publish();
        self.to[to].store(number, Ordering::Relaxed);
    }

    /// Waits for a message, as `order` says.
    fn receive(&self, me: usize, number: u64, order: Ordering) {
        while self.to[me].load(order) < number {
            loom::thread::yield_now();
        }
    }
}

/// The agreement of two PEs: member 1 says what it has, member 0 answers.
fn agree(pair: &Pair, me: usize, round: u64, order: Ordering) {
    if me == 1 {
        pair.send(0, round);
        pair.receive(1, round, order);
    } else {
        pair.receive(0, round, order);
        pair.send(1, round);
    }
}

/// PE 0 has put to an array, which then is PE 1's alone, and later exposed again.
fn local(come: Ordering) {
    let pair = Arc::new(Pair::new());
    let other = spawn(&pair, move |pair| {
        pair.write(7); // a put, and quiet behind it
        fence(Ordering::SeqCst);
        agree(pair, 0, 1, come);
        // PE 1 has a slice now.
        agree(pair, 0, 2, come);
        assert_eq!(pair.read(), 8); // a get
    });
    agree(&pair, 1, 1, come);
    assert_eq!(pair.read(), 7);
    pair.write(8);
    agree(&pair, 1, 2, come);
    other.join().unwrap();
}

/// PE 0 has put to an array that both drop. PE 1 clears the memory for the next one, to which PE 0 puts, too.
fn used_again(barrier: bool) {
    let pair = Arc::new(Pair::new());
    let other = spawn(&pair, move |pair| {
        pair.write(7);
        fence(Ordering::SeqCst);
        agree(pair, 0, 1, Ordering::Acquire);
        if barrier {
            agree(pair, 0, 2, Ordering::Acquire);
        }
        pair.write(9);
    });
    agree(&pair, 1, 1, Ordering::Acquire);
    pair.write(0);
    if barrier {
        agree(&pair, 1, 2, Ordering::Acquire);
    }
    other.join().unwrap();
    assert_eq!(pair.read(), 9);
}

#[test]
fn a_slice_has_what_was_put_and_nobody_puts_to_it() {
    check(3, || local(Ordering::Acquire));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn an_agreement_that_is_only_looked_at_is_caught() {
    check(3, || local(Ordering::Relaxed));
}

#[test]
fn memory_is_used_again_behind_the_barrier() {
    check(3, || used_again(true));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn memory_that_is_used_again_without_a_barrier_is_caught() {
    check(3, || used_again(false));
}

/// An array becomes a slice although the other PE has not given it up.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_slice_without_an_agreement_is_caught() {
    check(3, || {
        let pair = Arc::new(Pair::new());
        let other = spawn(&pair, |pair| pair.write(7));
        pair.read();
        other.join().unwrap();
    });
}
