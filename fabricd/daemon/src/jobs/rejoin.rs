//! Domains and hosts that are lost, and come back.
//!
//! Processes in a domain depend on each other only as far as they talk. So a host that is lost is to the others as if its
//! processes had left: their seats are empty, and the domain goes on. If that host had made the domain, the first host that
//! is left sees to its end from then on, whichever that is by the change that all agree on.
//!
//! A daemon that comes back takes part again. Words of seats only grow, so nobody sits down there before the others have
//! said how far they have come. Where a cluster was cut in two, each half has gone on with the domain; when they meet, only
//! the half of the first host does.

use super::job::{Job, PeState};
use crate::daemon::Daemon;
use crate::hosts::ballot::Commit;
use crate::hosts::protocol::{Answer, Ask};
use angara_abi::JobId;
use angara_abi::job::Seat;
use angara_net::HostId;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// How long to wait before hosts are asked again that have not agreed to this one's return yet.
const AGAIN: Duration = Duration::from_millis(20);

impl Daemon {
    /// True for a domain that a host has made which takes no part any more, so that nobody else tells newcomers of it.
    pub(crate) fn is_orphan(&self, job: &Job) -> bool {
        let (Some(messages), Some(maker)) = (&self.cluster.messages, job.coordinator) else { return false };
        job.memory.open && !messages.group().contains_key(&maker)
    }

    /// True for a domain with which a host goes on that comes before the one that sees to it here.
    pub(crate) fn is_other_half(&self, job: &Job, commit: &Commit) -> bool {
        let Some(messages) = &self.cluster.messages else { return false };
        let mine = job.coordinator.unwrap_or(messages.me);
        let members = &commit.agreed.members;
        let before = |host: HostId| members.contains_key(&host) && host < mine && members.contains_key(&mine);
        job.memory.open && commit.jobs.iter().any(|c| c.is_of(&job.descriptor) && before(c.coordinator))
    }

    /// Of those who take part, the first one sees to domains whose maker does not.
    pub(crate) fn take_over_domains(self: &Rc<Self>, members: &BTreeMap<HostId, u64>) {
        let (Some(messages), Some(first)) = (&self.cluster.messages, members.keys().next()) else { return };
        let mut mine = Vec::new();
        for (id, job) in self.jobs.table.borrow_mut().iter_mut().filter(|(_, job)| job.memory.open) {
            if job.coordinator.is_none_or(|maker| members.contains_key(&maker)) {
                continue;
            }
            if see_to(job, *first, messages.me) {
                mine.push(*id);
            }
        }
        mine.into_iter().for_each(|id| self.look_at_domain(id));
    }

    /// Nobody reaches those any more who sat in a domain on a host.
    pub(crate) fn desert_seats(self: &Rc<Self>, id: JobId, host: HostId) {
        let Some(messages) = &self.cluster.messages else { return };
        let memory = match self.jobs.table.borrow_mut().get_mut(&id) {
            None => return,
            Some(job) => {
                // At once: its daemon may be back before the others have agreed on anything without it.
                let left = job.hosts.iter().copied().filter(|left| *left != host).chain([messages.me]).min();
                if let Some(first) = left.filter(|_| job.coordinator == Some(host)) {
                    see_to(job, first, messages.me);
                }
                job.memory.clone()
            }
        };
        let there = |pe: &usize| messages.owners[memory.entries[*pe].node as usize] == host && !memory.here[*pe];
        let mut lost = 0;
        for pe in (0..memory.pes).filter(there) {
            let seat = memory.page.pe(pe).seat;
            if seat.taken() {
                lost += 1;
                self.take_open_seat(memory.clone(), pe, seat.leave());
            }
        }
        if lost > 0 {
            tracing::warn!(job = id.number(), host = messages.name(host), lost, "a domain goes on without a host");
        }
        // Whoever was there was perhaps the last one.
        self.look_at_domain(id);
    }

    /// The seats of a domain for a host that has come back. Not before this host has agreed that it takes part: what changes
    /// later is then told it.
    pub(crate) fn seats_for(&self, host: HostId, id: JobId) -> Option<Vec<u32>> {
        let jobs = self.jobs.table.borrow();
        let job = jobs.get(&id).filter(|job| job.memory.open && job.hosts.contains(&host))?;
        Some((0..job.memory.pes).map(|pe| job.memory.page.pe(pe).seat.to_word()).collect())
    }

    /// Learns from all other hosts how far the seats of a domain have come. Then those here are free.
    pub(crate) async fn learn_seats(self: Rc<Self>, id: JobId) {
        let Some(messages) = &self.cluster.messages else { return };
        let Some(memory) = self.jobs.table.borrow().get(&id).map(|job| job.memory.clone()) else { return };
        let mut words = vec![0; memory.pes];
        let mut asked = Vec::new();
        while self.has_job(&memory) {
            let hosts = self.jobs.table.borrow().get(&id).map_or_else(Vec::new, |job| job.hosts.clone());
            let Some(next) = hosts.into_iter().find(|host| !asked.contains(host)) else { break };
            match messages.ask(next, Ask::Seats(id)).await {
                Ok(Answer::Seats(theirs)) => {
                    asked.push(next);
                    words.iter_mut().zip(theirs).for_each(|(word, other)| *word = other.max(*word));
                }
                _ => tokio::time::sleep(AGAIN).await,
            }
        }
        for (pe, word) in words.into_iter().enumerate() {
            let seat = Seat::from_word(word);
            if !memory.here[pe] {
                self.take_open_seat(memory.clone(), pe, seat);
            } else if self.has_job(&memory) {
                memory.page.set_seat(pe, seat.leave());
                self.with_job(&memory, |job| job.pes[pe] = PeState::Waiting);
            }
        }
        self.jobs.seats_changed.notify_waiters();
    }
}

/// This host sees to a domain from now on; true if that is the one where this is said.
fn see_to(job: &mut Job, host: HostId, me: HostId) -> bool {
    job.descriptor.coordinator = host;
    job.coordinator = (host != me).then_some(host);
    job.coordinator.is_none()
}
