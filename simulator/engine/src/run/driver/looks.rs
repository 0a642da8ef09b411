//! When a run ends, and whether the network carried its load: decided at looks that become rarer.

use super::{DriverState, OUTSTANDING_MAX};
use crate::run::balance::Overload;
use crate::run::outcome::Outcome;
use crate::run::stats::{Batches, FINE, Interval};
use crate::run::verdict::{GROWTH_PARTS, Growth};

/// Cycles before saturation by growth is concluded.
const CYCLES_MIN: u64 = 2000;
/// Cycles a saturated network warms up and is measured at least: what it accepts falls for a while,
/// until its unfairness has spread.
pub(super) const SATURATED_MIN: u64 = 5000;
/// Between two attempts to end, a run becomes longer by this factor: the more often one looks, the
/// likelier the interval is narrow by chance.
const LOOK_AGAIN: f64 = 1.2;
/// Latencies that are to go by at all nodes together: near the knee of a network what rarely happens at one of them makes
/// a part of the mean, and before it has happened the fluctuations seem small.
const SIGHT: f64 = 64_000.0;
/// Looks count from when this share of the time measured was.
const REMEMBERED: f64 = 0.25;

impl DriverState<'_> {
    /// Looks whether enough has been measured.
    pub(super) fn look(&mut self) {
        let pushed = self.record.batches.pushed();
        self.next_look = (pushed as f64 * LOOK_AGAIN) as usize + 1;
        let overload = self.overload();
        if let Some(sure) = overload.filter(|overload| overload.is_port() && overload.sure()) {
            // Later sources may be held back, and ask for less.
            self.overload.get_or_insert(sure);
        }
        let growth = self.growth().filter(|_| self.cycle >= CYCLES_MIN);
        let sure = self.overload.is_some() || overload.is_some_and(|overload| overload.sure());
        self.saturated = sure || growth.is_some_and(|growth| growth.saturates());
        if self.settled.is_none() {
            return;
        }
        let measured = self.record.batches.after(self.skipped());
        let cycles = self.cycle - self.measured_from();
        if self.saturated {
            let warm = self.experiment.schedule.warmup.is_some() || self.measured_from() >= SATURATED_MIN;
            self.enough = warm && cycles >= SATURATED_MIN && measured.pushed() >= GROWTH_PARTS;
            return;
        }
        self.enough = false;
        let Some(Interval { half_width, .. }) = measured.latency() else { return };
        if self.experiment.schedule.measure.is_none() {
            self.looks.push((measured.pushed(), half_width));
        }
        self.last = self.interval(&measured);
        let Some(interval) = self.last else { return };
        // A window shorter than a few latencies would see the fast messages of its beginning only.
        let latencies = cycles as f64 * self.network.cycle() as f64 / interval.mean;
        let long =
            latencies > 5.0 && latencies * self.experiment.placement.len() as f64 > SIGHT && measured.pushed() >= FINE;
        let narrow = interval.half_width <= self.experiment.schedule.precision * interval.mean;
        let carried = overload.is_none() && growth.is_some_and(|growth| growth.is_none());
        self.enough = long && interval.reliable() && carried && narrow;
    }

    /// The mean latency of these batches and its interval. A run that ends when its interval is narrow enough ends when it is so by
    /// chance, too, in particular before rare congestion comes again. So what fluctuation was once seen is not forgotten:
    /// the half-width is the largest that any look of late says the time measured since would have.
    pub(super) fn interval(&self, batches: &Batches) -> Option<Interval> {
        let now = batches.pushed() as f64;
        let late = self
            .looks
            .iter()
            .map(|&(at, half_width)| (at as f64, half_width))
            .filter(|(at, _)| *at >= REMEMBERED * now);
        let remembered = late.map(|(at, half_width)| half_width * (at / now).sqrt().min(1.0)).fold(0.0, f64::max);
        batches.latency().map(|i| Interval { half_width: i.half_width.max(remembered), ..i })
    }

    /// How fast what waits becomes more: in the time measured, without the first quarter of a run whose warm-up nobody
    /// gave, as a network near its knee fills for longer than its latency seems to rise.
    pub(super) fn growth(&self) -> Option<Growth> {
        let batches = &self.record.batches;
        let skipped = match self.settled {
            Some(0) => 0,
            Some(_) => self.skipped().max(batches.pushed() / 4),
            None => batches.pushed() / 2,
        };
        Growth::of(&batches.after(skipped).parts(GROWTH_PARTS))
    }

    /// The endpoint that seems to be asked for more than it gets. Before the latency has settled, which it may never do
    /// then, all that is not the very beginning counts.
    pub(super) fn overload(&self) -> Option<Overload> {
        let marks = &self.record.marks;
        let start = match self.settled {
            Some(_) => self.start(),
            None => marks.iter().find(|start| start.batch > 0).unwrap_or_else(|| self.start()),
        };
        let from = self.record.begin + start.batch as u64 * self.batch_cycles;
        self.balance.overload(&start.accounts, self.cycle.saturating_sub(from).max(1), self.ports)
    }

    /// True if the run may end.
    pub(super) fn finished(&self) -> bool {
        let schedule = &self.experiment.schedule;
        let measured = self.cycle - self.measured_from();
        if let Some(cycles) = schedule.measure {
            return measured >= cycles;
        }
        if self.cycle >= schedule.cycles_max && measured > 0 {
            return true;
        }
        self.enough
    }

    /// Says whether the network carries its load, and what shows that it does not.
    pub(super) fn judge(&self, outcome: &mut Outcome) {
        let (overload, growth) = (self.overload(), self.growth());
        let grows = growth.filter(Growth::saturates);
        let seen = match (self.overload.or(overload.filter(Overload::sure)), grows) {
            (Some(port), _) if port.is_port() => port.to_string(),
            (_, Some(growth)) => {
                let held = if self.held {
                    format!("; a source had {OUTSTANDING_MAX} waiting and was held back")
                } else {
                    String::new()
                };
                format!("messages pile up {growth}, {} at the end{held}", self.backlog)
            }
            (Some(endpoint), None) => endpoint.to_string(),
            (None, None) => {
                let unsure = growth.filter(|growth| !growth.is_none());
                let unsure = unsure.map(|growth| format!("messages may pile up {growth}"));
                outcome.undecided = overload.map(|o| o.to_string()).or(unsure);
                return;
            }
        };
        outcome.saturated = true;
        outcome.saturated_because = Some(format!(
            "{seen}; {:.4} flits per node and cycle of the {:.4} asked for arrive; a lower load may carry more \
             (angara sim run --find-saturation), or change routing, buffers or pattern",
            outcome.accepted_flits_per_node_cycle, self.experiment.settings.load
        ));
    }
}
