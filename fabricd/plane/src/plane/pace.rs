//! The network's time beside the clock on the wall.

use crate::config::Clock;
use angara_fabric::{Fabric, Tick};
use std::time::{Duration, Instant};

/// While links are slow, the network's time runs no faster than the clock on the wall: it was then, and that.
#[derive(Default)]
pub(crate) struct Pace(Option<(Instant, Tick)>);

impl Pace {
    /// How far the network's time may go, if not as far as it likes.
    pub(crate) fn until(&mut self, fabric: &Fabric, clock: Clock) -> Option<Tick> {
        if !fabric.is_slow() {
            self.0 = None;
            return None;
        }
        let (began, at) = *self.0.get_or_insert_with(|| (clock(), fabric.now()));
        Some(at + clock().saturating_duration_since(began).as_nanos() as Tick * 1000)
    }

    /// How long the network has nothing to do because it waits for the clock on the wall.
    pub(crate) fn pause(&self, fabric: &Fabric, clock: Clock) -> Option<Duration> {
        let ((began, at), next) = (self.0?, fabric.poll_timeout()?);
        let due = Duration::from_nanos(next.saturating_sub(at).div_ceil(1000));
        Some(due.saturating_sub(clock().saturating_duration_since(began)))
    }
}
