//! The adapter socket: where processes become PEs and get their memory.
//!
//! One task per connection. The connection and a pidfd of the process are the PE's life line: when
//! either ends without a goodbye, the PE is lost and its job ends.

use crate::daemon::Daemon;
use crate::job::{Attached, Job, PeState, show_segments};
use crate::limits;
use crate::memory::{JobMemory, PeFds, PeMemory, StaticsError};
use crate::placement::{check_memory, failure};
use crate::seqpacket::{Connection, Datagram, Listener, watch};
use crate::span::{Ask, Tell};
use crate::strict;
use abi::ABI_VERSION;
use abi::account::Load;
use abi::msg::{AdapterReply, AdapterRequest, DATAGRAM_MAX, Event, Failure, FdRole, LinkReport};
use rustix::process::{PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Most symmetric static segments of one executable.
const SEGMENTS_MAX: usize = 64;
/// Longest abort reason that is passed on.
const REASON_MAX: usize = 1024;

/// Accepts connections for ever.
pub(crate) async fn listen(daemon: Rc<Daemon>, listener: Listener) {
    loop {
        match listener.accept().await {
            Ok(connection) => {
                let daemon = daemon.clone();
                tokio::task::spawn_local(async move {
                    if let Err(e) = Client::serve(daemon, connection).await {
                        tracing::debug!(error = %e, "adapter connection ended");
                    }
                });
            }
            Err(e) => {
                tracing::error!(error = %e, "cannot accept an adapter connection");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

struct Client {
    daemon: Rc<Daemon>,
    connection: Rc<Connection>,
    uid: u32,
    pid: i32,
    /// Readable once the process has ended, also if a forked child keeps the connection open.
    process: Option<Rc<OwnedFd>>,
    seat: Option<Seat>,
}

/// The PE a connection has become.
struct Seat {
    job: u32,
    slot: u16,
    pe: usize,
    /// It said goodbye.
    orderly: bool,
}

impl Client {
    async fn serve(daemon: Rc<Daemon>, connection: Connection) -> io::Result<()> {
        let peer = connection.peer()?;
        let process = pidfd_open(peer.pid, PidfdFlags::empty()).ok().map(Rc::new);
        let (uid, pid) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero().get());
        let mut client = Client { daemon, connection: Rc::new(connection), uid, pid, process, seat: None };
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
                Datagram::Message(text) => match strict::from_slice(&text) {
                    Ok(request) => self.answer(request).await?,
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
                    tracing::warn!(message = f.message, "adapter request refused");
                    self.reply(&AdapterReply::Error(f), &[]).await?;
                }
            }
        }
    }

    async fn reply(&self, reply: &AdapterReply, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.connection.send(&serde_json::to_vec(reply)?, fds).await
    }

    /// Outer errors end the connection; inner ones are told to the client.
    async fn answer(&mut self, request: AdapterRequest) -> io::Result<Result<Option<AdapterReply>, Failure>> {
        if let AdapterRequest::Attach { abi, job, key, pe, statics } = request {
            return match self.claim(abi, job, &key, pe, &statics) {
                Ok((memory, pe, fds)) => self.hand_over(memory, pe, fds).await.map(|r| r.map(|()| None)),
                Err(f) => Ok(Err(f)),
            };
        }
        let Some(seat) = self.seat.as_mut().filter(|s| !s.orderly) else {
            return Ok(Err(failure("this connection is not attached to a job", "send an attach request first")));
        };
        let (slot, pe) = (seat.slot, seat.pe);
        let done = match request {
            AdapterRequest::Attach { .. } => unreachable!("handled above"),
            AdapterRequest::TreeOpen { root, pes } => {
                let job = seat.job;
                self.daemon.tree_open(job, slot, root, pes).await.map(|tree| AdapterReply::Tree { tree })
            }
            AdapterRequest::TreeClose { tree } => {
                let job = seat.job;
                let closed = self.daemon.data.call(move |engine| engine.tree_close(slot, tree)).await;
                if let (Ok(Ok(())), Some(span)) = (&closed, &self.daemon.span) {
                    let hosts = self.daemon.jobs.borrow().get(&job).map_or_else(Vec::new, |j| j.hosts.clone());
                    span.tell(&hosts, &Tell::TreeClose(job, tree));
                }
                closed.unwrap_or_else(|e| Err(e.to_string())).map(|()| AdapterReply::Ok)
            }
            AdapterRequest::Links { only } => {
                let report = self.daemon.full_report(seat.job).await;
                let links = report.map_or(vec![], |report| report.links);
                let mut load = Load::NONE;
                let asked = |l: &&LinkReport| only.as_ref().is_none_or(|(node, dir)| l.node == *node && l.dir == *dir);
                links.iter().filter(asked).flat_map(|l| l.load.values()).for_each(|l| load.add(*l));
                Ok(AdapterReply::Links { load })
            }
            AdapterRequest::Abort { status, mut reason } => {
                truncate(&mut reason, REASON_MAX);
                let job = seat.job;
                self.with_job(job, |j| {
                    tracing::info!(job, pe, status, reason, "a PE asked to end the job");
                    j.notes.push(format!("PE {pe} ended the job with status {status}: {reason}"));
                    j.set_ended();
                });
                self.daemon.spread(job, Event::Abort { job, pe: pe as u32, status, reason });
                Ok(AdapterReply::Ok)
            }
            AdapterRequest::Detach => {
                seat.orderly = true;
                self.unseat(false).await;
                Ok(AdapterReply::Ok)
            }
        };
        Ok(done.map(Some).map_err(|why| failure(why, "use point-to-point collectives (--collectives p2p)")))
    }

    fn with_job(&self, id: u32, f: impl FnOnce(&mut Job)) {
        if let Some(job) = self.daemon.jobs.borrow_mut().get_mut(&id) {
            f(job);
        }
    }

    /// Checks an attach request and makes the PE's own memory.
    fn claim(
        &mut self,
        abi: u32,
        id: u32,
        key: &str,
        pe: u32,
        statics: &[u64],
    ) -> Result<(Arc<JobMemory>, Arc<PeMemory>, PeFds), Failure> {
        if abi != ABI_VERSION {
            return Err(failure(
                format!("the program speaks ABI version {abi}, the daemon {ABI_VERSION}"),
                "rebuild the program, or use the library and the daemon of one release",
            ));
        }
        if let Some(seat) = &self.seat {
            return Err(failure(format!("this connection is PE {} already", seat.pe), "use one connection per PE"));
        }
        let mut jobs = self.daemon.jobs.borrow_mut();
        let job = jobs
            .get_mut(&id)
            .ok_or_else(|| failure(format!("there is no job {id}"), "start the program with `angara run`"))?;
        if job.uid != self.uid {
            return Err(failure(
                format!("job {id} belongs to user {}, this process to user {}", job.uid, self.uid),
                "run the program as the user who created the job",
            ));
        }
        if job.key != key {
            return Err(failure(format!("wrong key for job {id}"), "start the program with `angara run`"));
        }
        let index = pe as usize;
        let pes = job.pes.len();
        match job.pes.get(index) {
            None => {
                return Err(failure(
                    format!("PE {pe} is out of range: job {id} has {pes} PEs"),
                    format!("use PE 0 to {}", pes - 1),
                ));
            }
            Some(PeState::Waiting) if !job.memory.here[index] => {
                return Err(failure(
                    format!("PE {pe} of job {id} lives on another host"),
                    "start it there (`angara run` does)",
                ));
            }
            Some(PeState::Waiting) => {}
            Some(PeState::Attaching | PeState::Attached(_)) => {
                return Err(failure(
                    format!("PE {pe} of job {id} is attached already"),
                    "start one process per PE; a child process that uses SHMEM itself needs its own `angara run`",
                ));
            }
            Some(PeState::Gone) => {
                return Err(failure(
                    format!("PE {pe} of job {id} has already finished"),
                    "a job runs one program; start another job for the next one",
                ));
            }
        }
        let first = job.memory.statics().is_none();
        self.check_statics(&job.memory, statics)?;
        if let Some(span) = self.daemon.span.as_ref().filter(|_| first) {
            span.tell(&job.hosts, &Tell::Statics(id, statics.to_vec()));
        }
        let (memory, fds) = PeMemory::create(&job.memory, index).map_err(|e| {
            failure(
                format!("cannot create the memory of PE {pe}: {e}"),
                "free memory or descriptors, or start fewer PEs",
            )
        })?;
        job.pes[index] = PeState::Attaching;
        self.seat = Some(Seat { job: id, slot: job.memory.slot, pe: index, orderly: false });
        Ok((job.memory.clone(), Arc::new(memory), fds))
    }

    fn check_statics(&self, memory: &JobMemory, statics: &[u64]) -> Result<(), Failure> {
        if statics.len() > SEGMENTS_MAX {
            return Err(failure(
                format!("{} static segments; at most {SEGMENTS_MAX} are supported", statics.len()),
                "link fewer libraries with symmetric static data",
            ));
        }
        let stride = statics.iter().fold(0u64, |sum, &s| sum.saturating_add(s));
        let limits = limits::memory_limits(self.daemon.options.memory_limit);
        let bytes = check_memory(stride, memory.pes_here() as u32, &limits)?;
        memory.set_statics(statics, bytes).map_err(|e| match e {
            StaticsError::Malformed => failure(
                format!("{} are not whole pages", show_segments(statics)),
                "check that client and daemon are of the same version",
            ),
            StaticsError::Mismatch(first) => failure(
                format!(
                    "this process has {}, the first PE of job {} has {}: it runs a different executable",
                    show_segments(statics),
                    memory.id,
                    show_segments(&first)
                ),
                "run the same executable on every PE",
            ),
            StaticsError::Io(e) => failure(
                format!("cannot create the static memory of job {}: {e}", memory.id),
                "free memory, or start fewer PEs",
            ),
        })
    }

    /// Registers the channel with the data plane and sends the descriptors.
    async fn hand_over(
        &mut self,
        job: Arc<JobMemory>,
        pe: Arc<PeMemory>,
        fds: PeFds,
    ) -> io::Result<Result<(), Failure>> {
        let (slot, for_engine) = (job.slot, pe.clone());
        let csr = match self.daemon.data.call(move |engine| engine.attach(slot, for_engine)).await {
            Ok(Ok(csr)) => csr,
            Ok(Err(e)) => return Ok(Err(failure(format!("cannot attach PE {}: {e}", pe.pe), "start the job again"))),
            Err(dead) => return Ok(Err(failure(dead.to_string(), "restart the daemon"))),
        };
        // The job may have ended while the data plane was busy.
        let attached =
            Rc::new(Attached { connection: self.connection.clone(), process: self.process.clone(), pid: self.pid });
        self.with_job(job.id, |j| j.pes[pe.pe] = PeState::Attached(attached));
        job.page.set_attached(pe.pe, true);
        self.daemon.tell_attached(job.id, pe.pe, true);
        tracing::debug!(job = job.id, pe = pe.pe, "attached");
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
        self.reply(&AdapterReply::Attached { fds: roles }, &send).await?;
        Ok(Ok(()))
    }

    /// Takes the PE out of its job. `lost`: without a goodbye.
    async fn unseat(&mut self, lost: bool) {
        let Some(seat) = &self.seat else { return };
        let (id, slot, pe) = (seat.job, seat.slot, seat.pe);
        self.with_job(id, |job| {
            job.pes[pe] = PeState::Gone;
            job.memory.page.set_attached(pe, false);
            if lost {
                job.set_ended();
            }
        });
        self.daemon.tell_attached(id, pe, false);
        if self.daemon.data.call(move |engine| engine.detach(slot, pe, lost)).await.is_err() {
            tracing::debug!(job = id, pe, "the data plane is gone");
        }
        tracing::debug!(job = id, pe, lost, "detached");
        if lost {
            self.with_job(id, |job| {
                let node = job.memory.entries[pe].node;
                tracing::info!(job = id, pe, node, "PE lost");
                job.notes.push(format!("PE {pe} on node {node} was lost"));
            });
            let node = self.daemon.jobs.borrow().get(&id).map_or(0, |j| j.memory.entries[pe].node);
            self.daemon.spread(id, Event::PeLost { job: id, pe: pe as u32, node });
        }
    }

    async fn leave(&mut self) {
        if self.seat.as_ref().is_some_and(|s| !s.orderly) {
            self.unseat(true).await;
        }
    }
}

impl Daemon {
    /// Builds a tree and loads it on every host of the job; its TreeId. A tree another host has given to
    /// another job meanwhile is passed over.
    async fn tree_open(&self, job: u32, slot: u16, root: u32, pes: Vec<u32>) -> Result<u8, String> {
        let hosts = self.jobs.borrow().get(&job).map_or_else(Vec::new, |j| j.hosts.clone());
        let mut first = 0;
        'next: loop {
            let own = pes.clone();
            let load = move |engine: &mut crate::dataplane::Engine| {
                let tree = engine.tree_free(first)?;
                engine.tree_load(slot, tree, root as usize, &own).map(|()| tree)
            };
            let tree = self.data.call(load).await.unwrap_or_else(|e| Err(e.to_string()))?;
            let Some(span) = self.span.as_ref() else { return Ok(tree) };
            for (asked, host) in hosts.iter().enumerate() {
                if let Err(f) = span.ask(*host, Ask::TreeLoad(job, tree, root, pes.clone())).await {
                    tracing::debug!(job, tree, host = span.name(*host), why = f.message, "tree refused");
                    span.tell(&hosts[..asked], &Tell::TreeClose(job, tree));
                    self.data.spawn(move |engine| drop(engine.tree_close(slot, tree)));
                    first = tree + 1;
                    continue 'next;
                }
            }
            return Ok(tree);
        }
    }

    /// Tells the other hosts of a job that a PE has come or gone.
    fn tell_attached(&self, job: u32, pe: usize, on: bool) {
        if let (Some(span), Some(job_)) = (&self.span, self.jobs.borrow().get(&job)) {
            span.tell(&job_.hosts, &Tell::Attached(job, pe as u32, on));
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

fn truncate(text: &mut String, max: usize) {
    if text.len() > max {
        let end = (0..=max).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        text.truncate(end);
    }
}
