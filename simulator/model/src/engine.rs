//! Interface of every kind of simulated network.

use crate::waits::Waits;
use angara_fabric::raw::{Delivery, Inconsistent, Injection, LinkLoad, Lost, Totals, TraceEvent};
use angara_fabric::{Heard, Tick};

/// The engine behind a network: one implementation per profile and topology, called coarsely.
pub(crate) trait Engine: Send {
    fn inject(&mut self, packet: Injection);
    /// Processes every event at or before `to`, then sets the time to `to`.
    fn advance(&mut self, to: Tick);
    fn now(&self) -> Tick;
    /// When the next event is due; it may be earlier than anything visible.
    fn next_event(&self) -> Option<Tick>;
    fn deliveries(&mut self) -> &mut std::collections::VecDeque<Delivery>;
    /// The next packet that was dropped.
    fn lost(&mut self) -> Option<Lost> {
        None
    }
    fn counters(&self) -> Totals;
    /// Returns what happened to traced packets since the last call.
    fn take_trace(&mut self) -> Vec<TraceEvent> {
        Vec::new()
    }
    /// Begins or ceases to tell what happens to packets. Returns whether it can.
    fn listen(&mut self, _on: bool) -> bool {
        false
    }
    /// Returns what has happened to packets since the last call, in order of time.
    fn heard(&mut self) -> Vec<Heard> {
        Vec::new()
    }
    /// Begins to count what leaves through every port.
    fn count_links(&mut self) {}
    fn link_load(&self, _router: u32, _port: u8) -> LinkLoad {
        LinkLoad::default()
    }
    /// Begins to count how long packets wait at every output. Returns whether it can.
    fn count_waits(&mut self) -> bool {
        false
    }
    fn waits(&self, _router: u32, _port: u8) -> Waits {
        Waits::default()
    }
    /// Room of the buffers behind an output that is taken: by packets in them, on the way there, or whose credits are on
    /// the way back. In the buffers' unit.
    fn occupied(&self, _router: u32, _port: u8) -> u64 {
        0
    }
    fn check_idle(&self) -> Result<(), Inconsistent>;
    fn memory_bytes(&self) -> usize;
}
