//! What another run may do otherwise, in virtual time: PEs without which the others went on, and times that rest on a guess.

use angara_control::code;
use angara_protocol::absence::Absence;
use std::time::Duration;

/// What a run says last that went on without some.
pub const WENT_ON: &str = "angara: this run went on without";
/// What a line begins with that says why times rest on a guess.
pub const IN_DOUBT: &str = "angara: doubtful:";

/// Those of a job.
#[derive(Default)]
pub struct Absent(pub(super) Vec<u32>);

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
