//! Waits and tests for one word or several, and signals that are fetched.

use super::shared::{looked, nothing, put, seen};
use super::{check, spawn};
use crate::memory::sync::{AtomicU64, Ordering};
use crate::order::{self, Watched, between_puts};
use loom::sync::Arc;

#[derive(Default)]
struct Words {
    data: [AtomicU64; 2],
    flags: [AtomicU64; 2],
    signal: AtomicU64,
}

/// A test of one word has failed, and says nothing of another one, which is found by `come` before it or by `again` after.
fn failed_test(come: fn(&AtomicU64) -> bool, again: fn(&AtomicU64) -> bool) {
    check(3, move || {
        let words = Arc::new(Words::default());
        let writer = spawn(&words, |words| {
            put(&words.data[0]);
            between_puts();
            put(&words.flags[0]);
        });
        let first = come(&words.flags[0]);
        if !seen(&words.flags[1]) && (first || again(&words.flags[0])) {
            assert!(looked(&words.data[0]), "a test that failed was relied on");
        }
        writer.join().expect("writer");
    });
}

/// Two PEs put data and a flag each; one waits for both flags by `come`.
fn both(come: fn(&AtomicU64) -> bool) {
    check(3, move || {
        let words = Arc::new(Words::default());
        let writers: Vec<_> = (0..2)
            .map(|pe| {
                spawn(&words, move |words| {
                    put(&words.data[pe]);
                    between_puts();
                    put(&words.flags[pe]);
                })
            })
            .collect();
        if words.flags.iter().all(come) {
            assert!(words.data.iter().all(looked), "one of both is not there");
        }
        for writer in writers {
            writer.join().expect("writer");
        }
    });
}

/// A PE puts data twice and counts them in a signal; another one fetches it by `fetch`.
fn signal(fence: fn(), fetch: unsafe fn(*const AtomicU64) -> u64) {
    check(3, move || {
        let words = Arc::new(Words::default());
        let writer = spawn(&words, move |words| {
            for (data, count) in words.data.iter().zip(1..) {
                put(data);
                fence();
                words.signal.store(count, Ordering::Relaxed);
            }
        });
        // SAFETY: a live word.
        let count = unsafe { fetch(&raw const words.signal) };
        assert!(words.data.iter().take(count as usize).all(looked), "the signal counts what is not there");
        writer.join().expect("writer");
    });
}

#[test]
fn a_word_found_after_a_failed_test_is_seen_itself() {
    failed_test(seen, seen);
}

#[test]
#[should_panic(expected = "relied on")]
fn a_failed_test_of_another_word_is_no_barrier() {
    failed_test(looked, |_| false);
}

#[test]
#[should_panic(expected = "relied on")]
fn a_test_that_failed_says_nothing_of_a_later_look() {
    failed_test(seen, looked);
}

#[test]
fn a_wait_for_several_words_sees_the_data_of_all() {
    both(seen);
}

#[test]
#[should_panic(expected = "one of both")]
fn words_that_are_only_looked_at_are_caught() {
    both(looked);
}

#[test]
fn whoever_fetches_a_signal_sees_all_that_it_counts() {
    signal(between_puts, order::read);
}

#[test]
#[should_panic(expected = "the signal counts")]
fn a_signal_that_is_only_looked_at_is_caught() {
    signal(between_puts, Watched::look);
}

#[test]
#[should_panic(expected = "the signal counts")]
fn a_signal_put_without_a_fence_is_caught() {
    signal(nothing, order::read);
}
