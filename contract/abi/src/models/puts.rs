//! Puts with a fence between them, seen by one PE and through another one.

use super::shared::{looked, nothing, put, seen};
use super::{check, spawn};
use crate::memory::sync::AtomicU64;
use crate::order::{between_puts, publish};
use loom::sync::Arc;

#[derive(Default)]
struct Words {
    data: AtomicU64,
    flag: AtomicU64,
    /// Flag of the PE in the middle.
    passed: AtomicU64,
}

/// A PE puts data, fences and puts a flag; another one finds the flag by `come`.
fn flag(fence: fn(), come: fn(&AtomicU64) -> bool) {
    check(3, move || {
        let words = Arc::new(Words::default());
        let writer = spawn(&words, move |words| {
            put(&words.data);
            fence();
            put(&words.flag);
        });
        if come(&words.flag) {
            assert!(looked(&words.data), "the flag came before its data");
        }
        writer.join().expect("writer");
    });
}

/// Between both is a PE that finds the flag by `come`, fences by `again` and puts a flag of its own.
fn chain(fence: fn(), come: fn(&AtomicU64) -> bool, again: fn()) {
    check(3, move || {
        let words = Arc::new(Words::default());
        let writer = spawn(&words, move |words| {
            put(&words.data);
            fence();
            put(&words.flag);
        });
        let middle = spawn(&words, move |words| {
            if come(&words.flag) {
                again();
                put(&words.passed);
            }
        });
        if seen(&words.passed) {
            assert!(looked(&words.flag), "what the middle had seen is not there");
            assert!(looked(&words.data), "the flag of the middle came before the data");
        }
        writer.join().expect("writer");
        middle.join().expect("middle");
    });
}

#[test]
fn whoever_sees_the_flag_sees_its_data() {
    flag(between_puts, seen);
}

#[test]
#[should_panic(expected = "came before its data")]
fn puts_without_a_fence_are_caught() {
    flag(nothing, seen);
}

#[test]
#[should_panic(expected = "came before its data")]
fn a_flag_that_is_only_looked_at_is_caught() {
    flag(between_puts, looked);
}

#[test]
fn whoever_sees_the_flag_of_the_middle_sees_what_the_middle_has_seen() {
    chain(between_puts, seen, between_puts);
}

#[test]
fn a_fence_orders_what_was_only_looked_at_before_later_puts() {
    chain(between_puts, looked, between_puts);
}

#[test]
fn the_library_s_own_words_are_passed_on_by_publish() {
    chain(publish, seen, publish);
}

#[test]
#[should_panic(expected = "is not there")]
fn a_middle_that_does_not_fence_is_caught() {
    chain(between_puts, seen, nothing);
}

#[test]
#[should_panic(expected = "came before the data")]
fn a_writer_that_does_not_fence_is_caught_behind_the_middle() {
    chain(nothing, seen, between_puts);
}

#[test]
#[should_panic(expected = "came before the data")]
fn a_fence_that_orders_only_what_the_middle_did_itself_is_caught() {
    chain(between_puts, looked, publish);
}
