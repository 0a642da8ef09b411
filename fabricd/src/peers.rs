//! What the daemons of other hosts ask and tell, done.

use crate::daemon::Daemon;
use crate::dataplane::{TrunkFigures, Word};
use crate::job::Owner;
use crate::limits;
use crate::memory::StaticsError;
use crate::placement::{check_memory, failure};
use crate::span::{Answer, Ask, Incoming, Message, Standing, Tell};
use abi::job::JobState;
use abi::msg::{ClusterStatus, Event, Failure, Flow, PeerStatus};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long the end of a job may take.
const ENDING: Duration = Duration::from_secs(2);

impl Daemon {
    /// Something came over a trunk, or became of one.
    pub(crate) fn take_word(self: &Rc<Self>, word: Word) {
        let Some(span) = &self.span else { return };
        let came = match word {
            Word::Message(neighbour, record) => {
                let before = span.changes();
                let came = span.receive(neighbour, &record);
                if span.changes() == before {
                    return came.into_iter().for_each(|one| self.take_incoming(one));
                }
                came
            }
            Word::Up(host, epoch) => {
                tracing::info!(host = span.name(host), epoch, "trunk up");
                let since = Instant::now();
                span.set_standing(host, Standing { up: true, epoch, why: String::new(), since })
            }
            Word::Down(host, why, silence) => {
                tracing::warn!(host = span.name(host), why, ?silence, "trunk down");
                let epoch = span.standing(host).map_or(0, |s| s.epoch);
                span.set_standing(host, Standing { up: false, epoch, why, since: Instant::now() - silence })
            }
        };
        came.into_iter().for_each(|one| self.take_incoming(one));
        self.agreement.wake.notify_one();
    }

    fn take_incoming(self: &Rc<Self>, incoming: Incoming) {
        match incoming {
            Incoming::Message(host, message) => self.take_message(host, message),
            Incoming::Stream(host, id, data) => self.streams.data(host, id, data),
            Incoming::Lost(host, why) => self.host_lost(host, why),
        }
    }

    /// Nothing more comes from a host: jobs that were made there end here, and jobs with PEs there end everywhere.
    fn host_lost(self: &Rc<Self>, host: u16, why: &str) {
        let Some(span) = &self.span else { return };
        tracing::warn!(host = span.name(host), why, "host lost");
        self.streams.host_lost(host);
        let reserved: Vec<u32> = {
            let all = self.reservations.borrow();
            all.iter().filter(|(_, r)| r.home == Some(host)).map(|(id, _)| *id).collect()
        };
        reserved.into_iter().for_each(|id| self.forget_reservation(id));
        self.without_host(host, why);
        self.agreement.wake.notify_one();
    }

    /// Hosts have come or gone for the network.
    pub(crate) fn members_changed(self: &Rc<Self>) {
        let Some(span) = &self.span else { return };
        let members = self.agreement.agreed.borrow().members.clone();
        for job in self.jobs.borrow_mut().values_mut() {
            job.hosts = members.keys().copied().filter(|h| *h != span.me).collect();
        }
        for host in (0..span.hosts() as u16).filter(|h| !members.contains_key(h)) {
            self.without_host(host, "it takes no part in the network any more");
        }
    }

    /// Jobs go on without a host, if they can.
    fn without_host(self: &Rc<Self>, host: u16, why: &str) {
        let Some(span) = &self.span else { return };
        let (mut homeless, mut cut) = (Vec::new(), Vec::new());
        for (id, job) in self.jobs.borrow_mut().iter_mut() {
            if job.home == Some(host) {
                homeless.push(*id);
            } else if job.memory.entries.iter().any(|e| span.owners[e.node as usize] == host) {
                cut.push(*id);
            } else if job.hosts.contains(&host) {
                job.hosts.retain(|h| *h != host);
                let after = job.created.elapsed().as_secs_f64();
                if job.home.is_some() {
                    continue;
                }
                job.notes.push(format!(
                    "host {}, which passed packets on, was lost {after:.1} s after the job began ({why}); what its links carried is not counted",
                    span.name(host)
                ));
            }
        }
        for id in homeless {
            tracing::info!(job = id, host = span.name(host), "the host that started the job is lost");
            let daemon = self.clone();
            tokio::task::spawn_local(async move { daemon.end_job(id).await });
        }
        for id in cut {
            self.cut_off(id, host, why);
        }
    }

    /// This host leaves a job, which cannot go on if PEs are here.
    pub(crate) fn leave_job(&self, id: u32, why: &str) {
        let needed = self.jobs.borrow().get(&id).is_some_and(|j| j.memory.pes_here() > 0);
        if let Some(span) = self.span.as_ref().filter(|_| needed) {
            self.cut_off(id, span.me, why);
        }
    }

    /// A job cannot go on without a host.
    fn cut_off(&self, id: u32, host: u16, why: &str) {
        let Some(span) = &self.span else { return };
        let mut jobs = self.jobs.borrow_mut();
        let Some(job) = jobs.get_mut(&id).filter(|job| !job.card.over) else { return };
        job.card.over = true;
        let there = |e: &&abi::job::PeEntry| span.owners[e.node as usize] == host;
        let shape = self.options.shape;
        let nodes: Vec<String> = job.memory.entries.iter().filter(there).map(|e| shape.show(e.coords)).collect();
        let after = job.created.elapsed().as_secs_f64();
        let (me, name) = (span.name(span.me), span.name(host));
        let cause = match span.standing(host).filter(|s| !s.up) {
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
        tracing::warn!(job = id, host, reason, "job cut off");
        job.notes.push(format!("host {host} was lost: {reason}"));
        job.set_ended();
        drop(jobs);
        self.spread(id, Event::HostLost { job: id, host, reason });
    }

    /// This daemon's view of its cluster; `None` if it is of none.
    pub(crate) async fn cluster_status(&self) -> Option<ClusterStatus> {
        let span = self.span.as_ref()?;
        let agreed = self.agreement.agreed.borrow().clone();
        let (figures, strangers, engine) = self.data.call(|e| e.trunk_figures()).await.unwrap_or_default();
        let peer = |f: &TrunkFigures| {
            let s = &f.stats;
            let standing = span.standing(f.host);
            let flow = |datagrams, bytes| Flow { datagrams, bytes };
            let refused = [
                ("foreign", s.refused.foreign),
                ("unknown key", s.refused.key),
                ("old epoch", s.refused.epoch),
                ("forged", s.refused.tag),
                ("replayed", s.refused.replay),
                ("violation", s.refused.violation),
            ];
            PeerStatus {
                host: span.name(f.host).into(),
                via: span.via(f.host).filter(|via| *via != f.host).map(|via| span.name(via).into()),
                reached: span.is_up(f.host),
                member: agreed.members.contains_key(&f.host),
                address: f.address.to_string(),
                links: f.links as u32,
                up: f.up,
                since_s: standing.as_ref().map_or(0.0, |s| s.since.elapsed().as_secs_f64()),
                why: standing.as_ref().map_or(String::new(), |s| s.why.clone()),
                epoch: standing.map_or(0, |s| s.epoch as u64),
                rtt_us: s.rtt.as_secs_f64() * 1e6,
                loss: s.loss,
                mtu: s.mtu as u32,
                sent: flow(s.frames_sent, s.bytes_sent),
                received: flow(s.frames_received, s.bytes_received),
                replays: s.retransmissions,
                backlog: f.backlog as u64,
                nonsense: f.nonsense + span.nonsense(f.host),
                refused: refused.into_iter().filter(|r| r.1 > 0).map(|(why, n)| (why.to_string(), n)).collect(),
            }
        };
        let first = span.group().into_keys().next().unwrap_or(span.me);
        let joined = |a, b| agreed.edges.iter().any(|e| (e.0, e.1) == (a, b));
        let members: Vec<u16> = agreed.members.keys().copied().collect();
        let pairs = members.iter().flat_map(|a| members.iter().filter(move |b| a < b).map(move |b| (*a, *b)));
        let dead_trunks =
            pairs.filter(|(a, b)| !joined(*a, *b)).map(|(a, b)| [span.name(a).into(), span.name(b).into()]);
        Some(ClusterStatus {
            file: span.member.cluster.path.display().to_string(),
            host: span.name(span.me).into(),
            epoch: self.epoch,
            at_us: self.started.elapsed().as_micros() as u64,
            engine,
            peers: figures.iter().map(peer).collect(),
            strangers,
            change: agreed.number,
            decides: span.name(first).into(),
            holding_s: self.agreement.held.get().map(|since| since.elapsed().as_secs_f64()),
            settled: self.is_settled(),
            dead_trunks: dead_trunks.collect(),
        })
    }

    fn take_message(self: &Rc<Self>, from: u16, message: Message) {
        let Some(span) = &self.span else { return };
        match message {
            Message::Answer(id, answer) => span.answered(from, id, answer),
            Message::Tell(tell) => self.take_tell(from, tell),
            Message::Ask(id, ask) => {
                let daemon = self.clone();
                tokio::task::spawn_local(async move {
                    let answer = daemon.answer_host(from, ask).await;
                    if let Some(span) = &daemon.span {
                        span.say(from, &Message::Answer(id, answer));
                    }
                });
            }
        }
    }

    pub(crate) async fn answer_host(self: &Rc<Self>, from: u16, ask: Ask) -> Result<Answer, Failure> {
        match ask {
            Ask::Reserve(new) => {
                crate::user::check_same(new.uid, new.user.as_deref()).await?;
                // The job before it in its slot may still be ending here.
                let until = Instant::now() + ENDING;
                while self.slot_taken(new.slot) && Instant::now() < until {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                if self.agreement.held.get().is_some() || self.agreement.number() != new.number {
                    return Ok(Answer::Later);
                }
                let (endpoints, crowded, cores) = self.reserve(Some(from), new)?;
                Ok(Answer::Reserved { endpoints, crowded, cores })
            }
            Ask::Open(open) => self.open(Owner::elsewhere(), open).await.map(|()| Answer::Done),
            Ask::Report(id) => {
                let report = self.report(id).await.ok_or_else(|| unknown(id))?;
                Ok(Answer::Report(Box::new(report)))
            }
            Ask::Waits(id) => self.waits(id).map(Answer::Waits).ok_or_else(|| unknown(id)),
            Ask::TreeLoad(id, tree, root, pes) => {
                let slot = self.slot_of(id).ok_or_else(|| unknown(id))?;
                let loaded = self.data.call(move |e| e.tree_load(slot, tree, root as usize, &pes)).await;
                let refused = |why: String| failure(why, "use point-to-point collectives (--collectives p2p)");
                match loaded {
                    Ok(Ok(())) => Ok(Answer::Done),
                    Ok(Err(why)) => Err(refused(why)),
                    Err(dead) => Err(refused(dead.to_string())),
                }
            }
            Ask::Lead(text, since) => self.lead(&text, since).await.map(|()| Answer::Done),
            Ask::Hold(ballot) => Ok(self.hold(ballot).await),
            Ask::Mend(order) => Ok(self.mend(*order).await),
            Ask::Impair(favour) => self.do_favour(favour).await.map(|()| Answer::Done),
            Ask::Forget(text) => self.forget_coming(&text).await.map(Answer::Forgot),
            Ask::Agent(id, stream) => self.start_agent(from, id, stream).await.map(|()| Answer::Done),
        }
    }

    pub(crate) fn slot_of(&self, id: u32) -> Option<u16> {
        self.jobs.borrow().get(&id).map(|j| j.memory.slot)
    }

    fn take_tell(self: &Rc<Self>, from: u16, tell: Tell) {
        match tell {
            Tell::Close(id, named) => {
                self.forget_reservation(id);
                self.agreement.note_closed(id, named);
                let daemon = self.clone();
                tokio::task::spawn_local(async move { daemon.end_job(id).await });
            }
            Tell::Event(event) => self.take_event(from, event),
            Tell::Attached(id, pe, on) => {
                if let Some(job) = self.jobs.borrow().get(&id).filter(|j| (pe as usize) < j.memory.pes) {
                    job.memory.page.set_attached(pe as usize, on);
                }
            }
            Tell::Statics(id, segments) => self.take_statics(from, id, &segments),
            Tell::TreeClose(id, tree) => {
                if let Some(slot) = self.slot_of(id) {
                    // Refused only if it is not the job's any more.
                    self.data.spawn(move |engine| drop(engine.tree_close(slot, tree)));
                }
            }
            Tell::StreamTaken(id, bytes) => self.streams.taken(from, id, bytes),
            Tell::StreamEnd(id) => self.streams.ended(from, id),
            Tell::Stuck(number) => self.stuck(from, number),
            Tell::Expelled => self.leave_cluster(),
        }
    }

    /// Something happened to a PE on another host.
    fn take_event(&self, from: u16, event: Event) {
        let (id, lost) = match &event {
            Event::Abort { job, .. } | Event::HostLost { job, .. } => (*job, None),
            Event::PeLost { job, pe, .. } => (*job, Some(*pe as usize)),
            // Between a daemon and its own launchers.
            Event::DaemonEnds { .. } => return,
            Event::ChannelError { job, .. } => {
                if let Some(job) = self.jobs.borrow().get(job).filter(|job| !job.card.over) {
                    job.tell(event);
                }
                return;
            }
        };
        let mut jobs = self.jobs.borrow_mut();
        let Some(job) = jobs.get_mut(&id) else { return };
        let host_lost = matches!(event, Event::HostLost { .. });
        if host_lost && job.card.over {
            // Several hosts notice it, each in its own way.
            return;
        }
        if let (JobState::Running, Some(span), Some(home)) = (job.memory.page.state(), &self.span, job.home) {
            // PEs here end because of it: the launcher must hear why before it hears of them, and what was said to it
            // directly may be late.
            if home != from {
                span.tell(&[home], &Tell::Event(event.clone()));
            }
        }
        job.set_ended();
        job.card.over |= host_lost;
        if let Some(pe) = lost {
            let slot = job.memory.slot;
            self.data.spawn(move |engine| engine.lost_elsewhere(slot, pe));
        }
        job.tell(event);
    }

    /// All PEs must have the same static data: the layout of the first one holds everywhere.
    fn take_statics(&self, from: u16, id: u32, segments: &[u64]) {
        let jobs = self.jobs.borrow();
        let Some(job) = jobs.get(&id) else { return };
        let stride = segments.iter().fold(0u64, |sum, s| sum.saturating_add(*s));
        let limits = limits::memory_limits(self.options.memory_limit);
        let room = check_memory(stride, job.memory.pes_here() as u32, &limits).map_err(|f| f.message);
        let result = room.and_then(|room| {
            job.memory.set_statics(segments, room).map_err(|e| match e {
                StaticsError::Mismatch(_) => "its PEs run a different executable than those here".into(),
                StaticsError::Malformed => "its static segments are not whole pages or too large".into(),
                StaticsError::Io(e) => format!("no memory for static data: {e}"),
            })
        });
        if let Err(why) = result {
            let host = self.span.as_ref().map_or("?", |s| s.name(from));
            let reason = format!("host {host}: {why}; use the same executable on all hosts");
            job.set_ended();
            drop(jobs);
            self.spread(id, Event::Abort { job: id, pe: 0, status: 1, reason });
        }
    }
}

impl Owner {
    /// Of a job that was created on another host.
    pub(crate) fn elsewhere() -> Owner {
        Owner { connection: 0, pid: None, lines: mpsc::channel(1).0 }
    }
}

fn list(nodes: &[String]) -> String {
    let shown = nodes.iter().take(8).map(|n| format!("({n})")).collect::<Vec<_>>().join(" ");
    if nodes.len() > 8 { format!("{shown} and {} more", nodes.len() - 8) } else { shown }
}

pub(crate) fn unknown(id: u32) -> Failure {
    failure(format!("there is no job {id} here"), "see `angara status` for the jobs that run")
}
