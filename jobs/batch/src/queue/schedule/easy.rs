//! EASY backfilling (D. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995): jobs may overtake, but
//! not so that they delay the first one of the queue.

use super::fcfs::start_heads;
use super::{Desk, Scheduler};
use crate::queue::engine::Failures;
use angara_placement::NodeSet;

/// The head of the queue has a reservation: a *shadow time*, and a set of nodes that are free then by
/// the estimates of running jobs. A later job starts at once if it ends before then by its estimate, or
/// on nodes that the reserved set does not hold.
///
/// The head starts as soon as a search finds a set, or the reserved one is free, so no later than the
/// reservation says. When jobs have ended, the reservation is made anew, and may only become earlier.
#[derive(Clone, Debug, Default)]
pub struct Easy {
    reserved: Option<Reservation>,
    /// Since the last pass a job has ended.
    ended: bool,
    /// One of them did before its estimate.
    early: bool,
}

impl Easy {
    /// The job that has the reservation, and when it is to start.
    #[cfg(test)]
    pub(super) fn reserved(&self) -> Option<(u32, u64)> {
        self.reserved.as_ref().map(|reserved| (reserved.job, reserved.time))
    }
}

/// Reservation of the head of the queue.
#[derive(Clone, Debug)]
struct Reservation {
    job: u32,
    /// When the set is free, by estimates.
    time: u64,
    set: NodeSet,
    /// Searches beside the set that failed.
    failures: Failures,
}

impl Scheduler for Easy {
    fn name(&self) -> &'static str {
        "easy"
    }

    fn ended(&mut self, job: u32, desk: &Desk) {
        let job = desk.job(job);
        self.ended = true;
        self.early |= job.run < job.estimate;
    }

    fn pass(&mut self, desk: &mut Desk) {
        let (ended, early) = (std::mem::take(&mut self.ended), std::mem::take(&mut self.early));
        start_heads(desk);
        while let Some(&head) = desk.queue().first() {
            match self.reserved.take().filter(|reserved| reserved.job == head) {
                Some(kept) if ended => self.reserved = Some(kept.renewed(desk, early)),
                Some(kept) => self.reserved = Some(kept),
                None => {
                    self.reserved = Reservation::new(desk, head);
                    self.reserved.iter().for_each(|reserved| desk.promise(head, reserved.time));
                }
            }
            let free = |reserved: &mut Reservation| reserved.set.held().all(|node| desk.machine().is_free(node));
            let Some(reserved) = self.reserved.take_if(free) else { break };
            // A search that takes no set which it once chose: the reservation does.
            desk.start(0, reserved.set);
            start_heads(desk);
        }
        if let Some(reserved) = &mut self.reserved
            && desk.queue().first() == Some(&reserved.job)
        {
            reserved.backfill(desk);
        }
    }
}

impl Reservation {
    /// The set for a job at the earliest end of a running one that the search has a set at.
    fn new(desk: &Desk, job: u32) -> Option<Reservation> {
        let (time, set) = earliest(desk, job, &instants(desk, u64::MAX))?;
        Some(Reservation { job, time, set, failures: Failures::default() }.apart(desk))
    }

    /// The same job's after others have ended: earlier, if `early` ones make it so, or of other nodes, to
    /// leave more of those that are free now.
    fn renewed(mut self, desk: &Desk, early: bool) -> Reservation {
        self.failures = Failures::default();
        if early && let Some((time, set)) = earliest(desk, self.job, &instants(desk, self.time)) {
            (self.time, self.set) = (time, set);
        }
        self.apart(desk)
    }

    /// The same of nodes that leave others those that are free now, if there are such.
    fn apart(self, desk: &Desk) -> Reservation {
        let leaves = self.set.held().all(|node| !desk.machine().is_free(node));
        let later = || desk.search().find_later(&desk.machine_at(self.time), desk.machine(), desk.job(self.job).nodes);
        match (!leaves).then(later).flatten() {
            Some(set) => Reservation { set, ..self },
            None => self,
        }
    }

    /// Starts later jobs that do not delay the head.
    fn backfill(&mut self, desk: &mut Desk) {
        let mut beside = desk.machine().without(&self.set);
        let mut place = 1;
        while let Some(&candidate) = desk.queue().get(place) {
            let before = desk.now() + desk.job(candidate).estimate <= self.time;
            let found =
                if before { desk.find(candidate) } else { desk.find_in(&beside, &mut self.failures, candidate) };
            match found {
                Some(set) => {
                    desk.start(place, set);
                    beside = desk.machine().without(&self.set);
                }
                None => place += 1,
            }
        }
    }
}

/// Estimated ends of running jobs before a time, each once.
fn instants(desk: &Desk, before: u64) -> Vec<u64> {
    let mut ends: Vec<u64> = desk.running().map(|(end, _)| end).take_while(|end| *end < before).collect();
    ends.dedup();
    ends
}

/// An instant at which the search has a set for a job, by bisection: the earliest one, unless the search finds a set
/// and misses it once more nodes are free.
fn earliest(desk: &Desk, job: u32, instants: &[u64]) -> Option<(u64, NodeSet)> {
    let nodes = desk.job(job).nodes;
    let held = |time: u64| desk.running().take_while(|(end, _)| *end <= time).map(|(_, held)| held).sum::<usize>();
    let find = |time: u64| {
        let enough = desk.free() + held(time) >= nodes;
        enough.then(|| desk.search().find(&desk.machine_at(time), nodes)).flatten()
    };
    // Mostly nothing has changed, and the last one tells.
    let (mut low, mut high) = (0, instants.len().checked_sub(1)?);
    let mut found = find(instants[high])?;
    while low < high {
        let middle = (low + high) / 2;
        match find(instants[middle]) {
            Some(set) => (high, found) = (middle, set),
            None => low = middle + 1,
        }
    }
    Some((instants[high], found))
}
