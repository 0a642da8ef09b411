//! Hosts that are lost, for jobs: those that can go on without them do, the others end and say why.

use super::ballot::Agreed;
use super::protocol::Tell;
use crate::daemon::Daemon;
use crate::jobs::descriptor::JobDescriptor;
use angara_abi::JobId;
use angara_net::HostId;
use angara_protocol::msg::Event;
use std::rc::Rc;

impl Daemon {
    /// Nothing more comes from a host: jobs that were made there end here, and jobs with PEs there and here end everywhere.
    pub(super) fn host_lost(self: &Rc<Self>, host: HostId, why: &str) {
        let Some(messages) = &self.cluster.messages else { return };
        tracing::warn!(host = messages.name(host), why, "host lost");
        self.cluster.streams.host_lost(host);
        let reserved: Vec<JobId> = {
            let all = self.jobs.reservations.borrow();
            all.iter().filter(|(_, r)| r.coordinator == Some(host)).map(|(id, _)| *id).collect()
        };
        reserved.into_iter().for_each(|id| self.forget_reservation(id));
        self.without_host(host, why);
        self.cluster.ballots.wake.notify_one();
    }

    /// Hosts have come or gone for the network.
    pub(crate) fn members_changed(self: &Rc<Self>) {
        let Some(messages) = &self.cluster.messages else { return };
        let members = self.cluster.ballots.agreed.borrow().members.clone();
        for job in self.jobs.table.borrow_mut().values_mut() {
            job.hosts = members.keys().copied().filter(|h| *h != messages.me).collect();
        }
        self.take_over_domains(&members);
        for host in messages.member.cluster.ids().filter(|h| !members.contains_key(h)) {
            self.without_host(host, "it takes no part in the network any more");
        }
    }

    /// Jobs go on without a host, if they can.
    fn without_host(self: &Rc<Self>, host: HostId, why: &str) {
        let Some(messages) = &self.cluster.messages else { return };
        let (mut orphaned, mut cut, mut deserted) = (Vec::new(), Vec::new(), Vec::new());
        for (id, job) in self.jobs.table.borrow_mut().iter_mut() {
            if job.memory.open {
                job.hosts.retain(|h| *h != host);
                deserted.push(*id);
            } else if job.coordinator == Some(host) {
                orphaned.push(*id);
            } else if job.memory.entries.iter().any(|e| messages.owners[e.node as usize] == host) {
                // Who only passes packets on has no say: the others may still be in touch.
                if job.coordinator.is_none() || job.memory.pes_here() > 0 {
                    cut.push(*id);
                }
            } else if job.hosts.contains(&host) {
                job.hosts.retain(|h| *h != host);
                let after = job.created.elapsed().as_secs_f64();
                if job.coordinator.is_some() {
                    continue;
                }
                let note = format!(
                    "host {}, which passed packets on, was lost {after:.1} s after the job began ({why}); what its links carried is not counted",
                    messages.name(host)
                );
                job.note(self.users.limits(), note);
            }
        }
        for id in orphaned {
            tracing::info!(job = id.number(), host = messages.name(host), "the host that started the job is lost");
            let daemon = self.clone();
            tokio::task::spawn_local(async move { daemon.end_job(id).await });
        }
        for id in cut {
            self.cut_off(id, host, why);
        }
        for id in deserted {
            self.desert_seats(id, host);
        }
    }

    /// This host leaves a job, which cannot go on if PEs are here.
    pub(crate) fn leave_job(&self, id: JobId, why: &str) {
        let needed = self.jobs.table.borrow().get(&id).filter(|j| j.memory.pes_here() > 0).map(|j| j.memory.open);
        let (Some(open), Some(messages)) = (needed, &self.cluster.messages) else { return };
        if open {
            let (host, reason) = (messages.name(messages.me).into(), why.into());
            return self.spread(id, Event::HostLost { job: id, host, reason });
        }
        self.cut_off(id, messages.me, why);
    }

    /// The host that made a job with PEs here has not heard that it ended here.
    pub(super) fn say_left(&self, descriptor: &JobDescriptor, agreed: &Agreed) {
        let Some(messages) = &self.cluster.messages else { return };
        let (job, host) = (descriptor.id(), messages.name(messages.me).to_string());
        let reason = "its daemon has left the job, or was started again".to_string();
        tracing::info!(
            job = job.number(),
            coordinator = messages.name(descriptor.coordinator),
            "not opened: its PEs here have ended"
        );
        let others: Vec<HostId> = agreed.members.keys().copied().filter(|h| *h != messages.me).collect();
        messages.tell(&others, &Tell::Event(Event::HostLost { job, host, reason }));
    }

    /// A job cannot go on without a host.
    fn cut_off(&self, id: JobId, host: HostId, why: &str) {
        let Some(messages) = &self.cluster.messages else { return };
        let mut jobs = self.jobs.table.borrow_mut();
        let Some(job) = jobs.get_mut(&id).filter(|job| !job.descriptor.over) else { return };
        job.descriptor.over = true;
        let there = |e: &&angara_abi::job::PeEntry| messages.owners[e.node as usize] == host;
        let shape = self.options.shape;
        let nodes: Vec<String> = job.memory.entries.iter().filter(there).map(|e| shape.show(e.coords)).collect();
        let after = job.created.elapsed().as_secs_f64();
        let (me, name) = (messages.name(messages.me), messages.name(host));
        let cause = match messages.trunk(host).filter(|s| !s.up) {
            Some(s) => {
                let silence = s.since.elapsed().as_secs_f64();
                format!("{} (trunk {me} - {name}, heard last {silence:.1} s ago); {why}", s.why)
            }
            None => why.to_string(),
        };
        let reason = format!(
            "{cause}; noticed by host {me} {after:.1} s after the job began; nodes of the job there: {}",
            list(&nodes)
        );
        let host = name.to_string();
        tracing::warn!(job = id.number(), host, reason, "job cut off");
        job.note(self.users.limits(), format!("host {host} was lost: {reason}"));
        job.set_ended();
        drop(jobs);
        self.spread(id, Event::HostLost { job: id, host, reason });
    }
}

fn list(nodes: &[String]) -> String {
    let shown = nodes.iter().take(8).map(|n| format!("({n})")).collect::<Vec<_>>().join(" ");
    if nodes.len() > 8 { format!("{shown} and {} more", nodes.len() - 8) } else { shown }
}
