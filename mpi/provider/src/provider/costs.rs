//! What sending takes, where time is virtual.

use super::here::Here;
use crate::wire::HEAD_MAX;

#[derive(Default)]
pub(super) struct Costs {
    /// The next message to be sent has cost what it costs, and waits for room.
    has_paid: bool,
    /// It begins no earlier than this.
    gap_ends: u64,
}

impl Costs {
    /// What the library takes to send N bytes passes, once for each message.
    #[inline]
    pub(super) fn pay_to_send(&mut self, here: &Here, len: usize) {
        let adapter = here.adapter();
        if let Some(costs) = adapter.mpi_costs().filter(|_| !self.has_paid) {
            let now = adapter.virtual_now().unwrap_or(0);
            let copy = if len + HEAD_MAX > here.eager_max { 0 } else { costs.copying(len) };
            adapter.takes(self.gap_ends.saturating_sub(now) + costs.send + copy);
            self.gap_ends = now.max(self.gap_ends) + costs.gap;
            self.has_paid = true;
        }
    }

    #[inline]
    pub(super) fn has_sent(&mut self) {
        self.has_paid = false;
    }
}
