//! Conservative backfilling (A. Mu'alem, D. Feitelson, IEEE TPDS 12(6), 2001): no job is delayed by a
//! later one.

use super::profile::Profile;
use super::{Desk, Scheduler};
use std::collections::{HashMap, HashSet};

/// Each of the first jobs of the queue has a reservation, made when it comes among them, at the
/// earliest time that delays no other. When a job ends before its estimate, reservations move forward
/// in the order of submission where they can (*compression*).
///
/// Reservations count nodes and know estimates. Where that is the whole truth, with unconstrained
/// sets, no job starts later than its first reservation. Elsewhere a search may find no set at the
/// time of a reservation: the job then waits for the next end of another one, and later jobs may use
/// the time until then. Where a set holds transit nodes, which nobody has reserved, all reservations
/// are made anew, in the order of submission, and may be later.
#[derive(Clone, Debug)]
pub struct Conservative {
    depth: usize,
    /// Start of each job that has a reservation.
    reserved: HashMap<u32, u64>,
    /// Since the last pass a job has ended before its estimate.
    early: bool,
    /// Nodes are held that were not reserved.
    irregular: bool,
}

impl Conservative {
    /// With reservations for N jobs, at least 1. Each costs time whenever a job ends.
    pub fn new(depth: usize) -> Conservative {
        Conservative { depth: depth.max(1), reserved: HashMap::new(), early: false, irregular: false }
    }
}

impl Scheduler for Conservative {
    fn name(&self) -> &'static str {
        "conservative"
    }

    fn ended(&mut self, job: u32, desk: &Desk) {
        let job = desk.job(job);
        self.early |= job.run < job.estimate;
    }

    fn pass(&mut self, desk: &mut Desk) {
        if std::mem::take(&mut self.irregular) {
            self.reserved.clear();
        }
        // No end is left that reservations may wait for.
        self.early |= desk.running().next().is_none();
        let mut profile = Profile::new(desk.now(), desk.free(), desk.running());
        for (&job, &start) in &self.reserved {
            let job = desk.job(job);
            profile.reserve(start, job.estimate, job.nodes as i64);
        }
        let mut waits = HashSet::new();
        if std::mem::take(&mut self.early) {
            self.compress(desk, &mut profile, &waits);
        }
        loop {
            self.reserve_new(desk, &mut profile);
            let due = |job: &u32| self.reserved.get(job).is_some_and(|&start| start <= desk.now());
            let due: Vec<u32> = self.planned(desk).filter(due).collect();
            if due.is_empty() {
                return;
            }
            let waiting = waits.len();
            for job in due {
                if !self.begin(desk, job, &mut profile) {
                    waits.insert(job);
                }
            }
            if waits.len() > waiting {
                self.compress(desk, &mut profile, &waits);
            }
        }
    }
}

impl Conservative {
    /// Jobs with a reservation, and its start.
    #[cfg(test)]
    pub(super) fn reservations(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.reserved.iter().map(|(&job, &start)| (job, start))
    }

    fn planned<'a>(&self, desk: &'a Desk) -> impl Iterator<Item = u32> + 'a {
        desk.queue().iter().take(self.depth).copied()
    }

    /// Moves reservations forward where they can, but for jobs that must wait for an end.
    fn compress(&mut self, desk: &Desk, profile: &mut Profile, waits: &HashSet<u32>) {
        for index in self.planned(desk).filter(|index| !waits.contains(index)) {
            let Some(start) = self.reserved.get_mut(&index) else { continue };
            let job = desk.job(index);
            profile.reserve(*start, job.estimate, -(job.nodes as i64));
            *start = profile.earliest(desk.now(), job.nodes, job.estimate).min(*start);
            profile.reserve(*start, job.estimate, job.nodes as i64);
        }
    }

    /// Gives jobs that have none a reservation.
    fn reserve_new(&mut self, desk: &mut Desk, profile: &mut Profile) {
        let new: Vec<u32> = self.planned(desk).filter(|job| !self.reserved.contains_key(job)).collect();
        for index in new {
            let job = *desk.job(index);
            let start = profile.earliest(desk.now(), job.nodes, job.estimate);
            profile.reserve(start, job.estimate, job.nodes as i64);
            self.reserved.insert(index, start);
            desk.promise(index, start);
        }
    }

    /// Starts a job whose time has come; without a set, its reservation moves to the next end at least.
    fn begin(&mut self, desk: &mut Desk, index: u32, profile: &mut Profile) -> bool {
        let job = *desk.job(index);
        let Some(set) = desk.find(index) else {
            let next = desk.running().next().map_or(desk.now() + 1, |(end, _)| end.max(desk.now() + 1));
            let start = self.reserved.get_mut(&index).expect("its time has come");
            profile.reserve(*start, job.estimate, -(job.nodes as i64));
            *start = profile.earliest(next, job.nodes, job.estimate);
            profile.reserve(*start, job.estimate, job.nodes as i64);
            return false;
        };
        if !set.transit.is_empty() {
            self.irregular = true;
            profile.reserve(desk.now(), job.estimate, set.transit.len() as i64);
        }
        self.reserved.remove(&index);
        let place = desk.queue().iter().position(|&other| other == index).expect("it waits");
        desk.start(place, set);
        true
    }
}
