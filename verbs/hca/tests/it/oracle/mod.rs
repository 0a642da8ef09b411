//! Random programs of several adapters, and what they may see of their requests: in any order of progress, with processes
//! that are lost, queue pairs that are reset, regions that go away.
//!
//! `HCA_SCHEDULES=10000 cargo test -p angara-hca oracle::` runs more; `HCA_SEED=… HCA_SCHEDULES=1` one again.

mod model;
mod program;
pub(crate) mod rng;
mod troubles;

use program::Program;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Seeds of this run: so many unless told otherwise.
pub(crate) fn seeds(unless_told: u64) -> std::ops::Range<u64> {
    let first = number("HCA_SEED", 1);
    first..first + number("HCA_SCHEDULES", unless_told)
}

fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().map_or(or, |text| text.parse().expect("a number"))
}

#[test]
fn programs_see_what_the_specification_promises() {
    for seed in seeds(200) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| Program::new(seed).run())) {
            eprintln!(
                "schedule {seed} failed; again: HCA_SEED={seed} HCA_SCHEDULES=1 cargo test -p angara-hca oracle::"
            );
            resume_unwind(panic);
        }
    }
}
