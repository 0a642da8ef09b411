//! How time passes on a chip, whatever sits above it.

use super::events::Event;
use crate::chip::state::Chip;
use crate::types::Tick;

/// A network on a chip: it sees to events and hears what the chip has noticed.
pub(crate) trait Network {
    fn chip(&mut self) -> &mut Chip;
    /// Sees to an event whose time has come.
    fn handle_event(&mut self, event: Event);
    /// Hears what the chip has noticed.
    fn hear(&mut self);
    /// True if an event waits for memory, so that no later one may be seen to.
    fn must_stop(&self) -> bool;

    /// Handles all events of one tick: updates, then decisions in order of node, until none is left. False if it `STOPS`
    /// because the network must: what is left of the tick comes behind that.
    #[inline(always)]
    fn pass_tick<const STOPS: bool>(&mut self, time: Tick) -> bool {
        self.chip().now = time;
        loop {
            while let Some(event) = self.chip().events.pop_at(time) {
                self.chip().handled += 1;
                self.handle_event(event);
                if STOPS && self.must_stop() {
                    return false;
                }
            }
            let decided = self.chip().decide_all();
            if !self.chip().notices.is_empty() {
                self.hear();
            }
            if !decided {
                return true;
            }
        }
    }
}
