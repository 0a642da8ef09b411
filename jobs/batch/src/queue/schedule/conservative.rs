//! Conservative backfilling (A. Mu'alem, D. Feitelson, IEEE TPDS 12(6), 2001): no job is delayed by a
//! later one.

use super::nodes::Nodes;
use super::profile::Profile;
use super::{Desk, Scheduler};
use angara_placement::NodeSet;
use std::collections::HashMap;
use std::ops::Range;

/// Each of the first jobs of the queue has a reservation of a time and of a set of nodes, made when it comes among
/// them, at the earliest time that delays no other. A reserved set is free of running jobs, by their estimates, and
/// of other sets reserved for the same time, so no job starts later than its first reservation.
///
/// When a job ends before its estimate, reservations move forward in the order of submission where they can
/// (*compression*), to the set that they have or to another one.
///
/// A reservation begins at an instant at which a job ends, or has begun already: just before it, a running job or
/// another reservation holds a node of its set. That is so when it is made ([`Profile::since`]), and compression
/// looks at it again whenever nodes are given back.
#[derive(Clone, Debug)]
pub struct Conservative {
    depth: usize,
    reserved: HashMap<u32, Reservation>,
    /// The same of running jobs.
    running: HashMap<u32, Reservation>,
    /// What neither running jobs nor reservations hold; `None` before the first pass.
    profile: Option<Profile>,
    /// What was given back since all reservations were last looked at.
    freed: Vec<Freed>,
}

/// Start, end and nodes of a job that waits.
#[derive(Clone, Debug)]
struct Reservation {
    span: Range<u64>,
    set: NodeSet,
    /// What the set holds.
    held: Nodes,
    /// Number of `freed` that it has been tried with.
    seen: usize,
}

/// Nodes that were given back for a time.
#[derive(Clone, Debug)]
struct Freed {
    span: Range<u64>,
    nodes: Nodes,
}

impl Freed {
    /// Some of these nodes, free in that time, have not been before.
    fn adds_to(&self, span: &Range<u64>, nodes: &Nodes) -> bool {
        self.span.start < span.end && span.start < self.span.end && self.nodes.meets(nodes)
    }
}

impl Conservative {
    /// With reservations for N jobs, at least 1. Each costs time whenever a job ends.
    pub fn new(depth: usize) -> Conservative {
        Conservative {
            depth: depth.max(1),
            reserved: HashMap::new(),
            running: HashMap::new(),
            profile: None,
            freed: Vec::new(),
        }
    }
}

impl Scheduler for Conservative {
    fn name(&self) -> &'static str {
        "conservative"
    }

    fn ended(&mut self, job: u32, desk: &Desk) {
        let Some(Reservation { span, held, .. }) = self.running.remove(&job) else { return };
        let span = desk.now()..span.end;
        if let Some(profile) = self.profile.as_mut().filter(|_| !span.is_empty()) {
            profile.forget(desk.now());
            profile.give_back(&span, &held);
            self.freed.push(Freed { span, nodes: held });
        }
    }

    fn pass(&mut self, desk: &mut Desk) {
        let mut profile = self.profile.take().unwrap_or_else(|| Profile::new(desk.now(), Nodes::free(desk.machine())));
        profile.forget(desk.now());
        self.compress(desk, &mut profile);
        loop {
            self.reserve_new(desk, &mut profile);
            if !self.start_due(desk) {
                break;
            }
        }
        self.note_blocked(desk, &profile);
        self.profile = Some(profile);
    }
}

impl Conservative {
    /// Jobs with a reservation, and its start.
    #[cfg(test)]
    pub(super) fn reservations(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.reserved.iter().map(|(&job, reserved)| (job, reserved.span.start))
    }

    fn planned<'a>(&self, desk: &'a Desk) -> impl Iterator<Item = u32> + use<'a> {
        desk.queue().iter().take(self.depth).copied()
    }

    /// Moves reservations forward until none can: what one gives back may help another.
    fn compress(&mut self, desk: &Desk, profile: &mut Profile) {
        let mut freed = 0;
        while freed < self.freed.len() {
            freed = self.freed.len();
            for job in self.planned(desk) {
                if let Some(mut reserved) = self.reserved.remove(&job) {
                    self.advance(desk, profile, job, &mut reserved);
                    self.reserved.insert(job, reserved);
                }
            }
        }
        self.freed.clear();
        self.reserved.values_mut().for_each(|reserved| reserved.seen = 0);
    }

    /// Moves a reservation forward if what was given back lets it.
    fn advance(&mut self, desk: &Desk, profile: &mut Profile, job: u32, reserved: &mut Reservation) {
        let new = &self.freed[std::mem::replace(&mut reserved.seen, self.freed.len())..];
        if new.is_empty() || reserved.span.start <= desk.now() {
            return;
        }
        let (nodes, length) = (desk.job(job).nodes, desk.job(job).estimate);
        let at = |time: u64| time..time + length;
        let (from, since) = (self.not_before(desk, job), profile.since(reserved.span.start, &reserved.held));
        if from >= reserved.span.start && since == reserved.span.start {
            return;
        }
        profile.give_back(&reserved.span, &reserved.held);
        let other = profile.earliest(from..since, length, nodes, |time, free| {
            if reserved.held.within(free) {
                return Some(Reservation { span: at(time), ..reserved.clone() });
            }
            let more = new.iter().any(|freed| freed.adds_to(&at(time), free));
            more.then(|| Reservation::find(desk, profile, job, time, free)).flatten()
        });
        let same = || (since < reserved.span.start).then(|| Reservation { span: at(since), ..reserved.clone() });
        let moved = other.or_else(same);
        if let Some(moved) = moved {
            let old = std::mem::replace(reserved, moved);
            self.freed.push(Freed { span: old.span, nodes: old.held });
            reserved.seen = self.freed.len();
        }
        profile.take(&reserved.span, &reserved.held);
    }

    /// Gives jobs that have none a reservation.
    fn reserve_new(&mut self, desk: &mut Desk, profile: &mut Profile) {
        let new: Vec<u32> = self.planned(desk).filter(|job| !self.reserved.contains_key(job)).collect();
        for index in new {
            let job = *desk.job(index);
            let from = self.not_before(desk, index);
            let found = profile.earliest(from..u64::MAX, job.estimate, job.nodes, |time, free| {
                Reservation::find(desk, profile, index, time, free)
            });
            let reserved = found.expect("the empty machine has a set for it");
            profile.take(&reserved.span, &reserved.held);
            desk.promise(index, reserved.span.start);
            self.reserved.insert(index, reserved);
        }
    }

    /// A time before which there is no place for a job, as there is none for one with as many nodes and no more time.
    fn not_before(&self, desk: &Desk, index: u32) -> u64 {
        let job = desk.job(index);
        // Fewer nodes may have no place where more have one: there is a box of 8 where there is none of 7.
        let shorter = |other: u32| desk.job(other).nodes == job.nodes && desk.job(other).estimate <= job.estimate;
        let starts =
            self.reserved.iter().filter(|(other, reserved)| reserved.seen == self.freed.len() && shorter(**other));
        starts.map(|(_, reserved)| reserved.span.start).max().unwrap_or(0)
    }

    /// Starts jobs whose time has come, on their sets; tells whether there were any.
    fn start_due(&mut self, desk: &mut Desk) -> bool {
        let mut place = 0;
        let mut any = false;
        // Those that come among the first ones meanwhile have none yet.
        while let Some(&job) = desk.queue().get(place).filter(|job| self.reserved.contains_key(job)) {
            if self.reserved[&job].span.start > desk.now() {
                place += 1;
                continue;
            }
            let reserved = self.reserved.remove(&job).expect("its time has come");
            debug_assert_eq!(reserved.span.start, desk.now(), "a reservation begins when a job ends");
            desk.start(place, reserved.set.clone());
            self.running.insert(job, reserved);
            any = true;
        }
        any
    }

    /// Notes jobs that wait though as many nodes as they want are free for as long as they want.
    fn note_blocked(&self, desk: &mut Desk, profile: &Profile) {
        let blocked = |index: &u32| {
            let (job, reserved) = (desk.job(*index), &self.reserved[index]);
            let free = || profile.now(job.estimate, (&reserved.span, &reserved.held));
            job.nodes <= desk.free() && free() >= job.nodes
        };
        let blocked: Vec<u32> = self.planned(desk).filter(blocked).collect();
        blocked.into_iter().for_each(|job| desk.note_blocked(job));
    }
}

impl Reservation {
    /// A set of what is free for a job from a time on, at that time, or earlier if the set is free before.
    fn find(desk: &Desk, profile: &Profile, job: u32, time: u64, free: &Nodes) -> Option<Reservation> {
        let job = desk.job(job);
        let machine = desk.machine().with_free(|node| free.contains(node));
        // What is to be free in the end has a set for every job that was not rejected.
        let set = if time == desk.now() || free.count() == machine.working() {
            desk.search().find(&machine, job.nodes)
        } else {
            desk.search().find_ahead(&machine, job.nodes)
        }?;
        let held = Nodes::held(&machine, &set);
        // A search that takes no set which it takes once less is free may have missed it.
        let start = profile.since(time, &held);
        Some(Reservation { span: start..start + job.estimate, set, held, seen: 0 })
    }
}
