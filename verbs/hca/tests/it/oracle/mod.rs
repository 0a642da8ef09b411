//! Random programs of several adapters, and what they may see of their requests: in any order of progress, with processes
//! that are lost, queue pairs that are reset, regions that go away.
//!
//! `HCA_SCHEDULES=10000 cargo test -p angara-hca oracle::` runs more; `HCA_SEED=… HCA_SCHEDULES=1` one again.

mod model;
mod program;
mod rng;
mod troubles;

use program::Program;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().map_or(or, |text| text.parse().expect("a number"))
}

#[test]
fn programs_see_what_the_specification_promises() {
    let first = number("HCA_SEED", 1);
    for seed in first..first + number("HCA_SCHEDULES", 300) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| Program::new(seed).run())) {
            eprintln!(
                "schedule {seed} failed; again: HCA_SEED={seed} HCA_SCHEDULES=1 cargo test -p angara-hca oracle::"
            );
            resume_unwind(panic);
        }
    }
}
