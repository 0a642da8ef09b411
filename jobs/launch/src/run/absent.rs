//! What another run may do otherwise, in virtual time: PEs without which the others went on, and times that rest on a guess.

use super::place::Place;
use angara_control::code;
use angara_protocol::absence::Absence;
use angara_protocol::doubts;
use angara_protocol::msg::Event;
use angara_protocol::print::show_pes;
use std::time::Duration;

/// What a run says last that went on without some.
pub const WENT_ON: &str = "angara: this run went on without";
/// What a line begins with that says why times rest on a guess.
pub const IN_DOUBT: &str = "angara: doubtful:";

/// Those of a job.
#[derive(Default)]
pub struct Absent(Vec<u32>);

impl Absent {
    /// Names one, and its line.
    pub async fn tell(&mut self, absence: Absence) {
        let Absence { pe, waited_ms, asleep, frames } = absence;
        let does = if asleep { "sleeps" } else { "computes" };
        let place = code::place(&frames).await.map_or(String::new(), |place| format!(" at {place}"));
        let waited = Duration::from_millis(waited_ms).as_secs_f64();
        angara_protocol::complain!(
            "angara: PE {pe} {does}{place} and has not called the library for {waited:.1} s; the others go on without it, \
             so another run may differ (--patience)"
        );
        self.0.push(pe);
    }
}

impl Place {
    /// At the end: says that another run may differ, or that times rest on a guess. True if so.
    pub(super) async fn tell_doubts(&mut self) -> bool {
        // What the daemon said before its answer is known then.
        let Ok(status) = self.control.status().await else { return !self.absent.0.is_empty() };
        while let Some(event) = self.control.known_event() {
            if let Event::WentOn { absence, .. } = event {
                self.absent.tell(absence).await;
            }
        }
        if !self.absent.0.is_empty() {
            let pes = show_pes(&self.absent.0);
            angara_protocol::complain!("{WENT_ON} {pes} for a time: another one may differ");
        }
        let doubts = doubts::lines(&status.virtual_time.map_or_else(Vec::new, |time| time.doubted));
        doubts.iter().for_each(|line| angara_protocol::complain!("{IN_DOUBT} {line}"));
        !self.absent.0.is_empty() || !doubts.is_empty()
    }
}
