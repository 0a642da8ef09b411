//! What a look that found nothing does for others: it gives them the core.

use super::Provider;
use crate::process;
use std::time::{Duration, Instant};

/// After how many looks in vain at the mailbox a clock is asked whether it is time to look after peers.
const LOOKS: u32 = 64;
/// Looks that find nothing before others get the core: where there are enough cores, and where there are not.
pub(super) const SPIN: [u32; 2] = [2048, 64];
/// A yield that takes longer than a time slice has run another program, which would have the core again after each yield.
const SLICE: Duration = Duration::from_millis(1);
/// So many times after that a look in vain sleeps for so long at most: who sleeps comes at once when something comes.
const NAPS: u32 = 200;
const NAP: Duration = Duration::from_micros(200);

impl Provider {
    /// A look that found nothing: others may need this core, and peers may be gone.
    pub(super) fn nothing_came(&mut self) {
        if let Some(call) = self.state.job.adapter().blocking_call() {
            return self.waits_in_a_call(call);
        }
        self.state.job.adapter().looks_somewhere();
        self.state.idle = self.state.idle.wrapping_add(1);
        if self.state.idle >= self.state.spin {
            // A sleep would be long where a message is under way; what is in the way gets its turn.
            if self.state.by_ring || self.state.idle.is_multiple_of(16) {
                self.yields();
            }
        }
        // A look at the clock takes as long as one at the mailbox.
        if self.state.idle.is_multiple_of(LOOKS) {
            self.look_after_peers();
        }
    }

    /// Lets others have the core, among them programs that have nothing to do with this one.
    fn yields(&mut self) {
        let is_virtual = self.state.job.adapter().virtual_now().is_some();
        if self.state.naps > 0 && !is_virtual && !process::is_wanted() {
            self.state.naps -= 1;
            return self.sleep(NAP);
        }
        // A clock takes as long as a yield that finds nobody else.
        let before = self.state.idle.is_multiple_of(16).then(Instant::now);
        std::thread::yield_now();
        if before.is_some_and(|before| before.elapsed() > SLICE) {
            self.state.naps = NAPS;
        }
    }
}
