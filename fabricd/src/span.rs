//! The daemons of a cluster among themselves: messages on channel 0 of the trunks.
//!
//! A trunk authenticates its peer and delivers every message once and in order, so there is no further
//! handshake. A message is JSON ([`Message`]) or a piece of a byte stream ([`crate::streams`]); long ones
//! are cut into records. A host whose trunk goes down fails every question it was asked.

use crate::agree::Change;
use crate::config::Membership;
use crate::dataplane::Handle;
use crate::impair::Favour;
use crate::placement::failure;
use abi::job::Barrier;
use abi::msg::{Event, Failure, JobSpec, Report, Wait};
use abi::torus::NodeId;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long another daemon may take to answer.
const ANSWER: Duration = Duration::from_secs(20);
/// Largest record of a message.
const PIECE: usize = 32 * 1024;
/// Longest message another daemon may send.
const MESSAGE_MAX: usize = 64 << 20;
/// First byte of a record: more of the message follows, or this is its end.
const MORE: u8 = 1;
const LAST: u8 = 0;
/// First byte of a message.
const JSON: u8 = 0;
const STREAM: u8 = 1;

/// What daemons say to each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Message {
    /// A question, answered by [`Message::Answer`] with the same number.
    Ask(u64, Ask),
    /// The answer.
    Answer(u64, Result<Answer, Failure>),
    /// No answer is expected.
    Tell(Tell),
}

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// First phase of a new job: take what its PEs on your nodes need.
    Reserve(NewJob),
    /// Second phase: every host could, so open it.
    Open(OpenJob),
    /// Traffic of a job, as you have counted it.
    Report(u32),
    /// What your PEs of a job wait for.
    Waits(u32),
    /// Load a tree of a job: (job, tree, root, PEs).
    TreeLoad(u32, u8, u32, Vec<u32>),
    /// Make this change of faults everywhere: you decide the order.
    Lead(Change),
    /// Make this change, after so many route changes.
    Change(u64, Change),
    /// Have these faults in force and no others, and so many route changes behind you.
    Adopt(u64, Vec<String>),
    /// Do this to your trunks.
    Impair(Favour),
    /// Start the launcher's other half for your PEs of a job; its input and output are this stream.
    Agent(u32, u64),
}

/// A job about to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NewJob {
    pub(crate) id: u32,
    pub(crate) slot: u16,
    pub(crate) generation: u16,
    pub(crate) uid: u32,
    /// Name of that user, where the job was asked for.
    pub(crate) user: Option<String>,
    pub(crate) key: String,
    pub(crate) spec: JobSpec,
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) heap_stride: u64,
    /// Route changes so far, which must be the same on all hosts.
    pub(crate) epoch: u64,
}

/// What is known when every host has reserved its share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenJob {
    pub(crate) id: u32,
    /// Endpoint of each PE.
    pub(crate) endpoints: Vec<u16>,
    pub(crate) barrier: Barrier,
    /// Hosts that know the job.
    pub(crate) hosts: Vec<u16>,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    Done,
    Reserved {
        /// Endpoint of each PE that lives there, in order of PE.
        endpoints: Vec<u16>,
        crowded: bool,
        core_offset: u32,
    },
    Report(Box<Report>),
    Waits(Vec<Wait>),
}

/// A statement.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Tell {
    /// A job is over, or will not be.
    Close(u32),
    /// Something happened to a PE of mine that ends the job or concerns its owner.
    Event(Event),
    /// PE of mine came (true) or went.
    Attached(u32, u32, bool),
    /// Static segments of the first PE of mine.
    Statics(u32, Vec<u64>),
    /// A tree of a job is given back.
    TreeClose(u32, u8),
    /// So many bytes of a stream were taken.
    StreamTaken(u64, u32),
    /// No more bytes will come on this stream.
    StreamEnd(u64),
}

/// What came from another host, put together.
pub(crate) enum Incoming {
    Message(Message),
    Stream(u64, Vec<u8>),
}

/// State of a trunk, as the control plane knows it.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) up: bool,
    pub(crate) epoch: u32,
    pub(crate) why: String,
    pub(crate) since: Instant,
}

/// Whom a question was asked, and who waits for the answer.
type Asked = (u16, oneshot::Sender<Result<Answer, Failure>>);

/// Everything about the other hosts.
pub(crate) struct Span {
    pub(crate) member: Membership,
    pub(crate) me: u16,
    pub(crate) owners: Vec<u16>,
    data: Handle,
    standings: RefCell<BTreeMap<u16, Standing>>,
    /// Questions under way, by number.
    waiting: RefCell<BTreeMap<u64, Asked>>,
    pieces: RefCell<BTreeMap<u16, Vec<u8>>>,
    next: Cell<u64>,
}

impl Span {
    pub(crate) fn new(member: Membership, data: Handle) -> Span {
        let (me, hosts) = (member.host as u16, member.cluster.hosts.len() as u16);
        let standing = Standing { up: false, epoch: 0, why: "not heard of yet".into(), since: Instant::now() };
        Span {
            owners: member.cluster.owners().into_iter().map(|h| h as u16).collect(),
            standings: RefCell::new((0..hosts).filter(|h| *h != me).map(|h| (h, standing.clone())).collect()),
            waiting: RefCell::default(),
            pieces: RefCell::default(),
            next: Cell::new(1),
            me,
            member,
            data,
        }
    }

    pub(crate) fn name(&self, host: u16) -> &str {
        self.member.cluster.hosts.get(host as usize).map_or("?", |h| &h.name)
    }
    pub(crate) fn index(&self, name: &str) -> Option<u16> {
        self.member.cluster.hosts.iter().position(|h| h.name == name).map(|h| h as u16)
    }
    /// Number of hosts.
    pub(crate) fn hosts(&self) -> usize {
        self.member.cluster.hosts.len()
    }
    pub(crate) fn standing(&self, host: u16) -> Option<Standing> {
        self.standings.borrow().get(&host).cloned()
    }
    pub(crate) fn is_up(&self, host: u16) -> bool {
        host == self.me || self.standings.borrow().get(&host).is_some_and(|s| s.up)
    }
    /// The other hosts that answer.
    pub(crate) fn others_up(&self) -> Vec<u16> {
        self.standings.borrow().iter().filter(|(_, s)| s.up).map(|(h, _)| *h).collect()
    }
    /// A host that does not answer, and why.
    pub(crate) fn first_down(&self) -> Option<(u16, String)> {
        self.standings.borrow().iter().find(|(_, s)| !s.up).map(|(h, s)| (*h, s.why.clone()))
    }
    /// Nodes of hosts that answer, this one's included.
    pub(crate) fn nodes_up(&self) -> Vec<NodeId> {
        (0..self.owners.len() as NodeId).filter(|n| self.is_up(self.owners[*n as usize])).collect()
    }
    /// A number no other host uses.
    pub(crate) fn fresh(&self) -> u64 {
        let n = self.next.replace(self.next.get() + 1);
        n * self.hosts() as u64 + self.me as u64
    }

    /// Notes what became of a trunk. What was asked over one that is down fails now.
    pub(crate) fn set_standing(&self, host: u16, standing: Standing) {
        let lost = !standing.up;
        let why = standing.why.clone();
        self.standings.borrow_mut().insert(host, standing);
        if !lost {
            return;
        }
        self.pieces.borrow_mut().remove(&host);
        let mut waiting = self.waiting.borrow_mut();
        let asked: Vec<u64> = waiting.iter().filter(|(_, (h, _))| *h == host).map(|(id, _)| *id).collect();
        for id in asked {
            if let Some((_, sender)) = waiting.remove(&id) {
                // Who asked may have given up.
                let _ = sender.send(Err(self.unreachable(host, &why)));
            }
        }
    }

    pub(crate) fn unreachable(&self, host: u16, why: &str) -> Failure {
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        failure(
            format!("host {} does not answer{why}", self.name(host)),
            "see `angara cluster status`; check its fabricd, its network and its keys",
        )
    }

    /// Asks another daemon.
    pub(crate) async fn ask(&self, host: u16, ask: Ask) -> Result<Answer, Failure> {
        if let Some(standing) = self.standing(host).filter(|s| !s.up) {
            return Err(self.unreachable(host, &standing.why));
        }
        let id = self.fresh();
        let (tx, rx) = oneshot::channel();
        self.waiting.borrow_mut().insert(id, (host, tx));
        self.say(host, &Message::Ask(id, ask));
        let answer = tokio::time::timeout(ANSWER, rx).await;
        self.waiting.borrow_mut().remove(&id);
        match answer {
            Ok(Ok(answer)) => answer,
            _ => Err(self.unreachable(host, &format!("no answer within {} s", ANSWER.as_secs()))),
        }
    }

    /// An answer came.
    pub(crate) fn answered(&self, from: u16, id: u64, answer: Result<Answer, Failure>) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.get(&id).is_some_and(|(host, _)| *host == from)
            && let Some((_, sender)) = waiting.remove(&id)
        {
            // Who asked may have given up.
            let _ = sender.send(answer);
        }
    }

    /// Says something to each of `hosts`.
    pub(crate) fn tell(&self, hosts: &[u16], tell: &Tell) {
        for host in hosts {
            self.say(*host, &Message::Tell(tell.clone()));
        }
    }

    pub(crate) fn say(&self, host: u16, message: &Message) {
        let mut bytes = vec![JSON];
        match serde_json::to_writer(&mut bytes, message) {
            Ok(()) => self.send(host, bytes),
            Err(e) => tracing::error!(error = %e, "cannot encode a message to another host"),
        }
    }

    /// Sends a piece of a stream.
    pub(crate) fn stream(&self, host: u16, stream: u64, data: &[u8]) {
        let mut bytes = Vec::with_capacity(9 + data.len());
        bytes.push(STREAM);
        bytes.extend_from_slice(&stream.to_le_bytes());
        bytes.extend_from_slice(data);
        self.send(host, bytes);
    }

    fn send(&self, host: u16, message: Vec<u8>) {
        self.data.spawn(move |engine| {
            let mut pieces = message.chunks(PIECE).peekable();
            let mut record = Vec::with_capacity(PIECE + 1);
            while let Some(piece) = pieces.next() {
                record.clear();
                record.push(if pieces.peek().is_some() { MORE } else { LAST });
                record.extend_from_slice(piece);
                engine.tell(host, &record);
            }
        });
    }

    /// Takes a record; what it completed.
    pub(crate) fn receive(&self, host: u16, record: &[u8]) -> Option<Incoming> {
        let (more, piece) = record.split_first()?;
        let mut all = self.pieces.borrow_mut();
        let message = all.entry(host).or_default();
        if message.len() + piece.len() > MESSAGE_MAX {
            tracing::warn!(host = self.name(host), "a message longer than {MESSAGE_MAX} bytes was dropped");
            message.clear();
            return None;
        }
        message.extend_from_slice(piece);
        if *more == MORE {
            return None;
        }
        let message = std::mem::take(message);
        drop(all);
        match message.split_first() {
            Some((&JSON, json)) => match serde_json::from_slice(json) {
                Ok(message) => Some(Incoming::Message(message)),
                Err(e) => {
                    tracing::warn!(host = self.name(host), error = %e, "a message was not understood; are all daemons of one version?");
                    None
                }
            },
            Some((&STREAM, rest)) => {
                let (id, data) = rest.split_first_chunk::<8>()?;
                Some(Incoming::Stream(u64::from_le_bytes(*id), data.to_vec()))
            }
            _ => None,
        }
    }
}
