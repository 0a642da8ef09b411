//! Seats over time: PEs that end a life and begin the next one, and PEs that leave while others go on.
//!
//! What a PE has left may never come for those that go on. Two things are certain. A PE that has left takes part in no
//! further life, so nobody can begin one. And when every PE that takes part waits for another one, and looks again and
//! again in vain, then what they wait for can only have been due from those that have left. Both end the job,
//! as does a connection that closes without a word. PEs may all leave in the middle of a life: as long as nobody is
//! waited for in vain, that is no failure.

use super::job::Job;
use crate::ask::ask;
use crate::daemon::Daemon;
use crate::failure::failure;
use crate::hosts::protocol::{Answer, Ask, Tell};
use angara_abi::JobId;
use angara_abi::job::{JobState, Seat, SeatState};
use angara_plane::{Command, JobMemory};
use angara_protocol::msg::{Event, Failure, Wait};
use angara_protocol::print::plain_line;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long PEs in this process may take to say what they wait for.
const NOTES: Duration = Duration::from_millis(500);
/// How often PEs that may wait in vain are looked at; they look themselves every 200 ms.
const LOOK: Duration = Duration::from_millis(250);
/// A PE of a job on one host waits in vain if it has looked so often since the last PE left.
const LOOKS: u32 = 5;
/// The same in a job that spans hosts, where what it waits for may be delayed on the way.
const LOOKS_SPANNING: u32 = 50;
/// And if the PE that left had ended its life: the others may be on their way out of that end's barrier, and a trunk is down.
const LOOKS_LEAVING: u32 = 300;

/// How long processes of a program that is ended in order may take to notice by themselves.
const EXIT_AFTER: Duration = Duration::from_millis(500);

/// PEs of a job whose seats are not looked at whenever one of them changes, and how long that may wait.
const LARGE: usize = 512;
const SOON: Duration = Duration::from_millis(20);

impl Daemon {
    /// Changes the seat of a PE of this host, and tells the other hosts of the job.
    pub(crate) fn change_seat(self: &Rc<Self>, id: JobId, pe: usize, change: impl FnOnce(Seat) -> Seat) {
        let jobs = self.jobs.table.borrow();
        let Some(job) = jobs.get(&id) else { return };
        let before = job.memory.page.pe(pe).seat;
        let seat = change(before);
        if seat == before {
            return;
        }
        job.memory.page.set_seat(pe, seat);
        if let Some(messages) = &self.cluster.messages {
            messages.tell(&job.hosts, &Tell::Seat(id, pe as u32, seat.to_word()));
        }
        drop(jobs);
        self.look_at_seats(id);
    }

    /// The seat of a PE of another host has changed.
    pub(crate) fn take_seat(self: &Rc<Self>, id: JobId, pe: u32, word: u32) {
        let Some(memory) = self.jobs.table.borrow().get(&id).map(|job| job.memory.clone()) else {
            // Hosts open a job one after the other, and somebody has been quick.
            if let Some(reservation) = self.jobs.reservations.borrow_mut().get_mut(&id) {
                reservation.seats.push((pe, word));
            }
            return;
        };
        let (seat, pe) = (Seat::from_word(word), pe as usize);
        if pe >= memory.pes {
            return;
        }
        if memory.open {
            return self.take_open_seat(memory, pe, seat);
        }
        memory.page.set_seat(pe, seat);
        self.look_at_seats(id);
    }

    /// A PE of this host begins its next life.
    pub(crate) fn start_life(self: &Rc<Self>, id: JobId, pe: usize) -> Result<(), Failure> {
        let seats = self.seats(id).unwrap_or_default();
        if seats.get(pe).is_none_or(|seat| seat.state != SeatState::Resting) {
            return Err(failure(format!("PE {pe} does not rest"), "end one life before the next one"));
        }
        if let Some(gone) = seats.iter().position(|seat| seat.is_over()) {
            return Err(failure(format!("PE {gone} has left the job"), "no PE may exit before all have started again"));
        }
        self.change_seat(id, pe, Seat::start);
        Ok(())
    }

    /// A PE, perhaps of another host, has ended the program in order: those of this host that compute shall notice. `angara run`
    /// tells its processes earlier.
    pub(crate) fn exit_all(self: &Rc<Self>, memory: Arc<JobMemory>, caller: usize) {
        let daemon = self.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(EXIT_AFTER).await;
            daemon.with_job(&memory, |job| job.signal(Signal::TERM, Some(caller)));
        });
    }

    /// The seats of a job that goes on.
    fn seats(&self, id: JobId) -> Option<Vec<Seat>> {
        let jobs = self.jobs.table.borrow();
        let memory = &jobs.get(&id)?.memory;
        let on = memory.page.state() == JobState::Running;
        on.then(|| (0..memory.pes).map(|pe| memory.page.pe(pe).seat).collect())
    }

    /// The host that made a job sees to it that nobody waits for ever for a PE that has left. In a large one it looks a moment
    /// later, once for many changes.
    fn look_at_seats(self: &Rc<Self>, id: JobId) {
        let large = |job: &Job| (job.memory.pes > LARGE).then(|| job.looks_soon.replace(true));
        match self.jobs.table.borrow().get(&id).and_then(large) {
            None => {}
            Some(true) => return,
            Some(false) => {
                let daemon = self.clone();
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(SOON).await;
                    if let Some(job) = daemon.jobs.table.borrow().get(&id) {
                        job.looks_soon.set(false);
                    }
                    daemon.look_at_seats_now(id);
                });
                return;
            }
        }
        self.look_at_seats_now(id);
    }

    fn look_at_seats_now(self: &Rc<Self>, id: JobId) {
        if self.jobs.table.borrow().get(&id).is_some_and(|job| job.memory.open) {
            return self.look_at_domain(id);
        }
        let Some(seats) = self.seats(id).filter(|seats| seats.iter().any(|s| s.is_over())) else { return };
        let mut jobs = self.jobs.table.borrow_mut();
        let Some(job) = jobs.get_mut(&id).filter(|job| job.coordinator.is_none()) else { return };
        let watched = std::mem::replace(&mut job.watched, true);
        drop(jobs);
        let newest = seats.iter().filter(|s| s.taken()).map(|s| s.life()).max().unwrap_or(0);
        let absent = |s: &Seat| s.state == SeatState::Left && !s.reaches(newest);
        if let Some(pe) = seats.iter().position(absent) {
            self.lose(id, pe);
        } else if !watched {
            let daemon = self.clone();
            tokio::task::spawn_local(async move { daemon.watch_waits(id).await });
        }
    }

    /// Has PEs in this process say what they wait for, which they cannot when nobody lets them run.
    pub(crate) async fn ask_for_waits(&self) {
        // A PE that does not come back must not keep whoever asks waiting: what others have said before is better than nothing.
        let _ = tokio::time::timeout(NOTES, ask(&self.data, Command::NoteWaits)).await;
    }

    /// Returns what PEs of a job have been waiting for, on all hosts.
    pub(crate) async fn all_waits(&self, id: JobId) -> Option<Vec<Wait>> {
        let mut all = self.waits(id)?;
        if let Some(messages) = &self.cluster.messages {
            let hosts = self.jobs.table.borrow().get(&id)?.hosts.clone();
            for host in hosts {
                if let Ok(Answer::Waits(waits)) = messages.ask(host, Ask::Waits(id)).await {
                    all.extend(waits);
                }
            }
        }
        all.sort_by_key(|w| w.pe);
        Some(all)
    }

    /// Returns what PEs of a job here have been waiting for; `None` if there is no such job.
    pub(crate) fn waits(&self, id: JobId) -> Option<Vec<Wait>> {
        let jobs = self.jobs.table.borrow();
        let memory = &jobs.get(&id)?.memory;
        let now = self.machine.monotonic();
        let wait = |pe: usize| {
            let (since, what, looks) = memory.sync.note(pe).read()?;
            let what = plain_line(&what);
            Some(Wait { pe: pe as u32, seconds: now.saturating_sub(since) as f64 * 1e-9, what, looks })
        };
        Some((0..memory.pes).filter(|pe| memory.here[*pe]).filter_map(wait).collect())
    }

    /// Ends the job if all who take part wait for others in vain.
    async fn watch_waits(&self, id: JobId) {
        let mut seen: Vec<Seat> = Vec::new();
        let mut first: BTreeMap<u32, u32> = BTreeMap::new();
        loop {
            tokio::time::sleep(LOOK).await;
            let Some(seats) = self.seats(id) else { return };
            if seats != seen {
                (seen, first) = (seats.clone(), BTreeMap::new());
            }
            let Some(waits) = self.all_waits(id).await else { return };
            let looks: BTreeMap<u32, u32> = waits.into_iter().map(|w| (w.pe, w.looks)).collect();
            let spans = self.jobs.table.borrow().get(&id).is_some_and(|job| !job.hosts.is_empty());
            if let Some(pe) = waited_for(&seats, &looks, &mut first, spans) {
                return self.lose(id, pe);
            }
        }
    }

    /// Others wait in vain for one that has left.
    pub(crate) fn lose_whoever_left(&self, id: JobId) {
        if let Some(pe) = self.seats(id).and_then(|seats| to_blame(&seats)) {
            self.lose(id, pe);
        }
    }

    /// Others wait for this PE, which has left.
    fn lose(&self, id: JobId, pe: usize) {
        let Some(seats) = self.seats(id) else { return };
        let finalized = seats[pe].state == SeatState::Left;
        let mut jobs = self.jobs.table.borrow_mut();
        let Some(job) = jobs.get_mut(&id) else { return };
        let node = job.memory.entries[pe].node;
        tracing::info!(job = id.number(), pe, node, finalized, "others wait for a PE that has left");
        job.note(self.users.limits(), format!("others waited for PE {pe} on node {node}, which had left"));
        job.set_ended();
        drop(jobs);
        self.spread(id, Event::PeLost { job: id, pe: pe as u32, node, finalized });
    }
}

/// The PE that has left and is waited for: one that did so in the middle of a life before one that did not.
fn to_blame(seats: &[Seat]) -> Option<usize> {
    let left = |state| seats.iter().position(|s| s.state == state);
    left(SeatState::Deserted).or_else(|| left(SeatState::Left))
}

/// The PE that has left and for which all wait that take part, given how often each has looked in its wait (0: it waits
/// for its adapter; nothing: it does not wait) and what that was at first.
fn waited_for(
    seats: &[Seat],
    looks: &BTreeMap<u32, u32>,
    first: &mut BTreeMap<u32, u32>,
    spans: bool,
) -> Option<usize> {
    let pe = to_blame(seats)?;
    let needed = match (spans, seats[pe].state) {
        (false, _) => LOOKS,
        (true, SeatState::Deserted) => LOOKS_SPANNING,
        (true, _) => LOOKS_LEAVING,
    };
    let mut taken = 0;
    let mut in_vain = true;
    for (pe, seat) in seats.iter().enumerate() {
        // One that has not come yet may be what they wait for.
        in_vain &= seat.state != SeatState::Free;
        if seat.taken() {
            taken += 1;
            let now = looks.get(&(pe as u32)).copied().unwrap_or(0);
            let before = first.entry(pe as u32).or_insert(now);
            // Fewer than before: another wait.
            *before = (*before).min(now);
            in_vain &= now - *before >= needed;
        }
    }
    (in_vain && taken > 0).then_some(pe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(seats: &[Seat], rounds: &[&[u32]], spans: bool) -> Option<usize> {
        let mut first = BTreeMap::new();
        let mut found = None;
        for looks in rounds {
            let looks = looks.iter().enumerate().map(|(pe, n)| (pe as u32, *n)).collect();
            found = waited_for(seats, &looks, &mut first, spans);
        }
        found
    }

    #[test]
    fn a_pe_is_waited_for_in_vain_if_nobody_else_can_help() {
        let (on, gone, left) = (Seat::TAKEN, Seat::TAKEN.leave(), Seat::TAKEN.rest().leave());
        let seats = [left, on, on, gone];
        assert_eq!(ask(&seats, &[&[0, 3, 100], &[0, 7, 104]], false), None, "not for long");
        assert_eq!(ask(&seats, &[&[0, 3, 100], &[0, 8, 105]], false), Some(3));
        assert_eq!(ask(&seats, &[&[0, 3, 100], &[0, 8, 105]], true), None, "it may be on its way");
        assert_eq!(ask(&seats, &[&[0, 3, 100], &[0, 60, 160]], true), Some(3));
        assert_eq!(ask(&seats, &[&[0, 3, 100], &[0, 8, 0], &[0, 9, 4]], false), None, "another wait");
        assert_eq!(ask(&seats, &[&[0, 3], &[0, 60]], false), None, "one does not wait");
        assert_eq!(ask(&[on, Seat::FREE, gone], &[&[0], &[60]], false), None, "one has not come");
        assert_eq!(ask(&[on, on], &[&[0, 0], &[60, 60]], false), None, "nobody has left");
        assert_eq!(ask(&[on, left], &[&[0], &[60]], false), Some(1));
        assert_eq!(ask(&[gone, left], &[&[], &[]], false), None, "nobody waits");
    }
}
