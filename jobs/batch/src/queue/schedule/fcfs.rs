//! First come, first served.

use super::{Desk, Scheduler};

/// Jobs start in the order in which they were submitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fcfs;

impl Scheduler for Fcfs {
    fn name(&self) -> &'static str {
        "fcfs"
    }

    fn pass(&mut self, desk: &mut Desk) {
        start_heads(desk);
    }
}

/// Starts jobs from the head of the queue as long as there are sets for them.
pub(super) fn start_heads(desk: &mut Desk) {
    while let Some(&head) = desk.queue().first() {
        let Some(set) = desk.find(head) else { break };
        desk.start(0, set);
    }
}
