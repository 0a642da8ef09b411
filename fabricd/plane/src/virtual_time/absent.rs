//! PEs without which the others go on, because nobody waits for them any longer.

use super::turns::Turns;
use crate::notice::Notice;
use angara_abi::clock::{ClockPage, TIME_MAX};
use angara_protocol::absence::process_state;
use std::sync::atomic::Ordering;

impl Turns<'_> {
    pub(super) fn is_anyone_absent(&self) -> bool {
        self.service.time.as_ref().is_some_and(|run| run.patience.is_anyone_absent())
    }

    /// PEs have been absent: whoever runs is looked at again soon, and is not waited for without a limit.
    #[inline]
    pub(super) fn is_in_doubt(&self) -> bool {
        self.service.time.as_ref().is_some_and(|run| run.patience.is_in_doubt())
    }

    /// Looks how long the PE has run that runs, and loses patience.
    pub(crate) fn look_at_patience(&mut self) {
        // Without a coroutine that computes nothing goes on: its host ends the job.
        if self.coroutines.is_some() {
            return;
        }
        let Some(run) = self.service.time.as_mut().filter(|run| run.begun.is_some()) else { return };
        let Some(&index) = run.running.last().filter(|_| !run.patience.asking) else { return };
        let Some(lane) = self.service.channels.lanes.get(index).filter(|lane| !lane.broken) else { return };
        let Some(clock) = lane.memory.clock.as_ref().filter(|clock| clock.stands().is_none()) else { return };
        if clock.is_late() {
            return;
        }
        // A debugger has stopped it, or the user has.
        let is_stopped = || matches!(process_state(lane.pid), Some('T' | 't'));
        let turn = (index, clock.stops().load(Ordering::Relaxed));
        let Some(waited) = run.patience.too_long(turn, || !is_stopped()) else { return };
        let others = run.next_due().is_some() || run.running.len() > 1 || run.patience.is_anyone_absent();
        if !(others || self.service.fabric.poll_timeout().is_some() || lane.has_work()) {
            return;
        }
        if run.patience.has_been_absent(index) {
            self.go_on_without(turn);
        } else {
            run.patience.asking = true;
            let (job, memory) = (lane.job.id, lane.memory.clone());
            self.service.reports.say(Notice::Patience { job, memory, turn, waited });
        }
    }

    /// The PE of a lane is absent from now on, unless it has stood meanwhile. Returns whether it is.
    pub(crate) fn go_on_without(&mut self, (index, stands): (usize, u32)) -> bool {
        let Some(run) = &mut self.service.time else { return false };
        run.patience.asking = false;
        let clock = self.service.channels.lanes.get(index).and_then(|lane| lane.memory.clock.as_ref());
        let runs = |clock: &ClockPage| clock.stops().load(Ordering::Acquire) == stands;
        if !run.running.contains(&index) || !clock.is_some_and(runs) {
            return false;
        }
        run.running.retain(|other| *other != index);
        run.patience.lose(index);
        // What it has posted so far has its own times.
        self.service.take_posts(index, TIME_MAX);
        true
    }

    /// Takes what absent PEs have posted. Who of them stands takes part again.
    #[inline]
    pub(crate) fn look_for_absent(&mut self) {
        // Whoever is absent is in doubt, too.
        if self.is_in_doubt() {
            self.look_at_patience();
            self.look_at_each_absent();
        }
    }

    #[cold]
    fn look_at_each_absent(&mut self) {
        let Some(run) = self.service.time.as_mut().filter(|run| run.patience.is_anyone_absent()) else { return };
        for index in run.patience.take_absent() {
            let present = self.service.time.as_ref().map_or(0, |run| run.present);
            let now = self.service.fabric.now().max(present);
            let Some(lane) = self.service.channels.lanes.get_mut(index).filter(|lane| !lane.broken) else { continue };
            lane.ran.0 = lane.ran.0.max(now);
            let began = lane.ran.0;
            if let Some((said, waits_for)) = lane.memory.clock.as_ref().and_then(ClockPage::stands) {
                self.stands(index, said.max(began), waits_for);
            } else {
                self.service.take_posts(index, now);
                if let Some(run) = &mut self.service.time {
                    run.patience.lose(index);
                }
            }
        }
    }
}
