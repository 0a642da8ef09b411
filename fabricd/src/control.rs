//! The control socket: JSON lines from the `angara` command and from tests.
//!
//! One task per connection reads requests and answers them in order; a second one writes, so that
//! a client that stops reading holds up nobody but itself.

use crate::daemon::Daemon;
use crate::job::{Outgoing, Owner, Words};
use crate::placement::failure;
use crate::span::{Ask, Tell};
use crate::strict;
use abi::msg::{Failure, Line, MESSAGE_MAX, Reply, Request};
use std::cell::Cell;
use std::rc::Rc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

/// Events kept for a connection that does not read.
const BACKLOG: usize = 4096;

/// Accepts connections for ever.
pub(crate) async fn listen(daemon: Rc<Daemon>, listener: UnixListener) {
    for connection in 1u64.. {
        match listener.accept().await {
            Ok((stream, _)) => {
                daemon.connection_opened();
                let daemon = daemon.clone();
                tokio::task::spawn_local(async move {
                    serve(&daemon, connection, stream).await;
                    daemon.connection_closed(connection).await;
                });
            }
            Err(e) => {
                tracing::error!(error = %e, "cannot accept a control connection");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(daemon: &Rc<Daemon>, connection: u64, stream: UnixStream) {
    let peer = stream.peer_cred();
    let (read, write) = stream.into_split();
    let (lines, queue) = mpsc::channel(BACKLOG);
    let writer = tokio::task::spawn_local(write_lines(write, queue));
    match peer {
        Ok(peer) => {
            let owner = Owner { connection, pid: peer.pid(), lines };
            let client = Client { daemon, uid: peer.uid(), owner, shutdown: Cell::new(false), relay: Cell::new(None) };
            client.read_requests(BufReader::new(read)).await;
        }
        Err(e) => tracing::warn!(error = %e, "cannot tell who connected to the control socket"),
    }
    // Jobs of this connection still hold senders; its writer has nobody left to write to.
    writer.abort();
}

async fn write_lines(mut stream: OwnedWriteHalf, mut queue: mpsc::Receiver<Outgoing>) {
    while let Some(Outgoing { words, written }) = queue.recv().await {
        let text = match words {
            Words::Raw(bytes) => bytes,
            Words::Line(line) => match serde_json::to_vec(&line) {
                Ok(mut text) => {
                    text.push(b'\n');
                    text
                }
                Err(e) => {
                    tracing::error!(error = %e, "cannot encode a reply");
                    continue;
                }
            },
        };
        if stream.write_all(&text).await.is_err() {
            return;
        }
        if let Some(written) = written {
            // The reader may have gone meanwhile.
            let _ = written.send(());
        }
    }
}

struct Client<'d> {
    daemon: &'d Rc<Daemon>,
    uid: u32,
    owner: Owner,
    /// Shut down once the answer is written.
    shutdown: Cell<bool>,
    /// Become a stream once the answer is written.
    relay: Cell<Option<Relay>>,
}

/// A stream to another host that a connection is about to become.
struct Relay {
    host: u16,
    stream: u64,
    incoming: mpsc::UnboundedReceiver<Vec<u8>>,
}

impl Client<'_> {
    async fn read_requests(&self, mut stream: BufReader<OwnedReadHalf>) {
        let mut line = Vec::new();
        loop {
            line.clear();
            let got = (&mut stream).take(MESSAGE_MAX as u64 + 1).read_until(b'\n', &mut line).await;
            if !matches!(got, Ok(n) if n > 0) {
                return;
            }
            let too_long = line.len() > MESSAGE_MAX;
            let reply = match too_long {
                true => Err(failure(
                    format!("a request line is longer than {MESSAGE_MAX} bytes"),
                    "send one JSON request per line",
                )),
                false => self.answer(&line).await,
            };
            // The next request is read when this answer is written: a client that does not read
            // makes the daemon keep one answer, not thousands.
            let (written, on_written) = oneshot::channel();
            let line = Line::Reply(reply.unwrap_or_else(Reply::Error));
            let out = Outgoing { words: Words::Line(line), written: Some(written) };
            if self.owner.lines.send(out).await.is_err() || on_written.await.is_err() {
                return;
            }
            if self.shutdown.get() {
                self.daemon.stop.notify_one();
            }
            if let Some(relay) = self.relay.take() {
                return self.relay(relay, stream).await;
            }
            if too_long {
                return;
            }
        }
    }

    /// Passes bytes between this connection and another host until both sides have ended.
    async fn relay(&self, mut relay: Relay, from: BufReader<OwnedReadHalf>) {
        let Some(span) = &self.daemon.span else { return };
        let (host, id) = (relay.host, relay.stream);
        let back = async {
            while let Some(bytes) = relay.incoming.recv().await {
                let taken = bytes.len() as u32;
                let (written, on_written) = oneshot::channel();
                let out = Outgoing { words: Words::Raw(bytes), written: Some(written) };
                if self.owner.lines.send(out).await.is_err() || on_written.await.is_err() {
                    return;
                }
                span.tell(&[host], &Tell::StreamTaken(id, taken));
            }
        };
        let there = async {
            self.daemon.streams.send_all(span, id, from).await;
            // The other side still has its last words.
            std::future::pending().await
        };
        tokio::select! {
            () = back => {}
            () = there => {}
        }
        span.tell(&[host], &Tell::StreamEnd(id));
        self.daemon.streams.close(id);
    }

    async fn start_agent(&self, job: u32, name: &str) -> Result<Reply, Failure> {
        let span = self.daemon.span.as_ref();
        let found = span.and_then(|s| Some((s, s.index(name)?))).filter(|(s, host)| *host != s.me);
        let (span, host) = found.ok_or_else(|| {
            failure(format!("`{name}` is no other host of a cluster"), "see `angara cluster status` for the hosts")
        })?;
        let stream = span.fresh();
        let incoming = self.daemon.streams.open(stream, host);
        match span.ask(host, Ask::Agent(job, stream)).await {
            Ok(_) => {
                self.relay.set(Some(Relay { host, stream, incoming }));
                Ok(Reply::Ok)
            }
            Err(f) => {
                self.daemon.streams.close(stream);
                Err(Failure { message: format!("host {name}: {}", f.message), ..f })
            }
        }
    }

    async fn answer(&self, line: &[u8]) -> Result<Reply, Failure> {
        let request: Request = strict::from_slice(line).map_err(|e| {
            failure(
                format!("this is not a control request: {e}"),
                "send one JSON object with a `cmd`, such as {\"cmd\":\"status\"}; \
                 check that client and daemon are of the same version",
            )
        })?;
        let daemon = self.daemon;
        match request {
            Request::Status => Ok(Reply::Status(daemon.status().await)),
            Request::JobCreate(spec) => daemon.create_job(self.uid, self.owner.clone(), spec).await,
            Request::JobAttach { job, key } => self.take_over(job, &key),
            Request::JobAgent { job, host } => {
                self.check_owner(job)?;
                self.start_agent(job, &host).await
            }
            Request::JobReport { job } => {
                self.check_owner(job)?;
                daemon.full_report(job).await.map(Reply::Report).ok_or_else(|| unknown_job(job))
            }
            Request::JobWaits { job } => {
                self.check_owner(job)?;
                daemon.all_waits(job).await.map(|waits| Reply::Waits { waits }).ok_or_else(|| unknown_job(job))
            }
            Request::JobDestroy { job } => {
                self.check_owner(job)?;
                let report = daemon.full_report(job).await.ok_or_else(|| unknown_job(job))?;
                daemon.end_job_everywhere(job).await;
                Ok(Reply::Report(report))
            }
            Request::Counters => {
                let links = daemon.data.call(|engine| engine.counters()).await;
                Ok(Reply::Counters { links: links.map_err(|e| failure(e.to_string(), "restart the daemon"))? })
            }
            Request::FaultSet { spec } => {
                self.check_operator("set faults")?;
                daemon.set_fault(&spec).await.map(|()| Reply::Ok)
            }
            Request::FaultClear { spec } => {
                self.check_operator("clear faults")?;
                daemon.clear_fault(&spec).await.map(|()| Reply::Ok)
            }
            Request::Cluster => daemon.cluster_status().await.map(Reply::Cluster).ok_or_else(|| {
                failure(
                    "this daemon is no part of a cluster",
                    "start it with --cluster FILE --host NAME; `angara cluster init` writes the file",
                )
            }),
            Request::KeysReload => {
                self.check_operator("change the keys")?;
                daemon.reload_keys().await
            }
            Request::Shutdown => {
                self.check_operator("shut the daemon down")?;
                self.shutdown.set(true);
                Ok(Reply::Ok)
            }
        }
    }

    fn take_over(&self, id: u32, key: &str) -> Result<Reply, Failure> {
        self.check_owner(id)?;
        let mut jobs = self.daemon.jobs.borrow_mut();
        let job = jobs.get_mut(&id).ok_or_else(|| unknown_job(id))?;
        if job.key != key {
            return Err(failure(format!("wrong key for job {id}"), "use the key the job was created with"));
        }
        job.owner = self.owner.clone();
        Ok(Reply::Ok)
    }

    /// A job belongs to the user who created it; the superuser and the daemon's user may act too.
    fn check_owner(&self, id: u32) -> Result<(), Failure> {
        let jobs = self.daemon.jobs.borrow();
        let job = jobs.get(&id).ok_or_else(|| unknown_job(id))?;
        match self.uid == job.uid || self.is_operator() {
            true => Ok(()),
            false => Err(failure(
                format!("job {id} belongs to user {}, not to user {}", job.uid, self.uid),
                "ask as the user who created it",
            )),
        }
    }

    fn is_operator(&self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }

    fn check_operator(&self, what: &str) -> Result<(), Failure> {
        match self.is_operator() {
            true => Ok(()),
            false => Err(failure(format!("user {} may not {what}", self.uid), "ask as the user who runs the daemon")),
        }
    }
}

fn unknown_job(id: u32) -> Failure {
    failure(format!("there is no job {id}"), "see `angara status` for the jobs that run")
}
