//! From the tasks that serve connections to the daemon: questions, through a queue that takes only so many.

use crate::daemon::Daemon;
use crate::dataplane::LinkDetail;
use crate::metrics::Scrape;
use angara_abi::JobId;
use angara_abi::msg::Failure;
use angara_abi::torus::{NodeId, Shape};
use angara_fabric::Link;
use serde::Serialize;
use std::rc::Rc;
use tokio::sync::{mpsc, oneshot};

/// Questions that wait.
const WAITING: usize = 64;

type Answer<T> = oneshot::Sender<T>;

/// A question.
pub(crate) enum Ask {
    /// Everything, for metrics.
    Scrape(Answer<Option<Scrape>>),
    /// What does not change.
    Network(Answer<Network>),
    /// What a link carried, and what of it is in use.
    Link(Link, Answer<LinkDetail>),
    /// Where the PEs of a job are.
    Job(u64, Answer<Option<Vec<NodeId>>>),
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
        Ask::Link(link, tell) => {
            if let Ok(detail) = daemon.data.call(move |engine| engine.watch_link(link)).await {
                let _ = tell.send(detail);
            }
        }
        Ask::Job(number, tell) => {
            let jobs = daemon.jobs.borrow();
            let job = jobs.iter().find(|(id, _)| number_of(**id) == number);
            let _ = tell.send(job.map(|(_, job)| job.placement()));
        }
        Ask::Fault(text, tell) => drop(tell.send(daemon.set_fault(&text).await)),
    }
}

/// As it is shown.
pub(crate) fn number_of(job: JobId) -> u64 {
    job.number().into()
}

fn network(daemon: &Daemon) -> Network {
    let shape = daemon.options.shape;
    let own = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let (hosts, here, owners) = match &daemon.messages {
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
        start: daemon.start,
        hosts,
        here,
        owners,
    }
}
