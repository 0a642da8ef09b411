//! The adapter socket: where processes become PEs and get their memory.
//!
//! One task per connection. The connection and, where the kernel gives one, a pidfd of the process that connected
//! are the PE's life line: when either ends without a goodbye, the PE is lost and its job ends.

use super::seqpacket::{Connection, Datagram, Listener, Peer, watch};
use super::strict_json;
use crate::ask::{ask, tell};
use crate::daemon::Daemon;
use crate::failure::failure;
use crate::hosts::protocol::{Ask, Tell};
use crate::jobs::job::Attached;
use crate::jobs::open::{Claim, Wish};
use crate::users::usage::{SpareFds, UserConnection};
use angara_abi::JobId;
use angara_abi::account::Load;
use angara_abi::job;
use angara_fabric::JobSlot;
use angara_plane::{Command, Reply};
use angara_plane::{JobMemory, PeFds, PeMemory};
use angara_protocol::msg::{AdapterReply, AdapterRequest, DATAGRAM_MAX, Failure, FdRole, LinkReport};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Accepts connections for ever.
pub(crate) async fn listen(daemon: Rc<Daemon>, listener: Listener) {
    let mut spare = SpareFds::new();
    loop {
        let (connection, short) = match spare.accept(|| listener.accept()).await {
            Ok(accepted) => accepted,
            Err(e) => {
                tracing::error!(error = %e, "cannot accept an adapter connection");
                tokio::time::sleep(super::PAUSE).await;
                continue;
            }
        };
        match admit(&daemon, &connection, short.then_some(&spare)) {
            Ok((connected, peer)) => {
                let daemon = daemon.clone();
                tokio::task::spawn_local(async move {
                    if let Err(e) = Client::serve(daemon, connection, connected, peer).await {
                        tracing::debug!(error = %e, "adapter connection ended");
                    }
                });
            }
            Err(f) => {
                let text = serde_json::to_vec(&AdapterReply::Error(f)).expect("messages are plain data");
                // A client that comes with full buffers is told nothing.
                let _ = connection.try_send(&text);
            }
        }
    }
}

/// Tells whether a new connection is served. `spare`: the descriptors kept, if this connection has taken one. A PE
/// needs more than the one, whoever's it is.
fn admit(
    daemon: &Daemon,
    connection: &Connection,
    spare: Option<&SpareFds>,
) -> Result<(UserConnection, Peer), Failure> {
    let peer = connection.peer().map_err(|e| failure(format!("the system does not say who you are: {e}"), ""))?;
    let uid = peer.uid;
    let admitted = spare.map_or(Ok(()), |spare| spare.admit(false));
    admitted.and_then(|()| daemon.enter(uid)).map(|connected| (connected, peer)).inspect_err(|f| {
        daemon.log_of(uid, |left_out| {
            tracing::warn!(uid, message = f.message, left_out, "adapter connection refused");
        });
    })
}

struct Client {
    daemon: Rc<Daemon>,
    connection: Rc<Connection>,
    uid: u32,
    pid: i32,
    /// Readable once the process has ended, also if a forked child keeps the connection open.
    process: Option<Rc<OwnedFd>>,
    seat: Option<Seat>,
    connected: UserConnection,
}

/// The PE a connection has become.
struct Seat {
    job: Weak<JobMemory>,
    pe: usize,
    /// It said goodbye.
    orderly: bool,
    /// It has asked to end the job, which is asked for once.
    aborted: bool,
}

impl Client {
    async fn serve(
        daemon: Rc<Daemon>,
        connection: Connection,
        connected: UserConnection,
        peer: Peer,
    ) -> io::Result<()> {
        let (uid, pid, process) = (peer.uid, peer.pid, peer.process.map(Rc::new));
        let mut client = Client { daemon, connection: Rc::new(connection), uid, pid, process, seat: None, connected };
        let result = client.converse().await;
        client.leave().await;
        result
    }

    async fn converse(&mut self) -> io::Result<()> {
        let end = match &self.process {
            Some(fd) => Some(watch(fd.clone(), Interest::READABLE)?),
            None => None,
        };
        let mut buffer = vec![0; DATAGRAM_MAX];
        loop {
            let connection = self.connection.clone();
            let datagram = tokio::select! {
                d = connection.receive(&mut buffer) => d?,
                () = ended(end.as_ref()) => return Ok(()),
            };
            let reply = match datagram {
                Datagram::End => return Ok(()),
                Datagram::TooLong => Err(failure(
                    format!("a message is longer than {DATAGRAM_MAX} bytes"),
                    "send one JSON request per datagram",
                )),
                Datagram::Descriptors(n) => Err(failure(
                    format!("a message came with {n} file descriptors; they were closed"),
                    "send none: all shared memory is made by the daemon",
                )),
                Datagram::Message(text) => match strict_json::from_slice(&text) {
                    Ok(request) => self.take_turn(request).await?,
                    Err(e) => Err(failure(
                        format!("this is not an adapter request: {e}"),
                        "check that client and daemon are of the same version",
                    )),
                },
            };
            match reply {
                Ok(None) => {}
                Ok(Some(reply)) => self.reply(&reply, &[]).await?,
                Err(f) => {
                    self.daemon.log_of(self.uid, |left_out| {
                        tracing::warn!(uid = self.uid, message = f.message, left_out, "adapter request refused");
                    });
                    self.reply(&AdapterReply::Error(f), &[]).await?;
                }
            }
        }
    }

    async fn reply(&self, reply: &AdapterReply, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.connection.send(&serde_json::to_vec(reply)?, fds).await
    }

    /// Answers when it is this user's turn.
    async fn take_turn(&mut self, request: AdapterRequest) -> io::Result<Result<Option<AdapterReply>, Failure>> {
        let user = self.connected.user.clone();
        // Closed by nobody. What waits for other hosts leaves its turn to others.
        let _turn = if self.daemon.cluster.messages.is_some() { None } else { user.turns.acquire().await.ok() };
        self.answer(request).await
    }

    /// Outer errors end the connection; inner ones are told to the client.
    async fn answer(&mut self, request: AdapterRequest) -> io::Result<Result<Option<AdapterReply>, Failure>> {
        if let AdapterRequest::Attach { abi, job, key, pe, statics } = request {
            return self.attach((abi, job, &key, pe), &statics).await.map(|r| r.map(|()| None));
        }
        if let AdapterRequest::Join { abi, domain, hint, heap, path } = request {
            return self.join(&Wish { abi, domain, hint, heap, path }).await.map(|r| r.map(|()| None));
        }
        let Some(seat) = self.seat.as_mut().filter(|s| !s.orderly) else {
            return Ok(Err(failure("this connection is not attached to a job", "send an attach request first")));
        };
        let Some(memory) = seat.job.upgrade().filter(|memory| self.daemon.has_job(memory)) else {
            return Ok(match request {
                AdapterRequest::Rest
                | AdapterRequest::Routines { .. }
                | AdapterRequest::Abort { .. }
                | AdapterRequest::Detach => Ok(Some(AdapterReply::Ok)),
                AdapterRequest::Links { .. } => Ok(Some(AdapterReply::Links { load: Load::NONE })),
                _ => Err(failure("the job has ended", "start another one with `angara run`")),
            });
        };
        let (job, slot, pe) = (memory.id, memory.slot, seat.pe);
        let done = match request {
            AdapterRequest::Attach { .. } | AdapterRequest::Join { .. } => unreachable!("handled above"),
            AdapterRequest::Rest if memory.open => Err("a process in a domain does not rest; it leaves".into()),
            AdapterRequest::Rest => {
                self.daemon.change_seat(job, pe, job::Seat::rest);
                Ok(AdapterReply::Ok)
            }
            AdapterRequest::Start => {
                return Ok(self.daemon.start_life(job, pe).map(|()| Some(AdapterReply::Ok)));
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
        Ok(done.map(Some).map_err(|why| failure(why, "use point-to-point collectives (--collectives p2p)")))
    }

    /// Makes this connection a PE, and sends what belongs to it.
    async fn attach(
        &mut self,
        (abi, id, key, pe): (u32, JobId, &str, u32),
        statics: &[u64],
    ) -> io::Result<Result<(), Failure>> {
        if let Err(f) = self.is_fresh() {
            return Ok(Err(f));
        }
        let (job, pe, fds) = match self.daemon.claim(self.uid, (abi, id, key, pe), statics) {
            Ok(claimed) => claimed,
            Err(f) => return Ok(Err(f)),
        };
        self.seat((&job, &pe), &fds, |fds| AdapterReply::Attached { fds }).await
    }

    /// Makes this connection a PE of an open job.
    async fn join(&mut self, wish: &Wish) -> io::Result<Result<(), Failure>> {
        if let Err(f) = self.is_fresh() {
            return Ok(Err(f));
        }
        let Claim { job, pe, fds, key } = match self.daemon.join(self.uid, wish).await {
            Ok(claim) => claim,
            Err(f) => return Ok(Err(f)),
        };
        let (id, pes, number, page) = (job.id, job.pes as u32, pe.pe, job.clone());
        let joined = |fds| {
            let generation = page.page.pe(number).seat.life();
            AdapterReply::Joined { job: id, key, pe: number as u32, pes, generation, fds }
        };
        self.seat((&job, &pe), &fds, joined).await
    }

    fn is_fresh(&self) -> Result<(), Failure> {
        match &self.seat {
            Some(seat) => {
                Err(failure(format!("this connection is PE {} already", seat.pe), "use one connection per PE"))
            }
            None => Ok(()),
        }
    }

    /// The connection is a PE from now on: what belongs to it is sent with an answer that names it.
    async fn seat(
        &mut self,
        (job, pe): (&Arc<JobMemory>, &Arc<PeMemory>),
        fds: &PeFds,
        answer: impl FnOnce(Vec<FdRole>) -> AdapterReply,
    ) -> io::Result<Result<(), Failure>> {
        self.seat = Some(Seat { job: Arc::downgrade(job), pe: pe.pe, orderly: false, aborted: false });
        let connection = self.connection.clone();
        let close = Box::new(move || connection.shutdown());
        let attached = Attached { close, process: self.process.clone(), pid: self.pid };
        let csr = match self.daemon.attach(job, pe, attached).await {
            Ok(csr) => csr,
            Err(f) => return Ok(Err(f)),
        };
        let mut roles = vec![FdRole::Job, FdRole::Targets, FdRole::Sync, FdRole::Heap];
        let mut send = vec![job.page_fd().as_fd(), fds.targets.as_fd(), job.sync_fd().as_fd(), job.heap_fd().as_fd()];
        if let Some(fd) = job.static_fd() {
            roles.push(FdRole::Static);
            send.push(fd.as_fd());
        }
        let rest = [
            (FdRole::Bounce, fds.bounce.as_fd()),
            (FdRole::Counters, pe.counters_fd().as_fd()),
            (FdRole::Csr, csr.as_fd()),
            (FdRole::ChannelPage, fds.channel.page.as_fd()),
            (FdRole::ChannelStatus, fds.channel.status.as_fd()),
            (FdRole::Ring, fds.channel.ring.as_fd()),
            (FdRole::Dma, fds.channel.dma.as_fd()),
            (FdRole::Doorbell, pe.doorbell.as_fd()),
        ];
        for (role, fd) in rest {
            roles.push(role);
            send.push(fd);
        }
        if let Some(fd) = &fds.clock {
            roles.push(FdRole::Clock);
            send.push(fd.as_fd());
        }
        self.reply(&answer(roles), &send).await?;
        Ok(Ok(()))
    }

    async fn leave(&mut self) {
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

/// Resolves when the process behind a pidfd has ended; never without one.
async fn ended(process: Option<&AsyncFd<Rc<OwnedFd>>>) {
    match process {
        // An error here means the descriptor cannot be watched; the socket still tells.
        Some(fd) => match fd.readable().await {
            Ok(_) => {}
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}
