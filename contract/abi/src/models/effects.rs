//! What the daemon writes for PEs: packets, the last of which may be a flag, and completion words.
//!
//! `Mapping::write` and `Mapping::write_ending` need memory that loom does not know. Here are their stores and fences.

use super::shared::{acquired, looked, nothing, put, seen};
use super::{check, spawn};
use crate::memory::sync::AtomicU64;
use crate::order::{between_puts, publish};
use loom::sync::Arc;

#[derive(Default)]
struct Words {
    /// Two words of a packet.
    data: [AtomicU64; 2],
    flag: AtomicU64,
    /// Completion word of the origin.
    completion: AtomicU64,
}

/// `Mapping::write` of one word, with its fence.
fn write(publish: fn(), word: &AtomicU64) {
    publish();
    put(word);
}

/// `Mapping::write_ending` of a packet, with its fence.
fn write_ending(publish: fn(), [body, last]: &[AtomicU64; 2]) {
    publish();
    put(body);
    publish();
    put(last);
}

/// The daemon writes a packet of data and one with a flag, which a PE finds by `come`.
fn packets(publish: fn(), come: fn(&AtomicU64) -> bool) {
    check(3, move || {
        let words = Arc::new(Words::default());
        let daemon = spawn(&words, move |words| {
            write_ending(publish, &words.data);
            write(publish, &words.flag);
        });
        if come(&words.flag) {
            assert!(words.data.iter().all(looked), "the flag came before its data");
        }
        daemon.join().expect("daemon");
    });
}

/// A PE finds the last word of a packet, as mailboxes do.
fn packet(publish: fn()) {
    check(3, move || {
        let words = Arc::new(Words::default());
        let daemon = spawn(&words, move |words| write_ending(publish, &words.data));
        if acquired(&words.data[1]) {
            assert!(looked(&words.data[0]), "the last word came first");
        }
        daemon.join().expect("daemon");
    });
}

/// The daemon writes data for a target and a completion word for the origin. The origin finds that by `come` and puts a flag
/// to the target itself, on the direct path.
fn completion(publish: fn(), come: fn(&AtomicU64) -> bool) {
    check(3, move || {
        let words = Arc::new(Words::default());
        let daemon = spawn(&words, move |words| {
            write_ending(publish, &words.data);
            write(publish, &words.completion);
        });
        let origin = spawn(&words, move |words| {
            if come(&words.completion) {
                between_puts();
                put(&words.flag);
            }
        });
        if seen(&words.flag) {
            assert!(words.data.iter().all(looked), "what is complete is not there");
        }
        daemon.join().expect("daemon");
        origin.join().expect("origin");
    });
}

#[test]
fn whoever_sees_a_flag_of_the_daemon_sees_the_packets_before_it() {
    packets(publish, seen);
}

#[test]
fn whoever_sees_the_last_word_of_a_packet_sees_the_packet() {
    packet(publish);
}

#[test]
fn what_is_complete_is_seen_by_whoever_the_origin_tells() {
    completion(publish, acquired);
}

#[test]
#[should_panic(expected = "came before its data")]
fn packets_written_without_publish_are_caught() {
    packets(nothing, seen);
}

#[test]
#[should_panic(expected = "came before its data")]
fn a_flag_of_the_daemon_that_is_only_looked_at_is_caught() {
    packets(publish, looked);
}

#[test]
#[should_panic(expected = "came first")]
fn a_last_word_without_publish_is_caught() {
    packet(nothing);
}

#[test]
#[should_panic(expected = "is not there")]
fn a_completion_word_without_publish_is_caught() {
    completion(nothing, acquired);
}
