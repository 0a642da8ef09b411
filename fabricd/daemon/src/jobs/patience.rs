//! PEs in virtual time that keep the others waiting: the data plane loses patience, and they are asked where they are.

use super::job::{Attached, PeState};
use crate::ask::{ask, tell};
use crate::daemon::Daemon;
use angara_abi::JobId;
use angara_abi::clock::{ClockPage, WHERE_SIGNAL};
use angara_plane::{Command, PeMemory, Turn};
use angara_protocol::absence::{Absence, CodeFrame, code_frames, process_state};
use angara_protocol::msg::Event;
use rustix::process::{Signal, pidfd_send_signal};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Looks at the PE that runs, within the time for which it may.
const LOOKS: u32 = 16;
/// Between two of them.
const LOOK: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How long a PE may take to say where it is.
const ANSWER: Duration = Duration::from_millis(500);

impl Daemon {
    /// Looks again and again whether a PE keeps the others waiting, for ever.
    pub(crate) async fn watch_patience(self: Rc<Self>, limit: Duration) {
        let mut looks = tokio::time::interval((limit / LOOKS).clamp(LOOK.0, LOOK.1));
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            tell(&self.data, Command::CheckPatience);
        }
    }

    /// Asks a PE that keeps the others waiting where it is, has them go on without it and says so.
    pub(crate) async fn lose_patience(self: Rc<Self>, job: JobId, memory: Arc<PeMemory>, turn: Turn, waited: Duration) {
        let attached = self.jobs.table.borrow().get(&job).and_then(|j| match j.pes.get(memory.pe) {
            Some(PeState::Attached(attached)) => Some(attached.clone()),
            _ => None,
        });
        let (mut asleep, mut frames) = (false, Vec::new());
        if let (Some(attached), Some(clock)) = (attached, &memory.clock) {
            asleep = process_state(attached.pid).is_some_and(|state| state != 'R');
            frames = where_is(&attached, clock).await;
        }
        if !ask(&self.data, |reply| Command::GoOnWithout(turn, reply)).await.unwrap_or(false) {
            return;
        }
        let (pe, waited_ms) = (memory.pe as u32, waited.as_millis() as u64);
        if let Some(job) = self.jobs.table.borrow_mut().get_mut(&job) {
            let note = format!("the others went on without PE {pe}, which did not come back: another run may differ");
            job.note(self.users.limits(), note);
        }
        self.spread(job, Event::WentOn { job, absence: Absence { pe, waited_ms, asleep, frames } });
    }
}

/// Asks a PE where it is; nothing if it does not say so in time.
async fn where_is(attached: &Attached, clock: &ClockPage) -> Vec<CodeFrame> {
    let (before, asked) = (clock.answers(), Instant::now());
    let signal = Signal::from_named_raw(WHERE_SIGNAL);
    let (Some(process), Some(signal)) = (attached.process.as_deref(), signal) else { return Vec::new() };
    if pidfd_send_signal(process, signal).is_err() {
        return Vec::new();
    }
    while clock.answers() == before {
        if asked.elapsed() > ANSWER {
            return Vec::new();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    code_frames(attached.pid, &clock.addresses())
}
