//! The ring of a mailbox: what `store`, `arrived`, `visit` and `need_room` of `libangara/src/mailbox` load and store, in the
//! same order and with the same fences, on slots of two words of payload and a last word. On the ring path
//! `copy::store_ending` of the data plane stores in that order, too.
//!
//! loom lets a load return any store that was made before it. So it finds a payload that is older than its last word, and a
//! slot that is written again too early; that a load returns a store made after it, which x86-64 excludes, it never tries.
//! `credit` does, on one slot.

use super::check;
use super::shared::nothing;
use crate::memory::sync::{AtomicU32, AtomicU64, Ordering};
use crate::order::publish;
use loom::sync::Arc;

const SLOTS: u32 = 2;
const MESSAGES: u32 = 3;

/// How a run differs from what mailboxes do.
#[derive(Clone, Copy)]
struct Rules {
    /// Comes before the store of the last word, and before that of credit.
    publish: fn(),
    /// Ordering of the load of the last word.
    look: Ordering,
    /// The slot is given back before its payload has been copied out.
    credit_first: bool,
    /// The sender does not wait for credit.
    no_credit: bool,
    /// The last word of a slot that held raw bytes is cleared before it is given back.
    clear: bool,
}

const MAILBOX: Rules = Rules { publish, look: Ordering::Acquire, credit_first: false, no_credit: false, clear: true };

#[derive(Default)]
struct Slot {
    payload: [AtomicU64; 2],
    last: AtomicU64,
}

#[derive(Default)]
struct Ring {
    slots: [Slot; SLOTS as usize],
    /// Slots that the receiver has freed since the beginning.
    credit: AtomicU32,
}

impl Ring {
    fn slot(&self, position: u32) -> &Slot {
        &self.slots[(position % SLOTS) as usize]
    }

    /// Waits until N slots from `filled` on are the sender's.
    fn room(&self, rules: Rules, filled: u32, slots: u32) {
        while !rules.no_credit && filled + slots - self.credit.load(Ordering::Acquire) > SLOTS {
            loom::thread::yield_now();
        }
    }

    /// The sender's stores of a message of one slot.
    fn store(&self, rules: Rules, position: u32) {
        let slot = self.slot(position);
        for word in &slot.payload {
            word.store(payload(position), Ordering::Relaxed);
        }
        (rules.publish)();
        slot.last.store(seal(position), Ordering::Relaxed);
    }

    /// The receiver's look for the message at `position`.
    fn arrived(&self, rules: Rules, position: u32) -> bool {
        self.slot(position).last.load(rules.look) == seal(position)
    }

    /// Step of the receiver for a message that is there.
    fn take(&self, rules: Rules, position: u32) {
        if rules.credit_first {
            self.give(rules, position + 1);
        }
        for word in &self.slot(position).payload {
            assert_eq!(word.load(Ordering::Relaxed), payload(position), "message {position} is torn");
        }
        if !rules.credit_first {
            self.give(rules, position + 1);
        }
    }

    fn give(&self, rules: Rules, freed: u32) {
        (rules.publish)();
        self.credit.store(freed, Ordering::Relaxed);
    }
}

fn payload(position: u32) -> u64 {
    0x100 + u64::from(position)
}

/// The number of the slot, from 1 on.
fn seal(position: u32) -> u64 {
    u64::from(position) + 1
}

/// More short messages than the ring has slots.
fn short_messages(rules: Rules) {
    check(3, move || {
        let ring = Arc::new(Ring::default());
        let theirs = ring.clone();
        let sender = loom::thread::spawn(move || {
            for position in 0..MESSAGES {
                theirs.room(rules, position, 1);
                theirs.store(rules, position);
            }
        });
        for position in 0..MESSAGES {
            while !ring.arrived(rules, position) {
                loom::thread::yield_now();
            }
            ring.take(rules, position);
        }
        sender.join().expect("sender thread");
    });
}

/// A long message, whose raw bytes lie in slot 1 and look like the last word of the message that comes there a round later,
/// between a look for that one and its coming.
fn long_message(rules: Rules) {
    check(3, move || {
        let ring = Arc::new(Ring::default());
        let theirs = ring.clone();
        let sender = loom::thread::spawn(move || {
            theirs.slot(1).last.store(seal(3), Ordering::Relaxed);
            theirs.store(rules, 0);
            for position in 2..4 {
                theirs.room(rules, position, 1);
                theirs.store(rules, position);
            }
        });
        while !ring.arrived(rules, 0) {
            loom::thread::yield_now();
        }
        assert_eq!(ring.slot(1).last.load(Ordering::Relaxed), seal(3), "the raw bytes are torn");
        if rules.clear {
            ring.slot(1).last.store(0, Ordering::Relaxed);
        }
        ring.give(rules, 2);
        for position in 2..4 {
            while !ring.arrived(rules, position) {
                loom::thread::yield_now();
            }
            ring.take(rules, position);
        }
        sender.join().expect("sender thread");
    });
}

#[test]
fn whoever_sees_the_last_word_sees_the_message_and_no_slot_is_written_before_it_is_free() {
    short_messages(MAILBOX);
}

#[test]
fn raw_bytes_are_never_a_message() {
    long_message(MAILBOX);
}

#[test]
#[should_panic(expected = "is torn")]
fn a_last_word_stored_without_publish_is_caught() {
    short_messages(Rules { publish: nothing, ..MAILBOX });
}

#[test]
#[should_panic(expected = "is torn")]
fn a_last_word_loaded_without_acquire_is_caught() {
    short_messages(Rules { look: Ordering::Relaxed, ..MAILBOX });
}

#[test]
#[should_panic(expected = "is torn")]
fn credit_given_before_the_copy_is_caught() {
    short_messages(Rules { credit_first: true, ..MAILBOX });
}

#[test]
#[should_panic(expected = "is torn")]
fn a_sender_that_does_not_wait_for_credit_is_caught() {
    short_messages(Rules { no_credit: true, ..MAILBOX });
}

#[test]
#[should_panic(expected = "is torn")]
fn raw_bytes_that_stay_are_caught() {
    long_message(Rules { clear: false, ..MAILBOX });
}
