//! Who waits for whom, by the notes of PEs that wait.
//!
//! A note is the PE's own account, in words for people. Those that name PEs do so in few ways, which are read here. Whoever
//! writes something else is shown as waiting for nobody known.

use angara_protocol::msg::Wait;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// PEs that wait, in an answer: those that have waited longest.
const ROWS: usize = 2048;
/// PEs that one waits for, in an answer.
const NAMED: usize = 16;

#[derive(Serialize)]
struct Row<'w> {
    pe: u32,
    seconds: f64,
    what: &'w str,
    /// PEs that it waits for, as far as is known.
    on: Vec<u32>,
}

/// What PEs of a job wait for. `taken`: the PEs that take part.
pub(crate) fn waits_json(pes: u32, taken: &[u32], mut waits: Vec<Wait>) -> Value {
    waits.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.pe.cmp(&b.pe)));
    let late = late(taken, &waits);
    let row = |wait: &Wait| -> Value {
        let mut on = named(&wait.what, wait.pe, pes);
        if on.is_empty()
            && let Some(late) = late.get(&meeting(&wait.what))
        {
            on.clone_from(late);
        }
        json!(Row { pe: wait.pe, seconds: wait.seconds, what: &wait.what, on })
    };
    let rows: Vec<Value> = waits.iter().take(ROWS).map(row).collect();
    json!({ "pes": pes, "waiting": waits.len(), "waits": rows })
}

/// The collective call in which all PEs are waited for, if that is what a note says.
fn meeting(what: &str) -> Option<&str> {
    what.split_once("all PEs to").map(|(call, _)| call)
}

/// Who has not come to each such call: all that are not in it.
fn late<'w>(taken: &[u32], waits: &'w [Wait]) -> BTreeMap<Option<&'w str>, Vec<u32>> {
    let mut there: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for wait in waits {
        if let Some(call) = meeting(&wait.what) {
            there.entry(call).or_default().push(wait.pe);
        }
    }
    let missing = |mut there: Vec<u32>| {
        there.sort_unstable();
        taken.iter().copied().filter(|pe| there.binary_search(pe).is_err()).take(NAMED).collect()
    };
    // Many calls at once are nonsense of a PE, and each would cost a look at all.
    there.into_iter().take(NAMED).map(|(call, there)| (Some(call), missing(there))).collect()
}

/// The PEs that a note says this one waits for.
fn named(what: &str, me: u32, pes: u32) -> Vec<u32> {
    // Messages that nobody receives are not what is waited for.
    let mut rest = what.split_once("; no receive takes").map_or(what, |(what, _)| what);
    let mut found = Vec::new();
    while let Some((before, after)) =
        ["PE ", "seat "].iter().filter_map(|word| rest.split_once(word)).min_by_key(|(before, _)| before.len())
    {
        let list = before.ends_with("not attached: ");
        let (numbers, after) = numbers(after, list);
        rest = after;
        // Where a lock lies does not say who holds it.
        if before.ends_with("(home ") || before.ends_with(char::is_alphanumeric) {
            continue;
        }
        for pe in numbers.into_iter().filter(|pe| *pe < pes && *pe != me) {
            if !found.contains(&pe) {
                found.push(pe);
            }
        }
        if found.len() >= NAMED {
            found.truncate(NAMED);
            break;
        }
    }
    found
}

/// The number that a text begins with, or the list of numbers; and what follows.
fn numbers(mut text: &str, list: bool) -> (Vec<u32>, &str) {
    let mut all = Vec::new();
    loop {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, after) = text.split_at(end);
        all.extend(digits.parse::<u32>().ok());
        match after.strip_prefix(", ").filter(|more| list && more.starts_with(|c: char| c.is_ascii_digit())) {
            Some(more) => text = more,
            None => return (all, after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_say_who_is_waited_for() {
        for (what, on) in [
            ("MPI: receive from PE 3, tag 7 (0x7), up to 8 bytes; send to PE 1, tag 4 (0x4), 8 bytes", &[3, 1][..]),
            ("MPI: receive from PE 3, 4 of 8 bytes are here", &[3]),
            ("MPI: receive from anybody, tag 1 (0x1); no receive takes 8 bytes from PE 2, tag 9 (0x9)", &[]),
            ("MPI: 4 messages to seat 2, which has no room for them", &[2]),
            ("shmem_barrier_all: all PEs to enter the barrier (2 not attached: PE 4, 5)", &[4, 5]),
            ("shmem_sync: word of PE 3 (number 4)", &[3]),
            ("shmem_set_lock: the lock at 0x7f00 (home PE 3)", &[]),
            ("a get of 8 bytes from PE 5", &[5]),
            ("a message to PE 0", &[]),
            ("shmem_long_wait_until: the variable at 0x7f00 == 5 (it is 0)", &[]),
            ("PE 99 PE 4294967296 PE -1 TYPE 3 PE", &[]),
            ("PE 1 PE 1 PE 1", &[1]),
            ("PE PE seat seat é PE 2", &[2]),
        ] {
            assert_eq!(named(what, 0, 8), on, "{what}");
        }
    }

    #[test]
    fn in_a_barrier_those_are_waited_for_who_have_not_come() {
        let wait = |pe, what: &str| Wait { pe, seconds: f64::from(pe), what: what.into(), looks: 1 };
        let barrier = "shmem_barrier_all: all PEs to enter the barrier";
        let waits = vec![wait(0, barrier), wait(2, barrier), wait(3, "shmem_quiet: an answer from PE 1 (post 4)")];
        let said = waits_json(4, &[0, 1, 2, 3], waits);
        assert_eq!(said["waits"][0]["on"], json!([1]), "{said}");
        assert_eq!((&said["waits"][1]["pe"], &said["waits"][1]["on"]), (&json!(2), &json!([1, 3])));
        assert_eq!((&said["waits"][2]["on"], &said["waiting"]), (&json!([1, 3]), &json!(3)));
        let many = (0..5000).map(|pe| wait(pe, &format!("call {pe} all PEs to"))).collect();
        let taken: Vec<u32> = (0..5000).collect();
        let said = waits_json(5000, &taken, many);
        assert_eq!((said["waits"].as_array().map(Vec::len), &said["waits"][0]["pe"]), (Some(ROWS), &json!(4999)));
    }
}
