//! The adapter socket: where processes become PEs and get their memory.
//!
//! One task per connection. The connection and, where the kernel gives one, a pidfd of the process that connected
//! are the PE's life line: when either ends without a goodbye, the PE is lost and its job ends.

use super::seqpacket::{Connection, Datagram, Listener, Peer, watch};
use super::strict_json;
use crate::daemon::Daemon;
use crate::failure::failure;
use crate::jobs::job::{Attached, Program};
use crate::jobs::member::{Member, Seat};
use crate::jobs::open::{Claim, Wish};
use crate::users::usage::{SpareFds, UserConnection};
use angara_abi::JobId;
use angara_plane::{JobMemory, PeFds, PeMemory, RegisterPage};
use angara_protocol::msg::{AdapterReply, AdapterRequest, DATAGRAM_MAX, Failure, FdRole};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
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
    member: Member,
    connection: Rc<Connection>,
    pid: i32,
    /// Readable once the process has ended, also if a forked child keeps the connection open.
    process: Option<Rc<OwnedFd>>,
    connected: UserConnection,
}

impl Client {
    async fn serve(
        daemon: Rc<Daemon>,
        connection: Connection,
        connected: UserConnection,
        peer: Peer,
    ) -> io::Result<()> {
        let (uid, pid, process) = (peer.uid, peer.pid, peer.process.map(Rc::new));
        let member = Member { daemon, uid, seat: None };
        let mut client = Client { member, connection: Rc::new(connection), pid, process, connected };
        let result = client.converse().await;
        client.member.leave().await;
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
                    self.member.daemon.log_of(self.member.uid, |left_out| {
                        tracing::warn!(uid = self.member.uid, message = f.message, left_out, "adapter request refused");
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
        let _turn = if self.member.daemon.cluster.messages.is_some() { None } else { user.turns.acquire().await.ok() };
        self.answer(request).await
    }

    /// Outer errors end the connection; inner ones are told to the client.
    async fn answer(&mut self, request: AdapterRequest) -> io::Result<Result<Option<AdapterReply>, Failure>> {
        if let AdapterRequest::Attach { abi, job, key, pe, architecture, statics } = request {
            let program = Program { architecture, statics: &statics };
            return self.attach((abi, job, &key, pe), program).await.map(|r| r.map(|()| None));
        }
        if let AdapterRequest::Join { abi, domain, hint, heap, registered, path } = request {
            return self.join(&Wish { abi, domain, hint, heap, registered, path }).await.map(|r| r.map(|()| None));
        }
        Ok(self.member.answer(request).await.map(Some))
    }

    /// Makes this connection a PE, and sends what belongs to it.
    async fn attach(
        &mut self,
        (abi, id, key, pe): (u32, JobId, &str, u32),
        program: Program<'_>,
    ) -> io::Result<Result<(), Failure>> {
        if let Err(f) = self.is_fresh() {
            return Ok(Err(f));
        }
        let (job, pe, fds) = match self.member.daemon.claim(self.member.uid, (abi, id, key, pe), program) {
            Ok(claimed) => claimed,
            Err(f) => return Ok(Err(f)),
        };
        self.seat((&job, &pe), fds.as_ref(), |fds| AdapterReply::Attached { fds }).await
    }

    /// Makes this connection a PE of an open job.
    async fn join(&mut self, wish: &Wish) -> io::Result<Result<(), Failure>> {
        if let Err(f) = self.is_fresh() {
            return Ok(Err(f));
        }
        let Claim { job, pe, fds, key } = match self.member.daemon.join(self.member.uid, wish).await {
            Ok(claim) => claim,
            Err(f) => return Ok(Err(f)),
        };
        let (id, pes, number, page) = (job.id, job.pes as u32, pe.pe, job.clone());
        let joined = |fds| {
            let generation = page.page.pe(number).seat.life();
            AdapterReply::Joined { job: id, key, pe: number as u32, pes, generation, fds }
        };
        self.seat((&job, &pe), fds.as_ref(), joined).await
    }

    fn is_fresh(&self) -> Result<(), Failure> {
        match &self.member.seat {
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
        fds: Option<&PeFds>,
        answer: impl FnOnce(Vec<FdRole>) -> AdapterReply,
    ) -> io::Result<Result<(), Failure>> {
        self.member.seat = Some(Seat::of(job, pe.pe));
        let connection = self.connection.clone();
        let close = Box::new(move || connection.shutdown());
        let attached = Attached { close, process: self.process.clone(), pid: self.pid };
        let csr = match self.member.daemon.attach(job, pe, attached).await {
            Ok(csr) => csr,
            Err(f) => return Ok(Err(f)),
        };
        let (Some(fds), Some(of_job), RegisterPage::File(csr), Some(counters), Some(doorbell)) =
            (fds, job.fds(), csr, pe.counters_fd(), &pe.doorbell)
        else {
            return Ok(Err(inside_only()));
        };
        let mut roles = vec![FdRole::Job, FdRole::Targets, FdRole::Sync, FdRole::Heap];
        let mut send = vec![of_job.page.as_fd(), fds.targets.as_fd(), of_job.sync.as_fd(), of_job.heap.as_fd()];
        if let Some(fd) = job.static_fd() {
            roles.push(FdRole::Static);
            send.push(fd.as_fd());
        }
        let rest = [
            (FdRole::Bounce, fds.bounce.as_fd()),
            (FdRole::Counters, counters.as_fd()),
            (FdRole::Csr, csr.as_fd()),
            (FdRole::ChannelPage, fds.channel.page.as_fd()),
            (FdRole::ChannelStatus, fds.channel.status.as_fd()),
            (FdRole::Ring, fds.channel.ring.as_fd()),
            (FdRole::Dma, fds.channel.dma.as_fd()),
            (FdRole::Doorbell, doorbell.as_fd()),
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
}

/// The PEs of this daemon are in its own process.
fn inside_only() -> Failure {
    failure(
        "the PEs of this run are coroutines of its daemon",
        "start the program with `angara run --pes-as processes`",
    )
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
