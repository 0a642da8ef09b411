//! How the thread rests while a PE runs, or while nobody can.

use super::coroutines::Resumed;
use super::turns::Turns;
use angara_abi::clock::ClockPage;
use angara_abi::wait::{Kernel, Linux};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest sleep while only a command can change anything.
const SLEEP: Duration = Duration::from_secs(60);
/// The same while PEs are absent or outside virtual time.
const ABSENT_LOOK: Duration = Duration::from_millis(1);

impl Turns<'_> {
    /// Sleeps until the PE of a lane stands, or there are other commands than `heard`: they must not wait for a PE that
    /// computes. No time limit: it would program a timer at every stop, which costs more than all the rest. False if it has
    /// slept for commands.
    pub(crate) fn let_run(&mut self, index: usize, heard: u32) -> bool {
        let Some(memory) = self.service.channels.lanes.get(index).map(|lane| &lane.memory) else { return true };
        if let Some(coroutines) = &mut self.coroutines {
            let stands = coroutines.resume(memory.pe) == Resumed::Stands;
            if !stands {
                self.listen();
            }
            return stands;
        }
        let Some(clock) = &memory.clock else { return true };
        let seen = clock.bell().load(Ordering::SeqCst);
        // Whoever sends a command counts it first, and then rings this bell.
        self.service.reports.gauges.sleeps_for(memory);
        if clock.stands().is_some() || self.service.reports.gauges.commands.load(Ordering::SeqCst) != heard {
            return true;
        }
        match self.is_in_doubt() {
            // Who is absent may stand or post any time.
            true => Linux.futex_wait(clock.bell(), seen, ABSENT_LOOK),
            false => Linux.futex_wait_unlimited(clock.bell(), seen),
        }
        true
    }

    /// The job is over. A PE that is a coroutine still has its handlers to run, and goodbye to say: as a process it would do so
    /// by itself. False if it has slept.
    pub(crate) fn let_end(&mut self) -> bool {
        let running = self.service.time.as_ref().and_then(|run| run.running.last().copied());
        let pe = running.and_then(|index| Some(self.service.channels.lanes.get(index)?.pe));
        let resumed = self.coroutines.as_mut().zip(pe).map(|(coroutines, pe)| coroutines.resume(pe));
        let stands = resumed == Some(Resumed::Stands);
        if !stands {
            self.listen();
        }
        stands
    }

    /// Sleeps until there is a command: nothing else can change anything.
    pub(crate) fn listen(&self) {
        let run = self.service.time.as_ref();
        let in_doubt = run.is_some_and(|run| run.in_doubt.is_some() && !run.stuck);
        let is_outside = run.is_some_and(|run| run.outside().next().is_some());
        let looks = in_doubt || is_outside || self.is_anyone_absent();
        self.bells.wait(if looks { ABSENT_LOOK } else { SLEEP });
    }

    /// Has PEs that stand leave notes of what they wait for. Processes do so by themselves.
    pub(crate) fn note_waits(&mut self) {
        if self.is_over() {
            return;
        }
        let Some(coroutines) = self.coroutines.as_mut() else { return };
        let stands = |clock: &ClockPage| clock.stands().is_some() && !clock.has_ended();
        for lane in self.service.channels.lanes.values().filter(|lane| !lane.broken) {
            if lane.memory.clock.as_ref().is_some_and(stands) {
                coroutines.note(lane.pe);
            }
        }
    }
}
