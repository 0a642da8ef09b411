//! The control socket: JSON lines from the `angara` command and from tests.
//!
//! One task per connection reads requests and answers them in order; a second one writes, so that
//! a client that stops reading holds up nobody but itself. What a user may have of all this is limited, see
//! [`crate::users::quota`]: connections, bytes of requests that are not whole and of answers that are not read, and requests
//! that are worked on at once, so that the others, and whoever asks whether the daemon lives, get their turns.

use super::capture::Capture;
use super::strict_json;
use crate::aside::aside;
use crate::ask::ask;
use crate::daemon::Daemon;
use crate::failure::failure;
use crate::faults::ledger::By;
use crate::hosts::protocol::{Ask, Tell};
use crate::jobs::job::{Outgoing, Owner, Words};
use crate::users::quota::Limit;
use crate::users::usage::{SpareFds, User, UserConnection, is_operator};
use angara_abi::JobId;
use angara_net::HostId;
use angara_net::units::show_bytes;
use angara_plane::Command;
use angara_protocol::msg::{CaptureSpec, Failure, Line, MESSAGE_MAX, Reply, Request};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, UCred};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{SemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;

/// Events kept for a connection that does not read: more than the largest job has.
const BACKLOG: usize = 4 * angara_abi::job::PES_MAX;
/// Who takes nothing of a waiting answer for so long, or sends nothing more of a request, is not served any more.
const SLOW: Duration = Duration::from_secs(60);
/// Entries of a report from which on it is made to text on a thread of its own.
const LARGE: usize = 10_000;

/// Accepts connections for ever.
pub(crate) async fn listen(daemon: Rc<Daemon>, listener: UnixListener) {
    let mut spare = SpareFds::new();
    for connection in 1u64.. {
        let (stream, short) = match spare.accept(|| listener.accept()).await {
            Ok(((stream, _), short)) => (stream, short),
            Err(e) => {
                tracing::error!(error = %e, "cannot accept a control connection");
                tokio::time::sleep(super::PAUSE).await;
                continue;
            }
        };
        match admit(&daemon, &stream, short.then_some(&spare)) {
            Ok((connected, peer)) => {
                daemon.connection_opened();
                let daemon = daemon.clone();
                tokio::task::spawn_local(async move {
                    serve(&daemon, connection, &connected, peer, stream).await;
                    daemon.connection_closed(connection).await;
                });
            }
            Err(f) => turn_away(stream, f),
        }
    }
}

/// Tells whether a new connection is served. `spare`: the descriptors kept, if this connection has taken one.
fn admit(daemon: &Daemon, stream: &UnixStream, spare: Option<&SpareFds>) -> Result<(UserConnection, UCred), Failure> {
    let peer = stream.peer_cred().map_err(|e| failure(format!("the system does not say who you are: {e}"), ""))?;
    let admitted = spare.map_or(Ok(()), |spare| spare.admit(is_operator(peer.uid())));
    admitted.and_then(|()| daemon.enter(peer.uid())).map(|connected| (connected, peer)).inspect_err(|f| {
        daemon.log_of(peer.uid(), |left_out| {
            tracing::warn!(uid = peer.uid(), message = f.message, left_out, "control connection refused");
        });
    })
}

/// Says why nobody is served; a client that comes with full buffers is told nothing.
fn turn_away(stream: UnixStream, f: Failure) {
    let line = line(&Line::Reply(Reply::Error(f)));
    let _ = stream.try_write(&line);
}

async fn serve(daemon: &Rc<Daemon>, connection: u64, connected: &UserConnection, peer: UCred, stream: UnixStream) {
    let (read, write) = stream.into_split();
    let (lines, queue) = mpsc::channel(BACKLOG);
    let writer = tokio::task::spawn_local(write_lines(write, queue));
    let owner = Owner { connection, pid: peer.pid(), lines, overrun: Rc::default(), gone: Rc::default() };
    let (shutdown, relay, capture) = (Cell::new(false), Cell::new(None), Cell::new(None));
    let client = Client { daemon, uid: peer.uid(), user: &connected.user, owner, shutdown, relay, capture };
    if let Ended::Overrun = client.serve_requests(BufReader::new(read)).await {
        daemon.log_of(peer.uid(), |left_out| {
            tracing::warn!(uid = peer.uid(), left_out, "a control connection does not take its events; it is closed");
        });
    }
    // Jobs of this connection still hold senders; its writer has nobody left to write to.
    writer.abort();
}

/// A message as it is sent.
fn line(line: &Line) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).expect("messages are plain data");
    text.push(b'\n');
    text
}

async fn write_lines(mut stream: OwnedWriteHalf, mut queue: mpsc::Receiver<Outgoing>) {
    while let Some(Outgoing { words, written }) = queue.recv().await {
        let sent = match words {
            Words::Raw(bytes) => stream.write_all(&bytes).await.is_ok(),
            Words::Event(event) => stream.write_all(&line(&Line::Event(event))).await.is_ok(),
            Words::Answer(text) => write_soon(&mut stream, &text).await,
        };
        if !sent {
            return;
        }
        if let Some(written) = written {
            // The reader may have gone meanwhile.
            let _ = written.send(());
        }
    }
}

/// Writes to somebody who reads; false if he does not, or is gone.
async fn write_soon(stream: &mut OwnedWriteHalf, mut text: &[u8]) -> bool {
    while !text.is_empty() {
        match timeout(SLOW, stream.write(text)).await {
            Ok(Ok(n @ 1..)) => text = &text[n..],
            _ => return false,
        }
    }
    true
}

/// A request as it came in, and the bytes that are held for it.
enum Asked<'g> {
    /// The client has gone.
    End,
    /// It cannot be a request: why.
    Wrong(Failure),
    Whole(Vec<u8>, Option<SemaphorePermit<'g>>),
}

/// Why a connection is not served any more.
enum Ended {
    /// The client has gone.
    Gone,
    /// It does not take its events.
    Overrun,
}

struct Client<'d> {
    daemon: &'d Rc<Daemon>,
    uid: u32,
    user: &'d User,
    owner: Owner,
    /// Shut down once the answer is written.
    shutdown: Cell<bool>,
    /// Become a stream once the answer is written.
    relay: Cell<Option<Relay>>,
    /// Become a stream of packets once the answer is written.
    capture: Cell<Option<Capture>>,
}

/// A stream to another host that a connection is about to become.
struct Relay {
    host: HostId,
    stream: u64,
    incoming: mpsc::UnboundedReceiver<Vec<u8>>,
}

impl Client<'_> {
    /// Serves one request after the other. One that is worked for is done before the connection ends: half a job would
    /// keep its places.
    async fn serve_requests(&self, mut stream: BufReader<OwnedReadHalf>) -> Ended {
        loop {
            let asked = tokio::select! {
                asked = self.read_line(&mut stream) => asked,
                () = self.owner.overrun.notified() => return Ended::Overrun,
            };
            let (answer, wrong) = match asked {
                Asked::End => return Ended::Gone,
                Asked::Wrong(f) => (line(&Line::Reply(Reply::Error(f))), true),
                Asked::Whole(text, held) => (self.work(text, held, &mut stream).await, false),
            };
            tokio::select! {
                written = self.write(answer) => if !written || wrong { return Ended::Gone },
                () = self.owner.overrun.notified() => return Ended::Overrun,
            }
            if self.shutdown.get() {
                self.daemon.stop.notify_one();
            }
            if let Some(capture) = self.capture.take() {
                tokio::select! {
                    () = self.hand_out(capture, stream) => return Ended::Gone,
                    () = self.owner.overrun.notified() => return Ended::Overrun,
                }
            }
            if let Some(relay) = self.relay.take() {
                tokio::select! {
                    () = self.relay(relay, stream) => return Ended::Gone,
                    () = self.owner.overrun.notified() => return Ended::Overrun,
                }
            }
        }
    }

    /// Works for a request, and watches meanwhile whether the client still waits for the answer.
    async fn work(
        &self,
        text: Vec<u8>,
        held: Option<SemaphorePermit<'_>>,
        stream: &mut BufReader<OwnedReadHalf>,
    ) -> Vec<u8> {
        let mut answer = pin!(self.take_turn(text, held));
        tokio::select! {
            answer = &mut answer => return answer,
            more = stream.fill_buf() => if matches!(more, Ok([]) | Err(_)) {
                self.owner.gone.notify_one();
            }
        }
        answer.await
    }

    /// Writes an answer; false if there is nobody to take it. The next request is read when this answer is written: a
    /// client that does not read makes the daemon keep one answer, not thousands.
    async fn write(&self, answer: Vec<u8>) -> bool {
        let most = self.daemon.users.limits().get(Limit::Pending).min(answer.len() as u64);
        // Closed by nobody.
        let _held = self.user.answered.acquire_many(most as u32).await;
        let (written, on_written) = oneshot::channel();
        let out = Outgoing { words: Words::Answer(answer), written: Some(written) };
        self.owner.lines.send(out).await.is_ok() && on_written.await.is_ok()
    }

    /// The next request. What has come of one that is not whole counts for its user.
    async fn read_line(&self, stream: &mut BufReader<OwnedReadHalf>) -> Asked<'_> {
        let (mut text, mut held) = (Vec::new(), None::<SemaphorePermit<'_>>);
        loop {
            let more = match text.is_empty() {
                true => stream.fill_buf().await,
                false => match timeout(SLOW, stream.fill_buf()).await {
                    Ok(more) => more,
                    Err(_) => {
                        let what = format!("half a request, and nothing more of it for {} s", SLOW.as_secs());
                        return Asked::Wrong(failure(what, "send whole lines"));
                    }
                },
            };
            let (n, whole) = match more {
                Err(_) => return Asked::End,
                Ok([]) if text.is_empty() => return Asked::End,
                Ok([]) => return Asked::Whole(text, held),
                Ok(bytes) => {
                    let end = bytes.iter().position(|b| *b == b'\n');
                    let n = end.map_or(bytes.len(), |at| at + 1);
                    text.extend_from_slice(&bytes[..n]);
                    (n, end.is_some())
                }
            };
            stream.consume(n);
            if text.len() > MESSAGE_MAX {
                return Asked::Wrong(failure(
                    format!("a request line is longer than {MESSAGE_MAX} bytes"),
                    "send one JSON request per line",
                ));
            }
            let Ok(more) = self.user.asked.try_acquire_many(n as u32) else {
                let most = show_bytes(self.daemon.users.limits().get(Limit::Pending));
                return Asked::Wrong(failure(
                    format!("user {} has sent {most} of requests that wait or are not whole", self.uid),
                    format!("send whole lines, or {}", self.daemon.users.raise(Limit::Pending)),
                ));
            };
            match &mut held {
                Some(held) => held.merge(more),
                None => held = Some(more),
            }
            if whole {
                return Asked::Whole(text, held);
            }
        }
    }

    /// Works for a request when it is this user's turn; the answer as text.
    async fn take_turn(&self, text: Vec<u8>, held: Option<SemaphorePermit<'_>>) -> Vec<u8> {
        let request = self.parse(&text);
        drop((text, held));
        let elsewhere = self.daemon.cluster.messages.is_some() && request.as_ref().is_ok_and(waits_for_hosts);
        // Closed by nobody. What waits for other hosts leaves its turn to others.
        let _turn = if elsewhere { None } else { self.user.turns.acquire().await.ok() };
        let answer = match request {
            Ok(request) => self.answer(request).await,
            Err(f) => Err(f),
        };
        let answer = Line::Reply(answer.unwrap_or_else(Reply::Error));
        if entries(&answer) < LARGE {
            return line(&answer);
        }
        // Nobody else waits while millions of figures become text.
        let answer = Arc::new(answer);
        let shared = answer.clone();
        aside(move || line(&shared)).await.unwrap_or_else(|_| line(&answer))
    }

    fn parse(&self, text: &[u8]) -> Result<Request, Failure> {
        strict_json::from_slice(text).map_err(|e| {
            failure(
                format!("this is not a control request: {e}"),
                "send one JSON object with a `cmd`, such as {\"cmd\":\"status\"}; \
                 check that client and daemon are of the same version",
            )
        })
    }

    /// Passes bytes between this connection and another host until both sides have ended.
    async fn relay(&self, mut relay: Relay, from: BufReader<OwnedReadHalf>) {
        let Some(messages) = &self.daemon.cluster.messages else { return };
        let (host, id) = (relay.host, relay.stream);
        let back = async {
            while let Some(bytes) = relay.incoming.recv().await {
                let taken = bytes.len();
                let (written, on_written) = oneshot::channel();
                let out = Outgoing { words: Words::Raw(bytes), written: Some(written) };
                if self.owner.lines.send(out).await.is_err() || on_written.await.is_err() {
                    return;
                }
                self.daemon.cluster.streams.take(messages, id, taken);
            }
        };
        let there = async {
            self.daemon.cluster.streams.send_all(messages, id, from).await;
            // The other side still has its last words.
            std::future::pending().await
        };
        tokio::select! {
            () = back => {}
            () = there => {}
        }
        messages.tell(&[host], &Tell::StreamEnd(id));
        self.daemon.cluster.streams.close(id);
    }

    /// Writes what a capture hears until it ends, or until the client has sent its last byte.
    async fn hand_out(&self, capture: Capture, mut from: BufReader<OwnedReadHalf>) {
        let mut asked = true;
        loop {
            let bytes = tokio::select! {
                bytes = capture.take() => bytes,
                read = from.fill_buf(), if asked => {
                    let n = read.map_or(0, <[u8]>::len);
                    from.consume(n);
                    if n == 0 {
                        asked = false;
                        capture.end();
                    }
                    continue;
                }
            };
            let Some(bytes) = bytes else { return };
            let (written, on_written) = oneshot::channel();
            let out = Outgoing { words: Words::Raw(bytes), written: Some(written) };
            if self.owner.lines.send(out).await.is_err() || on_written.await.is_err() {
                return;
            }
        }
    }

    /// The host of this name, unless it is the one here, or none is named.
    fn other_host(&self, name: Option<&str>) -> Result<Option<HostId>, Failure> {
        let Some(name) = name else { return Ok(None) };
        let messages = self.daemon.cluster.messages.as_ref();
        let found = messages.and_then(|messages| Some((messages.index(name)?, messages.me)));
        let (host, me) = found.ok_or_else(|| {
            failure(format!("`{name}` is no host of a cluster"), "see `angara cluster status` for the hosts")
        })?;
        Ok(Some(host).filter(|host| *host != me))
    }

    async fn start_agent(&self, job: JobId, name: &str) -> Result<Reply, Failure> {
        let host = self.other_host(Some(name))?.ok_or_else(|| {
            failure(format!("`{name}` is no other host of a cluster"), "see `angara cluster status` for the hosts")
        })?;
        self.become_stream(host, |stream| Ask::Agent(job, stream)).await
    }

    /// Has another host capture for this user, who must be the same there.
    async fn capture_there(&self, host: HostId, spec: CaptureSpec) -> Result<Reply, Failure> {
        let user = self.daemon.machine.user(self.uid).await;
        self.become_stream(host, |stream| Ask::Capture(self.uid, user, Box::new(spec), stream)).await
    }

    /// Asks a host for something whose other end this connection becomes.
    async fn become_stream(&self, host: HostId, ask: impl FnOnce(u64) -> Ask) -> Result<Reply, Failure> {
        let Some(messages) = &self.daemon.cluster.messages else {
            return Err(failure("this daemon has no other hosts", ""));
        };
        let stream = messages.fresh();
        let incoming = self.daemon.cluster.streams.open(stream, host);
        match messages.ask(host, ask(stream)).await {
            Ok(_) => {
                self.relay.set(Some(Relay { host, stream, incoming }));
                Ok(Reply::Ok)
            }
            Err(f) => {
                // Should it answer after all, nobody takes what comes.
                messages.tell(&[host], &Tell::StreamEnd(stream));
                self.daemon.cluster.streams.close(stream);
                Err(Failure { message: format!("host {}: {}", messages.name(host), f.message), ..f })
            }
        }
    }

    async fn answer(&self, request: Request) -> Result<Reply, Failure> {
        let daemon = self.daemon;
        match request {
            Request::Status => Ok(Reply::Status(daemon.status().await)),
            Request::JobCreate(spec) if spec.open => {
                Err(failure("a domain is made by the processes that join it", "leave `open` out"))
            }
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
            Request::JobPairs { job, from, to } => {
                self.check_owner(job)?;
                daemon.all_pairs(job, (from, to)).await.map(Reply::Pairs).ok_or_else(|| unknown_job(job))
            }
            Request::JobTimes { job, from } => {
                self.check_owner(job)?;
                Ok(Reply::Times(daemon.times_piece(from).await))
            }
            Request::JobRemember { job } => {
                self.check_owner(job)?;
                daemon.begin_history(job).await.map(|()| Reply::Ok)
            }
            Request::JobHistory { job, after } => {
                self.check_owner(job)?;
                daemon.history(job, after).await.map(Reply::History)
            }
            Request::JobWaits { job } => {
                self.check_owner(job)?;
                daemon.ask_for_waits().await;
                daemon.all_waits(job).await.map(|waits| Reply::Waits { waits }).ok_or_else(|| unknown_job(job))
            }
            Request::JobDestroy { job } => {
                self.check_owner(job)?;
                daemon.end_job_everywhere(job).await;
                Ok(Reply::Ok)
            }
            Request::Capture(spec) => match self.other_host(spec.host.as_deref())? {
                Some(host) => self.capture_there(host, spec).await,
                None => self.capture_here(&spec).await,
            },
            Request::Clock { host } => {
                let ns = daemon.clock(self.other_host(Some(&host))?).await?;
                Ok(Reply::Clock { ns })
            }
            Request::Counters => self.counters().await,
            Request::LinkLoads => self.link_loads().await,
            Request::Fault { command } => {
                self.check_operator("set faults")?;
                daemon.do_fault(By::Command(self.uid), command).await.map(|()| Reply::Ok)
            }
            Request::Cluster => self.cluster().await,
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

    async fn capture_here(&self, spec: &CaptureSpec) -> Result<Reply, Failure> {
        self.capture.set(Some(self.daemon.capture(self.uid, spec).await?));
        Ok(Reply::Ok)
    }

    async fn counters(&self) -> Result<Reply, Failure> {
        let links = ask(&self.daemon.data, Command::Counters).await;
        Ok(Reply::Counters { links: links.map_err(|e| failure(e.to_string(), "restart the daemon"))? })
    }

    async fn link_loads(&self) -> Result<Reply, Failure> {
        let loads = self.daemon.link_loads().await;
        loads.map(Reply::LinkLoads).map_err(|e| failure(e.to_string(), "restart the daemon"))
    }

    async fn cluster(&self) -> Result<Reply, Failure> {
        self.daemon.cluster_status().await.map(Reply::Cluster).ok_or_else(|| {
            failure(
                "this daemon is no part of a cluster",
                "start it with --cluster FILE --host NAME; `angara cluster init` writes the file",
            )
        })
    }

    fn take_over(&self, id: JobId, key: &str) -> Result<Reply, Failure> {
        self.check_owner(id)?;
        let mut jobs = self.daemon.jobs.table.borrow_mut();
        let job = jobs.get_mut(&id).ok_or_else(|| unknown_job(id))?;
        if job.key != key {
            return Err(failure(format!("wrong key for job {id}"), "use the key the job was created with"));
        }
        job.owner = self.owner.clone();
        Ok(Reply::Ok)
    }

    fn check_owner(&self, id: JobId) -> Result<(), Failure> {
        self.daemon.check_owner(self.uid, id)
    }

    fn is_operator(&self) -> bool {
        is_operator(self.uid)
    }

    fn check_operator(&self, what: &str) -> Result<(), Failure> {
        match self.is_operator() {
            true => Ok(()),
            false => Err(failure(format!("user {} may not {what}", self.uid), "ask as the user who runs the daemon")),
        }
    }
}

/// Such a request asks other hosts of a cluster, and may wait long for one that is about to be lost.
fn waits_for_hosts(request: &Request) -> bool {
    use Request::{Capture, Cluster, Counters, JobAttach, LinkLoads, Status};
    match request {
        Status | Counters | LinkLoads | Cluster | JobAttach { .. } => false,
        Capture(spec) => spec.host.is_some(),
        _ => true,
    }
}

/// How large an answer is.
fn entries(answer: &Line) -> usize {
    match answer {
        Line::Reply(Reply::Report(report)) => report.pairs.len() + report.links.len(),
        Line::Reply(Reply::Counters { links }) => links.len(),
        Line::Reply(Reply::LinkLoads(loads)) => loads.flits.len(),
        Line::Reply(Reply::History(piece)) => piece.frames.iter().map(|frame| frame.links.len()).sum(),
        Line::Reply(Reply::Times(piece)) => piece.waits.len() + piece.routines.len() + piece.links.len(),
        _ => 0,
    }
}

fn unknown_job(id: JobId) -> Failure {
    failure(format!("there is no job {id}"), "see `angara status` for the jobs that run")
}
