//! From the tasks that serve connections to the daemon: questions, through a queue that takes only N.

use super::answers::{link_json, number_of, past_json};
use super::faults::faults_json;
use super::waits::waits_json;
use crate::ask::ask;
use crate::daemon::Daemon;
use crate::failure::failure;
use crate::hosts::messages::HostMessages;
use crate::hosts::protocol as hosts;
use crate::metrics::Scrape;
use angara_fabric::Link;
use angara_net::NodeSet;
use angara_net::torus::{NodeId, Shape};
use angara_plane::Command;
use angara_protocol::msg::Failure;
use serde::Serialize;
use serde_json::Value;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Questions that wait.
const WAITING: usize = 64;
/// How long another host may take to say what is open of a link.
const PATIENCE: Duration = Duration::from_secs(2);

/// Least time between two looks at what PEs wait for.
const WAITS_AGAIN: Duration = Duration::from_millis(300);

type Answer<T> = oneshot::Sender<T>;

/// A question.
pub(crate) enum Ask {
    /// Everything, for metrics.
    Scrape(Answer<Option<Scrape>>),
    /// What does not change.
    Network(Answer<Network>),
    /// What a link carried, and what of it is in use; else why that is not known.
    Link(Link, Answer<Result<Value, Failure>>),
    /// Where the PEs of a job are.
    Job(u64, Answer<Option<Vec<NodeId>>>),
    /// What is kept of the past: frames after the one of this number, steps after this time.
    Past(u64, f64, Answer<Value>),
    /// Which nodes a job has for itself, if any.
    Set(u64, Answer<Option<NodeSet>>),
    /// What is in force, and where it comes from.
    Faults(Answer<Option<Value>>),
    /// What the PEs of a job wait for.
    Waits(u64, Answer<Option<Value>>),
    /// Make or end a fault.
    Fault(String, Answer<Result<(), Failure>>),
}

/// What does not change while a daemon lives.
#[derive(Debug, Serialize)]
pub(crate) struct Network {
    pub(crate) version: &'static str,
    pub(crate) shape: Shape,
    /// Sizes of the dimensions.
    pub(crate) dims: Vec<u8>,
    pub(crate) torus: bool,
    /// Picoseconds that a flit takes on a link.
    pub(crate) flit_ps: f64,
    /// Second of the daemon's start, since 1970.
    pub(crate) start: u64,
    /// Hosts by name, this one first if there is no cluster.
    pub(crate) hosts: Vec<String>,
    /// Which of them is this one.
    pub(crate) here: usize,
    /// Which of them each node is on; empty if there is one.
    pub(crate) owners: Vec<usize>,
}

/// Where questions go.
#[derive(Clone)]
pub(crate) struct Asker(mpsc::Sender<Ask>);

impl Asker {
    /// The answer; `None` if the daemon has too much to answer, or ends.
    pub(crate) async fn ask<T>(&self, question: impl FnOnce(Answer<T>) -> Ask) -> Option<T> {
        let (tell, told) = oneshot::channel();
        self.0.try_send(question(tell)).ok()?;
        told.await.ok()
    }
}

/// Both ends of a queue.
pub(crate) fn queue() -> (Asker, mpsc::Receiver<Ask>) {
    let (to, from) = mpsc::channel(WAITING);
    (Asker(to), from)
}

/// Answers, each question in its own time.
pub(crate) async fn answer_all(daemon: Rc<Daemon>, mut asked: mpsc::Receiver<Ask>) {
    while let Some(ask) = asked.recv().await {
        let daemon = daemon.clone();
        tokio::task::spawn_local(async move { answer(&daemon, ask).await });
    }
}

/// Whoever asked may have gone.
async fn answer(daemon: &Rc<Daemon>, ask: Ask) {
    match ask {
        Ask::Scrape(tell) => {
            let scrape = daemon.look().await.ok().map(|sample| Scrape {
                sample,
                shape: daemon.options.shape,
                nodes_here: daemon.hosted.len(),
                links: daemon.options.looks.links,
                start: daemon.start,
            });
            let _ = tell.send(scrape);
        }
        Ask::Network(tell) => drop(tell.send(network(daemon))),
        Ask::Link(link, tell) => drop(tell.send(daemon.far_link(link).await)),
        Ask::Job(number, tell) => {
            let jobs = daemon.jobs.table.borrow();
            let job = jobs.iter().find(|(id, _)| number_of(**id) == number);
            let ended = || {
                let past = daemon.watcher.past.borrow();
                past.jobs.iter().rev().find(|job| job.job == number).map(|job| job.placement.clone())
            };
            let _ = tell.send(job.map(|(_, job)| job.placement()).or_else(ended));
        }
        Ask::Past(after, since, tell) => {
            let now = daemon.started.elapsed().as_secs_f64();
            let _ = tell.send(past_json(&daemon.watcher.past.borrow(), after, since, now));
        }
        Ask::Set(number, tell) => {
            let jobs = daemon.jobs.table.borrow();
            let job = jobs.iter().find(|(id, _)| number_of(**id) == number);
            let _ = tell.send(job.and_then(|(_, job)| job.descriptor.new.set.clone()));
        }
        Ask::Faults(tell) => {
            // Whoever has just set one wants to see it.
            daemon.look_again().await;
            let sample = daemon.look().await.ok();
            let _ = tell.send(sample.map(|sample| faults_json(&sample, &daemon.ledger, &daemon.options.shape)));
        }
        Ask::Waits(number, tell) => drop(tell.send(daemon.web_waits(number).await)),
        Ask::Fault(text, tell) => drop(tell.send(daemon.set_fault(&text).await)),
    }
}

impl Daemon {
    /// What the PEs of a job wait for. Whoever else has asked a moment ago has asked for all.
    async fn web_waits(&self, number: u64) -> Option<Value> {
        let mut seen = self.watcher.waits.lock().await;
        if let Some((of, at, said)) = &*seen
            && *of == number
            && at.elapsed() < WAITS_AGAIN
        {
            return Some(said.clone());
        }
        let (id, pes) = {
            let jobs = self.jobs.table.borrow();
            let (id, job) = jobs.iter().find(|(id, _)| number_of(**id) == number)?;
            (*id, job.memory.pes)
        };
        self.ask_for_waits().await;
        let waits = self.all_waits(id).await?;
        let taken: Vec<u32> = {
            let jobs = self.jobs.table.borrow();
            let page = &jobs.get(&id)?.memory.page;
            (0..pes).filter(|pe| page.pe(*pe).seat.taken()).map(|pe| pe as u32).collect()
        };
        let said = waits_json(pes as u32, &taken, waits);
        *seen = Some((number, Instant::now(), said.clone()));
        Some(said)
    }

    /// Returns what is open of a link of this host, by its number.
    pub(crate) async fn link_detail(&self, link: u32) -> Option<Value> {
        let link = Link::from_index(link as usize);
        if !self.hosted.contains(&link.node) || !link.exists(&self.options.shape) {
            return None;
        }
        ask(&self.data, |reply| Command::WatchLink(link, reply)).await.ok().map(|detail| link_json(&detail))
    }

    /// The same, of any link: the host whose node sends over it knows.
    async fn far_link(&self, link: Link) -> Result<Value, Failure> {
        let number = link.index() as u32;
        let owner = |messages: &HostMessages| messages.owners.get(link.node as usize).copied();
        let Some((messages, host)) =
            self.cluster.messages.as_ref().and_then(|m| Some((m, owner(m).filter(|h| *h != m.me)?)))
        else {
            return self.link_detail(number).await.ok_or_else(|| failure("the data plane has ended", ""));
        };
        match messages.ask_within(host, hosts::Ask::Link(number), PATIENCE).await? {
            hosts::Answer::Link(detail) => Ok(detail),
            _ => Err(messages.unreachable(host, "it answers something else")),
        }
    }
}

fn network(daemon: &Daemon) -> Network {
    let shape = daemon.options.shape;
    let own = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let (hosts, here, owners) = match &daemon.cluster.messages {
        None => (vec![own()], 0, Vec::new()),
        Some(messages) => {
            let hosts = messages.member.cluster.hosts.iter().map(|host| host.name.clone()).collect();
            (hosts, messages.me.index(), messages.owners.iter().map(|host| host.index()).collect())
        }
    };
    Network {
        version: env!("CARGO_PKG_VERSION"),
        shape,
        dims: shape.dims().to_vec(),
        torus: shape.is_torus(),
        flit_ps: daemon.options.params.link_flit.num as f64 / daemon.options.params.link_flit.den as f64,
        start: daemon.start,
        hosts,
        here,
        owners,
    }
}
