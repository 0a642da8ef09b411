//! What the daemons of other hosts ask and tell, done.

use super::messages::{Incoming, TrunkState};
use super::protocol::{Answer, Ask, Message, Tell};
use crate::ask;
use crate::daemon::Daemon;
use crate::failure::failure;
use crate::jobs::job::{Owner, Program, other_architecture, unknown};
use crate::jobs::plan::placement::check_memory;
use crate::users::accounts;
use angara_abi::JobId;
use angara_abi::job::JobState;
use angara_fabric::JobSlot;
use angara_net::HostId;
use angara_plane::StaticsError;
use angara_plane::trunks::TrunkEvent;
use angara_plane::{Command, Reply};
use angara_protocol::msg::{Event, Failure};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;

/// How long the end of a job may take.
const ENDING: Duration = Duration::from_secs(2);

impl Daemon {
    /// Something came over a trunk, or became of one.
    pub(crate) fn take_trunk_event(self: &Rc<Self>, word: TrunkEvent) {
        let Some(messages) = &self.cluster.messages else { return };
        let came = match word {
            TrunkEvent::Message(neighbour, record) => {
                let before = messages.changes();
                let came = messages.receive(neighbour, &record);
                if messages.changes() == before {
                    return came.into_iter().for_each(|one| self.take_incoming(one));
                }
                came
            }
            TrunkEvent::Up(host, session) => {
                tracing::info!(host = messages.name(host), session, "trunk up");
                let since = Instant::now();
                messages.set_trunk(host, TrunkState { up: true, session, why: String::new(), since })
            }
            TrunkEvent::Down(host, why, silence) => {
                tracing::warn!(host = messages.name(host), why, ?silence, "trunk down");
                let session = messages.trunk(host).map_or(0, |s| s.session);
                messages.set_trunk(host, TrunkState { up: false, session, why, since: Instant::now() - silence })
            }
        };
        came.into_iter().for_each(|one| self.take_incoming(one));
        self.cluster.ballots.wake.notify_one();
    }

    fn take_incoming(self: &Rc<Self>, incoming: Incoming) {
        match incoming {
            Incoming::Message(host, message) => self.take_message(host, message),
            Incoming::Stream(host, id, data) => {
                if let Some(messages) =
                    self.cluster.messages.as_ref().filter(|_| !self.cluster.streams.data(host, id, data))
                {
                    messages.misunderstood(host, "more of a stream than was asked for");
                }
            }
            Incoming::Lost(host, why) => self.host_lost(host, why),
        }
    }

    fn take_message(self: &Rc<Self>, from: HostId, message: Message) {
        let Some(messages) = &self.cluster.messages else { return };
        match message {
            Message::Answer(id, answer) => messages.answered(from, id, answer),
            Message::Tell(tell) => self.take_tell(from, tell),
            Message::Ask(id, ask) => {
                let daemon = self.clone();
                tokio::task::spawn_local(async move {
                    let answer = daemon.answer_host(from, ask).await;
                    if let Some(messages) = &daemon.cluster.messages {
                        messages.say(from, &Message::Answer(id, answer));
                    }
                });
            }
        }
    }

    pub(crate) async fn answer_host(self: &Rc<Self>, from: HostId, question: Ask) -> Result<Answer, Failure> {
        match question {
            Ask::Reserve(new) => {
                let here = self.machine.user(new.uid).await;
                accounts::check_same(new.uid, new.user.as_deref(), here.as_deref())?;
                // The job before it in its slot may still be ending here.
                let until = Instant::now() + ENDING;
                while self.slot_taken(new.slot) && Instant::now() < until {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                let changing = self.cluster.ballots.held.get().is_some() || self.cluster.ballots.number() != new.number;
                if changing || self.overlaps(new.set.as_ref()) {
                    return Ok(Answer::Later);
                }
                let (endpoints, crowded, cores) = self.reserve(Some(from), new)?;
                Ok(Answer::Reserved { endpoints, crowded, cores })
            }
            Ask::Open(open) => self.open(Owner::nobody(), open).await.map(|()| Answer::Done),
            Ask::Report(id) => {
                let report = self.report(id).await.ok_or_else(|| unknown(id))?;
                Ok(Answer::Report(Box::new(report)))
            }
            Ask::Pairs(id, from, to) => self.pairs(id, (from, to)).await.map(Answer::Pairs).ok_or_else(|| unknown(id)),
            Ask::Waits(id) => self.waits(id).map(Answer::Waits).ok_or_else(|| unknown(id)),
            Ask::Seats(id) => self.seats_for(from, id).map(Answer::Seats).ok_or_else(|| unknown(id)),
            Ask::TreeLoad(id, tree, root, pes) => {
                let slot = self.slot_of(id).ok_or_else(|| unknown(id))?;
                let loaded = ask::ask(&self.data, |reply| Command::LoadTree { slot, tree, root, pes, reply }).await;
                let refused = |why: String| failure(why, "use point-to-point collectives (--collectives p2p)");
                match loaded {
                    Ok(Ok(())) => Ok(Answer::Done),
                    Ok(Err(why)) => Err(refused(why)),
                    Err(dead) => Err(refused(dead.to_string())),
                }
            }
            Ask::Lead(command, since) => self.lead(&command, since).await.map(|()| Answer::Done),
            Ask::Prepare(ballot) => Ok(self.prepare(ballot).await),
            Ask::Commit(commit) => Ok(self.commit(*commit).await),
            Ask::Impair(request) => self.impair_for_host(request).await.map(|()| Answer::Done),
            Ask::Forget(what) => self.forget_coming(&what).await.map(Answer::Forgot),
            Ask::Agent(id, stream) => self.start_agent(from, id, stream).await.map(|()| Answer::Done),
            Ask::Capture(uid, user, spec, stream) => {
                self.capture_for(from, (uid, user), &spec, stream).await.map(|()| Answer::Done)
            }
            Ask::Clock => Ok(Answer::Clock(self.machine.wall())),
            Ask::Links(since) => {
                self.tell_far(from, since).await.ok_or_else(|| failure("the data plane does not answer", "see its log"))
            }
            Ask::Link(link) => {
                let detail = self.link_detail(link).await;
                detail.map(Answer::Link).ok_or_else(|| failure(format!("there is no link {link} here"), ""))
            }
        }
    }

    pub(crate) fn slot_of(&self, id: JobId) -> Option<JobSlot> {
        self.jobs.table.borrow().get(&id).map(|j| j.memory.slot)
    }

    fn take_tell(self: &Rc<Self>, from: HostId, tell: Tell) {
        match tell {
            Tell::Close(id, named) => {
                self.forget_reservation(id);
                self.cluster.ballots.note_closed(id, named);
                let daemon = self.clone();
                tokio::task::spawn_local(async move { daemon.end_job(id).await });
            }
            Tell::Event(event) => self.take_event(from, event),
            Tell::Seat(id, pe, word) => self.take_seat(id, pe, word),
            Tell::Statics(id, architecture, statics) => {
                self.take_program(from, id, Program { architecture, statics: &statics });
            }
            Tell::TreeClose(id, tree) => {
                if let Some(slot) = self.slot_of(id) {
                    // Refused only if it is not the job's any more.
                    ask::tell(&self.data, Command::CloseTree((slot, id), tree, Reply::ignored()));
                }
            }
            Tell::StreamTaken(id, bytes) => self.cluster.streams.taken(from, id, bytes),
            Tell::StreamEnd(id) => self.cluster.streams.ended(from, id),
            Tell::Stuck(number) => self.stuck(from, number),
            Tell::Expelled => self.leave_cluster(),
        }
    }

    /// Something happened to a PE on another host.
    fn take_event(self: &Rc<Self>, from: HostId, event: Event) {
        let (id, lost) = match &event {
            Event::Abort { job, .. } | Event::HostLost { job, .. } => (*job, None),
            Event::PeLost { job, pe, .. } => (*job, Some(*pe as usize)),
            // Between a daemon and its own launchers.
            Event::DaemonEnds { .. } | Event::WentOn { .. } => return,
            Event::ChannelError { job, .. } => {
                if let Some(job) = self.jobs.table.borrow().get(job).filter(|job| !job.descriptor.over) {
                    job.tell(event);
                }
                return;
            }
        };
        let mut jobs = self.jobs.table.borrow_mut();
        let Some(job) = jobs.get_mut(&id) else { return };
        let host_lost = matches!(event, Event::HostLost { .. });
        if host_lost && job.memory.open {
            drop(jobs);
            return self.desert_seats(id, from);
        }
        if host_lost && job.descriptor.over {
            // Several hosts notice it, each in its own way.
            return;
        }
        if let (JobState::Running, Some(messages), Some(coordinator)) =
            (job.memory.page.state(), &self.cluster.messages, job.coordinator)
        {
            // PEs here end because of it: the launcher must hear why before it hears of them, and what was said to it
            // directly may be late.
            if coordinator != from {
                messages.tell(&[coordinator], &Tell::Event(event.clone()));
            }
        }
        if let Event::Abort { pe, status, orderly: true, .. } = event {
            job.memory.page.set_exit_status(status);
            self.exit_all(job.memory.clone(), pe as usize);
        }
        job.set_ended();
        job.descriptor.over |= host_lost;
        if let Some(pe) = lost {
            let slot = job.memory.slot;
            ask::tell(&self.data, Command::SetElsewhere(slot, pe, false, Reply::ignored()));
        }
        job.tell(event);
    }

    /// All PEs must have the same static data: the layout of the first one holds everywhere.
    fn take_program(&self, from: HostId, id: JobId, program: Program<'_>) {
        let mut jobs = self.jobs.table.borrow_mut();
        let Some(job) = jobs.get_mut(&id) else { return };
        let statics = job.statics_of(program);
        let stride = statics.iter().fold(0u64, |sum, s| sum.saturating_add(*s));
        let limits = self.machine.memory_limits(self.options.memory_limit);
        let room = match job.admit(program.architecture) {
            Ok(()) => check_memory(stride, job.memory.pes_here() as u32, &limits),
            Err(first) => Err(other_architecture("a PE there", program.architecture, id, first)),
        };
        let result = room.map_err(|f| f.message).and_then(|room| {
            job.memory.set_statics(statics, room).map_err(|e| match e {
                StaticsError::Mismatch(_) => "its PEs run a different executable than those here".into(),
                StaticsError::Malformed => "its static segments are not whole pages or too large".into(),
                StaticsError::Io(e) => format!("no memory for static data: {e}"),
            })
        });
        if let Err(why) = result {
            let host = self.cluster.messages.as_ref().map_or("?", |s| s.name(from));
            let reason = format!("host {host}: {why}; use the same executable on all hosts");
            job.set_ended();
            drop(jobs);
            self.spread(id, Event::Abort { job: id, pe: 0, status: 1, reason, orderly: false });
        }
    }
}
