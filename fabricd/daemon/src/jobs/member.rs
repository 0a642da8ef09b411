//! A process or a coroutine that has become a PE, as the daemon keeps it: what it may ask for, and how it leaves.

use crate::ask::{ask, tell};
use crate::daemon::Daemon;
use crate::failure::failure;
use crate::hosts::protocol::{Ask, Tell};
use angara_abi::JobId;
use angara_abi::account::Load;
use angara_abi::job;
use angara_fabric::JobSlot;
use angara_plane::{Command, JobMemory, Reply};
use angara_protocol::msg::{AdapterReply, AdapterRequest, Failure, LinkReport};
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// A PE and its user.
pub(crate) struct Member {
    pub(crate) daemon: Rc<Daemon>,
    pub(crate) uid: u32,
    pub(crate) seat: Option<Seat>,
}

/// The PE that it has become.
pub(crate) struct Seat {
    job: Weak<JobMemory>,
    pub(crate) pe: usize,
    /// It said goodbye.
    orderly: bool,
    /// It has asked to end the job, which is asked for once.
    aborted: bool,
}

impl Seat {
    /// Of PE `pe` of a job.
    pub(crate) fn of(job: &Arc<JobMemory>, pe: usize) -> Seat {
        Seat { job: Arc::downgrade(job), pe, orderly: false, aborted: false }
    }
}

impl Member {
    /// Answers anything but a request to become a PE.
    pub(crate) async fn answer(&mut self, request: AdapterRequest) -> Result<AdapterReply, Failure> {
        let Some(seat) = self.seat.as_mut().filter(|s| !s.orderly) else {
            return Err(failure("this connection is not attached to a job", "send an attach request first"));
        };
        let Some(memory) = seat.job.upgrade().filter(|memory| self.daemon.has_job(memory)) else {
            return match request {
                AdapterRequest::Rest
                | AdapterRequest::Routines { .. }
                | AdapterRequest::Abort { .. }
                | AdapterRequest::Detach => Ok(AdapterReply::Ok),
                AdapterRequest::Links { .. } => Ok(AdapterReply::Links { load: Load::NONE }),
                _ => Err(failure("the job has ended", "start another one with `angara run`")),
            };
        };
        let (job, slot, pe) = (memory.id, memory.slot, seat.pe);
        let done = match request {
            AdapterRequest::Attach { .. } | AdapterRequest::Join { .. } => Err("it is a PE already".into()),
            AdapterRequest::Rest if memory.open => Err("a process in a domain does not rest; it leaves".into()),
            AdapterRequest::Rest => {
                self.daemon.change_seat(job, pe, job::Seat::rest);
                Ok(AdapterReply::Ok)
            }
            AdapterRequest::Start => {
                return self.daemon.start_life(job, pe).map(|()| AdapterReply::Ok);
            }
            AdapterRequest::TreeOpen { root, pes } => {
                self.daemon.tree_open(job, slot, root, pes).await.map(|tree| AdapterReply::Tree { tree })
            }
            AdapterRequest::TreeClose { tree } => {
                let closed = ask(&self.daemon.data, |reply| Command::CloseTree((slot, job), tree, reply)).await;
                if let (Ok(Ok(())), Some(messages)) = (&closed, &self.daemon.cluster.messages) {
                    let hosts = self.daemon.jobs.table.borrow().get(&job).map_or_else(Vec::new, |j| j.hosts.clone());
                    messages.tell(&hosts, &Tell::TreeClose(job, tree));
                }
                closed.unwrap_or_else(|e| Err(e.to_string())).map(|()| AdapterReply::Ok)
            }
            AdapterRequest::Routines { routines } => {
                let noted = ask(&self.daemon.data, |reply| Command::NoteRoutines(pe, routines, reply)).await;
                noted.map(|()| AdapterReply::Ok).map_err(|e| e.to_string())
            }
            AdapterRequest::Links { only } => {
                let report = self.daemon.full_report(job).await;
                let links = report.map_or(vec![], |report| report.links);
                let mut load = Load::NONE;
                let asked = |l: &&LinkReport| only.is_none_or(|link| (link.node, link.dir) == (l.node, l.dir));
                links.iter().filter(asked).flat_map(|l| l.load.values()).for_each(|l| load.add(*l));
                Ok(AdapterReply::Links { load })
            }
            AdapterRequest::Abort { status, reason, orderly } => {
                if !std::mem::replace(&mut seat.aborted, true) {
                    self.daemon.abort(self.uid, (&memory, pe), status, reason, orderly);
                }
                Ok(AdapterReply::Ok)
            }
            AdapterRequest::Detach => {
                seat.orderly = true;
                self.daemon.goodbye((&memory, pe)).await;
                Ok(AdapterReply::Ok)
            }
        };
        done.map_err(|why| failure(why, "use point-to-point collectives (--collectives p2p)"))
    }

    /// It is gone.
    pub(crate) async fn leave(&mut self) {
        let Some(seat) = &self.seat else { return };
        let Some(memory) = seat.job.upgrade() else { return };
        match seat.orderly {
            // All has been done when it said goodbye.
            true if memory.open || self.daemon.options.virtual_time.is_none() => {}
            true => self.daemon.unseat(self.uid, (&memory, seat.pe), false).await,
            false => {
                let rests = memory.page.pe(seat.pe).seat.state == job::SeatState::Resting;
                self.daemon.unseat(self.uid, (&memory, seat.pe), !rests).await;
            }
        }
    }
}

impl Daemon {
    /// Builds a tree and loads it on every host of the job; its TreeId. A tree another host has given to
    /// another job meanwhile is passed over.
    async fn tree_open(&self, job: JobId, slot: JobSlot, root: u32, pes: Vec<u32>) -> Result<u8, String> {
        let hosts = self.jobs.table.borrow().get(&job).map_or_else(Vec::new, |j| j.hosts.clone());
        let mut first = 0;
        'next: loop {
            let own = pes.clone();
            let open = |reply| Command::OpenTree { job: (slot, job), first, root, pes: own, reply };
            let tree = ask(&self.data, open).await.unwrap_or_else(|e| Err(e.to_string()))?;
            let Some(messages) = self.cluster.messages.as_ref() else { return Ok(tree) };
            for (asked, host) in hosts.iter().enumerate() {
                if let Err(f) = messages.ask(*host, Ask::TreeLoad(job, tree, root, pes.clone())).await {
                    tracing::debug!(
                        job = job.number(),
                        tree,
                        host = messages.name(*host),
                        why = f.message,
                        "tree refused"
                    );
                    messages.tell(&hosts[..asked], &Tell::TreeClose(job, tree));
                    // Refused only if it is not the job's any more.
                    tell(&self.data, Command::CloseTree((slot, job), tree, Reply::ignored()));
                    first = tree + 1;
                    continue 'next;
                }
            }
            return Ok(tree);
        }
    }
}
