//! The control socket: JSON lines from the `angara` command and from tests.
//!
//! One task per connection reads requests and answers them in order; a second one writes, so that
//! a client that stops reading holds up nobody but itself.

use crate::daemon::Daemon;
use crate::fault::{ClearSpec, FaultSpec};
use crate::job::{Outgoing, Owner};
use crate::placement::failure;
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
            let client = Client { daemon, uid: peer.uid(), owner, shutdown: Cell::new(false) };
            client.read_requests(BufReader::new(read)).await;
        }
        Err(e) => tracing::warn!(error = %e, "cannot tell who connected to the control socket"),
    }
    // Jobs of this connection still hold senders; its writer has nobody left to write to.
    writer.abort();
}

async fn write_lines(mut stream: OwnedWriteHalf, mut queue: mpsc::Receiver<Outgoing>) {
    while let Some(Outgoing { line, written }) = queue.recv().await {
        let mut text = match serde_json::to_vec(&line) {
            Ok(text) => text,
            Err(e) => {
                tracing::error!(error = %e, "cannot encode a reply");
                continue;
            }
        };
        text.push(b'\n');
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
            let out = Outgoing { line: Line::Reply(reply.unwrap_or_else(Reply::Error)), written: Some(written) };
            if self.owner.lines.send(out).await.is_err() || on_written.await.is_err() {
                return;
            }
            if self.shutdown.get() {
                self.daemon.stop.notify_one();
            }
            if too_long {
                return;
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
            Request::JobReport { job } => {
                self.check_owner(job)?;
                daemon.report(job).await.map(Reply::Report).ok_or_else(|| unknown_job(job))
            }
            Request::JobWaits { job } => {
                self.check_owner(job)?;
                daemon.waits(job).map(|waits| Reply::Waits { waits }).ok_or_else(|| unknown_job(job))
            }
            Request::JobDestroy { job } => {
                self.check_owner(job)?;
                let report = daemon.report(job).await.ok_or_else(|| unknown_job(job))?;
                daemon.end_job(job).await;
                Ok(Reply::Report(report))
            }
            Request::Counters => {
                let links = daemon.data.call(|engine| engine.counters()).await;
                Ok(Reply::Counters { links: links.map_err(|e| failure(e.to_string(), "restart the daemon"))? })
            }
            Request::FaultSet { spec } => {
                self.check_operator("set faults")?;
                let fault = FaultSpec::parse(&spec, daemon.options.shape).map_err(bad_fault)?;
                self.engine_says(daemon.data.call(move |engine| engine.set_fault(fault)).await)
            }
            Request::FaultClear { spec } => {
                self.check_operator("clear faults")?;
                let what = ClearSpec::parse(&spec, daemon.options.shape).map_err(bad_fault)?;
                self.engine_says(daemon.data.call(move |engine| engine.clear_fault(what)).await)
            }
            Request::Cluster => Err(failure(
                "this daemon is no part of a cluster",
                "start it with --cluster FILE --host NAME; `angara cluster init` writes the file",
            )),
            Request::Shutdown => {
                self.check_operator("shut the daemon down")?;
                self.shutdown.set(true);
                Ok(Reply::Ok)
            }
        }
    }

    fn engine_says(&self, r: Result<Result<(), String>, crate::dataplane::Dead>) -> Result<Reply, Failure> {
        match r {
            Ok(Ok(())) => Ok(Reply::Ok),
            Ok(Err(why)) => Err(failure(why, "see `angara status` for the faults in force")),
            Err(dead) => Err(failure(dead.to_string(), "restart the daemon")),
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

fn bad_fault(e: crate::fault::FaultError) -> Failure {
    failure(e.brief(), format!("write {}", crate::fault::FORMS))
}

fn unknown_job(id: u32) -> Failure {
    failure(format!("there is no job {id}"), "see `angara status` for the jobs that run")
}
