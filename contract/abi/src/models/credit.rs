//! Loads before stores: a slot of a mailbox that is read, cleared and given back, and data that is read and answered.
//!
//! The reader must not get what the sender writes after it has seen the credit. loom never returns a store that is made later,
//! so these are models of [`super::reordered`].

use super::reordered::{Word, ends};
use super::shared::nothing;
use crate::order::{self, Watched, between_puts, publish};

const PAYLOAD: Word = Word::new(0);
/// Last word of the slot; 1 says that the first message is there, 2 the second.
const LAST: Word = Word::new(1);
const CREDIT: Word = Word::new(2);

fn look(word: &Word) -> u64 {
    // SAFETY: a live word.
    unsafe { Watched::look(word) }
}

fn looked(word: &Word) {
    look(word);
}

fn seen(word: &Word) {
    // SAFETY: a live word.
    assert!(unsafe { order::seen(word, |_| true) });
}

/// The first message is in the slot. The receiver takes it and gives credit behind `publish`; the sender finds that by `come`
/// and writes the second one. Returns what the receiver may have read, and what the slot may hold in the end.
fn slot(publish: fn(), come: fn(&Word)) -> Vec<(u64, [u64; 2])> {
    let receiver = || {
        LAST.wanted(1).acquire();
        look(&PAYLOAD);
        LAST.set(0);
        publish();
        CREDIT.set(1);
    };
    let sender = || {
        come(&CREDIT.wanted(1));
        PAYLOAD.set(2);
        order::publish();
        LAST.set(2);
    };
    let ends = ends(&[1, 1, 0], &[&receiver, &sender]);
    ends.into_iter().map(|(read, memory)| (read[0], [memory[0], memory[1]])).collect()
}

/// A PE reads data, and puts a flag behind `fence`; another one finds the flag by `come` and writes the data anew. Returns what
/// the first may have read.
fn answered(fence: fn(), come: fn(&Word)) -> Vec<u64> {
    let (data, flag) = (Word::new(0), Word::new(1));
    let reader = || {
        look(&data);
        fence();
        flag.set(1);
    };
    let writer = || {
        come(&flag.wanted(1));
        data.set(2);
    };
    ends(&[1, 0], &[&reader, &writer]).into_iter().map(|(read, _)| read[0]).collect()
}

#[test]
fn no_message_is_read_that_was_written_after_its_slot_was_given_back() {
    assert_eq!(slot(publish, Word::acquire), [(1, [2, 2])]);
}

#[test]
fn credit_given_without_publish_is_caught() {
    let found = slot(nothing, Word::acquire);
    assert!(found.contains(&(2, [2, 2])), "the second message is read as the first: {found:?}");
    assert!(found.contains(&(1, [2, 0])), "the second message is cleared: {found:?}");
}

#[test]
fn credit_that_is_only_looked_at_is_caught() {
    let found = slot(publish, looked);
    assert!(found.contains(&(2, [2, 2])), "{found:?}");
}

#[test]
fn what_is_read_before_a_fence_is_older_than_what_is_put_in_answer() {
    assert_eq!(answered(between_puts, seen), [1]);
    assert_eq!(answered(publish, seen), [1]);
}

#[test]
fn an_answer_to_a_read_without_a_fence_or_a_wait_is_caught() {
    assert_eq!(answered(nothing, seen), [1, 2]);
    assert_eq!(answered(between_puts, looked), [1, 2]);
}
